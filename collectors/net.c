/*
 * Network interfaces, from /proc/net/dev: those of the network namespace in which watopd was started.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"

enum { NAME_BYTES = 32 /* IFNAMSIZ is 16 */, FIELDS = 16, TX = 8 /* receive has 8 fields, transmit follows */ };

struct net {
        struct procfs_file dev;
        char *buffer;
        size_t capacity;
};

static int net_open(struct procfs *p, void **own)
{
        struct net *n = calloc(1, sizeof *n);
        if (!n)
                return -ENOMEM;
        procfs_file_init(&n->dev, "proc/net/dev");
        *own = n;
        return 0;
}

static void net_close(void *own)
{
        struct net *n = own;
        if (!n)
                return;
        procfs_file_close(&n->dev);
        free(n->buffer);
        free(n);
}

/* "  eth0: bytes packets errs drop fifo frame compressed multicast  bytes packets errs drop ...". A name holds no colon (net/core/dev.c,
 * dev_valid_name); the two lines of heads have none either. */
static void parse_line(struct tick *t, struct scan *line)
{
        static const struct { int metric; unsigned field; } slots[] = {
                { NET_RX_BYTES, 0 }, { NET_RX_PACKETS, 1 }, { NET_RX_ERRORS, 2 }, { NET_RX_DROPPED, 3 },
                { NET_TX_BYTES, TX }, { NET_TX_PACKETS, TX + 1 }, { NET_TX_ERRORS, TX + 2 }, { NET_TX_DROPPED, TX + 3 },
        };
        uint64_t value[FIELDS];
        unsigned fields = 0;
        while (line->at < line->end && *line->at == ' ')
                line->at++;
        const char *name = line->at, *colon = memchr(line->at, ':', (size_t)(line->end - line->at));
        if (!colon || colon == name || colon - name >= NAME_BYTES)
                return;
        size_t length = (size_t)(colon - name);
        line->at = colon + 1;
        while (fields < FIELDS && scan_u64(line, &value[fields]))
                fields++;
        struct row *row = fields == 0 ? NULL : sample_row(t->sample, SCOPE_NET, key_of_name(name, length, 0), 0);
        if (!row)
                return;
        if (row_is_new(row))
                row_text(row, NET_NAME, name, length);
        for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
                if (slots[i].field < fields)
                        row_set(row, slots[i].metric, value[slots[i].field]);
                else
                        row_absent(row, slots[i].metric);
        }
}

static int net_collect(void *own, struct tick *t)
{
        struct net *n = own;
        struct scan s, line;
        sample_scope_begin(t->sample, SCOPE_NET, procfs_mono(t->procfs));
        ssize_t length = procfs_file_read(t->procfs, &n->dev, &n->buffer, &n->capacity);
        scan_init(&s, n->buffer, length > 0 ? (size_t)length : 0);
        while (scan_line(&s, &line))
                parse_line(t, &line);
        sample_scope_end(t->sample, SCOPE_NET, procfs_mono(t->procfs), length < 0 ? GONE_UNREADABLE : GONE_EXITED);
        t->fds += n->dev.fd >= 0 ? 1u : 0u;
        return length < 0 ? (int)length : 0;
}

static void net_check(struct procfs *p, char *line, size_t size)
{
        char *buffer = NULL;
        size_t capacity = 0;
        ssize_t n = procfs_read_all(p, "proc/net/dev", &buffer, &capacity);
        if (n < 0)
                snprintf(line, size, "/proc/net/dev: %s", strerror((int)-n));
        else
                snprintf(line, size, "network interfaces: those of this network namespace");
        free(buffer);
}

const struct collector collector_net = {
        .name = "net",
        .scopes = SCOPE_BIT(SCOPE_NET),
        .open = net_open,
        .collect = net_collect,
        .close = net_close,
        .check = net_check,
};

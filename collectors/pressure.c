/*
 * Stall information (PSI), from /proc/pressure. A kernel without it (CONFIG_PSI=n: no file) or with it switched off (psi=0, the default
 * of RHEL: EOPNOTSUPP when read) gives no rows. The sums of `io` count parked io_uring threads as stalled: psi.c
 * says how much of them that is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"

enum { RESOURCES = 3, TEXT = 512 };

static const struct { const char *name, *path; } resources[RESOURCES] = {
        { "cpu", "proc/pressure/cpu" }, { "io", "proc/pressure/io" }, { "memory", "proc/pressure/memory" },
};

struct pressure {
        struct procfs_file file[RESOURCES];
        char *buffer;
        size_t capacity;
};

static int pressure_open(struct procfs *p, void **own)
{
        char text[TEXT];
        ssize_t n = -ENOENT;
        for (int i = 0; i < RESOURCES && n < 0; i++)
                n = procfs_read(p, resources[i].path, text, sizeof text);
        if (n < 0)
                return -ENOENT;
        struct pressure *s = calloc(1, sizeof *s);
        if (!s)
                return -ENOMEM;
        for (int i = 0; i < RESOURCES; i++)
                procfs_file_init(&s->file[i], resources[i].path);
        *own = s;
        return 0;
}

static void pressure_close(void *own)
{
        struct pressure *s = own;
        if (!s)
                return;
        for (int i = 0; i < RESOURCES; i++)
                procfs_file_close(&s->file[i]);
        free(s->buffer);
        free(s);
}

/* "some avg10=0.12 avg60=0.00 avg300=0.00 total=123456", total in us. */
static void parse_line(struct scan *line, struct row *row)
{
        bool full = scan_prefix(line, "full ");
        uint64_t whole, part, total;
        if (!full && !scan_prefix(line, "some "))
                return;
        if (scan_prefix(line, "avg10=") && scan_u64(line, &whole) && scan_prefix(line, ".") && scan_u64(line, &part) && whole <= 1000 &&
                part < 100)
                row_set(row, full ? PRESSURE_FULL10 : PRESSURE_SOME10, whole * 100 + part);
        const char *word;
        size_t length;
        while (scan_word(line, &word, &length)) {
                struct scan t;
                scan_init(&t, word, length);
                if (scan_prefix(&t, "total=") && scan_u64(&t, &total) && total <= INT64_MAX / 1000)
                        row_set(row, full ? PRESSURE_FULL : PRESSURE_SOME, total * 1000);
        }
}

static void resource_row(struct pressure *s, struct tick *t, unsigned i)
{
        static const int slots[] = { PRESSURE_SOME, PRESSURE_FULL, PRESSURE_SOME10, PRESSURE_FULL10 };
        struct scan text, line;
        ssize_t n = procfs_file_read(t->procfs, &s->file[i], &s->buffer, &s->capacity);
        struct row *row = n > 0 ? sample_row(t->sample, SCOPE_PRESSURE, (struct key){ i, 0 }, 0) : NULL;
        if (!row)
                return;
        if (row_is_new(row))
                row_text(row, PRESSURE_NAME, resources[i].name, strlen(resources[i].name));
        for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++)
                row_absent(row, slots[k]); /* cpu has no "full" before 5.13 */
        scan_init(&text, s->buffer, (size_t)n);
        while (scan_line(&text, &line))
                parse_line(&line, row);
        t->fds += s->file[i].fd >= 0 ? 1u : 0u;
}

static int pressure_collect(void *own, struct tick *t)
{
        struct pressure *s = own;
        sample_scope_begin(t->sample, SCOPE_PRESSURE, procfs_mono(t->procfs));
        for (unsigned i = 0; i < RESOURCES; i++)
                resource_row(s, t, i);
        sample_scope_end(t->sample, SCOPE_PRESSURE, procfs_mono(t->procfs), GONE_UNREADABLE);
        return 0;
}

static void pressure_check(struct procfs *p, char *line, size_t size)
{
        char text[TEXT];
        ssize_t n = procfs_read(p, "proc/pressure/io", text, sizeof text);
        if (n == -EOPNOTSUPP)
                snprintf(line, size, "stall information (PSI) is switched off: boot with psi=1");
        else if (n == -ENOENT)
                snprintf(line, size, "this kernel has no stall information (PSI)");
        else if (n < 0)
                snprintf(line, size, "/proc/pressure/io: %s", strerror((int)-n));
        else
                snprintf(line, size, "stall information (PSI): cpu, io, memory");
}

const struct collector collector_pressure = {
        .name = "pressure",
        .scopes = SCOPE_BIT(SCOPE_PRESSURE),
        .open = pressure_open,
        .collect = pressure_collect,
        .close = pressure_close,
        .check = pressure_check,
};

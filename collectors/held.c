/*
 * Rings and AIO contexts of all processes, in turn. See held.h.
 *
 * held_read runs in the helper's thread, possibly long after it was left behind: it has no state but its arguments, so its buffers are
 * allocated for the one read.
 */
#include "collectors/held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/slow.h"
#include "collectors/task.h"
#include "sample/control.h"

enum { LINKS_MAX = 4096, SHARE = 200 };
#define ROUND_NS UINT64_C(10000000000)
#define PATIENCE_NS UINT64_C(20000000)

struct held {
        struct procfs *procfs;
        struct slow *slow;
        struct slow_request requests[SLOW_BATCH];
        struct row *rows[SLOW_BATCH];
        size_t count;
        size_t at;                   /* next process of the round, in the sample's order */
        uint64_t round_ns;           /* when the round began; CLOCK_MONOTONIC */
        bool on;
        struct { uint64_t pid, ticket; } hung[SLOW_ABANDONED];
};

int held_new(struct procfs *procfs, struct held **out)
{
        struct held *held = calloc(1, sizeof *held);
        if (!held)
                return -ENOMEM;
        held->procfs = procfs;
        int r = slow_new(held_read, procfs, &held->slow);
        if (r < 0) {
                free(held);
                return r;
        }
        *out = held;
        return 0;
}

void held_free(struct held *held)
{
        if (!held)
                return;
        slow_free(held->slow);
        free(held);
}

/* ---- in the helper's thread --------------------------------------------------------------------------------------------------------- */

/* Descriptors that are rings; -errno when the folder cannot be listed, or is so long that only a part could be looked at. */
static ssize_t count_rings(struct procfs *procfs, const char *process)
{
        char path[SLOW_PATH + 32], target[64];
        int *ids = NULL;
        size_t capacity = 0;
        ssize_t rings = 0;

        snprintf(path, sizeof path, "%s/fd", process);
        ssize_t count = procfs_ids(procfs, path, &ids, &capacity);
        for (ssize_t i = 0; i < count && count <= LINKS_MAX; i++) {
                snprintf(path, sizeof path, "%s/fd/%d", process, ids[i]);
                ssize_t length = procfs_link(procfs, path, target, sizeof target - 1);
                if (length == -EACCES || length == -EPERM) {
                        rings = length;
                        break;
                }
                if (length < 0 || length >= (ssize_t)sizeof target)
                        continue;
                target[length] = '\0';
                rings += strcmp(target, "anon_inode:[io_uring]") == 0;
        }
        free(ids);
        return count < 0 ? count : count > LINKS_MAX ? -EFBIG : rings;
}

/* A line of maps: address, permissions, offset, device, inode, name. Only root could give a file this name: it has no folder. */
static bool is_context(struct scan line)
{
        const char *word;
        size_t length;

        return scan_skip(&line, 5) && scan_word(&line, &word, &length) && length == 6 && memcmp(word, "/[aio]", 6) == 0;
}

static ssize_t count_contexts(struct procfs *procfs, const char *process)
{
        char path[SLOW_PATH + 16], *text = NULL;
        size_t capacity = 0;
        struct scan scan, line;
        ssize_t contexts = 0;

        snprintf(path, sizeof path, "%s/maps", process);
        ssize_t length = procfs_read_all(procfs, path, &text, &capacity);
        if (length >= 0) {
                scan_init(&scan, text, (size_t)length);
                while (scan_line(&scan, &line))
                        contexts += is_context(line);
        }
        free(text);
        return length < 0 ? length : contexts;
}

static void put_number(char *text, size_t size, ssize_t number)
{
        if (number < 0)
                snprintf(text, size, "-");
        else
                snprintf(text, size, "%zd", number);
}

ssize_t held_read(void *procfs, const char *path, char *buffer, size_t size)
{
        char rings_text[24], contexts_text[24];
        ssize_t rings = count_rings(procfs, path), contexts;

        if (task_is_gone(rings))
                return rings;
        contexts = count_contexts(procfs, path);
        if (task_is_gone(contexts))
                return contexts;
        put_number(rings_text, sizeof rings_text, rings);
        put_number(contexts_text, sizeof contexts_text, contexts);
        int length = snprintf(buffer, size, "%s %s", rings_text, contexts_text);
        return length < 0 || (size_t)length >= size ? -EOVERFLOW : length;
}

/* ---- in turn ------------------------------------------------------------------------------------------------------------------------- */

static void set_number(struct row *row, int metric, struct scan *scan)
{
        uint64_t number;

        if (scan_u64(scan, &number)) {
                row_set(row, metric, number);
        } else {
                scan_skip(scan, 1);
                row_absent(row, metric);
        }
}

static void take(struct held *held, size_t i)
{
        const struct slow_request *request = &held->requests[i];
        struct key key = row_key(held->rows[i]);
        struct scan scan;

        if (request->result == -ETIMEDOUT) {
                for (size_t h = 0; h < SLOW_ABANDONED; h++)
                        if (!slow_is_out(held->slow, held->hung[h].ticket)) {
                                held->hung[h].pid = key.a;
                                held->hung[h].ticket = request->ticket;
                                break;
                        }
        }
        if (request->result <= 0)
                return; /* gone, or not in time: what was seen before stands */
        scan_init(&scan, request->bytes, (size_t)request->result);
        set_number(held->rows[i], PROCESS_RINGS, &scan);
        set_number(held->rows[i], PROCESS_AIO, &scan);
}

static void run_batch(struct held *held, uint64_t until_ns)
{
        if (held->count > 0)
                slow_run(held->slow, held->requests, held->count, PATIENCE_NS, until_ns);
        for (size_t i = 0; i < held->count; i++)
                take(held, i);
        held->count = 0;
}

static bool may_be_read(const struct held *held, const struct row *row)
{
        uint64_t state = 0, flags = 0, pid = row_key(row).a;

        if (!row_get(row, PROCESS_STATE, &state) || task_may_hang((char)state))
                return false;
        if (row_get(row, PROCESS_FLAGS, &flags) && (flags & TASK_FLAG_KTHREAD))
                return false;
        for (size_t h = 0; h < SLOW_ABANDONED; h++)
                if (held->hung[h].pid == pid && slow_is_out(held->slow, held->hung[h].ticket))
                        return false;
        return true;
}

static void forget(struct held *held, struct tick *tick)
{
        held->on = false;
        held->at = 0;
        held->round_ns = 0;
        for (size_t i = 0; i < sample_rows(tick->sample, SCOPE_PROCESS); i++) {
                struct row *row = sample_row_at(tick->sample, SCOPE_PROCESS, i);
                row_absent(row, PROCESS_RINGS);
                row_absent(row, PROCESS_AIO);
        }
}

void held_step(struct held *held, struct tick *tick)
{
        bool wanted = (tick->leases & LEASE_RINGS) && (tick->scopes & SCOPE_BIT(SCOPE_PROCESS)) && procfs_live(held->procfs) &&
                !tick->capture;
        uint64_t now = procfs_mono(held->procfs), until = now + tick->interval_ns / SHARE;
        size_t rows = sample_rows(tick->sample, SCOPE_PROCESS);

        if (!wanted) {
                if (held->on)
                        forget(held, tick);
                return;
        }
        if (tick->extra || (tick->deadline_ns && now >= tick->deadline_ns))
                return;
        held->on = true;
        if (held->at >= rows) {
                if (held->round_ns && now - held->round_ns < ROUND_NS)
                        return;
                held->at = 0;
        }
        if (held->at == 0)
                held->round_ns = now;
        while (held->at < rows && (held->count > 0 || procfs_mono(held->procfs) < until)) {
                struct row *row = sample_row_at(tick->sample, SCOPE_PROCESS, held->at++);
                if (may_be_read(held, row)) {
                        struct slow_request *request = &held->requests[held->count];
                        snprintf(request->path, sizeof request->path, "proc/%llu", (unsigned long long)row_key(row).a);
                        held->rows[held->count++] = row;
                }
                if (held->count == SLOW_BATCH / 4)
                        run_batch(held, until + PATIENCE_NS);
        }
        run_batch(held, until + PATIENCE_NS);
        tick->stuck_reads += slow_abandoned(held->slow);
}

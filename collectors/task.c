/*
 * Parsers of a task's files. See task.h for the promise.
 *
 * stat is read for every process in every tick, so its parser is written by hand: one walk over the bytes, about a quarter of a
 * microsecond (sscanf of the same fields takes four times as long).
 */
#include "collectors/task.h"

#include <string.h>

#include "collectors/collector.h"
#include "collectors/procfs.h"

enum { STAT_FIELDS = 52, STAT_NEEDED = 39 };

/* Numbers from field 4 on into field[]; negative ones as two's complement. Returns the number of the last field read. */
static unsigned parse_numbers(const char *at, const char *end, uint64_t field[STAT_FIELDS + 1])
{
        unsigned n = 3;

        while (n < STAT_FIELDS) {
                while (at < end && *at == ' ')
                        at++;
                bool negative = at < end && *at == '-';
                if (negative)
                        at++;
                if (at == end || *at < '0' || *at > '9')
                        break;
                uint64_t value = 0;
                for (; at < end && *at >= '0' && *at <= '9'; at++)
                        value = value * 10 + (uint64_t)(*at - '0');
                field[++n] = negative ? 0 - value : value;
        }
        return n;
}

/* Addresses that a new program image changes: code (26, 27), stack (28), data (45-47), arguments and environment (48-51). The kernel prints
 * 0 or 1 to those who may not trace the task; then exec shows by its name only. */
static uint64_t image_of(const uint64_t *field)
{
        static const unsigned char of[] = { 26, 27, 28, 45, 46, 47, 48, 50 };
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < sizeof of; i++)
                hash = (hash ^ field[of[i]]) * UINT64_C(1099511628211);
        return hash;
}

bool task_parse_stat(const char *text, size_t length, unsigned hz, unsigned page_size, struct task_stat *stat)
{
        const char *end = text + length, *open = memchr(text, '(', length), *close = memrchr(text, ')', length);
        uint64_t field[STAT_FIELDS + 1] = { 0 };

        if (!open || !close || close < open || end - close < 4 || close[1] != ' ' || hz == 0)
                return false;
        unsigned last = parse_numbers(close + 3, end, field);
        if (last < STAT_NEEDED)
                return false;

        memset(stat, 0, sizeof *stat); /* padding too: callers compare with memcmp */
        size_t comm = (size_t)(close - open - 1);
        stat->comm_length = (uint8_t)(comm < TASK_COMM ? comm : TASK_COMM);
        memcpy(stat->comm, open + 1, stat->comm_length);
        stat->state = close[2];
        stat->parent = (int32_t)field[4];
        stat->session = (int32_t)field[6];
        stat->flags = (uint32_t)field[9];
        stat->minflt = field[10];
        stat->majflt = field[12];
        stat->user_ns = ticks_to_ns(field[14], hz);
        stat->system_ns = ticks_to_ns(field[15], hz);
        stat->priority = (int64_t)field[18];
        stat->nice = (int64_t)field[19];
        stat->threads = (uint32_t)field[20];
        stat->start_ns = ticks_to_ns(field[22], hz);
        stat->vsize = field[23];
        stat->rss = (int64_t)field[24] > 0 ? field[24] * page_size : 0;
        stat->core = (uint32_t)field[39];
        stat->has_block = last >= 42;
        stat->block_ns = ticks_to_ns(field[42], hz);
        stat->has_guest = last >= 43;
        stat->guest_ns = ticks_to_ns(field[43], hz);
        stat->image = image_of(field);
        return true;
}

bool task_parse_schedstat(const char *text, size_t length, struct task_sched *sched)
{
        struct scan scan;

        scan_init(&scan, text, length);
        return scan_u64(&scan, &sched->run_ns) && scan_u64(&scan, &sched->delay_ns) && scan_u64(&scan, &sched->slices);
}

bool task_parse_io(const char *text, size_t length, struct task_io *io)
{
        static const struct { const char *name; size_t at; } fields[] = {
                { "rchar:", offsetof(struct task_io, rchar) }, { "wchar:", offsetof(struct task_io, wchar) },
                { "syscr:", offsetof(struct task_io, syscr) }, { "syscw:", offsetof(struct task_io, syscw) },
                { "read_bytes:", offsetof(struct task_io, read_bytes) }, { "write_bytes:", offsetof(struct task_io, write_bytes) },
                { "cancelled_write_bytes:", offsetof(struct task_io, cancelled) },
        };
        struct scan scan, line;
        unsigned found = 0;

        scan_init(&scan, text, length);
        while (scan_line(&scan, &line)) {
                for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
                        uint64_t value;
                        if (!scan_prefix(&line, fields[i].name))
                                continue;
                        if (!scan_u64(&line, &value))
                                return false;
                        memcpy((char *)io + fields[i].at, &value, sizeof value);
                        found |= 1u << i;
                        break;
                }
        }
        return found == (1u << sizeof fields / sizeof *fields) - 1;
}

/* The number after "\nNAME:". The kernel escapes newlines in Name, so a line's start cannot be forged. */
static bool status_number(const char *text, size_t length, const char *name, uint64_t *value)
{
        const char *at = memmem(text, length, name, strlen(name));
        struct scan scan;

        if (!at)
                return false;
        at += strlen(name);
        scan_init(&scan, at, (size_t)(text + length - at));
        return scan_u64(&scan, value);
}

bool task_parse_status(const char *text, size_t length, struct task_status *status)
{
        uint64_t uid;

        memset(status, 0, sizeof *status);
        status->has_uid = status_number(text, length, "\nUid:", &uid) && uid <= UINT32_MAX;
        if (status->has_uid)
                status->uid = (uint32_t)uid;
        /* The two counts end the file: look there first, the rest is long. */
        size_t tail = length > 256 ? 256 : length;
        const char *from = text + (length - tail);
        status->has_switches = status_number(from, tail, "\nvoluntary_ctxt_switches:", &status->voluntary)
                && status_number(from, tail, "\nnonvoluntary_ctxt_switches:", &status->involuntary);
        if (!status->has_switches)
                status->has_switches = status_number(text, length, "\nvoluntary_ctxt_switches:", &status->voluntary)
                        && status_number(text, length, "\nnonvoluntary_ctxt_switches:", &status->involuntary);
        return status->has_uid || status->has_switches;
}

bool task_parse_statm(const char *text, size_t length, unsigned page_size, uint64_t *rss)
{
        struct scan scan;
        uint64_t pages;

        scan_init(&scan, text, length);
        if (!scan_skip(&scan, 1) || !scan_u64(&scan, &pages))
                return false;
        *rss = pages * page_size;
        return true;
}

/* How well a hierarchy names a task's place; 0: not at all. `controllers` is what stands between the first two colons' ends. */
static int hierarchy_rank(const char *controllers, size_t length)
{
        if (length == 0)
                return 4; /* unified */
        if (length == 12 && memcmp(controllers, "name=systemd", 12) == 0)
                return 3;
        if ((length == 4 && memcmp(controllers, "pids", 4) == 0) || (length == 6 && memcmp(controllers, "memory", 6) == 0))
                return 2;
        return 1;
}

bool task_parse_cgroup(const char *text, size_t length, const char **path, size_t *path_length)
{
        struct scan scan, line;
        int best = -1;

        scan_init(&scan, text, length);
        while (scan_line(&scan, &line)) {
                const char *end = line.end, *first = memchr(line.at, ':', (size_t)(end - line.at));
                const char *second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
                if (!second || second + 1 >= end || second[1] != '/')
                        continue;
                int rank = hierarchy_rank(first + 1, (size_t)(second - first - 1));
                if (end - second - 1 > 1)
                        rank += 10; /* any place is better than the root */
                if (rank <= best)
                        continue;
                best = rank;
                *path = second + 1;
                *path_length = (size_t)(end - second - 1);
        }
        return best >= 0;
}

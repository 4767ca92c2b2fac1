/*
 * CPU time of the recorded command's group. Contract: member_cpu.h.
 *
 * cpu.stat of the unified hierarchy has usage_usec in every group, whether or not the cpu controller is handed to it.
 */
#include "tui/member_cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_LENGTH = 4096 + 16, STAT_LENGTH = 4096 };
/* Before the first line the group was new: it had used nothing. More than that, and the lines begin later than the command. */
#define NEW_NS UINT64_C(1000000)

void member_cpu_open(struct member_cpu *cpu, const char *folder)
{
        char path[PATH_LENGTH];

        *cpu = (struct member_cpu){ .fd = -1, .tried = true };
        if ((size_t)snprintf(path, sizeof path, "%s/cpu.stat", folder) < sizeof path)
                cpu->fd = open(path, O_RDONLY | O_CLOEXEC);
}

void member_cpu_close(struct member_cpu *cpu)
{
        if (cpu->tried && cpu->fd >= 0)
                close(cpu->fd);
        *cpu = (struct member_cpu){ .fd = -1 };
}

static uint64_t now_ns(void)
{
        struct timespec t;

        return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec : 0;
}

static bool usage_of(int fd, uint64_t *ns)
{
        static const char word[] = "usage_usec ";
        char text[STAT_LENGTH], *end;

        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        if (n <= 0)
                return false;
        text[n] = '\0';
        const char *at = strstr(text, word);
        if (at == NULL || (at != text && at[-1] != '\n'))
                return false;
        at += sizeof word - 1;
        unsigned long long us = strtoull(at, &end, 10);
        if (end == at || us > UINT64_MAX / 1000)
                return false;
        *ns = us * 1000;
        return true;
}

bool member_cpu_take(struct member_cpu *cpu)
{
        uint64_t used, before = now_ns();

        if (!cpu->tried || cpu->fd < 0 || cpu->note >= MEMBER_CPU_NOTES || !usage_of(cpu->fd, &used))
                return false;
        if (cpu->lines == MEMBER_CPU_LINES) {
                cpu->note++;
                cpu->lines = cpu->noted = 0;
                cpu->length = 0;
        }
        cpu->length += (size_t)snprintf(cpu->text + cpu->length, sizeof cpu->text - cpu->length, "%" PRIu64 " %" PRIu64 "\n",
                before + (now_ns() - before) / 2, used);
        cpu->lines++;
        return cpu->lines == MEMBER_CPU_LINES || cpu->lines - cpu->noted >= MEMBER_CPU_EACH;
}

void member_cpu_name(const struct member_cpu *cpu, char *name, size_t size)
{
        snprintf(name, size, "command.cpu.%u", cpu->note);
}

void member_cpu_noted(struct member_cpu *cpu)
{
        cpu->noted = cpu->lines;
}

/* ---- read ------------------------------------------------------------------------------------------------------------------------ */

static bool digits(const char **at, const char *end, uint64_t *value)
{
        const char *start = *at;

        *value = 0;
        for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 19; ++*at)
                *value = *value * 10 + (uint64_t)(**at - '0');
        return *at > start;
}

/* Lines that do not ascend are left out: the log is a stranger's. */
static int add_time(struct member_times *times, struct member_time time)
{
        const struct member_time *last = times->count ? &times->at[times->count - 1] : NULL;

        if (last != NULL && (time.mono_ns <= last->mono_ns || time.cpu_ns < last->cpu_ns))
                return 0;
        if (times->count == times->room) {
                size_t room = times->room ? times->room * 2 : MEMBER_CPU_LINES;
                struct member_time *larger = reallocarray(times->at, room, sizeof *larger);
                if (larger == NULL)
                        return -ENOMEM;
                times->at = larger;
                times->room = room;
        }
        times->at[times->count++] = time;
        return 0;
}

int member_times_read(struct member_times *times, struct log *log)
{
        struct member_cpu name = { .fd = -1 };
        char text[64];

        for (int r = 0; name.note < MEMBER_CPU_NOTES; name.note++) {
                size_t length = 0;
                member_cpu_name(&name, text, sizeof text);
                const char *at = log_get_note(log, text, &length), *end = at != NULL ? at + length : NULL;
                if (at == NULL)
                        break;
                while (r == 0 && at < end) {
                        struct member_time time;
                        const char *line_end = memchr(at, '\n', (size_t)(end - at));
                        if (line_end == NULL)
                                break;
                        if (digits(&at, line_end, &time.mono_ns) && at < line_end && *at++ == ' ' && digits(&at, line_end, &time.cpu_ns))
                                r = add_time(times, time);
                        at = line_end + 1;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

void member_times_free(struct member_times *times)
{
        free(times->at);
        *times = (struct member_times){ .at = NULL };
}

double member_times_at(const struct member_times *times, uint64_t mono_ns)
{
        size_t low = 0, high = times->count;

        if (times->count == 0 || mono_ns > times->at[times->count - 1].mono_ns)
                return NAN;
        while (low < high) { /* the first line that is not before */
                size_t middle = low + (high - low) / 2;
                if (times->at[middle].mono_ns < mono_ns)
                        low = middle + 1;
                else
                        high = middle;
        }
        const struct member_time *after = &times->at[low];
        if (low == 0)
                return after->cpu_ns <= NEW_NS || after->mono_ns == mono_ns ? (double)after->cpu_ns : NAN;
        const struct member_time *before = after - 1;
        double share = (double)(mono_ns - before->mono_ns) / (double)(after->mono_ns - before->mono_ns);
        return (double)before->cpu_ns + share * (double)(after->cpu_ns - before->cpu_ns);
}

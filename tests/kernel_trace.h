#pragma once
/*
 * The kernel's own trace of one disk's requests, in an instance of the test's own, to hold times against: microseconds of CLOCK_MONOTONIC.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KERNEL_EVENTS = 4 };
static const char *const kernel_events[KERNEL_EVENTS] = {"block_bio_queue", "block_getrq", "block_rq_issue", "block_rq_complete"};

struct kernel_trace {
        char folder[96];
};

static inline bool kernel_trace_write(const struct kernel_trace *trace, const char *file, const char *value)
{
        char path[192];
        snprintf(path, sizeof path, "%s/%s", trace->folder, file);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
        if (fd >= 0)
                close(fd);
        return good;
}

/* Needs kernel_trace_end, whatever it returns. */
static inline bool kernel_trace_begin(struct kernel_trace *trace, uint32_t device)
{
        static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
        char file[96], filter[32];
        bool good = false;
        for (size_t i = 0; i < 2 && !good; i++) {
                snprintf(trace->folder, sizeof trace->folder, "%s/instances/watop-test-%d", roots[i], getpid());
                good = mkdir(trace->folder, 0700) == 0;
        }
        good = good && kernel_trace_write(trace, "trace_clock", "mono");
        snprintf(filter, sizeof filter, "dev == %u", device);
        for (size_t i = 0; i < KERNEL_EVENTS && good; i++) {
                snprintf(file, sizeof file, "events/block/%s/filter", kernel_events[i]);
                good = kernel_trace_write(trace, file, filter);
                snprintf(file, sizeof file, "events/block/%s/enable", kernel_events[i]);
                good = good && kernel_trace_write(trace, file, "1");
        }
        return good;
}

static inline void kernel_trace_end(struct kernel_trace *trace)
{
        rmdir(trace->folder);
}

/* Where the number begins whose last digit is before `end`. */
static inline const char *number_before(const char *line, const char *end)
{
        while (end > line && ((end[-1] >= '0' && end[-1] <= '9') || end[-1] == '.'))
                end--;
        return end;
}

/* Lines: "task-pid [cpu] flags SECONDS.MICROS: event: 7,0 RS 4096 () SECTOR + SECTORS ...". */
static inline void kernel_trace_each(const struct kernel_trace *trace, void (*each)(size_t which, uint64_t time, uint64_t sector))
{
        char path[192], line[512];
        snprintf(path, sizeof path, "%s/trace", trace->folder);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file)) {
                for (size_t which = 0; which < KERNEL_EVENTS; which++) {
                        unsigned long long seconds, micros, sector;
                        char name[64];
                        snprintf(name, sizeof name, ": %s: ", kernel_events[which]);
                        const char *event = strstr(line, name), *plus = event ? strstr(event, " + ") : NULL;
                        if (plus && sscanf(number_before(line, event), "%llu.%llu", &seconds, &micros) == 2 &&
                                        sscanf(number_before(line, plus), "%llu", &sector) == 1)
                                each(which, seconds * 1000000000u + micros * 1000u, sector);
                }
        }
        if (file)
                fclose(file);
}

/*
 * What the tracer alone says over some seconds, beside the kernel's iowait, for people at work on it.
 *
 *     lab_traced [SECONDS]
 */
#include "collectors/bpf/tracer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CORES = 256, WAITERS_SHOWN = 256 };

static uint64_t now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* of a difference, which corrections can make negative */
static double ms(uint64_t ns)
{
        return (double)(int64_t)ns / 1e6;
}

/* iowait of each cpuN line of /proc/stat, ms */
static void read_stat(uint64_t *iowait_ms)
{
        char line[512];
        unsigned cpu;
        unsigned long long v[5];
        FILE *file = fopen("/proc/stat", "re");
        while (file && fgets(line, sizeof line, file))
                if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu", &cpu, &v[0], &v[1], &v[2], &v[3], &v[4]) == 6 && cpu < CORES)
                        iowait_ms[cpu] = v[4] * 10;
        if (file)
                fclose(file);
}

int main(int argc, char **argv)
{
        static struct tracer_core before[CORES], after[CORES];
        static struct tracer_waiter waiters[WAITERS_SHOWN];
        static uint64_t stat_before[CORES], stat_after[CORES];
        static const char *const classes[] = {"disk", "uring", "other"};
        struct tracer *tracer;
        struct tracer_stats stats;
        char why[256];
        double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
        if (tracer_open(&tracer, why, sizeof why) < 0 || tracer_attach(tracer, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 77;
        }
        puts("attached");
        fflush(stdout);
        read_stat(stat_before);
        size_t cores = tracer_cores(tracer, now(), before, CORES);
        for (uint64_t end = now() + (uint64_t)(seconds * 1e9); now() < end; tracer_maintain(tracer, now()))
                usleep(seconds < 0.2 ? (useconds_t)(seconds * 1e6) : 200000);
        read_stat(stat_after);
        tracer_cores(tracer, now(), after, CORES);
        for (size_t i = 0; i < cores; i++)
                printf("cpu%zu  kernel %5llu ms   disk %8.3f  uring %8.3f  other %8.3f  unsure %8.3f ms\n", i,
                        (unsigned long long)(stat_after[i] - stat_before[i]), ms(after[i].disk_ns - before[i].disk_ns),
                        ms(after[i].uring_ns - before[i].uring_ns), ms(after[i].other_ns - before[i].other_ns),
                        ms(after[i].unsure_ns - before[i].unsure_ns));
        size_t count = tracer_waiters(tracer, now(), waiters, WAITERS_SHOWN);
        for (size_t i = 0; i < count; i++)
                printf("%7d %-16s cpu%u %s%s%s%s sleeps %llu  disk %.3f uring %.3f other %.3f ms  pending %u/%u\n", waiters[i].tid,
                        waiters[i].comm, waiters[i].cpu, classes[waiters[i].class], waiters[i].asleep ? " asleep" : "",
                        waiters[i].seeded ? " seeded" : "", waiters[i].ring_wait ? " ring" : "", (unsigned long long)waiters[i].sleeps,
                        ms(waiters[i].disk_ns), ms(waiters[i].uring_ns), ms(waiters[i].other_ns), waiters[i].pending_block,
                        waiters[i].pending_other);
        tracer_stats(tracer, &stats);
        tracer_runs(tracer, &stats);
        printf("unmatched %llu overflow %llu recursion %llu healed %llu\n", (unsigned long long)stats.unmatched,
                (unsigned long long)stats.overflow, (unsigned long long)stats.recursion, (unsigned long long)stats.healed);
        tracer_close(tracer);
        return 0;
}

/*
 * bench_collect [--threads] [--seal] N [INTERVAL_MS]: run the process collector (and the thread collector) N times on this machine and
 * print what a sample costs. Not a test: ./dev bench holds the figures against peers' over the same population.
 *
 * Prints: processes, threads, CPU ms of the first sample, median, minimum and maximum of the others, kept descriptors, the longest
 * sample's wall ms, abandoned reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "collectors/collector.h"

enum { SAMPLES_MAX = 1000 };

static uint64_t clock_ns(clockid_t id)
{
        struct timespec ts;

        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static int order(const void *a, const void *b)
{
        const double *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

struct bench {
        struct procfs *procfs;
        struct sample *sample;
        void *process, *thread;
        bool threads, seal;
        unsigned fds, stuck;
        double longest_ms;        /* wall time */
};

static double one(struct bench *bench, uint64_t number, uint64_t interval_ns)
{
        struct evidence evidence = { 0 };
        struct procfs_clock now;
        uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID), start = clock_ns(CLOCK_MONOTONIC);

        procfs_clock(bench->procfs, &now);
        struct tick tick = { .procfs = bench->procfs, .sample = bench->sample, .evidence = &evidence, .interval_ns = interval_ns,
                .number = number,
                .scopes = SCOPE_BIT(SCOPE_PROCESS) | (bench->threads ? SCOPE_BIT(SCOPE_THREAD) : 0),
                        .deadline_ns = now.mono_ns + 2 * interval_ns,
                .cmdline = CMDLINE_FULL };
        struct sample_stamp stamp = { now.mono_ns, now.boot_ns, now.real_ns };
        sample_begin(bench->sample, &stamp);
        if (collector_process.collect(bench->process, &tick) < 0 || (bench->threads && collector_thread.collect(bench->thread,
                &tick) < 0)) {
                fprintf(stderr, "cannot read /proc\n");
                exit(1);
        }
        if (bench->seal) {
                struct seal seal = { .scopes_on = tick.scopes, .tick_ns = interval_ns };
                const void *frame;
                size_t length;
                sample_seal(bench->sample, &seal, &frame, &length);
        }
        bench->fds = tick.fds;
        bench->stuck = tick.stuck_reads;
        double wall_ms = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e6;
        if (wall_ms > bench->longest_ms)
                bench->longest_ms = wall_ms;
        if (tick.detail)
                fprintf(stderr, "sample %lu: detail %d left out\n", (unsigned long)number, tick.detail);
        return (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before) / 1e6;
}

static int usage(void)
{
        fprintf(stderr, "usage: bench_collect [--threads] [--seal] N [INTERVAL_MS]\n");
        return 2;
}

int main(int argc, char **argv)
{
        static double cost[SAMPLES_MAX];
        struct bench bench = { 0 };
        struct rlimit limit;

        for (; argc > 1 && argv[1][0] == '-'; argv++, argc--) {
                bench.threads |= strcmp(argv[1], "--threads") == 0;
                bench.seal |= strcmp(argv[1], "--seal") == 0;
        }
        long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0, ms = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
        if (n < 2 || n > SAMPLES_MAX || ms < 1)
                return usage();
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
        if (procfs_open_root("/", &bench.procfs) < 0 || sample_new(&bench.sample) < 0 || collector_process.open(bench.procfs,
                &bench.process) < 0
            || collector_thread.open(bench.procfs, &bench.thread) < 0)
                return 1;
        for (long i = 0; i < n; i++) {
                cost[i] = one(&bench, (uint64_t)i, (uint64_t)ms * 1000000);
                struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
                if (i + 1 < n)
                        nanosleep(&pause, NULL);
        }
        double first = cost[0];
        size_t others = (size_t)n - 1;
        qsort(cost + 1, others, sizeof *cost, order);
        printf("processes %zu threads %zu first_ms %.2f median_ms %.2f min_ms %.2f max_ms %.2f fds %u wall_max_ms %.2f stuck %u\n",
               sample_rows(bench.sample, SCOPE_PROCESS), sample_rows(bench.sample, SCOPE_THREAD), first, cost[1 + others / 2], cost[1],
               cost[others], bench.fds, bench.longest_ms, bench.stuck);
        collector_thread.close(bench.thread);
        collector_process.close(bench.process);
        sample_free(bench.sample);
        procfs_close_root(bench.procfs);
        return 0;
}

/*
 * The split of wa on this machine, from the collectors themselves, without watopd: for the lab tests.
 *
 *     lab_split [--ticks N] [--ms INTERVAL] [--from TICK] [--tree DIR]
 *
 * What looking for waiters costs is counted from tick number --from (1) on.
 *
 * One line per tick and core: wa of wall time in %, its parts, the level of evidence; then the witnesses. Totals at the end.
 */
#include "collectors/collector.h"
#include "collectors/uring.h"
#include "daemon/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct collector *const used[] = {&collector_cpu, &collector_disk, &collector_uring};
enum { USED = sizeof used / sizeof *used };

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
        for (int i = 1; i + 1 < argc; i++)
                if (strcmp(argv[i], name) == 0)
                        return argv[i + 1];
        return fallback;
}

static uint64_t now_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
        struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
                ;
}

static uint64_t spent; /* CPU time of the collector that looks for waiters */

static void step(int (*const function)(void *, struct tick *), void *own, struct tick *tick, bool counted)
{
        uint64_t start = cpu_ns();
        if (function && own)
                function(own, tick);
        if (counted)
                spent += cpu_ns() - start;
}

static double value(struct row *row, int metric)
{
        uint64_t v = 0;
        row_get(row, metric, &v);
        return (double)v / 1e9;
}

static void report(struct tick *tick, double (*before)[5], unsigned number)
{
        const struct evidence *e = tick->evidence;
        double wall = (double)(e->stat_start_ns - e->stat_prev_start_ns) / 1e9;
        static const int shown[5] = {CPU_WA_DISK, CPU_WA_URING, CPU_WA_OTHER, CPU_BY_PARKED, CPU_IOWAIT};
        for (size_t i = 0; i < sample_rows(tick->sample, SCOPE_CPU); i++) {
                struct row *row = sample_row_at(tick->sample, SCOPE_CPU, i);
                size_t core = (size_t)row_key(row).a;
                double part[5];
                if (core >= 1024)
                        continue;
                for (int k = 0; k < 5; k++) {
                        double v = value(row, shown[k]);
                        part[k] = (v - before[core][k]) / wall * 100;
                        before[core][k] = v;
                }
                if (number > 0)
                        printf("tick %u cpu%zu kernel %.1f disk %.1f uring %.1f other %.1f parked %.1f\n", number, core, part[4], part[0],
                                part[1], part[2],
                                part[3]);
        }
        for (size_t i = 0; i < e->witness_count && number > 0; i++) {
                const struct iowait_witness *w = &e->witnesses[i];
                printf("  witness %d of %d cpu%u parked %d ring %d verdict %d marked %d refuted %d looks %u asleep %u counted %u chance "
                        "%.4f\n", w->tid, w->tgid, w->cpu, w->parked,
                        w->ring, w->verdict,
                        w->marked, w->refuted, w->ring_looks, w->asleep, w->counted, w->chance);
        for (size_t k = 0; k < e->seen_count && number > 0; k++)
                printf("  seen cpu%u d %u elsewhere %u running %u\n", e->seen[k].cpu, e->seen[k].d_state, e->seen[k].elsewhere,
                        e->seen[k].running);
        }
        for (size_t k = 0; e->delay_ns && k < e->core_count && number > 0; k++)
                printf("  delay cpu%u at most %.1f%%\n", e->cores[k].cpu, (double)e->delay_ns[k] / 1e7 / wall);
        if (number > 0)
                printf("  samples %u full %u unresolved %u no_d %u blocked %llu d %llu device_ms %.1f flight %d%d sub %d completed %d "
                        "void %d seen %d "
                        "wall %.3f\n", e->samples, e->full, e->unresolved,
                        e->blocked_no_d, (unsigned long long)e->blocked_sum, (unsigned long long)e->d_sum, (double)e->device_ns / 1e6,
                                e->in_flight_start,
                        e->in_flight, e->sub_in_flight, e->completed, e->bound_void, e->threads_seen, wall);
}

int main(int argc, char **argv)
{
        static struct evidence evidence;
        static double before[1024][5];
        void *own[USED] = {0};
        struct procfs *procfs;
        struct sample *sample;
        struct judge *judge;
        unsigned ticks = (unsigned)atoi(option(argc, argv, "--ticks", "3"));
        unsigned learning = (unsigned)atoi(option(argc, argv, "--from", "1"));
        uint64_t interval = (uint64_t)atoi(option(argc, argv, "--ms", "1000")) * 1000000;
        if (procfs_open_root(option(argc, argv, "--tree", NULL), &procfs) < 0 || sample_new(&sample) < 0 || judge_new(&judge) < 0)
                return 1;
        for (size_t i = 0; i < USED; i++)
                used[i]->open(procfs, &own[i]);
        struct tick tick = {.procfs = procfs, .sample = sample, .evidence = &evidence, .interval_ns = interval,
                .scopes = SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_WAITER)};
        uint64_t due = now_ns();
        for (unsigned n = 0; n <= ticks; n++, due += interval) {
                for (uint64_t sub = due - interval + 100000000; n > 0 && sub < due; sub += 100000000) {
                        sleep_until(sub);
                        if (used[2]->wants_between(own[2], &tick))
                                step(used[2]->between, own[2], &tick, true);
                }
                sleep_until(due);
                uint64_t first = spent;
                struct procfs_clock clock;
                procfs_clock(procfs, &clock);
                sample_begin(sample, &(struct sample_stamp){clock.mono_ns, clock.boot_ns, clock.real_ns});
                tick.number = n;
                tick.deadline_ns = procfs_mono(procfs) + interval;
                for (size_t i = 0; i < USED; i++)
                        step(used[i]->before, own[i], &tick, i == 2);
                for (size_t i = 0; i < USED; i++)
                        step(used[i]->collect, own[i], &tick, i == 2);
                for (size_t i = 0; i < USED; i++)
                        step(used[i]->after, own[i], &tick, i == 2);
                judge_tick(judge, sample, &evidence, true, true);
                uring_judged(sample, &evidence);
                report(&tick, before, n);
                if (n == 0)
                        printf("first look %.3f ms\n", (double)(spent - first) / 1e6);
                if (n < learning)
                        spent = 0;
        }
        if (ticks > learning)
                printf("cost %.3f ms of CPU a tick\n", (double)spent / 1e6 / (ticks + 1 - learning));
        for (size_t i = 0; i < USED; i++)
                used[i]->close(own[i]);
        judge_free(judge);
        sample_free(sample);
        procfs_close_root(procfs);
        return 0;
}

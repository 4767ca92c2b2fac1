/*
 * PSI io corrected by the split: samples made by hand, for which the kernel's formula gives the truth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collectors/psi.h"
#include "tests/collect.h"
#include "tests/sealed.h"

static const uint64_t MS = 1000000;

enum { CORES = 2 };

struct scene {
        struct sealed w;
        struct psi *psi;
        struct iowait_core cores[CORES];
        struct evidence e;
        uint64_t uring[CORES], least[CORES], most[CORES], some, full, group_some, group_full;
        uint64_t boot_ns;
};

/* One tick, in ms; waiters: witness code, core, pid (its group is /a for odd pids, /a/b for even ones). */
struct step {
        unsigned iowait[CORES], idle[CORES], uring[CORES], some, full, group_some, wall;
        struct { unsigned witness, core, pid; } waiters[4];
        bool unjudged, no_pressure, full_core_parked, unmarked, seen_d;
        bool loose;                     /* the split has bounds: */
        unsigned least[CORES], most[CORES];
        bool unseen;                    /* not all threads could be looked at */
        /* who was met on a core: a ring's thread, for the whole tick or not; another sleeper */
        struct { bool parked, ring, other; } on[CORES];
};

static int setup(void **state)
{
        struct scene *s = calloc(1, sizeof *s);

        sealed_open(&s->w);
        assert_int_equal(psi_new(&s->psi), 0);
        *state = s;
        return 0;
}

static int teardown(void **state)
{
        struct scene *s = *state;

        sealed_close(&s->w);
        psi_free(s->psi);
        free(s);
        return 0;
}

/* ms, -1 absent */
static long host(struct scene *s, int metric)
{
        uint64_t value;
        struct row *row = sample_find(s->w.sample, SCOPE_PRESSURE, (struct key){1, 0});

        return row && row_get(row, metric, &value) ? (long)((value + MS / 2) / MS) : -1;
}

static void cores(struct scene *s, const struct step *step)
{
        unsigned wall = step->wall ? step->wall : 1000;

        s->e = (struct evidence){.cores = s->cores, .core_count = CORES, .threads_seen = !step->unseen,
                                 .stat_prev_start_ns = s->w.mono - wall * MS, .stat_prev_end_ns = s->w.mono - wall * MS,
                                 .stat_start_ns = s->w.mono, .stat_end_ns = s->w.mono};
        for (unsigned i = 0; i < CORES; i++) {
                struct row *row = sample_row(s->w.sample, SCOPE_CPU, (struct key){i, 0}, 0);
                s->cores[i] = (struct iowait_core){.cpu = i, .valid = true, .iowait_ns = (int64_t)(step->iowait[i] * MS),
                        .idle_ns = (int64_t)(step->idle[i] * MS)};
                s->uring[i] += step->uring[i] * MS;
                s->least[i] += (step->loose ? step->least[i] : step->uring[i]) * MS;
                s->most[i] += (step->loose ? step->most[i] : step->uring[i]) * MS;
                row_set(row, CPU_WA_URING, s->uring[i]);
                row_set(row, CPU_WA_URING_MIN, s->least[i]);
                row_set(row, CPU_WA_URING_MAX, s->most[i]);
        }
}

static void waiters(struct scene *s, const struct step *step)
{
        for (unsigned i = 0; i < 4 && step->waiters[i].pid; i++) {
                unsigned pid = step->waiters[i].pid;
                struct row *row = sample_row(s->w.sample, SCOPE_WAITER, (struct key){pid * 10 + i, 1}, 0);
                row_set(row, WAITER_TGID, pid);
                row_set(row, WAITER_CORE, step->waiters[i].core);
                row_set(row, WAITER_WITNESS, step->waiters[i].witness);
                row = sample_row(s->w.sample, SCOPE_PROCESS, (struct key){pid, 1}, 0);
                row_text(row, PROCESS_CGROUP, pid % 2 ? "/a" : "/a/b", pid % 2 ? 2 : 4);
        }
}

static void groups(struct scene *s, const struct step *step)
{
        static const char *const paths[] = {"/", "/a", "/a/b", "/ab"};

        s->group_some += step->group_some * MS;
        for (unsigned i = 0; i < 4; i++) {
                struct row *row = sample_row(s->w.sample, SCOPE_CGROUP, key_of_name(paths[i], strlen(paths[i]), i), 0);
                row_text(row, CGROUP_PATH, paths[i], strlen(paths[i]));
                row_set(row, CGROUP_IO_SOME, s->group_some);
                row_set(row, CGROUP_IO_FULL, s->group_some / 2);
        }
}

static void tick(struct scene *s, const struct step *step)
{
        struct sample *sample = s->w.sample;
        static const enum scope all[] = {SCOPE_CPU, SCOPE_WAITER, SCOPE_PROCESS, SCOPE_PRESSURE, SCOPE_CGROUP};

        sealed_tick(&s->w, SECOND);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                sample_scope_begin(sample, all[i], s->w.mono);
        cores(s, step);
        waiters(s, step);
        groups(s, step);
        s->some += step->some * MS;
        s->full += step->full * MS;
        if (!step->no_pressure) {
                struct row *row = sample_row(sample, SCOPE_PRESSURE, (struct key){1, 0}, 0);
                row_set(row, PRESSURE_SOME, s->some);
                row_set(row, PRESSURE_FULL, s->full);
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                sample_scope_end(sample, all[i], s->w.mono, GONE_EXITED);
        struct iowait_witness witness = {.cpu = 0, .parked = true, .marked = !step->unmarked};
        struct iowait_seen seen = {.cpu = 0, .d_state = 1};
        if (step->full_core_parked) {
                s->e.witnesses = &witness;
                s->e.witness_count = 1;
        }
        if (step->seen_d) {
                s->e.seen = &seen;
                s->e.seen_count = 1;
        }
        struct iowait_witness witnesses[CORES];
        struct iowait_seen sleepers[CORES];
        for (unsigned i = 0; i < CORES && !step->full_core_parked && !step->seen_d; i++) {
                if (step->on[i].ring)
                        witnesses[s->e.witness_count++] = (struct iowait_witness){.cpu = i, .parked = step->on[i].parked, .marked = true};
                if (step->on[i].other)
                        sleepers[s->e.seen_count++] = (struct iowait_seen){.cpu = i, .d_state = 1};
                s->e.witnesses = witnesses;
                s->e.seen = sleepers;
        }
        psi_tick(s->psi, sample, &s->e, !step->unjudged);
        /* whatever comes, the bounds hold the value */
        if (host(s, PRESSURE_SOME_URING) >= 0) {
                assert_true(host(s, PRESSURE_SOME_URING_MIN) <= host(s, PRESSURE_SOME_URING));
                assert_true(host(s, PRESSURE_SOME_URING_MAX) >= host(s, PRESSURE_SOME_URING));
                assert_true(host(s, PRESSURE_FULL_URING_MIN) <= host(s, PRESSURE_FULL_URING));
                assert_true(host(s, PRESSURE_FULL_URING_MAX) >= host(s, PRESSURE_FULL_URING));
        } else {
                assert_true(host(s, PRESSURE_SOME_URING_MIN) == -1 && host(s, PRESSURE_SOME_URING_MAX) == -1);
        }
}

static long group(struct scene *s, const char *path, unsigned i, int metric)
{
        uint64_t value;
        struct row *row = sample_find(s->w.sample, SCOPE_CGROUP, key_of_name(path, strlen(path), i));

        return row && row_get(row, metric, &value) ? (long)((value + MS / 2) / MS) : -1;
}

static void begin(struct scene *s)
{
        tick(s, &(struct step){.idle = {1000, 1000}});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 0); /* from here on it is counted */
        assert_int_equal(host(s, PRESSURE_FULL_URING), 0);
}

/* A parked ring on an idle machine: all of it. */
static void test_parked(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {1000, 0}, .idle = {0, 990}, .uring = {1000, 0}, .some = 998, .full = 990});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 998);
        assert_int_equal(host(s, PRESSURE_FULL_URING), 990);
}

/* The same with its core at half load: some is still all the ring's, full only while the core is idle. */
static void test_loaded(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {500, 0}, .idle = {0, 1000}, .uring = {500, 0}, .some = 1000, .full = 500});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 1000);
        assert_int_equal(host(s, PRESSURE_FULL_URING), 500);
}

/* A ring on one core, a reader that sleeps for a disk on the other: each core weighs the same, so half. */
static void test_two_cores(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {1000, 1000}, .uring = {1000, 0}, .some = 1000, .full = 1000});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 500);
        assert_int_equal(host(s, PRESSURE_FULL_URING), 500);
        /* The reader sleeps for 200 of 1000 ms: weights 1 and 0.2, some = (1 x 1 + 0.2 x 0.2) / 1.2 = 0.867, the ring's 0.833 */
        tick(s, &(struct step){.iowait = {1000, 200}, .idle = {0, 800}, .uring = {1000, 0}, .some = 867, .full = 867});
        assert_in_range(host(s, PRESSURE_SOME_URING), 500 + 832, 500 + 835);
}

/* One parked, and the other core at work with many short waits: the ring's part is its core's weight, whatever the others' is. */
static void test_parked_beside_work(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {800, 50}, .idle = {0, 10}, .uring = {800, 0}, .some = 690, .full = 270,
                .full_core_parked = true});
        assert_in_range(host(s, PRESSURE_SOME_URING), 500, 505);
        /* reads that lie apart */
        tick(s, &(struct step){.iowait = {800, 50}, .idle = {0, 10}, .uring = {800, 0}, .some = 400, .full = 270,
                .full_core_parked = true});
        assert_in_range(host(s, PRESSURE_SOME_URING), 900, 905);
}

/* A disk only: nothing is explained, and that is known. */
static void test_disk(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {700, 0}, .idle = {300, 1000}, .some = 700, .full = 690});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 0);
        assert_int_equal(host(s, PRESSURE_FULL_URING), 0);
}

/* A core that never idles: iowait says nothing of its sleepers, a proved one does; a task in D state takes that back. */
static void test_full_core(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.idle = {0, 1000}, .some = 1000, .full_core_parked = true});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 1000);
        tick(s, &(struct step){.idle = {0, 1000}, .some = 1000, .full_core_parked = true, .seen_d = true});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 1000);
        tick(s, &(struct step){.idle = {0, 1000}, .some = 1000});
        assert_int_equal(host(s, PRESSURE_SOME_URING), 1000);
}

/* The same, and whether the thread is counted was never shown: nothing may be said, not even 0. */
static void test_full_core_unknown(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.idle = {0, 1000}, .some = 1000, .full_core_parked = true, .unmarked = true});
        assert_int_equal(host(s, PRESSURE_SOME_URING), -1);
        assert_int_equal(group(s, "/", 0, CGROUP_SOME_URING), -1);
}

/* What was not judged is not known: absent, and the sums go on afterwards without it. */
static void test_absent(void **state)
{
        struct scene *s = *state;
        const struct step parked = {.iowait = {1000, 0}, .idle = {0, 1000}, .uring = {1000, 0}, .some = 1000, .full = 1000};
        struct step step = parked;

        begin(s);
        step.unjudged = true;
        tick(s, &step);
        assert_int_equal(host(s, PRESSURE_SOME_URING), -1);
        tick(s, &parked); /* since when the cores' sums grew is not known */
        assert_int_equal(host(s, PRESSURE_SOME_URING), -1);
        tick(s, &parked);
        assert_int_equal(host(s, PRESSURE_SOME_URING), 1000);
        step = parked;
        step.no_pressure = true;
        tick(s, &step);
        assert_int_equal(host(s, PRESSURE_SOME_URING), -1);
}

static void between(struct scene *s, long low, long high)
{
        assert_in_range(host(s, PRESSURE_SOME_URING_MIN), low - 1, low + 1);
        assert_in_range(host(s, PRESSURE_SOME_URING_MAX), high - 1, high + 1);
}

/* How sure it is: whole where nothing else can have slept, and what the core ran is open where something can. */
static void test_how_sure(void **state)
{
        struct scene *s = *state;
        struct step step = {.iowait = {1000, 0}, .idle = {0, 1000}, .uring = {1000, 0}, .some = 1000, .full = 1000};

        begin(s);
        tick(s, &step);
        between(s, 1000, 1000);
        /* half of the time it ran something: all threads were seen, so only the ring's slept then */
        step = (struct step){.iowait = {500, 0}, .idle = {0, 1000}, .uring = {500, 0}, .some = 1000, .full = 500};
        tick(s, &step);
        between(s, 2000, 2000);
        step.unseen = true; /* or others as well */
        tick(s, &step);
        between(s, 2500, 3000);
        step.unseen = false;
        step.on[0].ring = step.on[0].parked = step.on[0].other = true; /* the ring's all the time; beside another for some of it */
        tick(s, &step);
        between(s, 3000, 4000);
        /* the split does not know it either */
        step = (struct step){.iowait = {1000, 0}, .idle = {0, 1000}, .uring = {600, 0}, .some = 1000, .full = 1000, .loose = true,
                .least = {300, 0}, .most = {1000, 0}};
        tick(s, &step);
        between(s, 3300, 5000);
        assert_in_range(host(s, PRESSURE_FULL_URING_MAX) - host(s, PRESSURE_FULL_URING_MIN), 699, 701);
}

/* Machines made of stretches of which it is known who slept and whether the core ran: the bounds hold the truth. */
static void test_model(void **state)
{
        struct scene *s = *state;
        uint64_t random = 88172645463325252;
        unsigned narrow = 0, known = 0;
        double width = 0, whole = 0;

        begin(s);
        for (int i = 0; i < 3000; i++) {
                struct step step = {.loose = true};
                double weights = 0, stalled = 0, truth = 0;
                for (int c = 0; c < CORES; c++) {
                        unsigned length[8], used = 0; /* 1 runs, 2 a ring's thread sleeps, 4 another sleeps */
                        unsigned without = sealed_random(&random) % 3 ? (unsigned)(sealed_random(&random) % 8) : 0;
                        for (unsigned k = 0; k < 8; k++) { /* whole ticks of the clock; a third of the machines lack some kinds */
                                length[k] = (k & without) == without && without ? 0 : (unsigned)(sealed_random(&random) % 13) * 10;
                                used += length[k];
                        }
                        length[sealed_random(&random) % 2 ? 2 : 0] += 1000 > used ? 1000 - used : 0;
                        step.idle[c] = length[0];
                        step.iowait[c] = length[2] + length[4] + length[6];
                        unsigned alone = length[2] + length[3], beside = length[4] + length[5] + length[6] + length[7];
                        unsigned slack = (unsigned)(sealed_random(&random) % 3) * 50;
                        step.uring[c] = length[2];
                        step.least[c] = length[2] > slack ? length[2] - slack : 0;
                        step.most[c] = length[2] + slack < step.iowait[c] ? length[2] + slack : step.iowait[c];
                        step.on[c].ring = length[2] + length[3] + length[6] + length[7] > 0;
                        step.on[c].parked = step.on[c].ring && length[0] + length[1] + length[4] + length[5] == 0;
                        step.on[c].other = beside > 0;
                        double weight = 1000 - length[0];
                        weights += weight;
                        stalled += weight * (alone + beside);
                        truth += weight * alone;
                }
                step.some = (unsigned)(weights > 0 ? stalled / weights + 0.5 : 0);
                long low = host(s, PRESSURE_SOME_URING_MIN), high = host(s, PRESSURE_SOME_URING_MAX);
                tick(s, &step);
                if (low < 0 || host(s, PRESSURE_SOME_URING_MIN) < 0)
                        continue;
                low = host(s, PRESSURE_SOME_URING_MIN) - low;
                high = host(s, PRESSURE_SOME_URING_MAX) - high;
                truth = weights > 0 ? truth / weights : 0;
                if ((double)low > truth + 2 || (double)high < truth - 2)
                        print_message("# %d: %ld to %ld, truth %.1f\n", i, low, high, truth);
                assert_true((double)low <= truth + 2 && (double)high >= truth - 2); /* ms; each of the numbers is rounded */
                known++;
                narrow += high - low <= 20;
                width += (double)(high - low);
                whole += step.some;
        }
        print_message("# %u known, %u of them within 20 ms; bounds are %.0f%% of some apart\n", known, narrow, 100 * width / whole);
        assert_true(known > 2500 && narrow > 10 && width < 0.8 * whole);
}

/* It never passes what the kernel counted, and never falls, whatever comes. */
static void test_bounds(void **state)
{
        struct scene *s = *state;
        uint64_t random = 88172645463325252;
        long before = 0;

        begin(s);
        for (int i = 0; i < 2000; i++) {
                struct step step = {0};
                for (int c = 0; c < CORES; c++) {
                        step.iowait[c] = (unsigned)(sealed_random(&random) % 1001);
                        step.idle[c] = (unsigned)(sealed_random(&random) % (1201 - step.iowait[c]));
                        step.uring[c] = step.iowait[c] ? (unsigned)(sealed_random(&random) % (step.iowait[c] + 1)) : 0;
                }
                step.some = (unsigned)(sealed_random(&random) % 1100);
                step.full = (unsigned)(sealed_random(&random) % (step.some + 1));
                tick(s, &step);
                long now = host(s, PRESSURE_SOME_URING);
                assert_true(now >= before && now <= before + (long)step.some + 1);
                assert_true((uint64_t)host(s, PRESSURE_FULL_URING) <= s->full / MS + 1);
                before = now;
        }
}

/* Groups: who waits belongs to its own group and those above, and to no other one with the same beginning. */
static void test_groups(void **state)
{
        struct scene *s = *state;

        begin(s);
        tick(s, &(struct step){.iowait = {1000, 0}, .idle = {0, 1000}, .uring = {1000, 0}, .some = 1000, .full = 1000, .group_some = 1000,
                               .waiters = {{4, 0, 700}}});
        assert_int_equal(group(s, "/", 0, CGROUP_SOME_URING), 1000);
        assert_int_equal(group(s, "/a", 1, CGROUP_SOME_URING), 1000);
        assert_int_equal(group(s, "/a/b", 2, CGROUP_SOME_URING), 1000);
        assert_int_equal(group(s, "/a/b", 2, CGROUP_FULL_URING), 500);
        assert_int_equal(group(s, "/ab", 3, CGROUP_SOME_URING), 0);
        /* a task of /a in D state on the other core: half of it; /a/b has none */
        tick(s, &(struct step){.iowait = {1000, 1000}, .uring = {1000, 0}, .some = 1000, .group_some = 1000, .waiters = {{4, 0, 700}, {6,
                1, 701}}});
        assert_int_equal(group(s, "/a", 1, CGROUP_SOME_URING), 1500);
        assert_int_equal(group(s, "/a/b", 2, CGROUP_SOME_URING), 2000);
        /* storage pending is no sleep; a refuted waiter is nobody's */
        tick(s, &(struct step){.iowait = {1000, 0}, .idle = {0, 1000}, .some = 1000, .group_some = 1000, .waiters = {{5, 0, 700}, {1, 1,
                700}}});
        assert_int_equal(group(s, "/a/b", 2, CGROUP_SOME_URING), 2000);
}

/* The group's file is read once a second, ticks are shorter: what they saw is added up until then. */
static void test_groups_are_read_less_often(void **state)
{
        struct scene *s = *state;
        struct step step = {.iowait = {1000, 0}, .idle = {0, 1000}, .uring = {1000, 0}, .waiters = {{4, 0, 700}}};

        begin(s);
        tick(s, &step);
        step.waiters[0].witness = 6;
        step.uring[0] = 0;
        step.group_some = 2000;
        tick(s, &step);
        assert_int_equal(group(s, "/a/b", 2, CGROUP_SOME_URING), 1000);
}

/* ---- a captured machine with control groups v2 --------------------------------------------------------------------------------------- */

static void write_tree(const struct machine *m, unsigned number, unsigned waits, unsigned a_some, unsigned b_some)
{
        char path[128];

#define PUT(name, ...) (snprintf(path, sizeof path, "%04u/%s", number, name), machine_writef(m, path, __VA_ARGS__))
        PUT("clock", "%llu %llu 3000\n", (unsigned long long)(1000 + number) * SECOND, (unsigned long long)(1000 + number) * SECOND);
        PUT("system", "hz=100\npage_size=4096\n");
        PUT("proc/stat", "cpu 0 0 0 %u %u 0 0 0 0 0\ncpu0 0 0 0 1000 %u 0 0 0 0 0\ncpu1 0 0 0 %u 1000 0 0 0 0 0\nprocs_running 1\n"
                "procs_blocked 1\n", 2000 + waits, 1000 + waits,
            1000 + waits, 1000 + waits);
        PUT("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=%u\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%u\n",
                waits * 10000, waits * 9900);
        PUT("proc/devices", "Block devices:\n  8 sd\n");
        PUT("sys/fs/cgroup/cgroup.controllers", "cpu io\n");
        PUT("sys/fs/cgroup/a/cgroup.events", "populated 1\n");
        PUT("sys/fs/cgroup/a/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=%u\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=%u\n", a_some, a_some / 2);
        PUT("sys/fs/cgroup/b/cgroup.events", "populated 1\n");
        PUT("sys/fs/cgroup/b/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=%u\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", b_some);
#undef PUT
}

/* One tick as the sampler does it; the split and the waiters are those of a thread of /a parked on cpu0, and one of /b in D state on
 * cpu1. */
static void captured_tick(struct collect *c, struct psi *psi, uint64_t uring)
{
        static const struct { uint64_t pid, core, witness; const char *group; } waits[] = {{700, 0, 4, "/a"}, {800, 1, 6, "/b"}};

        assert_int_equal(collect_tick(c), 0);
        sample_scope_begin(c->sample, SCOPE_WAITER, SECOND);
        sample_scope_begin(c->sample, SCOPE_PROCESS, SECOND);
        for (size_t i = 0; i < 2; i++) {
                struct row *row = sample_row(c->sample, SCOPE_WAITER, (struct key){waits[i].pid, 1}, 0);
                row_set(row, WAITER_TGID, waits[i].pid);
                row_set(row, WAITER_CORE, waits[i].core);
                row_set(row, WAITER_WITNESS, waits[i].witness);
                row = sample_row(c->sample, SCOPE_PROCESS, (struct key){waits[i].pid, 1}, 0);
                row_text(row, PROCESS_CGROUP, waits[i].group, 2);
        }
        sample_scope_end(c->sample, SCOPE_WAITER, SECOND, GONE_EXITED);
        sample_scope_end(c->sample, SCOPE_PROCESS, SECOND, GONE_EXITED);
        for (uint64_t core = 0; core < 2; core++)
                row_set(sample_find(c->sample, SCOPE_CPU, (struct key){core, 0}), CPU_WA_URING, core == 0 ? uring : 0);
        psi_tick(psi, c->sample, &c->evidence, true);
}

static void test_captured(void **unused)
{
        const struct collector *parts[] = {&collector_cpu, &collector_pressure, &collector_cgroup};
        struct collect c;
        struct psi *psi;

        collect_init(&c);
        write_tree(&c.machine, 0, 0, 500, 70);
        write_tree(&c.machine, 1, 100, 1000500, 60070);
        assert_int_equal(psi_new(&psi), 0);
        assert_int_equal(collect_open(&c, parts, 3), 0);
        captured_tick(&c, psi, 0);
        captured_tick(&c, psi, SECOND);
        struct row *io = sample_find(c.sample, SCOPE_PRESSURE, (struct key){1, 0});
        struct row *a = collect_named(&c, SCOPE_CGROUP, CGROUP_PATH, "/a"), *b = collect_named(&c, SCOPE_CGROUP, CGROUP_PATH, "/b"),
                   *root = collect_named(&c, SCOPE_CGROUP, CGROUP_PATH, "/");
        assert_int_equal(collect_value(io, PRESSURE_SOME_URING), SECOND);
        assert_int_equal(collect_value(io, PRESSURE_FULL_URING), SECOND / 100 * 99);
        assert_int_equal(collect_value(a, CGROUP_IO_SOME), 1000500 * 1000ll);
        assert_int_equal(collect_value(a, CGROUP_SOME_URING), SECOND);
        assert_int_equal(collect_value(a, CGROUP_FULL_URING), SECOND / 2);
        assert_int_equal(collect_value(b, CGROUP_IO_SOME), 60070 * 1000ll);
        assert_int_equal(collect_value(b, CGROUP_SOME_URING), 0); /* a device's or who knows whose, and no ring's */
        assert_int_equal(collect_value(root, CGROUP_SOME_URING), -1); /* the root has no such file here */
        collect_fini(&c);
        psi_free(psi);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_parked, setup, teardown), cmocka_unit_test_setup_teardown(test_loaded, setup,
                        teardown),
                cmocka_unit_test_setup_teardown(test_two_cores, setup, teardown), cmocka_unit_test_setup_teardown(test_parked_beside_work,
                        setup, teardown), cmocka_unit_test_setup_teardown(test_disk, setup, teardown),
                cmocka_unit_test_setup_teardown(test_full_core, setup, teardown), cmocka_unit_test_setup_teardown(test_full_core_unknown,
                        setup, teardown), cmocka_unit_test_setup_teardown(test_absent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
                cmocka_unit_test_setup_teardown(test_how_sure, setup, teardown),
                cmocka_unit_test_setup_teardown(test_model, setup, teardown), cmocka_unit_test_setup_teardown(test_groups, setup,
                        teardown),
                cmocka_unit_test_setup_teardown(test_groups_are_read_less_often, setup, teardown),
                cmocka_unit_test(test_captured),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

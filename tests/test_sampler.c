/*
 * The sampler on a captured machine of three trees: frames come out, the parts of wa add up to iowait and grow, gaps are named, scopes
 * come and go with leases. Deadlines on their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/deadline.h"
#include "daemon/sampler.h"
#include "sample/control.h"
#include "sample/state.h"
#include "tests/fake_tracer.h"

#define SECOND UINT64_C(1000000000)

static char root[300];

static void put(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *path, const char *format, ...)
{
        char full[600];
        va_list args;

        snprintf(full, sizeof full, "%s/%s", root, path);
        for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
                *at = '\0';
                mkdir(full, 0700);
                *at = '/';
        }
        FILE *file = fopen(full, "w");
        assert_non_null(file);
        va_start(args, format);
        vfprintf(file, format, args);
        va_end(args);
        assert_int_equal(fclose(file), 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

struct machine {
        unsigned seconds, suspended; /* since tree 0; how long of it it slept */
        unsigned iowait;             /* clock ticks of core 0 */
        unsigned disk_ms;            /* time of reads of sda */
        char boot;                   /* a digit of the boot id */
};

static void put_tree(unsigned number, struct machine m)
{
        char path[64];
        uint64_t mono = (1000 + m.seconds) * SECOND;

#define AT(name) (snprintf(path, sizeof path, "%04u/%s", number, name), path)
        put(AT("clock"), "%llu %llu %llu\n", (unsigned long long)mono, (unsigned long long)(mono + m.suspended * SECOND),
                (unsigned long long)(UINT64_C(1700000000) * SECOND + mono));
        put(AT("system"), "hz=100\npage_size=4096\nncpu=2\n");
        put(AT("proc/sys/kernel/random/boot_id"), "0f0e0d0c-0b0a-0908-0706-05040302010%c\n", m.boot);
        unsigned ticks = (1000 + m.seconds) * 100;
        put(AT("proc/stat"), "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 10 %u %u 0 0 0 0 0\ncpu1 20 0 20 %u 0 0 0 0 0 0\n"
                             "intr 5\nctxt 6\nbtime 1700000000\nprocesses 7\nprocs_running 1\nprocs_blocked 0\n",
                ticks - m.iowait, m.iowait, ticks);
        put(AT("proc/loadavg"), "0.10 0.20 0.30 1/100 1234\n");
        put(AT("proc/uptime"), "%u.00 1.00\n", 1000 + m.seconds);
        put(AT("proc/diskstats"), "   8       0 sda %u 0 8 %u 0 0 0 0 0 %u %u 0 0 0 0 0 0\n", m.disk_ms, m.disk_ms, m.disk_ms, m.disk_ms);
#undef AT
}

static int set_up(void **unused)
{
        const char *tmp = getenv("TMPDIR");

        (void)unused;
        snprintf(root, sizeof root, "%s/watop-sampler.XXXXXX", tmp != NULL ? tmp : "/tmp");
        return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **unused)
{
        (void)unused;
        return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

struct rig {
        struct procfs *procfs;
        struct sampler *sampler;
        struct state *state;
};

static void rig_open_traced(struct rig *rig, uint32_t scopes_wanted, struct tracer *tracer)
{
        assert_int_equal(procfs_open_root(root, &rig->procfs), 0);
        struct sampler_options options = { .procfs = rig->procfs, .interval_ns = SECOND, .scopes = scopes_wanted, .cmdline = CMDLINE_FULL,
                .tracer = tracer };
        assert_int_equal(sampler_new(&options, &rig->sampler), 0);
        assert_int_equal(state_new(&rig->state), 0);
}

static void rig_open(struct rig *rig, uint32_t scopes_wanted)
{
        rig_open_traced(rig, scopes_wanted, NULL);
}

static void rig_close(struct rig *rig)
{
        state_free(rig->state);
        sampler_free(rig->sampler);
        procfs_close_root(rig->procfs);
}

static const struct frame_head *step(struct rig *rig)
{
        struct sampler_frame frame;

        assert_int_equal(sampler_step(rig->sampler, 0, &frame), 0);
        assert_int_equal(frame_check(frame.bytes, frame.length), 0);
        assert_true(state_apply(rig->state, frame.bytes, NULL) >= 0);
        return frame.bytes;
}

static uint64_t core(struct rig *rig, unsigned cpu, int metric)
{
        uint64_t value = UINT64_MAX;
        const struct state_row *row = state_find(rig->state, SCOPE_CPU, (struct key){ cpu, 0 });

        assert_non_null(row);
        assert_true(state_now(row, metric, &value));
        return value;
}

static uint64_t by_level(struct rig *rig, unsigned cpu)
{
        return core(rig, cpu, CPU_BY_EXACT) + core(rig, cpu, CPU_BY_PARKED) + core(rig, cpu, CPU_BY_SEEN) +
                core(rig, cpu, CPU_BY_BOUND) + core(rig, cpu, CPU_BY_NONE);
}

static void splits_add_up(void **unused)
{
        struct rig rig;

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .iowait = 500, .disk_ms = 100, .boot = '1' });
        put_tree(1, (struct machine){ .seconds = 1, .iowait = 580, .disk_ms = 100, .boot = '1' });
        put_tree(2, (struct machine){ .seconds = 2, .iowait = 600, .disk_ms = 300, .boot = '1' });
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        const struct frame_head *head = step(&rig);
        assert_int_equal(head->sequence, 1);
        assert_true(head->flags & FRAME_FULL);
        assert_int_equal(head->mono_ns, 1000 * SECOND);
        assert_int_equal(head->tick_ns, 0);
        assert_int_equal(head->boot_id[0], 0x0f);
        assert_int_equal(head->boot_id[15], 0x01);
        /* What the split needs comes with the cores; nobody asked for processes. */
        assert_true(head->scopes_on & SCOPE_BIT(SCOPE_DISK));
        assert_false(head->scopes_on & SCOPE_BIT(SCOPE_PROCESS));
        /* Nothing has been seen yet: 0, although the machine has waited 5 s since it started. */
        assert_int_equal(core(&rig, 0, CPU_IOWAIT), 5 * SECOND);
        assert_int_equal(core(&rig, 0, CPU_WA_DISK) + core(&rig, 0, CPU_WA_OTHER) + core(&rig, 0, CPU_WA_URING), 0);
        assert_null(state_one(rig.state, SCOPE_SELF));

        head = step(&rig);
        assert_int_equal(head->tick_ns, SECOND);
        assert_int_equal(head->gap, GAP_NONE);
        /* 0.8 s of iowait and no device did anything: none of it is a disk's. */
        assert_int_equal(core(&rig, 0, CPU_WA_DISK) + core(&rig, 0, CPU_WA_OTHER) + core(&rig, 0, CPU_WA_URING), SECOND * 8 / 10);
        assert_true(core(&rig, 0, CPU_WA_DISK) < SECOND / 20);
        assert_int_equal(by_level(&rig, 0), SECOND * 8 / 10);
        assert_int_equal(core(&rig, 1, CPU_WA_DISK) + core(&rig, 1, CPU_WA_OTHER), 0);

        uint64_t other = core(&rig, 0, CPU_WA_OTHER), disk = core(&rig, 0, CPU_WA_DISK);
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_WA_DISK) + core(&rig, 0, CPU_WA_OTHER) + core(&rig, 0, CPU_WA_URING), SECOND);
        assert_true(core(&rig, 0, CPU_WA_OTHER) >= other && core(&rig, 0, CPU_WA_DISK) > disk);
        assert_int_equal(by_level(&rig, 0), SECOND);

        struct sampler_frame frame;
        assert_int_equal(sampler_step(rig.sampler, 0, &frame), -ENODATA);
        assert_int_equal(sampler_step(rig.sampler, 0, &frame), -ENODATA);
        rig_close(&rig);
}

/* The cores are sampled while somebody asks. What the machine waited meanwhile is nobody's evidence, so it is in no part. */
static void a_pause_is_not_judged(void **unused)
{
        struct rig rig;

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .boot = '1' });
        put_tree(1, (struct machine){ .seconds = 1, .iowait = 50, .boot = '1' });
        put_tree(2, (struct machine){ .seconds = 2, .iowait = 100, .boot = '1' });
        put_tree(3, (struct machine){ .seconds = 3, .iowait = 180, .boot = '1' });
        put_tree(4, (struct machine){ .seconds = 4, .iowait = 210, .boot = '1' });
        rig_open(&rig, SCOPE_BIT(SCOPE_DISK));
        sampler_lease(rig.sampler, SCOPE_BIT(SCOPE_CPU));
        step(&rig);
        step(&rig);
        assert_int_equal(by_level(&rig, 0), SECOND / 2);
        sampler_lease(rig.sampler, 0);
        step(&rig);
        sampler_lease(rig.sampler, SCOPE_BIT(SCOPE_CPU));
        step(&rig);
        assert_int_equal(by_level(&rig, 0), SECOND / 2);
        /* And no reader sees a difference over the pause. */
        double delta;
        assert_int_not_equal(state_delta(state_find(rig.state, SCOPE_CPU, (struct key){ 0, 0 }), CPU_IOWAIT, &delta), DELTA_OK);
        step(&rig);
        assert_int_equal(by_level(&rig, 0), SECOND * 8 / 10);
        rig_close(&rig);
}

/* A thread sleeps in io_uring through a tick in which its core was idle, so it is not counted. Its row says so in that tick's frame. */
static void verdicts_are_of_their_tick(void **unused)
{
        struct rig rig;
        uint64_t witness = 0;

        (void)unused;
        for (unsigned i = 0; i < 2; i++) {
                char path[64];
                put_tree(i, (struct machine){ .seconds = i, .iowait = i * 50, .boot = '1' });
#define AT(name) (snprintf(path, sizeof path, "%04u/proc/500/" name, i), path)
                static const char stat[] = "500 (Proactor0) S 1 1 1 0 -1 4194368 1 2 3 4 5 6 7 8 20 0 1 0 7 1000 10 18446744073709551615 "
                        "1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";
                put(AT("stat"), "%s", stat);
                put(AT("task/500/stat"), "%s", stat);
                put(AT("task/500/status"), "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t3\n");
                put(AT("task/500/wchan"), "io_cqring_wait");
                put(AT("task/500/syscall"), "426 0x4 0x0 0x1 0x1 0x0 0x8 0x7ffe 0x7fff\n");
#undef AT
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        step(&rig);
        step(&rig);
        const struct state_row *row = state_at(rig.state, SCOPE_WAITER, 0);
        assert_non_null(row);
        assert_true(state_now(row, WAITER_WITNESS, &witness));
        assert_int_equal(witness, 1);
        rig_close(&rig);
}

/* ---- tracing -------------------------------------------------------------------------------------------------------------- */

static void the_tracer_is_attached_while_asked_for(void **unused)
{
        struct rig rig;

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .boot = '1' });
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        assert_int_equal(sampler_lease(rig.sampler, LEASE_EXACT | LEASE_RINGS), LEASE_RINGS);
        rig_close(&rig);

        rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
        assert_false(fake_tracer.attached);
        assert_int_equal(sampler_lease(rig.sampler, LEASE_EXACT), LEASE_EXACT);
        assert_int_equal(sampler_lease(rig.sampler, LEASE_EXACT | LEASE_RINGS), LEASE_EXACT | LEASE_RINGS);
        assert_true(fake_tracer.attached);
        assert_int_equal(fake_tracer.attaches, 1);
        step(&rig);
        assert_int_equal(sampler_lease(rig.sampler, LEASE_RINGS), LEASE_RINGS);
        assert_false(fake_tracer.attached);
        fake_tracer.attach_error = -EPERM;
        assert_int_equal(sampler_lease(rig.sampler, LEASE_EXACT), 0);
        rig_close(&rig);
}

/* The kernel counts 0.8 s, tracing saw 0.3 s of disk, 0.5 s of an idle reactor, 0.1 s of something else, interrupts included. */
static void traced_times_divide_the_kernels(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 6; i++)
                put_tree(i, (struct machine){ .seconds = i, .iowait = i * 80, .disk_ms = i * 900, .boot = '1' });
        rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
        sampler_lease(rig.sampler, LEASE_EXACT);
        fake_tracer.cores[0].disk_ns = 7 * SECOND; /* whatever it was before */
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), 0);
        fake_tracer.cores[0].disk_ns += SECOND * 3 / 10;
        fake_tracer.cores[0].uring_ns += SECOND * 5 / 10;
        fake_tracer.cores[0].other_ns += SECOND * 1 / 10;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND * 8 / 10);
        assert_in_range(core(&rig, 0, CPU_WA_DISK), 266666660, 266666670);
        assert_in_range(core(&rig, 0, CPU_WA_URING), 444444440, 444444448);
        assert_int_equal(core(&rig, 0, CPU_WA_DISK_MAX), core(&rig, 0, CPU_WA_DISK_MIN));
        assert_int_equal(fake_tracer.maintained, 2);

        /* A waiter was lost for want of room: not exact. Then tracing goes away, and comes back with counters from 0. */
        fake_tracer.stats.overflow = 1;
        fake_tracer.cores[0].disk_ns += SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND * 8 / 10);
        sampler_lease(rig.sampler, 0);
        sampler_lease(rig.sampler, LEASE_EXACT);
        fake_tracer.cores[0] = (struct tracer_core){ .cpu = 0 };
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND * 8 / 10);
        uint64_t other = core(&rig, 0, CPU_WA_OTHER);
        fake_tracer.cores[0].other_ns = SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND * 16 / 10);
        assert_int_equal(core(&rig, 0, CPU_WA_OTHER), other + SECOND * 8 / 10);
        rig_close(&rig);
}

/* Somebody asks for the exact split in the midst of an interval. What was traced of it stands, the rest is a bound. */
static void tracing_begins_within_an_interval(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 3; i++)
                put_tree(i, (struct machine){ .seconds = i, .iowait = i * 80, .disk_ms = i * 900, .boot = '1' });
        rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
        step(&rig);
        sampler_lease(rig.sampler, LEASE_EXACT);
        fake_tracer.stats.attached_ns = UINT64_MAX; /* after the read before */
        fake_tracer.cores[0].uring_ns = SECOND * 6 / 10;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), 0);
        assert_int_equal(core(&rig, 0, CPU_WA_URING), SECOND * 6 / 10);
        assert_int_equal(core(&rig, 0, CPU_WA_URING_MIN), SECOND * 6 / 10);
        assert_int_equal(core(&rig, 0, CPU_WA_DISK_MAX), SECOND * 2 / 10);
        fake_tracer.cores[0].uring_ns += SECOND * 8 / 10;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND * 8 / 10);
        rig_close(&rig);
}

/* Two that slept already, in no ring. Where one of them sleeps, nobody waits for anything but a block device. */
static void a_wait_from_before_is_proved_by_its_channel(void **unused)
{
        static const char *const channels[] = { "submit_bio_wait", "folio_wait_bit_common" };
        struct rig rig;
        char path[64];

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .boot = '1' });
        for (int i = 0; i < 2; i++) {
                snprintf(path, sizeof path, "0000/proc/7/task/%d/wchan", 7 + i);
                put(path, "%s", channels[i]);
        }
        for (int early = 0; early < 2; early++) { /* tracing may begin before the sampler does */
                rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
                fake_tracer.attached = early;
                sampler_lease(rig.sampler, LEASE_EXACT);
                fake_tracer.waiter_count = 2;
                for (int i = 0; i < 2; i++)
                        fake_tracer.waiters[i] = (struct tracer_waiter){ .tid = 7 + i, .tgid = 7, .asleep = true, .seeded = true,
                                .sleeps = 1, .class = TRACER_OTHER };
                step(&rig);
                assert_int_equal(fake_tracer.waiters[0].class, TRACER_DISK);
                assert_int_equal(fake_tracer.waiters[1].class, TRACER_OTHER);
                rig_close(&rig);
        }
}

/* More than one tick's proofs of waits that nothing proves: the one behind them has its turn. */
static void waits_that_cannot_be_proved_hide_nobody(void **unused)
{
        enum { MANY = 150, STUCK = 140 };
        struct rig rig;
        char path[64];

        (void)unused;
        for (unsigned i = 0; i < 5; i++) {
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
                snprintf(path, sizeof path, "%04u/proc/7/task/%d/wchan", i, 1000 + STUCK);
                put(path, "submit_bio_wait");
        }
        rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
        sampler_lease(rig.sampler, LEASE_EXACT);
        fake_tracer.waiter_count = MANY;
        for (int i = 0; i < MANY; i++)
                fake_tracer.waiters[i] = (struct tracer_waiter){ .tid = 1000 + i, .tgid = 7, .asleep = true, .seeded = true, .sleeps = 1,
                        .class = TRACER_OTHER };
        for (int i = 0; i < 4; i++)
                step(&rig);
        assert_int_equal(fake_tracer.waiters[STUCK].class, TRACER_DISK);
        assert_int_equal(fake_tracer.waiters[0].class, TRACER_OTHER);
        rig_close(&rig);
}

/* Hundreds of reactors that slept already, and one that fell asleep later. Nobody's rings can be read here: only the later one is exact. */
static void sleepers_from_before_need_evidence(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 5; i++)
                put_tree(i, (struct machine){ .seconds = i, .iowait = i * 100, .boot = '1' });
        rig_open_traced(&rig, SCOPE_BIT(SCOPE_CPU), fake_tracer_reset());
        sampler_lease(rig.sampler, LEASE_EXACT);
        fake_tracer.waiter_count = FAKE_WAITERS;
        for (int i = 0; i < FAKE_WAITERS; i++)
                fake_tracer.waiters[i] = (struct tracer_waiter){ .tid = 1000 + i, .tgid = 1000, .start_boot_ns = 5, .asleep = true,
                        .seeded = i > 0, .ring_wait = true, .class = TRACER_URING };
        step(&rig);
        fake_tracer.cores[0].uring_ns += SECOND;
        for (int i = 0; i < FAKE_WAITERS; i++)
                fake_tracer.waiters[i].uring_ns += SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_WA_URING), 0);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), 0);
        assert_int_equal(core(&rig, 0, CPU_WA_URING_MAX), SECOND);
        assert_int_equal(core(&rig, 0, CPU_WA_OTHER), SECOND); /* no device worked; but it may be all uring, so what is other is open too */
        assert_int_equal(core(&rig, 0, CPU_WA_OTHER_MIN), 0);
        assert_int_equal(core(&rig, 0, CPU_WA_OTHER_MAX), SECOND);
        /* Some end, and are dropped. */
        fake_tracer.waiter_count = FAKE_WAITERS - 10;
        for (int i = 0; i < FAKE_WAITERS; i++)
                fake_tracer.waiters[i].uring_ns += i == 0 ? SECOND : 0;
        fake_tracer.cores[0].uring_ns += SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), 0);
        /* They wake, and sleep again: of this interval nobody knows, of the next one tracing does. */
        for (int i = 0; i < FAKE_WAITERS; i++) {
                fake_tracer.waiters[i].uring_ns += SECOND / 2;
                fake_tracer.waiters[i].seeded = false;
        }
        fake_tracer.cores[0].uring_ns += SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), 0);
        for (int i = 0; i < FAKE_WAITERS; i++)
                fake_tracer.waiters[i].uring_ns += SECOND;
        fake_tracer.cores[0].uring_ns += SECOND;
        step(&rig);
        assert_int_equal(core(&rig, 0, CPU_BY_EXACT), SECOND);
        rig_close(&rig);
}

/* On the machine this runs on: watopd's row says what tracing does. */
static void the_tracer_is_in_our_own_row(void **unused)
{
        static const struct { struct tracer_stats stats; bool lease; uint64_t state; } cases[] = {
                { { .unmatched = 3 }, false, 1 }, { { .unmatched = 4, .run_ns = 77, .run_count = 2 }, true, 2 },
        };
        struct rig rig;
        struct sampler_frame frame;
        uint64_t value = 0;

        (void)unused;
        assert_int_equal(procfs_open_root(NULL, &rig.procfs), 0);
        struct sampler_options options = { .procfs = rig.procfs, .interval_ns = SECOND, .scopes = SCOPE_BIT(SCOPE_NET),
                .tracer = fake_tracer_reset() };
        assert_int_equal(sampler_new(&options, &rig.sampler), 0);
        assert_int_equal(state_new(&rig.state), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                sampler_lease(rig.sampler, cases[i].lease ? LEASE_EXACT : 0);
                fake_tracer.stats = cases[i].stats;
                assert_int_equal(sampler_tick(rig.sampler, &(struct sampler_order){ .due_ns = 0 }, &frame), 0);
                assert_true(state_apply(rig.state, frame.bytes, NULL) >= 0);
                const struct state_row *row = state_one(rig.state, SCOPE_SELF);
                assert_true(state_now(row, SELF_TRACER, &value));
                assert_int_equal(value, cases[i].state);
                assert_true(state_now(row, SELF_TRACER_MISSED, &value));
                assert_int_equal(value, cases[i].stats.unmatched);
                assert_int_equal(state_now(row, SELF_TRACER_TIME, &value), cases[i].stats.run_count > 0);
        }
        rig_close(&rig);
}

static bool fact_has(struct rig *rig, const char *name, const char *part)
{
        char text[1024];
        const struct state_row *row = state_find(rig->state, SCOPE_FACT, key_of_name(name, strlen(name), 0));

        return row && strstr(state_text_copy(rig->state, row, FACT_VALUE, text, sizeof text), part);
}

static unsigned beats;

static void beat(void *arg)
{
        assert_ptr_equal(arg, &beats);
        beats++;
}

/* On the machine this runs on: watopd's own settings are facts, new ones at once; and it shows that it lives while it works. */
static void settings_are_facts(void **unused)
{
        struct rig rig;
        struct sampler_frame frame;

        (void)unused;
        assert_int_equal(procfs_open_root(NULL, &rig.procfs), 0);
        struct sampler_options options = { .procfs = rig.procfs, .interval_ns = SECOND, .scopes = SCOPE_BIT(SCOPE_NET),
                .cmdline = CMDLINE_NAME, .ring_size = 4096, .alive = beat, .alive_arg = &beats };
        assert_int_equal(sampler_new(&options, &rig.sampler), 0);
        assert_int_equal(state_new(&rig.state), 0);
        assert_int_equal(sampler_tick(rig.sampler, &(struct sampler_order){ .due_ns = 0 }, &frame), 0);
        assert_int_equal(state_apply(rig.state, frame.bytes, NULL), 0);
        assert_true(fact_has(&rig, "watopd", "interval=1s cmdline=name ring_size=4096 scopes=net"));
        sampler_configure(rig.sampler, SECOND / 4, SCOPE_BIT(SCOPE_NET) | SCOPE_BIT(SCOPE_VM), CMDLINE_FULL);
        assert_int_equal(sampler_tick(rig.sampler, &(struct sampler_order){ .due_ns = 0 }, &frame), 0);
        assert_int_equal(state_apply(rig.state, frame.bytes, NULL), 0);
        assert_true(fact_has(&rig, "watopd", "interval=0.25s cmdline=full ring_size=4096 scopes=vm,net"));
        assert_true(beats > 4);
        rig_close(&rig);
}

/* Without clocks nothing can be bounded, but what the kernel counted is not swallowed. */
static void no_clocks(void **unused)
{
        struct rig rig;
        char path[400];

        (void)unused;
        for (unsigned i = 0; i < 2; i++) {
                put_tree(i, (struct machine){ .seconds = i, .iowait = i * 80, .boot = '1' });
                snprintf(path, sizeof path, "%s/%04u/clock", root, i);
                unlink(path);
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        step(&rig);
        step(&rig);
        assert_int_equal(by_level(&rig, 0), SECOND * 8 / 10);
        assert_int_equal(core(&rig, 0, CPU_BY_NONE), SECOND * 8 / 10);
        assert_int_equal(core(&rig, 0, CPU_WA_URING_MIN), 0);
        rig_close(&rig);
}

static void no_devices_no_ceiling(void **unused)
{
        struct rig rig;
        char path[400];

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .boot = '1' });
        put_tree(1, (struct machine){ .seconds = 1, .iowait = 80, .boot = '1' });
        for (int i = 0; i < 2; i++) {
                snprintf(path, sizeof path, "%s/%04d/proc/diskstats", root, i);
                unlink(path);
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        step(&rig);
        step(&rig);
        /* What devices did is not known: it may all have been a disk. */
        assert_int_equal(core(&rig, 0, CPU_WA_DISK_MAX), SECOND * 8 / 10);
        rig_close(&rig);
}

static void gaps_are_named(void **unused)
{
        struct rig rig;

        (void)unused;
        put_tree(0, (struct machine){ .seconds = 0, .boot = '1' });
        put_tree(1, (struct machine){ .seconds = 1, .suspended = 3600, .boot = '1' });
        put_tree(2, (struct machine){ .seconds = 2, .suspended = 3600, .boot = '1' });
        /* A capture stores what was read in the tick: no boot id here is no other boot. */
        char path[400];
        snprintf(path, sizeof path, "%s/0002/proc/sys/kernel/random/boot_id", root);
        unlink(path);
        put_tree(3, (struct machine){ .seconds = 3, .suspended = 3600, .boot = '2' });
        put_tree(4, (struct machine){ .seconds = 1, .suspended = 3600, .boot = '2' });
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        static const uint32_t gaps[] = { GAP_NONE, GAP_SUSPEND, GAP_NONE, GAP_REBOOT, GAP_RESET };
        for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
                const struct frame_head *head = step(&rig);
                assert_int_equal(head->gap, gaps[i]);
                /* A reader forgets all at these: it gets all again. */
                if (gaps[i] == GAP_REBOOT || gaps[i] == GAP_RESET)
                        assert_true(head->flags & FRAME_FULL);
                assert_int_equal(state_info(rig.state).to_sequence, i + 1);
        }
        rig_close(&rig);
}

/* A copy that lost some trees: what is there still counts, over the true time. */
static void missing_trees_are_passed_over(void **unused)
{
        struct rig rig;
        struct sampler_frame frame;
        char path[400];

        (void)unused;
        put_tree(2, (struct machine){ .seconds = 2, .boot = '1' });
        put_tree(4, (struct machine){ .seconds = 4, .boot = '1' });
        put_tree(5, (struct machine){ .seconds = 5, .boot = '1' });
        put_tree(12, (struct machine){ .seconds = 12, .boot = '1' });
        put("0007", "a file in the place of a tree\n");
        snprintf(path, sizeof path, "%s/0005/proc/stat", root);
        unlink(path); /* no cores in this one, but a frame */
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        static const struct { uint32_t missed; unsigned seconds; } want[] = { { 0, 2 }, { 1, 4 }, { 0, 5 }, { 6, 12 } };
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
                const struct frame_head *head = step(&rig);
                assert_int_equal(head->missed, want[i].missed);
                assert_int_equal(head->gap, want[i].missed ? GAP_LATE : GAP_NONE);
                assert_int_equal(head->mono_ns, (1000 + want[i].seconds) * SECOND);
        }
        assert_int_equal(state_count(rig.state, SCOPE_CPU), 2);
        assert_int_equal(sampler_step(rig.sampler, 0, &frame), -ENODATA);
        rig_close(&rig);
}

/* A machine whose cores cannot be read: frames without them. */
static void no_cores(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 3; i++) {
                char path[400];
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
                snprintf(path, sizeof path, "%s/%04u/proc/stat", root, i);
                unlink(path);
                snprintf(path, sizeof path, "%04u/errors", i);
                if (i == 1)
                        put(path, "proc/stat EACCES\n");
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU));
        for (int i = 0; i < 3; i++)
                step(&rig);
        assert_int_equal(state_count(rig.state, SCOPE_CPU), 0);
        rig_close(&rig);
}

static void leases_switch_scopes(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 4; i++) {
                char path[64];
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
                snprintf(path, sizeof path, "%04u/proc/net/dev", i);
                put(path, "Inter-|   Receive                                                |  Transmit\n"
                          " face |bytes    packets errs drop fifo frame compressed multicast|"
                          "bytes    packets errs drop fifo colls carrier compressed\n"
                          "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_SYSTEM));
        assert_false(step(&rig)->scopes_on & SCOPE_BIT(SCOPE_NET));
        uint64_t unknown = UINT64_C(1) << 60;
        assert_int_equal(sampler_lease(rig.sampler, SCOPE_BIT(SCOPE_NET) | unknown), SCOPE_BIT(SCOPE_NET));
        assert_true(step(&rig)->scopes_on & SCOPE_BIT(SCOPE_NET));
        assert_int_equal(state_count(rig.state, SCOPE_NET), 1);
        assert_int_equal(sampler_lease(rig.sampler, 0), 0);
        assert_false(step(&rig)->scopes_on & SCOPE_BIT(SCOPE_NET));
        state_base(rig.state);
        assert_int_equal(state_count(rig.state, SCOPE_NET), 0);
        rig_close(&rig);
}

static void refused_frames_lose_detail(void **unused)
{
        struct rig rig;

        (void)unused;
        for (unsigned i = 0; i < 3; i++)
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
        rig_open(&rig, SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_PROCESS) | SCOPE_BIT(SCOPE_THREAD));
        step(&rig);
        sampler_refused(rig.sampler);
        const struct frame_head *head = step(&rig);
        assert_true(head->flags & FRAME_FULL);
        assert_false(head->scopes_on & SCOPE_BIT(SCOPE_THREAD));
        assert_true(head->scopes_on & SCOPE_BIT(SCOPE_CPU));
        rig_close(&rig);
}

/* More processes than the ring takes: the busiest thousand stay, and those that left did not end. */
static void refused_twice_keeps_the_busiest(void **unused)
{
        struct rig rig;
        char path[64];

        (void)unused;
        for (unsigned i = 0; i < 3; i++) {
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
                for (unsigned pid = 1; pid <= 1100; pid++) {
                        snprintf(path, sizeof path, "%04u/proc/%u/stat", i, pid);
                        /* The last one works. */
                        put(path, "%u (p) S 1 1 1 0 -1 4194368 1 2 3 4 %u 6 7 8 20 0 1 0 7 1000 10 18446744073709551615 "
                                "1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n", pid, pid == 1100 ? i * 50 : 0);
                }
        }
        rig_open(&rig, SCOPE_BIT(SCOPE_PROCESS));
        step(&rig);
        step(&rig);
        assert_int_equal(state_count(rig.state, SCOPE_PROCESS), 1100);
        sampler_refused(rig.sampler);
        sampler_refused(rig.sampler);
        assert_true(step(&rig)->scopes_on & SCOPE_BIT(SCOPE_PROCESS));
        size_t gone = 0;
        for (size_t i = 0; i < state_count(rig.state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(rig.state, SCOPE_PROCESS, i);
                gone += row->gone;
                assert_true(!row->gone || row->reason == GONE_UNSAMPLED);
                assert_false(row->gone && row->key.a == 1100);
        }
        assert_int_equal(gone, 100);
        struct sampler_status status;
        sampler_get_status(rig.sampler, &status);
        assert_int_equal(status.detail, 2);
        rig_close(&rig);
}

static void marks_take_one_frame(void **unused)
{
        struct rig rig;
        struct sampler_frame frame;
        struct sampler_mark mark = { "phase 2\n", 8, 42, 1000 };

        (void)unused;
        for (unsigned i = 0; i < 3; i++)
                put_tree(i, (struct machine){ .seconds = i, .boot = '1' });
        rig_open(&rig, SCOPE_BIT(SCOPE_SYSTEM));
        step(&rig);
        assert_int_equal(sampler_tick(rig.sampler, &(struct sampler_order){ .mark = &mark }, &frame), 0);
        assert_int_equal(((const struct frame_head *)frame.bytes)->flags & (FRAME_MARK | FRAME_EXTRA), FRAME_MARK | FRAME_EXTRA);
        assert_int_equal(state_apply(rig.state, frame.bytes, NULL), 0);
        const struct state_row *row = state_one(rig.state, SCOPE_MARK);
        uint64_t pid;
        char text[32];
        assert_non_null(row);
        assert_true(state_now(row, MARK_PID, &pid));
        assert_int_equal(pid, 42);
        assert_string_equal(state_text_copy(rig.state, row, MARK_TEXT, text, sizeof text), "phase 2\n");
        state_base(rig.state);
        rig_close(&rig);
}

static void deadlines_stay_on_the_grid(void **unused)
{
        struct deadline d;
        uint64_t due;

        (void)unused;
        deadline_start(&d, 1000, 100);
        assert_int_equal(deadline_take(&d, 1000, &due), 0);
        assert_int_equal(d.next_ns, 1100);
        /* Late by less than a tick: none is missed, the grid stays. */
        assert_int_equal(deadline_take(&d, 1199, &due), 0);
        assert_int_equal(due, 1100);
        assert_int_equal(d.next_ns, 1200);
        assert_int_equal(deadline_take(&d, 1500, &due), 3);
        assert_int_equal(due, 1500);
        assert_int_equal(d.next_ns, 1600);
        assert_int_equal(deadline_take(&d, 1650 + UINT64_C(100) * UINT32_MAX * 2, &due), UINT32_MAX);
        assert_true(d.next_ns > 1650 + UINT64_C(100) * UINT32_MAX * 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(splits_add_up, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_pause_is_not_judged, set_up, tear_down),
                cmocka_unit_test_setup_teardown(no_clocks, set_up, tear_down),
                cmocka_unit_test_setup_teardown(verdicts_are_of_their_tick, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_tracer_is_attached_while_asked_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(traced_times_divide_the_kernels, set_up, tear_down),
                cmocka_unit_test_setup_teardown(tracing_begins_within_an_interval, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_wait_from_before_is_proved_by_its_channel, set_up, tear_down),
                cmocka_unit_test_setup_teardown(waits_that_cannot_be_proved_hide_nobody, set_up, tear_down),
                cmocka_unit_test_setup_teardown(sleepers_from_before_need_evidence, set_up, tear_down),
                cmocka_unit_test(the_tracer_is_in_our_own_row),
                cmocka_unit_test(settings_are_facts),
                cmocka_unit_test_setup_teardown(no_devices_no_ceiling, set_up, tear_down),
                cmocka_unit_test_setup_teardown(gaps_are_named, set_up, tear_down),
                cmocka_unit_test_setup_teardown(missing_trees_are_passed_over, set_up, tear_down),
                cmocka_unit_test_setup_teardown(no_cores, set_up, tear_down),
                cmocka_unit_test_setup_teardown(leases_switch_scopes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(refused_frames_lose_detail, set_up, tear_down),
                cmocka_unit_test_setup_teardown(refused_twice_keeps_the_busiest, set_up, tear_down),
                cmocka_unit_test_setup_teardown(marks_take_one_frame, set_up, tear_down),
                cmocka_unit_test(deadlines_stay_on_the_grid),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

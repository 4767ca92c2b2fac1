/*
 * The exact branch of the split: proportions of what was traced, and what may never happen, however the counters move: a negative part,
 * parts that do not add up to the kernel's iowait, disk above the ceiling, a real wait called uring, something called exact that was not
 * seen.
 */
#include "sample/iowait_exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

/* One core over one second; a device was busy all the while unless the test says otherwise. */
struct fixture {
        struct iowait_core core;
        struct iowait_witness witnesses[4];
        struct iowait_exact exact;
        struct iowait_input input;
        struct iowait_parts parts;
};

static void start(struct fixture *f, int64_t iowait_ms, int64_t disk_ms, int64_t uring_ms, int64_t other_ms)
{
        memset(f, 0, sizeof *f);
        f->core = (struct iowait_core){.cpu = 3, .iowait_ns = iowait_ms * MS, .idle_ns = 0, .valid = true};
        f->exact = (struct iowait_exact){.cpu = 3, .valid = true,
                .disk_ns = disk_ms * MS, .uring_ns = uring_ms * MS, .other_ns = other_ms * MS};
        f->input = (struct iowait_input){.wall_ns = SECOND, .cores = &f->core, .core_count = 1, .device_ns = SECOND, .in_flight = true,
                .in_flight_start = true, .witnesses = f->witnesses, .threads_seen = true, .exact = &f->exact};
}

static void check_parts(const struct fixture *f)
{
        const struct iowait_parts *p = &f->parts;
        int64_t iowait = f->core.valid && f->core.iowait_ns > 0 ? f->core.iowait_ns : 0;
        assert_int_equal(p->disk + p->uring + p->other, iowait);
        assert_true(p->disk >= 0 && p->uring >= 0 && p->other >= 0 && p->taken_back >= 0);
        assert_true(0 <= p->disk_min && p->disk_min <= p->disk && p->disk <= p->disk_max && p->disk_max <= iowait);
        assert_true(0 <= p->uring_min && p->uring_min <= p->uring && p->uring <= p->uring_max && p->uring_max <= iowait);
}

static struct iowait_parts *split(struct fixture *f)
{
        iowait_split(&f->input, &f->parts);
        check_parts(f);
        return &f->parts;
}

static struct iowait_witness *parked(struct fixture *f, enum iowait_ring ring)
{
        struct iowait_witness *w = &f->witnesses[f->input.witness_count++];
        *w = (struct iowait_witness){.tid = 100 + (int)f->input.witness_count, .tgid = 100, .cpu = 3, .parked = true, .ring = ring,
                .seeded = true};
        return w;
}

static void near(int64_t value, int64_t expected)
{
        assert_in_range(value - expected + 2, 0, 4);
}

static void the_kernels_sum_in_traced_proportions(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 800, 300, 500, 100); /* interrupts are in the traced time and not in the kernel's */
        struct iowait_parts *p = split(&f);
        near(p->disk, 800 * MS * 3 / 9);
        near(p->uring, 800 * MS * 5 / 9);
        near(p->other, 800 * MS / 9);
        assert_int_equal(p->level, IOWAIT_EXACT);
        assert_int_equal(p->disk_min, p->disk);
        assert_int_equal(p->disk_max, p->disk);
        assert_int_equal(p->uring_min, p->uring);
        assert_int_equal(p->uring_max, p->uring);

        start(&f, 0, 3, 0, 0);
        assert_int_equal(split(&f)->level, IOWAIT_EXACT);
        start(&f, -500, 300, 0, 0);
        p = split(&f);
        assert_int_equal(p->taken_back, 500 * MS);
        assert_int_equal(p->disk, 0);
}

static void the_rules_judge_where_nothing_was_traced(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 800, 800, 0, 0);
        f.exact.valid = false;
        assert_int_equal(split(&f)->level, IOWAIT_BOUND);
        start(&f, 800, 0, 0, 0);
        assert_int_equal(split(&f)->level, IOWAIT_BOUND);
        start(&f, 800, 0, 0, 800);
        f.core.valid = false;
        assert_int_equal(split(&f)->level, IOWAIT_NONE);
}

/* A read a little later, two ticks of rounding: still exact. Half of the iowait without a cause: not. */
static void what_is_not_covered_is_not_exact(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 800, 0, 770, 0);
        assert_int_equal(split(&f)->level, IOWAIT_EXACT);
        assert_int_equal(f.parts.uring, 800 * MS);

        start(&f, 800, 0, 400, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->level, IOWAIT_BOUND);
        near(p->uring, 400 * MS);
        near(p->disk, 400 * MS); /* as the rules have it: devices were busy */
        assert_true(p->uring_min <= 400 * MS && p->uring_max == 800 * MS && p->disk_max == 400 * MS);
        start(&f, 20, 5, 0, 0); /* two ticks, of which tracing saw the last part */
        f.exact.partial = true;
        p = split(&f);
        assert_int_equal(p->level, IOWAIT_BOUND);
        assert_true(p->disk_min == 5 * MS && p->disk_max == 20 * MS && p->uring_min == 0 && p->uring_max == 15 * MS);
        start(&f, 20, 15, 10, 0); /* nothing is left for the part before */
        f.exact.partial = true;
        assert_int_equal(split(&f)->level, IOWAIT_EXACT);

        start(&f, 800, 0, 400, 0);
        f.input.full = 15; /* so many passes met nobody in a completion queue: 200 ms at most */
        assert_int_equal(split(&f)->uring_max, 600 * MS);

        start(&f, 30, 0, 0, 2); /* three ticks at once, and next to nothing traced */
        assert_int_equal(split(&f)->level, IOWAIT_BOUND);
}

/* Spans in which tracing missed a change of the core lend the kernel's iowait their sleepers, as far as it is lacking. */
static void missed_spans_fill_what_is_lacking(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 900, 200, 100, 0); /* 600 ms lacking, of 400 + 300 + 100 missed */
        f.exact.missed_disk_ns = 400 * MS;
        f.exact.missed_uring_ns = 300 * MS;
        f.exact.missed_other_ns = 100 * MS;
        struct iowait_parts *p = split(&f);
        near(p->disk, 500 * MS);
        near(p->uring, 325 * MS);
        near(p->other, 75 * MS);
        assert_int_equal(p->level, IOWAIT_EXACT);

        start(&f, 900, 500, 400, 0); /* nothing is lacking: the core was busy in them */
        f.exact.missed_other_ns = 800 * MS;
        p = split(&f);
        near(p->disk, 500 * MS);
        assert_int_equal(p->other, 0);

        start(&f, 900, 100, 0, 0); /* they do not reach: the rest is the rules', and no more than seen is called exact */
        f.exact.missed_uring_ns = 200 * MS;
        p = split(&f);
        assert_int_equal(p->level, IOWAIT_BOUND);
        near(p->uring, 200 * MS);

        start(&f, 900, 0, 100, 0); /* seeded sleepers may have been there, too: nobody knows their rings, so it is not called uring */
        f.exact.seeded_ns = 100 * MS;
        f.exact.seeded = 1;
        f.exact.missed_uring_ns = 800 * MS;
        p = split(&f);
        assert_int_equal(p->uring, 0);
        assert_int_equal(p->uring_max, 900 * MS);
        assert_int_not_equal(p->level, IOWAIT_EXACT);

        start(&f, 900, 0, 0, 0); /* never a device's beyond the ceiling */
        f.exact.missed_disk_ns = 900 * MS;
        f.input.in_flight = f.input.in_flight_start = false;
        f.input.device_ns = 300 * MS;
        p = split(&f);
        assert_int_equal(p->disk, 300 * MS);
        near(p->other, 600 * MS);
}

static void disk_stays_below_the_ceiling(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 800, 800, 0, 0);
        f.input.in_flight = f.input.in_flight_start = false;
        f.input.device_ns = 100 * MS;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 100 * MS);
        assert_int_equal(p->disk_max, 100 * MS);
        assert_int_equal(p->other, 700 * MS);
        assert_int_equal(p->uring_max, 0);
}

static void guesses_open_the_bounds(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 900, 300, 300, 300);
        f.exact.unsure_ns = 200 * MS;
        struct iowait_parts *p = split(&f);
        near(p->disk, 500 * MS); /* as far as devices had requests open, and then not called exact */
        assert_int_equal(p->level, IOWAIT_BOUND);
        near(p->disk_min, 100 * MS);
        near(p->disk_max, 500 * MS);
        near(p->uring_min, 300 * MS);
        near(p->uring_max, 300 * MS);
}

/* A thread that was parked when tracing began: its ring, as /proc shows it, must say so too. */
static void seeded_sleepers_need_their_ring(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 990, 0, 1000, 0);
        f.exact.seeded_ns = SECOND;
        f.exact.seeded = 1;
        parked(&f, RING_NO_STORAGE);
        assert_int_equal(split(&f)->uring, 990 * MS);
        assert_int_equal(f.parts.level, IOWAIT_EXACT);

        static const enum iowait_ring doubtful[] = {RING_UNKNOWN, RING_UNCHANGED, RING_STORAGE};
        for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++) {
                start(&f, 990, 0, 1000, 0);
                f.exact.seeded_ns = SECOND;
                f.exact.seeded = 1;
                parked(&f, doubtful[i]);
                struct iowait_parts *p = split(&f);
                assert_int_equal(p->uring, 0);
                assert_int_equal(p->disk, 990 * MS);
                assert_int_equal(p->uring_max, 990 * MS);
                assert_int_not_equal(p->level, IOWAIT_EXACT);
        }

        /* the ring of one that fell asleep later is tracing's business, and it cannot speak for another */
        start(&f, 990, 0, 1000, 0);
        f.exact.seeded_ns = SECOND;
        f.exact.seeded = 1;
        parked(&f, RING_UNKNOWN)->seeded = false;
        parked(&f, RING_NO_STORAGE);
        assert_int_equal(split(&f)->uring, 990 * MS);
        f.witnesses[0].ring = RING_NO_STORAGE;
        f.witnesses[1].ring = RING_UNKNOWN;
        assert_int_equal(split(&f)->uring, 0);

        /* two slept, one is known */
        start(&f, 990, 0, 1000, 0);
        f.exact.seeded_ns = SECOND;
        f.exact.seeded = 2;
        parked(&f, RING_NO_STORAGE);
        assert_int_equal(split(&f)->uring, 0);

        /* nobody knows it, and no device was busy: other; a part that began later stays exact time, but the whole is not called so */
        start(&f, 990, 0, 1000, 0);
        f.input.in_flight = f.input.in_flight_start = false;
        f.input.device_ns = 0;
        f.exact.seeded_ns = 400 * MS;
        f.exact.seeded = 1;
        struct iowait_parts *p = split(&f);
        near(p->other, 396 * MS);
        near(p->uring, 594 * MS);
        assert_int_equal(p->uring_max, 990 * MS);
        assert_int_not_equal(p->level, IOWAIT_EXACT);
}

/* ---- from counters to times ------------------------------------------------------------------------------------------------------- */

static struct iowait_exact next(struct iowait_carry *carry, int64_t iowait, int64_t disk, int64_t uring, int64_t other)
{
        struct iowait_exact e = {.valid = true, .disk_ns = disk * MS, .uring_ns = uring * MS, .other_ns = other * MS};
        iowait_exact_next(carry, iowait * MS, &e);
        assert_true(e.disk_ns >= 0 && e.uring_ns >= 0 && e.other_ns >= 0);
        return e;
}

/* 300 ms were taken for disk and were not: they are taken back from the disk time to come. */
static void corrections_are_carried(void **state)
{
        (void)state;
        struct iowait_carry carry = {.unsure_ns = 0};
        struct iowait_exact e = next(&carry, 100, -300, 0, 400);
        assert_int_equal(e.disk_ns, 0);
        assert_int_equal(e.other_ns, 100 * MS);
        e = next(&carry, 200, 200, 0, 0);
        assert_int_equal(e.disk_ns, 0);
        assert_int_equal(e.other_ns, 200 * MS);
        e = next(&carry, 200, 200, 0, 0);
        assert_int_equal(e.disk_ns, 100 * MS);
        assert_int_equal(e.other_ns, 100 * MS);
        e = next(&carry, 200, 200, 0, 0);
        assert_int_equal(e.disk_ns, 200 * MS);
        assert_int_equal(e.other_ns, 0);

        /* half a minute of a dead server taken for a disk: the present is not told wrong for as long */
        carry = (struct iowait_carry){.unsure_ns = 0};
        next(&carry, 1000, -30000, 0, 31000);
        int64_t wrong = 0;
        for (int i = 0; i < 30; i++)
                wrong += next(&carry, 1000, 1000, 0, 0).other_ns;
        assert_in_range(wrong, 1, SECOND + MS);
}

/* Ticks of 10 ms, the core waits 3 ms of each: the kernel shows a tick now and then, and what made it was traced before. */
static void short_ticks_wait_for_the_counter(void **state)
{
        (void)state;
        struct iowait_carry carry = {.unsure_ns = 0};
        int64_t traced = 0, shown = 0, disk = 0, uring = 0, exact = 0, all = 0;
        for (int i = 0; i < 1000; i++) {
                struct fixture f;
                bool reader = i % 2;
                traced += 3;
                int64_t iowait = traced / 10 * 10 - shown;
                shown += iowait;
                start(&f, iowait, 0, 0, 0);
                f.input.wall_ns = 10 * MS;
                f.exact = next(&carry, iowait, reader ? 3 : 0, reader ? 0 : 3, 0);
                f.exact.cpu = 3;
                split(&f);
                disk += f.parts.disk;
                uring += f.parts.uring;
                all += iowait * MS;
                exact += f.parts.level == IOWAIT_EXACT ? iowait * MS : 0;
        }
        assert_int_equal(disk + uring, all);
        assert_int_equal(exact, all);
        assert_in_range(disk, all * 45 / 100, all * 55 / 100);
}

/* ---- at random ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;

static int64_t dice(int64_t below)
{
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        return (int64_t)(seed % (uint64_t)below);
}

/* A machine with known truth: a core waits for a mix that changes, some waiters are taken for another kind at first and moved when they
 * wake, the kernel shows whole ticks, loses stretches and counts no interrupts. Over the whole the parts come near the truth. */
static void a_model_machine(void **state)
{
        (void)state;
        for (int run = 0; run < 50; run++) {
                struct iowait_carry carry = {.unsure_ns = 0};
                int64_t truth[3] = {0}, sum[3] = {0}, counter = 0, was = 0, all = 0, wrong = 0;
                int64_t tick = (int64_t[]){10, 100, 1000}[run % 3] * MS;
                for (int i = 0; i < 600; i++) {
                        struct fixture f;
                        int64_t part[3], left = tick, told[3];
                        for (int p = 0; p < 3; p++) {
                                part[p] = dice(4) ? dice(left / 2) : 0;
                                left -= part[p];
                                truth[p] += part[p];
                                told[p] = part[p];
                        }
                        /* of disk some was called other until now, or is called so from now on */
                        int64_t guess = dice(3) ? 0 : dice(part[0] / 2 + 1);
                        told[0] += wrong - guess;
                        told[2] += guess - wrong;
                        wrong = guess;
                        counter += (part[0] + part[1] + part[2]) / 100 * 95;
                        int64_t shown = counter / (10 * MS) * (10 * MS);
                        start(&f, 0, 0, 0, 0);
                        f.core.iowait_ns = shown - was;
                        was = shown;
                        f.input.wall_ns = tick;
                        f.exact = (struct iowait_exact){.cpu = 3, .valid = true,
                                .disk_ns = told[0], .uring_ns = told[1], .other_ns = told[2]};
                        iowait_exact_next(&carry, f.core.iowait_ns, &f.exact);
                        split(&f);
                        sum[0] += f.parts.disk;
                        sum[1] += f.parts.uring;
                        sum[2] += f.parts.other;
                        all += f.core.iowait_ns;
                }
                int64_t real = truth[0] + truth[1] + truth[2];
                for (int p = 0; p < 3; p++) {
                        double off = (double)sum[p] / (double)all - (double)truth[p] / (double)real;
                        assert_true(off < 0.03 && off > -0.03);
                }
        }
}

static void nonsense_breaks_nothing(void **state)
{
        (void)state;
        struct iowait_carry carry = {.unsure_ns = 0};
        for (int i = 0; i < 200000; i++) {
                struct fixture f;
                start(&f, dice(1200) - 100, 0, 0, 0);
                f.input.device_ns = dice(SECOND);
                f.input.in_flight = dice(2);
                f.input.bound_void = dice(8) == 0;
                if (dice(2))
                        parked(&f, (enum iowait_ring)dice(4))->marked = dice(2);
                f.exact.disk_ns = dice(4 * SECOND) - SECOND;
                f.exact.uring_ns = dice(4 * SECOND) - SECOND;
                f.exact.other_ns = dice(4 * SECOND) - SECOND;
                f.exact.unsure_ns = dice(4 * SECOND) - SECOND;
                f.exact.seeded_ns = dice(2) ? dice(4 * SECOND) : 0;
                f.exact.seeded = (unsigned)dice(3);
                iowait_exact_next(&carry, f.core.iowait_ns, &f.exact);
                assert_true(f.exact.disk_ns >= 0 && f.exact.uring_ns >= 0 && f.exact.other_ns >= 0);
                assert_true(f.exact.unsure_ns >= 0 && f.exact.unsure_ns <= f.exact.disk_ns + f.exact.other_ns);
                assert_true(f.exact.seeded_ns >= 0 && f.exact.seeded_ns <= f.exact.uring_ns);
                split(&f);
                if (!f.input.bound_void && !f.input.in_flight)
                        assert_true(f.parts.disk <= f.input.device_ns + MS);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_kernels_sum_in_traced_proportions),
                cmocka_unit_test(the_rules_judge_where_nothing_was_traced),
                cmocka_unit_test(what_is_not_covered_is_not_exact),
                cmocka_unit_test(missed_spans_fill_what_is_lacking),
                cmocka_unit_test(disk_stays_below_the_ceiling),
                cmocka_unit_test(guesses_open_the_bounds),
                cmocka_unit_test(seeded_sleepers_need_their_ring),
                cmocka_unit_test(corrections_are_carried),
                cmocka_unit_test(short_ticks_wait_for_the_counter),
                cmocka_unit_test(a_model_machine),
                cmocka_unit_test(nonsense_breaks_nothing),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The reader's state: deltas by kind, births, gaps, lost frames, strange writers, cost. Random histories are in test_state_model.c.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "sample/frame.h"
#include "sample/state.h"
#include "tests/sealed.h"

#define MS32 UINT64_C(4294967296000000)

struct lab {
        struct sealed s;
        struct state *state;
};

static void lab_open(struct lab *lab)
{
        sealed_open(&lab->s);
        assert_int_equal(state_new(&lab->state), 0);
}

static void lab_close(struct lab *lab)
{
        sealed_close(&lab->s);
        state_free(lab->state);
}

static int apply(struct lab *lab)
{
        assert_int_equal(frame_check(lab->s.frame, lab->s.length), 0);
        return state_apply(lab->state, lab->s.frame, NULL);
}

/* One tick with one row of one value; answers what state_apply said. */
static void one(struct lab *lab, uint64_t step, enum scope scope, int metric, uint64_t value)
{
        struct sealed *s = &lab->s;
        bool first = !s->frame;

        sealed_tick(s, step);
        if (first)
                sealed_ballast(s);
        sample_scope_begin(s->sample, scope, s->mono + 1000000);
        row_set(sample_row(s->sample, scope, key_of(1), s->mono + 3000000), metric, value);
        sample_scope_end(s->sample, scope, s->mono + 4000000, GONE_EXITED);
        sealed_seal(s);
}

static const struct state_row *the_row(const struct lab *lab, enum scope scope)
{
        return state_find(lab->state, scope, key_of(1));
}

static void test_delta_and_times(void **unused)
{
        struct lab lab;
        double delta;
        uint64_t level;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 50);
        assert_int_equal(apply(&lab), 0);
        assert_false(state_info(lab.state).valid);
        assert_false(the_row(&lab, SCOPE_CPU)->now_ns == 0);
        assert_int_equal(the_row(&lab, SCOPE_CPU)->now_ns, lab.s.mono + 3000000);
        one(&lab, 2 * SECOND, SCOPE_CPU, CPU_USER, 90);
        assert_int_equal(apply(&lab), 0);
        assert_true(state_info(lab.state).valid);
        assert_int_equal(state_info(lab.state).from_sequence, 1);
        assert_int_equal(state_info(lab.state).to_sequence, 2);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_USER, &delta), DELTA_OK);
        assert_true(delta == 40);
        assert_true(state_seconds(lab.state, SCOPE_CPU) == 2 && state_row_seconds(the_row(&lab, SCOPE_CPU)) == 2);
        assert_true(state_seconds(lab.state, SCOPE_DISK) == 0);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_IDLE, &delta), DELTA_ABSENT);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), DISK_READS, &delta), DELTA_ABSENT);
        assert_false(state_now(the_row(&lab, SCOPE_CPU), DISK_READS, &level));
        /* Unchanged row: not in the frame, yet its time goes on. */
        one(&lab, 3 * SECOND, SCOPE_CPU, CPU_USER, 90);
        assert_int_equal(apply(&lab), 0);
        assert_true(state_row_seconds(the_row(&lab, SCOPE_CPU)) == 5);
        /* The interval ends; nothing has happened in the next one yet. */
        state_base(lab.state);
        assert_false(state_info(lab.state).valid);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_USER, &delta), DELTA_OK);
        assert_true(delta == 0 && state_row_seconds(the_row(&lab, SCOPE_CPU)) == 0);
        lab_close(&lab);
}

/* One pass over one row, read so long after (or, left out by the pass, before) the scope's start. */
static void pass(struct lab *lab, int64_t offset_ns, uint64_t value)
{
        struct sealed *s = &lab->s;
        bool first = !s->frame;

        sealed_tick(s, SECOND);
        if (first)
                sealed_ballast(s);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        row_set(sample_row(s->sample, SCOPE_PROCESS, key_of(1), s->mono + (uint64_t)offset_ns), PROCESS_USER_TIME, value);
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono + SECOND / 2, GONE_EXITED);
        sealed_seal(s);
        assert_int_equal(apply(lab), 0);
}

static void test_times_within_a_pass(void **unused)
{
        const int64_t ms = 1000000;
        struct lab lab;
        double delta;

        /* The first pass is slow. The next one is not, and the row is as it was: its base must have the new time all the same. */
        lab_open(&lab);
        pass(&lab, 400 * ms, 50);
        pass(&lab, 30 * ms, 50);
        assert_int_equal(the_row(&lab, SCOPE_PROCESS)->now_ns, lab.s.mono + (uint64_t)(30 * ms));
        state_base(lab.state);
        pass(&lab, 30 * ms, 50 + SECOND);
        assert_true(state_row_seconds(the_row(&lab, SCOPE_PROCESS)) == 1);
        /* A few ms are not worth a row. */
        pass(&lab, 35 * ms, 50 + SECOND);
        assert_null(sealed_row(lab.s.frame, SCOPE_PROCESS, key_of(1), ROW_VALUES));

        /* A pass without time for the row: what it holds is of the pass before, and no time has passed for it. */
        state_base(lab.state);
        pass(&lab, 30 * ms - (int64_t)SECOND, 50 + SECOND);
        assert_non_null(sealed_row(lab.s.frame, SCOPE_PROCESS, key_of(1), ROW_VALUES));
        assert_true(state_row_seconds(the_row(&lab, SCOPE_PROCESS)) < 0.01);
        state_base(lab.state);
        pass(&lab, 30 * ms, 50 + 3 * SECOND);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_PROCESS), PROCESS_USER_TIME, &delta), DELTA_OK);
        assert_true(delta == 2 * (double)SECOND && state_row_seconds(the_row(&lab, SCOPE_PROCESS)) == 2);
        lab_close(&lab);
}

static int fall(enum scope scope, int metric, uint64_t before, uint64_t after, double *delta)
{
        struct lab lab;

        lab_open(&lab);
        one(&lab, SECOND, scope, metric, before);
        apply(&lab);
        one(&lab, SECOND, scope, metric, after);
        apply(&lab);
        int answer = state_delta(the_row(&lab, scope), metric, delta);
        lab_close(&lab);
        return answer;
}

static void test_falls(void **unused)
{
        double delta = -1;

        assert_int_equal(fall(SCOPE_SYSTEM, SYSTEM_CTXT, 100, 99, &delta), DELTA_RESET);
        /* The kernel's idle clocks take time back. */
        assert_int_equal(fall(SCOPE_CPU, CPU_IOWAIT, 50 * SECOND, 49 * SECOND, &delta), DELTA_CLAMPED);
        assert_true(delta == 0);
        assert_int_equal(fall(SCOPE_CPU, CPU_IOWAIT, 50 * SECOND, 49 * SECOND - 1, &delta), DELTA_RESET);
        /* 32-bit milliseconds, near the top and not. */
        assert_int_equal(fall(SCOPE_DISK, DISK_QUEUE_TIME, MS32 - 5000000, 7000000, &delta), DELTA_UNWRAPPED);
        assert_true(delta == 12000000);
        assert_int_equal(fall(SCOPE_DISK, DISK_QUEUE_TIME, MS32 - MS32 / 16, 0, &delta), DELTA_UNWRAPPED);
        assert_int_equal(fall(SCOPE_DISK, DISK_QUEUE_TIME, MS32 - MS32 / 16 - 1, 0, &delta), DELTA_RESET);
        assert_int_equal(fall(SCOPE_DISK, DISK_QUEUE_TIME, MS32 - 5000000, MS32 / 2, &delta), DELTA_RESET);
        assert_int_equal(fall(SCOPE_DISK, DISK_QUEUE_TIME, MS32 + 5000000, 7000000, &delta), DELTA_RESET); /* 64-bit kernel: no wrap */
        assert_int_equal(fall(SCOPE_DISK, DISK_READS, UINT64_C(0xfffffff0), 5, &delta), DELTA_RESET);
        assert_int_equal(fall(SCOPE_DISK, DISK_INFLIGHT, 5, 6, &delta), DELTA_ABSENT); /* a gauge has no growth */
}

/* Over several frames the ends may look like growth although a counter began anew in between. */
static void test_restart_inside_interval(void **unused)
{
        struct lab lab;
        double delta;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 100);
        apply(&lab);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 3);
        apply(&lab);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 150);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_PROCESS), PROCESS_VOLUNTARY, &delta), DELTA_RESET);
        state_base(lab.state);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 160);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_PROCESS), PROCESS_VOLUNTARY, &delta), DELTA_OK);
        assert_true(delta == 10);
        lab_close(&lab);

        /* exec by a non-leader thread: CPU time begins anew. */
        lab_open(&lab);
        one(&lab, SECOND, SCOPE_THREAD, THREAD_USER_TIME, 900 * SECOND);
        apply(&lab);
        one(&lab, SECOND, SCOPE_THREAD, THREAD_USER_TIME, SECOND / 2);
        apply(&lab);
        for (uint64_t i = 0; i < 3; i++) {
                one(&lab, 1000 * SECOND, SCOPE_THREAD, THREAD_USER_TIME, (i + 1) * 1000 * SECOND);
                apply(&lab);
        }
        assert_int_equal(state_delta(the_row(&lab, SCOPE_THREAD), THREAD_USER_TIME, &delta), DELTA_RESET);
        lab_close(&lab);

        /* Iowait taken back right after the base, more than the time since: judged at the ends. */
        lab_open(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_IOWAIT, 500 * SECOND);
        apply(&lab);
        one(&lab, SECOND / 100, SCOPE_CPU, CPU_IOWAIT, 500 * SECOND - SECOND / 2);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_IOWAIT, &delta), DELTA_RESET);
        one(&lab, SECOND, SCOPE_CPU, CPU_IOWAIT, 500 * SECOND + SECOND / 4);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_IOWAIT, &delta), DELTA_OK);
        assert_true(delta == 0.25e9);
        lab_close(&lab);
}

static void process(struct sealed *s, uint64_t key, uint64_t start, uint64_t user)
{
        struct row *row = sample_row(s->sample, SCOPE_PROCESS, key_of(key), s->mono + 2000000);

        row_set(row, PROCESS_START, start);
        row_set(row, PROCESS_USER_TIME, user);
}

/* The process's sums are over other threads now: a tick without them says so. */
static void test_absent_in_between(void **unused)
{
        struct lab lab;
        double delta;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 100);
        apply(&lab);
        sealed_tick(&lab.s, SECOND);
        sample_scope_begin(lab.s.sample, SCOPE_PROCESS, lab.s.mono);
        row_absent(sample_row(lab.s.sample, SCOPE_PROCESS, key_of(1), 0), PROCESS_VOLUNTARY);
        sample_scope_end(lab.s.sample, SCOPE_PROCESS, lab.s.mono, GONE_EXITED);
        sealed_seal(&lab.s);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_PROCESS), PROCESS_VOLUNTARY, &delta), DELTA_ABSENT);
        one(&lab, SECOND, SCOPE_PROCESS, PROCESS_VOLUNTARY, 1000000);
        apply(&lab);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_PROCESS), PROCESS_VOLUNTARY, &delta), DELTA_RESET);
        lab_close(&lab);
}

static void test_births(void **unused)
{
        struct lab lab;
        struct sealed *s = &lab.s;
        double delta;

        lab_open(&lab);
        sealed_tick(s, SECOND);
        uint64_t base = s->boot, base_mono = s->mono;
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        process(s, 1, 5, 100);
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
        sealed_seal(s);
        assert_int_equal(apply(&lab), 0);
        assert_true(the_row(&lab, SCOPE_PROCESS)->has_base); /* the first frame is the base */
        assert_false(state_info(lab.state).valid);
        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        process(s, 1, 5, 100);
        process(s, 2, base + SECOND / 2, 30);                /* born in the interval */
        process(s, 3, base - 9 * SECOND / 1000, 30);         /* the clock of births is floored to 10 ms */
        process(s, 4, base - 10 * SECOND / 1000, 30);        /* was there before: why it was not seen is not known */
        process(s, 5, s->boot + 3600 * SECOND, 30);          /* in the future: another clock */
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
        sealed_seal(s);
        assert_int_equal(apply(&lab), 0);
        for (uint64_t key = 1; key <= 5; key++) {
                const struct state_row *row = state_find(lab.state, SCOPE_PROCESS, key_of(key));
                int answer = state_delta(row, PROCESS_USER_TIME, &delta);
                assert_int_equal(row->born, key == 2 || key == 3);
                assert_int_equal(row->has_base, key <= 3);
                assert_int_equal(answer, key <= 3 ? DELTA_OK : DELTA_ABSENT);
                if (key == 2 || key == 3) {
                        assert_true(delta == 30);
                        assert_int_equal(row->base_ns, base_mono + 2000000); /* over the whole interval, as for the others */
                        assert_true(state_row_seconds(row) == 1);
                }
        }
        /* In the next interval all five are old. */
        state_base(lab.state);
        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        for (uint64_t key = 1; key <= 5; key++)
                process(s, key, key == 2 ? base + SECOND / 2 : 5, 130);
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
        sealed_seal(s);
        apply(&lab);
        assert_int_equal(state_delta(state_find(lab.state, SCOPE_PROCESS, key_of(5)), PROCESS_USER_TIME, &delta), DELTA_OK);
        assert_true(delta == 100 && !state_find(lab.state, SCOPE_PROCESS, key_of(2))->born);
        lab_close(&lab);
}

static void test_suspend_reboot_reset(void **unused)
{
        struct lab lab;
        double delta;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 1);
        apply(&lab);
        lab.s.boot += 90000000; /* less than 100 ms: the two stamps are not one read */
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 2);
        assert_int_equal(apply(&lab), 0);
        lab.s.boot += 3600 * SECOND;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 3);
        assert_int_equal(apply(&lab), STATE_GAP);
        assert_int_equal(state_info(lab.state).gap, GAP_SUSPEND);
        assert_false(state_info(lab.state).valid);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 10);
        assert_int_equal(apply(&lab), 0);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_USER, &delta), DELTA_OK);
        assert_true(delta == 7 && state_info(lab.state).valid);
        state_base(lab.state);
        assert_int_equal(state_info(lab.state).gap, GAP_NONE);
        /* The writer says so. */
        lab.s.gap = GAP_RESET;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 11);
        assert_int_equal(apply(&lab), STATE_GAP);
        lab.s.gap = GAP_NONE;
        /* Another boot: nothing that we know holds, and a delta is of no use. */
        lab.s.boot_id = 9;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 12);
        assert_int_equal(apply(&lab), STATE_STALE);
        assert_int_equal(state_count(lab.state, SCOPE_CPU), 0);
        lab.s.flags = FRAME_FULL;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 13);
        assert_int_equal(apply(&lab), 0);
        lab.s.boot_id = 10;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 14);
        assert_int_equal(apply(&lab), STATE_GAP);
        assert_int_equal(state_info(lab.state).gap, GAP_REBOOT);
        lab_close(&lab);
}

/* A daemon that was started again: its own sums begin at 0, whatever its sequence numbers look like. */
/* The reader was away: the interval is absent and says why, the next one is as ever. */
static void test_gap_of_reader(void **unused)
{
        struct lab lab;
        double delta;

        (void)unused;
        lab_open(&lab);
        one(&lab, SECOND, SCOPE_DISK, DISK_READS, 100);
        assert_int_equal(apply(&lab), 0);
        state_base(lab.state);
        one(&lab, SECOND, SCOPE_DISK, DISK_READS, 150);
        assert_int_equal(apply(&lab), 0);
        state_gap(lab.state, GAP_RESET);
        assert_false(state_info(lab.state).valid);
        assert_int_equal(state_info(lab.state).gap, GAP_RESET);
        state_base(lab.state);
        one(&lab, SECOND, SCOPE_DISK, DISK_READS, 157);
        assert_int_equal(apply(&lab), 0);
        assert_true(state_info(lab.state).valid);
        assert_int_equal(state_info(lab.state).gap, GAP_NONE);
        assert_int_equal(state_delta(state_at(lab.state, SCOPE_DISK, 0), DISK_READS, &delta), DELTA_OK);
        assert_int_equal((int)delta, 7);
        lab_close(&lab);
}

static void test_another_writer(void **unused)
{
        struct lab lab;
        struct sealed old;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_WA_DISK, 500);
        apply(&lab);
        old = lab.s;
        sealed_open(&lab.s);
        lab.s.mono = old.mono;
        lab.s.boot = old.boot;
        one(&lab, SECOND, SCOPE_CPU, CPU_WA_DISK, 1);
        one(&lab, SECOND, SCOPE_CPU, CPU_WA_DISK, 2);
        lab.s.flags = FRAME_FULL;
        one(&lab, SECOND, SCOPE_CPU, CPU_WA_DISK, 3);
        state_lost(lab.state);
        assert_int_equal(apply(&lab), STATE_GAP);
        assert_int_equal(state_info(lab.state).gap, GAP_RESET);
        assert_false(state_info(lab.state).valid);
        sealed_close(&old);
        lab_close(&lab);
}

static void test_lost_frames(void **unused)
{
        struct lab lab;
        double delta;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 10);
        apply(&lab);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 20);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 30);
        assert_int_equal(apply(&lab), STATE_STALE); /* 2 is missing */
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 40);
        assert_int_equal(apply(&lab), STATE_STALE);
        assert_int_equal(state_info(lab.state).to_sequence, 1);
        lab.s.flags = FRAME_FULL;
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 50);
        assert_int_equal(apply(&lab), 0);
        assert_int_equal(state_info(lab.state).gap, GAP_LATE);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_CPU), CPU_USER, &delta), DELTA_OK);
        assert_true(delta == 40 && state_row_seconds(the_row(&lab, SCOPE_CPU)) == 4);
        lab.s.flags = 0;
        /* Missed ticks: late, nothing else. */
        state_base(lab.state);
        lab.s.missed = 3;
        one(&lab, 4 * SECOND, SCOPE_CPU, CPU_USER, 60);
        assert_int_equal(apply(&lab), 0);
        assert_int_equal(state_info(lab.state).gap, GAP_LATE);
        assert_int_equal(state_info(lab.state).missed, 3);
        lab.s.missed = 0;
        /* Told so by the cursor: the next delta is of no use, even without a hole. */
        state_lost(lab.state);
        one(&lab, SECOND, SCOPE_CPU, CPU_USER, 70);
        assert_int_equal(apply(&lab), STATE_STALE);
        lab_close(&lab);
}

static void test_rows_that_leave(void **unused)
{
        struct lab lab;
        struct sealed *s = &lab.s;
        double delta;

        lab_open(&lab);
        one(&lab, SECOND, SCOPE_DISK, DISK_READS, 10);
        apply(&lab);
        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_DISK, s->mono);
        sample_scope_end(s->sample, SCOPE_DISK, s->mono, GONE_UNREADABLE);
        sealed_seal(s);
        apply(&lab);
        assert_true(the_row(&lab, SCOPE_DISK)->gone); /* to be seen until the interval ends */
        assert_int_equal(the_row(&lab, SCOPE_DISK)->reason, GONE_UNREADABLE);
        uint64_t when = the_row(&lab, SCOPE_DISK)->now_ns;
        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_DISK, s->mono);
        sample_scope_end(s->sample, SCOPE_DISK, s->mono, GONE_UNREADABLE);
        sealed_seal(s);
        apply(&lab);
        assert_int_equal(the_row(&lab, SCOPE_DISK)->now_ns, when);
        /* Back within the interval: what it counted may have begun anew. */
        one(&lab, SECOND, SCOPE_DISK, DISK_READS, 30);
        apply(&lab);
        assert_false(the_row(&lab, SCOPE_DISK)->gone);
        assert_int_equal(state_delta(the_row(&lab, SCOPE_DISK), DISK_READS, &delta), DELTA_ABSENT);
        state_base(lab.state);
        assert_int_equal(state_count(lab.state, SCOPE_DISK), 1);
        /* Its tombstone was lost: the full frame does without it. */
        sealed_tick(s, SECOND);
        sample_scope_off(s->sample, SCOPE_DISK);
        sealed_seal(s);
        s->flags = FRAME_FULL;
        sealed_tick(s, SECOND);
        sealed_seal(s);
        assert_int_equal(apply(&lab), 0);
        assert_true(the_row(&lab, SCOPE_DISK)->gone);
        state_base(lab.state);
        assert_null(the_row(&lab, SCOPE_DISK));
        assert_null(state_one(lab.state, SCOPE_DISK));
        lab_close(&lab);
}

static void test_texts(void **unused)
{
        struct lab lab;
        struct sealed *s = &lab.s;
        char buffer[8];
        size_t length;

        lab_open(&lab);
        for (int tick = 0; tick < 4; tick++) {
                sealed_tick(s, SECOND);
                if (tick == 0)
                        sealed_ballast(s);
                sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
                struct row *row = sample_row(s->sample, SCOPE_PROCESS, key_of(1), 0);
                row_set(row, PROCESS_MINFLT, (uint64_t)tick);
                row_text(row, PROCESS_COMM, tick == 2 ? NULL : "a\0b-and-more", tick == 2 ? 0 : 12);
                row_text(row, PROCESS_UNIT, "", 0);
                sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
                sealed_seal(s);
                apply(&lab);
                const struct state_row *found = the_row(&lab, SCOPE_PROCESS);
                const char *text = state_text(lab.state, found, PROCESS_COMM, &length);
                assert_int_equal(text == NULL, tick == 2);
                assert_string_equal(state_text_copy(lab.state, found, PROCESS_COMM, buffer, sizeof buffer), tick == 2 ? "" : "a b-and");
                assert_non_null(state_text(lab.state, found, PROCESS_UNIT, &length));
                assert_int_equal(length, 0);
                assert_null(state_text(lab.state, found, PROCESS_CGROUP, &length));
                assert_null(state_text(lab.state, found, PROCESS_MINFLT, &length));
        }
        lab_close(&lab);
}

/* A writer whose slots lie elsewhere, with one metric and one scope that we do not know. */
static void test_other_writers(void **unused)
{
        static const char block[] = "watop schema 1\nscope 3 weather\nslot 0 weather.rain gauge count\nscope 0 disk extra\nnote anything\n"
                                    "slot 0 disk.reads_of_the_future counter count\nslot 1 disk.writes counter count more\n"
                                    "slot 2 disk.name text text\nslot 3 disk.reads gauge count\n";
        struct schema schema;
        struct lab lab;
        uint64_t space[64] = {0}, level;
        struct frame_head *head = (void *)space;
        struct scope_head *scope = (void *)(head + 1);
        struct row_head *row = (void *)(scope + 1);
        uint64_t *value = (void *)(row + 1);
        size_t length = sizeof *head + sizeof *scope + sizeof *row + 3 * 8 + 8;
        size_t text_length;

        lab_open(&lab);
        assert_int_equal(schema_read(&schema, block, sizeof block - 1), 0);
        *row = (struct row_head){.length = sizeof *row + 32, .kind = ROW_VALUES, .key = key_of(1), .present = 15, .texts = 4};
        value[0] = 111;
        value[1] = 222;
        value[2] = 333;
        memcpy(&value[3], "\003\0sdz", 5);
        *scope = (struct scope_head){.scope = 0, .rows = 1, .length = sizeof *scope + row->length, .start_ns = 5};
        *head = (struct frame_head){.magic = FRAME_MAGIC, .length = (uint32_t)length, .layout = FRAME_LAYOUT, .flags = FRAME_FULL,
                                    .sequence = 1, .full_sequence = 1, .scopes = 1};
        head->crc = frame_crc(head, length);
        assert_int_equal(frame_check(head, length), 0);
        assert_int_equal(state_apply(lab.state, head, &schema), 0);
        const struct state_row *found = the_row(&lab, SCOPE_DISK);
        assert_true(state_now(found, DISK_WRITES, &level) && level == 222);
        assert_false(state_now(found, DISK_READS, &level)); /* same name, another kind: not ours */
        assert_memory_equal(state_text(lab.state, found, DISK_NAME, &text_length), "sdz", 3);
        /* Bits that the schema does not have, texts that do not fit. */
        row->present = 31;
        assert_int_equal(state_apply(lab.state, head, &schema), -EBADMSG);
        row->present = 15;
        memcpy(&value[3], "\007\0sdz", 5);
        assert_int_equal(state_apply(lab.state, head, &schema), -EBADMSG);
        memcpy(&value[3], "\001\020sd", 4);
        assert_int_equal(state_apply(lab.state, head, &schema), -EBADMSG);
        row->texts = 2;
        assert_int_equal(state_apply(lab.state, head, &schema), -EBADMSG);
        assert_int_equal(state_count(lab.state, SCOPE_DISK), 1); /* nothing of them was applied */
        lab_close(&lab);
}

/* ---- cost ------------------------------------------------------------------------------------------------------------------------ */

enum { MANY = 10000 };

static void many(struct sealed *s, uint64_t tick)
{
        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        for (uint64_t i = 0; i < MANY; i++) {
                struct row *row = sample_row(s->sample, SCOPE_PROCESS, key_of(i), s->mono + i);
                for (int metric = PROCESS_FIRST; metric < PROCESS_END; metric++)
                        row_set(row, metric, i + (i % 10 == 0 ? tick : 0));
                if (row_is_new(row)) {
                        row_text(row, PROCESS_COMM, "some-name", 9);
                        row_text(row, PROCESS_CMDLINE, "/usr/bin/some-name --with --arguments", 37);
                }
        }
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
}

static double seconds_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Says what it costs; fails only when memory grows. */
static void test_ten_thousand_rows(void **unused)
{
        struct lab lab;
        double set = 0, seal = 0, check = 0, full = 0, delta = 0;

        lab_open(&lab);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
        struct mallinfo2 before = {0};
#endif
        for (uint64_t tick = 0; tick < 12; tick++) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
                if (tick == 4)
                        before = mallinfo2();
#endif
                double t0 = seconds_now();
                many(&lab.s, tick);
                double t1 = seconds_now();
                lab.s.flags = tick % 2 ? 0 : FRAME_FULL;
                sealed_seal(&lab.s);
                double t2 = seconds_now();
                assert_int_equal(frame_check(lab.s.frame, lab.s.length), 0);
                double t3 = seconds_now();
                assert_int_equal(state_apply(lab.state, lab.s.frame, NULL), 0);
                double t4 = seconds_now();
                state_base(lab.state);
                if (tick >= 4) {
                        set += t1 - t0;
                        seal += t2 - t1;
                        check += t3 - t2;
                        *(tick % 2 ? &delta : &full) += t4 - t3;
                }
        }
        print_message("# %d rows, ms: set %.2f, seal %.2f, check %.2f, apply full %.2f, apply 10%% %.2f\n", MANY, set * 125, seal * 125,
                      check * 125, full * 250, delta * 250);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
        struct mallinfo2 after = mallinfo2();
        assert_int_equal(before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
#endif
        lab_close(&lab);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_delta_and_times), cmocka_unit_test(test_times_within_a_pass),
                cmocka_unit_test(test_falls),
                cmocka_unit_test(test_restart_inside_interval),
                cmocka_unit_test(test_absent_in_between),
                cmocka_unit_test(test_births),
                cmocka_unit_test(test_suspend_reboot_reset),
                cmocka_unit_test(test_gap_of_reader),
                cmocka_unit_test(test_another_writer),
                cmocka_unit_test(test_lost_frames),
                cmocka_unit_test(test_rows_that_leave),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_other_writers),
                cmocka_unit_test(test_ten_thousand_rows),
        };

        return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}

/*
 * Reports at any place of a recording (tui/replay_reel.c), held against a plain walk through all frames from the start; and the head of a
 * replay.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "sample/state.h"
#include "tests/log_frames.h"
#include "tui/replay_reel.h"
#include "tui/view.h"

enum { TICKS = 400 };

static char path[128];
static struct kept kept;          /* all frames as they were written */
static struct log *opened;

/* Frames, one a second; some are out of step, before some ticks were missed, one had a suspend before it. */
static void write_log(struct log_writer *w, struct sealed *s, uint64_t *random, unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++) {
                bool extra = i % 37 == 5;
                s->missed = !extra && i % 53 == 20 ? 3 : 0;
                s->gap = s->missed ? GAP_LATE : GAP_NONE;
                s->flags = extra ? FRAME_EXTRA | FRAME_MARK : 0;
                if (s->missed)
                        s->mono += 3 * SECOND, s->boot += 3 * SECOND;
                machine_tick(s, random, 5);
                sealed_seal(s);
                kept_add(&kept, s->frame, s->length);
                assert_int_equal(log_append(w, s->frame, s->length), 0);
        }
}

static int set_up(void **arg)
{
        struct log_writer *w;
        struct sealed s;
        uint64_t random = 1;

        (void)arg;
        snprintf(path, sizeof path, "%s/a.log", temp_folder());
        assert_int_equal(log_create(path, NULL, &w), 0);
        sealed_open(&s);
        write_log(w, &s, &random, 0, TICKS);
        sealed_close(&s);
        assert_int_equal(log_finish(w), 0);
        return log_open(path, &opened);
}

static int tear_down(void **arg)
{
        (void)arg;
        log_close(opened);
        kept_free(&kept);
        unlink(path);
        *strrchr(path, '/') = '\0';
        return rmdir(path);
}

static struct reel *reel_of(struct log *log, uint64_t interval_s)
{
        struct cursor *cursor;
        struct reel *reel;

        assert_int_equal(cursor_new_log(log, &cursor), 0);
        assert_int_equal(reel_new(cursor, log_schema(log), SECOND, interval_s * SECOND, &reel), 0);
        return reel;
}

static const struct frame_head *frame_of(uint64_t sequence)
{
        return kept.frames[sequence - 1];
}

static uint64_t ticks_between(uint64_t from, uint64_t to)
{
        uint64_t ticks = 0;

        for (uint64_t i = from + 1; i <= to; i++)
                ticks += frame_of(i)->flags & FRAME_EXTRA ? 0 : 1 + frame_of(i)->missed;
        return ticks;
}

/* What a reader from the start has for this pair of frames. */
static double plain_delta(uint64_t from, uint64_t to, uint64_t cpu, int metric)
{
        struct state *state;
        double delta = -1;

        assert_int_equal(state_new(&state), 0);
        for (uint64_t i = 1; i <= to; i++) {
                assert_true(state_apply(state, frame_of(i), NULL) >= 0);
                if (i == from)
                        state_base(state);
        }
        const struct state_row *row = state_find(state, SCOPE_CPU, key_of(cpu));
        if (state_delta(row, metric, &delta) != DELTA_OK)
                delta = -1;
        state_free(state);
        return delta;
}

static struct state_info run(struct reel *reel)
{
        int r;

        while ((r = reel_run(reel, 0)) == REEL_MORE)
                ;
        assert_int_equal(r, REEL_REPORT);
        struct state_info info = state_info(reel_shown(reel));
        double delta = -1;
        const struct state_row *row = state_find(reel_shown(reel), SCOPE_CPU, key_of(1));
        assert_non_null(row);
        if (state_delta(row, CPU_USER, &delta) != DELTA_OK)
                delta = -1;
        assert_float_equal(delta, plain_delta(info.from_sequence, info.to_sequence, 1, CPU_USER), 0);
        return info;
}

/* Forward to the end, then back to the begin: the same reports, whatever was missed or out of step. */
static void test_there_and_back(void **unused)
{
        static const uint64_t intervals[] = {1, 2, 7, 60, 1000};

        (void)unused;
        for (size_t n = 0; n < sizeof intervals / sizeof *intervals; n++) {
                struct reel *reel = reel_of(opened, intervals[n]);
                uint64_t ends[TICKS], count = 0, from = 1;
                int r;
                while ((r = reel_run(reel, UINT64_MAX)) == REEL_REPORT) {
                        struct state_info info = state_info(reel_shown(reel));
                        assert_int_equal(info.from_sequence, from);
                        uint64_t ticks = ticks_between(info.from_sequence, info.to_sequence);
                        if (info.to_sequence < TICKS) /* complete, and not before its last tick */
                                assert_true(ticks >= intervals[n] &&
                                        ticks_between(info.from_sequence, info.to_sequence - 1) < intervals[n]);
                        ends[count++] = from = info.to_sequence;
                        reel_forward(reel);
                }
                assert_int_equal(r, REEL_END);
                for (uint64_t i = count - 1; i > 0; i--) {
                        reel_until(reel, ends[i - 1]);
                        struct state_info info = run(reel);
                        assert_int_equal(info.to_sequence, ends[i - 1]);
                        /* so many ticks before it; with missed ones more than one begin fits */
                        if (ticks_between(1, ends[i - 1]) >= intervals[n]) {
                                uint64_t ticks = ticks_between(info.from_sequence, info.to_sequence);
                                assert_true(ticks >= intervals[n] && ticks < intervals[n] + 4);
                        }
                        if (intervals[n] == 1 && i > 1)
                                assert_true(info.from_sequence >= ends[i - 2] - 1);
                }
                reel_free(reel);
        }
}

static void test_jumps(void **unused)
{
        struct reel *reel = reel_of(opened, 5);
        uint64_t random = 7;

        (void)unused;
        for (int i = 0; i < 300; i++) {
                uint64_t to = sealed_random(&random) % (TICKS + 20), interval = 1 + sealed_random(&random) % 30;
                reel_interval(reel, interval * SECOND);
                uint64_t least = to < 2 ? 1 : to > TICKS ? TICKS : to;
                switch (sealed_random(&random) % 4) {
                case 0: {
                        reel_until(reel, to);
                        struct state_info info = run(reel);
                        if (to >= 2)
                                assert_int_equal(info.to_sequence, least);
                        break;
                }
                case 1: {
                        reel_until_time(reel, frame_of(least)->real_ns - 1);
                        struct state_info info = run(reel);
                        if (least >= 2)
                                assert_int_equal(info.to_sequence, least);
                        break;
                }
                case 2: {
                        reel_from(reel, to);
                        struct state_info info = run(reel);
                        if (to + 45 < TICKS && to > 0)
                                assert_int_equal(info.from_sequence, to);
                        assert_true(info.to_sequence > info.from_sequence);
                        break;
                }
                default: {
                        uint64_t before = state_info(reel_shown(reel)).to_sequence;
                        if (reel_seeking(reel) || before + 40 > TICKS)
                                break;
                        reel_forward(reel);
                        struct state_info info = run(reel);
                        assert_int_equal(info.from_sequence, before);
                }
                }
        }
        reel_free(reel);
}

static unsigned steps, in_order;
static uint64_t last_step;

static void count_step(void *arg, const struct state *state)
{
        struct state_info info = state_info(state);

        (void)arg;
        steps++;
        in_order += info.from_sequence >= last_step;
        last_step = info.to_sequence;
}

/* The strips of the past are filled by the reports before it, oldest first, up to the one sought. */
static void test_on_way(void **unused)
{
        struct reel *reel = reel_of(opened, 2);

        (void)unused;
        reel_on_way(reel, count_step, NULL);
        reel_until(reel, 300);
        struct state_info info = run(reel);
        assert_true(steps >= 35 && steps <= 40);
        assert_int_equal(steps, in_order);
        assert_int_equal(last_step, info.from_sequence);
        reel_free(reel);
}

static void test_growing(void **unused)
{
        char other[160];
        struct log_writer *w;
        struct log *log;
        struct sealed s;
        uint64_t random = 3;

        (void)unused;
        snprintf(other, sizeof other, "%s.growing", path);
        struct kept before = kept;
        kept = (struct kept){0};
        assert_int_equal(log_create(other, NULL, &w), 0);
        sealed_open(&s);
        write_log(w, &s, &random, 0, 1);
        assert_int_equal(log_open(other, &log), 0);
        struct reel *reel = reel_of(log, 3);
        assert_int_equal(reel_run(reel, UINT64_MAX), REEL_WAIT);
        assert_true(reel_seeking(reel));
        write_log(w, &s, &random, 1, 5);
        assert_int_equal(run(reel).to_sequence, 4);
        uint64_t to = 4;
        for (unsigned i = 5; i < 60; i++) {
                write_log(w, &s, &random, i, i + 1);
                int r = reel_run(reel, UINT64_MAX);
                struct state_info info = state_info(reel_shown(reel));
                assert_true(r == REEL_WAIT || r == REEL_REPORT);
                if (r == REEL_REPORT)
                        assert_true(ticks_between(info.from_sequence, info.to_sequence) >= 3 && info.to_sequence == i + 1 &&
                                info.from_sequence == to);
                if (r == REEL_REPORT)
                        to = info.to_sequence;
        }
        assert_int_equal(reel_newest_mark(reel), 43);
        sealed_close(&s);
        assert_int_equal(log_finish(w), 0);
        int r = reel_run(reel, UINT64_MAX);
        assert_true(r == REEL_REPORT || r == REEL_END);
        reel_until(reel, UINT64_MAX);
        assert_int_equal(run(reel).to_sequence, 60);
        reel_free(reel);
        log_close(log);
        unlink(other);
        kept_free(&kept);
        kept = before;
}

/* Any byte of the file may be wrong: nothing loops, nothing crashes, what is shown is so, and damage on the way is told. */
static void test_damage(void **unused)
{
        char other[160];
        uint64_t random = 11;
        unsigned told = 0;
        static uint8_t bytes[4 << 20];

        (void)unused;
        snprintf(other, sizeof other, "%s.damaged", path);
        int fd = open(path, O_RDONLY);
        ssize_t length = read(fd, bytes, sizeof bytes);
        close(fd);
        assert_in_range(length, 1000, sizeof bytes - 1);
        for (int n = 0; n < 60; n++) {
                size_t at = 2000 + sealed_random(&random) % ((size_t)length - 2000);
                struct log *log;
                bytes[at] ^= 0x55;
                fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
                assert_int_equal(write(fd, bytes, (size_t)length - (n % 2 ? 30 : 0)), length - (n % 2 ? 30 : 0));
                close(fd);
                bytes[at] ^= 0x55;
                if (log_open(other, &log) < 0)
                        continue;
                struct reel *reel = reel_of(log, 1 + (uint64_t)n % 4);
                uint64_t to = 0;
                int r;
                while ((r = reel_run(reel, UINT64_MAX)) == REEL_REPORT) {
                        assert_true(state_info(reel_shown(reel)).to_sequence > to);
                        to = state_info(reel_shown(reel)).to_sequence;
                        told += reel_damaged(reel);
                }
                assert_int_equal(r, REEL_END);
                for (int i = 0; i < 20; i++) {
                        uint64_t sought = 1 + sealed_random(&random) % TICKS;
                        if (i % 2)
                                reel_until(reel, sought);
                        else
                                reel_from(reel, sought);
                        if (reel_run(reel, UINT64_MAX) == REEL_REPORT && i % 2 && sought > 1)
                                assert_true(state_info(reel_shown(reel)).to_sequence <= sought ||
                                        state_info(reel_shown(reel)).from_sequence == 1 ||
                                        reel_damaged(reel));
                }
                reel_free(reel);
                log_close(log);
        }
        unlink(other);
        assert_true(told > 20);
}

/* ---- the head of a replay ---------------------------------------------------------------------------------------------------- */

static void line_of(const struct look *look, int rows, int cols, int row, char *out, size_t size)
{
        struct canvas canvas;

        canvas_init(&canvas, false);
        assert_int_equal(canvas_resize(&canvas, rows, cols), 0);
        head_draw(look, &canvas);
        canvas_line(&canvas, row, out, size);
        canvas_fini(&canvas);
}

static void test_head(void **unused)
{
        char line[400];
        struct reel *reel = reel_of(opened, 1);
        struct look_place place = {.name = "bench8.watop", .position = "123 of 3600", .phase = "phase bench_08", .speed = "x1"};

        (void)unused;
        reel_until(reel, 123);
        run(reel);
        struct look look = {.state = reel_shown(reel), .gone_seconds = -1, .interval_ns = SECOND, .selected = PANEL_TASK, .choose = -2,
                .place = &place, .paused = true};
        line_of(&look, 3, 80, 0, line, sizeof line);
        for (size_t i = 0; i < 6; i++) {
                static const char *const wanted[] = {"bench8.watop", "phase bench_08", "123 of 3600", "x1", "PAUSED", "1.0s"};
                if (!strstr(line, wanted[i]))
                        fail_msg("no %s in: %s", wanted[i], line);
        }
        place.damaged = true; /* said on any screen that has a head line and room for a word */
        for (int cols = 60; cols <= 200; cols++) {
                line_of(&look, 3, cols, 0, line, sizeof line);
                assert_non_null(strstr(line, "damaged here"));
                assert_non_null(strstr(line, "PAUSED"));
                assert_true(strlen(line) <= (size_t)cols);
        }
        for (int rows = 1; rows < 6; rows++)
                for (int cols = 1; cols < 60; cols++)
                        line_of(&look, rows, cols, 0, line, sizeof line);
        look.place = NULL;
        look.paused = false;
        look.ago = "12 s ago";
        line_of(&look, 3, 80, 0, line, sizeof line);
        assert_non_null(strstr(line, "12 s ago"));
        reel_free(reel);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_jumps), cmocka_unit_test(test_on_way),
                cmocka_unit_test(test_growing),
                cmocka_unit_test(test_damage), cmocka_unit_test(test_head),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}

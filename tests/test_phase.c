/*
 * Phases from marks, and parts of a log as people name them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "sample/phase.h"
#include "tests/log_frames.h"
#include "tui/span.h"

static char path[128];
static struct log *opened;
static struct phases phases;
static struct log_info info;

/* Frames, one a second; before some of them a mark. */
static void write_log(void)
{
        static const struct { unsigned tick; const char *text; } marks[] = {
                {5, "warm up"}, {20, "round"}, {40, "end: other"}, {45, "end: round"}, {100, "round"}, {130, "last\nphase"}, {131, ""},
                {150, "open"},
        };
        struct log_writer *w;
        struct sealed s;
        uint64_t random = 1;
        size_t next = 0;

        assert_int_equal(log_create(path, NULL, &w), 0);
        sealed_open(&s);
        for (unsigned i = 0; i < 200; i++) {
                machine_tick(&s, &random, 2);
                bool mark = next < sizeof marks / sizeof *marks && marks[next].tick == i;
                sample_scope_begin(s.sample, SCOPE_MARK, s.mono);
                if (mark) {
                        struct row *row = sample_row(s.sample, SCOPE_MARK, (struct key){next + 1, 0}, 0);
                        row_text(row, MARK_TEXT, marks[next].text, strlen(marks[next].text));
                        row_set(row, MARK_UID, 1000);
                        next++;
                }
                sample_scope_end(s.sample, SCOPE_MARK, s.mono, GONE_EXITED);
                s.flags = mark ? FRAME_MARK | FRAME_EXTRA : 0;
                sealed_seal(&s);
                assert_int_equal(log_append(w, s.frame, s.length), 0);
        }
        sealed_close(&s);
        assert_int_equal(log_finish(w), 0);
}

static int set_up(void **arg)
{
        (void)arg;
        setenv("TZ", "UTC", 1);
        tzset();
        snprintf(path, sizeof path, "%s/a.log", temp_folder());
        write_log();
        return log_open(path, &opened) == 0 && phases_build(opened, &phases) == 0 && log_get_info(opened, &info) == 0 ? 0 : -1;
}

static int tear_down(void **arg)
{
        (void)arg;
        phases_free(&phases);
        log_close(opened);
        unlink(path);
        *strrchr(path, '/') = '\0';
        return rmdir(path);
}

static void check_phase(size_t i, const char *name, uint64_t from, uint64_t to, unsigned repeat, bool open)
{
        const struct phase *p = &phases.phases[i];

        assert_string_equal(p->name, name);
        assert_int_equal(p->from_sequence, from);
        assert_int_equal(p->to_sequence, to);
        assert_int_equal(p->repeat, repeat);
        assert_int_equal(p->open, open);
        assert_true(p->to_real_ns > p->from_real_ns && p->to_mono_ns > p->from_mono_ns);
}

static void test_phases(void **arg)
{
        (void)arg;
        assert_int_equal(phases.mark_count, 8);
        assert_string_equal(phases.marks[2].text, "end: other");
        assert_int_equal(phases.marks[2].uid, 1000);
        assert_true(phases.marks[2].pid == UINT64_MAX);
        assert_int_equal(phases.count, 5);
        check_phase(0, "warm up", 6, 21, 1, false);
        check_phase(1, "round", 21, 46, 1, false); /* "end: other" names another one */
        check_phase(2, "round", 101, 131, 2, false);
        check_phase(3, "last\nphase", 131, 132, 1, false);
        check_phase(4, "open", 151, 200, 1, true);
        assert_ptr_equal(phases_find(&phases, "round"), &phases.phases[1]);
        assert_ptr_equal(phases_find(&phases, "round#2"), &phases.phases[2]);
        assert_ptr_equal(phases_find(&phases, "round#1"), &phases.phases[1]);
        assert_null(phases_find(&phases, "round#3"));
        assert_null(phases_find(&phases, "none"));
}

static void expect(const char *from, const char *to, const char *phase, struct span wanted)
{
        struct span span;
        char why[300];

        assert_int_equal(span_find(&info, &phases, &(struct span_words){from, to, phase}, &span, why, sizeof why), 0);
        assert_int_equal(span.from_sequence, wanted.from_sequence);
        assert_int_equal(span.from_real_ns, wanted.from_real_ns);
        assert_int_equal(span.to_sequence, wanted.to_sequence ? wanted.to_sequence : UINT64_MAX);
        assert_int_equal(span.to_real_ns, wanted.to_real_ns ? wanted.to_real_ns : UINT64_MAX);
        assert_int_equal(span.ends, to || phase);
}

/* The log's first frame: 1700000000 + 1501 = 2023-11-14T22:38:21.000...Z */
static void test_spans(void **arg)
{
        struct span span;
        char why[300];
        uint64_t noon = UINT64_C(1700001536) * SECOND; /* 22:38:56 */

        (void)arg;
        expect(NULL, NULL, NULL, (struct span){0});
        expect("#7", "#9", NULL, (struct span){.from_sequence = 7, .to_sequence = 9});
        expect("+0", "+30s", NULL, (struct span){.from_real_ns = info.first_real_ns, .to_real_ns = info.first_real_ns + 30 * SECOND});
        expect("+1m", NULL, NULL, (struct span){.from_real_ns = info.first_real_ns + 60 * SECOND});
        expect("+2h1m1.5s", "+90", NULL, (struct span){.from_real_ns = info.first_real_ns + 7261 * SECOND + SECOND / 2,
                .to_real_ns = info.first_real_ns + 90 * SECOND});
        expect("+250ms", NULL, NULL, (struct span){.from_real_ns = info.first_real_ns + SECOND / 4});
        expect("22:38:56", NULL, NULL, (struct span){.from_real_ns = noon});
        expect("22:38:56.25", "22:39", NULL, (struct span){.from_real_ns = noon + SECOND / 4, .to_real_ns = noon + 4 * SECOND});
        expect("2023-11-14T22:38:56Z", "2023-11-14 22:39:00", NULL, (struct span){.from_real_ns = noon, .to_real_ns = noon + 4 * SECOND});
        expect("2023-11-15T00:38:56+02:00", NULL, NULL, (struct span){.from_real_ns = noon});
        expect("2023-11-14T22:38:56Z", "9999-12-31T23:59:59Z", NULL, (struct span){.from_real_ns = noon, .to_real_ns = UINT64_MAX});
        expect("2023-11-14T14:38:56-0800", NULL, NULL, (struct span){.from_real_ns = noon});
        expect(NULL, NULL, "round#2", (struct span){.from_sequence = 101, .to_sequence = 131});
        expect("round", "round#2", NULL, (struct span){.from_sequence = 21, .to_sequence = 131});
        expect("end: round", NULL, NULL, (struct span){.from_sequence = 46});
        static const char *const wrong[] = {"", "25:00", "noon", "#", "#x", "+x", "+", "+1x", "+.", "+99999999h", "+1h-", "2023-11-14",
                "round#9", "12:3"};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                assert_int_equal(span_find(&info, &phases, &(struct span_words){.from = wrong[i]}, &span, why, sizeof why), -EINVAL);
        assert_non_null(strstr(why, "warm up"));
        assert_int_equal(span_find(&info, &phases, &(struct span_words){.phase = "none"}, &span, why, sizeof why), -EINVAL);
}

/* Past midnight: a time of day that is before the log's start is the next day's. */
static void test_next_day(void **arg)
{
        struct log_info night = {.first_real_ns = UINT64_C(1700001536) * SECOND, .last_real_ns = UINT64_C(1700020000) * SECOND};
        struct span span;
        char why[300];

        (void)arg;
        assert_int_equal(span_find(&night, &phases, &(struct span_words){.from = "01:00"}, &span, why, sizeof why), 0);
        assert_int_equal(span.from_real_ns, UINT64_C(1700010000) * SECOND);
        assert_int_equal(span_find(&night, &phases, &(struct span_words){.from = "22:00"}, &span, why, sizeof why), 0);
        assert_int_equal(span.from_real_ns, UINT64_C(1699999200) * SECOND);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_phases), cmocka_unit_test(test_spans), cmocka_unit_test(test_next_day)};

        return cmocka_run_group_tests(tests, set_up, tear_down);
}

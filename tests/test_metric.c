/*
 * Columns over two samples, held against figures worked out by hand; the table's own consistency; and the text of values.
 */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/state.h"
#include "tests/sealed.h"

static const uint64_t MS = 1000000;

/* ---- the table --------------------------------------------------------------------------------------------------------------------- */

static void test_table_is_whole(void **unused)
{
        for (int i = 1; i < METRIC_COUNT; i++) {
                const struct metric_info *m = &metrics[i];
                assert_non_null(m->name);
                const char *scope = scopes[m->scope].name;
                assert_true(strncmp(m->name, scope, strlen(scope)) == 0 && m->name[strlen(scope)] == '.');
                assert_true(m->text[strlen(m->text) - 1] == '.');
                assert_true(strlen(m->source) > 0);
                assert_int_equal(metric_find(m->name), i); /* names are unique */
                assert_true(metric_slot(i) >= 0 && metric_slot(i) < ROW_SLOTS);
                assert_true((m->kind == KIND_TEXT) == (m->unit == UNIT_TEXT));
                assert_true(m->kind != KIND_TIME || m->unit == UNIT_NS);
        }
        assert_int_equal(metric_find("cpu.nonsense"), METRIC_NONE);
}

static void test_views_are_whole(void **unused)
{
        size_t all = 0;

        for (int v = 0; v < VIEW_COUNT; v++) {
                const struct view_info *view = metric_view((enum view_id)v);
                assert_true(view->count > 0);
                all += view->count;
                for (size_t i = 0; i < view->count; i++) {
                        const struct column *c = &view->columns[i];
                        assert_int_equal(c->view, v);
                        assert_ptr_equal(metric_column((enum view_id)v, c->head), c); /* heads are unique in their view */
                        for (int t = 0; t < COLUMN_TERMS && c->num[t]; t++)
                                assert_int_equal(metrics[abs(c->num[t])].scope, view->scope);
                        if (c->op == OP_RATIO)
                                for (int t = 0; t < COLUMN_TERMS && c->den[t]; t++)
                                        assert_int_equal(metrics[abs(c->den[t])].scope, view->scope);
                }
        }
        assert_true(all > 80);
        assert_null(metric_column(VIEW_CPU, "r/s"));
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------ */

struct fixture {
        struct sealed w;
        struct state *state;
};

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof *f);

        sealed_open(&f->w);
        assert_int_equal(state_new(&f->state), 0);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        state_free(f->state);
        sealed_close(&f->w);
        free(f);
        return 0;
}

static void publish(struct fixture *f)
{
        assert_int_equal(state_apply(f->state, sealed_seal(&f->w), NULL), 0);
}

static double shown(struct fixture *f, enum view_id view, const char *head, const struct state_row *row)
{
        struct value value = metric_value(f->state, row, metric_column(view, head));
        return value.kind == VALUE_NUMBER ? value.number : NAN;
}

static void cpu_row(struct fixture *f, unsigned cpu, const uint64_t ms[10], const uint64_t wa[7])
{
        struct row *row = sample_row(f->w.sample, SCOPE_CPU, (struct key){cpu, 0}, 0);

        for (int i = 0; i < 10; i++)
                row_set(row, CPU_USER + i, ms[i] * MS);
        for (int i = 0; i < 7; i++)
                row_set(row, CPU_WA_DISK + i, wa[i] * MS);
}

/* A second of two cores; the second one's iowait has bounds. Figures by hand. */
static void test_cpu_columns(void **arg)
{
        struct fixture *f = *arg;
        static const uint64_t zero[10] = {0};

        sealed_tick(&f->w, SECOND);
        sample_scope_begin(f->w.sample, SCOPE_CPU, f->w.mono);
        cpu_row(f, 0, zero, zero);
        cpu_row(f, 1, zero, zero);
        sample_scope_end(f->w.sample, SCOPE_CPU, f->w.mono, GONE_UNSAMPLED);
        publish(f);
        state_base(f->state);

        sealed_tick(&f->w, SECOND);
        sample_scope_begin(f->w.sample, SCOPE_CPU, f->w.mono);
        cpu_row(f, 0, (const uint64_t[]){110, 10, 130, 0, 620, 30, 100, 0, 50, 5}, (const uint64_t[]){3, 617, 0, 3, 3, 617, 617});
        cpu_row(f, 1, (const uint64_t[]){100, 0, 100, 400, 400, 0, 0, 0, 0, 0}, (const uint64_t[]){300, 0, 100, 0, 300, 0, 400});
        sample_scope_end(f->w.sample, SCOPE_CPU, f->w.mono, GONE_UNSAMPLED);
        publish(f);

        const struct state_row *row = state_find(f->state, SCOPE_CPU, (struct key){0, 0});
        assert_non_null(row);
        assert_true(fabs(shown(f, VIEW_CPU, "us", row) - 11.0) < 1e-9);
        assert_true(fabs(shown(f, VIEW_CPU, "wa", row) - 62.0) < 1e-9);
        assert_true(fabs(shown(f, VIEW_CPU, "load", row) - 38.0) < 1e-9); /* us + ni + sy + hi + si */
        assert_true(fabs(shown(f, VIEW_CPU, "gu", row) - 5.0) < 1e-9);
        struct value value = metric_value(f->state, row, metric_column(VIEW_CPU, "wa_uring"));
        assert_int_equal(value.mark, MARK_EXACT);

        row = state_find(f->state, SCOPE_CPU, (struct key){1, 0});
        char text[32];
        value = metric_value(f->state, row, metric_column(VIEW_CPU, "wa_disk"));
        value_format(text, sizeof text, &value, 1);
        assert_string_equal(text, "<30.0");
        value = metric_value(f->state, row, metric_column(VIEW_CPU, "wa_uring"));
        value_format(text, sizeof text, &value, 1);
        assert_string_equal(text, "0.0~");

        value = metric_value_all(f->state, metric_column(VIEW_CPU, "wa"), NULL, NULL);
        assert_true(fabs(value.number - 51.0) < 1e-9);
        value = metric_value_sum(f->state, metric_column(VIEW_CPU, "wa"), NULL, NULL);
        assert_true(fabs(value.number - 102.0) < 1e-9);
        value = metric_value_sum(f->state, metric_column(VIEW_CPU, "wa_disk"), NULL, NULL);
        assert_int_equal(value.mark, MARK_AT_MOST);
}

static struct row *disk_row(struct fixture *f)
{
        struct row *row = sample_row(f->w.sample, SCOPE_DISK, key_of_name("sda", 3, 1), 0);

        row_text(row, DISK_NAME, "sda", 3);
        return row;
}

/* Old kernel: no discard and no flush fields. Sums skip them, their own columns are absent; ratios over nothing are absent, or 0 where
 * iostat says 0. */
static void test_disk_columns(void **arg)
{
        struct fixture *f = *arg;

        for (int i = 0; i < 2; i++) {
                sealed_tick(&f->w, 2 * SECOND);
                sample_scope_begin(f->w.sample, SCOPE_DISK, f->w.mono);
                struct row *row = disk_row(f);
                row_set(row, DISK_READS, i ? 300 : 100);
                row_set(row, DISK_READS_MERGED, i ? 100 : 0);
                row_set(row, DISK_READ_BYTES, i ? 819200 + 512 : 512);
                row_set(row, DISK_READ_TIME, i ? 100 * MS : (UINT64_C(4294967296) - 100) * MS); /* wraps at 2^32 ms */
                row_set(row, DISK_WRITES, 7);
                row_set(row, DISK_WRITES_MERGED, 7);
                row_set(row, DISK_WRITE_BYTES, 4096);
                row_set(row, DISK_WRITE_TIME, 9 * MS);
                row_set(row, DISK_INFLIGHT, 3);
                row_set(row, DISK_IO_TIME, i ? 2300 * MS : 0);
                row_set(row, DISK_QUEUE_TIME, i ? 4000 * MS : 0);
                sample_scope_end(f->w.sample, SCOPE_DISK, f->w.mono, GONE_EXITED);
                publish(f);
                if (i == 0)
                        state_base(f->state);
        }
        const struct state_row *row = state_at(f->state, SCOPE_DISK, 0);
        assert_true(fabs(shown(f, VIEW_DISK, "r/s", row) - 100) < 1e-9);
        assert_true(fabs(shown(f, VIEW_DISK, "rkB/s", row) - 400) < 1e-9);
        assert_true(fabs(shown(f, VIEW_DISK, "%rrqm", row) - 100.0 / 3) < 1e-9);
        assert_true(fabs(shown(f, VIEW_DISK, "r_await", row) - 1.0) < 1e-9); /* 200 ms over the wrap, 200 reads */
        assert_true(fabs(shown(f, VIEW_DISK, "rareq-sz", row) - 4.0) < 1e-9);
        assert_true(fabs(shown(f, VIEW_DISK, "%wrqm", row)) < 1e-9);
        assert_true(isnan(shown(f, VIEW_DISK, "w_await", row)));
        assert_true(isnan(shown(f, VIEW_DISK, "d/s", row)));
        assert_true(isnan(shown(f, VIEW_DISK, "f_await", row)));
        assert_true(fabs(shown(f, VIEW_DISK, "aqu-sz", row) - 2.0) < 1e-9);
        assert_true(fabs(shown(f, VIEW_DISK, "%util", row) - 115.0) < 1e-9); /* not capped */
        assert_true(fabs(shown(f, VIEW_DISK, "infl", row) - 3) < 1e-9);
        assert_true(isnan(shown(f, VIEW_DISK, "drv", row)));
        assert_true(fabs(shown(f, VIEW_SHORT, "tps", row) - 100) < 1e-9);
        assert_true(fabs(shown(f, VIEW_SAR_OLD, "rd_sec/s", row) - 800) < 1e-9);
        assert_true(fabs(shown(f, VIEW_SAR_OLD, "svctm", row) - 11.5) < 1e-9);
}

/* A counter that falls without being near a wrap is a reset: absent, and so is every sum it is part of. */
static void test_reset_is_absent(void **arg)
{
        struct fixture *f = *arg;

        for (int i = 0; i < 2; i++) {
                sealed_tick(&f->w, SECOND);
                sample_scope_begin(f->w.sample, SCOPE_DISK, f->w.mono);
                struct row *row = disk_row(f);
                row_set(row, DISK_READS, i ? 5 : 1000);
                row_set(row, DISK_WRITES, i ? 20 : 10);
                row_set(row, DISK_DISCARDS, 0);
                sample_scope_end(f->w.sample, SCOPE_DISK, f->w.mono, GONE_EXITED);
                publish(f);
                if (i == 0)
                        state_base(f->state);
        }
        const struct state_row *row = state_at(f->state, SCOPE_DISK, 0);
        assert_true(isnan(shown(f, VIEW_DISK, "r/s", row)));
        assert_true(fabs(shown(f, VIEW_DISK, "w/s", row) - 10) < 1e-9);
        struct value value = metric_value(f->state, row, metric_column(VIEW_SHORT, "tps"));
        assert_int_equal(value.kind, VALUE_ABSENT);
        assert_true(value.flags & VALUE_RESET);
}

static void test_task_columns(void **arg)
{
        struct fixture *f = *arg;

        for (int i = 0; i < 2; i++) {
                sealed_tick(&f->w, SECOND);
                sample_scope_begin(f->w.sample, SCOPE_VM, f->w.mono);
                row_set(sample_row(f->w.sample, SCOPE_VM, (struct key){0, 0}, 0), VM_TOTAL, 1000 << 10);
                sample_scope_end(f->w.sample, SCOPE_VM, f->w.mono, GONE_EXITED);
                sample_scope_begin(f->w.sample, SCOPE_PROCESS, f->w.mono);
                struct row *row = sample_row(f->w.sample, SCOPE_PROCESS, (struct key){42, 7}, f->w.mono + 250 * MS * (uint64_t)i);
                row_set(row, PROCESS_USER_TIME, i ? 1000 * MS : 0);
                row_set(row, PROCESS_GUEST_TIME, i ? 1010 * MS : 0); /* a tick more than user: clamped, flagged, not negative */
                row_set(row, PROCESS_SYSTEM_TIME, i ? 250 * MS : 0);
                row_set(row, PROCESS_STATE, 'S');
                row_set(row, PROCESS_SINCE, f->w.boot - (i ? 2 * SECOND : 0));
                row_set(row, PROCESS_RSS, 250 << 10);
                sample_scope_end(f->w.sample, SCOPE_PROCESS, f->w.mono + 500 * MS, GONE_EXITED);
                publish(f);
                if (i == 0)
                        state_base(f->state);
        }
        const struct state_row *row = state_at(f->state, SCOPE_PROCESS, 0);
        assert_true(fabs(shown(f, VIEW_TASK, "%CPU", row) - 100) < 1e-6); /* 1250 ms over the row's own 1.25 s */
        struct value value = metric_value(f->state, row, metric_column(VIEW_TASK, "%usr"));
        assert_true(value.number == 0 && (value.flags & VALUE_CLAMPED));
        assert_true(fabs(shown(f, VIEW_TASK, "%MEM", row) - 25) < 1e-9);
        assert_true(fabs(shown(f, VIEW_TASK, "since", row) - 2) < 1e-9);
        value = metric_value(f->state, row, metric_column(VIEW_TASK, "S"));
        assert_true(value.kind == VALUE_TEXT && value.length == 1 && value.text[0] == 'S');
        assert_true(isnan(shown(f, VIEW_TASK, "kB_rd/s", row)));
}

/* ---- text of a value ----------------------------------------------------------------------------------------------------------------- */

static void test_texts(void **unused)
{
        char text[32];
        struct value value = {.kind = VALUE_NUMBER, .number = -0.0};

        if (!setlocale(LC_ALL, "de_DE.UTF-8"))
                setlocale(LC_ALL, "C");
        value_format(text, sizeof text, &value, 1);
        assert_string_equal(text, "0.0");
        static const double numbers[] = {0, 0.04, 0.05, 0.96, 9.94, 9.96, 99.99, 1234567.891, 1e11, 0.001, 42, 5e14};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                for (unsigned places = 0; places <= 3; places++) {
                        char wanted[40];
                        value.number = numbers[i];
                        value_format(text, sizeof text, &value, places);
                        snprintf(wanted, sizeof wanted, "%.*f", (int)places, numbers[i]);
                        assert_true(fabs(strtod(text, NULL) - numbers[i]) <= 0.5 * pow(10, -(double)places) * 1.000001);
                        if (numbers[i] < 1e12)
                                assert_int_equal(strlen(text), strlen(wanted));
                }
        value.number = 0.1 + 0.2;
        value_exact(text, sizeof text, &value, "null");
        assert_true(strtod(text, NULL) == value.number || strchr(text, '.'));
        value.mark = MARK_ESTIMATE;
        value_format(text, sizeof text, &value, 1);
        assert_string_equal(text, "0.3~");
        value.number = INFINITY;
        value_exact(text, sizeof text, &value, "null");
        assert_string_equal(text, "null");
        assert_int_equal(value_format(text, 3, &(struct value){.kind = VALUE_NUMBER, .number = 12345}, 1), 2);
        struct value absent = {.kind = VALUE_ABSENT}, big = {.kind = VALUE_NUMBER, .number = 9},
                small = {.kind = VALUE_NUMBER, .number = 1};
        assert_true(value_compare(&absent, &small) > 0 && value_compare(&big, &small) < 0 && value_compare(&absent, &absent) == 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table_is_whole),
                cmocka_unit_test(test_views_are_whole),
                cmocka_unit_test_setup_teardown(test_cpu_columns, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_disk_columns, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_reset_is_absent, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_task_columns, set_up, tear_down),
                cmocka_unit_test(test_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

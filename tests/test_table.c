/*
 * The table in its three formats, read back by other people's readers (json-c) and a small one of RFC 4180; intervals and counts;
 * a device's state in a word.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "sample/word.h"
#include "tests/sealed.h"
#include "tui/options.h"
#include "tui/table.h"

/* ---- intervals and counts ------------------------------------------------------------------------------------------------------- */

static void test_intervals(void **unused)
{
        static const struct { const char *text; int result; uint64_t ns; } cases[] = {
                {"1", 0, 1000000000}, {"0.5", 0, 500000000}, {"250ms", 0, 250000000}, {"2m", 0, 120000000000}, {"1h", 0, 3600000000000},
                {"1.5s", 0, 1500000000}, {".25", 0, 250000000}, {"2.", 0, 2000000000}, {"10ms", 0, 10000000}, {"0.010", 0, 10000000},
                {"0.0100000000000000000000001", 0, 10000000}, {"3600", 0, 3600000000000}, {"60m", 0, 3600000000000},
                {"0001", 0, 1000000000},
                {"9ms", -ERANGE, 0}, {"0", -ERANGE, 0}, {"0.0", -ERANGE, 0}, {"61m", -ERANGE, 0},
                {"99999999999999999999999999h", -ERANGE, 0},
                {"", -EINVAL, 0}, {".", -EINVAL, 0}, {"s", -EINVAL, 0}, {"-1", -EINVAL, 0}, {"+1", -EINVAL, 0}, {"1e3", -EINVAL, 0},
                {"0x10", -EINVAL, 0},
                {"1 s", -EINVAL, 0}, {" 1", -EINVAL, 0}, {"1,5", -EINVAL, 0}, {"1.2.3", -EINVAL, 0}, {"nan", -EINVAL, 0},
                {"inf", -EINVAL, 0}, {"1d", -EINVAL, 0},
                {"1S", -EINVAL, 0}, {"1sec", -EINVAL, 0}, {"..s", -EINVAL, 0},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                uint64_t ns = 77;
                int r = option_interval(cases[i].text, &ns);
                if (r != cases[i].result || ns != (r == 0 ? cases[i].ns : 77))
                        fail_msg("'%s': %d, %llu", cases[i].text, r, (unsigned long long)ns);
        }
}

static void test_counts_and_lists(void **unused)
{
        uint64_t count = 0, set[2] = {0};

        assert_int_equal(option_count("12", &count), 0);
        assert_int_equal(count, 12);
        assert_int_equal(option_count("0", &count), -ERANGE);
        assert_int_equal(option_count("99999999999999999999", &count), -ERANGE);
        assert_int_equal(option_count("1x", &count), -EINVAL);
        assert_int_equal(option_count("", &count), -EINVAL);
        assert_int_equal(option_list("0-2,65,127", set, 128), 0);
        assert_int_equal(set[0], 7);
        assert_true(set[1] == (UINT64_C(1) << 63 | 2));
        assert_int_equal(option_list("128", set, 128), -ERANGE);
        assert_int_equal(option_list("3-1", set, 128), -EINVAL);
        assert_int_equal(option_list("1,", set, 128), -EINVAL);
        assert_int_equal(option_list("", set, 128), -EINVAL);
        assert_int_equal(option_list("a", set, 128), -EINVAL);
        assert_int_equal(option_list("0-99999999999999999999999", set, 128), -ERANGE);
}

/* ---- a table in three formats --------------------------------------------------------------------------------------------------- */

static const char evil[] = "=ev,il \"x\"\n\x1b[2J\xff";

static void fill(struct table *table)
{
        table_init(table, true);
        table_column(table, "CPU", 0, TABLE_STRING);
        table_column(table, "us", 1, 0);
        table_column(table, "low", 1, TABLE_MACHINE);
        table_column(table, "Command", 0, TABLE_LEFT);
        struct table_cell *row = table_row(table);
        row[0].value = table_number(3);
        row[1].value = table_number(100.0 / 3);
        row[2].value = table_number(0.1);
        row[3].value = table_text(evil, sizeof evil - 1);
        row = table_row(table);
        row[0].value = table_copy(table, "all");
        row[1].value = (struct value){.kind = VALUE_NUMBER, .number = 490.87, .mark = MARK_AT_MOST};
        row[3].value = table_text("b", 1);
        row[3].lead = "|__";
        table_row(table);
}

static char *printed(struct table *table, void (*print)(struct table *, FILE *))
{
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        print(table, out);
        fclose(out);
        return text;
}

static void as_text(struct table *table, FILE *out)
{
        table_print(table, out, 0);
}

static void as_screens(struct table *table, FILE *out)
{
        table_print(table, out, 3);
}

static void as_csv(struct table *table, FILE *out)
{
        table_csv_heads(table, out, "time");
        table_csv_rows(table, out, "t");
}

static void test_text(void **unused)
{
        struct table table;

        fill(&table);
        char *text = printed(&table, as_text);
        assert_string_equal(text, "CPU     us Command\n"
                                  "  3   33.3 =ev,il \"x\"\\x0a\\x1b[2J\\xff\n"
                                  "all <490.9 |__b\n"
                                  "  -      - -\n");
        free(text);
        text = printed(&table, as_screens); /* heads again after each screenful, and columns that stay as wide as they were */
        assert_string_equal(text, "CPU     us Command\n"
                                  "  3   33.3 =ev,il \"x\"\\x0a\\x1b[2J\\xff\n"
                                  "all <490.9 |__b\n"
                                  "CPU     us Command\n"
                                  "  -      - -\n");
        free(text);
        table_fini(&table);
}

/* RFC 4180, cells of one record into an array; returns what follows the record. */
static const char *csv_record(const char *at, char cells[][64], size_t *count)
{
        *count = 0;
        for (;;) {
                char *cell = cells[(*count)++];
                size_t used = 0;
                bool quoted = *at == '"';
                at += quoted;
                while (*at && (quoted ? *at != '"' || at[1] == '"' : *at != ',' && *at != '\n')) {
                        at += quoted && *at == '"';
                        cell[used++] = *at++;
                }
                cell[used] = '\0';
                at += quoted;
                if (*at != ',')
                        return *at ? at + 1 : at;
                at++;
        }
}

static void test_csv(void **unused)
{
        struct table table;
        char cells[8][64];
        size_t count;

        fill(&table);
        char *text = printed(&table, as_csv);
        const char *at = csv_record(text, cells, &count);
        assert_int_equal(count, 5);
        assert_string_equal(cells[0], "time");
        assert_string_equal(cells[3], "low");
        at = csv_record(at, cells, &count);
        assert_int_equal(count, 5);
        assert_string_equal(cells[1], "3");
        assert_true(fabs(strtod(cells[2], NULL) - 100.0 / 3) < 1e-12);
        assert_string_equal(cells[3], "0.1");
        assert_string_equal(cells[4], "'=ev,il \"x\"\n\\x1b[2J\\xff");
        at = csv_record(at, cells, &count);
        assert_string_equal(cells[1], "all");
        assert_string_equal(cells[2], "490.87");
        assert_string_equal(cells[3], "");
        assert_string_equal(cells[4], "b"); /* the lead is for people */
        at = csv_record(at, cells, &count);
        assert_int_equal(count, 5);
        assert_string_equal(cells[4], "");
        assert_string_equal(at, "");
        free(text);
        table_fini(&table);
}

static json_object *cell(json_object *rows, size_t row, const char *key)
{
        json_object *value = NULL;

        assert_true(json_object_object_get_ex(json_object_array_get_idx(rows, row), key, &value));
        return value;
}

static void test_json(void **unused)
{
        struct table table;

        fill(&table);
        char *text = printed(&table, table_json);
        assert_null(strchr(text, '\n')); /* one line, whatever names hold */
        json_object *rows = json_tokener_parse(text);
        assert_non_null(rows);
        assert_int_equal(json_object_array_length(rows), 3);
        assert_true(json_object_is_type(cell(rows, 0, "CPU"), json_type_string));
        assert_string_equal(json_object_get_string(cell(rows, 0, "CPU")), "3");
        assert_true(json_object_get_double(cell(rows, 0, "us")) == 100.0 / 3); /* full precision */
        assert_string_equal(json_object_get_string(cell(rows, 0, "Command")), "=ev,il \"x\"\n\x1b[2J\xef\xbf\xbd");
        assert_null(cell(rows, 1, "low")); /* null, not 0 */
        assert_null(cell(rows, 2, "CPU"));
        json_object_put(rows);
        free(text);
        table_fini(&table);
}

/* ---- a device in a word ---------------------------------------------------------------------------------------------------------- */

struct device {
        uint64_t io_time, queue_time, reads, inflight, stuck, nr_requests, iostats, kind;
};

static void disk_tick(struct sealed *s, struct state *state, const struct device *device)
{
        sealed_tick(s, SECOND);
        if (!s->frame)
                sealed_ballast(s);
        sample_scope_begin(s->sample, SCOPE_DISK, s->mono);
        struct row *row = sample_row(s->sample, SCOPE_DISK, (struct key){1, 1}, 0);
        row_set(row, DISK_IO_TIME, device->io_time);
        row_set(row, DISK_QUEUE_TIME, device->queue_time);
        row_set(row, DISK_READS, device->reads);
        row_set(row, DISK_INFLIGHT, device->inflight);
        row_set(row, DISK_STUCK, device->stuck);
        row_set(row, DISK_NR_REQUESTS, device->nr_requests);
        row_set(row, DISK_IOSTATS, device->iostats);
        row_set(row, DISK_KIND, device->kind);
        sample_scope_end(s->sample, SCOPE_DISK, s->mono + 10, GONE_EXITED);
        sealed_seal(s);
        assert_int_equal(state_apply(state, s->frame, NULL), 0);
}

static const char *word_of(const struct device *device)
{
        static const struct device zero = {.iostats = 1, .kind = 'w', .nr_requests = 64};
        static char text[32];
        struct sealed s;
        struct state *state;

        sealed_open(&s);
        assert_int_equal(state_new(&state), 0);
        disk_tick(&s, state, &zero);
        state_base(state);
        if (device)
                disk_tick(&s, state, device);
        word_device(state, state_at(state, SCOPE_DISK, 0), text, sizeof text);
        state_free(state);
        sealed_close(&s);
        return text;
}

static void test_words(void **unused)
{
        const uint64_t ms = 1000000;
        struct device d = {.iostats = 1, .kind = 'w', .nr_requests = 64};

        assert_string_equal(word_of(NULL), "-"); /* no interval: nothing is said */
        assert_string_equal(word_of(&d), "quiet");
        d.reads = 1;
        assert_string_equal(word_of(&d), "light"); /* too fast for the clock tick, but it did something */
        d.io_time = 499 * ms;
        assert_string_equal(word_of(&d), "light");
        d.io_time = 500 * ms;
        assert_string_equal(word_of(&d), "busy");
        d.queue_time = 1999 * ms;
        assert_string_equal(word_of(&d), "busy");
        d.queue_time = 2000 * ms;
        assert_string_equal(word_of(&d), "queued");
        d.inflight = 57;
        assert_string_equal(word_of(&d), "queued");
        d.inflight = 58;
        assert_string_equal(word_of(&d), "full");
        d.kind = 's'; /* device mapper's own queue says nothing */
        assert_string_equal(word_of(&d), "queued");
        d = (struct device){.iostats = 1, .kind = 'w', .nr_requests = 64, .inflight = 1, .stuck = 999 * ms};
        assert_string_equal(word_of(&d), "light"); /* in flight: never quiet */
        d.stuck = 38 * 1000 * ms;
        assert_string_equal(word_of(&d), "STUCK 38 s");
        d.stuck = 600 * 1000 * ms;
        assert_string_equal(word_of(&d), "STUCK 10 m");
        d.inflight = 0;
        assert_string_equal(word_of(&d), "quiet");
        d.iostats = 0;
        assert_string_equal(word_of(&d), "unknown");
}

/* The columns of processes and of threads are one table's: same heads, same order, same groups. */
static void test_task_views(void **unused)
{
        const struct view_info *process = metric_view(VIEW_TASK), *thread = metric_view(VIEW_TASK_THREAD);

        assert_int_equal(process->count, thread->count);
        for (size_t i = 0; i < process->count; i++) {
                assert_string_equal(process->columns[i].head, thread->columns[i].head);
                assert_int_equal(process->columns[i].flags, thread->columns[i].flags);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_intervals), cmocka_unit_test(test_counts_and_lists), cmocka_unit_test(test_text),
                cmocka_unit_test(test_csv),
                cmocka_unit_test(test_json), cmocka_unit_test(test_words), cmocka_unit_test(test_task_views),
        };

        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A report of a recording whose numbers are known: loads as the cells add up, sums of results as the tools printed them, ramps, rounds,
 * groups, what is cut and what is not, and each format's rules.
 */
#include <errno.h>
#include <json-c/json.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "tests/log_frames.h"
#include "tests/report_log.h"
#include "tui/clean.h"
#include "tui/report.h"

static char folder[64], path[128];
static struct report_log made;

static int set_up(void **arg)
{
        (void)arg;
        setenv("TZ", "UTC", 1);
        tzset();
        snprintf(folder, sizeof folder, "%s", temp_folder());
        snprintf(path, sizeof path, "%s/a.log", folder);
        report_log_begin(&made, path);
        for (unsigned step = 0; step < REPORT_LOG_STEPS; step++)
                report_log_phase(&made, step, report_log_names[step], false);
        report_log_phase(&made, 1, "serial", true);
        report_log_phase(&made, 0, "bench_01", false);
        report_log_phase(&made, 1, "bench_02", false);
        report_log_end(&made);
        return 0;
}

static int tear_down(void **arg)
{
        (void)arg;
        unlink(path);
        return rmdir(folder);
}

static struct report *open_with(const struct report_options *options)
{
        struct report *report = NULL;
        char why[512];

        int r = report_open(path, options, &report, why, sizeof why);
        if (r < 0)
                print_message("%s\n", why);
        assert_int_equal(r, 0);
        return report;
}

static void near(double value, double wanted, double most)
{
        if (!(fabs(value - wanted) <= most))
                print_message("%f is not %f\n", value, wanted);
        assert_true(fabs(value - wanted) <= most);
}

static double primary(const struct report *report, size_t phase)
{
        const struct report_phase *p = &report->phases[phase];

        assert_true(p->primary != SIZE_MAX);
        return p->results[p->primary].sum.value;
}

static double primary_load(unsigned step)
{
        double load = 0;

        for (unsigned c = 0; c < REPORT_LOG_CORES; c++)
                for (unsigned i = 0; i < 8; i++)
                        load += i == 3 || i == 4 || i == 7 ? 0 : report_log_cells[step][c][i] * 0.1;
        return load;
}

/* us+sy, hi+si and load of each step, from the cells. */
static void test_loads(void **arg)
{
        static const double us_sy[] = {211.0, 317.4, 360.7, 435.6}, hi_si[] = {98.2, 149.4, 176.1, 204.0};
        static const unsigned share[] = {39, 58, 67, 80};
        struct report *report = open_with(&(struct report_options){0});

        (void)arg;
        assert_int_equal(report->phase_count, 7);
        assert_int_equal(report->cores, 8);
        assert_string_equal(report->host, "dfly1");
        assert_string_equal(report->label, "t8 round 1");
        near(report->own_seconds, 0.1, 1e-9);
        near(report->wall_seconds, 100, 1e-9);
        for (size_t i = 0; i < 4; i++) {
                const struct report_phase *p = &report->phases[i];
                assert_string_equal(p->title, report_log_names[i]);
                assert_true(p->valid && p->ran && p->status == 0);
                near(p->tally.us_sy.number, us_sy[i], 0.4); /* the cells of a core add up to 99.9 to 100.2 */
                near(p->tally.hi_si.number, hi_si[i], 0.4);
                near(p->load, us_sy[i] + hi_si[i], 0.6);
                assert_int_equal(lround(p->share), share[i]);
                assert_int_equal(p->tally.busiest_core, 2);
                near(p->groups[REPORT_WATCHED], 203, 0.1);
                near(p->groups[REPORT_COMMAND], 10 * report_log_clients[i], 0.1);
                near(p->groups[REPORT_IRQ], hi_si[i], 0.4);
                near(p->groups[REPORT_REST], fmax(0, us_sy[i] - 203 - 10 * report_log_clients[i]), 0.6);
                near(p->tally.uring.number, p->tally.wa.number, 1e-9);
                near(p->command_most, p->groups[REPORT_COMMAND] + p->groups[REPORT_REST], 1e-9); /* nobody noted its group's time */
                near(p->rest_least, 0, 1e-9);
        }
        near(report->phases[3].tally.busiest, 99.0, 0.2);
        near(report->phases[3].others_least, 73.9, 1.1);
        report_close(report);
}

static void test_results(void **arg)
{
        static const double sums[] = {91166.02, 165092.71, 248136.60, 359244.69}; /* added up by hand from what the clients printed */
        struct report *report = open_with(&(struct report_options){0});
        const struct report_phase *serial = &report->phases[4];

        (void)arg;
        for (size_t i = 0; i < 4; i++) {
                const struct report_result *r = &report->phases[i].results[report->phases[i].primary];
                near(r->sum.value, sums[i], 0.005);
                assert_int_equal(r->count, report_log_clients[i]);
                assert_int_equal(r->waves, 1);
                assert_string_equal(r->how, r->count > 1 ? "processes" : "");
        }
        near(report->phases[1].growth, (165092.71 / 91166.02 - 1) * 100, 1e-6);
        assert_true(isnan(report->phases[0].growth));
        near(report->phases[0].per_core, 91166.02 / (report->phases[0].load / 100), 1e-6);
        const struct report_result *p50 = &report->phases[1].results[report->phases[1].latency];
        assert_true(isnan(p50->sum.value));
        near(p50->sum.least, 0.479, 1e-9);
        near(p50->sum.largest, 0.487, 1e-9);
        /* One after another: the mean, not the sum. */
        assert_int_equal(serial->results[serial->primary].waves, 2);
        near(primary(report, 4), (84238.90 + 80853.81) / 2, 0.005);
        /* The second round of a name. */
        assert_string_equal(report->phases[5].title, "bench_01#2");
        assert_string_equal(report->phases[6].title, "bench_02#2");
        assert_int_equal(report->rounds, 2);
        assert_true(isnan(report->phases[5].growth));
        near(report->phases[6].growth, (165092.71 / 91166.02 - 1) * 100, 1e-6);
        assert_string_equal(report->primary_head, "SET r/s");
        assert_int_equal(report->sources[0].found, report->sources[0].placed);
        assert_int_equal(report->warnings.count, 0);
        report_close(report);
}

static void test_ramps(void **arg)
{
        struct report *cut = open_with(&(struct report_options){0}), *whole = open_with(&(struct report_options){.whole = true});
        struct report *trim = open_with(&(struct report_options){.trim = true, .trim_ns = {2 * SECOND, 0}});
        const struct report_phase *p = &cut->phases[3];

        (void)arg;
        near(report_seconds(&p->full), 10.1, 1e-6);
        assert_int_equal(p->samples.count, 10);
        assert_int_equal(p->samples.used_from, 1);
        assert_int_equal(p->samples.used_to, 9);
        near(p->cut_before, 0.9, 1e-6);
        near(p->cut_after, 1.2, 1e-6);
        near(report_seconds(&p->used), 8, 1e-6);
        assert_true(p->state != p->whole);
        near(whole->phases[3].cut_before, 0, 0);
        near(report_seconds(&whole->phases[3].used), 10.1, 1e-6);
        assert_true(whole->phases[3].load < p->load - 30);
        assert_true(whole->phases[3].state == whole->phases[3].whole);
        near(trim->phases[3].cut_before, 2.9, 1e-6); /* the first frame at 2 s or later */
        near(trim->phases[3].cut_after, 0, 0);
        report_close(cut);
        report_close(whole);
        report_close(trim);
}

/* fio's line is of the whole phase, whatever was cut. */
static void test_fio(void **arg)
{
        struct report *report = open_with(&(struct report_options){0});
        struct table table;

        (void)arg;
        table_init(&table, false);
        assert_int_equal(report_table(report, &report->phases[3], REPORT_TABLE_FIO, REPORT_TEXT, 80, &table), 0);
        assert_int_equal(table.rows, 1);
        const struct table_cell *cells = table.cells;
        assert_memory_equal(cells[1].value.text, "1900/0",
                            6); /* 2 a full second of 100 reads: 900/500 is 1, 9 times 2, and none in 200 ms */
        assert_memory_equal(cells[2].value.text, "190/0", 5);
        assert_memory_equal(cells[3].value.text, "950/0", 5);
        near(cells[5].value.number, 19 * 250 / 10.1 / 10, 1e-6);
        table_fini(&table);
        report_close(report);
}

static void test_tasks(void **arg)
{
        struct report *report = open_with(&(struct report_options){0});
        const struct report_phase *p = &report->phases[2];

        (void)arg;
        assert_int_equal(p->task_count, 2);
        assert_int_equal(p->tasks[0].group, REPORT_WATCHED);
        assert_string_equal(p->tasks[0].name, "drag|on\033");
        near(p->tasks[0].usr, 71, 0.01);
        near(p->tasks[0].system, 132, 0.01);
        assert_string_equal(p->tasks[0].cores, "0-1");
        assert_int_equal(p->tasks[1].processes, 4);
        near(p->tasks[1].cpu, 40, 0.01);
        assert_string_equal(p->tasks[1].cores, "0-3");
        report_close(report);
}

static void test_choice(void **arg)
{
        struct report *report = open_with(&(struct report_options){.phase = "bench_01#2"});
        char why[512];

        (void)arg;
        assert_int_equal(report->phase_count, 1);
        near(primary(report, 0), 91166.02, 0.005);
        assert_int_equal(report->phases[0].results[report->phases[0].primary].count, 1); /* none of the phases around it */
        report_close(report);
        report = open_with(&(struct report_options){.phase = "bench_02"});
        assert_int_equal(report->phase_count, 2); /* both rounds */
        report_close(report);
        report = open_with(&(struct report_options){.from = "bench_02", .to = "bench_04"});
        assert_int_equal(report->phase_count, 1);
        near(report_seconds(&report->phases[0].full), 20.3, 1e-6); /* with the 0.1 s between the two */
        report_close(report);
        assert_int_equal(report_open(path, &(struct report_options){.phase = "nothing"}, &report, why, sizeof why), -EINVAL);
        assert_non_null(strstr(why, "bench_04"));
        assert_int_equal(report_open("/nonexistent", &(struct report_options){0}, &report, why, sizeof why), -ENOENT);
}

/* A machine that sleeps in the middle of a phase: the numbers are of the longer part, samples are there of both; and what --watch PID and
 * --phase COMMAND are called. */
static void test_suspend(void **arg)
{
        static struct report_log log;
        struct report *report, *whole;
        char other[160], why[512];

        (void)arg;
        snprintf(other, sizeof other, "%s/b.log", folder);
        report_log_begin(&log, other);
        report_log_note(&log, "watch", "100\n4242\nnone\n");
        uint64_t from = log.sequence;
        report_log_frame(&log, 3, 100, 0, "slept");
        for (int i = 0; i < 4; i++)
                report_log_frame(&log, 3, 1000, 50, NULL);
        log.s.boot += UINT64_C(60000000000);
        log.s.gap = GAP_SUSPEND;
        report_log_frame(&log, 3, 1000, 100, NULL);
        log.s.gap = GAP_NONE;
        for (int i = 0; i < 8; i++)
                report_log_frame(&log, 3, 1000, 100, NULL);
        report_log_frame(&log, 3, 100, 100, "end");
        log.runs_length = (size_t)snprintf(log.runs, sizeof log.runs, "%llu %llu 1 0 %llu %llu 1 1 the command\n", (unsigned long long)from,
                                           (unsigned long long)log.sequence, (unsigned long long)1, (unsigned long long)log.s.mono);
        report_log_end(&log);
        int r = report_open(other, &(struct report_options){0}, &report, why, sizeof why);
        int r2 = report_open(other, &(struct report_options){.phase = "the command"}, &whole, why, sizeof why);
        unlink(other);
        assert_int_equal(r, 0);
        assert_int_equal(r2, 0);
        assert_int_equal(report->phase_count, 1);
        const struct report_phase *phase = &report->phases[0];
        assert_true(phase->valid);
        assert_int_equal(phase->gaps.suspends, 1);
        near(report_seconds(&phase->used), 8.1, 1e-6);
        assert_int_equal(phase->samples.count, 12);
        assert_int_equal(phase->samples.used_from, 4);
        near(phase->load, primary_load(3), 0.5);
        near((double)report_total(&phase->samples, 0)[REPORT_LOAD], primary_load(3) / 2, 0.5);
        assert_non_null(strstr(report->warnings.lines[0], "longest part, 8.1 of 73.1 s"));
        assert_string_equal(report->watch, "drag|on\033(100) 4242 none");
        assert_int_equal(whole->phase_count, 1);
        assert_string_equal(whole->phases[0].title, "the command");
        assert_true(whole->phases[0].ran);
        report_close(report);
        report_close(whole);
}

/* ---- output made elsewhere ------------------------------------------------------------------------------------------------------ */

static struct report *join(const char *text, const struct report_options *given, char *file, size_t size)
{
        struct report_options options = *given;

        snprintf(file, size, "%s/client.log", folder);
        FILE *f = fopen(file, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
        options.join[0] = file;
        options.join_count = 1;
        struct report *report = open_with(&options);
        unlink(file);
        return report;
}

/* The joined result of a phase: the recording's own are there too. */
static const struct report_result *joined_of(const struct report_phase *phase)
{
        for (size_t i = 0; i < phase->result_count; i++)
                if (phase->results[i].source == 1)
                        return &phase->results[i];
        return NULL;
}

static void test_join_marks(void **arg)
{
        char file[128];
        struct report *report = join("SET: 1.00 requests per second\n== bench_01 ==\nSET: 10.00 requests per second\nbench_02:\n"
                                     "SET: 20.00 requests per second\nSET: 21.00 requests per second\n"
                                     "bench_01\nSET: 30.00 requests per second\nend\nSET: 40.00 requests per second\n",
                                             &(struct report_options){0}, file, sizeof file);

        (void)arg;
        assert_true(report->sources[1].by_marks);
        assert_false(report->sources[1].offset_known);
        assert_int_equal(report->sources[1].marks, 3);
        assert_int_equal(report->sources[1].found, 6);
        assert_int_equal(report->sources[1].placed, 4);
        near(joined_of(&report->phases[0])->sum.value, 10, 0);
        near(joined_of(&report->phases[1])->sum.value, 41, 0);
        near(joined_of(&report->phases[5])->sum.value, 30, 0);
        assert_null(joined_of(&report->phases[2]));
        assert_int_equal(report->warnings.count, 1); /* two results before and after all marks */
        report_close(report);
}

static void stamp_text(char *out, size_t size, uint64_t real_ns, double shift)
{
        double t = (double)(real_ns / 1000000) / 1e3 + shift;

        snprintf(out, size, "%.3f", t);
}

static void test_join_times(void **arg)
{
        struct report *plain = open_with(&(struct report_options){0});
        char file[128], text[1024], a[32], b[32], c[32];
        const struct report_span *first = &plain->phases[0].full, *second = &plain->phases[1].full;

        (void)arg;
        /* Their clock is 2.5 s behind; marks tell. */
        stamp_text(a, sizeof a, first->from_real_ns, -2.5);
        stamp_text(b, sizeof b, second->from_real_ns, -2.502);
        stamp_text(c, sizeof c, second->to_real_ns, -2.6);
        snprintf(text, sizeof text, "%s == bench_01 ==\n%s == bench_02 ==\n%s SET: 77.00 requests per second, p50=0.5 msec\n", a, b, c);
        struct report *report = join(text, &(struct report_options){0}, file, sizeof file);
        assert_true(report->sources[1].offset_known);
        near(report->sources[1].offset, 2.501, 0.0015);
        near(report->sources[1].offset_spread, 0.001, 0.0015);
        near(joined_of(&report->phases[1])->sum.value, 77, 0);
        report_close(report);
        /* No marks: by time, with the offset that is given, or none. */
        snprintf(text, sizeof text, "%s SET: 77.00 requests per second, p50=0.5 msec\n", c);
        report = join(text, &(struct report_options){.offset_given = true, .offset = 2.5}, file, sizeof file);
        near(joined_of(&report->phases[1])->sum.value, 77, 0);
        report_close(report);
        report = join(text, &(struct report_options){.offset_given = true, .offset = 3000}, file, sizeof file);
        assert_null(joined_of(&report->phases[1]));
        assert_int_equal(report->sources[1].placed, 0);
        report_close(report);
        report_close(plain);
}

/* ---- sentences and formats ------------------------------------------------------------------------------------------------------ */

static void test_sentences(void **arg)
{
        struct report *report = open_with(&(struct report_options){0});
        struct report_lines lines = {0};

        (void)arg;
        report->phase_count = 4;
        assert_int_equal(report_say(report, &lines), 0);
        assert_int_equal(lines.count, 3);
        assert_string_equal(lines.lines[0], "best bench_08: SET 359,245 r/s.");
        assert_string_equal(lines.lines[1], "In bench_08 cpu2 is full (99%), the others at 75-79%.");
        assert_non_null(strstr(lines.lines[2], "is uring in every phase: not a disk, not load."));
        report_lines_free(&lines);
        report->phase_count = 7;
        report_close(report);
}

static char *written(const struct report *report, enum report_format format, const struct report_shape *shape)
{
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        int r = format == REPORT_CSV ? report_csv(report, shape, out) : format == REPORT_JSON ? report_json(report, shape, out)
                : report_text(report, format, shape, out);
        assert_int_equal(r, 0);
        fclose(out);
        return text;
}

static void test_text(void **arg)
{
        static const char phases[] =
                "phase      SET r/s growth  SET p50 ms us+sy hi+si  load of 800%  hottest\n"
                "bench_01    91,166      -       0.447 211.0  98.2 309.2     39% cpu2 63%\n"
                "bench_02   165,093 +81.1% 0.479-0.487 317.4 149.4 466.7     58% cpu2 84%\n"
                "bench_04   248,137 +50.3% 0.591-0.607 360.5 176.0 536.4     67% cpu2 92%\n"
                "bench_08   359,245 +44.8% 0.863-0.879 435.5 203.9 639.4     80% cpu2 99%\n";
        struct report *report = open_with(&(struct report_options){0});
        char *text = written(report, REPORT_TEXT, &(struct report_shape){.width = 80, .only = -1});

        (void)arg;
        if (!strstr(text, phases))
                print_message("%.1500s\n", text);
        assert_non_null(strstr(text, phases));
        assert_non_null(strstr(text, "bench_08  8.0 s of 10.1 s (cut: 0.9 s at its start, 1.2 s at its end)"));
        assert_non_null(strstr(text, "drag|on\\x1b"));
        assert_null(strchr(text, '\033'));
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
                if (strlen(line) > 80)
                        print_message("%s\n", line);
                assert_true(strlen(line) <= 80);
        }
        free(text);
        text = written(report, REPORT_MARKDOWN, &(struct report_shape){.only = -1, .spread = true, .verbose = true});
        assert_non_null(strstr(text, "| drag\\|on\\\\x1b |"));
        assert_null(strchr(text, '\033'));
        free(text);
        report_close(report);
}

static void test_csv(void **arg)
{
        struct report *report = open_with(&(struct report_options){0});
        char *text = written(report, REPORT_CSV, &(struct report_shape){.only = -1});

        (void)arg;
        assert_int_equal(strncmp(text, "phase,round,seconds,", 20), 0);
        assert_non_null(strstr(text, "\nbench_01,2,8,0.9,1.2,SET,r/s,91166.02,,"));
        free(text);
        text = written(report, REPORT_CSV, &(struct report_shape){.only = REPORT_TABLE_CORES});
        assert_int_equal(strncmp(text, "phase,round,cpu,us,sy,ni,id,wa,", 31), 0);
        size_t rows = 0;
        for (char *c = text; (c = strchr(c, '\n')); c++)
                rows++;
        assert_int_equal(rows, 1 + 7 * 9);
        free(text);
        report_close(report);
}

static void test_json(void **arg)
{
        static const char *const keys[] = {"results", "cores", "load", "tasks", "devices", "sar_old", "disk_stats", "spread", "lines"};
        struct report *report = open_with(&(struct report_options){0});
        char *text = written(report, REPORT_JSON, &(struct report_shape){.only = -1, .spread = true});
        struct json_object *root = json_tokener_parse(text), *details, *phase, *tables;

        (void)arg;
        assert_non_null(root);
        assert_true(json_object_object_get_ex(root, "details", &details));
        assert_int_equal(json_object_array_length(details), 7);
        phase = json_object_array_get_idx(details, 1);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                assert_true(json_object_object_get_ex(phase, keys[i], &tables));
                assert_true(json_object_array_length(tables) > 0);
        }
        json_object_put(root);
        free(text);
        report_close(report);
}

/* The smallest value that p of all are not above; nothing between two samples is made up. */
static void test_spread(void **arg)
{
        float values[201];

        (void)arg;
        for (int i = 0; i < 100; i++)
                values[2 * i] = (float)((i * 37) % 100 + 1);
        struct report_spread s = report_spread_of(values, 100, 2);
        near(s.median, 50, 0);
        near(s.p95, 95, 0);
        near(s.p99, 99, 0);
        near(s.max, 100, 0);
        values[0] = NAN;
        assert_int_equal(report_spread_of(values, 100, 2).count, 99);
        s = report_spread_of(values, 1, 2);
        assert_int_equal(s.count, 0);
        assert_true(isnan(s.median));
        s = report_spread_of(values + 2, 1, 2);
        near(s.p99, (double)values[2], 0);
}

static void test_numbers(void **arg)
{
        static const struct { double value; const char *text; } cases[] = {
                {91166.02, "91,166"}, {1234567.5, "1,234,568"}, {999.6, "1,000"}, {999.4, "999.4"}, {0.447, "0.447"}, {12.345, "12.35"},
                        {0, "0"}, {-1234.0, "-1,234"},
                {-123.4, "-123.4"}, {NAN, "-"}, {INFINITY, "-"}, {9.9996, "10.00"},
        };
        char text[64];

        (void)arg;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                assert_string_equal(report_number(text, sizeof text, cases[i].value), cases[i].text);
}

/* ---- a log of its own for each -------------------------------------------------------------------------------------------------- */

static struct report_log other;
static char other_path[4200];

static void begin_other(void)
{
        snprintf(other_path, sizeof other_path, "%s/b.log", folder);
        report_log_begin(&other, other_path);
}

static struct report *end_other(void)
{
        struct report *report = NULL;
        char why[512];

        report_log_end(&other);
        assert_int_equal(report_open(other_path, &(struct report_options){.whole = true}, &report, why, sizeof why), 0);
        unlink(other_path);
        return report;
}

/* The group used half a core; its processes that samples met, a tenth. */
static void test_short_lived(void **arg)
{
        char note[128];
        const struct report_task *unseen = NULL;

        (void)arg;
        begin_other();
        uint64_t from = other.s.mono;
        report_log_phase(&other, 3, "short", true);
        uint64_t to = other.s.mono;
        snprintf(note, sizeof note, "%llu 0\n%llu %llu\nnonsense\n%llu 0\n", (unsigned long long)from, (unsigned long long)to,
                 (unsigned long long)(to - from) / 2, (unsigned long long)to + 5);
        report_log_note(&other, "command.cpu.0", note);
        struct report *report = end_other();
        const struct report_phase *p = &report->phases[0];
        near(p->groups[REPORT_COMMAND], 50, 0.1);
        near(p->command_most, 50, 0.1);
        near(p->rest_least, p->groups[REPORT_REST], 1e-9);
        for (size_t i = 0; i < p->task_count; i++)
                if (strcmp(p->tasks[i].name, "(ended between samples)") == 0)
                        unseen = &p->tasks[i];
        assert_non_null(unseen);
        assert_true(unseen->cpu > 35 && unseen->cpu < 50 && unseen->group == REPORT_COMMAND);
        report_close(report);
}

/* Two runs one after another, each of which prints the result of two jobs. processes: whether samples met them. */
static void two_waves(bool processes)
{
        begin_other();
        report_log_frame(&other, 0, 100, 0, "jobs");
        for (unsigned wave = 0; wave < 2; wave++) {
                other.clients = processes;
                report_log_client(&other, 0, 10000000);
                for (unsigned tick = 0; tick < 3; tick++)
                        report_log_frame(&other, 0, 1000, 100, NULL);
                report_log_result(&other, 20000 - 8000 * wave, 0.5);
                report_log_result(&other, 20200 - 8800 * wave, 0.5);
                other.next_pid++;
        }
        other.clients = 0;
        report_log_frame(&other, 0, 200, 0, "end");
        struct report *report = end_other();
        const struct report_result *result = &report->phases[0].results[report->phases[0].primary];
        assert_int_equal(result->count, 4);
        assert_int_equal(result->waves, 2);
        assert_string_equal(result->how, processes ? "processes" : "arrival");
        near(result->sum.value, (20000 + 20200 + 12000 + 11400) / 2.0, 1e-6);
        report_close(report);
}

static void test_two_waves(void **arg)
{
        (void)arg;
        two_waves(true);
        two_waves(false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_loads), cmocka_unit_test(test_results), cmocka_unit_test(test_ramps), cmocka_unit_test(test_fio),
                        cmocka_unit_test(test_tasks),
                cmocka_unit_test(test_suspend), cmocka_unit_test(test_choice),
                cmocka_unit_test(test_join_marks), cmocka_unit_test(test_join_times),
                        cmocka_unit_test(test_short_lived), cmocka_unit_test(test_two_waves),
                cmocka_unit_test(test_sentences), cmocka_unit_test(test_text),
                cmocka_unit_test(test_csv), cmocka_unit_test(test_json), cmocka_unit_test(test_spread), cmocka_unit_test(test_numbers),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}

/*
 * Block latency stages of recorded traces against btt's own output for them, and where btt is wrong, why. The cases of single requests and
 * the model are in test_stage_cases.c.
 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/stage_btt.h"
#include "tui/blk_read.h"

struct run {
        struct stage_set *set;
        struct btt *btt;
        struct blk_damage damage;
};

static const char *data(const char *name)
{
        static char paths[4][512];
        static unsigned next;
        char *path = paths[next++ % 4];
        const char *source = getenv("WATOP_SOURCE");

        snprintf(path, sizeof paths[0], "%s/tests/data/%s", source ? source : ".", name);
        return path;
}

static struct run run_files(const char *const *paths, size_t count)
{
        struct run run = {0};
        struct blk_trace *trace;
        struct blk_record record;
        char why[256];
        int r;

        assert_int_equal(stage_new(NULL, &run.set), 0);
        assert_int_equal(btt_new(&run.btt), 0);
        if (blk_open(paths, count, &trace, why, sizeof why) < 0)
                fail_msg("%s", why);
        while ((r = blk_next(trace, &record)) == 1) {
                assert_int_equal(stage_event(run.set, &record.event), 0);
                assert_int_equal(btt_event(run.btt, &record.event), 0);
        }
        assert_int_equal(r, 0);
        stage_finish(run.set);
        run.damage = *blk_get_damage(trace);
        blk_close(trace);
        return run;
}

static struct run run_pair(const char *name)
{
        char zero[32], one[32];

        snprintf(zero, sizeof zero, "%s.blktrace.0.gz", name);
        snprintf(one, sizeof one, "%s.blktrace.1.gz", name);
        return run_files((const char *const[]){data(one), data(zero)}, 2); /* the order of files does not matter */
}

static struct run run_one(const char *name)
{
        return run_files((const char *const[]){data(name)}, 1);
}

static void run_end(struct run *run)
{
        stage_free(run->set);
        btt_free(run->btt);
}

/* Rows of a device added up; pid 0 = all; flushes are left out, as btt knows none. */
static struct stage_sum *sum_of(const struct run *run, uint32_t device, uint32_t pid, bool flushes)
{
        static struct stage_sum sum;

        memset(&sum, 0, sizeof sum);
        for (size_t i = 0; i < stage_rows(run->set); i++) {
                const struct stage_row *row = stage_get_row(run->set, i);
                if (row->device == device && (pid == 0 || row->process->pid == pid) && (row->direction == STAGE_FLUSHES) == flushes)
                        stage_add(&sum, row);
        }
        return &sum;
}

/* ---- btt's output ------------------------------------------------------------------------------------------------------------------- */

struct line { char min[24], avg[24], max[24]; uint64_t n; };

/* "Q2G   0.000000878   0.000006473   0.000056123   2399"; in btt -A's output the head names the column and rows begin "pid000012069". */
static bool avg_line(const char *file, const char *column, uint32_t pid, struct line *line)
{
        FILE *stream = fopen(data(file), "r");
        char text[256], word[64], wanted[32];
        bool inside = false, found = false;

        assert_non_null(stream);
        snprintf(wanted, sizeof wanted, "pid%09" PRIu32, pid);
        while (!found && fgets(text, sizeof text, stream)) {
                int n = sscanf(text, "%63s %23s %23s %23s %" SCNu64, word, line->min, line->avg, line->max, &line->n);
                if (pid == 0) {
                        found = n == 5 && (strcmp(word, column) == 0 || (strncmp(word, column, 3) == 0 && strcmp(word + 3, "dm") == 0));
                } else if (n >= 2 && strcmp(line->min, "MIN") == 0) {
                        inside = strcmp(word, column) == 0;
                } else {
                        found = inside && n == 5 && strcmp(word, wanted) == 0;
                }
        }
        fclose(stream);
        return found;
}

static void is_line(const struct line *line, uint64_t min, uint64_t total, uint64_t max, uint64_t n, const char *what)
{
        char text[96], wanted[96];

        snprintf(text, sizeof text, "%.9f %.9f %.9f %" PRIu64, (double)min / 1e9, (double)total / (double)n / 1e9, (double)max / 1e9, n);
        snprintf(wanted, sizeof wanted, "%s %s %s %" PRIu64, line->min, line->avg, line->max, line->n);
        if (strcmp(text, wanted) != 0)
                fail_msg("%s: %s, btt says %s", what, text, wanted);
}

static void is_histogram(const struct line *line, const struct histogram *histogram, const char *what)
{
        is_line(line, histogram->min, histogram->total, histogram->max, histogram->count, what);
}

/* btt's rules give btt's digits: all columns of all, of each device, of each process. */
static void btt_mode(void **state)
{
        static const char *const names[] = {"L", "V"};
        int compared = 0;

        (void)state;
        for (int t = 0; t < 2; t++) {
                struct run run = run_pair(names[t]);
                char avg[32], each[32];
                snprintf(avg, sizeof avg, "%s.btt.avg", names[t]);
                snprintf(each, sizeof each, "%s.btt-A.avg", names[t]);
                for (size_t i = 0; i < btt_rows(run.btt); i++) {
                        const struct btt_row *row = btt_get_row(run.btt, i);
                        for (int c = 0; c < BTT_COLUMNS; c++) {
                                const struct btt_cell *cell = &row->cells[c];
                                struct line line;
                                /* btt -A counts a process's Q2Q between its own Qs, which is no latency: left out. */
                                if (cell->count == 0 || row->device != UINT32_MAX || (i > 0 && c == BTT_Q2Q))
                                        continue;
                                if (!avg_line(i == 0 ? avg : each, btt_name((enum btt_column)c), i == 0 ? 0 : row->pid, &line)) {
                                        /* M2D is not in btt -A; V's device is taken for dm, so its processes have no Q2C */
                                        assert_true(i > 0 && (c == BTT_M2D || (t == 1 && c == BTT_Q2C)));
                                        continue;
                                }
                                is_line(&line, cell->min, cell->total, cell->max, cell->count, btt_name((enum btt_column)c));
                                compared++;
                        }
                }
                run_end(&run);
        }
        assert_true(compared >= 50);
}

/* ---- ours --------------------------------------------------------------------------------------------------------------------------- */

static void same_as_btt(const struct run *run, const char *file, uint32_t device, uint32_t pid, enum stage stage)
{
        struct line line;
        char what[64];
        const struct stage_sum *sum = sum_of(run, device, pid, false);

        snprintf(what, sizeof what, "%s of %s, pid %" PRIu32, stage_name(stage), file, pid);
        if (!avg_line(file, stage_name(stage), pid, &line)) {
                if (sum->bio[stage].count != 0)
                        fail_msg("%s: btt has none, we have %" PRIu64, what, sum->bio[stage].count);
                return;
        }
        is_histogram(&line, &sum->bio[stage], what);
}

static void adds_up(const struct stage_sum *sum)
{
        uint64_t stages = 0, causes = 0;

        for (int i = 0; i < STAGE_Q2C; i++)
                stages += sum->path[i];
        for (int i = 0; i < CAUSE_COUNT; i++)
                causes += sum->cause[i];
        assert_int_equal(stages, sum->path[STAGE_Q2C]);
        assert_int_equal(causes, sum->path[STAGE_Q2C]);
        assert_int_equal(sum->bio[STAGE_Q2C].total, sum->path[STAGE_Q2C]);
}

static void nothing_left(const struct run *run)
{
        const struct stage_counts *counts = stage_get_counts(run->set);

        for (int i = 0; i < STAGE_ACTIONS; i++)
                assert_int_equal(counts->unmatched[i], 0);
        assert_int_equal(counts->backwards, 0);
        for (size_t i = 0; i < stage_devices(run->set); i++) {
                assert_int_equal(stage_get_device(run->set, i)->bios, 0);
                assert_int_equal(stage_get_device(run->set, i)->requests, 0);
        }
}

/* L: everything that btt gets right is the same to the digit. */
static void trace_l(void **state)
{
        const uint32_t device = 7 << 20, plain[] = {12069, 12070, 12071, 12072}; /* whose bios were not split */
        struct run run = run_pair("L");
        const struct stage_sum *sum;
        struct line line;

        (void)state;
        assert_int_equal(run.damage.events, 21700);
        nothing_left(&run);
        for (size_t p = 0; p < 4; p++)
                for (int stage = 0; stage <= STAGE_Q2C; stage++)
                        if (stage != STAGE_M2D) /* not in btt -A */
                                same_as_btt(&run, "L.btt-A.avg", device, plain[p], (enum stage)stage);
        same_as_btt(&run, "L.btt.avg", device, 0, STAGE_Q2G);
        same_as_btt(&run, "L.btt.avg", device, 0, STAGE_Q2M);
        same_as_btt(&run, "L.btt.avg", device, 0, STAGE_M2D);

        /* Splits. btt keeps one Q, which is larger than either request: it is never "inside" of a D or C, and is lost for I2D, D2C and Q2C,
         * although these are the slowest. 80 bios, 160 parts: */
        sum = sum_of(&run, device, 0, false);
        assert_int_equal(sum->splits, 80);
        assert_true(avg_line("L.btt.avg", "I2D", 0, &line) && sum->bio[STAGE_I2D].count == line.n + 160);
        assert_true(avg_line("L.btt.avg", "D2C", 0, &line) && sum->bio[STAGE_D2C].count == line.n + 160);
        assert_true(avg_line("L.btt.avg", "Q2C", 0, &line) && sum->bio[STAGE_Q2C].count == line.n + 80);
        /* ... and the second part's G overwrites the first one's, so G2I is too short: in the trace the first split read has
         * X 1833698, G 1836159, G 1841369, I 1843418: its G2I is 7259 ns, not the 2049 ns from the other part's G. */
        assert_true(avg_line("L.btt.avg", "G2I", 0, &line) && sum->bio[STAGE_G2I].count == line.n);
        assert_true(histogram_mean(&sum->bio[STAGE_G2I]) > strtod(line.avg, NULL) * 1e9);

        /* Shares: btt's row adds up to 64%, since M2D and what splits hide is in no column. */
        adds_up(sum);
        /* Bios and requests fit: every bio but the merged ones made a request, split ones two. */
        assert_int_equal(sum->bios, 4680);
        assert_int_equal(sum->requests, 4680 - sum->merged + sum->splits);
        /* Flushes by themselves: btt drops events without sectors. */
        sum = sum_of(&run, device, 0, true);
        assert_int_equal(sum->bios, 37);
        assert_int_equal(sum->bio[STAGE_FLUSH].count, 37);
        adds_up(sum);
        run_end(&run);
}

/* V: major 254 is a virtio disk here; btt takes it for a device mapper and prints no overhead. */
static void trace_v(void **state)
{
        const uint32_t device = 254 << 20;
        struct run run = run_pair("V");

        (void)state;
        nothing_left(&run);
        for (int stage = 0; stage <= STAGE_Q2C; stage++)
                same_as_btt(&run, "V.btt.avg", device, 0, (enum stage)stage);
        const struct stage_sum *sum = sum_of(&run, device, 0, false);
        adds_up(sum);
        assert_true((double)sum->path[STAGE_D2C] > 0.8 * (double)sum->path[STAGE_Q2C]);
        run_end(&run);
}

/* The text of tracepoints of the same run, recorded beside it: the same counts, means within a microsecond (its resolution, and the order
 * of two probes at one tracepoint). */
static void tracepoints(void **state)
{
        struct run binary = run_pair("L"), text = run_one("L.ftrace.gz");
        static struct stage_sum first;

        (void)state;
        nothing_left(&text);
        first = *sum_of(&binary, 7 << 20, 0, false);
        const struct stage_sum *second = sum_of(&text, 7 << 20, 0, false);
        for (int stage = 0; stage < STAGE_COUNT; stage++) {
                assert_int_equal(first.bio[stage].count, second->bio[stage].count);
                assert_int_equal(first.request[stage].count, second->request[stage].count);
                assert_true(fabs(histogram_mean(&first.bio[stage]) - histogram_mean(&second->bio[stage])) < 1000);
        }
        assert_int_equal(first.sectors, second->sectors);
        assert_int_equal(stage_devices(text.set), 2); /* and the disk below it */
        adds_up(second);
        run_end(&binary);
        run_end(&text);
}

/* A journal's commit: the cache flushed before and after it. It is the flush's time, not the queue's nor the disk's. */
static void flush_sequences(void **state)
{
        struct run run = run_one("fsync.ftrace.gz");

        (void)state;
        nothing_left(&run);
        const struct stage_sum *sum = sum_of(&run, 7 << 20, 0, false);
        adds_up(sum);
        assert_int_equal(sum->bios, 94);
        assert_int_equal(sum->bio[STAGE_FLUSH].count, 13); /* commits; each has a flush before and one after */
        assert_int_equal(stage_get_device(run.set, 0)->flushes, 26);
        assert_true((double)sum->cause[CAUSE_FLUSH] > 0.8 * (double)sum->path[STAGE_Q2C]);
        run_end(&run);
}

static void no_scheduler(void **state)
{
        struct run run = run_one("none.ftrace.gz");

        (void)state;
        nothing_left(&run);
        const struct stage_sum *sum = sum_of(&run, 7 << 20, 0, false);
        adds_up(sum); /* btt has no column for G to D */
        assert_true(sum->bio[STAGE_G2D].count > 300 && sum->bio[STAGE_I2D].count < 10);
        run_end(&run);
}

static void without_requests(void **state)
{
        struct run run = run_one("zram.ftrace.gz");

        (void)state;
        nothing_left(&run);
        const struct stage_sum *sum = sum_of(&run, 253 << 20 | 1, 0, false);
        assert_int_equal(sum->bio[STAGE_BIO].count, 20);
        assert_int_equal(sum->cause[CAUSE_DRIVER], sum->path[STAGE_Q2C]);
        run_end(&run);
}

/* The victim's own requests decide: the device's average says disk, its fsync waited for a tag. */
static void victim(void **state)
{
        struct run run = run_one("tag.ftrace.gz");

        (void)state;
        const struct stage_sum *sum = sum_of(&run, 7 << 20 | 1, 0, false);
        assert_true((double)sum->cause[CAUSE_DISK] > 0.6 * (double)sum->path[STAGE_Q2C]);
        sum = sum_of(&run, 7 << 20 | 1, 27708, false);
        assert_true((double)sum->cause[CAUSE_TAG] > 0.9 * (double)sum->path[STAGE_Q2C]);
        run_end(&run);
}

/* Several threads at one place, merges of requests, a beginning in the middle: at most 1 in 1,000 bios is not followed to its end. */
static void crowd(void **state)
{
        struct run run = run_one("queue.ftrace.gz");
        uint64_t old = 0;

        (void)state;
        const struct stage_sum *sum = sum_of(&run, 7 << 20 | 1, 0, false);
        adds_up(sum);
        assert_true(sum->bios > 7000 && sum->merged > 1500);
        /* 384 is what three jobs of 128 have open; the rest was queued while the tracepoints were switched on one by one. */
        uint64_t open = stage_get_device(run.set, 0)->bios;
        old = open > 384 ? open - 384 : 0;
        assert_true(old <= 20);
        assert_true(sum->bio[STAGE_OTHER].count + sum->bio[STAGE_BIO].count < 40);
        run_end(&run);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(btt_mode), cmocka_unit_test(trace_l), cmocka_unit_test(trace_v), cmocka_unit_test(tracepoints),
                cmocka_unit_test(flush_sequences), cmocka_unit_test(no_scheduler), cmocka_unit_test(without_requests),
                        cmocka_unit_test(victim),
                cmocka_unit_test(crowd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Block latency from synthetic frames: counts, means, shares, percentiles, largest, who waited, over one tick and many; rows that come, go
 * and begin anew; the past of the heat map; and the view on a canvas of every size.
 *
 * Percentiles are held against the durations themselves, sorted: within 5%, as sample/histogram.h promises.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/view.h"

#define SECOND UINT64_C(1000000000)
enum { MOST_SUMS = 64, MOST_DURATIONS = 20000, SDA = 8 << 20, SDB = (8 << 20) + 16 };

/* What a daemon counts for one row; its durations too, to be sorted here. */
struct sum {
        uint64_t id, since_ns, count, total, path, longest, part[SYNC_PARTS];
        enum scope scope;
        uint32_t device, pid;
        uint8_t direction, what;
        const char *name;
        uint64_t counts[LATENCY_OCTAVES][HISTOGRAM_STEPS], octave_since[LATENCY_OCTAVES];
        bool dropped;
};

struct machine {
        struct sample *sample;
        struct state *state;
        struct sum sums[MOST_SUMS];
        size_t sum_count;
        unsigned step;
        bool off;                      /* the scopes are not sampled */
        uint64_t lost;
        struct latency latency;
};

static uint64_t now_of(const struct machine *m)
{
        return (1000 + m->step) * SECOND;
}

static struct sum *sum_of(struct machine *m, enum scope scope, uint32_t device, uint32_t pid, uint8_t direction, uint8_t what)
{
        for (size_t i = 0; i < m->sum_count; i++) {
                struct sum *s = &m->sums[i];
                if (s->scope == scope && s->device == device && s->pid == pid && s->direction == direction && s->what == what &&
                                !s->dropped)
                        return s;
        }
        assert_true(m->sum_count < MOST_SUMS);
        struct sum *s = &m->sums[m->sum_count++];
        *s = (struct sum){.id = m->sum_count * 1000003, .scope = scope, .device = device, .pid = pid, .direction = direction, .what = what,
                .since_ns = now_of(m) + SECOND / 2, .name = "worker"};
        return s;
}

static void count(struct machine *m, struct sum *s, uint64_t ns, bool whole)
{
        unsigned bucket = histogram_bucket(ns), octave = bucket / HISTOGRAM_STEPS;

        s->count++;
        s->total += ns;
        s->path += whole ? ns : 0;
        s->longest = ns > s->longest ? ns : s->longest;
        if (!s->octave_since[octave])
                s->octave_since[octave] = now_of(m) + SECOND / 2;
        s->counts[octave][bucket % HISTOGRAM_STEPS]++;
}

/* A bio that waited in the queue, then for the disk. */
static void bio(struct machine *m, uint32_t device, uint8_t direction, uint32_t pid, uint64_t queue, uint64_t disk)
{
        struct sum *who = sum_of(m, SCOPE_BIO, device, pid, direction, 0);

        count(m, sum_of(m, SCOPE_STAGE, device, 0, direction, STAGE_I2D), queue, true);
        count(m, sum_of(m, SCOPE_STAGE, device, 0, direction, STAGE_D2C), disk, true);
        count(m, sum_of(m, SCOPE_STAGE, device, 0, direction, STAGE_Q2C), queue + disk, true);
        count(m, who, queue + disk, true);
        who->part[CAUSE_QUEUE] += queue;
        who->part[CAUSE_DISK] += disk;
}

static void call(struct machine *m, uint32_t pid, enum sync_call what, uint64_t flush, uint64_t journal)
{
        struct sum *s = sum_of(m, SCOPE_SYNC, 0, pid, 0, (uint8_t)what);

        count(m, s, flush + journal, true);
        s->part[CAUSE_FLUSH] += flush;
        s->part[SYNC_JOURNAL] += journal;
}

static void text(struct row *row, int metric, const char *words)
{
        row_text(row, metric, words, strlen(words));
}

static const char *device_text(uint32_t device)
{
        return device == SDA ? "sda" : device == SDB ? "sdb" : "others";
}

static void fill_stage(struct row *row, const struct sum *s)
{
        text(row, STAGE_DEVICE_NAME, device_text(s->device));
        row_set(row, STAGE_DEVICE, s->device);
        row_set(row, STAGE_DIRECTION, s->direction);
        row_set(row, STAGE_STAGE, s->what);
        row_set(row, STAGE_BIOS, s->count);
        row_set(row, STAGE_TOTAL, s->total);
        row_set(row, STAGE_PATH, s->path);
        row_set(row, STAGE_SINCE, s->since_ns);
        if (s->longest)
                row_set(row, STAGE_LONGEST, s->longest);
        else
                row_absent(row, STAGE_LONGEST);
}

static void fill_parts(struct row *row, const struct sum *s, const int *metric)
{
        for (int i = 0; i < SYNC_PARTS; i++)
                if (metric[i])
                        row_set(row, metric[i], s->part[i]);
}

static void fill_bio(struct row *row, const struct sum *s)
{
        static const int parts[SYNC_PARTS] = {BIO_TAG, BIO_PLUG, BIO_QUEUE, BIO_REFUSED, BIO_DISK, BIO_FLUSH, BIO_DRIVER, BIO_OTHER};

        text(row, BIO_COMM, s->name);
        text(row, BIO_DEVICE_NAME, device_text(s->device));
        row_set(row, BIO_PID, s->pid);
        row_set(row, BIO_DEVICE, s->device);
        row_set(row, BIO_DIRECTION, s->direction);
        row_set(row, BIO_BIOS, s->count);
        row_set(row, BIO_TIME, s->total);
        row_set(row, BIO_SINCE, s->since_ns);
        fill_parts(row, s, parts);
        if (s->longest)
                row_set(row, BIO_LONGEST, s->longest);
        else
                row_absent(row, BIO_LONGEST);
}

static void fill_sync(struct row *row, const struct sum *s)
{
        static const int parts[SYNC_PARTS] = {SYNC_TAG, SYNC_PLUG, SYNC_QUEUE, SYNC_REFUSED, SYNC_DISK, SYNC_FLUSH, SYNC_DRIVER, SYNC_OTHER,
                SYNC_IN_JOURNAL};

        text(row, SYNC_COMM, s->name);
        text(row, SYNC_FILE, "table.ibd");
        row_set(row, SYNC_PID, s->pid);
        row_set(row, SYNC_CALL, s->what);
        row_set(row, SYNC_COUNT, s->count);
        row_set(row, SYNC_ERRORS, 0);
        row_set(row, SYNC_TIME, s->total);
        row_set(row, SYNC_SINCE, s->since_ns);
        fill_parts(row, s, parts);
        if (s->longest)
                row_set(row, SYNC_LONGEST, s->longest);
        else
                row_absent(row, SYNC_LONGEST);
}

static void fill_octaves(struct machine *m, const struct sum *s)
{
        for (unsigned octave = 0; octave < LATENCY_OCTAVES; octave++) {
                if (!s->octave_since[octave])
                        continue;
                struct key key = {s->id, (uint64_t)s->scope << 8 | (octave + 3)};
                struct row *row = sample_row(m->sample, SCOPE_LATENCY, key, 0);
                row_set(row, LATENCY_SCOPE, s->scope);
                row_set(row, LATENCY_OCTAVE, octave + 3);
                row_set(row, LATENCY_SINCE, s->octave_since[octave]);
                for (int step = 0; step < HISTOGRAM_STEPS; step++)
                        row_set(row, LATENCY_B0 + step, s->counts[octave][step]);
        }
}

static void fill_scope(struct machine *m, enum scope scope)
{
        sample_scope_begin(m->sample, scope, now_of(m));
        for (size_t i = 0; i < m->sum_count; i++) {
                struct sum *s = &m->sums[i];
                if (s->dropped || (scope != SCOPE_LATENCY && s->scope != scope))
                        continue;
                if (scope == SCOPE_LATENCY) {
                        fill_octaves(m, s);
                        continue;
                }
                struct row *row = sample_row(m->sample, scope, (struct key){s->id, 0}, 0);
                (scope == SCOPE_STAGE ? fill_stage : scope == SCOPE_BIO ? fill_bio : fill_sync)(row, s);
                s->longest = 0;
        }
        sample_scope_end(m->sample, scope, now_of(m), GONE_EXITED);
}

static void tick(struct machine *m)
{
        static const enum scope all[] = {SCOPE_STAGE, SCOPE_LATENCY, SCOPE_BIO, SCOPE_SYNC};
        uint64_t now = (m->step++, now_of(m));
        const void *bytes = NULL;
        size_t length = 0;

        sample_begin(m->sample, &(struct sample_stamp){now, now, UINT64_C(1796072400) * SECOND + now});
        for (size_t i = 0; i < 4; i++)
                if (m->off)
                        sample_scope_off(m->sample, all[i]);
                else
                        fill_scope(m, all[i]);
        sample_scope_begin(m->sample, SCOPE_SELF, now);
        struct row *self = sample_row(m->sample, SCOPE_SELF, (struct key){0, 0}, 0);
        row_set(self, SELF_STAGES, m->off ? 1 : 2);
        row_set(self, SELF_STAGES_LOST, m->lost);
        sample_scope_end(m->sample, SCOPE_SELF, now, GONE_EXITED);
        struct seal seal = {.scopes_on = LATENCY_SCOPES | SCOPE_BIT(SCOPE_SELF), .tick_ns = SECOND, .boot_id = {1}};
        assert_int_equal(sample_seal(m->sample, &seal, &bytes, &length), 0);
        assert_int_equal(state_apply(m->state, bytes, NULL), 0);
}

static struct machine *machine_new(void)
{
        struct machine *m = calloc(1, sizeof *m);

        assert_non_null(m);
        assert_int_equal(sample_new(&m->sample), 0);
        assert_int_equal(state_new(&m->state), 0);
        tick(m);
        state_base(m->state);
        return m;
}

static void machine_free(struct machine *m)
{
        latency_fini(&m->latency);
        state_free(m->state);
        sample_free(m->sample);
        free(m);
}

static void make(struct machine *m)
{
        assert_int_equal(latency_make(&m->latency, m->state), 0);
}

static const struct latency_line *stage_line(const struct machine *m, uint32_t device, uint8_t direction, enum stage stage)
{
        struct latency_line wanted = {.device = device, .direction = direction};

        return latency_stage(&m->latency, &wanted, stage);
}

static void near(double value, double wanted, double part)
{
        if (!(fabs(value - wanted) <= wanted * part + 1e-9))
                fail_msg("%g is not %g", value, wanted);
}

static uint64_t random_next(void)
{
        static uint64_t x = 88172645463325252u;

        x ^= x << 13;
        x ^= x >> 7;
        return x ^= x << 17;
}

static int by_value(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/* ---- figures ------------------------------------------------------------------------------------------------------------------------- */

/* Over so many ticks: sums exact, percentiles of the durations themselves, shares that add up. */
static void hold(unsigned ticks)
{
        static uint64_t durations[MOST_DURATIONS];
        struct machine *m = machine_new();
        struct latency_times times;
        double total = 0, queued = 0;
        size_t n = 0;

        for (unsigned i = 0; i < ticks; i++) {
                for (int k = 0; k < 1000; k++) {
                        uint64_t queue = random_next() % 3000, disk = 60000 + random_next() % (random_next() % 20 ? 40000 : 9000000);
                        bio(m, SDA, STAGE_READ, 77, queue, disk);
                        durations[n++] = queue + disk;
                        total += (double)(queue + disk);
                        queued += (double)queue;
                }
                tick(m);
        }
        make(m);
        const struct latency_line *q2c = stage_line(m, SDA, STAGE_READ, STAGE_Q2C), *i2d = stage_line(m, SDA, STAGE_READ, STAGE_I2D);
        assert_non_null(q2c);
        assert_string_equal(q2c->device_name, "sda");
        assert_true(q2c->count >= (double)n && q2c->count <= (double)n);
        near(latency_mean(q2c), total / (double)n, 1e-12);
        near(latency_share(&m->latency, i2d), queued / total, 1e-12);
        near(latency_share(&m->latency, i2d) + latency_share(&m->latency, stage_line(m, SDA, STAGE_READ, STAGE_D2C)), 1, 1e-12);
        latency_times(m->state, q2c, &times);
        qsort(durations, n, sizeof *durations, by_value);
        near(times.p50, (double)durations[(size_t)ceil(0.50 * (double)n) - 1], 0.05);
        near(times.p95, (double)durations[(size_t)ceil(0.95 * (double)n) - 1], 0.05);
        near(times.p99, (double)durations[(size_t)ceil(0.99 * (double)n) - 1], 0.05);
        assert_int_equal(times.bound, ticks > 1);
        if (ticks == 1)
                near(times.longest, (double)durations[n - 1], 0);
        else
                assert_true(times.longest >= (double)durations[n - 1] && times.longest <= (double)durations[n - 1] * 17 / 16 + 1);
        const struct latency_line *who = &m->latency.lines[LATENCY_BIOS][0];
        assert_int_equal(m->latency.count[LATENCY_BIOS], 1);
        near(who->part[CAUSE_QUEUE] + who->part[CAUSE_DISK], who->total, 1e-12);
        machine_free(m);
}

static void one_tick_is_exact(void **state)
{
        (void)state;
        hold(1);
}

static void many_ticks_add_up(void **state)
{
        (void)state;
        hold(15);
}

static void only_the_interval_counts(void **state)
{
        struct machine *m = machine_new();
        struct latency_times times;

        (void)state;
        for (int i = 0; i < 100; i++)
                bio(m, SDA, STAGE_WRITE, 1, 1000, 50000000);
        tick(m);
        state_base(m->state);
        for (int i = 0; i < 10; i++)
                bio(m, SDA, STAGE_WRITE, 1, 1000, 20000);
        tick(m);
        make(m);
        const struct latency_line *q2c = stage_line(m, SDA, STAGE_WRITE, STAGE_Q2C);
        near(q2c->count, 10, 0);
        near(latency_mean(q2c), 21000, 0);
        latency_times(m->state, q2c, &times);
        near(times.p99, 21000, 0.05);
        near(times.longest, 21000, 0);
        state_base(m->state);
        tick(m); /* nothing ended */
        make(m);
        q2c = stage_line(m, SDA, STAGE_WRITE, STAGE_Q2C);
        assert_false(latency_counted(q2c));
        assert_true(isnan(latency_mean(q2c)));
        latency_times(m->state, q2c, &times);
        assert_true(isnan(times.p50) && isnan(times.longest));
        machine_free(m);
}

/* ---- what cannot be known ------------------------------------------------------------------------------------------------------------ */

static void rows_without_a_base_are_not_known(void **state)
{
        struct machine *m = machine_new();
        struct latency_times times;

        (void)state;
        m->off = true; /* it counts for somebody else, before we ask for the scopes */
        bio(m, SDA, STAGE_READ, 1, 100, 200);
        tick(m);
        state_base(m->state);
        m->off = false;
        bio(m, SDA, STAGE_READ, 1, 100, 200);
        for (size_t i = 0; i < m->sum_count; i++)
                m->sums[i].since_ns = SECOND;
        tick(m);
        make(m);
        const struct latency_line *q2c = stage_line(m, SDA, STAGE_READ, STAGE_Q2C);
        assert_non_null(q2c);
        assert_true(isnan(q2c->count) && isnan(latency_share(&m->latency, q2c)));
        assert_false(latency_counted(q2c));
        latency_times(m->state, q2c, &times);
        assert_true(isnan(times.p99) && isnan(times.longest));
        state_base(m->state);
        bio(m, SDA, STAGE_READ, 1, 100, 200);
        tick(m);
        make(m);
        near(stage_line(m, SDA, STAGE_READ, STAGE_Q2C)->count, 1, 0);
        machine_free(m);
}

/* A histogram of which an octave is not there is no histogram. */
static void half_a_histogram_gives_no_percentile(void **state)
{
        struct machine *m = machine_new();
        struct latency_times times;

        (void)state;
        bio(m, SDA, STAGE_READ, 1, 100, 20000);
        tick(m);
        bio(m, SDA, STAGE_READ, 1, 100, 20000);
        struct sum *q2c = sum_of(m, SCOPE_STAGE, SDA, 0, STAGE_READ, STAGE_Q2C);
        memset(q2c->counts, 0, sizeof q2c->counts);
        q2c->counts[4][0] = 1;
        q2c->octave_since[4] = now_of(m);
        tick(m);
        make(m);
        const struct latency_line *line = stage_line(m, SDA, STAGE_READ, STAGE_Q2C);
        near(line->count, 2, 0);
        latency_times(m->state, line, &times);
        assert_true(isnan(times.p50) && isnan(times.p99));
        machine_free(m);
}

static void restarts_are_not_known(void **state)
{
        struct machine *m = machine_new();

        (void)state;
        for (int i = 0; i < 5; i++)
                bio(m, SDA, STAGE_READ, 1, 100, 200);
        tick(m);
        state_base(m->state);
        sum_of(m, SCOPE_STAGE, SDA, 0, STAGE_READ, STAGE_Q2C)->count = 0; /* another daemon's */
        bio(m, SDA, STAGE_READ, 1, 100, 200);
        tick(m);
        make(m);
        assert_true(isnan(stage_line(m, SDA, STAGE_READ, STAGE_Q2C)->count));
        near(stage_line(m, SDA, STAGE_READ, STAGE_D2C)->count, 1, 0);
        machine_free(m);
}

static void rows_come_and_go(void **state)
{
        struct machine *m = machine_new();

        (void)state;
        bio(m, SDA, STAGE_READ, 10, 100, 500);
        tick(m);
        bio(m, SDA, STAGE_READ, 11, 100, 900);
        call(m, 11, SYNC_FDATASYNC, 700, 300);
        tick(m);
        sum_of(m, SCOPE_BIO, SDA, 10, STAGE_READ, 0)->dropped = true; /* its process has ended */
        tick(m);
        make(m);
        /* Over the whole of it the one that went is there with what it did. */
        assert_int_equal(m->latency.count[LATENCY_BIOS], 2);
        assert_int_equal(m->latency.lines[LATENCY_BIOS][0].pid, 11);
        assert_int_equal(m->latency.lines[LATENCY_BIOS][1].pid, 10);
        near(m->latency.lines[LATENCY_BIOS][1].count, 1, 0);
        const struct latency_line *sync = &m->latency.lines[LATENCY_CALLS][0];
        assert_int_equal(m->latency.count[LATENCY_CALLS], 1);
        assert_int_equal(sync->what, SYNC_FDATASYNC);
        near(sync->part[CAUSE_FLUSH], 700, 0);
        near(sync->part[SYNC_JOURNAL], 300, 0);
        double share;
        assert_int_equal(latency_largest(sync->part, &share), CAUSE_FLUSH);
        near(share, 0.7, 1e-12);
        state_base(m->state);
        tick(m);
        make(m);
        assert_int_equal(m->latency.count[LATENCY_BIOS], 1);
        m->off = true; /* the lease is given back: nothing is left to say */
        state_base(m->state);
        tick(m);
        make(m);
        for (int kind = 0; kind < LATENCY_KINDS; kind++)
                for (size_t i = 0; i < m->latency.count[kind]; i++)
                        assert_false(latency_counted(&m->latency.lines[kind][i]));
        assert_int_equal(m->latency.source, 1);
        machine_free(m);
}

static void losses_are_told(void **state)
{
        struct machine *m = machine_new();

        (void)state;
        m->lost = 17;
        tick(m);
        make(m);
        near(m->latency.lost, 17, 0);
        assert_int_equal(m->latency.source, 2);
        machine_free(m);
}

static void tenths_add_up(void **state)
{
        const double thirds[3] = {1, 1, 1}, none[3] = {0, NAN, 0};
        int tenths[3];

        (void)state;
        latency_tenths(thirds, 3, tenths);
        assert_int_equal(tenths[0] + tenths[1] + tenths[2], 1000);
        latency_tenths(none, 3, tenths);
        assert_int_equal(tenths[0] + tenths[1] + tenths[2], 0);
        char text[32];
        assert_string_equal(latency_ms(text, sizeof text, 9999600), "10.00");
        assert_string_equal(latency_ms(text, sizeof text, 123), "0.000");
        assert_string_equal(latency_ms(text, sizeof text, (double)NAN), "-");
}

static void order_is_by_place_and_by_time(void **state)
{
        struct machine *m = machine_new();

        (void)state;
        bio(m, 0, STAGE_READ, 0, 1, 1); /* those without a row of their own */
        bio(m, SDB, STAGE_WRITE, 5, 100, 500);
        bio(m, SDA, STAGE_WRITE, 6, 100, 900);
        bio(m, SDA, STAGE_READ, 7, 100, 700);
        tick(m);
        make(m);
        const struct latency_line *lines = m->latency.lines[LATENCY_STAGES];
        assert_int_equal(m->latency.count[LATENCY_STAGES], 12);
        assert_true(lines[0].device == SDA && lines[0].direction == STAGE_READ && lines[0].what == STAGE_I2D);
        assert_true(lines[3].device == SDA && lines[3].direction == STAGE_WRITE && lines[5].what == STAGE_Q2C);
        assert_true(lines[6].device == SDB && lines[9].device == 0);
        assert_int_equal(m->latency.lines[LATENCY_BIOS][0].pid, 6);
        struct latency_pick pick = {.stage = STAGE_Q2C};
        assert_int_equal(latency_picked(&m->latency, &pick)->device, SDA);
        pick = (struct latency_pick){.chosen = true, .device = SDB, .direction = STAGE_WRITE};
        assert_int_equal(latency_picked(&m->latency, &pick)->device, SDB);
        machine_free(m);
}

/* ---- the past ------------------------------------------------------------------------------------------------------------------------ */

static void heat_remembers(void **state)
{
        static struct heat heat;
        struct machine *m = machine_new();

        (void)state;
        heat_clear(&heat);
        for (unsigned i = 0; i < HEAT_STEPS + 5; i++) {
                for (unsigned k = 0; k <= i; k++)
                        bio(m, SDA, STAGE_READ, 1, 0, i % 2 ? 1 << 20 : 1 << 12);
                tick(m);
                make(m);
                heat_note(&heat, m->state, &m->latency);
                state_base(m->state);
        }
        const struct heat_series *series = heat_find(&heat, SDA, STAGE_READ, STAGE_Q2C);
        assert_non_null(series);
        for (unsigned ago = 0; ago < HEAT_STEPS; ago++) {
                unsigned i = HEAT_STEPS + 4 - ago;
                const uint32_t *column = heat_column(&heat, series, ago);
                assert_non_null(column);
                assert_int_equal(column[i % 2 ? 17 : 9], i + 1);
                assert_int_equal(column[i % 2 ? 9 : 17], 0);
        }
        assert_null(heat_column(&heat, series, HEAT_STEPS));
        m->off = true;
        tick(m);
        make(m);
        heat_note(&heat, m->state, &m->latency);
        assert_null(heat_column(&heat, series, 0)); /* nothing was traced: no column, not an empty one */
        assert_non_null(heat_column(&heat, series, 1));
        for (int i = 0; i < HEAT_STEPS; i++)
                heat_note(&heat, m->state, &m->latency);
        assert_null(heat_find(&heat, SDA, STAGE_READ, STAGE_Q2C));
        machine_free(m);
}

/* ---- the view ------------------------------------------------------------------------------------------------------------------------ */

static bool shows(const struct canvas *c, const char *words)
{
        char line[CANVAS_SIDE];

        for (int row = 0; row < c->rows; row++) {
                canvas_line(c, row, line, sizeof line);
                if (strstr(line, words))
                        return true;
        }
        return false;
}

static void the_view_fits_everywhere(void **state)
{
        static const int sides[] = {1, 2, 3, 5, 8, 13, 24, 30, 50, 60, 80, 120, 200};
        static struct heat heat;
        struct machine *m = machine_new();
        struct latency_pick pick = {.stage = STAGE_Q2C};
        struct canvas c;

        (void)state;
        for (unsigned i = 0; i < 30; i++) {
                for (unsigned k = 0; k < 20; k++) {
                        bio(m, SDA, (uint8_t)(k % 2), 100 + k % 10, 5000, UINT64_C(1) << (10 + k));
                        call(m, 200 + k % 4, SYNC_FSYNC, 4000000, 1000000);
                }
                sum_of(m, SCOPE_BIO, SDA, 100, STAGE_READ, 0)->name = "\033[2Jev\x9bil";
                state_base(m->state);
                tick(m);
                make(m);
                heat_note(&heat, m->state, &m->latency);
        }
        struct look look = {.state = m->state, .latency = &m->latency, .heat = &heat, .gone_seconds = -1, .interval_ns = SECOND};
        for (int utf8 = 0; utf8 < 2; utf8++) {
                canvas_init(&c, utf8);
                for (size_t r = 0; r < sizeof sides / sizeof *sides; r++)
                        for (size_t k = 0; k < sizeof sides / sizeof *sides; k++)
                                for (size_t top = 0; top < 40; top += 13) {
                                        pick.top = top;
                                        assert_int_equal(canvas_resize(&c, sides[r], sides[k]), 0);
                                        latency_draw(&look, &pick, &c);
                                        assert_true(pick.top <= pick.most || pick.most == 0);
                                }
                assert_int_equal(canvas_resize(&c, 24, 80), 0);
                pick.top = 0;
                latency_draw(&look, &pick, &c);
                assert_true(shows(&c, "traced by BPF") && shows(&c, "sda") && shows(&c, "fsync") && shows(&c, "over time"));
                assert_true(shows(&c, "flush 80") && shows(&c, "table.i"));
                assert_int_equal(canvas_resize(&c, 50, 200), 0);
                latency_draw(&look, &pick, &c);
                assert_true(shows(&c, "journal") && shows(&c, "80.0") && shows(&c, "table.ibd"));
                canvas_fini(&c);
        }
        machine_free(m);
}

static void the_view_says_why_there_is_nothing(void **state)
{
        struct machine *m = machine_new();
        struct latency_pick pick = {.stage = STAGE_Q2C};
        struct attach_info source = {.missing_scopes = LATENCY_SCOPES};
        struct look look = {.state = m->state, .latency = &m->latency, .source = &source, .gone_seconds = -1};
        struct look_place place = {.name = "x"};
        struct canvas c;

        (void)state;
        canvas_init(&c, false);
        assert_int_equal(canvas_resize(&c, 24, 80), 0);
        make(m);
        latency_draw(&look, &pick, &c);
        assert_true(shows(&c, "not to be had"));
        source.missing_scopes = 0;
        latency_draw(&look, &pick, &c);
        assert_true(shows(&c, "no block I/O has ended"));
        m->off = true;
        tick(m);
        make(m);
        latency_draw(&look, &pick, &c);
        assert_true(shows(&c, "begins"));
        look.ago = "3 s ago";
        latency_draw(&look, &pick, &c);
        assert_true(shows(&c, "Nothing was traced then"));
        look.place = &place;
        latency_draw(&look, &pick, &c);
        assert_true(shows(&c, "--stages"));
        canvas_fini(&c);
        machine_free(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_tick_is_exact),
                cmocka_unit_test(many_ticks_add_up),
                cmocka_unit_test(only_the_interval_counts),
                cmocka_unit_test(rows_without_a_base_are_not_known),
                cmocka_unit_test(half_a_histogram_gives_no_percentile),
                cmocka_unit_test(restarts_are_not_known),
                cmocka_unit_test(rows_come_and_go),
                cmocka_unit_test(losses_are_told),
                cmocka_unit_test(tenths_add_up),
                cmocka_unit_test(order_is_by_place_and_by_time),
                cmocka_unit_test(heat_remembers),
                cmocka_unit_test(the_view_fits_everywhere),
                cmocka_unit_test(the_view_says_why_there_is_nothing),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

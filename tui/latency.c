/*
 * Lines of block latency from a state. Contract: latency.h.
 */
#include "tui/latency.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a row gained --------------------------------------------------------------------------------------------------------------- */

static double gained(const struct state_row *row, int metric)
{
        double delta = 0;
        int r = state_delta(row, metric, &delta);

        return r == DELTA_ABSENT || r == DELTA_RESET ? (double)NAN : delta;
}

static uint32_t level(const struct state_row *row, int metric)
{
        uint64_t value = 0;

        return state_now(row, metric, &value) && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void take_parts(struct latency_line *line, const int metrics_of[SYNC_PARTS])
{
        bool known = true;

        for (int i = 0; i < SYNC_PARTS; i++) {
                line->part[i] = metrics_of[i] ? gained(line->row, metrics_of[i]) : 0;
                known &= !isnan(line->part[i]);
        }
        for (int i = 0; i < SYNC_PARTS && !known; i++)
                line->part[i] = (double)NAN;
}

static void take_stage(const struct state *state, struct latency_line *line)
{
        const struct state_row *row = line->row;

        line->device = level(row, STAGE_DEVICE);
        line->direction = (uint8_t)level(row, STAGE_DIRECTION);
        line->what = (uint8_t)level(row, STAGE_STAGE);
        line->count = gained(row, STAGE_BIOS);
        line->total = gained(row, STAGE_TOTAL);
        line->path = gained(row, STAGE_PATH);
        state_text_copy(state, row, STAGE_DEVICE_NAME, line->device_name, sizeof line->device_name);
}

static void take_bio(const struct state *state, struct latency_line *line)
{
        static const int causes[SYNC_PARTS] = {[CAUSE_TAG] = BIO_TAG, [CAUSE_PLUG] = BIO_PLUG, [CAUSE_QUEUE] = BIO_QUEUE,
                [CAUSE_REFUSED] = BIO_REFUSED, [CAUSE_DISK] = BIO_DISK, [CAUSE_FLUSH] = BIO_FLUSH, [CAUSE_DRIVER] = BIO_DRIVER,
                [CAUSE_OTHER] = BIO_OTHER};
        const struct state_row *row = line->row;

        line->device = level(row, BIO_DEVICE);
        line->direction = (uint8_t)level(row, BIO_DIRECTION);
        line->pid = level(row, BIO_PID);
        line->count = gained(row, BIO_BIOS);
        line->total = gained(row, BIO_TIME);
        take_parts(line, causes);
        state_text_copy(state, row, BIO_COMM, line->name, sizeof line->name);
        state_text_copy(state, row, BIO_DEVICE_NAME, line->device_name, sizeof line->device_name);
}

static void take_call(const struct state *state, struct latency_line *line)
{
        static const int parts[SYNC_PARTS] = {[CAUSE_TAG] = SYNC_TAG, [CAUSE_PLUG] = SYNC_PLUG, [CAUSE_QUEUE] = SYNC_QUEUE,
                [CAUSE_REFUSED] = SYNC_REFUSED, [CAUSE_DISK] = SYNC_DISK, [CAUSE_FLUSH] = SYNC_FLUSH, [CAUSE_DRIVER] = SYNC_DRIVER,
                [CAUSE_OTHER] = SYNC_OTHER, [SYNC_JOURNAL] = SYNC_IN_JOURNAL};
        const struct state_row *row = line->row;

        line->what = (uint8_t)level(row, SYNC_CALL);
        line->pid = level(row, SYNC_PID);
        line->count = gained(row, SYNC_COUNT);
        line->errors = gained(row, SYNC_ERRORS);
        line->total = gained(row, SYNC_TIME);
        take_parts(line, parts);
        state_text_copy(state, row, SYNC_COMM, line->name, sizeof line->name);
}

/* ---- all of them --------------------------------------------------------------------------------------------------------------------- */

static const enum scope scope_of[LATENCY_KINDS] = {[LATENCY_STAGES] = SCOPE_STAGE, [LATENCY_BIOS] = SCOPE_BIO,
        [LATENCY_CALLS] = SCOPE_SYNC};

static int make_room(struct latency *latency, enum latency_kind kind, size_t count)
{
        if (count <= latency->room[kind])
                return 0;
        size_t room = count + count / 2 + 32;
        struct latency_line *grown = reallocarray(latency->lines[kind], room, sizeof *grown);
        if (grown == NULL)
                return -ENOMEM;
        latency->lines[kind] = grown;
        latency->room[kind] = room;
        return 0;
}

static int by_place(const void *left, const void *right)
{
        const struct latency_line *a = left, *b = right;

        if (a->device != b->device) /* 0, the rest, comes last */
                return a->device - 1 < b->device - 1 ? -1 : 1;
        if (a->direction != b->direction)
                return a->direction < b->direction ? -1 : 1;
        return a->what < b->what ? -1 : a->what > b->what;
}

static int by_time(const void *left, const void *right)
{
        const struct latency_line *a = left, *b = right;
        double x = isnan(a->total) ? -1 : a->total, y = isnan(b->total) ? -1 : b->total;

        if (x > y || x < y)
                return x > y ? -1 : 1;
        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        return by_place(left, right);
}

static void take_self(struct latency *latency, const struct state *state)
{
        const struct state_row *self = state_one(state, SCOPE_SELF);
        uint64_t source = 0;

        latency->lost = self ? gained(self, SELF_STAGES_LOST) : (double)NAN;
        latency->source = self && state_now(self, SELF_STAGES, &source) && source <= 3 ? (int)source : -1;
}

int latency_make(struct latency *latency, const struct state *state)
{
        static void (*const take[LATENCY_KINDS])(const struct state *, struct latency_line *) = {
                [LATENCY_STAGES] = take_stage, [LATENCY_BIOS] = take_bio, [LATENCY_CALLS] = take_call};

        take_self(latency, state);
        for (int kind = 0; kind < LATENCY_KINDS; kind++) {
                size_t rows = state_count(state, scope_of[kind]);
                latency->count[kind] = 0;
                if (make_room(latency, (enum latency_kind)kind, rows) < 0)
                        return -ENOMEM;
                for (size_t i = 0; i < rows; i++) {
                        struct latency_line *line = &latency->lines[kind][latency->count[kind]++];
                        *line = (struct latency_line){.row = state_at(state, scope_of[kind], i)};
                        take[kind](state, line);
                        if (line->row->gone && !latency_counted(line)) /* nothing to say of it any more */
                                latency->count[kind]--;
                }
                if (latency->count[kind] > 1)
                        qsort(latency->lines[kind], latency->count[kind], sizeof *latency->lines[kind],
                                kind == LATENCY_STAGES ? by_place : by_time);
        }
        return 0;
}

void latency_fini(struct latency *latency)
{
        for (int kind = 0; kind < LATENCY_KINDS; kind++)
                free(latency->lines[kind]);
        memset(latency, 0, sizeof *latency);
}

/* ---- durations ----------------------------------------------------------------------------------------------------------------------- */

/* The row of an octave, in order; NULL: none of it was ever counted. */
static const struct state_row *octave_row(const struct state *state, const struct latency_line *line, unsigned octave)
{
        uint64_t number = octave + HISTOGRAM_BITS - 1;

        return state_find(state, SCOPE_LATENCY, (struct key){line->row->key.a, (uint64_t)line->row->scope << 8 | number});
}

bool latency_histogram(const struct state *state, const struct latency_line *line, struct histogram *histogram)
{
        uint64_t before = histogram->count;

        for (unsigned octave = 0; octave < LATENCY_OCTAVES; octave++) {
                const struct state_row *row = octave_row(state, line, octave);
                for (unsigned step = 0; row != NULL && step < HISTOGRAM_STEPS; step++) {
                        double delta = gained(row, LATENCY_B0 + (int)step);
                        if (delta > 0)
                                histogram_add_bucket(histogram, octave * HISTOGRAM_STEPS + step, (uint64_t)delta);
                }
        }
        /* The same copy of the sums made both rows: what is missing could not be read. */
        return line->count >= 0 && (double)(histogram->count - before) >= line->count;
}

/* exact: `max` is the largest itself, not its bucket's end. */
static void fill_times(struct histogram *histogram, bool exact, struct latency_times *times)
{
        uint64_t longest = histogram->max;

        *times = (struct latency_times){(double)NAN, (double)NAN, (double)NAN, (double)NAN, false};
        if (histogram->count == 0)
                return;
        if (!exact) { /* a percentile that is the largest is told as all others are: as its bucket's middle */
                uint64_t low = histogram_floor(histogram_bucket(longest));
                histogram->max = low + (longest - low) / 2;
        }
        times->p50 = histogram_quantile(histogram, 0.5);
        times->p95 = histogram_quantile(histogram, 0.95);
        times->p99 = histogram_quantile(histogram, 0.99);
        times->longest = (double)longest;
        times->bound = !exact;
        histogram->max = longest;
}

void latency_times_of(struct histogram *histogram, struct latency_times *times)
{
        fill_times(histogram, false, times);
}

/* The gauge holds what ended since the tick before it: the whole interval only when that is one tick. */
static bool longest_now(const struct state *state, const struct latency_line *line, uint64_t *longest)
{
        static const int metric[LATENCY_KINDS] = {STAGE_LONGEST, BIO_LONGEST, SYNC_LONGEST};
        struct state_info info = state_info(state);
        int kind = line->row->scope == SCOPE_STAGE ? LATENCY_STAGES : line->row->scope == SCOPE_BIO ? LATENCY_BIOS : LATENCY_CALLS;

        return info.to_sequence == info.from_sequence + 1 && !line->row->gone && state_now(line->row, metric[kind], longest);
}

void latency_times(const struct state *state, const struct latency_line *line, struct latency_times *times)
{
        static struct histogram histogram;
        uint64_t longest = 0;

        memset(&histogram, 0, sizeof histogram);
        bool whole = latency_counted(line) && latency_histogram(state, line, &histogram);
        bool known = latency_counted(line) && longest_now(state, line, &longest);
        bool exact = whole && known && longest <= histogram.max && longest >= histogram.min;
        if (exact)
                histogram.max = longest; /* percentiles do not pass it */
        if (!whole)
                histogram.count = 0;
        fill_times(&histogram, exact, times);
        if (known) {
                times->longest = (double)longest;
                times->bound = false;
        }
}

bool latency_octaves(const struct state *state, const struct latency_line *line, uint32_t counts[LATENCY_OCTAVES])
{
        bool any = false;

        for (unsigned octave = 0; octave < LATENCY_OCTAVES; octave++) {
                const struct state_row *row = octave_row(state, line, octave);
                double sum = 0;
                for (unsigned step = 0; row != NULL && step < HISTOGRAM_STEPS; step++) {
                        double delta = gained(row, LATENCY_B0 + (int)step);
                        sum += delta > 0 ? delta : 0;
                        any |= !isnan(delta);
                }
                counts[octave] = sum < (double)UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        }
        return any;
}

/* ---- shares -------------------------------------------------------------------------------------------------------------------------- */

static bool same_place(const struct latency_line *a, const struct latency_line *b)
{
        return a->device == b->device && a->direction == b->direction;
}

const struct latency_line *latency_stage(const struct latency *latency, const struct latency_line *line, enum stage stage)
{
        for (size_t i = 0; i < latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *other = &latency->lines[LATENCY_STAGES][i];
                if (same_place(line, other) && other->what == stage)
                        return other;
        }
        return NULL;
}

double latency_share(const struct latency *latency, const struct latency_line *line)
{
        double sum = 0;

        for (int stage = 0; stage < STAGE_Q2C; stage++) {
                const struct latency_line *other = latency_stage(latency, line, (enum stage)stage);
                sum += other && other->path > 0 ? other->path : 0;
        }
        if (isnan(line->path) || !(sum > 0))
                return (double)NAN;
        return line->what == STAGE_Q2C ? 1 : line->path / sum;
}

/* Merged bios wait in the plug instead of the queue where there is no scheduler; only the processes' rows know that. */
static const enum stage_cause causes[STAGE_COUNT] = {[STAGE_Q2G] = CAUSE_TAG, [STAGE_Q2M] = CAUSE_PLUG, [STAGE_G2I] = CAUSE_PLUG,
        [STAGE_G2D] = CAUSE_PLUG, [STAGE_I2D] = CAUSE_QUEUE, [STAGE_M2D] = CAUSE_QUEUE, [STAGE_D2D] = CAUSE_REFUSED,
        [STAGE_D2C] = CAUSE_DISK, [STAGE_FLUSH] = CAUSE_FLUSH, [STAGE_BIO] = CAUSE_DRIVER, [STAGE_OTHER] = CAUSE_OTHER};

bool latency_causes(const struct latency *latency, const struct latency_line *line, double part[SYNC_PARTS])
{
        double bios = 0, sum = 0;

        memset(part, 0, SYNC_PARTS * sizeof *part);
        for (size_t i = 0; i < latency->count[LATENCY_BIOS]; i++) {
                const struct latency_line *bio = &latency->lines[LATENCY_BIOS][i];
                if (!same_place(bio, line) || !latency_counted(bio) || isnan(bio->part[0]))
                        continue;
                bios += bio->count;
                for (int cause = 0; cause < SYNC_PARTS; cause++)
                        sum += bio->part[cause], part[cause] += bio->part[cause];
        }
        if (sum > 0 && bios >= line->count)
                return true;
        memset(part, 0, SYNC_PARTS * sizeof *part);
        sum = 0;
        for (int stage = 0; stage < STAGE_Q2C; stage++) {
                const struct latency_line *other = latency_stage(latency, line, (enum stage)stage);
                double path = other && other->path > 0 ? other->path : 0;
                part[causes[stage]] += path;
                sum += path;
        }
        return sum > 0;
}

int latency_largest(const double part[SYNC_PARTS], double *share)
{
        double sum = 0;
        int largest = -1;

        for (int i = 0; i < SYNC_PARTS; i++) {
                if (!(part[i] > 0))
                        continue;
                sum += part[i];
                if (largest < 0 || part[i] > part[largest])
                        largest = i;
        }
        *share = largest >= 0 ? part[largest] / sum : 0;
        return largest;
}

/* By the largest remainders. */
void latency_tenths(const double *parts, int count, int *tenths)
{
        double total = 0, rest[STAGE_COUNT];
        int sum = 0;

        for (int i = 0; i < count; i++)
                total += parts[i] > 0 ? parts[i] : 0;
        for (int i = 0; i < count; i++) {
                double exact = total > 0 && parts[i] > 0 ? parts[i] * 1000 / total : 0;
                tenths[i] = (int)exact;
                rest[i] = exact - tenths[i];
                sum += tenths[i];
        }
        for (; total > 0 && sum < 1000; sum++) {
                int most = 0;
                for (int i = 1; i < count; i++)
                        if (rest[i] > rest[most])
                                most = i;
                rest[most] = -1;
                tenths[most]++;
        }
}

char *latency_ms(char *buffer, size_t size, double ns)
{
        double ms = ns / 1e6;

        if (isnan(ns))
                snprintf(buffer, size, "-");
        else
                snprintf(buffer, size, "%.*f", ms < 9.9995 ? 3 : ms < 99.995 ? 2 : ms < 999.95 ? 1 : 0, ms);
        return buffer;
}

/*
 * Judging a tick. Contract: judge.h; rules: sample/iowait.h.
 */
#include "daemon/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        LEVELS = IOWAIT_NONE + 1,
        CORES_MAX = 1 << 16,    /* core numbers beyond are no core numbers of Linux (NR_CPUS is at most 8192) */
};

struct sums {
        uint64_t disk, uring, other, disk_min, disk_max, uring_min, uring_max, other_min, other_max, taken_back, by[LEVELS];
};

struct judge {
        struct sums *sums;          /* by core number */
        size_t sums_capacity;
        struct iowait_parts *parts; /* by position in evidence->cores */
        size_t parts_capacity;
};

int judge_new(struct judge **judge)
{
        *judge = calloc(1, sizeof **judge);
        return *judge == NULL ? -ENOMEM : 0;
}

void judge_free(struct judge *judge)
{
        if (judge == NULL)
                return;
        free(judge->sums);
        free(judge->parts);
        free(judge);
}

/* Room for n elements, new ones zero. Grows only when the machine does. */
static int room(void **array, size_t *capacity, size_t n, size_t size)
{
        if (n <= *capacity)
                return 0;
        size_t grown = n + 16;
        void *bigger = realloc(*array, grown * size);
        if (bigger == NULL)
                return -ENOMEM;
        memset((char *)bigger + *capacity * size, 0, (grown - *capacity) * size);
        *array = bigger;
        *capacity = grown;
        return 0;
}

/* How far apart two reads lie at most: whole spans, because counters are taken somewhere inside. */
static int64_t apart(uint64_t a_start, uint64_t a_end, uint64_t b_start, uint64_t b_end)
{
        uint64_t first = a_start < b_start ? a_start : b_start, last = a_end > b_end ? a_end : b_end;
        return last > first ? (int64_t)(last - first) : 0;
}

static struct iowait_input gather(struct evidence *e, bool devices, bool waiters)
{
        uint64_t middle = e->stat_start_ns / 2 + e->stat_end_ns / 2, prev_middle = e->stat_prev_start_ns / 2 + e->stat_prev_end_ns / 2;
        struct iowait_input in = {
                .wall_ns = (int64_t)(middle - prev_middle),
                .cores = e->cores,
                .core_count = e->core_count,
                .bound_void = true,          /* until the devices have been read */
                .in_flight = true,
                .in_flight_start = true,
        };
        in.exact = e->exact;
        if (devices) {
                in.device_ns = e->device_ns;
                in.device_counters = e->device_counters;
                in.in_flight = e->in_flight;
                in.in_flight_start = e->in_flight_start;
                in.bound_void = e->bound_void;
                in.skew_ns = apart(e->stat_start_ns, e->stat_end_ns, e->disk_start_ns, e->disk_end_ns) +
                        apart(e->stat_prev_start_ns, e->stat_prev_end_ns, e->disk_prev_start_ns, e->disk_prev_end_ns);
                in.quiet = waiters && !e->bound_void && !e->in_flight && !e->in_flight_start && !e->completed && !e->sub_in_flight;
        }
        if (waiters) {
                in.witnesses = e->witnesses;
                in.witness_count = e->witness_count;
                in.seen = e->seen;
                in.seen_count = e->seen_count;
                in.samples = e->samples;
                in.carried = e->carried;
                in.full = e->full;
                in.delay_ns = e->delay_ns;
                in.delay_all = e->delay_all;
                in.unresolved = e->unresolved;
                in.reads = e->blocked_reads;
                in.read_count = e->blocked_read_count;
                in.blocked_no_d = e->blocked_no_d;
                in.blocked_sum = e->blocked_sum;
                in.d_sum = e->d_sum;
                in.threads_seen = e->threads_seen;
        }
        return in;
}

static void add(uint64_t *sum, int64_t part)
{
        if (part > 0)
                *sum += (uint64_t)part;
}

static void add_parts(struct judge *judge, const struct iowait_core *core, const struct iowait_parts *parts)
{
        if (!core->valid || core->cpu >= judge->sums_capacity)
                return;
        struct sums *s = &judge->sums[core->cpu];
        add(&s->disk, parts->disk);
        add(&s->uring, parts->uring);
        add(&s->other, parts->other);
        add(&s->disk_min, parts->disk_min);
        add(&s->disk_max, parts->disk_max);
        add(&s->uring_min, parts->uring_min);
        add(&s->uring_max, parts->uring_max);
        /* What the two others leave. */
        int64_t whole = parts->disk + parts->uring + parts->other;
        add(&s->other_min, whole - parts->disk_max - parts->uring_max);
        add(&s->other_max, whole - parts->disk_min - parts->uring_min);
        add(&s->taken_back, parts->taken_back);
        if ((unsigned)parts->level < LEVELS) {
                uint64_t *by = &s->by[parts->level];
                add(by, parts->disk);
                add(by, parts->uring);
                add(by, parts->other);
        }
}

static const int by[LEVELS] = {
        [IOWAIT_EXACT] = CPU_BY_EXACT, [IOWAIT_PARKED] = CPU_BY_PARKED, [IOWAIT_SEEN] = CPU_BY_SEEN,
        [IOWAIT_BOUND] = CPU_BY_BOUND, [IOWAIT_NONE] = CPU_BY_NONE,
};

static void write_row(struct row *row, const struct sums *s)
{
        row_set(row, CPU_WA_DISK, s->disk);
        row_set(row, CPU_WA_URING, s->uring);
        row_set(row, CPU_WA_OTHER, s->other);
        row_set(row, CPU_WA_DISK_MIN, s->disk_min);
        row_set(row, CPU_WA_DISK_MAX, s->disk_max);
        row_set(row, CPU_WA_URING_MIN, s->uring_min);
        row_set(row, CPU_WA_URING_MAX, s->uring_max);
        row_set(row, CPU_WA_OTHER_MIN, s->other_min);
        row_set(row, CPU_WA_OTHER_MAX, s->other_max);
        row_set(row, CPU_WA_TAKEN_BACK, s->taken_back);
        for (int level = 0; level < LEVELS; level++)
                row_set(row, by[level], s->by[level]);
}

/* What is not known is absent: sums that stood still would say that nobody waited. */
static void write_absent(struct sample *sample)
{
        static const int parts[] = { CPU_WA_DISK, CPU_WA_URING, CPU_WA_OTHER, CPU_WA_DISK_MIN, CPU_WA_DISK_MAX, CPU_WA_URING_MIN,
                CPU_WA_URING_MAX, CPU_WA_OTHER_MIN, CPU_WA_OTHER_MAX, CPU_WA_TAKEN_BACK };

        for (size_t i = 0; i < sample_rows(sample, SCOPE_CPU); i++) {
                struct row *row = sample_row_at(sample, SCOPE_CPU, i);
                for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
                        row_absent(row, parts[p]);
                for (int level = 0; level < LEVELS; level++)
                        row_absent(row, by[level]);
        }
}

/* A captured machine without clocks: how long the tick was is not known, so nothing can be bounded; what was counted is still told. */
static struct iowait_input gather_timeless(struct evidence *e)
{
        struct iowait_input in = gather(e, false, false);

        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].valid && e->cores[i].iowait_ns > in.wall_ns)
                        in.wall_ns = e->cores[i].iowait_ns;
        return in;
}

static void judge_cores(struct judge *judge, struct evidence *evidence, bool devices, bool waiters)
{
        struct iowait_input in = gather(evidence, devices, waiters);

        if (in.wall_ns <= 0)
                in = gather_timeless(evidence);
        if (in.wall_ns <= 0 || in.core_count == 0)
                return;
        iowait_split(&in, judge->parts);
        for (size_t i = 0; i < in.core_count; i++)
                add_parts(judge, &in.cores[i], &judge->parts[i]);
}

int judge_tick(struct judge *judge, struct sample *sample, struct evidence *evidence, bool devices, bool waiters)
{
        size_t rows = sample_rows(sample, SCOPE_CPU), most = 0;
        void *sums = judge->sums, *parts = judge->parts;

        for (size_t i = 0; i < rows; i++) {
                struct key key = row_key(sample_row_at(sample, SCOPE_CPU, i));
                if (key.a < CORES_MAX && key.a >= most)
                        most = (size_t)key.a + 1;
        }
        int r = room(&sums, &judge->sums_capacity, most, sizeof *judge->sums);
        judge->sums = sums;
        if (r == 0)
                r = room(&parts, &judge->parts_capacity, evidence->core_count, sizeof *judge->parts);
        judge->parts = parts;
        if (r < 0) {
                write_absent(sample);
                return r;
        }
        judge_cores(judge, evidence, devices, waiters);
        for (size_t i = 0; i < rows; i++) {
                struct row *row = sample_row_at(sample, SCOPE_CPU, i);
                struct key key = row_key(row);
                if (key.a < judge->sums_capacity)
                        write_row(row, &judge->sums[key.a]);
        }
        return 0;
}

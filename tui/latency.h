#pragma once
/*
 * Block latency over a state's interval, whatever its length: the rows of scopes stage, bio and sync with what they gained, and their
 * percentiles from the buckets of scope latency.
 *
 * One way to it for the live view, reports and comparisons. What cannot be computed (no base, a counter that began anew) is NAN, and a
 * percentile is given only when every duration that was counted is in a bucket that could be read: half of a histogram would be a wrong
 * one. The largest is exact over one tick, whose gauge says it; over more only its bucket is known, and so a bound.
 *
 * Names in here are strangers' raw bytes.
 */
#include <math.h>

#include "sample/histogram.h"
#include "sample/stage.h"
#include "sample/stage_sync.h"
#include "sample/state.h"

enum latency_kind { LATENCY_STAGES, LATENCY_BIOS, LATENCY_CALLS, LATENCY_KINDS };
enum { LATENCY_NAME = 32, LATENCY_OCTAVES = HISTOGRAM_BUCKETS / HISTOGRAM_STEPS };
#define LATENCY_SCOPES SCOPES_TRACED

struct latency_line {
        const struct state_row *row;
        uint32_t device, pid;          /* 0: none, or those that found no row of their own */
        uint8_t direction, what;       /* enum stage_direction; enum stage or enum sync_call */
        char name[LATENCY_NAME];       /* of the process */
        char device_name[LATENCY_NAME * 2];
        double count, errors, total;   /* gained; total in ns. NAN: not known */
        double path;                   /* stages: ns on the way that decided; the same of all stages but Q2C is Q2C's */
        double part[SYNC_PARTS];       /* bios, calls: ns by cause, they add up to the total. NAN all: not known */
};

struct latency {
        /* Stages by device, direction, stage; the others by the time that was waited, the most first. */
        struct latency_line *lines[LATENCY_KINDS];
        size_t count[LATENCY_KINDS], room[LATENCY_KINDS];
        double lost;                   /* records or events of tracing that found no room in this interval; NAN not known */
        int source;                    /* metric self.stages: 0 not possible, 1 not attached, 2 BPF, 3 tracefs; -1 not known */
};

/* Zero it first; memory is kept from one to the next. 0 or -ENOMEM. Lines point into the state. */
int latency_make(struct latency *, const struct state *);
void latency_fini(struct latency *);

static inline bool latency_counted(const struct latency_line *line)
{
        return line->count > 0; /* false for NAN */
}
/* Of a stage's line: the whole way of a device's bios. */
static inline bool latency_is_whole(const struct latency_line *line)
{
        return line->what == STAGE_Q2C;
}
static inline double latency_mean(const struct latency_line *line)
{
        return line->count > 0 ? line->total / line->count : (double)NAN;
}

struct latency_times {                 /* ns, NAN not known */
        double p50, p95, p99, longest;
        bool bound;                    /* it was no longer than `longest`, and in that bucket */
};
/* The line's durations added to a histogram. False: not all of them are there. */
bool latency_histogram(const struct state *, const struct latency_line *, struct histogram *);
void latency_times(const struct state *, const struct latency_line *, struct latency_times *);
/* The same of a histogram that several were added to. */
void latency_times_of(struct histogram *, struct latency_times *);
/* How many durations in each power of two: [0] below 16 ns, [k] from 2^(k + 3) ns. False: none can be told. */
bool latency_octaves(const struct state *, const struct latency_line *, uint32_t counts[LATENCY_OCTAVES]);

/* Line of the same device and direction, and this stage; NULL. */
const struct latency_line *latency_stage(const struct latency *, const struct latency_line *, enum stage);
/* Part of Q2C that a line of a stage is, 0 .. 1; 1 of Q2C itself. NAN not known. */
double latency_share(const struct latency *, const struct latency_line *);
/* Time by cause of a device and direction, from its processes where they are known, else from its stages. False: not known. */
bool latency_causes(const struct latency *, const struct latency_line *, double part[SYNC_PARTS]);
/* The largest part of a line and its share; -1: no time at all. */
int latency_largest(const double part[SYNC_PARTS], double *share);
/* Parts in tenths of a percent that add up to 1000 (0 when there is no time). */
void latency_tenths(const double *parts, int count, int *tenths);
/* "0.123", "12.30", "1234": ms; "-" for NAN. Returns buffer. */
char *latency_ms(char *buffer, size_t size, double ns);

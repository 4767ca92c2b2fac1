#pragma once
/*
 * Durations in log-linear buckets: every power of two is cut into 16, so a bucket is at most 1/16 wide and a percentile, told as a
 * bucket's middle, is at most 3.2% off (the promise is 5%). Below 16 ns each value has its own; the last bucket also takes what is longer
 * than 18 min.
 *
 * Count, total, smallest and largest are exact. Histograms add up, so a percentile is right over any span, device or process. A bucket's
 * number is a few shifts of the value, without a loop or a table: a BPF program can count into the same buckets.
 */
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BITS = 4, HISTOGRAM_STEPS = 1 << HISTOGRAM_BITS, HISTOGRAM_TOP = 40, /* 2^40 ns */
        HISTOGRAM_BUCKETS = (HISTOGRAM_TOP - HISTOGRAM_BITS + 1) * HISTOGRAM_STEPS };

struct histogram {
        uint64_t count, total, min, max; /* ns; min and max mean nothing while count is 0 */
        uint32_t buckets[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t ns)
{
        if (ns < HISTOGRAM_STEPS)
                return (unsigned)ns;
        if (ns >> HISTOGRAM_TOP)
                return HISTOGRAM_BUCKETS - 1;
        unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
        return (octave - HISTOGRAM_BITS) * HISTOGRAM_STEPS + (unsigned)(ns >> (octave - HISTOGRAM_BITS));
}

/* The smallest value of a bucket. */
uint64_t histogram_floor(unsigned bucket);
void histogram_add(struct histogram *, uint64_t ns);
/* So many samples of which only the bucket is known: smallest and largest become the bucket's own ends, the total that of its middle. */
void histogram_add_bucket(struct histogram *, unsigned bucket, uint64_t samples);
/* Everything of `more` added; buckets stop at UINT32_MAX instead of going round. */
void histogram_merge(struct histogram *, const struct histogram *more);
/* The value that a part of all samples (0 .. 1) does not exceed; 0 of an empty one. Never outside min .. max. */
double histogram_quantile(const struct histogram *, double part);
static inline double histogram_mean(const struct histogram *histogram)
{
        return histogram->count ? (double)histogram->total / (double)histogram->count : 0;
}

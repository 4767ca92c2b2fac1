/*
 * Log-linear histograms of durations. See histogram.h.
 */
#include "sample/histogram.h"

uint64_t histogram_floor(unsigned bucket)
{
        if (bucket < HISTOGRAM_STEPS)
                return bucket;
        unsigned shift = bucket / HISTOGRAM_STEPS - 1;
        return (uint64_t)(HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS) << shift;
}

static void extremes(struct histogram *histogram, uint64_t min, uint64_t max)
{
        if (histogram->count == 0 || min < histogram->min)
                histogram->min = min;
        if (histogram->count == 0 || max > histogram->max)
                histogram->max = max;
}

static uint64_t add_capped(uint64_t a, uint64_t b, uint64_t most)
{
        return b > most - a ? most : a + b;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
        uint32_t *bucket = &histogram->buckets[histogram_bucket(ns)];

        extremes(histogram, ns, ns);
        histogram->count++;
        histogram->total = add_capped(histogram->total, ns, UINT64_MAX);
        if (*bucket < UINT32_MAX)
                ++*bucket;
}

void histogram_add_bucket(struct histogram *histogram, unsigned bucket, uint64_t samples)
{
        if (samples == 0 || bucket >= HISTOGRAM_BUCKETS)
                return;
        uint64_t low = histogram_floor(bucket), high = bucket < HISTOGRAM_STEPS ? low : histogram_floor(bucket + 1) - 1;
        uint64_t middle = low + (high - low) / 2, most = middle > 0 ? UINT64_MAX / middle : UINT64_MAX;
        extremes(histogram, low, high);
        histogram->count += samples;
        histogram->total = add_capped(histogram->total, samples > most ? UINT64_MAX : samples * middle, UINT64_MAX);
        samples = samples < UINT32_MAX ? samples : UINT32_MAX;
        histogram->buckets[bucket] = (uint32_t)add_capped(histogram->buckets[bucket], samples, UINT32_MAX);
}

void histogram_merge(struct histogram *histogram, const struct histogram *more)
{
        if (more->count == 0)
                return;
        extremes(histogram, more->min, more->max);
        histogram->count += more->count;
        histogram->total = add_capped(histogram->total, more->total, UINT64_MAX);
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
                histogram->buckets[i] = (uint32_t)add_capped(histogram->buckets[i], more->buckets[i], UINT32_MAX);
}

double histogram_quantile(const struct histogram *histogram, double part)
{
        uint64_t sum = 0, wanted;

        if (histogram->count == 0)
                return 0;
        if (part <= 0)
                return (double)histogram->min;
        /* Rank as in "the smallest value that at least this part of the samples does not exceed". */
        double rank = part * (double)histogram->count;
        wanted = (uint64_t)rank;
        if ((double)wanted < rank)
                wanted++;
        if (wanted >= histogram->count)
                return (double)histogram->max;
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
                sum += histogram->buckets[i];
                if (sum < wanted)
                        continue;
                double low = (double)histogram_floor(i);
                double middle = i < HISTOGRAM_STEPS ? low : (low + (double)histogram_floor(i + 1)) / 2;
                if (i == HISTOGRAM_BUCKETS - 1 || middle > (double)histogram->max)
                        return (double)histogram->max;
                return middle < (double)histogram->min ? (double)histogram->min : middle;
        }
        return (double)histogram->max;
}

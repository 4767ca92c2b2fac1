/*
 * Histograms of durations: exact sums, percentiles within the promised 5% of those of the sorted samples themselves.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/histogram.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        return random_state ^= random_state << 17;
}

static void buckets_are_in_order(void **state)
{
        (void)state;
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
                assert_int_equal(histogram_bucket(histogram_floor(i)), i);
                if (i > 0) {
                        assert_true(histogram_floor(i) > histogram_floor(i - 1));
                        assert_int_equal(histogram_bucket(histogram_floor(i) - 1), i - 1);
                }
        }
        assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
        assert_int_equal(histogram_bucket(0), 0);
}

/* So many samples of a bucket at once are as that many one by one, but for what is inside of the bucket. */
static void whole_buckets_add_up(void **state)
{
        static struct histogram one, many;
        (void)state;
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket += 7) {
                memset(&many, 0, sizeof many);
                memset(&one, 0, sizeof one);
                histogram_add_bucket(&many, bucket, 0);
                assert_int_equal(many.count, 0);
                histogram_add_bucket(&many, bucket, 3);
                for (int i = 0; i < 3; i++)
                        histogram_add(&one, histogram_floor(bucket));
                assert_int_equal(many.count, 3);
                assert_memory_equal(many.buckets, one.buckets, sizeof one.buckets);
                assert_true(many.min == histogram_floor(bucket) && many.max >= many.min);
                assert_int_equal(histogram_bucket(many.max), bucket);
                assert_true(many.total >= one.total && (double)many.total <= (double)one.total * 17 / 16);
        }
        histogram_add_bucket(&many, 3, UINT64_MAX / 2);
        assert_int_equal(many.buckets[3], UINT32_MAX);
        histogram_add_bucket(&many, HISTOGRAM_BUCKETS, 1);
}

static int by_value(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

/* kind 0: even, 1: over seven decades, 2: two modes, 3: one value. */
static uint64_t draw(int kind)
{
        switch (kind) {
        case 0: return random_next() % 1000000;
        case 1: return (uint64_t)pow(10, 2 + 7 * (double)(random_next() % 1000000) / 1e6);
        case 2: return random_next() % 50 ? 60000 + random_next() % 20000 : 8000000 + random_next() % 9000000;
        default: return 4193;
        }
}

static void percentiles_hold(void **state)
{
        static const double parts[] = {0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
        enum { N = 20000 };
        static uint64_t values[N];

        (void)state;
        for (int kind = 0; kind < 4; kind++) {
                struct histogram histogram = {0};
                uint64_t total = 0;
                for (int i = 0; i < N; i++) {
                        values[i] = draw(kind);
                        total += values[i];
                        histogram_add(&histogram, values[i]);
                }
                qsort(values, N, sizeof *values, by_value);
                assert_int_equal(histogram.count, N);
                assert_int_equal(histogram.total, total);
                assert_int_equal(histogram.min, values[0]);
                assert_int_equal(histogram.max, values[N - 1]);
                for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                        double exact = (double)values[(size_t)ceil(parts[i] * N) - 1], told = histogram_quantile(&histogram, parts[i]);
                        assert_true(fabs(told - exact) <= 0.05 * exact);
                }
        }
}

static void halves_add_up(void **state)
{
        struct histogram all = {0}, a = {0}, b = {0}, empty = {0};

        (void)state;
        for (int i = 0; i < 5000; i++) {
                uint64_t value = draw(1);
                histogram_add(&all, value);
                histogram_add(i % 3 ? &a : &b, value);
        }
        histogram_merge(&a, &empty);
        histogram_merge(&empty, &a);
        histogram_merge(&empty, &b);
        assert_memory_equal(&all, &empty, sizeof all);
}

static void edges(void **state)
{
        struct histogram histogram = {0};

        (void)state;
        assert_true(histogram_quantile(&histogram, 0.5) == 0 && histogram_mean(&histogram) == 0);
        histogram_add(&histogram, UINT64_MAX);
        histogram_add(&histogram, UINT64_MAX); /* the sum stays at its end instead of going round */
        assert_true(histogram.total == UINT64_MAX && histogram.max == UINT64_MAX);
        assert_true(histogram_quantile(&histogram, 0.99) == (double)UINT64_MAX);
        histogram.buckets[3] = UINT32_MAX;
        histogram_add(&histogram, 3);
        assert_int_equal(histogram.buckets[3], UINT32_MAX);
        assert_int_equal(histogram.min, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(buckets_are_in_order), cmocka_unit_test(whole_buckets_add_up), cmocka_unit_test(percentiles_hold),
                cmocka_unit_test(halves_add_up), cmocka_unit_test(edges),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Plots from plain arrays: bins over gaps and over more samples than there is room for, areas and lines as paths, steps of axes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/report_plot.h"

enum { MANY = 10000 };
static double at[MANY], length[MANY];
static float values[MANY];
static struct plot_bin bins[MANY];

static size_t make(size_t count, double scale, double least)
{
        return plot_bins(bins, at, length, count, (struct plot_series){values, 1}, 100, scale, least);
}

static void seconds(size_t count)
{
        for (size_t i = 0; i < count; i++) {
                at[i] = (double)i + 1;
                length[i] = 1;
                values[i] = (float)i;
        }
}

static void each_sample(void **state)
{
        (void)state;
        seconds(4);
        assert_int_equal(make(4, 10, 5), 4);
        for (size_t i = 0; i < 4; i++) {
                assert_true(fabs(bins[i].from - (100 + 10.0 * (double)i)) < 1e-9 && fabs(bins[i].to - (110 + 10.0 * (double)i)) < 1e-9);
                assert_true(bins[i].first == i && bins[i].last == i + 1);
                assert_true(i == 0 || plot_joined(&bins[i - 1], &bins[i]));
        }
}

/* Neither a hole in time nor a sample without a value is drawn over. */
static void holes(void **state)
{
        (void)state;
        seconds(6);
        for (size_t i = 3; i < 6; i++)
                at[i] += 5;
        values[1] = NAN;
        assert_int_equal(make(6, 100, 1000), 3); /* 0 | 2 | 3-5 */
        assert_true(bins[0].last == 1 && bins[1].first == 2 && bins[1].last == 3 && bins[2].first == 3 && bins[2].last == 6);
        assert_false(plot_joined(&bins[0], &bins[1]));
        assert_false(plot_joined(&bins[1], &bins[2]));
        assert_true(fabs(bins[2].from - (100 + 800)) < 1e-9);
}

/* What was joined keeps its mean by time and its largest sample; nothing is lost or counted twice. */
static void many(void **state)
{
        double sum = 0, all = 0;

        (void)state;
        seconds(MANY);
        for (size_t i = 0; i < MANY; i++) {
                values[i] = i % 97 == 0 ? 100 : (float)(i % 7);
                all += (double)values[i];
        }
        size_t count = make(MANY, 1, 25);
        assert_true(count <= MANY / 25 + 1 && count >= MANY / 25 - 1);
        for (size_t b = 0; b < count; b++) {
                assert_int_equal(bins[b].first, b ? bins[b - 1].last : 0);
                sum += plot_bin_mean(&bins[b], (struct plot_series){values, 1}, length) * (double)(bins[b].last - bins[b].first);
                double most = plot_bin_max(&bins[b], (struct plot_series){values, 1}), wanted = 0;
                for (size_t i = bins[b].first; i < bins[b].last; i++)
                        wanted = fmax(wanted, (double)values[i]);
                assert_true(most == wanted);
        }
        assert_int_equal(bins[count - 1].last, MANY);
        assert_true(fabs(sum - all) < 1e-6 * all);
}

static void weighted(void **state)
{
        (void)state;
        at[0] = 1, length[0] = 1, values[0] = 10;
        at[1] = 4, length[1] = 3, values[1] = 50;
        assert_int_equal(make(2, 1, 100), 1);
        assert_true(fabs(plot_bin_mean(&bins[0], (struct plot_series){values, 1}, length) - 40) < 1e-9);
        values[0] = values[1] = NAN;
        assert_int_equal(make(2, 1, 100), 0);
        struct plot_bin none = {0, 1, 0, 2};
        assert_true(isnan(plot_bin_mean(&none, (struct plot_series){values, 1}, length)) && isnan(plot_bin_max(&none,
                (struct plot_series){values, 1})));
}

static char *area(const double *low, const double *high, size_t count, double top, bool line)
{
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        if (line)
                plot_line(out, bins, high, count, top);
        else
                plot_area(out, bins, low, high, count, top);
        fclose(out);
        return text;
}

static void path_is(const double *low, const double *high, size_t count, bool line, const char *wanted)
{
        char *text = area(low, high, count, 100, line);

        assert_string_equal(text, wanted);
        free(text);
}

static void paths(void **state)
{
        (void)state;
        for (size_t i = 0; i < 4; i++)
                bins[i] = (struct plot_bin){100.0 * (double)i, 100.0 * (double)i + 100, i, i + 1};
        path_is(NULL, (double[]){50, 50, 75}, 3, false, "M0 500H200V250H300V1000H0Z");
        path_is((double[]){50, 50, 75}, (double[]){60, 60, 75}, 3, false, "M0 400H200V250H300V250H200V500H0Z");
        path_is(NULL, (double[]){50, NAN, 75}, 3, false, "M0 500H100V1000H0ZM200 250H300V1000H200Z");
        path_is(NULL, (double[]){0, 0, 0}, 3, false, "");                       /* nothing to see, nothing written */
        path_is(NULL, (double[]){250, -5}, 2, false, "M0 0H100V1000H200V1000H0Z"); /* never out of the box */
        path_is(NULL, (double[]){50, 50, 75}, 3, true, "M0 500H200V250H300");
        bins[1].to = 150; /* a gap before the third */
        path_is(NULL, (double[]){50, 50, 50}, 3, true, "M0 500H150M200 500H300");
}

static void steps(void **state)
{
        (void)state;
        assert_true(plot_step(800, 4) == 200 && plot_step(100, 4) == 50 && plot_step(7, 4) == 2 && plot_step(0.03, 4) == 0.01);
        assert_true(plot_top(801, 4) == 1000 && plot_top(800, 4) == 800 && fabs(plot_top(0.031, 4) - 0.04) < 1e-12);
        assert_true(plot_step(0, 4) == 1 && plot_step(NAN, 4) == 1 && plot_step(INFINITY, 4) == 1 && plot_top(NAN, 4) > 0 && plot_top(-3,
                4) > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_sample), cmocka_unit_test(holes), cmocka_unit_test(many), cmocka_unit_test(weighted),
                cmocka_unit_test(paths), cmocka_unit_test(steps),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

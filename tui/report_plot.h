#pragma once
/*
 * Plots as SVG paths, from plain arrays: samples over time become bins, bins become stepped areas and lines.
 *
 * A plot is a box of PLOT_WIDTH x PLOT_HEIGHT units that the page stretches to whatever room there is, so nothing here is text and lines
 * have the class `line` (not scaled). A sample is a mean over its interval, so it is drawn as a step as wide as that. Where samples are
 * missing nothing is drawn, never a line across. More samples than the plot has room for are joined: a bin's height is the mean weighted by
 * time, its largest sample is plot_bin_max.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PLOT_WIDTH = 10000, PLOT_HEIGHT = 1000 };

struct plot_bin {
        double from, to;       /* x, in units */
        size_t first, last;    /* samples [first, last) */
};

/* One series of samples: value i is values[i * stride], NAN where it is not known. */
struct plot_series {
        const float *values;
        size_t stride;
};

/* Samples with ends at[i] (s, rising) and lengths; those whose `known` is NAN are holes. x = start + at * scale. A bin is at least `least`
 * units wide where it has neighbours. bins has room for `count`; returns how many. */
size_t plot_bins(struct plot_bin *bins, const double *at, const double *length, size_t count, struct plot_series known, double start,
        double scale, double least);
/* The mean weighted by time and the largest of its samples; NAN when none has a value. */
double plot_bin_mean(const struct plot_bin *, struct plot_series, const double *length);
double plot_bin_max(const struct plot_bin *, struct plot_series);
/* True when the next bin begins where this one ends. */
bool plot_joined(const struct plot_bin *, const struct plot_bin *next);

/* Path data of the area between low[i] and high[i] (low NULL = 0), and of the line along high[i]. `top` is the value at the box's upper
 * edge; what is above it is cut there. A NAN ends the run. Returns true when anything was written (areas without height are not). */
bool plot_area(FILE *, const struct plot_bin *, const double *low, const double *high, size_t count, double top);
bool plot_line(FILE *, const struct plot_bin *, const double *high, size_t count, double top);

/* 1, 2 or 5 times a power of ten, so that `range` has at most `most` steps; and the range rounded up to such steps. */
double plot_step(double range, unsigned most);
double plot_top(double largest, unsigned most);

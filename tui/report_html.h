#pragma once
/*
 * Inside of the HTML page: what its files share. The page is well-formed XML too, so that any parser can check it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tui/report.h"
#include "tui/report_plot.h"

/* Text of a stranger, escaped for HTML text and attributes. */
void html_text(FILE *, const char *text);
void html_bytes(FILE *, const char *text, size_t length);

/* report_html_style.c */
extern const char *const html_style;

/* ---- plots (report_html_plots.c) ----------------------------------------------------------------------------------------------------- */

/* One axis of time for all plots: phases side by side, long holes between them shortened. Two resolutions: wide plots and the small ones of
 * cores. */
enum html_size { HTML_WIDE, HTML_SMALL, HTML_SIZES };
struct html_bins {
        struct plot_bin *bins;  /* of all phases, one after the other */
        size_t *from;           /* [phase_count + 1]: which are a phase's */
        bool joined;            /* some hold more than one sample */
};
struct html_axis {
        const struct report *report;
        double *start, *begin, *length; /* a phase's: x in units; seconds after the first one began; seconds */
        double scale;           /* units a second */
        struct html_bins sizes[HTML_SIZES];
        double *low, *high;     /* scratch, one a bin */
};
/* 0 or -ENOMEM; also when there is nothing to plot: then sizes[].from[phase_count] is 0. */
int html_axis_init(struct html_axis *, const struct report *);
void html_axis_fini(struct html_axis *);

enum { HTML_UNSPLIT = -1 };     /* wa less its parts: where they are not known */
struct html_layer {
        const char *class, *name;
        int index;              /* of the sample's values, or HTML_UNSPLIT */
};
struct html_chart {
        const char *title, *unit;
        enum html_size size;
        const struct html_layer *layers;
        size_t count;           /* stacked, the first at the bottom */
        int envelope;           /* index of the value whose maxima are drawn as a line where samples were joined; -1 none */
        double top;             /* of the value's axis; 0 = from the values */
        double least_top;       /* and then at least this */
        /* The values of a phase: false when it has none. */
        bool (*series)(const struct report_phase *, const void *own, struct plot_series *);
        const void *own;
};
/* Draws nothing and returns 0 when no phase has values; 1 drawn; -ENOMEM. */
int html_chart(FILE *, const struct html_axis *, const struct html_chart *);

/* All plots of the page: CPU, wa, groups, cores, devices (report_html_charts.c). 0, -ENOMEM. */
int html_charts(FILE *, const struct report *);
/* Bars of block latency and of calls that wait for data, of a phase that is valid (report_html_stages.c). 0 or -ENOMEM. */
int html_latency(FILE *, const struct report_phase *);
/* Bars of results, a row a phase. */
void html_results(FILE *, const struct report *);

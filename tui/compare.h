#pragma once
/*
 * Recordings side by side: one row a recording (or a round of one), one column a phase name in order of appearance, one result
 * in the cells.
 *
 * A cell of a recording whose phases ran several times (--repeat) is the mean of its rounds. Recordings with the same label are rounds of
 * the same thing too, and form a group. Noise is what is known of repetitions and nothing else: the largest difference between rounds of
 * one phase of one group, (largest - least) / least. A smaller difference between cells is "within noise"; without repetitions noise is not
 * known, and nothing is judged.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tui/report.h"

enum { COMPARE_MOST = 64, COMPARE_LABEL = 128, COMPARE_DISK = 8 };
extern const char *const compare_disk_heads[COMPARE_DISK]; /* of VIEW_DISK: what is compared */

enum compare_judged { COMPARE_UNKNOWN, COMPARE_WITHIN, COMPARE_BEYOND };

/* A difference in % and what noise says of it. NAN: there is nothing to compare. */
struct compare_change {
        double percent;
        enum compare_judged judged;
};

struct compare_device {
        char name[64];
        unsigned rounds;
        struct value value[COMPARE_DISK]; /* means over rounds */
};

struct compare_cpu {              /* means over rounds; SUM over cores, % of one core */
        struct value us_sy, hi_si, load, share, wa, disk, uring, other;
        double hottest;           /* load of the busiest core, the largest of rounds; NAN */
        unsigned hottest_core;
};

struct compare_sum {              /* a result over rounds */
        double value;             /* mean; NAN: none, or a range */
        double least, largest;    /* of rounds; of ranges their ends; NAN: none */
        size_t count;             /* rounds that have it */
};

struct compare_cell {
        const struct report_phase **rounds; /* in order; NULL when this recording has no such phase */
        size_t round_count;
        struct compare_sum sum;   /* the chosen result */
        double per_core;          /* value / (load / 100); NAN */
        struct compare_change growth;  /* from the nearest cell to the left that has a value */
        struct compare_change against; /* from the same column of the row that this one is held against */
        struct compare_cpu cpu;
        struct compare_device *devices; /* busiest first */
        size_t device_count;
};

struct compare_row {
        const struct report *report;
        size_t recording;         /* its place among the arguments, from 0 */
        unsigned number;          /* as shown, from 1 */
        unsigned round;           /* only this one; 0: the mean of all */
        unsigned group;           /* rows of one label, or one recording, have the same; from 0, in order */
        char label[COMPARE_LABEL];
        size_t against;           /* row; SIZE_MAX: none */
        struct compare_cell *cells; /* [column_count] */
        size_t best;              /* column; SIZE_MAX: none */
};

struct compare_best {             /* of a group */
        size_t row, column;
        char label[COMPARE_LABEL];
        struct compare_change growth; /* from the group before */
};

struct compare {
        struct report *reports[COMPARE_MOST];
        const char *names[COMPARE_MOST]; /* labels, or file names */
        unsigned groups_of[COMPARE_MOST]; /* recording -> group */
        size_t report_count;
        char result[RESULT_NAME], unit[12]; /* what is in the cells; "" none found */
        bool more_is_better;
        char (*columns)[PHASE_NAME + 1]; /* phase names; "" = the whole recording */
        size_t column_count;
        bool joined;              /* each recording has a single phase, of different names: they share the one column */
        struct compare_row *rows;
        size_t row_count;
        struct compare_best *bests;
        size_t best_count;
        double noise;             /* %; NAN: no repetitions */
        double noise_sd;          /* standard deviation of one round from its phase's mean, all phases together, %; NAN */
        size_t noise_cells, noise_rounds; /* phases that ran more than once, and their rounds */
        char noise_at[COMPARE_LABEL + PHASE_NAME + 8]; /* where the largest difference is */
};

/* Fills it from its reports (which it then owns, also on failure). result: the name wanted, NULL = the first rate. rounds: one row a round.
 * 0; -ENOMEM; -ENOENT: no such result, with those there are in `why`. */
int compare_make(struct compare *, const char *result, bool rounds, char *why, size_t size);
void compare_free(struct compare *);
/* The combined result of a phase by name and unit; NULL. */
const struct report_result *compare_result(const struct report_phase *, const char *name, const char *unit);
struct compare_sum compare_sum_of(const struct compare_cell *, const char *name, const char *unit);
/* compare_noise.c: noise, growth, bests. */
int compare_judge(struct compare *);
double compare_noise_of(const struct compare *, const char *name, const char *unit); /* of another result, %; NAN */

/* ---- shown (compare_tables.c, compare_write.c) --------------------------------------------------------------------------------------- */

/* width 0 = no limit. 0, -ENOMEM, -errno of the write. */
int compare_text(const struct compare *, unsigned width, bool utf8, FILE *);
int compare_markdown(const struct compare *, FILE *);
int compare_csv(const struct compare *, FILE *);
int compare_json(const struct compare *, FILE *);

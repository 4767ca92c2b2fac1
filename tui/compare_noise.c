/*
 * Growth, bests, and what of it noise could have made. Contract: compare.h.
 *
 * Noise is the largest difference between rounds, not a standard error: two or three rounds a phase are usual, of which no error of a mean
 * can be trusted, and the largest of all phases claims rather too little than too much. The pooled standard deviation is there for who
 * wants to reckon further.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/compare.h"

static double percent(double from, double to)
{
        return from > 0 ? 100 * (to / from - 1) : (double)NAN;
}

static struct compare_change change(const struct compare *c, double from, double to)
{
        struct compare_change change = {percent(from, to), COMPARE_UNKNOWN};

        if (!isnan(change.percent) && !isnan(c->noise))
                change.judged = fabs(change.percent) <= c->noise ? COMPARE_WITHIN : COMPARE_BEYOND;
        return change;
}

/* ---- noise --------------------------------------------------------------------------------------------------------------------------- */

struct repeated {
        double least, largest, sum, squares;
        size_t count;
};

/* All rounds of one column in one group, whichever recordings they are in. */
static struct repeated rounds_of(const struct compare *c, unsigned group, size_t column, const char *name, const char *unit)
{
        struct repeated all = {.least = (double)NAN, .largest = (double)NAN};

        for (size_t i = 0; i < c->row_count; i++) {
                const struct compare_cell *cell = &c->rows[i].cells[column];
                for (size_t n = 0; n < cell->round_count && c->rows[i].group == group; n++) {
                        const struct report_result *found = compare_result(cell->rounds[n], name, unit);
                        if (!found || isnan(found->sum.value))
                                continue;
                        double v = found->sum.value;
                        all.least = !(v >= all.least) ? v : all.least;
                        all.largest = !(v <= all.largest) ? v : all.largest;
                        all.sum += v;
                        all.squares += v * v;
                        all.count++;
                }
        }
        return all;
}

double compare_noise_of(const struct compare *c, const char *name, const char *unit)
{
        double noise = (double)NAN;

        for (unsigned g = 0; g < c->report_count; g++)
                for (size_t k = 0; k < c->column_count; k++) {
                        struct repeated all = rounds_of(c, g, k, name, unit);
                        double difference = percent(all.least, all.largest);
                        if (all.count >= 2 && !isnan(difference) && !(difference <= noise))
                                noise = difference;
                }
        return noise;
}

static void find_noise(struct compare *c)
{
        double deviations = 0;
        size_t freedom = 0;

        c->noise = c->noise_sd = (double)NAN;
        for (unsigned g = 0; c->result[0] && g < c->report_count; g++)
                for (size_t k = 0; k < c->column_count; k++) {
                        struct repeated all = rounds_of(c, g, k, c->result, c->unit);
                        double n = (double)all.count, difference = percent(all.least, all.largest);
                        if (all.count < 2 || isnan(difference))
                                continue;
                        c->noise_cells++;
                        c->noise_rounds += all.count;
                        double mean = all.sum / n, variance = all.squares / n - mean * mean;
                        deviations += variance > 0 ? variance * n / (mean * mean) : 0;
                        freedom += all.count - 1;
                        if (!(difference <= c->noise)) {
                                c->noise = difference;
                                snprintf(c->noise_at, sizeof c->noise_at, "%s", c->columns[k]);
                        }
                }
        if (freedom > 0)
                c->noise_sd = 100 * sqrt(deviations / (double)freedom);
}

/* ---- growth and bests ---------------------------------------------------------------------------------------------------------------- */

static bool better(const struct compare *c, double one, double other)
{
        return isnan(other) || (c->more_is_better ? one > other : one < other);
}

static void judge_row(struct compare *c, struct compare_row *row)
{
        double before = (double)NAN, best = (double)NAN;

        for (size_t k = 0; k < c->column_count; k++) {
                struct compare_cell *cell = &row->cells[k];
                if (isnan(cell->sum.value)) {
                        if (cell->round_count > 0) /* something else was measured in between: as in a report */
                                before = (double)NAN;
                        continue;
                }
                cell->growth = change(c, before, cell->sum.value);
                before = cell->sum.value;
                if (better(c, cell->sum.value, best)) {
                        best = cell->sum.value;
                        row->best = k;
                }
                if (row->against == SIZE_MAX)
                        continue;
                const struct compare_row *other = &c->rows[row->against];
                cell->against = change(c, other->cells[k].sum.value, cell->sum.value);
                if (other->group == row->group) /* rounds of the same thing: this difference is the noise, not judged by it */
                        cell->against.judged = COMPARE_UNKNOWN;
        }
}

static double value_at(const struct compare *c, const struct compare_best *best)
{
        return c->rows[best->row].cells[best->column].sum.value;
}

static void group_best(struct compare *c, unsigned group)
{
        struct compare_best best = {.row = SIZE_MAX, .growth = {(double)NAN, COMPARE_UNKNOWN}};

        for (size_t i = 0; i < c->row_count; i++) {
                const struct compare_row *row = &c->rows[i];
                if (row->group != group || row->best == SIZE_MAX)
                        continue;
                if (best.row == SIZE_MAX || better(c, row->cells[row->best].sum.value, value_at(c, &best))) {
                        best.row = i;
                        best.column = row->best;
                }
        }
        if (best.row == SIZE_MAX)
                return;
        snprintf(best.label, sizeof best.label, "%.*s", COMPARE_LABEL - 1, c->rows[best.row].label);
        const char *name = c->names[c->rows[best.row].recording];
        if (strncmp(best.label, name, strlen(name)) == 0 && strlen(name) < sizeof best.label)
                best.label[strlen(name)] = '\0'; /* without " round N" */
        if (c->best_count > 0)
                best.growth = change(c, value_at(c, &c->bests[c->best_count - 1]), value_at(c, &best));
        c->bests[c->best_count++] = best;
}

int compare_judge(struct compare *c)
{
        find_noise(c);
        for (size_t i = 0; i < c->row_count; i++)
                judge_row(c, &c->rows[i]);
        c->bests = calloc(c->report_count + 1, sizeof *c->bests);
        if (!c->bests)
                return -ENOMEM;
        for (unsigned g = 0; g < c->report_count; g++)
                group_best(c, g);
        return 0;
}

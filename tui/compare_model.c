/*
 * Rows, columns and cells of a comparison. Contract: compare.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/compare.h"

const char *const compare_disk_heads[COMPARE_DISK] = {"r/s", "rkB/s", "r_await", "w/s", "wkB/s", "w_await", "aqu-sz", "%util"};

/* ---- which result -------------------------------------------------------------------------------------------------------------------- */

const struct report_result *compare_result(const struct report_phase *phase, const char *name, const char *unit)
{
        for (size_t i = 0; i < phase->result_count; i++) {
                const struct result *first = phase->results[i].sum.first;
                if (strcmp(first->name, name) == 0 && strcmp(first->unit, unit) == 0)
                        return &phase->results[i];
        }
        return NULL;
}

static void take(struct compare *c, const struct report_result *result)
{
        snprintf(c->result, sizeof c->result, "%s", result->sum.first->name);
        snprintf(c->unit, sizeof c->unit, "%s", result->sum.first->unit);
        c->more_is_better = report_is_rate(result);
}

/* "SET", or "SET r/s" where one name comes in several units. */
static bool is_named(const struct result *result, const char *wanted)
{
        size_t length = strlen(result->name);

        if (strcmp(result->name, wanted) == 0)
                return true;
        return strncmp(result->name, wanted, length) == 0 && wanted[length] == ' ' && strcmp(wanted + length + 1, result->unit) == 0;
}

static void list_results(const struct compare *c, char *why, size_t size)
{
        size_t used = (size_t)snprintf(why, size, "there is no such result; there are:");

        for (size_t r = 0; r < c->report_count; r++)
                for (size_t p = 0; p < c->reports[r]->phase_count; p++)
                        for (size_t i = 0; i < c->reports[r]->phases[p].result_count && used < size; i++) {
                                const struct result *found = c->reports[r]->phases[p].results[i].sum.first;
                                char item[RESULT_NAME + 4];
                                snprintf(item, sizeof item, " '%s'", found->name);
                                if (!strstr(why, item))
                                        used += (size_t)snprintf(why + used, size - used, "%s", item);
                        }
        if (strchr(why, '\'') == NULL)
                snprintf(why, size, "no results were found in these recordings");
}

static int choose(struct compare *c, const char *wanted, char *why, size_t size)
{
        for (size_t r = 0; r < c->report_count; r++)
                for (size_t p = 0; p < c->reports[r]->phase_count; p++) {
                        const struct report_phase *phase = &c->reports[r]->phases[p];
                        for (size_t i = 0; i < phase->result_count; i++) {
                                if (wanted ? is_named(phase->results[i].sum.first, wanted) : report_is_rate(&phase->results[i])) {
                                        take(c, &phase->results[i]);
                                        return 0;
                                }
                        }
                }
        c->more_is_better = true;
        if (!wanted)
                return 0; /* CPU and devices can be compared without */
        list_results(c, why, size);
        return -ENOENT;
}

/* ---- columns ------------------------------------------------------------------------------------------------------------------------- */

static size_t column_of(const struct compare *c, const char *name)
{
        for (size_t i = 0; i < c->column_count; i++)
                if (strcmp(c->columns[i], name) == 0)
                        return i;
        return SIZE_MAX;
}

static bool one_name(const struct report *report)
{
        for (size_t p = 1; p < report->phase_count; p++)
                if (strcmp(report->phases[p].name, report->phases[0].name) != 0)
                        return false;
        return report->phase_count > 0;
}

/* Phases of different names are the same column only where there is nothing else to compare: each recording has a single one, no two
 * alike. */
static bool join_columns(const struct compare *c)
{
        for (size_t r = 0; r < c->report_count; r++) {
                if (!one_name(c->reports[r]))
                        return false;
                for (size_t o = 0; o < r; o++)
                        if (strcmp(c->reports[r]->phases[0].name, c->reports[o]->phases[0].name) == 0)
                                return false;
        }
        return c->report_count > 1;
}

/* A name that an earlier recording does not have stands behind the one that it follows in its own, so that steps stay in order. */
static size_t insert_column(struct compare *c, size_t at, const char *name)
{
        memmove(c->columns + at + 1, c->columns + at, (c->column_count - at) * sizeof *c->columns);
        snprintf(c->columns[at], sizeof *c->columns, "%s", name);
        c->column_count++;
        return at;
}

static int make_columns(struct compare *c)
{
        size_t room = 1;

        for (size_t r = 0; r < c->report_count; r++)
                room += c->reports[r]->phase_count;
        c->columns = calloc(room, sizeof *c->columns);
        if (!c->columns)
                return -ENOMEM;
        c->joined = join_columns(c);
        if (c->joined) {
                c->column_count = 1;
                return 0;
        }
        for (size_t r = 0; r < c->report_count; r++) {
                size_t before = c->column_count; /* none yet: a new name comes last */
                for (size_t p = 0; p < c->reports[r]->phase_count; p++) {
                        const char *name = c->reports[r]->phases[p].name;
                        size_t found = column_of(c, name);
                        if (found == SIZE_MAX)
                                found = insert_column(c, before < c->column_count ? before + 1 : before, name);
                        before = found;
                }
        }
        return 0;
}

/* ---- means over rounds --------------------------------------------------------------------------------------------------------------- */

/* Adds one to a sum whose count is kept in `flags`, where nobody else looks. What is weakest about one is said of all. */
static void add(struct value *sum, struct value one)
{
        if (one.kind != VALUE_NUMBER)
                return;
        if (sum->kind != VALUE_NUMBER)
                *sum = (struct value){.kind = VALUE_NUMBER, .mark = one.mark};
        else if (one.mark != sum->mark)
                sum->mark = sum->mark == MARK_EXACT ? one.mark : one.mark == MARK_EXACT ? sum->mark : MARK_ESTIMATE;
        sum->number += one.number;
        sum->low += one.low;
        sum->high += one.high;
        sum->flags++;
}

static void divide(struct value *sum)
{
        if (sum->kind != VALUE_NUMBER)
                return;
        sum->number /= sum->flags;
        sum->low /= sum->flags;
        sum->high /= sum->flags;
        sum->flags = 0;
}

static struct value number(double value)
{
        return isnan(value) ? (struct value){0} : table_number(value);
}

static void make_cpu(struct compare_cell *cell)
{
        struct compare_cpu *cpu = &cell->cpu;
        struct value *all[] = {&cpu->us_sy, &cpu->hi_si, &cpu->load, &cpu->share, &cpu->wa, &cpu->disk, &cpu->uring, &cpu->other};

        cpu->hottest = (double)NAN;
        for (size_t i = 0; i < cell->round_count; i++) {
                const struct report_phase *p = cell->rounds[i];
                if (!p->valid)
                        continue;
                add(&cpu->us_sy, p->tally.us_sy);
                add(&cpu->hi_si, p->tally.hi_si);
                add(&cpu->load, number(p->load));
                add(&cpu->share, number(p->share));
                add(&cpu->wa, p->tally.wa);
                add(&cpu->disk, p->tally.disk);
                add(&cpu->uring, p->tally.uring);
                add(&cpu->other, p->tally.other);
                if (p->tally.valid && p->tally.busiest >= 0 && !(p->tally.busiest <= cpu->hottest)) {
                        cpu->hottest = p->tally.busiest;
                        cpu->hottest_core = p->tally.busiest_core;
                }
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                divide(all[i]);
}

struct compare_sum compare_sum_of(const struct compare_cell *cell, const char *name, const char *unit)
{
        struct compare_sum all = {(double)NAN, (double)NAN, (double)NAN, 0};
        double sum = 0;
        size_t singles = 0;

        for (size_t i = 0; i < cell->round_count && name[0]; i++) {
                const struct report_result *found = compare_result(cell->rounds[i], name, unit);
                if (!found)
                        continue;
                bool single = !isnan(found->sum.value);
                double low = single ? found->sum.value : found->sum.least, high = single ? found->sum.value : found->sum.largest;
                all.least = !(low >= all.least) ? low : all.least;
                all.largest = !(high <= all.largest) ? high : all.largest;
                sum += single ? found->sum.value : 0;
                singles += single;
                all.count++;
        }
        if (singles > 0 && singles == all.count)
                all.value = sum / (double)singles;
        return all;
}

static void make_value(const struct compare *c, struct compare_cell *cell)
{
        cell->sum = compare_sum_of(cell, c->result, c->unit);
        double load = cell->cpu.load.kind == VALUE_NUMBER ? cell->cpu.load.number : 0;
        cell->per_core = c->more_is_better && load > 0 ? cell->sum.value / (load / 100) : (double)NAN;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------------- */

static struct compare_device *device_of(struct compare_cell *cell, const char *name)
{
        for (size_t i = 0; i < cell->device_count; i++)
                if (strcmp(cell->devices[i].name, name) == 0)
                        return &cell->devices[i];
        struct compare_device *added = &cell->devices[cell->device_count++];
        snprintf(added->name, sizeof added->name, "%s", name);
        return added;
}

static int busier(const void *a, const void *b)
{
        const struct value *x = &((const struct compare_device *)a)->value[COMPARE_DISK - 1];
        const struct value *y = &((const struct compare_device *)b)->value[COMPARE_DISK - 1];
        double u = x->kind == VALUE_NUMBER ? x->number : -1, v = y->kind == VALUE_NUMBER ? y->number : -1;

        return (u < v) - (u > v);
}

static int make_devices(struct compare_cell *cell)
{
        size_t room = 1;

        for (size_t i = 0; i < cell->round_count; i++)
                room += cell->rounds[i]->valid ? cell->rounds[i]->device_count : 0;
        cell->devices = calloc(room, sizeof *cell->devices);
        if (!cell->devices)
                return -ENOMEM;
        for (size_t i = 0; i < cell->round_count; i++) {
                const struct report_phase *p = cell->rounds[i];
                for (size_t d = 0; p->valid && d < p->device_count; d++) {
                        if (!p->devices[d].used)
                                continue;
                        struct compare_device *device = device_of(cell, p->devices[d].name);
                        device->rounds++;
                        for (int v = 0; v < COMPARE_DISK; v++)
                                add(&device->value[v],
                                        report_capped(metric_column(VIEW_DISK, compare_disk_heads[v]), metric_value(p->state,
                                                p->devices[d].used, metric_column(VIEW_DISK, compare_disk_heads[v]))));
                }
        }
        for (size_t d = 0; d < cell->device_count; d++)
                for (int v = 0; v < COMPARE_DISK; v++)
                        divide(&cell->devices[d].value[v]);
        qsort(cell->devices, cell->device_count, sizeof *cell->devices, busier);
        return 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------- */

static int make_cell(const struct compare *c, const struct compare_row *row, size_t column, struct compare_cell *cell)
{
        const struct report *report = row->report;

        cell->rounds = calloc(report->phase_count + 1, sizeof *cell->rounds);
        if (!cell->rounds)
                return -ENOMEM;
        for (size_t p = 0; p < report->phase_count; p++) {
                const struct report_phase *phase = &report->phases[p];
                if ((c->joined || strcmp(phase->name, c->columns[column]) == 0) && (row->round == 0 || phase->round == row->round))
                        cell->rounds[cell->round_count++] = phase;
        }
        make_cpu(cell);
        make_value(c, cell);
        cell->growth.percent = cell->against.percent = (double)NAN;
        return make_devices(cell);
}

static const char *file_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

/* Recordings of one label are one group; those without are each their own. */
static void make_groups(struct compare *c)
{
        unsigned groups = 0;

        for (size_t r = 0; r < c->report_count; r++) {
                const char *label = c->reports[r]->label;
                size_t same = 0;
                while (same < r && (label[0] == '\0' || strcmp(c->reports[same]->label, label) != 0))
                        same++;
                c->groups_of[r] = same < r ? c->groups_of[same] : groups++;
                c->names[r] = label[0] ? label : file_name(c->reports[r]->path);
        }
}

static size_t group_size(const struct compare *c, unsigned group)
{
        size_t count = 0;

        for (size_t i = 0; i < c->row_count; i++)
                count += c->rows[i].group == group;
        return count;
}

static void make_label(const struct compare *c, struct compare_row *row)
{
        const char *name = c->names[row->recording];
        size_t length = strlen(name), before = 0;
        static const char ending[] = ".watop";

        if (length > sizeof ending - 1 && row->report->label[0] == '\0' && strcmp(name + length - (sizeof ending - 1), ending) == 0)
                length -= sizeof ending - 1;
        for (size_t i = 0; &c->rows[i] < row; i++)
                before += c->rows[i].group == row->group;
        if (group_size(c, row->group) > 1)
                snprintf(row->label, sizeof row->label, "%.*s round %zu", (int)(length < 100 ? length : 100), name, before + 1);
        else
                snprintf(row->label, sizeof row->label, "%.*s", (int)(length < 120 ? length : 120), name);
}

/* The first row of its own group, and the first of all for those that are the first of their groups. */
static size_t held_against(const struct compare *c, size_t row)
{
        if (row == 0)
                return SIZE_MAX;
        for (size_t i = 0; i < row; i++)
                if (c->rows[i].group == c->rows[row].group)
                        return i;
        return 0;
}

static int make_rows(struct compare *c, bool rounds)
{
        size_t room = 0;

        for (size_t r = 0; r < c->report_count; r++)
                room += rounds && c->reports[r]->rounds > 1 ? c->reports[r]->rounds : 1;
        c->rows = calloc(room, sizeof *c->rows);
        if (!c->rows)
                return -ENOMEM;
        for (size_t r = 0; r < c->report_count; r++) {
                unsigned count = rounds && c->reports[r]->rounds > 1 ? c->reports[r]->rounds : 1;
                for (unsigned n = 1; n <= count; n++)
                        c->rows[c->row_count++] = (struct compare_row){.report = c->reports[r], .recording = r, .round = count > 1 ? n : 0,
                                .group = c->groups_of[r], .best = SIZE_MAX};
        }
        for (size_t i = 0; i < c->row_count; i++) {
                struct compare_row *row = &c->rows[i];
                row->number = (unsigned)i + 1;
                row->against = held_against(c, i);
                make_label(c, row);
                row->cells = calloc(c->column_count + 1, sizeof *row->cells);
                if (!row->cells)
                        return -ENOMEM;
                for (size_t k = 0; k < c->column_count; k++) {
                        int r = make_cell(c, row, k, &row->cells[k]);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int compare_make(struct compare *c, const char *result, bool rounds, char *why, size_t size)
{
        int r = choose(c, result, why, size);
        if (r == 0)
                r = make_columns(c);
        if (r < 0)
                return r;
        make_groups(c);
        if (c->report_count == 1)
                rounds = true; /* nothing else is there to compare */
        r = make_rows(c, rounds);
        return r < 0 ? r : compare_judge(c);
}

void compare_free(struct compare *c)
{
        for (size_t i = 0; i < c->row_count && c->rows; i++) {
                for (size_t k = 0; c->rows[i].cells && k < c->column_count; k++) {
                        free(c->rows[i].cells[k].rounds);
                        free(c->rows[i].cells[k].devices);
                }
                free(c->rows[i].cells);
        }
        free(c->rows);
        free(c->columns);
        free(c->bests);
        for (size_t r = 0; r < c->report_count; r++)
                report_close(c->reports[r]);
        *c = (struct compare){0};
}

/*
 * Block latency in a comparison: Q2C of each device and direction, and the calls that wait for data, where block tracing was recorded.
 *
 * Over the rounds of a cell everything is added up, durations too, so means and percentiles are of all bios and calls and no means of
 * means. Processes of one name are one. A device that is slower stands beside itself: rows of a phase and device together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/compare.h"
#include "tui/compare_stages.h"
#include "tui/latency.h"

struct merged {
        char name[LATENCY_NAME * 2], what[24]; /* device, direction; or process, call */
        double count, total, part[SYNC_PARTS];
        bool whole;                    /* durations are all there */
        struct histogram histogram;
};

struct merged_list {
        struct merged **items;
        size_t count, room;
};

static void free_list(struct merged_list *list)
{
        for (size_t i = 0; i < list->count; i++)
                free(list->items[i]);
        free(list->items);
        *list = (struct merged_list){0};
}

static struct merged *find(const struct merged_list *list, const char *name, const char *what)
{
        for (size_t i = 0; i < list->count; i++)
                if (strcmp(list->items[i]->name, name) == 0 && strcmp(list->items[i]->what, what) == 0)
                        return list->items[i];
        return NULL;
}

static struct merged *want(struct merged_list *list, const char *name, const char *what)
{
        struct merged *item = find(list, name, what);

        if (item != NULL)
                return item;
        if (list->count == list->room) {
                size_t room = list->room ? 2 * list->room : 16;
                struct merged **grown = reallocarray(list->items, room, sizeof *grown);
                if (grown == NULL)
                        return NULL;
                list->items = grown;
                list->room = room;
        }
        item = calloc(1, sizeof *item);
        if (item == NULL)
                return NULL;
        snprintf(item->name, sizeof item->name, "%s", name);
        snprintf(item->what, sizeof item->what, "%s", what);
        item->whole = true;
        return list->items[list->count++] = item;
}

static int add_line(struct merged_list *list, const struct state *state, enum latency_kind kind, const struct latency_line *line)
{
        bool calls = kind == LATENCY_CALLS;
        const char *what = calls ? sync_call_name((enum sync_call)line->what) : stage_direction_name((enum stage_direction)line->direction);
        struct merged *item = want(list, calls ? line->name : line->device_name, what);

        if (item == NULL)
                return -ENOMEM;
        item->count += line->count;
        item->total += isnan(line->total) ? 0 : line->total;
        item->whole &= latency_histogram(state, line, &item->histogram);
        for (int part = 0; part < SYNC_PARTS; part++)
                item->part[part] += calls && line->part[part] > 0 ? line->part[part] : 0;
        return 0;
}

static int longer(const void *left, const void *right)
{
        const struct merged *a = *(struct merged *const *)left, *b = *(struct merged *const *)right;

        return a->total < b->total ? 1 : a->total > b->total ? -1 : 0;
}

/* Those of a cell, the longest waited for first. */
static int merge_cell(const struct compare_cell *cell, enum latency_kind kind, struct merged_list *list)
{
        struct latency latency = {0};
        int r = 0;

        for (size_t n = 0; n < cell->round_count && r == 0; n++) {
                const struct report_phase *phase = cell->rounds[n];
                if (!phase->valid || (r = latency_make(&latency, phase->state)) < 0)
                        continue;
                for (size_t i = 0; i < latency.count[kind] && r == 0; i++) {
                        const struct latency_line *line = &latency.lines[kind][i];
                        if (latency_counted(line) && (kind == LATENCY_CALLS || latency_is_whole(line)))
                                r = add_line(list, phase->state, kind, line);
                }
        }
        latency_fini(&latency);
        if (list->count > 1)
                qsort(list->items, list->count, sizeof *list->items, longer);
        return r;
}

static void times_of(struct merged *item, struct latency_times *times)
{
        if (!item->whole)
                item->histogram.count = 0;
        latency_times_of(&item->histogram, times);
}

/* ---- for people ---------------------------------------------------------------------------------------------------------------------- */

static void fill_row(struct grid *grid, enum latency_kind kind, struct merged *item)
{
        struct latency_times times;
        char text[32];
        double share;

        times_of(item, &times);
        grid_set(grid, 3, "%.0f", item->count);
        grid_set(grid, 4, "%s", latency_ms(text, sizeof text, item->total / item->count));
        grid_set(grid, 5, "%s", latency_ms(text, sizeof text, times.p50));
        grid_set(grid, 6, "%s", latency_ms(text, sizeof text, times.p99));
        grid_set(grid, 7, "%s%s", isnan(times.longest) ? "" : "<", latency_ms(text, sizeof text, times.longest));
        int part = kind == LATENCY_CALLS ? latency_largest(item->part, &share) : -1;
        if (part >= 0)
                grid_set(grid, 8, "%s %.0f%%", sync_part_name(part), share * 100);
}

/* Rows of one device or call in a phase, one a recording. */
static void fill_rows(struct grid *grid, enum latency_kind kind, const struct compare *c, size_t column, const struct merged_list *lists,
        const struct merged *wanted, const char *phase, bool markdown)
{
        bool first = true;

        for (size_t i = 0; i < c->row_count; i++) {
                struct merged *item = find(&lists[i * c->column_count + column], wanted->name, wanted->what);
                if (item == NULL)
                        continue;
                grid_row(grid);
                if (first || markdown) {
                        grid_set(grid, 0, "%s", phase);
                        grid_set(grid, 1, "%s %s", item->name[0] ? item->name : "-", item->what);
                }
                grid_set(grid, 2, "%u", c->rows[i].number);
                fill_row(grid, kind, item);
                first = false;
                phase = markdown ? phase : "";
        }
}

static bool told_before(const struct compare *c, size_t row, size_t column, const struct merged_list *lists, const struct merged *item)
{
        for (size_t i = 0; i < row; i++)
                if (find(&lists[i * c->column_count + column], item->name, item->what))
                        return true;
        return false;
}

static void fill_grid(struct grid *grid, enum latency_kind kind, const struct compare *c, const struct merged_list *lists, bool markdown)
{
        static const char *const of_devices[] = {"phase", "device, ms", "#", "bios", "mean", "p50", "p99", "max"};
        static const char *const of_calls[] = {"phase", "call, ms", "#", "calls", "mean", "p50", "p99", "max", "most"};
        size_t columns = kind == LATENCY_CALLS ? sizeof of_calls / sizeof *of_calls : sizeof of_devices / sizeof *of_devices;

        grid_init(grid, columns, 3);
        grid_row(grid);
        for (size_t i = 0; i < columns; i++)
                grid_set(grid, i, "%s", kind == LATENCY_CALLS ? of_calls[i] : of_devices[i]);
        for (size_t k = 0; k < c->column_count; k++) {
                const char *phase = c->columns[k][0] ? c->columns[k] : c->joined ? "run" : "all";
                for (size_t i = 0; i < c->row_count; i++) {
                        const struct merged_list *list = &lists[i * c->column_count + k];
                        for (size_t n = 0; n < list->count && n < COMPARE_LATENCIES; n++) {
                                if (told_before(c, i, k, lists, list->items[n]))
                                        continue;
                                fill_rows(grid, kind, c, k, lists, list->items[n], phase, markdown);
                                phase = markdown ? phase : "";
                        }
                }
        }
}

int compare_latency_grid(const struct compare *c, bool calls, bool markdown, struct grid *grid)
{
        enum latency_kind kind = calls ? LATENCY_CALLS : LATENCY_STAGES;
        size_t cells = c->row_count * c->column_count;
        struct merged_list *lists = calloc(cells + 1, sizeof *lists);
        int r = lists ? 0 : -ENOMEM;

        for (size_t i = 0; i < c->row_count && r == 0; i++)
                for (size_t k = 0; k < c->column_count && r == 0; k++)
                        r = merge_cell(&c->rows[i].cells[k], kind, &lists[i * c->column_count + k]);
        if (r == 0)
                fill_grid(grid, kind, c, lists, markdown);
        for (size_t i = 0; lists && i < cells; i++)
                free_list(&lists[i]);
        free(lists);
        return r;
}

/* ---- for programs -------------------------------------------------------------------------------------------------------------------- */

static void put_ms(FILE *out, const char *name, double ns)
{
        struct value value = isfinite(ns) ? table_number(ns / 1e6) : (struct value){0};
        char text[64];

        value_exact(text, sizeof text, &value, "null");
        fprintf(out, ",\"%s\":%s", name, text);
}

static int put_list(const struct compare_cell *cell, enum latency_kind kind, const char *key, FILE *out)
{
        struct merged_list list = {0};
        int r = merge_cell(cell, kind, &list);

        fprintf(out, ",\"%s\":[", key);
        for (size_t i = 0; i < list.count && r == 0; i++) {
                struct merged *item = list.items[i];
                struct latency_times times;
                char name[6 * sizeof item->name + 8];
                clean_json(name, sizeof name, item->name, strlen(item->name));
                times_of(item, &times);
                fprintf(out, "%s{\"%s\":\"%s\",\"%s\":\"%s\",\"n\":%.0f", i ? "," : "", kind == LATENCY_CALLS ? "command" : "device", name,
                        kind == LATENCY_CALLS ? "call" : "direction", item->what, item->count);
                put_ms(out, "mean_ms", item->total / item->count);
                put_ms(out, "p50_ms", times.p50);
                put_ms(out, "p95_ms", times.p95);
                put_ms(out, "p99_ms", times.p99);
                put_ms(out, "max_at_most_ms", times.longest);
                for (int part = 0; part < SYNC_PARTS && kind == LATENCY_CALLS; part++) {
                        struct value share = item->total > 0 ? table_number(100 * item->part[part] / item->total) : (struct value){0};
                        char text[64];
                        value_exact(text, sizeof text, &share, "null");
                        fprintf(out, ",\"%s_pct\":%s", sync_part_name(part), text);
                }
                fputc('}', out);
        }
        fputc(']', out);
        free_list(&list);
        return r;
}

int compare_latency_json(const struct compare_cell *cell, FILE *out)
{
        int r = put_list(cell, LATENCY_STAGES, "latency", out);

        return r < 0 ? r : put_list(cell, LATENCY_CALLS, "sync", out);
}

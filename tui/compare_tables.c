/*
 * A comparison for people, as text and Markdown: the table of results, what noise says, the bests, then CPU, devices and other results side
 * by side.
 *
 * A difference in parentheses is within noise. Rows are numbered, and the numbers stand for them below, so that the tables stay narrow.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/compare.h"
#include "tui/compare_grid.h"
#include "tui/compare_stages.h"

enum { NUMBER = 48, LABELS = 18, RESULTS = 34, LINE = 1024 };

struct sink {
        const struct compare *c;
        FILE *out;
        unsigned width;           /* of text; 0 = no limit */
        bool markdown, utf8;
        int error;
};

/* ---- words --------------------------------------------------------------------------------------------------------------------------- */

static const char *column_name(const struct compare *c, size_t column)
{
        return c->columns[column][0] ? c->columns[column] : c->joined ? "run" : "all";
}

static const char *change_text(char *text, size_t size, const struct compare_change *change, int decimals)
{
        if (isnan(change->percent))
                return "";
        bool within = change->judged == COMPARE_WITHIN;
        snprintf(text, size, "%s%+.*f%%%s", within ? "(" : "", decimals, change->percent, within ? ")" : "");
        return text;
}

static const char *sum_text(char *text, size_t size, const struct compare_sum *sum)
{
        char least[NUMBER], largest[NUMBER];

        if (sum->count == 0)
                return "-";
        if (!isnan(sum->value))
                return report_number(text, size, sum->value);
        report_number(least, sizeof least, sum->least);
        report_number(largest, sizeof largest, sum->largest);
        snprintf(text, size, strcmp(least, largest) == 0 ? "%s" : "%s-%s", least, largest);
        return text;
}

/* One sentence; in text broken at the width, later lines set in. */
__attribute__((format(printf, 2, 3)))
static void say(struct sink *sink, const char *format, ...)
{
        char raw[LINE], clean[6 * LINE];
        va_list arguments;
        size_t used = 0, limit = sink->width ? sink->width : 140;

        va_start(arguments, format);
        int length = vsnprintf(raw, sizeof raw, format, arguments);
        va_end(arguments);
        if (length < 0)
                return;
        if (sink->markdown) {
                clean_markdown(clean, sizeof clean, raw, strlen(raw));
                fprintf(sink->out, "%s\n\n", clean);
                return;
        }
        clean_screen(clean, sizeof clean, raw, strlen(raw), sink->utf8, SIZE_MAX, NULL);
        for (char *at = clean; *at;) {
                size_t blanks = strspn(at, " "), word = strcspn(at + blanks, " ");
                if (used > 0 && used + blanks + word > limit) {
                        fputs("\n  ", sink->out);
                        used = 2;
                } else {
                        fprintf(sink->out, "%*s", (int)blanks, "");
                        used += blanks;
                }
                fprintf(sink->out, "%.*s", (int)word, at + blanks);
                used += word;
                at += blanks + word;
        }
        fputc('\n', sink->out);
}

static void put_grid(struct sink *sink, struct grid *grid, unsigned label_most, const char *title)
{
        if (sink->error == 0 && grid->rows > 1) {
                if (title && sink->markdown)
                        fprintf(sink->out, "\n### %s\n\n", title);
                else
                        fputc('\n', sink->out);
                sink->error = sink->markdown ? grid_markdown(grid, sink->out)
                        : grid_text(grid, sink->width, label_most, sink->utf8, sink->out);
                if (sink->markdown)
                        fputc('\n', sink->out);
        }
        if (grid->failed)
                sink->error = -ENOMEM;
        grid_fini(grid);
}

/* ---- the recordings ------------------------------------------------------------------------------------------------------------------ */

static void put_recordings(struct sink *sink)
{
        const struct compare *c = sink->c;

        for (size_t i = 0; i < c->row_count; i++) {
                const struct compare_row *row = &c->rows[i];
                char rounds[48] = "";
                if (row->round > 0)
                        snprintf(rounds, sizeof rounds, "  its round %u", row->round);
                else if (row->report->rounds > 1)
                        snprintf(rounds, sizeof rounds, "  means of %u rounds", row->report->rounds);
                say(sink, "%u %s  %s  %s  %u cpu  %s%s", row->number, row->label, row->report->path, row->report->host, row->report->cores,
                        row->report->kernel, rounds);
        }
        if (c->joined)
                say(sink, "Each recording has one phase; their names differ, so they are taken for the same.");
        for (size_t i = 1; i < c->report_count; i++)
                if (c->reports[i]->cores != c->reports[0]->cores || strcmp(c->reports[i]->host, c->reports[0]->host) != 0
                        || strcmp(c->reports[i]->kernel, c->reports[0]->kernel) != 0) {
                        say(sink, "Not all are of the same machine, number of cores and kernel.");
                        break;
                }
}

/* ---- the table of results ------------------------------------------------------------------------------------------------------------ */

static bool has_growth(const struct compare *c, const struct compare_row *row)
{
        for (size_t k = 0; k < c->column_count; k++)
                if (!isnan(row->cells[k].growth.percent))
                        return true;
        return false;
}

static void value_row(const struct compare *c, const struct compare_row *row, struct grid *grid)
{
        char text[NUMBER * 2];

        grid_row(grid);
        grid_set(grid, 0, "%u %s", row->number, row->label);
        for (size_t k = 0; k < c->column_count; k++)
                grid_set(grid, 1 + k, "%s", sum_text(text, sizeof text, &row->cells[k].sum));
        if (c->column_count > 1 && row->best != SIZE_MAX)
                grid_set(grid, 1 + c->column_count, "%s", sum_text(text, sizeof text, &row->cells[row->best].sum));
}

static void growth_row(const struct compare *c, const struct compare_row *row, struct grid *grid)
{
        char text[NUMBER];

        if (!has_growth(c, row))
                return;
        grid_row(grid);
        grid_set(grid, 0, "  growth");
        for (size_t k = 0; k < c->column_count; k++)
                grid_set(grid, 1 + k, "%s", change_text(text, sizeof text, &row->cells[k].growth, 0));
}

static void against_row(const struct compare *c, const struct compare_row *row, struct grid *grid)
{
        char text[NUMBER];
        bool any = false;

        for (size_t k = 0; k < c->column_count; k++)
                any |= !isnan(row->cells[k].against.percent);
        if (!any)
                return;
        grid_row(grid);
        grid_set(grid, 0, "%u against %u", row->number, c->rows[row->against].number);
        for (size_t k = 0; k < c->column_count; k++)
                grid_set(grid, 1 + k, "%s", change_text(text, sizeof text, &row->cells[k].against, 1));
}

static void put_results(struct sink *sink)
{
        const struct compare *c = sink->c;
        struct grid grid;

        if (!c->result[0]) {
                say(sink, "No results were found in the commands' output: CPU and devices alone.");
                return;
        }
        grid_init(&grid, 1 + c->column_count + (c->column_count > 1), 1);
        grid_row(&grid);
        grid_set(&grid, 0, "%s%s%s", c->result, c->unit[0] ? " " : "", c->unit);
        for (size_t k = 0; k < c->column_count; k++)
                grid_set(&grid, 1 + k, "%s", column_name(c, k));
        if (c->column_count > 1)
                grid_set(&grid, 1 + c->column_count, "best");
        for (size_t i = 0; i < c->row_count; i++) {
                value_row(c, &c->rows[i], &grid);
                growth_row(c, &c->rows[i], &grid);
                if (c->rows[i].against != SIZE_MAX)
                        against_row(c, &c->rows[i], &grid);
        }
        put_grid(sink, &grid, LABELS, "Results");
        fputc('\n', sink->out);
}

/* ---- what noise says ----------------------------------------------------------------------------------------------------------------- */

/* "bench_16 to bench_32 (1, 2)": growth within noise. */
static void say_within(struct sink *sink)
{
        const struct compare *c = sink->c;
        char list[LINE] = "";
        size_t used = 0;

        for (size_t k = 1; k < c->column_count && used < sizeof list - 100; k++) {
                char rows[128] = "";
                size_t length = 0;
                for (size_t i = 0; i < c->row_count && length < sizeof rows - 16; i++)
                        if (c->rows[i].cells[k].growth.judged == COMPARE_WITHIN)
                                length += (size_t)snprintf(rows + length, sizeof rows - length, "%s%u", length ? ", " : "",
                                        c->rows[i].number);
                if (length > 0)
                        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s to %.60s (%s)", used ? "; " : "",
                                column_name(c, k - 1), column_name(c, k), rows);
        }
        if (used > 0)
                say(sink, "within noise: %s", list);
}

static void say_against(struct sink *sink, const struct compare_row *row)
{
        const struct compare *c = sink->c;
        size_t within = 0, all = 0;

        for (size_t k = 0; k < c->column_count; k++) {
                within += row->cells[k].against.judged == COMPARE_WITHIN;
                all += row->cells[k].against.judged != COMPARE_UNKNOWN;
        }
        if (all == 0)
                return;
        if (within == all)
                say(sink, "%u against %u: within noise%s", row->number, c->rows[row->against].number, all > 1 ? " everywhere" : "");
        else if (within == 0)
                say(sink, "%u against %u: beyond noise%s", row->number, c->rows[row->against].number, all > 1 ? " everywhere" : "");
        else
                say(sink, "%u against %u: within noise in %zu of %zu", row->number, c->rows[row->against].number, within, all);
}

static void put_noise(struct sink *sink)
{
        const struct compare *c = sink->c;

        if (!c->result[0])
                return;
        if (isnan(c->noise)) {
                say(sink, "no repetitions: noise not known (record --repeat N, or recordings of the same --label)");
                return;
        }
        say(sink, "noise: rounds of a phase differ by up to %.1f%% (%s; %zu phase%s with %zu rounds). Differences in parentheses are "
                "within that.", c->noise, c->noise_at[0] ? c->noise_at : c->joined ? "run" : "all", c->noise_cells,
                c->noise_cells == 1 ? "" : "s", c->noise_rounds);
        say_within(sink);
        for (size_t i = 0; i < c->row_count; i++)
                if (c->rows[i].against != SIZE_MAX)
                        say_against(sink, &c->rows[i]);
}

static void put_bests(struct sink *sink)
{
        const struct compare *c = sink->c;
        char line[LINE] = "best", value[NUMBER], growth[NUMBER];
        size_t used = strlen(line);

        if (c->best_count < 2)
                return;
        for (size_t i = 0; i < c->best_count && used < sizeof line - 260; i++) {
                const struct compare_best *best = &c->bests[i];
                const char *change = change_text(growth, sizeof growth, &best->growth, 0);
                sum_text(value, sizeof value, &c->rows[best->row].cells[best->column].sum);
                if (best->growth.judged == COMPARE_WITHIN)
                        used += (size_t)snprintf(line + used, sizeof line - used, "  %s %s %s within noise", best->label, value, change);
                else if (change[0])
                        used += (size_t)snprintf(line + used, sizeof line - used, "  %s %s (%s)", best->label, value, change);
                else
                        used += (size_t)snprintf(line + used, sizeof line - used, "  %s %s", best->label, value);
        }
        say(sink, "%s", line);
}

/* ---- side by side -------------------------------------------------------------------------------------------------------------------- */

static void set_value(struct grid *grid, size_t column, const struct value *value, unsigned decimals)
{
        char text[NUMBER];

        value_format(text, sizeof text, value, decimals);
        grid_set(grid, column, "%s", text);
}

static void heads(struct grid *grid, const char *const *names, size_t count)
{
        grid_row(grid);
        for (size_t i = 0; i < count; i++)
                grid_set(grid, i, "%s", names[i]);
}

static bool ran(const struct compare_cell *cell)
{
        return cell->round_count > 0;
}

/* Begins a row of a phase: its name in the first one only, in text. */
static void begin(const struct sink *sink, struct grid *grid, size_t column, bool *named, size_t number_at, unsigned number)
{
        grid_row(grid);
        if (!*named || sink->markdown)
                grid_set(grid, 0, "%s", column_name(sink->c, column));
        *named = true;
        grid_set(grid, number_at, "%u", number);
}

static void put_load(struct sink *sink)
{
        static const char *const names[] = {"phase", "#", "us+sy", "hi+si", "load", "of", "hottest", "/core"};
        const struct compare *c = sink->c;
        char text[NUMBER];
        struct grid grid;

        grid_init(&grid, 8, 2);
        heads(&grid, names, 8);
        if (c->result[0] && c->more_is_better)
                grid_set(&grid, 7, "%s/core", c->unit[0] ? c->unit : c->result);
        for (size_t k = 0; k < c->column_count; k++) {
                bool named = false;
                for (size_t i = 0; i < c->row_count; i++) {
                        const struct compare_cell *cell = &c->rows[i].cells[k];
                        if (!ran(cell))
                                continue;
                        begin(sink, &grid, k, &named, 1, c->rows[i].number);
                        set_value(&grid, 2, &cell->cpu.us_sy, 1);
                        set_value(&grid, 3, &cell->cpu.hi_si, 1);
                        set_value(&grid, 4, &cell->cpu.load, 1);
                        if (cell->cpu.share.kind == VALUE_NUMBER)
                                grid_set(&grid, 5, "%.0f%%", cell->cpu.share.number);
                        if (!isnan(cell->cpu.hottest))
                                grid_set(&grid, 6, "cpu%u %.0f%%", cell->cpu.hottest_core, cell->cpu.hottest);
                        grid_set(&grid, 7, "%s", report_number(text, sizeof text, cell->per_core));
                }
        }
        put_grid(sink, &grid, LABELS, "CPU, % of one core");
}

static bool any_wa(const struct compare *c)
{
        for (size_t i = 0; i < c->row_count; i++)
                for (size_t k = 0; k < c->column_count; k++)
                        if (c->rows[i].cells[k].cpu.wa.kind == VALUE_NUMBER && c->rows[i].cells[k].cpu.wa.number >= 0.5)
                                return true;
        return false;
}

static void put_wa(struct sink *sink)
{
        static const char *const names[] = {"phase", "#", "wa", "=disk", "+uring", "+other"};
        const struct compare *c = sink->c;
        struct grid grid;

        if (!any_wa(c))
                return;
        grid_init(&grid, 6, 2);
        heads(&grid, names, 6);
        for (size_t k = 0; k < c->column_count; k++) {
                bool named = false;
                for (size_t i = 0; i < c->row_count; i++) {
                        const struct compare_cpu *cpu = &c->rows[i].cells[k].cpu;
                        if (!ran(&c->rows[i].cells[k]))
                                continue;
                        begin(sink, &grid, k, &named, 1, c->rows[i].number);
                        set_value(&grid, 2, &cpu->wa, 1);
                        set_value(&grid, 3, &cpu->disk, 1);
                        set_value(&grid, 4, &cpu->uring, 1);
                        set_value(&grid, 5, &cpu->other, 1);
                }
        }
        put_grid(sink, &grid, LABELS, "wa and its parts, % of one core");
}

static bool works(const struct compare_device *device)
{
        for (int v = 0; v < COMPARE_DISK; v++)
                if (device->value[v].kind == VALUE_NUMBER && device->value[v].number >= 0.05)
                        return true;
        return false;
}

static const struct compare_device *find_device(const struct compare_cell *cell, const char *name)
{
        for (size_t d = 0; d < cell->device_count; d++)
                if (strcmp(cell->devices[d].name, name) == 0)
                        return &cell->devices[d];
        return NULL;
}

/* True when an earlier row of this phase has a device of this name that works: then it stands there already. */
static bool device_before(const struct compare *c, size_t row, size_t column, const char *name)
{
        for (size_t i = 0; i < row; i++) {
                const struct compare_device *found = find_device(&c->rows[i].cells[column], name);
                if (found && works(found))
                        return true;
        }
        return false;
}

static void device_rows(struct sink *sink, struct grid *grid, size_t column, const char *name, bool *named)
{
        const struct compare *c = sink->c;
        bool first = true;

        for (size_t i = 0; i < c->row_count; i++) {
                const struct compare_device *device = find_device(&c->rows[i].cells[column], name);
                if (!device)
                        continue;
                begin(sink, grid, column, named, 2, c->rows[i].number);
                if (first || sink->markdown)
                        grid_set(grid, 1, "%s", name);
                first = false;
                for (int v = 0; v < COMPARE_DISK; v++)
                        set_value(grid, 3 + (size_t)v, &device->value[v], metric_column(VIEW_DISK, compare_disk_heads[v])->decimals);
        }
}

static void put_devices(struct sink *sink)
{
        const struct compare *c = sink->c;
        struct grid grid;

        grid_init(&grid, 3 + COMPARE_DISK, 3);
        grid_row(&grid);
        grid_set(&grid, 0, "phase");
        grid_set(&grid, 1, "Device");
        grid_set(&grid, 2, "#");
        for (size_t v = 0; v < COMPARE_DISK; v++)
                grid_set(&grid, 3 + v, "%s", compare_disk_heads[v]);
        for (size_t k = 0; k < c->column_count; k++) {
                bool named = false;
                for (size_t i = 0; i < c->row_count; i++)
                        for (size_t d = 0; d < c->rows[i].cells[k].device_count; d++) {
                                const struct compare_device *device = &c->rows[i].cells[k].devices[d];
                                if (works(device) && !device_before(c, i, k, device->name))
                                        device_rows(sink, &grid, k, device->name, &named);
                        }
        }
        put_grid(sink, &grid, LABELS, "Devices");
}

/* ---- other results ------------------------------------------------------------------------------------------------------------------- */

static void put_latency(struct sink *sink, bool calls)
{
        struct grid grid;
        int r = compare_latency_grid(sink->c, calls, sink->markdown, &grid);

        if (r < 0)
                sink->error = r;
        else
                put_grid(sink, &grid, LABELS, calls ? "Calls that wait for data, ms" : "Block latency (Q2C), ms");
}

static bool is_chosen(const struct compare *c, const struct result *result)
{
        return strcmp(result->name, c->result) == 0 && strcmp(result->unit, c->unit) == 0;
}

/* True when an earlier row of the column, or an earlier result of this cell, has it. */
static bool result_before(const struct compare *c, size_t row, size_t column, size_t round, size_t index)
{
        const struct compare_cell *cell = &c->rows[row].cells[column];
        const struct result *wanted = cell->rounds[round]->results[index].sum.first;

        for (size_t i = 0; i <= row; i++) {
                const struct compare_cell *other = &c->rows[i].cells[column];
                for (size_t n = 0; n < other->round_count && (i < row || n <= round); n++) {
                        const struct report_result *found = compare_result(other->rounds[n], wanted->name, wanted->unit);
                        if (found && (i < row || n < round || found < &cell->rounds[round]->results[index]))
                                return true;
                }
        }
        return false;
}

static void other_row(struct sink *sink, struct grid *grid, size_t column, const struct result *result, bool *named)
{
        const struct compare *c = sink->c;
        struct compare_sum first = {0}, sum = {0};
        char text[2 * NUMBER];

        grid_row(grid);
        if (!*named || sink->markdown)
                grid_set(grid, 0, "%s", column_name(c, column));
        *named = true;
        grid_set(grid, 1, "%s%s%s", result->name, result->unit[0] ? " " : "", result->unit);
        for (size_t i = 0; i < c->row_count; i++) {
                sum = compare_sum_of(&c->rows[i].cells[column], result->name, result->unit);
                grid_set(grid, 2 + i, "%s", sum_text(text, sizeof text, &sum));
                if (i == 0)
                        first = sum;
        }
        if (c->row_count == 2 && first.value > 0 && !isnan(sum.value)) {
                struct compare_change change = {100 * (sum.value / first.value - 1), COMPARE_UNKNOWN};
                double noise = compare_noise_of(c, result->name, result->unit);
                if (c->rows[0].group != c->rows[1].group && fabs(change.percent) <= noise)
                        change.judged = COMPARE_WITHIN;
                grid_set(grid, 4, "%s", change_text(text, sizeof text, &change, 1));
        }
}

static void put_others(struct sink *sink)
{
        const struct compare *c = sink->c;
        struct grid grid;

        grid_init(&grid, 2 + c->row_count + (c->row_count == 2), 2);
        grid_row(&grid);
        grid_set(&grid, 0, "phase");
        grid_set(&grid, 1, "result");
        for (size_t i = 0; i < c->row_count; i++)
                grid_set(&grid, 2 + i, "%u", c->rows[i].number);
        if (c->row_count == 2)
                grid_set(&grid, 4, "2 against 1");
        for (size_t k = 0; k < c->column_count; k++) {
                bool named = false;
                for (size_t i = 0; i < c->row_count; i++)
                        for (size_t n = 0; n < c->rows[i].cells[k].round_count; n++) {
                                const struct report_phase *phase = c->rows[i].cells[k].rounds[n];
                                for (size_t r = 0; r < phase->result_count; r++)
                                        if (!is_chosen(c, phase->results[r].sum.first) && !result_before(c, i, k, n, r))
                                                other_row(sink, &grid, k, phase->results[r].sum.first, &named);
                        }
        }
        put_grid(sink, &grid, RESULTS, "Other results, latency");
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

static int put_all(struct sink *sink)
{
        put_recordings(sink);
        put_results(sink);
        put_noise(sink);
        put_bests(sink);
        put_load(sink);
        put_wa(sink);
        put_devices(sink);
        put_latency(sink, false);
        put_latency(sink, true);
        put_others(sink);
        if (sink->error == 0 && (fflush(sink->out) != 0 || ferror(sink->out)))
                sink->error = errno ? -errno : -EIO;
        return sink->error;
}

int compare_text(const struct compare *c, unsigned width, bool utf8, FILE *out)
{
        struct sink sink = {.c = c, .out = out, .width = width, .utf8 = utf8};

        return put_all(&sink);
}

int compare_markdown(const struct compare *c, FILE *out)
{
        struct sink sink = {.c = c, .out = out, .markdown = true};

        return put_all(&sink);
}

/*
 * A report's tables: of the phases, of results, of load by group, of spread. See report.h; cores, devices and tasks are in
 * report_tables_view.c.
 */
#include "tui/report_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"

const char *const report_table_names[REPORT_TABLES] = {"phases", "results", "cores", "load", "devices", "sar-old", "fio", "tasks",
        "spread", "stages", "bios", "sync"};

/* ---- numbers -------------------------------------------------------------------------------------------------------------------- */

char *report_number(char *buffer, size_t size, double value)
{
        char digits[64];
        double size_of = fabs(value);
        size_t out = 0;

        if (!isfinite(value) || size_of >= 1e30) {
                snprintf(buffer, size, "-");
                return buffer;
        }
        snprintf(digits, sizeof digits, "%.*f", size_of >= 999.5 || value == 0 ? 0 : size_of >= 99.95 ? 1 : size_of >= 9.995 ? 2 : 3,
                 value);
        size_t whole = strcspn(digits, "."), length = strlen(digits);
        for (size_t i = 0; i < length && out + 2 < size; i++) {
                if (i > 0 && i < whole && (whole - i) % 3 == 0 && digits[i - 1] != '-')
                        buffer[out++] = ',';
                buffer[out++] = digits[i];
        }
        buffer[out] = '\0';
        return buffer;
}

char *report_value(char *buffer, size_t size, const struct report_result *result)
{
        char least[40], most[40];

        if (isfinite(result->sum.value))
                return report_number(buffer, size, result->sum.value);
        report_number(least, sizeof least, result->sum.least);
        report_number(most, sizeof most, result->sum.largest);
        if (strcmp(least, most) == 0)
                snprintf(buffer, size, "%s", least);
        else
                snprintf(buffer, size, "%s-%s", least, most);
        return buffer;
}

char *report_range(char *buffer, size_t size, double least, double most)
{
        char low[32], high[32];

        snprintf(low, sizeof low, "%.0f", least);
        snprintf(high, sizeof high, "%.0f", most);
        if (strcmp(low, high) == 0)
                snprintf(buffer, size, "%s%%", high);
        else
                snprintf(buffer, size, "%s-%s%%", low, high);
        return buffer;
}

struct value report_cell(double number)
{
        return isfinite(number) ? table_number(number) : (struct value){.kind = VALUE_ABSENT};
}

/* ---- columns that fit ----------------------------------------------------------------------------------------------------------- */

void report_column(struct report_columns *columns, const char *head, unsigned decimals, unsigned flags, unsigned rank)
{
        if (columns->table->column_count < TABLE_COLUMNS)
                columns->ranks[columns->table->column_count] = (unsigned char)rank;
        table_column(columns->table, head, decimals, flags);
}

static size_t cell_width(const struct table *table, const struct table_column *column, const struct table_cell *cell)
{
        char text[512];
        size_t columns = 0, lead = cell->lead ? strlen(cell->lead) : 0;

        if (cell->value.kind == VALUE_TEXT)
                clean_screen(text, sizeof text, cell->value.text, cell->value.length, table->utf8, SIZE_MAX, &columns);
        else
                columns = value_format(text, sizeof text, &cell->value, column->decimals);
        return columns + lead;
}

void report_fit(struct report_columns *columns, unsigned width)
{
        struct table *table = columns->table;
        size_t widths[TABLE_COLUMNS], total = 0;

        if (width == 0)
                return;
        for (size_t c = 0; c < table->column_count; c++) {
                widths[c] = strlen(table->columns[c].head);
                for (size_t r = 0; r < table->rows; r++) {
                        size_t w = cell_width(table, &table->columns[c], &table->cells[r * table->column_count + c]);
                        widths[c] = w > widths[c] ? w : widths[c];
                }
                if (!(table->columns[c].flags & TABLE_MACHINE))
                        total += widths[c] + 1;
        }
        for (unsigned rank = 9; rank > 1 && total > width + 1; rank--)
                for (size_t c = table->column_count; c-- > 0 && total > width + 1; )
                        if (columns->ranks[c] == rank && !(table->columns[c].flags & TABLE_MACHINE)) {
                                table->columns[c].flags |= TABLE_MACHINE;
                                total -= widths[c] + 1;
                        }
}

/* ---- phases --------------------------------------------------------------------------------------------------------------------- */

static void phase_columns(const struct report *report, bool people, struct report_columns *columns)
{
        if (people) {
                report_column(columns, "phase", 0, TABLE_LEFT | TABLE_STRING, 1);
                report_column(columns, report->primary_head, 0, 0, 1);
                report_column(columns, "growth", 0, 0, 2);
                report_column(columns, report->latency_head, 0, 0, 4);
                report_column(columns, "us+sy", 1, 0, 3);
                report_column(columns, "hi+si", 1, 0, 3);
                report_column(columns, "load", 1, 0, 1);
                report_column(columns, report->share_head, 0, 0, 2);
                report_column(columns, "hottest", 0, 0, 2);
                report_column(columns, "others", 0, 0, 6);
                report_column(columns, report->per_core_head, 0, 0, 5);
                report_column(columns, "wa", 1, 0, 7);
                report_column(columns, "seconds", 1, 0, 8);
                return;
        }
        static const char *const heads[] = {"phase", "round", "seconds", "cut_before", "cut_after", "result_name", "result_unit", "result",
                "growth_pct", "result_per_core",
                "latency_name", "latency_min_ms", "latency_max_ms", "us_sy", "hi_si", "load", "load_share_pct", "hottest_core",
                        "hottest_load", "others_min", "others_max",
                "wa", "wa_disk", "wa_uring", "wa_other", "evidence", "load_watched", "load_command", "load_irq", "load_rest", "watopd",
                        "status", "late", "missed", "load_command_max", "load_rest_min"};
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
                report_column(columns, heads[i], 3, 0, 1);
}

static struct value percent_text(struct table *table, double percent, bool change)
{
        char text[32];

        if (!isfinite(percent))
                return (struct value){.kind = VALUE_ABSENT};
        snprintf(text, sizeof text, change ? "%+.1f%%" : "%.0f%%", percent);
        return table_copy(table, text);
}

/* "SET 91,166 r/s" where phases differ in what they measured. */
static struct value result_text(struct table *table, const struct report_phase *phase, size_t which, bool same)
{
        char number[96], text[RESULT_NAME + 128];

        if (which == SIZE_MAX)
                return (struct value){.kind = VALUE_ABSENT};
        const struct result *first = phase->results[which].sum.first;
        report_value(number, sizeof number, &phase->results[which]);
        if (same)
                return table_copy(table, number);
        snprintf(text, sizeof text, "%s %s%s%s", first->name, number, first->unit[0] ? " " : "", first->unit);
        return table_copy(table, text);
}

static void phase_for_people(const struct report *report, const struct report_phase *phase, struct table *table, struct table_cell *cells)
{
        const struct tally *t = &phase->tally;
        char text[64];

        cells[0].value = phase->title[0] ? table_text(phase->title, strlen(phase->title)) : table_text("(all)", 5);
        cells[1].value = result_text(table, phase, phase->primary, report->primary_same);
        cells[2].value = percent_text(table, phase->growth, true);
        cells[3].value = result_text(table, phase, phase->latency, report->latency_same);
        if (!phase->valid)
                return;
        cells[4].value = t->us_sy;
        cells[5].value = t->hi_si;
        cells[6].value = report_cell(phase->load);
        cells[7].value = percent_text(table, phase->share, false);
        if (t->busiest >= 0) {
                snprintf(text, sizeof text, "cpu%u %.0f%%", t->busiest_core, t->busiest);
                cells[8].value = table_copy(table, text);
        }
        if (isfinite(phase->others_least)) {
                report_range(text, sizeof text, phase->others_least, phase->others_most);
                cells[9].value = table_copy(table, text);
        }
        if (isfinite(phase->per_core))
                cells[10].value = table_copy(table, report_number(text, sizeof text, phase->per_core));
        cells[11].value = t->wa;
        cells[12].value = report_cell(report_seconds(&phase->used));
}

static void results_for_machines(const struct report_phase *phase, struct table_cell *cells)
{
        if (phase->primary != SIZE_MAX) {
                const struct report_result *result = &phase->results[phase->primary];
                cells[5].value = table_text(result->sum.first->name, strlen(result->sum.first->name));
                cells[6].value = table_text(result->sum.first->unit, strlen(result->sum.first->unit));
                cells[7].value = report_cell(result->sum.value);
        }
        cells[8].value = report_cell(phase->growth);
        cells[9].value = report_cell(phase->per_core);
        if (phase->latency != SIZE_MAX) {
                const struct report_result *result = &phase->results[phase->latency];
                cells[10].value = table_text(result->sum.first->name, strlen(result->sum.first->name));
                cells[11].value = report_cell(result->sum.least);
                cells[12].value = report_cell(result->sum.largest);
        }
}

static void phase_for_machines(const struct report_phase *phase, struct table_cell *cells)
{
        const struct tally *t = &phase->tally;

        cells[0].value = table_text(phase->name, strlen(phase->name));
        cells[1].value = table_number(phase->round);
        cells[2].value = table_number(report_seconds(&phase->used));
        cells[3].value = table_number(phase->cut_before);
        cells[4].value = table_number(phase->cut_after);
        results_for_machines(phase, cells);
        if (phase->ran)
                cells[31].value = table_number(phase->status);
        cells[32].value = table_number((double)phase->gaps.late);
        cells[33].value = table_number((double)phase->gaps.missed);
        if (!phase->valid)
                return;
        cells[13].value = t->us_sy;
        cells[14].value = t->hi_si;
        cells[15].value = report_cell(phase->load);
        cells[16].value = report_cell(phase->share);
        if (t->busiest >= 0) {
                cells[17].value = table_number(t->busiest_core);
                cells[18].value = table_number(t->busiest);
        }
        cells[19].value = report_cell(phase->others_least);
        cells[20].value = report_cell(phase->others_most);
        cells[21].value = t->wa;
        cells[22].value = t->disk;
        cells[23].value = t->uring;
        cells[24].value = t->other;
        cells[25].value = table_text(t->level, t->level ? strlen(t->level) : 0);
        for (size_t i = 0; i < REPORT_GROUPS; i++)
                cells[26 + i].value = report_cell(phase->groups[i]);
        cells[30].value = report_cell(phase->own);
        cells[34].value = report_cell(phase->command_most);
        cells[35].value = report_cell(phase->rest_least);
}

static int phases_table(const struct report *report, enum report_format format, struct report_columns *columns)
{
        bool people = report_for_people(format);
        bool growth = false, latency = false, result = false, others = false;

        phase_columns(report, people, columns);
        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_phase *phase = &report->phases[i];
                struct table_cell *cells = table_row(columns->table);
                if (!cells)
                        return -ENOMEM;
                if (people)
                        phase_for_people(report, phase, columns->table, cells);
                else
                        phase_for_machines(phase, cells);
                result = result || phase->primary != SIZE_MAX;
                latency = latency || phase->latency != SIZE_MAX;
                growth = growth || isfinite(phase->growth);
                others = others || isfinite(phase->others_least);
        }
        if (people) { /* columns in which nothing would stand */
                const bool there[] = {true, result, growth, latency, true, true, true, true, true, others, result};
                for (size_t c = 0; c < sizeof there / sizeof *there; c++)
                        columns->table->columns[c].flags |= there[c] ? 0 : TABLE_MACHINE;
        }
        return 0;
}

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

/* How several became one, in words. */
static void how_text(const struct report_result *result, char *text, size_t size)
{
        if (result->count == 1)
                snprintf(text, size, "one");
        else if (result->sum.first->rule == RESULT_RANGE)
                snprintf(text, size, "least to largest of %zu", result->count);
        else if (result->sum.first->rule == RESULT_MAX)
                snprintf(text, size, "largest of %zu", result->count);
        else if (result->sum.first->rule == RESULT_MEAN || result->waves == result->count)
                snprintf(text, size, "mean of %zu%s", result->count, result->sum.first->rule == RESULT_MEAN ? "" : ", one after another");
        else if (result->waves == 1)
                snprintf(text, size, "sum of %zu at the same time%s", result->count, strcmp(result->how, "assumed") == 0 ? " (assumed)"
                         : "");
        else if (result->count % result->waves == 0)
                snprintf(text, size, "sum of %zu at the same time, mean of %u such", result->count / result->waves, result->waves);
        else
                snprintf(text, size, "%zu in %u groups one after another: mean of their sums", result->count, result->waves);
}

/* The file that results came from, when there are several. */
static const char *source_of(const struct report *report, const struct report_result *result)
{
        const char *path = report->sources[result->source].path, *slash = strrchr(path, '/');

        return report->source_count < 2 ? "" : slash ? slash + 1 : path;
}

static int results_table(const struct report *report, const struct report_phase *phase, enum report_format format,
                         struct report_columns *columns)
{
        bool people = report_for_people(format), several = !people;
        char text[128];

        report_column(columns, "result", 0, TABLE_LEFT, 1);
        report_column(columns, "value", 6, 0, 1);
        report_column(columns, "unit", 0, TABLE_LEFT, 1);
        report_column(columns, people ? "" : "how", 0, TABLE_LEFT, 2);
        report_column(columns, "source", 0, TABLE_LEFT | (people && report->source_count < 2 ? TABLE_MACHINE : 0), 3);
        if (!people) {
                static const char *const heads[] = {"least", "largest", "count", "waves", "rule", "tool"};
                for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
                        report_column(columns, heads[i], 6, 0, 1);
        }
        for (size_t i = 0; i < phase->result_count; i++) {
                static const char *const rules[] = {"sum", "mean", "max", "range"};
                const struct report_result *result = &phase->results[i];
                const struct result *first = result->sum.first;
                struct table_cell *cells = table_row(columns->table);
                if (!cells)
                        return -ENOMEM;
                cells[0].value = table_text(first->name, strlen(first->name));
                cells[2].value = table_text(first->unit, strlen(first->unit));
                several = several || result->count > 1;
                const char *source = source_of(report, result);
                cells[4].value = table_text(source, strlen(source));
                if (people) {
                        cells[1].value = table_copy(columns->table, report_value(text, sizeof text, result));
                        how_text(result, text, sizeof text);
                        cells[3].value = table_copy(columns->table, result->count > 1 ? text : "");
                        continue;
                }
                cells[1].value = report_cell(result->sum.value);
                cells[3].value = table_text(result->how, strlen(result->how));
                cells[5].value = report_cell(result->sum.least);
                cells[6].value = report_cell(result->sum.largest);
                cells[7].value = table_number((double)result->count);
                cells[8].value = table_number(result->waves);
                cells[9].value = table_text(rules[first->rule], strlen(rules[first->rule]));
                cells[10].value = table_text(first->tool, strlen(first->tool));
        }
        columns->table->columns[3].flags |= several ? 0 : TABLE_MACHINE;
        return 0;
}

/* ---- load by group -------------------------------------------------------------------------------------------------------------- */

/* `>` and `<` where processes that lived shorter than a sample may be missing from the command, and be in the rest. */
static struct value group_value(const struct report_phase *phase, size_t group)
{
        struct value value = table_number(phase->groups[group]);

        value.low = group == REPORT_REST ? phase->rest_least : value.number;
        value.high = group == REPORT_COMMAND ? phase->command_most : value.number;
        if (value.high - value.low >= 0.05)
                value.mark = group == REPORT_COMMAND ? MARK_AT_LEAST : group == REPORT_REST ? MARK_AT_MOST : MARK_EXACT;
        return value;
}

static int load_table(const struct report *report, const struct report_phase *phase, enum report_format format,
                      struct report_columns *columns)
{
        bool people = report_for_people(format);

        report_column(columns, people ? "load by" : "group", 0, TABLE_LEFT, 1);
        report_column(columns, people ? "% of a core" : "load", 1, 0, 1);
        report_column(columns, people ? "% of load" : "share", people ? 0 : 3, 0, 1);
        report_column(columns, people ? "" : "names", 0, TABLE_LEFT | (people && !report->watches ? TABLE_MACHINE : 0), 2);
        for (size_t i = 0; !people && i < 2; i++)
                report_column(columns, i == 0 ? "load_min" : "load_max", 1, 0, 1);
        for (size_t i = 0; phase->valid && i < REPORT_GROUPS; i++) {
                if (!isfinite(phase->groups[i]))
                        continue;
                struct table_cell *cells = table_row(columns->table);
                if (!cells)
                        return -ENOMEM;
                cells[0].value = table_text(report_group_names[i], strlen(report_group_names[i]));
                cells[1].value = group_value(phase, i);
                if (phase->load > 0) {
                        cells[2].value = table_number(100 * phase->groups[i] / phase->load);
                        cells[2].value.mark = cells[1].value.mark;
                }
                if (!people) {
                        cells[4].value = table_number(cells[1].value.low);
                        cells[5].value = table_number(cells[1].value.high);
                }
                if (i == REPORT_WATCHED)
                        cells[3].value = table_text(report->watch, strlen(report->watch));
                else if (people)
                        cells[3].value = table_text("", 0);
        }
        return 0;
}

/* ---- spread --------------------------------------------------------------------------------------------------------------------- */

struct spreading {
        struct report_columns *columns;
        const struct report_samples *samples;
        bool people;
};

static int spread_row(const struct spreading *s, const char *what, size_t length, const char *value, const float *series, size_t stride)
{
        const struct report_samples *samples = s->samples;
        size_t count = samples->used_to - samples->used_from;
        struct report_spread spread = report_spread_of(series + samples->used_from * stride, count, stride);

        if (spread.count == 0 || (s->people && spread.max == 0))
                return 0;
        struct table_cell *cells = table_row(s->columns->table);
        if (!cells)
                return -ENOMEM;
        cells[0].value = table_text(what, length);
        cells[1].value = table_text(value, strlen(value));
        cells[2].value = report_cell(spread.median);
        cells[3].value = report_cell(spread.p95);
        cells[4].value = report_cell(spread.p99);
        cells[5].value = report_cell(spread.max);
        cells[6].value = table_number((double)spread.count);
        return 0;
}

static int spread_table(const struct report_phase *phase, enum report_format format, struct report_columns *columns)
{
        static const int of_core[] = {REPORT_LOAD, REPORT_WA};
        const struct report_samples *samples = &phase->samples;
        struct spreading s = {columns, samples, report_for_people(format)};
        char name[32];
        int r = 0;

        report_column(columns, s.people ? "samples" : "what", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(columns, s.people ? "" : "value", 0, TABLE_LEFT, 1);
        report_column(columns, "median", 2, 0, 1);
        report_column(columns, "p95", 2, 0, 1);
        report_column(columns, "p99", 2, 0, 1);
        report_column(columns, "max", 2, 0, 1);
        report_column(columns, s.people ? "n" : "samples", 0, 0, 2);
        if (samples->count == 0)
                return 0;
        for (size_t v = 0; r == 0 && v < REPORT_CPUS; v++)
                r = spread_row(&s, "SUM", 3, report_cpu_names[v], samples->total + v, REPORT_CPUS);
        for (size_t c = 0; c < samples->cores; c++)
                for (size_t v = 0; r == 0 && v < sizeof of_core / sizeof *of_core; v++) {
                        snprintf(name, sizeof name, "cpu%u", phase->cores[c].number);
                        struct value copy = table_copy(columns->table, name);
                        r = spread_row(&s, copy.text, copy.length, report_cpu_names[of_core[v]], report_core(samples, 0, c) + of_core[v],
                                       samples->cores * REPORT_CPUS);
                }
        for (size_t d = 0; d < samples->devices; d++)
                for (size_t v = 0; r == 0 && v < REPORT_DEVICES; v++)
                        r = spread_row(&s, phase->devices[d].name, strlen(phase->devices[d].name), report_device_names[v],
                                       report_disk(samples, 0, d) + v,
                                       samples->devices * REPORT_DEVICES);
        for (size_t g = 0; r == 0 && g < REPORT_GROUPS; g++)
                r = spread_row(&s, "load", 4, report_group_names[g], samples->group + g, REPORT_GROUPS);
        return r;
}

/* ---- which ---------------------------------------------------------------------------------------------------------------------- */

int report_table(const struct report *report, const struct report_phase *phase, enum report_table which, enum report_format format,
                 unsigned width, struct table *table)
{
        struct report_columns columns = {.table = table};
        int r = 0;

        switch (which) {
        case REPORT_TABLE_PHASES: r = phases_table(report, format, &columns); break;
        case REPORT_TABLE_RESULTS: r = results_table(report, phase, format, &columns); break;
        case REPORT_TABLE_CORES: r = report_table_cores(phase, format, &columns); break;
        case REPORT_TABLE_LOAD: r = load_table(report, phase, format, &columns); break;
        case REPORT_TABLE_DEVICES: r = report_table_devices(phase, VIEW_DISK, format, &columns); break;
        case REPORT_TABLE_SAR_OLD: r = report_table_devices(phase, VIEW_SAR_OLD, format, &columns); break;
        case REPORT_TABLE_FIO: r = report_table_fio(phase, format, &columns); break;
        case REPORT_TABLE_TASKS: r = report_table_tasks(phase, format, &columns); break;
        case REPORT_TABLE_SPREAD: r = spread_table(phase, format, &columns); break;
        case REPORT_TABLE_STAGES: case REPORT_TABLE_BIOS: case REPORT_TABLE_SYNC:
                r = report_table_latency(phase, which, format, &columns);
                break;
        default: return -EINVAL;
        }
        if (r == 0 && report_for_people(format))
                report_fit(&columns, width);
        return r;
}

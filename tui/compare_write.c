/*
 * A comparison for programs. CSV: one table, one line a row and phase. JSON: one object, everything in it. Numbers at full precision,
 * absent empty or null.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/compare.h"
#include "tui/compare_stages.h"

enum { TEXT = 6 * 512 + 64 };

static const char *judged_name(enum compare_judged judged)
{
        return judged == COMPARE_WITHIN ? "true" : "false";
}

static struct value number(double value)
{
        return isfinite(value) ? table_number(value) : (struct value){0};
}

static int done(FILE *out)
{
        return fflush(out) != 0 || ferror(out) ? (errno ? -errno : -EIO) : 0;
}

/* The texts and values of one cell that both formats have, in order. */
struct field {
        const char *name;
        struct value value;
};
enum { FIELDS = 20 };

static size_t cell_fields(const struct compare_cell *cell, struct field *f)
{
        const struct compare_cpu *cpu = &cell->cpu;
        const struct field all[] = {
                {"value", number(cell->sum.value)}, {"least", number(cell->sum.least)}, {"largest", number(cell->sum.largest)},
                {"growth", number(cell->growth.percent)}, {"against", number(cell->against.percent)}, {"per_core", number(cell->per_core)},
                {"us+sy", cpu->us_sy}, {"hi+si", cpu->hi_si}, {"load", cpu->load}, {"share", cpu->share},
                {"wa", cpu->wa}, {"wa_disk", cpu->disk},
                {"wa_uring", cpu->uring}, {"wa_other", cpu->other}, {"hottest", number(cpu->hottest)},
                {"hottest_core", isnan(cpu->hottest) ? (struct value){0} : number(cpu->hottest_core)},
        };

        memcpy(f, all, sizeof all);
        return sizeof all / sizeof *all;
}

/* ---- CSV ----------------------------------------------------------------------------------------------------------------------------- */

static void csv_text(FILE *out, const char *text)
{
        char clean[TEXT];

        clean_csv(clean, sizeof clean, text, strlen(text));
        fputs(clean, out);
}

static void csv_judged(FILE *out, const struct compare_change *change)
{
        fprintf(out, ",%s", isnan(change->percent) || change->judged == COMPARE_UNKNOWN ? "" : judged_name(change->judged));
}

static void csv_line(const struct compare *c, const struct compare_row *row, size_t column, FILE *out)
{
        const struct compare_cell *cell = &row->cells[column];
        struct field fields[FIELDS];
        char text[64];

        fprintf(out, "%u,", row->number);
        csv_text(out, row->label);
        fputc(',', out);
        csv_text(out, row->report->path);
        fputc(',', out);
        csv_text(out, c->columns[column]);
        fprintf(out, ",%zu,", cell->round_count);
        csv_text(out, c->result);
        fputc(',', out);
        csv_text(out, c->unit);
        size_t count = cell_fields(cell, fields);
        for (size_t i = 0; i < count; i++) {
                value_exact(text, sizeof text, &fields[i].value, "");
                fprintf(out, ",%s", text);
        }
        csv_judged(out, &cell->growth);
        csv_judged(out, &cell->against);
        if (row->against != SIZE_MAX)
                fprintf(out, ",%u", c->rows[row->against].number);
        else
                fputc(',', out);
        fprintf(out, ",%s\n", row->best == column ? "true" : "false");
}

int compare_csv(const struct compare *c, FILE *out)
{
        struct field fields[FIELDS];
        const struct compare_cell none = {0};
        size_t count = cell_fields(&none, fields);

        fputs("number,recording,path,phase,rounds,result,unit", out);
        for (size_t i = 0; i < count; i++)
                fprintf(out, ",%s", fields[i].name);
        fputs(",growth_within_noise,against_within_noise,against_number,best\n", out);
        for (size_t i = 0; i < c->row_count; i++)
                for (size_t k = 0; k < c->column_count; k++)
                        if (c->rows[i].cells[k].round_count > 0)
                                csv_line(c, &c->rows[i], k, out);
        return done(out);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------------------- */

static void json_text(FILE *out, const char *name, const char *text)
{
        char clean[TEXT];

        clean_json(clean, sizeof clean, text, strlen(text));
        fprintf(out, "%s\"%s\":\"%s\"", name[0] == ',' ? "," : "", name + (name[0] == ','), clean);
}

static void json_value(FILE *out, const char *name, const struct value *value)
{
        char text[64];

        value_exact(text, sizeof text, value, "null");
        fprintf(out, ",\"%s\":%s", name, text);
}

static void json_judged(FILE *out, const char *name, const struct compare_change *change)
{
        fprintf(out, ",\"%s\":%s", name, isnan(change->percent) || change->judged == COMPARE_UNKNOWN
                ? "null" : judged_name(change->judged));
}

static void json_devices(const struct compare_cell *cell, FILE *out)
{
        fputs(",\"devices\":[", out);
        for (size_t d = 0; d < cell->device_count; d++) {
                fputs(d ? ",{" : "{", out);
                json_text(out, "Device", cell->devices[d].name);
                for (int v = 0; v < COMPARE_DISK; v++)
                        json_value(out, compare_disk_heads[v], &cell->devices[d].value[v]);
                fputc('}', out);
        }
        fputc(']', out);
}

/* Results of all rounds, each name and unit once. */
static void json_results(const struct compare_cell *cell, FILE *out)
{
        bool any = false;

        fputs(",\"results\":[", out);
        for (size_t n = 0; n < cell->round_count; n++)
                for (size_t i = 0; i < cell->rounds[n]->result_count; i++) {
                        const struct result *first = cell->rounds[n]->results[i].sum.first;
                        bool before = compare_result(cell->rounds[n], first->name, first->unit) != &cell->rounds[n]->results[i];
                        for (size_t o = 0; o < n; o++)
                                before |= compare_result(cell->rounds[o], first->name, first->unit) != NULL;
                        if (before)
                                continue;
                        struct compare_sum sum = compare_sum_of(cell, first->name, first->unit);
                        struct value values[] = {number(sum.value), number(sum.least), number(sum.largest)};
                        fputs(any ? ",{" : "{", out);
                        any = true;
                        json_text(out, "name", first->name);
                        json_text(out, ",unit", first->unit);
                        json_value(out, "value", &values[0]);
                        json_value(out, "least", &values[1]);
                        json_value(out, "largest", &values[2]);
                        fputc('}', out);
                }
        fputc(']', out);
}

static void json_cell(const struct compare *c, const struct compare_row *row, size_t column, FILE *out)
{
        const struct compare_cell *cell = &row->cells[column];
        struct field fields[FIELDS];

        fputc('{', out);
        json_text(out, "phase", c->columns[column]);
        fprintf(out, ",\"rounds\":%zu", cell->round_count);
        size_t count = cell_fields(cell, fields);
        for (size_t i = 0; i < count; i++)
                json_value(out, fields[i].name, &fields[i].value);
        json_judged(out, "growth_within_noise", &cell->growth);
        json_judged(out, "against_within_noise", &cell->against);
        fprintf(out, ",\"best\":%s", row->best == column ? "true" : "false");
        json_devices(cell, out);
        compare_latency_json(cell, out); /* what memory is short for is left out, whole */
        json_results(cell, out);
        fputc('}', out);
}

static void json_row(const struct compare *c, const struct compare_row *row, FILE *out)
{
        bool any = false;

        fprintf(out, "{\"number\":%u,", row->number);
        json_text(out, "recording", row->label);
        json_text(out, ",label", row->report->label);
        json_text(out, ",path", row->report->path);
        json_text(out, ",host", row->report->host);
        json_text(out, ",kernel", row->report->kernel);
        fprintf(out, ",\"cores\":%u,\"round\":", row->report->cores);
        fprintf(out, row->round ? "%u" : "null", row->round);
        fputs(",\"against_number\":", out);
        fprintf(out, row->against != SIZE_MAX ? "%u" : "null", row->against != SIZE_MAX ? c->rows[row->against].number : 0);
        fputs(",\"phases\":[", out);
        for (size_t k = 0; k < c->column_count; k++) {
                if (row->cells[k].round_count == 0)
                        continue;
                fputs(any ? "," : "", out);
                any = true;
                json_cell(c, row, k, out);
        }
        fputs("]}", out);
}

static void json_noise(const struct compare *c, FILE *out)
{
        struct value noise = number(c->noise), sd = number(c->noise_sd);

        fputs(",\"noise\":{\"rule\":\"largest difference between rounds of a phase, % of the least\"", out);
        json_value(out, "percent", &noise);
        json_value(out, "standard_deviation", &sd);
        fprintf(out, ",\"phases\":%zu,\"rounds\":%zu,", c->noise_cells, c->noise_rounds);
        json_text(out, "largest_in", c->noise_at);
        fputc('}', out);
}

static void json_bests(const struct compare *c, FILE *out)
{
        fputs(",\"bests\":[", out);
        for (size_t i = 0; i < c->best_count; i++) {
                const struct compare_best *best = &c->bests[i];
                struct value value = number(c->rows[best->row].cells[best->column].sum.value), growth = number(best->growth.percent);
                fputs(i ? ",{" : "{", out);
                json_text(out, "label", best->label);
                json_text(out, ",phase", c->columns[best->column]);
                fprintf(out, ",\"number\":%u", c->rows[best->row].number);
                json_value(out, "value", &value);
                json_value(out, "growth", &growth);
                json_judged(out, "growth_within_noise", &best->growth);
                fputc('}', out);
        }
        fputc(']', out);
}

int compare_json(const struct compare *c, FILE *out)
{
        fputs("{\"result\":{", out);
        json_text(out, "name", c->result);
        json_text(out, ",unit", c->unit);
        fprintf(out, ",\"better\":\"%s\"}", c->more_is_better ? "more" : "less");
        json_noise(c, out);
        fputs(",\"recordings\":[", out);
        for (size_t i = 0; i < c->row_count; i++) {
                fputs(i ? "," : "", out);
                json_row(c, &c->rows[i], out);
        }
        fputc(']', out);
        json_bests(c, out);
        fputs("}\n", out);
        return done(out);
}

/*
 * A report for people: text as screens have room for, and Markdown. One course through the report, two ways to write a heading, a line, a
 * table.
 */
#include "tui/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"

struct sink {
        const struct report *report;
        const struct report_shape *shape;
        FILE *out;
        bool markdown;
        int error;
};

/* ---- writing -------------------------------------------------------------------------------------------------------------------- */

static void put_text(struct sink *sink, const char *text, size_t length)
{
        size_t room = 6 * length + 64;
        char *clean = malloc(room);

        if (!clean) {
                sink->error = -ENOMEM;
                return;
        }
        if (sink->markdown)
                clean_markdown(clean, room, text, length);
        else
                clean_screen(clean, room, text, length, sink->shape->utf8, SIZE_MAX, NULL);
        fputs(clean, sink->out);
        free(clean);
}

/* Words up to the width in text. */
static void put_wrapped(struct sink *sink, const char *text)
{
        size_t width = sink->shape->width ? sink->shape->width : 140, used = 0;

        for (const char *at = text; *at; ) {
                size_t word = strcspn(at, " ");
                if (used > 0 && used + 1 + word > width) {
                        fputc('\n', sink->out);
                        used = 0;
                } else if (used > 0) {
                        fputc(' ', sink->out);
                        used++;
                }
                put_text(sink, at, word);
                used += word;
                at += word + strspn(at + word, " ");
        }
        fputc('\n', sink->out);
}

__attribute__((format(printf, 2, 3)))
static void line(struct sink *sink, const char *format, ...)
{
        char text[2048];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        if (!sink->markdown && sink->shape->width > 0 && strlen(text) > sink->shape->width && text[0] != ' ') {
                put_wrapped(sink, text);
                return;
        }
        put_text(sink, text, strlen(text));
        fputs(sink->markdown ? "  \n" : "\n", sink->out);
}

static void heading(struct sink *sink, unsigned level, const char *text)
{
        fputs(sink->markdown ? (level == 1 ? "# " : "\n## ") : level == 1 ? "" : "\n", sink->out);
        put_text(sink, text, strlen(text));
        fputs(sink->markdown ? "\n\n" : "\n", sink->out);
}

static void sentence(struct sink *sink, const char *text)
{
        if (!sink->markdown) {
                put_wrapped(sink, text);
                return;
        }
        fputs("- ", sink->out);
        put_text(sink, text, strlen(text));
        fputc('\n', sink->out);
}

static void markdown_cell(struct sink *sink, const struct table_column *column, const struct table_cell *cell)
{
        char number[64];

        if (cell->lead)
                for (const char *c = cell->lead; *c; c++)
                        fputs("&nbsp;", sink->out);
        if (cell->value.kind == VALUE_TEXT) {
                put_text(sink, cell->value.text, cell->value.length);
        } else {
                value_format(number, sizeof number, &cell->value, column->decimals);
                put_text(sink, number, strlen(number));
        }
}

static void markdown_table(struct sink *sink, const struct table *table)
{
        for (size_t c = 0; c < table->column_count; c++)
                if (!(table->columns[c].flags & TABLE_MACHINE)) {
                        fputs("| ", sink->out);
                        put_text(sink, table->columns[c].head, strlen(table->columns[c].head));
                        fputc(' ', sink->out);
                }
        fputs("|\n", sink->out);
        for (size_t c = 0; c < table->column_count; c++)
                if (!(table->columns[c].flags & TABLE_MACHINE))
                        fputs(table->columns[c].flags & TABLE_LEFT ? "|:---" : "|---:", sink->out);
        fputs("|\n", sink->out);
        for (size_t r = 0; r < table->rows; r++) {
                for (size_t c = 0; c < table->column_count; c++)
                        if (!(table->columns[c].flags & TABLE_MACHINE)) {
                                fputs("| ", sink->out);
                                markdown_cell(sink, &table->columns[c], &table->cells[r * table->column_count + c]);
                                fputc(' ', sink->out);
                        }
                fputs("|\n", sink->out);
        }
        fputc('\n', sink->out);
}

/* Nothing for a table without rows. */
static void put_table(struct sink *sink, const struct report_phase *phase, enum report_table which)
{
        struct table table;

        table_init(&table, sink->shape->utf8);
        int r = report_table(sink->report, phase, which, sink->markdown ? REPORT_MARKDOWN : REPORT_TEXT, sink->shape->width, &table);
        if (r < 0)
                sink->error = r;
        else if (table.rows > 0 && sink->markdown)
                markdown_table(sink, &table);
        else if (table.rows > 0)
                table_print(&table, sink->out, 0);
        table_fini(&table);
}

/* ---- the head ------------------------------------------------------------------------------------------------------------------- */

static void gaps_text(const struct report_gaps *gaps, char *text, size_t size)
{
        const struct { uint64_t count; const char *name; } kinds[] = {
                {gaps->late, "late"}, {gaps->missed, "ticks missed"}, {gaps->suspends, "suspend"}, {gaps->reboots, "reboot"},
                        {gaps->resets, "reset"}, {gaps->damages, "damaged"},
        };
        size_t length = 0;

        snprintf(text, size, "0 gaps");
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (kinds[i].count > 0 && length < size)
                        length += (size_t)snprintf(text + length, size - length, "%s%" PRIu64 " %s", length ? ", " : "gaps: ",
                                                   kinds[i].count, kinds[i].name);
}

static void cost_text(const struct report *report, char *text, size_t size)
{
        if (isfinite(report->own_seconds) && report->wall_seconds > 0)
                snprintf(text, size, "recorder %.1f%% of a core", 100 * report->own_seconds / report->wall_seconds);
        else
                snprintf(text, size, "recorder's own cost not noted");
}

static const char *cut_text(const struct report *report)
{
        bool cut = false;

        for (size_t i = 0; i < report->phase_count; i++)
                cut = cut || report->phases[i].cut_before + report->phases[i].cut_after > 0;
        return cut ? ", ramps cut (--whole keeps them)" : "";
}

static void source_line(struct sink *sink, const struct report_source *source)
{
        char offset[96] = "", spread[48] = "";

        if (source->own)
                return;
        if (isfinite(source->offset_spread))
                snprintf(spread, sizeof spread, " +- %.0f", source->offset_spread * 1e3);
        if (source->offset_known)
                snprintf(offset, sizeof offset, "clock offset %+.0f%s ms%s", source->offset * 1e3, spread, source->offset_given ? " (given)"
                         : "");
        else
                snprintf(offset, sizeof offset, "clock offset not known");
        line(sink, "results from %s (%s%s%s; %s): %zu of %zu in a phase", source->path, source->host, source->host[0] ? ", " : "",
             source->by_marks ? "by marks" : "by time", offset,
             source->placed, source->found);
}

static void head(struct sink *sink)
{
        const struct report *report = sink->report;
        const char *name = strrchr(report->path, '/');
        char gaps[160], cost[64], title[1024];

        if (sink->markdown)
                heading(sink, 1, report->label[0] ? report->label : name ? name + 1 : report->path);
        snprintf(title, sizeof title, "%s  %u cpu%s%s  %s  %s  %zu phase%s", report->host[0] ? report->host : "-", report->cores,
                 report->model[0] ? " " : "", report->model, report->kernel,
                 name ? name + 1 : report->path, report->phase_count, report->phase_count == 1 ? "" : "s");
        line(sink, "%s", title);
        if (report->label[0] && !sink->markdown)
                line(sink, "%s", report->label);
        gaps_text(&report->gaps, gaps, sizeof gaps);
        cost_text(report, cost, sizeof cost);
        line(sink, "%.3g s samples, %s, %s%s", (double)report->tick_ns * 1e-9, gaps, cost, cut_text(report));
        if (report->watches)
                line(sink, "watched: %s", report->watch);
        for (size_t i = 0; i < report->source_count; i++)
                source_line(sink, &report->sources[i]);
        for (size_t i = 0; i < report->warnings.count; i++)
                line(sink, "note: %s", report->warnings.lines[i]);
        fputc('\n', sink->out);
}

/* ---- phases --------------------------------------------------------------------------------------------------------------------- */

static void phase_title(struct sink *sink, const struct report_phase *phase)
{
        char text[PHASE_NAME + 160];
        double used = report_seconds(&phase->used), full = report_seconds(&phase->full);

        if (phase->cut_before + phase->cut_after > 0)
                snprintf(text, sizeof text, "%s  %.1f s of %.1f s (cut: %.1f s at its start, %.1f s at its end)", phase->title, used, full,
                         phase->cut_before, phase->cut_after);
        else
                snprintf(text, sizeof text, "%s  %.1f s", phase->title[0] ? phase->title : "all", full);
        heading(sink, 2, text);
}

/* Under -v: each result with the lines it was read from. */
static void result_lines(struct sink *sink, const struct report_phase *phase)
{
        const struct results *all = &sink->report->results;

        for (size_t i = 0; i < phase->result_count; i++)
                for (size_t j = 0; j < phase->results[i].count; j++) {
                        const struct result *item = &all->items[phase->results[i].items[j]];
                        line(sink, "  %s: %s", item->name, item->line + strspn(item->line, " "));
                }
        if (phase->result_count > 0 && sink->markdown)
                fputc('\n', sink->out);
}

static void load_line(struct sink *sink, const struct report_phase *phase)
{
        const struct tally *t = &phase->tally;
        char nice[32] = "", others[64] = "", range[32];

        if (t->us_sy.kind != VALUE_NUMBER || t->hi_si.kind != VALUE_NUMBER)
                return;
        if (t->nice.kind == VALUE_NUMBER && t->nice.number >= 0.05)
                snprintf(nice, sizeof nice, " + ni %.1f", t->nice.number);
        if (isfinite(phase->others_least))
                snprintf(others, sizeof others, "; cpu%u %.0f%%, others %s", t->busiest_core, t->busiest,
                         report_range(range, sizeof range, phase->others_least, phase->others_most));
        line(sink, "CPU: us+sy %.1f%s + hi+si %.1f = %.1f%% (%.0f%%)%s", t->us_sy.number, nice, t->hi_si.number, phase->load, phase->share,
             others);
        if (sink->markdown)
                fputc('\n', sink->out);
}

static bool wants(const struct sink *sink, enum report_table which)
{
        return sink->shape->only < 0 || sink->shape->only == (int)which;
}

static void phase_part(struct sink *sink, const struct report_phase *phase)
{
        static const enum report_table after[] = {REPORT_TABLE_LOAD, REPORT_TABLE_TASKS, REPORT_TABLE_DEVICES, REPORT_TABLE_SAR_OLD,
                REPORT_TABLE_FIO, REPORT_TABLE_STAGES, REPORT_TABLE_SYNC, REPORT_TABLE_BIOS, REPORT_TABLE_SPREAD};
        const struct report_shape *shape = sink->shape;

        phase_title(sink, phase);
        if (wants(sink, REPORT_TABLE_RESULTS))
                put_table(sink, phase, REPORT_TABLE_RESULTS);
        if (wants(sink, REPORT_TABLE_RESULTS) && shape->verbose)
                result_lines(sink, phase);
        if (wants(sink, REPORT_TABLE_CORES))
                put_table(sink, phase, REPORT_TABLE_CORES);
        if (wants(sink, REPORT_TABLE_CORES) && phase->valid)
                load_line(sink, phase);
        for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
                bool unasked = after[i] == REPORT_TABLE_SAR_OLD ? shape->sar_old : after[i] == REPORT_TABLE_DEVICES ? !shape->sar_old
                        : after[i] != REPORT_TABLE_SPREAD || shape->spread;
                if (shape->only == (int)after[i] || (shape->only < 0 && unasked))
                        put_table(sink, phase, after[i]);
        }
        if (shape->only < 0 && shape->spread)
                line(sink, "(over %zu samples; percentiles by nearest rank; means above are from counters)",
                     phase->samples.used_to - phase->samples.used_from);
        if (shape->only >= 0 || !phase->valid)
                return;
        char gaps[160];
        gaps_text(&phase->gaps, gaps, sizeof gaps);
        if (gaps[0] == 'g')
                line(sink, "%s", gaps);
        if (isfinite(phase->own) && shape->verbose)
                line(sink, "watopd itself: %.1f%% of a core", phase->own);
}

int report_text(const struct report *report, enum report_format format, const struct report_shape *shape, FILE *out)
{
        struct sink sink = {.report = report, .shape = shape, .out = out, .markdown = format == REPORT_MARKDOWN};
        struct report_lines lines = {0};

        if (shape->only < 0)
                head(&sink);
        if (wants(&sink, REPORT_TABLE_PHASES))
                put_table(&sink, NULL, REPORT_TABLE_PHASES);
        if (shape->only < 0) {
                sink.error = report_say(report, &lines);
                if (lines.count > 0 && !sink.markdown)
                        fputc('\n', out);
                for (size_t i = 0; i < lines.count; i++)
                        sentence(&sink, lines.lines[i]);
                report_lines_free(&lines);
        }
        for (size_t i = 0; shape->only != REPORT_TABLE_PHASES && i < report->phase_count; i++)
                phase_part(&sink, &report->phases[i]);
        if (sink.error == 0 && (fflush(out) != 0 || ferror(out)))
                sink.error = -(errno ? errno : EIO);
        return sink.error;
}

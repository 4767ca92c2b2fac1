/*
 * A report as one HTML page: facts, sentences, tables, plots. Nothing is fetched and no script runs: what a page from strangers' names
 * could do is to be read.
 *
 * It shows what `struct report` holds and computes nothing: tables are those of report_table, so they agree with the other formats.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/clean.h"
#include "tui/report_html.h"

/* ---- text ---------------------------------------------------------------------------------------------------------------------------- */

/* In pieces, which end before the start of a character. */
void html_bytes(FILE *out, const char *text, size_t length)
{
        char clean[6 * 256 + 64];

        while (length > 0) {
                size_t part = length < 256 ? length : 256;
                while (part < length && part > 250 && ((unsigned char)text[part] & 0xc0) == 0x80)
                        part--;
                clean_html(clean, sizeof clean, text, part);
                fputs(clean, out);
                text += part;
                length -= part;
        }
}

void html_text(FILE *out, const char *text)
{
        html_bytes(out, text, strlen(text));
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

static void utc_text(char *text, size_t size, uint64_t real_ns)
{
        time_t seconds = (time_t)(real_ns / 1000000000);
        struct tm tm;

        if (real_ns == 0 || !gmtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
                snprintf(text, size, "-");
}

/* ---- head ---------------------------------------------------------------------------------------------------------------------------- */

static void fact(FILE *out, const char *name, const char *value)
{
        if (!value[0])
                return;
        fprintf(out, "<div><dt>%s</dt><dd>", name);
        html_text(out, value);
        fputs("</dd></div>\n", out);
}

static void gaps_text(char *text, size_t size, const struct report_gaps *g)
{
        const struct { uint64_t count; const char *name; } parts[] = {
                {g->late, "late"}, {g->missed, "missed ticks"}, {g->suspends, "suspend"}, {g->reboots, "reboot"}, {g->resets, "reset"},
                {g->damages, "damaged place"},
        };
        size_t used = 0;

        snprintf(text, size, "none");
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                if (parts[i].count == 0 || used >= size)
                        continue;
                int n = snprintf(text + used, size - used, "%s%" PRIu64 " %s", used ? ", " : "", parts[i].count, parts[i].name);
                used += n > 0 ? (size_t)n : 0;
        }
}

static void cost_text(char *text, size_t size, const struct report *r)
{
        if (isnan(r->own_seconds) || isnan(r->wall_seconds) || !(r->wall_seconds > 0))
                text[0] = '\0';
        else
                snprintf(text, size, "%.2f s of CPU time in %.1f s: %.2f%% of one core", r->own_seconds, r->wall_seconds,
                        100 * r->own_seconds / r->wall_seconds);
}

/* How much ramps took, over all phases. */
static void ramps_text(char *text, size_t size, const struct report *r)
{
        double cut = 0, all = 0;

        for (size_t i = 0; i < r->phase_count; i++) {
                cut += r->phases[i].cut_before + r->phases[i].cut_after;
                all += report_seconds(&r->phases[i].full);
        }
        if (cut > 0)
                snprintf(text, size, "%.1f of %.1f s cut as ramps (--whole keeps them)", cut, all);
        else
                snprintf(text, size, "none cut");
}

static void machine_facts(FILE *out, const struct report *r)
{
        char text[256];

        fact(out, "host", r->host);
        snprintf(text, sizeof text, "%u%s%s", r->cores, r->model[0] ? " x " : r->cores == 1 ? " core" : " cores", r->model);
        fact(out, "CPU", text);
        fact(out, "kernel", r->kernel);
        utc_text(text, sizeof text, r->first_real_ns);
        fact(out, "from", text);
        utc_text(text, sizeof text, r->last_real_ns);
        fact(out, "to", text);
        if (r->last_real_ns >= r->first_real_ns) {
                snprintf(text, sizeof text, "%.1f s", (double)(r->last_real_ns - r->first_real_ns) * 1e-9);
                fact(out, "span", text);
        }
}

/* A list of phases has several lines. */
static void command_fact(FILE *out, const char *command)
{
        if (!command[0])
                return;
        fputs("<div class=\"long\"><dt>command</dt><dd>", out);
        for (const char *at = command; *at;) {
                size_t length = strcspn(at, "\n");
                fputs("<code>", out);
                html_bytes(out, at, length);
                fputs("</code>", out);
                at += length + (at[length] == '\n');
                fputs(*at ? "<br/>" : "", out);
        }
        fputs("</dd></div>\n", out);
}

static void facts(FILE *out, const struct report *r)
{
        char text[256];

        fputs("<section id=\"facts\"><dl class=\"facts\">\n", out);
        machine_facts(out, r);
        snprintf(text, sizeof text, "%.15g s samples, %" PRIu64 " frames, %.1f kB", (double)r->tick_ns * 1e-9, r->frames,
                (double)r->log_bytes / 1024);
        fact(out, "log", text);
        gaps_text(text, sizeof text, &r->gaps);
        fact(out, "gaps", text);
        ramps_text(text, sizeof text, r);
        fact(out, "ramps", text);
        cost_text(text, sizeof text, r);
        fact(out, "recorder's own cost", text);
        fact(out, "watched", r->watch);
        fact(out, "the command's processes", r->rule);
        fact(out, "file", r->path);
        command_fact(out, r->command);
        fputs("</dl></section>\n", out);
}

static void lines(FILE *out, const struct report_lines *list, const char *class, const char *label)
{
        if (list->count == 0)
                return;
        fprintf(out, "<div class=\"%s\" role=\"note\" aria-label=\"%s\">", class, label);
        for (size_t i = 0; i < list->count; i++) {
                fputs("<p>", out);
                html_text(out, list->lines[i]);
                fputs("</p>\n", out);
        }
        fputs("</div>\n", out);
}

/* ---- tables -------------------------------------------------------------------------------------------------------------------------- */

static bool shown(const struct table_column *column)
{
        return !(column->flags & TABLE_MACHINE);
}

static void cell(FILE *out, const struct table_column *column, const struct table_cell *value, bool head)
{
        char text[64];
        const char *left = column->flags & TABLE_LEFT ? " class=\"l\"" : "";

        fprintf(out, head ? "<th scope=\"row\"%s>" : "<td%s>", left);
        if (value->lead)
                for (const char *c = value->lead; *c; c++)
                        fputs(*c == ' ' ? "&#160;" : "", out);
        if (value->value.kind == VALUE_TEXT) {
                html_bytes(out, value->value.text, value->value.length);
        } else {
                value_format(text, sizeof text, &value->value, column->decimals);
                html_text(out, text);
        }
        fputs(head ? "</th>" : "</td>", out);
}

static void table_html(FILE *out, const struct table *table, const char *caption)
{
        fprintf(out, "<div class=\"scroll\" tabindex=\"0\"><table><caption>%s</caption><thead><tr>", caption);
        for (size_t i = 0; i < table->column_count; i++) {
                if (!shown(&table->columns[i]))
                        continue;
                fprintf(out, "<th scope=\"col\"%s>", table->columns[i].flags & TABLE_LEFT ? " class=\"l\"" : "");
                html_text(out, table->columns[i].head);
                fputs("</th>", out);
        }
        fputs("</tr></thead><tbody>\n", out);
        for (size_t r = 0; r < table->rows; r++) {
                bool first = true;
                fputs("<tr>", out);
                for (size_t i = 0; i < table->column_count; i++) {
                        if (!shown(&table->columns[i]))
                                continue;
                        cell(out, &table->columns[i], &table->cells[r * table->column_count + i], first);
                        first = false;
                }
                fputs("</tr>\n", out);
        }
        fputs("</tbody></table></div>\n", out);
}

static int one_table(FILE *out, const struct report *report, const struct report_phase *phase, enum report_table which, const char *caption)
{
        struct table table;

        table_init(&table, true);
        int r = report_table(report, phase, which, REPORT_HTML, 0, &table);
        if (r == 0 && table.rows > 0)
                table_html(out, &table, caption);
        table_fini(&table);
        return r;
}

/* ---- a phase ------------------------------------------------------------------------------------------------------------------------- */

static void result_lines(FILE *out, const struct report *report, const struct report_phase *phase)
{
        size_t count = 0;

        for (size_t i = 0; i < phase->result_count; i++)
                count += phase->results[i].count;
        if (count == 0)
                return;
        fprintf(out, "<details><summary>the %zu lines that results stand on</summary><pre>", count);
        for (size_t i = 0; i < phase->result_count; i++)
                for (size_t n = 0; n < phase->results[i].count; n++) {
                        const struct result *item = &report->results.items[phase->results[i].items[n]];
                        html_text(out, item->name);
                        fputs(": ", out);
                        html_text(out, item->line);
                        fputc('\n', out);
                }
        fputs("</pre></details>\n", out);
}

static void load_sentence(FILE *out, const struct report_phase *phase)
{
        char line[256];

        fputs("<p class=\"note\">", out);
        fprintf(out, "%.1f s", report_seconds(&phase->full));
        if (phase->cut_before + phase->cut_after > 0)
                fprintf(out, ", means over %.1f s (ramps: %.1f s before, %.1f s after)", report_seconds(&phase->used), phase->cut_before,
                        phase->cut_after);
        if (phase->ran)
                fprintf(out, "; exit status %d; CPU time user %.2f s, system %.2f s", phase->status, (double)phase->user_ns * 1e-9,
                        (double)phase->system_ns * 1e-9);
        fputs("</p>\n", out);
        if (!phase->valid)
                return;
        tally_load_line(&phase->tally, line, sizeof line);
        fputs("<p>", out);
        html_text(out, line);
        tally_wa_line(&phase->tally, line, sizeof line);
        fputs("<br/>", out);
        html_text(out, line);
        fputs("</p>\n", out);
}

static int phase_section(FILE *out, const struct report *report, size_t index)
{
        static const struct { enum report_table table; const char *caption; } tables[] = {
                {REPORT_TABLE_RESULTS, "Results"}, {REPORT_TABLE_LOAD, "Load by whose work it was"},
                {REPORT_TABLE_CORES, "Cores, % of the core; SUM in % of one core"}, {REPORT_TABLE_DEVICES, "Devices"},
                {REPORT_TABLE_FIO, "Devices as fio counts, over the whole phase"}, {REPORT_TABLE_TASKS, "Processes"},
                {REPORT_TABLE_STAGES, "Block latency by stage, ms; share: of Q2C"},
                {REPORT_TABLE_SYNC, "Calls that wait for data, ms; parts in %"},
                {REPORT_TABLE_BIOS, "Who waited for the disk, ms; causes in %"},
                {REPORT_TABLE_SPREAD, "Spread over samples"},
        };
        const struct report_phase *phase = &report->phases[index];
        int r = 0;

        fprintf(out, "<section class=\"phase\" id=\"phase-%zu\"><h2>", index + 1);
        if (phase->title[0]) {
                fprintf(out, "%zu ", index + 1);
                html_text(out, phase->title);
        } else {
                fputs("The whole recording", out);
        }
        fputs("</h2>\n", out);
        load_sentence(out, phase);
        if (!phase->valid)
                fputs("<p>No numbers: no two frames of this phase belong together.</p>\n", out);
        for (size_t i = 0; phase->valid && i < sizeof tables / sizeof *tables && r == 0; i++) {
                bool spread = tables[i].table == REPORT_TABLE_SPREAD; /* long, and seldom looked for */
                fputs(spread ? "<details><summary>spread over samples</summary>\n" : "", out);
                r = tables[i].table == REPORT_TABLE_STAGES ? html_latency(out, phase) : 0;
                if (r == 0)
                        r = one_table(out, report, phase, tables[i].table, tables[i].caption);
                fputs(spread ? "</details>\n" : "", out);
                if (tables[i].table == REPORT_TABLE_RESULTS)
                        result_lines(out, report, phase);
        }
        if (!phase->valid)
                result_lines(out, report, phase);
        fputs("</section>\n", out);
        return r;
}

/* ---- the page ------------------------------------------------------------------------------------------------------------------------ */

static void head(FILE *out, const struct report *report)
{
        const char *title = report->label[0] ? report->label : base_name(report->path);

        fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>"
              "<meta name=\"generator\" content=\"watop " WATOP_VERSION "\"/><title>", out);
        html_text(out, title);
        fprintf(out, " - watop report</title>\n<style>%s</style></head>\n<body>\n<header><h1>", html_style);
        html_text(out, title);
        fputs("</h1><p class=\"sub\">watop report", out);
        if (report->host[0]) {
                fputs(", ", out);
                html_text(out, report->host);
        }
        fprintf(out, ", %zu phase%s</p></header>\n", report->phase_count, report->phase_count == 1 ? "" : "s");
        fputs("<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
              "<pattern id=\"hatch\" width=\"80\" height=\"40\" patternUnits=\"userSpaceOnUse\">"
              "<path d=\"M0 40L80 0M-20 10L20 -10M60 50L100 30\" stroke=\"#8a8f98\" stroke-width=\"6\"/></pattern></defs></svg>\n", out);
}

static void contents(FILE *out, const struct report *report)
{
        fputs("<nav aria-label=\"contents\"><a href=\"#phases\">phases</a> <a href=\"#plots\">plots</a>", out);
        for (size_t i = 0; i < report->phase_count; i++) {
                fprintf(out, " <a href=\"#phase-%zu\">%zu ", i + 1, i + 1);
                html_text(out, report->phases[i].title[0] ? report->phases[i].title : "all");
                fputs("</a>", out);
        }
        fputs("</nav>\n", out);
}

int report_html(const struct report *report, FILE *out)
{
        struct report_lines said = {0};

        int r = report_say(report, &said);
        if (r < 0)
                goto done;
        head(out, report);
        facts(out, report);
        lines(out, &said, "said", "in short");
        lines(out, &report->warnings, "said warn", "warnings");
        contents(out, report);
        fputs("<section id=\"phases\"><h2>Phases</h2>\n", out);
        r = one_table(out, report, NULL, REPORT_TABLE_PHASES, "One row a phase; load in % of one core");
        fputs("</section>\n", out);
        html_results(out, report);
        fputs("<section id=\"plots\"><h2>Over time</h2>\n", out);
        if (r == 0)
                r = html_charts(out, report);
        fputs("</section>\n", out);
        for (size_t i = 0; i < report->phase_count && r == 0; i++)
                r = phase_section(out, report, i);
        fputs("<footer>Made by watop " WATOP_VERSION ". load = us + ni + sy + hi + si, in % of one core; wa and id are never "
              "load. wa = wa_disk + wa_uring + wa_other; ~ estimate, &lt; at most, &gt; at least, - not known. Means come "
              "from counters.</footer>\n"
              "</body></html>\n", out);
        if (r == 0 && (fflush(out) != 0 || ferror(out)))
                r = errno ? -errno : -EIO;
done:
        report_lines_free(&said);
        return r;
}

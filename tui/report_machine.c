/*
 * A report for programs: CSV, one table (--table) with a row's phase and round before it; JSON, all of it in one object. Numbers at full
 * precision, never by the locale; absent is empty or null.
 */
#include "tui/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/utc.h"

enum { TEXT = 6 * 512 + 64 };

static int done(FILE *out)
{
        return fflush(out) != 0 || ferror(out) ? -(errno ? errno : EIO) : 0;
}

int report_csv(const struct report *report, const struct report_shape *shape, FILE *out)
{
        enum report_table which = shape->only < 0 ? REPORT_TABLE_PHASES : (enum report_table)shape->only;
        size_t phases = which == REPORT_TABLE_PHASES ? 1 : report->phase_count;
        char before[TEXT], name[TEXT - 32];

        for (size_t i = 0; i < phases; i++) {
                const struct report_phase *phase = &report->phases[i];
                struct table table;
                table_init(&table, true);
                int r = report_table(report, phase, which, REPORT_CSV, 0, &table);
                if (r < 0) {
                        table_fini(&table);
                        return r;
                }
                if (i == 0)
                        table_csv_heads(&table, out, which == REPORT_TABLE_PHASES ? NULL : "phase,round");
                if (which != REPORT_TABLE_PHASES) {
                        clean_csv(name, sizeof name, phase->name, strlen(phase->name));
                        snprintf(before, sizeof before, "%s,%u", name, phase->round);
                }
                table_csv_rows(&table, out, which == REPORT_TABLE_PHASES ? NULL : before);
                table_fini(&table);
        }
        return done(out);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------- */

static void json_text(FILE *out, const char *key, const char *text, bool absent)
{
        char clean[TEXT];

        clean_json(clean, sizeof clean, text, strlen(text));
        fprintf(out, absent && !text[0] ? "\"%s\":null" : "\"%s\":\"%s\"", key, clean);
}

static void json_number(FILE *out, const char *key, double number)
{
        struct value value = isfinite(number) ? table_number(number) : (struct value){.kind = VALUE_ABSENT};
        char text[64];

        value_exact(text, sizeof text, &value, "null");
        fprintf(out, "\"%s\":%s", key, text);
}

static void json_time(FILE *out, const char *key, uint64_t real_ns)
{
        char time[UTC_SIZE];

        utc_time(time, sizeof time, real_ns);
        fprintf(out, "\"%s\":\"%s\"", key, time);
}

static void json_gaps(FILE *out, const struct report_gaps *gaps)
{
        fprintf(out, "\"gaps\":{\"late\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"suspend\":%" PRIu64 ",\"reboot\":%" PRIu64
                ",\"reset\":%" PRIu64 ",\"damaged\":%" PRIu64 "}", gaps->late, gaps->missed,
                gaps->suspends, gaps->reboots, gaps->resets, gaps->damages);
}

static int json_table(const struct report *report, const struct report_phase *phase, enum report_table which, const char *key, FILE *out)
{
        struct table table;

        table_init(&table, true);
        int r = report_table(report, phase, which, REPORT_JSON, 0, &table);
        fprintf(out, "\"%s\":", key);
        if (r == 0)
                table_json(&table, out);
        table_fini(&table);
        return r;
}

static void json_lines(FILE *out, const char *key, const struct report_lines *lines)
{
        char clean[TEXT];

        fprintf(out, "\"%s\":[", key);
        for (size_t i = 0; i < lines->count; i++) {
                clean_json(clean, sizeof clean, lines->lines[i], strlen(lines->lines[i]));
                fprintf(out, "%s\"%s\"", i ? "," : "", clean);
        }
        fputc(']', out);
}

static void json_sources(const struct report *report, FILE *out)
{
        fputs("\"sources\":[", out);
        for (size_t i = 0; i < report->source_count; i++) {
                const struct report_source *s = &report->sources[i];
                fputs(i ? ",{" : "{", out);
                json_text(out, "path", s->path, false);
                fputc(',', out);
                json_text(out, "host", s->host, true);
                fprintf(out, ",\"own\":%s,\"by\":\"%s\",\"found\":%zu,\"placed\":%zu,\"marks\":%zu,", s->own ? "true" : "false", s->by_marks
                        ? "marks" : "time", s->found, s->placed, s->marks);
                json_number(out, "clock_offset", s->offset_known ? s->offset : NAN);
                fputc(',', out);
                json_number(out, "clock_offset_spread", s->offset_spread);
                fputc('}', out);
        }
        fputc(']', out);
}

static void json_head(const struct report *report, FILE *out)
{
        const struct { const char *key, *text; } texts[] = {{"path", report->path}, {"label", report->label}, {"command", report->command},
                {"kind", report->kind}, {"host", report->host},
                {"kernel", report->kernel}, {"cpu_model", report->model}, {"watch", report->watch}, {"members", report->rule},
                        {"version", report->version}};

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                json_text(out, texts[i].key, texts[i].text, true);
                fputc(',', out);
        }
        fprintf(out, "\"cores\":%u,\"frames\":%" PRIu64 ",\"log_bytes\":%" PRIu64 ",\"finished\":%s,\"rounds\":%u,", report->cores,
                report->frames, report->log_bytes,
                report->finished ? "true" : "false", report->rounds);
        json_number(out, "interval", (double)report->tick_ns * 1e-9);
        fputc(',', out);
        json_time(out, "from", report->first_real_ns);
        fputc(',', out);
        json_time(out, "to", report->last_real_ns);
        fputc(',', out);
        json_number(out, "own_cpu_seconds", report->own_seconds);
        fputc(',', out);
        json_number(out, "wall_seconds", report->wall_seconds);
        fputc(',', out);
        json_gaps(out, &report->gaps);
        fputc(',', out);
        json_sources(report, out);
        fputc(',', out);
        json_lines(out, "notes", &report->warnings);
}

static void json_result_lines(const struct report *report, const struct report_phase *phase, FILE *out)
{
        char name[6 * RESULT_NAME + 8], text[6 * RESULT_LINE + 8];
        bool first = true;

        fputs("\"lines\":[", out);
        for (size_t i = 0; i < phase->result_count; i++)
                for (size_t j = 0; j < phase->results[i].count; j++) {
                        const struct result *item = &report->results.items[phase->results[i].items[j]];
                        clean_json(name, sizeof name, item->name, strlen(item->name));
                        clean_json(text, sizeof text, item->line, strlen(item->line));
                        fprintf(out, "%s{\"result\":\"%s\",\"line\":\"%s\",", first ? "" : ",", name, text);
                        json_number(out, "value", item->value);
                        fputc('}', out);
                        first = false;
                }
        fputc(']', out);
}

static int json_phase(const struct report *report, const struct report_phase *phase, const struct report_shape *shape, FILE *out)
{
        static const struct { enum report_table which; const char *key; } tables[] = {{REPORT_TABLE_RESULTS, "results"},
                {REPORT_TABLE_CORES, "cores"}, {REPORT_TABLE_LOAD, "load"},
                {REPORT_TABLE_TASKS, "tasks"}, {REPORT_TABLE_DEVICES, "devices"}, {REPORT_TABLE_SAR_OLD, "sar_old"},
                        {REPORT_TABLE_FIO, "disk_stats"}, {REPORT_TABLE_STAGES, "stages"}, {REPORT_TABLE_BIOS, "bios"},
                        {REPORT_TABLE_SYNC, "sync"}, {REPORT_TABLE_SPREAD, "spread"}};

        json_text(out, "title", phase->title, false);
        fprintf(out, ",\"round\":%u,\"valid\":%s,\"seq\":[%" PRIu64 ",%" PRIu64 "],\"seq_full\":[%" PRIu64 ",%" PRIu64 "],", phase->round,
                phase->valid ? "true" : "false", phase->used.from_sequence,
                phase->used.to_sequence, phase->full.from_sequence, phase->full.to_sequence);
        json_time(out, "from", phase->full.from_real_ns);
        fputc(',', out);
        json_time(out, "to", phase->full.to_real_ns);
        fputc(',', out);
        json_number(out, "seconds", report_seconds(&phase->used));
        fputc(',', out);
        json_number(out, "seconds_full", report_seconds(&phase->full));
        fputc(',', out);
        json_number(out, "command_cpu_seconds", phase->ran ? (double)(phase->user_ns + phase->system_ns) * 1e-9 : NAN);
        fputc(',', out);
        json_gaps(out, &phase->gaps);
        fputc(',', out);
        json_result_lines(report, phase, out);
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
                if (tables[i].which == REPORT_TABLE_SPREAD && !shape->spread)
                        continue;
                fputc(',', out);
                int r = json_table(report, phase, tables[i].which, tables[i].key, out);
                if (r < 0)
                        return r;
        }
        return 0;
}

int report_json(const struct report *report, const struct report_shape *shape, FILE *out)
{
        struct report_lines lines = {0};

        fputs("{\"report\":{", out);
        json_head(report, out);
        fputs("},", out);
        int r = json_table(report, NULL, REPORT_TABLE_PHASES, "phases", out);
        if (r == 0)
                r = report_say(report, &lines);
        fputc(',', out);
        json_lines(out, "sentences", &lines);
        report_lines_free(&lines);
        fputs(",\"details\":[", out);
        for (size_t i = 0; r == 0 && i < report->phase_count; i++) {
                fputs(i ? ",{" : "{", out);
                r = json_phase(report, &report->phases[i], shape, out);
                fputc('}', out);
        }
        fputs("]}\n", out);
        return r < 0 ? r : done(out);
}

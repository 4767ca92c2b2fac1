/*
 * Tables of block tracing (watop record --stages): latency by device, direction and stage, who waited, and the calls that wait for data;
 * and the sentence about them.
 *
 * Durations are of the phase's used span, percentiles from the buckets' gain over it. The largest is known to its bucket, so it is a bound
 * (`<`). Shares and parts add up to 100.0.
 */
#include <errno.h>
#include <string.h>

#include "tui/latency.h"
#include "tui/report_make.h"
#include "tui/report_tables.h"

enum { PEOPLE_ROWS = 20, WORDS = 3 /* parts that are named */, TIMES = 6 /* n, avg, p50, p95, p99, max */ };

/* What fills a table. */
struct filling {
        const struct state *state;
        const struct latency *latency;
        struct report_columns *columns;
        bool people;
};

static void time_columns(const struct filling *f)
{
        static const char *const human[TIMES] = {"N", "avg ms", "p50", "p95", "p99", "max"};
        static const char *const machine[TIMES] = {"n", "avg_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"};
        static const unsigned ranks[TIMES] = {1, 1, 6, 7, 2, 4};

        for (int i = 0; i < TIMES; i++)
                report_column(f->columns, f->people ? human[i] : machine[i], i == 0 ? 0 : 6, 0, ranks[i]);
        report_column(f->columns, "max_is_bound", 0, TABLE_MACHINE, 1);
}

static struct value ms_value(const struct filling *f, double ns, bool bound)
{
        char number[32], text[40];

        if (!f->people || isnan(ns))
                return report_cell(ns / 1e6);
        latency_ms(number, sizeof number, ns);
        snprintf(text, sizeof text, "%s%s", bound ? "<" : "", number);
        return table_copy(f->columns->table, text);
}

/* Cells of time_columns. Returns the next one. */
static struct table_cell *time_cells(const struct filling *f, const struct latency_line *line, struct table_cell *cells)
{
        struct latency_times times;

        latency_times(f->state, line, &times);
        *cells++ = (struct table_cell){.value = report_cell(line->count)};
        *cells++ = (struct table_cell){.value = ms_value(f, latency_mean(line), false)};
        *cells++ = (struct table_cell){.value = ms_value(f, times.p50, false)};
        *cells++ = (struct table_cell){.value = ms_value(f, times.p95, false)};
        *cells++ = (struct table_cell){.value = ms_value(f, times.p99, false)};
        *cells++ = (struct table_cell){.value = ms_value(f, times.longest, times.bound)};
        *cells++ = (struct table_cell){.value = isnan(times.longest) ? (struct value){.kind = VALUE_ABSENT} : table_number(times.bound)};
        return cells;
}

static struct value word(const struct filling *f, const char *text)
{
        return text[0] ? table_copy(f->columns->table, text) : (struct value){.kind = VALUE_ABSENT};
}

static struct value pid_value(const struct latency_line *line)
{
        return line->pid ? table_number(line->pid) : (struct value){.kind = VALUE_ABSENT};
}

static const char *direction_name(uint8_t direction)
{
        return direction < STAGE_DIRECTIONS ? stage_direction_name((enum stage_direction)direction) : "?";
}

/* ---- stages -------------------------------------------------------------------------------------------------------------------------- */

/* Of people's table: tenths that add up to 100.0. */
static double share_percent(const struct filling *f, const struct latency_line *line)
{
        double paths[STAGE_Q2C], share = latency_share(f->latency, line);
        int tenths[STAGE_Q2C];

        if (!f->people || isnan(share) || line->what >= STAGE_Q2C)
                return share * 100;
        for (int i = 0; i < STAGE_Q2C; i++) {
                const struct latency_line *other = latency_stage(f->latency, line, (enum stage)i);
                paths[i] = other && other->path > 0 ? other->path : 0;
        }
        latency_tenths(paths, STAGE_Q2C, tenths);
        return (double)tenths[line->what] / 10;
}

static int stages(const struct filling *f)
{
        report_column(f->columns, f->people ? "Device" : "device", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(f->columns, "direction", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(f->columns, "stage", 0, TABLE_LEFT | TABLE_STRING, 1);
        time_columns(f);
        report_column(f->columns, f->people ? "share" : "share_pct", f->people ? 1 : 6, 0, 1);
        for (size_t i = 0; i < f->latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &f->latency->lines[LATENCY_STAGES][i];
                if (!latency_counted(line))
                        continue;
                struct table_cell *cells = table_row(f->columns->table);
                if (cells == NULL)
                        return -ENOMEM;
                cells[0].value = word(f, line->device_name);
                cells[1].value = word(f, direction_name(line->direction));
                cells[2].value = word(f, line->what < STAGE_COUNT ? stage_name((enum stage)line->what) : "?");
                cells = time_cells(f, line, cells + 3);
                cells->value = report_cell(share_percent(f, line));
        }
        return 0;
}

/* ---- who waited, and calls ----------------------------------------------------------------------------------------------------------- */

/* People get the largest in words, machines a column each. */
static void part_columns(const struct filling *f)
{
        static const char *const machine[SYNC_PARTS] = {[CAUSE_TAG] = "tag_pct", [CAUSE_PLUG] = "plug_pct", [CAUSE_QUEUE] = "queue_pct",
                [CAUSE_REFUSED] = "refused_pct", [CAUSE_DISK] = "disk_pct", [CAUSE_FLUSH] = "flush_pct", [CAUSE_DRIVER] = "driver_pct",
                [CAUSE_OTHER] = "other_pct", [SYNC_JOURNAL] = "journal_pct"};
        if (f->people)
                report_column(f->columns, "where, %", 0, TABLE_LEFT | TABLE_STRING, 3);
        for (int part = 0; part < SYNC_PARTS && !f->people; part++)
                report_column(f->columns, machine[part], 6, 0, 1);
}

static struct value words_of(const struct filling *f, const double part[SYNC_PARTS])
{
        int tenths[SYNC_PARTS];
        char text[96] = "";
        size_t used = 0;

        latency_tenths(part, SYNC_PARTS, tenths);
        for (int n = 0; n < WORDS; n++) {
                int largest = 0;
                for (int i = 1; i < SYNC_PARTS; i++)
                        if (tenths[i] > tenths[largest])
                                largest = i;
                if (tenths[largest] < 5 || used >= sizeof text)
                        break;
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %d", n ? " " : "", sync_part_name(largest),
                        (tenths[largest] + 5) / 10);
                tenths[largest] = 0;
        }
        return word(f, text);
}

static struct table_cell *part_cells(const struct filling *f, const struct latency_line *line, struct table_cell *cells)
{
        double sum = 0;

        if (f->people) {
                cells->value = words_of(f, line->part);
                return cells + 1;
        }
        for (int part = 0; part < SYNC_PARTS; part++)
                sum += line->part[part];
        for (int part = 0; part < SYNC_PARTS; part++)
                (cells++)->value = report_cell(sum > 0 ? line->part[part] * 100 / sum : (double)NAN);
        return cells;
}

static int bios(const struct filling *f)
{
        size_t shown = 0;

        report_column(f->columns, f->people ? "PID" : "pid", 0, 0, 1);
        report_column(f->columns, f->people ? "Command" : "command", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(f->columns, f->people ? "Device" : "device", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(f->columns, "direction", 0, TABLE_LEFT | TABLE_STRING, 1);
        time_columns(f);
        report_column(f->columns, f->people ? "kB" : "bytes", 0, 0, 5);
        part_columns(f);
        for (size_t i = 0; i < f->latency->count[LATENCY_BIOS] && !(f->people && shown == PEOPLE_ROWS); i++) {
                const struct latency_line *line = &f->latency->lines[LATENCY_BIOS][i];
                double bytes = 0;
                if (!latency_counted(line))
                        continue;
                struct table_cell *cells = table_row(f->columns->table);
                if (cells == NULL)
                        return -ENOMEM;
                cells[0].value = pid_value(line);
                cells[1].value = word(f, line->name);
                cells[2].value = word(f, line->device_name);
                cells[3].value = word(f, direction_name(line->direction));
                cells = time_cells(f, line, cells + 4);
                if (state_delta(line->row, BIO_BYTES, &bytes) == DELTA_OK)
                        cells->value = table_number(f->people ? bytes / 1024 : bytes);
                part_cells(f, line, cells + 1);
                shown++;
        }
        return 0;
}

static int calls(const struct filling *f)
{
        bool failed = !f->people;
        size_t shown = 0;
        char file[256];

        for (size_t i = 0; i < f->latency->count[LATENCY_CALLS]; i++)
                failed |= f->latency->lines[LATENCY_CALLS][i].errors > 0;
        report_column(f->columns, f->people ? "PID" : "pid", 0, 0, 1);
        report_column(f->columns, f->people ? "Command" : "command", 0, TABLE_LEFT | TABLE_STRING, 1);
        report_column(f->columns, "call", 0, TABLE_LEFT | TABLE_STRING, 1);
        time_columns(f);
        report_column(f->columns, f->people ? "failed" : "errors", 0, failed ? 0 : TABLE_MACHINE, 2);
        part_columns(f);
        report_column(f->columns, f->people ? "file (longest)" : "file", 0, TABLE_LEFT | TABLE_STRING, 5);
        for (size_t i = 0; i < f->latency->count[LATENCY_CALLS] && !(f->people && shown == PEOPLE_ROWS); i++) {
                const struct latency_line *line = &f->latency->lines[LATENCY_CALLS][i];
                if (!latency_counted(line))
                        continue;
                struct table_cell *cells = table_row(f->columns->table);
                if (cells == NULL)
                        return -ENOMEM;
                cells[0].value = pid_value(line);
                cells[1].value = word(f, line->name);
                cells[2].value = word(f, sync_call_name((enum sync_call)line->what));
                cells = time_cells(f, line, cells + 3);
                cells->value = report_cell(line->errors);
                cells = part_cells(f, line, cells + 1);
                cells->value = word(f, state_text_copy(f->state, line->row, SYNC_FILE, file, sizeof file));
                shown++;
        }
        return 0;
}

int report_table_latency(const struct report_phase *phase, enum report_table which, enum report_format format,
        struct report_columns *columns)
{
        struct latency latency = {0};
        struct filling f = {.state = phase->state, .latency = &latency, .columns = columns, .people = report_for_people(format)};

        int r = phase->valid ? latency_make(&latency, phase->state) : 0;
        if (r == 0)
                r = which == REPORT_TABLE_STAGES ? stages(&f) : which == REPORT_TABLE_BIOS ? bios(&f) : calls(&f);
        latency_fini(&latency);
        return r;
}

/* ---- the sentence -------------------------------------------------------------------------------------------------------------------- */

static const char *const where[SYNC_PARTS] = {[CAUSE_TAG] = "waiting for a free request", [CAUSE_PLUG] = "held back to be merged",
        [CAUSE_QUEUE] = "in the scheduler's queue", [CAUSE_REFUSED] = "refused by a full device", [CAUSE_DISK] = "with the device",
        [CAUSE_FLUSH] = "in the flush of the write cache", [CAUSE_DRIVER] = "in a driver without requests",
        [CAUSE_OTHER] = "with nothing of it open on a disk", [SYNC_JOURNAL] = "in the file system's journal"};

static double grown(const struct report_phase *phase, int metric)
{
        const struct state_row *self = phase->valid ? state_one(phase->state, SCOPE_SELF) : NULL;
        double delta = 0;

        return self && state_delta(self, metric, &delta) == DELTA_OK ? delta : 0;
}

static int say_losses(const struct report *report, struct report_lines *lines)
{
        double lost = 0, unmatched = 0;
        int r = 0;

        for (size_t i = 0; i < report->phase_count; i++) {
                lost += grown(&report->phases[i], SELF_STAGES_LOST);
                unmatched += grown(&report->phases[i], SELF_STAGES_UNMATCHED);
        }
        if (lost > 0)
                r = report_lines_add(lines, "Block tracing lost %.0f records: its counts are too small.", lost);
        if (r == 0 && unmatched > 0)
                r = report_lines_add(lines, "Block tracing could not match %.0f events.", unmatched);
        return r;
}

/* Of the process that waited longest in such calls, in whichever phase. */
int report_say_calls(const struct report *report, struct report_lines *lines)
{
        struct latency latency = {0};
        struct latency_line longest = {.total = 0};
        const struct report_phase *phase = NULL;
        double share;

        for (size_t i = 0; i < report->phase_count; i++) {
                if (!report->phases[i].valid || latency_make(&latency, report->phases[i].state) < 0)
                        continue;
                for (size_t n = 0; n < latency.count[LATENCY_CALLS]; n++) {
                        const struct latency_line *line = &latency.lines[LATENCY_CALLS][n];
                        if (latency_counted(line) && line->total > longest.total) {
                                longest = *line;
                                phase = &report->phases[i];
                        }
                }
        }
        latency_fini(&latency);
        int part = phase ? latency_largest(longest.part, &share) : -1;
        if (part < 0)
                return say_losses(report, lines);
        bool several = report->phase_count > 1 && phase->title[0];
        int r = report_lines_add(lines, "%s%s%s: %.0f%% of %s's time %s (%.0f call%s, %.3g ms on average).",
                sync_call_name((enum sync_call)longest.what), several ? " in " : "", several ? phase->title : "", share * 100,
                longest.name[0] ? longest.name : "-", where[part], longest.count, longest.count > 1 ? "s" : "",
                latency_mean(&longest) / 1e6);
        return r < 0 ? r : say_losses(report, lines);
}

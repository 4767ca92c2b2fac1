/*
 * The latency view, behind the key l: where the time of block I/O goes. On top each device and direction with its Q2C times and their
 * parts, below how the times of the chosen one were spread over the last reports, a column a report, then the calls that wait for data
 * (fsync) and the processes that wait, with the causes.
 *
 * Parts are % of the time and add up to 100. Columns that do not fit are left out whole: p50, then the rate, the largest, p99; parts
 * become the largest few in words. A time of which only its bucket is known has `<` before it. Rows of the heat map are powers of two, or
 * several of them where the screen is short; a cell's shade is the share of its column.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/view.h"

enum { TIMES = 5, TIME_WIDTH = 7, PARTS_WIDE = 59, PARTS_NARROW = 31, WORDS_LEAST = 12, FILE_LEAST = 12, SHADES = 5, HEAT_LABEL = 7 };
enum { RATE, MEAN, MEDIAN, P99, LONGEST };

static const char *const time_heads[TIMES] = {"n/s", "avg ms", "p50", "p99", "max"};
static const int time_widths[TIMES] = {TIME_WIDTH, TIME_WIDTH, TIME_WIDTH, TIME_WIDTH, TIME_WIDTH + 1};

struct page {
        const struct look *look;
        const struct state *state;
        const struct latency *latency;
        struct canvas *canvas;
        int row, last;                 /* next row; the first that is not ours */
        double seconds;                /* of the interval; 0 not known */
};

const struct latency_line *latency_picked(const struct latency *latency, const struct latency_pick *pick)
{
        const struct latency_line *most = NULL;

        for (size_t i = 0; i < latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &latency->lines[LATENCY_STAGES][i];
                if (!latency_is_whole(line))
                        continue;
                if (pick->chosen && line->device == pick->device && line->direction == pick->direction)
                        return line;
                if (most == NULL || line->total > most->total || (isnan(most->total) && !isnan(line->total)))
                        most = line;
        }
        return most;
}

/* ---- a table's columns --------------------------------------------------------------------------------------------------------------- */

struct columns {
        int label;                     /* columns of what stands before the numbers */
        bool shown[TIMES];
        int parts, parts_width;        /* where they begin; PARTS_WIDE, PARTS_NARROW, or less: in words; 0 none */
};

static void fit(struct columns *columns, int label, int cols)
{
        static const int leave[] = {MEDIAN, RATE, LONGEST, P99};
        int used = label;

        columns->label = label;
        for (int i = 0; i < TIMES; i++) {
                columns->shown[i] = true;
                used += time_widths[i];
        }
        for (size_t i = 0; i < sizeof leave / sizeof *leave && cols - used < WORDS_LEAST + (i == 0 ? 8 : 0); i++) {
                columns->shown[leave[i]] = false;
                used -= time_widths[leave[i]];
        }
        if (used > cols) { /* half a number is another one */
                columns->shown[MEAN] = false;
                used -= time_widths[MEAN];
        }
        int left = cols - used;
        columns->parts = used;
        columns->parts_width = left >= PARTS_WIDE ? PARTS_WIDE : left >= PARTS_NARROW ? PARTS_NARROW : left >= WORDS_LEAST ? left : 0;
}

static const struct { int cause, width; } wide[] = {{CAUSE_TAG, 6}, {CAUSE_PLUG, 6}, {CAUSE_QUEUE, 6}, {CAUSE_REFUSED, 8}, {CAUSE_DISK, 6},
        {CAUSE_FLUSH, 6}, {CAUSE_DRIVER, 7}, {SYNC_JOURNAL, 8}, {CAUSE_OTHER, 6}},
        narrow[] = {{CAUSE_TAG, 4}, {CAUSE_PLUG, 5}, {CAUSE_QUEUE, 6}, {CAUSE_DISK, 5}, {CAUSE_FLUSH, 6}, {-1, 5}};
enum { WIDE = sizeof wide / sizeof *wide, NARROW = sizeof narrow / sizeof *narrow };

static void draw_heads(struct page *p, const struct columns *columns, const char *label)
{
        struct canvas *c = p->canvas;
        int col = columns->label;

        canvas_put(c, p->row, 0, columns->label, STYLE_HEAD, label);
        for (int i = 0; i < TIMES; i++) {
                if (!columns->shown[i])
                        continue;
                canvas_right(c, p->row, col, time_widths[i], STYLE_HEAD, time_heads[i]);
                col += time_widths[i];
        }
        if (columns->parts_width == PARTS_WIDE) {
                for (int i = 0; i < WIDE; col += wide[i++].width)
                        canvas_right(c, p->row, col, wide[i].width, STYLE_HEAD, sync_part_name(wide[i].cause));
        } else if (columns->parts_width == PARTS_NARROW) {
                for (int i = 0; i < NARROW; col += narrow[i++].width)
                        canvas_right(c, p->row, col, narrow[i].width, STYLE_HEAD, narrow[i].cause < 0 ? "else" :
                                sync_part_name(narrow[i].cause));
        } else if (columns->parts_width > 0) {
                canvas_put(c, p->row, col + 2, c->cols, STYLE_HEAD, "where, %");
        }
        p->row++;
}

static void rate_text(const struct page *p, double count, char *text, size_t size)
{
        if (isnan(count) || p->seconds <= 0)
                snprintf(text, size, "-");
        else
                snprintf(text, size, "%.*f", count / p->seconds >= 999.95 ? 0 : 1, count / p->seconds);
}

static enum style part_style(int cause, double share)
{
        if (share < 0.5)
                return share < 0.0005 ? STYLE_DIM : STYLE_PLAIN;
        return cause == CAUSE_DISK || cause == CAUSE_FLUSH ? STYLE_DISK : STYLE_WARN;
}

/* The largest parts, as many as have room. */
static void draw_words(const struct page *p, int col, int room, const int tenths[SYNC_PARTS], int most)
{
        int left[SYNC_PARTS], at = 0;

        memcpy(left, tenths, sizeof left);
        for (int n = 0; n < most; n++) {
                char text[32];
                int largest = 0;
                for (int i = 1; i < SYNC_PARTS; i++)
                        if (left[i] > left[largest])
                                largest = i;
                int length = snprintf(text, sizeof text, "  %s %d", sync_part_name(largest), (left[largest] + 5) / 10);
                if (left[largest] < 5 || (n > 0 && at + length > room))
                        return;
                canvas_put(p->canvas, p->row, col + at, room - at, part_style(largest, (double)left[largest] / 1000), text);
                at += length;
                left[largest] = 0;
        }
}

static void draw_parts(const struct page *p, const struct columns *columns, const double part[SYNC_PARTS], int words)
{
        int tenths[SYNC_PARTS], col = columns->parts, rest = 1000;
        char text[16];

        latency_tenths(part, SYNC_PARTS, tenths);
        if (columns->parts_width == PARTS_WIDE) {
                for (int i = 0; i < WIDE; col += wide[i++].width) {
                        int value = tenths[wide[i].cause];
                        snprintf(text, sizeof text, "%d.%d", value / 10, value % 10);
                        canvas_right(p->canvas, p->row, col, wide[i].width, part_style(wide[i].cause, value / 1000.0), text);
                }
        } else if (columns->parts_width == PARTS_NARROW) {
                for (int i = 0; i < NARROW; col += narrow[i++].width) {
                        int value = narrow[i].cause < 0 ? rest : tenths[narrow[i].cause];
                        rest -= value;
                        snprintf(text, sizeof text, "%d", (value + 5) / 10);
                        canvas_right(p->canvas, p->row, col, narrow[i].width, part_style(narrow[i].cause, value / 1000.0), text);
                }
        } else if (columns->parts_width > 0) {
                draw_words(p, col, columns->parts_width, tenths, words);
        }
}

/* Numbers and parts of a line; its label is drawn by the caller. part NULL: none. */
static void draw_numbers(const struct page *p, const struct columns *columns, const struct latency_line *line, const double *part,
        int words)
{
        struct latency_times times;
        char text[TIMES][32], longest[24];
        int col = columns->label;

        latency_times(p->state, line, &times);
        rate_text(p, line->count, text[RATE], sizeof text[RATE]);
        latency_ms(text[MEAN], sizeof text[MEAN], latency_mean(line));
        latency_ms(text[MEDIAN], sizeof text[MEDIAN], times.p50);
        latency_ms(text[P99], sizeof text[P99], times.p99);
        latency_ms(longest, sizeof longest, times.longest);
        snprintf(text[LONGEST], sizeof text[LONGEST], "%s%s", times.bound && !isnan(times.longest) ? "<" : "", longest);
        for (int i = 0; i < TIMES; i++) {
                if (!columns->shown[i])
                        continue;
                canvas_right(p->canvas, p->row, col, time_widths[i], latency_counted(line) ? STYLE_PLAIN : STYLE_DIM, text[i]);
                col += time_widths[i];
        }
        if (part != NULL)
                draw_parts(p, columns, part, words);
}

static const char *clean(const struct page *p, const char *text, char *buffer, size_t size)
{
        clean_screen(buffer, size, text[0] ? text : "-", text[0] ? strlen(text) : 1, p->canvas->utf8, size - 1, NULL);
        return buffer;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------------- */

static const char *direction_letter(uint8_t direction)
{
        static const char *const letters[STAGE_DIRECTIONS] = {"r", "w", "d", "f", "e"};

        return direction < STAGE_DIRECTIONS ? letters[direction] : "?";
}

static void draw_device(struct page *p, const struct columns *columns, const struct latency_line *line, bool picked)
{
        double part[SYNC_PARTS];
        char name[64];

        canvas_put(p->canvas, p->row, 0, columns->label - 2, STYLE_STRONG, clean(p, line->device_name, name, sizeof name));
        canvas_put(p->canvas, p->row, columns->label - 1, 1, STYLE_STRONG, direction_letter(line->direction));
        draw_numbers(p, columns, line, latency_causes(p->latency, line, part) ? part : NULL, SYNC_PARTS);
        if (picked)
                canvas_restyle(p->canvas, p->row, 0, columns->label, STYLE_SELECTED);
        p->row++;
}

/* Devices that did nothing in all of the past shown are left out. */
static bool is_listed(const struct page *p, const struct latency_line *line, const struct latency_line *picked)
{
        return latency_is_whole(line) && (line == picked || latency_counted(line) ||
                (p->look->heat && heat_find(p->look->heat, line->device, line->direction, STAGE_Q2C)));
}

static size_t count_devices(const struct page *p, const struct latency_line *picked, size_t *at)
{
        size_t count = 0;

        *at = 0;
        for (size_t i = 0; i < p->latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &p->latency->lines[LATENCY_STAGES][i];
                if (!is_listed(p, line, picked))
                        continue;
                if (line == picked)
                        *at = count;
                count++;
        }
        return count;
}

static void draw_devices(struct page *p, const struct latency_line *picked)
{
        struct columns columns;
        size_t at, count = count_devices(p, picked, &at), n = 0;
        char head[64] = "Device";
        int room = p->last - p->row - 1;
        size_t most = (size_t)(room < 6 ? room : room < 30 ? 2 + room / 6 : room / 4);

        fit(&columns, p->canvas->cols >= 60 ? 12 : 9, p->canvas->cols);
        if (count > most)
                snprintf(head, sizeof head, "%s %zu/%zu", p->canvas->cols >= 60 ? "Device" : "Dev", most, count);
        draw_heads(p, &columns, head);
        size_t first = at >= most ? at + 1 - most : 0; /* the chosen one is seen */
        for (size_t i = 0; i < p->latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &p->latency->lines[LATENCY_STAGES][i];
                if (!is_listed(p, line, picked))
                        continue;
                if (n >= first && n < first + most && p->row < p->last)
                        draw_device(p, &columns, line, line == picked && count > 1);
                n++;
        }
}

/* ---- the heat map -------------------------------------------------------------------------------------------------------------------- */

/* The smallest duration of an octave, near enough: 2^10 ns is called 1 us. */
static void octave_text(unsigned octave, char *text, size_t size)
{
        static const char *const units[] = {"ns", "us", "ms", "s"};
        unsigned power = octave == 0 ? 0 : octave + HISTOGRAM_BITS - 1, unit = power / 10 < 3 ? power / 10 : 3;

        snprintf(text, size, "%u%s", octave == 0 ? 0u : 1u << (power - 10 * unit), units[unit]);
}

/* Octaves that any report of the past counted in. */
static bool octaves_used(const struct heat *heat, const struct heat_series *series, unsigned *low, unsigned *high)
{
        bool any = false;

        for (size_t ago = 0; ago < HEAT_STEPS; ago++) {
                const uint32_t *column = heat_column(heat, series, ago);
                for (unsigned octave = 0; column && octave < LATENCY_OCTAVES; octave++) {
                        if (column[octave] == 0)
                                continue;
                        *low = !any || octave < *low ? octave : *low;
                        *high = !any || octave > *high ? octave : *high;
                        any = true;
                }
        }
        return any;
}

static void draw_cell(const struct page *p, int row, int col, double share)
{
        static const double least[SHADES] = {0, 0.01, 0.05, 0.2, 0.5};
        static const char *const ascii[SHADES] = {".", ":", "+", "*", "#"};
        static const char *const blocks[SHADES] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
        int shade = 0;

        while (shade + 1 < SHADES && share >= least[shade + 1])
                shade++;
        canvas_put(p->canvas, row, col, 1, shade == 0 ? STYLE_DIM : shade < 3 ? STYLE_PLAIN : STYLE_LOAD,
                p->canvas->utf8 ? blocks[shade] : ascii[shade]);
}

static void draw_column(const struct page *p, const uint32_t *counts, int col, int rows, unsigned low, unsigned group)
{
        double total = 0;

        for (unsigned octave = 0; octave < LATENCY_OCTAVES; octave++)
                total += counts[octave];
        for (int row = 0; row < rows; row++) {
                unsigned from = low + (unsigned)(rows - 1 - row) * group;
                double sum = 0;
                for (unsigned octave = from; octave < from + group && octave < LATENCY_OCTAVES; octave++)
                        sum += counts[octave];
                if (sum > 0)
                        draw_cell(p, p->row + row, col, sum / total);
        }
}

/* "Q2C of sda w  [Q2C] Q2G I2D D2C" */
static void draw_heat_head(struct page *p, const struct latency_line *picked, uint8_t stage)
{
        struct canvas *c = p->canvas;
        char name[64];
        const char *legend = c->utf8 ? "\u00b7 \u2591 1% \u2592 5% \u2593 20% \u2588 50%" : ". : 1% + 5% * 20% # 50%";
        int col = canvas_format(c, p->row, 0, c->cols, STYLE_STRONG, "%s %s over time", clean(p, picked->device_name, name, sizeof name),
                direction_letter(picked->direction)) + 2;

        for (int n = 0; n < STAGE_COUNT; n++) {
                enum stage one = n == 0 ? STAGE_Q2C : (enum stage)(n - 1);
                if (one != stage && one != STAGE_Q2C && latency_stage(p->latency, picked, one) == NULL)
                        continue;
                col += canvas_put(c, p->row, col, c->cols - col, one == stage ? STYLE_SORT : STYLE_HEAD, stage_name(one)) + 1;
        }
        int width = c->utf8 ? 23 : (int)strlen(legend);
        if (col + 2 + width <= c->cols)
                canvas_put(c, p->row, c->cols - width, width, STYLE_DIM, legend);
        p->row++;
}

static void draw_heat(struct page *p, const struct latency_line *picked, uint8_t stage, int room)
{
        const struct heat *heat = p->look->heat;
        const struct heat_series *series = heat && picked ? heat_find(heat, picked->device, picked->direction, stage) : NULL;
        unsigned low = 0, high = 0, group = 1;
        struct canvas *c = p->canvas;

        if (picked == NULL)
                return;
        draw_heat_head(p, picked, stage);
        if (series == NULL || !octaves_used(heat, series, &low, &high)) {
                canvas_put(c, p->row++, 2, c->cols, STYLE_DIM, "nothing in the last reports");
                return;
        }
        while ((high - low) / group + 1 > (unsigned)(room - 1))
                group++;
        int rows = (int)((high - low) / group + 1);
        for (int row = 0; row < rows; row++) {
                char text[16];
                octave_text(low + (unsigned)(rows - 1 - row) * group, text, sizeof text);
                canvas_right(c, p->row + row, 0, HEAT_LABEL - 1, STYLE_DIM, text);
        }
        for (int ago = 0; ago < HEAT_STEPS && c->cols - 1 - ago >= HEAT_LABEL; ago++) {
                const uint32_t *counts = heat_column(heat, series, (size_t)ago);
                if (counts != NULL)
                        draw_column(p, counts, c->cols - 1 - ago, rows, low, group);
        }
        p->row += rows;
}

/* ---- who waits ----------------------------------------------------------------------------------------------------------------------- */

static size_t count_lines(const struct latency *latency, enum latency_kind kind)
{
        size_t count = 0;

        for (size_t i = 0; i < latency->count[kind]; i++)
                count += latency_counted(&latency->lines[kind][i]);
        return count;
}

static void put_pid(const struct page *p, uint32_t pid, int width)
{
        char text[16];

        snprintf(text, sizeof text, "%" PRIu32, pid);
        canvas_right(p->canvas, p->row, 0, width, STYLE_PLAIN, pid ? text : "-");
}

static void draw_call(struct page *p, const struct columns *columns, const struct latency_line *line)
{
        struct canvas *c = p->canvas;
        char text[192], file[160];
        bool narrow_label = columns->label < 30;
        int call = narrow_label ? columns->label / 2 : 20, at = columns->parts + columns->parts_width + 2;

        if (!narrow_label)
                put_pid(p, line->pid, 7);
        canvas_put(c, p->row, narrow_label ? 0 : 8, narrow_label ? call - 1 : 11, STYLE_STRONG, clean(p, line->name, text, sizeof text));
        canvas_put(c, p->row, call, columns->label - call - narrow_label, STYLE_PLAIN, sync_call_name((enum sync_call)line->what));
        bool words = columns->parts_width > 0 && columns->parts_width < PARTS_NARROW;
        draw_numbers(p, columns, line, isnan(line->part[0]) ? NULL : line->part, words ? 1 : SYNC_PARTS);
        if (words)
                at = columns->parts + 13;
        state_text_copy(p->state, line->row, SYNC_FILE, file, sizeof file);
        if (file[0] && columns->parts_width > 0 && c->cols - at >= 6)
                canvas_put(c, p->row, at, c->cols - at, STYLE_DIM, clean(p, file, text, sizeof text));
        p->row++;
}

static void draw_process(struct page *p, const struct columns *columns, const struct latency_line *line)
{
        struct canvas *c = p->canvas;
        char text[96];
        bool narrow_label = columns->label < 30;
        int device = narrow_label ? columns->label / 2 : 20;

        if (!narrow_label)
                put_pid(p, line->pid, 7);
        canvas_put(c, p->row, narrow_label ? 0 : 8, narrow_label ? device - 1 : 11, STYLE_STRONG, clean(p, line->name, text, sizeof text));
        canvas_put(c, p->row, device, columns->label - 2 - device, STYLE_PLAIN, clean(p, line->device_name, text, sizeof text));
        canvas_put(c, p->row, columns->label - 1, 1, STYLE_PLAIN, direction_letter(line->direction));
        draw_numbers(p, columns, line, isnan(line->part[0]) ? NULL : line->part, SYNC_PARTS);
        p->row++;
}

static void draw_list(struct page *p, enum latency_kind kind, size_t top, int rows)
{
        struct columns columns;
        int cols = p->canvas->cols;
        size_t n = 0;

        fit(&columns, cols >= 60 ? (kind != LATENCY_CALLS ? 32 : cols >= 100 ? 36 : 30) : 14, cols);
        if (cols >= 60)
                draw_heads(p, &columns, kind == LATENCY_CALLS ? "    PID Command     call" : "    PID Command     device");
        else
                draw_heads(p, &columns, kind == LATENCY_CALLS ? "calls" : "processes");
        for (size_t i = 0; i < p->latency->count[kind] && rows > 0; i++) {
                const struct latency_line *line = &p->latency->lines[kind][i];
                if (!latency_counted(line) || n++ < top)
                        continue;
                (kind == LATENCY_CALLS ? draw_call : draw_process)(p, &columns, line);
                rows--;
        }
}

/* Calls first: they are few, and what somebody waits for. Each list has at least half of the room if it needs it. */
static void draw_lists(struct page *p, struct latency_pick *pick)
{
        size_t calls = count_lines(p->latency, LATENCY_CALLS), bios = count_lines(p->latency, LATENCY_BIOS);
        int room = p->last - p->row - (calls > 0) - 1;

        pick->most = 0;
        if (room < 1 || calls + bios == 0)
                return;
        int half = (room + 1) / 2, for_calls = (int)calls < half ? (int)calls : half;
        if (bios < (size_t)(room - for_calls))
                for_calls = (size_t)room - bios < calls ? room - (int)bios : (int)calls;
        int for_bios = room - for_calls;
        size_t more_calls = calls - (size_t)for_calls, more_bios = bios > (size_t)for_bios ? bios - (size_t)for_bios : 0;
        pick->most = more_calls > more_bios ? more_calls : more_bios;
        pick->page = (size_t)(for_bios > for_calls ? for_bios : for_calls);
        pick->top = pick->top < pick->most ? pick->top : pick->most;
        if (for_calls > 0)
                draw_list(p, LATENCY_CALLS, pick->top < more_calls ? pick->top : more_calls, for_calls);
        if (bios > 0 && for_bios > 0)
                draw_list(p, LATENCY_BIOS, pick->top < more_bios ? pick->top : more_bios, for_bios);
}

/* ---- the page ------------------------------------------------------------------------------------------------------------------------ */

/* Why there is nothing to show. NULL: there is. */
static const char *nothing(const struct page *p, const struct latency_line *picked)
{
        const struct look *look = p->look;

        if (picked != NULL)
                return NULL;
        if (look->place)
                return "No block latency is in this part of the recording (watop record --stages records it).";
        if (look->ago)
                return "Nothing was traced then.";
        if (p->state == NULL)
                return "Nothing was sampled yet.";
        if (look->source && (look->source->missing_scopes & LATENCY_SCOPES))
                return "Block tracing is not to be had from this watopd: it needs root, and BPF or tracefs (watopd --check says what "
                        "is missing).";
        if (p->latency->source == 0)
                return "Block tracing is not possible on this machine (watopd --check says why).";
        return p->latency->source >= 2 ? "Traced; no block I/O has ended on any device yet." : "Block tracing begins ...";
}

static void draw_title(struct page *p)
{
        static const char *const sources[] = {"", "", "traced by BPF", "traced through tracefs"};
        const struct look *look = p->look;
        struct canvas *c = p->canvas;
        int col = canvas_put(c, p->row, 0, c->cols, STYLE_STRONG, "block latency") + 2;
        const char *place = look->place ? look->place->position : look->ago ? look->ago : "";

        if (p->latency->source >= 2)
                col += canvas_put(c, p->row, col, c->cols - col, STYLE_DIM, sources[p->latency->source]) + 2;
        if (p->latency->lost > 0)
                col += canvas_format(c, p->row, col, c->cols - col, STYLE_BAD, "%.0f lost: figures are too small", p->latency->lost) + 2;
        if (look->place && look->place->phase[0] && col + 8 < c->cols)
                col += canvas_put(c, p->row, col, c->cols - col, STYLE_PLAIN, look->place->phase) + 2;
        if (place[0] && col + (int)strlen(place) <= c->cols)
                canvas_put(c, p->row, c->cols - (int)strlen(place), c->cols, STYLE_PLAIN, place);
        p->row++;
}

static void draw_foot(const struct look *look, const struct latency_pick *pick, struct canvas *c)
{
        bool stopped = look->source && look->source->stopped;
        const char *gone = look->gone_seconds < 0 ? look->paused ? "PAUSED   " : "" : stopped ? "watopd does not answer   " :
                "watopd is gone   ";
        int row = c->rows - 1;

        if (look->note)
                canvas_put(c, row, 0, c->cols, STYLE_STRONG, look->note);
        else
                canvas_format(c, row, 0, c->cols, STYLE_DIM, "%sEsc: back  Up Down: device  Left Right: stage%s", gone,
                        pick->most > 0 ? "  PgUp PgDn: scroll" : "");
}

/* A sentence over several lines. */
static void draw_sentence(struct page *p, const char *text)
{
        while (*text && p->row < p->last) {
                size_t room = (size_t)p->canvas->cols, length = strlen(text), cut = length;
                if (length > room) {
                        for (cut = room; cut > 0 && text[cut] != ' '; cut--)
                                ;
                        cut = cut > 0 ? cut : room;
                }
                canvas_format(p->canvas, p->row++, 0, (int)room, STYLE_PLAIN, "%.*s", (int)cut, text);
                text += cut;
                text += *text == ' ';
        }
}

void latency_draw(const struct look *look, struct latency_pick *pick, struct canvas *c)
{
        struct page p = {.look = look, .state = look->state, .latency = look->latency, .canvas = c,
                .last = c->rows >= 4 ? c->rows - 1 : c->rows};
        const struct latency_line *picked = latency_picked(look->latency, pick);
        const char *why = nothing(&p, picked);

        canvas_clear(c);
        if (p.state) {
                struct state_info info = state_info(p.state);
                p.seconds = info.valid && info.mono_ns > info.base_mono_ns ? (double)(info.mono_ns - info.base_mono_ns) / 1e9 : 0;
        }
        if (c->rows >= 5)
                draw_title(&p);
        if (why) {
                draw_sentence(&p, why);
        } else {
                draw_devices(&p, picked);
                int left = p.last - p.row;
                if (left >= 10)
                        draw_heat(&p, picked, pick->stage, left * 2 / 5 < 18 ? left * 2 / 5 : 18);
                draw_lists(&p, pick);
        }
        if (p.last < c->rows)
                draw_foot(look, pick, c);
}

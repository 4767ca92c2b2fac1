/*
 * The lines above and below the panels: who and when, load, wa with its parts, the verdict; the explanation of the selected column,
 * the keys.
 *
 * What does not fit is left out whole, least important first: a cut number would be a wrong one. The wa line comes first on a tiny screen.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/clean.h"
#include "tui/view.h"
#include "tui/why.h"

enum { PARTS = 12, SHORT_SCREEN = 8, TALL_SCREEN = 30 };

static bool has_verdict(const struct look *look)
{
        return look->verdict && look->tally && look->tally->valid && look->verdict->show && look->verdict->brief[0];
}

int head_rows(const struct look *look, int rows)
{
        if (rows <= 2)
                return rows;
        if (rows < SHORT_SCREEN)
                return rows >= 6 || look->gone_seconds >= 0 ? 3 : 2;
        return has_verdict(look) ? 4 : 3;
}

int foot_rows(int rows)
{
        return rows < 6 ? 0 : rows < TALL_SCREEN ? 1 : 2;
}

/* Value of a fact as shown, "" when it is not known. */
static const char *fact(const struct look *look, const char *name, char *out, size_t size, bool utf8)
{
        out[0] = '\0';
        for (size_t i = 0; look->state && i < state_count(look->state, SCOPE_FACT); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_FACT, i);
                size_t length = 0;
                const char *text = row->gone ? NULL : state_text(look->state, row, FACT_NAME, &length);
                if (!text || length != strlen(name) || memcmp(text, name, length) != 0)
                        continue;
                text = state_text(look->state, row, FACT_VALUE, &length);
                if (text)
                        clean_screen(out, size, text, length, utf8, size, NULL);
                break;
        }
        return out;
}

struct part {
        char text[160];
        int rank;         /* 1 stays longest */
        enum style style;
        bool right;       /* belongs to the right end */
};

/* Draw the parts that fit, in their order, two blanks between them. */
static void draw_parts(struct canvas *c, int row, struct part *parts, int count, int gap)
{
        int total = 0, left = 0, right = c->clip.cols;
        bool take[PARTS] = {false};
        for (int rank = 1; rank <= 9; rank++)
                for (int i = 0; i < count; i++) {
                        int length = (int)strlen(parts[i].text);
                        bool fits = total + length + (total ? gap : 0) <= c->clip.cols;
                        if (parts[i].rank != rank || length == 0 || (!fits && (rank > 1 || total > 0)))
                                continue;
                        take[i] = true;
                        total += length + (total ? gap : 0);
                }
        for (int i = count - 1; i >= 0; i--)
                if (take[i] && parts[i].right) {
                        right -= (int)strlen(parts[i].text);
                        canvas_put(c, row, right, c->clip.cols, parts[i].style, parts[i].text);
                        right -= gap;
                }
        for (int i = 0; i < count; i++)
                if (take[i] && !parts[i].right)
                        left += canvas_put(c, row, left, c->clip.cols, parts[i].style, parts[i].text) + gap;
}

static void uptime_text(const struct look *look, char *out, size_t size)
{
        const struct state_row *row = look->state ? state_one(look->state, SCOPE_SYSTEM) : NULL;
        uint64_t up;
        out[0] = '\0';
        if (!row || !state_now(row, SYSTEM_UPTIME, &up))
                return;
        up /= UINT64_C(1000000000);
        unsigned long long days = up / 86400;
        unsigned hours = (unsigned)(up / 3600 % 24), minutes = (unsigned)(up / 60 % 60);
        if (days)
                snprintf(out, size, "up %llud %02u:%02u", days, hours, minutes);
        else
                snprintf(out, size, "up %u:%02u", hours, minutes);
}

static void source_text(const struct look *look, char *out, size_t size)
{
        const struct attach_info *source = look->source;
        out[0] = '\0';
        if (!source)
                return;
        if (source->private_daemon)
                snprintf(out, size, geteuid() == 0 ? "private" : "private, not root");
        else
                snprintf(out, size, "watopd %d%s", (int)source->pid, source->owner == 0 ? " of root" : "");
        if (!source->same_pid_ns)
                snprintf(out + strlen(out), size - strlen(out), ", other pid namespace");
}

static void interval_text(const struct look *look, char *out, size_t size)
{
        double seconds = (double)look->interval_ns * 1e-9;
        snprintf(out, size, seconds < 1 ? "%.2fs" : seconds < 10 ? "%.1fs" : "%.0fs", seconds);
}

static void clock_text(const struct look *look, int cols, char *out, size_t size)
{
        uint64_t real = look->state ? state_info(look->state).real_ns : 0;
        time_t seconds = (time_t)(real / UINT64_C(1000000000));
        struct tm local;
        out[0] = '\0';
        if (!real || !localtime_r(&seconds, &local))
                return;
        /* A recording may be of any day. */
        size_t used = strftime(out, size, cols >= (look->place ? 100 : 140) ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &local);
        if (look->place && look->place->zone[0])
                snprintf(out + used, size - used, " %s", look->place->zone);
}

static void gaps_text(const struct look *look, char *out, size_t size)
{
        const char *gap = look->state ? gap_name(state_info(look->state).gap) : NULL;
        out[0] = '\0';
        if (look->place && look->place->damaged)
                snprintf(out, size, "damaged here");
        else if (gap)
                snprintf(out, size, "gap: %.20s", gap);
        else if (look->source && look->source->gaps > 0)
                snprintf(out, size, "%llu gap%s", (unsigned long long)look->source->gaps, look->source->gaps == 1 ? "" : "s");
}

/* Of a recording: which, where in it, how it is played. */
static void place_line(const struct look *look, struct canvas *c, int row)
{
        const struct look_place *place = look->place;
        struct part parts[PARTS] = {
                {.rank = 4, .style = STYLE_STRONG}, {.rank = 6}, {.rank = 7, .style = STYLE_DIM}, {.rank = 3, .style = STYLE_STRONG},
                {.rank = 1, .style = STYLE_WARN}, {.rank = 5, .right = true}, {.rank = 4, .right = true},
                {.rank = 1, .style = STYLE_WARN, .right = true}, {.rank = 1, .right = true}, {.rank = 2, .right = true, .style = STYLE_DIM},
        };

        snprintf(parts[0].text, sizeof parts[0].text, "%s", place->name);
        fact(look, "host", parts[1].text, 48, c->utf8);
        if (look->tally && look->tally->cores)
                snprintf(parts[2].text, sizeof parts[2].text, "%u cpu", look->tally->cores);
        snprintf(parts[3].text, sizeof parts[3].text, "%s", place->phase);
        gaps_text(look, parts[4].text, sizeof parts[4].text);
        snprintf(parts[5].text, sizeof parts[5].text, "%s", place->position);
        snprintf(parts[6].text, sizeof parts[6].text, "%s", place->speed);
        snprintf(parts[7].text, sizeof parts[7].text, "%s", look->paused ? "PAUSED" : "");
        clock_text(look, c->clip.cols, parts[8].text, sizeof parts[8].text);
        interval_text(look, parts[9].text, sizeof parts[9].text);
        draw_parts(c, row, parts, 10, 2);
}

static void head_line(const struct look *look, struct canvas *c, int row)
{
        if (look->place) {
                place_line(look, c, row);
                return;
        }
        struct part parts[PARTS] = {
                {.text = "watop", .rank = 9, .style = STYLE_STRONG}, {.rank = 2, .style = STYLE_STRONG},
                {.rank = 7}, {.rank = 4}, {.rank = 6},
                {.rank = 5, .style = STYLE_DIM}, {.rank = 8, .style = STYLE_DIM}, {.rank = 3, .style = STYLE_WARN},
                {.rank = 1, .style = STYLE_WARN, .right = true}, {.rank = 1, .right = true}, {.rank = 2, .right = true, .style = STYLE_DIM},
        };
        int cols = c->clip.cols;
        if (look->gone_seconds >= 0) {
                snprintf(parts[0].text, sizeof parts[0].text, "watopd %s since %.0f s; looking for it",
                        look->source && look->source->stopped ? "does not answer" : "is gone", look->gone_seconds);
                parts[0].rank = 1;
                parts[0].style = STYLE_BAD;
        }
        char kernel[128];
        fact(look, "host", parts[1].text, 48, c->utf8);
        fact(look, "kernel", kernel, sizeof kernel, c->utf8);
        if (kernel[0] && cols < 100 && strlen(kernel) > 14) /* the version without what the distribution adds */
                kernel[strcspn(kernel, "-+ ")] = '\0';
        if (kernel[0])
                snprintf(parts[2].text, sizeof parts[2].text, "%s%.100s", strncmp(kernel, "Linux", 5) == 0 ? "" : "Linux ", kernel);
        if (look->tally && look->tally->cores)
                snprintf(parts[3].text, sizeof parts[3].text, "%u cpu", look->tally->cores);
        uptime_text(look, parts[4].text, sizeof parts[4].text);
        source_text(look, parts[5].text, sizeof parts[5].text);
        if (look->source && !look->source->private_daemon && look->source->history_ns)
                snprintf(parts[6].text, sizeof parts[6].text, "history %.0f s", (double)look->source->history_ns * 1e-9);
        gaps_text(look, parts[7].text, sizeof parts[7].text);
        snprintf(parts[8].text, sizeof parts[8].text, "%s", look->ago ? look->ago : look->paused ? "PAUSED" : "");
        clock_text(look, cols, parts[9].text, sizeof parts[9].text);
        interval_text(look, parts[10].text, sizeof parts[10].text);
        draw_parts(c, row, parts, 11, 2);
}

/* The longest of the ways to say it that fits; the last one is used when none does. */
static void first_that_fits(char *out, size_t size, int cols, const char *const *ways, int count)
{
        int i = 0;
        while (i < count - 1 && (int)strlen(ways[i]) > cols)
                i++;
        snprintf(out, size, "%s", ways[i]);
}

static void load_text(const struct tally *t, int cols, char *out, size_t size)
{
        char whole[160], number[32], some[64], brief[48];
        tally_load_line(t, whole, sizeof whole);
        value_format(number, sizeof number, &t->load, 1);
        snprintf(some, sizeof some, "load %s%% of %u%% (%.1f%%)", number, t->cores * 100, t->load_share);
        value_format(number, sizeof number, &t->load, 0);
        snprintf(brief, sizeof brief, "load %s", number);
        first_that_fits(out, size, cols, (const char *const[]){whole, some, brief}, 3);
}

static void wa_text(const struct tally *t, int cols, char *out, size_t size)
{
        char line[128], whole[136], parts[4][32], tight[192], brief[48];
        const struct value *values[4] = {&t->wa, &t->disk, &t->uring, &t->other};
        tally_wa_line(t, line, sizeof line);
        bool plain = strncmp(line, "wa ", 3) == 0; /* numbers of load and wa stand below each other */
        snprintf(whole, sizeof whole, "%s%s", plain ? "wa   " : "", plain ? line + 3 + strspn(line + 3, " ") : line);
        for (int i = 0; i < 4; i++)
                value_format(parts[i], sizeof parts[i], values[i], 0);
        snprintf(tight, sizeof tight, "wa %s=disk %s+uring %s+other %s", parts[0], parts[1], parts[2], parts[3]);
        snprintf(brief, sizeof brief, "wa %s", parts[0]);
        first_that_fits(out, size, cols, (const char *const[]){whole, tight, brief}, 3);
}

/* PSI of I/O, and how much of it is parked io_uring threads: the kernel takes those for stalled. */
static void pressure_text(const struct tally *t, char *out, size_t size)
{
        out[0] = '\0';
        if (t->io_some < 1)
                return;
        int used = snprintf(out, size, "PSI io %.0f%%", t->io_some);
        struct why_part part = {t->io_some, t->io_some_uring, t->io_some_uring_low, t->io_some_uring_high};
        struct value value;
        char shown[32];
        if (used <= 0 || (size_t)used >= size || !why_part_value(t, &part, &value) || value.number < 0.5)
                return;
        value_format(shown, sizeof shown, &value, 0);
        snprintf(out + used, size - (size_t)used, " (%s io_uring)", shown);
}

static void load_line(const struct look *look, struct canvas *c, int row)
{
        const struct tally *t = look->tally;
        struct part parts[PARTS] = {
                {.rank = 1}, {.rank = 4}, {.rank = 3, .style = STYLE_WARN}, {.rank = 5, .right = true, .style = STYLE_DIM},
                {.rank = 6, .right = true, .style = STYLE_DIM},
        };
        if (!t || !t->valid) {
                snprintf(parts[0].text, sizeof parts[0].text, "load -");
                snprintf(parts[3].text, sizeof parts[3].text, "rates after the first interval");
                parts[3].rank = 2;
        } else {
                load_text(t, c->clip.cols, parts[0].text, sizeof parts[0].text);
                if (t->cores > 1 && t->busiest >= 0)
                        snprintf(parts[1].text, sizeof parts[1].text, "busiest cpu%u %.1f, quietest %.1f",
                                t->busiest_core, t->busiest, t->quietest);
                if (t->steal.kind == VALUE_NUMBER && t->steal.number >= 1)
                        snprintf(parts[2].text, sizeof parts[2].text, "steal %.1f", t->steal.number);
                pressure_text(t, parts[4].text, sizeof parts[4].text);
                if (t->memory_total > 0 && t->memory_used >= 0)
                        snprintf(parts[3].text, sizeof parts[3].text, "mem %.1f of %.1fG",
                                t->memory_used / (1 << 30), t->memory_total / (1 << 30));
        }
        draw_parts(c, row, parts, 5, 2);
}

/* loadavg counts running and D-state tasks; on a host with parked rings it does not count those, which is worth seeing beside wa. */
static void loadavg_text(const struct tally *t, bool wide, char *out, size_t size)
{
        out[0] = '\0';
        if (t->load1 < 0)
                return;
        int used = wide && t->load5 >= 0 && t->load15 >= 0 ? snprintf(out, size, "loadavg %.2f %.2f %.2f", t->load1, t->load5, t->load15) :
                snprintf(out, size, "loadavg %.2f", t->load1);
        if (t->running >= 0 && used > 0 && (size_t)used < size)
                used += snprintf(out + used, size - (size_t)used, ": %.0f run", t->running);
        if (t->running >= 0 && used > 0 && (size_t)used < size)
                snprintf(out + used, size - (size_t)used, " + %.0f in D%s", t->d_tasks, t->threads_known || !wide ? "" : " seen");
}

static void wa_line(const struct look *look, struct canvas *c, int row)
{
        const struct tally *t = look->tally;
        struct part parts[PARTS] = {
                {.rank = 1}, {.rank = 5, .style = STYLE_DIM}, {.rank = 4, .right = true}, {.rank = 6, .right = true, .style = STYLE_DIM},
        };
        if (!t || !t->valid) {
                snprintf(parts[0].text, sizeof parts[0].text, "wa   -");
        } else {
                wa_text(t, c->clip.cols, parts[0].text, sizeof parts[0].text);
                if (t->level && t->wa.kind == VALUE_NUMBER && t->wa.number >= 5)
                        snprintf(parts[1].text, sizeof parts[1].text, "(%.16s)", t->level);
        }
        if (t) {
                loadavg_text(t, c->clip.cols >= 100, parts[2].text, sizeof parts[2].text);
                if (c->clip.cols >= 160 && t->dirty >= 0)
                        snprintf(parts[3].text, sizeof parts[3].text, "dirty %.1fM", t->dirty / (1 << 20));
        }
        draw_parts(c, row, parts, 4, 2);
}

static void verdict_line(const struct look *look, struct canvas *c, int row)
{
        bool room = c->clip.cols >= 40;
        enum style style = look->verdict->answer == ANSWER_DISK_SLOW ? STYLE_BAD : look->verdict->waits ? STYLE_WARN : STYLE_STRONG;
        char brief[sizeof look->verdict->brief];
        snprintf(brief, sizeof brief, "%s", look->verdict->brief);
        verdict_fit(brief, (size_t)(c->clip.cols - (room ? 8 : 0)));
        int end = canvas_stranger(c, row, 0, c->clip.cols - (room ? 8 : 0), style, brief, strlen(brief));
        if (room && end <= c->clip.cols - 8)
                canvas_put(c, row, c->clip.cols - 6, 6, STYLE_DIM, "w: why");
}

void head_draw(const struct look *look, struct canvas *c)
{
        int rows = c->clip.rows;
        if (rows == 1) {
                wa_line(look, c, 0);
        } else if (rows == 2) {
                load_line(look, c, 0);
                wa_line(look, c, 1);
        } else if (rows >= 3) {
                head_line(look, c, 0);
                load_line(look, c, 1);
                wa_line(look, c, 2);
                if (rows >= 4 && has_verdict(look))
                        verdict_line(look, c, 3);
        }
}

static void keys_line(const struct look *look, struct canvas *c, int row)
{
        const char *keys = "? help   Tab panel   Left Right sort   r reverse   / find   f filter   H threads   "
                "c command line   z idle   Space pause   + - interval   w why   q quit";
        const char *some = "? help   Tab panel   s sort   / find   f filter   H threads   z idle   Space pause   w why   q quit";
        if (look->place) {
                keys = "? help   Space pause   < > step   [ ] speed   { } phase   g go to   B E begin, end   Tab panel   s sort   / find   "
                        "z idle   w why   q quit";
                some = "? help  Space pause  < > step  [ ] speed  { } phase  g go to  B E begin, end";
        }
        canvas_put(c, row, 0, c->clip.cols, STYLE_DIM, (int)strlen(keys) <= c->clip.cols ? keys : some);
}

void foot_draw(const struct look *look, const struct panel *panel, struct canvas *c)
{
        int last = c->clip.rows - 1, cols = c->clip.cols;
        const struct column *column = panel_column(panel, look->choose > -2 ? look->choose : panel->sort);
        if (last < 0)
                return;
        if (last > 0)
                keys_line(look, c, 0);
        if (look->note) {
                canvas_put(c, last, 0, cols, STYLE_STRONG, look->note);
                return;
        }
        const char *text = column ? column->text : panel->view == &view_cpu ? "CPU: number of the core." : panel->view == &view_disk ?
                "Device: kernel name; stacked devices stand under the first device they use." : "PID: number of the process.";
        const char *lead = look->choose > -2 ? "sort by " : "";
        int used = canvas_format(c, last, 0, cols, look->choose > -2 ? STYLE_STRONG : STYLE_PLAIN, "%s%s", lead, text);
        if (panel->filter[0] && used + 12 < cols)
                used += canvas_format(c, last, used + 2, cols - used - 2, STYLE_WARN, "[filter: %s]", panel->filter) + 2;
        if (last == 0 && used + 9 <= cols)
                canvas_put(c, last, cols - 6, 6, STYLE_DIM, "? help");
}

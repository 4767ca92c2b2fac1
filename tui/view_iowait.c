/*
 * The iowait view, behind the key i: each core's wa and its parts, what it was over the last reports, and who caused it; below the cores
 * the waiters of the whole machine. Who really waits comes first, so that a reactor never hides it, then the largest share.
 *
 * Numbers are the table's own (the columns of view cpu, with their marks). Who: rows of scope waiter whose core it is, with the share of
 * a core that each caused where that is known. Threads that wait together each count, so their shares may add up to more than the core's
 * wa; one that slept on several cores is named at each of them, with its whole share and `~`. Where a share is not known the name stands
 * alone. What does not fit is left out whole: the strip and the names first, then evidence, then the parts; wa stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/wchan.h"
#include "tui/clean.h"
#include "tui/view.h"

enum { MOST_WAITERS = 4096, MOST_CORES = 8192, MASK_CORES = 64, NUMBERS = 4 };
enum { STRIP_LEAST = 8, WHO_LEAST = 18, WHO_WIDTH = 26, LIST_LEAST = 3 };
enum { COUNTED = 2 }; /* metric waiter.witness: 0 proves nothing, 1 its sleep is not counted as iowait */

static const char *const heads[NUMBERS] = {"wa", "wa=disk", "+uring", "+other"};
static const char *const columns[NUMBERS] = {"wa", "wa_disk", "wa_uring", "wa_other"};
static const int widths[NUMBERS] = {6, 7, 7, 7}; /* 100.0 with a mark before or behind it */
static const enum style styles[NUMBERS] = {STYLE_PLAIN, STYLE_DISK, STYLE_PLAIN, STYLE_OTHER};

/* ---- what the strip shows of one report ------------------------------------------------------------ */

unsigned char iowait_letter(const struct state *state, const struct state_row *core)
{
        double part[NUMBERS];
        for (int i = 0; i < NUMBERS; i++) {
                struct value v = metric_value(state, core, metric_column(VIEW_CPU, columns[i]));
                if (v.kind != VALUE_NUMBER)
                        return 0;
                part[i] = v.number;
        }
        double wa = part[0], disk = part[1], uring = part[2], other = part[3];
        if (wa < 5)
                return ' ';
        if (disk * 2 >= wa)
                return 'W';
        if (disk >= 5 || (disk > uring && disk > other))
                return 'w';
        return other > uring || other >= 5 ? '?' : '.';
}

static void strip(const struct look *look, uint64_t core, struct canvas *c, int row, int col, int width)
{
        if (!look->parts || core >= HISTORY_CORES)
                return;
        const unsigned char *steps = look->parts + core * HISTORY_STEPS + (HISTORY_STEPS - (width < HISTORY_STEPS ? width : HISTORY_STEPS));
        for (int i = 0; i < width && i < HISTORY_STEPS; i++)
                if (steps[i] > ' ')
                        canvas_fill(c, row, col + i, 1, (char)steps[i],
                                steps[i] == '?' ? STYLE_OTHER : steps[i] == '.' ? STYLE_IDLE : STYLE_DISK);
}

/* ---- who waits ------------------------------------------------------------ */

struct who {
        const struct state_row *row;
        uint64_t cores;          /* a bit each, of the first 64 */
        uint64_t core;           /* the last one */
        double part[NUMBERS];    /* % of a core: all, disk, uring, other; all < 0: not known */
        bool many;               /* slept on several cores */
        bool real;               /* D state, or storage pending */
        int rank;                /* 0 really waits, for some of the time or for a second by now; 1 has a share; 2 is in D; 3 the rest */
};

struct page {
        const struct look *look;
        const struct state *state;
        struct canvas *canvas;
        const struct state_row **cores;
        struct who *who;
        size_t core_count, who_count;
        int strip, who_room;     /* columns of them; 0: not shown */
        int numbers;             /* of the four: as many as fit */
        bool evidence;
};

static double rate_of(const struct state_row *row, int metric)
{
        double delta = 0, seconds = state_row_seconds(row);
        int outcome = state_delta(row, metric, &delta);
        return (outcome == DELTA_OK || outcome == DELTA_CLAMPED) && seconds > 0 ? delta * 1e-7 / seconds : -1;
}

static bool take_waiter(const struct page *p, const struct state_row *row, struct who *who)
{
        uint64_t witness = 0, state = 0, since = 0;
        char comm[32], channel[64];
        static const int metric[NUMBERS] = {0, WAITER_WA_DISK, WAITER_WA_URING, WAITER_WA_OTHER};
        *who = (struct who){.row = row, .part = {-1, -1, -1, -1}};
        state_now(row, WAITER_WITNESS, &witness);
        state_now(row, WAITER_STATE, &state);
        state_text_copy(p->state, row, WAITER_COMM, comm, sizeof comm);
        state_text_copy(p->state, row, WAITER_WCHAN, channel, sizeof channel);
        if (row->gone || !state_now(row, WAITER_CORE, &who->core) || tally_is_helper(comm, channel))
                return false;
        if (!state_now(row, WAITER_CORES, &who->cores) || !who->cores)
                who->cores = who->core < MASK_CORES ? UINT64_C(1) << who->core : 0;
        who->many = (who->cores & (who->cores - 1)) != 0;
        for (int i = 1; i < NUMBERS; i++) {
                who->part[i] = rate_of(row, metric[i]);
                if (who->part[i] >= 0)
                        who->part[0] = (who->part[0] < 0 ? 0 : who->part[0]) + who->part[i];
        }
        who->real = state == 'D' || witness == 5 || who->part[1] > who->part[2] || who->part[3] > who->part[2];
        bool lasts = state_now(row, WAITER_SINCE, &since) && state_info(p->state).boot_ns > since + UINT64_C(1000000000);
        who->rank = who->real && (who->part[0] >= 1 || (who->part[0] < 0 && lasts)) ? 0 : who->part[0] >= 0 ? 1 : who->real ? 2 : 3;
        bool io = state == 'D' && wchan_kind(channel) != WCHAN_PLAIN && !wchan_apart(channel);
        return who->part[0] >= 0.05 || (who->part[0] < 0 && (witness >= COUNTED || io));
}

/* Real waits first, so that a reactor never hides one; then the largest share. */
static int by_share(const void *left, const void *right)
{
        const struct who *a = left, *b = right;
        if (a->rank != b->rank)
                return a->rank < b->rank ? -1 : 1;
        if (a->part[0] > b->part[0] || a->part[0] < b->part[0])
                return a->part[0] > b->part[0] ? -1 : 1;
        return a->row->key.a < b->row->key.a ? -1 : a->row->key.a > b->row->key.a;
}

static bool slept_on(const struct who *who, uint64_t core)
{
        return core == who->core || (core < MASK_CORES && (who->cores >> core & 1));
}

/* "dragonfly/Proactor0", or the one name. */
static void name_of(const struct page *p, const struct who *who, char *out, size_t size)
{
        char comm[64], process[64], text[132];
        state_text_copy(p->state, who->row, WAITER_COMM, comm, sizeof comm);
        state_text_copy(p->state, who->row, WAITER_PROCESS, process, sizeof process);
        snprintf(text, sizeof text, "%s%s%s", process, process[0] && comm[0] && strcmp(process, comm) != 0 ? "/" : "",
                process[0] && strcmp(process, comm) == 0 ? "" : comm);
        clean_screen(out, size, text, strlen(text), p->canvas->utf8, size, NULL);
}

/* Index of the largest part: 1 disk, 2 uring, 3 other; 0: none is known. */
static int largest(const struct who *who)
{
        int best = 0;
        for (int i = 1; i < NUMBERS; i++)
                if (who->part[i] >= 0 && (best == 0 || who->part[i] > who->part[best]))
                        best = i;
        return best;
}

static void why_of(const struct page *p, const struct who *who, char *out, size_t size)
{
        static const char *const proofs[] = {
                "", "io_uring, not counted", "io_uring", "io_uring, for what is not proved", "io_uring, idle", "io_uring, for storage", "",
        };
        uint64_t witness = 0;
        char channel[64];
        state_now(who->row, WAITER_WITNESS, &witness);
        if (witness > 0 && witness < 6) {
                snprintf(out, size, "%s", proofs[witness]);
                return;
        }
        state_text_copy(p->state, who->row, WAITER_WCHAN, channel, sizeof channel);
        const char *word = wchan_word(channel);
        clean_screen(out, size, word ? word : channel, strlen(word ? word : channel), p->canvas->utf8, size, NULL);
}

/* Names behind a core, as many as there is room for. */
static void draw_who(const struct page *p, uint64_t core, int row, int col)
{
        static const char *const words[NUMBERS] = {"", "disk", "uring", "other"};
        int used = 0, left_out = 0, shown = 0;
        for (size_t i = 0; i < p->who_count; i++) {
                const struct who *who = &p->who[i];
                char name[160], number[32] = "", text[240];
                if (!slept_on(who, core))
                        continue;
                int part = largest(who);
                name_of(p, who, name, sizeof name);
                if (part > 0) /* before the name: where room ends, a name is cut and no number */
                        snprintf(number, sizeof number, "%.1f%s %s ", who->part[0], who->many ? "~" : "", words[part]);
                int length = snprintf(text, sizeof text, "%s%s%s", shown ? ", " : "", number, name);
                if (shown && (used + length + 4 > p->who_room || left_out)) {
                        left_out++;
                        continue;
                }
                canvas_put(p->canvas, row, col + used, p->who_room - used, part == 0 && who->real ? STYLE_BAD : styles[part], text);
                used += length;
                shown++;
        }
        if (left_out > 0 && used + 3 <= p->who_room)
                canvas_format(p->canvas, row, col + used, p->who_room - used, STYLE_DIM, " +%d", left_out);
}

/* ---- the page ------------------------------------------------------------ */

static int draw_numbers(const struct page *p, const struct state_row *core, int row, int col)
{
        for (int i = 0; i < p->numbers; i++) {
                const struct column *column = metric_column(VIEW_CPU, columns[i]);
                struct value v = core ? metric_value(p->state, core, column) : metric_value_sum(p->state, column, NULL, NULL);
                char text[64];
                enum style style = panel_text(&v, column, text, sizeof text);
                if (style == STYLE_PLAIN)
                        style = v.number >= 1 && styles[i] != STYLE_PLAIN ? styles[i] : core ? STYLE_PLAIN : STYLE_STRONG;
                canvas_right(p->canvas, row, col, widths[i], style, text);
                col += widths[i] + 1;
        }
        if (p->evidence) {
                const char *level = tally_evidence(p->state, core, NULL, NULL);
                canvas_put(p->canvas, row, col, 8, STYLE_DIM, level ? level : "");
                col += 9;
        }
        return col;
}

static void draw_core(const struct page *p, const struct state_row *core, int row)
{
        char name[24];
        snprintf(name, sizeof name, "%llu", (unsigned long long)core->key.a);
        canvas_right(p->canvas, row, 0, 4, STYLE_PLAIN, name);
        int col = draw_numbers(p, core, row, 5);
        if (p->strip)
                strip(p->look, core->key.a, p->canvas, row, col, p->strip);
        if (p->who_room)
                draw_who(p, core->key.a, row, col + (p->strip ? p->strip + 1 : 0));
}

static void draw_heads(const struct page *p, int row)
{
        int col = 5;
        canvas_right(p->canvas, row, 0, 4, STYLE_HEAD, "CPU");
        for (int i = 0; i < p->numbers; i++) {
                canvas_right(p->canvas, row, col, widths[i], STYLE_HEAD, heads[i]);
                col += widths[i] + 1;
        }
        if (p->evidence) {
                canvas_put(p->canvas, row, col, 8, STYLE_HEAD, "evidence");
                col += 9;
        }
        if (p->strip) {
                canvas_put(p->canvas, row, col, p->strip, STYLE_HEAD, p->strip >= 14 ? "before, to now" : "before");
                col += p->strip + 1;
        }
        if (p->who_room)
                canvas_put(p->canvas, row, col, p->who_room, STYLE_HEAD, p->who_room < 29 ? "who waited, % of core" :
                        "who waited here, % of a core");
}

/* Columns for what is beside the numbers. */
static void fit(struct page *p)
{
        int left = p->canvas->cols - 5;
        while (p->numbers < NUMBERS && widths[p->numbers] + 1 <= left)
                left -= widths[p->numbers++] + 1;
        if (p->numbers > 1 && p->numbers < NUMBERS) /* parts that do not add up mislead */
                p->numbers = 1;
        p->evidence = p->numbers == NUMBERS && left >= 9;
        left -= p->evidence ? 9 : 0;
        if (p->evidence && left >= STRIP_LEAST)
                p->strip = left - WHO_WIDTH >= STRIP_LEAST ? left - WHO_WIDTH : left < WHO_LEAST ? left : STRIP_LEAST;
        if (p->strip > HISTORY_STEPS)
                p->strip = HISTORY_STEPS;
        left -= p->strip ? p->strip + 1 : 0;
        p->who_room = p->strip && left >= 8 ? left : 0;
}

static double real_of(const struct state *state, const struct state_row *core, double *wa)
{
        double part[NUMBERS] = {0};
        for (int i = 0; i < NUMBERS; i++) {
                struct value v = metric_value(state, core, metric_column(VIEW_CPU, columns[i]));
                part[i] = v.kind == VALUE_NUMBER ? v.number : 0;
        }
        *wa = part[0];
        return part[1] + part[3];
}

static const struct state *ordered; /* qsort takes no argument; set before each use, one thread */

static int by_core(const void *left, const void *right)
{
        const struct state_row *a = *(const struct state_row *const *)left, *b = *(const struct state_row *const *)right;
        return a->key.a < b->key.a ? -1 : a->key.a > b->key.a;
}

/* More cores than rows: those on which something really waited, then the largest wa. */
static int by_wait(const void *left, const void *right)
{
        const struct state_row *a = *(const struct state_row *const *)left, *b = *(const struct state_row *const *)right;
        double wa_a, wa_b, real_a = real_of(ordered, a, &wa_a), real_b = real_of(ordered, b, &wa_b);
        if (real_a >= 1 || real_b >= 1)
                if (real_a > real_b || real_a < real_b)
                        return real_a > real_b ? -1 : 1;
        return wa_a > wa_b ? -1 : wa_a < wa_b ? 1 : by_core(left, right);
}

static void find_rows(struct page *p, int rows)
{
        static const struct state_row *cores[MOST_CORES];
        static struct who who[MOST_WAITERS];
        p->cores = cores;
        p->who = who;
        for (size_t i = 0; i < state_count(p->state, SCOPE_CPU) && p->core_count < MOST_CORES; i++)
                if (!state_at(p->state, SCOPE_CPU, i)->gone)
                        cores[p->core_count++] = state_at(p->state, SCOPE_CPU, i);
        for (size_t i = 0; i < state_count(p->state, SCOPE_WAITER) && p->who_count < MOST_WAITERS; i++)
                p->who_count += take_waiter(p, state_at(p->state, SCOPE_WAITER, i), &who[p->who_count]);
        ordered = p->state;
        if (p->core_count > 1)
                qsort(cores, p->core_count, sizeof *cores, (int)p->core_count > rows ? by_wait : by_core);
        if (p->who_count > 1)
                qsort(who, p->who_count, sizeof *who, by_share);
}

static void draw_waiter(const struct page *p, const struct who *who, int row)
{
        char name[160], why[96], number[32];
        int col = 5, name_width = p->canvas->cols >= 100 ? 34 : 20;
        snprintf(number, sizeof number, "%llu", (unsigned long long)who->core);
        canvas_right(p->canvas, row, 0, 4, STYLE_PLAIN, number);
        for (int i = 0; i < p->numbers; i++) {
                snprintf(number, sizeof number, who->part[i] < 0 ? "-" : "%.1f%s", who->part[i], i == 0 && who->many ? "~" : "");
                canvas_right(p->canvas, row, col, widths[i], who->part[i] >= 0.05 ? styles[i] : STYLE_DIM, number);
                col += widths[i] + 1;
        }
        name_of(p, who, name, sizeof name);
        int used = canvas_put(p->canvas, row, col, name_width, STYLE_STRONG, name);
        used = used < name_width ? used : name_width;
        used += canvas_format(p->canvas, row, col + used, 14, STYLE_DIM, "[%llu]", (unsigned long long)who->row->key.a);
        why_of(p, who, why, sizeof why);
        canvas_put(p->canvas, row, col + used + 2, p->canvas->cols, who->real ? STYLE_PLAIN : STYLE_DIM, why);
}

/* Line n of the list: cores, SUM, then a blank, a head and the waiters. */
static void draw_line(const struct page *p, size_t n, int row)
{
        if (n < p->core_count) {
                draw_core(p, p->cores[n], row);
        } else if (n == p->core_count) {
                canvas_right(p->canvas, row, 0, 4, STYLE_STRONG, "SUM");
                draw_numbers(p, NULL, row, 5);
        } else if (n == p->core_count + 2) {
                int col = 5;
                canvas_right(p->canvas, row, 0, 4, STYLE_HEAD, "core");
                for (int i = 0; i < p->numbers; i++) {
                        canvas_right(p->canvas, row, col, widths[i], STYLE_HEAD, heads[i]);
                        col += widths[i] + 1;
                }
                canvas_put(p->canvas, row, col, p->canvas->cols, STYLE_HEAD, "waiter[TID], and where it sleeps");
        } else if (n > p->core_count + 2) {
                draw_waiter(p, &p->who[n - p->core_count - LIST_LEAST], row);
        }
}

static int draw_top(const struct look *look, struct canvas *c)
{
        char line[160];
        int row = 0;
        if (c->rows >= 6 && look->tally && look->tally->valid) {
                tally_wa_line(look->tally, line, sizeof line);
                int used = canvas_put(c, row, 0, c->cols, STYLE_STRONG, line);
                if (look->tally->level && used + 12 < c->cols)
                        canvas_format(c, row, used + 2, c->cols, STYLE_DIM, "(%.16s)", look->tally->level);
                row++;
        }
        if (c->rows >= 10 && look->verdict && look->tally && look->tally->valid && look->verdict->show && look->verdict->brief[0]) {
                snprintf(line, sizeof line, "%s", look->verdict->brief);
                verdict_fit(line, (size_t)c->cols);
                canvas_stranger(c, row++, 0, c->cols, STYLE_PLAIN, line, strlen(line));
        }
        return row;
}

static void draw_foot(const struct look *look, struct canvas *c, bool scroll)
{
        const char *legend = "W mostly disk  w partly  ? other  . io_uring";
        bool stopped = look->source && look->source->stopped;
        const char *gone = look->gone_seconds < 0 ? look->paused ? "PAUSED   " : "" : stopped ? "watopd does not answer   " :
                "watopd is gone   ";
        int row = c->rows - 1;
        if (look->note) {
                canvas_put(c, row, 0, c->cols, STYLE_STRONG, look->note);
                return;
        }
        int used = canvas_format(c, row, 0, c->cols, STYLE_DIM, "%sEsc: back%s", gone, scroll ? "  Up Down: scroll" : "");
        if (used + 3 + (int)strlen(legend) <= c->cols)
                canvas_put(c, row, used + 3, c->cols, STYLE_DIM, legend);
}

size_t iowait_draw(const struct look *look, size_t top, struct canvas *c)
{
        struct page p = {.look = look, .state = look->state, .canvas = c};
        canvas_clear(c);
        int row = draw_top(look, c), last = c->rows >= 4 ? c->rows - 1 : c->rows;
        fit(&p);
        if (row < last)
                draw_heads(&p, row++);
        if (p.state)
                find_rows(&p, last - row - 1);
        size_t lines = p.core_count + 1 + (p.who_count ? LIST_LEAST - 1 + p.who_count : 0);
        if (p.core_count == 0) {
                canvas_put(c, row, 0, c->cols, STYLE_DIM, "  - no core could be read yet");
                lines = 1;
        }
        size_t most = lines > (size_t)(last - row) ? lines - (size_t)(last - row) : 0;
        bool scroll = most > 0;
        for (size_t n = top < most ? top : most; p.core_count > 0 && n < lines && row < last; n++)
                draw_line(&p, n, row++);
        if (last < c->rows)
                draw_foot(look, c, scroll);
        return most + 1;
}

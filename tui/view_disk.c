/*
 * The panel of block devices: columns of iostat -x as far as the width goes, what is in flight, and the state in a word.
 *
 * Whole devices stand in the kernel's order, each with the devices stacked on it (dm, md, loop) indented below; partitions are left
 * out, and so are devices that were never used, stacked ones also when they were not in the past that the screen shows. Idle ones are left
 * out when room is short, but never one with requests in flight; a stuck one stands on top.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/word.h"
#include "tui/device_order.h"
#include "tui/device_seen.h"
#include "tui/view.h"

enum { KEY_LEAST = 6, KEY_MOST = 28, DEPTH_MOST = 6 };

static bool ever_used(const struct state_row *row)
{
        uint64_t reads = 1, writes = 1;
        state_now(row, DISK_READS, &reads);
        state_now(row, DISK_WRITES, &writes);
        return reads + writes > 0;
}

/* A disk that was used since it is there keeps its line. What is made of files or of other devices (loop, dm, md), or has no medium, has
 * one while it has requests and for as long as the strips of the cores reach back: there are many of them, used once and then no more. */
static bool has_place(const struct look *look, const struct state_row *row)
{
        uint64_t bytes = 1;

        if (word_in_flight(row) > 0)
                return true;
        state_now(row, DISK_SIZE, &bytes);
        if (!look->devices || (device_kind(row) != 's' && bytes > 0))
                return ever_used(row);
        return (row->has_base && !word_idle(row)) || device_seen_used(look->devices, row, state_info(look->state).mono_ns,
                HISTORY_STEPS * look->interval_ns);
}

struct walk {
        struct panel *panel;
        const struct look *look;
        const struct column *sort;
        struct device *devices;
        double order;   /* counts down: lines keep the order in which they were added */
};

static void add_device(struct walk *w, const struct state_row *row, unsigned depth)
{
        char word[32];
        bool idle = word_idle(row);
        if (!panel_matches(w->look, row, w->panel->filter))
                return;
        if (!w->look->idle && !has_place(w->look, row)) {
                w->panel->hidden++;
                return;
        }
        struct panel_line *line = panel_add(w->panel, row, row->key.a ^ row->key.b);
        if (!line)
                return;
        line->depth = (unsigned char)depth;
        line->group = 0;
        line->has_sort = true;
        line->sort = (w->panel->reverse ? -1 : 1) * (w->order -= 1);
        line->pinned = word_device(w->look->state, row, word, sizeof word) == DEVICE_STUCK;
        line->has_own = !idle; /* used by `draw` to leave idle ones out */
}

/* Partitions share their disk's line. So do the hidden paths of an NVMe head, except while they have requests in flight: older kernels do
 * not count those at the head. */
static bool has_line(const struct state_row *row)
{
        char kind = device_kind(row);
        return kind != 'p' && (kind != 'h' || word_in_flight(row) > 0);
}

/* The devices on device `at`, each once. Partitions have no line of their own: what is stacked on one stands under its disk. */
static void add_stacked(struct walk *w, int at, unsigned depth)
{
        struct device *devices = w->devices;

        for (int child = devices[at].child; child != DEVICE_NONE && depth <= DEPTH_MOST; child = devices[child].next) {
                if (devices[child].done)
                        continue;
                devices[child].done = true;
                bool shown = has_line(devices[child].row);
                if (shown)
                        add_device(w, devices[child].row, depth);
                add_stacked(w, child, depth + shown);
        }
}

struct root {
        bool has;
        double value;
        size_t place;   /* among the devices */
};

static int by_root(const void *left, const void *right)
{
        const struct root *a = left, *b = right;
        if (a->has != b->has)
                return a->has ? -1 : 1;
        if (a->has && (a->value < b->value || a->value > b->value))
                return a->value > b->value ? -1 : 1;
        return a->place < b->place ? -1 : 1;
}

static bool sort_value(const struct panel *p, const struct look *look, const struct state_row *row, const struct column *sort,
        double *value)
{
        char word[32];
        if (sort->op == OP_WORD) {
                enum device_word w = word_device(look->state, row, word, sizeof word);
                *value = w == DEVICE_UNKNOWN ? -1 : (double)w;
                return true;
        }
        return panel_value(p, look, row, sort, value);
}

static void gather(struct panel *p, const struct look *look)
{
        static struct root *roots; /* grows to the most devices seen, kept: nothing is allocated once steady */
        static size_t capacity;
        static struct device_order order;
        struct walk w = {.panel = p, .look = look, .sort = panel_column(p, p->sort)};
        size_t count = 0;

        panel_begin(p);
        if (!look->state || device_order_make(&order, look->state) < 0)
                return;
        w.devices = order.devices;
        if (order.count > capacity) {
                struct root *more = reallocarray(roots, order.capacity, sizeof *more);
                if (!more)
                        return;
                roots = more;
                capacity = order.capacity;
        }
        for (size_t i = 0; i < order.count; i++) {
                if (order.devices[i].parent != DEVICE_NONE || !has_line(order.devices[i].row))
                        continue;
                roots[count] = (struct root){.has = true, .place = i};
                if (w.sort)
                        roots[count].has = sort_value(p, look, order.devices[i].row, w.sort, &roots[count].value);
                if (p->reverse)
                        roots[count].value = -roots[count].value;
                count++;
        }
        if (count > 1)
                qsort(roots, count, sizeof *roots, by_root);
        for (size_t i = 0; i < count; i++) {
                order.devices[roots[i].place].done = true;
                add_device(&w, order.devices[roots[i].place].row, 0);
                add_stacked(&w, (int)roots[i].place, 1);
        }
        for (size_t i = 0; i < order.count; i++) { /* of a circle, or too deep: by themselves rather than not at all */
                if (order.devices[i].done || !has_line(order.devices[i].row))
                        continue;
                order.devices[i].done = true;
                add_device(&w, order.devices[i].row, 0);
                add_stacked(&w, (int)i, 1);
        }
}

static int wanted(const struct panel *p, const struct look *look)
{
        (void)look;
        return (int)(p->count < 100000 ? p->count : 100000) + 1 + (p->count == 0);
}

static enum style cell(const struct look *look, const struct panel_line *line, const struct column *column, char *text, size_t size)
{
        if (column->op == OP_WORD) {
                enum device_word word = word_device(look->state, line->row, text, size);
                return word == DEVICE_STUCK ? STYLE_BAD : word == DEVICE_FULL || word == DEVICE_QUEUED ? STYLE_WARN :
                        word == DEVICE_QUIET || word == DEVICE_UNKNOWN ? STYLE_DIM : STYLE_PLAIN;
        }
        struct value v = metric_value(look->state, line->row, column);
        enum style style = panel_text(&v, column, text, size);
        if (style == STYLE_PLAIN && strcmp(column->head, "%util") == 0 && v.number >= 50)
                return STYLE_DISK;
        return style;
}

static void draw_key(struct panel *p, const struct look *look, const struct panel_line *line, struct canvas *c, int row, int room)
{
        size_t length = 0, label_length = 0;
        const char *name = state_text(look->state, line->row, DISK_NAME, &length);
        const char *label = state_text(look->state, line->row, DISK_DM_NAME, &label_length);
        int used = line->depth + canvas_stranger(c, row, line->depth, room - line->depth, STYLE_STRONG,
                name ? name : "-", name ? length : 1);
        if (label && label_length > 0 && c->clip.cols >= 120)
                used += 1 + canvas_stranger(c, row, used + 1, room - used - 1, STYLE_PLAIN, label, label_length);
        if (used > p->key_width) {
                p->key_width = (unsigned char)(used < KEY_MOST ? used : KEY_MOST);
                p->grew = true;
        }
}

static void draw_lines(struct panel *p, const struct look *look, struct canvas *c)
{
        int rows = c->clip.rows, row = 1;
        bool selected = look->selected == PANEL_DISK;
        canvas_put(c, 0, 0, c->clip.cols, p->sort < 0 ? selected ? STYLE_SORT : STYLE_SORT_OTHER : STYLE_HEAD, "Device");
        panel_heads(p, look, c, p->key_width);
        for (size_t i = p->top; i < p->count && row < rows; i++, row++) {
                int most = c->clip.cols < KEY_MOST ? c->clip.cols : KEY_MOST;
                draw_key(p, look, &p->lines[i], c, row, most);
                canvas_fill(c, row, p->key_width, c->clip.cols - p->key_width, ' ', STYLE_PLAIN);
                panel_cells(p, look, &p->lines[i], c, row, p->key_width, cell);
                if (p->cursor_on && selected && i == p->cursor)
                        canvas_restyle(c, row, 0, c->clip.cols, STYLE_SELECTED);
        }
}

static void leave_idle_out(struct panel *p)
{
        size_t kept = 0;
        for (size_t i = 0; i < p->count; i++)
                if (p->lines[i].has_own || p->lines[i].pinned)
                        p->lines[kept++] = p->lines[i];
        p->hidden += p->count - kept;
        p->count = kept;
        p->ordered = 0;
}

static void draw(struct panel *p, const struct look *look, struct canvas *c)
{
        int rows = c->clip.rows;
        if (rows <= 0)
                return;
        bool rates = look->state && state_info(look->state).valid;
        if (rates && !look->idle && (int)p->count > rows - 1 && look->selected != PANEL_DISK)
                leave_idle_out(p);
        panel_settle(p, rows - 1);
        if (c->clip.cols != p->cols || p->key_width < KEY_LEAST)
                p->key_width = KEY_LEAST;
        for (int pass = 0; pass < 3; pass++) {
                p->grew = false;
                panel_fit(p, c->clip.cols, p->key_width, 0);
                for (int row = 0; row < rows; row++)
                        canvas_fill(c, row, 0, c->clip.cols, ' ', STYLE_PLAIN);
                draw_lines(p, look, c);
                if (!p->grew)
                        break;
        }
        if (p->count == 0 && p->hidden > 0)
                canvas_format(c, 1, 0, c->clip.cols, STYLE_DIM, "  %zu idle [z]", p->hidden);
        else if (p->count == 0)
                canvas_put(c, 1, 0, c->clip.cols, STYLE_DIM, p->filter[0] ? "  none with this text [f]" : "  - none seen");
}

const struct view view_disk = {
        .name = "devices", .columns = VIEW_DISK, .gather = gather, .wanted = wanted, .draw = draw,
};

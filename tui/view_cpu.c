/*
 * The panel of cores: one line a core, the split of wa beside load, a bar, and SUM.
 *
 * In the bar load is `#`, waiting for a disk `w`, waiting for something else `?`, and all that is idle `.`, threads parked in io_uring
 * included: an idle core looks idle without colour. With more cores than rows: the busiest, one line for the rest, SUM.
 */
#include <stdio.h>
#include <string.h>

#include "tui/view.h"

enum { BAR_LEAST = 5, BAR_MOST = 20, KEY_WIDTH = 3 };

static double shown(const struct look *look, const struct state_row *row, const char *head)
{
        struct value v = metric_value(look->state, row, metric_column(VIEW_CPU, head));
        return v.kind == VALUE_NUMBER ? v.number : -1;
}

static void gather(struct panel *p, const struct look *look)
{
        const struct column *sort = panel_column(p, p->sort);
        panel_begin(p);
        for (size_t i = 0; look->state && i < state_count(look->state, SCOPE_CPU); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_CPU, i);
                if (row->gone)
                        continue;
                struct panel_line *line = panel_add(p, row, row->key.a);
                if (!line)
                        break;
                /* Without a chosen column cores stand by number; -number makes "descending" count upwards. */
                line->has_sort = !sort || panel_value(p, look, row, sort, &line->sort);
                if (!sort)
                        line->sort = -(double)row->key.a;
        }
}

static int wanted(const struct panel *p, const struct look *look)
{
        (void)look;
        return (int)(p->count < 100000 ? p->count : 100000) + 2;
}

static const char *head(const struct column *column)
{
        switch (column->num[0]) {
        case CPU_WA_DISK: return column->num[1] ? NULL : "wa=disk"; /* wa itself starts with the same metric */
        case CPU_WA_URING: return "+uring";
        case CPU_WA_OTHER: return "+other";
        default: return NULL;
        }
}

static enum style colour(const struct column *column, double number)
{
        const char *name = panel_head(&(struct panel){.view = &view_cpu}, column);
        if (strcmp(name, "load") == 0)
                return STYLE_LOAD;
        if (strcmp(name, "wa=disk") == 0 && number >= 1)
                return STYLE_DISK;
        if (strcmp(name, "+other") == 0 && number >= 1)
                return STYLE_OTHER;
        return strcmp(name, "st") == 0 && number >= 5 ? STYLE_WARN : STYLE_PLAIN;
}

static enum style cell(const struct look *look, const struct panel_line *line, const struct column *column, char *text, size_t size)
{
        struct value v = {.kind = VALUE_ABSENT};
        if (line->kind == LINE_SUM)
                v = metric_value_sum(look->state, column, NULL, NULL);
        else if (line->row)
                v = metric_value(look->state, line->row, column);
        enum style style = panel_text(&v, column, text, size);
        if (style != STYLE_PLAIN)
                return style;
        style = colour(column, v.number);
        return style == STYLE_PLAIN && line->kind == LINE_SUM ? STYLE_STRONG : style;
}

/* Each cell of the bar is worth 100/width %; sizes are rounded so that parts never add up to more than the bar. */
static void bar(const struct look *look, const struct panel_line *line, struct canvas *c, int row, int col, int width)
{
        double parts[3] = {shown(look, line->row, "load"), shown(look, line->row, "wa_disk"), shown(look, line->row, "wa_other")};
        const char signs[3] = {'#', 'w', '?'};
        const enum style styles[3] = {STYLE_LOAD, STYLE_DISK, STYLE_OTHER};
        double sum = 0;
        int at = 0;

        if (parts[0] < 0)
                return;
        for (int i = 0; i < 3; i++) {
                sum += parts[i] > 0 ? parts[i] : 0;
                int end = (int)(sum * width / 100 + 0.5);
                if (end > width)
                        end = width;
                canvas_fill(c, row, col + at, end - at, signs[i], styles[i]);
                at = end > at ? end : at;
        }
        canvas_fill(c, row, col + at, width - at, '.', STYLE_IDLE);
}

/* Load of the last steps, oldest at the left: heights in eighths where the terminal can, else four ASCII levels. */
static void history(const struct look *look, uint64_t core, struct canvas *c, int row, int col, int width)
{
        static const char *const fine[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
        static const char *const plain[] = {" ", ".", ":", "|", "#"};
        if (!look->history || core >= HISTORY_CORES)
                return;
        const unsigned char *loads = look->history + core * HISTORY_STEPS;
        for (int i = 0; i < width && i < HISTORY_STEPS; i++) {
                unsigned char load = loads[HISTORY_STEPS - (width < HISTORY_STEPS ? width : HISTORY_STEPS) + i];
                if (load <= 100)
                        canvas_put(c, row, col + i, 1, STYLE_LOAD, c->utf8 ? fine[(load * 8 + 50) / 100] : plain[(load * 4 + 50) / 100]);
        }
}

/* "56 cores at 33-38": the lines from `from` on, which have no room. */
static void rest_line(const struct panel *p, const struct look *look, struct canvas *c, int row, size_t from, size_t upto)
{
        double low = 1e9, high = -1;
        size_t count = 0;
        for (size_t i = 0; i < p->count; i++) {
                if (i >= from && i < upto)
                        continue;
                double load = shown(look, p->lines[i].row, "load");
                low = load >= 0 && load < low ? load : low;
                high = load > high ? load : high;
                count++;
        }
        if (high < 0)
                canvas_format(c, row, 0, c->cols, STYLE_DIM, "    %zu more cores", count);
        else
                canvas_format(c, row, 0, c->cols, STYLE_DIM, "    %zu more core%s at load %.0f-%.0f", count,
                        count == 1 ? "" : "s", low, high);
}

static void draw_lines(struct panel *p, const struct look *look, struct canvas *c, int room)
{
        int rows = c->clip.rows, key = p->key_width, columns_end = 0, row = 1;
        bool crowded = (int)p->count > room && room >= 0, sum = rows >= 3 || crowded;
        size_t from = p->top, upto = p->top + (room > 0 ? (size_t)room : 0);

        canvas_put(c, 0, 0, key, p->sort < 0 ? look->selected == PANEL_CPU ? STYLE_SORT : STYLE_SORT_OTHER : STYLE_HEAD, "CPU");
        columns_end = panel_heads(p, look, c, key);
        int left = c->clip.cols - columns_end - 1, width = left > BAR_MOST ? BAR_MOST : left;
        int steps = left - width - 3 < HISTORY_STEPS ? left - width - 3 : HISTORY_STEPS;
        bool chart = look->history && steps >= 10;
        if (width >= BAR_LEAST)
                canvas_put(c, 0, columns_end + 1, width, STYLE_HEAD, width >= 20 ? "#load wdisk ?other" : "#load");
        if (chart)
                canvas_put(c, 0, columns_end + width + 4, steps, STYLE_HEAD, "load before, newest right");
        for (size_t i = from; i < upto && i < p->count && row < rows; i++, row++) {
                char name[24];
                snprintf(name, sizeof name, "%llu", (unsigned long long)p->lines[i].id);
                canvas_right(c, row, 0, key, STYLE_PLAIN, name);
                panel_cells(p, look, &p->lines[i], c, row, key, cell);
                if (width >= BAR_LEAST)
                        bar(look, &p->lines[i], c, row, columns_end + 1, width);
                if (chart)
                        history(look, p->lines[i].id, c, row, columns_end + width + 4, steps);
                if (p->cursor_on && look->selected == PANEL_CPU && i == p->cursor)
                        canvas_restyle(c, row, 0, c->clip.cols, STYLE_SELECTED);
        }
        if (crowded && row < rows - (sum ? 1 : 0))
                rest_line(p, look, c, row++, from, upto);
        if (sum && row < rows) {
                canvas_put(c, row, 0, key, STYLE_STRONG, "SUM");
                panel_cells(p, look, &(struct panel_line){.kind = LINE_SUM}, c, row, key, cell);
        }
}

static void draw(struct panel *p, const struct look *look, struct canvas *c)
{
        int rows = c->clip.rows, room = rows - 2;
        if (rows <= 0)
                return;
        if (!look->state || p->count == 0) {
                canvas_put(c, 0, 0, c->clip.cols, STYLE_HEAD, "CPU");
                canvas_put(c, 1, 0, c->clip.cols, STYLE_DIM, "  - no core could be read yet");
                return;
        }
        if ((int)p->count > room && room > 0) { /* the busiest ones, one line for the rest */
                room--;
                for (size_t i = 0; p->sort < 0 && i < p->count; i++)
                        p->lines[i].has_sort = panel_value(p, look, p->lines[i].row, metric_column(VIEW_CPU, "load"), &p->lines[i].sort);
                p->ordered = 0;
        }
        panel_settle(p, room > 0 ? room : 0);
        uint64_t most = 0;
        for (size_t i = 0; i < p->count; i++)
                most = p->lines[i].id > most ? p->lines[i].id : most;
        p->key_width = most > 9999 ? 5 : most > 999 ? 4 : KEY_WIDTH;
        for (int pass = 0; pass < 3; pass++) {
                p->grew = false;
                panel_fit(p, c->clip.cols, p->key_width, c->clip.cols >= 110 ? BAR_MOST + 1 : BAR_LEAST + 1);
                for (int row = 0; row < rows; row++)
                        canvas_fill(c, row, 0, c->clip.cols, ' ', STYLE_PLAIN);
                draw_lines(p, look, c, room);
                if (!p->grew)
                        break;
        }
}

const struct view view_cpu = {
        .name = "cores", .columns = VIEW_CPU, .wide = 130, .gather = gather, .wanted = wanted, .draw = draw, .head = head,
};

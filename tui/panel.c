/*
 * What the views of the live screen share: lines and their order, the cursor, the columns that fit, cells.
 *
 * A screen shows some tens of lines while a machine has thousands of tasks, so order is found by selection: only the lines up to the last
 * visible one are sorted (quickselect, then qsort of that part), and only they become text.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/view.h"

void panel_init(struct panel *p, const struct view *view, const char *sort_head)
{
        const struct view_info *info = metric_view(view->columns);
        memset(p, 0, sizeof *p);
        p->view = view;
        p->sort = -1;
        for (size_t i = 0; sort_head && i < info->count && i < PANEL_COLUMNS; i++)
                if (strcmp(info->columns[i].head, sort_head) == 0)
                        p->sort = (int)i;
}

void panel_fini(struct panel *p)
{
        if (!p)
                return;
        free(p->lines);
        memset(p, 0, sizeof *p);
}

void panel_begin(struct panel *p)
{
        p->count = p->hidden = p->ordered = 0;
}

struct panel_line *panel_add(struct panel *p, const struct state_row *row, uint64_t id)
{
        if (p->count == p->capacity) {
                size_t capacity = p->capacity ? p->capacity * 2 : 256;
                struct panel_line *lines = realloc(p->lines, capacity * sizeof *lines);
                if (!lines)
                        return NULL;
                p->lines = lines;
                p->capacity = capacity;
        }
        struct panel_line *line = &p->lines[p->count++];
        *line = (struct panel_line){.row = row, .group = id, .id = id};
        return line;
}

const struct column *panel_column(const struct panel *p, int index)
{
        const struct view_info *info = metric_view(p->view->columns);
        return index >= 0 && (size_t)index < info->count && index < PANEL_COLUMNS ? &info->columns[index] : NULL;
}

const char *panel_head(const struct panel *p, const struct column *column)
{
        const char *head = p->view->head ? p->view->head(column) : NULL;
        return head ? head : column->head;
}

bool panel_value(const struct panel *p, const struct look *look, const struct state_row *row, const struct column *column, double *value)
{
        struct value v = metric_value(look->state, row, column);
        if (v.kind == VALUE_NUMBER) {
                double unit = pow(10, column->decimals);
                *value = nearbyint(v.number * unit);
                return true;
        }
        if (v.kind == VALUE_TEXT) { /* the first six bytes as a number, A first */
                double number = 0;
                for (size_t i = 0; i < 6; i++)
                        number = number * 256 + (i < v.length ? (unsigned char)v.text[i] : 0);
                *value = -number;
                return true;
        }
        (void)p;
        return false;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static bool order_reverse; /* qsort takes no argument; set before each use, one thread */

static int by_value(bool has_a, double a, bool has_b, double b)
{
        if (has_a != has_b)
                return has_a ? -1 : 1; /* absent last, reversed or not */
        if (!has_a || !(a < b || a > b))
                return 0;
        return (a > b) != order_reverse ? -1 : 1;
}

static int by_number(uint64_t a, uint64_t b)
{
        return a < b ? -1 : a > b;
}

static int compare(const void *left, const void *right)
{
        const struct panel_line *a = left, *b = right;
        if (a->kind != b->kind)
                return (int)a->kind - (int)b->kind;
        if (a->pinned != b->pinned)
                return a->pinned ? -1 : 1;
        int c = by_value(a->has_sort, a->sort, b->has_sort, b->sort);
        if (c == 0)
                c = by_number(a->group, b->group);
        if (c == 0)
                c = (int)a->depth - (int)b->depth;
        if (c == 0)
                c = by_value(a->has_own, a->own, b->has_own, b->own);
        return c ? c : by_number(a->id, b->id);
}

/* Bring the `count` first lines of the order to the front. */
static void select_first(struct panel_line *lines, size_t total, size_t count)
{
        size_t low = 0, high = total;
        while (high - low > 16 && count > low && count < high) {
                struct panel_line pivot = lines[low + (high - low) / 2];
                size_t i = low, j = high - 1;
                for (;;) {
                        while (compare(&lines[i], &pivot) < 0)
                                i++;
                        while (compare(&pivot, &lines[j]) < 0)
                                j--;
                        if (i >= j)
                                break;
                        struct panel_line swap = lines[i];
                        lines[i++] = lines[j];
                        lines[j--] = swap;
                }
                /* now all of [low, j] <= pivot <= all of [j+1, high) */
                if (count <= j + 1)
                        high = j + 1;
                else
                        low = j + 1;
        }
        if (low < high)
                qsort(lines + low, high - low, sizeof *lines, compare);
}

void panel_order(struct panel *p, size_t count)
{
        if (count > p->count)
                count = p->count;
        if (count <= p->ordered)
                return;
        order_reverse = p->reverse;
        if (count + 32 < p->count)
                select_first(p->lines, p->count, count);
        else
                count = p->count;
        qsort(p->lines, count, sizeof *p->lines, compare);
        p->ordered = count;
}

void panel_settle(struct panel *p, int page)
{
        size_t room = page > 0 ? (size_t)page : 0, last = p->count > room ? p->count - room : 0;
        p->page = page;
        if (p->cursor_on && p->count > 0) {
                size_t place = p->count, before = 0;
                for (size_t i = 0; i < p->count && place == p->count; i++)
                        if (p->lines[i].id == p->cursor_id && p->lines[i].group == p->cursor_group)
                                place = i;
                if (place < p->count) {
                        struct panel_line wanted = p->lines[place];
                        order_reverse = p->reverse;
                        for (size_t i = 0; i < p->count; i++)
                                before += compare(&p->lines[i], &wanted) < 0;
                        p->cursor = before;
                } else if (p->cursor >= p->count) {
                        p->cursor = p->count - 1;
                }
                if (p->cursor < p->top)
                        p->top = p->cursor;
                if (room > 0 && p->cursor >= p->top + room)
                        p->top = p->cursor - room + 1;
        }
        if (p->top > last)
                p->top = last;
        panel_order(p, p->top + room);
        if (p->cursor_on && p->cursor < p->ordered) {
                p->cursor_id = p->lines[p->cursor].id;
                p->cursor_group = p->lines[p->cursor].group;
        }
}

void panel_move(struct panel *p, long by)
{
        if (p->count == 0)
                return;
        if (!p->cursor_on) {
                p->cursor_on = true;
                p->cursor = p->top;
        } else if (by < 0) {
                p->cursor = p->cursor > (size_t)-by ? p->cursor - (size_t)-by : 0;
        } else {
                p->cursor = (size_t)by < p->count - p->cursor ? p->cursor + (size_t)by : p->count - 1;
        }
        if (p->cursor >= p->count)
                p->cursor = p->count - 1;
        panel_order(p, p->cursor + 1);
        p->cursor_id = p->lines[p->cursor].id;
        p->cursor_group = p->lines[p->cursor].group;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static int least_width(const struct panel *p, const struct column *column)
{
        int head = (int)strlen(panel_head(p, column)), value = column->flags & COL_LEFT ? 5 : column->decimals ? column->decimals + 2 : 1;
        return head > value ? head : value;
}

void panel_fit(struct panel *p, int cols, int key, int tail)
{
        const struct view_info *info = metric_view(p->view->columns);
        bool take[PANEL_COLUMNS] = {false};
        size_t count = info->count < PANEL_COLUMNS ? info->count : PANEL_COLUMNS;
        int room = cols - key - tail;

        if (cols != p->cols)
                memset(p->width, 0, sizeof p->width);
        p->cols = cols;
        for (size_t i = 0; i < count; i++)
                if (p->width[i] < least_width(p, &info->columns[i]))
                        p->width[i] = (unsigned char)least_width(p, &info->columns[i]);
        if (p->sort >= 0 && (size_t)p->sort < count && p->width[p->sort] + 1 <= room) { /* what one sorts by is seen */
                take[p->sort] = true;
                room -= p->width[p->sort] + 1;
        }
        for (int rank = 0; rank <= (cols < p->view->wide ? 5 : 9); rank++)
                for (size_t i = 0; i < count; i++)
                        if (!take[i] && info->columns[i].rank == rank && p->width[i] + 1 <= room) {
                                take[i] = true;
                                room -= p->width[i] + 1;
                        }
        p->shown_count = 0;
        for (size_t i = 0; i < count; i++)
                if (take[i])
                        p->shown[p->shown_count++] = (unsigned char)i;
}

int panel_heads(struct panel *p, const struct look *look, struct canvas *c, int col)
{
        const struct view_info *info = metric_view(p->view->columns);
        static const struct view *const views[PANEL_COUNT] = {&view_cpu, &view_disk, &view_task};
        bool selected = look->selected < PANEL_COUNT && p->view == views[look->selected];
        for (size_t i = 0; i < p->shown_count; i++) {
                const struct column *column = &info->columns[p->shown[i]];
                const char *head = panel_head(p, column);
                int width = p->width[p->shown[i]], length = (int)strlen(head);
                int at = column->flags & COL_LEFT ? col + 1 : col + 1 + width - length;
                bool mark = look->choose > -2 && selected ? p->shown[i] == look->choose : p->shown[i] == p->sort;
                canvas_put(c, 0, at, width, mark ? selected ? STYLE_SORT : STYLE_SORT_OTHER : STYLE_HEAD, head);
                col += width + 1;
        }
        return col;
}

int panel_cells(struct panel *p, const struct look *look, const struct panel_line *line, struct canvas *c, int row, int col,
        panel_cell cell)
{
        const struct view_info *info = metric_view(p->view->columns);
        for (size_t i = 0; i < p->shown_count; i++) {
                const struct column *column = &info->columns[p->shown[i]];
                unsigned char *width = &p->width[p->shown[i]];
                char text[64];
                enum style style = cell(look, line, column, text, sizeof text);
                size_t length = strlen(text);
                if (length > *width) {
                        *width = (unsigned char)(length < 40 ? length : 40);
                        p->grew = true;
                }
                if (column->flags & COL_LEFT)
                        canvas_put(c, row, col + 1, *width, style, text);
                else
                        canvas_right(c, row, col + 1, *width, style, text);
                col += *width + 1;
        }
        return col;
}

enum style panel_text(const struct value *value, const struct column *column, char *text, size_t size)
{
        value_format(text, size, value, column->decimals);
        if (value->kind == VALUE_ABSENT)
                return STYLE_DIM;
        if (value->kind == VALUE_NUMBER && value->mark == MARK_EXACT && strspn(text, "-0.") == strlen(text))
                return STYLE_DIM;
        return STYLE_PLAIN;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static unsigned char lower(unsigned char ch)
{
        return ch >= 'A' && ch <= 'Z' ? (unsigned char)(ch + 32) : ch;
}

bool text_matches(const char *bytes, size_t length, const char *wanted)
{
        size_t count = strlen(wanted);
        for (size_t i = 0; bytes && i + count <= length; i++) {
                size_t same = 0;
                while (same < count && lower((unsigned char)bytes[i + same]) == lower((unsigned char)wanted[same]))
                        same++;
                if (same == count)
                        return true;
        }
        return false;
}

bool panel_matches(const struct look *look, const struct state_row *row, const char *wanted)
{
        const struct scope_info *scope = &scopes[row->scope];
        if (!wanted[0])
                return true;
        if (row->scope == SCOPE_PROCESS || row->scope == SCOPE_THREAD) { /* a number typed in full is a PID or TID */
                char number[24];
                snprintf(number, sizeof number, "%llu", (unsigned long long)row->key.a);
                if (strcmp(number, wanted) == 0)
                        return true;
        }
        for (int metric = scope->first; metric < scope->first + scope->count; metric++) {
                size_t length = 0;
                if (metrics[metric].kind != KIND_TEXT || metric == PROCESS_WCHAN || metric == THREAD_WCHAN)
                        continue;
                const char *text = state_text(look->state, row, metric, &length);
                if (text && text_matches(text, length, wanted))
                        return true;
        }
        return false;
}

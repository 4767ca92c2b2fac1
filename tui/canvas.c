/*
 * The grid behind tui/canvas.h. Every write goes through one function, put_cell, which clips; so no caller can leave the canvas.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "tui/canvas.h"
#include "tui/clean.h"

void canvas_init(struct canvas *c, bool utf8)
{
        memset(c, 0, sizeof *c);
        c->utf8 = utf8;
}

void canvas_fini(struct canvas *c)
{
        if (!c)
                return;
        free(c->cells);
        memset(c, 0, sizeof *c);
}

static int within(int value, int low, int high)
{
        return value < low ? low : value > high ? high : value;
}

int canvas_resize(struct canvas *c, int rows, int cols)
{
        rows = within(rows, 1, CANVAS_SIDE);
        cols = within(cols, 1, CANVAS_SIDE);
        size_t need = (size_t)rows * (size_t)cols;
        if (need > c->capacity) {
                struct cell *cells = realloc(c->cells, need * sizeof *cells);
                if (!cells)
                        return -ENOMEM;
                c->cells = cells;
                c->capacity = need;
        }
        c->rows = rows;
        c->cols = cols;
        canvas_clear(c);
        return 0;
}

void canvas_clear(struct canvas *c)
{
        size_t count = (size_t)c->rows * (size_t)c->cols;
        for (size_t i = 0; i < count; i++)
                c->cells[i] = (struct cell){' ', STYLE_PLAIN};
        c->clip = (struct area){0, 0, c->rows, c->cols};
}

void canvas_clip(struct canvas *c, struct area a)
{
        a.row = within(a.row, 0, c->rows);
        a.col = within(a.col, 0, c->cols);
        a.rows = within(a.rows, 0, c->rows - a.row);
        a.cols = within(a.cols, 0, c->cols - a.col);
        c->clip = a;
}

static bool inside(const struct canvas *c, int row, int col, int width)
{
        return row >= 0 && row < c->clip.rows && col >= 0 && col <= c->clip.cols - width;
}

/* One character of 1 or 2 columns, or nothing when it does not fit whole. A wide neighbour that loses one half becomes blank. */
static void put_cell(struct canvas *c, int row, int col, uint32_t ch, int width, enum style style)
{
        if (!inside(c, row, col, width))
                return;
        struct cell *line = c->cells + (size_t)(c->clip.row + row) * (size_t)c->cols;
        int x = c->clip.col + col, end = x + width;
        if (line[x].ch == 0 && x > 0)
                line[x - 1].ch = ' ';
        if (end < c->cols && line[end].ch == 0)
                line[end].ch = ' ';
        line[x] = (struct cell){ch, style};
        if (width == 2)
                line[x + 1] = (struct cell){0, style};
}

/* Next code point of UTF-8 text; what is not well-formed gives '?' a byte. Strangers' text was cleaned before: a second lock. */
static uint32_t next_point(const char **text)
{
        const unsigned char *p = (const unsigned char *)*text;
        unsigned more = p[0] < 0x80 ? 0 : p[0] < 0xc2 ? 9 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : p[0] < 0xf5 ? 3 : 9;
        uint32_t ch = more == 0 ? p[0] : more > 3 ? '?' : p[0] & (0x3fu >> more);
        unsigned used = 1;
        for (; more <= 3 && used <= more; used++) {
                if ((p[used] & 0xc0) != 0x80) {
                        ch = '?';
                        used = 1;
                        break;
                }
                ch = ch << 6 | (p[used] & 0x3fu);
        }
        *text += used;
        return ch;
}

static int width_of(uint32_t *ch)
{
        if (*ch >= 0x20 && *ch < 0x7f)
                return 1;
        int width = *ch < 0xa0 ? -1 : wcwidth((wchar_t)*ch);
        if (width < 0 || width > 2) {
                *ch = '?';
                return 1;
        }
        return width; /* 0: a combining mark; the cell has no room for it, the base character stays */
}

int canvas_put(struct canvas *c, int row, int col, int max, enum style style, const char *text)
{
        int used = 0;
        while (*text) {
                uint32_t ch = next_point(&text);
                int width = width_of(&ch);
                if (used + width > max)
                        break;
                if (width > 0 && col <= INT_MAX - used)
                        put_cell(c, row, col + used, ch, width, style);
                used += width;
        }
        return used;
}

int canvas_format(struct canvas *c, int row, int col, int max, enum style style, const char *format, ...)
{
        char text[512];
        va_list list;
        va_start(list, format);
        vsnprintf(text, sizeof text, format, list);
        va_end(list);
        return canvas_put(c, row, col, max, style, text);
}

int canvas_stranger(struct canvas *c, int row, int col, int max, enum style style, const char *bytes, size_t length)
{
        char text[2048];
        if (max <= 0 || !bytes)
                return 0;
        if (max > c->cols)
                max = c->cols;
        clean_screen(text, sizeof text, bytes, length, c->utf8, (size_t)max, NULL);
        return canvas_put(c, row, col, max, style, text);
}

void canvas_right(struct canvas *c, int row, int col, int width, enum style style, const char *text)
{
        int length = (int)strlen(text);
        if (width <= 0)
                return;
        if (length > width) {
                put_cell(c, row, col, '>', 1, STYLE_WARN);
                canvas_put(c, row, col + 1, width - 1, style, text + (length - width + 1));
                return;
        }
        canvas_put(c, row, col + width - length, length, style, text);
}

void canvas_fill(struct canvas *c, int row, int col, int width, char ch, enum style style)
{
        for (int i = 0; i < width && col + i < c->clip.cols; i++)
                put_cell(c, row, col + i, (unsigned char)ch, 1, style);
}

void canvas_restyle(struct canvas *c, int row, int col, int width, enum style style)
{
        for (int i = 0; i < width && col + i < c->clip.cols; i++)
                if (inside(c, row, col + i, 1))
                        c->cells[(size_t)(c->clip.row + row) * (size_t)c->cols + (size_t)(c->clip.col + col + i)].style = style;
}

static size_t encode(uint32_t ch, char out[4])
{
        if (ch < 0x80) {
                out[0] = (char)ch;
                return 1;
        }
        size_t count = ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
        for (size_t i = count - 1; i > 0; i--, ch >>= 6)
                out[i] = (char)(0x80 | (ch & 0x3f));
        out[0] = (char)((0xf00u >> count & 0xffu) | ch);
        return count;
}

size_t canvas_line(const struct canvas *c, int row, char *buffer, size_t size)
{
        size_t length = 0, kept = 0;
        if (size == 0)
                return 0;
        for (int col = 0; row >= 0 && row < c->rows && col < c->cols; col++) {
                uint32_t ch = c->cells[(size_t)row * (size_t)c->cols + (size_t)col].ch;
                char bytes[4];
                if (ch == 0)
                        continue;
                size_t count = encode(ch, bytes);
                if (length + count >= size)
                        break;
                memcpy(buffer + length, bytes, count);
                length += count;
                if (ch != ' ')
                        kept = length;
        }
        buffer[kept] = '\0';
        return kept;
}

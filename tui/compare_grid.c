/*
 * Texts in columns. Contract: compare_grid.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/compare_grid.h"

enum { CELL = 1024 };

void grid_init(struct grid *grid, size_t columns, size_t lefts)
{
        *grid = (struct grid){.columns = columns, .lefts = lefts};
}

void grid_fini(struct grid *grid)
{
        for (size_t i = 0; i < grid->rows * grid->columns; i++)
                free(grid->cells[i]);
        free(grid->cells);
        *grid = (struct grid){0};
}

void grid_row(struct grid *grid)
{
        char **grown = grid->failed ? NULL : reallocarray(grid->cells, grid->rows + 1, grid->columns * sizeof *grown);

        if (!grown) {
                grid->failed = true;
                return;
        }
        grid->cells = grown;
        memset(grown + grid->rows++ * grid->columns, 0, grid->columns * sizeof *grown);
}

void grid_set(struct grid *grid, size_t column, const char *format, ...)
{
        va_list arguments;
        char *text = NULL;

        if (grid->failed || grid->rows == 0 || column >= grid->columns)
                return;
        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0) {
                grid->failed = true;
                text = NULL;
        }
        va_end(arguments);
        char **cell = &grid->cells[(grid->rows - 1) * grid->columns + column];
        free(*cell);
        *cell = text;
}

static const char *at(const struct grid *grid, size_t row, size_t column)
{
        const char *text = grid->cells[row * grid->columns + column];

        return text ? text : "";
}

/* ---- text ---------------------------------------------------------------------------------------------------------------------------- */

struct writer {
        const struct grid *grid;
        FILE *out;
        bool utf8;
        size_t label_most;
        size_t *widths;
};

static size_t cell(const struct writer *w, size_t row, size_t column, char *text)
{
        size_t columns = 0;
        const char *raw = at(w->grid, row, column);

        clean_screen(text, CELL, raw, strlen(raw), w->utf8, column < w->grid->lefts ? w->label_most : 40, &columns);
        return columns;
}

static void measure(const struct writer *w)
{
        char text[CELL];

        for (size_t r = 0; r < w->grid->rows; r++)
                for (size_t c = 0; c < w->grid->columns; c++) {
                        size_t columns = cell(w, r, c, text);
                        if (columns > w->widths[c])
                                w->widths[c] = columns;
                }
}

static bool empty(const struct grid *grid, size_t row, size_t from, size_t to)
{
        for (size_t c = from; c < to; c++)
                if (at(grid, row, c)[0])
                        return false;
        return true;
}

static void line(const struct writer *w, size_t row, size_t from, size_t to)
{
        char text[CELL];
        size_t pending = 0; /* blanks that are only written when something follows */

        for (size_t c = 0; c < to; c++) {
                if (c >= w->grid->lefts && c < from)
                        continue;
                size_t columns = cell(w, row, c, text), blanks = w->widths[c] - columns;
                bool left = c < w->grid->lefts;
                if (columns > 0) {
                        fprintf(w->out, "%*s%s", (int)(pending + (left ? 0 : blanks)), "", text);
                        pending = left ? blanks : 0;
                } else {
                        pending += w->widths[c];
                }
                pending++;
        }
        fputc('\n', w->out);
}

static void blocks(const struct writer *w, unsigned width)
{
        const struct grid *grid = w->grid;
        size_t labels = 0;

        for (size_t c = 0; c < grid->lefts; c++)
                labels += w->widths[c] + 1;
        for (size_t from = grid->lefts; from < grid->columns;) {
                size_t to = from, used = labels;
                while (to < grid->columns && (to == from || width == 0 || used + w->widths[to] <= width))
                        used += w->widths[to++] + 1;
                if (from > grid->lefts)
                        fputc('\n', w->out);
                for (size_t r = 0; r < grid->rows; r++)
                        if (r == 0 || !empty(grid, r, from, to))
                                line(w, r, from, to);
                from = to;
        }
}

int grid_text(const struct grid *grid, unsigned width, unsigned label_most, bool utf8, FILE *out)
{
        struct writer w = {.grid = grid, .out = out, .utf8 = utf8, .label_most = width ? label_most : 200};

        if (grid->failed)
                return -ENOMEM;
        w.widths = calloc(grid->columns + 1, sizeof *w.widths);
        if (!w.widths)
                return -ENOMEM;
        measure(&w);
        blocks(&w, width);
        free(w.widths);
        return 0;
}

/* ---- Markdown ------------------------------------------------------------------------------------------------------------------------ */

int grid_markdown(const struct grid *grid, FILE *out)
{
        char text[CELL];

        if (grid->failed)
                return -ENOMEM;
        for (size_t r = 0; r < grid->rows; r++) {
                for (size_t c = 0; c < grid->columns; c++) {
                        const char *raw = at(grid, r, c);
                        raw += strspn(raw, " "); /* indentation is for text */
                        clean_markdown(text, sizeof text, raw, strlen(raw));
                        fprintf(out, "| %s ", text);
                }
                fputs("|\n", out);
                if (r > 0)
                        continue;
                for (size_t c = 0; c < grid->columns; c++)
                        fputs(c < grid->lefts ? "|---" : "|---:", out);
                fputs("|\n", out);
        }
        return 0;
}

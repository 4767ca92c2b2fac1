#pragma once
/*
 * A grid of texts with heads, for people: aligned text that is broken into blocks of columns where the line is too short, and Markdown.
 *
 * Cells are raw bytes, strangers' too; they are made harmless on the way out.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct grid {
        size_t columns, lefts;    /* the first `lefts` are labels: aligned left, and there again in each block */
        size_t rows;              /* the first one are the heads */
        char **cells;             /* NULL = empty */
        bool failed;              /* memory was short: a sink returns -ENOMEM */
};

void grid_init(struct grid *, size_t columns, size_t lefts);
void grid_fini(struct grid *);
void grid_row(struct grid *);
/* A cell of the newest row. */
void grid_set(struct grid *, size_t column, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* width 0 = one block; labels are cut at label_most columns then neither. 0, -ENOMEM. */
int grid_text(const struct grid *, unsigned width, unsigned label_most, bool utf8, FILE *);
int grid_markdown(const struct grid *, FILE *);

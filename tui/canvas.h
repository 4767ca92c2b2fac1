#pragma once
/*
 * A grid of cells with styles: what the live screen looks like, without a terminal.
 *
 * Views draw here, tests look at it, tui/screen.c carries the differences to the terminal. Guarantees: nothing is ever drawn outside the
 * clip area, whatever row, column, length or bytes are asked; no cell ever holds a control character; a wide character is there
 * with both its halves or not at all. Coordinates are relative to the clip area.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum style {          /* what a cell means; the screen decides how that looks */
        STYLE_PLAIN,
        STYLE_DIM,        /* zeros, absent values, hints */
        STYLE_STRONG,     /* names, sums */
        STYLE_HEAD,       /* column heads */
        STYLE_SORT,       /* head of the selected column in the selected panel */
        STYLE_SORT_OTHER, /* head of the selected column in another panel */
        STYLE_LOAD, STYLE_DISK, STYLE_OTHER, STYLE_IDLE, /* parts of a bar and their numbers */
        STYLE_WARN, STYLE_BAD,
        STYLE_SELECTED,   /* the row under the cursor */
        STYLE_COUNT,
};

struct cell {
        uint32_t ch;      /* code point; 0 = right half of a wide character */
        uint32_t style;
};

struct area {
        int row, col, rows, cols;
};

struct canvas {
        int rows, cols;
        struct cell *cells;
        size_t capacity;
        struct area clip;
        bool utf8;        /* the terminal takes more than ASCII */
};

enum { CANVAS_SIDE = 4096 }; /* rows and columns beyond this are not used */

void canvas_init(struct canvas *, bool utf8);
void canvas_fini(struct canvas *);
/* New size, all blank, clip = everything. Sizes are brought into 1..CANVAS_SIDE. 0 or -ENOMEM (the old size stays). */
int canvas_resize(struct canvas *, int rows, int cols);
/* All blank, clip = everything. */
void canvas_clear(struct canvas *);
/* Draw only inside this area from now on (cut to the canvas). */
void canvas_clip(struct canvas *, struct area);

/* Put UTF-8 text of our own, at most max columns. Returns the columns it took, drawn or clipped alike. */
int canvas_put(struct canvas *, int row, int col, int max, enum style, const char *text);
int canvas_format(struct canvas *, int row, int col, int max, enum style, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Put bytes of a stranger: made harmless by tui/clean.h first. */
int canvas_stranger(struct canvas *, int row, int col, int max, enum style, const char *bytes, size_t length);
/* Right-aligned in `width` columns; longer text loses its left part and starts with `>`, so that it cannot pass as a smaller number. */
void canvas_right(struct canvas *, int row, int col, int width, enum style, const char *text);
void canvas_fill(struct canvas *, int row, int col, int width, char ch, enum style);
/* Change only the style. */
void canvas_restyle(struct canvas *, int row, int col, int width, enum style);
/* One row as UTF-8 without trailing blanks: for tests and for terminals that cannot move the cursor. Returns the length. */
size_t canvas_line(const struct canvas *, int row, char *buffer, size_t size);

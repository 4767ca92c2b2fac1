#pragma once
/*
 * A table of cells, and the three ways it is written: aligned text, CSV, JSON.
 *
 * A verb fills it for one report; what a cell looks like in each format is decided here and nowhere else. Text of strangers is handed in
 * raw and made harmless on the way out. The memory is kept from report to report.
 */
#include <stdbool.h>
#include <stdio.h>

#include "sample/metric.h"

enum { TABLE_COLUMNS = 48 };

enum table_flag {
        TABLE_LEFT = 1,    /* aligned left in text */
        TABLE_MACHINE = 2, /* only in CSV and JSON: bounds, evidence, what the screen has no room for */
        TABLE_STRING = 4,  /* a JSON string even when the cell is a number: names such as a core's */
};

struct table_column {
        const char *head;
        unsigned width;    /* columns it has needed up to now; it only grows, so that reports line up */
        unsigned decimals;
        unsigned flags;    /* table_flag */
};

struct table_cell {
        struct value value;
        const char *lead;  /* shown before it in text only: the indentation of a stacked device; a constant, or NULL */
};

struct table {
        struct table_column columns[TABLE_COLUMNS];
        size_t column_count;
        struct table_cell *cells;
        size_t rows, capacity; /* rows in use and allocated */
        char *arena;           /* copies of texts that do not live as long as the table's rows */
        size_t arena_used, arena_size;
        char *line;            /* for one cleaned cell */
        size_t line_size;
        bool utf8;
};

void table_init(struct table *, bool utf8);
void table_fini(struct table *);
/* Columns are added once, before the first row. */
void table_column(struct table *, const char *head, unsigned decimals, unsigned flags);
/* Forget the rows. */
void table_clear(struct table *);
/* A new row, all cells absent; NULL when memory is short. Valid until the next row is added. */
struct table_cell *table_row(struct table *);
/* A text cell whose bytes live as long as the rows do (the state's), a copy of a short one, and a number. */
struct value table_text(const char *bytes, size_t length);
struct value table_copy(struct table *, const char *text);
struct value table_number(double);

/* Heads and rows, each line ended; the heads again after every `screen` lines (0 = never). */
void table_print(struct table *, FILE *, unsigned screen);
/* The heads as one CSV line, begun with `before` ("time,interval,gap"); and the rows, each begun with `before`. NULL = nothing before. */
void table_csv_heads(const struct table *, FILE *, const char *before);
void table_csv_rows(struct table *, FILE *, const char *before);
/* A JSON array of one object a row. */
void table_json(struct table *, FILE *);

#pragma once
/*
 * The tables for pipes: one loop over reports, one writer of a report in three formats. A verb says only what its columns and rows are.
 */
#include <stdio.h>

#include "sample/state.h"
#include "tui/options.h"
#include "tui/table.h"

struct text_view {
        const char *name;      /* the verb, and the key of the array in JSON */
        /* Columns of the table, once. */
        void (*columns)(void *own, enum format, struct table *);
        /* Rows of one report. 0; an exit status when there is nothing to go on with (said already); or -ENOMEM. */
        int (*rows)(void *own, const struct state *, enum format, struct table *);
        /* Lines below the table in text; NULL = none. */
        void (*below)(void *own, const struct state *, FILE *);
        /* JSON members after the array, each begun with a comma; NULL = none. */
        void (*members)(void *own, const struct state *, FILE *);
};

/* A report's writer. */
struct text {
        const struct text_view *view;
        void *own;
        FILE *out;
        enum format format;
        unsigned screen;       /* lines of the terminal, 0 = no terminal: heads are not repeated */
        uint64_t reports;      /* written up to now */
        struct table table;
};

void text_init(struct text *, const struct text_view *, void *own, enum format, FILE *);
void text_fini(struct text *);
/* One report from the state's interval; average: over everything since the first, text only. Flushes. 0, an exit status (above),
 * -ENOMEM, or -errno of the write (-EPIPE: the reader went away). */
int text_report(struct text *, const struct state *, bool average);

/* Add a view's columns to a table; those of which `want` is false (COL_GROUP_x) are left out, COL_SCREEN ones are for machines. */
void text_columns(struct table *, enum view_id, bool (*want)(const struct column *, void *), void *own);
/* Attach, report until the count, Ctrl-C or the end; returns the exit status. */
int text_run(const struct text_view *, void *own, struct options *);

#pragma once
/*
 * Between the two files that fill a report's tables.
 */
#include "tui/report.h"

static inline bool report_for_people(enum report_format format)
{
        return format == REPORT_TEXT || format == REPORT_MARKDOWN || format == REPORT_HTML;
}

/* Columns that a table gets, with how soon each gives way when there is no room (1 never, 9 first). */
struct report_columns {
        struct table *table;
        unsigned char ranks[TABLE_COLUMNS];
};
void report_column(struct report_columns *, const char *head, unsigned decimals, unsigned flags, unsigned rank);
/* Hides columns until the table fits. */
void report_fit(struct report_columns *, unsigned width);
/* NAN is absent. */
struct value report_cell(double number);

int report_table_cores(const struct report_phase *, enum report_format, struct report_columns *);
int report_table_devices(const struct report_phase *, enum view_id, enum report_format, struct report_columns *);
int report_table_fio(const struct report_phase *, enum report_format, struct report_columns *);
int report_table_tasks(const struct report_phase *, enum report_format, struct report_columns *);
/* report_stages.c: REPORT_TABLE_STAGES, REPORT_TABLE_BIOS, REPORT_TABLE_SYNC. */
int report_table_latency(const struct report_phase *, enum report_table, enum report_format, struct report_columns *);

/*
 * watop metrics: what there is to know, from the one table: every metric, and what a view's columns are made from.
 */
#include <stdlib.h>
#include <string.h>

#include "tui/options.h"
#include "tui/table.h"
#include "tui/verbs.h"

enum { CODE_COLUMNS = OPTION_LONG };

struct choice {
        const char *columns; /* name of a view, or NULL */
};

static const struct view_info *find_view(const char *name)
{
        for (int id = 0; id < VIEW_COUNT; id++)
                if (strcmp(metric_view((enum view_id)id)->name, name) == 0)
                        return metric_view((enum view_id)id);
        return NULL;
}

static struct value text_value(const char *text)
{
        return table_text(text, strlen(text));
}

static int all_metrics(struct table *table)
{
        static const char *const heads[] = {"name", "unit", "kind", "meaning", "source"};

        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
                table_column(table, heads[i], 0, TABLE_LEFT | TABLE_STRING);
        for (int id = 1; id < METRIC_COUNT; id++) {
                const struct metric_info *metric = &metrics[id];
                if (!metric->name)
                        continue;
                struct table_cell *cells = table_row(table);
                if (!cells)
                        return 1;
                cells[0].value = text_value(metric->name);
                cells[1].value = text_value(metric_unit_name(metric->unit));
                cells[2].value = text_value(metric_kind_name(metric->kind));
                cells[3].value = text_value(metric->text);
                cells[4].value = text_value(metric->source);
        }
        return 0;
}

/* "(process.user - process.guest)", at most size bytes; one term has no brackets. */
static void say_terms(char *text, size_t size, const short *terms)
{
        size_t used = 0;

        text[0] = '\0';
        for (size_t i = 0; i < COLUMN_TERMS && terms[i] != METRIC_NONE && used < size; i++) {
                bool last = i + 1 == COLUMN_TERMS || terms[i + 1] == METRIC_NONE;
                const char *sign = terms[i] < 0 ? (i ? " - " : "-") : i ? " + " : last ? "" : "(";
                const char *name = metrics[terms[i] < 0 ? -terms[i] : terms[i]].name;
                int n = snprintf(text + used, size - used, "%s%s%s", sign, name, i && last ? ")" : "");
                used += n < 0 ? 0 : (size_t)n;
        }
}

/* How a column comes from metrics. */
static void say_formula(char *text, size_t size, const struct column *column)
{
        static const char *const forms[] = {
                [OP_RATE] = "growth of %s, per second", [OP_RATIO] = "growth of %s / growth of %s", [OP_DELTA] = "growth of %s",
                [OP_LAST] = "%s", [OP_SHARE] = "%s / %s", [OP_AGE] = "time since %s", [OP_LETTER] = "%s", [OP_NAME] = "%s",
                [OP_WORD] = "in a word",
        };
        char over[512], under[512];
        const char *at = forms[column->op];

        say_terms(over, sizeof over, column->num);
        say_terms(under, sizeof under, column->den);
        if (over[0] == '\0') {
                snprintf(text, size, "never known here");
                return;
        }
        size_t used = 0;
        for (const char *fill = over; *at && used + 1 < size; at++) { /* the first %s is the numerator, the second what it is divided by */
                if (at[0] != '%') {
                        text[used++] = *at;
                        continue;
                }
                int n = snprintf(text + used, size - used, "%s", fill);
                used += n < 0 ? 0 : (size_t)n < size - used ? (size_t)n : size - used - 1;
                fill = under;
                at++;
        }
        text[used] = '\0';
}

/* Columns' own sentences begin with the head; where a column for it stands beside, it is not said twice. */
static const char *sentence(const struct column *column)
{
        size_t length = strlen(column->head);

        if (strncmp(column->text, column->head, length) == 0 && strncmp(column->text + length, ": ", 2) == 0)
                return column->text + length + 2;
        return column->text;
}

static int view_columns(struct table *table, const struct view_info *view)
{
        char formula[1200];

        table_column(table, "column", 0, TABLE_LEFT | TABLE_STRING);
        table_column(table, "meaning", 0, TABLE_LEFT | TABLE_STRING);
        table_column(table, "from", 0, TABLE_LEFT | TABLE_STRING);
        for (size_t i = 0; i < view->count; i++) {
                struct table_cell *cells = table_row(table);
                if (!cells)
                        return 1;
                say_formula(formula, sizeof formula, &view->columns[i]);
                cells[0].value = text_value(view->columns[i].head);
                cells[1].value = text_value(sentence(&view->columns[i]));
                cells[2].value = table_copy(table, formula);
        }
        return 0;
}

static int print_table(const struct options *options, const struct view_info *view)
{
        struct table table;

        table_init(&table, option_utf8());
        int r = view ? view_columns(&table, view) : all_metrics(&table);
        if (r == 0) {
                switch (options->format) {
                case FORMAT_TEXT: table_print(&table, stdout, 0); break;
                case FORMAT_CSV:
                        table_csv_heads(&table, stdout, NULL);
                        table_csv_rows(&table, stdout, NULL);
                        break;
                case FORMAT_JSON:
                        table_json(&table, stdout);
                        putchar('\n');
                        break;
                }
        }
        table_fini(&table);
        return r;
}

static int metrics_option(void *own, int code, const char *value)
{
        struct choice *choice = own;
        char known[256] = "";

        (void)code; /* there is one */
        for (int id = 0; id < VIEW_COUNT; id++)
                snprintf(known + strlen(known), sizeof known - strlen(known), " %s", metric_view((enum view_id)id)->name);
        if (!find_view(value))
                return options_error("metrics", "unknown view '%s':%s", value, known);
        choice->columns = value;
        return 0;
}

int metrics_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_COLUMNS, "columns", "VIEW", "the columns of a view: cpu disk short sar sar-old task thread"},
                {0},
        };
        struct choice choice = {0};
        const struct option_set set = {
                .verb = "metrics", .synopsis = "[OPTION...]", .entries = entries, .option = metrics_option, .own = &choice,
                .groups = OPTIONS_FORMAT,
                .text = "All metrics: name, unit, kind, meaning, source. Or the columns of one view, and\nthe metrics they are made from.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        return print_table(&options, choice.columns ? find_view(choice.columns) : NULL);
}

/*
 * A table of cells as text, CSV and JSON. See table.h.
 *
 * Text: columns are as wide as their widest cell has been, one blank between them, so that the usual table fits 80 columns and no number
 * is ever cut. The last column is not padded. CSV: quoted as RFC 4180 says, but lines end in LF alone, as the tools for lines want it
 * and every reader of CSV takes it. JSON: numbers at full precision, null for what could not be read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/table.h"

void table_init(struct table *table, bool utf8)
{
        *table = (struct table){.utf8 = utf8};
}

void table_fini(struct table *table)
{
        if (!table)
                return;
        free(table->cells);
        free(table->arena);
        free(table->line);
        *table = (struct table){0};
}

void table_column(struct table *table, const char *head, unsigned decimals, unsigned flags)
{
        if (table->column_count < TABLE_COLUMNS)
                table->columns[table->column_count++] = (struct table_column){
                        .head = head, .width = (unsigned)strlen(head), .decimals = decimals, .flags = flags};
}

void table_clear(struct table *table)
{
        table->rows = 0;
        table->arena_used = 0;
}

struct table_cell *table_row(struct table *table)
{
        if (table->rows == table->capacity) {
                size_t wanted = table->capacity ? 2 * table->capacity : 64;
                struct table_cell *grown = reallocarray(table->cells, wanted, table->column_count * sizeof *grown);
                if (!grown)
                        return NULL;
                table->cells = grown;
                table->capacity = wanted;
        }
        struct table_cell *row = table->cells + table->rows++ * table->column_count;
        memset(row, 0, table->column_count * sizeof *row);
        return row;
}

struct value table_text(const char *bytes, size_t length)
{
        if (!bytes)
                return (struct value){.kind = VALUE_ABSENT};
        return (struct value){.kind = VALUE_TEXT, .text = bytes, .length = length};
}

struct value table_number(double number)
{
        return (struct value){.kind = VALUE_NUMBER, .number = number, .low = number, .high = number};
}

/* Offsets would survive a grown arena, pointers do not: so it never moves while rows point into it. 64 KiB holds a word for each of 4,096
 * rows; beyond that the cell is absent. */
struct value table_copy(struct table *table, const char *text)
{
        size_t length = strlen(text);

        if (!table->arena) {
                table->arena_size = 1 << 16;
                table->arena = malloc(table->arena_size);
        }
        if (!table->arena || length > table->arena_size - table->arena_used)
                return (struct value){.kind = VALUE_ABSENT};
        char *copy = memcpy(table->arena + table->arena_used, text, length);
        table->arena_used += length;
        return table_text(copy, length);
}

/* Room for a cleaned text: six bytes for one is the worst case of all sinks (a JSON escape), and two quotes, a ' and the NUL. */
static char *line_for(struct table *table, size_t length)
{
        size_t need = 6 * length + 64;

        if (need > table->line_size) {
                char *grown = realloc(table->line, need);
                if (!grown)
                        return NULL;
                table->line = grown;
                table->line_size = need;
        }
        return table->line;
}

/* ---- text ----------------------------------------------------------------------------------------------------------------------- */

/* The cell as text in table->line; returns the columns it takes. */
static size_t cell_text(struct table *table, const struct table_column *column, const struct table_cell *cell)
{
        size_t columns = 0, lead = cell->lead ? strlen(cell->lead) : 0;
        char *line = line_for(table, (cell->value.kind == VALUE_TEXT ? cell->value.length : 0) + lead);

        if (!line)
                return 0;
        memcpy(line, cell->lead ? cell->lead : "", lead + 1);
        if (cell->value.kind == VALUE_TEXT)
                clean_screen(line + lead, table->line_size - lead, cell->value.text, cell->value.length, table->utf8, SIZE_MAX, &columns);
        else
                columns = value_format(line + lead, table->line_size - lead, &cell->value, column->decimals);
        return columns + lead;
}

static void pad(FILE *out, size_t blanks)
{
        fprintf(out, "%*s", (int)blanks, "");
}

static size_t last_shown(const struct table *table)
{
        size_t last = 0;

        for (size_t i = 0; i < table->column_count; i++)
                if (!(table->columns[i].flags & TABLE_MACHINE))
                        last = i;
        return last;
}

static void put_cell(const struct table_column *column, FILE *out, bool first, bool last, const char *text, size_t columns)
{
        size_t blanks = column->width > columns ? column->width - columns : 0;

        if (!first)
                fputc(' ', out);
        if (!(column->flags & TABLE_LEFT))
                pad(out, blanks);
        fputs(text, out);
        if ((column->flags & TABLE_LEFT) && !last)
                pad(out, blanks);
}

static void print_heads(const struct table *table, FILE *out, size_t last)
{
        for (size_t i = 0; i <= last; i++)
                if (!(table->columns[i].flags & TABLE_MACHINE))
                        put_cell(&table->columns[i], out, i == 0, i == last, table->columns[i].head, strlen(table->columns[i].head));
        fputc('\n', out);
}

static void measure(struct table *table, size_t last)
{
        for (size_t r = 0; r < table->rows; r++) {
                for (size_t i = 0; i <= last; i++) {
                        struct table_column *column = &table->columns[i];
                        size_t width;
                        if (column->flags & TABLE_MACHINE || (i == last && column->flags & TABLE_LEFT))
                                continue;
                        width = cell_text(table, column, &table->cells[r * table->column_count + i]);
                        if (width > column->width)
                                column->width = width < 200 ? (unsigned)width : 200;
                }
        }
}

void table_print(struct table *table, FILE *out, unsigned screen)
{
        size_t last = last_shown(table);

        measure(table, last);
        print_heads(table, out, last);
        for (size_t r = 0; r < table->rows; r++) {
                if (screen > 1 && r > 0 && r % (screen - 1) == 0)
                        print_heads(table, out, last);
                for (size_t i = 0; i <= last; i++) {
                        const struct table_column *column = &table->columns[i];
                        if (column->flags & TABLE_MACHINE)
                                continue;
                        size_t width = cell_text(table, column, &table->cells[r * table->column_count + i]);
                        put_cell(column, out, i == 0, i == last, table->line ? table->line : "", width);
                }
                fputc('\n', out);
        }
}

/* ---- CSV and JSON --------------------------------------------------------------------------------------------------------------- */

void table_csv_heads(const struct table *table, FILE *out, const char *before)
{
        fputs(before ? before : "", out);
        for (size_t i = 0; i < table->column_count; i++)
                fprintf(out, "%s%s", before || i ? "," : "", table->columns[i].head);
        fputc('\n', out);
}

static void csv_cell(struct table *table, FILE *out, const struct value *value)
{
        char *line = line_for(table, value->kind == VALUE_TEXT ? value->length : 0);

        if (!line)
                return;
        if (value->kind == VALUE_TEXT)
                clean_csv(line, table->line_size, value->text, value->length);
        else
                value_exact(line, table->line_size, value, "");
        fputs(line, out);
}

void table_csv_rows(struct table *table, FILE *out, const char *before)
{
        for (size_t r = 0; r < table->rows; r++) {
                fputs(before ? before : "", out);
                for (size_t i = 0; i < table->column_count; i++) {
                        fputs(before || i ? "," : "", out);
                        csv_cell(table, out, &table->cells[r * table->column_count + i].value);
                }
                fputc('\n', out);
        }
}

static void json_cell(struct table *table, FILE *out, const struct table_column *column, const struct value *value)
{
        char *line = line_for(table, value->kind == VALUE_TEXT ? value->length : 0);

        if (!line) {
                fputs("null", out);
                return;
        }
        if (value->kind == VALUE_TEXT)
                clean_json(line, table->line_size, value->text, value->length);
        else
                value_exact(line, table->line_size, value, "null");
        bool quoted = value->kind == VALUE_TEXT || (value->kind == VALUE_NUMBER && column->flags & TABLE_STRING);
        fprintf(out, quoted ? "\"%s\"" : "%s", line);
}

void table_json(struct table *table, FILE *out)
{
        fputc('[', out);
        for (size_t r = 0; r < table->rows; r++) {
                fputs(r ? ",{" : "{", out);
                for (size_t i = 0; i < table->column_count; i++) {
                        const struct table_column *column = &table->columns[i];
                        fprintf(out, "%s\"%s\":", i ? "," : "", column->head);
                        json_cell(table, out, column, &table->cells[r * table->column_count + i].value);
                }
                fputc('}', out);
        }
        fputc(']', out);
}

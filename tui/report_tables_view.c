/*
 * Tables of one phase that are those of `watop cpu`, `disk` and `task`, as means over the phase: the same columns of metrics.def, from the
 * phase's state.
 */
#include <errno.h>
#include <string.h>

#include "sample/word.h"
#include "tui/report_tables.h"

/* ---- cores ---------------------------------------------------------------------------------------------------------------------- */

/* Parts of wa are headed as parts: people add columns up. */
static const char *core_head(const struct column *column, bool people)
{
        if (people && strcmp(column->head, "wa_disk") == 0)
                return "wa=disk";
        if (people && strcmp(column->head, "wa_uring") == 0)
                return "+uring";
        return people && strcmp(column->head, "wa_other") == 0 ? "+other" : column->head;
}

static int core_row(const struct state *state, const struct state_row *row, struct value name, struct table *table)
{
        const struct view_info *view = metric_view(VIEW_CPU);
        struct table_cell *cells = table_row(table);

        if (!cells)
                return -ENOMEM;
        cells[0].value = name;
        for (size_t i = 0; i < view->count; i++)
                cells[1 + i].value = row ? metric_value(state, row, &view->columns[i]) : metric_value_sum(state, &view->columns[i], NULL,
                                NULL);
        return 0;
}

int report_table_cores(const struct report_phase *phase, enum report_format format, struct report_columns *columns)
{
        const struct view_info *view = metric_view(VIEW_CPU);
        bool people = report_for_people(format);
        int r = 0;

        report_column(columns, people ? "CPU" : "cpu", 0, TABLE_STRING, 1);
        for (size_t i = 0; i < view->count; i++) {
                const struct column *column = &view->columns[i];
                bool guest = strcmp(column->head, "gu") == 0 || strcmp(column->head, "gn") == 0;
                report_column(columns, core_head(column, people), column->decimals, people && guest ? TABLE_MACHINE : 0, column->rank);
        }
        if (!phase->valid)
                return 0;
        for (size_t i = 0; r == 0 && i < phase->core_count; i++) {
                const struct state_row *row = state_find(phase->state, SCOPE_CPU, (struct key){.a = phase->cores[i].number});
                if (row && !row->gone)
                        r = core_row(phase->state, row, table_number(phase->cores[i].number), columns->table);
        }
        return r < 0 ? r : core_row(phase->state, NULL, table_text("SUM", 3), columns->table);
}

/* ---- devices -------------------------------------------------------------------------------------------------------------------- */

static struct value device_word(const struct state *state, const struct state_row *row, struct table *table)
{
        char text[48];

        word_device(state, row, text, sizeof text);
        return strcmp(text, "-") == 0 ? (struct value){.kind = VALUE_ABSENT} : table_copy(table, text);
}

static struct table_cell *device_row(const struct report_disk_row *device, bool people, struct table *table)
{
        static const char blanks[] = "    ";
        struct table_cell *cells = table_row(table);

        if (cells) {
                cells[0].value = table_text(device->name, strlen(device->name));
                cells[0].lead = people ? blanks + 4 - (device->depth < 4 ? device->depth : 4) : NULL;
        }
        return cells;
}

struct value report_capped(const struct column *column, struct value value)
{
        if (value.kind == VALUE_NUMBER && strcmp(column->head, "%util") == 0 && value.number > 100)
                value.number = value.low = value.high = 100;
        return value;
}

int report_table_devices(const struct report_phase *phase, enum view_id id, enum report_format format, struct report_columns *columns)
{
        const struct view_info *view = metric_view(id);
        bool people = report_for_people(format);

        report_column(columns, people ? view->key_head : "device", 0, TABLE_LEFT | TABLE_STRING, 1);
        for (size_t i = 0; i < view->count; i++) /* levels at the last sample are no means */
                report_column(columns, view->columns[i].head, view->columns[i].decimals,
                              (view->columns[i].flags & COL_LEFT ? TABLE_LEFT : 0) | (view->columns[i].op == OP_LAST ? TABLE_MACHINE : 0),
                                      view->columns[i].rank);
        for (size_t d = 0; phase->valid && d < phase->device_count; d++) {
                const struct report_disk_row *device = &phase->devices[d];
                struct table_cell *cells = device_row(device, people, columns->table);
                if (!cells)
                        return -ENOMEM;
                for (size_t i = 0; device->used && i < view->count; i++)
                        cells[1 + i].value = view->columns[i].op == OP_WORD ? device_word(phase->state, device->used, columns->table)
                                : report_capped(&view->columns[i], metric_value(phase->state, device->used, &view->columns[i]));
        }
        return 0;
}

static double grown(const struct state_row *row, int metric, double scale)
{
        double delta = 0;
        int r = row->has_base ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        return r == DELTA_ABSENT || r == DELTA_RESET ? NAN : delta * scale;
}

static struct value pair_text(struct table *table, double read, double write)
{
        char text[64];

        if (!isfinite(read) || !isfinite(write))
                return (struct value){.kind = VALUE_ABSENT};
        snprintf(text, sizeof text, "%.0f/%.0f", read, write);
        return table_copy(table, text);
}

/* What util is of: fio's own time when it said it, else the command's. */
static double fio_seconds(const struct report_phase *phase)
{
        if (phase->tool_seconds > 0)
                return phase->tool_seconds;
        return phase->ran && phase->end_mono_ns > phase->start_mono_ns ? (double)(phase->end_mono_ns - phase->start_mono_ns) / 1e9
                : report_seconds(&phase->full);
}

/* fio's own line of a device: what the counters gained while the command ran, ramps included. fio says 100 where the kernel's counter,
 * which is no clock, gained more than the time; here util is capped as there, and io_ticks has all of it. */
int report_table_fio(const struct report_phase *phase, enum report_format format, struct report_columns *columns)
{
        static const char *const machine[] = {"read_ios", "write_ios", "read_merge", "write_merge", "read_ticks", "write_ticks", "in_queue",
                "util", "io_ticks"};
        static const char *const human[] = {"ios", "merge", "ticks", "in_queue", "util"};
        static const struct { int metric; double scale; } from[] = {{DISK_READS, 1}, {DISK_WRITES, 1}, {DISK_READS_MERGED, 1},
                {DISK_WRITES_MERGED, 1},
                {DISK_READ_TIME, 1e-6}, {DISK_WRITE_TIME, 1e-6}, {DISK_QUEUE_TIME, 1e-6}, {DISK_IO_TIME, 1e-6}};
        bool people = report_for_people(format);
        double seconds = fio_seconds(phase);

        report_column(columns, people ? "Disk stats" : "device", 0, TABLE_LEFT | TABLE_STRING, 1);
        for (size_t i = 0; i < (people ? sizeof human / sizeof *human : sizeof machine / sizeof *machine); i++)
                report_column(columns, people ? human[i] : machine[i], people ? 2 : 3, 0, 1);
        for (size_t d = 0; phase->valid && d < phase->device_count; d++) {
                double v[8];
                struct table_cell *cells = device_row(&phase->devices[d], people, columns->table);
                if (!cells)
                        return -ENOMEM;
                for (size_t i = 0; i < 8; i++)
                        v[i] = grown(phase->devices[d].whole, from[i].metric, from[i].scale);
                double util = seconds > 0 ? fmin(v[7] / seconds / 10, 100) : NAN;
                if (people) {
                        cells[1].value = pair_text(columns->table, v[0], v[1]);
                        cells[2].value = pair_text(columns->table, v[2], v[3]);
                        cells[3].value = pair_text(columns->table, v[4], v[5]);
                        char text[40];
                        snprintf(text, sizeof text, "%.0f", v[6]);
                        cells[4].value = isfinite(v[6]) ? table_copy(columns->table, text) : (struct value){.kind = VALUE_ABSENT};
                        cells[5].value = report_cell(util);
                        continue;
                }
                for (size_t i = 0; i < 7; i++)
                        cells[1 + i].value = report_cell(v[i]);
                cells[8].value = report_cell(util);
                cells[9].value = report_cell(v[7]);
        }
        return 0;
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------------------- */

int report_table_tasks(const struct report_phase *phase, enum report_format format, struct report_columns *columns)
{
        static const struct { const char *head; unsigned decimals, flags, rank; } heads[] = {
                {"group", 0, TABLE_LEFT, 3}, {"PID", 0, 0, 4}, {"n", 0, 0, 5}, {"%usr", 1, 0, 1}, {"%system", 1, 0, 1}, {"%guest", 1, 0, 7},
                        {"%wait", 1, 0, 2}, {"%CPU", 1, 0, 1},
                {"CPU", 0, TABLE_STRING, 2}, {"kB_rd/s", 1, 0, 6}, {"kB_wr/s", 1, 0, 6}, {"THR", 0, 0, 8},
                        {"Command", 0, TABLE_LEFT | TABLE_STRING, 1},
        };

        (void)format;
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
                report_column(columns, heads[i].head, heads[i].decimals, heads[i].flags, heads[i].rank);
        for (size_t i = 0; phase->valid && i < phase->task_count; i++) {
                const struct report_task *task = &phase->tasks[i];
                const double numbers[] = {task->usr, task->system, task->guest, task->wait, task->cpu};
                struct table_cell *cells = table_row(columns->table);
                if (!cells)
                        return -ENOMEM;
                cells[0].value = table_text(report_group_names[task->group], strlen(report_group_names[task->group]));
                if (task->processes == 1)
                        cells[1].value = table_number((double)task->row->key.a);
                if (task->processes > 0) /* else who ended between samples: nobody knows how many */
                        cells[2].value = table_number(task->processes);
                for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
                        cells[3 + n].value = report_cell(numbers[n]);
                cells[8].value = table_text(task->cores[0] ? task->cores : NULL, strlen(task->cores));
                cells[9].value = report_cell(task->rkb);
                cells[10].value = report_cell(task->wkb);
                cells[11].value = report_cell(task->threads);
                cells[12].value = table_text(task->name, strlen(task->name));
        }
        return 0;
}

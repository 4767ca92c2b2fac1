/*
 * watop task: pidstat's columns for processes and, with -t, their threads; and, with -i, which iowait they caused.
 *
 * Rows are in order of PID, a process before its threads, so that two reports can be laid side by side; --sort COLUMN puts the largest
 * first instead. Left out, as pidstat does, are tasks of which no shown column moved, but never one that waits: D state, ready to run at
 * the sample, or counted by the kernel as waiting for I/O. A task that ended within the interval has no row: nothing is left to be read of
 * it. Which rows there are does not depend on the format; JSON carries all columns whatever groups were chosen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/control.h"
#include "tui/task_filter.h"
#include "tui/text.h"
#include "tui/verbs.h"

enum { GROUPS = COL_GROUP_U | COL_GROUP_D | COL_GROUP_R | COL_GROUP_W | COL_GROUP_I };

struct task {
        unsigned groups;            /* COL_GROUP_x: pidstat's, and ours for waits */
        bool all, threads, command_lines;
        const char *sort;           /* head of a column, or NULL */
        enum format format;
        struct task_filter filter;
        struct entry {
                const struct state_row *row, *process; /* of the process itself: the same */
                int pid, tid;
                struct value order;
        } *entries;                 /* kept from report to report */
        size_t capacity, count;
        struct pair { int pid; const struct state_row *row; } *processes; /* by pid */
        size_t process_capacity, process_count;
        int *waiters;               /* tids the kernel counts as waiting for I/O */
        size_t waiter_capacity, waiter_count;
};

static bool shown(const struct column *column, const struct task *task)
{
        return !(column->flags & GROUPS) || column->flags & task->groups;
}

static bool want_column(const struct column *column, void *own)
{
        const struct task *task = own;

        return task->format == FORMAT_JSON || shown(column, task);
}

static void task_columns(void *own, enum format format, struct table *table)
{
        struct task *task = own;

        task->format = format;
        table_column(table, "UID", 0, 0);
        table_column(table, "PID", 0, 0);
        table_column(table, "TID", 0, 0);
        size_t first = table->column_count;
        text_columns(table, VIEW_TASK, want_column, task);
        for (size_t i = first; i < table->column_count; i++) /* a core's number is a name, here as in the cpu table */
                if (strcmp(table->columns[i].head, "CPU") == 0)
                        table->columns[i].flags |= TABLE_STRING;
        table_column(table, "Unit", 0, TABLE_LEFT);
        table_column(table, "Command", 0, TABLE_LEFT | TABLE_STRING);
}

/* ---- which tasks ------------------------------------------------------------------------------------------------------------------ */

static int compare_ints(const void *left, const void *right)
{
        int a = *(const int *)left, b = *(const int *)right;

        return a < b ? -1 : a > b;
}

static int grow(void *array, size_t *capacity, size_t wanted, size_t size)
{
        void **at = array;

        if (wanted <= *capacity)
                return 0;
        void *grown = reallocarray(*at, wanted + wanted / 4 + 64, size);
        if (!grown)
                return -ENOMEM;
        *at = grown;
        *capacity = wanted + wanted / 4 + 64;
        return 0;
}

/* Processes by pid; a pid that was used twice within the interval has its living row only. */
static int index_processes(struct task *task, const struct state *state)
{
        size_t rows = state_count(state, SCOPE_PROCESS);

        task->process_count = 0;
        if (grow(&task->processes, &task->process_capacity, rows, sizeof *task->processes) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < rows; i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                if (!row->gone)
                        task->processes[task->process_count++] = (struct pair){(int)row->key.a, row};
        }
        if (task->process_count > 1)
                qsort(task->processes, task->process_count, sizeof *task->processes, compare_ints); /* pid is the first member */
        return 0;
}

static const struct state_row *process_of(const struct task *task, int pid)
{
        const struct pair *pair = task->process_count
                ? bsearch(&pid, task->processes, task->process_count, sizeof *pair, compare_ints) : NULL;

        return pair ? pair->row : NULL;
}

static int index_waiters(struct task *task, const struct state *state)
{
        size_t rows = state_count(state, SCOPE_WAITER);

        task->waiter_count = 0;
        if (grow(&task->waiters, &task->waiter_capacity, 2 * rows, sizeof *task->waiters) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < rows; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                uint64_t witness, tgid;
                if (row->gone || !state_now(row, WAITER_WITNESS, &witness) || witness < 2)
                        continue;
                task->waiters[task->waiter_count++] = (int)row->key.a;
                if (state_now(row, WAITER_TGID, &tgid) && tgid != row->key.a)
                        task->waiters[task->waiter_count++] = (int)tgid;
        }
        if (task->waiter_count > 1)
                qsort(task->waiters, task->waiter_count, sizeof *task->waiters, compare_ints);
        return 0;
}

/* In D state, ready to run, or counted as waiting for I/O. */
static bool waits(const struct task *task, const struct entry *entry)
{
        bool thread = entry->row->scope == SCOPE_THREAD;
        uint64_t letter;

        if (state_now(entry->row, thread ? THREAD_STATE : PROCESS_STATE, &letter) && (letter == 'D' || letter == 'R'))
                return true;
        return task->waiter_count && bsearch(&entry->tid, task->waiters, task->waiter_count, sizeof entry->tid, compare_ints);
}

/* Some column of the chosen groups moved, by so much that it does not read 0. */
static bool moved(const struct task *task, const struct state *state, const struct entry *entry)
{
        const struct view_info *view = metric_view(entry->row->scope == SCOPE_THREAD ? VIEW_TASK_THREAD : VIEW_TASK);

        for (size_t i = 0; i < view->count; i++) {
                const struct column *column = &view->columns[i];
                if (!(column->flags & task->groups) || (column->op != OP_RATE && column->op != OP_DELTA))
                        continue;
                struct value value = metric_value(state, entry->row, column);
                double least = 0.5;
                for (unsigned d = 0; d < column->decimals; d++)
                        least /= 10;
                if ((value.kind == VALUE_NUMBER && value.number >= least) || value.flags & VALUE_RESET)
                        return true;
        }
        return false;
}

static bool wanted(struct task *task, const struct state *state, const struct entry *entry)
{
        bool thread = entry->row->scope == SCOPE_THREAD;
        const struct task_subject subject = {
                .pid = entry->pid, .tid = entry->tid, .thread = thread,
                .own = entry->row, .process = entry->process,
        };

        switch (task_filter_match(&task->filter, state, &subject)) {
        case FILTER_NAMED: return true;
        case FILTER_NO: return false;
        default: return task->all || moved(task, state, entry) || waits(task, entry);
        }
}

static int collect(struct task *task, const struct state *state)
{
        size_t processes = task->process_count, threads = task->threads ? state_count(state, SCOPE_THREAD) : 0;

        task->count = 0;
        if (grow(&task->entries, &task->capacity, processes + threads, sizeof *task->entries) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < processes; i++) {
                const struct pair *pair = &task->processes[i];
                struct entry entry = {.row = pair->row, .process = pair->row, .pid = pair->pid, .tid = pair->pid};
                if (wanted(task, state, &entry))
                        task->entries[task->count++] = entry;
        }
        for (size_t i = 0; i < threads; i++) {
                const struct state_row *row = state_at(state, SCOPE_THREAD, i);
                uint64_t tgid;
                if (row->gone || !state_now(row, THREAD_TGID, &tgid))
                        continue;
                struct entry entry = {.row = row, .process = process_of(task, (int)tgid), .pid = (int)tgid, .tid = (int)row->key.a};
                if (wanted(task, state, &entry))
                        task->entries[task->count++] = entry;
        }
        return 0;
}

/* ---- their order ------------------------------------------------------------------------------------------------------------------ */

static int compare_entries(const void *left, const void *right)
{
        const struct entry *a = left, *b = right;

        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        if (a->row->scope != b->row->scope)
                return a->row->scope == SCOPE_PROCESS ? -1 : 1;
        return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_by_value(const void *left, const void *right)
{
        const struct entry *a = left, *b = right;
        int order = value_compare(&a->order, &b->order);

        return order ? order : compare_entries(left, right);
}

static void sort_entries(struct task *task, const struct state *state)
{
        for (size_t i = 0; task->sort && i < task->count; i++) {
                struct entry *entry = &task->entries[i];
                const struct column *column = metric_column(entry->row->scope == SCOPE_THREAD ? VIEW_TASK_THREAD : VIEW_TASK, task->sort);
                entry->order = column ? metric_value(state, entry->row, column) : (struct value){.kind = VALUE_ABSENT};
        }
        if (task->count > 1)
                qsort(task->entries, task->count, sizeof *task->entries, task->sort ? compare_by_value : compare_entries);
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------------- */

static struct value text_of(const struct state *state, const struct state_row *row, int metric)
{
        size_t length = 0;
        const char *text = row ? state_text(state, row, metric, &length) : NULL;

        return table_text(length ? text : NULL, length);
}

static struct value command_of(const struct task *task, const struct state *state, const struct entry *entry)
{
        struct value value = {.kind = VALUE_ABSENT};

        if (entry->row->scope == SCOPE_THREAD)
                return text_of(state, entry->row, THREAD_COMM);
        if (task->command_lines)
                value = text_of(state, entry->row, PROCESS_CMDLINE);
        return value.kind == VALUE_ABSENT ? text_of(state, entry->row, PROCESS_COMM) : value;
}

static int put_entry(struct task *task, const struct state *state, struct table *table, const struct entry *entry)
{
        bool thread = entry->row->scope == SCOPE_THREAD;
        const struct view_info *view = metric_view(thread ? VIEW_TASK_THREAD : VIEW_TASK);
        struct table_cell *cells = table_row(table);
        size_t at = 3;
        uint64_t uid;

        if (!cells)
                return -ENOMEM;
        if (entry->process && state_now(entry->process, PROCESS_UID, &uid))
                cells[0].value = table_number((double)uid);
        cells[1].value = table_number(entry->pid);
        if (thread)
                cells[2].value = table_number(entry->tid);
        for (size_t i = 0; i < view->count; i++) /* both views have the same columns in the same order: a test holds them to it */
                if (want_column(&view->columns[i], task))
                        cells[at++].value = metric_value(state, entry->row, &view->columns[i]);
        cells[at++].value = text_of(state, entry->process, PROCESS_UNIT);
        cells[at].value = command_of(task, state, entry);
        cells[at].lead = thread ? "|__" : NULL;
        return 0;
}

static int task_rows(void *own, const struct state *state, enum format format, struct table *table)
{
        struct task *task = own;

        (void)format;
        int r = index_processes(task, state);
        if (r == 0)
                r = index_waiters(task, state);
        if (r == 0)
                r = collect(task, state);
        if (r < 0)
                return r;
        sort_entries(task, state);
        for (size_t i = 0; r == 0 && i < task->count; i++)
                r = put_entry(task, state, table, &task->entries[i]);
        return r < 0 ? r : task_filter_tell(&task->filter);
}

static const struct text_view task_view = {"task", task_columns, task_rows, NULL, NULL};

/* ---- the command ------------------------------------------------------------------------------------------------------------------- */

enum { CODE_ALL = OPTION_LONG, CODE_ALL_COLUMNS, CODE_SORT };

static int task_option(void *own, int code, const char *value)
{
        struct task *task = own;

        switch (code) {
        case 'u': task->groups |= COL_GROUP_U; return 0;
        case 'd': task->groups |= COL_GROUP_D; return 0;
        case 'r': task->groups |= COL_GROUP_R; return 0;
        case 'w': task->groups |= COL_GROUP_W; return 0;
        case 'i': task->groups |= COL_GROUP_I; return 0;
        case CODE_ALL_COLUMNS: task->groups = GROUPS; return 0;
        case CODE_ALL: task->all = true; return 0;
        case 't': task->threads = true; return 0;
        case 'l': task->command_lines = task->filter.command_lines = true; return 0;
        case 'p': return task_filter_add(&task->filter, value);
        case 'C': return task_filter_regex(&task->filter, FILTER_TASKS, value);
        case 'G': return task_filter_regex(&task->filter, FILTER_GROUPS, value);
        default:
                if (!metric_column(VIEW_TASK, value))
                        return options_error("task", "no column '%s' to sort by; watop metrics --columns task lists them", value);
                task->sort = value;
                return 0;
        }
}

static const struct option_entry task_entries[] = {
        {'u', NULL, NULL, "CPU columns (default)"},
        {'d', NULL, NULL, "I/O columns"},
        {'r', NULL, NULL, "memory columns"},
        {'w', NULL, NULL, "context switch columns"},
        {'i', NULL, NULL, "iowait they caused: disk, io_uring, other; rings and AIO contexts"},
        {CODE_ALL_COLUMNS, "all-columns", NULL, "all of them"},
        {'t', "threads", NULL, "threads too"},
        {'p', "pid", "PID|NAME", "only these (a list with commas; may be repeated); always shown"},
        {'C', NULL, "REGEX", "only tasks whose name matches; with -l, or whose command line does"},
        {'G', NULL, "REGEX", "only processes whose name matches, with their threads"},
        {'l', NULL, NULL, "command lines instead of names"},
        {CODE_ALL, "all", NULL, "idle tasks too"},
        {CODE_SORT, "sort", "COLUMN", "largest first; else in order of PID"},
        {0},
};

static void task_free(struct task *task)
{
        task_filter_fini(&task->filter);
        free(task->entries);
        free(task->processes);
        free(task->waiters);
}

int task_main(int argc, char **argv)
{
        static struct task task;
        const struct option_set set = {
                .verb = "task", .synopsis = "[OPTION...] [INTERVAL [COUNT]]", .entries = task_entries, .option = task_option, .own = &task,
                .groups = OPTIONS_SOURCE | OPTIONS_LOG | OPTIONS_FORMAT | OPTIONS_TIMES,
                .text = "What each process did: the columns of pidstat; 100% = one core, not capped.\n"
                        "A task of which nothing moved is left out, unless it waits: in D state, ready\n"
                        "to run, or counted as waiting for I/O. %wait is waiting for a core, not for I/O.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r != 0) {
                task_free(&task);
                return r > 0 ? 0 : 2;
        }
        if (task.groups == 0)
                task.groups = COL_GROUP_U;
        options.attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_VM) |
                SCOPE_BIT(SCOPE_PROCESS) | SCOPE_BIT(SCOPE_WAITER) | (task.threads ? SCOPE_BIT(SCOPE_THREAD) : 0);
        if (task.groups & COL_GROUP_I)
                options.attach.leases |= LEASE_RINGS;
        int status = text_run(&task_view, &task, &options);
        task_free(&task);
        return status;
}

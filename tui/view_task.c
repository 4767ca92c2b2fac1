/*
 * The panel of processes, with their threads below them when asked: pidstat's columns, user, unit, state, threads, command.
 *
 * Never hidden as idle: what runs, is ready to run, sits in D state, or counts as waiting for I/O. A process that has been in D for a
 * second or more, or has a thread that has, stands on top whatever the order, with where it sleeps and for how long behind its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/view.h"

enum { PID_LEAST = 7, USER_WIDTH = 8, UNIT_WIDTH = 18 };
enum { WIDE = 120, MEDIUM = 60, NARROW = 24 }; /* screen columns from which unit, user, and numbers are shown */

/* A task that waits: in D state, or counted as waiting for I/O. It is never left out as idle, nor is its process. */
struct wait {
        uint64_t tgid, tid;
        double seconds;        /* in D state; 0: not in D */
        const struct state_row *row;
        int wchan, name;
};

/* Of the present look, by tgid, the longest in D state first. Grows to the most that waited, and is kept. */
static struct wait *waits;
static size_t wait_count, wait_capacity;

static int by_tgid(const void *left, const void *right)
{
        const struct wait *a = left, *b = right;
        if (a->tgid != b->tgid)
                return a->tgid < b->tgid ? -1 : 1;
        return a->seconds > b->seconds ? -1 : a->seconds < b->seconds;
}

/* The wait of a process, or of one of its threads, that has lasted longest; NULL: none waits. */
static const struct wait *wait_of(uint64_t tgid)
{
        size_t low = 0, high = wait_count;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (waits[middle].tgid < tgid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < wait_count && waits[low].tgid == tgid ? &waits[low] : NULL;
}

/* Shown on top: in D state for a second and more. */
static bool is_pin(const struct wait *wait)
{
        return wait && wait->seconds >= 1;
}

static void add_wait(const struct look *look, struct wait wait)
{
        char name[32], channel[64];
        state_text_copy(look->state, wait.row, wait.name, name, sizeof name);
        state_text_copy(look->state, wait.row, wait.wchan, channel, sizeof channel);
        if (tally_is_helper(name, channel))
                return;
        if (wait_count == wait_capacity) {
                size_t capacity = wait_capacity ? wait_capacity * 2 : 64;
                struct wait *grown = realloc(waits, capacity * sizeof *grown);
                if (!grown)
                        return;
                waits = grown;
                wait_capacity = capacity;
        }
        waits[wait_count++] = wait;
}

static double seconds_since(const struct look *look, const struct state_row *row, int since)
{
        uint64_t from, now = state_info(look->state).boot_ns;
        return state_now(row, since, &from) && now > from ? (double)(now - from) * 1e-9 : 0;
}

/* Metric waiter.witness: 0 proves nothing, 1 that the sleep is not counted as iowait. */
static bool is_counted(const struct state_row *waiter)
{
        uint64_t witness;
        return waiter && !waiter->gone && state_now(waiter, WAITER_WITNESS, &witness) && witness >= 2;
}

static void find_waits(const struct look *look)
{
        uint64_t code, tgid;
        wait_count = 0;
        for (size_t i = 0; i < state_count(look->state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_PROCESS, i);
                if (!row->gone && state_now(row, PROCESS_STATE, &code) && code == 'D')
                        add_wait(look, (struct wait){row->key.a, row->key.a, seconds_since(look, row, PROCESS_SINCE), row, PROCESS_WCHAN,
                                PROCESS_COMM});
        }
        for (size_t i = 0; i < state_count(look->state, SCOPE_WAITER); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_WAITER, i);
                if (!is_counted(row) || !state_now(row, WAITER_TGID, &tgid))
                        continue;
                bool d = state_now(row, WAITER_STATE, &code) && code == 'D';
                add_wait(look, (struct wait){tgid, row->key.a, d ? seconds_since(look, row, WAITER_SINCE) : 0, row, WAITER_WCHAN,
                        WAITER_COMM});
        }
        if (wait_count > 1)
                qsort(waits, wait_count, sizeof *waits, by_tgid);
}

static bool grew(const struct state_row *row, int metric)
{
        double delta = 0;
        int outcome = state_delta(row, metric, &delta);
        return (outcome == DELTA_OK || outcome == DELTA_UNWRAPPED) && delta > 0;
}

/* Ready to run without a core for so long that %wait shows it. */
static bool waited(const struct state_row *row, int metric)
{
        double delta = 0, seconds = state_row_seconds(row);
        int outcome = state_delta(row, metric, &delta);
        return outcome == DELTA_OK && seconds > 0 && delta * 1e-7 / seconds >= 0.05;
}

/* Idle: nothing of it would show but zeros. */
static bool is_idle(const struct state_row *row, bool thread)
{
        uint64_t letter;
        if (!row->has_base) /* nothing is known of its interval yet */
                return false;
        if (state_now(row, thread ? THREAD_STATE : PROCESS_STATE, &letter) && (letter == 'D' || letter == 'R'))
                return false;
        if (thread)
                return !grew(row, THREAD_USER_TIME) && !grew(row, THREAD_SYSTEM_TIME) && !waited(row, THREAD_RUN_DELAY) &&
                        !grew(row, THREAD_READ_BYTES) && !grew(row, THREAD_WRITE_BYTES);
        return !grew(row, PROCESS_USER_TIME) && !grew(row, PROCESS_SYSTEM_TIME) && !waited(row, PROCESS_RUN_DELAY) &&
                !grew(row, PROCESS_READ_BYTES) && !grew(row, PROCESS_WRITE_BYTES);
}

/* The same column of the threads' view: the table lists both in one order. */
static const struct column *column_for(const struct panel_line *line, const struct column *column)
{
        if (!line->row || line->row->scope != SCOPE_THREAD)
                return column;
        size_t index = (size_t)(column - metric_view(VIEW_TASK)->columns);
        return index < metric_view(VIEW_TASK_THREAD)->count ? &metric_view(VIEW_TASK_THREAD)->columns[index] : column;
}

/* The parts of wa are called as those of cores. */
static const char *head(const struct column *column)
{
        switch (column->num[0]) {
        case PROCESS_WA_DISK: return "wa=disk";
        case PROCESS_WA_URING: return "+uring";
        case PROCESS_WA_OTHER: return "+other";
        default: return NULL;
        }
}

static int by_pid(const void *left, const void *right)
{
        const struct panel_line *a = left, *b = right;
        return a->id < b->id ? -1 : a->id > b->id;
}

/* Threads go below the processes that are shown. */
static void gather_threads(struct panel *p, const struct look *look, bool rates)
{
        size_t processes = p->count;
        const struct column *sort = panel_column(p, p->sort);
        if (processes == 0)
                return;
        qsort(p->lines, processes, sizeof *p->lines, by_pid);
        for (size_t i = 0; i < state_count(look->state, SCOPE_THREAD); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_THREAD, i);
                struct panel_line key = {0};
                if (row->gone || !state_now(row, THREAD_TGID, &key.id) || (rates && !look->idle && is_idle(row, true) &&
                    !is_counted(state_find(look->state, SCOPE_WAITER, row->key)))) /* the two rows of a thread have one key */
                        continue;
                const struct panel_line *found = bsearch(&key, p->lines, processes, sizeof key, by_pid);
                uint64_t threads = 2;
                if (!found || (state_now(found->row, PROCESS_THREADS, &threads) && threads == 1))
                        continue;
                struct panel_line parent = *found;
                struct panel_line *line = panel_add(p, row, row->key.a);
                if (!line)
                        return;
                line->group = parent.id;
                line->depth = 1;
                line->pinned = parent.pinned;
                line->has_sort = parent.has_sort;
                line->sort = parent.sort;
                line->has_own = sort && panel_value(p, look, row, column_for(line, sort), &line->own);
        }
}

static void gather(struct panel *p, const struct look *look)
{
        const struct column *sort = panel_column(p, p->sort);
        panel_begin(p);
        if (!look->state)
                return;
        bool rates = state_info(look->state).valid;
        find_waits(look);
        for (size_t i = 0; i < state_count(look->state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(look->state, SCOPE_PROCESS, i);
                if (row->gone || (p->filter[0] && !panel_matches(look, row, p->filter)))
                        continue;
                const struct wait *wait = wait_of(row->key.a);
                if (rates && !look->idle && !wait && is_idle(row, false)) {
                        p->hidden++;
                        continue;
                }
                struct panel_line *line = panel_add(p, row, row->key.a);
                if (!line)
                        return;
                line->pinned = is_pin(wait);
                line->has_sort = sort ? panel_value(p, look, row, sort, &line->sort) : true;
                if (!sort)
                        line->sort = -(double)row->key.a;
        }
        if (look->threads)
                gather_threads(p, look, rates);
}

static int wanted(const struct panel *p, const struct look *look)
{
        (void)look;
        return (int)(p->count < 100000 ? p->count : 100000) + 1 + (p->hidden > 0);
}

static enum style cell(const struct look *look, const struct panel_line *line, const struct column *column, char *text, size_t size)
{
        struct value v = metric_value(look->state, line->row, column_for(line, column));
        if (v.kind == VALUE_TEXT) {
                snprintf(text, size, "%.*s", (int)(v.length < 8 ? v.length : 8), v.text);
                for (char *c = text; *c; c++)
                        *c = *c >= ' ' && *c <= '~' ? *c : '?';
                return text[0] == 'D' ? STYLE_BAD : text[0] == 'R' ? STYLE_LOAD : STYLE_PLAIN;
        }
        enum style style = panel_text(&v, column, text, size);
        if (line->depth > 0 && v.kind == VALUE_ABSENT && column_for(line, column)->num[0] == 0)
                text[0] = '\0'; /* belongs to the process: not unknown */
        return style == STYLE_PLAIN && strcmp(column->head, "%CPU") == 0 ? STYLE_LOAD : style;
}

static void draw_user(const struct look *look, const struct state_row *row, struct canvas *c, int y, int x)
{
        size_t length = 0;
        uint64_t uid;
        const char *user = state_text(look->state, row, PROCESS_USER, &length);
        if (user && length > USER_WIDTH) {
                canvas_stranger(c, y, x, USER_WIDTH - 1, STYLE_PLAIN, user, length);
                canvas_put(c, y, x + USER_WIDTH - 1, 1, STYLE_DIM, "+");
        } else if (user && length > 0) {
                canvas_stranger(c, y, x, USER_WIDTH, STYLE_PLAIN, user, length);
        } else if (state_now(row, PROCESS_UID, &uid)) {
                canvas_format(c, y, x, USER_WIDTH, STYLE_PLAIN, "%llu", (unsigned long long)uid);
        } else {
                canvas_put(c, y, x, USER_WIDTH, STYLE_DIM, "-");
        }
}

/* The unit's column, with its blank: only on wide screens, and only while some process has one. */
static int unit_room(const struct panel *p, const struct look *look, int cols)
{
        size_t length = 0;
        for (size_t i = 0; cols >= WIDE && i < p->count; i++)
                if (p->lines[i].row->scope == SCOPE_PROCESS && state_text(look->state, p->lines[i].row, PROCESS_UNIT, &length) &&
                        length > 0)
                        return 1 + UNIT_WIDTH;
        return 0;
}

/* Columns kept for the command: more of them while command lines are shown. */
static int command_room(const struct look *look, int cols)
{
        if (look->command && cols >= MEDIUM)
                return cols / 2;
        return cols >= WIDE ? 24 + (cols - WIDE) / 8 : cols >= MEDIUM ? 16 : 10;
}

static void draw_key(struct panel *p, const struct look *look, const struct panel_line *line, struct canvas *c, int row, int pid,
        bool units)
{
        char number[24];
        int cols = c->clip.cols;
        snprintf(number, sizeof number, "%llu", (unsigned long long)line->id);
        canvas_right(c, row, 0, pid, line->depth ? STYLE_DIM : STYLE_PLAIN, number);
        if ((int)strlen(number) > pid) {
                p->key_width = (unsigned char)strlen(number);
                p->grew = true;
        }
        if (line->depth > 0 || cols < MEDIUM)
                return;
        draw_user(look, line->row, c, row, pid + 1);
        if (units) {
                size_t length = 0;
                const char *unit = state_text(look->state, line->row, PROCESS_UNIT, &length);
                canvas_stranger(c, row, pid + 2 + USER_WIDTH, UNIT_WIDTH, STYLE_PLAIN, unit ? unit : "", unit ? length : 0);
        }
}

static void draw_command(const struct look *look, const struct panel_line *line, struct canvas *c, int row, int col)
{
        size_t length = 0;
        bool thread = line->row->scope == SCOPE_THREAD;
        int room = c->clip.cols - col;
        const char *text = NULL;
        if (look->command && !thread)
                text = state_text(look->state, line->row, PROCESS_CMDLINE, &length);
        if (!text || length == 0)
                text = state_text(look->state, line->row, thread ? THREAD_COMM : PROCESS_COMM, &length);
        int used = line->depth + canvas_stranger(c, row, col + line->depth, room - line->depth, line->depth ? STYLE_PLAIN : STYLE_STRONG,
                text ? text : "-", text ? length : 1);
        const struct wait *pin = line->pinned && !thread ? wait_of(line->id) : NULL;
        if (!is_pin(pin) || used + 2 >= room)
                return;
        char wait[64], name[32];
        state_text_copy(look->state, pin->row, pin->wchan, wait, sizeof wait);
        state_text_copy(look->state, pin->row, pin->name, name, sizeof name);
        char words[160];
        snprintf(words, sizeof words, "D %.0f s%s%s%s%s", pin->seconds, wait[0] ? " in " : "", wait,
                pin->tid != line->id ? ", thread " : "", pin->tid != line->id ? name : "");
        canvas_stranger(c, row, col + used + 2, room - used - 2, STYLE_BAD, words, strlen(words));
}

static void draw_lines(struct panel *p, const struct look *look, struct canvas *c, int key, bool units)
{
        int rows = c->clip.rows, cols = c->clip.cols, row = 1, pid = p->key_width;
        bool selected = look->selected == PANEL_TASK;
        canvas_right(c, 0, 0, pid, p->sort < 0 ? selected ? STYLE_SORT : STYLE_SORT_OTHER : STYLE_HEAD, look->threads ? "PID/TID" : "PID");
        if (cols >= MEDIUM)
                canvas_put(c, 0, pid + 1, USER_WIDTH, STYLE_HEAD, "USER");
        if (units)
                canvas_put(c, 0, pid + 2 + USER_WIDTH, UNIT_WIDTH, STYLE_HEAD, "UNIT");
        int end = panel_heads(p, look, c, key);
        canvas_put(c, 0, end + 1, cols, STYLE_HEAD, look->command ? "Command line" : "Command");
        for (size_t i = p->top; i < p->count && row < rows; i++, row++) {
                draw_key(p, look, &p->lines[i], c, row, pid, units);
                end = panel_cells(p, look, &p->lines[i], c, row, key, cell);
                draw_command(look, &p->lines[i], c, row, end + 1);
                if (p->cursor_on && selected && i == p->cursor)
                        canvas_restyle(c, row, 0, cols, STYLE_SELECTED);
        }
        if (p->hidden > 0 && row < rows)
                canvas_format(c, row, 0, cols, STYLE_DIM, "%*s more, idle [z]: %zu", pid, "...", p->hidden);
        else if (p->count == 0 && row < rows)
                canvas_put(c, row, 0, cols, STYLE_DIM, p->filter[0] ? "  none with this text [f]" : "  - none read yet");
}

static void draw(struct panel *p, const struct look *look, struct canvas *c)
{
        int rows = c->clip.rows, cols = c->clip.cols;
        if (rows <= 0)
                return;
        panel_settle(p, rows - 1);
        if (cols != p->cols || p->key_width < PID_LEAST)
                p->key_width = PID_LEAST;
        int units = unit_room(p, look, cols), tail = command_room(look, cols);
        for (int pass = 0; pass < 3; pass++) {
                int key = p->key_width + (cols >= MEDIUM ? 1 + USER_WIDTH : 0) + units;
                p->grew = false;
                panel_fit(p, cols, key, cols < NARROW ? cols : tail);
                for (int row = 0; row < rows; row++)
                        canvas_fill(c, row, 0, cols, ' ', STYLE_PLAIN);
                draw_lines(p, look, c, key, units > 0);
                if (!p->grew)
                        break;
        }
}

const struct view view_task = {
        .name = "processes", .columns = VIEW_TASK, .gather = gather, .wanted = wanted, .draw = draw, .head = head,
};

/*
 * What the keys of the live screen do. Nothing here samples: a key changes what is asked, and the caller draws the same state again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tui/live.h"
#include "tui/options.h"
#include "tui/replay.h"

static struct panel *selected(struct live *l)
{
        return &l->panels[l->look.selected];
}

static int column_count(const struct panel *p)
{
        size_t count = metric_view(p->view->columns)->count;
        return (int)(count < PANEL_COLUMNS ? count : PANEL_COLUMNS);
}

static void say(struct live *l, const char *text)
{
        snprintf(l->note, sizeof l->note, "%s", text);
}

static void sort_by(struct live *l, struct panel *p, int column)
{
        p->sort = column;
        p->top = 0;
        p->cols = 0; /* the column sorted by must be seen: fit anew */
        (void)l;
}

/* The next shown column to the left or right; the key stands before the first. */
static void move_sort(struct live *l, int by)
{
        struct panel *p = selected(l);
        int at = -1;
        for (size_t i = 0; i < p->shown_count; i++)
                if (p->shown[i] == p->sort)
                        at = (int)i;
        at += by;
        if (at >= (int)p->shown_count || at < -1)
                return;
        p->sort = at < 0 ? -1 : p->shown[at];
        p->top = 0;
}

static void sort_named(struct live *l, const char *head)
{
        struct panel *p = &l->panels[PANEL_TASK];
        for (int i = 0; i < column_count(p); i++)
                if (strcmp(panel_column(p, i)->head, head) == 0)
                        sort_by(l, p, i);
        p->reverse = false;
        l->look.selected = PANEL_TASK;
}

static void change_source(struct live *l, uint64_t interval_ns, uint32_t wanted)
{
        if (l->replay) {
                l->scopes = wanted;
                replay_interval(l, interval_ns);
                return;
        }
        past_leave(l);
        int r = attach_change(l->attach, interval_ns, wanted, l->leases);
        attach_get_info(l->attach, &l->source);
        if (r < 0) {
                snprintf(l->note, sizeof l->note, "that could not be had: %.100s", strerror(-r));
                return;
        }
        l->look.interval_ns = interval_ns;
        l->scopes = wanted;
        l->due_ns = 0;
}

static void step_interval(struct live *l, int by)
{
        static const uint64_t steps[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 3600000};
        enum { STEPS = sizeof steps / sizeof steps[0] };
        int at = 0;
        while (at < STEPS - 1 && steps[at] * 1000000 < l->look.interval_ns)
                at++;
        if (by > 0 && steps[at] * 1000000 > l->look.interval_ns)
                by = 0;
        at += by;
        if (at >= 0 && at < STEPS)
                change_source(l, steps[at] * 1000000, l->scopes);
}

static void threads(struct live *l)
{
        bool on = !l->look.threads;
        change_source(l, l->look.interval_ns, on ? l->scopes | SCOPE_BIT(SCOPE_THREAD) : l->scopes & ~SCOPE_BIT(SCOPE_THREAD));
        if (l->note[0])
                return;
        l->look.threads = on;
        l->look.selected = PANEL_TASK;
        if (l->replay)
                say(l, !on ? "threads: off" : state_count(l->look.state ? l->look.state : l->shown, SCOPE_THREAD) ? "threads: on" :
                        "threads: none were recorded here (watop record -t)");
        else if (on && (l->source.missing_scopes & SCOPE_BIT(SCOPE_THREAD)))
                say(l, "threads are not to be had from this watopd");
        else
                say(l, on ? "threads: on (from the next report)" : "threads: off");
}

/* The next line below the cursor with the wanted text, round the end. */
static void find_next(struct live *l)
{
        struct panel *p = selected(l);
        if (!l->search[0])
                return;
        live_gather(l);
        panel_order(p, p->count);
        size_t from = p->cursor_on ? p->cursor + 1 : 0;
        for (size_t i = 0; i < p->count; i++) {
                size_t at = (from + i) % p->count;
                if (!p->lines[at].row || !panel_matches(&l->look, p->lines[at].row, l->search))
                        continue;
                p->cursor_on = true;
                p->cursor = at;
                panel_move(p, 0);
                snprintf(l->note, sizeof l->note, "found %.60s; n: next", l->search);
                return;
        }
        snprintf(l->note, sizeof l->note, "nothing with %.60s here%s", l->search, p->hidden ? " (idle rows are left out: z)" : "");
}

static void prompt_done(struct live *l)
{
        uint64_t interval;
        struct panel *p = selected(l);
        switch (l->prompt.purpose) {
        case ACTION_SEARCH:
                snprintf(l->search, sizeof l->search, "%s", l->prompt.text);
                find_next(l);
                break;
        case ACTION_FILTER:
                snprintf(p->filter, sizeof p->filter, "%s", l->prompt.text);
                p->top = 0;
                break;
        case ACTION_INTERVAL: {
                int r = option_interval(l->prompt.text, &interval);
                if (r == 0)
                        change_source(l, interval, l->scopes);
                else
                        say(l, r == -ERANGE ? "an interval is 10ms to 1h" : "not an interval: 0.5, 200ms, 5s, 2m");
                break;
        }
        case ACTION_GO_TO:
                replay_go_to(l, l->prompt.text);
                break;
        default:
                break;
        }
}

static void open_prompt(struct live *l, enum action action)
{
        enum panel_id id = l->look.selected;
        if (action == ACTION_FILTER && id == PANEL_CPU) /* cores have no names */
                l->look.selected = id = PANEL_TASK;
        prompt_open(&l->prompt, action, action == ACTION_FILTER ? l->panels[id].filter : "");
}

/* While `s` is open: left and right walk over all columns. True when the key was used. */
static bool choose_key(struct live *l, int code, enum action action)
{
        struct panel *p = selected(l);
        int *choose = &l->look.choose;
        if (action == ACTION_LEFT || action == ACTION_UP) {
                *choose = *choose > -1 ? *choose - 1 : column_count(p) - 1;
        } else if (action == ACTION_RIGHT || action == ACTION_DOWN) {
                *choose = *choose < column_count(p) - 1 ? *choose + 1 : -1;
        } else {
                if (code == KEYCODE_ENTER || action == ACTION_SORT)
                        sort_by(l, p, *choose);
                *choose = -2;
                return code == KEYCODE_ENTER || action == ACTION_SORT || action == ACTION_ESCAPE;
        }
        return true;
}

static void overlay_key(struct live *l, enum action action)
{
        size_t lines = help_lines();
        if (l->mode == LIVE_HELP && (action == ACTION_DOWN || action == ACTION_PAGE_DOWN)) {
                l->help_top += action == ACTION_DOWN ? 1 : 10;
                l->help_top = l->help_top < lines ? l->help_top : lines - 1;
        } else if (l->mode == LIVE_HELP && (action == ACTION_UP || action == ACTION_PAGE_UP)) {
                size_t by = action == ACTION_UP ? 1 : 10;
                l->help_top = l->help_top > by ? l->help_top - by : 0;
        } else if (l->mode == LIVE_WHY && action == ACTION_PAUSE) {
                l->look.paused = !l->look.paused;
        } else {
                l->mode = LIVE_NORMAL;
        }
}

/* The process of the line under the cursor, or of the first one. */
static void open_detail(struct live *l)
{
        struct panel *p = selected(l);
        if (l->look.selected != PANEL_TASK) {
                say(l, "details are of processes: 3 selects them, Up and Down move the cursor");
                return;
        }
        live_gather(l);
        panel_settle(p, p->page);
        size_t at = p->cursor_on ? p->cursor : p->top;
        if (at >= p->count)
                return;
        panel_order(p, at + 1);
        const struct panel_line *line = &p->lines[at];
        for (size_t i = 0; i < p->count; i++)
                if (p->lines[i].row->scope == SCOPE_PROCESS && p->lines[i].id == line->group)
                        l->detail = p->lines[i].row->key;
        l->detail_top = 0;
        l->mode = LIVE_DETAIL;
}

static void detail_key(struct live *l, enum action action)
{
        size_t page = 10, last = l->detail_lines > 0 ? l->detail_lines - 1 : 0;
        switch (action) {
        case ACTION_ESCAPE: case ACTION_QUIT: case ACTION_DETAIL: case ACTION_IOWAIT: l->mode = LIVE_NORMAL; break;
        case ACTION_WHY: l->mode = LIVE_WHY; break;
        case ACTION_LATENCY: live_latency_enter(l); break;
        case ACTION_UP: l->detail_top -= l->detail_top > 0; break;
        case ACTION_DOWN: l->detail_top += l->detail_top < last; break;
        case ACTION_PAGE_UP: l->detail_top = l->detail_top > page ? l->detail_top - page : 0; break;
        case ACTION_PAGE_DOWN: l->detail_top = last - l->detail_top > page ? l->detail_top + page : last; break;
        case ACTION_HOME: l->detail_top = 0; break;
        case ACTION_END: l->detail_top = last; break;
        case ACTION_PAUSE: l->look.paused = !l->look.paused; l->due_ns = 0; break;
        case ACTION_SLOWER: step_interval(l, 1); break;
        case ACTION_FASTER: step_interval(l, -1); break;
        case ACTION_REDRAW: l->redraw = true; break;
        default: break;
        }
        if (l->detail_top > last)
                l->detail_top = last;
}

static void move(struct live *l, enum action action)
{
        struct panel *p = selected(l);
        long page = p->page > 1 ? p->page - 1 : 1;
        switch (action) {
        case ACTION_UP: panel_move(p, -1); break;
        case ACTION_DOWN: panel_move(p, 1); break;
        case ACTION_PAGE_UP: panel_move(p, -page); break;
        case ACTION_PAGE_DOWN: panel_move(p, page); break;
        case ACTION_HOME: panel_move(p, -(long)p->count); panel_move(p, -(long)p->count); break;
        case ACTION_END: panel_move(p, (long)p->count); panel_move(p, (long)p->count); break;
        default: p->cursor_on = false; p->top = 0; break;
        }
}

/* The chosen panel gets more room; chosen once more it gives it back. */
static void select_panel(struct live *l, enum panel_id id)
{
        l->look.zoom = !(l->look.zoom && l->look.selected == id);
        l->look.selected = id;
}

static void act(struct live *l, enum action action)
{
        struct look *look = &l->look;
        switch (action) {
        case ACTION_QUIT: l->quit = true; break;
        case ACTION_HELP: l->mode = LIVE_HELP; l->help_top = 0; break;
        case ACTION_WHY: l->mode = LIVE_WHY; break;
        case ACTION_NEXT_PANEL: select_panel(l, (enum panel_id)((look->selected + 1) % PANEL_COUNT)); break;
        case ACTION_PREVIOUS_PANEL: select_panel(l, (enum panel_id)((look->selected + PANEL_COUNT - 1) % PANEL_COUNT)); break;
        case ACTION_PANEL_CPU: select_panel(l, PANEL_CPU); break;
        case ACTION_PANEL_DISK: select_panel(l, PANEL_DISK); break;
        case ACTION_PANEL_TASK: select_panel(l, PANEL_TASK); break;
        case ACTION_UP: case ACTION_DOWN: case ACTION_PAGE_UP: case ACTION_PAGE_DOWN: case ACTION_HOME: case ACTION_END: case ACTION_ESCAPE:
                move(l, action);
                break;
        case ACTION_LEFT: move_sort(l, -1); break;
        case ACTION_RIGHT: move_sort(l, 1); break;
        case ACTION_SORT: look->choose = selected(l)->sort; break;
        case ACTION_REVERSE: selected(l)->reverse = !selected(l)->reverse; break;
        case ACTION_SORT_CPU: sort_named(l, "%CPU"); break;
        case ACTION_SORT_MEMORY: sort_named(l, "RSS"); break;
        case ACTION_SEARCH: case ACTION_FILTER: case ACTION_INTERVAL: open_prompt(l, action); break;
        case ACTION_SEARCH_NEXT: find_next(l); break;
        case ACTION_THREADS: threads(l); break;
        case ACTION_IDLE: look->idle = !look->idle; say(l, look->idle ? "idle rows: shown" : "idle rows: left out"); break;
        case ACTION_COMMAND: look->command = !look->command; break;
        case ACTION_PAUSE: look->paused = !look->paused; l->due_ns = 0; break;
        case ACTION_SLOWER: step_interval(l, 1); break;
        case ACTION_FASTER: step_interval(l, -1); break;
        case ACTION_REDRAW: l->redraw = true; break;
        case ACTION_DETAIL: open_detail(l); break;
        case ACTION_IOWAIT: l->mode = LIVE_IOWAIT; l->detail_top = 0; break;
        case ACTION_LATENCY: live_latency_enter(l); break;
        default: break;
        }
}

void live_key(struct live *l, int code)
{
        l->note[0] = '\0';
        l->note_reports = 0;
        if (l->prompt.open) {
                if (prompt_key(&l->prompt, code) == PROMPT_DONE)
                        prompt_done(l);
                return;
        }
        enum action action = key_action(code);
        if (l->mode != LIVE_HELP && l->look.choose == -2 && (l->replay ? replay_key(l, action) : past_key(l, action)))
                return;
        if (l->mode == LIVE_LATENCY && live_latency_key(l, action))
                return;
        if (l->mode == LIVE_DETAIL || l->mode == LIVE_IOWAIT || l->mode == LIVE_LATENCY) {
                detail_key(l, action);
                return;
        }
        if (l->mode != LIVE_NORMAL) {
                overlay_key(l, action);
                return;
        }
        if (l->look.choose > -2 && choose_key(l, code, action))
                return;
        act(l, action);
}

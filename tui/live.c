/*
 * The live screen: one loop that waits for keys, signals and reports, and draws.
 *
 * Keys redraw, they never resample. The loop sleeps until the next report is due and wakes for keys at once; an idle screen costs
 * two wake-ups an interval. The first picture comes before the first sample, with "-" for what is not known yet.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/control.h"
#include "tui/live.h"
#include "tui/options.h"
#include "tui/replay.h"
#include "tui/screen.h"
#include "tui/verbs.h"

enum { MS = 1000000, SOON_MS = 20, LOOK_MS = 250 };

uint64_t live_now(void)
{
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void live_gather(struct live *l)
{
        for (int i = 0; i < PANEL_COUNT; i++)
                l->panels[i].view->gather(&l->panels[i], &l->look);
}

/* Say which source is read, for some reports. */
static void name_source(struct live *l, const char *lead)
{
        attach_get_info(l->attach, &l->source);
        snprintf(l->note, sizeof l->note, "%s%.140s", lead, l->source.line);
        l->note_reports = 4;
}

static void live_fini(struct live *l)
{
        for (int i = 0; i < PANEL_COUNT; i++)
                panel_fini(&l->panels[i]);
        past_leave(l);
        device_seen_fini(&l->devices);
        live_latency_fini(l);
        state_free(l->shown);
        state_free(l->next);
        attach_close(l->attach);
}

int live_init(struct live *l, const struct options *options)
{
        memset(l, 0, sizeof *l);
        memset(l->history, 255, sizeof l->history);
        panel_init(&l->panels[PANEL_CPU], &view_cpu, NULL);
        panel_init(&l->panels[PANEL_DISK], &view_disk, NULL);
        panel_init(&l->panels[PANEL_TASK], &view_task, "%CPU");
        l->scopes = options->attach.scopes;
        l->leases = options->attach.leases;
        l->captured = options->attach.root != NULL;
        l->least_lag_ns = INT64_MAX;
        l->look = (struct look){.gone_seconds = -1, .interval_ns = options->attach.interval_ns, .selected = PANEL_TASK, .choose = -2,
                .tally = &l->tally, .verdict = &l->verdict, .source = &l->source, .history = l->history, .parts = l->parts,
                .devices = &l->devices, .latency = &l->latency, .heat = &l->heat};
        l->pick.stage = STAGE_Q2C;
        l->tally.load1 = l->tally.running = l->tally.dstate = l->tally.busiest = -1;
        int r = state_new(&l->shown);
        return r < 0 ? r : state_new(&l->next);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

void live_show(struct live *l, const struct state *state)
{
        l->look.state = state;
        tally_make(state, &l->tally);
        verdict_make(state, &l->tally, &l->verdict);
}

/* What is known is shown, whether it is a whole interval or only the first frame. */
static void take_state(struct live *l)
{
        live_show(l, l->shown);
        attach_get_info(l->attach, &l->source);
}

static void take_report(struct live *l)
{
        struct state *newer = l->next;
        state_base(l->shown); /* the older interval ends here and becomes the one to fill */
        l->next = l->shown;
        l->shown = newer;
        l->reported = true;
        if (l->note_reports > 0 && --l->note_reports == 0)
                l->note[0] = '\0';
        take_state(l);
        live_remember(l, l->shown);
}

/* True when the report is of another time than now: we were paused or stopped, or the terminal is slower than the interval. What waits in
 * the ring is then left out, for a person who looks at a live screen takes it for the present. */
static bool is_old(struct live *l)
{
        if (l->captured)
                return false;
        int64_t lag = (int64_t)(live_now() - state_info(l->next).mono_ns);
        if (lag < l->least_lag_ns)
                l->least_lag_ns = lag;
        return lag - l->least_lag_ns > (int64_t)(2 * l->look.interval_ns) + 500 * (int64_t)MS;
}

/* Ask for a report. True when there is something new to draw; negative errno in *error ends the program. */
static bool take_samples(struct live *l, int *error)
{
        if (l->replay)
                return replay_take(l, error);
        uint64_t before = state_info(l->shown).to_sequence;
        int r = attach_next(l->attach, l->next, l->shown, SOON_MS * (uint64_t)MS);
        uint64_t now = live_now();

        l->due_ns = now;
        switch (r) {
        case ATTACH_REPORT:
                l->gone_ns = 0;
                if (is_old(l)) {
                        attach_skip(l->attach);
                        return false;
                }
                take_report(l);
                l->due_ns = now + l->look.interval_ns - (l->look.interval_ns > 40 * (uint64_t)MS ? 4 * (uint64_t)MS : 0);
                return true;
        case ATTACH_GONE:
                l->gone_ns = now;
                l->due_ns = now + LOOK_MS * (uint64_t)MS;
                attach_get_info(l->attach, &l->source);
                return true;
        case ATTACH_BACK: /* the last picture stays until the new source has an interval; attach.c dealt with both states */
                name_source(l, l->gone_ns ? "again: " : "");
                l->gone_ns = 0;
                return true;
        case ATTACH_END:
                l->ended = true;
                snprintf(l->note, sizeof l->note, "end of the captured machine");
                return true;
        default:
                break;
        }
        if (r < 0) {
                *error = r;
                return false;
        }
        if (l->gone_ns) {
                l->due_ns = now + LOOK_MS * (uint64_t)MS;
                return true; /* the seconds count on */
        }
        if (!l->reported && before == 0 && state_info(l->shown).to_sequence > 0) {
                take_state(l); /* the first frame: names and levels, no rates yet */
                return true;
        }
        return false;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static const char *prompt_lead(enum action purpose)
{
        return purpose == ACTION_SEARCH ? "find: " : purpose == ACTION_FILTER ? "only rows with: " :
                purpose == ACTION_GO_TO ? "go to (21:14:07, +90s, #123, phase): " : "interval: ";
}

static void draw(struct live *l, struct screen *screen, struct canvas *canvas)
{
        char note[192];
        int cursor_row = -1, cursor_col = 0;

        l->look.gone_seconds = l->gone_ns ? (double)(live_now() - l->gone_ns) * 1e-9 : -1;
        l->look.note = l->note[0] ? l->note : NULL;
        if (l->replay)
                replay_mark(l);
        past_mark(l);
        if (l->prompt.open) {
                snprintf(note, sizeof note, "%s%s", prompt_lead(l->prompt.purpose), l->prompt.text);
                l->look.note = note;
        }
        if (l->mode == LIVE_HELP) {
                help_draw(&l->look, canvas, l->help_top);
        } else if (l->mode == LIVE_WHY) {
                live_why(l);
                why_draw(&l->look, canvas);
        } else if (l->mode == LIVE_DETAIL) {
                l->detail_lines = detail_draw(&l->look, l->detail, l->detail_top, canvas);
        } else if (l->mode == LIVE_IOWAIT) {
                l->detail_lines = iowait_draw(&l->look, l->detail_top, canvas);
        } else if (l->mode == LIVE_LATENCY) {
                live_latency_draw(l, canvas);
        } else {
                live_gather(l);
                look_draw(&l->look, l->panels, canvas);
                if (l->prompt.open && foot_rows(canvas->rows) > 0) {
                        cursor_row = canvas->rows - 1;
                        cursor_col = canvas_put(canvas, cursor_row, 0, canvas->cols, STYLE_STRONG, note);
                        cursor_col = cursor_col < canvas->cols ? cursor_col : canvas->cols - 1;
                }
        }
        if (l->redraw)
                screen_redraw(screen);
        l->redraw = false;
        screen_draw(screen, canvas, cursor_row, cursor_col);
        l->look.note = NULL;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static uint64_t patience(struct live *l)
{
        const uint64_t most = 500 * (uint64_t)MS;
        uint64_t now = live_now(), leased = live_latency_lease(l);
        if (l->replay && replay_wants(l))
                return 0;
        if (l->past)
                return 1000 * (uint64_t)MS;
        if (l->look.paused || l->ended)
                return leased < 3600 * (uint64_t)1000 * MS ? leased : 3600 * (uint64_t)1000 * MS;
        if (l->due_ns <= now)
                return 0;
        return l->due_ns - now < most ? l->due_ns - now : most;
}

/* Returns 0, or a negative errno of the source. *signal is the one that ended it. */
static int run(struct live *l, struct screen *screen, struct canvas *canvas, int *ended_by)
{
        int rows, cols, key, error = 0;
        bool changed = true;

        while (!l->quit) {
                if (changed && (!screen_is_plain(screen) || l->reported))
                        draw(l, screen, canvas);
                changed = false;
                enum screen_event event = screen_wait(screen, patience(l), &key);
                while (event == SCREEN_KEY && !l->quit) { /* all keys that are there, then one picture */
                        live_key(l, key);
                        changed = !screen_is_plain(screen);
                        event = screen_wait(screen, 0, &key);
                }
                if (event == SCREEN_ENDED) {
                        *ended_by = screen_signal(screen);
                        return 0;
                }
                if (event == SCREEN_RESIZED) {
                        screen_size(screen, &rows, &cols);
                        canvas_resize(canvas, rows, cols);
                        changed = !screen_is_plain(screen);
                }
                if (l->past && event == SCREEN_NOTHING)
                        changed = !screen_is_plain(screen); /* how long ago it was */
                bool wanted = !l->quit && l->replay && replay_wants(l); /* a key's report comes before its picture */
                if (!wanted && (changed || l->look.paused || l->ended || l->quit || l->past || l->due_ns > live_now()))
                        continue;
                changed = take_samples(l, &error);
                if (error < 0)
                        return error;
        }
        return 0;
}

int live_screen(struct live *l, char *why, size_t size, int *ended_by)
{
        struct screen *screen = NULL;
        struct canvas canvas;
        int rows, cols, r = screen_start(&screen, why, size);

        canvas_init(&canvas, option_utf8());
        if (r < 0)
                return r;
        if (screen_is_plain(screen))
                options_say(NULL, "this terminal cannot move its cursor: one picture below the other; q and Enter, or Ctrl-C, ends");
        screen_size(screen, &rows, &cols);
        r = canvas_resize(&canvas, rows, cols);
        if (r == 0)
                r = run(l, screen, &canvas, ended_by);
        screen_end(screen);
        canvas_fini(&canvas);
        return r;
}

int live_end(struct live *l, int r, const char *why, int ended_by)
{
        if (r < 0) {
                if (l->attach && !why[0])
                        attach_get_info(l->attach, &l->source);
                options_say(NULL, "%s", why[0] ? why : l->attach ? l->source.line : strerror(-r));
        }
        live_fini(l);
        if (ended_by && ended_by != SIGINT) { /* whoever sent it sees that it was obeyed */
                signal(ended_by, SIG_DFL);
                raise(ended_by);
        }
        return r < 0 ? 1 : 0;
}

int live_main(int argc, char **argv)
{
        static struct live live; /* large: the history of all cores */
        struct options options = {0};
        char why[512] = "";
        int ended_by = 0;
        const struct option_set set = {
                .synopsis = "[OPTION...] [INTERVAL]", .groups = OPTIONS_SOURCE | OPTIONS_TIMES,
                .text = "The live screen: cores with the split of wa, devices, processes. ? shows the keys.",
        };
        int r = options_parse(&set, argc, argv, &options);
        if (r != 0)
                return r == OPTIONS_DONE ? 0 : 2;
        if (options.count_given)
                return options_error(NULL, "the live screen takes an interval, no count; watop cpu 1 5 prints five reports"), 2;
        options.attach.scopes = LIVE_SCOPES;
        options.attach.leases = LEASE_RINGS;
        screen_guard();
        r = live_init(&live, &options);
        if (r == 0)
                r = attach_open(&options.attach, &live.attach, why, sizeof why);
        if (r == 0) {
                name_source(&live, "");
                live_recall(&live);
                r = live_screen(&live, why, sizeof why, &ended_by);
        }
        return live_end(&live, r, why, ended_by);
}

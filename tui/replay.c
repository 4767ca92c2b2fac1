/*
 * `watop replay FILE`: the live screen over a log. Contract: replay.h.
 *
 * Played at its true speed, a report is shown as long after the one before as it was recorded after it, by the recorder's monotonic clock;
 * errors do not add up. Where nothing was recorded (suspend, a stopped recorder, damage) nobody waits for it: the gap is said, and playing
 * goes on behind it. When pictures cannot be drawn as fast as asked, reports are passed over, never slowed down. At the end of a log that
 * grows it waits for the next frame, so it is then a live screen, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/clean.h"
#include "tui/log_files.h"
#include "tui/options.h"
#include "tui/replay_own.h"
#include "tui/screen.h"
#include "tui/span.h"
#include "tui/verbs.h"

static const uint64_t MS = 1000000;
/* Longest time without a look at the keys; after so long a picture says that a report is being looked for. */
enum { SLICE_MS = 60, SLOW_MS = 200, PLAIN_LAG_MS = 1000 };
/* Marks are looked up before the first picture when that is sure to be quick, else after it. */
enum { SMALL_LOG = 4 << 20 };

const double replay_speeds[REPLAY_FASTEST] = {0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64};

void replay_say(struct live *l, const char *format, ...)
{
        va_list arguments;
        char raw[sizeof l->note];

        va_start(arguments, format);
        int length = vsnprintf(raw, sizeof raw, format, arguments);
        va_end(arguments);
        if (length > 0)
                clean_screen(l->note, sizeof l->note, raw, strlen(raw), option_utf8(), sizeof l->note, NULL);
        l->note_reports = 0;
}

void replay_moved(struct live *l)
{
        struct replay *r = l->replay;

        r->steps = 0;
        r->fresh = true;
        r->tail = r->waiting = r->follows = false;
        r->anchor_ns = 0;
        r->sought_ns = live_now();
        l->due_ns = 0;
}

void replay_mark(struct live *l)
{
        struct replay *r = l->replay;

        if (l->ended)
                snprintf(r->place.speed, sizeof r->place.speed, "END");
        else if ((r->tail || r->follows) && !l->look.paused)
                snprintf(r->place.speed, sizeof r->place.speed, "follows");
        else
                replay_speed_text(r, r->place.speed, sizeof r->place.speed);
}

bool replay_wants(const struct live *l)
{
        const struct replay *r = l->replay;

        return r && !l->ended && !r->waiting && (r->steps != 0 || reel_seeking(r->reel) || (!r->phases_known && l->reported));
}

/* ---- a report ---------------------------------------------------------------------------------------------------------------------- */

static void forget_strips(struct live *l)
{
        if (!l->replay->fresh)
                return;
        memset(l->history, 255, sizeof l->history);
        memset(l->parts, 0, sizeof l->parts);
        heat_clear(&l->heat);
        l->replay->fresh = false;
}

static void passed(void *arg, const struct state *state)
{
        forget_strips(arg);
        live_remember(arg, state);
}

static void say_source(struct live *l)
{
        struct replay *r = l->replay;
        const struct state *state = reel_shown(r->reel);
        const struct schema *schema = log_schema(r->log);
        uint32_t theirs = state_info(state).scopes_on, on = 0;

        for (unsigned i = 0; i < 32; i++)
                if (theirs >> i & 1 && schema->scope[i] >= 0)
                        on |= SCOPE_BIT(schema->scope[i]);
        l->source = (struct attach_info){.from_log = true, .same_pid_ns = true, .tick_ns = state_info(state).tick_ns,
                .interval_ns = l->look.interval_ns, .missing_scopes = l->scopes & ~on, .position_real_ns = state_info(state).real_ns};
}

/* Marks that were set since; the log is moved by that, so the report is sought again. */
static int look_for_marks(struct live *l)
{
        struct replay *r = l->replay;

        phases_free(&r->phases);
        int e = phases_build(r->log, &r->phases);
        r->phases_known = true;
        r->marks_known = r->reel ? reel_newest_mark(r->reel) : 0;
        if (r->phases.mark_count > 0 && r->phases.marks[r->phases.mark_count - 1].sequence > r->marks_known)
                r->marks_known = r->phases.marks[r->phases.mark_count - 1].sequence;
        return e == -ENOMEM ? e : 0;
}

static void show(struct live *l)
{
        struct replay *r = l->replay;
        const struct state *state = reel_shown(r->reel);

        if (!r->info.finished)
                log_get_info(r->log, &r->info);
        l->look.interval_ns = reel_interval_ns(r->reel);
        live_show(l, state);
        say_source(l);
        replay_describe(l, state);
}

static void arrived(struct live *l)
{
        struct replay *r = l->replay;

        forget_strips(l);
        live_remember(l, reel_shown(r->reel));
        l->reported = true;
        if (l->note_reports > 0 && --l->note_reports == 0)
                l->note[0] = '\0';
        show(l);
}

/* ---- when ------------------------------------------------------------------------------------------------------------------------- */

static void duration(char *text, size_t size, uint64_t ns)
{
        double s = (double)ns * 1e-9;

        if (s < 120)
                snprintf(text, size, "%.1f s", s);
        else if (s < 7200)
                snprintf(text, size, "%.0f min", s / 60);
        else
                snprintf(text, size, "%.1f h", s / 3600);
}

/* When the report after the shown one is due. */
static void schedule(struct live *l, uint64_t now)
{
        struct replay *r = l->replay;
        uint64_t mono = state_info(reel_shown(r->reel)).mono_ns, interval = l->look.interval_ns;
        double speed = r->speed < REPLAY_FASTEST ? replay_speeds[r->speed] : 0;
        bool known = r->anchor_ns != 0 && mono >= r->last_mono_ns && r->last_mono_ns >= r->anchor_mono_ns;
        bool gap = known && mono - r->last_mono_ns > 2 * interval + 500 * MS;

        if (gap && !r->tail) {
                char text[32];
                duration(text, sizeof text, mono - r->last_mono_ns);
                replay_say(l, "gap: nothing was recorded for %s; not waited for", text);
                l->note_reports = 3;
        }
        r->last_mono_ns = mono;
        if (speed <= 0) {
                r->anchor_ns = now;
                r->anchor_mono_ns = mono;
                l->due_ns = now;
                return;
        }
        uint64_t shown = known ? r->anchor_ns + (uint64_t)((double)(mono - r->anchor_mono_ns) / speed) : now;
        if (!known || gap || r->tail || now > shown + PLAIN_LAG_MS * MS) {
                r->anchor_ns = shown = now;
                r->anchor_mono_ns = mono;
        }
        l->due_ns = shown + (uint64_t)((double)interval / speed);
        if (r->follows && speed >= 1) /* looked for a little early: else what came late once would be late for ever */
                l->due_ns = r->tail ? shown + interval - interval / 16 : now;
}

/* At the end of a log that grows: often around the time when a frame should come, seldom when none does. */
static void wait_for_more(struct live *l, uint64_t now)
{
        struct replay *r = l->replay;

        if (!r->tail)
                r->tail_ns = now;
        uint64_t pause = (now - r->tail_ns) / 4;
        r->tail = true;
        r->waiting = reel_seeking(r->reel);
        l->due_ns = now + (pause < 20 * MS ? 20 * MS : pause > 250 * MS ? 250 * MS : pause);
}

/* ---- going on ---------------------------------------------------------------------------------------------------------------------- */

static void step_back(struct live *l)
{
        struct replay *r = l->replay;
        uint64_t from = state_info(reel_shown(r->reel)).from_sequence;

        r->steps++;
        if (from <= r->info.first_sequence) {
                r->steps = 0;
                replay_say(l, "begin of the recording");
                return;
        }
        reel_until(r->reel, from);
        r->fresh = true;
        r->tail = r->follows = false;
}

static bool at_end(struct live *l)
{
        struct replay *r = l->replay;
        bool none = reel_seeking(r->reel);

        if (r->steps > 0)
                r->steps = 0;
        l->ended = true;
        if (!r->info.finished)
                log_get_info(r->log, &r->info);
        show(l); /* the moment that was left over is in it */
        replay_say(l, none ? "this recording has no interval: fewer than two frames can be read" : "end of the recording");
        return true;
}

static bool nothing_yet(struct live *l, uint64_t now)
{
        struct replay *r = l->replay;
        bool news = !r->tail || r->steps > 0;

        if (r->steps > 0)
                replay_say(l, "nothing newer yet; E follows");
        r->steps = 0;
        wait_for_more(l, now);
        return news;
}

/* True: go on at once. */
static bool next_at_once(struct live *l, uint64_t now, uint64_t until)
{
        struct replay *r = l->replay;

        if (r->steps > 0)
                r->steps--;
        if (r->marks_known < reel_newest_mark(r->reel)) {
                l->due_ns = now;
                r->phases_known = false;
                return false;
        }
        if (r->steps != 0)
                return now < until;
        if (l->look.paused)
                return false;
        r->follows = r->follows || r->tail;
        schedule(l, now);
        r->follows = r->tail;
        r->tail = false;
        return l->due_ns <= now && now < until;
}

bool replay_take(struct live *l, int *error)
{
        struct replay *r = l->replay;
        uint64_t now = live_now(), until = now + SLICE_MS * MS;
        bool changed = false;

        r->waiting = false;
        if (!r->phases_known && l->reported) {
                *error = look_for_marks(l);
                reel_until(r->reel, state_info(reel_shown(r->reel)).to_sequence);
                r->fresh = true;
                if (*error < 0)
                        return false;
        }
        for (;;) {
                if (r->steps < 0 && !reel_seeking(r->reel)) {
                        step_back(l);
                        changed = true;
                        if (!reel_seeking(r->reel))
                                return true;
                }
                bool sought = reel_seeking(r->reel);
                int result = reel_run(r->reel, until);
                now = live_now();
                if (result < 0) {
                        *error = result;
                        return false;
                }
                if (result == REEL_MORE) {
                        l->due_ns = now;
                        if (!sought || now - r->sought_ns < SLOW_MS * MS)
                                return false;
                        l->look.state = NULL; /* nothing is shown that is not so */
                        l->tally.valid = false;
                        replay_say(l, "reading the recording ...");
                        l->note_reports = 1;
                        return true;
                }
                if (result == REEL_WAIT)
                        return nothing_yet(l, now) || changed;
                if (result == REEL_END)
                        return at_end(l);
                arrived(l);
                changed = true;
                if (!next_at_once(l, now, until))
                        return true;
        }
}

void replay_interval(struct live *l, uint64_t interval_ns)
{
        struct replay *r = l->replay;

        if (interval_ns == l->look.interval_ns)
                return;
        reel_interval(r->reel, interval_ns);
        l->look.interval_ns = reel_interval_ns(r->reel);
        if (l->look.interval_ns != interval_ns)
                replay_say(l, "frames were recorded every %.3g s; reports are multiples of that",
                        (double)state_info(reel_shown(r->reel)).tick_ns * 1e-9);
        l->ended = false;
        reel_until(r->reel, state_info(reel_shown(r->reel)).to_sequence);
        replay_moved(l);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------------------------ */

struct own_options {
        const char *path, *from;
        bool follow, paused;
        int speed;
};

static const struct option_entry entries[] = {
        {OPTION_LONG + 200, "from", "WHERE", "begin there: 21:14:07, 2026-01-31T12:00:00Z, +90s, #SEQUENCE or a phase"},
        {OPTION_LONG + 201, "speed", "N", "1/8, 1/4, 1/2, 1, 2, ... 64, or max: as fast as it goes"},
        {OPTION_LONG + 202, "follow", NULL, "begin at the end, and show what is written as it comes"},
        {OPTION_LONG + 203, "paused", NULL, "do not play yet"},
        {0},
};

static int speed_of(const char *text)
{
        char known[16];
        struct replay r = {0};

        for (r.speed = 0; r.speed < REPLAY_FASTEST; r.speed++) {
                replay_speed_text(&r, known, sizeof known);
                if (strcmp(text, known) == 0 || strcmp(text, known + 1) == 0)
                        return r.speed;
        }
        return strcmp(text, "max") == 0 || strcmp(text, "fastest") == 0 ? REPLAY_FASTEST : -1;
}

static int take_option(void *arg, int code, const char *value)
{
        struct own_options *own = arg;

        switch (code) {
        case OPTION_LONG + 200: own->from = value; break;
        case OPTION_LONG + 201:
                own->speed = speed_of(value);
                if (own->speed < 0)
                        return options_error("replay", "speed '%s' is not one of 1/8, 1/4, 1/2, 1, 2, 4, 8, 16, 32, 64, max", value);
                break;
        case OPTION_LONG + 202: own->follow = true; break;
        default: own->paused = true; break;
        }
        return 0;
}

static int take_argument(void *arg, const char *value)
{
        struct own_options *own = arg;

        if (own->path)
                return 1;
        own->path = value;
        return 0;
}

static const char *open_error(int e)
{
        return e == -EPROTO ? "not a log, or one of another layout" : e == -EBADMSG ? "nothing in it can be read" : strerror(-e);
}

static void name_place(struct replay *r)
{
        const char *name = strrchr(r->path, '/');

        name = name && name[1] ? name + 1 : r->path;
        clean_screen(r->place.name, sizeof r->place.name, name, strlen(name), option_utf8(), 32, NULL);
}

static void first_note(struct live *l)
{
        const struct log_info *i = &l->replay->info;
        char span[32];

        duration(span, sizeof span, i->last_mono_ns > i->first_mono_ns ? i->last_mono_ns - i->first_mono_ns : 0);
        if (i->damaged_bytes > 0)
                replay_say(l, "damaged: %" PRIu64 " bytes of %" PRIu64 " cannot be read, and are skipped", i->damaged_bytes, i->bytes);
        else
                replay_say(l, "%" PRIu64 " frames, %s%s; Space pauses, < > step, g goes to a time or phase", i->frames, span,
                        i->growing ? ", growing: E follows" : i->finished ? "" : "; its writer did not end it");
        l->note_reports = 4;
}

static int open_reel(struct replay *r, uint64_t interval_ns)
{
        struct cursor *cursor;
        int e = cursor_new_log(r->log, &cursor);

        return e < 0 ? e : reel_new(cursor, log_schema(r->log), r->info.tick_ns, interval_ns, &r->reel);
}

/* The first report, so that its clock is known before a time is read from the command line. 0 or -errno. */
static int begin(struct live *l, const struct own_options *own)
{
        struct replay *r = l->replay;
        int e = 0;

        r->speed = own->speed;
        l->look.paused = own->paused;
        l->look.place = &r->place;
        r->fresh = true;
        reel_on_way(r->reel, passed, l);
        first_note(l);
        do {
                replay_take(l, &e);
        } while (e == 0 && replay_wants(l));
        if (e == 0 && own->from) {
                l->note[0] = '\0';
                replay_go_to(l, own->from);
                if (!reel_seeking(r->reel)) {
                        options_error("replay", "%s", l->note);
                        l->quit = true;
                }
        } else if (e == 0 && own->follow) {
                replay_key(l, ACTION_NEWEST);
        } else {
                r->anchor_ns = 0;
                double speed = r->speed < REPLAY_FASTEST ? replay_speeds[r->speed] : 1e9;
                l->due_ns = live_now() + (uint64_t)((double)l->look.interval_ns / speed);
        }
        return e;
}

static int open_log(struct live *l, const struct options *options, const struct own_options *own, char *why, size_t size)
{
        struct replay *r = l->replay;
        int e = log_files_open(r->path, &r->log);

        if (e == 0)
                e = log_get_info(r->log, &r->info);
        if (e == 0 && (r->info.bytes <= SMALL_LOG || own->from))
                e = look_for_marks(l);
        if (e == 0)
                e = open_reel(r, options->attach.interval_ns);
        if (e < 0)
                snprintf(why, size, "%.150s: %s", r->path, open_error(e));
        name_place(r);
        return e;
}

int replay_main(int argc, char **argv)
{
        static struct live live; /* large: the strips of all cores */
        static struct replay replay;
        struct own_options own = {.speed = REPLAY_TRUE_SPEED};
        struct options options = {0};
        char why[512] = "";
        int ended_by = 0;
        const struct option_set set = {
                .verb = "replay", .synopsis = "[OPTION...] FILE [INTERVAL]", .groups = OPTIONS_TIMES, .entries = entries,
                .option = take_option,
                .argument = take_argument, .own = &own,
                .text = "The live screen over a recording: play, pause, step, jump, follow. ? shows the keys.",
        };
        int r = options_parse(&set, argc, argv, &options);
        if (r != 0)
                return r == OPTIONS_DONE ? 0 : 2;
        if (!own.path || options.count_given)
                return options_error("replay", own.path ? "it takes an interval, no count" : "which file? watop replay FILE"), 2;
        if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
                return options_error("replay", "this is a screen and needs a terminal; watop cpu --log FILE prints tables, "
                        "watop export FILE everything"), 2;
        screen_guard();
        options.attach.scopes = LIVE_SCOPES;
        r = live_init(&live, &options);
        replay.path = own.path;
        live.replay = &replay;
        if (r == 0)
                r = open_log(&live, &options, &own, why, sizeof why);
        if (r == 0)
                r = begin(&live, &own);
        bool wrong = live.quit; /* --from is nowhere in it */
        if (r == 0 && !wrong)
                r = live_screen(&live, why, sizeof why, &ended_by);
        reel_free(replay.reel);
        phases_free(&replay.phases);
        log_close(replay.log);
        r = live_end(&live, r, why, ended_by);
        return wrong ? 2 : r;
}

/*
 * Keys of the player. They ask for another report and say what cannot be had; the loop reads and draws it.
 */
#include <stdio.h>
#include <string.h>

#include "tui/options.h"
#include "tui/replay_own.h"
#include "tui/span.h"

static void pause_at(struct live *l)
{
        l->look.paused = true;
        l->ended = false;
}

static void step(struct live *l, long by)
{
        struct replay *r = l->replay;

        pause_at(l);
        r->steps += by;
        r->waiting = false;
}

static void change_speed(struct live *l, int by)
{
        struct replay *r = l->replay;
        char text[16];

        if (r->speed + by < 0 || r->speed + by > REPLAY_FASTEST)
                return;
        r->speed += by;
        r->anchor_ns = 0;
        l->due_ns = 0;
        replay_speed_text(r, text, sizeof text);
        replay_say(l, "speed %s", text);
}

static void to_begin(struct live *l)
{
        l->ended = false;
        reel_until(l->replay->reel, 0);
        replay_moved(l);
}

/* The newest report; what is written from now on is shown as it comes. */
static void to_end(struct live *l)
{
        struct replay *r = l->replay;

        log_get_info(r->log, &r->info);
        l->ended = false;
        if (r->info.growing) {
                l->look.paused = false;
                r->speed = REPLAY_TRUE_SPEED;
                replay_say(l, "following what is written");
                l->note_reports = 3;
        } else {
                l->look.paused = true;
                replay_say(l, "end of the recording");
        }
        reel_until(r->reel, r->info.last_sequence);
        replay_moved(l);
        r->follows = r->info.growing;
}

/* The end of a phase is a place to go to only when the next mark does not follow at once: `end`, `begin` of the next is one place. */
static bool is_place(const struct live *l, size_t i)
{
        const struct phases *phases = &l->replay->phases;
        const struct phase_mark *mark = &phases->marks[i];
        const char *name;

        if (phase_act(mark->text, &name) == PHASE_BEGINS)
                return true;
        return i + 1 == phases->mark_count || mark[1].mono_ns < mark->mono_ns || mark[1].mono_ns - mark->mono_ns >= l->look.interval_ns;
}

static void to_mark(struct live *l, bool next)
{
        struct replay *r = l->replay;
        uint64_t from = state_info(reel_shown(r->reel)).from_sequence;
        const struct phase_mark *found = NULL;

        for (size_t i = 0; i < r->phases.mark_count; i++) {
                const struct phase_mark *mark = &r->phases.marks[i];
                if (is_place(l, i) && (next ? mark->sequence > from && !found : mark->sequence < from))
                        found = mark;
        }
        if (!found) {
                replay_say(l, "%s", r->phases.mark_count == 0 ? "this recording has no marks" :
                        next ? "no later phase or mark" : "no earlier phase or mark");
                return;
        }
        l->ended = false;
        reel_from(r->reel, found->sequence);
        replay_moved(l);
}

void replay_go_to(struct live *l, const char *text)
{
        struct replay *r = l->replay;
        struct span_words words = {.from = text};
        struct span span;
        char why[sizeof l->note];

        while (*text == ' ')
                words.from = ++text;
        if (*text == '\0')
                return;
        log_get_info(r->log, &r->info);
        if (span_find(&r->info, &r->phases, &words, &span, why, sizeof why) < 0) {
                replay_say(l, "%s", why);
                return;
        }
        l->ended = false;
        if (span.from_sequence == 0)
                reel_until_time(r->reel, span.from_real_ns);
        else if (*text == '#')
                reel_until(r->reel, span.from_sequence);
        else
                reel_from(r->reel, span.from_sequence);
        replay_moved(l);
        bool early = span.from_sequence == 0 ? span.from_real_ns < r->info.first_real_ns : span.from_sequence < r->info.first_sequence;
        if (early || span.from_real_ns > r->info.last_real_ns || span.from_sequence > r->info.last_sequence)
                replay_say(l, "the recording %s", early ? "begins later" : "ends before");
}

static void pause_or_go_on(struct live *l)
{
        struct replay *r = l->replay;

        if (l->ended && !l->look.paused) {
                replay_say(l, "end of the recording; B or Home: its begin");
                return;
        }
        l->look.paused = !l->look.paused;
        l->ended = false;
        r->anchor_ns = 0;
        r->steps = 0;
        l->due_ns = 0;
}

bool replay_key(struct live *l, enum action action)
{
        bool rows = l->mode == LIVE_NORMAL; /* elsewhere Home and End scroll */

        switch (action) {
        case ACTION_PAUSE: pause_or_go_on(l); return true;
        case ACTION_EARLIER: step(l, -1); return true;
        case ACTION_LATER: step(l, 1); return true;
        case ACTION_BEGIN: to_begin(l); return true;
        case ACTION_NEWEST: to_end(l); return true;
        case ACTION_HOME: if (rows) to_begin(l); return rows;
        case ACTION_END: if (rows) to_end(l); return rows;
        case ACTION_MARK_BEFORE: to_mark(l, false); return true;
        case ACTION_MARK_NEXT: to_mark(l, true); return true;
        case ACTION_PLAY_SLOWER: change_speed(l, -1); return true;
        case ACTION_PLAY_FASTER: change_speed(l, 1); return true;
        case ACTION_GO_TO:
                l->mode = LIVE_NORMAL; /* the line to type in is the panels' foot */
                prompt_open(&l->prompt, ACTION_GO_TO, "");
                return true;
        default: return false;
        }
}

/*
 * The live screen's way back: `<` and `>` walk through the reports that the ring still holds.
 *
 * Meanwhile nothing new is read, as in a pause, and the head says how long ago it was. A key that asks for the present, or for another
 * source, ends it. The ring is memory that is mapped already, so a step is done at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/live.h"
#include "tui/replay.h"
#include "tui/replay_reel.h"

struct past {
        struct reel *reel;
        bool fresh;
        char ago[32];
        unsigned char history[HISTORY_CORES * HISTORY_STEPS], parts[HISTORY_CORES * HISTORY_STEPS]; /* of now */
        struct heat heat;
};

static const uint64_t PATIENCE_NS = UINT64_C(2000000000);

static void forget_strips(struct live *l)
{
        if (l->past->fresh) {
                memset(l->history, 255, sizeof l->history);
                memset(l->parts, 0, sizeof l->parts);
                heat_clear(&l->heat);
        }
        l->past->fresh = false;
}

static void passed(void *arg, const struct state *state)
{
        forget_strips(arg);
        live_remember(arg, state);
}

void past_leave(struct live *l)
{
        if (!l->past)
                return;
        memcpy(l->history, l->past->history, sizeof l->history);
        memcpy(l->parts, l->past->parts, sizeof l->parts);
        l->heat = l->past->heat;
        reel_free(l->past->reel);
        free(l->past);
        l->past = NULL;
        l->look.ago = NULL;
        l->look.paused = false;
        l->due_ns = 0;
        live_show(l, l->shown);
}

static bool open_past(struct live *l)
{
        struct ring *ring = attach_ring(l->attach);
        struct ring_info info;
        struct cursor *cursor;

        if (!ring || l->captured || !l->reported || ring_info(ring, &info) < 0 || cursor_new(ring, &cursor) < 0)
                return false;
        l->past = calloc(1, sizeof *l->past);
        if (!l->past) {
                cursor_free(cursor);
                return false;
        }
        memcpy(l->past->history, l->history, sizeof l->history);
        memcpy(l->past->parts, l->parts, sizeof l->parts);
        l->past->heat = l->heat;
        if (reel_new(cursor, ring_schema(ring), info.tick_ns, l->look.interval_ns, &l->past->reel) < 0) {
                past_leave(l);
                return false;
        }
        reel_on_way(l->past->reel, passed, l);
        return true;
}

/* The report that was asked of the reel. */
static bool take(struct live *l)
{
        struct past *past = l->past;
        int r = reel_run(past->reel, live_now() + PATIENCE_NS);

        if (r != REEL_REPORT)
                return false;
        forget_strips(l);
        live_remember(l, reel_shown(past->reel));
        live_show(l, reel_shown(past->reel));
        return true;
}

static void step_back(struct live *l)
{
        bool first = !l->past;

        if (first && !open_past(l)) {
                snprintf(l->note, sizeof l->note, "nothing to go back to%s",
                        l->captured ? ": a captured machine's trees are read once" : "");
                return;
        }
        struct past *past = l->past;
        struct state_info now = state_info(first ? l->shown : reel_shown(past->reel));
        past->fresh = true;
        reel_until(past->reel, now.from_sequence);
        if (!take(l)) {
                past_leave(l);
                snprintf(l->note, sizeof l->note, "nothing to go back to");
        } else if (state_info(reel_shown(past->reel)).to_sequence > now.from_sequence) {
                snprintf(l->note, sizeof l->note, "the ring begins here; a longer past is in logs: watopd --log, watop record");
        }
}

static void step_on(struct live *l)
{
        if (!l->past) {
                snprintf(l->note, sizeof l->note, "this is now");
                return;
        }
        reel_forward(l->past->reel);
        if (!take(l))
                past_leave(l);
}

bool past_key(struct live *l, enum action action)
{
        switch (action) {
        case ACTION_EARLIER: step_back(l); return true;
        case ACTION_LATER: step_on(l); return true;
        case ACTION_NEWEST: past_leave(l); return true;
        case ACTION_PAUSE: {
                bool was = l->past;
                past_leave(l);
                return was;
        }
        case ACTION_BEGIN: case ACTION_MARK_BEFORE: case ACTION_MARK_NEXT: case ACTION_PLAY_SLOWER: case ACTION_PLAY_FASTER:
        case ACTION_GO_TO:
                snprintf(l->note, sizeof l->note, "for recordings only: watop replay FILE; < and > go through the ring");
                return true;
        default: return false;
        }
}

void past_mark(struct live *l)
{
        struct past *past = l->past;

        if (!past)
                return;
        /* A ring of another time namespace: its clock is a constant ahead or behind. */
        int64_t lag = l->least_lag_ns == INT64_MAX ? 0 : l->least_lag_ns;
        int64_t ago = (int64_t)(live_now() - state_info(reel_shown(past->reel)).mono_ns) - lag;
        long long seconds = ago > 0 ? (long long)(ago / INT64_C(1000000000)) : 0;
        if (seconds < 120)
                snprintf(past->ago, sizeof past->ago, "%lld s ago", seconds);
        else
                snprintf(past->ago, sizeof past->ago, "%lld min %lld s ago", seconds / 60, seconds % 60);
        l->look.ago = past->ago;
}

/*
 * What the live screen shows of the past: per core the load and the letter of its wa (iowait_letter) of the last reports; and which devices
 * were used in it.
 *
 * It is filled by each report, and at the start from what the ring of a running daemon still holds, in steps of the interval: so a
 * person who opens the screen during an incident sees how it began. A private watopd has no past.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "sample/cursor.h"
#include "tui/live.h"

enum { FRAMES_MOST = 20000 }; /* a look back ends here, whatever the ring holds: the first picture must not wait */

void live_remember(struct live *l, const struct state *state)
{
        device_seen_note(&l->devices, state);
        live_latency_note(l, state);
        const struct column *load = metric_column(VIEW_CPU, "load");
        for (size_t i = 0; i < state_count(state, SCOPE_CPU); i++) {
                const struct state_row *row = state_at(state, SCOPE_CPU, i);
                if (row->key.a >= HISTORY_CORES || row->gone)
                        continue;
                unsigned char *steps = l->history + row->key.a * HISTORY_STEPS, *parts = l->parts + row->key.a * HISTORY_STEPS;
                struct value v = metric_value(state, row, load);
                memmove(steps, steps + 1, HISTORY_STEPS - 1);
                memmove(parts, parts + 1, HISTORY_STEPS - 1);
                steps[HISTORY_STEPS - 1] = v.kind == VALUE_NUMBER ? (unsigned char)(v.number > 100 ? 100 : v.number + 0.5) : 255;
                parts[HISTORY_STEPS - 1] = iowait_letter(state, row);
        }
}

/* Frames from where the cursor stands; each step of an interval is remembered. */
static void walk(struct live *l, const struct schema *schema, struct cursor *cursor, struct state *state)
{
        const struct frame_head *frame;
        uint64_t step = l->look.interval_ns - l->look.interval_ns / 20; /* a tick may come a little early */
        for (int n = 0; n < FRAMES_MOST; n++) {
                int r = cursor_next(cursor, &frame);
                if (r == CURSOR_OVERRUN || r == -EBADMSG) {
                        state_lost(state);
                        continue;
                }
                if (r != CURSOR_FRAME || (r = state_apply(state, frame, schema)) < 0)
                        return;
                struct state_info info = state_info(state);
                bool whole = r == 0 && info.valid;
                if (r == STATE_STALE || (whole && info.mono_ns - info.base_mono_ns < step))
                        continue;
                if (whole)
                        live_remember(l, state);
                state_base(state);
        }
}

void live_recall(struct live *l)
{
        struct ring *ring = attach_ring(l->attach);
        struct cursor *cursor = NULL;
        struct state *state = NULL;
        uint64_t span = (HISTORY_STEPS + 1) * l->look.interval_ns;

        attach_get_info(l->attach, &l->source);
        if (!ring || l->source.private_daemon || l->captured)
                return;
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t real = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
        if (cursor_new(ring, &cursor) == 0 && state_new(&state) == 0 && cursor_seek_time(cursor, real > span ? real - span : 0) >= 0)
                walk(l, ring_schema(ring), cursor, state);
        state_free(state);
        cursor_free(cursor);
}

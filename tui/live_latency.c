/*
 * The live screen's latency view: tracing while it is looked at, the figures of the report that is shown, and their past.
 *
 * Tracing costs, so the scopes are leased when the view is entered and given back LINGER_NS after it was left: long enough to look at a
 * panel and come back without a hole in the heat map. In a recording, and in the ring's past, nothing is leased: what was traced is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tui/live.h"

#define LINGER_NS UINT64_C(30000000000)

void live_latency_note(struct live *l, const struct state *state)
{
        if (latency_make(&l->latency, state) == 0)
                heat_note(&l->heat, state, &l->latency);
}

void live_latency_draw(struct live *l, struct canvas *canvas)
{
        l->latency.count[LATENCY_STAGES] = l->latency.count[LATENCY_BIOS] = l->latency.count[LATENCY_CALLS] = 0;
        l->latency.source = -1;
        if (l->look.state) /* made anew: a source that went took the rows along */
                latency_make(&l->latency, l->look.state);
        const struct latency_line *line = latency_picked(&l->latency, &l->pick);
        if (line && !l->pick.chosen && latency_counted(line)) {
                l->pick.chosen = true; /* and stays, whoever is the busiest later */
                l->pick.device = line->device;
                l->pick.direction = line->direction;
        }
        latency_draw(&l->look, &l->pick, canvas);
}

void live_latency_fini(struct live *l)
{
        latency_fini(&l->latency);
}

static int change(struct live *l, uint32_t wanted)
{
        int r = attach_change(l->attach, l->look.interval_ns, wanted, l->leases);

        attach_get_info(l->attach, &l->source);
        if (r < 0) {
                snprintf(l->note, sizeof l->note, "block tracing could not be had: %.100s", strerror(-r));
                l->traced = true; /* asked once, not at every turn */
                return r;
        }
        l->scopes = wanted;
        return 0;
}

uint64_t live_latency_lease(struct live *l)
{
        uint64_t now = live_now();

        if (l->mode == LIVE_LATENCY)
                l->latency_left_ns = now;
        if (!l->attach || l->replay || l->past || l->captured)
                return UINT64_MAX;
        if (l->mode == LIVE_LATENCY && !l->traced) {
                l->traced = true;
                change(l, l->scopes | LATENCY_SCOPES);
        }
        if (!l->traced)
                return UINT64_MAX;
        if (now - l->latency_left_ns < LINGER_NS)
                return l->mode == LIVE_LATENCY ? UINT64_MAX : l->latency_left_ns + LINGER_NS - now;
        l->traced = false;
        if (l->scopes & LATENCY_SCOPES)
                change(l, l->scopes & ~LATENCY_SCOPES);
        l->traced = false;
        return UINT64_MAX;
}

void live_latency_enter(struct live *l)
{
        l->mode = LIVE_LATENCY;
        l->pick.top = 0;
        live_latency_lease(l);
}

/* ---- keys ---------------------------------------------------------------------------------------------------------------------------- */

static size_t devices_of(const struct latency *latency, const struct latency_pick *pick, size_t *at)
{
        size_t count = 0;

        *at = SIZE_MAX;
        for (size_t i = 0; i < latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &latency->lines[LATENCY_STAGES][i];
                if (!latency_is_whole(line))
                        continue;
                if (pick->chosen && line->device == pick->device && line->direction == pick->direction)
                        *at = count;
                count++;
        }
        return count;
}

/* The device before or after; from none it is the one that is shown. */
static void move_device(struct live *l, int by)
{
        const struct latency_line *shown = latency_picked(l->look.latency, &l->pick);
        size_t at, index = 0;

        if (shown == NULL)
                return;
        l->pick.chosen = true;
        l->pick.device = shown->device;
        l->pick.direction = shown->direction;
        size_t count = devices_of(l->look.latency, &l->pick, &at);
        if (at == SIZE_MAX || (by < 0 && at == 0) || (by > 0 && at + 1 >= count))
                return;
        at = by < 0 ? at - 1 : at + 1;
        for (size_t i = 0; i < l->look.latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &l->look.latency->lines[LATENCY_STAGES][i];
                if (!latency_is_whole(line) || index++ != at)
                        continue;
                l->pick.device = line->device;
                l->pick.direction = line->direction;
        }
}

/* Q2C first, then the stages that the device has, in their order, and round. */
static void move_stage(struct live *l, int by)
{
        const struct latency_line *shown = latency_picked(l->look.latency, &l->pick);

        for (int n = 0; shown != NULL && n < STAGE_COUNT; n++) {
                l->pick.stage = (uint8_t)((l->pick.stage + (by > 0 ? 1 : STAGE_COUNT - 1)) % STAGE_COUNT);
                if (l->pick.stage == STAGE_Q2C || latency_stage(l->look.latency, shown, (enum stage)l->pick.stage) != NULL)
                        return;
        }
}

bool live_latency_key(struct live *l, enum action action)
{
        size_t page = l->pick.page > 1 ? l->pick.page - 1 : 1;

        switch (action) {
        case ACTION_ESCAPE: case ACTION_QUIT: case ACTION_LATENCY: case ACTION_DETAIL: l->mode = LIVE_NORMAL; break;
        case ACTION_WHY: l->mode = LIVE_WHY; break;
        case ACTION_HELP: l->mode = LIVE_HELP; l->help_top = 0; break;
        case ACTION_IOWAIT: l->mode = LIVE_IOWAIT; l->detail_top = 0; break;
        case ACTION_UP: case ACTION_DOWN: move_device(l, action == ACTION_UP ? -1 : 1); break;
        case ACTION_LEFT: case ACTION_PREVIOUS_PANEL: move_stage(l, -1); break;
        case ACTION_RIGHT: case ACTION_NEXT_PANEL: move_stage(l, 1); break;
        case ACTION_PAGE_UP: l->pick.top = l->pick.top > page ? l->pick.top - page : 0; break;
        case ACTION_PAGE_DOWN: l->pick.top = l->pick.top + page < l->pick.most ? l->pick.top + page : l->pick.most; break;
        case ACTION_HOME: l->pick.top = 0; break;
        case ACTION_END: l->pick.top = l->pick.most; break;
        case ACTION_PAUSE: l->look.paused = !l->look.paused; l->due_ns = 0; break;
        case ACTION_REDRAW: l->redraw = true; break;
        default: return false;
        }
        return true;
}

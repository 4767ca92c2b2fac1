/*
 * Reports at any place of what was recorded. Contract: replay_reel.h.
 *
 * Two states take the same frames, their bases one report apart, as in the live screen: the shown report stays while the next one fills (a
 * log may be growing). To go back, the frames before the one sought are looked at without a state first: how many ticks they stand for says
 * where the report begins. Then the states are cleared and rolled from the full frame before.
 */
#include "tui/replay_reel.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Intervals before the sought report that are passed for the strips, and the frames that this may cost. */
enum { WAY_STEPS = 40, WAY_FRAMES = 80, SLACK = 8 };

enum job {
        JOB_NONE,
        JOB_TIME,    /* which frame is the first at or after `sought`? */
        JOB_LOOK,    /* where does the report that ends with frame `sought` begin? */
        JOB_ROLL,    /* apply frames until it is complete */
};

struct point {
        uint64_t sequence, ticks; /* ticks: of all frames up to this one */
        bool extra;
};

struct reel {
        struct cursor *cursor;
        const struct schema *schema;
        struct state *shown, *next;
        uint64_t interval_ns, tick_ns, wanted;
        enum job job;
        bool started, seeking, tried; /* tried: the last report is sought because the one asked for has no frames */
        uint64_t sought, reach, last; /* last: newest frame met by this job */
        struct point *points;
        size_t count, room;
        uint64_t way_at, base_at, end_at; /* the strips begin, the report begins, it ends (UINT64_MAX: by its ticks) */
        bool on_way, have_base;
        uint64_t ticks, newest_mark;
        bool damaged, shown_damaged;
        void (*passed)(void *, const struct state *);
        void *arg;
};

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void count_ticks(struct reel *r)
{
        r->wanted = r->tick_ns == 0 || r->interval_ns < r->tick_ns ? 1 : r->interval_ns / r->tick_ns;
}

int reel_new(struct cursor *cursor, const struct schema *schema, uint64_t tick_ns, uint64_t interval_ns, struct reel **result)
{
        struct reel *r = calloc(1, sizeof *r);

        if (!r) {
                cursor_free(cursor);
                return -ENOMEM;
        }
        *r = (struct reel){.cursor = cursor, .schema = schema, .tick_ns = tick_ns, .interval_ns = interval_ns};
        if (state_new(&r->shown) < 0 || state_new(&r->next) < 0) {
                reel_free(r);
                return -ENOMEM;
        }
        count_ticks(r);
        reel_until(r, 0);
        *result = r;
        return 0;
}

void reel_free(struct reel *r)
{
        if (!r)
                return;
        cursor_free(r->cursor);
        state_free(r->shown);
        state_free(r->next);
        free(r->points);
        free(r);
}

void reel_on_way(struct reel *r, void (*passed)(void *, const struct state *), void *arg)
{
        r->passed = passed;
        r->arg = arg;
}

/* ---- what is asked ---------------------------------------------------------------------------------------------------------------- */

static void ask(struct reel *r, enum job job, uint64_t sought)
{
        r->job = job;
        r->sought = sought;
        r->seeking = true;
        r->started = r->tried = false;
        r->reach = 0;
}

void reel_forward(struct reel *r)
{
        if (r->seeking || r->job == JOB_ROLL)
                return;
        r->job = JOB_ROLL;
        r->started = true;
        r->end_at = UINT64_MAX;
}

void reel_until(struct reel *r, uint64_t sequence)
{
        ask(r, JOB_LOOK, sequence);
}

void reel_until_time(struct reel *r, uint64_t real_ns)
{
        ask(r, JOB_TIME, real_ns);
}

void reel_from(struct reel *r, uint64_t sequence)
{
        uint64_t way = WAY_STEPS * r->wanted < WAY_FRAMES ? WAY_STEPS * r->wanted : WAY_FRAMES;

        ask(r, JOB_ROLL, sequence);
        r->base_at = sequence;
        r->way_at = sequence > way ? sequence - way : 0;
        r->end_at = UINT64_MAX;
}

void reel_interval(struct reel *r, uint64_t interval_ns)
{
        r->interval_ns = interval_ns;
        count_ticks(r);
}

uint64_t reel_interval_ns(const struct reel *r)
{
        return r->tick_ns ? r->wanted * r->tick_ns : r->interval_ns;
}

bool reel_seeking(const struct reel *r)
{
        return r->seeking;
}

const struct state *reel_shown(const struct reel *r)
{
        return r->shown;
}

bool reel_damaged(const struct reel *r)
{
        return r->shown_damaged;
}

uint64_t reel_newest_mark(const struct reel *r)
{
        return r->newest_mark;
}

/* ---- looking --------------------------------------------------------------------------------------------------------------------- */

static uint64_t ticks_of(const struct frame_head *frame)
{
        return frame->flags & FRAME_EXTRA ? 0 : UINT64_C(1) + frame->missed;
}

static int add_point(struct reel *r, uint64_t sequence, uint64_t ticks, bool extra)
{
        if (r->count == r->room) {
                size_t room = r->room ? r->room * 2 : 256;
                struct point *grown = reallocarray(r->points, room, sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                r->points = grown;
                r->room = room;
        }
        uint64_t before = r->count ? r->points[r->count - 1].ticks : 0;
        r->points[r->count++] = (struct point){sequence, before + ticks, extra};
        return 0;
}

/* Nobody knows how many ticks the damage took: a report ends at the first frame behind it, and so the one before it begins there. */
static void lost_in_look(struct reel *r)
{
        r->damaged = true;
}

static int start_look(struct reel *r)
{
        uint64_t steps = WAY_STEPS * r->wanted;

        if (r->reach == 0)
                r->reach = r->wanted + (steps < WAY_FRAMES ? steps : WAY_FRAMES) + SLACK;
        r->count = 0;
        r->damaged = false;
        r->last = 0;
        r->started = true;
        return cursor_seek_sequence(r->cursor, r->sought > r->reach ? r->sought - r->reach : 0);
}

static void roll_from(struct reel *r, uint64_t way, uint64_t base, uint64_t end)
{
        r->way_at = way;
        r->base_at = base;
        r->end_at = end;
        r->job = JOB_ROLL;
        r->started = false;
}

/* All frames up to the one sought are known: where does its report begin? */
static void end_look(struct reel *r)
{
        const struct point *points = r->points;

        size_t end = r->count ? r->count - 1 : 0, base = end;
        while (base > 0) {
                base--;
                if (!points[base].extra && points[end].ticks - points[base].ticks >= r->wanted)
                        break;
        }
        bool found = r->count > 1 && points[end].ticks - points[base].ticks >= r->wanted;
        if (!found && r->sought > r->reach) {
                r->reach *= 4;
                r->started = false;
                return;
        }
        if (r->count < 2) { /* nothing is before it: the first report of all */
                roll_from(r, 0, 0, UINT64_MAX);
                return;
        }
        size_t way = base; /* not found: the recording begins here, its first report is a short one */
        while (way > 0 && base - way < WAY_FRAMES && points[base].ticks - points[way].ticks < WAY_STEPS * r->wanted)
                way--;
        roll_from(r, points[way].sequence, points[base].sequence, points[end].sequence);
}

static int look_frame(struct reel *r, const struct frame_head *frame)
{
        if (frame->sequence > r->sought) {
                end_look(r);
                return 0;
        }
        uint64_t ticks = r->damaged ? r->wanted : ticks_of(frame);
        r->damaged = false;
        int e = add_point(r, frame->sequence, ticks, frame->flags & FRAME_EXTRA);
        if (e == 0 && frame->sequence == r->sought)
                end_look(r);
        return e;
}

static void time_frame(struct reel *r, const struct frame_head *frame)
{
        r->last = frame->sequence;
        if (frame->real_ns >= r->sought)
                ask(r, JOB_LOOK, frame->sequence);
}

/* ---- rolling ---------------------------------------------------------------------------------------------------------------------- */

static void base_both(struct reel *r)
{
        state_base(r->shown);
        state_base(r->next);
        r->ticks = 0;
}

static int start_roll(struct reel *r)
{
        state_clear(r->shown);
        state_clear(r->next);
        r->on_way = r->have_base = r->damaged = false;
        r->ticks = r->last = 0;
        r->started = true;
        return cursor_seek_sequence(r->cursor, r->way_at < r->base_at ? r->way_at : r->base_at);
}

static void lost(struct reel *r)
{
        state_lost(r->shown);
        state_lost(r->next);
        r->ticks = r->wanted;
        r->damaged = true;
}

static int complete(struct reel *r)
{
        struct state *filled = r->next;

        state_base(r->shown); /* the report before ends here and becomes the one to fill */
        r->next = r->shown;
        r->shown = filled;
        r->ticks = 0;
        r->shown_damaged = r->damaged;
        r->damaged = r->seeking = false;
        r->job = JOB_NONE;
        return REEL_REPORT;
}

static void tell_passed(struct reel *r)
{
        if (r->passed && state_info(r->next).valid)
                r->passed(r->arg, r->next);
}

/* Before the report begins: intervals for the strips. */
static void way_frame(struct reel *r, const struct frame_head *frame)
{
        if (frame->sequence >= r->base_at) {
                if (r->on_way && (r->ticks + ticks_of(frame)) * 2 >= r->wanted)
                        tell_passed(r);
                base_both(r);
                r->have_base = true;
                r->damaged = r->damaged && frame->sequence != r->base_at; /* where it should begin cannot be read */
        } else if (!r->on_way) {
                if (frame->sequence >= r->way_at) {
                        base_both(r);
                        r->on_way = true;
                }
        } else if ((r->ticks += ticks_of(frame)) >= r->wanted) {
                tell_passed(r);
                base_both(r);
        }
}

static int roll_frame(struct reel *r, const struct frame_head *frame)
{
        int a = state_apply(r->next, frame, r->schema), b = state_apply(r->shown, frame, r->schema);

        if (a == -ENOMEM || b == -ENOMEM)
                return -ENOMEM;
        if (a < 0 || b < 0) {
                lost(r);
                return REEL_MORE;
        }
        if (a == STATE_STALE || b == STATE_STALE)
                return REEL_MORE;
        r->last = frame->sequence;
        if ((frame->flags & FRAME_MARK) && frame->sequence > r->newest_mark)
                r->newest_mark = frame->sequence;
        if (frame->tick_ns != 0 && frame->tick_ns != r->tick_ns) {
                r->tick_ns = frame->tick_ns;
                count_ticks(r);
        }
        if (!r->have_base) {
                way_frame(r, frame);
                return REEL_MORE;
        }
        r->ticks += ticks_of(frame);
        bool whole = r->end_at == UINT64_MAX ? r->ticks >= r->wanted : frame->sequence >= r->end_at;
        return whole ? complete(r) : REEL_MORE;
}

/* Nothing more for now, or for ever. What is left over is a report when it is more than a moment, or what was sought. */
static int at_end(struct reel *r, bool for_ever)
{
        struct state_info info = state_info(r->next);
        bool some = r->have_base && info.valid && info.mono_ns > info.base_mono_ns;
        bool half = some && info.mono_ns - info.base_mono_ns >= r->wanted * r->tick_ns / 2; /* of an interval: more than a moment */

        if (r->job == JOB_TIME && r->last > 0) {
                ask(r, JOB_LOOK, r->last);
                return REEL_MORE;
        }
        if (r->job == JOB_LOOK && r->count > 0) {
                r->sought = r->points[r->count - 1].sequence;
                end_look(r);
                return REEL_MORE;
        }
        if (r->job == JOB_ROLL && r->seeking && !half && r->last > 0 && r->base_at > 0 && !r->tried) {
                reel_until(r, r->last);
                r->tried = true;
                return REEL_MORE;
        }
        if (r->job == JOB_ROLL && (r->seeking ? some : for_ever && half))
                return complete(r);
        return for_ever ? REEL_END : REEL_WAIT;
}

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

static int start(struct reel *r)
{
        int result = 0;

        if (r->started)
                return 0;
        switch (r->job) {
        case JOB_TIME:
                r->last = 0;
                r->started = true;
                result = cursor_seek_time(r->cursor, r->sought);
                break;
        case JOB_LOOK: result = start_look(r); break;
        case JOB_ROLL: result = start_roll(r); break;
        default: break;
        }
        return result == -ENOMEM ? result : 0;
}

static int one_frame(struct reel *r, const struct frame_head *frame)
{
        switch (r->job) {
        case JOB_TIME: time_frame(r, frame); return REEL_MORE;
        case JOB_LOOK: {
                int e = look_frame(r, frame);
                return e < 0 ? e : REEL_MORE;
        }
        default: return roll_frame(r, frame);
        }
}

int reel_run(struct reel *r, uint64_t deadline_ns)
{
        const struct frame_head *frame;

        if (r->job == JOB_NONE)
                reel_forward(r);
        for (unsigned n = 1;; n++) {
                int result = start(r);
                if (result < 0)
                        return result;
                switch (cursor_next(r->cursor, &frame)) {
                case CURSOR_FRAME: result = one_frame(r, frame); break;
                case CURSOR_OVERRUN: case -EBADMSG:
                        if (r->job == JOB_LOOK)
                                lost_in_look(r);
                        else if (r->job == JOB_ROLL)
                                lost(r);
                        result = REEL_MORE;
                        break;
                case CURSOR_END: result = at_end(r, false); break;
                case CURSOR_GONE: case CURSOR_EOF: result = at_end(r, true); break;
                case -ENOMEM: return -ENOMEM;
                default: return -EIO;
                }
                if (result != REEL_MORE)
                        return result;
                if (n % 8 == 0 && now_ns() >= deadline_ns)
                        return REEL_MORE;
        }
}

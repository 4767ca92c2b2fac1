/*
 * One phase: its frames become a state over the whole of it, a series of samples, and a state over what ramps left.
 *
 * The log is walked up to three times: for the lists of cores, devices and tasks; for the samples; and, when something was cut, for the
 * means of the rest. Counters are read at the first and last frame only, so means are exact whatever happened to the frames between.
 *
 * Over a suspend, a reboot or a new watopd nothing can be computed: then the numbers are of the phase's longest part between two such
 * places, and a warning says so. Samples are there of all parts.
 */
#include "tui/report_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RAMP_PERCENT = 80, RAMP_LEAST = 5 /* % of a core: a phase in which nothing runs has no ramps */ };

/* ---- walking -------------------------------------------------------------------------------------------------------------------- */

struct walk {
        struct report_maker *maker;
        struct state *state;
        uint64_t from, to;
        struct report_gaps *gaps;          /* NULL: not counted */
        /* A frame after the first; STATE_GAP: the base was reset at it. NULL: none wanted. */
        int (*step)(struct walk *, const struct frame_head *, bool gap);
        void *own;
        struct report_span *span;          /* NULL, or where the first and last frame's stamps go */
        bool based;
};

static void count_gap(struct report_gaps *gaps, const struct frame_head *frame)
{
        switch (frame->gap <= GAP_RESET ? (enum gap)frame->gap : GAP_RESET) {
        case GAP_SUSPEND: gaps->suspends++; break;
        case GAP_REBOOT: gaps->reboots++; break;
        case GAP_RESET: gaps->resets++; break;
        case GAP_LATE: gaps->late++; break;
        default: gaps->late += frame->missed > 0; break;
        }
        gaps->missed += frame->missed;
}

static void stamp(const struct frame_head *frame, uint64_t *sequence, uint64_t *mono, uint64_t *real)
{
        *sequence = frame->sequence;
        *mono = frame->mono_ns;
        *real = frame->real_ns;
}

static int walk_frame(struct walk *walk, const struct frame_head *frame)
{
        int applied = state_apply(walk->state, frame, log_schema(walk->maker->log));

        if (applied < 0 && applied != -EBADMSG)
                return applied;
        if (applied == STATE_STALE || applied == -EBADMSG || frame->sequence < walk->from)
                return 0;
        if (!walk->based) {
                state_base(walk->state);
                walk->based = true;
                if (walk->span)
                        stamp(frame, &walk->span->from_sequence, &walk->span->from_mono_ns, &walk->span->from_real_ns);
        } else {
                if (walk->gaps)
                        count_gap(walk->gaps, frame);
                int r = walk->step ? walk->step(walk, frame, applied == STATE_GAP) : 0;
                if (r < 0)
                        return r;
        }
        if (walk->span)
                stamp(frame, &walk->span->to_sequence, &walk->span->to_mono_ns, &walk->span->to_real_ns);
        return 0;
}

static int walk_log(struct walk *walk)
{
        struct log *log = walk->maker->log;
        const struct frame_head *frame;

        if (log_seek_sequence(log, walk->from) < 0)
                log_rewind(log);
        for (;;) {
                int r = log_next(log, &frame);
                if (r == LOG_DAMAGED) {
                        state_lost(walk->state);
                        if (walk->gaps && walk->based)
                                walk->gaps->damages++;
                        continue;
                }
                if (r <= 0 || frame->sequence > walk->to)
                        return r == LOG_FRAME ? 0 : r;
                r = walk_frame(walk, frame);
                if (r < 0 || frame->sequence == walk->to)
                        return r;
        }
}

/* ---- samples -------------------------------------------------------------------------------------------------------------------- */

struct sampling {
        struct report_phase *phase;
        uint64_t start_ns, base_ns;
        size_t room;
};

static int grow_one(void *array, size_t count, size_t size)
{
        void **at = array;
        void *grown = reallocarray(*at, count ? count : 1, size ? size : 1);

        if (!grown)
                return -ENOMEM;
        *at = grown;
        return 0;
}

static int make_room(struct sampling *sampling)
{
        struct report_samples *s = &sampling->phase->samples;

        if (s->count < sampling->room)
                return 0;
        size_t room = sampling->room ? sampling->room * 2 : 64;
        if (grow_one(&s->sequence, room, sizeof *s->sequence) < 0 || grow_one(&s->at, room, sizeof *s->at) < 0 ||
            grow_one(&s->length, room, sizeof *s->length) < 0 || grow_one(&s->core, room * s->cores * REPORT_CPUS, sizeof *s->core) < 0 ||
            grow_one(&s->total, room * REPORT_CPUS, sizeof *s->total) < 0 ||
            grow_one(&s->device, room * s->devices * REPORT_DEVICES, sizeof *s->device) < 0 ||
            grow_one(&s->group, room * REPORT_GROUPS, sizeof *s->group) < 0)
                return -ENOMEM;
        sampling->room = room;
        return 0;
}

static int sample_step(struct walk *walk, const struct frame_head *frame, bool gap)
{
        struct sampling *sampling = walk->own;
        struct report_samples *s = &sampling->phase->samples;
        uint64_t least = walk->maker->report->tick_ns / 2;

        if (gap) {
                if (frame->mono_ns < sampling->base_ns) /* another boot: the axis goes on where it was */
                        sampling->start_ns = frame->mono_ns - (sampling->base_ns - sampling->start_ns);
                sampling->base_ns = frame->mono_ns;
                state_base(walk->state);
                return 0;
        }
        if (frame->mono_ns <= sampling->base_ns || frame->mono_ns - sampling->base_ns < least)
                return 0; /* a mark's frame just after a tick's: part of the next sample */
        if (make_room(sampling) < 0)
                return -ENOMEM;
        size_t i = s->count++;
        s->sequence[i] = frame->sequence;
        s->at[i] = (double)(frame->mono_ns - sampling->start_ns) / 1e9;
        s->length[i] = (double)(frame->mono_ns - sampling->base_ns) / 1e9;
        report_load_sample(walk->maker, sampling->phase, walk->state, s->cores ? report_core(s, i, 0) : NULL, report_total(s, i),
                           s->devices ? report_disk(s, i, 0) : NULL, report_groups(s, i));
        report_load_seen(walk->maker, sampling->phase, walk->state);
        sampling->base_ns = frame->mono_ns;
        state_base(walk->state);
        return 0;
}

static int make_samples(struct report_maker *maker, struct report_phase *phase)
{
        struct sampling sampling = {.phase = phase, .start_ns = phase->full.from_mono_ns, .base_ns = phase->full.from_mono_ns};
        struct walk walk = {.maker = maker, .from = phase->full.from_sequence, .to = phase->full.to_sequence, .step = sample_step,
                .own = &sampling};

        phase->samples.cores = phase->core_count;
        phase->samples.devices = phase->device_count;
        int r = state_new(&walk.state);
        if (r == 0)
                r = walk_log(&walk);
        state_free(walk.state);
        return r;
}

/* ---- parts ---------------------------------------------------------------------------------------------------------------------- */

struct parts {
        struct report_span now, longest;
        unsigned count;
};

static void end_part(struct parts *parts)
{
        if (parts->count == 0 || report_seconds(&parts->now) > report_seconds(&parts->longest))
                parts->longest = parts->now;
        parts->count++;
}

static int part_step(struct walk *walk, const struct frame_head *frame, bool gap)
{
        struct parts *parts = walk->own;
        struct report_span *now = &parts->now;

        if (now->from_sequence == 0) /* the walk stamped its first frame only */
                *now = *walk->span;
        if (gap) {
                end_part(parts);
                stamp(frame, &now->from_sequence, &now->from_mono_ns, &now->from_real_ns);
        }
        stamp(frame, &now->to_sequence, &now->to_mono_ns, &now->to_real_ns);
        return 0;
}

/* The phase's state, and in *part what it is of. */
static int make_whole(struct report_maker *maker, struct report_phase *phase, struct report_span *part)
{
        struct parts parts = {.count = 0};
        struct walk walk = {.maker = maker, .from = phase->full.from_sequence, .to = phase->full.to_sequence, .gaps = &phase->gaps,
                .span = &phase->full, .step = part_step, .own = &parts, .state = phase->whole};

        int r = walk_log(&walk);
        *part = phase->full;
        if (r < 0 || !walk.based)
                return r;
        if (parts.now.from_sequence != 0)
                end_part(&parts);
        if (parts.count < 2)
                return 0;
        *part = parts.longest;
        report_lines_add(&maker->report->warnings, "%s: over a suspend, a reboot or a new watopd nothing can be computed: the numbers are"
                         " of its longest part, %.1f of %.1f s", phase->title[0] ? phase->title : "the log", report_seconds(part),
                         (double)(phase->full.to_real_ns - phase->full.from_real_ns) / 1e9);
        state_clear(phase->whole);
        walk = (struct walk){.maker = maker, .from = part->from_sequence, .to = part->to_sequence, .state = phase->whole};
        return walk_log(&walk);
}

/* Samples of that part: until ramps are looked for, these are used. */
static void use_part(struct report_samples *s, const struct report_span *part)
{
        while (s->used_from < s->count && s->sequence[s->used_from] <= part->from_sequence)
                s->used_from++;
        s->used_to = s->used_from;
        while (s->used_to < s->count && s->sequence[s->used_to] <= part->to_sequence)
                s->used_to++;
}

/* ---- ramps ---------------------------------------------------------------------------------------------------------------------- */

static void cut_ramps(struct report_phase *phase)
{
        struct report_samples *s = &phase->samples;
        struct report_spread spread = report_spread_of(s->total + s->used_from * REPORT_CPUS + REPORT_LOAD, s->used_to - s->used_from,
                                                       REPORT_CPUS);
        double least = spread.median * RAMP_PERCENT / 100;

        if (spread.count < 3 || !(spread.median >= RAMP_LEAST))
                return;
        while (s->used_from + 1 < s->used_to && report_total(s, s->used_from)[REPORT_LOAD] < least)
                s->used_from++;
        while (s->used_from + 1 < s->used_to && report_total(s, s->used_to - 1)[REPORT_LOAD] < least)
                s->used_to--;
}

/* Samples that lie within what is left; if none does, nothing is cut. */
static void cut_trim(struct report *report, const struct report_options *options, struct report_phase *phase)
{
        struct report_samples *s = &phase->samples;
        double from = (double)options->trim_ns[0] * 1e-9, to = report_seconds(&phase->full) - (double)options->trim_ns[1] * 1e-9;
        size_t first = s->used_from, last = s->used_to;

        while (first < last && s->at[first] - s->length[first] < from - 1e-6)
                first++;
        while (last > first && options->trim_ns[1] > 0 && s->at[last - 1] > to + 1e-6)
                last--;
        if (first >= last) {
                report_lines_add(&report->warnings, "%s is shorter than --trim: nothing was cut", phase->title);
                return;
        }
        s->used_from = first;
        s->used_to = last;
}

/* 0 in another boot. */
static double seconds_between(uint64_t from, uint64_t to)
{
        return to > from ? (double)(to - from) / 1e9 : 0;
}

/* first and last: the samples before ramps were cut. */
static int make_used(struct report_maker *maker, struct report_phase *phase, const struct report_span *part, size_t first, size_t last)
{
        struct report_samples *s = &phase->samples;
        struct walk walk = {.maker = maker, .from = part->from_sequence, .to = part->to_sequence, .span = &phase->used};
        bool cut = s->used_from != first || s->used_to != last;

        phase->used = *part;
        phase->state = phase->whole;
        if (s->used_from > first)
                walk.from = s->sequence[s->used_from - 1];
        if (s->used_to < last)
                walk.to = s->sequence[s->used_to - 1];
        int r = cut ? state_new(&walk.state) : 0;
        if (r == 0 && cut)
                r = walk_log(&walk);
        if (r < 0) {
                state_free(walk.state);
                return r;
        }
        if (cut)
                phase->state = walk.state;
        phase->cut_before = seconds_between(phase->full.from_mono_ns, phase->used.from_mono_ns);
        phase->cut_after = seconds_between(phase->used.to_mono_ns, phase->full.to_mono_ns);
        return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

int report_phase_make(struct report_maker *maker, struct report_phase *phase)
{
        struct report_span part;

        int r = state_new(&phase->whole);
        if (r < 0)
                return r;
        r = make_whole(maker, phase, &part);
        phase->state = phase->whole;
        phase->used = part;
        struct state_info info = state_info(phase->whole);
        phase->valid = r == 0 && info.valid && info.gap <= GAP_LATE;
        if (r < 0 || !phase->valid)
                return r;
        r = report_load_lists(maker, phase);
        if (r == 0)
                r = make_samples(maker, phase);
        use_part(&phase->samples, &part);
        size_t first = phase->samples.used_from, last = phase->samples.used_to;
        if (r == 0 && maker->options->trim)
                cut_trim(maker->report, maker->options, phase);
        else if (r == 0 && !maker->options->whole)
                cut_ramps(phase);
        if (r == 0)
                r = make_used(maker, phase, &part, first, last);
        if (r == 0)
                report_load_means(maker, phase);
        return r;
}

void report_phase_free(struct report_phase *phase)
{
        if (phase->state != phase->whole)
                state_free(phase->state);
        state_free(phase->whole);
        free(phase->samples.sequence);
        free(phase->samples.at);
        free(phase->samples.length);
        free(phase->samples.core);
        free(phase->samples.total);
        free(phase->samples.device);
        free(phase->samples.group);
        free(phase->cores);
        free(phase->devices);
        free(phase->tasks);
        for (size_t i = 0; i < phase->result_count; i++)
                free(phase->results[i].items);
        free(phase->results);
}

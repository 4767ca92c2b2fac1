/*
 * What a log holds. Contract: log_survey.h.
 *
 * Gaps are what the frames say, and what follows from their clocks: between two frames the wall clock should gain what the boot clock did;
 * more than half a second beside it (NTP slews by 500 ppm at most) is a clock that was set.
 */
#include "tui/log_survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_NS = 500000000 };

/* ---- how many different ones --------------------------------------------------------------------------------------------------------- */

struct seen {
        struct key *keys;      /* open addressing; a key of zeros is an empty place */
        size_t room, count;
};

static size_t place_of(const struct seen *seen, struct key key)
{
        uint64_t hash = key.a * UINT64_C(0x9e3779b97f4a7c15) ^ (key.b + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
        size_t at = (size_t)((hash ^ hash >> 31) * UINT64_C(0xbf58476d1ce4e5b9) >> 20) & (seen->room - 1);

        while ((seen->keys[at].a | seen->keys[at].b) != 0 && (seen->keys[at].a != key.a || seen->keys[at].b != key.b))
                at = (at + 1) & (seen->room - 1);
        return at;
}

static int seen_add(struct seen *seen, struct key key)
{
        if (2 * (seen->count + 1) > seen->room) {
                struct seen grown = {.room = seen->room ? seen->room * 2 : 1024, .count = seen->count};
                grown.keys = calloc(grown.room, sizeof *grown.keys);
                if (!grown.keys)
                        return -ENOMEM;
                for (size_t i = 0; i < seen->room; i++)
                        if ((seen->keys[i].a | seen->keys[i].b) != 0)
                                grown.keys[place_of(&grown, seen->keys[i])] = seen->keys[i];
                free(seen->keys);
                *seen = grown;
        }
        size_t at = place_of(seen, key);
        seen->count += (seen->keys[at].a | seen->keys[at].b) == 0 && (key.a | key.b) != 0;
        seen->keys[at] = key;
        return 0;
}

/* ---- one frame ------------------------------------------------------------------------------------------------------------------ */

struct pass {
        struct survey *survey;
        const struct schema *schema;
        struct seen processes, threads;
        struct frame_head last;
        bool have_last;
};

static void add_gap(struct survey *s, const char *kind, const struct frame_head *frame, double seconds)
{
        if (s->gap_count < SURVEY_GAPS)
                s->gaps[s->gap_count++] = (struct survey_gap){.kind = kind, .sequence = frame->sequence, .real_ns = frame->real_ns,
                        .missed = frame->missed, .seconds = seconds};
}

static void judge_gap(struct pass *pass, const struct frame_head *frame)
{
        struct survey *s = pass->survey;
        const struct frame_head *last = &pass->last;

        if (!pass->have_last)
                return;
        bool other = memcmp(last->boot_id, frame->boot_id, sizeof last->boot_id) != 0;
        enum gap gap = other ? GAP_REBOOT : frame->gap <= GAP_RESET ? (enum gap)frame->gap : GAP_RESET;
        double passed = (double)(int64_t)(frame->boot_ns - last->boot_ns) / 1e9;
        if (gap == GAP_NONE && !other && (frame->writer_ns != last->writer_ns || frame->sequence <= last->sequence))
                gap = GAP_RESET;
        if (gap == GAP_NONE && frame->sequence != last->sequence + 1)
                gap = GAP_LATE; /* frames that the log did not get */
        s->late += gap == GAP_LATE;
        s->suspends += gap == GAP_SUSPEND;
        s->reboots += gap == GAP_REBOOT;
        s->resets += gap == GAP_RESET;
        s->missed += frame->missed;
        if (gap != GAP_NONE)
                add_gap(s, gap_name(gap), frame, passed);
        int64_t stepped = (int64_t)((frame->real_ns - last->real_ns) - (frame->boot_ns - last->boot_ns));
        if (!other && (stepped > STEP_NS || stepped < -STEP_NS)) {
                s->clock_steps++;
                add_gap(s, "clock", frame, (double)stepped / 1e9);
        }
}

static int count_rows(struct pass *pass, const struct frame_head *frame)
{
        struct survey *s = pass->survey;

        for (const struct scope_head *scope = NULL; (scope = frame_scope_next(frame, scope));) {
                int ours = pass->schema->scope[scope->scope];
                s->scope_rows[ours >= 0 ? ours : SCOPE_COUNT] += scope->rows;
                struct seen *seen = ours == SCOPE_PROCESS ? &pass->processes : ours == SCOPE_THREAD ? &pass->threads : NULL;
                for (const struct row_head *row = NULL; seen && (row = frame_row_next(scope, row));)
                        if (row->kind == ROW_VALUES && seen_add(seen, row->key) < 0)
                                return -ENOMEM;
        }
        return 0;
}

static int take(struct pass *pass, const struct frame_head *frame)
{
        struct survey *s = pass->survey;

        s->frames++;
        s->extra += (frame->flags & FRAME_EXTRA) != 0;
        s->full += (frame->flags & FRAME_FULL) != 0;
        s->marks += (frame->flags & FRAME_MARK) != 0;
        judge_gap(pass, frame);
        pass->last = *frame;
        pass->have_last = true;
        int r = state_apply(s->state, frame, pass->schema);
        if (r == -ENOMEM)
                return r;
        state_base(s->state); /* rows that left are forgotten */
        return count_rows(pass, frame);
}

int survey_make(struct log *log, struct survey *survey)
{
        struct pass pass = {.survey = survey, .schema = log_schema(log)};
        const struct frame_head *frame;

        *survey = (struct survey){0};
        int r = state_new(&survey->state);
        if (r == 0)
                r = phases_build(log, &survey->phases);
        if (r == 0)
                r = log_rewind(log);
        while (r == 0 && (r = log_next(log, &frame)) != LOG_END) {
                if (r == LOG_DAMAGED) {
                        survey->damages++;
                        state_lost(survey->state);
                        r = 0;
                        continue;
                }
                if (r == LOG_FRAME)
                        r = take(&pass, frame);
        }
        survey->processes = pass.processes.count;
        survey->threads = pass.threads.count;
        free(pass.processes.keys);
        free(pass.threads.keys);
        log_scope_bytes(log, survey->scope_bytes);
        if (r == 0)
                r = log_get_info(log, &survey->info);
        if (r < 0)
                survey_free(survey);
        return r;
}

void survey_free(struct survey *survey)
{
        state_free(survey->state);
        phases_free(&survey->phases);
        *survey = (struct survey){0};
}

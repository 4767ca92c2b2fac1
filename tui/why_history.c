/*
 * The past of a verdict. Contract: why_history.h.
 *
 * The frames of the ring are applied one after the other to a state of our own, in steps of about a second, as `why` itself measures. A
 * step of
 * another kind does not end a state unless it lasts: a reactor that works for a second is still a reactor.
 */
#include "tui/why_history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/cursor.h"

static const double WA_SHOWN = 5;     /* % of one core, as verdict.c */
static const double SLOW_MS = 20;
static const double LAPSE = 3;        /* seconds of another kind that do not end a state */
static const size_t NORMAL_STEPS = 10;
#define STEP_NS UINT64_C(950000000)   /* a step: a second less what ticks come early */

/* ---- one step ---------------------------------------------------------------------------------------------------------------------- */

static double sum_of(const struct state *state, const char *head)
{
        struct value value = metric_value_sum(state, metric_column(VIEW_CPU, head), NULL, NULL);

        return value.kind == VALUE_NUMBER ? value.number : -1;
}

static enum why_kind kind_of(double wa, double disk, double uring, double other)
{
        if (wa < WA_SHOWN)
                return WHY_QUIET;
        if (disk >= WA_SHOWN && disk >= 0.02 * wa)
                return WHY_DISK;
        return uring >= other ? WHY_URING : WHY_OTHER;
}

static float await_of(const struct why_history *history, const struct state *state)
{
        static const char *const heads[TALLY_WAYS] = {"r_await", "w_await", "d_await", "f_await"};

        for (size_t i = 0, n = history->device[0] ? state_count(state, SCOPE_DISK) : 0; i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_DISK, i);
                size_t length = 0;
                const char *name = row->gone ? NULL : state_text(state, row, DISK_NAME, &length);
                if (!name || length != strlen(history->device) || memcmp(name, history->device, length) != 0)
                        continue;
                struct value value = metric_value(state, row, metric_column(VIEW_DISK, heads[history->way]));
                return value.kind == VALUE_NUMBER ? (float)value.number : -1;
        }
        return -1;
}

void why_history_ask(struct why_history *history, const struct tally *tally, const struct verdict *verdict)
{
        bool named = verdict->answer == ANSWER_DISK_SLOW || verdict->answer == ANSWER_BUSY || verdict->answer == ANSWER_PARTLY;

        memset(history, 0, sizeof *history);
        history->normal = -1;
        if (!named || verdict->device < 0)
                return;
        const struct tally_device *device = &tally->devices[verdict->device];
        snprintf(history->device, sizeof history->device, "%s", device->name);
        verdict_way(device, &history->way);
}

void why_history_step(struct why_history *history, const struct state *state)
{
        double wa = sum_of(state, "wa"), seconds = state_seconds(state, SCOPE_CPU);

        if (wa < 0 || !(seconds > 0))
                return;
        size_t at = (history->first + history->count) % WHY_STEPS;
        if (history->count == WHY_STEPS)
                history->first = (history->first + 1) % WHY_STEPS;
        else
                history->count++;
        history->steps[at] = (struct why_step){.real_ns = state_info(state).real_ns, .seconds = (float)seconds,
                                               .kind = kind_of(wa, sum_of(state, "wa_disk"), sum_of(state, "wa_uring"), sum_of(state,
                                                       "wa_other")),
                                               .await = await_of(history, state)};
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------- */

static const struct why_step *step_at(const struct why_history *history, size_t index)
{
        return &history->steps[(history->first + index) % WHY_STEPS];
}

/* The first step of the run that lasts until the end, in which `holds` is true but for lapses. count: there is no such run. */
static size_t run_start(const struct why_history *history, bool (*holds)(const struct why_step *, const void *), const void *arg)
{
        size_t start = history->count;
        double lapse = 0;

        for (size_t i = history->count; i-- > 0;) {
                const struct why_step *step = step_at(history, i);
                if (holds(step, arg)) {
                        start = i;
                        lapse = 0;
                } else if ((lapse += (double)step->seconds) > LAPSE) {
                        break;
                }
        }
        return start;
}

static uint64_t begin_of(const struct why_step *step)
{
        return step->real_ns - (uint64_t)((double)step->seconds * 1e9);
}

static bool same_kind(const struct why_step *step, const void *kind)
{
        return step->kind == *(const enum why_kind *)kind;
}

static bool slow(const struct why_step *step, const void *arg)
{
        (void)arg;
        return (double)step->await >= SLOW_MS;
}

static int by_value(const void *left, const void *right)
{
        float a = *(const float *)left, b = *(const float *)right;

        return a < b ? -1 : a > b;
}

static void answer_device(struct why_history *history)
{
        static float values[WHY_STEPS];
        size_t start = run_start(history, slow, NULL), count = 0;

        if (!history->device[0])
                return;
        if (start < history->count) {
                history->slow_known = true;
                history->slow_whole = start == 0;
                history->slow_ns = begin_of(step_at(history, start));
        }
        for (size_t i = 0; i < start && i < history->count; i++)
                if (step_at(history, i)->await >= 0)
                        values[count++] = step_at(history, i)->await;
        if (count < NORMAL_STEPS)
                return;
        qsort(values, count, sizeof *values, by_value);
        history->normal = (double)values[count / 2];
}

static double number(const struct value *value)
{
        return value->kind == VALUE_NUMBER ? value->number : -1;
}

void why_history_answer(struct why_history *history, const struct tally *tally)
{
        enum why_kind kind = kind_of(number(&tally->wa), number(&tally->disk), number(&tally->uring), number(&tally->other));

        /* asked again after each step while a screen shows it */
        history->since_known = history->since_whole = history->slow_known = history->slow_whole = false;
        history->normal = -1;
        if (history->count == 0)
                return;
        uint64_t end = step_at(history, history->count - 1)->real_ns, begin = begin_of(step_at(history, 0));
        history->span = end > begin ? (double)(end - begin) * 1e-9 : 0;
        size_t start = run_start(history, same_kind, &kind);
        if (start < history->count && kind != WHY_QUIET) {
                history->since_known = true;
                history->since_whole = start == 0;
                history->since_ns = begin_of(step_at(history, start));
                history->since_seconds = end > history->since_ns ? (double)(end - history->since_ns) * 1e-9 : 0;
        }
        answer_device(history);
}

/* ---- the ring
 * -------------------------------------------------------------------------------------------------------------------------- */

static int walk(struct why_history *history, struct ring *ring, struct cursor *cursor, struct state *state)
{
        const struct schema *schema = ring_schema(ring);
        const struct frame_head *frame;
        bool based = false;

        for (;;) {
                int r = cursor_next(cursor, &frame);
                if (r == CURSOR_OVERRUN || r == -EBADMSG) {
                        state_lost(state);
                        continue;
                }
                if (r != CURSOR_FRAME)
                        return r < 0 ? r : 0;
                r = state_apply(state, frame, schema);
                if (r < 0)
                        return r;
                struct state_info info = state_info(state);
                if (r != 0 || !based || !info.valid) {
                        based = based || info.to_sequence != 0;
                        if (r != STATE_STALE)
                                state_base(state);
                        continue;
                }
                if (info.mono_ns - info.base_mono_ns < STEP_NS)
                        continue;
                why_history_step(history, state);
                state_base(state);
        }
}

int why_history_walk(struct why_history *history, struct ring *ring, const struct tally *tally, const struct verdict *verdict)
{
        struct cursor *cursor = NULL;
        struct state *state = NULL;

        why_history_ask(history, tally, verdict);
        int r = cursor_new(ring, &cursor);
        if (r == 0)
                r = state_new(&state);
        if (r == 0) {
                cursor_seek_sequence(cursor, 1); /* the oldest full frame */
                r = walk(history, ring, cursor, state);
        }
        if (r == 0)
                why_history_answer(history, tally);
        state_free(state);
        cursor_free(cursor);
        return r;
}

/*
 * The reader: frames go in, an interval's values come out.
 *
 * A frame is judged as a whole before a single row of it is used: either it applies, or nothing changed. What an interval cannot tell is
 * absent: rows that were not there at the base and were not born after it, counters that restarted inside it, everything across a
 * suspend or a reboot. Rates after lost frames are true rates over the longer time, because rows keep the time of their own base.
 */
#include "sample/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/frame.h"
#include "sample/rows.h"

#define SUSPEND_NS INT64_C(100000000)     /* boot time may gain this on monotonic time before it counts as a suspend */
#define START_FLOOR_NS UINT64_C(10000000) /* /proc/PID/stat field 22 is in ticks of 10 ms, rounded down */
#define FUTURE_NS UINT64_C(1000000000)    /* a start this far ahead of the read cannot be */

/* A state that is never based again would keep every process that ever ended. */
enum { GONE_MAX = 1 << 18 };

struct reader_row {
        struct entry entry;
        struct state_row out;
        bool dirty;                /* now and base may differ */
};

struct scope_state {
        struct rows rows;
        int born_slot;             /* of the metric with the time of birth, -1 none */
        uint32_t epoch;            /* of the frame applied last */
        size_t gone;               /* rows that left in this interval */
        uint64_t base_start_ns, start_ns; /* CLOCK_MONOTONIC; 0 = never seen */
};

struct state {
        struct scope_state scopes[SCOPE_COUNT];
        struct schema own;
        bool stale;
        bool based;                /* base is a frame */
        uint64_t base_sequence;
        struct { uint64_t mono_ns, boot_ns; } base;
        struct frame_head head;    /* newest frame applied; sequence 0 = none */
        enum gap gap;
        uint32_t missed;
};

int state_new(struct state **out)
{
        struct state *state = calloc(1, sizeof(*state));

        if (!state)
                return -ENOMEM;
        for (int i = 0; i < SCOPE_COUNT; i++) {
                struct scope_state *scope = &state->scopes[i];

                rows_init(&scope->rows, (enum scope)i, sizeof(struct reader_row));
                scope->born_slot = scopes[i].born == METRIC_NONE ? -1 : metric_slot(scopes[i].born);
        }
        schema_own(&state->own);
        *out = state;
        return 0;
}

void state_free(struct state *state)
{
        if (!state)
                return;
        for (int i = 0; i < SCOPE_COUNT; i++)
                rows_fini(&state->scopes[i].rows);
        free(state);
}

void state_lost(struct state *state)
{
        state->stale = true;
}

static bool every(struct entry *entry, void *arg)
{
        return true;
}

void state_clear(struct state *state)
{
        for (int i = 0; i < SCOPE_COUNT; i++) {
                struct scope_state *scope = &state->scopes[i];

                rows_sweep(&scope->rows, every, NULL);
                scope->gone = 0;
                scope->base_start_ns = scope->start_ns = 0;
        }
        state->stale = state->based = false;
        state->base_sequence = 0;
        state->base.mono_ns = state->base.boot_ns = 0;
        state->head = (struct frame_head){0};
        state->gap = GAP_NONE;
        state->missed = 0;
}

/* ---- the base ---------------------------------------------------------------------------------------------------------------- */

static bool is_gone(struct entry *entry, void *arg)
{
        return ((struct reader_row *)entry)->out.gone;
}

static void drop_gone(struct scope_state *scope)
{
        if (scope->gone > 0)
                rows_sweep(&scope->rows, is_gone, NULL);
        scope->gone = 0;
}

static void base_row(const struct rows *rows, struct reader_row *row)
{
        struct entry *entry = &row->entry;

        row->out.base_ns = row->out.now_ns;
        if (!row->dirty)
                return;
        memcpy(entry->then, entry->now, sizeof(uint64_t) * rows->slots);
        entry->then_present = row->out.base_present = entry->present;
        row->out.restarted = 0;
        row->out.has_base = true;
        row->out.born = false;
        row->dirty = false;
}

static void make_base(struct state *state)
{
        for (int i = 0; i < SCOPE_COUNT; i++) {
                struct scope_state *scope = &state->scopes[i];

                drop_gone(scope);
                scope->base_start_ns = scope->start_ns;
                for (size_t j = 0; j < scope->rows.count; j++)
                        base_row(&scope->rows, (struct reader_row *)scope->rows.order[j]);
        }
        state->based = state->head.sequence != 0;
        state->base_sequence = state->head.sequence;
        state->base.mono_ns = state->head.mono_ns;
        state->base.boot_ns = state->head.boot_ns;
}

void state_base(struct state *state)
{
        make_base(state);
        state->gap = GAP_NONE;
        state->missed = 0;
}

void state_gap(struct state *state, enum gap gap)
{
        make_base(state);
        state->gap = gap;
        state->missed = 0;
}

/* ---- is this frame one that we understand ------------------------------------------------------------------------------------ */

static bool row_fits(const struct row_head *row, uint64_t slots, uint64_t text_slots)
{
        size_t numbers = (size_t)__builtin_popcountll(row->present & ~text_slots);
        size_t length = sizeof(*row) + 8 * numbers;

        if (row->kind == ROW_TOMBSTONE)
                return true;
        if ((row->present & ~slots) || (row->texts & ~text_slots) || length > row->length)
                return false;
        for (int n = __builtin_popcountll(row->texts); n > 0; n--) {
                uint16_t text;

                if (row->length - length < sizeof text)
                        return false;
                memcpy(&text, (const char *)row + length, sizeof text);
                length += sizeof text;
                if (text > TEXT_MAX || row->length - length < text)
                        return false;
                length += text;
        }
        return frame_align(length) == row->length;
}

static bool frame_fits(const struct frame_head *head, const struct schema *schema)
{
        for (const struct scope_head *scope = NULL; (scope = frame_scope_next(head, scope));) {
                uint64_t slots = schema->slots[scope->scope], texts = schema->text[scope->scope];

                for (const struct row_head *row = NULL; (row = frame_row_next(scope, row));)
                        if (!row_fits(row, slots, texts))
                                return false;
        }
        return true;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

/* True when a growing value that fell did so because it passed its modulus: only near the top, and only to near the bottom. */
static bool unwraps(uint64_t base, uint64_t now, uint64_t wrap)
{
        return wrap != 0 && base < wrap && base >= wrap - wrap / 16 && now < wrap / 16;
}

/* A fall between two frames that the ends of the interval may no longer show. A counter's fall is a restart. A time's is one when it
 * began again after the row was read last; smaller falls are the kernel taking time back, and are judged at the ends. */
static bool restarts(const struct metric_info *metric, uint64_t before, uint64_t now, uint64_t step_ns, uint64_t elapsed_ns)
{
        if (unwraps(before, now, metric->wrap))
                return false;
        if (metric->kind != KIND_TIME)
                return true;
        return before - now > elapsed_ns && now <= step_ns + START_FLOOR_NS;
}

/* When a row was read. */
static uint64_t row_time(uint64_t start_ns, int32_t offset_us)
{
        int64_t offset_ns = (int64_t)offset_us * 1000;

        return offset_ns < 0 && (uint64_t)-offset_ns > start_ns ? 0 : start_ns + (uint64_t)offset_ns;
}

struct applying {
        struct state *state;
        struct scope_state *scope;
        const struct schema *schema;
        unsigned theirs;           /* writer's number of the scope */
        int first;                 /* metric id of our slot 0 */
        uint64_t start_ns;
        bool full;
};

/* Decode the numbers; returns the slots of ours that are present. */
static uint64_t take_numbers(const struct applying *a, struct reader_row *row, const struct row_head *from, uint64_t old_present,
                             uint64_t step_ns, uint64_t elapsed_ns)
{
        const short *map = a->schema->metric[a->theirs];
        const uint64_t *value = (const uint64_t *)(from + 1);
        uint64_t present = 0, watched = old_present & a->scope->rows.grows;
        uint64_t *now = row->entry.now;

        for (uint64_t bits = from->present & ~a->schema->text[a->theirs]; bits; bits &= bits - 1, value++) {
                int metric = map[__builtin_ctzll(bits)];

                if (metric == METRIC_NONE)
                        continue;
                unsigned slot = (unsigned)(metric - a->first);
                uint64_t bit = UINT64_C(1) << slot;
                if (*value < now[slot] && (watched & bit) && restarts(&metrics[metric], now[slot], *value, step_ns, elapsed_ns))
                        row->out.restarted |= bit;
                now[slot] = *value;
                present |= bit;
        }
        /* What was absent for a while may count something else when it comes back: a sum over other threads, another file. */
        row->out.restarted |= watched & ~present;
        for (uint64_t bits = old_present & ~present & ~a->scope->rows.texts; bits; bits &= bits - 1)
                now[__builtin_ctzll(bits)] = 0;
        return present;
}

/* Texts that the frame carries, and those that stay as they were. Returns slots of ours, or sets *error. */
static uint64_t take_texts(const struct applying *a, struct reader_row *row, const struct row_head *from, int *error)
{
        const short *map = a->schema->metric[a->theirs];
        uint64_t all = a->schema->text[a->theirs], present = 0;
        const char *at = (const char *)(from + 1) + 8 * __builtin_popcountll(from->present & ~all);

        for (uint64_t bits = from->present & all; bits; bits &= bits - 1) {
                int metric = map[__builtin_ctzll(bits)];
                bool carried = (from->texts & bits & -bits) != 0;
                uint64_t bit = metric == METRIC_NONE ? 0 : UINT64_C(1) << (metric - a->first);

                if (!carried) {
                        present |= bit & row->entry.present;
                        continue;
                }
                uint16_t length;
                memcpy(&length, at, sizeof length);
                at += sizeof length;
                if (bit && rows_text_set(&a->scope->rows, &row->entry, (unsigned)(metric - a->first), at, length) < 0)
                        *error = -ENOMEM;
                else
                        present |= bit;
                at += length;
        }
        return present;
}

/* A new row counts from 0 when it was born after the base: its clock says so, give or take the rounding of that clock. */
static void judge_birth(const struct applying *a, struct reader_row *row)
{
        const struct state *state = a->state;
        int slot = a->scope->born_slot;

        if (!state->based || slot < 0 || !(row->entry.present & (UINT64_C(1) << slot)))
                return;
        uint64_t start = row->entry.now[slot];
        uint64_t ahead = state->base.boot_ns - state->base.mono_ns; /* of boot time over monotonic time */
        uint64_t base_boot = state->base.boot_ns, base_ns = state->base.mono_ns;

        if (a->scope->base_start_ns != 0) {
                base_ns = a->scope->base_start_ns;
                base_boot = base_ns + ahead;
        }
        /* A start in the future is a clock of another kind (a container's), and proves nothing. */
        if (start + START_FLOOR_NS <= base_boot || start > row_time(a->start_ns, row->entry.offset_us) + ahead + FUTURE_NS)
                return;
        memset(row->entry.then, 0, sizeof(uint64_t) * a->scope->rows.slots);
        row->out.born = row->out.has_base = true;
        row->out.base_present = row->entry.then_present = a->scope->rows.grows;
        row->out.base_ns = row_time(base_ns, row->entry.offset_us);
}

static struct reader_row *new_row(const struct applying *a, struct key key)
{
        struct reader_row *row = (struct reader_row *)rows_add(&a->scope->rows, key);

        if (!row)
                return NULL;
        row->out.key = key;
        row->out.scope = (enum scope)(a->scope - a->state->scopes);
        row->out.now = row->entry.now;
        row->out.base = row->entry.then;
        return row;
}

/* The row left and came back within the interval: what it counts may have begun anew. */
static void revive(const struct applying *a, struct reader_row *row)
{
        row->out.gone = row->out.has_base = row->out.born = false;
        row->out.reason = 0;
        row->out.restarted = row->out.base_present = row->entry.then_present = 0;
        row->out.base_ns = 0;
        row->entry.present = 0;
        memset(row->entry.now, 0, sizeof(uint64_t) * a->scope->rows.slots);
        a->scope->gone--;
}

static int apply_values(const struct applying *a, const struct row_head *from)
{
        struct reader_row *row = (struct reader_row *)rows_find_next(&a->scope->rows, from->key);
        bool fresh = !row || row->out.gone;
        int error = 0;

        if (!row)
                row = new_row(a, from->key);
        else if (row->out.gone)
                revive(a, row);
        if (!row)
                return -ENOMEM;
        uint64_t now_ns = row_time(a->start_ns, from->offset_us), old = row->entry.present;
        uint64_t step_ns = now_ns > row->out.now_ns ? now_ns - row->out.now_ns : 0;
        uint64_t elapsed_ns = now_ns > row->out.base_ns ? now_ns - row->out.base_ns : 0;
        uint64_t present = take_numbers(a, row, from, old, step_ns, elapsed_ns);

        present |= take_texts(a, row, from, &error);
        row->entry.present = row->out.present = present;
        row->entry.epoch = a->scope->epoch;
        row->entry.offset_us = from->offset_us;
        row->dirty = true;
        if (fresh)
                judge_birth(a, row);
        return error;
}

static void bury(struct scope_state *scope, struct reader_row *row, uint8_t reason)
{
        if (row->out.gone)
                return;
        row->out.gone = true;
        row->out.reason = reason;
        scope->gone++;
}

/* Every row that lives was read again, so its time moves; one that was not is sent, with an offset that goes back. In a full frame, a row
 * that is not in it left. */
static void advance_rows(const struct applying *a)
{
        const struct rows *rows = &a->scope->rows;

        for (size_t i = 0; i < rows->count; i++) {
                struct reader_row *row = (struct reader_row *)rows->order[i];

                if (a->full && row->entry.epoch != a->scope->epoch)
                        bury(a->scope, row, 0);
                else if (!row->out.gone)
                        row->out.now_ns = row_time(a->start_ns, row->entry.offset_us);
        }
}

static int apply_scope(const struct applying *a, const struct scope_head *head)
{
        int error = 0;

        if (a->scope->gone > GONE_MAX)
                drop_gone(a->scope);
        a->scope->rows.cursor = 0;
        for (const struct row_head *row = NULL; (row = frame_row_next(head, row));) {
                if (row->kind == ROW_TOMBSTONE) {
                        struct entry *entry = rows_find_next(&a->scope->rows, row->key);

                        if (entry)
                                bury(a->scope, (struct reader_row *)entry, row->reason);
                } else {
                        int e = apply_values(a, row);

                        error = e < 0 ? e : error;
                }
        }
        a->scope->start_ns = a->start_ns;
        advance_rows(a);
        return error;
}

static int apply_scopes(struct state *state, const struct frame_head *head, const struct schema *schema)
{
        bool full = head->flags & FRAME_FULL, seen[SCOPE_COUNT] = {false};
        int error = 0;

        for (const struct scope_head *scope = NULL; (scope = frame_scope_next(head, scope));) {
                int ours = schema->scope[scope->scope];

                if (ours < 0)
                        continue;
                struct applying a = {
                        .state = state, .scope = &state->scopes[ours], .schema = schema, .theirs = scope->scope,
                        .first = scopes[ours].first, .start_ns = scope->start_ns, .full = full,
                };
                a.scope->epoch++;
                seen[ours] = true;
                int e = apply_scope(&a, scope);
                error = e < 0 ? e : error;
        }
        for (int i = 0; full && i < SCOPE_COUNT; i++)
                for (size_t j = 0; !seen[i] && j < state->scopes[i].rows.count; j++)
                        bury(&state->scopes[i], (struct reader_row *)state->scopes[i].rows.order[j], 0);
        return error;
}

/* ---- frames ------------------------------------------------------------------------------------------------------------------ */

/* What the step from the newest frame to this one is, beside what the writer says. GAP_REBOOT and GAP_RESET here mean that nothing we
 * know still holds. */
static enum gap step_gap(const struct state *state, const struct frame_head *head)
{
        const struct frame_head *last = &state->head;

        if (memcmp(last->boot_id, head->boot_id, sizeof head->boot_id) != 0)
                return GAP_REBOOT;
        /* Another writer, whose own sums begin at 0; or a reader that went back in time. */
        if (head->writer_ns != last->writer_ns || head->sequence <= last->sequence || head->mono_ns < last->mono_ns)
                return GAP_RESET;
        int64_t gained = (int64_t)((head->boot_ns - head->mono_ns) - (last->boot_ns - last->mono_ns));
        if (gained > SUSPEND_NS)
                return GAP_SUSPEND;
        return head->sequence != last->sequence + 1 || head->missed > 0 ? GAP_LATE : GAP_NONE;
}

int state_apply(struct state *state, const void *frame, const struct schema *schema)
{
        const struct frame_head *head = frame;
        bool full = head->flags & FRAME_FULL, first = state->head.sequence == 0;
        enum gap gap = head->gap <= GAP_RESET ? (enum gap)head->gap : GAP_RESET;

        if (!schema)
                schema = &state->own;
        if (!full && (first || state->stale || head->sequence != state->head.sequence + 1)) {
                state->stale = true;
                return STATE_STALE;
        }
        if (!frame_fits(head, schema)) {
                state->stale = true; /* what it would have told is missing from now on */
                return -EBADMSG;
        }
        if (!first) {
                enum gap step = step_gap(state, head);

                if (step == GAP_REBOOT || step == GAP_RESET) {
                        state_clear(state);
                        if (!full) {
                                state->stale = true;
                                return STATE_STALE;
                        }
                }
                gap = step > gap ? step : gap;
        }
        int error = apply_scopes(state, head, schema);

        state->stale = error < 0;
        state->head = *head;
        bool restart = gap > GAP_LATE;
        if (!first) {
                state->missed += head->missed;
                state->gap = gap > state->gap ? gap : state->gap;
        }
        if (restart || !state->based)
                make_base(state);
        if (error < 0)
                return error;
        return restart && !first ? STATE_GAP : 0;
}

/* ---- what a view asks for ----------------------------------------------------------------------------------------------------- */

struct state_info state_info(const struct state *state)
{
        const struct frame_head *head = &state->head;
        struct state_info info = {
                .from_sequence = state->base_sequence, .to_sequence = head->sequence,
                .base_mono_ns = state->base.mono_ns, .mono_ns = head->mono_ns, .boot_ns = head->boot_ns, .real_ns = head->real_ns,
                .tick_ns = head->tick_ns, .gap = state->gap, .missed = state->missed, .scopes_on = head->scopes_on, .flags = head->flags,
                .valid = state->based && head->sequence > state->base_sequence,
        };

        memcpy(info.boot_id, head->boot_id, sizeof info.boot_id);
        return info;
}

static double seconds_between(uint64_t from, uint64_t to)
{
        return from != 0 && to > from ? (double)(to - from) * 1e-9 : 0;
}

double state_seconds(const struct state *state, enum scope scope)
{
        return seconds_between(state->scopes[scope].base_start_ns, state->scopes[scope].start_ns);
}

double state_row_seconds(const struct state_row *row)
{
        return row->has_base ? seconds_between(row->base_ns, row->now_ns) : 0;
}

static const struct reader_row *reader_row(const struct state_row *row)
{
        return (const void *)((const char *)row - offsetof(struct reader_row, out));
}

size_t state_count(const struct state *state, enum scope scope)
{
        return state->scopes[scope].rows.count;
}

const struct state_row *state_at(const struct state *state, enum scope scope, size_t index)
{
        const struct rows *rows = &state->scopes[scope].rows;

        return index < rows->count ? &((struct reader_row *)rows->order[index])->out : NULL;
}

const struct state_row *state_find(const struct state *state, enum scope scope, struct key key)
{
        struct reader_row *row = (struct reader_row *)rows_find(&state->scopes[scope].rows, key);

        return row ? &row->out : NULL;
}

const struct state_row *state_one(const struct state *state, enum scope scope)
{
        return state->scopes[scope].rows.count == 1 ? state_at(state, scope, 0) : NULL;
}

/* The slot's bit in a row, 0 when the metric is not of its scope. */
static uint64_t bit_of(const struct state_row *row, int metric, unsigned *slot)
{
        *slot = (unsigned)(metric - scopes[row->scope].first);
        return *slot < (unsigned)scopes[row->scope].count ? UINT64_C(1) << *slot : 0;
}

int state_delta(const struct state_row *row, int metric, double *delta)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot);

        if (!row->has_base || !(row->base_present & row->present & bit))
                return DELTA_ABSENT;
        const struct metric_info *info = &metrics[metric];
        if (info->kind != KIND_COUNTER && info->kind != KIND_TIME)
                return DELTA_ABSENT;
        if (row->restarted & bit)
                return DELTA_RESET;
        uint64_t base = row->base[slot], now = row->now[slot];
        if (now >= base) {
                *delta = (double)(now - base);
                return DELTA_OK;
        }
        if (unwraps(base, now, info->wrap)) {
                *delta = (double)(info->wrap - base + now);
                return DELTA_UNWRAPPED;
        }
        if (info->kind == KIND_TIME && row->now_ns > row->base_ns && base - now <= row->now_ns - row->base_ns) {
                *delta = 0;
                return DELTA_CLAMPED;
        }
        return DELTA_RESET;
}

bool state_now(const struct state_row *row, int metric, uint64_t *value)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot);

        if (!(row->present & bit) || metrics[metric].kind == KIND_TEXT)
                return false;
        *value = row->now[slot];
        return true;
}

const char *state_text(const struct state *state, const struct state_row *row, int metric, size_t *length)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot);
        const struct rows *rows = &state->scopes[row->scope].rows;

        if (!(row->present & bit & rows->texts))
                return NULL;
        const struct entry_text *text = rows_text(rows, &reader_row(row)->entry, slot);
        *length = text->length;
        return text->bytes ? text->bytes : "";
}

char *state_text_copy(const struct state *state, const struct state_row *row, int metric, char *buffer, size_t size)
{
        size_t length = 0;
        const char *text = state_text(state, row, metric, &length);

        if (size == 0)
                return buffer;
        if (!text)
                length = 0;
        if (length > size - 1)
                length = size - 1;
        for (size_t i = 0; i < length; i++)
                buffer[i] = text[i] ? text[i] : ' ';
        buffer[length] = 0;
        return buffer;
}

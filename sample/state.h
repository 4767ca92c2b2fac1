#pragma once
/*
 * A reader's state: frames go in, an interval's values come out.
 *
 * It holds every row twice: as it was at the base (start of the interval) and as it is now. state_apply moves `now`,
 * state_base makes `now` the base of the next interval. Rates use each row's own time. What cannot be paired (a row that was not
 * there at the base, a counter that was reset, an interval with suspend in it) is absent, never 0 and never invented.
 */
#include "sample/sample.h"

struct state;

struct state_row {
        struct key key;
        enum scope scope;
        bool has_base;               /* seen at the base, or born after it (then the base is 0) */
        bool born;                   /* born after the base: its base values are 0 */
        bool gone;                   /* tombstone received in this interval */
        uint8_t reason;              /* enum tombstone */
        uint64_t base_ns, now_ns;    /* CLOCK_MONOTONIC of the row's own reads */
        uint64_t base_present, present;
        const uint64_t *base, *now;  /* by slot of this build */
        uint64_t restarted;          /* counters and times that began anew, or were absent for a while, inside the interval: no delta */
};

int state_new(struct state **);
void state_free(struct state *);

enum { STATE_STALE = 1, STATE_GAP = 2 };
/* Apply a frame (checked with frame_check). schema NULL = this build's. 0; STATE_STALE: frames are missing and this one is not full, it
 * was ignored; STATE_GAP: applied, and the base was reset (suspend, reboot, other boot id): no rates until the next frame;
 * -ENOMEM, -EBADMSG (row bits that the schema does not know). A full frame always applies. */
int state_apply(struct state *, const void *frame, const struct schema *);
/* Reader knows that frames were lost: everything is stale until the next full frame. */
void state_lost(struct state *);
/* What is known now becomes the base of the next interval; gone rows are dropped (in an interval without end, when they are very many). */
void state_base(struct state *);
/* Nobody knows what happened up to now (the source was away): what is known becomes the base, and until state_base the interval is absent
 * and its gap is this one. */
void state_gap(struct state *, enum gap);
/* Forget all: the next frame is a new beginning. */
void state_clear(struct state *);

struct state_info {
        uint64_t from_sequence, to_sequence; /* 0 = no frame yet */
        uint64_t base_mono_ns, mono_ns, boot_ns, real_ns, tick_ns;
        enum gap gap;                /* worst gap inside the interval */
        uint32_t missed, scopes_on, flags;
        uint8_t boot_id[16];
        bool valid;                  /* there is a base and rates can be computed */
};
struct state_info state_info(const struct state *);
/* Elapsed seconds between base and now by the scope's own stamps; 0 when unknown. */
double state_seconds(const struct state *, enum scope);
/* Elapsed seconds by the row's own reads. */
double state_row_seconds(const struct state_row *);

/* Rows of a scope in a stable order (insertion order; order of ids is the view's business). */
size_t state_count(const struct state *, enum scope);
const struct state_row *state_at(const struct state *, enum scope, size_t index);
const struct state_row *state_find(const struct state *, enum scope, struct key);
/* The only row of a one-row scope, NULL when there is none. */
const struct state_row *state_one(const struct state *, enum scope);

enum { DELTA_OK, DELTA_ABSENT, DELTA_CLAMPED, DELTA_UNWRAPPED, DELTA_RESET };
/* Growth of a counter or time over the interval, by the metric's rule (metrics.def). *delta is set for OK, CLAMPED, UNWRAPPED. */
int state_delta(const struct state_row *, int metric, double *delta);
/* Level now; false when absent. */
bool state_now(const struct state_row *, int metric, uint64_t *value);
/* Text now: raw bytes, not NUL-terminated; NULL when absent. Valid until the next state_apply. */
const char *state_text(const struct state *, const struct state_row *, int metric, size_t *length);
/* Copies the text as a C string (cut at size-1, inner NULs become blanks); "" when absent. Returns buffer. */
char *state_text_copy(const struct state *, const struct state_row *, int metric, char *buffer, size_t size);

#pragma once
/*
 * A cursor over a ring or a log: the next frame, or why there is none.
 */
#include "sample/log.h"
#include "sample/ring.h"

struct cursor;

/* The ring must outlive the cursor. Starts at the newest full frame, or where the next frame will be when there is none. */
int cursor_new(struct ring *, struct cursor **);
/* The log must outlive the cursor, and is moved by it. Starts at the first frame. */
int cursor_new_log(struct log *, struct cursor **);
void cursor_free(struct cursor *);

enum cursor_result {
        CURSOR_FRAME,    /* *frame is checked and valid until the next call */
        CURSOR_END,      /* nothing newer yet */
        CURSOR_OVERRUN,  /* frames were lost; the cursor stands at the newest full frame now (log: behind the damage): call again */
        CURSOR_GONE,     /* the writer is dead or ended the ring */
        CURSOR_EOF,      /* the end of a log that nobody writes any more */
};
/* Negative errno: -EBADMSG a damaged frame (the cursor moves to the newest full one), -ENOMEM. */
int cursor_next(struct cursor *, const struct frame_head **frame);
/* Wait for the next frame until timeout_ns passed (0 = do not wait); then as cursor_next. Signals return CURSOR_END. */
int cursor_wait(struct cursor *, uint64_t timeout_ns, const struct frame_head **frame);
/* Move to the newest full frame at or before the sequence or wall-clock time; CURSOR_FRAME when found (call next), CURSOR_END when it
 * lies in the future, CURSOR_OVERRUN when it is older than the ring (then at the oldest full frame). */
int cursor_seek_sequence(struct cursor *, uint64_t sequence);
int cursor_seek_time(struct cursor *, uint64_t real_ns);
int cursor_seek_newest(struct cursor *);

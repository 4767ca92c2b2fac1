/*
 * A cursor over a ring or a log.
 *
 * It stands at the position of the frame that comes next. When that frame was overwritten it jumps to the newest full frame, from which a
 * reader's state can start again. When none is left it stands behind everything, and the state waits for the next full frame.
 * Over a log it stands where the log does; damage is an overrun. A log's end is looked at again and again while its writer lives.
 */
#include "sample/cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* How long a writer may be dead before a waiting reader looks: a killed one wakes nobody. */
#define LOOK_NS UINT64_C(500000000)
/* How often the end of a growing log is looked at: nobody wakes its readers. */
#define LOG_LOOK_NS UINT64_C(50000000)

struct cursor {
        struct ring *ring;
        struct log *log; /* one of the two */
        uint64_t at;
        void *buffer;
        size_t capacity;
};

static uint64_t mono_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int log_seek_newest(struct cursor *c)
{
        struct log_info info;
        int r = log_get_info(c->log, &info);

        if (r < 0 || info.frames == 0)
                return r < 0 ? r : CURSOR_END;
        r = log_seek_sequence(c->log, info.last_sequence);
        return r < 0 ? r : CURSOR_FRAME;
}

int cursor_seek_newest(struct cursor *c)
{
        if (c->log)
                return log_seek_newest(c);
        uint64_t full = ring_full(c->ring, false);
        if (full == UINT64_MAX)
                full = ring_full(c->ring, true);
        c->at = full != UINT64_MAX ? full : ring_head(c->ring);
        return full != UINT64_MAX ? CURSOR_FRAME : CURSOR_END;
}

int cursor_new(struct ring *ring, struct cursor **cursor)
{
        struct cursor *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        c->ring = ring;
        cursor_seek_newest(c);
        *cursor = c;
        return 0;
}

int cursor_new_log(struct log *log, struct cursor **cursor)
{
        struct cursor *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        c->log = log;
        log_rewind(log);
        *cursor = c;
        return 0;
}

void cursor_free(struct cursor *c)
{
        if (!c)
                return;
        free(c->buffer);
        free(c);
}

/* Behind a damaged frame: never back to it or before it, that would go round for ever. */
static void leave_damaged(struct cursor *c)
{
        uint64_t damaged = c->at;
        if (cursor_seek_newest(c) == CURSOR_FRAME && c->at <= damaged)
                c->at = ring_head(c->ring);
}

static int next_in_log(struct cursor *c, const struct frame_head **frame)
{
        bool growing = log_growing(c->log); /* asked first: what it wrote before it ended is found below */

        switch (log_next(c->log, frame)) {
        case LOG_FRAME: return CURSOR_FRAME;
        case LOG_END: return growing ? CURSOR_END : CURSOR_EOF;
        case LOG_DAMAGED: return CURSOR_OVERRUN;
        case -ENOMEM: return -ENOMEM;
        default: return -EIO;
        }
}

int cursor_next(struct cursor *c, const struct frame_head **frame)
{
        if (c->log)
                return next_in_log(c, frame);
        size_t length;
        int r = ring_copy(c->ring, c->at, &c->buffer, &c->capacity, &length);
        if (r == RING_END && !ring_alive(c->ring, mono_ns())) {
                /* It may have published between the two looks, and died after. */
                r = ring_copy(c->ring, c->at, &c->buffer, &c->capacity, &length);
                if (r == RING_END)
                        return CURSOR_GONE;
        }
        switch (r) {
        case 0:
                *frame = c->buffer;
                c->at += ring_round(length);
                return CURSOR_FRAME;
        case RING_END:
                return CURSOR_END;
        case RING_OVERRUN:
                cursor_seek_newest(c);
                return CURSOR_OVERRUN;
        case RING_GONE:
                return CURSOR_GONE;
        case -EBADMSG:
                leave_damaged(c);
                return r;
        default:
                return r;
        }
}

/* True when something other than what stands at the cursor's end was published: waiting goes by position, so a lying sequence
 * number cannot keep us. */
static int wait_more(struct cursor *c, uint64_t timeout_ns)
{
        struct ring_info info;
        int r = ring_info(c->ring, &info);
        if (r < 0)
                return 1;
        if (ring_head(c->ring) != c->at)
                return 1;
        return ring_wait(c->ring, info.sequence, timeout_ns);
}

int cursor_wait(struct cursor *c, uint64_t timeout_ns, const struct frame_head **frame)
{
        uint64_t start = mono_ns();
        for (;;) {
                int r = cursor_next(c, frame);
                uint64_t passed = mono_ns() - start;
                if (r != CURSOR_END || passed >= timeout_ns)
                        return r;
                uint64_t left = timeout_ns - passed;
                if (c->log) {
                        struct timespec pause = { .tv_nsec = (long)(left < LOG_LOOK_NS ? left : LOG_LOOK_NS) };
                        if (nanosleep(&pause, NULL) < 0)
                                return CURSOR_END;
                        continue;
                }
                if (wait_more(c, left < LOOK_NS ? left : LOOK_NS) == -EINTR)
                        return CURSOR_END;
        }
}

/* ---- search ------------------------------------------------------------------------------------------------------------------- */

static uint64_t frame_sequence(const struct frame_head *h)
{
        return h->sequence;
}

static uint64_t frame_time(const struct frame_head *h)
{
        return h->real_ns;
}

struct search {
        uint64_t found, oldest; /* full frames, UINT64_MAX none */
        bool future;            /* all frames are older than what is sought */
};

/* Walk all frames once. RING_END: done; else as ring_peek. */
static int walk(struct cursor *c, uint64_t (*of)(const struct frame_head *), uint64_t sought, struct search *s)
{
        struct frame_head h;
        uint64_t at = ring_tail(c->ring), end = ring_head(c->ring);
        *s = (struct search){ .found = UINT64_MAX, .oldest = UINT64_MAX, .future = true };
        while (at < end) {
                int r = ring_peek(c->ring, at, &h);
                if (r != 0)
                        return r;
                if (of(&h) >= sought)
                        s->future = false;
                if (h.flags & FRAME_FULL) {
                        if (s->oldest == UINT64_MAX)
                                s->oldest = at;
                        if (of(&h) <= sought)
                                s->found = at;
                }
                at += ring_round(h.length);
        }
        return RING_END;
}

static int seek(struct cursor *c, uint64_t (*of)(const struct frame_head *), uint64_t sought)
{
        struct search s;
        int r = RING_OVERRUN;
        for (int tries = 0; tries < 8 && r == RING_OVERRUN; tries++)
                r = walk(c, of, sought, &s);
        if (r == RING_GONE)
                return CURSOR_GONE;
        if (r != RING_END) {
                cursor_seek_newest(c);
                return r == RING_OVERRUN ? CURSOR_OVERRUN : r;
        }
        if (s.future || s.oldest == UINT64_MAX) {
                cursor_seek_newest(c);
                return CURSOR_END;
        }
        c->at = s.found != UINT64_MAX ? s.found : s.oldest;
        return s.found != UINT64_MAX ? CURSOR_FRAME : CURSOR_OVERRUN;
}

static int seek_log(struct cursor *c, int result, bool future)
{
        if (result == -ENOENT) {
                log_rewind(c->log);
                return CURSOR_OVERRUN;
        }
        return result < 0 ? result : future ? CURSOR_END : CURSOR_FRAME;
}

int cursor_seek_sequence(struct cursor *c, uint64_t sequence)
{
        struct log_info info;
        if (c->log)
                return seek_log(c, log_seek_sequence(c->log, sequence), log_get_info(c->log, &info) == 0 && sequence > info.last_sequence);
        return seek(c, frame_sequence, sequence);
}

int cursor_seek_time(struct cursor *c, uint64_t real_ns)
{
        struct log_info info;
        if (c->log)
                return seek_log(c, log_seek_time(c->log, real_ns), log_get_info(c->log, &info) == 0 && real_ns > info.last_real_ns);
        return seek(c, frame_time, real_ns);
}

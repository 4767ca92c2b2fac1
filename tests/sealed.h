#pragma once
/*
 * Small helpers for tests that write frames and read them back: a clock that is moved by hand, and a copy of the sealed frame.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample/sample.h"

#define SECOND UINT64_C(1000000000)

struct sealed {
        struct sample *sample;
        uint64_t mono, boot;       /* of the tick that runs */
        uint8_t boot_id;
        enum gap gap;
        uint32_t missed, flags;
        const struct frame_head *frame;
        size_t length;
};

static inline void sealed_open(struct sealed *s)
{
        *s = (struct sealed){.mono = 1000 * SECOND, .boot = 1500 * SECOND, .boot_id = 7};
        if (sample_new(&s->sample) < 0)
                abort();
}

/* A fact of 4 kB, so that the deltas of a test do not soon outgrow the full frame. Call within the first tick. */
static inline void sealed_ballast(struct sealed *s)
{
        static char text[TEXT_MAX];

        memset(text, 'x', sizeof text);
        sample_scope_begin(s->sample, SCOPE_FACT, s->mono);
        row_text(sample_row(s->sample, SCOPE_FACT, (struct key){99, 99}, 0), FACT_VALUE, text, sizeof text);
        sample_scope_end(s->sample, SCOPE_FACT, s->mono, GONE_EXITED);
}

static inline void sealed_close(struct sealed *s)
{
        sample_free(s->sample);
}

/* Move the clocks and begin a tick. */
static inline void sealed_tick(struct sealed *s, uint64_t step_ns)
{
        s->mono += step_ns;
        s->boot += step_ns;
        sample_begin(s->sample, &(struct sample_stamp){s->mono, s->boot, UINT64_C(1700000000) * SECOND + s->boot});
}

/* Seal it; the frame is the sample's until the next one. */
static inline const struct frame_head *sealed_seal(struct sealed *s)
{
        struct seal seal = {.flags = s->flags, .gap = s->gap, .missed = s->missed, .scopes_on = 1, .tick_ns = SECOND};
        const void *frame;

        memset(seal.boot_id, s->boot_id, sizeof seal.boot_id);
        if (sample_seal(s->sample, &seal, &frame, &s->length) < 0)
                abort();
        s->frame = frame;
        return s->frame;
}

static inline void *sealed_copy(const struct sealed *s)
{
        void *copy = malloc(s->length);

        if (!copy)
                abort();
        return memcpy(copy, s->frame, s->length);
}

static inline struct key key_of(uint64_t a)
{
        return (struct key){.a = a, .b = 1};
}

static inline const struct scope_head *sealed_scope(const struct frame_head *frame, enum scope scope)
{
        const struct scope_head *head = NULL;

        while ((head = frame_scope_next(frame, head)))
                if (head->scope == (uint32_t)scope)
                        return head;
        return NULL;
}

static inline const struct row_head *sealed_row(const struct frame_head *frame, enum scope scope, struct key key, enum row_kind kind)
{
        const struct scope_head *head = sealed_scope(frame, scope);

        for (const struct row_head *row = NULL; head && (row = frame_row_next(head, row));)
                if (row->kind == kind && row->key.a == key.a && row->key.b == key.b)
                        return row;
        return NULL;
}

/* xorshift: the same numbers on every machine. */
static inline uint64_t sealed_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

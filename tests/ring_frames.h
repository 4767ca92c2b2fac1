#pragma once
/*
 * Frames whose every word follows from their sequence number, so that a reader can tell a mixed one from a whole one. For the tests of the
 * ring and its fuzzer.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sample/frame.h"
#include "sample/sample.h"

enum { MADE_HEADS = sizeof(struct frame_head) + sizeof(struct scope_head) + sizeof(struct row_head) };

static inline uint64_t made_word(uint64_t sequence, size_t index)
{
        return (sequence * UINT64_C(0x9e3779b97f4a7c15)) ^ (index * UINT64_C(0xc2b2ae3d27d4eb4f));
}

/* A frame of `words` words behind its heads; its length. The buffer is 8-byte aligned. */
static inline size_t made_frame(void *buffer, uint64_t sequence, uint64_t full_sequence, size_t words)
{
        size_t length = MADE_HEADS + words * 8;
        struct frame_head *h = buffer;
        struct scope_head *s = (void *)(h + 1);
        struct row_head *r = (void *)(s + 1);
        uint64_t *body = (void *)(r + 1);
        memset(buffer, 0, MADE_HEADS);
        *h = (struct frame_head){ .magic = FRAME_MAGIC, .layout = FRAME_LAYOUT, .length = (uint32_t)length, .sequence = sequence,
                .flags = full_sequence == sequence ? FRAME_FULL : 0, .full_sequence = full_sequence, .scopes = 1,
                .mono_ns = sequence * 1000, .real_ns = 1000000 + sequence * 1000 };
        s->rows = 1;
        s->length = (uint32_t)(length - sizeof *h);
        r->length = s->length - (uint32_t)sizeof *s;
        r->kind = ROW_VALUES;
        r->present = UINT64_MAX;
        for (size_t i = 0; i < words; i++)
                body[i] = made_word(sequence, i);
        h->crc = frame_crc(buffer, length);
        return length;
}

/* True when every word belongs to the frame's own sequence number. */
static inline bool made_whole(const struct frame_head *h)
{
        const uint64_t *body = (const void *)((const char *)h + MADE_HEADS);
        size_t words = (h->length - MADE_HEADS) / 8;
        for (size_t i = 0; i < words; i++)
                if (body[i] != made_word(h->sequence, i))
                        return false;
        return h->mono_ns == h->sequence * 1000;
}

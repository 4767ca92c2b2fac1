#pragma once
/*
 * Bytes of variable-length numbers, written into a buffer that grows and read from one that ends: for the log's coder and records.
 *
 * A reader that runs past the end, or a writer that is short of memory, is `failed` from then on and gives zeros; so callers look once, at
 * the end.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes_out {
        uint8_t *bytes;
        size_t used, room;
        bool failed;
};

static inline uint8_t *bytes_extend(struct bytes_out *out, size_t length)
{
        if (out->failed || length > SIZE_MAX / 4 - out->used) {
                out->failed = true;
                return NULL;
        }
        if (out->used + length > out->room) {
                size_t room = out->room ? out->room : 4096;

                while (room < out->used + length)
                        room *= 2;
                uint8_t *grown = realloc(out->bytes, room);
                if (!grown) {
                        out->failed = true;
                        return NULL;
                }
                out->bytes = grown;
                out->room = room;
        }
        uint8_t *at = out->bytes + out->used;
        out->used += length;
        return at;
}

static inline void put_bytes(struct bytes_out *out, const void *from, size_t length)
{
        uint8_t *at = length ? bytes_extend(out, length) : NULL;

        if (at)
                memcpy(at, from, length);
}

static inline void put_byte(struct bytes_out *out, unsigned value)
{
        uint8_t *at = bytes_extend(out, 1);

        if (at)
                *at = (uint8_t)value;
}

static inline void put_number(struct bytes_out *out, uint64_t value)
{
        for (; value >= 0x80; value >>= 7)
                put_byte(out, (unsigned)(value & 0x7f) | 0x80);
        put_byte(out, (unsigned)value);
}

/* Signed numbers near 0 become small ones. Differences wrap around, so any two words have one. */
static inline uint64_t zigzag(uint64_t difference)
{
        return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

static inline uint64_t unzigzag(uint64_t value)
{
        return value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
}

static inline void put_change(struct bytes_out *out, uint64_t from, uint64_t to)
{
        put_number(out, zigzag(to - from));
}

struct bytes_in {
        const uint8_t *at, *end;
        bool failed;
};

static inline const uint8_t *get_bytes(struct bytes_in *in, size_t length)
{
        if (in->failed || length > (size_t)(in->end - in->at)) {
                in->failed = true;
                return NULL;
        }
        const uint8_t *at = in->at;
        in->at += length;
        return at;
}

static inline unsigned get_byte(struct bytes_in *in)
{
        const uint8_t *at = get_bytes(in, 1);

        return at ? *at : 0;
}

static inline uint64_t get_number(struct bytes_in *in)
{
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64; shift += 7) {
                unsigned byte = get_byte(in);

                if (shift == 63 && byte > 1)
                        break;
                value |= (uint64_t)(byte & 0x7f) << shift;
                if (!(byte & 0x80))
                        return value;
        }
        in->failed = true;
        return 0;
}

static inline uint64_t get_change(struct bytes_in *in, uint64_t from)
{
        return from + unzigzag(get_number(in));
}

#pragma once
/*
 * What writing and checking a frame share beside the layout in sample.h.
 */
#include <stddef.h>
#include <stdint.h>

/* CRC-32 of a frame of `length` bytes (at least a frame head), its crc field taken as 0. */
uint32_t frame_crc(const void *frame, size_t length);

/* Offsets of rows are multiples of a thousandth of the tick: finer than any rate needs, and rows that were read one after the other have
 * the same one, which costs a log nothing. */
static inline int32_t frame_offset_quantum(uint64_t tick_ns)
{
        uint64_t us = tick_ns / 1000000;

        return us < 1 ? 1 : us > 1000000 ? 1000000 : (int32_t)us;
}

static inline size_t frame_align(size_t length)
{
        return (length + 7) & ~(size_t)7;
}

#pragma once
/*
 * What writing and checking a frame share beside the layout in sample.h.
 */
#include <stddef.h>
#include <stdint.h>

/* CRC-32 of a frame of `length` bytes (at least a frame head), its crc field taken as 0. */
uint32_t frame_crc(const void *frame, size_t length);

static inline size_t frame_align(size_t length)
{
        return (length + 7) & ~(size_t)7;
}

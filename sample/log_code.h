#pragma once
/*
 * The log's coder: a frame as its difference to those before it, and back, byte for byte (its CRC is made anew).
 *
 * Writer and reader each keep a table of all rows as they were last, and change it in the same way; so a row travels as its place in the
 * table and the slots that moved. What a frame may legally hold but no writer of ours puts there (odd padding, reserved bytes) travels as
 * it is.
 */
#include <stddef.h>
#include <stdint.h>

#include "sample/sample.h"

struct log_coder;

/* Texts of the frames' writer: struct schema's `text`, and `slots`. 0 or -ENOMEM. */
int log_coder_new(const struct schema *, struct log_coder **);
void log_coder_free(struct log_coder *);
/* Forget all rows: the next frame stands for itself. */
void log_coder_reset(struct log_coder *);

/* Coded bytes of each of the writer's scopes that were read up to now, before compression; [32]: heads of frames. */
void log_coder_bytes(const struct log_coder *, uint64_t bytes[33]);

/* What of a frame travels outside, in the record's head. */
struct log_step {
        uint16_t flags; /* frame_flag */
        uint64_t sequence, mono_ns, real_ns;
};

/* The frame is checked. 0, -ENOMEM. *bytes live until the next call. After a failure: reset. */
int log_encode(struct log_coder *, const struct frame_head *, const uint8_t **bytes, size_t *length);
/* Bytes of a stranger. 0, -EBADMSG, -ENOMEM. The frame is checked, and lives until the next call. After a failure: reset. */
int log_decode(struct log_coder *, const struct log_step *, const uint8_t *bytes, size_t length, const struct frame_head **);

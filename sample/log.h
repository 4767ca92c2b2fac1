#pragma once
/*
 * The log: how frames travel on disk, writer's and reader's side together.
 *
 * A log is frames as they were published, in records that each have their own length and checksum; a frame between two full ones is coded
 * as the difference to the one before. Blocks begin with a full frame, every 60 s or 1 MiB, so a reader can start at any block, at most the
 * last record is lost by a crash, and a damaged block is skipped and counted aloud. The head carries the schema of the frames' writer, so
 * builds with more or fewer metrics read each other's. A log may be read while it grows.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/sample.h"

/* ---- writer ---------------------------------------------------------------------------------------------------------------- */
struct log_writer;

struct log_create_options {
        mode_t mode;               /* 0600 unless set; bits for the group are for group `watop`, and dropped when it cannot have it */
        bool force;                /* replace an existing log of the same owner; never another kind of file */
        const char *schema;        /* schema block of the frames' writer; NULL = this build's */
        size_t schema_length;
};
/* O_EXCL, O_NOFOLLOW, one writer by lock. 0; -EEXIST; with force -EPERM (another owner, or not a log), -EBUSY (its writer lives);
 * -errno. */
int log_create(const char *path, const struct log_create_options *, struct log_writer **);
/* A frame of that schema. 0; -EBADMSG a damaged frame, -ENOMEM: it is left out; negative errno of the write (-ENOSPC, ...): what is there
 * stays valid, and the writer takes nothing more. Frames before the first full one (and, after one that was left out, before the next) are
 * not kept: nobody could read them. */
int log_append(struct log_writer *, const void *frame, size_t length);
/* Bytes that are no frame, under a name: command, label, exit status, results, machine. Names are [a-z0-9_.-], 64 bytes at most; 16 MiB at
 * most. The last one of a name counts. -EINVAL, -EFBIG, -EOVERFLOW (more than 4,096 names): it is left out, the log goes on. */
int log_note(struct log_writer *, const char *name, const void *bytes, size_t length);
/* What was appended can be read by others: each append and note sees to that. The error of any write before. */
int log_flush(struct log_writer *);
uint64_t log_bytes(const struct log_writer *);
uint64_t log_frames(const struct log_writer *);
int log_finish(struct log_writer *); /* writes the index, closes, frees; the error of any write before */

/* ---- reader ---------------------------------------------------------------------------------------------------------------- */
struct log;

/* 0; -EPROTO not a log or another layout version; -EBADMSG nothing in it can be read; -errno of open. */
int log_open(const char *path, struct log **);
void log_close(struct log *);

struct log_info {
        uint64_t first_sequence, last_sequence, frames;
        uint64_t first_real_ns, last_real_ns, first_mono_ns, last_mono_ns, tick_ns;
        uint64_t bytes, blocks;
        /* Of a finished log only what was met by going through it; else all. torn: at the end, never completely written. */
        uint64_t damaged_blocks, damaged_bytes, torn_bytes;
        bool finished;             /* the writer closed it; else it grows or the writer died */
        bool growing;              /* its writer holds the lock now */
        char version[32];
};
int log_get_info(struct log *, struct log_info *);
const struct schema *log_schema(const struct log *);
/* NULL when there is none. Valid until log_close or the next call. */
const void *log_get_note(struct log *, const char *name, size_t *length);
/* Names of all notes, in order of first appearance; NULL at the end. */
const char *log_note_name(struct log *, size_t index);

/* Go through: 1 a frame (checked, valid until the next call), 0 the end for now (call again while it grows), LOG_DAMAGED: a damaged place
 * was skipped, the next call goes on behind it (the reader's state is stale until the next full frame); -errno. */
enum { LOG_FRAME = 1, LOG_END = 0, LOG_DAMAGED = 2 };
int log_next(struct log *, const struct frame_head **frame);
/* The next frame of a mark, LOG_END or -errno. Blocks without one are stepped over; damage is too. */
int log_next_mark(struct log *, const struct frame_head **frame);
/* Coded bytes of each scope (of this build) in what was gone through up to now, before compression; [SCOPE_COUNT]: heads and scopes we do
 * not know. */
void log_scope_bytes(const struct log *, uint64_t bytes[SCOPE_COUNT + 1]);
bool log_growing(struct log *); /* its writer holds the lock now */
/* Move to the newest block start at or before; then log_next gives its full frame. 0, or -ENOENT when it lies before the first. */
int log_seek_sequence(struct log *, uint64_t sequence);
int log_seek_time(struct log *, uint64_t real_ns);
int log_rewind(struct log *);

#pragma once
/*
 * From a private watopd into a log: frames as they were published, and notes. See record.h for the notes.
 *
 * When the log cannot be written (a full disk) or watopd is gone, recording has ended: `broken` says why, calls do nothing any more, what
 * is in the file stays valid. The command is none of its business.
 */
#include <stdbool.h>
#include <stdint.h>

#include "sample/log.h"
#include "tui/member.h"
#include "tui/member_cpu.h"
#include "tui/source.h"

struct feed {
        struct source source;
        struct log_writer *log;
        struct state *state;
        struct members *members;
        struct member_cpu cpu;   /* of the command's group, once there is one */
        uint64_t frames, overruns, sequence, members_ns;
        uint64_t due_ns;         /* when the next frame should be there, CLOCK_MONOTONIC; 0 not known */
        int broken;              /* -errno, 0 */
        char why[256];           /* why it is broken */
        char left_out[65];       /* the last note that could not be kept, "" none */
        int left_out_error;
};

/* Make the log and start the private watopd. 0; -errno with the reason in `why`; no file is left behind. */
int feed_open(struct feed *, const char *path, const struct attach_options *, bool force, struct members *);
/* Ends both. 0, or the -errno that it broke with. */
int feed_close(struct feed *);
/* Take what was published. */
void feed_pump(struct feed *);
/* An extra frame now, with or without a mark; it is in the log when this returns. 0 or -errno; *sequence is its number. */
int feed_frame(struct feed *, const char *mark, uint64_t *sequence);
void feed_note(struct feed *, const char *name, const void *bytes, size_t length);
void feed_note_text(struct feed *, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The members as they are known, when that changed and the last time is long enough ago, or `now`. */
void feed_note_members(struct feed *, bool now);

#pragma once
/*
 * A part of a log, as people name it: times of day, offsets, sequence numbers, phases.
 */
#include <stddef.h>
#include <stdint.h>

#include "sample/phase.h"

/* Frames from the first that is at or after both lower bounds (the base of the first report) to the last that is within both upper ones. */
struct span {
        uint64_t from_sequence, to_sequence, from_real_ns, to_real_ns;
        bool ends;                  /* an upper bound was asked for */
};

struct span_words {
        const char *from, *to, *phase; /* NULL = not given */
};

/* HH:MM[:SS] (local, of the log's first day or the one after), RFC 3339, +OFFSET from the start, #SEQUENCE, or the name of a phase or mark
 * (--to: its end). 0; -EINVAL with the reason as one line in `why`. */
int span_find(const struct log_info *, const struct phases *, const struct span_words *, struct span *, char *why, size_t size);

#pragma once
/*
 * What a log holds, found by going through all of it once: for `watop log`, and whoever reports on a whole recording.
 */
#include "sample/phase.h"
#include "sample/state.h"

enum { SURVEY_GAPS = 64 };

struct survey_gap {
        const char *kind;          /* late, suspend, reboot, reset, clock (the time of day was set), damage */
        uint64_t sequence, real_ns, missed;
        double seconds;            /* clock: by so much; late: the interval's length */
};

struct survey {
        struct log_info info;
        struct phases phases;
        struct state *state;       /* after the last frame: the facts */
        uint64_t frames, extra, full, marks;
        uint64_t processes, threads; /* different ones seen */
        uint64_t late, suspends, reboots, resets, clock_steps, damages, missed;
        struct survey_gap gaps[SURVEY_GAPS]; /* the first ones */
        size_t gap_count;
        uint64_t scope_bytes[SCOPE_COUNT + 1]; /* coded, before compression */
        uint64_t scope_rows[SCOPE_COUNT + 1];
};

/* 0 or -errno. The log is at its end afterwards. */
int survey_make(struct log *, struct survey *);
void survey_free(struct survey *);

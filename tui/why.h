#pragma once
/*
 * The long answer to "what is wa here", as lines: `watop why` prints them, the live screen shows them under `w`.
 */
#include "tui/selftest.h"
#include "tui/verdict.h"
#include "tui/why_history.h"

/* What is known beside the interval; all zero = nothing. */
struct why_context {
        const struct why_history *history;  /* answered; NULL = none was looked at */
        const struct selftest_ring *ring;   /* of this kernel; NULL = not asked, or another machine's captured one */
        bool source_known;       /* the following are: */
        bool own_daemon, captured, no_bpf, root; /* root: with whose rights the source runs */
        bool btf;                /* this kernel has type information for tracing */
};

enum { WHY_LINES = 16, WHY_WIDTH = 128, WHY_COLUMNS = 80 };
/* The evidence of a verdict: plain lines, made harmless, at most WHY_COLUMNS wide; WHY_LINES is room for all. context may be NULL.
 * Returns how
 * many. */
size_t why_evidence(const struct tally *, const struct verdict *, const struct why_context *, char lines[][WHY_WIDTH], size_t max);
/* The answer and its evidence, straight from a state. context may be NULL. */
size_t why_lines(const struct state *, const struct why_context *context, char lines[][WHY_WIDTH], size_t max);

/* What would make the split surer, as a part of a sentence; "" when it is exact or there is nothing to split. */
void why_raise(const struct tally *, const struct why_context *, char *text, size_t size);
/* "page cache (folio_wait_bit_common)", or the wait channel alone, or "" */
void why_channel(const char *wchan, char *text, size_t size);

/* Cores of the same sort together: wa and its parts within a point of each other. */
struct why_cores {
        unsigned first, last, count; /* numbers first to last, without holes where cores are on-line */
        double load, wa, part[TALLY_PARTS], low[TALLY_PARTS], high[TALLY_PARTS]; /* means; -1 not known */
        enum value_mark mark[TALLY_PARTS];
        const char *level;           /* evidence, NULL */
};
size_t why_group_cores(const struct state *, struct why_cores *groups, size_t max); /* in order of number; how many there are */
/* A control group (v2) whose tasks stalled on I/O for 1% of the time or more. */
struct why_group {
        char path[256];              /* a stranger's bytes */
        double some, full;           /* %; full -1 not known */
        double some_uring, full_uring; /* parts of them that are io_uring threads asleep; -1 not known */
};
/* Most stalled first, without the root and without parents of which a child says as much. How many there are. */
size_t why_groups(const struct state *, struct why_group *, size_t max);
/* The io_uring part of a stall, with the mark of its bounds (low, high; -1: none are known, so it is an estimate). False where nothing is
 * known of io_uring, or nothing of it is there. */
struct why_part { double whole, part, low, high; };
bool why_part_value(const struct tally *, const struct why_part *, struct value *);
/* The same as " (99 of it io_uring)"; "" where that is false. */
void why_pressure(const struct tally *, const struct why_part *, char *text, size_t size);
/* -v: cores, who caused which part, waiters, control groups, evidence, load average. On standard output. */
void why_details(const struct state *, const struct tally *, const struct verdict *, const struct why_context *);
/* The same as one JSON object on standard output, with its newline. */
void why_json(const struct state *, const struct tally *, const struct verdict *, const struct why_context *);

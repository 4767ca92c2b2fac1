#pragma once
/*
 * Reports at any place of what was recorded: a log, or the past that a ring still holds. Forward, back, to a frame, to a time.
 *
 * The same frames through the same state and the same rule as live reports: a report is complete after so many ticks as its interval holds,
 * missed ticks count, frames out of step (marks) do not. Going back is a seek to the full frame before, and a roll forward from there; so a
 * report that was stepped back to is the one that was seen. What is asked is done in slices, so that keys are never kept waiting.
 */
#include "sample/cursor.h"
#include "sample/state.h"

struct reel;

/* Takes the cursor over, in any case. tick_ns: of the frames, as far as it is known. 0 or -ENOMEM. */
int reel_new(struct cursor *, const struct schema *, uint64_t tick_ns, uint64_t interval_ns, struct reel **);
void reel_free(struct reel *);
/* Intervals passed on the way to a report that was sought: for the strips of the past. At most 40, oldest first. */
void reel_on_way(struct reel *, void (*passed)(void *arg, const struct state *), void *arg);

/* What comes next; reel_run does it. */
void reel_forward(struct reel *);                            /* the report after the shown one */
void reel_until(struct reel *, uint64_t sequence);           /* the one that ends with the newest frame at or before */
void reel_until_time(struct reel *, uint64_t real_ns);       /* the one that ends with the first frame at or after; else with the last */
void reel_from(struct reel *, uint64_t sequence);            /* the one that begins with the first frame at or after; else the last */
/* For reports to come; the shown one stays. */
void reel_interval(struct reel *, uint64_t interval_ns);
uint64_t reel_interval_ns(const struct reel *);              /* so many whole ticks */

enum reel_result {
        REEL_REPORT,       /* reel_shown is it */
        REEL_MORE,         /* the time is over: call again. While a report is sought, reel_shown is then none */
        REEL_WAIT,         /* nothing newer yet */
        REEL_END,          /* and there will be nothing */
};
/* Until CLOCK_MONOTONIC is deadline_ns. -ENOMEM, -EIO. */
int reel_run(struct reel *, uint64_t deadline_ns);
bool reel_seeking(const struct reel *);                      /* a report is being sought: reel_shown is none */
const struct state *reel_shown(const struct reel *);         /* belongs to the reel; the pointer changes with each report */
bool reel_damaged(const struct reel *);                      /* frames of the shown report, or just before it, could not be read */
uint64_t reel_newest_mark(const struct reel *);              /* newest sequence of a frame with a mark that went through; 0 none */

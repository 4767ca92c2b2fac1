#pragma once
/*
 * The exact branch of the split: what tracing saw (collectors/bpf/tracer.h) divides the iowait that the kernel counted.
 *
 * The two do not count alike. The kernel adds a whole idle stretch when it ends, to iowait or to idle as it is at that moment, and shows
 * whole ticks; tracing adds up every ns in which the core was idle and a waiter slept on it. So tracing gives the proportions, the kernel
 * the sum.
 */
#include "sample/iowait.h"

/* What one core's traced times owe to the next interval; all zero at first. */
struct iowait_carry {
        int64_t debt[3];            /* disk, uring, other: corrections that the interval had no room for; they add up to 0 */
        int64_t rest[3], unsure_ns, seeded_ns; /* time of which the kernel's counter, in whole ticks, does not show anything yet */
};

/* Times of one interval from the differences of tracing's counters in *exact, which may be negative: a waiter's class is known for sure
 * when it wakes, and what it was taken for before is moved then. On return none is negative. `iowait_ns` is the kernel's, of the same
 * interval. */
void iowait_exact_next(struct iowait_carry *, int64_t iowait_ns, struct iowait_exact *exact);

/* ---- for iowait.c ------------------------------------------------------------------------------------------------------------------- */

/* The rules' verdict on cores[i] is in *parts; put in what tracing says of it. input->exact[i] is valid. `ceiling`: R1's. */
void iowait_split_exact(const struct iowait_input *, size_t i, int64_t ceiling, struct iowait_parts *parts);
/* Nothing of its own can have been on storage. */
bool iowait_positive(const struct iowait_input *, const struct iowait_witness *);

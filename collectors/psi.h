#pragma once
/*
 * Stall information (PSI) of I/O, corrected: how much of `some` and `full` parked io_uring threads explain, for the machine and for each
 * control group (v2).
 *
 * The kernel takes every thread that is marked in_iowait for stalled (TSK_IOWAIT, kernel/sched/psi.c), a parked ring's thread too. What is
 * published here is the part during which the only stalled tasks were such threads, as far as the split of iowait says so: it is as good as
 * that split, never more than what it calls uring. The sums are cumulative like the kernel's totals, so that readers take differences.
 */
#include <stdbool.h>

#include "collectors/collector.h"

struct psi;

int psi_new(struct psi **); /* 0 or -ENOMEM */
void psi_free(struct psi *);
/* Once a tick, after the split was written into the rows of scope cpu and the verdicts into those of scope waiter. Sets
 * PRESSURE_SOME_URING and
 * PRESSURE_FULL_URING of io, CGROUP_SOME_URING and CGROUP_FULL_URING. `judged`: the split is this tick's; without it they are absent. */
void psi_tick(struct psi *, struct sample *, const struct evidence *, bool judged);

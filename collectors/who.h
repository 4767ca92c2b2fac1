#pragma once
/*
 * Who caused the iowait: each core's split, given to the threads that slept on it, and added up per thread and per process.
 *
 * What the sums mean: idle time of cores, counted as iowait, for which a thread was a reason. Threads that waited on one core at the same
 * time each count it, so sums over threads may be more than the core had. They only grow; a process keeps what its ended threads had
 * caused. While the tracer is attached they are exact, and a process without waits has 0. Else only what was proved counts:
 *  - a thread proved asleep in io_uring for the whole tick has its core's uring part; one with storage pending its disk and other parts;
 *  - a thread in D state whose block delay the kernel counts (kernel.task_delayacct) has that delay, as far as cores had such time;
 *  - of all others nothing is known: absent, never 0.
 * A value is there in ticks in which it is known, and absent in the others: so no reader takes a difference over a time nobody knows.
 */
#include "collectors/collector.h"

struct who;

int who_new(struct procfs *, struct who **); /* 0 or -ENOMEM */
void who_free(struct who *);                 /* takes NULL */
/* Once a tick, behind the judging: sets wa_* and cores in the rows of waiters, threads and processes, and process.rings, process.aio.
 * `judged`: the rows of scope cpu hold this tick's split. Nothing is allocated unless more threads wait than ever before. */
void who_judged(struct who *, struct tick *, bool judged);

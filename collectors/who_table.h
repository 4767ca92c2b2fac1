#pragma once
/*
 * The threads and processes that wait or waited, for who.c: found by number and start time, kept in one piece of memory each.
 *
 * Nothing is allocated once as many wait as ever did. Positions change when somebody is dropped: no pointer is kept over who_sweep or
 * who_add.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/sample.h"

enum { WHO_PARTS = 3 }; /* disk, uring, other: the order of the metrics */

struct who_one {
        struct key key;              /* TID or PID, and start (boot time, whole 10 ms) */
        uint64_t sum[WHO_PARTS];     /* what is published */
        uint64_t seen;               /* tick in which it was met last */
        uint64_t known;              /* tick in which something was known of it last; 0 = never */
        uint64_t changed;            /* tick in which a sum grew last */
        /* of threads */
        uint64_t tgid, start;        /* its process; start 0: not found yet */
        bool linked, orphan;         /* its process was found; and is gone since, or never was there: nothing is added up any more */
        uint64_t traced[WHO_PARTS];  /* of the sums: from the tracer since it was attached */
        uint64_t cores;
        uint64_t block_ns, ahead_ns; /* block delay when it was read last; credited before the kernel told it */
        uint64_t block_tick;
        bool asleep;                 /* in D state then, */
        unsigned cpu;                /* on that core */
        /* of processes */
        uint64_t rings;              /* tick in which the waiters' rings were told for it */
};

struct who_table {
        struct who_one *all;
        size_t count, capacity, most;
        uint32_t *slots;             /* position + 1 */
        size_t slot_count;
};

void who_table_init(struct who_table *, size_t most);
void who_table_fini(struct who_table *);
struct who_one *who_find(const struct who_table *, struct key);
/* Found or added; NULL when memory is short or there are `most`. *added tells which; may be NULL. */
struct who_one *who_add(struct who_table *, struct key, bool *added);
/* Drop those for which gone() is true. */
void who_sweep(struct who_table *, bool (*gone)(const struct who_one *, void *arg), void *arg);

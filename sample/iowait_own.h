#pragma once
/*
 * What the files of the split share: iowait.c has the rules for whole cores and parked threads, iowait_busy.c those for threads that run in
 * between (R4) and for who waits in D state.
 */
#include "sample/iowait_exact.h"

/* /proc/stat counts in USER_HZ ticks, 100 a second on every architecture that matters; two ticks are rounding at both ends. */
#define TICK_NS INT64_C(10000000)
#define IDLE_SLACK_NS (2 * TICK_NS)
#define IOWAIT_LEAST_NS (3 * TICK_NS)
/* diskstats counts time in ms, cut off. */
#define COUNTER_SLACK_NS INT64_C(1000000)
#define LONG_NS INT64_C(500000000)
/* Sub-samples that must agree before a chance meeting of two reads is no longer an explanation. */
#define SAMPLES_LEAST 3
/* The same where several waiters may take turns: e^-7 is below CHANCE_MOST. */
#define SAMPLES_SURE 7
/* A waiter that made this core's iowait may have been missed by chance so rarely. */
#define CHANCE_MOST (1.0 / 1000)
/* What one sub-sample can say at most: the counters are rounded, and nothing is always asleep. */
#define SHARE_MOST 0.97
/* Up to this share of looks that met somebody, what they say is shown; beyond it the ceiling is, for looks rather miss a waiter than
 * invent one. */
#define MET_FEW 0.25

static inline int64_t least(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
        return a > b ? a : b;
}

/* Witnesses of one core. */
struct group {
        unsigned cpu;
        unsigned parked;     /* and not refuted */
        unsigned positive;   /* of them: nothing of their own can have been on storage */
        unsigned storage;    /* of them: storage is pending */
        unsigned moving;     /* in a completion-queue wait, but they also ran */
        bool marked;         /* every parked one is known to count */
        bool marked_positive;/* some positive one is known to count */
        bool weak;           /* some positive one only for the time in which no device had a request */
        int64_t iowait_before_ns;
        unsigned blocked_no_d_before;
        double chance;       /* of the one known for the shortest time */
        struct iowait_witness *single;
        /* of the moving ones */
        unsigned busy;       /* positive: whenever it was looked, nothing of their own can have been on storage */
        unsigned uncounted;  /* of the positive ones: procs_blocked did not count them while they slept */
        unsigned unchanged;  /* of the parked: counters stood still, but devices had requests */
        bool busy_weak;      /* some positive one only for the time in which no device had a request */
        unsigned ring_looks; /* fewest at one of the others */
        double busy_chance;  /* of the one known for the shortest time */
};

/* Looks at who is counted, and how many met somebody else. */
struct looks { unsigned all, met; };

/* ---- iowait_busy.c ---- */

/* A moving witness of the group: its verdict, and what it makes of the group. */
void busy_gather(struct group *, struct iowait_witness *);
/* R4, first half: what the looks of this interval add to the chance that none of the moving ones is counted; kept in the witnesses. */
void busy_mark(const struct iowait_input *, const struct iowait_core *, const struct group *, const struct iowait_seen *);
/* R4, second half. True: the parts are set, by busy reactors. */
bool busy_split(const struct iowait_input *, const struct iowait_core *, const struct group *, const struct iowait_seen *,
        struct iowait_parts *);
/* No completion-queue wait on the core: what can be a device's, from the wait channels that were met in D state, and from block delays. */
void waits_split(const struct iowait_input *, size_t i, const struct iowait_seen *, struct iowait_parts *);
/* The chance that one look meets somebody, when at least one waiter in D state is asleep for so much of the time. One: it is always the
 * same one. */
double chance_met(double share, bool one);
/* 95% "rule of three": a share of the time so large that fewer sightings would be surprising. At least 3 looks, else 1. */
double largest_share(struct looks);

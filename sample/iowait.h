#pragma once
/*
 * The split of one tick's iowait: a pure function of counters and evidence. No file is read here.
 *
 * Rules R1-R6 with their proofs: HACKING.md "The split of wa". In short: R1 ceiling (a core that waits for a device has an accounted
 * request open somewhere), R2 floor (the rest), R3 parked witness, R4 busy reactor, R5 else unexplained.
 * The evidence of an interval is gathered around two reads of /proc/stat: witnesses read before the first and again after the second.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IOWAIT_READS = 128, IOWAIT_ALONE = -2 };

/* One read of procs_blocked between or at the ticks. */
struct iowait_read {
        unsigned blocked;
        int cpu;                    /* where the reader ran; IOWAIT_ALONE: nobody else was runnable anywhere; -1 not known */
};

enum iowait_level { IOWAIT_EXACT, IOWAIT_PARKED, IOWAIT_SEEN, IOWAIT_BOUND, IOWAIT_NONE };

/* One core over the interval. */
struct iowait_core {
        unsigned cpu;
        int64_t iowait_ns, idle_ns; /* deltas as read, negative when the kernel took some back */
        bool valid;                 /* on-line at both ends */
};

enum iowait_ring { /* what is known of a witness's own requests */
        RING_UNKNOWN,    /* no permission, or several rings and threads */
        RING_NO_STORAGE, /* polls, receives, accepts, timeouts, no-ops only */
        RING_UNCHANGED,  /* ring counters did not move between the two reads */
        RING_STORAGE,    /* a read, write, fsync or uring_cmd is pending, or a busy io worker of its process */
};

/* One thread in a completion-queue wait. */
struct iowait_witness {
        int tid, tgid;
        unsigned cpu;               /* field 39 at the end: its iowait counts there */
        bool parked;                /* same start time and switch counts in the read before the first and after the second /proc/stat */
        bool seen_only;             /* known from sub-samples or from one end only: it ran in between */
        /* Of one that ran: its rings were read at ring_looks moments; and of `asleep` reads of procs_blocked it is known that it slept in
         * the queue on another core than the reader's just then: in `counted` of them somebody was counted. */
        unsigned ring_looks, asleep, counted;
        enum iowait_ring ring;
        bool seeded;                /* it slept already when tracing began: that its wait is idle is for its ring to say */
        int verdict;                /* out: metric waiter.witness's code */
        /* A mark is a property of one sleep: what one interval proved holds until the thread runs again. In and out; all 0 when unknown. */
        bool marked;                /* this sleep is counted as iowait */
        bool refuted;               /* this sleep is not counted as iowait */
        /* In, from earlier intervals of the same sleep, so that short ticks can judge too: times of its core, and sub-samples like
         * blocked_no_d. */
        int64_t idle_before_ns, iowait_before_ns;
        unsigned blocked_no_d_before;
        /* In and out: the chance that this sleep is not counted, and whoever made its core's iowait instead was missed by every sub-sample.
         * 0 = not known, as good as 1. */
        double chance;
        uint64_t born_ns;           /* with tid the key of its row */
};

/* What the sub-samples of the interval saw on one core. */
struct iowait_seen {
        unsigned cpu;
        unsigned d_state;           /* sub-samples with a D-state thread whose processor is this core, and that may be counted as iowait */
        unsigned elsewhere;         /* of d_state: all of them in waits that are never for a block device (sample/wchan.h) */
        unsigned undelayed;         /* threads met in D state, summed, whose waits are in no block delay (delay_ns) */
        unsigned running;           /* sub-samples without one, but with a runnable thread: a waiter may just have been woken */
        unsigned waiting;           /* sub-samples with a thread in a completion-queue wait on this core */
};

/* One core by tracing, over the interval: time it was idle while such a waiter slept on it. Precedence disk, other, uring. */
struct iowait_exact {
        unsigned cpu;
        bool valid;                 /* traced for the whole interval, */
        bool partial;               /* or only for its last part: tracing began meanwhile */
        int64_t disk_ns, uring_ns, other_ns;
        int64_t unsure_ns;          /* of disk and other: which of the two is not known yet */
        /* spans in which tracing missed a change of the core, by who slept: some part of them was idle, and is in none of the three */
        int64_t missed_disk_ns, missed_uring_ns, missed_other_ns;
        /* of uring: by threads that slept already at attach; whether storage is pending for them is not traced */
        int64_t seeded_ns;
        unsigned seeded;            /* so many threads */
};

struct iowait_input {
        int64_t wall_ns;            /* between the two reads of /proc/stat */
        const struct iowait_core *cores;
        size_t core_count;
        /* Devices: over every request-accounted whole device, loop and zram included. */
        int64_t device_ns;          /* sum of the deltas of read, write, discard and flush times */
        unsigned device_counters;   /* counters that moved, for rounding: 1 ms each */
        bool in_flight_start, in_flight; /* any device had a request in flight at the start / at the end */
        int64_t skew_ns;            /* distance between /proc/stat and diskstats reads at both ends, summed */
        bool bound_void;            /* a device with iostats off, re-plug or reset in the interval, no flush fields: no ceiling */
        bool quiet;                 /* no block request of any owner in flight at either end and in no sub-sample, none completed */
        struct iowait_witness *witnesses;
        size_t witness_count;
        const struct iowait_seen *seen;
        size_t seen_count;
        unsigned samples;           /* sub-samples k */
        unsigned carried;           /* of them: taken at the start, and counted in the interval before too */
        unsigned full;              /* of `samples`: the wait channels of all sleeping threads were read, not only of those in D state */
        unsigned unresolved;        /* more of them: somebody was counted of whom is not known on which core he sleeps */
        const struct iowait_read *reads; /* of the interval, one a sub-sample, at most IOWAIT_READS */
        size_t read_count;
        unsigned blocked_no_d;      /* of them: procs_blocked >= 1 and no D-state thread anywhere */
        /* Sums of procs_blocked and of D-state threads over them. Threads in a wait that is never iowait (a mutex, a FUSE server,
         * vfork) are left out, here and in `seen`, where the wait channel could be read. */
        uint64_t blocked_sum, d_sum;
        bool threads_seen;          /* thread states and wait channels could be read for all tasks */
        /* kernel.task_delayacct: delay_ns[i] is the most that threads outside of completion queues can have waited on cores[i], -1 = not
         * known; NULL: it is off. */
        const int64_t *delay_ns;
        bool delay_all;             /* of all threads; else of those that are not counted in iowait_seen.undelayed */
        const struct iowait_exact *exact; /* exact[i] belongs to cores[i]; NULL: not traced */
};

struct iowait_parts {               /* ns; disk + uring + other = max(0, iowait_ns) */
        int64_t disk, uring, other;
        int64_t disk_min, disk_max, uring_min, uring_max;
        int64_t taken_back;         /* >= 0 */
        enum iowait_level level;
};

/* Judge every core; parts[i] belongs to cores[i]. Cannot fail. */
void iowait_split(const struct iowait_input *, struct iowait_parts *parts);
const char *iowait_level_name(enum iowait_level); /* exact | parked | seen | bound | none */

#pragma once
/*
 * What the BPF programs and watopd share: the memory of cores and waiters. Compiled by both sides, so only fixed-size types and natural
 * alignment. The programs write, watopd reads without a system call; watopd writes only to free a place whose thread is gone and to mend
 * counts after a missed event.
 *
 *     cores[cpu]                      one per possible CPU
 *     places[hash(tid)].tid[WAYS]     which threads have a slot: waiters[place * WAYS + way]
 *
 * One cache line of thread ids is cheaper to search than a hash map, and needs no allocation in the scheduler; who slept last on a core is
 * found without a search. A full line is an overflow, which is counted.
 */
#ifdef __bpf__
#include "kernel.bpf.h"
#else
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif

enum {
        WAYS = 16,              /* one cache line of thread ids */
        PLACES = 1024,
        WAITERS = PLACES * WAYS,
        OPERATIONS = 16384,     /* storage operations on rings at one time */
        RINGS = 4096,
};

#define TID_GONE 0x80000000u    /* on a tid of places: the thread has ended */

static inline u32 place_of(u32 tid)
{
        return (tid ^ tid >> 10) % PLACES;
}

/* By precedence: each ns of a core goes to the first that has a sleeper. */
enum wait_class { WAIT_DISK, WAIT_OTHER, WAIT_URING, WAIT_CLASSES };

/* How a sleeper is counted, in waiter.asleep; 0 = it is not asleep. */
enum { ASLEEP = 8, ASLEEP_UNSURE = 4, ASLEEP_CLASS = 3 };

/* What its waking proved, in waiter.woken, with the class in the lowest bits; 0 = not woken. PROVES: the next sleep will be like it. */
enum { WOKEN = 8, WOKEN_SURE = 4, WOKEN_PROVES = 16 };

/* core.sleepers: how many sleep in each class, and of how many the class is a guess; 16 bits each (WAITERS is less), so that one atomic
 * addition changes all and one load reads all. */
#define SLEEPERS(word) ((1ull << 16 * ((word) & ASLEEP_CLASS)) + ((word) & ASLEEP_UNSURE ? 1ull << 48 : 0))

struct core {
        /* Time is counted while somebody sleeps here and the core is idle; each ns once, in the class of highest precedence. This cache
         * line is all of a core that a sleep of sure class touches, but for what the last line says of the sleeper. */
        u64 sleepers;
        u64 last;               /* CLOCK_MONOTONIC up to which it is counted; meaningful while idle */
        u64 idle;
        u64 ns[WAIT_CLASSES];   /* as it was predicted; only grows */
        u64 unsure;             /* of disk and other: some sleeper's class was a guess */
        u32 tid, number;        /* who slept here last, and its slot: spares most searches */

        u64 unsure_alone;       /* exactly one was */
        u64 alone;              /* of unsure: with exactly one disk sleeper */
        /* Corrections when a sleeper's real class is known. Cumulative. */
        u64 raised_other, raised_uring; /* of other and uring: were disk */
        u64 lowered;            /* predicted disk, was other */
        u64 known;              /* unsure, now known */
        u64 raised_from, raised_from_other; /* the sleep of the last raise: the core's clock and ns when it began ... */

        u64 raised_from_uring;
        u64 raised_to_other, raised_to_uring; /* ... and ended: not to be raised again */
        u64 raised_uring_other; /* of uring: was other */
        u64 missed[WAIT_CLASSES]; /* while a change of the core went unseen: idle for a part of it, with such a sleeper */
        u64 spare;

        /* Used by programs on this CPU only. */
        u64 done;               /* request or bio being completed here now; 0 none */
        u64 done_at;            /* when; of a request whose end will be seen jiffies, else ns */
        u64 ring;               /* io_uring context that ring_tid waits on */
        u64 ahead;              /* of the run queue's clock is CLOCK_MONOTONIC by so much, */
        u64 compared;           /* as it was at this time of the run queue's */
        u32 done_tid, ring_tid, mark_tid;
        u16 mark_dirty;         /* it is being throttled for dirty pages */
        u16 done_ends;          /* the end of the request is seen too */
        u32 mark_switches;      /* voluntary switches of mark_tid when it queued a bio, modulo 2^32: tells a stale mark */
        u32 ring_wanted;        /* completions that ring_tid waits for */
};

struct waiter {
        /* The first cache line is all that a sleep on a device touches. */
        u64 start;              /* task->start_boottime */
        u32 tid;
        u32 cpu;
        u32 asleep;             /* ASLEEP | UNSURE | class */
        u32 switches;           /* voluntary switches at this sleep, modulo 2^32 */
        u8 ring, seeded;        /* in io_uring_enter; what is pending on its ring is not known */
        u8 last, proven;        /* class of its last sleep that was no parked ring; proven: it is not a guess */
        u8 marked;              /* it queued a bio itself since it last slept, or is throttled for dirty pages */
        u8 woken;
        u8 class, changed_from;
        u64 since;              /* CLOCK_MONOTONIC; 0 = before attach */
        u64 clock;              /* the core's counters when this sleep began */
        u64 sleeps;
        u64 ns[WAIT_CLASSES];   /* idle time of its cores while it slept; that of devices is in the first line */

        u64 other, uring, alone, unsure_alone; /* the core's too; as far as its class can turn out to be another */
        u64 ctx;                /* ring */
        u64 cores;

        u64 changed_at;         /* when the last storage on its ring ended while it slept; changed_from: the class until then */
        u32 tgid, wanted;       /* completions it waits for on its ring */
        char comm[16];
        u32 block, pending_other; /* storage pending on the ring when it fell asleep */
        u64 spare[3];
};

struct place {
        u32 tid[WAYS];
};

enum { RING_SLEEPERS = 4 };

/* A ring: storage pending on it, and who sleeps on it. Sleepers are not taken out: whoever does not sleep on it now can be replaced. */
struct ring {
        u32 block, other;
        u32 unknown;            /* storage from before we looked may be pending as well */
        u32 looks;              /* how often it was counted in vain */
        u64 seen;               /* CLOCK_MONOTONIC of the last wait */
        u32 sleeper[RING_SLEEPERS]; /* slot + 1 */
};

enum ring_kind { KIND_NONE, KIND_BLOCK, KIND_OTHER };

/* A storage operation that was submitted and is not complete. */
struct operation {
        u64 ctx;
        u32 kind;
        u32 count;              /* more than one only where the kernel tells user_data instead of the request (before 5.15) */
        u32 waiting, unused;    /* behind another request of its link chain that is no storage */
};

/* What this kernel has; set before loading, so that the verifier drops what is not used. */
struct settings {
        u32 storage_traced;       /* submissions and completions on rings are seen */
        u32 complete_has_request; /* io_uring_complete names the request; else user_data */
        u32 overlay_has_struct;   /* private_data of an overlay file is a struct ovl_file (6.13) */
        u32 stores_reorder;       /* the CPU's plain stores may be seen in another order */
        u32 done_traced;          /* block_io_done is seen */
        u32 rings_counted;        /* rings of before the attachment can be counted out */
};

/* Counts of the programs. */
struct tally {
        u64 unmatched, overflow;
        u64 rings;              /* put into their map, less those that programs took out */
};

_Static_assert(sizeof(struct core) == 256 && sizeof(struct waiter) == 192 && sizeof(struct place) == 64, "whole cache lines");

#pragma once
/*
 * What the block tracer's BPF programs and watopd share: the memory of open bios, of calls, and the buffers of records. Compiled by both
 * sides, so only fixed-size types and natural alignment.
 *
 *     buckets[hash(bio)].slot[SLOT_WAYS]   an open bio each; the hot cache line first, and the only one an ordinary bio touches
 *     buffers[ring]                        where the next record of that ring goes (head), and up to where watopd has read (tail)
 *     records[]                            the rings: `capacity` records a CPU, then RECORDS_INNER a CPU
 *
 * Addresses of bios wander over much memory, so a large table of them is cold, and its pages miss the TLB: at 64 open bios that cost more
 * than all else. So the first SLOT_NEAR buckets are used while they have room, the others (far) behind them.
 *
 * A record is reserved by adding to head, filled, and published by its first word, which holds its kind; watopd empties that word when it
 * has read the record. So nothing half written is ever read. A CPU's ring belongs to it, and programs cannot be preempted: `busy` is enough
 * to keep out one that interrupts another one in between, which then takes a record of the CPU's inner ring.
 */
#ifdef __bpf__
#include "block.bpf.h"
typedef u8 uint8_t;
typedef u16 uint16_t;
typedef u32 uint32_t;
typedef u64 uint64_t;
typedef __s16 int16_t;
typedef s32 int32_t;
#else
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif
#include "../../sample/stage_record.h"

enum {
        SLOT_WAYS = 8,
        SLOT_NEAR_BITS = 8,
        SLOT_NEAR = 1 << SLOT_NEAR_BITS,        /* 2,048 open bios, 256 KiB */
        SLOT_FAR_BITS = 12,
        SLOT_BUCKETS = SLOT_NEAR + (1 << SLOT_FAR_BITS), /* 34,816 open bios in all, 4.25 MiB */
        RECORDS_TOTAL = 1 << 17,                /* 16 MiB, divided among the possible CPUs */
        RECORDS_LEAST = 1 << 10,                /* but this many a CPU, for the 20 ms between two looks, */
        RECORDS_MOST = 1 << 19,                 /* unless that were more than 64 MiB (above 512 possible CPUs) */
        RECORDS_INNER = 64,                     /* of each CPU's inner ring */
        RECORDS_MARGIN = 16,                    /* programs that may be inside of each other on a CPU */
        TOLD = 1 << 13,                         /* threads whose names were told */
        CALL_WAYS = 4,
        CALL_BUCKETS = 1 << 10,                 /* 4,096 threads that are in a call at one time */
        RING_CALLS = 1 << 11,                   /* and fsyncs on rings */
};

#define TOLD_AGAIN_NS 1000000000ull             /* who reads may have come later than the name */

/* slot.flags: what it is, and which fields of the second line are valid. */
enum slot_flag {
        SLOT_KERNEL = 1, SLOT_PIECE = 2, SLOT_TOLD = 4 /* its request's figures were told with an earlier bio of it */,
        SLOT_I = 8, SLOT_M = 16, SLOT_D1 = 32, SLOT_C = 64, SLOT_CGROUP = 128, SLOT_QUEUED = 256 /* filled */,
};

struct slot {
        u64 key;                /* 0 = free; of the bio's address */
        u64 q, g, d;            /* d: last issue */
        u64 sector;             /* of the bio, or of what is left after a split */
        u32 bytes, device, tid, tgid;
        u8 direction, bio_flags;
        u16 flags;
        u16 requeues, parts;    /* parts: that were cut off */

        u64 i, m, d1, c;
        u64 id;                 /* SLOT_PIECE: of the bio it was cut from */
        u64 cgroup;
        u64 spare[2];
};

/* Near buckets by the highest bits of this, the way to begin with by the next three, far buckets by lower ones. */
static inline u64 slot_hash(u64 key)
{
        return key * 0x9e3779b97f4a7c15ull;
}

/* The same for all parts of a bio, another one for all others; tells nothing of the address. */
static inline u64 slot_id(u64 key, u64 q)
{
        return q << 15 ^ slot_hash(key) >> 49;
}

struct bucket {
        struct slot slot[SLOT_WAYS];
};

struct buffer {
        u64 head, lost;
        u32 busy, unused;       /* a program is between reading and writing head */
        u64 spare_head[5];
        u64 tail;               /* watopd's */
        u64 spare_tail[7];
};

struct told {
        u64 time;
        u64 comm[RECORD_COMM / 8];
        u32 tid, unused;
};

/* A call under way. */
struct call {
        u32 tid, tgid;          /* tid: 0 = free */
        u32 call, device, disk, unused;
        u64 start, inode, bytes;
        char file[RECORD_FILE];
        u64 spare[2];
};

/* An fsync that was submitted on a ring. */
struct ring_call {
        u64 start;
        u32 tid, tgid;
};

struct call_bucket {
        struct call way[CALL_WAYS];
};

/* What this kernel has; set before loading, so that the verifier drops what is not used. Indices: which argument of the event it is. */
struct stage_settings {
        u32 stores_reorder;
        u32 capacity;           /* records a CPU, a power of two */
        u32 errors_are_numbers; /* block_rq_complete has an errno, not a blk_status_t */
        u32 queue_bio, getrq_bio, back_bio, front_bio, split_bio, remap_bio, complete_bio;
        u32 insert_rq, issue_rq, requeue_rq, merge_rq;
        u32 plug_q, unplug_q;
        u32 overlay_has_struct; /* private_data of an overlay file is a struct ovl_file (6.13) */
        u32 cpus;               /* possible ones: inner rings are behind so many others */
        u64 secret;             /* odd: makes keys of requests that tell nothing of their addresses */
        u32 arm64;              /* numbers and registers of its system calls; else x86-64's */
        u32 preemptible;        /* programs may be preempted (PREEMPT_RT) */
};

/* Written by watopd while programs run. */
struct stage_control {
        u64 since;              /* CLOCK_MONOTONIC of the attachment; 0 = not yet */
        u64 calls_since;        /* and of that of calls: what began before is not known */
        u32 what, unused;       /* STREAM_WHAT_x */
        u64 spare[5];           /* what programs write is on a line of its own */
        u64 unmatched, crowded;
        u64 far;                /* bios that were given a far bucket */
};

_Static_assert(sizeof(struct slot) == 128 && sizeof(struct buffer) == 128 && sizeof(struct call) == 128, "whole cache lines");

#pragma once
/*
 * Who waits, for what, and behind whom: calls that wait until data is safe (fsync and its like) and bios, per process.
 *
 * A verdict about a process rests on what it waited for itself, never on the device's mean. Its time in front of the device (tag, queue,
 * refused) is shared out to those whose bios were open on the device meanwhile, weighted by time and number, its own included: waiting
 * behind oneself is told, too. The time that a file system's journal waited for it counts likewise.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/stage_sync.h"

enum { BLK_FRONTS = 64, BLK_WAITERS = 512, BLK_CALLS = 1024 };

struct blk_names;

/* In front of a process: ns of its waiting, and of its journal's, that passed behind this one. */
struct blk_front {
        uint32_t tgid;
        double ns;
};

struct blk_longest {
        uint64_t time, end, inode, bytes; /* end: CLOCK_MONOTONIC */
        uint32_t device, tid;
        char file[RECORD_FILE];
        uint64_t part[SYNC_PARTS];
};

/* One process, one kind of call. */
struct blk_call {
        uint32_t tgid;
        enum sync_call call;
        uint64_t errors, part[SYNC_PARTS];
        struct histogram time;
        struct blk_longest longest;
};

/* One process: all its calls, or, while it made none, its bios. */
struct blk_waiter {
        uint32_t tgid;
        uint64_t calls, bios;
        uint64_t asked;                    /* of the total, that of which it is known who was in front: of a flood of bios a part */
        uint64_t total, longest, part[SYNC_PARTS];
        uint64_t journal[CAUSE_COUNT];     /* part[SYNC_JOURNAL] by the causes of the journal's bios */
        uint32_t disk;                     /* of the longest */
        enum sync_call call;               /* the longest's */
        struct blk_front front[BLK_FRONTS];
        size_t fronts;
        uint64_t unknown;                  /* calls and bios from before what is remembered */
};

struct blk_calls;
int blk_calls_new(struct blk_names *, struct blk_calls **);
void blk_calls_free(struct blk_calls *);
void blk_calls_add(struct blk_calls *, const struct sync_done *);
/* A bio of a process and its causes; who was there meanwhile is added by the second one, for all of them or for some. */
void blk_calls_add_bio(struct blk_calls *, uint32_t tgid, uint32_t device, const uint64_t cause[CAUSE_COUNT]);
void blk_calls_add_front(struct blk_calls *, uint32_t tgid, const uint64_t cause[CAUSE_COUNT], const struct behind_answer *);
size_t blk_calls_count(const struct blk_calls *);
/* The one with the most time first. */
const struct blk_call *blk_calls_get(const struct blk_calls *, size_t);
/* Who has the longest call; of those without any, who waited longest altogether. NULL: nobody waited. */
const struct blk_waiter *blk_calls_victim(const struct blk_calls *);
struct blk_names *blk_calls_names(const struct blk_calls *);
/* Calls and waiters that found no room: in none of the above. */
uint64_t blk_calls_crowded(const struct blk_calls *);

enum { BLK_NONE = -1, BLK_MIXED = -2 };
struct blk_judgement {
        int cause;                         /* enum stage_cause, SYNC_JOURNAL, BLK_NONE, BLK_MIXED */
        double share;                      /* of the time that is this cause's; mixed: the largest one's */
        bool added;                        /* cause is disk or flush, the larger one, and share is that of both */
        bool both;                         /* and the smaller one is no trifle */
        double through_journal;            /* part of `share` that is the journal's */
        char culprit[RECORD_COMM];         /* the name of those in front, "" = nobody */
        uint32_t first, last;              /* lowest and highest process of that name */
        unsigned processes;                /* of that name */
        double behind;                     /* part of all time spent behind them */
        bool itself;                       /* it was in front of itself */
};
/* What the journal waited for counts as its cause: the time that its bios stood in a queue was time in a queue. */
void blk_judge(const struct blk_calls *, const struct blk_waiter *, struct blk_judgement *);

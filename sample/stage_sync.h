#pragma once
/*
 * fsync explained: calls that wait until data is safe, how long they took, and where the time went.
 *
 * A call's time is cut at the stages of the bios it waited for: its own thread's first (their stages' causes); where none of those was
 * open, a journal's (jbd2, xfs-log, btrfs) on the same disk: flush where that bio was flushing, else journal; the rest is other. The parts
 * add up to the call's duration to the ns. Of several open ones the one that ends last counts. Journal threads are known by their names, as
 * the kernel gives them; what kworkers write for a call (write-back, some of XFS's log) cannot be told and is other.
 *
 * A call ends before all bios that it shared with others need to have, so it is judged a moment later (SYNC_LATE_NS), in order.
 */
#include <stdbool.h>
#include <stddef.h>

#include "sample/histogram.h"
#include "sample/stage.h"
#include "sample/stage_behind.h"
#include "sample/stage_record.h"

#define SYNC_LATE_NS UINT64_C(300000000)

/* Parts of a call: the causes of stage.h, and one more. CAUSE_OTHER: nothing was open on the disk: waiting for a core, computing, locks,
 * waiting for others. */
enum { SYNC_JOURNAL = CAUSE_COUNT, SYNC_PARTS };
const char *sync_part_name(int part);                /* "tag" ... "other", "journal" */
/* "fsync", "fdatasync", "msync", "sync_file_range", "O_SYNC write", "sync", "io_uring fsync" */
const char *sync_call_name(enum sync_call);

struct sync_row {                     /* one process, one kind of call */
        uint32_t tgid;
        char name[RECORD_COMM];
        enum sync_call call;
        uint64_t calls, errors;
        uint64_t part[SYNC_PARTS];    /* ns */
        struct histogram time;
};

struct sync_done {
        const struct stage_record *record;
        const struct sync_row *row;
        uint64_t part[SYNC_PARTS];
        uint64_t journal[CAUSE_COUNT]; /* part[SYNC_JOURNAL] by the causes of the journal's bios; they add up to it */
        uint64_t bios, bytes;         /* its own */
        uint32_t disk;                /* on which most of its time passed; 0 = none */
        struct behind_answer behind;  /* if the set has one: while its own and the journal's bios waited or it waited for them */
};

struct sync_options {
        void (*done)(void *own, const struct sync_done *); /* for every call, in order of their ends; may be NULL */
        void *own;
        size_t max_open;              /* bios and calls that are remembered; 0 = 131,072 */
};

struct sync_set;
int sync_new(const struct sync_options *, struct behind *, struct sync_set **); /* behind: fed by the caller, lives longer */
void sync_free(struct sync_set *);
/* Any record, as they come. 0 or -ENOMEM. */
int sync_record(struct sync_set *, const struct stage_record *);
/* Everything that ended up to `drained` has been fed: calls that ended SYNC_LATE_NS before are judged. UINT64_MAX: all are. */
int sync_settle(struct sync_set *, uint64_t drained);
size_t sync_rows(const struct sync_set *);
/* Rows begin anew; bios, calls and names stay. For who runs for ever and takes what `done` tells. */
void sync_forget_rows(struct sync_set *);
const struct sync_row *sync_get_row(const struct sync_set *, size_t);
/* Calls whose bios were forgotten (or lost) before they were judged: their parts may be too much `other`. */
uint64_t sync_spoilt(const struct sync_set *);

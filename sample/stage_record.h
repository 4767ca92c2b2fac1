#pragma once
/*
 * What a live block tracer says, in records of one size: a part of a bio that ended, a call that waited until data was safe, a thread's
 * name, a single event, a loss.
 *
 * The BPF programs write them, watopd passes them on (stage_stream.h), the stage engine (stage.h), the table of calls (stage_sync.h) and
 * the search for who was in front (stage_behind.h) eat them. The matching of events is done where the request's address is known: in the
 * programs, or in the engine for a source that only has events. Compiled for BPF, too: fixed-size types, natural alignment.
 *
 * Times are ns of CLOCK_MONOTONIC; 0 = did not happen or was not seen.
 */
#ifndef __bpf__
#include <stdint.h>
#endif

enum stage_record_kind { RECORD_NONE, RECORD_BIO, RECORD_SYNC, RECORD_NAME, RECORD_EVENT, RECORD_LOST, RECORD_KINDS };

/* Calls that wait for data to be safe. SYNC_WRITE: a write to a file opened with O_SYNC or O_DSYNC. SYNC_ALL: sync and syncfs. SYNC_RING:
 * IORING_OP_FSYNC, from its submission. */
enum sync_call { SYNC_FSYNC, SYNC_FDATASYNC, SYNC_MSYNC, SYNC_RANGE, SYNC_WRITE, SYNC_ALL, SYNC_RING, SYNC_CALLS };

enum stage_record_flag {
        RECORD_HEAD = 1,      /* the first bio of its request: carries the request's own figures */
        RECORD_LAST = 2,      /* of a bio that was split: the original, whose `parts` says how many parts there are in all */
        RECORD_PIECE = 4,     /* of a bio that was split: a part that was cut off its front */
        RECORD_KERNEL = 8,    /* a kernel thread queued it (RECORD_BIO), or is named (RECORD_NAME) */
        RECORD_DRIVER = 16,   /* the device makes no requests (zram, dm, md): Q to C is all there is */
        RECORD_PASSED = 32,   /* passthrough request: no stages, counted */
};

enum { RECORD_COMM = 16, RECORD_FILE = 64 };

struct stage_record {
        uint8_t kind;                 /* stage_record_kind */
        uint8_t flags;                /* stage_record_flag */
        uint8_t direction;            /* stage_direction */
        uint8_t bio_flags;            /* stage_flags of stage.h */
        uint32_t device;              /* major << 20 | minor of the whole disk */
        uint32_t tid, tgid;           /* who queued it, called, is named; ids of the first pid namespace */
        union {
                struct {              /* RECORD_BIO */
                        uint64_t id;          /* the same for all parts of a bio; never 0 */
                        uint64_t q;           /* queued */
                        uint64_t g;           /* got a request */
                        uint64_t m;           /* merged into somebody's request, instead of g */
                        uint64_t i;           /* its request came to the scheduler */
                        uint64_t d1, d;       /* first and last issue to the driver */
                        uint64_t c;           /* the device had it done; 0, and so `given`: it has not ended (stage_record_open) */
                        uint64_t given;       /* flush sequence: its end, after the data was done; else 0 */
                        uint64_t sector;
                        uint32_t sectors;
                        uint32_t request_sectors; /* RECORD_HEAD */
                        int16_t error;        /* errno, negative */
                        uint16_t parts;       /* RECORD_LAST */
                        uint16_t requeues;
                        uint16_t unused;
                        uint64_t cgroup;      /* inode of the cgroup that pays for a kernel thread's bio; 0 = not known */
                } bio;
                struct {              /* RECORD_SYNC; device: of the file, as stat's st_dev (a partition, or a file system's own) */
                        uint64_t start, end;
                        uint64_t inode;
                        uint64_t bytes;       /* SYNC_WRITE */
                        uint32_t call;        /* sync_call */
                        int32_t result;       /* of the call: negative errno or what it returned */
                        uint32_t disk;        /* whole disk under that file system, as `device` of bios; 0 = none or not known */
                        uint32_t unused;
                        char file[RECORD_FILE]; /* last component of its name, cut; "" = not known */
                } sync;
                struct {              /* RECORD_NAME */
                        char comm[RECORD_COMM];
                } name;
                struct {              /* RECORD_EVENT: struct stage_event as it is said there */
                        uint64_t time, sector, other, key;
                        uint32_t sectors, other_device;
                        int32_t error;
                        uint8_t action, unused[3];
                        uint32_t cpu;
                        char comm[RECORD_COMM];
                        char rwbs[12];
                } event;
                struct {              /* RECORD_LOST */
                        uint64_t count;       /* records or events; 0 = it is not known how many */
                        uint64_t time;
                } lost;
        };
};

#ifndef __bpf__
/*
 * A bio that is still open, told about once a second: of each device the oldest one, once it is over a second old. News, not a bio to be
 * counted; its own record comes when it ends. One that was not told again for two seconds is not the oldest any more.
 */
static inline int stage_record_open(const struct stage_record *record)
{
        return record->kind == RECORD_BIO && record->bio.c == 0 && record->bio.given == 0 && !(record->flags & RECORD_PASSED);
}
#endif

_Static_assert(sizeof(struct stage_record) == 128, "two cache lines");

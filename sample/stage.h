#pragma once
/*
 * Where block latency goes: a pure state machine over block events. Nothing here knows where they come from: a recorded trace, a tracefs
 * instance or a BPF ring may feed it; time is only what the events carry.
 *
 *      bio   Q --------> G --------> I --------> D --------> C        Q queued, G got a request, I inserted into the scheduler,
 *                Q2G         G2I         I2D         D2C              M merged into somebody's request, D issued to the driver, C completed
 *            Q --> M --------------------------> D --------> C
 *              Q2M               M2D                 D2C
 *            Q --------> G --------------------> D --------> C        issued directly, no scheduler: G2D
 *
 * Per bio, as btt defines them, with what btt leaves out: G2D; D2D, from the first issue to the last when the driver refused the request
 * (R, requeue); FLUSH, the wait for the write cache; BIO, all of a bio's time in a driver that makes no requests (zram, dm, md); OTHER,
 * where an event is missing. The stages of one bio add up to its Q2C to the nanosecond, so shares add up to 100%.
 *
 * A split bio (X) counts once in Q2C, when its last part ends, and each part in the other stages; its share is that of the part that ended
 * last. A merged bio shares its request's issue and completion. All is counted at completion, so counts of different stages fit together.
 *
 * Events are matched by the request's address where the source knows it (key), else by device, sector and direction of the state that
 * the event asks for: the oldest one first. rwbs changes during a request's life, and D and C run in other tasks: neither is used.
 * What cannot be matched is counted, never guessed. Memory has a ceiling; beyond it the oldest open bio is given up and counted.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/histogram.h"

enum stage_action { STAGE_Q, STAGE_G, STAGE_I, STAGE_D, STAGE_C, STAGE_M, STAGE_F, STAGE_R, STAGE_X, STAGE_A, STAGE_P, STAGE_U,
        STAGE_UT, STAGE_MERGE, /* of two requests: blktrace's M, too */
        STAGE_ACTIONS };
enum stage { STAGE_Q2G, STAGE_Q2M, STAGE_G2I, STAGE_G2D, STAGE_I2D, STAGE_M2D, STAGE_D2D, STAGE_D2C, STAGE_FLUSH, STAGE_BIO, STAGE_OTHER,
        STAGE_Q2C, STAGE_COUNT };
/* Why the time passed: what a stage says to somebody who is not a block layer's author. */
enum stage_cause { CAUSE_TAG, CAUSE_PLUG, CAUSE_QUEUE, CAUSE_REFUSED, CAUSE_DISK, CAUSE_FLUSH, CAUSE_DRIVER, CAUSE_OTHER, CAUSE_COUNT };
enum stage_direction { STAGE_READ, STAGE_WRITE, STAGE_DISCARD, STAGE_FLUSHES,
        STAGE_ELSE, /* rwbs N: zeroes to be written, and what has no letter */ STAGE_DIRECTIONS };
enum stage_kind { STAGE_SYNC, STAGE_ASYNC, STAGE_META, STAGE_KINDS };

enum stage_flags {
        STAGE_IS_SYNC = 1, STAGE_IS_META = 2, STAGE_IS_AHEAD = 4,
        STAGE_PREFLUSH = 8,      /* the write cache is emptied before */
        STAGE_FUA = 16,          /* ... or the data passes it */
        STAGE_FLUSH_OP = 32,     /* the flush request itself, which the kernel makes */
        STAGE_PASSTHROUGH = 64,  /* a command of the driver's, no bio of a file system: counted apart */
        STAGE_OF_REQUEST = 128,  /* the source knows that this is a request's event, not a bio's */
};

struct stage_event {
        uint64_t time;          /* ns */
        uint64_t sector, other; /* of 512 bytes; X: where the second part begins; A: sector on the other device */
        uint64_t key;           /* the request's address, 0 = not known */
        uint32_t sectors;
        uint32_t device, other_device; /* major << 20 | minor; A: the device it came from */
        uint32_t pid;           /* thread; believed at Q, G, M and X only */
        int32_t error;
        uint8_t action;         /* stage_action */
        uint8_t direction;      /* stage_direction; STAGE_FLUSHES only with STAGE_FLUSH_OP */
        uint8_t flags;          /* stage_flags */
        const char *name;       /* of the thread, or NULL */
};

/* rwbs into direction and flags; false when it holds no operation. Stops at NUL or length. */
bool stage_rwbs(const char *text, size_t length, struct stage_event *);

struct stage_process {
        uint32_t pid;
        char name[16];          /* the last one seen, "" = not known */
        uint64_t open;          /* bios of it that are not complete */
};

/* The unit of aggregation: one device, direction, kind, process. */
struct stage_row {
        uint32_t device;
        uint8_t direction, kind;
        const struct stage_process *process;
        /* bios completed: bio[STAGE_Q2C]'s count; spoilt: open while events were lost */
        uint64_t sectors, merged, splits, requeues, errors, spoilt;
        uint64_t requests;                 /* completed; their first bio's process */
        uint64_t path[STAGE_COUNT];        /* ns; the sum without Q2C is path[STAGE_Q2C] */
        uint64_t cause[CAUSE_COUNT];       /* the same time by cause */
        struct histogram *bio[STAGE_COUNT], *request[STAGE_COUNT]; /* NULL = none yet */
};

struct stage_device {
        uint32_t device;
        uint64_t bios, requests;           /* open now */
        uint64_t passthrough, flushes;     /* completed passthrough requests; flush requests issued */
};

struct stage_counts {
        uint64_t events, unmatched[STAGE_ACTIONS];
        uint64_t lost;                     /* events that the source lost: stage_lost */
        uint64_t spoilt;                   /* bios that were open then, so whose stages may be wrong */
        uint64_t evicted, crowded;         /* open bios given up; bios beyond the tables of devices, processes or rows */
        uint64_t backwards;                /* events before their predecessor in a chain: counted as 0 ns */
        uint64_t errors;                   /* completed with an error */
};

/* One bio, complete. Times are UINT64_MAX where the event is not known. */
struct stage_done {
        const struct stage_row *row;
        uint64_t sector, sectors, q, g, i, m, d, c;
        uint64_t stage[STAGE_COUNT], cause[CAUSE_COUNT]; /* ns on the way of the part that ended last */
        uint32_t seen;          /* bits of the stages that it went through, be it in 0 ns */
        const struct stage_process *front; /* whose bios were most of those open on the device at Q; NULL = none was */
        uint64_t front_open, open;         /* how many of it, and of all */
        /* What a record needs beside (stage_to_record); of the same part. */
        uint64_t d1, data, given;          /* first issue; the device had the data; end of the flush after it, UINT64_MAX = none */
        uint64_t inserted;                 /* a merged part's request came to the scheduler; UINT64_MAX = it did not */
        uint64_t id;                       /* the same for all parts of a bio, never 0 */
        uint64_t part_sector;
        uint32_t part_sectors, request_sectors, tid, requeues;
        uint16_t told;                     /* parts of the bio that the callbacks were told, with this one */
        int32_t error;
        uint8_t flags;                     /* stage_flags of its first event */
        bool split, last;                  /* the bio was; this part ended it */
        bool head;                         /* it speaks for its request */
        bool driver;                       /* no request was seen of it: the driver took the bio */
};

struct stage_options {
        size_t max_open;        /* bios; 0 = 262,144 */
        /* Called for every completed bio. May be NULL. */
        void (*done)(void *own, const struct stage_done *);
        void *own;
        /* Called for each part of a split bio that ends before the last one: only its stages count. May be NULL. */
        void (*part)(void *own, const struct stage_done *);
        bool no_histograms;     /* rows hold sums only, which takes a tenth of the memory: for who listens to `done` and `part` */
};

struct stage_set;
int stage_new(const struct stage_options *, struct stage_set **);
void stage_free(struct stage_set *);
/* In order of time. 0 or -ENOMEM. */
int stage_event(struct stage_set *, const struct stage_event *);
/* A record of a live tracer (stage_record.h): a bio that has ended is counted, with the process `tgid`; a name is kept; an event goes to
 * stage_event, a loss to stage_lost; others are ignored. 0 or -ENOMEM. Bios of one set come as records or as events, not both. */
struct stage_record;
int stage_record(struct stage_set *, const struct stage_record *);
/*
 * The way back: the RECORD_BIO of what a callback was told, so that a source that has events only can fill the stream with what a tracer of
 * bios would. With both callbacks `part` gives RECORD_PIECEs, `done` what ends the bio. Without `part` a split bio is one RECORD_LAST of
 * one part, the one that ended last, with all sectors: the bio's sums stay right, its other parts' stages and requests are missing. Lost in
 * both: requests whose first bio was not seen; of a request that was completed piecemeal, what followed its first bio's end; the kernel's
 * own flush requests that served no bio without data; which thread group queued it: tgid is the process that it counts for. An event at
 * time 0 becomes one at 1. 0, or -EINVAL: it has no end.
 */
int stage_to_record(const struct stage_done *, struct stage_record *);
/* The source lost this many events here (0 = it does not know how many). */
void stage_lost(struct stage_set *, uint64_t events);
/* The end: what waits for a possible later event (writes past the cache) is counted. */
void stage_finish(struct stage_set *);

size_t stage_rows(const struct stage_set *);
const struct stage_row *stage_get_row(const struct stage_set *, size_t);
size_t stage_devices(const struct stage_set *);
const struct stage_device *stage_get_device(const struct stage_set *, size_t);
const struct stage_counts *stage_get_counts(const struct stage_set *);
/* Bios that are open, or of which some part has ended and others are waited for. */
size_t stage_unfinished(const struct stage_set *);
/* When the oldest bio that is open on a device was queued; false: none is. */
bool stage_oldest(const struct stage_set *, uint32_t device, uint64_t *time);

/* Rows added up: zero it first, free it in the end. -ENOMEM leaves it as usable as it was. */
struct stage_sum {
        uint64_t bios, requests, sectors, merged, splits, requeues, errors, spoilt, path[STAGE_COUNT], cause[CAUSE_COUNT];
        struct histogram bio[STAGE_COUNT], request[STAGE_COUNT];
};
void stage_add(struct stage_sum *, const struct stage_row *);

const char *stage_name(enum stage);                 /* "Q2G" */
const char *stage_cause_name(enum stage_cause);     /* "tag" */
const char *stage_direction_name(enum stage_direction);
const char *stage_kind_name(enum stage_kind);
char stage_letter(enum stage_action);               /* blkparse's first letter */

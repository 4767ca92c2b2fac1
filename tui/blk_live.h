#pragma once
/*
 * A live run of watop blk: what its loop (blk_live.c) and its screen (blk_screen.c) share.
 */
#include "sample/stage_behind.h"
#include "sample/stage_stream.h"
#include "tui/blk.h"
#include "tui/options.h"
#include "tui/screen.h"

enum { BLK_LATE = 4096, BLK_ROOM = 4096, BLK_CPUS = 1024 };

struct blk_names;

/* A bio that has ended, until it is told. */
struct blk_late {
        struct stage_done done;
        bool slow, sampled;
};

struct blk_run {
        struct blk_request *request;
        struct blk_live live;
        struct attach *attach;
        struct state *state;
        struct stream_reader *reader;      /* NULL: watopd is away */
        struct stage_set *all, *own;       /* own: of -p; else the same */
        struct behind *behind;
        struct sync_set *sync;
        struct blk_calls *calls;
        struct blk_names *names;
        struct stage_record *records;
        struct blk_late *late;             /* a ring, the oldest first */
        size_t late_first, late_count;
        uint64_t bios, stride;             /* in this round; of how many one is asked who was in front */
        uint32_t sequence[BLK_CPUS];
        struct stream_facts first, now, before; /* before: of watopds that went away */
        uint64_t own_ns;                   /* our CPU time at the start */
        uint64_t since;                    /* everything that began from then on is read whole */
        uint64_t facts_ns;                 /* when they were read last */
        uint64_t spoilt_base;              /* calls that were spoilt before sums began anew */
        uint64_t opened, asked, span;      /* CLOCK_MONOTONIC; asked: the lease stands; span 0 = until Ctrl-C */
        bool unread;                       /* nobody reads what we print any more */
        bool pictures;                     /* a terminal that is drawn on */
        struct screen *screen;
};

/* Wait for what comes, at most so long, and take it. 0 or -errno. */
int blk_live_step(struct blk_run *, uint64_t timeout_ns);
/* Sums begin anew. 0 or -ENOMEM: then nothing is as it was. */
int blk_live_anew(struct blk_run *);
/* The picture, once a second, until a key, a signal or the span ends it. 0 or -errno, with a line in why. */
int blk_screen(struct blk_run *, char *why, size_t size, int *ended_by);

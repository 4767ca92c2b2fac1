#pragma once
/*
 * Sums of traced bios and calls, as the scopes stage, bio and sync show them: written by the thread that drains the tracer, copied by the
 * tick.
 *
 * They are kept beside the stage engine's own (sample/stage.h), which has thousands of rows of twelve histograms: here is one sum for each
 * device, direction and stage; each process, device and direction; each process and call. They only grow, over all leases. Tables are
 * bounded: what finds no place is in sums of nobody (device 0, process 0), so that nothing is lost from totals.
 *
 * The writer holds the lock for one bio at a time, the tick for a copy of what changed; a tick that does not get it in a moment shows what
 * it showed before.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/metric.h"
#include "sample/stage.h"
#include "sample/stage_record.h"
#include "sample/stage_sync.h"

/* Octaves of a histogram, as scope latency shows it: 16 buckets each. */
enum { SUM_STEPS = HISTOGRAM_STEPS, SUM_OCTAVES = HISTOGRAM_BUCKETS / SUM_STEPS };

enum sum_kind { SUM_STAGE, SUM_BIO, SUM_SYNC, SUM_KINDS };

struct sum {
        uint64_t id;                  /* key.a of its row */
        uint8_t kind;                 /* sum_kind */
        uint8_t direction;            /* SUM_STAGE, SUM_BIO */
        uint8_t what;                 /* stage or call */
        uint32_t device, tgid;        /* 0: of all that found no place */
        char name[RECORD_COMM], file[RECORD_FILE]; /* file: of the longest call since the copy before that had one */
        uint64_t count, errors, requests, bytes, total, path, cgroup;
        uint64_t longest;             /* since the copy before, if `count` grew */
        uint64_t part[SYNC_PARTS];    /* ns by cause, in the order of enum stage_cause; calls: and journal */
        uint64_t octaves;             /* bits of those that ever counted */
        uint64_t since_ns;            /* CLOCK_BOOTTIME of its beginning */
        uint64_t last_ns;             /* when it counted last, CLOCK_MONOTONIC */
};

struct sums;
int sums_new(struct sums **); /* 0 or -ENOMEM */
void sums_free(struct sums *);

/* ---- the thread ---- */
/* tgid: of the row's process; 0 = not known. whole: the bio has ended, else a part of it. now: CLOCK_MONOTONIC, roughly. */
void sums_bio(struct sums *, const struct stage_done *, uint32_t tgid, bool whole, uint64_t now);
void sums_requests(struct sums *, const struct stage_row *, uint32_t tgid, uint64_t more);
void sums_sync(struct sums *, const struct sync_done *);
void sums_cgroup(struct sums *, const struct stage_record *); /* RECORD_BIO whose `cgroup` is known */

/* ---- the tick ---- */
/* Takes over what changed. False: the lock was not to be had; what follows is as before. */
bool sums_copy(struct sums *);
size_t sums_count(const struct sums *, enum sum_kind); /* of the copy */
struct sum_view {
        const struct sum *sum;
        bool changed;                 /* by the copy before this call */
        uint64_t octaves_changed;     /* bits */
};
void sums_get(const struct sums *, enum sum_kind, size_t index, struct sum_view *);
/* SUM_STEPS counts and CLOCK_BOOTTIME of the first of them, or NULL. */
const uint64_t *sums_octave(const struct sums *, enum sum_kind, size_t index, unsigned octave, uint64_t *since_ns);
/* The place of one whose process is gone. The last one takes its index. Nothing happens when it counted meanwhile. */
void sums_drop(struct sums *, enum sum_kind, size_t index);

#pragma once
/*
 * Inside of the table of calls: what stage_sync.c (memory, rows, who is judged when) and stage_sync_cut.c (where one call's time went)
 * share.
 */
#include "sample/stage_names.h"
#include "sample/stage_own.h"
#include "sample/stage_sync.h"

enum { SYNC_STRIDE = 64, SYNC_OWNERS = 4096, SYNC_DISKS = 16, SYNC_MINE = 4 };

/* A bio (or a part of one) that has ended, cut at its causes: cause[0] from q to until[0], and so on. */
struct sync_bio {
        uint64_t q, until[STAGE_CUTS];
        uint64_t next, older_end;  /* the one before it in its chain; the latest end of that and all before */
        /* Every SYNC_STRIDEth of a chain: the one so far before it (0 = none), the earliest q of those behind that one up to this one,
         * and older_end as it is there. A call is judged a moment after its end: most of what is newest began later, and is passed at
         * once. */
        uint64_t skip, skip_q, skip_end;
        uint32_t device, tid, tgid, sectors;
        uint8_t cause[STAGE_CUTS], cuts;
        bool driver, piece, read, kernel;
};

/* Bios of a process (by hash), or of kernel threads: newest first, by number. */
struct sync_chain {
        uint64_t last, end;
        uint64_t anchor, anchor_end, least_q; /* the newest one with a skip; the end there; the earliest q of the `since` after it */
        unsigned since;
};

/* What may be given time of a call: by class, what ended last first. */
struct sync_candidate { uint64_t q, end, number; };
struct sync_span { uint64_t from, to; };

struct sync_set {
        struct sync_options options;
        struct behind *behind;
        struct stage_names *names;
        /* The bios `first` to `next` - 1; number n lies at n % room, room being a power of two. 0 = none. */
        struct sync_bio *bios;
        size_t room;
        uint64_t first, next;
        struct sync_chain own[SYNC_OWNERS], kernel;
        /* Calls that wait to be judged: a heap, the one that ended first on top. */
        struct sync_call_open { uint64_t order; struct stage_record record; } *calls;
        size_t call_count, call_room;
        uint64_t order;
        struct sync_row **rows;
        size_t row_count;
        uint32_t *row_hash;       /* index + 1 */
        uint64_t spoilt, lost_at; /* the newest loss */
        uint64_t newest;          /* the latest end that was seen */
        /* For one call at a time. */
        struct sync_candidate *candidates;
        size_t candidate_count, candidate_room;
        struct sync_span *gaps[2];
        size_t gap_room[2];
};

/* What one call's time was; zero it but for the record. */
struct sync_cut {
        const struct stage_record *record;
        uint64_t part[SYNC_PARTS], journal[CAUSE_COUNT], bios, bytes;
        bool spoilt, below;       /* below: bios of a layer with requests were found */
        struct sync_disk { uint32_t device; uint64_t ns, from, to; } disks[SYNC_DISKS];
        size_t disk_count;
        uint32_t mine[SYNC_MINE]; /* the caller's process and the journals that it waited for */
        size_t mine_count;
        size_t gap_count;         /* what nobody has yet, in gaps[0], latest first */
};

static inline const struct sync_bio *sync_bio_at(const struct sync_set *set, uint64_t number)
{
        return &set->bios[number & (set->room - 1)];
}

static inline uint64_t sync_bio_end(const struct sync_bio *bio) { return bio->until[bio->cuts - 1]; }
static inline unsigned sync_owner(uint32_t tgid) { return (tgid * UINT32_C(0x9e3779b1)) >> 20; /* SYNC_OWNERS is 2^12 */ }

bool sync_is_journal(const char *name);
/* 0 or -ENOMEM. */
int sync_cut_call(struct sync_set *, struct sync_cut *);
/* Room for one more than count in a list that grows by doubling. 0 or -ENOMEM. */
int sync_grow(void **list, size_t *room, size_t count, size_t size);

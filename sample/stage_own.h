#pragma once
/*
 * Inside of the stage engine: what stage.c (which event belongs to which bio and request) and stage_set.c (tables and sums) share.
 *
 * A bio is made of parts: one, or more after splits. A part waits (by itself, found by its first sector) or belongs to a request (found by
 * its own first sector, its end, or its address). Everything is on intrusive lists and recycled, so a steady load allocates nothing.
 */
#include "sample/stage.h"

enum { STAGE_HASH = 1 << 12, STAGE_MAX_DEVICES = 1024, STAGE_MAX_PROCESSES = 16384, STAGE_MAX_ROWS = 4096, STAGE_OWNERS = 64,
        STAGE_REMAPS = 32, STAGE_HELD = 64 };

/* One place in a chain, the first link of each chain being the table's own. Oldest first. */
struct link {
        struct link *next, *prev;
};

struct device {
        struct stage_device shown;
        struct owner { uint32_t process; uint32_t open; } owners[STAGE_OWNERS]; /* processes with open bios here */
        unsigned owner_count;
        struct link flushes;     /* flush bios (parts), oldest first: they have no sector to be told apart by */
        struct link held;        /* parts written past the cache: complete unless a flush follows */
        unsigned held_count;
        struct request *last_merge; /* the scheduler's: tried first for the next merge */
        uint64_t flush_issued;   /* the flush request in the driver, 0 = none */
        bool issues;             /* a D was seen: the trace holds them, and the device has requests */
        bool fua_plain, fua_flushes; /* learned: whether such writes are followed by a flush */
};

struct part {
        struct link chain;       /* waiting: by first sector, or the device's flushes or held; else the request's parts */
        struct part *sibling;    /* of the same bio */
        struct bio *bio;
        struct request *request; /* NULL: waits */
        uint64_t start, q, g, i, m, d1, d, c;
        uint64_t given;          /* written past the cache: the flush after the data was done; else 0 */
        uint64_t inserted;       /* a merged part's request: when it came to the scheduler */
        uint64_t flushed;        /* a flush bio that speaks for the flush request: when that ended */
        uint32_t sectors, request_sectors;
        bool held;
        bool head;               /* the first of its request */
        bool of_request;         /* ended by a request that nothing else was seen of */
};

struct bio {
        struct link all;         /* oldest first: who is given up */
        struct device *device;
        struct part *parts;
        uint64_t order;
        uint32_t process, pid, open_parts, told, epoch;
        uint32_t front, front_open, open;
        uint8_t direction, kind, flags;
        bool split, merged;
        uint64_t start, sectors;
        int32_t error;
        uint32_t requeues;
};

struct request {
        struct link by_start, by_end, by_key, all, parts;
        struct device *device;
        uint64_t start, key, g, i, d1, d, q;
        uint32_t sectors, pid, process, epoch, requeues;
        uint8_t direction, kind;
        bool issued;             /* the driver has it */
        bool passthrough, preflush;
};

struct stage_set {
        struct stage_options options;
        struct stage_counts counts;
        struct device **devices;
        size_t device_count;
        struct stage_process **processes;
        size_t process_count;
        struct stage_row **rows;
        size_t row_count;
        uint32_t *process_hash, *row_hash; /* index + 1 */
        struct link waiting[STAGE_HASH], starts[STAGE_HASH], ends[STAGE_HASH], keys[STAGE_HASH];
        struct link bios, requests;  /* all open ones */
        size_t open, open_requests;
        struct part *free_parts;
        struct bio *free_bios;
        struct request *free_requests;
        struct remap { uint32_t device, process; uint64_t sector; uint32_t sectors; } remaps[STAGE_REMAPS];
        unsigned remap_next;
        uint64_t order;
        uint32_t epoch;              /* goes up when events were lost */
        struct device *last_device;
        struct live *live;           /* stage_live.c: NULL until a record comes */
};

static inline void link_init(struct link *head)
{
        head->next = head->prev = head;
}

static inline void link_append(struct link *head, struct link *item)
{
        item->prev = head->prev;
        item->next = head;
        head->prev->next = item;
        head->prev = item;
}

static inline void link_remove(struct link *item)
{
        item->prev->next = item->next;
        item->next->prev = item->prev;
        item->next = item->prev = item;
}

#define LINK_OF(item, type, member) ((type *)(void *)((char *)(item) - offsetof(type, member)))

static inline unsigned hash(uint32_t device, uint64_t sector)
{
        uint64_t h = (sector ^ (uint64_t)device << 40) * UINT64_C(0x9e3779b97f4a7c15);
        return (unsigned)(h >> 52); /* STAGE_HASH is 2^12 */
}

static inline uint8_t stage_kind_of(uint8_t direction, uint8_t flags)
{
        return flags & STAGE_IS_META ? STAGE_META : flags & STAGE_IS_SYNC ? STAGE_SYNC :
                direction == STAGE_READ && !(flags & STAGE_IS_AHEAD) ? STAGE_SYNC : STAGE_ASYNC;
}

static inline uint64_t part_end(const struct part *part) { return part->start + part->sectors; }
static inline uint64_t request_end(const struct request *request) { return request->start + request->sectors; }

/* stage_find.c */
enum wanted { WANT_NEW, WANT_ISSUED, WANT_OPEN /* not with the driver */ };
struct part *stage_find_waiting(struct stage_set *, uint32_t device, uint64_t start, uint32_t sectors, uint8_t direction, uint32_t pid);
struct request *stage_find_request(struct stage_set *, const struct stage_event *, enum wanted);
/* The one that ends where the event begins; that begins where it ends. */
struct request *stage_find_end(struct stage_set *, const struct stage_event *, const struct request *except);
struct request *stage_find_start(struct stage_set *, const struct stage_event *);

/* stage.c: all that is open, and all that is kept to be used again. */
void stage_forget(struct stage_set *);
/* stage_set.c. NULL: the table is full or there is no memory (*error = -ENOMEM). */
struct device *stage_find_device(struct stage_set *, uint32_t device, int *error);
/* The process's number; the last one stands for all others when the table is full. */
int stage_find_process(struct stage_set *, uint32_t pid, const char *name, uint32_t *number);
/* A part ended; last: its bio, too. A request ended. */
int stage_count_part(struct stage_set *, const struct part *, bool last);
int stage_count_request(struct stage_set *, const struct request *, uint64_t end);
/* Only if it is known already. */
void stage_rename_process(struct stage_set *, uint32_t pid, const char *name);
/* A part's way as causes, one after the other from its q on: no pieces of 0 ns. Returns how many. */
enum { STAGE_CUTS = 6 };
struct stage_cut { uint64_t until; uint8_t cause; };
unsigned stage_cut(const struct part *, struct stage_cut cuts[STAGE_CUTS]);
void stage_own_count(struct stage_set *, struct device *, uint32_t process, int step);
/* Of the others' open bios, whose are the most. */
void stage_own_front(const struct device *, struct bio *);
/* stage_live.c: what waits for more of its bio is given up; all is forgotten. */
void stage_live_finish(struct stage_set *);
size_t stage_live_open(const struct stage_set *);
void stage_live_free(struct stage_set *);
/* As stage_cut, of a RECORD_BIO in its own times; *q is where the first begins. 0: it has not ended, or in no time. */
struct stage_record;
unsigned stage_record_cuts(const struct stage_record *, struct stage_cut cuts[STAGE_CUTS], uint64_t *q);

#pragma once
/*
 * A table of the rows of one scope: found by key, walked in the order in which they came. Shared by writer (sample.c) and reader (state.c).
 *
 * Each row has its slots twice, `now` and `then`: for the writer what was read and what was sent, for the reader the end and the start of
 * the interval. A row never moves while it lives, and rows that end are used again with the memory of their texts, so a machine on
 * which processes come and go costs no allocation. The owner's struct begins with a struct entry.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/sample.h"

enum {
        ROWS_MAX = 1 << 20,        /* rows of one scope: a hostile frame cannot ask for more */
        ROWS_BYTES_MAX = 1 << 30,  /* memory of one scope */
};

struct entry_text {
        char *bytes;
        uint32_t length, capacity;
};

struct entry {
        struct key key;
        struct entry *next;        /* in the same bucket, or in the list of free rows */
        uint32_t index;            /* place in the order */
        uint32_t epoch;            /* last pass that saw it: the owner's business */
        int32_t offset_us;         /* of the row's own read, after the scope's start; negative: before it */
        int32_t then_offset_us;    /* the writer's: as sent last */
        uint64_t present, then_present; /* slots that have a value or a text */
        uint64_t *now, *then;      /* one word a slot; 0 where absent */
        struct entry_text *texts;  /* one for each text slot, in slot order */
};

struct slab;
struct rows {
        size_t size, stride;       /* of the owner's struct; of all that belongs to a row */
        unsigned slots;
        uint64_t texts, grows;     /* masks: slots that are texts; counters and times */
        struct entry **order;
        size_t count, room;
        struct entry **buckets;    /* chains; a power of two of them */
        size_t bucket_count;
        struct entry *free;
        struct slab *slabs;
        size_t cursor;             /* where the next row is expected: passes come in the same order */
        size_t bytes;
};

/* size: of the owner's struct. Allocates nothing. */
void rows_init(struct rows *, enum scope, size_t size);
/* The same for a stranger's scope: so many slots, these of them texts. */
void rows_init_as(struct rows *, unsigned slots, uint64_t texts, size_t size);
void rows_fini(struct rows *);

/* NULL when there is none. */
struct entry *rows_find(const struct rows *, struct key);
/* The same, fast when rows are asked for in the order in which they stand. */
struct entry *rows_find_next(struct rows *, struct key);
/* Append a row that is not there yet: owner's struct, slots and text lengths are 0. NULL: no memory, or too many rows. */
struct entry *rows_add(struct rows *, struct key);
/* Remove the rows for which dead() is true; the others keep their order. */
void rows_sweep(struct rows *, bool (*dead)(struct entry *, void *arg), void *arg);

static inline struct entry_text *rows_text(const struct rows *rows, const struct entry *entry, unsigned slot)
{
        return &entry->texts[__builtin_popcountll(rows->texts & ((UINT64_C(1) << slot) - 1))];
}
/* Keep a copy, reusing memory. 0 or -ENOMEM. */
int rows_text_set(struct rows *, struct entry *, unsigned slot, const char *bytes, size_t length);

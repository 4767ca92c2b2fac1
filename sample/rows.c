/*
 * The row table: a chained hash over keys, rows in slabs, an array that holds their order.
 *
 * Limits (ROWS_MAX, ROWS_BYTES_MAX) hold for writer and reader alike, so what one can write the other can hold, and bytes of a stranger
 * cannot make a reader allocate without end.
 */
#include "sample/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slab {
        struct slab *next;
        size_t count;
        uint64_t rows[];
};

enum { SLAB_MIN = 2, SLAB_MAX = 256, BUCKETS_MIN = 16 };

static unsigned text_count(const struct rows *rows)
{
        return (unsigned)__builtin_popcountll(rows->texts);
}

void rows_init(struct rows *rows, enum scope scope, size_t size)
{
        *rows = (struct rows){.size = (size + 7) & ~(size_t)7, .slots = (unsigned)scopes[scope].count};
        for (unsigned i = 0; i < rows->slots; i++) {
                enum metric_kind kind = metrics[scopes[scope].first + (int)i].kind;

                if (kind == KIND_TEXT)
                        rows->texts |= UINT64_C(1) << i;
                if (kind == KIND_COUNTER || kind == KIND_TIME)
                        rows->grows |= UINT64_C(1) << i;
        }
        rows->stride = rows->size + 2 * sizeof(uint64_t) * rows->slots + sizeof(struct entry_text) * text_count(rows);
}

void rows_init_as(struct rows *rows, unsigned slots, uint64_t texts, size_t size)
{
        *rows = (struct rows){.size = (size + 7) & ~(size_t)7, .slots = slots, .texts = texts};
        rows->stride = rows->size + 2 * sizeof(uint64_t) * rows->slots + sizeof(struct entry_text) * text_count(rows);
}

static void free_texts(const struct rows *rows, struct entry *entry)
{
        for (unsigned i = 0; i < text_count(rows); i++)
                free(entry->texts[i].bytes);
}

void rows_fini(struct rows *rows)
{
        for (struct slab *slab = rows->slabs, *next; slab; slab = next) {
                next = slab->next;
                for (size_t i = 0; i < slab->count; i++)
                        free_texts(rows, (void *)((char *)slab->rows + i * rows->stride));
                free(slab);
        }
        free(rows->order);
        free(rows->buckets);
        rows->slabs = NULL;
        rows->order = rows->buckets = NULL;
        rows->free = NULL;
        rows->count = rows->room = rows->bucket_count = rows->bytes = 0;
}

static size_t bucket_of(const struct rows *rows, struct key key)
{
        uint64_t hash = key.a * UINT64_C(0x9e3779b97f4a7c15) ^ (key.b + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);

        hash ^= hash >> 29;
        hash *= UINT64_C(0xbf58476d1ce4e5b9);
        return (size_t)(hash >> 32) & (rows->bucket_count - 1);
}

static bool same(struct key x, struct key y)
{
        return x.a == y.a && x.b == y.b;
}

struct entry *rows_find(const struct rows *rows, struct key key)
{
        if (rows->count == 0)
                return NULL;
        for (struct entry *entry = rows->buckets[bucket_of(rows, key)]; entry; entry = entry->next)
                if (same(entry->key, key))
                        return entry;
        return NULL;
}

struct entry *rows_find_next(struct rows *rows, struct key key)
{
        struct entry *entry;

        if (rows->cursor >= rows->count)
                rows->cursor = 0;
        if (rows->count > 0 && same(rows->order[rows->cursor]->key, key))
                entry = rows->order[rows->cursor];
        else
                entry = rows_find(rows, key);
        if (entry)
                rows->cursor = entry->index + 1;
        return entry;
}

/* Room for one more row in order and buckets. */
static int reserve(struct rows *rows)
{
        if (rows->count == rows->room) {
                size_t room = rows->room ? rows->room * 2 : BUCKETS_MIN;
                struct entry **order = realloc(rows->order, room * sizeof(*order));

                if (!order)
                        return -ENOMEM;
                rows->order = order;
                rows->room = room;
        }
        if (rows->count >= rows->bucket_count) {
                size_t count = rows->bucket_count ? rows->bucket_count * 2 : BUCKETS_MIN;
                struct entry **buckets = calloc(count, sizeof(*buckets));

                if (!buckets)
                        return -ENOMEM;
                free(rows->buckets);
                rows->buckets = buckets;
                rows->bucket_count = count;
                for (size_t i = 0; i < rows->count; i++) {
                        struct entry **bucket = &buckets[bucket_of(rows, rows->order[i]->key)];

                        rows->order[i]->next = *bucket;
                        *bucket = rows->order[i];
                }
        }
        return 0;
}

/* One more slab on the list of free rows; about as many rows as there are, so that a scope of one row stays small. */
static int add_slab(struct rows *rows)
{
        size_t count = rows->count < SLAB_MIN ? SLAB_MIN : rows->count > SLAB_MAX ? SLAB_MAX : rows->count;
        size_t size = sizeof(struct slab) + count * rows->stride;

        if (rows->bytes + size > ROWS_BYTES_MAX)
                return -ENOMEM;
        struct slab *slab = calloc(1, size);
        if (!slab)
                return -ENOMEM;
        slab->count = count;
        slab->next = rows->slabs;
        rows->slabs = slab;
        rows->bytes += size;
        for (size_t i = count; i-- > 0;) {
                char *at = (char *)slab->rows + i * rows->stride;
                struct entry *entry = (void *)at;

                entry->now = (void *)(at + rows->size);
                entry->then = entry->now + rows->slots;
                entry->texts = (void *)(entry->then + rows->slots);
                entry->next = rows->free;
                rows->free = entry;
        }
        return 0;
}

struct entry *rows_add(struct rows *rows, struct key key)
{
        if (rows->count >= ROWS_MAX || reserve(rows) < 0 || (!rows->free && add_slab(rows) < 0))
                return NULL;

        struct entry *entry = rows->free;
        struct entry kept = {.now = entry->now, .then = entry->then, .texts = entry->texts};

        rows->free = entry->next;
        memset(entry, 0, rows->size);
        *entry = kept;
        memset(entry->now, 0, 2 * sizeof(uint64_t) * rows->slots);
        for (unsigned i = 0; i < text_count(rows); i++)
                entry->texts[i].length = 0;

        struct entry **bucket = &rows->buckets[bucket_of(rows, key)];
        entry->key = key;
        entry->next = *bucket;
        *bucket = entry;
        entry->index = (uint32_t)rows->count;
        rows->order[rows->count++] = entry;
        return entry;
}

static void unlink_entry(struct rows *rows, struct entry *entry)
{
        struct entry **at = &rows->buckets[bucket_of(rows, entry->key)];

        while (*at != entry)
                at = &(*at)->next;
        *at = entry->next;
        entry->next = rows->free;
        rows->free = entry;
}

void rows_sweep(struct rows *rows, bool (*dead)(struct entry *, void *), void *arg)
{
        size_t kept = 0;

        for (size_t i = 0; i < rows->count; i++) {
                struct entry *entry = rows->order[i];

                if (dead(entry, arg)) {
                        unlink_entry(rows, entry);
                } else {
                        entry->index = (uint32_t)kept;
                        rows->order[kept++] = entry;
                }
        }
        rows->count = kept;
        rows->cursor = 0;
}

int rows_text_set(struct rows *rows, struct entry *entry, unsigned slot, const char *bytes, size_t length)
{
        struct entry_text *text = rows_text(rows, entry, slot);

        if (length > text->capacity) {
                uint32_t capacity = text->capacity ? text->capacity : 16;

                while (capacity < length)
                        capacity *= 2;
                if (rows->bytes + capacity - text->capacity > ROWS_BYTES_MAX)
                        return -ENOMEM;
                char *grown = realloc(text->bytes, capacity);
                if (!grown)
                        return -ENOMEM;
                rows->bytes += capacity - text->capacity;
                text->bytes = grown;
                text->capacity = capacity;
        }
        if (length > 0)
                memcpy(text->bytes, bytes, length);
        text->length = (uint32_t)length;
        return 0;
}

/*
 * A hash from key to position in an array. See who_table.h.
 */
#include "collectors/who_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 64, SLOTS_EACH = 4 };

void who_table_init(struct who_table *table, size_t most)
{
        *table = (struct who_table){.most = most};
}

void who_table_fini(struct who_table *table)
{
        free(table->all);
        free(table->slots);
        *table = (struct who_table){0};
}

static size_t slot_of(const struct who_table *table, struct key key)
{
        uint64_t hash = (key.a * UINT64_C(0x9e3779b97f4a7c15)) ^ ((key.b + 1) * UINT64_C(0xc2b2ae3d27d4eb4f));
        return (size_t)((hash ^ hash >> 32) & (table->slot_count - 1));
}

/* The slot that holds the key, or the free one where it would be. */
static size_t place_of(const struct who_table *table, struct key key)
{
        size_t s = slot_of(table, key);
        for (; table->slots[s]; s = (s + 1) & (table->slot_count - 1)) {
                const struct who_one *one = &table->all[table->slots[s] - 1];
                if (one->key.a == key.a && one->key.b == key.b)
                        break;
        }
        return s;
}

static void index_all(struct who_table *table)
{
        memset(table->slots, 0, table->slot_count * sizeof *table->slots);
        for (size_t i = 0; i < table->count; i++)
                table->slots[place_of(table, table->all[i].key)] = (uint32_t)i + 1;
}

static int grow(struct who_table *table)
{
        size_t capacity = table->capacity ? table->capacity * 2 : FIRST;
        struct who_one *all = realloc(table->all, capacity * sizeof *all);
        if (!all)
                return -ENOMEM;
        table->all = all;
        uint32_t *slots = realloc(table->slots, capacity * SLOTS_EACH * sizeof *slots);
        if (!slots)
                return -ENOMEM;
        table->slots = slots;
        table->slot_count = capacity * SLOTS_EACH;
        table->capacity = capacity;
        index_all(table);
        return 0;
}

struct who_one *who_find(const struct who_table *table, struct key key)
{
        if (table->count == 0)
                return NULL;
        uint32_t at = table->slots[place_of(table, key)];
        return at ? &table->all[at - 1] : NULL;
}

struct who_one *who_add(struct who_table *table, struct key key, bool *added)
{
        struct who_one *one = who_find(table, key);
        if (added)
                *added = !one;
        if (one)
                return one;
        if (table->count == table->most || (table->count == table->capacity && grow(table) < 0))
                return NULL;
        size_t place = place_of(table, key);
        one = &table->all[table->count++];
        *one = (struct who_one){.key = key};
        table->slots[place] = (uint32_t)table->count;
        return one;
}

void who_sweep(struct who_table *table, bool (*gone)(const struct who_one *, void *arg), void *arg)
{
        size_t kept = 0;
        for (size_t i = 0; i < table->count; i++)
                if (!gone(&table->all[i], arg))
                        table->all[kept++] = table->all[i];
        if (kept == table->count)
                return;
        table->count = kept;
        index_all(table);
}

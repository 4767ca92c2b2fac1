/*
 * A small cache of names, four places for each hash. See stage_names.h.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_names.h"

enum { WAYS = 4, SETS = 2048 };

struct entry {
        uint64_t used;           /* 0 = free */
        uint32_t tgid;
        bool first;              /* named by the thread that gives the group its number */
        char comm[RECORD_COMM];
};

struct stage_names {
        uint64_t now;
        struct entry entries[SETS][WAYS];
};

struct stage_names *stage_names_new(void)
{
        return calloc(1, sizeof(struct stage_names));
}

void stage_names_free(struct stage_names *names)
{
        free(names);
}

static struct entry *set_of(struct stage_names *names, uint32_t tgid)
{
        return names->entries[(tgid * UINT32_C(0x9e3779b1)) >> 21]; /* SETS is 2^11 */
}

static struct entry *find(struct stage_names *names, uint32_t tgid)
{
        struct entry *set = set_of(names, tgid);

        for (int i = 0; i < WAYS; i++)
                if (set[i].used && set[i].tgid == tgid)
                        return &set[i];
        return NULL;
}

void stage_names_put(struct stage_names *names, const struct stage_record *record)
{
        bool first = record->tid == record->tgid;
        struct entry *entry = find(names, record->tgid);
        size_t length = strnlen(record->name.comm, sizeof record->name.comm - 1);

        if (length == 0 || (entry && entry->first && !first))
                return;
        if (entry == NULL) {
                struct entry *set = set_of(names, record->tgid);
                entry = set;
                for (int i = 1; i < WAYS; i++)
                        if (set[i].used < entry->used)
                                entry = &set[i];
        }
        *entry = (struct entry){.used = ++names->now, .tgid = record->tgid, .first = first};
        memcpy(entry->comm, record->name.comm, length);
}

const char *stage_names_get(struct stage_names *names, uint32_t tgid)
{
        struct entry *entry = find(names, tgid);

        if (entry == NULL)
                return "";
        entry->used = ++names->now;
        return entry->comm;
}

/*
 * Names and processes of the threads that block tracing told of. Contract: stages_names.h.
 */
#include "collectors/stages_names.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 4, NAME_BITS = 10, MEMBER_BITS = 12 };

struct name {
        uint64_t used;                /* 0 = free */
        uint32_t id;
        struct stage_record record;
};

struct member {
        uint64_t used;                /* 0 = free */
        uint32_t tid, tgid;
        bool kernel;
};

struct stages_names {
        uint64_t now;
        struct name names[1 << NAME_BITS][WAYS];
        struct member members[1 << MEMBER_BITS][WAYS];
};

static unsigned place(uint32_t id, unsigned bits)
{
        return id * UINT32_C(2654435761) >> (32 - bits);
}

struct stages_names *stages_names_new(void)
{
        return calloc(1, sizeof(struct stages_names));
}

void stages_names_free(struct stages_names *names)
{
        free(names);
}

bool stages_names_keep(struct stages_names *names, const struct stage_record *record)
{
        uint32_t id = record->tid != 0 ? record->tid : record->tgid;
        struct name *set = names->names[place(id, NAME_BITS)], *name = set;

        for (unsigned i = 0; i < WAYS; i++) {
                if (set[i].used != 0 && set[i].id == id) {
                        name = &set[i];
                        break;
                }
                if (set[i].used < name->used)
                        name = &set[i];
        }
        bool known = name->used != 0 && name->id == id && memcmp(name->record.name.comm, record->name.comm, RECORD_COMM) == 0;
        *name = (struct name){ ++names->now, id, *record };
        return !known;
}

void stages_names_each(const struct stages_names *names, void (*each)(void *own, const struct stage_record *), void *own)
{
        for (unsigned i = 0; i < 1u << NAME_BITS; i++)
                for (unsigned way = 0; way < WAYS; way++)
                        if (names->names[i][way].used != 0)
                                each(own, &names->names[i][way].record);
}

void stages_names_join(struct stages_names *names, uint32_t tid, uint32_t tgid, bool kernel)
{
        struct member *set = names->members[place(tid, MEMBER_BITS)], *member = set;

        for (unsigned i = 0; i < WAYS; i++) {
                if (set[i].used != 0 && set[i].tid == tid) {
                        member = &set[i];
                        break;
                }
                if (set[i].used < member->used)
                        member = &set[i];
        }
        *member = (struct member){ ++names->now, tid, tgid, kernel };
}

bool stages_names_process(const struct stages_names *names, uint32_t tid, uint32_t *tgid, bool *kernel)
{
        const struct member *set = names->members[place(tid, MEMBER_BITS)];

        for (unsigned i = 0; i < WAYS; i++) {
                if (set[i].used == 0 || set[i].tid != tid)
                        continue;
                *tgid = set[i].tgid;
                *kernel = set[i].kernel;
                return true;
        }
        return false;
}

/*
 * The waiters that are known, by thread number, and the processes that own their rings.
 *
 * Nothing is allocated once the set is steady. Positions in the table change when somebody is added or dropped: no pointer is kept over
 * either.
 */
#include "collectors/uring_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct uring *u, int tid)
{
        return ((uint32_t)tid * UINT32_C(2654435761)) & (u->slot_count - 1);
}

static void index_all(struct uring *u)
{
        memset(u->slots, 0, u->slot_count * sizeof *u->slots);
        for (size_t i = 0; i < u->waiter_count; i++) {
                size_t s = slot_of(u, u->waiters[i].thread.tid);
                while (u->slots[s])
                        s = (s + 1) & (u->slot_count - 1);
                u->slots[s] = (int32_t)i + 1;
        }
}

struct waiter *waiter_find(struct uring *u, int tid)
{
        for (size_t s = u->slot_count ? slot_of(u, tid) : 0; u->slot_count && u->slots[s]; s = (s + 1) & (u->slot_count - 1))
                if (u->waiters[u->slots[s] - 1].thread.tid == tid)
                        return &u->waiters[u->slots[s] - 1];
        return NULL;
}

static int grow(struct uring *u)
{
        size_t capacity = u->waiter_capacity ? u->waiter_capacity * 2 : 64;
        struct waiter *waiters = realloc(u->waiters, capacity * sizeof *waiters);
        if (!waiters)
                return -ENOMEM;
        u->waiters = waiters;
        u->waiter_capacity = capacity;
        int32_t *slots = realloc(u->slots, capacity * 4 * sizeof *slots);
        if (!slots)
                return -ENOMEM;
        u->slots = slots;
        u->slot_count = capacity * 4;
        index_all(u);
        return 0;
}

struct waiter *waiter_add(struct uring *u, const struct thread *thread)
{
        if (u->waiter_count == WAITERS_MAX || (u->waiter_count == u->waiter_capacity && grow(u) < 0)) {
                u->overflow = true;
                return NULL;
        }
        struct waiter *w = &u->waiters[u->waiter_count++];
        *w = (struct waiter){.thread = *thread, .ring_fd = -1, .cold = AWAY_TICKS + 1};
        size_t s = slot_of(u, thread->tid);
        while (u->slots[s])
                s = (s + 1) & (u->slot_count - 1);
        u->slots[s] = (int32_t)u->waiter_count;
        return w;
}

/* Waiters that ended, or wait no more. */
void waiters_drop(struct uring *u)
{
        size_t kept = 0;
        for (size_t i = 0; i < u->waiter_count; i++)
                if (!u->waiters[i].gone)
                        u->waiters[kept++] = u->waiters[i];
        if (kept != u->waiter_count) {
                u->waiter_count = kept;
                index_all(u);
        }
}

/* ---- owners: processes with rings -------------------------------------------------------------------------------------------------- */

struct owner *owner_find(struct uring *u, int tgid)
{
        for (size_t i = 0; i < u->owner_count; i++)
                if (u->owners[i]->tgid == tgid)
                        return u->owners[i];
        return NULL;
}

struct owner *owner_add(struct uring *u, int tgid)
{
        struct owner *owner = owner_find(u, tgid);
        if (owner || u->owner_count == OWNERS_MAX)
                return owner;
        owner = calloc(1, sizeof *owner);
        if (!owner)
                return NULL;
        owner->tgid = tgid;
        owner->list_after = -1;
        u->owners[u->owner_count++] = owner;
        return owner;
}

void owners_drop(struct uring *u)
{
        for (size_t i = 0; i < u->owner_count; i++)
                u->owners[i]->used = false;
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct owner *owner = u->waiters[i].wait == WAIT_CQ ? owner_find(u, u->waiters[i].thread.tgid) : NULL;
                if (owner)
                        owner->used = true;
        }
        for (size_t i = 0; i < u->owner_count; i++)
                if (!u->owners[i]->used) {
                        free(u->owners[i]);
                        u->owners[i--] = u->owners[--u->owner_count];
                }
}

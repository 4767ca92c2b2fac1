/*
 * Waiters while tracing says who sleeps: nothing needs to be searched for. What is left to do is to name them, and to read the rings of
 * those that slept already when tracing began.
 *
 * Passes over all threads, and sub-samples with passes of their own, are what this collector costs on a machine with iowait. Traced, no
 * sub-samples are taken, and a pass a tick, in a smaller share of the time, is left for how many tasks are in D state (system.dstate).
 */
#include "collectors/uring_own.h"

#include "collectors/bpf/tracer.h"

/* A sleep of less than this is over before its files are read. */
#define SLEEP_LEAST_NS UINT64_C(20000000)
/* New ones in one tick: each is a few reads. */
enum { NEW_MAX = 64 };

bool traced_whole(const struct evidence *e)
{
        if (e->exact == NULL || e->traced == NULL || e->core_count == 0)
                return false;
        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].valid && !e->exact[i].valid)
                        return false;
        return true;
}

static void add_waiter(struct uring *u, struct tick *tick, const struct tracer_waiter *traced)
{
        struct watch_note note = {u, tick->procfs};
        struct found found = {.ring_fd = -1};
        bool denied = false;

        if (thread_read(tick->procfs, traced->tgid, traced->tid, &found.thread) < 0 || found.thread.tgid != traced->tgid)
                return;
        if (found.thread.state != 'S' && found.thread.state != 'D')
                return;
        found.wait = thread_wait(tick->procfs, traced->tgid, traced->tid, found.wchan, &found.ring_fd, &denied);
        watch_found(&note, &found);
}

void traced_waiters(struct uring *u, struct tick *tick)
{
        const struct evidence *e = tick->evidence;
        uint64_t now = procfs_mono(tick->procfs);
        unsigned added = 0;

        for (size_t i = 0; e->traced != NULL && i < e->traced_count && added < NEW_MAX; i++) {
                const struct tracer_waiter *traced = &e->traced[i];
                const struct waiter *known = traced->asleep ? waiter_find(u, traced->tid) : NULL;
                /* since_ns 0: from before the attachment */
                if (!traced->asleep || (traced->since_ns != 0 && traced->since_ns + SLEEP_LEAST_NS > now))
                        continue;
                if (known != NULL && (known->wait == WAIT_CQ || known->thread.state == 'D'))
                        continue;
                added++;
                add_waiter(u, tick, traced);
        }
}

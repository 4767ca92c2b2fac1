/*
 * Waiters that move: in a completion-queue wait whenever they are met, but they ran in between. Looks at them, for rule R4.
 *
 * A look is made in a sub-sample, around its read of procs_blocked: a thread whose switch counts are the same before and behind, and that
 * was in S and in the wait in between, slept at the instant of that read (to sleep twice it would have had to switch). Beside that its ring
 * is read. A few threads a time, in turn, so that thousands of reactors cost no more than a handful.
 */
#include "collectors/uring_own.h"

#include <string.h>

enum { SCANS_MAX = 16 /* processes whose threads are looked over in one tick */ };

bool busy_moves(const struct waiter *w)
{
        return !w->gone && w->away <= AWAY_TICKS && w->thread.state != 'D' && !w->parked;
}

bool busy_any(const struct uring *u)
{
        for (size_t i = 0; i < u->waiter_count; i++)
                if (busy_moves(&u->waiters[i]) && u->waiters[i].wait != WAIT_OTHER)
                        return true;
        return false;
}

bool busy_rests(const struct uring *u)
{
        bool any = false;
        if (!u->any_iowait && !watch_learns(u))
                return busy_any(u);
        for (size_t i = 0; i < u->waiter_count; i++) {
                const struct waiter *w = &u->waiters[i];
                if (!busy_moves(w))
                        continue;
                if (!w->busy.proved)
                        return false;
                any = true;
        }
        return any && !u->sub_in_flight;
}

void busy_note_core(struct waiter *w, unsigned cpu)
{
        for (unsigned i = 0; i < w->busy.core_count; i++)
                if (w->busy.cores[i] == cpu)
                        return;
        if (w->busy.core_count < BUSY_CORES)
                w->busy.cores[w->busy.core_count++] = cpu;
}

/* Ahead of the read of procs_blocked. */
void busy_ahead(struct uring *u, struct procfs *procfs)
{
        unsigned armed = 0;
        for (size_t n = 0; n < u->waiter_count && armed < BUSY_LOOKED_AT; n++) {
                struct waiter *w = &u->waiters[u->busy_at++ % u->waiter_count];
                w->busy.armed = busy_moves(w) && thread_switches(procfs, w->thread.tgid, w->thread.tid, &w->busy.switches) == 0;
                armed += w->busy.armed;
        }
}

static void look_at_rings(struct uring *u, struct procfs *procfs, struct waiter *w, int fd)
{
        struct owner *owner = owner_add(u, w->thread.tgid);
        struct ring_look look = {0};
        if (!owner || (fd < 0 && (!owner->complete || owner->overfull))) {
                w->busy.unread++;
                return;
        }
        owner_look(procfs, owner, fd, &look);
        w->busy.looks++;
        w->busy.unread += look.rings == 0 || look.unread > 0;
        w->busy.extra += look.extra > 0;
}

/* Behind it; cpu: where the read was made. */
void busy_behind(struct uring *u, struct procfs *procfs, uint64_t blocked, int cpu)
{
        struct thread thread;
        char wchan[WCHAN_SIZE];
        uint64_t switches;
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                bool denied = false;
                int fd;
                if (!w->busy.armed)
                        continue;
                w->busy.armed = false;
                enum wait_kind kind = thread_wait(procfs, w->thread.tgid, w->thread.tid, wchan, &fd, &denied);
                if (thread_read(procfs, w->thread.tgid, w->thread.tid, &thread) < 0 || thread.born_ns != w->thread.born_ns)
                        continue;
                busy_note_core(w, thread.cpu);
                if (kind != WAIT_CQ)
                        continue;
                bool slept = thread.state == 'S' && thread_switches(procfs, thread.tgid, thread.tid, &switches) == 0 &&
                        switches == w->busy.switches;
                if (slept && cpu != -1 && cpu != (int)thread.cpu) {
                        w->busy.asleep++;
                        w->busy.counted += blocked > 0;
                }
                look_at_rings(u, procfs, w, fd);
        }
}

/* What can have been on storage, of its own, while it waited. Without a worker, ever, nothing that a device did not have: what is not
 * done at once and is no block request is done by one. */
enum iowait_ring busy_judge(struct uring *u, struct tick *tick, struct waiter *w, unsigned *scans)
{
        struct owner *owner = owner_find(u, w->thread.tgid);
        struct watch_note note = {u, tick->procfs};
        if (!owner)
                return RING_UNKNOWN;
        if (owner->scan_tick != tick->number + 1) {
                if (*scans >= SCANS_MAX || finder_process(tick->procfs, &u->direct, owner->tgid, watch_found, &note) < 0)
                        return RING_UNKNOWN;
                owner->scan_tick = tick->number + 1;
                owner->scanned_ns = watch_boot_ns(tick->procfs);
                owner->scan_workers = owner_workers(tick->procfs, owner);
                ++*scans;
        }
        if (owner->scan_workers == WORKERS_BUSY)
                return RING_STORAGE;
        if (owner->scan_workers == WORKERS_UNKNOWN)
                return RING_UNKNOWN;
        if (w->busy.looks >= BUSY_CLEAN && w->busy.extra == 0 && w->busy.unread == 0)
                return RING_NO_STORAGE;
        uint64_t now = watch_boot_ns(tick->procfs);
        if (!owner->complete)
                owner_list(tick->procfs, owner, &u->ids, &u->id_capacity, FIRST_LINKS, procfs_mono(tick->procfs));
        if (owner->scan_workers != WORKERS_NONE || !owner->complete || owner->overfull || owner->ring_count == 0 || owner->passthrough ||
            owner_limited(tick->procfs, owner, tick->capture ? UINT64_MAX : now - tick->interval_ns, now) ||
            holds_any(tick->procfs, &u->holds, now))
                return RING_UNKNOWN;
        return RING_UNCHANGED;
}

void busy_turn(struct waiter *w)
{
        double chance = w->busy.core_count == 1 && w->busy.cores[0] == w->thread.cpu ? w->busy.chance : 0;
        w->busy = (struct busy){.chance = chance, .proved = w->busy.proved && chance > 0};
}

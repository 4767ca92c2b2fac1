/*
 * What an io_uring instance says of itself in fdinfo, and what follows from it.
 *
 * fdinfo supports a verdict, it never makes one: timeouts and disk requests are in no list, a multishot request completes more often than
 * it was submitted, several threads may feed one ring. So only two things are concluded: nothing but polls is pending (as many requests
 * outstanding as polls are armed, at both ends of the interval, with no counter moved), and something is pending on storage (an io worker
 * of the process is busy, or requests move that are no polls). All else is "unchanged" or unknown, and it is left to iowait.c what that
 * proves. Reading it takes the ring's lock by trylock only (io_uring/fdinfo.c): harmless, but at times the lists are missing.
 */
#include "collectors/uring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS_KEPT_NS = 1000000000 /* looked over again after 1 s: only under a lease or when no descriptor is known */ };

static bool field(struct scan *line, const char *name, uint32_t *value)
{
        uint64_t number;
        if (!scan_prefix(line, name) || !scan_u64(line, &number))
                return false;
        *value = (uint32_t)number;
        return true;
}

bool ring_parse(struct ring_facts *facts, const char *text, size_t length)
{
        enum { IN_FIELDS, IN_POLLS, IN_OVERFLOW } part = IN_FIELDS;
        struct scan scan, line;
        bool ring = false, head = false, tail = false, polls = false;
        uint64_t mask;

        *facts = (struct ring_facts){.sq_thread = -1};
        scan_init(&scan, text, length);
        while (scan_line(&scan, &line)) {
                if (part == IN_POLLS && scan_prefix(&line, "  op=")) {
                        facts->polls++;
                        continue;
                }
                if (part == IN_OVERFLOW && scan_prefix(&line, "  user_data=")) {
                        facts->overflow++;
                        continue;
                }
                if (scan_prefix(&line, "SqMask:")) { /* hexadecimal */
                        ring = true;
                        facts->entries = scan_hex(&line, &mask) && mask < UINT32_MAX ? (uint32_t)mask + 1 : 0;
                }
                else if (field(&line, "CachedSqHead:", &facts->sq_head))
                        head = true;
                else if (field(&line, "CachedCqTail:", &facts->cq_tail))
                        tail = true;
                else if (scan_prefix(&line, "SqThread:"))
                        scan_i64(&line, &facts->sq_thread);
                else if (scan_prefix(&line, "PollList:"))
                        part = IN_POLLS, polls = true;
                else if (scan_prefix(&line, "CqOverflowList:"))
                        part = IN_OVERFLOW;
        }
        facts->valid = ring && head && tail && polls;
        return ring;
}

int64_t ring_pending(const struct ring_facts *facts)
{
        return (int64_t)(int32_t)(facts->sq_head - facts->cq_tail) - (int64_t)facts->overflow;
}

/* ---- descriptors ---------------------------------------------------------------------------------------------------------------- */

struct ring_end *owner_ring(struct owner *owner, int fd)
{
        for (size_t i = 0; i < owner->ring_count; i++)
                if (owner->rings[i].fd == fd)
                        return &owner->rings[i];
        if (owner->ring_count == RINGS_MAX) {
                owner->overfull = true;
                return NULL;
        }
        struct ring_end *ring = &owner->rings[owner->ring_count++];
        *ring = (struct ring_end){.fd = fd};
        return ring;
}

/* A big ring under load lists thousands of polls, and SQEs and CQEs in flight: what does not fit says nothing. */
static int read_facts(struct procfs *procfs, int tgid, int fd, struct ring_facts *facts, uint32_t *ops)
{
        static _Thread_local char text[64 << 10];
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/fdinfo/%d", tgid, fd);
        bool cut = length == -EOVERFLOW;
        if (cut)
                length = (ssize_t)sizeof text - 1;
        if (length < 0)
                return (int)length;
        if (!ring_parse(facts, text, (size_t)length))
                return -ENODATA;
        if (cut)
                facts->valid = false;
        if (ops && facts->valid)
                ring_count_ops(text, (size_t)length, ops);
        return 0;
}

static bool is_passthrough(const char *target)
{
        return strncmp(target, "/dev/ng", 7) == 0 || strncmp(target, "/dev/sg", 7) == 0 || strncmp(target, "/dev/bsg/", 9) == 0;
}

/* One descriptor: is it a ring? Links need both capabilities (or the same user), fdinfo only SYS_PTRACE. */
static void look_at(struct procfs *procfs, struct owner *owner, int fd)
{
        char path[64], target[128];
        struct ring_facts facts;
        int written = snprintf(path, sizeof path, "proc/%d/fd/%d", owner->tgid, fd);
        if (written < 0 || (size_t)written >= sizeof path)
                return;
        ssize_t length = procfs_link(procfs, path, target, sizeof target);
        if (length >= 0) {
                target[(size_t)length < sizeof target ? (size_t)length : sizeof target - 1] = '\0';
                owner->passthrough = owner->passthrough || is_passthrough(target);
                if (strcmp(target, "anon_inode:[io_uring]") == 0)
                        owner_ring(owner, fd);
        } else if (read_facts(procfs, owner->tgid, fd, &facts, NULL) == 0) {
                owner_ring(owner, fd);
        }
}

static int ascending(const void *a, const void *b)
{
        int x = *(const int *)a, y = *(const int *)b;
        return (x > y) - (x < y);
}

void owner_list(struct procfs *procfs, struct owner *owner, int **ids, size_t *capacity, size_t links, uint64_t now_ns)
{
        char path[64];
        int written;
        if (owner->complete && now_ns - owner->listed_ns < LINKS_KEPT_NS)
                return;
        written = snprintf(path, sizeof path, "proc/%d/fdinfo", owner->tgid);
        if (written < 0 || (size_t)written >= sizeof path)
                return;
        ssize_t count = procfs_ids(procfs, path, ids, capacity);
        owner->refused = count < 0;
        if (count < 0)
                return;
        if (count > 1)
                qsort(*ids, (size_t)count, sizeof **ids, ascending);
        if (owner->complete || owner->listed_ns == 0)
                owner->list_after = -1;
        owner->listed_ns = now_ns;
        for (ssize_t i = 0; i < count; i++) {
                if ((*ids)[i] <= owner->list_after)
                        continue;
                if (links-- == 0) {
                        owner->complete = false;
                        return;
                }
                look_at(procfs, owner, (*ids)[i]);
                owner->list_after = (*ids)[i];
        }
        owner->complete = true;
}

void owner_read(struct procfs *procfs, struct owner *owner, int fd, bool ahead)
{
        uint32_t *ops = !ahead && fd < 0 ? owner->ops : NULL;
        if (ops)
                memset(ops, 0, sizeof owner->ops);
        for (size_t i = 0; i < owner->ring_count; i++) {
                struct ring_end *ring = &owner->rings[i];
                struct ring_facts facts;
                if (fd >= 0 && ring->fd != fd)
                        continue;
                int r = read_facts(procfs, owner->tgid, ring->fd, &facts, ops);
                if (r == 0 && !facts.valid)
                        r = read_facts(procfs, owner->tgid, ring->fd, &facts, ops); /* the lock was busy */
                if (r < 0)
                        facts = (struct ring_facts){0};
                if (facts.valid && ring_pending(&facts) < (int64_t)facts.polls)
                        ring->overcounted = true;
                *(ahead ? &ring->next : &ring->to) = facts;
                if (r == -ENOENT || r == -ENODATA) { /* closed, or another file now */
                        owner->rings[i--] = owner->rings[--owner->ring_count];
                        if (fd >= 0)
                                return;
                }
        }
}

/* One moment of a ring that moves (fd < 0: of all); kept nowhere. */
void owner_look(struct procfs *procfs, struct owner *owner, int fd, struct ring_look *look)
{
        for (size_t i = 0; i < owner->ring_count || fd >= 0; i++) {
                struct ring_facts facts;
                int r = read_facts(procfs, owner->tgid, fd >= 0 ? fd : owner->rings[i].fd, &facts, NULL);
                if (r == 0 && !facts.valid)
                        r = read_facts(procfs, owner->tgid, fd >= 0 ? fd : owner->rings[i].fd, &facts, NULL);
                bool valid = r == 0 && facts.valid;
                look->rings++;
                look->unread += !valid;
                /* Fewer outstanding than polls: a multishot request completed more than once, and hides what else is pending. */
                look->extra += valid && ring_pending(&facts) != (int64_t)facts.polls;
                if (fd >= 0)
                        return;
        }
}

void owner_turn(struct owner *owner)
{
        for (size_t i = 0; i < owner->ring_count; i++) {
                owner->rings[i].from = owner->rings[i].next;
                owner->rings[i].next = owner->rings[i].to = (struct ring_facts){0};
        }
}

/* ---- workers -------------------------------------------------------------------------------------------------------------------- */

/* io workers (iou-wrk-TID) do what a ring's owner must not wait for: buffered reads, fsync, network file systems. Idle ones sleep in
 * io_wq_worker; the last one stays as long as its thread has rings (io_uring/io-wq.c), so a process that never had one never punted. */
enum worker_state owner_workers(struct procfs *procfs, struct owner *owner)
{
        enum worker_state state = WORKERS_NONE;
        for (size_t i = 0; i < owner->worker_count; i++) {
                struct thread thread;
                char wchan[WCHAN_SIZE];
                int fd;
                bool never = true;
                if (thread_read(procfs, owner->tgid, owner->workers[i], &thread) < 0 || strncmp(thread.comm, "iou-wrk-", 8) != 0) {
                        owner->workers[i--] = owner->workers[--owner->worker_count];
                        continue;
                }
                if (thread.state != 'S')
                        return WORKERS_BUSY;
                thread_wait(procfs, owner->tgid, thread.tid, wchan, &fd, &never);
                if (wchan[0] == '\0')
                        state = WORKERS_UNKNOWN;
                else if (strncmp(wchan, "io_wq_worker", 12) != 0)
                        return WORKERS_BUSY;
                else if (state == WORKERS_NONE)
                        state = WORKERS_IDLE;
        }
        return owner->workers_overfull && state != WORKERS_BUSY ? WORKERS_UNKNOWN : state;
}

/* ---- judging --------------------------------------------------------------------------------------------------------------------- */

static enum iowait_ring judge_ring(const struct ring_end *ring, const struct owner *owner, enum worker_state workers)
{
        const struct ring_facts *from = &ring->from, *to = &ring->to;
        if (!from->valid || !to->valid)
                return RING_UNKNOWN;
        bool polls_only = ring_pending(to) <= (int64_t)to->polls && ring_pending(from) <= (int64_t)from->polls;
        if (from->sq_head != to->sq_head || from->cq_tail != to->cq_tail || from->polls != to->polls)
                return polls_only ? RING_UNKNOWN : RING_STORAGE;
        if (polls_only && !ring->overcounted)
                return RING_NO_STORAGE;
        /* What is pending is in no list: a timeout, or storage. A worker that ever was, or a passthrough device, speaks for storage. */
        if (workers != WORKERS_NONE || owner->passthrough)
                return RING_UNKNOWN;
        return RING_UNCHANGED;
}

enum iowait_ring owner_judge(struct owner *owner, int fd, enum worker_state workers)
{
        enum iowait_ring worst = RING_NO_STORAGE;
        size_t looked_at = 0;
        if (workers == WORKERS_BUSY)
                return RING_STORAGE;
        if (workers == WORKERS_UNKNOWN || (fd < 0 && (!owner->complete || owner->overfull)))
                return RING_UNKNOWN;
        for (size_t i = 0; i < owner->ring_count; i++) {
                if (fd >= 0 && owner->rings[i].fd != fd)
                        continue;
                enum iowait_ring one = judge_ring(&owner->rings[i], owner, workers);
                looked_at++;
                if (one == RING_STORAGE)
                        return one;
                if (one == RING_UNKNOWN || worst == RING_UNKNOWN)
                        worst = RING_UNKNOWN;
                else if (one == RING_UNCHANGED)
                        worst = RING_UNCHANGED;
        }
        return looked_at ? worst : RING_UNKNOWN;
}

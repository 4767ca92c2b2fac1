/*
 * How long threads waited at most on each core, from their block delays (kernel.task_delayacct): a ceiling for what a device can have.
 *
 * The kernel adds to field 42 of /proc/PID/task/TID/stat where it takes a thread from its count of iowait sleepers, at wake-up. So what a
 * thread waited in an interval is at most what the field gained, in ticks (and one more for the rounding), or the whole interval while it
 * sleeps still. Nobody says on which core: it is charged to each one that the thread may run on, a wait in progress to the one it sleeps
 * on.
 *
 * Guarantees: no ceiling when a thread was missed (one ended, or lived and died between two passes: /proc/stat counts forks), or when there
 * are too many. Threads that started before accounting was on count nothing, for ever: they are left to the looks (iowait_seen.undelayed).
 * While the sysctl is off nothing but itself is read.
 */
#include "collectors/uring_own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8192, THREADS_MOST = 3000, PF_KTHREAD = 0x00200000 };

struct delayed { int tid; unsigned stamp; uint64_t born_ns, block_ns; };

struct delays {
        bool on, all;                /* all: since boot */
        uint64_t since_ns;           /* threads that started later are counted */
        struct delayed *slots, *spare; /* SLOTS each, while it is on */
        unsigned count, stamp;
        bool had_pass, missed, seen_off;
        uint64_t forks;
        unsigned fresh;
        int64_t tick_ns, wall_ns;
        int64_t *cores;              /* by position in evidence->cores */
        size_t core_capacity;
        int *pids, *tids;
        size_t pid_capacity, tid_capacity;
};

void delays_free(struct delays *d)
{
        if (!d)
                return;
        free(d->slots);
        free(d->spare);
        free(d->cores);
        free(d->pids);
        free(d->tids);
        free(d);
}

bool delays_counts(const struct delays *d, const struct thread *thread)
{
        return d && d->on && (d->all || thread->block_ns > 0 || thread->born_ns > d->since_ns);
}

/* Is it on, and since when? */
static bool ask(struct delays *d, struct procfs *procfs)
{
        char text[4096];
        ssize_t length = procfs_read(procfs, "proc/sys/kernel/task_delayacct", text, sizeof text);
        bool on = length > 0 && text[0] == '1';
        if (!on) {
                d->seen_off = true;
        } else if (!d->on) {
                d->since_ns = watch_boot_ns(procfs);
                length = d->seen_off ? -1 : procfs_read(procfs, "proc/cmdline", text, sizeof text);
                const char *word = length > 0 ? strstr(text, "delayacct") : NULL;
                d->all = word && (word == text || word[-1] == ' ') && strchr(" \n", word[9]);
                d->had_pass = false;
        }
        d->on = on;
        return on;
}

static struct delayed *slot_of(struct delays *d, int tid)
{
        size_t s = ((uint32_t)tid * UINT32_C(2654435761)) & (SLOTS - 1);
        while (d->slots[s].tid && d->slots[s].tid != tid)
                s = (s + 1) & (SLOTS - 1);
        return &d->slots[s];
}

/* "0-3,8": the cores a thread may run on. */
static void charge(struct delays *d, const struct evidence *e, struct procfs *procfs, const struct thread *thread, int64_t ns)
{
        char text[4096];
        struct scan scan, line;
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/task/%d/status", thread->tgid, thread->tid);
        uint64_t from, to;
        bool found = false;
        scan_init(&scan, text, length > 0 ? (size_t)length : 0);
        while (scan_line(&scan, &line)) {
                if (!scan_prefix(&line, "Cpus_allowed_list:"))
                        continue;
                while (scan_u64(&line, &from)) {
                        to = from;
                        if (scan_prefix(&line, "-") && !scan_u64(&line, &to))
                                break;
                        for (size_t i = 0; i < e->core_count; i++)
                                if (e->cores[i].cpu >= from && e->cores[i].cpu <= to)
                                        d->cores[i] += ns;
                        found = true;
                        if (!scan_prefix(&line, ","))
                                break;
                }
        }
        d->missed = d->missed || !found;
}

static void look_at(struct delays *d, struct uring *u, const struct evidence *e, struct procfs *procfs, const struct thread *thread)
{
        struct delayed *slot = slot_of(d, thread->tid);
        const struct waiter *w = waiter_find(u, thread->tid);
        bool known = slot->tid != 0 && slot->born_ns == thread->born_ns;
        uint64_t before = known ? slot->block_ns : 0;
        if (slot->tid == 0 && ++d->count > THREADS_MOST) {
                d->missed = true;
                d->count--;
                return;
        }
        d->fresh += !known;
        d->missed = d->missed || (slot->tid != 0 && !known); /* the number was another thread's, and that one ended */
        *slot = (struct delayed){thread->tid, d->stamp, thread->born_ns, thread->block_ns};
        if (!d->had_pass || (w && w->wait == WAIT_CQ))
                return;
        if (thread->block_ns > before)
                charge(d, e, procfs, thread, (int64_t)(thread->block_ns - before) + d->tick_ns);
        for (size_t i = 0; thread->state == 'D' && i < e->core_count; i++)
                if (e->cores[i].cpu == thread->cpu)
                        d->cores[i] += d->wall_ns;
}

static void look_at_process(struct delays *d, struct uring *u, const struct evidence *e, struct procfs *procfs, int pid)
{
        char path[64];
        struct thread thread;
        int written = snprintf(path, sizeof path, "proc/%d/task", pid);
        if (written < 0 || (size_t)written >= sizeof path)
                return;
        ssize_t count = procfs_ids(procfs, path, &d->tids, &d->tid_capacity);
        for (ssize_t i = 0; i < count && !d->missed; i++) {
                int r = thread_read(procfs, pid, d->tids[i], &thread);
                if (r == 0)
                        look_at(d, u, e, procfs, &thread);
                else /* it ended; what a captured tree lacks was not captured */
                        d->missed = d->missed || !procfs_live(procfs) || (r != -ENOENT && r != -ESRCH);
        }
}

/* Threads that were there at the last pass and are no more: true, and the table is without them. */
static bool drop_ended(struct delays *d)
{
        struct delayed *old = d->slots;
        bool ended = false;
        for (size_t i = 0; i < SLOTS && !ended; i++)
                ended = old[i].tid && old[i].stamp != d->stamp;
        if (!ended)
                return false;
        d->slots = d->spare;
        d->spare = old;
        memset(d->slots, 0, SLOTS * sizeof *d->slots);
        d->count = 0;
        for (size_t i = 0; i < SLOTS; i++)
                if (old[i].tid && old[i].stamp == d->stamp) {
                        *slot_of(d, old[i].tid) = old[i];
                        d->count++;
                }
        return true;
}

static void forget(struct delays *d)
{
        memset(d->slots, 0, SLOTS * sizeof *d->slots);
        d->count = 0;
        d->had_pass = false;
}

static bool pass(struct delays *d, struct uring *u, struct tick *tick)
{
        struct evidence *e = tick->evidence;
        uint64_t blocked, start = procfs_mono(tick->procfs), forks;
        int cpu;
        if (!watch_read_blocked(u, tick->procfs, &blocked, &cpu))
                return false;
        forks = u->forks;
        d->stamp++;
        d->fresh = 0;
        d->missed = false;
        ssize_t count = procfs_ids(tick->procfs, "proc", &d->pids, &d->pid_capacity);
        for (ssize_t i = 0; i < count && !d->missed; i++)
                look_at_process(d, u, e, tick->procfs, d->pids[i]);
        bool steady = watch_read_blocked(u, tick->procfs, &blocked, &cpu) && u->forks == forks;
        bool whole = count > 0 && !d->missed && steady && u->whole;
        bool ended = whole && drop_ended(d);
        bool complete = whole && d->had_pass && !ended && forks - d->forks == d->fresh;
        if (!whole)
                forget(d);
        d->had_pass = whole;
        d->forks = forks;
        /* Waits that began and ended between /proc/stat and this pass are in no interval's difference. */
        int64_t slack = (int64_t)(procfs_mono(tick->procfs) - start) + (int64_t)(start - e->stat_start_ns) + 2 * d->tick_ns;
        for (size_t i = 0; i < e->core_count; i++)
                d->cores[i] = complete ? d->cores[i] + slack : -1;
        return complete;
}

/* Behind /proc/stat. */
void delays_collect(struct uring *u, struct tick *tick)
{
        struct evidence *e = tick->evidence;
        struct delays *d = u->delays;
        e->delay_ns = NULL;
        if (!d && !(d = u->delays = calloc(1, sizeof *d)))
                return;
        if (!ask(d, tick->procfs) || procfs_unlisted(tick->procfs) || tick->extra)
                return;
        if (!d->slots)
                d->slots = calloc(SLOTS, sizeof *d->slots);
        if (!d->spare)
                d->spare = calloc(SLOTS, sizeof *d->spare);
        if (!d->slots || !d->spare)
                return;
        if (e->core_count > d->core_capacity) {
                int64_t *cores = realloc(d->cores, e->core_count * sizeof *cores);
                if (!cores)
                        return;
                d->cores = cores;
                d->core_capacity = e->core_count;
        }
        memset(d->cores, 0, e->core_count * sizeof *d->cores);
        d->tick_ns = (int64_t)ticks_to_ns(1, procfs_hz(tick->procfs));
        d->wall_ns = (int64_t)(e->stat_end_ns - e->stat_prev_start_ns);
        if (pass(d, u, tick)) {
                e->delay_ns = d->cores;
                e->delay_all = d->all;
        }
}

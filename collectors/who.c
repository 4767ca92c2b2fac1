/*
 * Time of cores given to who waited on them. See who.h for what the sums mean.
 *
 * Work goes with the number of waiters, not of tasks: rows of processes and threads are only walked when the method changes, when their
 * scope was away, and from the end of the table back over the new ones (rows are appended, rows.h).
 */
#include "collectors/who.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/bpf/tracer.h"
#include "collectors/held.h"
#include "collectors/who_table.h"
#include "sample/control.h"

enum {
        THREADS_MAX = 16384, PROCESSES_MAX = 8192,
        CORES_MAX = 1 << 16,
        UNSEEN_TICKS = 600,       /* a thread that waited no more for so long is forgotten; */
        TRACED_TICKS = 2,         /* one of which the tracer tells no more has ended */
        DISK = 0, URING = 1, OTHER = 2,
};
#define WHOLE_NS UINT64_C(10000000) /* keys hold start times in whole 10 ms */

struct core {
        uint64_t last[WHO_PARTS], part[WHO_PARTS];
        uint64_t tick;            /* in which it was read last */
        bool known;               /* part is this tick's: it was read in the tick before too */
};

struct who {
        struct held *held;
        struct who_table threads, processes;
        struct core *cores;       /* by number */
        size_t core_capacity;
        uint64_t now;             /* tick, by our own count */
        uint64_t filled[SCOPE_COUNT]; /* tick in which the scope's rows were filled last */
        bool traced, was_traced;
        uint64_t epoch;           /* of the tracer's attachment that the traced times are of */
};

static const int cpu_parts[WHO_PARTS] = {CPU_WA_DISK, CPU_WA_URING, CPU_WA_OTHER};
static const int waiter_parts[WHO_PARTS] = {WAITER_WA_DISK, WAITER_WA_URING, WAITER_WA_OTHER};
static const int thread_parts[WHO_PARTS] = {THREAD_WA_DISK, THREAD_WA_URING, THREAD_WA_OTHER};
static const int process_parts[WHO_PARTS] = {PROCESS_WA_DISK, PROCESS_WA_URING, PROCESS_WA_OTHER};

int who_new(struct procfs *procfs, struct who **out)
{
        struct who *who = calloc(1, sizeof *who);
        if (!who)
                return -ENOMEM;
        int r = held_new(procfs, &who->held);
        if (r < 0) {
                free(who);
                return r;
        }
        who_table_init(&who->threads, THREADS_MAX);
        who_table_init(&who->processes, PROCESSES_MAX);
        *out = who;
        return 0;
}

void who_free(struct who *who)
{
        if (!who)
                return;
        held_free(who->held);
        who_table_fini(&who->threads);
        who_table_fini(&who->processes);
        free(who->cores);
        free(who);
}

/* ---- threads and their processes ----------------------------------------------------------------------------------------------------- */

/* Start time of the process: a leader's is its own; else its row tells. 0: no row, or the scope is off. */
static uint64_t find_start(const struct tick *tick, const struct who_one *thread)
{
        if (thread->tgid == thread->key.a)
                return thread->key.b;
        for (size_t i = sample_rows(tick->sample, SCOPE_PROCESS); i-- > 0;) {
                struct key key = row_key(sample_row_at(tick->sample, SCOPE_PROCESS, i));
                if (key.a == thread->tgid)
                        return key.b;
        }
        return 0;
}

/* The process of a thread; NULL when it is not known or gone. Valid until the next call. */
static struct who_one *process_of(struct who *who, const struct tick *tick, struct who_one *thread)
{
        struct who_one *process = NULL;
        if (thread->orphan)
                return NULL;
        if (thread->linked) {
                process = who_find(&who->processes, (struct key){thread->tgid, thread->start});
                thread->orphan = !process; /* its number may be another's by now */
                return process;
        }
        if (!(tick->scopes & SCOPE_BIT(SCOPE_PROCESS)))
                return NULL;
        thread->start = find_start(tick, thread);
        if (!thread->start || !sample_find(tick->sample, SCOPE_PROCESS, (struct key){thread->tgid, thread->start})) {
                thread->orphan = true;
                return NULL;
        }
        process = who_add(&who->processes, (struct key){thread->tgid, thread->start}, NULL);
        thread->linked = process != NULL;
        return process;
}

static struct who_one *meet(struct who *who, int tid, int tgid, uint64_t born_ns)
{
        bool added;
        struct who_one *thread = who_add(&who->threads, (struct key){(uint64_t)tid, born_ns / WHOLE_NS * WHOLE_NS}, &added);
        if (!thread)
                return NULL;
        thread->tgid = (uint64_t)tgid;
        thread->seen = who->now;
        return thread;
}

/* What it waited for in this tick is known: so many ns of each part. */
static void credit(struct who *who, const struct tick *tick, struct who_one *thread, const uint64_t part[WHO_PARTS])
{
        struct who_one *process = process_of(who, tick, thread);
        thread->known = who->now;
        if (process)
                process->known = who->now;
        for (int i = 0; i < WHO_PARTS; i++) {
                if (part[i] == 0)
                        continue;
                thread->sum[i] += part[i];
                thread->changed = who->now;
                if (!process)
                        continue;
                process->sum[i] += part[i];
                process->changed = who->now;
        }
}

/* ---- by tracing ---------------------------------------------------------------------------------------------------------------------- */

/* Traced idle time has interrupts in it, the kernel's iowait has not; with many completions that is far more than rounding (70 against 61%
 * of a core). Waiters are told in the kernel's measure, as their cores are. Within two ticks the two are the same. */
static double kernel_share(const struct evidence *e, unsigned cpu)
{
        for (size_t i = 0; e->exact && i < e->core_count; i++) {
                const struct iowait_exact *exact = &e->exact[i];
                int64_t traced = exact->disk_ns + exact->uring_ns + exact->other_ns, iowait = e->cores[i].iowait_ns;
                if (exact->cpu == cpu && exact->valid && iowait >= 0 && traced > iowait + 20000000)
                        return (double)iowait / (double)traced;
        }
        return 1;
}

/* What a sleep was for may be a guess until it ends, so time can move from one part to another. Ours only grow, and their sum is never more
 * than the tracer's: a part that got too much waits until the others have caught up. */
static void from_tracer(struct who *who, const struct tick *tick, const struct tracer_waiter *w)
{
        const uint64_t now[WHO_PARTS] = {w->disk_ns, w->uring_ns, w->other_ns};
        uint64_t part[WHO_PARTS] = {0}, all = 0, before = 0;
        struct who_one *thread = meet(who, w->tid, w->tgid, w->start_boot_ns);
        if (!thread)
                return;
        for (int i = 0; i < WHO_PARTS; i++)
                all += now[i], before += thread->traced[i];
        uint64_t left = all > before ? all - before : 0;
        for (int i = 0; i < WHO_PARTS && left > 0; i++) {
                part[i] = now[i] > thread->traced[i] ? now[i] - thread->traced[i] : 0;
                if (part[i] > left)
                        part[i] = left;
                thread->traced[i] += part[i];
                left -= part[i];
        }
        thread->cores |= w->cores;
        double share = all > before ? kernel_share(tick->evidence, w->cpu) : 1;
        for (int i = 0; i < WHO_PARTS && share < 1; i++)
                part[i] = (uint64_t)((double)part[i] * share);
        credit(who, tick, thread, part);
        /* What is pending was seen when it was submitted; not so for one that slept already at attach. */
        struct row *row = w->asleep && w->ring_wait && !w->seeded ? sample_find(tick->sample, SCOPE_WAITER, thread->key) : NULL;
        if (row)
                row_set(row, WAITER_WITNESS, w->class == TRACER_URING ? 4 : 5);
}

static void by_tracing(struct who *who, const struct tick *tick)
{
        if (!who->was_traced || who->epoch != tick->tracer_epoch)
                for (size_t i = 0; i < who->threads.count; i++)
                        memset(who->threads.all[i].traced, 0, sizeof who->threads.all[i].traced);
        who->epoch = tick->tracer_epoch;
        for (size_t i = 0; i < tick->evidence->traced_count; i++)
                from_tracer(who, tick, &tick->evidence->traced[i]);
}

/* ---- by the split -------------------------------------------------------------------------------------------------------------------- */

static int core_room(struct who *who, size_t count)
{
        if (count <= who->core_capacity)
                return 0;
        struct core *cores = realloc(who->cores, (count + 16) * sizeof *cores);
        if (!cores)
                return -ENOMEM;
        memset(cores + who->core_capacity, 0, (count + 16 - who->core_capacity) * sizeof *cores);
        who->cores = cores;
        who->core_capacity = count + 16;
        return 0;
}

/* What each core had in this tick; not known when it was away in the tick before: what it had meanwhile belongs to nobody. */
static void read_cores(struct who *who, const struct tick *tick)
{
        for (size_t i = 0; i < sample_rows(tick->sample, SCOPE_CPU); i++) {
                const struct row *row = sample_row_at(tick->sample, SCOPE_CPU, i);
                uint64_t cpu = row_key(row).a, value[WHO_PARTS];
                bool there = true;
                for (int p = 0; p < WHO_PARTS; p++)
                        there = row_get(row, cpu_parts[p], &value[p]) && there;
                if (!there || cpu >= CORES_MAX || core_room(who, (size_t)cpu + 1) < 0)
                        continue;
                struct core *core = &who->cores[cpu];
                core->known = core->tick && core->tick == who->now - 1;
                core->tick = who->now;
                for (int p = 0; p < WHO_PARTS; p++) {
                        core->part[p] = core->known && value[p] > core->last[p] ? value[p] - core->last[p] : 0;
                        core->last[p] = value[p];
                }
        }
}

static const struct core *core_of(const struct who *who, unsigned cpu)
{
        const struct core *core = cpu < who->core_capacity ? &who->cores[cpu] : NULL;
        return core && core->known && core->tick == who->now ? core : NULL;
}

/* Verdicts: metric waiter.witness. */
static void from_witness(struct who *who, const struct tick *tick, const struct iowait_witness *w)
{
        const struct core *core = core_of(who, w->cpu);
        bool uring = w->verdict == 4, storage = w->verdict == 5 || (w->verdict == 3 && w->marked);
        uint64_t part[WHO_PARTS] = {0};
        if (!core || !(uring || storage || w->verdict == 1))
                return;
        struct who_one *thread = meet(who, w->tid, w->tgid, w->born_ns);
        if (!thread)
                return;
        if (uring)
                part[URING] = core->part[URING];
        if (storage)
                part[DISK] = core->part[DISK], part[OTHER] = core->part[OTHER];
        if (w->verdict != 1 && w->cpu < 64)
                thread->cores |= UINT64_C(1) << w->cpu;
        credit(who, tick, thread, part);
}

/* Disk and other parts of the cores on which a thread was seen at both ends of the tick. */
static void parts_of_cores(const struct who *who, unsigned now, unsigned before, uint64_t part[WHO_PARTS])
{
        const unsigned cpus[] = {now, before};
        for (size_t i = 0; i < (now == before ? 1 : 2); i++) {
                const struct core *core = core_of(who, cpus[i]);
                if (core)
                        part[DISK] += core->part[DISK], part[OTHER] += core->part[OTHER];
        }
}

/* A thread in D state, or of late: its block delay says how long it waited, but only when it wakes. Until then it has what its core had,
 * which is set against the delay later. A core that had other work was not idle for it: so it has at most what its cores had. */
static void from_d_thread(struct who *who, const struct tick *tick, const struct d_thread *d)
{
        uint64_t part[WHO_PARTS] = {0}, cores[WHO_PARTS] = {0}, amount;
        struct who_one *thread = d->block_ns > 0 && core_of(who, d->cpu) ? meet(who, d->tid, d->tgid, d->born_ns) : NULL;
        if (!thread) /* 0: nobody counts it, or it never waited */
                return;
        bool had = thread->block_tick && thread->block_tick == who->now - 1, slept = d->asleep && thread->asleep;
        uint64_t delay = had && d->block_ns > thread->block_ns ? d->block_ns - thread->block_ns : 0;
        parts_of_cores(who, d->cpu, had ? thread->cpu : d->cpu, cores);
        uint64_t all = cores[DISK] + cores[OTHER];
        thread->block_ns = d->block_ns;
        thread->block_tick = who->now;
        thread->asleep = d->asleep;
        thread->cpu = d->cpu;
        if (!had) {
                thread->ahead_ns = 0;
                return;
        }
        if (delay == 0 && slept) {
                amount = all;
                thread->ahead_ns += amount;
        } else {
                amount = delay > thread->ahead_ns ? delay - thread->ahead_ns : 0;
                thread->ahead_ns = 0;
        }
        amount = amount < all ? amount : all;
        if (amount > 0) { /* at most an hour of ns in doubles: exact enough */
                part[DISK] = (uint64_t)((double)amount * ((double)cores[DISK] / (double)all));
                part[OTHER] = amount - part[DISK];
                thread->cores |= d->cpu < 64 ? UINT64_C(1) << d->cpu : 0;
        }
        credit(who, tick, thread, part);
}

static void by_split(struct who *who, const struct tick *tick)
{
        const struct evidence *e = tick->evidence;
        read_cores(who, tick);
        for (size_t i = 0; i < e->witness_count; i++)
                from_witness(who, tick, &e->witnesses[i]);
        for (size_t i = 0; i < e->d_thread_count; i++)
                from_d_thread(who, tick, &e->d_threads[i]);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_known(const struct who *who, const struct who_one *one)
{
        return who->traced || (one && one->known == who->now);
}

static void put_parts(const struct who *who, struct row *row, const struct who_one *one, const int metric[WHO_PARTS])
{
        bool known = is_known(who, one);
        for (int i = 0; i < WHO_PARTS; i++)
                if (known)
                        row_set(row, metric[i], one ? one->sum[i] : 0);
                else
                        row_absent(row, metric[i]);
}

/* Rows of a scope with a row for each task. */
static void fill(struct who *who, const struct tick *tick, enum scope scope, const struct who_table *table, const int metric[WHO_PARTS])
{
        bool full = who->traced != who->was_traced || who->filled[scope] != who->now - 1;
        if (!(tick->scopes & SCOPE_BIT(scope)))
                return;
        who->filled[scope] = who->now;
        for (size_t i = sample_rows(tick->sample, scope); i-- > 0;) {
                struct row *row = sample_row_at(tick->sample, scope, i);
                if (!full && !row_is_new(row))
                        break;
                put_parts(who, row, who_find(table, row_key(row)), metric);
        }
        for (size_t i = 0; i < table->count && !full; i++) {
                const struct who_one *one = &table->all[i];
                bool news = who->traced ? one->changed == who->now : one->known == who->now || (one->known && one->known == who->now - 1);
                struct row *row = news ? sample_find(tick->sample, scope, one->key) : NULL;
                if (row)
                        put_parts(who, row, one, metric);
        }
}

/* Rings that the waiters' collector listed; while everybody's are asked for, held.c knows them too, and it looks at all descriptors. */
static void tell_rings(struct who *who, const struct tick *tick, const struct row *waiter, struct who_one *process, struct row *row)
{
        uint64_t rings, old;
        if (!row_get(waiter, WAITER_RINGS, &rings))
                return;
        process->rings = who->now;
        if (!(tick->leases & LEASE_RINGS) || !row_get(row, PROCESS_RINGS, &old))
                row_set(row, PROCESS_RINGS, rings);
}

static void fill_waiters(struct who *who, const struct tick *tick)
{
        size_t length;
        for (size_t i = 0; i < sample_rows(tick->sample, SCOPE_WAITER); i++) {
                struct row *waiter = sample_row_at(tick->sample, SCOPE_WAITER, i);
                struct key key = row_key(waiter);
                uint64_t tgid = key.a;
                row_get(waiter, WAITER_TGID, &tgid);
                struct who_one *thread = meet(who, (int)key.a, (int)tgid, key.b);
                put_parts(who, waiter, thread, waiter_parts);
                if (is_known(who, thread) && thread && thread->cores)
                        row_set(waiter, WAITER_CORES, thread->cores);
                else
                        row_absent(waiter, WAITER_CORES);
                struct who_one *process = thread ? process_of(who, tick, thread) : NULL;
                struct row *row = process ? sample_find(tick->sample, SCOPE_PROCESS, process->key) : NULL;
                if (!row)
                        continue;
                tell_rings(who, tick, waiter, process, row);
                const char *name = row_get_text(waiter, WAITER_PROCESS, &length) ? NULL : row_get_text(row, PROCESS_COMM, &length);
                if (name)
                        row_text(waiter, WAITER_PROCESS, name, length);
        }
}

/* Of a process without a waiter nobody looks at the rings any more, unless they are asked for. */
static void forget_rings(struct who *who, const struct tick *tick)
{
        for (size_t i = 0; i < who->processes.count && !(tick->leases & LEASE_RINGS); i++) {
                const struct who_one *process = &who->processes.all[i];
                if (!process->rings || process->rings != who->now - 1)
                        continue;
                struct row *row = sample_find(tick->sample, SCOPE_PROCESS, process->key);
                if (row)
                        row_absent(row, PROCESS_RINGS);
        }
}

/* ---- the tick ------------------------------------------------------------------------------------------------------------------------ */

struct sweep { const struct who *who; const struct tick *tick; };

/* Many short-lived ones must not fill the table: what they caused is in their process's sum. The tracer tells of a thread as long as it
 * lives. */
static bool thread_gone(const struct who_one *one, void *arg)
{
        const struct sweep *sweep = arg;
        const struct who *who = sweep->who;
        uint64_t unseen = who->now - one->seen;
        if (unseen == 0)
                return false;
        if (one->orphan || unseen > (who->traced ? TRACED_TICKS : UNSEEN_TICKS))
                return true;
        return one->linked && !who_find(&who->processes, (struct key){one->tgid, one->start});
}

/* A process is kept as long as it has a row. */
static bool process_gone(const struct who_one *one, void *arg)
{
        const struct sweep *sweep = arg;
        return !sample_find(sweep->tick->sample, SCOPE_PROCESS, one->key);
}

void who_judged(struct who *who, struct tick *tick, bool judged)
{
        const struct evidence *e = tick->evidence;
        struct sweep sweep = {who, tick};
        who->now++;
        who->was_traced = who->traced;
        who->traced = e->traced || e->exact;
        if (tick->scopes & SCOPE_BIT(SCOPE_PROCESS))
                who_sweep(&who->processes, process_gone, &sweep);
        if (who->traced)
                by_tracing(who, tick);
        else if (judged)
                by_split(who, tick);
        if (tick->scopes & SCOPE_BIT(SCOPE_WAITER))
                fill_waiters(who, tick);
        forget_rings(who, tick);
        fill(who, tick, SCOPE_THREAD, &who->threads, thread_parts);
        fill(who, tick, SCOPE_PROCESS, &who->processes, process_parts);
        who_sweep(&who->threads, thread_gone, &sweep);
        held_step(who->held, tick);
}

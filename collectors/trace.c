/*
 * The exact split's numbers: tracing's counters become times of the interval, aligned with the cores of /proc/stat. Contract: trace.h.
 *
 * It collects right behind cpu.c, so that both sums are of nearly the same instant. A core is valid when it was traced at both ends of the
 * interval, by the same attachment, and no waiter was left out for want of room. At the first tick of an attachment its counters, which
 * began at 0, are those of the interval's last part, and the rest of the kernel's iowait is left to the rules. Corrections and the kernel's
 * rounding are carried from one interval to the next (sample/iowait_exact.h). It never fails: without a tracer there is no exact evidence,
 * and the rules judge.
 */
#include "collectors/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/bpf/tracer.h"
#include "sample/iowait_exact.h"
#include "sample/wchan.h"

enum {
        WAITERS_FIRST = 256, WAITERS_MAX = 1 << 16,
        CORES_MAX = 1 << 16,
        PROOFS_MAX = 64,             /* wait channels read in one tick */
};
/* An attachment so soon in the interval is as good as before it. */
#define TRIFLE_SHARE 50
/* Longer than any interval; what a core shows limits it. */
#define WHOLE_NS UINT64_C(4000000000000)
/* Healing looks at every sleeper: not with every short tick. */
#define MAINTAIN_NS UINT64_C(200000000)

struct core {
        struct tracer_core last;     /* of the tick before */
        uint64_t read;               /* number of the read that it was in; 0 = never */
        int64_t seeded_ns;           /* of this interval, */
        unsigned seeded;             /* by so many */
        struct iowait_carry carry;
};

/* A ring waiter that slept already at attach, as it was at the tick before. */
struct sleeper {
        int tid;                     /* 0 = empty */
        unsigned cpu;
        bool met;                    /* it is among the waiters of this tick too */
        uint64_t start_ns, uring_ns;
};

struct sleepers { /* hash by tid, linear probing, at most half full */
        struct sleeper *slots;
        size_t size, count;
};

struct trace {
        struct tracer_core *now;     /* buffer */
        size_t now_capacity;
        struct core *cores;          /* by core number */
        size_t core_capacity;
        struct iowait_exact *exact;  /* lent to the evidence */
        size_t exact_capacity;
        struct tracer_waiter *waiters; /* lent to the evidence */
        size_t waiter_capacity, waiter_count;
        struct sleepers before, after;
        bool guesses;                /* somebody's wait may still be proved */
        size_t prove_next;           /* where the next tick goes on with that */
        uint64_t reads, epoch, overflow, maintained_ns;
};

static int trace_open(struct procfs *procfs, void **own)
{
        (void)procfs;
        struct trace *t = calloc(1, sizeof *t);
        if (t == NULL)
                return -ENOMEM;
        t->guesses = true; /* tracing may be at work already */
        *own = t;
        return 0;
}

static void trace_close(void *own)
{
        struct trace *t = own;

        if (t == NULL)
                return;
        free(t->now);
        free(t->cores);
        free(t->exact);
        free(t->waiters);
        free(t->before.slots);
        free(t->after.slots);
        free(t);
}

/* Room for n elements, new ones zero. Grows only when the machine does. */
static bool room(void *array, size_t *capacity, size_t n, size_t size)
{
        void *old;

        if (n <= *capacity)
                return true;
        memcpy(&old, array, sizeof old);
        char *grown = realloc(old, (n + n / 2) * size);
        if (grown == NULL)
                return false;
        memset(grown + *capacity * size, 0, (n + n / 2 - *capacity) * size);
        memcpy(array, &grown, sizeof grown);
        *capacity = n + n / 2;
        return true;
}

/* ---- waiters ----------------------------------------------------------------------------------------------------------------------- */

/* All of them: the buffer grows until there is room. */
static bool read_waiters(struct trace *t, struct tracer *tracer, uint64_t now_ns)
{
        for (size_t wanted = WAITERS_FIRST;; wanted = t->waiter_capacity + 1) {
                if (!room(&t->waiters, &t->waiter_capacity, wanted, sizeof *t->waiters))
                        return false;
                t->waiter_count = tracer_waiters(tracer, now_ns, t->waiters, t->waiter_capacity);
                if (t->waiter_count < t->waiter_capacity || t->waiter_capacity >= WAITERS_MAX)
                        return true;
        }
}

/* Who slept already when tracing began, outside of rings, is a guess until it wakes. The function it sleeps in may leave no choice: then a
 * device that is stuck since before is told as one. Those that it leaves open (the page cache, where a file server's reader sleeps as well)
 * stay a guess. */
static void prove(struct trace *t, struct tick *tick)
{
        size_t first = t->waiter_count > 0 ? t->prove_next % t->waiter_count : 0;
        unsigned read = 0;

        t->guesses = false;
        for (size_t i = 0; i < t->waiter_count; i++) {
                size_t at = (first + i) % t->waiter_count;
                const struct tracer_waiter *w = &t->waiters[at];
                char wchan[64];
                if (!w->asleep || w->since_ns != 0 || w->ring_wait || w->class != TRACER_OTHER)
                        continue;
                t->guesses = true;
                t->prove_next = at;
                if (read++ >= PROOFS_MAX) /* it is the first of the next tick: many that cannot be proved hide nobody */
                        return;
                ssize_t n = procfs_readf(tick->procfs, wchan, sizeof wchan - 1, "proc/%d/task/%d/wchan", w->tgid, w->tid);
                if (n <= 0 || (size_t)n >= sizeof wchan)
                        continue;
                wchan[n] = '\0';
                if (wchan_block_only(wchan))
                        tracer_prove(tick->tracer, w);
        }
}

static struct sleeper *find_sleeper(const struct sleepers *s, int tid)
{
        if (s->size == 0)
                return NULL;
        size_t at = (size_t)tid * 2654435761u % s->size;
        while (s->slots[at].tid != 0 && s->slots[at].tid != tid)
                at = (at + 1) % s->size;
        return &s->slots[at];
}

static bool empty_sleepers(struct sleepers *s, size_t wanted)
{
        size_t capacity = s->size;

        if (!room(&s->slots, &capacity, wanted == 0 ? 0 : wanted * 2 + 1, sizeof *s->slots))
                return false;
        s->size = capacity;
        if (s->count > 0)
                memset(s->slots, 0, s->size * sizeof *s->slots);
        s->count = 0;
        return true;
}

/* Time in which a thread that slept since before the attachment kept its core waiting. The interval in which it woke belongs to it too. */
static void add_seeded(struct trace *t, unsigned cpu, uint64_t now, uint64_t was)
{
        if (cpu >= t->core_capacity || now < was)
                return;
        t->cores[cpu].seeded_ns += (int64_t)(now - was);
        t->cores[cpu].seeded++;
}

static bool note_seeded(struct trace *t)
{
        size_t wanted = 0;

        for (size_t i = 0; i < t->core_capacity; i++)
                t->cores[i].seeded_ns = t->cores[i].seeded = 0;
        for (size_t i = 0; i < t->waiter_count; i++)
                wanted += t->waiters[i].seeded && t->waiters[i].ring_wait;
        if (!empty_sleepers(&t->after, wanted))
                return false;
        for (size_t i = 0; (wanted > 0 || t->before.count > 0) && i < t->waiter_count; i++) {
                const struct tracer_waiter *w = &t->waiters[i];
                bool seeded = w->seeded && w->ring_wait;
                struct sleeper *was = t->before.count > 0 ? find_sleeper(&t->before, w->tid) : NULL;
                if (was != NULL && (was->tid != w->tid || was->start_ns != w->start_boot_ns))
                        was = NULL;
                if (was != NULL)
                        was->met = true;
                if (seeded || was != NULL)
                        add_seeded(t, was != NULL ? was->cpu : w->cpu, w->uring_ns, was != NULL ? was->uring_ns : 0);
                struct sleeper *next = seeded ? find_sleeper(&t->after, w->tid) : NULL;
                if (next == NULL || next->tid != 0)
                        continue;
                *next = (struct sleeper){ .tid = w->tid, .cpu = w->cpu, .start_ns = w->start_boot_ns, .uring_ns = w->uring_ns };
                t->after.count++;
        }
        /* Who has ended and been dropped may have slept for all that its core shows. */
        for (size_t i = 0; t->before.count > 0 && i < t->before.size; i++)
                if (t->before.slots[i].tid != 0 && !t->before.slots[i].met)
                        add_seeded(t, t->before.slots[i].cpu, WHOLE_NS, 0);
        struct sleepers swap = t->before;
        t->before = t->after;
        t->after = swap;
        return true;
}

/* ---- cores ------------------------------------------------------------------------------------------------------------------------- */

/* Where cpu's counters are: they come in order of their numbers, mostly without holes. */
static const struct tracer_core *find_core(const struct trace *t, size_t count, unsigned cpu)
{
        if (cpu < count && t->now[cpu].cpu == cpu)
                return &t->now[cpu];
        for (size_t i = 0; i < count; i++)
                if (t->now[i].cpu == cpu)
                        return &t->now[i];
        return NULL;
}

static int64_t moved(uint64_t now, uint64_t was)
{
        return (int64_t)(now - was);
}

/* When the attachment came in this interval, a core that was not read yet began it with 0. */
enum began { BEFORE, AT_ONCE, LATER };

static enum began began(const struct evidence *e, uint64_t attached_ns)
{
        if (e->stat_prev_start_ns == 0 || attached_ns < e->stat_prev_start_ns)
                return BEFORE;
        return attached_ns - e->stat_prev_start_ns <= (e->stat_start_ns - e->stat_prev_start_ns) / TRIFLE_SHARE ? AT_ONCE : LATER;
}

static void compare_core(struct trace *t, const struct iowait_core *core, const struct tracer_core *now, bool whole, enum began began,
        struct iowait_exact *exact)
{
        *exact = (struct iowait_exact){ .cpu = core->cpu };
        if (now == NULL || core->cpu >= t->core_capacity)
                return;
        struct core *c = &t->cores[core->cpu];
        bool base = c->read == 0 ? began != BEFORE : c->read + 1 == t->reads;
        if (!base || !core->valid || !whole) {
                c->carry = (struct iowait_carry){ .unsure_ns = 0 };
        } else {
                exact->valid = true;
                exact->partial = c->read == 0 && began == LATER;
                exact->disk_ns = moved(now->disk_ns, c->last.disk_ns);
                exact->uring_ns = moved(now->uring_ns, c->last.uring_ns);
                exact->other_ns = moved(now->other_ns, c->last.other_ns);
                exact->unsure_ns = moved(now->unsure_ns, c->last.unsure_ns);
                exact->missed_disk_ns = moved(now->missed_disk_ns, c->last.missed_disk_ns);
                exact->missed_uring_ns = moved(now->missed_uring_ns, c->last.missed_uring_ns);
                exact->missed_other_ns = moved(now->missed_other_ns, c->last.missed_other_ns);
                exact->seeded_ns = c->seeded_ns;
                exact->seeded = c->seeded;
                iowait_exact_next(&c->carry, core->iowait_ns, exact);
        }
        c->last = *now;
        c->read = t->reads;
}

static void forget(struct trace *t)
{
        for (size_t i = 0; i < t->core_capacity; i++)
                t->cores[i] = (struct core){ .read = 0 };
        empty_sleepers(&t->before, 0);
        t->overflow = 0;
        t->guesses = true;
}

static bool make_room(struct trace *t, const struct evidence *e)
{
        size_t most = 0;

        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].cpu < CORES_MAX && e->cores[i].cpu >= most)
                        most = (size_t)e->cores[i].cpu + 1;
        return room(&t->cores, &t->core_capacity, most, sizeof *t->cores) &&
                room(&t->exact, &t->exact_capacity, e->core_count, sizeof *t->exact) &&
                room(&t->now, &t->now_capacity, most > 0 ? most : 1, sizeof *t->now);
}

static void compare(struct trace *t, struct tick *tick)
{
        struct evidence *e = tick->evidence;
        struct tracer_stats stats = { .overflow = 0 };
        uint64_t now_ns = procfs_mono(tick->procfs);

        if (!make_room(t, e))
                return;
        if (t->guesses && read_waiters(t, tick->tracer, now_ns)) {
                prove(t, tick);
                now_ns = procfs_mono(tick->procfs);
        }
        size_t count = tracer_cores(tick->tracer, now_ns, t->now, t->now_capacity);
        while (count == t->now_capacity && count < CORES_MAX) { /* more possible cores than on-line ones */
                if (!room(&t->now, &t->now_capacity, count + 1, sizeof *t->now))
                        return;
                count = tracer_cores(tick->tracer, now_ns, t->now, t->now_capacity);
        }
        if (!read_waiters(t, tick->tracer, now_ns) || !note_seeded(t))
                return;
        tracer_stats(tick->tracer, &stats);
        bool whole = stats.overflow == t->overflow;
        enum began when = began(e, stats.attached_ns);
        t->overflow = stats.overflow;
        t->reads++;
        for (size_t i = 0; i < e->core_count; i++)
                compare_core(t, &e->cores[i], find_core(t, count, e->cores[i].cpu), whole, when, &t->exact[i]);
        e->exact = t->exact;
        e->traced = t->waiters;
        e->traced_count = t->waiter_count;
        e->seeded = &t->before;
}

static int trace_collect(void *own, struct tick *tick)
{
        struct trace *t = own;
        struct evidence *e = tick->evidence;

        e->exact = NULL;
        e->traced = NULL;
        e->traced_count = 0;
        e->seeded = NULL;
        if (tick->tracer == NULL || !tracer_attached(tick->tracer) || !(tick->scopes & SCOPE_BIT(SCOPE_CPU)))
                return 0;
        if (t->epoch != tick->tracer_epoch)
                forget(t);
        t->epoch = tick->tracer_epoch;
        compare(t, tick);
        return 0;
}

static int trace_after(void *own, struct tick *tick)
{
        struct trace *t = own;
        uint64_t now_ns = procfs_mono(tick->procfs);

        if (tick->tracer == NULL || !tracer_attached(tick->tracer) || now_ns - t->maintained_ns < MAINTAIN_NS)
                return 0;
        t->maintained_ns = now_ns;
        tracer_maintain(tick->tracer, now_ns);
        return 0;
}

bool trace_seeded(const struct evidence *e, int tid)
{
        const struct sleepers *seeded = e->seeded;
        const struct sleeper *sleeper = seeded != NULL && seeded->count > 0 ? find_sleeper(seeded, tid) : NULL;

        return sleeper != NULL && sleeper->tid == tid;
}

void trace_self(struct tracer *tracer, struct row *row)
{
        struct tracer_stats stats = { .unmatched = 0 };
        bool attached = tracer != NULL && tracer_attached(tracer);

        row_set(row, SELF_TRACER, tracer == NULL ? 0 : attached ? 2 : 1);
        if (tracer != NULL) {
                tracer_stats(tracer, &stats);
                row_set(row, SELF_TRACER_MISSED, stats.unmatched + stats.healed);
        } else {
                row_absent(row, SELF_TRACER_MISSED);
        }
        if (attached && tracer_runs(tracer, &stats))
                row_set(row, SELF_TRACER_TIME, stats.run_ns);
        else
                row_absent(row, SELF_TRACER_TIME);
}

const struct collector collector_trace = {
        .name = "trace",
        .open = trace_open,
        .collect = trace_collect,
        .after = trace_after,
        .close = trace_close,
};

/*
 * How much of PSI io is parked io_uring threads. Contract: psi.h.
 *
 * What the kernel counts (kernel/sched/psi.c, collect_percpu_times): on each core the time with a task that sleeps in iowait there (some),
 * and of that the time with nothing running there (full); the machine's figure is their mean over cores, weighted by the time in which the
 * core was not idle (a core with a sleeper counts as not idle). So
 *
 *      full = sum(n I) / sum(n)       I  iowait of the core           n  wall time less its idle time
 *      some = sum(n S) / sum(n)       S  time with an iowait sleeper
 *
 * I and its part u that is io_uring's alone are the split's. S is not shown anywhere. A core on which a ring's thread is known to be
 * counted and to have slept through the tick has S = wall time; what is left of the kernel's `some` belongs to the other cores. Among them
 * it is shared out by I and a share of the time in which the core ran something: the share that sleepers have of the time in which it did
 * not, I / (I + idle). The explained part of a core's S is taken as u/I, as in its idle time. Nothing is ever more than what the kernel
 * counted; `full` is explained as sum(n u) / sum(n I) of it. Taking shares keeps the distance between the reads of /proc/stat and
 * /proc/pressure out.
 *
 * Bounds. While a core runs something, its sleepers are seen by nobody: of its busy time b anything from none to all may have been a stall,
 * of rings' threads alone (e) or with another sleeper (o). With the split's own bounds of u
 *
 *      u_min <= e <= u_max + b        I - u_max <= o <= I - u_min + b
 *
 * where b counts on a side only if such a sleeper can have been there: for e one in a ring's wait, or iowait that may be one; for o a task
 * in D state that was seen, iowait that may be one's, or threads that could not be seen. A thread proved parked slept through b, so e >=
 * u_min + b where there is no o. The explained `some` lies between sum(n e) / sum(n) and the kernel's `some` less sum(n o) / sum(n), each
 * the nearer one. Tracing knows the idle time exactly, so u_min = u_max, and of b as little.
 *
 * A control group has the same figures over its own tasks. Its cores are those on which waiters of it (and of groups below it) sleep; what
 * else sleeps on them is in u, and a core with a D-state task of the group alone is not explained at all. A tick's share is weighted and
 * added up until the group's file is read again.
 */
#include "collectors/psi.h"
#include "collectors/bpf/tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        CORES_MAX = 1 << 16,
        TICK = 10000000,        /* ns of a tick of /proc/stat */
        FULL_TICKS = 2,         /* a core with no more than that of idle and iowait says nothing of its sleepers */
        PLACES_MAX = 1024,      /* processes x cores with a waiter; with more, groups are not explained */
        IO = 1,                 /* key of the row of io in scope pressure */
};

/* metric waiter.witness */
enum { WAITS = 2, PARKED = 3, PROVED = 4, STORAGE = 5, DSTATE = 6 };

struct core {
        uint64_t uring, least, most; /* CPU_WA_URING and its bounds of the tick before */
        bool known;             /* and it was there */
        /* of this tick */
        bool now;
        bool parked;            /* a counted ring's thread sleeps on it all the time */
        bool vague;             /* it ran something all the time, and whether its sleepers are counted is not known */
        double weight, waits, stalled, share; /* n, I, S, u/I */
        double low, high;       /* bounds of u */
        double own_low, own_high, other_low, other_high; /* of e and o */
};

struct totals {
        uint64_t some, full;    /* of the kernel, when it was last seen */
        bool known, has_full;
        double some_uring, full_uring; /* ns */
        double some_low, some_high, full_low, full_high; /* of the machine's only */
};

struct group {              /* owned by its row of scope cgroup */
        struct totals totals;
        double explained, stalled; /* since the group's file was read last */
};

struct place {              /* waiters of one process on one core */
        uint64_t tgid;
        unsigned core;
        bool uring;             /* one of them is parked in a ring, or wakes often; else they are in D state or have storage pending */
        const char *path;       /* control group; NULL not known */
        size_t length;
};

struct psi {
        struct core *cores;
        size_t core_capacity;
        struct totals host;
        struct place places[PLACES_MAX];
        size_t place_count;
        bool crowded;           /* more places than fit */
        unsigned *stamps, stamp; /* by core: the group that counted it last; rings first */
};

int psi_new(struct psi **psi)
{
        *psi = calloc(1, sizeof **psi);
        return *psi ? 0 : -ENOMEM;
}

void psi_free(struct psi *psi)
{
        if (!psi)
                return;
        free(psi->cores);
        free(psi->stamps);
        free(psi);
}

/* ---- cores --------------------------------------------------------------------------------------------------------------------------- */

static void *grown(void *old, size_t from, size_t to, size_t size)
{
        char *array = realloc(old, to * size);

        if (array)
                memset(array + from * size, 0, (to - from) * size);
        return array;
}

static bool room(struct psi *psi, size_t cores)
{
        if (cores <= psi->core_capacity)
                return true;
        size_t wanted = cores + 16;
        struct core *list = grown(psi->cores, psi->core_capacity, wanted, sizeof *list);
        if (list)
                psi->cores = list;
        unsigned *stamps = list ? grown(psi->stamps, psi->core_capacity, wanted, sizeof *stamps) : NULL;
        if (!stamps)
                return false;
        psi->stamps = stamps;
        psi->core_capacity = wanted;
        return true;
}

/* Does a ring's thread that is known to be counted sleep on the core all the time? *other: a task in D state was seen there. *doubt: a
 * ring's thread of which it is not known. */
static bool parked_on(const struct evidence *e, unsigned cpu, bool *other, bool *doubt)
{
        bool parked = false;

        *other = !e->threads_seen && !e->traced;
        *doubt = false;
        for (size_t i = 0; i < e->witness_count; i++) {
                const struct iowait_witness *w = &e->witnesses[i];
                if (w->cpu != cpu || w->refuted)
                        continue;
                parked = parked || (w->parked && w->marked);
                *doubt = *doubt || !w->parked || !w->marked;
        }
        for (size_t i = 0; e->traced && i < e->traced_count; i++) { /* only those that are counted are traced */
                const struct tracer_waiter *w = &e->traced[i];
                if (w->cpu != cpu || !w->asleep || w->since_ns > e->stat_prev_start_ns)
                        continue;
                parked = parked || w->class == TRACER_URING;
                *other = *other || w->class != TRACER_URING;
        }
        for (size_t i = 0; i < e->seen_count; i++)
                *other = *other || (e->seen[i].cpu == cpu && e->seen[i].d_state);
        *doubt = *doubt && !parked;
        return parked;
}

/* Where the explained stall and the rest of it may lie. */
static void bound_core(struct core *core, double busy, bool other, bool doubt)
{
        bool ring = core->parked || doubt || core->high > 0, more = other || core->waits - core->low > TICK;

        core->own_low = core->low + (core->parked && !more ? busy : 0);
        core->own_high = core->high + (ring ? busy : 0);
        core->other_low = core->waits - core->high;
        core->other_high = core->waits - core->low + (more ? busy : 0);
}

static void take_core(struct core *core, const struct evidence *e, const struct iowait_core *in, double wall)
{
        double waits = in->iowait_ns > 0 ? (double)in->iowait_ns : 0, idle = in->idle_ns > 0 ? (double)in->idle_ns : 0;
        double busy = wall - waits - idle > 0 ? wall - waits - idle : 0;
        bool other, doubt;

        core->parked = parked_on(e, in->cpu, &other, &doubt);
        core->vague = false;
        core->weight = wall > idle ? wall - idle : 0;
        core->waits = waits;
        core->stalled = waits + (waits > 0 ? busy * waits / (waits + idle) : 0);
        if (core->parked)
                core->stalled = wall;
        /* It ran something all the time, so its iowait says nothing of its sleepers. */
        if (waits + idle <= FULL_TICKS * TICK && wall > 4 * FULL_TICKS * TICK) {
                core->vague = doubt;
                core->stalled = core->parked ? wall : 0;
                core->share = core->parked && !other ? 1 : 0;
        }
        bound_core(core, busy, other, doubt);
}

/* Bounds of the core's u in the tick: those of the split, within I. */
static void take_bounds(struct core *core, const struct row *row, double waits)
{
        uint64_t least, most;
        bool known = row_get(row, CPU_WA_URING_MIN, &least) && row_get(row, CPU_WA_URING_MAX, &most);

        core->low = core->now && known && least >= core->least ? (double)(least - core->least) : 0;
        core->high = core->now && known && most >= core->most ? (double)(most - core->most) : waits;
        core->low = core->low < waits ? core->low : waits;
        core->high = core->high < waits ? core->high : waits;
        core->low = core->low < core->high ? core->low : core->high;
        core->least = known ? least : 0;
        core->most = known ? most : 0;
}

/* True when this tick's cores are known, and those of the tick before. With a vague one among them nothing is concluded. */
static bool take_cores(struct psi *psi, struct sample *sample, const struct evidence *e)
{
        double wall = ((double)e->stat_start_ns + (double)e->stat_end_ns - (double)e->stat_prev_start_ns - (double)e->stat_prev_end_ns) / 2;
        bool any = false, vague = false;

        for (size_t i = 0; i < psi->core_capacity; i++)
                psi->cores[i].now = false;
        for (size_t i = 0; i < e->core_count; i++) {
                const struct iowait_core *in = &e->cores[i];
                struct row *row = sample_find(sample, SCOPE_CPU, (struct key){in->cpu, 0});
                uint64_t uring;
                if (in->cpu >= CORES_MAX || !row || !row_get(row, CPU_WA_URING, &uring))
                        continue;
                if (!room(psi, in->cpu + 1u))
                        return false;
                struct core *core = &psi->cores[in->cpu];
                core->now = core->known && in->valid && wall > 0 && uring >= core->uring;
                core->share = core->now && in->iowait_ns > 0 ? (double)(uring - core->uring) / (double)in->iowait_ns : 0;
                core->share = core->share > 1 ? 1 : core->share;
                take_bounds(core, row, in->iowait_ns > 0 ? (double)in->iowait_ns : 0);
                if (core->now)
                        take_core(core, e, in, wall);
                any = any || core->now;
                vague = vague || (core->now && core->vague);
                core->uring = uring;
                core->known = true;
        }
        return any && !vague;
}

/* ---- what is published ---------------------------------------------------------------------------------------------------------- */

static void publish(struct row *row, const struct totals *totals, int some, int full, bool known)
{
        if (known)
                row_set(row, some, (uint64_t)totals->some_uring);
        else
                row_absent(row, some);
        if (known && totals->has_full)
                row_set(row, full, (uint64_t)totals->full_uring);
        else
                row_absent(row, full);
}

/* Growth of the kernel's totals since they were seen last. False: there is none to tell. */
static bool growth(struct totals *totals, const struct row *row, int some_metric, int full_metric, double *some, double *full)
{
        uint64_t some_now, full_now = 0;
        bool before = totals->known, had_full = totals->has_full;

        totals->known = row_get(row, some_metric, &some_now);
        totals->has_full = totals->known && row_get(row, full_metric, &full_now);
        if (!totals->known)
                return false;
        bool known = before && some_now >= totals->some && (!had_full || !totals->has_full || full_now >= totals->full);
        *some = known ? (double)(some_now - totals->some) : 0;
        *full = known && had_full && totals->has_full ? (double)(full_now - totals->full) : 0;
        totals->some = some_now;
        totals->full = full_now;
        return known || !before;
}

/* n S of cores, and the explained part of it. */
struct stall {
        double all, uring;
};

static double explained_some(const struct psi *psi, double some)
{
        struct stall parked = {0}, rest = {0};
        double weight = 0;

        for (size_t i = 0; i < psi->core_capacity; i++) {
                const struct core *core = &psi->cores[i];
                struct stall *to = core->parked ? &parked : &rest;
                if (!core->now)
                        continue;
                weight += core->weight;
                to->all += core->weight * core->stalled;
                to->uring += core->weight * core->stalled * core->share;
        }
        if (!(weight > 0))
                return 0;
        /* What the kernel counted, in the same measure. */
        double counted = some * weight;
        if (parked.all > 0 && parked.all >= counted)
                return some * parked.uring / parked.all;
        double uring = parked.uring + (rest.all > 0 ? (counted - parked.all) * rest.uring / rest.all : 0);
        return uring / weight < some ? uring / weight : some;
}

/* Bounds of what explained_some estimates, in ns; they hold the estimate. */
static void bounds_some(const struct psi *psi, double some, double estimate, double *low, double *high)
{
        double weight = 0, own_low = 0, own_high = 0, other_low = 0, other_high = 0;

        for (size_t i = 0; i < psi->core_capacity; i++) {
                const struct core *core = &psi->cores[i];
                if (!core->now)
                        continue;
                weight += core->weight;
                own_low += core->weight * core->own_low;
                own_high += core->weight * core->own_high;
                other_low += core->weight * core->other_low;
                other_high += core->weight * core->other_high;
        }
        *low = *high = estimate;
        if (!(weight > 0))
                return;
        double least = own_low / weight, most = own_high / weight;
        if (some - other_high / weight > least)
                least = some - other_high / weight;
        if (some - other_low / weight < most)
                most = some - other_low / weight;
        *low = least < estimate ? least : estimate;
        *high = most > estimate ? most : estimate;
        *high = *high < some ? *high : some;
}

/* The explained part of `full`, and its bounds. */
static double explained_full(const struct psi *psi, double full, double *low, double *high)
{
        double all = 0, uring = 0, least = 0, most = 0;

        for (size_t i = 0; i < psi->core_capacity; i++) {
                const struct core *core = &psi->cores[i];
                if (!core->now)
                        continue;
                all += core->weight * core->waits;
                uring += core->weight * core->waits * core->share;
                least += core->weight * core->low;
                most += core->weight * core->high;
        }
        double estimate = all > 0 ? full * uring / all : 0;
        *low = all > 0 && full * least / all < estimate ? full * least / all : estimate;
        *high = all > 0 && full * most / all > estimate ? full * most / all : estimate;
        return estimate;
}

/* Bounds of the machine's parts; absent where the parts are. */
static void publish_bounds(struct row *row, const struct totals *t, bool known)
{
        const struct { int metric; double value; bool has; } bounds[] = {
                {PRESSURE_SOME_URING_MIN, t->some_low, true}, {PRESSURE_SOME_URING_MAX, t->some_high, true},
                {PRESSURE_FULL_URING_MIN, t->full_low, t->has_full}, {PRESSURE_FULL_URING_MAX, t->full_high, t->has_full},
        };

        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
                if (known && bounds[i].has)
                        row_set(row, bounds[i].metric, (uint64_t)bounds[i].value);
                else
                        row_absent(row, bounds[i].metric);
        }
}

static void host_tick(struct psi *psi, struct sample *sample, bool cores)
{
        struct row *row = sample_find(sample, SCOPE_PRESSURE, (struct key){IO, 0});
        double some = 0, full = 0;

        if (!row)
                return;
        bool first = !psi->host.known, known = growth(&psi->host, row, PRESSURE_SOME, PRESSURE_FULL, &some, &full);
        if (cores) {
                double low, high, estimate = explained_some(psi, some);
                bounds_some(psi, some, estimate, &low, &high);
                psi->host.some_uring += estimate;
                psi->host.some_low += low;
                psi->host.some_high += high;
                psi->host.full_uring += explained_full(psi, full, &low, &high);
                psi->host.full_low += low;
                psi->host.full_high += high;
        }
        publish(row, &psi->host, PRESSURE_SOME_URING, PRESSURE_FULL_URING, known && (cores || first));
        publish_bounds(row, &psi->host, known && (cores || first));
}

/* ---- control groups ------------------------------------------------------------------------------------------------------------- */

static int by_place(const void *left, const void *right)
{
        const struct place *a = left, *b = right;

        if (a->tgid != b->tgid)
                return a->tgid < b->tgid ? -1 : 1;
        return a->core < b->core ? -1 : a->core > b->core;
}

/* Waiters of the tick, one place for each process and core. */
static void take_places(struct psi *psi, struct sample *sample)
{
        size_t kept = 0;

        psi->place_count = 0;
        psi->crowded = false;
        for (size_t i = 0, n = sample_rows(sample, SCOPE_WAITER); i < n; i++) {
                struct row *row = sample_row_at(sample, SCOPE_WAITER, i);
                uint64_t witness, tgid, core;
                if (!row_get(row, WAITER_WITNESS, &witness) || witness < WAITS || witness > DSTATE || !row_get(row, WAITER_TGID, &tgid) ||
                    !row_get(row, WAITER_CORE, &core) || core >= CORES_MAX)
                        continue;
                if (psi->place_count == PLACES_MAX) {
                        psi->crowded = true;
                        return;
                }
                psi->places[psi->place_count++] = (struct place){.tgid = tgid, .core = (unsigned)core, .uring = witness < STORAGE};
        }
        qsort(psi->places, psi->place_count, sizeof psi->places[0], by_place);
        for (size_t i = 0; i < psi->place_count; i++) {
                if (kept && by_place(&psi->places[kept - 1], &psi->places[i]) == 0)
                        psi->places[kept - 1].uring = psi->places[kept - 1].uring || psi->places[i].uring;
                else
                        psi->places[kept++] = psi->places[i];
        }
        psi->place_count = kept;
}

static void find_paths(struct psi *psi, struct sample *sample)
{
        for (size_t i = 0, n = psi->place_count ? sample_rows(sample, SCOPE_PROCESS) : 0; i < n; i++) {
                struct row *row = sample_row_at(sample, SCOPE_PROCESS, i);
                uint64_t tgid = row_key(row).a;
                size_t low = 0, high = psi->place_count;
                while (low < high) {
                        size_t middle = (low + high) / 2;
                        if (psi->places[middle].tgid < tgid)
                                low = middle + 1;
                        else
                                high = middle;
                }
                for (; low < psi->place_count && psi->places[low].tgid == tgid; low++)
                        psi->places[low].path = row_get_text(row, PROCESS_CGROUP, &psi->places[low].length);
        }
}

/* Is the process in this group, or in one below it? */
static bool inside(const struct place *place, const char *group, size_t length)
{
        if (length == 1 && group[0] == '/')
                return true;
        return place->length >= length && memcmp(place->path, group, length) == 0 && (place->length == length ||
                place->path[length] == '/');
}

/* One look over the group's places: those with a ring's waiter, or the others. */
static void add_places(struct psi *psi, struct group *group, const char *path, size_t length, bool uring)
{
        for (size_t i = 0; i < psi->place_count; i++) {
                const struct place *place = &psi->places[i];
                if (!place->path || place->uring != uring || place->core >= psi->core_capacity || !psi->cores[place->core].now ||
                    psi->stamps[place->core] == psi->stamp || !inside(place, path, length))
                        continue;
                psi->stamps[place->core] = psi->stamp;
                group->stalled += psi->cores[place->core].stalled;
                group->explained += uring ? psi->cores[place->core].stalled * psi->cores[place->core].share : 0;
        }
}

static struct group *group_of(struct row *row)
{
        uintptr_t *own = row_own(row);

        if (!*own)
                *own = (uintptr_t)calloc(1, sizeof(struct group));
        return (struct group *)*own;
}

static void group_free(void *arg, uintptr_t own)
{
        (void)arg;
        free((struct group *)own);
}

static void group_tick(struct psi *psi, struct row *row, bool cores)
{
        size_t length = 0;
        const char *path = row_get_text(row, CGROUP_PATH, &length);
        struct group *group = path ? group_of(row) : NULL;
        double some = 0, full = 0;

        if (!group)
                return;
        psi->stamp++;
        add_places(psi, group, path, length, true);
        add_places(psi, group, path, length, false);
        bool first = !group->totals.known, known = growth(&group->totals, row, CGROUP_IO_SOME, CGROUP_IO_FULL, &some, &full);
        double share = group->stalled > 0 ? group->explained / group->stalled : 0;
        group->totals.some_uring += some * share;
        group->totals.full_uring += full * share;
        if (some > 0 || full > 0) /* the file was read again */
                group->explained = group->stalled = 0;
        publish(row, &group->totals, CGROUP_SOME_URING, CGROUP_FULL_URING, known && (cores || first) && !psi->crowded);
}

static void groups_tick(struct psi *psi, struct sample *sample, bool cores)
{
        size_t n = sample_rows(sample, SCOPE_CGROUP);
        uint64_t total;
        bool any = false;

        for (size_t i = 0; i < n && !any; i++)
                any = row_get(sample_row_at(sample, SCOPE_CGROUP, i), CGROUP_IO_SOME, &total);
        if (!any)
                return;
        sample_on_free(sample, SCOPE_CGROUP, group_free, NULL);
        take_places(psi, sample);
        find_paths(psi, sample);
        for (size_t i = 0; i < n; i++)
                group_tick(psi, sample_row_at(sample, SCOPE_CGROUP, i), cores);
}

void psi_tick(struct psi *psi, struct sample *sample, const struct evidence *evidence, bool judged)
{
        bool cores = judged && take_cores(psi, sample, evidence);

        if (!judged) /* the sums went on without us */
                for (size_t i = 0; i < psi->core_capacity; i++)
                        psi->cores[i].known = psi->cores[i].now = false;
        host_tick(psi, sample, cores);
        groups_tick(psi, sample, cores);
}

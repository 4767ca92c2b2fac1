/*
 * Who waits: evidence for the split of iowait, and one row for each waiter.
 *
 * A thread that slept from before one read of /proc/stat until after the next is a witness: its core cannot have been idle without it. So
 * candidates are read ahead of /proc/stat (`before`) and behind it (`collect`); the interval that ends with tick n compares `before` of
 * tick n-1 with `collect` of tick n. Ring counters are read at the same two places. Between ticks, while there is iowait to explain,
 * sub-samples of procs_blocked and of D-state threads say who else is counted.
 *
 * Guarantees: a candidate is only called parked when both of its switch counts are the same at both ends; what one sleep proved is kept
 * for that sleep only; reading stays within a share of the machine's time (SHARE) and never passes the tick's deadline; D-state tasks are
 * read through stat, status and wchan alone. Why it is not done by kernel version or program name: see iowait.c.
 */
#include "collectors/uring_own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/trace.h"
#include "sample/control.h"

/* What the split concluded belongs to the sleep it was about; it is fetched before anything is read again. */
static void fetch_verdicts(struct uring *u, const struct evidence *e)
{
        for (size_t i = 0; i < e->witness_count; i++) {
                const struct iowait_witness *in = &e->witnesses[i];
                struct waiter *w = waiter_find(u, in->tid);
                if (w && !in->parked && w->thread.born_ns == in->born_ns)
                        w->busy.chance = in->chance, w->busy.proved = in->verdict == 4;
                if (!w || !in->parked || !w->parked || w->thread.born_ns != in->born_ns)
                        continue;
                w->marked = in->marked;
                w->refuted = in->refuted;
                w->verdict = in->verdict;
                w->chance = in->chance;
        }
}

/* First step after a tick was judged. */
static void begin_interval(struct uring *u, const struct evidence *e)
{
        if (!u->turned)
                return;
        u->turned = false;
        fetch_verdicts(u, e);
        u->any_iowait = false;
        for (size_t i = 0; i < e->core_count; i++)
                u->any_iowait = u->any_iowait || (e->cores[i].valid && e->cores[i].iowait_ns > 0);
        u->marked_count = 0;
        for (size_t i = 0; i < u->waiter_count; i++)
                u->marked_count += u->waiters[i].parked && u->waiters[i].marked && !u->waiters[i].refuted;
        int cpu = u->instant_count && u->instant_count < IOWAIT_READS ? u->instants[u->instant_count - 1].cpu : -1;
        u->instant_count = 0;
        if (u->have_blocked)
                watch_instant(u, u->blocked_now, cpu); /* of the tick: it belongs to both intervals */
        u->seen_count = 0;
        if (u->carried_cores)
                watch_count_cores(u, u->pass_cores, u->pass_core_count);
        u->carried_cores = false;
}

static bool to_explain(const struct uring *u, const struct evidence *e)
{
        if (u->have_blocked ? u->blocked_now > 0 : e->procs_blocked > 0)
                return true;
        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].valid && e->cores[i].iowait_ns > 0)
                        return true;
        return false;
}

static bool uring_wants_between(void *own, const struct tick *tick)
{
        return !traced_whole(tick->evidence) && to_explain(own, tick->evidence);
}

static int uring_between(void *own, struct tick *tick)
{
        struct uring *u = own;
        uint64_t blocked, after;
        begin_interval(u, tick->evidence);
        int cpu = -1, later;
        busy_ahead(u, tick->procfs);
        if (!watch_read_blocked(u, tick->procfs, &blocked, &cpu))
                return 0;
        watch_instant(u, blocked, cpu);
        busy_behind(u, tick->procfs, blocked, cpu);
        u->subs++;
        u->sub_blocked += blocked;
        if (watch_in_flight(u, tick->procfs))
                u->sub_in_flight = true;
        bool pass = tick->capture && procfs_mono(tick->procfs) >= u->pause_ns; /* for a replay, which knows less */
        if (!pass && watch_cheap(u, tick->procfs, blocked, cpu)) {
                u->last_d = (unsigned)(blocked - u->marked_count);
        } else if (u->subs % 2 == 0 && !u->finder.running && busy_rests(u)) {
                ; /* whatever it would show */
        } else if (watch_search(u, tick, SUB_STEP_NS, blocked) && watch_read_blocked(u, tick->procfs, &after, &later)) {
                watch_blocked(u, after);
                watch_count_pass(u, after);
        } else {
                u->unresolved++;
        }
        u->sub_d += u->last_d;
        return 0;
}

/* ---- the tick ------------------------------------------------------------------------------------------------------------------ */

/* Are all tasks in sight? Not with hidepid, and not from inside a PID namespace: then D-state threads elsewhere stay unseen. The initial
 * one has a fixed inode (include/linux/proc_ns.h, PROC_PID_INIT_INO). A captured tree is taken as whole. */
static void check_view(struct uring *u, struct procfs *procfs)
{
        char text[1024];
        u->checked = u->whole = true;
        if (!procfs_live(procfs))
                return;
        u->looks_inside = procfs_read(procfs, "proc/2/syscall", text, sizeof text) > 0; /* kthreadd's, whom no module shields */
        ssize_t length = procfs_link(procfs, "proc/self/ns/pid", text, sizeof text);
        u->whole = length > 0 && strcmp(text, "pid:[4026531836]") == 0 && procfs_read(procfs, "proc/1/stat", text, sizeof text) > 0;
}

/* Rings of candidates, at the start of the next interval. */
static void rings_ahead(struct uring *u, struct tick *tick)
{
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                struct owner *owner = waiter_is_witness(w) ? owner_add(u, w->thread.tgid) : NULL;
                if (!owner)
                        continue;
                if (w->ring_fd < 0 || (tick->leases & LEASE_RINGS))
                        owner_list(tick->procfs, owner, &u->ids, &u->id_capacity, tick->number ? LINKS : FIRST_LINKS,
                                procfs_mono(tick->procfs));
                if (w->ring_fd >= 0 && owner_ring(owner, w->ring_fd))
                        owner_read(tick->procfs, owner, w->ring_fd, true);
                else if (!owner->rings[0].next.valid)
                        owner_read(tick->procfs, owner, -1, true);
        }
}

static int uring_before(void *own, struct tick *tick)
{
        struct uring *u = own;
        begin_interval(u, tick->evidence);
        if (!u->checked)
                check_view(u, tick->procfs);
        if (tick->number == 0)
                u->credit_ns = FIRST_NS, u->bonus_ns = BONUS_MAX_NS;
        bool wanted = tick->number == 0 || to_explain(u, tick->evidence);
        u->idle_ticks = wanted ? 0 : u->idle_ticks + 1;
        if (u->idle_ticks > IDLE_TICKS)
                for (size_t i = 0; i < u->waiter_count; i++)
                        u->waiters[i].gone = true;
        waiters_drop(u);
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                if (i % 32 == 31 && tick->deadline_ns && procfs_live(tick->procfs) && procfs_mono(tick->procfs) > tick->deadline_ns)
                        break;
                waiter_reread(tick->procfs, w);
        }
        u->traced = traced_whole(tick->evidence);
        traced_waiters(u, tick);
        if (wanted && watch_search(u, tick, tick->number ? STEP_NS : FIRST_NS, u->have_blocked ? u->blocked_now : UINT64_MAX))
                u->pass_waiting = true;
        rings_ahead(u, tick);
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                w->next = (struct point){.cq = waiter_is_witness(w), .switches = w->switches, .cpu = w->thread.cpu};
        }
        return 0;
}

static int uring_collect(void *own, struct tick *tick)
{
        struct uring *u = own;
        watch_instant(u, tick->evidence->procs_blocked, watch_cpu(tick->procfs));
        delays_collect(u, tick);
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                w->parked = false;
                if (w->gone || w->wait != WAIT_CQ)
                        continue;
                if (i % 32 == 31 && tick->deadline_ns && procfs_live(tick->procfs) && procfs_mono(tick->procfs) > tick->deadline_ns)
                        continue;
                waiter_reread(tick->procfs, w);
                w->parked = waiter_is_witness(w) && w->from.cq && w->from.switches == w->switches && w->from.cpu == w->thread.cpu;
        }
        return 0;
}

/* ---- after: rings, evidence, rows ------------------------------------------------------------------------------------------------- */

static const struct ring_end *own_ring(const struct owner *owner, int fd)
{
        for (size_t i = 0; i < owner->ring_count && fd >= 0; i++)
                if (owner->rings[i].fd == fd)
                        return &owner->rings[i];
        return NULL;
}

static bool same_facts(const struct ring_facts *a, const struct ring_facts *b)
{
        return a->valid && b->valid && a->sq_head == b->sq_head && a->cq_tail == b->cq_tail && a->polls == b->polls &&
                a->overflow == b->overflow;
}

/* What may be pending for one parked thread. */
static enum iowait_ring judge_rings(struct uring *u, struct tick *tick, struct waiter *w)
{
        struct owner *owner = owner_find(u, w->thread.tgid);
        struct watch_note note = {u, tick->procfs};
        if (!owner)
                return RING_UNKNOWN;
        /* Workers that started before this sleep did must be known; the look is needed once a sleep. */
        if (owner->scanned_ns < w->since_ns) {
                if (finder_process(tick->procfs, &u->direct, owner->tgid, watch_found, &note) < 0)
                        return RING_UNKNOWN;
                owner->scanned_ns = watch_boot_ns(tick->procfs);
        }
        enum worker_state workers = owner_workers(tick->procfs, owner);
        enum iowait_ring ring = owner_judge(owner, w->ring_fd, workers);
        if (ring == RING_UNCHANGED && !owner->complete) /* not seen: whether it holds a passthrough device */
                owner_list(tick->procfs, owner, &u->ids, &u->id_capacity, LINKS, procfs_mono(tick->procfs));
        uint64_t since = tick->capture ? UINT64_MAX : w->since_ns; /* a replay may ask in any tree */
        if (ring == RING_UNCHANGED && (!owner->complete || owner_limited(tick->procfs, owner, since, watch_boot_ns(tick->procfs)) ||
                                       holds_any(tick->procfs, &u->holds, watch_boot_ns(tick->procfs))))
                ring = RING_UNKNOWN;
        const struct ring_end *own = own_ring(owner, w->ring_fd);
        if (w->verdict == 4 && !w->proven && own && own->from.valid) {
                w->proven = true;
                w->proof = own->from;
        }
        /* Same sleep, same counters: what is pending now was pending then, when nothing could have been on storage. */
        if (ring != RING_STORAGE && w->proven && own && same_facts(&own->to, &w->proof))
                ring = RING_NO_STORAGE;
        return ring;
}

static void rings_behind(struct uring *u, struct tick *tick)
{
        for (size_t i = 0; i < u->owner_count; i++)
                u->owners[i]->used = false;
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                struct owner *owner = w->parked ? owner_find(u, w->thread.tgid) : NULL;
                if (!owner || owner->used)
                        continue;
                owner->used = true;
                owner_read(tick->procfs, owner, -1, false);
        }
}

static int witness_room(struct uring *u)
{
        const size_t each = BUSY_CORES + 2; /* a row for each core that one may have slept on */
        if (u->waiter_count * each <= u->witness_capacity)
                return 0;
        size_t capacity = (u->waiter_count + 16) * each;
        struct iowait_witness *witnesses = realloc(u->witnesses, capacity * sizeof *witnesses);
        if (!witnesses)
                return -ENOMEM;
        u->witnesses = witnesses;
        u->witness_capacity = capacity;
        return 0;
}

static const struct iowait_core *core_of(const struct evidence *e, unsigned cpu)
{
        if (cpu < e->core_count && e->cores[cpu].cpu == cpu)
                return &e->cores[cpu];
        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].cpu == cpu)
                        return &e->cores[i];
        return NULL;
}

/* It ran in between: it may have waited on any core where it was met. The one of its own row comes last. */
static void add_mover(struct uring *u, struct tick *tick, struct waiter *w, size_t *count, unsigned *scans)
{
        if (w->from.cq)
                busy_note_core(w, w->from.cpu);
        busy_note_core(w, w->thread.cpu);
        bool matters = false;
        for (unsigned i = 0; i < w->busy.core_count && tick->number > 0; i++) {
                const struct iowait_core *core = core_of(tick->evidence, w->busy.cores[i]);
                matters = matters || (core && core->valid && core->iowait_ns > 0);
        }
        struct iowait_witness out = {
                .tid = w->thread.tid, .tgid = w->thread.tgid, .born_ns = w->thread.born_ns, .seen_only = true,
                .ring = matters ? busy_judge(u, tick, w, scans) : RING_UNKNOWN,
                .ring_looks = w->busy.looks, .asleep = w->busy.asleep, .counted = w->busy.counted,
        };
        for (unsigned i = 0; i < w->busy.core_count; i++) {
                if (w->busy.cores[i] == w->thread.cpu)
                        continue;
                out.cpu = w->busy.cores[i];
                u->witnesses[(*count)++] = out;
        }
        out.cpu = w->thread.cpu;
        out.chance = w->busy.core_count == 1 ? w->busy.chance : 0;
        u->witnesses[(*count)++] = out;
}

static void add_witness(struct uring *u, struct tick *tick, struct waiter *w, size_t *count, unsigned *scans)
{
        if (!w->parked) {
                add_mover(u, tick, w, count, scans);
                return;
        }
        struct iowait_witness *out = &u->witnesses[(*count)++];
        *out = (struct iowait_witness){
                .tid = w->thread.tid, .tgid = w->thread.tgid, .cpu = w->thread.cpu, .born_ns = w->thread.born_ns,
                .parked = true, .ring = RING_UNKNOWN,
        };
        /* Nobody at all was counted at some instant of its sleep: so neither was it. */
        if (u->have_blocked && u->blocked_min == 0)
                w->refuted = true;
        out->ring = judge_rings(u, tick, w);
        out->seeded = trace_seeded(tick->evidence, w->thread.tid);
        out->marked = w->marked;
        out->refuted = w->refuted;
        out->idle_before_ns = w->idle_ns;
        out->iowait_before_ns = w->iowait_ns;
        out->blocked_no_d_before = w->clean;
        out->chance = w->chance;
}

/* Short ticks: add up what one sleep saw, over about a second. */
static void add_up(struct uring *u, struct evidence *e)
{
        int64_t wall = (int64_t)(e->stat_start_ns - e->stat_prev_start_ns);
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                const struct iowait_core *core = w->parked ? core_of(e, w->thread.cpu) : NULL;
                if (!core || !core->valid)
                        continue;
                bool before = w->wall_ns > 0;
                if (w->wall_ns > MEMORY_NS)
                        w->idle_ns = w->iowait_ns = w->wall_ns = 0;
                w->idle_ns += core->idle_ns > 0 ? core->idle_ns : 0;
                w->iowait_ns += core->iowait_ns > 0 ? core->iowait_ns : 0;
                w->wall_ns += wall > 0 ? wall : 1;
                w->clean = u->d_sum ? 0 : w->clean + u->blocked_no_d - (before ? u->carried_no_d : 0); /* not the same pass twice */
        }
}

/* Cheap sub-samples count if everybody they relied on slept through the interval. */
static void settle_cheap(struct uring *u)
{
        unsigned parked = 0, candidates = 0;
        for (size_t i = 0; i < u->waiter_count; i++) {
                bool candidate = u->waiters[i].parked && !u->waiters[i].refuted;
                parked += candidate && u->waiters[i].marked;
                candidates += candidate;
        }
        /* On a machine with many tasks passes are few. That every read of procs_blocked gave the number of candidates, and two passes met
         * nobody in D state, is one agreement more: a waiter that is always counted would have been met, one that comes and goes would
         * have shown. */
        if (candidates && u->reads >= STEADY_READS && u->blocked_min == candidates && u->blocked_max == candidates &&
                u->blocked_no_d == u->samples &&
            u->samples >= 2)
                u->blocked_no_d++, u->samples++, u->blocked_sum += candidates;
        /* Looks at which somebody unknown was counted go with the cheap ones: without them only moments with nobody else would be left. */
        if (parked != u->marked_count || !u->cheap) {
                u->unresolved = 0;
                return;
        }
        u->samples += u->cheap;
        u->blocked_no_d += u->cheap_no_d;
        u->blocked_sum += u->cheap_blocked;
        u->d_sum += u->cheap_d;
}

static void give_evidence(struct uring *u, struct tick *tick)
{
        struct evidence *e = tick->evidence;
        size_t count = 0;
        unsigned scans = 0;
        u->frozen = true;
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                if (!w->gone && w->away <= AWAY_TICKS)
                        add_witness(u, tick, w, &count, &scans);
        }
        u->frozen = false;
        e->witnesses = u->witnesses;
        e->witness_count = count;
        e->seen = u->seen;
        e->seen_count = u->seen_count;
        e->samples = u->samples;
        e->carried = u->carried;
        e->full = u->full;
        e->unresolved = u->unresolved;
        e->blocked_reads = u->instants;
        e->blocked_read_count = u->instant_count;
        e->blocked_no_d = u->blocked_no_d;
        e->blocked_sum = u->blocked_sum;
        e->d_sum = u->d_sum;
        e->sub_in_flight = u->sub_in_flight;
        e->threads_seen = u->pass_done && !u->pass_unknown && !u->overflow && u->whole;
}

/* The next interval starts. */
static void turn(struct uring *u)
{
        for (size_t i = 0; i < u->waiter_count; i++) {
                struct waiter *w = &u->waiters[i];
                w->from = w->next;
                w->next = (struct point){0};
                busy_turn(w);
                w->away = w->wait == WAIT_CQ || w->from.cq ? 0 : w->away + 1;
                if (w->cold <= AWAY_TICKS)
                        w->cold = w->thread.state == 'D' ? 0 : w->cold + 1;
                if (w->away > AWAY_TICKS && w->cold > AWAY_TICKS)
                        w->gone = true;
        }
        for (size_t i = 0; i < u->owner_count; i++)
                owner_turn(u->owners[i]);
        waiters_drop(u);
        owners_drop(u);
        u->turned = true;
        u->samples = u->full = u->blocked_no_d = u->unresolved = u->cheap = u->cheap_no_d = u->subs = 0;
        u->blocked_sum = u->d_sum = u->cheap_blocked = u->cheap_d = u->sub_blocked = u->sub_d = 0;
        u->blocked_min = u->blocked_max = u->blocked_now;
        u->reads = 0;
        watch_add_sample(u);
        u->carried_no_d = u->blocked_no_d;
        u->carried = u->samples;
        u->carried_cores = u->last_sample.count > 0;
        u->pass_done = u->pass_unknown = u->sub_in_flight = u->overflow = false;
}

static int uring_after(void *own, struct tick *tick)
{
        struct uring *u = own;
        begin_interval(u, tick->evidence);
        u->last_sample = (struct pass_sample){0};
        if (u->pass_waiting)
                watch_count_pass(u, tick->evidence->procs_blocked);
        settle_cheap(u);
        if (witness_room(u) < 0)
                return -ENOMEM;
        rings_behind(u, tick);
        give_evidence(u, tick);
        if (procfs_lxcfs(tick->procfs)) { /* the container's counters and core numbers are not those of the threads */
                tick->evidence->witness_count = tick->evidence->seen_count = 0;
                tick->evidence->full = 0;
                tick->evidence->samples = tick->evidence->blocked_no_d = tick->evidence->unresolved = tick->evidence->carried = 0;
                tick->evidence->blocked_read_count = 0;
                tick->evidence->blocked_sum = tick->evidence->d_sum = 0;
                tick->evidence->threads_seen = false;
        }
        uring_write_rows(u, tick);
        add_up(u, tick->evidence);
        turn(u);
        return 0;
}

static int uring_open(struct procfs *procfs, void **own)
{
        struct uring *u = calloc(1, sizeof *u);
        (void)procfs;
        if (!u)
                return -ENOMEM;
        u->owners = calloc(OWNERS_MAX, sizeof(struct owner *));
        procfs_file_init(&u->stat, "proc/stat");
        procfs_file_init(&u->diskstats, "proc/diskstats");
        if (!u->owners) {
                free(u);
                return -ENOMEM;
        }
        *own = u;
        return 0;
}

static void uring_close(void *own)
{
        struct uring *u = own;
        if (!u)
                return;
        for (size_t i = 0; i < u->owner_count; i++)
                free(u->owners[i]);
        procfs_file_close(&u->stat);
        procfs_file_close(&u->diskstats);
        finder_fini(&u->finder);
        finder_fini(&u->direct);
        free(u->owners);
        free(u->waiters);
        free(u->slots);
        free(u->witnesses);
        delays_free(u->delays);
        free(u->d_threads);
        free(u->seen);
        free(u->seen_sample);
        free(u->text);
        free(u->ids);
        free(u);
}

static int any_entry(void *arg, const char *name, unsigned char type)
{
        (void)arg, (void)name, (void)type;
        return 1;
}

static void uring_check(struct procfs *procfs, char *line, size_t size)
{
        char text[4096];
        struct uring view = {0};
        check_view(&view, procfs);
        /* Asked of kthreadd, which is root's and whom no security module shields; process 1 may be shielded. */
        bool syscalls = procfs_read(procfs, "proc/2/syscall", text, sizeof text) > 0;
        bool rings = syscalls && procfs_list(procfs, "proc/2/fd", any_entry, NULL) >= 0;
        snprintf(line, size, "waiters: %s; %s; %s",
                syscalls ? "wait channels of all threads" : "wait channels of your own threads only (all: CAP_SYS_PTRACE)",
                rings ? "rings of all processes" : "rings of your own processes only (all: CAP_SYS_PTRACE + CAP_DAC_READ_SEARCH)",
                view.whole ? "all tasks in sight" : "tasks outside this PID namespace or behind hidepid are not seen: no idle "
                        "reactor can be proved");
}

const struct collector collector_uring = {
        .name = "uring",
        .scopes = SCOPE_BIT(SCOPE_WAITER),
        .open = uring_open,
        .before = uring_before,
        .collect = uring_collect,
        .after = uring_after,
        .wants_between = uring_wants_between,
        .between = uring_between,
        .close = uring_close,
        .check = uring_check,
};

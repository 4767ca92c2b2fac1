/*
 * Watching: reading known waiters again, and who is counted between the ticks.
 *
 * One observation is a whole pass over all threads with procs_blocked read before and after it: so many tasks in D state, and at least so
 * many counted all the while. A single pair of reads proves nothing, the two are never of one instant (of 112 D-state samples of an fsync
 * loop 44 had procs_blocked 0).
 */
#include "collectors/uring_own.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/wchan.h"

uint64_t watch_boot_ns(struct procfs *procfs)
{
        struct procfs_clock clock;
        procfs_clock(procfs, &clock);
        return clock.boot_ns;
}

/* A reading of its files is in: is it still the sleep we knew? */
static void note_sleep(struct procfs *procfs, struct waiter *w, const struct thread *thread, bool known, uint64_t switches)
{
        bool same = known && w->has_switches && w->switches == switches && w->thread.born_ns == thread->born_ns &&
                w->thread.cpu == thread->cpu && w->thread.state == thread->state && w->since_ns;
        w->thread = *thread;
        w->has_switches = known;
        w->switches = switches;
        if (same)
                return;
        w->since_ns = watch_boot_ns(procfs);
        w->marked = w->refuted = w->proven = false;
        w->idle_ns = w->iowait_ns = w->wall_ns = 0;
        w->clean = 0;
        w->chance = 0;
        w->verdict = 0;
}

/* Read a known waiter again. Its wait channel only when it slept anew. */
void waiter_reread(struct procfs *procfs, struct waiter *w)
{
        struct thread thread;
        uint64_t switches = 0;
        int r = thread_read(procfs, w->thread.tgid, w->thread.tid, &thread);
        if (r == 0 && thread.born_ns != w->thread.born_ns)
                r = -ESRCH; /* the number is somebody else's now */
        if (r < 0) {
                w->gone = true;
                return;
        }
        bool known = thread_switches(procfs, thread.tgid, thread.tid, &switches) == 0;
        note_sleep(procfs, w, &thread, known, switches);
        bool fresh = w->wait == WAIT_UNKNOWN || w->idle_ns + w->iowait_ns + w->wall_ns == 0;
        bool never = true, denied = false;
        if (thread.state == 'S' && fresh) {
                enum wait_kind kind = thread_wait(procfs, thread.tgid, thread.tid, w->wchan, &w->ring_fd, &denied);
                /* Running at this instant and back in its queue the next: it stays a candidate, but is no witness. */
                w->wait = kind;
        } else if (thread.state == 'D') {
                thread_wait(procfs, thread.tgid, thread.tid, w->wchan, &w->ring_fd, &never);
                w->wait = WAIT_OTHER;
        } else if (thread.state != 'S') {
                w->wait = WAIT_UNKNOWN;
        }
}

bool waiter_is_witness(const struct waiter *w)
{
        return !w->gone && w->wait == WAIT_CQ && w->thread.state == 'S' && w->has_switches;
}

/* A pass may reach over the end of an interval, so what it met is kept until it is whole. */
static void count_core(struct uring *u, unsigned cpu, bool running, bool elsewhere, bool undelayed)
{
        if (u->pass_core_count < PASS_CORES)
                u->pass_cores[u->pass_core_count++] = (struct pass_core){cpu, running, elsewhere, undelayed};
}

/* A D-state thread: may it be counted as iowait? Asked again only when it slept anew. */
static bool waits_plainly(struct procfs *procfs, const struct waiter *known, const struct thread *thread, const char *wchan,
        uint64_t *switches)
{
        if (known && known->plain && known->thread.born_ns == thread->born_ns &&
            thread_switches(procfs, thread->tgid, thread->tid, switches) == 0 && *switches == known->plain_switches)
                return true;
        return thread_waits_plainly(procfs, thread, wchan, switches);
}

/* A pass or a look at one process met a thread of interest. */
void watch_found(void *arg, const struct found *found)
{
        struct watch_note *note = arg;
        struct uring *u = note->u;
        const struct thread *thread = &found->thread;
        struct owner *owner = owner_find(u, thread->tgid);
        if (owner && strncmp(thread->comm, "iou-wrk-", 8) == 0) {
                size_t i = 0;
                while (i < owner->worker_count && owner->workers[i] != thread->tid)
                        i++;
                if (i == WORKERS_MAX)
                        owner->workers_overfull = true;
                else if (i == owner->worker_count)
                        owner->workers[owner->worker_count++] = thread->tid;
        }
        struct waiter *w = waiter_find(u, thread->tid);
        uint64_t plain_switches = 0;
        bool plain = thread->state == 'D' && waits_plainly(note->procfs, w, thread, found->wchan, &plain_switches);
        bool counted = (thread->state == 'D' && !plain) || (thread->state == 'S' && wchan_counted_in_s(found->wchan));
        /* One that moves is runnable at times, and hides nobody by it: who waited and was just woken would be runnable too. */
        bool mover = w && w->thread.born_ns == thread->born_ns && busy_moves(w);
        if (u->in_pass && thread->state == 'R' && !mover)
                count_core(u, thread->cpu, true, false, false);
        if (u->in_pass && counted) {
                count_core(u, thread->cpu, false, wchan_kind(found->wchan) == WCHAN_ELSEWHERE, !delays_counts(u->delays, thread));
                u->pass_d++;
        }
        if (u->frozen || (thread->state != 'D' && found->wait != WAIT_CQ))
                return;
        if (w)
                w->plain = plain, w->plain_switches = plain_switches;
        if (w && thread->state == 'D')
                w->cold = 0;
        if (w && found->wait == WAIT_CQ && w->thread.born_ns == thread->born_ns)
                busy_note_core(w, thread->cpu);
        if (w && w->thread.born_ns == thread->born_ns && w->wait == found->wait)
                return; /* read by the tick itself */
        struct thread leader;
        uint64_t switches = 0;
        if (!w && !(w = waiter_add(u, thread)))
                return;
        if (w->thread.born_ns != thread->born_ns) {
                w->thread = *thread;
                w->from = w->next = (struct point){0};
                w->since_ns = 0;
        }
        w->away = found->wait == WAIT_CQ ? 0 : AWAY_TICKS + 1;
        w->cold = thread->state == 'D' ? 0 : AWAY_TICKS + 1;
        w->gone = false;
        w->wait = found->wait;
        w->ring_fd = found->ring_fd;
        memcpy(w->wchan, found->wchan, sizeof w->wchan);
        w->plain = plain;
        w->plain_switches = plain_switches;
        bool known = thread_switches(note->procfs, thread->tgid, thread->tid, &switches) == 0;
        note_sleep(note->procfs, w, thread, known, switches);
        if (thread_read(note->procfs, thread->tgid, thread->tgid, &leader) == 0)
                memcpy(w->process, leader.comm, sizeof w->process);
        if (w->wait == WAIT_CQ)
                owner_add(u, thread->tgid);
}

/* ---- sub-samples ------------------------------------------------------------------------------------------------------------------ */

static struct iowait_seen *seen_on(struct uring *u, unsigned cpu)
{
        if (cpu >= CORES_SEEN)
                return NULL;
        if (cpu >= u->seen_capacity) {
                size_t capacity = (size_t)cpu + 64;
                struct iowait_seen *seen = realloc(u->seen, capacity * sizeof *seen);
                if (seen)
                        u->seen = seen;
                unsigned *stamps = seen ? realloc(u->seen_sample, capacity * sizeof *stamps) : NULL;
                if (!stamps)
                        return NULL;
                u->seen_sample = stamps;
                u->seen_capacity = capacity;
        }
        for (; u->seen_count <= cpu; u->seen_count++) {
                u->seen[u->seen_count] = (struct iowait_seen){.cpu = (unsigned)u->seen_count};
                u->seen_sample[u->seen_count] = 0;
        }
        return &u->seen[cpu];
}

/* Once for each core and sample; a core with a D-state thread is not one that is only busy. */
bool watch_count_cores(struct uring *u, const struct pass_core *cores, size_t count)
{
        u->stamp++;
        for (size_t i = 0; i < count; i++) {
                unsigned cpu = cores[i].cpu;
                struct iowait_seen *seen = seen_on(u, cpu);
                if (!seen)
                        return false;
                seen->undelayed += !cores[i].running && cores[i].undelayed; /* each one: their shares may be of different times */
                if (cores[i].running || cores[i].elsewhere)
                        continue;
                if (u->seen_sample[cpu] != u->stamp)
                        seen->d_state++;
                u->seen_sample[cpu] = u->stamp;
        }
        for (unsigned running = 0; running < 2; running++)
                for (size_t i = 0; i < count; i++) {
                        unsigned cpu = cores[i].cpu;
                        if (u->seen_sample[cpu] == u->stamp || cores[i].running != running)
                                continue;
                        u->seen[cpu].running += running;
                        u->seen[cpu].d_state += !running;
                        u->seen[cpu].elsewhere += !running;
                        u->seen_sample[cpu] = u->stamp;
                }
        return true;
}

void watch_blocked(struct uring *u, uint64_t blocked)
{
        u->blocked_now = blocked;
        if (!u->have_blocked || blocked < u->blocked_min)
                u->blocked_min = blocked;
        if (blocked > u->blocked_max || !u->have_blocked)
                u->blocked_max = blocked;
        u->reads++;
        u->have_blocked = true;
        if (u->finder.running && blocked < u->finder.min_blocked)
                u->finder.min_blocked = blocked;
}

void watch_instant(struct uring *u, uint64_t blocked, int cpu)
{
        watch_blocked(u, blocked);
        if (u->instant_count < IOWAIT_READS)
                u->instants[u->instant_count++] = (struct iowait_read){(unsigned)blocked, cpu};
}

void watch_add_sample(struct uring *u)
{
        u->samples += u->last_sample.count;
        u->full += u->last_sample.full;
        u->blocked_sum += u->last_sample.blocked;
        u->d_sum += u->last_sample.d;
        u->blocked_no_d += u->last_sample.no_d;
}

/* A whole pass is one observation: so many D-state threads, and at least so many tasks counted as waiters all the while. */
void watch_count_pass(struct uring *u, uint64_t blocked)
{
        struct finder *f = &u->finder;
        if (blocked < f->min_blocked)
                f->min_blocked = blocked;
        u->last_d = f->d_count;
        u->pass_done = true;
        if (f->waits)
                u->waits_unknown = f->unknown;
        u->pass_unknown = f->unknown || u->waits_unknown; /* a pass over D states knows no more than the one before it */
        u->pass_waiting = false;
        u->last_sample = (struct pass_sample){0};
        if (u->pass_core_count == PASS_CORES || !watch_count_cores(u, u->pass_cores, u->pass_core_count) || !u->whole ||
            f->min_blocked == UINT64_MAX)
                return;
        u->last_sample = (struct pass_sample){1, f->min_blocked, u->pass_d, u->pass_d == 0 && f->min_blocked >= 1, 
                f->waits && (!f->denied || u->looks_inside)};
        watch_add_sample(u);
}

/* A candidate is there that is neither proved nor refuted. One that moves is judged anew in each interval, so it matters while there is
 * iowait to split, and until it is proved. */
bool watch_learns(const struct uring *u)
{
        for (size_t i = 0; i < u->waiter_count; i++) {
                const struct waiter *w = &u->waiters[i];
                bool moves = w->from.cq && w->from.switches != w->switches;
                if (waiter_is_witness(w) && !w->marked && !w->refuted && (!moves || (u->any_iowait && !w->busy.proved)))
                        return true;
        }
        return false;
}

/* Threads that were in D state of late: those that are so now, all that may be counted, and their cores. */
struct hot { unsigned d, all; struct pass_core cores[HOT_MAX + 1]; };

static void read_hot(struct uring *u, struct procfs *procfs, struct hot *hot)
{
        struct thread thread;
        uint64_t switches;
        unsigned count = 0;
        hot->d = hot->all = 0;
        for (size_t i = 0; i < u->waiter_count && count < HOT_MAX; i++) {
                const struct waiter *w = &u->waiters[i];
                if (w->cold > AWAY_TICKS)
                        continue;
                count++;
                if (thread_read(procfs, w->thread.tgid, w->thread.tid, &thread) < 0)
                        continue;
                bool asleep = thread.state == 'D';
                if (asleep && w->plain && thread_switches(procfs, thread.tgid, thread.tid, &switches) == 0 &&
                    switches == w->plain_switches)
                        continue;
                hot->d += asleep;
                hot->cores[hot->all++] = (struct pass_core){thread.cpu, !asleep, false, true};
        }
}

/* Everybody who is counted is known: proved reactors, and threads that were in D state of late and are so now. Then there is no other
 * waiter at this instant and no pass is needed. Or, when all reactors are known and the two reads do not fit (they are not of one instant):
 * it may be any of those threads, so a waiter is noted on the cores of all of them. It counts when the interval is over, if the reactors
 * slept through. */
bool watch_cheap(struct uring *u, struct procfs *procfs, uint64_t blocked, int cpu)
{
        struct hot hot;
        if (u->marked_count == 0 || blocked < u->marked_count || cpu == -1 || busy_any(u))
                return false;
        read_hot(u, procfs, &hot);
        uint64_t others = blocked - u->marked_count;
        if (others != hot.d) {
                if (others > hot.all || watch_learns(u))
                        return false;
                for (unsigned i = 0; i < hot.all; i++)
                        hot.cores[i].running = false;
                hot.d = hot.all;
        }
        /* Who was woken where we run is neither asleep nor running. */
        hot.cores[hot.all] = (struct pass_core){(unsigned)cpu, true, false, false};
        if (!watch_count_cores(u, hot.cores, hot.all + (cpu >= 0)))
                return false;
        u->cheap++;
        u->cheap_no_d += hot.d == 0;
        u->cheap_blocked += blocked;
        u->cheap_d += hot.d;
        return true;
}

/* Where we run; a captured tree does not tell. */
int watch_cpu(const struct procfs *procfs)
{
        return procfs_live(procfs) ? sched_getcpu() : -1;
}

static uint64_t cpu_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* CPU time that may be spent now; UINT64_MAX over a captured tree. */
static uint64_t allowance(struct uring *u, struct tick *tick, uint64_t most)
{
        uint64_t now = procfs_mono(tick->procfs);
        if (!procfs_live(tick->procfs))
                return UINT64_MAX;
        if (tick->capture) /* half a pass would be of no use to a replay */
                return most == SUB_STEP_NS && now < u->pause_ns ? 0 : UINT64_MAX;
        if (u->credit_at_ns && now > u->credit_at_ns) {
                u->credit_ns += (now - u->credit_at_ns) / (u->traced ? SHARE * TRACED_SHARE : SHARE);
                u->bonus_ns += (now - u->credit_at_ns) / BONUS_SHARE;
        }
        u->credit_at_ns = now;
        if (u->credit_ns > CREDIT_MAX_NS && tick->number > 0)
                u->credit_ns = CREDIT_MAX_NS;
        if (u->bonus_ns > BONUS_MAX_NS)
                u->bonus_ns = BONUS_MAX_NS;
        if (u->traced || !watch_learns(u))
                return u->credit_ns < most ? u->credit_ns : most;
        most *= BONUS_STEPS;
        return u->credit_ns + u->bonus_ns < most ? u->credit_ns + u->bonus_ns : most;
}

static void spend(struct uring *u, uint64_t ns)
{
        uint64_t rest = ns > u->credit_ns ? ns - u->credit_ns : 0;
        u->credit_ns -= ns - rest;
        u->bonus_ns -= rest < u->bonus_ns ? rest : u->bonus_ns;
}

/* Wait channels cost as much as all else. When everybody who is counted may be one who is already known, in a completion-queue wait or of
 * late in D state, only D states are looked at, except once in a while. */
static bool looks_for_waits(const struct uring *u, const struct tick *tick, uint64_t blocked)
{
        uint64_t known = 0;
        if (u->traced)
                return u->pass_number % TRACED_PASS == 0;
        if (tick->number == 0 || tick->capture || u->pass_number % FULL_PASS == 0 || busy_any(u))
                return true;
        for (size_t i = 0; i < u->waiter_count; i++) {
                const struct waiter *w = &u->waiters[i];
                known += waiter_is_witness(w) ? !w->refuted : w->cold <= AWAY_TICKS && !w->plain;
        }
        return known == 0 || known < blocked;
}

/* Search on for at most `most` ns. True when a pass ended. */
bool watch_search(struct uring *u, struct tick *tick, uint64_t most, uint64_t blocked)
{
        struct watch_note note = {u, tick->procfs};
        uint64_t allowed = allowance(u, tick, most), start = procfs_mono(tick->procfs), stop = 0;
        if (allowed != UINT64_MAX) {
                if (allowed < 100000)
                        return false;
                stop = start + allowed;
                if (tick->deadline_ns > start && stop > tick->deadline_ns)
                        stop = tick->deadline_ns;
        }
        if (!u->finder.running) {
                u->pass_number++;
                u->pass_core_count = 0;
                u->pass_d = 0;
                finder_start(tick->procfs, &u->finder, looks_for_waits(u, tick, blocked));
        }
        if (blocked < u->finder.min_blocked)
                u->finder.min_blocked = blocked;
        uint64_t cpu_start = cpu_ns();
        u->in_pass = true;
        bool done = finder_step(tick->procfs, &u->finder, tick->capture ? start + STEP_NS : stop, watch_found, &note);
        while (!done && tick->capture) {
                tick_alive(tick);
                done = finder_step(tick->procfs, &u->finder, procfs_mono(tick->procfs) + STEP_NS, watch_found, &note);
        }
        u->in_pass = false;
        spend(u, cpu_ns() - cpu_start); /* not the time others took from us on a busy machine */
        uint64_t end = procfs_mono(tick->procfs);
        u->pause_ns = end + 3 * (end - start);
        if (!done && tick->detail < 1 && stop && stop == tick->deadline_ns)
                tick->detail = 1;
        return done && !u->finder.holes;
}

bool watch_read_blocked(struct uring *u, struct procfs *procfs, uint64_t *blocked, int *cpu)
{
        ssize_t length = procfs_file_read(procfs, &u->stat, &u->text, &u->text_capacity);
        struct scan scan, line;
        uint64_t running;
        if (length < 0)
                return false;
        *cpu = watch_cpu(procfs);
        scan_init(&scan, u->text, (size_t)length);
        while (scan_line(&scan, &line)) {
                if (scan_prefix(&line, "processes "))
                        scan_u64(&line, &u->forks);
                else if (scan_prefix(&line, "procs_running ") && scan_u64(&line, &running) && running <= 1)
                        *cpu = IOWAIT_ALONE; /* we are the one */
                else if (scan_prefix(&line, "procs_blocked "))
                        return scan_u64(&line, blocked);
        }
        return false;
}

/* /proc/diskstats: any field 9 (in flight) above 0, of whatever device. */
bool watch_in_flight(struct uring *u, struct procfs *procfs)
{
        ssize_t length = procfs_file_read(procfs, &u->diskstats, &u->text, &u->text_capacity);
        struct scan scan, line;
        uint64_t count;
        if (length < 0)
                return true; /* not known: nothing may be concluded from quiet */
        scan_init(&scan, u->text, (size_t)length);
        while (scan_line(&scan, &line))
                if (scan_skip(&line, 3 + 8) && scan_u64(&line, &count) && count > 0)
                        return true;
        return false;
}

/*
 * The split of iowait against a simulated machine whose truth is known: two cores, threads that wait in all the ways there are, a device,
 * and a watcher that sees of it what watopd would: counters in whole ticks, and looks that read one thread after the other while their own
 * core stands still. Steps of 0.1 ms. Checked: the truth lies within the bounds (as often as they promise), without a reactor that the
 * kernel counts nothing is ever called uring, and beside one hardly ever what is somebody else's.
 */
#include "sample/iowait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CORES = 2, THREADS = 24, STEPS = 10000 /* a second */, SECONDS = 4, LOOKS = 10, STEP_NS = 100000 };

enum kind { PARKED, BUSY, DISK, SERVER /* D, a file server's */, NFS, URING_DISK, URING_SERVER, HOG };

struct thread {
        enum kind kind;
        bool counted;             /* a reactor's in_iowait mark */
        unsigned core;
        double wait, run;         /* mean lengths in steps */
        bool asleep;
        unsigned left;            /* of this wait or burst */
        unsigned long slept_at;   /* stamp of this sleep */
        /* the watcher's */
        unsigned long before;
        unsigned ring_looks, extra, reads, reads_counted, cq_looks;
        bool marked, refuted;
        double chance;
        int64_t idle_ns, iowait_ns;
        unsigned clean;
};

struct core { int64_t idle, iowait, disk, uring, other; int running; };

struct machine {
        struct thread threads[THREADS];
        unsigned count;
        struct core cores[CORES];
        int64_t device;           /* request time */
        unsigned flight, completed;
        unsigned long stamp, now;
        int watcher, home;        /* core on which it runs now, -1; where it always does, -1 */
        bool sub_flight;
};

static double random_share(void)
{
        return (double)(random() % 100000) / 100000;
}

static unsigned draw(double mean)
{
        double value = mean * (0.5 + random_share());
        return value < 1 ? 1 : (unsigned)value;
}

static bool on_device(const struct thread *t)
{
        return t->kind == DISK || t->kind == URING_DISK;
}

static bool is_counted(const struct thread *t)
{
        return t->kind == HOG ? false : t->kind == PARKED || t->kind == BUSY ? t->counted : true;
}

static bool in_d(const struct thread *t)
{
        return t->asleep && (t->kind == DISK || t->kind == SERVER || t->kind == NFS);
}

static bool in_queue(const struct thread *t)
{
        return t->kind == PARKED || t->kind == BUSY || t->kind == URING_DISK || t->kind == URING_SERVER;
}

static void sleep_now(struct machine *m, struct thread *t)
{
        t->asleep = true;
        t->left = t->kind == PARKED ? UINT32_MAX : draw(t->wait);
        t->slept_at = ++m->stamp;
        m->flight += on_device(t);
}

static unsigned blocked(const struct machine *m)
{
        unsigned count = 0;
        for (unsigned i = 0; i < m->count; i++)
                count += m->threads[i].asleep && is_counted(&m->threads[i]);
        return count;
}

static void account(struct machine *m, unsigned c)
{
        struct core *core = &m->cores[c];
        bool disk = false, other = false, any = false;
        for (unsigned i = 0; i < m->count; i++) {
                const struct thread *t = &m->threads[i];
                if (!t->asleep || t->core != c || !is_counted(t))
                        continue;
                any = true;
                disk = disk || on_device(t);
                other = other || t->kind == SERVER || t->kind == NFS || t->kind == URING_SERVER;
        }
        core->idle += !any;
        core->iowait += any;
        core->disk += any && disk;
        core->other += any && !disk && other;
        core->uring += any && !disk && !other;
}

static void step(struct machine *m)
{
        m->now++;
        for (unsigned i = 0; i < m->count; i++) {
                struct thread *t = &m->threads[i];
                m->device += t->asleep && on_device(t);
                if (t->asleep && t->left != UINT32_MAX && --t->left == 0) {
                        t->asleep = false;
                        t->left = draw(t->run);
                        m->flight -= on_device(t);
                        m->completed += on_device(t);
                }
        }
        for (unsigned c = 0; c < CORES; c++) {
                unsigned first = (unsigned)random() % m->count;
                bool busy = m->watcher == (int)c;
                for (unsigned k = 0; k < m->count && !busy; k++) {
                        struct thread *t = &m->threads[(first + k) % m->count];
                        if (t->core != c || t->asleep)
                                continue;
                        busy = true;
                        if (--t->left == 0)
                                sleep_now(m, t);
                }
                if (!busy)
                        account(m, c);
        }
}

/* ---- the watcher ------------------------------------------------------------------------------------------------------------------ */

struct watch {
        struct iowait_core cores[CORES];
        struct iowait_seen seen[CORES];
        struct iowait_read reads[IOWAIT_READS];
        struct iowait_witness witnesses[THREADS];
        struct thread *of[THREADS];
        struct iowait_input in;
        int64_t last_idle[CORES], last_iowait[CORES], last_device;
};

static void look(struct machine *m, struct watch *w)
{
        unsigned long before[THREADS];
        bool d[CORES] = {false}, not_device[CORES] = {false}, runs[CORES] = {false};
        m->watcher = m->home >= 0 ? m->home : (int)(random() % CORES);
        for (unsigned i = 0; i < m->count; i++)
                before[i] = m->threads[i].asleep ? m->threads[i].slept_at : 0;
        step(m);
        unsigned first = blocked(m), met = 0;
        if (m->flight)
                m->sub_flight = true;
        for (unsigned n = 0; n < m->count; n++) {
                struct thread *t = &m->threads[n];
                bool slept = before[n] && t->asleep && t->slept_at == before[n];
                if (in_queue(t) && t->kind != PARKED) {
                        t->reads += slept && m->watcher != (int)t->core;
                        t->reads_counted += slept && m->watcher != (int)t->core && first > 0;
                        t->ring_looks += t->asleep;
                        t->extra += t->asleep && t->kind != BUSY;
                }
                bool mover = in_queue(t) && t->kind != PARKED;
                d[t->core] |= in_d(t);
                met += in_d(t);
                not_device[t->core] |= in_d(t) && t->kind == NFS;
                if (in_d(t) && t->kind != NFS)
                        w->seen[t->core].waiting = 1; /* here: some wait may be a device's */
                runs[t->core] |= !t->asleep && !mover;
                if (n % 3 == 2)
                        step(m);
        }
        unsigned last = blocked(m), least = first < last ? first : last;
        for (unsigned c = 0; c < CORES; c++) {
                w->seen[c].d_state += d[c];
                w->seen[c].elsewhere += not_device[c] && !w->seen[c].waiting;
                w->seen[c].running += runs[c] && !d[c];
                w->seen[c].waiting = 0;
        }
        w->in.samples++;
        w->in.full++;
        w->in.blocked_sum += least;
        w->in.d_sum += met;
        w->in.blocked_no_d += met == 0 && least > 0;
        if (w->in.read_count < IOWAIT_READS)
                w->reads[w->in.read_count++] = (struct iowait_read){first, m->watcher};
        m->watcher = -1;
}

static enum iowait_ring ring_of(struct thread *t)
{
        if (t->kind == URING_SERVER)
                return t->asleep ? RING_STORAGE : RING_UNKNOWN; /* a worker is there, busy or idle */
        if (t->kind == BUSY && t->ring_looks >= 3 && t->extra == 0)
                return RING_NO_STORAGE;
        return t->kind == PARKED ? RING_NO_STORAGE : RING_UNCHANGED;
}

static void add_witness(struct watch *w, struct thread *t, unsigned lowest)
{
        size_t n = w->in.witness_count++;
        bool parked = t->asleep && t->before == t->slept_at;
        w->of[n] = t;
        if (!parked)
                t->marked = t->refuted = false, t->idle_ns = t->iowait_ns = 0, t->clean = 0;
        t->refuted = t->refuted || (parked && lowest == 0);
        w->witnesses[n] = (struct iowait_witness){.tid = (int)n + 1, .tgid = (int)n + 1, .cpu = t->core, .parked = parked,
                .seen_only = !parked, .ring = ring_of(t), .ring_looks = t->ring_looks, .asleep = t->reads,
                .counted = t->reads_counted, .marked = t->marked, .refuted = t->refuted, .chance = t->chance,
                .idle_before_ns = t->idle_ns, .iowait_before_ns = t->iowait_ns, .blocked_no_d_before = t->clean};
        if (parked && t->kind != PARKED)
                w->witnesses[n].ring = RING_UNKNOWN;
}

static int64_t ticks(int64_t steps)
{
        return steps / 100 * 100 * STEP_NS;
}

static int64_t whole(int64_t now, int64_t *last)
{
        int64_t value = ticks(now), delta = value - *last;
        *last = value;
        return delta;
}

/* One second: looks at 10 Hz, then what the counters say. */
static void watch_second(struct machine *m, struct watch *w, struct iowait_parts *parts)
{
        bool flight = m->flight > 0;
        unsigned lowest = UINT32_MAX;
        w->in = (struct iowait_input){.cores = w->cores, .core_count = CORES, .witnesses = w->witnesses, .seen = w->seen,
                .seen_count = CORES, .reads = w->reads, .in_flight_start = flight, .threads_seen = true};
        unsigned long began = m->now;
        m->completed = 0;
        m->sub_flight = false;
        for (unsigned c = 0; c < CORES; c++)
                w->seen[c] = (struct iowait_seen){.cpu = c};
        for (unsigned i = 0; i < m->count; i++) {
                struct thread *t = &m->threads[i];
                t->before = t->asleep ? t->slept_at : 0;
                t->ring_looks = t->extra = t->reads = t->reads_counted = 0;
        }
        for (int k = 0; k < LOOKS; k++) {
                while (m->now < began + (unsigned long)(STEPS / LOOKS * (k + 1)) - 20)
                        step(m);
                look(m, w);
        }
        while (m->now < began + STEPS)
                step(m);
        for (size_t i = 0; i < w->in.read_count; i++)
                lowest = w->reads[i].blocked < lowest ? w->reads[i].blocked : lowest;
        for (unsigned c = 0; c < CORES; c++)
                w->cores[c] = (struct iowait_core){.cpu = c, .valid = true, .idle_ns = whole(m->cores[c].idle, &w->last_idle[c]),
                        .iowait_ns = whole(m->cores[c].iowait, &w->last_iowait[c])};
        for (unsigned i = 0; i < m->count; i++)
                if (in_queue(&m->threads[i]))
                        add_witness(w, &m->threads[i], lowest);
        w->in.wall_ns = (int64_t)(m->now - began) * STEP_NS;
        w->in.in_flight = m->flight > 0;
        w->in.device_ns = (m->device - w->last_device) * STEP_NS;
        w->in.device_counters = 2;
        w->last_device = m->device;
        w->in.quiet = !flight && !m->flight && !m->completed && !m->sub_flight;
        iowait_split(&w->in, parts);
        for (size_t i = 0; i < w->in.witness_count; i++) {
                struct thread *t = w->of[i];
                const struct iowait_witness *witness = &w->witnesses[i];
                t->marked = witness->marked;
                t->refuted = witness->refuted;
                t->chance = witness->parked == (t->kind == PARKED) ? witness->chance : 0;
                t->idle_ns += w->cores[t->core].idle_ns;
                t->iowait_ns += w->cores[t->core].iowait_ns;
                t->clean = w->in.d_sum ? 0 : t->clean + w->in.blocked_no_d;
        }
}

/* ---- worlds ----------------------------------------------------------------------------------------------------------------------- */

static void add(struct machine *m, enum kind kind, unsigned core, bool counted, double wait, double run)
{
        if (m->count == THREADS)
                return;
        struct thread *t = &m->threads[m->count++];
        *t = (struct thread){.kind = kind, .core = core, .counted = counted, .wait = wait, .run = run, .left = draw(run)};
        if (kind == PARKED)
                sleep_now(m, t);
}

/* Waits from 0.1 ms to 30 ms; sometimes many threads that take turns. */
static void make_world(struct machine *m, bool reactors)
{
        memset(m, 0, sizeof *m);
        m->watcher = -1;
        m->home = random() % 2 ? (int)(random() % CORES) : -1;
        for (long n = 1 + random() % 3; n > 0; n--) {
                enum kind kinds[] = {DISK, SERVER, NFS, URING_DISK, URING_SERVER, DISK, SERVER};
                enum kind kind = kinds[random() % 7];
                unsigned core = (unsigned)random() % CORES;
                double wait = random() % 2 ? 1 + random_share() * 20 : 10 + random_share() * 300;
                double run = random() % 2 ? 1 : 1 + random_share() * wait * 2;
                for (long same = random() % 4 ? 1 : 2 + random() % 8; same > 0; same--)
                        add(m, kind, core, true, wait, run * (double)(same > 1 ? 3 : 1));
        }
        for (long n = random() % 4; n > 0; n--) { /* waiters for whom others submit */
                add(m, PARKED, (unsigned)random() % CORES, false, 1, 1);
                add(m, BUSY, (unsigned)random() % CORES, false, 1 + random_share() * 40, 1);
        }
        for (long n = reactors ? 1 + random() % 3 : 0; n > 0; n--)
                add(m, random() % 2 ? PARKED : BUSY, (unsigned)random() % CORES, true, 3 + random_share() * 40, 1);
        if (random() % 3 == 0)
                add(m, HOG, (unsigned)random() % CORES, false, 1 + random_share() * 200, 1 + random_share() * 100);
}

struct tally {
        unsigned intervals, over, far_over, uring_wrong, uring_above, uring_below, disk_above, seen, parked, found, much;
        double shown, truth;
};

static void compare(const struct core *was, const struct core *is, const struct iowait_parts *p, bool reactors, struct tally *tally)
{
        const int64_t slack = INT64_C(25000000);
        int64_t uring = (is->uring - was->uring) * STEP_NS, disk = (is->disk - was->disk) * STEP_NS;
        tally->intervals++;
        tally->uring_wrong += !reactors && p->uring > 0;
        tally->uring_above += uring > p->uring_max + slack;
        tally->uring_below += uring < p->uring_min - slack;
        tally->disk_above += disk > p->disk_max + slack || disk < p->disk_min - slack;
        tally->seen += p->level == IOWAIT_SEEN && p->uring > 0;
        tally->parked += p->level == IOWAIT_PARKED;
        tally->over += p->uring > uring + INT64_C(100000000);
        tally->far_over += p->uring > uring + INT64_C(300000000);
        tally->much += uring > INT64_C(300000000);
        tally->found += uring > INT64_C(300000000) && p->uring > uring / 2;
        tally->shown += (double)p->uring;
        tally->truth += (double)uring;
}

static struct tally run_worlds(unsigned worlds, bool reactors)
{
        static struct machine m;
        static struct watch w;
        struct tally tally = {0};
        for (unsigned n = 0; n < worlds; n++) {
                make_world(&m, reactors);
                memset(&w, 0, sizeof w);
                for (int second = 0; second < SECONDS; second++) {
                        struct core was[CORES];
                        struct iowait_parts parts[CORES];
                        memcpy(was, m.cores, sizeof was);
                        watch_second(&m, &w, parts);
                        for (unsigned c = 0; c < CORES; c++)
                                compare(&was[c], &m.cores[c], &parts[c], reactors, &tally);
                }
        }
        print_message("# %u intervals: bounds missed: uring above %u, below %u, disk %u; uring without a reactor %u; by R4 %u, by R3 %u; "
                "reactors found %u of %u; uring shown %.3f of the truth, above it by 10 points %u, by 30 %u\n",
                tally.intervals, tally.uring_above, tally.uring_below,
                tally.disk_above, tally.uring_wrong, tally.seen, tally.parked, tally.found, tally.much,
                tally.truth > 0 ? tally.shown / tally.truth : 0, tally.over, tally.far_over);
        return tally;
}

static void real_waits_are_never_uring(void **state)
{
        (void)state;
        srandom(31);
        struct tally t = run_worlds(400, false);
        assert_true(t.uring_wrong <= t.intervals / 1000);
        assert_true(t.disk_above <= t.intervals / 100);
        assert_true(t.uring_below <= t.intervals / 1000);
}

static void the_truth_is_within_the_bounds(void **state)
{
        (void)state;
        srandom(32);
        struct tally t = run_worlds(400, true);
        assert_int_equal(t.uring_above, 0);
        assert_true(t.uring_below <= t.intervals / 50); /* 95% bounds */
        assert_true(t.disk_above <= t.intervals / 50);
        assert_true(t.shown <= t.truth * 1.02);
        assert_true(t.over <= t.intervals / 500);
        assert_true(t.far_over <= t.intervals / 2000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(real_waits_are_never_uring), cmocka_unit_test(the_truth_is_within_the_bounds),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

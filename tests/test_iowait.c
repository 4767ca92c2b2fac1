/*
 * The split of iowait: the rules on measured cases (kernel 6.18, 2 cores), and what may never happen: a real wait called uring, parts that
 * do not add up, a negative part.
 */
#include "tests/iowait_case.h"

static void idle_reactor_is_uring(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 988, 0, 0);
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 10, 10, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->uring, 988 * MS);
        assert_int_equal(p->disk, 0);
        assert_int_equal(p->level, IOWAIT_PARKED);
        assert_int_equal(w->verdict, 4);
        assert_true(w->marked);
        assert_int_equal(f.parts[0].uring, 0);
}

static void nothing_pending_or_a_timeout_needs_quiet_devices(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 370, 0, 0);
        parked(&f, 1, RING_UNCHANGED);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 370 * MS);

        /* somebody's requests for a fifth of the time: the time without any is still proved, the rest stays disk */
        start(&f, 370, 0, 200);
        parked(&f, 1, RING_UNCHANGED);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->disk, 201 * MS);
        assert_int_equal(f.parts[1].uring, 169 * MS);

        /* a device in flight at the end: the pending request may be that one */
        start(&f, 370, 0, 0);
        f.input.in_flight = true;
        f.input.quiet = false;
        parked(&f, 1, RING_UNCHANGED);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->disk, 370 * MS);
        assert_int_equal(f.parts[1].uring, 0);

        /* a short tick proves less */
        start(&f, 90, 0, 0);
        f.input.wall_ns = 100 * MS;
        f.input.device_ns = 2 * MS;
        f.input.quiet = false;
        parked(&f, 1, RING_UNCHANGED);
        samples(&f, 3, 3, 3, 0);
        assert_int_equal(split(&f)->uring, 0);
}

static void idle_core_refutes_the_parked(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 0, 987, 0); /* MariaDB's shape; NO_IOWAIT; SQPOLL */
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        split(&f);
        assert_int_equal(w->verdict, 1);
        assert_true(w->refuted);

        start(&f, 38, 933, 51); /* with a real reader at 1.1 ms beside it: wa 3.8, real 4.1 */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 3, 10, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 38 * MS);
        assert_int_equal(p->uring, 0);
}

static void refutation_needs_more_than_rounding(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 940, 20, 0);
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 940 * MS);
        assert_int_equal(w->verdict, 4);

        start(&f, 100, 10, 0); /* 10 ms now, 20 ms in earlier ticks of the same sleep */
        w = parked(&f, 1, RING_NO_STORAGE);
        w->idle_before_ns = 20 * MS;
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 0);
        assert_int_equal(w->verdict, 1);

        start(&f, 100, 0, 0); /* once refuted, so for the whole sleep */
        w = parked(&f, 1, RING_NO_STORAGE);
        w->refuted = w->marked = true;
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 0);
        assert_false(w->marked);
}

static void without_confirmation_nobody_is_blamed(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 900, 0, 0);
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        struct iowait_parts *p = split(&f); /* no sub-sample at all */
        assert_int_equal(p->uring, 0);
        assert_int_equal(p->other, 900 * MS);
        assert_int_equal(p->uring_max, 900 * MS);
        assert_int_equal(p->level, IOWAIT_BOUND);
        assert_int_equal(w->verdict, 3);

        /* an NFS waiter sleeps in D on that core all the time, the parked thread is MariaDB's: counted once, seen once */
        start(&f, 990, 0, 0);
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 0, 10, 10);
        f.seen[1].d_state = 10;
        p = split(&f);
        assert_int_equal(p->uring, 0);
        assert_int_equal(p->other, 990 * MS);

        /* a tick of 100 ms with one sub-sample; what went before in this sleep counts with it */
        start(&f, 90, 0, 0);
        f.input.wall_ns = 100 * MS;
        w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 1, 1, 1, 0);
        reads(&f, 0, 1, 2);
        assert_int_equal(split(&f)->uring, 0);
        w->blocked_no_d_before = 2;
        assert_int_equal(split(&f)->uring, 90 * MS);
}

static void a_mark_is_kept_for_the_sleep(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 10, 0, 0);
        f.input.wall_ns = 10 * MS;
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        w->marked = true;
        assert_int_equal(split(&f)->uring, 10 * MS);
        assert_int_equal(w->verdict, 4);
}

static void readers_stay_disk(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 608, 0, 850); /* pread O_DIRECT QD1: wa 60.8 */
        samples(&f, 10, 2, 6, 6);
        f.seen[1].d_state = 6;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 608 * MS);
        assert_int_equal(p->uring_max, 608 * MS); /* these passes saw D states only */
        f.input.full = 10;
        assert_int_equal(split(&f)->uring_max, 300 * MS); /* and these met nobody in a completion queue */
        f.input.threads_seen = false;
        assert_int_equal(split(&f)->uring_max, 608 * MS);

        start(&f, 638, 0, 890); /* io_uring read QD1: a candidate that wakes */
        parked(&f, 1, RING_UNKNOWN)->parked = false;
        samples(&f, 10, 6, 6, 0);
        p = split(&f);
        assert_int_equal(p->disk, 638 * MS);
        assert_int_equal(p->uring, 0);
        assert_int_equal(f.witnesses[0].verdict, 2);
}

/* A reader of a slow file server sleeps in D on the reactor's core: its time is other, though the reactor alone would explain all. */
static void file_server_and_reactor_on_one_core(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 980, 0, 0);
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        samples(&f, 10, 0, 19, 9);
        f.seen[1].d_state = 9;
        struct iowait_parts *p = split(&f);
        assert_true(p->other >= 900 * MS && p->disk == 0);
        assert_true(p->uring <= 80 * MS && p->uring_min == 0);

        start(&f, 980, 0, 0); /* rarely there: about so much */
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        samples(&f, 20, 0, 22, 2);
        f.seen[1].d_state = 2;
        p = split(&f);
        assert_int_equal(p->other, 100 * MS);
        assert_true(p->uring_min <= 880 * MS && p->uring_min > 0);
}

static void reader_and_reactor_on_one_core(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 607, 0, 870); /* exact 67.6 + 5.6 of 73.2; the ceiling is all of it */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 3, 15, 5);
        f.seen[1].d_state = 5;
        assert_int_equal(split(&f)->disk, 607 * MS);

        start(&f, 734, 0, 40); /* slow reader: exact 2.6 + 66.2; real <= 4.1 */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 10, 10, 0);
        struct iowait_parts *p = split(&f);
        assert_true(p->disk <= 41 * MS && p->disk_max == 41 * MS);
        assert_int_equal(p->uring_min, 434 * MS); /* 3 of 10 sub-samples */
}

static void reader_on_another_core(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 353, 0, 850); /* reactor on cpu1, reader on cpu0: B is useless, witness and sub-samples are not */
        f.cores[0] = (struct iowait_core){.cpu = 0, .iowait_ns = 234 * MS, .idle_ns = 0, .valid = true};
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 40, 15, 60, 20);
        f.seen[0].d_state = 20;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 0);
        assert_int_equal(p->uring, 353 * MS);
        assert_int_equal(p->disk_max, 75 * MS); /* 3 of 40 sub-samples */
        assert_true(w->marked);
        assert_int_equal(f.parts[0].disk, 234 * MS);
        assert_int_equal(f.parts[0].uring, 0);

        /* without sub-samples the ceiling stands */
        start(&f, 353, 0, 850);
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        assert_int_equal(split(&f)->disk, 353 * MS);
}

static void foreign_waiter_beside_a_reader(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 600, 0, 850); /* the reader keeps the core from idling, so idle refutes nobody; counts do not reach */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 2, 7, 6);
        f.seen[1].d_state = 6;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->uring, 0);
        assert_int_equal(p->disk, 600 * MS);
        assert_false(f.witnesses[0].marked);
}

static void pending_storage_is_never_uring(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 990, 0, 0); /* a read on a slow FUSE file: no block request anywhere */
        parked(&f, 1, RING_STORAGE);
        samples(&f, 10, 10, 10, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->other, 990 * MS);
        assert_int_equal(p->level, IOWAIT_PARKED);
        assert_int_equal(f.witnesses[0].verdict, 5);

        start(&f, 670, 0, 900); /* append + fsync on ext4 */
        parked(&f, 1, RING_STORAGE);
        samples(&f, 10, 10, 10, 0);
        p = split(&f);
        assert_int_equal(p->disk, 670 * MS);
        assert_int_equal(p->uring, 0);

        start(&f, 990, 0, 0); /* beside a proved reactor on the same core */
        parked(&f, 1, RING_STORAGE);
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        samples(&f, 10, 10, 20, 0);
        assert_int_equal(split(&f)->uring, 0);

        start(&f, 440, 0, 900); /* beside a reactor, waking often: sub-samples of D threads cannot see it */
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        parked(&f, 1, RING_UNKNOWN)->parked = false;
        samples(&f, 10, 10, 20, 0);
        p = split(&f);
        assert_int_equal(p->disk, 440 * MS);
        assert_int_equal(p->uring, 0);
}

static void unreadable_rings_prove_nothing(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 990, 0, 0);
        parked(&f, 1, RING_UNKNOWN);
        samples(&f, 10, 10, 10, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->uring, 0);
        assert_int_equal(p->other, 990 * MS);
        assert_int_equal(p->uring_max, 990 * MS);
        assert_int_equal(p->level, IOWAIT_BOUND);

        /* one unknown beside one proved: it is not known which of the two is counted, unless it was known before */
        start(&f, 990, 0, 0);
        parked(&f, 1, RING_UNKNOWN);
        struct iowait_witness *known = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 0);
        known->marked = true;
        p = split(&f);
        assert_int_equal(p->uring, 990 * MS);
        assert_int_equal(p->uring_min, 0);
}

static void unexplained_is_other(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 500, 490, 30); /* NFS: little on devices, nobody in io_uring */
        samples(&f, 10, 0, 10, 10);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 31 * MS);
        assert_int_equal(p->other, 469 * MS);
        assert_int_equal(p->uring_max, 500 * MS);
        assert_int_equal(p->level, IOWAIT_BOUND);
}

static void no_ceiling_no_claim(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 500, 490, 0); /* a device with iostats off */
        f.input.bound_void = true;
        f.input.quiet = false;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 500 * MS);
        assert_int_equal(p->disk_min, 0);
        assert_int_equal(p->level, IOWAIT_NONE);
}

static void what_the_kernel_takes_back(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, -20, 900, 0);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->taken_back, 20 * MS);
        assert_int_equal(p->disk + p->uring + p->other, 0);

        start(&f, 500, -500, 0); /* and idle */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 10, 10, 0);
        assert_int_equal(split(&f)->uring, 500 * MS);

        start(&f, 500, 0, 0); /* off-line at one end */
        f.cores[1].valid = false;
        p = split(&f);
        assert_int_equal(p->disk_max + p->uring_max, 0);
        assert_int_equal(p->level, IOWAIT_NONE);
}

static void skew_loosens_the_ceiling(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 500, 0, 100);
        f.input.device_counters = 3;
        f.input.skew_ns = 4 * MS;
        assert_int_equal(split(&f)->disk, 107 * MS);
        f.input.device_ns = -5 * MS; /* never below nothing */
        assert_int_equal(split(&f)->disk, 7 * MS);
        f.input.device_ns = INT64_C(1) << 40;
        assert_int_equal(split(&f)->disk, 500 * MS);
}

static void stuck_tasks_on_other_cores_hinder_nobody(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 980, 0, 0); /* five in D on cpu0 that count nothing, and whose wait channel cannot be seen */
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 6, 0, 6, 30);
        reads(&f, 0, 1, 7);
        f.seen[0].d_state = 6;
        assert_int_equal(split(&f)->uring, 980 * MS);
        assert_true(w->marked && w->verdict == 4);

        start(&f, 980, 0, 0); /* one look says too little */
        w = parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 1, 0, 1, 5);
        reads(&f, 0, 1, 2);
        assert_int_equal(split(&f)->uring, 0);
        assert_true(w->chance > 0 && w->chance < 0.1);
        f.input.samples = 3; /* and two more in the next interval, whose first is the last of this */
        f.input.carried = 1;
        assert_int_equal(split(&f)->uring, 980 * MS);

        start(&f, 980, 0, 0); /* several may take turns: then it takes more looks */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 6, 0, 6, 30);
        reads(&f, 0, 1, 6);
        reads(&f, 0, 2, 1);
        assert_int_equal(split(&f)->uring, 0);
        f.input.samples = 8;
        f.input.blocked_sum = 8;
        f.witnesses[0].chance = 0;
        assert_int_equal(split(&f)->uring, 980 * MS);

        start(&f, 980, 0, 0); /* somebody runnable on the core each time: he may be the one */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 6, 0, 6, 30);
        f.seen[1].running = 6;
        assert_int_equal(split(&f)->uring, 0);

        start(&f, 980, 0, 0); /* met on this core half of the time */
        parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 10, 0, 10, 30);
        f.seen[1].d_state = 5;
        assert_int_equal(split(&f)->uring, 0);

        start(&f, 980, 0, 0); /* procs_blocked had no room for one that is not known yet */
        parked(&f, 0, RING_NO_STORAGE)->marked = true;
        parked(&f, 1, RING_NO_STORAGE);
        f.cores[0] = (struct iowait_core){.cpu = 0, .iowait_ns = SECOND, .valid = true};
        samples(&f, 6, 0, 6, 30);
        reads(&f, 0, 1, 1);
        reads(&f, 0, 2, 9);
        assert_int_equal(split(&f)->uring, 0);
}

static void several_on_one_core(void **state)
{
        (void)state;
        struct fixture f;
        for (int n = 0; n < 2; n++) { /* on a busy machine too: it says nothing of cores */
                start(&f, n ? 980 : 10, 0, 0);
                for (int i = 0; i < 3; i++)
                        parked(&f, 1, RING_NO_STORAGE);
                samples(&f, 3, 3, 9, 0);
                reads(&f, 0, 3, 10);
                split(&f);
                for (int i = 0; i < 3; i++)
                        assert_true(f.witnesses[i].marked);
        }
        start(&f, 980, 0, 0); /* one of them is not counted */
        for (int i = 0; i < 3; i++)
                parked(&f, 1, RING_NO_STORAGE);
        samples(&f, 3, 3, 9, 0);
        reads(&f, 0, 2, 1);
        reads(&f, 0, 3, 9);
        split(&f);
        assert_false(f.witnesses[0].marked);
}

static void reads_of_the_count_bound_the_disk(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 900, 0, 850);
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        reads(&f, 0, 1, 14);
        reads(&f, IOWAIT_ALONE, 1, 10);
        reads(&f, 1, 2, 20); /* made on that core: they say nothing */
        reads(&f, -1, 2, 20);
        assert_int_equal(split(&f)->disk, 0);
        assert_int_equal(f.parts[1].disk_max, 125 * MS); /* 3 of 24 */
        reads(&f, 0, 2, 6);
        assert_int_equal(split(&f)->disk, 200 * MS); /* 6 / 30 */
        assert_int_equal(f.parts[1].disk_max, 300 * MS); /* (6 + 3) / 30 */
        reads(&f, 0, 2, 6);
        split(&f);
        assert_int_equal(f.parts[1].disk, f.parts[1].disk_max); /* 12 / 36: met often, so the ceiling */
        reads(&f, 1, 0, 1); /* nobody counted: so neither was he */
        assert_int_equal(split(&f)->disk, 851 * MS);

        start(&f, 900, 0, 850); /* looks that found somebody unknown count against it */
        parked(&f, 1, RING_NO_STORAGE)->marked = true;
        samples(&f, 5, 5, 5, 0);
        f.input.unresolved = 5;
        assert_int_equal(split(&f)->disk, 800 * MS);
}

/* ---- a model: evidence as a machine with known truth would give it ---------------------------------------------------------------- */

struct world {
        bool marked;            /* the parked thread on cpu1 is what the kernel counts */
        double here, there;     /* share of the time in which a real waiter sleeps on cpu1, on cpu0 */
        bool slow;              /* real waits are long: all reads of one sub-sample see the same */
        double woken;           /* share of looks during which the waiter on cpu1 is woken, and kept from running by the one who looks */
        unsigned hidden;        /* D-state threads on cpu0 that count nothing, with unreadable wait channels */
        unsigned looks;
        double busy;
};

static double chance(void)
{
        return (double)(random() % 100000) / 100000;
}

static bool waits(const struct world *w, double share, bool first)
{
        return w->slow ? first : chance() < share;
}

static void look(struct fixture *f, const struct world *w, unsigned *lowest)
{
        bool here = chance() < w->here, there = chance() < w->there, woken = chance() < w->woken;
        unsigned blocked[2], d = w->hidden;
        for (int i = 0; i < 2; i++) {
                blocked[i] = (w->marked ? 1u : 0u) + (waits(w, w->here, here) && !(i && woken) ? 1u : 0u) +
                        (waits(w, w->there, there) ? 1u : 0u);
                *lowest = blocked[i] < *lowest ? blocked[i] : *lowest;
        }
        reads(f, woken, blocked[0], 1);
        bool met = waits(w, w->here, here), met_there = waits(w, w->there, there);
        d += (met && !woken ? 1u : 0u) + (met_there ? 1u : 0u);
        f->seen[1].d_state += met && !woken;
        f->seen[1].running += woken || (!met && w->here > 0 && !w->marked && chance() < 0.5);
        f->seen[0].d_state += met_there || w->hidden > 0;
        unsigned least = blocked[0] < blocked[1] ? blocked[0] : blocked[1];
        f->input.samples++;
        f->input.blocked_sum += least;
        f->input.d_sum += d;
        f->input.blocked_no_d += d == 0 && least > 0;
}

/* One second of it. True when the parked thread was called idle. */
static bool live(const struct world *w)
{
        struct fixture f;
        unsigned lowest = 99;
        int64_t iowait = (int64_t)((w->marked ? 1 - w->busy : w->here) * 1000);
        start(&f, iowait / 10 * 10, 0, 0);
        f.cores[0].iowait_ns = (int64_t)(w->there * 1000) * MS;
        f.cores[0].idle_ns = SECOND - f.cores[0].iowait_ns;
        struct iowait_witness *witness = parked(&f, 1, RING_NO_STORAGE);
        for (unsigned i = 0; i < w->looks; i++)
                look(&f, w, &lowest);
        witness->refuted = w->looks && lowest == 0;
        split(&f);
        return f.parts[1].uring > 0;
}

/* Never a real wait called idle: beyond the chance that the rules allow for. And an idle reactor is found, whatever else is in D state. */
static void a_model_of_real_waits(void **state)
{
        (void)state;
        unsigned wrong = 0, missed = 0, reactors = 0;
        srandom(11);
        for (int n = 0; n < 20000; n++) {
                struct world w = {.here = chance(), .there = random() % 2 ? chance() : 0, .slow = random() % 2, .busy = chance() / 5,
                        .woken = random() % 2 ? chance() : 0, .hidden = (unsigned)(random() % 3) * 4, .looks = (unsigned)(random() % 14)};
                if (w.here > 0.03)
                        wrong += live(&w);
                w.marked = true;
                w.here = w.woken = 0;
                w.looks = 10 + (unsigned)random() % 6;
                missed += !live(&w);
                reactors++;
        }
        print_message("# real waits called idle: %u of 20000; reactors missed: %u of %u\n", wrong, missed, reactors);
        assert_true(wrong <= 5);
        assert_true(missed <= reactors / 50);
}

/* Whatever the evidence: the parts add up and nothing is negative. split() asserts it. */
static void any_evidence_adds_up(void **state)
{
        (void)state;
        srandom(7);
        for (int n = 0; n < 20000; n++) {
                struct fixture f;
                start(&f, random() % 1100 - 50, random() % 1100 - 50, random() % 3000);
                f.cores[0].iowait_ns = (random() % 1000) * MS;
                f.input.in_flight = random() % 2;
                f.input.bound_void = random() % 8 == 0;
                f.input.quiet = random() % 2;
                f.input.wall_ns = (random() % 1000) * MS;
                for (long w = random() % 5; w > 0; w--) {
                        struct iowait_witness *one = parked(&f, (unsigned)(random() % 3), (enum iowait_ring)(random() % 4));
                        one->parked = random() % 4 != 0;
                        one->marked = random() % 2;
                        one->refuted = random() % 4 == 0;
                        one->ring_looks = (unsigned)random() % 12;
                        one->asleep = (unsigned)random() % 12;
                        one->counted = one->asleep ? (unsigned)random() % (one->asleep + 1) : 0;
                        one->iowait_before_ns = (random() % 100) * MS;
                }
                unsigned k = (unsigned)(random() % 11);
                samples(&f, k, k ? (unsigned)random() % k : 0, (uint64_t)(random() % 30), (uint64_t)(random() % 20));
                f.seen[1].d_state = k ? (unsigned)random() % k : 0;
                f.seen[1].running = (unsigned)random() % 4;
                f.seen[1].elsewhere = f.seen[1].d_state ? (unsigned)random() % (f.seen[1].d_state + 1) : 0;
                f.seen[1].undelayed = (unsigned)random() % 4;
                f.input.full = random() % 2 ? k : 0;
                int64_t delays[2] = {(random() % 1000 - 100) * MS, (random() % 1000 - 100) * MS};
                f.input.delay_ns = random() % 2 ? delays : NULL;
                f.input.delay_all = random() % 2;
                for (unsigned r = 0; r < 3; r++)
                        reads(&f, (int)(random() % 4) - 1, r, (unsigned)random() % 5);
                f.input.unresolved = (unsigned)random() % 5;
                f.input.carried = (unsigned)random() % 2;
                split(&f);
                for (size_t i = 0; i < f.input.witness_count; i++) /* as the next interval would get it */
                        assert_true(f.witnesses[i].chance >= 0 && f.witnesses[i].chance <= 1);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(idle_reactor_is_uring),
                cmocka_unit_test(nothing_pending_or_a_timeout_needs_quiet_devices),
                cmocka_unit_test(idle_core_refutes_the_parked),
                cmocka_unit_test(refutation_needs_more_than_rounding),
                cmocka_unit_test(without_confirmation_nobody_is_blamed),
                cmocka_unit_test(a_mark_is_kept_for_the_sleep),
                cmocka_unit_test(readers_stay_disk),
                cmocka_unit_test(file_server_and_reactor_on_one_core), cmocka_unit_test(reader_and_reactor_on_one_core),
                cmocka_unit_test(reader_on_another_core),
                cmocka_unit_test(foreign_waiter_beside_a_reader),
                cmocka_unit_test(pending_storage_is_never_uring),
                cmocka_unit_test(unreadable_rings_prove_nothing),
                cmocka_unit_test(unexplained_is_other),
                cmocka_unit_test(no_ceiling_no_claim),
                cmocka_unit_test(what_the_kernel_takes_back),
                cmocka_unit_test(skew_loosens_the_ceiling),
                cmocka_unit_test(stuck_tasks_on_other_cores_hinder_nobody),
                cmocka_unit_test(several_on_one_core),
                cmocka_unit_test(reads_of_the_count_bound_the_disk),
                cmocka_unit_test(a_model_of_real_waits),
                cmocka_unit_test(any_evidence_adds_up),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

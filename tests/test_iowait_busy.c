/*
 * The split of iowait where no thread sleeps through: busy reactors (R4), channels and block delays of waits in D state.
 */
#include "tests/iowait_case.h"

static struct iowait_witness *moving(struct fixture *f, unsigned cpu, enum iowait_ring ring)
{
        struct iowait_witness *w = parked(f, cpu, ring);
        w->parked = false;
        w->seen_only = true;
        w->ring_looks = w->asleep = w->counted = 9;
        return w;
}

/* k passes over all threads and their channels, nobody in D state. */
static void passes(struct fixture *f, unsigned k)
{
        samples(f, k, k, k, 0);
        f->input.full = k;
}

static void busy_reactor_is_seen(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 940, 0, 80);
        struct iowait_witness *w = moving(&f, 1, RING_NO_STORAGE);
        passes(&f, 10);
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->uring, 859 * MS);
        assert_int_equal(p->disk, 81 * MS);
        assert_int_equal(p->level, IOWAIT_SEEN);
        assert_int_equal(p->uring_min, 940 * MS - 300 * MS - 333333333); /* 3 of 10 looks at the core, 3 of 9 at the ring */
        assert_int_equal(w->verdict, 4);
        assert_true(w->chance > 0 && w->chance < 0.001);

        for (int64_t device = 30; device <= 60; device += 30) { /* something beyond polls is pending, and no worker ever was */
                start(&f, 940, 0, device);
                moving(&f, 1, RING_UNCHANGED);
                passes(&f, 10);
                assert_int_equal(split(&f)->uring, device == 30 ? 909 * MS : 0);
        }

        start(&f, 940, 0, 850); /* a disk is busy elsewhere: looks bound it */
        moving(&f, 1, RING_NO_STORAGE)->ring_looks = 100;
        passes(&f, 20);
        p = split(&f);
        assert_true(p->disk > 170 * MS && p->disk < 190 * MS && p->disk == p->disk_max);

        start(&f, 940, 0, 0); /* and a file server's reader on the core, one look in ten */
        moving(&f, 1, RING_NO_STORAGE);
        passes(&f, 20);
        f.seen[1].d_state = 2;
        p = split(&f);
        assert_int_equal(p->other, 100 * MS);
        assert_int_equal(p->uring, 840 * MS);
}

static void busy_needs_all_of_it(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 940, 0, 0);
        moving(&f, 1, RING_NO_STORAGE);
        passes(&f, 6); /* e^-5.5 */
        assert_int_equal(split(&f)->uring, 0);
        f.input.carried = 1; /* the next interval goes on from there */
        assert_int_equal(split(&f)->uring, 940 * MS);

        enum iowait_ring bad[] = {RING_UNKNOWN, RING_STORAGE};
        for (size_t i = 0; i < 2; i++) {
                start(&f, 940, 0, 0);
                moving(&f, 1, RING_NO_STORAGE);
                moving(&f, 1, bad[i]);
                passes(&f, 20);
                assert_int_equal(split(&f)->uring, 0);
                start(&f, 940, 0, 0);
                moving(&f, 1, RING_NO_STORAGE);
                parked(&f, 1, bad[i]);
                passes(&f, 20);
                assert_int_equal(split(&f)->uring, 0);
        }
        start(&f, 940, 0, 0); /* somebody in D state most of the time: he may be the one who is counted */
        moving(&f, 1, RING_NO_STORAGE);
        passes(&f, 20);
        f.seen[1].d_state = 10;
        assert_int_equal(split(&f)->uring, 0);

        start(&f, 940, 0, 0); /* wait channels were not read */
        moving(&f, 1, RING_NO_STORAGE);
        passes(&f, 20);
        f.input.full = 19;
        assert_int_equal(split(&f)->uring, 0);

        start(&f, 940, 0, 0); /* procs_blocked does not count it: others submit for it */
        moving(&f, 1, RING_NO_STORAGE)->counted = 1;
        passes(&f, 20);
        assert_int_equal(split(&f)->uring, 0);
}

/* A parked thread is not confirmed by a count that others, who move, make up. */
static void movers_take_part_in_the_count(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 770, 0, 0);
        struct iowait_witness *w = parked(&f, 1, RING_NO_STORAGE);
        moving(&f, 1, RING_STORAGE);
        samples(&f, 10, 10, 10, 0);
        reads(&f, 0, 1, 10);
        assert_int_equal(split(&f)->uring, 0);
        assert_false(w->marked);
}

static void channels_say_what_it_is_not(void **state)
{
        (void)state;
        struct fixture f;
        start(&f, 900, 0, 850); /* NFS on cpu1; a disk is busy on cpu0 */
        passes(&f, 20);
        f.seen[1].d_state = f.seen[1].elsewhere = 18;
        struct iowait_parts *p = split(&f);
        assert_int_equal(p->disk, 0);
        assert_int_equal(p->other, 900 * MS);
        assert_int_equal(p->disk_max, 150 * MS);
        assert_int_equal(p->level, IOWAIT_SEEN);

        f.seen[1].elsewhere = 15; /* once in a while somebody who may wait for the disk */
        assert_int_equal(split(&f)->disk, 300 * MS); /* (3 + 3) of 20 */

        f.seen[1].elsewhere = 9;
        assert_int_equal(split(&f)->disk, 851 * MS);
        assert_int_equal(f.parts[1].level, IOWAIT_BOUND);
}

static void block_delays_are_a_ceiling(void **state)
{
        (void)state;
        struct fixture f;
        int64_t delays[2] = {-1, 40 * MS};
        start(&f, 500, 400, 850);
        passes(&f, 10);
        f.input.delay_ns = delays;
        f.input.delay_all = true;
        struct iowait_parts *p = split(&f);
        assert_true(p->disk == 40 * MS && p->disk_max == 40 * MS && p->other == 460 * MS);

        f.input.delay_all = false; /* older threads count nothing: they are left to the looks */
        assert_int_equal(split(&f)->disk_max, 340 * MS);
        f.seen[1].undelayed = 7;
        assert_int_equal(split(&f)->disk_max, 500 * MS);
        delays[1] = -1;
        f.input.delay_all = true;
        assert_int_equal(split(&f)->disk_max, 500 * MS);

        delays[1] = 0; /* not for completion queues */
        f.cores[1].idle_ns = 0;
        parked(&f, 1, RING_STORAGE);
        assert_int_equal(split(&f)->disk, 500 * MS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(busy_reactor_is_seen), cmocka_unit_test(busy_needs_all_of_it),
                cmocka_unit_test(movers_take_part_in_the_count), cmocka_unit_test(channels_say_what_it_is_not),
                cmocka_unit_test(block_delays_are_a_ceiling),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

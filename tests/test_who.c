/*
 * Who caused the iowait: sums per thread and process from evidence made by hand, by proof and by tracing; threads that end, numbers that
 * are used again, what is not known. And what a process holds, over a machine written by hand.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/io_uring.h>

#include "collectors/bpf/tracer.h"
#include "collectors/held.h"
#include "collectors/uring.h"
#include "collectors/who.h"
#include "tests/machine.h"

#define MS UINT64_C(1000000)
#define BORN(n) (UINT64_C(10000000) * (n))

enum { TASKS = 8, CORES = 4 };

struct task { int pid, tid; uint64_t born; };

/* One machine: what its rows are in the next tick, and the evidence. */
struct run {
        struct machine machine;
        struct procfs *procfs;
        struct sample *sample;
        struct who *who;
        struct evidence evidence;
        struct iowait_witness witnesses[TASKS];
        struct d_thread d_threads[TASKS];
        struct tracer_waiter traced[TASKS];
        struct task tasks[TASKS];      /* tid == pid: the process too */
        size_t task_count;
        struct { uint64_t disk, uring, other; } core[CORES];
        uint64_t leases, epoch, ticks;
        uint32_t scopes;
        bool waiters;                  /* each thread has a row as waiter too */
};

static int setup(void **state)
{
        struct run *r = calloc(1, sizeof *r);
        machine_make(&r->machine);
        assert_int_equal(procfs_open_root(r->machine.dir, &r->procfs), 0);
        assert_int_equal(sample_new(&r->sample), 0);
        assert_int_equal(who_new(r->procfs, &r->who), 0);
        r->evidence.witnesses = r->witnesses;
        r->evidence.d_threads = r->d_threads;
        r->scopes = SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_PROCESS) | SCOPE_BIT(SCOPE_THREAD) | SCOPE_BIT(SCOPE_WAITER);
        *state = r;
        return 0;
}

static int teardown(void **state)
{
        struct run *r = *state;
        who_free(r->who);
        sample_free(r->sample);
        procfs_close_root(r->procfs);
        machine_remove(&r->machine);
        free(r);
        return 0;
}

static void add_task(struct run *r, int pid, int tid, uint64_t born)
{
        assert_true(r->task_count < TASKS);
        r->tasks[r->task_count++] = (struct task){pid, tid, born};
}

static void write_rows(struct run *r)
{
        static const enum scope all[] = {SCOPE_CPU, SCOPE_PROCESS, SCOPE_THREAD, SCOPE_WAITER};
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
                if (!(r->scopes & SCOPE_BIT(all[s])))
                        continue;
                sample_scope_begin(r->sample, all[s], r->ticks);
                for (uint64_t c = 0; all[s] == SCOPE_CPU && c < CORES; c++) {
                        struct row *row = sample_row(r->sample, SCOPE_CPU, (struct key){c, 0}, 0);
                        row_set(row, CPU_WA_DISK, r->core[c].disk);
                        row_set(row, CPU_WA_URING, r->core[c].uring);
                        row_set(row, CPU_WA_OTHER, r->core[c].other);
                }
                for (size_t i = 0; all[s] != SCOPE_CPU && i < r->task_count; i++) {
                        const struct task *t = &r->tasks[i];
                        if ((all[s] == SCOPE_PROCESS && t->pid != t->tid) || (all[s] == SCOPE_WAITER && !r->waiters))
                                continue;
                        struct row *row = sample_row(r->sample, all[s], (struct key){(uint64_t)t->tid, t->born}, 0);
                        if (all[s] == SCOPE_WAITER)
                                row_set(row, WAITER_TGID, (uint64_t)t->pid);
                }
                sample_scope_end(r->sample, all[s], r->ticks, GONE_EXITED);
        }
}

static void tick(struct run *r)
{
        struct tick tick = {.procfs = r->procfs, .sample = r->sample, .evidence = &r->evidence, .scopes = r->scopes, .leases = r->leases,
                .tracer_epoch = r->epoch, .interval_ns = 1000 * MS, .number = r->ticks++};
        sample_begin(r->sample, &(struct sample_stamp){r->ticks, r->ticks, r->ticks});
        write_rows(r);
        who_judged(r->who, &tick, true);
        r->evidence.witness_count = r->evidence.d_thread_count = 0;
}

static void witness(struct run *r, int pid, int tid, uint64_t born, unsigned cpu, int verdict, bool marked)
{
        r->witnesses[r->evidence.witness_count++] = (struct iowait_witness){.tid = tid, .tgid = pid, .cpu = cpu, .born_ns = born,
                .parked = true,
                .marked = marked, .verdict = verdict};
}

static void trace(struct run *r, size_t at, int pid, int tid, uint64_t born, uint64_t disk, uint64_t uring, uint64_t other)
{
        r->traced[at] = (struct tracer_waiter){.tid = tid, .tgid = pid, .start_boot_ns = born + 1234567, .disk_ns = disk, .uring_ns = uring,
                .other_ns = other, .cores = 5};
        r->evidence.traced = r->traced;
        if (at >= r->evidence.traced_count)
                r->evidence.traced_count = at + 1;
}

static void end_trace(struct run *r)
{
        r->evidence.traced = NULL;
        r->evidence.traced_count = 0;
}

/* -1: absent, -2: no row. */
static long long value(struct run *r, enum scope scope, int id, uint64_t born, int metric)
{
        uint64_t v;
        struct row *row = sample_find(r->sample, scope, (struct key){(uint64_t)id, born});
        return !row ? -2 : row_get(row, metric, &v) ? (long long)v : -1;
}

#define PROCESS(id, born, what) value(r, SCOPE_PROCESS, id, born, PROCESS_##what)
#define THREAD(id, born, what) value(r, SCOPE_THREAD, id, born, THREAD_##what)

/* ---- by proof ------------------------------------------------------------------------------------------------------------------------ */

static void parked_reactor_has_its_cores_uring(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 500, 501, BORN(8));
        add_task(r, 600, 600, BORN(9)); /* nothing is known of it */
        r->waiters = true;
        tick(r); /* what cores had before belongs to nobody */
        for (int i = 0; i < 3; i++) {
                r->core[1].uring += 900 * MS;
                r->core[1].disk += 50 * MS;
                r->core[2].uring += 700 * MS;
                witness(r, 500, 501, BORN(8), 1, 4, true);
                tick(r);
        }
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 2700 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 0); /* the core's disk part was somebody else's */
        assert_int_equal(THREAD(501, BORN(8), WA_URING), 2700 * MS);
        assert_int_equal(THREAD(500, BORN(7), WA_URING), -1);
        assert_int_equal(PROCESS(600, BORN(9), WA_URING), -1);
        assert_int_equal(PROCESS(600, BORN(9), WA_DISK), -1);
        assert_int_equal(value(r, SCOPE_WAITER, 501, BORN(8), WAITER_WA_URING), 2700 * MS);
        assert_int_equal(value(r, SCOPE_WAITER, 501, BORN(8), WAITER_CORES), 2);
        assert_int_equal(value(r, SCOPE_WAITER, 600, BORN(9), WAITER_CORES), -1);
}

static void who_waits_together_counts_each(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 500, 501, BORN(8));
        tick(r);
        r->core[0].uring += 800 * MS;
        witness(r, 500, 500, BORN(7), 0, 4, false);
        witness(r, 500, 501, BORN(8), 0, 4, false);
        tick(r);
        assert_int_equal(THREAD(500, BORN(7), WA_URING), 800 * MS);
        assert_int_equal(THREAD(501, BORN(8), WA_URING), 800 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 1600 * MS);
}

static void storage_has_disk_and_other(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        tick(r);
        r->core[3].disk += 300 * MS, r->core[3].other += 100 * MS, r->core[3].uring += 5 * MS;
        witness(r, 500, 500, BORN(7), 3, 5, false);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 300 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_OTHER), 100 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 0);
}

static void what_is_not_known_is_absent(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        tick(r);
        r->core[1].uring += 400 * MS;
        witness(r, 500, 500, BORN(7), 1, 4, true);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 400 * MS);
        r->core[1].other += 400 * MS;
        witness(r, 500, 500, BORN(7), 1, 3, false); /* parked, not proved */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), -1);
        assert_int_equal(THREAD(500, BORN(7), WA_URING), -1);
        tick(r); /* it ran: nothing is said of it at all */
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), -1);
        r->core[1].uring += 100 * MS;
        witness(r, 500, 500, BORN(7), 1, 4, true);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 500 * MS); /* it never falls */
        r->core[1].uring += 100 * MS;
        witness(r, 500, 500, BORN(7), 1, 1, false); /* refuted: its sleep is not counted, and that is known */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 500 * MS);
}

static void cores_that_were_away_prove_nothing(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        tick(r);
        r->scopes &= ~SCOPE_BIT(SCOPE_CPU);
        sample_scope_off(r->sample, SCOPE_CPU);
        r->core[1].uring += 400 * MS;
        witness(r, 500, 500, BORN(7), 1, 4, true);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), -1);
        r->scopes |= SCOPE_BIT(SCOPE_CPU);
        witness(r, 500, 500, BORN(7), 1, 4, true);
        tick(r);
        assert_true(PROCESS(500, BORN(7), WA_URING) <= 0); /* the 400 ms are of a time that nobody watched */
}

static void process_keeps_what_its_ended_threads_had(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 500, 501, BORN(8));
        tick(r);
        r->core[1].uring += 400 * MS;
        witness(r, 500, 501, BORN(8), 1, 4, true);
        tick(r);
        r->tasks[1] = (struct task){500, 501, BORN(20)}; /* its number goes to another thread at once */
        r->core[1].uring += 300 * MS;
        witness(r, 500, 501, BORN(20), 1, 4, true);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 700 * MS);
        assert_int_equal(THREAD(501, BORN(20), WA_URING), 300 * MS);
        assert_int_equal(THREAD(501, BORN(8), WA_URING), -2);
}

static void number_used_again_starts_anew(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 500, 501, BORN(8));
        tick(r);
        r->core[1].uring += 400 * MS;
        witness(r, 500, 501, BORN(8), 1, 4, true);
        tick(r);
        r->tasks[0] = (struct task){500, 500, BORN(30)};
        r->tasks[1] = (struct task){500, 501, BORN(31)};
        r->core[1].uring += 300 * MS;
        witness(r, 500, 501, BORN(8), 1, 4, true); /* news of the old one, late */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(30), WA_URING), -1);
        r->core[1].uring += 200 * MS;
        witness(r, 500, 501, BORN(31), 1, 4, true);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(30), WA_URING), 200 * MS);
}

/* ---- block delay --------------------------------------------------------------------------------------------------------------------- */

static void d_state(struct run *r, uint64_t block_ns, unsigned cpu, bool asleep)
{
        r->d_threads[r->evidence.d_thread_count++] = (struct d_thread){.tid = 500, .tgid = 500, .born_ns = BORN(7), .block_ns = block_ns,
                .cpu = cpu,
                .asleep = asleep};
}

static void block_delay_counts_as_far_as_cores_waited(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        tick(r);
        d_state(r, 0, 2, true); /* nobody counts it: nothing is known */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), -1);
        d_state(r, 10 * MS, 2, false);
        tick(r);
        r->core[2].disk += 600 * MS, r->core[2].other += 200 * MS;
        d_state(r, 410 * MS, 2, false); /* woke many times: 400 ms */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 300 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_OTHER), 100 * MS);
        r->core[2].disk += 50 * MS;
        d_state(r, 1410 * MS, 2, false); /* its core had work beside */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 350 * MS);
}

static void long_sleep_is_credited_once(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        tick(r);
        d_state(r, 10 * MS, 2, true);
        tick(r);
        for (int i = 0; i < 3; i++) { /* the kernel tells when it wakes */
                r->core[2].disk += 1000 * MS;
                d_state(r, 10 * MS, 2, true);
                tick(r);
                assert_int_equal(PROCESS(500, BORN(7), WA_DISK), (i + 1) * 1000 * (long long)MS);
        }
        r->core[2].disk += 400 * MS;
        d_state(r, 3410 * MS, 2, false);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 3400 * MS);
}

/* ---- by tracing ---------------------------------------------------------------------------------------------------------------------- */

static void traced_processes_without_waits_have_none(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 500, 501, BORN(8));
        add_task(r, 600, 600, BORN(9));
        tick(r);
        assert_int_equal(PROCESS(600, BORN(9), WA_DISK), -1);
        trace(r, 0, 500, 501, BORN(8), 300 * MS, 20 * MS, MS);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 300 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 20 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_OTHER), MS);
        assert_int_equal(THREAD(501, BORN(8), WA_DISK), 300 * MS);
        assert_int_equal(THREAD(500, BORN(7), WA_DISK), 0);
        assert_int_equal(PROCESS(600, BORN(9), WA_DISK), 0);
        add_task(r, 700, 700, BORN(40)); /* born while traced */
        add_task(r, 700, 701, BORN(41));
        tick(r);
        assert_int_equal(PROCESS(700, BORN(40), WA_OTHER), 0);
        assert_int_equal(THREAD(701, BORN(41), WA_URING), 0);
        trace(r, 1, 700, 700, BORN(40), 0, 5 * MS, 0);
        trace(r, 0, 500, 501, BORN(8), 350 * MS, 20 * MS, MS);
        tick(r);
        assert_int_equal(PROCESS(700, BORN(40), WA_URING), 5 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 350 * MS);
        end_trace(r);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), -1);
        assert_int_equal(PROCESS(600, BORN(9), WA_DISK), -1);
        assert_int_equal(THREAD(701, BORN(41), WA_URING), -1);
        r->epoch++;
        trace(r, 0, 500, 501, BORN(8), 10 * MS, 0, 0); /* attached again: its counters begin anew, ours do not */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 360 * MS);
        r->epoch++;
        trace(r, 0, 500, 501, BORN(8), 7 * MS, 0, 0); /* and within one tick */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 367 * MS);
}

/* A sleep taken for a disk's turns out to be another: nothing falls, nothing counts twice. */
static void corrected_guess_never_falls(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        r->waiters = true;
        trace(r, 0, 500, 500, BORN(7), 500 * MS, 0, 0);
        r->traced[0].asleep = r->traced[0].ring_wait = true;
        tick(r);
        assert_int_equal(value(r, SCOPE_WAITER, 500, BORN(7), WAITER_WITNESS), 5); /* TRACER_DISK */
        trace(r, 0, 500, 500, BORN(7), 100 * MS, 0, 600 * MS);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 500 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_OTHER), 200 * MS); /* 700 in all, as the tracer says */
        trace(r, 0, 500, 500, BORN(7), 400 * MS, 0, 900 * MS);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), 500 * MS);
        assert_int_equal(PROCESS(500, BORN(7), WA_OTHER), 800 * MS);
}

/* What a tracer still tells of threads that are gone does not go to who has their number now. */
/* Traced idle time holds interrupts, the kernel's iowait does not: a process never shows more than its core. */
static void traced_times_are_in_the_kernels_measure(void **state)
{
        struct run *r = *state;
        struct iowait_core core = {.cpu = 0, .iowait_ns = 600 * MS, .valid = true};
        struct iowait_exact exact = {.cpu = 0, .valid = true, .disk_ns = 700 * MS};
        add_task(r, 500, 500, BORN(7));
        trace(r, 0, 500, 500, BORN(7), 0, 0, 0);
        tick(r);
        r->evidence.cores = &core;
        r->evidence.exact = &exact;
        r->evidence.core_count = 1;
        trace(r, 0, 500, 500, BORN(7), 700 * MS, 0, 0);
        tick(r);
        int64_t shown = PROCESS(500, BORN(7), WA_DISK);
        assert_true(shown > (int64_t)(599 * MS) && shown <= (int64_t)(600 * MS));
        core.iowait_ns = 690 * MS; /* two ticks are rounding */
        trace(r, 0, 500, 500, BORN(7), 1400 * MS, 0, 0);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), shown + (int64_t)(700 * MS));
        r->evidence.cores = NULL;
        r->evidence.exact = NULL;
        r->evidence.core_count = 0;
}

static void traced_ended_process_adds_nothing(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        trace(r, 0, 500, 500, BORN(7), 500 * MS, 0, 0);
        trace(r, 1, 500, 501, BORN(8), 0, 100 * MS, 0);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), WA_URING), 100 * MS);
        r->tasks[0].born = BORN(50);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(50), WA_DISK), 0);
        trace(r, 1, 500, 501, BORN(8), 0, 150 * MS, 0);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(50), WA_URING), 0);
        assert_int_equal(PROCESS(500, BORN(7), WA_DISK), -2);
}

static void steady_allocates_nothing(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        add_task(r, 600, 600, BORN(9));
        r->waiters = true;
        size_t used = 0;
        for (uint64_t i = 0; i < 200; i++) {
                r->core[1].uring += MS;
                if (i >= 100)
                        trace(r, 0, 500, 500, BORN(7), i * MS, i * MS, 0);
                else
                        witness(r, 500, 500, BORN(7), 1, 4, true);
                tick(r);
                if (i == 20)
                        used = mallinfo2().uordblks;
        }
        assert_int_equal(mallinfo2().uordblks, used);
}

/* Processes that wait once and end, many more than the tables hold: each is told of, and nothing grows. */
static void short_lived_ones_do_not_pile_up(void **state)
{
        struct run *r = *state;
        size_t used = 0;
        add_task(r, 1, 1, BORN(1));
        for (int round = 0; round < 2; round++)
                for (uint64_t i = 0; i < 6000; i++) {
                        r->task_count = 1;
                        memset(r->traced, 0, sizeof r->traced);
                        end_trace(r);
                        for (unsigned n = 0; n < 4; n++) {
                                int pid = (int)(10 + 4 * i + n) % 32000;
                                add_task(r, pid, pid, BORN(100 + i));
                                if (round == 0)
                                        trace(r, n, pid, pid, BORN(100 + i), MS, 0, 0);
                                else
                                        witness(r, pid, pid, BORN(100 + i), n, 5, true), r->core[n].disk += MS;
                        }
                        tick(r);
                        if (i > 0) /* the first one changes the method, or only takes the cores down */
                                assert_int_equal(PROCESS(r->tasks[4].pid, BORN(100 + i), WA_DISK), MS);
                        if (i == 1000)
                                used = mallinfo2().uordblks;
                        if (i == 5000)
                                assert_int_equal(mallinfo2().uordblks, used);
                }
}

/* ---- rings --------------------------------------------------------------------------------------------------------------------------- */

static void process_has_its_waiters_rings(void **state)
{
        struct run *r = *state;
        add_task(r, 500, 500, BORN(7));
        r->waiters = true;
        tick(r);
        row_set(sample_find(r->sample, SCOPE_WAITER, (struct key){500, BORN(7)}), WAITER_RINGS, 3);
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), RINGS), 3);
        r->waiters = false; /* it waits no more: nobody looks at its rings */
        tick(r);
        assert_int_equal(PROCESS(500, BORN(7), RINGS), -1);
}

static void what_a_process_holds(void **state)
{
        struct run *r = *state;
        char text[64];
        machine_link(&r->machine, "proc/500/fd/3", "anon_inode:[io_uring]");
        machine_link(&r->machine, "proc/500/fd/4", "anon_inode:[io_uring]");
        machine_link(&r->machine, "proc/500/fd/5", "anon_inode:[eventpoll]");
        machine_link(&r->machine, "proc/500/fd/6", "/tmp/anon_inode:[io_uring]");
        machine_write(&r->machine, "proc/500/maps",
                "7f1c2a000000-7f1c2a021000 rw-s 00000000 00:0f 1042                       /[aio] (deleted)\n"
                "7f1c2a100000-7f1c2a121000 rw-s 00000000 00:0f 1043                       /[aio] (deleted)\n"
                "7f1c2b000000-7f1c2b001000 r--p 00000000 fe:01 99                         /tmp/[aio]\n"
                "7f1c2b100000-7f1c2b101000 rw-p 00000000 00:00 0 \n"
                "7ffd30000000-7ffd30021000 rw-p 00000000 00:00 0                          [stack]\n");
        ssize_t n = held_read(r->procfs, "proc/500", text, sizeof text);
        assert_int_equal(n, 3);
        assert_memory_equal(text, "2 2", 3);
        assert_int_equal(held_read(r->procfs, "proc/501", text, sizeof text), -ENOENT);
}

/* The kernel's own numbers. */
static void operations_have_names(void **state)
{
        static const struct { unsigned op; const char *said; } known[] = {
                {IORING_OP_POLL_ADD, "POLL_ADD 1"}, {IORING_OP_RECV, "RECV 1"}, {IORING_OP_RECVMSG, "RECVMSG 1"}, {IORING_OP_ACCEPT,
                        "ACCEPT 1"},
                {IORING_OP_SEND, "SEND 1"}, {IORING_OP_READ, "READ 1"}, {IORING_OP_MSG_RING, "MSG_RING 1"}, {IORING_OP_URING_CMD,
                        "URING_CMD 1"},
                {IORING_OP_SENDMSG_ZC, "SENDMSG_ZC 1"}, {IORING_OP_EPOLL_CTL, "EPOLL_CTL 1"}, {70, "op70 1"}, {4000, "op>=79 1"},
        };
        char line[128], text[64];
        (void)state;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
                uint32_t ops[RING_OPS] = {0};
                int n = snprintf(line, sizeof line, "PollList:\n  op=%u, task_works=0\nCqOverflowList:\n  op=1\n", known[i].op);
                ring_count_ops(line, (size_t)n, ops);
                ring_say_ops(ops, text, sizeof text);
                assert_string_equal(text, known[i].said);
        }
        uint32_t ops[RING_OPS] = {[IORING_OP_POLL_ADD] = 3, [IORING_OP_RECV] = 12, [IORING_OP_ACCEPT] = 3};
        ring_say_ops(ops, text, sizeof text);
        assert_string_equal(text, "RECV 12, POLL_ADD 3, ACCEPT 3");
        ring_say_ops(ops, text, 20); /* whole words */
        assert_string_equal(text, "RECV 12, POLL_ADD 3");
        struct ring_facts facts;
        static const char fdinfo[] = "SqMask:\t0x3f\nCachedSqHead:\t5\nCachedCqTail:\t3\nSqThread:\t812\nPollList:\n  op=6, task_works=0\n";
        assert_true(ring_parse(&facts, fdinfo, sizeof fdinfo - 1));
        assert_int_equal(facts.entries, 64);
        assert_int_equal(facts.sq_thread, 812);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(parked_reactor_has_its_cores_uring), CASE(who_waits_together_counts_each), CASE(storage_has_disk_and_other),
                CASE(what_is_not_known_is_absent), CASE(cores_that_were_away_prove_nothing), CASE(process_keeps_what_its_ended_threads_had),
                CASE(number_used_again_starts_anew), CASE(block_delay_counts_as_far_as_cores_waited), CASE(long_sleep_is_credited_once),
                CASE(traced_processes_without_waits_have_none), CASE(corrected_guess_never_falls), CASE(traced_ended_process_adds_nothing),
                CASE(traced_times_are_in_the_kernels_measure),
                CASE(steady_allocates_nothing), CASE(short_lived_ones_do_not_pile_up),
                CASE(process_has_its_waiters_rings), CASE(what_a_process_holds),
                cmocka_unit_test(operations_have_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Waiters and rings, over captured machines: who is a witness and who is not, what fdinfo proves, what stays unknown without rights.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collectors/bpf/tracer.h"
#include "collectors/uring.h"
#include "tests/machine.h"

enum { REACTOR = 500, WORKER = 501 };

struct run {
        struct machine machine;
        struct procfs *procfs;
        struct sample *sample;
        struct evidence evidence;
        struct tick tick;
        void *cpu, *uring;
        struct iowait_parts parts[8];
};

static int setup(void **state)
{
        struct run *r = calloc(1, sizeof *r);
        machine_make(&r->machine);
        assert_int_equal(sample_new(&r->sample), 0);
        *state = r;
        return 0;
}

static int teardown(void **state)
{
        struct run *r = *state;
        if (r->procfs) {
                collector_cpu.close(r->cpu);
                collector_uring.close(r->uring);
        }
        sample_free(r->sample);
        procfs_close_root(r->procfs);
        machine_remove(&r->machine);
        free(r);
        return 0;
}

/* ---- writing a machine ------------------------------------------------------------------------------------------------------------ */

static void file(struct run *r, const char *tree, const char *path, const char *text)
{
        char full[256];
        snprintf(full, sizeof full, "%s/%s", tree, path);
        machine_write(&r->machine, full, text);
}

/* A tree with two cores: cpu1 gained `iowait` and `idle` ticks in all. */
static void machine(struct run *r, const char *tree, unsigned second, unsigned iowait, unsigned idle, unsigned blocked)
{
        char text[1024];
        snprintf(text, sizeof text, "%u000000000 %u000000000 %u000000000\n", 100 + second, 200 + second, 300 + second);
        file(r, tree, "clock", text);
        snprintf(text, sizeof text,
                "cpu  0 0 0 %u %u 0 0 0 0 0\ncpu0 0 0 0 %u 0 0 0 0 0 0\ncpu1 0 0 0 %u %u 0 0 0 0 0\nintr 0\nctxt 1\nbtime 1\n"
                "processes 1\nprocs_running 1\n"
                "procs_blocked %u\n", 1000 + 100 * second + idle, iowait, 1000 + 100 * second, idle, iowait, blocked);
        file(r, tree, "proc/stat", text);
        file(r, tree, "proc/diskstats", " 254 0 vda 10 0 80 5 0 0 0 0 0 5 5 0 0 0 0 0 0\n");
}

struct task {
        int tgid, tid, threads;
        const char *comm;
        char state;
        unsigned start, cpu, switches;
        const char *wchan, *syscall;
        unsigned block; /* field 42 */
};

static void task(struct run *r, const char *tree, struct task t)
{
        char path[128], text[512];
        t.threads = t.threads ? t.threads : 1;
        snprintf(text, sizeof text, "%d (%s) %c 1 1 1 0 -1 4194368 1 2 3 4 5 6 7 8 20 0 %d 0 %u 1000 10 18446744073709551615 1 "
                "1 1 1 1 0 0 0 0 0 0 0 17 %u 0 0 %u 0 0\n",
                t.tid, t.comm, t.state, t.threads, t.start, t.cpu, t.block);
        snprintf(path, sizeof path, "proc/%d/task/%d/stat", t.tgid, t.tid);
        file(r, tree, path, text);
        if (t.tgid == t.tid) {
                snprintf(path, sizeof path, "proc/%d/stat", t.tgid);
                file(r, tree, path, text);
        }
        snprintf(path, sizeof path, "proc/%d/task/%d/status", t.tgid, t.tid);
        snprintf(text, sizeof text, "Name:\tx\nCpus_allowed_list:\t%u-%u,9\nvoluntary_ctxt_switches:\t%u\nnonvoluntary_ctxt_switches:\t3\n",
                t.cpu, t.cpu, t.switches);
        file(r, tree, path, text);
        snprintf(path, sizeof path, "proc/%d/task/%d/wchan", t.tgid, t.tid);
        file(r, tree, path, t.wchan);
        snprintf(path, sizeof path, "proc/%d/task/%d/syscall", t.tgid, t.tid);
        if (t.syscall)
                file(r, tree, path, t.syscall);
}

static struct task reactor_task(unsigned switches)
{
        return (struct task){REACTOR, REACTOR, 1, "Proactor0", 'S', 7, 1, switches, "io_cqring_wait",
                "426 0x4 0x0 0x1 0x1 0x0 0x8 0x7ffe 0x7fff\n"};
}

static void ring(struct run *r, const char *tree, int tgid, int fd, unsigned head, unsigned tail, unsigned polls)
{
        char path[128], text[2048];
        int n = snprintf(text, sizeof text, "pos:\t0\nflags:\t02000002\nSqMask:\t0x3f\nSqHead:\t%u\nSqTail:\t%u\n"
                "CachedSqHead:\t%u\nCqMask:\t0x7f\nCqHead:\t0\n"
                "CqTail:\t%u\nCachedCqTail:\t%u\nSQEs:\t0\nCQEs:\t0\nSqThread:\t-1\nSqThreadCpu:\t-1\nUserFiles:\t0\n"
                "UserBufs:\t0\nPollList:\n",
                head, head, head, tail, tail);
        for (unsigned i = 0; i < polls; i++)
                n += snprintf(text + n, sizeof text - (size_t)n, "  op=6, task_works=0\n");
        snprintf(text + n, sizeof text - (size_t)n, "CqOverflowList:\n");
        snprintf(path, sizeof path, "proc/%d/fdinfo/%d", tgid, fd);
        file(r, tree, path, text);
}

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

static void open_machine(struct run *r)
{
        assert_int_equal(procfs_open_root(r->machine.dir, &r->procfs), 0);
        assert_int_equal(collector_cpu.open(r->procfs, &r->cpu), 0);
        assert_int_equal(collector_uring.open(r->procfs, &r->uring), 0);
}

static void split(struct run *r)
{
        struct evidence *e = &r->evidence;
        assert_true(e->core_count <= 8);
        struct iowait_input in = {.wall_ns = (int64_t)(e->stat_start_ns - e->stat_prev_start_ns), .cores = e->cores,
                .core_count = e->core_count,
                .quiet = !e->sub_in_flight, .witnesses = e->witnesses, .witness_count = e->witness_count, .seen = e->seen,
                        .seen_count = e->seen_count,
                .samples = e->samples, .blocked_no_d = e->blocked_no_d, .blocked_sum = e->blocked_sum, .d_sum = e->d_sum,
                .carried = e->carried, .full = e->full, .unresolved = e->unresolved, .reads = e->blocked_reads,
                .read_count = e->blocked_read_count,
                        .threads_seen = e->threads_seen};
        iowait_split(&in, r->parts);
        uring_judged(r->sample, e);
}

static void tick(struct run *r, unsigned number, int subs)
{
        struct procfs_clock now;
        for (int sub = 0; sub < subs; sub++) {
                assert_int_equal(procfs_enter(r->procfs, number, sub), 0);
                if (collector_uring.wants_between(r->uring, &r->tick))
                        collector_uring.between(r->uring, &r->tick);
        }
        assert_int_equal(procfs_enter(r->procfs, number, -1), 0);
        procfs_clock(r->procfs, &now);
        r->tick = (struct tick){.procfs = r->procfs, .sample = r->sample, .evidence = &r->evidence, .scopes = (1u << SCOPE_COUNT) - 1,
                .interval_ns = 1000000000, .deadline_ns = now.mono_ns + 1000000000, .number = number};
        sample_begin(r->sample, &(struct sample_stamp){now.mono_ns, now.boot_ns, now.real_ns});
        assert_int_equal(collector_uring.before(r->uring, &r->tick), 0);
        assert_int_equal(collector_cpu.collect(r->cpu, &r->tick), 0);
        assert_int_equal(collector_uring.collect(r->uring, &r->tick), 0);
        assert_int_equal(collector_uring.after(r->uring, &r->tick), 0);
        split(r);
}

static const struct iowait_witness *witness(const struct run *r, int tid)
{
        for (size_t i = 0; i < r->evidence.witness_count; i++)
                if (r->evidence.witnesses[i].tid == tid)
                        return &r->evidence.witnesses[i];
        return NULL;
}

static long long value(struct run *r, int tid, unsigned start, int metric)
{
        uint64_t v;
        struct row *row = sample_find(r->sample, SCOPE_WAITER, (struct key){(uint64_t)tid, start * UINT64_C(10000000)});
        return row && row_get(row, metric, &v) ? (long long)v : -1;
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------------ */

static void parses_stat(void **state)
{
        (void)state;
        struct thread t;
        const char *odd = "42 (a) R (b) D) S 1 1 1 0 -1 4194368 1 2 3 4 5 6 7 8 20 -5 3 0 99 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 11 0 0";
        assert_true(thread_parse(&t, odd, strlen(odd), 100));
        assert_string_equal(t.comm, "a) R (b) D");
        assert_int_equal(t.state, 'S');
        assert_int_equal(t.cpu, 11);
        assert_int_equal(t.threads, 3);
        assert_int_equal(t.born_ns, 990000000);
        for (size_t n = 0; n < strlen(odd) - 5; n++) /* cut anywhere: refused, never half read */
                assert_false(thread_parse(&t, odd, n, 100));
        assert_false(thread_parse(&t, ")(", 2, 100));
}

static void parses_fdinfo(void **state)
{
        (void)state;
        struct ring_facts f;
        const char *text = "SqMask:\t0x3f\nCachedSqHead:\t4294967295\nCachedCqTail:\t4294967293\nSqThread:\t-1\nPollList:\n"
                "  op=6, task_works=0\n  op=27, task_works=0\n"
                "CqOverflowList:\n  user_data=1, res=0, flags=0\nNAPI:\tdisabled\n";
        assert_true(ring_parse(&f, text, strlen(text)));
        assert_true(f.valid);
        assert_int_equal(f.polls, 2);
        assert_int_equal(f.overflow, 1);
        assert_int_equal(ring_pending(&f), 1);
        f.cq_tail = 3; /* tail passed 2^32, head not yet: multishot */
        assert_int_equal(ring_pending(&f), -5);
        /* the lock was busy: only what stands before it */
        assert_true(ring_parse(&f, "SqMask:\t0x3f\nSqHead:\t1\n", 23));
        assert_false(f.valid);
        assert_false(ring_parse(&f, "pos:\t0\neventfd-count: 0\n", 24));
}

static void parked_reactor_is_proved(void **state)
{
        struct run *r = *state;
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        for (unsigned i = 0; i < 5; i++) {
                machine(r, trees[i], i == 0 ? 0 : 1, i == 0 ? 0 : 99, 0, 1);
                task(r, trees[i], reactor_task(70));
                ring(r, trees[i], REACTOR, 4, 1, 0, 1);
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        const struct iowait_witness *w = witness(r, REACTOR);
        assert_non_null(w);
        assert_true(w->parked);
        assert_int_equal(w->ring, RING_NO_STORAGE);
        assert_int_equal(w->verdict, 4);
        /* a pass at either tick, three between, and that all reads of procs_blocked agree */
        assert_int_equal(r->evidence.samples, 6);
        assert_int_equal(r->evidence.blocked_sum, 6);
        assert_int_equal(r->parts[1].uring, 990000000);
        assert_int_equal(r->parts[0].uring, 0);
        assert_int_equal(value(r, REACTOR, 7, WAITER_WITNESS), 4);
        assert_int_equal(value(r, REACTOR, 7, WAITER_PENDING), 1);
        assert_int_equal(value(r, REACTOR, 7, WAITER_POLLS), 1);
        assert_int_equal(value(r, REACTOR, 7, WAITER_CORE), 1);
        assert_int_equal(value(r, REACTOR, 7, WAITER_RINGS), -1); /* its other descriptors were not looked at */
        struct row *system = sample_row_at(r->sample, SCOPE_SYSTEM, 0);
        uint64_t v;
        assert_true(row_get(system, SYSTEM_SUBSAMPLES, &v) && v == 3);
        assert_true(row_get(system, SYSTEM_SUB_BLOCKED, &v) && v == 3);
        assert_true(row_get(system, SYSTEM_DSTATE, &v) && v == 0);
}

/* One interval with 3 sub-samples that look like its end, for whatever tree 0 and 1 hold. */
static void interval(struct run *r, struct task from, struct task to, unsigned iowait, unsigned idle, unsigned blocked)
{
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        for (unsigned i = 0; i < 5; i++) {
                machine(r, trees[i], i == 0 ? 0 : 1, i == 0 ? 0 : iowait, i == 0 ? 0 : idle, blocked);
                task(r, trees[i], i == 0 ? from : to);
        }
}

static void who_ran_is_no_witness(void **state)
{
        struct run *r = *state;
        interval(r, reactor_task(70), reactor_task(71), 99, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_false(witness(r, REACTOR)->parked);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(value(r, REACTOR, 7, WAITER_WITNESS), 2);
}

static void number_taken_over_is_no_witness(void **state)
{
        struct run *r = *state;
        struct task other = reactor_task(70);
        other.start = 8;
        interval(r, reactor_task(70), other, 99, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_true(witness(r, REACTOR) == NULL || !witness(r, REACTOR)->parked);
        assert_int_equal(r->parts[1].uring, 0);
}

static void nobody_counted_refutes(void **state)
{
        struct run *r = *state;
        interval(r, reactor_task(70), reactor_task(70), 60, 0, 1);
        machine(r, "0001/sub/01", 1, 60, 0, 0); /* at one instant nobody was */
        for (unsigned i = 0; i < 2; i++)
                ring(r, i ? "0001" : "0000", REACTOR, 4, 1, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_true(witness(r, REACTOR)->refuted);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(value(r, REACTOR, 7, WAITER_WITNESS), 1);
}

static void without_rights_nothing_is_claimed(void **state)
{
        struct run *r = *state;
        struct task hidden = reactor_task(70);
        hidden.wchan = "0";
        hidden.syscall = NULL;
        interval(r, hidden, hidden, 99, 0, 1);
        char text[128];
        snprintf(text, sizeof text, "proc/%d/task/%d/syscall 13\n", REACTOR, REACTOR);
        file(r, "0000", "errors", text);
        file(r, "0001", "errors", text);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(r->evidence.witness_count, 0);
        assert_false(r->evidence.threads_seen);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(r->parts[1].uring_max, 990000000);
        assert_int_equal(r->parts[1].level, IOWAIT_BOUND);
}

static void unreadable_ring_is_unknown(void **state)
{
        struct run *r = *state;
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1); /* no fdinfo at all */
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(witness(r, REACTOR)->ring, RING_UNKNOWN);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(r->parts[1].other, 990000000);
        assert_int_equal(value(r, REACTOR, 7, WAITER_PENDING), -1);
}

static void busy_worker_is_storage(void **state)
{
        struct run *r = *state;
        struct task lead = reactor_task(70);
        lead.threads = 2;
        interval(r, lead, lead, 99, 0, 2);
        for (unsigned i = 0; i < 2; i++) {
                task(r, i ? "0001" : "0000", (struct task){REACTOR, WORKER, 2, "iou-wrk-500", 'D', 8, 0, 5, "folio_wait_bit_common", NULL});
                ring(r, i ? "0001" : "0000", REACTOR, 4, 1, 0, 0);
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(witness(r, REACTOR)->ring, RING_STORAGE);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(r->parts[1].other, 990000000);
        assert_int_equal(value(r, REACTOR, 7, WAITER_WITNESS), 5);
        assert_int_equal(value(r, WORKER, 8, WAITER_WITNESS), 6);
        assert_int_equal(value(r, WORKER, 8, WAITER_STATE), 'D');
}

static void idle_worker_with_something_pending_is_unknown(void **state)
{
        struct run *r = *state;
        struct task lead = reactor_task(70);
        lead.threads = 2;
        interval(r, lead, lead, 99, 0, 1);
        for (unsigned i = 0; i < 2; i++) {
                task(r, i ? "0001" : "0000", (struct task){REACTOR, WORKER, 2, "iou-wrk-500", 'S', 8, 0, 5, "io_wq_worker", NULL});
                ring(r, i ? "0001" : "0000", REACTOR, 4, 2, 0, 1); /* one poll, and one that is in no list */
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(witness(r, REACTOR)->ring, RING_UNKNOWN);
        assert_int_equal(r->parts[1].uring, 0);
}

static void moving_ring_is_no_proof(void **state)
{
        struct run *r = *state;
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        ring(r, "0000", REACTOR, 4, 5, 3, 1);
        ring(r, "0001", REACTOR, 4, 9, 7, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(witness(r, REACTOR)->ring, RING_STORAGE);
        assert_int_equal(r->parts[1].uring, 0);
}

static void d_state_is_seen_on_its_core(void **state)
{
        struct run *r = *state;
        struct task reader = {600, 600, 1, "reader", 'D', 9, 1, 44, "blkdev_direct_IO", NULL};
        interval(r, reader, reader, 60, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(r->evidence.witness_count, 0);
        assert_int_equal(r->evidence.samples, 5);
        assert_int_equal(r->evidence.d_sum, 5);
        assert_int_equal(r->evidence.blocked_no_d, 0);
        unsigned seen = 0;
        for (size_t i = 0; i < r->evidence.seen_count; i++)
                seen += r->evidence.seen[i].cpu == 1 ? r->evidence.seen[i].d_state : 0;
        assert_int_equal(seen, 5); /* the passes at both ends included */
        assert_true(r->evidence.threads_seen);
        assert_true(r->parts[1].uring_max <= 600000000); /* the rule of three of five passes */
        assert_int_equal(value(r, 600, 9, WAITER_STATE), 'D');
        assert_int_equal(value(r, 600, 9, WAITER_SINCE), INT64_C(200000000000)); /* boot time of the first tick */
}

static void registered_ring_needs_all_rings(void **state)
{
        struct run *r = *state;
        struct task t = reactor_task(70);
        t.syscall = "426 0x0 0x0 0x1 0x11 0x0 0x8 0x7ffe 0x7fff\n"; /* IORING_ENTER_REGISTERED_RING: 0 is an index */
        interval(r, t, t, 99, 0, 1);
        for (unsigned i = 0; i < 2; i++) {
                ring(r, i ? "0001" : "0000", REACTOR, 4, 1, 0, 1);
                ring(r, i ? "0001" : "0000", REACTOR, 9, 3, 0, 3);
                file(r, i ? "0001" : "0000", "proc/500/fdinfo/5", "pos:\t0\nflags:\t02\n");
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(witness(r, REACTOR)->ring, RING_NO_STORAGE);
        assert_int_equal(value(r, REACTOR, 7, WAITER_RINGS), 2);
        assert_int_equal(value(r, REACTOR, 7, WAITER_POLLS), 4);
        assert_int_equal(r->parts[1].uring, 990000000);
}

static void plain_waits_do_not_count(void **state)
{
        struct run *r = *state;
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        for (unsigned i = 0; i < 5; i++) {
                task(r, trees[i], (struct task){600, 600, 1, "make", 'D', 9, 1, 44, "kernel_clone", NULL}); /* vfork */
                task(r, trees[i], (struct task){601, 601, 1, "dd", 'D', 9, 1, 44, "request_wait_answer.isra.0", NULL});
                ring(r, trees[i], REACTOR, 4, 1, 0, 1);
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(r->evidence.d_sum, 0);
        assert_int_equal(r->parts[1].uring, 990000000);
        assert_int_equal(value(r, 600, 9, WAITER_STATE), 'D'); /* shown all the same */
        uint64_t v;
        assert_true(row_get(sample_row_at(r->sample, SCOPE_SYSTEM, 0), SYSTEM_DSTATE, &v) && v == 2);
}

/* As before, but one wait channel cannot be seen, and the other thread is in a wait that may be counted. */
static void other_d_states_count_where_they_sleep(void **state)
{
        struct run *r = *state;
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        for (unsigned i = 0; i < 5; i++) {
                task(r, trees[i], (struct task){600, 600, 1, "make", 'D', 9, 0, 44, "0", NULL});
                task(r, trees[i], (struct task){601, 601, 1, "dd", 'D', 9, 0, 44, "__mutex_lock.constprop.0", NULL});
                ring(r, trees[i], REACTOR, 4, 1, 0, 1);
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(r->evidence.d_sum, 10);
        assert_int_equal(r->parts[1].uring, 990000000); /* nobody in D state on cpu1 in five passes */
}

static void who_is_runnable_is_told(void **state)
{
        struct run *r = *state;
        struct task busy = {600, 600, 1, "busy", 'R', 9, 1, 44, "0", NULL};
        interval(r, busy, busy, 50, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        unsigned running = 0;
        for (size_t i = 0; i < r->evidence.seen_count; i++)
                running += r->evidence.seen[i].cpu == 1 ? r->evidence.seen[i].running : 0;
        assert_int_equal(running, 5);
        assert_int_equal(value(r, 600, 9, WAITER_STATE), -1);
}

/* A timeout, or a read that blk-throttle keeps back: nothing tells them apart but the limit. */
static void throttled_group(struct run *r, const char *group, const char *limits)
{
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        for (unsigned i = 0; i < 5; i++) {
                ring(r, trees[i], REACTOR, 4, 1, 0, 0);
                file(r, trees[i], "proc/500/cgroup", group);
                file(r, trees[i], "sys/fs/cgroup/cgroup.controllers", "io\n");
                if (limits)
                        file(r, trees[i], "sys/fs/cgroup/a/io.max", limits);
                file(r, trees[i], "sys/fs/cgroup/a/b/io.max", "");
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
}

static void no_limit_above(void **state)
{
        throttled_group(*state, "0::/a/b\n", "");
        assert_int_equal(((struct run *)*state)->parts[1].uring, 990000000);
}

static void limit_above(void **state)
{
        throttled_group(*state, "0::/a/b\n", "254:0 rbps=max wbps=max riops=1 wiops=max\n");
        assert_int_equal(((struct run *)*state)->parts[1].uring, 0);
        assert_int_equal(((struct run *)*state)->parts[1].other, 990000000);
}

/* A device that keeps requests back looks the same. */
static void device_that_stands_still(void **state)
{
        struct run *r = *state;
        const char *trees[] = {"0000", "0001/sub/00", "0001/sub/01", "0001/sub/02", "0001"};
        for (unsigned i = 0; i < 5; i++) {
                file(r, trees[i], "sys/block/dm-0/dm/suspended", "0\n");
                file(r, trees[i], "sys/block/dm-1/dm/suspended", "1\n");
                file(r, trees[i], "sys/class/nvme/nvme0/state", "live\n");
        }
        throttled_group(r, "0::/a/b\n", "");
        assert_int_equal(r->parts[1].uring, 0);
        struct holds holds = {0};
        assert_true(holds_any(r->procfs, &holds, 1));
}

static void controller_without_a_path(void **state)
{
        struct run *r = *state;
        struct holds holds = {0};
        file(r, "0000", "sys/block/dm-0/dm/suspended", "0\n");
        file(r, "0000", "sys/class/nvme/nvme0/state", "live\n");
        machine(r, "0000", 0, 0, 0, 0);
        machine(r, "0001", 1, 0, 0, 0);
        file(r, "0001", "sys/class/nvme/nvme0/state", "live\n");
        file(r, "0001", "sys/class/nvme/nvme1/state", "connecting\n");
        open_machine(r);
        assert_int_equal(procfs_enter(r->procfs, 0, -1), 0);
        assert_false(holds_any(r->procfs, &holds, 1));
        assert_int_equal(procfs_enter(r->procfs, 1, -1), 0);
        assert_true(holds_any(r->procfs, &holds, 2));
}

/* It runs between all looks, and is in its wait at each of them. */
static void busy_machine(struct run *r, unsigned extra, int threads)
{
        char tree[32];
        for (unsigned i = 0; i < 12; i++) {
                if (i == 0 || i == 11)
                        snprintf(tree, sizeof tree, i ? "0001" : "0000");
                else
                        snprintf(tree, sizeof tree, "0001/sub/%02u", i - 1);
                machine(r, tree, i ? 1 : 0, i ? 94 : 0, 0, 1);
                struct task lead = reactor_task(70 + 100 * i);
                lead.threads = threads;
                task(r, tree, lead);
                if (threads > 1)
                        task(r, tree, (struct task){REACTOR, WORKER, 2, "iou-wrk-500", 'S', 8, 0, 5, "io_wq_worker", NULL});
                ring(r, tree, REACTOR, 4, 10 * i + 1 + extra, 10 * i, 1);
                file(r, tree, "proc/500/cgroup", "0::/a\n");
                file(r, tree, "sys/fs/cgroup/cgroup.controllers", "io\n");
        }
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 10);
}

static void busy_reactor_is_seen(void **state)
{
        struct run *r = *state;
        busy_machine(r, 0, 1);
        const struct iowait_witness *w = witness(r, REACTOR);
        assert_false(w->parked);
        assert_int_equal(w->ring, RING_NO_STORAGE);
        assert_true(w->ring_looks >= 8);
        assert_int_equal(r->evidence.full, r->evidence.samples);
        assert_int_equal(r->parts[1].uring, 940000000);
        assert_int_equal(r->parts[1].level, IOWAIT_SEEN);
        assert_int_equal(value(r, REACTOR, 7, WAITER_WITNESS), 4);
}

/* Beyond its poll something else is pending at each look. It was never handed to a worker and no device works: a timeout. */
static void busy_with_a_timeout(void **state)
{
        struct run *r = *state;
        busy_machine(r, 1, 1);
        assert_int_equal(witness(r, REACTOR)->ring, RING_UNCHANGED);
        assert_int_equal(r->parts[1].uring, 940000000);
        assert_int_equal(r->parts[1].level, IOWAIT_SEEN);
}

/* But a worker was there. */
static void busy_with_a_worker(void **state)
{
        struct run *r = *state;
        busy_machine(r, 1, 2);
        assert_int_equal(witness(r, REACTOR)->ring, RING_UNKNOWN);
        assert_int_equal(r->parts[1].uring, 0);
        assert_int_equal(r->parts[1].other, 940000000);
}

static void nfs_wait_is_no_disk(void **state)
{
        struct run *r = *state;
        struct task reader = {600, 600, 1, "ls", 'D', 9, 1, 44, "nfs_wait_on_request", NULL};
        interval(r, reader, reader, 90, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        unsigned elsewhere = 0;
        for (size_t i = 0; i < r->evidence.seen_count; i++)
                elsewhere += r->evidence.seen[i].elsewhere;
        assert_int_equal(elsewhere, 5);
        assert_int_equal(r->parts[1].other, 900000000);
        assert_int_equal(r->parts[1].level, IOWAIT_SEEN);
}

/* kernel.task_delayacct is on since boot: no thread of cpu1 can have waited longer than its delay grew, whatever devices did for others. */
static void block_delays(void **state)
{
        struct run *r = *state;
        const char *trees[] = {"0000", "0001", "0002", "0003"};
        for (unsigned i = 0; i < 4; i++) {
                machine(r, trees[i], i, 30 * i, 60 * i, 1);
                task(r, trees[i], (struct task){600, 600, 1, "reader", 'S', 9, 1, 44 + i, "do_nanosleep", NULL, 5 + 4 * i});
                if (i < 3)
                        task(r, trees[i], (struct task){601, 601, 1, "other", 'S', 9, 0, 44, "do_nanosleep", NULL, 100 * i});
                file(r, trees[i], "proc/sys/kernel/task_delayacct", "1\n");
                file(r, trees[i], "proc/cmdline", "ro quiet delayacct\n");
        }
        open_machine(r);
        tick(r, 0, 0);
        assert_null(r->evidence.delay_ns);
        for (unsigned n = 1; n < 3; n++) {
                tick(r, n, 0);
                assert_non_null(r->evidence.delay_ns);
                assert_true(r->evidence.delay_all);
                assert_int_equal(r->evidence.delay_ns[1], 70000000); /* 4 ticks and one, and two for the distance of the reads */
                assert_true(r->evidence.delay_ns[0] > 1000000000);
        }
        tick(r, 3, 0); /* one ended, and took its delay along */
        assert_null(r->evidence.delay_ns);
}

static void group_out_of_sight(void **state)
{
        throttled_group(*state, "0::/../x\n", "");
        assert_int_equal(((struct run *)*state)->parts[1].uring, 0);
}

static void v1_mounted_elsewhere(void **state)
{
        throttled_group(*state, "5:cpu,blkio:/a/b\n0::/\n", "");
        assert_int_equal(((struct run *)*state)->parts[1].uring, 0);
}

/* What its rings hold, for people. */
static void rings_in_words(void **state)
{
        struct run *r = *state;
        size_t length = 0;
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        ring(r, "0001", REACTOR, 4, 3, 0, 3);
        open_machine(r);
        tick(r, 0, 0);
        tick(r, 1, 3);
        assert_int_equal(value(r, REACTOR, 7, WAITER_ENTRIES), 64);
        assert_int_equal(value(r, REACTOR, 7, WAITER_POLLS), 3);
        assert_int_equal(value(r, REACTOR, 7, WAITER_RING_FLAGS), 0);
        const char *ops = row_get_text(sample_find(r->sample, SCOPE_WAITER, (struct key){REACTOR, 70000000}), WAITER_POLL_OPS, &length);
        assert_non_null(ops);
        assert_int_equal(length, strlen("POLL_ADD 3"));
        assert_memory_equal(ops, "POLL_ADD 3", length);
}

/* Waiters that no pass met have a row all the same; those that have one keep it. */
static void traced_waiters_have_rows(void **state)
{
        struct run *r = *state;
        const struct tracer_waiter traced[] = {
                {.tid = REACTOR, .tgid = REACTOR, .start_boot_ns = 70001234, .comm = "Proactor0", .asleep = true, .ring_wait = true},
                {.tid = 800, .tgid = 800, .start_boot_ns = 123456789, .comm = "reader", .cpu = 1, .asleep = true, .class = TRACER_DISK},
                {.tid = 801, .tgid = 800, .start_boot_ns = 123456789, .comm = "an-awake-one-16b", .cpu = 1},
        };
        interval(r, reactor_task(70), reactor_task(70), 99, 0, 1);
        ring(r, "0001", REACTOR, 4, 1, 0, 1);
        open_machine(r);
        tick(r, 0, 0);
        r->evidence.traced = traced;
        r->evidence.traced_count = sizeof traced / sizeof traced[0];
        tick(r, 1, 3);
        assert_int_equal(value(r, REACTOR, 7, WAITER_POLLS), 1);
        assert_int_equal(value(r, 800, 12, WAITER_WITNESS), 6);
        assert_int_equal(value(r, 800, 12, WAITER_STATE), 'D');
        assert_int_equal(value(r, 800, 12, WAITER_CORE), 1);
        assert_int_equal(value(r, 801, 12, WAITER_WITNESS), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(parses_stat),
                cmocka_unit_test(parses_fdinfo),
                cmocka_unit_test_setup_teardown(parked_reactor_is_proved, setup, teardown),
                cmocka_unit_test_setup_teardown(who_ran_is_no_witness, setup, teardown),
                cmocka_unit_test_setup_teardown(number_taken_over_is_no_witness, setup, teardown),
                cmocka_unit_test_setup_teardown(nobody_counted_refutes, setup, teardown),
                cmocka_unit_test_setup_teardown(without_rights_nothing_is_claimed, setup, teardown),
                cmocka_unit_test_setup_teardown(unreadable_ring_is_unknown, setup, teardown),
                cmocka_unit_test_setup_teardown(busy_worker_is_storage, setup, teardown),
                cmocka_unit_test_setup_teardown(idle_worker_with_something_pending_is_unknown, setup, teardown),
                cmocka_unit_test_setup_teardown(moving_ring_is_no_proof, setup, teardown),
                cmocka_unit_test_setup_teardown(d_state_is_seen_on_its_core, setup, teardown),
                cmocka_unit_test_setup_teardown(registered_ring_needs_all_rings, setup, teardown),
                cmocka_unit_test_setup_teardown(plain_waits_do_not_count, setup, teardown),
                cmocka_unit_test_setup_teardown(other_d_states_count_where_they_sleep, setup, teardown),
                cmocka_unit_test_setup_teardown(who_is_runnable_is_told, setup, teardown),
                cmocka_unit_test_setup_teardown(no_limit_above, setup, teardown),
                cmocka_unit_test_setup_teardown(limit_above, setup, teardown),
                cmocka_unit_test_setup_teardown(device_that_stands_still, setup, teardown),
                cmocka_unit_test_setup_teardown(block_delays, setup, teardown),
                cmocka_unit_test_setup_teardown(controller_without_a_path, setup, teardown),
                cmocka_unit_test_setup_teardown(busy_reactor_is_seen, setup, teardown),
                cmocka_unit_test_setup_teardown(busy_with_a_timeout, setup, teardown),
                cmocka_unit_test_setup_teardown(busy_with_a_worker, setup, teardown),
                cmocka_unit_test_setup_teardown(nfs_wait_is_no_disk, setup, teardown),
                cmocka_unit_test_setup_teardown(group_out_of_sight, setup, teardown),
                cmocka_unit_test_setup_teardown(v1_mounted_elsewhere, setup, teardown),
                cmocka_unit_test_setup_teardown(rings_in_words, setup, teardown),
                cmocka_unit_test_setup_teardown(traced_waiters_have_rows, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

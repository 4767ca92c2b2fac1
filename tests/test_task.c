/*
 * The process and thread collectors on captured machines written here, tick by tick, and live against a child's own getrusage.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectors/collector.h"

#define SECOND UINT64_C(1000000000)
#define TICK_NS UINT64_C(10000000)

/* A machine: its trees, and the collectors that look at them. */
struct machine {
        char dir[64];
        struct procfs *procfs;
        struct sample *sample;
        void *process, *thread;
        uint64_t number, mono, interval_ns;
        enum cmdline_policy cmdline;
        uint32_t scopes;
        uint64_t deadline;
        struct tick tick;
};

/* What one task's files say; what is not set is harmless. */
struct fake {
        int pid, tid;            /* tid 0: /proc/PID itself */
        const char *comm;
        char state;
        unsigned user, system, minflt, threads, start, rss, uid, flags, image;
        unsigned long delay, slices, voluntary, involuntary, write_bytes, block;
        const char *cmdline, *cgroup;
        size_t cmdline_length;
};

static void write_file(const struct machine *m, const char *path, const void *bytes, size_t length)
{
        char whole[256];
        snprintf(whole, sizeof whole, "%s/%04lu/%s", m->dir, (unsigned long)m->number, path);
        for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                mkdir(whole, 0755);
                *slash = '/';
        }
        FILE *f = fopen(whole, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, length, f), length);
        assert_int_equal(fclose(f), 0);
}

static void __attribute__((format(printf, 3, 4))) write_text(const struct machine *m, const char *path, const char *format, ...)
{
        char text[2048];
        va_list arguments;
        va_start(arguments, format);
        int n = vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        write_file(m, path, text, (size_t)n);
}

static void put_task(const struct machine *m, struct fake f)
{
        char base[64], path[128];
        unsigned threads = f.threads ? f.threads : 1;
        if (f.tid)
                snprintf(base, sizeof base, "proc/%d/task/%d", f.pid, f.tid);
        else
                snprintf(base, sizeof base, "proc/%d", f.pid);
        snprintf(path, sizeof path, "%s/stat", base);
        write_text(m, path, "%d (%s) %c 1 1 1 0 -1 %u %u 0 0 0 %u %u 0 0 20 0 %u 0 %u 1000000 %u 0 %u 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 %lu"
                   " 0 0 0 0 0 0 0 0 0 0\n",
                   f.tid ? f.tid : f.pid, f.comm ? f.comm : "fake", f.state ? f.state : 'S', f.flags, f.minflt, f.user, f.system,
                           threads, f.start, f.rss,
                   f.image, f.block);
        snprintf(path, sizeof path, "%s/statm", base);
        write_text(m, path, "100 %u 0 0 0 0 0\n", f.rss);
        snprintf(path, sizeof path, "%s/schedstat", base);
        write_text(m, path, "%lu %lu %lu\n", f.slices * 1000, f.delay, f.slices);
        snprintf(path, sizeof path, "%s/io", base);
        write_text(m, path, "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: %lu\ncancelled_write_bytes: 0\n",
                f.write_bytes);
        snprintf(path, sizeof path, "%s/status", base);
        write_text(m, path, "Name:\tfake\nUid:\t%u\t0\t0\t0\nvoluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t%lu\n", f.uid,
                f.voluntary, f.involuntary);
        if (f.tid)
                return;
        snprintf(path, sizeof path, "%s/cgroup", base);
        write_text(m, path, "0::%s\n", f.cgroup ? f.cgroup : "/");
        snprintf(path, sizeof path, "%s/cmdline", base);
        write_file(m, path, f.cmdline ? f.cmdline : "", f.cmdline_length ? f.cmdline_length : f.cmdline ? strlen(f.cmdline) : 0);
        snprintf(path, sizeof path, "%s/wchan", base);
        write_text(m, path, "folio_wait_bit");
}

/* The clock of the tree being written: one second after the one before. */
static void put_clock(struct machine *m)
{
        m->mono = 1000 * SECOND + m->number * SECOND;
        write_text(m, "clock", "%lu %lu %lu\n", (unsigned long)m->mono, (unsigned long)(m->mono + 50 * SECOND),
                (unsigned long)(1700000000 * SECOND + m->mono));
        write_text(m, "system", "hz=100\npage_size=4096\nncpu=4\nkernel=6.1.0\n");
}

static void collect(struct machine *m)
{
        struct procfs_clock now;
        static struct evidence evidence;
        procfs_clock(m->procfs, &now);
        m->tick = (struct tick){ .procfs = m->procfs, .sample = m->sample, .evidence = &evidence, .scopes = m->scopes,
                .interval_ns = m->interval_ns,
                .number = m->number, .cmdline = m->cmdline, .deadline_ns = m->deadline };
        struct sample_stamp stamp = { now.mono_ns, now.boot_ns, now.real_ns };
        sample_begin(m->sample, &stamp);
        assert_int_equal(collector_process.collect(m->process, &m->tick), 0);
        if (m->scopes & SCOPE_BIT(SCOPE_THREAD))
                assert_int_equal(collector_thread.collect(m->thread, &m->tick), 0);
        else
                sample_scope_off(m->sample, SCOPE_THREAD);
        m->number++;
}

static void open_collectors(struct machine *m, const char *root)
{
        assert_int_equal(procfs_open_root(root, &m->procfs), 0);
        assert_int_equal(sample_new(&m->sample), 0);
        assert_int_equal(collector_process.open(m->procfs, &m->process), 0);
        assert_int_equal(collector_thread.open(m->procfs, &m->thread), 0);
}

/* The tree is written: look at it. */
static void tick(struct machine *m)
{
        put_clock(m);
        if (!m->procfs)
                open_collectors(m, m->dir);
        assert_int_equal(procfs_enter(m->procfs, (unsigned)m->number, -1), 0);
        collect(m);
}

static int setup(void **state)
{
        struct machine *m = calloc(1, sizeof *m);
        strcpy(m->dir, "/tmp/test_taskXXXXXX");
        assert_non_null(mkdtemp(m->dir));
        m->cmdline = CMDLINE_FULL;
        m->interval_ns = SECOND;
        m->scopes = SCOPE_BIT(SCOPE_PROCESS);
        *state = m;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static int teardown(void **state)
{
        struct machine *m = *state;
        collector_thread.close(m->thread);
        collector_process.close(m->process);
        sample_free(m->sample);
        procfs_close_root(m->procfs);
        nftw(m->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(m);
        return 0;
}

/* ---- looking at rows --------------------------------------------------------------------------------------------------------- */

static struct row *find(const struct machine *m, enum scope scope, int pid, unsigned start)
{
        return sample_find(m->sample, scope, (struct key){ (uint64_t)pid, start * TICK_NS });
}

static uint64_t get(const struct row *row, int metric)
{
        uint64_t value;
        assert_non_null(row);
        assert_true(row_get(row, metric, &value));
        return value;
}

static bool has(const struct row *row, int metric)
{
        uint64_t value;
        assert_non_null(row);
        return row_get(row, metric, &value);
}

static void assert_text(const struct row *row, int metric, const char *text)
{
        size_t n;
        assert_non_null(row);
        const char *bytes = row_get_text(row, metric, &n);
        if (!text) {
                assert_null(bytes);
                return;
        }
        assert_non_null(bytes);
        assert_int_equal(n, strlen(text));
        assert_memory_equal(bytes, text, n);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------- */

static void test_everything_of_one_process(void **state)
{
        struct machine *m = *state;
        write_text(m, "etc/passwd", "root:x:0:0::/root:/bin/sh\ndf:x:998:998::/:/bin/false\n");
        put_task(m, (struct fake){ .pid = 10, .comm = "a) b\n(", .user = 7, .system = 3, .minflt = 9, .start = 500, .rss = 11,
                .uid = 998, .delay = 77, .slices = 5,
                .voluntary = 4, .involuntary = 1, .write_bytes = 4096, .cmdline = "dragonfly\0--port\0" "6379\0", .cmdline_length = 22,
                        .cgroup = "/system.slice/dragonfly.service" });
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 10, 500);
        assert_text(r, PROCESS_COMM, "a) b\n(");
        assert_int_equal(get(r, PROCESS_USER_TIME), 7 * TICK_NS);
        assert_int_equal(get(r, PROCESS_SYSTEM_TIME), 3 * TICK_NS);
        assert_int_equal(get(r, PROCESS_RUN_DELAY), 77);
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 4);
        assert_int_equal(get(r, PROCESS_INVOLUNTARY), 1);
        assert_int_equal(get(r, PROCESS_WRITE_BYTES), 4096);
        assert_int_equal(get(r, PROCESS_RSS), 11 * 4096);
        assert_int_equal(get(r, PROCESS_START), 5 * SECOND);
        assert_int_equal(get(r, PROCESS_SINCE), m->mono + 50 * SECOND);
        assert_int_equal(get(r, PROCESS_CORE), 3);
        assert_int_equal(get(r, PROCESS_PARTIAL), 0);
        assert_int_equal(get(r, PROCESS_UID), 998);
        assert_text(r, PROCESS_USER, "df");
        assert_text(r, PROCESS_UNIT, "dragonfly.service");
        assert_text(r, PROCESS_CGROUP, "/system.slice/dragonfly.service");
        assert_text(r, PROCESS_CMDLINE, "dragonfly --port 6379");
        assert_text(r, PROCESS_WCHAN, NULL);
}

static void test_pid_reuse_and_exit(void **state)
{
        struct machine *m = *state;
        put_task(m, (struct fake){ .pid = 10, .start = 500, .user = 900, .slices = 5, .cmdline = "old" });
        put_task(m, (struct fake){ .pid = 11, .start = 501, .slices = 5 });
        tick(m);
        put_task(m, (struct fake){ .pid = 10, .start = 100100, .user = 1, .slices = 1, .cmdline = "new" });
        tick(m);
        assert_null(find(m, SCOPE_PROCESS, 10, 500));
        assert_null(find(m, SCOPE_PROCESS, 11, 501));
        struct row *r = find(m, SCOPE_PROCESS, 10, 100100);
        assert_int_equal(get(r, PROCESS_USER_TIME), TICK_NS);
        assert_text(r, PROCESS_CMDLINE, "new");
        assert_int_equal(sample_rows(m->sample, SCOPE_PROCESS), 1);
}

static void test_what_may_not_be_read_is_absent(void **state)
{
        struct machine *m = *state;
        put_task(m, (struct fake){ .pid = 10, .start = 500, .slices = 5 });
        put_task(m, (struct fake){ .pid = 11, .start = 500, .slices = 5 });
        put_task(m, (struct fake){ .pid = 12, .start = 500, .slices = 5 });
        write_text(m, "errors", "proc/10/io EACCES\nproc/11/stat ESRCH\nproc/12/status EACCES\nproc/12/schedstat ENOENT\n");
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 10, 500);
        assert_false(has(r, PROCESS_READ_BYTES));
        assert_false(has(r, PROCESS_SYSCW));
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 0);
        assert_null(find(m, SCOPE_PROCESS, 11, 500));
        r = find(m, SCOPE_PROCESS, 12, 500);
        assert_false(has(r, PROCESS_VOLUNTARY));
        assert_false(has(r, PROCESS_RUN_DELAY));
        assert_false(has(r, PROCESS_UID));
        assert_text(r, PROCESS_USER, NULL);
        /* No descriptors left: nothing is known about the task, so its row stands. */
        put_task(m, (struct fake){ .pid = 10, .start = 500, .user = 9, .slices = 6 });
        write_text(m, "errors", "proc/10/stat EMFILE\n");
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_USER_TIME), 0);
        assert_null(find(m, SCOPE_PROCESS, 12, 500));
}

/* What a tree of a captured machine does not tell stands as it was; what it tells to be gone is gone. */
static void test_holes_in_a_captured_machine(void **state)
{
        struct machine *m = *state;
        m->scopes |= SCOPE_BIT(SCOPE_THREAD);
        put_task(m, (struct fake){ .pid = 10, .start = 500, .user = 7, .slices = 5, .voluntary = 4, .write_bytes = 4096, .rss = 11 });
        put_task(m, (struct fake){ .pid = 11, .start = 500, .user = 7, .slices = 5 });
        tick(m);
        assert_int_equal(get(find(m, SCOPE_THREAD, 10, 500), THREAD_USER_TIME), 7 * TICK_NS);
        /* Its folder, and no stat in it. */
        write_text(m, "proc/10/cgroup", "0::/\n");
        write_text(m, "proc/11/cgroup", "0::/\n");
        write_text(m, "errors", "proc/11/stat 2\n");
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 10, 500);
        assert_int_equal(get(r, PROCESS_USER_TIME), 7 * TICK_NS);
        assert_int_equal(get(r, PROCESS_PARTIAL), 1);
        assert_int_equal(m->tick.detail, 2);
        assert_non_null(find(m, SCOPE_THREAD, 10, 500));
        assert_null(find(m, SCOPE_PROCESS, 11, 500));
        /* Its stat alone, read 0.3 s behind the clock: it ran, and nobody looked what else it did. */
        put_task(m, (struct fake){ .pid = 10, .start = 500, .user = 9, .slices = 6, .rss = 12 });
        static const char *const others[] = { "statm", "schedstat", "io", "status", "cgroup", "cmdline" };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                char path[128];
                snprintf(path, sizeof path, "%s/%04lu/proc/10/%s", m->dir, (unsigned long)m->number, others[i]);
                assert_int_equal(unlink(path), 0);
        }
        write_text(m, "times", "300000000 proc/10/stat\n300000001 proc\nnonsense\n");
        tick(m);
        r = find(m, SCOPE_PROCESS, 10, 500);
        assert_int_equal(get(r, PROCESS_USER_TIME), 9 * TICK_NS);
        assert_int_equal(get(r, PROCESS_WRITE_BYTES), 4096);
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 4);
        assert_int_equal(get(r, PROCESS_RSS), 11 * 4096);
        assert_true(has(r, PROCESS_RUN_DELAY));
        assert_int_equal(get(r, PROCESS_PARTIAL), 0);
        assert_int_equal(get(r, PROCESS_SINCE), m->mono + 300000000 + 50 * SECOND);
        assert_int_equal(get(find(m, SCOPE_THREAD, 10, 500), THREAD_USER_TIME), 9 * TICK_NS);
        /* Not even a folder: it has ended. */
        write_text(m, "proc/stat", "cpu 1 1 1 1\n");
        tick(m);
        assert_null(find(m, SCOPE_PROCESS, 10, 500));
}

static void test_schedstat_is_the_gate(void **state)
{
        struct machine *m = *state;
        struct fake f = { .pid = 10, .start = 500, .slices = 5, .voluntary = 5, .write_bytes = 1 };
        put_task(m, f);
        tick(m);
        uint64_t first = get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_SINCE);
        /* It slept: its other files are not read, what they say now does not matter. */
        f.voluntary = 99;
        f.write_bytes = 99;
        put_task(m, f);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_VOLUNTARY), 5);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_SINCE), first);
        /* 20 wake-ups move schedstat only. */
        f.slices = 25;
        put_task(m, f);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_VOLUNTARY), 99);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_WRITE_BYTES), 99);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_SINCE), first + 2 * SECOND);
        /* Runnable, but never on a core: still the same `since` from the moment it became so. */
        f.state = 'R';
        for (int i = 0; i < 3; i++) {
                put_task(m, f);
                tick(m);
        }
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_SINCE), first + 3 * SECOND);
}

static void test_counters_off(void **state)
{
        struct machine *m = *state;
        struct fake f = { .pid = 10, .start = 500, .user = 4, .voluntary = 5, .block = 3 };
        /* sched_info off: every schedstat is "0 0 0"; delay accounting off. Neither is a measured zero. */
        write_text(m, "proc/sys/kernel/task_delayacct", "0\n");
        put_task(m, f);
        tick(m);
        assert_false(has(find(m, SCOPE_PROCESS, 10, 500), PROCESS_RUN_DELAY));
        assert_false(has(find(m, SCOPE_PROCESS, 10, 500), PROCESS_BLOCK_DELAY));
        f.user = 5;
        f.voluntary = 6;
        put_task(m, f);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_VOLUNTARY), 6);
        /* Within 10 s everything is read again although nothing moved. */
        f.voluntary = 8;
        for (int i = 0; i < 11; i++) {
                put_task(m, f);
                tick(m);
        }
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_VOLUNTARY), 8);
}

static void test_exec_and_setuid(void **state)
{
        struct machine *m = *state;
        struct fake f = { .pid = 10, .start = 500, .slices = 5, .cmdline = "sh", .image = 1, .cgroup = "/a.service" };

        put_task(m, f);
        tick(m);
        /* Renamed its arguments without running: not looked at. */
        f.cmdline = "quiet";
        put_task(m, f);
        tick(m);
        assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_CMDLINE, "sh");
        f.image = 2; /* exec of a program of the same name */
        f.slices++;
        f.cmdline = "sh -c x";
        put_task(m, f);
        tick(m);
        assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_CMDLINE, "sh -c x");
        f.comm = "other";
        f.slices++;
        f.cmdline = "other";
        f.uid = 7;
        f.cgroup = "/b.service";
        put_task(m, f);
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 10, 500);
        assert_text(r, PROCESS_COMM, "other");
        assert_text(r, PROCESS_CMDLINE, "other");
        assert_text(r, PROCESS_USER, "7");
        assert_text(r, PROCESS_UNIT, "b.service");
}

static void test_d_state_keeps_its_hands_off(void **state)
{
        struct machine *m = *state;
        struct fake f = { .pid = 10, .start = 500, .slices = 5, .cmdline = "seen earlier", .write_bytes = 1 };
        struct fake fresh = { .pid = 11, .start = 500, .slices = 5, .state = 'D', .cmdline = "never read" };

        put_task(m, f);
        tick(m);
        f.state = 'D';
        f.comm = "renamed";
        f.cmdline = "must not be read";
        f.write_bytes = 2;
        f.slices++;
        uint64_t since = 0;
        for (int i = 0; i < 14; i++) { /* through a rotation */
                put_task(m, f);
                put_task(m, fresh);
                tick(m);
                if (i == 0)
                        since = m->mono + 50 * SECOND;
                assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_CMDLINE, "seen earlier");
                assert_text(find(m, SCOPE_PROCESS, 11, 500), PROCESS_CMDLINE, NULL);
                assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_WCHAN, "folio_wait_bit");
                assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_SINCE), since);
                assert_int_equal(get(find(m, SCOPE_PROCESS, 11, 500), PROCESS_SINCE), since);
        }
        assert_int_equal(get(find(m, SCOPE_PROCESS, 10, 500), PROCESS_WRITE_BYTES), 2);
        f.state = fresh.state = 'S';
        f.slices++;
        fresh.slices++;
        put_task(m, f);
        put_task(m, fresh);
        tick(m);
        assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_WCHAN, NULL);
        assert_text(find(m, SCOPE_PROCESS, 11, 500), PROCESS_CMDLINE, "never read");
}

static void test_command_lines(void **state)
{
        struct machine *m = *state;
        char *lengthy = malloc(17000);

        memset(lengthy, 'x', 17000);
        memcpy(lengthy, "prog\0", 5);
        put_task(m, (struct fake){ .pid = 10, .start = 500, .slices = 5, .cmdline = lengthy, .cmdline_length = 17000 });
        put_task(m, (struct fake){ .pid = 11, .start = 500, .slices = 5, .cmdline = "\xff\x1b[31m\0\0b\0\0\0", .cmdline_length = 11 });
        put_task(m, (struct fake){ .pid = 12, .start = 500, .slices = 5,
                .cmdline = "/usr/bin/qemu-system-x86_64\0-name\0guest=db01,debug-threads=on\0", .cmdline_length = 63,
                .cgroup = "/machine.slice/x.service" });
        put_task(m, (struct fake){ .pid = 13, .start = 500, .slices = 5, .flags = 0x200000, .cmdline = "a kernel thread has none" });
        tick(m);
        size_t n;
        const char *text = row_get_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_CMDLINE, &n);
        assert_int_equal(n, TEXT_MAX);
        assert_memory_equal(text, "prog x", 6);
        assert_text(find(m, SCOPE_PROCESS, 11, 500), PROCESS_CMDLINE, "\xff\x1b[31m  b");
        assert_text(find(m, SCOPE_PROCESS, 12, 500), PROCESS_UNIT, "db01");
        assert_text(find(m, SCOPE_PROCESS, 13, 500), PROCESS_CMDLINE, NULL);
        /* The policy changes while watopd runs: the old text goes at once, for sleepers too. */
        static const char *const shown[] = { [CMDLINE_NONE] = NULL, [CMDLINE_NAME] = "prog" };
        for (int policy = CMDLINE_NAME; policy >= CMDLINE_NONE; policy--) {
                m->cmdline = (enum cmdline_policy)policy;
                put_task(m, (struct fake){ .pid = 10, .start = 500, .slices = 5, .cmdline = lengthy, .cmdline_length = 17000 });
                tick(m);
                assert_text(find(m, SCOPE_PROCESS, 10, 500), PROCESS_CMDLINE, shown[policy]);
        }
        free(lengthy);
}

/* ---- sums over threads ------------------------------------------------------------------------------------------------------- */

static void put_threads(const struct machine *m, const unsigned long *voluntary, unsigned n, unsigned first, unsigned process_user)
{
        struct fake leader = { .pid = 100, .start = 500, .threads = n, .user = process_user, .slices = voluntary[0],
                .voluntary = voluntary[0], .delay = voluntary[0] };

        put_task(m, leader);
        leader.tid = 100;
        put_task(m, leader);
        for (unsigned i = 1; i < n; i++)
                put_task(m, (struct fake){ .pid = 100, .tid = 100 + (int)(first + i), .comm = "worker", .start = 500 + i, .threads = n,
                        .slices = voluntary[i],
                        .voluntary = voluntary[i], .delay = voluntary[i], .write_bytes = voluntary[i] });
}

static void test_sums_over_threads(void **state)
{
        struct machine *m = *state;

        put_threads(m, (unsigned long[]){ 10 }, 1, 0, 0);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 10);
        /* Two threads more: counted from their birth. */
        put_threads(m, (unsigned long[]){ 11, 20, 30 }, 3, 0, 0);
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 100, 500);
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 61);
        assert_int_equal(get(r, PROCESS_RUN_DELAY), 61);
        assert_int_equal(get(r, PROCESS_PARTIAL), 0);
        /* A worker runs too shortly for stat to move; only its schedstat says so. */
        put_threads(m, (unsigned long[]){ 11, 25, 30 }, 3, 0, 0);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 66);
        /* Both workers end and one comes: what was seen of the ended ones stays, and the row says that something was missed. */
        put_threads(m, (unsigned long[]){ 12, 3 }, 2, 5, 0);
        tick(m);
        r = find(m, SCOPE_PROCESS, 100, 500);
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 12 + 3 + 25 + 30);
        assert_int_equal(get(r, PROCESS_PARTIAL), 1);
        /* Alone again. */
        for (int i = 0; i < 2; i++) {
                put_threads(m, (unsigned long[]){ 13 }, 1, 0, 0);
                tick(m);
                assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 13 + 3 + 25 + 30);
        }
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_PARTIAL), 0);
}

static void test_definition_changes_leave_a_hole(void **state)
{
        struct machine *m = *state;

        /* A tick of 10 ms has a budget of 64 threads. */
        m->interval_ns = SECOND / 100;
        unsigned long many[70];
        for (int i = 0; i < 70; i++)
                many[i] = 1000;
        put_threads(m, many, 70, 0, 0);
        tick(m);
        struct row *r = find(m, SCOPE_PROCESS, 100, 500);
        assert_int_equal(get(r, PROCESS_VOLUNTARY), 1000); /* the leader's own */
        assert_int_equal(get(r, PROCESS_PARTIAL), 2);
        /* A lease on threads: every thread is read from now on. */
        m->scopes |= SCOPE_BIT(SCOPE_THREAD);
        put_threads(m, many, 70, 0, 0);
        tick(m);
        assert_false(has(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY));
        assert_false(has(find(m, SCOPE_PROCESS, 100, 500), PROCESS_RUN_DELAY));
        many[0]++;
        put_threads(m, many, 70, 0, 0);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 70001);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_PARTIAL), 0);
        /* The lease ends. */
        m->scopes &= ~SCOPE_BIT(SCOPE_THREAD);
        put_threads(m, many, 70, 0, 0);
        tick(m);
        assert_false(has(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY));
        put_threads(m, many, 70, 0, 0);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 1001);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_PARTIAL), 2);
        assert_int_equal(sample_rows(m->sample, SCOPE_THREAD), 0);
}

static void test_exec_by_a_thread(void **state)
{
        struct machine *m = *state;

        put_threads(m, (unsigned long[]){ 50, 20 }, 2, 0, 0);
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 70);
        /* The worker took the leader's place and number, and brought its own counters. */
        put_task(m, (struct fake){ .pid = 100, .start = 500, .comm = "new", .slices = 21, .voluntary = 21, .delay = 21 });
        tick(m);
        assert_false(has(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY));
        put_task(m, (struct fake){ .pid = 100, .start = 500, .comm = "new", .slices = 22, .voluntary = 22, .delay = 22 });
        tick(m);
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 22);
}

static void test_thread_rows(void **state)
{
        struct machine *m = *state;

        m->scopes |= SCOPE_BIT(SCOPE_THREAD);
        put_threads(m, (unsigned long[]){ 10, 20, 30 }, 3, 0, 5);
        tick(m);
        assert_int_equal(sample_rows(m->sample, SCOPE_THREAD), 3);
        struct row *r = find(m, SCOPE_THREAD, 102, 502);
        assert_text(r, THREAD_COMM, "worker");
        assert_int_equal(get(r, THREAD_TGID), 100);
        assert_int_equal(get(r, THREAD_VOLUNTARY), 30);
        assert_int_equal(get(r, THREAD_WRITE_BYTES), 30);
        assert_int_equal(get(r, THREAD_RUN_DELAY), 30);
        /* In D state its bytes still count (read by the helper), and its wait channel shows. */
        put_threads(m, (unsigned long[]){ 10, 20, 30 }, 3, 0, 5);
        put_task(m, (struct fake){ .pid = 100, .tid = 102, .state = 'D', .start = 502, .threads = 3, .slices = 31, .voluntary = 31,
                .write_bytes = 4096 });
        write_text(m, "proc/100/task/102/wchan", "io_schedule");
        tick(m);
        r = find(m, SCOPE_THREAD, 102, 502);
        assert_int_equal(get(r, THREAD_STATE), 'D');
        assert_int_equal(get(r, THREAD_WRITE_BYTES), 4096);
        assert_text(r, THREAD_WCHAN, "io_schedule");
        assert_int_equal(get(r, THREAD_SINCE), m->mono + 50 * SECOND);
        /* A thread number used again, and one that may not be read. */
        put_threads(m, (unsigned long[]){ 10, 20, 30 }, 3, 0, 5);
        put_task(m, (struct fake){ .pid = 100, .tid = 101, .start = 900, .threads = 3, .slices = 1, .voluntary = 1 });
        write_text(m, "errors", "proc/100/task/102/io EACCES\nproc/100/task/102/schedstat ESRCH\n");
        tick(m);
        assert_null(find(m, SCOPE_THREAD, 101, 501));
        assert_int_equal(get(find(m, SCOPE_THREAD, 101, 900), THREAD_VOLUNTARY), 1);
        assert_null(find(m, SCOPE_THREAD, 102, 502)); /* it ended while it was read */
        assert_int_equal(get(find(m, SCOPE_PROCESS, 100, 500), PROCESS_VOLUNTARY), 10 + 20 + 1 + 31);
}

/* ---- live -------------------------------------------------------------------------------------------------------------------- */

struct report {
        struct rusage usage;
};

static void *naps(void *arg)
{
        for (int i = 0; i < 40; i++)
                usleep(1000);
        if (arg)
                pause();
        usleep(400000); /* time to be looked at before it ends */
        return NULL;
}

/* Waits to be told; then burns 300 ms, naps in three threads of which two stay, reports, waits for the end. */
static void child_main(int in, int out)
{
        pthread_t threads[3];
        struct report report;
        struct timespec cpu;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(in, threads, 1) != 1)
                _exit(1);
        do {
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
        } while (cpu.tv_nsec < 300000000 && cpu.tv_sec == 0);
        for (size_t i = 0; i < 3; i++)
                pthread_create(&threads[i], NULL, naps, i ? &threads : NULL);
        usleep(900000); /* every one is asleep for good, or has ended */
        getrusage(RUSAGE_SELF, &report.usage);
        if (write(out, &report, sizeof report) != sizeof report)
                _exit(1);
        for (;;)
                pause();
}

static struct {
        pid_t pid;
        int in, out;
} child;

/* Started before any test: a program that has threads is not forked well. */
static int start_child(void **unused)
{
        int in[2], out[2];

        if (pipe(in) < 0 || pipe(out) < 0 || (child.pid = fork()) < 0)
                return -1;
        if (child.pid == 0) {
                close(in[1]);
                child_main(in[0], out[1]);
        }
        close(in[0]);
        close(out[1]);
        child.in = in[1];
        child.out = out[0];
        return 0;
}

static int end_child(void **unused)
{
        kill(child.pid, SIGKILL);
        waitpid(child.pid, NULL, 0);
        close(child.in);
        close(child.out);
        return 0;
}

static struct row *row_of(const struct machine *m, enum scope scope, int pid)
{
        for (size_t i = 0; i < sample_rows(m->sample, scope); i++)
                if (row_key(sample_row_at(m->sample, scope, i)).a == (uint64_t)pid)
                        return sample_row_at(m->sample, scope, i);
        return NULL;
}

static void assert_about(uint64_t a, uint64_t b, uint64_t off)
{
        if (a > b + off || b > a + off)
                fail_msg("%lu and %lu differ by more than %lu", (unsigned long)a, (unsigned long)b, (unsigned long)off);
}

static uint64_t ns_of(const struct timeval *t)
{
        return (uint64_t)t->tv_sec * SECOND + (uint64_t)t->tv_usec * 1000;
}

static void test_live_against_getrusage(void **state)
{
        struct machine *m = *state;
        struct report report;
        pid_t pid = child.pid;

        open_collectors(m, "/");
        collect(m);
        assert_non_null(row_of(m, SCOPE_PROCESS, pid));
        /* Look at it while it works, as watopd would. */
        fcntl(child.out, F_SETFL, O_NONBLOCK);
        assert_int_equal(write(child.in, "", 1), 1);
        int looks = 0;
        for (; read(child.out, &report, sizeof report) != sizeof report; looks++) {
                assert_true(looks < 1000);
                collect(m);
                usleep(20000);
        }
        usleep(20000);
        m->scopes |= SCOPE_BIT(SCOPE_THREAD);
        collect(m);
        collect(m);
        struct row *r = row_of(m, SCOPE_PROCESS, pid);
        const struct rusage *u = &report.usage;
        uint64_t used = ns_of(&u->ru_utime) + ns_of(&u->ru_stime);
        assert_about(get(r, PROCESS_USER_TIME) + get(r, PROCESS_SYSTEM_TIME), used, 2 * TICK_NS);
        assert_about(get(r, PROCESS_MINFLT), (uint64_t)u->ru_minflt, 16);
        assert_true(get(r, PROCESS_THREADS) >= 3); /* a sanitizer has its own */
        /* The thread that ended took what it did after the last look with it: its end. A sanitizer wakes up now and then. */
        assert_about(get(r, PROCESS_VOLUNTARY), (uint64_t)u->ru_nvcsw, 16);
        uint64_t threads = 0;
        for (size_t i = 0; i < sample_rows(m->sample, SCOPE_THREAD); i++)
                threads += get(sample_row_at(m->sample, SCOPE_THREAD, i), THREAD_TGID) == (uint64_t)pid;
        assert_int_equal(threads, get(r, PROCESS_THREADS));
        assert_true(m->tick.fds > 0);

        kill(pid, SIGKILL);
        while (row_of(m, SCOPE_PROCESS, pid) && get(row_of(m, SCOPE_PROCESS, pid), PROCESS_STATE) != 'Z')
                collect(m); /* its end takes a moment */
        end_child(NULL);
        collect(m);
        assert_null(row_of(m, SCOPE_PROCESS, pid));
        /* No time at all: rows stand as they were, and the tick says that detail is missing. */
        size_t rows = sample_rows(m->sample, SCOPE_PROCESS);
        m->deadline = 1;
        collect(m);
        assert_int_equal(m->tick.detail, 2);
        assert_true(sample_rows(m->sample, SCOPE_PROCESS) + 20 > rows && sample_rows(m->sample, SCOPE_PROCESS) > 0);
        m->deadline = 0;
        collect(m);
        assert_int_equal(m->tick.detail, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_everything_of_one_process, setup, teardown),
                cmocka_unit_test_setup_teardown(test_pid_reuse_and_exit, setup, teardown),
                cmocka_unit_test_setup_teardown(test_what_may_not_be_read_is_absent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_holes_in_a_captured_machine, setup, teardown),
                cmocka_unit_test_setup_teardown(test_schedstat_is_the_gate, setup, teardown),
                cmocka_unit_test_setup_teardown(test_counters_off, setup, teardown),
                cmocka_unit_test_setup_teardown(test_exec_and_setuid, setup, teardown),
                cmocka_unit_test_setup_teardown(test_d_state_keeps_its_hands_off, setup, teardown),
                cmocka_unit_test_setup_teardown(test_command_lines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sums_over_threads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_definition_changes_leave_a_hole, setup, teardown),
                cmocka_unit_test_setup_teardown(test_exec_by_a_thread, setup, teardown),
                cmocka_unit_test_setup_teardown(test_thread_rows, setup, teardown),
                cmocka_unit_test_setup_teardown(test_live_against_getrusage, setup, teardown),
        };
        return cmocka_run_group_tests(tests, start_child, NULL);
}

/*
 * The tracer on the running kernel, against programs whose waits are known (lab/), the kernel's own iowait, and the kernel's list of
 * attached programs. Skipped where tracing is not permitted or not built.
 *
 * Other load on the machine takes iowait away from everybody alike, so classes are judged by each waiter's own row, and sums against
 * /proc/stat over the same interval.
 */
#include "collectors/bpf/tracer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CORES = 1024, ROWS = 20000, TICK_MS = 10, FILE_BLOCKS = 256 };

static char folder[] = "/var/tmp/watop-tracer-XXXXXX", programs[4096];
static struct tracer_core before[CORES], after[CORES];
static struct tracer_waiter rows[ROWS];
static size_t row_count, core_count;
static uint64_t requests;        /* of the whole machine while it was observed */
static char why[256];

static uint64_t now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static double ms_of(uint64_t ns)
{
        return (double)(int64_t)ns / 1e6;
}

static void pause_ms(long ms)
{
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- programs of the lab ------------------------------------------------------------------------------------------------------------- */

struct lab {
        pid_t pid;
        int input;
};

/* Start one and wait until it says "ready". False: it could not do its job here. */
static bool lab_start(struct lab *lab, const char *const *arguments)
{
        extern char **environ;
        char path[4200], line[64] = "", *argv[16] = {0};
        int in[2], out[2];
        posix_spawn_file_actions_t actions;
        snprintf(path, sizeof path, "%s/lab_%s", programs, arguments[0]);
        for (size_t i = 0; arguments[i] && i < 15; i++)
                argv[i] = strdup(arguments[i]);
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        assert_int_equal(posix_spawn(&lab->pid, path, &actions, NULL, argv, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        for (size_t i = 0; argv[i]; i++)
                free(argv[i]);
        close(in[0]);
        close(out[1]);
        struct pollfd ready = {.fd = out[0], .events = POLLIN};
        ssize_t n = poll(&ready, 1, 20000) == 1 ? read(out[0], line, sizeof line - 1) : -1;
        lab->input = in[1];
        close(out[0]);
        return n > 0 && strncmp(line, "ready", 5) == 0;
}

static void lab_end(struct lab *lab)
{
        close(lab->input);
        kill(lab->pid, SIGTERM);
        waitpid(lab->pid, NULL, 0);
}

/* ---- what the tracer says ------------------------------------------------------------------------------------------------------------ */

static struct tracer *open_or_skip(void)
{
        struct tracer *tracer = NULL;
        int r = tracer_open(&tracer, why, sizeof why);
        if (r == -EPERM || r == -EACCES || r == -ENOENT || r == -ENOSYS || r == -EOPNOTSUPP) {
                print_message("# skipped: %s\n", why);
                skip();
        }
        if (r < 0)
                fail_msg("tracer_open: %s", why);
        return tracer;
}

static void attach(struct tracer *tracer)
{
        if (tracer_attach(tracer, why, sizeof why) < 0)
                fail_msg("tracer_attach: %s", why);
        assert_true(tracer_attached(tracer));
}

/* iowait of one core, ms; negative: not known */
static long kernel_iowait_ms(unsigned core)
{
        char line[512], name[16];
        unsigned long long v[5];
        long ms = -1;
        FILE *file = fopen("/proc/stat", "re");
        while (file && fgets(line, sizeof line, file))
                if (sscanf(line, "%15s %llu %llu %llu %llu %llu", name, &v[0], &v[1], &v[2], &v[3], &v[4]) == 6)
                        if (strncmp(name, "cpu", 3) == 0 && name[3] && strtoul(name + 3, NULL, 10) == core)
                                ms = (long)v[4] * TICK_MS;
        if (file)
                fclose(file);
        return ms;
}

/* The threads of one process, added up; `like` takes the last. */
static struct tracer_waiter of_process(pid_t pid, size_t *threads)
{
        struct tracer_waiter sum = {0};
        *threads = 0;
        for (size_t i = 0; i < row_count; i++) {
                if (rows[i].tgid != pid)
                        continue;
                struct tracer_waiter row = rows[i];
                row.disk_ns += sum.disk_ns;
                row.uring_ns += sum.uring_ns;
                row.other_ns += sum.other_ns;
                row.sleeps += sum.sleeps;
                sum = row;
                ++*threads;
        }
        return sum;
}

/* Requests that all block devices have completed. */
static uint64_t all_requests(void)
{
        char line[512];
        unsigned long long reads, writes, sum = 0;
        FILE *file = fopen("/proc/diskstats", "re");
        while (file && fgets(line, sizeof line, file))
                if (sscanf(line, "%*u %*u %*s %llu %*u %*u %*u %llu", &reads, &writes) == 2)
                        sum += reads + writes;
        if (file)
                fclose(file);
        return sum;
}

/* Attach, run for ms, read all. Parts of `core` over that time go to *parts, the kernel's iowait beside it to *kernel_ms. */
static void observe(struct tracer *tracer, unsigned core, long ms, struct tracer_core *parts, long *kernel_ms)
{
        attach(tracer);
        long kernel = kernel_iowait_ms(core);
        requests = all_requests();
        core_count = tracer_cores(tracer, now(), before, CORES);
        assert_true(core_count > core);
        for (long passed = 0; passed < ms; passed += 250) {
                pause_ms(250);
                tracer_maintain(tracer, now());
        }
        *kernel_ms = kernel_iowait_ms(core) - kernel;
        tracer_cores(tracer, now(), after, CORES);
        row_count = tracer_waiters(tracer, now(), rows, ROWS);
        requests = all_requests() - requests;
        parts->disk_ns = after[core].disk_ns - before[core].disk_ns;
        parts->uring_ns = after[core].uring_ns - before[core].uring_ns;
        parts->other_ns = after[core].other_ns - before[core].other_ns;
        parts->missed_disk_ns = after[core].missed_disk_ns - before[core].missed_disk_ns;
        parts->missed_uring_ns = after[core].missed_uring_ns - before[core].missed_uring_ns;
        parts->missed_other_ns = after[core].missed_other_ns - before[core].missed_other_ns;
        tracer_detach(tracer);
}

static unsigned last_core(void)
{
        return (unsigned)sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

/* ---- cases --------------------------------------------------------------------------------------------------------------------------- */

struct expectation {
        bool disk, uring, other;        /* the parts the program's waits may have; the first of them that is true must be there */
        bool sum;                       /* nothing else wakes on its core for long: the sum is the kernel's */
};

static const char *core_text(void)
{
        static char text[16];
        snprintf(text, sizeof text, "%u", last_core());
        return text;
}

enum fit { FITS, DISTURBED, DIFFERS };

/* The sum of the core's parts is the kernel's iowait, but for interrupts in idle time (many fast requests of others disturb that), and for
 * spans in which a change of the core was kept from us: some part of them was idle. */
static enum fit sum_fits(const struct tracer_core *parts, long kernel_ms)
{
        int64_t sum_ms = (int64_t)(parts->disk_ns + parts->uring_ns + parts->other_ns) / 1000000, off = sum_ms - kernel_ms;
        int64_t missed_ms = (int64_t)(parts->missed_disk_ns + parts->missed_uring_ns + parts->missed_other_ns) / 1000000;
        if (off <= 2 * TICK_MS && off + missed_ms >= -2 * TICK_MS)
                return FITS;
        print_message("# core: disk %.3f uring %.3f other %.3f ms, missed up to %lld, kernel %ld ms, %llu requests\n",
                ms_of(parts->disk_ns),
                ms_of(parts->uring_ns), ms_of(parts->other_ns), (long long)missed_ms, kernel_ms, (unsigned long long)requests);
        return off > 0 && requests > 500 ? DISTURBED : DIFFERS;
}

static enum fit fits(const struct expectation *expect, pid_t pid, const struct tracer_core *parts, long kernel_ms)
{
        size_t threads;
        struct tracer_waiter row = of_process(pid, &threads);
        uint64_t all = row.disk_ns + row.uring_ns + row.other_ns, slack = all / 100 + 200000;
        bool good = (expect->disk || row.disk_ns <= slack) && (expect->uring || row.uring_ns == 0) &&
                (expect->other || row.other_ns <= slack);
        if (good && all > 1000000)
                return expect->sum ? sum_fits(parts, kernel_ms) : FITS;
        print_message("# process %d: %zu threads, %llu sleeps, disk %.3f uring %.3f other %.3f ms, seeded %d\n", pid, threads,
                (unsigned long long)row.sleeps, ms_of(row.disk_ns), ms_of(row.uring_ns), ms_of(row.other_ns), row.seeded);
        return good ? DISTURBED : DIFFERS; /* disturbed: its core was never idle */
}

/* Run a program of the lab and hold the tracer against what it is known to do. Others at work may disturb: three attempts. */
static void expect(const char *const *arguments, const struct expectation *expectation, long ms)
{
        struct tracer *tracer = open_or_skip();
        struct lab lab;
        enum fit fit = DISTURBED;
        for (int attempt = 0; attempt < 3 && fit != FITS; attempt++) {
                struct tracer_core parts;
                long kernel_ms;
                if (!lab_start(&lab, arguments)) {
                        lab_end(&lab);
                        tracer_close(tracer);
                        print_message("# skipped: lab_%s cannot work here\n", arguments[0]);
                        skip();
                }
                pause_ms(200);
                observe(tracer, last_core(), ms, &parts, &kernel_ms);
                fit = fits(expectation, lab.pid, &parts, kernel_ms);
                lab_end(&lab);
        }
        tracer_close(tracer);
        if (fit == DISTURBED) {
                print_message("# skipped: the core was too busy with others\n");
                skip();
        }
        assert_int_equal(fit, FITS);
}

static const char *data_file(void)
{
        static char path[64];
        static char block[4096];
        snprintf(path, sizeof path, "%s/data", folder);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
                for (int i = 0; i < FILE_BLOCKS; i++) {
                        memset(block, i * 37 + 1, sizeof block);
                        assert_int_equal(write(fd, block, sizeof block), sizeof block);
                }
                fsync(fd);
                close(fd);
        }
        return path;
}

static void parked_before_attach(void **state)
{
        const char *const arguments[] = {"reactor", "--cores", core_text(), "--mode", "poll", NULL};
        expect(arguments, &(struct expectation){.uring = true, .sum = true}, 2000);
}

static void nothing_pending(void **state)
{
        const char *const arguments[] = {"reactor", "--cores", core_text(), "--mode", "nop", NULL};
        expect(arguments, &(struct expectation){.uring = true, .sum = true}, 1000);
}

static void wakes_often(void **state)
{
        const char *const arguments[] = {"reactor", "--cores", core_text(), "--mode", "echo", "--client", "0", "--rate", "1000", NULL};
        expect(arguments, &(struct expectation){.uring = true}, 1500);
}

static void direct_reads(void **state)
{
        const char *const arguments[] = {"reader", "--file", data_file(), "--core", core_text(), NULL};
        expect(arguments, &(struct expectation){.disk = true}, 1000);
}

static void ring_reads(void **state)
{
        const char *const arguments[] = {"uring_reader", "--file", data_file(), "--core", core_text(), "--direct", "1", "--poll", "1",
                NULL};
        expect(arguments, &(struct expectation){.disk = true}, 1000);
}

static void ring_appends(void **state)
{
        char path[64];
        snprintf(path, sizeof path, "%s/append", folder);
        const char *const arguments[] = {"uring_append", "--file", path, "--core", core_text(), NULL};
        expect(arguments, &(struct expectation){.disk = true, .other = true}, 1000);
}

/* A file server: page by page through the cache, with and without a ring. */
static void file_server(void **state)
{
        char mount[64], path[80];
        struct lab server;
        snprintf(mount, sizeof mount, "%s/mount", folder);
        snprintf(path, sizeof path, "%s/file", mount);
        mkdir(mount, 0700);
        const char *const arguments[] = {"fuse_slow", "--mount", mount, "--delay", "20", "--size", "64", NULL};
        if (access("/dev/fuse", R_OK | W_OK) != 0 || !lab_start(&server, arguments)) {
                print_message("# skipped: no /dev/fuse, or no mount here\n");
                skip();
        }
        const char *const reader[] = {*state, "--file", path, "--core", core_text(), "--how", "buffered", NULL};
        expect(reader, &(struct expectation){.other = true}, 1000);
        lab_end(&server);
}

/* ---- who sleeps already at attach ---------------------------------------------------------------------------------------------------- */

/* Rings can be counted out since 6.0, where this struct came (and is in the kernel's type information). */
static bool counts_rings(void)
{
        struct btf *btf = btf__load_vmlinux_btf();
        bool counted = btf && btf__find_by_name_kind(btf, "io_hash_bucket", BTF_KIND_STRUCT) > 0;
        btf__free(btf);
        return counted;
}

/* A program that sleeps on its ring is found asleep. Returns what is known of it. */
static struct tracer_waiter found_asleep(struct tracer *tracer, const char *const *arguments)
{
        struct tracer_waiter row = {0};
        struct lab lab;
        for (int attempt = 0; attempt < 10 && !(row.asleep && row.since_ns == 0); attempt++) {
                if (!lab_start(&lab, arguments)) {
                        lab_end(&lab);
                        return (struct tracer_waiter){0};
                }
                pause_ms(100 + 100 * attempt);
                attach(tracer);
                row_count = tracer_waiters(tracer, now(), rows, ROWS);
                for (size_t i = 0; i < row_count; i++)
                        if (rows[i].ring_wait && rows[i].tgid == lab.pid)
                                row = rows[i];
                tracer_detach(tracer);
                lab_end(&lab);
        }
        return row;
}

static void idle_rings_are_counted_out(void **state)
{
        static const char *const modes[] = {"poll", "nop", "multi", "recv", "eventfd", "timeout", "async", "defer", "coop"};
        (void)state;
        struct tracer *tracer = open_or_skip();
        if (!counts_rings()) {
                tracer_close(tracer);
                print_message("# skipped: this kernel's rings cannot be counted\n");
                skip();
        }
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
                const char *const arguments[] = {"reactor", "--cores", core_text(), "--mode", modes[i], NULL};
                struct tracer_waiter row = found_asleep(tracer, arguments);
                if (!row.asleep) {
                        print_message("# %s: not here\n", modes[i]);
                        continue;
                }
                print_message("# %s: seeded %d\n", modes[i], row.seeded);
                assert_true(row.ring_wait);
                assert_int_equal(row.class, TRACER_URING);
                assert_false(row.seeded);
        }
        tracer_close(tracer);
}

/* A poll armed and a read under way that nobody saw begin: that is no idle ring. */
static void pending_storage_is_not_counted_out(void **state)
{
        char mount[64], path[80];
        struct lab server;
        (void)state;
        struct tracer *tracer = open_or_skip();
        snprintf(mount, sizeof mount, "%s/slow", folder);
        snprintf(path, sizeof path, "%s/file", mount);
        mkdir(mount, 0700);
        const char *const arguments[] = {"fuse_slow", "--mount", mount, "--delay", "2000", "--size", "64", NULL};
        if (access("/dev/fuse", R_OK | W_OK) != 0 || !lab_start(&server, arguments)) {
                tracer_close(tracer);
                print_message("# skipped: no /dev/fuse, or no mount here\n");
                skip();
        }
        static const char *const polls[] = {"0", "1"};
        for (size_t i = 0; i < 2; i++) {
                const char *const reader[] = {"uring_reader", "--file", path, "--core", core_text(), "--poll", polls[i], NULL};
                struct tracer_waiter row = found_asleep(tracer, reader);
                print_message("# poll %s: asleep %d, seeded %d\n", polls[i], row.asleep, row.seeded);
                assert_true(row.asleep && row.seeded);
        }
        lab_end(&server);
        tracer_close(tracer);
}

/* ---- rings that are hard to keep apart ----------------------------------------------------------------------------------------------- */

/* A thread of the program, over many looks: how often it slept in a ring wait, and what that was taken for. Looks, not times: a core that
 * others keep busy has none. */
struct looked {
        int tid;
        unsigned asleep, unknown, idle;
};

enum { THREADS_MOST = 16, LOOKS = 60 };

static size_t look_often(struct tracer *tracer, pid_t pid, struct looked *threads)
{
        size_t count = 0;
        for (unsigned look = 0; look < LOOKS; look++) {
                pause_ms(7);
                row_count = tracer_waiters(tracer, now(), rows, ROWS);
                for (size_t i = 0; i < row_count; i++) {
                        size_t k = 0;
                        if (rows[i].tgid != pid || !rows[i].ring_wait || !rows[i].asleep)
                                continue;
                        while (k < count && threads[k].tid != rows[i].tid)
                                k++;
                        if (k == THREADS_MOST)
                                continue;
                        if (k == count)
                                threads[count++] = (struct looked){.tid = rows[i].tid};
                        threads[k].asleep++;
                        threads[k].unknown += rows[i].seeded;
                        threads[k].idle += !rows[i].seeded && rows[i].class == TRACER_URING;
                }
        }
        return count;
}

/* A crowd waits for a slow file server's file: `known` of its `threads` are told or more (0: none), and none of them as idle reactors
 * but in the moments between two reads. The others say that their ring is not known. */
static void crowd_waits(struct tracer *tracer, const char *delay, const char *option, const char *value, size_t threads, size_t known)
{
        struct looked looked[THREADS_MOST];
        char mount[64], path[80];
        struct lab server, crowd;
        snprintf(mount, sizeof mount, "%s/crowd", folder);
        snprintf(path, sizeof path, "%s/file", mount);
        mkdir(mount, 0700);
        const char *const arguments[] = {"fuse_slow", "--mount", mount, "--delay", delay, "--size", "64", NULL};
        if (access("/dev/fuse", R_OK | W_OK) != 0 || !lab_start(&server, arguments)) {
                tracer_close(tracer);
                print_message("# skipped: no /dev/fuse, or no mount here\n");
                skip();
        }
        const char *const waiters[] = {"crowd", "--file", path, "--core", core_text(), option, value, NULL};
        bool ready = lab_start(&crowd, waiters);
        size_t count = ready ? look_often(tracer, crowd.pid, looked) : 0, told = 0, wrong = 0;
        lab_end(&server); /* first: who waits for it gets an error */
        lab_end(&crowd);
        if (!ready) {
                tracer_close(tracer);
                print_message("# skipped: lab_crowd cannot work here\n");
                skip();
        }
        for (size_t i = 0; i < count; i++) {
                const struct looked *thread = &looked[i];
                told += thread->unknown < thread->asleep / 2;
                wrong += thread->idle > thread->asleep / 2;
                print_message("# thread %d: asleep at %u looks, ring unknown at %u, idle reactor at %u\n", thread->tid, thread->asleep,
                        thread->unknown, thread->idle);
        }
        assert_int_equal(wrong, 0);
        assert_int_equal(count, threads);
        assert_true(known == 0 ? told == 0 : told >= known);
}

/* Two and more than a ring's entry has room for. */
static void many_on_one_ring(void **state)
{
        struct tracer *tracer = open_or_skip();
        (void)state;
        attach(tracer);
        crowd_waits(tracer, "20", "--threads", "2", 2, 2);
        crowd_waits(tracer, "20", "--threads", "7", 7, 4);
        tracer_close(tracer);
}

/* Thousands of rings push no busy one out; one for which there is no room is told as unknown, until unused ones have left. */
static void thousands_of_rings(void **state)
{
        struct tracer *tracer = open_or_skip();
        (void)state;
        attach(tracer);
        crowd_waits(tracer, "9000", "--rings", "4600", 1, 1);
        tracer_maintain(tracer, now() + 10000000000u); /* as if 10 s passed */
        crowd_waits(tracer, "9000", "--rings-before", "4600", 1, 0);
        tracer_maintain(tracer, now() + 20000000000u);
        crowd_waits(tracer, "20", "--threads", "2", 2, 2);
        tracer_close(tracer);
}

/* ---- attached or not ----------------------------------------------------------------------------------------------------------------- */

/* Programs of ours in the kernel, and how many links there are in all that belong to one. */
static void count_attached(unsigned *loaded, unsigned *linked)
{
        uint32_t ids[256], id = 0;
        size_t count = 0;
        *loaded = *linked = 0;
        while (bpf_prog_get_next_id(id, &id) == 0) {
                struct bpf_prog_info info = {0};
                uint32_t length = sizeof info;
                int fd = bpf_prog_get_fd_by_id(id);
                if (fd < 0)
                        continue;
                if (bpf_obj_get_info_by_fd(fd, &info, &length) == 0 && strncmp(info.name, "watop_", 6) == 0 && count < 256)
                        ids[count++] = id;
                close(fd);
        }
        *loaded = (unsigned)count;
        id = 0;
        while (bpf_link_get_next_id(id, &id) == 0) {
                struct bpf_link_info info = {0};
                uint32_t length = sizeof info;
                int fd = bpf_link_get_fd_by_id(id);
                if (fd < 0)
                        continue;
                if (bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
                        for (size_t i = 0; i < count; i++)
                                *linked += ids[i] == info.prog_id;
                close(fd);
        }
}

/* Only what we add counts: another watopd may be at work here. The kernel takes programs away a moment after their last descriptor. */
static bool settles(unsigned loaded, unsigned linked)
{
        unsigned l, k;
        for (int i = 0; i < 100; i++) {
                count_attached(&l, &k);
                if (l <= loaded && k <= linked)
                        return true;
                pause_ms(50);
        }
        print_message("# %u programs loaded (%u before), %u linked (%u before)\n", l, loaded, k, linked);
        return false;
}

static void nothing_attached_when_off(void **state)
{
        unsigned loaded, linked, loaded_open, linked_open;
        struct tracer *tracer;
        tracer_close(NULL);
        tracer = open_or_skip();
        tracer_close(tracer);
        pause_ms(200);
        count_attached(&loaded, &linked);
        tracer = open_or_skip();
        count_attached(&loaded_open, &linked_open);
        assert_true(loaded_open > loaded);
        assert_int_equal(linked_open, linked);
        for (int i = 0; i < 3; i++) {
                unsigned attached;
                attach(tracer);
                attach(tracer); /* twice is once */
                count_attached(&loaded_open, &attached);
                assert_true(attached > linked);
                tracer_detach(tracer);
                assert_false(tracer_attached(tracer));
                assert_true(settles(loaded_open, linked));
        }
        tracer_close(tracer);
        assert_true(settles(loaded, linked));
}

static void killed_leaves_nothing(void **state)
{
        unsigned loaded, linked, attached;
        int ready[2];
        char byte = 0;
        tracer_close(open_or_skip());
        pause_ms(200);
        count_attached(&loaded, &linked);
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                struct tracer *tracer;
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                byte = tracer_open(&tracer, why, sizeof why) == 0 && tracer_attach(tracer, why, sizeof why) == 0 ? 'y' : 'n';
                if (write(ready[1], &byte, 1) == 1)
                        for (;;)
                                pause();
                _exit(1);
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        count_attached(&attached, &attached);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_int_equal(byte, 'y');
        assert_true(attached > linked);
        assert_true(settles(loaded, linked));
}

/* Opened as root, attached without any right but the descriptors (kernels that allow it; others say so). */
static void attach_without_rights(void **state)
{
        struct tracer *tracer = open_or_skip();
        if (geteuid() != 0) {
                tracer_close(tracer);
                skip();
        }
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
                        _exit(2);
                int r = tracer_attach(tracer, why, sizeof why);
                if (r < 0)
                        _exit(strstr(why, "not permitted") ? 77 : 3);
                tracer_maintain(tracer, now());
                _exit(tracer_attached(tracer) ? 0 : 4);
        }
        int status;
        waitpid(child, &status, 0);
        tracer_close(tracer);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("# skipped: this kernel asks for CAP_BPF to attach\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* Threads that end give their slots back. */
static void slots_do_not_leak(void **state)
{
        struct tracer *tracer = open_or_skip();
        const char *path = data_file();
        size_t mine = 0;
        attach(tracer);
        for (int i = 0; i < 400; i++) {
                pid_t child = fork();
                assert_true(child >= 0);
                if (child == 0) {
                        void *buffer = NULL;
                        int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
                        if (fd < 0 || posix_memalign(&buffer, 4096, 4096) != 0)
                                _exit(1);
                        _exit(pread(fd, buffer, 4096, i % FILE_BLOCKS * 4096) != 4096);
                }
                int status;
                waitpid(child, &status, 0);
                assert_int_equal(status, 0);
        }
        row_count = tracer_waiters(tracer, now(), rows, ROWS);
        for (size_t i = 0; i < row_count; i++)
                mine += strcmp(rows[i].comm, "test_tracer") == 0;
        assert_true(mine > 200); /* each of them waited, and is still told */
        pause_ms(300);           /* their structures are freed after a grace period */
        for (int i = 0; i < 8; i++) {
                tracer_maintain(tracer, now() + (uint64_t)i * 20000000000u); /* as if 20 s passed */
                pause_ms(50);
        }
        row_count = tracer_waiters(tracer, now(), rows, ROWS);
        mine = 0;
        for (size_t i = 0; i < row_count; i++)
                mine += strcmp(rows[i].comm, "test_tracer") == 0;
        if (mine > 20)
                print_message("# %zu rows of ended children are left\n", mine);
        assert_true(mine <= 20);
        struct tracer_stats stats;
        tracer_stats(tracer, &stats);
        assert_int_equal(stats.overflow, 0);
        tracer_close(tracer);
}

static int set_up(void **state)
{
        ssize_t n = readlink("/proc/self/exe", programs, sizeof programs - 1);
        char *slash = n > 0 ? memrchr(programs, '/', (size_t)n) : NULL;
        if (!slash || !mkdtemp(folder))
                return -1;
        *slash = '\0';
        return 0;
}

static int tear_down(void **state)
{
        static const char *const names[] = {"data", "append", "mount", "slow", "crowd", ""};
        char path[64];
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
                snprintf(path, sizeof path, "%s/%s", folder, names[i]);
                remove(path);
        }
        return 0;
}

int main(void)
{
        static char reader[] = "reader", uring_reader[] = "uring_reader";
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_attached_when_off),
                cmocka_unit_test(killed_leaves_nothing),
                cmocka_unit_test(attach_without_rights),
                cmocka_unit_test(parked_before_attach),
                cmocka_unit_test(nothing_pending),
                cmocka_unit_test(idle_rings_are_counted_out),
                cmocka_unit_test(pending_storage_is_not_counted_out),
                cmocka_unit_test(wakes_often),
                cmocka_unit_test(direct_reads),
                cmocka_unit_test(ring_reads),
                cmocka_unit_test(ring_appends),
                cmocka_unit_test(many_on_one_ring),
                cmocka_unit_test(thousands_of_rings),
                {"file_server_through_the_page_cache", file_server, NULL, NULL, reader},
                {"file_server_through_a_ring", file_server, NULL, NULL, uring_reader},
                cmocka_unit_test(slots_do_not_leak),
        };
        return cmocka_run_group_tests(tests, set_up, tear_down);
}

/*
 * The parts of the task collectors by themselves: parsers of a task's files, names of units and users, and reads that hang.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectors/slow.h"
#include "collectors/task.h"
#include "collectors/unit.h"
#include "collectors/user.h"

#define NUMBERS \
        "1 2 3 4 5 4194560 100 0 7 0 250 50 0 0 20 -5 3 0 12345 1048576 300 18446744073709551615 " \
        "11 12 13 0 0 0 0 0 0 0 0 0 17 6 0 0 42 9 0 14 15 16 17 18 19 20 0"

static bool parse(const char *text, struct task_stat *stat)
{
        size_t length = strlen(text);
        char *exact = malloc(length); /* so that a sanitizer sees one byte too far */
        memcpy(exact, text, length);
        bool r = task_parse_stat(exact, length, 100, 4096, stat);
        free(exact);
        return r;
}

static void test_stat_fields(void **unused)
{
        struct task_stat s;

        assert_true(parse("77 (name) S " NUMBERS "\n", &s));
        assert_int_equal(s.state, 'S');
        assert_int_equal(s.parent, 1);
        assert_int_equal(s.session, 3);
        assert_int_equal(s.flags, 4194560);
        assert_int_equal(s.minflt, 100);
        assert_int_equal(s.majflt, 7);
        assert_int_equal(s.user_ns, 2500000000);
        assert_int_equal(s.system_ns, 500000000);
        assert_int_equal(s.priority, 20);
        assert_int_equal(s.nice, -5);
        assert_int_equal(s.threads, 3);
        assert_int_equal(s.start_ns, 123450000000);
        assert_int_equal(s.vsize, 1048576);
        assert_int_equal(s.rss, 300 * 4096);
        assert_int_equal(s.core, 6);
        assert_int_equal(s.block_ns, 420000000);
        assert_int_equal(s.guest_ns, 90000000);
}

static void test_stat_odd_names(void **unused)
{
        static const char *const names[] = { "", " ", ")", "(", ") S 1 (", "a b", "a\nb", "((x))", "\xff\xfe", "tmux: server)" };
        struct task_stat s;
        char text[600];

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                snprintf(text, sizeof text, "7 (%s) D " NUMBERS, names[i]);
                assert_true(parse(text, &s));
                assert_int_equal(s.state, 'D');
                assert_int_equal(s.comm_length, strlen(names[i]));
                assert_memory_equal(s.comm, names[i], s.comm_length);
                assert_int_equal(s.threads, 3);
        }
}

static void test_stat_refuses(void **unused)
{
        static const char *const texts[] = { "", "7", "7 (", "7 (a", "7 (a)", "7 (a) S", "7 )a( S 1", "7 (a) S 1 2 3", "7 (a) S x",
                "7 a S 1 2", "()", ")(" };
        struct task_stat s;

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                assert_false(parse(texts[i], &s));
        /* Every cut of a good line: refused, or what stands before the cut. */
        const char *good = "77 (name) S " NUMBERS;
        for (size_t n = 0; n < strlen(good); n++) {
                char *cut = strndup(good, n);
                if (parse(cut, &s))
                        assert_int_equal(s.minflt, 100);
                free(cut);
        }
}

static void test_small_files(void **unused)
{
        struct task_sched sched;
        struct task_io io;
        struct task_status status;
        uint64_t rss;
        static const char io_text[] = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        static const char status_text[] =
                "Name:\tUid:\\nUid:\t9\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";

        assert_true(task_parse_schedstat("10 20 30\n", 9, &sched));
        assert_int_equal(sched.delay_ns, 20);
        assert_false(task_parse_schedstat("10 20", 5, &sched));
        assert_true(task_parse_io(io_text, sizeof io_text - 1, &io));
        assert_int_equal(io.write_bytes, 6);
        assert_int_equal(io.cancelled, 7);
        assert_false(task_parse_io(io_text, sizeof io_text - 30, &io)); /* a line is missing */
        assert_true(task_parse_status(status_text, sizeof status_text - 1, &status));
        assert_int_equal(status.uid, 1000);
        assert_int_equal(status.voluntary, 12);
        assert_int_equal(status.involuntary, 3);
        assert_true(task_parse_statm("100 25 3 1 0 9 0", 16, 4096, &rss));
        assert_int_equal(rss, 25 * 4096);
        assert_false(task_parse_statm("100", 3, 4096, &rss));
}

static void test_cgroup_choice(void **unused)
{
        static const struct { const char *text, *path; } cases[] = {
                { "0::/system.slice/a.service\n", "/system.slice/a.service" },
                { "9:name=systemd:/b.service\n4:memory:/m\n0::/\n", "/b.service" },
                { "4:memory:/docker/x\n1:cpu:/\n0::/\n", "/docker/x" },
                { "2:cpu:/x\n3:pids:/y\n", "/y" },
                { "0::/a:b\n", "/a:b" },
                { "9:name=systemd:/\n0::/\n", "/" },
                { "nonsense\n0:\n::\n", NULL },
        };
        const char *path;
        size_t n;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                bool found = task_parse_cgroup(cases[i].text, strlen(cases[i].text), &path, &n);
                assert_int_equal(found, cases[i].path != NULL);
                if (found) {
                        assert_int_equal(n, strlen(cases[i].path));
                        assert_memory_equal(path, cases[i].path, n);
                }
        }
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_unit_names(void **unused)
{
        static const struct { const char *path, *unit; } cases[] = {
                { "/system.slice/dragonfly.service", "dragonfly.service" },
                { "/user.slice/user-1000.slice/session-3.scope", "session-3.scope" },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/app-foo.service", "app-foo.service" },
                { "/init.scope", "init.scope" },
                { "/system.slice/dev\\x2dhugepages.service/worker", "dev-hugepages.service" },
                { "/system.slice/docker-" ID ".scope", "docker-0123456789ab" },
                { "/docker/" ID, "docker-0123456789ab" },
                { "/docker/" ID "/init.scope", "docker-0123456789ab" },
                { "/machine.slice/libpod-" ID ".scope/container", "podman-0123456789ab" },
                { "/libpod_parent/libpod-" ID, "podman-0123456789ab" },
                { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" ID ".scope",
                        "containerd-0123456789ab" },
                { "/kubepods/burstable/pod12-34/" ID, "kubepods-0123456789ab" },
                { "/kubepods.slice/kubepods-pod1.slice/crio-" ID ".scope", "crio-0123456789ab" },
                { "/default/" ID, "container-0123456789ab" },
                { "/lxc.payload.web/system.slice/nginx.service", "lxc-web" },
                { "/lxc/web", "lxc-web" },
                { "/machine.slice/machine-qemu\\x2d3\\x2ddb01.scope/libvirt/emulator", "db01" },
                { "/machine.slice/machine-qemu\\x2d12\\x2da\\x2db.scope", "a-b" },
                { "/machine.slice/machine-deb.scope", "deb" },
                { "/", NULL }, { "", NULL }, { "/user.slice", NULL }, { "/foo/bar", NULL }, { "/.service", NULL }, { "/docker-xyz.scope",
                        "docker-xyz.scope" },
                { "/docker/0123", NULL }, { "/machine-.scope", "machine-.scope" },
        };
        char out[UNIT_NAME_MAX];

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                size_t n = unit_of_cgroup(cases[i].path, strlen(cases[i].path), out, sizeof out);
                assert_string_equal(n ? out : "none", cases[i].unit ? cases[i].unit : "none");
        }
        char small[6];
        assert_int_equal(unit_of_cgroup("/a/long.service", 15, small, sizeof small), 5);
        assert_string_equal(small, "long.");
}

static void test_qemu_names(void **unused)
{
#define ARGS(text) text, sizeof text - 1
        static const struct { const char *line; size_t length; const char *name; } cases[] = {
                { ARGS("/usr/bin/qemu-system-x86_64\0-name\0guest=db01,debug-threads=on\0-m\0""4\0"), "db01" },
                { ARGS("qemu-kvm\0-m\0""4\0-name\0db02,process=x\0"), "db02" },
                { ARGS("kvm\0--name\0debug-threads=on,guest=db,,03\0"), "db,03" },
                { ARGS("qemu-system-x86_64\0-name\0debug-threads=on\0"), NULL },
                { ARGS("qemu-system-x86_64\0-name\0"), NULL },
                { ARGS("qemu-system-x86_64\0-name"), NULL },
                { ARGS("qemu-img\0-name\0guest=x\0"), NULL },
                { ARGS("sh\0-name\0guest=x\0"), NULL },
                { ARGS("qemu-system-arm\0-name\0guest=cu"), "cu" },
                { ARGS("\0\0"), NULL }, { ARGS(""), NULL },
        };
        char out[UNIT_NAME_MAX];

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *exact = malloc(cases[i].length + 1);
                memcpy(exact, cases[i].line, cases[i].length);
                size_t n = unit_of_qemu(exact, cases[i].length, out, sizeof out);
                free(exact);
                assert_string_equal(n ? out : "none", cases[i].name ? cases[i].name : "none");
        }
}

static void test_users(void **unused)
{
        char dir[] = "/tmp/test_usersXXXXXX", path[64];
        struct procfs *procfs;
        struct users *users;
        char name[16];

        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof path, "%s/etc", dir);
        mkdir(path, 0755);
        snprintf(path, sizeof path, "%s/etc/passwd", dir);
        FILE *f = fopen(path, "w");
        fputs("root:x:0:0::/:/bin/sh\n#c:x:5:5\nbroken\nlongname_longname:x:1000:1\ntoor:x:0:0\n+nis:x:7:7\n::9:9\nlast:x:42:", f);
        fclose(f);
        assert_int_equal(procfs_open_root(dir, &procfs), 0);
        assert_int_equal(users_new(procfs, &users), 0);
        users_name(users, 0, name, sizeof name);
        assert_string_equal(name, "root");
        assert_int_equal(users_name(users, 1000, name, sizeof name), 15);
        assert_string_equal(name, "longname_longna");
        users_name(users, 42, name, sizeof name);
        assert_string_equal(name, "last");
        users_name(users, 5, name, sizeof name);
        assert_string_equal(name, "5");
        users_name(users, 4294967295u, name, sizeof name);
        assert_string_equal(name, "4294967295");
        users_free(users);
        procfs_close_root(procfs);
        unlink(path);
        snprintf(path, sizeof path, "%s/etc", dir);
        rmdir(path);
        rmdir(dir);
}

/* ---- slow -------------------------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Opens the FIFO and waits for a byte: as stuck as a read of cmdline behind a held mmap lock. */
static ssize_t plain_read(void *arg, const char *path, char *buffer, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = read(fd, buffer, size);
        close(fd);
        return n < 0 ? -errno : n;
}

struct fifo {
        char dir[32], path[SLOW_PATH], file[SLOW_PATH];
        struct slow *slow;
};

static int fifo_setup(void **state)
{
        struct fifo *f = calloc(1, sizeof *f);
        strcpy(f->dir, "/tmp/test_slowXXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->path, sizeof f->path, "%s/fifo", f->dir);
        snprintf(f->file, sizeof f->file, "%s/file", f->dir);
        assert_int_equal(mkfifo(f->path, 0600), 0);
        int fd = open(f->file, O_CREAT | O_WRONLY, 0600);
        char byte = 'x';
        for (int i = 0; i < 17000; i++)
                assert_int_equal(write(fd, &byte, 1), 1);
        close(fd);
        assert_int_equal(slow_new(plain_read, NULL, &f->slow), 0);
        *state = f;
        return 0;
}

/* Let everybody who waits at the FIFO go. */
static void release(struct fifo *f)
{
        int fd;

        while (slow_abandoned(f->slow) > 0) {
                if ((fd = open(f->path, O_WRONLY | O_NONBLOCK)) >= 0)
                        close(fd); /* readers get end of file */
                usleep(1000);
        }
}

static int fifo_teardown(void **state)
{
        struct fifo *f = *state;
        release(f);
        slow_free(f->slow);
        unlink(f->path);
        unlink(f->file);
        rmdir(f->dir);
        free(f);
        return 0;
}

static void ask(struct slow_request *r, const char *path)
{
        memset(r, 0, sizeof *r);
        snprintf(r->path, sizeof r->path, "%s", path);
}

static void test_slow_reads(void **state)
{
        struct fifo *f = *state;
        struct slow_request r[SLOW_BATCH];

        for (int i = 0; i < SLOW_BATCH; i++)
                ask(&r[i], i % 2 ? f->file : "/nonexistent");
        slow_run(f->slow, r, SLOW_BATCH, 1000000000, now_ns() + 2000000000);
        for (int i = 0; i < SLOW_BATCH; i++) {
                assert_int_equal(r[i].result, i % 2 ? SLOW_BYTES : -ENOENT);
                if (i % 2)
                        assert_int_equal(r[i].bytes[SLOW_BYTES - 1], 'x');
        }
        assert_int_equal(slow_abandoned(f->slow), 0);
}

static void test_slow_abandons(void **state)
{
        struct fifo *f = *state;
        struct slow_request r[4];

        ask(&r[0], f->file);
        ask(&r[1], f->path);
        ask(&r[2], f->file);
        ask(&r[3], "/nonexistent");
        uint64_t start = now_ns();
        slow_run(f->slow, r, 4, 50000000, now_ns() + 5000000000);
        assert_true(now_ns() - start < 1000000000);
        assert_int_equal(r[0].result, SLOW_BYTES);
        assert_int_equal(r[0].bytes[0], 'x'); /* kept although its worker is gone */
        assert_int_equal(r[1].result, -ETIMEDOUT);
        assert_int_equal(r[2].result, SLOW_BYTES);
        assert_int_equal(r[3].result, -ENOENT);
        assert_int_equal(slow_abandoned(f->slow), 1);
        assert_true(slow_is_out(f->slow, r[1].ticket));
        uint64_t ticket = r[1].ticket;
        release(f);
        assert_false(slow_is_out(f->slow, ticket));
}

static void test_slow_has_a_limit(void **state)
{
        struct fifo *f = *state;
        struct slow_request r[SLOW_ABANDONED + 2];

        for (int i = 0; i < SLOW_ABANDONED + 2; i++)
                ask(&r[i], f->path);
        ask(&r[SLOW_ABANDONED + 1], f->file);
        slow_run(f->slow, r, SLOW_ABANDONED + 2, 20000000, now_ns() + 5000000000);
        for (int i = 0; i < SLOW_ABANDONED; i++)
                assert_int_equal(r[i].result, -ETIMEDOUT);
        assert_int_equal(r[SLOW_ABANDONED].result, -EBUSY);
        assert_int_equal(r[SLOW_ABANDONED + 1].result, -EBUSY);
        release(f);
        slow_run(f->slow, r + SLOW_ABANDONED + 1, 1, 1000000000, now_ns() + 2000000000);
        assert_int_equal(r[SLOW_ABANDONED + 1].result, SLOW_BYTES);
}

static void test_slow_keeps_time(void **state)
{
        struct fifo *f = *state;
        struct slow_request r[2];

        /* The run's time ends before the read is called hung: nothing is abandoned yet ... */
        ask(&r[0], f->path);
        ask(&r[1], f->file);
        slow_run(f->slow, r, 2, 1000000000, now_ns() + 20000000);
        assert_int_equal(r[0].result, -ETIME);
        assert_int_equal(r[1].result, -ETIME);
        assert_int_equal(slow_abandoned(f->slow), 0);
        /* ... but by the next run, which still gets its answer. */
        slow_run(f->slow, r + 1, 1, 50000000, now_ns() + 5000000000);
        assert_int_equal(r[1].result, SLOW_BYTES);
        assert_int_equal(slow_abandoned(f->slow), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stat_fields),
                cmocka_unit_test(test_stat_odd_names),
                cmocka_unit_test(test_stat_refuses),
                cmocka_unit_test(test_small_files),
                cmocka_unit_test(test_cgroup_choice),
                cmocka_unit_test(test_unit_names),
                cmocka_unit_test(test_qemu_names),
                cmocka_unit_test(test_users),
                cmocka_unit_test_setup_teardown(test_slow_reads, fifo_setup, fifo_teardown),
                cmocka_unit_test_setup_teardown(test_slow_abandons, fifo_setup, fifo_teardown),
                cmocka_unit_test_setup_teardown(test_slow_has_a_limit, fifo_setup, fifo_teardown),
                cmocka_unit_test_setup_teardown(test_slow_keeps_time, fifo_setup, fifo_teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

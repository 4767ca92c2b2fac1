/*
 * The opener: nothing outside a captured tree is reached, nothing blocks, errors come back as recorded, and a capture read back says what
 * was read.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collectors/anonymize.h"
#include "collectors/confine.h"
#include "collectors/procfs.h"
#include "tests/machine.h"

struct fixture {
        struct machine machine;
        struct procfs *p;
};

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof *f);
        machine_make(&f->machine);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        confine_without_openat2(0);
        procfs_close_root(f->p);
        machine_remove(&f->machine);
        free(f);
        return 0;
}

static void open_machine(struct fixture *f)
{
        procfs_close_root(f->p);
        f->p = NULL;
        assert_int_equal(procfs_open_root(f->machine.dir, &f->p), 0);
}

/* ---- staying inside ------------------------------------------------------------------------------------------------ */

static void escapes(struct fixture *f)
{
        char text[256];
        machine_write(&f->machine, "secret", "outside\n");
        machine_write(&f->machine, "0000/proc/good", "inside\n");
        machine_write(&f->machine, "0000/secret2", "at root\n");
        machine_link(&f->machine, "0000/proc/up", "../../secret");
        machine_link(&f->machine, "0000/proc/far", "../../../../../../../../etc/passwd");
        machine_link(&f->machine, "0000/proc/absolute", "/etc/passwd");
        machine_link(&f->machine, "0000/proc/absolute_good", "/proc/good");
        machine_link(&f->machine, "0000/proc/folder", "/../../..");
        machine_link(&f->machine, "0000/proc/loop", "loop");
        machine_link(&f->machine, "0000/proc/chain", "../proc/./absolute_good");
        machine_link(&f->machine, "0000/proc/self", "good/");
        open_machine(f);
        assert_int_equal(procfs_read(f->p, "proc/good", text, sizeof text), 7);
        assert_string_equal(text, "inside\n");
        assert_int_equal(procfs_read(f->p, "/proc/good", text, sizeof text), 7);
        assert_int_equal(procfs_read(f->p, "proc/up", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/far", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/absolute", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/absolute_good", text, sizeof text), 7);
        assert_int_equal(procfs_read(f->p, "proc/chain", text, sizeof text), 7);
        assert_int_equal(procfs_read(f->p, "../secret", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/../../secret", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/../secret2", text, sizeof text), 8);
        assert_int_equal(procfs_read(f->p, "proc/folder/secret2", text, sizeof text), 8);
        assert_int_equal(procfs_read(f->p, "proc/folder/secret", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_read(f->p, "proc/loop", text, sizeof text), -ELOOP);
        assert_true(procfs_read(f->p, "proc/good/more", text, sizeof text) < 0);
        assert_int_equal(procfs_read(f->p, "proc", text, sizeof text), -EISDIR);
}

static void test_escape(void **state)
{
        escapes(*state);
}

static void test_escape_without_openat2(void **state)
{
        confine_without_openat2(1);
        escapes(*state);
}

static void special_files(struct fixture *f)
{
        char full[1024], text[64];
        assert_int_equal(mkfifo(machine_path(&f->machine, "0000/proc/fifo", full), 0600), 0);
        machine_link(&f->machine, "0000/proc/to_fifo", "fifo");
        open_machine(f);
        alarm(20); /* it would hang here */
        assert_int_equal(procfs_read(f->p, "proc/fifo", text, sizeof text), -EINVAL);
        assert_int_equal(procfs_read(f->p, "proc/to_fifo", text, sizeof text), -EINVAL);
        alarm(0);
}

static void test_fifo(void **state)
{
        special_files(*state);
}

static void test_fifo_without_openat2(void **state)
{
        confine_without_openat2(1);
        special_files(*state);
}

static void links(struct fixture *f)
{
        char text[64];
        machine_link(&f->machine, "0000/proc/7/fd/3", "anon_inode:[io_uring]");
        machine_link(&f->machine, "0000/proc/7/fd/4", "/etc/passwd");
        machine_write(&f->machine, "0000/proc/7/stat", "x");
        open_machine(f);
        assert_int_equal(procfs_link(f->p, "proc/7/fd/3", text, sizeof text), 21);
        assert_string_equal(text, "anon_inode:[io_uring]");
        assert_int_equal(procfs_link(f->p, "proc/7/fd/4", text, sizeof text), 11);
        assert_int_equal(procfs_link(f->p, "proc/7/fd/5", text, sizeof text), -ENOENT);
        assert_int_equal(procfs_link(f->p, "proc/7/stat", text, sizeof text), -EINVAL);
        assert_int_equal(procfs_link(f->p, "proc/7/fd/3", text, 21), -EOVERFLOW);
}

static void test_links(void **state)
{
        links(*state);
}

static void test_links_without_openat2(void **state)
{
        confine_without_openat2(1);
        links(*state);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void test_errors_file(void **state)
{
        struct fixture *f = *state;
        char text[64];
        machine_write(&f->machine, "0000/errors", "proc/1/io EACCES\nproc/2/io 3\n/proc/a b/io EPERM\nnonsense\nproc/bad EWHAT\n"
                "proc/zero 0\nproc/pressure/io EOPNOTSUPP");
        machine_write(&f->machine, "0000/proc/1/io", "there but refused\n");
        machine_write(&f->machine, "0000/proc/bad", "fine\n");
        machine_write(&f->machine, "0000/proc/zero", "fine\n");
        open_machine(f);
        assert_int_equal(procfs_read(f->p, "proc/1/io", text, sizeof text), -EACCES);
        assert_int_equal(procfs_read(f->p, "proc/2/io", text, sizeof text), -ESRCH);
        assert_int_equal(procfs_readf(f->p, text, sizeof text, "proc/%s/io", "a b"), -EPERM);
        assert_int_equal(procfs_read(f->p, "proc/pressure/io", text, sizeof text), -EOPNOTSUPP);
        assert_int_equal(procfs_read(f->p, "proc/bad", text, sizeof text), 5);
        assert_int_equal(procfs_read(f->p, "proc/zero", text, sizeof text), 5);
        assert_int_equal(procfs_read(f->p, "proc/3/io", text, sizeof text), -ENOENT);
}

static void test_overflow(void **state)
{
        struct fixture *f = *state;
        char text[8], *all = NULL;
        size_t capacity = 0;
        machine_write(&f->machine, "0000/proc/seven", "1234567");
        machine_write(&f->machine, "0000/proc/eight", "12345678");
        open_machine(f);
        assert_int_equal(procfs_read(f->p, "proc/seven", text, sizeof text), 7);
        assert_int_equal(procfs_read(f->p, "proc/eight", text, sizeof text), -EOVERFLOW);
        assert_string_equal(text, "1234567");
        assert_int_equal(procfs_read(f->p, "proc/eight", text, 0), -EINVAL);
        char *big = malloc(200001);
        memset(big, 'x', 200000);
        big[200000] = '\0';
        machine_write(&f->machine, "0000/proc/big", big);
        assert_int_equal(procfs_read_all(f->p, "proc/big", &all, &capacity), 200000);
        assert_memory_equal(all, big, 200001);
        free(big);
        free(all);
}

static void test_ids(void **state)
{
        struct fixture *f = *state;
        int *ids = NULL;
        size_t capacity = 0;
        machine_folder(&f->machine, "0000/proc/1");
        machine_folder(&f->machine, "0000/proc/4194304");
        machine_folder(&f->machine, "0000/proc/12x");
        machine_folder(&f->machine, "0000/proc/99999999999999999999");
        machine_folder(&f->machine, "0000/proc/self");
        open_machine(f);
        assert_int_equal(procfs_ids(f->p, "proc", &ids, &capacity), 2);
        assert_int_equal(ids[0] + ids[1], 4194305);
        assert_int_equal(procfs_ids(f->p, "proc/none", &ids, &capacity), -ENOENT);
        assert_int_equal(procfs_ids(f->p, "proc/1", &ids, &capacity), 0);
        free(ids);
}

static void test_trees(void **state)
{
        struct fixture *f = *state;
        struct procfs_file file;
        struct procfs_clock clock;
        char *text = NULL, word[64];
        size_t capacity = 0;
        machine_write(&f->machine, "0000/proc/stat", "zero");
        machine_write(&f->machine, "0000/clock", "100 200 300\n");
        machine_write(&f->machine, "0000/system", "hz=250\npage_size=65536\nkernel=4.18.0\nlxcfs=1\n");
        machine_write(&f->machine, "0001/proc/stat", "one");
        machine_write(&f->machine, "0001/sub/00/proc/stat", "sub");
        machine_write(&f->machine, "0001/sub/01/clock", "7 8 9");
        machine_write(&f->machine, "0001/clock", "garbage");
        open_machine(f);
        assert_false(procfs_live(f->p));
        procfs_file_init(&file, "proc/stat");
        assert_int_equal(procfs_file_read(f->p, &file, &text, &capacity), 4);
        assert_string_equal(text, "zero");
        procfs_clock(f->p, &clock);
        assert_int_equal(clock.mono_ns + clock.boot_ns + clock.real_ns, 600);
        assert_int_equal(procfs_hz(f->p), 250);
        assert_int_equal(procfs_page_size(f->p), 65536);
        assert_true(procfs_lxcfs(f->p));
        assert_int_equal(procfs_system(f->p, "kernel", word, sizeof word), 6);
        assert_int_equal(procfs_enter(f->p, 1, -1), 0);
        assert_int_equal(procfs_file_read(f->p, &file, &text, &capacity), 3);
        assert_string_equal(text, "one");
        assert_int_equal(procfs_hz(f->p), 100);
        assert_int_equal(procfs_mono(f->p), 0);
        assert_int_equal(procfs_enter(f->p, 1, 0), 0);
        assert_int_equal(procfs_file_read(f->p, &file, &text, &capacity), 3);
        assert_string_equal(text, "sub");
        assert_int_equal(procfs_enter(f->p, 1, 1), 0);
        assert_int_equal(procfs_mono(f->p), 7);
        assert_int_equal(procfs_file_read(f->p, &file, &text, &capacity), -ENOENT);
        assert_int_equal(procfs_enter(f->p, 1, 2), -ENOENT);
        assert_int_equal(procfs_enter(f->p, 2, -1), -ENOENT);
        assert_int_equal(procfs_mono(f->p), 7); /* a tree that is not there changes nothing */
        procfs_file_close(&file);
        free(text);
}

static void test_single_tree(void **state)
{
        struct fixture *f = *state;
        char text[16];
        machine_write(&f->machine, "proc/stat", "only");
        open_machine(f);
        assert_int_equal(procfs_read(f->p, "proc/stat", text, sizeof text), 4);
        assert_int_equal(procfs_enter(f->p, 0, -1), 0);
        assert_int_equal(procfs_enter(f->p, 1, -1), -ENOENT);
        assert_int_equal(procfs_open_root("/nonexistent/machine", &f->p), -ENOENT);
}

static void test_live(void **state)
{
        struct fixture *f = *state;
        struct procfs_file file;
        char text[4096], *all = NULL;
        size_t capacity = 0;
        int *ids = NULL;
        size_t room = 0;
        assert_int_equal(procfs_open_root(NULL, &f->p), 0);
        assert_true(procfs_live(f->p));
        assert_true(procfs_read(f->p, "proc/self/stat", text, sizeof text) > 0);
        assert_int_equal(procfs_read(f->p, "dev/null", text, sizeof text), -EINVAL);
        assert_int_equal(procfs_enter(f->p, 0, -1), -ENOENT);
        procfs_file_init(&file, "proc/stat");
        ssize_t n = procfs_file_read(f->p, &file, &all, &capacity);
        assert_true(n > 0 && (size_t)n == strlen(all) && all[n - 1] == '\n');
        assert_true(procfs_file_read(f->p, &file, &all, &capacity) > 0);
        procfs_file_close(&file);
        bool found = false;
        n = procfs_ids(f->p, "proc", &ids, &room);
        for (ssize_t i = 0; i < n; i++)
                found = found || ids[i] == getpid();
        assert_true(found);
        assert_true(procfs_mono(f->p) > 0);
        free(all);
        free(ids);
}

/* ---- capture ------------------------------------------------------------------------------------------------------- */

static int nothing(void *arg, const char *name, unsigned char type)
{
        ++*(int *)arg;
        return 0;
}

static void make_source(struct fixture *f)
{
        machine_write(&f->machine, "in/0000/clock", "1000 2000 3000\n");
        machine_write(&f->machine, "in/0000/proc/7/stat", "7 (dragon fly) S 1 7 7 0 -1 0 0\n");
        machine_write(&f->machine, "in/0000/proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0\n");
        machine_write(&f->machine, "in/0000/proc/7/status", "Name:\tdragon fly\nUid:\t5\t5\n");
        machine_write(&f->machine, "in/0000/proc/7/cmdline", "/opt/acme/dragon");
        machine_write(&f->machine, "in/0000/proc/7/cgroup", "0::/acme.slice/secret-db.service\n");
        machine_write(&f->machine, "in/0000/proc/sys/kernel/hostname", "acme-prod-1\n");
        machine_write(&f->machine, "in/0000/sys/fs/cgroup/acme.slice/cpu.stat", "usage_usec 5\n");
        machine_write(&f->machine, "in/0000/sys/block/sda/serial", "S3CR3T\n");
        machine_write(&f->machine, "in/0000/etc/passwd", "alice:x:5:6:Alice Acme:/home/alice:/bin/sh\n");
        machine_link(&f->machine, "in/0000/dev/disk/by-id/ata-ACME_S3CR3T", "../../sda");
        machine_link(&f->machine, "in/0000/proc/7/fd/3", "anon_inode:[io_uring]");
        machine_write(&f->machine, "in/0000/errors", "proc/7/io EACCES\n");
        char root[1024];
        snprintf(root, sizeof root, "%s/in", f->machine.dir);
        assert_int_equal(procfs_open_root(root, &f->p), 0);
}

static void read_source(struct procfs *p)
{
        static const char *const files[] = { "proc/7/stat", "proc/2/stat", "proc/7/status", "proc/7/cmdline", "proc/7/cgroup",
                "proc/sys/kernel/hostname",
                                             "sys/fs/cgroup/acme.slice/cpu.stat", "sys/block/sda/serial", "etc/passwd", "proc/7/io",
                                             "proc/8/stat" };
        char text[512];
        int count = 0;
        procfs_list(p, "proc", nothing, &count);
        procfs_list(p, "proc/7/fd", nothing, &count);
        procfs_list(p, "dev/disk/by-id", nothing, &count);
        procfs_list(p, "sys/block", nothing, &count);
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
                procfs_read(p, files[i], text, sizeof text);
        procfs_link(p, "proc/7/fd/3", text, sizeof text);
        procfs_link(p, "dev/disk/by-id/ata-ACME_S3CR3T", text, sizeof text);
}

static void test_capture(void **state)
{
        struct fixture *f = *state;
        char out[1024], text[512];
        struct stat st;
        int count = 0;
        make_source(f);
        snprintf(out, sizeof out, "%s/out", f->machine.dir);
        assert_int_equal(procfs_capture(f->p, out), 0);
        assert_int_equal(procfs_capture_tree(f->p, 0, -1), 0);
        read_source(f->p);
        assert_int_equal(procfs_capture_tree(f->p, 0, 3), 0);
        assert_int_equal(procfs_read(f->p, "proc/7/stat", text, 4), -EOVERFLOW);
        assert_int_equal(procfs_capture_error(f->p), 0);
        assert_int_equal(procfs_capture(f->p, out), -ENOTEMPTY);
        assert_int_equal(procfs_capture(f->p, NULL), 0);
        assert_int_equal(stat(out, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);

        procfs_close_root(f->p);
        assert_int_equal(procfs_open_root(out, &f->p), 0);
        assert_int_equal(procfs_mono(f->p), 1000);
        assert_int_equal(procfs_list(f->p, "proc", nothing, &count), 0);
        assert_int_equal(count, 3); /* 2, 7, sys */
        assert_true(procfs_read(f->p, "proc/7/stat", text, sizeof text) > 0);
        assert_string_equal(text, "7 (dragon fly) S 1 7 7 0 -1 0 0\n");
        assert_int_equal(procfs_read(f->p, "proc/7/io", text, sizeof text), -EACCES);
        assert_int_equal(procfs_read(f->p, "proc/8/stat", text, sizeof text), -ENOENT);
        assert_true(procfs_link(f->p, "proc/7/fd/3", text, sizeof text) > 0);
        assert_string_equal(text, "anon_inode:[io_uring]");
        assert_true(procfs_read(f->p, "sys/block/sda/serial", text, sizeof text) > 0);
        assert_int_equal(procfs_enter(f->p, 0, 3), 0);
        assert_int_equal(procfs_read(f->p, "proc/7/stat", text, 4), -EOVERFLOW); /* overflows again */
        assert_true(procfs_read(f->p, "proc/7/stat", text, sizeof text) > 0);
        assert_int_equal(stat(machine_path(&f->machine, "out/0000/proc/7/stat", out), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
}

/* No file, folder or link of the capture may hold one of the names. */
static int forbidden(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
        static const char *const names[] = { "acme", "ACME", "S3CR3T", "dragon", "alice", "secret" };
        char text[4096] = "";
        if (S_ISREG(st->st_mode)) {
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = read(fd, text, sizeof text - 1);
                close(fd);
                text[n > 0 ? n : 0] = '\0';
        } else if (S_ISLNK(st->st_mode) && readlink(path, text, sizeof text - 1) < 0) {
                return 1;
        }
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (strstr(path + ftw->base, names[i]) || strstr(text, names[i])) {
                        fprintf(stderr, "%s holds %s: %s\n", path, names[i], text);
                        return 1;
                }
        return 0;
}

static void test_anonymize(void **state)
{
        struct fixture *f = *state;
        char out[1024], text[512];
        make_source(f);
        snprintf(out, sizeof out, "%s/out", f->machine.dir);
        assert_int_equal(procfs_capture(f->p, out), 0);
        assert_int_equal(procfs_capture_anonymize(f->p), 0);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(procfs_capture_tree(f->p, i, -1), 0);
                read_source(f->p);
        }
        assert_int_equal(procfs_capture_error(f->p), 0);
        assert_int_equal(procfs_capture(f->p, NULL), 0);
        assert_int_equal(nftw(out, forbidden, 32, FTW_PHYS), 0);
        for (int i = 0; i < 2; i++) { /* the same names in both trees */
                char path[64];
                snprintf(path, sizeof path, "out/%04d/proc/7/stat", i);
                assert_string_equal(machine_read(&f->machine, path, text, sizeof text), "7 (comm1) S 1 7 7 0 -1 0 0\n");
                snprintf(path, sizeof path, "out/%04d/proc/7/cgroup", i);
                assert_string_equal(machine_read(&f->machine, path, text, sizeof text), "0::/group1.slice/group2.service\n");
        }
        assert_string_equal(machine_read(&f->machine, "out/0000/proc/2/stat", text, sizeof text), "2 (kthreadd) S 0 0 0 0 -1 2129984 0\n");
        assert_string_equal(machine_read(&f->machine, "out/0000/proc/7/status", text, sizeof text), "Name:\tcomm1\nUid:\t5\t5\n");
        assert_string_equal(machine_read(&f->machine, "out/0000/sys/fs/cgroup/group1.slice/cpu.stat", text, sizeof text), "usage_usec 5\n");
        assert_string_equal(machine_read(&f->machine, "out/0000/etc/passwd", text, sizeof text), "user1:x:5:6:::\n");
}

static void rule(struct anonymizer *a, const char *path, const char *text, const char *wanted)
{
        const char *out;
        size_t length;
        assert_int_equal(anonymize_file(a, path, text, strlen(text), &out, &length), 0);
        assert_int_equal(length, strlen(wanted));
        assert_memory_equal(out, wanted, length);
}

static void test_anonymize_rules(void **state)
{
        struct anonymizer *a;
        const char *out;
        char path[64];
        assert_int_equal(anonymize_new(&a), 0);
        rule(a, "proc/7/fdinfo/3",
             "pos:\t0\nSqHead:\t5\nUserFiles:\t1\n    0: /srv/acme\nUserBufs:\t1\n    0: 0x5/4096\nPollList:\n  op=6\n",
             "pos:\t0\nSqHead:\t5\nUserFiles:\t1\n    0: file\nUserBufs:\t1\n    0: 0x5/4096\nPollList:\n  op=6\n");
        rule(a, "proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\nsrv:/acme /mnt nfs4 rw,addr=1 0 0\n/dev/mapper/vg-acme /a xfs rw 0 0\n",
             "/dev/sda1 / ext4 - 0 0\ndevice1 /mount1 nfs4 - 0 0\ndevice2 /mount2 xfs - 0 0\n");
        rule(a, "proc/cmdline", "quiet root=UUID=5 password=acme psi=1 nohz_full=1-3 rwx\n", "quiet psi=1 nohz_full=1-3 \n");
        rule(a, "proc/net/dev", " face |bytes\n  eth0: 1 2\nwg-acme: 3 4\n    lo: 5\nethacme: 6\n",
             " face |bytes\neth0: 1 2\nif1: 3 4\nlo: 5\nif2: 6\n");
        rule(a, "proc/7/stat", "7 (a) b) R 1 1 1 1 1 0", "7 (comm1) R 1 1 1 1 1 0");
        rule(a, "proc/7/stat", "7 no brackets", "");
        rule(a, "proc/7/task/9/stat", "9 (iou-wrk-7) S 1 1 1 1 1 0", "9 (iou-wrk-7) S 1 1 1 1 1 0");
        rule(a, "proc/7/environ", "SECRET=1", "");
        rule(a, "home/alice/.profile", "anything", "");
        rule(a, "sys/block/sda/device/wwid", "t10.ACME 5\n", "device3\n");
        rule(a, "sys/block/sda/queue/scheduler", "[none]\n", "[none]\n");
        assert_int_equal(anonymize_link(a, "proc/7/fd/3", "/srv/acme", &out), 0);
        assert_string_equal(out, "/file");
        assert_int_equal(anonymize_link(a, "proc/7/fd/3", "anon_inode:[io_uring]", &out), 0);
        assert_string_equal(out, "anon_inode:[io_uring]");
        assert_int_equal(anonymize_path(a, "sys/fs/cgroup/cpu,cpuacct/acme/cpu.stat", path, sizeof path), 0);
        assert_string_equal(path, "sys/fs/cgroup/cpu,cpuacct/group1/cpu.stat");
        assert_int_equal(anonymize_path(a, "sys/fs/cgroup/acme", path, 10), -ENAMETOOLONG);
        anonymize_free(a);
}

/* A folder that others can write, or that is a link, is refused; a planted link inside is not followed. */
static void test_capture_folder(void **state)
{
        struct fixture *f = *state;
        char out[1024], link[1024];
        make_source(f);
        snprintf(out, sizeof out, "%s/open", f->machine.dir);
        assert_int_equal(mkdir(out, 0700), 0);
        assert_int_equal(chmod(out, 0777), 0);
        assert_int_equal(procfs_capture(f->p, out), -EPERM);
        assert_int_equal(chmod(out, 0700), 0);
        snprintf(link, sizeof link, "%s/link", f->machine.dir);
        assert_int_equal(symlink("open", link), 0);
        assert_true(procfs_capture(f->p, link) < 0);
        assert_int_equal(procfs_capture_tree(f->p, 0, -1), -EINVAL);
        assert_int_equal(procfs_capture(f->p, out), 0);
        snprintf(link, sizeof link, "%s/open/proc", f->machine.dir);
        assert_int_equal(symlink("../victim", link), 0);
        snprintf(link, sizeof link, "%s/victim", f->machine.dir);
        assert_int_equal(mkdir(link, 0700), 0);
        char text[64];
        procfs_read(f->p, "proc/2/stat", text, sizeof text);
        assert_int_equal(rmdir(link), 0); /* still empty */
        assert_true(strlen(machine_read(&f->machine, "open/proc/2/stat", text, sizeof text)) > 0);
}

/* ---- scanning ------------------------------------------------------------------------------------------------------ */

static void test_scan(void **state)
{
        struct scan s, line;
        uint64_t u = 9;
        int64_t i;
        const char *word;
        size_t length;
        const char text[] = "a  12 -5 99999999999999999999999 0xFf x\n\nlast";
        scan_init(&s, text, sizeof text - 1);
        assert_true(scan_line(&s, &line));
        assert_false(scan_u64(&line, &u));
        assert_int_equal(u, 9);
        assert_true(scan_word(&line, &word, &length) && length == 1);
        assert_true(scan_u64(&line, &u) && u == 12);
        assert_false(scan_u64(&line, &u));
        assert_true(scan_i64(&line, &i) && i == -5);
        assert_true(scan_u64(&line, &u) && u == UINT64_MAX);
        assert_true(scan_hex(&line, &u) && u == 255);
        assert_false(scan_skip(&line, 2));
        assert_true(scan_skip(&line, 1));
        assert_true(scan_line(&s, &line) && line.at == line.end);
        assert_true(scan_line(&s, &line) && scan_prefix(&line, "las") && !scan_prefix(&line, "tt"));
        assert_false(scan_line(&s, &line));
        scan_init(&s, "-", 1);
        assert_false(scan_i64(&s, &i));
        assert_true(s.at != s.end);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(test_escape), CASE(test_escape_without_openat2), CASE(test_fifo), CASE(test_fifo_without_openat2), CASE(test_links),
                CASE(test_links_without_openat2), CASE(test_errors_file), CASE(test_overflow), CASE(test_ids), CASE(test_trees),
                        CASE(test_single_tree),
                CASE(test_live), CASE(test_capture), CASE(test_anonymize),
                cmocka_unit_test(test_anonymize_rules), CASE(test_capture_folder), cmocka_unit_test(test_scan),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

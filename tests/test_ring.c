/*
 * The ring and its cursor: no mixed frame at full speed, overruns noticed, death noticed, paths not taken from the living, and readers
 * that survive what a hostile writer does to the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample/cursor.h"
#include "sample/ring_layout.h"
#include "sample/trust.h"
#include "tests/ring_frames.h"

static char folder[64], path[96];
static _Alignas(8) char made[RING_MIN_SIZE];

static uint64_t now_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int start(void **unused)
{
        snprintf(folder, sizeof folder, "/dev/shm/watop-test-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof path, "%s/ring", folder);
        return 0;
}

static int finish(void **unused)
{
        unlink(path);
        return rmdir(folder);
}

static struct ring_writer *writer_at(const char *at, uint64_t size)
{
        struct ring_writer *w = NULL;
        pid_t holder;
        assert_int_equal(ring_create(at, size, 0640, &w, &holder), 0);
        return w;
}

static void publish(struct ring_writer *w, uint64_t sequence, uint64_t full, size_t words)
{
        assert_int_equal(ring_publish(w, made, made_frame(made, sequence, full, words)), 0);
}

static void test_mode(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct stat st;
        gid_t group;
        assert_int_equal(stat(path, &st), 0);
        /* For group watop and for no other: ours may be that of all users. */
        bool shared = trust_group(&group) == 0 && st.st_gid == group;
        assert_int_equal(st.st_mode & 0777, shared ? 0640 : 0600);
        ring_destroy(w);
}

/* ---- one reader, no hurry ----------------------------------------------------------------------------------------------------- */

static void test_round_trip(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        struct ring_info info;
        const struct frame_head *h;
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        assert_int_equal(cursor_next(c, &h), CURSOR_END);
        assert_int_equal(ring_info(r, &info), 0);
        assert_int_equal(info.sequence, 0);
        assert_int_equal(info.first_sequence, 0);
        ring_set_tick(w, 250000000);
        publish(w, 1, 1, 3);
        publish(w, 2, 1, 0);
        for (uint64_t i = 1; i <= 2; i++) {
                assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
                assert_int_equal(h->sequence, i);
                assert_true(made_whole(h));
        }
        assert_int_equal(cursor_next(c, &h), CURSOR_END);
        assert_int_equal(ring_info(r, &info), 0);
        assert_int_equal(info.pid, getpid());
        assert_int_equal(info.owner, geteuid());
        assert_int_equal(info.tick_ns, 250000000);
        assert_int_equal(info.sequence, 2);
        assert_int_equal(info.first_sequence, 1);
        assert_int_equal(info.first_real_ns, 1001000);
        assert_int_equal(info.size, RING_MIN_SIZE);
        assert_true(info.same_pid_ns);
        assert_string_equal(info.version, WATOP_VERSION);
        /* What was published before the end is still given, then the end is told. */
        publish(w, 3, 1, 1);
        ring_destroy(w);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(cursor_next(c, &h), CURSOR_GONE);
        assert_int_equal(cursor_wait(c, UINT64_C(10000000000), &h), CURSOR_GONE);
        cursor_free(c);
        ring_close(r);
}

static void test_size_of_frames(void **unused)
{
        struct ring_writer *w = writer_at(NULL, RING_MIN_SIZE);
        size_t third = RING_MIN_SIZE / 3;
        made_frame(made, 1, 1, 0);
        ((struct frame_head *)(void *)made)->length = (uint32_t)third + 1;
        assert_int_equal(ring_publish(w, made, third + 1), -EFBIG);
        assert_int_equal(ring_publish(w, made, 64), -EINVAL);
        assert_int_equal(ring_publish(w, made, 1024), -EINVAL); /* not the length that the head says */
        publish(w, 1, 1, (third - MADE_HEADS) / 8);
        ring_destroy(w);
        assert_int_equal(ring_create(NULL, 4096, 0, &w, NULL), -EINVAL);
}

/* Every length of frame at every place around the end of the circle. */
static void test_wrap(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        const struct frame_head *h;
        uint64_t laps = 0;
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        for (uint64_t i = 1; laps < 40; i++) {
                publish(w, i, i % 50 == 1 ? i : i - (i - 1) % 50, (size_t)(i * 7919 % 9000));
                assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
                assert_int_equal(h->sequence, i);
                assert_true(made_whole(h));
                laps = ring_head(r) / RING_MIN_SIZE;
                assert_true(ring_head(r) - ring_tail(r) <= RING_MIN_SIZE);
        }
        cursor_free(c);
        ring_close(r);
        ring_destroy(w);
}

static void test_overrun(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        const struct frame_head *h;
        assert_int_equal(ring_open(path, &r), 0);
        publish(w, 1, 1, 10);
        assert_int_equal(cursor_new(r, &c), 0);
        uint64_t full = 1;
        for (uint64_t i = 2; i <= 1000; i++) {
                if (i % 20 == 0)
                        full = i;
                publish(w, i, full, 1000);
        }
        assert_int_equal(cursor_next(c, &h), CURSOR_OVERRUN);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(h->sequence, full);
        assert_true(h->flags & FRAME_FULL);
        /* All full frames overwritten: the cursor stands behind everything. */
        assert_int_equal(cursor_seek_newest(c), CURSOR_FRAME);
        for (uint64_t i = 1001; i <= 1200; i++)
                publish(w, i, full, 1000);
        assert_int_equal(ring_full(r, false), UINT64_MAX);
        assert_int_equal(cursor_next(c, &h), CURSOR_OVERRUN);
        assert_int_equal(cursor_next(c, &h), CURSOR_END);
        publish(w, 1201, 1201, 0);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(h->sequence, 1201);
        cursor_free(c);
        ring_close(r);
        ring_destroy(w);
}

static void test_seek(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        const struct frame_head *h;
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        assert_int_equal(cursor_seek_sequence(c, 1), CURSOR_END);
        uint64_t full = 1;
        for (uint64_t i = 1; i <= 1000; i++) {
                if (i % 10 == 1)
                        full = i;
                publish(w, i, full, 300);
        }
        assert_int_equal(cursor_seek_sequence(c, 895), CURSOR_FRAME);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(h->sequence, 891);
        assert_int_equal(cursor_seek_time(c, 1000000 + 950 * 1000), CURSOR_FRAME);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(h->sequence, 941);
        assert_int_equal(cursor_seek_sequence(c, 1001), CURSOR_END);
        assert_int_equal(cursor_seek_sequence(c, 1000), CURSOR_FRAME);
        struct ring_info info;
        assert_int_equal(ring_info(r, &info), 0);
        assert_true(info.first_sequence > 500);
        assert_int_equal(cursor_seek_sequence(c, 3), CURSOR_OVERRUN);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_true(h->flags & FRAME_FULL && h->sequence >= info.first_sequence && h->sequence < info.first_sequence + 10);
        cursor_free(c);
        ring_close(r);
        ring_destroy(w);
}

/* ---- waiting and dying -------------------------------------------------------------------------------------------------------- */

static void *publish_later(void *arg)
{
        static _Alignas(8) char frame[1024];
        usleep(100000);
        ring_publish(arg, frame, made_frame(frame, 1, 1, 4));
        return NULL;
}

static void test_wait(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        const struct frame_head *h;
        pthread_t thread;
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        uint64_t before = now_ns();
        assert_int_equal(ring_wait(r, 0, 30000000), 0);
        assert_true(now_ns() - before >= 30000000);
        assert_int_equal(cursor_wait(c, 0, &h), CURSOR_END);
        assert_int_equal(pthread_create(&thread, NULL, publish_later, w), 0);
        assert_int_equal(cursor_wait(c, UINT64_C(20000000000), &h), CURSOR_FRAME);
        assert_int_equal(h->sequence, 1);
        pthread_join(thread, NULL);
        assert_int_equal(ring_wait(r, 0, UINT64_MAX), 1);
        /* A heart that stopped, seen from a later time. */
        ring_heartbeat(w, now_ns());
        assert_true(ring_alive(r, now_ns()));
        assert_false(ring_alive(r, now_ns() + UINT64_C(3100000000)));
        cursor_free(c);
        ring_close(r);
        ring_destroy(w);
}

/* Fork; the child ends with the test, also when that fails and leaves early. */
static pid_t fork_child(void)
{
        pid_t parent = getpid(), pid = fork();
        if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
                _exit(1);
        assert_true(pid >= 0);
        return pid;
}

/* A child that makes a ring, says so through the pipe, and waits to be killed. */
static pid_t writer_child(const char *at, int *fd)
{
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork_child();
        if (pid == 0) {
                struct ring_writer *w;
                if (ring_create(at, RING_MIN_SIZE, 0640, &w, NULL) == 0 && ring_publish(w, made, made_frame(made, 1, 1, 5)) == 0) {
                        int number = ring_writer_fd(w);
                        if (write(ready[1], &number, sizeof number) < 0)
                                _exit(1);
                }
                for (;;)
                        pause();
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], fd, sizeof *fd), sizeof *fd);
        close(ready[0]);
        return pid;
}

static void end_child(pid_t pid)
{
        int status;
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void test_dead_writer(void **unused)
{
        struct ring *r, *r2;
        struct cursor *c;
        struct ring_writer *w = NULL;
        const struct frame_head *h;
        pid_t holder = -1;
        int number;
        pid_t pid = writer_child(path, &number);
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        assert_int_equal(cursor_next(c, &h), CURSOR_FRAME);
        assert_int_equal(cursor_next(c, &h), CURSOR_END);
        assert_true(ring_alive(r, now_ns()));
        assert_int_equal(ring_create(path, RING_MIN_SIZE, 0640, &w, &holder), -EBUSY);
        assert_int_equal(holder, pid);
        end_child(pid);
        uint64_t before = now_ns();
        assert_int_equal(cursor_wait(c, UINT64_C(20000000000), &h), CURSOR_GONE);
        assert_true(now_ns() - before < UINT64_C(2000000000));
        /* The path of the dead is free; who reads the old ring is not fooled by the new one. */
        w = writer_at(path, RING_MIN_SIZE);
        assert_int_equal(cursor_next(c, &h), CURSOR_GONE);
        assert_int_equal(ring_open(path, &r2), 0);
        assert_true(ring_alive(r2, now_ns()));
        /* A living writer whose file lost its name is gone as well: nobody else will find it. */
        assert_int_equal(unlink(path), 0);
        assert_false(ring_alive(r2, now_ns()));
        struct ring_writer *other = writer_at(path, RING_MIN_SIZE);
        ring_destroy(w); /* must not take the other's name away */
        assert_int_equal(access(path, F_OK), 0);
        ring_destroy(other);
        ring_close(r2);
        cursor_free(c);
        ring_close(r);
}

static void test_dead_memfd(void **unused)
{
        struct ring *r;
        char name[64];
        int number;
        pid_t pid = writer_child(NULL, &number);
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)pid, number);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
                end_child(pid);
                print_message("# not tried: another process's descriptors cannot be opened here\n");
                return;
        }
        assert_int_equal(ring_open_fd(fd, &r), 0);
        assert_true(ring_alive(r, now_ns()));
        end_child(pid);
        assert_false(ring_alive(r, now_ns()));
        ring_close(r);
}

/* What a reader may do to the memfd that it was handed: nothing. */
static void test_seals(void **unused)
{
        struct ring_writer *w = writer_at(NULL, RING_MIN_SIZE);
        struct ring *r;
        char name[64];
        int fd = ring_writer_fd(w);
        int seals = fcntl(fd, F_GET_SEALS);
        assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(write(fd, "x", 1), -1);
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        /* Opened again for writing (as the owner may): still nothing can be changed. */
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        int again = open(name, O_RDWR | O_CLOEXEC);
        assert_true(again >= 0);
        assert_int_equal(ftruncate(again, 0), -1);
        if (seals & 0x10) { /* F_SEAL_FUTURE_WRITE, 5.1 */
                assert_int_equal(pwrite(again, "x", 1, 0), -1);
                assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
        }
        close(again);
        assert_int_equal(ring_open_fd(dup(fd), &r), 0);
        publish(w, 1, 1, 9);
        assert_int_equal(ring_wait(r, 0, 0), 1);
        assert_true(ring_alive(r, now_ns()));
        ring_close(r);
        ring_destroy(w);
}

/* ---- strange places ----------------------------------------------------------------------------------------------------------- */

static void test_not_tmpfs(void **unused)
{
        struct ring_writer *w = NULL;
        struct statfs fs;
        char dir[] = "/tmp/watop-test-XXXXXX", at[64];
        assert_non_null(mkdtemp(dir));
        assert_int_equal(statfs(dir, &fs), 0);
        snprintf(at, sizeof at, "%s/ring", dir);
        int result = fs.f_type == TMPFS_MAGIC ? -EXDEV : ring_create(at, RING_MIN_SIZE, 0640, &w, NULL);
        assert_int_equal(rmdir(dir), 0); /* nothing was left in it */
        assert_int_equal(result, -EXDEV);
}

static void touch(const char *at, const char *text)
{
        int fd = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void test_strange_paths(void **unused)
{
        struct ring_writer *w = NULL;
        struct ring *r = NULL;
        char other[128];
        snprintf(other, sizeof other, "%s/other", folder);
        /* A mistyped path does not cost anybody a file. */
        touch(path, "precious data");
        assert_int_equal(ring_create(path, RING_MIN_SIZE, 0640, &w, NULL), -EEXIST);
        assert_int_equal(ring_open(path, &r), -EPROTO);
        assert_int_equal(unlink(path), 0);
        touch(path, ""); /* an empty one is taken */
        ring_destroy(writer_at(path, RING_MIN_SIZE));
        w = writer_at(other, RING_MIN_SIZE);
        assert_int_equal(symlink("other", path), 0);
        assert_int_equal(ring_open(path, &r), -ELOOP);
        struct ring_writer *second = NULL;
        assert_int_equal(ring_create(path, RING_MIN_SIZE, 0640, &second, NULL), -EEXIST);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(ring_open(path, &r), -EPROTO);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(ring_open(path, &r), -ENOENT);
        assert_int_equal(ring_create("/dev/shm/", RING_MIN_SIZE, 0640, &second, NULL), -EINVAL);
        /* A folder that others may write to; a sticky one may be used, since whose file it is gets checked. */
        assert_int_equal(chmod(folder, 0777), 0);
        assert_int_equal(ring_open(other, &r), -EPERM);
        assert_int_equal(chmod(folder, 01777), 0);
        assert_int_equal(ring_open(other, &r), 0);
        ring_close(r);
        if (geteuid() == 0) { /* root believes no stranger */
                assert_int_equal(chown(other, 54321, 54321), 0);
                assert_int_equal(ring_open(other, &r), -EPERM);
                assert_int_equal(chown(other, 0, 0), 0);
                assert_int_equal(chmod(folder, 0700), 0);
                assert_int_equal(chown(folder, 54321, 54321), 0);
                assert_int_equal(ring_open(other, &r), -EPERM);
                assert_int_equal(chown(folder, 0, 0), 0);
        }
        assert_int_equal(chmod(folder, 0700), 0);
        ring_destroy(w);
}

static int open_changed(const void *bytes, size_t length, size_t at, uint64_t value, size_t size)
{
        struct ring *r = NULL;
        int fd = memfd_create("changed", MFD_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        assert_int_equal(pwrite(fd, bytes, RING_DATA_AT, 0), RING_DATA_AT);
        assert_int_equal(pwrite(fd, &value, size, (off_t)at), (ssize_t)size);
        int result = ring_open_fd(fd, &r);
        ring_close(result == 0 ? r : NULL);
        return result;
}

static void test_lying_head(void **unused)
{
        struct ring_writer *w = writer_at(NULL, RING_MIN_SIZE);
        struct ring *r = NULL;
        size_t length;
        const void *map = ring_writer_map(w, &length);
#define AT(field) offsetof(struct ring_head, field), 
        assert_int_equal(open_changed(map, length, AT(tail) 0, 8), 0);
        assert_int_equal(open_changed(map, length, AT(magic) 1, 8), -EPROTO);
        assert_int_equal(open_changed(map, length, AT(layout) RING_LAYOUT + 1, 4), -EPROTO);
        assert_int_equal(open_changed(map, length, AT(capacity) RING_MIN_SIZE + 8, 8), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(capacity) RING_MIN_SIZE - 8, 8), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(capacity) 0, 8), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(capacity) UINT64_MAX, 8), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(schema_length) RING_SCHEMA_BYTES + 1, 4), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(schema_length) 0, 4), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(pid) 0, 4), -EBADMSG);
        assert_int_equal(open_changed(map, length, AT(pid) UINT32_MAX, 4), -EBADMSG);
        assert_int_equal(open_changed(map, length, RING_HEAD_BYTES, UINT64_MAX, 8), -EBADMSG); /* schema block */
        assert_int_equal(open_changed(map, RING_DATA_AT, AT(tail) 0, 8), -EBADMSG);            /* shorter than it says */
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        assert_int_equal(ring_open_fd(pipes[0], &r), -EPROTO);
        assert_int_equal(fcntl(pipes[0], F_GETFD), -1); /* taken over, on failure too */
        close(pipes[1]);
        assert_int_equal(ring_open_fd(-1, &r), -EBADF);
        ring_destroy(w);
}

/* Words that move may say anything at any time. */
static void test_lying_words(void **unused)
{
        static const uint64_t odd[] = { 0, 1, 7, 8, 120, 128, RING_MIN_SIZE, RING_MIN_SIZE + 8,
                UINT64_MAX - 7, UINT64_MAX, UINT64_C(1) << 63 };
        struct ring_writer *w = writer_at(NULL, RING_MIN_SIZE);
        struct ring *r;
        struct cursor *c;
        const struct frame_head *h;
        size_t length, n = sizeof odd / sizeof odd[0];
        struct ring_head *shared = ring_writer_map(w, &length);
        assert_int_equal(ring_open_fd(dup(ring_writer_fd(w)), &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        for (uint64_t i = 1; i < 100; i++)
                publish(w, i, i, 2000);
        for (size_t i = 0; i < n * n * n; i++) {
                struct ring_info info;
                ring_put(&shared->head, odd[i % n]);
                ring_put(&shared->tail, odd[i / n % n]);
                ring_put(&shared->full, odd[i / n / n % n]);
                cursor_seek_newest(c);
                for (int k = 0; k < 3; k++)
                        cursor_next(c, &h);
                cursor_wait(c, 0, &h);
                assert_int_equal(ring_info(r, &info), 0);
                cursor_seek_sequence(c, 50);
                cursor_seek_time(c, odd[i % n]);
        }
        cursor_free(c);
        ring_close(r);
        ring_destroy(w);
}

/* ---- a file cut short under its reader and its writer -------------------------------------------------------------------------- */

static volatile sig_atomic_t foreign_faults;
static char *foreign_page;

static void on_foreign(int signal)
{
        foreign_faults++;
        mmap(foreign_page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void test_truncation(void **unused)
{
        struct sigaction mine = { .sa_handler = on_foreign, .sa_flags = SA_NODEFER }, was;
        struct ring *r;
        struct cursor *c;
        struct ring_info info;
        const struct frame_head *h;
        assert_int_equal(sigaction(SIGBUS, &mine, &was), 0);
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        publish(w, 1, 1, 5000);
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(cursor_new(r, &c), 0);
        assert_int_equal(truncate(path, RING_DATA_AT + 4096), 0);
        assert_int_equal(cursor_next(c, &h), CURSOR_GONE);
        assert_int_equal(cursor_wait(c, 1000000, &h), CURSOR_GONE);
        assert_int_equal(ring_info(r, &info), -EBADMSG);
        assert_false(ring_alive(r, now_ns()));
        cursor_free(c);
        ring_close(r);
        assert_int_equal(ring_publish(w, made, made_frame(made, 2, 1, 5000)), -EIO);
        ring_destroy(w);
        /* Head gone as well, while somebody waits in the futex. */
        w = writer_at(path, RING_MIN_SIZE);
        assert_int_equal(ring_open(path, &r), 0);
        assert_int_equal(truncate(path, 0), 0);
        ring_wait(r, 0, 1000000);
        assert_false(ring_alive(r, now_ns()));
        ring_close(r);
        for (uint64_t i = 1; i < 300; i++)
                ring_publish(w, made, made_frame(made, i, i, 1000));
        ring_destroy(w);
        assert_int_equal(foreign_faults, 0);
        /* A fault that is not a ring's goes to the handler that was there before. */
        int fd = memfd_create("other", MFD_CLOEXEC);
        assert_int_equal(ftruncate(fd, 4096), 0);
        foreign_page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(foreign_page, MAP_FAILED);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(*(volatile char *)foreign_page, 0);
        assert_int_equal(foreign_faults, 1);
        munmap(foreign_page, 4096);
        close(fd);
        sigaction(SIGBUS, &was, NULL);
}

/* ---- full speed --------------------------------------------------------------------------------------------------------------- */

struct run {
        struct ring *ring;
        uint64_t frames, overruns, mixed, backward, errors;
};

/* Read until the ring is gone, judging each frame. */
static void judge(struct run *run)
{
        struct cursor *c;
        const struct frame_head *h;
        uint64_t last = 0;
        if (cursor_new(run->ring, &c) < 0) {
                run->errors++;
                return;
        }
        for (;;) {
                int r = cursor_wait(c, 200000000, &h);
                if (r == CURSOR_GONE)
                        break;
                if (r == CURSOR_END)
                        continue;
                if (r == CURSOR_OVERRUN) {
                        run->overruns++;
                        last = 0;
                        continue;
                }
                if (r != CURSOR_FRAME) {
                        run->errors++;
                        if (run->errors > 1000)
                                break;
                        continue;
                }
                run->frames++;
                run->mixed += !made_whole(h);
                run->backward += last != 0 && h->sequence != last + 1;
                last = h->sequence;
                if (run->frames % 64 == 0) /* a slow reader is overtaken while it copies */
                        usleep(300);
        }
        cursor_free(c);
}

static void *judge_thread(void *arg)
{
        judge(arg);
        return NULL;
}

static pid_t judge_child(const char *at, int *result)
{
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork_child();
        if (pid == 0) {
                struct run run = { 0 };
                if (ring_open(at, &run.ring) < 0)
                        run.errors = 1;
                else
                        judge(&run);
                ring_close(run.ring);
                _exit(write(ends[1], &run, sizeof run) == (ssize_t)sizeof run ? 0 : 1);
        }
        close(ends[1]);
        *result = ends[0];
        return pid;
}

static void assert_clean(const struct run *run)
{
        assert_int_equal(run->errors, 0);
        assert_int_equal(run->mixed, 0);
        assert_int_equal(run->backward, 0);
        assert_true(run->frames > 0);
}

static uint64_t write_for(struct ring_writer *w, uint64_t sequence, uint64_t span_ns)
{
        static _Alignas(8) char frame[1 << 17];
        uint64_t end = now_ns() + span_ns, full = sequence;
        for (; now_ns() < end; sequence++) {
                if (sequence % 16 == 0)
                        full = sequence;
                size_t length = made_frame(frame, sequence, full, (size_t)(sequence * 2654435761u % 4000));
                assert_int_equal(ring_publish(w, frame, length), 0);
                ring_heartbeat(w, now_ns());
        }
        return sequence;
}

enum { THREADS = 4, CHILDREN = 3 };

/* All that threads and children use outlives a failed test. */
static struct speed {
        struct run runs[THREADS + CHILDREN];
        pthread_t threads[THREADS];
        pid_t children[CHILDREN];
        int results[CHILDREN];
} speed;

static void start_readers(struct ring_writer *w)
{
        size_t length;
        void *map = ring_writer_map(w, &length);
        for (size_t i = 0; i < CHILDREN; i++)
                speed.children[i] = judge_child(path, &speed.results[i]);
        /* Half of the threads read the writer's own mapping: there ThreadSanitizer sees both sides of each word. */
        for (size_t i = 0; i < THREADS; i++) {
                struct run *run = &speed.runs[i];
                assert_int_equal(i % 2 ? ring_open_map(map, length, &run->ring) : ring_open(path, &run->ring), 0);
                assert_int_equal(pthread_create(&speed.threads[i], NULL, judge_thread, run), 0);
        }
}

/* The end of the ring ends the readers; the mapping must outlive the threads that share it, so it is marked, not destroyed yet. */
static void end_readers(struct ring_writer *w)
{
        size_t length;
        struct ring_head *shared = ring_writer_map(w, &length);
        __atomic_store_n(&shared->state, RING_ENDED, __ATOMIC_RELEASE);
        for (size_t i = 0; i < THREADS; i++) {
                pthread_join(speed.threads[i], NULL);
                ring_close(speed.runs[i].ring);
        }
        for (size_t i = 0; i < CHILDREN; i++) {
                struct run *run = &speed.runs[THREADS + i];
                if (read(speed.results[i], run, sizeof *run) != (ssize_t)sizeof *run)
                        run->errors = 1;
                close(speed.results[i]);
                waitpid(speed.children[i], NULL, 0);
        }
}

static void test_full_speed(void **unused)
{
        struct ring_writer *w = writer_at(path, RING_MIN_SIZE);
        memset(&speed, 0, sizeof speed);
        publish(w, 1, 1, 10);
        start_readers(w);
        uint64_t next = write_for(w, 2, UINT64_C(500000000));
        kill(speed.children[0], SIGSTOP); /* a reader that sleeps disturbs nobody, and wakes up stale */
        next = write_for(w, next, UINT64_C(1000000000));
        kill(speed.children[0], SIGCONT);
        next = write_for(w, next, UINT64_C(500000000));
        end_readers(w);
        ring_destroy(w);
        uint64_t overruns = 0, frames = 0;
        for (size_t i = 0; i < THREADS + CHILDREN; i++) {
                assert_clean(&speed.runs[i]);
                overruns += speed.runs[i].overruns;
                frames += speed.runs[i].frames;
        }
        assert_true(speed.runs[THREADS].overruns > 0);
        print_message("# %llu frames written, %llu read whole by %d readers, %llu overruns\n", (unsigned long long)(next - 1),
                (unsigned long long)frames, THREADS + CHILDREN, (unsigned long long)overruns);
}

/* Many start at once at the path of a dead one: exactly one gets it. */
static void test_race_for_path(void **unused)
{
        enum { RACERS = 8 };
        int number, go[2], done[2], won = 0;
        end_child(writer_child(path, &number));
        assert_int_equal(pipe(go), 0);
        assert_int_equal(pipe(done), 0);
        pid_t racers[RACERS];
        for (int i = 0; i < RACERS; i++) {
                racers[i] = fork_child();
                if (racers[i] == 0) {
                        struct ring_writer *w;
                        char c;
                        close(go[1]);
                        c = (char)(read(go[0], &c, 1) == 0 && ring_create(path, RING_MIN_SIZE, 0640, &w, NULL) == 0);
                        if (write(done[1], &c, 1) < 0)
                                _exit(1);
                        for (;;)
                                pause();
                }
        }
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < RACERS; i++) {
                char c = 0;
                assert_int_equal(read(done[0], &c, 1), 1);
                won += c;
        }
        for (int i = 0; i < RACERS; i++)
                end_child(racers[i]);
        close(done[0]);
        close(done[1]);
        assert_int_equal(won, 1);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, start, finish)

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_FOLDER(test_mode), IN_FOLDER(test_round_trip), cmocka_unit_test(test_size_of_frames), IN_FOLDER(test_wrap),
                IN_FOLDER(test_overrun),
                IN_FOLDER(test_seek), IN_FOLDER(test_wait), IN_FOLDER(test_dead_writer), cmocka_unit_test(test_dead_memfd),
                cmocka_unit_test(test_seals), cmocka_unit_test(test_not_tmpfs), IN_FOLDER(test_strange_paths),
                cmocka_unit_test(test_lying_head),
                cmocka_unit_test(test_lying_words), IN_FOLDER(test_truncation), IN_FOLDER(test_full_speed), IN_FOLDER(test_race_for_path),
        };
        return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

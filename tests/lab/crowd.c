/*
 * Waits on rings that are hard to keep apart, while a read of a slow file is pending all the time: nobody's wait is an idle reactor's.
 *
 *     lab_crowd --file PATH [--core N] [--threads N]     N threads wait on one ring, each with a poll of its own armed; another submits
 *     lab_crowd --file PATH [--core N] --rings N         one thread waits on one ring, woken every 10 ms, and has used N others once, after
 *                                                        the read began; --rings-before: before its own ring was made
 */
#include "lab_uring.h"

#include <fcntl.h>
#include <linux/time_types.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

enum { WANTED = 60, WAKE_NS = 10000000 };

static pthread_mutex_t submitting = PTHREAD_MUTEX_INITIALIZER;
static struct lab_ring ring;
static int core, file;
static off_t at, end;
static char *buffer;

/* The next block of the file, on its way. */
static void start_read(void)
{
        pthread_mutex_lock(&submitting);
        struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_READ, file);
        sqe->addr = (uint64_t)(uintptr_t)buffer;
        sqe->len = 4096;
        sqe->off = (uint64_t)at;
        sqe->user_data = 1;
        lab_enter(&ring, 0, 0);
        pthread_mutex_unlock(&submitting);
        at = at + 8192 <= end ? at + 4096 : 0;
}

static void *wait_for_many(void *arg)
{
        lab_pin(core);
        pthread_mutex_lock(&submitting);
        lab_request(&ring, IORING_OP_POLL_ADD, eventfd(0, 0))->poll32_events = POLLIN;
        lab_enter(&ring, 0, 0);
        pthread_mutex_unlock(&submitting);
        for (;;)
                syscall(__NR_io_uring_enter, ring.fd, 0, WANTED, IORING_ENTER_GETEVENTS, NULL, 0);
        return arg;
}

static void crowd(int threads)
{
        pthread_t thread;
        for (int i = 0; i < threads; i++)
                if (pthread_create(&thread, NULL, wait_for_many, NULL) != 0)
                        lab_die("pthread_create");
        usleep(100000); /* they sleep, as idle reactors so far */
        start_read();
        lab_ready();
        while (!lab_ended) {
                if (lab_reap(&ring, NULL))
                        start_read();
                else
                        usleep(200);
        }
}

/* A poll armed on this ring, and short waits. */
static void wait_once(int fd, struct io_uring_params *params, int never)
{
        size_t sq_size = params->sq_off.array + params->sq_entries * sizeof(unsigned);
        size_t sqes_size = params->sq_entries * sizeof(struct io_uring_sqe);
        char *sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
        struct io_uring_sqe *sqe = mmap(NULL, sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
        struct __kernel_timespec timeout = {.tv_nsec = 50000};
        struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&timeout};
        if (sq == MAP_FAILED || sqe == MAP_FAILED)
                lab_die("mmap of a ring");
        *sqe = (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = never, .poll32_events = POLLIN};
        *(unsigned *)(void *)(sq + params->sq_off.array) = 0;
        __atomic_store_n((unsigned *)(void *)(sq + params->sq_off.tail), 1u, __ATOMIC_RELEASE);
        for (unsigned submit = 1, i = 0; i < 3; submit = 0, i++)
                syscall(__NR_io_uring_enter, fd, submit, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
        munmap(sq, sq_size);
        munmap(sqe, sqes_size);
}

/* Rings that are used once. Small ones, for there are thousands. */
static void open_rings(int count)
{
        if (count == 0)
                return;
        struct rlimit files = {.rlim_cur = (rlim_t)count + 64, .rlim_max = (rlim_t)count + 64};
        int never = eventfd(0, 0);
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
                exit(77);
        for (int i = 0; i < count; i++) {
                struct io_uring_params params = {.sq_entries = 0};
                int fd = (int)syscall(__NR_io_uring_setup, 1, &params);
                if (fd < 0)
                        lab_die("io_uring_setup");
                wait_once(fd, &params, never);
        }
}

static void wait_often(int before, int after)
{
        struct __kernel_timespec timeout = {.tv_nsec = WAKE_NS};
        open_rings(before);
        lab_ring_open(&ring, 0);
        start_read();
        open_rings(after);
        lab_pin(core);
        lab_ready();
        while (!lab_ended) {
                struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_TIMEOUT, -1);
                sqe->addr = (uint64_t)(uintptr_t)&timeout;
                sqe->len = 1;
                lab_enter(&ring, 1, 0);
                while (*ring.cq_head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) {
                        bool read_done = ring.cqes[*ring.cq_head & *ring.cq_mask].user_data == 1;
                        lab_reap(&ring, NULL);
                        if (read_done)
                                start_read();
                }
        }
}

int main(int argc, char **argv)
{
        pthread_t thread;
        const char *path = lab_option(argc, argv, "--file", NULL);
        int before = atoi(lab_option(argc, argv, "--rings-before", "0")), after = atoi(lab_option(argc, argv, "--rings", "0"));
        core = atoi(lab_option(argc, argv, "--core", "0"));
        file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0 || posix_memalign((void **)&buffer, 4096, 4096) != 0)
                lab_die(path ? path : "--file");
        end = lseek(file, 0, SEEK_END);
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead: each block is waited for */
        lab_end_on_term();
        pthread_create(&thread, NULL, lab_watch_input, NULL);
        if (before > 0 || after > 0) {
                wait_often(before, after);
        } else {
                lab_ring_open(&ring, 0);
                crowd(atoi(lab_option(argc, argv, "--threads", "2")));
        }
        _exit(0);
}

#pragma once
/*
 * io_uring by raw system calls, for the lab's programs: a ring of 64 entries, a few requests at a time. No library, so that it is known
 * exactly which calls the kernel sees.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7)
#endif

struct lab_ring {
        int fd;
        unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
        struct io_uring_sqe *sqes;
        struct io_uring_cqe *cqes;
        unsigned ready; /* filled and not yet submitted */
};

static inline void lab_die(const char *what)
{
        perror(what);
        exit(errno == ENOSYS || errno == EPERM ? 77 : 1);
}

static inline void lab_ring_open(struct lab_ring *ring, unsigned setup_flags)
{
        struct io_uring_params params;
        memset(&params, 0, sizeof params);
        memset(ring, 0, sizeof *ring);
        params.flags = setup_flags;
        params.sq_thread_idle = 100;
        ring->fd = (int)syscall(__NR_io_uring_setup, 64, &params);
        if (ring->fd < 0)
                lab_die("io_uring_setup");
        size_t sq_size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
        size_t cq_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
        char *sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
        char *cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_CQ_RING);
        void *sqes = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                ring->fd, IORING_OFF_SQES);
        if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
                lab_die("mmap of the ring");
        ring->sq_tail = (void *)(sq + params.sq_off.tail);
        ring->sq_mask = (void *)(sq + params.sq_off.ring_mask);
        ring->sq_array = (void *)(sq + params.sq_off.array);
        ring->cq_head = (void *)(cq + params.cq_off.head);
        ring->cq_tail = (void *)(cq + params.cq_off.tail);
        ring->cq_mask = (void *)(cq + params.cq_off.ring_mask);
        ring->cqes = (void *)(cq + params.cq_off.cqes);
        ring->sqes = sqes;
}

/* The next request, zeroed. */
static inline struct io_uring_sqe *lab_request(struct lab_ring *ring, uint8_t opcode, int fd)
{
        unsigned tail = *ring->sq_tail + ring->ready, index = tail & *ring->sq_mask;
        struct io_uring_sqe *sqe = &ring->sqes[index];
        memset(sqe, 0, sizeof *sqe);
        sqe->opcode = opcode;
        sqe->fd = fd;
        ring->sq_array[index] = index;
        ring->ready++;
        return sqe;
}

/* Submit what is filled, wait for `wait` completions. Returns what io_uring_enter returned or -errno. */
static inline int lab_enter(struct lab_ring *ring, unsigned wait, unsigned flags)
{
        unsigned count = ring->ready;
        __atomic_store_n(ring->sq_tail, *ring->sq_tail + count, __ATOMIC_RELEASE);
        ring->ready = 0;
        if (wait)
                flags |= IORING_ENTER_GETEVENTS;
        long r = syscall(__NR_io_uring_enter, ring->fd, count, wait, flags, NULL, 0);
        return r < 0 ? -errno : (int)r;
}

/* Take one completion; false when there is none. */
static inline bool lab_reap(struct lab_ring *ring, int *result)
{
        unsigned head = *ring->cq_head;
        if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
                return false;
        if (result)
                *result = ring->cqes[head & *ring->cq_mask].res;
        __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
        return true;
}

/* ---- shared manners: pin, say ready, end on SIGTERM or when standard input ends --------------------------------------------------- */

static inline void lab_pin(int core)
{
        cpu_set_t set;
        if (core < 0)
                return;
        CPU_ZERO(&set);
        CPU_SET((unsigned)core, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
                lab_die("sched_setaffinity");
}

static inline void lab_ready(void)
{
        puts("ready");
        fflush(stdout);
}

/* Core numbers "0,2-3" into an array; returns how many. */
static inline int lab_cores(const char *list, int *cores, int most)
{
        int count = 0;
        while (*list && count < most) {
                char *end;
                long first = strtol(list, &end, 10), last = first;
                if (end == list || first < 0)
                        break;
                if (*end == '-')
                        last = strtol(end + 1, &end, 10);
                for (long c = first; c <= last && count < most; c++)
                        cores[count++] = (int)c;
                list = *end == ',' ? end + 1 : end;
        }
        return count;
}

static volatile sig_atomic_t lab_ended;

static inline void lab_on_end(int signal)
{
        (void)signal;
        lab_ended = 1;
}

/* SIGTERM and SIGINT end the waits of this thread, and lab_wait_for_end(). Without it they end the program by themselves. */
static inline void lab_end_on_term(void)
{
        struct sigaction action = {.sa_handler = lab_on_end};
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
}

/* Blocks until standard input ends, or a signal that ends. */
static inline void lab_wait_for_end(void)
{
        char byte[64];
        ssize_t n;
        do
                n = read(0, byte, sizeof byte);
        while (!lab_ended && (n > 0 || (n < 0 && errno == EINTR)));
}

/* A thread that waits for the end of standard input in place of the main one, which then sees lab_ended. */
static inline void *lab_watch_input(void *arg)
{
        sigset_t all;
        sigfillset(&all); /* signals are the main thread's: they end its waits */
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        lab_wait_for_end();
        lab_ended = 1;
        return arg;
}

/* Value of "--name VALUE", or fallback. */
static inline const char *lab_option(int argc, char **argv, const char *name, const char *fallback)
{
        for (int i = 1; i + 1 < argc; i++)
                if (strcmp(argv[i], name) == 0)
                        return argv[i + 1];
        return fallback;
}

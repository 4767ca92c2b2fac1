/*
 * An idle io_uring reactor: one pinned thread per core parked in io_uring_enter, nothing of its own on any device. The kernel shows 100%
 * wa.
 *
 *     lab_reactor [--cores LIST] [--mode poll|nop|timeout|recv|nowait|multi]
 *
 * poll: POLL_ADD of an eventfd; multi: the same, multishot, fired five times before it parks; nop: one NOP done, nothing pending; timeout:
 * a TIMEOUT of an hour; recv: RECV on a socket; nowait: poll with IORING_ENTER_NO_IOWAIT (the kernel shows no wa).
 */
#include "lab_uring.h"

#include <linux/time_types.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

struct reactor {
        const char *mode;
        int core, number;
        pthread_t thread;
};

static pthread_barrier_t all_parked;

static void park(struct lab_ring *ring, const char *mode)
{
        static struct __kernel_timespec hour = {.tv_sec = 3600};
        static char byte;
        uint64_t one = 1;
        int pair[2], event = eventfd(0, 0);
        if (strcmp(mode, "nop") == 0) {
                lab_request(ring, IORING_OP_NOP, -1);
                lab_enter(ring, 1, 0);
                lab_reap(ring, NULL);
        } else if (strcmp(mode, "timeout") == 0) {
                struct io_uring_sqe *sqe = lab_request(ring, IORING_OP_TIMEOUT, -1);
                sqe->addr = (uint64_t)(uintptr_t)&hour;
                sqe->len = 1;
        } else if (strcmp(mode, "recv") == 0) {
                if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                        lab_die("socketpair");
                struct io_uring_sqe *sqe = lab_request(ring, IORING_OP_RECV, pair[0]);
                sqe->addr = (uint64_t)(uintptr_t)&byte;
                sqe->len = 1;
        } else {
                struct io_uring_sqe *sqe = lab_request(ring, IORING_OP_POLL_ADD, event);
                sqe->poll32_events = POLLIN;
                if (strcmp(mode, "multi") == 0)
                        sqe->len = IORING_POLL_ADD_MULTI;
        }
        for (int i = 0; i < 5 && strcmp(mode, "multi") == 0; i++) {
                if (write(event, &one, sizeof one) != sizeof one || lab_enter(ring, 1, 0) < 0 || read(event, &one, sizeof one) < 0)
                        lab_die("multishot");
                lab_reap(ring, NULL);
        }
}

static void *run(void *arg)
{
        struct reactor *reactor = arg;
        struct lab_ring ring;
        char name[16];
        unsigned flags = strcmp(reactor->mode, "nowait") == 0 ? IORING_ENTER_NO_IOWAIT : 0;
        snprintf(name, sizeof name, "Proactor%d", reactor->number);
        pthread_setname_np(pthread_self(), name);
        lab_pin(reactor->core);
        lab_ring_open(&ring, 0);
        park(&ring, reactor->mode);
        pthread_barrier_wait(&all_parked);
        for (;;) {
                int r = lab_enter(&ring, 1, flags);
                if (r == -EINVAL)
                        _exit(77); /* this kernel has no NO_IOWAIT */
                while (lab_reap(&ring, NULL))
                        ;
        }
        return NULL;
}

int main(int argc, char **argv)
{
        static struct reactor reactors[1024];
        int cores[1024], count;
        char all[32];
        snprintf(all, sizeof all, "0-%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
        const char *mode = lab_option(argc, argv, "--mode", "poll");
        count = lab_cores(lab_option(argc, argv, "--cores", all), cores, 1024);
        if (count == 0)
                return 2;
        pthread_barrier_init(&all_parked, NULL, (unsigned)count + 1);
        for (int i = 0; i < count; i++) {
                reactors[i] = (struct reactor){.mode = mode, .core = cores[i], .number = i};
                if (pthread_create(&reactors[i].thread, NULL, run, &reactors[i]) != 0)
                        lab_die("pthread_create");
        }
        pthread_barrier_wait(&all_parked);
        usleep(50000); /* the way from the barrier into the wait */
        lab_ready();
        lab_wait_for_end();
        _exit(0);
}

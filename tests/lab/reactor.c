/*
 * Idle io_uring reactors: pinned threads parked in io_uring_enter, nothing of their own on any device. The kernel shows 100% wa.
 *
 *     lab_reactor [--cores LIST] [--threads N] [--mode MODE] [--client CORE] [--rate N] [--truth PATH]
 *
 * --threads: so many, spread over the cores (one a core by default). Modes:
 *     poll     POLL_ADD of an eventfd                     multi    the same, multishot, fired five times before it parks
 *     nop      one NOP done, nothing pending              timeout  a TIMEOUT of an hour
 *     recv     RECV on a socket                           async    READ of a socket with IOSQE_ASYNC: an io worker sleeps for it
 *     eventfd  READ of an eventfd                         defer    poll on a ring with DEFER_TASKRUN; coop: with COOP_TASKRUN
 *     echo     RECV on a socket; a client on core --client sends --rate (1000) bytes a second to each, and waits for the answer
 *     nowait   poll with IORING_ENTER_NO_IOWAIT (the kernel shows no wa)
 */
#include "lab_truth.h"
#include "lab_uring.h"

#include <linux/time_types.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

enum { REACTORS = 256 };

struct reactor {
        const char *mode;
        int core, number, near, far; /* near, far: the two ends of its socket */
        pthread_t thread;
};

static pthread_barrier_t all_parked;
static struct reactor reactors[REACTORS];
static int count, client_core, client_rate;
static char bytes[REACTORS];

static bool is(const struct reactor *r, const char *mode)
{
        return strcmp(r->mode, mode) == 0;
}

static void want_byte(struct lab_ring *ring, struct reactor *r)
{
        struct io_uring_sqe *sqe = lab_request(ring, is(r, "async") ? IORING_OP_READ : IORING_OP_RECV, r->near);
        sqe->addr = (uint64_t)(uintptr_t)&bytes[r->number];
        sqe->len = 1;
        sqe->flags = is(r, "async") ? IOSQE_ASYNC : 0;
}

static void fire_multishot(struct lab_ring *ring, int event)
{
        uint64_t one = 1;
        for (int i = 0; i < 5; i++) {
                if (write(event, &one, sizeof one) != sizeof one || lab_enter(ring, 1, 0) < 0 || read(event, &one, sizeof one) < 0)
                        lab_die("multishot");
                lab_reap(ring, NULL);
        }
}

static void park(struct lab_ring *ring, struct reactor *r)
{
        static struct __kernel_timespec hour = {.tv_sec = 3600};
        static uint64_t events;
        int event = eventfd(0, 0);
        struct io_uring_sqe *sqe;
        if (is(r, "nop")) {
                lab_request(ring, IORING_OP_NOP, -1);
                lab_enter(ring, 1, 0);
                lab_reap(ring, NULL);
        } else if (is(r, "timeout")) {
                sqe = lab_request(ring, IORING_OP_TIMEOUT, -1);
                sqe->addr = (uint64_t)(uintptr_t)&hour;
                sqe->len = 1;
        } else if (is(r, "recv") || is(r, "async") || is(r, "echo")) {
                want_byte(ring, r);
        } else if (is(r, "eventfd")) {
                sqe = lab_request(ring, IORING_OP_READ, event);
                sqe->addr = (uint64_t)(uintptr_t)&events;
                sqe->len = sizeof events;
        } else {
                sqe = lab_request(ring, IORING_OP_POLL_ADD, event);
                sqe->poll32_events = POLLIN;
                if (is(r, "multi"))
                        sqe->len = IORING_POLL_ADD_MULTI;
        }
        if (is(r, "multi"))
                fire_multishot(ring, event);
}

/* What came is answered and asked for again. */
static void answer(struct lab_ring *ring, struct reactor *r)
{
        while (lab_reap(ring, NULL))
                if (is(r, "echo")) {
                        if (send(r->near, &bytes[r->number], 1, MSG_NOSIGNAL) != 1)
                                lab_die("send");
                        want_byte(ring, r);
                }
}

static void *run(void *arg)
{
        struct reactor *r = arg;
        struct lab_ring ring;
        char name[16];
        unsigned flags = is(r, "nowait") ? IORING_ENTER_NO_IOWAIT : 0;
        snprintf(name, sizeof name, "Proactor%d", r->number);
        pthread_setname_np(pthread_self(), name);
        lab_pin(r->core);
        struct lab_slot *slot = lab_truth_slot(r->core);
        lab_ring_open(&ring, is(r, "defer") ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN
                        : is(r, "coop") ? IORING_SETUP_COOP_TASKRUN : 0);
        park(&ring, r);
        pthread_barrier_wait(&all_parked);
        for (;;) {
                lab_wait_begin(slot, is(r, "nowait") ? LAB_RUNS : LAB_URING);
                int done = lab_enter(&ring, 1, flags);
                lab_wait_end(slot);
                if (done == -EINVAL)
                        _exit(77); /* this kernel has no NO_IOWAIT */
                answer(&ring, r);
        }
        return NULL;
}

/* Sends a byte to each reactor at the given rate, and takes the answers. */
static void *client(void *arg)
{
        struct timespec next;
        char byte = 'x';
        pthread_setname_np(pthread_self(), "client");
        lab_pin(client_core);
        clock_gettime(CLOCK_MONOTONIC, &next);
        for (;;) {
                next.tv_nsec += 1000000000 / client_rate;
                if (next.tv_nsec >= 1000000000) {
                        next.tv_nsec -= 1000000000;
                        next.tv_sec++;
                }
                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
                for (int i = 0; i < count; i++)
                        if (send(reactors[i].far, &byte, 1, MSG_NOSIGNAL) != 1 || recv(reactors[i].far, &byte, 1, 0) != 1)
                                return arg;
        }
}

int main(int argc, char **argv)
{
        int cores[REACTORS], core_count, pair[2];
        char all[32];
        pthread_t sender;
        snprintf(all, sizeof all, "0-%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
        const char *mode = lab_option(argc, argv, "--mode", "poll");
        core_count = lab_cores(lab_option(argc, argv, "--cores", all), cores, REACTORS);
        count = atoi(lab_option(argc, argv, "--threads", "0"));
        count = count > 0 ? count : core_count;
        client_core = atoi(lab_option(argc, argv, "--client", "-1"));
        client_rate = atoi(lab_option(argc, argv, "--rate", "1000"));
        if (core_count == 0 || count > REACTORS || client_rate < 1)
                return 2;
        lab_truth_open(lab_option(argc, argv, "--truth", NULL));
        lab_end_on_term();
        pthread_barrier_init(&all_parked, NULL, (unsigned)count + 1);
        for (int i = 0; i < count; i++) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                        lab_die("socketpair");
                reactors[i] = (struct reactor){.mode = mode, .core = cores[i % core_count], .number = i, .near = pair[0], .far = pair[1]};
                if (pthread_create(&reactors[i].thread, NULL, run, &reactors[i]) != 0)
                        lab_die("pthread_create");
        }
        pthread_barrier_wait(&all_parked);
        usleep(50000); /* the way from the barrier into the wait */
        if (strcmp(mode, "echo") == 0 && pthread_create(&sender, NULL, client, NULL) != 0)
                lab_die("pthread_create");
        lab_ready();
        lab_wait_for_end();
        lab_truth_say();
        _exit(0);
}

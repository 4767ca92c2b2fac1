/*
 * MariaDB's shape: one thread submits, another waits in io_uring_enter. The waiter never submitted, so the kernel does not count it: wa 0.
 * Nobody may be blamed for wa.
 *
 *     lab_foreign [--core N] [--sqpoll 1]
 */
#include "lab_uring.h"

#include <sys/eventfd.h>

static struct lab_ring ring;
static int core;

static void *wait_only(void *arg)
{
        pthread_setname_np(pthread_self(), "waiter");
        lab_pin(core);
        for (;;)
                lab_enter(&ring, 1, 0);
        return arg;
}

int main(int argc, char **argv)
{
        pthread_t thread;
        bool sqpoll = atoi(lab_option(argc, argv, "--sqpoll", "0")) != 0;
        core = atoi(lab_option(argc, argv, "--core", "0"));
        lab_ring_open(&ring, sqpoll ? IORING_SETUP_SQPOLL : 0);
        struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_POLL_ADD, eventfd(0, 0));
        sqe->poll32_events = POLLIN;
        if (lab_enter(&ring, 0, sqpoll ? IORING_ENTER_SQ_WAKEUP : 0) < 0)
                lab_die("io_uring_enter");
        if (pthread_create(&thread, NULL, wait_only, NULL) != 0)
                lab_die("pthread_create");
        usleep(300000); /* the SQPOLL thread goes to sleep after 100 ms */
        lab_ready();
        lab_wait_for_end();
        _exit(0);
}

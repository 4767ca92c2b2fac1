/*
 * Storage through io_uring: append, then fsync, in a loop. It waits in io_uring_enter exactly as an idle reactor does, but for a disk (most
 * of whose requests belong to the file system's journal thread). It may never be called idle.
 *
 *     lab_uring_append --file PATH [--core N]        the file is made and removed
 */
#include "lab_uring.h"

#include <fcntl.h>

static volatile sig_atomic_t stop;

static void on_end(int signal)
{
        (void)signal;
        stop = 1;
}

static void *watch_input(void *arg)
{
        lab_wait_for_end();
        stop = 1;
        return arg;
}

/* One request and its completion. */
static void do_one(struct lab_ring *ring)
{
        int result = 0, r;
        do
                r = lab_enter(ring, 1, 0);
        while (r == -EINTR && !stop);
        while (lab_reap(ring, &result))
                if (result < 0)
                        errno = -result, lab_die("request");
}

int main(int argc, char **argv)
{
        static char block[4096];
        struct lab_ring ring;
        pthread_t thread;
        const char *path = lab_option(argc, argv, "--file", NULL);
        if (!path)
                return 2;
        struct sigaction action = {.sa_handler = on_end};
        sigaction(SIGTERM, &action, NULL);
        pthread_create(&thread, NULL, watch_input, NULL);
        lab_pin(atoi(lab_option(argc, argv, "--core", "-1")));
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                lab_die(path);
        lab_ring_open(&ring, 0);
        lab_ready();
        for (uint64_t at = 0, n = 0; !stop; n++) {
                struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_WRITE, fd);
                sqe->addr = (uint64_t)(uintptr_t)block;
                sqe->len = sizeof block;
                sqe->off = at;
                do_one(&ring);
                lab_request(&ring, IORING_OP_FSYNC, fd);
                do_one(&ring);
                at = at + sizeof block > (64u << 20) ? 0 : at + sizeof block;
        }
        unlink(path);
        _exit(0);
}

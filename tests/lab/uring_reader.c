/*
 * Reads a file through io_uring, one 4 KiB block after the other, waiting in io_uring_enter: a real wait, whatever lies below the file.
 *
 *     lab_uring_reader --file PATH [--core N] [--direct 1] [--poll 1]
 *
 * --poll 1 has a poll armed on the same ring all the time.
 */
#include "lab_uring.h"

#include <fcntl.h>
#include <sys/eventfd.h>

static void *watch_input(void *arg)
{
        lab_wait_for_end();
        _exit(0);
        return arg;
}

int main(int argc, char **argv)
{
        struct lab_ring ring;
        pthread_t thread;
        void *buffer;
        const char *path = lab_option(argc, argv, "--file", NULL);
        int direct = atoi(lab_option(argc, argv, "--direct", "0")) ? O_DIRECT : 0;
        if (!path || posix_memalign(&buffer, 4096, 4096) != 0)
                return 2;
        int fd = open(path, O_RDONLY | O_CLOEXEC | direct);
        if (fd < 0)
                lab_die(path);
        off_t size = lseek(fd, 0, SEEK_END);
        pthread_create(&thread, NULL, watch_input, NULL);
        lab_pin(atoi(lab_option(argc, argv, "--core", "-1")));
        lab_ring_open(&ring, 0);
        if (atoi(lab_option(argc, argv, "--poll", "0"))) {
                lab_request(&ring, IORING_OP_POLL_ADD, eventfd(0, 0))->poll32_events = POLLIN;
                lab_enter(&ring, 0, 0);
        }
        lab_ready();
        for (off_t at = 0;; at = at + 8192 <= size ? at + 4096 : 0) {
                struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_READ, fd);
                sqe->addr = (uint64_t)(uintptr_t)buffer;
                sqe->len = 4096;
                sqe->off = (uint64_t)at;
                while (!lab_reap(&ring, NULL))
                        lab_enter(&ring, 1, 0);
        }
}

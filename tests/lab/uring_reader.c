/*
 * Reads a file through io_uring, one block after the other, waiting in io_uring_enter: a real wait, whatever lies below the file.
 *
 *     lab_uring_reader --file PATH [--core N] [--direct 1] [--size BYTES] [--poll 1] [--think MICROSECONDS] [--timer MICROSECONDS]
 *                      [--kind KIND] [--truth PATH]
 *
 * --poll 1 has a poll armed on the same ring all the time. --think pauses outside the ring between two reads; --timer waits for a
 * timeout of the ring between two reads instead: then the thread is an idle reactor until the timeout, and waits for storage until its
 * read is done.
 */
#include "lab_truth.h"
#include "lab_uring.h"

#include <linux/time_types.h>
#include <sys/eventfd.h>

static struct lab_ring ring;

/* Waits for the one request that was filled; the armed poll never comes. */
static int wait_for_one(struct lab_slot *slot, enum lab_kind kind)
{
        int result = 0;
        bool done = false;
        lab_wait_begin(slot, kind);
        while (!done && !lab_ended) {
                lab_enter(&ring, 1, 0);
                done = lab_reap(&ring, &result);
        }
        lab_wait_end(slot);
        return result;
}

int main(int argc, char **argv)
{
        void *buffer;
        pthread_t thread;
        const char *path = lab_option(argc, argv, "--file", NULL);
        int direct = atoi(lab_option(argc, argv, "--direct", "0")) ? O_DIRECT : 0, core = atoi(lab_option(argc, argv, "--core", "-1"));
        long think = atol(lab_option(argc, argv, "--think", "0")), timer = atol(lab_option(argc, argv, "--timer", "0"));
        unsigned size = (unsigned)atoi(lab_option(argc, argv, "--size", "4096"));
        struct __kernel_timespec timeout = {.tv_sec = timer / 1000000, .tv_nsec = timer % 1000000 * 1000};
        enum lab_kind kind = lab_kind_of(lab_option(argc, argv, "--kind", "disk"));
        if (!path || size == 0 || posix_memalign(&buffer, 4096, size) != 0)
                return 2;
        int fd = open(path, O_RDONLY | O_CLOEXEC | direct);
        if (fd < 0)
                lab_die(path);
        off_t end = lseek(fd, 0, SEEK_END);
        lab_truth_open(lab_option(argc, argv, "--truth", NULL));
        lab_end_on_term();
        pthread_create(&thread, NULL, lab_watch_input, NULL);
        lab_pin(core);
        struct lab_slot *slot = lab_truth_slot(core);
        lab_ring_open(&ring, 0);
        if (atoi(lab_option(argc, argv, "--poll", "0"))) {
                lab_request(&ring, IORING_OP_POLL_ADD, eventfd(0, 0))->poll32_events = POLLIN;
                lab_enter(&ring, 0, 0);
        }
        lab_ready();
        for (off_t at = 0; !lab_ended; at = at + 2 * (off_t)size <= end ? at + (off_t)size : 0) {
                struct io_uring_sqe *sqe;
                if (timer) {
                        sqe = lab_request(&ring, IORING_OP_TIMEOUT, -1);
                        sqe->addr = (uint64_t)(uintptr_t)&timeout;
                        sqe->len = 1;
                        wait_for_one(slot, LAB_URING);
                }
                if (think)
                        usleep((useconds_t)think);
                sqe = lab_request(&ring, IORING_OP_READ, fd);
                sqe->addr = (uint64_t)(uintptr_t)buffer;
                sqe->len = size;
                sqe->off = (uint64_t)at;
                if (wait_for_one(slot, kind) < 0 && !lab_ended)
                        break;
        }
        lab_truth_say();
        _exit(0);
}

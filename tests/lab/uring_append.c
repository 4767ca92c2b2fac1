/*
 * Storage through io_uring: append, then fsync, in a loop. It waits in io_uring_enter exactly as an idle reactor does, but for a disk (most
 * of whose requests belong to the file system's journal thread). It may never be called idle.
 *
 *     lab_uring_append --file PATH [--core N] [--truth PATH]        the file is made and removed
 */
#include "lab_truth.h"
#include "lab_uring.h"

/* One request and its completion. */
static void do_one(struct lab_ring *ring, struct lab_slot *slot)
{
        int result = 0, r;
        lab_wait_begin(slot, LAB_REAL);
        do
                r = lab_enter(ring, 1, 0);
        while (r == -EINTR && !lab_ended);
        lab_wait_end(slot);
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
        int core = atoi(lab_option(argc, argv, "--core", "-1"));
        if (!path)
                return 2;
        lab_truth_open(lab_option(argc, argv, "--truth", NULL));
        lab_end_on_term();
        pthread_create(&thread, NULL, lab_watch_input, NULL);
        lab_pin(core);
        struct lab_slot *slot = lab_truth_slot(core);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                lab_die(path);
        lab_ring_open(&ring, 0);
        lab_ready();
        for (uint64_t at = 0; !lab_ended; at = at + sizeof block > (64u << 20) ? 0 : at + sizeof block) {
                struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_WRITE, fd);
                sqe->addr = (uint64_t)(uintptr_t)block;
                sqe->len = sizeof block;
                sqe->off = at;
                do_one(&ring, slot);
                lab_request(&ring, IORING_OP_FSYNC, fd);
                do_one(&ring, slot);
        }
        unlink(path);
        lab_truth_say();
        _exit(0);
}

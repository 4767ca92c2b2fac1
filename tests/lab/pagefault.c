/*
 * A process that nobody may ask for its command line: one thread is stuck in a page fault on a file server that does not answer, one holds
 * the mmap lock for writing while it waits for the same page (mmap of the file opened uncached invalidates the cache), a third waits for
 * that lock. A reader of /proc/PID/cmdline or maps hangs with them.
 *
 *     lab_pagefault --file PATH       a file of lab_fuse_slow --stop 0
 *
 * Ends only when the mount does: end the file server first.
 */
#include "lab_uring.h"

#include <fcntl.h>

static const char *path;

static void *fault(void *arg)
{
        pthread_setname_np(pthread_self(), "faulter");
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        const volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        if (fd < 0 || page == MAP_FAILED)
                lab_die(path);
        (void)*page;
        return arg;
}

static void *hold(void *arg)
{
        pthread_setname_np(pthread_self(), "holder");
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        return arg;
}

static void *want(void *arg)
{
        pthread_setname_np(pthread_self(), "wanter");
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return arg;
}

int main(int argc, char **argv)
{
        void *(*const parts[])(void *) = {fault, hold, want};
        pthread_t threads[3];
        static char stacks[3][1 << 16] __attribute__((aligned(4096)));
        path = lab_option(argc, argv, "--file", NULL);
        if (!path)
                return 2;
        setvbuf(stdout, NULL, _IONBF, 0);
        for (size_t i = 0; i < 3; i++) {
                pthread_attr_t attributes;
                pthread_attr_init(&attributes);
                pthread_attr_setstack(&attributes, stacks[i], sizeof stacks[i]); /* no mmap once the lock is held */
                if (pthread_create(&threads[i], &attributes, parts[i], NULL) != 0)
                        lab_die("pthread_create");
                usleep(200000);
        }
        if (write(1, "ready\n", 6) != 6)
                return 1;
        lab_wait_for_end();
        _exit(0);
}

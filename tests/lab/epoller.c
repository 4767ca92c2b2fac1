/*
 * An idle server on epoll: one pinned thread per core in epoll_wait. The kernel shows no wa.
 *
 *     lab_epoller [--cores LIST]
 */
#include "lab_uring.h"

#include <sys/epoll.h>

static void *run(void *arg)
{
        struct epoll_event event;
        lab_pin((int)(intptr_t)arg);
        int fd = epoll_create1(EPOLL_CLOEXEC);
        for (;;)
                epoll_wait(fd, &event, 1, -1);
        return NULL;
}

int main(int argc, char **argv)
{
        int cores[1024], count = lab_cores(lab_option(argc, argv, "--cores", "0"), cores, 1024);
        pthread_t thread;
        for (int i = 0; i < count; i++)
                if (pthread_create(&thread, NULL, run, (void *)(intptr_t)cores[i]) != 0)
                        lab_die("pthread_create");
        lab_ready();
        lab_wait_for_end();
        _exit(0);
}

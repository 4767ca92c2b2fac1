/*
 * An idle server without io_uring: one pinned thread per core in epoll_wait, or in poll. The kernel shows no wa.
 *
 *     lab_epoller [--cores LIST] [--mode epoll|poll]
 */
#include "lab_uring.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static bool by_poll;

static void *run(void *arg)
{
        struct epoll_event event = {.events = EPOLLIN};
        struct pollfd one = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
        lab_pin((int)(intptr_t)arg);
        int fd = epoll_create1(EPOLL_CLOEXEC);
        if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, one.fd, &event) != 0)
                lab_die("epoll");
        for (;;)
                if (by_poll)
                        poll(&one, 1, -1);
                else
                        epoll_wait(fd, &event, 1, -1);
        return NULL;
}

int main(int argc, char **argv)
{
        int cores[1024], count = lab_cores(lab_option(argc, argv, "--cores", "0"), cores, 1024);
        pthread_t thread;
        by_poll = strcmp(lab_option(argc, argv, "--mode", "epoll"), "poll") == 0;
        for (int i = 0; i < count; i++)
                if (pthread_create(&thread, NULL, run, (void *)(intptr_t)cores[i]) != 0)
                        lab_die("pthread_create");
        lab_ready();
        lab_wait_for_end();
        _exit(0);
}

/*
 * lab_spawn N [THREADS [AWAKE]]: N sleeping children, each with THREADS threads (1 by default), for benchmarks of what a population costs.
 * AWAKE of them wake each second and do a little.
 *
 * Prints "ready" when all are asleep, then sleeps until its standard input ends or a signal comes. Children die with it
 * (PR_SET_PDEATHSIG), however it ends.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

static void *sleeper(void *arg)
{
        for (;;)
                pause();
        return arg;
}

/* About a tenth of a millisecond of work a second. */
static void waker(void)
{
        const struct timespec second = {.tv_sec = 1};

        for (;;) {
                nanosleep(&second, NULL);
                for (volatile int i = 0; i < 100000; i++)
                        ;
        }
}

static void child(pid_t parent, long threads, int ready, int wakes)
{
        pthread_attr_t attr;
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1); /* the parent was faster */
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        for (long i = 1; i < threads; i++)
                if (pthread_create(&thread, &attr, sleeper, NULL) != 0)
                        _exit(1);
        if (write(ready, "", 1) != 1)
                _exit(1);
        close(ready);
        close(STDIN_FILENO);
        if (wakes)
                waker();
        sleeper(NULL);
}

int main(int argc, char **argv)
{
        long count = argc > 1 ? strtol(argv[1], NULL, 10) : 0, threads = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
        long awake = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
        pid_t parent = getpid();
        int ready[2];
        char byte;

        if (count < 1 || count > 100000 || threads < 1 || threads > 10000 || pipe(ready) < 0) {
                fprintf(stderr, "usage: lab_spawn N [THREADS [AWAKE]]\n");
                return 2;
        }
        for (long i = 0; i < count; i++) {
                pid_t pid = fork();
                if (pid == 0) {
                        close(ready[0]);
                        child(parent, threads, ready[1], i < awake);
                }
                if (pid < 0) {
                        perror("fork");
                        return 1;
                }
        }
        close(ready[1]);
        for (long i = 0; i < count; i++) {
                if (read(ready[0], &byte, 1) != 1) {
                        fprintf(stderr, "a child did not start\n");
                        return 1;
                }
        }
        printf("ready\n");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        return 0;
}

/*
 * A real waiter: O_DIRECT pread in a loop, pinned, with an optional pause between reads.
 *
 *     lab_reader --file PATH [--core N] [--think MICROSECONDS] [--size BYTES] [--make MIB]
 *
 * --make writes the file first (and removes it at the end); without it PATH must exist.
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

static void make_file(const char *path, long mib)
{
        static char block[1 << 20];
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                lab_die(path);
        for (size_t i = 0; i < sizeof block; i++)
                block[i] = (char)(i * 2654435761u >> 13);
        for (long i = 0; i < mib; i++)
                if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
                        lab_die("write");
        fsync(fd);
        close(fd);
}

int main(int argc, char **argv)
{
        const char *path = lab_option(argc, argv, "--file", NULL);
        long think = atol(lab_option(argc, argv, "--think", "0")), mib = atol(lab_option(argc, argv, "--make", "0"));
        size_t size = (size_t)atol(lab_option(argc, argv, "--size", "4096"));
        void *buffer;
        pthread_t thread;
        if (!path || size == 0 || posix_memalign(&buffer, 4096, size) != 0)
                return 2;
        struct sigaction action = {.sa_handler = on_end};
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        if (mib > 0)
                make_file(path, mib);
        lab_pin(atoi(lab_option(argc, argv, "--core", "-1")));
        int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (fd < 0)
                lab_die(path);
        off_t end = lseek(fd, 0, SEEK_END);
        if (end < (off_t)size)
                return 2;
        uint64_t blocks = (uint64_t)end / size, at = 1, reads = 0;
        pthread_create(&thread, NULL, watch_input, NULL);
        lab_ready();
        while (!stop) {
                at = at * 6364136223846793005u + 1442695040888963407u;
                if (pread(fd, buffer, size, (off_t)((at >> 33) % blocks * size)) < 0)
                        lab_die("pread");
                reads++;
                if (think)
                        usleep((useconds_t)think);
        }
        if (mib > 0)
                unlink(path);
        printf("reads %llu\n", (unsigned long long)reads);
        return 0;
}

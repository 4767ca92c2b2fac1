/*
 * The opposite of an idle reactor: several threads keep 32 writes each in flight through libaio's system calls. The device is busy and wa
 * is near 0, because io_getevents does not count as waiting for I/O.
 *
 *     lab_aio_writers --file PATH [--writers 4] [--depth 32] [--size 4096]      the file is made and removed
 */
#include "lab_uring.h"

#include <fcntl.h>
#include <linux/aio_abi.h>

enum { DEPTH_MAX = 256, FILE_BYTES = 64 << 20 };

static volatile sig_atomic_t stop;
static unsigned depth, size;
static int fd;

static void on_end(int signal)
{
        (void)signal;
        stop = 1;
}

static void *write_on(void *arg)
{
        static _Thread_local struct iocb blocks[DEPTH_MAX];
        static _Thread_local struct io_event events[DEPTH_MAX];
        aio_context_t context = 0;
        uint64_t at = (uint64_t)(uintptr_t)arg + 1;
        void *buffer;
        if (posix_memalign(&buffer, 4096, size) != 0 || syscall(__NR_io_setup, depth, &context) != 0)
                lab_die("io_setup");
        memset(buffer, 0x5a, size);
        for (unsigned i = 0; i < depth; i++)
                events[i].obj = (uint64_t)(uintptr_t)&blocks[i];
        for (long done = (long)depth; !stop && done > 0;) {
                for (long i = 0; i < done; i++) {
                        struct iocb *block = (struct iocb *)(uintptr_t)events[i].obj;
                        at = at * 6364136223846793005u + 1442695040888963407u;
                        memset(block, 0, sizeof *block);
                        block->aio_lio_opcode = IOCB_CMD_PWRITE;
                        block->aio_fildes = (uint32_t)fd;
                        block->aio_buf = (uint64_t)(uintptr_t)buffer;
                        block->aio_nbytes = size;
                        block->aio_offset = (int64_t)((at >> 33) % (FILE_BYTES / size) * size);
                        if (syscall(__NR_io_submit, context, 1, &block) != 1)
                                lab_die("io_submit");
                }
                done = syscall(__NR_io_getevents, context, 1, depth, events, NULL);
        }
        syscall(__NR_io_destroy, context);
        return NULL;
}

int main(int argc, char **argv)
{
        static pthread_t threads[64];
        unsigned writers = (unsigned)atoi(lab_option(argc, argv, "--writers", "4"));
        const char *path = lab_option(argc, argv, "--file", NULL);
        depth = (unsigned)atoi(lab_option(argc, argv, "--depth", "32"));
        size = (unsigned)atoi(lab_option(argc, argv, "--size", "4096"));
        if (!path || writers == 0 || writers > 64 || depth == 0 || depth > DEPTH_MAX || size < 512 || size > FILE_BYTES)
                return 2;
        struct sigaction action = {.sa_handler = on_end};
        sigaction(SIGTERM, &action, NULL);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
        if (fd < 0 || posix_fallocate(fd, 0, FILE_BYTES) != 0)
                lab_die(path);
        for (unsigned i = 0; i < writers; i++)
                if (pthread_create(&threads[i], NULL, write_on, (void *)(uintptr_t)i) != 0)
                        lab_die("pthread_create");
        lab_ready();
        lab_wait_for_end();
        stop = 1;
        for (unsigned i = 0; i < writers; i++)
                pthread_join(threads[i], NULL);
        unlink(path);
        return 0;
}

/*
 * The opposite of an idle reactor: several threads keep 32 writes each in flight through libaio's system calls. The device is busy and wa
 * is near 0, because io_getevents does not count as waiting for I/O.
 *
 *     lab_aio_writers --file PATH [--writers 4] [--depth 32] [--size 4096] [--read 1] [--core N] [--truth PATH]
 *     the file is made and removed
 *
 * Its waits are real and nobody counts them, so they are not in the truth; what it runs is. --read reads instead; --core pins all of them.
 */
#include "lab_truth.h"
#include "lab_uring.h"

#include <linux/aio_abi.h>

enum { DEPTH_MAX = 256, FILE_BYTES = 64 << 20 };

static unsigned depth, size;
static int fd, core, opcode;

static void *write_on(void *arg)
{
        static _Thread_local struct iocb blocks[DEPTH_MAX];
        static _Thread_local struct io_event events[DEPTH_MAX];
        aio_context_t context = 0;
        uint64_t at = (uint64_t)(uintptr_t)arg + 1;
        void *buffer;
        lab_pin(core);
        struct lab_slot *slot = lab_truth_slot(core);
        if (posix_memalign(&buffer, 4096, size) != 0 || syscall(__NR_io_setup, depth, &context) != 0)
                lab_die("io_setup");
        memset(buffer, 0x5a, size);
        for (unsigned i = 0; i < depth; i++)
                events[i].obj = (uint64_t)(uintptr_t)&blocks[i];
        for (long done = (long)depth; !lab_ended && done > 0;) {
                for (long i = 0; i < done; i++) {
                        struct iocb *block = (struct iocb *)(uintptr_t)events[i].obj;
                        at = at * 6364136223846793005u + 1442695040888963407u;
                        memset(block, 0, sizeof *block);
                        block->aio_lio_opcode = (uint16_t)opcode;
                        block->aio_fildes = (uint32_t)fd;
                        block->aio_buf = (uint64_t)(uintptr_t)buffer;
                        block->aio_nbytes = size;
                        block->aio_offset = (int64_t)((at >> 33) % (FILE_BYTES / size) * size);
                        if (syscall(__NR_io_submit, context, 1, &block) != 1)
                                lab_die("io_submit");
                }
                lab_wait_begin(slot, LAB_RUNS);
                done = syscall(__NR_io_getevents, context, 1, depth, events, NULL);
                lab_wait_end(slot);
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
        core = atoi(lab_option(argc, argv, "--core", "-1"));
        opcode = atoi(lab_option(argc, argv, "--read", "0")) ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
        if (!path || writers == 0 || writers > 64 || depth == 0 || depth > DEPTH_MAX || size < 512 || size > FILE_BYTES)
                return 2;
        lab_truth_open(lab_option(argc, argv, "--truth", NULL));
        lab_end_on_term();
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
        if (fd < 0 || posix_fallocate(fd, 0, FILE_BYTES) != 0)
                lab_die(path);
        for (unsigned i = 0; i < writers; i++)
                if (pthread_create(&threads[i], NULL, write_on, (void *)(uintptr_t)i) != 0)
                        lab_die("pthread_create");
        lab_ready();
        lab_wait_for_end();
        lab_ended = 1;
        for (unsigned i = 0; i < writers; i++)
                pthread_join(threads[i], NULL);
        unlink(path);
        lab_truth_say();
        return 0;
}

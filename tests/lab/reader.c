/*
 * A real waiter without io_uring: reads or writes a file in a loop, pinned, with an optional pause between two of them.
 *
 *     lab_reader --file PATH [--how HOW] [--core N] [--think MICROSECONDS] [--size BYTES] [--make MIB] [--kind KIND] [--truth PATH]
 *
 * HOW is one of
 *     pread     O_DIRECT at random places (the default)
 *     buffered  through the page cache, one block after the other, without read-ahead
 *     mmap      the same by page faults
 *     fsync     append a block, then fsync
 *     dirty     write through the page cache as fast as it goes: waits are dirty throttling
 *     memory    touch --size bytes of memory, page by page, over and over (PATH is not used): waits are for swapped pages
 * --make writes the file first (and removes it at the end); without it PATH must exist. A failed read (its server is gone) ends it.
 */
#include "lab_truth.h"
#include "lab_uring.h"

static char *buffer;
static size_t size;
static uint64_t blocks, at;
static volatile char sink;

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

/* One step of each kind; negative when it failed. */
static ssize_t read_direct(int fd)
{
        at = at * 6364136223846793005u + 1442695040888963407u;
        return pread(fd, buffer, size, (off_t)((at >> 33) % blocks * size));
}

static ssize_t read_buffered(int fd)
{
        return pread(fd, buffer, size, (off_t)(at++ % blocks * size));
}

static ssize_t fault(int fd)
{
        static const char *pages;
        if (!pages) {
                pages = mmap(NULL, blocks * size, PROT_READ, MAP_SHARED, fd, 0);
                if (pages == MAP_FAILED || madvise((void *)(uintptr_t)pages, blocks * size, MADV_RANDOM) != 0)
                        lab_die("mmap");
        }
        sink = pages[at++ % blocks * size];
        return 1;
}

static ssize_t append_fsync(int fd)
{
        ssize_t n = pwrite(fd, buffer, size, (off_t)(at++ % blocks * size));
        return n < 0 ? n : fsync(fd);
}

static ssize_t write_on(int fd)
{
        return pwrite(fd, buffer, size, (off_t)(at++ % blocks * size));
}

static ssize_t touch(int fd)
{
        (void)fd;
        if (at == 0)
                usleep(300000); /* its caller may move it to a control group first */
        ((volatile char *)buffer)[at++ % (size / 4096) * 4096]++;
        return 1;
}

static const struct {
        const char *name;
        int flags;
        ssize_t (*step)(int fd);
} ways[] = {
        {"pread", O_RDONLY | O_DIRECT, read_direct}, {"buffered", O_RDONLY, read_buffered}, {"mmap", O_RDONLY, fault},
        {"fsync", O_RDWR, append_fsync}, {"dirty", O_RDWR, write_on}, {"memory", O_RDONLY, touch},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

int main(int argc, char **argv)
{
        const char *path = lab_option(argc, argv, "--file", NULL), *how = lab_option(argc, argv, "--how", "pread");
        long think = atol(lab_option(argc, argv, "--think", "0")), mib = atol(lab_option(argc, argv, "--make", "0"));
        int core = atoi(lab_option(argc, argv, "--core", "-1")), way = 0;
        enum lab_kind kind = lab_kind_of(lab_option(argc, argv, "--kind", "disk"));
        pthread_t thread;
        void *memory;
        size = (size_t)atol(lab_option(argc, argv, "--size", "4096"));
        while (way < WAYS && strcmp(ways[way].name, how) != 0)
                way++;
        if (!path || way == WAYS || size == 0 || posix_memalign(&memory, 4096, size) != 0)
                return 2;
        bool memory_only = ways[way].step == touch;
        buffer = memory_only ? memory : memset(memory, 0x5a, size);
        lab_truth_open(lab_option(argc, argv, "--truth", NULL));
        lab_end_on_term();
        pthread_create(&thread, NULL, lab_watch_input, NULL);
        if (mib > 0)
                make_file(path, mib);
        lab_pin(core);
        struct lab_slot *slot = lab_truth_slot(core);
        int fd = open(memory_only ? "/dev/null" : path, ways[way].flags | O_CLOEXEC);
        if (fd < 0)
                lab_die(path);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        off_t end = lseek(fd, 0, SEEK_END);
        if (!memory_only && end < (off_t)size)
                return 2;
        blocks = (uint64_t)end / size;
        lab_ready();
        while (!lab_ended) {
                lab_wait_begin(slot, kind);
                ssize_t n = ways[way].step(fd);
                lab_wait_end(slot);
                if (n < 0 && !lab_ended)
                        break;
                if (think)
                        usleep((useconds_t)think);
        }
        if (mib > 0)
                unlink(path);
        lab_truth_say();
        _exit(0);
}

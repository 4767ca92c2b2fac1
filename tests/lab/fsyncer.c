/*
 * A waiter of known times: writes to a file and makes it safe, again and again, and says how long each call took by its own clock.
 *
 *      fsyncer FILE COUNT BYTES PAUSE_MS fsync|fdatasync|msync|range|osync|none
 *
 * One line a call: end (CLOCK_REALTIME, ns), duration (ns). `none` writes and makes nothing safe. The file is as long as COUNT * BYTES
 * before the first call and on the disk, so that calls write data in place. The last line is "done".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(clockid_t clock)
{
        struct timespec time;

        clock_gettime(clock, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int fail(const char *what)
{
        fprintf(stderr, "fsyncer: %s: %s\n", what, strerror(errno));
        return 1;
}

static int make_file(int fd, const char *bytes, size_t size, unsigned long count)
{
        for (unsigned long i = 0; i < count; i++)
                if (pwrite(fd, bytes, size, (off_t)(i * size)) != (ssize_t)size)
                        return fail("write");
        return fsync(fd) < 0 ? fail("fsync") : 0;
}

/* The call is what is timed; what it makes safe is written before, except by a write that is safe itself. */
static int round_of(int fd, const char *call, char *bytes, char *map, size_t size, unsigned long number, uint64_t *time)
{
        off_t at = (off_t)(number * size);
        bool osync = strcmp(call, "osync") == 0, mapped = strcmp(call, "msync") == 0;

        memset(bytes, (int)('a' + number % 26), size);
        if (mapped)
                memcpy(map + at, bytes, size);
        else if (!osync && pwrite(fd, bytes, size, at) != (ssize_t)size)
                return -1;
        uint64_t start = now(CLOCK_MONOTONIC);
        int r = 0;
        if (osync)
                r = pwrite(fd, bytes, size, at) == (ssize_t)size ? 0 : -1;
        else if (mapped)
                r = msync(map + at, size, MS_SYNC);
        else if (strcmp(call, "fsync") == 0)
                r = fsync(fd);
        else if (strcmp(call, "fdatasync") == 0)
                r = fdatasync(fd);
        else if (strcmp(call, "range") == 0)
                r = sync_file_range(fd, at, (off_t)size, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        *time = now(CLOCK_MONOTONIC) - start;
        return r;
}

int main(int argc, char **argv)
{
        if (argc != 6)
                return fprintf(stderr, "fsyncer FILE COUNT BYTES PAUSE_MS fsync|fdatasync|msync|range|osync|none\n"), 2;
        unsigned long count = strtoul(argv[2], NULL, 10), size = strtoul(argv[3], NULL, 10), pause = strtoul(argv[4], NULL, 10);
        int fd = open(argv[1], O_RDWR | O_CREAT | (strcmp(argv[5], "osync") == 0 ? O_SYNC : 0), 0600);
        char *bytes = calloc(1, size ? size : 1);

        if (fd < 0 || bytes == NULL)
                return fail(argv[1]);
        if (make_file(fd, bytes, size, count))
                return 1;
        char *map = mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
                return fail("mmap");
        puts("ready");
        fflush(stdout);
        for (unsigned long i = 0; i < count; i++) {
                uint64_t time;
                if (round_of(fd, argv[5], bytes, map, size, i, &time) < 0)
                        return fail(argv[5]);
                printf("%" PRIu64 " %" PRIu64 "\n", now(CLOCK_REALTIME), time);
                fflush(stdout);
                if (pause)
                        nanosleep(&(struct timespec){(time_t)(pause / 1000), (long)(pause % 1000 * 1000000)}, NULL);
        }
        puts("done");
        return 0;
}

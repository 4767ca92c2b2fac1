/*
 * What tracing by tracefs costs: ns a request, in the kernel and for reading it, and ns a system call of anybody while calls are traced.
 *
 *      bench_tracefs [PAIRS [MS]]
 *
 * Direct reads of a loop device over memory, 32 at once, in pairs of windows without and with tracing. Told is what the reading thread's
 * own CPU time grows by, for each event that it causes itself (the completion runs elsewhere): that does not depend on who else is busy,
 * as elapsed time would. Medians of pairs, and the differences of the best. The drain's cost is its own CPU time, by all events of the
 * machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "collectors/tracefs.h"
#include "collectors/tracefs_own.h"
#include "sample/stage_stream.h"

enum { DEPTH = 32, ROOM = 1 << 16, BLOCK = 4096, SIZE = 64 << 20, PAIRS_MOST = 100 };
static struct stage_record records[ROOM];
static double drain_ns;
static size_t drained, of_device, of_thread;
static uint32_t device;

static double clock_ns(clockid_t clock)
{
        struct timespec at;
        clock_gettime(clock, &at);
        return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static int fail(const char *what)
{
        fprintf(stderr, "bench_tracefs: %s\n", what);
        return 1;
}

static void drain(struct tracefs *tracefs)
{
        size_t n;

        do {
                double from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
                n = tracefs_drain(tracefs, records, ROOM);
                drain_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
                drained += n;
                for (size_t i = 0; i < n; i++) {
                        bool ours = records[i].kind == RECORD_EVENT && records[i].device == device;
                        of_device += ours;
                        of_thread += ours && records[i].tid == (uint32_t)gettid();
                }
        } while (n > 0);
}

/* DEPTH random reads at once. */
static bool read_some(aio_context_t context, int fd, uint8_t *memory, unsigned *seed)
{
        struct iocb block[DEPTH], *blocks[DEPTH];
        struct io_event done[DEPTH];

        for (int i = 0; i < DEPTH; i++) {
                block[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)fd, .aio_nbytes = BLOCK,
                        .aio_buf = (uintptr_t)(memory + i * BLOCK), .aio_offset = (int64_t)(rand_r(seed) % (SIZE / BLOCK)) * BLOCK};
                blocks[i] = &block[i];
        }
        return syscall(SYS_io_submit, context, (long)DEPTH, blocks) == DEPTH &&
                syscall(SYS_io_getevents, context, (long)DEPTH, (long)DEPTH, done, NULL) == DEPTH;
}

/* ns of CPU a read; drained outside of the clock. */
static double reads(int fd, uint8_t *memory, double ms, struct tracefs *tracefs, size_t *requests)
{
        double spent = 0, count = 0;
        unsigned seed = 1;
        aio_context_t context = 0;

        if (syscall(SYS_io_setup, (long)DEPTH, &context) < 0)
                return -1;
        while (spent < ms * 1e6) {
                double from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
                for (int i = 0; i < 32; i++, count += DEPTH)
                        if (!read_some(context, fd, memory, &seed))
                                exit(fail("the device cannot be read"));
                spent += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
                if (tracefs)
                        drain(tracefs);
        }
        if (tracefs) {
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                drain(tracefs);
        }
        syscall(SYS_io_destroy, context);
        *requests += (size_t)count;
        return spent / count;
}

static double calls(double ms)
{
        double from = clock_ns(CLOCK_THREAD_CPUTIME_ID), count = 0;

        while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - from < ms * 1e6)
                for (int i = 0; i < 1000; i++, count++)
                        syscall(SYS_getppid);
        return (clock_ns(CLOCK_THREAD_CPUTIME_ID) - from) / count;
}

static int by_value(const void *a, const void *b)
{
        double first = *(const double *)a, second = *(const double *)b;
        return first < second ? -1 : first > second;
}

static double tell(const char *what, double *off, double *on, int pairs)
{
        double best_off = off[0], best_on = on[0];

        for (int i = 0; i < pairs; i++) {
                best_off = off[i] < best_off ? off[i] : best_off;
                best_on = on[i] < best_on ? on[i] : best_on;
                on[i] -= off[i];
        }
        qsort(on, (size_t)pairs, sizeof *on, by_value);
        printf("%s: %.0f ns untraced; traced %+.0f ns (median of %d pairs), %+.0f ns (best)\n", what, best_off, on[pairs / 2], pairs,
                best_on - best_off);
        return on[pairs / 2];
}

static int make_loop(void)
{
        char path[64];
        int memory = memfd_create("bench", MFD_CLOEXEC), control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1;
        struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};

        if (memory < 0 || control < 0 || ftruncate(memory, SIZE) < 0)
                return -1;
        snprintf(path, sizeof path, "/dev/loop%d", ioctl(control, LOOP_CTL_GET_FREE));
        fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        if (fd >= 0 && (ioctl(fd, LOOP_SET_FD, memory) < 0 || ioctl(fd, LOOP_SET_STATUS64, &info) < 0)) {
                close(fd);
                return -1;
        }
        return fd;
}

int main(int argc, char **argv)
{
        int pairs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8;
        double ms = argc > 2 ? strtod(argv[2], NULL) : 200, off[PAIRS_MOST], on[PAIRS_MOST], attach_ms = 0, detach_ms = 0;
        struct tracefs *tracefs;
        struct stat st;
        char why[256];
        int fd = make_loop();
        uint8_t *memory = aligned_alloc(BLOCK, DEPTH * BLOCK);
        size_t requests = 0, unused = 0;

        pairs = pairs < 1 ? 1 : pairs > PAIRS_MOST ? PAIRS_MOST : pairs;
        if (fd < 0 || fstat(fd, &st) < 0)
                return fail("no loop device");
        device = major(st.st_rdev) << 20 | minor(st.st_rdev);
        if (tracefs_open(&tracefs, why, sizeof why) < 0)
                return fail(why);
        reads(fd, memory, ms, NULL, &unused);
        for (int i = 0; i < pairs; i++) {
                off[i] = reads(fd, memory, ms, NULL, &unused);
                double from = clock_ns(CLOCK_MONOTONIC);
                if (tracefs_attach(tracefs, STREAM_WHAT_BIOS, why, sizeof why) < 0)
                        return fail(why);
                attach_ms += (clock_ns(CLOCK_MONOTONIC) - from) / 1e6 / pairs;
                on[i] = reads(fd, memory, ms, tracefs, &requests);
                from = clock_ns(CLOCK_MONOTONIC);
                tracefs_attach(tracefs, 0, why, sizeof why);
                detach_ms += (clock_ns(CLOCK_MONOTONIC) - from) / 1e6 / pairs;
        }
        double kernel = tell("a read, its thread's part", off, on, pairs) * (double)requests / (double)of_thread;
        double all = (double)of_device / (double)requests;
        printf("an event: %.0f ns in the kernel, %.0f ns to be read; a request: %.1f events, %.0f ns + %.0f ns; %llu lost\n", kernel,
                drain_ns / (double)drained, all, kernel * all, drain_ns / (double)drained * all, (unsigned long long)tracefs_lost(tracefs));
        printf("attach %.1f ms, detach %.1f ms\n", attach_ms, detach_ms);
        for (int i = 0; i < pairs; i++) {
                off[i] = calls(ms / 4);
                if (tracefs_attach(tracefs, STREAM_WHAT_SYNC, why, sizeof why) < 0)
                        return fail(why);
                on[i] = calls(ms / 4);
                tracefs_attach(tracefs, 0, why, sizeof why);
        }
        tell("any system call, while calls are traced", off, on, pairs);
        tracefs_close(tracefs);
        close(fd);
        free(memory);
        return 0;
}

/*
 * The block tracer on the running kernel, on disks of its own (loop devices over memory, a zram), against the kernel's counters, the
 * kernel's trace of the same events, what the program itself timed, and the kernel's list of programs. Skipped where tracing is not
 * permitted or not built.
 *
 * The kernel may keep an event from us (an interrupt inside of a program; a moment in which somebody else attaches to it): such a bio has
 * no end. So what is exact is tried three times.
 */
#include "collectors/bpf/stage_tracer.h"
#include "kernel_programs.h"
#include "kernel_trace.h"
#include "lab/lab_uring.h"
#include "loop_disk.h"
#include "sample/stage.h"
#include "sample/stage_stream.h"
#include "zram_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <linux/aio_abi.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORDS = 1 << 18, DISK_BYTES = 32 << 20, BLOCK = 4096, BATCH = 32 };

static struct stage_record records[RECORDS];
static size_t record_count;
static struct loop_disk disk;
static char why[256];
static void *block;             /* 4 MiB, aligned for O_DIRECT */

static uint64_t now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void pause_ms(long ms)
{
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct stage_tracer *open_or_skip(void)
{
        struct stage_tracer *tracer = NULL;
        int r = stage_tracer_open(&tracer, why, sizeof why);
        if (r == -EPERM || r == -EACCES || r == -ENOENT || r == -ENOSYS || r == -EOPNOTSUPP || disk.fd < 0) {
                print_message("# skipped: %s\n", r < 0 ? why : "no loop device here");
                stage_tracer_close(tracer);
                skip();
        }
        if (r < 0)
                fail_msg("stage_tracer_open: %s", why);
        return tracer;
}

static void attach(struct stage_tracer *tracer, unsigned what)
{
        if (stage_tracer_attach(tracer, what, why, sizeof why) < 0)
                fail_msg("stage_tracer_attach: %s", why);
        assert_int_equal(stage_tracer_attached(tracer), what);
        record_count = 0;
}

static void drain(struct stage_tracer *tracer)
{
        record_count += stage_tracer_drain(tracer, records + record_count, RECORDS - record_count);
}

static bool is_ours(const struct stage_record *record)
{
        return record->kind == RECORD_BIO && record->device == disk.device;
}

/* Until `count` of the disk's bios have ended, or it is late. */
static size_t wait_for(struct stage_tracer *tracer, size_t count)
{
        size_t found = 0;
        for (int i = 0; i < 100 && found < count; i++) {
                drain(tracer);
                found = 0;
                for (size_t k = 0; k < record_count; k++)
                        found += is_ours(&records[k]);
                if (found < count)
                        pause_ms(10);
        }
        return found;
}

/* What has to hold of any bio that went through a request. */
static bool in_order(const struct stage_record *record)
{
        uint64_t got = record->bio.g ? record->bio.g : record->bio.m;
        return record->bio.id && record->bio.q && got >= record->bio.q && record->bio.d1 >= got && record->bio.d >= record->bio.d1 &&
                record->bio.c >= record->bio.d && (!record->bio.i || (record->bio.i >= got && record->bio.i <= record->bio.d1));
}

static ssize_t once(int fd, bool read, off_t at)
{
        return read ? pread(fd, block, BLOCK, at) : pwrite(fd, block, BLOCK, at);
}

/* ---- single reads and writes against the kernel's counters --------------------------------------------------------------------------- */

static bool reads_and_writes(struct stage_tracer *tracer, const char *scheduler)
{
        enum { COUNT = 400 };
        size_t heads = 0, writes = 0, inserted = 0, sectors = 0, named = 0;
        if (!loop_set(&disk, "scheduler", scheduler))
                print_message("# no scheduler %s here\n", scheduler);
        attach(tracer, STREAM_WHAT_BIOS);
        struct loop_counts before = loop_count(&disk);
        for (int i = 0; i < COUNT; i++) {
                off_t at = (off_t)(i * 7919 % (DISK_BYTES / BLOCK)) * BLOCK;
                assert_int_equal(once(disk.fd, i % 4, at), BLOCK);
        }
        wait_for(tracer, COUNT);
        struct loop_counts after = loop_count(&disk);
        for (size_t i = 0; i < record_count; i++) {
                const struct stage_record *record = &records[i];
                named += record->kind == RECORD_NAME && record->tid == (uint32_t)getpid() &&
                        strcmp(record->name.comm, "test_stage_trac") == 0;
                if (!is_ours(record))
                        continue;
                assert_true(in_order(record));
                assert_int_equal(record->tid, getpid());
                assert_int_equal(record->tgid, getpid());
                assert_int_equal(record->flags, RECORD_HEAD);
                assert_int_equal(record->bio.error, 0);
                assert_int_equal(record->bio.request_sectors, BLOCK >> 9);
                heads++;
                sectors += record->bio.sectors;
                writes += record->direction == STAGE_WRITE;
                inserted += record->bio.i != 0;
        }
        stage_tracer_attach(tracer, 0, why, sizeof why);
        print_message("# %s: %zu requests, the kernel %llu; %zu inserted\n", scheduler, heads,
                after.reads + after.writes - before.reads - before.writes, inserted);
        assert_true(named > 0);
        return heads == after.reads + after.writes - before.reads - before.writes && writes == after.writes - before.writes &&
                sectors == after.read_sectors + after.write_sectors - before.read_sectors - before.write_sectors &&
                (strcmp(scheduler, "none") == 0 || inserted == heads);
}

static void counts_as_the_kernel(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        static const char *const schedulers[] = {"mq-deadline", "none"};
        for (size_t i = 0; i < 2; i++) {
                bool equal = false;
                for (int attempt = 0; attempt < 3 && !equal; attempt++)
                        equal = reads_and_writes(tracer, schedulers[i]);
                assert_true(equal);
        }
        stage_tracer_close(tracer);
}

/* ---- merges, splits ------------------------------------------------------------------------------------------------------------------ */

/* BATCH reads of neighbouring blocks in one call, which the kernel plugs and merges. Down: in falling order, for merges to the front. */
static bool batch(bool down)
{
        aio_context_t context = 0;
        struct iocb requests[BATCH], *list[BATCH];
        struct io_event done[BATCH];
        if (syscall(SYS_io_setup, BATCH, &context) != 0)
                return false;
        memset(requests, 0, sizeof requests);
        for (int i = 0; i < BATCH; i++) {
                requests[i].aio_lio_opcode = IOCB_CMD_PREAD;
                requests[i].aio_fildes = (uint32_t)disk.fd;
                requests[i].aio_buf = (uint64_t)(uintptr_t)block + (uint64_t)i * BLOCK;
                requests[i].aio_nbytes = BLOCK;
                requests[i].aio_offset = (long long)(down ? BATCH - 1 - i : i) * BLOCK;
                list[i] = &requests[i];
        }
        bool good = syscall(SYS_io_submit, context, BATCH, list) == BATCH &&
                syscall(SYS_io_getevents, context, BATCH, BATCH, done, NULL) == BATCH;
        syscall(SYS_io_destroy, context);
        return good;
}

static bool merges(struct stage_tracer *tracer, bool down)
{
        size_t heads = 0, merged = 0, sectors = 0, ended = 0;
        attach(tracer, STREAM_WHAT_BIOS);
        struct loop_counts before = loop_count(&disk);
        if (!batch(down))
                return true; /* no libaio here */
        wait_for(tracer, BATCH);
        struct loop_counts after = loop_count(&disk);
        for (size_t i = 0; i < record_count; i++) {
                const struct stage_record *record = &records[i];
                if (!is_ours(record))
                        continue;
                assert_true(in_order(record));
                ended++;
                heads += record->flags & RECORD_HEAD;
                merged += record->bio.m != 0;
                sectors += record->bio.request_sectors;
        }
        stage_tracer_attach(tracer, 0, why, sizeof why);
        print_message("# %s: %zu bios, %zu requests, %zu merged; the kernel %llu and %llu\n", down ? "falling" : "rising", ended, heads,
                merged, after.reads - before.reads, after.read_merges - before.read_merges);
        return ended == BATCH && heads == after.reads - before.reads && merged == after.read_merges - before.read_merges &&
                sectors == BATCH * (BLOCK >> 9);
}

static void merges_are_seen(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        for (int down = 0; down < 2; down++) {
                bool equal = false;
                for (int attempt = 0; attempt < 3 && !equal; attempt++)
                        equal = merges(tracer, down);
                assert_true(equal);
        }
        stage_tracer_close(tracer);
}

/* The parts of one bio: as many as it says, from its start to its end, queued at the same time. Returns their sectors, 0 = they do not
 * fit. */
static uint64_t whole_bio(const struct stage_record *last)
{
        uint64_t sectors = 0, start = UINT64_MAX;
        size_t parts = 0;
        for (size_t i = 0; i < record_count; i++) {
                const struct stage_record *record = &records[i];
                if (!is_ours(record) || record->bio.id != last->bio.id)
                        continue;
                assert_int_equal(record->bio.q, last->bio.q);
                assert_true(record == last || record->flags & RECORD_PIECE);
                start = record->bio.sector < start ? record->bio.sector : start;
                sectors += record->bio.sectors;
                parts++;
        }
        return parts == last->bio.parts && start + sectors == last->bio.sector + last->bio.sectors ? sectors : 0;
}

static bool splits(struct stage_tracer *tracer)
{
        enum { BYTES = 2 << 20, PART = 128 << 10 };
        uint64_t sectors = 0;
        size_t parts = 0, bios = 0;
        attach(tracer, STREAM_WHAT_BIOS);
        struct loop_counts before = loop_count(&disk);
        assert_int_equal(pread(disk.fd, block, BYTES, 0), BYTES);
        wait_for(tracer, BYTES / PART);
        struct loop_counts after = loop_count(&disk);
        stage_tracer_attach(tracer, 0, why, sizeof why);
        for (size_t i = 0; i < record_count; i++) {
                if (!is_ours(&records[i]))
                        continue;
                assert_true(in_order(&records[i]));
                parts++;
                if (!(records[i].flags & RECORD_PIECE)) {
                        assert_true(records[i].flags & RECORD_LAST);
                        bios++;
                        sectors += whole_bio(&records[i]);
                }
        }
        print_message("# %zu parts of %zu bios, the kernel made %llu requests\n", parts, bios, after.reads - before.reads);
        return parts > bios && sectors == BYTES >> 9 && parts == after.reads - before.reads;
}

static void splits_are_one_bio(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        bool equal = false;
        assert_true(loop_set(&disk, "max_sectors_kb", "128"));
        for (int attempt = 0; attempt < 3 && !equal; attempt++)
                equal = splits(tracer);
        loop_set(&disk, "max_sectors_kb", "1280");
        stage_tracer_close(tracer);
        assert_true(equal);
}

/* ---- names --------------------------------------------------------------------------------------------------------------------------- */

/* A new name is told with the next bio, not a second later. */
static void new_names_are_told(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        static const char *const names[] = {"one name", "another", "another of 15.."};
        char before[16];
        size_t told = 0;
        assert_int_equal(prctl(PR_GET_NAME, before), 0);
        attach(tracer, STREAM_WHAT_BIOS);
        for (size_t i = 0; i < 3; i++) {
                prctl(PR_SET_NAME, names[i]);
                for (int k = 0; k < 3; k++)
                        assert_int_equal(once(disk.fd, true, k * BLOCK), BLOCK);
        }
        prctl(PR_SET_NAME, before);
        wait_for(tracer, 9);
        stage_tracer_close(tracer);
        for (size_t i = 0; i < record_count; i++)
                if (records[i].kind == RECORD_NAME && records[i].tid == (uint32_t)getpid()) {
                        if (told > 0 && strcmp(records[i].name.comm, names[told - 1]) == 0) /* again after a second */
                                continue;
                        assert_true(told < 3);
                        assert_string_equal(records[i].name.comm, names[told]);
                        told++;
                }
        assert_int_equal(told, 3);
}

/* ---- flushes ------------------------------------------------------------------------------------------------------------------------- */

static bool flushes(struct stage_tracer *tracer, int through)
{
        enum { COUNT = 20 };
        size_t empty = 0, fua = 0, own = 0, heads = 0;
        attach(tracer, STREAM_WHAT_BIOS);
        struct loop_counts before = loop_count(&disk);
        for (int i = 0; i < COUNT; i++) {
                assert_int_equal(fdatasync(disk.fd), 0);
                assert_int_equal(pwrite(through, block, BLOCK, (off_t)i * BLOCK), BLOCK);
        }
        wait_for(tracer, 3 * COUNT);
        struct loop_counts after = loop_count(&disk);
        stage_tracer_attach(tracer, 0, why, sizeof why);
        for (size_t i = 0; i < record_count; i++) {
                const struct stage_record *record = &records[i];
                if (!is_ours(record))
                        continue;
                if (record->bio_flags & STAGE_FLUSH_OP) { /* the kernel's own request, for some of them together */
                        assert_int_equal(record->flags, RECORD_HEAD);
                        assert_true(record->bio.c > record->bio.d && record->bio.d && !record->bio.q && !record->tid && !record->tgid);
                        own++;
                        continue;
                }
                heads += record->flags & RECORD_HEAD;
                assert_true(record->bio.c > record->bio.q && (!record->bio.given || record->bio.given >= record->bio.c));
                if (record->bio.sectors == 0) {
                        assert_true(record->bio_flags & STAGE_PREFLUSH && record->bio.d == 0 && record->direction == STAGE_WRITE);
                        empty++;
                } else if (record->bio_flags & STAGE_FUA) {
                        assert_true(in_order(record) && record->bio.given > 0);
                        assert_int_equal(record->bio.request_sectors, BLOCK >> 9);
                        fua++;
                }
        }
        print_message("# %zu empty flushes, %zu writes past the cache, %zu of them heads; the kernel flushed %llu times, seen %zu\n", empty,
                fua, heads, after.flushes - before.flushes, own);
        return empty >= COUNT && (fua == COUNT || fua == 0) && own == after.flushes - before.flushes && heads == empty + fua;
}

static void flush_sequences(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        bool equal = false;
        int through = open(disk.path, O_WRONLY | O_DIRECT | O_DSYNC | O_CLOEXEC);
        loop_set(&disk, "write_cache", "write back");
        for (int attempt = 0; attempt < 3 && !equal; attempt++)
                equal = flushes(tracer, through);
        close(through);
        stage_tracer_close(tracer);
        assert_true(equal);
}

/* ---- against the kernel's own trace -------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
        int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
        return left < right ? -1 : left > right;
}

/* How far the records' times are from the kernel's, by event (Q G D C). */
static struct distances {
        int64_t off[KERNEL_EVENTS][4096];
        size_t count[KERNEL_EVENTS], lacking;
} distances;

static void beside_its_record(size_t which, uint64_t time, uint64_t sector)
{
        const struct stage_record *record = NULL;
        for (size_t i = 0; i < record_count; i++)
                if (is_ours(&records[i]) && records[i].bio.sector == sector)
                        record = &records[i];
        if (!record) {
                distances.lacking++;
        } else if (distances.count[which] < 4096) {
                uint64_t ours = which == 0 ? record->bio.q : which == 1 ? record->bio.g : which == 2 ? record->bio.d : record->bio.c;
                distances.off[which][distances.count[which]++] = (int64_t)(ours - time);
        }
}

static void times_are_the_kernels(void **state)
{
        enum { COUNT = 300 };
        struct stage_tracer *tracer = open_or_skip();
        struct kernel_trace trace;
        bool traces = kernel_trace_begin(&trace, disk.device);
        if (traces) {
                attach(tracer, STREAM_WHAT_BIOS);
                for (int i = 0; i < COUNT; i++)
                        assert_int_equal(pread(disk.fd, block, BLOCK, (off_t)i * 2 * BLOCK), BLOCK);
                wait_for(tracer, COUNT);
                kernel_trace_each(&trace, beside_its_record);
        }
        kernel_trace_end(&trace);
        stage_tracer_close(tracer);
        if (!traces) {
                print_message("# skipped: no trace instance can be made here\n");
                skip();
        }
        assert_true(distances.lacking <= KERNEL_EVENTS * COUNT / 100);
        for (size_t which = 0; which < KERNEL_EVENTS; which++) {
                size_t count = distances.count[which];
                qsort(distances.off[which], count, sizeof distances.off[which][0], by_value);
                print_message("# %s: %zu, the middle one off by %lld ns\n", kernel_events[which], count,
                        (long long)distances.off[which][count / 2]);
                assert_true(count >= COUNT * 98 / 100);
                assert_true(distances.off[which][count / 2] > -5000 && distances.off[which][count / 2] < 5000);
        }
}

/* ---- events -------------------------------------------------------------------------------------------------------------------------- */

static bool events(struct stage_tracer *tracer)
{
        enum { COUNT = 50 };
        size_t count[STAGE_ACTIONS] = {0}, bios = 0;
        attach(tracer, STREAM_WHAT_EVENTS);
        for (int i = 0; i < COUNT; i++)
                assert_int_equal(pread(disk.fd, block, BLOCK, (off_t)i * 2 * BLOCK), BLOCK);
        for (int i = 0; i < 100 && count[STAGE_C] < COUNT; i++) {
                drain(tracer);
                memset(count, 0, sizeof count);
                bios = 0;
                for (size_t k = 0; k < record_count; k++) {
                        const struct stage_record *record = &records[k];
                        bios += record->kind == RECORD_BIO;
                        if (record->kind != RECORD_EVENT || record->device != disk.device)
                                continue;
                        count[record->event.action]++;
                        if (record->event.action == STAGE_Q) {
                                assert_int_equal(record->tid, getpid());
                                assert_string_equal(record->event.comm, "test_stage_trac");
                                assert_string_equal(record->event.rwbs, "RS");
                                assert_int_equal(record->event.sectors, BLOCK >> 9);
                        }
                        assert_true((record->event.key != 0) == (record->event.action == STAGE_I || record->event.action == STAGE_D ||
                                record->event.action == STAGE_C || record->event.action == STAGE_R || record->event.action == STAGE_MERGE));
                }
                if (count[STAGE_C] < COUNT)
                        pause_ms(10);
        }
        stage_tracer_attach(tracer, 0, why, sizeof why);
        assert_int_equal(bios, 0);
        return count[STAGE_Q] == COUNT && count[STAGE_G] == COUNT && count[STAGE_D] == COUNT && count[STAGE_C] == COUNT;
}

static void single_events(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        bool equal = false;
        for (int attempt = 0; attempt < 3 && !equal; attempt++)
                equal = events(tracer);
        stage_tracer_close(tracer);
        assert_true(equal);
}

/* ---- a driver without requests ------------------------------------------------------------------------------------------------------- */

static void bios_without_requests(void **state)
{
        enum { COUNT = 100 };
        struct stage_tracer *tracer = open_or_skip();
        char path[32];
        size_t ended = 0, writes = 0;
        struct stat about = {0};
        int number = zram_add();
        snprintf(path, sizeof path, "/dev/zram%d", number);
        int fd = number < 0 ? -1 : open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        if (fd >= 0) {
                fstat(fd, &about);
                uint32_t device = (uint32_t)(about.st_rdev >> 8 & 0xfff) << 20 | (uint32_t)number;
                attach(tracer, STREAM_WHAT_BIOS);
                for (int i = 0; i < COUNT; i++)
                        assert_int_equal(once(fd, i % 2, (off_t)i * BLOCK), BLOCK);
                drain(tracer); /* all of it is done in the caller's context */
                for (size_t i = 0; i < record_count; i++) {
                        const struct stage_record *record = &records[i];
                        if (record->kind != RECORD_BIO || record->device != device)
                                continue;
                        assert_int_equal(record->flags, RECORD_DRIVER);
                        assert_true(record->bio.c >= record->bio.q && !record->bio.g && !record->bio.d);
                        assert_int_equal(record->tid, getpid());
                        assert_int_equal(record->bio.sectors, BLOCK >> 9);
                        ended++;
                        writes += record->direction == STAGE_WRITE;
                }
                close(fd);
        }
        if (number >= 0)
                zram_remove(number);
        stage_tracer_close(tracer);
        if (fd < 0) {
                print_message("# skipped: no zram here\n");
                skip();
        }
        print_message("# %zu of %d bios\n", ended, COUNT);
        assert_true(ended >= COUNT * 9 / 10 && writes >= COUNT * 4 / 10);
}

/* ---- calls that wait ----------------------------------------------------------------------------------------------------------------- */

struct timed {
        enum sync_call call;
        uint64_t before, after;
        bool file;
};

static const struct stage_record *call_record(const struct timed *timed)
{
        for (size_t i = 0; i < record_count; i++)
                if (records[i].kind == RECORD_SYNC && records[i].tgid == (uint32_t)getpid() && records[i].sync.call == timed->call &&
                                records[i].sync.start >= timed->before && records[i].sync.end <= timed->after)
                        return &records[i];
        return NULL;
}

#define TIMED(kind, of_file, expression) do { \
        timed[count].call = (kind); \
        timed[count].file = (of_file); \
        timed[count].before = now(); \
        assert_true((expression) >= 0); \
        timed[count++].after = now(); \
} while (0)

static int ring_fsync(struct lab_ring *ring, int fd)
{
        int result = -1;
        lab_request(ring, IORING_OP_FSYNC, fd);
        return lab_enter(ring, 1, 0) == 1 && lab_reap(ring, &result) ? result : -1;
}

static void calls_are_timed(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        struct timed timed[16];
        struct stat about;
        struct lab_ring ring;
        size_t count = 0;
        char path[64] = "/var/tmp/watop-stage-XXXXXX";
        (void)state;
        int fd = mkostemp(path, O_CLOEXEC), through = open(path, O_WRONLY | O_DSYNC | O_CLOEXEC);
        bool has_ring = syscall(__NR_io_uring_setup, 0, NULL) < 0 && errno == EFAULT; /* else it is not permitted */
        assert_true(fd >= 0 && through >= 0);
        assert_int_equal(ftruncate(fd, BLOCK), 0);
        fstat(fd, &about);
        void *memory = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(memory != MAP_FAILED);
        if (has_ring)
                lab_ring_open(&ring, 0);
        attach(tracer, STREAM_WHAT_SYNC);
        assert_int_equal(pwrite(fd, block, BLOCK, 0), BLOCK); /* an ordinary write is none */
        TIMED(SYNC_FSYNC, true, fsync(fd));
        TIMED(SYNC_FDATASYNC, true, fdatasync(fd));
        TIMED(SYNC_WRITE, true, pwrite(through, block, 300, 0));
        TIMED(SYNC_WRITE, true, write(through, block, 300));
        struct iovec part = {.iov_base = block, .iov_len = 300};
        TIMED(SYNC_WRITE, true, writev(through, &part, 1));
        TIMED(SYNC_WRITE, true, pwritev2(fd, &part, 1, 0, RWF_SYNC));
        TIMED(SYNC_RANGE, true, sync_file_range(fd, 0, BLOCK, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
        TIMED(SYNC_MSYNC, false, msync(memory, BLOCK, MS_SYNC));
        TIMED(SYNC_ALL, true, syncfs(fd));
        if (has_ring)
                TIMED(SYNC_RING, true, ring_fsync(&ring, fd));
        uint64_t failed = now();
        assert_int_equal(fsync(-1), -1);
        drain(tracer);
        stage_tracer_close(tracer);
        unlink(path);
        for (size_t i = 0; i < count; i++) {
                const struct stage_record *record = call_record(&timed[i]);
                if (!record)
                        fail_msg("call %zu (kind %d) is not told", i, timed[i].call);
                assert_true(record->sync.end >= record->sync.start);
                assert_int_equal(record->sync.result, timed[i].call == SYNC_WRITE ? 300 : 0);
                assert_int_equal(record->sync.bytes, timed[i].call == SYNC_WRITE ? 300 : timed[i].call == SYNC_MSYNC ? BLOCK : 0);
                if (!timed[i].file)
                        continue;
                assert_int_equal(record->sync.inode, about.st_ino);
                assert_string_equal(record->sync.file, strrchr(path, '/') + 1);
                if (record->sync.disk) /* not on btrfs, whose st_dev is none of the kernel's inside */
                        assert_int_equal(record->device, (uint32_t)(about.st_dev >> 8 & 0xfff) << 20 | (uint32_t)(about.st_dev & 0xff));
        }
        size_t told = 0;
        for (size_t i = 0; i < record_count; i++)
                told += records[i].kind == RECORD_SYNC && records[i].tgid == (uint32_t)getpid() && records[i].sync.end < failed;
        assert_int_equal(told, count);
        munmap(memory, BLOCK);
        close(fd);
        close(through);
        if (has_ring)
                close(ring.fd);
}

/* ---- bios that are open -------------------------------------------------------------------------------------------------------------- */

/* A reader of a disk whose file server takes its time. */
static void open_bios(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        char folder[] = "/var/tmp/watop-stage-XXXXXX", path[96];
        struct loop_disk slow = {.fd = -1};
        bool found = false;
        pid_t server, reader = 0;
        int ready[2], input[2], status;
        char byte;
        assert_non_null(mkdtemp(folder));
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(input, O_CLOEXEC), 0);
        if ((server = fork()) == 0) {
                dup2(input[0], 0);
                dup2(ready[1], 1);
                execl(*state, "lab_fuse_slow", "--mount", folder, "--delay", "1500", "--size", "64", (char *)NULL);
                _exit(127);
        }
        close(ready[1]);
        close(input[0]);
        snprintf(path, sizeof path, "%s/file", folder);
        int file = read(ready[0], &byte, 1) == 1 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file >= 0 && loop_over(&slow, file, O_RDONLY | O_DIRECT) == 0) {
                attach(tracer, STREAM_WHAT_BIOS);
                uint64_t began = now();
                if ((reader = fork()) == 0)
                        _exit(pread(slow.fd, block, BLOCK, 0) == BLOCK ? 0 : 1);
                for (int i = 0; i < 200 && (!found || now() < began + 1200000000u); i++) { /* not taken for one that has ended unseen */
                        found = false;
                        record_count = stage_tracer_open_bios(tracer, records, RECORDS);
                        for (size_t k = 0; k < record_count; k++) {
                                const struct stage_record *record = &records[k];
                                assert_true(k == 0 || record->bio.q >= records[k - 1].bio.q);
                                found |= record->device == slow.device && record->tgid == (uint32_t)reader && record->bio.c == 0 &&
                                        record->bio.q > began && record->bio.d > 0;
                        }
                        pause_ms(10);
                }
                waitpid(reader, &status, 0);
                pause_ms(20);
                record_count = stage_tracer_open_bios(tracer, records, RECORDS);
                for (size_t k = 0; k < record_count; k++)
                        assert_true(records[k].device != slow.device);
        }
        if (file >= 0)
                close(file);
        if (slow.fd >= 0)
                loop_disk_close(&slow);
        kill(server, SIGTERM);
        waitpid(server, &status, 0);
        close(ready[0]);
        close(input[1]);
        rmdir(folder);
        stage_tracer_close(tracer);
        if (!reader) {
                print_message("# skipped: no /dev/fuse, or no loop device over it\n");
                skip();
        }
        assert_true(found);
}

/* ---- too many ------------------------------------------------------------------------------------------------------------------------ */

static void full_buffers_are_counted(void **state)
{
        struct stage_tracer *tracer = open_or_skip();
        struct stage_tracer_stats before, after;
        attach(tracer, STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS);
        stage_tracer_stats(tracer, &before);
        assert_int_equal(before.lost, 0);
        uint64_t limit = now() + 15000000000u;
        assert_true(loop_set(&disk, "max_sectors_kb", "4")); /* 512 requests a read */
        do {
                assert_int_equal(pread(disk.fd, block, 2 << 20, 0), 2 << 20);
                stage_tracer_stats(tracer, &after);
        } while (after.lost == 0 && now() < limit);
        loop_set(&disk, "max_sectors_kb", "1280");
        assert_true(after.lost > 0);
        drain(tracer);
        size_t full = record_count;
        uint64_t last = 0; /* of all CPUs in one order; an interrupt may be told before what it interrupted */
        for (size_t i = 0; i < full; i++) {
                const struct stage_record *record = &records[i];
                uint64_t time = record->kind == RECORD_BIO ? record->bio.c : record->kind == RECORD_EVENT ? record->event.time : last;
                assert_true(time + 1000000 > last);
                last = time;
        }
        record_count = 0;
        assert_int_equal(pread(disk.fd, block, BLOCK, 0), BLOCK);
        assert_true(wait_for(tracer, 1) > 0); /* there is room again */
        print_message("# %zu records kept, %llu lost\n", full, (unsigned long long)after.lost);
        stage_tracer_close(tracer);
}

/* ---- nothing stays ------------------------------------------------------------------------------------------------------------------- */

static bool is_loaded(uint32_t id)
{
        int fd = bpf_prog_get_fd_by_id(id);
        if (fd >= 0)
                close(fd);
        return fd >= 0;
}

static void killed_leaves_nothing(void **state)
{
        uint32_t ids[128];
        int ready[2], status;
        char byte;
        stage_tracer_close(open_or_skip());
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
                struct stage_tracer *tracer;
                bool good = stage_tracer_open(&tracer, why, sizeof why) == 0 &&
                        stage_tracer_attach(tracer, STREAM_WHAT_BIOS | STREAM_WHAT_SYNC | STREAM_WHAT_EVENTS, why, sizeof why) == 0;
                if (write(ready[1], &good, 1) == 1)
                        pause();
                _exit(1);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        size_t count = programs_of(child, ids, 128), left = count;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        for (int i = 0; i < 200 && left; i++) {
                left = 0;
                for (size_t k = 0; k < count; k++)
                        left += is_loaded(ids[k]);
                if (left)
                        pause_ms(20);
        }
        close(ready[0]);
        close(ready[1]);
        print_message("# %zu descriptors of programs and links while it lived, %zu after it was killed\n", count, left);
        assert_int_equal(byte, 1);
        assert_true(count >= 12);
        assert_int_equal(left, 0);
}

int main(int argc, char **argv)
{
        static char fuse[4200];
        ssize_t n = readlink("/proc/self/exe", fuse, 4096);
        fuse[n > 0 ? n : 0] = '\0';
        snprintf(strrchr(fuse, '/') ? strrchr(fuse, '/') + 1 : fuse, 32, "lab_fuse_slow");
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counts_as_the_kernel),
                cmocka_unit_test(merges_are_seen),
                cmocka_unit_test(splits_are_one_bio),
                cmocka_unit_test(new_names_are_told),
                cmocka_unit_test(flush_sequences),
                cmocka_unit_test(times_are_the_kernels),
                cmocka_unit_test(single_events),
                cmocka_unit_test(bios_without_requests),
                cmocka_unit_test(calls_are_timed),
                cmocka_unit_test_prestate(open_bios, fuse),
                cmocka_unit_test(full_buffers_are_counted),
                cmocka_unit_test(killed_leaves_nothing),
        };
        disk.fd = -1;
        if (posix_memalign(&block, BLOCK, 4 << 20) != 0)
                return 1;
        memset(block, 7, 4 << 20);
        int r = loop_disk_open(&disk, DISK_BYTES);
        if (r < 0)
                disk.fd = -1;
        int failed = cmocka_run_group_tests_name("stage_tracer", tests, NULL, NULL);
        if (r == 0)
                loop_disk_close(&disk);
        free(block);
        return failed;
}

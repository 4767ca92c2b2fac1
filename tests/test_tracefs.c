/*
 * The tracefs source on the running kernel, against a second instance whose text tui/blk_read_text.c reads, and against the device's own
 * counters. Skipped without root or tracefs. Its parsers: test_tracefs_pages.c.
 *
 * Only events of a loop device of our own, and calls of our own threads, are compared, so what else happens on the machine does not matter.
 */
#include "collectors/tracefs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collectors/tracefs_own.h"
#include "sample/stage.h"
#include "sample/stage_stream.h"
#include "tui/blk_read.h"

enum { ROOM = 1 << 16, SIZE = 64 << 20, BLOCK = 4096, LARGE = 4 << 20 };
static const char folder[] = "/sys/kernel/tracing/instances";
static char why[256];
static struct stage_record *records;  /* ROOM of them */

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

/* ---- this machine -------------------------------------------------------------------------------------------------------------------- */

static struct tracefs *open_or_skip(void)
{
        struct tracefs *tracefs = NULL;
        int r = tracefs_open(&tracefs, why, sizeof why);

        if (r == 0 && access(folder, W_OK) < 0) {
                tracefs_close(tracefs);
                r = -ENOENT;
                snprintf(why, sizeof why, "tracefs is elsewhere");
        }
        if (r < 0) {
                print_message("# skipped: %s\n", why);
                skip();
        }
        return tracefs;
}

static void attach(struct tracefs *tracefs, unsigned what)
{
        if (tracefs_attach(tracefs, what, why, sizeof why) < 0)
                fail_msg("tracefs_attach: %s", why);
        assert_int_equal(tracefs_attached(tracefs), what);
}

static void write_file(const char *instance, const char *file, const char *text)
{
        char path[256];

        snprintf(path, sizeof path, "%s/%s/%s", folder, instance, file);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                fail_msg("%s: %s", path, strerror(errno));
        close(fd);
}

static bool exists(const char *instance)
{
        char path[400];
        struct stat st;

        snprintf(path, sizeof path, "%s/%s", folder, instance);
        return stat(path, &st) == 0;
}

/* A loop device over memory, gone with its last descriptor. Its descriptor, or -1. */
static int make_loop(char *path, size_t size, uint32_t *device)
{
        int memory = memfd_create("watop-test", MFD_CLOEXEC), control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1;
        struct stat st;

        for (int tries = 0; memory >= 0 && control >= 0 && ftruncate(memory, SIZE) == 0 && tries < 20; tries++) {
                int number = ioctl(control, LOOP_CTL_GET_FREE);
                snprintf(path, size, "/dev/loop%d", number);
                fd = number < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
                if (fd < 0)
                        break;
                struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};
                if (ioctl(fd, LOOP_SET_FD, memory) == 0 && ioctl(fd, LOOP_SET_STATUS64, &info) == 0)
                        break;
                close(fd);
                fd = -1;
        }
        if (fd >= 0 && fstat(fd, &st) == 0)
                *device = major(st.st_rdev) << 20 | minor(st.st_rdev);
        if (memory >= 0)
                close(memory);
        if (control >= 0)
                close(control);
        return fd;
}

struct job {
        const char *path;
        unsigned seed;
};

/* Single reads at random places, large ones that are split, buffered writes that are merged and flushed, and writes past the cache. */
static void *run_job(void *argument)
{
        const struct job *job = argument;
        unsigned seed = job->seed;
        uint8_t *memory = aligned_alloc(BLOCK, LARGE);
        int direct = open(job->path, O_RDWR | O_DIRECT | O_CLOEXEC), buffered = open(job->path, O_RDWR | O_CLOEXEC);

        memset(memory, 1, LARGE);
        for (int i = 0; i < 300; i++)
                if (pread(direct, memory, BLOCK, (off_t)(rand_r(&seed) % (SIZE / BLOCK)) * BLOCK) != BLOCK)
                        break;
        for (int i = 0; i < 4; i++)
                if (pread(direct, memory, LARGE, (off_t)i * LARGE) != LARGE || pwrite(buffered, memory, LARGE / 4, (off_t)(8 + i) * LARGE +
                        job->seed * BLOCK * 512) < 0 || fsync(buffered) < 0)
                        break;
        int synced = open(job->path, O_RDWR | O_DIRECT | O_DSYNC | O_CLOEXEC);
        for (int i = 0; i < 20; i++)
                if (pwrite(synced, memory, BLOCK, (off_t)(rand_r(&seed) % (SIZE / BLOCK)) * BLOCK) != BLOCK)
                        break;
        close(synced);
        close(buffered);
        close(direct);
        free(memory);
        return NULL;
}

static void run_load(const char *path)
{
        pthread_t threads[2];
        struct job jobs[2] = {{path, 1}, {path, 2}};

        for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
}

/* Requests and merges that the device counts: reads, writes, discards, flushes; in flight at the end: none. */
static void read_stat(const char *path, uint64_t *requests, uint64_t *merges)
{
        char name[128];
        uint64_t field[17] = {0};

        snprintf(name, sizeof name, "/sys/block/%s/stat", path + strlen("/dev/"));
        FILE *file = fopen(name, "re");
        assert_non_null(file);
        for (int i = 0; i < 17 && fscanf(file, "%" SCNu64, &field[i]) == 1; i++)
                ;
        fclose(file);
        *requests = field[0] + field[4] + field[11];
        *merges = field[1] + field[5] + field[12];
}

/* ---- against the text of another instance -------------------------------------------------------------------------------------------- */

struct fact { /* compared byte by byte */
        uint64_t sector, other;
        uint32_t action, sectors, pid, cpu, direction, flags, other_device;
        int32_t error;
        char rwbs[12], name[16];
};

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(struct fact)); }

static void put_fact(struct fact *fact, const struct stage_event *event, uint32_t cpu, const char *rwbs, const char *name)
{
        memset(fact, 0, sizeof *fact);
        *fact = (struct fact){.sector = event->sector, .other = event->other, .action = event->action, .sectors = event->sectors,
                .pid = event->pid, .cpu = cpu, .direction = event->direction, .flags = event->flags,
                .other_device = event->other_device, .error = event->error};
        snprintf(fact->rwbs, sizeof fact->rwbs, "%s", rwbs);
        snprintf(fact->name, sizeof fact->name, "%s", name);
}

static struct stage_event event_of(const struct stage_record *record)
{
        return (struct stage_event){.time = record->event.time, .sector = record->event.sector, .other = record->event.other,
                .key = record->event.key, .sectors = record->event.sectors, .device = record->device,
                .other_device = record->event.other_device,
                .pid = record->tid, .error = record->event.error, .action = record->event.action, .direction = record->direction,
                .flags = record->bio_flags, .name = record->event.comm[0] ? record->event.comm : NULL};
}

static size_t read_text(const char *instance, uint32_t device, struct fact *facts, struct stage_set *set)
{
        char path[256], *line = NULL, name[BLK_NAME];
        size_t capacity = 0, count = 0;
        ssize_t n;
        struct blk_record record;

        snprintf(path, sizeof path, "%s/%s/trace", folder, instance);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        while ((n = getline(&line, &capacity, file)) > 0 && count < ROOM) {
                enum blk_line kind = blk_parse_line(line, (size_t)n - (line[n - 1] == '\n'), &record, name);
                if (kind == BLK_LINE_OVERWRITTEN || kind == BLK_LINE_LOST)
                        fail_msg("the text has lost events");
                if (kind != BLK_LINE_EVENT || record.event.device != device)
                        continue;
                record.event.name = name[0] ? name : NULL;
                put_fact(&facts[count++], &record.event, record.cpu, record.rwbs, name);
                assert_int_equal(stage_event(set, &record.event), 0);
        }
        free(line);
        fclose(file);
        return count;
}

/* All that comes until some ms after `until`. Of the device, in order. */
static size_t drain_until(struct tracefs *tracefs, uint64_t until, uint32_t device, struct fact *facts, struct stage_set *set,
        uint64_t *lost)
{
        size_t count = 0, n, turn = 0;
        uint64_t last = 0;
        bool after = false;

        for (;;) {
                while ((n = tracefs_drain(tracefs, records, turn++ % 4 ? ROOM : 4)) > 0) /* whatever room there is */
                        for (size_t i = 0; i < n; i++) {
                                const struct stage_record *record = &records[i];
                                if (record->kind == RECORD_LOST && lost)
                                        *lost += record->lost.count;
                                if (record->kind != RECORD_EVENT)
                                        continue;
                                assert_true(record->event.time >= last);
                                last = record->event.time;
                                if (record->device != device || count == ROOM)
                                        continue;
                                struct stage_event event = event_of(record);
                                if (set)
                                        assert_int_equal(stage_event(set, &event), 0);
                                put_fact(&facts[count++], &event, record->event.cpu, record->event.rwbs, record->event.comm);
                        }
                if (after)
                        return count;
                after = now() > until + 20000000;
                pause_ms(2);
        }
}

static void compare_stages(const struct stage_set *a, const struct stage_set *b)
{
        struct stage_sum first = {0}, second = {0};

        for (size_t i = 0; i < stage_rows(a); i++)
                stage_add(&first, stage_get_row(a, i));
        for (size_t i = 0; i < stage_rows(b); i++)
                stage_add(&second, stage_get_row(b, i));
        assert_true(first.bios > 600 && first.splits > 0 && first.merged > 0);
        assert_int_equal(first.bios, second.bios);
        assert_int_equal(first.requests, second.requests);
        assert_int_equal(first.sectors, second.sectors);
        for (int i = 0; i < STAGE_COUNT; i++) {
                assert_int_equal(first.bio[i].count, second.bio[i].count);
                if (first.bio[i].count < 100)
                        continue;
                double mine = histogram_quantile(&first.bio[i], 0.5), its = histogram_quantile(&second.bio[i], 0.5);
                if (mine - its > 5000 + its / 3 || its - mine > 5000 + its / 3) /* the second of two probes, and whole us */
                        fail_msg("%s: median %.0f ns, %.0f by the text", stage_name((enum stage)i), mine, its);
        }
        for (int i = 0; i < STAGE_ACTIONS; i++)
                assert_int_equal(stage_get_counts(a)->unmatched[i], stage_get_counts(b)->unmatched[i]);
        assert_true(stage_get_counts(a)->unmatched[STAGE_C] == 0 && stage_get_counts(a)->unmatched[STAGE_D] == 0);
}

static void start_text(char *instance, size_t size)
{
        static const char *const events[] = {"bio_queue", "getrq", "rq_insert", "rq_issue", "rq_complete", "bio_complete",
                "bio_backmerge", "bio_frontmerge", "rq_merge", "rq_requeue", "split", "bio_remap"};
        char path[256];

        snprintf(instance, size, "test-watop-%d", (int)getpid());
        snprintf(path, sizeof path, "%s/%s", folder, instance);
        assert_int_equal(mkdir(path, 0700), 0);
        write_file(instance, "trace_clock", "mono");
        write_file(instance, "buffer_size_kb", "8192");
        for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
                snprintf(path, sizeof path, "events/block/block_%s/enable", events[i]);
                write_file(instance, path, "1");
        }
}

static void end_text(const char *instance)
{
        char path[256];

        snprintf(path, sizeof path, "%s/%s", folder, instance);
        assert_int_equal(rmdir(path), 0);
}

static void count_requests(const struct fact *facts, size_t count, uint64_t *requests, uint64_t *merges)
{
        *requests = *merges = 0;
        for (size_t i = 0; i < count; i++) {
                /* An fsync's bio of no sectors is a write, too. */
                *requests += facts[i].sectors ? facts[i].action == STAGE_C : facts[i].action == STAGE_Q;
                *merges += facts[i].action == STAGE_M || facts[i].action == STAGE_F || facts[i].action == STAGE_MERGE;
        }
}

static void test_against_text(void **state)
{
        struct tracefs *tracefs = open_or_skip();
        char path[64], instance[64], mine[80];
        uint32_t device = 0;
        uint64_t requests[2], merges[2], completed, merged;
        struct stage_set *binary, *text;
        int loop = make_loop(path, sizeof path, &device);

        if (loop < 0) {
                tracefs_close(tracefs);
                print_message("# skipped: no loop device to be had\n");
                skip();
        }
        struct fact *got = calloc(ROOM, sizeof *got), *told = calloc(ROOM, sizeof *told);
        assert_int_equal(stage_new(NULL, &binary), 0);
        assert_int_equal(stage_new(NULL, &text), 0);
        attach(tracefs, STREAM_WHAT_BIOS);
        snprintf(mine, sizeof mine, "%s", tracefs_instance(tracefs));
        assert_true(exists(mine));
        start_text(instance, sizeof instance);
        drain_until(tracefs, now(), 0, got, NULL, NULL);
        read_stat(path, &requests[0], &merges[0]);
        run_load(path);
        size_t count = drain_until(tracefs, now(), device, got, binary, NULL);
        read_stat(path, &requests[1], &merges[1]);
        write_file(instance, "tracing_on", "0");
        size_t lines = read_text(instance, device, told, text);
        end_text(instance);
        assert_int_equal(tracefs_lost(tracefs), 0);
        assert_int_equal(tracefs_damaged(tracefs), 0);
        tracefs_close(tracefs);
        assert_false(exists(mine));
        close(loop);

        assert_true(count > 2000);
        count_requests(got, count, &completed, &merged);
        assert_int_equal(completed, requests[1] - requests[0]);
        assert_int_equal(merged, merges[1] - merges[0]);
        qsort(got, count, sizeof *got, by_bytes);
        qsort(told, lines, sizeof *told, by_bytes);
        assert_int_equal(count, lines);
        assert_memory_equal(got, told, count * sizeof *got);
        stage_finish(binary);
        stage_finish(text);
        compare_stages(binary, text);
        stage_free(binary);
        stage_free(text);
        free(got);
        free(told);
}

/* ---- calls --------------------------------------------------------------------------------------------------------------------------- */

enum { CALLS = 12 };
static struct { uint64_t from, to; uint32_t call; int32_t result; bool repeated; } made[CALLS];

/* The same file again and again, and what else there is; each between two looks at the clock. */
static void make_calls(int fd, void *map)
{
        for (int i = 0; i < CALLS; i++) {
                long result;
                if (i < 6 && pwrite(fd, "x", 1, 0) != 1)
                        return;
                made[i].from = now();
                switch (i) {
                case 6: result = fdatasync(fd), made[i].call = SYNC_FDATASYNC; break;
                case 7: result = msync(map, BLOCK, MS_SYNC), made[i].call = SYNC_MSYNC; break;
                case 8: result = sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE), made[i].call = SYNC_RANGE; break;
                case 9: result = syncfs(fd), made[i].call = SYNC_ALL; break;
                case 10: result = fsync(-1), made[i].call = SYNC_FSYNC; break;
                default: result = fsync(fd), made[i].call = SYNC_FSYNC, made[i].repeated = i > 0; break;
                }
                made[i].to = now();
                made[i].result = result < 0 ? -errno : (int32_t)result;
                pause_ms(8); /* it is looked at in between */
        }
}

static void *call_thread(void *argument)
{
        int fd = *(int *)argument;
        void *map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        prctl(PR_SET_NAME, "test-caller");
        make_calls(fd, map);
        munmap(map, BLOCK);
        return (void *)(intptr_t)gettid();
}

static void test_calls(void **state)
{
        struct tracefs *tracefs = open_or_skip();
        char name[] = "/tmp/watop-calls-XXXXXX";
        struct stat st;
        pthread_t thread;
        void *end = NULL;
        struct stage_record calls[CALLS];
        size_t count = 0, files = 0, names = 0;
        int fd = mkstemp(name);

        assert_true(fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, BLOCK) == 0);
        if (tracefs_attach(tracefs, STREAM_WHAT_SYNC, why, sizeof why) == -ENOENT) {
                tracefs_close(tracefs);
                unlink(name);
                print_message("# skipped: %s\n", why);
                skip();
        }
        assert_int_equal(pthread_create(&thread, NULL, call_thread, &fd), 0);
        for (uint64_t until = 0; until == 0 || now() < until + 30000000; pause_ms(2)) {
                if (until == 0 && pthread_tryjoin_np(thread, &end) == 0)
                        until = now();
                for (size_t n; (n = tracefs_drain(tracefs, records, ROOM)) > 0;)
                        for (size_t i = 0; i < n; i++) {
                                if (records[i].kind == RECORD_NAME && records[i].tgid == (uint32_t)getpid() &&
                                        strcmp(records[i].name.comm, "test-caller") == 0)
                                        names++;
                                if (records[i].kind == RECORD_SYNC && records[i].tgid == (uint32_t)getpid() && count < CALLS)
                                        calls[count++] = records[i];
                        }
        }
        tracefs_close(tracefs);
        unlink(name);
        close(fd);
        assert_int_equal(count, CALLS);
        assert_int_equal(names, 1);
        for (size_t i = 0; i < CALLS; i++) {
                assert_int_equal(calls[i].tid, (uint32_t)(intptr_t)end);
                assert_int_equal(calls[i].sync.call, made[i].call);
                assert_int_equal(calls[i].sync.result, made[i].result);
                assert_in_range(calls[i].sync.start, made[i].from, calls[i].sync.end);
                assert_in_range(calls[i].sync.end, calls[i].sync.start, made[i].to);
                if (!calls[i].sync.file[0])
                        continue;
                files++; /* a file that is told is the right one */
                assert_string_equal(calls[i].sync.file, strrchr(name, '/') + 1);
                assert_true(calls[i].sync.inode == st.st_ino || calls[i].sync.inode == 0);
        }
        assert_true(files >= 4);
}

/* ---- losses, ends, rights ------------------------------------------------------------------------------------------------------------ */

static void test_losses(void **state)
{
        struct tracefs *tracefs = open_or_skip();
        char path[64];
        uint32_t device = 0;
        uint64_t lost = 0;
        int loop = make_loop(path, sizeof path, &device);

        if (loop < 0) {
                tracefs_close(tracefs);
                skip();
        }
        struct fact *got = calloc(ROOM, sizeof *got);
        tracefs_limit(tracefs, 8);
        attach(tracefs, STREAM_WHAT_BIOS);
        run_load(path);
        size_t count = drain_until(tracefs, now(), device, got, NULL, &lost);
        assert_true(lost > 0);
        /* Other devices of the machine lose, too, all the time: what is counted has to be told, if not with the first look. */
        for (int i = 0; i < 200 && tracefs_lost(tracefs) != lost; i++)
                drain_until(tracefs, now(), device, got, NULL, &lost);
        assert_int_equal(tracefs_lost(tracefs), lost);
        assert_true(count > 20 && count + lost > 2000);
        tracefs_close(tracefs);
        close(loop);
        free(got);
}

/* Our read ended; whose it was is known. */
static int judge(const struct stage_record *record, int before)
{
        if (record->tid == (uint32_t)getpid() && record->event.action == STAGE_Q)
                return record->tgid == record->tid && !(record->flags & RECORD_KERNEL) ? before : -ESRCH;
        return record->event.action == STAGE_C ? 0 : before;
}

/* In a child: prepare it, attach, see our own bio, and say how it went. The child waits to be killed when it is to. */
static pid_t child(void (*prepare)(void), bool stay, const char *device, char *instance, size_t size)
{
        int out[2];
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        fflush(stdout);
        pid_t pid = fork();

        if (pid == 0) {
                struct tracefs *tracefs;
                int r = 0;
                char text[300] = "";
                if (prepare)
                        prepare();
                r = tracefs_open(&tracefs, text, sizeof text);
                r = r < 0 ? r : tracefs_attach(tracefs, STREAM_WHAT_BIOS, text, sizeof text);
                if (r == 0 && device) {
                        struct stat st;
                        uint64_t until = now() + 2000000000;
                        int fd = open(device, O_RDONLY | O_DIRECT);
                        void *memory = aligned_alloc(BLOCK, BLOCK);
                        r = fd >= 0 && fstat(fd, &st) == 0 && pread(fd, memory, BLOCK, 0) == BLOCK ? -ENODATA : -EIO;
                        for (; r == -ENODATA && now() < until; pause_ms(2))
                                for (size_t n = tracefs_drain(tracefs, records, ROOM); n-- > 0 && r != -ESRCH;)
                                        if (records[n].kind == RECORD_EVENT && records[n].device ==
                                                (major(st.st_rdev) << 20 | minor(st.st_rdev)))
                                                r = judge(&records[n], r);
                }
                if (r == 0)
                        snprintf(text, sizeof text, "%s", tracefs_instance(tracefs));
                if (write(out[1], text, strlen(text)) < 0)
                        _exit(1);
                close(out[1]);
                while (r == 0 && stay)
                        pause();
                if (r == 0)
                        tracefs_close(tracefs);
                _exit(-r & 127);
        }
        close(out[1]);
        ssize_t n = read(out[0], instance, size - 1);
        instance[n > 0 ? n : 0] = '\0';
        close(out[0]);
        return pid;
}

static int status_of(pid_t pid)
{
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void test_left_behind(void **state)
{
        char instance[300], path[400], text[8] = "";
        tracefs_close(open_or_skip());
        pid_t pid = child(NULL, true, NULL, instance, sizeof instance);

        assert_true(exists(instance));
        tracefs_clean();
        assert_true(exists(instance)); /* somebody's who lives */
        snprintf(path, sizeof path, "%s/%s/tracing_on", folder, instance);
        int fd = open(path, O_RDONLY | O_CLOEXEC); /* holds it, so that nobody else's start removes it */
        assert_true(fd >= 0);
        kill(pid, SIGKILL);
        status_of(pid);
        assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
        assert_string_equal(text, "0\n"); /* the kernel has stopped it */
        close(fd);
        tracefs_clean();
        assert_false(exists(instance));

        /* Process 1 lives, and is not the one that made this; the other is not ours at all. */
        snprintf(path, sizeof path, "%s/watop.1.1.%d", folder, (int)getpid());
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(instance, sizeof instance, "watop.1.%d-", (int)getpid());
        snprintf(path, sizeof path, "%s/%s", folder, instance);
        assert_int_equal(mkdir(path, 0700), 0);
        tracefs_clean();
        assert_true(exists(instance));
        assert_int_equal(rmdir(path), 0);
        snprintf(instance, sizeof instance, "watop.1.1.%d", (int)getpid());
        assert_false(exists(instance));
}

static void no_capabilities(void)
{
        struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {{0}, {0}};

        for (unsigned long cap = 0; cap < 64; cap++)
                prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (syscall(SYS_capset, &head, none) < 0)
                _exit(99);
}

static void nobody(void)
{
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
                _exit(99);
}

static void test_rights(void **state)
{
        char instance[300], path[64];
        uint32_t device = 0;
        tracefs_close(open_or_skip());
        int loop = make_loop(path, sizeof path, &device);

        int status = status_of(child(no_capabilities, false, loop < 0 ? NULL : path, instance, sizeof instance));
        if (status != 0)
                fail_msg("without capabilities: %s", instance);
        assert_false(exists(instance));
        status = status_of(child(nobody, false, NULL, instance, sizeof instance));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EACCES);
        assert_non_null(strstr(instance, "root"));
        if (loop >= 0)
                close(loop);
}

/* More and less while it is attached, and all of it again. */
static void test_choice(void **state)
{
        struct tracefs *tracefs = open_or_skip();
        char path[64], first[80];
        uint32_t device = 0;
        int loop = make_loop(path, sizeof path, &device);

        attach(tracefs, STREAM_WHAT_BIOS);
        snprintf(first, sizeof first, "%s", tracefs_instance(tracefs));
        attach(tracefs, STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS);
        assert_string_equal(first, tracefs_instance(tracefs));
        if (loop >= 0) {
                size_t plugs = 0, n;
                run_load(path);
                pause_ms(15);
                while ((n = tracefs_drain(tracefs, records, ROOM)) > 0)
                        while (n-- > 0)
                                plugs += records[n].kind == RECORD_EVENT && records[n].event.action == STAGE_U &&
                                        records[n].event.other > 0;
                assert_true(plugs > 0);
                close(loop);
        }
        attach(tracefs, STREAM_WHAT_BIOS);
        attach(tracefs, 0);
        assert_false(exists(first));
        assert_int_equal(tracefs_drain(tracefs, records, ROOM), 0);
        attach(tracefs, STREAM_WHAT_BIOS);
        assert_true(exists(tracefs_instance(tracefs)));
        tracefs_close(tracefs);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_against_text), cmocka_unit_test(test_calls), cmocka_unit_test(test_losses),
                cmocka_unit_test(test_left_behind), cmocka_unit_test(test_rights), cmocka_unit_test(test_choice),
        };

        records = calloc(ROOM, sizeof *records);
        int failed = cmocka_run_group_tests_name("tracefs", tests, NULL, NULL);
        free(records);
        return failed;
}

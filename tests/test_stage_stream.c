/*
 * The stream of block records: what readers get, what they may do to it, and no torn record at full speed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample/stage_stream.h"

enum { BATCH = 512 };

static struct stage_record batch[BATCH];

/* Record n: every word of it follows from n. */
static struct stage_record made(uint64_t n)
{
        uint64_t words[sizeof(struct stage_record) / 8];
        struct stage_record record;

        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                words[i] = n * UINT64_C(0x9e3779b97f4a7c15) + i * n;
        words[1] = n;
        memcpy(&record, words, sizeof record);
        return record;
}

static uint64_t number_of(const struct stage_record *record)
{
        uint64_t n;

        memcpy(&n, (const char *)record + 8, sizeof n);
        return n;
}

static bool is_whole(const struct stage_record *record)
{
        const struct stage_record wanted = made(number_of(record));
        return memcmp(record, &wanted, sizeof wanted) == 0;
}

static void put(struct stream *stream, uint64_t from, uint64_t count)
{
        while (count) {
                size_t now = count < BATCH ? (size_t)count : BATCH;
                for (size_t i = 0; i < now; i++)
                        batch[i] = made(from + i);
                stream_put(stream, batch, now);
                from += now;
                count -= now;
        }
}

static struct stream *stream_make(void)
{
        struct stream *stream;

        assert_int_equal(stream_new(&stream), 0);
        return stream;
}

static struct stream_reader *reader_of(const struct stream *stream)
{
        struct stream_reader *reader;

        assert_int_equal(stream_open(dup(stream_fd(stream)), &reader), 0);
        return reader;
}

/* Takes all there is: the numbers follow each other but for what was lost. Returns the number that comes next. */
static uint64_t take_all(struct stream_reader *reader, uint64_t next, size_t room, uint64_t *lost_in_all)
{
        static struct stage_record out[BATCH];
        uint64_t lost;
        size_t count;

        do {
                count = stream_take(reader, out, room, &lost);
                assert_true(count <= room);
                next += lost;
                *lost_in_all += lost;
                for (size_t i = 0; i < count; i++)
                        assert_true(number_of(&out[i]) == next++ && is_whole(&out[i]));
        } while (count || lost);
        return next;
}

static void round_trip(void **state)
{
        struct stream *stream = stream_make();
        struct stream_reader *early = reader_of(stream), *late;
        uint64_t lost = 0, next = 0;

        (void)state;
        assert_int_equal(take_all(early, 0, BATCH, &lost), 0);
        put(stream, 0, 3);
        late = reader_of(stream); /* sees what comes from now on */
        put(stream, 3, 1000);
        assert_int_equal(take_all(early, 0, 7, &lost), 1003);
        assert_int_equal(take_all(late, 3, BATCH, &lost), 1003);
        assert_int_equal(lost, 0);
        /* too slow: the oldest are gone, the rest is whole, laps later as well */
        put(stream, 1003, STREAM_RECORDS + 500);
        next = take_all(early, 1003, 100, &lost);
        assert_int_equal(next, 1003 + STREAM_RECORDS + 500);
        assert_int_equal(lost, 500);
        put(stream, next, 3 * (uint64_t)STREAM_RECORDS + 1);
        lost = 0;
        assert_int_equal(take_all(late, 1003, BATCH, &lost), next + 3 * (uint64_t)STREAM_RECORDS + 1);
        assert_int_equal(lost, 3 * (uint64_t)STREAM_RECORDS + 501);
        stream_free(stream); /* what is mapped stays */
        assert_int_equal(take_all(late, next, BATCH, &lost), next);
        stream_close(early);
        stream_close(late);
}

static void facts(void **state)
{
        struct stream *stream = stream_make();
        struct stream_reader *reader = reader_of(stream);
        struct stream_facts in = {.source = STREAM_BPF, .what = STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, .since = 5, .drained = 6, .lost = 7,
                .unmatched = 8, .crowded = 9, .run_ns = 10, .run_count = 11, .cpu_ns = 12}, out;
        const struct stream_facts none = {0};

        (void)state;
        stream_get_facts(reader, &out);
        assert_memory_equal(&out, &none, sizeof out);
        stream_tell(stream, &in);
        stream_get_facts(reader, &out);
        assert_memory_equal(&out, &in, sizeof out);
        stream_close(reader);
        stream_free(stream);
}

/* What a reader may do to it: nothing. */
static void seals(void **state)
{
        struct stream *stream = stream_make();
        int fd = stream_fd(stream), got = fcntl(fd, F_GET_SEALS);
        struct stat st;
        char name[64];

        (void)state;
        assert_int_equal(got & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        assert_int_equal(write(fd, "x", 1), -1);
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_blocks * 512 >= st.st_size); /* allocated whole */
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        int again = open(name, O_RDWR | O_CLOEXEC); /* as the owner may */
        assert_true(again >= 0);
        assert_int_equal(ftruncate(again, 0), -1);
        if (got & 0x10) { /* F_SEAL_FUTURE_WRITE, 5.1 */
                assert_int_equal(pwrite(again, "x", 1, 0), -1);
                assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
        }
        close(again);
        put(stream, 0, 5); /* the writer's own mapping */
        stream_free(stream);
}

static void none_of_ours(void **state)
{
        int before = dup(0); /* the lowest that is free */
        close(before);
        struct stream *stream = stream_make();
        struct stream_reader *reader = NULL;
        struct stat st;
        uint64_t lost;
        struct stage_record record;

        (void)state;
        assert_true(stream_open(-1, &reader) < 0);
        assert_int_equal(stream_open(open("/dev/null", O_RDONLY | O_CLOEXEC), &reader), -EBADMSG);
        assert_int_equal(fstat(stream_fd(stream), &st), 0);
        for (int sealed = 0; sealed < 2; sealed++) { /* the right size, not sealed, or empty */
                int fd = memfd_create("none", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                assert_int_equal(ftruncate(fd, st.st_size), 0);
                if (sealed)
                        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
                assert_int_equal(stream_open(fd, &reader), -EBADMSG);
        }
        /* a copy whose words move as no writer moves them */
        int fd = memfd_create("lies", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        char *map;
        assert_int_equal(ftruncate(fd, st.st_size), 0);
        map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(map, MAP_FAILED);
        assert_int_equal(pread(stream_fd(stream), map, 4096, 0), 4096);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        assert_int_equal(stream_open(fd, &reader), 0);
        for (size_t at = 24; at < 512; at += 8) {
                static const uint64_t values[] = {UINT64_MAX, 1, UINT64_MAX - 5, 0, UINT64_C(1) << 40};
                struct stream_facts out;
                for (int i = 0; i < 5; i++) {
                        memcpy(map + at, &values[i], 8);
                        for (int k = 0; k < 3; k++)
                                assert_true(stream_take(reader, &record, 1, &lost) <= 1);
                        stream_get_facts(reader, &out);
                }
        }
        stream_close(reader);
        munmap(map, (size_t)st.st_size);
        stream_free(stream);
        int after = dup(0); /* no descriptor was left open */
        close(after);
        assert_int_equal(after, before);
}

/* ---- at full speed ------------------------------------------------------------------------------------------------------------------ */

static double seconds(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void write_on(struct stream *stream, double until)
{
        static struct stage_record records[BATCH];
        struct stream_facts out = {0};

        for (uint64_t n = 0; seconds() < until;) {
                for (size_t i = 0; i < BATCH; i++)
                        records[i] = made(n + i);
                for (int i = 0; i < 4; i++) /* the same again: faster than anybody reads */
                        stream_put(stream, records, BATCH);
                n += BATCH;
                out.since = out.drained = out.lost = out.unmatched = out.crowded = out.run_ns = out.run_count = out.cpu_ns = n;
                stream_tell(stream, &out);
        }
}

struct seen { uint64_t got, lost, torn, mixed, laps; };

/* Until the writer has put more than the ring holds. */
static bool wait_lap(struct stream_reader *reader, double until)
{
        struct stream_facts facts;

        stream_get_facts(reader, &facts);
        for (uint64_t from = facts.since; seconds() < until; usleep(1000)) {
                stream_get_facts(reader, &facts);
                if (4 * (facts.since - from) > STREAM_RECORDS + 8 * BATCH)
                        return true;
        }
        return false;
}

/* Everything that is taken is whole; facts are of one moment. The second reader is slow, so it is overtaken. */
static void read_on(struct stream_reader *reader, double until, bool slow, struct seen *seen)
{
        struct stage_record *out = malloc(BATCH * sizeof *out);
        struct stream_facts facts;
        uint64_t lost;

        if (out == NULL)
                return;
        while (seconds() < until) {
                size_t count = stream_take(reader, out, slow ? BATCH : 64, &lost);
                seen->got += count;
                seen->lost += lost;
                for (size_t i = 0; i < count; i++)
                        seen->torn += !is_whole(&out[i]);
                stream_get_facts(reader, &facts);
                seen->mixed += facts.since != facts.cpu_ns || facts.lost != facts.run_ns || facts.since != facts.lost;
                if (slow && count == 0)
                        seen->laps += wait_lap(reader, until);
        }
        free(out);
}

static void *read_thread(void *arg)
{
        struct { struct stream_reader *reader; double until; bool slow; struct seen seen; } *run = arg;

        read_on(run->reader, run->until, run->slow, &run->seen);
        return NULL;
}

/* Another process writes, two threads read: nothing torn. */
static void full_speed(void **state)
{
        struct stream *stream = stream_make();
        const double until = seconds() + 1;
        struct { struct stream_reader *reader; double until; bool slow; struct seen seen; } runs[2] = {
                {reader_of(stream), until, false, {0}}, {reader_of(stream), until, true, {0}}};
        pthread_t threads[2];
        pid_t parent = getpid(), pid = fork();
        int status;

        (void)state;
        assert_true(pid >= 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() == parent)
                        write_on(stream, until);
                _exit(0);
        }
        for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, read_thread, &runs[i]), 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(runs[i].seen.torn, 0);
                assert_int_equal(runs[i].seen.mixed, 0);
                stream_close(runs[i].reader);
        }
        assert_true(runs[0].seen.got > 0 && (runs[1].seen.lost > 0 || runs[1].seen.laps == 0));
        stream_free(stream);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(round_trip), cmocka_unit_test(facts), cmocka_unit_test(seals), cmocka_unit_test(none_of_ours),
                cmocka_unit_test(full_speed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

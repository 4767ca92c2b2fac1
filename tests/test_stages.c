/*
 * Block tracing in watopd, with sources that the test plays (fake_stages.h): the thread follows the wishes, records become sums and go
 * into the stream, events become records, sums never fall and lose nothing when tables are full, and a source that hangs holds up nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "collectors/stages.h"
#include "collectors/stages_sums.h"
#include "sample/sample.h"
#include "sample/stage_stream.h"
#include "tests/fake_stages.h"

#define US UINT64_C(1000)
#define DISK (UINT32_C(8) << 20)

static struct stages *stages;
static struct stream_reader *reader;
static char why[256];

static uint64_t now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Until it is true, at most 10 s. */
#define WAIT_FOR(condition)                                                                                                     \
        do {                                                                                                                    \
                uint64_t until_ = now_ns() + 10000 * 1000 * US;                                                                 \
                while (!(condition) && now_ns() < until_)                                                                       \
                        poll(NULL, 0, 1);                                                                                       \
                assert_true(condition);                                                                                         \
        } while (0)

static int set_up(void **unused)
{
        (void)unused;
        fake_stages_reset();
        return 0;
}

static void open_stages(bool bpf)
{
        assert_int_equal(stages_open(&stages, bpf, why, sizeof why), 0);
}

static void want(unsigned what, bool stream, bool sums)
{
        assert_int_equal(stages_want(stages, what, stream, sums, why, sizeof why), 0);
}

static void open_stream(void)
{
        int fd = stages_stream(stages);

        assert_true(fd >= 0);
        assert_int_equal(stream_open(dup(fd), &reader), 0);
}

static int tear_down(void **unused)
{
        (void)unused;
        stream_close(reader);
        stages_close(stages);
        reader = NULL;
        stages = NULL;
        return 0;
}

/* Queued at `q` us; a request after 1 us, issued after 2 more, done after 10 more. */
static struct stage_record bio(uint32_t tgid, uint64_t q, uint64_t sector, uint32_t device)
{
        struct stage_record record = { .kind = RECORD_BIO, .flags = RECORD_HEAD, .direction = STAGE_READ, .device = device, .tid = tgid,
                .tgid = tgid };

        q *= US;
        record.bio.id = q;
        record.bio.q = q;
        record.bio.g = q + US;
        record.bio.i = q + US;
        record.bio.d1 = record.bio.d = q + 3 * US;
        record.bio.c = q + 13 * US;
        record.bio.sector = sector;
        record.bio.sectors = record.bio.request_sectors = 8;
        return record;
}

static struct stage_record name(uint32_t tgid, const char *comm)
{
        struct stage_record record = { .kind = RECORD_NAME, .tid = tgid, .tgid = tgid };

        snprintf(record.name.comm, sizeof record.name.comm, "%s", comm);
        return record;
}

static void put(unsigned source, struct stage_record record)
{
        fake_stages_put(source, &record);
}

/* What watopd's own row says. */
static uint64_t self(int metric)
{
        struct sample *sample;
        uint64_t value = UINT64_MAX;

        assert_int_equal(sample_new(&sample), 0);
        sample_begin(sample, &(struct sample_stamp){ 1, 1, 1 });
        sample_scope_begin(sample, SCOPE_SELF, 1);
        struct row *row = sample_row(sample, SCOPE_SELF, (struct key){ 0, 0 }, 1);
        stages_self(stages, row);
        row_get(row, metric, &value);
        sample_free(sample);
        return value;
}

/* Of all sums of a kind. */
static uint64_t all(enum sum_kind kind, size_t member)
{
        struct sums *sums = stages_sums(stages);
        uint64_t total = 0, value;
        struct sum_view view;

        sums_copy(sums);
        for (size_t i = 0; i < sums_count(sums, kind); i++) {
                sums_get(sums, kind, i, &view);
                memcpy(&value, (const char *)view.sum + member, sizeof value);
                total += value;
        }
        return total;
}
#define ALL(kind, member) all(kind, offsetof(struct sum, member))

/* NULL when there is none. As copied last. */
static const struct sum *find(enum sum_kind kind, uint32_t tgid, unsigned what, size_t *index)
{
        struct sums *sums = stages_sums(stages);
        struct sum_view view;

        for (size_t i = 0; i < sums_count(sums, kind); i++) {
                sums_get(sums, kind, i, &view);
                if (view.sum->tgid == tgid && view.sum->what == what) {
                        if (index != NULL)
                                *index = i;
                        return view.sum;
                }
        }
        return NULL;
}

static uint64_t octaves(enum sum_kind kind, size_t index)
{
        uint64_t total = 0, since = 0;

        for (unsigned octave = 0; octave < SUM_OCTAVES; octave++) {
                const uint64_t *counts = sums_octave(stages_sums(stages), kind, index, octave, &since);
                for (unsigned step = 0; counts != NULL && step < SUM_STEPS; step++)
                        total += counts[step];
        }
        return total;
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

static void records_become_sums(void **unused)
{
        struct sum_view view;
        size_t index = 0;

        (void)unused;
        open_stages(true);
        assert_int_equal(fake_stages_what(FAKE_BPF), 0);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        put(FAKE_BPF, name(7, "fio"));
        for (unsigned i = 0; i < 100; i++)
                put(FAKE_BPF, bio(7, 1000 + i, i * 8, DISK));
        WAIT_FOR(ALL(SUM_BIO, count) == 100);
        WAIT_FOR(ALL(SUM_BIO, requests) == 100);
        const struct sum *sum = find(SUM_BIO, 7, 0, &index);
        assert_string_equal(sum->name, "fio");
        assert_int_equal(sum->device, DISK);
        assert_int_equal(sum->bytes, 100 * 4096);
        assert_int_equal(sum->total, 1300 * US);
        assert_int_equal(sum->part[CAUSE_TAG] + sum->part[CAUSE_PLUG] + sum->part[CAUSE_QUEUE] + sum->part[CAUSE_DISK], 1300 * US);
        assert_int_equal(sum->part[CAUSE_DISK], 1000 * US);
        assert_int_equal(octaves(SUM_BIO, index), 100);
        /* Stages: Q2G, G2I (of 0 ns), I2D, D2C, and Q2C, which is the others' path. */
        assert_int_equal(sums_count(stages_sums(stages), SUM_STAGE), 5);
        assert_int_equal(ALL(SUM_STAGE, count), 500);
        assert_int_equal(ALL(SUM_STAGE, path), 2 * 1300 * US);
        sum = find(SUM_STAGE, 0, STAGE_D2C, &index);
        assert_int_equal(sum->total, 1000 * US);
        assert_int_equal(octaves(SUM_STAGE, index), 100);
        /* A copy without news says so; what was longest is of the copies between. */
        put(FAKE_BPF, bio(7, 5000, 0, DISK));
        WAIT_FOR(ALL(SUM_BIO, count) == 101);
        find(SUM_BIO, 7, 0, &index);
        sums_get(stages_sums(stages), SUM_BIO, index, &view);
        sums_copy(stages_sums(stages));
        sums_copy(stages_sums(stages));
        sums_get(stages_sums(stages), SUM_BIO, index, &view);
        assert_false(view.changed);
        assert_int_equal(view.octaves_changed, 0);
}

/* Of a bio in two parts: both in the stages, one bio. */
static void parts_count_in_stages(void **unused)
{
        (void)unused;
        open_stages(true);
        want(STREAM_WHAT_BIOS, false, true);
        struct stage_record piece = bio(7, 1000, 0, DISK), last = bio(7, 1000, 8, DISK);
        piece.flags |= RECORD_PIECE;
        last.flags |= RECORD_LAST;
        last.bio.parts = 2;
        last.bio.c += 5 * US;
        put(FAKE_BPF, piece);
        put(FAKE_BPF, last);
        WAIT_FOR(ALL(SUM_BIO, requests) == 2);
        assert_int_equal(ALL(SUM_BIO, count), 1);
        assert_int_equal(ALL(SUM_BIO, bytes), 8192);
        assert_int_equal(find(SUM_STAGE, 0, STAGE_D2C, NULL)->count, 2);
        assert_int_equal(find(SUM_STAGE, 0, STAGE_D2C, NULL)->total, 25 * US);
        assert_int_equal(find(SUM_STAGE, 0, STAGE_D2C, NULL)->path, 15 * US);
        assert_int_equal(find(SUM_STAGE, 0, STAGE_Q2C, NULL)->count, 1);
        assert_int_equal(find(SUM_STAGE, 0, STAGE_Q2C, NULL)->total, 18 * US);
}

static void sums_go_on_over_leases(void **unused)
{
        (void)unused;
        open_stages(true);
        for (unsigned lease = 1; lease <= 3; lease++) {
                want(STREAM_WHAT_BIOS, false, true);
                WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
                for (unsigned i = 0; i < 10; i++)
                        put(FAKE_BPF, bio(7, lease * 1000 + i, 0, DISK));
                WAIT_FOR(ALL(SUM_BIO, requests) == lease * 10);
                assert_int_equal(ALL(SUM_BIO, count), lease * 10);
                want(0, false, false);
                WAIT_FOR(fake_stages_what(FAKE_BPF) == 0);
                assert_int_equal(ALL(SUM_BIO, count), lease * 10);
        }
        assert_int_equal(fake_sources[FAKE_BPF].attaches, 3);
}

/* More processes than there are places, and more than the engine's rows: the totals hold all the same. */
static void nothing_is_lost_from_totals(void **unused)
{
        enum { MANY = 6000 };
        size_t index = 0;

        (void)unused;
        open_stages(true);
        want(STREAM_WHAT_BIOS, false, true);
        for (uint32_t i = 0; i < MANY; i++) {
                put(FAKE_BPF, name(100 + i, "many"));
                put(FAKE_BPF, bio(100 + i, 1000 + i, i, DISK));
                put(FAKE_BPF, bio(100 + i, 1000 + i, i, DISK + 1));
        }
        WAIT_FOR(ALL(SUM_BIO, requests) == 2 * MANY);
        assert_int_equal(ALL(SUM_BIO, count), 2 * MANY);
        assert_int_equal(ALL(SUM_BIO, bytes), 2 * MANY * 4096);
        assert_true(sums_count(stages_sums(stages), SUM_BIO) <= 1024 + 5);
        const struct sum *others = find(SUM_BIO, 0, 0, &index);
        assert_non_null(others);
        assert_string_equal(others->name, "others");
        assert_int_equal(octaves(SUM_BIO, index), others->count);
        /* A place that is free again is used again. */
        find(SUM_BIO, 100, 0, &index);
        uint64_t was = find(SUM_BIO, 100, 0, NULL)->count, left = ALL(SUM_BIO, count) - was;
        sums_drop(stages_sums(stages), SUM_BIO, index);
        assert_int_equal(ALL(SUM_BIO, count), left);
        put(FAKE_BPF, bio(99999, 900000, 0, DISK));
        WAIT_FOR(ALL(SUM_BIO, count) == left + 1);
        assert_non_null(find(SUM_BIO, 99999, 0, NULL));
}

/* A bio one part of which has ended, while so many processes pass that the engine begins anew. */
static void what_waits_is_not_given_up(void **unused)
{
        enum { MANY = 2500 };
        struct stage_record piece = bio(7, 1000, 0, DISK), last = bio(7, 1000, 8, DISK);

        (void)unused;
        open_stages(true);
        want(STREAM_WHAT_BIOS, false, true);
        piece.flags |= RECORD_PIECE;
        last.flags |= RECORD_LAST;
        last.bio.parts = 2;
        put(FAKE_BPF, name(9999, "late"));
        put(FAKE_BPF, piece);
        for (uint32_t i = 0; i < MANY; i++)
                put(FAKE_BPF, bio(100 + i, 1000 + i, i, DISK));
        WAIT_FOR(ALL(SUM_BIO, requests) == MANY + 1);
        put(FAKE_BPF, last);
        WAIT_FOR(ALL(SUM_BIO, count) == MANY + 1);
        /* Nothing waits any more, so it does begin anew; names are known all the same. */
        size_t index;
        assert_non_null(find(SUM_BIO, 100, 0, &index));
        sums_drop(stages_sums(stages), SUM_BIO, index);
        put(FAKE_BPF, bio(9999, 900000, 0, DISK));
        WAIT_FOR(sums_copy(stages_sums(stages)) && find(SUM_BIO, 9999, 0, NULL) != NULL);
        assert_string_equal(find(SUM_BIO, 9999, 0, NULL)->name, "late");
}

/* Who listens to bios needs no histograms of rows. */
static void rows_do_without_histograms(void **unused)
{
        const struct stage_options options = { .no_histograms = true };
        const struct stage_record record = bio(7, 1000, 0, DISK);
        struct stage_set *set;

        (void)unused;
        assert_int_equal(stage_new(&options, &set), 0);
        assert_int_equal(stage_record(set, &record), 0);
        assert_int_equal(stage_rows(set), 1);
        assert_null(stage_get_row(set, 0)->bio[STAGE_Q2C]);
        assert_null(stage_get_row(set, 0)->request[STAGE_D2C]);
        assert_int_equal(stage_get_row(set, 0)->path[STAGE_Q2C], 13 * US);
        assert_int_equal(stage_get_row(set, 0)->requests, 1);
        stage_free(set);
}

static void calls_become_sums(void **unused)
{
        struct stage_record call = { .kind = RECORD_SYNC, .tid = 9, .tgid = 9, .device = DISK };

        (void)unused;
        call.sync.start = 1000 * US;
        call.sync.end = 1500 * US;
        call.sync.call = SYNC_FDATASYNC;
        call.sync.disk = DISK;
        snprintf(call.sync.file, sizeof call.sync.file, "wal.log");
        open_stages(true);
        want(STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, false, true);
        put(FAKE_BPF, name(9, "postgres"));
        put(FAKE_BPF, bio(9, 1100, 0, DISK));
        put(FAKE_BPF, call);
        WAIT_FOR(ALL(SUM_SYNC, count) == 1);
        const struct sum *sum = find(SUM_SYNC, 9, SYNC_FDATASYNC, NULL);
        uint64_t parts = 0;
        for (unsigned part = 0; part < SYNC_PARTS; part++)
                parts += sum->part[part];
        assert_int_equal(sum->total, 500 * US);
        assert_int_equal(parts, 500 * US);
        assert_int_equal(sum->part[CAUSE_DISK], 10 * US);
        assert_string_equal(sum->name, "postgres");
        assert_string_equal(sum->file, "wal.log");
        assert_int_equal(sum->errors, 0);
}

static struct stage_record fsync_of(uint32_t tgid, uint64_t start)
{
        struct stage_record call = { .kind = RECORD_SYNC, .tid = tgid, .tgid = tgid, .device = DISK };

        call.sync.start = start;
        call.sync.end = start + 10 * US;
        call.sync.call = SYNC_FSYNC;
        return call;
}

/* More processes than the table of calls has rows: later ones keep their own names. */
static void calls_of_many_processes(void **unused)
{
        enum { MANY = 4200 };
        size_t index;

        (void)unused;
        open_stages(true);
        want(STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, false, true);
        for (uint32_t i = 0; i < MANY; i++)
                put(FAKE_BPF, fsync_of(100 + i, (1000 + i) * US));
        WAIT_FOR(ALL(SUM_SYNC, count) == MANY);
        assert_non_null(find(SUM_SYNC, 100, SYNC_FSYNC, &index));
        sums_drop(stages_sums(stages), SUM_SYNC, index);
        put(FAKE_BPF, name(99999, "late"));
        put(FAKE_BPF, fsync_of(99999, 900000 * US));
        WAIT_FOR(sums_copy(stages_sums(stages)) && find(SUM_SYNC, 99999, SYNC_FSYNC, NULL) != NULL);
        assert_string_equal(find(SUM_SYNC, 99999, SYNC_FSYNC, NULL)->name, "late");
}

/* Traced for a reader of the stream before rows were wanted: of a call from then the early bios are not known here. */
static void calls_from_before_are_left_out(void **unused)
{
        (void)unused;
        open_stages(true);
        open_stream();
        want(STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, true, false);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == (STREAM_WHAT_BIOS | STREAM_WHAT_SYNC));
        struct stream_facts facts;
        WAIT_FOR((stream_get_facts(reader, &facts), facts.drained > 0));
        uint64_t before = now_ns();
        want(STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, true, true);
        put(FAKE_BPF, bio(9, before / US, 0, DISK)); /* counted: by then the table is there, too */
        WAIT_FOR(ALL(SUM_BIO, count) == 1);
        put(FAKE_BPF, fsync_of(9, before));
        put(FAKE_BPF, fsync_of(10, now_ns()));
        WAIT_FOR(ALL(SUM_SYNC, count) == 1);
        assert_non_null(find(SUM_SYNC, 10, SYNC_FSYNC, NULL));
        assert_null(find(SUM_SYNC, 9, SYNC_FSYNC, NULL));
}

/* ---- the stream ------------------------------------------------------------------------------------------------------------- */

struct seen {
        unsigned kinds[RECORD_KINDS];
        struct stage_record last_bio;
};

static bool take(struct seen *seen, unsigned kind, unsigned count)
{
        struct stage_record record;
        uint64_t lost;

        while (stream_take(reader, &record, 1, &lost) == 1) {
                assert_int_equal(lost, 0);
                seen->kinds[record.kind]++;
                if (record.kind == RECORD_BIO)
                        seen->last_bio = record;
        }
        return seen->kinds[kind] >= count;
}

static struct stage_record event(uint8_t action, uint64_t us, uint32_t tid, uint32_t tgid)
{
        struct stage_record record = { .kind = RECORD_EVENT, .device = DISK, .tid = tid, .tgid = tgid, .direction = STAGE_READ };

        record.event.time = us * US;
        record.event.sector = 64;
        record.event.sectors = 8;
        record.event.action = action;
        snprintf(record.event.comm, sizeof record.event.comm, "dd");
        return record;
}

static void the_stream_carries_records(void **unused)
{
        struct seen seen = { .kinds = { 0 } };
        struct stream_facts facts;

        (void)unused;
        open_stages(true);
        open_stream();
        want(STREAM_WHAT_BIOS, true, false);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        put(FAKE_BPF, name(7, "fio"));
        put(FAKE_BPF, bio(7, 1000, 64, DISK));
        fake_stages_lose(FAKE_BPF, 3);
        WAIT_FOR(take(&seen, RECORD_BIO, 1));
        assert_int_equal(seen.last_bio.bio.sector, 64);
        assert_true(seen.kinds[RECORD_NAME] >= 1);
        WAIT_FOR((stream_get_facts(reader, &facts), facts.lost == 3));
        assert_int_equal(facts.source, STREAM_BPF);
        assert_int_equal(facts.what, STREAM_WHAT_BIOS);
        assert_true(facts.since > 0 && facts.drained >= facts.since - 1000 * US);
        /* Nobody asked for rows. */
        assert_int_equal(ALL(SUM_BIO, count), 0);
        /* A reader that comes later learns the names, too. */
        stream_close(reader);
        open_stream();
        memset(&seen, 0, sizeof seen);
        WAIT_FOR(take(&seen, RECORD_NAME, 1));
        assert_int_equal(seen.kinds[RECORD_BIO], 0);
        want(0, false, false);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == 0);
}

/* Two threads of a process, by events only. */
static void events_become_records(void **unused)
{
        struct seen seen = { .kinds = { 0 } };

        (void)unused;
        fake_sources[FAKE_BPF].open_error = -EPERM;
        open_stages(true);
        open_stream();
        want(STREAM_WHAT_BIOS, true, true);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == STREAM_WHAT_BIOS);
        for (uint32_t tid = 71; tid <= 72; tid++) {
                put(FAKE_TRACEFS, event(STAGE_Q, tid * 1000, tid, 70));
                put(FAKE_TRACEFS, event(STAGE_G, tid * 1000 + 1, tid, 70));
                put(FAKE_TRACEFS, event(STAGE_D, tid * 1000 + 3, tid, 70));
                put(FAKE_TRACEFS, event(STAGE_C, tid * 1000 + 13, tid, 70));
        }
        WAIT_FOR(take(&seen, RECORD_BIO, 2));
        assert_int_equal(seen.kinds[RECORD_EVENT], 0);
        assert_true(seen.kinds[RECORD_NAME] >= 2);
        assert_int_equal(seen.last_bio.tid, 72);
        assert_int_equal(seen.last_bio.tgid, 70);
        assert_int_equal(seen.last_bio.bio.c - seen.last_bio.bio.q, 13 * US);
        assert_true(seen.last_bio.flags & RECORD_HEAD);
        WAIT_FOR(ALL(SUM_BIO, requests) == 2);
        assert_int_equal(sums_count(stages_sums(stages), SUM_BIO), 1);
        assert_string_equal(find(SUM_BIO, 70, 0, NULL)->name, "dd");
        assert_int_equal(find(SUM_BIO, 70, 0, NULL)->total, 26 * US);
        /* Who wants events gets them, beside. */
        want(STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS, true, true);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == (STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS));
        put(FAKE_TRACEFS, event(STAGE_Q, 80000, 71, 70));
        WAIT_FOR(take(&seen, RECORD_EVENT, 1));
}

/* Who comes next must not read that it is traced. */
static void the_end_is_told(void **unused)
{
        struct stream_facts facts;

        (void)unused;
        open_stages(true);
        open_stream();
        want(STREAM_WHAT_BIOS, true, false);
        WAIT_FOR((stream_get_facts(reader, &facts), facts.what == STREAM_WHAT_BIOS));
        want(0, false, false);
        WAIT_FOR((stream_get_facts(reader, &facts), facts.what == 0));
        assert_int_equal(facts.source, STREAM_NONE);
        /* For rows alone it is traced, and told, but no record passed on. */
        struct seen seen = { .kinds = { 0 } };
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR((stream_get_facts(reader, &facts), facts.what == STREAM_WHAT_BIOS));
        put(FAKE_BPF, bio(7, 1000, 64, DISK));
        WAIT_FOR(ALL(SUM_BIO, count) == 1);
        take(&seen, RECORD_BIO, 1);
        assert_int_equal(seen.kinds[RECORD_BIO], 0);
}

/* Threads whose numbers share a place in a table, at work at once. */
static void threads_keep_their_processes(void **unused)
{
        uint32_t tids[4] = { 71 }, count = 1;

        (void)unused;
        for (uint32_t tid = 72; count < 4; tid++)
                if (tid * UINT32_C(2654435761) >> 20 == tids[0] * UINT32_C(2654435761) >> 20)
                        tids[count++] = tid;
        fake_sources[FAKE_BPF].open_error = -EPERM;
        open_stages(true);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == STREAM_WHAT_BIOS);
        for (unsigned step = 0; step < 4; step++)
                for (unsigned i = 0; i < 4; i++) {
                        static const uint8_t actions[] = { STAGE_Q, STAGE_G, STAGE_D, STAGE_C };
                        struct stage_record record = event(actions[step], 1000 + step * 10 + i, tids[i], 1000000 + i);
                        record.event.sector = 64 * (i + 1);
                        if (step >= 2) /* by whoever had the core */
                                record.tid = record.tgid = 5;
                        put(FAKE_TRACEFS, record);
                }
        WAIT_FOR(ALL(SUM_BIO, requests) == 4);
        for (unsigned i = 0; i < 4; i++) {
                assert_non_null(find(SUM_BIO, 1000000 + i, 0, NULL));
                assert_int_equal(find(SUM_BIO, 1000000 + i, 0, NULL)->count, 1);
        }
}

/* The oldest of each device, if it is old: news for the stream, no bio to be counted. */
static void open_bios_are_told(void **unused)
{
        struct stage_record oldest = bio(7, now_ns() / US - 9000000, 64, DISK), second = oldest, other = oldest, young = oldest, record;
        unsigned seen = 0, others = 0;
        uint64_t lost;

        (void)unused;
        oldest.bio.c = second.bio.c = other.bio.c = young.bio.c = 0;
        second.bio.q += 1000 * US;
        other.bio.q += 2000 * US;
        other.device = DISK + 1;
        young.bio.q = UINT64_MAX / 2;
        young.device = DISK + 2;
        fake_stages_open(FAKE_BPF, &oldest);
        fake_stages_open(FAKE_BPF, &second);
        fake_stages_open(FAKE_BPF, &other);
        fake_stages_open(FAKE_BPF, &young);
        open_stages(true);
        open_stream();
        want(STREAM_WHAT_BIOS, true, true);
        for (uint64_t until = now_ns() + 10000000 * US; others < 2 && now_ns() < until; poll(NULL, 0, 1))
                while (stream_take(reader, &record, 1, &lost) == 1) {
                        assert_true(stage_record_open(&record));
                        assert_int_equal(record.bio.q, record.device == DISK ? oldest.bio.q : other.bio.q);
                        assert_int_not_equal(record.device, DISK + 2);
                        *(record.device == DISK ? &seen : &others) += 1;
                }
        assert_int_equal(others, 2); /* again after a second */
        assert_int_equal(seen, 2);
        assert_int_equal(ALL(SUM_BIO, count), 0);
        assert_int_equal(self(SELF_STAGES_UNMATCHED), 0);
}

/* ---- failures ------------------------------------------------------------------------------------------------------------------ */

static void the_second_source_takes_over(void **unused)
{
        (void)unused;
        open_stages(true);
        fake_stages_fail(FAKE_BPF, -EACCES);
        assert_false(stages_works(stages));
        assert_true(stages_falls_back(stages));
        assert_int_equal(fake_sources[FAKE_BPF].closes, 1);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == STREAM_WHAT_BIOS);
        assert_int_equal(stages_error(stages, why, sizeof why), 0);
}

/* It worked at start, and fails when it is wanted. */
static void a_late_failure_is_told(void **unused)
{
        (void)unused;
        fake_sources[FAKE_TRACEFS].open_error = -ENOENT;
        open_stages(true);
        assert_true(stages_works(stages));
        assert_int_equal(fake_stages_what(FAKE_BPF), 0);
        fake_stages_fail(FAKE_BPF, -ENOMEM);
        stages_want(stages, STREAM_WHAT_BIOS, false, true, why, sizeof why);
        WAIT_FOR(stages_error(stages, why, sizeof why) == -ENOMEM);
        assert_string_equal(why, "the fake says no");
        assert_int_equal(stages_want(stages, STREAM_WHAT_BIOS, true, true, why, sizeof why), -ENOMEM);
        fake_stages_fail(FAKE_BPF, 0);
        want(0, false, false);
        want(STREAM_WHAT_BIOS, true, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        assert_int_equal(stages_error(stages, why, sizeof why), 0);
}

/* Somebody wants more than can be had: who asked for less keeps it. */
static void less_goes_on_without_more(void **unused)
{
        (void)unused;
        fake_sources[FAKE_TRACEFS].open_error = -ENOENT;
        open_stages(true);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        fake_stages_fail_for(FAKE_BPF, -EMFILE, STREAM_WHAT_SYNC);
        stages_want(stages, STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, false, true, why, sizeof why);
        WAIT_FOR(stages_error(stages, why, sizeof why) == -EMFILE);
        assert_int_equal(fake_stages_what(FAKE_BPF), STREAM_WHAT_BIOS);
        put(FAKE_BPF, bio(7, 1000, 0, DISK));
        WAIT_FOR(ALL(SUM_BIO, count) == 1);
        assert_int_equal(self(SELF_STAGES), 2);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(stages_error(stages, why, sizeof why) == 0);
}

/* What may be of this moment does not cost BPF for ever, and a thread that waits to try again does not wake for nothing. */
static void a_failure_of_the_moment(void **unused)
{
        struct rusage before, after;

        (void)unused;
        open_stages(true);
        fake_stages_fail(FAKE_BPF, -ENOMEM);
        stages_want(stages, STREAM_WHAT_BIOS, false, true, why, sizeof why);
        WAIT_FOR(stages_error(stages, why, sizeof why) == -ENOMEM);
        assert_int_equal(fake_stages_what(FAKE_TRACEFS), 0);
        getrusage(RUSAGE_SELF, &before);
        poll(NULL, 0, 300);
        getrusage(RUSAGE_SELF, &after);
        assert_true(after.ru_nvcsw - before.ru_nvcsw < 8);
        fake_stages_fail(FAKE_BPF, 0);
        want(0, false, false);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        /* What BPF has not got here the other has, until it is not wanted any more. */
        fake_stages_fail_for(FAKE_BPF, -EOPNOTSUPP, STREAM_WHAT_SYNC);
        want(STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, false, true);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == (STREAM_WHAT_BIOS | STREAM_WHAT_SYNC));
        assert_int_equal(stages_error(stages, why, sizeof why), 0);
        want(0, false, false);
        WAIT_FOR(fake_stages_what(FAKE_TRACEFS) == 0);
        want(STREAM_WHAT_BIOS, false, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        assert_int_equal(fake_stages_what(FAKE_TRACEFS), 0);
        assert_int_equal(fake_sources[FAKE_BPF].closes, 0);
}

static void no_source_at_all(void **unused)
{
        (void)unused;
        fake_sources[FAKE_BPF].open_error = -EPERM;
        fake_sources[FAKE_TRACEFS].open_error = -ENOENT;
        assert_int_equal(stages_open(&stages, true, why, sizeof why), -EPERM);
        assert_non_null(strstr(why, "the fake is not there"));
        assert_int_equal(stages_open(&stages, false, why, sizeof why), -ENOENT);
        assert_int_equal(fake_sources[FAKE_BPF].opens, 1);
        stages = NULL;
}

/* Attaching does not come back: nothing that the tick does takes long. */
static void a_source_that_hangs_holds_up_nobody(void **unused)
{
        (void)unused;
        open_stages(true);
        fake_stages_stick(FAKE_BPF, true);
        want(STREAM_WHAT_BIOS, true, true);
        poll(NULL, 0, 20);
        uint64_t start = now_ns();
        for (unsigned i = 0; i < 100; i++) {
                want(i % 2 ? STREAM_WHAT_BIOS : 0, true, true);
                sums_copy(stages_sums(stages));
                stages_error(stages, why, sizeof why);
        }
        assert_true(stages_stream(stages) >= 0);
        assert_true(now_ns() - start < 1000000 * US);
        fake_stages_stick(FAKE_BPF, false);
        want(STREAM_WHAT_BIOS, true, true);
        WAIT_FOR(fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(records_become_sums, set_up, tear_down),
                cmocka_unit_test_setup_teardown(parts_count_in_stages, set_up, tear_down),
                cmocka_unit_test_setup_teardown(sums_go_on_over_leases, set_up, tear_down),
                cmocka_unit_test_setup_teardown(nothing_is_lost_from_totals, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_waits_is_not_given_up, set_up, tear_down),
                cmocka_unit_test_setup_teardown(rows_do_without_histograms, set_up, tear_down),
                cmocka_unit_test_setup_teardown(calls_become_sums, set_up, tear_down),
                cmocka_unit_test_setup_teardown(calls_of_many_processes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(calls_from_before_are_left_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_end_is_told, set_up, tear_down),
                cmocka_unit_test_setup_teardown(threads_keep_their_processes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(open_bios_are_told, set_up, tear_down),
                cmocka_unit_test_setup_teardown(less_goes_on_without_more, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_failure_of_the_moment, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_stream_carries_records, set_up, tear_down),
                cmocka_unit_test_setup_teardown(events_become_records, set_up, tear_down),
                cmocka_unit_test_setup_teardown(the_second_source_takes_over, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_late_failure_is_told, set_up, tear_down),
                cmocka_unit_test_setup_teardown(no_source_at_all, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_source_that_hangs_holds_up_nobody, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

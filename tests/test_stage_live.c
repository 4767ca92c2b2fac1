/*
 * Records of a live tracer through the stage engine: recorded traces go through it as events, what it says of each bio is made into
 * records, and a second engine that gets only those has to have the same rows. And single records whose answer is known.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/stage_record.h"
#include "tui/blk_read.h"

enum { DISK = 8 << 20, ZRAM = 253 << 20 };

/* ---- there and back ------------------------------------------------------------------------------------------------------------------ */

struct tape {
        struct stage_record *records;
        size_t count, room;
};

static void tape_add(struct tape *tape, const struct stage_record *record)
{
        if (tape->count == tape->room) {
                tape->room = tape->room ? 2 * tape->room : 1024;
                tape->records = realloc(tape->records, tape->room * sizeof *tape->records);
                assert_non_null(tape->records);
        }
        tape->records[tape->count++] = *record;
}

static void on_told(void *own, const struct stage_done *done)
{
        struct stage_record name = {.kind = RECORD_NAME, .tid = done->row->process->pid, .tgid = done->row->process->pid}, record;

        memcpy(name.name.comm, done->row->process->name, sizeof name.name.comm);
        tape_add(own, &name);
        assert_int_equal(stage_to_record(done, &record), 0);
        assert_true(record.kind == RECORD_BIO && record.bio.id != 0 && record.device == done->row->device);
        tape_add(own, &record);
}

static struct stage_set *run_trace(const char *const *names, size_t count, struct tape *tape, bool parts)
{
        const struct stage_options options = {.done = on_told, .part = parts ? on_told : NULL, .own = tape};
        char paths[2][512], why[256];
        const char *list[2] = {paths[0], paths[1]};
        const char *source = getenv("WATOP_SOURCE");
        struct stage_set *set;
        struct blk_trace *trace;
        struct blk_record record;

        for (size_t i = 0; i < count; i++)
                snprintf(paths[i], sizeof paths[i], "%s/tests/data/%s", source ? source : ".", names[i]);
        assert_int_equal(stage_new(&options, &set), 0);
        if (blk_open(list, count, &trace, why, sizeof why) < 0)
                fail_msg("%s", why);
        while (blk_next(trace, &record) == 1)
                assert_int_equal(stage_event(set, &record.event), 0);
        stage_finish(set);
        blk_close(trace);
        return set;
}

static const struct stage_row *row_like(const struct stage_set *set, const struct stage_row *wanted)
{
        for (size_t i = 0; i < stage_rows(set); i++) {
                const struct stage_row *row = stage_get_row(set, i);
                if (row->device == wanted->device && row->direction == wanted->direction && row->kind == wanted->kind &&
                    row->process->pid == wanted->process->pid)
                        return row;
        }
        return NULL;
}

static void same_histogram(const struct histogram *a, const struct histogram *b)
{
        if (a && b)
                assert_memory_equal(a, b, sizeof *a);
        else
                assert_true((!a || a->count == 0) && (!b || b->count == 0));
}

static void same_sums(const struct stage_row *a, const struct stage_row *b)
{
        assert_string_equal(a->process->name, b->process->name);
        assert_int_equal(a->sectors, b->sectors);
        assert_int_equal(a->merged, b->merged);
        assert_int_equal(a->splits, b->splits);
        assert_int_equal(a->requeues, b->requeues);
        assert_int_equal(a->errors, b->errors);
        assert_memory_equal(a->path, b->path, sizeof a->path);
        assert_memory_equal(a->cause, b->cause, sizeof a->cause);
        same_histogram(a->bio[STAGE_Q2C], b->bio[STAGE_Q2C]);
}

/* What is the same beside bios: all; requests, but not flush requests (a write with a flush before it does not tell of those); nothing, for
 * requests have no beginning. */
enum same { SAME_BIOS, SAME_REQUESTS, SAME_ALL };

static size_t there_and_back(const char *first, const char *second, enum same same)
{
        size_t compared = 0;

        for (int parts = 0; parts < 2; parts++) {
                struct tape tape = {0};
                struct stage_set *set = run_trace((const char *const[]){first, second}, second ? 2 : 1, &tape, parts), *live;
                assert_int_equal(stage_new(NULL, &live), 0);
                for (size_t i = 0; i < tape.count; i++)
                        assert_int_equal(stage_record(live, &tape.records[i]), 0);
                stage_finish(live);
                assert_int_equal(stage_get_counts(live)->evicted, 0);
                assert_int_equal(stage_get_counts(live)->backwards, stage_get_counts(set)->backwards);
                assert_int_equal(stage_get_counts(live)->errors, stage_get_counts(set)->errors);
                for (size_t i = 0; i < stage_rows(set); i++) {
                        const struct stage_row *row = stage_get_row(set, i), *other = row_like(live, row);
                        bool requests = same == SAME_ALL || (same == SAME_REQUESTS && row->direction != STAGE_FLUSHES);
                        if (row->bio[STAGE_Q2C] == NULL && !requests)
                                continue;
                        if (other == NULL)
                                fail_msg("%s: no row of %s by %" PRIu32, first, stage_direction_name((enum stage_direction)row->direction),
                                        row->process->pid);
                        same_sums(row, other);
                        for (int stage = 0; stage < STAGE_COUNT && parts; stage++) {
                                same_histogram(row->bio[stage], other->bio[stage]);
                                if (requests)
                                        same_histogram(row->request[stage], other->request[stage]);
                        }
                        if (requests && parts)
                                assert_int_equal(row->requests, other->requests);
                        compared++;
                }
                for (size_t i = 0; i < stage_rows(live); i++)
                        assert_non_null(row_like(set, stage_get_row(live, i)));
                for (size_t i = 0; same == SAME_ALL && i < stage_devices(live); i++)
                        assert_int_equal(stage_get_device(set, i)->flushes, stage_get_device(live, i)->flushes);
                stage_free(live);
                stage_free(set);
                free(tape.records);
        }
        return compared;
}

static void traces(void **state)
{
        (void)state;
        assert_int_equal(there_and_back("L.blktrace.0.gz", "L.blktrace.1.gz", SAME_ALL), 16);
        assert_int_equal(there_and_back("V.blktrace.0.gz", "V.blktrace.1.gz", SAME_ALL), 14);
        there_and_back("fsync.ftrace.gz", NULL, SAME_REQUESTS);
        there_and_back("none.ftrace.gz", NULL, SAME_REQUESTS);
        there_and_back("zram.ftrace.gz", NULL, SAME_ALL);
        there_and_back("tag.ftrace.gz", NULL, SAME_BIOS);
        there_and_back("queue.ftrace.gz", NULL, SAME_BIOS);
}

/* ---- single records ------------------------------------------------------------------------------------------------------------------ */

static struct stage_set *set_new(void)
{
        struct stage_set *set;

        assert_int_equal(stage_new(NULL, &set), 0);
        return set;
}

static struct stage_record bio_of(uint64_t id)
{
        return (struct stage_record){.kind = RECORD_BIO, .direction = STAGE_WRITE, .device = DISK, .tid = 8, .tgid = 7,
                .bio = {.id = id, .sector = 64, .sectors = 8}};
}

static void put(struct stage_set *set, const struct stage_record *record)
{
        assert_int_equal(stage_record(set, record), 0);
}

static struct stage_sum *sum_all(const struct stage_set *set, uint32_t device)
{
        static struct stage_sum sum;

        memset(&sum, 0, sizeof sum);
        for (size_t i = 0; i < stage_rows(set); i++)
                if (stage_get_row(set, i)->device == device)
                        stage_add(&sum, stage_get_row(set, i));
        return &sum;
}

static void stages_are(const struct stage_set *set, uint32_t device, const char *wanted)
{
        const struct stage_sum *sum = sum_all(set, device);
        char text[512] = "";
        size_t used = 0;

        for (int i = 0; i < STAGE_COUNT; i++)
                if (sum->bio[i].count)
                        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %" PRIu64, used ? " " : "",
                                stage_name((enum stage)i), sum->path[i]);
        assert_string_equal(text, wanted);
}

static void one_case(struct stage_record record, const char *wanted)
{
        struct stage_set *set = set_new();

        put(set, &record);
        stages_are(set, record.device, wanted);
        stage_free(set);
}

static void simple(void **state)
{
        struct stage_record record = bio_of(1);

        (void)state;
        record.bio.q = 100, record.bio.g = 110, record.bio.i = 130, record.bio.d1 = record.bio.d = 160, record.bio.c = 200;
        one_case(record, "Q2G 10 G2I 20 I2D 30 D2C 40 Q2C 100");
        record.bio.d = 170;
        one_case(record, "Q2G 10 G2I 20 I2D 30 D2D 10 D2C 30 Q2C 100");
        record.bio.d1 = 0; /* one of the two is enough */
        one_case(record, "Q2G 10 G2I 20 I2D 40 D2C 30 Q2C 100");
        record.bio.d1 = 160, record.bio.d = 0, record.bio.i = 0;
        one_case(record, "Q2G 10 G2D 50 D2C 40 Q2C 100");
        record.bio.g = 0;
        one_case(record, "D2C 40 other 60 Q2C 100");
        record.bio.d1 = 0;
        one_case(record, "other 100 Q2C 100");
        record.flags = RECORD_DRIVER;
        record.bio.g = 120;
        one_case(record, "bio 100 Q2C 100");
        record.device = ZRAM;
        one_case(record, "bio 100 Q2C 100");
        record = bio_of(1);
        record.bio.q = 100, record.bio.m = 110, record.bio.i = 130, record.bio.d1 = record.bio.d = 160, record.bio.c = 200;
        one_case(record, "Q2M 10 M2D 50 D2C 40 Q2C 100");
        struct stage_set *set = set_new();
        put(set, &record);
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->cause[CAUSE_PLUG], 30);
        assert_int_equal(sum->cause[CAUSE_QUEUE], 30);
        assert_int_equal(sum->merged, 1);
        stage_free(set);
}

static void flushes(void **state)
{
        struct stage_record record = bio_of(1);

        (void)state;
        record.bio_flags = STAGE_PREFLUSH | STAGE_FUA | STAGE_IS_SYNC;
        record.bio.q = 100, record.bio.g = 110, record.bio.i = 151, record.bio.d1 = record.bio.d = 155, record.bio.c = 170;
        record.bio.given = 200;
        one_case(record, "Q2G 10 I2D 4 D2C 15 flush 71 Q2C 100");
        record = bio_of(2);
        record.direction = STAGE_FLUSHES;
        record.bio_flags = STAGE_PREFLUSH;
        record.bio.sectors = 0;
        record.flags = RECORD_HEAD;
        record.bio.q = 100, record.bio.g = 105, record.bio.d1 = 110, record.bio.d = 120, record.bio.c = 190, record.bio.given = 200;
        one_case(record, "Q2G 5 flush 95 Q2C 100");
        struct stage_set *set = set_new();
        record.direction = STAGE_WRITE; /* an empty write with a flush before it is a flush */
        put(set, &record);
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(stage_get_row(set, 0)->direction, STAGE_FLUSHES);
        assert_int_equal(sum->request[STAGE_D2C].total, 70); /* the flush request, by itself */
        assert_int_equal(sum->request[STAGE_D2D].count, 0);
        record.bio_flags = STAGE_FLUSH_OP; /* one that served others: no bio */
        record.bio.given = 0;
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->bios, 1);
        assert_int_equal(sum_all(set, DISK)->requests, 2);
        assert_int_equal(stage_get_device(set, 0)->flushes, 2);
        stage_free(set);
}

static void requests(void **state)
{
        struct stage_set *set = set_new();
        struct stage_record record = bio_of(1);

        (void)state;
        record.bio.q = 100, record.bio.g = 110, record.bio.i = 130, record.bio.d1 = 160, record.bio.d = 180, record.bio.c = 200;
        record.bio.requeues = 1;
        record.bio.error = -5;
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->requests, 0);
        record.flags = RECORD_HEAD;
        record.bio.request_sectors = 16;
        put(set, &record);
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->bios, 2);
        assert_int_equal(sum->requeues, 2);
        assert_int_equal(sum->errors, 2);
        assert_int_equal(sum->requests, 1);
        assert_int_equal(sum->request[STAGE_I2D].total, 30);
        assert_int_equal(sum->request[STAGE_D2D].total, 20);
        assert_int_equal(sum->request[STAGE_D2C].total, 20);
        assert_int_equal(sum->request[STAGE_Q2C].total, 100);
        record.flags = RECORD_PASSED;
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->bios, 2);
        assert_int_equal(stage_get_device(set, 0)->passthrough, 1);
        stage_free(set);
}

/* Three parts, ended in every order: the one that ended last gives the way. */
static void pieces(void **state)
{
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

        (void)state;
        for (int i = 0; i < 6; i++) {
                struct stage_set *set = set_new();
                for (int k = 0; k < 3; k++) {
                        int n = orders[i][k];
                        struct stage_record record = bio_of(77);
                        record.flags = n == 2 ? RECORD_LAST | RECORD_HEAD : RECORD_PIECE | RECORD_HEAD;
                        record.bio.parts = n == 2 ? 3 : 0;
                        record.bio.sector = 64 + 8 * (unsigned)n;
                        record.bio.q = 100;
                        record.bio.g = 110 + (unsigned)n;
                        record.bio.d1 = record.bio.d = 150;
                        record.bio.c = n == 1 ? 300 : 200 + (unsigned)n;
                        record.bio.error = n == 0 ? -5 : 0;
                        assert_int_equal(sum_all(set, DISK)->bios, 0);
                        put(set, &record);
                }
                stages_are(set, DISK, "Q2G 11 G2D 39 D2C 150 Q2C 200");
                const struct stage_sum *sum = sum_all(set, DISK);
                assert_true(sum->bios == 1 && sum->splits == 1 && sum->errors == 1 && sum->sectors == 24 && sum->requests == 3);
                assert_int_equal(sum->bio[STAGE_D2C].count, 3);
                assert_int_equal(sum->bio[STAGE_D2C].total, 50 + 52 + 150);
                stage_finish(set);
                assert_int_equal(stage_get_counts(set)->evicted, 0);
                stage_free(set);
        }
}

static void pieces_lost(void **state)
{
        struct stage_set *set = set_new();
        struct stage_record record = bio_of(5);

        (void)state;
        record.flags = RECORD_PIECE;
        record.bio.q = 100, record.bio.g = 110, record.bio.d1 = 120, record.bio.c = 200;
        put(set, &record);
        record.bio.q = 300, record.bio.g = 310, record.bio.d1 = 320, record.bio.c = 400; /* the same id once more, later: another bio */
        put(set, &record);
        assert_int_equal(stage_get_counts(set)->evicted, 1);
        record.flags = RECORD_LAST;
        record.bio.parts = 2;
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->bios, 1);
        record.bio.id = 6;
        record.bio.parts = 1; /* all that a source without parts has: at once */
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->bios, 2);
        assert_int_equal(sum_all(set, DISK)->splits, 2);
        record.bio.id = 7;
        record.bio.parts = 3;
        put(set, &record);
        record.bio.id = 8;
        record.bio.c += UINT64_C(121000000000); /* two minutes later nobody waits for the rest of 7 any more */
        put(set, &record);
        assert_int_equal(stage_get_counts(set)->evicted, 2);
        stage_finish(set);
        assert_int_equal(stage_get_counts(set)->evicted, 3);
        assert_int_equal(sum_all(set, DISK)->bios, 2);
        stage_free(set);
        const struct stage_options options = {.max_open = 10};
        assert_int_equal(stage_new(&options, &set), 0);
        for (uint64_t id = 1; id <= 1000; id++) {
                record.bio.id = id;
                put(set, &record);
        }
        assert_int_equal(stage_get_counts(set)->evicted, 990);
        stage_free(set);
}

static void names(void **state)
{
        struct stage_set *set = set_new();
        struct stage_record record = bio_of(1), name = {.kind = RECORD_NAME, .tid = 8, .tgid = 7, .name.comm = "worker"};

        (void)state;
        record.bio.q = 100, record.bio.c = 200;
        put(set, &record);
        assert_string_equal(stage_get_row(set, 0)->process->name, "");
        assert_int_equal(stage_get_row(set, 0)->process->pid, 7);
        put(set, &name);
        assert_string_equal(stage_get_row(set, 0)->process->name, "worker");
        name.tid = 7;
        memcpy(name.name.comm, "database", 9);
        put(set, &name);
        assert_string_equal(stage_get_row(set, 0)->process->name, "database");
        name.tid = 9;
        memcpy(name.name.comm, "other", 6);
        put(set, &name);
        put(set, &record);
        assert_string_equal(stage_get_row(set, 0)->process->name, "database");
        /* a kernel thread; named before its first bio; all 16 bytes used */
        memset(name.name.comm, 'k', sizeof name.name.comm);
        name.tid = name.tgid = 33;
        name.flags = RECORD_KERNEL;
        put(set, &name);
        record.tid = record.tgid = 33;
        record.flags = RECORD_KERNEL;
        put(set, &record);
        assert_string_equal(stage_get_row(set, 1)->process->name, "kkkkkkkkkkkkkkk");
        stage_free(set);
}

static void on_done(void *own, const struct stage_done *done)
{
        assert_null(done->front);
        assert_int_equal(done->open, 0);
        *(struct stage_done *)own = *done;
}

static void callback(void **state)
{
        struct stage_done done = {0};
        const struct stage_options options = {.done = on_done, .own = &done};
        struct stage_set *set;
        struct stage_record record = bio_of(9), back;

        (void)state;
        assert_int_equal(stage_new(&options, &set), 0);
        record.flags = RECORD_HEAD;
        record.bio_flags = STAGE_PREFLUSH | STAGE_FUA;
        record.bio.q = 100, record.bio.g = 110, record.bio.i = 151, record.bio.d1 = record.bio.d = 155, record.bio.c = 170;
        record.bio.given = 200, record.bio.request_sectors = 8, record.bio.error = -5, record.bio.requeues = 2;
        put(set, &record);
        assert_true(done.q == 100 && done.c == 200 && done.data == 170 && done.m == UINT64_MAX && done.stage[STAGE_Q2C] == 100);
        assert_int_equal(stage_to_record(&done, &back), 0);
        record.tgid = back.tgid;
        assert_memory_equal(&record, &back, sizeof back);
        stage_free(set);
}

static void nonsense(void **state)
{
        struct stage_set *set = set_new();
        struct stage_record record = bio_of(1);

        (void)state;
        record.bio.q = 300, record.bio.g = 200, record.bio.d1 = 250, record.bio.c = 100;
        put(set, &record);
        assert_true(stage_get_counts(set)->backwards > 0);
        assert_int_equal(sum_all(set, DISK)->bio[STAGE_Q2C].max, 0);
        record.direction = 99;
        put(set, &record);
        assert_int_equal(stage_get_counts(set)->crowded, 1);
        assert_int_equal(stage_get_row(set, 1)->direction, STAGE_ELSE);
        record.bio.c = 0; /* still open */
        put(set, &record);
        assert_int_equal(sum_all(set, DISK)->bios, 2);
        record.direction = STAGE_READ;
        record.bio.c = 400;
        for (uint32_t i = 0; i < 1100; i++) {
                record.device = i << 4;
                put(set, &record);
        }
        assert_int_equal(stage_devices(set), 1024);
        assert_true(stage_get_counts(set)->crowded > 50);
        record = (struct stage_record){.kind = RECORD_LOST, .lost.count = 7};
        put(set, &record);
        assert_int_equal(stage_get_counts(set)->lost, 7);
        record = (struct stage_record){.kind = RECORD_EVENT, .direction = STAGE_READ, .device = 16, .tid = 5,
                .event = {.time = 10, .sector = 8, .sectors = 8, .action = STAGE_Q}};
        put(set, &record);
        assert_int_equal(stage_get_device(set, 2)->bios, 1);
        record.kind = 200;
        put(set, &record);
        stage_free(set);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(traces), cmocka_unit_test(simple), cmocka_unit_test(flushes), cmocka_unit_test(requests),
                cmocka_unit_test(pieces), cmocka_unit_test(pieces_lost), cmocka_unit_test(names), cmocka_unit_test(callback),
                cmocka_unit_test(nonsense),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

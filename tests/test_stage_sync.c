/*
 * Where the time of fsync goes: cases whose answer is known, and random ones against a model that asks for every single ns who has it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/stage_sync.h"

enum { DISK = 8 << 20, OTHER = 9 << 20, DM = 253 << 20, MOST = 512 };

struct heard {
        struct sync_done done[MOST];
        struct stage_record record[MOST];
        size_t count;
};

static void on_done(void *own, const struct sync_done *done)
{
        struct heard *heard = own;
        uint64_t sum = 0;

        for (int i = 0; i < SYNC_PARTS; i++)
                sum += done->part[i];
        assert_int_equal(sum, done->record->sync.end - done->record->sync.start);
        assert_true(heard->count < MOST);
        heard->record[heard->count] = *done->record;
        heard->done[heard->count++] = *done;
}

static struct sync_set *set_new(struct heard *heard, struct behind *behind, size_t max_open)
{
        const struct sync_options options = {.done = on_done, .own = heard, .max_open = max_open};
        struct sync_set *set;

        assert_int_equal(sync_new(&options, behind, &set), 0);
        return set;
}

static void put(struct sync_set *set, const struct stage_record *record)
{
        assert_int_equal(sync_record(set, record), 0);
}

static void name(struct sync_set *set, uint32_t tid, uint32_t tgid, const char *comm, bool kernel)
{
        struct stage_record record = {.kind = RECORD_NAME, .tid = tid, .tgid = tgid, .flags = kernel ? RECORD_KERNEL : 0};

        memcpy(record.name.comm, comm, strlen(comm));
        put(set, &record);
}

static struct stage_record bio(uint32_t tid, uint32_t tgid, uint64_t q, uint64_t d, uint64_t c)
{
        return (struct stage_record){.kind = RECORD_BIO, .direction = STAGE_WRITE, .device = DISK, .tid = tid, .tgid = tgid,
                .bio = {.id = 1, .q = q, .g = q, .i = q, .d1 = d, .d = d, .c = c, .sectors = 8}}; /* queue q..d, disk d..c */
}

static struct stage_record call(uint32_t tid, uint32_t tgid, uint64_t start, uint64_t end)
{
        return (struct stage_record){.kind = RECORD_SYNC, .tid = tid, .tgid = tgid,
                .sync = {.start = start, .end = end, .call = SYNC_FSYNC, .disk = DISK}};
}

static void parts_are(const struct sync_done *done, uint64_t queue, uint64_t disk, uint64_t flush, uint64_t driver, uint64_t journal,
        uint64_t other)
{
        assert_int_equal(done->part[CAUSE_QUEUE], queue);
        assert_int_equal(done->part[CAUSE_DISK], disk);
        assert_int_equal(done->part[CAUSE_FLUSH], flush);
        assert_int_equal(done->part[CAUSE_DRIVER], driver);
        assert_int_equal(done->part[SYNC_JOURNAL], journal);
        assert_int_equal(done->part[CAUSE_OTHER], other);
}

/* An ext4 fsync: its own data, then the commit, whose block is written after a flush. */
static void journal(void **state)
{
        static struct heard heard;
        struct behind *behind;
        struct stage_record record;

        (void)state;
        heard.count = 0;
        assert_int_equal(behind_new(&behind), 0);
        struct sync_set *set = set_new(&heard, behind, 0);
        name(set, 7, 7, "postgres", false);
        name(set, 50, 50, "jbd2/sda1-8", true);
        name(set, 51, 51, "kworker/u8:1", true);
        record = bio(7, 7, 110, 120, 200);
        put(set, &record);
        behind_record(behind, &record);
        record = bio(51, 51, 100, 110, 900); /* a kworker: whose work it does is not known */
        record.flags = RECORD_KERNEL;
        put(set, &record);
        behind_record(behind, &record);
        record = bio(99, 99, 100, 300, 900); /* somebody else's */
        put(set, &record);
        behind_record(behind, &record);
        record = bio(50, 50, 210, 220, 300); /* the descriptors */
        record.flags = RECORD_KERNEL;
        put(set, &record);
        behind_record(behind, &record);
        record = bio(50, 50, 310, 0, 450); /* the commit block: flush 310..400, disk 400..450, flush 450..480 */
        record.flags = RECORD_KERNEL;
        record.bio_flags = STAGE_PREFLUSH | STAGE_FUA;
        record.bio.i = record.bio.d1 = record.bio.d = 400;
        record.bio.given = 480;
        put(set, &record);
        record.device = OTHER; /* another disk's journal */
        record.bio.q = 100;
        put(set, &record);
        record = call(7, 7, 100, 500);
        put(set, &record);
        assert_int_equal(sync_settle(set, 500), 0);
        assert_int_equal(heard.count, 0);
        assert_int_equal(sync_settle(set, 500 + SYNC_LATE_NS), 0);
        assert_int_equal(heard.count, 1);
        parts_are(&heard.done[0], 10, 80, 120, 0, 140, 50);
        assert_int_equal(heard.done[0].bios, 1);
        assert_int_equal(heard.done[0].bytes, 4096);
        assert_int_equal(heard.done[0].disk, DISK);
        /* behind: neither its own nor the journal's that worked for it. 110 .. 480 */
        assert_int_equal(heard.done[0].behind.count, 2);
        assert_int_equal(heard.done[0].behind.who[0].tgid, 51);
        assert_true(fabs(heard.done[0].behind.open - 2) < 1e-9 && heard.done[0].behind.whole);
        assert_int_equal(sync_rows(set), 1);
        const struct sync_row *row = sync_get_row(set, 0);
        assert_string_equal(row->name, "postgres");
        assert_true(row->calls == 1 && row->errors == 0 && row->time.total == 400 && row->part[SYNC_JOURNAL] == 140);
        assert_int_equal(sync_spoilt(set), 0);
        sync_free(set);
        behind_free(behind);
}

/* A user's program may call itself what it likes; of a kernel thread the name may come after its bios. */
static void who_is_a_journal(void **state)
{
        static struct heard heard;
        struct stage_record record = bio(60, 60, 100, 120, 200);

        (void)state;
        heard.count = 0;
        struct sync_set *set = set_new(&heard, NULL, 0);
        name(set, 60, 60, "jbd2/fake", false);
        put(set, &record);
        record = bio(61, 61, 300, 320, 400);
        record.flags = RECORD_KERNEL;
        put(set, &record);
        name(set, 61, 61, "btrfs-transacti", true);
        record = bio(62, 62, 450, 460, 490);
        record.flags = RECORD_KERNEL;
        put(set, &record); /* never named */
        record = bio(63, 63, 450, 460, 490);
        record.flags = RECORD_KERNEL;
        put(set, &record);
        name(set, 63, 63, "xfsaild/sda", true); /* writes back what is safe already */
        record = call(7, 7, 100, 500);
        put(set, &record);
        record.sync.disk = 0; /* none known, and no bio of its own tells */
        put(set, &record);
        record.sync.call = SYNC_ALL; /* waits for every disk */
        put(set, &record);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        parts_are(&heard.done[0], 0, 0, 0, 0, 100, 300);
        parts_are(&heard.done[1], 0, 0, 0, 0, 0, 400);
        parts_are(&heard.done[2], 0, 0, 0, 0, 100, 300);
        assert_int_equal(sync_rows(set), 2);
        sync_free(set);
}

static void whose(void **state)
{
        static struct heard heard;
        struct stage_record record;

        (void)state;
        heard.count = 0;
        struct sync_set *set = set_new(&heard, NULL, 0);
        record = bio(8, 7, 100, 110, 150); /* another thread of the process */
        put(set, &record);
        record = bio(7, 7, 90, 95, 160); /* queued before the call: a write is waited for */
        put(set, &record);
        record = bio(7, 7, 90, 95, 180); /* ... a read is not */
        record.direction = STAGE_READ;
        put(set, &record);
        record.bio.q = 165, record.bio.d1 = record.bio.d = 175; /* within the call: its own */
        put(set, &record);
        record = call(7, 7, 100, 200);
        put(set, &record);
        record.sync.call = SYNC_RING; /* by a worker: all writes of the process */
        record.tid = 6;
        put(set, &record);
        record = bio(70, 70, 100, 110, 150); /* a source that does not know thread groups */
        put(set, &record);
        record = call(70, 7, 100, 200);
        put(set, &record);
        record = call(7, 7, 300, 300);
        put(set, &record);
        record.sync.end = 200; /* ends before it begins */
        record.sync.result = -5;
        put(set, &record);
        record.sync.call = 99;
        put(set, &record);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        assert_int_equal(heard.count, 5);
        parts_are(&heard.done[0], 10, 65, 0, 0, 0, 25);
        assert_true(heard.done[0].bios == 2 && heard.done[0].bytes == 8192);
        parts_are(&heard.done[1], 0, 60, 0, 0, 0, 40);
        parts_are(&heard.done[2], 10, 40, 0, 0, 0, 50);
        assert_int_equal(heard.done[3].part[CAUSE_OTHER], 0);
        assert_int_equal(sync_get_row(set, 0)->errors, 1);
        sync_free(set);
}

/* dm: one layer up the same data is only "driver"; what the disk below knows is better. */
static void stacked(void **state)
{
        static struct heard heard;
        struct stage_record record = bio(7, 7, 110, 150, 300);

        (void)state;
        heard.count = 0;
        struct sync_set *set = set_new(&heard, NULL, 0);
        put(set, &record);
        record = bio(7, 7, 100, 0, 310);
        record.device = DM;
        record.flags = RECORD_DRIVER;
        put(set, &record);
        record = call(7, 7, 100, 400);
        record.sync.disk = DM;
        put(set, &record);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        parts_are(&heard.done[0], 40, 150, 0, 20, 0, 90);
        assert_true(heard.done[0].bios == 1 && heard.done[0].bytes == 4096 && heard.done[0].disk == DISK);
        sync_free(set);
}

static void ceilings(void **state)
{
        static struct heard heard;
        struct stage_record record;

        (void)state;
        heard.count = 0;
        struct sync_set *set = set_new(&heard, NULL, 100);
        for (uint64_t i = 0; i < 1000; i++) {
                record = bio(7, 7, 1000 + i, 1000 + i, 1001 + i);
                put(set, &record);
        }
        record = call(7, 7, 1950, 2000);
        put(set, &record);
        record = call(7, 7, 1000, 2000);
        put(set, &record);
        record = call(8, 8, 1000, 2000); /* had no bios */
        put(set, &record);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        assert_int_equal(heard.done[0].part[CAUSE_DISK], 50);
        assert_int_equal(heard.done[1].part[CAUSE_DISK], 100);
        assert_int_equal(sync_spoilt(set), 1);
        heard.count = 0;
        for (uint32_t i = 0; i < 150; i++) { /* too many at once: some are judged early, in order */
                record = call(i, i, 1000, 5000 - i);
                put(set, &record);
        }
        assert_int_equal(sync_settle(set, 4000), 0);
        assert_int_equal(heard.count, 50);
        assert_int_equal(sync_spoilt(set), 51);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        assert_int_equal(heard.count, 150);
        for (size_t i = 51; i < 150; i++)
                assert_true(heard.record[i].sync.end >= heard.record[i - 1].sync.end);
        record = (struct stage_record){.kind = RECORD_LOST, .lost = {.count = 1, .time = 6000}};
        put(set, &record);
        record = call(7, 7, 5500, 6500); /* may have had a bio among the lost ones */
        put(set, &record);
        record = call(7, 7, 6100, 6500);
        put(set, &record);
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        assert_int_equal(sync_spoilt(set), 53); /* and call 7 of those above, which began at 1000 */
        heard.count = 0;
        sync_free(set);
        assert_int_equal(sync_new(NULL, NULL, &set), 0);
        for (uint32_t i = 0; i < 6000; i++) {
                record = call(i, i, 10, 20);
                put(set, &record);
        }
        assert_int_equal(sync_settle(set, UINT64_MAX), 0);
        assert_int_equal(sync_rows(set), 4096);
        assert_int_equal(sync_get_row(set, 4095)->calls, 6000 - 4095);
        assert_string_equal(sync_get_row(set, 4095)->name, "(all others)");
        sync_free(set);
}

/* ---- a model that asks for every ns -------------------------------------------------------------------------------------------------- */

static uint64_t random_state = 99;

static uint32_t draw(uint32_t below)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (uint32_t)(random_state >> 16) % below;
}

enum { BIOS = 14, CALLS = 4 };

static struct stage_record any_bio(void)
{
        uint64_t at = 1000 + draw(100), times[7];
        struct stage_record record = bio(1 + draw(3), 1, 0, 0, 0);

        for (int i = 0; i < 7; i++)
                times[i] = at += draw(3) ? draw(12) : 0;
        record.device = draw(3) ? DISK : OTHER;
        record.direction = draw(4) ? STAGE_WRITE : STAGE_READ;
        record.bio.q = times[0];
        if (draw(3))
                record.bio.g = times[1];
        else
                record.bio.m = times[1];
        record.bio.i = draw(2) ? times[2] : 0;
        record.bio.d1 = times[3];
        record.bio.d = times[4];
        record.bio.c = times[5];
        if (draw(4) == 0) {
                record.bio_flags = STAGE_PREFLUSH;
                record.bio.given = times[6];
        }
        if (draw(5) == 0)
                record.flags |= RECORD_DRIVER;
        if (draw(4) == 0) {
                record.tid = record.tgid = 50 + draw(2); /* 50 is a journal */
                record.flags |= RECORD_KERNEL;
        }
        if (draw(6) == 0)
                record.tgid = record.tid = 9;
        return record;
}

/* In the words of the header and of enum stage_cause, written anew: in which cause is the bio at t? */
static int cause_at(const struct stage_record *record, uint64_t t)
{
        bool flush = record->bio_flags & STAGE_PREFLUSH;

        if (record->flags & RECORD_DRIVER)
                return CAUSE_DRIVER;
        if (t >= record->bio.c)
                return CAUSE_FLUSH;
        if (t >= record->bio.d)
                return CAUSE_DISK;
        if (t >= record->bio.d1)
                return CAUSE_REFUSED;
        if (record->bio.m) { /* a plug's until its request is in the scheduler */
                if (t < record->bio.m || record->bio.i == 0)
                        return CAUSE_PLUG;
                return t < record->bio.i && record->bio.i < record->bio.d1 ? CAUSE_PLUG : CAUSE_QUEUE;
        }
        if (t < record->bio.g)
                return CAUSE_TAG;
        if (record->bio.i && t >= record->bio.i)
                return CAUSE_QUEUE;
        return flush ? CAUSE_FLUSH : CAUSE_PLUG;
}

static uint64_t bio_end(const struct stage_record *record)
{
        return record->bio.given > record->bio.c ? record->bio.given : record->bio.c;
}

static int wanted_at(const struct stage_record *bios, const struct stage_record *sync, uint64_t t)
{
        const struct stage_record *best = NULL;
        int best_rank = 0;

        for (int i = 0; i < BIOS; i++) {
                const struct stage_record *one = &bios[i];
                bool own = one->tid == sync->tid ||
                        (sync->sync.call == SYNC_RING && one->tgid == sync->tgid && one->direction != STAGE_READ);
                own = own && !(one->flags & RECORD_KERNEL) && (one->direction != STAGE_READ || one->bio.q >= sync->sync.start);
                bool journal = one->flags & RECORD_KERNEL && one->tid == 50 && one->device == sync->sync.disk;
                int rank = own ? (one->flags & RECORD_DRIVER ? 2 : 3) : journal ? 1 : 0;
                if (rank == 0 || t < one->bio.q || t >= bio_end(one))
                        continue;
                if (best == NULL || rank > best_rank || (rank == best_rank && bio_end(one) >= bio_end(best))) {
                        best = one;
                        best_rank = rank;
                }
        }
        if (best == NULL)
                return CAUSE_OTHER;
        int cause = cause_at(best, t);
        return best_rank == 1 && cause != CAUSE_FLUSH ? SYNC_JOURNAL : cause;
}

static void model(void **state)
{
        static struct heard heard;
        uint64_t journals = 0, flushes = 0;

        (void)state;
        for (int round = 0; round < 3000; round++) {
                struct stage_record bios[BIOS];
                struct sync_set *set = set_new(&heard, NULL, 0);
                heard.count = 0;
                name(set, 50, 50, "jbd2/x", true);
                name(set, 51, 51, "kworker/0:1", true);
                for (int i = 0; i < BIOS; i++) {
                        bios[i] = any_bio();
                        put(set, &bios[i]);
                }
                for (int i = 0; i < CALLS; i++) {
                        uint64_t start = 990 + draw(100);
                        struct stage_record record = call(1 + draw(3), 1, start, start + draw(120));
                        record.sync.call = draw(3) ? SYNC_FSYNC : SYNC_RING;
                        put(set, &record);
                }
                assert_int_equal(sync_settle(set, UINT64_MAX), 0);
                assert_int_equal(heard.count, CALLS);
                for (int i = 0; i < CALLS; i++) {
                        uint64_t wanted[SYNC_PARTS] = {0};
                        for (uint64_t t = heard.record[i].sync.start; t < heard.record[i].sync.end; t++)
                                wanted[wanted_at(bios, &heard.record[i], t)]++;
                        for (int part = 0; part < SYNC_PARTS; part++)
                                if (wanted[part] != heard.done[i].part[part])
                                        fail_msg("round %d, call %d: %s %d, wanted %d", round, i, sync_part_name(part),
                                                (int)heard.done[i].part[part], (int)wanted[part]);
                        journals += wanted[SYNC_JOURNAL];
                        flushes += wanted[CAUSE_FLUSH];
                }
                sync_free(set);
        }
        assert_true(journals > 1000 && flushes > 1000);
}

static void words(void **state)
{
        (void)state;
        assert_string_equal(sync_part_name(CAUSE_TAG), "tag");
        assert_string_equal(sync_part_name(CAUSE_OTHER), "other");
        assert_string_equal(sync_part_name(SYNC_JOURNAL), "journal");
        for (int i = 0; i < SYNC_CALLS; i++)
                assert_true(strlen(sync_call_name((enum sync_call)i)) > 3);
        assert_string_equal(sync_call_name(SYNC_WRITE), "O_SYNC write");
        assert_string_equal(sync_call_name((enum sync_call)77), "?");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(journal), cmocka_unit_test(who_is_a_journal), cmocka_unit_test(whose), cmocka_unit_test(stacked),
                cmocka_unit_test(ceilings), cmocka_unit_test(model), cmocka_unit_test(words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

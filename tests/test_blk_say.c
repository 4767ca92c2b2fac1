/*
 * watop blk: whom a call waited behind, verdicts, and what is said of it, from records made by hand. The sentences are part of the
 * contract.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "sample/stage_stream.h"
#include "tui/blk.h"
#include "tui/blk_system.h"

enum { SDA = 8 << 20, VICTIM = 11702, FIO = 11690, JOURNAL = 300, MS = 1000000 };

struct house {
        struct blk_names *names;
        struct blk_calls *calls;
        struct stage_set *set;
        struct blk_live live;
        struct blk_report report;
};

static void name(struct house *house, uint32_t tid, const char *comm)
{
        struct stage_record record = {.kind = RECORD_NAME, .tid = tid, .tgid = tid};

        snprintf(record.name.comm, sizeof record.name.comm, "%s", comm);
        blk_names_learn(house->names, tid, comm);
        assert_int_equal(stage_record(house->set, &record), 0);
}

static int set_up(void **state)
{
        struct house *house = calloc(1, sizeof *house);

        assert_int_equal(blk_names_new(false, &house->names), 0);
        assert_int_equal(blk_calls_new(house->names, &house->calls), 0);
        assert_int_equal(stage_new(&(struct stage_options){0}, &house->set), 0);
        house->live = (struct blk_live){.calls = house->calls, .calls_traced = true, .source = STREAM_BPF};
        house->report = (struct blk_report){.live = &house->live, .set = house->set, .out = stdout, .start = 0,
                .last = UINT64_C(10000000000)};
        name(house, VICTIM, "python3");
        name(house, JOURNAL, "jbd2/sda1-8");
        for (uint32_t i = 0; i < 4; i++)
                name(house, FIO + i, "fio");
        *state = house;
        return 0;
}

static int tear_down(void **state)
{
        struct house *house = *state;

        stage_free(house->set);
        blk_calls_free(house->calls);
        blk_names_free(house->names);
        free(house);
        return 0;
}

/* A bio of some process: times are ms from 0. */
static void bio(struct house *house, uint32_t pid, double q, double g, double d, double c)
{
        static uint64_t id;
        uint64_t queued = (uint64_t)(q * MS) + 1, got = (uint64_t)(g * MS) + 1, issued = (uint64_t)(d * MS) + 1;
        struct stage_record record = {.kind = RECORD_BIO, .flags = RECORD_HEAD, .direction = STAGE_WRITE, .device = SDA, .tid = pid,
                .tgid = pid, .bio = {.q = queued, .g = got, .i = got, .d1 = issued, .d = issued, .c = (uint64_t)(c * MS) + 1, .sectors = 8,
                        .request_sectors = 8}};

        record.bio.id = ++id;
        record.bio.sector = id * 8;
        assert_int_equal(stage_record(house->set, &record), 0);
}

/* A call with these parts (and so much of the journal's in a queue, the rest on the disk), fio's four in front with so many bios each,
 * and so many of its own. */
static void call_journal(struct house *house, const double part[SYNC_PARTS], double queued, double fio, double own)
{
        struct stage_record record = {.kind = RECORD_SYNC, .device = SDA + 1, .tid = VICTIM, .tgid = VICTIM,
                .sync = {.start = 0, .inode = 12, .call = SYNC_FSYNC, .disk = SDA}};
        struct sync_done done = {.record = &record, .disk = SDA, .bytes = 4096, .behind = {.open = 4 * fio, .own = own, .whole = true}};

        snprintf(record.sync.file, sizeof record.sync.file, "fsynctest2.img");
        for (int i = 0; i < SYNC_PARTS; i++) {
                done.part[i] = (uint64_t)(part[i] * MS);
                record.sync.end += done.part[i];
        }
        done.journal[CAUSE_QUEUE] = (uint64_t)(queued * MS);
        done.journal[CAUSE_DISK] = done.part[SYNC_JOURNAL] - done.journal[CAUSE_QUEUE];
        for (uint32_t i = 0; i < 4 && fio > 0; i++)
                done.behind.who[done.behind.count++] = (struct behind_who){.tgid = FIO + i, .share = 0.25, .open = fio};
        blk_calls_add(house->calls, &done);
}

static void call(struct house *house, const double part[SYNC_PARTS], double fio, double own)
{
        call_journal(house, part, 0, fio, own);
}

static char *text_of(struct house *house, void (*say)(const struct blk_report *))
{
        char *text = NULL;
        size_t size = 0;
        FILE *before = stdout, *out = open_memstream(&text, &size);

        house->report.out = stdout = out; /* JSON goes to stdout */
        say(&house->report);
        fclose(out);
        house->report.out = stdout = before;
        return text;
}

static void assert_says(struct house *house, const char *line)
{
        char *text = text_of(house, blk_say);

        if (strstr(text, line) == NULL)
                fail_msg("'%s' is not in:\n%s", line, text);
        free(text);
}

/* The second document's longest call, with its durations: it waited behind fio. */
static void test_behind(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_TAG] = 1900.2, [CAUSE_QUEUE] = 1511.9, [CAUSE_DISK] = 310.4, [CAUSE_FLUSH] = 22.0,
                [SYNC_JOURNAL] = 449.1};

        call(house, parts, 31.5, 0);
        assert_says(house, "WAITING FOR A TAG, NOT FOR THE DISK. 81% of python3's fsync time it waited behind fio[11690-11693].\n");
        assert_says(house, "python3[11702] 4193.600 ms on average = tag 1900.200 + queue 1511.900 + disk 310.400 + flush 22.000 + "
                "journal 449.100 (disk 100%)\n");
        assert_says(house, "  11702 python3 fsync               1  4193.6  4193.6  4193.6  4193.6  4193.6\n");
        assert_says(house, "45.3  36.1   7.4   0.5    10.7  fsynctest2.img\n");
}

/* What the journal waited for counts as what it was. */
static void test_journal(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_DISK] = 10, [SYNC_JOURNAL] = 90};
        struct blk_judgement judgement;

        call_journal(house, parts, 81, 2, 0);
        blk_find_victim(&house->report, &judgement);
        assert_int_equal(judgement.cause, CAUSE_QUEUE);
        assert_true(judgement.share > 0.80 && judgement.share < 0.82);
        assert_true(judgement.behind > 0.80 && judgement.behind < 0.82);
        assert_true(judgement.through_journal > 0.80);
        assert_says(house, "IN THE QUEUE, NOT THE DISK. 81% of python3's fsync time it waited behind fio[11690-11693] "
                "(81% in the journal).\n");
        call_journal(house, parts, 0, 2, 0);
        assert_says(house, "THE DISK ITSELF. 60% of python3's fsync time the device had it (50% in the journal).\n");
        assert_says(house, "python3[11702] 100.000 ms on average = disk 10.000 + journal 90.000 (disk 55%)\n");
}

static void test_itself(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_QUEUE] = 80, [CAUSE_DISK] = 20};

        call(house, parts, 1, 12);
        assert_says(house, "IN THE QUEUE, NOT THE DISK. 60% of python3's fsync time it waited behind its own requests.\n");
}

static void test_disk(void **state)
{
        struct house *house = *state;
        const double disk[SYNC_PARTS] = {[CAUSE_DISK] = 40, [CAUSE_FLUSH] = 35, [CAUSE_OTHER] = 25};
        const double other[SYNC_PARTS] = {[CAUSE_OTHER] = 900};
        const double journal[SYNC_PARTS] = {[CAUSE_FLUSH] = 15, [CAUSE_OTHER] = 10, [SYNC_JOURNAL] = 25};
        struct blk_judgement judgement;

        call(house, disk, 0, 1);
        assert_says(house, "THE DISK AND ITS FLUSH. 75% of python3's fsync time the device had it: disk 40%, flush 35%.\n");
        call_journal(house, journal, 0, 0, 1); /* 150 ms: disk 40 and 25 of the journal's, flush 50 */
        assert_says(house, "THE DISK AND ITS FLUSH. 77% of python3's fsync time the device had it: disk 27%, flush 33%, "
                "both in the journal 17%.\n");
        call(house, other, 0, 1);
        blk_find_victim(&house->report, &judgement);
        assert_int_equal(judgement.cause, CAUSE_OTHER);
        assert_says(house, "NOT A DISK. ");
}

/* Where the flush is most of it, the disk has not the word. */
static void test_flush(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_DISK] = 9.3, [CAUSE_FLUSH] = 45, [CAUSE_OTHER] = 45.7};
        const double alone[SYNC_PARTS] = {[CAUSE_DISK] = 20, [CAUSE_FLUSH] = 180};
        struct blk_judgement judgement;

        call(house, parts, 0, 1);
        blk_find_victim(&house->report, &judgement);
        assert_int_equal(judgement.cause, CAUSE_FLUSH);
        assert_says(house, "THE DISK'S FLUSH. 54% of python3's fsync time the device had it: disk 9%, flush 45%.\n");
        call(house, alone, 0, 1);
        assert_says(house, "FLUSHING THE WRITE CACHE. 75% of python3's fsync time the device's write cache was being flushed.\n");
}

/* Of who makes no call the bios decide; as soon as it makes one, its calls. */
static void test_bios(void **state)
{
        struct house *house = *state;
        const uint64_t cause[CAUSE_COUNT] = {[CAUSE_TAG] = 90, [CAUSE_DISK] = 10};
        const struct behind_answer behind = {.who = {{.tgid = FIO, .share = 1, .open = 3}}, .count = 1, .open = 3, .whole = true};
        const double parts[SYNC_PARTS] = {[CAUSE_FLUSH] = 5};

        for (int n = 0; n < 10; n++)
                blk_calls_add_bio(house->calls, VICTIM, SDA, cause);
        blk_calls_add_front(house->calls, VICTIM, cause, &behind); /* one was asked */
        assert_says(house, "WAITING FOR A TAG, NOT FOR THE DISK. 90% of python3's I/O time it waited behind fio[11690].\n");
        call(house, parts, 0, 0);
        blk_calls_add_bio(house->calls, VICTIM, SDA, cause);
        blk_calls_add_front(house->calls, VICTIM, cause, &behind);
        assert_says(house, "FLUSHING THE WRITE CACHE. 100% of python3's fsync time the device's write cache was being flushed.\n");
}

static void test_nothing(void **state)
{
        struct house *house = *state;

        assert_says(house, "no bio ended in 10.0 s\n");
        house->report.process = "cp";
        assert_says(house, "no bio of cp ended in 10.0 s (buffered writes are queued by kworkers)\n");
}

static struct json_object *get(struct json_object *object, const char *key)
{
        struct json_object *value = NULL;

        assert_true(json_object_object_get_ex(object, key, &value));
        return value;
}

/* What is open, where it is, and not what was told too long ago. */
static void test_open(void **state)
{
        struct house *house = *state;
        struct stage_record record = {.kind = RECORD_BIO, .direction = STAGE_WRITE, .device = SDA, .tid = FIO, .tgid = FIO};

        house->report.last = UINT64_C(20000000000);
        record.bio.q = house->report.last - UINT64_C(12300000000);
        record.bio.g = record.bio.q + 1;
        record.bio.d = record.bio.q + 2;
        house->live.open[house->live.opens++] = (struct blk_open){record, house->report.last - UINT64_C(500000000)};
        record.device = SDA + 1;
        record.direction = STAGE_READ;
        house->live.open[house->live.opens++] = (struct blk_open){record, house->report.last - UINT64_C(3000000000)};
        assert_says(house, ": oldest open: write of fio[11690], 12.3 s, with the device\n");
        char *text = text_of(house, blk_say);
        assert_null(strstr(text, "read of fio"));
        free(text);
        record.bio.d = 0;
        assert_int_equal(blk_open_where(&record), BLK_HELD);
        record.bio.i = record.bio.g;
        assert_int_equal(blk_open_where(&record), BLK_IN_QUEUE);
        record.bio.m = record.bio.g;
        assert_int_equal(blk_open_where(&record), BLK_MERGED);
        record.bio.m = record.bio.g = record.bio.i = 0;
        record.device = UINT32_C(4095) << 20;
        assert_int_equal(blk_open_where(&record), BLK_IN_DRIVER);
        text = text_of(house, blk_json);
        struct json_object *root = json_tokener_parse(text), *first = json_object_array_get_idx(get(root, "open"), 0);
        assert_int_equal(json_object_array_length(get(root, "open")), 1);
        assert_string_equal(json_object_get_string(get(first, "where")), "device");
        assert_int_equal(json_object_get_int64(get(first, "time")), INT64_C(12300000000));
        json_object_put(root);
        free(text);
}

/* Groups that found no place are told as others, so that the sum is right. */
static void test_writeback(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_DISK] = 1};

        call(house, parts, 0, 0);
        house->live.writeback[0] = (struct blk_writeback){.bios = 2, .bytes = 2048};
        house->live.writebacks = 1;
        char *text = text_of(house, blk_say);
        assert_null(strstr(text, "writeback of"));
        free(text);
        house->live.writeback[1] = (struct blk_writeback){.cgroup = UINT64_MAX - 5, .bios = 1, .bytes = 1024};
        house->live.writeback[2] = (struct blk_writeback){.bios = 3, .bytes = 4096};
        house->live.writebacks = 3;
        assert_says(house, "writeback of others: 5 bios, 6 kB\n");
}

/* Losses and costs are never silent; a stranger's name does no harm. */
static void test_notes(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_DISK] = 1};

        house->live.lost = 7;
        house->live.daemon_ns = 30 * MS;
        house->live.stuck[house->live.stucks++] = (struct blk_stuck){.device = SDA, .since = UINT64_C(7000000000), .inflight = 3};
        name(house, VICTIM, "a\033[31mb");
        call(house, parts, 0, 0);
        assert_says(house, "10.0 s traced by BPF; watopd 0.3%, watop 0.0% of a core\n");
        assert_says(house, ": 3 in flight, and nothing has ended there for 3.0 s\n");
        assert_says(house, "note: 7 events or records were lost between kernel and watopd: sums are too small\n");
        assert_says(house, "a\\x1b[31mb");
}

static void test_json(void **state)
{
        struct house *house = *state;
        const double parts[SYNC_PARTS] = {[CAUSE_QUEUE] = 80, [CAUSE_DISK] = 20};

        name(house, VICTIM, "py\"\n3");
        bio(house, VICTIM, 0, 1, 2, 5);
        call(house, parts, 2, 0);
        char *text = text_of(house, blk_json);
        struct json_object *root = json_tokener_parse(text);
        assert_non_null(root);
        struct json_object *victim = get(root, "victim"), *first = json_object_array_get_idx(get(root, "calls"), 0);
        assert_string_equal(json_object_get_string(get(victim, "Command")), "py\"\n3");
        assert_string_equal(json_object_get_string(get(victim, "cause")), "queue");
        assert_string_equal(json_object_get_string(get(get(victim, "culprit"), "Command")), "fio");
        assert_int_equal(json_object_get_int(get(get(victim, "culprit"), "processes")), 4);
        assert_true(json_object_get_double(get(get(victim, "culprit"), "share")) > 79.9);
        assert_int_equal(json_object_get_int64(get(first, "total")), 100 * MS);
        assert_int_equal(json_object_get_int64(get(get(first, "parts"), "disk")), 20 * MS);
        assert_string_equal(json_object_get_string(get(get(first, "longest"), "file")), "fsynctest2.img");
        assert_null(get(get(root, "tracer"), "run")); /* not counted by the kernel: not 0 */
        assert_int_equal(json_object_array_length(get(root, "devices")), 1);
        json_object_put(root);
        house->live.calls_traced = false;
        free(text);
        text = text_of(house, blk_json);
        root = json_tokener_parse(text);
        assert_non_null(root);
        assert_null(get(root, "calls"));
        json_object_put(root);
        free(text);
}

/* More processes, kinds and neighbours than fit are counted, and nothing is overwritten. */
static void test_crowd(void **state)
{
        struct house *house = *state;
        struct stage_record record = {.kind = RECORD_SYNC, .sync = {.start = 1, .end = 1001, .call = 77}};
        struct sync_done done = {.record = &record, .part = {[CAUSE_QUEUE] = 1000}, .behind = {.count = 4, .open = 4, .whole = true}};

        for (uint32_t i = 1; i <= BLK_CALLS + 10; i++) {
                record.tid = record.tgid = i;
                blk_calls_add(house->calls, &done);
        }
        assert_int_equal(blk_calls_count(house->calls), BLK_CALLS);
        assert_int_equal(blk_calls_crowded(house->calls), 10 + BLK_CALLS + 10 - BLK_WAITERS);
        record.tid = record.tgid = 5;
        for (uint32_t i = 0; i < 400; i++) {
                for (uint32_t k = 0; k < 4; k++)
                        done.behind.who[k] = (struct behind_who){.tgid = i * 4 + k, .share = 0.25, .open = 1 + (double)i};
                done.behind.open = 4 * (1 + (double)i);
                blk_calls_add(house->calls, &done);
        }
        struct blk_judgement judgement;
        assert_non_null(blk_find_victim(&house->report, &judgement));
        assert_int_equal(judgement.cause, CAUSE_QUEUE);
}

static int count_name(void *own, uint32_t tid, const char *comm)
{
        assert_true(tid > 0 && comm[0]);
        ++*(size_t *)own;
        return 0;
}

/* The table of names forgets instead of growing, and what nobody knows is asked once. */
static void test_names(void **state)
{
        struct blk_names *names;
        size_t count = 0;
        bool fresh;

        (void)state;
        assert_int_equal(blk_names_new(false, &names), 0);
        assert_string_equal(blk_names_get(names, 7, &fresh), "");
        assert_true(fresh);
        blk_names_get(names, 7, &fresh);
        assert_false(fresh);
        for (uint32_t i = 1; i <= 100000; i++) {
                blk_names_learn(names, i, "0123456789abcdefghij");
                assert_string_equal(blk_names_get(names, i, &fresh), "0123456789abcde");
                assert_false(fresh);
        }
        assert_int_equal(blk_names_each(names, count_name, &count), 0);
        assert_true(count > 10000 && count < 20000);
        blk_names_free(names);
}

static void test_devices(void **state)
{
        uint32_t device, part;

        (void)state;
        assert_int_equal(blk_device_find("4096,0", &device, &part), -ENOENT);
        assert_int_equal(blk_device_find("0:1048576", &device, &part), -ENOENT);
        assert_int_equal(blk_device_find("7,0,1", &device, &part), -ENOENT);
        assert_int_equal(blk_device_find("no/such/disk", &device, &part), -ENOENT);
        assert_int_equal(blk_device_find("/dev/null", &device, &part), -ENOTBLK);
        assert_int_equal(blk_device_find("null", &device, &part), -ENOTBLK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_behind, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_journal, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_itself, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_disk, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_flush, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_bios, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_open, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_writeback, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_notes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_crowd, set_up, tear_down),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_devices),
        };

        return cmocka_run_group_tests_name("blk_say", tests, NULL, NULL);
}

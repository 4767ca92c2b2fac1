/*
 * The writer's table and its frames: what is sent when, what is refused, and that a steady machine costs no memory.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "sample/frame.h"
#include "tests/sealed.h"

/* One cpu row with a user time; other rows stay away. */
static void cpu_tick(struct sealed *s, uint64_t key, uint64_t user)
{
        sealed_tick(s, SECOND);
        if (!s->frame)
                sealed_ballast(s);
        sample_scope_begin(s->sample, SCOPE_CPU, s->mono);
        row_set(sample_row(s->sample, SCOPE_CPU, key_of(key), 0), CPU_USER, user);
        sample_scope_end(s->sample, SCOPE_CPU, s->mono + 10, GONE_EXITED);
        sealed_seal(s);
        assert_int_equal(frame_check(s->frame, s->length), 0);
}

static void test_sends_only_changes(void **unused)
{
        struct sealed s;

        sealed_open(&s);
        cpu_tick(&s, 0, 5);
        assert_int_equal(s.frame->flags, FRAME_FULL);
        assert_int_equal(s.frame->sequence, 1);
        cpu_tick(&s, 0, 5);
        assert_int_equal(s.frame->flags, 0);
        assert_int_equal(s.frame->sequence, 2);
        assert_int_equal(s.frame->full_sequence, 1);
        assert_non_null(sealed_scope(s.frame, SCOPE_CPU)); /* it was sampled: its stamps travel */
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->rows, 0);
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->end_ns, s.mono + 10);
        cpu_tick(&s, 0, 6);
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->rows, 1);
        /* A tick without the scope leaves it out. */
        sealed_tick(&s, SECOND);
        sealed_seal(&s);
        assert_null(sealed_scope(s.frame, SCOPE_CPU));
        assert_int_equal(s.frame->length, sizeof(struct frame_head));
        sealed_close(&s);
}

static void test_absent_and_back_is_no_change(void **unused)
{
        struct sealed s;
        struct row *row;
        uint64_t value;
        size_t length;

        sealed_open(&s);
        for (int tick = 0; tick < 3; tick++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_DISK, s.mono);
                row = sample_row(s.sample, SCOPE_DISK, key_of(1), s.mono + 5000 + (uint64_t)tick * 1000);
                assert_int_equal(row_is_new(row), tick == 0);
                row_absent(row, DISK_READS);
                row_text(row, DISK_NAME, NULL, 0);
                assert_false(row_get(row, DISK_READS, &value));
                assert_null(row_get_text(row, DISK_NAME, &length));
                row_set(row, DISK_READS, 0);
                row_text(row, DISK_NAME, "sda", 3);
                row_set(row, CPU_USER, 9);            /* another scope's metric, and a text as a number: ignored */
                row_set(row, DISK_NAME, 9);
                row_text(row, DISK_WRITES, "x", 1);
                assert_true(row_get(row, DISK_READS, &value));
                assert_int_equal(value, 0);
                sample_scope_end(s.sample, SCOPE_DISK, s.mono, GONE_EXITED);
                sealed_seal(&s);
                assert_int_equal(sealed_scope(s.frame, SCOPE_DISK)->rows, tick == 0);
        }
        sealed_close(&s);
}

static void test_texts_travel_when_they_change(void **unused)
{
        struct sealed s;
        const char *const names[] = {"one", "one", "two", NULL, "two"};
        const int sent[] = {1, 0, 1, 0, 1};

        sealed_open(&s);
        for (int i = 0; i < 5; i++) {
                sealed_tick(&s, SECOND);
                if (i == 0)
                        sealed_ballast(&s);
                sample_scope_begin(s.sample, SCOPE_PROCESS, s.mono);
                struct row *row = sample_row(s.sample, SCOPE_PROCESS, key_of(1), s.mono + 7999999);
                row_set(row, PROCESS_MINFLT, (uint64_t)i);
                row_text(row, PROCESS_COMM, names[i], names[i] ? 3 : 0);
                row_text(row, PROCESS_CMDLINE, "", 0); /* empty is not absent */
                sample_scope_end(s.sample, SCOPE_PROCESS, s.mono, GONE_EXITED);
                sealed_seal(&s);
                const struct row_head *head = sealed_row(s.frame, SCOPE_PROCESS, key_of(1), ROW_VALUES);
                uint64_t comm = UINT64_C(1) << metric_slot(PROCESS_COMM), cmdline = UINT64_C(1) << metric_slot(PROCESS_CMDLINE);
                assert_non_null(head);
                assert_int_equal(head->offset_us, 7000); /* to a thousandth of the tick */
                assert_int_equal((head->texts & comm) != 0, sent[i]);
                assert_int_equal((head->present & comm) != 0, names[i] != NULL);
                assert_int_equal((head->texts & cmdline) != 0, i == 0);
                assert_true(head->present & cmdline);
        }
        sealed_close(&s);
}

/* Offsets are rounded down to thousandths of the tick: a row read before the pass began stays before it. */
static void test_offsets(void **unused)
{
        const struct { int64_t us; int32_t sent; } cases[] = {{0, 0}, {999, 0}, {1000, 1000}, {54321, 54000}, {-1, -1000}, {-1000, -1000},
                {-2500, -3000}};
        struct sealed s;

        (void)unused;
        sealed_open(&s);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_PROCESS, s.mono);
                struct row *row = sample_row(s.sample, SCOPE_PROCESS, key_of(1), (uint64_t)((int64_t)s.mono + cases[i].us * 1000));
                row_set(row, PROCESS_MINFLT, i);
                sample_scope_end(s.sample, SCOPE_PROCESS, s.mono, GONE_EXITED);
                sealed_seal(&s);
                assert_int_equal(sealed_row(s.frame, SCOPE_PROCESS, key_of(1), ROW_VALUES)->offset_us, cases[i].sent);
        }
        sealed_close(&s);
        assert_int_equal(frame_offset_quantum(0), 1);
        assert_int_equal(frame_offset_quantum(10000000), 10);
        assert_int_equal(frame_offset_quantum(UINT64_MAX), 1000000);
}

static void test_tombstones(void **unused)
{
        struct sealed s;

        sealed_open(&s);
        cpu_tick(&s, 1, 5);
        cpu_tick(&s, 2, 5);
        assert_int_equal(sealed_row(s.frame, SCOPE_CPU, key_of(1), ROW_TOMBSTONE)->reason, GONE_EXITED);
        assert_non_null(sealed_row(s.frame, SCOPE_CPU, key_of(2), ROW_VALUES));
        cpu_tick(&s, 2, 5);
        assert_null(sealed_row(s.frame, SCOPE_CPU, key_of(1), ROW_TOMBSTONE));
        /* Off: tombstones travel although the scope is not sampled, with the stamps it had. */
        uint64_t start = s.mono;
        sealed_tick(&s, SECOND);
        sample_scope_off(s.sample, SCOPE_CPU);
        sealed_seal(&s);
        assert_int_equal(sealed_row(s.frame, SCOPE_CPU, key_of(2), ROW_TOMBSTONE)->reason, GONE_UNSAMPLED);
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->start_ns, start);
        /* A row that came and went between two frames leaves no trace. */
        sealed_tick(&s, SECOND);
        sample_scope_begin(s.sample, SCOPE_CPU, s.mono);
        sample_row(s.sample, SCOPE_CPU, key_of(9), 0);
        sample_scope_off(s.sample, SCOPE_CPU);
        sealed_seal(&s);
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->rows, 0);
        sealed_close(&s);
}

static void test_full_frames(void **unused)
{
        struct sealed s;

        sealed_open(&s);
        cpu_tick(&s, 1, 5);
        /* Unsampled scopes are in a full frame, with the stamps of their last sampling. */
        uint64_t start = s.mono;
        s.flags = FRAME_FULL | FRAME_MARK;
        sealed_tick(&s, SECOND);
        sealed_seal(&s);
        assert_int_equal(s.frame->flags, FRAME_FULL | FRAME_MARK);
        assert_int_equal(sealed_scope(s.frame, SCOPE_CPU)->start_ns, start);
        assert_non_null(sealed_row(s.frame, SCOPE_CPU, key_of(1), ROW_VALUES));
        s.flags = 0;
        /* By time. */
        for (int i = 1; i < 30; i++) {
                sealed_tick(&s, SECOND);
                sealed_seal(&s);
                assert_int_equal(s.frame->flags, 0);
        }
        sealed_tick(&s, SECOND);
        sealed_seal(&s);
        assert_int_equal(s.frame->flags, FRAME_FULL);
        sealed_close(&s);
}

static void test_full_by_size(void **unused)
{
        struct sealed s;
        int fulls = 0, last = 0;

        sealed_open(&s);
        for (int tick = 0; tick < 100; tick++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_CPU, s.mono);
                for (uint64_t i = 0; i < 64; i++)
                        row_set(sample_row(s.sample, SCOPE_CPU, key_of(i), 0), CPU_USER, i == 0 ? (uint64_t)tick : 1);
                sample_scope_end(s.sample, SCOPE_CPU, s.mono, GONE_EXITED);
                sealed_seal(&s);
                assert_true(tick - last <= 30);
                if (s.frame->flags & FRAME_FULL) {
                        fulls++;
                        last = tick;
                }
        }
        /* 64 rows are 3.7 kB, a delta of one row 224 B: by size after 17 deltas. */
        assert_in_range(fulls, 5, 7);
        sealed_close(&s);
}

static void test_refuses_damage(void **unused)
{
        struct sealed s;

        sealed_open(&s);
        cpu_tick(&s, 1, 5);
        char *copy = sealed_copy(&s);
        for (size_t bit = 0; bit < s.length * 8; bit += bit < 4096 ? 1 : 61) {
                copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << bit % 8));
                assert_int_equal(frame_check(copy, s.length), -EBADMSG);
                copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << bit % 8));
        }
        for (size_t length = 0; length < s.length; length++)
                assert_int_equal(frame_check(copy, length), -EBADMSG);
        assert_int_equal(frame_check(copy, s.length), 0);

        /* Lies with a right checksum. */
        struct frame_head *head = (void *)copy;
        struct scope_head *scope = (void *)(head + 1);
        struct row_head *row = (void *)(scope + 1);
        uint32_t *const fields[] = {&head->length, &head->scopes, &scope->scope, &scope->rows, &scope->length, &row->length};
        const uint32_t lies[] = {0, 2, 7, 8, 40, 48, 47, 1000, 0x7ffffff8, 0x80000000, 0xfffffff8, 0xffffffff};
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
                for (size_t l = 0; l < sizeof lies / sizeof lies[0]; l++) {
                        uint32_t truth = *fields[f];
                        if (fields[f] == &scope->scope && lies[l] < 32 && lies[l] != SCOPE_FACT)
                                continue;
                        *fields[f] = lies[l];
                        head->crc = frame_crc(copy, s.length);
                        assert_int_equal(frame_check(copy, s.length), truth == lies[l] ? 0 : -EBADMSG);
                        *fields[f] = truth;
                }
        }
        free(copy);
        sealed_close(&s);
}

static void count_free(void *arg, uintptr_t own)
{
        *(uintptr_t *)arg += own;
}

static void test_own_word_is_freed_once(void **unused)
{
        struct sealed s;
        uintptr_t freed = 0;

        sealed_open(&s);
        sample_on_free(s.sample, SCOPE_PROCESS, count_free, &freed);
        for (int tick = 0; tick < 2; tick++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_PROCESS, s.mono);
                for (uint64_t i = (uint64_t)tick * 3; i < 4; i++) {
                        struct row *row = sample_row(s.sample, SCOPE_PROCESS, key_of(i), 0);
                        if (tick == 0)
                                *row_own(row) = (uintptr_t)1 << i;
                }
                sample_scope_end(s.sample, SCOPE_PROCESS, s.mono, GONE_EXITED);
        }
        assert_int_equal(freed, 7);
        assert_int_equal(*row_own(sample_find(s.sample, SCOPE_PROCESS, key_of(3))), 8);
        sealed_close(&s);
        assert_int_equal(freed, 15);
}

/* Processes that come and go, renamed and re-used: after a warm-up nothing is allocated. */
static void churn(struct sealed *s, uint64_t tick)
{
        char name[32];

        sealed_tick(s, SECOND);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono);
        for (uint64_t i = 0; i < 500; i++) {
                uint64_t pid = i % 7 == 0 ? i + 1000 * (tick % 50 + 1) : i;
                struct row *row = sample_row(s->sample, SCOPE_PROCESS, key_of(pid), 0);
                int length = snprintf(name, sizeof name, "name-%02u-%03u", (unsigned)(tick / 3 % 100), (unsigned)i);
                row_text(row, PROCESS_COMM, name, (size_t)length);
                row_text(row, PROCESS_CMDLINE, name, (size_t)length);
                row_set(row, PROCESS_USER_TIME, tick * i);
        }
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono, GONE_EXITED);
        sealed_seal(s);
}

static void test_steady_state_allocates_nothing(void **unused)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
        struct sealed s;

        sealed_open(&s);
        uint64_t tick = 0;
        while (tick < 40)
                churn(&s, tick++);
        struct mallinfo2 before = mallinfo2();
        while (tick < 200)
                churn(&s, tick++);
        struct mallinfo2 after = mallinfo2();
        assert_int_equal(before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
        sealed_close(&s);
#else
        skip();
#endif
}

static void test_names(void **unused)
{
        assert_null(gap_name(GAP_NONE));
        assert_string_equal(gap_name(GAP_REBOOT), "reboot");
        struct key x = key_of_name("sda", 3, 1), y = key_of_name("sdb", 3, 1);
        assert_true(x.a != y.a && x.b == 1);
        /* FNV-1a's own test vector: "a" */
        assert_true(key_of_name("a", 1, 0).a == UINT64_C(0xaf63dc4c8601ec8c));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sends_only_changes),
                cmocka_unit_test(test_absent_and_back_is_no_change),
                cmocka_unit_test(test_texts_travel_when_they_change),
                cmocka_unit_test(test_offsets),
                cmocka_unit_test(test_tombstones),
                cmocka_unit_test(test_full_frames),
                cmocka_unit_test(test_full_by_size),
                cmocka_unit_test(test_refuses_damage),
                cmocka_unit_test(test_own_word_is_freed_once),
                cmocka_unit_test(test_steady_state_allocates_nothing),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}

/*
 * Behind whom a bio waited, against adding up every bio one by one, and where memory ends.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/stage.h"
#include "sample/stage_behind.h"

enum { DISK = 8 << 20, OTHER = 9 << 20, MODEL = 3000, PROCESSES = 9 };

static uint64_t random_state = 7;

static uint32_t draw(uint32_t below)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (uint32_t)(random_state >> 16) % below;
}

static void put(struct behind *behind, uint32_t device, uint32_t tgid, uint64_t q, uint64_t end)
{
        behind_record(behind, &(struct stage_record){.kind = RECORD_BIO, .device = device, .tid = tgid, .tgid = tgid,
                .bio = {.id = 1, .q = q, .c = end}});
}

static struct behind *behind_make(void)
{
        struct behind *behind;

        assert_int_equal(behind_new(&behind), 0);
        return behind;
}

static void same(double a, double b)
{
        if (!(fabs(a - b) < 1e-9 * (1 + fabs(b))))
                fail_msg("%.12f, wanted %.12f", a, b);
}

/* The header's own words: of 10 ms in which 3 bios of fio and 1 of postgres were open, fio has 7.5. */
static void example(void **state)
{
        struct behind *behind = behind_make();
        struct behind_answer answer;

        (void)state;
        behind_ask(behind, DISK, 5, 10, 7, &answer);
        assert_true(answer.count == 0 && answer.open == 0 && answer.own == 0 && answer.whole);
        for (int i = 0; i < 3; i++)
                put(behind, DISK, 100, 1000000, 11000000);
        put(behind, DISK, 200, 500, 12000000);
        put(behind, DISK, 7, 1000000, 6000000); /* its own */
        put(behind, OTHER, 300, 1000000, 11000000);
        behind_ask(behind, DISK, 1000000, 11000000, 7, &answer);
        assert_int_equal(answer.count, 2);
        assert_int_equal(answer.who[0].tgid, 100);
        same(answer.who[0].share, 0.75);
        same(answer.who[0].open, 3);
        same(answer.who[1].share, 0.25);
        same(answer.open, 4);
        same(answer.own, 0.5);
        assert_true(answer.whole);
        behind_ask_others(behind, DISK, 1000000, 11000000, (const uint32_t[]){7, 100}, 2, &answer);
        assert_int_equal(answer.count, 1);
        same(answer.who[0].share, 1);
        same(answer.own, 3.5);
        behind_ask(behind, DISK, 2000000, 2000000, 7, &answer); /* an instant */
        same(answer.open, 4);
        behind_ask(behind, DISK, 2000000, 1000000, 7, &answer);
        assert_int_equal(answer.count, 0);
        behind_ask(behind, DISK, 11000000, 20000000, 7, &answer); /* what ended just then was not open */
        assert_int_equal(answer.count, 1);
        behind_free(behind);
}

static void left_out(void **state)
{
        struct behind *behind = behind_make();
        struct behind_answer answer;
        struct stage_record record = {.kind = RECORD_BIO, .flags = RECORD_PIECE, .device = DISK, .tgid = 5,
                .bio = {.id = 1, .q = 100, .c = 200}};

        (void)state;
        behind_record(behind, &record); /* the original speaks for the bio */
        record.flags = RECORD_PASSED;
        behind_record(behind, &record);
        record.flags = 0;
        record.bio.c = 0;
        behind_record(behind, &record); /* not ended */
        record.bio.q = 0;
        record.bio.c = 100;
        behind_record(behind, &record); /* no beginning */
        record.kind = RECORD_SYNC;
        record.bio.q = 50;
        behind_record(behind, &record);
        behind_ask(behind, DISK, 0, 1000, 7, &answer);
        assert_int_equal(answer.count, 0);
        record.kind = RECORD_BIO;
        record.bio.given = 150; /* until its flush was done */
        behind_record(behind, &record);
        behind_ask(behind, DISK, 0, 1000, 7, &answer);
        same(answer.open, 0.1);
        behind_free(behind);
}

struct plain { uint32_t device, tgid; uint64_t q, end; };

static void compare(const struct behind *behind, const struct plain *bios, size_t count, uint64_t from, uint64_t to, uint32_t device,
        uint32_t tgid)
{
        uint64_t sums[PROCESSES] = {0}, own = 0, others = 0;
        struct behind_answer answer;

        for (size_t i = 0; i < count; i++) {
                const struct plain *bio = &bios[i];
                uint64_t low = bio->q > from ? bio->q : from, high = bio->end < to ? bio->end : to;
                if (bio->device != device || low >= high)
                        continue;
                if (bio->tgid == tgid)
                        own += high - low;
                else
                        others += high - low, sums[bio->tgid] += high - low;
        }
        behind_ask(behind, device, from, to, tgid, &answer);
        same(answer.own, (double)own / (double)(to - from));
        same(answer.open, (double)others / (double)(to - from));
        for (size_t rank = 0; rank < BEHIND_MOST; rank++) { /* the most of those left; of equals the smaller number */
                uint32_t best = 0;
                for (uint32_t p = 1; p < PROCESSES; p++)
                        if (sums[p] > sums[best])
                                best = p;
                if (sums[best] == 0) {
                        assert_int_equal(answer.count, rank);
                        return;
                }
                assert_true(rank < answer.count);
                assert_int_equal(answer.who[rank].tgid, best);
                same(answer.who[rank].share, (double)sums[best] / (double)others);
                sums[best] = 0;
        }
}

/* Ends in order but for what two CPUs do to it; two devices; long and short ones. */
static void model(void **state)
{
        static struct plain bios[MODEL];
        struct behind *behind = behind_make();
        uint64_t now = 100000;

        (void)state;
        for (int i = 0; i < MODEL; i++) {
                now += draw(50);
                uint64_t end = now - draw(300), open = 1 + draw(draw(20) == 0 ? 50000 : 500);
                bios[i] = (struct plain){draw(3) ? DISK : OTHER, draw(PROCESSES), end - open, end};
                put(behind, bios[i].device, bios[i].tgid, bios[i].q, bios[i].end);
        }
        for (int i = 0; i < 2000; i++) {
                uint64_t from = 50000 + draw((uint32_t)(now - 50000)), to = from + 1 + draw(i % 4 ? 600 : 100000);
                compare(behind, bios, MODEL, from, to, draw(2) ? DISK : OTHER, draw(PROCESSES));
        }
        behind_free(behind);
}

/* Four times as many as are kept: what is remembered is told exactly, what is not is said. */
static void forgets(void **state)
{
        struct behind *behind = behind_make();
        struct behind_answer answer;
        const uint64_t count = 4 * (uint64_t)BEHIND_BIOS;

        (void)state;
        for (uint64_t i = 1; i <= count; i++)
                put(behind, DISK, (uint32_t)(i % 40000), i * 10, i * 10 + 25); /* at any time two or three are open */
        behind_ask(behind, DISK, count * 10 - 1000, count * 10, 77777, &answer);
        assert_true(answer.whole);
        same(answer.open, 2.5);
        behind_ask(behind, DISK, (count - BEHIND_BIOS + 1024) * 10, count * 10, 77777, &answer); /* nearly all: 40,000 processes */
        assert_true(answer.whole);
        assert_int_equal(answer.count, BEHIND_MOST);
        same(answer.open, 2.5);
        behind_ask(behind, DISK, 1000, count * 10, 77777, &answer);
        assert_false(answer.whole);
        assert_true(answer.open < 1);
        behind_free(behind);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(example), cmocka_unit_test(left_out), cmocka_unit_test(model), cmocka_unit_test(forgets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The stage engine on single requests whose answer is known, on a model of thousands at once, and on damaged input; and the readers of
 * traces.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/blk_read.h"

enum { DISK = 8 << 20, PARTITION = 8 << 20 | 1, DM = 253 << 20 };

/* ---- events by hand: blkparse's text is the language -------------------------------------------------------------------------------- */

/* "8,0 Q 100 1000 WS 64 + 8": time in ns, then the thread, blkparse's letters and the rest of its line. */
static void feed(struct stage_set *set, const char *lines)
{
        char line[256], full[320], name[BLK_NAME];

        for (const char *at = lines; *at;) {
                size_t length = strcspn(at, "\n");
                uint64_t time;
                unsigned major, minor, pid;
                int used = 0;
                assert_true(length < sizeof line);
                memcpy(line, at, length);
                line[length] = '\0';
                at += length + (at[length] != '\0');
                if (length == 0)
                        continue;
                assert_int_equal(sscanf(line, "%u,%u %" SCNu64 " %u %n", &major, &minor, &time, &pid, &used), 4);
                snprintf(full, sizeof full, "%u,%u 0 1 %" PRIu64 ".%09" PRIu64 " %u %s", major, minor, time / 1000000000,
                        time % 1000000000, pid, line + used);
                struct blk_record record;
                assert_int_equal(blk_parse_line(full, strlen(full), &record, name), BLK_LINE_EVENT);
                record.event.name = name;
                assert_int_equal(stage_event(set, &record.event), 0);
        }
}

static struct stage_set *set_new(void)
{
        struct stage_set *set;

        assert_int_equal(stage_new(NULL, &set), 0);
        return set;
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

/* The stages' times in order, "Q2G 10 G2I 20 ..."; "+" behind those with more samples than one. */
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
        uint64_t path = 0;
        for (int i = 0; i < STAGE_Q2C; i++)
                path += sum->path[i];
        assert_int_equal(path, sum->path[STAGE_Q2C]);
}

static uint64_t unmatched(const struct stage_set *set)
{
        uint64_t sum = 0;

        for (int i = 0; i < STAGE_ACTIONS; i++)
                sum += stage_get_counts(set)->unmatched[i];
        return sum;
}

static void one_case(const char *lines, uint32_t device, const char *wanted)
{
        struct stage_set *set = set_new();

        feed(set, lines);
        stage_finish(set);
        stages_are(set, device, wanted);
        assert_int_equal(unmatched(set), 0);
        assert_int_equal(stage_get_device(set, 0)->bios, 0);
        assert_int_equal(stage_get_device(set, 0)->requests, 0);
        stage_free(set);
}

static void simple(void **state)
{
        (void)state;
        one_case("8,0 100 7 Q R 64 + 8 [a]\n8,0 110 7 G R 64 + 8 [a]\n8,0 130 7 I R 64 + 8 [a]\n8,0 160 9 D R 64 + 8 [k]\n"
                "8,0 200 0 C R 64 + 8 [0]\n", DISK,
                "Q2G 10 G2I 20 I2D 30 D2C 40 Q2C 100");
        /* no scheduler: issued directly */
        one_case("8,0 100 7 Q R 64 + 8 [a]\n8,0 110 7 G R 64 + 8 [a]\n8,0 160 9 D R 64 + 8 [k]\n8,0 200 0 C R 64 + 8 [0]\n", DISK,
                "Q2G 10 G2D 50 D2C 40 Q2C 100");
        /* nothing but Q, D, C was traced: the rest is of no known stage */
        one_case("8,0 100 7 Q R 64 + 8 [a]\n8,0 160 9 D R 64 + 8 [k]\n8,0 200 0 C R 64 + 8 [0]\n", DISK, "D2C 40 other 60 Q2C 100");
        /* a driver that takes bios */
        one_case("8,0 100 7 Q R 64 + 8 [a]\n8,0 160 0 C R 64 + 8 [0]\n", DISK, "bio 60 Q2C 60");
        one_case("8,0 100 7 Q R 64 + 8 [a]\n8,0 160 0 C R 72 [0]\n", DISK, "bio 60 Q2C 60"); /* which has used up its count */
}

/* A request that began before the trace is not taken for a bio that is queued at the same place just now. */
static void begun_before(void **state)
{
        static const char *const lines[] = {" x-7 [000] 1.000000010: block_rq_issue: 8,0 R 4096 () 0 + 8 [x]",
                " x-7 [000] 1.000000100: block_bio_queue: 8,0 R 64 + 8 [x]",
                " x-0 [000] 1.000000120: block_rq_complete: 8,0 R () 64 + 8 [0]", " x-7 [000] 1.000000200: block_getrq: 8,0 R 64 + 8 [x]",
                " x-7 [000] 1.000000210: block_rq_issue: 8,0 R 4096 () 64 + 8 [x]",
                        " x-0 [000] 1.000000300: block_rq_complete: 8,0 R () 64 + 8 [0]"};

        (void)state;
        for (int with = 0; with < 2; with++) { /* with issues, and without any in the trace */
                struct stage_set *set = set_new();
                for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
                        struct blk_record record;
                        char name[BLK_NAME];
                        assert_int_equal(blk_parse_line(lines[i], strlen(lines[i]), &record, name), BLK_LINE_EVENT);
                        assert_true(!(record.event.flags & STAGE_OF_REQUEST) == (record.event.action == STAGE_Q ||
                                record.event.action == STAGE_G));
                        if (with || record.event.action == STAGE_Q || record.event.action == STAGE_C)
                                assert_int_equal(stage_event(set, &record.event), 0);
                }
                stages_are(set, DISK, with ? "Q2G 100 G2D 10 D2C 90 Q2C 200" : "other 20 Q2C 20");
                stage_free(set);
        }
}

static void requeued(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        feed(set, "8,0 100 7 Q W 64 + 8 [a]\n8,0 110 7 G W 64 + 8 [a]\n8,0 120 7 I W 64 + 8 [a]\n8,0 130 9 D W 64 + 8 [k]\n"
                "8,0 131 9 R W 64 + 8 [0]\n"
                "8,0 150 9 I W 64 + 8 [k]\n8,0 170 9 D W 64 + 8 [k]\n8,0 200 0 C W 64 + 8 [-5]\n");
        stages_are(set, DISK, "Q2G 10 G2I 10 I2D 10 D2D 40 D2C 30 Q2C 100");
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->requeues, 1);
        assert_int_equal(sum->errors, 1);
        assert_int_equal(sum->cause[CAUSE_REFUSED], 40);
        stage_free(set);
}

static void split(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        /* the second part ends last: its way is the bio's */
        feed(set, "8,0 100 7 Q R 0 + 16 [a]\n8,0 101 7 X R 0 / 8 [a]\n8,0 110 7 G R 0 + 8 [a]\n8,0 120 7 G R 8 + 8 [a]\n"
                "8,0 130 7 I R 0 + 8 [a]\n"
                "8,0 131 7 D R 0 + 8 [a]\n8,0 150 7 I R 8 + 8 [a]\n8,0 155 7 D R 8 + 8 [a]\n8,0 160 0 C R 0 + 8 [0]\n"
                "8,0 200 0 C R 8 + 8 [0]\n");
        stages_are(set, DISK, "Q2G 20 G2I 30 I2D 5 D2C 45 Q2C 100");
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->splits, 1);
        assert_int_equal(sum->bios, 1);
        assert_int_equal(sum->requests, 2);
        assert_int_equal(sum->bio[STAGE_Q2G].count, 2); /* each part */
        assert_int_equal(sum->bio[STAGE_Q2G].min, 10);
        assert_int_equal(sum->bio[STAGE_D2C].total, 29 + 45);
        stage_free(set);
        /* kernels before 4.13 queue the rest anew; and an X that was lost */
        one_case("8,0 100 7 Q R 0 + 16 [a]\n8,0 101 7 X R 0 / 8 [a]\n8,0 105 7 Q R 8 + 8 [a]\n8,0 110 7 G R 0 + 8 [a]\n"
                "8,0 120 7 G R 8 + 8 [a]\n"
                "8,0 131 7 D R 0 + 8 [a]\n8,0 155 7 D R 8 + 8 [a]\n8,0 200 0 C R 8 + 8 [0]\n"
                "8,0 210 0 C R 0 + 8 [0]\n", DISK, "Q2G 10 G2D 21 D2C 79 Q2C 110");
        one_case("8,0 100 7 Q R 0 + 16 [a]\n8,0 110 7 G R 0 + 8 [a]\n8,0 120 7 G R 8 + 8 [a]\n8,0 131 7 D R 0 + 8 [a]\n"
                "8,0 155 7 D R 8 + 8 [a]\n"
                "8,0 200 0 C R 8 + 8 [0]\n8,0 210 0 C R 0 + 8 [0]\n", DISK, "Q2G 10 G2D 21 D2C 79 Q2C 110");
}

static void merges(void **state)
{
        (void)state;
        /* behind, before; the plug holds until I, then it is the queue */
        struct stage_set *set = set_new();
        feed(set, "8,0 100 7 Q W 64 + 8 [a]\n8,0 110 7 G W 64 + 8 [a]\n8,0 120 7 Q W 72 + 8 [a]\n8,0 121 7 M W 72 + 8 [a]\n"
                "8,0 130 7 Q W 56 + 8 [a]\n"
                "8,0 132 7 F W 56 + 8 [a]\n8,0 150 7 I W 56 + 24 [a]\n8,0 180 7 D W 56 + 24 [a]\n8,0 200 0 C W 56 + 24 [0]\n");
        stages_are(set, DISK, "Q2G 10 Q2M 3 G2I 40 I2D 30 M2D 107 D2C 60 Q2C 250");
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->merged, 2);
        assert_int_equal(sum->requests, 1);
        assert_int_equal(sum->cause[CAUSE_QUEUE], 90);
        assert_int_equal(sum->cause[CAUSE_PLUG], 40 + 3 + 29 + 18);
        stage_free(set);
        /* two requests become one; D is longer than what was seen to be merged, and adopts it */
        one_case("8,0 100 7 Q W 64 + 8 [a]\n8,0 110 7 G W 64 + 8 [a]\n8,0 120 7 I W 64 + 8 [a]\n8,0 130 8 Q W 72 + 8 [b]\n"
                "8,0 132 8 G W 72 + 8 [b]\n"
                "8,0 140 8 M W 72 + 8 [b]\n8,0 180 7 D W 64 + 16 [a]\n"
                "8,0 200 0 C W 64 + 16 [0]\n", DISK, "Q2G 12 G2I 10 G2D 48 I2D 60 D2C 40 Q2C 170");
        one_case("8,0 100 7 Q W 64 + 8 [a]\n8,0 110 7 G W 64 + 8 [a]\n8,0 115 8 Q W 72 + 8 [b]\n8,0 180 7 D W 64 + 16 [a]\n"
                "8,0 200 0 C W 64 + 16 [0]\n", DISK,
                "Q2G 10 G2D 70 D2C 40 other 65 Q2C 185");
        /* discards of several places in one request */
        one_case("8,0 100 7 Q D 0 + 8 [a]\n8,0 110 7 G D 0 + 8 [a]\n8,0 120 7 Q D 800 + 8 [a]\n8,0 121 7 M D 800 + 8 [a]\n"
                "8,0 130 7 D D 0 + 16 [a]\n"
                "8,0 200 0 C D 0 + 16 [0]\n", DISK, "Q2G 10 Q2M 1 G2D 20 M2D 9 D2C 140 Q2C 180");
}

static void partial(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        feed(set, "8,0 100 7 Q W 64 + 8 [a]\n8,0 110 7 G W 64 + 8 [a]\n8,0 111 7 Q W 72 + 8 [a]\n8,0 112 7 M W 72 + 8 [a]\n"
                "8,0 120 7 D W 64 + 16 [a]\n"
                "8,0 150 0 C W 64 + 8 [0]\n8,0 180 0 C W 72 + 4 [0]\n");
        assert_int_equal(sum_all(set, DISK)->bios, 1);
        feed(set, "8,0 200 0 C W 76 + 4 [0]\n");
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->bio[STAGE_D2C].min, 30);
        assert_int_equal(sum->bio[STAGE_D2C].max, 80);
        assert_int_equal(sum->requests, 1);
        assert_int_equal(sum->request[STAGE_D2C].total, 80);
        stage_free(set);
}

/* A partition's A comes before the disk's Q; dm's bio lives until its lower one is done, which counts for the process that queued the
 * upper. */
static void remapped(void **state)
{
        (void)state;
        one_case("8,0 99 7 A R 2112 + 8 <- (8,1) 64\n8,0 100 7 Q R 2112 + 8 [a]\n8,0 110 7 G R 2112 + 8 [a]\n8,0 160 9 D R 2112 + 8 [k]\n"
                "8,0 200 0 C R 2112 + 8 [0]\n", DISK, "Q2G 10 G2D 50 D2C 40 Q2C 100");
        struct stage_set *set = set_new();
        feed(set, "253,0 90 7 Q R 64 + 8 [a]\n8,0 99 55 A R 2112 + 8 <- (253,0) 64\n8,0 100 55 Q R 2112 + 8 [kworker/u4:1]\n"
                "8,0 110 55 G R 2112 + 8 [kworker/u4:1]\n8,0 160 9 D R 2112 + 8 [k]\n8,0 200 0 C R 2112 + 8 [0]\n"
                "253,0 210 0 C R 64 + 8 [0]\n");
        stages_are(set, DISK, "Q2G 10 G2D 50 D2C 40 Q2C 100");
        stages_are(set, DM, "bio 120 Q2C 120");
        for (size_t i = 0; i < stage_rows(set); i++) {
                assert_int_equal(stage_get_row(set, i)->process->pid, 7);
                assert_string_equal(stage_get_row(set, i)->process->name, "a");
        }
        stage_free(set);
        assert_int_equal(PARTITION, DISK | 1);
}

static void flushes(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        /* two wait for one flush request; one comes too late for it */
        feed(set, "8,0 100 7 Q FWS [a]\n8,0 105 7 G FWS [a]\n8,0 110 8 Q FWS [b]\n8,0 112 8 G FWS [b]\n8,0 120 9 D FN [k]\n"
                "8,0 130 6 Q FWS [c]\n8,0 131 6 G FWS [c]\n"
                "8,0 200 0 C FN 0 [0]\n8,0 201 0 C WS 0 [0]\n8,0 202 0 C WS 0 [0]\n8,0 210 9 D FN [k]\n8,0 290 0 C FN 0 [0]\n"
                "8,0 300 0 C WS 0 [0]\n");
        stages_are(set, DISK, "Q2G 8 flush 355 Q2C 363");
        for (size_t i = 0; i < stage_rows(set); i++) {
                const struct stage_row *row = stage_get_row(set, i);
                assert_int_equal(row->direction, STAGE_FLUSHES);
                if (row->process->pid == 6)
                        assert_int_equal(row->path[STAGE_Q2C], 170);
        }
        assert_int_equal(sum_all(set, DISK)->request[STAGE_D2C].count, 2);
        stage_free(set);
        /* with data: the cache is flushed before and, where the device cannot write past it, after; given back by a C of no sectors */
        one_case("8,0 100 7 Q FWFSM 64 + 8 [j]\n8,0 110 7 G FWFSM 64 + 8 [j]\n8,0 120 9 D FN [k]\n8,0 150 0 C FN 0 [0]\n"
                "8,0 151 9 I WSM 64 + 8 [k]\n"
                "8,0 155 9 D WSM 64 + 8 [k]\n8,0 170 0 C WSM 64 + 8 [0]\n8,0 171 9 D FN [k]\n8,0 199 0 C FN 0 [0]\n"
                "8,0 200 0 C WSM 64 [0]\n", DISK,
                "Q2G 10 I2D 4 D2C 15 flush 71 Q2C 100");
        /* FUA alone, which the device does itself: nothing follows, and nothing is waited for any longer than needed */
        one_case("8,0 100 7 Q WFS 64 + 8 [j]\n8,0 110 7 G WFS 64 + 8 [j]\n8,0 155 9 D WFS 64 + 8 [k]\n8,0 170 0 C WFS 64 + 8 [0]\n", DISK,
                "Q2G 10 G2D 45 D2C 15 Q2C 70");
        set = set_new();
        for (int i = 0; i < 200; i++) {
                char lines[300];
                snprintf(lines, sizeof lines, "8,0 %d00 7 Q WFS 64 + 8 [j]\n8,0 %d10 7 G WFS 64 + 8 [j]\n8,0 %d55 9 D WFS 64 + 8 [k]\n"
                        "8,0 %d70 0 C WFS 64 + 8 [0]\n",
                        i + 1, i + 1, i + 1, i + 1);
                feed(set, lines);
        }
        assert_true(sum_all(set, DISK)->bios >= 200 - 65); /* learned after 64 */
        stage_finish(set);
        assert_int_equal(sum_all(set, DISK)->bios, 200);
        stage_free(set);
}

/* Commands of a driver are counted apart; rwbs N with a bio is none (writing zeroes). */
static void passthrough(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        feed(set, "8,0 100 7 I N 36 (12 00 00 00 24 00) [smartd]\n8,0 110 7 D N 36 (12 00 00 00 24 00) [smartd]\n"
                "8,0 150 0 C N (12 00 00 00 24 00) [0]\n");
        assert_int_equal(stage_rows(set), 0);
        assert_int_equal(stage_get_device(set, 0)->passthrough, 1);
        feed(set, "8,0 160 7 D N 0 + 8 [nvme]\n8,0 170 0 C N 0 + 8 [0]\n");
        assert_int_equal(stage_get_device(set, 0)->passthrough, 2);
        assert_int_equal(stage_rows(set), 0);
        assert_int_equal(unmatched(set), 0);
        feed(set, "8,0 200 7 Q NS 64 + 8 [a]\n8,0 210 7 G NS 64 + 8 [a]\n8,0 260 9 D NS 64 + 8 [k]\n8,0 300 0 C NS 64 + 8 [0]\n");
        stages_are(set, DISK, "Q2G 10 G2D 50 D2C 40 Q2C 100");
        assert_int_equal(stage_get_row(set, 0)->direction, STAGE_ELSE);
        stage_free(set);
}

static void kinds(void **state)
{
        static const struct { const char *rwbs; enum stage_direction direction; unsigned flags; bool good; } cases[] = {
                {"R", STAGE_READ, 0, true}, {"RA", STAGE_READ, STAGE_IS_AHEAD, true},
                        {"RSM", STAGE_READ, STAGE_IS_SYNC | STAGE_IS_META, true},
                {"FWFSM", STAGE_WRITE, STAGE_PREFLUSH | STAGE_FUA | STAGE_IS_SYNC | STAGE_IS_META, true},
                        {"DES", STAGE_DISCARD, STAGE_IS_SYNC, true},
                {"FF", STAGE_FLUSHES, STAGE_FLUSH_OP, true}, {"FN", STAGE_FLUSHES, STAGE_FLUSH_OP, true},
                        {"WSU", STAGE_WRITE, STAGE_IS_SYNC, true},
                {"N", STAGE_ELSE, 0, true}, {"ZRS", STAGE_ELSE, STAGE_IS_SYNC, true}, {"", STAGE_ELSE, 0, false},
                        {"q", STAGE_ELSE, 0, false}};

        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct stage_event event = {0};
                assert_int_equal(stage_rwbs(cases[i].rwbs, strlen(cases[i].rwbs), &event), cases[i].good);
                assert_int_equal(event.direction, cases[i].direction);
                assert_int_equal(event.flags, cases[i].flags);
        }
        struct stage_event event = {0};
        assert_true(stage_rwbs("WS\0garbage", 10, &event) && event.flags == STAGE_IS_SYNC);
}

/* ---- losses and ceilings ------------------------------------------------------------------------------------------------------------ */

static void lost_events(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        /* a C is lost; the next request of the same place is not taken for the old one */
        feed(set, "8,0 100 7 Q R 64 + 8 [a]\n8,0 110 7 G R 64 + 8 [a]\n8,0 160 9 D R 64 + 8 [k]\n");
        stage_lost(set, 3);
        feed(set, "8,0 9100 7 Q R 64 + 8 [a]\n8,0 9110 7 G R 64 + 8 [a]\n8,0 9160 9 D R 64 + 8 [k]\n8,0 9200 0 C R 64 + 8 [0]\n");
        stages_are(set, DISK, "Q2G 10 G2D 50 D2C 40 Q2C 100");
        assert_int_equal(stage_get_counts(set)->lost, 3);
        assert_int_equal(stage_get_counts(set)->spoilt, 0);
        feed(set, "8,0 9300 0 C R 64 + 8 [0]\n"); /* the old one, after all: counted, and marked */
        assert_int_equal(stage_get_counts(set)->spoilt, 1);
        feed(set, "8,0 9400 0 C R 640 + 8 [0]\n8,0 9500 9 D W 72 + 8 [k]\n8,0 9600 7 M W 72 + 8 [k]\n8,0 9700 7 X W 72 / 74 [k]\n");
        assert_int_equal(unmatched(set), 4);
        /* never before it began */
        feed(set, "8,0 9000 7 Q R 0 + 8 [a]\n8,0 8000 7 G R 0 + 8 [a]\n8,0 7000 9 D R 0 + 8 [k]\n8,0 6000 0 C R 0 + 8 [0]\n");
        assert_true(stage_get_counts(set)->backwards > 0);
        assert_int_equal(sum_all(set, DISK)->bio[STAGE_Q2C].min, 0);
        stage_free(set);
}

static void ceilings(void **state)
{
        const struct stage_options options = {.max_open = 100};
        struct stage_set *set;

        (void)state;
        assert_int_equal(stage_new(&options, &set), 0);
        for (uint32_t i = 0; i < 60000; i++) {
                struct stage_event event = {.time = i + 1, .sector = i * 8u, .sectors = 8, .device = DISK + i % 1500, .pid = i % 20000,
                        .action = i % 3 == 0 ? STAGE_D : STAGE_Q, .direction = (uint8_t)(i % 3)};
                assert_int_equal(stage_event(set, &event), 0);
        }
        assert_int_equal(stage_devices(set), 1024);
        assert_true(stage_get_counts(set)->evicted > 1000 && stage_get_counts(set)->crowded > 1000);
        uint64_t open = 0;
        for (size_t i = 0; i < stage_devices(set); i++)
                open += stage_get_device(set, i)->bios;
        assert_true(open <= 100);
        stage_free(set);
}

/* Two requests of one place at a time, told apart by their addresses. */
static void by_address(void **state)
{
        struct stage_set *set = set_new();
        struct stage_event event = {.device = DISK, .sector = 64, .sectors = 8, .pid = 7, .direction = STAGE_WRITE};

        (void)state;
        static const struct { uint64_t time, key; uint8_t action; uint32_t pid; } events[] = {
                {100, 0, STAGE_Q, 7}, {110, 0xa, STAGE_G, 7}, {120, 0, STAGE_Q, 8}, {125, 0xb, STAGE_G, 8}, {130, 0xb, STAGE_D, 1},
                        {140, 0xa, STAGE_D, 1},
                {150, 0xb, STAGE_C, 0}, {400, 0xa, STAGE_C, 0}};
        for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
                event.time = events[i].time;
                event.key = events[i].key;
                event.action = events[i].action;
                event.pid = events[i].pid;
                assert_int_equal(stage_event(set, &event), 0);
        }
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(sum->bio[STAGE_D2C].min, 20);
        assert_int_equal(sum->bio[STAGE_D2C].max, 260);
        assert_int_equal(unmatched(set), 0);
        stage_free(set);
}

/* ---- a model: thousands of requests at once, whose times are known ------------------------------------------------------------------ */

static uint64_t random_state = 42;

static uint32_t draw(uint32_t below)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (uint32_t)(random_state >> 16) % below;
}

enum { BIOS = 4000, EVENTS = 1 << 16 };
static struct stage_event model[EVENTS];
static size_t model_count;
static struct histogram truth[STAGE_COUNT];
static uint64_t truth_path[STAGE_COUNT];

static void add(uint64_t time, uint8_t action, uint64_t sector, uint32_t sectors, uint32_t pid)
{
        assert_true(model_count < EVENTS);
        model[model_count++] = (struct stage_event){.time = time, .action = action, .device = DISK, .sector = sector, .sectors = sectors,
                .pid = pid,
                .direction = STAGE_WRITE, .flags = STAGE_IS_SYNC};
}

static void expect(enum stage stage, uint64_t ns, bool on_path)
{
        histogram_add(&truth[stage], ns);
        truth_path[stage] += on_path ? ns : 0;
}

/* One request with `merged` more bios behind it, through a scheduler or not, requeued or not. */
static void model_request(uint64_t at, uint64_t sector, uint32_t pid)
{
        uint64_t q = at, g = q + draw(100), last = g, i, d1, d, c;
        uint32_t merged = draw(4) == 0 ? draw(5) : 0, sectors = 8 * (merged + 1);
        uint64_t mq[5], mm[5];

        add(q, STAGE_Q, sector, 8, pid);
        add(g, STAGE_G, sector, 8, pid);
        for (uint32_t k = 0; k < merged; k++) {
                mq[k] = last + draw(50);
                mm[k] = last = mq[k] + draw(50);
                add(mq[k], STAGE_Q, sector + 8 * (k + 1), 8, pid);
                add(mm[k], STAGE_M, sector + 8 * (k + 1), 8, pid);
        }
        bool inserted = draw(3) > 0;
        i = last + draw(200);
        d = d1 = i + draw(20000);
        if (inserted)
                add(i, STAGE_I, sector, sectors, pid);
        add(d1, STAGE_D, sector, sectors, 1);
        if (draw(10) == 0) {
                add(d1, STAGE_R, sector, sectors, 1);
                d = d1 + 1 + draw(1000);
                add(d, STAGE_D, sector, sectors, 1);
        }
        c = d + draw(100000);
        add(c, STAGE_C, sector, sectors, 0);
        for (uint32_t k = 0; k <= merged; k++) {
                if (k == 0) {
                        expect(STAGE_Q2G, g - q, true);
                        expect(inserted ? STAGE_G2I : STAGE_G2D, inserted ? i - g : d1 - g, true);
                        if (inserted)
                                expect(STAGE_I2D, d1 - i, true);
                } else {
                        expect(STAGE_Q2M, mm[k - 1] - mq[k - 1], true);
                        expect(STAGE_M2D, d1 - mm[k - 1], true);
                }
                if (d > d1)
                        expect(STAGE_D2D, d - d1, true);
                expect(STAGE_D2C, c - d, true);
                expect(STAGE_Q2C, c - (k == 0 ? q : mq[k - 1]), true);
        }
}

/* A bio in two parts, each its own request. */
static void model_split(uint64_t at, uint64_t sector, uint32_t pid)
{
        uint64_t q = at, g[2], d[2], c[2];

        add(q, STAGE_Q, sector, 16, pid);
        add(q + 1, STAGE_X, sector, 16, pid);
        model[model_count - 1].other = sector + 8;
        for (uint32_t k = 0; k < 2; k++) {
                g[k] = q + 2 + k + draw(50);
                d[k] = g[k] + 100 + draw(5000);
                c[k] = d[k] + 1 + draw(100000);
                add(g[k], STAGE_G, sector + 8 * k, 8, pid);
                add(d[k], STAGE_D, sector + 8 * k, 8, 1);
                add(c[k], STAGE_C, sector + 8 * k, 8, 0);
        }
        if (c[0] == c[1])
                c[1] = model[model_count - 1].time = c[1] + 1;
        int last = c[1] > c[0];
        for (int k = 0; k < 2; k++) {
                expect(STAGE_Q2G, g[k] - q, k == last);
                expect(STAGE_G2D, d[k] - g[k], k == last);
                expect(STAGE_D2C, c[k] - d[k], k == last);
        }
        expect(STAGE_Q2C, c[last] - q, true);
}

static int by_time(const void *a, const void *b)
{
        const struct stage_event *x = a, *y = b;

        if (x->time != y->time)
                return x->time < y->time ? -1 : 1;
        return x->other_device < y->other_device ? -1 : 1; /* the order in which they were made */
}

static void known_truth(void **state)
{
        struct stage_set *set = set_new();

        (void)state;
        for (uint64_t n = 0; n < BIOS; n++) {
                uint64_t at = 1000 + n * 60 + draw(40), sector = 1000 * draw(90) + 100000 * n; /* no two at one place */
                if (draw(8) == 0)
                        model_split(at, sector, 100 + draw(5));
                else
                        model_request(at, sector, 100 + draw(5));
        }
        for (size_t i = 0; i < model_count; i++)
                model[i].other_device = (uint32_t)i;
        qsort(model, model_count, sizeof *model, by_time);
        for (size_t i = 0; i < model_count; i++)
                assert_int_equal(stage_event(set, &model[i]), 0);
        const struct stage_sum *sum = sum_all(set, DISK);
        assert_int_equal(unmatched(set), 0);
        for (int stage = 0; stage < STAGE_COUNT; stage++) {
                assert_int_equal(sum->path[stage], truth_path[stage]);
                assert_memory_equal(&sum->bio[stage], &truth[stage], sizeof truth[stage]);
        }
        assert_int_equal(stage_get_device(set, 0)->bios, 0);
        assert_int_equal(stage_get_device(set, 0)->requests, 0);
        stage_free(set);
}

/* ---- readers ------------------------------------------------------------------------------------------------------------------------ */

static void lines(void **state)
{
        static const struct { const char *line; enum blk_line kind; const char *again; } cases[] = {
                {"             fio-12069   [001] .....  1498.962289: block_bio_queue: 7,0 RS 4936 + 8 [fio]", BLK_LINE_EVENT,
                        "  7,0    1        0  1498.962289000 12069  Q  RS 4936 + 8 [fio]"},
                {"  a b] [9-x-12069 (  12000) [001] d..2.  1498.9: block_rq_issue: 7,0 WFS 4096 () 4936 + 8 be,0,4 [a b] [9]",
                        BLK_LINE_EVENT,
                        "  7,0    1        0  1498.900000000 12069  D WFS 4936 + 8 [a b] [9]"},
                {"fio 12069/12070 [003]  98.000001: block:block_rq_insert: 259,3 R 4096 () 7 + 8 [x]", BLK_LINE_EVENT,
                        "259,3    3        0    98.000001000 12070  I   R 7 + 8 [x]"},
                {" x-1 [000] 1.5: block_rq_complete: 8,0 WS () 64 + 8 none,0,0 [-5]", BLK_LINE_EVENT,
                        "  8,0    0        0     1.500000000     1  C  WS 64 + 8 [-5]"},
                {" x-1 [000] 1.5: block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]", BLK_LINE_EVENT,
                        "  8,0    0        0     1.500000000     1  C  FF 0 [0]"},
                {" x-1 [000] 1.5: block_split: 8,0 R 64 / 72 [x]", BLK_LINE_EVENT,
                        "  8,0    0        0     1.500000000     1  X   R 64 / 72 [x]"},
                {" x-1 [000] 1.5: block_bio_remap: 8,0 WS 2112 + 8 <- (8,1) 64", BLK_LINE_EVENT,
                        "  8,0    0        0     1.500000000     1  A  WS 2112 + 8 <- (8,1) 64"},
                {" x-1 [000] 1.5: block_unplug: [x] 3", BLK_LINE_EVENT, "  0,0    0        0     1.500000000     1  U   N [x] 3"},
                {" x-1 [000] 1.5: block_io_start: 8,0 WS 64 () 64 + 8 [x]", BLK_LINE_OTHER, NULL},
                {" x-1 [000] 1.5: sched_switch: block_bio_queue", BLK_LINE_OTHER, NULL},
                {" x-1 [000] 1.5: block_bio_queue: 8,0 WS 64 + [x]", BLK_LINE_BAD, NULL},
                {" x-1 [000] 1.5: block_bio_queue: 8,0", BLK_LINE_BAD, NULL},
                {" x-1 [000] 1.5: block_bio_queue: 99999,0 R 1 + 8 [x]", BLK_LINE_BAD, NULL},
                {" x-1 [000] 1.5: block_bio_queue: 8,0 R 99999999999999999999 + 8 [x]", BLK_LINE_BAD, NULL},
                {"CPU:1 [LOST 123 EVENTS]", BLK_LINE_LOST, NULL},
                {"# entries-in-buffer/entries-written: 100/4000   #P:2", BLK_LINE_OVERWRITTEN, NULL},
                {"# entries-in-buffer/entries-written: 100/100   #P:2", BLK_LINE_OTHER, NULL},
                {"  8,0    1        3     0.000020348 12069  P   N [x]", BLK_LINE_EVENT,
                        "  8,0    1        0     0.000020348 12069  P   N [x]"},
                {"  8,0    1        3     0.000020348 12069  m   N cfq idle", BLK_LINE_OTHER, NULL},
                {"  8,0    1        3     0.0000", BLK_LINE_BAD, NULL},
                {"Throughput (R/W): 22074KiB/s / 7198KiB/s", BLK_LINE_OTHER, NULL}, {"CPU0 (L):", BLK_LINE_OTHER, NULL},
                        {"", BLK_LINE_OTHER, NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct blk_record record;
                char name[BLK_NAME], text[256];
                enum blk_line kind = blk_parse_line(cases[i].line, strlen(cases[i].line), &record, name);
                if (kind != cases[i].kind)
                        fail_msg("%s: %d", cases[i].line, kind);
                record.event.name = name;
                if (cases[i].again) {
                        blk_format(text, sizeof text, &record, 0);
                        assert_string_equal(text, cases[i].again);
                }
        }
}

static size_t put(uint8_t *to, uint64_t value, size_t size, bool big)
{
        for (size_t i = 0; i < size; i++)
                to[big ? size - 1 - i : i] = (uint8_t)(value >> (8 * i));
        return size;
}

/* A record of either version and byte order, with a payload that is big-endian in both. */
static size_t binary(uint8_t *to, int version, bool big, uint64_t time, uint64_t sector, uint32_t bytes, uint64_t action, uint32_t pid,
        const void *pdu,
        size_t pdu_size)
{
        static uint32_t sequence;
        uint8_t *at = to;

        at += put(at, UINT32_C(0x65617400) | (uint32_t)version, 4, big);
        at += put(at, ++sequence, 4, big);
        at += put(at, time, 8, big);
        at += put(at, sector, 8, big);
        at += put(at, bytes, 4, big);
        if (version == 7)
                at += put(at, action, 4, big);
        at += put(at, pid, 4, big);
        if (version == 8)
                at += put(at, action, 8, big);
        at += put(at, DISK, 4, big);
        at += put(at, 1, 4, big);
        at += put(at, 0, 2, big);
        at += put(at, pdu_size, 2, big);
        at += version == 8 ? put(at, 0, 8, big) + put(at + 8, 0, 4, big) : 0;
        memcpy(at, pdu ? pdu : "", pdu_size);
        return (size_t)(at - to) + pdu_size;
}

static int read_bytes(const uint8_t *bytes, size_t size, struct blk_damage *damage, struct blk_record *records, size_t room, size_t *count)
{
        char path[64], why[256];
        int fd = memfd_create("trace", MFD_CLOEXEC), r;
        struct blk_trace *trace;

        assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        assert_int_equal(blk_open((const char *const[]){path}, 1, &trace, why, sizeof why), 0);
        struct blk_record record;
        for (*count = 0; (r = blk_next(trace, &record)) == 1; ++*count)
                if (*count < room) {
                        records[*count] = record;
                        records[*count].event.name = record.event.name && strcmp(record.event.name, "writer") == 0 ? "writer" : NULL;
                }
        *damage = *blk_get_damage(trace);
        blk_close(trace);
        close(fd);
        return r;
}

static void byte_orders(void **state)
{
        static const uint8_t new_sector[8] = {0, 0, 0, 0, 0, 0, 0, 72}, group[16] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 72};
        uint8_t bytes[1024];
        struct blk_record records[8];
        struct blk_damage damage;
        size_t count;

        (void)state;
        for (int v = 7; v <= 8; v++)
                for (int big = 0; big < 2; big++) {
                        size_t size = binary(bytes, v, big, 5, 0, 0, UINT64_C(1) << (10 + 16), 77, "writer\0\0\0\0\0\0\0\0\0", 16);
                        size += binary(bytes + size, v, big, 10, 64, 8192, 1 | (UINT64_C(0x1a) << 16), 77, NULL, 0);
                        size += binary(bytes + size, v, big, 11, 64, 4096, 13 | (UINT64_C(0x2) << 16), 77, new_sector, 8);
                        size += binary(bytes + size, v, big, 12, 64, 4096, 13 | 0x100 | (UINT64_C(0x2) << 16), 77, group, 16);
                        assert_int_equal(read_bytes(bytes, size, &damage, records, 8, &count), 0);
                        assert_int_equal(count, 3);
                        assert_int_equal(records[0].event.action, STAGE_Q);
                        assert_int_equal(records[0].event.sectors, 16);
                        assert_int_equal(records[0].event.device, DISK);
                        assert_string_equal(records[0].event.name, "writer");
                        assert_string_equal(records[0].rwbs, "WS");
                        for (int i = 1; i < 3; i++) {
                                assert_int_equal(records[i].event.action, STAGE_X);
                                assert_int_equal(records[i].event.other, 72);
                        }
                }
}

/* Cut, with a hole, with noise before it, twice, backwards: counted, and the rest is read. */
static void damaged(void **state)
{
        enum { N = 50, SIZE = 48 };
        uint8_t whole[N * SIZE], bytes[2 * N * SIZE + 100];
        static struct blk_record records[2 * N];
        struct blk_damage damage;
        size_t count;

        (void)state;
        for (size_t i = 0; i < N; i++)
                assert_int_equal(binary(whole + i * SIZE, 7, false, 100 + i, 8 * i, 4096, 1 | (UINT64_C(0x1a) << 16), 7, NULL, 0), SIZE);
        read_bytes(whole, sizeof whole - 20, &damage, records, N, &count);
        assert_true(count == N - 1 && damage.cut == 1 && damage.skipped == 28);
        memcpy(bytes, "noise, and not of this world, at least this long\0", 49);
        memcpy(bytes + 49, whole, 10 * SIZE);
        memcpy(bytes + 49 + 10 * SIZE, whole + 15 * SIZE, (N - 15) * SIZE);
        read_bytes(bytes, 49 + (N - 5) * SIZE, &damage, records, N, &count);
        assert_true(count == N - 5 && damage.skipped == 49 && damage.spots == 1 && damage.lost == 5 && records[10].lost == 5 &&
                records[10].gap);
        for (size_t i = 0; i < N; i++)
                memcpy(bytes + i * SIZE, whole + (N - 1 - i) * SIZE, SIZE);
        memcpy(bytes + sizeof whole, whole, sizeof whole);
        read_bytes(bytes, 2 * sizeof whole, &damage, records, 2 * N, &count);
        assert_true(count == N && damage.duplicates == N && damage.lost == 0 && damage.disordered == 0);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(records[i].event.time, 100 + i);
        memset(bytes, 0xff, sizeof bytes);
        read_bytes(bytes, sizeof bytes, &damage, records, N, &count);
        assert_int_equal(count, 0);
        read_bytes(bytes, 0, &damage, records, N, &count);
        assert_int_equal(count, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(simple), cmocka_unit_test(begun_before), cmocka_unit_test(requeued), cmocka_unit_test(split),
                        cmocka_unit_test(merges), cmocka_unit_test(partial),
                cmocka_unit_test(remapped), cmocka_unit_test(flushes), cmocka_unit_test(passthrough), cmocka_unit_test(kinds),
                        cmocka_unit_test(lost_events),
                cmocka_unit_test(ceilings), cmocka_unit_test(by_address), cmocka_unit_test(known_truth), cmocka_unit_test(lines),
                        cmocka_unit_test(byte_orders),
                cmocka_unit_test(damaged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The tracefs source's parsers, on descriptions and pages made here: each type of event, long and whole times, gaps, damage; events as
 * kernels of several ages write them.
 */
#include "collectors/tracefs_own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "sample/stage.h"
#include "sample/stage_stream.h"

/* ---- descriptions -------------------------------------------------------------------------------------------------------------------- */

#define HEAD "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" \
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static const char complete_text[] = "name: block_rq_complete\nID: 1131\nformat:\n" HEAD
        "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
        "\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:int errors;\toffset:28;\tsize:4;\tsigned:1;\n"
        "\tfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] cmd;\toffset:40;\tsize:4;\tsigned:1;\n"
        "\nprint fmt: \"%d,%d %s (%s) %llu + %u [%d]\", field:x;\n";
static const char header_text[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
                "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
static const struct tracefs_point complete = {"block", "block_rq_complete", STREAM_WHAT_BIOS, POINT_BLOCK, STAGE_C, true};

static void test_formats(void **state)
{
        struct tracefs_format format;
        struct tracefs_layout layout;
        uint64_t overwritten, refused;

        assert_int_equal(tracefs_parse_format(complete_text, sizeof complete_text - 1, &format), 0);
        assert_int_equal(format.id, 1131);
        assert_int_equal(format.field[FIELD_SECTOR].offset, 16);
        assert_int_equal(format.field[FIELD_RWBS].size, 8);
        assert_int_equal(format.field[FIELD_ERROR].offset, 28);
        assert_true(format.field[FIELD_ERROR].is_signed);
        assert_int_equal(format.field[FIELD_COMMAND].offset, 40);
        assert_int_equal(format.field[FIELD_COMM].size, 0);
        assert_int_equal(tracefs_least(&complete, &format), 44);
        format.field[FIELD_SECTOR].size = 0;
        assert_int_equal(tracefs_least(&complete, &format), 0);
        assert_int_equal(tracefs_parse_format("ID: 7\nformat:\n", 14, &format), -EBADMSG);
        assert_int_equal(tracefs_parse_format("", 0, &format), -EBADMSG);
        for (size_t cut = 0; cut < sizeof complete_text - 1; cut++)
                tracefs_parse_format(complete_text, cut, &format);

        assert_int_equal(tracefs_parse_header(header_text, sizeof header_text - 1, &layout), 0);
        assert_int_equal(layout.commit.offset, 8);
        assert_int_equal(layout.data.offset, 16);
        assert_int_equal(layout.data.size, 4080);
        static const char narrow[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
                "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
                "\tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_int_equal(tracefs_parse_header(narrow, sizeof narrow - 1, &layout), 0);
        assert_int_equal(layout.commit.size, 4);
        assert_int_equal(tracefs_parse_header("\tfield: u64 timestamp;\toffset:0;\tsize:8;\n", 42, &layout), -EBADMSG);

        static const char stats[] = "entries: 5\noverrun: 17\ncommit overrun: 2\nbytes: 1\ndropped events: 3\nread events: 9\n";
        tracefs_parse_stats(stats, sizeof stats - 1, &overwritten, &refused);
        assert_int_equal(overwritten, 17);
        assert_int_equal(refused, 5);
}

/* ---- pages --------------------------------------------------------------------------------------------------------------------------- */

struct maker {
        uint8_t bytes[4096];
        size_t used;
};

static void put_word(struct maker *page, uint32_t value)
{
        memcpy(page->bytes + 16 + page->used, &value, 4);
        page->used += 4;
}

static void put_head(struct maker *page, uint32_t type, uint32_t delta)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
        put_word(page, delta << 5 | type);
#else
        put_word(page, type << 27 | delta);
#endif
}

static void end_page(struct maker *page, uint64_t time, uint64_t flags, uint64_t missed)
{
        uint64_t commit = page->used | flags;
        memcpy(page->bytes, &time, 8);
        memcpy(page->bytes + 8, &commit, 8);
        memcpy(page->bytes + 16 + page->used, &missed, 8);
}

static void test_pages(void **state)
{
        struct tracefs_layout layout;
        struct tracefs_page page;
        size_t length;
        struct maker made = {0};

        tracefs_parse_header(header_text, sizeof header_text - 1, &layout);
        put_head(&made, 2, 0);                          /* 8 bytes at the page's time */
        put_word(&made, 11), put_word(&made, 12);
        put_head(&made, 29, 5), put_word(&made, 8), put_word(&made, 99); /* given back, 5 ns later; 4 bytes behind its length */
        put_head(&made, 30, 7), put_word(&made, 3);     /* 3 << 27 | 7 ns */
        put_head(&made, 0, 1), put_word(&made, 11);     /* 7 bytes, their length in a word of its own */
        put_word(&made, 21), put_word(&made, 22);
        put_head(&made, 31, 9), put_word(&made, 1 << 4); /* at 2^31 + 9, as a whole time */
        put_head(&made, 1, 2), put_word(&made, 31);
        put_head(&made, 29, 0), put_word(&made, 77);    /* the rest is empty */
        end_page(&made, 1000, UINT64_C(1) << 31 | UINT64_C(1) << 30, 42);
        assert_int_equal(tracefs_page_begin(&page, &layout, made.bytes, sizeof made.bytes), 0);
        assert_true(page.has_missed);
        assert_int_equal(page.missed, 42);
        const uint8_t *event = tracefs_page_next(&page, &length);
        assert_int_equal(length, 8);
        assert_int_equal(page.time, 1000);
        assert_int_equal(tracefs_number(event, (struct tracefs_place){4, 4, false}), 12);
        event = tracefs_page_next(&page, &length);
        assert_int_equal(length, 7);
        assert_int_equal(page.time, 1000 + 5 + (UINT64_C(3) << 27) + 7 + 1);
        assert_int_equal(tracefs_number(event, (struct tracefs_place){0, 4, false}), 21);
        event = tracefs_page_next(&page, &length);
        assert_int_equal(length, 4);
        assert_int_equal(page.time, (UINT64_C(1) << 31) + 9 + 2);
        assert_null(tracefs_page_next(&page, &length));
        assert_false(page.damaged);

        /* A whole time lacks its upper five bits; they come from before, and carry over. */
        made.used = 0;
        put_head(&made, 31, 5), put_word(&made, 0);
        put_head(&made, 1, 0), put_word(&made, 1);
        end_page(&made, (UINT64_C(7) << 59) + 100, UINT64_C(1) << 31, 0);
        assert_int_equal(tracefs_page_begin(&page, &layout, made.bytes, sizeof made.bytes), 0);
        assert_true(page.has_missed && page.missed == 0);
        assert_non_null(tracefs_page_next(&page, &length));
        assert_true(page.time == (UINT64_C(8) << 59) + 5);

        made.used = 0;
        put_head(&made, 5, 0), put_word(&made, 1); /* says 20 bytes, has 4 */
        end_page(&made, 0, 0, 0);
        assert_int_equal(tracefs_page_begin(&page, &layout, made.bytes, sizeof made.bytes), 0);
        assert_null(tracefs_page_next(&page, &length));
        assert_true(page.damaged);
        made.used = 0;
        end_page(&made, 0, 4081, 0);
        assert_int_equal(tracefs_page_begin(&page, &layout, made.bytes, sizeof made.bytes), -EBADMSG);
        assert_int_equal(tracefs_page_begin(&page, &layout, made.bytes, 15), -EBADMSG);
}

static void test_decode(void **state)
{
        struct tracefs_format format;
        struct stage_record record;
        uint8_t event[48] = {0};
        const uint32_t device = 8 << 20 | 3, pid = 77, sectors = 8, flags = 45 | 1 << 16;
        const int32_t error = -5;
        const uint64_t sector = 4936, last = UINT64_MAX;

        tracefs_parse_format(complete_text, sizeof complete_text - 1, &format);
        memcpy(event + 4, &pid, 4);
        memcpy(event + 8, &device, 4);
        memcpy(event + 16, &sector, 8);
        memcpy(event + 24, &sectors, 4);
        memcpy(event + 28, &error, 4);
        memcpy(event + 32, "WS\0RRRRR", 8); /* garbage behind the NUL */
        memcpy(event + 40, &flags, 4);
        assert_true(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
        assert_int_equal(record.kind, RECORD_EVENT);
        assert_int_equal(record.device, device);
        assert_int_equal(record.tid, pid);
        assert_int_equal(record.direction, STAGE_WRITE);
        assert_int_equal(record.bio_flags, STAGE_IS_SYNC | STAGE_OF_REQUEST);
        assert_string_equal(record.event.rwbs, "WS");
        assert_int_equal(record.event.sector, sector);
        assert_int_equal(record.event.sectors, 8);
        assert_int_equal(record.event.error, -5);
        assert_int_equal(record.event.time, 99);
        assert_int_equal(record.event.action, STAGE_C);

        memcpy(event + 32, "FF\0", 3);
        memcpy(event + 16, &last, 8);
        assert_true(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
        assert_true(record.bio_flags & STAGE_FLUSH_OP);
        assert_int_equal(record.event.sector, 0);
        memcpy(event + 32, "N\0", 2); /* a driver's command, as kernels since 4.11 tell it */
        assert_true(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
        assert_true(record.bio_flags & STAGE_PASSTHROUGH);
        memcpy(event + 16, &sector, 8);
        assert_true(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
        assert_false(record.bio_flags & STAGE_PASSTHROUGH);
        memcpy(event + 40, &(uint32_t){44 | 4 << 16}, 4); /* as those before did */
        event[44] = '1';
        assert_true(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
        assert_true(record.bio_flags & STAGE_PASSTHROUGH);
        memset(event + 32, 0, 8);
        assert_false(tracefs_decode(&complete, &format, event, sizeof event, 99, &record));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_formats), cmocka_unit_test(test_pages), cmocka_unit_test(test_decode),
        };

        return cmocka_run_group_tests_name("tracefs_pages", tests, NULL, NULL);
}

/*
 * Fuzzer of the tracefs source's parsers: whatever a description or a page says, nothing outside of the bytes is read, and texts end.
 *
 * The first byte says how: as a description; as a page of events whose format is known; or as a description, a NUL, and a page to be read
 * by it.
 */
#include <stdlib.h>
#include <string.h>

#include "collectors/tracefs_own.h"
#include "sample/stage.h"

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char queue_text[] = "name: block_bio_queue\nID: 1138\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n"
        "\tfield:sector_t new_sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:dev_t old_dev;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:sector_t old_sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n"
        "\tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;\n\tfield:__data_loc char[] cmd;\toffset:56;\tsize:4;\tsigned:0;\n";
static const char header_text[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
        "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
static const struct tracefs_point points[] = {
        {"", "", 1, POINT_BLOCK, STAGE_Q, false}, {"", "", 1, POINT_BLOCK, STAGE_C, true}, {"", "", 1, POINT_BLOCK, STAGE_X, false},
        {"", "", 1, POINT_BLOCK, STAGE_A, false}, {"", "", 1, POINT_BLOCK, STAGE_U, false}, {"", "", 1, POINT_ENTER, 0, false},
};

static void check(const struct stage_record *record)
{
        if (!memchr(record->event.comm, '\0', sizeof record->event.comm) || !memchr(record->event.rwbs, '\0', sizeof record->event.rwbs))
                abort();
        if (record->direction >= STAGE_DIRECTIONS || record->event.action >= STAGE_ACTIONS)
                abort();
}

static void read_page(const struct tracefs_layout *layout, const struct tracefs_format *format, const uint8_t *bytes, size_t size)
{
        struct tracefs_page page;
        struct stage_record record;
        const uint8_t *event;
        size_t length, events = 0;

        if (tracefs_page_begin(&page, layout, bytes, size) < 0)
                return;
        while ((event = tracefs_page_next(&page, &length)) != NULL) {
                if (event < bytes || length > size || event > bytes + size - length || ++events > size)
                        abort();
                for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
                        size_t least = tracefs_least(&points[i], format);
                        if (least && length >= least && points[i].kind == POINT_BLOCK &&
                                tracefs_decode(&points[i], format, event, length, page.time, &record))
                                check(&record);
                        if (least && length >= least)
                                tracefs_number(event, format->field[FIELD_FD]);
                }
        }
        if (page.at != page.end && page.end - page.at >= 4)
                abort();
}

static void read_text(const char *text, size_t size, struct tracefs_layout *layout, struct tracefs_format *format)
{
        uint64_t overwritten, refused;

        tracefs_parse_header(text, size, layout);
        tracefs_parse_format(text, size, format);
        tracefs_parse_stats(text, size, &overwritten, &refused);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct tracefs_layout layout;
        struct tracefs_format format;

        if (size < 2)
                return 0;
        size_t length = size - 1, text = 0;
        uint8_t *exact = malloc(length); /* so that a read beyond it is seen */
        if (exact == NULL)
                return 0;
        memcpy(exact, data + 1, length);
        if (tracefs_parse_header(header_text, sizeof header_text - 1, &layout) < 0 ||
                tracefs_parse_format(queue_text, sizeof queue_text - 1, &format) < 0)
                abort();
        if (data[0] % 3 != 1) {
                const uint8_t *end = memchr(exact, '\0', length);
                text = data[0] % 3 == 2 && end ? (size_t)(end - exact) : length;
                read_text((const char *)exact, text, &layout, &format);
        }
        if (text < length)
                read_page(&layout, &format, exact + text, length - text);
        free(exact);
        return 0;
}

static void put(uint8_t *to, size_t *used, uint32_t word)
{
        memcpy(to + *used, &word, 4);
        *used += 4;
}

/* Three events, a long time, a padding, a gap before all of it. */
static size_t page_seed(uint8_t *to)
{
        size_t used = 16;
        const uint64_t time = 123456789, missed = 7;

        for (uint32_t i = 0; i < 3; i++) {
                put(to, &used, i << 5 | 30), put(to, &used, i);
                put(to, &used, 10 << 5 | 16); /* 64 bytes */
                memset(to + used, 0, 64);
                memcpy(to + used, &(uint16_t){1138}, 2);
                memcpy(to + used + 16, &(uint64_t){4096 + i}, 8);
                memcpy(to + used + 28, "RA\0x", 4);
                memcpy(to + used + 38, "fuzz", 4);
                memcpy(to + used + 56, &(uint32_t){60 | 4 << 16}, 4);
                used += 64;
                put(to, &used, 1 << 5 | 29), put(to, &used, 8), put(to, &used, 0);
                put(to, &used, 1 << 5 | 31), put(to, &used, 9);
        }
        put(to, &used, 0), put(to, &used, 68);
        memset(to + used, 0x11, 64);
        used += 64;
        uint64_t commit = (used - 16) | UINT64_C(3) << 30;
        memcpy(to, &time, 8);
        memcpy(to + 8, &commit, 8);
        memcpy(to + used, &missed, 8);
        return used + 8;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        size_t used = 1;

        if (number >= 6 || size < 4096)
                return 0;
        buffer[0] = (uint8_t)(number % 3);
        if (number % 3 != 1) {
                const char *text = number == 3 ? header_text : queue_text;
                memcpy(buffer + used, text, strlen(text) + 1);
                used += strlen(text) + (number % 3 == 0);
        }
        if (number % 3 != 0)
                used += page_seed(buffer + used);
        return used;
}

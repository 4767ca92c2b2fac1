/*
 * A page of the kernel's ring buffer, and the block events in it. Contract: tracefs_own.h.
 *
 *      page    time of the first event (8) | commit: bytes in use and flags | data
 *      event   type or length in words: 5 bits | ns since the event before: 27 bits | [length (4)] | data
 *
 * Kernel: include/linux/ring_buffer.h, kernel/trace/ring_buffer.c. All is in the kernel's own byte order. Types beyond 28: 29 padding
 * (what was given back; with 0 ns: nothing follows in this page), 30 the upper bits of a long time, 31 the lower 59 bits of a whole time.
 * Flags in commit: events are missing before this page; how many stands behind the data, where there was room for it.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "collectors/tracefs_own.h"
#include "sample/stage.h"

enum { PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31, WORD = 4, TIME_BITS = 27, STAMP_BITS = 59 };
#define COMMIT_SIZE UINT64_C(0xfffff)
#define MISSED_EVENTS (UINT64_C(1) << 31)
#define MISSED_STORED (UINT64_C(1) << 30)

static uint32_t word_at(const uint8_t *bytes)
{
        uint32_t value;
        memcpy(&value, bytes, sizeof value);
        return value;
}

uint64_t tracefs_number(const uint8_t *event, struct tracefs_place place)
{
        const uint8_t *at = event + place.offset;
        uint64_t wide;
        uint32_t value;
        uint16_t half;

        switch (place.size) {
        case 8:
                memcpy(&wide, at, 8);
                return wide;
        case 4:
                memcpy(&value, at, 4);
                return place.is_signed ? (uint64_t)(int32_t)value : value;
        case 2:
                memcpy(&half, at, 2);
                return place.is_signed ? (uint64_t)(int16_t)half : half;
        case 1:
                return place.is_signed ? (uint64_t)(int8_t)*at : *at;
        default:
                return 0;
        }
}

int tracefs_page_begin(struct tracefs_page *page, const struct tracefs_layout *layout, const uint8_t *bytes, size_t size)
{
        *page = (struct tracefs_page){.bytes = bytes};
        if (size < layout->data.offset)
                return -EBADMSG;
        uint64_t commit = tracefs_number(bytes, (struct tracefs_place){layout->commit.offset, layout->commit.size, false});
        uint64_t used = commit & COMMIT_SIZE;
        if (used > size - layout->data.offset)
                return -EBADMSG;
        memcpy(&page->time, bytes + layout->time.offset, sizeof page->time);
        page->at = layout->data.offset;
        page->end = page->at + used;
        if (commit & MISSED_EVENTS) {
                page->has_missed = true;
                if (commit & MISSED_STORED && layout->commit.size <= size - page->end) /* an unsigned long, as commit is */
                        page->missed = tracefs_number(bytes + page->end, (struct tracefs_place){0, layout->commit.size, false});
        }
        return 0;
}

/* A whole time has 59 bits; what is above them is as it was, or one more (rb_fix_abs_ts in the kernel). */
static uint64_t whole_time(uint64_t stamp, uint64_t before)
{
        uint64_t high = before & ~((UINT64_C(1) << STAMP_BITS) - 1);

        stamp |= high;
        return high && stamp < before ? stamp + (UINT64_C(1) << STAMP_BITS) : stamp;
}

static const uint8_t *damage(struct tracefs_page *page)
{
        page->damaged = true;
        page->at = page->end;
        return NULL;
}

const uint8_t *tracefs_page_next(struct tracefs_page *page, size_t *length)
{
        while (page->end - page->at >= WORD) {
                uint32_t head = word_at(page->bytes + page->at);
#if __BYTE_ORDER == __LITTLE_ENDIAN
                uint32_t type = head & 31, delta = head >> 5;
#else
                uint32_t type = head >> TIME_BITS, delta = head & ((1u << TIME_BITS) - 1);
#endif
                size_t left = page->end - page->at - WORD;
                page->at += WORD;
                if (type >= 1 && type < PADDING) {
                        *length = (size_t)type * WORD;
                        if (*length > left)
                                return damage(page);
                        page->time += delta;
                        page->at += *length;
                        return page->bytes + page->at - *length;
                }
                if (type == PADDING && delta == 0) {
                        page->at = page->end;
                        return NULL;
                }
                if (left < WORD)
                        return damage(page);
                uint32_t next = word_at(page->bytes + page->at);
                if (type == TIME_EXTEND) {
                        page->time += ((uint64_t)next << TIME_BITS) + delta;
                        page->at += WORD;
                        continue;
                }
                if (type == TIME_STAMP) {
                        page->time = whole_time(((uint64_t)next << TIME_BITS) + delta, page->time);
                        page->at += WORD;
                        continue;
                }
                size_t whole = ((size_t)next + WORD - 1) / WORD * WORD; /* counts its own word, too */
                if (next < WORD || next > left || whole > left)
                        return damage(page);
                page->time += delta;
                page->at += whole;
                if (type == PADDING)
                        continue;
                *length = next - WORD;
                return page->bytes + page->at - whole + WORD;
        }
        return NULL;
}

/* ---- events -------------------------------------------------------------------------------------------------------------------------- */

/* Fields an event must have, by what it says. */
static size_t needs(const struct tracefs_point *point, enum tracefs_field out[FIELD_COUNT])
{
        static const enum tracefs_field place[] = {FIELD_DEV, FIELD_SECTOR, FIELD_RWBS};
        size_t count = 0;

        if (point->kind == POINT_ENTER || (point->kind == POINT_BLOCK && (point->action == STAGE_P || point->action == STAGE_U)))
                return 0;
        if (point->kind == POINT_EXIT) {
                out[count++] = FIELD_RESULT;
                return count;
        }
        for (size_t i = 0; i < sizeof place / sizeof *place; i++)
                out[count++] = place[i];
        out[count++] = point->action == STAGE_X ? FIELD_NEW_SECTOR : FIELD_SECTORS;
        if (point->action == STAGE_A) {
                out[count++] = FIELD_OLD_DEV;
                out[count++] = FIELD_OLD_SECTOR;
        }
        return count;
}

size_t tracefs_least(const struct tracefs_point *point, const struct tracefs_format *format)
{
        enum tracefs_field needed[FIELD_COUNT];
        size_t count = needs(point, needed), least = 0;

        for (size_t i = 0; i < count; i++)
                if (format->field[needed[i]].size == 0)
                        return 0;
        for (int i = 0; i < FIELD_COUNT; i++) {
                size_t end = (size_t)format->field[i].offset + format->field[i].size;
                if (format->field[i].size && end > least)
                        least = end;
        }
        return least;
}

/* What the kernel wrote of a text: up to its NUL; behind it is garbage. `to` is all zeroes. Texts are of 2 to 4 bytes, or a name's: a loop
 * is faster than calls. */
static void text_at(const uint8_t *event, struct tracefs_place place, char *to, size_t size)
{
        size_t most = place.size < size - 1 ? place.size : size - 1;
        const char *from = (const char *)event + place.offset;

        for (size_t i = 0; i < most && from[i]; i++)
                to[i] = from[i];
}

/* A driver's own command. Kernels before 4.11 tell its bytes (__data_loc: length << 16 | offset; one NUL of none); later ones a request
 * with no operation that has a letter, without sectors at its issue, and at its end "behind the last sector". */
static bool passthrough(const struct tracefs_format *format, const uint8_t *event, size_t length, const struct stage_record *record)
{
        struct tracefs_place command = format->field[FIELD_COMMAND];

        if (command.size == 4) {
                uint32_t where = (uint32_t)tracefs_number(event, command), offset = where & 0xffff;
                if (where >> 16 > 1 && offset < length && event[offset] != 0)
                        return true;
        }
        return record->direction == STAGE_ELSE && record->event.rwbs[0] == 'N' &&
                (record->event.sector == UINT64_MAX || (record->event.action != STAGE_C && record->event.sectors == 0));
}

bool tracefs_decode(const struct tracefs_point *point, const struct tracefs_format *format, const uint8_t *event, size_t length,
        uint64_t time, struct stage_record *record)
{
        const struct tracefs_place *field = format->field;

        memset(record, 0, sizeof *record);
        record->kind = RECORD_EVENT;
        record->tid = (uint32_t)tracefs_number(event, field[FIELD_PID]);
        record->event.time = time;
        record->event.action = point->action;
        if (field[FIELD_COMM].size)
                text_at(event, field[FIELD_COMM], record->event.comm, sizeof record->event.comm);
        if (point->action == STAGE_P || point->action == STAGE_U) { /* they have no device */
                record->event.rwbs[0] = 'N';
                record->direction = STAGE_ELSE;
                record->event.other = tracefs_number(event, field[FIELD_REQUESTS]);
                return true;
        }
        record->device = (uint32_t)tracefs_number(event, field[FIELD_DEV]);
        record->event.sector = tracefs_number(event, field[FIELD_SECTOR]);
        text_at(event, field[FIELD_RWBS], record->event.rwbs, sizeof record->event.rwbs);
        struct stage_event letters = {.flags = point->of_request ? STAGE_OF_REQUEST : 0};
        if (!stage_rwbs(record->event.rwbs, sizeof record->event.rwbs, &letters))
                return false;
        record->direction = letters.direction;
        record->bio_flags = letters.flags;
        if (point->action == STAGE_X) {
                record->event.other = tracefs_number(event, field[FIELD_NEW_SECTOR]);
                record->event.sectors = 1; /* it has a place; its length is told by nobody */
                return true;
        }
        record->event.sectors = (uint32_t)tracefs_number(event, field[FIELD_SECTORS]);
        if (point->action == STAGE_A) {
                record->event.other = tracefs_number(event, field[FIELD_OLD_SECTOR]);
                record->event.other_device = (uint32_t)tracefs_number(event, field[FIELD_OLD_DEV]);
        }
        if (point->action == STAGE_C)
                record->event.error = (int32_t)tracefs_number(event, field[FIELD_ERROR]);
        if (point->of_request && passthrough(format, event, length, record)) {
                record->bio_flags |= STAGE_PASSTHROUGH;
                record->event.sectors = 1;
        }
        if (record->bio_flags & STAGE_FLUSH_OP)
                record->event.sector = 0; /* -1 at its end */
        return true;
}

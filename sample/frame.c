/*
 * Frames as bytes: check one from an untrusted source, walk a checked one.
 *
 * frame_check looks at what can be judged without the writer's schema: sizes, counts, alignment, order of sequence numbers, and the CRC.
 * After it the walk stays inside the frame whatever the bytes are. What is inside a row depends on which slots are texts, so state.c
 * checks that against the schema before it uses a single value.
 */
#include "sample/frame.h"

#include <errno.h>
#include <zlib.h>

#include "sample/sample.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian and used in place");
_Static_assert(SCOPE_COUNT <= 32, "scopes are bits of a 32-bit mask");

const char *gap_name(enum gap gap)
{
        static const char *const names[] = {NULL, "late", "suspend", "reboot", "reset"};

        return (unsigned)gap < sizeof names / sizeof names[0] ? names[gap] : "reset";
}

uint32_t frame_crc(const void *frame, size_t length)
{
        static const unsigned char zero[4];
        const unsigned char *bytes = frame;
        size_t at = offsetof(struct frame_head, crc);
        uLong crc = crc32_z(0, bytes, at);

        crc = crc32_z(crc, zero, sizeof zero);
        return (uint32_t)crc32_z(crc, bytes + at + sizeof zero, length - at - sizeof zero);
}

struct key key_of_name(const char *bytes, size_t length, uint64_t b)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < length; i++) {
                hash ^= (unsigned char)bytes[i];
                hash *= UINT64_C(0x100000001b3);
        }
        return (struct key){.a = hash, .b = b};
}

static bool row_sound(const struct row_head *row, size_t room)
{
        if (room < sizeof *row || row->length < sizeof *row || row->length > room || row->length % 8 != 0)
                return false;
        if (row->kind == ROW_TOMBSTONE)
                return row->present == 0 && row->texts == 0 && row->length == sizeof *row;
        return row->kind == ROW_VALUES && (row->texts & ~row->present) == 0;
}

static bool scope_sound(const struct scope_head *scope, size_t room)
{
        if (room < sizeof *scope || scope->length < sizeof *scope || scope->length > room || scope->length % 8 != 0)
                return false;
        if (scope->scope >= 32)
                return false;
        const char *at = (const char *)(scope + 1);
        size_t left = scope->length - sizeof *scope;

        for (uint32_t i = 0; i < scope->rows; i++) {
                const struct row_head *row = (const void *)at;

                if (!row_sound(row, left))
                        return false;
                at += row->length;
                left -= row->length;
        }
        return left == 0;
}

static bool head_sound(const struct frame_head *head, size_t length)
{
        if (head->magic != FRAME_MAGIC || head->layout != FRAME_LAYOUT || head->length != length || head->scopes > 32)
                return false;
        if (head->sequence == 0 || head->full_sequence == 0 || head->full_sequence > head->sequence)
                return false;
        return ((head->flags & FRAME_FULL) != 0) == (head->full_sequence == head->sequence);
}

int frame_check(const void *frame, size_t length)
{
        const struct frame_head *head = frame;

        if ((uintptr_t)frame % 8 != 0 || length < sizeof *head || length > FRAME_MAX || length % 8 != 0)
                return -EBADMSG;
        if (!head_sound(head, length) || head->crc != frame_crc(frame, length))
                return -EBADMSG;

        const char *at = (const char *)(head + 1);
        size_t left = length - sizeof *head;
        uint64_t rows = 0;
        uint32_t seen = 0;

        for (uint32_t i = 0; i < head->scopes; i++) {
                const struct scope_head *scope = (const void *)at;

                if (!scope_sound(scope, left) || (seen & SCOPE_BIT(scope->scope)))
                        return -EBADMSG;
                seen |= SCOPE_BIT(scope->scope);
                rows += scope->rows;
                at += scope->length;
                left -= scope->length;
        }
        return left == 0 && rows <= FRAME_ROWS ? 0 : -EBADMSG;
}

const struct scope_head *frame_scope_next(const struct frame_head *head, const struct scope_head *scope)
{
        const char *at = scope ? (const char *)scope + scope->length : (const char *)(head + 1);

        return at < (const char *)head + head->length ? (const void *)at : NULL;
}

const struct row_head *frame_row_next(const struct scope_head *scope, const struct row_head *row)
{
        const char *at = row ? (const char *)row + row->length : (const char *)(scope + 1);

        return at < (const char *)scope + scope->length ? (const void *)at : NULL;
}

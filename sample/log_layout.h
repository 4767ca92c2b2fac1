#pragma once
/*
 * What a log looks like on disk, for its writer and its reader.
 *
 *     +-----------+  struct log_head: magic, layout, CRC of the schema, version of the writer
 *     | head 64 B |
 *     | S schema  |  records: struct log_record (16 bytes: kind, length, CRC of the payload, CRC of these 12 bytes), payload
 *     | N note    |  name, bytes (zstd)
 *     | B frame   |  begins a block: a full frame, coded from nothing, begins a zstd frame
 *     | F frame   |  the next one: difference to the frames before it in the block, the same zstd frame flushed
 *     | F ...     |
 *     | S schema  |  once more before the second block: a flaw in the first copy costs nothing
 *     | B ...     |  every minute or MiB
 *     | I index   |  where blocks and notes are; only when the writer ended in peace. Ends with struct log_end
 *     +-----------+
 *
 * A frame's payload begins with what a search needs, not compressed: flags, sequence, times; in B whole (struct log_block_head), in F as
 * varints of the differences to the record before. Whoever finds nothing valid at an offset looks for the next record head; frames are
 * readable again from the next B. A record that does not fit into the file was never completely written. Records of other kinds are
 * skipped: a newer writer's.
 */
#include <stddef.h>
#include <stdint.h>

#include "sample/log_bytes.h"
#include "sample/log_code.h"

#define LOG_MAGIC "watoplog"
#define LOG_END_MAGIC "watopend"
#define LOG_MARK "WTL"

enum {
        LOG_LAYOUT = 2, LOG_RECORD_MAX = 320 << 20, LOG_NAME_MAX = 64, LOG_NOTE_MAX = 16 << 20, LOG_SCHEMA_MAX = 1 << 20,
        LOG_NOTES_MAX = 4096, /* names of notes; a hostile log has no end of them */
        LOG_BLOCK_BYTES = 1 << 20,
        LOG_KIND_SCHEMA = 'S', LOG_KIND_NOTE = 'N', LOG_KIND_BLOCK = 'B', LOG_KIND_FRAME = 'F', LOG_KIND_INDEX = 'I',
};
/* Full frames come every 30 s, not to the ns. */
#define LOG_BLOCK_NS UINT64_C(55000000000)

struct log_head {
        char magic[8];
        uint32_t layout, crc;      /* crc: CRC-32 of this head with crc 0 */
        uint32_t schema_crc, schema_length;
        uint64_t created_real_ns;
        char version[32];
};
struct log_record {
        char mark[3];
        uint8_t kind;
        uint32_t length;           /* of the payload */
        uint32_t crc;              /* CRC-32 of the payload */
        uint32_t check;            /* CRC-32 of the 12 bytes before */
};
struct log_block_head {
        uint64_t sequence, mono_ns, real_ns, tick_ns;
        uint32_t flags, reserved;
};
struct log_end {
        uint64_t index;            /* offset of the record */
        char magic[8];
};
_Static_assert(sizeof(struct log_head) == 64, "log head");
_Static_assert(sizeof(struct log_record) == 16, "log record");
_Static_assert(sizeof(struct log_block_head) == 40, "block head");
_Static_assert(sizeof(struct log_end) == 16, "log end");

/* The varints before an F frame's bytes: both sides keep the step before. */
struct log_pace {
        struct log_step step;
        uint64_t mono_step;
};

static inline void log_pace_begin(struct log_pace *pace, const struct log_step *step)
{
        *pace = (struct log_pace){.step = *step};
}

static inline void log_pace_put(struct log_pace *pace, struct bytes_out *out, const struct log_step *step)
{
        uint64_t mono_step = step->mono_ns - pace->step.mono_ns;

        put_number(out, step->flags);
        put_change(out, pace->step.sequence + 1, step->sequence);
        put_change(out, pace->mono_step, mono_step);
        put_change(out, mono_step, step->real_ns - pace->step.real_ns);
        *pace = (struct log_pace){.step = *step, .mono_step = mono_step};
}

static inline void log_pace_get(struct log_pace *pace, struct bytes_in *in)
{
        uint64_t flags = get_number(in);
        uint64_t sequence = get_change(in, pace->step.sequence + 1);
        uint64_t mono_step = get_change(in, pace->mono_step);
        uint64_t real_step = get_change(in, mono_step);

        pace->mono_step = mono_step;
        pace->step = (struct log_step){.flags = (uint16_t)flags, .sequence = sequence, .mono_ns = pace->step.mono_ns + mono_step,
                .real_ns = pace->step.real_ns + real_step};
}

/* ---- the map: where blocks and notes are -------------------------------------------------------------------------------------------- */

struct log_map_block {
        uint64_t offset, sequence, mono_ns, real_ns, tick_ns, frames, marks;
        uint64_t damaged_at;       /* offset of the first damage in it; 0 none */
};
struct log_map_note {
        uint64_t offset;
        char name[LOG_NAME_MAX + 1];
};
struct log_map {
        struct log_map_block *blocks;
        struct log_map_note *notes;
        size_t block_count, block_room, note_count, note_room;
        struct log_step last;      /* newest frame */
};

void log_map_fini(struct log_map *);
int log_map_block(struct log_map *, uint64_t offset, const struct log_step *, uint64_t tick_ns); /* 0 or -ENOMEM */
void log_map_frame(struct log_map *, const struct log_step *);
/* 0; -EINVAL: not a name (log_name_fits); -EOVERFLOW: more than LOG_NOTES_MAX; -ENOMEM. */
int log_map_note(struct log_map *, uint64_t offset, const char *name, size_t length);
/* [a-z0-9_.-], LOG_NAME_MAX bytes at most: nothing that a terminal or JSON could take for more than a name. */
bool log_name_fits(const char *name, size_t length);
/* The index record's payload, without struct log_end. */
void log_map_put(const struct log_map *, struct bytes_out *);
/* Of a stranger; offsets lie below `end` and grow. 0, -EBADMSG, -ENOMEM. */
int log_map_get(struct log_map *, struct bytes_in *, uint64_t end);

#pragma once
/*
 * A sample: the writer's table of rows, and the frame it becomes.
 *
 * The table persists from tick to tick: collectors find a row by key, set what they read, and leave the rest. A slot that
 * could not be read is made absent, never 0. At the end of a scope, rows that nobody touched become tombstones. sample_seal()
 * writes what changed since the frame before as one frame; nothing is allocated once the set of rows is steady.
 *
 * A frame (all little-endian, 8-byte aligned, no pointers, checked by frame_check before anybody reads it):
 *
 *     +--------------------+  struct frame_head: magic, length, crc, sequence, clocks, boot id, gap, scopes that are on
 *     | frame head   128 B |
 *     +--------------------+  struct scope_head: which scope, its own start and end stamps, rows that follow, bytes
 *     | scope head    40 B |
 *     |  row head     48 B |  struct row_head: length, kind, key, offset of the row's own time, mask of present slots
 *     |  values       8 B* |  one u64 a present numeric slot, in slot order (gauges may be int64)
 *     |  texts             |  for each bit in `texts`: u16 length, bytes; padded with 0 to 8 at the end of the row
 *     |  ... rows          |
 *     | ... scopes         |
 *     +--------------------+
 *
 * A full frame carries every row with every text; any other one only rows of which something changed (all their numeric
 * slots, but only the texts that changed), or whose offset moved so far that rates would show it. Scopes that were not sampled in this
 * tick do not appear.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/metric.h"

struct key {
        uint64_t a, b;
};

enum {
        FRAME_MAGIC = 0x31465457, /* "WTF1" as bytes: W T F 1 */
        FRAME_LAYOUT = 1,
        FRAME_MAX = 256 << 20,    /* bytes */
        FRAME_ROWS = 4 << 20,     /* rows of a frame */
        TEXT_MAX = 4096,          /* bytes of one text */
};

enum frame_flag { FRAME_FULL = 1, FRAME_MARK = 2, FRAME_EXTRA = 4 /* out of step, at a mark or at a command's start and end */ };
enum gap { GAP_NONE, GAP_LATE, GAP_SUSPEND, GAP_REBOOT, GAP_RESET };
const char *gap_name(enum gap); /* NULL for GAP_NONE */

struct frame_head {
        uint32_t magic, length;      /* length: whole frame */
        uint32_t crc;                /* CRC-32 of the frame with this field 0 */
        uint16_t layout, flags;      /* frame_flag */
        uint64_t sequence;           /* 1, 2, 3, ... without holes */
        uint64_t mono_ns, boot_ns, real_ns; /* of the tick's start */
        uint8_t boot_id[16];
        uint64_t tick_ns;            /* interval asked for; 0 in a captured machine without clock */
        uint32_t gap, scopes_on;     /* bit SCOPE_x: this scope is being sampled */
        uint32_t missed;             /* ticks missed just before */
        uint32_t scopes;             /* scope heads that follow */
        uint64_t full_sequence;      /* newest full frame, this one included */
        uint64_t writer_ns;          /* boot time of the writer's first tick: tells one writer from the next */
        uint8_t reserved[24];
};

struct scope_head {
        uint32_t scope, rows;
        uint32_t length;             /* this head and its rows */
        uint32_t flags;
        uint64_t start_ns, end_ns;   /* CLOCK_MONOTONIC around the reads */
        uint64_t reserved;
};

enum row_kind { ROW_VALUES = 1, ROW_TOMBSTONE = 2 };
enum tombstone { GONE_EXITED = 1, GONE_UNREADABLE, GONE_UNSAMPLED };
enum row_flag { ROW_CLAMPED = 1 };

struct row_head {
        uint32_t length;             /* this head, values, texts, padding */
        uint8_t kind, reason;
        uint16_t flags;
        struct key key;
        int32_t offset_us;           /* the row was read this long after the scope's start; before it when this pass had no time for it */
                                     /* rounded down to a thousandth of the tick (frame_offset_quantum) */
        uint32_t pad;
        uint64_t present;            /* numeric slots that have a value; text slots that exist */
        uint64_t texts;              /* text slots carried in this row; subset of present */
};

_Static_assert(sizeof(struct frame_head) == 128, "frame head");
_Static_assert(sizeof(struct scope_head) == 40, "scope head");
_Static_assert(sizeof(struct row_head) == 48, "row head");

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

struct sample;
struct row;

struct sample_stamp {
        uint64_t mono_ns, boot_ns, real_ns;
};

int sample_new(struct sample **); /* 0 or -ENOMEM */
void sample_free(struct sample *);

/* Start a tick: its stamps. Rows keep what they had. */
void sample_begin(struct sample *, const struct sample_stamp *);
/* Start and end of one scope, in CLOCK_MONOTONIC ns. Between the two every row that still exists is touched by sample_row().
 * sample_scope_end turns the untouched rows into tombstones with `reason`. */
void sample_scope_begin(struct sample *, enum scope, uint64_t start_ns);
void sample_scope_end(struct sample *, enum scope, uint64_t end_ns, enum tombstone reason);
/* The scope is no longer sampled: all its rows become tombstones (GONE_UNSAMPLED). */
void sample_scope_off(struct sample *, enum scope);

/* Find or add a row and touch it; NULL when memory is short or the scope is full. Valid until the next sample_scope_end of
 * this scope. now_ns: CLOCK_MONOTONIC of the read, of an earlier pass when this one left the row as it was; 0 = the scope's start. */
struct row *sample_row(struct sample *, enum scope, struct key, uint64_t now_ns);
/* As above, but NULL unless it exists already; touches nothing. */
struct row *sample_find(struct sample *, enum scope, struct key);
/* True in the tick in which sample_row added the row: its texts must be read. */
bool row_is_new(const struct row *);
/* Each row carries a pointer-sized word for its collector (cached descriptors, when it was read last); 0 at first.
 * on_free, if set for the scope, is called with it when a row dies. */
uintptr_t *row_own(struct row *);
void sample_on_free(struct sample *, enum scope, void (*)(void *arg, uintptr_t own), void *arg);

void row_set(struct row *, int metric, uint64_t value);
void row_absent(struct row *, int metric);
/* Sets a text; at most TEXT_MAX bytes are kept. NULL makes it absent. */
void row_text(struct row *, int metric, const char *bytes, size_t length);
/* What the row holds now; false when absent. */
bool row_get(const struct row *, int metric, uint64_t *value);
const char *row_get_text(const struct row *, int metric, size_t *length); /* NULL when absent; not NUL-terminated */
struct key row_key(const struct row *);
/* Rows of a scope, touched or not, in no stated order. */
size_t sample_rows(struct sample *, enum scope);
struct row *sample_row_at(struct sample *, enum scope, size_t index);

struct seal {
        uint32_t flags;            /* frame_flag */
        enum gap gap;
        uint32_t missed, scopes_on;
        uint64_t tick_ns;
        uint8_t boot_id[16];
};
/* Encode the tick as a frame with the next sequence number; the bytes belong to the sample and live until the next call. The sample
 * decides itself that a frame must be full (the first one, 30 s after the last, deltas outgrew one) unless FRAME_FULL is
 * asked. 0, -ENOMEM, -EFBIG (frame would pass FRAME_MAX). */
int sample_seal(struct sample *, const struct seal *, const void **frame, size_t *length);

/* ---- reading -------------------------------------------------------------------------------------------------------------- */

/* Check a frame from an untrusted source: lengths, counts, masks, CRC. 0 or -EBADMSG. After 0 the iteration below is safe.
 * What is inside a row depends on the writer's schema: state_apply judges that. */
int frame_check(const void *frame, size_t length);

/* Walk a checked frame. scope_next: NULL first; NULL at the end. row_next likewise, within the scope. */
const struct scope_head *frame_scope_next(const struct frame_head *, const struct scope_head *);
const struct row_head *frame_row_next(const struct scope_head *, const struct row_head *);

struct key key_of_name(const char *bytes, size_t length, uint64_t b); /* a = 64-bit FNV-1a hash of the name */

/* ---- schema: names of slots, so that a newer or older reader can map by name ------------------------------------------------ */

struct schema {
        uint32_t scopes;                    /* of the writer */
        int scope[32];                      /* writer's scope -> ours, -1 unknown */
        short metric[32][ROW_SLOTS];        /* writer's slot -> our metric id, METRIC_NONE unknown */
        uint64_t text[32];                  /* writer's slots that are texts */
        uint64_t slots[32];                 /* writer's slots that exist */
};
/* The schema block of this build: text, one line a scope or metric. Returns its length; fits in 64 KiB. */
size_t schema_write(char *buffer, size_t size);
/* Parse an untrusted block. 0 or -EBADMSG. */
int schema_read(struct schema *, const char *block, size_t length);
/* Our own, without a block. */
void schema_own(struct schema *);

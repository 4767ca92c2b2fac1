/*
 * The log's coder. Contract: log_code.h.
 *
 *     frame:  bits, boot - mono, tick, gap, scopes on, missed, full sequence, writer, [boot id], [reserved bytes], number of scopes
 *     scope:  number, rows, start, end, flags, reserved
 *     row:    place (0 raw row, 1 new key, n = distance in the table), control byte, [what the control byte says], offset, changed values
 *
 * All numbers are varints of differences to what was there before. Values have one more trick: the kernel counts in ticks of 10 ms, in ms
 * and in pages, which we keep in ns and bytes; a tag says which unit divides the difference, and it travels in that unit. A value's
 * difference is itself taken against the last one when that is shorter (a core that is 98% idle grows by about the same each second).
 *
 * Two streams: what recurs (places, masks, short numbers, how long the others are), and behind it the bytes of long numbers and of texts,
 * which are noise. Apart, zstd finds the rows of processes that wake each second alike; mixed, each time in ns between them breaks a match.
 * The last 4 bytes are the length of the first stream.
 */
#include "sample/log_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/frame.h"
#include "sample/log_bytes.h"
#include "sample/rows.h"

enum { SCOPES = 32 };

struct coder_row {
        struct entry entry;    /* `then`: how much each value grew when it changed last */
        bool gone;
};

struct log_coder {
        struct rows scopes[SCOPES];
        bool ready[SCOPES];
        unsigned slots[SCOPES];
        uint64_t texts[SCOPES];
        struct frame_head last;
        uint32_t epoch;
        /* of the newest new row of each scope: what the next one is compared with */
        uint64_t newest[SCOPES][ROW_SLOTS], newest_present[SCOPES];
        struct bytes_out out;  /* the coded bytes (first stream), or the frame */
        struct bytes_out noise; /* second stream */
        struct bytes_in noise_in;
        int32_t quantum_us;    /* of offsets in this frame */
        uint64_t bytes[SCOPES + 1];
};

enum frame_bit { FRAME_BOOT_ID = 1, FRAME_RESERVED = 2 };
enum row_bit {
        ROW_GONE = 1,          /* tombstone: reason follows */
        ROW_ODD = 2,           /* flags and pad follow */
        ROW_PRESENT = 4,       /* mask of present slots changed */
        ROW_TEXTS = 8,         /* it carries texts: mask follows, unless ... */
        ROW_ALL_TEXTS = 16,    /* ... it carries every text that it has */
        ROW_NEW_TEXTS = 32,    /* mask of carried texts that differ from the last ones, and their bytes; else all carried are the same */
        ROW_VALUES_MOVED = 64, /* mask of changed values, and their differences */
};
enum place { PLACE_RAW, PLACE_NEW, PLACE_KNOWN };

static const uint64_t units[4] = {1, 10000000, 4096, 1000000}, no_hints[2];
#define HINT_NS UINT64_C(1000000) /* since when a task is in its state is kept to the ms */

int log_coder_new(const struct schema *schema, struct log_coder **result)
{
        struct log_coder *coder = calloc(1, sizeof *coder);

        if (!coder)
                return -ENOMEM;
        for (int i = 0; i < SCOPES; i++) {
                uint64_t slots = schema->slots[i];
                coder->texts[i] = schema->text[i];
                coder->slots[i] = slots ? 64 - (unsigned)__builtin_clzll(slots) : 0;
        }
        *result = coder;
        return 0;
}

void log_coder_reset(struct log_coder *coder)
{
        for (int i = 0; i < SCOPES; i++) {
                if (coder->ready[i])
                        rows_fini(&coder->scopes[i]);
                coder->ready[i] = false;
        }
        memset(&coder->last, 0, sizeof coder->last);
        memset(coder->newest, 0, sizeof coder->newest);
        memset(coder->newest_present, 0, sizeof coder->newest_present);
        coder->epoch = 0;
}

void log_coder_free(struct log_coder *coder)
{
        if (!coder)
                return;
        log_coder_reset(coder);
        free(coder->out.bytes);
        free(coder->noise.bytes);
        free(coder);
}

void log_coder_bytes(const struct log_coder *coder, uint64_t bytes[SCOPES + 1])
{
        memcpy(bytes, coder->bytes, sizeof coder->bytes);
}

static struct rows *table_of(struct log_coder *coder, uint32_t scope)
{
        if (!coder->ready[scope]) {
                rows_init_as(&coder->scopes[scope], coder->slots[scope], coder->texts[scope], sizeof(struct coder_row));
                coder->ready[scope] = true;
        }
        return &coder->scopes[scope];
}

/* ---- rows, both ways -------------------------------------------------------------------------------------------------------------- */

/* A scope on its way. */
struct pass {
        struct log_coder *coder;
        struct rows *rows;
        uint32_t scope;
        size_t expected;     /* index of the row that comes next if none is left out */
        struct key last_key;
        int32_t last_offset;
        uint64_t start_boot_ns; /* the scope's start, boot time */
        bool fresh;          /* the row at hand is new */
};

static void begin_pass(struct pass *pass, struct log_coder *coder, const struct frame_head *frame, const struct scope_head *scope)
{
        *pass = (struct pass){.coder = coder, .scope = scope->scope, .rows = table_of(coder, scope->scope),
                .start_boot_ns = scope->start_ns + (frame->boot_ns - frame->mono_ns)};
}

static uint64_t read_time(const struct pass *pass, int32_t offset_us)
{
        return (pass->start_boot_ns + (uint64_t)((int64_t)offset_us * 1000)) / HINT_NS * HINT_NS;
}

static bool row_unseen(struct entry *entry, void *arg)
{
        const struct log_coder *coder = arg;

        return ((struct coder_row *)entry)->gone || entry->epoch != coder->epoch;
}

static bool row_gone(struct entry *entry, void *arg)
{
        (void)arg;
        return ((struct coder_row *)entry)->gone;
}

/* The same on both sides: rows that left leave the table, and those that a full frame does not have. */
static void end_pass(struct pass *pass, bool full)
{
        rows_sweep(pass->rows, full ? row_unseen : row_gone, pass->coder);
}

static void touch(struct pass *pass, struct entry *entry, bool fresh)
{
        if (fresh && pass->rows->slots > 0)
                memcpy(entry->now, pass->coder->newest[pass->scope], pass->rows->slots * sizeof *entry->now);
        pass->fresh = fresh;
        entry->epoch = pass->coder->epoch;
        pass->expected = entry->index + 1u;
        pass->last_key = entry->key;
}

/* A new row's values are those that the next new one is compared with. */
static void keep_newest(struct pass *pass, const struct entry *entry)
{
        if (!pass->fresh || pass->rows->slots == 0)
                return;
        memcpy(pass->coder->newest[pass->scope], entry->now, pass->rows->slots * sizeof *entry->now);
        pass->coder->newest_present[pass->scope] = entry->present;
}

static uint64_t expected_present(const struct pass *pass, const struct entry *entry)
{
        return pass->fresh ? pass->coder->newest_present[pass->scope] : entry->present;
}

static void bury(struct coder_row *row)
{
        row->gone = true;
}

/* Bits of slots whose values a row has, at their compact places: the changed mask is short then. */
static uint64_t squeeze(uint64_t mask, uint64_t present)
{
        uint64_t squeezed = 0;

        for (unsigned at = 0; present; present &= present - 1, at++)
                if (mask & present & -present)
                        squeezed |= UINT64_C(1) << at;
        return squeezed;
}

static uint64_t spread(uint64_t squeezed, uint64_t present)
{
        uint64_t mask = 0;

        for (; present && squeezed; present &= present - 1, squeezed >>= 1)
                if (squeezed & 1)
                        mask |= present & -present;
        return mask;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------- */

/* One byte: 3 bits of tag, 4 of the number or, with the top bit, of how many bytes it has in the second stream. Tags: 0-3 the growth in
 * that unit; 4, 5 against the last growth, in unit 0 or 1; 6 against the key (a task's start); 7 against the boot time of the row's read,
 * in ms (since when it is in its state). */
static void put_value(struct log_coder *coder, const uint64_t hints[2], uint64_t old, uint64_t *grew, uint64_t now)
{
        uint64_t steps[2] = {now - old, now - old - *grew}, best = UINT64_MAX;
        unsigned tag = 0;

        for (unsigned relative = 0; relative < 2; relative++) {
                int64_t step = (int64_t)steps[relative];
                for (unsigned unit = 0; unit < (relative ? 2 : 4); unit++) {
                        if (step % (int64_t)units[unit] != 0)
                                continue;
                        uint64_t number = zigzag((uint64_t)(step / (int64_t)units[unit]));
                        if (number < best / (relative ? 4 : 1)) {
                                best = number;
                                tag = unit | relative << 2;
                        }
                }
        }
        for (unsigned hint = 0; hint < 2; hint++) {
                int64_t step = (int64_t)(now - hints[hint]), unit = hint ? (int64_t)HINT_NS : 1;
                uint64_t number = zigzag((uint64_t)(step / unit));
                if (step % unit == 0 && number < best / 4) {
                        best = number;
                        tag = 6 + hint;
                }
        }
        if (best == UINT64_MAX)
                tag = 0; /* only the step INT64_MIN: its zigzag is the largest number */
        if (best <= 15) {
                put_byte(&coder->out, tag | (unsigned)best << 3);
        } else {
                unsigned bytes = (71 - (unsigned)__builtin_clzll(best)) / 8;
                put_byte(&coder->out, tag | bytes << 3 | 0x80u);
                for (unsigned i = 0; i < bytes; i++)
                        put_byte(&coder->noise, (unsigned)(best >> 8 * i) & 0xff);
        }
        *grew = now - old;
}

static const uint8_t *row_texts(const struct row_head *row, uint64_t texts)
{
        return (const uint8_t *)(row + 1) + 8 * __builtin_popcountll(row->present & ~texts);
}

/* Every slot is known, texts lie inside, the padding is short and 0: what our own writers make. Others travel raw. */
static bool row_regular(const struct pass *pass, const struct row_head *row)
{
        uint64_t texts = pass->rows->texts;
        unsigned slots = pass->rows->slots;

        if (row->kind == ROW_TOMBSTONE)
                return row->offset_us == 0;
        if (row->reason != 0 || (slots < 64 && row->present >> slots != 0) || (row->texts & ~texts) != 0)
                return false;
        size_t values = 8 * (size_t)__builtin_popcountll(row->present & ~texts), left = row->length - sizeof *row;
        if (values > left)
                return false;
        const uint8_t *at = row_texts(row, texts);
        left -= values;
        for (uint64_t t = row->texts; t; t &= t - 1) {
                uint16_t length;
                if (left < sizeof length)
                        return false;
                memcpy(&length, at, sizeof length);
                if (left - sizeof length < length)
                        return false;
                at += sizeof length + length;
                left -= sizeof length + length;
        }
        for (size_t i = 0; i < left; i++)
                if (at[i] != 0)
                        return false;
        return left < 8;
}

/* Carried texts that differ from the row's last ones; it takes them over. */
static uint64_t differing_texts(const struct pass *pass, struct entry *entry, const struct row_head *row, uint64_t had, int *error)
{
        const uint8_t *at = row_texts(row, pass->rows->texts);
        uint64_t differing = 0;

        for (uint64_t t = row->texts; t; t &= t - 1) {
                unsigned slot = (unsigned)__builtin_ctzll(t);
                struct entry_text *text = rows_text(pass->rows, entry, slot);
                uint16_t length;

                memcpy(&length, at, sizeof length);
                at += sizeof length;
                if (!(had & t & -t) || text->length != length || (length && memcmp(text->bytes, at, length) != 0)) {
                        differing |= t & -t;
                        if (rows_text_set(pass->rows, entry, slot, (const char *)at, length) < 0)
                                *error = -ENOMEM;
                }
                at += length;
        }
        return differing;
}

static void put_texts(struct bytes_out *out, const struct pass *pass, const struct entry *entry, const struct row_head *row,
        uint64_t differing)
{
        uint64_t all = row->present & pass->rows->texts;

        if (row->texts != 0 && row->texts != all)
                put_number(out, squeeze(row->texts, all));
        if (differing == 0)
                return;
        put_number(out, squeeze(differing, row->texts));
        for (; differing; differing &= differing - 1) {
                const struct entry_text *text = rows_text(pass->rows, entry, (unsigned)__builtin_ctzll(differing));
                put_number(out, text->length);
                put_bytes(&pass->coder->noise, text->bytes, text->length);
        }
}

static void put_values(struct log_coder *coder, const uint64_t hints[2], struct entry *entry, const struct row_head *row, uint64_t numbers,
        uint64_t moved)
{
        const uint64_t *value = (const uint64_t *)(row + 1);

        put_number(&coder->out, squeeze(moved, numbers));
        for (; numbers; numbers &= numbers - 1, value++) {
                unsigned slot = (unsigned)__builtin_ctzll(numbers);

                if (!(moved >> slot & 1))
                        continue;
                put_value(coder, hints, entry->now[slot], &entry->then[slot], *value);
                entry->now[slot] = *value;
        }
}

static uint64_t moved_values(const struct entry *entry, const struct row_head *row, uint64_t numbers)
{
        const uint64_t *value = (const uint64_t *)(row + 1);
        uint64_t moved = 0;

        for (; numbers; numbers &= numbers - 1, value++)
                if (entry->now[__builtin_ctzll(numbers)] != *value)
                        moved |= numbers & -numbers;
        return moved;
}

static int put_place(struct bytes_out *out, struct pass *pass, struct key key, struct entry **found)
{
        struct entry *entry = NULL;
        uint64_t none = 0;
        bool fresh = false;

        pass->rows->cursor = pass->expected;
        entry = rows_find_next(pass->rows, key);
        if (entry && !((struct coder_row *)entry)->gone) {
                put_number(out, PLACE_KNOWN + zigzag((uint64_t)entry->index - pass->expected));
        } else {
                if (entry) /* it left within this frame and comes again: a new row takes its key */
                        rows_sweep(pass->rows, row_gone, NULL);
                put_number(out, PLACE_NEW);
                put_value(pass->coder, no_hints, pass->last_key.a, &none, key.a);
                none = 0;
                put_value(pass->coder, no_hints, pass->last_key.b, &none, key.b);
                entry = rows_add(pass->rows, key);
                if (!entry)
                        return -ENOMEM;
                fresh = true;
        }
        touch(pass, entry, fresh);
        *found = entry;
        return 0;
}

/* Our own writers' offsets are multiples of a part of the tick (sample.c) and travel in it; others in us. */
static void put_offset(struct pass *pass, int32_t offset_us)
{
        int64_t step = (int64_t)offset_us - pass->last_offset, quantum = pass->coder->quantum_us;
        bool odd = step % quantum != 0;

        put_number(&pass->coder->out, zigzag((uint64_t)(odd ? step : step / quantum)) << 1 | odd);
        pass->last_offset = offset_us;
}

static int32_t get_offset(struct bytes_in *in, struct pass *pass)
{
        uint64_t number = get_number(in), quantum = number & 1 ? 1 : (uint64_t)pass->coder->quantum_us;

        pass->last_offset = (int32_t)((uint64_t)pass->last_offset + unzigzag(number >> 1) * quantum);
        return pass->last_offset;
}

static int put_row(struct pass *pass, const struct row_head *row)
{
        struct bytes_out *out = &pass->coder->out;
        struct entry *entry;
        int error = 0;

        if (!row_regular(pass, row)) {
                put_number(out, PLACE_RAW);
                put_number(out, row->length / 8);
                put_bytes(out, row, row->length);
                return 0;
        }
        error = put_place(out, pass, row->key, &entry);
        if (error < 0)
                return error;
        unsigned odd = row->flags != 0 || row->pad != 0 ? ROW_ODD : 0;
        if (row->kind == ROW_TOMBSTONE) {
                put_byte(out, ROW_GONE | odd);
                put_byte(out, row->reason);
                bury((struct coder_row *)entry);
        } else {
                uint64_t texts = pass->rows->texts, had = expected_present(pass, entry);
                uint64_t differing = differing_texts(pass, entry, row, entry->present, &error);
                entry->present = row->present;
                uint64_t numbers = row->present & ~texts, moved = moved_values(entry, row, numbers);
                put_byte(out, odd | (row->present != had ? ROW_PRESENT : 0) | (row->texts ? ROW_TEXTS : 0) |
                         (differing ? ROW_NEW_TEXTS : 0) | (row->texts == (row->present & texts) ? ROW_ALL_TEXTS : 0) |
                         (moved ? ROW_VALUES_MOVED : 0));
                if (row->present != had)
                        put_number(out, row->present ^ had);
                put_offset(pass, row->offset_us);
                put_texts(out, pass, entry, row, differing);
                if (moved)
                        put_values(pass->coder, (uint64_t[2]){row->key.b, read_time(pass, row->offset_us)}, entry, row, numbers, moved);
                keep_newest(pass, entry);
        }
        if (odd) {
                put_number(out, row->flags);
                put_number(out, row->pad);
        }
        return error;
}

static void begin_frame(struct log_coder *coder, uint64_t tick_ns)
{
        coder->quantum_us = frame_offset_quantum(tick_ns);
        coder->out.used = coder->noise.used = 0;
        coder->out.failed = coder->noise.failed = false;
        coder->epoch++;
}

static void put_head(struct log_coder *coder, const struct frame_head *head)
{
        static const uint8_t none[sizeof head->reserved];
        struct bytes_out *out = &coder->out;
        const struct frame_head *last = &coder->last;
        bool boot = memcmp(head->boot_id, last->boot_id, sizeof head->boot_id) != 0, odd = memcmp(head->reserved, none, sizeof none) != 0;

        put_byte(out, (boot ? FRAME_BOOT_ID : 0u) | (odd ? FRAME_RESERVED : 0u));
        put_change(out, last->boot_ns - last->mono_ns, head->boot_ns - head->mono_ns);
        put_change(out, last->tick_ns, head->tick_ns);
        put_number(out, head->gap);
        put_number(out, last->scopes_on ^ head->scopes_on);
        put_number(out, head->missed);
        put_number(out, head->sequence - head->full_sequence);
        put_change(out, last->writer_ns, head->writer_ns);
        if (boot)
                put_bytes(out, head->boot_id, sizeof head->boot_id);
        if (odd)
                put_bytes(out, head->reserved, sizeof head->reserved);
        put_number(out, head->scopes);
}

static int put_scope(struct log_coder *coder, const struct frame_head *head, const struct scope_head *scope)
{
        struct bytes_out *out = &coder->out;
        struct pass pass;
        int error = 0;

        put_number(out, scope->scope);
        put_number(out, scope->rows);
        put_change(out, head->mono_ns, scope->start_ns);
        put_change(out, scope->start_ns, scope->end_ns);
        put_number(out, scope->flags);
        put_number(out, scope->reserved);
        begin_pass(&pass, coder, head, scope);
        for (const struct row_head *row = NULL; error == 0 && (row = frame_row_next(scope, row));)
                error = put_row(&pass, row);
        end_pass(&pass, head->flags & FRAME_FULL);
        return error;
}

int log_encode(struct log_coder *coder, const struct frame_head *head, const uint8_t **bytes, size_t *length)
{
        int error = 0;

        begin_frame(coder, head->tick_ns);
        put_head(coder, head);
        for (const struct scope_head *scope = NULL; error == 0 && (scope = frame_scope_next(head, scope));)
                error = put_scope(coder, head, scope);
        coder->last = *head;
        uint32_t first = (uint32_t)coder->out.used;
        put_bytes(&coder->out, coder->noise.bytes, coder->noise.used);
        put_bytes(&coder->out, &first, sizeof first);
        if (error < 0 || coder->out.failed || coder->noise.failed)
                return error < 0 ? error : -ENOMEM;
        *bytes = coder->out.bytes;
        *length = coder->out.used;
        return 0;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

static uint64_t get_value(struct bytes_in *in, struct bytes_in *noise, const uint64_t hints[2], uint64_t old, uint64_t *grew)
{
        unsigned first = get_byte(in), bytes = first >> 3 & 15;
        uint64_t number = bytes;

        if (first & 0x80) {
                number = 0;
                in->failed |= bytes > 8;
                for (unsigned i = 0; i < bytes && !in->failed; i++)
                        number |= (uint64_t)get_byte(noise) << 8 * i;
        }
        unsigned tag = first & 7;
        uint64_t now = tag >= 6 ? hints[tag - 6] + unzigzag(number) * (tag == 7 ? HINT_NS : 1) :
                old + unzigzag(number) * units[tag & 3] + (tag >= 4 ? *grew : 0);
        *grew = now - old;
        return now;
}

static int get_place(struct bytes_in *in, struct pass *pass, uint64_t place, struct entry **found)
{
        struct entry *entry;

        if (place == PLACE_NEW) {
                struct key key;
                uint64_t none = 0;

                key.a = get_value(in, &pass->coder->noise_in, no_hints, pass->last_key.a, &none);
                none = 0;
                key.b = get_value(in, &pass->coder->noise_in, no_hints, pass->last_key.b, &none);
                entry = rows_find(pass->rows, key);
                if (entry && !((struct coder_row *)entry)->gone)
                        return -EBADMSG;
                if (entry)
                        rows_sweep(pass->rows, row_gone, NULL);
                entry = in->failed ? NULL : rows_add(pass->rows, key);
                if (!entry)
                        return in->failed ? -EBADMSG : -ENOMEM;
        } else {
                uint64_t index = pass->expected + unzigzag(place - PLACE_KNOWN);
                if (index >= pass->rows->count || ((struct coder_row *)pass->rows->order[index])->gone)
                        return -EBADMSG;
                entry = pass->rows->order[index];
        }
        touch(pass, entry, place == PLACE_NEW);
        *found = entry;
        return 0;
}

/* New texts into the row. */
static int get_texts(struct bytes_in *in, const struct pass *pass, struct entry *entry, unsigned control, uint64_t had, uint64_t *carried)
{
        uint64_t all = entry->present & pass->rows->texts, fresh = 0;

        *carried = 0;
        if (control & ROW_TEXTS)
                *carried = control & ROW_ALL_TEXTS ? all : spread(get_number(in), all);
        if (control & ROW_NEW_TEXTS)
                fresh = spread(get_number(in), *carried);
        if (*carried & ~fresh & ~had)
                return -EBADMSG; /* a text that was not there cannot have stayed */
        for (; fresh; fresh &= fresh - 1) {
                uint64_t length = get_number(in);
                const uint8_t *bytes = length <= UINT16_MAX ? get_bytes(&pass->coder->noise_in, (size_t)length) : NULL;
                if (!bytes)
                        return -EBADMSG;
                if (rows_text_set(pass->rows, entry, (unsigned)__builtin_ctzll(fresh), (const char *)bytes, (size_t)length) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Write the row as it is now into the frame. */
static int build_row(struct bytes_out *out, const struct pass *pass, const struct entry *entry, const struct row_head *like)
{
        uint64_t numbers = like->kind == ROW_VALUES ? entry->present & ~pass->rows->texts : 0;
        size_t length = sizeof *like + 8 * (size_t)__builtin_popcountll(numbers), used = length;

        for (uint64_t t = like->texts; t; t &= t - 1)
                length += sizeof(uint16_t) + rows_text(pass->rows, entry, (unsigned)__builtin_ctzll(t))->length;
        length = frame_align(length);
        if (out->used + length > FRAME_MAX)
                return -EBADMSG;
        uint8_t *at = bytes_extend(out, length);
        if (!at)
                return -ENOMEM;
        struct row_head head = *like;
        head.length = (uint32_t)length;
        memcpy(at, &head, sizeof head);
        uint64_t *value = (uint64_t *)(void *)(at + sizeof head);
        for (; numbers; numbers &= numbers - 1)
                *value++ = entry->now[__builtin_ctzll(numbers)];
        for (uint64_t t = like->texts; t; t &= t - 1) {
                const struct entry_text *text = rows_text(pass->rows, entry, (unsigned)__builtin_ctzll(t));
                uint16_t bytes = (uint16_t)text->length;
                memcpy(at + used, &bytes, sizeof bytes);
                if (bytes)
                        memcpy(at + used + sizeof bytes, text->bytes, bytes);
                used += sizeof bytes + bytes;
        }
        memset(at + used, 0, length - used);
        return 0;
}

static int get_values_row(struct bytes_in *in, struct pass *pass, struct entry *entry, unsigned control, struct row_head *row)
{
        uint64_t had = entry->present, present = expected_present(pass, entry);

        if (control & ROW_PRESENT)
                present ^= get_number(in);
        if (pass->rows->slots < 64 && present >> pass->rows->slots != 0)
                return -EBADMSG;
        entry->present = present;
        row->offset_us = get_offset(in, pass);
        int error = get_texts(in, pass, entry, control, had, &row->texts);
        if (error < 0)
                return error;
        uint64_t hints[2] = {entry->key.b, read_time(pass, row->offset_us)};
        uint64_t moved = control & ROW_VALUES_MOVED ? spread(get_number(in), present & ~pass->rows->texts) : 0;
        for (; moved; moved &= moved - 1) {
                unsigned slot = (unsigned)__builtin_ctzll(moved);
                entry->now[slot] = get_value(in, &pass->coder->noise_in, hints, entry->now[slot], &entry->then[slot]);
        }
        row->kind = ROW_VALUES;
        row->present = present;
        keep_newest(pass, entry);
        return 0;
}

static int get_raw_row(struct bytes_in *in, struct bytes_out *out)
{
        uint64_t words = get_number(in);

        if (words > FRAME_MAX / 8 || out->used + 8 * words > FRAME_MAX)
                return -EBADMSG;
        const uint8_t *bytes = get_bytes(in, (size_t)words * 8);
        if (!bytes)
                return -EBADMSG;
        put_bytes(out, bytes, (size_t)words * 8);
        return 0;
}

static int get_row(struct bytes_in *in, struct pass *pass)
{
        struct bytes_out *out = &pass->coder->out;
        struct row_head row = {0};
        struct entry *entry;

        uint64_t place = get_number(in);
        if (in->failed)
                return -EBADMSG;
        if (place == PLACE_RAW)
                return get_raw_row(in, out);
        int error = get_place(in, pass, place, &entry);
        if (error < 0)
                return error;
        row.key = entry->key;
        unsigned control = get_byte(in);
        if (control & ROW_GONE) {
                row.kind = ROW_TOMBSTONE;
                row.reason = (uint8_t)get_byte(in);
                bury((struct coder_row *)entry);
        } else {
                error = get_values_row(in, pass, entry, control, &row);
        }
        if (control & ROW_ODD) {
                row.flags = (uint16_t)get_number(in);
                row.pad = (uint32_t)get_number(in);
        }
        if (error == 0 && (in->failed || pass->coder->noise_in.failed))
                error = -EBADMSG;
        return error < 0 ? error : build_row(out, pass, entry, &row);
}

static void get_head(struct bytes_in *in, const struct frame_head *last, const struct log_step *step, struct frame_head *head)
{
        unsigned bits = get_byte(in);
        const uint8_t *bytes;

        *head = (struct frame_head){.magic = FRAME_MAGIC, .layout = FRAME_LAYOUT, .flags = step->flags, .sequence = step->sequence,
                .mono_ns = step->mono_ns, .real_ns = step->real_ns};
        head->boot_ns = head->mono_ns + get_change(in, last->boot_ns - last->mono_ns);
        head->tick_ns = get_change(in, last->tick_ns);
        head->gap = (uint32_t)get_number(in);
        head->scopes_on = last->scopes_on ^ (uint32_t)get_number(in);
        head->missed = (uint32_t)get_number(in);
        head->full_sequence = head->sequence - get_number(in);
        head->writer_ns = get_change(in, last->writer_ns);
        memcpy(head->boot_id, last->boot_id, sizeof head->boot_id);
        if (bits & FRAME_BOOT_ID && (bytes = get_bytes(in, sizeof head->boot_id)))
                memcpy(head->boot_id, bytes, sizeof head->boot_id);
        if (bits & FRAME_RESERVED && (bytes = get_bytes(in, sizeof head->reserved)))
                memcpy(head->reserved, bytes, sizeof head->reserved);
        head->scopes = (uint32_t)get_number(in);
}

static int get_scope(struct bytes_in *in, struct log_coder *coder, const struct frame_head *frame)
{
        struct scope_head head = {0};
        size_t at = coder->out.used;
        const uint8_t *from = in->at, *noise_from = coder->noise_in.at;
        struct pass pass;

        head.scope = (uint32_t)get_number(in);
        head.rows = (uint32_t)get_number(in);
        head.start_ns = get_change(in, frame->mono_ns);
        head.end_ns = get_change(in, head.start_ns);
        head.flags = (uint32_t)get_number(in);
        head.reserved = get_number(in);
        if (in->failed || head.scope >= SCOPES || head.rows > FRAME_ROWS)
                return -EBADMSG;
        if (!bytes_extend(&coder->out, sizeof head))
                return -ENOMEM;
        begin_pass(&pass, coder, frame, &head);
        int error = 0;
        for (uint32_t i = 0; i < head.rows && error == 0; i++)
                error = get_row(in, &pass);
        end_pass(&pass, frame->flags & FRAME_FULL);
        if (error < 0)
                return error;
        coder->bytes[head.scope] += (uint64_t)(in->at - from) + (uint64_t)(coder->noise_in.at - noise_from);
        head.length = (uint32_t)(coder->out.used - at);
        memcpy(coder->out.bytes + at, &head, sizeof head);
        return 0;
}

int log_decode(struct log_coder *coder, const struct log_step *step, const uint8_t *bytes, size_t length, const struct frame_head **frame)
{
        struct frame_head head;
        uint32_t first;
        int error = 0;

        if (length < sizeof first)
                return -EBADMSG;
        length -= sizeof first;
        memcpy(&first, bytes + length, sizeof first);
        if (first > length)
                return -EBADMSG;
        struct bytes_in in = {.at = bytes, .end = bytes + first};
        coder->noise_in = (struct bytes_in){.at = in.end, .end = bytes + length};
        get_head(&in, &coder->last, step, &head);
        begin_frame(coder, head.tick_ns);
        if (in.failed || head.scopes > SCOPES)
                return -EBADMSG;
        coder->bytes[SCOPES] += (uint64_t)(in.at - bytes);
        if (!bytes_extend(&coder->out, sizeof head))
                return -ENOMEM;
        for (uint32_t i = 0; i < head.scopes && error == 0; i++)
                error = get_scope(&in, coder, &head);
        if (error < 0 || coder->out.failed)
                return error < 0 ? error : -ENOMEM;
        if (in.at != in.end || coder->noise_in.at != coder->noise_in.end || coder->out.used > FRAME_MAX)
                return -EBADMSG;
        head.length = (uint32_t)coder->out.used;
        memcpy(coder->out.bytes, &head, sizeof head);
        ((struct frame_head *)(void *)coder->out.bytes)->crc = frame_crc(coder->out.bytes, coder->out.used);
        coder->last = head;
        *frame = (const void *)coder->out.bytes;
        return frame_check(coder->out.bytes, coder->out.used);
}

/*
 * The writer's table of rows, and the sealing of a tick into a frame.
 *
 * A row remembers what was last sent (`then`), so what a frame carries is decided by comparing values, not by who wrote them: a collector
 * may make a slot absent and set it again, and nothing is sent when it ends where it began. row_set() only compares and stores, because
 * it runs for every slot of every task in every tick. A frame that could not be made loses nothing: the next one is full.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/frame.h"
#include "sample/rows.h"

#define FULL_EVERY_NS UINT64_C(30000000000)
/* Readers take the time of a row that is not sent from the offset sent last: it may be wrong by this part of the tick. */
#define OFFSET_SHARE 100

struct row {
        struct entry entry;
        struct table *table;
        uintptr_t own;
        uint64_t tick_added;
        uint64_t text_dirty;       /* texts that differ from the one before */
        bool dirty;                /* something was set to another value since the row was last sent */
        bool sent;
};

struct gone {
        struct key key;
        uint8_t reason;
};

struct table {
        struct rows rows;
        int first;                 /* metric id of slot 0 */
        const uint64_t *tick;      /* the sample's */
        uint32_t epoch;            /* of the pass that runs or ran last */
        size_t touched;            /* rows seen in it */
        bool open, ever;
        uint64_t sampled_tick;     /* in which it was sampled last */
        uint64_t start_ns, end_ns;
        struct gone *gone;         /* tombstones to send */
        size_t gone_count, gone_room;
        bool gone_lost;            /* no memory for one: the next frame must be full */
        uint8_t reason;            /* of the sweep that runs */
        void (*on_free)(void *arg, uintptr_t own);
        void *on_free_arg;
};

struct sample {
        struct table tables[SCOPE_COUNT];
        struct sample_stamp stamp;
        uint64_t tick, writer_ns;
        uint64_t sequence, full_sequence, full_mono_ns;
        size_t full_length, delta_length; /* of the last full frame; of all deltas since */
        bool want_full;
        uint32_t rows;             /* in the frame being made */
        int64_t offset_slack_us;   /* as far as a row's offset may move unsent */
        int32_t offset_quantum_us; /* frame_offset_quantum() */
        char *buffer;
        size_t length, room;
};

int sample_new(struct sample **out)
{
        struct sample *sample = calloc(1, sizeof(*sample));

        if (!sample)
                return -ENOMEM;
        for (int i = 0; i < SCOPE_COUNT; i++) {
                rows_init(&sample->tables[i].rows, (enum scope)i, sizeof(struct row));
                sample->tables[i].first = scopes[i].first;
                sample->tables[i].tick = &sample->tick;
        }
        sample->want_full = true;
        *out = sample;
        return 0;
}

static void row_died(struct row *row)
{
        if (row->table->on_free && row->own)
                row->table->on_free(row->table->on_free_arg, row->own);
        row->own = 0;
}

void sample_free(struct sample *sample)
{
        if (!sample)
                return;
        for (int i = 0; i < SCOPE_COUNT; i++) {
                struct table *table = &sample->tables[i];

                for (size_t j = 0; j < table->rows.count; j++)
                        row_died((struct row *)table->rows.order[j]);
                rows_fini(&table->rows);
                free(table->gone);
        }
        free(sample->buffer);
        free(sample);
}

void sample_begin(struct sample *sample, const struct sample_stamp *stamp)
{
        sample->stamp = *stamp;
        if (sample->tick++ == 0)
                sample->writer_ns = stamp->boot_ns;
}

void sample_scope_begin(struct sample *sample, enum scope scope, uint64_t start_ns)
{
        struct table *table = &sample->tables[scope];

        table->open = table->ever = true;
        table->epoch++;
        table->touched = 0;
        table->sampled_tick = sample->tick;
        table->start_ns = table->end_ns = start_ns;
        table->rows.cursor = 0;
}

/* A row ends. One that no frame carried needs no tombstone. */
static void bury(struct table *table, struct row *row)
{
        row_died(row);
        if (!row->sent)
                return;
        if (table->gone_count == table->gone_room) {
                size_t room = table->gone_room ? table->gone_room * 2 : 16;
                struct gone *gone = realloc(table->gone, room * sizeof(*gone));

                if (!gone) {
                        table->gone_lost = true;
                        return;
                }
                table->gone = gone;
                table->gone_room = room;
        }
        table->gone[table->gone_count++] = (struct gone){row->entry.key, table->reason};
}

static bool untouched(struct entry *entry, void *arg)
{
        struct table *table = arg;

        if (entry->epoch == table->epoch)
                return false;
        bury(table, (struct row *)entry);
        return true;
}

static bool every(struct entry *entry, void *arg)
{
        bury(arg, (struct row *)entry);
        return true;
}

void sample_scope_end(struct sample *sample, enum scope scope, uint64_t end_ns, enum tombstone reason)
{
        struct table *table = &sample->tables[scope];

        if (!table->open)
                return;
        table->open = false;
        table->end_ns = end_ns;
        table->reason = (uint8_t)reason;
        if (table->touched != table->rows.count)
                rows_sweep(&table->rows, untouched, table);
}

void sample_scope_off(struct sample *sample, enum scope scope)
{
        struct table *table = &sample->tables[scope];

        table->open = false;
        table->reason = GONE_UNSAMPLED;
        rows_sweep(&table->rows, every, table);
}

struct row *sample_row(struct sample *sample, enum scope scope, struct key key, uint64_t now_ns)
{
        struct table *table = &sample->tables[scope];
        struct row *row = (struct row *)rows_find_next(&table->rows, key);

        if (!row) {
                row = (struct row *)rows_add(&table->rows, key);
                if (!row)
                        return NULL;
                row->table = table;
                row->tick_added = sample->tick;
                row->entry.epoch = table->epoch - 1;
                row->dirty = true;         /* even a row without a value is news */
        }
        if (row->entry.epoch != table->epoch) {
                row->entry.epoch = table->epoch;
                table->touched++;
        }
        int64_t offset = now_ns ? (int64_t)(now_ns - table->start_ns) / 1000 : 0;
        row->entry.offset_us = offset > INT32_MAX ? INT32_MAX : offset < -INT32_MAX ? -INT32_MAX : (int32_t)offset;
        return row;
}

struct row *sample_find(struct sample *sample, enum scope scope, struct key key)
{
        return (struct row *)rows_find(&sample->tables[scope].rows, key);
}

bool row_is_new(const struct row *row)
{
        return row->tick_added == *row->table->tick;
}

uintptr_t *row_own(struct row *row)
{
        return &row->own;
}

void sample_on_free(struct sample *sample, enum scope scope, void (*on_free)(void *, uintptr_t), void *arg)
{
        sample->tables[scope].on_free = on_free;
        sample->tables[scope].on_free_arg = arg;
}

/* ---- slots ------------------------------------------------------------------------------------------------------------------ */

/* The slot's bit, 0 when the metric is of another scope. */
static inline uint64_t bit_of(const struct row *row, int metric, unsigned *slot)
{
        *slot = (unsigned)(metric - row->table->first);
        return *slot < row->table->rows.slots ? UINT64_C(1) << *slot : 0;
}

void row_set(struct row *row, int metric, uint64_t value)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot) & ~row->table->rows.texts;

        if (bit == 0 || ((row->entry.present & bit) && row->entry.now[slot] == value))
                return;
        row->entry.now[slot] = value;
        row->entry.present |= bit;
        row->dirty = true;
}

void row_absent(struct row *row, int metric)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot);

        if (!(row->entry.present & bit))
                return;
        row->entry.present &= ~bit;
        row->entry.now[slot] = 0;
        row->dirty = true;
}

void row_text(struct row *row, int metric, const char *bytes, size_t length)
{
        unsigned slot;
        struct rows *rows = &row->table->rows;
        uint64_t bit = bit_of(row, metric, &slot) & rows->texts;

        if (bit == 0)
                return;
        if (!bytes) {
                row_absent(row, metric);
                return;
        }
        if (length > TEXT_MAX)
                length = TEXT_MAX;
        /* An absent text keeps its bytes, so that setting the same again is no change. */
        const struct entry_text *text = rows_text(rows, &row->entry, slot);
        if (text->length != length || (length > 0 && memcmp(text->bytes, bytes, length) != 0)) {
                if (rows_text_set(rows, &row->entry, slot, bytes, length) < 0) {
                        row_absent(row, metric);
                        return;
                }
                row->text_dirty |= bit;
                row->dirty = true;
        }
        if (!(row->entry.present & bit)) {
                row->entry.present |= bit;
                row->dirty = true;
        }
}

bool row_get(const struct row *row, int metric, uint64_t *value)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot) & ~row->table->rows.texts;

        if (!(row->entry.present & bit))
                return false;
        *value = row->entry.now[slot];
        return true;
}

const char *row_get_text(const struct row *row, int metric, size_t *length)
{
        unsigned slot;
        uint64_t bit = bit_of(row, metric, &slot) & row->table->rows.texts;

        if (!(row->entry.present & bit))
                return NULL;
        const struct entry_text *text = rows_text(&row->table->rows, &row->entry, slot);
        *length = text->length;
        return text->bytes ? text->bytes : "";
}

struct key row_key(const struct row *row)
{
        return row->entry.key;
}

size_t sample_rows(struct sample *sample, enum scope scope)
{
        return sample->tables[scope].rows.count;
}

struct row *sample_row_at(struct sample *sample, enum scope scope, size_t index)
{
        const struct rows *rows = &sample->tables[scope].rows;

        return index < rows->count ? (struct row *)rows->order[index] : NULL;
}

/* ---- sealing ---------------------------------------------------------------------------------------------------------------- */

/* `length` more bytes at the end of the frame; NULL with *error set when they cannot be had. */
static void *extend(struct sample *sample, size_t length, int *error)
{
        size_t needed = sample->length + length;

        if (needed > FRAME_MAX) {
                *error = -EFBIG;
                return NULL;
        }
        if (needed > sample->room) {
                size_t room = sample->room ? sample->room : 4096;

                while (room < needed)
                        room *= 2;
                char *buffer = realloc(sample->buffer, room);
                if (!buffer) {
                        *error = -ENOMEM;
                        return NULL;
                }
                sample->buffer = buffer;
                sample->room = room;
        }
        void *at = sample->buffer + sample->length;
        sample->length = needed;
        return at;
}

static bool row_changed(const struct sample *sample, const struct row *row)
{
        const struct entry *entry = &row->entry;
        int64_t moved = (int64_t)entry->offset_us - entry->then_offset_us;

        if (row->sent && (moved > sample->offset_slack_us || -moved > sample->offset_slack_us))
                return true;
        if (!row->dirty)
                return false;
        return !row->sent || entry->present != entry->then_present || row->text_dirty != 0 ||
               memcmp(entry->now, entry->then, sizeof(uint64_t) * row->table->rows.slots) != 0;
}

static char *put_texts(char *at, const struct rows *rows, const struct entry *entry, uint64_t texts)
{
        for (; texts; texts &= texts - 1) {
                const struct entry_text *text = rows_text(rows, entry, (unsigned)__builtin_ctzll(texts));
                uint16_t length = (uint16_t)text->length;

                memcpy(at, &length, sizeof length);
                at += sizeof length;
                if (length > 0)
                        memcpy(at, text->bytes, length);
                at += length;
        }
        return at;
}

/* Downwards, also below 0. */
static int32_t round_offset(int32_t offset_us, int32_t quantum)
{
        int32_t over = offset_us % quantum;

        if (over < 0)
                over += quantum;
        return offset_us < INT32_MIN + over ? offset_us : offset_us - over;
}

static int put_row(struct sample *sample, struct row *row, bool full)
{
        struct entry *entry = &row->entry;
        const struct rows *rows = &row->table->rows;
        uint64_t numbers = entry->present & ~rows->texts, texts = entry->present & rows->texts;
        size_t length = sizeof(struct row_head) + 8 * (size_t)__builtin_popcountll(numbers);
        int error = 0;

        entry->then_offset_us = round_offset(entry->offset_us, sample->offset_quantum_us);
        if (!full && row->sent)
                texts &= row->text_dirty | ~entry->then_present;
        for (uint64_t t = texts; t; t &= t - 1)
                length += sizeof(uint16_t) + rows_text(rows, entry, (unsigned)__builtin_ctzll(t))->length;
        length = frame_align(length);

        struct row_head *head = extend(sample, length, &error);
        if (!head)
                return error;
        *head = (struct row_head){
                .length = (uint32_t)length, .kind = ROW_VALUES, .key = entry->key, .offset_us = entry->then_offset_us,
                .present = entry->present, .texts = texts,
        };
        uint64_t *value = (uint64_t *)(head + 1);
        for (; numbers; numbers &= numbers - 1)
                *value++ = entry->now[__builtin_ctzll(numbers)];
        char *end = put_texts((char *)value, rows, entry, texts);
        memset(end, 0, (size_t)((char *)head + length - end));

        if (row->dirty) {
                memcpy(entry->then, entry->now, sizeof(uint64_t) * rows->slots);
                entry->then_present = entry->present;
        }
        row->text_dirty = 0;
        row->dirty = false;
        row->sent = true;
        return 0;
}

static int put_gone(struct sample *sample, const struct gone *gone)
{
        int error = 0;
        struct row_head *head = extend(sample, sizeof(*head), &error);

        if (!head)
                return error;
        *head = (struct row_head){.length = sizeof(*head), .kind = ROW_TOMBSTONE, .reason = gone->reason, .key = gone->key};
        return 0;
}

/* Tombstones come first: a key that left and came back within a tick is a new row. They are in full frames too, for their reasons. */
static int put_table(struct sample *sample, enum scope scope, bool full)
{
        struct table *table = &sample->tables[scope];
        size_t at = sample->length;
        bool sampled = full || table->sampled_tick == sample->tick;
        uint32_t rows = 0;
        int error = 0;

        if (!extend(sample, sizeof(struct scope_head), &error))
                return error;
        for (size_t i = 0; i < table->gone_count && error == 0; i++, rows++)
                error = put_gone(sample, &table->gone[i]);
        for (size_t i = 0; sampled && i < table->rows.count && error == 0; i++) {
                struct row *row = (struct row *)table->rows.order[i];

                if (!full && !row_changed(sample, row)) {
                        row->dirty = false;
                        continue;
                }
                error = put_row(sample, row, full);
                rows++;
        }
        sample->rows += rows;
        if (error == 0 && sample->rows > FRAME_ROWS)
                error = -EFBIG;
        if (error < 0)
                return error;
        *(struct scope_head *)(void *)(sample->buffer + at) = (struct scope_head){
                .scope = (uint32_t)scope, .rows = rows, .length = (uint32_t)(sample->length - at),
                .start_ns = table->start_ns, .end_ns = table->end_ns,
        };
        return 0;
}

static bool must_be_full(const struct sample *sample, const struct seal *seal)
{
        if (sample->want_full || (seal->flags & FRAME_FULL) || sample->delta_length > sample->full_length)
                return true;
        for (int i = 0; i < SCOPE_COUNT; i++)
                if (sample->tables[i].gone_lost)
                        return true;
        /* Unsigned: a clock that went backwards asks for a full frame as well. */
        return sample->stamp.mono_ns - sample->full_mono_ns >= FULL_EVERY_NS;
}

static int put_tables(struct sample *sample, bool full, uint32_t *count)
{
        for (int i = 0; i < SCOPE_COUNT; i++) {
                const struct table *table = &sample->tables[i];

                if (!(full ? table->ever : table->sampled_tick == sample->tick || table->gone_count > 0))
                        continue;
                int error = put_table(sample, (enum scope)i, full);
                if (error < 0)
                        return error;
                ++*count;
        }
        return 0;
}

static void sealed(struct sample *sample, bool full)
{
        sample->sequence++;
        if (full) {
                sample->full_sequence = sample->sequence;
                sample->full_mono_ns = sample->stamp.mono_ns;
                sample->full_length = sample->length;
                sample->delta_length = 0;
                sample->want_full = false;
        } else {
                sample->delta_length += sample->length;
        }
        for (int i = 0; i < SCOPE_COUNT; i++) {
                sample->tables[i].gone_count = 0;
                sample->tables[i].gone_lost = false;
        }
}

int sample_seal(struct sample *sample, const struct seal *seal, const void **frame, size_t *length)
{
        bool full = must_be_full(sample, seal);
        uint32_t count = 0;
        int error = 0;

        sample->length = 0;
        sample->rows = 0;
        sample->offset_slack_us = (int64_t)(seal->tick_ns / 1000 / OFFSET_SHARE);
        sample->offset_quantum_us = frame_offset_quantum(seal->tick_ns);
        if (extend(sample, sizeof(struct frame_head), &error))
                error = put_tables(sample, full, &count);
        if (error < 0) {
                sample->want_full = true; /* rows believe that they were sent */
                return error;
        }
        sealed(sample, full);

        struct frame_head *head = (void *)sample->buffer;
        *head = (struct frame_head){
                .magic = FRAME_MAGIC, .length = (uint32_t)sample->length, .layout = FRAME_LAYOUT,
                .flags = (uint16_t)((seal->flags & ~(uint32_t)FRAME_FULL) | (full ? (uint32_t)FRAME_FULL : 0)),
                .sequence = sample->sequence,
                .mono_ns = sample->stamp.mono_ns, .boot_ns = sample->stamp.boot_ns, .real_ns = sample->stamp.real_ns,
                .tick_ns = seal->tick_ns, .gap = (uint32_t)seal->gap, .scopes_on = seal->scopes_on, .missed = seal->missed,
                .scopes = count, .full_sequence = sample->full_sequence, .writer_ns = sample->writer_ns,
        };
        memcpy(head->boot_id, seal->boot_id, sizeof head->boot_id);
        head->crc = frame_crc(head, sample->length);
        *frame = head;
        *length = sample->length;
        return 0;
}

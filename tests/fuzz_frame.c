/*
 * Frames from a stranger: check, then apply to a state, with our own schema and with one whose slots lie elsewhere. Lengths and checksum
 * are put right first, so that mutations reach what lies behind them. An input is one or more frames: u32 length, bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample/frame.h"
#include "sample/state.h"
#include "tests/sealed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

/* All that a view could ask. */
static uint64_t read_all(const struct state *state)
{
        uint64_t sum = state_info(state).to_sequence, level;
        char text[64];
        double delta;

        for (int scope = 0; scope < SCOPE_COUNT; scope++) {
                for (size_t i = 0; i < state_count(state, (enum scope)scope); i++) {
                        const struct state_row *row = state_at(state, (enum scope)scope, i);

                        sum += row->present + (uint64_t)state_row_seconds(row);
                        for (int m = scopes[scope].first; m < scopes[scope].first + scopes[scope].count; m++) {
                                sum += (uint64_t)state_delta(row, m, &delta) + (state_now(row, m, &level) ? level : 0);
                                sum += (uint64_t)state_text_copy(state, row, m, text, sizeof text)[0];
                        }
                }
        }
        return sum;
}

static void moved_schema(struct schema *schema)
{
        static const char block[] = "watop schema 1\nscope 3 moon\nslot 0 moon.phase text text\nslot 40 moon.age gauge ns\n"
                                    "scope 0 process\nslot 63 process.user time ns\nslot 0 process.comm text text\n"
                                    "slot 1 process.start gauge ns\nscope 1 cpu\n";

        if (schema_read(schema, block, sizeof block - 1) < 0)
                abort();
}

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct state *state;
        struct schema schema;
        size_t at = 0;

        if (state_new(&state) < 0)
                return 0;
        moved_schema(&schema);
        while (size - at > 4) {
                uint32_t length;

                memcpy(&length, data + at, 4);
                at += 4;
                if (length > size - at)
                        length = (uint32_t)(size - at);
                length &= ~UINT32_C(7);
                struct frame_head *head = malloc(length ? length : 1);
                if (!head)
                        break;
                memcpy(head, data + at, length);
                at += length;
                if (length >= sizeof *head) {
                        head->magic = FRAME_MAGIC;
                        head->length = length;
                        head->crc = frame_crc(head, length);
                }
                if (frame_check(head, length) == 0) {
                        if (state_apply(state, head, head->missed & 1 ? &schema : NULL) == 0)
                                sink += read_all(state);
                        if (head->sequence % 3 == 0)
                                state_base(state);
                }
                free(head);
        }
        state_free(state);
        return 0;
}

/* Frames of one writer, full ones and deltas, tombstones, texts. */
static size_t put(uint8_t *buffer, size_t size, size_t at, const struct sealed *s)
{
        uint32_t length = (uint32_t)s->length;

        if (size - at < length + 4u)
                return at;
        memcpy(buffer + at, &length, 4);
        memcpy(buffer + at + 4, s->frame, length);
        return at + 4 + length;
}

static void write_row(struct sealed *s, enum scope scope, uint64_t key, uint64_t value)
{
        struct row *row = sample_row(s->sample, scope, key_of(key), s->mono + key * 1000);

        for (int m = scopes[scope].first; row && m < scopes[scope].first + scopes[scope].count; m++) {
                if (metrics[m].kind == KIND_TEXT)
                        row_text(row, m, "some text that is long enough", (size_t)((value + key) % 29));
                else if (value % 5 != 4 || m % 2)
                        row_set(row, m, value * 1000 + key);
        }
}

/* A frame of a writer with the other schema. */
static size_t moved_seed(uint8_t *buffer, size_t size)
{
        uint64_t space[64] = {0};
        struct frame_head *head = (void *)space;
        struct scope_head *scope = (void *)(head + 1);
        struct row_head *row = (void *)(scope + 1);
        uint32_t row_length = sizeof *row + 2 * 8 + 8;
        uint32_t length = (uint32_t)(sizeof *head + sizeof *scope) + row_length;

        if (size < length + 4u)
                return 0;
        *head = (struct frame_head){.layout = FRAME_LAYOUT, .flags = FRAME_FULL, .sequence = 1, .full_sequence = 1, .scopes = 1,
                                    .missed = 1};
        *scope = (struct scope_head){.scope = 0, .rows = 1, .length = (uint32_t)sizeof *scope + row_length};
        *row = (struct row_head){.length = row_length, .kind = ROW_VALUES, .present = UINT64_C(1) << 63 | 3, .texts = 1};
        memcpy((char *)(row + 1) + 16, "\004\000comm", 6);
        memcpy(buffer, &length, 4);
        memcpy(buffer + 4, space, length);
        return length + 4;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        struct sealed s;
        size_t at = 0;

        if (number == 8)
                return moved_seed(buffer, size);
        if (number > 8)
                return 0;
        sealed_open(&s);
        for (unsigned tick = 0; tick < 2 + number; tick++) {
                sealed_tick(&s, SECOND);
                for (int scope = 0; scope < SCOPE_COUNT; scope++) {
                        if (number < 6 && scope % 6 != (int)number)
                                continue;
                        sample_scope_begin(s.sample, (enum scope)scope, s.mono);
                        for (uint64_t key = tick % 2; key < 3; key++)
                                write_row(&s, (enum scope)scope, key, tick * 10);
                        sample_scope_end(s.sample, (enum scope)scope, s.mono + 5, GONE_EXITED);
                }
                s.flags = tick % 3 == 0 ? FRAME_FULL : 0;
                sealed_seal(&s);
                at = put(buffer, size, at, &s);
        }
        sealed_close(&s);
        return at;
}

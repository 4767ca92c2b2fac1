#pragma once
/*
 * For the tests of the log and its fuzzer: temporary files, frames of a machine in which things happen, frames that are legal but no writer
 * of ours makes, and a comparison that names what differs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/frame.h"
#include "sample/log.h"
#include "tests/sealed.h"

struct kept {
        struct frame_head **frames;
        size_t count, room;
};

static inline void kept_add(struct kept *kept, const void *frame, size_t length)
{
        if (kept->count == kept->room) {
                kept->room = kept->room ? kept->room * 2 : 64;
                kept->frames = realloc(kept->frames, kept->room * sizeof *kept->frames);
                if (!kept->frames)
                        abort();
        }
        kept->frames[kept->count] = malloc(length);
        if (!kept->frames[kept->count])
                abort();
        memcpy(kept->frames[kept->count++], frame, length);
}

static inline void kept_free(struct kept *kept)
{
        for (size_t i = 0; i < kept->count; i++)
                free(kept->frames[i]);
        free(kept->frames);
        *kept = (struct kept){0};
}

static inline bool same_frame(const struct frame_head *a, const struct frame_head *b)
{
        return a->length == b->length && memcmp(a, b, a->length) == 0;
}

/* One tick of a machine with `tasks` processes of which a tenth runs; they come and go. */
static inline void machine_tick(struct sealed *s, uint64_t *random, unsigned tasks)
{
        sealed_tick(s, SECOND + sealed_random(random) % 1000000);
        sample_scope_begin(s->sample, SCOPE_CPU, s->mono + 1000);
        for (uint64_t cpu = 0; cpu < 2; cpu++) {
                struct row *row = sample_row(s->sample, SCOPE_CPU, key_of(cpu), 0);
                for (int m = CPU_FIRST; m < CPU_END; m++) {
                        uint64_t old = 0;
                        row_get(row, m, &old);
                        row_set(row, m, old + (m % 3 ? 0 : sealed_random(random) % 100 * 10000000));
                }
        }
        sample_scope_end(s->sample, SCOPE_CPU, s->mono + 2000, GONE_EXITED);
        sample_scope_begin(s->sample, SCOPE_PROCESS, s->mono + 3000);
        for (uint64_t id = 1; id <= tasks; id++) {
                char text[40];
                struct key key = {id, id + sealed_random(random) % 500 / 499 * 1000};
                struct row *row = sample_row(s->sample, SCOPE_PROCESS, key, s->mono + id * 10000 + sealed_random(random) % 4096);
                if (!row_is_new(row) && sealed_random(random) % 10 != 0)
                        continue;
                for (int m = PROCESS_FIRST; m < PROCESS_END; m++) {
                        uint64_t old = 0;
                        if (metrics[m].kind == KIND_TEXT) {
                                if (row_is_new(row) || sealed_random(random) % 50 == 0)
                                        row_text(row, m, text, (size_t)snprintf(text, sizeof text, "text %u of %u",
                                                (unsigned)(sealed_random(random) % 9), (unsigned)id));
                                continue;
                        }
                        row_get(row, m, &old);
                        if (sealed_random(random) % 40 == 0)
                                row_absent(row, m);
                        else if (m % 4 != 0)
                                row_set(row, m, old + sealed_random(random) % (UINT64_C(1) << (m % 40)));
                }
        }
        sample_scope_end(s->sample, SCOPE_PROCESS, s->mono + 50000, GONE_EXITED);
}

/* A frame with random rows: any number of scopes, keys twice, odd flags and padding, words of any size. Its length. */
static inline size_t odd_frame(uint64_t *space, size_t words, uint64_t *random, uint64_t sequence, uint64_t full_sequence)
{
        struct frame_head *head = (void *)space;
        memset(space, 0, words * 8);
        *head = (struct frame_head){.magic = FRAME_MAGIC, .layout = FRAME_LAYOUT, .sequence = sequence, .full_sequence = full_sequence,
                .flags = (uint16_t)((full_sequence == sequence ? FRAME_FULL : 0u) | (sealed_random(random) % 8 == 0 ? FRAME_MARK : 0u)),
                .mono_ns = sealed_random(random), .boot_ns = sealed_random(random),
                .real_ns = sealed_random(random), .tick_ns = sealed_random(random) % 3 * SECOND,
                .gap = (uint32_t)(sealed_random(random) % 6),
                .missed = (uint32_t)(sealed_random(random) % 2), .writer_ns = sequence / 7, .boot_id = {(uint8_t)(sequence / 5)}};
        if (sealed_random(random) % 5 == 0)
                head->reserved[3] = 9;
        uint8_t *at = (uint8_t *)(head + 1);
        for (uint32_t number = 0; number < 32; number++) {
                if (sealed_random(random) % 3 != 0)
                        continue;
                struct scope_head *scope = (void *)at;
                *scope = (struct scope_head){.scope = number, .start_ns = sealed_random(random), .end_ns = sealed_random(random),
                        .flags = (uint32_t)(sealed_random(random) % 2), .reserved = sealed_random(random) % 2};
                at += sizeof *scope;
                for (uint64_t rows = sealed_random(random) % 6; rows > 0; rows--, scope->rows++) {
                        struct row_head *row = (void *)at;
                        uint64_t body = sealed_random(random) % 12;
                        *row = (struct row_head){.kind = ROW_VALUES, .length = (uint32_t)(sizeof *row + 8 * body),
                                .flags = (uint16_t)(sealed_random(random) % 3),
                                .key = {sealed_random(random) % 5, sealed_random(random) % 2}, .offset_us = (int32_t)sealed_random(random),
                                .pad = (uint32_t)(sealed_random(random) % 4 / 3)};
                        if (sealed_random(random) % 4 == 0) {
                                row->kind = ROW_TOMBSTONE;
                                row->reason = (uint8_t)(sealed_random(random) % 4);
                                row->length = sizeof *row;
                                row->offset_us = sealed_random(random) % 2 ? row->offset_us : 0;
                                body = 0;
                        } else {
                                row->present = sealed_random(random) & sealed_random(random);
                                row->present &= (UINT64_C(2) << sealed_random(random) % 63) - 1;
                                row->texts = row->present & sealed_random(random) & sealed_random(random);
                        }
                        for (uint64_t i = 0; i < body; i++) {
                                uint64_t word = sealed_random(random) % 3 ? sealed_random(random) >> sealed_random(random) % 64 : 0;
                                memcpy(at + sizeof *row + 8 * i, &word, sizeof word);
                        }
                        at += row->length;
                }
                scope->length = (uint32_t)(at - (uint8_t *)scope);
                head->scopes++;
        }
        head->length = (uint32_t)(at - (uint8_t *)head);
        head->crc = frame_crc(head, head->length);
        return head->length;
}

/* A folder of our own, and a path in it. */
static inline char *temp_folder(void)
{
        static char folder[64];
        snprintf(folder, sizeof folder, "/tmp/watop-log.XXXXXX");
        if (!mkdtemp(folder))
                abort();
        return folder;
}

/*
 * Strangers' bytes mapped as a ring: any head, any moving words, any frames. A reader may refuse them or show whole, checked frames;
 * nothing else. Input: the first 4 KiB of the ring's file, then the start of its frames (a seed's are sound). The schema block is this
 * build's own (fuzz_schema has the others). Bit 0 of the last byte cuts the file short while it is mapped.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample/cursor.h"
#include "sample/ring_layout.h"
#include "tests/ring_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size);

enum { FRAMES_SHOWN = 24 };

static char schema[RING_SCHEMA_BYTES];
static size_t schema_length;
static char *map;
static int file = -1;

static const size_t file_length = RING_DATA_AT + RING_MIN_SIZE;

static void prepare(void)
{
        if (schema_length == 0)
                schema_length = schema_write(schema, sizeof schema);
        if (file < 0)
                file = memfd_create("fuzz", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)file_length) < 0)
                abort();
        if (!map)
                map = mmap(NULL, file_length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map == MAP_FAILED)
                abort();
        memset(map, 0, RING_HEAD_BYTES);
        memcpy(map + RING_HEAD_BYTES, schema, schema_length);
        memset(map + RING_DATA_AT, 0, 65536);
}

static void read_all(struct ring *r, struct cursor *c, bool cut)
{
        const struct frame_head *h;
        struct ring_info info;
        for (int i = 0; i < FRAMES_SHOWN; i++) {
                if (cut && i == 2 && ftruncate(file, RING_DATA_AT / 2) < 0)
                        abort();
                int got = cursor_wait(c, 0, &h);
                if (got == CURSOR_FRAME && frame_check(h, h->length) != 0)
                        abort();
                if (got == CURSOR_END || got == CURSOR_GONE)
                        break;
        }
        ring_alive(r, 1);
        ring_info(r, &info);
        cursor_seek_sequence(c, 3);
        cursor_next(c, &h);
        cursor_seek_time(c, 1002000);
        cursor_next(c, &h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ring *r;
        struct cursor *c;
        prepare();
        size_t head = size < RING_HEAD_BYTES ? size : RING_HEAD_BYTES, rest = size - head;
        if (size > 0)
                memcpy(map, data, head);
        if (rest > 0)
                memcpy(map + RING_DATA_AT, data + head, rest < RING_MIN_SIZE ? rest : RING_MIN_SIZE);
        if (ring_open_fd(dup(file), &r) < 0)
                return 0;
        if (cursor_new(r, &c) == 0)
                read_all(r, c, size > 0 && (data[size - 1] & 1));
        cursor_free(c);
        ring_close(r);
        return 0;
}

/* Rings of three frames: plain, and one whose last frame wraps around the end. */
size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size)
{
        static _Alignas(64) char ring[RING_HEAD_BYTES + 8192];
        static _Alignas(8) char frame[1024];
        if (n > 1 || size < sizeof ring)
                return 0;
        prepare();
        struct ring_head *h = (void *)ring;
        memset(ring, 0, sizeof ring);
        *h = (struct ring_head){ .magic = RING_MAGIC, .layout = RING_LAYOUT, .head_bytes = RING_HEAD_BYTES, .capacity = RING_MIN_SIZE,
                .schema_length = (uint32_t)schema_length, .pid = 1, .version = "0", .state = RING_LIVE, .full = 0,
                .full_before = RING_NOWHERE,
                .sequence = 3, .publish = 3 };
        uint64_t lap = n == 1 ? UINT64_C(5) * RING_MIN_SIZE : 0;
        uint64_t at = 0;
        for (uint64_t i = 1; i <= 3; i++) {
                size_t length = made_frame(frame, i, 1, (size_t)i * 20);
                memcpy(ring + RING_HEAD_BYTES + at, frame, length);
                at += length;
        }
        h->head = lap + at;
        h->tail = h->full = lap;
        memcpy(buffer, ring, sizeof ring);
        return sizeof ring;
}

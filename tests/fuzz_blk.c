/*
 * Fuzzer of recorded block traces: whatever the bytes, the readers stay inside of them, and what the stage engine sums up fits together:
 * stages add up to the time from queue to completion, causes too, and no more is open than may be.
 *
 * The first byte says how: as a file through the whole reader, or as lines or binary records straight into an engine that holds 16 bios.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample/stage_btt.h"
#include "tui/blk_read.h"

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_done(void *own, const struct stage_done *done)
{
        uint64_t stages = 0, causes = 0;

        for (int i = 0; i < STAGE_Q2C; i++)
                stages += done->stage[i];
        for (int i = 0; i < CAUSE_COUNT; i++)
                causes += done->cause[i];
        if (stages != done->stage[STAGE_Q2C] || causes != stages || (done->front && done->front_open == 0))
                abort();
        ++*(size_t *)own;
}

static void check(struct stage_set *set, size_t done, size_t most)
{
        uint64_t bios = 0, open = 0, requests = 0;

        stage_finish(set);
        for (size_t i = 0; i < stage_rows(set); i++) {
                const struct stage_row *row = stage_get_row(set, i);
                uint64_t stages = 0, causes = 0;
                for (int stage = 0; stage < STAGE_COUNT; stage++) {
                        stages += stage < STAGE_Q2C ? row->path[stage] : 0;
                        const struct histogram *histogram = row->bio[stage];
                        if (histogram == NULL)
                                continue;
                        double middle = histogram_quantile(histogram, 0.5), high = histogram_quantile(histogram, 0.99);
                        if (middle > high || middle < (double)histogram->min || high > (double)histogram->max)
                                abort();
                }
                for (int cause = 0; cause < CAUSE_COUNT; cause++)
                        causes += row->cause[cause];
                if (stages != row->path[STAGE_Q2C] || causes != stages)
                        abort();
                bios += row->bio[STAGE_Q2C] ? row->bio[STAGE_Q2C]->count : 0;
        }
        for (size_t i = 0; i < stage_devices(set); i++) {
                open += stage_get_device(set, i)->bios;
                requests += stage_get_device(set, i)->requests;
        }
        if (done != SIZE_MAX && bios < done) /* the callback speaks of each bio once */
                abort();
        if (open > most || requests > most)
                abort();
}

static void event(struct stage_set *set, struct btt *btt, const struct blk_record *record, const char *name, bool keyed)
{
        struct blk_record copy = *record;
        char text[300];

        if (keyed && copy.event.action != STAGE_Q && copy.event.action != STAGE_M && copy.event.action != STAGE_X &&
                copy.event.action != STAGE_F)
                copy.event.key = 1 + copy.event.sector % 5; /* as from a tracer, addresses used again and again */
        copy.event.name = name;
        if (blk_format(text, sizeof text, &copy, 0) != strlen(text))
                abort();
        if (copy.gap || copy.lost)
                stage_lost(set, copy.lost);
        if (stage_event(set, &copy.event) < 0 || btt_event(btt, &copy.event) < 0)
                abort();
}

static void straight(const uint8_t *data, size_t size, bool lines, bool keyed)
{
        size_t done = 0;
        const struct stage_options options = {.max_open = 16, .done = on_done, .own = &done};
        struct stage_set *set;
        struct btt *btt;
        struct blk_record record;
        char name[BLK_NAME];

        if (stage_new(&options, &set) < 0 || btt_new(&btt) < 0)
                abort();
        for (size_t at = 0; at < size;) {
                size_t used = 0;
                if (lines) {
                        const uint8_t *end = memchr(data + at, '\n', size - at);
                        used = end ? (size_t)(end - data) - at + 1 : size - at;
                        if (blk_parse_line((const char *)data + at, used - (end != NULL), &record, name) == BLK_LINE_EVENT)
                                event(set, btt, &record, name, keyed);
                } else {
                        used = blk_parse_binary(data + at, size - at, &record, name);
                        if (used > size - at)
                                break;
                        if (used > 0 && record.event.action != STAGE_ACTIONS)
                                event(set, btt, &record, name, keyed);
                }
                at += used > 0 ? used : 1;
        }
        check(set, done, 16);
        stage_free(set);
        btt_free(btt);
}

static void as_file(const uint8_t *data, size_t size)
{
        struct blk_trace *trace;
        struct blk_record record;
        struct stage_set *set;
        struct btt *btt;
        char path[64], why[256];
        int fd = memfd_create("fuzz", MFD_CLOEXEC);

        if (fd < 0 || write(fd, data, size) != (ssize_t)size)
                abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (stage_new(NULL, &set) < 0 || btt_new(&btt) < 0 || blk_open((const char *const[]){path, path}, 2, &trace, why, sizeof why) < 0)
                abort();
        size_t events = 0;
        while (blk_next(trace, &record) == 1) {
                event(set, btt, &record, record.event.name, false);
                blk_device_name(trace, record.event.device);
                events++;
        }
        if (blk_get_damage(trace)->events != events)
                abort();
        check(set, SIZE_MAX, SIZE_MAX);
        blk_close(trace);
        stage_free(set);
        btt_free(btt);
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2)
                return 0;
        uint8_t *exact = malloc(size - 1); /* so that a read beyond it is seen */
        if (exact == NULL)
                return 0;
        memcpy(exact, data + 1, size - 1);
        if (data[0] % 64 == 0)
                as_file(exact, size - 1);
        else
                straight(exact, size - 1, data[0] & 1, data[0] & 2);
        free(exact);
        return 0;
}

static size_t put_record(uint8_t *to, uint32_t sequence, uint64_t time, uint64_t sector, uint32_t bytes, uint32_t action, uint64_t other)
{
        uint8_t pdu[8];
        const uint32_t head[2] = {0x65617407, sequence}, tail[5] = {bytes, action, 7, 8 << 20, sequence % 2};
        const uint16_t last[2] = {0, other ? sizeof pdu : 0};

        memcpy(to, head, 8);
        memcpy(to + 8, &time, 8);
        memcpy(to + 16, &sector, 8);
        memcpy(to + 24, tail, 20);
        memcpy(to + 44, last, 4);
        for (int i = 0; i < 8; i++)
                pdu[i] = (uint8_t)(other >> (56 - 8 * i));
        memcpy(to + 48, pdu, last[1]);
        return 48 + (size_t)last[1];
}

/* A split, a merge and a flush, in binary. */
static size_t binary_seed(uint8_t *to)
{
        static const struct { uint64_t sector; uint32_t bytes, action; uint64_t other; } events[] = {{0, 8192, 0x1a0001, 0},
                {0, 4096, 0x02000d, 8},
                {0, 4096, 0x1a0004, 0}, {8, 4096, 0x1a0004, 0}, {16, 4096, 0x1a0001, 0}, {16, 4096, 0x1a0002, 0}, {0, 4096, 0x11a000c, 0},
                        {8, 8192, 0x11a000c, 0},
                {0, 4096, 0x14a0007, 0}, {8, 8192, 0x14a0007, 0}, {0, 4096, 0x18a0008, 0}, {8, 8192, 0x18a0008, 0}, {0, 0, 0x1e0001, 0},
                        {0, 0, 0x1e0004, 0},
                {0, 0, 0x1450007, 0}, {0, 0, 0x1850008, 0}, {0, 0, 0x18a0008, 0}};
        size_t used = 0;

        for (uint32_t i = 0; i < sizeof events / sizeof *events; i++)
                used += put_record(to + used, i + 1, 1000 + 10 * i, events[i].sector, events[i].bytes, events[i].action, events[i].other);
        return used;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static const char *const texts[] = {
                "  8,0 1 1 0.000000100 7 Q FWFSM 64 + 8 [j]\n  8,0 1 1 0.000000110 7 G FWFSM 64 + 8 [j]\n  8,0 1 1 0.000000120 9 D FN [k]\n"
                "  8,0 1 1 0.000000150 0 C FN 0 [0]\n  8,0 1 1 0.000000151 9 I WSM 64 + 8 [k]\n  8,0 1 1 0.000000155 9 D WSM 64 + 8 [k]\n"
                "  8,0 1 1 0.000000156 9 R WSM 64 + 8 [0]\n  8,0 1 1 0.000000157 9 D WSM 64 + 8 [k]\n"
                "  8,0 1 1 0.000000170 0 C WSM 64 + 4 [0]\n  8,0 1 1 0.000000175 0 C WSM 68 + 4 [0]\n"
                "  8,0 1 1 0.000000200 0 C WSM 72 [0]\n",
                " x-1 [000] 1.1: block_bio_queue: 8,0 R 0 + 16 [x]\n x-1 [000] 1.2: block_split: 8,0 R 0 / 8 [x]\n"
                " x-1 [000] 1.3: block_getrq: 8,0 R 0 + 8 [x]\n"
                " x-1 [000] 1.4: block_getrq: 8,0 R 8 + 8 [x]\n x-1 [000] 1.5: block_bio_queue: 8,0 R 16 + 8 [x]\n"
                " x-1 [000] 1.6: block_bio_backmerge: 8,0 R 16 + 8 [x]\n x-1 [000] 1.65: block_rq_merge: 8,0 R 8192 () 8 + 16 be,0,4 [x]\n"
                " x-1 [000] 1.7: block_rq_issue: 8,0 R 4096 () 0 + 24 be,0,4 [x]\nCPU:1 [LOST 3 EVENTS]\n"
                " x-1 [000] 1.8: block_rq_complete: 8,0 R () 0 + 24 be,0,4 [0]\n"
                " x-1 [000] 1.9: block_bio_remap: 8,0 W 9 + 8 <- (253,0) 1\n",
        };

        if (number >= 8 || size < 4096)
                return 0;
        buffer[0] = number == 2 || number == 5 ? 64 : number < 4 ? (number & 1 ? 3 : 1) : number == 6 ? 2 : 4;
        if (number >= 4)
                return 1 + binary_seed(buffer + 1);
        memcpy(buffer + 1, texts[number % 2], strlen(texts[number % 2]));
        return 1 + strlen(texts[number % 2]);
}

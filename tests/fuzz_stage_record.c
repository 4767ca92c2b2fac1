/*
 * Fuzzer of what a live block tracer says: any bytes as the memory of a stream, any bytes as records. Readers stay inside of the memory
 * and come to an end; what the stage engine, the table of calls and the search for who was in front make of them adds up.
 *
 * The first 8 bytes say how (bit 0: as a stream's memory, whose head the next 4096 bytes are; bit 1: with a large table of open bios), then
 * records follow.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample/stage.h"
#include "sample/stage_behind.h"
#include "sample/stage_stream.h"
#include "sample/stage_sync.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size);

enum { START = 8, HEAD = 4096, ROUNDS = 64, ROOM = 100 };

struct all {
        struct stage_set *set, *again; /* again: what the first one's callbacks tell, as records */
        struct sync_set *sync;
        struct behind *behind;
};

static void check(bool good)
{
        if (!good)
                abort();
}

static void on_bio(void *own, const struct stage_done *done)
{
        struct all *all = own;
        uint64_t stages = 0, causes = 0;
        struct stage_record record;

        for (int i = 0; i < STAGE_Q2C; i++)
                stages += done->stage[i];
        for (int i = 0; i < CAUSE_COUNT; i++)
                causes += done->cause[i];
        check(stages == causes && (!done->last || stages == done->stage[STAGE_Q2C]));
        if (stage_to_record(done, &record) == 0)
                check(stage_record(all->again, &record) == 0);
}

static void on_call(void *own, const struct sync_done *done)
{
        uint64_t sum = 0;
        double share = 0;

        (void)own;
        for (int i = 0; i < SYNC_PARTS; i++)
                sum += done->part[i];
        check(sum == done->record->sync.end - done->record->sync.start && done->behind.count <= BEHIND_MOST);
        for (size_t i = 0; i < done->behind.count; i++) {
                share += done->behind.who[i].share;
                check(i == 0 || done->behind.who[i].open <= done->behind.who[i - 1].open);
        }
        check(share < 1.000001 && memchr(done->row->name, '\0', sizeof done->row->name));
}

static void check_rows(const struct stage_set *set)
{
        for (size_t i = 0; i < stage_rows(set); i++) {
                const struct stage_row *row = stage_get_row(set, i);
                uint64_t stages = 0, causes = 0;
                for (int stage = 0; stage < STAGE_Q2C; stage++)
                        stages += row->path[stage];
                for (int cause = 0; cause < CAUSE_COUNT; cause++)
                        causes += row->cause[cause];
                check(stages == row->path[STAGE_Q2C] && causes == stages);
                check(row->direction < STAGE_DIRECTIONS && row->kind < STAGE_KINDS && memchr(row->process->name, '\0', 16));
        }
}

static struct all begin(bool large)
{
        static struct all all; /* own of the callbacks; `behind` stays for a while, for it is large and takes whatever comes */
        static unsigned inputs;
        const struct stage_options options = {.max_open = large ? 0 : 16, .done = on_bio, .part = on_bio, .own = &all};
        const struct sync_options sync = {.max_open = large ? 0 : 16, .done = on_call};

        check(stage_new(&options, &all.set) == 0 && stage_new(NULL, &all.again) == 0);
        if (inputs++ % 64 == 0) {
                behind_free(all.behind);
                check(behind_new(&all.behind) == 0);
        }
        check(sync_new(&sync, all.behind, &all.sync) == 0);
        return all;
}

static void feed(struct all *all, const struct stage_record *record)
{
        struct behind_answer answer;

        check(stage_record(all->set, record) == 0);
        behind_record(all->behind, record);
        check(sync_record(all->sync, record) == 0);
        behind_ask(all->behind, record->device, record->bio.q, record->bio.c, record->tgid, &answer);
        check(sync_settle(all->sync, record->bio.c) == 0);
}

static void end(struct all *all)
{
        check(sync_settle(all->sync, UINT64_MAX) == 0);
        stage_finish(all->set);
        stage_finish(all->again);
        check_rows(all->set);
        check_rows(all->again);
        sync_free(all->sync);
        stage_free(all->set);
        stage_free(all->again);
}

static void as_stream(struct all *all, const uint8_t *data, size_t size)
{
        static char *map;
        static size_t length;
        static int fd = -1;
        struct stream_reader *reader;
        struct stage_record records[ROOM];
        struct stream_facts facts;

        if (fd < 0) {
                struct stream *stream;
                struct stat st;
                check(stream_new(&stream) == 0 && fstat(stream_fd(stream), &st) == 0);
                stream_free(stream);
                length = (size_t)st.st_size;
                fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                check(fd >= 0 && ftruncate(fd, st.st_size) == 0);
                map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                check(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
        }
        memcpy(map, data, size < length ? size : length);
        if (stream_open(dup(fd), &reader) < 0)
                return;
        for (int i = 0; i < ROUNDS; i++) {
                uint64_t lost;
                if (i % 4 == 0 && size >= HEAD)
                        for (size_t at = 0; at < 256; at += 8) { /* the words move on, or back */
                                uint64_t word;
                                memcpy(&word, map + 64 + at, 8);
                                word += data[(at + (size_t)i) % size];
                                memcpy(map + 64 + at, &word, 8);
                        }
                size_t count = stream_take(reader, records, ROOM, &lost);
                check(count <= ROOM);
                for (size_t k = 0; k < count; k++)
                        feed(all, &records[k]);
                stream_get_facts(reader, &facts);
        }
        stream_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < START)
                return 0;
        struct all all = begin(data[0] & 2);

        if (data[0] & 1) {
                as_stream(&all, data + START, size - START);
        } else {
                struct stage_record record;
                for (size_t at = START; at + sizeof record <= size; at += sizeof record) {
                        memcpy(&record, data + at, sizeof record);
                        feed(&all, &record);
                }
        }
        end(&all);
        return 0;
}

/* One of each kind: bios plain, merged, split, flushed; a call that waited for them; names; an event; a loss. */
static size_t make_records(struct stage_record *out)
{
        size_t n = 0;

        for (uint32_t i = 0; i < 12; i++) {
                struct stage_record bio = {.kind = RECORD_BIO, .direction = (uint8_t)(i % 3), .device = 8 << 20, .tid = 7 + i % 2,
                        .tgid = 7, .flags = i % 3 == 0 ? RECORD_HEAD : 0,
                        .bio = {.id = 1 + i, .q = 1000 + 10 * i, .g = 1005 + 10 * i, .i = 1020 + 10 * i, .d1 = 1030 + 10 * i,
                                .d = 1030 + 10 * i, .c = 1100 + 10 * i, .sector = 8 * i, .sectors = 8, .request_sectors = 8}};
                if (i >= 6 && i < 9) {
                        bio.bio.id = 60;
                        bio.flags |= i == 7 ? RECORD_LAST : RECORD_PIECE;
                        bio.bio.parts = i == 7 ? 3 : 0;
                }
                if (i == 9)
                        bio.bio.m = bio.bio.g, bio.bio.g = 0;
                if (i == 10) {
                        bio.bio_flags = STAGE_PREFLUSH | STAGE_FUA;
                        bio.bio.given = 1300;
                        bio.flags = RECORD_KERNEL;
                        bio.tid = bio.tgid = 50;
                }
                if (i == 11)
                        bio.flags = RECORD_DRIVER;
                out[n++] = bio;
        }
        out[n++] = (struct stage_record){.kind = RECORD_NAME, .flags = RECORD_KERNEL, .tid = 50, .tgid = 50, .name.comm = "jbd2/sda-8"};
        out[n++] = (struct stage_record){.kind = RECORD_NAME, .tid = 8, .tgid = 7, .name.comm = "writer"};
        out[n++] = (struct stage_record){.kind = RECORD_SYNC, .tid = 7, .tgid = 7, .device = 8 << 20 | 1,
                .sync = {.start = 1000, .end = 1400, .call = SYNC_FSYNC, .disk = 8 << 20, .file = "log"}};
        out[n++] = (struct stage_record){.kind = RECORD_SYNC, .tid = 9, .tgid = 7, .sync = {.start = 1010, .end = 1200, .call = SYNC_RING}};
        out[n++] = (struct stage_record){.kind = RECORD_EVENT, .direction = STAGE_READ, .device = 8 << 20, .tid = 7,
                .event = {.time = 5, .sector = 8, .sectors = 8, .action = STAGE_Q, .comm = "a"}};
        out[n++] = (struct stage_record){.kind = RECORD_LOST, .lost = {.count = 3, .time = 1200}};
        return n;
}

size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size)
{
        struct stage_record records[32];
        size_t count = make_records(records), bytes = count * sizeof *records;

        if (n > 2 || size < START + HEAD + bytes)
                return 0;
        memset(buffer, 0, START);
        if (n < 2) {
                buffer[0] = n == 0 ? 0 : 2;
                memcpy(buffer + START, records, bytes);
                return START + bytes;
        }
        struct stream *stream;
        buffer[0] = 1;
        check(stream_new(&stream) == 0);
        stream_put(stream, records, count);
        stream_tell(stream, &(struct stream_facts){.source = STREAM_BPF});
        check(pread(stream_fd(stream), buffer + START, HEAD + bytes, 0) == (ssize_t)(HEAD + bytes));
        stream_free(stream);
        return START + HEAD + bytes;
}

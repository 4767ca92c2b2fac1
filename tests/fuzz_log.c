/*
 * Logs from a stranger. The first byte says which way: a whole file, its checksums put right first so that mutations reach what lies behind
 * them; the same as it is; or the coder alone, fed with chunks (u16 length, bytes), where no zstd stands between.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <zlib.h>

#include "sample/log_layout.h"
#include "sample/phase.h"
#include "sample/state.h"
#include "tests/log_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

static volatile uint64_t sink;

static void put_right(uint8_t *bytes, size_t size)
{
        for (size_t at = sizeof(struct log_head); at + sizeof(struct log_record) <= size;) {
                struct log_record head;
                memcpy(&head, bytes + at, sizeof head);
                memcpy(head.mark, LOG_MARK, sizeof head.mark);
                size_t left = size - at - sizeof head;
                if (head.length > left)
                        head.length = (uint32_t)left;
                head.crc = (uint32_t)crc32_z(0, bytes + at + sizeof head, head.length);
                head.check = (uint32_t)crc32_z(0, (const uint8_t *)&head, offsetof(struct log_record, check));
                memcpy(bytes + at, &head, sizeof head);
                at += sizeof head + head.length;
        }
}

static void read_log(const char *path)
{
        struct log *log;
        struct log_info info;
        struct phases phases;
        const struct frame_head *frame;
        struct state *state;
        const char *name;

        if (log_open(path, &log) < 0)
                return;
        if (state_new(&state) < 0)
                abort();
        for (int r; (r = log_next(log, &frame)) == LOG_FRAME || r == LOG_DAMAGED;) {
                if (r == LOG_DAMAGED)
                        state_lost(state);
                else if (frame_check(frame, frame->length) < 0)
                        abort(); /* a frame that log_next gives is checked */
                else
                        sink += (uint64_t)state_apply(state, frame, log_schema(log));
                if (sink % 7 == 0)
                        state_base(state);
        }
        for (size_t i = 0; (name = log_note_name(log, i)); i++) {
                size_t length = 0;
                const uint8_t *note = log_get_note(log, name, &length);
                sink += note && length ? note[length - 1] : 0;
        }
        if (log_get_info(log, &info) == 0) {
                sink += info.damaged_bytes + (uint64_t)log_seek_sequence(log, info.last_sequence) +
                        (uint64_t)log_seek_time(log, info.first_real_ns);
                sink += (uint64_t)log_next(log, &frame);
        }
        if (phases_build(log, &phases) == 0)
                phases_free(&phases);
        state_free(state);
        log_close(log);
}

static void run_file(const uint8_t *data, size_t size, bool right)
{
        char path[64];
        uint8_t *copy = malloc(size + 1);
        int fd = memfd_create("fuzz", MFD_CLOEXEC);

        if (!copy || fd < 0)
                abort();
        memcpy(copy, data, size);
        if (right)
                put_right(copy, size);
        if (write(fd, copy, size) != (ssize_t)size)
                abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        read_log(path);
        close(fd);
        free(copy);
}

static void run_coder(const uint8_t *data, size_t size)
{
        struct schema schema;
        struct log_coder *coder;
        struct log_step step = {.flags = FRAME_FULL, .mono_ns = 5, .real_ns = 7};
        const struct frame_head *frame;

        schema_own(&schema);
        if (log_coder_new(&schema, &coder) < 0)
                return;
        while (size >= 2) {
                size_t length = data[0] | (size_t)data[1] << 8;
                data += 2;
                size -= 2;
                if (length > size)
                        length = size;
                step.sequence++;
                int r = log_decode(coder, &step, data, length, &frame);
                if (r < 0) {
                        log_coder_reset(coder);
                        step.flags = FRAME_FULL;
                } else {
                        sink += frame->length;
                        step.flags = 0;
                }
                data += length;
                size -= length;
        }
        log_coder_free(coder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 1)
                return 0;
        if (data[0] % 4 < 2)
                run_file(data + 1, size - 1, data[0] % 4 == 0);
        else
                run_coder(data + 1, size - 1);
        return 0;
}

/* ---- seeds --------------------------------------------------------------------------------------------------------------------------- */

static size_t file_seed(unsigned number, uint8_t *buffer, size_t size)
{
        char path[] = "/tmp/watop-fuzz.XXXXXX";
        struct log_writer *w;
        struct sealed s;
        uint64_t random = number + 1;
        int fd = mkstemp(path);

        if (fd < 0)
                return 0;
        unlink(path);
        close(fd);
        if (log_create(path, NULL, &w) < 0)
                return 0;
        sealed_open(&s);
        log_note(w, "command", "sleep 1", 7);
        for (unsigned i = 0; i < 4 + number * 8; i++) {
                machine_tick(&s, &random, 2);
                s.flags = i % 30 == 0 ? FRAME_FULL : i % 5 == 0 ? FRAME_MARK : 0;
                sealed_seal(&s);
                log_append(w, s.frame, s.length);
        }
        sealed_close(&s);
        if (number % 2)
                log_note(w, "label", "x", 1);
        log_finish(w);
        fd = open(path, O_RDONLY);
        ssize_t n = read(fd, buffer + 1, size - 1);
        close(fd);
        unlink(path);
        return n > 0 ? (size_t)n + 1 : 0;
}

static size_t coder_seed(unsigned number, uint8_t *buffer, size_t size)
{
        struct schema schema;
        struct log_coder *coder;
        uint64_t space[8192], random = number + 77;
        size_t at = 1;

        schema_own(&schema);
        if (log_coder_new(&schema, &coder) < 0)
                return 0;
        for (uint64_t i = 1; i < 6; i++) {
                const uint8_t *bytes;
                size_t length;
                odd_frame(space, 8192, &random, i, 1);
                if (log_encode(coder, (const void *)space, &bytes, &length) < 0 || length > UINT16_MAX || at + length + 2 > size)
                        break;
                buffer[at] = (uint8_t)length;
                buffer[at + 1] = (uint8_t)(length >> 8);
                memcpy(buffer + at + 2, bytes, length);
                at += length + 2;
        }
        log_coder_free(coder);
        return at;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        static struct { uint8_t *bytes; size_t length; } made[8]; /* asked for again and again */

        if (number >= 8)
                return 0;
        if (!made[number].bytes) {
                uint8_t *bytes = malloc(size);
                if (!bytes)
                        abort();
                made[number].length = number < 5 ? file_seed(number, bytes, size) : coder_seed(number, bytes, size);
                bytes[0] = number < 5 ? (uint8_t)(number % 2) : 2;
                made[number].bytes = bytes;
        }
        size_t length = made[number].length < size ? made[number].length : size;
        memcpy(buffer, made[number].bytes, length);
        return length;
}

/*
 * A ring of records in shared memory. See stage_stream.h.
 *
 *     0      +-----------+  struct stream_head: what it is, written once; then the words that move, each group on a cache line of its own
 *     4096   +-----------+
 *            | records   |  STREAM_RECORDS of them, a circle: record n (the first one written is 0) lies at n % STREAM_RECORDS
 *            +-----------+
 *
 * THE PROMISE. The records from `tail` to `head` are whole. The writer never waits; the pairs are those of ring_layout.h:
 *
 *     writer, in this order                              reader, in this order
 *     1. tail  = first record that stays     (release)   4. head   (acquire): records below it were published
 *     2. words of the new records            (release)   5. words  (acquire): copied out, whatever they are
 *     3. head  = one past the new ones       (release)   6. tail   (acquire): copies from there on are whole
 *
 * Facts have a sequence count that is odd while they are written, under the same rule. All words are atomic, without fences, so that
 * ThreadSanitizer can follow. The writer keeps its own copy of what it wrote and never reads the memory back.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sample/stage_stream.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define STREAM_MAGIC UINT64_C(0x314d525453544157) /* "WATSTRM1" */

enum { HEAD_BYTES = 4096, RECORD_WORDS = sizeof(struct stage_record) / 8, FACT_WORDS = sizeof(struct stream_facts) / 8,
        CHUNK = 256 /* records between two moves of head */, TRIES = 1000 };
#define STREAM_BYTES (HEAD_BYTES + (size_t)STREAM_RECORDS * sizeof(struct stage_record))

struct stream_head {
        uint64_t magic;
        uint32_t head_bytes, record_bytes;
        uint64_t records;
        uint64_t tail __attribute__((aligned(64)));
        uint64_t head __attribute__((aligned(64)));
        uint64_t sequence __attribute__((aligned(64))); /* of the facts: odd while they change */
        uint64_t facts[FACT_WORDS];
};
_Static_assert(sizeof(struct stream_head) <= HEAD_BYTES, "head fits its page");
_Static_assert(sizeof(struct stream_facts) % 8 == 0 && sizeof(struct stage_record) % 8 == 0, "whole words");
_Static_assert((STREAM_RECORDS & (STREAM_RECORDS - 1)) == 0, "positions may wrap");

static void put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static uint64_t get(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void put_words(uint64_t *to, const void *from, size_t words)
{
        uint64_t word;

        for (size_t i = 0; i < words; i++) {
                memcpy(&word, (const char *)from + 8 * i, 8);
                put(&to[i], word);
        }
}

static void get_words(void *to, const uint64_t *from, size_t words)
{
        for (size_t i = 0; i < words; i++) {
                uint64_t word = get(&from[i]);
                memcpy((char *)to + 8 * i, &word, 8);
        }
}

/* ---- writer ------------------------------------------------------------------------------------------------------------------------- */

struct stream {
        int fd, read_fd;
        struct stream_head *shared;
        uint64_t *records;
        uint64_t head, tail, sequence;
};

static int make_memfd(void)
{
        /* Since 6.3 a system may ask for memfds that cannot be executed; older kernels do not know the flag. */
        int fd = memfd_create("watop-stream", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        if (fd < 0 && errno == EINVAL)
                fd = memfd_create("watop-stream", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

/* Allocated whole, so that memory that runs out later cannot end anybody with a bus error. */
static int map_memfd(struct stream *stream)
{
        int r = ftruncate(stream->fd, (off_t)STREAM_BYTES) < 0 || fchmod(stream->fd, 0600) < 0 ? -errno : 0;

        if (r == 0)
                r = -posix_fallocate(stream->fd, 0, (off_t)STREAM_BYTES);
        if (r < 0)
                return r;
        void *map = mmap(NULL, STREAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, stream->fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        stream->shared = map;
        stream->records = (uint64_t *)(void *)((char *)map + HEAD_BYTES);
        stream->shared->magic = STREAM_MAGIC;
        stream->shared->head_bytes = HEAD_BYTES;
        stream->shared->record_bytes = sizeof(struct stage_record);
        stream->shared->records = STREAM_RECORDS;
        return 0;
}

/* Our own mapping stays writable; nobody else can make one, or cut the file short. F_SEAL_FUTURE_WRITE: since 5.1. */
static int seal(int fd)
{
        int seals = F_SEAL_SHRINK | F_SEAL_GROW;

        if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
                return 0;
        return errno == EINVAL && fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0 ? 0 : -errno;
}

static int open_again_read_only(int fd)
{
        char path[64];

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int again = open(path, O_RDONLY | O_CLOEXEC);
        return again < 0 ? -errno : again;
}

int stream_new(struct stream **result)
{
        struct stream *stream = calloc(1, sizeof *stream);

        if (stream == NULL)
                return -ENOMEM;
        stream->read_fd = -1;
        int r = stream->fd = make_memfd();
        if (r >= 0)
                r = map_memfd(stream);
        if (r == 0)
                r = seal(stream->fd);
        if (r == 0)
                r = stream->read_fd = open_again_read_only(stream->fd);
        if (r < 0) {
                stream_free(stream);
                return r;
        }
        *result = stream;
        return 0;
}

void stream_free(struct stream *stream)
{
        if (stream == NULL)
                return;
        if (stream->shared)
                munmap(stream->shared, STREAM_BYTES);
        if (stream->read_fd >= 0)
                close(stream->read_fd);
        if (stream->fd >= 0)
                close(stream->fd);
        free(stream);
}

int stream_fd(const struct stream *stream)
{
        return stream->read_fd;
}

void stream_put(struct stream *stream, const struct stage_record *records, size_t count)
{
        while (count > 0) {
                size_t now = count < CHUNK ? count : CHUNK;
                if (stream->head + now - stream->tail > STREAM_RECORDS) {
                        stream->tail = stream->head + now - STREAM_RECORDS;
                        put(&stream->shared->tail, stream->tail); /* 1 of the promise */
                }
                for (size_t i = 0; i < now; i++)
                        put_words(stream->records + (stream->head + i) % STREAM_RECORDS * RECORD_WORDS, &records[i], RECORD_WORDS);
                stream->head += now;
                put(&stream->shared->head, stream->head);
                records += now;
                count -= now;
        }
}

void stream_tell(struct stream *stream, const struct stream_facts *facts)
{
        put(&stream->shared->sequence, ++stream->sequence);
        put_words(stream->shared->facts, facts, FACT_WORDS);
        put(&stream->shared->sequence, ++stream->sequence);
}

/* ---- reader ------------------------------------------------------------------------------------------------------------------------- */

struct stream_reader {
        const struct stream_head *shared;
        const uint64_t *records;
        uint64_t next;
        struct stream_facts facts; /* the last ones that were whole */
};

/* A file whose length cannot change, of the kind that cannot run out of pages of its own (not of huge ones): loads from it are safe. */
static int check_file(int fd)
{
        struct stat st;
        struct statfs fs;
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
                return -EBADMSG;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)STREAM_BYTES)
                return -EBADMSG;
        return fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC ? -EBADMSG : 0;
}

int stream_open(int fd, struct stream_reader **result)
{
        int r = fd < 0 ? -EBADF : check_file(fd);
        void *map = r == 0 ? mmap(NULL, STREAM_BYTES, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

        if (r == 0 && map == MAP_FAILED)
                r = -errno;
        if (fd >= 0)
                close(fd);
        if (r < 0)
                return r;
        const struct stream_head *head = map;
        struct stream_reader *reader = calloc(1, sizeof *reader);
        r = reader == NULL ? -ENOMEM : head->magic != STREAM_MAGIC || head->head_bytes != HEAD_BYTES ||
                head->record_bytes != sizeof(struct stage_record) || head->records != STREAM_RECORDS ? -EBADMSG : 0;
        if (r < 0) {
                free(reader);
                munmap(map, STREAM_BYTES);
                return r;
        }
        reader->shared = head;
        reader->records = (const uint64_t *)(const void *)((const char *)map + HEAD_BYTES);
        reader->next = get(&head->head);
        *result = reader;
        return 0;
}

void stream_close(struct stream_reader *reader)
{
        if (reader == NULL)
                return;
        munmap((void *)(uintptr_t)reader->shared, STREAM_BYTES);
        free(reader);
}

size_t stream_take(struct stream_reader *reader, struct stage_record *out, size_t room, uint64_t *lost)
{
        uint64_t head = get(&reader->shared->head);
        size_t count;

        *lost = 0;
        if (head < reader->next) { /* no writer of ours does that: nothing between can be believed */
                reader->next = head;
                return 0;
        }
        if (head - reader->next > STREAM_RECORDS) {
                *lost = head - reader->next - STREAM_RECORDS;
                reader->next += *lost;
        }
        count = head - reader->next < room ? (size_t)(head - reader->next) : room;
        for (size_t i = 0; i < count; i++)
                get_words(&out[i], reader->records + (reader->next + i) % STREAM_RECORDS * RECORD_WORDS, RECORD_WORDS);
        uint64_t tail = get(&reader->shared->tail); /* 6 of the promise */
        uint64_t torn = tail > reader->next ? tail - reader->next : 0;
        if (torn > head - reader->next) /* overtaken by a whole ring while copying, or a tail that is none */
                torn = head - reader->next;
        *lost += torn;
        reader->next += torn > count ? torn : count;
        if (torn >= count)
                return 0;
        if (torn > 0)
                memmove(out, out + torn, (count - (size_t)torn) * sizeof *out);
        return count - (size_t)torn;
}

void stream_get_facts(struct stream_reader *reader, struct stream_facts *facts)
{
        const struct stream_head *shared = reader->shared;

        for (int i = 0; i < TRIES; i++) { /* a writer that ended in the middle leaves it odd for ever */
                struct stream_facts copy;
                uint64_t before = get(&shared->sequence);
                if (before & 1)
                        continue;
                get_words(&copy, shared->facts, FACT_WORDS);
                if (get(&shared->sequence) != before)
                        continue;
                reader->facts = copy;
                break;
        }
        *facts = reader->facts;
}

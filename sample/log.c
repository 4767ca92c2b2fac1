/*
 * The log's writer. Contract: log.h; the file: log_layout.h; how a frame is coded: log_code.h.
 *
 * A record is one write(2), so a reader of the growing file and a crash see whole records and at most one piece at the end. When a write
 * fails the piece is cut off again, and the writer takes nothing more: what is there is a log.
 */
#include "sample/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "sample/log_layout.h"
#include "sample/trust.h"

enum { LEVEL = 9, NOTE_LEVEL = 9, WINDOW_LOG = 20 };

struct log_writer {
        int fd, error;             /* error: negative errno of the first write that failed */
        uint64_t bytes;
        struct log_coder *coder;
        ZSTD_CCtx *zstd;
        struct bytes_out record, schema; /* schema: its packed payload, until the second copy is written */
        struct log_map map;
        struct log_pace pace;
        uint64_t block_bytes, block_mono_ns, writer_ns;
        bool whole;                /* a block is under way and its coder's table is good */
};

/* ---- records -------------------------------------------------------------------------------------------------------------------- */

static void begin_record(struct log_writer *w)
{
        w->record.used = 0;
        w->record.failed = false;
        bytes_extend(&w->record, sizeof(struct log_record));
}

static int write_all(struct log_writer *w, const void *bytes, size_t length)
{
        const char *at = bytes;
        size_t left = length;

        while (left > 0) {
                ssize_t n = write(w->fd, at, left);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        w->error = n < 0 ? -errno : -EIO;
                        /* Without the piece; where even that fails it is a torn end, which readers know. */
                        if (ftruncate(w->fd, (off_t)w->bytes) < 0)
                                return w->error;
                        return w->error;
                }
                at += n;
                left -= (size_t)n;
        }
        w->bytes += length;
        return 0;
}

static int end_record(struct log_writer *w, uint8_t kind)
{
        struct log_record head = {.mark = {LOG_MARK[0], LOG_MARK[1], LOG_MARK[2]}, .kind = kind};
        size_t length = w->record.used - sizeof head;

        if (w->record.failed)
                return -ENOMEM;
        if (length > LOG_RECORD_MAX)
                return -EFBIG;
        head.length = (uint32_t)length;
        head.crc = (uint32_t)crc32_z(0, w->record.bytes + sizeof head, length);
        head.check = (uint32_t)crc32_z(0, (const uint8_t *)&head, offsetof(struct log_record, check));
        memcpy(w->record.bytes, &head, sizeof head);
        return write_all(w, w->record.bytes, w->record.used);
}

/* Compress `bytes` behind what the record has, as a zstd frame of its own. */
static void put_packed(struct bytes_out *out, const void *bytes, size_t length)
{
        size_t room = ZSTD_compressBound(length);

        put_number(out, length);
        size_t at = out->used;
        uint8_t *to = bytes_extend(out, room);
        if (!to)
                return;
        size_t n = ZSTD_compress(to, room, bytes, length, NOTE_LEVEL);
        if (ZSTD_isError(n))
                out->failed = true;
        else
                out->used = at + n;
}

/* The frame's coded bytes, through the block's zstd frame. */
static int put_stream(struct log_writer *w, const void *bytes, size_t length)
{
        ZSTD_inBuffer in = {bytes, length, 0};
        size_t left = 1;

        while (left != 0) {
                size_t room = ZSTD_compressBound(length - in.pos) + 64, at = w->record.used;
                uint8_t *to = bytes_extend(&w->record, room);
                if (!to)
                        return -ENOMEM;
                ZSTD_outBuffer out = {to, room, 0};
                left = ZSTD_compressStream2(w->zstd, &out, &in, ZSTD_e_flush);
                if (ZSTD_isError(left))
                        return -ENOMEM;
                w->record.used = at + out.pos;
        }
        return 0;
}

/* ---- creation ------------------------------------------------------------------------------------------------------------------- */

static int lock_file(int fd)
{
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(fd, F_OFD_SETLK, &l) == 0)
                return 0;
        return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
}

/* Away with an older log of ours. */
static int remove_old(const char *path)
{
        struct stat st;
        char magic[8];
        int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                return errno == ENOENT ? 0 : errno == ELOOP ? -EPERM : -errno;
        int r = fstat(fd, &st) < 0 ? -errno : 0;
        if (r == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid()))
                r = -EPERM;
        /* An empty file is what a writer left that was killed at its first step. */
        if (r == 0 && st.st_size > 0 && (pread(fd, magic, sizeof magic, 0) != (ssize_t)sizeof magic || memcmp(magic, LOG_MAGIC, 8) != 0))
                r = -EPERM;
        if (r == 0)
                r = lock_file(fd);
        if (r == 0 && unlink(path) < 0)
                r = -errno;
        close(fd);
        return r;
}

static int open_new(const char *path, const struct log_create_options *options)
{
        mode_t mode = options->mode ? options->mode : 0600;
        gid_t group;

        int r = options->force ? remove_old(path) : 0;
        if (r < 0)
                return r;
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_APPEND, 0600);
        if (fd < 0)
                return -errno;
        r = lock_file(fd);
        /* Bits for the group are for group watop, as the ring's. */
        if (r == 0 && (mode & 070) && (trust_group(&group) < 0 || fchown(fd, (uid_t)-1, group) < 0))
                mode &= ~(mode_t)070;
        if (r == 0 && fchmod(fd, mode) < 0)
                r = -errno;
        if (r < 0) {
                unlink(path);
                close(fd);
                return r;
        }
        return fd;
}

static int write_head(struct log_writer *w, const char *schema, size_t length)
{
        struct log_head head = {.magic = {'w', 'a', 't', 'o', 'p', 'l', 'o', 'g'}, .layout = LOG_LAYOUT,
                .schema_length = (uint32_t)length, .version = WATOP_VERSION};
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        head.created_real_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
        head.schema_crc = (uint32_t)crc32_z(0, (const uint8_t *)schema, length);
        head.crc = (uint32_t)crc32_z(0, (const uint8_t *)&head, sizeof head);
        int r = write_all(w, &head, sizeof head);
        if (r < 0)
                return r;
        put_packed(&w->schema, schema, length);
        begin_record(w);
        put_bytes(&w->record, w->schema.bytes, w->schema.used);
        return w->schema.failed ? -ENOMEM : end_record(w, LOG_KIND_SCHEMA);
}

static int make_coder(struct log_writer *w, const struct log_create_options *options)
{
        struct schema schema;
        char *own = NULL;
        const char *block = options->schema;
        size_t length = options->schema_length;
        int r = 0;

        if (!block) {
                own = malloc(LOG_SCHEMA_MAX);
                if (!own)
                        return -ENOMEM;
                length = schema_write(own, LOG_SCHEMA_MAX);
                block = own;
        }
        if (length > LOG_SCHEMA_MAX)
                r = -EBADMSG;
        if (r == 0)
                r = schema_read(&schema, block, length);
        if (r == 0)
                r = log_coder_new(&schema, &w->coder);
        if (r == 0)
                r = write_head(w, block, length);
        free(own);
        return r;
}

static int make_zstd(struct log_writer *w)
{
        w->zstd = ZSTD_createCCtx();
        if (!w->zstd)
                return -ENOMEM;
        bool bad = ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
                   ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_windowLog, WINDOW_LOG));
        return bad ? -EINVAL : 0;
}

static void free_writer(struct log_writer *w)
{
        if (!w)
                return;
        if (w->fd >= 0)
                close(w->fd);
        log_coder_free(w->coder);
        ZSTD_freeCCtx(w->zstd);
        free(w->record.bytes);
        free(w->schema.bytes);
        log_map_fini(&w->map);
        free(w);
}

int log_create(const char *path, const struct log_create_options *options, struct log_writer **writer)
{
        static const struct log_create_options none;
        struct log_writer *w = calloc(1, sizeof *w);

        if (!w)
                return -ENOMEM;
        w->fd = open_new(path, options ? options : &none);
        int r = w->fd < 0 ? w->fd : make_zstd(w);
        if (r == 0)
                r = make_coder(w, options ? options : &none);
        if (r < 0) {
                if (w->fd >= 0)
                        unlink(path); /* nothing of use is in it */
                free_writer(w);
                return r;
        }
        *writer = w;
        return 0;
}

/* ---- what is written ------------------------------------------------------------------------------------------------------------ */

static bool begins_block(const struct log_writer *w, const struct frame_head *head)
{
        if (!(head->flags & FRAME_FULL))
                return false;
        bool due = head->mono_ns - w->block_mono_ns >= LOG_BLOCK_NS || w->block_bytes >= LOG_BLOCK_BYTES;
        return !w->whole || due || head->writer_ns != w->writer_ns;
}

static int put_frame(struct log_writer *w, const struct frame_head *head, const struct log_step *step, bool block)
{
        const uint8_t *bytes;
        size_t length;

        begin_record(w);
        if (block) {
                put_bytes(&w->record, &(struct log_block_head){step->sequence, step->mono_ns, step->real_ns, head->tick_ns, step->flags, 0},
                          sizeof(struct log_block_head));
                log_pace_begin(&w->pace, step);
                log_coder_reset(w->coder);
                ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
        } else {
                log_pace_put(&w->pace, &w->record, step);
        }
        int r = log_encode(w->coder, head, &bytes, &length);
        if (r == 0)
                r = put_stream(w, bytes, length);
        return r < 0 ? r : end_record(w, block ? LOG_KIND_BLOCK : LOG_KIND_FRAME);
}

static int second_schema(struct log_writer *w)
{
        if (w->map.block_count != 1 || w->schema.used == 0)
                return 0;
        begin_record(w);
        put_bytes(&w->record, w->schema.bytes, w->schema.used);
        w->schema.used = 0;
        return end_record(w, LOG_KIND_SCHEMA);
}

int log_append(struct log_writer *w, const void *frame, size_t length)
{
        const struct frame_head *head = frame;

        if (w->error < 0)
                return w->error;
        int r = frame_check(frame, length);
        if (r < 0)
                return r;
        bool block = begins_block(w, head);
        if (!block && !w->whole)
                return 0; /* before the first full frame: nobody could read it */
        struct log_step step = {.flags = head->flags, .sequence = head->sequence, .mono_ns = head->mono_ns, .real_ns = head->real_ns};
        r = block ? second_schema(w) : 0;
        uint64_t offset = w->bytes;
        if (r == 0)
                r = put_frame(w, head, &step, block);
        if (r == 0 && block)
                r = log_map_block(&w->map, offset, &step, head->tick_ns);
        else if (r == 0)
                log_map_frame(&w->map, &step);
        w->whole = r == 0;
        if (r < 0)
                return r;
        if (block) {
                w->block_bytes = 0;
                w->block_mono_ns = head->mono_ns;
                w->writer_ns = head->writer_ns;
        }
        w->block_bytes += w->bytes - offset;
        return 0;
}

int log_note(struct log_writer *w, const char *name, const void *bytes, size_t length)
{
        if (w->error < 0)
                return w->error;
        if (!log_name_fits(name, strlen(name)))
                return -EINVAL;
        if (length > LOG_NOTE_MAX)
                return -EFBIG;
        uint64_t offset = w->bytes;
        begin_record(w);
        put_number(&w->record, strlen(name));
        put_bytes(&w->record, name, strlen(name));
        put_packed(&w->record, bytes, length);
        int r = end_record(w, LOG_KIND_NOTE);
        return r < 0 ? r : log_map_note(&w->map, offset, name, strlen(name));
}

int log_flush(struct log_writer *w)
{
        return w->error;
}

uint64_t log_bytes(const struct log_writer *w)
{
        return w->bytes;
}

uint64_t log_frames(const struct log_writer *w)
{
        uint64_t frames = 0;

        for (size_t i = 0; i < w->map.block_count; i++)
                frames += w->map.blocks[i].frames;
        return frames;
}

int log_finish(struct log_writer *w)
{
        if (!w)
                return 0;
        struct log_end end = {.index = w->bytes, .magic = {'w', 'a', 't', 'o', 'p', 'e', 'n', 'd'}};
        int r = w->error;

        if (r == 0) {
                begin_record(w);
                log_map_put(&w->map, &w->record);
                put_bytes(&w->record, &end, sizeof end);
                r = end_record(w, LOG_KIND_INDEX);
        }
        int fd = w->fd;
        w->fd = -1;
        if (close(fd) < 0 && r == 0)
                r = -errno;
        free_writer(w);
        return r;
}

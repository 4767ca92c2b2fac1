/*
 * The log's reader. Contract: log.h; the file: log_layout.h.
 *
 * Opening takes the index of a finished log, else looks at every record once (heads, checksums, times; nothing is decompressed). Going
 * through it decodes from a block's start. Nothing in the file is believed: lengths are held against the file, checksums against the bytes,
 * and a decoded frame is checked like one from any stranger. All searches go forward, so time is linear in the file's length.
 */
#include "sample/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "sample/log_layout.h"

enum { CHUNK = 256 << 10 };

struct log {
        int fd;
        struct log_head head;
        struct schema schema;
        struct log_coder *coder;
        ZSTD_DCtx *zstd;
        struct log_map map;
        bool indexed;
        /* the look over all records */
        uint64_t scanned, tail;    /* next offset to look at; where nothing valid begins at the end, 0 = nowhere */
        struct log_pace scan_pace;
        bool scan_in_block;
        uint64_t other_damage;     /* bytes that are in no block, or in no frame */
        /* where log_next stands */
        uint64_t at;
        struct log_pace pace;
        bool in_block;
        /* a window of the file */
        uint8_t *window;
        size_t window_room, window_length;
        uint64_t window_at;
        struct bytes_out plain, note; /* decompressed */
};

/* ---- bytes of the file --------------------------------------------------------------------------------------------------------------- */

static uint64_t file_size(const struct log *log)
{
        struct stat st;

        return fstat(log->fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* So much of the window lies at or behind the offset. */
static size_t in_window(const struct log *log, uint64_t offset)
{
        bool within = offset >= log->window_at && offset - log->window_at < log->window_length;

        return within ? log->window_length - (size_t)(offset - log->window_at) : 0;
}

/* `length` bytes at offset; NULL when the file is shorter (*error -ENODATA) or cannot be read. Valid until the next call. */
static const uint8_t *bytes_at(struct log *log, uint64_t offset, size_t length, int *error)
{
        if (in_window(log, offset) >= length && length > 0)
                return log->window + (offset - log->window_at);
        size_t wanted = length > CHUNK ? length : CHUNK, have = 0;
        if (wanted > log->window_room) {
                uint8_t *grown = realloc(log->window, wanted);
                if (!grown) {
                        *error = -ENOMEM;
                        return NULL;
                }
                log->window = grown;
                log->window_room = wanted;
        }
        log->window_at = offset;
        log->window_length = 0;
        while (have < length) {
                ssize_t n = pread(log->fd, log->window + have, wanted - have, (off_t)(offset + have));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        *error = n < 0 ? -errno : -ENODATA;
                        return NULL;
                }
                have += (size_t)n;
                log->window_length = have;
        }
        return log->window;
}

/* NONE: the file ends here; TORN: in the middle of a record, or nothing valid follows. */
enum found { FOUND_RECORD, FOUND_DAMAGED, FOUND_NONE, FOUND_TORN };

static bool head_valid(const struct log_record *head)
{
        return memcmp(head->mark, LOG_MARK, sizeof head->mark) == 0 && head->length <= LOG_RECORD_MAX &&
                head->check == (uint32_t)crc32_z(0, (const uint8_t *)head, offsetof(struct log_record, check));
}

/* Offset of the next valid record head at or after; 0 none. */
static uint64_t next_head(struct log *log, uint64_t offset, int *error)
{
        for (uint64_t size = file_size(log); offset + sizeof(struct log_record) <= size;) {
                size_t length = in_window(log, offset); /* damage every few bytes must not mean that all is read anew each time */
                if (length < sizeof(struct log_record))
                        length = size - offset < CHUNK ? (size_t)(size - offset) : CHUNK;
                const uint8_t *bytes = bytes_at(log, offset, length, error);
                if (!bytes)
                        return 0;
                size_t end = length - sizeof(struct log_record), i = 0;
                for (; i <= end; i++) {
                        const uint8_t *mark = memchr(bytes + i, LOG_MARK[0], end - i + 1);
                        struct log_record head;
                        if (!mark)
                                break;
                        i = (size_t)(mark - bytes);
                        memcpy(&head, mark, sizeof head);
                        if (head_valid(&head))
                                return offset + i;
                }
                offset += end + 1;
        }
        return 0;
}

struct record {
        struct log_record head;
        uint64_t offset, next;
        const uint8_t *payload;    /* NULL when its checksum is wrong */
};

/* The record at offset. FOUND_DAMAGED: there is none, the next one is at record->next. */
static int record_at(struct log *log, uint64_t offset, struct record *record)
{
        int error = 0;
        const uint8_t *bytes = bytes_at(log, offset, sizeof record->head, &error);

        if (!bytes && error != -ENODATA)
                return error;
        if (!bytes)
                return file_size(log) <= offset ? FOUND_NONE : FOUND_TORN;
        memcpy(&record->head, bytes, sizeof record->head);
        record->offset = offset;
        if (!head_valid(&record->head)) {
                record->next = next_head(log, offset + 1, &error);
                if (record->next == 0)
                        return error < 0 && error != -ENODATA ? error : FOUND_TORN;
                return FOUND_DAMAGED;
        }
        if (offset + sizeof record->head + record->head.length > file_size(log))
                return FOUND_TORN;
        record->next = offset + sizeof record->head + record->head.length;
        bytes = bytes_at(log, offset, sizeof record->head + record->head.length, &error);
        if (!bytes)
                return error == -ENODATA ? FOUND_TORN : error;
        record->payload = bytes + sizeof record->head;
        if (record->head.crc != (uint32_t)crc32_z(0, record->payload, record->head.length))
                record->payload = NULL;
        return FOUND_RECORD;
}

static bool block_step(const struct record *record, struct log_step *step, uint64_t *tick_ns)
{
        struct log_block_head head;

        if (!record->payload || record->head.length < sizeof head)
                return false;
        memcpy(&head, record->payload, sizeof head);
        *tick_ns = head.tick_ns;
        *step = (struct log_step){.flags = (uint16_t)head.flags, .sequence = head.sequence, .mono_ns = head.mono_ns,
                .real_ns = head.real_ns};
        return true;
}

/* Its payload as bytes to read from; failed when there is none. */
static struct bytes_in payload_of(const struct record *record)
{
        if (!record->payload)
                return (struct bytes_in){.failed = true};
        return (struct bytes_in){.at = record->payload, .end = record->payload + record->head.length};
}

/* The bytes behind the varints, or a failed reader. */
static struct bytes_in frame_step(const struct record *record, struct log_pace *pace)
{
        struct bytes_in in = payload_of(record);

        if (!in.failed)
                log_pace_get(pace, &in);
        return in;
}

/* ---- the look over all records ---------------------------------------------------------------------------------------------------- */

static void mark_damaged(struct log *log, uint64_t offset)
{
        struct log_map *map = &log->map;

        for (size_t i = map->block_count; i-- > 0;) {
                struct log_map_block *block = &map->blocks[i];
                if (block->offset > offset)
                        continue;
                if (block->damaged_at == 0 || block->damaged_at > offset)
                        block->damaged_at = offset;
                return;
        }
}

static const uint8_t *note_name(const struct record *record, size_t *length, struct bytes_in *in)
{
        *in = payload_of(record);
        uint64_t n = get_number(in);
        const uint8_t *name = n > 0 && n <= LOG_NAME_MAX ? get_bytes(in, (size_t)n) : NULL;

        *length = (size_t)n;
        return name;
}

static int scan_record(struct log *log, const struct record *record)
{
        struct log_step step;
        struct bytes_in in;
        uint64_t tick_ns;
        size_t length;
        const uint8_t *name;
        int r;

        /* Its head was whole, so the next record is where it should be. */
        if (!record->payload && record->head.kind != LOG_KIND_BLOCK && record->head.kind != LOG_KIND_FRAME)
                log->other_damage += record->head.length;

        switch (record->head.kind) {
        case LOG_KIND_BLOCK:
                log->scan_in_block = block_step(record, &step, &tick_ns);
                if (!log->scan_in_block) {
                        mark_damaged(log, record->offset);
                        return 0;
                }
                log_pace_begin(&log->scan_pace, &step);
                return log_map_block(&log->map, record->offset, &step, tick_ns);
        case LOG_KIND_FRAME:
                if (!log->scan_in_block)
                        return 0;
                in = frame_step(record, &log->scan_pace);
                log->scan_in_block = !in.failed;
                if (in.failed)
                        mark_damaged(log, record->offset);
                else
                        log_map_frame(&log->map, &log->scan_pace.step);
                return 0;
        case LOG_KIND_NOTE:
                name = note_name(record, &length, &in);
                r = name ? log_map_note(&log->map, record->offset, (const char *)name, length) : 0;
                return r == -ENOMEM ? r : 0; /* no name of ours, or one of far too many */
        default:
                return 0;
        }
}

/* Go on with the look to the end of the file. */
static int scan(struct log *log)
{
        struct record record;

        while (!log->indexed) {
                int r = record_at(log, log->scanned, &record);
                log->tail = r == FOUND_TORN ? log->scanned : 0;
                if (r == FOUND_NONE || r == FOUND_TORN || r < 0)
                        return r < 0 ? r : 0;
                if (r == FOUND_DAMAGED) {
                        log->scan_in_block = false;
                        if (log->map.block_count == 0)
                                log->other_damage += record.next - log->scanned;
                        mark_damaged(log, log->scanned);
                } else if ((r = scan_record(log, &record)) < 0) {
                        return r;
                }
                log->scanned = record.next;
        }
        return 0;
}

/* A finished log's index. 0 taken, or there is none that can be used. */
static int read_index(struct log *log)
{
        uint64_t size = file_size(log);
        struct record record;
        struct log_end end;
        int error = 0;

        if (size < sizeof log->head + sizeof end)
                return 0;
        const uint8_t *bytes = bytes_at(log, size - sizeof end, sizeof end, &error);
        if (!bytes)
                return error == -ENODATA ? 0 : error;
        memcpy(&end, bytes, sizeof end);
        if (memcmp(end.magic, LOG_END_MAGIC, sizeof end.magic) != 0 || end.index < sizeof log->head || end.index >= size)
                return 0;
        int r = record_at(log, end.index, &record);
        if (r < 0)
                return r;
        if (r != FOUND_RECORD || !record.payload || record.next != size || record.head.kind != LOG_KIND_INDEX)
                return 0;
        if (record.head.length < sizeof end)
                return 0;
        struct bytes_in in = {.at = record.payload, .end = record.payload + record.head.length - sizeof end};
        r = log_map_get(&log->map, &in, end.index);
        if (r == 0)
                log->indexed = true;
        else
                log_map_fini(&log->map);
        return r == -ENOMEM ? r : 0;
}

/* ---- opening -------------------------------------------------------------------------------------------------------------------- */

/* A whole zstd frame of at most `limit` bytes. */
static int unpack(struct bytes_in *in, struct bytes_out *out, size_t limit)
{
        uint64_t length = get_number(in);

        out->used = 0;
        out->failed = false;
        if (in->failed || length > limit)
                return -EBADMSG;
        uint8_t *to = bytes_extend(out, (size_t)length + 1);
        if (!to)
                return -ENOMEM;
        size_t n = ZSTD_decompress(to, (size_t)length, in->at, (size_t)(in->end - in->at));
        if (ZSTD_isError(n) || n != length)
                return -EBADMSG;
        to[length] = 0;
        out->used = (size_t)length;
        return 0;
}

/* The schema from any of its copies; else ours, when the head says that it is the same. */
static int read_schema(struct log *log)
{
        struct record record;
        int copies = 0;

        for (uint64_t at = sizeof log->head; copies < 2;) {
                int r = record_at(log, at, &record);
                if (r == -ENOMEM || r == -EIO)
                        return r;
                if (r != FOUND_RECORD && r != FOUND_DAMAGED)
                        break;
                at = record.next;
                if (r == FOUND_DAMAGED || record.head.kind != LOG_KIND_SCHEMA)
                        continue;
                copies++;
                struct bytes_in in = payload_of(&record);
                if (unpack(&in, &log->note, LOG_SCHEMA_MAX) == 0 &&
                    schema_read(&log->schema, (const char *)log->note.bytes, log->note.used) == 0)
                        return 0;
        }
        char *own = malloc(LOG_SCHEMA_MAX);
        if (!own)
                return -ENOMEM;
        size_t length = schema_write(own, LOG_SCHEMA_MAX);
        bool same = length == log->head.schema_length && log->head.schema_crc == (uint32_t)crc32_z(0, (const uint8_t *)own, length);
        free(own);
        if (!same)
                return -EBADMSG;
        schema_own(&log->schema);
        return 0;
}

static int read_head(struct log *log)
{
        int error = 0;
        const uint8_t *bytes = bytes_at(log, 0, sizeof log->head, &error);

        if (!bytes)
                return error == -ENODATA ? -EBADMSG : error;
        memcpy(&log->head, bytes, sizeof log->head);
        if (memcmp(log->head.magic, LOG_MAGIC, sizeof log->head.magic) != 0)
                return -EPROTO;
        struct log_head copy = log->head;
        copy.crc = 0;
        bool sound = log->head.crc == (uint32_t)crc32_z(0, (const uint8_t *)&copy, sizeof copy);
        if (log->head.layout != LOG_LAYOUT)
                return sound ? -EPROTO : -EBADMSG;
        if (!sound) {
                log->other_damage += sizeof log->head;
                memset(log->head.version, 0, sizeof log->head.version);
                log->head.schema_length = 0;
        }
        return 0;
}

static int open_file(const char *path)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                return -errno;
        int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EPROTO;
        if (r < 0) {
                close(fd);
                return r;
        }
        return fd;
}

int log_open(const char *path, struct log **result)
{
        struct log *log = calloc(1, sizeof *log);

        if (!log)
                return -ENOMEM;
        log->fd = open_file(path);
        log->scanned = sizeof log->head;
        int r = log->fd < 0 ? log->fd : read_head(log);
        if (r == 0)
                r = read_schema(log);
        if (r == 0)
                r = log_coder_new(&log->schema, &log->coder);
        if (r == 0 && !(log->zstd = ZSTD_createDCtx()))
                r = -ENOMEM;
        if (r == 0)
                r = read_index(log);
        if (r == 0)
                r = scan(log);
        if (r == 0)
                r = log_rewind(log);
        /* No frame, no note, and nothing that grows: nothing can be read. */
        if (r == 0 && log->map.block_count == 0 && log->map.note_count == 0 && !log_growing(log))
                r = -EBADMSG;
        if (r < 0) {
                log_close(log);
                return r;
        }
        *result = log;
        return 0;
}

void log_close(struct log *log)
{
        if (!log)
                return;
        if (log->fd >= 0)
                close(log->fd);
        log_coder_free(log->coder);
        ZSTD_freeDCtx(log->zstd);
        log_map_fini(&log->map);
        free(log->window);
        free(log->plain.bytes);
        free(log->note.bytes);
        free(log);
}

/* ---- what is known -------------------------------------------------------------------------------------------------------------- */

const struct schema *log_schema(const struct log *log)
{
        return &log->schema;
}

bool log_growing(struct log *log)
{
        struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

        return !log->indexed && fcntl(log->fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

void log_scope_bytes(const struct log *log, uint64_t bytes[SCOPE_COUNT + 1])
{
        uint64_t theirs[33];

        log_coder_bytes(log->coder, theirs);
        memset(bytes, 0, sizeof *bytes * (SCOPE_COUNT + 1));
        for (int i = 0; i < 33; i++)
                bytes[i < 32 && log->schema.scope[i] >= 0 ? log->schema.scope[i] : SCOPE_COUNT] += theirs[i];
}

static void count_damage(const struct log *log, struct log_info *info)
{
        uint64_t end = log->tail ? log->tail : info->bytes;

        info->damaged_bytes = log->other_damage;
        for (size_t i = 0; i < log->map.block_count; i++) {
                const struct log_map_block *block = &log->map.blocks[i];
                uint64_t until = i + 1 < log->map.block_count ? block[1].offset : end;
                if (block->damaged_at == 0)
                        continue;
                info->damaged_blocks++;
                info->damaged_bytes += until > block->damaged_at ? until - block->damaged_at : 0;
        }
}

int log_get_info(struct log *log, struct log_info *info)
{
        int r = scan(log);

        if (r < 0)
                return r;
        *info = (struct log_info){.bytes = file_size(log), .blocks = log->map.block_count,
                .finished = log->indexed, .growing = log_growing(log),
                .last_sequence = log->map.last.sequence, .last_real_ns = log->map.last.real_ns, .last_mono_ns = log->map.last.mono_ns};
        if (log->map.block_count > 0) {
                info->first_sequence = log->map.blocks[0].sequence;
                info->first_real_ns = log->map.blocks[0].real_ns;
                info->first_mono_ns = log->map.blocks[0].mono_ns;
                info->tick_ns = log->map.blocks[0].tick_ns;
        }
        for (size_t i = 0; i < log->map.block_count; i++)
                info->frames += log->map.blocks[i].frames;
        info->torn_bytes = log->tail && info->bytes > log->tail ? info->bytes - log->tail : 0;
        count_damage(log, info);
        memcpy(info->version, log->head.version, sizeof info->version);
        info->version[sizeof info->version - 1] = '\0';
        return 0;
}

const char *log_note_name(struct log *log, size_t index)
{
        scan(log);
        return index < log->map.note_count ? log->map.notes[index].name : NULL;
}

const void *log_get_note(struct log *log, const char *name, size_t *length)
{
        struct record record;
        struct bytes_in in;
        size_t name_length;

        scan(log);
        for (size_t i = 0; i < log->map.note_count; i++) {
                const struct log_map_note *note = &log->map.notes[i];
                if (strcmp(note->name, name) != 0)
                        continue;
                if (record_at(log, note->offset, &record) != FOUND_RECORD || record.head.kind != LOG_KIND_NOTE)
                        return NULL;
                const uint8_t *found = note_name(&record, &name_length, &in);
                if (!found || name_length != strlen(name) || memcmp(found, name, name_length) != 0 ||
                    unpack(&in, &log->note, LOG_NOTE_MAX) < 0)
                        return NULL;
                *length = log->note.used;
                return log->note.bytes;
        }
        return NULL;
}

/* ---- going through -------------------------------------------------------------------------------------------------------------- */

/* One record's part of the block's zstd frame, all of it. */
static int inflate_part(struct log *log, const struct bytes_in *part)
{
        ZSTD_inBuffer in = {part->at, (size_t)(part->end - part->at), 0};

        log->plain.used = 0;
        log->plain.failed = false;
        for (;;) {
                size_t room = in.size - in.pos < 1024 ? 4096 : (in.size - in.pos) * 4, at = log->plain.used;
                uint8_t *to = bytes_extend(&log->plain, room);
                if (!to)
                        return -ENOMEM;
                ZSTD_outBuffer out = {to, room, 0};
                size_t n = ZSTD_decompressStream(log->zstd, &out, &in);
                log->plain.used = at + out.pos;
                if (ZSTD_isError(n) || log->plain.used > FRAME_MAX)
                        return -EBADMSG;
                if (in.pos == in.size && out.pos < out.size)
                        return 0;
                if (n == 0 && in.pos < in.size)
                        return -EBADMSG; /* the zstd frame ends within a record: not ours */
        }
}

static int take_frame(struct log *log, const struct record *record, const struct frame_head **frame)
{
        struct bytes_in in = {.failed = true};
        struct log_step step;
        uint64_t tick_ns;

        if (record->head.kind == LOG_KIND_FRAME) {
                in = frame_step(record, &log->pace);
        } else if (block_step(record, &step, &tick_ns)) {
                log_pace_begin(&log->pace, &step);
                log_coder_reset(log->coder);
                ZSTD_DCtx_reset(log->zstd, ZSTD_reset_session_only);
                in = (struct bytes_in){.at = record->payload + sizeof(struct log_block_head), .end = record->payload + record->head.length};
        }
        if (in.failed)
                return -EBADMSG;
        int r = inflate_part(log, &in);
        return r < 0 ? r : log_decode(log->coder, &log->pace.step, log->plain.bytes, log->plain.used, frame);
}

/* A block whose end was lost goes on in nothing: what follows of it is stepped over. */
static int lost(struct log *log, uint64_t offset)
{
        mark_damaged(log, offset);
        log->in_block = false;
        return LOG_DAMAGED;
}

int log_next(struct log *log, const struct frame_head **frame)
{
        struct record record;

        for (;;) {
                int r = record_at(log, log->at, &record);
                if (r < 0)
                        return r;
                if (r == FOUND_NONE || r == FOUND_TORN)
                        return LOG_END;
                uint64_t offset = log->at;
                log->at = record.next;
                if (r == FOUND_DAMAGED)
                        return lost(log, offset);
                if (record.head.kind == LOG_KIND_BLOCK)
                        log->in_block = true;
                else if (record.head.kind != LOG_KIND_FRAME || !log->in_block)
                        continue;
                r = take_frame(log, &record, frame);
                if (r == 0)
                        return LOG_FRAME;
                if (r == -ENOMEM)
                        return r;
                return lost(log, offset);
        }
}

int log_next_mark(struct log *log, const struct frame_head **frame)
{
        int r = scan(log);

        while (r >= 0) {
                for (size_t i = 0; i + 1 < log->map.block_count; i++)
                        if (log->map.blocks[i].offset == log->at && log->map.blocks[i].marks == 0) {
                                log->at = log->map.blocks[i + 1].offset;
                                log->in_block = false;
                        }
                r = log_next(log, frame);
                if (r == LOG_END || (r == LOG_FRAME && (*frame)->flags & FRAME_MARK))
                        break;
        }
        return r;
}

/* ---- search --------------------------------------------------------------------------------------------------------------------- */

int log_rewind(struct log *log)
{
        log->at = log->map.block_count > 0 ? log->map.blocks[0].offset : sizeof log->head;
        log->in_block = false;
        return 0;
}

static int seek(struct log *log, uint64_t sought, size_t field)
{
        const struct log_map_block *found = NULL;
        int r = scan(log);

        if (r < 0)
                return r;
        for (size_t i = 0; i < log->map.block_count; i++) {
                const struct log_map_block *block = &log->map.blocks[i];
                uint64_t value;
                memcpy(&value, (const char *)block + field, sizeof value);
                if (value <= sought)
                        found = block;
        }
        if (!found)
                return -ENOENT;
        log->at = found->offset;
        log->in_block = false;
        return 0;
}

int log_seek_sequence(struct log *log, uint64_t sequence)
{
        return seek(log, sequence, offsetof(struct log_map_block, sequence));
}

int log_seek_time(struct log *log, uint64_t real_ns)
{
        return seek(log, real_ns, offsetof(struct log_map_block, real_ns));
}

/*
 * Files of block traces, merged by time. See blk_read.h.
 *
 * Reading goes on in the file that is furthest behind, into a window; when that is full it is sorted and its first half given out. So at
 * any moment at least half a window of events lies between what is given out and what may still come.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tui/blk_read.h"

enum { WINDOW = 1 << 17, WINDOW_FIRST = 1 << 11, CHUNK = 1 << 17, FILES = 8192, RUN = 64, NAMES = 1 << 16, PIDS = 1 << 16, CPUS = 1 << 13,
        DEVICES = 256,
        LINE = 4096 /* longer ones are no events */ };
static const uint32_t MAX_GAP = 1 << 24; /* a larger leap of a sequence number is damage, not loss */

struct file {
        gzFile stream;
        const char *path;
        uint8_t *buffer;          /* bytes [from, to) are not used yet */
        size_t from, to;
        uint64_t last;            /* time of the last event read */
        bool end, binary, told, skipping;
};

struct blk_trace {
        struct file *files;
        size_t file_count;
        struct blk_record *window;
        size_t room;              /* of the window: grows to 2 * WINDOW */
        size_t filled, given;     /* of the window: read, handed out */
        size_t ready;             /* up to here it is sorted and may be handed out */
        uint64_t order, start, last;
        bool begun;
        struct blk_damage damage;
        char (*names)[BLK_NAME];  /* number 0: not known */
        size_t name_count;
        uint32_t *name_hash, *pid_hash, *pid_names, *pids;
        struct cpu { uint32_t device, cpu, sequence; uint64_t time; } *cpus;
        struct label { uint32_t device; uint16_t file; bool mixed; } labels[DEVICES];
        size_t label_count;
};

/* ---- names -------------------------------------------------------------------------------------------------------------------------- */

static uint32_t mix(uint64_t a)
{
        return (uint32_t)((a * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static uint32_t intern(struct blk_trace *trace, const char *name)
{
        uint64_t hash = 14695981039346656037u;

        if (name[0] == '\0')
                return 0;
        for (const char *c = name; *c; c++)
                hash = (hash ^ (uint8_t)*c) * 1099511628211u;
        uint32_t slot = mix(hash) % (2 * NAMES);
        for (; trace->name_hash[slot]; slot = (slot + 1) % (2 * NAMES))
                if (strcmp(trace->names[trace->name_hash[slot]], name) == 0)
                        return trace->name_hash[slot];
        if (trace->name_count == NAMES)
                return 0;
        memcpy(trace->names[trace->name_count], name, strlen(name) + 1);
        return trace->name_hash[slot] = (uint32_t)trace->name_count++;
}

/* What a thread was last called: binary traces say it once. */
static uint32_t *pid_name(struct blk_trace *trace, uint32_t pid)
{
        uint32_t slot = mix(pid) % PIDS;

        for (unsigned i = 0; i < 64; i++, slot = (slot + 1) % PIDS) {
                if (trace->pid_hash[slot] == 0) {
                        trace->pid_hash[slot] = 1;
                        trace->pids[slot] = pid;
                }
                if (trace->pids[slot] == pid)
                        return &trace->pid_names[slot];
        }
        return &trace->pid_names[PIDS]; /* a full neighbourhood: these have no names */
}

/* ---- one file ----------------------------------------------------------------------------------------------------------------------- */

/* At least `wanted` bytes if the file has them; returns how many there are. */
static size_t fill(struct blk_trace *trace, struct file *file, size_t wanted)
{
        while (file->to - file->from < wanted && !file->end) {
                if (file->from > 0) {
                        memmove(file->buffer, file->buffer + file->from, file->to - file->from);
                        file->to -= file->from;
                        file->from = 0;
                }
                int n = gzread(file->stream, file->buffer + file->to, (unsigned)(CHUNK - file->to));
                if (n <= 0) {
                        int error = Z_OK;
                        gzerror(file->stream, &error);
                        if (n < 0 || (error != Z_OK && error != Z_STREAM_END))
                                trace->damage.broken++;
                        file->end = true;
                } else {
                        file->to += (size_t)n;
                }
        }
        return file->to - file->from;
}

/* 1 a record, 0 the end of the file. */
static int read_binary(struct blk_trace *trace, struct file *file, struct blk_record *record)
{
        char name[BLK_NAME];

        for (;;) {
                size_t have = fill(trace, file, BLK_RECORD);
                if (have == 0)
                        return 0;
                size_t used = blk_parse_binary(file->buffer + file->from, have, record, name);
                if (used > have) {
                        have = fill(trace, file, used);
                        used = blk_parse_binary(file->buffer + file->from, have, record, name);
                }
                if (used > have) { /* cut; or a length that lies, with records behind it */
                        if (!file->skipping)
                                trace->damage.cut++;
                        used = 0;
                }
                if (used == 0) {
                        trace->damage.skipped++;
                        trace->damage.spots += !file->skipping;
                        file->skipping = true;
                        file->from++;
                        continue;
                }
                file->skipping = false;
                file->from += used;
                record->name = intern(trace, name);
                if (record->note || record->event.action != STAGE_ACTIONS)
                        return 1;
        }
}

/* The next line's length; its start is at file->from, and *skip is what to go on by. SIZE_MAX: the end. */
static size_t next_line(struct blk_trace *trace, struct file *file, size_t *skip)
{
        for (size_t wanted = 256;; wanted *= 2) {
                size_t have = fill(trace, file, wanted);
                const uint8_t *at = file->buffer + file->from, *end = memchr(at, '\n', have);
                if (end) {
                        *skip = (size_t)(end - at) + 1;
                        return (size_t)(end - at);
                }
                if (have < wanted || wanted > LINE) {
                        *skip = have;
                        return have ? have : SIZE_MAX;
                }
        }
}

static int read_text(struct blk_trace *trace, struct file *file, struct blk_record *record)
{
        char name[BLK_NAME];
        uint64_t lost = 0;
        size_t length, skip;

        while ((length = next_line(trace, file, &skip)) != SIZE_MAX) {
                const char *line = (const char *)file->buffer + file->from;
                enum blk_line kind = length > LINE ? BLK_LINE_OTHER : blk_parse_line(line, length, record, name);
                file->from += skip;
                switch (kind) {
                case BLK_LINE_EVENT:
                        record->name = intern(trace, name);
                        record->lost = lost;
                        record->gap = lost > 0;
                        return 1;
                case BLK_LINE_LOST:
                        lost = record->lost > UINT64_MAX - lost ? UINT64_MAX : lost + record->lost;
                        break;
                case BLK_LINE_OVERWRITTEN: trace->damage.overwritten += record->lost; break;
                case BLK_LINE_BAD: trace->damage.lines++; break;
                case BLK_LINE_OTHER: break;
                }
        }
        return 0;
}

static int file_open(struct blk_trace *trace, struct file *file, const char *path)
{
        struct stat st;
        int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)) {
                close(fd);
                return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        }
        file->path = path;
        file->buffer = malloc(CHUNK);
        file->stream = file->buffer ? gzdopen(fd, "rb") : NULL;
        if (file->stream == NULL) {
                close(fd);
                return -ENOMEM;
        }
        size_t have = fill(trace, file, BLK_RECORD);
        struct blk_record record;
        char name[BLK_NAME];
        /* Text has no byte 0 in its first lines; a binary file whose first record is damaged has. */
        file->binary = blk_parse_binary(file->buffer, have, &record, name) > 0 && have >= 48;
        if (!file->binary && memchr(file->buffer, '\0', have < 64 ? have : 64))
                file->binary = true;
        return 0;
}

/* ---- all files ---------------------------------------------------------------------------------------------------------------------- */

static void close_file(struct file *file)
{
        if (file->stream)
                gzclose_r(file->stream);
        free(file->buffer);
        file->stream = NULL;
        file->buffer = NULL;
}

void blk_close(struct blk_trace *trace)
{
        if (trace == NULL)
                return;
        for (size_t i = 0; i < trace->file_count; i++)
                close_file(&trace->files[i]);
        free(trace->files);
        free(trace->window);
        free(trace->names);
        free(trace->name_hash);
        free(trace->pid_hash);
        free(trace->pid_names);
        free(trace->pids);
        free(trace->cpus);
        free(trace);
}

int blk_open(const char *const *paths, size_t count, struct blk_trace **result, char *why, size_t size)
{
        struct blk_trace *trace = calloc(1, sizeof *trace);
        int r = trace ? 0 : -ENOMEM;

        if (r == 0 && (count == 0 || count > FILES))
                r = -E2BIG;
        if (r == 0) {
                trace->files = calloc(count, sizeof *trace->files);
                trace->room = WINDOW_FIRST;
                trace->window = malloc(trace->room * sizeof *trace->window);
                trace->names = calloc(NAMES, sizeof *trace->names);
                trace->name_hash = calloc(2 * NAMES, sizeof *trace->name_hash);
                trace->pid_hash = calloc(PIDS, sizeof *trace->pid_hash);
                trace->pid_names = calloc(PIDS + 1, sizeof *trace->pid_names);
                trace->pids = calloc(PIDS, sizeof *trace->pids);
                trace->cpus = calloc(CPUS, sizeof *trace->cpus);
                trace->name_count = 1;
                if (!trace->files || !trace->window || !trace->names || !trace->name_hash || !trace->pid_hash || !trace->pid_names ||
                        !trace->pids ||
                    !trace->cpus)
                        r = -ENOMEM;
        }
        snprintf(why, size, "%s", r < 0 ? strerror(-r) : "");
        for (size_t i = 0; i < count && r == 0; i++) {
                trace->file_count = i + 1;
                r = file_open(trace, &trace->files[i], paths[i]);
                if (r < 0)
                        snprintf(why, size, "%s: %s", paths[i], r == -EINVAL ? "not a file of events" : strerror(-r));
        }
        if (r < 0) {
                blk_close(trace);
                return r;
        }
        *result = trace;
        return 0;
}

static int by_time(const void *a, const void *b)
{
        const struct blk_record *x = a, *y = b;

        if (x->event.time != y->event.time)
                return x->event.time < y->event.time ? -1 : 1;
        return x->order < y->order ? -1 : x->order > y->order;
}

static struct file *furthest_behind(struct blk_trace *trace)
{
        struct file *best = NULL;

        for (size_t i = 0; i < trace->file_count; i++)
                if (trace->files[i].stream && (best == NULL || trace->files[i].last < best->last))
                        best = &trace->files[i];
        return best;
}

/* Room for one more record: 1 there is, 0 the window is as large as it gets, -ENOMEM. */
static int make_room(struct blk_trace *trace)
{
        if (trace->filled < trace->room)
                return 1;
        if (trace->room == 2 * WINDOW)
                return 0;
        struct blk_record *more = realloc(trace->window, 2 * trace->room * sizeof *more);
        if (more == NULL)
                return -ENOMEM;
        trace->window = more;
        trace->room *= 2;
        return 1;
}

/* Fill the window, sort it, and make its first half (all of it at the end) ready. */
static int refill(struct blk_trace *trace)
{
        struct file *file = NULL;
        int r = 1;
        bool sorted = true;

        memmove(trace->window, trace->window + trace->given, (trace->filled - trace->given) * sizeof *trace->window);
        trace->filled -= trace->given;
        trace->given = 0;
        while (r > 0 && (file = furthest_behind(trace)) != NULL)
                for (int i = 0; i < RUN && (r = make_room(trace)) > 0; i++) {
                        struct blk_record *record = &trace->window[trace->filled];
                        if ((file->binary ? read_binary(trace, file, record) : read_text(trace, file, record)) == 0) {
                                close_file(file);
                                break;
                        }
                        record->order = ++trace->order;
                        record->file = (uint16_t)(file - trace->files);
                        if (record->event.time > file->last)
                                file->last = record->event.time;
                        if (trace->filled > 0 && record->event.time < record[-1].event.time)
                                sorted = false;
                        trace->filled++;
                }
        if (r < 0)
                return r;
        if (!sorted)
                qsort(trace->window, trace->filled, sizeof *trace->window, by_time);
        trace->ready = trace->filled == 2 * WINDOW ? WINDOW : trace->filled;
        return 0;
}

/* By sequence: true when the record is one that was had already. */
static bool check_sequence(struct blk_trace *trace, struct blk_record *record)
{
        uint32_t device = record->event.device, slot = mix((uint64_t)device << 32 | record->cpu) % CPUS;

        for (unsigned i = 0; i < CPUS; i++, slot = (slot + 1) % CPUS) {
                struct cpu *cpu = &trace->cpus[slot];
                if (cpu->sequence == 0) {
                        *cpu = (struct cpu){.device = device, .cpu = record->cpu, .sequence = record->sequence, .time = record->event.time};
                        return false;
                }
                if (cpu->device != device || cpu->cpu != record->cpu)
                        continue;
                bool twice = record->sequence == cpu->sequence && record->event.time == cpu->time;
                if (record->sequence > cpu->sequence + 1 && record->sequence - cpu->sequence < MAX_GAP) {
                        record->lost += record->sequence - cpu->sequence - 1;
                        record->gap = true;
                }
                if (record->sequence < cpu->sequence)
                        trace->damage.disordered++;
                cpu->sequence = record->sequence;
                cpu->time = record->event.time;
                return twice;
        }
        return false;
}

/* Which file a device's events come from, for its name. */
static void label(struct blk_trace *trace, const struct blk_record *record)
{
        const char *name = trace->files[record->file].path;

        if (!strstr(name, ".blktrace."))
                return;
        for (size_t i = 0; i < trace->label_count; i++)
                if (trace->labels[i].device == record->event.device) {
                        if (trace->labels[i].file != record->file) {
                                const char *other = trace->files[trace->labels[i].file].path, *end = strstr(other, ".blktrace.");
                                size_t length = end ? (size_t)(end - other) : 0;
                                trace->labels[i].mixed |= strncmp(other, name, length) != 0 ||
                                        strncmp(name + length, ".blktrace.", 10) != 0;
                        }
                        return;
                }
        if (trace->label_count < DEVICES)
                trace->labels[trace->label_count++] = (struct label){.device = record->event.device, .file = record->file};
}

int blk_next(struct blk_trace *trace, struct blk_record *record)
{
        for (;;) {
                if (trace->given == trace->ready) {
                        int r = refill(trace);
                        if (r < 0 || trace->ready == 0)
                                return r;
                }
                *record = trace->window[trace->given++];
                if (record->note) {
                        *pid_name(trace, record->event.pid) = record->name;
                        continue;
                }
                if (record->sequence && check_sequence(trace, record)) {
                        trace->damage.duplicates++;
                        continue;
                }
                if (!trace->begun) {
                        trace->begun = true;
                        trace->start = record->event.time;
                }
                if (record->event.time < trace->last)
                        trace->damage.disordered++;
                else
                        trace->last = record->event.time;
                trace->damage.events++;
                trace->damage.lost += record->lost;
                label(trace, record);
                uint32_t name = record->name ? record->name : *pid_name(trace, record->event.pid);
                record->event.name = name ? trace->names[name] : NULL;
                return 1;
        }
}

const struct blk_damage *blk_get_damage(const struct blk_trace *trace) { return &trace->damage; }
uint64_t blk_start(const struct blk_trace *trace) { return trace->start; }

const char *blk_device_name(const struct blk_trace *trace, uint32_t device)
{
        static char name[64];

        for (size_t i = 0; i < trace->label_count; i++) {
                const struct label *found = &trace->labels[i];
                if (found->device != device || found->mixed)
                        continue;
                for (size_t k = 0; k < trace->label_count; k++) /* two devices of one name: neither has it */
                        if (k != i && trace->labels[k].file == found->file)
                                return NULL;
                const char *path = trace->files[found->file].path, *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path;
                const char *end = strstr(from, ".blktrace.");
                if (end == NULL || end == from)
                        return NULL;
                snprintf(name, sizeof name, "%.*s", (int)(end - from < 60 ? end - from : 60), from);
                return name;
        }
        return NULL;
}

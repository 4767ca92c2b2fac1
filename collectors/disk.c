/*
 * Block devices, from /proc/diskstats, with what sysfs says about them (blockdev.c).
 *
 * The number of fields of a line tells the kernel's version: 4 behind the name (partitions of very old kernels), 11, 15 (4.18) or 17
 * (5.5) and more. Values are handed on in ns and bytes as monotone counters; wraps and falls are the reader's business. For the split of
 * wa this collector sums, over all whole devices, how long requests were open in the interval, and says when that sum bounds nothing: a
 * device unplugged, replaced or not accounted, a kernel without flush fields.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/blockdev.h"
#include "collectors/collector.h"

enum {
        DEVICES_MAX = 16384,
        INFLIGHT_ALWAYS = 32,   /* with up to so many devices each one's inflight file is read every tick (0.8 us each) */
        REPLACED_MAX = 256,     /* with up to so many, diskseq is looked at after each event the kernel announces */
        ROTATION = 8,           /* devices whose attributes are read again in one tick */
        /* fields of a line, counted from 0 behind the name */
        READS = 0, READ_MS = 3, WRITES = 4, WRITE_MS = 7, INFLIGHT = 8, DISCARDS = 11, DISCARD_MS = 14, FLUSHES = 15, FLUSH_MS = 16,
};

static const uint64_t ROTATION_NS = UINT64_C(10000000000), MS = 1000000;

static const struct { int metric; uint64_t unit; } slots[BLOCKDEV_FIELDS] = {
        { DISK_READS, 1 }, { DISK_READS_MERGED, 1 }, { DISK_READ_BYTES, 512 }, { DISK_READ_TIME, 1000000 },
        { DISK_WRITES, 1 }, { DISK_WRITES_MERGED, 1 }, { DISK_WRITE_BYTES, 512 }, { DISK_WRITE_TIME, 1000000 },
        { DISK_INFLIGHT, 1 }, { DISK_IO_TIME, 1000000 }, { DISK_QUEUE_TIME, 1000000 },
        { DISK_DISCARDS, 1 }, { DISK_DISCARDS_MERGED, 1 }, { DISK_DISCARD_BYTES, 512 }, { DISK_DISCARD_TIME, 1000000 },
        { DISK_FLUSHES, 1 }, { DISK_FLUSH_TIME, 1000000 },
};

struct disk {
        struct procfs_file stats, events;
        char *buffer, *small;
        size_t capacity, small_capacity;
        struct blockdev **list;      /* in the order of /proc/diskstats */
        size_t count, room;
        struct blockdev_ids *ids;
        uint64_t reads;              /* successful reads of diskstats */
        uint64_t event;              /* /sys/kernel/uevent_seqnum */
        uint64_t ids_ns;             /* when by-id names were read last */
        bool last_read_failed;
};

/* ---- opening and closing ------------------------------------------------------------------------------------------- */

static int disk_open(struct procfs *p, void **own)
{
        struct disk *d = calloc(1, sizeof *d);
        if (!d)
                return -ENOMEM;
        if (blockdev_ids_new(&d->ids) < 0) {
                free(d);
                return -ENOMEM;
        }
        procfs_file_init(&d->stats, "proc/diskstats");
        procfs_file_init(&d->events, "sys/kernel/uevent_seqnum");
        *own = d;
        return 0;
}

static void device_free(struct blockdev *b)
{
        procfs_file_close(&b->inflight);
        free(b);
}

static void disk_close(void *own)
{
        struct disk *d = own;
        if (!d)
                return;
        for (size_t i = 0; i < d->count; i++)
                device_free(d->list[i]);
        procfs_file_close(&d->stats);
        procfs_file_close(&d->events);
        blockdev_ids_free(d->ids);
        free(d->list);
        free(d->buffer);
        free(d->small);
        free(d);
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static bool same(const struct blockdev *b, uint64_t major, uint64_t minor, const char *name, size_t length)
{
        return b->major == major && b->minor == minor && strncmp(b->name, name, length) == 0 && b->name[length] == '\0';
}

/* The device of a line; made when it is new. guess: where the line before suggests that it is, for the order seldom changes. */
static struct blockdev *find_device(struct disk *d, size_t guess, uint64_t major, uint64_t minor, const char *name, size_t length)
{
        if (guess < d->count && same(d->list[guess], major, minor, name, length))
                return d->list[guess];
        for (size_t i = 0; i < d->count; i++)
                if (same(d->list[i], major, minor, name, length))
                        return d->list[i];
        if (d->count == DEVICES_MAX)
                return NULL;
        if (d->count == d->room) {
                size_t wanted = d->room ? d->room * 2 : 32;
                struct blockdev **grown = realloc(d->list, wanted * sizeof(struct blockdev *));
                if (!grown)
                        return NULL;
                d->list = grown;
                d->room = wanted;
        }
        struct blockdev *b = calloc(1, sizeof *b);
        if (!b)
                return NULL;
        b->major = major;
        b->minor = minor;
        memcpy(b->name, name, length);
        b->fresh = true;
        b->inflight.fd = -1;
        d->list[d->count++] = b;
        return b;
}

/* Fields behind the name into value; the mask of those that are there, 0 when the line is none of the known forms. */
static uint32_t parse_fields(struct scan *line, uint64_t value[BLOCKDEV_FIELDS])
{
        unsigned n = 0;
        memset(value, 0, BLOCKDEV_FIELDS * sizeof *value);
        while (n < BLOCKDEV_FIELDS && scan_u64(line, &value[n]))
                n++;
        if (n >= 17)
                return (1u << 17) - 1;
        if (n >= 15)
                return (1u << 15) - 1;
        if (n >= 11)
                return (1u << 11) - 1;
        if (n != 4)
                return 0;
        /* partitions before 2.6.25: reads, sectors read, writes, sectors written */
        uint64_t v[4] = { value[0], value[1], value[2], value[3] };
        memset(value, 0, BLOCKDEV_FIELDS * sizeof *value);
        value[0] = v[0];
        value[2] = v[1];
        value[4] = v[2];
        value[6] = v[3];
        return 1u << 0 | 1u << 2 | 1u << 4 | 1u << 6;
}

static void parse_line(struct disk *d, struct scan *line, size_t *guess)
{
        uint64_t major, minor, value[BLOCKDEV_FIELDS];
        const char *name;
        size_t length;
        if (!scan_u64(line, &major) || !scan_u64(line, &minor) || !scan_word(line, &name, &length) || length >= BLOCKDEV_NAME)
                return;
        uint32_t have = parse_fields(line, value);
        if (have == 0 || memchr(name, '\0', length))
                return;
        struct blockdev *b = find_device(d, *guess, major, minor, name, length);
        if (!b || b->read == d->reads) /* the same device twice is garbage: the first line stands */
                return;
        if (*guess < d->count && b == d->list[*guess])
                ++*guess;
        memcpy(b->before, b->field, sizeof b->before);
        memcpy(b->field, value, sizeof b->field);
        b->had = b->have;
        b->have = have;
        b->seen_before = b->read;
        b->read = d->reads;
}

/* Devices whose line is gone. Their going says nothing about what they had open until then. */
static bool drop_gone(struct disk *d)
{
        size_t kept = 0;
        bool void_bound = false;
        for (size_t i = 0; i < d->count; i++) {
                struct blockdev *b = d->list[i];
                if (b->read == d->reads) {
                        d->list[kept++] = b;
                        continue;
                }
                void_bound = void_bound || b->kind != 'p';
                device_free(b);
        }
        d->count = kept;
        return void_bound;
}

/* ---- changes ------------------------------------------------------------------------------------------------------- */

/* Numbers of 32 bits (milliseconds on all kernels, counts on 32-bit ones) that passed 2^32. */
static bool wrapped(uint64_t before, uint64_t now)
{
        return before <= UINT32_MAX && before >= UINT64_C(3) << 30 && now < UINT64_C(1) << 30;
}

static bool fell(uint64_t before, uint64_t now)
{
        return now < before && !wrapped(before, now);
}

static uint64_t grown(uint64_t before, uint64_t now)
{
        return now >= before ? now - before : now + (UINT64_C(1) << 32) - before;
}

/* Its counters restarted: another device, or counters that mean nothing any more. */
static bool restarted(const struct blockdev *b)
{
        for (unsigned i = 0; i < BLOCKDEV_FIELDS; i++)
                if (i != INFLIGHT && (b->have & b->had & 1u << i) && fell(b->before[i], b->field[i]))
                        return true;
        return b->have != b->had;
}

static bool moved(const struct blockdev *b)
{
        return memcmp(b->before, b->field, sizeof b->field) != 0;
}

static bool completed(const struct blockdev *b)
{
        return b->field[READS] != b->before[READS] || b->field[WRITES] != b->before[WRITES] || b->field[DISCARDS] != b->before[DISCARDS] ||
               b->field[FLUSHES] != b->before[FLUSHES];
}

/* True when the kernel announced a change of some device since the last look; always so in a captured machine, where looking costs
 * nothing. */
static bool announced(struct disk *d, struct procfs *p)
{
        struct scan s;
        uint64_t number;
        if (!procfs_live(p))
                return true;
        ssize_t n = procfs_file_read(p, &d->events, &d->small, &d->small_capacity);
        scan_init(&s, d->small, n > 0 ? (size_t)n : 0);
        if (!scan_u64(&s, &number) || number == d->event)
                return false;
        d->event = number;
        return true;
}

/* Find what must be read anew, and read it. A captured machine's trees need not repeat what does not change, so there is no rotation in
 * them. */
static void refresh(struct disk *d, struct tick *t, uint64_t now)
{
        struct procfs *p = t->procfs;
        bool event = announced(d, p) || t->capture, look = event && d->count <= REPLACED_MAX, any = false, replaced = false;
        unsigned turn = t->extra || !procfs_live(p) ? 0 : ROTATION;
        for (size_t i = 0; i < d->count; i++) {
                struct blockdev *b = d->list[i];
                if (b->fresh)
                        continue;
                bool other = look && blockdev_replaced(p, b);
                replaced = replaced || other;
                b->fresh = other || restarted(b);
                if (b->fresh) {
                        b->seen_before = 0; /* as if it had come just now */
                } else if (turn > 0 && now >= b->read_ns + ROTATION_NS) {
                        b->fresh = true;
                        turn--;
                }
        }
        for (size_t i = 0; i < d->count; i++) {
                if (!d->list[i]->fresh && !replaced) /* partitions carry their disk's sequence number */
                        continue;
                d->list[i]->fresh = true;
                blockdev_read(p, d->list[i]);
                d->list[i]->read_ns = now;
                any = true;
        }
        /* With many disks the rotation has some in every tick: not the whole folder each time. */
        if (any && (event || d->ids_ns == 0 || now >= d->ids_ns + ROTATION_NS)) {
                blockdev_ids_read(p, d->ids);
                d->ids_ns = now;
        }
}

/* ---- evidence for the split of wa ---------------------------------------------------------------------------------- */

static bool iowait_to_explain(const struct evidence *e)
{
        for (size_t i = 0; i < e->core_count; i++)
                if (e->cores[i].valid && e->cores[i].iowait_ns > 0)
                        return true;
        return false;
}

/* A queue of requests whose accounting is off: what waits for it shows nowhere. */
static bool unaccounted(const struct blockdev *b)
{
        return (b->kind == 'w' || b->kind == 'h') && b->request_based && b->size > 0 && b->has_iostats && !b->iostats;
}

static void add_open_time(struct evidence *e, const struct blockdev *b)
{
        static const unsigned ms[] = { READ_MS, WRITE_MS, DISCARD_MS, FLUSH_MS };
        for (unsigned i = 0; i < sizeof ms / sizeof ms[0]; i++) {
                if (!(b->have & 1u << ms[i]))
                        continue;
                uint64_t before = b->seen_before ? b->before[ms[i]] : 0, delta = grown(before, b->field[ms[i]]);
                if (delta == 0)
                        continue;
                if (delta > UINT32_MAX || e->device_ns > INT64_MAX - (int64_t)(delta * MS)) /* no kernel prints that */
                        e->bound_void = true;
                else
                        e->device_ns += (int64_t)(delta * MS);
                e->device_counters++;
        }
}

static void add_evidence(struct evidence *e, const struct blockdev *b)
{
        if (b->kind == 'p') /* its disk has the same requests */
                return;
        if (!(b->have & 1u << FLUSH_MS) || unaccounted(b))
                e->bound_void = true;
        if (b->seen_before == 0 && (b->had != 0 || b->read == 1)) /* restarted or replaced; or the first tick of all */
                e->bound_void = true;
        add_open_time(e, b);
        e->in_flight = e->in_flight || b->in_flight;
        e->completed = e->completed || (b->seen_before && completed(b));
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* sysfs inflight: requests the driver has, passthrough ones included. Its own text, read after diskstats. */
static bool read_inflight(struct disk *d, struct tick *t, struct blockdev *b, uint64_t value[2])
{
        struct scan s;
        ssize_t n = procfs_file_read(t->procfs, &b->inflight, &d->small, &d->small_capacity);
        scan_init(&s, d->small, n > 0 ? (size_t)n : 0);
        t->fds += b->inflight.fd >= 0;
        return scan_u64(&s, &value[0]) && scan_u64(&s, &value[1]);
}

static bool wants_inflight(const struct disk *d, const struct tick *t, const struct blockdev *b, bool waiting)
{
        if (!b->folder[0] || b->size == 0)
                return false;
        if (t->capture || moved(b) || b->field[INFLIGHT] > 0)
                return true;
        return b->kind != 'p' && (waiting || d->count <= INFLIGHT_ALWAYS);
}

static void counter_slots(const struct blockdev *b, struct row *row)
{
        bool counted = !unaccounted(b); /* the kernel prints zeros for what it does not count */

        for (unsigned i = 0; i < BLOCKDEV_FIELDS; i++) {
                if (counted && (b->have & 1u << i) && b->field[i] <= (uint64_t)INT64_MAX / slots[i].unit)
                        row_set(row, slots[i].metric, b->field[i] * slots[i].unit);
                else
                        row_absent(row, slots[i].metric);
        }
}

static void id_slot(const struct disk *d, const struct blockdev *b, struct row *row)
{
        const char *id = blockdev_ids_find(d->ids, b->name);
        row_text(row, DISK_BY_ID, id, id ? strlen(id) : 0);
}

static void device_row(struct disk *d, struct tick *t, struct blockdev *b, const uint64_t *driver, uint64_t now)
{
        struct row *row = sample_row(t->sample, SCOPE_DISK, blockdev_key(b), 0);
        if (!row)
                return;
        counter_slots(b, row);
        if (driver) {
                row_set(row, DISK_DRIVER_READS, driver[0]);
                row_set(row, DISK_DRIVER_WRITES, driver[1]);
        } else {
                row_absent(row, DISK_DRIVER_READS);
                row_absent(row, DISK_DRIVER_WRITES);
        }
        if ((b->have & 1u << INFLIGHT) && !unaccounted(b))
                row_set(row, DISK_STUCK, b->in_flight && now > b->moved_ns ? now - b->moved_ns : 0);
        else
                row_absent(row, DISK_STUCK);
        if (row_is_new(row) || b->fresh) {
                blockdev_row(t->procfs, b, row);
                id_slot(d, b, row);
        }
}

static void one_device(struct disk *d, struct tick *t, struct blockdev *b, bool waiting, uint64_t now)
{
        uint64_t driver[2];
        if ((waiting || t->capture) && b->request_based)
                blockdev_read_iostats(t->procfs, b);
        bool known = wants_inflight(d, t, b, waiting) && read_inflight(d, t, b, driver), was = b->in_flight;
        b->in_flight = b->field[INFLIGHT] > 0 || (known && (driver[0] > 0 || driver[1] > 0));
        if (!was || b->seen_before == 0 || completed(b))
                b->moved_ns = now;
        add_evidence(t->evidence, b);
        if (t->scopes & SCOPE_BIT(SCOPE_DISK))
                device_row(d, t, b, known ? driver : NULL, now);
        b->fresh = false;
}

/* ---- the tick ------------------------------------------------------------------------------------------------------ */

static ssize_t read_stats(struct disk *d, struct tick *t)
{
        struct evidence *e = t->evidence;
        e->disk_prev_start_ns = e->disk_start_ns;
        e->disk_prev_end_ns = e->disk_end_ns;
        e->disk_start_ns = procfs_mono(t->procfs);
        ssize_t n = procfs_file_read(t->procfs, &d->stats, &d->buffer, &d->capacity);
        e->disk_end_ns = procfs_mono(t->procfs);
        e->device_ns = 0;
        e->device_counters = 0;
        e->in_flight_start = e->in_flight;
        e->in_flight = e->completed = false;
        e->bound_void = n < 0 || d->last_read_failed || d->reads == 0 || procfs_lxcfs(t->procfs);
        d->last_read_failed = n < 0;
        return n;
}

static int disk_collect(void *own, struct tick *t)
{
        struct disk *d = own;
        struct scan s, line;
        size_t guess = 0;
        ssize_t n = read_stats(d, t);
        if (n < 0)
                return (int)n;
        d->reads++;
        scan_init(&s, d->buffer, (size_t)n);
        while (scan_line(&s, &line))
                parse_line(d, &line, &guess);
        if (drop_gone(d))
                t->evidence->bound_void = true;
        uint64_t now = t->evidence->disk_start_ns;
        refresh(d, t, now);
        bool waiting = iowait_to_explain(t->evidence);
        if (t->scopes & SCOPE_BIT(SCOPE_DISK))
                sample_scope_begin(t->sample, SCOPE_DISK, now);
        for (size_t i = 0; i < d->count; i++)
                one_device(d, t, d->list[i], waiting, now);
        if (t->scopes & SCOPE_BIT(SCOPE_DISK))
                sample_scope_end(t->sample, SCOPE_DISK, t->evidence->disk_end_ns, GONE_EXITED);
        t->fds += (d->stats.fd >= 0 ? 1u : 0u) + (d->events.fd >= 0 ? 1u : 0u);
        return 0;
}

static void disk_check(struct procfs *p, char *line, size_t size)
{
        char *buffer = NULL, text[64];
        size_t capacity = 0;
        ssize_t n = procfs_read_all(p, "proc/diskstats", &buffer, &capacity);
        struct scan s, first;
        uint64_t value[BLOCKDEV_FIELDS];
        bool flushes = false;
        scan_init(&s, buffer, n > 0 ? (size_t)n : 0);
        while (!flushes && scan_line(&s, &first))
                flushes = scan_skip(&first, 3) && (parse_fields(&first, value) & 1u << FLUSH_MS);
        if (n < 0)
                snprintf(line, size, "/proc/diskstats: %s", strerror((int)-n));
        else if (procfs_lxcfs(p))
                snprintf(line, size, "/proc/diskstats is a container's view (lxcfs): wa cannot be bounded by it");
        else if (procfs_read(p, "sys/kernel/uevent_seqnum", text, sizeof text) < 0)
                snprintf(line, size, "counters only: /sys cannot be read, so schedulers, partitions and stacking are not known");
        else
                snprintf(line, size, "%s", flushes ? "block devices: all"
                        : "block devices: all but flushes, which this kernel does not count: wa cannot be bounded");
        free(buffer);
}

const struct collector collector_disk = {
        .name = "disk",
        .scopes = SCOPE_BIT(SCOPE_DISK),
        .open = disk_open,
        .collect = disk_collect,
        .close = disk_close,
        .check = disk_check,
};

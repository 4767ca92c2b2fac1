/*
 * What the block tracer has seen: records out of the CPUs' buffers, the bios that are open, and its own counts. See stage_tracer.h.
 *
 * Reading is loads and stores in shared memory. A program publishes a record by its first word; here that word is emptied when the record
 * has been copied, and only then the place is given back (tail).
 */
#include "collectors/bpf/stage_own.h"
#include "sample/stage.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- records ------------------------------------------------------------------------------------------------------------------------- */

/* errno by blk_status_t, block/blk-core.c; what later kernels add reads as EIO, as theirs mostly does. */
static int16_t error_of(int16_t status, bool is_number)
{
        static const int16_t errors[] = {0, EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO, EBADE, ENODATA, EILSEQ, ENOMEM, EIO, EREMCHG,
                EAGAIN, EBUSY, EBUSY};
        if (status <= 0 || is_number)
                return status;
        return (int16_t)-((size_t)status < sizeof errors / sizeof *errors ? errors[status] : EIO);
}

static uint64_t end_of(const struct stage_record *record)
{
        switch (record->kind) {
        case RECORD_BIO: return record->bio.given ? record->bio.given : record->bio.c;
        case RECORD_SYNC: return record->sync.end;
        case RECORD_EVENT: return record->event.time;
        default: return 0; /* names go first */
        }
}

/* The ring's next record, or NULL. */
static struct stage_record *next_of(const struct stage_tracer *tracer, uint32_t ring)
{
        size_t cpus = tracer->cpus, capacity = ring < cpus ? tracer->capacity : RECORDS_INNER;
        size_t first = ring < cpus ? ring * capacity : cpus * tracer->capacity + (ring - cpus) * capacity;
        struct stage_record *record = &tracer->records[first + tracer->buffers[ring].tail % capacity];
        return __atomic_load_n((uint64_t *)record, __ATOMIC_ACQUIRE) ? record : NULL;
}

/* A heap of the rings that have records, the earliest on top. */
static void sift(struct stage_next *heap, size_t count)
{
        struct stage_next top = heap[0];
        size_t at = 0;
        for (size_t child; (child = 2 * at + 1) < count; at = child) {
                if (child + 1 < count && heap[child + 1].time < heap[child].time)
                        child++;
                if (heap[child].time >= top.time)
                        break;
                heap[at] = heap[child];
        }
        heap[at] = top;
}

static size_t fill_heap(struct stage_tracer *tracer)
{
        size_t count = 0;
        for (uint32_t ring = 0; ring < stage_rings(tracer); ring++) {
                const struct stage_record *record = next_of(tracer, ring);
                if (!record)
                        continue;
                size_t at = count++;
                struct stage_next next = {.time = end_of(record), .ring = ring};
                for (; at > 0 && tracer->heap[(at - 1) / 2].time > next.time; at = (at - 1) / 2)
                        tracer->heap[at] = tracer->heap[(at - 1) / 2];
                tracer->heap[at] = next;
        }
        return count;
}

/* As the kernel writes an operation and its flags (blk_fill_rwbs): "WFSM", "FF". */
static void spell(struct stage_record *record, uint32_t operation)
{
        static const struct { uint8_t operation; char letters[3]; } names[] = {{0, "R"}, {1, "W"}, {2, "F"}, {3, "D"}, {5, "DE"},
                {7, "ZA"}};
        static const struct { uint8_t flag; char letter; } marks[] = {{STAGE_FUA, 'F'}, {STAGE_IS_AHEAD, 'A'}, {STAGE_IS_SYNC, 'S'},
                {STAGE_IS_META, 'M'}};
        char text[sizeof record->event.rwbs] = "";
        const char *name = "N";
        size_t at = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (names[i].operation == (operation & 0xff))
                        name = names[i].letters;
        if (record->bio_flags & STAGE_PREFLUSH)
                text[at++] = 'F';
        while (*name)
                text[at++] = *name++;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
                if (record->bio_flags & marks[i].flag)
                        text[at++] = marks[i].letter;
        memcpy(record->event.rwbs, text, sizeof text);
}

/* Texts end, and have nothing of older records behind their ends: others may read them. */
static void end_text(char *text, size_t size)
{
        size_t length = strnlen(text, size - 1);
        memset(text + length, 0, size - length);
}

/* What is easier done here than in a program. */
static void finish(const struct stage_tracer *tracer, struct stage_record *record)
{
        uint32_t operation;
        bool numbers = tracer->settings.errors_are_numbers;
        switch (record->kind) {
        case RECORD_BIO:
                record->bio.error = error_of(record->bio.error, numbers && !(record->flags & RECORD_DRIVER));
                break;
        case RECORD_SYNC: end_text(record->sync.file, sizeof record->sync.file); break;
        case RECORD_NAME: end_text(record->name.comm, sizeof record->name.comm); break;
        case RECORD_EVENT:
                memcpy(&operation, record->event.rwbs, sizeof operation);
                if (record->event.action == STAGE_P || record->event.action == STAGE_U || record->event.action == STAGE_UT)
                        memset(record->event.rwbs, 0, sizeof record->event.rwbs);
                else
                        spell(record, operation);
                end_text(record->event.comm, sizeof record->event.comm);
                memset(record->event.unused, 0, sizeof record->event.unused);
                record->event.error = error_of((int16_t)record->event.error, numbers && record->bio_flags & STAGE_OF_REQUEST);
                break;
        default: break;
        }
}

static void take(struct stage_tracer *tracer, uint32_t ring, struct stage_record *record, struct stage_record *out)
{
        struct buffer *buffer = &tracer->buffers[ring];
        *out = *record;
        __atomic_store_n((uint64_t *)record, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&buffer->tail, buffer->tail + 1, __ATOMIC_RELEASE);
        finish(tracer, out);
}

size_t stage_tracer_drain(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        size_t rings = fill_heap(tracer), count = 0;
        while (rings > 0 && count < room) {
                uint32_t ring = tracer->heap[0].ring;
                struct stage_record *record = next_of(tracer, ring);
                if (record)
                        take(tracer, ring, record, &out[count++]);
                const struct stage_record *next = record ? next_of(tracer, ring) : NULL;
                if (next)
                        tracer->heap[0].time = end_of(next);
                else
                        tracer->heap[0] = tracer->heap[--rings];
                sift(tracer->heap, rings);
        }
        tracer->drained += count;
        return count;
}

void stage_discard(struct stage_tracer *tracer)
{
        struct stage_record *record;
        for (uint32_t ring = 0; ring < stage_rings(tracer); ring++)
                while ((record = next_of(tracer, ring)) != NULL) {
                        __atomic_store_n((uint64_t *)record, 0, __ATOMIC_RELAXED);
                        __atomic_store_n(&tracer->buffers[ring].tail, tracer->buffers[ring].tail + 1, __ATOMIC_RELEASE);
                }
}

/* ---- open bios ----------------------------------------------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
        const struct stage_open *left = a, *right = b;
        return left->q < right->q ? -1 : left->q > right->q;
}

static struct slot *slot_of(const struct stage_tracer *tracer, uint32_t number)
{
        return &tracer->buckets[number / SLOT_WAYS].slot[number % SLOT_WAYS];
}

/* false: it has ended meanwhile. */
static bool copy_open(const struct slot *slot, uint64_t q, struct stage_record *out)
{
        struct slot copy;
        uint64_t key = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
        memcpy(&copy, slot, sizeof copy);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        bool same = __atomic_load_n(&slot->key, __ATOMIC_RELAXED) == key && __atomic_load_n(&slot->q, __ATOMIC_RELAXED) == q;
        if (!same || !key || copy.q != q || !(copy.flags & SLOT_QUEUED))
                return false;
        memset(out, 0, sizeof *out);
        out->kind = RECORD_BIO;
        out->flags = (uint8_t)((copy.flags & SLOT_KERNEL ? RECORD_KERNEL : 0) | (copy.flags & SLOT_PIECE ? RECORD_PIECE : 0) |
                (copy.parts ? RECORD_LAST : 0));
        out->direction = copy.direction;
        out->bio_flags = copy.bio_flags;
        out->device = copy.device;
        out->tid = copy.tid;
        out->tgid = copy.tgid;
        out->bio.id = copy.flags & SLOT_PIECE ? copy.id : slot_id(copy.key, copy.q);
        out->bio.q = copy.q;
        out->bio.g = copy.g;
        out->bio.m = copy.flags & SLOT_M ? copy.m : 0;
        out->bio.i = copy.flags & SLOT_I ? copy.i : 0;
        out->bio.d1 = copy.flags & SLOT_D1 ? copy.d1 : copy.d;
        out->bio.d = copy.d;
        out->bio.sector = copy.sector;
        out->bio.sectors = copy.bytes >> 9;
        out->bio.parts = copy.parts ? (uint16_t)(copy.parts + 1) : 0;
        out->bio.requeues = copy.requeues;
        out->bio.cgroup = copy.flags & SLOT_CGROUP ? copy.cgroup : 0;
        return true;
}

/* The far buckets are much memory and seldom used: they are looked at when something was put there, until nothing is left. */
static size_t find_open(struct stage_tracer *tracer)
{
        uint64_t far = __atomic_load_n(&tracer->control->far, __ATOMIC_ACQUIRE);
        size_t found = 0, found_near = 0;
        for (uint32_t i = 0; i < OPEN_BIOS; i++) {
                const struct slot *slot = slot_of(tracer, i);
                if (i == SLOT_NEAR * SLOT_WAYS) {
                        found_near = found;
                        if (far == tracer->far_seen)
                                return found;
                }
                if (__atomic_load_n(&slot->key, __ATOMIC_RELAXED))
                        tracer->open[found++] = (struct stage_open){__atomic_load_n(&slot->q, __ATOMIC_RELAXED), i};
        }
        if (found == found_near)
                tracer->far_seen = far;
        return found;
}

size_t stage_tracer_open_bios(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        size_t found, count = 0;
        if (!tracer->attached[GROUP_BLOCK])
                return 0;
        found = stage_mend(tracer, tracer->open, find_open(tracer), stage_clock());
        qsort(tracer->open, found, sizeof *tracer->open, by_age);
        for (size_t i = 0; i < found && count < room; i++)
                count += copy_open(slot_of(tracer, tracer->open[i].slot), tracer->open[i].q, &out[count]);
        return count;
}

/* ---- counts -------------------------------------------------------------------------------------------------------------------------- */

/* A system call for each program, so once a second is enough. */
static void count_programs(struct stage_tracer *tracer, uint64_t now)
{
        if (tracer->counted && now - tracer->counted < 1000000000u)
                return;
        tracer->counted = now;
        tracer->run_ns = tracer->run_count = tracer->misses = 0;
        for (enum stage_group group = 0; group < GROUPS; group++)
                for (size_t i = 0; i < tracer->count[group]; i++) {
                        struct bpf_prog_info info = {0};
                        uint32_t length = sizeof info;
                        if (bpf_obj_get_info_by_fd(bpf_program__fd(tracer->programs[group][i]), &info, &length) != 0)
                                continue;
                        tracer->run_ns += info.run_time_ns;
                        tracer->run_count += info.run_cnt;
                        tracer->misses += info.recursion_misses; /* one inside of another of its kind is not run */
                }
}

void stage_tracer_stats(struct stage_tracer *tracer, struct stage_tracer_stats *stats)
{
        count_programs(tracer, stage_clock());
        *stats = (struct stage_tracer_stats){.records = tracer->drained, .run_ns = tracer->run_ns, .run_count = tracer->run_count,
                .unmatched = __atomic_load_n(&tracer->control->unmatched, __ATOMIC_RELAXED) + tracer->mended + tracer->misses,
                .crowded = __atomic_load_n(&tracer->control->crowded, __ATOMIC_RELAXED)};
        for (size_t ring = 0; ring < stage_rings(tracer); ring++)
                stats->lost += __atomic_load_n(&tracer->buffers[ring].lost, __ATOMIC_RELAXED);
}

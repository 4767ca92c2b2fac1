/*
 * Sums of traced bios and calls. Contract: stages_sums.h.
 *
 * Each sum has two halves: `live`, which the thread writes, and `copy`, which the tick reads without the lock. The arrays of pointers never
 * move, and only the tick takes entries out, under the lock: so a pointer that the tick holds stays good until it drops it itself.
 */
#include "collectors/stages_sums.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/sample.h"

enum {
        OTHERS = STAGE_COUNT * STAGE_DIRECTIONS, /* at most so many sums of nobody, in places of their own */
        MOST = 2048,
        SLOTS = 8192, /* of the hash: more than twice all of a kind */
};
static const size_t most[SUM_KINDS] = { [SUM_STAGE] = MOST, [SUM_BIO] = 1024, [SUM_SYNC] = 512 };

/* For the lock: the thread holds it for less than a microsecond, unless it lost its core just then. */
#define PATIENCE_NS UINT64_C(2000000)
#define AGAIN_NS 50000

struct octave {
        uint64_t since_ns;            /* written before its bit is set, never again */
        uint64_t live[SUM_STEPS], copy[SUM_STEPS];
};

struct entry {
        struct sum live, copy;
        struct octave *octave[SUM_OCTAVES];
        bool dirty, changed;          /* live is ahead of copy; copy moved */
        uint64_t octaves_dirty, octaves_changed;
};

struct table {
        struct entry *entries[MOST + OTHERS];
        size_t count, copied;
        size_t others;                /* of them, sums of nobody */
        uint16_t hash[SLOTS];         /* index + 1, linear probing */
};

struct sums {
        pthread_mutex_t lock;
        struct table tables[SUM_KINDS];
};

_Static_assert(MOST + OTHERS < UINT16_MAX && (MOST + OTHERS) * 2 < SLOTS, "indices and the hash");
_Static_assert(SUM_OCTAVES <= 64, "a bit for each");

static uint64_t now_ns(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

int sums_new(struct sums **result)
{
        struct sums *sums = calloc(1, sizeof *sums);

        if (sums == NULL)
                return -ENOMEM;
        pthread_mutex_init(&sums->lock, NULL);
        *result = sums;
        return 0;
}

static void entry_free(struct entry *entry)
{
        for (unsigned i = 0; i < SUM_OCTAVES; i++)
                free(entry->octave[i]);
        free(entry);
}

void sums_free(struct sums *sums)
{
        if (sums == NULL)
                return;
        for (unsigned kind = 0; kind < SUM_KINDS; kind++)
                for (size_t i = 0; i < sums->tables[kind].count; i++)
                        entry_free(sums->tables[kind].entries[i]);
        pthread_mutex_destroy(&sums->lock);
        free(sums);
}

/* ---- finding --------------------------------------------------------------------------------------------------------------- */

/* What tells one from another. */
struct identity {
        uint32_t device, tgid;
        uint8_t kind, direction, what;
};

/* Six times for every bio, so a few multiplications instead of a hash over bytes. */
static uint64_t id_of(const struct identity *identity)
{
        uint64_t id = ((uint64_t)identity->tgid << 32 | identity->device) * UINT64_C(0x9e3779b97f4a7c15);

        id ^= id >> 32;
        uint64_t rest = UINT64_C(1) << 24 | (uint64_t)identity->kind << 16 | (uint64_t)identity->direction << 8 | identity->what;
        id += rest * UINT64_C(0xbf58476d1ce4e5b9);
        id *= UINT64_C(0x94d049bb133111eb);
        return id ^ id >> 31;
}

/* Where it is, or the empty slot where it belongs. */
static size_t slot_of(const struct table *table, uint64_t id)
{
        size_t slot = (size_t)(id >> 32) % SLOTS;

        while (table->hash[slot] != 0 && table->entries[table->hash[slot] - 1]->live.id != id)
                slot = (slot + 1) % SLOTS;
        return slot;
}

static struct entry *find(const struct table *table, const struct identity *identity)
{
        size_t slot = slot_of(table, id_of(identity));

        return table->hash[slot] != 0 ? table->entries[table->hash[slot] - 1] : NULL;
}

static struct entry *add(struct table *table, const struct identity *identity)
{
        struct entry *entry = calloc(1, sizeof *entry);

        if (entry == NULL)
                return NULL;
        entry->live = (struct sum){ .id = id_of(identity), .kind = identity->kind, .direction = identity->direction,
                .what = identity->what, .device = identity->device, .tgid = identity->tgid, .since_ns = now_ns(CLOCK_BOOTTIME) };
        entry->copy = entry->live;
        size_t slot = slot_of(table, entry->live.id);
        table->entries[table->count++] = entry;
        table->hash[slot] = (uint16_t)table->count;
        return entry;
}

/* Where the table is full, that of nobody. NULL: no memory. */
static struct entry *want(struct sums *sums, struct identity identity)
{
        struct table *table = &sums->tables[identity.kind];
        struct entry *entry = find(table, &identity);

        if (entry != NULL)
                return entry;
        if (table->count - table->others < most[identity.kind])
                return add(table, &identity);
        identity.device = identity.tgid = 0;
        entry = find(table, &identity);
        if (entry != NULL || table->others == OTHERS)
                return entry;
        entry = add(table, &identity);
        table->others += entry != NULL;
        if (entry != NULL && identity.kind != SUM_STAGE)
                memcpy(entry->live.name, "others", sizeof "others");
        return entry;
}

/* ---- counting: the thread --------------------------------------------------------------------------------------------------- */

static void count(struct entry *entry, uint64_t ns, uint64_t now)
{
        unsigned bucket = histogram_bucket(ns), octave = bucket / SUM_STEPS;
        struct sum *sum = &entry->live;

        sum->count++;
        sum->total += ns;
        sum->last_ns = now;
        if (ns >= sum->longest)
                sum->longest = ns;
        entry->dirty = true;
        if (entry->octave[octave] == NULL) {
                if ((entry->octave[octave] = calloc(1, sizeof *entry->octave[octave])) == NULL)
                        return;
                entry->octave[octave]->since_ns = now_ns(CLOCK_BOOTTIME);
        }
        entry->octave[octave]->live[bucket % SUM_STEPS]++;
        entry->octaves_dirty |= UINT64_C(1) << octave;
        sum->octaves |= UINT64_C(1) << octave;
}

static void rename_to(struct entry *entry, const char *name)
{
        if (*name != '\0' && entry->live.tgid != 0)
                memcpy(entry->live.name, name, sizeof entry->live.name);
}

static void count_stages(struct sums *sums, const struct stage_done *done, bool whole, uint64_t now)
{
        for (uint8_t stage = 0; stage < STAGE_COUNT; stage++) {
                if (!(done->seen & UINT32_C(1) << stage))
                        continue;
                struct entry *entry = want(sums, (struct identity){ .kind = SUM_STAGE, .device = done->row->device,
                        .direction = done->row->direction, .what = stage });
                if (entry == NULL)
                        continue;
                count(entry, done->stage[stage], now);
                if (whole)
                        entry->live.path += done->stage[stage];
        }
}

static struct entry *want_bio(struct sums *sums, const struct stage_row *row, uint32_t tgid)
{
        struct entry *entry = want(sums, (struct identity){ .kind = SUM_BIO, .device = row->device, .tgid = tgid,
                .direction = row->direction });

        if (entry != NULL)
                rename_to(entry, row->process->name);
        return entry;
}

void sums_bio(struct sums *sums, const struct stage_done *done, uint32_t tgid, bool whole, uint64_t now)
{
        pthread_mutex_lock(&sums->lock);
        count_stages(sums, done, whole, now);
        struct entry *entry = whole ? want_bio(sums, done->row, tgid) : NULL;
        if (entry != NULL) {
                count(entry, done->stage[STAGE_Q2C], now);
                entry->live.bytes += done->sectors * 512;
                for (unsigned cause = 0; cause < CAUSE_COUNT; cause++)
                        entry->live.part[cause] += done->cause[cause];
        }
        pthread_mutex_unlock(&sums->lock);
}

void sums_requests(struct sums *sums, const struct stage_row *row, uint32_t tgid, uint64_t more)
{
        pthread_mutex_lock(&sums->lock);
        struct entry *entry = want_bio(sums, row, tgid);
        if (entry != NULL) {
                entry->live.requests += more;
                entry->live.last_ns = now_ns(CLOCK_MONOTONIC);
                entry->dirty = true;
        }
        pthread_mutex_unlock(&sums->lock);
}

void sums_sync(struct sums *sums, const struct sync_done *done)
{
        const struct stage_record *record = done->record;
        uint64_t ns = record->sync.end > record->sync.start ? record->sync.end - record->sync.start : 0;

        pthread_mutex_lock(&sums->lock);
        struct entry *entry = want(sums, (struct identity){ .kind = SUM_SYNC, .tgid = record->tgid, .what = (uint8_t)record->sync.call });
        if (entry != NULL) {
                bool longest = ns >= entry->live.longest;
                count(entry, ns, now_ns(CLOCK_MONOTONIC));
                entry->live.errors += record->sync.result < 0;
                for (unsigned part = 0; part < SYNC_PARTS; part++)
                        entry->live.part[part] += done->part[part];
                if (done->row->tgid == record->tgid) /* else it is the row of all that found none */
                        rename_to(entry, done->row->name);
                if (longest && record->sync.file[0] != '\0')
                        memcpy(entry->live.file, record->sync.file, sizeof entry->live.file);
        }
        pthread_mutex_unlock(&sums->lock);
}

void sums_cgroup(struct sums *sums, const struct stage_record *record)
{
        pthread_mutex_lock(&sums->lock);
        struct entry *entry = find(&sums->tables[SUM_BIO], &(struct identity){ .kind = SUM_BIO, .device = record->device,
                .tgid = record->tgid, .direction = record->direction });
        if (entry != NULL && entry->live.cgroup != record->bio.cgroup) {
                entry->live.cgroup = record->bio.cgroup;
                entry->dirty = true;
        }
        pthread_mutex_unlock(&sums->lock);
}

/* ---- copying: the tick ------------------------------------------------------------------------------------------------------ */

/* pthread_mutex_timedlock goes by CLOCK_REALTIME, which somebody may set back, and then the tick hangs; not every C library has more. */
static bool lock_soon(struct sums *sums)
{
        bool locked = pthread_mutex_trylock(&sums->lock) == 0;

        for (uint64_t until = now_ns(CLOCK_MONOTONIC) + PATIENCE_NS; !locked && now_ns(CLOCK_MONOTONIC) < until;) {
                nanosleep(&(struct timespec){ .tv_nsec = AGAIN_NS }, NULL);
                locked = pthread_mutex_trylock(&sums->lock) == 0;
        }
        return locked;
}

static void copy_entry(struct entry *entry)
{
        uint64_t octaves = entry->octaves_dirty;

        entry->changed = entry->dirty;
        entry->octaves_changed = octaves;
        if (!entry->dirty)
                return;
        entry->copy = entry->live;
        entry->live.longest = 0;
        for (; octaves != 0; octaves &= octaves - 1) {
                struct octave *octave = entry->octave[__builtin_ctzll(octaves)];
                memcpy(octave->copy, octave->live, sizeof octave->copy);
        }
        entry->octaves_dirty = 0;
        entry->dirty = false;
}

bool sums_copy(struct sums *sums)
{
        bool locked = lock_soon(sums);

        for (unsigned kind = 0; kind < SUM_KINDS; kind++) {
                struct table *table = &sums->tables[kind];
                for (size_t i = 0; !locked && i < table->copied; i++) {
                        table->entries[i]->changed = false;
                        table->entries[i]->octaves_changed = 0;
                }
                for (size_t i = 0; locked && i < table->count; i++)
                        copy_entry(table->entries[i]);
                if (locked)
                        table->copied = table->count;
        }
        if (locked)
                pthread_mutex_unlock(&sums->lock);
        return locked;
}

size_t sums_count(const struct sums *sums, enum sum_kind kind)
{
        return sums->tables[kind].copied;
}

void sums_get(const struct sums *sums, enum sum_kind kind, size_t index, struct sum_view *view)
{
        const struct entry *entry = sums->tables[kind].entries[index];

        *view = (struct sum_view){ &entry->copy, entry->changed, entry->octaves_changed };
}

const uint64_t *sums_octave(const struct sums *sums, enum sum_kind kind, size_t index, unsigned octave, uint64_t *since_ns)
{
        const struct entry *entry = sums->tables[kind].entries[index];

        if (entry->copy.octaves & UINT64_C(1) << octave)
                *since_ns = entry->octave[octave]->since_ns;
        return entry->copy.octaves & UINT64_C(1) << octave ? entry->octave[octave]->copy : NULL;
}

/* Few die, so the hash is made anew. */
static void rehash(struct table *table)
{
        memset(table->hash, 0, sizeof table->hash);
        for (size_t i = 0; i < table->count; i++)
                table->hash[slot_of(table, table->entries[i]->live.id)] = (uint16_t)(i + 1);
}

void sums_drop(struct sums *sums, enum sum_kind kind, size_t index)
{
        struct table *table = &sums->tables[kind];

        if (!lock_soon(sums))
                return;
        struct entry *entry = table->entries[index];
        if (!entry->dirty) {
                /* Of those that the tick knows the last one moves here, and the last of all there. */
                table->entries[index] = table->entries[--table->copied];
                table->entries[table->copied] = table->entries[--table->count];
                rehash(table);
                entry_free(entry);
        }
        pthread_mutex_unlock(&sums->lock);
}

/*
 * Records of a live tracer into the stage engine, and back. See stage.h and stage_record.h.
 *
 * A record is a whole part of a bio, so nothing is matched: it is made into the part that the engine would have had at that part's
 * end, and walked and counted by the same code (stage_set.c). Only parts of split bios wait here, for the others of their bio: all but the
 * one that ended last so far are counted at once, that one when the bio is whole, for its way is the bio's.
 *
 * What waits is bounded in number (max_open) and in age: a bio one of whose records was lost is never whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_names.h"
#include "sample/stage_own.h"
#include "sample/stage_record.h"

/* Longer than the kernel lets a request take before it is ended or tried again (30 s), twice over. */
#define SPLIT_OLD_NS UINT64_C(120000000000)

enum { SPLIT_HASH = 256, SPLIT_MOST = 65536 };

struct split {
        struct link by_id, all;
        uint64_t id, ended;
        unsigned wanted;         /* 0 = not known yet */
        unsigned got;
        struct part part;        /* that ended last */
        struct bio bio;
};

struct live {
        struct stage_names *names;
        struct link ids[SPLIT_HASH], all; /* all: oldest first */
        size_t count;
        struct split *spare;     /* by all.next */
};

static struct live *live_of(struct stage_set *set)
{
        struct live *live = set->live;

        if (live)
                return live;
        live = calloc(1, sizeof *live);
        if (live == NULL)
                return NULL;
        live->names = stage_names_new();
        if (live->names == NULL) {
                free(live);
                return NULL;
        }
        for (int i = 0; i < SPLIT_HASH; i++)
                link_init(&live->ids[i]);
        link_init(&live->all);
        return set->live = live;
}

/* ---- a record as the part that the engine would have ------------------------------------------------------------------------------- */

/* In the engine 0 is "not seen", and all times are one more than they were. */
static uint64_t time_in(uint64_t time)
{
        return time && time < UINT64_MAX ? time + 1 : time;
}

static uint64_t first_of(const struct stage_record *record)
{
        const uint64_t times[] = {record->bio.q, record->bio.g, record->bio.m, record->bio.i, record->bio.d1, record->bio.d};

        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
                if (times[i])
                        return times[i];
        return record->bio.c ? record->bio.c : record->bio.given;
}

static bool has_ended(const struct stage_record *record)
{
        return record->bio.c || record->bio.given;
}

static void fill_bio(struct bio *bio, const struct stage_record *record)
{
        bool flush = record->bio.sectors == 0 && record->bio_flags & STAGE_PREFLUSH;

        bio->direction = flush ? STAGE_FLUSHES : record->direction < STAGE_DIRECTIONS ? record->direction : STAGE_ELSE;
        bio->kind = stage_kind_of(bio->direction, record->bio_flags);
        bio->flags = record->bio_flags;
        bio->order = record->bio.id;
        bio->pid = record->tid;
        bio->start = record->bio.sector;
}

static void fill_part(struct part *part, struct bio *bio, const struct stage_record *record)
{
        uint64_t c = record->bio.c ? record->bio.c : record->bio.given;

        *part = (struct part){.bio = bio, .start = record->bio.sector, .sectors = record->bio.sectors, .q = time_in(first_of(record)),
                .of_request = !(record->flags & RECORD_DRIVER), .head = record->flags & RECORD_HEAD,
                .request_sectors = record->flags & RECORD_HEAD ? record->bio.request_sectors : 0};
        link_init(&part->chain);
        part->c = time_in(c);
        bool after = record->bio.given > c;
        if (bio->direction == STAGE_FLUSHES || record->flags & RECORD_DRIVER || !(record->bio.d1 || record->bio.d)) {
                if (after && bio->direction == STAGE_FLUSHES)
                        part->flushed = part->c;
                if (after)
                        part->c = time_in(record->bio.given);
        } else if (record->bio.given) {
                part->given = time_in(record->bio.given);
        }
        if (record->flags & RECORD_DRIVER)
                return;
        part->g = time_in(record->bio.g);
        part->m = time_in(record->bio.m);
        if (part->m && !part->g)
                part->inserted = time_in(record->bio.i);
        else
                part->i = time_in(record->bio.i);
        part->d1 = time_in(record->bio.d1 ? record->bio.d1 : record->bio.d);
        part->d = record->bio.d ? time_in(record->bio.d) : part->d1;
}

static uint64_t part_ended(const struct part *part)
{
        return part->given > part->c ? part->given : part->c;
}

unsigned stage_record_cuts(const struct stage_record *record, struct stage_cut cuts[STAGE_CUTS], uint64_t *q)
{
        struct bio bio = {0};
        struct part part;

        if (!has_ended(record))
                return 0;
        fill_bio(&bio, record);
        fill_part(&part, &bio, record);
        unsigned count = stage_cut(&part, cuts);
        for (unsigned i = 0; i < count; i++)
                cuts[i].until--;
        *q = part.q - 1;
        return count;
}

/* ---- counting ----------------------------------------------------------------------------------------------------------------------- */

/* The request's own figures are those of its first bio. Of an empty flush it is the kernel's flush request, of which only the driver's time
 * is known. */
static int count_request(struct stage_set *set, const struct part *part)
{
        const struct bio *bio = part->bio;
        struct request request = {.device = bio->device, .start = part->start, .sectors = part->request_sectors, .process = bio->process,
                .direction = bio->direction, .kind = bio->kind, .d1 = part->d1, .d = part->d, .preflush = bio->flags & STAGE_PREFLUSH};

        if (!part->d)
                return 0;
        if (bio->direction == STAGE_FLUSHES) {
                bio->device->shown.flushes++;
                request.kind = STAGE_SYNC;
                request.d1 = request.d;
                return stage_count_request(set, &request, part->flushed ? part->flushed : part->c);
        }
        request.q = part->q;
        request.g = part->g;
        request.i = part->g || !part->m ? part->i : part->inserted;
        return stage_count_request(set, &request, part->c);
}

static void add_to_bio(struct stage_set *set, struct bio *bio, const struct part *part, const struct stage_record *record)
{
        bio->sectors += record->bio.sectors;
        bio->merged |= part->m != 0;
        bio->requeues += record->bio.requeues;
        if (record->bio.error)
                bio->error = record->bio.error;
        set->counts.crowded += record->direction >= STAGE_DIRECTIONS;
}

static void split_free(struct live *live, struct split *split)
{
        link_remove(&split->by_id);
        link_remove(&split->all);
        split->all.next = (struct link *)live->spare;
        live->spare = split;
        live->count--;
}

/* One whose other parts will not come. */
static void split_evict(struct stage_set *set, struct split *split)
{
        set->counts.evicted++;
        split_free(set->live, split);
}

static struct split *split_new(struct stage_set *set, struct live *live, const struct stage_record *record)
{
        size_t most = set->options.max_open < SPLIT_MOST ? set->options.max_open : SPLIT_MOST;

        if (live->count && live->count >= most)
                split_evict(set, LINK_OF(live->all.next, struct split, all));
        struct split *split = live->spare;
        if (split)
                live->spare = (struct split *)(void *)split->all.next;
        else if ((split = malloc(sizeof *split)) == NULL)
                return NULL;
        *split = (struct split){.id = record->bio.id};
        link_append(&live->ids[hash(0, record->bio.id) % SPLIT_HASH], &split->by_id);
        link_append(&live->all, &split->all);
        live->count++;
        return split;
}

/* Ids may be used again: what was queued when the other parts had ended, or has had its RECORD_LAST, is another bio. */
static struct split *split_find(struct stage_set *set, struct live *live, const struct stage_record *record)
{
        struct link *head = &live->ids[hash(0, record->bio.id) % SPLIT_HASH];

        for (struct link *at = head->next; at != head; at = at->next) {
                struct split *split = LINK_OF(at, struct split, by_id);
                if (split->id != record->bio.id || split->bio.device->shown.device != record->device)
                        continue;
                if (time_in(first_of(record)) < split->ended && !(split->wanted && record->flags & RECORD_LAST))
                        return split;
                split_evict(set, split);
                return NULL;
        }
        return NULL;
}

static void forget_old(struct stage_set *set, struct live *live, uint64_t now)
{
        while (live->all.next != &live->all) {
                struct split *oldest = LINK_OF(live->all.next, struct split, all);
                if (now < oldest->ended || now - oldest->ended < SPLIT_OLD_NS)
                        return;
                split_evict(set, oldest);
        }
}

/* One of several parts. */
static int on_piece(struct stage_set *set, struct live *live, const struct stage_record *record, struct bio *fresh)
{
        struct split *split = split_find(set, live, record);
        struct part part;
        int r = 0;

        if (split == NULL) {
                split = split_new(set, live, record);
                if (split == NULL)
                        return -ENOMEM;
                split->bio = *fresh;
                split->bio.split = true;
        }
        struct bio *bio = &split->bio;
        fill_part(&part, bio, record);
        add_to_bio(set, bio, &part, record);
        if (record->bio.sector < bio->start)
                bio->start = record->bio.sector;
        if (part.head)
                r = count_request(set, &part);
        if (split->got == 0) {
                split->part = part;
        } else {
                bool later = part_ended(&part) >= part_ended(&split->part);
                const struct part earlier = later ? split->part : part;
                if (later)
                        split->part = part;
                int failed = stage_count_part(set, &earlier, false);
                r = r < 0 ? r : failed;
        }
        split->part.bio = bio;
        link_init(&split->part.chain);
        split->ended = part_ended(&split->part);
        split->got++;
        if (record->flags & RECORD_LAST)
                split->wanted = record->bio.parts ? record->bio.parts : 1;
        if (split->wanted && split->got >= split->wanted) {
                int failed = stage_count_part(set, &split->part, true);
                r = r < 0 ? r : failed;
                split_free(live, split);
        }
        forget_old(set, live, part_ended(&part));
        return r;
}

static int on_bio(struct stage_set *set, struct live *live, const struct stage_record *record)
{
        struct bio bio = {.epoch = set->epoch};
        struct part part;
        int r = 0;

        if (!has_ended(record) && !(record->flags & RECORD_PASSED)) /* one that is open is news, no bio to be counted */
                return 0;
        set->counts.events++;
        bio.device = stage_find_device(set, record->device, &r);
        if (bio.device == NULL) {
                set->counts.crowded += r == 0;
                return r;
        }
        if (record->flags & RECORD_PASSED || record->bio_flags & STAGE_PASSTHROUGH) {
                bio.device->shown.passthrough++;
                return 0;
        }
        r = stage_find_process(set, record->tgid, stage_names_get(live->names, record->tgid), &bio.process);
        if (r < 0)
                return r;
        fill_bio(&bio, record);
        if (record->bio_flags & STAGE_FLUSH_OP) { /* the kernel's own flush request */
                bio.direction = STAGE_FLUSHES;
                fill_part(&part, &bio, record);
                return count_request(set, &part);
        }
        if (record->flags & (RECORD_LAST | RECORD_PIECE))
                return on_piece(set, live, record, &bio);
        fill_part(&part, &bio, record);
        add_to_bio(set, &bio, &part, record);
        r = stage_count_part(set, &part, true);
        if (part.head && r == 0)
                r = count_request(set, &part);
        return r;
}

/* ---- from outside ------------------------------------------------------------------------------------------------------------------- */

static int on_event(struct stage_set *set, const struct stage_record *record)
{
        char name[RECORD_COMM + 1];

        memcpy(name, record->event.comm, RECORD_COMM);
        name[RECORD_COMM] = '\0';
        return stage_event(set, &(struct stage_event){.time = record->event.time, .sector = record->event.sector,
                .other = record->event.other, .key = record->event.key, .sectors = record->event.sectors, .device = record->device,
                .other_device = record->event.other_device, .pid = record->tid, .error = record->event.error,
                .action = record->event.action, .direction = record->direction < STAGE_DIRECTIONS ? record->direction : STAGE_ELSE,
                .flags = record->bio_flags, .name = name});
}

int stage_record(struct stage_set *set, const struct stage_record *record)
{
        struct live *live = live_of(set);

        if (live == NULL)
                return -ENOMEM;
        switch (record->kind) {
        case RECORD_BIO:
                return on_bio(set, live, record);
        case RECORD_NAME:
                stage_names_put(live->names, record);
                stage_rename_process(set, record->tgid, stage_names_get(live->names, record->tgid));
                return 0;
        case RECORD_EVENT:
                return on_event(set, record);
        case RECORD_LOST:
                stage_lost(set, record->lost.count);
                return 0;
        default:
                return 0;
        }
}

size_t stage_live_open(const struct stage_set *set) { return set->live ? set->live->count : 0; }

void stage_live_finish(struct stage_set *set)
{
        struct live *live = set->live;

        while (live && live->all.next != &live->all)
                split_evict(set, LINK_OF(live->all.next, struct split, all));
}

void stage_live_free(struct stage_set *set)
{
        struct live *live = set->live;

        if (live == NULL)
                return;
        while (live->all.next != &live->all)
                split_free(live, LINK_OF(live->all.next, struct split, all));
        for (struct split *split; (split = live->spare) != NULL; free(split))
                live->spare = (struct split *)(void *)split->all.next;
        stage_names_free(live->names);
        free(live);
        set->live = NULL;
}

/* ---- the way back ------------------------------------------------------------------------------------------------------------------- */

static uint64_t time_out(uint64_t time)
{
        return time == UINT64_MAX ? 0 : time ? time : 1;
}

int stage_to_record(const struct stage_done *done, struct stage_record *record)
{
        bool whole = done->last && done->told <= 1; /* of a split bio: the only record of it */

        if (done->c == UINT64_MAX)
                return -EINVAL;
        *record = (struct stage_record){.kind = RECORD_BIO, .direction = done->row->direction, .bio_flags = done->flags,
                .device = done->row->device, .tid = done->tid, .tgid = done->row->process->pid};
        if (record->tgid == UINT32_MAX) /* the table of processes is full */
                record->tgid = done->tid;
        record->flags = (uint8_t)((done->head ? RECORD_HEAD : 0) | (done->driver ? RECORD_DRIVER : 0) |
                (!done->split ? 0 : done->last ? RECORD_LAST : RECORD_PIECE));
        record->bio.id = done->id;
        record->bio.q = time_out(done->q);
        record->bio.g = time_out(done->g);
        record->bio.m = time_out(done->m);
        record->bio.i = time_out(done->m != UINT64_MAX && done->g == UINT64_MAX ? done->inserted : done->i);
        record->bio.d1 = time_out(done->d1);
        record->bio.d = time_out(done->d);
        record->bio.c = time_out(done->data);
        record->bio.given = time_out(done->given);
        record->bio.sector = whole ? done->sector : done->part_sector;
        record->bio.sectors = whole ? (uint32_t)done->sectors : done->part_sectors;
        record->bio.request_sectors = done->head ? done->request_sectors : 0;
        if (done->last) {
                record->bio.error = (int16_t)(done->error < INT16_MIN ? INT16_MIN : done->error > INT16_MAX ? INT16_MAX : done->error);
                record->bio.requeues = (uint16_t)(done->requeues < UINT16_MAX ? done->requeues : UINT16_MAX);
                record->bio.parts = done->split ? done->told : 0;
        }
        return 0;
}

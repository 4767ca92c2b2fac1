/*
 * Calls that wait for safe data: what is remembered until they can be judged, and the rows. See stage_sync.h.
 *
 * Bios come as they end and are kept in a ring, each in a chain of its process, so that a call finds those of its time without looking at
 * others'. A chain's entries know the latest end of all before them: the search ends there, whatever the order in which records came.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_sync_own.h"

enum { MAX_OPEN = 131072, MAX_ROWS = 4096, ROW_SLOTS = 2 * MAX_ROWS };

const char *sync_part_name(int part)
{
        return part == SYNC_JOURNAL ? "journal" : part >= 0 && part < CAUSE_COUNT ? stage_cause_name((enum stage_cause)part) : "?";
}

const char *sync_call_name(enum sync_call call)
{
        static const char *const names[SYNC_CALLS] = {[SYNC_FSYNC] = "fsync", [SYNC_FDATASYNC] = "fdatasync", [SYNC_MSYNC] = "msync",
                [SYNC_RANGE] = "sync_file_range", [SYNC_WRITE] = "O_SYNC write", [SYNC_ALL] = "sync", [SYNC_RING] = "io_uring fsync"};
        return (unsigned)call < SYNC_CALLS ? names[call] : "?";
}

int sync_grow(void **list, size_t *room, size_t count, size_t size)
{
        if (count < *room)
                return 0;
        size_t wanted = *room ? 2 * *room : 64;
        void *more = realloc(*list, wanted * size);
        if (more == NULL)
                return -ENOMEM;
        *list = more;
        *room = wanted;
        return 0;
}

int sync_new(const struct sync_options *options, struct behind *behind, struct sync_set **result)
{
        struct sync_set *set = calloc(1, sizeof *set);

        if (set == NULL)
                return -ENOMEM;
        if (options)
                set->options = *options;
        if (set->options.max_open == 0)
                set->options.max_open = MAX_OPEN;
        set->behind = behind;
        set->first = set->next = 1;
        set->names = stage_names_new();
        set->row_hash = calloc(ROW_SLOTS, sizeof *set->row_hash);
        if (set->names == NULL || set->row_hash == NULL) {
                sync_free(set);
                return -ENOMEM;
        }
        *result = set;
        return 0;
}

void sync_forget_rows(struct sync_set *set)
{
        for (size_t i = 0; i < set->row_count; i++)
                free(set->rows[i]);
        set->row_count = 0;
        if (set->row_hash)
                memset(set->row_hash, 0, ROW_SLOTS * sizeof *set->row_hash);
}

void sync_free(struct sync_set *set)
{
        if (set == NULL)
                return;
        sync_forget_rows(set);
        free(set->rows);
        free(set->row_hash);
        free(set->bios);
        free(set->calls);
        free(set->candidates);
        free(set->gaps[0]);
        free(set->gaps[1]);
        stage_names_free(set->names);
        free(set);
}

/* ---- bios --------------------------------------------------------------------------------------------------------------------------- */

static int bios_grow(struct sync_set *set)
{
        size_t room = set->room ? 2 * set->room : 64;
        struct sync_bio *bios = calloc(room, sizeof *bios);

        if (bios == NULL)
                return -ENOMEM;
        for (uint64_t n = set->first; n < set->next; n++)
                bios[n & (room - 1)] = *sync_bio_at(set, n);
        free(set->bios);
        set->bios = bios;
        set->room = room;
        return 0;
}

/* Kernel threads make no calls: of theirs only a journal's are wanted, and those of threads not named yet. */
static int on_bio(struct sync_set *set, const struct stage_record *record)
{
        struct stage_cut cuts[STAGE_CUTS];
        uint64_t q;
        bool kernel = record->flags & RECORD_KERNEL;

        if (record->flags & RECORD_PASSED || record->bio_flags & (STAGE_PASSTHROUGH | STAGE_FLUSH_OP))
                return 0;
        unsigned count = stage_record_cuts(record, cuts, &q);
        if (count == 0)
                return 0;
        if (kernel) {
                const char *name = stage_names_get(set->names, record->tgid);
                if (*name && !sync_is_journal(name))
                        return 0;
        }
        if (set->next - set->first >= set->options.max_open)
                set->first++;
        if (set->next - set->first >= set->room && bios_grow(set) < 0)
                return -ENOMEM;
        struct sync_chain *chain = kernel ? &set->kernel : &set->own[sync_owner(record->tgid)];
        struct sync_bio *bio = &set->bios[set->next & (set->room - 1)];
        *bio = (struct sync_bio){.q = q, .next = chain->last, .older_end = chain->end, .device = record->device, .tid = record->tid,
                .tgid = record->tgid, .sectors = record->bio.sectors, .cuts = (uint8_t)count, .driver = record->flags & RECORD_DRIVER,
                .piece = record->flags & RECORD_PIECE, .read = record->direction == STAGE_READ, .kernel = kernel};
        for (unsigned i = 0; i < count; i++) {
                bio->until[i] = cuts[i].until;
                bio->cause[i] = cuts[i].cause;
        }
        chain->last = set->next++;
        if (sync_bio_end(bio) > chain->end)
                chain->end = sync_bio_end(bio);
        chain->least_q = chain->since == 0 || q < chain->least_q ? q : chain->least_q;
        if (++chain->since == SYNC_STRIDE) {
                bio->skip = chain->anchor;
                bio->skip_q = chain->least_q;
                bio->skip_end = chain->anchor_end;
                chain->anchor = chain->last;
                chain->anchor_end = chain->end;
                chain->since = 0;
        }
        if (sync_bio_end(bio) > set->newest)
                set->newest = sync_bio_end(bio);
        return 0;
}

/* ---- rows --------------------------------------------------------------------------------------------------------------------------- */

/* A full table's last row takes all others. */
static struct sync_row *find_row(struct sync_set *set, uint32_t tgid, enum sync_call call)
{
        uint32_t slot = (uint32_t)(((uint64_t)tgid * SYNC_CALLS + call) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % ROW_SLOTS;

        for (; set->row_hash[slot]; slot = (slot + 1) % ROW_SLOTS) {
                struct sync_row *row = set->rows[set->row_hash[slot] - 1];
                if (row->tgid == tgid && row->call == call)
                        return row;
        }
        if (set->row_count == MAX_ROWS)
                return set->rows[MAX_ROWS - 1];
        if (set->rows == NULL && (set->rows = calloc(MAX_ROWS, sizeof(struct sync_row *))) == NULL)
                return NULL;
        struct sync_row *row = calloc(1, sizeof *row);
        if (row == NULL)
                return NULL;
        bool last = set->row_count == MAX_ROWS - 1;
        row->tgid = last ? UINT32_MAX : tgid;
        row->call = call;
        if (last)
                memcpy(row->name, "(all others)", sizeof "(all others)");
        set->rows[set->row_count++] = row;
        set->row_hash[slot] = (uint32_t)set->row_count;
        return row;
}

static void fill_row(struct sync_set *set, struct sync_row *row, const struct sync_cut *cut)
{
        const struct stage_record *record = cut->record;
        const char *name = stage_names_get(set->names, record->tgid);

        if (*name && row->tgid == record->tgid)
                memcpy(row->name, name, sizeof row->name);
        row->calls++;
        row->errors += record->sync.result < 0;
        for (int part = 0; part < SYNC_PARTS; part++)
                row->part[part] += cut->part[part];
        histogram_add(&row->time, record->sync.end - record->sync.start);
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------------- */

static bool earlier(const struct sync_call_open *a, const struct sync_call_open *b)
{
        if (a->record.sync.end != b->record.sync.end)
                return a->record.sync.end < b->record.sync.end;
        return a->order < b->order;
}

static void heap_up(struct sync_call_open *heap, size_t at)
{
        struct sync_call_open moving = heap[at];

        while (at > 0 && earlier(&moving, &heap[(at - 1) / 2])) {
                heap[at] = heap[(at - 1) / 2];
                at = (at - 1) / 2;
        }
        heap[at] = moving;
}

static void heap_down(struct sync_call_open *heap, size_t count)
{
        struct sync_call_open moving = heap[0];
        size_t at = 0;

        for (size_t child; (child = 2 * at + 1) < count; at = child) {
                child += child + 1 < count && earlier(&heap[child + 1], &heap[child]);
                if (!earlier(&heap[child], &moving))
                        break;
                heap[at] = heap[child];
        }
        heap[at] = moving;
}

static void ask_behind(struct sync_set *set, const struct sync_cut *cut, struct sync_done *done)
{
        const struct sync_disk *most = NULL;

        for (size_t i = 0; i < cut->disk_count; i++)
                if (most == NULL || cut->disks[i].ns > most->ns)
                        most = &cut->disks[i];
        if (most == NULL)
                return;
        done->disk = most->device;
        if (set->behind && set->options.done)
                behind_ask_others(set->behind, most->device, most->from, most->to, cut->mine, cut->mine_count, &done->behind);
}

/* The one on top. */
static int judge(struct sync_set *set, bool soon)
{
        const struct stage_record record = set->calls[0].record;
        struct sync_cut cut = {.record = &record};
        struct sync_row *row = find_row(set, record.tgid, (enum sync_call)record.sync.call);
        int r = row ? sync_cut_call(set, &cut) : -ENOMEM;

        if (r < 0)
                return r;
        set->calls[0] = set->calls[--set->call_count];
        if (set->call_count)
                heap_down(set->calls, set->call_count);
        fill_row(set, row, &cut);
        set->spoilt += soon || cut.spoilt || (set->lost_at && set->lost_at >= record.sync.start);
        if (set->options.done == NULL)
                return 0;
        struct sync_done done = {.record = &record, .row = row, .bios = cut.bios, .bytes = cut.bytes};
        memcpy(done.part, cut.part, sizeof done.part);
        memcpy(done.journal, cut.journal, sizeof done.journal);
        ask_behind(set, &cut, &done);
        set->options.done(set->options.own, &done);
        return 0;
}

static int on_call(struct sync_set *set, const struct stage_record *record)
{
        if (record->sync.call >= SYNC_CALLS)
                return 0;
        if (set->call_count >= set->options.max_open) {
                int r = judge(set, true);
                if (r < 0)
                        return r;
        }
        if (sync_grow((void **)&set->calls, &set->call_room, set->call_count, sizeof *set->calls) < 0)
                return -ENOMEM;
        struct sync_call_open *call = &set->calls[set->call_count];
        *call = (struct sync_call_open){.order = set->order++, .record = *record};
        if (call->record.sync.end < call->record.sync.start)
                call->record.sync.end = call->record.sync.start;
        if (call->record.sync.end > set->newest)
                set->newest = call->record.sync.end;
        heap_up(set->calls, set->call_count++);
        return 0;
}

int sync_record(struct sync_set *set, const struct stage_record *record)
{
        switch (record->kind) {
        case RECORD_BIO:
                return on_bio(set, record);
        case RECORD_SYNC:
                return on_call(set, record);
        case RECORD_NAME:
                stage_names_put(set->names, record);
                return 0;
        case RECORD_LOST:
                set->lost_at = record->lost.time ? record->lost.time : set->newest;
                return 0;
        default:
                return 0;
        }
}

int sync_settle(struct sync_set *set, uint64_t drained)
{
        while (set->call_count) {
                uint64_t end = set->calls[0].record.sync.end;
                if (drained != UINT64_MAX && (drained < SYNC_LATE_NS || end > drained - SYNC_LATE_NS))
                        return 0;
                int r = judge(set, false);
                if (r < 0)
                        return r;
        }
        return 0;
}

size_t sync_rows(const struct sync_set *set) { return set->row_count; }
const struct sync_row *sync_get_row(const struct sync_set *set, size_t i) { return set->rows[i]; }
uint64_t sync_spoilt(const struct sync_set *set) { return set->spoilt; }

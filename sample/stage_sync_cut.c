/*
 * Where one call's time went. See stage_sync.h.
 *
 * Bios are asked in three rounds; each round gets of the call's time what those before left. First those that the caller's thread queued
 * to devices with requests; then those that it queued to a driver without requests (dm, md, zram: often the same data once more, one
 * layer up, where nothing more is known than "driver"); then a journal's. In a round a ns is the bio's that ends last among those open
 * then, for that is what the call really waits for; its stage then gives the cause.
 *
 * A bio is the call's own if its thread queued it: reads only within the call, for nobody's fsync waits for a read that was on
 * its way; writes also before. An fsync of io_uring is carried out by a worker, another thread of the process: writes of all its
 * threads are taken. Write-back by kernel workers cannot be told from others' (a kworker's name says nothing of its work, and some of XFS's
 * log is written by kworkers, too), so waiting for it is "other". xfsaild is none of the journals: it writes back what is safe in the log.
 *
 * From the end backwards a round is one pass: the bio that ends last has all from its queueing on; what was queued later adds nothing.
 */
#include <errno.h>
#include <string.h>

#include "sample/stage_sync_own.h"

/* Names as the kernel gives them: fs/jbd2/journal.c, fs/btrfs/disk-io.c (cut to 15 characters), fs/xfs/xfs_log.c, fs/f2fs/checkpoint.c. */
bool sync_is_journal(const char *name)
{
        static const char *const beginnings[] = {"jbd2/", "xfs-log", "btrfs-transacti", "f2fs_ckpt"};

        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
                if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
                        return true;
        return false;
}

/* ---- candidates --------------------------------------------------------------------------------------------------------------------- */

enum round { ROUND_OWN, ROUND_DRIVER, ROUND_JOURNAL };

static bool is_own(const struct sync_bio *bio, const struct stage_record *call)
{
        if (bio->tid != call->tid && (call->sync.call != SYNC_RING || bio->tgid != call->tgid || bio->read))
                return false;
        return !bio->read || bio->q >= call->sync.start;
}

static bool is_journals(struct sync_set *set, const struct sync_bio *bio, uint32_t disk)
{
        return (disk == 0 || bio->device == disk) && sync_is_journal(stage_names_get(set->names, bio->tgid));
}

/* All of a chain that were open during the call, for this round. disk: of the journal, 0 = any. */
static int gather(struct sync_set *set, struct sync_cut *cut, const struct sync_chain *chain, enum round round, uint32_t disk)
{
        const struct stage_record *call = cut->record;
        uint64_t older = chain->end;

        for (uint64_t number = chain->last; older > call->sync.start;) {
                if (number < set->first) {
                        cut->spoilt = true;
                        return 0;
                }
                const struct sync_bio *bio = sync_bio_at(set, number);
                if (bio->skip != 0 && bio->skip_q >= call->sync.end) {
                        number = bio->skip;
                        older = bio->skip_end;
                        continue;
                }
                uint64_t end = sync_bio_end(bio), at = number;
                number = bio->next;
                older = bio->older_end;
                if (end <= call->sync.start || bio->q >= call->sync.end)
                        continue;
                if (round == ROUND_JOURNAL ? !is_journals(set, bio, disk) : !is_own(bio, call) || bio->driver != (round == ROUND_DRIVER))
                        continue;
                if (sync_grow((void **)&set->candidates, &set->candidate_room, set->candidate_count, sizeof *set->candidates) < 0)
                        return -ENOMEM;
                set->candidates[set->candidate_count++] = (struct sync_candidate){.q = bio->q, .end = end, .number = at};
                if (round == ROUND_OWN || (round == ROUND_DRIVER && !cut->below)) { /* the same data is not counted in two layers */
                        cut->bios += !bio->piece;
                        cut->bytes += (uint64_t)bio->sectors * 512;
                }
        }
        return 0;
}

/* What ends last first; of equals what came last. */
static bool before(const struct sync_candidate *a, const struct sync_candidate *b)
{
        return a->end != b->end ? a->end > b->end : a->number > b->number;
}

static void sift(struct sync_candidate *list, size_t at, size_t count)
{
        const struct sync_candidate moving = list[at];

        for (size_t child; (child = 2 * at + 1) < count; at = child) {
                child += child + 1 < count && before(&list[child], &list[child + 1]);
                if (!before(&moving, &list[child]))
                        break;
                list[at] = list[child];
        }
        list[at] = moving;
}

/* Heap sort: in place, and no order of strangers' records makes it slow. They come nearly sorted. */
static void sort(struct sync_candidate *list, size_t count)
{
        size_t i = 1;

        while (i < count && before(&list[i - 1], &list[i]))
                i++;
        if (i >= count)
                return;
        for (size_t at = count / 2; at-- > 0;)
                sift(list, at, count);
        for (size_t left = count; left-- > 1;) {
                const struct sync_candidate last = list[left];
                list[left] = list[0];
                list[0] = last;
                sift(list, 0, left);
        }
}

/* ---- time --------------------------------------------------------------------------------------------------------------------------- */

static void count_disk(struct sync_cut *cut, uint32_t device, uint64_t from, uint64_t to)
{
        size_t i = 0;

        while (i < cut->disk_count && cut->disks[i].device != device)
                i++;
        if (i == SYNC_DISKS)
                return;
        struct sync_disk *disk = &cut->disks[i];
        if (i == cut->disk_count) {
                *disk = (struct sync_disk){.device = device, .from = from, .to = to};
                cut->disk_count++;
        }
        disk->ns += to - from;
        disk->from = from < disk->from ? from : disk->from;
        disk->to = to > disk->to ? to : disk->to;
}

static void count_mine(struct sync_cut *cut, uint32_t tgid)
{
        for (size_t i = 0; i < cut->mine_count; i++)
                if (cut->mine[i] == tgid)
                        return;
        if (cut->mine_count < SYNC_MINE)
                cut->mine[cut->mine_count++] = tgid;
}

/* [from, to) of the call is the bio's. */
static void give(struct sync_cut *cut, const struct sync_bio *bio, enum round round, uint64_t from, uint64_t to)
{
        uint64_t at = bio->q;

        for (unsigned i = 0; i < bio->cuts; at = bio->until[i++]) {
                uint64_t low = at > from ? at : from, high = bio->until[i] < to ? bio->until[i] : to;
                if (low >= high)
                        continue;
                bool journal = round == ROUND_JOURNAL && bio->cause[i] != CAUSE_FLUSH;
                cut->part[journal ? SYNC_JOURNAL : bio->cause[i]] += high - low;
                if (journal)
                        cut->journal[bio->cause[i]] += high - low;
        }
        count_disk(cut, bio->device, from, to);
        count_mine(cut, bio->tgid);
}

static int gap_add(struct sync_set *set, size_t *count, uint64_t from, uint64_t to)
{
        if (from >= to)
                return 0;
        if (sync_grow((void **)&set->gaps[1], &set->gap_room[1], *count, sizeof *set->gaps[1]) < 0)
                return -ENOMEM;
        set->gaps[1][(*count)++] = (struct sync_span){from, to};
        return 0;
}

/* The candidates' round over gaps[0], which is then what they left. */
static int take_round(struct sync_set *set, struct sync_cut *cut, enum round round)
{
        uint64_t low = cut->record->sync.end;
        size_t gap = 0, left = 0;
        int r = 0;

        sort(set->candidates, set->candidate_count);
        for (size_t i = 0; i < set->candidate_count && gap < cut->gap_count && r == 0; i++) {
                const struct sync_candidate *candidate = &set->candidates[i];
                if (candidate->q >= low)
                        continue;
                uint64_t high = candidate->end < low ? candidate->end : low;
                low = candidate->q;
                for (; gap < cut->gap_count && set->gaps[0][gap].to > low && r == 0; gap++) {
                        struct sync_span *span = &set->gaps[0][gap];
                        uint64_t from = span->from > low ? span->from : low, to = span->to < high ? span->to : high;
                        if (from < to) {
                                give(cut, sync_bio_at(set, candidate->number), round, from, to);
                                r = gap_add(set, &left, to, span->to);
                                span->to = from;
                        }
                        if (span->from < low && span->from < span->to) /* the rest is for those that end earlier */
                                break;
                        if (from >= to)
                                r = gap_add(set, &left, span->from, span->to);
                }
        }
        for (; gap < cut->gap_count && r == 0; gap++)
                r = gap_add(set, &left, set->gaps[0][gap].from, set->gaps[0][gap].to);
        struct sync_span *old = set->gaps[0];
        size_t room = set->gap_room[0];
        set->gaps[0] = set->gaps[1];
        set->gap_room[0] = set->gap_room[1];
        set->gaps[1] = old;
        set->gap_room[1] = room;
        cut->gap_count = left;
        return r;
}

/* Whose journal: the file's disk; if that is not known, the one on which the call's own bios were. sync() waits for all. */
static bool journal_disk(const struct sync_cut *cut, uint32_t *disk)
{
        uint64_t most = 0;

        *disk = cut->record->sync.disk;
        if (*disk || cut->record->sync.call == SYNC_ALL)
                return true;
        for (size_t i = 0; i < cut->disk_count; i++)
                if (cut->disks[i].ns > most) {
                        most = cut->disks[i].ns;
                        *disk = cut->disks[i].device;
                }
        return most > 0;
}

/* A source that does not know thread groups gives the thread's number for both: such bios are in the thread's own chain. */
static int gather_own(struct sync_set *set, struct sync_cut *cut, enum round round)
{
        unsigned group = sync_owner(cut->record->tgid), thread = sync_owner(cut->record->tid);
        int r = gather(set, cut, &set->own[group], round, 0);

        return r == 0 && thread != group ? gather(set, cut, &set->own[thread], round, 0) : r;
}

int sync_cut_call(struct sync_set *set, struct sync_cut *cut)
{
        const struct stage_record *call = cut->record;
        uint64_t known = 0;
        uint32_t disk;

        if (sync_grow((void **)&set->gaps[0], &set->gap_room[0], 0, sizeof *set->gaps[0]) < 0)
                return -ENOMEM;
        set->gaps[0][0] = (struct sync_span){call->sync.start, call->sync.end};
        cut->gap_count = call->sync.start < call->sync.end;
        count_mine(cut, call->tgid);
        for (enum round round = ROUND_OWN; round <= ROUND_DRIVER; round++) {
                set->candidate_count = 0;
                int r = gather_own(set, cut, round);
                if (r == 0)
                        r = take_round(set, cut, round);
                if (r < 0)
                        return r;
                cut->below = cut->bios > 0;
        }
        if (cut->gap_count && journal_disk(cut, &disk)) {
                set->candidate_count = 0;
                int r = gather(set, cut, &set->kernel, ROUND_JOURNAL, disk);
                if (r == 0)
                        r = take_round(set, cut, ROUND_JOURNAL);
                if (r < 0)
                        return r;
        }
        for (int part = 0; part < SYNC_PARTS; part++)
                known += cut->part[part];
        cut->part[CAUSE_OTHER] += call->sync.end - call->sync.start - known;
        return 0;
}

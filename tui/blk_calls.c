/*
 * Who waits, for what, and behind whom. See blk_calls.h.
 *
 * Fixed memory: what finds no room is counted. Of those in front only the ones with the most time are kept, so the smallest may be short.
 */
#include "tui/blk_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/blk_system.h"

struct blk_calls {
        struct blk_names *names;
        struct blk_call *calls[BLK_CALLS];
        size_t count;
        struct blk_waiter *waiters[BLK_WAITERS];
        size_t waiter_count;
        uint64_t crowded;
};

int blk_calls_new(struct blk_names *names, struct blk_calls **result)
{
        struct blk_calls *calls = calloc(1, sizeof *calls);

        if (calls == NULL)
                return -ENOMEM;
        calls->names = names;
        *result = calls;
        return 0;
}

void blk_calls_free(struct blk_calls *calls)
{
        if (calls == NULL)
                return;
        for (size_t i = 0; i < calls->count; i++)
                free(calls->calls[i]);
        for (size_t i = 0; i < calls->waiter_count; i++)
                free(calls->waiters[i]);
        free(calls);
}

static struct blk_call *call_of(struct blk_calls *calls, uint32_t tgid, enum sync_call kind)
{
        struct blk_call *call = NULL;

        for (size_t i = 0; i < calls->count; i++)
                if (calls->calls[i]->tgid == tgid && calls->calls[i]->call == kind)
                        return calls->calls[i];
        if (calls->count < BLK_CALLS && (call = calloc(1, sizeof *call)) != NULL) {
                call->tgid = tgid;
                call->call = kind;
                calls->calls[calls->count++] = call;
        } else {
                calls->crowded++;
        }
        return call;
}

static struct blk_waiter *waiter_of(struct blk_calls *calls, uint32_t tgid)
{
        struct blk_waiter *waiter = NULL;

        for (size_t i = 0; i < calls->waiter_count; i++)
                if (calls->waiters[i]->tgid == tgid)
                        return calls->waiters[i];
        if (calls->waiter_count < BLK_WAITERS && (waiter = calloc(1, sizeof *waiter)) != NULL) {
                waiter->tgid = tgid;
                calls->waiters[calls->waiter_count++] = waiter;
        } else {
                calls->crowded++;
        }
        return waiter;
}

/* ---- in front ----------------------------------------------------------------------------------------------------------------------- */

static void put_front(struct blk_waiter *waiter, uint32_t tgid, double ns)
{
        size_t least = 0, i;

        for (i = 0; i < waiter->fronts && waiter->front[i].tgid != tgid; i++)
                if (waiter->front[i].ns < waiter->front[least].ns)
                        least = i;
        if (i == BLK_FRONTS) {
                if (ns <= waiter->front[least].ns)
                        return;
                i = least;
                waiter->front[i] = (struct blk_front){.tgid = tgid};
        } else if (i == waiter->fronts) {
                waiter->front[waiter->fronts++] = (struct blk_front){.tgid = tgid};
        }
        waiter->front[i].ns += ns;
}

static double in_front(const uint64_t *cause)
{
        return (double)cause[CAUSE_TAG] + (double)cause[CAUSE_QUEUE] + (double)cause[CAUSE_REFUSED];
}

/* Time in front of the device goes to all whose bios were there; those that the answer does not name get theirs by nobody. */
static void share_out(struct blk_waiter *waiter, double wait, const struct behind_answer *behind)
{
        double all = behind->open + behind->own;

        if (!behind->whole)
                waiter->unknown++;
        if (!(all > 0))
                return;
        for (size_t i = 0; i < behind->count && i < BEHIND_MOST; i++)
                put_front(waiter, behind->who[i].tgid, wait * behind->who[i].open / all);
        if (behind->own > 0)
                put_front(waiter, waiter->tgid, wait * behind->own / all);
}

static void forget_bios(struct blk_waiter *waiter)
{
        uint32_t tgid = waiter->tgid;

        *waiter = (struct blk_waiter){.tgid = tgid};
}

void blk_calls_add(struct blk_calls *calls, const struct sync_done *done)
{
        const struct stage_record *record = done->record;
        enum sync_call kind = record->sync.call < SYNC_CALLS ? (enum sync_call)record->sync.call : SYNC_ALL;
        uint64_t time = record->sync.end > record->sync.start ? record->sync.end - record->sync.start : 0;
        struct blk_call *call = call_of(calls, record->tgid, kind);
        struct blk_waiter *waiter = waiter_of(calls, record->tgid);

        if (call) {
                if (call->time.count == 0 || time > call->longest.time) {
                        call->longest = (struct blk_longest){.time = time, .end = record->sync.end, .inode = record->sync.inode,
                                .bytes = done->bytes, .device = record->device, .tid = record->tid};
                        memcpy(call->longest.file, record->sync.file, sizeof call->longest.file);
                        call->longest.file[sizeof call->longest.file - 1] = '\0';
                        memcpy(call->longest.part, done->part, sizeof call->longest.part);
                }
                histogram_add(&call->time, time);
                call->errors += record->sync.result < 0;
                for (int i = 0; i < SYNC_PARTS; i++)
                        call->part[i] += done->part[i];
        }
        if (waiter == NULL)
                return;
        if (waiter->calls == 0 && waiter->bios > 0)
                forget_bios(waiter); /* its calls say more */
        if (waiter->calls++ == 0 || time > waiter->longest) {
                waiter->longest = time;
                waiter->disk = done->disk;
                waiter->call = kind;
        }
        waiter->total += time;
        waiter->asked += time;
        for (int i = 0; i < SYNC_PARTS; i++)
                waiter->part[i] += done->part[i];
        for (int i = 0; i < CAUSE_COUNT; i++)
                waiter->journal[i] += done->journal[i];
        share_out(waiter, in_front(done->part) + in_front(done->journal), &done->behind);
}

void blk_calls_add_bio(struct blk_calls *calls, uint32_t tgid, uint32_t device, const uint64_t cause[CAUSE_COUNT])
{
        struct blk_waiter *waiter = waiter_of(calls, tgid);
        uint64_t time = 0;

        if (waiter == NULL || waiter->calls > 0)
                return;
        for (int i = 0; i < CAUSE_COUNT; i++) {
                waiter->part[i] += cause[i];
                time += cause[i];
        }
        if (waiter->bios++ == 0 || time > waiter->longest) {
                waiter->longest = time;
                waiter->disk = device;
        }
        waiter->total += time;
}

void blk_calls_add_front(struct blk_calls *calls, uint32_t tgid, const uint64_t cause[CAUSE_COUNT], const struct behind_answer *behind)
{
        struct blk_waiter *waiter = waiter_of(calls, tgid);

        if (waiter == NULL || waiter->calls > 0)
                return;
        for (int i = 0; i < CAUSE_COUNT; i++)
                waiter->asked += cause[i];
        share_out(waiter, in_front(cause), behind);
}

/* ---- what is told -------------------------------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
        const struct blk_call *x = *(const struct blk_call *const *)a, *y = *(const struct blk_call *const *)b;

        return x->time.total == y->time.total ? 0 : x->time.total < y->time.total ? 1 : -1;
}

size_t blk_calls_count(const struct blk_calls *calls) { return calls->count; }

const struct blk_call *blk_calls_get(const struct blk_calls *calls, size_t index)
{
        if (index == 0) /* only the order changes: to the caller nothing does */
                qsort(((struct blk_calls *)(uintptr_t)calls)->calls, calls->count, sizeof calls->calls[0], by_time);
        return calls->calls[index];
}

const struct blk_waiter *blk_calls_victim(const struct blk_calls *calls)
{
        const struct blk_waiter *victim = NULL;

        for (size_t i = 0; i < calls->waiter_count; i++) {
                const struct blk_waiter *waiter = calls->waiters[i];
                if (waiter->total == 0)
                        continue;
                if (victim == NULL || (victim->calls == 0) != (waiter->calls == 0)) {
                        if (victim == NULL || waiter->calls > 0)
                                victim = waiter;
                } else if (waiter->calls ? waiter->longest > victim->longest : waiter->total > victim->total) {
                        victim = waiter;
                }
        }
        return victim;
}

struct blk_names *blk_calls_names(const struct blk_calls *calls) { return calls->names; }
uint64_t blk_calls_crowded(const struct blk_calls *calls) { return calls->crowded; }

/* ---- judging ------------------------------------------------------------------------------------------------------------------------ */

/* Processes of one name are one culprit, and all workers that write back are. */
static void group_name(const struct blk_calls *calls, uint32_t tgid, char name[RECORD_COMM])
{
        memcpy(name, blk_names_get(calls->names, tgid, NULL), RECORD_COMM);
        if (strncmp(name, "kworker/u", 9) == 0)
                memcpy(name, "kworker/u*", 11);
}

static void find_culprit(const struct blk_calls *calls, const struct blk_waiter *waiter, struct blk_judgement *judgement)
{
        char names[BLK_FRONTS][RECORD_COMM];
        double best = 0;

        for (size_t i = 0; i < waiter->fronts; i++)
                group_name(calls, waiter->front[i].tgid, names[i]);
        for (size_t i = 0; i < waiter->fronts; i++) {
                bool itself = waiter->front[i].tgid == waiter->tgid;
                struct blk_judgement group = {.itself = itself};
                double sum = 0;
                for (size_t k = 0; k < waiter->fronts; k++) {
                        uint32_t tgid = waiter->front[k].tgid;
                        if (k != i && (itself || tgid == waiter->tgid || names[i][0] == '\0' || strcmp(names[i], names[k]) != 0))
                                continue;
                        sum += waiter->front[k].ns;
                        group.first = group.processes == 0 || tgid < group.first ? tgid : group.first;
                        group.last = tgid > group.last ? tgid : group.last;
                        group.processes++;
                }
                if (sum <= best)
                        continue;
                best = sum;
                memcpy(judgement->culprit, names[i], sizeof judgement->culprit);
                judgement->first = group.first;
                judgement->last = group.last;
                judgement->processes = group.processes;
                judgement->itself = itself;
        }
        judgement->behind = waiter->asked ? best / (double)waiter->asked : 0;
}

/* Disk and flush have half of the time together. The larger one gives the word, alone if it has half and the other less than a quarter. */
static void judge_device(const struct blk_waiter *waiter, double disk, double flush, struct blk_judgement *judgement)
{
        double total = (double)waiter->total, less = disk < flush ? disk : flush, more = disk < flush ? flush : disk;

        judgement->cause = disk >= flush ? CAUSE_DISK : CAUSE_FLUSH;
        judgement->both = less >= (disk + flush) / 4;
        judgement->added = judgement->both || more < total / 2;
        judgement->share = (judgement->added ? disk + flush : more) / total;
        judgement->through_journal = (double)waiter->journal[judgement->cause] / total;
        if (judgement->added)
                judgement->through_journal = ((double)waiter->journal[CAUSE_DISK] + (double)waiter->journal[CAUSE_FLUSH]) / total;
}

void blk_judge(const struct blk_calls *calls, const struct blk_waiter *waiter, struct blk_judgement *judgement)
{
        double total = (double)waiter->total, part[SYNC_PARTS], front, device;
        int most = 0;

        *judgement = (struct blk_judgement){.cause = BLK_NONE};
        if (!(total > 0))
                return;
        for (int i = 0; i < SYNC_PARTS; i++)
                part[i] = (double)waiter->part[i];
        for (int i = 0; i < CAUSE_COUNT; i++) {
                part[i] += (double)waiter->journal[i];
                part[SYNC_JOURNAL] -= (double)waiter->journal[i];
        }
        find_culprit(calls, waiter, judgement);
        front = part[CAUSE_TAG] + part[CAUSE_QUEUE] + part[CAUSE_REFUSED];
        device = part[CAUSE_DISK] + part[CAUSE_FLUSH];
        for (int i = 1; i < SYNC_PARTS; i++)
                if (part[i] > part[most])
                        most = i;
        judgement->share = part[most] / total;
        if (front >= total / 2) { /* whatever keeps it there: the largest of the three has the word */
                judgement->share = front / total;
                judgement->cause = part[CAUSE_TAG] >= part[CAUSE_QUEUE] && part[CAUSE_TAG] >= part[CAUSE_REFUSED] ? CAUSE_TAG :
                        part[CAUSE_QUEUE] >= part[CAUSE_REFUSED] ? CAUSE_QUEUE : CAUSE_REFUSED;
                judgement->through_journal = in_front(waiter->journal) / total;
                return;
        }
        if (device >= total / 2) {
                judge_device(waiter, part[CAUSE_DISK], part[CAUSE_FLUSH], judgement);
                return;
        }
        judgement->cause = part[most] >= total / 2 ? most : BLK_MIXED;
        if (judgement->cause >= 0 && judgement->cause < CAUSE_COUNT)
                judgement->through_journal = (double)waiter->journal[judgement->cause] / total;
}

/*
 * Who else had bios open. See stage_behind.h.
 *
 * Bios are kept as they come, about in the order of their ends (a tracer's CPUs are merged as far as one read sees them), which is not
 * relied upon. They are kept in blocks; each block knows the earliest start, the latest end and the devices of its bios, so that a question
 * about a few milliseconds passes over nearly all of them. When a block is needed again it is forgotten as a whole.
 *
 * Of a split bio the original counts, not the parts that were cut off: it is one bio, and ends about when they do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage.h"
#include "sample/stage_behind.h"

enum { BLOCK = 256, BLOCKS = BEHIND_BIOS / BLOCK, SLOTS = 2 * BEHIND_BIOS };

struct entry {
        uint32_t device, tgid;
        uint64_t q, end;
};

struct block {
        uint64_t q, end;         /* earliest, latest */
        uint64_t devices;        /* a bit for each, by hash */
        uint32_t count;
};

struct behind {
        struct entry *entries;
        struct block blocks[BLOCKS];
        size_t block;            /* that is being filled */
        uint64_t forgotten;      /* the latest end of those that are */
        /* While a question is answered: ns of each process, and which slots are taken. A slot of another question's number is free. */
        struct scratch {
                uint32_t question, count;
                struct slot { uint32_t tgid, question; uint64_t ns; } *slots;
                uint32_t *taken;
        } *scratch;
};

int behind_new(struct behind **result)
{
        struct behind *behind = calloc(1, sizeof *behind);

        if (behind == NULL)
                return -ENOMEM;
        behind->entries = calloc(BEHIND_BIOS, sizeof *behind->entries);
        behind->scratch = calloc(1, sizeof *behind->scratch);
        if (behind->scratch) {
                behind->scratch->slots = calloc(SLOTS, sizeof *behind->scratch->slots);
                behind->scratch->taken = calloc(BEHIND_BIOS, sizeof *behind->scratch->taken);
        }
        if (!behind->entries || !behind->scratch || !behind->scratch->slots || !behind->scratch->taken) {
                behind_free(behind);
                return -ENOMEM;
        }
        *result = behind;
        return 0;
}

void behind_free(struct behind *behind)
{
        if (behind == NULL)
                return;
        if (behind->scratch) {
                free(behind->scratch->slots);
                free(behind->scratch->taken);
        }
        free(behind->scratch);
        free(behind->entries);
        free(behind);
}

static uint32_t mix(uint32_t value, unsigned bits)
{
        return (value * UINT32_C(0x9e3779b1)) >> (32 - bits);
}

static uint64_t device_bit(uint32_t device)
{
        return UINT64_C(1) << mix(device, 6);
}

void behind_record(struct behind *behind, const struct stage_record *record)
{
        uint64_t end = record->bio.given > record->bio.c ? record->bio.given : record->bio.c;

        if (record->kind != RECORD_BIO || record->flags & (RECORD_PIECE | RECORD_PASSED) ||
            record->bio_flags & (STAGE_PASSTHROUGH | STAGE_FLUSH_OP) || record->bio.q == 0 || end <= record->bio.q)
                return;
        struct block *block = &behind->blocks[behind->block];
        if (block->count == BLOCK) {
                behind->block = (behind->block + 1) % BLOCKS;
                block = &behind->blocks[behind->block];
                if (block->count && block->end > behind->forgotten)
                        behind->forgotten = block->end;
                *block = (struct block){.q = UINT64_MAX};
        }
        if (block->count == 0 || record->bio.q < block->q)
                block->q = record->bio.q;
        if (end > block->end)
                block->end = end;
        block->devices |= device_bit(record->device);
        behind->entries[behind->block * BLOCK + block->count++] = (struct entry){.device = record->device, .tgid = record->tgid,
                .q = record->bio.q, .end = end};
}

static uint64_t add(uint64_t a, uint64_t b)
{
        return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static void count(struct scratch *scratch, uint32_t tgid, uint64_t ns)
{
        uint32_t at = mix(tgid, 18); /* SLOTS is 2^18, twice as many as can be taken */

        _Static_assert(SLOTS == 1 << 18, "bits of the hash");
        while (scratch->slots[at].question == scratch->question && scratch->slots[at].tgid != tgid)
                at = (at + 1) % SLOTS;
        struct slot *slot = &scratch->slots[at];
        if (slot->question != scratch->question) {
                *slot = (struct slot){.tgid = tgid, .question = scratch->question};
                scratch->taken[scratch->count++] = at;
        }
        slot->ns = add(slot->ns, ns);
}

static void begin(struct scratch *scratch)
{
        scratch->count = 0;
        if (++scratch->question == 0) { /* numbers start again: all that lies there would look like this question's */
                memset(scratch->slots, 0, SLOTS * sizeof *scratch->slots);
                scratch->question = 1;
        }
}

/* The most first; of equals the smaller number, so that answers do not depend on the hash. */
static void rank(const struct scratch *scratch, double width, double others, struct behind_answer *answer)
{
        for (uint32_t i = 0; i < scratch->count; i++) {
                const struct slot *slot = &scratch->slots[scratch->taken[i]];
                const struct behind_who who = {.tgid = slot->tgid, .share = (double)slot->ns / others, .open = (double)slot->ns / width};
                size_t at = answer->count < BEHIND_MOST ? answer->count++ : BEHIND_MOST;
                while (at > 0 && (who.open > answer->who[at - 1].open ||
                        (!(who.open < answer->who[at - 1].open) && who.tgid < answer->who[at - 1].tgid))) {
                        if (at < BEHIND_MOST)
                                answer->who[at] = answer->who[at - 1];
                        at--;
                }
                if (at < BEHIND_MOST)
                        answer->who[at] = who;
        }
}

void behind_ask_others(const struct behind *behind, uint32_t device, uint64_t from, uint64_t to, const uint32_t *tgids, size_t own_count,
        struct behind_answer *answer)
{
        struct scratch *scratch = behind->scratch;
        uint64_t own = 0, others = 0;

        *answer = (struct behind_answer){.whole = from >= behind->forgotten};
        if (to == from && to < UINT64_MAX) /* an instant */
                to++;
        if (to <= from)
                return;
        begin(scratch);
        for (size_t b = 0; b < BLOCKS; b++) {
                const struct block *block = &behind->blocks[b];
                if (block->count == 0 || block->q >= to || block->end <= from || !(block->devices & device_bit(device)))
                        continue;
                for (uint32_t i = 0; i < block->count; i++) {
                        const struct entry *entry = &behind->entries[b * BLOCK + i];
                        if (entry->device != device || entry->q >= to || entry->end <= from)
                                continue;
                        uint64_t ns = (entry->end < to ? entry->end : to) - (entry->q > from ? entry->q : from);
                        bool its = false;
                        for (size_t k = 0; k < own_count; k++)
                                its |= entry->tgid == tgids[k];
                        if (its) {
                                own = add(own, ns);
                        } else {
                                others = add(others, ns);
                                count(scratch, entry->tgid, ns);
                        }
                }
        }
        double width = (double)(to - from);
        answer->own = (double)own / width;
        answer->open = (double)others / width;
        if (others)
                rank(scratch, width, (double)others, answer);
}

void behind_ask(const struct behind *behind, uint32_t device, uint64_t from, uint64_t to, uint32_t tgid, struct behind_answer *answer)
{
        behind_ask_others(behind, device, from, to, &tgid, 1, answer);
}

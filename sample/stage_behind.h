#pragma once
/*
 * Behind whom did a bio or a call wait? Whose bios were open on the device while it waited, weighted by the time: of 10 ms in which 3
 * bios of fio and 1 of postgres were open, fio has 7.5.
 *
 * Records tell of a bio when it has ended, so the answer for a span is whole when what overlapped it has ended, too; what has not is
 * not counted. Keeps the last BEHIND_BIOS bios in fixed memory; older ones are
 * forgotten, and a span that reaches further back says so (that nothing is known from before the first record is the caller's to say).
 */
#include <stdbool.h>
#include <stddef.h>

#include "sample/stage_record.h"

enum { BEHIND_BIOS = 1 << 17, BEHIND_MOST = 32 };

struct behind;
int behind_new(struct behind **);
void behind_free(struct behind *);
void behind_record(struct behind *, const struct stage_record *); /* RECORD_BIO; others are ignored */

struct behind_who {
        uint32_t tgid;                /* names: stage_sync.h / the stage set knows them */
        double share;                 /* of the open bios of others, weighted by time; 0 .. 1 */
        double open;                  /* mean number of its bios that were open */
};
struct behind_answer {
        struct behind_who who[BEHIND_MOST]; /* the most first */
        size_t count;
        double open;                  /* mean number of others' bios open */
        double own;                   /* ... and of its own */
        bool whole;                   /* false: the span begins before what is remembered */
};
/* Bios of others than `tgid` open on the device between `from` and `to`. */
void behind_ask(const struct behind *, uint32_t device, uint64_t from, uint64_t to, uint32_t tgid, struct behind_answer *);
/* The same, where several count as its own: a call and the journal that works for it. `own` is theirs. Not for two threads at once. */
void behind_ask_others(const struct behind *, uint32_t device, uint64_t from, uint64_t to, const uint32_t *tgids, size_t count,
        struct behind_answer *);

/*
 * Who caused each part of wa, and whose requests may be on a device although no core shows it: parts of a tally (tally.h).
 *
 * Threads of one process are added up: a reader wants a name, and eight threads of a database are one. Only what the rows say is used; a
 * waiter of whom nothing is known is in no list.
 */
#include <stdlib.h>
#include <string.h>

#include "tui/tally.h"

enum { ROOM = 128 }; /* processes that are added up at a time; the least of them makes room */

static double rate(const struct state_row *row, int metric, double scale)
{
        double delta = 0, seconds = row->has_base ? state_row_seconds(row) : 0;

        if (!(seconds > 0))
                return -1;
        int outcome = state_delta(row, metric, &delta);
        return outcome == DELTA_ABSENT || outcome == DELTA_RESET ? -1 : delta / seconds * scale;
}

static double level(const struct state_row *row, int metric)
{
        uint64_t value;

        return state_now(row, metric, &value) ? (double)value : -1;
}

/* ---- parts of wa --------------------------------------------------------------------------------------------------------------------- */

struct sums {
        struct tally_who at[ROOM];
        size_t count;
};

static struct tally_who *sum_of(struct sums *sums, int pid, double share)
{
        size_t least = 0;

        for (size_t i = 0; i < sums->count; i++) {
                if (sums->at[i].pid == pid)
                        return &sums->at[i];
                if (sums->at[i].share < sums->at[least].share)
                        least = i;
        }
        if (sums->count < ROOM)
                least = sums->count++;
        else if (sums->at[least].share >= share)
                return NULL;
        sums->at[least] = (struct tally_who){.pid = pid};
        return &sums->at[least];
}

static int by_share(const void *left, const void *right)
{
        const struct tally_who *a = left, *b = right;

        if (a->share != b->share)
                return a->share > b->share ? -1 : 1;
        return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static void tally_part(const struct state *state, int metric, struct tally_who *who, size_t *count)
{
        struct sums sums = {.count = 0};

        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                double share = rate(row, metric, 1e-7), pid = level(row, WAITER_TGID);
                struct tally_who *sum = share >= TALLY_WHO_SHARE && pid >= 0 ? sum_of(&sums, (int)pid, share) : NULL;
                if (!sum)
                        continue;
                sum->share += share;
                sum->threads++;
                if (!sum->name[0])
                        state_text_copy(state, row, WAITER_PROCESS, sum->name, sizeof sum->name);
                if (!sum->name[0])
                        state_text_copy(state, row, WAITER_COMM, sum->name, sizeof sum->name);
        }
        qsort(sums.at, sums.count, sizeof sums.at[0], by_share);
        *count = sums.count < TALLY_WHO ? sums.count : TALLY_WHO;
        memcpy(who, sums.at, *count * sizeof *who);
}

/* ---- owners of requests
 * ------------------------------------------------------------------------------------------------------------------ */

/* What a process with rings lets others do for it, from the rows of its waiters: bits of waiter.ring_flags. */
static unsigned ring_flags(const struct state *state, int pid)
{
        unsigned flags = 0;

        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                double of = level(row, WAITER_RING_FLAGS);
                if (!row->gone && of > 0 && level(row, WAITER_TGID) == (double)pid)
                        flags |= (unsigned)of;
        }
        return flags;
}

static void tally_io(const struct state *state, struct tally *tally)
{
        for (size_t i = 0, n = state_count(state, SCOPE_PROCESS); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                double read = row->gone ? -1 : rate(row, PROCESS_READ_BYTES, 1), written = row->gone ? -1 : rate(row, PROCESS_WRITE_BYTES,
                        1);
                double kb = ((read > 0 ? read : 0) + (written > 0 ? written : 0)) / 1024;
                if (!(kb >= 1))
                        continue;
                size_t kept = tally->io_count < TALLY_IO ? tally->io_count : TALLY_IO, at = kept;
                tally->io_count++;
                while (at > 0 && tally->io[at - 1].kb < kb)
                        at--;
                if (at == TALLY_IO)
                        continue;
                memmove(&tally->io[at + 1], &tally->io[at], ((kept < TALLY_IO ? kept : TALLY_IO - 1) - at) * sizeof tally->io[0]);
                struct tally_io *io = &tally->io[at];
                *io = (struct tally_io){.pid = (int)row->key.a, .kb = kb, .aio = level(row, PROCESS_AIO),
                        .rings = level(row, PROCESS_RINGS)};
                state_text_copy(state, row, PROCESS_COMM, io->name, sizeof io->name);
        }
        for (size_t i = 0; i < tally->io_count && i < TALLY_IO; i++)
                tally->io[i].ring_flags = ring_flags(state, tally->io[i].pid);
}

const char *tally_engine(const struct tally_io *io)
{
        if (io->ring_flags & 1)
                return "io_uring with a submission thread";
        if (io->ring_flags & 2)
                return "io_uring, waits not counted";
        if (io->aio > 0)
                return "libaio";
        return io->rings > 0 ? "io_uring" : NULL;
}

void tally_who_make(const struct state *state, struct tally *tally)
{
        static const int metrics_of[TALLY_PARTS] = {WAITER_WA_DISK, WAITER_WA_URING, WAITER_WA_OTHER};

        for (int part = 0; part < TALLY_PARTS; part++)
                tally_part(state, metrics_of[part], tally->who[part], &tally->who_count[part]);
        tally_io(state, tally);
}

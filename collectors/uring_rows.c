/*
 * Rows of scope waiter, and the sub-samples' sums in the row of scope system.
 */
#include "collectors/uring_own.h"

#include <string.h>

static void set_text(struct row *row, int metric, const char *text)
{
        row_text(row, metric, text[0] ? text : NULL, strlen(text));
}

static void write_rings(struct row *row, struct owner *owner)
{
        int64_t pending = 0;
        uint64_t polls = 0;
        bool known = owner && owner->ring_count > 0;
        for (size_t i = 0; known && i < owner->ring_count; i++) {
                known = owner->rings[i].to.valid;
                pending += ring_pending(&owner->rings[i].to);
                polls += owner->rings[i].to.polls;
        }
        if (known && owner->complete && !owner->overfull)
                row_set(row, WAITER_RINGS, owner->ring_count);
        else
                row_absent(row, WAITER_RINGS);
        if (known) {
                row_set(row, WAITER_PENDING, (uint64_t)pending);
                row_set(row, WAITER_POLLS, polls);
        } else {
                row_absent(row, WAITER_PENDING);
                row_absent(row, WAITER_POLLS);
        }
}

static void write_row(struct uring *u, struct tick *tick, struct waiter *w)
{
        struct key key = {(uint64_t)w->thread.tid, w->thread.born_ns};
        struct row *row = sample_row(tick->sample, SCOPE_WAITER, key, 0);
        bool d = w->thread.state == 'D';
        if (!row)
                return;
        set_text(row, WAITER_COMM, w->thread.comm);
        set_text(row, WAITER_PROCESS, w->process);
        set_text(row, WAITER_WCHAN, w->wchan);
        row_set(row, WAITER_TGID, (uint64_t)w->thread.tgid);
        row_set(row, WAITER_STATE, (uint64_t)(unsigned char)w->thread.state);
        row_set(row, WAITER_CORE, w->thread.cpu);
        row_set(row, WAITER_SINCE, w->since_ns);
        if (w->has_switches)
                row_set(row, WAITER_SWITCHES, w->switches);
        else
                row_absent(row, WAITER_SWITCHES);
        row_set(row, WAITER_WITNESS, d ? 6 : w->parked ? (w->verdict ? (uint64_t)w->verdict : 3) : w->wait == WAIT_CQ ? 2 : 0);
        write_rings(row, d ? NULL : owner_find(u, w->thread.tgid));
}

void uring_write_rows(struct uring *u, struct tick *tick)
{
        struct sample *sample = tick->sample;
        if (tick->scopes & SCOPE_BIT(SCOPE_WAITER)) {
                sample_scope_begin(sample, SCOPE_WAITER, tick->evidence->stat_start_ns);
                for (size_t i = 0; i < u->waiter_count; i++) {
                        struct waiter *w = &u->waiters[i];
                        if (!w->gone && (w->wait == WAIT_CQ || w->thread.state == 'D'))
                                write_row(u, tick, w);
                }
                sample_scope_end(sample, SCOPE_WAITER, procfs_mono(tick->procfs), GONE_UNSAMPLED);
        }
        struct row *system = sample_find(sample, SCOPE_SYSTEM, (struct key){0, 0});
        u->total_subs += u->subs;
        u->total_sub_blocked += u->sub_blocked;
        u->total_sub_d += u->sub_d;
        if (!system || !(tick->scopes & SCOPE_BIT(SCOPE_SYSTEM)))
                return;
        row_set(system, SYSTEM_SUBSAMPLES, u->total_subs);
        row_set(system, SYSTEM_SUB_BLOCKED, u->total_sub_blocked);
        row_set(system, SYSTEM_SUB_DSTATE, u->total_sub_d);
        if (u->pass_done)
                row_set(system, SYSTEM_DSTATE, u->last_d);
        else
                row_absent(system, SYSTEM_DSTATE);
}

void uring_judged(struct sample *sample, const struct evidence *e)
{
        for (size_t i = 0; i < e->witness_count; i++) {
                const struct iowait_witness *witness = &e->witnesses[i];
                struct key key = {(uint64_t)witness->tid, witness->born_ns};
                struct row *row = sample_find(sample, SCOPE_WAITER, key);
                uint64_t state;
                if (row && (!row_get(row, WAITER_STATE, &state) || state != 'D'))
                        row_set(row, WAITER_WITNESS, (uint64_t)witness->verdict);
        }
}

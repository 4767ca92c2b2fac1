/*
 * Rows of scope waiter, and the sub-samples' sums in the row of scope system.
 */
#include "collectors/uring_own.h"

#include <stdlib.h>
#include <string.h>

#include "collectors/bpf/tracer.h"

static void set_text(struct row *row, int metric, const char *text)
{
        row_text(row, metric, text[0] ? text : NULL, strlen(text));
}

static void set(struct row *row, int metric, bool there, uint64_t value)
{
        if (there)
                row_set(row, metric, value);
        else
                row_absent(row, metric);
}

/* Metric waiter.ring_flags. */
enum { FLAG_SQ_THREAD = 1, FLAG_NOT_COUNTED = 2 };

static void write_rings(struct row *row, const struct owner *owner, bool refuted)
{
        int64_t pending = 0;
        uint64_t polls = 0, entries = 0, flags = refuted ? FLAG_NOT_COUNTED : 0;
        char ops[512];
        bool known = owner && owner->ring_count > 0, sized = known;
        for (size_t i = 0; known && i < owner->ring_count; i++) {
                const struct ring_facts *facts = &owner->rings[i].to;
                known = facts->valid;
                pending += ring_pending(facts);
                polls += facts->polls;
                entries += facts->entries;
                sized = sized && facts->entries > 0;
                flags |= facts->sq_thread >= 0 ? FLAG_SQ_THREAD : 0;
        }
        set(row, WAITER_RINGS, known && owner->complete && !owner->overfull, owner ? owner->ring_count : 0);
        set(row, WAITER_PENDING, known, (uint64_t)pending);
        set(row, WAITER_POLLS, known, polls);
        set(row, WAITER_ENTRIES, known && sized, entries);
        set(row, WAITER_RING_FLAGS, known || refuted, flags);
        size_t length = known ? ring_say_ops(owner->ops, ops, sizeof ops) : 0;
        row_text(row, WAITER_POLL_OPS, length ? ops : NULL, length);
}

static bool is_shown(const struct waiter *w)
{
        return w->wait == WAIT_CQ || w->thread.state == 'D';
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
        set(row, WAITER_SWITCHES, w->has_switches, w->switches);
        row_set(row, WAITER_WITNESS, d ? 6 : w->parked ? (w->verdict ? (uint64_t)w->verdict : 3) : w->wait == WAIT_CQ ? 2 : 0);
        write_rings(row, d ? NULL : owner_find(u, w->thread.tgid), !d && w->parked && w->refuted);
}

/* A waiter that only the tracer met: this pass did not come by, or it was not in D state when it did. */
static void write_traced(const struct tracer_waiter *w, struct tick *tick, uint64_t boot_offset_ns)
{
        const uint64_t whole = UINT64_C(10000000); /* as the kernel prints start times */
        struct key key = {(uint64_t)w->tid, w->start_boot_ns / whole * whole};
        struct row *row = sample_row(tick->sample, SCOPE_WAITER, key, 0);
        if (!row)
                return;
        char comm[sizeof w->comm + 1] = "";
        memcpy(comm, w->comm, sizeof w->comm);
        set_text(row, WAITER_COMM, comm);
        if (w->tid == w->tgid)
                set_text(row, WAITER_PROCESS, comm);
        row_set(row, WAITER_TGID, (uint64_t)w->tgid);
        row_set(row, WAITER_STATE, w->ring_wait ? 'S' : 'D');
        row_set(row, WAITER_CORE, w->cpu);
        set(row, WAITER_SINCE, w->since_ns > 0, w->since_ns + boot_offset_ns);
        row_absent(row, WAITER_SWITCHES);
        row_set(row, WAITER_WITNESS, !w->ring_wait ? 6 : w->class == TRACER_URING ? 4 : 5);
        write_rings(row, NULL, false);
}

/* Those that are asleep now and have no row yet. */
static void write_all_traced(struct uring *u, struct tick *tick)
{
        const struct evidence *e = tick->evidence;
        uint64_t boot = watch_boot_ns(tick->procfs), mono = procfs_mono(tick->procfs);
        for (size_t i = 0; e->traced && i < e->traced_count; i++) {
                const struct tracer_waiter *w = &e->traced[i];
                const struct waiter *known = w->asleep ? waiter_find(u, w->tid) : NULL;
                if (w->asleep && !(known && !known->gone && is_shown(known)))
                        write_traced(w, tick, boot > mono ? boot - mono : 0);
        }
}

/* Threads in D state, or of late, for who.c. */
static void lend_d_threads(struct uring *u, struct evidence *e)
{
        size_t count = 0;
        e->d_thread_count = 0;
        if (u->waiter_count > u->d_thread_capacity) {
                size_t capacity = u->waiter_count * 2;
                struct d_thread *d_threads = realloc(u->d_threads, capacity * sizeof *d_threads);
                if (!d_threads)
                        return;
                u->d_threads = d_threads;
                u->d_thread_capacity = capacity;
        }
        for (size_t i = 0; i < u->waiter_count; i++) {
                const struct waiter *w = &u->waiters[i];
                if (w->gone || w->wait == WAIT_CQ || w->plain || (w->cold > AWAY_TICKS && w->thread.state != 'D'))
                        continue;
                u->d_threads[count++] = (struct d_thread){
                        .tid = w->thread.tid, .tgid = w->thread.tgid, .born_ns = w->thread.born_ns, .block_ns = w->thread.block_ns,
                        .cpu = w->thread.cpu, .asleep = w->thread.state == 'D',
                };
        }
        e->d_threads = u->d_threads;
        e->d_thread_count = count;
}

void uring_write_rows(struct uring *u, struct tick *tick)
{
        struct sample *sample = tick->sample;
        lend_d_threads(u, tick->evidence);
        if (tick->scopes & SCOPE_BIT(SCOPE_WAITER)) {
                sample_scope_begin(sample, SCOPE_WAITER, tick->evidence->stat_start_ns);
                for (size_t i = 0; i < u->waiter_count; i++) {
                        struct waiter *w = &u->waiters[i];
                        if (!w->gone && is_shown(w))
                                write_row(u, tick, w);
                }
                write_all_traced(u, tick);
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
        if (u->pass_done && u->whole) /* of those in sight only it would be a number too low */
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
                if (row && witness->verdict == 1) {
                        uint64_t flags = 0;
                        row_get(row, WAITER_RING_FLAGS, &flags);
                        row_set(row, WAITER_RING_FLAGS, flags | FLAG_NOT_COUNTED);
                }
        }
}

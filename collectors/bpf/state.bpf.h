#pragma once
/*
 * The state of cores and waiters, and the arithmetic on it: who falls asleep, whose time it is, what a wake-up proves. Included once, by
 * iowait.bpf.c.
 *
 * Guarantee: each ns in which a core was idle with a sleeper is counted once, whoever races: core.last is exchanged atomically, and the
 * signed differences telescope.
 */
#include "layout.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define inline_ static __attribute__((always_inline)) inline

/* Kernels before 5.12 have no atomics that return a value. There a plain exchange can lose to another CPU that wakes somebody of the
 * same core in the same ns; the rest is the same. */
#ifdef WITHOUT_FETCH
#define PLAIN(at) (*(volatile __typeof__(*(at)) *)(at))
#define EXCHANGE(at, value) ({ __typeof__(*(at)) was_ = PLAIN(at); PLAIN(at) = (value); was_; })
#define REPLACE(at, old, new) (PLAIN(at) == (old) ? (PLAIN(at) = (new), 1) : 0)
#else
#define EXCHANGE(at, value) __sync_lock_test_and_set(at, value)
#define REPLACE(at, old, new) (__sync_val_compare_and_swap(at, old, new) == (old))
#endif
#define ADD(at, value) ((void)__sync_fetch_and_add(at, value))
#define READ(at) (*(const volatile __typeof__(at) *)&(at))

enum { TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2 };
enum { PF_IDLE = 2, PF_IO_WORKER = 0x10, PF_KTHREAD = 0x200000 };
enum { DONE_NS = 50000, WAKE_NS = 2000000, FRESH_NS = 4000000 };

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1); /* set before loading */
        __type(key, u32);
        __type(value, struct core);
} cores SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, PLACES);
        __type(key, u32);
        __type(value, struct place);
} places SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, WAITERS);
        __type(key, u32);
        __type(value, struct waiter);
} waiters SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct tally);
} tallies SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, RINGS);
        __type(key, u64);
        __type(value, struct ring);
} rings SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, OPERATIONS);
        __type(key, u64);
        __type(value, struct operation);
} operations SEC(".maps");

const volatile struct settings settings = {0};

inline_ struct core *core_of(u32 cpu)
{
        return bpf_map_lookup_elem(&cores, &cpu);
}

/* What happens seldom is kept out of the way of what happens always: the programs begin on cold caches, and each line less counts. */
#define seldom_ static __attribute__((noinline))

inline_ struct tally *tally(void)
{
        u32 zero = 0;
        return bpf_map_lookup_elem(&tallies, &zero);
}

seldom_ int count_unmatched(void)
{
        struct tally *counts = tally();
        if (counts)
                ADD(&counts->unmatched, 1);
        return 0;
}

seldom_ int count_overflow(void)
{
        struct tally *counts = tally();
        if (counts)
                ADD(&counts->overflow, 1);
        return 0;
}

inline_ struct task_struct *current_task(void)
{
#ifdef WITHOUT_FETCH
        return (void *)bpf_get_current_task();
#else
        return bpf_get_current_task_btf(); /* since 5.11: its fields are read as they are */
#endif
}

inline_ u32 tid_of(struct task_struct *task)
{
#ifdef WITHOUT_FETCH
        return (u32)BPF_CORE_READ(task, pid);
#else
        return (u32)task->pid;
#endif
}

inline_ u32 flags_of(struct task_struct *task)
{
#ifdef WITHOUT_FETCH
        return BPF_CORE_READ(task, flags);
#else
        return task->flags;
#endif
}

inline_ u32 task_state(struct task_struct *task)
{
        if (bpf_core_field_exists(task->__state))
                return task->__state;
        return (u32)((struct task_struct___state *)task)->state;
}

/* ---- slots --------------------------------------------------------------------------------------------------------------------------- */

/* The slot number of a thread, or -1. */
inline_ int find(u32 tid)
{
        u32 number = place_of(tid);
        struct place *place = bpf_map_lookup_elem(&places, &number);
        if (!place)
                return -1;
#pragma unroll
        for (u32 way = 0; way < WAYS; way++)
                if (READ(place->tid[way]) == tid)
                        return (int)(number * WAYS + way);
        return -1;
}

inline_ struct waiter *slot_of(int number)
{
        u32 key = (u32)number;
        return bpf_map_lookup_elem(&waiters, &key);
}

/* The thread's slot, if it is asleep: that of who slept last on `here` costs no search. */
inline_ struct waiter *asleep_of(struct core *here, u32 tid)
{
        struct waiter *slot = here->tid == tid ? slot_of((int)here->number) : 0;
        if (!slot || slot->tid != tid)
                slot = slot_of(find(tid));
        return slot && READ(slot->asleep) ? slot : 0;
}

/* A new slot. Only the thread itself and, at attach, the iterator make one; two for one tid cannot harm: the second is never found. */
seldom_ int make(u32 tid)
{
        u32 number = place_of(tid);
        struct place *place = bpf_map_lookup_elem(&places, &number);
        if (!place)
                return -1;
        for (u32 way = 0; way < WAYS; way++)
                if (READ(place->tid[way]) == 0 && REPLACE(&place->tid[way], 0, tid))
                        return (int)(number * WAYS + way);
        count_overflow();
        return -1;
}

inline_ void describe(struct waiter *slot, struct task_struct *task, u32 cpu)
{
        __builtin_memset(slot, 0, sizeof *slot);
        slot->tgid = (u32)task->tgid;
        slot->start = task->start_boottime;
        bpf_probe_read_kernel(slot->comm, sizeof slot->comm, task->comm);
        slot->last = WAIT_OTHER;
        slot->cpu = cpu;
        if (cpu < 64)
                slot->cores = 1ull << cpu;
        slot->tid = (u32)task->pid;
}

/* The number of the thread's slot, searched or made, to be found at once the next time. */
seldom_ int search(struct core *core, struct task_struct *task)
{
        u32 tid = (u32)task->pid;
        int number = find(tid);
        bool fresh = number < 0;
        if (fresh)
                number = make(tid);
        struct waiter *slot = slot_of(number);
        if (number < 0 || !slot || !core)
                return -1;
        if (fresh || slot->start != task->start_boottime)
                describe(slot, task, bpf_get_smp_processor_id());
        core->tid = tid;
        core->number = (u32)number;
        return number;
}

/* ---- time ---------------------------------------------------------------------------------------------------------------------------- */

seldom_ u64 compare_clocks(struct core *core, u64 clock)
{
        u64 now = bpf_ktime_get_ns();
        if (core) {
                core->ahead = now - clock;
                core->compared = clock;
        }
        return now;
}

/* CLOCK_MONOTONIC, in a switch on this CPU. To read it is the half of what a sleep costs. The scheduler has just read a clock of its
 * own for this switch (rq_clock), in ns as well, which runs beside it; how far apart they are is looked up every FRESH_NS, in which
 * adjtimex lets them drift by 2 us at most. An error of one reading is taken back by the next: differences telescope. */
inline_ u64 switch_time(struct core *core, struct task_struct *prev)
{
        if (bpf_core_field_exists(prev->se.cfs_rq) && bpf_core_field_exists(prev->se.cfs_rq->rq)) {
                u64 clock = prev->se.cfs_rq->rq->clock;
                return clock && clock - core->compared < FRESH_NS ? clock + core->ahead : compare_clocks(core, clock);
        }
        return bpf_ktime_get_ns();
}

inline_ u64 clock_of(struct core *core)
{
        return READ(core->ns[WAIT_DISK]) + READ(core->ns[WAIT_OTHER]) + READ(core->ns[WAIT_URING]);
}

seldom_ int accrue_unsure(struct core *core, u64 sleepers, u64 delta)
{
        if (!core)
                return 0;
        ADD(&core->unsure, delta);
        if (sleepers >> 48 == 1)
                ADD(&core->unsure_alone, delta);
        if ((sleepers & 0xffff) == 1)
                ADD(&core->alone, delta);
        return 0;
}

inline_ u32 class_of(u64 sleepers)
{
        return sleepers & 0xffff ? WAIT_DISK : sleepers >> 16 & 0xffff ? WAIT_OTHER : WAIT_URING;
}

/* Count the idle time up to now. The caller knows that the core is idle. */
inline_ void accrue(struct core *core, u64 now)
{
        u64 sleepers = READ(core->sleepers);
        if (!sleepers)
                return;
        u64 delta = now - EXCHANGE(&core->last, now);
        ADD(&core->ns[class_of(sleepers)], delta);
        if (sleepers >> 48)
                accrue_unsure(core, sleepers, delta);
}

/* The core was busy at the last change that we saw, and is idle now: one was missed (an event may be kept from us, or run into another
 * of the same kind). Who slept is known; how much of the time was idle is not, but the kernel's iowait tells. */
seldom_ int account_missed(struct core *core, u64 now)
{
        u64 sleepers = core ? READ(core->sleepers) : 0;
        if (!core || !sleepers || !core->last || now <= core->last)
                return 0;
        ADD(&core->missed[class_of(sleepers)], now - core->last);
        return 0;
}

/* What `settle` will need of a sleep that begins now, counted as `word`: only as much as its class can turn out to be another. */
inline_ void remember(struct waiter *slot, struct core *core, u32 word)
{
        u64 other = READ(core->ns[WAIT_OTHER]), uring = READ(core->ns[WAIT_URING]);
        slot->clock = READ(core->ns[WAIT_DISK]) + other + uring;
        if ((word & ASLEEP_CLASS) != WAIT_DISK) {
                slot->other = other;
                slot->uring = uring;
        }
        if (word & ASLEEP_UNSURE) {
                slot->alone = READ(core->alone);
                slot->unsure_alone = READ(core->unsure_alone);
        }
}

/* Its class was too low: what the core has in lower classes since this sleep began goes up. What an overlapping sleep raised already is
 * left out. */
seldom_ int raise(struct core *core, struct waiter *slot, u32 real)
{
        if (!core || !slot)
                return 0;
        u64 other = READ(core->ns[WAIT_OTHER]), uring = READ(core->ns[WAIT_URING]);
        s64 more_other, more_uring;
        if (slot->clock >= core->raised_from) {
                more_other = (s64)(other - (slot->other > core->raised_to_other ? slot->other : core->raised_to_other));
                more_uring = (s64)(uring - (slot->uring > core->raised_to_uring ? slot->uring : core->raised_to_uring));
        } else {
                more_other = (s64)(other - core->raised_to_other + core->raised_from_other - slot->other);
                more_uring = (s64)(uring - core->raised_to_uring + core->raised_from_uring - slot->uring);
        }
        if (slot->clock < core->raised_from || (slot->other >= core->raised_to_other && slot->uring >= core->raised_to_uring)) {
                core->raised_from = slot->clock;
                core->raised_from_other = slot->other;
                core->raised_from_uring = slot->uring;
        }
        core->raised_to_uring = uring;
        if (more_uring > 0)
                ADD(real == WAIT_DISK ? &core->raised_uring : &core->raised_uring_other, (u64)more_uring);
        if (real != WAIT_DISK)
                return 0;
        core->raised_to_other = other;
        if (more_other > 0)
                ADD(&core->raised_other, (u64)more_other);
        return 0;
}

/* It was another class than predicted, or a guess. A sleep that is sure to be a device's stays one (`proven`), so only guesses are
 * lowered. */
seldom_ int correct(struct core *core, struct waiter *slot, u32 word, u32 real, bool sure)
{
        u32 was = word & ASLEEP_CLASS;
        if (!core || !slot)
                return 0;
        if (real < was)
                raise(core, slot, real);
        else if (real == WAIT_OTHER && was == WAIT_DISK && word & ASLEEP_UNSURE)
                ADD(&core->lowered, READ(core->alone) - slot->alone);
        if ((word & ASLEEP_UNSURE) && sure)
                ADD(&core->known, READ(core->unsure_alone) - slot->unsure_alone);
        return 0;
}

/* The sleep, or the part of it since `remember`, is over; it was counted as `word`, and was `real`. */
inline_ void settle(struct core *core, struct waiter *slot, u32 word, u32 real, bool sure)
{
        s64 mine = (s64)(clock_of(core) - slot->clock);
        if (real >= WAIT_CLASSES)
                return;
        if (mine > 0)
                slot->ns[real] += (u64)mine;
        if (real != (word & ASLEEP_CLASS) || word & ASLEEP_UNSURE)
                correct(core, slot, word, real, sure);
        slot->class = (u8)real;
}

/* ---- sleep and wake ------------------------------------------------------------------------------------------------------------------ */

/* Is this CPU, in this very context, inside the completion of a request or bio? A request's end is seen (block_io_done), unless its context
 * moved to another CPU in between; what has no such end counts for a moment. */
inline_ bool completing(struct core *here, u32 tid)
{
        if (!here->done || here->done_tid != tid)
                return false;
        return here->done_ends ? bpf_jiffies64() - here->done_at <= 1 : bpf_ktime_get_ns() - here->done_at < DONE_NS;
}

/* The sleep is over: it runs, or its core's run queue has lost it to another. What its waking proved is applied; none seen: as predicted.
 * `core` is the one it slept on. */
inline_ void finish(struct core *core, struct waiter *slot, u64 now)
{
        u32 word = EXCHANGE(&slot->asleep, 0), woken = READ(slot->woken);
        if (!word)
                return;
        if (READ(core->idle))
                accrue(core, now);
        ADD(&core->sleepers, -SLEEPERS(word));
        if (!(woken & WOKEN))
                count_unmatched();
        settle(core, slot, word, woken & WOKEN ? woken & ASLEEP_CLASS : word & ASLEEP_CLASS, woken & WOKEN_SURE);
        if (woken & WOKEN_PROVES) {
                slot->last = (u8)(woken & ASLEEP_CLASS);
                slot->proven = 1;
        }
}

/* The same of one that may have slept elsewhere. */
seldom_ int finish_anywhere(struct waiter *slot, u64 now)
{
        struct core *core = slot ? core_of(slot->cpu) : 0;
        if (slot && core)
                finish(core, slot, now);
        return 0;
}

/* Storage pending on the ring decides what a wait on it is. */
inline_ u32 ring_class(struct waiter *slot, struct ring *ring)
{
        if (READ(ring->block))
                return WAIT_DISK;
        if (READ(ring->other))
                return slot->proven ? slot->last : WAIT_OTHER;
        return WAIT_URING;
}

/* Put the waiter among the ring's sleepers, in the place of one that sleeps there no more. False: there is no room. */
inline_ bool join(struct ring *ring, u64 ctx, u32 me)
{
#pragma unroll
        for (u32 i = 0; i < RING_SLEEPERS; i++)
                if (READ(ring->sleeper[i]) == me)
                        return true;
#pragma unroll
        for (u32 i = 0; i < RING_SLEEPERS; i++) {
                u32 was = READ(ring->sleeper[i]);
                struct waiter *slot = was ? slot_of((int)was - 1) : 0;
                if (slot && slot->ring && slot->ctx == ctx && READ(slot->asleep))
                        continue;
                if (REPLACE(&ring->sleeper[i], was, me))
                        return true;
        }
        return false;
}

/* A ring waiter of whom all is known: which ring, what is pending there, and that a change of it will find the waiter. Else it is as
 * one that slept already at attach: /proc has to speak for it. */
seldom_ int predict_ring(struct core *core, struct waiter *slot, u32 tid, u32 number)
{
        if (!core || !slot)
                return WAIT_URING;
        slot->ring = 1;
        if (core->ring_tid == tid) {
                slot->ctx = core->ring;
                slot->wanted = core->ring_wanted;
        }
        u64 ctx = slot->ctx;
        slot->seeded = 1;
        slot->block = slot->pending_other = 0;
        slot->changed_from = WAIT_URING;
        struct ring *ring = ctx && settings.storage_traced ? bpf_map_lookup_elem(&rings, &ctx) : 0;
        if (!ring)
                return WAIT_URING;
        ring->seen = slot->since;
        slot->seeded = !join(ring, ctx, number + 1) || READ(ring->unknown);
        slot->block = READ(ring->block);
        slot->pending_other = READ(ring->other);
        return (int)ring_class(slot, ring);
}

inline_ u32 predict(struct core *core, struct waiter *slot, struct task_struct *task, u32 tid)
{
        bool marked = core->mark_tid == tid && core->mark_switches + 1 == (u32)task->nvcsw;
        slot->ring = slot->seeded = 0;
        slot->marked = marked;
        if (marked)
                return core->mark_dirty ? WAIT_OTHER : WAIT_DISK;
        return ASLEEP_UNSURE | (slot->proven ? slot->last : WAIT_OTHER);
}

/* Storage on the ring may have come or gone while its waiter was falling asleep. Below, with the events of rings. */
seldom_ int look_again(struct waiter *slot, u64 ctx);

inline_ void fall_asleep(struct core *core, u32 cpu, struct task_struct *task, u32 state, u64 now)
{
        u32 tid = (u32)task->pid, number = core->number, word;
        struct waiter *slot = core->tid == tid ? slot_of((int)number) : 0;
        if (!slot || slot->tid != tid || slot->start != task->start_boottime) {
                number = (u32)search(core, task);
                slot = slot_of((int)number);
                if (!slot)
                        return;
        }
        if (slot->asleep)
                finish_anywhere(slot, now);
        slot->woken = 0;
        slot->since = now;
        if ((state & TASK_INTERRUPTIBLE) && bpf_core_field_exists(task->io_uring) && task->io_uring)
                word = ASLEEP | (u32)predict_ring(core, slot, tid, number);
        else
                word = ASLEEP | predict(core, slot, task, tid);
        if (slot->cpu != cpu) {
                slot->cpu = cpu;
                if (cpu < 64)
                        slot->cores |= 1ull << cpu;
        }
        slot->sleeps++;
        slot->switches = (u32)task->nvcsw;
        slot->class = word & ASLEEP_CLASS;
        remember(slot, core, word);
        ADD(&core->sleepers, SLEEPERS(word));
        if (settings.stores_reorder || slot->ring) { /* a ring's: whoever submits now sees it asleep, or it sees what was submitted */
                EXCHANGE(&slot->asleep, word);
                if (slot->ring)
                        look_again(slot, slot->ctx);
        } else {
                *(volatile u32 *)&slot->asleep = word;
        }
        /* Who was woken before this was written has passed by; it is not asleep any more. */
        if (!(task_state(task) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE))) {
                word = EXCHANGE(&slot->asleep, 0);
                if (word)
                        ADD(&core->sleepers, -SLEEPERS(word));
        }
}

/* What a wake-up proves of a wait on a ring. What was pending is known, unless it was submitted before we looked, or is on a file system
 * that may or may not lie on a device. */
seldom_ int proven_ring(struct waiter *slot, u32 was, bool done)
{
        if (!slot)
                return (int)was;
        if (was == WAIT_URING && slot->changed_from < WAIT_URING && bpf_ktime_get_ns() - slot->changed_at < WAKE_NS)
                return slot->changed_from; /* what it waited for has just ended, and its waker was on the way */
        if (done && (slot->seeded || slot->pending_other || slot->sleeps <= 1))
                return WAIT_DISK;
        if (slot->seeded && was == WAIT_URING && flags_of(current_task()) & PF_IO_WORKER)
                return WAIT_OTHER; /* one of its io workers has done something for it */
        return (int)was;
}

/* Somebody wakes it: what that proves is kept until it runs. Until then the core is idle for its sake, as the kernel has it: the count of
 * its run queue falls when it is activated there, or moved away (try_to_wake_up in kernel/sched/core.c). */
inline_ void wake(struct core *here, struct waiter *slot)
{
        struct task_struct *task = current_task();
        u32 waker = tid_of(task), was = READ(slot->asleep) & ASLEEP_CLASS, real = was;
        bool sure = true, done = completing(here, waker), proves;
        if (slot->ring) {
                real = (u32)proven_ring(slot, was, done) & ASLEEP_CLASS;
                proves = done && real != WAIT_URING;
        } else {
                if (done)
                        real = WAIT_DISK;
                else if (slot->marked) /* own bio: woken by a worker that ends I/O, or by whoever freed a tag */
                        real = was;
                else if (waker == 0 || !(flags_of(task) & PF_KTHREAD))
                        real = WAIT_OTHER; /* a file server, a timer */
                else
                        sure = false;      /* a worker that ends I/O of others, or one of the network */
                proves = sure && real != WAIT_URING;
        }
        *(volatile u8 *)&slot->woken = (u8)(WOKEN | real | (sure ? WOKEN_SURE : 0) | (proves ? WOKEN_PROVES : 0));
}

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
enum { DONE_NS = 50000, WAKE_NS = 2000000 };

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
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
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

inline_ void count_unmatched(void)
{
        u32 zero = 0;
        struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
        if (tally)
                ADD(&tally->unmatched, 1);
}

inline_ void count_overflow(void)
{
        u32 zero = 0;
        struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
        if (tally)
                ADD(&tally->overflow, 1);
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

/* A new slot. Only the thread itself and, at attach, the iterator make one; two for one tid cannot harm: the second is never found. */
static __attribute__((noinline)) int make(u32 tid)
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

inline_ void describe(struct waiter *slot, struct task_struct *task)
{
        __builtin_memset(slot, 0, sizeof *slot);
        slot->tgid = (u32)task->tgid;
        slot->start = task->start_boottime;
        bpf_probe_read_kernel(slot->comm, sizeof slot->comm, task->comm);
        slot->last = WAIT_OTHER;
        slot->tid = (u32)task->pid;
}

/* ---- time ---------------------------------------------------------------------------------------------------------------------------- */

inline_ u64 clock_of(struct core *core)
{
        return READ(core->ns[WAIT_DISK]) + READ(core->ns[WAIT_OTHER]) + READ(core->ns[WAIT_URING]);
}

/* Count the idle time up to now. The caller knows that the core is idle. */
inline_ void accrue(struct core *core, u64 now)
{
        u64 sleepers = READ(core->sleepers);
        if (!sleepers)
                return;
        u64 delta = now - EXCHANGE(&core->last, now);
        u32 disk = sleepers & 0xffff, other = sleepers >> 16 & 0xffff, unsure = (u32)(sleepers >> 48);
        if (disk) {
                ADD(&core->ns[WAIT_DISK], delta);
                if (disk == 1)
                        ADD(&core->alone, delta);
        } else if (other) {
                ADD(&core->ns[WAIT_OTHER], delta);
        } else {
                ADD(&core->ns[WAIT_URING], delta);
        }
        if (unsure) {
                ADD(&core->unsure, delta);
                if (unsure == 1)
                        ADD(&core->unsure_alone, delta);
        }
}

/* The core was busy at the last change that we saw, and is idle now: one was missed (an event may be kept from us, or run into another of the
 * same kind). Who slept is known; how much of the time was idle is not, but the kernel's iowait tells. */
inline_ void account_missed(struct core *core, u64 now)
{
        u64 sleepers = READ(core->sleepers);
        if (!sleepers || !core->last || now <= core->last)
                return;
        ADD(&core->missed[sleepers & 0xffff ? WAIT_DISK : sleepers >> 16 & 0xffff ? WAIT_OTHER : WAIT_URING], now - core->last);
}

/* What `settle` will need of a sleep that begins now, counted as `word`. */
inline_ void remember(struct waiter *slot, struct core *core, u32 word)
{
        slot->other = READ(core->ns[WAIT_OTHER]);
        slot->uring = READ(core->ns[WAIT_URING]);
        slot->clock = READ(core->ns[WAIT_DISK]) + slot->other + slot->uring;
        if ((word & ASLEEP_CLASS) == WAIT_DISK)
                slot->alone = READ(core->alone);
        if (word & ASLEEP_UNSURE)
                slot->unsure_alone = READ(core->unsure_alone);
}

/* Its class was too low: what the core has in lower classes since this sleep began goes up. What an overlapping sleep raised already is
 * left out. */
static __attribute__((noinline)) int raise(struct core *core, struct waiter *slot, u32 real)
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

/* The sleep, or the part of it since `remember`, is over; it was counted as `word`, and was `real`. */
inline_ void settle(struct core *core, struct waiter *slot, u32 word, u32 real, bool sure)
{
        u32 was = word & ASLEEP_CLASS;
        s64 mine = (s64)(clock_of(core) - slot->clock);
        if (real >= WAIT_CLASSES)
                return;
        if (mine > 0)
                slot->ns[real] += (u64)mine;
        if (real < was)
                raise(core, slot, real);
        else if (real == WAIT_OTHER && was == WAIT_DISK)
                ADD(&core->lowered, READ(core->alone) - slot->alone);
        if ((word & ASLEEP_UNSURE) && sure)
                ADD(&core->known, READ(core->unsure_alone) - slot->unsure_alone);
        slot->class = (u8)real;
}

/* ---- sleep and wake ------------------------------------------------------------------------------------------------------------------ */

/* Is this CPU, in this very context, inside the completion of a request or bio? */
inline_ bool completing(struct core *here, u32 tid, u64 now)
{
        return here->done && here->done_tid == tid && now - here->done_at < DONE_NS;
}

/* Not asleep any more; `proof`: the class is told by how it was woken. */
inline_ void lower(struct waiter *slot, u32 word, u64 now, struct core **at)
{
        struct core *core = core_of(slot->cpu);
        *at = core;
        if (!core)
                return;
        if (READ(core->idle))
                accrue(core, now);
        ADD(&core->sleepers, -SLEEPERS(word));
}

/* The sleep is over: it runs, or its core's run queue has lost it to another. What its waking proved is applied; none seen: as predicted. */
inline_ void finish(struct waiter *slot, u64 now)
{
        struct core *core;
        u32 word = EXCHANGE(&slot->asleep, 0), woken = READ(slot->woken);
        if (!word)
                return;
        lower(slot, word, now, &core);
        if (!(woken & WOKEN))
                count_unmatched();
        if (!core)
                return;
        settle(core, slot, word, woken & WOKEN ? woken & ASLEEP_CLASS : word & ASLEEP_CLASS, woken & WOKEN_SURE);
        if (woken & WOKEN_PROVES) {
                slot->last = (u8)(woken & ASLEEP_CLASS);
                slot->proven = 1;
        }
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

inline_ u32 predict_ring(struct core *core, struct waiter *slot, u32 tid, int number)
{
        slot->ring = 1;
        if (core->ring_tid == tid) {
                slot->ctx = core->ring;
                slot->wanted = core->ring_wanted;
        }
        slot->seeded = !slot->ctx || !settings.storage_traced;
        slot->block = slot->pending_other = 0;
        slot->changed_from = WAIT_URING;
        if (slot->seeded)
                return WAIT_URING;
        struct ring *ring = bpf_map_lookup_elem(&rings, &slot->ctx);
        if (!ring) {
                struct ring fresh = {.sleeper = (u32)number + 1};
                bpf_map_update_elem(&rings, &slot->ctx, &fresh, BPF_NOEXIST);
                return WAIT_URING;
        }
        ring->sleeper = (u32)number + 1;
        slot->block = READ(ring->block);
        slot->pending_other = READ(ring->other);
        return ring_class(slot, ring);
}

inline_ u32 predict(struct core *core, struct waiter *slot, struct task_struct *task, u32 tid)
{
        bool marked = core->mark_tid == tid && core->mark_switches + 1 == task->nvcsw;
        slot->ring = slot->seeded = 0;
        slot->marked = marked;
        if (marked)
                return core->mark_dirty ? WAIT_OTHER : WAIT_DISK;
        return ASLEEP_UNSURE | (slot->proven ? slot->last : WAIT_OTHER);
}

inline_ void fall_asleep(struct core *core, u32 cpu, struct task_struct *task, u32 state, u64 now)
{
        u32 tid = (u32)task->pid, word;
        bool fresh = false;
        int number = find(tid);
        if (number < 0) {
                number = make(tid);
                fresh = true;
        }
        struct waiter *slot = slot_of(number);
        if (number < 0 || !slot)
                return;
        if (fresh || slot->start != task->start_boottime)
                describe(slot, task);
        if (slot->asleep)
                finish(slot, now);
        slot->woken = 0;
        if ((state & TASK_INTERRUPTIBLE) && bpf_core_field_exists(task->io_uring) && task->io_uring)
                word = ASLEEP | predict_ring(core, slot, tid, number);
        else
                word = ASLEEP | predict(core, slot, task, tid);
        slot->cpu = cpu;
        slot->since = now;
        slot->sleeps++;
        slot->switches = task->nvcsw;
        slot->class = word & ASLEEP_CLASS;
        if (cpu < 64)
                slot->cores |= 1ull << cpu;
        remember(slot, core, word);
        ADD(&core->sleepers, SLEEPERS(word));
        EXCHANGE(&slot->asleep, word);
        /* Who was woken before this was written has passed by; it is not asleep any more. */
        if (!(task_state(task) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) && EXCHANGE(&slot->asleep, 0))
                ADD(&core->sleepers, -SLEEPERS(word));
}

inline_ u32 current_flags(void)
{
        struct task_struct *task = (void *)bpf_get_current_task();
        return BPF_CORE_READ(task, flags);
}

/* What a wake-up proves of a wait on a ring. What was pending is known, unless it was submitted before we looked, or is on a file system
 * that may or may not lie on a device. */
inline_ u32 proven_ring(struct waiter *slot, u32 was, bool done, u64 now)
{
        if (was == WAIT_URING && slot->changed_from < WAIT_URING && now - slot->changed_at < WAKE_NS)
                return slot->changed_from; /* what it waited for has just ended, and its waker was on the way */
        if (done && (slot->seeded || slot->pending_other || slot->sleeps <= 1))
                return WAIT_DISK;
        if (slot->seeded && current_flags() & PF_IO_WORKER)
                return WAIT_OTHER; /* one of its io workers has done something for it */
        return was;
}

/* What a wake-up proves of the wait. Sets *sure. */
inline_ u32 proven(struct waiter *slot, u32 word, bool done, u32 waker, u64 now, bool *sure)
{
        u32 was = word & ASLEEP_CLASS;
        *sure = true;
        if (slot->ring)
                return proven_ring(slot, was, done, now);
        if (done)
                return WAIT_DISK;
        if (slot->marked) /* own bio: woken by a worker that ends I/O, or by whoever freed a tag */
                return was;
        if (waker == 0 || !(current_flags() & PF_KTHREAD))
                return WAIT_OTHER; /* a file server, a timer */
        *sure = false;             /* a worker that ends I/O of others, or one of the network */
        return was;
}

/* Somebody wakes it: what that proves is kept until it runs. Until then the core is idle for its sake, as the kernel has it: the count of
 * its run queue falls when it is activated there, or moved away (try_to_wake_up in kernel/sched/core.c). */
inline_ void wake(int number)
{
        struct waiter *slot = slot_of(number);
        u32 word = slot ? READ(slot->asleep) : 0;
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (!slot || !word || !here)
                return;
        u64 now = bpf_ktime_get_ns();
        u32 waker = (u32)bpf_get_current_pid_tgid();
        bool sure, done = completing(here, waker, now);
        u32 real = proven(slot, word, done, waker, now, &sure);
        bool proves = real != WAIT_URING && sure && (done || !slot->ring);
        *(volatile u8 *)&slot->woken = (u8)(WOKEN | (real & ASLEEP_CLASS) | (sure ? WOKEN_SURE : 0) | (proves ? WOKEN_PROVES : 0));
}

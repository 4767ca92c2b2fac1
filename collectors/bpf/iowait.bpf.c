/*
 * The programs of the exact method (../../HACKING.md, "The exact method"): who sleeps in iowait on which core, and why.
 *
 * sched_switch, sched_waking and sched_migrate_task see who sleeps; the block layer's events tell whether a device woke him; io_uring's
 * tell what is pending on his ring (uring.bpf.h). Nothing is printed, sent or allocated; a task that is not in iowait costs a few loads.
 */
#include "state.bpf.h"
#include "uring.bpf.h"
#include "seed.bpf.h"

/* GPL-compatible: the kernel gives tracing helpers to no other. The terms are those of the LICENSE file. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Somebody goes to sleep in iowait, comes back from it, or the core becomes idle or busy. Apart, so that the common case saves no
 * registers. */
seldom_ int on_change(bool from, bool to, struct task_struct *prev, struct task_struct *next)
{
        u32 cpu = bpf_get_smp_processor_id();
        struct core *core = core_of(cpu);
        if (!core)
                return 0;
        /* Only who runs here can begin to sleep here, so idle time with no sleeper is nobody's, and needs no clock (0). At attach sleepers
         * come from elsewhere; then watop_touch starts the clock. */
        u64 now = from || READ(core->sleepers) ? switch_time(core, prev) : 0;
        if (core->idle) {
                if (now && !prev->pid)
                        accrue(core, now);
                core->idle = 0;
        } else if (now && !prev->pid) {
                account_missed(core, now);
        }
        if (to) {
                struct waiter *slot = asleep_of(core, (u32)next->pid);
                if (slot && slot->cpu == cpu)
                        finish(core, slot, now ? now : switch_time(core, prev));
                else if (slot)
                        finish_anywhere(slot, now ? now : switch_time(core, prev));
        }
        if (from) {
                u32 state = task_state(prev); /* now, not as the arguments say: whoever was woken in between is not asleep */
                if (state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE))
                        fall_asleep(core, cpu, prev, state, now);
        }
        if (now && !next->pid && READ(core->sleepers)) {
                /* A waker on another CPU that sees the second has to see the first. */
                if (settings.stores_reorder)
                        EXCHANGE(&core->last, now);
                else
                        *(volatile u64 *)&core->last = now;
                *(volatile u64 *)&core->idle = 1;
        }
        return 0;
}

inline_ int on_switch(bool preempted, struct task_struct *prev, struct task_struct *next)
{
        bool from = BPF_CORE_READ_BITFIELD(prev, in_iowait), to = BPF_CORE_READ_BITFIELD(next, in_iowait);
        if (!from && !to && !((prev->flags | next->flags) & PF_IDLE))
                return 0;
        return on_change(from && !preempted, to, prev, next);
}

SEC("tp_btf/sched_switch")
int watop_switch(u64 *ctx)
{
        return on_switch(ctx[0], (void *)ctx[1], (void *)ctx[2]);
}

/* 5.18 had the state of prev before it, for a while. */
SEC("tp_btf/sched_switch")
int watop_switch2(u64 *ctx)
{
        return on_switch(ctx[0], (void *)ctx[2], (void *)ctx[3]);
}

/* Apart, as above. */
seldom_ int on_waking(struct task_struct *task)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        struct waiter *slot = here ? asleep_of(here, (u32)task->pid) : 0;
        if (slot)
                wake(here, slot);
        return 0;
}

SEC("tp_btf/sched_waking")
int watop_waking(u64 *ctx)
{
        struct task_struct *task = (void *)ctx[0];
        if (!BPF_CORE_READ_BITFIELD(task, in_iowait))
                return 0;
        return on_waking(task);
}

/* It is moved to another core, most often while it is woken: its core waits for it no more. */
SEC("tp_btf/sched_migrate_task")
int watop_migrate(u64 *ctx)
{
        struct task_struct *task = (void *)ctx[0];
        if (!BPF_CORE_READ_BITFIELD(task, in_iowait))
                return 0;
        struct waiter *slot = slot_of(find((u32)task->pid));
        if (slot && slot->asleep && slot->woken)
                finish_anywhere(slot, bpf_ktime_get_ns());
        return 0;
}

/* The thread's structure is about to be freed: its slot too, when watopd has read it. */
SEC("tp_btf/sched_process_free")
int watop_free(u64 *ctx)
{
        struct task_struct *task = (void *)ctx[0];
        u32 tid = (u32)task->pid, number = place_of(tid);
        int found = find(tid);
        struct waiter *slot = slot_of(found);
        struct place *place = bpf_map_lookup_elem(&places, &number);
        if (found < 0 || !slot || !place || slot->start != task->start_boottime)
                return 0;
        place->tid[(u32)found % WAYS] = tid | TID_GONE;
        return 0;
}

/* ---- block layer --------------------------------------------------------------------------------------------------------------------- */

inline_ int mark(u32 dirty)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (!here)
                return 0;
        struct task_struct *task = current_task();
        here->mark_tid = tid_of(task);
        here->mark_dirty = (u16)dirty;
#ifdef WITHOUT_FETCH
        here->mark_switches = (u32)BPF_CORE_READ(task, nvcsw);
#else
        here->mark_switches = (u32)task->nvcsw;
#endif
        return 0;
}

/* The bio is this task's own; also for the requests of other layers that it has to wait for, tags and throttling included. */
SEC("tp_btf/block_bio_queue")
int watop_queue(u64 *ctx)
{
        return mark(0);
}

/* It has dirtied too many pages and is put to sleep for it. */
SEC("tp_btf/balance_dirty_pages")
int watop_dirty(u64 *ctx)
{
        return mark(1);
}

inline_ void complete(struct core *here, u64 what, bool ends)
{
        here->done = what;
        here->done_tid = tid_of(current_task());
        here->done_ends = ends;
        here->done_at = ends ? bpf_jiffies64() : bpf_ktime_get_ns();
}

enum { DRV_IN = 34, DRV_OUT = 35 };

/* A passthrough request: its owner is woken after its end. */
inline_ bool is_passthrough(struct request *request)
{
        u32 operation = request->cmd_flags & 0xff;
        return operation == DRV_IN || operation == DRV_OUT;
}

/* Will block_io_done tell the end of it? Not when no time of the request is taken (its queue's iostats are off and it has no scheduler: the
 * kernel then leaves start_time_ns 0), nor when only a part of it is complete. */
inline_ bool ends(struct request *request, u32 bytes)
{
        return settings.done_traced && request->start_time_ns && bytes >= request->__data_len && !is_passthrough(request);
}

SEC("tp_btf/block_rq_complete")        /* (request, error, bytes) */
int watop_complete(u64 *ctx)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (here)
                complete(here, ctx[0], ends((void *)ctx[0], (u32)ctx[2]));
        return 0;
}

/* Devices without requests: dm, md, zram, pmem. No event tells the end of it, so it counts for DONE_NS in the same task. */
SEC("tp_btf/block_bio_complete")
int watop_bio_complete(u64 *ctx)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (here)
                complete(here, 1, false);
        return 0;
}

/* All whom a request's end wakes have been woken; a passthrough request's owner is just going to be. 6.5. */
SEC("tp_btf/block_io_done")
int watop_done(u64 *ctx)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (!is_passthrough((void *)ctx[0]) && here && here->done == ctx[0])
                here->done = 0;
        return 0;
}

/* ---- at attach ----------------------------------------------------------------------------------------------------------------------- */

/* Run on a CPU at attach, and when nothing was heard of it for long: a core that is idle now counts from now. */
SEC("raw_tp/watop_touch")
int watop_touch(u64 *ctx)
{
        struct core *core = core_of(bpf_get_smp_processor_id());
        if (core && (u32)bpf_get_current_pid_tgid() == 0 && core->sleepers && !core->idle) {
                u64 now = bpf_ktime_get_ns();
                account_missed(core, now);
                core->last = now;
                core->idle = 1;
        }
        return 0;
}

/* (slot, its sleeps): the sleep, which was a guess at attach, is known to be for a block device. Not any more when it has woken
 * meanwhile. */
SEC("raw_tp/watop_prove")
int watop_prove(u64 *ctx)
{
        struct waiter *slot = slot_of((int)ctx[0]);
        struct core *core = slot ? core_of(slot->cpu) : 0;
        u32 word = ASLEEP | ASLEEP_UNSURE | WAIT_OTHER, known = ASLEEP | WAIT_DISK;
        if (!slot || !core || slot->sleeps != ctx[1] || slot->ring || !REPLACE(&slot->asleep, word, known))
                return 0;
        if (READ(core->idle))
                accrue(core, bpf_ktime_get_ns());
        ADD(&core->sleepers, SLEEPERS(known) - SLEEPERS(word));
        settle(core, slot, word, WAIT_DISK, true);
        remember(slot, core, known);
        slot->marked = 1;
        slot->seeded = 0;
        return 0;
}

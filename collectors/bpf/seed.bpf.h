#pragma once
/*
 * Who sleeps already at attach, and whether a ring that is waited on is idle. Included once, by iowait.bpf.c.
 *
 * What was submitted before the attachment was not seen. But all requests of a ring that cannot be on storage are in its lists: armed
 * polls, timeouts, futexes, children, commands of servers; and each task counts the requests it has in flight. As many in the lists as in
 * flight by all tasks that ever submitted to the ring: nothing is left that storage could have, and from now on each submission is seen.
 *
 * The count is tctx->inflight less the references its task keeps in advance (io_uring/io_uring.c, since 5.14). These come 1,024 and more at
 * a time, which a percpu counter takes straight into its sum while its batch is smaller; what another task gave back may be missing in
 * the sum. So it is never too low, and a ring may be left unproved, but not proved wrongly. Ring counters cannot tell that: a multishot
 * request completes more than once.
 */
#include "uring.bpf.h"

enum { SETUP_IOPOLL = 1, SETUP_SQPOLL = 2, SETUP_DEFER_TASKRUN = 0x2000 };
enum { ENTER_REGISTERED_RING = 16, SYSCALL_URING_ENTER = 426, REGISTERED_RINGS = 16 };
/* Looked at of one ring at most: list heads and requests, timeouts, tasks, sleepers. */
enum { NODES_MOST = 1 << 16, TIMEOUTS_MOST = 64, TASKS_MOST = 16, SLEEPERS_MOST = 32 };

#define OFFSET_OF(type, field) ((u64)__builtin_preserve_field_info(((type *)0)->field, 0 /* byte offset */))

/* Arguments of io_uring_enter, as its thread's saved registers have them. */
struct entered { u64 fd, wanted, flags; };

inline_ bool entered(struct task_struct *task, struct entered *out)
{
        struct pt_regs___x86 *x86 = (void *)bpf_task_pt_regs(task);
        struct pt_regs___arm64 *arm64 = (void *)x86;
        if (bpf_core_field_exists(x86->orig_ax)) {
                *out = (struct entered){BPF_CORE_READ(x86, di), BPF_CORE_READ(x86, dx), BPF_CORE_READ(x86, r10)};
                return BPF_CORE_READ(x86, orig_ax) == SYSCALL_URING_ENTER;
        }
        if (!bpf_core_field_exists(arm64->syscallno))
                return false;
        *out = (struct entered){BPF_CORE_READ(arm64, regs[0]), BPF_CORE_READ(arm64, regs[2]), BPF_CORE_READ(arm64, regs[3])};
        return BPF_CORE_READ(arm64, syscallno) == SYSCALL_URING_ENTER;
}

inline_ struct io_ring_ctx *ring_entered(struct task_struct *task, const struct entered *arguments)
{
        struct file *file = 0;
        if (!(arguments->flags & ENTER_REGISTERED_RING)) {
                file = file_of_task(task, (u32)arguments->fd);
        } else if (arguments->fd < REGISTERED_RINGS) {
                struct io_uring_task *own = BPF_CORE_READ(task, io_uring);
                u64 table = (u64)own + OFFSET_OF(struct io_uring_task, registered_rings);
                bpf_probe_read_kernel(&file, sizeof file, (void *)(table + arguments->fd * sizeof file));
        }
        return file ? BPF_CORE_READ(file, private_data) : 0;
}

/* Does the task sleep in this ring's queue? That proves the ring, wherever the address came from. */
static __attribute__((noinline)) int sleeps_on(struct io_ring_ctx *ring, u64 task)
{
        u64 head = (u64)ring + OFFSET_OF(struct io_ring_ctx, cq_wait) + OFFSET_OF(struct wait_queue_head, head), node = head;
        if (BPF_CORE_READ(ring, flags) & SETUP_DEFER_TASKRUN)
                return (u64)BPF_CORE_READ(ring, submitter_task) == task;
        for (u32 i = 0; i < SLEEPERS_MOST; i++) {
                node = (u64)BPF_CORE_READ((struct list_head *)node, next);
                struct wait_queue_entry *entry = (void *)(node - OFFSET_OF(struct wait_queue_entry, entry));
                if (node == head)
                        return 0;
                if ((u64)BPF_CORE_READ(entry, private) == task)
                        return 1;
        }
        return 0;
}

/* By all tasks that ever submitted to the ring, wherever they have them. -1 not known. */
static __attribute__((noinline)) s64 in_flight(struct io_ring_ctx *ring)
{
        u64 head = (u64)ring + OFFSET_OF(struct io_ring_ctx, tctx_list), node = head;
        s64 sum = 0;
        for (u32 i = 0; i < TASKS_MOST; i++) {
                node = (u64)BPF_CORE_READ((struct list_head *)node, next);
                if (node == head)
                        return sum;
                struct io_tctx_node *user = (void *)(node - OFFSET_OF(struct io_tctx_node, ctx_node));
                struct io_uring_task *own = BPF_CORE_READ(user, task, io_uring);
                if (!own)
                        return -1;
                sum += BPF_CORE_READ(own, inflight.count) - BPF_CORE_READ(own, cached_refs);
        }
        return -1;
}

/* A walk over lists of requests. */
struct walk {
        u64 node, head;         /* where it is; the next list */
        u32 heads, apart;       /* lists left, bytes from one to the next */
        s64 count;              /* -1: storage is among them */
        bool whole;
};

/* Kept in a map: of what comes from there the verifier follows no values, so that one round stands for all. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct walk);
} walks SEC(".maps");

static long walk_on(u32 step, void *context)
{
        u32 zero = 0;
        struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
        if (!walk)
                return 1;
        if (!walk->node) {
                if (walk->heads == 0)
                        return walk->whole = 1;
                bpf_probe_read_kernel(&walk->node, sizeof walk->node, (void *)walk->head);
                walk->heads--;
                walk->head += walk->apart;
                return 0;
        }
        struct hlist_node *node = (void *)walk->node;
        struct io_kiocb *request = (void *)((u64)node - OFFSET_OF(struct io_kiocb, hash_node));
        u32 opcode = BPF_CORE_READ(request, opcode);
        bool path = opcode < 64 && BIT(opcode) & PATH_OPERATIONS, file = opcode < 64 && BIT(opcode) & FILE_OPERATIONS;
        if (path || (file && kind_of_file(BPF_CORE_READ(request, file), opcode) != KIND_NONE)) {
                walk->count = -1;
                return walk->whole = 1;
        }
        walk->count++;
        walk->node = (u64)BPF_CORE_READ(node, next);
        return 0;
}

/* Requests in `heads` lists, which lie so many bytes apart. -1 too many, or storage. */
static __attribute__((noinline)) int count_nodes(u64 head, u32 heads, u32 apart)
{
        u32 zero = 0;
        struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
        if (!walk)
                return -1;
        *walk = (struct walk){.head = head, .heads = heads, .apart = apart};
        bpf_loop(NODES_MOST, walk_on, 0, 0);
        return walk->whole ? (int)walk->count : -1;
}

static __attribute__((noinline)) int count_timeouts(u64 head)
{
        u64 node = head;
        for (int i = 0; i < TIMEOUTS_MOST; i++) {
                node = (u64)BPF_CORE_READ((struct list_head *)node, next);
                if (node == head)
                        return i;
        }
        return -1;
}

inline_ bool add(s64 *sum, int more)
{
        *sum += more;
        return more >= 0;
}

/* Requests that wait for what is no storage. -1 too many. */
static __attribute__((noinline)) s64 in_lists(struct io_ring_ctx *ring)
{
        s64 sum = 0;
        u64 at = (u64)ring;
        u32 apart = bpf_core_type_size(struct io_hash_bucket);
        u64 first = (u64)BPF_CORE_READ(ring, cancel_table.hbs) + OFFSET_OF(struct io_hash_bucket, list);
        if (!add(&sum, count_nodes(first, 1u << (BPF_CORE_READ(ring, cancel_table.hash_bits) & 15), apart)))
                return -1;
        if (bpf_core_field_exists(ring->cancel_table_locked)) {
                first = (u64)BPF_CORE_READ(ring, cancel_table_locked.hbs) + OFFSET_OF(struct io_hash_bucket, list);
                if (!add(&sum, count_nodes(first, 1u << (BPF_CORE_READ(ring, cancel_table_locked.hash_bits) & 15), apart)))
                        return -1;
        }
        if (!add(&sum, count_timeouts(at + OFFSET_OF(struct io_ring_ctx, timeout_list))) ||
                        !add(&sum, count_timeouts(at + OFFSET_OF(struct io_ring_ctx, ltimeout_list))))
                return -1;
        if (bpf_core_field_exists(ring->waitid_list) && !add(&sum, count_nodes(at + OFFSET_OF(struct io_ring_ctx, waitid_list), 1, 0)))
                return -1;
        if (bpf_core_field_exists(ring->futex_list) && !add(&sum, count_nodes(at + OFFSET_OF(struct io_ring_ctx, futex_list), 1, 0)))
                return -1;
        if (bpf_core_field_exists(ring->cancelable_uring_cmd) &&
                        !add(&sum, count_nodes(at + OFFSET_OF(struct io_ring_ctx, cancelable_uring_cmd), 1, 0)))
                return -1;
        return sum;
}

/* All that is in flight is in the lists, or is storage that we know of, and nothing was submitted in between. */
seldom_ int is_known(struct io_ring_ctx *ring, struct ring *known)
{
        if (!known)
                return 0;
        u32 head = BPF_CORE_READ(ring, cached_sq_head);
        s64 all = in_flight(ring), listed = all >= 0 ? in_lists(ring) : -1;
        return !(BPF_CORE_READ(ring, flags) & (SETUP_IOPOLL | SETUP_SQPOLL)) && listed >= 0 &&
                listed + (s64)READ(known->block) + (s64)READ(known->other) == all && BPF_CORE_READ(ring, cached_sq_head) == head;
}

/* Look whether all of the ring is known, now that somebody waits on it. In vain so often, less and less: some rings have long lists. */
seldom_ int learn(struct io_ring_ctx *ring, struct ring *known)
{
        if (!known)
                return 0;
        u32 looks = ++known->looks;
        if (!(looks & (looks - 1)) && is_known(ring, known))
                known->unknown = 0;
        return 0;
}

SEC("tp_btf/io_uring_cqring_wait")     /* where rings can be counted: 6.0 */
int watop_uring_wait_counted(u64 *ctx)
{
        struct ring *ring = ring_of(ctx[0]);
        if (ring && ring->unknown)
                learn((void *)ctx[0], ring);
        waits_on(ctx[0], ctx[1]);
        return 0;
}

/* It sleeps on a ring of which all is known: from now on its submissions decide. */
inline_ bool knows_ring(struct waiter *slot, u32 number, struct task_struct *task)
{
        struct entered arguments;
        if (!settings.storage_traced || !entered(task, &arguments))
                return false;
        struct io_ring_ctx *ring = ring_entered(task, &arguments);
        if (!ring || !sleeps_on(ring, (u64)task))
                return false;
        u64 ctx = (u64)ring;
        struct ring *known = ring_of(ctx);
        if (!known || (known->unknown && !is_known(ring, known)))
                return false;
        known->unknown = 0;
        slot->ctx = ctx;
        slot->wanted = (u32)arguments.wanted;
        slot->changed_from = WAIT_URING;
        return join(known, ctx, number + 1) && !READ(known->block) && !READ(known->other);
}

inline_ u32 cpu_of(struct task_struct *task)
{
        if (bpf_core_field_exists(task->thread_info.cpu))
                return task->thread_info.cpu;
        return ((struct task_struct___cpu *)task)->cpu;
}

inline_ int seed(struct task_struct *task, bool rings_counted)
{
        if (!task || !BPF_CORE_READ_BITFIELD(task, in_iowait))
                return 0;
        u32 state = task_state(task), tid = (u32)task->pid, cpu = cpu_of(task), word;
        u64 switches = task->nvcsw;
        struct core *core = core_of(cpu);
        if (!core || !(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) || find(tid) >= 0)
                return 0;
        int number = make(tid);
        struct waiter *slot = slot_of(number);
        if (number < 0 || !slot)
                return 0;
        describe(slot, task, cpu);
        slot->ring = (state & TASK_INTERRUPTIBLE) && bpf_core_field_exists(task->io_uring) && task->io_uring;
        word = ASLEEP | (slot->ring ? WAIT_URING : WAIT_OTHER | ASLEEP_UNSURE);
        slot->seeded = !(slot->ring && rings_counted && knows_ring(slot, (u32)number, task));
        slot->class = word & ASLEEP_CLASS;
        slot->sleeps = 1;
        slot->switches = (u32)switches;
        remember(slot, core, word);
        ADD(&core->sleepers, SLEEPERS(word));
        EXCHANGE(&slot->asleep, word);
        if (slot->ring && slot->ctx)
                look_again(slot, slot->ctx);
        if (!BPF_CORE_READ_BITFIELD(task, in_iowait) || task_state(task) != state || *(volatile unsigned long *)&task->nvcsw != switches)
                if ((word = EXCHANGE(&slot->asleep, 0)))
                        ADD(&core->sleepers, -SLEEPERS(word));
        return 0;
}

/* Who sleeps already. The other programs run: whoever they have seen is theirs, and whoever wakes while we look is left out. */
SEC("iter/task")
int watop_seed(struct bpf_iter__task *ctx)
{
        return seed(ctx->task, false);
}

/* The same where rings can be counted: 6.0. */
SEC("iter/task")
int watop_seed_rings(struct bpf_iter__task *ctx)
{
        return seed(ctx->task, true);
}

#pragma once
/*
 * What is pending on rings: storage operations by kind of file, so that a thread that waits on a ring with none is parked, and one that
 * waits for a disk is never called so. Included once, by iowait.bpf.c.
 *
 * An operation is entered when it is submitted and taken out at its completion, by the address of its request. A request whose address
 * comes again without a completion (its completion was suppressed) leaves its old entry to be replaced: the kernel re-uses the last freed
 * first.
 */
#include "state.bpf.h"

/* Operations that may be on a device: those on a file, and those on a path. Numbers are ABI (linux/io_uring.h). */
#define BIT(n) (1ull << (n))
#define FILE_OPERATIONS (BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(8) | BIT(17) | BIT(19) | BIT(22) | BIT(23) | BIT(24) | BIT(30) | \
        BIT(41) | BIT(43) | BIT(46) | BIT(55) | BIT(60) | BIT(61))
#define PATH_OPERATIONS (BIT(18) | BIT(21) | BIT(25) | BIT(28) | BIT(35) | BIT(36) | BIT(37) | BIT(38) | BIT(39) | BIT(42) | BIT(44))

enum { OPERATION_URING_CMD = 46, REQUEST_FIXED_FILE = 1, REQUEST_LINK = 4, REQUEST_HARDLINK = 8 };
enum { S_IFMT = 0170000, S_IFREG = 0100000, S_IFBLK = 0060000, S_IFCHR = 0020000, S_IFDIR = 0040000, FS_REQUIRES_DEV = 1 };
enum {
        FUSE_MAGIC = 0x65735546,
        OVERLAY_MAGIC = 0x794c7630,
        ANON_MAGIC = 0x09041934,
        PROC_MAGIC = 0x9fa0,
        TRACE_MAGIC = 0x74726163,
        DEBUG_MAGIC = 0x64626720,
};

inline_ u32 kind_of_fs(struct super_block *sb)
{
        u32 magic = (u32)BPF_CORE_READ(sb, s_magic);
        switch (magic) {
        case ANON_MAGIC: case PROC_MAGIC: case TRACE_MAGIC: case DEBUG_MAGIC: /* eventfd and kin; files one waits on for news */
                return KIND_NONE;
        case FUSE_MAGIC:
                return KIND_OTHER;
        }
        return BPF_CORE_READ(sb, s_type, fs_flags) & FS_REQUIRES_DEV ? KIND_BLOCK : KIND_OTHER;
}

inline_ struct file *below_overlay(struct file *file)
{
        struct ovl_file *overlay = BPF_CORE_READ(file, private_data);
        if (!settings.overlay_has_struct)
                return (struct file *)overlay;
        return overlay && bpf_core_field_exists(overlay->realfile) ? BPF_CORE_READ(overlay, realfile) : 0;
}

inline_ u32 kind_of_file(struct file *file, u32 opcode)
{
        if (!file)
                return KIND_OTHER;
        struct inode *inode = BPF_CORE_READ(file, f_inode);
        u32 type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
        if (type == S_IFBLK)
                return KIND_BLOCK;
        /* A command to a device's own file is storage if it can be polled for, as NVMe's can; servers of ublk and FUSE park theirs. */
        if (type == S_IFCHR && opcode == OPERATION_URING_CMD && bpf_core_field_exists(((struct file_operations *)0)->uring_cmd_iopoll))
                return BPF_CORE_READ(file, f_op, uring_cmd_iopoll) ? KIND_BLOCK : KIND_NONE;
        if (type != S_IFREG && type != S_IFDIR)
                return KIND_NONE;
        struct super_block *sb = BPF_CORE_READ(inode, i_sb);
        if ((u32)BPF_CORE_READ(sb, s_magic) == OVERLAY_MAGIC) {
                file = below_overlay(file);
                if (!file)
                        return KIND_OTHER;
                sb = BPF_CORE_READ(file, f_inode, i_sb);
        }
        return kind_of_fs(sb);
}

inline_ struct file *file_of_task(struct task_struct *task, u32 fd)
{
        struct fdtable *table = BPF_CORE_READ(task, files, fdt);
        struct file **files, *file = 0;
        if (!table || fd >= BPF_CORE_READ(table, max_fds))
                return 0;
        files = BPF_CORE_READ(table, fd);
        bpf_probe_read_kernel(&file, sizeof file, &files[fd]);
        return file;
}

inline_ struct file *file_of_fd(u32 fd)
{
        return file_of_task((void *)bpf_get_current_task(), fd);
}

/* The ring's own table of files, in the layouts of 6.13 and of 5.13. */
inline_ struct file *fixed_file(struct io_ring_ctx *ring, u32 fd)
{
        unsigned long pointer = 0;
        if (bpf_core_field_exists(ring->file_table.data)) {
                struct io_rsrc_node **nodes = BPF_CORE_READ(ring, file_table.data.nodes), *node = 0;
                if (fd >= BPF_CORE_READ(ring, file_table.data.nr))
                        return 0;
                bpf_probe_read_kernel(&node, sizeof node, &nodes[fd]);
                if (node)
                        pointer = BPF_CORE_READ(node, file_ptr);
        } else {
                struct io_ring_ctx___files *old = (void *)ring;
                if (!bpf_core_field_exists(old->file_table.files) || !bpf_core_field_exists(old->nr_user_files))
                        return 0;
                if (fd >= BPF_CORE_READ(old, nr_user_files))
                        return 0;
                struct io_fixed_file *files = BPF_CORE_READ(old, file_table.files);
                bpf_probe_read_kernel(&pointer, sizeof pointer, &files[fd]);
        }
        return (struct file *)(pointer & ~7ul);
}

inline_ u32 kind_of_cwd(void)
{
        struct task_struct *task = (void *)bpf_get_current_task();
        return kind_of_fs(BPF_CORE_READ(task, fs, pwd.dentry, d_sb));
}

inline_ u32 kind_of_operation(struct io_kiocb *request, struct io_ring_ctx *ring, u32 opcode)
{
        if (opcode < 64 && PATH_OPERATIONS & BIT(opcode))
                return kind_of_cwd();
        if (opcode >= 64 || !(FILE_OPERATIONS & BIT(opcode)))
                return KIND_NONE;
        if (!bpf_core_field_exists(request->cqe.fd)) /* before 5.19 the file is there */
                return kind_of_file(BPF_CORE_READ(request, file), opcode);
        u32 fd = (u32)BPF_CORE_READ(request, cqe.fd);
        if ((u32)BPF_CORE_READ(request, flags) & REQUEST_FIXED_FILE)
                return kind_of_file(fixed_file(ring, fd), opcode);
        return kind_of_file(file_of_fd(fd), opcode);
}

/* ---- counts of a ring ---------------------------------------------------------------------------------------------------------------- */

/* What is pending on its ring is not what this sleeper was taken for: it waits for something else from now on. */
seldom_ int reclass(struct ring *ring, struct waiter *slot, u64 ctx)
{
        if (!ring || !slot || slot->ctx != ctx || !slot->ring)
                return 0;
        u32 word = READ(slot->asleep), class = ring_class(slot, ring), new_word = ASLEEP | class;
        struct core *core = core_of(slot->cpu);
        if (!word || !core || (word & ASLEEP_CLASS) == class || class >= WAIT_CLASSES)
                return 0;
        /* What it waits for has ended: whoever wants one completion is being woken now, however long his waker takes. */
        if (class > (word & ASLEEP_CLASS) && slot->wanted <= 1)
                return 0;
        if (!REPLACE(&slot->asleep, word, new_word))
                return 0;
        u64 now = bpf_ktime_get_ns();
        if (READ(core->idle))
                accrue(core, now);
        ADD(&core->sleepers, SLEEPERS(new_word) - SLEEPERS(word));
        slot->changed_from = word & ASLEEP_CLASS;
        slot->changed_at = now;
        settle(core, slot, word, word & ASLEEP_CLASS, true);
        remember(slot, core, new_word);
        slot->class = (u8)class;
        slot->block = READ(ring->block);
        slot->pending_other = READ(ring->other);
        return 0;
}

/* What is pending changed between none and some: for all who sleep on the ring. */
seldom_ int reclass_all(struct ring *ring, u64 ctx)
{
        if (!ring)
                return 0;
        for (u32 i = 0; i < RING_SLEEPERS; i++) {
                u32 sleeper = READ(ring->sleeper[i]);
                struct waiter *slot = sleeper ? slot_of((int)sleeper - 1) : 0;
                if (slot)
                        reclass(ring, slot, ctx);
        }
        return 0;
}

seldom_ int look_again(struct waiter *slot, u64 ctx)
{
        struct ring *ring = bpf_map_lookup_elem(&rings, &ctx);
        if (ring && slot)
                reclass(ring, slot, ctx);
        return 0;
}

/* The ring's entry, made if there is none. A ring met in use is not known: what was pending when we came, or when its entry was lost,
 * was not seen. Without the lists that count it out (`learn`) the first look has to do. Full: whoever waits on it is as unknown, and it
 * is counted. */
seldom_ struct ring *ring_of(u64 ctx)
{
        struct ring *ring = bpf_map_lookup_elem(&rings, &ctx);
        if (ring)
                return ring;
        struct ring fresh = {.unknown = settings.rings_counted, .seen = bpf_ktime_get_ns()};
        struct tally *counts = tally();
        if (bpf_map_update_elem(&rings, &ctx, &fresh, BPF_NOEXIST) == 0 && counts)
                ADD(&counts->rings, 1);
        return bpf_map_lookup_elem(&rings, &ctx);
}

inline_ void pend(u64 ctx, u32 kind)
{
        struct ring *ring = ring_of(ctx);
        if (!ring) {
                count_overflow();
                return;
        }
        u32 *count = kind == KIND_BLOCK ? &ring->block : &ring->other;
        bool first = READ(*count) == 0;
        ADD(count, 1);
        if (first)
                reclass_all(ring, ctx);
}

inline_ void unpend(u64 ctx, u32 kind)
{
        struct ring *ring = bpf_map_lookup_elem(&rings, &ctx);
        if (!ring)
                return;
        u32 *count = kind == KIND_BLOCK ? &ring->block : &ring->other;
        if ((s32)READ(*count) <= 0)
                return;
        ADD(count, -1);
        if (READ(*count) == 0)
                reclass_all(ring, ctx);
}

/* An operation of this kind is on the ring from now on, under this key. */
static __attribute__((noinline)) int enter(u64 key, u64 ctx, u32 kind, bool shared)
{
        struct operation *old = bpf_map_lookup_elem(&operations, &key);
        if (old && shared && kind && old->kind == kind) {
                old->count++;
                pend(ctx, kind);
                return 0;
        }
        if (old && !shared) {
                if (!old->waiting)
                        unpend(old->ctx, old->kind);
                if (!kind)
                        bpf_map_delete_elem(&operations, &key);
        }
        if (!kind)
                return 0;
        struct operation operation = {.ctx = ctx, .kind = kind, .count = 1};
        if (bpf_map_update_elem(&operations, &key, &operation, BPF_ANY) != 0) {
                count_overflow();
                return 0;
        }
        pend(ctx, kind);
        return 0;
}

static __attribute__((noinline)) int leave(u64 key)
{
        struct operation *operation = bpf_map_lookup_elem(&operations, &key);
        if (!operation)
                return 0;
        if (!operation->waiting)
                unpend(operation->ctx, operation->kind);
        if (operation->count > 1)
                operation->count--;
        else
                bpf_map_delete_elem(&operations, &key);
        return 0;
}

/* ---- events -------------------------------------------------------------------------------------------------------------------------- */

inline_ int submitted(struct io_kiocb *request)
{
        struct io_ring_ctx *ring = BPF_CORE_READ(request, ctx);
        u32 opcode = BPF_CORE_READ(request, opcode);
        return enter((u64)request, (u64)ring, kind_of_operation(request, ring, opcode), false);
}

SEC("tp_btf/io_uring_submit_req")      /* 6.4 */
int watop_submit(u64 *ctx)
{
        return submitted((void *)ctx[0]);
}

SEC("tp_btf/io_uring_submit_sqe")      /* 6.0: (request, ...) */
int watop_submit_6_0(u64 *ctx)
{
        return submitted((void *)ctx[0]);
}

/* Where completions do not name the request, operations are told apart by user_data; several may have the same. */
inline_ u64 shared_key(u64 ring, u64 user_data)
{
        return ring * 0x9e3779b97f4a7c15ull ^ user_data;
}

SEC("tp_btf/io_uring_submit_sqe")      /* about 5.13 to 5.19: (ring, request, ...) */
int watop_submit_5_15(u64 *ctx)
{
        struct io_kiocb___5_15 *request = (void *)ctx[1];
        if (settings.complete_has_request || !bpf_core_field_exists(request->user_data))
                return submitted((void *)request);
        u32 kind = kind_of_operation((void *)request, (void *)ctx[0], BPF_CORE_READ((struct io_kiocb *)request, opcode));
        return enter(shared_key(ctx[0], BPF_CORE_READ(request, user_data)), ctx[0], kind, true);
}

/* Before: (ring, opcode, user_data, ...), no request: the kind of file is not known, so the wake-up has to tell. */

SEC("tp_btf/io_uring_submit_sqe")
int watop_submit_5_8(u64 *ctx)
{
        u32 opcode = (u8)ctx[1];
        bool storage = opcode < 64 && (FILE_OPERATIONS | PATH_OPERATIONS) & BIT(opcode);
        return enter(shared_key(ctx[0], ctx[2]), ctx[0], storage ? KIND_OTHER : KIND_NONE, true);
}

/* It stands behind another request of its chain: while that is no storage, or waits itself, it is on no device. */
inline_ int linked(u64 key, u64 before)
{
        struct operation *operation = bpf_map_lookup_elem(&operations, &key), *first = bpf_map_lookup_elem(&operations, &before);
        if (!operation || operation->waiting || (first && !first->waiting))
                return 0;
        operation->waiting = 1;
        unpend(operation->ctx, operation->kind);
        return 0;
}

SEC("tp_btf/io_uring_link")            /* 6.0: (request, the one before) */
int watop_link(u64 *ctx)
{
        return linked(ctx[0], ctx[1]);
}

SEC("tp_btf/io_uring_link")            /* (ring, request, the one before) */
int watop_link_5_15(u64 *ctx)
{
        return linked(ctx[1], ctx[2]);
}

SEC("tp_btf/io_uring_complete")        /* (ring, request, ...) */
int watop_uring_done(u64 *ctx)
{
        struct io_kiocb *request = (void *)ctx[1];
        if (!request)
                return 0;
        if ((u32)BPF_CORE_READ(request, flags) & (REQUEST_LINK | REQUEST_HARDLINK)) {
                u64 next = (u64)BPF_CORE_READ(request, link);
                struct operation *operation = bpf_map_lookup_elem(&operations, &next);
                if (operation && operation->waiting) {
                        operation->waiting = 0;
                        pend(operation->ctx, operation->kind);
                }
        }
        return leave((u64)request);
}

SEC("tp_btf/io_uring_complete")        /* before 5.17: (ring, user_data, ...) */
int watop_uring_done_5_8(u64 *ctx)
{
        return leave(shared_key(ctx[0], ctx[1]));
}

/* Which ring the thread is about to wait on. */
inline_ void waits_on(u64 ctx, u64 wanted)
{
        struct core *here = core_of(bpf_get_smp_processor_id());
        if (here) {
                here->ring = ctx;
                here->ring_wanted = (u32)wanted;
                here->ring_tid = tid_of(current_task());
        }
}

SEC("tp_btf/io_uring_cqring_wait")
int watop_uring_wait(u64 *ctx)
{
        ring_of(ctx[0]);
        waits_on(ctx[0], ctx[1]);
        return 0;
}

/* A new ring, of which each submission will be seen. Its address may have belonged to one that is gone. */
SEC("tp_btf/io_uring_create")          /* (fd, ring, ...) */
int watop_uring_create(u64 *ctx)
{
        u64 ring = ctx[1];
        struct ring fresh = {.seen = bpf_ktime_get_ns()};
        struct tally *counts = tally();
        if (bpf_map_delete_elem(&rings, &ring) == 0 && counts)
                ADD(&counts->rings, -1);
        if (bpf_map_update_elem(&rings, &ring, &fresh, BPF_NOEXIST) == 0 && counts)
                ADD(&counts->rings, 1);
        return 0;
}

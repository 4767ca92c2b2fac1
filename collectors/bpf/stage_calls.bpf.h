#pragma once
/*
 * Calls that wait until data is safe, from entry to exit, and fsyncs on io_uring from submission to completion. Included once, by
 * stages.bpf.c.
 *
 * All system calls of the machine pass here while that is asked for, so the number is looked at first, and of writes the file's flags. What
 * a call is about is read at its entry: at its exit the file may be closed. Calls of 32-bit programs on a 64-bit kernel are left out.
 */
#include "stage_state.bpf.h"

/* ABI: linux/fcntl.h, linux/mman.h, linux/fs.h, linux/io_uring.h, linux/magic.h */
enum { O_DSYNC_FLAG = 010000, MS_SYNC_FLAG = 4, RWF_DSYNC_FLAG = 2, RWF_SYNC_FLAG = 4, RING_OP_FSYNC = 3 };
enum { FILE_TYPE = 0170000, FILE_REGULAR = 0100000, FILE_BLOCK = 0060000, OVERLAY_SUPER = 0x794c7630 };
enum { X86_COMPAT = 2, ARM64_COMPAT_BIT = 22 };

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE); /* watopd empties it before it attaches: calls that were under way left their entries */
        __uint(max_entries, CALL_BUCKETS);
        __type(key, u32);
        __type(value, struct call_bucket);
} calls SEC(".maps");

/* The oldest are given up: a request that succeeds in silence (IOSQE_CQE_SKIP_SUCCESS) has no end. */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, RING_CALLS);
        __type(key, u64);
        __type(value, struct ring_call);
} ring_calls SEC(".maps");

enum call_kind { CALL_NONE, CALL_OF_FILE, CALL_OF_MEMORY, CALL_OF_ALL, CALL_WRITE, CALL_WRITE_FLAGS };

struct call_type { u32 call, kind; };

/* What a system call's number stands for. */
inline_ struct call_type type_of(u64 number)
{
        if (settings.arm64) {
                switch (number) {
                case 64: case 66: case 68: case 70: return (struct call_type){SYNC_WRITE, CALL_WRITE};
                case 287: return (struct call_type){SYNC_WRITE, CALL_WRITE_FLAGS};
                case 82: return (struct call_type){SYNC_FSYNC, CALL_OF_FILE};
                case 83: return (struct call_type){SYNC_FDATASYNC, CALL_OF_FILE};
                case 84: return (struct call_type){SYNC_RANGE, CALL_OF_FILE};
                case 267: return (struct call_type){SYNC_ALL, CALL_OF_FILE};
                case 81: return (struct call_type){SYNC_ALL, CALL_OF_ALL};
                case 227: return (struct call_type){SYNC_MSYNC, CALL_OF_MEMORY};
                }
        } else {
                switch (number) {
                case 1: case 18: case 20: case 296: return (struct call_type){SYNC_WRITE, CALL_WRITE};
                case 328: return (struct call_type){SYNC_WRITE, CALL_WRITE_FLAGS};
                case 74: return (struct call_type){SYNC_FSYNC, CALL_OF_FILE};
                case 75: return (struct call_type){SYNC_FDATASYNC, CALL_OF_FILE};
                case 277: return (struct call_type){SYNC_RANGE, CALL_OF_FILE};
                case 306: return (struct call_type){SYNC_ALL, CALL_OF_FILE};
                case 162: return (struct call_type){SYNC_ALL, CALL_OF_ALL};
                case 26: return (struct call_type){SYNC_MSYNC, CALL_OF_MEMORY};
                }
        }
        return (struct call_type){0, CALL_NONE};
}

/* Argument 0, 1, 2 or 5 of a system call. */
inline_ u64 call_argument(void *registers, u32 index)
{
        struct pt_regs___x86_call *x86 = registers;
        struct pt_regs___arm64_call *arm64 = registers;
        if (bpf_core_field_exists(x86->orig_ax))
                return index == 0 ? x86->di : index == 1 ? x86->si : index == 2 ? x86->dx : x86->r9;
        if (!bpf_core_field_exists(arm64->syscallno))
                return 0;
        return index == 0 ? arm64->regs[0] : index == 1 ? arm64->regs[1] : index == 2 ? arm64->regs[2] : arm64->regs[5];
}

inline_ u64 call_number(void *registers)
{
        struct pt_regs___x86_call *x86 = registers;
        struct pt_regs___arm64_call *arm64 = registers;
        if (bpf_core_field_exists(x86->orig_ax))
                return x86->orig_ax;
        return bpf_core_field_exists(arm64->syscallno) ? (u32)arm64->syscallno : 0;
}

inline_ bool is_compat(struct task_struct *task)
{
        struct thread_info___x86 *x86 = (void *)task;   /* thread_info is the first of a task */
        struct thread_info___arm64 *arm64 = (void *)task;
        if (bpf_core_field_exists(x86->status))
                return BPF_CORE_READ(x86, status) & X86_COMPAT;
        return settings.arm64 && BPF_CORE_READ(arm64, flags) >> ARM64_COMPAT_BIT & 1;
}

/* ---- files --------------------------------------------------------------------------------------------------------------------------- */

inline_ struct file___call *opened(struct task_struct *task, u32 fd)
{
        struct fdtable *table = BPF_CORE_READ(task, files, fdt);
        struct file **files, *file = 0;
        if (!table || fd >= BPF_CORE_READ(table, max_fds))
                return 0;
        files = BPF_CORE_READ(table, fd);
        bpf_probe_read_kernel(&file, sizeof file, &files[fd]);
        return (void *)file;
}

inline_ struct file___call *real_file(struct file___call *file)
{
        struct ovl_file___call *overlay = BPF_CORE_READ(file, private_data);
        if (!settings.overlay_has_struct)
                return (void *)overlay;
        return overlay && bpf_core_field_exists(overlay->realfile) ? BPF_CORE_READ(overlay, realfile) : 0;
}

#define BYTES_BEFORE(type, field) __builtin_preserve_field_info(((type *)0)->field, 0 /* byte offset */)

/* The whole disk under a file: its own, if it is a block device, or its file system's. */
inline_ u32 disk_of(struct file___call *file, struct inode___call *inode, struct super_block___call *super)
{
        struct block_device *device = 0;
        u32 type = BPF_CORE_READ(inode, i_mode) & FILE_TYPE;
        if (type == FILE_BLOCK) {
                struct inode___call *host = BPF_CORE_READ(file, f_mapping, host);
                if (host && bpf_core_type_exists(struct bdev_inode))
                        device = (void *)((u64)host - BYTES_BEFORE(struct bdev_inode, vfs_inode));
        } else {
                if ((u32)BPF_CORE_READ(super, s_magic) == OVERLAY_SUPER) {
                        file = type == FILE_REGULAR ? real_file(file) : 0; /* a folder has other private data */
                        super = file ? BPF_CORE_READ(file, f_inode, i_sb) : 0;
                }
                device = super ? BPF_CORE_READ(super, s_bdev) : 0;
        }
        struct gendisk *disk = device ? BPF_CORE_READ(device, bd_disk) : 0;
        return disk ? (u32)BPF_CORE_READ(disk, major) << 20 | (u32)BPF_CORE_READ(disk, first_minor) : 0;
}

/* Device, disk, number and name of a file: read at once, for at its call's end it may be closed. */
inline_ void describe(struct file___call *file, u32 *device, u32 *disk, u64 *inode_number, char *name)
{
        struct inode___call *inode = BPF_CORE_READ(file, f_inode);
        struct super_block___call *super = BPF_CORE_READ(inode, i_sb);
        *device = BPF_CORE_READ(super, s_dev);
        *inode_number = BPF_CORE_READ(inode, i_ino);
        *disk = disk_of(file, inode, super);
        bpf_probe_read_kernel_str(name, RECORD_FILE, BPF_CORE_READ(file, f_path.dentry, d_name.name));
}

/* ---- system calls -------------------------------------------------------------------------------------------------------------------- */

inline_ struct call *call_of(u32 tid, u32 wanted)
{
        u32 number = tid % CALL_BUCKETS;
        struct call_bucket *bucket = bpf_map_lookup_elem(&calls, &number);
        if (!bucket)
                return 0;
#pragma unroll
        for (u32 way = 0; way < CALL_WAYS; way++)
                if (READ(bucket->way[way].tid) == wanted)
                        return &bucket->way[way];
        return 0;
}

static __attribute__((noinline)) int begin(u32 call, u64 file, u64 bytes)
{
        u64 ids = bpf_get_current_pid_tgid();
        struct call *slot = call_of((u32)ids, (u32)ids);
        for (u32 i = 0; i < 2 && !slot; i++) {
                slot = call_of((u32)ids, 0);
                if (slot && !REPLACE(&slot->tid, 0, (u32)ids))
                        slot = 0;
        }
        if (!slot) {
                ADD(&control.crowded, 1);
                return 0;
        }
        slot->tgid = (u32)(ids >> 32);
        slot->call = call;
        slot->bytes = bytes;
        slot->device = slot->disk = 0;
        slot->inode = 0;
        slot->file[0] = 0;
        if (file)
                describe((void *)file, &slot->device, &slot->disk, &slot->inode, slot->file);
        slot->start = bpf_ktime_get_ns();
        return 0;
}

/* Is it a write that waits? */
inline_ bool writes_through(struct file___call *file, bool asked)
{
        u32 type = BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE;
        if (!asked && !(BPF_CORE_READ(file, f_flags) & O_DSYNC_FLAG))
                return false;
        return type == FILE_REGULAR || type == FILE_BLOCK;
}

SEC("tp_btf/sys_enter")
int watopb_enter(u64 *ctx)
{
        void *registers = (void *)ctx[0];
        struct call_type type = type_of(ctx[1]);
        if (type.kind == CALL_NONE)
                return 0;
        struct task_struct *task = (void *)bpf_get_current_task();
        if (is_compat(task))
                return 0;
        if (type.kind == CALL_OF_ALL)
                return begin(type.call, 0, 0);
        if (type.kind == CALL_OF_MEMORY)
                return call_argument(registers, 2) & MS_SYNC_FLAG ? begin(type.call, 0, call_argument(registers, 1)) : 0;
        struct file___call *file = opened(task, (u32)call_argument(registers, 0));
        if (!file)
                return 0;
        if (type.kind != CALL_OF_FILE) {
                bool asked = type.kind == CALL_WRITE_FLAGS && call_argument(registers, 5) & (RWF_DSYNC_FLAG | RWF_SYNC_FLAG);
                if (!writes_through(file, asked))
                        return 0;
        }
        return begin(type.call, (u64)file, 0);
}

inline_ void tell_call(struct call *slot, u64 ids, u64 end, s64 result)
{
        u32 kernel = introduce(end).kernel;
        struct stage_record *record = reserve();
        if (!record)
                return;
        record->tid = (u32)ids;
        record->tgid = (u32)(ids >> 32);
        record->sync.start = slot->start;
        record->sync.end = end;
        record->sync.inode = slot->inode;
        record->sync.bytes = slot->call == SYNC_WRITE ? (result > 0 ? (u64)result : 0) : slot->bytes;
        record->sync.call = slot->call;
        record->sync.result = (s32)result;
        record->sync.disk = slot->disk;
        record->sync.unused = 0;
        __builtin_memcpy(record->sync.file, slot->file, RECORD_FILE);
        publish(record, first_word(RECORD_SYNC, kernel ? RECORD_KERNEL : 0, 0, 0, slot->device));
}

SEC("tp_btf/sys_exit")
int watopb_exit(u64 *ctx)
{
        struct call_type type = type_of(call_number((void *)ctx[0]));
        if (type.kind == CALL_NONE)
                return 0;
        u64 ids = bpf_get_current_pid_tgid();
        struct call *slot = call_of((u32)ids, (u32)ids);
        if (!slot)
                return 0;
        if (slot->call == type.call && slot->start >= READ(control.calls_since) && slot->tgid == (u32)(ids >> 32))
                tell_call(slot, ids, bpf_ktime_get_ns(), (s64)ctx[1]);
        slot->tid = 0;
        return 0;
}

/* ---- rings --------------------------------------------------------------------------------------------------------------------------- */

inline_ int ring_begin(struct io_kiocb___call *request)
{
        u64 key = (u64)request;
        if (request->opcode != RING_OP_FSYNC)
                return 0;
        u64 ids = bpf_get_current_pid_tgid();
        struct ring_call call = {.tid = (u32)ids, .tgid = (u32)(ids >> 32), .start = bpf_ktime_get_ns()};
        introduce(call.start);
        if (bpf_map_update_elem(&ring_calls, &key, &call, BPF_ANY) != 0)
                ADD(&control.crowded, 1);
        return 0;
}

SEC("tp_btf/io_uring_submit_req")      /* 6.4 */
int watopb_ring(u64 *ctx)
{
        return ring_begin((void *)ctx[0]);
}

SEC("tp_btf/io_uring_submit_sqe")      /* 6.0: (request, ...) */
int watopb_ring6_0(u64 *ctx)
{
        return ring_begin((void *)ctx[0]);
}

inline_ int ring_end(struct io_kiocb___call *request, s32 result)
{
        u64 key = (u64)request;
        if (!request || BPF_CORE_READ(request, opcode) != RING_OP_FSYNC)
                return 0;
        struct ring_call *call = bpf_map_lookup_elem(&ring_calls, &key);
        if (!call)
                return 0;
        struct stage_record *record = call->start >= READ(control.calls_since) ? reserve() : 0;
        if (record) {
                u32 device = 0, disk = 0;
                struct file___call *file = BPF_CORE_READ(request, file);
                record->tid = call->tid;
                record->tgid = call->tgid;
                record->sync.start = call->start;
                record->sync.end = bpf_ktime_get_ns();
                record->sync.bytes = 0;
                record->sync.call = SYNC_RING;
                record->sync.result = result;
                record->sync.unused = 0;
                record->sync.inode = 0;
                record->sync.file[0] = 0;
                if (file) {
                        u64 inode = 0;
                        describe(file, &device, &disk, &inode, record->sync.file);
                        record->sync.inode = inode;
                }
                record->sync.disk = disk;
                publish(record, first_word(RECORD_SYNC, 0, 0, 0, device));
        }
        bpf_map_delete_elem(&ring_calls, &key);
        return 0;
}

SEC("tp_btf/io_uring_complete")        /* (ring, request, entry) */
int watopb_ringend(u64 *ctx)
{
        struct io_uring_cqe *entry = (void *)ctx[2];
        return ring_end((void *)ctx[1], entry ? BPF_CORE_READ(entry, res) : 0);
}

SEC("tp_btf/io_uring_complete")        /* 5.17: (ring, request, user_data, result, ...) */
int watopb_ring5_17(u64 *ctx)
{
        return ring_end((void *)ctx[1], (s32)ctx[3]);
}

#pragma once
/*
 * What the BPF programs know of the kernel: only the fields they read. libbpf finds the true offsets in the running kernel's BTF when it
 * loads them (CO-RE), so no vmlinux.h is needed to build, on any machine. Names with ___ are the same kernel types as older kernels have
 * them; a field is asked for before it is read, and never a version.
 */
typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16;
typedef unsigned int u32, __u32;
typedef unsigned long long u64, __u64;
typedef signed char __s8;
typedef short __s16;
typedef int s32, __s32;
typedef long long s64, __s64;
typedef __u16 __be16;
typedef __u32 __be32, __wsum;
typedef _Bool bool;
enum { false, true };

/* uapi, fixed for ever */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9 };
enum { BPF_F_MMAPABLE = 1024, BPF_ANY = 0, BPF_NOEXIST = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block;
struct dentry { struct super_block *d_sb; };
struct path { struct dentry *dentry; };
struct fs_struct { struct path pwd; };
struct file_system_type { int fs_flags; };
struct super_block {
        struct file_system_type *s_type;
        unsigned long s_magic;
};
struct inode {
        u16 i_mode;
        struct super_block *i_sb;
};
struct file_operations { void *uring_cmd_iopoll; };
struct file {
        struct inode *f_inode;
        const struct file_operations *f_op;
        void *private_data;
};
struct ovl_file { struct file *realfile; }; /* 6.13; before that private_data is the real file */
struct fdtable {
        unsigned int max_fds;
        struct file **fd;
};
struct files_struct { struct fdtable *fdt; };

struct list_head { struct list_head *next; };
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
struct wait_queue_head { struct list_head head; };
struct wait_queue_entry {
        void *private;
        struct list_head entry;
};

struct thread_info { u32 cpu; };
struct percpu_counter { s64 count; };
struct io_uring_task {
        int cached_refs;                /* 5.14 */
        struct percpu_counter inflight;
        struct file *registered_rings[16];
};
struct rq { u64 clock; };
struct cfs_rq { struct rq *rq; }; /* with task groups */
struct sched_entity { struct cfs_rq *cfs_rq; };
struct task_struct {
        struct thread_info thread_info;
        unsigned int __state;           /* 5.14 */
        unsigned int flags;
        int pid, tgid;
        struct task_struct *group_leader;
        unsigned in_iowait : 1;
        struct sched_entity se;
        unsigned long nvcsw;
        u64 start_boottime;
        char comm[16];
        struct fs_struct *fs;
        struct files_struct *files;
        struct io_uring_task *io_uring; /* 5.10 */
};
struct task_struct___cpu { unsigned int cpu; };     /* x86 before 5.16 */
struct task_struct___state { long state; };         /* before 5.14 */

/* Saved registers of a system call. */
struct pt_regs___x86 { unsigned long di, dx, r10, orig_ax; };
struct pt_regs___arm64 {
        u64 regs[31];
        s32 syscallno;
};

struct request_queue;
struct request {
        struct request_queue *q;
        struct bio *bio;
        unsigned int cmd_flags, rq_flags;
        unsigned int __data_len;
        u64 __sector;
        u64 start_time_ns;
};

struct io_rsrc_node { unsigned long file_ptr; };            /* 6.13 */
struct io_rsrc_data {
        unsigned int nr;
        struct io_rsrc_node **nodes;
};
struct io_file_table { struct io_rsrc_data data; };
struct io_hash_bucket { struct hlist_head list; };
struct io_hash_table {
        struct io_hash_bucket *hbs;
        unsigned int hash_bits;
};
struct io_ring_ctx {
        unsigned int flags;
        struct task_struct *submitter_task;
        unsigned int cached_sq_head;
        struct io_file_table file_table;
        struct wait_queue_head cq_wait;
        struct io_hash_table cancel_table;        /* 6.0 */
        struct io_hash_table cancel_table_locked; /* 6.0 to 6.9 */
        struct list_head timeout_list, ltimeout_list, tctx_list;
        struct hlist_head waitid_list, futex_list, cancelable_uring_cmd; /* 6.7 */
};
struct io_tctx_node {
        struct list_head ctx_node;
        struct task_struct *task;
};
struct io_fixed_file { unsigned long file_ptr; };           /* 5.13 to 6.12 */
struct io_file_table___files { struct io_fixed_file *files; };
struct io_ring_ctx___files {
        struct io_file_table___files file_table;
        unsigned int nr_user_files;
};
struct io_cqe { int fd; };
struct io_kiocb {
        struct file *file;
        u8 opcode;
        u64 flags;
        struct io_cqe cqe;              /* its fd until the file is taken; 5.19 */
        struct io_ring_ctx *ctx;
        struct hlist_node hash_node;
        struct io_kiocb *link;
};

struct io_kiocb___5_15 { u64 user_data; };

struct bpf_iter__task { struct task_struct *task; };

#pragma clang attribute pop

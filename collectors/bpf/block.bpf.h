#pragma once
/*
 * What the block tracer's programs know of the kernel beyond kernel.bpf.h, in the same manner.
 */
#include "kernel.bpf.h"

enum { PF_KTHREAD = 0x200000 };

/* Their values are the running kernel's. */
enum req_flag_bits { __REQ_SYNC = 11, __REQ_META = 12, __REQ_FUA = 17, __REQ_PREFLUSH = 18, __REQ_RAHEAD = 19 };
enum rqf_flags { __RQF_FLUSH_SEQ = 1 };             /* 6.11; before that bit 4, a macro */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
        int major, first_minor;
};
struct block_device { struct gendisk *bd_disk; };
struct request_queue {
        const void *mq_ops;
        struct gendisk *disk;                       /* 5.15 */
};
struct request___disk { struct gendisk *rq_disk; }; /* before 5.17 */
struct kernfs_node { u64 id; };                     /* 5.5 */
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
struct blkcg { struct cgroup_subsys_state css; };
struct blkcg_gq { struct blkcg *blkcg; };
struct bvec_iter {
        u64 bi_sector;
        unsigned int bi_size;
};
struct bio {
        struct bio *bi_next;
        struct block_device *bi_bdev;               /* 5.12 */
        unsigned int bi_opf;
        u8 bi_status;
        struct bvec_iter bi_iter;
        void *bi_private;
        struct blkcg_gq *bi_blkg;                   /* 5.0 */
};
struct bio___disk { struct gendisk *bi_disk; };     /* before 5.12 */

/* Calls and their files. */
struct thread_info___x86 { u32 status; };
struct thread_info___arm64 { unsigned long flags; };
struct pt_regs___x86_call { unsigned long di, si, dx, r10, r8, r9, orig_ax; };
struct pt_regs___arm64_call {
        u64 regs[31];
        s32 syscallno;
};
struct qstr { const unsigned char *name; };
struct dentry___call { struct qstr d_name; };
struct path___call { struct dentry___call *dentry; };
struct super_block___call {
        u32 s_dev;
        unsigned long s_magic;
        struct block_device *s_bdev;
};
struct inode___call {
        u16 i_mode;
        unsigned long i_ino;
        struct super_block___call *i_sb;
};
struct address_space { struct inode___call *host; };
struct bdev_inode {
        struct block_device bdev;
        struct inode___call vfs_inode;
};
struct file___call {
        struct inode___call *f_inode;
        struct address_space *f_mapping;
        struct path___call f_path;
        unsigned int f_flags;
        void *private_data;
};
struct ovl_file___call { struct file___call *realfile; };
struct io_kiocb___call {
        struct file___call *file;
        u8 opcode;
};
struct io_uring_cqe { s32 res; };

#pragma clang attribute pop

/*
 * Wait channels in words. Contract: wchan.h.
 *
 * One table. The first row that fits wins, so a name stands before the prefix that would take it. Checked against Linux 6.1; names of
 * older and newer kernels beside them.
 */
#include "sample/wchan.h"

#include <stddef.h>
#include <string.h>

struct row {
        const char *name;   /* with a '*' at its end: a prefix */
        const char *word;
        enum wchan_kind kind;
        bool apart;         /* nothing to do with I/O: wchan_apart */
};

static const struct row rows[] = {
        /* mm/filemap.c: reads, faults, locks and write-back of pages, of whatever file system: ext4 and NFS alike */
        {"folio_wait_bit_common", "page cache", WCHAN_DEVICE},
        {"wait_on_page_bit*", "page cache", WCHAN_DEVICE},
        {"__lock_page*", "page cache", WCHAN_DEVICE},
        {"__folio_lock*", "page cache", WCHAN_DEVICE},
        {"folio_wait_*", "page cache", WCHAN_DEVICE},
        {"filemap_*", "page cache", WCHAN_DEVICE},
        {"migration_entry_wait*", "page migration", WCHAN_DEVICE},
        {"do_swap_page", "swap", WCHAN_DEVICE},
        {"swap_read*", "swap", WCHAN_DEVICE},
        {"__swap_writepage*", "swap", WCHAN_DEVICE},
        {"read_swap_cache*", "swap", WCHAN_DEVICE},
        /* direct I/O and single requests */
        {"blk_io_schedule", "direct I/O", WCHAN_DEVICE},
        {"*blkdev_direct_IO*", "direct I/O", WCHAN_DEVICE},
        {"__iomap_dio_rw", "direct I/O", WCHAN_DEVICE},
        {"iomap_dio_*", "direct I/O", WCHAN_DEVICE},
        {"dio_*", "direct I/O", WCHAN_DEVICE},
        {"*blockdev_direct_IO", "direct I/O", WCHAN_DEVICE},
        {"inode_dio_wait", "direct I/O", WCHAN_DEVICE},
        {"submit_bio_wait", "one request", WCHAN_DEVICE},
        {"blk_execute_rq*", "device command", WCHAN_DEVICE},
        {"blkdev_issue_*", "device command", WCHAN_DEVICE},
        {"__wait_on_buffer", "buffer", WCHAN_DEVICE},
        {"__bread*", "buffer", WCHAN_DEVICE},
        {"xfs_buf_*", "buffer", WCHAN_DEVICE},
        {"wait_on_bit*", "buffer or page", WCHAN_DEVICE},
        {"bit_wait_io*", "buffer or page", WCHAN_DEVICE},
        {"out_of_line_wait_on_bit*", "buffer or page", WCHAN_DEVICE},
        /* journals: fs/jbd2/ waits with wait_event and schedule() where it waits for a commit, with buffers where it makes one */
        {"jbd2_log_wait_commit", "journal commit", WCHAN_PLAIN},
        {"wait_transaction_locked", "journal", WCHAN_PLAIN},
        {"__jbd2_log_wait_for_space", "journal space", WCHAN_DEVICE},
        {"jbd2_*", "journal", WCHAN_DEVICE},
        {"do_get_write_access", "journal", WCHAN_DEVICE},
        {"xlog_*", "journal", WCHAN_DEVICE},
        {"xfs_log_*", "journal", WCHAN_DEVICE},
        {"wait_log_commit", "journal", WCHAN_DEVICE},
        {"btrfs_*", "btrfs", WCHAN_DEVICE},
        {"xfs_*", "xfs", WCHAN_DEVICE},
        {"ext4_*", "ext4", WCHAN_DEVICE},
        {"f2fs_*", "f2fs", WCHAN_DEVICE},
        {"gfs2_*", "gfs2", WCHAN_DEVICE},
        {"inode_wait_for_writeback*", "write-back", WCHAN_DEVICE},
        {"wb_wait_for_completion", "write-back", WCHAN_DEVICE},
        {"writeback_*", "write-back", WCHAN_DEVICE},
        /* before a request exists; the device may still be busy with those of others */
        {"blk_mq_get_tag", "device tags", WCHAN_DEVICE},
        {"__blk_mq_alloc_requests*", "device tags", WCHAN_DEVICE},
        {"get_request*", "device tags", WCHAN_DEVICE},
        {"rq_qos_wait", "request queue throttling", WCHAN_DEVICE},       /* wbt, iolatency: block/blk-rq-qos.c */
        {"wbt_wait", "request queue throttling", WCHAN_DEVICE},
        {"ioc_rqos_throttle", "request queue throttling", WCHAN_DEVICE}, /* block/blk-iocost.c */
        {"blkcg_maybe_throttle*", "request queue throttling", WCHAN_DEVICE},
        {"blk_throtl*", "request queue throttling", WCHAN_DEVICE},
        {"*blk_queue_enter", "frozen device queue", WCHAN_DEVICE},
        {"blk_mq_freeze_queue_wait*", "frozen device queue", WCHAN_DEVICE},
        {"mempool_alloc*", "memory for I/O", WCHAN_DEVICE},
        {"*raid*", "RAID", WCHAN_DEVICE},
        {"md_*", "RAID", WCHAN_DEVICE},
        {"wait_barrier*", "RAID", WCHAN_DEVICE},
        {"dm_*", "device mapper", WCHAN_DEVICE},
        {"drbd_*", "DRBD", WCHAN_DEVICE},
        {"nvme_*", "NVMe driver", WCHAN_DEVICE},
        {"scsi_block_when_processing_errors", "SCSI error handling", WCHAN_DEVICE},
        {"scsi_*", "SCSI driver", WCHAN_DEVICE},
        {"usb_*", "USB transfer", WCHAN_DEVICE},
        {"mmc_*", "MMC driver", WCHAN_DEVICE},
        /* counted as iowait, and no block device of this machine has a request for it */
        {"balance_dirty_pages*", "dirty throttling", WCHAN_ELSEWHERE},   /* mm/page-writeback.c: a pause by the clock */
        {"congestion_wait*", "memory reclaim", WCHAN_ELSEWHERE},         /* a pause by the clock */
        {"wait_iff_congested", "memory reclaim", WCHAN_ELSEWHERE},
        {"nfs_*", "NFS", WCHAN_ELSEWHERE},
        {"nfs4_*", "NFS", WCHAN_ELSEWHERE},
        {"rpc_wait_bit_killable", "NFS call", WCHAN_ELSEWHERE},
        {"__rpc_*", "NFS call", WCHAN_ELSEWHERE},
        {"cifs_*", "SMB", WCHAN_ELSEWHERE},
        {"wait_for_response", "SMB", WCHAN_ELSEWHERE},
        {"smb2_*", "SMB", WCHAN_UNKNOWN},
        {"ceph_*", "Ceph", WCHAN_ELSEWHERE},
        {"p9_*", "9P", WCHAN_ELSEWHERE},
        {"v9fs_*", "9P", WCHAN_ELSEWHERE},
        {"afs_*", "AFS", WCHAN_ELSEWHERE},
        {"orangefs_*", "OrangeFS", WCHAN_ELSEWHERE},
        {"i915_*", "GPU", WCHAN_ELSEWHERE},
        {"intel_guc_*", "GPU", WCHAN_ELSEWHERE},
        /* fs/fuse/dev.c: wait_event; what fills pages for others is in folio_wait_bit_common */
        {"request_wait_answer", "FUSE server", WCHAN_PLAIN},
        {"__fuse_simple_request", "FUSE server", WCHAN_PLAIN},
        {"fuse_get_req", "FUSE server", WCHAN_PLAIN},
        {"fuse_*", "FUSE server", WCHAN_ELSEWHERE},
        /* Each of these sleeps by itself in plain waits only. Not here: __mutex_lock, in which mutex_lock_io ends too. */
        {"rwsem_down_read_slowpath", "a lock (file or memory map)", WCHAN_PLAIN},    /* kernel/locking/rwsem.c */
        {"rwsem_down_write_slowpath", "a lock (file or memory map)", WCHAN_PLAIN},
        {"lock_mm_and_find_vma", "memory map lock", WCHAN_PLAIN},
        {"vm_mmap_pgoff", "memory map lock", WCHAN_PLAIN},
        {"__vm_munmap", "memory map lock", WCHAN_PLAIN},
        {"do_mprotect_pkey", "memory map lock", WCHAN_PLAIN},
        {"wait_for_completion", "completion", WCHAN_PLAIN},
        {"wait_for_completion_killable", "completion", WCHAN_PLAIN},
        {"wait_for_completion_timeout", "completion", WCHAN_PLAIN},
        {"wait_for_completion_io*", "completion of I/O", WCHAN_DEVICE},
        {"__flush_work", "work queue", WCHAN_PLAIN},
        {"__wait_rcu_gp", "RCU grace period", WCHAN_PLAIN},
        {"msleep", "a pause", WCHAN_PLAIN},
        /* kernel/fork.c: in D until the child executes something or ends */
        {"wait_for_vfork_done", "vfork child", WCHAN_PLAIN, true},
        {"kernel_clone", "vfork child", WCHAN_PLAIN, true},
        /* words only */
        {"__mutex_lock*", "mutex", WCHAN_UNKNOWN},
        {"mutex_lock*", "mutex", WCHAN_UNKNOWN},
        {"__rwsem_*", "a lock (file or memory map)", WCHAN_UNKNOWN},
        {"rwsem_*", "a lock (file or memory map)", WCHAN_UNKNOWN},
        {"percpu_rwsem_wait", "a lock", WCHAN_UNKNOWN},
        {"__percpu_down_read", "a lock", WCHAN_UNKNOWN},
        {"down_*", "a lock", WCHAN_UNKNOWN},
        {"__down*", "a lock", WCHAN_UNKNOWN},
        {"access_remote_vm*", "memory map lock", WCHAN_UNKNOWN},
        {"mmap_*", "memory map lock", WCHAN_UNKNOWN},
        {"reclaim_throttle", "memory reclaim", WCHAN_UNKNOWN},
        {"throttle_direct_reclaim", "memory reclaim", WCHAN_UNKNOWN},
        {"shrink_*", "memory reclaim", WCHAN_UNKNOWN},
        {"mem_cgroup_*", "memory limit", WCHAN_UNKNOWN},
        {"__mem_cgroup_*", "memory limit", WCHAN_UNKNOWN},
        {"dma_fence_*", "GPU", WCHAN_UNKNOWN},
        {"drm_*", "GPU", WCHAN_UNKNOWN},
        {"amdgpu_*", "GPU", WCHAN_UNKNOWN},
        {"ttm_bo_*", "GPU", WCHAN_UNKNOWN},
        {"exit_aio", "its own AIO to end", WCHAN_UNKNOWN},
        {"io_uring_*", "its own io_uring to end", WCHAN_UNKNOWN},
        {"coredump_wait", "core dump", WCHAN_UNKNOWN},
        {"__refrigerator", "freezer", WCHAN_UNKNOWN},
        {"synchronize_rcu*", "RCU grace period", WCHAN_UNKNOWN},
        {"io_cqring_wait*", "io_uring completions", WCHAN_UNKNOWN},
        {"__io_cqring_wait*", "io_uring completions", WCHAN_UNKNOWN},
        {"io_cqring_schedule_timeout", "io_uring completions", WCHAN_UNKNOWN},
        {"io_wq_worker*", "an idle io_uring worker", WCHAN_UNKNOWN},
        /* Sleeps in S: a task that was in D is met in one when it went on meanwhile. So nothing is concluded of what it was in before. */
        {"do_wait", "a child", WCHAN_UNKNOWN, true},                      /* kernel/exit.c */
        {"kernel_wait4", "a child", WCHAN_UNKNOWN, true},
        {"kernel_waitid*", "a child", WCHAN_UNKNOWN, true},
        {"ptrace_stop", "a debugger", WCHAN_UNKNOWN, true},
        {"do_signal_stop", "a signal", WCHAN_UNKNOWN, true},
        {"sigsuspend", "a signal", WCHAN_UNKNOWN, true},
        {"do_sigtimedwait*", "a signal", WCHAN_UNKNOWN, true},
        {"futex_*", "a lock of the program", WCHAN_UNKNOWN, true},        /* kernel/futex/ */
        {"hrtimer_nanosleep", "a timer", WCHAN_UNKNOWN, true},
        {"do_nanosleep", "a timer", WCHAN_UNKNOWN, true},
        {"common_nsleep*", "a timer", WCHAN_UNKNOWN, true},
        {"alarm_timer_nsleep*", "a timer", WCHAN_UNKNOWN, true},
        {"anon_pipe_read", "a pipe", WCHAN_UNKNOWN, true},                /* fs/pipe.c */
        {"anon_pipe_write", "a pipe", WCHAN_UNKNOWN, true},
        {"pipe_read", "a pipe", WCHAN_UNKNOWN, true},
        {"pipe_write", "a pipe", WCHAN_UNKNOWN, true},
        {"do_select", "poll", WCHAN_UNKNOWN, true},                       /* fs/select.c, fs/eventpoll.c */
        {"do_poll*", "poll", WCHAN_UNKNOWN, true},
        {"do_sys_poll", "poll", WCHAN_UNKNOWN, true},
        {"poll_schedule_timeout*", "poll", WCHAN_UNKNOWN, true},
        {"ep_poll", "poll", WCHAN_UNKNOWN, true},
        {"do_epoll_wait", "poll", WCHAN_UNKNOWN, true},
        {"inet_csk_accept", "a connection", WCHAN_UNKNOWN, true},         /* net/ */
        {"__skb_wait_for_more_packets", "a socket", WCHAN_UNKNOWN, true},
        {"sk_wait_data", "a socket", WCHAN_UNKNOWN, true},
        {"sk_stream_wait_memory", "a socket", WCHAN_UNKNOWN, true},
        {"unix_stream_*", "a socket", WCHAN_UNKNOWN, true},
        {"unix_wait_for_peer", "a socket", WCHAN_UNKNOWN, true},
        {"wait_woken", "a socket or terminal", WCHAN_UNKNOWN, true},
        {"n_tty_read", "a terminal", WCHAN_UNKNOWN, true},
        {"worker_thread", "work", WCHAN_UNKNOWN, true},                   /* kernel/workqueue.c, in I */
        {"rescuer_thread", "work", WCHAN_UNKNOWN, true},
};

/* One '*' at the end, at the start, or both. */
static bool fits(const char *name, const char *wchan, size_t length)
{
        size_t size = strlen(name);
        bool before = size > 0 && name[0] == '*', behind = size > 1 && name[size - 1] == '*';
        const char *text = name + before;
        size -= (size_t)before + (size_t)behind;
        if (size > length)
                return false;
        if (before && behind)
                return memmem(wchan, length, text, size) != NULL;
        if (before)
                return memcmp(wchan + length - size, text, size) == 0;
        return memcmp(wchan, text, size) == 0 && (behind || size == length);
}

static const struct row *find(const char *wchan)
{
        size_t length = strcspn(wchan, "."); /* .isra.0, .constprop.0: copies that the compiler made */
        if (length == 0 || strcmp(wchan, "0") == 0)
                return NULL;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                if (fits(rows[i].name, wchan, length))
                        return &rows[i];
        return NULL;
}

const char *wchan_word(const char *wchan)
{
        const struct row *row = find(wchan);
        return row ? row->word : NULL;
}

enum wchan_kind wchan_kind(const char *wchan)
{
        const struct row *row = find(wchan);
        return row ? row->kind : WCHAN_UNKNOWN;
}

bool wchan_apart(const char *wchan)
{
        const struct row *row = find(wchan);
        return row && row->apart;
}

/* block/ and what only calls it: bios and requests on their way, or room for one. The page cache and locks are not among them, for they
 * serve FUSE and NFS alike. */
bool wchan_block_only(const char *wchan)
{
        static const char *const names[] = {"blk_io_schedule", "submit_bio_wait", "blk_execute_rq", "blk_mq_get_tag", "blkdev_direct_IO",
                "__blkdev_direct_IO", "__blkdev_direct_IO_simple", "blkdev_issue_flush", "blkdev_issue_discard", "blkdev_issue_zeroout",
                "__wait_on_buffer"};
        size_t length = strcspn(wchan, "."); /* what the compiler added */
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strlen(names[i]) == length && strncmp(wchan, names[i], length) == 0)
                        return true;
        return false;
}

/* drivers/gpu/drm/i915: i915_request_wait and the GuC's waits sleep by io_schedule_timeout, in S when a signal may end them. */
bool wchan_counted_in_s(const char *wchan)
{
        return strncmp(wchan, "i915_", 5) == 0 || strncmp(wchan, "intel_guc_", 10) == 0;
}

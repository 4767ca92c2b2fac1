#pragma once
/*
 * What the kernel says about one task, parsed: the files of /proc/PID and /proc/PID/task/TID.
 *
 * Pure functions over bytes that a stranger can shape (a process chooses its own name): no allocation, no locale, nothing read outside
 * [text, text + length). Units are converted here: ns and bytes, never ticks or pages. A function that answers false left its result
 * unspecified, and the caller leaves the slots absent.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        TASK_COMM = 64,                  /* a kworker's name carries its work queue: up to 64 bytes (fs/proc/array.c, proc_task_name) */
        TASK_FLAG_KTHREAD = 0x00200000,  /* PF_KTHREAD */
};

struct task_stat {
        char comm[TASK_COMM];
        uint8_t comm_length;
        char state;
        bool has_block, has_guest;       /* kernels before 2.6.24 print fewer fields */
        int32_t parent, session;
        uint32_t flags, threads, core;
        uint64_t minflt, majflt;
        uint64_t user_ns, system_ns, guest_ns, block_ns;
        uint64_t start_ns;               /* boot time, floored to USER_HZ by the kernel */
        uint64_t vsize, rss;             /* bytes */
        int64_t priority, nice;
        uint64_t image;                  /* changes at exec where the reader may see addresses; a constant otherwise */
};

/* /proc/PID/stat. The name is what stands between the first '(' and the last ')'. */
bool task_parse_stat(const char *text, size_t length, unsigned hz, unsigned page_size, struct task_stat *);

struct task_sched {
        uint64_t run_ns, delay_ns, slices;
};
bool task_parse_schedstat(const char *text, size_t length, struct task_sched *);

struct task_io {
        uint64_t rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled;
};
bool task_parse_io(const char *text, size_t length, struct task_io *);

struct task_status {
        uint32_t uid;                    /* real */
        uint64_t voluntary, involuntary;
        bool has_uid, has_switches;
};
bool task_parse_status(const char *text, size_t length, struct task_status *);

/* /proc/PID/statm: resident bytes. */
bool task_parse_statm(const char *text, size_t length, unsigned page_size, uint64_t *rss);

/* The path of /proc/PID/cgroup that names the task's place best: the unified hierarchy, else systemd's own, else any that is not the
 * root. */
bool task_parse_cgroup(const char *text, size_t length, const char **path, size_t *path_length);

/* A task in such a state may be stuck with its locks held: whatever takes them is read through slow.h, if at all. */
static inline bool task_may_hang(char state)
{
        return state == 'D' || state == 'Z' || state == 'X';
}

/* The task is no longer there: normal in the middle of a pass. */
static inline bool task_is_gone(ptrdiff_t error)
{
        return error == -2 /* ENOENT */ || error == -3 /* ESRCH */ || error == -20 /* ENOTDIR */;
}

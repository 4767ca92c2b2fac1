/*
 * Finding threads that wait: in a completion queue of io_uring, or in D state.
 *
 * Guarantees: no file is opened that another task's lock could hold up (stat, status, wchan, and syscall of threads in S only; never
 * cmdline, maps or descriptors); the pass over a large machine is cut into pieces by time and goes on where it stopped.
 */
#include "collectors/uring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/wchan.h"

enum { PF_KTHREAD = 0x00200000 }; /* include/linux/sched.h; kernel threads have one thread and no rings */
enum { SYS_IO_URING_ENTER = 426 }; /* the same on every architecture with the common table */
enum { ENTER_REGISTERED_RING = 1 << 4 }; /* IORING_ENTER_REGISTERED_RING: the descriptor is an index */

bool thread_parse(struct thread *thread, const char *text, size_t length, unsigned hz)
{
        struct scan scan;
        uint64_t number, tid, flags, threads, start, cpu;
        const char *open = memchr(text, '(', length), *close = memrchr(text, ')', length), *word;
        size_t size;

        if (!open || !close || close <= open || hz == 0)
                return false;
        scan_init(&scan, text, (size_t)(open - text));
        if (!scan_u64(&scan, &tid) || tid == 0 || tid > INT32_MAX) /* 1 pid */
                return false;
        size = (size_t)(close - open - 1);
        if (size >= COMM_SIZE)
                size = COMM_SIZE - 1;
        scan_init(&scan, close + 1, length - (size_t)(close + 1 - text));
        size_t state_length;
        if (!scan_word(&scan, &word, &state_length) || state_length != 1) /* 3 state */
                return false;
        /* 4 ppid .. 8 tpgid (may be -1), 9 flags */
        if (!scan_skip(&scan, 5) || !scan_u64(&scan, &flags))
                return false;
        /* 10 minflt .. 19 nice (negative), 20 num_threads, 21 itrealvalue, 22 starttime */
        if (!scan_skip(&scan, 10) || !scan_u64(&scan, &threads) || !scan_u64(&scan, &number) || !scan_u64(&scan, &start))
                return false;
        /* 23 vsize .. 38 exit_signal, 39 processor */
        if (!scan_skip(&scan, 16) || !scan_u64(&scan, &cpu) || cpu > INT32_MAX)
                return false;
        memset(thread->comm, 0, sizeof thread->comm);
        memcpy(thread->comm, open + 1, size);
        thread->tid = thread->tgid = (int)tid;
        thread->state = *word;
        thread->flags = flags;
        thread->threads = threads;
        thread->born_ns = ticks_to_ns(start, hz);
        thread->cpu = (unsigned)cpu;
        /* 40 rt_priority, 41 policy, 42 delayacct_blkio_ticks; older kernels print less */
        thread->block_ns = scan_skip(&scan, 2) && scan_u64(&scan, &number) ? ticks_to_ns(number, hz) : 0;
        return true;
}

static int read_stat(struct procfs *procfs, int tgid, int tid, struct thread *thread)
{
        char text[1024];
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/task/%d/stat", tgid, tid);
        /* A captured tree may hold the process's own file only; it speaks of the leader. */
        if (length == -ENOENT && tid == tgid)
                length = procfs_readf(procfs, text, sizeof text, "proc/%d/stat", tgid);
        if (length < 0)
                return (int)length;
        if (!thread_parse(thread, text, (size_t)length, procfs_hz(procfs)) || thread->tid != tid)
                return -EBADMSG;
        thread->tgid = tgid;
        return 0;
}

int thread_read(struct procfs *procfs, int tgid, int tid, struct thread *thread)
{
        return read_stat(procfs, tgid, tid, thread);
}

int thread_switches(struct procfs *procfs, int tgid, int tid, uint64_t *switches)
{
        char text[4096];
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/task/%d/status", tgid, tid);
        if (length == -ENOENT && tid == tgid)
                length = procfs_readf(procfs, text, sizeof text, "proc/%d/status", tgid);
        if (length < 0)
                return (int)length;
        struct scan scan, line;
        uint64_t voluntary = 0, involuntary = 0;
        unsigned found = 0;
        scan_init(&scan, text, (size_t)length);
        while (scan_line(&scan, &line)) {
                if (scan_prefix(&line, "voluntary_ctxt_switches:"))
                        found |= scan_u64(&line, &voluntary) ? 1 : 0;
                else if (scan_prefix(&line, "nonvoluntary_ctxt_switches:"))
                        found |= scan_u64(&line, &involuntary) ? 2 : 0;
        }
        if (found != 3)
                return -EBADMSG;
        *switches = voluntary + involuntary;
        return 0;
}

/* Names under which the wait appears: which functions are inlined differs between builds. */
static bool is_cq_wait(const char *wchan)
{
        static const char *const names[] = {
                "io_cqring_wait", "io_cqring_wait_schedule", "__io_cqring_wait_schedule", "io_cqring_schedule_timeout",
        };
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strcmp(wchan, names[i]) == 0)
                        return true;
        return false;
}

/* /proc/PID/task/TID/syscall: number, six arguments in hexadecimal, stack pointer, program counter; or "running". */
static enum wait_kind read_syscall(struct procfs *procfs, int tgid, int tid, int *ring_fd, bool *denied)
{
        char text[256];
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/task/%d/syscall", tgid, tid);
        if (length < 0) {
                *denied = *denied || length == -EACCES || length == -EPERM;
                return WAIT_UNKNOWN;
        }
        struct scan scan;
        int64_t number;
        uint64_t args[4];
        scan_init(&scan, text, (size_t)length);
        if (!scan_i64(&scan, &number)) /* "running" */
                return WAIT_OTHER;
        if (number != SYS_IO_URING_ENTER)
                return WAIT_OTHER;
        for (size_t i = 0; i < 4; i++)
                if (!scan_hex(&scan, &args[i]))
                        return WAIT_CQ;
        if (args[0] <= INT32_MAX && !(args[3] & ENTER_REGISTERED_RING))
                *ring_fd = (int)args[0];
        return WAIT_CQ;
}

enum wait_kind thread_wait(struct procfs *procfs, int tgid, int tid, char wchan[WCHAN_SIZE], int *ring_fd, bool *denied)
{
        ssize_t length = procfs_readf(procfs, wchan, WCHAN_SIZE, "proc/%d/task/%d/wchan", tgid, tid);
        if (length == -EOVERFLOW)
                length = WCHAN_SIZE - 1;
        if (length < 0)
                length = 0;
        wchan[length] = '\0';
        wchan[strcspn(wchan, "\n")] = '\0';
        *ring_fd = -1;
        /* "0": it runs, or it is somebody else's and we lack CAP_SYS_PTRACE, or the kernel has no symbols. */
        bool hidden = wchan[0] == '\0' || strcmp(wchan, "0") == 0;
        if (hidden)
                wchan[0] = '\0';
        bool cq = is_cq_wait(wchan);
        if (!hidden && !cq)
                return WAIT_OTHER;
        enum wait_kind kind = *denied ? WAIT_UNKNOWN : read_syscall(procfs, tgid, tid, ring_fd, denied);
        return cq ? WAIT_CQ : kind;
}

bool thread_waits_plainly(struct procfs *procfs, const struct thread *thread, const char *wchan, uint64_t *switches)
{
        char again[WCHAN_SIZE];
        uint64_t later;
        int fd;
        bool never = true;
        if (wchan_kind(wchan) != WCHAN_PLAIN || thread_switches(procfs, thread->tgid, thread->tid, switches) < 0)
                return false;
        thread_wait(procfs, thread->tgid, thread->tid, again, &fd, &never);
        return wchan_kind(again) == WCHAN_PLAIN && thread_switches(procfs, thread->tgid, thread->tid, &later) == 0 && later == *switches;
}

/* ---- the pass ----------------------------------------------------------------------------------------------------------------- */

void finder_fini(struct finder *finder)
{
        free(finder->pids);
        free(finder->tids);
        *finder = (struct finder){0};
}

void finder_start(struct procfs *procfs, struct finder *finder, bool waits)
{
        ssize_t count = procfs_ids(procfs, "proc", &finder->pids, &finder->pid_capacity);
        finder->unknown = finder->denied = count < 0;
        finder->holes = !procfs_live(procfs) && (count <= 0 || procfs_unlisted(procfs));
        finder->pid_count = count < 0 ? 0 : (size_t)count;
        finder->at = 0;
        finder->d_count = 0;
        finder->min_blocked = UINT64_MAX;
        finder->waits = waits;
        finder->self = procfs_live(procfs) ? (int)getpid() : 0;
        finder->running = true;
}

static bool is_worker(const char *comm)
{
        return strncmp(comm, "iou-wrk-", 8) == 0;
}

static void look_at(struct procfs *procfs, struct finder *finder, struct thread *thread, bool *denied, found_fn *report, void *arg)
{
        struct found found = {.thread = *thread, .wait = WAIT_OTHER, .ring_fd = -1};
        bool kernel = thread->flags & PF_KTHREAD, worker = is_worker(thread->comm);
        if (thread->state == 'D') {
                bool never = true; /* no syscall file of a task in D state */
                finder->d_count++;
                thread_wait(procfs, thread->tgid, thread->tid, found.wchan, &found.ring_fd, &never);
                report(arg, &found);
        } else if (worker || (thread->state == 'R' && thread->tgid != finder->self)) {
                report(arg, &found);
        } else if (thread->state == 'S' && finder->waits && !kernel) {
                found.wait = thread_wait(procfs, thread->tgid, thread->tid, found.wchan, &found.ring_fd, denied);
                if (found.wait == WAIT_UNKNOWN)
                        finder->unknown = true, finder->denied = finder->denied || *denied;
                if (found.wait == WAIT_CQ || wchan_counted_in_s(found.wchan))
                        report(arg, &found);
        }
}

int finder_process(struct procfs *procfs, struct finder *finder, int tgid, found_fn *report, void *arg)
{
        char path[64], text[1024];
        struct thread thread = {0};
        bool denied = false;
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/stat", tgid);
        if (length >= 0 && !thread_parse(&thread, text, (size_t)length, procfs_hz(procfs)))
                return -EBADMSG;
        if (length < 0 && length != -ENOENT)
                return (int)length;
        if (length >= 0 && (thread.threads <= 1 || (thread.flags & PF_KTHREAD))) {
                look_at(procfs, finder, &thread, &denied, report, arg);
                return 0;
        }
        int written = snprintf(path, sizeof path, "proc/%d/task", tgid);
        if (written < 0 || (size_t)written >= sizeof path)
                return -EINVAL;
        ssize_t count = procfs_ids(procfs, path, &finder->tids, &finder->tid_capacity);
        if (count < 0)
                return (int)count;
        finder->holes = finder->holes || (!procfs_live(procfs) && length >= 0 && (size_t)count < thread.threads);
        for (ssize_t i = 0; i < count; i++) {
                int r = read_stat(procfs, tgid, finder->tids[i], &thread);
                finder->holes = finder->holes || (r == -ENOENT && procfs_unreadf(procfs, "proc/%d/task/%d/stat", tgid, finder->tids[i]));
                if (r == 0)
                        look_at(procfs, finder, &thread, &denied, report, arg);
                else if (r != -ENOENT && r != -ESRCH)
                        finder->unknown = finder->denied = true;
        }
        return 0;
}

bool finder_step(struct procfs *procfs, struct finder *finder, uint64_t stop_ns, found_fn *report, void *arg)
{
        /* The youngest first: of a chain of short-lived processes the one that lives now is met while it does. */
        while (finder->at < finder->pid_count) {
                int pid = finder->pids[finder->pid_count - ++finder->at];
                int r = finder_process(procfs, finder, pid, report, arg);
                if (r < 0 && r != -ENOENT && r != -ESRCH)
                        finder->unknown = finder->denied = true;
                if (r == -ENOENT && (procfs_unreadf(procfs, "proc/%d/stat", pid) || procfs_unreadf(procfs, "proc/%d/task", pid)))
                        finder->holes = true;
                if (stop_ns && procfs_mono(procfs) >= stop_ns)
                        break;
        }
        if (finder->at < finder->pid_count)
                return false;
        finder->running = false;
        return true;
}

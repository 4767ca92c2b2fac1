/*
 * Threads of a process, and the sums over them. See task_table.h.
 *
 * schedstat is the gate: a thread that was not on a core has the switches, faults and bytes it had. It is read before the files
 * it gates, so that what happens in between shows in it the next time. A thread that ended leaves what it last showed in `ended`.
 */
#include "collectors/task_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ssize_t read_file(struct task_reader *reader, int pid, int tid, const char *name)
{
        return procfs_readf(reader->procfs, reader->buffer, sizeof reader->buffer, "proc/%d/task/%d/%s", pid, tid, name);
}

/* Full or cut: the first fields are what is needed. */
static bool usable(ssize_t n, const struct task_reader *reader, size_t *length)
{
        *length = n > 0 ? (size_t)n : strnlen(reader->buffer, sizeof reader->buffer - 1);
        return n > 0 || n == -EOVERFLOW;
}

static void retain(struct task *task, const struct thread *thread)
{
        task->ended.delay_ns += thread->sched.delay_ns;
        task->ended.voluntary += thread->voluntary;
        task->ended.involuntary += thread->involuntary;
        task->ended.block_ns += thread->stat.block_ns;
}

static struct thread *thread_find(struct task *task, int tid)
{
        size_t low = 0, high = task->thread_count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (task->threads[middle].tid < tid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < task->thread_count && task->threads[low].tid == tid ? &task->threads[low] : NULL;
}

static int thread_order(const void *a, const void *b)
{
        const struct thread *x = a, *y = b;
        return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int tid_order(const void *a, const void *b)
{
        const int *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

static bool reserve(struct task *task, size_t wanted)
{
        if (wanted <= task->thread_capacity)
                return true;
        size_t capacity = task->thread_capacity ? task->thread_capacity : 1;
        while (capacity < wanted)
                capacity *= 2;
        struct thread *threads = reallocarray(task->threads, capacity, sizeof *threads);
        if (!threads)
                return false;
        task->threads = threads;
        task->thread_capacity = capacity;
        return true;
}

void task_threads_drop(struct task *task)
{
        free(task->threads);
        task->threads = NULL;
        task->thread_count = task->thread_capacity = 0;
}

/* Another thread with the same number (or the leader's place taken over at exec): what the old one did stays counted. */
static void thread_restart(struct task *task, struct thread *thread)
{
        int tid = thread->tid;

        retain(task, thread);
        task->sums_missed = true;
        memset(thread, 0, sizeof *thread);
        thread->tid = tid;
        thread->seen = thread->fresh = true;
}

/* A captured tree without the thread's own stat: a single thread's is its process's; any other thread stands as it was. */
static ssize_t take_unread(struct task *task, struct thread *thread, bool *moved)
{
        *moved = false;
        if (task->stat.threads != 1 || thread->tid != task->pid || (thread->has_stat && thread->stat.start_ns != task->stat.start_ns))
                return thread->has_stat ? 0 : -EAGAIN;
        *moved = !thread->has_stat || memcmp(&task->stat, &thread->stat, sizeof task->stat) != 0;
        memcpy(&thread->stat, &task->stat, sizeof task->stat);
        thread->read_ns = task->read_ns;
        thread->has_stat = true;
        return 0;
}

/* 0, or the error. *moved: state or a counter differs. */
static ssize_t read_stat(struct task_reader *reader, struct task *task, struct thread *thread, bool *moved)
{
        struct task_stat stat;
        size_t length;

        thread->read_ns = procfs_mono(reader->procfs);
        ssize_t n = read_file(reader, task->pid, thread->tid, "stat");
        if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/task/%d/stat", task->pid, thread->tid))
                return take_unread(task, thread, moved);
        if (!procfs_live(reader->procfs))
                thread->read_ns = procfs_stamp(reader->procfs);
        if (!usable(n, reader, &length))
                return n < 0 ? n : -ESRCH;
        if (!task_parse_stat(reader->buffer, length, reader->hz, reader->page_size, &stat))
                return -EBADMSG;
        if (thread->has_stat && stat.start_ns != thread->stat.start_ns) {
                uint64_t read_ns = thread->read_ns;
                thread_restart(task, thread);
                thread->read_ns = read_ns;
        }
        *moved = !thread->has_stat || memcmp(&stat, &thread->stat, sizeof stat) != 0;
        if (*moved)
                memcpy(&thread->stat, &stat, sizeof stat); /* padding too: it is compared */
        thread->has_stat = true;
        return 0;
}

/* The leader's schedstat was read with the process. */
static ssize_t read_sched(struct task_reader *reader, const struct task *task, struct thread *thread, bool *moved)
{
        struct task_sched sched = task->sched;

        if (thread->tid != task->pid || !task->has_sched) {
                ssize_t n = read_file(reader, task->pid, thread->tid, "schedstat");
                if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/task/%d/schedstat", task->pid, thread->tid))
                        return 0;
                if (task_is_gone(n))
                        return n;
                if (n <= 0 || !task_parse_schedstat(reader->buffer, (size_t)n, &sched))
                        return 0;
        }
        *moved = !thread->has_sched || memcmp(&sched, &thread->sched, sizeof sched) != 0;
        thread->sched = sched;
        thread->has_sched = true;
        return 0;
}

static ssize_t read_switches(struct task_reader *reader, const struct task *task, struct thread *thread)
{
        struct task_status status;

        ssize_t n = read_file(reader, task->pid, thread->tid, "status");
        if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/task/%d/status", task->pid, thread->tid)) {
                if (task->stat.threads == 1 && thread->tid == task->pid && task->status.has_switches) {
                        thread->voluntary = task->status.voluntary;
                        thread->involuntary = task->status.involuntary;
                        thread->has_switches = true;
                }
                return 0;
        }
        if (n <= 0)
                return n < 0 ? n : -ESRCH;
        if (!task_parse_status(reader->buffer, (size_t)n, &status) || !status.has_switches)
                return 0;
        thread->voluntary = status.voluntary;
        thread->involuntary = status.involuntary;
        thread->has_switches = true;
        return 0;
}

static void read_io(struct task_reader *reader, const struct task *task, struct thread *thread)
{
        if (task->io_denied)
                return;
        /* io takes the process's exec lock, which a process that is stuck in exec (in D, or its leader a zombie) holds: slow.h. */
        if (task_may_hang(thread->stat.state) || task_may_hang(task->stat.state)) {
                thread->want_io = true;
                return;
        }
        ssize_t n = read_file(reader, task->pid, thread->tid, "io");
        if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/task/%d/io", task->pid, thread->tid))
                return;
        thread->has_io = n > 0 && task_parse_io(reader->buffer, (size_t)n, &thread->io);
}

/* 0, or the error that says the thread is not there. */
static ssize_t thread_read(struct task_reader *reader, struct task *task, struct thread *thread)
{
        bool stat_moved = false, sched_moved = false, fresh = thread->fresh;
        char state = thread->has_stat ? thread->stat.state : '\0';
        ssize_t r;

        if (reader->rows && (r = read_stat(reader, task, thread, &stat_moved)) < 0)
                return r;
        if (reader->has_sched && (r = read_sched(reader, task, thread, &sched_moved)) < 0)
                return r;
        bool ran = fresh || sched_moved || (!thread->has_sched && (stat_moved || !reader->rows));
        task->threads_ran |= ran;
        if (ran && !reader->rows && reader->block && (r = read_stat(reader, task, thread, &stat_moved)) < 0 && task_is_gone(r))
                return r;
        if ((ran || reader->all) && (r = read_switches(reader, task, thread)) < 0 && task_is_gone(r))
                return r;
        if (reader->rows && (ran || reader->all || !thread->has_io))
                read_io(reader, task, thread);
        if (ran || (thread->has_stat && thread->stat.state != state))
                thread->since_ns = thread->read_ns + reader->boot_offset_ns;
        if (fresh && thread->has_sched && thread->sched.run_ns == 0 && thread->sched.slices == 0 && thread->has_stat)
                thread->since_ns = thread->stat.start_ns; /* never ran yet */
        thread->changed = ran || stat_moved;
        return 0;
}

/* A captured tree that does not tell who the threads are: those known stand; the leader of a process that has no other is known anyway. */
static ssize_t list_unread(struct task *task)
{
        for (size_t i = 0; i < task->thread_count; i++)
                task->threads[i].seen = true;
        if (task->thread_count > 0 || task->stat.threads != 1)
                return task->thread_count > 0 ? (ssize_t)task->thread_count : -ENOENT;
        if (!reserve(task, 1))
                return -ENOMEM;
        task->threads[0] = (struct thread){ .tid = task->pid, .fresh = true, .seen = true };
        task->thread_count = 1;
        return 1;
}

/* List task/, add the new ones at the end. The count or -errno. */
static ssize_t list(struct task_reader *reader, struct task *task)
{
        char path[48];

        if (task->stat.threads == 1 && task->thread_count == 1 && task->threads[0].tid == task->pid && !reader->all) {
                task->threads[0].seen = true;
                return 1;
        }
        snprintf(path, sizeof path, "proc/%d/task", task->pid);
        ssize_t n = procfs_ids(reader->procfs, path, &reader->tids, &reader->tids_capacity);
        if (n == -ENOENT && procfs_unread(reader->procfs, path))
                return list_unread(task);
        if (n <= 0)
                return n < 0 ? n : -ESRCH;
        if (!procfs_live(reader->procfs) && (size_t)n < task->stat.threads)
                list_unread(task); /* folders of some threads, from reads that listed nobody */
        if (!reserve(task, (size_t)n + task->thread_count))
                return -ENOMEM;
        qsort(reader->tids, (size_t)n, sizeof *reader->tids, tid_order);
        size_t known = task->thread_count, added = 0;
        for (ssize_t i = 0; i < n; i++) {
                struct thread *thread = thread_find(task, reader->tids[i]);
                if (!thread) {
                        thread = &task->threads[known + added++];
                        memset(thread, 0, sizeof *thread);
                        thread->tid = reader->tids[i];
                        thread->fresh = true;
                }
                thread->seen = true;
        }
        task->thread_count = known + added;
        if (added > 0 && known > 0)
                qsort(task->threads, task->thread_count, sizeof *task->threads, thread_order);
        return n;
}

/* A single thread that did not run is as it was: nothing to read. */
static bool single_and_still(const struct task *task)
{
        const struct thread *only = task->threads;

        return task->stat.threads == 1 && task->thread_count == 1 && only->has_sched && task->has_sched && !only->fresh && only->has_stat
                && !task->ran && only->stat.state == task->stat.state && only->stat.core == task->stat.core
                && only->stat.comm_length == task->stat.comm_length && memcmp(only->stat.comm, task->stat.comm, TASK_COMM) == 0;
}

static void sum_up(struct task *task, size_t kept)
{
        struct task_sums sums = task->ended;
        bool switches = true;

        for (size_t i = 0; i < kept; i++) {
                sums.delay_ns += task->threads[i].sched.delay_ns;
                sums.voluntary += task->threads[i].voluntary;
                sums.involuntary += task->threads[i].involuntary;
                sums.block_ns += task->threads[i].stat.block_ns;
                switches = switches && task->threads[i].has_switches;
        }
        /* A sum that fell is another sum: the process was replaced by exec of one of its threads. */
        bool fell = sums.delay_ns < task->sums.delay_ns || sums.voluntary < task->sums.voluntary
                || sums.involuntary < task->sums.involuntary;
        if (fell || !switches)
                task->sums_valid = false;
        task->sums = sums;
}

bool task_threads_read(struct task_reader *reader, struct task *task)
{
        for (size_t i = 0; i < task->thread_count; i++)
                task->threads[i].seen = task->threads[i].fresh = task->threads[i].changed = false;
        task->threads_ran = false;
        if (list(reader, task) < 0)
                return false;

        bool still = !reader->all && single_and_still(task);
        size_t kept = 0;
        for (size_t i = 0; i < task->thread_count; i++) {
                struct thread *thread = &task->threads[i];
                bool here = thread->seen;
                if (here && !still) {
                        ssize_t r = thread_read(reader, task, thread);
                        here = r == 0 || (!task_is_gone(r) && !thread->fresh);
                }
                if (!here) {
                        retain(task, thread);
                        task->sums_missed = true;
                        continue;
                }
                if (kept != i)
                        task->threads[kept] = *thread;
                kept++;
        }
        task->thread_count = kept;
        sum_up(task, kept);
        return true;
}

void task_sums_leader(struct task_reader *reader, struct task *task)
{
        struct task_sums sums = task->mode == SUM_ALL ? task->ended : (struct task_sums){ 0 };

        sums.delay_ns += task->sched.delay_ns;
        sums.voluntary += task->status.voluntary;
        sums.involuntary += task->status.involuntary;
        sums.block_ns += task->stat.block_ns;
        if (sums.delay_ns < task->sums.delay_ns || sums.voluntary < task->sums.voluntary || sums.involuntary < task->sums.involuntary)
                task->sums_valid = false;
        task->sums = sums;
}

/*
 * Thread rows, while somebody holds a lease on them: from the same pass over /proc as the process rows (task_table.h), which reads every
 * thread's stat, and io and status of those that ran. Threads go first when time is short: their rows then stand as they were.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"
#include "collectors/slow.h"
#include "collectors/task_table.h"

struct asked {
        struct thread *thread;
        struct row *row;
};

struct threads {
        struct procfs *procfs;
        struct task_table *table;
        struct slow *slow;
        struct asked asked[SLOW_BATCH];
        struct slow_request requests[SLOW_BATCH];
        size_t count;
        uint64_t patience_ns, until_ns;
};

static void thread_close(void *own)
{
        struct threads *threads = own;

        if (!threads)
                return;
        slow_free(threads->slow);
        task_table_put(threads->table);
        free(threads);
}

static int thread_open(struct procfs *procfs, void **own)
{
        struct threads *threads = calloc(1, sizeof *threads);

        if (!threads)
                return -ENOMEM;
        threads->procfs = procfs;
        int r = task_table_get(procfs, &threads->table);
        if (r == 0)
                r = slow_new(procfs_read_cut, procfs, &threads->slow);
        if (r < 0) {
                thread_close(threads);
                return r;
        }
        *own = threads;
        return 0;
}

static void set(struct row *row, int metric, bool there, uint64_t value)
{
        if (there)
                row_set(row, metric, value);
        else
                row_absent(row, metric);
}

static void put_io(struct row *row, const struct thread *thread)
{
        set(row, THREAD_READ_BYTES, thread->has_io, thread->io.read_bytes);
        set(row, THREAD_WRITE_BYTES, thread->has_io, thread->io.write_bytes);
        set(row, THREAD_CANCELLED, thread->has_io, thread->io.cancelled);
}

static void put_numbers(const struct task_table *table, struct row *row, const struct task *task, const struct thread *thread)
{
        const struct task_stat *stat = &thread->stat;

        row_set(row, THREAD_TGID, (uint32_t)task->pid);
        row_set(row, THREAD_USER_TIME, stat->user_ns);
        row_set(row, THREAD_SYSTEM_TIME, stat->system_ns);
        set(row, THREAD_GUEST_TIME, stat->has_guest, stat->guest_ns);
        set(row, THREAD_RUN_DELAY, thread->has_sched, thread->sched.delay_ns);
        row_set(row, THREAD_MINFLT, stat->minflt);
        row_set(row, THREAD_MAJFLT, stat->majflt);
        row_set(row, THREAD_STATE, (unsigned char)stat->state);
        row_set(row, THREAD_SINCE, thread->since_ns / SINCE_NS * SINCE_NS);
        row_set(row, THREAD_CORE, stat->core);
        set(row, THREAD_VOLUNTARY, thread->has_switches, thread->voluntary);
        set(row, THREAD_INVOLUNTARY, thread->has_switches, thread->involuntary);
        set(row, THREAD_BLOCK_DELAY, stat->has_block && task_table_has_block(table), stat->block_ns);
        row_set(row, THREAD_START, stat->start_ns);
        put_io(row, thread);
        row_text(row, THREAD_COMM, stat->comm, stat->comm_length);
}

static void put_wchan(const struct threads *threads, struct row *row, const struct task *task, const struct thread *thread)
{
        char name[128];
        ssize_t n = -ENOENT;

        if (thread->stat.state == 'D')
                n = procfs_readf(threads->procfs, name, sizeof name, "proc/%d/task/%d/wchan", task->pid, thread->tid);
        while (n > 0 && name[n - 1] == '\n')
                n--;
        bool there = n > 0 && !(n == 1 && name[0] == '0');
        row_text(row, THREAD_WCHAN, there ? name : NULL, there ? (size_t)n : 0);
}

/* ---- io of threads in D state, through the helper ------------------------------------------------------------------------------------ */

static void run_batch(struct threads *threads)
{
        slow_run(threads->slow, threads->requests, threads->count, threads->patience_ns, threads->until_ns);
        for (size_t i = 0; i < threads->count; i++) {
                const struct slow_request *request = &threads->requests[i];
                struct thread *thread = threads->asked[i].thread;
                if (request->result == -ETIMEDOUT)
                        thread->ticket = request->ticket;
                if (request->result == -ETIMEDOUT || request->result == -EBUSY || request->result == -ETIME)
                        continue; /* still wanted */
                thread->want_io = false;
                if (request->result == -ENOENT && procfs_unread(threads->procfs, request->path))
                        continue; /* what it said before stands */
                thread->has_io = request->result > 0 && task_parse_io(request->bytes, (size_t)request->result, &thread->io);
                put_io(threads->asked[i].row, thread);
        }
        threads->count = 0;
}

static void ask(struct threads *threads, const struct task *task, struct thread *thread, struct row *row)
{
        if (thread->ticket && slow_is_out(threads->slow, thread->ticket))
                return;
        thread->ticket = 0;
        struct slow_request *request = &threads->requests[threads->count];
        snprintf(request->path, sizeof request->path, "proc/%d/task/%d/io", task->pid, thread->tid);
        threads->asked[threads->count++] = (struct asked){ thread, row };
        if (threads->count == SLOW_BATCH)
                run_batch(threads);
}

/* ---- the collector ----------------------------------------------------------------------------------------------------------- */

static void put_row(struct threads *threads, const struct tick *tick, const struct task *task, struct thread *thread)
{
        struct key key = { (uint64_t)thread->tid, thread->stat.start_ns / UINT64_C(10000000) * UINT64_C(10000000) };

        if (!thread->has_stat)
                return; /* known from the sums only, and not looked at yet */
        struct row *row = sample_row(tick->sample, SCOPE_THREAD, key, thread->read_ns);
        if (!row)
                return;
        bool new = row_is_new(row);
        if (new || thread->changed)
                put_numbers(threads->table, row, task, thread);
        if (new || thread->changed || thread->stat.state == 'D')
                put_wchan(threads, row, task, thread);
        if (thread->want_io)
                ask(threads, task, thread, row);
}

static int thread_collect(void *own, struct tick *tick)
{
        struct threads *threads = own;

        /* The process collector, which comes first, made the pass. */
        if (!(tick->scopes & SCOPE_BIT(SCOPE_PROCESS))) {
                int r = task_table_pass(threads->table, tick);
                if (r < 0)
                        return r;
        }
        const struct task_pass *pass = task_table_last(threads->table);
        uint64_t tenth = tick->interval_ns / 10;
        threads->patience_ns = tenth < 2000000 ? 2000000 : tenth > 20000000 ? 20000000 : tenth;
        threads->until_ns = tick->deadline_ns && procfs_live(threads->procfs) ? tick->deadline_ns : UINT64_MAX / 2;
        sample_scope_begin(tick->sample, SCOPE_THREAD, pass->start_ns);
        for (size_t i = 0; i < task_table_count(threads->table); i++) {
                struct task *task = task_table_at(threads->table, i);
                for (size_t j = 0; j < task->thread_count; j++)
                        put_row(threads, tick, task, &task->threads[j]);
        }
        if (threads->count > 0)
                run_batch(threads);
        sample_scope_end(tick->sample, SCOPE_THREAD, pass->end_ns, GONE_EXITED);
        tick->stuck_reads += slow_abandoned(threads->slow);
        return 0;
}

const struct collector collector_thread = {
        .name = "thread",
        .scopes = SCOPE_BIT(SCOPE_THREAD),
        .open = thread_open,
        .collect = thread_collect,
        .close = thread_close,
};

/*
 * Process rows: numbers from the shared pass over /proc (task_table.h), and the texts that name a process.
 *
 * Texts travel when they are new or changed: command line, control group and unit are read at first sight, at exec, after setuid, and in
 * rotation within 10 s. They and the I/O counters of tasks in D state go through a helper thread that can be left behind (slow.h). A
 * task in D state gets no read of its command line at all (its mmap lock may never be free): it keeps the one seen earlier.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"
#include "collectors/slow.h"
#include "collectors/task_table.h"
#include "collectors/unit.h"
#include "collectors/user.h"

enum want { WANT_IO, WANT_CGROUP, WANT_CMDLINE };

/* What the next batch asks for. */
struct asked {
        struct task *task;
        struct row *row;
        enum want want;
};

struct process {
        struct procfs *procfs;
        struct task_table *table;
        struct users *users;
        struct slow *slow;
        struct asked asked[SLOW_BATCH];
        struct slow_request requests[SLOW_BATCH];
        size_t count;
        uint64_t patience_ns, until_ns;
        enum cmdline_policy policy;
        bool policy_known;
        char line[SLOW_BYTES + 1];
};

static void process_close(void *own)
{
        struct process *process = own;

        if (!process)
                return;
        slow_free(process->slow);
        users_free(process->users);
        task_table_put(process->table);
        free(process);
}

static int process_open(struct procfs *procfs, void **own)
{
        struct process *process = calloc(1, sizeof *process);

        if (!process)
                return -ENOMEM;
        process->procfs = procfs;
        int r = task_table_get(procfs, &process->table);
        if (r == 0)
                r = users_new(procfs, &process->users);
        if (r == 0)
                r = slow_new(procfs_read_cut, procfs, &process->slow);
        if (r < 0) {
                process_close(process);
                return r;
        }
        *own = process;
        return 0;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------------------- */

static void set(struct row *row, int metric, bool there, uint64_t value)
{
        if (there)
                row_set(row, metric, value);
        else
                row_absent(row, metric);
}

static void put_stat(struct row *row, const struct task *task)
{
        const struct task_stat *stat = &task->stat;

        row_set(row, PROCESS_USER_TIME, stat->user_ns);
        row_set(row, PROCESS_SYSTEM_TIME, stat->system_ns);
        set(row, PROCESS_GUEST_TIME, stat->has_guest, stat->guest_ns);
        row_set(row, PROCESS_MINFLT, stat->minflt);
        row_set(row, PROCESS_MAJFLT, stat->majflt);
        row_set(row, PROCESS_VSIZE, stat->vsize);
        set(row, PROCESS_RSS, task->has_rss, task->rss);
        row_set(row, PROCESS_THREADS, stat->threads);
        row_set(row, PROCESS_STATE, (unsigned char)stat->state);
        row_set(row, PROCESS_SINCE, task->since_ns / SINCE_NS * SINCE_NS);
        row_set(row, PROCESS_CORE, stat->core);
        row_set(row, PROCESS_START, stat->start_ns);
        row_set(row, PROCESS_PRIORITY, (uint64_t)stat->priority);
        row_set(row, PROCESS_NICENESS, (uint64_t)stat->nice);
        row_set(row, PROCESS_PARENT, (uint32_t)stat->parent);
        row_set(row, PROCESS_SESSION, (uint32_t)stat->session);
        row_set(row, PROCESS_FLAGS, stat->flags);
        set(row, PROCESS_UID, task->status.has_uid, task->status.uid);
}

static void put_sums(const struct task_table *table, struct row *row, const struct task *task)
{
        bool valid = task->sums_valid;

        set(row, PROCESS_RUN_DELAY, valid && task->has_sched, task->sums.delay_ns);
        set(row, PROCESS_VOLUNTARY, valid && task->status.has_switches, task->sums.voluntary);
        set(row, PROCESS_INVOLUNTARY, valid && task->status.has_switches, task->sums.involuntary);
        set(row, PROCESS_BLOCK_DELAY, valid && task->stat.has_block && task_table_has_block(table), task->sums.block_ns);
        row_set(row, PROCESS_PARTIAL, task->mode == SUM_LEADER && task->stat.threads > 1 ? 2 : task->sums_missed || !valid);
}

static void put_io(struct row *row, const struct task *task)
{
        const struct task_io *io = &task->io;

        set(row, PROCESS_READ_BYTES, task->has_io, io->read_bytes);
        set(row, PROCESS_WRITE_BYTES, task->has_io, io->write_bytes);
        set(row, PROCESS_CANCELLED, task->has_io, io->cancelled);
        set(row, PROCESS_RCHAR, task->has_io, io->rchar);
        set(row, PROCESS_WCHAR, task->has_io, io->wchar);
        set(row, PROCESS_SYSCR, task->has_io, io->syscr);
        set(row, PROCESS_SYSCW, task->has_io, io->syscw);
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------------ */

static void put_user(const struct process *process, struct row *row, const struct task *task)
{
        char name[64];

        if (!task->status.has_uid) {
                row_text(row, PROCESS_USER, NULL, 0);
                return;
        }
        row_text(row, PROCESS_USER, name, users_name(process->users, task->status.uid, name, sizeof name));
}

static void put_cgroup(struct row *row, const char *bytes, size_t length)
{
        char unit[UNIT_NAME_MAX];
        const char *path;
        size_t n;

        if (!task_parse_cgroup(bytes, length, &path, &n)) {
                row_text(row, PROCESS_CGROUP, NULL, 0);
                return;
        }
        size_t have;
        const char *old = row_get_text(row, PROCESS_CGROUP, &have);
        if (old && have == n && memcmp(old, path, n) == 0 && row_get_text(row, PROCESS_UNIT, &have))
                return; /* the same place: a name from QEMU's command line stays */
        row_text(row, PROCESS_CGROUP, path, n);
        size_t length_unit = unit_of_cgroup(path, n, unit, sizeof unit);
        row_text(row, PROCESS_UNIT, length_unit ? unit : NULL, length_unit);
}

/* Where argv[0] ends, for the policy that shows no arguments. Programs write whole sentences into it: a blank ends it too. */
static size_t name_end(const char *bytes, size_t length)
{
        size_t n = 0;

        while (n < length && bytes[n] != '\0' && bytes[n] != ' ')
                n++;
        return n;
}

static void put_cmdline(struct process *process, struct row *row, const char *bytes, size_t length)
{
        char unit[UNIT_NAME_MAX];

        while (length > 0 && bytes[length - 1] == '\0')
                length--;
        if (length == 0)
                return; /* an ending task shows nothing; what was seen earlier stays */
        size_t named = unit_of_qemu(bytes, length, unit, sizeof unit);
        if (named > 0)
                row_text(row, PROCESS_UNIT, unit, named);
        size_t n = process->policy == CMDLINE_NAME ? name_end(bytes, length) : length;
        for (size_t i = 0; i < n; i++)
                process->line[i] = bytes[i] == '\0' ? ' ' : bytes[i];
        row_text(row, PROCESS_CMDLINE, process->line, n);
}

/* Kernel function of a leader in D state; reading wchan takes no lock of the task that can be held for long. */
static void put_wchan(struct process *process, struct row *row, const struct task *task)
{
        ssize_t n = -ENOENT;

        if (task->stat.state == 'D')
                n = procfs_readf(process->procfs, process->line, 128, "proc/%d/wchan", task->pid);
        while (n > 0 && process->line[n - 1] == '\n')
                n--;
        bool there = n > 0 && !(n == 1 && process->line[0] == '0');
        row_text(row, PROCESS_WCHAN, there ? process->line : NULL, there ? (size_t)n : 0);
}

/* ---- reads that may hang ------------------------------------------------------------------------------------------------------------ */

static const char *const want_file[] = { [WANT_IO] = "io", [WANT_CGROUP] = "cgroup", [WANT_CMDLINE] = "cmdline" };

static void take(struct process *process, const struct asked *asked, const struct slow_request *request)
{
        struct task *task = asked->task;
        bool *want = asked->want == WANT_IO ? &task->want_io : asked->want == WANT_CGROUP ? &task->want_cgroup : &task->want_cmdline;

        if (request->result == -ETIMEDOUT)
                task->ticket = request->ticket;
        if (request->result == -ETIMEDOUT || request->result == -EBUSY || request->result == -ETIME)
                return; /* still wanted */
        *want = false;
        if (request->result == -ENOENT && procfs_unread(process->procfs, request->path))
                return; /* what it said before stands */
        size_t n = request->result > 0 ? (size_t)request->result : 0;
        if (asked->want == WANT_IO) {
                task->has_io = n > 0 && task_parse_io(request->bytes, n, &task->io);
                task->io_denied = request->result == -EACCES || request->result == -EPERM;
                put_io(asked->row, task);
        } else if (asked->want == WANT_CGROUP && n > 0) {
                put_cgroup(asked->row, request->bytes, n);
        } else if (asked->want == WANT_CMDLINE && n > 0) {
                task->ran_since_cmdline = false;
                put_cmdline(process, asked->row, request->bytes, n);
        }
}

static void run_batch(struct process *process)
{
        slow_run(process->slow, process->requests, process->count, process->patience_ns, process->until_ns);
        for (size_t i = 0; i < process->count; i++)
                take(process, &process->asked[i], &process->requests[i]);
        process->count = 0;
}

static void ask(struct process *process, struct task *task, struct row *row, enum want want)
{
        if (task->ticket && slow_is_out(process->slow, task->ticket))
                return;
        task->ticket = 0;
        struct slow_request *request = &process->requests[process->count];
        snprintf(request->path, sizeof request->path, "proc/%d/%s", task->pid, want_file[want]);
        process->asked[process->count++] = (struct asked){ task, row, want };
        if (process->count == SLOW_BATCH)
                run_batch(process);
}

static void ask_wanted(struct process *process, struct task *task, struct row *row)
{
        bool kernel = task->stat.flags & TASK_FLAG_KTHREAD;

        if (task->want_io)
                ask(process, task, row, WANT_IO);
        if (task->want_cgroup)
                ask(process, task, row, WANT_CGROUP);
        if (kernel || process->policy == CMDLINE_NONE)
                task->want_cmdline = false;
        if (task->want_cmdline && !task_may_hang(task->stat.state))
                ask(process, task, row, WANT_CMDLINE);
}

/* ---- the collector ----------------------------------------------------------------------------------------------------------- */

/* SIGHUP may have changed what of command lines may be shown. */
static void apply_policy(struct process *process, const struct tick *tick)
{
        if (process->policy_known && process->policy == tick->cmdline)
                return;
        process->policy = tick->cmdline;
        process->policy_known = true;
        for (size_t i = 0; i < task_table_count(process->table); i++)
                task_table_at(process->table, i)->want_cmdline = true;
        for (size_t i = 0; i < sample_rows(tick->sample, SCOPE_PROCESS); i++)
                row_text(sample_row_at(tick->sample, SCOPE_PROCESS, i), PROCESS_CMDLINE, NULL, 0);
}

/* One row. A process that was not read keeps its row as it was. */
static void put_row(struct process *process, const struct tick *tick, struct task *task)
{
        struct key key = { (uint64_t)task->pid, task->stat.start_ns / UINT64_C(10000000) * UINT64_C(10000000) };
        struct row *row = sample_row(tick->sample, SCOPE_PROCESS, key, task->read_ns);

        if (!row)
                return;
        bool new = row_is_new(row), incomplete = !task->sums_valid || task->sums_missed;
        if (new)
                task->want_cmdline = task->want_cgroup = true;
        if (task->exec)
                row_text(row, PROCESS_UNIT, NULL, 0); /* a name from the old program's command line */
        if (new || (task->read && (task->changed || incomplete || task->was_incomplete || task->stat.threads > 1))) {
                put_stat(row, task);
                put_sums(process->table, row, task);
                put_io(row, task);
                row_text(row, PROCESS_COMM, task->stat.comm, task->stat.comm_length);
                put_user(process, row, task);
        }
        task->was_incomplete = incomplete || task->unread;
        if (task->unread)
                row_set(row, PROCESS_PARTIAL, 1);
        if (task->stat.state == 'D' || task->changed)
                put_wchan(process, row, task);
        if (task->read && (task->want_io || task->want_cgroup || task->want_cmdline))
                ask_wanted(process, task, row);
}

enum which { ALL, BUSY, IDLE };

static void put_rows(struct process *process, const struct tick *tick, enum which which, size_t *left)
{
        for (size_t i = 0; i < task_table_count(process->table) && *left > 0; i++) {
                struct task *task = task_table_at(process->table, i);
                bool busy = task->heat > 0 || task->stat.state == 'D';

                if (which != ALL && busy != (which == BUSY))
                        continue;
                put_row(process, tick, task);
                --*left;
                if (i % 64 == 0)
                        tick_alive(tick);
        }
}

static int process_collect(void *own, struct tick *tick)
{
        struct process *process = own;
        uint64_t now = procfs_mono(process->procfs), tenth = tick->interval_ns / 10;
        bool few = tick->detail >= 2; /* for want of room in the ring; before the pass, which may say so for want of time */

        if (users_count(process->users) == 0 && !procfs_live(process->procfs) && tick->number == 0) {
                struct users *users; /* a captured machine is entered after the collectors were opened */
                if (users_new(process->procfs, &users) == 0) {
                        users_free(process->users);
                        process->users = users;
                }
        }
        int r = task_table_pass(process->table, tick);
        if (r < 0)
                return r;
        apply_policy(process, tick);
        const struct task_pass *pass = task_table_last(process->table);
        process->patience_ns = tenth < 2000000 ? 2000000 : tenth > 20000000 ? 20000000 : tenth;
        process->until_ns = tick->deadline_ns && procfs_live(process->procfs) ? tick->deadline_ns : now + UINT64_C(1000000000);
        if (!procfs_live(process->procfs))
                process->until_ns = UINT64_MAX / 2; /* another clock than the helper's; and files that cannot hang */
        sample_scope_begin(tick->sample, SCOPE_PROCESS, pass->start_ns);
        size_t left = few ? BUSIEST : SIZE_MAX;
        put_rows(process, tick, few ? BUSY : ALL, &left);
        if (few)
                put_rows(process, tick, IDLE, &left);
        if (process->count > 0)
                run_batch(process);
        sample_scope_end(tick->sample, SCOPE_PROCESS, pass->end_ns, few ? GONE_UNSAMPLED : GONE_EXITED);
        tick->stuck_reads += slow_abandoned(process->slow);
        return 0;
}

/* How many processes' I/O counters may be read: those of other users take CAP_SYS_PTRACE. */
struct look {
        struct procfs *procfs;
        unsigned seen, denied;
};

static int look_at(void *arg, const char *name, unsigned char type)
{
        struct look *look = arg;
        char text[512];

        if (*name < '1' || *name > '9')
                return 0;
        ssize_t n = procfs_readf(look->procfs, text, sizeof text, "proc/%.20s/io", name);
        look->seen++;
        look->denied += n == -EACCES || n == -EPERM;
        return look->seen >= 4096;
}

static void process_check(struct procfs *procfs, char *line, size_t size)
{
        struct look look = { .procfs = procfs };
        int r = procfs_list(procfs, "proc", look_at, &look);

        if (r < 0)
                snprintf(line, size, "/proc cannot be listed: %s", strerror(-r));
        else if (look.denied > 0)
                snprintf(line, size, "%u processes; I/O bytes of %u of them are refused (other users' take CAP_SYS_PTRACE; with it, "
                        "another user namespace or a security module may still refuse)", look.seen, look.denied);
        else
                snprintf(line, size, "%u processes, all columns", look.seen);
}

const struct collector collector_process = {
        .name = "process",
        .scopes = SCOPE_BIT(SCOPE_PROCESS),
        .open = process_open,
        .collect = process_collect,
        .close = process_close,
        .check = process_check,
};

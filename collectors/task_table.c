/*
 * The pass over /proc. See task_table.h for what is read when.
 *
 * A task whose files say ENOENT or ESRCH has ended: normal in the middle of a pass, its row leaves. Any other trouble (no descriptors
 * left, no memory) says nothing about the task: it stands as it was. When time runs out, threads go first, then the processes that hold
 * no kept descriptor; in the next pass the busiest are read first and the rest goes on where this pass stopped.
 */
#include "collectors/task_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
        DESCRIPTORS_LEFT = 256,  /* of RLIMIT_NOFILE, for everybody else */
        HEAT_RAN = 2, HEAT_MAX = 60,
        SWEEP = 8,               /* holders of a kept descriptor looked at for one that wants it */
};

struct task_table {
        struct task_table *next;
        unsigned references;
        struct procfs *procfs;
        struct task_reader reader;
        struct task_pass last;
        struct task **tasks, **merged; /* sorted by PID; merged: the list being made */
        size_t count, capacity;
        int *ids;
        size_t ids_capacity;
        char *kept_buffer;
        size_t kept_capacity;
        unsigned kept, kept_max;
        size_t sweep;            /* hand of the clock over `tasks` */
        bool cut;                /* the last pass ran out of time */
        int cut_pid;             /* where it stopped */
        bool no_schedstat;       /* the file is not there */
        bool sched_moves;        /* some schedstat was not "0 0 0" */
        uint64_t sysctl_due_ns;
        uint64_t charged;        /* threads looked at without a lease */
        bool crowded;            /* a process that ran found no room in the budget */
        uint64_t evict_due_ns;
};

static struct task_table *tables; /* of this program: one per root that is open */

static unsigned kept_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= 2 * DESCRIPTORS_LEFT)
                return 0;
        rlim_t room = limit.rlim_cur - DESCRIPTORS_LEFT;
        return room < KEPT_MAX ? (unsigned)room : KEPT_MAX;
}

int task_table_get(struct procfs *procfs, struct task_table **out)
{
        struct task_table *table = tables;

        while (table && table->procfs != procfs)
                table = table->next;
        if (!table) {
                table = calloc(1, sizeof *table);
                if (!table)
                        return -ENOMEM;
                table->procfs = table->reader.procfs = procfs;
                table->kept_max = kept_limit();
                table->next = tables;
                tables = table;
        }
        table->references++;
        *out = table;
        return 0;
}

static void unkeep(struct task_table *table, struct task *task)
{
        if (!task->kept)
                return;
        procfs_file_close(&task->file);
        task->kept = false;
        table->kept--;
}

static void uncharge(struct task_table *table, struct task *task)
{
        table->charged -= task->charged;
        task->charged = 0;
}

static void task_free(struct task_table *table, struct task *task)
{
        unkeep(table, task);
        uncharge(table, task);
        task_threads_drop(task);
        free(task);
}

void task_table_put(struct task_table *table)
{
        if (!table || --table->references > 0)
                return;
        for (struct task_table **at = &tables; *at; at = &(*at)->next) {
                if (*at == table) {
                        *at = table->next;
                        break;
                }
        }
        for (size_t i = 0; i < table->count; i++)
                task_free(table, table->tasks[i]);
        free(table->tasks);
        free(table->merged);
        free(table->ids);
        free(table->kept_buffer);
        free(table->reader.tids);
        free(table);
}

const struct task_pass *task_table_last(const struct task_table *table)
{
        return &table->last;
}

size_t task_table_count(const struct task_table *table)
{
        return table->count;
}

struct task *task_table_at(struct task_table *table, size_t i)
{
        return table->tasks[i];
}


bool task_table_has_sched(const struct task_table *table)
{
        return table->reader.has_sched;
}

bool task_table_has_block(const struct task_table *table)
{
        return table->reader.block;
}

/* ---- one process ---------------------------------------------------------------------------------------------------------------- */

/* Give the task a kept descriptor if there is one to have: a free one, or that of a task that did not run for long. */
static void keep(struct task_table *table, struct task *task)
{
        char path[32];

        if (task->kept || table->kept_max == 0)
                return;
        for (unsigned i = 0; table->kept >= table->kept_max && i < SWEEP && table->count > 0; i++) {
                struct task *other = table->tasks[table->sweep++ % table->count];
                if (other->kept && other->heat == 0 && task->heat > HEAT_RAN)
                        unkeep(table, other);
        }
        if (table->kept >= table->kept_max)
                return;
        snprintf(path, sizeof path, "proc/%d/stat", task->pid);
        procfs_file_init(&task->file, path);
        task->kept = true;
        table->kept++;
}

/* *text is valid until the next read. */
static ssize_t read_stat(struct task_table *table, struct task *task, const char **text)
{
        struct task_reader *reader = &table->reader;

        if (task->kept) {
                ssize_t n = procfs_file_read(table->procfs, &task->file, &table->kept_buffer, &table->kept_capacity);
                *text = table->kept_buffer;
                if (n != -EMFILE && n != -ENFILE)
                        return n;
                unkeep(table, task);
                table->kept_max = table->kept; /* somebody else needs descriptors */
        }
        *text = reader->buffer;
        return procfs_readf(table->procfs, reader->buffer, sizeof reader->buffer, "proc/%d/stat", task->pid);
}

static ssize_t read_file(struct task_reader *reader, const struct task *task, const char *name)
{
        return procfs_readf(reader->procfs, reader->buffer, sizeof reader->buffer, "proc/%d/%s", task->pid, name);
}

/* Another process has the PID now. */
static void task_restart(struct task_table *table, struct task *task)
{
        struct task empty = { .pid = task->pid, .fresh = true, .kept = task->kept, .file = task->file };

        uncharge(table, task);
        task_threads_drop(task);
        *task = empty;
}

/* Sets leader_ran. */
static void read_sched(struct task_table *table, struct task *task, bool stat_moved)
{
        struct task_sched sched;

        ssize_t n = table->no_schedstat ? -ENOENT : read_file(&table->reader, task, "schedstat");
        if (n == -ENOENT && procfs_unreadf(table->procfs, "proc/%d/schedstat", task->pid)) {
                task->leader_ran = stat_moved;
                return;
        }
        bool got = n > 0 && task_parse_schedstat(table->reader.buffer, (size_t)n, &sched);
        if (got && (sched.run_ns | sched.delay_ns | sched.slices) != 0)
                table->sched_moves = true;
        got = got && table->sched_moves; /* all zero everywhere: this kernel does not count (sched_info off) */
        task->leader_ran = !got || !task->has_sched ? stat_moved : memcmp(&sched, &task->sched, sizeof sched) != 0;
        if (got)
                task->sched = sched;
        task->has_sched = got;
}

static void read_rss(struct task_reader *reader, struct task *task)
{
        ssize_t n = read_file(reader, task, "statm");

        if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/statm", task->pid))
                return;
        task->has_rss = n > 0 && task_parse_statm(reader->buffer, (size_t)n, reader->page_size, &task->rss);
}

/* `again`: also what was refused before. */
static void read_io(struct task_reader *reader, struct task *task, bool again)
{
        if (task->io_denied && !again)
                return;
        if (task_may_hang(task->stat.state)) {
                task->want_io = true;
                return;
        }
        ssize_t n = read_file(reader, task, "io");
        if (n == -ENOENT && procfs_unreadf(reader->procfs, "proc/%d/io", task->pid))
                return;
        task->has_io = n > 0 && task_parse_io(reader->buffer, (size_t)n, &task->io);
        task->io_denied = n == -EACCES || n == -EPERM;
}

/* What only moves when some thread of the process ran. */
static void read_rest(struct task_reader *reader, struct task *task, bool again)
{
        struct task_status status;

        ssize_t n = read_file(reader, task, "status");
        if (n > 0 && task_parse_status(reader->buffer, (size_t)n, &status)) {
                if (status.has_uid && task->status.has_uid && status.uid != task->status.uid)
                        again = task->want_cgroup = task->want_cmdline = true;
                task->status = status;
        }
        read_io(reader, task, again);
}

/* State and time stamps. A leader that waits in D is as old as its wait, whatever its other threads do. */
static void note_since(struct task *task, char state, uint64_t boot_ns)
{
        char now = task->stat.state;
        bool own = now == 'D' || now == 'T' || now == 't' || now == 'Z';

        if (task->fresh) {
                bool never = task->has_sched && task->sched.run_ns == 0 && task->sched.slices == 0
                        && task->stat.user_ns + task->stat.system_ns == 0;
                task->since_ns = never ? task->stat.start_ns : boot_ns;
        } else if (state != now || (own ? task->leader_ran : task->ran)) {
                task->since_ns = boot_ns;
        }
}

static void note_exec(struct task *task, const struct task_stat *before)
{
        if (task_may_hang(task->stat.state) || (task->stat.flags & TASK_FLAG_KTHREAD))
                return; /* an ending task loses its addresses; a kworker renames itself all the time */
        task->exec = before->image != task->stat.image || before->comm_length != task->stat.comm_length
                || memcmp(before->comm, task->stat.comm, TASK_COMM) != 0;
        if (task->exec)
                task->want_cmdline = task->want_cgroup = true;
        task->exec_many = task->exec && before->threads > 1;
}

static void take_stat(struct task_table *table, struct task *task, const struct task_stat *stat)
{
        struct task_stat before;
        memcpy(&before, &task->stat, sizeof before); /* padding too */
        bool first = !task->known, moved = first || memcmp(&before, stat, sizeof before) != 0;
        uint64_t boot_ns = task->read_ns + table->last.boot_offset_ns;

        memcpy(&task->stat, stat, sizeof *stat);
        task->known = task->read = true;
        task->fresh = first;
        if (first)
                task->want_cmdline = task->want_cgroup = true;
        else
                note_exec(task, &before);
        /* Memory can be taken from a process that sleeps: its rss moves without it. */
        bool worked = first || before.user_ns != stat->user_ns || before.system_ns != stat->system_ns || before.minflt != stat->minflt
                || before.majflt != stat->majflt || before.threads != stat->threads || before.vsize != stat->vsize;
        read_sched(table, task, worked || before.state != stat->state);
        task->ran = first || worked || task->leader_ran;
        task->ran_since_cmdline |= task->ran;
        note_since(task, before.state, boot_ns);
        task->heat = task->ran && !first ? (uint8_t)(task->heat + HEAT_RAN > HEAT_MAX ? HEAT_MAX : task->heat + HEAT_RAN)
                : (uint8_t)(task->heat - (task->heat > 0));

        bool due = task->read_ns >= task->due_ns;
        if (due) {
                /* Spread the first ones, so that a tick does not get all of them. */
                task->due_ns = task->read_ns + (first ? (uint64_t)(task->pid % 64 + 1) * (ROTATION_NS / 64) : ROTATION_NS);
                task->want_cgroup = true;
                task->want_cmdline |= task->ran_since_cmdline;
        }
        bool all = table->reader.all;
        if (task->ran || due || all || before.rss != stat->rss)
                read_rss(&table->reader, task);
        /* A single thread that was not on a core cannot have changed the rest. */
        if (task->ran || all || before.state != stat->state || (due && (!task->has_sched || stat->threads > 1)))
                read_rest(&table->reader, task, due);
        task->changed = moved || task->ran || due;
}

/* Read one process. Sets gone when it is not there (or not ours to see). */
static void task_read(struct task_table *table, struct task *task)
{
        struct task_stat stat;
        const char *text;

        keep(table, task);
        task->read_ns = procfs_mono(table->procfs);
        ssize_t n = read_stat(table, task, &text);
        if (n == -ENOENT && procfs_unreadf(table->procfs, "proc/%d/stat", task->pid)) {
                task->unread = true;
                return;
        }
        if (!procfs_live(table->procfs))
                task->read_ns = procfs_stamp(table->procfs);
        if (n <= 0) {
                task->gone = task_is_gone(n) || n == -EACCES || n == -EPERM || n == 0 || !task->known;
                return;
        }
        if (!task_parse_stat(text, (size_t)n, table->reader.hz, table->reader.page_size, &stat)) {
                task->gone = true;
                return;
        }
        if (task->known && stat.start_ns != task->stat.start_ns) {
                uint64_t read_ns = task->read_ns;
                task_restart(table, task);
                task->read_ns = read_ns;
        }
        take_stat(table, task, &stat);
}

/* ---- threads and sums -------------------------------------------------------------------------------------------------------------- */

static uint64_t budget(const struct tick *tick)
{
        uint64_t threads = THREAD_BUDGET * (tick->interval_ns / UINT64_C(1000000)) / 1000;
        return threads < 64 ? 64 : threads > 4 * THREAD_BUDGET ? 4 * THREAD_BUDGET : threads;
}

/* Which definition this process's sums have from now on. */
static enum sum_mode choose_mode(struct task_table *table, const struct tick *tick, struct task *task)
{
        uint32_t threads = task->stat.threads;
        uint64_t others = table->charged - task->charged, room = budget(tick);

        if (threads <= 1 || table->reader.rows) {
                uncharge(table, task);
                return SUM_ALL;
        }
        bool fits = others + threads <= room;
        if (fits && (task->mode != SUM_LEADER || task->ran)) {
                table->charged = others + threads;
                task->charged = threads;
                return SUM_ALL;
        }
        table->crowded |= task->ran && !fits;
        uncharge(table, task);
        return SUM_LEADER;
}

/* Start over with another definition. */
static void sums_reset(struct task *task, enum sum_mode mode)
{
        task_threads_drop(task);
        memset(&task->ended, 0, sizeof task->ended);
        memset(&task->sums, 0, sizeof task->sums);
        task->sums_valid = task->fresh; /* a process seen for the first time has no difference to spoil */
        task->mode = mode;
}

/* Some thread ran too shortly for stat to show it. */
static void note_threads_ran(struct task_table *table, struct task *task)
{
        char state = task->stat.state;

        task->ran = task->ran_since_cmdline = task->changed = true;
        task->heat = (uint8_t)(task->heat + HEAT_RAN > HEAT_MAX ? HEAT_MAX : task->heat + HEAT_RAN);
        note_since(task, state, task->read_ns + table->last.boot_offset_ns);
        read_rss(&table->reader, task);
        read_rest(&table->reader, task, false);
}

/* `late`: no time for threads. */
static void task_sum(struct task_table *table, const struct tick *tick, struct task *task, bool late)
{
        enum sum_mode mode = choose_mode(table, tick, task);
        bool many = task->stat.threads > 1;

        task->sums_missed = false;
        task->sums_valid = true;
        if (mode != task->mode || task->exec_many)
                sums_reset(task, mode);
        if (mode == SUM_LEADER || (!many && !table->reader.rows && task->thread_count <= 1)) {
                if (mode == SUM_ALL && task->thread_count)
                        task_threads_drop(task);
                task_sums_leader(&table->reader, task);
        } else if (late || !task_threads_read(&table->reader, task)) {
                task->sums_valid = false;
        } else if (!task->ran && task->threads_ran) {
                note_threads_ran(table, task);
        }
        if (mode == SUM_LEADER && !task->ran)
                read_io(&table->reader, task, false); /* nothing cheaper tells whether its threads did something */
}

/* Room in the budget for those who run: processes that slept for long give theirs up. */
static void evict(struct task_table *table, uint64_t now)
{
        if (!table->crowded || now < table->evict_due_ns)
                return;
        for (size_t i = 0; i < table->count; i++) {
                struct task *task = table->tasks[i];
                if (task->charged > 0 && task->heat == 0) {
                        uncharge(table, task);
                        sums_reset(task, SUM_LEADER);
                        task->sums_valid = false;
                        task->changed = true;
                }
        }
        table->crowded = false;
        table->evict_due_ns = now + ROTATION_NS;
}

/* ---- the pass ----------------------------------------------------------------------------------------------------------------------- */

static int id_order(const void *a, const void *b)
{
        const int *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

static ssize_t list(struct task_table *table)
{
        ssize_t n = procfs_ids(table->procfs, "proc", &table->ids, &table->ids_capacity);

        for (ssize_t i = 1; i < n; i++) {
                if (table->ids[i - 1] >= table->ids[i]) { /* the kernel gives them in order; a captured folder does not */
                        qsort(table->ids, (size_t)n, sizeof *table->ids, id_order);
                        break;
                }
        }
        return n;
}

static bool reserve(struct task_table *table, size_t wanted)
{
        if (wanted <= table->capacity)
                return true;
        size_t capacity = table->capacity ? table->capacity : 256;
        while (capacity < wanted)
                capacity *= 2;
        struct task **tasks = reallocarray(table->tasks, capacity, sizeof *tasks);
        if (tasks)
                table->tasks = tasks;
        struct task **merged = reallocarray(table->merged, capacity, sizeof *merged);
        if (merged)
                table->merged = merged;
        if (!tasks || !merged)
                return false;
        table->capacity = capacity;
        return true;
}

/* Make the table hold exactly the listed PIDs: known ones as they are, new ones unread. */
static int merge(struct task_table *table, size_t n)
{
        size_t old = 0, made = 0;

        if (!reserve(table, n))
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                int pid = table->ids[i];
                while (old < table->count && table->tasks[old]->pid < pid)
                        task_free(table, table->tasks[old++]);
                if (old < table->count && table->tasks[old]->pid == pid) {
                        table->merged[made++] = table->tasks[old++];
                        continue;
                }
                struct task *task = calloc(1, sizeof *task);
                if (!task)
                        continue; /* it comes with the next pass */
                task->pid = pid;
                task->file.fd = -1;
                table->merged[made++] = task;
        }
        while (old < table->count)
                task_free(table, table->tasks[old++]);
        struct task **swap = table->tasks;
        table->tasks = table->merged;
        table->merged = swap;
        table->count = made;
        return 0;
}

static bool late(const struct task_table *table, const struct tick *tick)
{
        return tick->deadline_ns && procfs_live(table->procfs) && procfs_mono(table->procfs) >= tick->deadline_ns;
}

/* Read all, or as many as there is time for. False when it was cut. */
static bool read_all(struct task_table *table, const struct tick *tick)
{
        size_t start = 0, busiest = 0;
        bool hurry = table->cut;

        for (size_t i = 0; hurry && i < table->count; i++) {
                struct task *task = table->tasks[i];
                if (task->heat > 0 && busiest < BUSIEST) {
                        task_read(table, task);
                        busiest++;
                }
                if (task->pid <= table->cut_pid)
                        start = i + 1;
        }
        for (size_t i = 0; i < table->count; i++) {
                struct task *task = table->tasks[(start + i) % table->count];
                if (task->read || task->gone || task->unread)
                        continue;
                if (i % 16 == 0 && late(table, tick)) {
                        table->cut_pid = task->pid - 1;
                        return false;
                }
                if (i % 64 == 0)
                        tick_alive(tick);
                task_read(table, task);
        }
        return true;
}

static bool sum_all(struct task_table *table, const struct tick *tick)
{
        bool out = false;

        for (size_t i = 0; i < table->count; i++) {
                struct task *task = table->tasks[i];
                if (!task->read || task->gone)
                        continue;
                if (i % 64 == 0)
                        tick_alive(tick);
                bool threads = task->stat.threads > 1 || table->reader.rows;
                out = out || (threads && late(table, tick));
                task_sum(table, tick, task, out && threads);
        }
        return !out;
}

static void drop_gone(struct task_table *table)
{
        size_t left = 0;

        for (size_t i = 0; i < table->count; i++) {
                struct task *task = table->tasks[i];
                if (task->gone || !task->known)
                        task_free(table, task);
                else
                        table->tasks[left++] = task;
        }
        table->count = left;
}

/* What may have been switched since. A kernel without the switch (before 5.14) counts delays when it can. */
static void look_at_switches(struct task_table *table, uint64_t now)
{
        char text[16];
        struct scan scan;
        uint64_t value = 1;

        if (now < table->sysctl_due_ns)
                return;
        table->sysctl_due_ns = now + ROTATION_NS;
        ssize_t n = procfs_read(table->procfs, "proc/sys/kernel/task_delayacct", text, sizeof text);
        if (n > 0) {
                scan_init(&scan, text, (size_t)n);
                if (!scan_u64(&scan, &value))
                        value = 1;
        }
        table->reader.block = value != 0;
}

static void prepare(struct task_table *table, const struct tick *tick)
{
        struct procfs_clock clock;

        procfs_clock(table->procfs, &clock);
        table->last.boot_offset_ns = table->reader.boot_offset_ns = clock.boot_ns - clock.mono_ns;
        table->last.start_ns = procfs_mono(table->procfs);
        table->last.dstate = 0;
        table->reader.hz = procfs_hz(table->procfs);
        table->reader.page_size = procfs_page_size(table->procfs);
        table->reader.rows = (tick->scopes & SCOPE_BIT(SCOPE_THREAD)) != 0;
        table->reader.all = tick->capture;
        look_at_switches(table, table->last.start_ns);
        for (size_t i = 0; i < table->count; i++) {
                struct task *task = table->tasks[i];
                task->read = task->unread = task->gone = task->fresh = task->changed = task->ran = task->leader_ran = false;
                task->exec = task->exec_many = false;
        }
}

int task_table_pass(struct task_table *table, struct tick *tick)
{
        ssize_t n = list(table);

        if (n < 0)
                return (int)n;
        int r = merge(table, (size_t)n);
        if (r < 0)
                return r;
        prepare(table, tick);
        bool complete = read_all(table, tick);
        table->cut = !complete;
        table->reader.has_sched = table->sched_moves;
        bool threads = sum_all(table, tick);
        drop_gone(table);
        for (size_t i = 0; i < table->count; i++) {
                table->last.dstate += table->tasks[i]->stat.state == 'D';
                complete = complete && !table->tasks[i]->unread;
        }
        evict(table, table->last.start_ns);
        if (!threads && tick->detail < 1)
                tick->detail = 1;
        if (!complete && tick->detail < 2)
                tick->detail = 2;
        tick->fds += table->kept;
        table->last.end_ns = procfs_mono(table->procfs);
        return 0;
}

#pragma once
/*
 * The processes of this machine as last read, and their threads: one pass over /proc that the process and the thread collector share.
 *
 * Keyed by PID and start time; sorted by PID, so that a pass is a merge with the folder's listing. What a pass reads, and why so little:
 *  - stat of every process, through a kept descriptor for the KEPT_MAX busiest (half the cost; each costs 5 KiB of kernel memory);
 *  - schedstat of every leader: it moves whenever the thread was on a core, also when stat does not (20 short wake-ups are no tick);
 *  - status, io only where one of the two moved (or some thread's schedstat), statm also where stat's rss moved and once in ROTATION_NS;
 *  - task/ of processes with several threads, see "Sums".
 *
 * Sums over threads (run delay, switches, block delay): the kernel keeps them per thread only. A row has one definition at a time:
 *  - SUM_ALL: what live threads show plus what ended ones last showed. Every thread is looked at in every tick.
 *  - SUM_LEADER: the leader's own, for processes beyond THREAD_BUDGET threads a second of interval while nobody holds a lease on threads.
 * While capturing all of it is read in every tick, for any of it may be what the replay asks for. Over a captured machine, what a tree does
 * not tell stands as it was: a process without its stat there has not ended (`unread`).
 *
 * In the tick in which the definition changes, a thread could not be looked at in time, or a counter fell (exec by another thread than the
 * leader), the sums are absent: no reader ever takes a difference across it.
 */
#include "collectors/collector.h"
#include "collectors/task.h"

/* Since when a row is in its state is kept to the ms: an age needs no more, and ns are noise, a quarter of a log. */
#define SINCE_NS UINT64_C(1000000)

enum {
        KEPT_MAX = 1024,
        BUSIEST = 1000,          /* processes that are read even when time is short */
        THREAD_BUDGET = 2048,    /* threads looked at in a second of interval without a lease */
};
#define ROTATION_NS UINT64_C(10000000000)

enum sum_mode { SUM_UNSET, SUM_ALL, SUM_LEADER };

struct task_sums {
        uint64_t delay_ns, voluntary, involuntary, block_ns;
};

struct thread {
        int tid;
        bool seen;               /* in the listing of this pass */
        bool fresh;              /* added in this pass */
        bool has_stat, has_sched, has_switches, has_io, changed;
        uint64_t read_ns;        /* CLOCK_MONOTONIC */
        uint64_t since_ns;       /* boot time */
        struct task_stat stat;   /* only while threads are rows, or for block delay */
        struct task_sched sched;
        uint64_t voluntary, involuntary;
        struct task_io io;
        bool want_io;            /* through slow.h, by thread.c */
        uint64_t ticket;         /* hung read of it, slow.h */
};

struct task {
        int pid;
        uint64_t read_ns;        /* CLOCK_MONOTONIC of the read of stat */
        uint64_t since_ns;       /* boot time */
        struct task_stat stat;
        struct task_sched sched;
        struct task_status status;
        struct task_io io;
        uint64_t rss;
        bool known;              /* stat was read once */
        bool gone;
        bool fresh;              /* first seen in this pass */
        bool read;               /* read in this pass; false: for want of time it stands as it was */
        bool unread;             /* captured: this tree has its folder, and no stat in it */
        bool changed;            /* some field differs from the pass before */
        bool ran;                /* on a core since the pass before, as far as the files tell */
        bool leader_ran;
        bool threads_ran;        /* some thread did, its schedstat says */
        bool exec, exec_many;    /* another program image since the pass before; of a process that had several threads */
        bool has_sched, has_rss, has_io;
        bool io_denied;          /* not ours to read: asked again in rotation only */
        bool want_io, want_cmdline, want_cgroup; /* through slow.h, by process.c */
        bool ran_since_cmdline;
        bool was_incomplete;     /* the row went out with absent or partial sums */
        uint8_t heat;            /* ticks in which it ran, decaying */
        uint64_t due_ns;         /* next rotation */
        uint64_t ticket;         /* hung read of it, slow.h */

        enum sum_mode mode;
        bool sums_valid, sums_missed; /* missed: some thread's last moments were not seen */
        struct task_sums sums, ended;
        struct thread *threads;  /* sorted by TID */
        size_t thread_count, thread_capacity;
        uint32_t charged;        /* threads counted against the budget */

        bool kept;
        struct procfs_file file;
};

struct task_table;

/* One table a root, shared by those who open it. 0 or -ENOMEM. */
int task_table_get(struct procfs *, struct task_table **);
void task_table_put(struct task_table *);

struct task_pass {
        uint64_t start_ns, end_ns;   /* CLOCK_MONOTONIC */
        uint64_t boot_offset_ns;     /* boot = monotonic + this */
        unsigned dstate;             /* leaders in D state */
};
/* Read everything for this tick. -errno when /proc cannot be listed; the table stands as it was. */
int task_table_pass(struct task_table *, struct tick *);
const struct task_pass *task_table_last(const struct task_table *);
size_t task_table_count(const struct task_table *);
struct task *task_table_at(struct task_table *, size_t);
/* schedstat and delay accounting are available on this kernel. */
bool task_table_has_sched(const struct task_table *);
bool task_table_has_block(const struct task_table *);

/* ---- between task_table.c and task_threads.c ---------------------------------------------------------------------------------------- */

enum { TASK_BUFFER = 8192 };
struct task_reader {
        struct procfs *procfs;
        char buffer[TASK_BUFFER];
        int *tids;
        size_t tids_capacity;
        unsigned hz, page_size;
        uint64_t boot_offset_ns;
        bool rows;               /* threads are rows in this pass: read their stat and io */
        bool all;                /* capturing: whatever ran or not */
        bool block;              /* kernel.task_delayacct */
        bool has_sched;
};
/* Look at every thread of a process and sum; sets sums, ended, sums_valid, sums_missed. False when memory is short or task/ cannot be
 * read. */
bool task_threads_read(struct task_reader *, struct task *);
/* Forget the threads. */
void task_threads_drop(struct task *);
/* Sums of a process whose threads are not looked at: a single thread, or the leader only. */
void task_sums_leader(struct task_reader *, struct task *);

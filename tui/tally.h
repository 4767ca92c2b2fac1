#pragma once
/*
 * The machine in one look, from a state: what head lines, the load line of tables, `why` and the verdict all say, computed once.
 */
#include "sample/state.h"

/* Names in here are strangers' bytes: clean them where they are printed. */
struct tally_waiters {           /* threads of one process in a completion-queue wait */
        char process[64];
        int pid;
        /* in the wait; parked for the whole tick; and nothing of theirs on a device. None with storage pending */
        unsigned threads, parked, proved;
        double woke;             /* times they woke in the interval */
        unsigned first_core, last_core, cores;
        char names[64];          /* "Proactor0..7", or the one name */
};

struct tally_task {              /* a task in D state */
        int pid, tid;
        char name[64], wchan[64], cmdline[128];
        double age;              /* seconds */
};

enum tally_way { TALLY_READ, TALLY_WRITE, TALLY_DISCARD, TALLY_FLUSH, TALLY_WAYS };

struct tally_device {
        const struct state_row *row;
        char name[64], label[64]; /* label: dm or LVM name, "" if none */
        double util, queue, inflight, r_await, w_await, rate, kb; /* -1 absent */
        double done[TALLY_WAYS], waited[TALLY_WAYS]; /* requests that ended, and ms that they took altogether, both a second; 0 none */
        double stuck;            /* seconds */
        bool whole;              /* counted in totals: neither partition nor stacked */
};

enum tally_part { TALLY_DISK, TALLY_URING, TALLY_OTHER, TALLY_PARTS };

struct tally_who {               /* a process that caused a part of wa */
        int pid;
        unsigned threads;
        char name[64];
        double share;            /* % of one core */
};

struct tally_io {                /* a process that reads or writes */
        int pid;
        char name[64];
        double kb;               /* per second, read and written */
        double aio, rings;       /* contexts, instances; -1 not known */
        unsigned ring_flags;     /* bits of waiter.ring_flags */
};

enum { TALLY_WAITERS = 32, TALLY_TASKS = 16, TALLY_DEVICES = 8, TALLY_WHO = 4, TALLY_IO = 3 };
#define TALLY_WHO_SHARE 0.5      /* % of one core: less is nobody's */

struct tally {
        bool valid;              /* there is an interval */
        double seconds;
        unsigned cores;
        struct value load, us_sy, nice, hi_si, steal, idle; /* SUM, % of one core */
        double load_share;       /* load / (100 * cores), % */
        struct value wa, disk, uring, other;                /* SUM; marks from bounds */
        bool threads_known;      /* all tasks' wait channels could be read, so a waiter in io_uring would have been seen */
        const char *level;       /* weakest evidence that covers 5% of the wa or more: exact|parked|seen|bound|none; NULL without wa */
        double taken_back;       /* ms the kernel took back */
        unsigned busiest_core, quietest_core;
        double busiest, quietest;/* load of those, % */
        double load1, load5, load15; /* -1 absent */
        double running;          /* at the sample, without watopd itself; -1 absent */
        double blocked, dstate;  /* at the sample; -1 absent */
        double d_seen;           /* D-state tasks that the sub-samples of the interval saw, summed; -1: none were taken */
        double io_some, io_full; /* PSI io over the interval, %; -1 absent */
        double io_some_uring, io_full_uring; /* part of them that parked io_uring threads explain; -1 not known */
        double io_some_uring_low, io_some_uring_high, io_full_uring_low, io_full_uring_high; /* bounds of these; -1 not known */
        int tracer;              /* metric self.tracer: 0 not possible, 1 ready, 2 attached; -1 not known */
        struct tally_who who[TALLY_PARTS][TALLY_WHO]; /* largest share first */
        size_t who_count[TALLY_PARTS];
        struct tally_io io[TALLY_IO]; /* most bytes first */
        size_t io_count;         /* all of them */
        double dirty, swap_used, memory_used, memory_total, swap_in, swap_out, reclaim; /* bytes, bytes/s; -1 absent */
        struct tally_waiters waiters[TALLY_WAITERS]; /* most threads first */
        size_t waiter_count, waiter_threads;
        size_t storage_threads;  /* in the wait too, but with storage of their own pending: they are not idle */
        struct tally_task tasks[TALLY_TASKS];        /* oldest first */
        unsigned helpers;        /* D-state threads of watopds that hang with a task they read; not in the counts */
        size_t task_count;       /* all of them, each once; may exceed TALLY_TASKS */
        /* how many tasks are in D state, as far as is known: of all threads when they were looked at (threads_known) */
        double d_tasks;
        unsigned apart;          /* tasks in D state that wait for no I/O (wchan_apart): in none of the counts */
        unsigned d_device;       /* of task_count: their wait channels are those of waits for block devices */
        unsigned d_elsewhere;    /* of task_count: their wait channels never are */
        struct tally_device devices[TALLY_DEVICES];  /* busiest first, stuck ones before all */
        size_t device_count;     /* all that did something or have requests in flight */
        double in_flight;        /* over all devices, stacked ones too: 0 means that there is nothing */
        bool devices_known;      /* some device's interval is known: else nothing may be said of devices */
        unsigned uncounted;      /* whole devices with iostats off */
        char top[64];            /* process with most CPU */
        double top_cpu;
};

/* True for the helper thread of some watopd that reads a sick task's files and hangs with it: it is no victim, so it is not named among the
 * waiters. */
bool tally_is_helper(const char *name, const char *wchan);
void tally_make(const struct state *, struct tally *);
/* Parts of it: who and io. */
void tally_who_make(const struct state *, struct tally *);
/* How such a process reads and writes where its waits are not counted, or counted although it sleeps; NULL: not known, or by plain
 * calls. */
const char *tally_engine(const struct tally_io *);
/* The weakest evidence that a twentieth or more of the iowait rests on: of one core, or (only NULL) of all that `keep` lets in (NULL: all).
 * NULL when there was no iowait to split. */
const char *tally_evidence(const struct state *, const struct state_row *only, bool (*keep)(const struct state_row *, void *), void *own);
/* "load 309.2% of 800% (38.7%) = us+sy 211.0 + hi+si 98.2" and "wa 490.9 = disk 0.3 + uring 490.6 + other 0.0": one line each, no
 * newline. */
size_t tally_load_line(const struct tally *, char *line, size_t size);
size_t tally_wa_line(const struct tally *, char *line, size_t size);

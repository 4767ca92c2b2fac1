#pragma once
/*
 * What the files of the waiters' collector share: uring_table.c keeps waiters and the processes that own rings, uring_watch.c reads them
 * and watches who is counted, uring_busy.c looks at those that run in between, uring.c does the steps of a tick and gives the evidence,
 * uring_rows.c writes the rows.
 */
#include "collectors/uring.h"

enum {
        WAITERS_MAX = 8192,
        OWNERS_MAX = 256,
        SHARE = 60,                 /* looking for candidates takes at most 1/60 of the time, */
        CREDIT_MAX_NS = 20000000,   /* saved up to 20 ms, */
        FIRST_NS = 200000000,       /* 200 ms in the first tick (who waits then must be known for the first report), */
        STEP_NS = 5000000,          /* 5 ms in one tick */
        SUB_STEP_NS = 2000000,      /* and 2 ms in one sub-sample. */
        BONUS_MAX_NS = 300000000,   /* While a candidate is neither proved nor refuted: 300 ms more, */
        BONUS_SHARE = 500,          /* filled up again at 1/500, */
        BONUS_STEPS = 5,            /* in steps five times as long. */
        TRACED_SHARE = 4,           /* while tracing says who sleeps: a quarter of that, and no bonus, */
        TRACED_PASS = 32,           /* and one pass of so many looks at wait channels */
        IDLE_TICKS = 3,             /* without iowait for so many ticks: forget the waiters */
        CORES_SEEN = 16384,
        AWAY_TICKS = 10,            /* one that comes and goes is remembered so long: it may have waited unseen */
        LINKS = 256, FIRST_LINKS = 4096,
        HOT_MAX = 128,              /* recent D-state threads read in a sub-sample */
        FULL_PASS = 8,
        STEADY_READS = 5,           /* reads of procs_blocked that agree */
        PASS_CORES = 4096,          /* threads of one pass, in D state or runnable, whose core is kept */
        MEMORY_NS = 1000000000,     /* of what short ticks add up */
        BUSY_LOOKED_AT = 8,         /* moving threads looked at in one sub-sample */
        BUSY_CORES = 6,             /* kept of those on which one slept in an interval */
        BUSY_CLEAN = 3,             /* looks at the ring of one that say something */
};

struct point { bool cq; uint64_t switches; unsigned cpu; };

struct busy { /* of the interval, but chance and proved, which are of the one before */
        unsigned looks, extra, unread;  /* at its ring: all; with more outstanding than polls; incomplete */
        unsigned asleep, counted;       /* as in struct iowait_witness */
        uint64_t switches;
        bool armed, proved;
        unsigned cores[BUSY_CORES], core_count;
        double chance;
};

struct waiter {
        struct thread thread;       /* as read last */
        char process[COMM_SIZE], wchan[WCHAN_SIZE];
        enum wait_kind wait;
        int ring_fd;
        uint64_t switches, since_ns;
        bool has_switches, gone;
        bool plain;                 /* in D state, in a wait that is never iowait, as long as its switches are */
        uint64_t plain_switches;
        struct point from, next;    /* `before` of the tick before, and of this one */
        bool parked;
        unsigned away;              /* ticks since it was last met in a completion-queue wait */
        unsigned cold;              /* ticks since it was last met in D state; AWAY_TICKS + 1 = never */
        /* of this sleep */
        bool marked, refuted, proven;
        struct ring_facts proof;    /* its ring when it was proven */
        int64_t idle_ns, iowait_ns, wall_ns;
        unsigned clean;
        double chance;
        int verdict;
        struct busy busy;
};

/* Of a thread in D state, or a runnable one; elsewhere: its wait is for no block device; undelayed: in no block delay. */
struct pass_core { unsigned cpu; bool running, elsewhere, undelayed; };

struct delays;
struct pass_sample { unsigned count; uint64_t blocked; unsigned d, no_d, full; };

struct uring {
        struct waiter *waiters;
        size_t waiter_count, waiter_capacity;
        int32_t *slots;             /* hash of tid to position + 1 */
        size_t slot_count;
        struct owner **owners;
        size_t owner_count;
        struct finder finder, direct; /* direct: for single processes */
        struct iowait_witness *witnesses;
        size_t witness_capacity;
        struct iowait_seen *seen;
        unsigned *seen_sample;      /* stamp of the sample that counted this core last */
        struct pass_core pass_cores[PASS_CORES];
        size_t pass_core_count;
        unsigned stamp;             /* of seen_sample: one a sample */
        unsigned pass_d;            /* D-state threads of the pass that may be counted */
        bool in_pass, turned;
        bool traced;                /* tracing says who sleeps: see uring_traced.c */
        bool frozen;                /* somebody walks the table: it may not grow */
        size_t seen_count, seen_capacity;
        char *text;                 /* kept buffer: /proc/stat, /proc/diskstats */
        size_t text_capacity;
        int *ids;
        size_t id_capacity;
        struct procfs_file stat, diskstats;
        uint64_t credit_ns, bonus_ns, credit_at_ns;
        uint64_t pause_ns;          /* capturing: no pass in a sub-sample until then; they are whole, and a quarter of the time at most */
        unsigned idle_ticks, pass_number;
        bool whole, checked;        /* all tasks of the machine can be seen */
        bool looks_inside;          /* and their wait channels, but of those that a security module shields */
        bool pass_waiting;          /* a pass ended in `before`; counted once procs_blocked of the tick is known */
        /* of the interval */
        unsigned samples, full, blocked_no_d, unresolved, cheap, cheap_no_d, subs, last_d;
        uint64_t blocked_sum, d_sum, cheap_blocked, cheap_d, blocked_now, blocked_min, sub_blocked, sub_d;
        bool pass_done, pass_unknown, sub_in_flight, overflow, have_blocked;
        struct pass_sample last_sample; /* of the pass at the tick: it belongs to both intervals */
        bool carried_cores;
        unsigned carried, carried_no_d;
        uint64_t blocked_max;
        unsigned reads;             /* of procs_blocked */
        struct iowait_read instants[IOWAIT_READS]; /* of them one a sub-sample */
        size_t instant_count;
        uint64_t total_subs, total_sub_blocked, total_sub_d;
        unsigned marked_count;
        size_t busy_at;             /* rotation of looks */
        bool any_iowait;            /* on some core, in the interval before */
        bool waits_unknown;         /* the last pass that read wait channels could not read all */
        struct holds holds;
        struct delays *delays;
        uint64_t forks;             /* of /proc/stat, as read last */
        struct d_thread *d_threads;   /* lent to the evidence */
        size_t d_thread_capacity;
};

/* ---- uring_table.c ---- */
struct waiter *waiter_find(struct uring *, int tid);
/* NULL when memory is short or there are too many; moves the others in memory. */
struct waiter *waiter_add(struct uring *, const struct thread *);
void waiters_drop(struct uring *);              /* those that are gone */
struct owner *owner_find(struct uring *, int tgid);
struct owner *owner_add(struct uring *, int tgid); /* found or added; NULL when there are too many */
void owners_drop(struct uring *);               /* those without a waiter */

/* ---- uring_watch.c ---- */
struct watch_note { struct uring *u; struct procfs *procfs; };
uint64_t watch_boot_ns(struct procfs *);
/* Read a known waiter again; sets gone, and begins a new sleep if it is one. */
void waiter_reread(struct procfs *, struct waiter *);
bool waiter_is_witness(const struct waiter *);   /* it sleeps in a completion-queue wait, and both switch counts are known */
found_fn watch_found;                           /* arg: struct watch_note */
void watch_blocked(struct uring *, uint64_t blocked); /* procs_blocked was read */
/* And for the first time at this sub-sample or tick, by us on that core. */
void watch_instant(struct uring *, uint64_t blocked, int cpu);
int watch_cpu(const struct procfs *);            /* where we run, -1 not known */
void watch_count_pass(struct uring *, uint64_t blocked);
bool watch_count_cores(struct uring *, const struct pass_core *, size_t count); /* one sample into `seen`; false when memory is short */
bool watch_learns(const struct uring *);
void watch_add_sample(struct uring *);           /* the pass counted last, once more */
/* Search on for at most `most` ns. True when a pass ended. */
bool watch_search(struct uring *, struct tick *, uint64_t most, uint64_t blocked);
bool watch_cheap(struct uring *, struct procfs *, uint64_t blocked, int cpu); /* a sub-sample without a pass, when all counted are known */
bool watch_read_blocked(struct uring *, struct procfs *, uint64_t *blocked, int *cpu); /* cpu: as in struct iowait_read */
bool watch_in_flight(struct uring *, struct procfs *); /* any device; true when not known */

/* ---- uring_traced.c ---- */
bool traced_whole(const struct evidence *);      /* every core was traced for the whole interval */
void traced_waiters(struct uring *, struct tick *); /* those that tracing saw asleep at the last tick join the table */

/* ---- uring_busy.c ---- */
bool busy_moves(const struct waiter *);
bool busy_any(const struct uring *);
bool busy_rests(const struct uring *);               /* all are proved, and no device works: half of the looks will do */
void busy_note_core(struct waiter *, unsigned cpu);  /* it was met there in its wait */
void busy_ahead(struct uring *, struct procfs *);    /* around a read of procs_blocked */
void busy_behind(struct uring *, struct procfs *, uint64_t blocked, int cpu);
enum iowait_ring busy_judge(struct uring *, struct tick *, struct waiter *, unsigned *scans);
void busy_turn(struct waiter *);                     /* the next interval starts */

/* ---- uring_delay.c ---- */
void delays_collect(struct uring *, struct tick *);  /* behind /proc/stat: sets the evidence's delay_ns */
bool delays_counts(const struct delays *, const struct thread *); /* its waits are in its block delay */
void delays_free(struct delays *);                   /* takes NULL */

/* ---- uring_rows.c ---- */
void uring_write_rows(struct uring *, struct tick *);

#pragma once
/*
 * Inside of the waiters' collector: finding threads that wait (uring_find.c), what their rings hold (uring_ring.c), and the collector that
 * turns both into evidence and rows (uring.c). Only uring_judged is for others.
 */
#include "collectors/collector.h"

/* After iowait_split: write what it found out about each waiter into its row (waiter.witness). */
void uring_judged(struct sample *, const struct evidence *);

/* ---- one thread, as its files say ------------------------------------------------------------------------------------------------- */

enum wait_kind { WAIT_UNKNOWN, WAIT_OTHER, WAIT_CQ }; /* CQ: in io_uring_enter, waiting for completions */

enum { COMM_SIZE = 64, WCHAN_SIZE = 64 }; /* a comm is 16 bytes; kworkers show up to 63 */

struct thread {
        int tid, tgid;
        char state;                  /* 0 = not read */
        unsigned cpu;                /* field 39: where it went to sleep */
        uint64_t flags, threads;     /* fields 9 and 20 */
        uint64_t born_ns;            /* field 22, boot time in whole ticks */
        uint64_t block_ns;           /* field 42, block delay; 0 without kernel.task_delayacct */
        char comm[COMM_SIZE];
};

/* Parse a stat line. False when it is not one. */
bool thread_parse(struct thread *, const char *text, size_t length, unsigned hz);
/* 0, -ESRCH / -ENOENT gone, other errors of the read. */
int thread_read(struct procfs *, int tgid, int tid, struct thread *);
/* A D-state thread in a wait that never counts as iowait, both now and when its channel was read (so its switch counts say). *switches: of
 * this sleep. */
bool thread_waits_plainly(struct procfs *, const struct thread *, const char *wchan, uint64_t *switches);
/* Sum of both switch counts of /proc/PID/task/TID/status. */
int thread_switches(struct procfs *, int tgid, int tid, uint64_t *switches);
/* Where an S or D thread sleeps: wchan ("" when it may not be seen), kind, and with WAIT_CQ the ring's descriptor: >= 0, or -1 when not
 * known (no permission, or a registered ring). *denied: the process's syscall file was refused before; kept by the caller per process. */
enum wait_kind thread_wait(struct procfs *, int tgid, int tid, char wchan[WCHAN_SIZE], int *ring_fd, bool *denied);

/* ---- finding ---------------------------------------------------------------------------------------------------------------------- */

/* A pass over all threads of the machine, done in pieces. */
struct finder {
        int *pids, *tids;
        size_t pid_capacity, tid_capacity, pid_count, at;
        bool running;                /* a pass is under way */
        bool waits;                  /* this pass also looks for completion-queue waits */
        bool holes;                  /* captured: some task is not in this tree, so who is in D state is not known */
        bool unknown;                /* some wait channel could not be seen, or a process not listed; denied: by lack of rights */
        bool denied;
        uint64_t min_blocked;        /* least procs_blocked read while the pass ran */
        unsigned d_count;            /* D-state threads met in this pass, of whatever kind */
        int self;                    /* our own process: it runs while it looks */
};

struct found { /* what a pass reports for each thread of interest: in a CQ wait, in D state, runnable, or an io_uring worker */
        struct thread thread;
        enum wait_kind wait;
        char wchan[WCHAN_SIZE];
        int ring_fd;
};
typedef void found_fn(void *arg, const struct found *);

void finder_fini(struct finder *);
void finder_start(struct procfs *, struct finder *, bool waits);
/* Go on until the pass is done (true) or the clock passes stop_ns (0 = no limit). */
bool finder_step(struct procfs *, struct finder *, uint64_t stop_ns, found_fn *, void *arg);
/* All threads of one process. 0 or -errno. */
int finder_process(struct procfs *, struct finder *, int tgid, found_fn *, void *arg);

/* ---- rings ------------------------------------------------------------------------------------------------------------------------ */

struct ring_facts { /* one fdinfo of an io_uring descriptor */
        bool valid;                  /* all that is needed was there: the lock was free, the kernel new enough (5.17) */
        uint32_t sq_head, cq_tail;   /* cached ones: submitted, completed; modulo 2^32 */
        unsigned polls, overflow;    /* entries of PollList and CqOverflowList */
        uint32_t entries;            /* SqMask + 1; 0 unknown */
        int64_t sq_thread;           /* -1 none */
};
/* Parse fdinfo text. False when it is not a ring's at all; facts->valid says whether it is complete. */
bool ring_parse(struct ring_facts *, const char *text, size_t length);
/* Requests submitted and not completed, as far as a subtraction can tell: a multishot request makes it too low. */
int64_t ring_pending(const struct ring_facts *);
enum { RING_OPS = 80 };              /* operations are counted by number; the last counts all beyond */
/* Add the operations of an fdinfo's PollList. */
void ring_count_ops(const char *text, size_t length, uint32_t ops[RING_OPS]);
/* "RECV 12, POLL_ADD 3": the most frequent first; whole words only. Returns the length. */
size_t ring_say_ops(const uint32_t ops[RING_OPS], char *text, size_t size);

enum worker_state { WORKERS_NONE, WORKERS_IDLE, WORKERS_BUSY, WORKERS_UNKNOWN };

enum { RINGS_MAX = 128, WORKERS_MAX = 64 };

struct ring_end {
        int fd;
        struct ring_facts from, next, to; /* start of the interval, start of the next one, end of the interval */
        bool overcounted;            /* seen with more polls than requests: multishot */
};

struct owner { /* a process with a thread in a completion-queue wait */
        int tgid;
        uint64_t born_ns;
        char comm[COMM_SIZE];
        bool used, refused;          /* listing of descriptors refused */
        struct ring_end rings[RINGS_MAX];
        size_t ring_count;
        bool complete;               /* every descriptor has been looked at */
        bool overfull, passthrough;  /* more rings than fit; holds a descriptor of a passthrough device */
        int list_after;              /* rotation: descriptors up to this one are done */
        uint64_t listed_ns, scanned_ns;
        int workers[WORKERS_MAX];
        size_t worker_count;
        bool workers_overfull;
        bool limited;                /* its storage is throttled by a control group, */
        uint64_t limit_ns;           /* as read then; 0 = never */
        uint64_t scan_tick;          /* its workers were looked for in this tick (number + 1), */
        enum worker_state scan_workers;
        uint32_t ops[RING_OPS];      /* of the armed polls on all its rings, as read last behind /proc/stat */
};

/* Look at more of the process's descriptors; at most `links` of them. *ids is a kept buffer. */
void owner_list(struct procfs *, struct owner *, int **ids, size_t *capacity, size_t links, uint64_t now_ns);
struct ring_end *owner_ring(struct owner *, int fd); /* found or added; NULL when full */
/* Read rings into `next` (before /proc/stat) or `to` (behind it). fd < 0: all of them. */
void owner_read(struct procfs *, struct owner *, int fd, bool ahead);
/* The interval is over: `next` becomes `from`. */
void owner_turn(struct owner *);

/* A control group of the process limits its storage, or it is not known. Asked once a sleep (since_ns), and once a second; boot times. */
bool owner_limited(struct procfs *, struct owner *, uint64_t since_ns, uint64_t now_ns);

/* Devices that may keep requests back before anything counts them: a suspended device-mapper table (dm's deferred list), NVMe controllers
 * that are not live (the multipath head's requeue list). Asked once a second; what cannot be read holds. */
struct holds { bool any; uint64_t asked_ns; };
bool holds_any(struct procfs *, struct holds *, uint64_t now_ns);

struct ring_look { unsigned rings, extra, unread; }; /* looked at; of them with more outstanding than polls; incomplete */
void owner_look(struct procfs *, struct owner *, int fd, struct ring_look *);

enum worker_state owner_workers(struct procfs *, struct owner *);
/* What the ring `fd` (or, with fd < 0, every ring of the process) says between `from` and `to`. */
enum iowait_ring owner_judge(struct owner *, int fd, enum worker_state);

#pragma once
/*
 * The exact method: who sleeps in iowait on which core, and why, seen at the moment it happens.
 *
 * Programs at sched_switch, sched_waking, the block layer and io_uring keep per-core and per-waiter times in shared memory; reading them
 * costs no system call. Nothing is attached unless somebody asked (tracer_attach), and everything is gone with the last descriptor: kill -9
 * included.
 * In a build without libbpf, tracer_open gives -ENOSYS; all else then works without it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracer;

/* Load programs and maps, attach nothing. Needs CAP_BPF + CAP_PERFMON (or CAP_SYS_ADMIN), so before rights are dropped. 0; -ENOSYS built
 * without; -EPERM; -ENOENT no BTF; other errors of the kernel. `why` (one line, no newline) says what to do about it. */
int tracer_open(struct tracer **, char *why, size_t size);
void tracer_close(struct tracer *); /* detaches too; takes NULL */

/* Attach, and find those who are asleep already. Works after the rights were dropped. 0 or -errno, with why. Twice is once. */
int tracer_attach(struct tracer *, char *why, size_t size);
void tracer_detach(struct tracer *);
bool tracer_attached(const struct tracer *);

struct tracer_core {
        unsigned cpu;
        /* Cumulative since attach: the core was idle and such a waiter slept on it; may be corrected downwards. Interrupts that came while
         * it was idle are in it; the kernel leaves them out of its iowait. */
        uint64_t disk_ns, uring_ns, other_ns;
        /* Spans in which a change of the core went unseen, by who slept: a part of them was idle, and is in none of the three. */
        uint64_t missed_disk_ns, missed_uring_ns, missed_other_ns;
        uint64_t unsure_ns;   /* of disk and other: the class of the waiter is a guess until it wakes */
};

enum tracer_class { TRACER_DISK, TRACER_URING, TRACER_OTHER };

struct tracer_waiter {
        int tid, tgid;
        uint64_t start_boot_ns;      /* task->start_boottime */
        char comm[16];
        unsigned cpu;                /* where it sleeps or slept last */
        bool asleep, ring_wait;      /* ring_wait: in io_uring_enter */
        bool seeded;                 /* it slept already at attach, or waits on a ring of which not all that is pending is known */
        enum tracer_class class;     /* of the present or last sleep */
        uint64_t since_ns;           /* CLOCK_MONOTONIC at which it fell asleep; 0 = before attach */
        uint64_t sleeps;
        uint64_t disk_ns, uring_ns, other_ns; /* core time it was (one of) the reason(s) for; the running sleep included */
        uint32_t pending_block, pending_other;  /* storage operations on the ring it waits on, by kind of file */
        uint64_t cores;              /* cores 0..63 it slept on */
};

/* Cores as they are now (CLOCK_MONOTONIC now_ns): fills at most `room`, returns how many were filled. Rows of cores without a waiter since
 * attach are there too, with zeros. Wait-free for the traced machine. */
size_t tracer_cores(struct tracer *, uint64_t now_ns, struct tracer_core *cores, size_t room);
/* Waiters since attach (those that ended long ago are dropped). As above. */
size_t tracer_waiters(struct tracer *, uint64_t now_ns, struct tracer_waiter *waiters, size_t room);
/* Of a waiter as tracer_waiters told it, outside of rings, asleep since before the attachment: it waits for a block device. Nothing happens
 * when it has run since. Not on kernels before 5.10. */
void tracer_prove(struct tracer *, const struct tracer_waiter *);
/* Once a tick: heal what events were missed (sleepers that are gone or run), drop ended ones. */
void tracer_maintain(struct tracer *, uint64_t now_ns);

struct tracer_stats {
        uint64_t unmatched;          /* sleeps whose wake-up was not seen, mended when the thread ran */
        uint64_t overflow;           /* threads, rings or operations for which there was no room: what follows is not whole */
        uint64_t healed;             /* mended by tracer_maintain */
        uint64_t attached_ns;        /* CLOCK_MONOTONIC of the last attachment; all counters were 0 then */
        uint64_t run_ns, run_count, recursion; /* by tracer_runs */
};
/* All but the last three. No system call. */
void tracer_stats(struct tracer *, struct tracer_stats *);
/* The last three: what the kernel counts of the programs since tracer_open, while it does (kernel.bpf_stats_enabled). False: it does
 * not, or nothing is attached, which is known without a system call. One call tells; then it is one for each program. */
bool tracer_runs(struct tracer *, struct tracer_stats *);

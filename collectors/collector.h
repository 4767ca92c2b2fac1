#pragma once
/*
 * The contract of a collector, and the explicit array of them.
 *
 * A collector turns kernel files into rows of its scopes. It prints nothing, never exits, converts units on the spot, leaves absent what it
 * could not read. Adding one: HACKING.md "A new collector".
 * Order inside a tick, run by daemon/sampler.c: every `before` in array order, every `collect` in array order, every `after` in array
 * order; sub-samples (`between`) at 10 Hz while some collector's `wants_between` is true.
 */
#include <stdbool.h>
#include <stdint.h>

#include "collectors/procfs.h"
#include "sample/iowait.h"
#include "sample/sample.h"

struct stages;
struct tracer;
struct tracer_waiter;

enum cmdline_policy { CMDLINE_NONE, CMDLINE_NAME, CMDLINE_FULL };

/* A thread in D state, or that was of late. */
struct d_thread {
        int tid, tgid;
        uint64_t born_ns, block_ns;               /* block_ns: block delay, known when it wakes; 0 = not counted */
        unsigned cpu;
        bool asleep;                              /* in D state now */
};

/* What the collectors of one tick tell each other: counters and evidence for the split. Owned by the sampler. */
struct evidence {
        /* written by cpu.c */
        uint64_t stat_start_ns, stat_end_ns;      /* CLOCK_MONOTONIC around the read of /proc/stat */
        uint64_t stat_prev_start_ns, stat_prev_end_ns;
        struct iowait_core *cores;                /* deltas since the tick before; cpu.c owns the memory */
        size_t core_count, core_capacity;
        uint64_t procs_blocked;
        /* written by disk.c */
        uint64_t disk_start_ns, disk_end_ns, disk_prev_start_ns, disk_prev_end_ns;
        int64_t device_ns;
        unsigned device_counters;
        bool in_flight, in_flight_start, bound_void, completed; /* completed: any request of any device ended in the interval */
        /* written by uring.c */
        struct iowait_witness *witnesses;         /* uring.c owns the memory */
        size_t witness_count;
        struct iowait_seen *seen;
        size_t seen_count;
        unsigned samples, full, carried, unresolved, blocked_no_d;
        const struct iowait_read *blocked_reads;  /* of procs_blocked; uring.c owns the memory */
        size_t blocked_read_count;
        uint64_t blocked_sum, d_sum;
        const int64_t *delay_ns;                  /* as in struct iowait_input; uring.c owns the memory */
        bool delay_all;
        bool threads_seen, sub_in_flight;         /* sub_in_flight: some sub-sample saw a block request in flight */
        const struct d_thread *d_threads;           /* threads in D state, or of late; for who.c. uring.c owns the memory */
        size_t d_thread_count;
        /* written by trace.c while the tracer is attached */
        struct iowait_exact *exact;               /* exact[i] belongs to cores[i]; NULL: not traced. trace.c owns the memory */
        const struct tracer_waiter *traced;       /* every waiter since attach (bpf/tracer.h), at this tick's /proc/stat; NULL: not
                                                     traced */
        size_t traced_count;
        const void *seeded;                       /* for trace_seeded in trace.h */
};

struct tick {
        struct procfs *procfs;
        struct sample *sample;
        struct evidence *evidence;
        uint32_t scopes;              /* SCOPE_BIT mask that is on in this tick */
        uint64_t leases;              /* LEASE_x of sample/control.h */
        uint64_t interval_ns;         /* asked */
        uint64_t deadline_ns;         /* CLOCK_MONOTONIC: detail is left out rather than pass it; far off while capturing */
        uint64_t number;              /* 0, 1, 2, ... */
        struct tracer *tracer;        /* bpf/tracer.h; NULL: none here. Only trace.c uses it */
        struct stages *stages;        /* stages.h; NULL: no block tracing here. Only stage.c uses it */
        uint64_t tracer_epoch;        /* another one with each attachment: its counters began anew */
        enum cmdline_policy cmdline;
        bool extra;                   /* out of step (a mark): keep it cheap */
        bool capture;                 /* what is read is stored: read all that a replay may ask for in this tree, changed or not */
        int detail;                   /* metric self.detail: the collector that leaves something out raises it */
        unsigned stuck_reads, fds;    /* collectors add to these */
        const char *settings;         /* watopd's own, as one line for the facts; NULL for a captured machine */
        void (*alive)(void *arg);     /* see tick_alive; may be NULL */
        void *alive_arg;
};

/* Said by a collector that is in for a long pass, each time it has got on: readers take a watopd that says nothing for 3 s for dead. Never
 * from a place that could say so for ever without getting on. */
static inline void tick_alive(const struct tick *tick)
{
        if (tick->alive)
                tick->alive(tick->alive_arg);
}

struct collector {
        const char *name;
        uint32_t scopes;                               /* scopes whose rows it makes; 0: none, it runs in every tick */
        int (*open)(struct procfs *, void **own);      /* 0 or -errno; -ENOENT: this machine lacks it (not an error) */
        int (*before)(void *own, struct tick *);       /* optional */
        int (*collect)(void *own, struct tick *);      /* 0 or -errno */
        int (*after)(void *own, struct tick *);        /* optional */
        bool (*wants_between)(void *own, const struct tick *); /* optional */
        int (*between)(void *own, struct tick *);      /* optional: one sub-sample */
        void (*close)(void *own);
        /* What this collector may see here and why not the rest: one line for `watopd --check`. Optional. */
        void (*check)(struct procfs *, char *line, size_t size);
};

extern const struct collector collector_cpu, collector_disk, collector_process, collector_thread, collector_vm, collector_net,
        collector_pressure, collector_cgroup, collector_facts, collector_stage, collector_uring, collector_trace;
extern const struct collector *const collectors[]; /* NULL at the end */

/* Helpers they share. */
static inline uint64_t ticks_to_ns(uint64_t ticks, unsigned hz)
{
        return ticks * (UINT64_C(1000000000) / hz);
}

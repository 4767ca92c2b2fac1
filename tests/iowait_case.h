#pragma once
/*
 * A second of a machine with two cores, as the tests of the split write it down: cpu1 is the one in question. split() checks what must
 * hold of any result.
 */
#include "sample/iowait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

/* One second on two cores; cpu1 is the one in question. */
struct fixture {
        struct iowait_core cores[2];
        struct iowait_witness witnesses[4];
        struct iowait_seen seen[2];
        struct iowait_read reads[IOWAIT_READS];
        struct iowait_input input;
        struct iowait_parts parts[2];
};

/* Times in ms of cpu1; the other core is idle. */
static inline void start(struct fixture *f, int64_t iowait_ms, int64_t idle_ms, int64_t device_ms)
{
        memset(f, 0, sizeof *f);
        f->cores[0] = (struct iowait_core){.cpu = 0, .iowait_ns = 0, .idle_ns = SECOND, .valid = true};
        f->cores[1] = (struct iowait_core){.cpu = 1, .iowait_ns = iowait_ms * MS, .idle_ns = idle_ms * MS, .valid = true};
        f->seen[0].cpu = 0;
        f->seen[1].cpu = 1;
        f->input = (struct iowait_input){.wall_ns = SECOND, .cores = f->cores, .core_count = 2, .device_ns = device_ms * MS,
                .device_counters = device_ms ? 1 : 0, .quiet = device_ms == 0, .witnesses = f->witnesses, .seen = f->seen, .seen_count = 2,
                .threads_seen = true};
}

static inline struct iowait_witness *parked(struct fixture *f, unsigned cpu, enum iowait_ring ring)
{
        struct iowait_witness *w = &f->witnesses[f->input.witness_count++];
        *w = (struct iowait_witness){.tid = 100 + (int)f->input.witness_count, .tgid = 100, .cpu = cpu, .parked = true, .ring = ring};
        return w;
}

/* k sub-samples: procs_blocked summed, D-state threads summed, how many had no D thread while somebody was counted. */
static inline void samples(struct fixture *f, unsigned k, unsigned no_d, uint64_t blocked, uint64_t d)
{
        f->input.samples = k;
        f->input.blocked_no_d = no_d;
        f->input.blocked_sum = blocked;
        f->input.d_sum = d;
}

/* n reads of procs_blocked, by one who ran on that core. */
static inline void reads(struct fixture *f, int cpu, unsigned blocked, unsigned n)
{
        for (; n > 0 && f->input.read_count < IOWAIT_READS; n--)
                f->reads[f->input.read_count++] = (struct iowait_read){blocked, cpu};
        f->input.reads = f->reads;
}

static inline struct iowait_parts *split(struct fixture *f)
{
        iowait_split(&f->input, f->parts);
        for (size_t i = 0; i < f->input.core_count; i++) {
                const struct iowait_parts *p = &f->parts[i];
                int64_t iowait = f->cores[i].valid && f->cores[i].iowait_ns > 0 ? f->cores[i].iowait_ns : 0;
                assert_int_equal(p->disk + p->uring + p->other, iowait);
                assert_true(p->disk >= 0 && p->uring >= 0 && p->other >= 0 && p->taken_back >= 0);
                assert_true(p->disk_min <= p->disk && p->disk <= p->disk_max && p->disk_max <= iowait);
                assert_true(p->uring_min <= p->uring && p->uring <= p->uring_max && p->uring_max <= iowait);
        }
        return &f->parts[1];
}


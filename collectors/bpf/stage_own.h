#pragma once
/*
 * What the files of the block tracer know of each other. Nobody else includes this.
 */
#include "collectors/bpf/stage_layout.h"
#include "collectors/bpf/stage_tracer.h"

#include <time.h>

struct bpf_object;
struct bpf_program;
struct bpf_link;

/* embed.py: the programs as compiled, with and without atomics that return a value (5.12) */
extern const unsigned char stage_programs[], stage_programs_plain[];
extern const unsigned long stage_programs_size, stage_programs_plain_size;

/* Programs that are attached together. */
enum stage_group { GROUP_BLOCK, GROUP_EVENTS, GROUP_CALLS, GROUPS };
enum { GROUP_PROGRAMS = 16, OPEN_BIOS = SLOT_BUCKETS * SLOT_WAYS };

struct stage_next {
        uint64_t time;
        uint32_t ring;
};

struct stage_open {
        uint64_t q;
        uint32_t slot;
};

struct stage_tracer {
        struct bpf_object *object;
        struct bpf_program *programs[GROUPS][GROUP_PROGRAMS]; /* those that this kernel has the events for, in the order of attaching */
        struct bpf_link *links[GROUPS][GROUP_PROGRAMS];
        size_t count[GROUPS];
        bool attached[GROUPS];
        unsigned what;
        size_t cpus, capacity;                                /* records a CPU */
        struct stage_settings settings;
        /* the programs' memory */
        struct bucket *buckets;
        struct buffer *buffers;
        struct stage_record *records;
        struct told *told;
        struct call_bucket *calls;
        struct stage_control *control;
        /* of one drain, one scan */
        struct stage_next *heap;
        struct stage_open *open;
        uint64_t far_seen;                                    /* control.far at the last scan that met nobody in a far bucket */
        uint64_t drained, mended;
        /* what the kernel counts of the programs, as it was then */
        uint64_t counted, run_ns, run_count, misses;
};

/* CPUs' rings, then their inner ones. */
static inline size_t stage_rings(const struct stage_tracer *tracer)
{
        return 2 * tracer->cpus;
}

static inline size_t stage_record_total(const struct stage_tracer *tracer)
{
        return tracer->cpus * (tracer->capacity + RECORDS_INNER);
}

/* CLOCK_MONOTONIC, as the programs read it. */
static inline uint64_t stage_clock(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

#define STAGE_LONG_NS 1000000000ull /* a bio that a driver has for so long may be one whose end was not seen */

/* stage_setup.c: which programs fit this kernel, by its BTF. */
int stage_tracer_choose(struct stage_tracer *, char *why, size_t size);
/* stage_read.c: records that nobody has read are forgotten. */
void stage_discard(struct stage_tracer *);
/* stage_mend.c: leaves out those that have ended unseen, and frees their slots. Returns how many are left. */
size_t stage_mend(struct stage_tracer *, struct stage_open *, size_t count, uint64_t now);
/* tracer_setup.c: atomics that return a value are there */
bool tracer_has_fetch(void);

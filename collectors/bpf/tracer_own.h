#pragma once
/*
 * What the files of the tracer know of each other. Nobody else includes this.
 */
#include "collectors/bpf/layout.h"
#include "collectors/bpf/tracer.h"

struct bpf_object;
struct bpf_program;
struct bpf_link;

/* embed.py: the programs as compiled, with and without atomics that return a value (5.12) */
extern const unsigned char tracer_programs[], tracer_programs_plain[];
extern const unsigned long tracer_programs_size, tracer_programs_plain_size;

enum { TRACER_PROGRAMS = 24, LOOKED_AFTER = 8 };

struct tracer {
        struct bpf_object *object;
        struct bpf_program *programs[TRACER_PROGRAMS]; /* those that this kernel has the events for */
        struct bpf_link *links[TRACER_PROGRAMS];
        size_t program_count;
        struct bpf_program *seed, *touch, *prove;
        bool attached;
        uint64_t attached_ns;                          /* CLOCK_MONOTONIC, before the first program ran */
        size_t cpus;
        /* the programs' memory */
        struct core *cores;
        struct place *places;
        struct waiter *waiters;
        struct tally *tally;
        int rings, operations;                         /* descriptors of these maps */
        /* upkeep */
        uint64_t gone_since[WAITERS];                  /* of ended threads: when that was first seen */
        uint64_t *sum, *off;                           /* per core: sleepers by the slots; how far off its count was at the last look */
        unsigned *off_looks;                           /* and at how many looks before */
        unsigned used;                                 /* slots */
        unsigned rotation;                             /* next slot to look after */
        uint64_t healed;
        uint64_t rings_dropped, swept;                 /* rings taken out of their map; when they were last looked through */
        uint64_t ran;                                  /* runs of the switch program when they were last asked for */
        bool own_namespace;                            /* pids are not the kernel's: threads cannot be looked up */
};

/* tracer_setup.c: which programs fit this kernel, by its BTF. */
int tracer_choose(struct tracer *, char *why, size_t size);
bool tracer_has_fetch(void);
/* tracer.c: run watop_touch on that CPU. 0 or -errno. */
int tracer_touch(struct tracer *, unsigned cpu);

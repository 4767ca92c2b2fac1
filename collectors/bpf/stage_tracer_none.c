/*
 * The block tracer in a build without libbpf: there is none, and it says so.
 */
#include "collectors/bpf/stage_tracer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int stage_tracer_open(struct stage_tracer **tracer, char *why, size_t size)
{
        snprintf(why, size, "this watopd was built without BPF (libbpf and clang were missing)");
        return -ENOSYS;
}

void stage_tracer_close(struct stage_tracer *tracer)
{
}

int stage_tracer_attach(struct stage_tracer *tracer, unsigned what, char *why, size_t size)
{
        return stage_tracer_open(NULL, why, size);
}

unsigned stage_tracer_attached(const struct stage_tracer *tracer)
{
        return 0;
}

size_t stage_tracer_drain(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        return 0;
}

size_t stage_tracer_open_bios(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        return 0;
}

void stage_tracer_stats(struct stage_tracer *tracer, struct stage_tracer_stats *stats)
{
        memset(stats, 0, sizeof *stats);
}

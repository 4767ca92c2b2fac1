/*
 * The tracer in a build without libbpf: there is none, and it says so.
 */
#include "collectors/bpf/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int tracer_open(struct tracer **tracer, char *why, size_t size)
{
        snprintf(why, size, "this watopd was built without BPF (libbpf and clang were missing)");
        return -ENOSYS;
}

void tracer_close(struct tracer *tracer)
{
}

int tracer_attach(struct tracer *tracer, char *why, size_t size)
{
        return tracer_open(NULL, why, size);
}

void tracer_detach(struct tracer *tracer)
{
}

bool tracer_attached(const struct tracer *tracer)
{
        return false;
}

size_t tracer_cores(struct tracer *tracer, uint64_t now_ns, struct tracer_core *cores, size_t room)
{
        return 0;
}

size_t tracer_waiters(struct tracer *tracer, uint64_t now_ns, struct tracer_waiter *waiters, size_t room)
{
        return 0;
}

void tracer_maintain(struct tracer *tracer, uint64_t now_ns)
{
}

void tracer_stats(struct tracer *tracer, struct tracer_stats *stats)
{
        memset(stats, 0, sizeof *stats);
}

bool tracer_runs(struct tracer *tracer, struct tracer_stats *stats)
{
        return false;
}

void tracer_prove(struct tracer *tracer, const struct tracer_waiter *waiter)
{
}

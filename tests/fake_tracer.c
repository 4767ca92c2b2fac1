/*
 * A tracer without a kernel. See fake_tracer.h.
 */
#include "fake_tracer.h"

#include <string.h>

struct fake_tracer fake_tracer;

struct tracer *fake_tracer_reset(void)
{
        memset(&fake_tracer, 0, sizeof fake_tracer);
        fake_tracer.core_count = 2;
        for (unsigned i = 0; i < FAKE_CORES; i++)
                fake_tracer.cores[i].cpu = i;
        return (struct tracer *)&fake_tracer;
}

int tracer_open(struct tracer **tracer, char *why, size_t size)
{
        (void)why, (void)size;
        *tracer = fake_tracer_reset();
        return 0;
}

void tracer_close(struct tracer *tracer)
{
        if (tracer)
                tracer_detach(tracer);
}

int tracer_attach(struct tracer *tracer, char *why, size_t size)
{
        (void)tracer, (void)why, (void)size;
        if (fake_tracer.attach_error || fake_tracer.attached)
                return fake_tracer.attach_error;
        fake_tracer.attached = true;
        fake_tracer.attaches++;
        return 0;
}

void tracer_detach(struct tracer *tracer)
{
        (void)tracer;
        fake_tracer.detaches += fake_tracer.attached;
        fake_tracer.attached = false;
}

bool tracer_attached(const struct tracer *tracer)
{
        (void)tracer;
        return fake_tracer.attached;
}

size_t tracer_cores(struct tracer *tracer, uint64_t now_ns, struct tracer_core *cores, size_t room)
{
        size_t count = fake_tracer.core_count < room ? fake_tracer.core_count : room;
        (void)tracer, (void)now_ns;
        memcpy(cores, fake_tracer.cores, count * sizeof *cores);
        return count;
}

size_t tracer_waiters(struct tracer *tracer, uint64_t now_ns, struct tracer_waiter *waiters, size_t room)
{
        size_t count = fake_tracer.waiter_count < room ? fake_tracer.waiter_count : room;
        (void)tracer, (void)now_ns;
        memcpy(waiters, fake_tracer.waiters, count * sizeof *waiters);
        return count;
}

void tracer_maintain(struct tracer *tracer, uint64_t now_ns)
{
        (void)tracer, (void)now_ns;
        fake_tracer.maintained++;
}

void tracer_stats(struct tracer *tracer, struct tracer_stats *stats)
{
        (void)tracer;
        *stats = fake_tracer.stats;
}

bool tracer_runs(struct tracer *tracer, struct tracer_stats *stats)
{
        (void)tracer;
        *stats = fake_tracer.stats;
        return fake_tracer.attached && stats->run_count > 0;
}

void tracer_prove(struct tracer *tracer, const struct tracer_waiter *waiter)
{
        (void)tracer;
        for (size_t i = 0; i < fake_tracer.waiter_count; i++)
                if (fake_tracer.waiters[i].tid == waiter->tid)
                        fake_tracer.waiters[i].class = TRACER_DISK;
}

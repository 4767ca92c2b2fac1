#pragma once
/*
 * A tracer without a kernel (collectors/bpf/tracer.h): tests say what it has seen. Linked before the collectors' library, whose own is
 * then left out.
 */
#include "collectors/bpf/tracer.h"

enum { FAKE_CORES = 4, FAKE_WAITERS = 1200 };

extern struct fake_tracer {
        bool attached;
        int attach_error;            /* what tracer_attach gives */
        unsigned attaches, detaches, maintained;
        struct tracer_core cores[FAKE_CORES];
        size_t core_count;
        struct tracer_waiter waiters[FAKE_WAITERS];
        size_t waiter_count;
        struct tracer_stats stats;
} fake_tracer;

struct tracer *fake_tracer_reset(void); /* two cores, nobody waits */

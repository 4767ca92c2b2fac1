#pragma once
/*
 * The tracer's totals as a collector: differences per core for the split, every waiter for the rows. It makes no rows of its own.
 */
#include "collectors/collector.h"

extern const struct collector collector_trace;

/* A thread in a completion-queue wait that slept already when tracing began. */
bool trace_seeded(const struct evidence *, int tid);
/* Metrics self.tracer*: what the tracer does and costs. NULL: there is none. */
void trace_self(struct tracer *, struct row *);

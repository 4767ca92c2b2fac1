#pragma once
/*
 * Both sources of block tracing without a kernel (collectors/bpf/stage_tracer.h, collectors/tracefs.h): tests say what was traced. Linked
 * before the libraries, whose own are then left out. What the thread of collectors/stages.c sees is guarded by a lock.
 */
#include <pthread.h>
#include <stdbool.h>

#include "sample/stage_record.h"

enum { FAKE_BPF, FAKE_TRACEFS, FAKE_SOURCES, FAKE_RECORDS = 1 << 15 };

extern struct fake_source {
        int open_error, attach_error; /* what opening and attaching give */
        unsigned error_what;          /* attaching: only where one of these is wanted; 0 = always */
        bool stuck;                   /* attaching and detaching do not come back */
        unsigned what, attaches, opens, closes;
        struct stage_record records[FAKE_RECORDS];
        size_t count, taken;
        struct stage_record open[8];  /* bios that are open, oldest first */
        size_t opens_count;
        uint64_t lost, unmatched;
} fake_sources[FAKE_SOURCES];

void fake_stages_reset(void);
void fake_stages_put(unsigned source, const struct stage_record *); /* aborts when it is full */
unsigned fake_stages_what(unsigned source);
void fake_stages_stick(unsigned source, bool stuck);
void fake_stages_fail(unsigned source, int error); /* attaching gives it; then BPF has given up what it had, as the true one has */
void fake_stages_fail_for(unsigned source, int error, unsigned what);
void fake_stages_open(unsigned source, const struct stage_record *); /* one more bio that is open */
void fake_stages_lose(unsigned source, uint64_t lost);

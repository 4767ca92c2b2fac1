#pragma once
/*
 * What the parts of block tracing in watopd share: stages.c has the thread, stages_flow.c the way of the records. Not for others.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "collectors/stages.h"
#include "collectors/stages_sums.h"
#include "sample/sample.h"
#include "sample/stage_stream.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
        STAGES_WHY = 256,
        /* Rounds: all names are told so often after a reader came, who must open the stream first. */
        STAGES_NAMES = 64, STAGES_NAMES_EVERY = 16,
};

uint64_t stages_now(clockid_t);

/* The way of the records: source -> stream, engine, table of calls -> sums. One thread at a time. */
struct flow;
struct flow_status {
        uint32_t source;              /* stream_source; of the last or present attachment */
        unsigned what;                /* STREAM_WHAT_x attached */
        uint64_t since, drained;
        uint64_t lost, unmatched, crowded, run_ns, run_count, cpu_ns; /* only grow */
};

int flow_new(struct sums *, struct flow **); /* sums: live longer */
void flow_free(struct flow *);               /* detaches; takes NULL */
int flow_open(struct flow *, bool bpf, char *why, size_t size);
/* From BPF to tracefs, if that is there. Not for good: until flow_go_back. */
bool flow_fall_back(struct flow *, bool for_good);
void flow_go_back(struct flow *); /* takes what is attached off; nothing to do: leaves it */
/* More or less may be wanted while it is attached. After a failure flow_attached says what is left of what was. */
int flow_attach(struct flow *, unsigned what, char *why, size_t size);
void flow_detach(struct flow *);
unsigned flow_attached(const struct flow *);
/* Takes what is there. stream: is told how things are; pass: and gets the records; names: all names that are known, too. */
void flow_round(struct flow *, struct stream *, bool pass, bool sums, bool names);
void flow_status(const struct flow *, struct flow_status *);
/* Opens a source, attaches for a moment, closes it. */
bool flow_try(enum stream_source, char *why, size_t size);

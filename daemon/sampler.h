#pragma once
/*
 * The sampler: one tick of all collectors becomes one frame.
 *
 * It knows no clock of its own and no socket: the loop in daemon/main.c says when, it says what. Order of a tick: every `before`, every
 * `collect`, every `after`, then the split of iowait, watopd's own row, the mark if there is one, the seal.
 * The scopes of a tick are those of the settings and of the leases; what a scope needs to be explained comes with it (cpu: the devices
 * and the waiters). A scope that is no longer wanted leaves with tombstones.
 */
#include "collectors/collector.h"

struct sampler;

struct sampler_options {
        struct procfs *procfs;      /* outlives the sampler */
        uint64_t interval_ns;
        uint32_t scopes;            /* SCOPE_BIT mask without leases */
        enum cmdline_policy cmdline;
        bool capture;               /* procfs_capture is on: number the trees that it writes */
        uint64_t ring_size;         /* bytes; told as a fact, 0 not */
        struct tracer *tracer;      /* outlives the sampler; NULL: no exact split. Attached while somebody has LEASE_EXACT */
        struct stages *stages;      /* outlives the sampler; NULL: no block tracing. On while somebody has a lease for it */
        /* Called between the steps of a tick, so that a long tick does not look like a dead daemon. Optional. */
        void (*alive)(void *arg);
        void *alive_arg;
};

/* Opens every collector; one that cannot be opened is left out, and the reason kept. 0 or -ENOMEM. */
int sampler_new(const struct sampler_options *, struct sampler **);
void sampler_free(struct sampler *);
/* New settings from the next tick on (procfs and capture stay). */
void sampler_configure(struct sampler *, uint64_t interval_ns, uint32_t scopes, enum cmdline_policy);
/* What connections want now (SCOPE_BIT and LEASE_x). Returns what of it can be given here. Attaches the tracer and detaches it; block
 * tracing is attached a moment later by its own thread, and a failure is told in the row of scope self and in the facts. */
uint64_t sampler_lease(struct sampler *, uint64_t wanted);
/* Scopes that some opened collector, or the sampler itself, can give. */
uint32_t sampler_scopes(const struct sampler *);
/* Scopes that the next tick samples. */
uint32_t sampler_scopes_on(const struct sampler *);

struct sampler_mark {
        const char *text;
        size_t length;
        pid_t pid;
        uid_t uid;
};
struct sampler_order {
        uint64_t due_ns;                 /* when the tick should have been, CLOCK_MONOTONIC; 0: now */
        uint32_t missed;                 /* ticks missed just before */
        bool extra;                      /* out of step */
        const struct sampler_mark *mark; /* or NULL; makes the frame extra */
        unsigned clients;                /* for watopd's own row */
};
struct sampler_frame {
        const void *bytes;               /* valid until the next tick */
        size_t length;
        uint64_t sequence;
        uint64_t took_ns;
};
/* 0, or -ENOMEM, -EFBIG: no frame; the next one is full. */
int sampler_tick(struct sampler *, const struct sampler_order *, struct sampler_frame *);
/* The ring did not take the frame for its length: the next one is full and has less detail. */
void sampler_refused(struct sampler *);

/* Sub-samples between ticks. */
bool sampler_wants_between(struct sampler *);
void sampler_between(struct sampler *);

/* Captured machine: the next tree with its sub-samples. -ENODATA: there is none. */
int sampler_step(struct sampler *, unsigned clients, struct sampler_frame *);

struct sampler_status {
        uint64_t ticks, late, last_took_ns;
        int detail;                      /* metric self.detail */
};
void sampler_get_status(const struct sampler *, struct sampler_status *);
/* Collector number i: its name and what happened last (0, or -errno of its open or its last tick). False when there are no more. */
bool sampler_collector(const struct sampler *, unsigned index, const char **name, int *error);

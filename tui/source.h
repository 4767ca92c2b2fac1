#pragma once
/*
 * One source of frames: a daemon's ring, or a private watopd that we start. Used by attach.c, which decides when.
 */
#include "sample/control.h"
#include "sample/cursor.h"
#include "tui/attach.h"

struct source {
        struct ring *ring;
        struct cursor *cursor;
        struct control *control;    /* NULL: the ring is read without a lease */
        char socket[108];           /* of the daemon; "" of a private one */
        uint32_t always;            /* scopes that it samples without a lease, as far as known */
        int refused;                /* -errno: why there is no lease though one was wanted */
        pid_t child;                /* private watopd, 0 none */
        bool private_daemon;
        bool stages;                /* a private one that was started for block tracing */
        uint32_t missing;           /* scopes asked but not to be had */
        uint64_t lacking;           /* LEASE_x likewise */
        uint64_t tick_ns;
        struct ring_info info;      /* at the time of opening */
};

enum { SOURCE_REASON = 200 };

/* A daemon that serves these wishes: the asked ring, /run/watop, the user's own. 0, or -errno and in `reason` (SOURCE_REASON bytes) why
 * there is none, as the end of a sentence: "no daemon runs". */
int source_daemon(const struct attach_options *, struct source *, char *reason);
/* Start a private watopd. `reason` as above on failure. */
int source_private(const struct attach_options *, struct source *, char *reason);
/* Closes all and waits a moment for a private watopd to end. Takes what source_daemon and source_private left, or zeros. */
void source_close(struct source *);
/* Ask for scopes and leases; sets source->missing. A daemon's connection is kept only for what it does not sample anyway: its places are
 * few. Where it refuses, the ring is read without (refused, missing). 0; of a private watopd also -errno. */
int source_lease(struct source *, uint32_t scopes, uint64_t leases);
/* False: a private watopd that must be started anew for these wishes: it was not told to be ready for block tracing. */
bool source_suits(const struct source *, const struct attach_options *);
/* False when the writer is dead: its socket hung up, it lost its lock, or its heart stopped. */
bool source_alive(struct source *);
/* What the daemon's control socket did not give us and why, as the rest of a sentence; "" when nothing is missing. */
void source_refusal(const struct source *, char *text, size_t size);
/* "1 s", "250 ms": an interval in words. */
void source_interval(uint64_t ns, char *text, size_t size);
uint64_t source_now_ns(void); /* CLOCK_MONOTONIC */

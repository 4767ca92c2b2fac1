#pragma once
/*
 * Where the samples come from: a watopd that runs already, or a private one that we start; and the reports read from it.
 *
 * Look-up: the asked ring, /run/watop, the user's own $XDG_RUNTIME_DIR/watop. A daemon serves when its ring may be read, the asked interval
 * is a multiple of its tick, and it samples (or leases) the scopes we need. Else a private watopd is started: found beside our own binary
 * through /proc/self/exe or in the built-in libexec and sbin folders, never by PATH or environment; it publishes into a sealed memfd and
 * ends when our end of its control socket closes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/state.h"

struct attach_options {
        const char *ring;        /* --ring PATH, or NULL */
        const char *root;        /* --root DIR: a captured machine; always private */
        const char *log;         /* --log FILE: no watopd at all */
        const char *from, *to, *phase; /* of the log (tui/span.h), or NULL */
        bool log_now;            /* of a log that grows: what is there now, do not follow it */
        uint64_t interval_ns;    /* of a report */
        uint32_t scopes;         /* SCOPE_BIT mask needed */
        uint64_t leases;         /* LEASE_x wanted beside */
        bool private_only;       /* --private */
        bool no_bpf;             /* --no-bpf: else who wants scope cpu asks for the exact split too (LEASE_EXACT), where it is to be had */
        bool tell_outage;        /* an outage of the source is a report of its own: no interval, gap reset */
        const char *capture;     /* watop capture: folder for the private watopd to write into */
        bool capture_anonymize;
        uint64_t capture_count;  /* trees after the base; 0 = until we end */
};

struct attach;
/* 0; or -errno with the reason as one line in `why`. On success `why` says which source and why. */
int attach_open(const struct attach_options *, struct attach **, char *why, size_t size);
void attach_close(struct attach *);

struct attach_info {
        bool private_daemon, same_pid_ns, stale; /* stale: gone, trying to find it again */
        bool stopped;            /* stale, but the writer is there: it does not answer */
        pid_t pid;
        uid_t owner;
        uint64_t tick_ns, interval_ns;
        uint64_t history_ns;     /* span the ring holds now */
        uint64_t gaps;           /* gaps since we attached */
        uint32_t missing_scopes; /* asked but not to be had */
        bool from_log;
        uint64_t position_real_ns; /* log: of the newest frame applied */
        char line[256];          /* "private watopd (no daemon runs)" */
};
void attach_get_info(struct attach *, struct attach_info *);
struct ring;
/* The ring that is read now, for a look at its past; NULL when there is none. Valid until the next call of attach_next or attach_change. */
struct ring *attach_ring(struct attach *);

enum attach_result {
        ATTACH_REPORT,           /* a report's interval is complete: print it, then call state_base */
        ATTACH_NOTHING,          /* time-out or signal: call again */
        ATTACH_GONE,             /* the daemon died or was stopped; it is looked for again at each call (said once per death) */
        ATTACH_BACK,             /* found again (or replaced by a private one): the state was cleared */
        ATTACH_END,              /* captured machine: no more trees; log: its end, or that of the part asked for */
};
/* Apply frames to `state` (and to `total`, if not NULL, which is never re-based) until a report is complete, at most timeout_ns. The first
 * frame of all only makes the base (of a log: the first of the part asked for). Negative errno: cannot go on; why in attach_get_info's
 * line. */
int attach_next(struct attach *, struct state *, struct state *total, uint64_t timeout_ns);
/* The reader was away (paused, stopped, a slow terminal): what was published meanwhile is applied but not reported, and the next report
 * begins at the newest frame. */
void attach_skip(struct attach *);
/* The stream of block records of the source that is read now, from its newest record on; the reader's to close. LEASE_STREAM must be among
 * the leases. -EAGAIN while the daemon is gone; after ATTACH_BACK the old one is of a daemon that is no more: close it and ask again.
 * -EOPNOTSUPP: none here. On failure `why` is a sentence. */
struct stream_reader;
int attach_stream(struct attach *, struct stream_reader **, char *why, size_t size);
/* Change what a running reader wants (live screen: interval, threads). 0 or -errno; may restart the private watopd. */
int attach_change(struct attach *, uint64_t interval_ns, uint32_t scopes, uint64_t leases);
/* Log only (else -EINVAL): the next report begins at the first frame at or after this sequence or wall-clock time, to the log's end; the
 * state is cleared. A step back is a seek to the from_sequence of what is shown, less as many frames as a report has. */
int attach_seek_sequence(struct attach *, uint64_t sequence);
int attach_seek_time(struct attach *, uint64_t real_ns);
/* The log that is read, for its phases and notes (whoever moves it seeks afterwards); NULL when it is none. */
struct log;
struct log *attach_get_log(struct attach *);

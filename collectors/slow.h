#pragma once
/*
 * Reads that may hang on a sick task.
 *
 * /proc/PID/cmdline waits for the task's mmap lock, /proc/PID/io for its exec lock, /proc/PID/cgroup for a lock of all cgroups: with a
 * dead disk or file server behind them any of these may never come back. They are done by a helper thread. When one read makes no
 * progress for `patience_ns` the helper is abandoned with it (it frees itself if the kernel ever lets it go) and a new one takes the rest.
 * At most SLOW_ABANDONED are abandoned at a time; after that every read answers -EBUSY until one comes back. So a tick is late by
 * SLOW_ABANDONED times the patience at worst, once.
 *
 * The helper is started by the first slow_run(): after the process has dropped its privileges, so that it has none of them either.
 * Signals are blocked in it. Nothing is allocated per run, except to replace an abandoned helper.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct slow;

enum { SLOW_BATCH = 32, SLOW_BYTES = 4096, SLOW_PATH = 48, SLOW_ABANDONED = 4 };

struct slow_request {
        char path[SLOW_PATH];  /* in */
        const char *bytes;     /* out: valid until the next slow_run */
        ssize_t result;        /* out: length (at most SLOW_BYTES, the rest is cut) or -errno; -ETIMEDOUT: this one hung, see `ticket`;
                                * -EBUSY: too many are out; -ETIME: the run's time was used up before its turn */
        uint64_t ticket;       /* out, with -ETIMEDOUT: for slow_is_out() */
};

/* `reader` is called in the helper thread, possibly long after it was abandoned: it and `arg` must be safe for that. It reads at most
 * `size` bytes of the file (cutting the rest) and returns their number or -errno. */
typedef ssize_t slow_reader(void *arg, const char *path, char *buffer, size_t size);

int slow_new(slow_reader *, void *arg, struct slow **); /* 0 or -ENOMEM */
/* Abandoned helpers live on until their read returns, and then free themselves. */
void slow_free(struct slow *);
/* Do n <= SLOW_BATCH reads in order. until_ns: CLOCK_MONOTONIC after which no further read is waited for. */
void slow_run(struct slow *, struct slow_request *, size_t n, uint64_t patience_ns, uint64_t until_ns);
/* The hung read with this ticket has not come back: asking again would only lose another helper. */
int slow_is_out(const struct slow *, uint64_t ticket);
unsigned slow_abandoned(const struct slow *);

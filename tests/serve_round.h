#pragma once
/*
 * A server with hooks that only count, and one round of its poll loop: for the control socket's test and fuzzer.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/serve.h"
#include "sample/control.h"

struct counted {
        uint64_t leases, sequence;
        unsigned hellos, marks, ticks, steps, lease_calls, bad_texts;
        int ring_fd, error;
        int stream_fd; /* 0: there is no source */
        char text[CONTROL_TEXT + 1];
        pid_t pid;
        uid_t uid;
};

static void count_hello(void *arg, struct serve_hello *hello)
{
        struct counted *c = arg;
        c->hellos++;
        *hello = (struct serve_hello){ .tick_ns = 1000000000, .scopes = 15, .always = 3, .ring_fd = c->ring_fd };
}

static uint64_t count_lease(void *arg, uint64_t wanted)
{
        struct counted *c = arg;
        c->lease_calls++;
        c->leases = wanted;
        return wanted & 0xff;
}

static int count_mark(void *arg, const char *text, size_t length, pid_t pid, uid_t uid, uint64_t *sequence)
{
        struct counted *c = arg;
        c->marks++;
        c->bad_texts += length == 0 || length > CONTROL_TEXT || strlen(text) != length;
        snprintf(c->text, sizeof c->text, "%s", text);
        c->pid = pid;
        c->uid = uid;
        *sequence = ++c->sequence;
        return c->error;
}

static int count_tick(void *arg, uint64_t *sequence)
{
        struct counted *c = arg;
        c->ticks++;
        *sequence = ++c->sequence;
        return 0;
}

static int count_step(void *arg, uint64_t *sequence)
{
        struct counted *c = arg;
        c->steps++;
        return c->steps > 3 ? ENODATA : count_tick(arg, sequence);
}

static size_t count_status(void *arg, char *text, size_t size)
{
        return (size_t)snprintf(text, size, "all is well");
}

static int count_stream(void *arg, int *fd, char *text, size_t size)
{
        const struct counted *c = arg;
        int given = __atomic_load_n(&c->stream_fd, __ATOMIC_ACQUIRE);
        if (given == 0) {
                snprintf(text, size, "no source here");
                return EOPNOTSUPP;
        }
        *fd = given;
        return 0;
}

static struct serve_hooks counting_hooks(struct counted *c)
{
        return (struct serve_hooks){ .arg = c, .hello = count_hello, .lease = count_lease, .mark = count_mark, .tick = count_tick,
                .step = count_step, .status = count_status, .stream = count_stream };
}

/* One round, waiting at most `ms`; the number of sockets that had something. */
static int serve_round(struct serve *s, int ms)
{
        struct pollfd fds[SERVE_FDS];
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec, deadline = now + (uint64_t)ms * 1000000;
        size_t n = serve_fds(s, fds, SERVE_FDS, now, &deadline);
        int ready = poll(fds, n, (int)((deadline - (now < deadline ? now : deadline) + 999999) / 1000000));
        if (ready > 0) {
                clock_gettime(CLOCK_MONOTONIC, &t);
                serve_run(s, fds, n, (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
        }
        return ready;
}

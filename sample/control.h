#pragma once
/*
 * The control connection to watopd: leases, marks, status, and the memfd of a ring that is not a file.
 *
 * SOCK_SEQPACKET; one fixed-size request a packet, one fixed-size answer. A lease lives as long as its connection. This file has the
 * packets and the client's side; the server's is daemon/serve.c. Nothing here trusts the other side.
 */
#include <stddef.h>
#include <stdint.h>

#include "sample/metric.h"

enum { CONTROL_MAGIC = 0x43505457, CONTROL_VERSION = 1, CONTROL_TEXT = 200 };

enum control_verb {
        CONTROL_HELLO = 1, /* answer: the ring's descriptor if it is a memfd, tick_ns, scopes it may give; value = those sampled without
                            * a lease */
        CONTROL_LEASE,     /* value = mask of SCOPE_BIT and LEASE_x wanted from now on; answer value = what is granted */
        CONTROL_MARK,      /* text; takes an extra frame at once; answer value = its sequence number */
        CONTROL_STATUS,    /* text = one line about watopd */
        CONTROL_STEP,      /* captured machine only: take the next tick; answer value = its sequence, error ENODATA at the end */
        CONTROL_TICK,      /* take an extra frame at once; answer value = its sequence */
        CONTROL_STREAM,    /* answer: the descriptor of the stream of block records (sample/stage_stream.h); EOPNOTSUPP: none here, and
                            * text says why */
};

enum control_lease { LEASE_RINGS = 1u << 24, /* details of io_uring rings */ LEASE_CGROUPS = 1u << 25,
        LEASE_EXACT = 1u << 26, /* the exact split, by tracing */
        /* Block tracing, beside the scopes stage, latency, bio and sync: every record in the stream; calls too; single events too. */
        LEASE_STREAM = 1u << 27, LEASE_SYNC = 1u << 28, LEASE_EVENTS = 1u << 29 };

struct control_request {
        uint32_t magic, version, verb, length; /* length of text */
        uint64_t value;
        char text[CONTROL_TEXT];
};
struct control_answer {
        uint32_t magic, version, verb;
        int32_t error;                         /* 0 or a positive errno */
        uint64_t value, tick_ns;
        uint32_t scopes, length;
        char text[CONTROL_TEXT];
};
_Static_assert(sizeof(struct control_request) == 224, "control request");
_Static_assert(sizeof(struct control_answer) == 240, "control answer");

struct control;
int control_connect(const char *path, struct control **); /* the peer must be root, `watop` or oneself: else -EPERM */
int control_adopt(int fd, struct control **);             /* a connected socket, e.g. a private watopd's; closed on failure too */
void control_close(struct control *);
int control_fd(const struct control *);
/* Send one request, wait at most timeout_ms for the answer. *fd (if not NULL) is a received descriptor or -1.
 * 0 with answer->error possibly set; -ETIMEDOUT (the late answer is thrown away by the next call), -EPIPE (watopd is gone), -EPROTO. */
int control_call(struct control *, const struct control_request *, struct control_answer *, int *fd, int timeout_ms);
/* Shorthands: negative errno covers the answer's error too. */
int control_hello(struct control *, struct control_answer *, int *ring_fd);
int control_lease(struct control *, uint64_t wanted, uint64_t *granted);
int control_mark(struct control *, const char *text, uint64_t *sequence);
int control_step(struct control *, uint64_t *sequence);
int control_tick(struct control *, uint64_t *sequence);
/* *fd for stream_open (sample/stage_stream.h). On failure why: what the other side says, or "". */
int control_stream(struct control *, int *fd, char *why, size_t size);

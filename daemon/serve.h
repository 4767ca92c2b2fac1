#pragma once
/*
 * The control socket's server: leases, marks, status, and the ring's descriptor (packets: sample/control.h).
 *
 * It never blocks the tick: every socket is non-blocking, a client whose buffer is full is dropped, and each client is read only as fast as
 * its allowance lets it. Leases live as long as their connections; their union is told to the sampler whenever it may have changed.
 *
 *     serve_new(&hooks, &serve);
 *     serve_listen(serve, "/run/watop/control", &holder);      and / or      serve_adopt(serve, lifeline);
 *     for (;;) {
 *             size_t n = serve_fds(serve, fds, SERVE_FDS, now_ns, &deadline_ns);      adds sockets; may bring the deadline forward
 *             poll(fds, n, ...until deadline_ns);
 *             serve_run(serve, fds, n, now_ns);                                       calls hooks
 *             if (private && serve_orphan(serve)) end;
 *     }
 */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When places are short, a connection that holds no lease and asked nothing for 5 s loses its own. */
enum { SERVE_CLIENTS = 32, SERVE_FDS = SERVE_CLIENTS + 2 }; /* + the listening and the adopted socket */

struct serve_hello {
        uint64_t tick_ns;
        uint32_t scopes;  /* SCOPE_BIT mask that may be given */
        uint32_t always;  /* those of them that are sampled without a lease */
        int ring_fd;      /* read-only descriptor to pass on when the ring is a memfd, else -1; stays the hook's */
};

/* All run inside serve_run. Those that return int: 0 or a positive errno, which becomes the answer's error.
 * step and stream may be NULL: then the answer is EOPNOTSUPP. */
struct serve_hooks {
        void *arg;
        void (*hello)(void *arg, struct serve_hello *);
        /* The union of what all connections want now (SCOPE_BIT and LEASE_x); returns the part of it that is granted. */
        uint64_t (*lease)(void *arg, uint64_t wanted);
        /* Text: 1..CONTROL_TEXT bytes of a stranger, without NUL inside, NUL-terminated. pid as seen in our pid namespace, 0 unknown. */
        int (*mark)(void *arg, const char *text, size_t length, pid_t pid, uid_t uid, uint64_t *sequence);
        int (*tick)(void *arg, uint64_t *sequence);
        int (*step)(void *arg, uint64_t *sequence);
        size_t (*status)(void *arg, char *text, size_t size); /* one line; returns its length */
        /* The descriptor of the stream of block records, which stays the hook's; on failure why, NUL-terminated. */
        int (*stream)(void *arg, int *fd, char *text, size_t size);
};

struct serve;

/* The hooks are copied. 0 or -ENOMEM. */
int serve_new(const struct serve_hooks *, struct serve **);
/* Closes everything; removes the socket's path if it is still ours. */
void serve_free(struct serve *);

/* Listen at path: 0660 of group `watop` if there is one and we may give it, else 0600. A socket file that nobody listens at is replaced.
 * -EBUSY: a daemon is there, *holder is its pid (0 unknown). -EEXIST: something that is no socket is there. Else -errno. */
int serve_listen(struct serve *, const char *path, pid_t *holder);
/* A connected socket of our own reader (private watopd): takes it over, on failure too. No limit of rate. At most one. */
int serve_adopt(struct serve *, int fd);
/* True when an adopted socket was there and its other end is closed. */
bool serve_orphan(const struct serve *);

/* Fill fds (at most max, SERVE_FDS suffice) with the sockets to poll; the count. *deadline_ns (CLOCK_MONOTONIC) is brought forward when a
 * client that used up its allowance must be looked at again earlier. */
size_t serve_fds(struct serve *, struct pollfd *fds, size_t max, uint64_t now_ns, uint64_t *deadline_ns);
/* Handle what poll found in these fds (the ones that serve_fds filled, nothing called in between). */
void serve_run(struct serve *, const struct pollfd *fds, size_t count, uint64_t now_ns);

size_t serve_clients(const struct serve *); /* connected now, the adopted one included */
uint64_t serve_leases(const struct serve *); /* union wanted now */

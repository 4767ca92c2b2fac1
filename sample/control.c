/*
 * The client's side of the control connection.
 *
 * One request is out at a time and each is answered once and in order. A call that gave up waiting leaves an answer owed; it is counted,
 * and thrown away when it comes, so a late answer is never taken for the next one's. Whatever descriptors come unasked are closed.
 */
#include "sample/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sample/trust.h"

enum { CONNECT_MS = 1000, SHORT_MS = 2000, FRAME_MS = 10000, STEP_MS = 120000, MAX_FDS = 8, MAX_ERRNO = 4095 };

struct control {
        int fd;
        unsigned owed; /* answers to calls that gave up */
};

static int64_t now_ms(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- connecting --------------------------------------------------------------------------------------------------------------- */

static int check_peer(int fd)
{
        struct ucred peer;
        socklen_t length = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
                return -errno;
        return trust_user(peer.uid) ? 0 : -EPERM;
}

/* A full backlog answers EAGAIN at once and cannot be polled for. */
static int connect_until(int fd, const struct sockaddr_un *address, int64_t deadline)
{
        while (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                if (now_ms() >= deadline)
                        return -ETIMEDOUT;
                poll(NULL, 0, 10);
        }
        return 0;
}

int control_connect(const char *path, struct control **control)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t length = strlen(path);
        if (length == 0 || length >= sizeof address.sun_path)
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, length);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        int r = connect_until(fd, &address, now_ms() + CONNECT_MS);
        if (r == 0)
                r = check_peer(fd);
        if (r < 0) {
                close(fd);
                return r;
        }
        return control_adopt(fd, control);
}

int control_adopt(int fd, struct control **control)
{
        struct control *c = malloc(sizeof *c);
        if (!c) {
                close(fd);
                return -ENOMEM;
        }
        *c = (struct control){ .fd = fd };
        *control = c;
        return 0;
}

void control_close(struct control *c)
{
        if (!c)
                return;
        close(c->fd);
        free(c);
}

int control_fd(const struct control *c)
{
        return c->fd;
}

/* ---- one call ----------------------------------------------------------------------------------------------------------------- */

/* 0 ready, -ETIMEDOUT. Hang-ups count as ready: the call that follows says what it is. */
static int wait_for(int fd, short events, int64_t deadline)
{
        for (;;) {
                int64_t left = deadline - now_ms();
                struct pollfd p = { .fd = fd, .events = events };
                int n = poll(&p, 1, left > 0 ? (int)left : 0);
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (left <= 0)
                        return -ETIMEDOUT;
        }
}

static int lost(int error)
{
        return error == ECONNRESET || error == ENOTCONN || error == EPIPE ? -EPIPE : -error;
}

static int send_request(struct control *c, const struct control_request *request, int64_t deadline)
{
        for (;;) {
                ssize_t n = send(c->fd, request, sizeof *request, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n == (ssize_t)sizeof *request)
                        return 0;
                if (n >= 0)
                        return -EPROTO;
                if (errno != EAGAIN && errno != EINTR)
                        return lost(errno);
                int r = wait_for(c->fd, POLLOUT, deadline);
                if (r < 0)
                        return r;
        }
}

/* Keep the first descriptor when *keep is -1; close all others. */
static void take_fds(struct msghdr *message, int *keep)
{
        for (struct cmsghdr *m = CMSG_FIRSTHDR(message); m; m = CMSG_NXTHDR(message, m)) {
                if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS || m->cmsg_len < CMSG_LEN(0))
                        continue;
                size_t count = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(m) + i * sizeof fd, sizeof fd);
                        if (keep && *keep < 0)
                                *keep = fd;
                        else
                                close(fd);
                }
        }
}

/* One packet, whatever it is: 0 or -errno. Packets of another size give -EPROTO. */
static int receive(struct control *c, struct control_answer *answer, int *keep, int64_t deadline)
{
        union {
                char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
                struct cmsghdr align;
        } control;
        for (;;) {
                struct iovec part = { .iov_base = answer, .iov_len = sizeof *answer };
                struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
                        .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
                ssize_t n = recvmsg(c->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
                if (n >= 0) {
                        take_fds(&message, keep);
                        if (n == 0)
                                return -EPIPE;
                        return n == (ssize_t)sizeof *answer && !(message.msg_flags & MSG_TRUNC) ? 0 : -EPROTO;
                }
                if (errno != EAGAIN && errno != EINTR)
                        return lost(errno);
                int r = wait_for(c->fd, POLLIN, deadline);
                if (r < 0)
                        return r;
        }
}

/* Verb 0 with an error is said by a server that did not read the request (too many clients). */
static bool plausible(const struct control_answer *a, uint32_t verb)
{
        return a->magic == CONTROL_MAGIC && a->version == CONTROL_VERSION && (a->verb == verb || (a->verb == 0 && a->error > 0)) &&
               a->error >= 0 && a->error <= MAX_ERRNO && a->length <= CONTROL_TEXT;
}

int control_call(struct control *c, const struct control_request *request, struct control_answer *answer, int *fd, int timeout_ms)
{
        int64_t deadline = now_ms() + timeout_ms;
        struct control_answer got;
        int received = -1;
        int r = send_request(c, request, deadline);
        if (fd)
                *fd = -1;
        if (r < 0)
                return r;
        while (c->owed > 0) {
                r = receive(c, &got, NULL, deadline);
                if (r == -ETIMEDOUT)
                        c->owed++;
                if (r < 0)
                        return r;
                c->owed--;
        }
        r = receive(c, &got, fd ? &received : NULL, deadline);
        if (r == -ETIMEDOUT)
                c->owed++;
        if (r == 0 && !plausible(&got, request->verb))
                r = -EPROTO;
        if (r < 0) {
                if (received >= 0)
                        close(received);
                return r;
        }
        *answer = got;
        if (fd)
                *fd = received;
        return 0;
}

/* ---- shorthands --------------------------------------------------------------------------------------------------------------- */

static struct control_request make(enum control_verb verb)
{
        return (struct control_request){ .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = verb };
}

static int ask(struct control *c, const struct control_request *request, uint64_t *value, int timeout_ms)
{
        struct control_answer answer;
        int r = control_call(c, request, &answer, NULL, timeout_ms);
        if (r == 0 && answer.error != 0)
                r = -answer.error;
        if (r == 0 && value)
                *value = answer.value;
        return r;
}

int control_hello(struct control *c, struct control_answer *answer, int *ring_fd)
{
        struct control_request request = make(CONTROL_HELLO);
        int r = control_call(c, &request, answer, ring_fd, SHORT_MS);
        if (r < 0 || answer->error == 0)
                return r;
        if (ring_fd && *ring_fd >= 0) {
                close(*ring_fd);
                *ring_fd = -1;
        }
        return -answer->error;
}

int control_lease(struct control *c, uint64_t wanted, uint64_t *granted)
{
        struct control_request request = make(CONTROL_LEASE);
        request.value = wanted;
        return ask(c, &request, granted, SHORT_MS);
}

int control_mark(struct control *c, const char *text, uint64_t *sequence)
{
        struct control_request request = make(CONTROL_MARK);
        size_t length = strlen(text);
        if (length == 0)
                return -EINVAL;
        if (length > CONTROL_TEXT)
                return -EMSGSIZE;
        memcpy(request.text, text, length);
        request.length = (uint32_t)length;
        return ask(c, &request, sequence, FRAME_MS);
}

int control_step(struct control *c, uint64_t *sequence)
{
        struct control_request request = make(CONTROL_STEP);
        return ask(c, &request, sequence, STEP_MS);
}

int control_tick(struct control *c, uint64_t *sequence)
{
        struct control_request request = make(CONTROL_TICK);
        return ask(c, &request, sequence, FRAME_MS);
}

int control_stream(struct control *c, int *fd, char *why, size_t size)
{
        struct control_request request = make(CONTROL_STREAM);
        struct control_answer answer = { .length = 0 };
        int r = control_call(c, &request, &answer, fd, SHORT_MS);
        if (size > 0)
                why[0] = 0;
        if (r == 0 && answer.error == 0)
                return *fd < 0 ? -EPROTO : 0;
        if (r == 0 && *fd >= 0)
                close(*fd);
        *fd = -1;
        if (r < 0)
                return r;
        if (size > 0) {
                size_t length = answer.length < size - 1 ? answer.length : size - 1;
                memcpy(why, answer.text, length);
                why[length] = 0;
        }
        return -answer.error;
}

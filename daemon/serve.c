/*
 * The control socket's server.
 *
 * Guarantees: no call here blocks; what one client does costs the tick a bounded time. One request is read per client and round; a client
 * that used up its allowance is not read until it has some again (its packets wait in its own socket); one that does not take its
 * answers is dropped. Packets of another size or magic end the connection. Descriptors that a client sends are never received.
 *
 * One daemon per path: a lock beside the socket decides, because two that start at once would both find a dead socket and both replace it.
 */
#include "daemon/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sample/control.h"
#include "sample/trust.h"

/* An allowance: requests come at most every `cost` on average, after a burst of `burst` / `cost`.
 * `next` is when the last one is paid for. */
struct allowance {
        uint64_t next_ns;
};

#define MS UINT64_C(1000000)
/* The rest of the places is for who asks something and leaves: a reader that only wants the ring's descriptor. */
enum { LEASE_HOLDERS = SERVE_CLIENTS - 4 };
enum { PER_USER = SERVE_CLIENTS / 2, BACKLOG = 16, SEND_BYTES = 4096 };
#define BURST_NS (1000 * MS)
#define IDLE_NS (5000 * MS)
#define REQUEST_NS (10 * MS)    /* 100 a second */
#define FRAME_NS (50 * MS)      /* those that take a frame: 20 a second and client, */
#define ALL_FRAMES_NS (20 * MS) /* 50 a second in all */

struct client {
        int fd; /* -1: free */
        bool adopted;
        pid_t pid;
        uid_t uid;
        uint64_t leases, last_ns; /* last_ns: of the last request */
        struct allowance requests;
};

struct serve {
        struct serve_hooks hooks;
        int listener, lock;
        char path[sizeof ((struct sockaddr_un *)NULL)->sun_path];
        dev_t dev;
        ino_t ino;                    /* of the socket's path */
        struct allowance arrivals, frames;
        bool had_adopted;
        uint64_t leases;
        struct client clients[SERVE_CLIENTS + 1]; /* the last one is kept for the adopted socket */
        short polled[SERVE_FDS];      /* index of client that each pollfd belongs to, -1 the listener */
        size_t polls;
};

static bool allowed(const struct allowance *a, uint64_t now)
{
        return a->next_ns <= now + BURST_NS;
}

static uint64_t allowed_at(const struct allowance *a)
{
        return a->next_ns - BURST_NS; /* only asked when not allowed now, so it is larger */
}

static void pay(struct allowance *a, uint64_t cost, uint64_t now)
{
        a->next_ns = (a->next_ns > now ? a->next_ns : now) + cost;
}

static void close_fd(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

/* ---- life --------------------------------------------------------------------------------------------------------------------- */

int serve_new(const struct serve_hooks *hooks, struct serve **serve)
{
        struct serve *s = calloc(1, sizeof *s);
        if (!s)
                return -ENOMEM;
        s->hooks = *hooks;
        s->listener = s->lock = -1;
        for (size_t i = 0; i <= SERVE_CLIENTS; i++)
                s->clients[i].fd = -1;
        *serve = s;
        return 0;
}

static void lock_name(const struct serve *s, char *name, size_t size)
{
        snprintf(name, size, "%s.lock", s->path);
}

static void stop_listening(struct serve *s)
{
        struct stat st;
        char name[sizeof s->path + 8];
        if (s->listener >= 0 && lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
                unlink(s->path);
        close_fd(&s->listener);
        if (s->lock >= 0) {
                lock_name(s, name, sizeof name);
                unlink(name); /* ours while we hold it: whoever opened it meanwhile looks again, see take_lock */
        }
        close_fd(&s->lock);
}

void serve_free(struct serve *s)
{
        if (!s)
                return;
        for (size_t i = 0; i <= SERVE_CLIENTS; i++)
                close_fd(&s->clients[i].fd);
        stop_listening(s);
        free(s);
}

/* ---- the path ----------------------------------------------------------------------------------------------------------------- */

static pid_t read_pid(int fd)
{
        char text[24] = { 0 };
        return pread(fd, text, sizeof text - 1, 0) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* See trust_heir. */
static int leave_to_heir(const char *name, int fd)
{
        char folder[sizeof ((struct sockaddr_un *)NULL)->sun_path + 8];
        struct stat st;
        const char *slash = strrchr(name, '/');
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - name) + 1 : 1, slash ? name : ".");
        return stat(folder, &st) < 0 || fchown(fd, trust_heir(&st), (gid_t)-1) < 0 ? -errno : 0;
}

/* Lock what lies at the name. -EAGAIN: its owner removed it meanwhile, look again. */
static int try_lock(const char *name, int *locked, pid_t *holder)
{
        struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        struct stat ours, there;
        char text[24];
        int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
        if (fd < 0)
                return -errno;
        int r = 0;
        if (fcntl(fd, F_OFD_SETLK, &l) < 0) {
                r = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
                if (r == -EBUSY)
                        *holder = read_pid(fd);
        } else if (fstat(fd, &ours) < 0 || stat(name, &there) < 0 || ours.st_ino != there.st_ino || ours.st_dev != there.st_dev) {
                r = -EAGAIN;
        } else if (!S_ISREG(ours.st_mode) || ours.st_size > (off_t)sizeof text || ours.st_nlink != 1) {
                r = -EEXIST; /* not a lock of ours, or another name of some small file that would be written over */
        } else {
                r = leave_to_heir(name, fd);
        }
        if (r < 0) {
                close(fd);
                return r;
        }
        int length = snprintf(text, sizeof text, "%-20ld\n", (long)getpid());
        ssize_t written = pwrite(fd, text, (size_t)length, 0);
        (void)written; /* without a number the next one only learns that somebody is there */
        *locked = fd;
        return 0;
}

static int take_lock(struct serve *s, pid_t *holder)
{
        char name[sizeof s->path + 8];
        int r = -EAGAIN;
        lock_name(s, name, sizeof name);
        for (int tries = 0; tries < 16 && r == -EAGAIN; tries++)
                r = try_lock(name, &s->lock, holder);
        return r == -EAGAIN ? -EBUSY : r;
}

/* Remove a socket that nobody listens at. */
static int clear_path(const struct sockaddr_un *address, pid_t *holder)
{
        struct stat st;
        struct ucred peer;
        socklen_t length = sizeof peer;
        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode))
                return -EEXIST;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        int r = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : -EBUSY;
        if (r == -EBUSY && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
                *holder = peer.pid;
        close(fd);
        if (r == -ECONNREFUSED)
                return unlink(address->sun_path) < 0 ? -errno : 0;
        /* A full backlog, or a listener of another type: somebody is there all the same. */
        return r == -EAGAIN || r == -EPROTOTYPE ? -EBUSY : r;
}

/* Give the socket to group watop. By descriptor: whoever owns the folder could put a link in the path's place meanwhile, and we may be
 * root. Where there is no such group, or we may not give it, the socket stays ours alone: our own group may be that of all users. */
static int share_path(const struct serve *s)
{
        struct stat st;
        gid_t group;
        char path[64];
        if (trust_group(&group) < 0)
                return 0;
        int fd = open(s->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = fstat(fd, &st) < 0 ? -errno : st.st_dev == s->dev && st.st_ino == s->ino ? 0 : -EEXIST;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (r == 0 && fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) == 0)
                r = chmod(path, 0660) < 0 ? -errno : 0;
        else if (r == 0 && errno != EPERM)
                r = -errno;
        close(fd);
        return r;
}

static int bind_path(struct serve *s, const struct sockaddr_un *address)
{
        struct stat st;
        /* Linux gives the new file the mode of the socket (less the umask): closed until it is ready. */
        if (fchmod(s->listener, 0600) < 0 || bind(s->listener, (const struct sockaddr *)address, sizeof *address) < 0)
                return -errno;
        if (lstat(s->path, &st) < 0)
                return -errno;
        s->dev = st.st_dev;
        s->ino = st.st_ino;
        return listen(s->listener, BACKLOG) < 0 ? -errno : share_path(s);
}

int serve_listen(struct serve *s, const char *path, pid_t *holder)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t length = strlen(path);
        pid_t ignored;
        if (length == 0 || length >= sizeof address.sun_path)
                return -ENAMETOOLONG;
        if (s->listener >= 0)
                return -EALREADY;
        if (!holder)
                holder = &ignored;
        *holder = 0;
        memcpy(address.sun_path, path, length + 1);
        memcpy(s->path, path, length + 1);
        int r = take_lock(s, holder);
        if (r == 0)
                r = clear_path(&address, holder);
        if (r == 0) {
                s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                r = s->listener < 0 ? -errno : bind_path(s, &address);
        }
        if (r < 0)
                stop_listening(s);
        return r;
}

int serve_adopt(struct serve *s, int fd)
{
        struct client *c = &s->clients[SERVE_CLIENTS];
        int type = 0, r = 0;
        socklen_t length = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0)
                r = -errno;
        else if (type != SOCK_SEQPACKET)
                r = -EPROTOTYPE;
        else if (s->had_adopted)
                r = -EALREADY;
        else if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                r = -errno;
        if (r < 0) {
                if (fd >= 0)
                        close(fd);
                return r;
        }
        *c = (struct client){ .fd = fd, .adopted = true, .pid = getppid(), .uid = geteuid() };
        s->had_adopted = true;
        return 0;
}

bool serve_orphan(const struct serve *s)
{
        return s->had_adopted && s->clients[SERVE_CLIENTS].fd < 0;
}

/* ---- leases ------------------------------------------------------------------------------------------------------------------- */

/* What all want now; the part of it that is granted. */
static uint64_t settle_leases(struct serve *s)
{
        uint64_t wanted = 0;
        for (size_t i = 0; i <= SERVE_CLIENTS; i++)
                if (s->clients[i].fd >= 0)
                        wanted |= s->clients[i].leases;
        s->leases = wanted;
        return s->hooks.lease(s->hooks.arg, wanted);
}

static bool may_lease(const struct serve *s, const struct client *c)
{
        size_t holders = 0;
        for (size_t i = 0; i < SERVE_CLIENTS; i++)
                holders += s->clients[i].fd >= 0 && s->clients[i].leases != 0;
        return c->adopted || c->leases != 0 || holders < LEASE_HOLDERS;
}

static void drop(struct serve *s, struct client *c)
{
        bool held = c->leases != 0;
        close_fd(&c->fd);
        c->leases = 0;
        if (held)
                settle_leases(s);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------------- */

static void set_text(struct control_answer *a, size_t length)
{
        a->length = (uint32_t)(length < CONTROL_TEXT ? length : CONTROL_TEXT);
}

/* A frame costs a whole pass over the machine, so all clients together are held to a rate too. */
static int take_frame(struct serve *s, struct client *c, const struct control_request *q, struct control_answer *a, uint64_t now)
{
        const struct serve_hooks *h = &s->hooks;
        char text[CONTROL_TEXT + 1];
        if (!c->adopted) {
                if (!allowed(&s->frames, now))
                        return EAGAIN;
                pay(&s->frames, ALL_FRAMES_NS, now);
                pay(&c->requests, FRAME_NS - REQUEST_NS, now);
        }
        switch (q->verb) {
        case CONTROL_TICK:
                return h->tick(h->arg, &a->value);
        case CONTROL_STEP:
                return h->step ? h->step(h->arg, &a->value) : EOPNOTSUPP;
        default:
                if (q->length == 0 || memchr(q->text, 0, q->length))
                        return EINVAL;
                memcpy(text, q->text, q->length);
                text[q->length] = 0;
                return h->mark(h->arg, text, q->length, c->pid, c->uid, &a->value);
        }
}

/* Whoever may connect may have it, as the ring. It is empty unless somebody has the lease for it. */
static int give_stream(struct serve *s, struct control_answer *a, int *fd)
{
        char why[CONTROL_TEXT] = "";
        int error = s->hooks.stream ? s->hooks.stream(s->hooks.arg, fd, why, sizeof why) : EOPNOTSUPP;
        if (error == 0)
                return 0;
        *fd = -1;
        set_text(a, strnlen(why, sizeof why));
        memcpy(a->text, why, a->length);
        return error;
}

static int handle(struct serve *s, struct client *c, const struct control_request *q, struct control_answer *a, int *fd, uint64_t now)
{
        struct serve_hello hello = { .ring_fd = -1 };
        if (q->version != CONTROL_VERSION)
                return EPROTONOSUPPORT;
        if (q->length > CONTROL_TEXT)
                return EINVAL;
        switch (q->verb) {
        case CONTROL_HELLO:
                s->hooks.hello(s->hooks.arg, &hello);
                a->tick_ns = hello.tick_ns;
                a->scopes = hello.scopes;
                a->value = hello.always;
                *fd = hello.ring_fd;
                return 0;
        case CONTROL_LEASE:
                if (q->value != 0 && !may_lease(s, c))
                        return EUSERS;
                c->leases = q->value;
                a->value = settle_leases(s) & q->value;
                return 0;
        case CONTROL_STREAM:
                return give_stream(s, a, fd);
        case CONTROL_STATUS:
                set_text(a, s->hooks.status(s->hooks.arg, a->text, sizeof a->text));
                return 0;
        case CONTROL_STEP:
        case CONTROL_MARK:
        case CONTROL_TICK:
                return take_frame(s, c, q, a, now);
        default:
                return EOPNOTSUPP;
        }
}

/* False: the client does not take it. */
static bool send_answer(int to, const struct control_answer *a, int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        struct iovec part = { .iov_base = (void *)(uintptr_t)a, .iov_len = sizeof *a };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
        if (fd >= 0) {
                memset(&control, 0, sizeof control);
                message.msg_control = control.bytes;
                message.msg_controllen = sizeof control.bytes;
                struct cmsghdr *m = CMSG_FIRSTHDR(&message);
                *m = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
                memcpy(CMSG_DATA(m), &fd, sizeof fd);
        }
        return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *a;
}

/* Read one request and answer it. An empty packet cannot be told from the end of the connection and ends it as well. */
static void serve_client(struct serve *s, struct client *c, uint64_t now)
{
        struct control_request q;
        ssize_t n = recv(c->fd, &q, sizeof q, MSG_DONTWAIT | MSG_TRUNC);
        /* A reset (it left our answers unread) is told once; what it had sent before is still there to read. */
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
                return;
        if (n != (ssize_t)sizeof q || q.magic != CONTROL_MAGIC) {
                drop(s, c);
                return;
        }
        c->last_ns = now;
        if (!c->adopted)
                pay(&c->requests, REQUEST_NS, now);
        int fd = -1;
        struct control_answer a = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = q.verb };
        a.error = handle(s, c, &q, &a, &fd, now);
        if (!send_answer(c->fd, &a, fd))
                drop(s, c);
}

/* ---- arrivals ----------------------------------------------------------------------------------------------------------------- */

/* The connection without a lease that was silent for the longest time, if that is long enough. Of one user only, when `same`. */
static struct client *idle_place(struct serve *s, uid_t uid, bool same, uint64_t now)
{
        struct client *idle = NULL;
        for (size_t i = 0; i < SERVE_CLIENTS; i++) {
                struct client *c = &s->clients[i];
                if (c->fd >= 0 && c->leases == 0 && now - c->last_ns >= IDLE_NS && (!same || c->uid == uid) &&
                    (idle == NULL || c->last_ns < idle->last_ns))
                        idle = c;
        }
        if (idle)
                drop(s, idle);
        return idle;
}

static struct client *free_place(struct serve *s, uid_t uid, uint64_t now)
{
        struct client *place = NULL;
        unsigned same = 0;
        for (size_t i = 0; i < SERVE_CLIENTS; i++) {
                struct client *c = &s->clients[i];
                if (c->fd < 0)
                        place = c;
                else if (c->uid == uid)
                        same++;
        }
        /* One user cannot take all places, unless he could stop the daemon anyway. */
        bool limited = same >= PER_USER && uid != 0 && uid != geteuid();
        return place && !limited ? place : idle_place(s, uid, limited, now);
}

/* Too many: said, so that the client need not guess. Its request is taken first,
 * since unread packets would turn our answer into a reset. */
static void refuse(int fd)
{
        struct control_request q;
        struct control_answer a = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .error = EUSERS };
        if (recv(fd, &q, sizeof q, MSG_DONTWAIT) == (ssize_t)sizeof q)
                a.verb = q.verb;
        send_answer(fd, &a, -1);
        close(fd);
}

static void serve_arrival(struct serve *s, uint64_t now)
{
        struct ucred peer = { 0 };
        socklen_t length = sizeof peer;
        int bytes = SEND_BYTES;
        pay(&s->arrivals, REQUEST_NS, now); /* also when it fails: out of descriptors must not become a busy loop */
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
                return;
        /* A small buffer bounds the answers, and the ring descriptors in flight, that a client can leave lying. */
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) < 0) {
                close(fd);
                return;
        }
        struct client *c = free_place(s, peer.uid, now);
        if (!c) {
                refuse(fd);
                return;
        }
        *c = (struct client){ .fd = fd, .pid = peer.pid, .uid = peer.uid, .last_ns = now };
}

/* ---- the round ---------------------------------------------------------------------------------------------------------------- */

/* Events to poll for; brings the deadline forward when there are none yet. */
static short wanted(const struct allowance *a, uint64_t now, uint64_t *deadline)
{
        if (allowed(a, now))
                return POLLIN;
        if (allowed_at(a) < *deadline)
                *deadline = allowed_at(a);
        return 0;
}

size_t serve_fds(struct serve *s, struct pollfd *fds, size_t max, uint64_t now_ns, uint64_t *deadline_ns)
{
        size_t n = 0;
        if (s->listener >= 0 && n < max) {
                s->polled[n] = -1;
                fds[n++] = (struct pollfd){ .fd = s->listener, .events = wanted(&s->arrivals, now_ns, deadline_ns) };
        }
        for (size_t i = 0; i <= SERVE_CLIENTS && n < max && n < SERVE_FDS; i++) {
                struct client *c = &s->clients[i];
                if (c->fd < 0)
                        continue;
                s->polled[n] = (short)i;
                fds[n++] = (struct pollfd){ .fd = c->fd, .events = wanted(&c->requests, now_ns, deadline_ns) };
        }
        s->polls = n;
        return n;
}

void serve_run(struct serve *s, const struct pollfd *fds, size_t count, uint64_t now_ns)
{
        bool arrival = false;
        for (size_t i = 0; i < count && i < s->polls; i++) {
                if (fds[i].revents == 0)
                        continue;
                if (s->polled[i] < 0) {
                        arrival = fds[i].revents & POLLIN;
                        continue;
                }
                struct client *c = &s->clients[s->polled[i]];
                if (c->fd != fds[i].fd)
                        continue;
                /* What it sent before it left still counts (a mark, then exit), while its allowance lasts. */
                if (fds[i].revents & POLLIN)
                        serve_client(s, c, now_ns);
                else
                        drop(s, c);
        }
        /* Last, so that a place and a descriptor number that became free in this round are not mistaken for the ones polled. */
        if (arrival)
                serve_arrival(s, now_ns);
}

size_t serve_clients(const struct serve *s)
{
        size_t n = 0;
        for (size_t i = 0; i <= SERVE_CLIENTS; i++)
                n += s->clients[i].fd >= 0;
        return n;
}

uint64_t serve_leases(const struct serve *s)
{
        return s->leases;
}

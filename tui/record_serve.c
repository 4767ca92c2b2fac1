/*
 * The recorder's socket. Contract: record_serve.h.
 */
#include "tui/record_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sample/trust.h"
#include "tui/record.h"

enum { BACKLOG = 16, CONNECT_MS = 2000, CONNECT_STEP_MS = 10 };

/* A path longer than an address holds is reached through its folder's descriptor; the caller closes *folder. */
static int make_address(const char *path, struct sockaddr_un *address, int *folder)
{
        char parent[PATH_MAX];
        const char *slash = strrchr(path, '/');

        *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
        *folder = -1;
        if ((size_t)snprintf(address->sun_path, sizeof address->sun_path, "%s", path) < sizeof address->sun_path)
                return 0;
        if (slash == NULL || (size_t)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path) + 1, path) >= sizeof parent)
                return -ENAMETOOLONG;
        *folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (*folder < 0)
                return -errno;
        int length = snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", *folder, slash + 1);
        if ((size_t)length < sizeof address->sun_path)
                return 0;
        close(*folder);
        *folder = -1;
        return -ENAMETOOLONG;
}

/* ---- the client's side ------------------------------------------------------------------------------------------------------------- */

static int connect_patiently(int fd, const struct sockaddr_un *address)
{
        for (int waited = 0;; waited += CONNECT_STEP_MS) {
                if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
                        return 0;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                if (waited >= CONNECT_MS)
                        return -ETIMEDOUT;
                poll(NULL, 0, CONNECT_STEP_MS);
        }
}

int record_connect(const char *path, int any_owner, struct control **control)
{
        struct sockaddr_un address;
        struct ucred peer;
        socklen_t length = sizeof peer;
        int folder;

        int r = make_address(path, &address, &folder);
        if (r < 0)
                return r;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r = fd < 0 ? -errno : connect_patiently(fd, &address);
        if (folder >= 0)
                close(folder);
        if (r == 0 && !any_owner)
                r = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ? -errno : trust_user(peer.uid) ? 0 : -EPERM;
        if (r == 0)
                return control_adopt(fd, control);
        if (fd >= 0)
                close(fd);
        return r;
}

/* ---- the recorder's side ----------------------------------------------------------------------------------------------------------- */

/* What a killed recorder left; a living one keeps its socket. */
static int clear_path(const char *path)
{
        struct control *control;
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
                return -EEXIST;
        int r = record_connect(path, 1, &control);
        if (r == 0)
                control_close(control);
        if (r != -ECONNREFUSED)
                return -EBUSY;
        return unlink(path) < 0 ? -errno : 0;
}

static int listen_at(struct record_serve *serve, const char *path)
{
        struct sockaddr_un address;
        struct stat st;
        int folder;

        int r = clear_path(path);
        if (r == 0)
                r = make_address(path, &address, &folder);
        if (r < 0)
                return r;
        serve->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        /* Linux gives the file the mode of the socket. */
        if (serve->listener < 0 || fchmod(serve->listener, 0600) < 0 ||
            bind(serve->listener, (const struct sockaddr *)&address, sizeof address) < 0 || lstat(path, &st) < 0 ||
            listen(serve->listener, BACKLOG) < 0)
                r = -errno;
        if (folder >= 0)
                close(folder);
        if (r < 0) {
                if (serve->listener >= 0)
                        close(serve->listener);
                serve->listener = -1;
                return r;
        }
        snprintf(serve->path, sizeof serve->path, "%s", path);
        serve->device = st.st_dev;
        serve->inode = st.st_ino;
        return 0;
}

/* Not every file system has sockets, nor every name room for `.mark`. */
static int listen_elsewhere(struct record_serve *serve)
{
        const char *runtime = geteuid() == 0 ? NULL : secure_getenv("XDG_RUNTIME_DIR");
        char path[RECORD_PATH];

        snprintf(serve->folder, sizeof serve->folder, "%s/watop-record-XXXXXX", runtime != NULL && *runtime == '/' ? runtime : "/tmp");
        if (mkdtemp(serve->folder) == NULL) {
                serve->folder[0] = '\0';
                return -errno;
        }
        if ((size_t)snprintf(path, sizeof path, "%s/mark", serve->folder) >= sizeof path)
                return -ENAMETOOLONG;
        return listen_at(serve, path);
}

int record_serve_open(struct record_serve *serve, const char *log_path)
{
        char path[RECORD_PATH];

        serve->listener = -1;
        serve->path[0] = serve->folder[0] = '\0';
        for (int i = 0; i < RECORD_CLIENTS; i++)
                serve->clients[i] = -1;
        int r = (size_t)snprintf(path, sizeof path, "%s.mark", log_path) < sizeof path ? listen_at(serve, path) : -ENAMETOOLONG;
        return r < 0 ? listen_elsewhere(serve) : r;
}

size_t record_serve_fds(struct record_serve *serve, struct pollfd fds[RECORD_FDS])
{
        size_t n = 0;

        if (serve->listener >= 0)
                fds[n++] = (struct pollfd){ .fd = serve->listener, .events = POLLIN };
        for (int i = 0; i < RECORD_CLIENTS; i++)
                if (serve->clients[i] >= 0)
                        fds[n++] = (struct pollfd){ .fd = serve->clients[i], .events = POLLIN };
        return n;
}

static int answer_mark(struct record_serve *serve, const struct control_request *request, uint64_t *sequence)
{
        char text[CONTROL_TEXT + 1];

        if (record_clean_text(text, sizeof text, request->text, request->length) == 0)
                return EINVAL;
        return serve->mark(serve->arg, text, sequence);
}

/* False: done with this one. */
static bool serve_client(struct record_serve *serve, int fd)
{
        struct control_request request;

        ssize_t n = recv(fd, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return true;
        if (n != (ssize_t)sizeof request || request.magic != CONTROL_MAGIC || request.length > CONTROL_TEXT)
                return false;
        struct control_answer answer = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = request.verb };
        if (request.version != CONTROL_VERSION)
                answer.error = EPROTONOSUPPORT;
        else if (request.verb == CONTROL_MARK)
                answer.error = answer_mark(serve, &request, &answer.value);
        else if (request.verb == CONTROL_STATUS)
                answer.length = (uint32_t)snprintf(answer.text, sizeof answer.text, "watop record %s pid %d", WATOP_VERSION, (int)getpid());
        else
                answer.error = EOPNOTSUPP;
        return send(fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof answer;
}

static void serve_arrival(struct record_serve *serve)
{
        struct ucred peer;
        socklen_t length = sizeof peer;
        int free_place = 0;

        int fd = accept4(serve->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
                return;
        while (free_place < RECORD_CLIENTS && serve->clients[free_place] >= 0)
                free_place++;
        bool ours = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
        if (!ours || free_place == RECORD_CLIENTS)
                close(fd);
        else
                serve->clients[free_place] = fd;
}

void record_serve_run(struct record_serve *serve, const struct pollfd *fds, size_t count)
{
        bool arrival = false;

        for (size_t i = 0; i < count; i++) {
                if (fds[i].revents == 0)
                        continue;
                if (fds[i].fd == serve->listener) {
                        arrival = true;
                        continue;
                }
                for (int c = 0; c < RECORD_CLIENTS; c++)
                        if (serve->clients[c] == fds[i].fd && !serve_client(serve, fds[i].fd)) {
                                close(serve->clients[c]);
                                serve->clients[c] = -1;
                        }
        }
        if (arrival)
                serve_arrival(serve);
}

void record_serve_close(struct record_serve *serve)
{
        struct stat st;

        for (int i = 0; i < RECORD_CLIENTS; i++)
                if (serve->clients[i] >= 0)
                        close(serve->clients[i]);
        if (serve->listener >= 0) {
                if (lstat(serve->path, &st) == 0 && st.st_dev == serve->device && st.st_ino == serve->inode)
                        unlink(serve->path);
                close(serve->listener);
        }
        serve->listener = -1;
        if (serve->folder[0] != '\0')
                rmdir(serve->folder);
        serve->folder[0] = '\0';
}

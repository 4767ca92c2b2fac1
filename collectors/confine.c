/*
 * The confined opener. openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS) where the kernel has it (5.6); a walk with O_NOFOLLOW, component
 * by component, where it has not (RHEL 8: 4.18) or where a container's seccomp filter refuses it.
 *
 * A file is first opened with O_PATH, which runs no driver's open and cannot block, and looked at; only a regular file or a folder is
 * then opened for reading, and it must be the same inode.
 */
#include "collectors/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437 /* the same number on every architecture */
#endif

enum { IN_ROOT = 0x10, NO_MAGICLINKS = 0x02, LINKS_MAX = 40 };

static bool no_openat2;

void confine_without_openat2(int yes)
{
        no_openat2 = yes;
}

/* struct open_how of linux/openat2.h, which older headers lack. */
static int openat2_in_root(int root, const char *path, int flags)
{
        struct { uint64_t flags, mode, resolve; } how = { .flags = (uint64_t)(unsigned)flags, .resolve = IN_ROOT | NO_MAGICLINKS };
        for (int i = 0; i < 16; i++) { /* EAGAIN: a rename went on at the same time */
                long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
                if (fd >= 0)
                        return (int)fd;
                if (errno != EAGAIN && errno != EINTR)
                        break;
        }
        return -errno;
}

/* Put a link's target in place of the first `used` bytes of rest. */
static int splice_target(int fd, char *rest, size_t used)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(fd, "", target, sizeof target);
        if (n < 0)
                return -errno;
        size_t tail = strlen(rest + used);
        if ((size_t)n + 1 + tail + 1 > PATH_MAX)
                return -ENAMETOOLONG;
        memmove(rest + n + 1, rest + used, tail + 1);
        memcpy(rest, target, (size_t)n);
        rest[n] = '/';
        return n > 0 && target[0] == '/';
}

/* The walk: `done` is a path without links, each of whose components has been opened with O_NOFOLLOW; `rest` is what is still to be
 * walked. */
struct walk {
        int root, fd;
        char done[PATH_MAX], rest[PATH_MAX];
};

/* Reach `done` again from the root (after ".." or an absolute link). */
static int walk_again(struct walk *w)
{
        int fd = openat(w->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char *save = NULL, copy[PATH_MAX];
        memcpy(copy, w->done, sizeof copy);
        for (char *part = strtok_r(copy, "/", &save); part && fd >= 0; part = strtok_r(NULL, "/", &save)) {
                int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                int error = errno;
                close(fd);
                fd = next;
                errno = error;
        }
        int error = errno;
        close(w->fd);
        w->fd = fd;
        return fd < 0 ? -error : 0;
}

static int walk_up(struct walk *w)
{
        char *slash = strrchr(w->done, '/');
        *(slash ? slash : w->done) = '\0';
        return walk_again(w);
}

/* One component. 1 = more to walk, 0 = done. */
static int walk_step(struct walk *w, bool follow_last, unsigned *links)
{
        size_t skip = strspn(w->rest, "/");
        memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
        size_t length = strcspn(w->rest, "/");
        if (length == 0)
                return 0;
        char part[NAME_MAX + 1];
        if (length > NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(part, w->rest, length);
        part[length] = '\0';
        bool last = w->rest[length + strspn(w->rest + length, "/")] == '\0';
        int r = 1;
        if (strcmp(part, "..") == 0) {
                r = walk_up(w);
        } else if (strcmp(part, ".") != 0) {
                int next = openat(w->fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                struct stat st;
                if (next < 0)
                        return -errno;
                if (fstat(next, &st) == 0 && S_ISLNK(st.st_mode) && (follow_last || !last)) {
                        int absolute = ++*links > LINKS_MAX ? -ELOOP : splice_target(next, w->rest, length);
                        close(next);
                        if (absolute > 0) {
                                w->done[0] = '\0';
                                absolute = walk_again(w);
                        }
                        return absolute < 0 ? absolute : 1;
                }
                close(w->fd);
                w->fd = next;
                size_t have = strlen(w->done);
                if (have + length + 2 > sizeof w->done)
                        return -ENAMETOOLONG;
                w->done[have] = '/';
                memcpy(w->done + have + 1, part, length + 1);
        }
        if (r < 0)
                return r;
        memmove(w->rest, w->rest + length, strlen(w->rest + length) + 1);
        return last ? 0 : 1;
}

/* O_PATH descriptor of path, without openat2. */
static int walk_open(int root, const char *path, bool follow_last)
{
        struct walk w = { .root = root, .fd = -1 };
        unsigned links = 0;
        size_t length = strlen(path);
        if (length >= sizeof w.rest)
                return -ENAMETOOLONG;
        memcpy(w.rest, path, length + 1);
        w.fd = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w.fd < 0)
                return -errno;
        int r;
        do {
                r = walk_step(&w, follow_last, &links);
        } while (r > 0);
        if (r < 0) {
                if (w.fd >= 0)
                        close(w.fd);
                return r;
        }
        return w.fd;
}

static int open_path(int root, const char *path, bool follow_last)
{
        if (!no_openat2) {
                int fd = openat2_in_root(root, path, O_PATH | O_CLOEXEC | (follow_last ? 0 : O_NOFOLLOW));
                if (fd != -ENOSYS && fd != -EPERM)
                        return fd;
        }
        return walk_open(root, path, follow_last);
}

int confine_open_link(int root, const char *path)
{
        return open_path(root, path, false);
}

/* Reopen for reading what an O_PATH descriptor names. A folder opens itself; a file through the descriptor's entry in /proc/self/fd,
 * which is our own and names the inode that was looked at. */
static int reopen(int fd, bool folder)
{
        char self[32] = "/proc/self/fd/";
        if (folder) {
                int opened = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                return opened < 0 ? -errno : opened;
        }
        char digits[12];
        size_t n = 0, at = strlen(self);
        for (int v = fd; n == 0 || v > 0; v /= 10)
                digits[n++] = (char)('0' + v % 10);
        while (n > 0)
                self[at++] = digits[--n];
        self[at] = '\0';
        int opened = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        return opened < 0 ? -errno : opened;
}

int confine_open(int root, const char *path)
{
        struct stat st;
        int fd = open_path(root, path, true), opened;
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                opened = -errno;
        else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                opened = -EINVAL;
        else
                opened = reopen(fd, S_ISDIR(st.st_mode));
        close(fd);
        return opened;
}

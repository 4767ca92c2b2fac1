/*
 * The ring's writer.
 *
 * It never waits for a reader. All bytes are allocated at creation, so that a tmpfs that fills up later cannot end the daemon with a
 * bus error. The order of the stores is the promise written in ring_layout.h; ring_reader.c keeps the other half of it.
 *
 * A path belongs to whoever holds the write lock (OFD) on the file that lies there. To take it over from a dead writer, the old file is
 * locked first and the new one, locked already, renamed over it: two daemons that start at once cannot both win, and no reader ever sees
 * a file that is half made.
 */
#include "sample/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "sample/ring_layout.h"
#include "sample/trust.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct ring_writer {
        int fd, read_fd;         /* fd holds the lock */
        int folder;              /* of the path, -1 for a memfd */
        char name[NAME_MAX + 1]; /* in the folder */
        int guard;
        size_t length;
        struct ring_head *shared;
        char *data;
        uint64_t capacity;
        /* What we stored ourselves: never read back, so that nobody can lead the writer astray. */
        uint64_t head, tail, full;
};

static uint64_t clock_ns(clockid_t id)
{
        struct timespec t;
        clock_gettime(id, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t ring_namespace(const char *name)
{
        char path[64];
        struct stat st;
        snprintf(path, sizeof path, "/proc/self/ns/%s", name);
        return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* The kernel gives 36 characters, 32 of them hex digits; absent (all 0) when it does not. */
static void read_boot_id(uint8_t id[16])
{
        char text[64];
        unsigned n = 0;
        uint8_t got[16] = { 0 };
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (fd >= 0)
                close(fd);
        for (ssize_t i = 0; i < length && n < 32; i++) {
                char c = text[i];
                int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
                if (digit >= 0) {
                        got[n / 2] = (uint8_t)(got[n / 2] << 4 | digit);
                        n++;
                }
        }
        if (n == 32)
                memcpy(id, got, 16);
}

/* ---- taking a path ------------------------------------------------------------------------------------------------------------ */

static int lock_file(int fd)
{
        struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        if (fcntl(fd, F_OFD_SETLK, &l) == 0)
                return 0;
        return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
}

static pid_t read_holder(int fd)
{
        struct ring_head h;
        if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || h.magic != RING_MAGIC || h.pid > INT_MAX)
                return 0;
        return (pid_t)h.pid;
}

/* True when a living writer holds the file at the path. Takes no lock, so that looking disturbs nobody who starts at the same time. */
static bool is_held(int folder, const char *name, pid_t *holder)
{
        struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
        struct stat st;
        if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                return false;
        int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return false;
        bool held = fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
        if (held)
                *holder = read_holder(fd);
        close(fd);
        return held;
}

/* Lock what lies at the path now. 0: *old is its locked descriptor, or -1 when nothing lies there. -EAGAIN: it changed, look again. */
static int claim_old(int folder, const char *name, int *old, pid_t *holder)
{
        struct stat st, now;
        uint64_t magic = 0;
        *old = -1;
        if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISREG(st.st_mode))
                return -EEXIST;
        int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return errno == ENOENT ? -EAGAIN : -errno;

        int r = fstat(fd, &st) < 0 ? -errno : lock_file(fd);
        if (r == -EBUSY)
                *holder = read_holder(fd);
        if (r == 0 && (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != st.st_ino || now.st_dev != st.st_dev))
                r = -EAGAIN;
        /* Never replace a file that is not a ring: somebody mistyped a path. */
        if (r == 0 && st.st_size > 0 && (pread(fd, &magic, sizeof magic, 0) != (ssize_t)sizeof magic || magic != RING_MAGIC))
                r = -EEXIST;
        if (r < 0) {
                close(fd);
                return r;
        }
        *old = fd;
        return 0;
}

/* Give the finished file its name. */
static int take_name(struct ring_writer *w, const char *temporary, pid_t *holder)
{
        for (int tries = 0; tries < 16; tries++) {
                int old;
                int r = claim_old(w->folder, w->name, &old, holder);
                if (r == -EAGAIN)
                        continue;
                if (r < 0)
                        return r;
                r = old >= 0 ? renameat(w->folder, temporary, w->folder, w->name)
                             : renameat2(w->folder, temporary, w->folder, w->name, RENAME_NOREPLACE);
                r = r < 0 ? -errno : 0;
                if (old >= 0)
                        close(old);
                if (r != -EEXIST || old >= 0)
                        return r;
        }
        return -EBUSY;
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

static int open_folder(struct ring_writer *w, const char *path)
{
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        char folder[PATH_MAX];
        struct statfs fs;
        if (name[0] == 0 || strlen(name) > NAME_MAX - 32 || strlen(path) >= sizeof folder)
                return -EINVAL;
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
        snprintf(w->name, sizeof w->name, "%s", name);
        w->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w->folder < 0 || fstatfs(w->folder, &fs) < 0)
                return -errno;
        /* On any other file system the kernel would write the ring to a disk, over and over. */
        return fs.f_type == TMPFS_MAGIC ? 0 : -EXDEV;
}

static int open_temporary(struct ring_writer *w, char *name, size_t size)
{
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
                return -errno;
        if ((size_t)snprintf(name, size, ".%s.%016llx", w->name, (unsigned long long)number) >= size)
                return -EINVAL;
        /* Not readable by others before the lock is ours: nobody can come between with a lock of his own. */
        w->fd = openat(w->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return w->fd < 0 ? -errno : 0;
}

/* Allocate, map, lock. */
static int map_file(struct ring_writer *w, uint64_t size)
{
        long page = sysconf(_SC_PAGESIZE);
        uint64_t unit = page > 0 ? (uint64_t)page : 4096;
        w->capacity = (size + unit - 1) / unit * unit;
        w->length = (size_t)(RING_DATA_AT + w->capacity);
        if (ftruncate(w->fd, (off_t)w->length) < 0 || fallocate(w->fd, 0, 0, (off_t)w->length) < 0)
                return -errno;
        void *map = mmap(NULL, w->length, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        w->shared = map;
        w->data = (char *)map + RING_DATA_AT;
        w->guard = ring_guard_add(map, w->length, PROT_READ | PROT_WRITE);
        return w->guard < 0 ? w->guard : lock_file(w->fd);
}

static int write_head(struct ring_writer *w)
{
        struct ring_head *h = w->shared;
        size_t schema = schema_write((char *)h + RING_HEAD_BYTES, RING_SCHEMA_BYTES);
        if (schema == 0 || schema > RING_SCHEMA_BYTES)
                return -EFBIG;
        h->layout = RING_LAYOUT;
        h->head_bytes = RING_HEAD_BYTES;
        h->capacity = w->capacity;
        h->schema_length = (uint32_t)schema;
        h->pid = (uint32_t)getpid();
        h->start_ns = clock_ns(CLOCK_BOOTTIME);
        h->pid_ns = ring_namespace("pid");
        h->user_ns = ring_namespace("user");
        h->time_ns = ring_namespace("time");
        read_boot_id(h->boot_id);
        snprintf(h->version, sizeof h->version, "%s", WATOP_VERSION);
        h->full = h->full_before = w->full = RING_NOWHERE;
        ring_put(&h->heartbeat_ns, clock_ns(CLOCK_MONOTONIC));
        __atomic_store_n(&h->state, RING_LIVE, __ATOMIC_RELEASE);
        h->magic = RING_MAGIC;
        return 0;
}

static int seal_memfd(int fd)
{
        int base = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
        /* Kernels before 5.1 lack FUTURE_WRITE; there the file's mode and the read-only descriptor keep readers from writing. */
        if (fcntl(fd, F_ADD_SEALS, base | F_SEAL_FUTURE_WRITE) == 0)
                return 0;
        return errno == EINVAL && fcntl(fd, F_ADD_SEALS, base) == 0 ? 0 : -errno;
}

static int open_again_read_only(int fd)
{
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int again = open(path, O_RDONLY | O_CLOEXEC);
        return again < 0 ? -errno : again;
}

static int make_memfd(struct ring_writer *w, uint64_t size)
{
        /* Since 6.3 a system may ask for memfds that cannot be executed; older kernels do not know the flag. */
        w->fd = memfd_create("watop-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        if (w->fd < 0 && errno == EINVAL)
                w->fd = memfd_create("watop-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (w->fd < 0 || fchmod(w->fd, 0600) < 0)
                return -errno;
        int r = map_file(w, size);
        if (r == 0)
                r = write_head(w);
        return r == 0 ? seal_memfd(w->fd) : r;
}

/* The group's rights are for group watop alone: where there is none, or we may not give it, our own group (of all users, maybe) gets
 * none. */
static int share_file(const struct ring_writer *w, mode_t mode)
{
        struct stat folder;
        gid_t group;
        int fd = w->fd;
        if ((mode & 070) && (trust_group(&group) < 0 || fchown(fd, (uid_t)-1, group) < 0))
                mode &= ~(mode_t)070;
        if (fstat(w->folder, &folder) < 0 || fchown(fd, trust_heir(&folder), (gid_t)-1) < 0 || fchmod(fd, mode) < 0)
                return -errno;
        return 0;
}

static int make_file(struct ring_writer *w, const char *path, uint64_t size, mode_t mode, pid_t *holder)
{
        char temporary[NAME_MAX + 1];
        int r = open_folder(w, path);
        if (r == 0 && is_held(w->folder, w->name, holder)) /* before 64 MiB are allocated; take_name decides */
                r = -EBUSY;
        if (r == 0)
                r = open_temporary(w, temporary, sizeof temporary);
        if (r < 0)
                return r;

        r = map_file(w, size);
        if (r == 0)
                r = write_head(w);
        if (r == 0)
                r = share_file(w, mode);
        if (r == 0)
                r = take_name(w, temporary, holder);
        if (r < 0)
                unlinkat(w->folder, temporary, 0);
        return r;
}

static void close_fd(int fd)
{
        if (fd >= 0)
                close(fd);
}

static void writer_free(struct ring_writer *w)
{
        ring_guard_remove(w->guard);
        if (w->shared)
                munmap(w->shared, w->length);
        close_fd(w->read_fd);
        close_fd(w->fd);
        close_fd(w->folder);
        free(w);
}

int ring_create(const char *path, uint64_t size, mode_t mode, struct ring_writer **writer, pid_t *holder)
{
        pid_t ignored;
        if (size < RING_MIN_SIZE || size > RING_MAX_SIZE)
                return -EINVAL;
        struct ring_writer *w = calloc(1, sizeof *w);
        if (!w)
                return -ENOMEM;
        w->fd = w->read_fd = w->folder = w->guard = -1;
        if (!holder)
                holder = &ignored;
        *holder = 0;
        int r = path ? make_file(w, path, size, mode, holder) : make_memfd(w, size);
        if (r == 0) {
                w->read_fd = open_again_read_only(w->fd);
                /* A file's readers open its path, so only a memfd needs it. */
                if (w->read_fd < 0 && !path)
                        r = w->read_fd;
        }
        if (r < 0) {
                writer_free(w);
                return r;
        }
        *writer = w;
        return 0;
}

static void publish(struct ring_writer *w)
{
        __atomic_fetch_add(&w->shared->publish, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &w->shared->publish, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ring_destroy(struct ring_writer *w)
{
        struct stat ours, there;
        if (!w)
                return;
        __atomic_store_n(&w->shared->state, RING_ENDED, __ATOMIC_RELEASE);
        publish(w);
        if (w->folder >= 0 && fstat(w->fd, &ours) == 0 && fstatat(w->folder, w->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
                unlinkat(w->folder, w->name, 0);
        writer_free(w);
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

/* `from` holds `length` bytes; the last word is filled with 0. */
static void put_words(uint64_t *to, const char *from, uint64_t length)
{
        uint64_t word;
        for (; length >= 8; length -= 8, from += 8) {
                memcpy(&word, from, 8);
                ring_put(to++, word);
        }
        if (length > 0) {
                word = 0;
                memcpy(&word, from, length);
                ring_put(to, word);
        }
}

static uint64_t *word_at(const struct ring_writer *w, uint64_t position)
{
        return (uint64_t *)(void *)(w->data + position % w->capacity);
}

/* Give up the oldest frames until `need` bytes are free. */
static void release(struct ring_writer *w, uint64_t need)
{
        while (w->head + need - w->tail > w->capacity) {
                struct frame_head h;
                uint64_t word = ring_get(word_at(w, w->tail));
                memcpy(&h, &word, sizeof word); /* magic and length are the first word */
                uint64_t step = ring_round(h.length);
                /* Only a file that somebody cut short (ring_guard.c) can hold another length than we wrote. */
                w->tail = step < sizeof h || step > w->head - w->tail ? w->head : w->tail + step;
        }
        ring_put(&w->shared->tail, w->tail); /* pair 1 of the promise */
}

int ring_publish(struct ring_writer *w, const void *frame, size_t length)
{
        struct frame_head h;
        if (length < sizeof h)
                return -EINVAL;
        memcpy(&h, frame, sizeof h);
        if (length != h.length)
                return -EINVAL;
        if (length > w->capacity / 3)
                return -EFBIG;

        struct ring_head *shared = w->shared;
        uint64_t at = w->head, first = w->capacity - at % w->capacity;
        if (first > length)
                first = length;
        release(w, ring_round(length));
        put_words(word_at(w, at), frame, first); /* pair 2 */
        put_words((uint64_t *)(void *)w->data, (const char *)frame + first, length - first);
        w->head = at + ring_round(length);
        ring_put(&shared->head, w->head); /* pair 3 */

        if (h.flags & FRAME_FULL) {
                ring_put(&shared->full_before, w->full);
                ring_put(&shared->full, at);
                w->full = at;
        }
        ring_put(&shared->sequence, h.sequence);
        publish(w);
        return ring_guard_broken(w->guard) ? -EIO : 0;
}

void ring_heartbeat(struct ring_writer *w, uint64_t mono_ns)
{
        ring_put(&w->shared->heartbeat_ns, mono_ns);
}

void ring_set_tick(struct ring_writer *w, uint64_t tick_ns)
{
        ring_put(&w->shared->tick_ns, tick_ns);
}

int ring_writer_fd(const struct ring_writer *w)
{
        return w->read_fd;
}

void *ring_writer_map(const struct ring_writer *w, size_t *length)
{
        *length = w->length;
        return w->shared;
}

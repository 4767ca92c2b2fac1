/*
 * The opener: reading kernel files of this machine, or of a captured one.
 *
 * This machine: plain openat below a kept descriptor of "/". What is read there is the kernel's own, so a regular-file check is only made
 * outside /proc and /sys, and one system call per file is saved. A captured machine may come from a stranger: collectors/confine.c keeps
 * every path inside its tree.
 *
 * Reading this machine keeps no state between calls, so procfs_read, procfs_link and procfs_list may be called from a helper thread too.
 */
#include "collectors/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collectors/capture.h"
#include "collectors/confine.h"
#include "collectors/tree.h"

enum {
        READ_ALL_FIRST = 16 << 10,
        READ_ALL_MAX = 64 << 20, /* /proc/stat of 4,096 cores is under 1 MiB */
        /* A file below /proc or /sys whose first read gives less than this has ended: seq_file fills a page before it gives up early, and
         * no record of the files read every tick is longer than half of one. Saves the read that would only say "end". */
        SHORT_READ = 2048,
        FUSE_MAGIC = 0x65735546, /* linux/magic.h, FUSE_SUPER_MAGIC */
        DENTS = 16 << 10,
};

struct procfs {
        int root;                /* "/" or the captured folder */
        bool live;
        unsigned epoch;          /* grows with each tree entered */
        struct tree tree;        /* where reads go now; of a captured machine */
        unsigned hz, page_size;
        bool lxcfs;
        struct capture *capture;
        /* Captured machine: how long after the tree's clock the file read last was stored, and the latest of those read so far. Atomic,
         * for helpers read too. */
        _Atomic uint64_t stamp_ns, latest_ns;
};

/* ---- roots --------------------------------------------------------------------------------------------------------- */

static void live_constants(struct procfs *p)
{
        struct statfs fs;
        int fd = openat(p->root, "proc/stat", O_RDONLY | O_CLOEXEC);
        long hz = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
        p->hz = hz > 0 ? (unsigned)hz : 100;
        p->page_size = page > 0 ? (unsigned)page : 4096;
        if (fd < 0)
                return;
        p->lxcfs = fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == FUSE_MAGIC;
        close(fd);
}

int procfs_open_root(const char *root, struct procfs **result)
{
        struct procfs *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        tree_init(&p->tree);
        p->live = !root || strcmp(root, "/") == 0;
        p->root = open(p->live ? "/" : root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = p->root < 0 ? -errno : 0;
        if (r == 0 && p->live)
                live_constants(p);
        else if (r == 0)
                r = procfs_next(p, 0);
        if (r >= 0 && !p->live)
                r = procfs_enter(p, (unsigned)r, -1);
        if (r < 0) {
                procfs_close_root(p);
                return r;
        }
        *result = p;
        return 0;
}

void procfs_close_root(struct procfs *p)
{
        if (!p)
                return;
        capture_close(p->capture);
        tree_fini(&p->tree);
        if (p->root >= 0)
                close(p->root);
        free(p);
}

bool procfs_live(const struct procfs *p)
{
        return p->live;
}

int procfs_enter(struct procfs *p, unsigned number, int sub)
{
        if (p->live)
                return -ENOENT;
        int r = tree_enter(&p->tree, p->root, number, sub);
        if (r < 0)
                return r;
        p->hz = p->tree.hz;
        p->page_size = p->tree.page_size;
        p->lxcfs = p->tree.lxcfs;
        p->stamp_ns = p->latest_ns = 0;
        p->epoch++;
        return 0;
}

/* -1: the name is no tree's. */
static int tree_number(const char *name)
{
        char *end, again[16];
        long number = strtol(name, &end, 10);

        if (number < 0 || number > INT_MAX || *end != '\0')
                return -1;
        snprintf(again, sizeof again, "%04ld", number);
        return strcmp(name, again) == 0 ? (int)number : -1;
}

int procfs_next(const struct procfs *p, unsigned from)
{
        int next = -ENOENT;
        bool numbered = false;
        int fd = p->live ? -1 : openat(p->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = fd < 0 ? NULL : fdopendir(fd);

        if (!folder) {
                int r = p->live ? -ENOENT : -errno;
                if (fd >= 0)
                        close(fd);
                return r;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
                int number = tree_number(entry->d_name);
                numbered = numbered || number >= 0;
                if (number >= 0 && (unsigned)number >= from && (next < 0 || number < next))
                        next = number;
        }
        closedir(folder);
        return numbered || from > 0 ? next : 0;
}

int procfs_capture(struct procfs *p, const char *dir)
{
        struct capture *capture = NULL;
        int r = dir ? capture_open(dir, &capture) : 0;
        if (r < 0)
                return r;
        r = capture_error_of(p->capture);
        capture_close(p->capture);
        p->capture = capture;
        return dir ? 0 : r;
}

int procfs_capture_tree(struct procfs *p, unsigned number, int sub)
{
        return p->capture ? capture_tree(p->capture, p, number, sub) : -EINVAL;
}

int procfs_capture_anonymize(struct procfs *p)
{
        return p->capture ? capture_anonymize(p->capture) : -EINVAL;
}

int procfs_capture_error(const struct procfs *p)
{
        return capture_error_of(p->capture);
}

/* ---- opening and reading ------------------------------------------------------------------------------------------- */

static bool kernel_path(const char *path)
{
        return strncmp(path, "proc/", 5) == 0 || strncmp(path, "sys/", 4) == 0;
}

static int open_live(const struct procfs *p, const char *path, int flags)
{
        struct stat st;
        int fd = openat(p->root, path, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return -errno;
        if (kernel_path(path))
                return fd;
        if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
                return fd;
        close(fd);
        return -EINVAL;
}

static int open_file(const struct procfs *p, const char *path, int flags)
{
        while (*path == '/')
                path++;
        if (p->live)
                return open_live(p, path, flags);
        int error = tree_error(&p->tree, path);
        return error ? -error : confine_open(p->tree.fd, path);
}

/* Fill buffer from the start of the file; at most size bytes. *ended: the file has no more. */
static ssize_t fill(int fd, char *buffer, size_t size, size_t have, bool kernel, bool *ended)
{
        *ended = false;
        while (have < size) {
                ssize_t n = pread(fd, buffer + have, size - have, (off_t)have);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                bool first = have == 0;
                have += (size_t)n;
                if (n == 0 || (kernel && first && n < SHORT_READ && have < size)) {
                        *ended = true;
                        break;
                }
        }
        return (ssize_t)have;
}

/* Whole file into a buffer that grows, NUL-terminated. */
static ssize_t read_growing(int fd, char **buffer, size_t *capacity, bool kernel)
{
        ssize_t n = 0;
        bool ended = false;
        while (!ended) {
                if ((size_t)n + 1 >= *capacity) {
                        size_t wanted = *capacity < READ_ALL_FIRST ? READ_ALL_FIRST : *capacity * 2;
                        if (wanted > READ_ALL_MAX)
                                return -EOVERFLOW;
                        char *grown = realloc(*buffer, wanted);
                        if (!grown)
                                return -ENOMEM;
                        *buffer = grown;
                        *capacity = wanted;
                }
                n = fill(fd, *buffer, *capacity - 1, (size_t)n, kernel, &ended);
                if (n < 0)
                        return n;
        }
        (*buffer)[n] = '\0';
        return n;
}

/* A file of a captured tree was read: time goes on to when it was stored. */
static void note_time(struct procfs *p, const char *path)
{
        uint64_t at;
        while (*path == '/')
                path++;
        if (!tree_time(&p->tree, path, &at))
                return;
        p->stamp_ns = at;
        if (at > p->latest_ns)
                p->latest_ns = at;
}

static ssize_t noted(struct procfs *p, const char *path, const char *bytes, ssize_t n)
{
        if (!p->live && n >= 0)
                note_time(p, path);
        if (!p->capture)
                return n;
        if (n >= 0)
                capture_file(p->capture, p, path, bytes, (size_t)n);
        else
                capture_error(p->capture, p, path, (int)-n);
        return n;
}

/* The file did not fit the reader's buffer: the capture still gets the whole of it, so that a replay overflows in the same way. */
static void note_overflow(const struct procfs *p, const char *path, int fd)
{
        char *all = NULL;
        size_t capacity = 0;
        ssize_t n = p->capture ? read_growing(fd, &all, &capacity, false) : -1;
        if (n >= 0)
                capture_file(p->capture, p, path, all, (size_t)n);
        free(all);
}

ssize_t procfs_read(struct procfs *p, const char *path, char *buffer, size_t size)
{
        if (size == 0)
                return -EINVAL;
        buffer[0] = '\0';
        int fd = open_file(p, path, 0);
        if (fd < 0)
                return noted(p, path, NULL, fd);
        bool ended;
        ssize_t n = fill(fd, buffer, size - 1, 0, p->live && kernel_path(path), &ended);
        char more;
        if (n >= 0 && !ended && pread(fd, &more, 1, n) == 1) {
                buffer[n] = '\0';
                note_overflow(p, path, fd);
                close(fd);
                return -EOVERFLOW;
        }
        close(fd);
        buffer[n > 0 ? n : 0] = '\0';
        return noted(p, path, buffer, n);
}

ssize_t procfs_read_cut(void *procfs, const char *path, char *buffer, size_t size)
{
        ssize_t n = procfs_read(procfs, path, buffer, size);
        return n == -EOVERFLOW ? (ssize_t)size - 1 : n;
}

ssize_t procfs_readf(struct procfs *p, char *buffer, size_t size, const char *format, ...)
{
        char path[PATH_MAX];
        va_list ap;
        va_start(ap, format);
        int n = vsnprintf(path, sizeof path, format, ap);
        va_end(ap);
        if (n < 0 || (size_t)n >= sizeof path)
                return -ENAMETOOLONG;
        return procfs_read(p, path, buffer, size);
}

ssize_t procfs_read_all(struct procfs *p, const char *path, char **buffer, size_t *capacity)
{
        int fd = open_file(p, path, 0);
        if (fd < 0)
                return noted(p, path, NULL, fd);
        ssize_t n = read_growing(fd, buffer, capacity, false);
        close(fd);
        return noted(p, path, *buffer, n);
}

ssize_t procfs_link(struct procfs *p, const char *path, char *buffer, size_t size)
{
        if (size == 0)
                return -EINVAL;
        while (*path == '/')
                path++;
        ssize_t n;
        if (p->live) {
                n = readlinkat(p->root, path, buffer, size);
                n = n < 0 ? -errno : n;
        } else {
                int error = tree_error(&p->tree, path);
                int fd = error ? -error : confine_open_link(p->tree.fd, path);
                n = fd;
                if (fd >= 0) {
                        n = readlinkat(fd, "", buffer, size);
                        /* an O_PATH descriptor of what is no link says ENOENT here; readlink of its path would say EINVAL */
                        n = n < 0 ? (errno == ENOENT ? -EINVAL : -errno) : n;
                        close(fd);
                }
        }
        if (n >= 0 && (size_t)n >= size)
                n = -EOVERFLOW;
        if (n >= 0)
                buffer[n] = '\0';
        if (p->capture && n >= 0)
                capture_link(p->capture, p, path, buffer);
        else if (p->capture)
                capture_error(p->capture, p, path, (int)-n);
        return n;
}

/* ---- folders ------------------------------------------------------------------------------------------------------- */

struct dent { /* struct linux_dirent64, which no C library declares */
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
};

/* getdents64 rather than readdir: nothing is allocated, and a helper thread that hangs leaves nothing behind. */
static int list_fd(const struct procfs *p, int fd, const char *path, bool numeric, int (*each)(void *, const char *, unsigned char),
                   void *arg)
{
        _Alignas(struct dent) char block[DENTS];
        for (;;) {
                long n = syscall(SYS_getdents64, fd, block, sizeof block);
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                for (long at = 0; at < n;) {
                        const struct dent *d = (const void *)(block + at);
                        at += d->length;
                        if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0 || (numeric && (*d->name < '0' || *d->name > '9')))
                                continue;
                        if (p->capture)
                                capture_entry(p->capture, p, path, d->name, d->type);
                        int r = each(arg, d->name, d->type);
                        if (r != 0)
                                return r;
                }
        }
}

/* numeric: entries that do not begin with a digit are of no interest, nor to a capture. */
static int list(struct procfs *p, const char *path, bool numeric, int (*each)(void *, const char *, unsigned char), void *arg)
{
        int fd = open_file(p, path[0] ? path : ".", O_DIRECTORY);
        if (fd < 0) {
                noted(p, path, NULL, fd);
                return fd;
        }
        if (p->capture)
                capture_folder(p->capture, p, path);
        int r = list_fd(p, fd, path, numeric, each, arg);
        close(fd);
        return r;
}

int procfs_list(struct procfs *p, const char *path, int (*each)(void *arg, const char *name, unsigned char type), void *arg)
{
        return list(p, path, false, each, arg);
}

uint64_t procfs_inode(const struct procfs *p, const char *path)
{
        struct stat st;
        while (*path == '/')
                path++;
        return p->live && fstatat(p->root, path, &st, 0) == 0 ? st.st_ino : 0;
}

bool procfs_unread(const struct procfs *p, const char *path)
{
        while (*path == '/')
                path++;
        if (p->live || tree_error(&p->tree, path))
                return false;
        int fd = confine_open_link(p->tree.fd, path);
        if (fd >= 0)
                close(fd);
        return fd == -ENOENT || fd == -ENOTDIR;
}

bool procfs_unlisted(const struct procfs *p)
{
        uint64_t at;
        return !p->live && p->tree.time_count > 0 && !tree_time(&p->tree, "proc", &at);
}

bool procfs_unreadf(const struct procfs *p, const char *format, ...)
{
        char path[PATH_MAX];
        va_list ap;
        if (p->live)
                return false;
        va_start(ap, format);
        int n = vsnprintf(path, sizeof path, format, ap);
        va_end(ap);
        return n >= 0 && (size_t)n < sizeof path && procfs_unread(p, path);
}

struct ids {
        int **ids;
        size_t *capacity, count;
};

static int add_id(void *arg, const char *name, unsigned char type)
{
        struct ids *ids = arg;
        long id = 0;
        for (const char *c = name; *c; c++) {
                if (*c < '0' || *c > '9')
                        return 0;
                id = id * 10 + (*c - '0');
                if (id > INT_MAX)
                        return 0;
        }
        if (ids->count == *ids->capacity) {
                size_t wanted = *ids->capacity < 256 ? 256 : *ids->capacity * 2;
                int *grown = realloc(*ids->ids, wanted * sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                *ids->ids = grown;
                *ids->capacity = wanted;
        }
        (*ids->ids)[ids->count++] = (int)id;
        return 0;
}

ssize_t procfs_ids(struct procfs *p, const char *path, int **numbers, size_t *capacity)
{
        struct ids ids = { .ids = numbers, .capacity = capacity };
        int r = list(p, path, true, add_id, &ids);
        return r < 0 ? r : (ssize_t)ids.count;
}

/* ---- kept descriptors ---------------------------------------------------------------------------------------------- */

void procfs_file_init(struct procfs_file *f, const char *path)
{
        size_t length = strlen(path);
        memset(f, 0, sizeof *f);
        f->fd = -1;
        if (length < sizeof f->path) /* else it stays empty, and reading answers -ENAMETOOLONG */
                memcpy(f->path, path, length + 1);
}

void procfs_file_close(struct procfs_file *f)
{
        if (f->fd >= 0)
                close(f->fd);
        f->fd = -1;
}

static bool went_away(ssize_t n)
{
        return n == -ENODEV || n == -ESRCH || n == -ENOENT || n == -ENXIO || n == -ESTALE;
}

ssize_t procfs_file_read(struct procfs *p, struct procfs_file *f, char **buffer, size_t *capacity)
{
        if (!f->path[0])
                return -ENAMETOOLONG;
        if (f->epoch != p->epoch)
                procfs_file_close(f);
        ssize_t n = -ENODEV;
        for (int attempt = 0; attempt < 2 && went_away(n); attempt++) {
                if (attempt > 0 || f->fd < 0) {
                        procfs_file_close(f);
                        f->fd = open_file(p, f->path, 0);
                        f->epoch = p->epoch;
                        attempt = 1;
                }
                if (f->fd < 0) {
                        n = f->fd;
                        f->fd = -1;
                        break;
                }
                n = read_growing(f->fd, buffer, capacity, p->live && kernel_path(f->path));
        }
        if (n < 0)
                procfs_file_close(f);
        return noted(p, f->path, *buffer, n);
}

/* ---- clocks and constants ------------------------------------------------------------------------------------------ */

static uint64_t clock_ns(clockid_t id)
{
        struct timespec ts = { 0 };
        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

void procfs_clock(const struct procfs *p, struct procfs_clock *clock)
{
        if (!p->live) {
                *clock = p->tree.clock;
                clock->mono_ns += p->latest_ns;
                clock->boot_ns += p->latest_ns;
                clock->real_ns += p->latest_ns;
                return;
        }
        clock->mono_ns = clock_ns(CLOCK_MONOTONIC);
        clock->boot_ns = clock_ns(CLOCK_BOOTTIME);
        clock->real_ns = clock_ns(CLOCK_REALTIME);
}

uint64_t procfs_mono(const struct procfs *p)
{
        return p->live ? clock_ns(CLOCK_MONOTONIC) : p->tree.clock.mono_ns + p->latest_ns;
}

uint64_t procfs_stamp(const struct procfs *p)
{
        return p->live ? clock_ns(CLOCK_MONOTONIC) : p->tree.clock.mono_ns + p->stamp_ns;
}

unsigned procfs_hz(const struct procfs *p)
{
        return p->hz;
}

unsigned procfs_page_size(const struct procfs *p)
{
        return p->page_size;
}

bool procfs_lxcfs(const struct procfs *p)
{
        return p->lxcfs;
}

ssize_t procfs_system(const struct procfs *p, const char *key, char *buffer, size_t size)
{
        return p->live ? -ENOENT : tree_system(&p->tree, key, buffer, size);
}

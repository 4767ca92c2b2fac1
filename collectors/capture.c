/*
 * Writing a captured machine: what the collectors read, file for file, with the errors they met.
 *
 * One file per path and tree: the first read of a tree stands (a second one, of a thread read before and after /proc/stat, is left out).
 * Entries of a listed folder that nobody opens are kept as empty files or folders, so that the listing comes out the same. A link is kept
 * as a link when its target was read, and gives way to a folder when something below it was. Folders are 0700, files 0600, each made with
 * O_EXCL below descriptors that were opened with O_NOFOLLOW.
 */
#include "collectors/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "collectors/anonymize.h"

struct capture {
        pthread_mutex_t lock; /* helper threads read, and so write, too */
        int dir, tree;        /* tree: -1 until the first file or capture_tree */
        int error;
        unsigned number;      /* tree being written, as NUMBER.part until it is whole */
        bool begun, ticked;   /* it has a folder; its own tick was read, not only sub-samples before it */
        bool in_tick;         /* `tree` is the tick's own, not a sub-sample's */
        int parent;           /* folder of the file stored last, -1 = none: most files lie beside the one before */
        char parent_path[256];
        uint64_t clock_ns;    /* of the tree's `clock` */
        char *times;          /* what its file `times` will hold */
        size_t times_length, times_capacity;
        struct anonymizer *names;
};

static void failed(struct capture *c, int r)
{
        if (r < 0 && c->error == 0)
                c->error = r;
}

/* ---- folders and files --------------------------------------------------------------------------------------------- */

/* Folder `name` in `at`, made if need be; a placeholder or a link in its place is taken away. */
static int enter_folder(int at, const char *name)
{
        for (int attempt = 0; attempt < 2; attempt++) {
                int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0)
                        return fd;
                if (errno == ENOTDIR || errno == ELOOP)
                        unlinkat(at, name, 0);
                else if (errno != ENOENT)
                        return -errno;
                if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
                        return -errno;
        }
        return -ENOTDIR;
}

/* Make the folders of path below `at`; returns a descriptor of the last but one and leaves the last component in leaf. A path that would
 * climb is refused. */
static int enter_parent(int at, const char *path, char leaf[NAME_MAX + 1])
{
        int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (;;) {
                path += strspn(path, "/");
                size_t length = strcspn(path, "/");
                if (length == 0 || length > NAME_MAX || (length == 2 && memcmp(path, "..", 2) == 0) || (length == 1 && *path == '.')) {
                        close(fd);
                        return length > NAME_MAX ? -ENAMETOOLONG : -EINVAL;
                }
                memcpy(leaf, path, length);
                leaf[length] = '\0';
                path += length;
                if (path[strspn(path, "/")] == '\0')
                        return fd;
                int next = enter_folder(fd, leaf);
                close(fd);
                if (next < 0)
                        return next;
                fd = next;
        }
}

static int write_all(int fd, const char *bytes, size_t length)
{
        while (length > 0) {
                ssize_t n = write(fd, bytes, length);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                bytes += n;
                length -= (size_t)n;
        }
        return 0;
}

static void forget_parent(struct capture *c)
{
        if (c->parent >= 0)
                close(c->parent);
        c->parent = -1;
}

/* enter_parent in the present tree; the descriptor stays ours. */
static int parent_of(struct capture *c, const char *path, char leaf[NAME_MAX + 1])
{
        const char *slash = strrchr(path, '/');
        size_t length = slash ? (size_t)(slash - path) : 0;
        bool plain = slash && slash[1] && length < sizeof c->parent_path && strlen(slash + 1) <= NAME_MAX && slash[1] != '.';
        if (plain && c->parent >= 0 && strncmp(c->parent_path, path, length) == 0 && c->parent_path[length] == '\0') {
                memcpy(leaf, slash + 1, strlen(slash + 1) + 1);
                return c->parent;
        }
        forget_parent(c);
        c->parent = enter_parent(c->tree, path, leaf);
        memcpy(c->parent_path, path, plain ? length : 0);
        c->parent_path[plain ? length : 0] = '\0'; /* no path has an empty folder */
        return c->parent;
}

/* A new file, or a placeholder of ours that is still empty: 0. What is already there stands: 1. */
static int store(struct capture *c, const char *path, const char *bytes, size_t length)
{
        char leaf[NAME_MAX + 1];
        struct stat st;
        int at = parent_of(c, path, leaf);
        if (at < 0)
                return at;
        int fd = openat(at, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST) {
                fd = -1;
                errno = 0;
                if (fstatat(at, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 && length > 0)
                        fd = openat(at, leaf, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        }
        int r = fd >= 0 ? write_all(fd, bytes, length) : errno ? -errno : 1;
        if (fd >= 0)
                close(fd);
        if (fd >= 0 && r < 0)
                unlinkat(at, leaf, 0); /* no half a file */
        return r;
}

/* ---- times ------------------------------------------------------------------------------------------------------------- */

/* Counters that grow with time, and who waits: the rest may be as old as its tree. */
static bool time_matters(const char *path)
{
        const char *leaf = strrchr(path, '/');
        return leaf && (strcmp(leaf, "/stat") == 0 || strcmp(leaf, "/diskstats") == 0);
}

static int note_time(struct capture *c, const struct procfs *p, const char *path)
{
        size_t length = strlen(path);
        uint64_t now = procfs_mono(p);
        if (c->times_capacity - c->times_length < length + 32) {
                size_t wanted = c->times_capacity * 2 + length + 4096;
                char *grown = realloc(c->times, wanted);
                if (!grown)
                        return -ENOMEM;
                c->times = grown;
                c->times_capacity = wanted;
        }
        c->times_length += (size_t)snprintf(c->times + c->times_length, c->times_capacity - c->times_length, "%llu %s\n",
                (unsigned long long)(now > c->clock_ns ? now - c->clock_ns : 0), path);
        return 0;
}

/* Nothing more is written into this tree. */
static void leave_tree(struct capture *c)
{
        if (c->tree >= 0 && c->times_length > 0)
                failed(c, store(c, "times", c->times, c->times_length));
        c->times_length = 0;
        forget_parent(c);
        if (c->tree >= 0)
                close(c->tree);
        c->tree = -1;
}

/* ---- trees --------------------------------------------------------------------------------------------------------- */

static long utc_offset(uint64_t real_ns)
{
        struct tm tm;
        time_t now = (time_t)(real_ns / UINT64_C(1000000000));
        return localtime_r(&now, &tm) ? tm.tm_gmtoff : 0;
}

static int write_system(struct capture *c, const struct procfs *p)
{
        char text[512];
        struct utsname uts;
        struct procfs_clock now;
        procfs_clock(p, &now);
        c->clock_ns = now.mono_ns;
        unlinkat(c->tree, "clock", 0); /* of what was read before the first tick */
        int n = snprintf(text, sizeof text, "%llu %llu %llu\n", (unsigned long long)now.mono_ns, (unsigned long long)now.boot_ns,
                         (unsigned long long)now.real_ns);
        int r = store(c, "clock", text, (size_t)n);
        if (r < 0)
                return r;
        n = snprintf(text, sizeof text, "hz=%u\npage_size=%u\nncpu=%ld\nkernel=%s\nlxcfs=%d\nutc_offset=%ld\n", procfs_hz(p),
                procfs_page_size(p),
                     sysconf(_SC_NPROCESSORS_ONLN), uname(&uts) == 0 ? uts.release : "", procfs_lxcfs(p), utc_offset(now.real_ns));
        return store(c, "system", text, (size_t)n);
}

/* The tree to write into; without capture_tree it is the folder itself. */
static bool tree_ready(struct capture *c, const struct procfs *p)
{
        if (c->tree >= 0)
                return true;
        c->tree = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        failed(c, c->tree < 0 ? -errno : write_system(c, p));
        return c->tree >= 0;
}

/* Remove what we wrote ourselves below `at`; a folder that is not there is gone already. */
static void remove_folder(int at, const char *name)
{
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *folder = fd < 0 ? NULL : fdopendir(fd);
        if (!folder)
                return;
        for (struct dirent *entry; (entry = readdir(folder));) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (unlinkat(fd, entry->d_name, 0) < 0)
                        remove_folder(fd, entry->d_name);
        }
        closedir(folder);
        unlinkat(at, name, AT_REMOVEDIR);
}

/* The tree being written gets its name once its tick is whole; sub-samples of a tick that never came are taken away. */
static void end_tree(struct capture *c)
{
        char part[32], name[32];
        if (!c->begun)
                return;
        leave_tree(c);
        snprintf(part, sizeof part, "%04u.part", c->number);
        snprintf(name, sizeof name, "%04u", c->number);
        if (c->ticked)
                failed(c, renameat2(c->dir, part, c->dir, name, RENAME_NOREPLACE) < 0 ? -errno : 0);
        else
                remove_folder(c->dir, part);
        c->begun = c->ticked = false;
}

int capture_tree(struct capture *c, const struct procfs *p, unsigned number, int sub)
{
        char path[48], leaf[NAME_MAX + 1];
        if (sub >= 0)
                snprintf(path, sizeof path, "%04u.part/sub/%02d", number, sub);
        else
                snprintf(path, sizeof path, "%04u.part", number);
        pthread_mutex_lock(&c->lock);
        /* Opening the collectors wrote into it: its tick begins now. */
        bool again = number == c->number && sub < 0 && c->begun && c->in_tick && c->tree >= 0;
        if (number != c->number)
                end_tree(c);
        if (again)
                c->times_length = 0;
        else
                leave_tree(c);
        c->number = number;
        c->begun = true;
        c->ticked = c->ticked || sub < 0;
        c->in_tick = sub < 0;
        int r = c->tree >= 0 ? c->tree : enter_parent(c->dir, path, leaf);
        if (r >= 0 && c->tree < 0) {
                int at = r;
                r = enter_folder(at, leaf);
                close(at);
        }
        if (r >= 0) {
                c->tree = r;
                r = write_system(c, p);
        }
        failed(c, r);
        pthread_mutex_unlock(&c->lock);
        return r;
}

/* ---- opening and closing ------------------------------------------------------------------------------------------- */

static int check_folder(int fd, bool made)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
                return -EPERM;
        if (made)
                return 0;
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        if (!d)
                return -errno;
        int entries = 0;
        while (readdir(d))
                entries++;
        closedir(d);
        return entries > 2 ? -ENOTEMPTY : 0; /* "." and ".." */
}

int capture_open(const char *dir, struct capture **result)
{
        struct capture *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        pthread_mutex_init(&c->lock, NULL);
        c->tree = c->parent = -1;
        bool made = mkdir(dir, 0700) == 0;
        int r = made || errno == EEXIST ? 0 : -errno;
        c->dir = r < 0 ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (r == 0)
                r = c->dir < 0 ? -errno : check_folder(c->dir, made);
        if (r < 0) {
                capture_close(c);
                return r;
        }
        *result = c;
        return 0;
}

void capture_close(struct capture *c)
{
        if (!c)
                return;
        anonymize_free(c->names);
        if (c->dir >= 0)
                end_tree(c);
        leave_tree(c);
        if (c->dir >= 0)
                close(c->dir);
        free(c->times);
        pthread_mutex_destroy(&c->lock);
        free(c);
}

int capture_anonymize(struct capture *c)
{
        return c->names ? 0 : anonymize_new(&c->names);
}

int capture_error_of(struct capture *c)
{
        return c ? c->error : 0;
}

/* ---- what was read ------------------------------------------------------------------------------------------------- */

/* Where a path is stored; NULL (and the error remembered) when it cannot be. */
static const char *stored_path(struct capture *c, const char *path, char *buffer, size_t size)
{
        while (*path == '/')
                path++;
        if (!c->names)
                return path;
        int r = anonymize_path(c->names, path, buffer, size);
        failed(c, r);
        return r < 0 ? NULL : buffer;
}

void capture_file(struct capture *c, const struct procfs *p, const char *path, const char *bytes, size_t length)
{
        char buffer[PATH_MAX];
        pthread_mutex_lock(&c->lock);
        const char *stored = tree_ready(c, p) ? stored_path(c, path, buffer, sizeof buffer) : NULL;
        int r = 0;
        if (stored && c->names)
                r = anonymize_file(c->names, path, bytes, length, &bytes, &length);
        if (stored && r == 0)
                r = store(c, stored, bytes, length);
        if (stored && r == 0 && time_matters(stored))
                r = note_time(c, p, stored);
        failed(c, r);
        pthread_mutex_unlock(&c->lock);
}

/* Worth a line: not when an earlier read of this tree succeeded (it stands), nor for a file that is missing anyway; but a task that was
 * listed and had gone is not one that nobody looked at. */
static bool error_matters(struct capture *c, const char *path, int error)
{
        struct stat st;
        if (strchr(path, '\n'))
                return false;
        if (fstatat(c->tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return error != ENOENT || time_matters(path);
        return !S_ISLNK(st.st_mode) && (S_ISDIR(st.st_mode) || st.st_size == 0);
}

void capture_error(struct capture *c, const struct procfs *p, const char *path, int error)
{
        char buffer[PATH_MAX], line[PATH_MAX + 16];
        pthread_mutex_lock(&c->lock);
        const char *stored = tree_ready(c, p) ? stored_path(c, path, buffer, sizeof buffer) : NULL;
        if (stored && error_matters(c, stored, error)) {
                int n = snprintf(line, sizeof line, "%s %d\n", stored, error);
                int fd = openat(c->tree, "errors", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
                failed(c, fd < 0 ? -errno : n < (int)sizeof line ? write_all(fd, line, (size_t)n) : -ENAMETOOLONG);
                if (fd >= 0)
                        close(fd);
        }
        pthread_mutex_unlock(&c->lock);
}

static int store_link(int tree, const char *path, const char *target)
{
        char leaf[NAME_MAX + 1];
        struct stat st;
        int at = enter_parent(tree, path, leaf);
        if (at < 0)
                return at;
        if (fstatat(at, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
                unlinkat(at, leaf, 0); /* the placeholder of its listing */
        int r = symlinkat(target[0] ? target : ".", at, leaf) == 0 || errno == EEXIST ? 0 : -errno;
        close(at);
        return r;
}

void capture_link(struct capture *c, const struct procfs *p, const char *path, const char *target)
{
        char buffer[PATH_MAX];
        pthread_mutex_lock(&c->lock);
        const char *stored = tree_ready(c, p) ? stored_path(c, path, buffer, sizeof buffer) : NULL;
        int r = 0;
        if (stored && c->names)
                r = anonymize_link(c->names, path, target, &target);
        if (stored && r == 0)
                r = store_link(c->tree, stored, target);
        failed(c, r);
        pthread_mutex_unlock(&c->lock);
}

static int store_folder(int tree, const char *path)
{
        char leaf[NAME_MAX + 1];
        int at = enter_parent(tree, path, leaf);
        int fd = at < 0 ? at : enter_folder(at, leaf);
        if (at >= 0)
                close(at);
        if (fd < 0)
                return fd;
        close(fd);
        return 0;
}

void capture_folder(struct capture *c, const struct procfs *p, const char *path)
{
        char buffer[PATH_MAX];
        pthread_mutex_lock(&c->lock);
        const char *stored = tree_ready(c, p) ? stored_path(c, path, buffer, sizeof buffer) : NULL;
        if (stored && stored[0] && strcmp(stored, ".") != 0)
                failed(c, store_folder(c->tree, stored));
        if (stored && strcmp(stored, "proc") == 0) /* `times` also tells that it was listed: see procfs_unlisted */
                failed(c, note_time(c, p, stored));
        pthread_mutex_unlock(&c->lock);
}

void capture_entry(struct capture *c, const struct procfs *p, const char *folder, const char *name, unsigned char type)
{
        char path[PATH_MAX], buffer[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (n < 0 || (size_t)n >= sizeof path)
                return;
        if (type == DT_DIR) {
                capture_folder(c, p, path);
                return;
        }
        pthread_mutex_lock(&c->lock);
        const char *stored = tree_ready(c, p) ? stored_path(c, path, buffer, sizeof buffer) : NULL;
        if (stored)
                failed(c, store(c, stored, "", 0));
        pthread_mutex_unlock(&c->lock);
}

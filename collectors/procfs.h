#pragma once
/*
 * The one opener: every byte watopd reads from a kernel file comes through here.
 *
 * A root (normally "/", or a captured tree), files below it opened with openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS) (links such as
 * /proc/PID/ns, fd links are read with procfs_link, never followed), regular files and folders only, never blocking on a FIFO. The same
 * opener can write what it read into a tree (capture), errors included. Paths are relative, "proc/stat". Nothing is allocated per read.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct procfs;

/* root NULL or "/" = this machine. */
int procfs_open_root(const char *root, struct procfs **);
void procfs_close_root(struct procfs *);
/* True for this machine, false for a captured tree. */
bool procfs_live(const struct procfs *);
/* Captured machine: enter tree DIR/NNNN number n (first = 0), or its sub/KK (sub >= 0). 0, -ENOENT when there is none. */
int procfs_enter(struct procfs *, unsigned tree, int sub);
/* The least number >= from that a tree of the captured machine has; 0 too when none is numbered (a single tree). -ENOENT: no more. */
int procfs_next(const struct procfs *, unsigned from);
/* Write every file read from now on below dir as well, and every error as a line in dir/errors; NULL ends it. */
int procfs_capture(struct procfs *, const char *dir);
/* While capturing: what is read from now on goes to dir/NNNN (sub >= 0: its sub/KK); its `clock` and `system` are written at once. Call
 * it at the start of each tick and sub-sample. Without a call the tree is dir itself. 0, -EINVAL (no capture), -errno. */
int procfs_capture_tree(struct procfs *, unsigned tree, int sub);
/* Call after procfs_capture, before anything is read: names of people, programs and devices are replaced in what is written. */
int procfs_capture_anonymize(struct procfs *);
/* First error met while writing the capture (-ENOSPC, ...), 0 = none. Reading is never disturbed by it. */
int procfs_capture_error(const struct procfs *);

/* Read the whole of a small file into buffer, NUL-terminate it. Returns the length, or -errno: -ENOENT, -EACCES, -EOVERFLOW (does not fit;
 * buffer holds the first size-1 bytes), -ESRCH. A negative answer from a captured tree's `errors` is given here too. */
ssize_t procfs_read(struct procfs *, const char *path, char *buffer, size_t size);
/* The same, but of a file that does not fit the first size - 1 bytes are given. The first argument is a struct procfs: for slow_new. */
ssize_t procfs_read_cut(void *procfs, const char *path, char *buffer, size_t size);
/* printf form of the path. */
ssize_t procfs_readf(struct procfs *, char *buffer, size_t size, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for a file that grows with the machine: *buffer is kept and grown by the caller's own pointer (freed by the caller). */
ssize_t procfs_read_all(struct procfs *, const char *path, char **buffer, size_t *capacity);
/* Target of a link, without following it. */
ssize_t procfs_link(struct procfs *, const char *path, char *buffer, size_t size);
/* Entries of a folder, one after the other: calls each(arg, name, type) in folder order until it returns non-zero, which is
 * returned; 0 at the end; -errno. */
int procfs_list(struct procfs *, const char *path, int (*each)(void *arg, const char *name, unsigned char type), void *arg);
/* Inode of a file or folder of this machine, to tell one that was made again under the same name; 0 when unknown and in a captured
 * machine, whose inodes mean nothing. */
uint64_t procfs_inode(const struct procfs *, const char *path);
/* True in a captured machine for a path that this tree says nothing of: neither its bytes nor the error that it gave. Then nothing may be
 * concluded from an -ENOENT: what the file gave before stands. Always false on this machine. */
bool procfs_unread(const struct procfs *, const char *path);
bool procfs_unreadf(const struct procfs *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True in a tree that tells when things were read, and does not say that "proc" was listed: the tasks in it are some of all. */
bool procfs_unlisted(const struct procfs *);
/* Numeric entries only (PIDs, TIDs), ascending not guaranteed. Grows *ids as needed; returns the count or -errno. */
ssize_t procfs_ids(struct procfs *, const char *path, int **ids, size_t *capacity);

/* Kept descriptors for files read every tick: opened once, pread each time, re-opened when the file went away.
 * Works over captured trees too (follows procfs_enter). */
struct procfs_file {
        char path[64];
        int fd;             /* -1 closed */
        unsigned epoch;     /* tree it was opened in */
};
void procfs_file_init(struct procfs_file *, const char *path);
ssize_t procfs_file_read(struct procfs *, struct procfs_file *, char **buffer, size_t *capacity);
void procfs_file_close(struct procfs_file *);

/* Clocks and constants of the machine that is read: the live ones, or a captured tree's `clock` and `system`; time goes on there to when
 * the latest of the files read so far was stored (`times`). */
struct procfs_clock { uint64_t mono_ns, boot_ns, real_ns; };
void procfs_clock(const struct procfs *, struct procfs_clock *);
uint64_t procfs_mono(const struct procfs *);
/* CLOCK_MONOTONIC of the bytes read last: now on this machine; in a captured one when they were stored, as far as it tells. A pass over
 * many tasks takes long, and takes another time in each tree. */
uint64_t procfs_stamp(const struct procfs *);
unsigned procfs_hz(const struct procfs *);         /* USER_HZ, 100 */
unsigned procfs_page_size(const struct procfs *);
bool procfs_lxcfs(const struct procfs *);          /* /proc/stat is a FUSE file: a container's view */

/* A captured machine's `system` value by key (ncpu, kernel, utc_offset); length, or -ENOENT, always so on this machine. */
ssize_t procfs_system(const struct procfs *, const char *key, char *buffer, size_t size);

/* ---- scanning: no allocation, no locale, every read bounded by `end` ----------------------------------------------- */
struct scan {
        const char *at, *end;
};
void scan_init(struct scan *, const char *text, size_t length);
bool scan_line(struct scan *, struct scan *line);              /* next line without its newline */
bool scan_word(struct scan *, const char **word, size_t *length); /* next run of non-blanks */
bool scan_u64(struct scan *, uint64_t *);                      /* next decimal number after blanks; false and unmoved if none; saturates */
bool scan_i64(struct scan *, int64_t *);
bool scan_hex(struct scan *, uint64_t *);
bool scan_skip(struct scan *, unsigned words);
bool scan_prefix(struct scan *, const char *text);             /* moves past text if it is next */

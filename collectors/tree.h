#pragma once
/*
 * One tree of a captured machine, DIR/NNNN or its sub/KK: where its files are, its clock, its constants, the errors that were met when it
 * was read.
 *
 *     clock     one line of three numbers: CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, each in ns, when the tick began
 *     system    lines key=value: hz, page_size, ncpu, kernel, lxcfs (1 = /proc/stat was a FUSE file), utc_offset (seconds)
 *     times     lines "NS PATH": how long after `clock` the file was read, for those where it matters
 *     errors    lines "PATH ERRNO": number or name; reading PATH gives that error again, whatever the tree holds there
 *     proc/ sys/ dev/ etc/   the files
 *
 * A sub-sample has its own files; what it lacks of `clock` and `system` is its tick's.
 */
#include "collectors/procfs.h"

struct tree_failure {
        const char *path;
        int error;
};

struct tree_time {
        const char *path;
        uint64_t ns;
};

struct tree {
        int fd;
        struct procfs_clock clock;
        unsigned hz, page_size;
        bool lxcfs;
        char *system, *errors;          /* texts of the two files; NUL-terminated */
        struct tree_failure *failures;  /* sorted by path; the paths point into `errors` */
        size_t failure_count;
        char *times_text;
        struct tree_time *times;        /* sorted by path */
        size_t time_count;
};

void tree_init(struct tree *);
void tree_fini(struct tree *);
/* Enter DIR/NNNN (or DIR itself as tree 0 when there is no 0000), sub >= 0: its sub/KK. On failure the tree is left as it was. */
int tree_enter(struct tree *, int root, unsigned number, int sub);
/* errno recorded for a path, 0 = none. */
int tree_error(const struct tree *, const char *path);
/* When the file was read, after `clock`. False when the tree does not tell. */
bool tree_time(const struct tree *, const char *path, uint64_t *ns);
/* Value of a key of `system`. Length or -ENOENT. */
ssize_t tree_system(const struct tree *, const char *key, char *buffer, size_t size);

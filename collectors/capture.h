#pragma once
/*
 * The opener's writing side: a tree that holds what was read, so that the machine can be looked at again elsewhere.
 *
 * Used by procfs.c only. Every call may come from any thread. A failed write is remembered and given by capture_error_of(), never to the
 * reader: a full disk under a capture must not make the monitor blind.
 */
#include <stddef.h>

#include "collectors/procfs.h"

struct capture;

/* dir is made (0700), or must be an empty folder of our own that nobody else can write. 0, -ENOTEMPTY, -EPERM, -errno. */
int capture_open(const char *dir, struct capture **);
void capture_close(struct capture *);
/* From now on write below dir/NNNN, or dir/NNNN/sub/KK when sub >= 0; `clock` and `system` are written at once. */
int capture_tree(struct capture *, const struct procfs *, unsigned tree, int sub);
/* Hide names of people, programs and devices in what is written from now on. 0 or -ENOMEM. */
int capture_anonymize(struct capture *);
/* First error met while writing, or 0. */
int capture_error_of(struct capture *);

void capture_file(struct capture *, const struct procfs *, const char *path, const char *bytes, size_t length);
void capture_error(struct capture *, const struct procfs *, const char *path, int error);
void capture_link(struct capture *, const struct procfs *, const char *path, const char *target);
void capture_folder(struct capture *, const struct procfs *, const char *path);
void capture_entry(struct capture *, const struct procfs *, const char *folder, const char *name, unsigned char type);

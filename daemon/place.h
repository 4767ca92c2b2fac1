#pragma once
/*
 * Where a daemon's ring and control socket are.
 *
 * Root and the user to whom /run/watop belongs publish there; anybody else in the own $XDG_RUNTIME_DIR/watop.
 * Readers look in the same places.
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct place {
        char folder[PATH_MAX - 16], ring[PATH_MAX], socket[PATH_MAX];
};

/* ring, socket: as the command line says, or NULL. The socket lies beside the ring unless told. 0; -ENOENT: an ordinary user without
 * XDG_RUNTIME_DIR and without the options; -ENAMETOOLONG. */
int place_find(const char *ring, const char *socket, struct place *);
/* Make the run-time folder if it is not there (not one that the command line names). 0, -errno; -EPERM: it belongs to somebody else or
 * others may write there. */
int place_make(const struct place *);
/* What lies at a path, in words: "a directory of uid 0, mode 755"; "nothing" when there is nothing, or it cannot be looked at. */
void place_describe(const char *path, char *text, size_t size);
/* True when path lies on tmpfs or ramfs: elsewhere a ring would make disk writes. */
bool place_in_memory(const char *folder);

#pragma once
/*
 * What a process holds to do I/O without waiting in a system call: io_uring instances and AIO contexts of libaio.
 *
 * The first are descriptors, the second mappings that the kernel names "/[aio]" (fs/aio.c, aio_setup_ring). Reading maps takes the mmap
 * lock of the process, which may never be free on a sick machine: so it is done by a helper that can be left behind (slow.h), never for
 * tasks in D state, and only while somebody holds LEASE_RINGS. All processes are looked at in turn, once in ten seconds at most, for a two
 * hundredth of the time. Captured machines have neither: maps are full of names, and nothing else needs them.
 */
#include "collectors/collector.h"

struct held;

int held_new(struct procfs *, struct held **); /* 0 or -ENOMEM */
void held_free(struct held *);                 /* takes NULL */
/* Look at some more processes and set process.rings and process.aio; without the lease make them absent. */
void held_step(struct held *, struct tick *);
/* A slow_reader: path "proc/PID" gives "RINGS CONTEXTS", "-" for what may not be seen; or -errno of a process that is gone. */
ssize_t held_read(void *procfs, const char *path, char *buffer, size_t size);

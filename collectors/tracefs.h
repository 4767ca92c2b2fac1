#pragma once
/*
 * Block events without BPF: a private instance of tracefs, read as the kernel's binary pages. The second choice, for builds or kernels
 * without BPF: 4 to 6 events a bio instead of one record.
 *
 * The instance is named watop.PID.START.N (START as in /proc/PID/stat), holds only what it needs, and is removed at the end; those of
 * processes that are gone are removed by the next start. The user's own tracing (the top instance, other instances) is never touched.
 * Fields are found by the format files, never by version.
 */
#include <stdbool.h>
#include <stddef.h>

#include "sample/stage_record.h"

struct tracefs;

/* Finds tracefs (or its old place under debugfs), makes nothing yet. 0; -ENOENT no tracefs, -EACCES no right; why says what to do. */
int tracefs_open(struct tracefs **, char *why, size_t size);
void tracefs_close(struct tracefs *); /* removes the instance; takes NULL */
/* what: STREAM_WHAT_x; 0 stops and removes the instance. Takes some 50 ms. STREAM_WHAT_SYNC: fsync, fdatasync, msync, sync_file_range,
 * sync, syncfs; not O_SYNC writes nor io_uring. It slows every system call of everybody by some 20 ns, as
 * the kernel has one switch for all. */
int tracefs_attach(struct tracefs *, unsigned what, char *why, size_t size);
unsigned tracefs_attached(const struct tracefs *);
/* Records of kinds EVENT, SYNC (before a thread's first: NAME) and LOST that are there, in order of time over all CPUs: what is some ms
 * old, so that nothing earlier can follow. room: 4 at least. Call until it gives 0: less than room does not say that there is no more. */
size_t tracefs_drain(struct tracefs *, struct stage_record *out, size_t room);
/* Events that a full buffer swallowed. */
uint64_t tracefs_lost(const struct tracefs *);
/* Instances watop.PID.START.N whose process is gone: removed; how many. */
unsigned tracefs_clean(void);

#pragma once
/*
 * Block latency seen where it happens: BPF programs follow each bio from queue to completion and leave one record of it, and one of each
 * call that waits for data to be safe.
 *
 * As tracer.h: rights are needed to open, not to attach; nothing is attached unless somebody asked, and all is gone with the last
 * descriptor. Per-CPU buffers in shared memory: draining costs no system call, and a full buffer loses records, which are counted.
 * Without libbpf in the build: -ENOSYS.
 */
#include <stdbool.h>
#include <stddef.h>

#include "sample/stage_record.h"

struct stage_tracer;

int stage_tracer_open(struct stage_tracer **, char *why, size_t size);
void stage_tracer_close(struct stage_tracer *); /* detaches too; takes NULL */

/* what: STREAM_WHAT_x of sample/stage_stream.h. More or less may be asked for while it is attached; 0 detaches. 0 or -errno, with why. */
int stage_tracer_attach(struct stage_tracer *, unsigned what, char *why, size_t size);
unsigned stage_tracer_attached(const struct stage_tracer *); /* what is, 0 nothing */

/* Records that are there, of all CPUs in the order of their ends (events: of their times) as far as one call sees them. */
size_t stage_tracer_drain(struct stage_tracer *, struct stage_record *out, size_t room);
/* Bios that are open now: their records with c = 0, oldest first. For who is stuck: d = 0 is one that its driver has not got yet. Those
 * whose end was not seen are found out here, so it is to be called about once a second while attached. It walks the table of open bios
 * (256 KiB; 4 MiB more while thousands are open) and asks sysfs about devices that seem to have one for longer than a second. */
size_t stage_tracer_open_bios(struct stage_tracer *, struct stage_record *out, size_t room);

struct stage_tracer_stats {
        uint64_t records, lost, unmatched, crowded;
        uint64_t run_ns, run_count;           /* only while kernel.bpf_stats_enabled; as of at most a second ago, as part of unmatched is */
};
void stage_tracer_stats(struct stage_tracer *, struct stage_tracer_stats *);

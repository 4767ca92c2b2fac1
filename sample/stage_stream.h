#pragma once
/*
 * Records of the block tracer on their way from watopd to who asked for them: a ring in shared memory, one writer, any number of readers
 * that cannot harm it.
 *
 * The writer never waits. A reader that is too slow loses the oldest records and is told how many. Memory is a memfd that the writer seals;
 * readers map it read-only (the descriptor comes over the control socket, CONTROL_STREAM). Nothing in it is believed without a check.
 */
#include <stdbool.h>
#include <stddef.h>

#include "sample/stage_record.h"

enum { STREAM_RECORDS = 1 << 16 /* 8 MiB: a power of two */ };

/* What the source is and what it costs, beside the records. Only grows, except source and state. */
struct stream_facts {
        uint32_t source;              /* stream_source */
        uint32_t what;                /* STREAM_WHAT_x that is being traced now */
        uint64_t since;               /* CLOCK_MONOTONIC of the last attachment */
        uint64_t drained;             /* up to this CLOCK_MONOTONIC everything that ended is in the stream */
        uint64_t lost;                /* records or events that found no room between kernel and watopd */
        uint64_t unmatched;           /* ends without a beginning, and the like */
        uint64_t crowded;             /* bios beyond the table of open ones */
        uint64_t run_ns, run_count;   /* of the programs; 0 unless kernel.bpf_stats_enabled */
        uint64_t cpu_ns;              /* watopd's own CPU time for draining */
};
enum stream_source { STREAM_NONE, STREAM_BPF, STREAM_TRACEFS };
enum { STREAM_WHAT_BIOS = 1, STREAM_WHAT_SYNC = 2, STREAM_WHAT_EVENTS = 4 };

/* ---- writer ---- */
struct stream;
int stream_new(struct stream **);                     /* 0 or -errno */
void stream_free(struct stream *);
int stream_fd(const struct stream *);                 /* to be passed to readers; stays the stream's; opened read-only */
void stream_put(struct stream *, const struct stage_record *, size_t count);
void stream_tell(struct stream *, const struct stream_facts *);

/* ---- reader ---- */
struct stream_reader;
/* Takes the descriptor (closed on failure, too). -EBADMSG: it is none of ours. Begins at the newest record. */
int stream_open(int fd, struct stream_reader **);
void stream_close(struct stream_reader *);
/* At most `room` records that came since the last call; *lost = records that were overwritten before they could be read. */
size_t stream_take(struct stream_reader *, struct stage_record *out, size_t room, uint64_t *lost);
void stream_get_facts(struct stream_reader *, struct stream_facts *);

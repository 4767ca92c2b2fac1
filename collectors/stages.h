#pragma once
/*
 * Block tracing in watopd: one source (BPF, else tracefs), a thread that drains it while somebody has a lease, the stream for those who
 * want every record, and the sums that become rows of the scopes stage, latency, bio and sync.
 *
 * The thread works every STAGES_DRAIN_NS, so a long tick loses nothing and a stuck disk stops nothing; it attaches and detaches, too, which
 * takes tens of ms. The collector only copies sums under a lock. Counters go on over leases: a reader sees them stand still, never fall.
 * All functions are for one thread, the tick's.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row;
struct stages;
struct sums;

#define STAGES_DRAIN_NS UINT64_C(20000000)

/* With all rights, before they are dropped. bpf: may be tried. 0, or -errno with why when neither source is to be had. */
int stages_open(struct stages **, bool bpf, char *why, size_t size);
void stages_close(struct stages *); /* takes NULL */
/* Works after the rights were dropped? Tried at start, as for the exact split, before the first stages_want. */
bool stages_works(struct stages *);
/* It does not: is there another source that does? Before the first stages_want. */
bool stages_falls_back(struct stages *);
/* what: STREAM_WHAT_x wanted from now on, 0 = detach, the thread sleeps; stream: records are passed on; sums: rows are wanted. 0; -errno
 * with why when it was tried before and failed (it is tried again all the same). */
int stages_want(struct stages *, unsigned what, bool stream, bool sums, char *why, size_t size);
/* Why what is wanted is not traced: -errno and why; 0: it is, or will be in a moment. */
int stages_error(struct stages *, char *why, size_t size);
/* The stream's descriptor, or -errno. Stays ours. Who came late is told the names again. */
int stages_stream(struct stages *);
/* What the collector copies (stages_sums.h). */
struct sums *stages_sums(struct stages *);
/* What it is and costs, for watopd's own row. stages NULL: not possible here. */
void stages_self(struct stages *, struct row *);
/* One line for `watopd --check`: what can be traced here, and why not the rest. Opens, attaches for a moment, closes. */
void stages_check(bool bpf, char *line, size_t size);

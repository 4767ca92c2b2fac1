#pragma once
/*
 * watopd's log: every frame that is published also goes into a log below a folder; files begin anew each day and at a stated size, and old
 * ones go.
 *
 * It never holds up a tick: frames are copied into a queue of bounded size, and a thread of its own writes. What the queue has no room for
 * is left out and counted. A full disk or an I/O error stops it, which status says; it looks again every five minutes.
 *
 * The folder may be shared, with another daemon or another machine: only files of this machine and this daemon's ring, which nobody writes,
 * are counted and removed. Each file has a note `writer.ID` for that, with the machine and the ring in words.
 */
#include <stddef.h>
#include <stdint.h>

struct journal;

struct journal_options {
        const char *folder;
        const char *ring;      /* the daemon's ring: which of the daemons of this machine it is; NULL none */
        uint64_t file_bytes;   /* a new file from then on */
        uint64_t total_bytes;  /* of all files: the oldest go */
        uint64_t keep_ns;      /* older files go */
};

/* Makes the folder (0750, of group watop; root's with the set-group-ID bit) unless it is there: then it must be ours and not writable by
 * others (-EPERM). Before rights are given up. 0 or -errno. */
int journal_new(const struct journal_options *, struct journal **);
/* Starts the thread; after rights were given up. 0 or -errno. */
int journal_start(struct journal *);
/* A published frame. NULL: nothing. Does not wait. */
void journal_put(struct journal *, const void *frame, size_t length);
/* "log 12.3 MiB in FILE", "log stopped: No space left on device". Returns the length; 0 for NULL. */
size_t journal_status(struct journal *, char *text, size_t size);
/* Writes what is queued, ends the file. NULL: nothing. */
void journal_free(struct journal *);

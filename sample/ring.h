#pragma once
/*
 * The ring: how frames travel in memory, writer's and reader's side together.
 *
 * One writer, any number of readers that it never waits for, counts or knows. Bytes fixed and allocated at start. A reader copies a
 * frame out, then checks that the writer did not overtake it meanwhile; what it hands on is its own copy.
 * A ring is a file on tmpfs, or a memfd; readers map it read-only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/sample.h"

#define RING_DEFAULT_SIZE (UINT64_C(64) << 20)
#define RING_MIN_SIZE (UINT64_C(1) << 20)
#define RING_MAX_SIZE (UINT64_C(16) << 30)

/* ---- writer -------------------------------------------------------------------------------------------------------------- */
struct ring_writer;

/* Create a ring at path (temporary name, locked, renamed; must be on tmpfs, else -EXDEV), or a sealed memfd when path is NULL.
 * -EBUSY: a live writer holds it, *holder is its pid (0 if unknown). mode: of the file, e.g. 0640; its bits for the group are for
 * group `watop`, and dropped when the file cannot be given to it. */
int ring_create(const char *path, uint64_t size, mode_t mode, struct ring_writer **, pid_t *holder);
void ring_destroy(struct ring_writer *); /* marks the ring as ended, unlinks its path if it is still ours */
int ring_publish(struct ring_writer *, const void *frame, size_t length); /* 0, -EFBIG: larger than a third of the ring */
void ring_heartbeat(struct ring_writer *, uint64_t mono_ns);
void ring_set_tick(struct ring_writer *, uint64_t tick_ns);
int ring_writer_fd(const struct ring_writer *); /* read-only descriptor to hand out */

/* ---- reader -------------------------------------------------------------------------------------------------------------- */
struct ring;

/* Open by path: O_NOFOLLOW, a regular file, owner root, the user `watop` or oneself, its folder not writable by others
 * (-EPERM otherwise). By descriptor: takes it over. -EPROTO: not a ring or another layout version; -EBADMSG: lying header;
 * -ENOENT, -EACCES as open(2). Maps read-only. */
int ring_open(const char *path, struct ring **);
int ring_open_fd(int fd, struct ring **);
void ring_close(struct ring *);

struct ring_info {
        pid_t pid;                  /* writer */
        uid_t owner;                /* of the file */
        uint64_t start_ns;          /* writer's start, boot time */
        uint64_t pid_ns, user_ns;   /* inodes of its namespaces */
        bool same_pid_ns;
        uint8_t boot_id[16];
        uint64_t tick_ns, heartbeat_ns, size;
        uint64_t sequence;          /* newest published, 0 none */
        uint64_t first_sequence, first_real_ns; /* oldest still there */
        char version[32];           /* writer's program version */
};
int ring_info(struct ring *, struct ring_info *);
/* True while the writer lives: it holds its lock (path rings) and beat within 3 s of now. */
bool ring_alive(struct ring *, uint64_t mono_now_ns);
/* True while the writer is there, whether its heart beats or not: it holds its lock and did not end the ring. Not alive, but held: it is
 * stopped or hangs. */
bool ring_held(struct ring *);
/* For a program that installs its own SIGBUS handler after ring_open: ask this first with si_addr; true = a ring's file was cut short, it
 * is dealt with, return from the handler. (A handler that was there before ring_open is kept and called.) */
bool ring_fault(void *address);
const struct schema *ring_schema(const struct ring *);
/* The schema block as its writer wrote it, for a log of its frames: malloc'ed. 0 or -ENOMEM. */
int ring_schema_block(const struct ring *, char **block, size_t *length);
/* Wait until something newer than `sequence` is published, or timeout_ns passed. 1 something (or the writer ended the ring),
 * 0 timeout, -EINTR. */
int ring_wait(struct ring *, uint64_t sequence, uint64_t timeout_ns);

/* Positions, for cursor.c: byte offsets that only grow. The frame behind one of this length starts so many bytes later. */
static inline uint64_t ring_round(uint64_t length)
{
        return (length + 7) & ~UINT64_C(7);
}
uint64_t ring_head(struct ring *); /* one past the newest frame */
uint64_t ring_tail(struct ring *); /* oldest intact frame */
uint64_t ring_full(struct ring *, bool previous); /* newest full frame or its predecessor; UINT64_MAX none */
/* Copy the frame at position into *buffer (grown as needed) and check it. 0; RING_OVERRUN: overtaken; RING_END: pos == head;
 * -EBADMSG: damaged; -ENOMEM; RING_GONE: the file was cut short under us. */
enum { RING_OVERRUN = 1, RING_END = 2, RING_GONE = 3 };
int ring_copy(struct ring *, uint64_t position, void **buffer, size_t *capacity, size_t *length);
/* Only the frame's head, for a search: its length is within bounds, its CRC not checked. Results as ring_copy's. */
int ring_peek(struct ring *, uint64_t position, struct frame_head *);

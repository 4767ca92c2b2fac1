#pragma once
/*
 * The bytes of a ring, and the promise between its writer (ring.c) and its readers (ring_reader.c). Private to these two.
 *
 *     0      +------------------+  struct ring_head: who writes it and how it is laid out, written once; then the words that move,
 *            | head      4096 B |  each group on a cache line of its own
 *     4096   +------------------+
 *            | schema   65536 B |  names of the slots in the frames (schema_write); ring_head.schema_length bytes of it
 *     69632  +------------------+
 *            | frames           |  `capacity` bytes, a circle: position p lies at p % capacity, so a frame may wrap around the end
 *            +------------------+
 *
 * Positions are bytes ever written: they only grow, 64 bits never wrap. A frame starts at a multiple of 8, so that each 8-byte word lies
 * in one piece. The next frame starts at its length rounded up to 8.
 *
 * THE PROMISE. The frames from `tail` to `head` are whole. The writer never waits; what makes it safe are three pairs:
 *
 *     writer, in this order                              reader, in this order
 *     1. tail  = first frame that stays      (release)   4. head   (acquire): the frame at p was published if p < head
 *     2. words of the new frame              (release)   5. words  (acquire): copied out, whatever they are
 *     3. head  = one past the new frame      (release)   6. tail   (acquire): the copy is whole if tail <= p
 *
 *     3 with 4: who sees the new head sees the whole frame below it.
 *     2 with 5, and so 1 with 6: who copied even one word of a newer frame sees, afterwards, the tail that was moved for it; the copy is
 *     then thrown away as an overrun. That is why each word of the payload is a release store and an acquire load (plain moves
 *     on x86-64, stlr/ldar on aarch64) and why there is no fence: ThreadSanitizer understands the one and not the other.
 *
 * `full` and `full_before` are stored after `head`, `sequence` after these, `publish` last; then readers that wait on `publish` (a futex)
 * are woken. Whoever waits loads `publish` first and `sequence` second, so it cannot sleep through a frame. All other words stand alone.
 *
 * A reader trusts nothing here: it checks the written-once part at open and keeps its own copy, takes every later position modulo its
 * own capacity, and survives a file that is cut short under it (ring_guard.c).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        RING_LAYOUT = 1,
        RING_HEAD_BYTES = 4096,
        RING_SCHEMA_BYTES = 65536,
        RING_DATA_AT = RING_HEAD_BYTES + RING_SCHEMA_BYTES,
};

#define RING_MAGIC UINT64_C(0x31474e4952544157) /* "WATRING1" */
#define RING_NOWHERE UINT64_MAX
#define RING_ALIVE_NS UINT64_C(3000000000) /* no heartbeat for so long: dead. The writer beats every second */

enum ring_state { RING_NEW, RING_LIVE, RING_ENDED };

struct ring_head {
        /* Written once, before the file gets its name or its descriptor is handed out. */
        uint64_t magic;
        uint32_t layout, head_bytes;
        uint64_t capacity;          /* bytes of frames: multiple of 8, at least RING_MIN_SIZE */
        uint32_t schema_length;     /* 1..RING_SCHEMA_BYTES */
        uint32_t pid;               /* writer, in its pid namespace */
        uint64_t start_ns;          /* its start: CLOCK_BOOTTIME */
        uint64_t pid_ns, user_ns, time_ns; /* inodes of its namespaces, 0 unknown */
        uint8_t boot_id[16];
        char version[32];           /* NUL-terminated */

        /* Words that move. */
        uint64_t tick_ns __attribute__((aligned(64)));
        uint64_t heartbeat_ns;      /* CLOCK_MONOTONIC of the writer */
        uint32_t state;             /* ring_state */

        uint64_t tail __attribute__((aligned(64)));

        uint64_t head __attribute__((aligned(64)));
        uint64_t full, full_before; /* newest full frame and the one before it, RING_NOWHERE when there is none */
        uint64_t sequence;          /* of the newest frame, 0 none */

        uint32_t publish __attribute__((aligned(64))); /* futex word: changes with every frame and at the end */
};
_Static_assert(sizeof(struct ring_head) <= RING_HEAD_BYTES, "ring head fits its page");
_Static_assert(offsetof(struct ring_head, tick_ns) == 128 && offsetof(struct ring_head, publish) == 320, "ring head layout");
_Static_assert(RING_DATA_AT % 4096 == 0, "frames start at a page");

static inline void ring_put(uint64_t *word, uint64_t value)
{
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint64_t ring_get(const uint64_t *word)
{
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- both sides over one mapping: for tests only, so that ThreadSanitizer, which knows addresses, sees the promise at work ---------- */

struct ring;
struct ring_writer;
void *ring_writer_map(const struct ring_writer *, size_t *length);
int ring_open_map(void *map, size_t length, struct ring **); /* the mapping stays the caller's */

/* ---- what both sides need ----------------------------------------------------------------------------------------------------- */

uint64_t ring_namespace(const char *name); /* inode of our namespace "pid", "user", "time"; 0 unknown */

/* ---- ring_guard.c: mapped files that may be cut short by somebody else ------------------------------------------------------- */

/* Watch [base, base + length): a bus error in it puts zero pages over it instead of ending the program. Returns a slot, or -ENFILE. */
int ring_guard_add(void *base, size_t length, int protection);
void ring_guard_remove(int slot);    /* before munmap; negative: nothing */
bool ring_guard_broken(int slot);    /* such an error happened: what was read since is worthless */

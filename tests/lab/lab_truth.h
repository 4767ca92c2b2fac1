#pragma once
/*
 * What a lab program knows of its own waits: for how long it waited, for what, and what it ran itself. This is the truth that the lab
 * tests hold watop against, so nothing here comes from watop or from the kernel's accounting of iowait: CLOCK_MONOTONIC around each
 * wait, less the CPU time that the thread used inside it.
 *
 *     --truth PATH    a page of slots, one a thread, that others may read at any instant (tests/lab_truth.py)
 *     --kind KIND     what the waits of this program are for, where only its caller can know: disk, other, real
 *
 * At its end (SIGTERM, or standard input closed) each program prints one line a thread:
 *     truth core N cpu_ns N waits N disk_ns N uring_ns N other_ns N real_ns N
 *
 * A slot is written by its thread alone, between two steps of its number: odd while it is being written. A wait that goes on is in
 * since_ns, so that a thread which never wakes counts too.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum lab_kind {
        LAB_RUNS,       /* not in a wait that is judged */
        LAB_DISK,       /* a block device has its request all the time */
        LAB_URING,      /* in io_uring_enter with nothing on a device: idle */
        LAB_OTHER,      /* for something that is no block device */
        LAB_REAL,       /* for storage; whether a request is open at each instant is not known here (fsync, dirty throttling) */
        LAB_KINDS,
};
enum { LAB_SLOTS = 63 };

struct lab_slot {
        uint32_t number, kind;
        int32_t core, used;
        uint64_t since_ns;              /* start of the present wait, 0: none */
        uint64_t cpu_ns;                /* of the thread, at the last change */
        uint64_t waits;
        uint64_t total_ns[LAB_KINDS];   /* finished waits, without the CPU time inside */
        uint64_t begin_cpu_ns;          /* at the start of the present wait */
        uint64_t unused[5];
};

struct lab_page {
        uint32_t count, unused[31];
        struct lab_slot slots[LAB_SLOTS];
};
_Static_assert(sizeof(struct lab_slot) == 128 && sizeof(struct lab_page) == 8192, "as tests/lab_truth.py reads it");

static struct lab_page *lab_page;

static inline uint64_t lab_clock(clockid_t clock)
{
        struct timespec t;
        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Before any thread. path NULL: only for the lines at the end. */
static inline void lab_truth_open(const char *path)
{
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (path && fd < 0) {
                perror(path);
                exit(1);
        }
        lab_page = mmap(NULL, sizeof *lab_page, PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
        if (lab_page == MAP_FAILED) {
                perror("mmap of the truth");
                exit(1);
        }
        if (fd >= 0)
                close(fd);
}

/* The calling thread's slot; the last one is shared when there are too many threads, and then worth nothing. */
static inline struct lab_slot *lab_truth_slot(int core)
{
        uint32_t index = __atomic_fetch_add(&lab_page->count, 1, __ATOMIC_RELAXED);
        struct lab_slot *slot = &lab_page->slots[index < LAB_SLOTS ? index : LAB_SLOTS - 1];
        slot->core = core;
        slot->used = (int32_t)getpid();
        return slot;
}

static inline void lab_wait_begin(struct lab_slot *slot, enum lab_kind kind)
{
        uint64_t cpu = lab_clock(CLOCK_THREAD_CPUTIME_ID);
        __atomic_store_n(&slot->number, slot->number + 1, __ATOMIC_SEQ_CST);
        slot->kind = kind;
        slot->cpu_ns = slot->begin_cpu_ns = cpu;
        slot->since_ns = lab_clock(CLOCK_MONOTONIC);
        __atomic_store_n(&slot->number, slot->number + 1, __ATOMIC_SEQ_CST);
}

static inline void lab_wait_end(struct lab_slot *slot)
{
        uint64_t now = lab_clock(CLOCK_MONOTONIC), cpu = lab_clock(CLOCK_THREAD_CPUTIME_ID);
        uint64_t wall = now - slot->since_ns, own = cpu - slot->begin_cpu_ns;
        __atomic_store_n(&slot->number, slot->number + 1, __ATOMIC_SEQ_CST);
        slot->total_ns[slot->kind] += wall > own ? wall - own : 0;
        slot->waits++;
        slot->since_ns = 0;
        slot->kind = LAB_RUNS;
        slot->cpu_ns = cpu;
        __atomic_store_n(&slot->number, slot->number + 1, __ATOMIC_SEQ_CST);
}

/* The lines at the end, of this process's threads; a wait that goes on counts up to now. */
static inline void lab_truth_say(void)
{
        uint64_t now = lab_clock(CLOCK_MONOTONIC);
        for (uint32_t i = 0; i < lab_page->count && i < LAB_SLOTS; i++) {
                struct lab_slot s = lab_page->slots[i];
                if (s.used != (int32_t)getpid())
                        continue;
                if (s.since_ns && s.kind < LAB_KINDS && now > s.since_ns)
                        s.total_ns[s.kind] += now - s.since_ns;
                printf("truth core %d cpu_ns %llu waits %llu disk_ns %llu uring_ns %llu other_ns %llu real_ns %llu\n", s.core,
                        (unsigned long long)s.cpu_ns, (unsigned long long)s.waits, (unsigned long long)s.total_ns[LAB_DISK],
                        (unsigned long long)s.total_ns[LAB_URING], (unsigned long long)s.total_ns[LAB_OTHER],
                        (unsigned long long)s.total_ns[LAB_REAL]);
        }
        fflush(stdout);
}

static inline enum lab_kind lab_kind_of(const char *word)
{
        return strcmp(word, "other") == 0 ? LAB_OTHER : strcmp(word, "real") == 0 ? LAB_REAL : LAB_DISK;
}

#pragma once
/*
 * What this kernel does with rings that wait, asked of itself: watop parks rings of its own and looks whether their core's idle time
 * becomes
 * iowait. No version is asked; io_uring that is switched off, filtered or not built is an answer too.
 *
 * Every ring belongs to a child process that is pinned to one core and killed after its second; nothing is left behind, also when watop is
 * killed. No device is touched.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum ring_offer {
        RING_WORKS,
        RING_NOT_BUILT,    /* ENOSYS and no filter: before Linux 5.1, or CONFIG_IO_URING=n */
        RING_SYSCTL,       /* kernel.io_uring_disabled is 2, or 1 and this user is not privileged */
        RING_FILTERED,     /* a seccomp filter refuses it, or kills who tries */
        RING_REFUSED,      /* another error: a security module, locked memory, ... */
        RING_UNKNOWN,      /* could not be tried (no process) */
};

struct selftest_ring {
        enum ring_offer offer;
        int error;         /* errno of io_uring_setup; 0 */
        int sysctl;        /* kernel.io_uring_disabled, -1 = this kernel has none (before 6.6) */
        bool no_iowait;    /* IORING_FEAT_NO_IOWAIT: a program may ask not to be counted (Linux 6.15) */
        uint32_t features; /* of io_uring_setup */
};
/* Set up one ring in a child process: about a millisecond. */
void selftest_ring(struct selftest_ring *);
/* The same as one sentence without full stop, at most 61 columns. */
void selftest_ring_text(const struct selftest_ring *, char *text, size_t size);

enum selftest_park { PARK_POLL, PARK_NO_IOWAIT, PARK_FOREIGN, PARK_BARE, PARK_COUNT };
enum counted { COUNTED_YES, COUNTED_NO, COUNTED_UNCLEAR, COUNTED_UNTRIED };

/* of one core over a span, in clock ticks; and looks at procs_blocked in it, how many of them found nobody counted, the least that were
 * counted, and how often that was */
struct core_time {
        uint64_t idle, iowait, total;
        unsigned looks, nobody, least, at_least;
};

struct selftest_run {
        enum counted counted;
        struct core_time time; /* over the run */
        double seconds;
        int error;             /* errno of io_uring_enter, 0 */
};

/*
 * Is a thread that slept on a core for the whole of `during` counted as iowait? Provably not, if the core could be idle beside it, or
 * procs_blocked was 0 at two looks. It is, if without it (`before`) the core was idle, or nobody was counted at a fifth of the looks, and
 * beside it never. Where others are parked all the time (a machine full of reactors has no idle core), it is if their least number was
 * there at a fifth of the looks and is one more beside it; and it is not if their number never changed, and stays. Anything else is not
 * clear. hz: clock ticks a second.
 */
enum counted selftest_judge(const struct core_time *before, const struct core_time *during, unsigned hz);

struct selftest_sight { /* what this user may see */
        bool own_rings, own_wchan, wchans, rings, all_tasks, btf, tracing, locked, lxcfs;
        char wchan[64];        /* where a parked ring's thread sleeps; "" not seen */
};

struct selftest {
        struct selftest_ring ring;
        int core, asked;       /* asked: -1 = the idlest */
        bool busy;             /* it had too little idle time to say */
        double before_seconds;
        struct core_time before;
        struct selftest_run runs[PARK_COUNT];
        struct selftest_sight sight;
        unsigned hz;
};

/* About 3 s. 0; -EINVAL: this core may not be used; other errors: /proc could not be read. */
int selftest_run(struct selftest *, int core);
/* `watop why --self-test`: run and print. Exit status. */
int selftest_main(int core, bool json);

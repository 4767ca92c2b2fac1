/*
 * Rings of our own, parked on one core, and what the kernel counts meanwhile. Contract: selftest.h.
 *
 * System calls are made by number, and the few structures of the interface are written out here: no liburing, no header of a certain
 * kernel.
 * Layouts: struct io_uring_params, struct io_uring_sqe of include/uapi/linux/io_uring.h, which are frozen.
 */
#include "tui/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The same numbers on every architecture but alpha. */
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif

enum {
        ENTER_GETEVENTS = 1 << 0, ENTER_NO_IOWAIT = 1 << 7, FEAT_NO_IOWAIT = 1 << 17, OP_POLL_ADD = 6,
        OFF_SQ_RING = 0, OFF_SQES = 0x10000000,
        CORES = 8192, TRIES = 3, CORE_TRIES = 5,
        BEFORE_MS = 500, PARK_MS = 1000, OTHER_MS = 500, AFTER_MS = 200, LOOK_MS = 20,
        LOOKS = 20,          /* without one at which nobody is counted, where every fifth was: 0.8^20 = 1% */
        /* one such look may be of a moment at which it was not yet taken off its queue (delayed dequeue, Linux 6.12) */
        NOBODY = 2,
        READY_MS = 2000, SETTLE_MS = 100,
        SURE_TICKS = 4,      /* beside a counted sleeper a core gains at most 2 ticks of idle, one a rounding */
        FEW_TICKS = 2,
        SHARE_TICKS = 10,    /* of 100: idle time that the core must have had without us, and iowait with us */
};

struct sq_offsets {
        uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, reserved;
        uint64_t user_addr;
};

struct ring_params {
        uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, reserved[3];
        struct sq_offsets sq;
        uint32_t cq[10];
};

struct ring_entry {
        uint8_t opcode, flags;
        uint16_t ioprio;
        int32_t fd;
        uint64_t off, addr;
        uint32_t len, poll_events;
        uint64_t user_data, rest[3];
};

_Static_assert(sizeof(struct ring_params) == 120 && sizeof(struct ring_entry) == 64, "io_uring's interface");

static int ring_setup(struct ring_params *params)
{
        memset(params, 0, sizeof *params);
        return (int)syscall(SYS_io_uring_setup, 4, params);
}

static int ring_enter(int fd, unsigned submit, unsigned wanted, unsigned flags)
{
        return (int)syscall(SYS_io_uring_enter, fd, submit, wanted, flags, NULL, 0);
}

/* Submit a poll of a descriptor on which nothing will ever happen. 0 or -1 with errno. */
static int ring_poll(int ring, const struct ring_params *params, int fd)
{
        size_t length = params->sq.array + params->sq_entries * sizeof(uint32_t);
        char *sq = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, OFF_SQ_RING);
        struct ring_entry *entries = mmap(NULL, params->sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, OFF_SQES);

        if (sq == MAP_FAILED || entries == MAP_FAILED)
                return -1;
        entries[0] = (struct ring_entry){.opcode = OP_POLL_ADD, .fd = fd, .poll_events = POLLIN};
        uint32_t *tail = (uint32_t *)(void *)(sq + params->sq.tail), *array = (uint32_t *)(void *)(sq + params->sq.array);
        array[0] = 0;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        return ring_enter(ring, 1, 0, 0) == 1 ? 0 : -1;
}

/* ---- children
 * ---------------------------------------------------------------------------------------------------------------------------- */

/* In a child: gone with its parent, no core file if a filter kills it. */
static void child_begins(pid_t parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "watop-selftest");
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (getppid() != parent)
                _exit(0);
}

struct report { /* of a child, through its pipe */
        int error;
        uint32_t features;
        pid_t sleeper;
};

static void tell(int fd, const struct report *report)
{
        if (write(fd, report, sizeof *report) != (ssize_t)sizeof *report)
                _exit(1);
}

/* Say who sleeps, and sleep until killed. */
static void sleep_in_ring(int ring, unsigned flags, int out)
{
        tell(out, &(struct report){.sleeper = getpid()});
        while (ring_enter(ring, 0, 1, ENTER_GETEVENTS | flags) >= 0 || errno == EINTR)
                ;
        tell(out, &(struct report){.error = errno});
        _exit(1);
}

static void park(enum selftest_park how, int core, int out)
{
        struct ring_params params;
        cpu_set_t *set = CPU_ALLOC(CORES);
        int never[2], ring = -1;

        if (!set || pipe2(never, O_CLOEXEC) < 0)
                _exit(1);
        CPU_ZERO_S(CPU_ALLOC_SIZE(CORES), set);
        CPU_SET_S((size_t)core, CPU_ALLOC_SIZE(CORES), set);
        if (sched_setaffinity(0, CPU_ALLOC_SIZE(CORES), set) < 0 || (ring = ring_setup(&params)) < 0 ||
            (how != PARK_BARE && ring_poll(ring, &params, never[0]) < 0)) {
                tell(out, &(struct report){.error = errno});
                _exit(1);
        }
        if (how != PARK_FOREIGN)
                sleep_in_ring(ring, how == PARK_NO_IOWAIT ? ENTER_NO_IOWAIT : 0, out);
        pid_t self = getpid(), pid = fork();
        if (pid == 0) {
                child_begins(self);
                sleep_in_ring(ring, 0, out);
        }
        if (pid > 0)
                waitpid(pid, NULL, 0);
        _exit(0);
}

/* A child that does one thing; its pipe's end for us in *out. */
static pid_t child_start(enum selftest_park how, int core, int *out)
{
        int ends[2];
        pid_t self = getpid();

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        pid_t pid = fork();
        if (pid == 0) {
                child_begins(self);
                close(ends[0]);
                if (how != PARK_COUNT)
                        park(how, core, ends[1]);
                struct ring_params params;
                int ring = ring_setup(&params);
                tell(ends[1], &(struct report){.error = ring < 0 ? errno : 0, .features = params.features});
                _exit(0);
        }
        close(ends[1]);
        *out = ends[0];
        if (pid < 0)
                close(ends[0]);
        return pid;
}

static bool child_says(int out, struct report *report)
{
        struct pollfd ready = {.fd = out, .events = POLLIN};

        return poll(&ready, 1, READY_MS) == 1 && read(out, report, sizeof *report) == (ssize_t)sizeof *report;
}

static int child_end(pid_t pid, pid_t sleeper, int out)
{
        int status = 0;

        /* A sleeper of its own is the child's to bury: it ends then by itself. */
        kill(sleeper > 0 ? sleeper : pid, SIGKILL);
        close(out);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

/* ---- is there io_uring
 * -------------------------------------------------------------------------------------------------------------------- */

static ssize_t read_text(const char *path, char *text, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

        if (fd >= 0)
                close(fd);
        text[length > 0 ? length : 0] = '\0';
        return length;
}

/* A "Name:\tvalue" line of our own status. */
static unsigned long long own_status(const char *name, int base)
{
        char text[8192];
        const char *at = read_text("/proc/self/status", text, sizeof text) > 0 ? strstr(text, name) : NULL;

        return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

static enum ring_offer offer_of(const struct selftest_ring *ring, bool killed)
{
        bool filter = own_status("\nSeccomp:", 10) == 2;

        if (killed)
                return RING_FILTERED;
        if (ring->error == 0)
                return RING_WORKS;
        if (ring->error == EPERM && ring->sysctl > 0)
                return RING_SYSCTL;
        if ((ring->error == EPERM || ring->error == ENOSYS || ring->error == EACCES) && filter)
                return RING_FILTERED;
        return ring->error == ENOSYS ? RING_NOT_BUILT : RING_REFUSED;
}

void selftest_ring(struct selftest_ring *ring)
{
        char text[32];
        int out = -1;
        struct report report = {0};

        *ring = (struct selftest_ring){.offer = RING_UNKNOWN, .sysctl = -1};
        if (read_text("/proc/sys/kernel/io_uring_disabled", text, sizeof text) > 0)
                ring->sysctl = text[0] - '0';
        pid_t pid = child_start(PARK_COUNT, -1, &out);
        if (pid < 0)
                return;
        bool said = child_says(out, &report);
        int status = child_end(pid, 0, out);
        if (!said && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS))
                return;
        ring->error = report.error;
        ring->offer = offer_of(ring, !said);
        ring->features = report.features;
        ring->no_iowait = ring->offer == RING_WORKS && (report.features & FEAT_NO_IOWAIT);
}

void selftest_ring_text(const struct selftest_ring *ring, char *text, size_t size)
{
        switch (ring->offer) {
        case RING_WORKS:
                snprintf(text, size, "io_uring works; NO_IOWAIT is %soffered%s", ring->no_iowait ? "" : "not ", ring->no_iowait ? "" :
                        " (Linux 6.15 has it)");
                break;
        case RING_NOT_BUILT: snprintf(text, size, "this kernel has no io_uring (not built in, or before 5.1)"); break;
        case RING_SYSCTL:
                snprintf(text, size, "kernel.io_uring_disabled is %d: %s", ring->sysctl, ring->sysctl >= 2 ? "nobody may use io_uring" :
                        "for root and io_uring_group");
                break;
        case RING_FILTERED:
                if (ring->error)
                        snprintf(text, size, "a seccomp filter refuses io_uring (%.24s)", strerror(ring->error));
                else
                        snprintf(text, size, "a seccomp filter kills who uses io_uring");
                break;
        case RING_REFUSED: snprintf(text, size, "io_uring_setup is refused: %.32s", strerror(ring->error)); break;
        case RING_UNKNOWN: snprintf(text, size, "io_uring could not be tried: no process could be started"); break;
        }
}

/* ---- cores
 * ---------------------------------------------------------------------------------------------------------------------------------- */

struct cores {
        struct core_time at[CORES];
        bool there[CORES];
        unsigned long long blocked; /* procs_blocked: counted as waiting for I/O at the read */
};

/* "cpu3 user nice system idle iowait irq softirq steal ..." */
static void take_line(struct cores *cores, const char *line)
{
        unsigned long long field[8] = {0}, core;
        int used = 0;

        if (sscanf(line, "cpu%llu %llu %llu %llu %llu %llu %llu %llu %llu%n", &core, &field[0], &field[1], &field[2], &field[3],
                &field[4], &field[5],
                   &field[6], &field[7], &used) < 9 || used == 0 || core >= CORES)
                return;
        struct core_time *time = &cores->at[core];
        *time = (struct core_time){.idle = field[3], .iowait = field[4]};
        for (int i = 0; i < 8; i++)
                time->total += field[i];
        cores->there[core] = true;
}

static int read_cores(struct cores *cores)
{
        FILE *file = fopen("/proc/stat", "re");
        char line[512];

        memset(cores, 0, sizeof *cores);
        if (!file)
                return -errno;
        while (fgets(line, sizeof line, file))
                if (strncmp(line, "cpu", 3) == 0 && line[3] >= '0' && line[3] <= '9')
                        take_line(cores, line);
                else if (sscanf(line, "procs_blocked %llu", &cores->blocked) == 1)
                        break;
        fclose(file);
        return 0;
}

static uint64_t less(uint64_t new, uint64_t old)
{
        return new > old ? new - old : 0;
}

static struct core_time since(const struct core_time *new, const struct core_time *old)
{
        return (struct core_time){less(new->idle, old->idle), less(new->iowait, old->iowait), less(new->total, old->total)};
}

static double now_seconds(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_ms(long ms)
{
        struct timespec left = {ms / 1000, ms % 1000 * 1000000};

        while (nanosleep(&left, &left) < 0 && errno == EINTR)
                ;
}

enum counted selftest_judge(const struct core_time *before, const struct core_time *during, unsigned hz)
{
        uint64_t few = FEW_TICKS * (uint64_t)hz / 100, sure = SURE_TICKS * (uint64_t)hz / 100;

        if (during->idle >= sure || during->nobody >= NOBODY)
                return COUNTED_NO;
        if (during->looks >= LOOKS && !during->nobody && before->looks && before->nobody * 5 >= before->looks)
                return COUNTED_YES;
        if (before->least > 0 && before->looks) { /* others are counted all the time: does their number grow by ours? */
                if (during->looks >= LOOKS && during->least == before->least + 1 && before->at_least * 5 >= before->looks)
                        return COUNTED_YES;
                if (before->at_least == before->looks && during->least <= before->least && during->at_least >= NOBODY)
                        return COUNTED_NO;
        }
        if (during->idle > few || during->iowait * 100 < during->total * SHARE_TICKS || during->iowait < sure)
                return COUNTED_UNCLEAR;
        return before->total && before->idle * 100 >= before->total * SHARE_TICKS ? COUNTED_YES : COUNTED_UNCLEAR;
}

/* Sleep through a span, looking who is counted: what the core did in it. */
static int watch(int core, long ms, struct core_time *time, double *seconds)
{
        static struct cores from, to;
        double begin = now_seconds();
        struct core_time looked = {.least = UINT_MAX};
        int r = read_cores(&from);

        while (r == 0 && now_seconds() < begin + (double)ms * 1e-3) {
                sleep_ms(LOOK_MS);
                r = read_cores(&to);
                unsigned counted = to.blocked < UINT_MAX ? (unsigned)to.blocked : UINT_MAX;
                if (counted < looked.least)
                        looked.at_least = 0;
                looked.least = counted < looked.least ? counted : looked.least;
                looked.at_least += counted == looked.least;
                looked.nobody += counted == 0;
                looked.looks++;
        }
        if (r < 0)
                return r;
        *seconds = now_seconds() - begin;
        *time = since(&to.at[core], &from.at[core]);
        time->looks = looked.looks;
        time->nobody = looked.nobody;
        time->least = looked.looks ? looked.least : 0;
        time->at_least = looked.at_least;
        return 0;
}

/* ---- one run
 * --------------------------------------------------------------------------------------------------------------------------------- */

/* State, core and count of voluntary switches of a process with one thread. */
static bool process_now(pid_t pid, char *state, int *core, unsigned long long *switches)
{
        char path[64], text[8192];

        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        if (read_text(path, text, sizeof text) <= 0)
                return false;
        char *at = strrchr(text, ')');
        if (!at || at[1] != ' ')
                return false;
        *state = at[2];
        at += 2;
        for (int field = 3; field < 39 && at; field++) /* field 39: processor */
                at = strchr(at + 1, ' ');
        if (!at)
                return false;
        *core = (int)strtol(at, NULL, 10);
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        const char *line = read_text(path, text, sizeof text) > 0 ? strstr(text, "\nvoluntary_ctxt_switches:") : NULL;
        *switches = line ? strtoull(line + strlen("\nvoluntary_ctxt_switches:"), NULL, 10) : 0;
        return line != NULL;
}

static bool wait_asleep(pid_t pid, int core, unsigned long long *switches)
{
        char state = 0;
        int on = -1;

        for (int i = 0; i < READY_MS; i++) {
                if (!process_now(pid, &state, &on, switches))
                        return false;
                if ((state == 'S' || state == 'D') && on == core)
                        return true;
                sleep_ms(1);
        }
        return false;
}

/* Look at a sleeper as another process of the same user would. */
static void look_at(pid_t sleeper, struct selftest_sight *sight)
{
        char path[64], text[4096];

        snprintf(path, sizeof path, "/proc/%d/wchan", (int)sleeper);
        if (read_text(path, text, sizeof text) > 0 && strcmp(text, "0") != 0)
                snprintf(sight->wchan, sizeof sight->wchan, "%.63s", text);
        sight->own_wchan = sight->wchan[0] != '\0';
        for (int fd = 3; fd < 32 && !sight->own_rings; fd++) {
                snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)sleeper, fd);
                sight->own_rings = read_text(path, text, sizeof text) > 0 && strstr(text, "\nSq");
        }
}

/* What the two spans without it say must agree: else somebody else came or went. */
static enum counted judge(const struct selftest *test, const struct core_time *after, const struct core_time *during)
{
        enum counted counted = selftest_judge(&test->before, during, test->hz);

        if (test->sight.lxcfs)
                return COUNTED_UNCLEAR;
        return selftest_judge(after, during, test->hz) == counted ? counted : COUNTED_UNCLEAR;
}

/* One sleeper, from its first moment asleep to its end. False when it was not asleep all the time. */
static int run_sleeper(struct selftest *test, enum selftest_park how, bool *slept)
{
        struct selftest_run *run = &test->runs[how];
        struct report report = {0}, end = {0};
        struct pollfd ended = {.events = POLLIN};
        unsigned long long switches = 0, later = 0;
        char state;
        int out = -1, on = -1, r = 0;
        pid_t pid = child_start(how, test->core, &out);

        if (pid < 0)
                return -errno;
        ended.fd = out;
        *slept = child_says(out, &report) && report.error == 0 && wait_asleep(report.sleeper, test->core, &switches);
        run->error = report.error;
        if (*slept) {
                sleep_ms(SETTLE_MS);
                r = watch(test->core, how == PARK_POLL ? PARK_MS : OTHER_MS, &run->time, &run->seconds);
                if (how == PARK_POLL)
                        look_at(report.sleeper, &test->sight);
                *slept = r == 0 && process_now(report.sleeper, &state, &on, &later) && later == switches && on == test->core;
        }
        if (poll(&ended, 1, 0) == 1 && read(out, &end, sizeof end) == (ssize_t)sizeof end)
                run->error = end.error;
        child_end(pid, report.sleeper, out);
        return r;
}

/* Again, when it was not clear: somebody else may have come or gone. */
static int run_one(struct selftest *test, enum selftest_park how)
{
        struct selftest_run *run = &test->runs[how];
        double seconds;
        int r = 0;

        *run = (struct selftest_run){.counted = COUNTED_UNCLEAR};
        for (int i = 0; i < TRIES && r == 0 && run->counted == COUNTED_UNCLEAR && run->error == 0; i++) {
                struct core_time after;
                bool slept = false;
                r = run_sleeper(test, how, &slept);
                if (r == 0)
                        r = watch(test->core, AFTER_MS, &after, &seconds);
                if (r == 0 && slept)
                        run->counted = judge(test, &after, &run->time);
                if (r == 0 && run->counted == COUNTED_UNCLEAR)
                        test->before = after, test->before_seconds = seconds;
                if (how == PARK_POLL && test->asked < 0) /* another core may be better */
                        break;
        }
        return r;
}

/* ---- all
 * -------------------------------------------------------------------------------------------------------------------------------------- */

static void look_around(struct selftest_sight *sight)
{
        char text[4096];
        struct statfs fs;
        unsigned long long caps = own_status("\nCapEff:", 16);
        const unsigned long long admin = 1ull << 21, perfmon = 1ull << 38, bpf = 1ull << 39;

        /* Asked of kthreadd, which is root's and whom no security module shields. */
        sight->wchans = read_text("/proc/2/syscall", text, sizeof text) > 0;
        sight->rings = sight->wchans && access("/proc/2/fd", R_OK | X_OK) == 0;
        sight->all_tasks = read_text("/proc/1/stat", text, sizeof text) > 0;
        ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        if (strcmp(text, "pid:[4026531836]") != 0) /* PROC_PID_INIT_INO: the machine's own */
                sight->all_tasks = sight->wchans = sight->rings = false;
        sight->btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
        sight->tracing = (caps & admin) || ((caps & perfmon) && (caps & bpf));
        sight->locked = read_text("/sys/kernel/security/lockdown", text, sizeof text) > 0 && strstr(text, "[confidentiality]");
        sight->lxcfs = statfs("/proc/stat", &fs) == 0 && fs.f_type == 0x65735546; /* FUSE: a container's own counters */
}

static bool allowed(int core)
{
        cpu_set_t *set = CPU_ALLOC(CORES);
        bool in = set && core >= 0 && core < CORES && sched_getaffinity(0, CPU_ALLOC_SIZE(CORES), set) == 0 && CPU_ISSET_S((size_t)core,
                CPU_ALLOC_SIZE(CORES), set);

        CPU_FREE(set);
        return in;
}

/* The core with most idle time that was not tried yet; -1 none. */
static int idlest(const struct cores *from, const struct cores *to, const bool *tried)
{
        int best = -1;
        uint64_t most = 0;

        for (int i = 0; i < CORES; i++) {
                if (!from->there[i] || !to->there[i] || tried[i] || !allowed(i))
                        continue;
                uint64_t idle = since(&to->at[i], &from->at[i]).idle;
                if (best < 0 || idle > most) {
                        best = i;
                        most = idle;
                }
        }
        return best;
}

static int run_all(struct selftest *test)
{
        static struct cores from, to;
        static bool tried[CORES];
        int r = 0;

        memset(tried, 0, sizeof tried);
        for (int i = 0; i < CORE_TRIES && r == 0; i++) {
                if (test->asked < 0) {
                        r = read_cores(&from);
                        sleep_ms(AFTER_MS);
                        if (r == 0)
                                r = read_cores(&to);
                        int core = r == 0 ? idlest(&from, &to, tried) : -1;
                        if (r == 0 && core < 0) { /* all were tried: once more */
                                memset(tried, 0, sizeof tried);
                                core = idlest(&from, &to, tried);
                        }
                        if (core < 0)
                                return r < 0 ? r : -ENODATA;
                        test->core = core;
                        tried[core] = true;
                }
                if (r == 0)
                        r = watch(test->core, BEFORE_MS, &test->before, &test->before_seconds);
                if (r == 0)
                        r = run_one(test, PARK_POLL);
                if (r < 0 || test->runs[PARK_POLL].counted != COUNTED_UNCLEAR || test->asked >= 0)
                        break;
        }
        test->busy = test->runs[PARK_POLL].counted == COUNTED_UNCLEAR;
        for (int how = PARK_NO_IOWAIT; how < PARK_COUNT && r == 0 && !test->busy; how++)
                if (how != PARK_NO_IOWAIT || test->ring.no_iowait)
                        r = run_one(test, (enum selftest_park)how);
        return r;
}

int selftest_run(struct selftest *test, int core)
{
        *test = (struct selftest){.asked = core, .core = core, .hz = (unsigned)sysconf(_SC_CLK_TCK)};
        for (int how = 0; how < PARK_COUNT; how++)
                test->runs[how].counted = COUNTED_UNTRIED;
        if (core >= 0 && !allowed(core))
                return -EINVAL;
        look_around(&test->sight);
        selftest_ring(&test->ring);
        return test->ring.offer == RING_WORKS ? run_all(test) : 0;
}

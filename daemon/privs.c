/*
 * Rights. Contract: privs.h. The only file that knows libcap.
 *
 * Uid 0 without capabilities is still the owner of root's files: /proc/PID files of root's own processes and everything that belongs to
 * root stay readable by uid. The two capabilities are for the processes of others.
 */
#include "daemon/privs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#ifndef CAP_PERFMON /* headers before 5.8 */
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

/* What stays, and what needs it. Nothing else does. Programs and maps of the exact split are loaded before; from then on nothing needs
 * CAP_BPF and CAP_PERFMON, except where kernel.unprivileged_bpf_disabled closes the whole bpf(2) call to those without (measured: 6.18
 * attaches, detaches and iterates without them; older ones may refuse). That is tried, not guessed from a version. */
static const struct keep {
        cap_value_t cap;
        bool tracing;        /* stays only where attaching does not work without */
        const char *name, *why;
} keep[] = {
        { CAP_SYS_PTRACE, false, "CAP_SYS_PTRACE",
          "/proc/PID/io, wchan, syscall and the fdinfo of io_uring rings of other users' processes" },
        { CAP_DAC_READ_SEARCH, false, "CAP_DAC_READ_SEARCH",
          "the list in /proc/PID/fd and /proc/PID/io (mode 0400) of other users' processes" },
        { CAP_BPF, true, "CAP_BPF",
          "loading the programs of the exact split and of block tracing; then given away where the kernel attaches them without" },
        { CAP_PERFMON, true, "CAP_PERFMON", "loading the programs of the exact split and of block tracing; then given away likewise" },
};
enum { KEEP = sizeof keep / sizeof *keep, NICE_LIMIT = 25 /* 20 - nice value: -5 */ };

void privs_limits(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
        /* So that the thread that drains block tracing may be a little nicer to itself (nice -5) when rights are gone. Only raised. */
        if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur < NICE_LIMIT) {
                struct rlimit nice = { NICE_LIMIT, limit.rlim_max > NICE_LIMIT ? limit.rlim_max : NICE_LIMIT };
                setrlimit(RLIMIT_NICE, &nice);
        }
        /* A limit on the size of files is for the caller's own; it would hold for the ring too. Root may lift it. */
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
                struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
                limit.rlim_cur = limit.rlim_max;
                if (setrlimit(RLIMIT_FSIZE, &none) < 0)
                        setrlimit(RLIMIT_FSIZE, &limit);
        }
}

int privs_lock_memory(void)
{
        struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

        /* With no limit, what is mapped later is locked too (ONFAULT: only pages that are used; the ring is allocated anyway). With
         * a limit that would make a later mmap fail once CAP_IPC_LOCK is gone, so then only what is mapped now is locked. */
        bool unlimited = setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
        if (!unlimited && getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
                unlimited = limit.rlim_cur == RLIM_INFINITY;
        if (unlimited && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0)
                return 1;
        return mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
}

/* What becomes of the capabilities that are for tracing. */
enum tracing { TRACING_DROP, TRACING_ASLEEP /* permitted, not effective: as if they were gone */, TRACING_KEEP };

static bool kept(cap_value_t cap, enum tracing tracing)
{
        for (int i = 0; i < KEEP; i++)
                if (keep[i].cap == cap)
                        return !keep[i].tracing || tracing == TRACING_KEEP;
        return false;
}

/* The bounding set goes first: taking from it needs CAP_SETPCAP. 1: could not be emptied. */
static int drop_bounding(void)
{
        int left = 0;

        for (cap_value_t cap = 0; cap < cap_max_bits(); cap++)
                if (cap_get_bound(cap) > 0 && cap_drop_bound(cap) < 0)
                        left = 1;
        return left;
}

/* Permitted and effective: the list, as far as it is permitted now. Inheritable: nothing. */
static int set_kept(enum tracing tracing)
{
        cap_t now = cap_get_proc(), next = cap_init();
        int r = now == NULL || next == NULL ? -ENOMEM : 0;

        for (int i = 0; r == 0 && i < KEEP; i++) {
                cap_flag_value_t value = CAP_CLEAR;
                if (cap_get_flag(now, keep[i].cap, CAP_PERMITTED, &value) < 0 || value != CAP_SET)
                        continue;
                if (keep[i].tracing && tracing == TRACING_DROP)
                        continue;
                if (cap_set_flag(next, CAP_PERMITTED, 1, &keep[i].cap, CAP_SET) < 0)
                        r = -errno;
                else if ((!keep[i].tracing || tracing == TRACING_KEEP) && cap_set_flag(next, CAP_EFFECTIVE, 1, &keep[i].cap, CAP_SET) < 0)
                        r = -errno;
        }
        if (r == 0 && cap_set_proc(next) < 0)
                r = -errno;
        cap_free(now);
        cap_free(next);
        return r;
}

/* Look again instead of believing: nothing outside the list in the three sets and in the ambient one. */
static int verify(enum tracing tracing, char *why, size_t size)
{
        static const cap_flag_t sets[] = { CAP_PERMITTED, CAP_EFFECTIVE, CAP_INHERITABLE };
        cap_t now = cap_get_proc();

        if (now == NULL)
                return -ENOMEM;
        for (cap_value_t cap = 0; cap < cap_max_bits(); cap++) {
                for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
                        cap_flag_value_t value = CAP_CLEAR;
                        /* A failure is a number this kernel does not have. */
                        if (cap_get_flag(now, cap, sets[s], &value) < 0 || value == CAP_CLEAR)
                                continue;
                        if (kept(cap, tracing) && sets[s] != CAP_INHERITABLE)
                                continue;
                        snprintf(why, size, "capability %d could not be cleared", (int)cap);
                        cap_free(now);
                        return -EPERM;
                }
                if (cap_get_ambient(cap) > 0) {
                        snprintf(why, size, "capability %d stays in the ambient set", (int)cap);
                        cap_free(now);
                        return -EPERM;
                }
        }
        cap_free(now);
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
                snprintf(why, size, "no_new_privs could not be set");
                return -EPERM;
        }
        return 0;
}

int privs_drop(bool (*tracing_works)(void *arg), void *arg, char *why, size_t size)
{
        enum tracing tracing = TRACING_DROP;
        int left = drop_bounding(), r = 0;

        /* Kernels before 4.3 have no ambient set: the check afterwards decides. */
        (void)cap_reset_ambient();
        if (tracing_works != NULL && (r = set_kept(TRACING_ASLEEP)) == 0 && !tracing_works(arg))
                tracing = TRACING_KEEP;
        if (r == 0)
                r = set_kept(tracing);
        /* Of no use even so: then they go. */
        if (r == 0 && tracing == TRACING_KEEP && !tracing_works(arg))
                r = set_kept(tracing = TRACING_DROP);
        if (r < 0) {
                snprintf(why, size, "capabilities could not be set: %s", strerror(-r));
                return -EPERM;
        }
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        r = verify(tracing, why, size);
        if (r < 0)
                return r;
        return left ? PRIVS_BOUNDING : PRIVS_EXACT;
}

static bool has(cap_value_t cap, cap_flag_t set)
{
        cap_flag_value_t value = CAP_CLEAR;
        cap_t now = cap_get_proc();

        if (now != NULL)
                cap_get_flag(now, cap, set, &value);
        cap_free(now);
        return value == CAP_SET;
}

void privs_describe(char *text, size_t size)
{
        size_t length = 0;

        snprintf(text, size, "none");
        for (int i = 0; i < KEEP; i++)
                if (has(keep[i].cap, CAP_EFFECTIVE) && length < size)
                        length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? " " : "", keep[i].name);
}

bool privs_line(unsigned index, char *line, size_t size)
{
        if (index >= KEEP)
                return false;
        snprintf(line, size, "%s: %s; needed for %s", keep[index].name, has(keep[index].cap, CAP_PERMITTED) ? "yes" : "not permitted",
                keep[index].why);
        return true;
}

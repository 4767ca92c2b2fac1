/*
 * Is storage held back where nothing counts it: by a control group's limit, or by a device that stands still?
 *
 * block/blk-throttle.c keeps a bio back before any request exists: no device has it in flight, and to io_uring it looks like a timeout. So
 * nothing is concluded from idle devices about a process whose group, or a group above it, has a limit. What cannot be read counts as a
 * limit.
 */
#include "collectors/uring.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum { LIMITS_KEPT_NS = 1000000000 };

/* Some line that is more than "8:0 rbps=max ...": a device without a limit has none. -ENOENT: the controller is off in this group. */
static bool has_line(struct procfs *procfs, const char *mount, const char *group, size_t length, const char *file)
{
        char text[256];
        ssize_t n = procfs_readf(procfs, text, sizeof text, "%s%.*s/%s", mount, (int)length, group, file);
        return n != 0 && n != -ENOENT;
}

/* Where each tree is mounted; NULL: not where everybody mounts it. A file that every group has says so. */
static const char *find_mount(struct procfs *procfs, bool unified)
{
        char text[256];
        if (!unified)
                return procfs_read(procfs, "sys/fs/cgroup/blkio/cgroup.clone_children", text, sizeof text) > 0 ?
                        "sys/fs/cgroup/blkio" : NULL;
        if (procfs_read(procfs, "sys/fs/cgroup/cgroup.controllers", text, sizeof text) >= 0)
                return "sys/fs/cgroup";
        /* beside v1 controllers */
        return procfs_read(procfs, "sys/fs/cgroup/unified/cgroup.controllers", text, sizeof text) >= 0 ? "sys/fs/cgroup/unified" : NULL;
}

static bool group_limited(struct procfs *procfs, const char *mount, bool unified, const char *group, size_t length)
{
        static const char *const files[] = {
                "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device", "blkio.throttle.read_iops_device",
                "blkio.throttle.write_iops_device",
        };
        if (unified)
                return has_line(procfs, mount, group, length, "io.max");
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
                if (has_line(procfs, mount, group, length, files[i]))
                        return true;
        return false;
}

/* The group and all above it. */
static bool any_limited(struct procfs *procfs, bool unified, const char *group, size_t length)
{
        const char *mount = find_mount(procfs, unified);
        if (!mount || length == 0 || group[0] != '/' || (length >= 3 && memcmp(group, "/..", 3) == 0)) /* beyond our own root */
                return true;
        while (length > 0 && group[length - 1] == '/')
                length--;
        for (;;) {
                if (group_limited(procfs, mount, unified, group, length))
                        return true;
                if (length == 0)
                        return false;
                while (length > 0 && group[--length] != '/')
                        ;
        }
}

/* /proc/PID/cgroup: "0::/path" (v2), "7:blkio:/path" or "4:cpu,blkio:/path" (v1). */
static bool read_limited(struct procfs *procfs, int tgid)
{
        char text[PATH_MAX + 1024];
        struct scan scan, line;
        ssize_t length = procfs_readf(procfs, text, sizeof text, "proc/%d/cgroup", tgid);
        if (length < 0)
                return length != -ENOENT; /* a kernel without control groups */
        scan_init(&scan, text, (size_t)length);
        while (scan_line(&scan, &line)) { /* the v1 lines come first, and a controller is in one tree only */
                size_t size = (size_t)(line.end - line.at);
                const char *names = memchr(line.at, ':', size);
                const char *group = names ? memchr(names + 1, ':', (size_t)(line.end - names - 1)) : NULL;
                if (!group)
                        return true;
                size_t count = (size_t)(group - names - 1);
                bool unified = count == 0, blkio = memmem(names + 1, count, "blkio", 5) != NULL;
                if (unified || blkio)
                        return any_limited(procfs, unified, group + 1, (size_t)(line.end - group - 1));
        }
        return false;
}

bool owner_limited(struct procfs *procfs, struct owner *owner, uint64_t since_ns, uint64_t now_ns)
{
        /* What is pending was submitted before this sleep began. */
        if (owner->limit_ns <= since_ns || now_ns - owner->limit_ns >= LIMITS_KEPT_NS) {
                owner->limited = read_limited(procfs, owner->tgid);
                owner->limit_ns = now_ns;
        }
        return owner->limited;
}

/* ---- devices that hold requests back ------------------------------------------------------------------------------------------------- */

enum { HOLDS_KEPT_NS = 1000000000, HOLDS_MOST = 512 };

struct hold_walk { struct procfs *procfs; unsigned count; bool any; };

static int look_at_table(void *arg, const char *name, unsigned char type)
{
        struct hold_walk *walk = arg;
        char text[16];
        (void)type;
        if (strncmp(name, "dm-", 3) != 0)
                return 0;
        ssize_t length = procfs_readf(walk->procfs, text, sizeof text, "sys/block/%s/dm/suspended", name);
        walk->any = (length < 0 && length != -ENOENT) || (length > 0 && text[0] != '0') || ++walk->count > HOLDS_MOST;
        return walk->any;
}

static int look_at_controller(void *arg, const char *name, unsigned char type)
{
        struct hold_walk *walk = arg;
        char text[32];
        (void)type;
        ssize_t length = procfs_readf(walk->procfs, text, sizeof text, "sys/class/nvme/%s/state", name);
        walk->any = length != -ENOENT && (length < 4 || strncmp(text, "live", 4) != 0);
        return walk->any;
}

bool holds_any(struct procfs *procfs, struct holds *holds, uint64_t now_ns)
{
        if (holds->asked_ns && now_ns - holds->asked_ns < HOLDS_KEPT_NS && procfs_live(procfs))
                return holds->any;
        struct hold_walk walk = {.procfs = procfs};
        procfs_list(procfs, "sys/block", look_at_table, &walk);
        if (!walk.any)
                procfs_list(procfs, "sys/class/nvme", look_at_controller, &walk);
        *holds = (struct holds){.any = walk.any, .asked_ns = now_ns};
        return holds->any;
}

/*
 * Facts: what the machine is. Read at the first tick and once a minute; sent when new or changed. A fact that cannot be read has no row.
 *
 * Names: host, kernel, kernel.cmdline, hz, lxcfs, utc_offset (seconds east), cpu.model, cpu.online, cpu.threads_per_core, cpu.sockets,
 * cpu.governor, cpu.driver, cpu.max_khz, hypervisor, machine, pressure (on | off | none), sysctl.NAME, disk.NAME, mount.PATH.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectors/collector.h"

enum { VALUE = 1024, DISKS_MAX = 256, MOUNTS_MAX = 128, SOCKETS_MAX = 4096 };

static const uint64_t PERIOD_NS = UINT64_C(60000000000);

/* Facts that are one file's text. */
static const struct { const char *name, *path; } files[] = {
        { "host", "proc/sys/kernel/hostname" },
        { "kernel.cmdline", "proc/cmdline" },
        { "cpu.online", "sys/devices/system/cpu/online" },
        { "cpu.governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor" },
        { "cpu.driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver" },
        { "cpu.max_khz", "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq" },
        { "sysctl.vm.dirty_ratio", "proc/sys/vm/dirty_ratio" },
        { "sysctl.vm.dirty_background_ratio", "proc/sys/vm/dirty_background_ratio" },
        { "sysctl.vm.dirty_bytes", "proc/sys/vm/dirty_bytes" },
        { "sysctl.vm.dirty_background_bytes", "proc/sys/vm/dirty_background_bytes" },
        { "sysctl.vm.dirty_expire_centisecs", "proc/sys/vm/dirty_expire_centisecs" },
        { "sysctl.vm.dirty_writeback_centisecs", "proc/sys/vm/dirty_writeback_centisecs" },
        { "sysctl.vm.swappiness", "proc/sys/vm/swappiness" },
        { "sysctl.kernel.io_uring_disabled", "proc/sys/kernel/io_uring_disabled" },
        { "sysctl.kernel.task_delayacct", "proc/sys/kernel/task_delayacct" },
        { "sysctl.kernel.sched_schedstats", "proc/sys/kernel/sched_schedstats" },
        { "sysctl.kernel.sched_autogroup_enabled", "proc/sys/kernel/sched_autogroup_enabled" },
        { "sysctl.kernel.numa_balancing", "proc/sys/kernel/numa_balancing" },
};

struct facts {
        char *text;
        size_t capacity;
        uint64_t last_ns;
        struct tick *tick; /* while reading */
        unsigned count;    /* disks or mounts so far */
        char settings[VALUE]; /* watopd's, as told last */
};

static int facts_open(struct procfs *p, void **own)
{
        struct facts *f = calloc(1, sizeof *f);
        *own = f;
        return f ? 0 : -ENOMEM;
}

static void facts_close(void *own)
{
        struct facts *f = own;
        if (!f)
                return;
        free(f->text);
        free(f);
}

/* ---- one fact ------------------------------------------------------------------------------------------------------ */

static void fact_bytes(struct facts *f, const char *name, const char *value, size_t length)
{
        while (length > 0 && (value[length - 1] == '\n' || value[length - 1] == ' ' || value[length - 1] == '\0'))
                length--;
        if (length == 0)
                return;
        struct row *row = sample_row(f->tick->sample, SCOPE_FACT, key_of_name(name, strlen(name), 0), 0);
        if (!row)
                return;
        row_text(row, FACT_NAME, name, strlen(name));
        row_text(row, FACT_VALUE, value, length);
}

static void fact(struct facts *f, const char *name, const char *value)
{
        fact_bytes(f, name, value, strlen(value));
}

static ssize_t read_value(struct facts *f, const char *path, char text[VALUE])
{
        ssize_t n = procfs_read(f->tick->procfs, path, text, VALUE);
        if (n == -EOVERFLOW)
                n = (ssize_t)strlen(text);
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
                text[--n] = '\0';
        return n;
}

static void fact_number(struct facts *f, const char *name, long long value)
{
        char text[32];
        snprintf(text, sizeof text, "%lld", value);
        fact(f, name, text);
}

/* ---- kernel and machine -------------------------------------------------------------------------------------------- */

static void kernel_facts(struct facts *f)
{
        struct procfs *p = f->tick->procfs;
        char text[VALUE];
        if (read_value(f, "proc/sys/kernel/osrelease", text) > 0 || procfs_system(p, "kernel", text, sizeof text) > 0)
                fact(f, "kernel", text);
        fact_number(f, "hz", procfs_hz(p));
        if (procfs_lxcfs(p))
                fact(f, "lxcfs", "1");
        ssize_t n = read_value(f, "proc/pressure/io", text);
        fact(f, "pressure", n >= 0 ? "on" : n == -EOPNOTSUPP ? "off" : n == -ENOENT ? "none" : "");
        if (procfs_system(p, "utc_offset", text, sizeof text) > 0) {
                fact(f, "utc_offset", text);
        } else if (procfs_live(p)) {
                struct tm tm;
                time_t now = time(NULL);
                if (localtime_r(&now, &tm))
                        fact_number(f, "utc_offset", tm.tm_gmtoff);
        }
}

/* True when the hypervisor is named. */
static bool machine_facts(struct facts *f)
{
        char vendor[VALUE], product[VALUE], both[2 * VALUE + 2], type[VALUE];
        bool named = read_value(f, "sys/hypervisor/type", type) > 0;
        if (named)
                fact(f, "hypervisor", type);
        ssize_t v = read_value(f, "sys/class/dmi/id/sys_vendor", vendor), n = read_value(f, "sys/class/dmi/id/product_name", product);
        if (v > 0 || n > 0) {
                snprintf(both, sizeof both, "%s%s%s", v > 0 ? vendor : "", v > 0 && n > 0 ? " " : "", n > 0 ? product : "");
                fact(f, "machine", both);
        } else if (read_value(f, "proc/device-tree/model", product) > 0) { /* most 64-bit ARM boards */
                fact(f, "machine", product);
        }
        return named;
}

/* Value behind the colon of a line of cpuinfo. */
static bool cpuinfo_value(struct scan *line, const char *key, char text[VALUE])
{
        struct scan s = *line;
        if (!scan_prefix(&s, key))
                return false;
        while (s.at < s.end && (*s.at == '\t' || *s.at == ' '))
                s.at++;
        if (!scan_prefix(&s, ":"))
                return false;
        while (s.at < s.end && *s.at == ' ')
                s.at++;
        size_t length = (size_t)(s.end - s.at);
        length = length < VALUE ? length : VALUE - 1;
        memcpy(text, s.at, length);
        text[length] = '\0';
        return true;
}

/* Only the first core's part of /proc/cpuinfo: on many cores the whole of it is slow to make. */
static void cpu_facts(struct facts *f, bool told_hypervisor)
{
        char text[VALUE], implementer[VALUE] = "", part[VALUE] = "", head[8192];
        bool model = false, flags = false, hypervisor = false;
        ssize_t n = procfs_read(f->tick->procfs, "proc/cpuinfo", head, sizeof head);
        struct scan s, line;
        scan_init(&s, head, n > 0 ? (size_t)n : n == -EOVERFLOW ? strlen(head) : 0);
        while (scan_line(&s, &line) && line.at < line.end) {
                if (!model && cpuinfo_value(&line, "model name", text)) {
                        fact(f, "cpu.model", text);
                        model = true;
                } else if (scan_prefix(&line, "flags")) {
                        flags = true;
                        hypervisor = memmem(line.at, (size_t)(line.end - line.at), " hypervisor", 11) != NULL;
                }
                cpuinfo_value(&line, "CPU implementer", implementer);
                cpuinfo_value(&line, "CPU part", part);
        }
        if (!model && implementer[0]) { /* ARM names no model */
                snprintf(text, sizeof text, "implementer %.64s part %.64s", implementer, part);
                fact(f, "cpu.model", text);
        }
        if (flags && hypervisor && !told_hypervisor)
                fact(f, "hypervisor", "yes");
}

/* "0-1,64-65" -> 4 */
static unsigned list_length(const char *text)
{
        struct scan s;
        uint64_t from, to;
        unsigned count = 0;
        scan_init(&s, text, strlen(text));
        while (scan_u64(&s, &from)) {
                to = from;
                if (scan_prefix(&s, "-") && !scan_u64(&s, &to))
                        break;
                if (to < from || to - from > UINT16_MAX)
                        break;
                count += (unsigned)(to - from) + 1;
                if (!scan_prefix(&s, ","))
                        break;
        }
        return count;
}

/* Sockets: the packages of the on-line cores. */
static void topology_facts(struct facts *f)
{
        char text[VALUE];
        bool seen[SOCKETS_MAX] = { false };
        unsigned sockets = 0;
        if (read_value(f, "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", text) > 0)
                fact_number(f, "cpu.threads_per_core", list_length(text));
        unsigned cores = read_value(f, "sys/devices/system/cpu/online", text) > 0 ? list_length(text) : 0;
        for (unsigned i = 0; i < cores && i < 1024; i++) {
                struct scan s;
                uint64_t package;
                ssize_t n = procfs_readf(f->tick->procfs, text, sizeof text, "sys/devices/system/cpu/cpu%u/topology/physical_package_id",
                        i);
                scan_init(&s, text, n > 0 ? (size_t)n : 0);
                if (!scan_u64(&s, &package) || package >= SOCKETS_MAX || seen[package])
                        continue;
                seen[package] = true;
                sockets++;
        }
        if (sockets > 0)
                fact_number(f, "cpu.sockets", sockets);
}

/* ---- disks --------------------------------------------------------------------------------------------------------- */

static void add_part(struct facts *f, char *value, size_t size, const char *disk, const char *file, const char *label)
{
        char path[256], text[VALUE];
        size_t have = strlen(value);
        int n = snprintf(path, sizeof path, "sys/block/%s/%s", disk, file);
        if (n < 0 || (size_t)n >= sizeof path || read_value(f, path, text) <= 0)
                return;
        snprintf(value + have, size - have, "%s%s=%.100s", have ? ", " : "", label, text);
}

static int disk_fact(void *arg, const char *name, unsigned char type)
{
        static const struct { const char *file, *label; } parts[] = {
                { "device/model", "model" }, { "size", "sectors" }, { "queue/scheduler", "scheduler" }, { "queue/nr_requests",
                "nr_requests" },
                { "queue/rotational", "rotational" }, { "queue/write_cache", "write_cache" }, { "queue/iostats", "iostats" },
                { "queue/logical_block_size", "block" }, { "queue/max_sectors_kb", "max_kb" },
        };
        struct facts *f = arg;
        char fact_name[300], value[VALUE] = "", path[256], text[VALUE];
        int n = snprintf(path, sizeof path, "sys/block/%s/size", name);
        if (n < 0 || (size_t)n >= sizeof path || read_value(f, path, text) <= 0 || strcmp(text, "0") == 0)
                return 0; /* an unbound loop device, an empty drive */
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
                add_part(f, value, sizeof value, name, parts[i].file, parts[i].label);
        snprintf(fact_name, sizeof fact_name, "disk.%s", name);
        fact(f, fact_name, value);
        return ++f->count >= DISKS_MAX;
}

/* ---- mounts -------------------------------------------------------------------------------------------------------- */

/* File systems on devices and on the network; not those the kernel makes up. */
static bool worth_telling(const char *source, size_t length, const char *type, size_t type_length)
{
        static const char *const types[] = { "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "zfs", "btrfs", "glusterfs",
                "lustre", "overlay" };
        if (length > 0 && source[0] == '/')
                return true;
        if (type_length >= 4 && memcmp(type, "fuse", 4) == 0)
                return true;
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
                if (strlen(types[i]) == type_length && memcmp(types[i], type, type_length) == 0)
                        return true;
        return false;
}

/* "source path type options 0 0", blanks in them printed as \040 */
static void mount_facts(struct facts *f)
{
        ssize_t n = procfs_read_all(f->tick->procfs, "proc/self/mounts", &f->text, &f->capacity);
        struct scan s, line;
        char name[512], value[VALUE];
        scan_init(&s, f->text, n > 0 ? (size_t)n : 0);
        for (f->count = 0; f->count < MOUNTS_MAX && scan_line(&s, &line);) {
                const char *source, *path, *type, *options;
                size_t a, b, c, d;
                if (!scan_word(&line, &source, &a) || !scan_word(&line, &path, &b) || !scan_word(&line, &type, &c) || !scan_word(&line,
                        &options, &d))
                        continue;
                if (b > 400 || a > 400 || c > 60 || !worth_telling(source, a, type, c))
                        continue;
                snprintf(name, sizeof name, "mount.%.*s", (int)b, path);
                snprintf(value, sizeof value, "%.*s %.*s %.*s", (int)a, source, (int)c, type, (int)(d < 400 ? d : 400), options);
                fact(f, name, value);
                f->count++;
        }
}

/* ---- the tick ------------------------------------------------------------------------------------------------------ */

static void read_facts(struct facts *f)
{
        char text[VALUE];
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                ssize_t n = read_value(f, files[i].path, text);
                if (n > 0)
                        fact_bytes(f, files[i].name, text, (size_t)n);
        }
        kernel_facts(f);
        cpu_facts(f, machine_facts(f));
        topology_facts(f);
        f->count = 0;
        procfs_list(f->tick->procfs, "sys/block", disk_fact, f);
        mount_facts(f);
        snprintf(f->settings, sizeof f->settings, "%s", f->tick->settings ? f->tick->settings : "");
        fact(f, "watopd", f->settings);
}

/* Once a minute, and when watopd was told other settings; a captured machine's later trees need not repeat what does not change, so only at
 * its first. */
static int facts_collect(void *own, struct tick *t)
{
        struct facts *f = own;
        uint64_t now = procfs_mono(t->procfs);
        bool have = sample_rows(t->sample, SCOPE_FACT) > 0;
        bool same = !t->settings || strncmp(f->settings, t->settings, sizeof f->settings - 1) == 0;
        if (have && (t->extra || !procfs_live(t->procfs) || (same && now - f->last_ns < PERIOD_NS)))
                return 0;
        f->last_ns = now;
        f->tick = t;
        sample_scope_begin(t->sample, SCOPE_FACT, now);
        read_facts(f);
        sample_scope_end(t->sample, SCOPE_FACT, procfs_mono(t->procfs), GONE_EXITED);
        f->tick = NULL;
        return 0;
}

static void facts_check(struct procfs *p, char *line, size_t size)
{
        char text[VALUE];
        bool sys = procfs_read(p, "sys/devices/system/cpu/online", text, sizeof text) > 0;
        snprintf(line, size, sys ? "facts: all" : "facts: those of /proc only; /sys cannot be read");
}

const struct collector collector_facts = {
        .name = "facts",
        .scopes = SCOPE_BIT(SCOPE_FACT),
        .open = facts_open,
        .collect = facts_collect,
        .close = facts_close,
        .check = facts_check,
};

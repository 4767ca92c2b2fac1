/*
 * Control groups: CPU time and throttling, memory, I/O; v2, v1, and both at once (hybrid: v1 then has the controllers).
 *
 * Walked at most once a second and only while somebody asked for it: a group costs four to six files. Groups without processes are left
 * out where the kernel says so (v2: cgroup.events), and no more than GROUPS_MAX are shown, nearest to the root first.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"
#include "sample/control.h"

enum { GROUPS_MAX = 1000, WAITING_MAX = 16384, MAJORS_MAX = 4096 };

static const uint64_t SECOND = UINT64_C(1000000000);

struct cgroup {
        bool v2;
        const char *cpu, *cpuacct, *memory, *blkio; /* v1: where each controller is mounted, NULL = nowhere */
        bool stacked[MAJORS_MAX];                   /* device-mapper and md: their I/O is counted again below them */
        char *paths;                                /* groups found but not yet looked at: NUL-terminated paths, one behind the other */
        size_t length, capacity, waiting;
        char *text;
        size_t text_capacity;
        uint64_t last_ns;
        bool has_last;
};

/* ---- where --------------------------------------------------------------------------------------------------------- */

static int any_entry(void *arg, const char *name, unsigned char type)
{
        return 1;
}

static const char *mounted(struct procfs *p, const char *first, const char *second)
{
        if (procfs_list(p, first, any_entry, NULL) > 0)
                return first;
        return second && procfs_list(p, second, any_entry, NULL) > 0 ? second : NULL;
}

/* "Block devices:" part of /proc/devices: "253 device-mapper". */
static void find_stacked(struct procfs *p, struct cgroup *c)
{
        ssize_t n = procfs_read_all(p, "proc/devices", &c->text, &c->text_capacity);
        struct scan s, line;
        bool block = false;
        uint64_t major;
        scan_init(&s, c->text, n > 0 ? (size_t)n : 0);
        while (scan_line(&s, &line)) {
                block = block || scan_prefix(&line, "Block devices:");
                if (!block || !scan_u64(&line, &major) || major >= MAJORS_MAX)
                        continue;
                if (scan_prefix(&line, " device-mapper") || scan_prefix(&line, " md"))
                        c->stacked[major] = true;
        }
}

static void find_hierarchies(struct procfs *p, struct cgroup *c)
{
        char text[256];
        ssize_t n = procfs_read(p, "sys/fs/cgroup/cgroup.controllers", text, sizeof text);
        c->v2 = n >= 0 || n == -EOVERFLOW;
        if (c->v2)
                return;
        c->cpu = mounted(p, "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct");
        c->cpuacct = mounted(p, "sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpu,cpuacct");
        c->memory = mounted(p, "sys/fs/cgroup/memory", NULL);
        c->blkio = mounted(p, "sys/fs/cgroup/blkio", NULL);
}

/* The hierarchy that is walked. */
static const char *main_root(const struct cgroup *c)
{
        return c->v2 ? "sys/fs/cgroup" : c->cpuacct ? c->cpuacct : c->cpu ? c->cpu : c->memory ? c->memory : c->blkio;
}

static void cgroup_close(void *own)
{
        struct cgroup *c = own;
        if (!c)
                return;
        free(c->paths);
        free(c->text);
        free(c);
}

static int cgroup_open(struct procfs *p, void **own)
{
        struct cgroup *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        find_hierarchies(p, c);
        if (!main_root(c)) {
                cgroup_close(c);
                return -ENOENT;
        }
        find_stacked(p, c);
        *own = c;
        return 0;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

struct walk {
        struct cgroup *cgroup;
        const char *parent; /* "" for the root, else "/a/b" */
};

static int add_path(struct cgroup *c, const char *parent, const char *name)
{
        size_t a = strlen(parent), b = strlen(name), need = a + 1 + b + 1;
        if (c->waiting >= WAITING_MAX || need > TEXT_MAX)
                return 0;
        if (c->length + need > c->capacity) {
                size_t wanted = c->capacity ? c->capacity * 2 : 16 << 10;
                char *grown = realloc(c->paths, wanted);
                if (!grown)
                        return -ENOMEM;
                c->paths = grown;
                c->capacity = wanted;
        }
        char *to = c->paths + c->length;
        memcpy(to, parent, a);
        to[a] = '/';
        memcpy(to + a + 1, name, b + 1);
        c->length += need;
        c->waiting++;
        return 0;
}

static int add_child(void *arg, const char *name, unsigned char type)
{
        struct walk *w = arg;
        return type == DT_DIR || type == DT_UNKNOWN ? add_path(w->cgroup, w->parent, name) : 0;
}

/* A file of a group, into c->text. */
static ssize_t read_file(struct procfs *p, struct cgroup *c, const char *root, const char *group, const char *file, struct scan *s)
{
        char path[PATH_MAX];
        int n = root ? snprintf(path, sizeof path, "%s%s/%s", root, group, file) : -1;
        ssize_t length = n < 0 || (size_t)n >= sizeof path ? -ENOENT : procfs_read_all(p, path, &c->text, &c->text_capacity);
        scan_init(s, c->text, length > 0 ? (size_t)length : 0);
        return length;
}

/* v2: "populated 0" says that neither the group nor any below it has a process. The root has no such file. */
static bool empty(struct procfs *p, struct cgroup *c, const char *group)
{
        struct scan s, line;
        uint64_t populated;
        if (!c->v2 || read_file(p, c, main_root(c), group, "cgroup.events", &s) < 0)
                return false;
        while (scan_line(&s, &line))
                if (scan_prefix(&line, "populated ") && scan_u64(&line, &populated))
                        return populated == 0;
        return false;
}

/* ---- the slots ----------------------------------------------------------------------------------------------------- */

enum { SLOTS = CGROUP_END - CGROUP_FIRST };

struct values {
        uint64_t value[SLOTS];
        bool have[SLOTS];
};

static void put(struct values *v, int metric, uint64_t value, uint64_t unit)
{
        size_t slot = (size_t)(metric - CGROUP_FIRST);
        if (value > (uint64_t)INT64_MAX / unit || v->value[slot] > (uint64_t)INT64_MAX - value * unit)
                return;
        v->value[slot] += value * unit;
        v->have[slot] = true;
}

struct word { const char *name; int metric; uint64_t unit; };

static void put_words(struct values *v, struct scan *s, const struct word *words, size_t count)
{
        struct scan line;
        uint64_t value;
        while (scan_line(s, &line))
                for (size_t i = 0; i < count; i++)
                        if (scan_prefix(&line, words[i].name) && scan_u64(&line, &value)) {
                                put(v, words[i].metric, value, words[i].unit);
                                break;
                        }
}

static void put_number(struct procfs *p, struct cgroup *c, struct values *v, const char *root, const char *group, const char *file,
        int metric)
{
        struct scan s;
        uint64_t value;
        if (read_file(p, c, root, group, file, &s) > 0 && scan_u64(&s, &value))
                put(v, metric, value, 1);
}

/* "8:0 " at the start of a line of I/O figures: false for a device whose I/O is counted below it too. */
static bool leaf_device(const struct cgroup *c, struct scan *line)
{
        uint64_t major, minor;
        if (!scan_u64(line, &major) || !scan_prefix(line, ":") || !scan_u64(line, &minor))
                return false;
        return major >= MAJORS_MAX || !c->stacked[major];
}

/* "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6" */
static void put_io_stat(const struct cgroup *c, struct values *v, struct scan *s)
{
        static const struct word words[] = {
                { "rbytes=", CGROUP_READ_BYTES, 1 }, { "wbytes=", CGROUP_WRITE_BYTES, 1 }, { "rios=", CGROUP_READS, 1 }, { "wios=",
                CGROUP_WRITES, 1 },
        };
        struct scan line, t;
        const char *word;
        size_t length;
        uint64_t value;
        while (scan_line(s, &line)) {
                if (!leaf_device(c, &line))
                        continue;
                while (scan_word(&line, &word, &length)) {
                        scan_init(&t, word, length);
                        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
                                if (scan_prefix(&t, words[i].name) && scan_u64(&t, &value))
                                        put(v, words[i].metric, value, 1);
                }
        }
}

/* "8:0 Read 123", "8:0 Write 456", ..., "Total 579" */
static void put_blkio(const struct cgroup *c, struct values *v, struct scan *s, int read_metric, int write_metric)
{
        struct scan line;
        uint64_t value;
        while (scan_line(s, &line)) {
                if (!leaf_device(c, &line))
                        continue;
                if (scan_prefix(&line, " Read") && scan_u64(&line, &value))
                        put(v, read_metric, value, 1);
                else if (scan_prefix(&line, " Write") && scan_u64(&line, &value))
                        put(v, write_metric, value, 1);
        }
}

/* "some avg10=0.12 avg60=0.00 avg300=0.00 total=123456", total in us; likewise "full". */
static void put_pressure(struct values *v, struct scan *s)
{
        struct scan line, t;
        const char *word;
        size_t length;
        uint64_t total;
        while (scan_line(s, &line)) {
                bool full = scan_prefix(&line, "full ");
                if (!full && !scan_prefix(&line, "some "))
                        continue;
                while (scan_word(&line, &word, &length)) {
                        scan_init(&t, word, length);
                        if (scan_prefix(&t, "total=") && scan_u64(&t, &total))
                                put(v, full ? CGROUP_IO_FULL : CGROUP_IO_SOME, total, 1000);
                }
        }
}

static void read_v2(struct procfs *p, struct cgroup *c, const char *group, struct values *v)
{
        static const struct word cpu[] = {
                { "usage_usec ", CGROUP_USAGE, 1000 }, { "user_usec ", CGROUP_USER_TIME, 1000 }, { "system_usec ", CGROUP_SYSTEM_TIME,
                1000 },
                { "nr_periods ", CGROUP_PERIODS, 1 }, { "nr_throttled ", CGROUP_THROTTLED, 1 }, { "throttled_usec ",
                CGROUP_THROTTLED_TIME, 1000 },
        };
        const char *root = main_root(c);
        struct scan s;
        if (read_file(p, c, root, group, "cpu.stat", &s) > 0)
                put_words(v, &s, cpu, sizeof cpu / sizeof cpu[0]);
        if (read_file(p, c, root, group, "io.stat", &s) > 0)
                put_io_stat(c, v, &s);
        if (read_file(p, c, root, group, "io.pressure", &s) > 0)
                put_pressure(v, &s);
        put_number(p, c, v, root, group, "memory.current", CGROUP_MEMORY);
}

static void read_v1(struct procfs *p, struct cgroup *c, const char *group, struct values *v)
{
        const uint64_t tick = SECOND / procfs_hz(p);
        const struct word times[] = { { "user ", CGROUP_USER_TIME, tick }, { "system ", CGROUP_SYSTEM_TIME, tick } };
        static const struct word throttle[] = {
                { "nr_periods ", CGROUP_PERIODS, 1 }, { "nr_throttled ", CGROUP_THROTTLED, 1 }, { "throttled_time ",
                CGROUP_THROTTLED_TIME, 1 },
        };
        struct scan s;
        put_number(p, c, v, c->cpuacct, group, "cpuacct.usage", CGROUP_USAGE);
        if (read_file(p, c, c->cpuacct, group, "cpuacct.stat", &s) > 0)
                put_words(v, &s, times, 2);
        if (read_file(p, c, c->cpu, group, "cpu.stat", &s) > 0)
                put_words(v, &s, throttle, 3);
        put_number(p, c, v, c->memory, group, "memory.usage_in_bytes", CGROUP_MEMORY);
        if (read_file(p, c, c->blkio, group, "blkio.throttle.io_service_bytes", &s) > 0)
                put_blkio(c, v, &s, CGROUP_READ_BYTES, CGROUP_WRITE_BYTES);
        if (read_file(p, c, c->blkio, group, "blkio.throttle.io_serviced", &s) > 0)
                put_blkio(c, v, &s, CGROUP_READS, CGROUP_WRITES);
}

/* ---- the tick ------------------------------------------------------------------------------------------------------ */

static void group_row(struct tick *t, struct cgroup *c, const char *group)
{
        char path[PATH_MAX];
        struct values v = { 0 };
        const char *shown = group[0] ? group : "/";
        int n = snprintf(path, sizeof path, "%s%s", main_root(c), group);
        if (n < 0 || (size_t)n >= sizeof path)
                return;
        uint64_t now = procfs_mono(t->procfs);
        if (c->v2)
                read_v2(t->procfs, c, group, &v);
        else
                read_v1(t->procfs, c, group, &v);
        struct row *row = sample_row(t->sample, SCOPE_CGROUP, key_of_name(shown, strlen(shown), procfs_inode(t->procfs, path)), now);
        if (!row)
                return;
        if (row_is_new(row))
                row_text(row, CGROUP_PATH, shown, strlen(shown));
        for (int i = 0; i < SLOTS; i++) {
                int metric = CGROUP_FIRST + i;
                if (metric == CGROUP_PATH || metric == CGROUP_SOME_URING || metric == CGROUP_FULL_URING) /* the latter: psi.c */
                        continue;
                if (v.have[i])
                        row_set(row, CGROUP_FIRST + i, v.value[i]);
                else
                        row_absent(row, CGROUP_FIRST + i);
        }
}

static void list_children(struct tick *t, struct cgroup *c, const char *group)
{
        char path[PATH_MAX];
        struct walk w = { .cgroup = c, .parent = group };
        int n = snprintf(path, sizeof path, "%s%s", main_root(c), group);
        if (n > 0 && (size_t)n < sizeof path)
                procfs_list(t->procfs, path, add_child, &w);
}

/* Breadth first, so that a bound leaves out the deepest. Returns false when it had to stop early. */
static bool walk_groups(struct tick *t, struct cgroup *c)
{
        char group[TEXT_MAX];
        size_t at = 0, shown = 1;
        c->length = c->waiting = 0;
        group_row(t, c, "");
        list_children(t, c, "");
        while (at < c->length) {
                size_t length = strlen(c->paths + at);
                memcpy(group, c->paths + at, length + 1); /* the list moves when it grows */
                at += length + 1;
                if (shown == GROUPS_MAX || (procfs_live(t->procfs) && procfs_mono(t->procfs) > t->deadline_ns))
                        return false;
                if (empty(t->procfs, c, group))
                        continue;
                group_row(t, c, group);
                shown++;
                list_children(t, c, group);
                tick_alive(t);
        }
        return true;
}

static int cgroup_collect(void *own, struct tick *t)
{
        struct cgroup *c = own;
        uint64_t now = procfs_mono(t->procfs);
        if (!(t->leases & LEASE_CGROUPS) && !(t->scopes & SCOPE_BIT(SCOPE_CGROUP)))
                return 0;
        /* rows live on between walks; a captured machine is walked at every tree that has groups */
        bool live = procfs_live(t->procfs), early = live && !t->capture && c->has_last && now - c->last_ns < SECOND * 9 / 10;
        if (early && sample_rows(t->sample, SCOPE_CGROUP) > 0)
                return 0;
        if (!live && procfs_list(t->procfs, main_root(c), any_entry, NULL) <= 0)
                return 0;
        c->last_ns = now;
        c->has_last = true;
        sample_scope_begin(t->sample, SCOPE_CGROUP, now);
        bool whole = walk_groups(t, c);
        sample_scope_end(t->sample, SCOPE_CGROUP, procfs_mono(t->procfs), whole ? GONE_EXITED : GONE_UNSAMPLED);
        return 0;
}

static void cgroup_check(struct procfs *p, char *line, size_t size)
{
        struct cgroup c = { 0 };
        find_hierarchies(p, &c);
        if (!main_root(&c))
                snprintf(line, size, "no control groups below /sys/fs/cgroup");
        else if (c.v2)
                snprintf(line, size, "control groups: v2");
        else
                snprintf(line, size, "control groups: v1:%s%s%s%s", c.cpuacct ? " cpuacct" : "", c.cpu ? " cpu" : "", c.memory ? " memory"
                        : "",
                         c.blkio ? " blkio" : "");
}

const struct collector collector_cgroup = {
        .name = "cgroup",
        .scopes = SCOPE_BIT(SCOPE_CGROUP),
        .open = cgroup_open,
        .collect = cgroup_collect,
        .close = cgroup_close,
        .check = cgroup_check,
};

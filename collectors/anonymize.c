/*
 * Pseudonyms for a capture.
 *
 * A name gets the next number of its kind, and the same one each time it comes again in the same capture: "comm7", "group3.service".
 * Numbers follow the order of appearance, so nothing can be computed back from them. Kept: numbers, kernel threads' names, wait channels,
 * device kernel names (vda), models of disks. Files that are not known to be harmless are stored empty.
 */
#include "collectors/anonymize.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/procfs.h"
#include "sample/sample.h"

enum kind { KIND_COMM_NAME, KIND_GROUP, KIND_USER, KIND_HOST, KIND_ID, KIND_DEVICE, KIND_NET, KIND_MOUNT, KIND_BOOT, KINDS };

static const char *const words[KINDS] = { "comm", "group", "user", "host", "id", "device", "if", "mount", "boot" };

struct name {
        char *bytes;
        size_t length;
        enum kind kind;
        unsigned number; /* 0: kept as it is */
};

struct anonymizer {
        struct name *table; /* open addressing, a power of two, at most half full */
        size_t size, used;
        unsigned next[KINDS];
        char *out;
        size_t length, capacity;
        bool failed;        /* memory was short while out was written */
};

int anonymize_new(struct anonymizer **result)
{
        struct anonymizer *a = calloc(1, sizeof *a);
        if (!a)
                return -ENOMEM;
        *result = a;
        return 0;
}

void anonymize_free(struct anonymizer *a)
{
        if (!a)
                return;
        for (size_t i = 0; i < a->size; i++)
                free(a->table[i].bytes);
        free(a->table);
        free(a->out);
        free(a);
}

/* ---- the dictionary ------------------------------------------------------------------------------------------------ */

static struct name *find(struct name *table, size_t size, enum kind kind, const char *bytes, size_t length)
{
        size_t at = (size_t)key_of_name(bytes, length, 0).a + (size_t)kind * 7919;
        for (;; at++) {
                struct name *n = &table[at & (size - 1)];
                if (!n->bytes || (n->kind == kind && n->length == length && memcmp(n->bytes, bytes, length) == 0))
                        return n;
        }
}

static int grow(struct anonymizer *a)
{
        size_t size = a->size ? a->size * 2 : 1024;
        struct name *table = calloc(size, sizeof *table);
        if (!table)
                return -ENOMEM;
        for (size_t i = 0; i < a->size; i++)
                if (a->table[i].bytes)
                        *find(table, size, a->table[i].kind, a->table[i].bytes, a->table[i].length) = a->table[i];
        free(a->table);
        a->table = table;
        a->size = size;
        return 0;
}

/* The entry of a name, made when it is new. NULL: no memory. */
static struct name *entry(struct anonymizer *a, enum kind kind, const char *bytes, size_t length, bool keep)
{
        if (a->used * 2 >= a->size && grow(a) < 0)
                return NULL;
        struct name *n = find(a->table, a->size, kind, bytes, length);
        if (n->bytes)
                return n;
        n->bytes = malloc(length + 1);
        if (!n->bytes)
                return NULL;
        memcpy(n->bytes, bytes, length);
        n->length = length;
        n->kind = kind;
        n->number = keep ? 0 : ++a->next[kind];
        a->used++;
        return n;
}

/* ---- output -------------------------------------------------------------------------------------------------------- */

static void put(struct anonymizer *a, const char *bytes, size_t length)
{
        if (a->length + length + 1 > a->capacity) {
                size_t wanted = (a->length + length + 1) * 2;
                char *grown = realloc(a->out, wanted);
                if (!grown) {
                        a->failed = true;
                        return;
                }
                a->out = grown;
                a->capacity = wanted;
        }
        memcpy(a->out + a->length, bytes, length);
        a->length += length;
        a->out[a->length] = '\0';
}

static void put_text(struct anonymizer *a, const char *text)
{
        put(a, text, strlen(text));
}

static void put_name(struct anonymizer *a, enum kind kind, const char *bytes, size_t length, bool keep)
{
        char text[48];
        struct name *n = entry(a, kind, bytes, length, keep);
        if (!n) {
                a->failed = true;
        } else if (n->number == 0) {
                put(a, bytes, length);
        } else {
                snprintf(text, sizeof text, "%s%u", words[kind], n->number);
                put_text(a, text);
        }
}

/* The rest of the line that `line` stands in, newline included when the text has one. */
static void put_line(struct anonymizer *a, const struct scan *text, const struct scan *line, const char *from)
{
        put(a, from, (size_t)(line->end - from));
        if (text->at > line->end)
                put(a, "\n", 1);
}

/* ---- names that have structure ------------------------------------------------------------------------------------- */

static bool is(const char *bytes, size_t length, const char *text)
{
        return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

static bool starts(const char *bytes, size_t length, const char *prefix)
{
        return length >= strlen(prefix) && memcmp(bytes, prefix, strlen(prefix)) == 0;
}

/* One component of a control group's path. What systemd calls its own groups on every machine stays, and so does a unit's kind. */
static void put_group(struct anonymizer *a, const char *part, size_t length)
{
        static const char *const common[] = { "system.slice", "user.slice", "machine.slice", "init.scope", "session.slice", "app.slice",
                "..", "." };
        static const char *const suffixes[] = { ".service", ".scope", ".slice", ".mount", ".socket" };
        for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
                if (is(part, length, common[i])) {
                        put(a, part, length);
                        return;
                }
        put_name(a, KIND_GROUP, part, length, false);
        for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
                if (length > strlen(suffixes[i]) && is(part + length - strlen(suffixes[i]), strlen(suffixes[i]), suffixes[i]))
                        put_text(a, suffixes[i]);
}

static void put_groups(struct anonymizer *a, const char *path, size_t length)
{
        const char *end = path + length;
        while (path < end) {
                const char *slash = memchr(path, '/', (size_t)(end - path)), *stop = slash ? slash : end;
                if (stop > path)
                        put_group(a, path, (size_t)(stop - path));
                if (slash)
                        put_text(a, "/");
                path = stop + (slash != NULL);
        }
}

/* A process's or thread's name; kernel threads' own names and io_uring's workers say nothing about people, and are needed to read a
 * capture. */
static void put_comm(struct anonymizer *a, const char *comm, size_t length, bool kernel)
{
        put_name(a, KIND_COMM_NAME, comm, length, kernel || starts(comm, length, "iou-wrk-") || starts(comm, length, "iou-sqp-"));
}

static void put_interface(struct anonymizer *a, const char *name, size_t length)
{
        bool plain = is(name, length, "lo") || starts(name, length, "eth");
        for (size_t i = 3; plain && i < length && length != 2; i++)
                plain = isdigit((unsigned char)name[i]);
        put_name(a, KIND_NET, name, length, plain);
}

/* ---- paths --------------------------------------------------------------------------------------------------------- */

/* Files of a control group begin with their controller's name. */
static bool control_file(const char *part)
{
        static const char *const prefix[] = { "cgroup.", "cpu.", "cpuacct.", "memory.", "io.", "blkio.", "pids.", "cpuset." };
        for (size_t i = 0; i < sizeof prefix / sizeof prefix[0]; i++)
                if (starts(part, strlen(part), prefix[i]))
                        return true;
        return is(part, strlen(part), "tasks") || is(part, strlen(part), "release_agent") || is(part, strlen(part), "notify_on_release");
}

/* Where v1 and hybrid mount their hierarchies. */
static bool hierarchy(const char *part, size_t length)
{
        static const char *const names[] = { "cpu", "cpuacct", "cpu,cpuacct", "memory", "blkio", "unified", "systemd", "pids", "cpuset",
                "devices", "freezer" };
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (is(part, length, names[i]))
                        return true;
        return false;
}

static void put_group_path(struct anonymizer *a, const char *path)
{
        size_t first = strcspn(path, "/");
        if (hierarchy(path, first)) {
                put(a, path, first);
                path += first;
        }
        const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
        if (control_file(last)) {
                put_groups(a, path, (size_t)(last - path));
                put_text(a, last);
        } else {
                put_groups(a, path, strlen(path));
        }
}

static int start(struct anonymizer *a)
{
        a->length = 0;
        a->failed = false;
        put(a, "", 0);
        return a->failed ? -ENOMEM : 0;
}

int anonymize_path(struct anonymizer *a, const char *path, char *out, size_t size)
{
        static const char groups[] = "sys/fs/cgroup/", ids[] = "dev/disk/by-id/";
        if (start(a) < 0)
                return -ENOMEM;
        if (starts(path, strlen(path), groups)) {
                put_text(a, groups);
                put_group_path(a, path + strlen(groups));
        } else if (starts(path, strlen(path), ids) && path[strlen(ids)]) {
                put_text(a, ids);
                put_name(a, KIND_ID, path + strlen(ids), strlen(path + strlen(ids)), false);
        } else {
                put_text(a, path);
        }
        if (a->failed)
                return -ENOMEM;
        if (a->length >= size)
                return -ENAMETOOLONG;
        memcpy(out, a->out, a->length + 1);
        return 0;
}

/* ---- files of processes -------------------------------------------------------------------------------------------- */

/* "PID (comm) S ppid pgrp session tty tpgid flags ...": flags 0x200000 is a kernel thread. */
static void task_stat(struct anonymizer *a, const char *text, size_t length)
{
        const char *open = memchr(text, '(', length), *close = open ? memrchr(text, ')', length) : NULL;
        struct scan s;
        uint64_t flags = 0;
        if (!close || close < open)
                return;
        scan_init(&s, close + 1, (size_t)(text + length - close - 1));
        bool kernel = scan_skip(&s, 6) && scan_u64(&s, &flags) && (flags & 0x200000);
        put(a, text, (size_t)(open + 1 - text));
        put_comm(a, open + 1, (size_t)(close - open - 1), kernel);
        put(a, close, (size_t)(text + length - close));
}

static void task_status(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                if (!scan_prefix(&line, "Name:\t")) {
                        put_line(a, &s, &line, line.at);
                        continue;
                }
                put_text(a, "Name:\t");
                put_comm(a, line.at, (size_t)(line.end - line.at), false);
                put_text(a, "\n");
        }
}

static void whole_comm(struct anonymizer *a, const char *text, size_t length)
{
        if (length > 0 && text[length - 1] == '\n')
                length--;
        put_comm(a, text, length, false);
        put_text(a, "\n");
}

/* Only the program's name is kept, as a pseudonym that goes with its comm (15 bytes of the base name). */
static void task_cmdline(struct anonymizer *a, const char *text, size_t length)
{
        size_t first = strnlen(text, length);
        const char *slash = memrchr(text, '/', first), *base = slash ? slash + 1 : text;
        size_t bytes = first - (size_t)(base - text);
        if (length == 0)
                return;
        put_comm(a, base, bytes < 15 ? bytes : 15, false);
        put(a, "", 1);
}

/* "0::/path" or "4:memory:/path" */
static void task_cgroup(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                const char *slash = memchr(line.at, '/', (size_t)(line.end - line.at));
                const char *until = slash ? slash : line.end;
                put(a, line.at, (size_t)(until - line.at));
                put_groups(a, until, (size_t)(line.end - until));
                put_text(a, "\n");
        }
}

/* io_uring's fdinfo lists registered files by path below "UserFiles:". */
static void task_fdinfo(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        bool files = false;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                const char *from = line.at, *colon = memchr(from, ':', (size_t)(line.end - from));
                if (line.at < line.end && *line.at != ' ')
                        files = scan_prefix(&line, "UserFiles:");
                else if (files && colon) {
                        put(a, from, (size_t)(colon + 1 - from));
                        put_text(a, " file\n");
                        continue;
                }
                put_line(a, &s, &line, from);
        }
}

/* proc/PID/... and proc/PID/task/TID/...: by the last component; what is not listed has numbers only. */
static void task_file(struct anonymizer *a, const char *path, const char *text, size_t length)
{
        static const char *const harmless[] = { "statm", "io", "schedstat", "wchan", "syscall" };
        const char *last = strrchr(path, '/') + 1;
        if (strcmp(last, "stat") == 0)
                task_stat(a, text, length);
        else if (strcmp(last, "status") == 0)
                task_status(a, text, length);
        else if (strcmp(last, "comm") == 0)
                whole_comm(a, text, length);
        else if (strcmp(last, "cmdline") == 0)
                task_cmdline(a, text, length);
        else if (strcmp(last, "cgroup") == 0)
                task_cgroup(a, text, length);
        else if (strstr(path, "/fdinfo/"))
                task_fdinfo(a, text, length);
        for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
                if (strcmp(last, harmless[i]) == 0)
                        put(a, text, length);
}

/* ---- files of the machine ------------------------------------------------------------------------------------------ */

static void net_dev(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                const char *from = line.at, *colon = memchr(from, ':', (size_t)(line.end - from));
                while (colon && from < colon && *from == ' ')
                        from++;
                if (colon) {
                        put_interface(a, from, (size_t)(colon - from));
                        from = colon;
                }
                put_line(a, &s, &line, from);
        }
}

/* "name:x:uid:gid:gecos:home:shell": uid and gid stay. */
static void passwd(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        uint64_t uid, gid;
        char ids[64];
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                const char *colon = memchr(line.at, ':', (size_t)(line.end - line.at)), *name = line.at;
                const char *second = colon ? memchr(colon + 1, ':', (size_t)(line.end - colon - 1)) : NULL;
                if (!second)
                        continue;
                line.at = second + 1;
                if (!scan_u64(&line, &uid) || !scan_prefix(&line, ":") || !scan_u64(&line, &gid))
                        continue;
                put_name(a, KIND_USER, name, (size_t)(colon - name), is(name, (size_t)(colon - name), "root"));
                snprintf(ids, sizeof ids, ":x:%llu:%llu:::\n", (unsigned long long)uid, (unsigned long long)gid);
                put_text(a, ids);
        }
}

/* "source path type options 0 0" */
static void mounts(struct anonymizer *a, const char *text, size_t length)
{
        struct scan s, line;
        const char *source, *path, *type;
        size_t n, m, k;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                if (!scan_word(&line, &source, &n) || !scan_word(&line, &path, &m) || !scan_word(&line, &type, &k))
                        continue;
                bool plain = (n == k && memcmp(source, type, n) == 0) || (starts(source, n, "/dev/") && !memchr(source + 5, '/', n - 5));
                put_name(a, KIND_DEVICE, source, n, plain);
                put_text(a, " /");
                if (m > 1)
                        put_name(a, KIND_MOUNT, path, m, false);
                put_text(a, " ");
                put(a, type, k);
                put_text(a, " - 0 0\n");
        }
}

/* A boot id keeps its form, so that two boots still differ. */
static void boot_id(struct anonymizer *a, const char *text, size_t length)
{
        char id[48];
        struct name *n = entry(a, KIND_BOOT, text, length, false);
        if (!n) {
                a->failed = true;
                return;
        }
        snprintf(id, sizeof id, "00000000-0000-4000-8000-%012x\n", n->number);
        put_text(a, id);
}

/* Kernel command line: words that concern scheduling and I/O; the rest may hold names, identifiers, even passwords. */
static void kernel_cmdline(struct anonymizer *a, const char *text, size_t length)
{
        static const char *const keep[] = { "quiet", "ro", "rw", "nohz", "isolcpus=", "rcu_nocbs=", "psi=", "delayacct", "mitigations=",
                "elevator=", "scsi_mod.",
                "nvme", "dm_mod.", "threadirqs", "preempt=", "irqaffinity=", "idle=", "processor.", "intel_idle.", "schedstats=",
                "transparent_hugepage=", "maxcpus=" };
        struct scan s;
        const char *word;
        size_t n;
        scan_init(&s, text, length);
        while (scan_word(&s, &word, &n)) {
                for (size_t i = 0; i < sizeof keep / sizeof keep[0]; i++) {
                        size_t k = strlen(keep[i]);
                        bool open_end = strchr("=._", keep[i][k - 1]) || is(keep[i], k, "nohz") || is(keep[i], k, "nvme");
                        if (is(word, n, keep[i]) || (open_end && starts(word, n, keep[i]))) {
                                put(a, word, n);
                                put_text(a, " ");
                                break;
                        }
                }
        }
        put_text(a, "\n");
}

static void secret_line(struct anonymizer *a, enum kind kind, const char *text, size_t length)
{
        while (length > 0 && isspace((unsigned char)text[length - 1]))
                length--;
        if (length > 0)
                put_name(a, kind, text, length, false);
        put_text(a, "\n");
}

/* sys/block/...: serial numbers, world-wide names and volume names. */
static bool names_device(const char *path)
{
        static const char *const last[] = { "/serial", "/wwid", "/dm/name", "/dm/uuid", "/vpd_pg80", "/vpd_pg83", "/uuid", "/nguid",
                "/eui" };
        for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
                if (strlen(path) > strlen(last[i]) && strcmp(path + strlen(path) - strlen(last[i]), last[i]) == 0)
                        return true;
        return false;
}

typedef void rule(struct anonymizer *, const char *, size_t);

static void copy(struct anonymizer *a, const char *text, size_t length)
{
        put(a, text, length);
}

static void host(struct anonymizer *a, const char *text, size_t length)
{
        secret_line(a, KIND_HOST, text, length);
}

static const struct { const char *path; rule *rule; } rules[] = {
        { "etc/passwd", passwd },
        { "proc/sys/kernel/hostname", host },
        { "proc/sys/kernel/domainname", host },
        { "proc/sys/kernel/random/boot_id", boot_id },
        { "proc/net/dev", net_dev },
        { "proc/self/mounts", mounts },
        { "proc/mounts", mounts },
        { "proc/cmdline", kernel_cmdline },
        { "proc/stat", copy }, { "proc/diskstats", copy }, { "proc/meminfo", copy }, { "proc/vmstat", copy }, { "proc/loadavg", copy },
        { "proc/uptime", copy },
        { "proc/cpuinfo", copy }, { "proc/devices", copy }, { "proc/device-tree/model", copy },
        { "proc/pressure/cpu", copy }, { "proc/pressure/io", copy }, { "proc/pressure/memory", copy },
};

static void apply(struct anonymizer *a, const char *path, const char *bytes, size_t length)
{
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
                if (strcmp(path, rules[i].path) == 0) {
                        rules[i].rule(a, bytes, length);
                        return;
                }
        if (starts(path, strlen(path), "proc/sys/"))
                put(a, bytes, length);
        else if (starts(path, strlen(path), "proc/") && (isdigit((unsigned char)path[5]) || starts(path + 5, strlen(path + 5), "self/")))
                task_file(a, path, bytes, length);
        else if (starts(path, strlen(path), "sys/") && names_device(path))
                secret_line(a, KIND_DEVICE, bytes, length);
        else if (starts(path, strlen(path), "sys/") && !strstr(path, "/dmi/id/product_serial"))
                put(a, bytes, length);
}

int anonymize_file(struct anonymizer *a, const char *path, const char *bytes, size_t length, const char **out, size_t *out_length)
{
        while (*path == '/')
                path++;
        if (start(a) < 0)
                return -ENOMEM;
        apply(a, path, bytes, length);
        if (a->failed)
                return -ENOMEM;
        *out = a->out;
        *out_length = a->length;
        return 0;
}

/* Links: a descriptor's file is told only where its kind matters (io_uring, sockets, passthrough devices); a by-id name's device and a
 * namespace stay. */
int anonymize_link(struct anonymizer *a, const char *path, const char *target, const char **out)
{
        static const char *const plain[] = { "anon_inode:", "socket:[", "pipe:[", "/dev/ng", "/dev/sg", "/dev/bsg/", "/dev/null",
                "/dev/nvme", "/dev/fuse" };
        if (start(a) < 0)
                return -ENOMEM;
        bool keep = starts(path, strlen(path), "dev/disk/") || strstr(path, "/ns/") != NULL;
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
                keep = keep || starts(target, strlen(target), plain[i]);
        put_text(a, keep ? target : "/file");
        if (a->failed)
                return -ENOMEM;
        *out = a->out;
        return 0;
}

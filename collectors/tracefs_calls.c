/*
 * Calls that wait until data is safe, from the system calls' two events. Contract: tracefs_own.h.
 *
 * The events say thread, file descriptor and result. Which file that is, is asked of /proc after the fact, so it may be another one by
 * then. A file is told only when it was looked at while the call went on, or when looks before and after it found the same: long calls,
 * and those of a process that syncs the same file again and again. Else the file is not known.
 *
 * Nothing here can wait for a file system: fdinfo, mountinfo, sysfs and the text of a link are asked, never the file. Looks are limited
 * per drain.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectors/procfs.h"
#include "collectors/tracefs_own.h"

enum {
        WAYS = 4, OPEN_SETS = 512,    /* calls that go on */
        FILES = 512, MOUNTS = 64, TASKS = 2048,
        ROUND_LOOKS = 32, ROUND_TASKS = 64,
};
#define TASK_NS UINT64_C(2000000000)  /* a number may belong to somebody else by then; */
#define MOUNT_NS UINT64_C(10000000000)

struct open_call {
        uint64_t start, epoch;
        int64_t fd;
        uint32_t tid;
        uint8_t call;
};

/* What a descriptor of a thread was, as long as looks found the same. */
struct file {
        uint64_t since, until;        /* 0: never looked at */
        uint64_t inode;
        int64_t fd;
        uint32_t tid, mount;
        char name[RECORD_FILE];
};

struct mount {
        uint64_t read;                /* 0: never */
        uint32_t id, device, disk;
};

struct task {
        uint64_t read;
        uint32_t tid, process;
        bool named;                   /* in a RECORD_NAME */
        bool kernel;                  /* a kernel thread */
        char comm[RECORD_COMM];
};

struct tracefs_calls {
        struct procfs *procfs;
        struct open_call open[OPEN_SETS * WAYS];
        size_t open_count;
        struct file files[FILES];
        struct mount mounts[MOUNTS];
        struct task tasks[TASKS];
        uint64_t epoch, now;
        unsigned looks, tasks_left;
        char *text;
        size_t capacity;
};

static uint64_t clock_now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

int tracefs_calls_new(struct tracefs_calls **out)
{
        struct tracefs_calls *calls = calloc(1, sizeof *calls);
        if (!calls)
                return -ENOMEM;
        int r = procfs_open_root(NULL, &calls->procfs);
        if (r < 0) {
                free(calls);
                return r;
        }
        tracefs_calls_round(calls);
        *out = calls;
        return 0;
}

void tracefs_calls_free(struct tracefs_calls *calls)
{
        if (!calls)
                return;
        procfs_close_root(calls->procfs);
        free(calls->text);
        free(calls);
}

void tracefs_calls_round(struct tracefs_calls *calls)
{
        calls->now = clock_now();
        calls->looks = ROUND_LOOKS;
        calls->tasks_left = ROUND_TASKS;
}

void tracefs_calls_lost(struct tracefs_calls *calls)
{
        calls->epoch++;
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------------- */

/* "Name:\tdd\n". */
static bool status_word(const char *text, const char *label, char *to, size_t size)
{
        const char *at = strstr(text, label);

        if (!at || (at != text && at[-1] != '\n'))
                return false;
        at += strlen(label);
        size_t length = strcspn(at, "\n");
        snprintf(to, size, "%.*s", (int)(length < size ? length : size - 1), at);
        return true;
}

/* "Kthread:" since 6.8. Else: it lives and has no memory of its own; of a text that was cut (many groups) that is not known. */
static bool is_kernel(const char *text, bool whole)
{
        char word[8];

        if (status_word(text, "Kthread:\t", word, sizeof word))
                return word[0] == '1';
        return whole && status_word(text, "State:\t", word, sizeof word) && word[0] != 'Z' && word[0] != 'X' &&
                !status_word(text, "VmSize:\t", word, sizeof word);
}

static struct task *task_of(struct tracefs_calls *calls, uint32_t tid)
{
        struct task *task = &calls->tasks[tid % TASKS];
        char text[4096], word[16];

        if (task->read && task->tid == tid && (calls->now - task->read < TASK_NS || calls->tasks_left == 0))
                return task;
        if (calls->tasks_left == 0)
                return NULL;
        calls->tasks_left--;
        struct task before = *task;
        *task = (struct task){.read = calls->now, .tid = tid, .process = tid};
        ssize_t n = procfs_readf(calls->procfs, text, sizeof text, "proc/%u/status", tid);
        if (n <= 0 && n != -EOVERFLOW)
                return task;
        if (status_word(text, "Tgid:\t", word, sizeof word))
                task->process = (uint32_t)strtoul(word, NULL, 10);
        status_word(text, "Name:\t", task->comm, sizeof task->comm);
        task->kernel = is_kernel(text, n > 0);
        task->named = before.read && before.tid == tid && before.named && strcmp(before.comm, task->comm) == 0;
        return task;
}

uint32_t tracefs_calls_process(struct tracefs_calls *calls, uint32_t tid, bool *kernel)
{
        const struct task *task = task_of(calls, tid);
        *kernel = task && task->kernel;
        return task ? task->process : tid;
}

static size_t put_name(struct stage_record *out, uint32_t tid, uint32_t process, const char *comm)
{
        if (comm[0] == '\0')
                return 0;
        *out = (struct stage_record){.kind = RECORD_NAME, .tid = tid, .tgid = process};
        memcpy(out->name.comm, comm, strnlen(comm, sizeof out->name.comm - 1));
        return 1;
}

/* As it was, when the thread is gone. */
static void read_comm(struct tracefs_calls *calls, uint32_t tid, char comm[RECORD_COMM])
{
        char text[64];
        ssize_t n = procfs_readf(calls->procfs, text, sizeof text, "proc/%u/comm", tid);

        if (n <= 0)
                return;
        memset(comm, 0, RECORD_COMM);
        memcpy(comm, text, strcspn(text, "\n") < RECORD_COMM ? strcspn(text, "\n") : RECORD_COMM - 1);
}

/* A process that only syncs has no block events to tell its name by. */
static size_t tell_names(struct tracefs_calls *calls, struct task *task, struct stage_record *out)
{
        size_t count = 0;

        if (!task || task->named)
                return 0;
        task->named = true;
        read_comm(calls, task->tid, task->comm); /* it may be another program since it was asked for its process */
        if (task->process != task->tid) {
                char leader[RECORD_COMM] = "";
                read_comm(calls, task->process, leader);
                count += put_name(out, task->process, task->process, leader);
        }
        return count + put_name(out + count, task->tid, task->process, task->comm);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------------- */

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime ...": the device of one mount. */
static uint32_t find_mount(const char *text, uint32_t id)
{
        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                char *end;
                if (strtoul(line, &end, 10) != id || *end != ' ')
                        continue;
                strtoul(end, &end, 10);
                unsigned long major = strtoul(end, &end, 10);
                if (*end != ':')
                        return 0;
                unsigned long minor = strtoul(end + 1, &end, 10);
                return major < 1 << 12 && minor < 1 << 20 ? (uint32_t)(major << 20 | minor) : 0;
        }
        return 0;
}

/* The whole disk; 0 for file systems without one (major 0). */
static uint32_t disk_of(struct tracefs_calls *calls, uint32_t device)
{
        char text[64], *end;
        const char *up = "";

        if (device >> 20 == 0)
                return 0;
        if (procfs_readf(calls->procfs, text, sizeof text, "sys/dev/block/%u:%u/partition", device >> 20, device & 0xfffff) > 0)
                up = "/..";
        if (procfs_readf(calls->procfs, text, sizeof text, "sys/dev/block/%u:%u%s/dev", device >> 20, device & 0xfffff, up) <= 0)
                return 0;
        unsigned long major = strtoul(text, &end, 10);
        if (*end != ':' || major >= 1 << 12)
                return 0;
        unsigned long minor = strtoul(end + 1, NULL, 10);
        return minor < 1 << 20 ? (uint32_t)(major << 20 | minor) : 0;
}

static const struct mount *mount_of(struct tracefs_calls *calls, uint32_t tid, uint32_t id)
{
        struct mount *mount = &calls->mounts[id % MOUNTS];
        char path[48];

        if (mount->read && mount->id == id && calls->now - mount->read < MOUNT_NS)
                return mount;
        *mount = (struct mount){.read = calls->now, .id = id};
        snprintf(path, sizeof path, "proc/%u/mountinfo", tid);
        if (procfs_read_all(calls->procfs, path, &calls->text, &calls->capacity) > 0)
                mount->device = find_mount(calls->text, id);
        mount->disk = disk_of(calls, mount->device);
        return mount;
}

static struct file *file_of(struct tracefs_calls *calls, uint32_t tid, int64_t fd)
{
        return &calls->files[(tid * 31 + (uint32_t)fd) % FILES];
}

/* Was the descriptor the file while the call went on? */
static bool proved(const struct file *file, uint32_t tid, int64_t fd, uint64_t start, uint64_t end)
{
        return file->until && file->tid == tid && file->fd == fd && file->since <= end && file->until >= start;
}

static uint64_t status_number(const char *text, const char *label)
{
        char word[24];
        return status_word(text, label, word, sizeof word) ? strtoull(word, NULL, 10) : 0;
}

/* False: there is no such thread or descriptor any more. */
static bool look(struct tracefs_calls *calls, uint32_t tid, int64_t fd)
{
        struct file *file = file_of(calls, tid, fd), now = {.tid = tid, .fd = fd};
        char text[1024], target[1024], path[48];

        if (calls->looks == 0)
                return true;
        calls->looks--;
        now.until = clock_now();
        ssize_t n = procfs_readf(calls->procfs, text, sizeof text, "proc/%u/fdinfo/%lld", tid, (long long)fd);
        if (n <= 0 && n != -EOVERFLOW)
                return false;
        now.inode = status_number(text, "ino:\t"); /* since 5.14 */
        now.mount = (uint32_t)status_number(text, "mnt_id:\t");
        snprintf(path, sizeof path, "proc/%u/fd/%lld", tid, (long long)fd);
        n = procfs_link(calls->procfs, path, target, sizeof target);
        if (n > 0) {
                target[(size_t)n < sizeof target ? (size_t)n : sizeof target - 1] = '\0';
                const char *slash = strrchr(target, '/');
                snprintf(now.name, sizeof now.name, "%.*s", RECORD_FILE - 1, slash ? slash + 1 : target);
        }
        now.since = clock_now();
        if (file->until && file->tid == tid && file->fd == fd && file->inode == now.inode && file->mount == now.mount &&
                strcmp(file->name, now.name) == 0)
                file->until = now.until;
        else
                *file = now;
        return true;
}

/* ---- calls --------------------------------------------------------------------------------------------------------------------------- */

static struct open_call *find_open(struct tracefs_calls *calls, uint32_t tid, bool make)
{
        struct open_call *set = &calls->open[tid % OPEN_SETS * WAYS], *oldest = set;

        for (int i = 0; i < WAYS; i++) {
                if (set[i].start && set[i].tid == tid)
                        return &set[i];
                if (set[i].start < oldest->start)
                        oldest = &set[i];
        }
        if (!make)
                return NULL;
        calls->open_count += oldest->start == 0;
        return oldest;
}

void tracefs_calls_enter(struct tracefs_calls *calls, uint32_t tid, uint8_t call, int64_t fd, uint64_t time)
{
        *find_open(calls, tid, true) = (struct open_call){.start = time ? time : 1, .epoch = calls->epoch, .fd = fd, .tid = tid,
                .call = call};
}

size_t tracefs_calls_exit(struct tracefs_calls *calls, uint32_t tid, uint8_t call, int64_t result, uint64_t time, struct stage_record *out)
{
        struct open_call *found = find_open(calls, tid, false);

        if (!found)
                return 0;
        struct open_call open = *found;
        *found = (struct open_call){0};
        calls->open_count--;
        if (open.call != call || open.epoch != calls->epoch || time < open.start)
                return 0;
        struct task *task = task_of(calls, tid);
        size_t count = tell_names(calls, task, out);
        struct stage_record *record = &out[count++];
        *record = (struct stage_record){.kind = RECORD_SYNC, .tid = tid, .tgid = task ? task->process : tid,
                .sync = {.start = open.start, .end = time, .call = call, .result = result < INT32_MIN ? INT32_MIN :
                        result > INT32_MAX ? INT32_MAX : (int32_t)result}};
        if (open.fd < 0)
                return count;
        struct file *file = file_of(calls, tid, open.fd);
        if (!proved(file, tid, open.fd, open.start, time))
                look(calls, tid, open.fd);
        if (!proved(file, tid, open.fd, open.start, time))
                return count;
        const struct mount *mount = mount_of(calls, tid, file->mount);
        record->device = mount->device;
        record->sync.disk = mount->disk;
        record->sync.inode = file->inode;
        memcpy(record->sync.file, file->name, sizeof record->sync.file);
        return count;
}

void tracefs_calls_settle(struct tracefs_calls *calls)
{
        if (calls->open_count == 0)
                return;
        for (struct open_call *open = calls->open; open < calls->open + OPEN_SETS * WAYS; open++) {
                if (open->start == 0)
                        continue;
                if (open->epoch != calls->epoch) { /* its end would not be believed */
                        *open = (struct open_call){0};
                        calls->open_count--;
                } else if (open->fd >= 0 && calls->looks > 0 &&
                        !proved(file_of(calls, open->tid, open->fd), open->tid, open->fd, open->start, UINT64_MAX) &&
                        !look(calls, open->tid, open->fd)) {
                        open->fd = -1;
                }
        }
}

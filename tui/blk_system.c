/*
 * Names of threads, devices and control groups. See blk_system.h.
 *
 * A tracer that somebody else uses already has told its names before we came, so a thread without one is looked up in /proc, once. The
 * table forgets instead of growing: what it forgot is read again.
 */
#include "tui/blk_system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SETS = 4096, WAYS = 4 };

struct name {
        uint32_t tid;
        bool known;
        char comm[RECORD_COMM];
};

struct blk_names {
        bool look;
        unsigned turn;
        struct name names[SETS][WAYS];
};

int blk_names_new(bool look, struct blk_names **result)
{
        struct blk_names *names = calloc(1, sizeof *names);

        if (names == NULL)
                return -ENOMEM;
        names->look = look;
        *result = names;
        return 0;
}

void blk_names_free(struct blk_names *names) { free(names); }

static struct name *find(struct blk_names *names, uint32_t tid)
{
        struct name *set = names->names[(tid * UINT32_C(2654435761)) >> 20];

        for (int i = 0; i < WAYS; i++)
                if (set[i].known && set[i].tid == tid)
                        return &set[i];
        return NULL;
}

void blk_names_learn(struct blk_names *names, uint32_t tid, const char *comm)
{
        struct name *name = find(names, tid);

        if (name == NULL) {
                struct name *set = names->names[(tid * UINT32_C(2654435761)) >> 20];
                for (int i = 0; i < WAYS && name == NULL; i++)
                        if (!set[i].known)
                                name = &set[i];
                if (name == NULL)
                        name = &set[names->turn++ % WAYS];
        }
        name->known = true;
        name->tid = tid;
        snprintf(name->comm, sizeof name->comm, "%.*s", RECORD_COMM - 1, comm);
}

const char *blk_names_get(struct blk_names *names, uint32_t tid, bool *fresh)
{
        struct name *name = find(names, tid);
        char path[32], comm[64] = "";

        if (fresh)
                *fresh = name == NULL;
        if (name)
                return name->comm;
        snprintf(path, sizeof path, "/proc/%u/comm", tid);
        int fd = names->look && tid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
                ssize_t length = read(fd, comm, sizeof comm - 1);
                close(fd);
                comm[length > 0 ? length : 0] = '\0';
                comm[strcspn(comm, "\n")] = '\0';
        }
        blk_names_learn(names, tid, comm);
        return find(names, tid)->comm;
}

int blk_names_each(const struct blk_names *names, int (*each)(void *own, uint32_t tid, const char *comm), void *own)
{
        int r = 0;

        for (size_t i = 0; i < SETS && r == 0; i++)
                for (size_t k = 0; k < WAYS && r == 0; k++)
                        if (names->names[i][k].known && names->names[i][k].comm[0])
                                r = each(own, names->names[i][k].tid, names->names[i][k].comm);
        return r;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------------ */

bool blk_device_has_queue(uint32_t device)
{
        char path[64];

        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/mq", device >> 20, device & 0xfffff);
        return access(path, F_OK) == 0;
}

static uint32_t number_of(unsigned major, unsigned minor) { return major << 20 | minor; }

/* "7:0" of a file of sysfs. */
static bool read_number(const char *path, uint32_t *device)
{
        unsigned major, minor;
        FILE *file = fopen(path, "re");

        if (file == NULL)
                return false;
        bool good = fscanf(file, "%u:%u", &major, &minor) == 2 && major < 4096 && minor < (1u << 20);
        fclose(file);
        if (good)
                *device = number_of(major, minor);
        return good;
}

/* The folder of a device in sysfs; a partition's lies in its disk's. */
static int whole_disk(uint32_t part, uint32_t *device)
{
        char path[64], real[PATH_MAX], file[PATH_MAX + 16];

        *device = part;
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u", part >> 20, part & 0xfffff);
        if (realpath(path, real) == NULL)
                return -ENOENT;
        snprintf(file, sizeof file, "%s/partition", real);
        if (access(file, F_OK) < 0)
                return 0;
        snprintf(file, sizeof file, "%s/../dev", real);
        return read_number(file, device) ? 0 : -ENOENT;
}

int blk_device_find(const char *text, uint32_t *device, uint32_t *part)
{
        char path[PATH_MAX], *slash;
        unsigned major, minor;
        int end = 0;
        struct stat st;

        if ((sscanf(text, "%u,%u%n", &major, &minor, &end) == 2 || sscanf(text, "%u:%u%n", &major, &minor, &end) == 2) &&
            text[end] == '\0') {
                if (major >= 4096 || minor >= 1u << 20)
                        return -ENOENT;
                *part = number_of(major, minor);
                return whole_disk(*part, device);
        }
        bool absolute = text[0] == '/';
        if (!absolute) {
                snprintf(path, sizeof path, "/sys/class/block/%s/dev", text);
                while ((slash = strchr(path + strlen("/sys/class/block/"), '/')) != NULL && strcmp(slash, "/dev") != 0)
                        *slash = '!'; /* as sysfs writes cciss/c0d0 */
                if (read_number(path, part))
                        return whole_disk(*part, device);
        }
        snprintf(path, sizeof path, "%s%s", absolute ? "" : "/dev/", text);
        if (stat(path, &st) < 0)
                return -ENOENT;
        if (!S_ISBLK(st.st_mode))
                return -ENOTBLK;
        *part = number_of(major(st.st_rdev), minor(st.st_rdev));
        return whole_disk(*part, device);
}

const char *blk_device_name_now(uint32_t device, char *out, size_t size)
{
        char path[64], link[PATH_MAX], *name;

        snprintf(path, sizeof path, "/sys/dev/block/%u:%u", device >> 20, device & 0xfffff);
        ssize_t length = readlink(path, link, sizeof link - 1);
        if (length <= 0)
                return NULL;
        link[length] = '\0';
        name = strrchr(link, '/');
        snprintf(out, size, "%s", name ? name + 1 : link);
        for (char *at = out; *at; at++)
                if (*at == '!')
                        *at = '/';
        return out;
}

/* ---- control groups ----------------------------------------------------------------------------------------------------------------- */

/* The kernel opens a group by its inode (FILEID_KERNFS), so nothing has to be walked. Who pays for writeback is a group of the unified
 * hierarchy, or of blkio's. */
bool blk_cgroup_path(uint64_t inode, char *out, size_t size)
{
        static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/blkio"};
        struct { struct file_handle head; uint64_t inode; } handle = {{.handle_bytes = sizeof handle.inode, .handle_type = 0xfe}, inode};

        _Static_assert(sizeof handle == sizeof(struct file_handle) + sizeof(uint64_t), "the inode follows the head");
        for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
                char path[64], link[PATH_MAX];
                int root = open(mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                int fd = root >= 0 ? open_by_handle_at(root, &handle.head, O_PATH | O_CLOEXEC) : -1;
                if (root >= 0)
                        close(root);
                if (fd < 0)
                        continue;
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t length = readlink(path, link, sizeof link - 1);
                close(fd);
                if (length <= 0)
                        continue;
                link[length] = '\0';
                const char *inside = strncmp(link, mounts[i], strlen(mounts[i])) == 0 ? link + strlen(mounts[i]) : link;
                snprintf(out, size, "%s", inside[0] ? inside : "/");
                return true;
        }
        return false;
}

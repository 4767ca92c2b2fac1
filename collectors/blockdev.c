/*
 * What a block device is, from /sys/block and /dev/disk/by-id.
 *
 * Nothing here is read per tick. A file that is missing (older kernels lack diskseq, bio devices lack a scheduler) leaves its slot absent.
 */
#include "collectors/blockdev.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYS_NAME = 256, LIST_TEXT = 512 };

static bool starts(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- small reads --------------------------------------------------------------------------------------------------- */

/* A word or line of text from a file of the device, trimmed. Length, or -errno. */
static ssize_t read_text(struct procfs *p, const struct blockdev *d, const char *file, char *text, size_t size)
{
        ssize_t n = procfs_readf(p, text, size, "%s/%s", d->folder, file);
        if (n == -EOVERFLOW)
                n = (ssize_t)strlen(text);
        while (n > 0 && isspace((unsigned char)text[n - 1]))
                text[--n] = '\0';
        return n;
}

static bool read_number(struct procfs *p, const struct blockdev *d, const char *file, uint64_t *value)
{
        char text[64];
        struct scan s;
        ssize_t n = read_text(p, d, file, text, sizeof text);
        scan_init(&s, text, n > 0 ? (size_t)n : 0);
        return scan_u64(&s, value);
}

struct names {
        char *text;
        size_t length, size;
};

static int add_name(void *arg, const char *name, unsigned char type)
{
        struct names *names = arg;
        size_t length = strlen(name);
        if (names->length + length + 2 > names->size)
                return 1;
        if (names->length > 0)
                names->text[names->length++] = ' ';
        memcpy(names->text + names->length, name, length + 1);
        names->length += length;
        return 0;
}

/* Entries of a folder of the device, separated by blanks, in the folder's order; bounded. -1 when there is no such folder. */
static int read_names(struct procfs *p, const struct blockdev *d, const char *folder, char *text, size_t size)
{
        char path[SYS_NAME];
        struct names names = { .text = text, .size = size };
        text[0] = '\0';
        int n = snprintf(path, sizeof path, "%s/%s", d->folder, folder);
        if (n < 0 || (size_t)n >= sizeof path || procfs_list(p, path, add_name, &names) < 0)
                return -1;
        return (int)names.length;
}

static int any_entry(void *arg, const char *name, unsigned char type)
{
        return 1;
}

static bool has_folder(struct procfs *p, const struct blockdev *d, const char *folder)
{
        char path[SYS_NAME];
        int n = snprintf(path, sizeof path, "%s/%s", d->folder, folder);
        return n > 0 && (size_t)n < sizeof path && procfs_list(p, path, any_entry, NULL) >= 0;
}

/* ---- where it is and what kind ------------------------------------------------------------------------------------- */

static void sys_name(const char *name, char out[BLOCKDEV_NAME])
{
        size_t i = 0;
        for (; name[i] && i + 1 < BLOCKDEV_NAME; i++)
                out[i] = name[i] == '/' ? '!' : name[i]; /* cciss/c0d0 is cciss!c0d0 */
        out[i] = '\0';
}

static bool try_folder(struct procfs *p, struct blockdev *d)
{
        uint64_t sectors;
        if (!read_number(p, d, "size", &sectors))
                return false;
        d->size = sectors <= UINT64_MAX / 512 ? sectors * 512 : 0; /* always in 512-byte units */
        return true;
}

/* A partition has no diskseq: its disk's stands for it. */
static void disk_sequence(struct procfs *p, struct blockdev *d, const char *disk)
{
        char text[64];
        struct scan s;
        ssize_t n = procfs_readf(p, text, sizeof text, "sys/block/%s/diskseq", disk);
        scan_init(&s, text, n > 0 ? (size_t)n : 0);
        if (!scan_u64(&s, &d->sequence))
                d->sequence = 0;
}

/* A partition's folder lies inside its disk's. Its name is the disk's and its number, with a p between them when the disk's ends in a digit
 * (block/partitions/core.c, add_partition): sda1, nvme0n1p1. */
static bool in_disk(struct procfs *p, struct blockdev *d, const char *name, size_t length)
{
        char disk[BLOCKDEV_NAME];
        snprintf(disk, sizeof disk, "%.*s", (int)length, name);
        snprintf(d->folder, sizeof d->folder, "sys/block/%s/%s", disk, name);
        if (length == 0 || !try_folder(p, d))
                return false;
        disk_sequence(p, d, disk);
        return true;
}

static bool find_parent(struct procfs *p, struct blockdev *d, const char *name)
{
        size_t length = strlen(name), number = length;
        while (number > 0 && isdigit((unsigned char)name[number - 1]))
                number--;
        if (number == length)
                return false;
        bool parted = number >= 2 && name[number - 1] == 'p' && isdigit((unsigned char)name[number - 2]);
        return (parted && in_disk(p, d, name, number - 1)) || in_disk(p, d, name, number);
}

/* Devices on devices. bcache, drbd and an unbound loop device show no slaves. */
static bool stacked(struct procfs *p, const struct blockdev *d)
{
        static const char *const prefix[] = { "dm-", "md", "loop", "bcache", "drbd" };
        char slaves[LIST_TEXT];
        for (size_t i = 0; i < sizeof prefix / sizeof prefix[0]; i++)
                if (starts(d->name, prefix[i]))
                        return true;
        return read_names(p, d, "slaves", slaves, sizeof slaves) > 0;
}

/* Bio devices (zram, pmem, an NVMe multipath head) have no queue of requests: their queue/iostats says nothing, and what can be waited
 * for below them is accounted there. Request queues have a folder mq; before 5.0 the single-queue ones had a scheduler instead. */
static bool request_based(struct procfs *p, const struct blockdev *d)
{
        char scheduler[128];
        if (has_folder(p, d, "mq"))
                return true;
        return read_text(p, d, "queue/scheduler", scheduler, sizeof scheduler) > 0 && strcmp(scheduler, "none") != 0;
}

void blockdev_read_iostats(struct procfs *p, struct blockdev *d)
{
        uint64_t value;
        if (!read_number(p, d, "queue/iostats", &value))
                return;
        d->has_iostats = true;
        d->iostats = value != 0;
}

bool blockdev_replaced(struct procfs *p, const struct blockdev *d)
{
        uint64_t sequence;
        return d->folder[0] && d->kind != 'p' && read_number(p, d, "diskseq", &sequence) && sequence != d->sequence;
}

void blockdev_read(struct procfs *p, struct blockdev *d)
{
        char name[BLOCKDEV_NAME];
        uint64_t hidden;
        sys_name(d->name, name);
        d->kind = 0;
        d->size = d->sequence = 0;
        d->has_iostats = d->request_based = false;
        procfs_file_close(&d->inflight);
        snprintf(d->folder, sizeof d->folder, "sys/block/%s", name);
        if (try_folder(p, d)) {
                if (read_number(p, d, "hidden", &hidden) && hidden)
                        d->kind = 'h';
                else
                        d->kind = stacked(p, d) ? 's' : 'w';
                d->request_based = request_based(p, d);
                blockdev_read_iostats(p, d);
                if (!read_number(p, d, "diskseq", &d->sequence))
                        d->sequence = 0;
        } else if (find_parent(p, d, name)) {
                d->kind = 'p';
        } else {
                d->folder[0] = '\0';
        }
        char path[sizeof d->folder + 16];
        snprintf(path, sizeof path, "%s/inflight", d->folder);
        procfs_file_init(&d->inflight, d->folder[0] ? path : "");
}

struct key blockdev_key(const struct blockdev *d)
{
        uint64_t b = d->sequence;
        if (b == 0) /* before 5.15: numbers and size; bit 63 keeps it apart from a sequence number */
                b = UINT64_C(1) << 63 | ((d->major << 48 ^ d->minor << 32 ^ d->size / 512) & INT64_MAX);
        return key_of_name(d->name, strlen(d->name), b);
}

/* ---- the descriptive slots ----------------------------------------------------------------------------------------- */

static void text_slot(struct row *row, int metric, const char *text, ssize_t length)
{
        row_text(row, metric, length > 0 ? text : NULL, length > 0 ? (size_t)length : 0);
}

static void number_slot(struct procfs *p, const struct blockdev *d, struct row *row, int metric, const char *file)
{
        uint64_t value;
        if (read_number(p, d, file, &value))
                row_set(row, metric, value);
        else
                row_absent(row, metric);
}

/* "none [mq-deadline] kyber": the one in brackets; a device without choice prints the bare word. */
static void scheduler_slot(struct procfs *p, const struct blockdev *d, struct row *row)
{
        char text[256];
        ssize_t n = read_text(p, d, "queue/scheduler", text, sizeof text);
        if (n > 0) {
                char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
                if (close) {
                        row_text(row, DISK_SCHEDULER, open + 1, (size_t)(close - open - 1));
                        return;
                }
        }
        text_slot(row, DISK_SCHEDULER, text, n);
}

static void parent_slot(const struct blockdev *d, struct row *row)
{
        const char *start = d->folder + strlen("sys/block/"), *end = d->kind == 'p' ? strchr(start, '/') : NULL;
        if (end)
                row_text(row, DISK_PARENT, start, (size_t)(end - start));
        else
                row_text(row, DISK_PARENT, NULL, 0);
}

void blockdev_row(struct procfs *p, const struct blockdev *d, struct row *row)
{
        static const int queue[] = { DISK_ROTATIONAL, DISK_NR_REQUESTS, DISK_IOSTATS };
        static const char *const file[] = { "queue/rotational", "queue/nr_requests", "queue/iostats" };
        char text[LIST_TEXT];
        row_text(row, DISK_NAME, d->name, strlen(d->name));
        row_set(row, DISK_MAJOR, d->major);
        row_set(row, DISK_MINOR, d->minor);
        if (!d->folder[0])
                return;
        row_set(row, DISK_KIND, (uint64_t)(unsigned char)d->kind);
        row_set(row, DISK_SIZE, d->size);
        parent_slot(d, row);
        if (d->kind == 'p') /* a partition has no queue of its own */
                return;
        for (size_t i = 0; i < sizeof queue / sizeof queue[0]; i++)
                number_slot(p, d, row, queue[i], file[i]);
        if (!d->request_based) /* counted whatever its switch says */
                row_absent(row, DISK_IOSTATS);
        scheduler_slot(p, d, row);
        text_slot(row, DISK_SLAVES, text, read_names(p, d, "slaves", text, sizeof text));
        text_slot(row, DISK_HOLDERS, text, read_names(p, d, "holders", text, sizeof text));
        text_slot(row, DISK_DM_NAME, text, starts(d->name, "dm-") ? read_text(p, d, "dm/name", text, sizeof text) : -ENOENT);
        text_slot(row, DISK_MODEL, text, read_text(p, d, "device/model", text, sizeof text));
}

/* ---- names below /dev/disk/by-id ----------------------------------------------------------------------------------- */

enum { IDS_MAX = 1 << 17, ID_TEXT = 128 };

struct id_name {
        char device[BLOCKDEV_NAME], name[ID_TEXT];
};

struct blockdev_ids {
        struct id_name *list; /* by device, the best name of each first */
        size_t count, capacity;
        struct procfs *procfs;
};

int blockdev_ids_new(struct blockdev_ids **result)
{
        *result = calloc(1, sizeof **result);
        return *result ? 0 : -ENOMEM;
}

void blockdev_ids_free(struct blockdev_ids *ids)
{
        if (!ids)
                return;
        free(ids->list);
        free(ids);
}

/* Names of makers and models say more to people than numbers do. */
static int worth(const char *name)
{
        if (starts(name, "wwn-") || starts(name, "nvme-eui.") || starts(name, "nvme-nvme.") || starts(name, "lvm-pv-uuid"))
                return 0;
        if (starts(name, "dm-uuid-") || starts(name, "scsi-") || starts(name, "md-uuid-"))
                return 1;
        return 2;
}

static int by_device(const void *left, const void *right)
{
        const struct id_name *a = left, *b = right;
        int order = strcmp(a->device, b->device), more = worth(b->name) - worth(a->name);
        return order ? order : more ? more : strcmp(a->name, b->name);
}

static int add_id(void *arg, const char *name, unsigned char type)
{
        struct blockdev_ids *ids = arg;
        char path[SYS_NAME + 32], target[SYS_NAME];
        int n = snprintf(path, sizeof path, "dev/disk/by-id/%s", name);
        if (n < 0 || (size_t)n >= sizeof path || strlen(name) >= ID_TEXT || procfs_link(ids->procfs, path, target, sizeof target) < 0)
                return 0;
        const char *slash = strrchr(target, '/'), *device = slash ? slash + 1 : target;
        if (!*device || strlen(device) >= BLOCKDEV_NAME)
                return 0;
        if (ids->count == IDS_MAX)
                return 1;
        if (ids->count == ids->capacity) {
                size_t wanted = ids->capacity ? ids->capacity * 2 : 32;
                struct id_name *grown = realloc(ids->list, wanted * sizeof *grown);
                if (!grown)
                        return 1;
                ids->list = grown;
                ids->capacity = wanted;
        }
        memcpy(ids->list[ids->count].device, device, strlen(device) + 1);
        memcpy(ids->list[ids->count++].name, name, strlen(name) + 1);
        return 0;
}

void blockdev_ids_read(struct procfs *p, struct blockdev_ids *ids)
{
        ids->count = 0;
        ids->procfs = p;
        procfs_list(p, "dev/disk/by-id", add_id, ids);
        if (ids->count > 1)
                qsort(ids->list, ids->count, sizeof *ids->list, by_device);
}

const char *blockdev_ids_find(const struct blockdev_ids *ids, const char *device)
{
        size_t low = 0, high = ids->count;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (strcmp(ids->list[middle].device, device) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < ids->count && strcmp(ids->list[low].device, device) == 0 ? ids->list[low].name : NULL;
}

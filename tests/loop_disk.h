#pragma once
/*
 * A disk of a test's own: a loop device over memory that goes away with the test, however it ends, and what the kernel counts of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct loop_disk {
        int fd;                 /* open with O_DIRECT; keeps it alive */
        char name[24], path[40];
        uint32_t device;        /* major << 20 | minor */
};

struct loop_counts {
        unsigned long long reads, read_merges, read_sectors, writes, write_merges, write_sectors, flushes;
};

static inline bool loop_set(const struct loop_disk *disk, const char *setting, const char *value)
{
        char path[96];
        snprintf(path, sizeof path, "/sys/block/%s/queue/%s", disk->name, setting);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : write(fd, value, strlen(value));
        if (fd >= 0)
                close(fd);
        return n == (ssize_t)strlen(value);
}

/* Over an open file. 0 or -errno. */
static inline int loop_over(struct loop_disk *disk, int backing, int open_flags)
{
        struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};
        int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (control < 0)
                return -errno;
        for (int attempt = 0; attempt < 20; attempt++) { /* others may take the one that was free */
                int number = ioctl(control, LOOP_CTL_GET_FREE);
                if (number < 0)
                        break;
                snprintf(disk->name, sizeof disk->name, "loop%d", number);
                snprintf(disk->path, sizeof disk->path, "/dev/%s", disk->name);
                disk->device = (uint32_t)(7 << 20 | number);
                int fd = open(disk->path, open_flags | O_CLOEXEC);
                if (fd < 0)
                        break;
                if (ioctl(fd, LOOP_SET_FD, backing) == 0) {
                        close(control);
                        disk->fd = fd;
                        if (ioctl(fd, LOOP_SET_STATUS64, &info) == 0)
                                return 0;
                        int error = -errno;
                        ioctl(fd, LOOP_CLR_FD);
                        close(fd);
                        return error;
                }
                close(fd);
                if (errno != EBUSY)
                        break;
        }
        int error = errno ? -errno : -EBUSY;
        close(control);
        return error;
}

static inline int loop_disk_open(struct loop_disk *disk, size_t bytes)
{
        int memory = memfd_create("disk", MFD_CLOEXEC);
        if (memory < 0 || ftruncate(memory, (off_t)bytes) != 0 || fallocate(memory, 0, 0, (off_t)bytes) != 0)
                return -errno;
        int r = loop_over(disk, memory, O_RDWR | O_DIRECT);
        close(memory);
        return r;
}

static inline void loop_disk_close(struct loop_disk *disk)
{
        close(disk->fd); /* the last one: the device lets go of its file */
}

static inline struct loop_counts loop_count(const struct loop_disk *disk)
{
        struct loop_counts counts = {0};
        char line[512], name[32];
        FILE *file = fopen("/proc/diskstats", "re");
        while (file && fgets(line, sizeof line, file)) {
                struct loop_counts now = {0};
                int found = sscanf(line, "%*u %*u %31s %llu %llu %llu %*u %llu %llu %llu %*u %*u %*u %*u %*u %*u %*u %*u %llu", name,
                        &now.reads, &now.read_merges, &now.read_sectors, &now.writes, &now.write_merges, &now.write_sectors, &now.flushes);
                if (found >= 7 && strcmp(name, disk->name) == 0)
                        counts = now;
        }
        if (file)
                fclose(file);
        return counts;
}

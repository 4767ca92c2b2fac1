#pragma once
/*
 * A disk whose driver takes bios, not requests: a zram of 8 MiB of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Its number; -1 = none can be had here. */
static inline int zram_add(void)
{
        char text[16] = "", path[64];
        int fd = open("/sys/class/zram-control/hot_add", O_RDONLY | O_CLOEXEC), number = -1;
        if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
                number = atoi(text);
        if (fd >= 0)
                close(fd);
        if (number < 0)
                return -1;
        snprintf(path, sizeof path, "/sys/block/zram%d/disksize", number);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "8388608", 7) != 7)
                printf("# zram%d takes no size\n", number);
        if (fd >= 0)
                close(fd);
        return number;
}

static inline void zram_remove(int number)
{
        char text[16];
        int fd = open("/sys/class/zram-control/hot_remove", O_WRONLY | O_CLOEXEC);
        snprintf(text, sizeof text, "%d", number);
        for (int i = 0; i < 100 && fd >= 0 && write(fd, text, strlen(text)) < 0 && errno == EBUSY; i++)
                usleep(20000); /* somebody looks at the new device */
        if (fd >= 0)
                close(fd);
}

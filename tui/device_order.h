#pragma once
/*
 * Which block device stands on which, as both the disk table and the live screen show it: a partition belongs under its disk, a stacked
 * device (dm, md, loop) under the first device it uses. Made once per look in n log n: a host may have thousands of disks.
 */
#include <stddef.h>

#include "sample/state.h"

enum { DEVICE_NONE = -1 };

struct device {
        const struct state_row *row;
        const char *name;          /* as state_text gives it; NULL: none */
        size_t name_length;
        int parent, child, next;   /* indices, DEVICE_NONE = none; child: the first one, next: of the same parent, in the kernel's order */
        bool done;                 /* the caller's: it was shown, which also ends a circle that a lying table might hold */
};

struct device_order {
        struct device *devices;    /* in the order of the state's rows */
        int *by_name;
        size_t count, capacity;
};

void device_order_fini(struct device_order *);
/* Of the state's devices that are there. Memory is kept from look to look. 0 or -ENOMEM. */
int device_order_make(struct device_order *, const struct state *);
/* Kind of a device (metric disk.kind), 'w' when it is not known. */
char device_kind(const struct state_row *);

#pragma once
/*
 * What a block device is, from sysfs: read when the device is new, when the kernel announced a change, and in rotation.
 *
 * Used by disk.c, which has what a device does (diskstats).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/procfs.h"
#include "sample/sample.h"

enum { BLOCKDEV_NAME = 64, BLOCKDEV_FIELDS = 17 };

struct blockdev {
        char name[BLOCKDEV_NAME];            /* as in diskstats; a "/" is "!" in sysfs */
        uint64_t major, minor;
        /* from sysfs */
        char folder[2 * BLOCKDEV_NAME + 16]; /* sys/block/D, or sys/block/PARENT/D; empty when sysfs does not show it */
        char kind;                           /* w s p h, 0 = not known */
        bool request_based;                  /* its requests can be waited for without being counted when iostats is off */
        bool has_iostats, iostats;
        uint64_t sequence, size;             /* diskseq (a partition: its disk's), bytes; 0 = not known */
        uint64_t read_ns;                    /* when this was read last */
        /* from diskstats */
        uint64_t field[BLOCKDEV_FIELDS], before[BLOCKDEV_FIELDS]; /* as printed; before: at the tick before */
        uint32_t have, had;                  /* bit i: field i + 1 was there */
        uint64_t read, seen_before;          /* number of the read its line was in last, and the time before that; 0 = never */
        uint64_t moved_ns;                   /* last completion, or first sight of a request in flight */
        bool in_flight, fresh;               /* fresh: attributes must be (re)read, and its row too */
        struct procfs_file inflight;
};

/* Read kind, size, sequence and iostats. */
void blockdev_read(struct procfs *, struct blockdev *);
/* Read only what decides whether the device's requests are accounted: queue/iostats. Unreadable: as before. */
void blockdev_read_iostats(struct procfs *, struct blockdev *);
/* True when the device shows another diskseq than when it was read: it is another device under the same name. */
bool blockdev_replaced(struct procfs *, const struct blockdev *);
/* Fill the descriptive slots of its row (scheduler, model, slaves, ...). */
void blockdev_row(struct procfs *, const struct blockdev *, struct row *);
/* Key of its row: name, and what tells a re-plugged device from the one before. */
struct key blockdev_key(const struct blockdev *);

/* Names below /dev/disk/by-id: device -> best name. */
struct blockdev_ids;
int blockdev_ids_new(struct blockdev_ids **);
void blockdev_ids_free(struct blockdev_ids *);
void blockdev_ids_read(struct procfs *, struct blockdev_ids *);
const char *blockdev_ids_find(const struct blockdev_ids *, const char *device); /* NULL when it has none */

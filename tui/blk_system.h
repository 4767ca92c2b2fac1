#pragma once
/*
 * What the running machine says of the numbers in a tracer's records: names of threads, devices, control groups. Fixed memory; whatever is
 * not known has no name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/stage_record.h"

struct blk_names;
/* look: may /proc be asked for threads that no record named (the same pid namespace)? */
int blk_names_new(bool look, struct blk_names **);
void blk_names_free(struct blk_names *);
void blk_names_learn(struct blk_names *, uint32_t tid, const char *comm);
/* "" = not known. *fresh (if not NULL): it was read just now. Good until the next call. */
const char *blk_names_get(struct blk_names *, uint32_t tid, bool *fresh);
/* All that have a name. Ends at the first result that is not 0, and returns it. */
int blk_names_each(const struct blk_names *, int (*each)(void *own, uint32_t tid, const char *comm), void *own);

/* A device as people write it (sda, sda1, /dev/mapper/root, dm-0, 7,0, 7:0): *device is the whole disk's, *part what was named, the same
 * when it is no partition. 0, -ENOENT, -ENOTBLK. */
int blk_device_find(const char *text, uint32_t *device, uint32_t *part);
/* "sda", or NULL when the kernel has no such device. */
const char *blk_device_name_now(uint32_t device, char *out, size_t size);
/* Does its driver take requests, so that bios wait for one? False: it takes bios (zram, dm, md), or is gone. */
bool blk_device_has_queue(uint32_t device);
/* Path of a control group within its hierarchy by its inode: false without the right (CAP_DAC_READ_SEARCH), or when it is gone. */
bool blk_cgroup_path(uint64_t inode, char *out, size_t size);

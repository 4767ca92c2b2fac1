#pragma once
/*
 * What a bio and a request are: device, direction, flags, who pays. Included once, by stages.bpf.c.
 */
#include "block.bpf.h"

/* linux/blk_types.h; scsi had 32 and 33 to itself until 5.15 */
enum { OP_READ = 0, OP_WRITE = 1, OP_FLUSH = 2, OP_DISCARD = 3, OP_SECURE_ERASE = 5, OP_PASSTHROUGH = 32, OP_PASSTHROUGH_LAST = 35 };

inline_ u32 device_of_disk(struct gendisk *disk)
{
        return disk ? (u32)disk->major << 20 | (u32)disk->first_minor : 0;
}

inline_ u32 device_of(struct bio *bio)
{
        if (bpf_core_field_exists(bio->bi_bdev)) {
                struct block_device *device = bio->bi_bdev;
                return device ? device_of_disk(device->bd_disk) : 0;
        }
        return device_of_disk(((struct bio___disk *)bio)->bi_disk);
}

inline_ u32 direction_of(u32 opf)
{
        u32 op = opf & 0xff;
        if (op <= OP_WRITE)
                return op;      /* STAGE_READ, STAGE_WRITE */
        return op == OP_FLUSH ? 3 : op == OP_DISCARD || op == OP_SECURE_ERASE ? 2 : 4;
}

/* enum stage_flags of sample/stage.h */
#define BIT_OF(name) bpf_core_enum_value(enum req_flag_bits, name)
inline_ u32 flags_of(u32 opf)
{
        u32 flags = (opf >> BIT_OF(__REQ_SYNC) & 1) | (opf >> BIT_OF(__REQ_META) & 1) << 1;
        if (opf & (1u << BIT_OF(__REQ_RAHEAD) | 1u << BIT_OF(__REQ_PREFLUSH) | 1u << BIT_OF(__REQ_FUA)))
                flags |= (opf >> BIT_OF(__REQ_RAHEAD) & 1) << 2 | (opf >> BIT_OF(__REQ_PREFLUSH) & 1) << 3 |
                        (opf >> BIT_OF(__REQ_FUA) & 1) << 4;
        return (opf & 0xff) == OP_FLUSH ? flags | 32 : flags;
}

/* The cgroup that pays. */
inline_ u64 cgroup_of(struct bio *bio)
{
        struct blkcg_gq *group;
        if (!bpf_core_field_exists(bio->bi_blkg) || !bpf_core_field_exists(((struct kernfs_node *)0)->id))
                return 0;
        group = bio->bi_blkg;
        return group ? BPF_CORE_READ(group, blkcg, css.cgroup, kn, id) : 0;
}

inline_ u32 device_of_request(struct request *request)
{
        if (bpf_core_field_exists(((struct request___disk *)request)->rq_disk))
                return device_of_disk(((struct request___disk *)request)->rq_disk);
        if (bpf_core_field_exists(((struct request_queue *)0)->disk))
                return device_of_disk(request->q->disk);
        return 0;
}

inline_ bool is_passthrough(u32 opf)
{
        return (opf & 0xff) >= OP_PASSTHROUGH && (opf & 0xff) <= OP_PASSTHROUGH_LAST;
}

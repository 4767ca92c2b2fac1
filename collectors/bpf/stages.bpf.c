/*
 * The programs of the block tracer (../../HACKING.md, "Block latency"): each bio from queue to completion, one record when it has ended.
 *
 * An event stores a time in the bio's slot; what a request's events tell belongs to all its bios, so it is kept with the first of them
 * (rq->bio) and given to the others when they end. Nothing is printed or allocated; the times are those of the events, on this CPU's clock.
 */
#include "stage_state.bpf.h"
#include "stage_bio.bpf.h"
#include "stage_events.bpf.h"
#include "stage_calls.bpf.h"

/* GPL-compatible: the kernel gives tracing helpers to no other. The terms are those of the LICENSE file. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Bios of one request that are followed: 4 MiB of single pages. The verifier of some kernels takes no much longer loop. */
enum { BIOS_MOST = 1024 };

inline_ u64 id_of(const struct slot *slot)
{
        return slot->flags & SLOT_PIECE ? slot->id : slot_id(slot->key, slot->q);
}

/* ---- queue, request, merge ----------------------------------------------------------------------------------------------------------- */

SEC("tp_btf/block_bio_queue")
int watopb_queue(u64 *ctx)
{
        struct bio *bio = (void *)argument(ctx, settings.queue_bio);
        u64 now = bpf_ktime_get_ns();
        struct slot *slot = make(bio);
        struct who who = introduce(now);
        u32 opf = bio->bi_opf;
        if (events_wanted())
                say_bio(STAGE_Q, now, bio, 0, 0, 0);
        if (!slot)
                return 0;
        slot->q = now;
        slot->g = 0;
        slot->d = 0;
        slot->sector = bio->bi_iter.bi_sector;
        slot->bytes = bio->bi_iter.bi_size;
        slot->device = device_of(bio);
        slot->tid = who.tid;
        slot->tgid = who.tgid;
        slot->direction = (u8)direction_of(opf);
        slot->bio_flags = (u8)flags_of(opf);
        slot->requeues = 0;
        slot->parts = 0;
        if (who.kernel) {
                slot->cgroup = cgroup_of(bio);
                slot->flags = SLOT_KERNEL | SLOT_CGROUP | SLOT_QUEUED;
        } else {
                slot->flags = SLOT_QUEUED;
        }
        return 0;
}

SEC("tp_btf/block_getrq")
int watopb_getrq(u64 *ctx)
{
        struct bio *bio = (void *)argument(ctx, settings.getrq_bio);
        struct slot *slot = find(bio);
        u64 now = bpf_ktime_get_ns();
        if (slot)
                slot->g = now;
        if (events_wanted())
                say_bio(STAGE_G, now, bio, 0, 0, 0);
        return 0;
}

inline_ int merged(struct bio *bio, u32 action)
{
        struct slot *slot = find(bio);
        u64 now = bpf_ktime_get_ns();
        if (slot) {
                slot->m = now;
                slot->flags |= SLOT_M;
        }
        if (events_wanted())
                say_bio(action, now, bio, 0, 0, 0);
        return 0;
}

SEC("tp_btf/block_bio_backmerge")
int watopb_back(u64 *ctx)
{
        return merged((void *)argument(ctx, settings.back_bio), STAGE_M);
}

SEC("tp_btf/block_bio_frontmerge")
int watopb_front(u64 *ctx)
{
        return merged((void *)argument(ctx, settings.front_bio), STAGE_F);
}

/* Functions that get numbers are verified once, however often they are called: those of loops are such. */
__attribute__((noinline)) int merge_one(u64 key, u64 now)
{
        struct slot *slot = find_key(key);
        if (slot && !(slot->flags & SLOT_M)) {
                slot->m = now;
                slot->flags |= SLOT_M;
        }
        return 0;
}

/* All bios of a request, from `bio` on. */
__attribute__((noinline)) int merge_all(u64 bio, u64 now)
{
        for (u32 i = 0; i < BIOS_MOST && bio; i++) {
                merge_one(-bio, now);
                bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
        }
        return 0;
}

/* The request goes into another one, with all its bios. */
SEC("tp_btf/block_rq_merge")
int watopb_merge(u64 *ctx)
{
        struct request *request = (void *)argument(ctx, settings.merge_rq);
        u64 now = bpf_ktime_get_ns();
        merge_all(-key_of(request->bio), now);
        if (events_wanted())
                say_request(STAGE_MERGE, now, request, request->__data_len, 0);
        return 0;
}

/* The bio of the event was cut off the front of its parent, of which the rest is left. A device mapper's splits have no such parent: there
 * the bio of the event is the whole one, and goes on. */
SEC("tp_btf/block_split")
int watopb_split(u64 *ctx)
{
        struct bio *bio = (void *)argument(ctx, settings.split_bio), *parent = (void *)BPF_CORE_READ(bio, bi_private);
        struct slot *whole = find(parent);
        if (events_wanted())
                say_bio(STAGE_X, bpf_ktime_get_ns(), bio, argument(ctx, settings.split_bio + 1), 0, 0);
        if (!whole)
                return 0;
        u64 sector = BPF_CORE_READ(parent, bi_iter.bi_sector);
        u32 bytes = bio->bi_iter.bi_size;
        if (bio->bi_iter.bi_sector != whole->sector || whole->sector + (bytes >> 9) != sector)
                return 0;
        struct slot *slot = make(bio);
        whole->sector = sector;
        whole->bytes = BPF_CORE_READ(parent, bi_iter.bi_size);
        if (!slot)
                return 0;
        whole->parts++;
        slot->q = whole->q;
        slot->g = 0;
        slot->d = 0;
        slot->sector = bio->bi_iter.bi_sector;
        slot->bytes = bytes;
        slot->device = whole->device;
        slot->tid = whole->tid;
        slot->tgid = whole->tgid;
        slot->direction = whole->direction;
        slot->bio_flags = whole->bio_flags;
        slot->requeues = 0;
        slot->parts = 0;
        slot->id = id_of(whole);
        slot->cgroup = whole->cgroup;
        slot->flags = (whole->flags & (SLOT_KERNEL | SLOT_CGROUP)) | SLOT_PIECE | SLOT_QUEUED;
        return 0;
}

/* ---- scheduler, driver --------------------------------------------------------------------------------------------------------------- */

/* Of the bio that got the request. Not again after the driver refused it. */
inline_ void inserted(struct slot *slot, u64 now)
{
        if (!(slot->flags & SLOT_I) && !slot->d) {
                slot->i = now;
                slot->flags |= SLOT_I;
        }
}

__attribute__((noinline)) int insert_one(u64 key, u64 now)
{
        struct slot *slot = find_key(key);
        if (!slot || !slot->g || slot->flags & SLOT_M)
                return 0;
        inserted(slot, now);
        return 1;
}

__attribute__((noinline)) int insert_behind(u64 bio, u64 now)
{
        for (u32 i = 0; i < BIOS_MOST && bio; i++) {
                if (insert_one(-bio, now))
                        break;
                bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
        }
        return 0;
}

/* The first bio is the one that got the request, but for merges to the front. */
SEC("tp_btf/block_rq_insert")
int watopb_insert(u64 *ctx)
{
        struct request *request = (void *)argument(ctx, settings.insert_rq);
        struct bio *bio = request->bio;
        struct slot *slot = find(bio);
        u64 now = bpf_ktime_get_ns();
        if (events_wanted())
                say_request(STAGE_I, now, request, request->__data_len, 0);
        if (!slot)
                return 0;
        if (slot->flags & SLOT_M && !slot->g)
                insert_behind(-key_of(bio->bi_next), now);
        else
                inserted(slot, now);
        return 0;
}

/* The kernel's own flush has no bio: its slot is the request's. Not marked as filled, so it is nobody's open bio. */
__attribute__((noinline)) int issue_flush(u64 key, u64 now, u32 device)
{
        struct slot *slot = find_key(key); /* issued again, or its last end was not seen */
        if (!slot)
                slot = make_key(key);
        if (!slot)
                return 0;
        slot->q = now;
        slot->d = now;
        slot->device = device;
        return 0;
}

SEC("tp_btf/block_rq_issue")
int watopb_issue(u64 *ctx)
{
        struct request *request = (void *)argument(ctx, settings.issue_rq);
        struct bio *bio = request->bio;
        struct slot *slot = find(bio);
        u64 now = bpf_ktime_get_ns();
        if (slot)
                slot->d = now;
        else if (!bio && (request->cmd_flags & 0xff) == OP_FLUSH)
                issue_flush(key_of(request), now, device_of_request(request));
        if (events_wanted())
                say_request(STAGE_D, now, request, request->__data_len, 0);
        return 0;
}

/* The driver refused it: the next issue is the last, this one was the first. */
SEC("tp_btf/block_rq_requeue")
int watopb_requeue(u64 *ctx)
{
        struct request *request = (void *)argument(ctx, settings.requeue_rq);
        struct slot *slot = find(request->bio);
        if (events_wanted())
                say_request(STAGE_R, bpf_ktime_get_ns(), request, request->__data_len, 0);
        if (!slot)
                return 0;
        if (slot->d && !(slot->flags & SLOT_D1)) {
                slot->d1 = slot->d;
                slot->flags |= SLOT_D1;
        }
        slot->requeues++;
        return 0;
}

/* ---- completion ---------------------------------------------------------------------------------------------------------------------- */

/* The record of a bio that has ended. `head` holds what its request's events told; it may be the same. */
inline_ void tell_bio(struct slot *slot, const struct slot *head, u64 now, u32 flags, u32 error, u32 sectors)
{
        struct stage_record *record = READ(control.what) & STREAM_WHAT_BIOS ? reserve() : 0;
        if (!record)
                return;
        u32 known = slot->flags, first = head->flags;
        bool sequence = known & SLOT_C;
        record->tid = slot->tid;
        record->tgid = slot->tgid;
        record->bio.id = id_of(slot);
        record->bio.q = slot->q;
        record->bio.g = slot->g;
        record->bio.m = known & SLOT_M ? slot->m : 0;
        record->bio.i = known & SLOT_I ? slot->i : known & SLOT_M && first & SLOT_I ? head->i : 0; /* merged: its request's */
        record->bio.d1 = first & SLOT_D1 ? head->d1 : head->d;
        record->bio.d = head->d;
        record->bio.c = sequence ? slot->c : now;
        record->bio.given = sequence ? now : 0;
        record->bio.sector = slot->sector;
        record->bio.sectors = slot->bytes >> 9;
        record->bio.request_sectors = sectors;
        record->bio.error = (int16_t)error;
        record->bio.parts = slot->parts ? slot->parts + 1 : 0;
        record->bio.requeues = head->requeues;
        record->bio.unused = 0;
        record->bio.cgroup = known & SLOT_CGROUP ? slot->cgroup : 0;
        flags |= (known & SLOT_KERNEL ? RECORD_KERNEL : 0) | (known & SLOT_PIECE ? RECORD_PIECE : 0) | (slot->parts ? RECORD_LAST : 0);
        publish(record, first_word(RECORD_BIO, flags, slot->direction, slot->bio_flags, slot->device));
}

/* A further bio of the request: with the key of the first. */
__attribute__((noinline)) int end_one(u64 key, u64 head_key, u64 now, u32 error)
{
        struct slot *slot = find_key(key), *head = find_key(head_key);
        if (!slot)
                return 0;
        tell_bio(slot, head ? head : slot, now, 0, error, 0);
        release(slot);
        return 0;
}

/* The first bio has ended, the request goes on: what was known of it moves to the bio that is the first now. */
__attribute__((noinline)) int inherit(u64 key, u64 head_key)
{
        struct slot *slot = find_key(key), *head = find_key(head_key);
        if (!slot || !head)
                return 0;
        slot->d = head->d;
        slot->d1 = head->d1;
        slot->requeues = head->requeues;
        if (slot->flags & SLOT_M && head->flags & SLOT_I)
                slot->i = head->i;
        slot->flags |= SLOT_TOLD | (head->flags & (slot->flags & SLOT_M ? SLOT_D1 | SLOT_I : SLOT_D1));
        return 0;
}

/* The bios from `bio` on, as far as `bytes` reach. */
__attribute__((noinline)) int end_more(u64 bio, u64 head_key, u64 now, u32 bytes, u32 error)
{
        u32 i;
        for (i = 0; i < BIOS_MOST && bio; i++) {
                u32 size = BPF_CORE_READ((struct bio *)bio, bi_iter.bi_size);
                if (!bytes || size > bytes)
                        break;
                bytes -= size;
                end_one(-bio, head_key, now, error);
                bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
        }
        if (i == BIOS_MOST && bio && bytes) {
                ADD(&control.unmatched, 1); /* and those behind it */
                return 0;
        }
        return bio ? inherit(-bio, head_key) : 0;
}

/* A command of the driver's, not a file system's: its bios, if any, were never queued. */
inline_ int passed(struct request *request, u32 opf, u64 now)
{
        struct stage_record *record = READ(control.what) & STREAM_WHAT_BIOS ? reserve() : 0;
        if (!record)
                return 0;
        record->tid = record->tgid = 0;
        __builtin_memset(&record->bio, 0, sizeof record->bio);
        record->bio.id = slot_id(key_of(request), now);
        record->bio.c = now;
        publish(record, first_word(RECORD_BIO, RECORD_HEAD | RECORD_PASSED, direction_of(opf), flags_of(opf) | STAGE_PASSTHROUGH,
                device_of_request(request)));
        return 0;
}

/* The kernel's own flush, on behalf of one or more flush sequences: nobody's thread. */
inline_ int flushed(struct request *request, u32 opf, u64 now, u32 error)
{
        struct slot *slot = find(request);
        struct stage_record *record = slot && READ(control.what) & STREAM_WHAT_BIOS ? reserve() : 0;
        if (record) {
                record->tid = record->tgid = 0;
                __builtin_memset(&record->bio, 0, sizeof record->bio);
                record->bio.id = slot_id(slot->key, now);
                record->bio.d1 = record->bio.d = slot->d;
                record->bio.c = now;
                record->bio.error = (int16_t)error;
                publish(record, first_word(RECORD_BIO, RECORD_HEAD, direction_of(opf), flags_of(opf), device_of_request(request)));
        }
        if (slot)
                release(slot);
        return 0;
}

/* Those that began before the attachment are nobody's fault. */
inline_ void count_unmatched(u64 began)
{
        if (began >= READ(control.since))
                ADD(&control.unmatched, 1);
}

inline_ bool in_sequence(struct request *request)
{
        if (bpf_core_enum_value_exists(enum rqf_flags, __RQF_FLUSH_SEQ))
                return request->rq_flags >> bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ) & 1;
        return request->rq_flags >> 4 & 1;
}

/*
 * The first `bytes` of the request are done, and with them the bios in its front. A flush sequence comes twice: its data (nothing ends),
 * then with 0 bytes, when it is safe, too. One without data comes only then. The kernel's own flush request has no bio.
 */
SEC("tp_btf/block_rq_complete")
int watopb_complete(u64 *ctx)
{
        struct request *request = (void *)ctx[0];
        struct bio *bio = request->bio;
        u32 opf = request->cmd_flags, bytes = (u32)ctx[2], error = (u32)ctx[1];
        u64 now = bpf_ktime_get_ns(), key = key_of(bio);
        if (events_wanted())
                say_request(STAGE_C, now, request, bytes, (s32)error);
        if (is_passthrough(opf))
                return passed(request, opf, now);
        if (!bio)
                return (opf & 0xff) == OP_FLUSH ? flushed(request, opf, now, error) : 0;
        struct slot *head = find_key(key);
        if (!head)
                count_unmatched(request->start_time_ns);
        if (in_sequence(request)) {
                if (head) {
                        head->c = now;
                        head->flags |= SLOT_C;
                }
                return 0;
        }
        u32 size = bio->bi_iter.bi_size, all = request->__data_len;
        if (bytes && size > bytes)
                return 0;
        if (head) {
                u32 of_request = head->flags & SLOT_C ? head->bytes : all;
                tell_bio(head, head, now, head->flags & SLOT_TOLD ? 0 : RECORD_HEAD, error, of_request >> 9);
        }
        if (bytes && bio->bi_next)
                end_more(-key_of(bio->bi_next), key, now, bytes - size, error);
        if (head)
                release(head);
        return 0;
}

/* The end of a bio that no request brought: of a driver that takes bios, or one that failed on its way. */
SEC("tp_btf/block_bio_complete")
int watopb_bio_end(u64 *ctx)
{
        struct request_queue *queue = (void *)ctx[0];
        struct bio *bio = (void *)argument(ctx, settings.complete_bio);
        struct slot *slot = find(bio);
        u64 now = bpf_ktime_get_ns();
        if (events_wanted())
                say_bio(STAGE_C, now, bio, 0, 0, bio->bi_status);
        if (!slot)
                return 0;
        tell_bio(slot, slot, now, queue->mq_ops ? 0 : RECORD_DRIVER, bio->bi_status, 0);
        release(slot);
        return 0;
}

/* ---- events only --------------------------------------------------------------------------------------------------------------------- */

SEC("tp_btf/block_bio_remap")
int watopb_remap(u64 *ctx)
{
        u32 first = settings.remap_bio;
        if (events_wanted())
                say_bio(STAGE_A, bpf_ktime_get_ns(), (void *)argument(ctx, first), argument(ctx, first + 2),
                        (u32)argument(ctx, first + 1), 0);
        return 0;
}

inline_ int say_queue(u32 action, struct request_queue *queue, u64 other)
{
        struct place_of_event place = {.other = other};
        if (bpf_core_field_exists(queue->disk))
                place.device = device_of_disk(queue->disk);
        place.flags = 0;
        say(action, bpf_ktime_get_ns(), &place);
        return 0;
}

SEC("tp_btf/block_plug")
int watopb_plug(u64 *ctx)
{
        return say_queue(STAGE_P, (void *)ctx[0], 0);
}

SEC("tp_btf/block_unplug")
int watopb_unplug(u64 *ctx)
{
        return say_queue((u8)ctx[2] ? STAGE_U : STAGE_UT, (void *)ctx[0], (u32)ctx[1]);
}

#pragma once
/*
 * The block tracer's state: open bios, and the records that leave. Included once, by stages.bpf.c.
 *
 * An open bio has a slot in a bucket chosen by a hash of its address. With few bios open (most machines have some hundred) the first way
 * tried is nearly always the right one, so an event touches one cache line; no map is searched and nothing is allocated. A bio for which
 * there is no room is not followed, and counted.
 */
#include "stage_layout.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define inline_ static __attribute__((always_inline)) inline

/* Kernels before 5.12 have no atomics that return a value. There two CPUs that queue at the same ns may take the same slot: one bio is lost
 * without a count. */
#ifdef WITHOUT_FETCH
#define PLAIN(at) (*(volatile __typeof__(*(at)) *)(at))
#define EXCHANGE(at, value) ({ __typeof__(*(at)) was_ = PLAIN(at); PLAIN(at) = (value); was_; })
#define REPLACE(at, old, new) (PLAIN(at) == (old) ? (PLAIN(at) = (new), 1) : 0)
#define TAKE(at) ({ u64 was_ = PLAIN(at); PLAIN(at) = was_ + 1; was_; })
#else
#define EXCHANGE(at, value) __sync_lock_test_and_set(at, value)
#define REPLACE(at, old, new) (__sync_val_compare_and_swap(at, old, new) == (old))
#define TAKE(at) __sync_fetch_and_add(at, 1)
#endif
#define ADD(at, value) ((void)__sync_fetch_and_add(at, value))
#define READ(at) (*(const volatile __typeof__(at) *)&(at))

enum { STREAM_WHAT_BIOS = 1, STREAM_WHAT_SYNC = 2, STREAM_WHAT_EVENTS = 4 }; /* sample/stage_stream.h */

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, SLOT_BUCKETS);
        __type(key, u32);
        __type(value, struct bucket);
} buckets SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1); /* set before loading, as that of the next */
        __type(key, u32);
        __type(value, struct buffer);
} buffers SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, u32);
        __type(value, struct stage_record);
} records SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, TOLD);
        __type(key, u32);
        __type(value, struct told);
} told SEC(".maps");

const volatile struct stage_settings settings = {0};
struct stage_control control = {0};

/* Argument `index` of an event. Spelled out, since the verifier takes only constant offsets: all but one branch are dead to it. */
#define ARGUMENT(ctx, number) ({ u64 value_; \
        asm volatile("%0 = *(u64 *)(%1 + " #number " * 8)" : "=r"(value_) : "r"(ctx)); value_; })
inline_ u64 argument(u64 *ctx, u32 index)
{
        if (index == 0)
                return ARGUMENT(ctx, 0);
        if (index == 1)
                return ARGUMENT(ctx, 1);
        if (index == 2)
                return ARGUMENT(ctx, 2);
        return ARGUMENT(ctx, 3);
}

/* ---- slots --------------------------------------------------------------------------------------------------------------------------- */

/* The negated address: a number to the verifier, which lets nobody multiply an address. 0: no bio. */
inline_ u64 key_of(const void *bio)
{
        u64 key = (u64)bio;
        asm volatile("%0 = -%0" : "+r"(key));
        return key;
}

inline_ struct bucket *bucket_at(u32 number)
{
        return bpf_map_lookup_elem(&buckets, &number);
}

inline_ u32 near_of(u64 hash)
{
        return (u32)(hash >> (64 - SLOT_NEAR_BITS));
}

inline_ u32 far_of(u64 hash)
{
        return SLOT_NEAR + (u32)(hash >> 32) % (1u << SLOT_FAR_BITS);
}

inline_ u32 way_of(u64 hash, u32 attempt)
{
        return ((u32)(hash >> (61 - SLOT_NEAR_BITS)) ^ attempt) % SLOT_WAYS;
}

/* Number of the slot that holds `key` + 1; 0 = none. The near bucket's first way was looked at. Functions of their own (verified alone),
 * for they are seldom needed. */
__attribute__((noinline)) int find_in(u64 key, u32 number)
{
        struct bucket *bucket = bucket_at(number);
        if (!bucket)
                return 0;
        for (u32 way = 0; way < SLOT_WAYS; way++)
                if (READ(bucket->slot[way].key) == key)
                        return (int)(number * SLOT_WAYS + way + 1);
        return 0;
}

__attribute__((noinline)) int find_more(u64 key)
{
        u64 hash = slot_hash(key);
        int found = find_in(key, near_of(hash));
        return found || !READ(control.far) ? found : find_in(key, far_of(hash));
}

inline_ struct slot *slot_at(u32 found)
{
        struct bucket *bucket = found ? bucket_at((found - 1) / SLOT_WAYS) : 0;
        if (!bucket)
                return 0;
        asm volatile("" : "+r"(bucket)); /* no arithmetic before the check: the verifier wants it so */
        return &bucket->slot[(found - 1) % SLOT_WAYS];
}

inline_ struct slot *find_key(u64 key)
{
        u64 hash = slot_hash(key);
        struct bucket *bucket = key ? bucket_at(near_of(hash)) : 0;
        if (!bucket)
                return 0;
        u32 way = way_of(hash, 0);
        if (READ(bucket->slot[way].key) == key)
                return &bucket->slot[way];
        return slot_at((u32)find_more(key));
}

inline_ struct slot *find(const void *bio)
{
        return find_key(key_of(bio));
}

/* A free slot of the bucket; its number + 1. */
__attribute__((noinline)) int take_in(u64 key, u32 number)
{
        struct bucket *bucket = bucket_at(number);
        if (!bucket)
                return 0;
        for (u32 way = 0; way < SLOT_WAYS; way++)
                if (READ(bucket->slot[way].key) == 0 && REPLACE(&bucket->slot[way].key, 0, key))
                        return (int)(number * SLOT_WAYS + way + 1);
        return 0;
}

/* The slot that the address has still (its end was not seen), or a free one beside the first. */
__attribute__((noinline)) int make_more(u64 key)
{
        u64 hash = slot_hash(key);
        int found = find_in(key, near_of(hash));
        if (!found && READ(control.far))
                found = find_in(key, far_of(hash));
        struct slot *old = slot_at((u32)found);
        if (old) {
                ADD(&control.unmatched, 1);
                old->flags = 0;
                return found;
        }
        found = take_in(key, near_of(hash));
        if (found)
                return found;
        ADD(&control.far, 1); /* before there is something to be found */
        found = take_in(key, far_of(hash));
        if (!found)
                ADD(&control.crowded, 1);
        return found;
}

inline_ struct slot *make_key(u64 key)
{
        u64 hash = slot_hash(key);
        struct bucket *bucket = bucket_at(near_of(hash));
        if (!bucket)
                return 0;
        u32 way = way_of(hash, 0);
        if (REPLACE(&bucket->slot[way].key, 0, key)) /* a look before would fetch the line from the other CPU twice */
                return &bucket->slot[way];
        return slot_at((u32)make_more(key));
}

inline_ struct slot *make(const void *bio)
{
        return make_key(key_of(bio));
}

inline_ void release(struct slot *slot)
{
        *(volatile u16 *)&slot->flags = 0;
        if (settings.stores_reorder)
                EXCHANGE(&slot->key, 0);
        else
                *(volatile u64 *)&slot->key = 0;
}

/* ---- records ------------------------------------------------------------------------------------------------------------------------- */

/* A record's number + 1, of a ring into which several programs may write at once: each takes its own by an atomic addition. Without those
 * (before 5.12) head may fall back behind what was read: then nothing is in between. */
__attribute__((noinline)) int take_shared(u32 ring, u32 first, u32 capacity)
{
        struct buffer *buffer = bpf_map_lookup_elem(&buffers, &ring);
        if (!buffer || capacity == 0)
                return 0;
        u64 tail = READ(buffer->tail), used = READ(buffer->head) - tail;
#ifdef WITHOUT_FETCH
        if ((s64)used < 0) {
                PLAIN(&buffer->head) = tail;
                used = 0;
        }
#endif
        if (used >= capacity - RECORDS_MARGIN) {
                ADD(&buffer->lost, 1);
                return 0;
        }
        return (int)((u32)TAKE(&buffer->head) % capacity + first + 1);
}

/* The program that is interrupted is about to write head. */
inline_ u32 take_inner(u32 cpu)
{
        return (u32)take_shared(settings.cpus + cpu, settings.cpus * settings.capacity + cpu * RECORDS_INNER, RECORDS_INNER);
}

inline_ struct stage_record *reserve(void)
{
        u32 cpu = bpf_get_smp_processor_id(), capacity = settings.capacity, number;
        struct buffer *buffer = bpf_map_lookup_elem(&buffers, &cpu);
        if (!buffer)
                return 0;
        if (settings.preemptible) {
                number = (u32)take_shared(cpu, cpu * capacity, capacity) - 1;
        } else if (READ(buffer->busy)) {
                number = take_inner(cpu) - 1;
        } else {
                *(volatile u32 *)&buffer->busy = 1;
                u64 head = READ(buffer->head);
                if (head - READ(buffer->tail) >= capacity) {
                        buffer->lost++;
                        *(volatile u32 *)&buffer->busy = 0;
                        return 0;
                }
                *(volatile u64 *)&buffer->head = head + 1;
                *(volatile u32 *)&buffer->busy = 0;
                number = (u32)head % capacity + cpu * capacity;
        }
        return bpf_map_lookup_elem(&records, &number);
}

/* The first word last: with it the record is there. */
inline_ void publish(struct stage_record *record, u64 first)
{
        if (settings.stores_reorder)
                EXCHANGE((u64 *)record, first);
        else
                *(volatile u64 *)record = first;
}

inline_ u64 first_word(u32 kind, u32 flags, u32 direction, u32 bio_flags, u32 device)
{
        return kind | flags << 8 | direction << 16 | bio_flags << 24 | (u64)device << 32;
}

/* ---- who ----------------------------------------------------------------------------------------------------------------------------- */

/* A thread, and whether it is the kernel's. */
struct who {
        u32 tid, tgid, kernel;
};

inline_ void tell_one(u32 tid, u32 tgid, const char *comm, u32 flags)
{
        struct stage_record *record = reserve();
        if (!record)
                return;
        record->tid = tid;
        record->tgid = tgid;
        bpf_probe_read_kernel(record->name.comm, sizeof record->name.comm, comm);
        publish(record, first_word(RECORD_NAME, flags, 0, 0, 0));
}

/* The names of the running thread and its process. */
__attribute__((noinline)) int tell_name(u64 now)
{
        struct task_struct *task = (void *)bpf_get_current_task(), *leader = BPF_CORE_READ(task, group_leader);
        u64 ids = bpf_get_current_pid_tgid();
        u32 tid = (u32)ids, tgid = (u32)(ids >> 32), at = tid % TOLD;
        u32 flags = BPF_CORE_READ(task, flags) & PF_KTHREAD ? RECORD_KERNEL : 0;
        struct told *entry = bpf_map_lookup_elem(&told, &at);
        if (!entry)
                return 0;
        entry->tid = tid;
        entry->time = now;
        bpf_probe_read_kernel(entry->comm, sizeof entry->comm, task->comm);
        tell_one(tid, tgid, task->comm, flags);
        if (tid != tgid)
                tell_one(tgid, tgid, leader->comm, flags);
        return 0;
}

/* Who runs. The name is told at the first sight, when it has changed (a program that was just executed reads itself from the disk), and now
 * and then. */
inline_ struct who introduce(u64 now)
{
#ifdef WITHOUT_FETCH /* before 5.11 a task is no pointer that could be followed without help */
        struct task_struct *task = (void *)bpf_get_current_task();
        u64 ids = bpf_get_current_pid_tgid(), comm[RECORD_COMM / 8];
        struct who who = {(u32)ids, (u32)(ids >> 32), (BPF_CORE_READ(task, flags) & PF_KTHREAD) != 0};
        bpf_get_current_comm(comm, sizeof comm);
#else
        struct task_struct *task = bpf_get_current_task_btf();
        const u64 *comm = (const u64 *)task->comm;
        struct who who = {(u32)task->pid, (u32)task->tgid, (task->flags & PF_KTHREAD) != 0};
#endif
        u32 at = who.tid % TOLD;
        struct told *entry = bpf_map_lookup_elem(&told, &at);
        if (!entry)
                return who;
        if (entry->tid != who.tid || now - entry->time >= TOLD_AGAIN_NS || entry->comm[0] != comm[0] || entry->comm[1] != comm[1])
                tell_name(now);
        return who;
}

/*
 * Reading the programs' memory, and its upkeep: no system call is needed to read, and no program waits for a reader.
 */
#include "collectors/bpf/tracer_own.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 8 };
#define GONE_NS 10000000000ull  /* an ended thread is told for so long */
#define SILENT_NS 10000000ull   /* a busy core with sleepers is asked after so long */
#define OLD_NS 5000000000ull    /* a sleep of so long is looked after */
#define UNUSED_NS 1000000000ull /* a ring on which nobody waited for so long may leave when room is short */
#define SWEEP_NS 2000000000ull  /* at most so often */

#define LOAD(at) __atomic_load_n(&(at), __ATOMIC_ACQUIRE)

/* ---- cores --------------------------------------------------------------------------------------------------------------------------- */

/* One core's counters, the running stretch included, as of one moment. A program moves `last` first and adds the time then, so a copy
 * counts when a second one says the same. */
static void read_core(const struct core *core, uint64_t now, struct core *out)
{
        struct core again;
        memcpy(out, core, sizeof *out);
        for (unsigned i = 0; i < TRIES; i++) {
                __atomic_thread_fence(__ATOMIC_SEQ_CST);
                memcpy(&again, core, sizeof again);
                bool same = again.last == out->last && again.sleepers == out->sleepers && again.idle == out->idle;
                if (same && memcmp(again.ns, out->ns, sizeof out->ns) == 0)
                        break;
                *out = again;
        }
        if (!out->idle || !out->sleepers || now <= out->last)
                return;
        uint64_t delta = now - out->last;
        enum wait_class class = out->sleepers & 0xffff ? WAIT_DISK : out->sleepers >> 16 & 0xffff ? WAIT_OTHER : WAIT_URING;
        out->ns[class] += delta;
        if (out->sleepers >> 48)
                out->unsure += delta;
}

static uint64_t less(uint64_t from, uint64_t what)
{
        return from > what ? from - what : 0;
}

/* A core with sleepers that is said to be busy for long may have become idle unseen. */
static void ask(struct tracer *tracer, size_t cpu, uint64_t now)
{
        const struct core *core = &tracer->cores[cpu];
        if (tracer->attached && !LOAD(core->idle) && LOAD(core->sleepers) && now > LOAD(core->last) + SILENT_NS)
                tracer_touch(tracer, (unsigned)cpu);
}

size_t tracer_cores(struct tracer *tracer, uint64_t now_ns, struct tracer_core *cores, size_t room)
{
        size_t count = tracer->cpus < room ? tracer->cpus : room;
        for (size_t i = 0; i < count; i++) {
                struct core core;
                ask(tracer, i, now_ns);
                read_core(&tracer->cores[i], now_ns, &core);
                cores[i] = (struct tracer_core){
                        .cpu = (unsigned)i,
                        .disk_ns = less(core.ns[WAIT_DISK] + core.raised_other + core.raised_uring, core.lowered),
                        .other_ns = less(core.ns[WAIT_OTHER] + core.lowered + core.raised_uring_other, core.raised_other),
                        .uring_ns = less(core.ns[WAIT_URING], core.raised_uring + core.raised_uring_other),
                        .unsure_ns = less(core.unsure, core.known),
                        .missed_disk_ns = core.missed[WAIT_DISK], .missed_uring_ns = core.missed[WAIT_URING],
                        .missed_other_ns = core.missed[WAIT_OTHER],
                };
        }
        return count;
}

/* ---- waiters ------------------------------------------------------------------------------------------------------------------------- */

static enum tracer_class outside(unsigned class)
{
        return class == WAIT_DISK ? TRACER_DISK : class == WAIT_URING ? TRACER_URING : TRACER_OTHER;
}

static void read_waiter(const struct tracer *tracer, const struct waiter *slot, uint64_t now, struct tracer_waiter *out)
{
        struct waiter copy;
        for (unsigned i = 0; i < TRIES; i++) {
                uint32_t asleep = LOAD(slot->asleep);
                uint64_t sleeps = LOAD(slot->sleeps);
                memcpy(&copy, slot, sizeof copy);
                __atomic_thread_fence(__ATOMIC_ACQUIRE);
                if (asleep == LOAD(slot->asleep) && sleeps == LOAD(slot->sleeps))
                        break;
        }
        *out = (struct tracer_waiter){
                .tid = (int)copy.tid, .tgid = (int)copy.tgid, .start_boot_ns = copy.start, .cpu = copy.cpu,
                .asleep = copy.asleep != 0, .seeded = copy.seeded, .ring_wait = copy.ring, .class = outside(copy.class),
                .since_ns = copy.since, .sleeps = copy.sleeps, .cores = copy.cores,
                .disk_ns = copy.ns[WAIT_DISK], .uring_ns = copy.ns[WAIT_URING], .other_ns = copy.ns[WAIT_OTHER],
                .pending_block = copy.block, .pending_other = copy.pending_other,
        };
        memcpy(out->comm, copy.comm, sizeof out->comm);
        out->comm[sizeof out->comm - 1] = '\0';
        if (copy.asleep && copy.cpu < tracer->cpus) {
                struct core core;
                read_core(&tracer->cores[copy.cpu], now, &core);
                uint64_t mine = less(core.ns[WAIT_DISK] + core.ns[WAIT_OTHER] + core.ns[WAIT_URING], copy.clock);
                unsigned class = copy.asleep & ASLEEP_CLASS;
                *(class == WAIT_DISK ? &out->disk_ns : class == WAIT_URING ? &out->uring_ns : &out->other_ns) += mine;
        }
}

size_t tracer_waiters(struct tracer *tracer, uint64_t now_ns, struct tracer_waiter *waiters, size_t room)
{
        size_t count = 0;
        for (unsigned place = 0; place < PLACES; place++)
                for (unsigned way = 0; way < WAYS && count < room; way++) {
                        uint32_t tid = LOAD(tracer->places[place].tid[way]);
                        const struct waiter *slot = &tracer->waiters[place * WAYS + way];
                        if (tid == 0 || LOAD(slot->tid) != (tid & ~TID_GONE)) /* free, or being made */
                                continue;
                        read_waiter(tracer, slot, now_ns, &waiters[count++]);
                }
        return count;
}

void tracer_prove(struct tracer *tracer, const struct tracer_waiter *waiter)
{
        uint32_t tid = (uint32_t)waiter->tid, place = place_of(tid);
        for (unsigned way = 0; tracer->attached && way < WAYS; way++) {
                unsigned number = place * WAYS + way;
                if (LOAD(tracer->places[place].tid[way]) != tid || tracer->waiters[number].start != waiter->start_boot_ns)
                        continue;
                uint64_t arguments[] = {number, waiter->sleeps};
                DECLARE_LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof arguments);
                bpf_prog_test_run_opts(bpf_program__fd(tracer->prove), &options);
                return;
        }
}

/* ---- upkeep -------------------------------------------------------------------------------------------------------------------------- */

/* A sleep that is over without a wake-up seen: it counts no more. */
static void mend(struct tracer *tracer, struct waiter *slot)
{
        uint32_t word = __atomic_exchange_n(&slot->asleep, 0, __ATOMIC_ACQ_REL);
        if (!word)
                return;
        if (slot->cpu < tracer->cpus)
                __atomic_sub_fetch(&tracer->cores[slot->cpu].sleepers, SLEEPERS(word), __ATOMIC_ACQ_REL);
        tracer->healed++;
}

/* State letter and voluntary switches of a thread. 0, or -ESRCH when there is no such thread, or another error. */
static int look_at(uint32_t tid, char *state, uint64_t *switches)
{
        char path[64], text[4096];
        snprintf(path, sizeof path, "/proc/%u/status", tid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        ssize_t n = read(fd, text, sizeof text - 1);
        int error = n < 0 ? -errno : 0;
        close(fd);
        if (n <= 0)
                return error ? error : -ESRCH;
        text[n] = '\0';
        const char *s = strstr(text, "\nState:\t"), *v = strstr(text, "\nvoluntary_ctxt_switches:\t");
        if (!s || !v)
                return -EINVAL;
        *state = s[8];
        *switches = strtoull(v + 26, NULL, 10);
        return 0;
}

/* Does the kernel say what we say of it? */
static void look_after(struct tracer *tracer, unsigned number, uint64_t now)
{
        uint32_t *tid = &tracer->places[number / WAYS].tid[number % WAYS];
        struct waiter *slot = &tracer->waiters[number];
        uint64_t sleeps = LOAD(slot->sleeps), switches = 0;
        uint32_t owner = LOAD(*tid), word = LOAD(slot->asleep);
        char state = 0;
        if (owner == 0 || owner & TID_GONE || now < slot->since + OLD_NS)
                return;
        int r = look_at(owner, &state, &switches);
        if (r == -ESRCH) {
                mend(tracer, slot);
                __atomic_store_n(tid, owner | TID_GONE, __ATOMIC_RELEASE);
        } else if (r == 0 && word && ((uint32_t)switches != slot->switches || state == 'R')) {
                if (LOAD(slot->sleeps) == sleeps && LOAD(slot->asleep) == word)
                        mend(tracer, slot);
        }
}

/* Ended threads leave when they have been told for GONE_NS, or at the second look when places are short. True: its slot is free now. */
static bool drop(struct tracer *tracer, unsigned number, uint64_t now, bool short_of)
{
        uint64_t *since = &tracer->gone_since[number];
        if (!*since) {
                *since = now;
                return false;
        }
        if (!short_of && now < *since + GONE_NS)
                return false;
        mend(tracer, &tracer->waiters[number]);
        *since = 0;
        __atomic_store_n(&tracer->waiters[number].tid, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&tracer->places[number / WAYS].tid[number % WAYS], 0, __ATOMIC_RELEASE);
        return true;
}

/* Walk all slots: drop ended ones, add up who sleeps where. */
static void walk(struct tracer *tracer, uint64_t now)
{
        bool short_of = tracer->used > WAITERS / 2;
        tracer->used = 0;
        memset(tracer->sum, 0, tracer->cpus * sizeof *tracer->sum);
        for (unsigned number = 0; number < WAITERS; number++) {
                uint32_t owner = LOAD(tracer->places[number / WAYS].tid[number % WAYS]);
                const struct waiter *slot = &tracer->waiters[number];
                if (owner == 0 || (owner & TID_GONE && drop(tracer, number, now, short_of)))
                        continue;
                uint32_t word = LOAD(slot->asleep);
                tracer->used++;
                if (word && slot->cpu < tracer->cpus)
                        tracer->sum[slot->cpu] += SLEEPERS(word);
        }
}

/* A core whose count differs from its sleepers by the same at STEADY looks is set right; while threads come and go a difference means
 * nothing. */
static void balance(struct tracer *tracer)
{
        enum { STEADY = 3 };
        for (size_t i = 0; i < tracer->cpus; i++) {
                uint64_t off = tracer->sum[i] - LOAD(tracer->cores[i].sleepers);
                tracer->off_looks[i] = off && off == tracer->off[i] ? tracer->off_looks[i] + 1 : 0;
                tracer->off[i] = off;
                if (tracer->off_looks[i] < STEADY)
                        continue;
                __atomic_add_fetch(&tracer->cores[i].sleepers, off, __ATOMIC_ACQ_REL);
                tracer->off_looks[i] = 0;
                tracer->healed++;
        }
}

/* ---- rings --------------------------------------------------------------------------------------------------------------------------- */

static bool sleeps_on(const struct tracer *tracer, const struct ring *ring, uint64_t key)
{
        for (unsigned i = 0; i < RING_SLEEPERS; i++) {
                uint32_t number = ring->sleeper[i];
                if (number == 0 || number > WAITERS)
                        continue;
                const struct waiter *slot = &tracer->waiters[number - 1];
                if (LOAD(slot->asleep) && slot->ring && slot->ctx == key)
                        return true;
        }
        return false;
}

/* Nobody sleeps on it, and nothing is pending. Used again, it is met as an unknown one. */
static bool unused(const struct tracer *tracer, uint64_t key, const struct ring *ring, uint64_t now)
{
        return ring->block == 0 && ring->other == 0 && now > ring->seen + UNUSED_NS && !sleeps_on(tracer, ring, key);
}

static void drop_ring(struct tracer *tracer, uint64_t key, const struct ring *ring)
{
        struct ring last = *ring;
        if (bpf_map_lookup_and_delete_elem(tracer->rings, &key, &last) != 0 && bpf_map_delete_elem(tracer->rings, &key) != 0)
                return;
        tracer->rings_dropped++;
        if (last.block || last.other || last.seen != ring->seen) /* somebody came meanwhile, and is lost */
                __atomic_add_fetch(&tracer->tally->overflow, 1, __ATOMIC_ACQ_REL);
}

/* No event tells the end of a ring. When room gets short, those that are not in use leave. */
static void sweep_rings(struct tracer *tracer, uint64_t now)
{
        uint64_t key, next;
        struct ring ring;
        if (LOAD(tracer->tally->rings) - tracer->rings_dropped < RINGS / 4 * 3 || now < tracer->swept + SWEEP_NS)
                return;
        tracer->swept = now;
        bool more = bpf_map_get_next_key(tracer->rings, NULL, &key) == 0;
        for (unsigned i = 0; more && i < RINGS; i++) {
                more = bpf_map_get_next_key(tracer->rings, &key, &next) == 0;
                if (bpf_map_lookup_elem(tracer->rings, &key, &ring) == 0 && unused(tracer, key, &ring, now))
                        drop_ring(tracer, key, &ring);
                key = next;
        }
}

/* ---- from time to time --------------------------------------------------------------------------------------------------------------- */

void tracer_maintain(struct tracer *tracer, uint64_t now_ns)
{
        if (!tracer->attached)
                return;
        walk(tracer, now_ns);
        balance(tracer);
        sweep_rings(tracer, now_ns);
        if (tracer->own_namespace || tracer->used == 0)
                return;
        for (unsigned looked = 0, seen = 0; seen < WAITERS && looked < LOOKED_AFTER; seen++) {
                unsigned number = tracer->rotation++ % WAITERS;
                if (LOAD(tracer->places[number / WAYS].tid[number % WAYS]) == 0)
                        continue;
                look_after(tracer, number, now_ns);
                looked++;
        }
}

void tracer_stats(struct tracer *tracer, struct tracer_stats *stats)
{
        *stats = (struct tracer_stats){.healed = tracer->healed, .attached_ns = tracer->attached_ns};
        stats->unmatched = LOAD(tracer->tally->unmatched);
        stats->overflow = LOAD(tracer->tally->overflow);
}

static bool add_runs(const struct bpf_program *program, struct tracer_stats *runs)
{
        struct bpf_prog_info info;
        uint32_t length = sizeof info;
        memset(&info, 0, sizeof info);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &length) != 0)
                return false;
        runs->run_ns += info.run_time_ns;
        runs->run_count += info.run_cnt;
        runs->recursion += info.recursion_misses;
        return true;
}

bool tracer_runs(struct tracer *tracer, struct tracer_stats *runs)
{
        runs->run_ns = runs->run_count = runs->recursion = 0;
        if (!tracer->attached || tracer->program_count == 0)
                return false;
        /* The last is that of switches: it runs all the time. */
        size_t last = tracer->program_count - 1;
        uint64_t before = tracer->ran;
        if (!add_runs(tracer->programs[last], runs))
                return false;
        tracer->ran = runs->run_count;
        for (size_t i = 0; i < last && tracer->ran != before; i++)
                add_runs(tracer->programs[i], runs);
        return tracer->ran != before;
}

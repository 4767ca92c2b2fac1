/*
 * The sampler. Contract: sampler.h; the collectors' contract: collectors/collector.h.
 */
#include "daemon/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectors/bpf/tracer.h"
#include "collectors/psi.h"
#include "collectors/stages.h"
#include "collectors/trace.h"
#include "collectors/uring.h"
#include "collectors/who.h"
#include "daemon/judge.h"
#include "sample/control.h"
#include "sample/stage_stream.h"

/* Sub-samples of the longest tick, an hour at 10 Hz. */
enum { COLLECTORS = 32, SUBS_MAX = 36000 };

/* BOOTTIME runs through a suspend, MONOTONIC does not. The two are not read at one instant: a reader that was preempted between them
 * sees up to some ms. */
#define SUSPEND_NS UINT64_C(50000000)
/* What the sampler makes by itself, and what never costs anything to have. */
#define OWN_SCOPES (SCOPE_BIT(SCOPE_SELF) | SCOPE_BIT(SCOPE_MARK))
/* The split of wa is judged from these. */
#define CPU_NEEDS (SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_WAITER))
#define LEASE_BITS ((uint64_t)LEASE_RINGS | LEASE_CGROUPS | LEASE_EXACT)
#define STAGE_LEASES ((uint64_t)LEASE_STREAM | LEASE_SYNC | LEASE_EVENTS)
/* After a frame that was too long, detail comes back after so many ticks, one step at a time. */
#define REFUSED_TICKS 60

struct part {
        const struct collector *collector;
        void *own;
        bool open, ran;
        int error;
};

struct sampler {
        struct sampler_options options;
        struct sample *sample;
        struct evidence evidence;
        struct judge *judge;
        struct psi *psi;
        struct who *who;
        struct part parts[COLLECTORS];
        unsigned part_count;
        struct tick tick;               /* of the running or the last tick */
        uint64_t leases;
        uint64_t tracer_epoch;          /* counts the tracer's attachments */
        uint32_t scopes_were;
        bool has_prev;
        struct procfs_clock prev;
        uint8_t boot_id[16], prev_boot_id[16];
        bool cores_before;              /* the tick before had the cores */
        uint32_t unsent_ticks;          /* whose frames could not be made: the next frame tells of them */
        enum gap unsent_gap;
        bool full_next;
        int detail_floor;               /* least detail to leave out, after refused frames */
        unsigned floor_ticks;
        uint64_t number, ticks, late, took_ns, bytes, sequence;
        uint64_t marks;
        bool mark_shown;
        unsigned tree, sub;             /* captured machine, or capture: tree of the next tick, next sub-sample */
        int statm_fd;
        char settings[900], stages_why[256]; /* stages_why: as told in the settings */
};

/* While capturing: where what is read from now on is stored. A failure shows in procfs_capture_error. */
static void number_tree(struct sampler *sampler, int sub)
{
        if (sampler->options.capture)
                procfs_capture_tree(sampler->options.procfs, sampler->tree, sub);
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

/* 16 bytes from the text form. What cannot be read is as before: a later tree of a capture has only what was read in its tick. */
static void read_boot_id(struct sampler *sampler)
{
        char text[64];
        uint8_t id[16] = { 0 };
        unsigned digits = 0;

        ssize_t length = procfs_read(sampler->options.procfs, "proc/sys/kernel/random/boot_id", text, sizeof text);
        for (ssize_t i = 0; i < length && digits < 32; i++) {
                int digit = hex_digit(text[i]);
                if (digit < 0)
                        continue;
                uint8_t *byte = &id[digits++ / 2];
                *byte = (uint8_t)(*byte << 4 | digit);
        }
        if (digits == 32)
                memcpy(sampler->boot_id, id, sizeof id);
}

/* One line for the facts: what a reader of a recording must know of the watopd that made it. */
static void tell_settings(struct sampler *sampler)
{
        static const char *const policies[] = { [CMDLINE_NONE] = "none", [CMDLINE_NAME] = "name", [CMDLINE_FULL] = "full" };
        const struct sampler_options *o = &sampler->options;
        size_t size = sizeof sampler->settings;

        size_t length = (size_t)snprintf(sampler->settings, size, "version=%s interval=%gs cmdline=%s ring_size=%" PRIu64 " scopes=",
                WATOP_VERSION, (double)o->interval_ns / 1e9, policies[o->cmdline], o->ring_size);
        const char *comma = "";
        for (int s = 0; s < SCOPE_COUNT && length < size; s++) {
                if (!(o->scopes & SCOPE_BIT(s)))
                        continue;
                length += (size_t)snprintf(sampler->settings + length, size - length, "%s%s", comma, scopes[s].name);
                comma = ",";
        }
        if (sampler->stages_why[0] != '\0' && length < size)
                snprintf(sampler->settings + length, size - length, " stages=failed: %s", sampler->stages_why);
}

/* Block tracing fails a moment after it was asked for. */
static void tell_failure(struct sampler *sampler)
{
        char why[sizeof sampler->stages_why] = "";

        if (sampler->options.stages == NULL)
                return;
        stages_error(sampler->options.stages, why, sizeof why);
        if (strcmp(why, sampler->stages_why) == 0)
                return;
        memcpy(sampler->stages_why, why, sizeof why);
        tell_settings(sampler);
}

static void say_alive(const struct sampler *sampler)
{
        if (sampler->options.alive != NULL)
                sampler->options.alive(sampler->options.alive_arg);
}

static void open_parts(struct sampler *sampler)
{
        for (unsigned i = 0; collectors[i] != NULL && i < COLLECTORS; i++) {
                struct part *part = &sampler->parts[sampler->part_count++];
                part->collector = collectors[i];
                part->error = part->collector->open(sampler->options.procfs, &part->own);
                part->open = part->error >= 0;
                say_alive(sampler);
        }
}

/* Captured machine: the next tree that is there. A copy may have lost some: the ones after them still count. 0, -ENODATA, or -errno of a
 * tree that is damaged. */
static int enter_next(struct sampler *sampler)
{
        for (;;) {
                int next = procfs_next(sampler->options.procfs, sampler->tree);
                if (next < 0)
                        return next == -ENOENT ? -ENODATA : next;
                int r = procfs_enter(sampler->options.procfs, (unsigned)next, -1);
                sampler->tree = (unsigned)next;
                if (r != -ENOENT && r != -ENOTDIR)
                        return r;
                sampler->tree++;
        }
}

int sampler_new(const struct sampler_options *options, struct sampler **result)
{
        struct sampler *sampler = calloc(1, sizeof *sampler);
        if (sampler == NULL)
                return -ENOMEM;
        sampler->options = *options;
        sampler->options.scopes &= ~SCOPES_TRACED;
        sampler->statm_fd = -1;
        int r = sample_new(&sampler->sample);
        if (r == 0)
                r = judge_new(&sampler->judge);
        if (r == 0)
                r = psi_new(&sampler->psi);
        if (r == 0)
                r = who_new(options->procfs, &sampler->who);
        if (r < 0) {
                sampler_free(sampler);
                return r;
        }
        if (procfs_live(options->procfs))
                sampler->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        else
                enter_next(sampler);
        tell_settings(sampler);
        number_tree(sampler, -1);
        open_parts(sampler);
        read_boot_id(sampler);
        *result = sampler;
        return 0;
}

void sampler_free(struct sampler *sampler)
{
        if (sampler == NULL)
                return;
        /* The sample first: its rows call back into the collectors for what they hold. */
        sample_free(sampler->sample);
        for (unsigned i = sampler->part_count; i-- > 0;)
                if (sampler->parts[i].open && sampler->parts[i].collector->close != NULL)
                        sampler->parts[i].collector->close(sampler->parts[i].own);
        judge_free(sampler->judge);
        psi_free(sampler->psi);
        who_free(sampler->who);
        if (sampler->statm_fd >= 0)
                close(sampler->statm_fd);
        free(sampler);
}

void sampler_configure(struct sampler *sampler, uint64_t interval_ns, uint32_t scopes_wanted, enum cmdline_policy cmdline)
{
        sampler->options.interval_ns = interval_ns;
        sampler->options.scopes = scopes_wanted & ~SCOPES_TRACED;
        sampler->options.cmdline = cmdline;
        tell_settings(sampler);
}

/* ---- which scopes --------------------------------------------------------------------------------------------------------- */

uint32_t sampler_scopes(const struct sampler *sampler)
{
        uint32_t can = SCOPE_BIT(SCOPE_MARK);

        for (unsigned i = 0; i < sampler->part_count; i++)
                if (sampler->parts[i].open)
                        can |= sampler->parts[i].collector->scopes;
        if (procfs_live(sampler->options.procfs))
                can |= SCOPE_BIT(SCOPE_SELF);
        if (sampler->options.stages == NULL)
                can &= ~SCOPES_TRACED;
        return can;
}

uint32_t sampler_scopes_on(const struct sampler *sampler)
{
        uint32_t leased = (uint32_t)sampler->leases & (SCOPE_BIT(SCOPE_COUNT) - 1);
        uint32_t on = sampler->options.scopes | leased | OWN_SCOPES | SCOPE_BIT(SCOPE_FACT);

        if (sampler->leases & LEASE_CGROUPS)
                on |= SCOPE_BIT(SCOPE_CGROUP);
        if (sampler->leases & LEASE_RINGS)
                on |= SCOPE_BIT(SCOPE_WAITER);
        if (on & SCOPE_BIT(SCOPE_CPU))
                on |= CPU_NEEDS;
        if ((on & SCOPES_TRACED) == SCOPE_BIT(SCOPE_LATENCY))
                on |= SCOPE_BIT(SCOPE_STAGE);
        /* Frames that do not fit the ring: threads go first, then (tick.detail) processes beyond the busiest 1,000, then all. Cores stay:
         * 8,192 of them are 2 MiB. */
        if (sampler->detail_floor >= 1)
                on &= ~SCOPE_BIT(SCOPE_THREAD);
        if (sampler->detail_floor >= 3)
                on &= ~SCOPE_BIT(SCOPE_PROCESS);
        return on & sampler_scopes(sampler);
}

/* Tracing costs every program of the machine something: so only while somebody asked. True when it is attached now. */
static bool trace_wanted(struct sampler *sampler, bool wanted)
{
        struct tracer *tracer = sampler->options.tracer;
        char why[256];

        if (tracer == NULL)
                return false;
        if (!wanted) {
                tracer_detach(tracer);
                return false;
        }
        if (!tracer_attached(tracer) && tracer_attach(tracer, why, sizeof why) == 0)
                sampler->tracer_epoch++;
        return tracer_attached(tracer);
}

/* What of the leases for block tracing is, or will be in a moment. */
static uint64_t stages_wanted(struct sampler *sampler)
{
        struct stages *stages = sampler->options.stages;
        uint64_t leases = sampler->leases;
        char why[256];
        unsigned what = 0;

        if (stages == NULL)
                return 0;
        if (leases & (SCOPES_TRACED | LEASE_STREAM))
                what = STREAM_WHAT_BIOS | (leases & (SCOPE_BIT(SCOPE_SYNC) | LEASE_SYNC) ? STREAM_WHAT_SYNC : 0u) |
                        (leases & LEASE_EVENTS ? STREAM_WHAT_EVENTS : 0u);
        int r = stages_want(stages, what, leases & LEASE_STREAM, leases & SCOPES_TRACED, why, sizeof why);
        return r < 0 ? 0 : SCOPES_TRACED | STAGE_LEASES;
}

uint64_t sampler_lease(struct sampler *sampler, uint64_t wanted)
{
        uint64_t can = LEASE_BITS | (sampler_scopes(sampler) & ~SCOPES_TRACED);

        sampler->leases = wanted & (LEASE_BITS | STAGE_LEASES | (SCOPE_BIT(SCOPE_COUNT) - 1));
        can |= stages_wanted(sampler);
        if (!trace_wanted(sampler, sampler->leases & LEASE_EXACT))
                can &= ~(uint64_t)LEASE_EXACT;
        return sampler->leases & can;
}

void sampler_refused(struct sampler *sampler)
{
        sampler->full_next = true;
        if (sampler->detail_floor < 3)
                sampler->detail_floor++;
        sampler->floor_ticks = REFUSED_TICKS;
}

static void recover_detail(struct sampler *sampler)
{
        if (sampler->detail_floor == 0 || --sampler->floor_ticks > 0)
                return;
        sampler->detail_floor--;
        sampler->floor_ticks = REFUSED_TICKS;
}

/* ---- one tick ------------------------------------------------------------------------------------------------------------- */

/* Clocks of the tick. What is called a suspend is looked at again: a preemption between two clock reads looks the same once. */
static struct procfs_clock read_clock(struct sampler *sampler)
{
        const struct procfs *procfs = sampler->options.procfs;
        struct procfs_clock best, now;

        procfs_clock(procfs, &best);
        for (int i = 0; i < 3 && sampler->has_prev && procfs_live(procfs); i++) {
                if (best.boot_ns - best.mono_ns < sampler->prev.boot_ns - sampler->prev.mono_ns + SUSPEND_NS)
                        break;
                procfs_clock(procfs, &now);
                if (now.boot_ns - now.mono_ns < best.boot_ns - best.mono_ns)
                        best = now;
        }
        return best;
}

static enum gap find_gap(const struct sampler *sampler, const struct procfs_clock *now, uint32_t missed)
{
        if (!sampler->has_prev)
                return GAP_NONE;
        if (memcmp(sampler->boot_id, sampler->prev_boot_id, sizeof sampler->boot_id) != 0)
                return GAP_REBOOT;
        if (now->mono_ns < sampler->prev.mono_ns)
                return GAP_RESET;
        if (now->boot_ns - now->mono_ns >= sampler->prev.boot_ns - sampler->prev.mono_ns + SUSPEND_NS)
                return GAP_SUSPEND;
        return missed > 0 ? GAP_LATE : GAP_NONE;
}

static void start_tick(struct sampler *sampler, const struct sampler_order *order, const struct procfs_clock *now)
{
        uint64_t interval = sampler->options.interval_ns;

        sampler->tick = (struct tick){
                .procfs = sampler->options.procfs,
                .sample = sampler->sample,
                .evidence = &sampler->evidence,
                .scopes = sampler_scopes_on(sampler),
                .leases = sampler->leases,
                .interval_ns = interval,
                /* A fifth of the interval stays for the rest of the tick and for whoever else wants the core. A capture is late rather
                 * than full of holes. */
                .deadline_ns = sampler->options.capture ? UINT64_MAX / 2 : now->mono_ns + interval / 5 * 4,
                .number = sampler->number++,
                .cmdline = sampler->options.cmdline,
                .tracer = sampler->options.tracer,
                .stages = sampler->options.stages,
                .tracer_epoch = sampler->tracer_epoch,
                .extra = order->extra || order->mark != NULL,
                .capture = sampler->options.capture,
                .detail = sampler->detail_floor,
                .settings = procfs_live(sampler->options.procfs) ? sampler->settings : NULL,
                .alive = sampler->options.alive,
                .alive_arg = sampler->options.alive_arg,
        };
        uint32_t off = sampler->scopes_were & ~sampler->tick.scopes;
        for (int s = 0; s < SCOPE_COUNT; s++)
                if (off & SCOPE_BIT(s))
                        sample_scope_off(sampler->sample, (enum scope)s);
        sampler->scopes_were = sampler->tick.scopes;
        sample_begin(sampler->sample, &(struct sample_stamp){ now->mono_ns, now->boot_ns, now->real_ns });
}

typedef int step_function(void *own, struct tick *);

static void run_step(struct sampler *sampler, struct part *part, step_function *function)
{
        uint32_t makes = part->collector->scopes;

        if (!part->open || function == NULL || (makes != 0 && (makes & sampler->tick.scopes) == 0))
                return;
        int r = function(part->own, &sampler->tick);
        if (r < 0 && part->error == 0)
                part->error = r;
        part->ran = true;
        say_alive(sampler);
}

/* A collector that failed leaves no rows behind that look like news. */
static void drop_failed(struct sampler *sampler, const struct part *part)
{
        if (!part->ran || part->error == 0)
                return;
        for (int s = 0; s < SCOPE_COUNT; s++)
                if (part->collector->scopes & sampler->tick.scopes & SCOPE_BIT(s))
                        sample_scope_off(sampler->sample, (enum scope)s);
}

static void run_parts(struct sampler *sampler)
{
        for (unsigned i = 0; i < sampler->part_count; i++) {
                struct part *part = &sampler->parts[i];
                part->ran = false;
                if (part->open)
                        part->error = 0;
                run_step(sampler, part, part->collector->before);
        }
        for (unsigned i = 0; i < sampler->part_count; i++)
                run_step(sampler, &sampler->parts[i], sampler->parts[i].collector->collect);
        for (unsigned i = 0; i < sampler->part_count; i++)
                run_step(sampler, &sampler->parts[i], sampler->parts[i].collector->after);
        for (unsigned i = 0; i < sampler->part_count; i++)
                drop_failed(sampler, &sampler->parts[i]);
}

static bool succeeded(const struct sampler *sampler, const struct collector *collector)
{
        for (unsigned i = 0; i < sampler->part_count; i++)
                if (sampler->parts[i].collector == collector)
                        return sampler->parts[i].ran && sampler->parts[i].error == 0;
        return false;
}

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Field 2 of our own statm, in pages. 0: not known. */
static uint64_t own_rss(const struct sampler *sampler)
{
        char text[128];
        struct scan scan;
        uint64_t pages = 0;
        long page = sysconf(_SC_PAGESIZE);

        ssize_t length = sampler->statm_fd < 0 ? -1 : pread(sampler->statm_fd, text, sizeof text, 0);
        if (length <= 0 || page <= 0)
                return 0;
        scan_init(&scan, text, (size_t)length);
        if (!scan_skip(&scan, 1) || !scan_u64(&scan, &pages))
                return 0;
        return pages * (uint64_t)page;
}

static void write_self(struct sampler *sampler, unsigned clients)
{
        uint64_t start = procfs_mono(sampler->options.procfs), rss = own_rss(sampler);

        sample_scope_begin(sampler->sample, SCOPE_SELF, start);
        struct row *row = sample_row(sampler->sample, SCOPE_SELF, (struct key){ 0, 0 }, 0);
        if (row != NULL) {
                row_set(row, SELF_PID, (uint64_t)getpid());
                row_set(row, SELF_CPU_TIME, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
                if (rss > 0)
                        row_set(row, SELF_RSS, rss);
                else
                        row_absent(row, SELF_RSS);
                row_set(row, SELF_FDS, sampler->tick.fds);
                row_set(row, SELF_TICKS, sampler->ticks);
                row_set(row, SELF_LATE, sampler->late);
                if (sampler->ticks > 1)
                        row_set(row, SELF_TICK_TIME, sampler->took_ns);
                row_set(row, SELF_FRAME_BYTES, sampler->bytes);
                row_set(row, SELF_STUCK_READS, sampler->tick.stuck_reads);
                row_set(row, SELF_DETAIL, (uint64_t)sampler->tick.detail);
                row_set(row, SELF_CLIENTS, clients);
                trace_self(sampler->options.tracer, row);
                stages_self(sampler->options.stages, row);
        }
        sample_scope_end(sampler->sample, SCOPE_SELF, procfs_mono(sampler->options.procfs), GONE_EXITED);
}

/* A mark is a row in one frame; the frame after it takes the row away. */
static void write_mark(struct sampler *sampler, const struct sampler_mark *mark)
{
        if (mark == NULL && !sampler->mark_shown)
                return;
        uint64_t now = procfs_mono(sampler->options.procfs);
        sample_scope_begin(sampler->sample, SCOPE_MARK, now);
        if (mark != NULL) {
                struct row *row = sample_row(sampler->sample, SCOPE_MARK, (struct key){ ++sampler->marks, 0 }, 0);
                if (row != NULL) {
                        row_text(row, MARK_TEXT, mark->text, mark->length);
                        if (mark->pid > 0)
                                row_set(row, MARK_PID, (uint64_t)mark->pid);
                        row_set(row, MARK_UID, mark->uid);
                }
        }
        sample_scope_end(sampler->sample, SCOPE_MARK, now, GONE_EXITED);
        sampler->mark_shown = mark != NULL;
}

/* The captured machine's ticks are as far apart as its clocks say. */
static uint64_t tick_length(const struct sampler *sampler, const struct procfs_clock *now)
{
        if (procfs_live(sampler->options.procfs))
                return sampler->options.interval_ns;
        if (!sampler->has_prev || now->mono_ns < sampler->prev.mono_ns)
                return 0;
        return now->mono_ns - sampler->prev.mono_ns;
}

static int seal(struct sampler *sampler, const struct sampler_order *order, const struct procfs_clock *now, struct sampler_frame *frame)
{
        /* What a frame that could not be made would have told is told by the next one. */
        uint32_t missed = order->missed > UINT32_MAX - sampler->unsent_ticks ? UINT32_MAX : order->missed + sampler->unsent_ticks;
        enum gap gap = find_gap(sampler, now, missed);
        gap = gap > sampler->unsent_gap ? gap : sampler->unsent_gap;
        /* After a reboot or reset readers forget what they had: they need every row again. */
        bool full = sampler->full_next || gap == GAP_REBOOT || gap == GAP_RESET;
        struct seal seal = {
                .flags = (full ? FRAME_FULL : 0u) | (order->mark != NULL ? FRAME_MARK | FRAME_EXTRA : 0u) |
                        (order->extra ? FRAME_EXTRA : 0u),
                .gap = gap,
                .missed = missed,
                .scopes_on = sampler->tick.scopes,
                .tick_ns = tick_length(sampler, now),
        };
        memcpy(seal.boot_id, sampler->boot_id, sizeof seal.boot_id);
        int r = sample_seal(sampler->sample, &seal, &frame->bytes, &frame->length);
        if (r < 0) {
                if (r == -EFBIG)
                        sampler_refused(sampler);
                sampler->full_next = true;
                bool ticked = !order->extra && order->mark == NULL && missed < UINT32_MAX;
                sampler->unsent_ticks = ticked ? missed + 1 : missed;
                sampler->unsent_gap = gap;
                return r;
        }
        sampler->full_next = false;
        sampler->unsent_ticks = 0;
        sampler->unsent_gap = GAP_NONE;
        frame->sequence = ((const struct frame_head *)frame->bytes)->sequence;
        sampler->bytes += frame->length;
        return 0;
}

static void judge(struct sampler *sampler)
{
        struct evidence *e = &sampler->evidence;
        bool cores = (sampler->tick.scopes & SCOPE_BIT(SCOPE_CPU)) && succeeded(sampler, &collector_cpu);

        /* After a pause the counters reach further back than the evidence: nothing is concluded, the sums go on from here. */
        for (size_t i = 0; cores && !sampler->cores_before && i < e->core_count; i++)
                e->cores[i].valid = false;
        sampler->cores_before = cores;
        bool waiters = succeeded(sampler, &collector_uring);
        /* Without memory for the sums the rows are sent without the split: absent, not wrong. */
        bool judged = cores && judge_tick(sampler->judge, sampler->sample, e, succeeded(sampler, &collector_disk), waiters) == 0;
        if (judged && waiters)
                uring_judged(sampler->sample, e);
        psi_tick(sampler->psi, sampler->sample, e, judged && waiters);
        who_judged(sampler->who, &sampler->tick, judged && waiters);
}

int sampler_tick(struct sampler *sampler, const struct sampler_order *order, struct sampler_frame *frame)
{
        bool live = procfs_live(sampler->options.procfs);
        uint64_t began = clock_ns(CLOCK_MONOTONIC);

        number_tree(sampler, -1);
        struct procfs_clock now = read_clock(sampler);
        tell_failure(sampler);
        start_tick(sampler, order, &now);
        run_parts(sampler);
        judge(sampler);

        sampler->ticks++;
        sampler->late += order->missed;
        if (live && order->due_ns > 0 && now.mono_ns > order->due_ns + sampler->options.interval_ns / 10)
                sampler->late++;
        if (live)
                write_self(sampler, order->clients);
        write_mark(sampler, order->mark);
        int r = seal(sampler, order, &now, frame);

        sampler->has_prev = true;
        sampler->prev = now;
        memcpy(sampler->prev_boot_id, sampler->boot_id, sizeof sampler->boot_id);
        sampler->tree++;
        sampler->sub = 0;
        recover_detail(sampler);
        sampler->took_ns = clock_ns(CLOCK_MONOTONIC) - began;
        if (r == 0)
                frame->took_ns = sampler->took_ns;
        return r;
}

/* ---- between ticks -------------------------------------------------------------------------------------------------------- */

bool sampler_wants_between(struct sampler *sampler)
{
        for (unsigned i = 0; i < sampler->part_count; i++) {
                struct part *part = &sampler->parts[i];
                if (part->open && part->collector->between != NULL && part->collector->wants_between != NULL &&
                    (part->collector->scopes & sampler->tick.scopes) && part->collector->wants_between(part->own, &sampler->tick))
                        return true;
        }
        return false;
}

static void run_between(struct sampler *sampler)
{
        for (unsigned i = 0; i < sampler->part_count; i++) {
                struct part *part = &sampler->parts[i];
                if (part->open && part->collector->between != NULL && (part->collector->scopes & sampler->tick.scopes))
                        part->collector->between(part->own, &sampler->tick);
        }
}

void sampler_between(struct sampler *sampler)
{
        if (sampler->number == 0 || sampler->sub >= SUBS_MAX)
                return;
        /* Sub-samples belong to the tick that follows, so they are stored in its tree. */
        number_tree(sampler, (int)sampler->sub);
        run_between(sampler);
        sampler->sub++;
}

int sampler_step(struct sampler *sampler, unsigned clients, struct sampler_frame *frame)
{
        struct procfs *procfs = sampler->options.procfs;
        unsigned wanted = sampler->tree;

        if (procfs_live(procfs))
                return -EINVAL;
        int r = enter_next(sampler);
        if (r < 0)
                return r;
        /* What happened between two trees is seen before the later one; ahead of the first there is nothing to explain. */
        for (int sub = 0; sampler->number > 0 && sub < SUBS_MAX && procfs_enter(procfs, sampler->tree, sub) == 0; sub++)
                run_between(sampler);
        r = procfs_enter(procfs, sampler->tree, -1);
        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        read_boot_id(sampler);
        uint32_t missed = sampler->number > 0 ? sampler->tree - wanted : 0;
        return sampler_tick(sampler, &(struct sampler_order){ .missed = missed, .clients = clients }, frame);
}

/* ---- what became of it ---------------------------------------------------------------------------------------------------- */

void sampler_get_status(const struct sampler *sampler, struct sampler_status *status)
{
        *status = (struct sampler_status){ sampler->ticks, sampler->late, sampler->took_ns, sampler->tick.detail };
}

bool sampler_collector(const struct sampler *sampler, unsigned index, const char **name, int *error)
{
        if (index >= sampler->part_count)
                return false;
        *name = sampler->parts[index].collector->name;
        *error = sampler->parts[index].error;
        return true;
}

/*
 * The block tracer without BPF: an instance of tracefs, its buffers, and their events in order. Contract: tracefs.h.
 *
 * Buffers overwrite the oldest: the kernel then says in the very page behind a gap that there is one, and how long it is, so a loss is
 * told where it happened (without overwriting there would only be a counter to poll). Pages are read whole, so an event is never torn.
 *
 * Merging: a page per CPU is here, the rest waits in the kernel's buffers. The earliest event of all CPUs is next once it is HOLD_NS old:
 * by then every CPU has committed what it had reserved, also one that a hypervisor took away in between.
 *
 * Nothing is left behind: the instance goes at the end. Killed, the kernel closes free_buffer for us, which stops tracing and frees the
 * buffers (options/disable_on_free); the empty instance goes with the next start. The name holds PID and start time, so that another
 * process that got the PID is not taken for its owner; the kernel refuses to remove one that somebody has open, whatever its name.
 *
 * Rights: all files belong to root and are opened by their owner, so uid 0 without capabilities may attach whenever it likes. Only the
 * names of files that other users' processes sync need CAP_SYS_PTRACE (tracefs_calls.c); without it they are not known.
 */
#include "collectors/tracefs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectors/tracefs_own.h"
#include "collectors/tracefs_place.h"
#include "sample/stage.h"
#include "sample/stage_stream.h"

enum { BLOCK = STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS, EVENTS = STREAM_WHAT_EVENTS, SYNC = STREAM_WHAT_SYNC };
#define HOLD_NS UINT64_C(5000000)
#define TOTAL_KIB UINT64_C(131072)
enum { CPU_KIB = 4096 /* 0.1 s at 100,000 requests a second of 5 events of 72 bytes */, CPU_KIB_LEAST = 64, PAGE_MOST = 1 << 20,
        CPUS_MOST = 8192, STATS_TURNS = 16 };

/* All that is used where the kernel has it. The plug's two say nothing that the stages need, and nobody but a viewer of events wants
 * them. */
static const struct tracefs_point points[] = {
        {"block", "block_bio_queue", BLOCK, POINT_BLOCK, STAGE_Q, false},
        {"block", "block_getrq", BLOCK, POINT_BLOCK, STAGE_G, false},
        {"block", "block_rq_insert", BLOCK, POINT_BLOCK, STAGE_I, true},
        {"block", "block_rq_issue", BLOCK, POINT_BLOCK, STAGE_D, true},
        {"block", "block_rq_complete", BLOCK, POINT_BLOCK, STAGE_C, true},
        {"block", "block_bio_complete", BLOCK, POINT_BLOCK, STAGE_C, false},
        {"block", "block_bio_backmerge", BLOCK, POINT_BLOCK, STAGE_M, false},
        {"block", "block_bio_frontmerge", BLOCK, POINT_BLOCK, STAGE_F, false},
        {"block", "block_rq_merge", BLOCK, POINT_BLOCK, STAGE_MERGE, true},
        {"block", "block_rq_requeue", BLOCK, POINT_BLOCK, STAGE_R, true},
        {"block", "block_split", BLOCK, POINT_BLOCK, STAGE_X, false},
        {"block", "block_bio_remap", BLOCK, POINT_BLOCK, STAGE_A, false},
        {"block", "block_rq_remap", BLOCK, POINT_BLOCK, STAGE_A, true},
        {"block", "block_plug", EVENTS, POINT_BLOCK, STAGE_P, false},
        {"block", "block_unplug", EVENTS, POINT_BLOCK, STAGE_U, false},
        {"syscalls", "sys_enter_fsync", SYNC, POINT_ENTER, SYNC_FSYNC, false},
        {"syscalls", "sys_exit_fsync", SYNC, POINT_EXIT, SYNC_FSYNC, false},
        {"syscalls", "sys_enter_fdatasync", SYNC, POINT_ENTER, SYNC_FDATASYNC, false},
        {"syscalls", "sys_exit_fdatasync", SYNC, POINT_EXIT, SYNC_FDATASYNC, false},
        {"syscalls", "sys_enter_msync", SYNC, POINT_ENTER, SYNC_MSYNC, false},
        {"syscalls", "sys_exit_msync", SYNC, POINT_EXIT, SYNC_MSYNC, false},
        {"syscalls", "sys_enter_sync_file_range", SYNC, POINT_ENTER, SYNC_RANGE, false},
        {"syscalls", "sys_exit_sync_file_range", SYNC, POINT_EXIT, SYNC_RANGE, false},
        {"syscalls", "sys_enter_sync", SYNC, POINT_ENTER, SYNC_ALL, false},
        {"syscalls", "sys_exit_sync", SYNC, POINT_EXIT, SYNC_ALL, false},
        {"syscalls", "sys_enter_syncfs", SYNC, POINT_ENTER, SYNC_ALL, false},
        {"syscalls", "sys_exit_syncfs", SYNC, POINT_EXIT, SYNC_ALL, false},
};
enum { POINTS = sizeof points / sizeof *points, NO_POINT = 255 };

struct cpu {
        int fd;
        unsigned number;
        uint8_t *bytes;
        struct tracefs_page page;
        const uint8_t *event;         /* the next one; NULL = none here */
        size_t length;
        uint8_t point;                /* of points */
        uint64_t missed, missed_time; /* before that event, to be told, if has_missed */
        bool has_missed;
        uint64_t overwritten, refused; /* as the kernel counts them; */
        uint64_t told;                /* of those that were overwritten */
};

struct tracefs {
        struct tracefs_place_of place;
        struct tracefs_calls *calls;
        unsigned what;
        size_t limit;
        bool enabled[POINTS];
        struct tracefs_format format[POINTS];
        size_t least[POINTS];
        uint8_t by_id[1 << 16];       /* of points */
        struct tracefs_layout layout;
        size_t page_size;
        struct cpu *cpus;
        uint8_t *pages;
        size_t cpu_count, turn;
        uint32_t *heap;               /* CPUs that have an event, the earliest first */
        size_t heap_count;
        uint64_t lost, damaged;       /* lost: of earlier attachments */
};

static uint64_t clock_now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ---- beginning and end --------------------------------------------------------------------------------------------------------------- */

int tracefs_open(struct tracefs **out, char *why, size_t size)
{
        struct tracefs *tracefs = calloc(1, sizeof *tracefs);

        if (!tracefs) {
                snprintf(why, size, "no memory");
                return -ENOMEM;
        }
        int r = place_open(&tracefs->place, why, size);
        if (r == 0 && (r = tracefs_calls_new(&tracefs->calls)) < 0)
                snprintf(why, size, "%s", strerror(-r));
        if (r < 0) {
                tracefs_close(tracefs);
                return r;
        }
        place_clean(&tracefs->place);
        *out = tracefs;
        return 0;
}

static void update_stats(struct tracefs *tracefs, struct cpu *cpu)
{
        char text[1024];
        ssize_t n = place_read(&tracefs->place, text, sizeof text, "per_cpu/cpu%u/stats", cpu->number);

        if (n > 0)
                tracefs_parse_stats(text, (size_t)n, &cpu->overwritten, &cpu->refused);
}

uint64_t tracefs_lost(const struct tracefs *tracefs)
{
        uint64_t lost = tracefs->lost;

        for (size_t i = 0; i < tracefs->cpu_count; i++)
                lost += tracefs->cpus[i].overwritten + tracefs->cpus[i].refused;
        return lost;
}

/* Whatever there is of an attachment. */
static void detach(struct tracefs *tracefs)
{
        if (tracefs->place.instance >= 0)
                place_write(&tracefs->place, "0", "tracing_on");
        for (size_t i = 0; i < tracefs->cpu_count; i++)
                if (tracefs->cpus[i].fd >= 0)
                        update_stats(tracefs, &tracefs->cpus[i]);
        tracefs->lost = tracefs_lost(tracefs);
        for (size_t i = 0; i < tracefs->cpu_count; i++)
                if (tracefs->cpus[i].fd >= 0)
                        close(tracefs->cpus[i].fd);
        free(tracefs->cpus);
        free(tracefs->pages);
        free(tracefs->heap);
        tracefs->cpus = NULL;
        tracefs->pages = NULL;
        tracefs->heap = NULL;
        tracefs->cpu_count = tracefs->heap_count = 0;
        memset(tracefs->enabled, 0, sizeof tracefs->enabled);
        place_remove(&tracefs->place);
        tracefs->what = 0;
}

void tracefs_close(struct tracefs *tracefs)
{
        if (!tracefs)
                return;
        detach(tracefs);
        place_close(&tracefs->place);
        tracefs_calls_free(tracefs->calls);
        free(tracefs);
}

unsigned tracefs_clean(void)
{
        struct tracefs_place_of place;
        char why[160];

        unsigned removed = place_open(&place, why, sizeof why) < 0 ? 0 : place_clean(&place);
        place_close(&place);
        return removed;
}

unsigned tracefs_attached(const struct tracefs *tracefs) { return tracefs->what; }
void tracefs_limit(struct tracefs *tracefs, size_t kib) { tracefs->limit = kib; }
const char *tracefs_instance(const struct tracefs *tracefs) { return tracefs->place.name; }
uint64_t tracefs_damaged(const struct tracefs *tracefs) { return tracefs->damaged; }

/* ---- attach -------------------------------------------------------------------------------------------------------------------------- */

/* The buffers: 128 MiB and a 32nd of the memory at most; less where the kernel has none. */
static int set_size(struct tracefs *tracefs)
{
        uint64_t cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), memory = (uint64_t)sysconf(_SC_PHYS_PAGES) / 1024 *
                (uint64_t)sysconf(_SC_PAGESIZE) / 32;
        uint64_t total = memory < TOTAL_KIB ? memory : TOTAL_KIB, kib = total / (cpus ? cpus : 1);
        char text[24];
        int r;

        if (kib > CPU_KIB)
                kib = CPU_KIB;
        if (kib < CPU_KIB_LEAST)
                kib = CPU_KIB_LEAST;
        if (tracefs->limit)
                kib = tracefs->limit;
        do {
                snprintf(text, sizeof text, "%llu", (unsigned long long)kib);
                r = place_write(&tracefs->place, text, "buffer_size_kb");
                kib /= 2;
        } while (r == -ENOMEM && kib >= CPU_KIB_LEAST);
        return r;
}

static int set_up(struct tracefs *tracefs, char *why, size_t size)
{
        char text[4096];
        int r = tracefs_place_make(&tracefs->place, why, size);

        if (r < 0)
                return r;
        if ((r = place_write(&tracefs->place, "0", "tracing_on")) < 0 || (r = place_write(&tracefs->place, "mono", "trace_clock")) < 0 ||
                (r = place_write(&tracefs->place, "1", "options/overwrite")) < 0 || (r = set_size(tracefs)) < 0) {
                snprintf(why, size, "tracefs instance cannot be set up: %s", strerror(-r));
                return r;
        }
        ssize_t n = place_read(&tracefs->place, text, sizeof text, "events/header_page"); /* an instance's own since 6.8 */
        if (n == -ENOENT)
                n = place_read(&tracefs->place, text, sizeof text, "../../events/header_page");
        r = n < 0 ? (int)n : tracefs_parse_header(text, (size_t)n, &tracefs->layout);
        tracefs->page_size = r < 0 ? 0 : (size_t)tracefs->layout.data.offset + tracefs->layout.data.size;
        if (r < 0 || tracefs->page_size > PAGE_MOST) {
                snprintf(why, size, "the kernel's description of its trace pages is not understood");
                return r < 0 ? r : -EBADMSG;
        }
        return 0;
}

static int open_cpus(struct tracefs *tracefs, char *why, size_t size)
{
        unsigned numbers[CPUS_MOST];
        ssize_t count = place_cpus(&tracefs->place, numbers, CPUS_MOST);

        if (count > 0) {
                tracefs->cpus = calloc((size_t)count, sizeof *tracefs->cpus);
                tracefs->pages = malloc((size_t)count * tracefs->page_size);
                tracefs->heap = calloc((size_t)count, sizeof *tracefs->heap);
        }
        if (count <= 0 || !tracefs->cpus || !tracefs->pages || !tracefs->heap) {
                snprintf(why, size, "the trace buffers cannot be listed: %s", strerror(count < 0 ? (int)-count : ENOMEM));
                return count < 0 ? (int)count : -ENOMEM;
        }
        for (size_t i = 0; i < (size_t)count; i++) {
                struct cpu *cpu = &tracefs->cpus[i];
                *cpu = (struct cpu){.number = numbers[i], .bytes = tracefs->pages + i * tracefs->page_size};
                cpu->fd = place_open_cpu(&tracefs->place, numbers[i]);
                tracefs->cpu_count = i + 1;
                if (cpu->fd < 0) {
                        snprintf(why, size, "the trace buffer of CPU %u cannot be opened: %s", numbers[i], strerror(-cpu->fd));
                        return cpu->fd;
                }
        }
        return 0;
}

/* What the kernel does not have is left out. */
static int enable(struct tracefs *tracefs, size_t i)
{
        const struct tracefs_point *point = &points[i];
        char text[8192];
        ssize_t n = place_read(&tracefs->place, text, sizeof text, "events/%s/%s/format", point->group, point->name);
        int r = n < 0 ? (int)n : tracefs_parse_format(text, (size_t)n, &tracefs->format[i]);

        if (r < 0)
                return r == -ENOENT || r == -EBADMSG ? 0 : r;
        tracefs->least[i] = tracefs_least(point, &tracefs->format[i]);
        if (tracefs->least[i] == 0)
                return 0;
        tracefs->by_id[tracefs->format[i].id] = (uint8_t)i;
        if ((r = place_write(&tracefs->place, "1", "events/%s/%s/enable", point->group, point->name)) == 0)
                tracefs->enabled[i] = true;
        return r;
}

static bool has(const struct tracefs *tracefs, int kind, int action)
{
        for (size_t i = 0; i < POINTS; i++)
                if (tracefs->enabled[i] && points[i].kind == kind && points[i].action == action)
                        return true;
        return false;
}

static int choose(struct tracefs *tracefs, unsigned what, char *why, size_t size)
{
        for (size_t i = 0; i < POINTS; i++) {
                bool wanted = points[i].what & what;
                int r = 0;
                if (wanted == tracefs->enabled[i])
                        continue;
                if (wanted)
                        r = enable(tracefs, i);
                else if ((r = place_write(&tracefs->place, "0", "events/%s/%s/enable", points[i].group, points[i].name)) == 0)
                        tracefs->enabled[i] = false;
                if (r < 0) {
                        snprintf(why, size, "event %s cannot be switched: %s", points[i].name, strerror(-r));
                        return r;
                }
        }
        if (what & BLOCK && (!has(tracefs, POINT_BLOCK, STAGE_Q) || !has(tracefs, POINT_BLOCK, STAGE_D) ||
                !has(tracefs, POINT_BLOCK, STAGE_C))) {
                snprintf(why, size, "this kernel has no block events (CONFIG_BLK_DEV_IO_TRACE)");
                return -ENOENT;
        }
        if (what & SYNC && !has(tracefs, POINT_EXIT, SYNC_FSYNC)) {
                snprintf(why, size, "this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)");
                return -ENOENT;
        }
        return 0;
}

int tracefs_attach(struct tracefs *tracefs, unsigned what, char *why, size_t size)
{
        int r = 0;

        what &= BLOCK | SYNC;
        if (what == tracefs->what)
                return 0;
        if (what == 0) {
                detach(tracefs);
                return 0;
        }
        bool first = tracefs->what == 0;
        if (first) {
                memset(tracefs->by_id, NO_POINT, sizeof tracefs->by_id);
                tracefs_calls_lost(tracefs->calls);
                r = set_up(tracefs, why, size);
                r = r < 0 ? r : open_cpus(tracefs, why, size);
        }
        r = r < 0 ? r : choose(tracefs, what, why, size);
        if (r == 0 && first && (r = place_write(&tracefs->place, "1", "tracing_on")) < 0)
                snprintf(why, size, "tracing cannot be switched on: %s", strerror(-r));
        if (r < 0 && first)
                detach(tracefs);
        else if (r < 0)
                choose(tracefs, tracefs->what, (char[160]){0}, 160); /* as it was; should that fail, too, it is the old events and some */
        if (r == 0)
                tracefs->what = what;
        return r;
}

/* ---- drain --------------------------------------------------------------------------------------------------------------------------- */

/* The next event of ours from the page that is here. */
static bool next_event(struct tracefs *tracefs, struct cpu *cpu)
{
        while ((cpu->event = tracefs_page_next(&cpu->page, &cpu->length)) != NULL) {
                uint16_t id;
                if (cpu->length < sizeof id) {
                        tracefs->damaged++;
                        continue;
                }
                memcpy(&id, cpu->event, sizeof id); /* common_type: the first field of every event */
                cpu->point = tracefs->by_id[id];
                if (cpu->point == NO_POINT)
                        continue;
                if (cpu->length >= tracefs->least[cpu->point])
                        return true;
                tracefs->damaged++;
        }
        tracefs->damaged += cpu->page.damaged;
        cpu->page.damaged = false;
        return false;
}

/* A page behind a gap. A full page has no room for the gap's size: then it is all that the kernel counts now and was not told yet, which
 * may be a later gap's, too; that one then has the less. */
static void miss(struct tracefs *tracefs, struct cpu *cpu)
{
        update_stats(tracefs, cpu);
        uint64_t left = cpu->overwritten > cpu->told ? cpu->overwritten - cpu->told : 0;
        uint64_t count = cpu->page.missed && cpu->page.missed < left ? cpu->page.missed : left;

        cpu->told += count;
        cpu->missed += count;
        cpu->missed_time = cpu->page.time;
        cpu->has_missed = true;
}

/* Until an event is here, or the kernel's buffer is empty. */
static bool fill(struct tracefs *tracefs, struct cpu *cpu)
{
        while (!cpu->event || !next_event(tracefs, cpu)) {
                ssize_t n = read(cpu->fd, cpu->bytes, tracefs->page_size);
                cpu->event = NULL;
                if (n <= 0)
                        return false;
                if (tracefs_page_begin(&cpu->page, &tracefs->layout, cpu->bytes, (size_t)n) < 0) {
                        tracefs->damaged++;
                        continue;
                }
                if (cpu->page.has_missed)
                        miss(tracefs, cpu);
                cpu->event = cpu->bytes; /* the page has a beginning: its first event is looked for */
        }
        return true;
}

static bool earlier(const struct tracefs *tracefs, uint32_t a, uint32_t b)
{
        uint64_t first = tracefs->cpus[a].page.time, second = tracefs->cpus[b].page.time;
        return first < second || (first == second && a < b);
}

static void sink(struct tracefs *tracefs, size_t at)
{
        uint32_t *heap = tracefs->heap, moved = heap[at];

        for (size_t child; (child = 2 * at + 1) < tracefs->heap_count; at = child) {
                if (child + 1 < tracefs->heap_count && earlier(tracefs, heap[child + 1], heap[child]))
                        child++;
                if (!earlier(tracefs, heap[child], moved))
                        break;
                heap[at] = heap[child];
        }
        heap[at] = moved;
}

/* Every CPU that has an event, or gets one now. */
static void gather(struct tracefs *tracefs)
{
        tracefs->heap_count = 0;
        for (size_t i = 0; i < tracefs->cpu_count; i++)
                if (tracefs->cpus[i].event || fill(tracefs, &tracefs->cpus[i]))
                        tracefs->heap[tracefs->heap_count++] = (uint32_t)i;
        for (size_t i = tracefs->heap_count / 2; i-- > 0;)
                sink(tracefs, i);
}

static void put_lost(struct stage_record *out, uint64_t count, uint64_t time)
{
        *out = (struct stage_record){.kind = RECORD_LOST, .lost = {.count = count, .time = time}};
}

static size_t put_event(struct tracefs *tracefs, struct cpu *cpu, struct stage_record *out)
{
        const struct tracefs_point *point = &points[cpu->point];
        const struct tracefs_format *format = &tracefs->format[cpu->point];
        uint64_t time = cpu->page.time;
        uint32_t tid = (uint32_t)tracefs_number(cpu->event, format->field[FIELD_PID]);

        if (point->kind == POINT_ENTER) {
                bool has_fd = format->field[FIELD_FD].size > 0;
                tracefs_calls_enter(tracefs->calls, tid, point->action,
                        has_fd ? (int32_t)tracefs_number(cpu->event, format->field[FIELD_FD]) : -1, time);
                return 0;
        }
        if (point->kind == POINT_EXIT)
                return tracefs_calls_exit(tracefs->calls, tid, point->action,
                        (int64_t)tracefs_number(cpu->event, format->field[FIELD_RESULT]), time, out);
        if (!tracefs_decode(point, format, cpu->event, cpu->length, time, out)) {
                tracefs->damaged++;
                return 0;
        }
        out->event.cpu = cpu->number;
        if (point->action == STAGE_Q) { /* everywhere else the thread is whoever was there, or the same */
                bool kernel;
                out->tgid = tracefs_calls_process(tracefs->calls, tid, &kernel);
                out->flags |= kernel ? RECORD_KERNEL : 0;
        }
        return 1;
}

/* What the pages do not tell: one CPU at a time, and not every time, for it changes next to never. */
static size_t look_at_stats(struct tracefs *tracefs, uint64_t time, struct stage_record *out)
{
        if (tracefs->turn++ % STATS_TURNS)
                return 0;
        struct cpu *cpu = &tracefs->cpus[tracefs->turn / STATS_TURNS % tracefs->cpu_count];
        uint64_t refused = cpu->refused;

        update_stats(tracefs, cpu);
        if (cpu->refused <= refused)
                return 0;
        tracefs_calls_lost(tracefs->calls);
        put_lost(out, cpu->refused - refused, time);
        return 1;
}

size_t tracefs_drain(struct tracefs *tracefs, struct stage_record *out, size_t room)
{
        size_t count = 0;

        if (tracefs->cpu_count == 0 || room < 1 + CALLS_RECORDS)
                return 0;
        uint64_t limit = clock_now() - HOLD_NS; /* before the buffers are read */
        tracefs_calls_round(tracefs->calls);
        gather(tracefs);
        while (tracefs->heap_count > 0 && count + CALLS_RECORDS + 1 <= room) {
                struct cpu *cpu = &tracefs->cpus[tracefs->heap[0]];
                if (cpu->page.time > limit)
                        break;
                if (cpu->has_missed) {
                        tracefs_calls_lost(tracefs->calls);
                        put_lost(&out[count++], cpu->missed, cpu->missed_time);
                        cpu->has_missed = false;
                        cpu->missed = 0;
                }
                count += put_event(tracefs, cpu, &out[count]);
                if (!fill(tracefs, cpu))
                        tracefs->heap[0] = tracefs->heap[--tracefs->heap_count];
                sink(tracefs, 0);
        }
        if (count + CALLS_RECORDS + 1 > room) /* there is more, and a call that seems to go on may have ended in it */
                return count;
        tracefs_calls_settle(tracefs->calls);
        return count + look_at_stats(tracefs, limit, &out[count]);
}

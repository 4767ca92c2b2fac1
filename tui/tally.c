/*
 * The machine in one look: sums over cores, who waits, which devices work. Computed from a state, once per report.
 *
 * Everything that a person is told in words (head lines, verdict, `why`) comes from here, so that screen, table and answer cannot disagree.
 */
#include "tui/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/iowait.h"
#include "tui/clean.h"

enum { WITNESS_REFUTED = 1, WITNESS_WAITS = 2, WITNESS_PARKED = 3, WITNESS_PROVED = 4, WITNESS_STORAGE = 5, WITNESS_DSTATE = 6 };

/* Text of a row, made harmless: what goes into a tally may be printed as it is. */
static void text_of(const struct state *state, const struct state_row *row, int metric, char *out, size_t size)
{
        size_t length = 0;
        const char *text = state_text(state, row, metric, &length);

        out[0] = '\0';
        if (text)
                clean_screen(out, size, text, length, false, size, NULL);
}

static double level(const struct state_row *row, int metric, double scale)
{
        uint64_t raw;

        return row && state_now(row, metric, &raw) ? (double)raw * scale : -1;
}

static double rate(const struct state_row *row, int metric, double scale)
{
        double delta = 0, seconds = row && row->has_base ? state_row_seconds(row) : 0;

        if (!(seconds > 0))
                return -1;
        int outcome = state_delta(row, metric, &delta);
        return outcome == DELTA_ABSENT || outcome == DELTA_RESET ? -1 : delta / seconds * scale;
}

static double number_of(const struct state *state, const struct state_row *row, enum view_id view, const char *head)
{
        struct value value = metric_value(state, row, metric_column(view, head));

        return value.kind == VALUE_NUMBER ? value.number : -1;
}

/* ---- cores ------------------------------------------------------------------------------------------------------------------------- */

static struct value sum_of(const struct state *state, const char *head)
{
        return metric_value_sum(state, metric_column(VIEW_CPU, head), NULL, NULL);
}

static struct value added(struct value left, struct value right)
{
        if (left.kind != VALUE_NUMBER || right.kind != VALUE_NUMBER)
                return (struct value){.kind = VALUE_ABSENT};
        left.number += right.number;
        left.low += right.low;
        left.high += right.high;
        return left;
}

/* The weakest evidence that at least a twentieth of the iowait rests on. */
static const char *level_of(const struct state *state)
{
        static const int by[] = {CPU_BY_EXACT, CPU_BY_PARKED, CPU_BY_SEEN, CPU_BY_BOUND, CPU_BY_NONE};
        double sums[5] = {0}, all = 0;

        for (size_t i = 0, n = state_count(state, SCOPE_CPU); i < n; i++)
                for (size_t k = 0; k < 5; k++) {
                        double delta;
                        if (state_delta(state_at(state, SCOPE_CPU, i), by[k], &delta) == DELTA_OK) {
                                sums[k] += delta;
                                all += delta;
                        }
                }
        for (int k = 4; k >= 0; k--)
                if (all > 0 && sums[k] >= all / 20)
                        return iowait_level_name((enum iowait_level)k);
        return iowait_level_name(IOWAIT_NONE);
}

static void tally_cores(const struct state *state, struct tally *tally)
{
        tally->load = sum_of(state, "load");
        tally->us_sy = added(sum_of(state, "us"), sum_of(state, "sy"));
        tally->nice = sum_of(state, "ni");
        tally->hi_si = added(sum_of(state, "hi"), sum_of(state, "si"));
        tally->steal = sum_of(state, "st");
        tally->idle = sum_of(state, "id");
        tally->wa = sum_of(state, "wa");
        tally->disk = sum_of(state, "wa_disk");
        tally->uring = sum_of(state, "wa_uring");
        tally->other = sum_of(state, "wa_other");
        tally->level = level_of(state);
        tally->busiest = -1;
        tally->quietest = -1;

        for (size_t i = 0, n = state_count(state, SCOPE_CPU); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_CPU, i);
                double delta, load = number_of(state, row, VIEW_CPU, "load");
                if (row->gone)
                        continue;
                tally->cores++;
                if (state_delta(row, CPU_WA_TAKEN_BACK, &delta) == DELTA_OK)
                        tally->taken_back += delta * 1e-6;
                if (load < 0)
                        continue;
                if (tally->busiest < 0 || load > tally->busiest) {
                        tally->busiest = load;
                        tally->busiest_core = (unsigned)row->key.a;
                }
                if (tally->quietest < 0 || load < tally->quietest) {
                        tally->quietest = load;
                        tally->quietest_core = (unsigned)row->key.a;
                }
        }
        if (tally->load.kind == VALUE_NUMBER && tally->cores)
                tally->load_share = tally->load.number / tally->cores;
        tally->valid = tally->load.kind == VALUE_NUMBER;
}

/* ---- waiters -------------------------------------------------------------------------------------------------------------------------- */

/* "Proactor0" and "Proactor7" become "Proactor0..7"; names that differ before their number are left as the first one. */
static void widen_names(struct tally_waiters *group, const char *name)
{
        char *dots = strstr(group->names, "..");
        size_t first = dots ? (size_t)(dots - group->names) : strlen(group->names);
        size_t stem = first;

        if (!group->names[0]) {
                snprintf(group->names, sizeof group->names, "%s", name);
                return;
        }
        while (stem > 0 && group->names[stem - 1] >= '0' && group->names[stem - 1] <= '9')
                stem--;
        if (strncmp(group->names, name, stem) != 0 || strcmp(group->names, name) == 0)
                return;
        const char *number = name + stem;
        size_t digits = strspn(number, "0123456789");
        if (!digits || number[digits] || first == stem)
                return;
        long low = strtol(group->names + stem, NULL, 10), high = dots ? strtol(dots + 2, NULL, 10) : low, new = strtol(number, NULL, 10);
        low = new < low ? new : low;
        high = new > high ? new : high;
        snprintf(group->names + stem, sizeof group->names - stem, "%ld..%ld", low, high);
}

static struct tally_waiters *group_of(struct tally *tally, int pid)
{
        for (size_t i = 0; i < tally->waiter_count; i++)
                if (tally->waiters[i].pid == pid)
                        return &tally->waiters[i];
        if (tally->waiter_count == TALLY_WAITERS)
                return NULL;
        tally->waiters[tally->waiter_count] = (struct tally_waiters){.pid = pid, .first_core = ~0u};
        return &tally->waiters[tally->waiter_count++];
}

static void add_waiter(const struct state *state, const struct state_row *row, unsigned witness, struct tally *tally)
{
        struct tally_waiters *group = group_of(tally, (int)level(row, WAITER_TGID, 1));
        double core = level(row, WAITER_CORE, 1), delta;
        char name[64];

        tally->waiter_threads++;
        if (!group)
                return;
        if (!group->process[0])
                text_of(state, row, WAITER_PROCESS, group->process, sizeof group->process);
        text_of(state, row, WAITER_COMM, name, sizeof name);
        if (!group->process[0])
                snprintf(group->process, sizeof group->process, "%s", name);
        widen_names(group, name);
        group->threads++;
        group->parked += witness == WITNESS_PARKED || witness == WITNESS_PROVED;
        group->proved += witness == WITNESS_PROVED;
        if (row->has_base && state_delta(row, WAITER_SWITCHES, &delta) == DELTA_OK)
                group->woke += delta;
        if (core >= 0) {
                group->first_core = (unsigned)core < group->first_core ? (unsigned)core : group->first_core;
                group->last_core = (unsigned)core > group->last_core ? (unsigned)core : group->last_core;
                group->cores++;
        }
}

static int by_threads(const void *left, const void *right)
{
        const struct tally_waiters *a = left, *b = right;

        return a->threads > b->threads ? -1 : a->threads < b->threads;
}

/* ---- tasks in D state ------------------------------------------------------------------------------------------------------------------- */

static void add_task(const struct state *state, const struct state_row *row, int pid, int comm, int wchan, int since, int cmdline, struct tally *tally)
{
        struct tally_task task = {.pid = pid, .tid = (int)row->key.a, .age = -1};
        double start = level(row, since, 1e-9);
        size_t at = 0, kept = tally->task_count < TALLY_TASKS ? tally->task_count : TALLY_TASKS;

        for (size_t i = 0; i < kept; i++)
                if (tally->tasks[i].tid == task.tid)
                        return;
        if (start >= 0)
                task.age = (double)state_info(state).boot_ns * 1e-9 - start;
        text_of(state, row, comm, task.name, sizeof task.name);
        text_of(state, row, wchan, task.wchan, sizeof task.wchan);
        if (cmdline)
                text_of(state, row, cmdline, task.cmdline, sizeof task.cmdline);
        tally->task_count++;
        while (at < kept && tally->tasks[at].age >= task.age)
                at++;
        if (at == TALLY_TASKS)
                return;
        memmove(&tally->tasks[at + 1], &tally->tasks[at], ((kept < TALLY_TASKS ? kept : TALLY_TASKS - 1) - at) * sizeof task);
        tally->tasks[at] = task;
}

static void tally_tasks(const struct state *state, struct tally *tally)
{
        uint64_t value;

        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                if (row->gone || !state_now(row, WAITER_WITNESS, &value))
                        continue;
                if (value == WITNESS_DSTATE)
                        add_task(state, row, (int)level(row, WAITER_TGID, 1), WAITER_COMM, WAITER_WCHAN, WAITER_SINCE, 0, tally);
                else if (value >= WITNESS_WAITS)
                        add_waiter(state, row, (unsigned)value, tally);
        }
        for (size_t i = 0, n = state_count(state, SCOPE_PROCESS); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                if (!row->gone && state_now(row, PROCESS_STATE, &value) && value == 'D')
                        add_task(state, row, (int)row->key.a, PROCESS_COMM, PROCESS_WCHAN, PROCESS_SINCE, PROCESS_CMDLINE, tally);
        }
        for (size_t i = 0, n = state_count(state, SCOPE_THREAD); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_THREAD, i);
                if (!row->gone && state_now(row, THREAD_STATE, &value) && value == 'D')
                        add_task(state, row, (int)level(row, THREAD_TGID, 1), THREAD_COMM, THREAD_WCHAN, THREAD_SINCE, 0, tally);
        }
        qsort(tally->waiters, tally->waiter_count, sizeof tally->waiters[0], by_threads);
}

static void tally_top(const struct state *state, struct tally *tally)
{
        const struct column *cpu = metric_column(VIEW_TASK, "%CPU");

        for (size_t i = 0, n = state_count(state, SCOPE_PROCESS); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                struct value value = row->gone ? (struct value){0} : metric_value(state, row, cpu);
                if (value.kind == VALUE_NUMBER && value.number > tally->top_cpu) {
                        tally->top_cpu = value.number;
                        text_of(state, row, PROCESS_COMM, tally->top, sizeof tally->top);
                }
        }
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------------------ */

static bool device_before(const struct tally_device *left, const struct tally_device *right)
{
        bool stuck = left->stuck >= 1, other = right->stuck >= 1;

        if (stuck != other)
                return stuck;
        return left->util > right->util;
}

static void add_device(const struct tally_device *device, struct tally *tally)
{
        size_t kept = tally->device_count < TALLY_DEVICES ? tally->device_count : TALLY_DEVICES, at = kept;

        tally->device_count++;
        while (at > 0 && device_before(device, &tally->devices[at - 1]))
                at--;
        if (at == TALLY_DEVICES)
                return;
        memmove(&tally->devices[at + 1], &tally->devices[at], ((kept < TALLY_DEVICES ? kept : TALLY_DEVICES - 1) - at) * sizeof *device);
        tally->devices[at] = *device;
}

static void tally_devices(const struct state *state, struct tally *tally)
{
        for (size_t i = 0, n = state_count(state, SCOPE_DISK); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_DISK, i);
                uint64_t kind, counted, bytes;
                if (row->gone || !state_now(row, DISK_KIND, &kind) || kind == 'p')
                        continue;
                struct tally_device device = {.row = row, .whole = kind == 'w'};
                if (device.whole && state_now(row, DISK_IOSTATS, &counted) && counted == 0 && state_now(row, DISK_SIZE, &bytes) && bytes > 0)
                        tally->uncounted++;
                double drv = level(row, DISK_DRIVER_READS, 1) + level(row, DISK_DRIVER_WRITES, 1);
                device.inflight = level(row, DISK_INFLIGHT, 1);
                device.inflight = drv > device.inflight ? drv : device.inflight;
                if (device.whole && device.inflight > 0)
                        tally->in_flight += device.inflight;
                device.util = number_of(state, row, VIEW_DISK, "%util");
                device.queue = number_of(state, row, VIEW_DISK, "aqu-sz");
                device.r_await = number_of(state, row, VIEW_DISK, "r_await");
                device.w_await = number_of(state, row, VIEW_DISK, "w_await");
                device.rate = number_of(state, row, VIEW_SHORT, "tps");
                device.kb = number_of(state, row, VIEW_SHORT, "kB/s");
                device.stuck = level(row, DISK_STUCK, 1e-9);
                if (!(device.rate > 0) && !(device.inflight > 0) && !(device.util > 0))
                        continue;
                text_of(state, row, DISK_NAME, device.name, sizeof device.name);
                text_of(state, row, DISK_DM_NAME, device.label, sizeof device.label);
                add_device(&device, tally);
        }
}

/* ---- all -------------------------------------------------------------------------------------------------------------------------------------- */

static void tally_system(const struct state *state, struct tally *tally)
{
        const struct state_row *system = state_one(state, SCOPE_SYSTEM), *vm = state_one(state, SCOPE_VM);
        const struct state_row *io = state_find(state, SCOPE_PRESSURE, (struct key){.a = 1});
        double total = level(vm, VM_TOTAL, 1), available = level(vm, VM_AVAILABLE, 1);
        double swap = level(vm, VM_SWAP_TOTAL, 1), unused = level(vm, VM_SWAP_FREE, 1);

        tally->load1 = level(system, SYSTEM_LOAD1, 0.01);
        tally->load5 = level(system, SYSTEM_LOAD5, 0.01);
        tally->load15 = level(system, SYSTEM_LOAD15, 0.01);
        tally->running = level(system, SYSTEM_RUNNING, 1);
        tally->blocked = level(system, SYSTEM_BLOCKED, 1);
        tally->dstate = level(system, SYSTEM_DSTATE, 1);
        tally->io_some = rate(io, PRESSURE_SOME, 1e-7);
        tally->io_full = rate(io, PRESSURE_FULL, 1e-7);
        tally->dirty = level(vm, VM_DIRTY, 1);
        tally->memory_total = total;
        tally->memory_used = total >= 0 && available >= 0 ? total - available : -1;
        tally->swap_used = swap >= 0 && unused >= 0 ? swap - unused : -1;
        tally->swap_in = rate(vm, VM_SWAP_IN, 1);
        tally->swap_out = rate(vm, VM_SWAP_OUT, 1);
        tally->reclaim = rate(vm, VM_SCAN_DIRECT, 1);
}

void tally_make(const struct state *state, struct tally *tally)
{
        *tally = (struct tally){.seconds = state_seconds(state, SCOPE_CPU)};
        tally_cores(state, tally);
        tally_system(state, tally);
        tally_tasks(state, tally);
        tally_devices(state, tally);
        tally_top(state, tally);
        tally->threads_known = tally->dstate >= 0;
}

static const char *shown(char *text, size_t size, const struct value *value)
{
        value_format(text, size, value, 1);
        return text;
}

size_t tally_load_line(const struct tally *tally, char *line, size_t size)
{
        char load[32], us_sy[32], hi_si[32], nice[48] = "";

        if (!tally->valid)
                return (size_t)snprintf(line, size, "load - of %u%%", tally->cores * 100);
        if (tally->nice.kind == VALUE_NUMBER && tally->nice.number >= 0.05)
                snprintf(nice, sizeof nice, " + ni %.1f", tally->nice.number);
        int n = snprintf(line, size, "load %s%% of %u%% (%.1f%%) = us+sy %s%s + hi+si %s", shown(load, sizeof load, &tally->load), tally->cores * 100,
                         tally->load_share, shown(us_sy, sizeof us_sy, &tally->us_sy), nice, shown(hi_si, sizeof hi_si, &tally->hi_si));
        return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

size_t tally_wa_line(const struct tally *tally, char *line, size_t size)
{
        char wa[32], disk[32], uring[32], other[32];
        int n = snprintf(line, size, "wa %s = disk %s + uring %s + other %s", shown(wa, sizeof wa, &tally->wa), shown(disk, sizeof disk, &tally->disk),
                         shown(uring, sizeof uring, &tally->uring), shown(other, sizeof other, &tally->other));

        return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

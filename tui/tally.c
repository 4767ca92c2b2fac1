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
#include "sample/wchan.h"
#include "sample/word.h"
#include "tui/clean.h"

enum { WITNESS_REFUTED = 1, WITNESS_WAITS = 2, WITNESS_PARKED = 3, WITNESS_PROVED = 4, WITNESS_STORAGE = 5, WITNESS_DSTATE = 6 };

/* Text of a row as it is, a stranger's: each sink makes it harmless in its own way. */
static void text_of(const struct state *state, const struct state_row *row, int metric, char *out, size_t size)
{
        state_text_copy(state, row, metric, out, size);
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

static double grown(const struct state_row *row, int metric)
{
        double delta = 0;
        int outcome = row && row->has_base ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        return outcome == DELTA_ABSENT || outcome == DELTA_RESET ? -1 : delta;
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

static void add_evidence(const struct state_row *row, double sums[IOWAIT_NONE + 1])
{
        static const int by[] = {CPU_BY_EXACT, CPU_BY_PARKED, CPU_BY_SEEN, CPU_BY_BOUND, CPU_BY_NONE};

        for (int level = IOWAIT_EXACT; level <= IOWAIT_NONE; level++) {
                double delta = 0;
                int r = state_delta(row, by[level], &delta);
                if (r != DELTA_ABSENT && r != DELTA_RESET)
                        sums[level] += delta;
        }
}

const char *tally_evidence(const struct state *state, const struct state_row *only, bool (*keep)(const struct state_row *, void *),
        void *own)
{
        double sums[IOWAIT_NONE + 1] = {0}, total = 0;

        if (only)
                add_evidence(only, sums);
        for (size_t i = 0, n = only ? 0 : state_count(state, SCOPE_CPU); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_CPU, i);
                if (!row->gone && (!keep || keep(row, own)))
                        add_evidence(row, sums);
        }
        for (int level = IOWAIT_EXACT; level <= IOWAIT_NONE; level++)
                total += sums[level];
        for (int level = IOWAIT_NONE; total > 0 && level >= IOWAIT_EXACT; level--)
                if (sums[level] >= total / 20)
                        return iowait_level_name((enum iowait_level)level);
        return NULL;
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
        tally->level = tally_evidence(state, NULL, NULL, NULL);
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

/* ---- waiters ------------------------------------------------------------------------------------------------------------------------- */

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

/* ---- tasks in D state ---------------------------------------------------------------------------------------------------------------- */

/* Scopes that may hold the row of one and the same task, and what says in them that it is in D state. */
static const struct d_scope {
        enum scope scope;
        int is, value, tgid, comm, wchan, since, cmdline; /* tgid: METRIC_NONE, it is the key */
} d_scopes[] = {
        {SCOPE_PROCESS, PROCESS_STATE, 'D', METRIC_NONE, PROCESS_COMM, PROCESS_WCHAN, PROCESS_SINCE, PROCESS_CMDLINE},
        {SCOPE_THREAD, THREAD_STATE, 'D', THREAD_TGID, THREAD_COMM, THREAD_WCHAN, THREAD_SINCE, METRIC_NONE},
        {SCOPE_WAITER, WAITER_WITNESS, WITNESS_DSTATE, WAITER_TGID, WAITER_COMM, WAITER_WCHAN, WAITER_SINCE, METRIC_NONE},
};
enum { D_SCOPES = sizeof d_scopes / sizeof *d_scopes };

static bool in_d(const struct state_row *row, const struct d_scope *d)
{
        uint64_t value;

        return row && !row->gone && state_now(row, d->is, &value) && value == (uint64_t)d->value;
}

/* Rows of one task have one key, its start floored to 10 ms. */
static const struct state_row *d_row(const struct state *state, const struct d_scope *d, struct key key)
{
        const struct state_row *row = state_find(state, d->scope, (struct key){key.a, key.b / 10000000 * 10000000});

        if (!row)
                row = state_find(state, d->scope, key);
        return in_d(row, d) ? row : NULL;
}

bool tally_is_helper(const char *name, const char *wchan)
{
        return strcmp(name, "watopd") == 0 && (!wchan[0] || strcmp(wchan, "0") == 0 || strstr(wchan, "access_remote_vm") ||
                strstr(wchan, "mmap_lock") ||
                                               strstr(wchan, "rwsem_down_read"));
}

static void insert_task(struct tally *tally, const struct tally_task *task)
{
        size_t kept = tally->task_count < TALLY_TASKS ? tally->task_count : TALLY_TASKS, at = 0;

        tally->task_count++;
        while (at < kept && tally->tasks[at].age >= task->age)
                at++;
        if (at == TALLY_TASKS)
                return;
        memmove(&tally->tasks[at + 1], &tally->tasks[at], ((kept < TALLY_TASKS ? kept : TALLY_TASKS - 1) - at) * sizeof *task);
        tally->tasks[at] = *task;
}

/* A task is counted in the first scope that shows it in D state; it is as old as the oldest of its rows knows. */
static void add_task(const struct state *state, const struct state_row *row, int which, struct tally *tally)
{
        const struct d_scope *d = &d_scopes[which];
        struct tally_task task = {.tid = (int)row->key.a, .age = -1};
        double start = level(row, d->since, 1e-9);

        for (int i = 0; i < D_SCOPES; i++) {
                const struct state_row *same = i == which ? NULL : d_row(state, &d_scopes[i], row->key);
                if (same && i < which)
                        return;
                double other = same ? level(same, d_scopes[i].since, 1e-9) : -1;
                if (other >= 0 && (start < 0 || other < start))
                        start = other;
        }
        task.pid = d->tgid == METRIC_NONE ? task.tid : (int)level(row, d->tgid, 1);
        if (start >= 0)
                task.age = (double)state_info(state).boot_ns * 1e-9 - start;
        text_of(state, row, d->comm, task.name, sizeof task.name);
        text_of(state, row, d->wchan, task.wchan, sizeof task.wchan);
        if (tally_is_helper(task.name, task.wchan)) {
                tally->helpers++;
                return;
        }
        if (d->cmdline != METRIC_NONE)
                text_of(state, row, d->cmdline, task.cmdline, sizeof task.cmdline);
        if (wchan_apart(task.wchan)) {
                tally->apart++;
                return;
        }
        enum wchan_kind kind = wchan_kind(task.wchan);
        tally->d_device += kind == WCHAN_DEVICE;
        tally->d_elsewhere += kind == WCHAN_ELSEWHERE || kind == WCHAN_PLAIN;
        insert_task(tally, &task);
}

static void tally_tasks(const struct state *state, struct tally *tally)
{
        uint64_t value;

        for (int which = 0; which < D_SCOPES; which++)
                for (size_t i = 0, n = state_count(state, d_scopes[which].scope); i < n; i++) {
                        const struct state_row *row = state_at(state, d_scopes[which].scope, i);
                        if (in_d(row, &d_scopes[which]))
                                add_task(state, row, which, tally);
                }
        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                if (row->gone || !state_now(row, WAITER_WITNESS, &value))
                        continue;
                if (value == WITNESS_STORAGE)
                        tally->storage_threads++;
                else if (value >= WITNESS_WAITS && value < WITNESS_STORAGE)
                        add_waiter(state, row, (unsigned)value, tally);
        }
        qsort(tally->waiters, tally->waiter_count, sizeof tally->waiters[0], by_threads);
        /* The scan of all threads and their rows are of different moments: what was seen is not less than it was. */
        double others = tally->dstate - tally->helpers - tally->apart;
        tally->d_tasks = others > (double)tally->task_count ? others : (double)tally->task_count;
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

/* ---- devices ------------------------------------------------------------------------------------------------------------------------- */

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

/* Requests of each kind, and how long they took: what most of the waiting for a device was is their product. */
static void add_ways(const struct state *state, struct tally_device *device)
{
        static const char *const heads[TALLY_WAYS][2] = {{"r/s", "r_await"}, {"w/s", "w_await"}, {"d/s", "d_await"}, {"f/s", "f_await"}};

        for (int way = 0; way < TALLY_WAYS; way++) {
                double done = number_of(state, device->row, VIEW_DISK, heads[way][0]);
                double ms = number_of(state, device->row, VIEW_DISK, heads[way][1]);
                if (done <= 0 || ms < 0)
                        continue;
                device->done[way] = done;
                device->waited[way] = done * ms;
        }
}

static void tally_devices(const struct state *state, struct tally *tally)
{
        for (size_t i = 0, n = state_count(state, SCOPE_DISK); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_DISK, i);
                uint64_t kind, counted, bytes;
                if (row->gone || !state_now(row, DISK_KIND, &kind) || kind == 'p')
                        continue;
                struct tally_device device = {.row = row, .whole = kind == 'w'};
                if (device.whole && state_now(row, DISK_IOSTATS, &counted) && counted == 0 && state_now(row, DISK_SIZE, &bytes) &&
                        bytes > 0)
                        tally->uncounted++;
                device.inflight = word_in_flight(row);
                if (device.inflight > 0)
                        tally->in_flight += device.inflight;
                device.util = number_of(state, row, VIEW_DISK, "%util");
                device.queue = number_of(state, row, VIEW_DISK, "aqu-sz");
                device.r_await = number_of(state, row, VIEW_DISK, "r_await");
                device.w_await = number_of(state, row, VIEW_DISK, "w_await");
                device.rate = number_of(state, row, VIEW_SHORT, "tps");
                device.kb = number_of(state, row, VIEW_SHORT, "kB/s");
                device.stuck = level(row, DISK_STUCK, 1e-9);
                add_ways(state, &device);
                tally->devices_known = tally->devices_known || device.util >= 0;
                if (word_idle(row) || (device.util < 0 && !(device.inflight > 0)))
                        continue;
                text_of(state, row, DISK_NAME, device.name, sizeof device.name);
                text_of(state, row, DISK_DM_NAME, device.label, sizeof device.label);
                add_device(&device, tally);
        }
}

/* ---- all ----------------------------------------------------------------------------------------------------------------------------- */

static void tally_system(const struct state *state, struct tally *tally)
{
        const struct state_row *system = state_one(state, SCOPE_SYSTEM), *vm = state_one(state, SCOPE_VM);
        const struct state_row *io = state_find(state, SCOPE_PRESSURE, (struct key){.a = 1});
        double total = level(vm, VM_TOTAL, 1), available = level(vm, VM_AVAILABLE, 1);
        double swap = level(vm, VM_SWAP_TOTAL, 1), unused = level(vm, VM_SWAP_FREE, 1);

        tally->load1 = level(system, SYSTEM_LOAD1, 0.01);
        tally->load5 = level(system, SYSTEM_LOAD5, 0.01);
        tally->load15 = level(system, SYSTEM_LOAD15, 0.01);
        /* Who reads procs_running runs: one of them is watopd (as vmstat leaves itself out), and on an idle machine it is the only one. */
        tally->running = level(system, SYSTEM_RUNNING, 1);
        tally->running -= tally->running >= 1;
        tally->blocked = level(system, SYSTEM_BLOCKED, 1);
        tally->dstate = level(system, SYSTEM_DSTATE, 1);
        tally->d_seen = grown(system, SYSTEM_SUB_DSTATE);
        tally->io_some = rate(io, PRESSURE_SOME, 1e-7);
        tally->io_full = rate(io, PRESSURE_FULL, 1e-7);
        tally->io_some_uring = rate(io, PRESSURE_SOME_URING, 1e-7);
        tally->io_full_uring = rate(io, PRESSURE_FULL_URING, 1e-7);
        tally->io_some_uring_low = rate(io, PRESSURE_SOME_URING_MIN, 1e-7);
        tally->io_some_uring_high = rate(io, PRESSURE_SOME_URING_MAX, 1e-7);
        tally->io_full_uring_low = rate(io, PRESSURE_FULL_URING_MIN, 1e-7);
        tally->io_full_uring_high = rate(io, PRESSURE_FULL_URING_MAX, 1e-7);
        tally->tracer = (int)level(state_one(state, SCOPE_SELF), SELF_TRACER, 1);
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
        tally_who_make(state, tally);
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
        int n = snprintf(line, size, "load %s%% of %u%% (%.1f%%) = us+sy %s%s + hi+si %s", shown(load, sizeof load, &tally->load),
                tally->cores * 100,
                         tally->load_share, shown(us_sy, sizeof us_sy, &tally->us_sy), nice, shown(hi_si, sizeof hi_si, &tally->hi_si));
        return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

size_t tally_wa_line(const struct tally *tally, char *line, size_t size)
{
        char wa[32], disk[32], uring[32], other[32];
        int n = snprintf(line, size, "wa %s = disk %s + uring %s + other %s", shown(wa, sizeof wa, &tally->wa),
                shown(disk, sizeof disk, &tally->disk),
                         shown(uring, sizeof uring, &tally->uring), shown(other, sizeof other, &tally->other));

        return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

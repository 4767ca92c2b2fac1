/*
 * Where a phase's time went: cores, devices, processes, and whose work the load was.
 *
 * A process counts with what its counters gained, over the phase's whole time: one that lived for a tenth of it at 100% has 10%. So the
 * lines of a table add up, and shares of processes that came and went are part of their group.
 */
#include "tui/report_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/word.h"
#include "tui/device_order.h"

/* % of a core, and more than frames and files read some ms apart make. */
#define UNSEEN_LEAST 1.0

enum { CORES_MAX = 8192, DEVICES_MAX = 4096, TASKS_COMMAND = 12, TASKS_REST = 5, SEEN_BITS = 1024 };

const char *const report_cpu_names[REPORT_CPUS] = {"us", "sy", "ni", "id", "wa", "hi", "si", "st", "load", "wa_disk", "wa_uring",
        "wa_other"};
const char *const report_device_names[REPORT_DEVICES] = {"r/s", "w/s", "rkB/s", "wkB/s", "await", "%util"};
const char *const report_group_names[REPORT_GROUPS] = {"watched", "command", "softirq/irq", "rest"};

double report_grown(const struct state_row *row, int metric)
{
        double delta = 0;
        int r = row->has_base ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        return r == DELTA_ABSENT || r == DELTA_RESET ? 0 : delta;
}

static double number_of(struct value value)
{
        return value.kind == VALUE_NUMBER ? value.number : NAN;
}

enum report_group report_group_of(const struct report_maker *maker, struct key key)
{
        return member_has(&maker->watched, key) ? REPORT_WATCHED : member_has(&maker->members, key) ? REPORT_COMMAND : REPORT_REST;
}

static double cpu_ns(const struct state_row *row)
{
        return report_grown(row, PROCESS_USER_TIME) + report_grown(row, PROCESS_SYSTEM_TIME);
}

/* ---- one state's values --------------------------------------------------------------------------------------------------------- */

static const struct column *cpu_column(size_t i)
{
        static const struct column *columns[REPORT_CPUS];

        if (!columns[i])
                columns[i] = metric_column(VIEW_CPU, report_cpu_names[i]);
        return columns[i];
}

static const struct column *device_column(size_t i)
{
        static const struct column *columns[REPORT_DEVICES];

        if (!columns[i])
                columns[i] = metric_column(i == REPORT_AWAIT ? VIEW_SHORT : VIEW_DISK, report_device_names[i]);
        return columns[i];
}

/* What is known of whose the load was. Of the command: what samples saw of it at least, all of the cores' load but the others' at most;
 * its group's CPU time, where that was noted, says it exactly. */
struct loads {
        double value[REPORT_GROUPS], command_most, rest_least;
        double command_seen;          /* by processes in samples */
};

/* What the command's group used over the state's interval, % of a core; NAN not known. */
static double group_load(const struct report_maker *maker, const struct state *state)
{
        struct state_info info = state_info(state);
        double used = member_times_at(&maker->times, info.mono_ns) - member_times_at(&maker->times, info.base_mono_ns);

        return info.mono_ns > info.base_mono_ns ? used * 100 / (double)(info.mono_ns - info.base_mono_ns) : NAN;
}

static double not_below(double value)
{
        return value > 0 || isnan(value) ? value : 0;
}

/* known: the command's and what is watched of it, by another account, NAN none; exact, or the least that it can be. */
static void share_out(const struct report_maker *maker, double total, double known, bool exact, struct loads *loads)
{
        double *v = loads->value, others = (isnan(v[REPORT_WATCHED]) ? 0 : v[REPORT_WATCHED]) + (isnan(v[REPORT_IRQ]) ? 0 : v[REPORT_IRQ]);

        if (!isnan(v[REPORT_COMMAND]) && known > v[REPORT_COMMAND])
                v[REPORT_COMMAND] = known;
        double command = isnan(v[REPORT_COMMAND]) ? 0 : v[REPORT_COMMAND];
        /* Ticks of cores and times of processes differ by their rounding. */
        v[REPORT_REST] = not_below(total - others - command);
        loads->command_most = v[REPORT_COMMAND];
        loads->rest_least = v[REPORT_REST];
        if (maker->members_known && !exact && !isnan(v[REPORT_COMMAND]) && !isnan(total)) {
                loads->command_most += v[REPORT_REST];
                loads->rest_least = 0;
        }
}

/* least: of the command by wait4(2), % of a core; NAN not known. */
static void group_loads(const struct report_maker *maker, const struct state *state, double least, struct loads *loads)
{
        double seconds = state_seconds(state, SCOPE_PROCESS), both = 0, *v = loads->value;

        for (int i = 0; i < REPORT_GROUPS; i++)
                v[i] = NAN;
        v[REPORT_IRQ] = number_of(metric_value_sum(state, cpu_column(REPORT_HI), NULL, NULL)) +
                number_of(metric_value_sum(state, cpu_column(REPORT_SI), NULL, NULL));
        if (seconds > 0) {
                if (maker->report->watches)
                        v[REPORT_WATCHED] = 0;
                if (maker->members_known)
                        v[REPORT_COMMAND] = 0;
        }
        for (size_t i = 0; seconds > 0 && i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                enum report_group group = report_group_of(maker, row->key);
                if (group != REPORT_REST)
                        v[group] += cpu_ns(row) * 1e-7 / seconds;
                if (group == REPORT_WATCHED && member_has(&maker->members, row->key))
                        both += cpu_ns(row) * 1e-7 / seconds;
        }
        loads->command_seen = v[REPORT_COMMAND];
        double used = group_load(maker, state);
        bool exact = !isnan(used);
        share_out(maker, number_of(metric_value_sum(state, cpu_column(REPORT_LOAD), NULL, NULL)), (exact ? used : least) - both, exact,
                  loads);
}

void report_load_sample(const struct report_maker *maker, const struct report_phase *phase, const struct state *state, float *core,
                        float *total, float *device, float *group)
{
        struct loads loads;

        for (size_t c = 0; c < phase->core_count; c++) {
                const struct state_row *row = state_find(state, SCOPE_CPU, (struct key){.a = phase->cores[c].number});
                for (size_t i = 0; i < REPORT_CPUS; i++)
                        core[c * REPORT_CPUS + i] = row && !row->gone ? (float)number_of(metric_value(state, row, cpu_column(i))) : NAN;
        }
        for (size_t i = 0; i < REPORT_CPUS; i++)
                total[i] = (float)number_of(metric_value_sum(state, cpu_column(i), NULL, NULL));
        for (size_t d = 0; d < phase->device_count; d++) {
                const struct state_row *row = state_find(state, SCOPE_DISK, phase->devices[d].key);
                for (size_t i = 0; i < REPORT_DEVICES; i++)
                        device[d * REPORT_DEVICES + i] = row ? (float)number_of(metric_value(state, row, device_column(i))) : NAN;
        }
        group_loads(maker, state, NAN, &loads);
        for (int i = 0; i < REPORT_GROUPS; i++)
                group[i] = (float)loads.value[i];
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------------------- */

static struct report_task *task_of(struct report_phase *phase, enum report_group group, const char *name)
{
        for (size_t i = 0; i < phase->task_count; i++)
                if (phase->tasks[i].group == group && strcmp(phase->tasks[i].name, name) == 0)
                        return &phase->tasks[i];
        return NULL;
}

static void saw(struct report_task *task, const struct state_row *row, int metric)
{
        uint64_t core;

        if (task && state_now(row, metric, &core) && core < SEEN_BITS)
                task->seen[core / 64] |= UINT64_C(1) << core % 64;
}

/* Where those ran that ran. Threads tell more than their leader, where they were recorded. */
void report_load_seen(const struct report_maker *maker, struct report_phase *phase, const struct state *state)
{
        char name[64];

        for (size_t i = 0; i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                if (cpu_ns(row) > 0)
                        saw(task_of(phase, report_group_of(maker, row->key), state_text_copy(state, row, PROCESS_COMM, name, sizeof name)),
                            row, PROCESS_CORE);
        }
        for (size_t i = 0; i < state_count(state, SCOPE_THREAD); i++) {
                const struct state_row *row = state_at(state, SCOPE_THREAD, i);
                uint64_t tgid;
                if (report_grown(row, THREAD_USER_TIME) + report_grown(row, THREAD_SYSTEM_TIME) <= 0 || !state_now(row, THREAD_TGID, &tgid))
                        continue;
                for (size_t t = 0; t < phase->task_count; t++)
                        if (phase->tasks[t].row && phase->tasks[t].row->key.a == tgid)
                                saw(&phase->tasks[t], row, THREAD_CORE);
        }
}

static int by_group_and_name(const void *left, const void *right)
{
        const struct report_task *a = left, *b = right;

        return a->group != b->group ? (a->group < b->group ? -1 : 1) : strcmp(a->name, b->name);
}

static int by_group_and_load(const void *left, const void *right)
{
        const struct report_task *a = left, *b = right;

        if (a->group != b->group)
                return a->group < b->group ? -1 : 1;
        return a->cpu > b->cpu ? -1 : a->cpu < b->cpu ? 1 : strcmp(a->name, b->name);
}

/* Of each group the busiest; of the watched ones all. */
static void keep_busiest(struct report_phase *phase)
{
        size_t kept = 0, of_group[REPORT_GROUPS] = {0};

        qsort(phase->tasks, phase->task_count, sizeof *phase->tasks, by_group_and_load);
        for (size_t i = 0; i < phase->task_count; i++) {
                const struct report_task *task = &phase->tasks[i];
                size_t most = task->group == REPORT_WATCHED ? SIZE_MAX : task->group == REPORT_COMMAND ? TASKS_COMMAND : TASKS_REST;
                if (of_group[task->group]++ < most && (task->group == REPORT_WATCHED || task->cpu > 0))
                        phase->tasks[kept++] = *task;
        }
        phase->task_count = kept;
}

static int list_tasks(struct report_maker *maker, struct report_phase *phase)
{
        const struct state *state = phase->whole;
        size_t rows = state_count(state, SCOPE_PROCESS), used = 0;

        phase->tasks = calloc(rows ? rows : 1, sizeof *phase->tasks);
        if (!phase->tasks)
                return -ENOMEM;
        for (size_t i = 0; i < rows; i++) {
                struct report_task *task = &phase->tasks[i];
                task->row = state_at(state, SCOPE_PROCESS, i);
                task->group = report_group_of(maker, task->row->key);
                task->cpu = cpu_ns(task->row);
                state_text_copy(state, task->row, PROCESS_COMM, task->name, sizeof task->name);
        }
        qsort(phase->tasks, rows, sizeof *phase->tasks, by_group_and_name);
        for (size_t i = 0; i < rows; i++) {
                if (used > 0 && by_group_and_name(&phase->tasks[used - 1], &phase->tasks[i]) == 0) {
                        if (phase->tasks[i].cpu > cpu_ns(phase->tasks[used - 1].row))
                                phase->tasks[used - 1].row = phase->tasks[i].row;
                        phase->tasks[used - 1].cpu += phase->tasks[i].cpu;
                } else {
                        phase->tasks[used++] = phase->tasks[i];
                }
        }
        phase->task_count = used;
        keep_busiest(phase);
        struct report_task *smaller = realloc(phase->tasks, (phase->task_count ? phase->task_count : 1) * sizeof *smaller);
        phase->tasks = smaller ? smaller : phase->tasks;
        return 0;
}

static void add_share(double *sum, const struct state_row *row, int metric, double scale)
{
        double delta = 0;
        int r = row->has_base ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        if (r != DELTA_ABSENT && r != DELTA_RESET)
                *sum = (isnan(*sum) ? 0 : *sum) + delta * scale;
}

static void add_task(struct report_task *task, const struct state_row *row, double seconds)
{
        uint64_t threads;

        if (!task->row || cpu_ns(row) > cpu_ns(task->row))
                task->row = row;
        task->processes++;
        add_share(&task->usr, row, PROCESS_USER_TIME, 1e-7 / seconds);
        add_share(&task->usr, row, PROCESS_GUEST_TIME, -1e-7 / seconds);
        add_share(&task->guest, row, PROCESS_GUEST_TIME, 1e-7 / seconds);
        add_share(&task->system, row, PROCESS_SYSTEM_TIME, 1e-7 / seconds);
        add_share(&task->cpu, row, PROCESS_USER_TIME, 1e-7 / seconds);
        add_share(&task->cpu, row, PROCESS_SYSTEM_TIME, 1e-7 / seconds);
        add_share(&task->wait, row, PROCESS_RUN_DELAY, 1e-7 / seconds);
        add_share(&task->rkb, row, PROCESS_READ_BYTES, 1.0 / 1024 / seconds);
        add_share(&task->wkb, row, PROCESS_WRITE_BYTES, 1.0 / 1024 / seconds);
        if (state_now(row, PROCESS_THREADS, &threads))
                task->threads = (isnan(task->threads) ? 0 : task->threads) + (double)threads;
}

static void list_text(const uint64_t seen[SEEN_BITS / 64], char *text, size_t size)
{
        size_t length = 0;

        text[0] = '\0';
        for (unsigned i = 0; i < SEEN_BITS; i++) {
                unsigned first = i;
                if (!(seen[i / 64] >> i % 64 & 1))
                        continue;
                while (i + 1 < SEEN_BITS && seen[(i + 1) / 64] >> (i + 1) % 64 & 1)
                        i++;
                char piece[32];
                int n = first == i ? snprintf(piece, sizeof piece, "%s%u", length ? "," : "", i)
                        : snprintf(piece, sizeof piece, "%s%u-%u", length ? "," : "", first, i);
                if (n < 0 || length + (size_t)n + 4 > size) {
                        snprintf(text + length, size - length, "...");
                        return;
                }
                memcpy(text + length, piece, (size_t)n + 1);
                length += (size_t)n;
        }
}

static void task_means(struct report_maker *maker, struct report_phase *phase)
{
        double seconds = state_seconds(phase->state, SCOPE_PROCESS);
        char name[64];

        for (size_t i = 0; i < phase->task_count; i++) {
                struct report_task *task = &phase->tasks[i];
                task->row = NULL;
                task->usr = task->system = task->guest = task->wait = task->cpu = task->rkb = task->wkb = task->threads = NAN;
                list_text(task->seen, task->cores, sizeof task->cores);
        }
        for (size_t i = 0; seconds > 0 && i < state_count(phase->state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(phase->state, SCOPE_PROCESS, i);
                struct report_task *task = task_of(phase, report_group_of(maker, row->key), state_text_copy(phase->state, row, PROCESS_COMM,
                                name, sizeof name));
                if (task)
                        add_task(task, row, seconds);
        }
        for (size_t i = 0; i < phase->task_count; i++)
                if (!phase->tasks[i].row) /* only in the part that was cut off */
                        phase->tasks[i--] = phase->tasks[--phase->task_count];
        if (phase->task_count > 1)
                qsort(phase->tasks, phase->task_count, sizeof *phase->tasks, by_group_and_load);
}

/* ---- lists of cores and devices ------------------------------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
        const struct report_core *a = left, *b = right;

        return a->number < b->number ? -1 : a->number > b->number;
}

static int list_cores(struct report_phase *phase)
{
        size_t rows = state_count(phase->whole, SCOPE_CPU);

        phase->cores = calloc(rows ? rows : 1, sizeof *phase->cores);
        if (!phase->cores)
                return -ENOMEM;
        for (size_t i = 0; i < rows && phase->core_count < CORES_MAX; i++) {
                const struct state_row *row = state_at(phase->whole, SCOPE_CPU, i);
                if (!row->gone)
                        phase->cores[phase->core_count++].number = (unsigned)row->key.a;
        }
        if (phase->core_count > 1)
                qsort(phase->cores, phase->core_count, sizeof *phase->cores, by_number);
        return 0;
}

static void add_device(struct report_phase *phase, const struct state_row *row, unsigned depth)
{
        if (word_idle(row) || device_kind(row) == 'p' || device_kind(row) == 'h' || phase->device_count == DEVICES_MAX)
                return;
        struct report_disk_row *device = &phase->devices[phase->device_count++];
        *device = (struct report_disk_row){.key = row->key, .whole = row, .depth = depth};
        state_text_copy(phase->whole, row, DISK_NAME, device->name, sizeof device->name);
}

static void add_tree(struct report_phase *phase, struct device_order *order, int at, unsigned depth)
{
        struct device *device = &order->devices[at];

        if (device->done)
                return;
        device->done = true;
        size_t before = phase->device_count;
        add_device(phase, device->row, depth);
        depth += phase->device_count > before;
        for (int child = device->child; depth < 16 && child != DEVICE_NONE; child = order->devices[child].next)
                add_tree(phase, order, child, depth);
}

static int list_devices(struct report_phase *phase)
{
        struct device_order order = {0};
        size_t rows = state_count(phase->whole, SCOPE_DISK);

        phase->devices = calloc(rows ? rows : 1, sizeof *phase->devices);
        if (!phase->devices)
                return -ENOMEM;
        int r = device_order_make(&order, phase->whole);
        for (size_t i = 0; r == 0 && i < order.count; i++)
                if (order.devices[i].parent == DEVICE_NONE)
                        add_tree(phase, &order, (int)i, 0);
        for (size_t i = 0; r == 0 && i < order.count; i++) /* those of a circle */
                add_tree(phase, &order, (int)i, 0);
        device_order_fini(&order);
        for (size_t i = 0; r == 0 && i < rows; i++) { /* taken away within the phase: a loop device that a benchmark set up itself */
                const struct state_row *row = state_at(phase->whole, SCOPE_DISK, i);
                bool listed = false;
                for (size_t d = 0; row->gone && d < phase->device_count && !listed; d++)
                        listed = phase->devices[d].whole == row;
                if (row->gone && !listed)
                        add_device(phase, row, 0);
        }
        return r;
}

int report_load_lists(struct report_maker *maker, struct report_phase *phase)
{
        int r = list_cores(phase);

        if (r == 0)
                r = list_devices(phase);
        return r < 0 ? r : list_tasks(maker, phase);
}

/* ---- means ---------------------------------------------------------------------------------------------------------------------- */

static void core_means(struct report_phase *phase)
{
        phase->others_least = phase->others_most = NAN;
        for (size_t c = 0; c < phase->core_count; c++) {
                struct report_core *core = &phase->cores[c];
                const struct state_row *row = state_find(phase->state, SCOPE_CPU, (struct key){.a = core->number});
                for (size_t i = 0; i < REPORT_CPUS; i++)
                        core->value[i] = row && !row->gone ? number_of(metric_value(phase->state, row, cpu_column(i))) : NAN;
                double load = core->value[REPORT_LOAD];
                if (isnan(load) || core->number == phase->tally.busiest_core)
                        continue;
                phase->others_least = load > phase->others_least ? phase->others_least : load;
                phase->others_most = load < phase->others_most ? phase->others_most : load;
        }
}

/* What the group used beyond its processes that samples saw: a line of its own, so that the tasks add up. Not what times of reading
 * differ by. */
static void add_unseen(struct report_phase *phase, double unseen)
{
        struct report_task *grown = unseen >= UNSEEN_LEAST ? reallocarray(phase->tasks, phase->task_count + 1, sizeof *grown) : NULL;

        if (!grown)
                return;
        phase->tasks = grown;
        struct report_task *task = &phase->tasks[phase->task_count++];
        *task = (struct report_task){.group = REPORT_COMMAND, .cpu = unseen, .usr = NAN, .system = NAN, .guest = NAN, .wait = NAN,
                .rkb = NAN, .wkb = NAN, .threads = NAN, .name = "(ended between samples)"};
        qsort(phase->tasks, phase->task_count, sizeof *phase->tasks, by_group_and_load);
}

static void group_means(const struct report_maker *maker, struct report_phase *phase)
{
        struct loads loads;
        double least = NAN, seconds = report_seconds(&phase->full);

        if (phase->ran && phase->state == phase->whole && phase->end_mono_ns <= phase->full.to_mono_ns && seconds > 0)
                least = (double)(phase->user_ns + phase->system_ns) * 1e-7 / seconds; /* of children that were waited for */
        group_loads(maker, phase->state, least, &loads);
        memcpy(phase->groups, loads.value, sizeof phase->groups);
        phase->command_most = loads.command_most;
        phase->rest_least = loads.rest_least;
        if (!isnan(loads.command_seen))
                add_unseen(phase, loads.value[REPORT_COMMAND] - loads.command_seen);
}

/* A device that appeared meanwhile has no first reading: nothing can be said of it, and its counters since then are no means. */
static const struct state_row *with_base(const struct state_row *row)
{
        return row && row->has_base ? row : NULL;
}

void report_load_means(struct report_maker *maker, struct report_phase *phase)
{
        const struct state_row *self = state_one(phase->state, SCOPE_SELF);
        double seconds = state_seconds(phase->state, SCOPE_SELF), own = 0;

        tally_make(phase->state, &phase->tally);
        phase->load = number_of(phase->tally.load);
        phase->share = phase->tally.load_share;
        core_means(phase);
        for (size_t i = 0; i < phase->device_count; i++)
                phase->devices[i].used = with_base(state_find(phase->state, SCOPE_DISK, phase->devices[i].key));
        task_means(maker, phase);
        group_means(maker, phase);
        int r = self && self->has_base ? state_delta(self, SELF_CPU_TIME, &own) : DELTA_ABSENT;
        phase->own = r == DELTA_OK && seconds > 0 ? own * 1e-7 / seconds : NAN;
}

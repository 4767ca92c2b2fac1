/*
 * `watop why -v`: cores where they differ, who caused which part of wa, each waiter, control groups that stall on I/O, how sure it is and
 * what would make it surer, and what the load average is made of.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/options.h"
#include "tui/why.h"

static const char *const part_heads[TALLY_PARTS] = {"wa_disk", "wa_uring", "wa_other"};
static const char *const part_names[TALLY_PARTS] = {"disk", "uring", "other"};

/* ---- cores
 * ------------------------------------------------------------------------------------------------------------------------------- */

static double cell(const struct state *state, const struct state_row *row, const char *head)
{
        struct value value = metric_value(state, row, metric_column(VIEW_CPU, head));

        return value.kind == VALUE_NUMBER ? value.number : -1;
}

static struct why_cores one_core(const struct state *state, const struct state_row *row)
{
        struct why_cores core = {.first = (unsigned)row->key.a, .last = (unsigned)row->key.a, .count = 1, .load = cell(state, row,
                "load"), .wa = cell(state, row, "wa")};

        for (int part = 0; part < TALLY_PARTS; part++) {
                struct value value = metric_value(state, row, metric_column(VIEW_CPU, part_heads[part]));
                bool there = value.kind == VALUE_NUMBER;
                core.part[part] = there ? value.number : -1;
                core.low[part] = there ? value.low : -1;
                core.high[part] = there ? value.high : -1;
                core.mark[part] = there ? value.mark : MARK_EXACT;
        }
        core.level = core.wa > 0 ? tally_evidence(state, row, NULL, NULL) : NULL;
        return core;
}

static bool alike(const struct why_cores *group, const struct why_cores *core)
{
        bool same = (group->level == core->level) && (group->wa < 0) == (core->wa < 0) && fabs(group->load - core->load) < 5;

        for (int part = 0; part < TALLY_PARTS; part++)
                same = same && fabs(group->part[part] - core->part[part]) < 1;
        return same;
}

static void join(struct why_cores *group, const struct why_cores *core)
{
        double n = group->count;

        group->last = core->last;
        group->load = (group->load * n + core->load) / (n + 1);
        group->wa = (group->wa * n + core->wa) / (n + 1);
        for (int part = 0; part < TALLY_PARTS; part++) {
                group->part[part] = (group->part[part] * n + core->part[part]) / (n + 1);
                group->low[part] = (group->low[part] * n + core->low[part]) / (n + 1);
                group->high[part] = (group->high[part] * n + core->high[part]) / (n + 1);
                if (group->mark[part] != core->mark[part])
                        group->mark[part] = MARK_ESTIMATE;
        }
        group->count++;
}

static int by_number(const void *left, const void *right)
{
        const struct state_row *a = *(const struct state_row *const *)left, *b = *(const struct state_row *const *)right;

        return a->key.a < b->key.a ? -1 : a->key.a > b->key.a;
}

size_t why_group_cores(const struct state *state, struct why_cores *groups, size_t max)
{
        size_t n = state_count(state, SCOPE_CPU), kept = 0, count = 0;
        const struct state_row **rows = calloc(n ? n : 1, sizeof *rows);

        for (size_t i = 0; rows && i < n; i++)
                if (!state_at(state, SCOPE_CPU, i)->gone)
                        rows[kept++] = state_at(state, SCOPE_CPU, i);
        if (rows)
                qsort(rows, kept, sizeof *rows, by_number);
        for (size_t i = 0; i < kept; i++) {
                struct why_cores core = one_core(state, rows[i]);
                if (count && count <= max && alike(&groups[count - 1], &core))
                        join(&groups[count - 1], &core);
                else if (count++ < max)
                        groups[count - 1] = core;
        }
        free(rows);
        return count;
}

static void marked(double number, enum value_mark mark, char text[32])
{
        struct value value = {.kind = number < 0 ? VALUE_ABSENT : VALUE_NUMBER, .number = number, .mark = mark};

        value_format(text, 32, &value, 1);
}

static void text_of(double number, char text[32])
{
        marked(number, MARK_EXACT, text);
}

static void print_cores(const struct state *state)
{
        static struct why_cores groups[64];
        size_t count = why_group_cores(state, groups, sizeof groups / sizeof *groups), room = sizeof groups / sizeof *groups;

        putchar('\n');
        for (size_t i = 0; i < count && i < room; i++) {
                const struct why_cores *group = &groups[i];
                char name[32], wa[32], load[32], part[TALLY_PARTS][32];
                if (group->first == group->last)
                        snprintf(name, sizeof name, "cpu%u", group->first);
                else
                        snprintf(name, sizeof name, "cpu%u-%u", group->first, group->last);
                text_of(group->wa, wa);
                text_of(group->load, load);
                for (int p = 0; p < TALLY_PARTS; p++)
                        marked(group->part[p], group->mark[p], part[p]);
                printf("%-11s %5s = disk %s + uring %s + other %s%s%s   load %s%s\n", name, wa, part[0], part[1], part[2], group->level ?
                        ", " : "", group->level ? group->level : "",
                       load, group->count > 1 ? " each" : "");
        }
        if (count > room)
                printf("            %zu more groups of cores: watop cpu 1\n", count - room);
}

/* ---- who
 * ------------------------------------------------------------------------------------------------------------------------------------ */

struct thread {
        const struct state_row *row;
        double share[TALLY_PARTS], most;
};

static int by_most(const void *left, const void *right)
{
        const struct thread *a = left, *b = right;

        if (a->most != b->most)
                return a->most > b->most ? -1 : 1;
        return a->row->key.a < b->row->key.a ? -1 : a->row->key.a > b->row->key.a;
}

static double grown(const struct state_row *row, int metric)
{
        double delta = 0, seconds = row->has_base ? state_row_seconds(row) : 0;
        int outcome = seconds > 0 ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        return outcome == DELTA_ABSENT || outcome == DELTA_RESET ? -1 : delta / seconds * 1e-7;
}

static void print_name(const struct state *state, const struct state_row *row)
{
        char raw[64], name[128], id[48];
        uint64_t tgid = 0;

        state_now(row, WAITER_TGID, &tgid);
        snprintf(id, sizeof id, "%llu/%llu", (unsigned long long)tgid, (unsigned long long)row->key.a);
        state_text_copy(state, row, WAITER_COMM, raw, sizeof raw);
        clean_screen(name, sizeof name, raw, strlen(raw), option_utf8(), 15, NULL);
        printf("%-15s %-15s", id, name);
}

static void print_threads(const struct state *state)
{
        static const int ids[TALLY_PARTS] = {WAITER_WA_DISK, WAITER_WA_URING, WAITER_WA_OTHER};
        size_t n = state_count(state, SCOPE_WAITER), count = 0;
        struct thread *threads = calloc(n ? n : 1, sizeof *threads);

        for (size_t i = 0; threads && i < n; i++) {
                struct thread *thread = &threads[count];
                thread->row = state_at(state, SCOPE_WAITER, i);
                thread->most = 0;
                for (int part = 0; part < TALLY_PARTS; part++) {
                        thread->share[part] = grown(thread->row, ids[part]);
                        thread->most = thread->share[part] > thread->most ? thread->share[part] : thread->most;
                }
                count += thread->most >= TALLY_WHO_SHARE;
        }
        if (threads)
                qsort(threads, count, sizeof *threads, by_most);
        for (size_t i = 0; i < count && i < 12; i++) {
                printf("caused ");
                print_name(state, threads[i].row);
                for (int part = 0; part < TALLY_PARTS; part++) {
                        char text[32];
                        text_of(threads[i].share[part], text);
                        printf(" %s %s", part_names[part], text);
                }
                putchar('\n');
        }
        if (count > 12)
                printf("caused by %zu more threads\n", count - 12);
        free(threads);
}

static void print_waiters(const struct state *state)
{
        static const char *const words[] = {"nothing is proved", "not counted: its core went idle", "waits for completions",
                "parked for the whole tick",
                                            "parked, nothing on a device", "storage is pending on its rings", "in D state"};

        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                char raw[64], channel[72], clean[80], line[256], on[32] = "cpu-";
                uint64_t witness = 0, core = 0;
                if (row->gone || !state_now(row, WAITER_WITNESS, &witness) || witness >= sizeof words / sizeof *words)
                        continue;
                if (state_now(row, WAITER_CORE, &core))
                        snprintf(on, sizeof on, "cpu%llu", (unsigned long long)core);
                state_text_copy(state, row, WAITER_WCHAN, raw, sizeof raw);
                why_channel(raw, channel, sizeof channel);
                if (witness > 1 && witness < 6) /* where such a thread sleeps is no news */
                        channel[0] = '\0';
                clean_screen(clean, sizeof clean, channel, strlen(channel), false, 60, NULL);
                printf("waiter ");
                print_name(state, row);
                snprintf(line, sizeof line, " %s %s%s%s", on, words[witness], clean[0] ? ": " : "", clean);
                verdict_fit(line, WHY_COLUMNS - 38);
                printf("%s\n", line);
        }
}

static void print_groups(const struct state *state, const struct tally *tally)
{
        enum { SHOWN = 4 };
        struct why_group groups[SHOWN];
        size_t count = why_groups(state, groups, SHOWN);

        for (size_t i = 0; i < count && i < SHOWN; i++) {
                const struct why_group *group = &groups[i];
                char some[64], full[64], path[300], whole[32];
                /* on which cores a group's tasks stalled is known of waiters only: always an estimate */
                why_pressure(tally, &(struct why_part){group->some, group->some_uring, -1, -1}, some, sizeof some);
                why_pressure(tally, &(struct why_part){group->full, group->full_uring, -1, -1}, full, sizeof full);
                clean_screen(path, sizeof path, group->path, strlen(group->path), option_utf8(), 200, NULL);
                text_of(group->full, whole);
                printf("group  io some %.1f%%%s, full %s%%%s: %s\n", group->some, some, whole, full, path);
        }
        if (count > SHOWN)
                printf("group  %zu more that stall on I/O\n", count - SHOWN);
}

/* ---- how sure, and what else
 * ------------------------------------------------------------------------------------------------------------------ */

static void print_evidence(const struct tally *tally, const struct why_context *context)
{
        static const struct { const char *level, *text; } texts[] = {
                {"exact", "traced: every wait was seen as it began and ended"},
                {"parked", "threads proved asleep in io_uring for whole ticks"},
                {"seen", "threads seen in io_uring waits at looks between ticks"},
                {"bound", "only from what devices had in flight"},
                {"none", "nothing could be said of it"},
        };
        char raise[80];

        if (!tally->level)
                return;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                if (strcmp(texts[i].level, tally->level) == 0)
                        printf("level  %s: %s\n", texts[i].level, texts[i].text);
        why_raise(tally, context, raise, sizeof raise);
        if (raise[0])
                printf("       surer: %s\n", raise);
        if (tally->seconds < 0.5)
                printf("       the interval is short (%.2f s): clock ticks of 10 ms weigh much\n", tally->seconds);
}

static void print_average(const struct tally *tally)
{
        if (tally->load1 < 0 || tally->running < 0)
                return;
        printf("loadavg %.2f, %.2f, %.2f over 1, 5, 15 minutes; now %.0f running + %.0f in D state\n", tally->load1, tally->load5,
                tally->load15, tally->running,
               tally->d_tasks);
        if (tally->waiter_threads)
                printf("       %zu io_uring sleeper%s (S state) in wa, not in loadavg\n", tally->waiter_threads,
                        tally->waiter_threads == 1 ? "" : "s");
        if (tally->blocked >= 0 && tally->blocked > tally->d_tasks)
                printf("       procs_blocked is %.0f: %s\n", tally->blocked, tally->waiter_threads ?
                        "the kernel counts io_uring sleepers in it" : "not only tasks in D state are counted in it");
}

static void print_hidden(const struct tally *tally)
{
        size_t kept = tally->io_count < TALLY_IO ? tally->io_count : TALLY_IO;

        for (size_t i = 0; i < kept; i++) {
                const struct tally_io *io = &tally->io[i];
                const char *engine = tally_engine(io);
                char name[64];
                clean_screen(name, sizeof name, io->name, strlen(io->name), option_utf8(), 16, NULL);
                printf("io     %s[%d] %.0f kB/s%s%s%s\n", name, io->pid, io->kb, engine ? " by " : "", engine ? engine : "",
                       engine && io->aio > 0 ? ": such waits are never iowait" : "");
        }
}

void why_details(const struct state *state, const struct tally *tally, const struct verdict *verdict, const struct why_context *context)
{
        (void)verdict;
        print_cores(state);
        putchar('\n');
        print_threads(state);
        print_waiters(state);
        print_hidden(tally);
        print_groups(state, tally);
        print_evidence(tally, context);
        print_average(tally);
}

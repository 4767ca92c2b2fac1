/*
 * The evidence behind a verdict, as lines: load, wa and its parts, since when, who sleeps in io_uring, who caused the rest, devices,
 * D-state tasks, what
 * is not known and what would show it, one command to run next.
 *
 * Each line says only what was measured, in numbers; a line about nothing is left out, except where nothing is the evidence ("nothing in
 * flight").
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sample/wchan.h"
#include "tui/clean.h"
#include "tui/why.h"

struct lines {
        char (*at)[WHY_WIDTH];
        size_t count, max;
};

static void add(struct lines *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct lines *lines, const char *format, ...)
{
        va_list list;
        char raw[WHY_WIDTH];

        if (lines->count == lines->max)
                return;
        va_start(list, format);
        vsnprintf(raw, sizeof raw, format, list);
        va_end(list);
        clean_screen(lines->at[lines->count], WHY_WIDTH, raw, strlen(raw), false, WHY_WIDTH - 1, NULL);
        verdict_fit(lines->at[lines->count++], WHY_COLUMNS);
}

void why_channel(const char *wchan, char *text, size_t size)
{
        const char *word = wchan[0] && strcmp(wchan, "0") != 0 ? wchan_word(wchan) : NULL;

        text[0] = '\0';
        if (word)
                snprintf(text, size, "%.28s (%.28s)", word, wchan);
        else if (wchan[0] && strcmp(wchan, "0") != 0)
                snprintf(text, size, "%.40s", wchan);
}

/* "03:02:11", with the date when that is not today. */
static void clock_of(uint64_t real_ns, uint64_t now_ns, char *text, size_t size)
{
        time_t then = (time_t)(real_ns / UINT64_C(1000000000)), now = (time_t)(now_ns / UINT64_C(1000000000));
        struct tm at, today;

        text[0] = '\0';
        if (localtime_r(&then, &at) && localtime_r(&now, &today))
                strftime(text, size, at.tm_yday == today.tm_yday && at.tm_year == today.tm_year ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &at);
}

static void add_load(struct lines *lines, const struct tally *tally)
{
        char load[32], average[64] = "";
        double present = tally->running + tally->d_tasks;
        bool sleepers = tally->waiter_threads && tally->uring.kind == VALUE_NUMBER && tally->uring.number >= 5;

        value_format(load, sizeof load, &tally->load, 1);
        if (tally->load1 >= 0 && tally->running >= 0)
                snprintf(average, sizeof average, "   loadavg %.2f: %.0f running, %.0f in D state%s", tally->load1, tally->running,
                        tally->d_tasks,
                         tally->threads_known ? "" : " seen");
        add(lines, "load   %s%% of %u%% (%.1f%%)%s", load, tally->cores * 100, tally->load_share, average);
        /* Said where the figure would lead astray: high, and neither the present nor the load of the cores explains it. */
        if (average[0] && tally->load1 >= 1.5 * present + 1 && tally->load1 > tally->cores)
                add(lines, "       loadavg is %s: now it would be %.0f%s", sleepers ? "a mean" : "the last minutes' mean", present,
                        sleepers ? "; io_uring sleepers are not in it" : "");
}

static void add_wa(struct lines *lines, const struct tally *tally)
{
        char line[112], taken[40] = "";

        tally_wa_line(tally, line, sizeof line);
        if (tally->taken_back >= 10)
                snprintf(taken, sizeof taken, "; %.0f ms taken back", tally->taken_back);
        if (tally->wa.kind == VALUE_NUMBER && tally->wa.number >= 0.05)
                add(lines, "wa     %s   %.1f s%s%s%s", line + 3, tally->seconds, tally->level ? ", " : "", tally->level ? tally->level :
                        "", taken);
        else
                add(lines, "wa     %s   %.1f s%s", line + 3, tally->seconds, taken);
}

/* A history that holds hardly more than what was measured says nothing. */
static bool history_tells(const struct tally *tally, const struct why_context *context)
{
        return context && context->history && context->history->span >= 2 * tally->seconds + 1;
}

static void add_since(struct lines *lines, const struct tally *tally, const struct why_context *context)
{
        const struct why_history *history = history_tells(tally, context) ? context->history : NULL;
        char since[40], share[24] = "";

        if (!history || !history->since_known || tally->wa.number < 5)
                return;
        clock_of(history->since_ns, history->since_ns + (uint64_t)(history->since_seconds * 1e9), since, sizeof since);
        if (history->since_whole)
                snprintf(share, sizeof share, ", all of the history");
        add(lines, "since  %s%s, %.0f s%s", history->since_whole ? "before " : "", since, history->since_seconds, share);
}

static void add_waiters(struct lines *lines, const struct tally *tally)
{
        size_t named = 0;

        for (size_t i = 0; i < tally->waiter_count && i < 2; i++) {
                const struct tally_waiters *group = &tally->waiters[i];
                char cores[32] = "", parked[32] = "", end[48];
                named += group->threads;
                if (group->cores && group->first_core == group->last_core)
                        snprintf(cores, sizeof cores, ", cpu%u", group->first_core);
                else if (group->cores)
                        snprintf(cores, sizeof cores, ", cpu%u-%u", group->first_core, group->last_core);
                if (group->parked == group->threads)
                        snprintf(parked, sizeof parked, ", parked");
                else if (group->parked)
                        snprintf(parked, sizeof parked, ", %u parked", group->parked);
                if (i == 1 && tally->waiter_threads > named) /* others are worth more than how often these woke: a line has 80 columns */
                        snprintf(end, sizeof end, "; %zu threads more", tally->waiter_threads - named);
                else
                        snprintf(end, sizeof end, ", woke %.0f times", group->woke);
                add(lines, "uring  %.16s[%d] %.20s: %u thread%s%s%s%s", group->process, group->pid, group->names, group->threads,
                    group->threads == 1 ? "" : "s", cores, parked, end);
        }
        if (tally->storage_threads)
                add(lines, "uring  %zu thread%s with reads, writes or syncs of %s own pending", tally->storage_threads,
                        tally->storage_threads == 1 ? "" : "s",
                    tally->storage_threads == 1 ? "its" : "their");
}

/* Who had the waits that are not io_uring sleep: by tracing, or as far as it could be proved. */
static void add_who(struct lines *lines, const struct tally *tally)
{
        static const struct { enum tally_part part; const char *name; } parts[] = {{TALLY_DISK, "disk"}, {TALLY_OTHER, "other"}};
        char text[WHY_WIDTH] = "";
        size_t used = 0;

        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
                const struct value *value = parts[p].part == TALLY_DISK ? &tally->disk : &tally->other;
                size_t count = tally->who_count[parts[p].part];
                for (size_t i = 0; i < count && i < 2 && value->kind == VALUE_NUMBER && value->number >= 1 && used < sizeof text; i++) {
                        const struct tally_who *who = &tally->who[parts[p].part][i];
                        int n = snprintf(text + used, sizeof text - used, "%s%s%s%.14s[%d] %.1f", i ? ", " : used ? "; " : "", i ? "" :
                                parts[p].name,
                                         i ? "" : ": ", who->name, who->pid, who->share);
                        used += n > 0 ? (size_t)n : 0;
                }
        }
        if (used)
                add(lines, "who    %s", text);
}

/* "412" or "2.10" */
static const char *ms_text(double ms, char text[24])
{
        snprintf(text, 24, ms >= 100 ? "%.0f" : "%.2f", ms);
        return text;
}

static void add_normal(struct lines *lines, const struct tally_device *device, const struct tally *tally, const struct why_context *context)
{
        const struct why_history *history = history_tells(tally, context) ? context->history : NULL;
        char normal[24], text[64] = "", since[40];

        if (!history || strcmp(history->device, device->name) != 0)
                return;
        if (history->normal >= 0)
                snprintf(text, sizeof text, "normally %s ms (last %.0f s)", ms_text(history->normal, normal), history->span);
        if (history->slow_known) {
                uint64_t now = history->steps[(history->first + history->count - 1) % WHY_STEPS].real_ns;
                clock_of(history->slow_ns, now, since, sizeof since);
                add(lines, "       %s%sslow since %s%s", text, text[0] ? "; " : "", history->slow_whole ? "before " : "", since);
        } else if (text[0] && (device->w_await > 2 * history->normal || device->r_await > 2 * history->normal)) {
                add(lines, "       %s", text);
        }
}

/* "-" of what could not be computed: absent is not 0. */
static const char *known(double number, unsigned decimals, char text[24])
{
        struct value value = {.kind = number < 0 ? VALUE_ABSENT : VALUE_NUMBER, .number = number};

        value_format(text, 24, &value, decimals);
        return text;
}

static void add_device(struct lines *lines, const struct tally_device *device)
{
        char stuck[48] = "", waits[64] = "", ms[24], rate[24], kb[24], queue[24], util[24], flight[24];

        if (device->stuck >= 1)
                snprintf(stuck, sizeof stuck, " STUCK %.0f s", device->stuck);
        if (device->r_await >= 0)
                snprintf(waits, sizeof waits, " r %s", ms_text(device->r_await, ms));
        if (device->w_await >= 0)
                snprintf(waits + strlen(waits), sizeof waits - strlen(waits), " w %s", ms_text(device->w_await, ms));
        add(lines, "disk   %.12s%s%.12s%s %s req/s %s kB/s%s%s%s aqu-sz %s %s%% infl %s", device->name, device->label[0] ? " " : "",
            device->label, stuck, known(device->rate, 0, rate), known(device->kb, 0, kb), waits[0] ? " await" : "", waits,
            waits[0] ? " ms" : "", known(device->queue, 1, queue), known(device->util, 0, util), known(device->inflight, 0, flight));
}

/* Whose requests keep a device busy that wa does not show: waits that the kernel never counts. */
static void add_hidden(struct lines *lines, const struct tally *tally)
{
        const struct tally_io *io = tally->io_count ? &tally->io[0] : NULL;
        bool busy = false;
        char by[48] = "", more[32] = "";

        for (size_t i = 0; i < tally->device_count && i < TALLY_DEVICES; i++)
                busy = busy || tally->devices[i].util >= 50;
        if (!busy || (tally->disk.kind == VALUE_NUMBER && tally->disk.number >= 5))
                return;
        const char *engine = io ? tally_engine(io) : NULL;
        if (engine)
                snprintf(by, sizeof by, " by %s", engine);
        if (tally->io_count > 1)
                snprintf(more, sizeof more, "; %zu more", tally->io_count - 1);
        if (io)
                add(lines, "does   %.15s[%d] reads and writes %.0f kB/s%s%s", io->name, io->pid, io->kb, by, more);
        else
                add(lines, "does   who owns the requests could not be seen");
}

static void add_devices(struct lines *lines, const struct tally *tally, const struct verdict *verdict, const struct why_context *context)
{
        size_t shown = 0;

        /* Two of them: the one that the answer names, and the busiest. */
        for (int i = -1; i < (int)tally->device_count && i < TALLY_DEVICES && shown < 2; i++) {
                if (i == verdict->device || (i < 0 && verdict->device < 0))
                        continue;
                const struct tally_device *device = &tally->devices[i < 0 ? verdict->device : i];
                if (device->util < 1 && !(device->inflight > 0))
                        continue;
                add_device(lines, device);
                add_normal(lines, device, tally, context);
                shown++;
        }
        if (shown)
                return;
        char flight[32] = "nothing in flight";
        if (tally->in_flight > 0) /* on a device that is not among the busiest */
                snprintf(flight, sizeof flight, "%.0f in flight", tally->in_flight);
        if (!tally->devices_known)
                add(lines, "disks  - could not be read");
        else if (tally->device_count)
                add(lines, "disks  %s; busiest %.24s %.1f%% util, %.0f requests/s", flight, tally->devices[0].name,
                    tally->devices[0].util < 0 ? 0 : tally->devices[0].util, tally->devices[0].rate < 0 ? 0 : tally->devices[0].rate);
        else
                add(lines, "disks  nothing in flight, no request in %.1f s", tally->seconds);
}

static void add_tasks(struct lines *lines, const struct tally *tally)
{
        size_t kept = tally->task_count < TALLY_TASKS ? tally->task_count : TALLY_TASKS;

        for (size_t i = 0; i < kept && i < 2; i++) {
                const struct tally_task *task = &tally->tasks[i];
                char channel[72], age[48] = "", more[48] = "";
                why_channel(task->wchan, channel, sizeof channel);
                if (i == 1 && tally->task_count > 2)
                        snprintf(more, sizeof more, "; %zu more", tally->task_count - 2);
                if (task->age >= 0)
                        snprintf(age, sizeof age, ", %.1f s%s", task->age, channel[0] ? "" : " or more");
                add(lines, "waits  %.15s[%d] in %s%s%s", task->name, task->pid, channel[0] ? channel : "D state", age, more);
        }
}

bool why_part_value(const struct tally *tally, const struct why_part *p, struct value *value)
{
        bool bounds = p->low >= 0 && p->high >= 0;
        double number = p->part < p->whole ? p->part : p->whole, high = p->high < p->whole ? p->high : p->whole;

        if (p->part < 0 || p->whole < 0)
                return false;
        *value = (struct value){.kind = VALUE_NUMBER, .number = number, .low = bounds ? p->low : 0, .high = bounds ? high : p->whole};
        if (number < 0.5 && bounds && high >= 5 && tally->waiter_threads) { /* nothing, as far as is known, but it can be much */
                value->number = high;
                value->mark = MARK_AT_MOST;
                return true;
        }
        value->mark = bounds ? metric_mark(number, value->low, value->high) : MARK_ESTIMATE;
        return number >= 0.5 || (tally->waiter_threads && value->mark == MARK_EXACT);
}

void why_pressure(const struct tally *tally, const struct why_part *part, char *text, size_t size)
{
        struct value value;
        char shown[32];

        text[0] = '\0';
        if (!why_part_value(tally, part, &value))
                return;
        value_format(shown, sizeof shown, &value, 0);
        snprintf(text, size, " (%s of it io_uring)", shown);
}

static void add_pressure(struct lines *lines, const struct tally *tally)
{
        char some[64], full[64];

        if (tally->io_some < 1)
                return;
        why_pressure(tally, &(struct why_part){tally->io_some, tally->io_some_uring, tally->io_some_uring_low, tally->io_some_uring_high},
                     some, sizeof some);
        why_pressure(tally, &(struct why_part){tally->io_full, tally->io_full_uring, tally->io_full_uring_low, tally->io_full_uring_high},
                     full, sizeof full);
        if (some[0])
                add(lines, "PSI    io some %.0f%%%s, full %.0f%%%s", tally->io_some, some, tally->io_full < 0 ? 0 : tally->io_full, full);
        else if (tally->waiter_threads)
                add(lines, "PSI    io some %.0f%%, full %.0f%%: io_uring sleepers count as stalled in it", tally->io_some,
                        tally->io_full < 0 ? 0 : tally->io_full);
        else
                add(lines, "PSI    io some %.0f%%, full %.0f%% of the time", tally->io_some, tally->io_full < 0 ? 0 : tally->io_full);
}

void why_raise(const struct tally *tally, const struct why_context *context, char *text, size_t size)
{
        bool exact = tally->level && strcmp(tally->level, "exact") == 0;

        text[0] = '\0';
        if (!context || !context->source_known || !tally->level || exact)
                return;
        if (context->captured)
                snprintf(text, size, "a recording: what was seen is all there is");
        else if (context->no_bpf)
                snprintf(text, size, "without --no-bpf: exact, if you may trace");
        else if (!context->root)
                snprintf(text, size, "as root, or with watopd: exact and named");
        else if (tally->tracer == 1)
                snprintf(text, size, "tracing is ready and was not attached: exact from now on");
        else if (tally->tracer == 0 && !context->btf)
                snprintf(text, size, "exact needs a kernel with BTF (CONFIG_DEBUG_INFO_BTF)");
        else if (tally->tracer == 0)
                snprintf(text, size, "exact needs tracing: watopd --check says why it is not possible");
        else if (tally->seconds < 0.5)
                snprintf(text, size, "measure longer: -n 3");
}

/* What is not known, and what would show it. */
static void add_unknown(struct lines *lines, const struct tally *tally, const struct why_context *context)
{
        bool weak = tally->level && (strcmp(tally->level, "bound") == 0 || strcmp(tally->level, "none") == 0);
        double other = tally->other.kind == VALUE_NUMBER ? tally->other.number : 0;
        char raise[80];

        why_raise(tally, context, raise, sizeof raise);
        if (tally->uncounted)
                add(lines, "more   %u device%s not counted (queue/iostats is 0): disk may be more", tally->uncounted,
                        tally->uncounted == 1 ? " is" : "s are");
        else if (other >= 5 && weak && raise[0])
                add(lines, "more   who waits is not known: %s", raise);
        else if (other >= 5 && weak && geteuid() != 0)
                add(lines, "more   who waits cannot be seen with your rights: run as root, or start watopd");
        else if (other >= 5 && tally->waiter_threads && (!tally->level || strcmp(tally->level, "exact") != 0))
                add(lines, "more   other: not proved to be the io_uring sleepers; they may share it");
        else if (other >= 5 && !tally->task_count && !tally->who_count[TALLY_OTHER])
                add(lines, "more   other: no task in D state was seen; cause not known");
        else if (tally->disk.kind == VALUE_NUMBER && tally->disk.mark != MARK_EXACT && tally->disk.number >= 5)
                add(lines, "more   disk is between %.1f and %.1f%s%s", tally->disk.low, tally->disk.high, raise[0] ? ": " : "", raise);
        else if (weak && raise[0] && tally->wa.kind == VALUE_NUMBER && tally->wa.number >= 5)
                add(lines, "more   %s", raise);
}

static void add_next(struct lines *lines, const struct tally *tally, const struct verdict *verdict, const struct why_context *context)
{
        const char *device = verdict->device >= 0 ? tally->devices[verdict->device].name : tally->device_count ? tally->devices[0].name :
                "";
        const struct selftest_ring *ring = context ? context->ring : NULL;

        switch (verdict->answer) {
        case ANSWER_NOT_A_DISK:
                add(lines, "todo   judge this machine by load, not by wa:  watop cpu 1");
                if (tally->waiter_threads && ring && ring->offer == RING_WORKS)
                        add(lines, ring->no_iowait ? "       a program can ask not to be counted (NO_IOWAIT); this kernel offers it" :
                            "       a program could ask not to be counted (Linux 6.15); not on this kernel");
                break;
        case ANSWER_DISK_SLOW: add(lines, "todo   watop disk %.24s 1      errors and resets:  journalctl -k -g %.24s", device,
                device); break;
        case ANSWER_PARTLY: add(lines, "todo   watop task -d 1      who reads and writes"); break;
        case ANSWER_OTHER:
        case ANSWER_WAITING:
                if (tally->task_count)
                        add(lines, "todo   watop task -t -p %d 1      its threads, states and ages", tally->tasks[0].pid);
                else
                        add(lines, "todo   watop task -t --all 1      all threads, their states and ages");
                break;
        case ANSWER_BUSY: add(lines, device[0] && (verdict->waits || tally->devices[0].util >= 50) ?
                "todo   watop task -d 1      who reads and writes" : "todo   watop task 1      who uses the cores"); break;
        case ANSWER_NOTHING: add(lines, "todo   nothing; watop shows it live"); break;
        }
}

size_t why_evidence(const struct tally *tally, const struct verdict *verdict, const struct why_context *context, char at[][WHY_WIDTH],
        size_t max)
{
        struct lines lines = {.at = at, .max = max};

        if (!tally->valid)
                return 0;
        add_load(&lines, tally);
        add_wa(&lines, tally);
        add_since(&lines, tally, context);
        add_waiters(&lines, tally);
        add_who(&lines, tally);
        add_devices(&lines, tally, verdict, context);
        add_hidden(&lines, tally);
        add_tasks(&lines, tally);
        add_pressure(&lines, tally);
        add_unknown(&lines, tally, context);
        add_next(&lines, tally, verdict, context);
        return lines.count;
}

size_t why_lines(const struct state *state, const struct why_context *context, char lines[][WHY_WIDTH], size_t max)
{
        struct tally tally;
        struct verdict verdict;

        if (max == 0)
                return 0;
        tally_make(state, &tally);
        verdict_make(state, &tally, &verdict);
        snprintf(lines[0], WHY_WIDTH, "%.*s", WHY_WIDTH - 1, verdict.line);
        return 1 + why_evidence(&tally, &verdict, context, lines + 1, max - 1);
}

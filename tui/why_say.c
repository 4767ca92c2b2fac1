/*
 * The evidence behind a verdict, as lines: load, wa and its parts, who sleeps in io_uring, devices, D-state tasks, what is not known and what would show
 * it, one command to run next.
 *
 * Each line says only what was measured, in numbers; a line about nothing is left out, except where nothing is the evidence ("nothing in flight").
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        clean_screen(lines->at[lines->count++], WHY_WIDTH, raw, strlen(raw), false, WHY_WIDTH - 1, NULL);
}

static void add_load(struct lines *lines, const struct tally *tally)
{
        char load[32], average[64] = "";

        value_format(load, sizeof load, &tally->load, 1);
        if (tally->load1 >= 0 && tally->running >= 0)
                snprintf(average, sizeof average, "      loadavg %.2f: %.0f running, %.0f in D state%s", tally->load1, tally->running, tally->d_tasks,
                         tally->threads_known ? "" : " seen");
        add(lines, "load   %s%% of %u%% (%.1f%%)%s", load, tally->cores * 100, tally->load_share, average);
}

static void add_wa(struct lines *lines, const struct tally *tally)
{
        char line[112], taken[40] = "";

        tally_wa_line(tally, line, sizeof line);
        if (tally->taken_back >= 10)
                snprintf(taken, sizeof taken, "; %.0f ms taken back", tally->taken_back);
        if (tally->wa.kind == VALUE_NUMBER && tally->wa.number >= 0.05)
                add(lines, "wa     %s   %.1f s%s%s%s", line + 3, tally->seconds, tally->level ? ", evidence: " : "", tally->level ? tally->level : "", taken);
        else
                add(lines, "wa     %s   %.1f s%s", line + 3, tally->seconds, taken);
}

static void add_waiters(struct lines *lines, const struct tally *tally)
{
        for (size_t i = 0; i < tally->waiter_count && i < 2; i++) {
                const struct tally_waiters *group = &tally->waiters[i];
                char cores[32] = "", more[48] = "";
                if (group->cores && group->first_core == group->last_core)
                        snprintf(cores, sizeof cores, " on cpu%u", group->first_core);
                else if (group->cores)
                        snprintf(cores, sizeof cores, " on cpu%u-%u", group->first_core, group->last_core);
                if (i == 1 && tally->waiter_count > 2)
                        snprintf(more, sizeof more, "; %zu more", tally->waiter_count - 2);
                add(lines, "uring  %.16s[%d] %.20s: %u thread%s%s, %u parked, woke %.0f times%s", group->process, group->pid, group->names, group->threads,
                    group->threads == 1 ? "" : "s", cores, group->parked, group->woke, more);
        }
        if (tally->storage_threads)
                add(lines, "uring  %zu thread%s with reads, writes or syncs of %s own pending", tally->storage_threads, tally->storage_threads == 1 ? "" : "s",
                    tally->storage_threads == 1 ? "its" : "their");
}

static void add_device(struct lines *lines, const struct tally_device *device)
{
        char stuck[48] = "", waits[64] = "";

        if (device->stuck >= 1)
                snprintf(stuck, sizeof stuck, " STUCK %.0f s", device->stuck);
        if (device->r_await >= 0)
                snprintf(waits, sizeof waits, " r %.2f", device->r_await);
        if (device->w_await >= 0)
                snprintf(waits + strlen(waits), sizeof waits - strlen(waits), " w %.2f", device->w_await);
        add(lines, "disk   %.16s%s%.16s%s %.0f req/s %.0f kB/s%s%s%s aqu-sz %.1f %.0f%% util infl %.0f", device->name, device->label[0] ? " " : "", device->label, stuck,
            device->rate < 0 ? 0 : device->rate, device->kb < 0 ? 0 : device->kb, waits[0] ? " await" : "", waits, waits[0] ? " ms" : "",
            device->queue < 0 ? 0 : device->queue, device->util < 0 ? 0 : device->util, device->inflight < 0 ? 0 : device->inflight);
}

static void add_devices(struct lines *lines, const struct tally *tally)
{
        size_t shown = 0;

        for (size_t i = 0; i < tally->device_count && i < TALLY_DEVICES && shown < 2; i++) {
                const struct tally_device *device = &tally->devices[i];
                if (device->util < 1 && !(device->inflight > 0))
                        continue;
                add_device(lines, device);
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
                char channel[72] = "", age[48] = "", more[48] = "";
                if (task->wchan[0] && strcmp(task->wchan, "0") != 0)
                        snprintf(channel, sizeof channel, " in %.28s", task->wchan);
                if (i == 1 && tally->task_count > 2)
                        snprintf(more, sizeof more, "; %zu more", tally->task_count - 2);
                if (task->age >= 0)
                        snprintf(age, sizeof age, ", for %.1f s or more", task->age);
                add(lines, "waits  %.20s[%d] in D state%s%s%s", task->name, task->pid, channel, age, more);
        }
}

static void add_pressure(struct lines *lines, const struct tally *tally)
{
        if (tally->io_some < 0)
                return;
        if (tally->waiter_threads && tally->uring.kind == VALUE_NUMBER && tally->uring.number >= 5)
                add(lines, "PSI    io some %.0f%%, full %.0f%%: it counts io_uring sleepers as stalled", tally->io_some, tally->io_full < 0 ? 0 : tally->io_full);
        else if (tally->io_some >= 1)
                add(lines, "PSI    io some %.0f%%, full %.0f%% of the time", tally->io_some, tally->io_full < 0 ? 0 : tally->io_full);
}

/* What is not known, and what would show it. */
static void add_unknown(struct lines *lines, const struct tally *tally)
{
        bool weak = tally->level && (strcmp(tally->level, "bound") == 0 || strcmp(tally->level, "none") == 0);
        double other = tally->other.kind == VALUE_NUMBER ? tally->other.number : 0;

        if (tally->uncounted)
                add(lines, "more   %u device%s not counted (queue/iostats is 0): disk may be more", tally->uncounted, tally->uncounted == 1 ? " is" : "s are");
        else if (other >= 5 && weak && geteuid() != 0)
                add(lines, "more   who waits cannot be seen with your rights: run as root, or start watopd");
        else if (other >= 5 && tally->waiter_threads)
                add(lines, "more   other: not proved to be the io_uring sleepers; they may share it");
        else if (other >= 5 && !tally->task_count)
                add(lines, "more   other: no task in D state was seen; cause not known");
        else if (tally->disk.kind == VALUE_NUMBER && tally->disk.mark != MARK_EXACT && tally->disk.number >= 5)
                add(lines, "more   disk is between %.1f and %.1f: the kernel does not say whose requests", tally->disk.low, tally->disk.high);
}

static void add_next(struct lines *lines, const struct tally *tally, const struct verdict *verdict)
{
        const char *device = tally->device_count ? tally->devices[0].name : "";

        switch (verdict->answer) {
        case ANSWER_NOT_A_DISK: add(lines, "todo   judge this machine by load, not by wa:  watop cpu 1"); break;
        case ANSWER_DISK_SLOW: add(lines, "todo   watop disk %.24s 1      errors and resets:  journalctl -k -g %.24s", device, device); break;
        case ANSWER_PARTLY: add(lines, "todo   watop task -d 1      who reads and writes"); break;
        case ANSWER_OTHER:
                if (tally->task_count)
                        add(lines, "todo   watop task -t -p %d 1      its threads, states and ages", tally->tasks[0].pid);
                else
                        add(lines, "todo   watop task -t --all 1      all threads, their states and ages");
                break;
        case ANSWER_BUSY: add(lines, device[0] && (verdict->waits || tally->devices[0].util >= 50) ? "todo   watop task -d 1      who reads and writes" : "todo   watop task 1      who uses the cores"); break;
        case ANSWER_NOTHING: add(lines, "todo   nothing; watop shows it live"); break;
        }
}

size_t why_evidence(const struct tally *tally, const struct verdict *verdict, char at[][WHY_WIDTH], size_t max)
{
        struct lines lines = {.at = at, .max = max};

        if (!tally->valid)
                return 0;
        add_load(&lines, tally);
        add_wa(&lines, tally);
        add_waiters(&lines, tally);
        add_devices(&lines, tally);
        add_tasks(&lines, tally);
        add_pressure(&lines, tally);
        add_unknown(&lines, tally);
        add_next(&lines, tally, verdict);
        return lines.count;
}

size_t why_lines(const struct state *state, char lines[][WHY_WIDTH], size_t max)
{
        struct tally tally;
        struct verdict verdict;

        if (max == 0)
                return 0;
        tally_make(state, &tally);
        verdict_make(state, &tally, &verdict);
        snprintf(lines[0], WHY_WIDTH, "%.*s", WHY_WIDTH - 1, verdict.line);
        return 1 + why_evidence(&tally, &verdict, lines + 1, max - 1);
}

/*
 * The answer in one line, from a tally. Shared by `watop why` and the live screen.
 *
 * The order of the questions is the order of the damage a wrong answer would do: a device that completes nothing; iowait and what it is made of; tasks that
 * wait without iowait; devices that are busy while wa shows nothing; cores that are full. Every sentence says only what the tally holds.
 */
#include "tui/verdict.h"

#include <stdio.h>
#include <string.h>

static const double WA_SHOWN = 5;       /* % of one core: below, iowait is noise of the clock ticks */
static const double SLOW_MS = 20;       /* mean per request: longer than the worst seek of a rotating disk */
static const double BUSY_UTIL = 50, FULL_CORE = 95, FULL_MACHINE = 90, STEAL_SHOWN = 10;
static const double WAIT_AGE = 1;       /* seconds in D state that are worth a word */

static const char *const heads[] = {
        [ANSWER_NOT_A_DISK] = "NOT A DISK", [ANSWER_DISK_SLOW] = "A DISK IS SLOW", [ANSWER_PARTLY] = "PARTLY A DISK",
        [ANSWER_OTHER] = "WAITING, NOT FOR A DISK", [ANSWER_BUSY] = "BUSY", [ANSWER_NOTHING] = "NOTHING WRONG"};

static void say(struct verdict *verdict, enum answer answer, const char *sentence)
{
        verdict->answer = answer;
        verdict->head = heads[answer];
        snprintf(verdict->line, sizeof verdict->line, "%s. %s", verdict->head, sentence);
        snprintf(verdict->brief, sizeof verdict->brief, "%s: %s", verdict->head, sentence);
        for (char *at = verdict->brief; *at && *at != ':'; at++)
                if (*at >= 'A' && *at <= 'Z')
                        *at = (char)(*at - 'A' + 'a');
        size_t length = strlen(verdict->brief);
        if (length && verdict->brief[length - 1] == '.')
                verdict->brief[length - 1] = '\0';
        verdict->show = answer != ANSWER_NOTHING;
        verdict->waits = answer == ANSWER_DISK_SLOW || answer == ANSWER_PARTLY || answer == ANSWER_OTHER;
}

/* The slower of reads and writes, in ms; *verb names it. */
static double slowest(const struct tally_device *device, const char **verb)
{
        bool write = device->w_await > device->r_await;

        *verb = write ? "write" : "read";
        return write ? device->w_await : device->r_await;
}

static const struct tally_device *busiest(const struct tally *tally)
{
        for (size_t i = 0; i < tally->device_count && i < TALLY_DEVICES; i++)
                if (tally->devices[i].whole)
                        return &tally->devices[i];
        return tally->device_count ? &tally->devices[0] : NULL;
}

static bool stuck_device(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_device *device = tally->device_count ? &tally->devices[0] : NULL;
        char sentence[160];

        if (!device || device->stuck < 1)
                return false;
        snprintf(sentence, sizeof sentence, "%.32s has %.0f in flight; none completed for %.0f s.", device->name, device->inflight, device->stuck);
        say(verdict, ANSWER_DISK_SLOW, sentence);
        return true;
}

/* "; 9 tasks wait" when tasks sleep in D state. */
static const char *tasks_wait(const struct tally *tally, char *text, size_t size)
{
        text[0] = '\0';
        if (tally->task_count)
                snprintf(text, size, "; %zu task%s wait%s", tally->task_count, tally->task_count == 1 ? "" : "s", tally->task_count == 1 ? "s" : "");
        return text;
}

/* iowait that is a device's. */
static void disk_wait(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_device *device = busiest(tally);
        char sentence[160], tasks[48];
        const char *verb = "";

        if (!device) {
                say(verdict, ANSWER_PARTLY, "Up to all of wa can be a device's, but none stands out.");
                verdict->waits = true;
                return;
        }
        double ms = slowest(device, &verb);
        if (ms >= SLOW_MS) {
                snprintf(sentence, sizeof sentence, "%.24s takes %.0f ms per %s%s%s.", device->name, ms, verb,
                         device->queue >= 2 ? ", requests queue" : "", tasks_wait(tally, tasks, sizeof tasks));
                say(verdict, ANSWER_DISK_SLOW, sentence);
                return;
        }
        snprintf(sentence, sizeof sentence, "Tasks wait for %.24s: %.0f requests/s, %.2f ms per %s, %.0f%% util.", device->name, device->rate, ms < 0 ? 0 : ms,
                 verb, device->util < 0 ? 0 : device->util);
        say(verdict, ANSWER_BUSY, sentence);
        verdict->waits = true;
}

static void uring_sleep(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_waiters *first = tally->waiter_count ? &tally->waiters[0] : NULL;
        bool idle = tally->load_share < 10;
        char sentence[160];

        if (!first) {
                snprintf(sentence, sizeof sentence, "%s", idle ? "The machine is idle; wa is threads asleep in io_uring." : "wa is threads asleep in io_uring; read load, not wa.");
        } else if (tally->waiter_count == 1) {
                snprintf(sentence, sizeof sentence, idle ? "The machine is idle; wa is %u %.20s thread%s asleep in io_uring." : "wa is %u %.20s thread%s asleep in io_uring; read load, not wa.",
                         first->threads, first->process, first->threads == 1 ? "" : "s");
        } else {
                snprintf(sentence, sizeof sentence, idle ? "The machine is idle; wa is %zu threads asleep in io_uring." : "wa is %zu threads asleep in io_uring; read load, not wa.",
                         tally->waiter_threads);
        }
        say(verdict, ANSWER_NOT_A_DISK, sentence);
}

static void other_wait(const struct tally *tally, struct verdict *verdict)
{
        char sentence[160];

        if (tally->task_count) {
                const struct tally_task *task = &tally->tasks[0];
                snprintf(sentence, sizeof sentence, "%.16s[%d]%s waits in %.24s.", task->name, task->pid, tally->task_count > 1 ? " and others" : "",
                         task->wchan[0] && strcmp(task->wchan, "0") != 0 ? task->wchan : "D state");
                say(verdict, ANSWER_OTHER, sentence);
                return;
        }
        say(verdict, ANSWER_NOT_A_DISK, "No device works for most of wa; who waits could not be seen.");
}

/* wa_disk is a ceiling: without a waiter in D state, or a floor near it, nobody may be said to wait for a device. */
static bool disk_proved(const struct tally *tally)
{
        return tally->disk.low >= 0.5 * tally->disk.number || tally->task_count > 0 || tally->dstate > 0;
}

static void iowait_verdict(const struct tally *tally, struct verdict *verdict)
{
        double wa = tally->wa.number, disk = tally->disk.number, uring = tally->uring.number, other = tally->other.number;
        const struct tally_device *device = busiest(tally);
        char sentence[160], rest[48] = "";

        if (disk >= 0.8 * wa && disk_proved(tally)) {
                disk_wait(tally, verdict);
        } else if (disk >= WA_SHOWN && disk >= 0.02 * wa) {
                if (uring >= WA_SHOWN || other >= WA_SHOWN)
                        snprintf(rest, sizeof rest, "; %.1f is %s", uring >= WA_SHOWN ? uring : other, uring >= WA_SHOWN ? "io_uring asleep" : "not a disk");
                snprintf(sentence, sizeof sentence, "%s%.1f of %.1f wa can be %.16s%s.", tally->disk.mark == MARK_EXACT ? "" : "At most ", disk, wa,
                         device ? device->name : "a device", rest);
                say(verdict, ANSWER_PARTLY, sentence);
        } else if (uring >= other) {
                uring_sleep(tally, verdict);
        } else {
                other_wait(tally, verdict);
        }
}

/* Nothing (much) is counted as iowait: that proves nothing, so devices and D-state tasks are asked. */
static void quiet_verdict(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_device *device = busiest(tally);
        char sentence[160];
        const char *verb;

        if (device && device->util >= BUSY_UTIL) {
                double ms = slowest(device, &verb);
                snprintf(sentence, sizeof sentence, "%.16s is %.0f%% busy (%.0f req/s, %.2f ms each); wa does not show it.", device->name, device->util, device->rate,
                         ms < 0 ? 0 : ms);
                say(verdict, ms >= SLOW_MS && device->queue < 2 ? ANSWER_DISK_SLOW : ANSWER_BUSY, sentence);
        } else if (tally->task_count && tally->tasks[0].age >= WAIT_AGE) {
                const struct tally_task *task = &tally->tasks[0];
                snprintf(sentence, sizeof sentence, "%.16s[%d]: %.0f s in %.24s.", task->name, task->pid, task->age,
                         task->wchan[0] && strcmp(task->wchan, "0") != 0 ? task->wchan : "D state");
                say(verdict, ANSWER_OTHER, sentence);
        } else if (tally->load_share >= FULL_MACHINE) {
                snprintf(sentence, sizeof sentence, "Load %.0f of %u%%%s%.20s%s; no iowait to explain.", tally->load.number, tally->cores * 100, tally->top[0] ? ", most by " : "",
                         tally->top, "");
                say(verdict, ANSWER_BUSY, sentence);
        } else if (tally->steal.kind == VALUE_NUMBER && tally->steal.number >= STEAL_SHOWN) {
                snprintf(sentence, sizeof sentence, "The hypervisor takes %.0f of %u%% (steal).", tally->steal.number, tally->cores * 100);
                say(verdict, ANSWER_BUSY, sentence);
        } else if (tally->busiest >= FULL_CORE) {
                snprintf(sentence, sizeof sentence, "cpu%u is full (%.0f%%)%s%.20s; the machine is at %.0f%%.", tally->busiest_core, tally->busiest,
                         tally->top[0] ? ", most by " : "", tally->top, tally->load_share);
                say(verdict, ANSWER_BUSY, sentence);
        } else {
                snprintf(sentence, sizeof sentence, "Load %.1f of %u%%, wa %.1f, no device is busy.", tally->load.number, tally->cores * 100, tally->wa.number);
                say(verdict, ANSWER_NOTHING, sentence);
        }
}

void verdict_make(const struct state *state, const struct tally *tally, struct verdict *verdict)
{
        (void)state;
        *verdict = (struct verdict){0};
        if (!tally->valid) {
                say(verdict, ANSWER_NOTHING, "No interval could be measured yet.");
                return;
        }
        if (stuck_device(tally, verdict))
                return;
        if (tally->wa.number >= WA_SHOWN)
                iowait_verdict(tally, verdict);
        else
                quiet_verdict(tally, verdict);
}

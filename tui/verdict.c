/*
 * The answer in one line, from a tally. Shared by `watop why` and the live screen.
 *
 * The order of the questions is the order of the damage a wrong answer would do: a device that completes nothing; iowait and what it is
 * made of; tasks that wait without iowait; devices that are busy while wa shows nothing; cores that are full. Every sentence says only what
 * the tally holds.
 */
#include "tui/verdict.h"

#include <stdio.h>
#include <string.h>

#include "sample/wchan.h"
#include "tui/clean.h"

static const double WA_SHOWN = 5;       /* % of one core: below, iowait is noise of the clock ticks */
static const double SLOW_MS = 20;       /* mean per request: longer than the worst seek of a rotating disk */
/* of the waiting; and so many times the other's ms: the less frequent kind is worth a word */
static const double SECOND_SHARE = 0.2, SECOND_APART = 2;
static const double RIVAL_UTIL = 5, RIVAL_SHARE = 0.2; /* %, of the first's waiting: a device that waits can be for, too */
static const double BUSY_UTIL = 50, FULL_CORE = 95, FULL_MACHINE = 90, STEAL_SHOWN = 10;
enum { LINE_COLUMNS = 80 };
static const double WAIT_AGE = 1;       /* seconds in D state that are worth a word */

static const char *const heads[] = {
        [ANSWER_NOT_A_DISK] = "NOT A DISK", [ANSWER_DISK_SLOW] = "A DISK IS SLOW", [ANSWER_PARTLY] = "PARTLY A DISK",
        [ANSWER_OTHER] = "WAITING, NOT FOR A DISK", [ANSWER_WAITING] = "WAITING", [ANSWER_BUSY] = "BUSY",
        [ANSWER_NOTHING] = "NOTHING WRONG"};

void verdict_fit(char *line, size_t columns)
{
        size_t at = columns > 3 ? columns - 3 : 0;

        if (strlen(line) <= columns)
                return;
        while (at > 0 && line[at] != ' ')
                at--;
        snprintf(line + at, columns - at + 1, "...");
}

/* The answer as a sentence for `why`, and a shorter one for a line of the screen (NULL: the same). Names in them are made harmless here. */
static void answer_is(struct verdict *verdict, enum answer answer, const char *sentence, const char *shorter)
{
        char raw[256];

        verdict->answer = answer;
        verdict->head = heads[answer];
        snprintf(raw, sizeof raw, "%s. %s", verdict->head, sentence);
        clean_screen(verdict->line, sizeof verdict->line, raw, strlen(raw), false, sizeof verdict->line, NULL);
        verdict_fit(verdict->line, LINE_COLUMNS);
        snprintf(raw, sizeof raw, "%s: %s", verdict->head, shorter ? shorter : sentence);
        clean_screen(verdict->brief, sizeof verdict->brief, raw, strlen(raw), false, sizeof verdict->brief, NULL);
        for (char *at = verdict->brief; *at && *at != ':'; at++)
                if (*at >= 'A' && *at <= 'Z')
                        *at = (char)(*at - 'A' + 'a');
        size_t length = strlen(verdict->brief);
        if (length && verdict->brief[length - 1] == '.')
                verdict->brief[length - 1] = '\0';
        verdict->show = answer != ANSWER_NOTHING;
        verdict->waits = answer == ANSWER_DISK_SLOW || answer == ANSWER_PARTLY || answer == ANSWER_OTHER || answer == ANSWER_WAITING;
}

static void say(struct verdict *verdict, enum answer answer, const char *sentence)
{
        answer_is(verdict, answer, sentence, NULL);
}

/* A device that had requests in flight for half the time or more, however little wa there was: a whole one if there is one. */
static const struct tally_device *busy_device(const struct tally *tally)
{
        const struct tally_device *found = NULL;

        for (size_t i = 0; i < tally->device_count && i < TALLY_DEVICES; i++) {
                const struct tally_device *device = &tally->devices[i];
                if (device->util >= BUSY_UTIL && (!found || (device->whole && !found->whole)))
                        found = device;
        }
        return found;
}

/* Which kind of request most of the waiting was, and a second one that matters: it has a fifth of the waiting, and takes another time. */
struct ways {
        bool any, second;
        enum tally_way way, other;
        double ms, other_ms;
};

static double waited(const struct tally_device *device)
{
        double sum = 0;

        for (int way = 0; way < TALLY_WAYS; way++)
                sum += device->waited[way];
        return sum;
}

bool verdict_way(const struct tally_device *device, enum tally_way *way)
{
        *way = TALLY_READ;
        for (int i = 1; i < TALLY_WAYS; i++)
                if (device->waited[i] > device->waited[*way])
                        *way = (enum tally_way)i;
        return device->done[*way] > 0;
}

static double each(const struct tally_device *device, enum tally_way way)
{
        return device->waited[way] / device->done[way];
}

static struct ways ways_of(const struct tally_device *device)
{
        struct ways w = {.ms = -1};

        w.any = verdict_way(device, &w.way);
        if (!w.any)
                return w;
        w.ms = each(device, w.way);
        for (int i = 0; i < TALLY_WAYS; i++) {
                if ((enum tally_way)i == w.way || !(device->done[i] > 0) || device->waited[i] < SECOND_SHARE * waited(device))
                        continue;
                double ms = each(device, (enum tally_way)i);
                if ((ms >= SECOND_APART * w.ms || w.ms >= SECOND_APART * ms) && (!w.second || ms > w.other_ms)) {
                        w.second = true;
                        w.other = (enum tally_way)i;
                        w.other_ms = ms;
                }
        }
        return w;
}

/* The kind whose requests are slow, if one is: of what most of the waiting was, or of what much of it was. */
static bool slow_way(const struct ways *w, enum tally_way *way, double *ms)
{
        bool second = w->ms < SLOW_MS && w->second && w->other_ms >= SLOW_MS;

        *way = second ? w->other : w->way;
        *ms = second ? w->other_ms : w->ms;
        return *ms >= SLOW_MS;
}

static const char *const verbs[TALLY_WAYS] = {"read", "write", "discard", "flush"};

/* ", 2.10 ms per write"; ", 0.40 ms per read, 8.00 per write" where both matter and there is room; nothing when nothing completed. */
static const char *per_request(const struct ways *w, bool both, char *text, size_t size)
{
        text[0] = '\0';
        if (w->any && w->second && both)
                snprintf(text, size, ", %.2f ms per %s, %.2f per %s", w->ms, verbs[w->way], w->other_ms, verbs[w->other]);
        else if (w->any)
                snprintf(text, size, ", %.2f ms per %s", w->ms, verbs[w->way]);
        return text;
}

static size_t kept_devices(const struct tally *tally)
{
        return tally->device_count < TALLY_DEVICES ? tally->device_count : TALLY_DEVICES;
}

/* The device that iowait can be for: the whole one whose requests took most time; without any, the busiest. -1: there is none. */
static int waited_device(const struct tally *tally)
{
        int found = kept_devices(tally) ? 0 : -1;

        for (size_t i = 0; i < kept_devices(tally); i++) {
                const struct tally_device *device = &tally->devices[i], *best = &tally->devices[found];
                if (device->whole && (!best->whole || waited(device) > waited(best)))
                        found = (int)i;
        }
        return found;
}

/* Which device a waiter waits for is never known where several had requests: not from how busy they are. *count: so many may be it. */
static const char *device_words(const struct tally *tally, int first, unsigned *count, char *text, size_t size)
{
        const struct tally_device *device = first >= 0 ? &tally->devices[first] : NULL, *second = NULL;

        *count = device ? 1 : 0;
        for (size_t i = 0; device && i < kept_devices(tally); i++) {
                const struct tally_device *other = &tally->devices[i];
                if (other == device || !other->whole || other->util < RIVAL_UTIL || waited(other) < RIVAL_SHARE * waited(device))
                        continue;
                second = second ? second : other;
                ++*count;
        }
        if (*count > 2)
                snprintf(text, size, "one of %u devices", *count);
        else if (second)
                snprintf(text, size, "%.12s or %.12s", device->name, second->name);
        else
                snprintf(text, size, "%.24s", device ? device->name : "a device");
        return text;
}

static bool stuck_device(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_device *device = tally->device_count ? &tally->devices[0] : NULL;
        char sentence[160];

        if (!device || device->stuck < 1)
                return false;
        verdict->device = 0;
        snprintf(sentence, sizeof sentence, "%.32s has %.0f in flight; none completed for %.0f s.", device->name, device->inflight,
                device->stuck);
        say(verdict, ANSWER_DISK_SLOW, sentence);
        return true;
}

/* "; 9 tasks wait" when tasks sleep in D state, less those of whom it is known that it is for no device. */
static const char *tasks_wait(const struct tally *tally, char *text, size_t size)
{
        double tasks = tally->d_tasks - tally->d_elsewhere;

        text[0] = '\0';
        if (tasks > 0)
                snprintf(text, size, "; %.0f task%s wait%s", tasks, tasks > 1 ? "s" : "", tasks > 1 ? "" : "s");
        return text;
}

/* wa_disk is a ceiling: without a waiter in D state, or a floor near it, nobody may be said to wait for a device. */
static bool disk_likely(const struct tally *tally)
{
        return tally->disk.low >= 0.5 * tally->disk.number || tally->d_tasks > tally->d_elsewhere || tally->d_seen > 0;
}

/* That a task is in D state and a device busy are two things. For a device it waits when tracing or a block delay says so, or its wait
 * channel. */
static bool disk_proved(const struct tally *tally)
{
        return tally->disk.low >= 0.5 * tally->disk.number || tally->who_count[TALLY_DISK] > 0 || tally->d_device > 0;
}

static void waits_for(const struct tally *tally, struct verdict *verdict, int named)
{
        const struct tally_device *device = &tally->devices[named];
        const struct ways w = ways_of(device);
        char sentence[192], names[48], ms[64];
        unsigned count;

        verdict->device = named;
        device_words(tally, named, &count, names, sizeof names);
        if (!disk_proved(tally))
                snprintf(sentence, sizeof sentence, "Up to all of wa (%.1f) can be %s; who waits is not known.", tally->wa.number, names);
        else if (count > 1)
                snprintf(sentence, sizeof sentence, "Tasks wait for %s; %.12s: %.0f requests/s%s.", names, device->name,
                        device->rate < 0 ? 0 : device->rate,
                         per_request(&w, false, ms, sizeof ms));
        else if (w.second)
                snprintf(sentence, sizeof sentence, "Tasks wait for %s: %.0f req/s%s.", names, device->rate < 0 ? 0 : device->rate,
                         per_request(&w, true, ms, sizeof ms));
        else
                snprintf(sentence, sizeof sentence, "Tasks wait for %s: %.0f requests/s%s, %.0f%% util.", names,
                device->rate < 0 ? 0 : device->rate,
                         per_request(&w, false, ms, sizeof ms), device->util < 0 ? 0 : device->util);
        say(verdict, disk_proved(tally) ? ANSWER_BUSY : ANSWER_PARTLY, sentence);
        verdict->waits = true;
}

/* iowait that is a device's. */
static void disk_wait(const struct tally *tally, struct verdict *verdict)
{
        int named = waited_device(tally);
        char sentence[160], tasks[48];
        enum tally_way way;
        double ms;

        if (named < 0) {
                say(verdict, ANSWER_PARTLY, "Up to all of wa can be a device's, but none stands out.");
                verdict->waits = true;
                return;
        }
        const struct tally_device *device = &tally->devices[named];
        const struct ways w = ways_of(device);
        if (!slow_way(&w, &way, &ms)) {
                waits_for(tally, verdict, named);
                return;
        }
        verdict->device = named;
        snprintf(sentence, sizeof sentence, "%.24s takes %.0f ms per %s%s%s.", device->name, ms, verbs[way],
                 device->queue >= 2 ? ", requests queue" : "", tasks_wait(tally, tasks, sizeof tasks));
        say(verdict, ANSWER_DISK_SLOW, sentence);
}

/* What the mark of a number says, as a word before it. */
static const char *bound_word(const struct value *value, bool first)
{
        switch (value->mark) {
        case MARK_ESTIMATE: return first ? "About " : "about ";
        case MARK_AT_MOST: return first ? "At most " : "at most ";
        case MARK_AT_LEAST: return first ? "At least " : "at least ";
        case MARK_EXACT: break;
        }
        return "";
}

static void uring_sleep(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_waiters *first = tally->waiter_count ? &tally->waiters[0] : NULL;
        const struct tally_device *busy = busy_device(tally);
        bool idle = tally->load_share < 10 && !busy;
        char sentence[160], shorter[160], also[64] = "", who[48] = "";

        /* A device that is kept busy without anybody being counted as its waiter (libaio, SQPOLL) is no cause of wa, and still not
         * idleness. */
        if (busy)
                snprintf(also, sizeof also, "%.16s is %.0f%% busy", busy->name, busy->util);
        else
                snprintf(also, sizeof also, "read load, not wa");
        if (tally->waiter_count == 1)
                snprintf(who, sizeof who, "%u %.20s thread%s", first->threads, first->process, first->threads == 1 ? "" : "s");
        else if (first)
                snprintf(who, sizeof who, "%zu threads", tally->waiter_threads);
        else if (tally->who_count[TALLY_URING] == 1) /* not there any more, but it was */
                snprintf(who, sizeof who, "%u %.20s thread%s", tally->who[TALLY_URING][0].threads, tally->who[TALLY_URING][0].name,
                         tally->who[TALLY_URING][0].threads == 1 ? "" : "s");
        else
                snprintf(who, sizeof who, "threads");
        /* A rest that is more than rounding is not theirs. */
        if (tally->other.number >= WA_SHOWN && tally->other.number > 0.2 * tally->wa.number) {
                snprintf(sentence, sizeof sentence, "%s%.1f of %.1f wa: %s in io_uring; %.1f other.", bound_word(&tally->uring, true),
                         tally->uring.number, tally->wa.number, who, tally->other.number);
                say(verdict, ANSWER_NOT_A_DISK, sentence);
                return;
        }
        if (idle)
                snprintf(sentence, sizeof sentence, "The machine is idle; wa is %s asleep in io_uring.", who);
        else
                snprintf(sentence, sizeof sentence, "wa is %s asleep in io_uring; %s.", who, also);
        snprintf(shorter, sizeof shorter, "wa is %s asleep in io_uring%s%s", who, busy ? "; " : "", busy ? also : "");
        answer_is(verdict, ANSWER_NOT_A_DISK, sentence, shorter);
        verdict->waits = busy != NULL; /* not in wa, and still for a device */
}

static bool wait_seen(const struct tally_task *task)
{
        return task->wchan[0] && strcmp(task->wchan, "0") != 0;
}

/* What it waits for, in words if there are any: "page cache". */
static const char *wait_word(const struct tally_task *task)
{
        bool seen = wait_seen(task);
        const char *word = seen ? wchan_word(task->wchan) : NULL;

        return word ? word : seen ? task->wchan : "in D state";
}

static void other_wait(const struct tally *tally, struct verdict *verdict)
{
        char sentence[160];

        /* Without its wait channel (an ordinary user sees none) it may be the one that waits for a disk. */
        if (tally->task_count && wait_seen(&tally->tasks[0])) {
                const struct tally_task *task = &tally->tasks[0];
                snprintf(sentence, sizeof sentence, "%.16s[%d]%s: %.28s.", task->name, task->pid,
                        tally->task_count > 1 ? " and others wait" : " waits", wait_word(task));
                say(verdict, ANSWER_OTHER, sentence);
                return;
        }
        say(verdict, ANSWER_NOT_A_DISK, "No device works for most of wa; who waits could not be seen.");
}

static void iowait_verdict(const struct tally *tally, struct verdict *verdict)
{
        double wa = tally->wa.number, disk = tally->disk.number, uring = tally->uring.number, other = tally->other.number;
        char sentence[192], rest[48] = "", names[48];
        unsigned count;

        if (disk >= 0.8 * wa && disk_likely(tally)) {
                disk_wait(tally, verdict);
        } else if (disk >= WA_SHOWN && disk >= 0.02 * wa) {
                verdict->device = waited_device(tally);
                device_words(tally, verdict->device, &count, names, sizeof names);
                const struct value *second = uring >= WA_SHOWN ? &tally->uring : &tally->other;
                if (second->number >= WA_SHOWN)
                        snprintf(rest, sizeof rest, "; %s%.1f is %s", bound_word(second, false), second->number,
                                uring >= WA_SHOWN ? "io_uring asleep" : "not a disk");
                if (disk >= 0.95 * wa)
                        snprintf(sentence, sizeof sentence, "Up to all of wa (%.1f) can be %s; no waiter was seen.", wa, names);
                else
                        snprintf(sentence, sizeof sentence, "%s%.1f of %.1f wa can be %s%s.", bound_word(&tally->disk, true), disk, wa,
                        names, rest);
                say(verdict, ANSWER_PARTLY, sentence);
        } else if (uring >= other) {
                uring_sleep(tally, verdict);
        } else {
                other_wait(tally, verdict);
        }
}

/* Its requests take long, and not because they queue. */
static bool slow_alone(const struct tally_device *device)
{
        const struct ways w = ways_of(device);
        enum tally_way way;
        double ms;

        return slow_way(&w, &way, &ms) && device->queue < 2;
}

/* Something waits for a device, though no core shows it: R6 in HACKING.md. */
static void hidden_device(const struct tally_device *device, const struct tally *tally, struct verdict *verdict)
{
        struct ways w = ways_of(device);
        char sentence[160], ms[64];
        bool slow = slow_alone(device);

        verdict->device = (int)(device - tally->devices);
        if (slow && slow_way(&w, &w.way, &w.ms))
                snprintf(sentence, sizeof sentence, "%.16s takes %.0f ms per %s, %.0f%% busy; wa does not show it.", device->name, w.ms,
                         verbs[w.way], device->util);
        else
                snprintf(sentence, sizeof sentence, "%.16s is %.0f%% busy (%.0f req/s%s); wa does not show it.", device->name, device->util,
                         device->rate < 0 ? 0 : device->rate, per_request(&w, false, ms, sizeof ms));
        say(verdict, slow ? ANSWER_DISK_SLOW : ANSWER_BUSY, sentence);
        verdict->waits = true;
}

/* A task that has been in D state for long; a busy device beside it (NULL: there is none) may be why. */
static void old_wait(const struct tally_device *device, const struct tally *tally, struct verdict *verdict)
{
        const struct tally_task *task = &tally->tasks[0];
        enum wchan_kind kind = wchan_kind(task->wchan);
        bool elsewhere = kind == WCHAN_ELSEWHERE || kind == WCHAN_PLAIN;
        char sentence[160], also[48] = "";

        if (device)
                snprintf(also, sizeof also, "; %.12s is %.0f%% busy", device->name, device->util);
        snprintf(sentence, sizeof sentence, "%.16s[%d] waits %.0f s: %.28s%s.", task->name, task->pid, task->age, wait_word(task), also);
        /* Many waits may or may not be for a disk, and an ordinary user sees no channel at all. */
        say(verdict, elsewhere ? ANSWER_OTHER : ANSWER_WAITING, sentence);
        if (device)
                verdict->device = (int)(device - tally->devices);
}

/* Nothing (much) is counted as iowait: that proves nothing, so devices and D-state tasks are asked. */
static void quiet_verdict(const struct tally *tally, struct verdict *verdict)
{
        const struct tally_device *device = busy_device(tally);
        char sentence[160], wa[32], top[64] = "";

        /* Whose CPU it is that fills a core is not known (interrupts are nobody's): the first process and its own figure, no more. */
        if (tally->top[0])
                snprintf(top, sizeof top, ", %.20s at %.0f%%", tally->top, tally->top_cpu);
        if (device && slow_alone(device)) {
                hidden_device(device, tally, verdict);
        } else if (tally->task_count && tally->tasks[0].age >= WAIT_AGE) {
                old_wait(device, tally, verdict);
        } else if (device) {
                hidden_device(device, tally, verdict);
        } else if (tally->load_share >= FULL_MACHINE) {
                snprintf(sentence, sizeof sentence, "Load %.0f of %u%%%s; no iowait to explain.", tally->load.number, tally->cores * 100,
                        top);
                say(verdict, ANSWER_BUSY, sentence);
        } else if (tally->steal.kind == VALUE_NUMBER && tally->steal.number >= STEAL_SHOWN) {
                snprintf(sentence, sizeof sentence, "The hypervisor takes %.0f of %u%% (steal).", tally->steal.number, tally->cores * 100);
                say(verdict, ANSWER_BUSY, sentence);
        } else if (tally->busiest >= FULL_CORE) {
                snprintf(sentence, sizeof sentence, "cpu%u is full (%.0f%%); the machine is at %.0f%%%s.", tally->busiest_core,
                        tally->busiest, tally->load_share, top);
                say(verdict, ANSWER_BUSY, sentence);
        } else {
                value_format(wa, sizeof wa, &tally->wa, 1);
                snprintf(sentence, sizeof sentence, "Load %.1f of %u%%, wa %s, %s.", tally->load.number, tally->cores * 100, wa,
                         !tally->devices_known ? "devices could not be read" : tally->uncounted ? "no device that is counted is busy" :
                         "no device is busy");
                say(verdict, ANSWER_NOTHING, sentence);
        }
}

void verdict_make(const struct state *state, const struct tally *tally, struct verdict *verdict)
{
        (void)state;
        *verdict = (struct verdict){.device = -1};
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

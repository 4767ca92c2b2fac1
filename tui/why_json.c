/*
 * The verdict and its evidence as one JSON object: the same tally that the text is made from, at full precision, absent as null.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "tui/clean.h"
#include "tui/why.h"

static void text(const char *key, const char *value, const char *before)
{
        char clean[1024];

        clean_json(clean, sizeof clean, value, __builtin_strlen(value));
        printf("%s\"%s\":\"%s\"", before, key, clean);
}

static void number(const char *key, double value, const char *before)
{
        char exact[48];
        struct value wrapped = {.kind = value < 0 || !isfinite(value) ? VALUE_ABSENT : VALUE_NUMBER, .number = value};

        value_exact(exact, sizeof exact, &wrapped, "null");
        printf("%s\"%s\":%s", before, key, exact);
}

static void part(const char *key, const struct value *value)
{
        char low[48];

        number(key, value->kind == VALUE_NUMBER ? value->number : -1, ",");
        snprintf(low, sizeof low, "%s_min", key);
        number(low, value->kind == VALUE_NUMBER ? value->low : -1, ",");
        snprintf(low, sizeof low, "%s_max", key);
        number(low, value->kind == VALUE_NUMBER ? value->high : -1, ",");
}

static void put_waiters(const struct tally *tally)
{
        printf(",\"uring\":[");
        for (size_t i = 0; i < tally->waiter_count; i++) {
                const struct tally_waiters *group = &tally->waiters[i];
                text("process", group->process, i ? ",{" : "{");
                number("PID", group->pid, ",");
                text("threads", group->names, ",");
                number("count", group->threads, ",");
                number("parked", group->parked, ",");
                number("proved", group->proved, ",");
                number("woke", group->woke, ",");
                printf("}");
        }
        printf("]");
}

static void put_devices(const struct tally *tally)
{
        size_t kept = tally->device_count < TALLY_DEVICES ? tally->device_count : TALLY_DEVICES;

        printf(",\"disk\":[");
        for (size_t i = 0; i < kept; i++) {
                const struct tally_device *device = &tally->devices[i];
                text("Device", device->name, i ? ",{" : "{");
                number("tps", device->rate, ",");
                number("kB/s", device->kb, ",");
                number("r_await", device->r_await, ",");
                number("w_await", device->w_await, ",");
                number("aqu-sz", device->queue, ",");
                number("%util", device->util, ",");
                number("infl", device->inflight, ",");
                number("stuck", device->stuck, ",");
                printf("}");
        }
        printf("]");
}

static void put_tasks(const struct tally *tally)
{
        size_t kept = tally->task_count < TALLY_TASKS ? tally->task_count : TALLY_TASKS;

        printf(",\"D\":[");
        for (size_t i = 0; i < kept; i++) {
                const struct tally_task *task = &tally->tasks[i];
                number("PID", task->pid, i ? ",{" : "{");
                number("TID", task->tid, ",");
                text("Command", task->name, ",");
                text("wchan", task->wchan, ",");
                number("since", task->age, ",");
                printf("}");
        }
        printf("],\"D_count\":%.0f", tally->d_tasks);
}

void why_json(const struct state *state, const struct tally *tally, const struct verdict *verdict)
{
        struct state_info info = state_info(state);
        time_t second = (time_t)(info.real_ns / UINT64_C(1000000000));
        struct tm utc;
        char stamp[32] = "";

        if (gmtime_r(&second, &utc))
                strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
        printf("{\"time\":\"%s.%09lluZ\"", stamp, (unsigned long long)(info.real_ns % UINT64_C(1000000000)));
        number("interval", tally->seconds, ",");
        text("answer", verdict->head, ",");
        text("line", verdict->line, ",");
        printf(",\"waits\":%s", verdict->waits ? "true" : "false");
        number("cores", tally->cores, ",");
        number("load", tally->load.kind == VALUE_NUMBER ? tally->load.number : -1, ",");
        number("wa", tally->wa.kind == VALUE_NUMBER ? tally->wa.number : -1, ",");
        part("wa_disk", &tally->disk);
        part("wa_uring", &tally->uring);
        part("wa_other", &tally->other);
        if (tally->level)
                text("evidence", tally->level, ",");
        else
                printf(",\"evidence\":null");
        number("taken_back_ms", tally->taken_back, ",");
        number("loadavg", tally->load1, ",");
        number("running", tally->running, ",");
        number("procs_blocked", tally->blocked, ",");
        number("psi_io_some", tally->io_some, ",");
        number("psi_io_full", tally->io_full, ",");
        put_waiters(tally);
        put_devices(tally);
        put_tasks(tally);
        printf("}\n");
}

/*
 * The verdict and its evidence as one JSON object: the same tally that the text is made from, at full precision, absent as null.
 */
#include <math.h>
#include <stdio.h>

#include "sample/wchan.h"
#include "tui/clean.h"
#include "tui/utc.h"
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
                const char *word = wchan_word(task->wchan);
                if (word)
                        text("wait", word, ",");
                else
                        printf(",\"wait\":null");
                number("since", task->age, ",");
                printf("}");
        }
        printf("],\"D_count\":%.0f", tally->d_tasks);
}

static void put_who(const struct tally *tally)
{
        static const char *const names[TALLY_PARTS] = {"disk", "uring", "other"};

        for (int part = 0; part < TALLY_PARTS; part++) {
                printf("%s\"%s\":[", part ? "," : ",\"who\":{", names[part]);
                for (size_t i = 0; i < tally->who_count[part]; i++) {
                        const struct tally_who *who = &tally->who[part][i];
                        number("PID", who->pid, i ? ",{" : "{");
                        text("Command", who->name, ",");
                        number("threads", who->threads, ",");
                        number("share", who->share, ",");
                        printf("}");
                }
                printf("]");
        }
        printf("},\"io\":[");
        for (size_t i = 0; i < tally->io_count && i < TALLY_IO; i++) {
                const struct tally_io *io = &tally->io[i];
                const char *engine = tally_engine(io);
                number("PID", io->pid, i ? ",{" : "{");
                text("Command", io->name, ",");
                number("kB/s", io->kb, ",");
                if (engine)
                        text("by", engine, ",");
                else
                        printf(",\"by\":null");
                number("aio", io->aio, ",");
                number("rings", io->rings, ",");
                printf("}");
        }
        printf("],\"io_count\":%zu", tally->io_count);
}

static void put_cores(const struct state *state)
{
        static const char *const parts[TALLY_PARTS] = {"wa_disk", "wa_uring", "wa_other"};
        static struct why_cores groups[256];
        size_t count = why_group_cores(state, groups, sizeof groups / sizeof *groups), room = sizeof groups / sizeof *groups;

        printf(",\"cpu\":[");
        for (size_t i = 0; i < count && i < room; i++) {
                const struct why_cores *group = &groups[i];
                printf("%s\"first\":%u,\"last\":%u,\"count\":%u", i ? ",{" : "{", group->first, group->last, group->count);
                number("load", group->load, ",");
                number("wa", group->wa, ",");
                for (int p = 0; p < TALLY_PARTS; p++)
                        part(parts[p], &(struct value){.kind = group->part[p] < 0 ? VALUE_ABSENT : VALUE_NUMBER, .number = group->part[p],
                                .low = group->low[p], .high = group->high[p]});
                if (group->level)
                        text("evidence", group->level, ",");
                else
                        printf(",\"evidence\":null");
                printf("}");
        }
        printf("],\"cpu_count\":%zu", count);
}

/* Control groups that stall on I/O. */
static void put_groups(const struct state *state)
{
        enum { ROOM = 32 };
        static struct why_group groups[ROOM];
        size_t count = why_groups(state, groups, ROOM);

        printf(",\"cgroup\":[");
        for (size_t i = 0; i < count && i < ROOM; i++) {
                text("path", groups[i].path, i ? ",{" : "{");
                number("io_some", groups[i].some, ",");
                number("io_full", groups[i].full, ",");
                number("io_some_uring", groups[i].some_uring, ",");
                number("io_full_uring", groups[i].full_uring, ",");
                printf("}");
        }
        printf("],\"cgroup_count\":%zu", count);
}

/* Wall clock as in "time"; null when it is not known. */
static void put_time(const char *key, bool known, uint64_t real_ns)
{
        char stamp[UTC_SIZE];

        utc_time(stamp, sizeof stamp, real_ns);
        if (known)
                printf(",\"%s\":\"%s\"", key, stamp);
        else
                printf(",\"%s\":null", key);
}

static void put_history(const struct why_history *history)
{
        number("history", history ? history->span : -1, ",");
        put_time("since", history && history->since_known, history ? history->since_ns : 0);
        number("since_seconds", history && history->since_known ? history->since_seconds : -1, ",");
        printf(",\"since_at_least\":%s", history && history->since_known && history->since_whole ? "true" : "false");
        if (history && history->device[0])
                text("asked_device", history->device, ",");
        else
                printf(",\"asked_device\":null");
        number("normal_await", history ? history->normal : -1, ",");
        put_time("slow_since", history && history->slow_known, history ? history->slow_ns : 0);
}

static void put_context(const struct tally *tally, const struct why_context *context)
{
        static const char *const words[] = {"not possible", "ready", "attached"};
        const struct selftest_ring *ring = context ? context->ring : NULL;
        char raise[80];

        if (tally->tracer >= 0 && tally->tracer < 3)
                text("tracing", words[tally->tracer], ",");
        else
                printf(",\"tracing\":null");
        why_raise(tally, context, raise, sizeof raise);
        if (raise[0])
                text("surer", raise, ",");
        else
                printf(",\"surer\":null");
        printf(",\"no_iowait_offered\":%s", !ring || ring->offer != RING_WORKS ? "null" : ring->no_iowait ? "true" : "false");
        put_history(context ? context->history : NULL);
}

void why_json(const struct state *state, const struct tally *tally, const struct verdict *verdict, const struct why_context *context)
{
        struct state_info info = state_info(state);
        char stamp[UTC_SIZE];

        utc_time(stamp, sizeof stamp, info.real_ns);
        printf("{\"time\":\"%s\"", stamp);
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
        number("loadavg_5", tally->load5, ",");
        number("loadavg_15", tally->load15, ",");
        number("running", tally->running, ",");
        number("procs_blocked", tally->blocked, ",");
        number("psi_io_some", tally->io_some, ",");
        number("psi_io_full", tally->io_full, ",");
        number("psi_io_some_uring", tally->io_some_uring, ",");
        number("psi_io_some_uring_min", tally->io_some_uring_low, ",");
        number("psi_io_some_uring_max", tally->io_some_uring_high, ",");
        number("psi_io_full_uring", tally->io_full_uring, ",");
        number("psi_io_full_uring_min", tally->io_full_uring_low, ",");
        number("psi_io_full_uring_max", tally->io_full_uring_high, ",");
        put_waiters(tally);
        put_devices(tally);
        put_tasks(tally);
        put_who(tally);
        put_cores(state);
        put_groups(state);
        put_context(tally, context);
        printf("}\n");
}

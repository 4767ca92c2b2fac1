/*
 * Rows of the scopes stage, latency, bio and sync: sums of block tracing (stages_sums.h) while somebody wants them.
 *
 * It reads memory, and for a device that is new the link in /sys/dev/block that names it. Durations become rows of scope latency, 16
 * buckets of one octave each, and only those that ever counted: a quiet device costs nothing, and a reader adds them up over any span.
 * Processes that ended keep their rows for QUIET_NS, so that their last bios are seen, then their places are free.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"
#include "collectors/stages.h"
#include "collectors/stages_sums.h"

enum { DEVICES = 256, NAME_BYTES = 64, LOOKS = 32 /* at processes, in one tick */ };

#define QUIET_NS UINT64_C(30000000000)
#define AGAIN_NS UINT64_C(10000000000) /* a device without a name: when to ask again */

struct device {
        uint32_t device;              /* 0 = empty */
        char name[NAME_BYTES];        /* "" = not known */
        uint64_t asked_ns;
};

struct stage_rows {
        struct device devices[DEVICES];
        unsigned next;                /* to be used again when all are */
        size_t look;                  /* where looking for ended processes goes on */
};

static const int octave_metrics[SUM_STEPS] = { LATENCY_B0, LATENCY_B1, LATENCY_B2, LATENCY_B3, LATENCY_B4, LATENCY_B5, LATENCY_B6,
        LATENCY_B7, LATENCY_B8, LATENCY_B9, LATENCY_B10, LATENCY_B11, LATENCY_B12, LATENCY_B13, LATENCY_B14, LATENCY_B15 };
static const enum scope scope_of[SUM_KINDS] = { [SUM_STAGE] = SCOPE_STAGE, [SUM_BIO] = SCOPE_BIO, [SUM_SYNC] = SCOPE_SYNC };

/* A captured machine has no tracing. */
static int stage_open(struct procfs *procfs, void **own)
{
        if (!procfs_live(procfs))
                return -ENOENT;
        *own = calloc(1, sizeof(struct stage_rows));
        return *own == NULL ? -ENOMEM : 0;
}

static void stage_close(void *own)
{
        free(own);
}

/* ---- names of devices ------------------------------------------------------------------------------------------------------- */

/* The last part of the link, in which ! stands for the / of /proc/diskstats (cciss). */
static void ask_name(struct procfs *procfs, struct device *device)
{
        char path[64], link[512];

        snprintf(path, sizeof path, "sys/dev/block/%u:%u", device->device >> 20, device->device & 0xfffff);
        ssize_t length = procfs_link(procfs, path, link, sizeof link - 1);
        if (length <= 0 || (size_t)length >= sizeof link)
                return;
        link[length] = '\0';
        const char *slash = strrchr(link, '/');
        snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1, slash ? slash + 1 : link);
        for (char *at = device->name; (at = strchr(at, '!')) != NULL;)
                *at = '/';
}

static const char *device_name(struct stage_rows *rows, struct tick *tick, uint32_t number, uint64_t now_ns)
{
        struct device *device = NULL;

        for (unsigned i = 0; i < DEVICES && device == NULL; i++)
                if (rows->devices[i].device == number || rows->devices[i].device == 0)
                        device = &rows->devices[i];
        if (device == NULL)
                device = &rows->devices[rows->next++ % DEVICES];
        if (device->device != number)
                *device = (struct device){ .device = number };
        if (device->asked_ns == 0 || (device->name[0] == '\0' && now_ns - device->asked_ns >= AGAIN_NS)) {
                device->asked_ns = now_ns;
                ask_name(tick->procfs, device);
        }
        return device->name;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static void set_text(struct row *row, int metric, const char *text, size_t size)
{
        size_t length = strnlen(text, size);

        row_text(row, metric, length > 0 ? text : NULL, length);
}

static void set_or_absent(struct row *row, int metric, uint64_t value)
{
        if (value > 0)
                row_set(row, metric, value);
        else
                row_absent(row, metric);
}

static void set_device(struct stage_rows *rows, struct tick *tick, struct row *row, uint32_t device, const int metrics_of[2],
        uint64_t now_ns)
{
        set_or_absent(row, metrics_of[0], device);
        if (device == 0) {
                row_text(row, metrics_of[1], "others", strlen("others"));
                return;
        }
        const char *name = device_name(rows, tick, device, now_ns);
        row_text(row, metrics_of[1], *name != '\0' ? name : NULL, strlen(name));
}

static void write_stage(struct stage_rows *rows, struct tick *tick, struct row *row, const struct sum *sum, uint64_t now_ns)
{
        static const int of_device[2] = { STAGE_DEVICE, STAGE_DEVICE_NAME };

        set_device(rows, tick, row, sum->device, of_device, now_ns);
        row_set(row, STAGE_DIRECTION, sum->direction);
        row_set(row, STAGE_STAGE, sum->what);
        row_set(row, STAGE_BIOS, sum->count);
        row_set(row, STAGE_TOTAL, sum->total);
        row_set(row, STAGE_PATH, sum->path);
        set_or_absent(row, STAGE_LONGEST, sum->longest);
        row_set(row, STAGE_SINCE, sum->since_ns);
}

static void write_bio(struct stage_rows *rows, struct tick *tick, struct row *row, const struct sum *sum, uint64_t now_ns)
{
        static const int of_device[2] = { BIO_DEVICE, BIO_DEVICE_NAME };
        static const int causes[CAUSE_COUNT] = { [CAUSE_TAG] = BIO_TAG, [CAUSE_PLUG] = BIO_PLUG, [CAUSE_QUEUE] = BIO_QUEUE,
                [CAUSE_REFUSED] = BIO_REFUSED, [CAUSE_DISK] = BIO_DISK, [CAUSE_FLUSH] = BIO_FLUSH, [CAUSE_DRIVER] = BIO_DRIVER,
                [CAUSE_OTHER] = BIO_OTHER };

        set_text(row, BIO_COMM, sum->name, sizeof sum->name);
        row_set(row, BIO_PID, sum->tgid);
        set_device(rows, tick, row, sum->device, of_device, now_ns);
        row_set(row, BIO_DIRECTION, sum->direction);
        row_set(row, BIO_BIOS, sum->count);
        row_set(row, BIO_REQUESTS, sum->requests);
        row_set(row, BIO_BYTES, sum->bytes);
        row_set(row, BIO_TIME, sum->total);
        for (int cause = 0; cause < CAUSE_COUNT; cause++)
                row_set(row, causes[cause], sum->part[cause]);
        set_or_absent(row, BIO_LONGEST, sum->longest);
        set_or_absent(row, BIO_CGROUP, sum->cgroup);
        row_set(row, BIO_SINCE, sum->since_ns);
}

static void write_sync(struct row *row, const struct sum *sum)
{
        static const int parts[SYNC_PARTS] = { [CAUSE_TAG] = SYNC_TAG, [CAUSE_PLUG] = SYNC_PLUG, [CAUSE_QUEUE] = SYNC_QUEUE,
                [CAUSE_REFUSED] = SYNC_REFUSED, [CAUSE_DISK] = SYNC_DISK, [CAUSE_FLUSH] = SYNC_FLUSH, [CAUSE_DRIVER] = SYNC_DRIVER,
                [CAUSE_OTHER] = SYNC_OTHER, [SYNC_JOURNAL] = SYNC_IN_JOURNAL };

        set_text(row, SYNC_COMM, sum->name, sizeof sum->name);
        row_set(row, SYNC_PID, sum->tgid);
        row_set(row, SYNC_CALL, sum->what);
        row_set(row, SYNC_COUNT, sum->count);
        row_set(row, SYNC_ERRORS, sum->errors);
        row_set(row, SYNC_TIME, sum->total);
        for (int part = 0; part < SYNC_PARTS; part++)
                row_set(row, parts[part], sum->part[part]);
        set_or_absent(row, SYNC_LONGEST, sum->longest);
        set_text(row, SYNC_FILE, sum->file, sizeof sum->file);
        row_set(row, SYNC_SINCE, sum->since_ns);
}

static int longest_metric(enum sum_kind kind)
{
        return kind == SUM_STAGE ? STAGE_LONGEST : kind == SUM_BIO ? BIO_LONGEST : SYNC_LONGEST;
}

static void write_kind(struct stage_rows *rows, struct tick *tick, const struct sums *sums, enum sum_kind kind, uint64_t now_ns)
{
        struct sum_view view;

        sample_scope_begin(tick->sample, scope_of[kind], now_ns);
        for (size_t i = 0; i < sums_count(sums, kind); i++) {
                sums_get(sums, kind, i, &view);
                struct row *row = sample_row(tick->sample, scope_of[kind], (struct key){ view.sum->id, 0 }, 0);
                if (row == NULL)
                        continue;
                if (view.changed || row_is_new(row)) {
                        if (kind == SUM_SYNC)
                                write_sync(row, view.sum);
                        else
                                (kind == SUM_STAGE ? write_stage : write_bio)(rows, tick, row, view.sum, now_ns);
                }
                if (!view.changed)
                        row_absent(row, longest_metric(kind));
        }
        sample_scope_end(tick->sample, scope_of[kind], procfs_mono(tick->procfs), GONE_EXITED);
}

static void write_octaves(struct tick *tick, const struct sums *sums, enum sum_kind kind, size_t index)
{
        struct sum_view view;

        sums_get(sums, kind, index, &view);
        for (uint64_t left = view.sum->octaves; left != 0; left &= left - 1) {
                unsigned octave = (unsigned)__builtin_ctzll(left);
                /* The first one holds what is below 2^4 ns, a bucket for each: number 3. */
                uint64_t number = octave + HISTOGRAM_BITS - 1;
                struct key key = { view.sum->id, (uint64_t)scope_of[kind] << 8 | number };
                struct row *row = sample_row(tick->sample, SCOPE_LATENCY, key, 0);
                uint64_t since_ns = 0;
                const uint64_t *counts = sums_octave(sums, kind, index, octave, &since_ns);
                if (row == NULL || counts == NULL || (!row_is_new(row) && !(view.octaves_changed & UINT64_C(1) << octave)))
                        continue;
                row_set(row, LATENCY_SCOPE, scope_of[kind]);
                row_set(row, LATENCY_OCTAVE, number);
                row_set(row, LATENCY_SINCE, since_ns);
                for (unsigned step = 0; step < SUM_STEPS; step++)
                        row_set(row, octave_metrics[step], counts[step]);
        }
}

static void write_latency(struct tick *tick, const struct sums *sums, uint64_t now_ns)
{
        sample_scope_begin(tick->sample, SCOPE_LATENCY, now_ns);
        for (unsigned kind = 0; kind < SUM_KINDS; kind++)
                for (size_t i = 0; (tick->scopes & SCOPE_BIT(scope_of[kind])) && i < sums_count(sums, kind); i++)
                        write_octaves(tick, sums, kind, i);
        sample_scope_end(tick->sample, SCOPE_LATENCY, procfs_mono(tick->procfs), GONE_EXITED);
}

/* Some in each tick: their rows become tombstones with this one. */
static void drop_ended(struct stage_rows *rows, struct tick *tick, struct sums *sums, uint64_t now_ns)
{
        char path[32];
        struct sum_view view;
        size_t all = sums_count(sums, SUM_BIO) + sums_count(sums, SUM_SYNC);

        for (size_t looks = 0; looks < LOOKS && looks < all; looks++) {
                size_t bios = sums_count(sums, SUM_BIO), syncs = sums_count(sums, SUM_SYNC);
                size_t at = rows->look++ % (bios + syncs > 0 ? bios + syncs : 1);
                enum sum_kind kind = at < bios ? SUM_BIO : SUM_SYNC;
                if (kind == SUM_SYNC && syncs == 0)
                        return;
                sums_get(sums, kind, at < bios ? at : at - bios, &view);
                if (view.sum->tgid == 0 || now_ns < view.sum->last_ns + QUIET_NS)
                        continue;
                snprintf(path, sizeof path, "proc/%u", view.sum->tgid);
                if (procfs_inode(tick->procfs, path) == 0)
                        sums_drop(sums, kind, at < bios ? at : at - bios);
        }
}

static int stage_collect(void *own, struct tick *tick)
{
        struct stage_rows *rows = own;
        uint64_t now_ns = procfs_mono(tick->procfs);

        if (tick->stages == NULL)
                return 0;
        struct sums *sums = stages_sums(tick->stages);
        /* Not to be had in this tick: the rows stand as they were. */
        if (sums_copy(sums))
                drop_ended(rows, tick, sums, now_ns);
        for (unsigned kind = 0; kind < SUM_KINDS; kind++)
                if (tick->scopes & SCOPE_BIT(scope_of[kind]))
                        write_kind(rows, tick, sums, kind, now_ns);
        if (tick->scopes & SCOPE_BIT(SCOPE_LATENCY))
                write_latency(tick, sums, now_ns);
        return 0;
}

const struct collector collector_stage = {
        .name = "stage",
        .scopes = SCOPES_TRACED,
        .open = stage_open,
        .collect = stage_collect,
        .close = stage_close,
};

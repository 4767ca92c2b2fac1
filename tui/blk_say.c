/*
 * watop blk for people: the verdict, the stages as btt's ALL MIN AVG MAX N with percentiles and shares, directions, processes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_btt.h"
#include "tui/blk.h"
#include "tui/clean.h"

enum { PROCESSES = 20, DEVICES = 64 };

/* ---- words -------------------------------------------------------------------------------------------------------------------------- */

static const struct { const char *verdict, *words; } causes[CAUSE_COUNT] = {
        [CAUSE_TAG] = {"WAITING FOR A TAG, NOT FOR THE DISK.",
                "a free request (tag): nr_requests, queue depth, or a throttle (wbt, io.cost, io.latency)"},
        [CAUSE_PLUG] = {"MERGING AND PLUGGING, NOT THE DISK.", "held back to be merged with what the same thread sends next"},
        [CAUSE_QUEUE] = {"IN THE SCHEDULER'S QUEUE, NOT THE DISK.", "in the I/O scheduler behind other requests"},
        [CAUSE_REFUSED] = {"THE DRIVER REFUSES REQUESTS.", "issued, sent back and issued again: the device's own queue is full"},
        [CAUSE_DISK] = {"THE DISK ITSELF.", "from the driver to the device and back"},
        [CAUSE_FLUSH] = {"FLUSHING THE WRITE CACHE.", "until the device's write cache is on the medium"},
        [CAUSE_DRIVER] = {"IN A DRIVER THAT TAKES BIOS.", "zram, dm, md: it makes no requests; see the devices below it"},
        [CAUSE_OTHER] = {"EVENTS ARE MISSING.", "between events that the trace does not hold"},
};

const char *blk_cause_words(enum stage_cause cause) { return causes[cause].words; }

int blk_first_cause(const struct stage_sum *sum, double *share)
{
        int first = -1;
        uint64_t total = 0;

        for (int i = 0; i < CAUSE_COUNT; i++) {
                total += sum->cause[i];
                if (sum->cause[i] > 0 && (first < 0 || sum->cause[i] > sum->cause[first]))
                        first = i;
        }
        *share = first < 0 ? 0 : (double)sum->cause[first] / (double)total;
        return first;
}

const char *blk_verdict(const struct stage_sum *sum)
{
        double share;
        int first = blk_first_cause(sum, &share);

        return first < 0 ? "NOTHING COMPLETED." : share < 0.5 ? "MIXED." : causes[first].verdict;
}

/* Writeback runs on an unbound work queue: what such a worker queues was dirtied by others. */
bool blk_is_flusher(const struct stage_process *process) { return strncmp(process->name, "kworker/u", 9) == 0; }

/* A stranger's name on the screen. */
static const char *shown(const struct blk_report *report, const char *text, size_t columns)
{
        static char out[4][96];
        static unsigned next;
        char *to = out[next++ % 4];

        clean_screen(to, sizeof out[0], text, strlen(text), report->utf8, columns, NULL);
        return to;
}

static const char *who(const struct blk_report *report, const struct stage_process *process)
{
        static char out[2][128];
        static unsigned next;
        char *to = out[next++ % 2];

        snprintf(to, sizeof out[0], "%s[%" PRIu32 "]", process->name[0] ? shown(report, process->name, 64) : "", process->pid);
        return to;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------------ */

struct unit { const char *name; double ns; int decimals; };

/* us as long as they stay readable. */
static struct unit unit_for(double max)
{
        return max < 1e8 ? (struct unit){"us", 1e3, 1} : (struct unit){"ms", 1e6, 3};
}

/* Parts of a whole in tenths of a percent that add up to 1000: what rounding leaves goes to those it robbed most. */
static void shares(const uint64_t *parts, int count, int *tenths)
{
        double total = 0, rest[STAGE_COUNT];
        int sum = 0;

        for (int i = 0; i < count; i++)
                total += (double)parts[i];
        for (int i = 0; i < count; i++) {
                double exact = total > 0 ? (double)parts[i] * 1000 / total : 0;
                tenths[i] = (int)exact;
                rest[i] = exact - tenths[i];
                sum += tenths[i];
        }
        for (; total > 0 && sum < 1000; sum++) {
                int most = 0;
                for (int i = 1; i < count; i++)
                        if (rest[i] > rest[most])
                                most = i;
                rest[most] = -1;
                tenths[most]++;
        }
}

static void put_sum_line(const struct stage_sum *sum)
{
        struct unit unit = unit_for(histogram_mean(&sum->bio[STAGE_Q2C]) * 100);
        bool first = true;

        if (sum->bios == 0)
                return;
        printf("Q2C %.*f %s on average", unit.decimals, histogram_mean(&sum->bio[STAGE_Q2C]) / unit.ns, unit.name);
        for (int i = 0; i < CAUSE_COUNT; i++) {
                if (sum->cause[i] == 0)
                        continue;
                printf(" %s %s %.*f", first ? "=" : "+", stage_cause_name((enum stage_cause)i), unit.decimals,
                        (double)sum->cause[i] / (double)sum->bios / unit.ns);
                first = false;
        }
        printf("\n");
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------------- */

static void put_stage(const char *name, const struct histogram *histogram, struct unit unit, int tenths)
{
        if (histogram->count == 0)
                return;
        printf("%-5s %10.*f %10.*f %10.*f %8" PRIu64, name, unit.decimals, (double)histogram->min / unit.ns, unit.decimals,
                histogram_mean(histogram) / unit.ns, unit.decimals, (double)histogram->max / unit.ns, histogram->count);
        for (int i = 0; i < 3; i++)
                printf(" %9.*f", unit.decimals, histogram_quantile(histogram, (const double[]){0.5, 0.95, 0.99}[i]) / unit.ns);
        if (tenths < 0)
                printf("      -\n");
        else
                printf(" %5d.%d\n", tenths / 10, tenths % 10);
}

static void put_stages(const struct stage_sum *data, const struct stage_sum *flush)
{
        double max = (double)(data->bio[STAGE_Q2C].count ? data->bio[STAGE_Q2C].max : 0);
        int tenths[STAGE_COUNT];

        if (flush->bio[STAGE_Q2C].count && (double)flush->bio[STAGE_Q2C].max > max)
                max = (double)flush->bio[STAGE_Q2C].max;
        struct unit unit = unit_for(max);
        printf("%s    %10s %10s %10s %8s %9s %9s %9s %6s%%\n", unit.name, "MIN", "AVG", "MAX", "N", "p50", "p95", "p99", "share");
        shares(data->path, STAGE_Q2C, tenths); /* all stages before Q2C are its parts */
        for (int i = 0; i < STAGE_Q2C; i++)
                put_stage(stage_name((enum stage)i), &data->bio[i], unit, tenths[i]);
        put_stage("Q2C", &data->bio[STAGE_Q2C], unit, 1000);
        if (flush->bios)
                put_stage("FLUSH", &flush->bio[STAGE_Q2C], unit, -1);
        if (data->request[STAGE_D2C].count) {
                printf("per request:\n");
                for (int i = 0; i < STAGE_COUNT; i++)
                        put_stage(stage_name((enum stage)i), &data->request[i], unit, -1);
        }
}

static void put_cause_heads(const struct stage_sum *all)
{
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (all->cause[i])
                        printf(" %6s", stage_cause_name((enum stage_cause)i));
        printf("  %%\n");
}

static void put_row(const char *label, const struct stage_sum *sum, const struct stage_sum *all, struct unit unit)
{
        const struct histogram *q2c = &sum->bio[STAGE_Q2C];
        int tenths[CAUSE_COUNT];

        if (q2c->count == 0)
                return;
        printf("%-20s %7" PRIu64 " %9.*f %9.*f %9.*f", label, q2c->count, unit.decimals, histogram_mean(q2c) / unit.ns, unit.decimals,
                histogram_quantile(q2c, 0.99) / unit.ns, unit.decimals, (double)q2c->max / unit.ns);
        shares(sum->cause, CAUSE_COUNT, tenths);
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (all->cause[i])
                        printf(" %4d.%d", tenths[i] / 10, tenths[i] % 10);
        printf("\n");
}

static void put_rows(const struct blk_report *report, uint32_t device, const struct stage_sum *all, struct stage_sum *sum)
{
        const struct stage_process *processes[PROCESSES + 1];
        struct unit unit = unit_for((double)all->bio[STAGE_Q2C].max);
        char label[64];
        bool flushers = false;

        snprintf(label, sizeof label, "direction (%s)", unit.name);
        printf("\n%-20s %7s %9s %9s %9s", label, "N", "AVG", "p99", "MAX");
        put_cause_heads(all);
        for (int direction = 0; direction < STAGE_DIRECTIONS; direction++)
                for (int kind = 0; kind < STAGE_KINDS; kind++) {
                        blk_sum(report, sum, device, direction, kind, NULL);
                        snprintf(label, sizeof label, "%s%s%s", stage_direction_name((enum stage_direction)direction),
                                direction == STAGE_FLUSHES ? "" : " ",
                                        direction == STAGE_FLUSHES ? "" : stage_kind_name((enum stage_kind)kind));
                        put_row(label, sum, all, unit);
                }
        size_t count = blk_list_processes(report, device, processes, PROCESSES + 1);
        printf("\n%7s %-12s %7s %9s %9s %9s", "PID", "Command", "N", "AVG", "p99", "MAX");
        put_cause_heads(all);
        for (size_t i = 0; i < count && i < PROCESSES; i++) {
                blk_sum(report, sum, device, BLK_ANY, BLK_ANY, processes[i]);
                snprintf(label, sizeof label, "%7" PRIu32 " %s", processes[i]->pid,
                        processes[i]->name[0] ? shown(report, processes[i]->name, 15) : "-");
                put_row(label, sum, all, unit);
                flushers |= blk_is_flusher(processes[i]);
        }
        if (flushers)
                printf("kworker/u*: writeback of pages that other processes dirtied\n");
        if (count > PROCESSES)
                printf("        ... and others: --format json has them all\n");
}

/* ---- notes -------------------------------------------------------------------------------------------------------------------------- */

static void note(uint64_t count, const char *text)
{
        if (count)
                printf("note: %" PRIu64 " %s\n", count, text);
}

static void put_notes(const struct blk_report *report)
{
        const struct blk_damage *damage = blk_get_damage(report->trace);
        const struct stage_counts *counts = stage_get_counts(report->set);
        uint64_t unmatched = 0;

        for (int i = 0; i < STAGE_ACTIONS; i++)
                unmatched += counts->unmatched[i];
        note(damage->lost, "events were lost when the trace was made");
        note(counts->spoilt, "bios were open then: their stages, and the highest percentiles, may be wrong");
        note(damage->overwritten, "older events were not kept by the trace's buffer");
        note(damage->skipped, "bytes are no events and were skipped: the trace is damaged");
        note(damage->lines, "lines look like events and are none: the trace is damaged");
        note(damage->cut, "files end within an event");
        note(damage->broken, "files could not be read to their end");
        note(damage->duplicates, "events were there twice");
        note(damage->disordered, "events were out of order by more than could be sorted");
        note(unmatched, "events belong to nothing that was seen: it began before the trace, or events are missing");
        note(counts->evicted, "bios never completed and were given up to save memory");
        note(counts->crowded, "times there were more devices, processes or rows than fit: they are under others");
        note(counts->backwards, "stages end before they begin and were counted as 0");
}

static void put_device(const struct blk_report *report, const struct stage_device *device, struct stage_sum *sums)
{
        struct stage_sum *all = &sums[0], *data = &sums[1], *flush = &sums[2];
        const struct stage_process *first[1];
        char text[128];
        double share;

        blk_sum(report, all, device->device, BLK_ANY, BLK_ANY, NULL);
        blk_sum(report, data, device->device, BLK_DATA, BLK_ANY, NULL);
        blk_sum(report, flush, device->device, STAGE_FLUSHES, BLK_ANY, NULL);
        blk_device_text(report, device->device, text, sizeof text);
        printf("\n%s: %s", shown(report, text, 64), blk_verdict(all));
        int cause = blk_first_cause(all, &share);
        if (cause >= 0)
                printf(" %.0f%% of the time: %s", share * 100, blk_cause_words((enum stage_cause)cause));
        printf("\n");
        put_sum_line(all);
        printf("%" PRIu64 " bios in %" PRIu64 " requests, %.0f kB", data->bios, data->requests, (double)all->sectors / 2);
        const struct { uint64_t count; const char *name; } extra[] = {{all->merged, "merged"}, {all->splits, "split"},
                {flush->bios, "flushes"},
                {all->requeues, "requeued"}, {all->errors, "errors"}, {report->process ? 0 : device->passthrough, "passthrough"},
                        {report->process ? 0 : device->bios, "not completed"}};
        for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
                if (extra[i].count)
                        printf(", %" PRIu64 " %s", extra[i].count, extra[i].name);
        uint64_t oldest, most;
        if (!report->process && stage_oldest(report->set, device->device, &oldest) && report->last > oldest)
                printf(" (oldest %.3f ms)", (double)(report->last - oldest) / 1e6);
        printf("\n");
        if (blk_list_processes(report, device->device, first, 1) == 1) {
                uint64_t total = blk_total(report, device->device, first[0], &most);
                printf("most of the waiting: %s, %.0f%%\n", who(report, first[0]),
                        all->path[STAGE_Q2C] ? 100 * (double)total / (double)all->path[STAGE_Q2C] : 0);
        }
        put_stages(data, flush);
        if (all->bios)
                put_rows(report, device->device, all, &sums[3]);
}

void blk_say(const struct blk_report *report)
{
        const struct stage_device *devices[DEVICES];
        struct stage_sum *sums = calloc(4, sizeof *sums);
        size_t count = blk_list_devices(report, devices, DEVICES);
        uint64_t start = blk_start(report->trace);

        if (sums == NULL)
                return;
        printf("%s%s  %" PRIu64 " events in %.3f s\n", shown(report, report->files[0], 60), report->file_count > 1 ? " ..." : "",
                blk_get_damage(report->trace)->events, report->last > start ? (double)(report->last - start) / 1e9 : 0);
        for (size_t i = 0; i < count; i++)
                put_device(report, devices[i], sums);
        if (count == 0)
                printf("nothing of %s\n", report->process ? "this process or device is in the trace" : "this device is in the trace");
        put_notes(report);
        free(sums);
}

void blk_say_slow(const struct blk_report *report, const struct stage_done *done, uint64_t start)
{
        const char *sign = "=";
        char device[64];

        printf("%12.6f %s %s %s %" PRIu64 " + %" PRIu64 "  %.3f ms", done->c > start ? (double)(done->c - start) / 1e9 : 0,
                shown(report, blk_device_text(report, done->row->device, device, sizeof device), 40), who(report, done->row->process),
                stage_direction_name((enum stage_direction)done->row->direction), done->sector, done->sectors,
                        (double)done->stage[STAGE_Q2C] / 1e6);
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (done->cause[i]) {
                        printf(" %s %s %.3f", sign, stage_cause_name((enum stage_cause)i), (double)done->cause[i] / 1e6);
                        sign = "+";
                }
        if (done->front)
                printf("  behind %s: %" PRIu64 " of %" PRIu64 " open", who(report, done->front), done->front_open, done->open);
        printf("\n");
}

void blk_say_btt(const struct blk_report *report, const struct btt *btt)
{
        const struct btt_row *all = btt_get_row(btt, 0);

        (void)report;
        printf("            ALL           MIN           AVG           MAX           N\n");
        printf("--------------- ------------- ------------- ------------- -----------\n\n");
        for (int i = 0; i < BTT_COLUMNS; i++) {
                const struct btt_cell *cell = &all->cells[i];
                if (cell->count)
                        printf("%-15s %13.9f %13.9f %13.9f %11" PRIu64 "\n", btt_name((enum btt_column)i), (double)cell->min / 1e9,
                                (double)cell->total / (double)cell->count / 1e9, (double)cell->max / 1e9, cell->count);
        }
}

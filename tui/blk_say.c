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
        [CAUSE_QUEUE] = {"IN THE SCHEDULER'S QUEUE, NOT THE DISK.", "in the I/O scheduler's queue, not yet given to the driver"},
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
const char *blk_shown(const struct blk_report *report, const char *text, size_t columns)
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

        snprintf(to, sizeof out[0], "%s[%" PRIu32 "]", process->name[0] ? blk_shown(report, process->name, 64) : "", process->pid);
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
void blk_tenths(const uint64_t *parts, int count, int *tenths)
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

static void put_sum_line(FILE *out, const struct stage_sum *sum, bool flushes)
{
        struct unit unit = unit_for(histogram_mean(&sum->bio[STAGE_Q2C]) * 100);
        bool first = true;

        if (sum->bios == 0)
                return;
        fprintf(out, "Q2C %.*f %s on average%s", unit.decimals, histogram_mean(&sum->bio[STAGE_Q2C]) / unit.ns, unit.name,
                flushes ? ", flushes included" : "");
        for (int i = 0; i < CAUSE_COUNT; i++) {
                if (sum->cause[i] == 0)
                        continue;
                fprintf(out, " %s %s %.*f", first ? "=" : "+", stage_cause_name((enum stage_cause)i), unit.decimals,
                        (double)sum->cause[i] / (double)sum->bios / unit.ns);
                first = false;
        }
        fprintf(out, "\n");
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------------- */

static void put_stage(FILE *out, const char *name, const struct histogram *histogram, struct unit unit, int tenths)
{
        if (histogram->count == 0)
                return;
        fprintf(out, "%-5s %9.*f %9.*f %9.*f %7" PRIu64, name, unit.decimals, (double)histogram->min / unit.ns, unit.decimals,
                histogram_mean(histogram) / unit.ns, unit.decimals, (double)histogram->max / unit.ns, histogram->count);
        for (int i = 0; i < 3; i++)
                fprintf(out, " %8.*f", unit.decimals, histogram_quantile(histogram, (const double[]){0.5, 0.95, 0.99}[i]) / unit.ns);
        if (tenths < 0)
                fprintf(out, "     -\n");
        else
                fprintf(out, " %3d.%d\n", tenths / 10, tenths % 10);
}

static void put_stages(FILE *out, const struct stage_sum *data, const struct stage_sum *flush)
{
        double max = (double)(data->bio[STAGE_Q2C].count ? data->bio[STAGE_Q2C].max : 0);
        int tenths[STAGE_COUNT];

        if (flush->bio[STAGE_Q2C].count && (double)flush->bio[STAGE_Q2C].max > max)
                max = (double)flush->bio[STAGE_Q2C].max;
        struct unit unit = unit_for(max);
        fprintf(out, "%s    %9s %9s %9s %7s %8s %8s %8s %5s%%\n", unit.name, "MIN", "AVG", "MAX", "N", "p50", "p95", "p99", "share");
        blk_tenths(data->path, STAGE_Q2C, tenths); /* all stages before Q2C are its parts */
        for (int i = 0; i < STAGE_Q2C; i++)
                put_stage(out, stage_name((enum stage)i), &data->bio[i], unit, tenths[i]);
        put_stage(out, "Q2C", &data->bio[STAGE_Q2C], unit, 1000);
        if (flush->bios)
                put_stage(out, "FLUSH", &flush->bio[STAGE_Q2C], unit, -1);
        if (data->request[STAGE_D2C].count && (data->merged || data->splits || flush->bios)) { /* else they are the same */
                fprintf(out, "per request:\n");
                for (int i = 0; i < STAGE_COUNT; i++)
                        put_stage(out, stage_name((enum stage)i), &data->request[i], unit, -1);
        }
}

/* Of a cause's column: "100.0" and the head fit. */
static size_t head_width(int cause)
{
        size_t width = strlen(stage_cause_name((enum stage_cause)cause));

        return width < 5 ? 5 : width;
}

static void put_cause_heads(FILE *out, const struct stage_sum *all)
{
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (all->cause[i])
                        fprintf(out, " %5s", stage_cause_name((enum stage_cause)i));
        fprintf(out, "\n");
}

static void put_row(FILE *out, const char *label, const struct stage_sum *sum, const struct stage_sum *all, struct unit unit)
{
        const struct histogram *q2c = &sum->bio[STAGE_Q2C];
        int tenths[CAUSE_COUNT];

        if (q2c->count == 0)
                return;
        fprintf(out, "%-19s %6" PRIu64 " %7.*f %7.*f %7.*f", label, q2c->count, unit.decimals, histogram_mean(q2c) / unit.ns, unit.decimals,
                histogram_quantile(q2c, 0.99) / unit.ns, unit.decimals, (double)q2c->max / unit.ns);
        blk_tenths(sum->cause, CAUSE_COUNT, tenths);
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (all->cause[i])
                        fprintf(out, " %*d.%d", (int)head_width(i) - 2, tenths[i] / 10, tenths[i] % 10);
        fprintf(out, "\n");
}

/* "    fio x 12" or "   4711 postgres". */
static const char *group_label(const struct blk_report *report, const struct blk_group *group)
{
        static char label[128];
        const char *name = group->process->name[0] ? blk_shown(report, group->process->name, 15) : "-";

        if (group->count > 1)
                snprintf(label, sizeof label, "%*s%u %s", group->count < 10 ? 5 : group->count < 100 ? 4 : 3, "x", group->count, name);
        else
                snprintf(label, sizeof label, "%6" PRIu32 " %s", group->process->pid, name);
        return label;
}

/* Four and more of one name are one line. */
static void put_processes(const struct blk_report *report, uint32_t device, const struct stage_sum *all, struct stage_sum *sum,
        struct unit unit)
{
        FILE *out = report->out;
        struct blk_group groups[PROCESSES + 1];
        size_t count = blk_list_groups(report, device, 4, groups, PROCESSES + 1);
        bool flushers = false;

        fprintf(out, "\n%6s %-12s %6s %7s %7s %7s", "PID", "Command", "N", "AVG", "p99", "MAX");
        put_cause_heads(out, all);
        for (size_t i = 0; i < count && i < PROCESSES; i++) {
                blk_sum_group(report, sum, device, &groups[i]);
                put_row(out, group_label(report, &groups[i]), sum, all, unit);
                flushers |= blk_is_flusher(groups[i].process);
        }
        if (flushers)
                fprintf(out, "kworker/u*: writeback of pages that other processes dirtied\n");
        if (count > PROCESSES)
                fprintf(out, "       ... and others: --format json has them all\n");
}

static void put_rows(const struct blk_report *report, uint32_t device, const struct stage_sum *all, struct stage_sum *sum)
{
        FILE *out = report->out;
        struct unit unit = unit_for((double)all->bio[STAGE_Q2C].max);
        char label[64];

        snprintf(label, sizeof label, "direction (%s, %%)", unit.name);
        fprintf(out, "\n%-19s %6s %7s %7s %7s", label, "N", "AVG", "p99", "MAX");
        put_cause_heads(out, all);
        for (int direction = 0; direction < STAGE_DIRECTIONS; direction++)
                for (int kind = 0; kind < STAGE_KINDS; kind++) {
                        blk_sum(report, sum, device, direction, kind, NULL);
                        snprintf(label, sizeof label, "%s%s%s", stage_direction_name((enum stage_direction)direction),
                                direction == STAGE_FLUSHES ? "" : " ",
                                        direction == STAGE_FLUSHES ? "" : stage_kind_name((enum stage_kind)kind));
                        put_row(out, label, sum, all, unit);
                }
        put_processes(report, device, all, sum, unit);
}

/* ---- notes -------------------------------------------------------------------------------------------------------------------------- */

static void note(FILE *out, uint64_t count, const char *text)
{
        if (count)
                fprintf(out, "note: %" PRIu64 " %s\n", count, text);
}

static void put_damage(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct blk_damage *damage = blk_get_damage(report->trace);

        note(out, damage->lost, "events were lost when the trace was made");
        note(out, damage->overwritten, "older events were not kept by the trace's buffer");
        note(out, damage->skipped, "bytes are no events and were skipped: the trace is damaged");
        note(out, damage->lines, "lines look like events and are none: the trace is damaged");
        note(out, damage->cut, "files end within an event");
        note(out, damage->broken, "files could not be read to their end");
        note(out, damage->duplicates, "events were there twice");
        note(out, damage->disordered, "events were out of order by more than could be sorted");
}

static void put_notes(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct stage_counts *counts = stage_get_counts(report->set);

        if (report->trace)
                put_damage(report);
        note(out, counts->spoilt, "bios were open when events were lost: their stages, and the highest percentiles, may be wrong");
        note(out, blk_unmatched(report), report->live ? "events belong to nothing that was seen: it began before the tracing" :
                "events belong to nothing that was seen: it began before the trace, or events are missing");
        note(out, counts->evicted, "bios never completed and were given up to save memory");
        note(out, counts->crowded, "times there were more devices, processes or rows than fit: they are under others");
        note(out, counts->backwards, "stages end before they begin and were counted as 0");
        if (report->live)
                blk_say_cost(report);
}

static void put_device(const struct blk_report *report, const struct stage_device *device, struct stage_sum *sums)
{
        FILE *out = report->out;
        struct stage_sum *all = &sums[0], *data = &sums[1], *flush = &sums[2];
        struct blk_group first;
        char text[128];
        double share;

        blk_sum(report, all, device->device, BLK_ANY, BLK_ANY, NULL);
        blk_sum(report, data, device->device, BLK_DATA, BLK_ANY, NULL);
        blk_sum(report, flush, device->device, STAGE_FLUSHES, BLK_ANY, NULL);
        blk_device_text(report, device->device, text, sizeof text);
        fprintf(out, "\n%s: %s", blk_shown(report, text, 64), blk_verdict(all));
        int cause = blk_first_cause(all, &share);
        if (cause >= 0)
                fprintf(out, " %.0f%% of the time: %s", share * 100, blk_cause_words((enum stage_cause)cause));
        fprintf(out, "\n");
        put_sum_line(out, all, flush->bios > 0);
        fprintf(out, "%" PRIu64 " bios in %" PRIu64 " requests, %.0f kB", data->bios, data->requests, (double)all->sectors / 2);
        const struct { uint64_t count; const char *name; } extra[] = {{all->merged, "merged"}, {all->splits, "split"},
                {flush->bios, "flushes"},
                {all->requeues, "requeued"}, {all->errors, "errors"}, {report->process ? 0 : device->passthrough, "passthrough"},
                        {report->process ? 0 : device->bios, "not completed"}};
        for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
                if (extra[i].count)
                        fprintf(out, ", %" PRIu64 " %s", extra[i].count, extra[i].name);
        uint64_t oldest;
        if (!report->process && stage_oldest(report->set, device->device, &oldest) && report->last > oldest)
                fprintf(out, " (oldest %.3f ms)", (double)(report->last - oldest) / 1e6);
        fprintf(out, "\n");
        if (report->process == NULL && blk_list_groups(report, device->device, 2, &first, 1) == 1) {
                fprintf(out, "most of the waiting: %s", who(report, first.process));
                if (first.count > 1)
                        fprintf(out, " and %u more of that name", first.count - 1);
                fprintf(out, ", %.0f%%\n", all->path[STAGE_Q2C] ? 100 * (double)first.total / (double)all->path[STAGE_Q2C] : 0);
        }
        put_stages(out, data, flush);
        if (all->bios)
                put_rows(report, device->device, all, &sums[3]);
}

static void put_nothing(const struct blk_report *report)
{
        double seconds = report->last > report->start ? (double)(report->last - report->start) / 1e9 : 0;

        if (report->live == NULL && report->process == NULL && report->device_count == 0)
                fprintf(report->out, "no bio ended in this trace\n");
        else if (report->live == NULL)
                fprintf(report->out, "nothing of this %s is in the trace\n", report->process == NULL ? "device" :
                        report->device_count ? "process on this device" : "process");
        else if (report->process)
                fprintf(report->out, "no bio of %s ended in %.1f s (buffered writes are queued by kworkers)\n",
                        blk_shown(report, report->process, 40), seconds);
        else
                fprintf(report->out, "no bio ended in %.1f s%s\n", seconds, report->device_count ? " on this device" : "");
}

void blk_say(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct stage_device *devices[DEVICES];
        struct stage_sum *sums = calloc(4, sizeof *sums);
        size_t count = blk_list_devices(report, devices, DEVICES);

        if (sums == NULL)
                return;
        if (report->live)
                blk_say_head(report);
        else
                fprintf(out, "%s%s  %" PRIu64 " events in %.3f s\n", blk_shown(report, report->files[0], 60),
                        report->file_count > 1 ? " ..." : "", blk_get_damage(report->trace)->events,
                        report->last > report->start ? (double)(report->last - report->start) / 1e9 : 0);
        for (size_t i = 0; i < count; i++)
                put_device(report, devices[i], sums);
        if (count == 0)
                put_nothing(report);
        put_notes(report);
        free(sums);
}

void blk_say_slow(const struct blk_report *report, const struct stage_done *done, uint64_t start)
{
        FILE *out = report->out;
        const char *sign = "=";
        char device[64];

        fprintf(out, "%12.6f %s %s %s %" PRIu64 " + %" PRIu64 "  %.3f ms", done->c > start ? (double)(done->c - start) / 1e9 : 0,
                blk_shown(report, blk_device_text(report, done->row->device, device, sizeof device), 40), who(report, done->row->process),
                stage_direction_name((enum stage_direction)done->row->direction), done->sector, done->sectors,
                        (double)done->stage[STAGE_Q2C] / 1e6);
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (done->cause[i]) {
                        fprintf(out, " %s %s %.3f", sign, stage_cause_name((enum stage_cause)i), (double)done->cause[i] / 1e6);
                        sign = "+";
                }
        if (done->front)
                fprintf(out, "  behind %s: %" PRIu64 " of %" PRIu64 " open", who(report, done->front), done->front_open, done->open);
        fprintf(out, "\n");
}

void blk_say_btt(const struct blk_report *report, const struct btt *btt)
{
        FILE *out = report->out;
        const struct btt_row *all = btt_get_row(btt, 0);

        fprintf(out, "            ALL           MIN           AVG           MAX           N\n");
        fprintf(out, "--------------- ------------- ------------- ------------- -----------\n\n");
        for (int i = 0; i < BTT_COLUMNS; i++) {
                const struct btt_cell *cell = &all->cells[i];
                if (cell->count)
                        fprintf(out, "%-15s %13.9f %13.9f %13.9f %11" PRIu64 "\n", btt_name((enum btt_column)i), (double)cell->min / 1e9,
                                (double)cell->total / (double)cell->count / 1e9, (double)cell->max / 1e9, cell->count);
        }
}

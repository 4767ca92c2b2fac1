/*
 * watop blk as JSON: one object a report, times in ns, shares in percent at full precision; what there is none of is null or left out of a
 * table of stages, never 0. Each bio slower than --slower is an object of its own line, before the report's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/metric.h"
#include "tui/blk.h"
#include "tui/clean.h"

enum { DEVICES = 256, PROCESSES = 16384 };

void blk_put_text(const char *before, const char *key, const char *value)
{
        char clean[2048];

        clean_json(clean, sizeof clean, value, strlen(value));
        printf("%s\"%s\":\"%s\"", before, key, clean);
}

void blk_put_number(const char *before, const char *key, uint64_t value)
{
        printf("%s\"%s\":%" PRIu64, before, key, value);
}

void blk_put_double(const char *before, const char *key, double value)
{
        char exact[48];
        struct value wrapped = {.kind = VALUE_NUMBER, .number = value};

        value_exact(exact, sizeof exact, &wrapped, "null");
        printf("%s\"%s\":%s", before, key, exact);
}

static void put_name(const char *before, const struct stage_process *process)
{
        blk_put_number(before, "PID", process->pid);
        if (process->name[0])
                blk_put_text(",", "Command", process->name);
        else
                printf(",\"Command\":null");
}

static void put_histogram(const char *before, const char *name, const struct histogram *histogram)
{
        printf("%s\"%s\":{\"n\":%" PRIu64 ",\"total\":%" PRIu64 ",\"min\":%" PRIu64, before, name, histogram->count, histogram->total,
                histogram->min);
        blk_put_double(",", "avg", histogram_mean(histogram));
        blk_put_number(",", "max", histogram->max);
        blk_put_double(",", "p50", histogram_quantile(histogram, 0.5));
        blk_put_double(",", "p95", histogram_quantile(histogram, 0.95));
        blk_put_double(",", "p99", histogram_quantile(histogram, 0.99));
}

static void put_stages(const struct stage_sum *sum)
{
        const char *before = "";

        printf(",\"stages\":{");
        for (int i = 0; i < STAGE_COUNT; i++) {
                if (sum->bio[i].count == 0)
                        continue;
                put_histogram(before, stage_name((enum stage)i), &sum->bio[i]);
                if (sum->path[STAGE_Q2C])
                        blk_put_double(",", "share", 100 * (double)sum->path[i] / (double)sum->path[STAGE_Q2C]);
                printf("}");
                before = ",";
        }
        printf("},\"request_stages\":{");
        before = "";
        for (int i = 0; i < STAGE_COUNT; i++) {
                if (sum->request[i].count == 0)
                        continue;
                put_histogram(before, stage_name((enum stage)i), &sum->request[i]);
                printf("}");
                before = ",";
        }
        printf("},\"causes\":{");
        before = "";
        for (int i = 0; i < CAUSE_COUNT; i++) {
                blk_put_number(before, stage_cause_name((enum stage_cause)i), sum->cause[i]);
                before = ",";
        }
        printf("}");
}

static void put_sum(const struct stage_sum *sum)
{
        blk_put_number(",", "bios", sum->bios);
        blk_put_number(",", "requests", sum->requests);
        blk_put_number(",", "bytes", sum->sectors * 512);
        blk_put_number(",", "merged", sum->merged);
        blk_put_number(",", "split", sum->splits);
        blk_put_number(",", "requeued", sum->requeues);
        blk_put_number(",", "errors", sum->errors);
        blk_put_number(",", "spoilt", sum->spoilt);
        put_stages(sum);
}

static void put_verdict(const struct stage_sum *sum)
{
        double share;
        int cause = blk_first_cause(sum, &share);

        blk_put_text(",", "verdict", blk_verdict(sum));
        if (cause < 0) {
                printf(",\"cause\":null,\"cause_share\":null");
                return;
        }
        blk_put_text(",", "cause", stage_cause_name((enum stage_cause)cause));
        blk_put_double(",", "cause_share", 100 * share);
}

static void put_processes(const struct blk_report *report, uint32_t device, struct stage_sum *sum)
{
        const struct stage_process **list = calloc(PROCESSES, sizeof *list);
        size_t count = list ? blk_list_processes(report, device, list, PROCESSES) : 0;

        printf(",\"processes\":[");
        for (size_t i = 0; i < count; i++) {
                put_name(i ? ",{" : "{", list[i]);
                printf(",\"flusher\":%s", blk_is_flusher(list[i]) ? "true" : "false");
                blk_put_number(",", "open", list[i]->open);
                blk_sum(report, sum, device, BLK_ANY, BLK_ANY, list[i]);
                put_verdict(sum);
                put_sum(sum);
                printf("}");
        }
        printf("]");
        free(list);
}

static void put_device(const struct blk_report *report, const struct stage_device *device, struct stage_sum *sum)
{
        char text[128];
        char known[64];
        const char *before = "", *name = blk_device_known(report, device->device, known, sizeof known);

        snprintf(text, sizeof text, "%u,%u", device->device >> 20, device->device & 0xfffff);
        blk_put_text("", "device", text);
        if (name)
                blk_put_text(",", "name", name);
        else
                printf(",\"name\":null");
        blk_sum(report, sum, device->device, BLK_ANY, BLK_ANY, NULL);
        put_verdict(sum);
        blk_put_number(",", "open", device->bios);
        uint64_t oldest;
        if (stage_oldest(report->set, device->device, &oldest) && report->last >= oldest)
                blk_put_number(",", "oldest_open", report->last - oldest);
        else
                printf(",\"oldest_open\":null");
        blk_put_number(",", "passthrough", device->passthrough);
        if (report->live) /* a tracer's records are of bios: of a flush request that serves several, each speaks */
                printf(",\"flush_requests\":null");
        else
                blk_put_number(",", "flush_requests", device->flushes);
        blk_sum(report, sum, device->device, BLK_DATA, BLK_ANY, NULL);
        put_sum(sum);
        printf(",\"directions\":[");
        for (int direction = 0; direction < STAGE_DIRECTIONS; direction++)
                for (int kind = 0; kind < STAGE_KINDS; kind++) {
                        blk_sum(report, sum, device->device, direction, kind, NULL);
                        if (sum->bios == 0)
                                continue;
                        printf("%s{", before);
                        blk_put_text("", "direction", stage_direction_name((enum stage_direction)direction));
                        blk_put_text(",", "kind", stage_kind_name((enum stage_kind)kind));
                        put_sum(sum);
                        printf("}");
                        before = ",";
                }
        printf("]");
        put_processes(report, device->device, sum);
}

static void put_files(const struct blk_report *report)
{
        const struct blk_damage *damage = blk_get_damage(report->trace);
        const struct { const char *key; uint64_t value; } fields[] = {{"overwritten", damage->overwritten},
                {"skipped_bytes", damage->skipped}, {"bad_lines", damage->lines}, {"cut_files", damage->cut},
                {"broken_files", damage->broken}, {"duplicates", damage->duplicates}, {"disordered", damage->disordered}};

        printf("\"files\":[");
        for (size_t i = 0; i < report->file_count; i++) {
                char clean[2048];
                clean_json(clean, sizeof clean, report->files[i], strlen(report->files[i]));
                printf("%s\"%s\"", i ? "," : "", clean);
        }
        blk_put_number("],", "events", damage->events);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                blk_put_number(",", fields[i].key, fields[i].value);
        printf(",");
}

void blk_json(const struct blk_report *report)
{
        const struct stage_counts *counts = stage_get_counts(report->set);
        const struct stage_device *devices[DEVICES];
        struct stage_sum *sum = calloc(1, sizeof *sum);
        size_t count = blk_list_devices(report, devices, DEVICES);
        uint64_t lost = report->live ? report->live->lost + report->live->overrun : blk_get_damage(report->trace)->lost;

        if (sum == NULL)
                return;
        printf("{");
        if (report->live)
                blk_json_head(report);
        else
                put_files(report);
        blk_put_number("", "span", report->last > report->start ? report->last - report->start : 0);
        const struct { const char *key; uint64_t value; } fields[] = {{"lost", lost}, {"spoilt", counts->spoilt},
                {"unmatched", blk_unmatched(report)}, {"evicted", counts->evicted}, {"crowded", counts->crowded},
                {"backwards", counts->backwards}};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                blk_put_number(",", fields[i].key, fields[i].value);
        printf(",\"devices\":[");
        for (size_t i = 0; i < count; i++) {
                printf("%s{", i ? "," : "");
                put_device(report, devices[i], sum);
                printf("}");
        }
        printf("]}\n");
        free(sum);
}

void blk_json_slow(const struct blk_report *report, const struct stage_done *done, uint64_t start)
{
        char device[64];

        (void)report;
        snprintf(device, sizeof device, "%u,%u", done->row->device >> 20, done->row->device & 0xfffff);
        blk_put_number("{", "time", done->c > start ? done->c - start : 0);
        blk_put_text(",", "device", device);
        put_name(",", done->row->process);
        blk_put_text(",", "direction", stage_direction_name((enum stage_direction)done->row->direction));
        blk_put_number(",", "sector", done->sector);
        blk_put_number(",", "sectors", done->sectors);
        blk_put_number(",", "Q2C", done->stage[STAGE_Q2C]);
        printf(",\"causes\":{");
        for (int i = 0; i < CAUSE_COUNT; i++)
                blk_put_number(i ? "," : "", stage_cause_name((enum stage_cause)i), done->cause[i]);
        printf("},\"behind\":");
        if (done->front) {
                put_name("{", done->front);
                blk_put_number(",", "open", done->front_open);
                blk_put_number(",", "of", done->open);
                printf("}}\n");
        } else {
                printf("null}\n");
        }
}

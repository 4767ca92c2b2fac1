/*
 * watop blk as JSON, what only a tracer knows: the source, its cost and losses, the verdict about who waited, calls, writeback; slow calls
 * and bios as objects of their own lines. Times in ns, shares in percent; what is not known is null.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sample/stage_stream.h"
#include "tui/blk.h"
#include "tui/blk_system.h"

static void put_word(const char *before, const char *key, const char *value)
{
        if (value && value[0])
                blk_put_text(before, key, value);
        else
                printf("%s\"%s\":null", before, key);
}

static void put_device(const char *before, const char *key, uint32_t device)
{
        char text[32];

        snprintf(text, sizeof text, "%u,%u", device >> 20, device & 0xfffff);
        put_word(before, key, device ? text : NULL);
}

static void put_process(const struct blk_report *report, const char *before, uint32_t tgid)
{
        blk_put_number(before, "PID", tgid);
        put_word(",", "Command", blk_names_get(blk_calls_names(report->live->calls), tgid, NULL));
}

static void put_time(const struct blk_report *report, const char *before, const char *key, uint64_t mono)
{
        uint64_t real = mono + (uint64_t)report->live->real_offset;
        time_t seconds = (time_t)(real / 1000000000);
        struct tm tm;
        char text[64], whole[96];

        if (!gmtime_r(&seconds, &tm) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
                text[0] = '\0';
        snprintf(whole, sizeof whole, "%s.%06uZ", text, (unsigned)(real % 1000000000 / 1000));
        blk_put_text(before, key, whole);
}

static void put_parts(const uint64_t *part)
{
        printf(",\"parts\":{");
        for (int i = 0; i < SYNC_PARTS; i++)
                blk_put_number(i ? "," : "", sync_part_name(i), part[i]);
        printf("}");
}

static void put_causes(const char *key, const uint64_t *cause)
{
        printf(",\"%s\":{", key);
        for (int i = 0; i < CAUSE_COUNT; i++)
                blk_put_number(i ? "," : "", stage_cause_name((enum stage_cause)i), cause[i]);
        printf("}");
}

static void put_behind(const struct blk_report *report, const struct behind_answer *behind)
{
        printf(",\"behind\":[");
        for (size_t i = 0; i < behind->count && i < BEHIND_MOST; i++) {
                put_process(report, i ? ",{" : "{", behind->who[i].tgid);
                blk_put_double(",", "share", 100 * behind->who[i].share);
                blk_put_double(",", "open", behind->who[i].open);
                printf("}");
        }
        blk_put_double("],", "open", behind->open);
        blk_put_double(",", "own_open", behind->own);
        printf(",\"whole\":%s", behind->whole ? "true" : "false");
}

/* ---- the report ---------------------------------------------------------------------------------------------------------------------- */

static void put_source(const struct blk_live *live)
{
        static const char *const names[] = {[STREAM_NONE] = NULL, [STREAM_BPF] = "bpf", [STREAM_TRACEFS] = "tracefs"};

        printf("\"tracer\":{");
        put_word("", "source", live->source < sizeof names / sizeof *names ? names[live->source] : NULL);
        printf(",\"private\":%s,\"calls\":%s", live->private_daemon ? "true" : "false", live->calls_traced ? "true" : "false");
        blk_put_number(",", "lost", live->lost);
        blk_put_number(",", "overrun", live->overrun);
        blk_put_number(",", "unmatched", live->unmatched);
        blk_put_number(",", "crowded", live->crowded);
        blk_put_number(",", "spoilt_calls", live->spoilt_calls);
        blk_put_number(",", "early_calls", live->early_calls);
        blk_put_number(",", "dark", live->dark_ns);
        blk_put_number(",", "crowded_calls", blk_calls_crowded(live->calls));
        blk_put_number(",", "outages", live->outages);
        if (live->run_count) {
                blk_put_number(",", "run", live->run_ns);
                blk_put_number(",", "runs", live->run_count);
        } else {
                printf(",\"run\":null,\"runs\":null"); /* kernel.bpf_stats_enabled is 0 */
        }
        blk_put_number(",", "watopd_cpu", live->daemon_ns);
        blk_put_number(",", "watop_cpu", live->own_ns);
        printf("},");
}

static void put_victim(const struct blk_report *report)
{
        struct blk_judgement judgement;
        const struct blk_waiter *victim = blk_find_victim(report, &judgement);

        if (victim == NULL) {
                printf("\"victim\":null,");
                return;
        }
        printf("\"victim\":{");
        put_process(report, "", victim->tgid);
        blk_put_text(",", "verdict", blk_judged(&judgement));
        put_word(",", "cause", judgement.cause >= 0 ? sync_part_name(judgement.cause) : NULL);
        blk_put_double(",", "share", 100 * judgement.share);
        blk_put_double(",", "through_journal", 100 * judgement.through_journal);
        blk_put_number(",", "calls", victim->calls);
        blk_put_number(",", "bios", victim->bios);
        blk_put_number(",", "total", victim->total);
        blk_put_number(",", "longest", victim->longest);
        put_device(",", "device", victim->disk);
        put_parts(victim->part);
        put_causes("journal", victim->journal);
        if (judgement.behind > 0) {
                printf(",\"culprit\":{");
                put_word("", "Command", judgement.culprit);
                blk_put_number(",", "first_PID", judgement.first);
                blk_put_number(",", "last_PID", judgement.last);
                blk_put_number(",", "processes", judgement.processes);
                blk_put_double(",", "share", 100 * judgement.behind);
                printf(",\"itself\":%s}", judgement.itself ? "true" : "false");
        } else {
                printf(",\"culprit\":null");
        }
        printf(",\"in_front\":[");
        for (size_t i = 0; i < victim->fronts; i++) {
                put_process(report, i ? ",{" : "{", victim->front[i].tgid);
                blk_put_double(",", "time", victim->front[i].ns);
                printf("}");
        }
        blk_put_number("],", "unknown", victim->unknown);
        printf("},");
}

static void put_call(const struct blk_report *report, const char *before, const struct blk_call *call)
{
        const struct histogram *time = &call->time;

        put_process(report, before, call->tgid);
        blk_put_text(",", "call", sync_call_name(call->call));
        blk_put_number(",", "n", time->count);
        blk_put_number(",", "errors", call->errors);
        blk_put_number(",", "total", time->total);
        blk_put_number(",", "min", time->min);
        blk_put_double(",", "avg", histogram_mean(time));
        blk_put_number(",", "max", time->max);
        blk_put_double(",", "p50", histogram_quantile(time, 0.5));
        blk_put_double(",", "p95", histogram_quantile(time, 0.95));
        blk_put_double(",", "p99", histogram_quantile(time, 0.99));
        put_parts(call->part);
        blk_put_number(",\"longest\":{", "time", call->longest.time);
        put_time(report, ",", "end", call->longest.end);
        blk_put_number(",", "tid", call->longest.tid);
        put_word(",", "file", call->longest.file);
        put_device(",", "file_device", call->longest.device);
        blk_put_number(",", "inode", call->longest.inode);
        blk_put_number(",", "bytes", call->longest.bytes);
        put_parts(call->longest.part);
        printf("}}");
}

static void put_open_bios(const struct blk_report *report)
{
        const char *before = "{";

        printf("],\"open\":[");
        for (size_t i = 0; i < report->live->opens; i++) {
                const struct stage_record *bio = &report->live->open[i].record;
                enum stage_direction direction = bio->direction < STAGE_DIRECTIONS ? (enum stage_direction)bio->direction : STAGE_ELSE;
                if (!blk_still_open(report, &report->live->open[i]))
                        continue;
                put_device(before, "device", bio->device);
                put_process(report, ",", bio->tgid);
                blk_put_number(",", "tid", bio->tid);
                blk_put_text(",", "direction", stage_direction_name(direction));
                blk_put_number(",", "sector", bio->bio.sector);
                blk_put_number(",", "sectors", bio->bio.sectors);
                blk_put_number(",", "time", report->last > bio->bio.q ? report->last - bio->bio.q : 0);
                blk_put_text(",", "where", blk_open_code(blk_open_where(bio)));
                printf("}");
                before = ",{";
        }
}

void blk_json_head(const struct blk_report *report)
{
        const struct blk_live *live = report->live;

        put_source(live);
        put_victim(report);
        printf("\"calls\":");
        if (live->calls_traced) {
                printf("[");
                for (size_t i = 0; i < blk_calls_count(live->calls); i++)
                        put_call(report, i ? ",{" : "{", blk_calls_get(live->calls, i));
                printf("],");
        } else {
                printf("null,");
        }
        printf("\"writeback\":[");
        for (size_t i = 0; i < live->writebacks; i++) {
                char path[512];
                const struct blk_writeback *group = &live->writeback[i];
                blk_put_number(i ? ",{" : "{", "cgroup", group->cgroup);
                put_word(",", "path", group->cgroup && blk_cgroup_path(group->cgroup, path, sizeof path) ? path : NULL);
                blk_put_number(",", "bios", group->bios);
                blk_put_number(",", "bytes", group->bytes);
                printf("}");
        }
        put_open_bios(report);
        printf("],\"stuck\":[");
        for (size_t i = 0; i < live->stucks; i++) {
                put_device(i ? ",{" : "{", "device", live->stuck[i].device);
                blk_put_number(",", "inflight", live->stuck[i].inflight);
                blk_put_number(",", "time", report->last > live->stuck[i].since ? report->last - live->stuck[i].since : 0);
                printf("}");
        }
        printf("],");
}

/* ---- as it happens ------------------------------------------------------------------------------------------------------------------ */

void blk_json_slow_call(const struct blk_report *report, const struct sync_done *done)
{
        const struct stage_record *record = done->record;
        char file[RECORD_FILE];

        snprintf(file, sizeof file, "%.*s", RECORD_FILE - 1, record->sync.file);
        put_time(report, "{", "time", record->sync.end);
        put_process(report, ",", record->tgid);
        blk_put_number(",", "tid", record->tid);
        blk_put_text(",", "call", sync_call_name(record->sync.call < SYNC_CALLS ? (enum sync_call)record->sync.call : SYNC_ALL));
        blk_put_number(",", "duration", record->sync.end - record->sync.start);
        printf(",\"result\":%" PRId32, record->sync.result);
        put_word(",", "file", file);
        put_device(",", "device", done->disk);
        put_parts(done->part);
        put_causes("journal", done->journal);
        put_behind(report, &done->behind);
        printf("}\n");
}

void blk_json_slow_bio(const struct blk_report *report, const struct stage_done *done, const struct behind_answer *behind)
{
        put_time(report, "{", "time", done->c);
        put_device(",", "device", done->row->device);
        put_process(report, ",", done->row->process->pid);
        blk_put_text(",", "direction", stage_direction_name((enum stage_direction)done->row->direction));
        blk_put_number(",", "sector", done->sector);
        blk_put_number(",", "sectors", done->sectors);
        blk_put_number(",", "Q2C", done->stage[STAGE_Q2C]);
        put_causes("causes", done->cause);
        put_behind(report, behind);
        printf("}\n");
}

/*
 * watop blk: where block latency goes. So far from recorded traces: --from FILE...
 *
 * The events go through the stage engine (sample/stage.h), which knows nothing of files; what it sums up is said per device, direction
 * and process, with a verdict in words. Damage and losses are counted and said; a trace without a single event is an error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample/stage_btt.h"
#include "tui/blk.h"
#include "tui/clean.h"
#include "tui/options.h"
#include "tui/verbs.h"

enum { CODE_FROM = OPTION_LONG, CODE_EVENTS, CODE_SLOWER, CODE_BTT, MAX_FILES = 8192 };

struct blk {
        const char *files[MAX_FILES];
        struct blk_report report;
        bool events, btt, json;
        uint64_t slower;         /* ns; 0 = none are printed */
};

/* ---- command line -------------------------------------------------------------------------------------------------------------------- */

static int add_file(struct blk *blk, const char *path)
{
        if (blk->report.file_count == MAX_FILES)
                return options_error("blk", "more than %d files", MAX_FILES);
        blk->files[blk->report.file_count++] = path;
        return 0;
}

/* "10", "10ms", "0.5ms", "200us", "1s": bare numbers are ms. */
static int parse_slower(const char *text, uint64_t *ns)
{
        static const struct { const char *name; double ns; } units[] = {{"", 1e6}, {"ms", 1e6}, {"us", 1e3}, {"s", 1e9}};
        double value = 0, place = 1;
        bool digits = false, point = false;

        for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
                if (*text == '.') {
                        point = true;
                        continue;
                }
                digits = true;
                value = value * 10 + (*text - '0');
                if (point)
                        place *= 10;
                if (value > 1e15)
                        return -EINVAL;
        }
        for (size_t i = 0; digits && i < sizeof units / sizeof *units; i++)
                if (strcmp(text, units[i].name) == 0) {
                        *ns = (uint64_t)(value / place * units[i].ns);
                        return *ns > 0 ? 0 : -EINVAL;
                }
        return -EINVAL;
}

static int blk_option(void *own, int code, const char *value)
{
        struct blk *blk = own;

        switch (code) {
        case CODE_FROM: return add_file(blk, value);
        case CODE_EVENTS: blk->events = true; return 0;
        case CODE_BTT: blk->btt = true; return 0;
        case 'p': blk->report.process = value; return 0;
        default:
                if (parse_slower(value, &blk->slower) < 0)
                        return options_error("blk", "'%s' is not a time such as 10, 0.5ms, 200us or 1s", value);
                return 0;
        }
}

/* After --from, what is a file is read, too (shells expand sda.blktrace.*); anything else is a device. */
static int blk_argument(void *own, const char *value)
{
        struct blk *blk = own;
        struct stat st;

        if (blk->report.file_count > 0 && (strcmp(value, "-") == 0 || (stat(value, &st) == 0 && !S_ISBLK(st.st_mode) &&
                !S_ISDIR(st.st_mode))))
                return add_file(blk, value);
        if (strncmp(value, "/dev/", 5) == 0)
                value += 5;
        if (strchr(value, '/'))
                return options_error("blk", "%s: %s", value, strerror(ENOENT));
        if (blk->report.device_count == BLK_DEVICES)
                return options_error("blk", "more than %d devices", BLK_DEVICES);
        blk->report.devices[blk->report.device_count++] = value;
        return 0;
}

/* ---- rows that were asked for ------------------------------------------------------------------------------------------------------- */

const char *blk_device_text(const struct blk_report *report, uint32_t device, char *out, size_t size)
{
        const char *name = blk_device_name(report->trace, device);

        snprintf(out, size, "%u,%u%s%s", device >> 20, device & 0xfffff, name ? " " : "", name ? name : "");
        return out;
}

bool blk_want_device(const struct blk_report *report, uint32_t device)
{
        char comma[32], colon[32];
        const char *name = blk_device_name(report->trace, device);

        snprintf(comma, sizeof comma, "%u,%u", device >> 20, device & 0xfffff);
        snprintf(colon, sizeof colon, "%u:%u", device >> 20, device & 0xfffff);
        for (size_t i = 0; i < report->device_count; i++)
                if (strcmp(report->devices[i], comma) == 0 || strcmp(report->devices[i], colon) == 0 ||
                    (name && strcmp(report->devices[i], name) == 0))
                        return true;
        return report->device_count == 0;
}

static bool want_thread(const struct blk_report *report, uint32_t pid, const char *name)
{
        char number[16];

        if (report->process == NULL)
                return true;
        snprintf(number, sizeof number, "%u", pid);
        return strcmp(report->process, number) == 0 || (name && strcmp(report->process, name) == 0);
}

bool blk_want_process(const struct blk_report *report, const struct stage_process *process)
{
        return want_thread(report, process->pid, process->name);
}

void blk_sum(const struct blk_report *report, struct stage_sum *sum, uint32_t device, int direction, int kind,
        const struct stage_process *process)
{
        memset(sum, 0, sizeof *sum);
        for (size_t i = 0; i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                if (row->device != device || (process ? row->process != process : !blk_want_process(report, row->process)) ||
                    (direction == BLK_DATA ? row->direction == STAGE_FLUSHES : direction != BLK_ANY && row->direction != direction) ||
                    (kind != BLK_ANY && row->kind != kind))
                        continue;
                stage_add(sum, row);
        }
}

uint64_t blk_total(const struct blk_report *report, uint32_t device, const struct stage_process *process, uint64_t *bios)
{
        uint64_t total = 0;

        *bios = 0;
        for (size_t i = 0; i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                if (row->device != device || (process ? row->process != process : !blk_want_process(report, row->process)))
                        continue;
                total += row->path[STAGE_Q2C];
                *bios += (row->bio[STAGE_Q2C] ? row->bio[STAGE_Q2C]->count : 0) + row->requests;
        }
        return total;
}

struct ranked { const void *item; uint64_t total; };

static int by_total(const void *a, const void *b)
{
        const struct ranked *x = a, *y = b;

        return x->total == y->total ? 0 : x->total < y->total ? 1 : -1;
}

size_t blk_list_devices(const struct blk_report *report, const struct stage_device **list, size_t room)
{
        struct ranked ranked[256];
        size_t count = 0;

        for (size_t i = 0; i < stage_devices(report->set) && count < 256; i++) {
                const struct stage_device *device = stage_get_device(report->set, i);
                uint64_t bios, total = blk_total(report, device->device, NULL, &bios);
                if (blk_want_device(report, device->device) && (bios || (report->process == NULL && (device->bios || device->requests ||
                        device->passthrough))))
                        ranked[count++] = (struct ranked){.item = device, .total = total};
        }
        qsort(ranked, count, sizeof *ranked, by_total);
        for (size_t i = 0; i < count && i < room; i++)
                list[i] = ranked[i].item;
        return count < room ? count : room;
}

size_t blk_list_processes(const struct blk_report *report, uint32_t device, const struct stage_process **list, size_t room)
{
        struct ranked *ranked = calloc(stage_rows(report->set) + 1, sizeof *ranked);
        size_t count = 0;

        for (size_t i = 0; ranked && i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                size_t k = 0;
                if (row->device != device || !blk_want_process(report, row->process) || !row->bio[STAGE_Q2C])
                        continue;
                while (k < count && ranked[k].item != row->process)
                        k++;
                if (k == count)
                        ranked[count++] = (struct ranked){.item = row->process};
                ranked[k].total += row->path[STAGE_Q2C];
        }
        if (ranked)
                qsort(ranked, count, sizeof *ranked, by_total);
        for (size_t i = 0; i < count && i < room; i++)
                list[i] = ranked[i].item;
        free(ranked);
        return count < room ? count : room;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

static void on_done(void *own, const struct stage_done *done)
{
        const struct blk *blk = own;

        if (done->stage[STAGE_Q2C] < blk->slower || !blk_want_device(&blk->report, done->row->device) ||
            !blk_want_process(&blk->report, done->row->process))
                return;
        if (blk->json)
                blk_json_slow(&blk->report, done, blk_start(blk->report.trace));
        else
                blk_say_slow(&blk->report, done, blk_start(blk->report.trace));
}

static void print_event(const struct blk *blk, const struct blk_record *record)
{
        char line[256], clean[512];
        size_t length;

        if (blk->report.device_count > 0 && !blk_want_device(&blk->report, record->event.device))
                return;
        if (!want_thread(&blk->report, record->event.pid, record->event.name))
                return;
        length = blk_format(line, sizeof line, record, blk_start(blk->report.trace));
        clean_screen(clean, sizeof clean, line, length, blk->report.utf8, sizeof clean, NULL);
        puts(clean);
}

static int read_all(struct blk *blk, struct blk_trace *trace, struct stage_set *set, struct btt *btt)
{
        struct blk_record record;
        int r;

        while ((r = blk_next(trace, &record)) == 1) {
                blk->report.last = record.event.time > blk->report.last ? record.event.time : blk->report.last;
                if (blk->events) {
                        print_event(blk, &record);
                        if (ferror(stdout))
                                return 0;
                        continue;
                }
                if (record.gap || record.lost)
                        stage_lost(set, record.lost);
                if (btt && blk_want_device(&blk->report, record.event.device))
                        r = btt_event(btt, &record.event);
                else if (!btt)
                        r = stage_event(set, &record.event);
                if (r < 0)
                        return r;
        }
        if (r == 0)
                stage_finish(set);
        return r;
}

/* A trace has one file for each CPU, and a request's events are in any of them: say so when some lie beside and were not named. */
static void other_cpus(const struct blk *blk)
{
        for (size_t i = 0; i < blk->report.file_count; i++) {
                const char *path = blk->files[i], *dot = strstr(path, ".blktrace.");
                if (dot == NULL)
                        continue;
                int stem = (int)(dot - path) + (int)strlen(".blktrace.");
                const char *suffix = path + stem + strspn(path + stem, "0123456789");
                for (unsigned cpu = 0; cpu < 256; cpu++) {
                        char other[4096];
                        size_t k = 0;
                        snprintf(other, sizeof other, "%.*s%u%s", stem, path, cpu, suffix);
                        while (k < blk->report.file_count && strcmp(blk->files[k], other) != 0)
                                k++;
                        if (k < blk->report.file_count || access(other, F_OK) < 0)
                                continue;
                        options_say("blk", "%s is not read: most requests have events there, too; name all files of a trace", other);
                        return;
                }
        }
}

static void report(const struct blk *blk, const struct btt *btt)
{
        if (blk->events)
                return;
        if (btt)
                blk_say_btt(&blk->report, btt);
        else if (blk->json)
                blk_json(&blk->report);
        else
                blk_say(&blk->report);
}

static int run(struct blk *blk)
{
        const struct stage_options options = {.done = blk->slower ? on_done : NULL, .own = blk};
        struct blk_trace *trace = NULL;
        struct stage_set *set = NULL;
        struct btt *btt = NULL;
        char why[512] = "";
        int status = 1;

        blk->report.files = blk->files;
        int r = blk_open(blk->files, blk->report.file_count, &trace, why, sizeof why);
        if (r == 0)
                r = stage_new(&options, &set);
        if (r == 0 && blk->btt)
                r = btt_new(&btt);
        if (r == 0) {
                blk->report.trace = trace;
                blk->report.set = set;
                r = read_all(blk, trace, set, btt);
        }
        if (r < 0) {
                options_say("blk", "%s", why[0] ? why : strerror(-r));
        } else if (blk_get_damage(trace)->events == 0) {
                const struct blk_damage *damage = blk_get_damage(trace);
                options_say("blk", "%s: no block events in %s%s", blk->files[0], blk->report.file_count > 1 ? "these files" : "this file",
                        damage->skipped + damage->lines + damage->broken + damage->cut ? " that could be read: it is damaged" : "");
        } else {
                other_cpus(blk);
                report(blk, btt);
                status = 0;
        }
        btt_free(btt);
        stage_free(set);
        blk_close(trace);
        return status;
}

int blk_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_FROM, "from", "FILE", "a recorded trace; more files may follow"},
                {'p', NULL, "PID|NAME", "only what this process (thread) queued"},
                {CODE_SLOWER, "slower", "MS", "print each bio that took longer, as it completes"},
                {CODE_EVENTS, "events", NULL, "print the events in blkparse's letters"},
                {CODE_BTT, "btt", NULL, "count as btt 1.2 does, faults included, for comparing"},
                {0},
        };
        static struct blk blk;
        const struct option_set set = {
                .verb = "blk", .synopsis = "--from FILE... [OPTION...] [DEVICE...]", .entries = entries, .option = blk_option,
                        .argument = blk_argument,
                .own = &blk, .groups = OPTIONS_ANSWER,
                .text = "Where block latency goes: the disk itself, the scheduler's queue, a tag, merging\n"
                        "and plugging, a flush. Reads blktrace's binary files (all of a trace, or one),\n"
                        "blkparse's output, and the text of block:* tracepoints, also compressed (gzip).\n"
                        "DEVICE: MAJOR,MINOR, or the name that the trace's files have.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r == 0 && options.format == FORMAT_CSV)
                r = options_error("blk", "there is no table of one shape: --format text or json");
        if (r == 0 && blk.report.file_count == 0)
                r = options_error("blk", "name the trace to read: --from FILE...");
        if (r == 0 && options.format == FORMAT_JSON && (blk.events || blk.btt))
                r = options_error("blk", "--events and --btt print text");
        if (r != 0)
                return r > 0 ? 0 : 2;
        blk.json = options.format == FORMAT_JSON;
        blk.report.utf8 = option_utf8();
        return run(&blk);
}

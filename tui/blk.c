/*
 * watop blk: where block latency goes. The command line, and recorded traces (--from FILE...); blk_live.c traces this machine.
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

enum { CODE_FROM = OPTION_LONG, CODE_EVENTS, CODE_SLOWER, CODE_BTT, CODE_NO_SYNC, MAX_FILES = 8192 };

struct blk {
        const char *files[MAX_FILES];
        struct blk_report report;
        struct blk_request request;
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
        case CODE_EVENTS: blk->request.events = true; return 0;
        case CODE_BTT: blk->request.btt = true; return 0;
        case CODE_NO_SYNC: blk->request.no_sync = true; return 0;
        case 'p':
                blk->report.process = value;
                return value[0] ? 0 : options_error("blk", "-p needs the number or name of a process or thread");
        case 'w':
                if (option_interval(value, &blk->request.span) < 0)
                        return options_error("blk", "'%s' is not a time such as 10, 0.5 or 2m, up to 1h", value);
                return 0;
        default:
                if (parse_slower(value, &blk->request.slower) < 0)
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
        if (blk->report.file_count > 0) {
                if (strncmp(value, "/dev/", 5) == 0)
                        value += 5;
                if (strchr(value, '/'))
                        return options_error("blk", "%s: %s", value, strerror(ENOENT));
        }
        if (blk->report.device_count == BLK_DEVICES)
                return options_error("blk", "more than %d devices", BLK_DEVICES);
        blk->report.devices[blk->report.device_count++] = value;
        return 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

static void on_done(void *own, const struct stage_done *done)
{
        const struct blk *blk = own;

        if (done->stage[STAGE_Q2C] < blk->request.slower || !blk_want_device(&blk->report, done->row->device) ||
            !blk_want_process(&blk->report, done->row->process))
                return;
        if (blk->request.json)
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
        if (!blk_want_thread(&blk->report, record->event.pid, record->event.name))
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
                if (blk->request.events) {
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
        if (blk->request.events)
                return;
        if (btt)
                blk_say_btt(&blk->report, btt);
        else if (blk->request.json)
                blk_json(&blk->report);
        else
                blk_say(&blk->report);
}

static int read_files(struct blk *blk)
{
        const struct stage_options options = {.done = blk->request.slower ? on_done : NULL, .own = blk};
        struct blk_trace *trace = NULL;
        struct stage_set *set = NULL;
        struct btt *btt = NULL;
        char why[512] = "";
        int status = 1;

        blk->report.files = blk->files;
        int r = blk_open(blk->files, blk->report.file_count, &trace, why, sizeof why);
        if (r == 0)
                r = stage_new(&options, &set);
        if (r == 0 && blk->request.btt)
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
                blk->report.start = blk_start(trace);
                other_cpus(blk);
                report(blk, btt);
                status = 0;
        }
        btt_free(btt);
        stage_free(set);
        blk_close(trace);
        return status;
}

/* What does not go together, before anything begins. 0, or -EINVAL after a line. */
static int check(const struct blk *blk, const struct options *options)
{
        const struct blk_request *request = &blk->request;
        bool live = blk->report.file_count == 0;

        if (options->format == FORMAT_CSV)
                return options_error("blk", "there is no table of one shape: --format text or json");
        if (options->format == FORMAT_JSON && (request->events || request->btt))
                return options_error("blk", "--events and --btt print text");
        if (live && request->btt)
                return options_error("blk", "--btt is for recorded traces: --from FILE...");
        if (live && options->attach.root)
                return options_error("blk", "a captured machine holds no trace: --from FILE...");
        if (!live && (request->span || request->no_sync))
                return options_error("blk", "%s is for live tracing, without --from", request->span ? "-w" : "--no-sync");
        return 0;
}

int blk_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {'p', NULL, "PID|NAME", "only what this process or thread queued and waited for"},
                {'w', NULL, "SECONDS", "so long; else until Ctrl-C, and 10 s into a pipe"},
                {CODE_SLOWER, "slower", "MS", "print each fsync and bio that took longer, as it ends"},
                {CODE_EVENTS, "events", NULL, "print the events in blkparse's letters"},
                {CODE_NO_SYNC, "no-sync", NULL, "do not trace calls (fsync and its like)"},
                {CODE_FROM, "from", "FILE", "a recorded trace; more files may follow"},
                {CODE_BTT, "btt", NULL, "of a recorded trace: count as btt 1.2 does, faults included"},
                {0},
        };
        static struct blk blk;
        const struct option_set set = {
                .verb = "blk", .synopsis = "[OPTION...] [DEVICE...] | --from FILE... [OPTION...] [DEVICE...]", .entries = entries,
                .option = blk_option, .argument = blk_argument, .own = &blk, .groups = OPTIONS_SOURCE | OPTIONS_ANSWER,
                .text = "Where block latency and fsync's time go: the disk itself, the scheduler's queue,\n"
                        "a tag, merging and plugging, a flush, the journal; and behind whose requests.\n"
                        "Traces this machine (root, or a watopd that runs as root), a DEVICE (sda, 8,0)\n"
                        "or all. --from reads blktrace's binary files (all of a trace, or one), blkparse's\n"
                        "output, and the text of block:* tracepoints, also compressed (gzip).",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r == 0)
                r = check(&blk, &options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        blk.request.report = &blk.report;
        blk.request.json = options.format == FORMAT_JSON;
        blk.report.utf8 = option_utf8();
        blk.report.out = stdout;
        return blk.report.file_count > 0 ? read_files(&blk) : blk_live(&blk.request, &options);
}

/*
 * watop record: a command, a list of phases, a process or an open end, sampled into a log. What it leaves: record.h.
 */
#include "tui/record.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/options.h"
#include "tui/verbs.h"

enum { CODE_LABEL = OPTION_LONG, CODE_REPEAT, CODE_FORCE, CODE_PID, CODE_WATCH, CODE_PHASES, CODE_STAGES, REPEAT_MAX = 10000 };

struct record {
        struct record_options options;
        const char *phases;
        char **words;
        size_t count;
        char path[64];
};

static int pid_of(const char *text, pid_t *pid)
{
        uint64_t value;

        if (option_count(text, &value) < 0 || value > INT_MAX)
                return options_error("record", "--pid takes the number of a process, not '%s'", text);
        *pid = (pid_t)value;
        return 0;
}

static int record_option(void *own, int code, const char *value)
{
        struct record *record = own;
        struct record_options *options = &record->options;

        switch (code) {
        case 'o': options->path = value; return 0;
        case 'i':
                return option_interval(value, &options->interval_ns) < 0
                        ? options_error("record", "'%s' is not an interval from 10ms to 1h", value) : 0;
        case 't': options->threads = true; return 0;
        case 'q': options->quiet = true; return 0;
        case CODE_LABEL: options->label = value; return 0;
        case CODE_STAGES: options->stages = true; return 0;
        case CODE_REPEAT:
                return option_count(value, &options->repeat) < 0 || options->repeat > REPEAT_MAX
                        ? options_error("record", "--repeat takes 1 to %d, not '%s'", REPEAT_MAX, value) : 0;
        case CODE_FORCE: options->force = true; return 0;
        case CODE_PID: return pid_of(value, &options->pid);
        case CODE_WATCH:
                if (options->watch_count == sizeof options->watches / sizeof *options->watches)
                        return options_error("record", "too many --watch");
                if (*value == '\0' || strchr(value, '\n') != NULL || strlen(value) > 200)
                        return options_error("record", "--watch takes a process's name or number, not '%s'", value);
                options->watches[options->watch_count++] = value;
                return 0;
        default: record->phases = value; return 0;
        }
}

static int record_argument(void *own, const char *value)
{
        struct record *record = own;

        record->words[record->count++] = (char *)(uintptr_t)value;
        return 0;
}

static int read_list(struct record *record)
{
        size_t line;

        int r = record_list_read(&record->options.list, record->phases, &line);
        if (r == -EBADMSG)
                return options_error("record", "%s:%zu: not `name: command`, a comment or an empty line", record->phases, line);
        if (r < 0)
                return options_error("record", "%s: %s", record->phases, strerror(-r));
        return record->options.list.count == 0 ? options_error("record", "%s: no phases in it", record->phases) : 0;
}

static int settle(struct record *record)
{
        struct record_options *options = &record->options;
        int given = (record->count > 0) + (record->phases != NULL) + (options->pid != 0);

        if (given > 1)
                return options_error("record", "a command, --phases and --pid exclude each other");
        options->argv = record->words;
        options->argc = record->count;
        options->kind = record->count > 0 ? RECORD_COMMAND : record->phases != NULL ? RECORD_LIST
                : options->pid != 0 ? RECORD_PID : RECORD_OPEN;
        if (options->repeat > 1 && options->kind != RECORD_COMMAND && options->kind != RECORD_LIST)
                return options_error("record", "--repeat needs a command or --phases");
        if (options->path == NULL) {
                time_t now = time(NULL);
                struct tm tm;
                localtime_r(&now, &tm);
                strftime(record->path, sizeof record->path, "watop-%Y%m%d-%H%M%S.log", &tm);
                options->path = record->path;
        }
        if (*options->path == '\0')
                return options_error("record", "-o takes the name of a file");
        return record->phases != NULL ? read_list(record) : 0;
}

int record_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {'o', "output", "FILE", "the log (default watop-DATE-TIME.log); FILE.out: what the command prints"},
                {'i', "interval", "TIME", "between samples (default 1s)"},
                {'t', "threads", NULL, "sample threads too"},
                {CODE_STAGES, "stages", NULL, "block latency by stage, fsync and who waits too (by tracing)"},
                {'q', "quiet", NULL, "no progress and no closing line"},
                {CODE_LABEL, "label", "TEXT", "a name for the recording"},
                {CODE_REPEAT, "repeat", "N", "run the command or the list N times"},
                {CODE_PHASES, "phases", "FILE", "run a list: lines `name: command`, each a phase"},
                {CODE_PID, "pid", "PID", "record until this process ends"},
                {CODE_WATCH, "watch", "NAME|PID", "a process that the report is about; may be repeated"},
                {CODE_FORCE, "force", NULL, "replace FILE if it is a log of yours"},
                {0},
        };
        struct record record = {.options = {.repeat = 1, .interval_ns = UINT64_C(1000000000)}};
        const struct option_set set = {
                .verb = "record", .synopsis = "[OPTION...] [-- COMMAND [ARGUMENT...]]", .entries = entries, .option = record_option,
                .argument = record_argument, .own = &record, .groups = OPTIONS_COMMAND,
                .text = "Runs COMMAND and samples the machine from just before to just after, into a log.\n"
                        "The command runs as it would without; the exit status is its. Without a command:\n"
                        "until Ctrl-C. Phases: watop mark TEXT, or --phases.",
        };
        struct options options;

        record.words = calloc((size_t)argc + 1, sizeof *record.words);
        if (record.words == NULL)
                return RECORD_FAILED;
        int r = options_parse(&set, argc, argv, &options);
        if (r == 0)
                r = settle(&record);
        int status = r == 0 ? record_run(&record.options) : r > 0 ? 0 : 2;
        record_list_free(&record.options.list);
        free(record.words);
        return status;
}

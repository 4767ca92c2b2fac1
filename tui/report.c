/*
 * `watop report FILE`: the options, and which sink writes it. What it says is computed in report_open.c and its parts.
 */
#include "tui/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tui/options.h"
#include "tui/verbs.h"

enum { OWN_RULES = 16, JOINS = sizeof((struct report_options *)0)->join / sizeof(char *) };

struct report_command {
        const char *path, *output;
        enum report_format format;
        bool format_given, force, wide;
        struct report_options options;
        struct report_shape shape;
        struct result_own own[OWN_RULES];
        struct options common;
};

/* ---- options -------------------------------------------------------------------------------------------------------------------- */

enum { CODE_WHOLE = OPTION_LONG, CODE_TRIM, CODE_SPREAD, CODE_SAR_OLD, CODE_RESULT, CODE_RESULTS, CODE_OFFSET, CODE_FORMAT, CODE_TABLE,
        CODE_FORCE, CODE_PHASE, CODE_FROM, CODE_TO };

static int set_format(struct report_command *command, const char *value)
{
        static const struct { const char *name; enum report_format format; } formats[] = {
                {"text", REPORT_TEXT}, {"md", REPORT_MARKDOWN}, {"markdown", REPORT_MARKDOWN}, {"csv", REPORT_CSV}, {"json", REPORT_JSON},
                        {"html", REPORT_HTML},
        };

        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
                if (strcmp(formats[i].name, value) == 0) {
                        command->format = formats[i].format;
                        command->format_given = true;
                        return 0;
                }
        return options_error("report", "no format '%s': text, md, csv, json or html", value);
}

static int set_table(struct report_command *command, const char *value)
{
        for (int i = 0; i < REPORT_TABLES; i++)
                if (strcmp(report_table_names[i], value) == 0) {
                        command->shape.only = i;
                        return 0;
                }
        return options_error("report", "no table '%s': phases, results, cores, load, devices, sar-old, fio, tasks, spread, stages, bios "
                "or sync", value);
}

static int duration_of(const char *text, size_t length, uint64_t *ns)
{
        char word[32];

        if (length >= sizeof word)
                return -EINVAL;
        memcpy(word, text, length);
        word[length] = '\0';
        if (strcmp(word, "0") == 0) {
                *ns = 0;
                return 0;
        }
        return option_interval(word, ns);
}

/* DURATION[,DURATION]: of the start, of the end; one is for both. */
static int set_trim(struct report_command *command, const char *value)
{
        const char *comma = strchr(value, ',');
        size_t first = comma ? (size_t)(comma - value) : strlen(value);

        int r = duration_of(value, first, &command->options.trim_ns[0]);
        command->options.trim_ns[1] = command->options.trim_ns[0];
        if (r == 0 && comma)
                r = duration_of(comma + 1, strlen(comma + 1), &command->options.trim_ns[1]);
        if (r < 0)
                return options_error("report", "--trim takes DURATION or DURATION,DURATION (2s, 500ms, 0), not '%s'", value);
        command->options.trim = true;
        return 0;
}

/* "+3ms", "-1.5", "90": seconds unless a unit says else. */
static int set_offset(struct report_command *command, const char *value)
{
        bool minus = *value == '-';
        const char *number = value + (*value == '-' || *value == '+');
        char *end;

        double seconds = *number >= '0' && *number <= '9' ? strtod(number, &end) : NAN; /* LC_NUMERIC stays C */
        if (isnan(seconds) || number[0] == '\0')
                return options_error("report", "--offset takes seconds, or 250ms, with a sign; not '%s'", value);
        if (strcmp(end, "ms") == 0)
                seconds /= 1000;
        else if (strcmp(end, "") != 0 && strcmp(end, "s") != 0)
                return options_error("report", "--offset takes seconds, or 250ms, with a sign; not '%s'", value);
        command->options.offset = minus ? -seconds : seconds;
        command->options.offset_given = true;
        return 0;
}

static int add_rule(struct report_command *command, const char *value)
{
        char why[256] = "";

        if (command->options.own_count == OWN_RULES)
                return options_error("report", "more than %d --result rules", OWN_RULES);
        if (result_own_init(&command->own[command->options.own_count], value, why, sizeof why) < 0)
                return options_error("report", "--result %s: %s", value, why);
        command->options.own_count++;
        return 0;
}

static int add_results(struct report_command *command, const char *value)
{
        if (command->options.join_count == JOINS)
                return options_error("report", "more than %zu --results files", (size_t)JOINS);
        command->options.join[command->options.join_count++] = value;
        return 0;
}

static int report_option(void *own, int code, const char *value)
{
        struct report_command *command = own;

        switch (code) {
        case CODE_WHOLE: command->options.whole = true; return 0;
        case CODE_TRIM: return set_trim(command, value);
        case CODE_SPREAD: command->shape.spread = true; return 0;
        case CODE_SAR_OLD: command->shape.sar_old = true; return 0;
        case CODE_RESULT: return add_rule(command, value);
        case CODE_RESULTS: return add_results(command, value);
        case CODE_OFFSET: return set_offset(command, value);
        case CODE_FORMAT: return set_format(command, value);
        case CODE_TABLE: return set_table(command, value);
        case CODE_FORCE: command->force = true; return 0;
        case CODE_PHASE: command->options.phase = value; return 0;
        case CODE_FROM: command->options.from = value; return 0;
        case CODE_TO: command->options.to = value; return 0;
        case 'v': command->shape.verbose = true; return 0;
        case 'w': command->wide = true; return 0;
        default: command->output = value; return 0;
        }
}

static int report_argument(void *own, const char *value)
{
        struct report_command *command = own;

        if (command->path)
                return options_error("report", "one log at a time (watop compare takes several); '%s' is one too many", value);
        command->path = value;
        return 0;
}

/* ---- writing -------------------------------------------------------------------------------------------------------------------- */

/* The terminal's width; 80 in a pipe; 0, everything, with --wide and in Markdown. */
static unsigned width_of(const struct report_command *command, FILE *out)
{
        struct winsize size;

        if (command->wide || command->format == REPORT_MARKDOWN)
                return 0;
        return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

static FILE *open_output(const struct report_command *command)
{
        if (!command->output)
                return stdout;
        int fd = open(command->output, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (command->force ? O_TRUNC : O_EXCL), 0666);
        FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (!out) {
                options_say("report", "%s: %s%s", command->output, strerror(errno), errno == EEXIST ? " (--force replaces it)" : "");
                if (fd >= 0)
                        close(fd);
        }
        return out;
}

static int write_report(struct report_command *command, const struct report *report)
{
        FILE *out = open_output(command);
        int r;

        if (!out)
                return 1;
        if (command->format == REPORT_CSV || command->shape.only >= 0) /* where the notes have no place: none may be lost */
                for (size_t i = 0; command->options.join_count > 0 && i < report->warnings.count; i++)
                        options_say("report", "%s", report->warnings.lines[i]);
        command->shape.width = width_of(command, out);
        command->shape.utf8 = command->format == REPORT_MARKDOWN || option_utf8();
        switch (command->format) {
        case REPORT_CSV: r = report_csv(report, &command->shape, out); break;
        case REPORT_JSON: r = report_json(report, &command->shape, out); break;
        case REPORT_HTML: r = report_html(report, out); break;
        default: r = report_text(report, command->format, &command->shape, out); break;
        }
        if (out != stdout && fclose(out) != 0 && r == 0)
                r = -errno;
        if (r < 0 && r != -EPIPE)
                options_say("report", "%s: %s", command->output ? command->output : "standard output", strerror(-r));
        return r < 0 && r != -EPIPE ? 1 : 0;
}

/* A FILE that is not there is a mistake in the call, not something to note in a report. */
static int check_joins(const struct report_command *command)
{
        for (size_t i = 0; i < command->options.join_count; i++) {
                char name[4096];
                const char *word = command->options.join[i], *at = strrchr(word, '@');
                snprintf(name, sizeof name, "%.*s", at && at != word ? (int)(at - word) : 4000, word);
                if (access(word, R_OK) < 0 && access(name, R_OK) < 0) {
                        options_say("report", "--results %s: %s", word, strerror(errno));
                        return -ENOENT;
                }
        }
        return 0;
}

static int run(struct report_command *command)
{
        struct report *report = NULL;
        char why[512];
        int status = 1;

        command->options.own = command->own;
        if (check_joins(command) < 0)
                return 1;
        int r = report_open(command->path, &command->options, &report, why, sizeof why);
        if (r < 0)
                options_say("report", "%s", why);
        else
                status = write_report(command, report);
        report_close(report);
        return status;
}

int report_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_FORMAT, "format", "FORMAT", "text (default), md, csv, json or html"},
                {CODE_TABLE, "table", "NAME",
                        "only phases, results, cores, load, devices, sar-old, fio, tasks, spread, stages, bios or sync (csv: phases)"},
                {'o', "output", "FILE", "write it there"},
                {CODE_FORCE, "force", NULL, "replace FILE if it is there"},
                {'w', "wide", NULL, "all columns, whatever the terminal's width"},
                {'v', "verbose", NULL, "each result with the line it was read from"},
                {CODE_SPREAD, "spread", NULL, "median, p95, p99 and max over samples"},
                {CODE_SAR_OLD, "sar-old", NULL, "devices in the columns of sar -d before 12.2"},
                {CODE_WHOLE, "whole", NULL, "keep ramps: samples at a phase's ends below 80% of its median load"},
                {CODE_TRIM, "trim", "TIME[,TIME]", "cut so much from start and end instead"},
                {CODE_PHASE, "phase", "NAME", "only this phase (NAME#2: its second round)"},
                {CODE_FROM, "from", "WHEN", "one phase from here: HH:MM:SS, RFC 3339, +OFFSET, #SEQUENCE, phase"},
                {CODE_TO, "to", "WHEN", "to there"},
                {CODE_RESULT, "result", "NAME: REGEX", "a result to pick up; NAME sum|mean|max|range: REGEX; may be repeated"},
                {CODE_RESULTS, "results", "FILE[@HOST]",
                        "results in output made elsewhere, with time stamps or phase names in it; may be repeated"},
                {CODE_OFFSET, "offset", "SECONDS", "added to the times in FILE (default: estimated by marks, else 0)"},
                {0},
        };
        static struct report_command command = {.format = REPORT_TEXT, .shape.only = -1};
        const struct option_set set = {
                .verb = "report", .synopsis = "[OPTION...] FILE", .entries = entries, .option = report_option, .argument = report_argument,
                        .own = &command,
                .text = "What a recording says, phase by phase: results and their growth, load, the hottest\n"
                        "core, per-core and per-device tables, processes. Means are from counters.",
        };

        int r = options_parse(&set, argc, argv, &command.common);
        if (r == 0 && !command.path) {
                options_error("report", "which log? watop report FILE");
                r = -EINVAL;
        }
        if (r == 0 && command.options.whole && command.options.trim) {
                options_error("report", "--whole and --trim exclude each other");
                r = -EINVAL;
        }
        int status = r > 0 ? 0 : r < 0 ? 2 : run(&command);
        for (size_t i = 0; i < command.options.own_count; i++)
                result_own_fini(&command.own[i]);
        return status;
}

/*
 * `watop export FILE`: every metric of a log, under its dotted name, for programs that watop does not know.
 *
 * One row a row and interval. Counters and times as rates (their unit a second, by the row's own time), or with --raw as they were read;
 * gauges, codes and texts as at the interval's end. What could not be read is empty (CSV) or null (JSON), never 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/clean.h"
#include "tui/options.h"
#include "tui/table.h"
#include "tui/utc.h"
#include "tui/verbs.h"

enum { TEXT = 4 * TEXT_MAX + 64 };

struct export {
        const char *path, *folder;
        bool raw, force, chosen[SCOPE_COUNT];
        unsigned chosen_count;
        struct options options;
        FILE *out[SCOPE_COUNT]; /* NULL: not asked for, or no row yet */
        bool head[SCOPE_COUNT];
        uint64_t rows;
        int error;
};

/* ---- cells ---------------------------------------------------------------------------------------------------------------------- */

static bool grows(int metric)
{
        return metrics[metric].kind == KIND_COUNTER || metrics[metric].kind == KIND_TIME;
}

/* A level in the metric's own unit, exactly: 64-bit integers stay integers. */
static bool level_text(char *text, size_t size, const struct state_row *row, int metric)
{
        uint64_t level;

        if (!state_now(row, metric, &level))
                return false;
        if (metrics[metric].unit == UNIT_SIGNED)
                snprintf(text, size, "%" PRId64, (int64_t)level);
        else
                snprintf(text, size, "%" PRIu64, level);
        return true;
}

/* The number of a cell; false when it is absent. */
static bool number_text(const struct export *export, char *text, size_t size, const struct state_row *row, int metric)
{
        double delta, seconds = state_row_seconds(row);

        if (export->raw || !grows(metric))
                return level_text(text, size, row, metric);
        int r = state_delta(row, metric, &delta);
        if ((r != DELTA_OK && r != DELTA_UNWRAPPED && r != DELTA_CLAMPED) || seconds <= 0)
                return false;
        struct value value = table_number(delta / seconds);
        value_exact(text, size, &value, "");
        return true;
}

static const char *gone_word(const struct state_row *row)
{
        static const char *const words[] = {"gone", "exited", "unreadable", "unsampled"};

        return !row->gone ? "" : row->reason < sizeof words / sizeof *words ? words[row->reason] : words[0];
}

struct when {
        char time[48], interval[48];
        const char *gap;
        uint64_t from, to;
};

static void csv_row(struct export *export, FILE *out, const struct when *when, const struct state *state, const struct state_row *row)
{
        const struct scope_info *scope = &scopes[row->scope];
        char text[TEXT];

        fprintf(out, "%s,%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s", when->time, when->interval, when->gap ? when->gap : "",
                when->from, when->to, row->key.a, row->key.b, gone_word(row));
        for (int m = scope->first; m < scope->first + scope->count; m++) {
                fputc(',', out);
                if (metrics[m].kind == KIND_TEXT) {
                        size_t length = 0;
                        const char *bytes = state_text(state, row, m, &length);
                        if (bytes) {
                                clean_csv(text, sizeof text, bytes, length);
                                fputs(text, out);
                        }
                } else if (number_text(export, text, sizeof text, row, m)) {
                        fputs(text, out);
                }
        }
        fputc('\n', out);
}

static void json_row(struct export *export, FILE *out, const struct when *when, const struct state *state, const struct state_row *row)
{
        const struct scope_info *scope = &scopes[row->scope];
        char text[6 * TEXT_MAX + 64];

        fprintf(out, "{\"scope\":\"%s\",\"time\":\"%s\",\"interval\":%s,\"gap\":%s%s%s", scope->name, when->time,
                when->interval[0] ? when->interval : "null", when->gap ? "\"" : "", when->gap ? when->gap : "null", when->gap ? "\"" : "");
        fprintf(out, ",\"seq\":[%" PRIu64 ",%" PRIu64 "],\"key\":[%" PRIu64 ",%" PRIu64 "]", when->from, when->to, row->key.a, row->key.b);
        if (row->gone)
                fprintf(out, ",\"gone\":\"%s\"", gone_word(row));
        for (int m = scope->first; m < scope->first + scope->count; m++) {
                fprintf(out, ",\"%s\":", metrics[m].name);
                if (metrics[m].kind == KIND_TEXT) {
                        size_t length = 0;
                        const char *bytes = state_text(state, row, m, &length);
                        clean_json(text, sizeof text, bytes ? bytes : "", length);
                        fprintf(out, bytes ? "\"%s\"" : "null", text);
                } else {
                        fputs(number_text(export, text, sizeof text, row, m) ? text : "null", out);
                }
        }
        fputs("}\n", out);
}

/* ---- files ---------------------------------------------------------------------------------------------------------------------- */

/* The scope's file, made with its first row; standard output without a folder. */
static FILE *file_of(struct export *export, enum scope scope)
{
        char path[PATH_MAX];

        if (export->out[scope] || !export->folder) {
                export->out[scope] = export->out[scope] ? export->out[scope] : stdout;
                return export->out[scope];
        }
        const char *kind = export->options.format == FORMAT_JSON ? "jsonl" : "csv";
        int length = snprintf(path, sizeof path, "%s/%s.%s", export->folder, scopes[scope].name, kind);
        if (length < 0 || (size_t)length >= sizeof path) {
                export->error = -ENAMETOOLONG;
                return NULL;
        }
        int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | (export->force ? O_TRUNC : O_EXCL), 0666);
        if (fd >= 0 && !(export->out[scope] = fdopen(fd, "w")))
                close(fd);
        if (!export->out[scope]) {
                export->error = -errno;
                options_say("export", "%s: %s%s", path, strerror(errno), errno == EEXIST ? " (--force replaces it)" : "");
        }
        return export->out[scope];
}

static void csv_head(FILE *out, enum scope scope)
{
        fputs("time,interval,gap,from,to,key,key2,gone", out);
        for (int m = scopes[scope].first; m < scopes[scope].first + scopes[scope].count; m++)
                fprintf(out, ",%s", metrics[m].name);
        fputc('\n', out);
}

static int export_scope(struct export *export, enum scope scope, const struct when *when, const struct state *state)
{
        for (size_t i = 0; i < state_count(state, scope); i++) {
                FILE *out = file_of(export, scope);
                if (!out)
                        return export->error;
                if (export->options.format == FORMAT_JSON) {
                        json_row(export, out, when, state, state_at(state, scope, i));
                } else {
                        if (!export->head[scope])
                                csv_head(out, scope);
                        export->head[scope] = true;
                        csv_row(export, out, when, state, state_at(state, scope, i));
                }
                export->rows++;
                if (ferror(out))
                        return -(errno ? errno : EIO);
        }
        return 0;
}

static int export_report(struct export *export, const struct state *state)
{
        struct state_info info = state_info(state);
        struct when when = {.gap = gap_name(info.gap), .from = info.from_sequence, .to = info.to_sequence};
        int r = 0;

        utc_time(when.time, sizeof when.time, info.real_ns);
        if (info.valid && info.mono_ns > info.base_mono_ns) {
                struct value seconds = table_number((double)(info.mono_ns - info.base_mono_ns) / 1e9);
                value_exact(when.interval, sizeof when.interval, &seconds, "");
        }
        for (int scope = 0; scope < SCOPE_COUNT && r == 0; scope++)
                if (export->chosen_count == 0 || export->chosen[scope])
                        r = export_scope(export, (enum scope)scope, &when, state);
        return r;
}

/* ---- the command ---------------------------------------------------------------------------------------------------------------- */

static int close_files(struct export *export)
{
        int r = 0;

        for (int i = 0; i < SCOPE_COUNT; i++)
                if (export->out[i] && export->out[i] != stdout && fclose(export->out[i]) != 0) {
                        r = -errno;
                        options_say("export", "%s/%s: %s", export->folder, scopes[i].name, strerror(errno));
                }
        return r;
}

static int go_through(struct export *export, struct attach *attach, struct state *state)
{
        uint64_t reports = 0;

        for (;;) {
                int r = attach_next(attach, state, NULL, UINT64_C(500000000));
                if (r == ATTACH_END || r < 0)
                        return r < 0 ? r : 0;
                if (r == ATTACH_NOTHING && !export->options.count_given)
                        return 0; /* a growing log: up to now */
                if (r != ATTACH_REPORT)
                        continue;
                r = export_report(export, state);
                if (r < 0)
                        return r;
                state_base(state);
                if (export->options.count && ++reports >= export->options.count)
                        return 0;
        }
}

static int run(struct export *export)
{
        struct attach *attach = NULL;
        struct state *state = NULL;
        char why[512] = "";

        if (export->folder && mkdir(export->folder, 0777) < 0 && errno != EEXIST) {
                options_say("export", "%s: %s", export->folder, strerror(errno));
                return 1;
        }
        export->options.attach.log = export->path;
        export->options.attach.log_now = !export->options.count_given;
        if (!export->options.interval_given)
                export->options.attach.interval_ns = 0; /* the log's own */
        int r = state_new(&state);
        if (r == 0)
                r = attach_open(&export->options.attach, &attach, why, sizeof why);
        if (r < 0)
                options_say("export", "%s", why[0] ? why : strerror(-r));
        else if ((r = go_through(export, attach, state)) < 0 && export->error == 0 && r != -EPIPE)
                options_say("export", "%s", strerror(-r));
        if (r == 0 && export->rows == 0) {
                options_say("export", "nothing to export: this part of the log has no two frames, or none of these scopes");
                r = -ENODATA;
        }
        attach_close(attach);
        state_free(state);
        int closed = close_files(export);
        return (r < 0 && r != -EPIPE) || closed < 0 ? 1 : 0;
}

enum { CODE_SCOPE = OPTION_LONG, CODE_RAW, CODE_FORCE };

static int export_option(void *own, int code, const char *value)
{
        struct export *export = own;

        switch (code) {
        case 'o': export->folder = value; return 0;
        case CODE_RAW: export->raw = true; return 0;
        case CODE_FORCE: export->force = true; return 0;
        default:
                for (int i = 0; i < SCOPE_COUNT; i++)
                        if (strcmp(scopes[i].name, value) == 0) {
                                export->chosen_count += !export->chosen[i];
                                export->chosen[i] = true;
                                return 0;
                        }
                return options_error("export", "there is no scope '%s'; watop metrics lists them", value);
        }
}

static int export_argument(void *own, const char *value)
{
        struct export *export = own;

        if (export->path)
                return 1;
        export->path = value;
        return 0;
}

int export_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {'o', "output", "DIR", "a file a scope in this folder (else standard output)"},
                {CODE_SCOPE, "scope", "NAME", "this scope only; may be given again"},
                {CODE_RAW, "raw", NULL, "counters as they were read, not as rates"},
                {CODE_FORCE, "force", NULL, "replace files that are there"},
                {0},
        };
        static struct export export;
        const struct option_set set = {
                .verb = "export", .synopsis = "[OPTION...] FILE [INTERVAL [COUNT]]", .entries = entries, .option = export_option,
                .argument = export_argument, .own = &export, .groups = OPTIONS_PART | OPTIONS_FORMAT | OPTIONS_TIMES,
                .text = "Every metric of a log under its dotted name (watop metrics), as CSV (default, one table a\n"
                        "scope) or JSON lines. Counters and times are rates, their unit a second.",
        };

        int r = options_parse(&set, argc, argv, &export.options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        if (!export.path) {
                options_error("export", "which log? watop export FILE");
                return 2;
        }
        if (export.options.format != FORMAT_JSON && !export.folder && export.chosen_count != 1) {
                options_error("export", "CSV has one table a scope: give -o DIR, one --scope NAME, or --format json");
                return 2;
        }
        if (!export.options.count_given)
                export.options.count = 0;
        return run(&export);
}

/*
 * The tables for pipes. See text.h.
 *
 * What holds for every verb: a report is flushed when it is whole; an interval that cannot be computed (suspend, reboot, reset) is one line
 * that says so and no numbers; Ctrl-C prints the averages in text and nothing in CSV and JSON, whose documents are valid after every
 * line; a reader that goes away (head) ends us quietly.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tui/text.h"
#include "tui/utc.h"

static const uint64_t SECOND = UINT64_C(1000000000);

/* ---- one report ---------------------------------------------------------------------------------------------------------------- */

void text_columns(struct table *table, enum view_id id, bool (*want)(const struct column *, void *), void *own)
{
        const struct view_info *view = metric_view(id);

        for (size_t i = 0; i < view->count; i++) {
                const struct column *column = &view->columns[i];
                unsigned flags = (column->flags & COL_LEFT ? TABLE_LEFT : 0) | (column->flags & COL_SCREEN ? TABLE_MACHINE : 0);
                if (!want || want(column, own))
                        table_column(table, column->head, column->decimals, flags);
        }
}

void text_init(struct text *text, const struct text_view *view, void *own, enum format format, FILE *out)
{
        *text = (struct text){.view = view, .own = own, .out = out, .format = format};
        table_init(&text->table, option_utf8());
        view->columns(own, format, &text->table);
}

void text_fini(struct text *text)
{
        table_fini(&text->table);
}

static void local_time(char *buffer, size_t size, uint64_t real_ns)
{
        time_t seconds = (time_t)(real_ns / SECOND);
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || strftime(buffer, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
                snprintf(buffer, size, "-");
}

static struct value interval_of(const struct state_info *info)
{
        if (!info->valid || info->mono_ns <= info->base_mono_ns)
                return (struct value){.kind = VALUE_ABSENT};
        return table_number((double)(info->mono_ns - info->base_mono_ns) / 1e9);
}

static void report_text(struct text *text, const struct state *state, const struct state_info *info, bool average)
{
        const char *gap = gap_name(info->gap);
        struct value interval = interval_of(info);
        char when[64], seconds[48];

        local_time(when, sizeof when, info->real_ns);
        value_format(seconds, sizeof seconds, &interval, 3);
        if (text->reports || average)
                fputc('\n', text->out);
        if (average)
                fprintf(text->out, "Average over %s s, until %s", seconds, when);
        else
                fprintf(text->out, "%s  %s s", when, seconds);
        fprintf(text->out, "%s%s\n", gap ? "  gap=" : "", gap ? gap : "");
        if (!info->valid)
                return;
        table_print(&text->table, text->out, text->screen);
        if (text->view->below)
                text->view->below(text->own, state, text->out);
}

static void report_csv(struct text *text, const struct state_info *info)
{
        const char *gap = gap_name(info->gap);
        struct value interval = interval_of(info);
        char when[64], seconds[48], before[160];

        utc_time(when, sizeof when, info->real_ns);
        value_exact(seconds, sizeof seconds, &interval, "");
        snprintf(before, sizeof before, "%s,%s,%s", when, seconds, gap ? gap : "");
        if (text->reports == 0)
                table_csv_heads(&text->table, text->out, "time,interval,gap");
        if (!info->valid) { /* one line that carries the gap, all cells empty */
                table_clear(&text->table);
                table_row(&text->table);
        }
        table_csv_rows(&text->table, text->out, before);
}

static void report_json(struct text *text, const struct state *state, const struct state_info *info)
{
        const char *gap = gap_name(info->gap), *quote = gap ? "\"" : "";
        struct value interval = interval_of(info);
        char when[64], seconds[48];

        utc_time(when, sizeof when, info->real_ns);
        value_exact(seconds, sizeof seconds, &interval, "null");
        fprintf(text->out, "{\"time\":\"%s\",\"interval\":%s,\"gap\":%s%s%s,\"seq\":[%" PRIu64 ",%" PRIu64 "],\"%s\":",
                when, seconds, quote, gap ? gap : "null", quote, info->from_sequence, info->to_sequence, text->view->name);
        table_json(&text->table, text->out);
        if (text->view->members)
                text->view->members(text->own, state, text->out);
        fputs("}\n", text->out);
}

int text_report(struct text *text, const struct state *state, bool average)
{
        struct state_info info = state_info(state);

        table_clear(&text->table);
        if (info.valid) {
                int r = text->view->rows(text->own, state, text->format, &text->table);
                if (r != 0)
                        return r;
        }
        errno = 0;
        switch (text->format) {
        case FORMAT_TEXT: report_text(text, state, &info, average); break;
        case FORMAT_CSV: report_csv(text, &info); break;
        case FORMAT_JSON: report_json(text, state, &info); break;
        }
        text->reports++;
        if (fflush(text->out) != 0 || ferror(text->out))
                return errno ? -errno : -EIO;
        return 0;
}

/* ---- the loop -------------------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
        (void)signal;
        interrupted = 1;
}

static void catch_signals(void)
{
        /* A second Ctrl-C ends us at once. No SA_RESTART: waiting ends when the signal comes. */
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};

        sigaction(SIGINT, &action, NULL);
}

static unsigned screen_lines(void)
{
        struct winsize size;

        if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                return 0;
        return size.ws_row;
}

struct run {
        const char *verb;
        struct options *options;
        struct attach *attach;
        struct state *state, *total;
        struct text text;
        uint64_t real; /* reports with an interval: what a count counts */
};

/* Exit status of a failed write or report; 0 for a reader that went away. */
static int failed(const struct run *run, int error)
{
        if (error > 0)
                return error;
        if (error == -EPIPE)
                return 0;
        options_say(run->verb, "%s", strerror(-error));
        return 1;
}

static int tell_end(const struct run *run)
{
        if (run->text.reports > 0)
                return 0;
        options_say(run->verb, run->options->attach.log ? "no report: this part of the log has no two frames to compare"
                                                       : "no report: a captured machine needs at least two trees");
        return 1;
}

static void tell_change(const struct run *run)
{
        struct attach_info info;

        attach_get_info(run->attach, &info);
        options_say(run->verb, "%s", info.line);
}

/* Rows of tasks that ended stay in `total` for the averages. On a machine that forks all day they would grow without end: past this many
 * the averages begin anew, and their line says over which time they go. */
enum { TOTAL_ROWS = 200000 };

static void bound_total(struct run *run)
{
        if (run->total && state_count(run->total, SCOPE_PROCESS) + state_count(run->total, SCOPE_THREAD) > TOTAL_ROWS)
                state_base(run->total);
}

static int average(struct run *run)
{
        struct state_info info;

        if (!run->total)
                return 0;
        info = state_info(run->total);
        if (!info.valid || info.mono_ns <= info.base_mono_ns)
                return 0;
        int r = text_report(&run->text, run->total, true);
        return r != 0 ? failed(run, r) : 0;
}

static int reports(struct run *run)
{
        while (!interrupted) {
                int r = attach_next(run->attach, run->state, run->total, SECOND / 2);
                if (r < 0) {
                        tell_change(run);
                        return 1;
                }
                if (r == ATTACH_GONE || r == ATTACH_BACK)
                        tell_change(run);
                if (r == ATTACH_END)
                        return tell_end(run);
                if (r != ATTACH_REPORT)
                        continue;
                run->real += state_info(run->state).valid;
                r = text_report(&run->text, run->state, false);
                if (r != 0)
                        return failed(run, r);
                state_base(run->state);
                bound_total(run);
                if (run->options->count && run->real >= run->options->count)
                        return 0;
        }
        return average(run);
}

static void tell_source(const struct run *run, const char *why)
{
        struct attach_info info;

        if (!run->options->quiet)
                options_say(NULL, "%s", why);
        attach_get_info(run->attach, &info);
        for (int scope = 0; scope < SCOPE_COUNT; scope++)
                if (info.missing_scopes & SCOPE_BIT(scope))
                        options_say(run->verb, "%s rows are not to be had from this %s", scopes[scope].name,
                                info.from_log ? "log" : "watopd");
}

int text_run(const struct text_view *view, void *own, struct options *options)
{
        struct run run = {.verb = view->name, .options = options};
        char why[512] = "";
        int status = 1;

        options->attach.tell_outage = true;
        catch_signals();
        text_init(&run.text, view, own, options->format, stdout);
        run.text.screen = screen_lines();
        int r = state_new(&run.state);
        if (r == 0 && options->format == FORMAT_TEXT)
                r = state_new(&run.total);
        if (r < 0) {
                options_say(run.verb, "%s", strerror(-r));
        } else if ((r = attach_open(&options->attach, &run.attach, why, sizeof why)) < 0) {
                options_say(run.verb, "%s", why[0] ? why : strerror(-r));
        } else {
                tell_source(&run, why);
                status = reports(&run);
        }
        attach_close(run.attach);
        state_free(run.total);
        state_free(run.state);
        text_fini(&run.text);
        return status;
}

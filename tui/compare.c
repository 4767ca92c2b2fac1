/*
 * `watop compare A B [C...]`: recordings side by side. Contract of the comparison: compare.h.
 */
#include "tui/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tui/options.h"
#include "tui/verbs.h"

enum { FORM_TEXT, FORM_MARKDOWN, FORM_CSV, FORM_JSON, RULES = 16, JOINS = 64, CODE_RESULTS = OPTION_LONG, CODE_RESULT, CODE_ROUNDS,
        CODE_WHOLE, CODE_FORMAT, CODE_WIDTH };

struct compare_run {
        struct compare compare;
        struct options options;
        const char *paths[COMPARE_MOST];
        size_t path_count;
        struct { size_t recording; const char *file; } joins[JOINS];
        size_t join_count;
        struct result_own own[RULES];
        size_t own_count;
        const char *result;
        bool rounds, whole, wide;
        unsigned width;
        int form;
};

static int take_result(struct compare_run *run, const char *value)
{
        char why[256];

        run->result = value;
        if (!strchr(value, ':'))
                return 0;
        if (run->own_count == RULES)
                return options_error("compare", "at most %d --result rules", RULES);
        if (result_own_init(&run->own[run->own_count], value, why, sizeof why) < 0)
                return options_error("compare", "--result: %s", why);
        run->result = run->own[run->own_count++].name;
        return 0;
}

/* "2=FILE[@HOST]": for the second recording. */
static int take_join(struct compare_run *run, const char *value)
{
        char digits[8];
        uint64_t number;
        size_t length = strcspn(value, "=");

        if (value[length] == '\0' || length == 0 || length >= sizeof digits || value[length + 1] == '\0')
                return options_error("compare", "--results takes NUMBER=FILE[@HOST]: which recording the file belongs to");
        snprintf(digits, sizeof digits, "%.*s", (int)length, value);
        if (option_count(digits, &number) < 0 || number > COMPARE_MOST)
                return options_error("compare", "--results: '%s' is no recording's number", digits);
        if (run->join_count == JOINS)
                return options_error("compare", "at most %d --results", JOINS);
        run->joins[run->join_count].recording = (size_t)number - 1;
        run->joins[run->join_count++].file = value + length + 1;
        return 0;
}

static int take_format(struct compare_run *run, const char *value)
{
        static const char *const names[] = {"text", "md", "csv", "json"};

        for (int i = 0; i < 4; i++)
                if (strcmp(value, names[i]) == 0) {
                        run->form = i;
                        return 0;
                }
        return options_error("compare", "--format takes text, md, csv or json, not '%s'", value);
}

static int take_width(struct compare_run *run, const char *value)
{
        uint64_t width;

        if (option_count(value, &width) < 0 || width < 40 || width > 10000)
                return options_error("compare", "--width takes 40 to 10000, not '%s'", value);
        run->width = (unsigned)width;
        return 0;
}

static int compare_option(void *own, int code, const char *value)
{
        struct compare_run *run = own;

        switch (code) {
        case CODE_RESULT: return take_result(run, value);
        case CODE_RESULTS: return take_join(run, value);
        case CODE_FORMAT: return take_format(run, value);
        case CODE_WIDTH: return take_width(run, value);
        case CODE_ROUNDS: run->rounds = true; return 0;
        case CODE_WHOLE: run->whole = true; return 0;
        default: run->wide = true; return 0;
        }
}

static int compare_argument(void *own, const char *value)
{
        struct compare_run *run = own;

        if (run->path_count == COMPARE_MOST)
                return options_error("compare", "at most %d recordings", COMPARE_MOST);
        run->paths[run->path_count++] = value;
        return 0;
}

static int open_one(struct compare_run *run, size_t index)
{
        struct report_options options = {.whole = run->whole, .own = run->own, .own_count = run->own_count};
        char why[512] = "";

        for (size_t i = 0; i < run->join_count; i++) {
                if (run->joins[i].recording != index)
                        continue;
                if (options.join_count == sizeof options.join / sizeof *options.join) {
                        options_say("compare", "too many --results for one recording");
                        return -E2BIG;
                }
                options.join[options.join_count++] = run->joins[i].file;
        }
        int r = report_open(run->paths[index], &options, &run->compare.reports[index], why, sizeof why);
        if (r < 0) {
                options_say("compare", "%s", why[0] ? why : strerror(-r));
                return r;
        }
        run->compare.report_count++;
        for (size_t i = 0; i < run->compare.reports[index]->warnings.count; i++)
                options_say("compare", "%s: %s", run->paths[index], run->compare.reports[index]->warnings.lines[i]);
        return 0;
}

/* As wide as the terminal, 80 at least; in a pipe 80. */
static unsigned text_width(const struct compare_run *run)
{
        struct winsize size;

        if (run->wide)
                return 0;
        if (run->width)
                return run->width;
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 80 ? size.ws_col : 80;
}

static int show(const struct compare_run *run)
{
        const struct compare *c = &run->compare;

        switch (run->form) {
        case FORM_MARKDOWN: return compare_markdown(c, stdout);
        case FORM_CSV: return compare_csv(c, stdout);
        case FORM_JSON: return compare_json(c, stdout);
        default: return compare_text(c, text_width(run), option_utf8(), stdout);
        }
}

static int run_compare(struct compare_run *run)
{
        char why[1024] = "";
        int r = 0;

        for (size_t i = 0; i < run->path_count && r == 0; i++)
                r = open_one(run, i);
        if (r == 0) {
                r = compare_make(&run->compare, run->result, run->rounds, why, sizeof why);
                if (r < 0)
                        options_say("compare", "%s", why[0] ? why : strerror(-r));
        }
        if (r == 0 && (r = show(run)) < 0 && r != -EPIPE)
                options_say("compare", "standard output: %s", strerror(-r));
        compare_free(&run->compare);
        for (size_t i = 0; i < run->own_count; i++)
                result_own_fini(&run->own[i]);
        return r < 0 && r != -EPIPE ? 1 : 0;
}

int compare_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_RESULT, "result", "NAME", "compare this result (default: the first rate); 'NAME: REGEX' finds one of your own"},
                {CODE_RESULTS, "results", "N=FILE", "output made elsewhere (FILE or FILE@HOST) for the Nth recording"},
                {CODE_ROUNDS, "rounds", NULL, "one row a round (else the mean of a recording's rounds)"},
                {CODE_WHOLE, "whole", NULL, "keep the ramps of phases"},
                {CODE_FORMAT, "format", "FORMAT", "text (default), md, csv or json"},
                {'w', "wide", NULL, "all columns in one line, whatever the terminal's width"},
                {CODE_WIDTH, "width", "COLUMNS", "of text; default the terminal's, in a pipe 80"},
                {0},
        };
        static struct compare_run run;
        const struct option_set set = {
                .verb = "compare", .synopsis = "[OPTION...] FILE FILE...", .entries = entries, .option = compare_option,
                .argument = compare_argument, .own = &run,
                .text = "Recordings side by side: a row each, a column a phase, growth, bests, what is within noise; then\n"
                        "CPU, wa, devices and latency. Noise is known from rounds (record --repeat) and from recordings of\n"
                        "the same label. One file alone: its rounds.",
        };

        int r = options_parse(&set, argc, argv, &run.options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        if (run.path_count == 0) {
                options_error("compare", "which recordings? watop compare A B");
                return 2;
        }
        for (size_t i = 0; i < run.join_count; i++)
                if (run.joins[i].recording >= run.path_count) {
                        options_error("compare", "--results: there is no recording %zu", run.joins[i].recording + 1);
                        return 2;
                }
        return run_compare(&run);
}

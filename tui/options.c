/*
 * Command lines: getopt_long over a verb's table, the common options, intervals and counts. See options.h.
 *
 * Numbers are read digit by digit, so that neither the locale nor strtod's generosity ("nan", "0x10", "1e9") has a say.
 */
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/options.h"

enum { MAX_ENTRIES = 48, CODE_HELP = 'h', CODE_VERSION = 1000, CODE_RING, CODE_ROOT, CODE_PRIVATE, CODE_NO_BPF, CODE_QUIET, CODE_FORMAT,
        CODE_LOG, CODE_FROM, CODE_TO, CODE_PHASE };

static const uint64_t SECOND = UINT64_C(1000000000);

static const struct option_entry source_entries[] = {
        {CODE_RING, "ring", "PATH", "read this ring"},
        {CODE_ROOT, "root", "DIR", "read a captured machine"},
        {CODE_PRIVATE, "private", NULL, "start an own watopd even if a daemon runs"},
        {CODE_NO_BPF, "no-bpf", NULL, "split wa by what /proc says, do not ask for tracing"},
        {CODE_QUIET, "quiet", NULL, "do not say which source is read"},
        {0},
};
static const struct option_entry log_entries[] = {
        {CODE_LOG, "log", "FILE", "read a log instead of the running machine"},
        {0},
};
static const struct option_entry part_entries[] = {
        {CODE_FROM, "from", "WHEN", "of the log: HH:MM:SS, RFC 3339, +OFFSET, #SEQUENCE, phase"},
        {CODE_TO, "to", "WHEN", "the same; of a phase its end"},
        {CODE_PHASE, "phase", "NAME", "of the log: this phase (NAME#2: its second round)"},
        {0},
};
static const struct option_entry format_entries[] = {
        {CODE_FORMAT, "format", "FORMAT", "text (default), csv or json"},
        {0},
};
static const struct option_entry export_entries[] = {
        {CODE_FORMAT, "format", "FORMAT", "csv (default) or json"},
        {0},
};
static const struct option_entry answer_entries[] = {
        {CODE_FORMAT, "format", "FORMAT", "text (default) or json"},
        {0},
};
static const struct option_entry help_entries[] = {
        {CODE_HELP, "help", NULL, "this text"},
        {CODE_VERSION, "version", NULL, "the version"},
        {0},
};

bool option_utf8(void)
{
        const char *set = nl_langinfo(CODESET);

        return set && (strcmp(set, "UTF-8") == 0 || strcmp(set, "utf8") == 0);
}

/* ---- what is said ---------------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0)))
static void say(const char *verb, const char *format, va_list arguments)
{
        char raw[1024], clean[1024];

        int length = vsnprintf(raw, sizeof raw, format, arguments);
        if (length < 0)
                return;
        size_t used = (size_t)length < sizeof raw ? (size_t)length : sizeof raw - 1;
        clean_screen(clean, sizeof clean, raw, used, option_utf8(), sizeof clean, NULL);
        fprintf(stderr, "watop%s%s: %s\n", verb ? " " : "", verb ? verb : "", clean);
}

int options_error(const char *verb, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say(verb, format, arguments);
        va_end(arguments);
        return -EINVAL;
}

void options_say(const char *verb, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say(verb, format, arguments);
        va_end(arguments);
}

/* ---- values ----------------------------------------------------------------------------------------------------------------------- */

static bool digit(char c)
{
        return c >= '0' && c <= '9';
}

static uint64_t unit_of(const char *suffix)
{
        static const struct { const char *name; uint64_t ns; } units[] = {
                {"", UINT64_C(1000000000)}, {"s", UINT64_C(1000000000)}, {"ms", 1000000}, {"m", UINT64_C(60000000000)},
                {"h", UINT64_C(3600000000000)},
        };

        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
                if (strcmp(suffix, units[i].name) == 0)
                        return units[i].ns;
        return 0;
}

int option_interval(const char *text, uint64_t *ns)
{
        const char *at = text, *suffix = text;
        uint64_t sum = 0;
        bool digits = false;

        while (digit(*suffix) || *suffix == '.')
                suffix++;
        uint64_t unit = unit_of(suffix);
        if (unit == 0)
                return -EINVAL;
        for (; digit(*at); at++) {
                digits = true;
                if (sum <= 3600 * SECOND / unit * 10) /* past the longest interval: no need to count on, and no overflow */
                        sum = sum * 10 + (uint64_t)(*at - '0');
        }
        sum *= unit;
        if (*at == '.') {
                for (at++; digit(*at); at++) {
                        digits = true;
                        unit /= 10;
                        sum += unit * (uint64_t)(*at - '0');
                }
        }
        if (!digits || at != suffix)
                return -EINVAL;
        if (sum < 10 * 1000 * 1000 || sum > 3600 * SECOND)
                return -ERANGE;
        *ns = sum;
        return 0;
}

static int number(const char **text, uint64_t *value)
{
        uint64_t sum = 0;

        if (!digit(**text))
                return -EINVAL;
        for (; digit(**text); (*text)++) {
                if (sum > UINT64_C(1000000000000))
                        return -ERANGE;
                sum = sum * 10 + (uint64_t)(**text - '0');
        }
        *value = sum;
        return 0;
}

int option_count(const char *text, uint64_t *count)
{
        uint64_t value = 0;

        int r = number(&text, &value);
        if (r < 0)
                return r;
        if (*text != '\0')
                return -EINVAL;
        if (value == 0)
                return -ERANGE;
        *count = value;
        return 0;
}

int option_list(const char *text, uint64_t *set, size_t bits)
{
        for (;; text++) {
                uint64_t from = 0, to = 0;
                int r = number(&text, &from);
                if (r < 0)
                        return r;
                to = from;
                if (*text == '-') {
                        text++;
                        r = number(&text, &to);
                        if (r < 0)
                                return r;
                }
                if (to < from)
                        return -EINVAL;
                if (to >= bits)
                        return -ERANGE;
                for (uint64_t i = from; i <= to; i++)
                        set[i / 64] |= UINT64_C(1) << (i % 64);
                if (*text == '\0')
                        return 0;
                if (*text != ',')
                        return -EINVAL;
        }
}

int option_format(const char *text, enum format *format)
{
        static const char *const names[] = {[FORMAT_TEXT] = "text", [FORMAT_CSV] = "csv", [FORMAT_JSON] = "json"};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                if (strcmp(text, names[i]) == 0) {
                        *format = (enum format)i;
                        return 0;
                }
        }
        return -EINVAL;
}

/* ---- help --------------------------------------------------------------------------------------------------------------------------- */

static void help_entries_of(const struct option_entry *entries)
{
        for (; entries && entries->code; entries++) {
                char left[64], letter[8] = "    ";

                if (entries->code < OPTION_LONG)
                        snprintf(letter, sizeof letter, "-%c%s", entries->code, entries->name ? ", " : "");
                snprintf(left, sizeof left, "%s%s%s%s%s", letter, entries->name ? "--" : "", entries->name ? entries->name : "",
                         entries->argument ? " " : "", entries->argument ? entries->argument : "");
                printf("  %-26s %s\n", left, entries->text);
        }
}

static void help(const struct option_set *set)
{
        printf("usage: watop%s%s %s\n\n%s\n\n", set->verb ? " " : "", set->verb ? set->verb : "", set->synopsis, set->text);
        help_entries_of(set->entries);
        if (set->groups & OPTIONS_FORMAT)
                help_entries_of(set->groups & OPTIONS_PART ? export_entries : format_entries);
        if (set->groups & OPTIONS_ANSWER)
                help_entries_of(answer_entries);
        if (set->groups & OPTIONS_SOURCE)
                help_entries_of(source_entries);
        if (set->groups & OPTIONS_LOG)
                help_entries_of(log_entries);
        if (set->groups & (OPTIONS_LOG | OPTIONS_PART))
                help_entries_of(part_entries);
        help_entries_of(help_entries);
        if (set->groups & OPTIONS_TIMES)
                printf("\nINTERVAL: a number with ms, s, m or h; seconds without.%s",
                       set->groups & (OPTIONS_LOG | OPTIONS_SOURCE) ? " Alone it goes on until\nCtrl-C; without it, one report over 1 s.\n"
                       : "\n");
}

/* ---- parsing ------------------------------------------------------------------------------------------------------------------------- */

struct parser {
        const struct option_set *set;
        struct options *options;
        struct option longs[MAX_ENTRIES + 1];
        char shorts[2 * MAX_ENTRIES + 4];
        size_t long_count, short_length;
};

static void add_entries(struct parser *parser, const struct option_entry *entries)
{
        for (; entries && entries->code && parser->long_count < MAX_ENTRIES; entries++) {
                if (entries->code < OPTION_LONG) {
                        parser->shorts[parser->short_length++] = (char)entries->code;
                        if (entries->argument)
                                parser->shorts[parser->short_length++] = ':';
                }
                if (entries->name)
                        parser->longs[parser->long_count++] = (struct option){
                                .name = entries->name,
                                .has_arg = entries->argument ? required_argument : no_argument,
                                .val = entries->code,
                        };
        }
}

static int common_option(struct parser *parser, int code, const char *value)
{
        struct options *options = parser->options;

        switch (code) {
        case CODE_HELP:
                help(parser->set);
                return OPTIONS_DONE;
        case CODE_VERSION:
                printf("watop %s\n", WATOP_VERSION);
                return OPTIONS_DONE;
        case CODE_RING:
                options->attach.ring = value;
                return 0;
        case CODE_ROOT:
                options->attach.root = value;
                return 0;
        case CODE_PRIVATE:
                options->attach.private_only = true;
                return 0;
        case CODE_NO_BPF:
                options->attach.no_bpf = true;
                return 0;
        case CODE_LOG:
                options->attach.log = value;
                return 0;
        case CODE_FROM:
                options->attach.from = value;
                return 0;
        case CODE_TO:
                options->attach.to = value;
                return 0;
        case CODE_PHASE:
                options->attach.phase = value;
                return 0;
        case CODE_QUIET:
                options->quiet = true;
                return 0;
        case CODE_FORMAT:
                if (option_format(value, &options->format) < 0)
                        return options_error(parser->set->verb, "unknown format '%s': %s", value,
                                             parser->set->groups & OPTIONS_ANSWER ? "text or json" : "text, csv or json");
                return 0;
        default:
                return parser->set->option(parser->set->own, code, value);
        }
}

static int times_argument(struct parser *parser, const char *value)
{
        const char *verb = parser->set->verb;
        struct options *options = parser->options;
        int r;

        if (!(parser->set->groups & OPTIONS_TIMES) || options->count_given)
                return options_error(verb, "one argument too many: '%s'", value);
        if (!options->interval_given) {
                r = option_interval(value, &options->attach.interval_ns);
                if (r == -ERANGE)
                        return options_error(verb, "interval '%s' is not between 10ms and 1h", value);
                if (r < 0)
                        return options_error(verb, "'%s' is not an interval such as 250ms, 1s, 2m, 1h or 0.5", value);
                options->interval_given = true;
                options->count = 0;
                return 0;
        }
        r = option_count(value, &options->count);
        if (r < 0)
                return options_error(verb, "'%s' is not a count of reports", value);
        options->count_given = true;
        return 0;
}

static int arguments(struct parser *parser, int argc, char **argv)
{
        for (int i = optind; i < argc; i++) {
                int r = parser->set->argument ? parser->set->argument(parser->set->own, argv[i]) : 1;
                if (r < 0)
                        return r;
                if (r == 1) {
                        r = times_argument(parser, argv[i]);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* getopt's own messages are off: ours are one line, and harmless. */
static int wrong_option(const struct parser *parser, int code, char **argv)
{
        const char *word = optind > 0 ? argv[optind - 1] : "";
        char letter[3] = {'-', (char)optopt, '\0'};

        if (optopt > 0 && optopt < OPTION_LONG)
                word = letter;
        if (code == ':')
                return options_error(parser->set->verb, "option '%s' needs an argument", word);
        return options_error(parser->set->verb, "wrong option '%s'; --help lists them", word);
}

int options_parse(const struct option_set *set, int argc, char **argv, struct options *options)
{
        struct parser parser = {.set = set, .options = options, .shorts = ":", .short_length = 1};
        int code;

        *options = (struct options){.count = 1, .attach.interval_ns = SECOND};
        if (set->groups & OPTIONS_COMMAND) {
                memcpy(parser.shorts, "+:", 2);
                parser.short_length = 2;
        }
        add_entries(&parser, set->entries);
        if (set->groups & OPTIONS_FORMAT)
                add_entries(&parser, format_entries);
        if (set->groups & OPTIONS_ANSWER)
                add_entries(&parser, answer_entries);
        if (set->groups & OPTIONS_SOURCE)
                add_entries(&parser, source_entries);
        if (set->groups & OPTIONS_LOG)
                add_entries(&parser, log_entries);
        if (set->groups & (OPTIONS_LOG | OPTIONS_PART))
                add_entries(&parser, part_entries);
        add_entries(&parser, help_entries);

        opterr = 0;
        optind = 0; /* glibc: begin anew */
        while ((code = getopt_long(argc, argv, parser.shorts, parser.longs, NULL)) != -1) {
                if (code == '?' || code == ':')
                        return wrong_option(&parser, code, argv);
                int r = common_option(&parser, code, optarg);
                if (r != 0)
                        return r;
        }
        int r = arguments(&parser, argc, argv);
        if (r < 0)
                return r;
        if (options->attach.ring && options->attach.root)
                return options_error(set->verb, "--ring and --root exclude each other");
        if (options->attach.log && (options->attach.ring || options->attach.root || options->attach.private_only))
                return options_error(set->verb, "--log excludes --ring, --root and --private");
        if ((set->groups & OPTIONS_LOG) && !options->attach.log && (options->attach.from || options->attach.to || options->attach.phase))
                return options_error(set->verb, "--from, --to and --phase need --log");
        if ((options->attach.root || options->attach.log) && !options->count_given)
                options->count = 0; /* every tree of a captured machine, all of a log: none is lost */
        return 0;
}

#pragma once
/*
 * Command lines: every verb's options are a table, read in one place, from which --help is made too.
 *
 * A wrong option or argument gives one line on stderr and -EINVAL; the verb then returns 2. Nothing here depends on the locale.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/attach.h"

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

/* What the common options say. */
struct options {
        struct attach_options attach; /* ring, root, private_only, interval_ns (1 s unless given) */
        enum format format;
        uint64_t count;               /* reports; 0 = until somebody stops it; 1 when no interval is given */
        bool interval_given, count_given;
        bool quiet;                   /* do not say which source is read */
};

/* One option. code: the short letter, or OPTION_LONG + n for one that has only a name. argument: its name in --help, NULL = takes none.
 * The last entry has code 0. */
enum { OPTION_LONG = 256 };
struct option_entry {
        int code;
        const char *name, *argument, *text;
};

enum option_groups {
        OPTIONS_SOURCE = 1, /* --ring --root --private --no-bpf --quiet */
        OPTIONS_LOG = 32, /* --log --from --to --phase */
        OPTIONS_PART = 64, /* --from --to --phase: of a log that is an argument */
        OPTIONS_FORMAT = 2, /* --format text|csv|json */
        OPTIONS_ANSWER = 8, /* --format text|json: no table */
        OPTIONS_TIMES = 4,  /* arguments INTERVAL [COUNT] */
        OPTIONS_COMMAND = 16, /* the first argument ends the options: the rest is a command's */
};

struct option_set {
        const char *verb;      /* "cpu"; NULL = the program itself */
        const char *synopsis;  /* after the verb: "[OPTION...] [INTERVAL [COUNT]]" */
        const char *text;      /* what it does; several lines are fine */
        const struct option_entry *entries; /* its own; NULL = none */
        unsigned groups;       /* option_groups */
        /* One of its own options. 0, or -EINVAL after options_error. */
        int (*option)(void *own, int code, const char *value);
        /* One argument, before INTERVAL and COUNT are tried: 0 taken, 1 not mine, -EINVAL after options_error. NULL = none is mine. */
        int (*argument)(void *own, const char *value);
        void *own;
};

/* 0: go on. OPTIONS_DONE: --help or --version was answered, exit 0. -EINVAL: said on stderr, exit 2. */
enum { OPTIONS_DONE = 1 };
int options_parse(const struct option_set *, int argc, char **argv, struct options *);

/* "watop VERB: text": one line on stderr, made harmless. Returns -EINVAL. options_say is the same for what is no error of usage. */
int options_error(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
void options_say(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "250ms", "1s", "2m", "1h", "0.5": 10 ms to 1 h, as ns. -EINVAL: not an interval; -ERANGE: too short or too long. */
int option_interval(const char *text, uint64_t *ns);
/* 1, 2, 3, ...: -EINVAL, -ERANGE. */
int option_count(const char *text, uint64_t *count);
int option_format(const char *text, enum format *);
/* A list of numbers such as "0-3,8" into a set of bits; -EINVAL, -ERANGE when one is not below `bits`. */
int option_list(const char *text, uint64_t *set, size_t bits);

/* True when the terminal's character set (LC_CTYPE) is UTF-8; main sets the locale. */
bool option_utf8(void);

#pragma once
/*
 * Results in the output of benchmarks: throughput and latency as the tools print them, each with the line it stands on.
 *
 * Known: redis-benchmark, memtier_benchmark, fio (text and JSON), sysbench, pgbench, wrk, dd; others by a rule of the user's. Nothing is
 * guessed: a line that does not look as its tool prints it gives nothing. Output is bytes from strangers.
 */
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the same result of commands that ran at the same time becomes one: rates are added; percentiles, means and maxima of latency cannot
 * be averaged, so they are shown from the least to the largest. */
enum result_rule { RESULT_SUM, RESULT_MEAN, RESULT_MAX, RESULT_RANGE };

enum { RESULT_NAME = 64, RESULT_LINE = 160 };

struct result {
        const char *tool;          /* a constant, or "" for a user's rule */
        char name[RESULT_NAME];    /* "SET", "SET p50", "job read IOPS" */
        char unit[12];             /* "r/s", "ms", "MiB/s"; "" none */
        double value;
        enum result_rule rule;
        size_t offset;             /* of the line in the output, in bytes */
        char line[RESULT_LINE];    /* raw bytes of it, cut; NUL-terminated */
};

struct results {
        struct result *items;
        size_t count, capacity;
};

/* A user's rule: "NAME: REGEX" or "NAME sum|mean|max|range: REGEX" (POSIX extended). The number is the first group. */
struct result_own {
        char name[RESULT_NAME];
        enum result_rule rule;
        regex_t regex;
};
/* 0; -EINVAL with why in `why`. Freed with result_own_fini. */
int result_own_init(struct result_own *, const char *text, char *why, size_t size);
void result_own_fini(struct result_own *);

/* Add what is found in the output, in its order. 0 or -ENOMEM. */
int results_scan(struct results *, const char *bytes, size_t length, const struct result_own *own, size_t own_count);
void results_fini(struct results *);

/* The same result of several commands as one. */
struct result_sum {
        const struct result *first;
        size_t count;
        double value;              /* by the rule; with RESULT_RANGE the mean of least and largest is no value: NAN when they differ */
        double least, largest;
};
/* Of items[from..to) those with the name, unit and tool of item `index`. concurrent: they ran at the same time; else one after another, and
 * then rates are not added but averaged. */
struct result_sum results_sum(const struct results *, size_t from, size_t to, size_t index, bool concurrent);
/* True when an earlier one in [from, to) has the same name, unit and tool. */
bool results_again(const struct results *, size_t from, size_t to, size_t index);

/* results_fio.c: fio's JSON at bytes[0] == '{'. *used: bytes of the object; false when it is not one. */
bool results_fio_json(struct results *, const char *bytes, size_t length, size_t offset, size_t *used);
/* For it: add one. False when memory is short. */
bool results_add(struct results *, const struct result *);

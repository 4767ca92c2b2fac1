/*
 * Results in the output of benchmarks. Contract: results.h.
 *
 * One table says what each tool prints: a literal that the line must have (so that most lines cost one search), a regular expression, and
 * what its groups are. Lines end with LF or CR: redis-benchmark draws its progress with CR, and its last line follows one.
 */
#include "tui/results.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 10, FIELDS = 7, LINE = 1024 };

/* What an earlier line said, where a later one needs it. */
enum context { ANY, REDIS_LATENCY, REDIS_CSV, SYSBENCH_LATENCY, FIO_PERCENTILES, WRK_PERCENTILES, MEMTIER };
enum action { NOTHING, SECTION, DIRECTION, UNIT, IGNORE };

struct field {
        unsigned char group, scale_group;   /* the number; a unit or suffix that scales it (0 = none) */
        const char *name, *unit;            /* $S section, $D direction, $1 first group */
        enum result_rule rule;
};

static const struct pattern {
        const char *tool, *literal, *regex;
        enum context needs, sets;
        enum action action;                 /* with the first group */
        struct field fields[FIELDS];
} patterns[] = {
        { "redis-benchmark", "throughput summary", "^ *throughput summary: ([0-9.]+) requests per second", ANY, ANY, NOTHING,
          { { 1, 0, "$S", "r/s", RESULT_SUM } } },
        { "redis-benchmark", "requests per second", "^ *([A-Za-z][^:\"]*): ([0-9.]+) requests per second(, p50=([0-9.]+) msec)?",
          ANY, ANY, NOTHING,
          { { 2, 0, "$1", "r/s", RESULT_SUM }, { 4, 0, "$1 p50", "ms", RESULT_RANGE } } },
        { "redis-benchmark", "======", "^ *====== (.+) ====== *$", ANY, ANY, SECTION, { { 0 } } },
        { "redis-benchmark", "requests per second", "^([0-9.]+) requests per second *$", ANY, ANY, NOTHING,
          { { 1, 0, "$S", "r/s", RESULT_SUM } } },
        { "redis-benchmark", "p50", "^ *avg +min +p50 +p95 +p99 +max *$", ANY, REDIS_LATENCY, NOTHING, { { 0 } } },
        { "redis-benchmark", ".", "^ *([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) *$", REDIS_LATENCY, ANY, NOTHING,
          { { 1, 0, "$S avg", "ms", RESULT_RANGE }, { 2, 0, "$S min", "ms", RESULT_RANGE }, { 3, 0, "$S p50", "ms", RESULT_RANGE },
            { 4, 0, "$S p95", "ms", RESULT_RANGE }, { 5, 0, "$S p99", "ms", RESULT_RANGE }, { 6, 0, "$S max", "ms", RESULT_RANGE } } },
        { "redis-benchmark", "\"rps\"", "^\"test\",\"rps\"", ANY, REDIS_CSV, NOTHING, { { 0 } } },
        { "redis-benchmark", "\",\"",
          "^\"([^\"]+)\",\"([0-9.]+)\",\"([0-9.]+)\",\"([0-9.]+)\",\"([0-9.]+)\",\"([0-9.]+)\",\"([0-9.]+)\",\"([0-9.]+)\"",
          REDIS_CSV, REDIS_CSV, NOTHING,
          { { 2, 0, "$1", "r/s", RESULT_SUM }, { 3, 0, "$1 avg", "ms", RESULT_RANGE }, { 4, 0, "$1 min", "ms", RESULT_RANGE },
            { 5, 0, "$1 p50", "ms", RESULT_RANGE }, { 6, 0, "$1 p95", "ms", RESULT_RANGE }, { 7, 0, "$1 p99", "ms", RESULT_RANGE },
            { 8, 0, "$1 max", "ms", RESULT_RANGE } } },

        { "fio", "groupid=", "^([^:]+): \\(groupid=[0-9]+, jobs=[0-9]+\\): err=", ANY, ANY, SECTION, { { 0 } } },
        { "fio", "IOPS=", "^ +(read|write|trim) *: IOPS=([0-9.]+)([kMG]?), BW=([0-9.]+)([KMGT]?i?B)/s", ANY, ANY, DIRECTION,
          { { 2, 3, "$S $1 IOPS", "/s", RESULT_SUM }, { 4, 5, "$S $1 BW", "MiB/s", RESULT_SUM } } },
        { "fio", "clat (", "^ +clat \\((nsec|usec|msec|sec)\\) *: min= *[0-9.]+[kMG]?, max= *([0-9.]+)([kMG]?), avg= *([0-9.]+)",
          ANY, ANY, UNIT,
          { { 4, 1, "$S $D clat avg", "ms", RESULT_RANGE } } },
        { "fio", "clat percentiles", "^ +clat percentiles \\((nsec|usec|msec|sec)\\):", ANY, FIO_PERCENTILES, UNIT, { { 0 } } },
        { "fio", "ios=",
          "^ +([^ :]+): ios=([0-9]+)/([0-9]+), merge=([0-9]+)/([0-9]+), ticks=([0-9]+)/([0-9]+), in_queue=([0-9]+), util=([0-9.]+)%",
          ANY, ANY, NOTHING, { { 2, 0, "$1 ios read", "", RESULT_MAX }, { 3, 0, "$1 ios write", "", RESULT_MAX },
            { 6, 0, "$1 ticks read", "ms", RESULT_MAX }, { 7, 0, "$1 ticks write", "ms", RESULT_MAX },
            { 8, 0, "$1 in_queue", "ms", RESULT_MAX }, { 9, 0, "$1 util", "%", RESULT_MAX } } },

        { "sysbench", "/s:", "^ +(reads|writes|fsyncs)/s: +([0-9.]+)", ANY, ANY, NOTHING, { { 2, 0, "$1", "/s", RESULT_SUM } } },
        { "sysbench", "MiB/s:", "^ +(read|written), MiB/s: +([0-9.]+)", ANY, ANY, NOTHING, { { 2, 0, "$1", "MiB/s", RESULT_SUM } } },
        { "sysbench", "per sec.)", "^ +(transactions|queries): +[0-9]+ +\\(([0-9.]+) per sec\\.\\)", ANY, ANY, NOTHING,
          { { 2, 0, "$1", "/s", RESULT_SUM } } },
        { "sysbench", "events per second:", "^ +events per second: +([0-9.]+)", ANY, ANY, NOTHING,
          { { 1, 0, "events", "/s", RESULT_SUM } } },
        { "sysbench", "MiB transferred", "^ *[0-9.]+ MiB transferred \\(([0-9.]+) MiB/sec\\)", ANY, ANY, NOTHING,
          { { 1, 0, "transferred", "MiB/s", RESULT_SUM } } },
        { "sysbench", "Total operations:", "^ *Total operations: +[0-9]+ +\\( *([0-9.]+) per second\\)", ANY, ANY, NOTHING,
          { { 1, 0, "operations", "/s", RESULT_SUM } } },
        { "sysbench", "Latency (ms):", "^ *Latency \\(ms\\): *$", ANY, SYSBENCH_LATENCY, NOTHING, { { 0 } } },
        { "sysbench", "percentile:", "^ +([0-9]+)th percentile: +([0-9.]+)", SYSBENCH_LATENCY, SYSBENCH_LATENCY, NOTHING,
          { { 2, 0, "latency p$1", "ms", RESULT_RANGE } } },
        { "sysbench", ":", "^ +(min|avg|max): +([0-9.]+) *$", SYSBENCH_LATENCY, SYSBENCH_LATENCY, NOTHING,
          { { 2, 0, "latency $1", "ms", RESULT_RANGE } } },

        { "pgbench", "tps = ", "^tps = [0-9.]+ \\(including", ANY, ANY, IGNORE, { { 0 } } },
        { "pgbench", "tps = ", "^tps = ([0-9.]+) \\((without|excluding)", ANY, ANY, NOTHING, { { 1, 0, "tps", "/s", RESULT_SUM } } },
        { "pgbench", "latency ", "^latency (average|stddev) = ([0-9.]+) ms", ANY, ANY, NOTHING,
          { { 2, 0, "latency $1", "ms", RESULT_RANGE } } },

        { "wrk", "Requests/sec:", "^ *Requests/sec: +([0-9.]+)", ANY, ANY, NOTHING, { { 1, 0, "requests", "r/s", RESULT_SUM } } },
        { "wrk", "Transfer/sec:", "^ *Transfer/sec: +([0-9.]+)([KMGT]?B)", ANY, ANY, NOTHING,
          { { 1, 2, "transfer", "MiB/s", RESULT_SUM } } },
        { "wrk", "Latency ", "^ +Latency +([0-9.]+)(us|ms|s) ", ANY, ANY, NOTHING, { { 1, 2, "latency avg", "ms", RESULT_RANGE } } },
        { "wrk", "Latency Distribution", "^ *Latency Distribution", ANY, WRK_PERCENTILES, NOTHING, { { 0 } } },
        { "wrk", "%", "^ +([0-9.]+)% +([0-9.]+)(us|ms|s) *$", WRK_PERCENTILES, WRK_PERCENTILES, NOTHING,
          { { 2, 3, "latency p$1", "ms", RESULT_RANGE } } },

        { "memtier_benchmark", "Ops/sec", "^ *Type +Ops/sec ", ANY, MEMTIER, NOTHING, { { 0 } } },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

struct scanner {
        struct results *results;
        regex_t regex[PATTERNS], percentile, copied, memtier, records;
        enum context context;
        char section[RESULT_NAME], direction[16], unit[16], header[LINE];
        const struct result_own *own;
        size_t own_count;
        unsigned dd_ended;          /* runs of dd whose records were counted and whose rate is still to come */
        bool failed;
};

void results_fini(struct results *results)
{
        free(results->items);
        *results = (struct results){ 0 };
}

bool results_add(struct results *results, const struct result *result)
{
        if (results->count == results->capacity) {
                size_t capacity = results->capacity * 2 + 64;
                struct result *items = realloc(results->items, capacity * sizeof *items);
                if (items == NULL)
                        return false;
                results->items = items;
                results->capacity = capacity;
        }
        results->items[results->count++] = *result;
        return true;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------------ */

/* Digits with one point, as tools print them in the C locale. */
static bool number_of(const char *text, regoff_t length, double *value)
{
        char buffer[64], *end;

        if (length <= 0 || length >= (regoff_t)sizeof buffer || strspn(text, "0123456789.") < (size_t)length)
                return false;
        memcpy(buffer, text, (size_t)length);
        buffer[length] = '\0';
        *value = strtod(buffer, &end);
        return *end == '\0' && isfinite(*value);
}

/* Suffixes by what the result's own unit is: fio's k of IOPS are 1000; bytes become MiB; times ms. */
static double scale_of(const char *suffix, const char *unit)
{
        static const struct { const char *suffix, *unit; double scale; } scales[] = {
                { "k", "/s", 1e3 }, { "M", "/s", 1e6 }, { "G", "/s", 1e9 }, { "nsec", "ms", 1e-6 }, { "usec", "ms", 1e-3 },
                { "msec", "ms", 1 },
                { "sec", "ms", 1e3 }, { "us", "ms", 1e-3 }, { "ms", "ms", 1 }, { "s", "ms", 1e3 }, { "B", "MiB/s", 1.0 / 1048576 },
                { "KiB", "MiB/s", 1.0 / 1024 }, { "MiB", "MiB/s", 1 }, { "GiB", "MiB/s", 1024 }, { "TiB", "MiB/s", 1048576 },
                /* wrk's KB and MB are 1024 and 1024^2; fio writes KB when it counts in 1000, which it does not by default. */
                { "KB", "MiB/s", 1.0 / 1024 }, { "MB", "MiB/s", 1 }, { "GB", "MiB/s", 1024 }, { "TB", "MiB/s", 1048576 },
        };
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
                if (strcmp(scales[i].suffix, suffix) == 0 && strcmp(scales[i].unit, unit) == 0)
                        return scales[i].scale;
        return suffix[0] == '\0' ? 1 : NAN;
}

static void copy(char *to, size_t size, const char *from, regoff_t length)
{
        size_t n = length > 0 ? (size_t)length : 0;
        n = n < size ? n : size - 1;
        memcpy(to, from, n);
        to[n] = '\0';
}

/* ---- one line ----------------------------------------------------------------------------------------------------------------------- */

static void expand(const struct scanner *scanner, const char *line, const regmatch_t *match, const char *name, char *text, size_t size)
{
        size_t length = 0;

        for (; *name != '\0' && length + 1 < size; name++) {
                char first[RESULT_NAME];
                const char *word = NULL;
                if (*name == '$' && name[1] == 'S')
                        word = scanner->section;
                else if (*name == '$' && name[1] == 'D')
                        word = scanner->direction;
                else if (*name == '$' && name[1] == '1') {
                        copy(first, sizeof first, line + match[1].rm_so, match[1].rm_eo - match[1].rm_so);
                        word = first;
                }
                if (word == NULL) {
                        text[length++] = *name;
                        continue;
                }
                for (name++; *word != '\0' && length + 1 < size; word++)
                        text[length++] = *word;
        }
        text[length] = '\0';
        /* Without a section the name begins with its blank. */
        if (text[0] == ' ')
                memmove(text, text + 1, length);
}

static void emit(struct scanner *scanner, const char *line, size_t offset, const struct pattern *pattern, const struct field *field,
        const regmatch_t *match)
{
        struct result result = { .tool = pattern->tool, .rule = field->rule, .offset = offset };
        const regmatch_t *at = &match[field->group];
        char suffix[16] = "";

        if (at->rm_so < 0 || !number_of(line + at->rm_so, at->rm_eo - at->rm_so, &result.value))
                return;
        if (field->scale_group > 0 && match[field->scale_group].rm_so >= 0) {
                const regmatch_t *s = &match[field->scale_group];
                copy(suffix, sizeof suffix, line + s->rm_so, s->rm_eo - s->rm_so);
                result.value *= scale_of(suffix, field->unit);
                if (!isfinite(result.value))
                        return;
        }
        expand(scanner, line, match, field->name, result.name, sizeof result.name);
        snprintf(result.unit, sizeof result.unit, "%s", field->unit);
        snprintf(result.line, sizeof result.line, "%.*s", RESULT_LINE - 1, line);
        if (!results_add(scanner->results, &result))
                scanner->failed = true;
}

static void act(struct scanner *scanner, const struct pattern *pattern, const char *line, const regmatch_t *match)
{
        const char *word = line + match[1].rm_so;
        regoff_t length = match[1].rm_eo - match[1].rm_so;

        switch (pattern->action) {
        case SECTION: copy(scanner->section, sizeof scanner->section, word, length); scanner->direction[0] = '\0'; break;
        case DIRECTION: copy(scanner->direction, sizeof scanner->direction, word, length); break;
        case UNIT: copy(scanner->unit, sizeof scanner->unit, word, length); break;
        default: break;
        }
}

/* "|  1.00th=[   47],  5.00th=[   49], ...": the four that people compare. */
static void fio_percentiles(struct scanner *scanner, const char *line, size_t offset)
{
        static const char *const wanted[][2] = { { "50.00", "p50" }, { "95.00", "p95" }, { "99.00", "p99" }, { "99.90", "p99.9" } };
        regmatch_t match[3];

        for (const char *at = line; regexec(&scanner->percentile, at, 3, match, 0) == 0; at += match[0].rm_eo) {
                struct result result = { .tool = "fio", .rule = RESULT_RANGE, .offset = offset, .unit = "ms" };
                regoff_t length = match[1].rm_eo - match[1].rm_so;
                const char *name = NULL;
                for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
                        if ((size_t)length == strlen(wanted[i][0]) && memcmp(at + match[1].rm_so, wanted[i][0], (size_t)length) == 0)
                                name = wanted[i][1];
                if (name == NULL || !number_of(at + match[2].rm_so, match[2].rm_eo - match[2].rm_so, &result.value))
                        continue;
                result.value *= scale_of(scanner->unit, "ms");
                expand(scanner, line, match, "$S $D clat ", result.name, sizeof result.name);
                size_t used = strlen(result.name);
                snprintf(result.name + used, sizeof result.name - used, "%s", name);
                snprintf(result.line, sizeof result.line, "%.*s", RESULT_LINE - 1, line);
                if (isfinite(result.value) && !results_add(scanner->results, &result))
                        scanner->failed = true;
        }
}

/* memtier's columns differ by version: its head line says which there are; heads are two blanks or more apart. */
static void memtier_row(struct scanner *scanner, const char *line, size_t offset)
{
        regmatch_t match[2];
        const char *head = scanner->header, *cell = line;
        char row[24];

        if (regexec(&scanner->memtier, line, 2, match, 0) != 0)
                return;
        copy(row, sizeof row, line + match[1].rm_so, match[1].rm_eo - match[1].rm_so);
        for (bool first = true; ; first = false) {
                head += strspn(head, " ");
                cell += strspn(cell, " ");
                const char *end = strstr(head, "  ");
                size_t head_length = end != NULL ? (size_t)(end - head) : strlen(head), cell_length = strcspn(cell, " ");
                struct result result = { .tool = "memtier_benchmark", .rule = RESULT_SUM, .offset = offset };
                if (head_length == 0 || cell_length == 0)
                        return;
                bool latency = head_length > 8 && memcmp(head + head_length - 7, "Latency", 7) == 0;
                if (!first && number_of(cell, (regoff_t)cell_length, &result.value)) {
                        result.rule = latency ? RESULT_RANGE : RESULT_SUM;
                        snprintf(result.unit, sizeof result.unit, "%s", latency ? "ms" : "/s");
                        snprintf(result.name, sizeof result.name, "%s %.*s", row, (int)(head_length < 40 ? head_length : 40), head);
                        snprintf(result.line, sizeof result.line, "%.*s", RESULT_LINE - 1, line);
                        if (!results_add(scanner->results, &result))
                                scanner->failed = true;
                }
                head += head_length;
                cell += cell_length;
        }
}

/* dd rounds its rate; bytes and seconds give it in full. Its last word only: that comes behind the records that it wrote, progress does not
 * (status=progress prints the same line every second). */
static void dd_line(struct scanner *scanner, const char *line, size_t offset)
{
        regmatch_t match[3];
        double bytes, seconds;
        struct result result = { .tool = "dd", .rule = RESULT_SUM, .offset = offset, .name = "copied", .unit = "MB/s" };

        if (regexec(&scanner->records, line, 0, NULL, 0) == 0)
                scanner->dd_ended++;
        if (scanner->dd_ended == 0 || strstr(line, " copied, ") == NULL || regexec(&scanner->copied, line, 3, match, 0) != 0 ||
            !number_of(line, match[1].rm_eo, &bytes))
                return;
        char *end;
        seconds = strtod(line + match[2].rm_so, &end);
        if (end != line + match[2].rm_eo || !(seconds > 0))
                return;
        scanner->dd_ended--;
        result.value = bytes / seconds / 1e6;
        snprintf(result.line, sizeof result.line, "%.*s", RESULT_LINE - 1, line);
        if (!results_add(scanner->results, &result))
                scanner->failed = true;
}

static void own_rules(struct scanner *scanner, const char *line, size_t offset)
{
        for (size_t i = 0; i < scanner->own_count; i++) {
                const struct result_own *own = &scanner->own[i];
                struct result result = { .tool = "", .rule = own->rule, .offset = offset };
                regmatch_t match[2];
                char *end;
                if (regexec(&own->regex, line, 2, match, 0) != 0)
                        continue;
                const regmatch_t *at = &match[1];
                if (at->rm_so < 0 || at->rm_so == at->rm_eo)
                        continue;
                result.value = strtod(line + at->rm_so, &end);
                if (end == line + at->rm_so || end > line + at->rm_eo || !isfinite(result.value))
                        continue;
                snprintf(result.name, sizeof result.name, "%s", own->name);
                snprintf(result.line, sizeof result.line, "%.*s", RESULT_LINE - 1, line);
                if (!results_add(scanner->results, &result))
                        scanner->failed = true;
        }
}

static void scan_line(struct scanner *scanner, const char *line, size_t offset)
{
        regmatch_t match[GROUPS];
        enum context context = scanner->context;

        own_rules(scanner, line, offset);
        if (context == MEMTIER)
                memtier_row(scanner, line, offset);
        if (context == FIO_PERCENTILES && strstr(line, "th=[") != NULL) {
                fio_percentiles(scanner, line, offset);
                return;
        }
        dd_line(scanner, line, offset);
        for (size_t i = 0; i < PATTERNS; i++) {
                const struct pattern *pattern = &patterns[i];
                if ((pattern->needs != ANY && pattern->needs != context) || strstr(line, pattern->literal) == NULL ||
                    regexec(&scanner->regex[i], line, GROUPS, match, 0) != 0)
                        continue;
                if (pattern->action == IGNORE)
                        return;
                act(scanner, pattern, line, match);
                if (pattern->needs != ANY || pattern->sets != ANY)
                        scanner->context = pattern->sets;
                if (pattern->sets == MEMTIER) {
                        size_t header = strlen(line);
                        while (header > 0 && line[header - 1] == ' ')
                                header--;
                        copy(scanner->header, sizeof scanner->header, line, (regoff_t)header);
                }
                for (size_t f = 0; f < FIELDS && pattern->fields[f].group > 0; f++)
                        emit(scanner, line, offset, pattern, &pattern->fields[f], match);
                return;
        }
}

/* ---- the whole output ---------------------------------------------------------------------------------------------------------------- */

static int compile(struct scanner *scanner)
{
        size_t i = 0;
        int r = 0;

        for (; i < PATTERNS && r == 0; i++)
                r = regcomp(&scanner->regex[i], patterns[i].regex, REG_EXTENDED);
        if (r == 0 && regcomp(&scanner->percentile, "([0-9.]+)th=\\[ *([0-9]+)\\]", REG_EXTENDED) == 0) {
                if (regcomp(&scanner->copied, "^([0-9]+) bytes .*copied, ([0-9.e+-]+) s,", REG_EXTENDED) == 0) {
                        if (regcomp(&scanner->memtier, "^(Sets|Gets|Waits|Totals) +[0-9.]", REG_EXTENDED) == 0) {
                                if (regcomp(&scanner->records, "^[0-9]+\\+[0-9]+ records out", REG_EXTENDED | REG_NOSUB) == 0)
                                        return 0;
                                regfree(&scanner->memtier);
                        }
                        regfree(&scanner->copied);
                }
                regfree(&scanner->percentile);
        }
        for (size_t k = 0; k < i - (r != 0); k++)
                regfree(&scanner->regex[k]);
        return -ENOMEM;
}

static void release(struct scanner *scanner)
{
        for (size_t i = 0; i < PATTERNS; i++)
                regfree(&scanner->regex[i]);
        regfree(&scanner->percentile);
        regfree(&scanner->copied);
        regfree(&scanner->memtier);
        regfree(&scanner->records);
}

int results_scan(struct results *results, const char *bytes, size_t length, const struct result_own *own, size_t own_count)
{
        struct scanner *scanner = calloc(1, sizeof *scanner);
        char line[LINE];

        if (scanner == NULL || compile(scanner) < 0) {
                free(scanner);
                return -ENOMEM;
        }
        scanner->results = results;
        scanner->own = own;
        scanner->own_count = own_count;
        for (size_t at = 0; at < length && !scanner->failed; ) {
                size_t end = at, used;
                if (bytes[at] == '{' && results_fio_json(results, bytes + at, length - at, at, &used)) {
                        at += used;
                        continue;
                }
                while (end < length && bytes[end] != '\n' && bytes[end] != '\r')
                        end++;
                size_t n = end - at < sizeof line ? end - at : sizeof line - 1;
                for (size_t i = 0; i < n; i++) /* a NUL would hide the rest */
                        line[i] = bytes[at + i] != '\0' ? bytes[at + i] : ' ';
                line[n] = '\0';
                if (n > 0)
                        scan_line(scanner, line, at);
                at = end + 1;
        }
        int r = scanner->failed ? -ENOMEM : 0;
        release(scanner);
        free(scanner);
        return r;
}

/* ---- a user's rules, and combining --------------------------------------------------------------------------------------------------- */

int result_own_init(struct result_own *own, const char *text, char *why, size_t size)
{
        static const struct { const char *word; enum result_rule rule; } rules[] = {
                { "sum", RESULT_SUM }, { "mean", RESULT_MEAN }, { "max", RESULT_MAX }, { "range", RESULT_RANGE },
        };
        const char *colon = strstr(text, ": ");

        if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof own->name || colon[2] == '\0') {
                snprintf(why, size, "a result is NAME: REGEX, or NAME sum|mean|max|range: REGEX");
                return -EINVAL;
        }
        own->rule = RESULT_SUM;
        copy(own->name, sizeof own->name, text, (regoff_t)(colon - text));
        char *blank = strrchr(own->name, ' ');
        for (size_t i = 0; blank != NULL && blank != own->name && i < sizeof rules / sizeof *rules; i++)
                if (strcmp(blank + 1, rules[i].word) == 0) {
                        own->rule = rules[i].rule;
                        *blank = '\0';
                        break;
                }
        int r = regcomp(&own->regex, colon + 2, REG_EXTENDED);
        if (r != 0) {
                regerror(r, &own->regex, why, size);
                return -EINVAL;
        }
        if (own->regex.re_nsub == 0) {
                regfree(&own->regex);
                snprintf(why, size, "its regex has no group: put ( ) around the number");
                return -EINVAL;
        }
        return 0;
}

void result_own_fini(struct result_own *own)
{
        regfree(&own->regex);
}

static bool same(const struct result *a, const struct result *b)
{
        return strcmp(a->tool, b->tool) == 0 && strcmp(a->name, b->name) == 0 && strcmp(a->unit, b->unit) == 0;
}

bool results_again(const struct results *results, size_t from, size_t to, size_t index)
{
        for (size_t i = from; i < to && i < index; i++)
                if (same(&results->items[i], &results->items[index]))
                        return true;
        return false;
}

struct result_sum results_sum(const struct results *results, size_t from, size_t to, size_t index, bool concurrent)
{
        const struct result *first = &results->items[index];
        struct result_sum sum = { .first = first, .least = first->value, .largest = first->value };
        double total = 0;

        for (size_t i = from; i < to; i++) {
                const struct result *item = &results->items[i];
                if (!same(item, first))
                        continue;
                sum.count++;
                total += item->value;
                sum.least = item->value < sum.least ? item->value : sum.least;
                sum.largest = item->value > sum.largest ? item->value : sum.largest;
        }
        switch (first->rule) {
        case RESULT_SUM: sum.value = concurrent ? total : total / (double)sum.count; break;
        case RESULT_MEAN: sum.value = total / (double)sum.count; break;
        case RESULT_MAX: sum.value = sum.largest; break;
        case RESULT_RANGE: sum.value = sum.least < sum.largest ? NAN : sum.least; break;
        }
        return sum;
}

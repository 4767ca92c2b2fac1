/*
 * Results: found in what was printed, placed in phases, and combined over the commands of a phase.
 *
 * The recording's own output is placed by output.index, which says when each piece of it came; output made elsewhere by its time stamps or
 * marks. A result belongs to the phase in which its line ended, or to the one that ended shortly before, when no other had begun.
 *
 * Combined as results.h says. Whether commands ran at the same time: of the processes of the tool's name, as many as were seen to run at
 * once; else by when their results came. With `n` results of commands of which `k` ran at once, there were n / k waves, and a sum of rates
 * is that of one wave.
 */
#include "tui/report_make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LATE_SECONDS = 2, COMM_MAX = 15 };
#define TOGETHER 0.1           /* of the longest pause between two results: less apart, they came together */
#define LAST_SEEN_SECONDS 0.5  /* a process may print so long after it was seen last, or gone */

struct place {
        struct result result;
        double time;                  /* CLOCK_MONOTONIC seconds; NAN not known */
        int phase;
        uint32_t source;
        size_t order;                 /* as found: several stand on one line */
};

struct placing {
        struct report_maker *maker;
        struct place *places;
        size_t count;
};

/* ---- the recording's own output ------------------------------------------------------------------------------------------------- */

struct output {
        char *bytes;
        size_t length;
        uint64_t first;               /* offset of bytes[0] in the whole */
};

static uint64_t info_number(struct log *log, const char *key)
{
        size_t length = 0, n = strlen(key);
        const char *at = log_get_note(log, "output.info", &length), *end = at ? at + length : NULL;

        while (at && at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                line_end = line_end ? line_end : end;
                if ((size_t)(line_end - at) > n && memcmp(at, key, n) == 0 && at[n] == ' ') {
                        uint64_t value = 0;
                        for (at += n + 1; at < line_end && *at >= '0' && *at <= '9' && value < UINT64_MAX / 16; at++)
                                value = value * 10 + (uint64_t)(*at - '0');
                        return value;
                }
                at = line_end + 1;
        }
        return 0;
}

/* FILE.out holds all of it; but only if what the log itself keeps is its end, for the file may have been replaced. NULL: it is in *all;
 * else why not. */
static const char *whole_file(const char *path, const struct output *kept, struct output *all)
{
        char name[PATH_MAX];
        struct stat st;
        size_t got = 0;

        if ((size_t)snprintf(name, sizeof name, "%s.out", path) >= sizeof name)
                return strerror(ENAMETOOLONG);
        int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT ? "is not there" : "cannot be opened";
        bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
        if (regular && (uint64_t)st.st_size == kept->first + kept->length && st.st_size > 256 << 20) {
                close(fd);
                return "is larger than 256 MiB";
        }
        if (regular && (uint64_t)st.st_size == kept->first + kept->length) {
                all->bytes = malloc((size_t)st.st_size + 1);
                for (ssize_t n = 1; all->bytes && n > 0 && got < (size_t)st.st_size; got += n > 0 ? (size_t)n : 0)
                        n = read(fd, all->bytes + got, (size_t)st.st_size - got);
        }
        close(fd);
        all->length = got;
        if (all->bytes && got == kept->first + kept->length && memcmp(all->bytes + kept->first, kept->bytes, kept->length) == 0)
                return NULL;
        free(all->bytes);
        *all = (struct output){0};
        return "is not what this recording wrote";
}

static int own_output(struct report_maker *maker, const char *path, struct output *output)
{
        size_t length = 0;
        const char *note = log_get_note(maker->log, "output", &length);

        if (!note)
                return 0;
        struct output kept = {.bytes = malloc(length + 1), .length = length};
        if (!kept.bytes)
                return -ENOMEM;
        memcpy(kept.bytes, note, length);
        kept.first = info_number(maker->log, "note_offset");
        const char *why = kept.first > 0 ? whole_file(path, &kept, output) : NULL;
        if (kept.first > 0 && !why) {
                free(kept.bytes);
                return 0;
        }
        if (why)
                report_lines_add(&maker->report->warnings,
                                 "%.100s.out %s: of the output only the last 1 MiB, which the log keeps, was searched", path, why);
        *output = kept;
        return 0;
}

/* Where the line that holds this offset ends. */
static size_t line_end(const struct output *output, size_t at)
{
        while (at < output->length && output->bytes[at] != '\n' && output->bytes[at] != '\r')
                at++;
        return at;
}

/* output.index: the time of the last chunk that begins at or before; offsets ascend, so the walk goes on where it was. */
struct index {
        const char *at, *end;
        uint64_t mono, next_mono, next_offset;
        bool more;
};

static bool index_next(struct index *index)
{
        uint64_t numbers[2] = {0};

        index->more = false;
        for (size_t i = 0; i < 2; i++) {
                const char *start = index->at;
                for (; index->at < index->end && *index->at >= '0' && *index->at <= '9'; index->at++)
                        numbers[i] = numbers[i] * 10 + (uint64_t)(*index->at - '0');
                if (index->at == start || index->at == index->end || *index->at++ != ' ')
                        return false;
        }
        while (index->at < index->end && *index->at++ != '\n')
                ;
        index->next_mono = numbers[0];
        index->next_offset = numbers[1];
        return index->more = true;
}

static double index_time(struct index *index, uint64_t offset)
{
        while (index->more && index->next_offset <= offset) {
                index->mono = index->next_mono;
                index_next(index);
        }
        return index->mono ? (double)index->mono * 1e-9 : NAN;
}

/* ---- placing -------------------------------------------------------------------------------------------------------------------- */

/* The phase at that time of one clock; from and to are picked by `real`. A part that was cut out by --from and --to has nothing that
 * came later. */
static int phase_at(const struct report_maker *maker, double time, bool real)
{
        const struct report *report = maker->report;
        double late = maker->options->from || maker->options->to ? 0 : LATE_SECONDS;
        int last = -1;
        double ended = 0;

        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_span *span = &report->phases[i].full;
                double from = (double)(real ? span->from_real_ns : span->from_mono_ns) * 1e-9,
                        to = (double)(real ? span->to_real_ns : span->to_mono_ns) * 1e-9;
                if (time >= from && time < to)
                        return (int)i;
                if (time >= to && to >= ended) {
                        ended = to;
                        last = (int)i;
                }
        }
        return last >= 0 && time - ended <= late ? last : -1;
}

static int keep(struct placing *placing, const struct results *found, uint32_t source)
{
        struct place *grown = reallocarray(placing->places, placing->count + found->count + 1, sizeof *grown);

        if (!grown)
                return -ENOMEM;
        placing->places = grown;
        for (size_t i = 0; i < found->count; i++, placing->count++)
                placing->places[placing->count] = (struct place){.result = found->items[i], .time = NAN, .phase = -1, .source = source,
                        .order = placing->count};
        return 0;
}

static struct report_source *add_source(struct report *report)
{
        struct report_source *grown = reallocarray(report->sources, report->source_count + 1, sizeof *grown);

        if (!grown)
                return NULL;
        report->sources = grown;
        grown[report->source_count] = (struct report_source){.offset_spread = NAN};
        return &grown[report->source_count++];
}

/* "Run status group 0 (all jobs):", then a line a direction with "run=8001-8003msec". Groups of one fio run one after another; a group 0
 * begins another fio, and of those the longest counts. */
struct fio_time {
        double group, sum;            /* ms */
        int phase;
};

static void fio_time_end(struct report *report, struct fio_time *time, bool another)
{
        time->sum += time->group;
        time->group = 0;
        if (another && time->phase >= 0 && time->sum > 0)
                report->phases[time->phase].tool_seconds = fmax(report->phases[time->phase].tool_seconds, time->sum / 1e3);
        if (another)
                time->sum = 0;
}

static void fio_line(struct placing *placing, const struct output *output, size_t at, size_t end, struct index *index,
                     struct fio_time *time)
{
        static const char group[] = "Run status group ", run[] = "run=";
        const char *line = output->bytes + at;
        size_t length = end - at;

        if (length > sizeof group && memcmp(line, group, sizeof group - 1) == 0) {
                bool first = line[sizeof group - 1] == '0';
                fio_time_end(placing->maker->report, time, first);
                if (first) {
                        double when = index_time(index, output->first + end);
                        time->phase = isnan(when) ? -1 : phase_at(placing->maker, when, false);
                }
                return;
        }
        const char *found = length > sizeof run ? memmem(line, length, run, sizeof run - 1) : NULL;
        const char *dash = found ? memchr(found, '-', (size_t)(line + length - found)) : NULL;
        double ms = 0;
        for (const char *c = dash ? dash + 1 : NULL; c && c < line + length && *c >= '0' && *c <= '9' && ms < 1e12; c++)
                ms = ms * 10 + (*c - '0');
        time->group = fmax(time->group, ms);
}

static void fio_times(struct placing *placing, const struct output *output, struct index index)
{
        struct fio_time time = {.phase = -1};

        for (size_t at = 0; at < output->length; ) {
                size_t end = line_end(output, at);
                fio_line(placing, output, at, end, &index, &time);
                at = end + 1;
        }
        fio_time_end(placing->maker->report, &time, true);
}

static int place_own(struct placing *placing, const char *path)
{
        struct report_maker *maker = placing->maker;
        struct output output = {0};
        struct results found = {0};
        size_t first = placing->count, length = 0;
        int r = own_output(maker, path, &output);

        if (r < 0 || !output.bytes)
                return r;
        struct report_source *source = add_source(maker->report);
        r = source ? results_scan(&found, output.bytes, output.length, maker->options->own, maker->options->own_count) : -ENOMEM;
        if (r == 0)
                r = keep(placing, &found, (uint32_t)(maker->report->source_count - 1));
        if (r == 0) {
                struct index index = {.at = log_get_note(maker->log, "output.index", &length)};
                index.end = index.at ? index.at + length : NULL;
                index_next(&index);
                fio_times(placing, &output, index);
                *source = (struct report_source){.own = true, .offset_spread = NAN, .found = found.count, .bytes = output.length};
                snprintf(source->path, sizeof source->path, "%.250s.out", path);
                for (size_t i = first; i < placing->count; i++) {
                        struct place *place = &placing->places[i];
                        place->time = index_time(&index, output.first + line_end(&output, place->result.offset));
                        place->phase = isnan(place->time) ? -1 : phase_at(maker, place->time, false);
                        source->placed += place->phase >= 0;
                }
        }
        results_fini(&found);
        free(output.bytes);
        return r;
}

/* FILE, or FILE@HOST. */
static void source_name(struct report_source *source, const char *word)
{
        const char *at = strrchr(word, '@');

        if (access(word, F_OK) == 0 || !at || at == word || at[1] == '\0' || strchr(at, '/'))
                at = word + strlen(word);
        else
                snprintf(source->host, sizeof source->host, "%s", at + 1);
        snprintf(source->path, sizeof source->path, "%.*s", (int)(at - word), word);
}

static void place_stamped(const struct report_maker *maker, const struct report_source *source, const struct report_joined *joined,
                          struct place *place)
{
        const struct report_stamp *stamp = report_join_at(joined, place->result.offset);
        double real = stamp ? stamp->time + source->offset : NAN;

        if (!stamp)
                return;
        place->phase = source->by_marks ? (stamp->phase >= 0 ? stamp->phase : -1) : isnan(real) ? -1 : phase_at(maker, real, true);
        if (place->phase >= 0 && !isnan(real)) {
                const struct report_span *span = &maker->report->phases[place->phase].full;
                place->time = real - (double)span->from_real_ns * 1e-9 + (double)span->from_mono_ns * 1e-9;
        }
}

/* No time and no mark in it at all, and one phase: there is nowhere else to put it. */
static void place_in_only(const struct report_maker *maker, struct report_source *source, const struct report_joined *joined,
                          struct place *places, size_t count)
{
        struct report *report = maker->report;
        int only = -1;

        for (size_t i = 0; i < report->phase_count; i++)
                if (!report->phases[i].lead_in) {
                        if (only >= 0)
                                return;
                        only = (int)i;
                }
        for (size_t i = 0; i < joined->stamp_count; i++)
                if (!isnan(joined->stamps[i].time))
                        return;
        if (only < 0 || source->by_marks || count == 0)
                return;
        for (size_t i = 0; i < count; i++)
                places[i].phase = only;
        source->placed = count;
        report_lines_add(&report->warnings, "%.150s: no times and no marks in it: its results are taken as those of the only phase",
                         source->path);
}

static void tell_source(struct report *report, const struct report_source *source)
{
        if (source->found == 0)
                report_lines_add(&report->warnings, "%.150s: no results in it", source->path);
        else if (source->placed < source->found)
                report_lines_add(&report->warnings, "%.150s: %zu of %zu results are in no phase", source->path,
                                 source->found - source->placed, source->found);
        if (!source->own && !source->by_marks && !source->offset_known && source->placed > 0)
                report_lines_add(&report->warnings, "%.150s: its clock's offset is not known, 0 was assumed (--offset, or marks in it)",
                                 source->path);
}

static int place_joined(struct placing *placing, const char *word)
{
        struct report_maker *maker = placing->maker;
        struct report_joined joined = {0};
        struct results found = {0};
        size_t first = placing->count;
        struct report_source *source = add_source(maker->report);

        if (!source)
                return -ENOMEM;
        source->offset_given = source->offset_known = maker->options->offset_given;
        source->offset = maker->options->offset;
        source_name(source, word);
        int r = report_join_read(maker, source, &joined);
        if (r == 0)
                r = results_scan(&found, joined.text, joined.length, maker->options->own, maker->options->own_count);
        if (r == 0)
                r = keep(placing, &found, (uint32_t)(maker->report->source_count - 1));
        if (r == 0) {
                source->found = found.count;
                for (size_t i = first; i < placing->count; i++) {
                        place_stamped(maker, source, &joined, &placing->places[i]);
                        source->placed += placing->places[i].phase >= 0;
                }
                bool timed = source->placed > 0;
                place_in_only(maker, source, &joined, placing->places + first, placing->count - first);
                source->offset_known |= !timed && source->placed > 0; /* no clock of its had a say */
                tell_source(maker->report, source);
        }
        results_fini(&found);
        report_join_free(&joined);
        return r;
}

/* ---- how many ran at once ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
        double a = *(const double *)left, b = *(const double *)right;

        return a < b ? -1 : a > b;
}

static bool is_tool(const struct report_phase *phase, const struct state_row *row, const char *tool)
{
        size_t length = 0, most = strlen(tool);
        const char *name = state_text(phase->whole, row, PROCESS_COMM, &length);

        most = most < COMM_MAX ? most : COMM_MAX;
        return name && length == most && memcmp(name, tool, most) == 0;
}

/* A process of the tool whose parent is not one: fio's jobs are its children. */
static bool is_first(const struct report_phase *phase, const struct state_row *row, const char *tool)
{
        uint64_t parent;

        if (!is_tool(phase, row, tool))
                return false;
        for (size_t i = 0; state_now(row, PROCESS_PARENT, &parent) && i < state_count(phase->whole, SCOPE_PROCESS); i++) {
                const struct state_row *other = state_at(phase->whole, SCOPE_PROCESS, i);
                if (other->key.a == parent && is_tool(phase, other, tool))
                        return false;
        }
        return true;
}

/* Starts, and ends as far as they were seen, of the tool's processes in the phase that began before `until`, in CLOCK_MONOTONIC seconds. */
static size_t lives(const struct report_phase *phase, const char *tool, double until, double *starts, double *ends, size_t most)
{
        struct state_info info = state_info(phase->whole);
        double shift = ((double)info.mono_ns - (double)info.boot_ns) * 1e-9;
        size_t count = 0;

        for (size_t i = 0; i < state_count(phase->whole, SCOPE_PROCESS) && count < most; i++) {
                const struct state_row *row = state_at(phase->whole, SCOPE_PROCESS, i);
                uint64_t start;
                if (!is_first(phase, row, tool) || !state_now(row, PROCESS_START, &start))
                        continue;
                starts[count] = (double)start * 1e-9 + shift;
                if (starts[count] >= until)
                        continue;
                ends[count++] = row->gone ? (double)row->now_ns * 1e-9 : INFINITY;
        }
        return count;
}

/* The most that ran at the same time: an end at the moment of a start is before it. */
static size_t most_at_once(double *starts, double *ends, size_t count)
{
        size_t most = 0, ended = 0;

        qsort(starts, count, sizeof *starts, by_value);
        qsort(ends, count, sizeof *ends, by_value);
        for (size_t i = 0; i < count; i++) {
                while (ended < count && ends[ended] <= starts[i])
                        ended++;
                most = i + 1 - ended > most ? i + 1 - ended : most;
        }
        return most;
}

/* Results of n commands that ran together come together; of others the first one comes after an n-th of the time. Which of the two is
 * nearer? Of those that did not all run together, who came at the same moment ran at the same time. */
static unsigned waves_by_arrival(const struct report_phase *phase, const double *arrivals, size_t count)
{
        double start = (double)phase->full.from_mono_ns * 1e-9, first = arrivals[0] - start, last = arrivals[count - 1] - start;
        double longest = first;
        unsigned waves = 1;

        if (first >= (1 + 1 / (double)count) / 2 * last)
                return 1;
        for (size_t i = 1; i < count; i++)
                longest = fmax(longest, arrivals[i] - arrivals[i - 1]);
        for (size_t i = 1; i < count; i++)
                waves += arrivals[i] - arrivals[i - 1] >= longest * TOGETHER;
        return waves;
}

/* Fewer runs than results: a run that forks prints one for each of its jobs. Waves are then those of the runs that results came from, each
 * in a run's time; 0: some result came in nobody's. */
static unsigned waves_of_runs(double *starts, double *ends, size_t runs, const double *arrivals, size_t count)
{
        size_t used = 0, covered = 0;

        for (size_t a = 0; a < count; a++) {
                bool in_one = false;
                for (size_t i = 0; i < runs && !in_one; i++)
                        in_one = arrivals[a] > starts[i] && arrivals[a] <= ends[i] + LAST_SEEN_SECONDS;
                covered += in_one;
        }
        if (runs == 0 || covered < count)
                return 0;
        for (size_t i = 0; i < runs; i++) {
                /* Its results end it, up to the next start: one that was seen last before them, or found gone after it. */
                double end = NAN;
                for (size_t a = 0; a < count; a++)
                        if (arrivals[a] > starts[i] && arrivals[a] <= ends[i] + LAST_SEEN_SECONDS)
                                end = isnan(end) || fabs(arrivals[a] - ends[i]) < fabs(end - ends[i]) ? arrivals[a] : end;
                if (isnan(end))
                        continue;
                starts[used] = starts[i];
                ends[used++] = end;
        }
        size_t at_once = most_at_once(starts, ends, used);
        return (unsigned)((used + at_once - 1) / (at_once ? at_once : 1));
}

static unsigned waves_of(const struct report_phase *phase, const struct place *places, const struct report_result *result, const char **how)
{
        size_t n = result->count, known = 0, at_once = 0, seen = 0;
        double *arrivals = calloc(n, sizeof *arrivals), *starts = calloc(4 * n + 64, sizeof *starts),
                *ends = calloc(4 * n + 64, sizeof *ends);
        const char *tool = result->sum.first->tool;
        unsigned waves = 1;

        *how = "assumed";
        if (arrivals && starts && ends) {
                for (size_t i = 0; i < n; i++)
                        if (!isnan(places[result->items[i]].time))
                                arrivals[known++] = places[result->items[i]].time;
                qsort(arrivals, known, sizeof *arrivals, by_value);
                if (tool[0] && phase->valid)
                        seen = lives(phase, tool, known == n ? arrivals[n - 1] : INFINITY, starts, ends, 4 * n + 64);
                if (seen >= n) {
                        /* A result comes when its command ends, which is known to the ms; a process was last seen up to a tick before. */
                        at_once = most_at_once(starts, seen == n && known == n ? arrivals : ends, seen);
                        waves = (unsigned)((n + at_once - 1) / (at_once ? at_once : 1));
                        *how = "processes";
                } else if (known == n && (waves = waves_of_runs(starts, ends, seen, arrivals, n)) > 0) {
                        *how = "processes";
                } else if (known == n) {
                        waves = waves_by_arrival(phase, arrivals, n);
                        *how = "arrival";
                }
        }
        free(arrivals);
        free(starts);
        free(ends);
        return waves ? waves : 1;
}

/* ---- combining ------------------------------------------------------------------------------------------------------------------ */

static bool same_result(const struct place *a, const struct place *b)
{
        return a->source == b->source && strcmp(a->result.tool, b->result.tool) == 0 && strcmp(a->result.name, b->result.name) == 0 &&
                strcmp(a->result.unit, b->result.unit) == 0;
}

static int by_phase(const void *left, const void *right)
{
        const struct place *a = left, *b = right;

        if (a->phase != b->phase)
                return a->phase < b->phase ? -1 : 1;
        if (a->source != b->source)
                return a->source < b->source ? -1 : 1;
        return a->order < b->order ? -1 : a->order > b->order;
}

static int combine_one(struct report *report, struct report_phase *phase, const struct place *places, size_t from, size_t to, size_t index)
{
        struct report_result *grown = reallocarray(phase->results, phase->result_count + 1, sizeof *grown);

        if (!grown)
                return -ENOMEM;
        phase->results = grown;
        struct report_result *result = &phase->results[phase->result_count];
        *result = (struct report_result){.waves = 1, .how = "", .source = places[index].source};
        result->items = calloc(to - from, sizeof *result->items);
        if (!result->items)
                return -ENOMEM;
        phase->result_count++;
        for (size_t i = from; i < to; i++)
                if (same_result(&places[i], &places[index]))
                        result->items[result->count++] = i;
        result->sum = results_sum(&report->results, from, to, index, true);
        if (result->count > 1) {
                result->waves = waves_of(phase, places, result, &result->how);
                if (result->sum.first->rule == RESULT_SUM)
                        result->sum.value /= result->waves;
        }
        return 0;
}

static void name_chief(struct report_phase *phase)
{
        for (size_t i = 0; i < phase->result_count; i++) {
                const struct result *first = phase->results[i].sum.first;
                if (phase->primary == SIZE_MAX && first->rule == RESULT_SUM && isfinite(phase->results[i].sum.value))
                        phase->primary = i;
                if (phase->latency == SIZE_MAX && first->rule == RESULT_RANGE && strcmp(first->unit, "ms") == 0 &&
                    !strstr(first->name, " min"))
                        phase->latency = i;
        }
        for (size_t i = 0; i < phase->result_count; i++) { /* a user's rule says what matters */
                const struct result *first = phase->results[i].sum.first;
                if (first->tool[0] == '\0' && first->rule != RESULT_RANGE) {
                        phase->primary = i;
                        break;
                }
        }
        if (phase->primary != SIZE_MAX && phase->load > 0)
                phase->per_core = phase->results[phase->primary].sum.value / (phase->load / 100);
}

/* The places of one source are one range: the sum goes over it. */
static int combine(struct report *report, const struct placing *placing)
{
        for (size_t from = 0, to; from < placing->count; from = to) {
                const struct place *first = &placing->places[from];
                for (to = from; to < placing->count && placing->places[to].phase == first->phase &&
                     placing->places[to].source == first->source; )
                        to++;
                for (size_t i = from; first->phase >= 0 && i < to; i++)
                        if (!results_again(&report->results, from, to, i)) {
                                int r = combine_one(report, &report->phases[first->phase], placing->places, from, to, i);
                                if (r < 0)
                                        return r;
                        }
        }
        return 0;
}

/* From the phase before in the same round: of a name's second coming, that is the one recorded just before it. */
static void growths(struct report *report)
{
        for (size_t i = 1; i < report->phase_count; i++) {
                struct report_phase *phase = &report->phases[i], *before = &report->phases[i - 1];
                if (phase->primary == SIZE_MAX || before->primary == SIZE_MAX || phase->round != before->round || before->lead_in)
                        continue;
                const struct result_sum *now = &phase->results[phase->primary].sum, *then = &before->results[before->primary].sum;
                if (strcmp(now->first->name, then->first->name) == 0 && strcmp(now->first->unit, then->first->unit) == 0 && then->value > 0)
                        phase->growth = (now->value / then->value - 1) * 100;
        }
}

int report_results_make(struct report_maker *maker, const char *path)
{
        struct placing placing = {.maker = maker};
        struct report *report = maker->report;
        int r = place_own(&placing, path);

        if (r == 0 && report->source_count > 0 && report->sources[0].placed < report->sources[0].found && !maker->options->phase &&
            !maker->options->from && !maker->options->to)
                tell_source(report, &report->sources[0]);
        for (size_t i = 0; r == 0 && i < maker->options->join_count; i++) {
                r = place_joined(&placing, maker->options->join[i]);
                if (r < 0)
                        report_lines_add(&report->warnings, "%.150s: %s", report->source_count
                                         ? report->sources[report->source_count - 1].path : maker->options->join[i], strerror(-r));
                if (r < 0 && r != -ENOMEM)
                        r = 0; /* the report is there all the same */
        }
        if (placing.count > 1)
                qsort(placing.places, placing.count, sizeof *placing.places, by_phase);
        report->result_source = calloc(placing.count + 1, sizeof *report->result_source);
        if (!report->result_source)
                r = r < 0 ? r : -ENOMEM;
        for (size_t i = 0; r == 0 && i < placing.count; i++) {
                report->result_source[i] = placing.places[i].source;
                if (!results_add(&report->results, &placing.places[i].result))
                        r = -ENOMEM;
        }
        if (r == 0)
                r = combine(report, &placing);
        for (size_t i = 0; r == 0 && i < report->phase_count; i++)
                name_chief(&report->phases[i]);
        growths(report);
        free(placing.places);
        return r;
}

/*
 * A log becomes a report: what it is of, its phases, and then each of them.
 *
 * Phases are what marks say. A recorded command without marks is one phase, its whole run; a log without either is one phase from end to
 * end. Runs and marks are joined by their frames, so a phase of --phases or --repeat knows its command's exit status and times.
 */
#include "tui/report_make.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tui/attach_log.h"
#include "tui/log_files.h"
#include "tui/span.h"

/* ---- lines ---------------------------------------------------------------------------------------------------------------------- */

int report_lines_add(struct report_lines *lines, const char *format, ...)
{
        char (*grown)[REPORT_LINE] = reallocarray(lines->lines, lines->count + 1, sizeof *grown);
        va_list arguments;

        if (!grown)
                return -ENOMEM;
        lines->lines = grown;
        va_start(arguments, format);
        vsnprintf(lines->lines[lines->count++], REPORT_LINE, format, arguments);
        va_end(arguments);
        return 0;
}

void report_lines_free(struct report_lines *lines)
{
        free(lines->lines);
        *lines = (struct report_lines){0};
}

/* ---- spread --------------------------------------------------------------------------------------------------------------------- */

static int by_size(const void *left, const void *right)
{
        float a = *(const float *)left, b = *(const float *)right;

        return a < b ? -1 : a > b;
}

/* Nearest rank: the smallest value that at least p of all are not above. */
static double ranked(const float *sorted, size_t count, double p)
{
        size_t place = (size_t)ceil(p * (double)count);

        return (double)sorted[place > 0 ? place - 1 : 0];
}

struct report_spread report_spread_of(const float *values, size_t count, size_t stride)
{
        struct report_spread spread = {.median = NAN, .p95 = NAN, .p99 = NAN, .max = NAN};
        float *sorted = count ? malloc(count * sizeof *sorted) : NULL;

        for (size_t i = 0; sorted && i < count; i++)
                if (!isnan(values[i * stride]))
                        sorted[spread.count++] = values[i * stride];
        if (spread.count > 0) {
                qsort(sorted, spread.count, sizeof *sorted, by_size);
                spread.median = ranked(sorted, spread.count, 0.5);
                spread.p95 = ranked(sorted, spread.count, 0.95);
                spread.p99 = ranked(sorted, spread.count, 0.99);
                spread.max = (double)sorted[spread.count - 1];
        }
        free(sorted);
        return spread;
}

/* ---- notes ---------------------------------------------------------------------------------------------------------------------- */

/* A note's bytes as one C string: NULs become blanks, blanks at the end go. */
static void note_text(struct log *log, const char *name, char *text, size_t size)
{
        size_t length = 0;
        const char *bytes = log_get_note(log, name, &length);

        length = bytes ? (length < size ? length : size - 1) : 0;
        for (size_t i = 0; i < length; i++)
                text[i] = bytes[i] ? bytes[i] : ' ';
        while (length > 0 && strchr(" \n", text[length - 1]))
                length--;
        text[length] = '\0';
}

/* Digits as a number; false when there are none or too many. */
static bool take_number(const char **at, const char *end, uint64_t *value)
{
        const char *start = *at;

        *value = 0;
        for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 19; ++*at)
                *value = *value * 10 + (uint64_t)(**at - '0');
        return *at > start && (*at == end || **at == ' ' || **at == '\n');
}

/* "rule TEXT", then PID START lines. */
static int read_members(struct log *log, const char *name, struct member_set *set, char *rule, size_t size, bool *known)
{
        size_t length = 0;
        const char *at = log_get_note(log, name, &length), *end = at ? at + length : NULL;

        *known = at != NULL;
        while (at && at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                struct key key;
                if (!line_end)
                        line_end = end;
                if (line_end - at > 5 && memcmp(at, "rule ", 5) == 0) {
                        if (rule)
                                snprintf(rule, size, "%.*s", (int)(line_end - at - 5 < 4096 ? line_end - at - 5 : 4096), at + 5);
                } else if (take_number(&at, line_end, &key.a) && at < line_end && (at++, take_number(&at, line_end, &key.b))) {
                        if (member_add(set, key) < 0)
                                return -ENOMEM;
                }
                at = line_end + 1;
        }
        return 0;
}

static void read_cost(struct report *report, struct log *log)
{
        static const char *const own[] = {"watop_cpu_ns", "relay_cpu_ns", "watopd_cpu_ns"};
        size_t length = 0;
        const char *at = log_get_note(log, "cost", &length), *end = at ? at + length : NULL;

        report->own_seconds = report->wall_seconds = NAN;
        while (at && at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at)), *blank = memchr(at, ' ', (size_t)(end - at));
                uint64_t value;
                line_end = line_end ? line_end : end;
                if (blank && blank < line_end) {
                        const char *number = blank + 1;
                        if (take_number(&number, line_end, &value)) {
                                for (size_t i = 0; i < sizeof own / sizeof *own; i++)
                                        if ((size_t)(blank - at) == strlen(own[i]) && memcmp(at, own[i], strlen(own[i])) == 0)
                                                report->own_seconds = (isnan(report->own_seconds) ? 0
                                                                       : report->own_seconds) + (double)value * 1e-9;
                                if (blank - at == 7 && memcmp(at, "wall_ns", 7) == 0)
                                        report->wall_seconds = (double)value * 1e-9;
                        }
                }
                at = line_end + 1;
        }
}

static int read_notes(struct report_maker *maker)
{
        struct report *report = maker->report;
        bool known;

        note_text(maker->log, "label", report->label, sizeof report->label);
        note_text(maker->log, "command", report->command, sizeof report->command);
        note_text(maker->log, "kind", report->kind, sizeof report->kind);
        note_text(maker->log, "watch", report->watch, sizeof report->watch);
        report->watches = report->watch[0] != '\0';
        read_cost(report, maker->log);
        int r = read_members(maker->log, "members", &maker->members, report->rule, sizeof report->rule, &maker->members_known);
        if (r == 0)
                r = read_members(maker->log, "watched", &maker->watched, NULL, 0, &known);
        if (r == 0)
                r = member_times_read(&maker->times, maker->log);
        if (strncmp(report->rule, "ancestry", 8) == 0)
                report_lines_add(&report->warnings, "who belongs to the command was found by ancestry: it may be incomplete");
        else if (strstr(report->rule, "may be incomplete"))
                report_lines_add(&report->warnings, "the command had more processes than a note of the log has room for: some count as"
                                 " others");
        if (r == 0 && report->watches && maker->watched.count == 0)
                report_lines_add(&report->warnings, "no process of --watch was seen");
        return r;
}

/* The name of a watched process, from the first phase that saw it; "" when none did. */
static void watched_name(const struct report_maker *maker, uint64_t pid, char *name, size_t size)
{
        const struct report *report = maker->report;

        name[0] = '\0';
        for (size_t p = 0; p < report->phase_count; p++) {
                const struct state *state = report->phases[p].whole;
                for (size_t i = 0; state && i < state_count(state, SCOPE_PROCESS); i++) {
                        const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                        if (row->key.a == pid && member_has(&maker->watched, row->key) &&
                            *state_text_copy(state, row, PROCESS_COMM, name, size) != '\0')
                                return;
                }
        }
}

/* A watched process with this name, of which the kernel keeps 15 bytes. */
static bool watch_seen(const struct report_maker *maker, const char *word)
{
        const struct report *report = maker->report;
        char name[64];

        for (size_t p = 0; p < report->phase_count; p++) {
                const struct state *state = report->phases[p].whole;
                for (size_t i = 0; state && i < state_count(state, SCOPE_PROCESS); i++) {
                        const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                        if (member_has(&maker->watched, row->key) &&
                            strncmp(state_text_copy(state, row, PROCESS_COMM, name, sizeof name), word, 15) == 0)
                                return true;
                }
        }
        return false;
}

/* The words of --watch in one line; a number as "NAME(NUMBER)": a PID says nothing any more. */
static void name_watches(struct report_maker *maker)
{
        char line[sizeof maker->report->watch] = "", words[sizeof line], name[64], *save = NULL;
        size_t length = 0;

        memcpy(words, maker->report->watch, sizeof words);
        bool several = strchr(words, '\n') != NULL; /* of a single word it is known without its name: one may change it */
        for (char *word = strtok_r(words, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
                bool number = word[strspn(word, "0123456789")] == '\0';
                name[0] = '\0';
                if (number)
                        watched_name(maker, strtoull(word, NULL, 10), name, sizeof name);
                if (several && maker->watched.count > 0 && !(number ? name[0] != '\0' : watch_seen(maker, word)))
                        report_lines_add(&maker->report->warnings, "--watch %.100s: no such process was seen", word);
                int n = name[0] ? snprintf(line + length, sizeof line - length, "%s%s(%s)", length ? " " : "", name, word)
                        : snprintf(line + length, sizeof line - length, "%s%s", length ? " " : "", word);
                if (n < 0 || length + (size_t)n >= sizeof line)
                        break;
                length += (size_t)n;
        }
        memcpy(maker->report->watch, line, sizeof line);
}

/* ---- what the log is of --------------------------------------------------------------------------------------------------------- */

static void read_facts(struct report *report, const struct state *state)
{
        const struct { const char *name; char *text; size_t size; } wanted[] = {
                {"host", report->host, sizeof report->host}, {"kernel", report->kernel, sizeof report->kernel},
                {"cpu.model", report->model, sizeof report->model},
        };
        char name[64];

        for (size_t i = 0; i < state_count(state, SCOPE_FACT); i++) {
                const struct state_row *row = state_at(state, SCOPE_FACT, i);
                state_text_copy(state, row, FACT_NAME, name, sizeof name);
                for (size_t w = 0; !row->gone && w < sizeof wanted / sizeof *wanted; w++)
                        if (strcmp(name, wanted[w].name) == 0)
                                state_text_copy(state, row, FACT_VALUE, wanted[w].text, wanted[w].size);
        }
}

static void read_info(struct report *report, const struct log_info *info)
{
        report->first_real_ns = info->first_real_ns;
        report->last_real_ns = info->last_real_ns;
        report->frames = info->frames;
        report->tick_ns = info->tick_ns;
        report->log_bytes = info->bytes;
        report->finished = info->finished;
        snprintf(report->version, sizeof report->version, "%s", info->version);
        if (info->growing)
                report_lines_add(&report->warnings, "the log is still being written: this is the report up to now");
        else if (!info->finished)
                report_lines_add(&report->warnings, "the recorder did not end the log: its last phase may be incomplete");
        if (info->damaged_bytes > 0)
                report_lines_add(&report->warnings, "the log is damaged: %" PRIu64 " bytes of it could not be read", info->damaged_bytes);
}

/* ---- phases --------------------------------------------------------------------------------------------------------------------- */

static struct report_phase *add_phase(struct report *report, const char *name, unsigned round, uint64_t from, uint64_t to)
{
        struct report_phase *grown = reallocarray(report->phases, report->phase_count + 1, sizeof *grown);

        if (!grown)
                return NULL;
        report->phases = grown;
        struct report_phase *phase = &report->phases[report->phase_count++];
        *phase = (struct report_phase){.round = round, .primary = SIZE_MAX, .latency = SIZE_MAX, .per_core = NAN, .growth = NAN,
                .load = NAN, .own = NAN,
                .others_least = NAN, .others_most = NAN, .tool_seconds = NAN, .command_most = NAN, .rest_least = NAN};
        snprintf(phase->name, sizeof phase->name, "%s", name);
        if (round > 1)
                snprintf(phase->title, sizeof phase->title, "%s#%u", name, round);
        else
                snprintf(phase->title, sizeof phase->title, "%s", name);
        phase->full.from_sequence = from;
        phase->full.to_sequence = to;
        report->rounds = round > report->rounds ? round : report->rounds;
        return phase;
}

struct run {
        uint64_t from, to, round, status, start_ns, end_ns, user_ns, system_ns;
        char name[PHASE_NAME + 1];
};

/* One line of `runs`; false when it is none. */
static bool read_run(const char *at, const char *end, struct run *run)
{
        uint64_t *const numbers[] = {&run->from, &run->to, &run->round, &run->status, &run->start_ns, &run->end_ns, &run->user_ns,
                &run->system_ns};

        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                if (!take_number(&at, end, numbers[i]) || at == end)
                        return false;
                at++;
        }
        snprintf(run->name, sizeof run->name, "%.*s", (int)(end - at < PHASE_NAME ? end - at : PHASE_NAME), at);
        return true;
}

/* What a command does before its first mark, if so short, is the way to it and no phase: a row without a result in every table. */
#define LEAD_IN_SECONDS 1

static void take_run(struct report_phase *phase, const struct run *run)
{
        phase->ran = true;
        phase->status = (int)run->status;
        phase->start_mono_ns = run->start_ns;
        phase->end_mono_ns = run->end_ns;
        phase->user_ns = run->user_ns;
        phase->system_ns = run->system_ns;
}

/* Of a command that sets marks: what it did before the first one, kept only when a result is in it. In its place, so that phases stay in
 * the order of time. */
static int add_lead_in(struct report *report, const struct run *run)
{
        uint64_t first_mark = report->phases[0].full.from_sequence;

        if (run->round != 1 || first_mark <= run->from || first_mark > run->to)
                return 0;
        for (size_t i = 0; i < report->phase_count; i++)
                if (strcmp(report->phases[i].name, run->name) == 0)
                        return 0;
        struct report_phase *added = add_phase(report, run->name, 1, run->from, first_mark);
        if (!added)
                return -ENOMEM;
        added->lead_in = true;
        struct report_phase phase = *added;
        memmove(report->phases + 1, report->phases, (report->phase_count - 1) * sizeof *report->phases);
        report->phases[0] = phase;
        return 0;
}

/* Runs that are a phase's, and, when there are no marks, phases of their own. A command that sets marks is one when it is asked for. */
static int join_runs(struct report_maker *maker, bool marked)
{
        struct report *report = maker->report;
        size_t length = 0;
        const char *at = log_get_note(maker->log, "runs", &length), *end = at ? at + length : NULL;

        while (at && at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                struct run run = {0};
                line_end = line_end ? line_end : end;
                if (read_run(at, line_end, &run)) {
                        struct report_phase *phase = marked ? NULL : add_phase(report, run.name,
                                                                               (unsigned)(run.round < 1 << 20 ? run.round : 1), run.from,
                                                                                       run.to);
                        if (!marked && !phase)
                                return -ENOMEM;
                        for (size_t i = 0; marked && i < report->phase_count; i++)
                                if (report->phases[i].full.from_sequence == run.from)
                                        phase = &report->phases[i];
                        if (marked && !phase && maker->options->phase && strcmp(run.name, maker->options->phase) == 0 &&
                            !(phase = add_phase(report, run.name, (unsigned)(run.round < 1 << 20 ? run.round : 1), run.from, run.to)))
                                return -ENOMEM;
                        if (marked && !phase && !maker->options->phase && add_lead_in(report, &run) < 0)
                                return -ENOMEM;
                        if (phase)
                                take_run(phase, &run);
                        else if (run.status != 0)
                                report_lines_add(&report->warnings, "%s: its command ended with exit status %d", run.name, (int)run.status);
                        if (phase && marked)
                                phase->lead_in = run.to > phase->full.to_sequence && report_seconds(&phase->full) < LEAD_IN_SECONDS;
                }
                at = line_end + 1;
        }
        return 0;
}

static int marked_phases(struct report_maker *maker, const struct phases *phases)
{
        for (size_t i = 0; i < phases->count; i++) {
                const struct phase *p = &phases->phases[i];
                struct report_phase *phase = add_phase(maker->report, p->name, p->repeat, p->from_sequence, p->to_sequence);
                if (!phase)
                        return -ENOMEM;
                phase->open = p->open;
                phase->full = (struct report_span){p->from_sequence, p->to_sequence, p->from_mono_ns, p->to_mono_ns, p->from_real_ns,
                        p->to_real_ns};
        }
        return 0;
}

/* --from and --to: one phase of what lies between. Times become sequences while it is walked, so they are looked up here. */
static int chosen_part(struct report_maker *maker, const struct log_info *info, const struct phases *phases, char *why, size_t size)
{
        const struct report_options *o = maker->options;
        const struct span_words words = {.from = o->from, .to = o->to};
        const struct frame_head *frame;
        struct span span;
        uint64_t first = 0, last = 0;
        int r = span_find(info, phases, &words, &span, why, size);

        if (r < 0)
                return r;
        log_rewind(maker->log);
        while ((r = log_next(maker->log, &frame)) > 0) {
                if (r == LOG_DAMAGED || frame->sequence < span.from_sequence || frame->real_ns < span.from_real_ns)
                        continue;
                if (frame->sequence > span.to_sequence || frame->real_ns > span.to_real_ns)
                        break;
                first = first ? first : frame->sequence;
                last = frame->sequence;
        }
        if (r < 0)
                return r;
        if (last <= first) {
                snprintf(why, size, "there are no two samples between %.60s and %.60s", o->from ? o->from : "the start", o->to ? o->to
                         : "the end");
                return -ENODATA;
        }
        char name[PHASE_NAME + 1];
        snprintf(name, sizeof name, "%.80s to %.80s", o->from ? o->from : "start", o->to ? o->to : "end");
        return add_phase(maker->report, name, 1, first, last) ? 0 : -ENOMEM;
}

/* The others stay until results are placed: theirs must not fall into a neighbour. */
static int choose_phase(struct report *report, const char *name, char *why, size_t size)
{
        bool any = false;
        int length = snprintf(why, size, "no phase is called '%.60s'", name);

        for (size_t i = 0; i < report->phase_count; i++) {
                struct report_phase *phase = &report->phases[i];
                if (length > 0 && (size_t)length < size)
                        length += snprintf(why + length, size - (size_t)length, "%s%.60s", i ? ", " : "; there are ", phase->title);
                phase->left_out = strcmp(phase->name, name) != 0 && strcmp(phase->title, name) != 0;
                phase->lead_in = false;
                any = any || !phase->left_out;
        }
        return any ? 0 : -EINVAL;
}

static void drop_left_out(struct report *report)
{
        size_t kept = 0, phases = 0;

        for (size_t i = 0; i < report->phase_count; i++)
                phases += !report->phases[i].left_out && !report->phases[i].lead_in;
        for (size_t i = 0; i < report->phase_count; i++) {
                if (report->phases[i].left_out || (report->phases[i].lead_in && phases > 0 && report->phases[i].result_count == 0))
                        report_phase_free(&report->phases[i]);
                else
                        report->phases[kept++] = report->phases[i];
        }
        report->phase_count = kept;
}

static int find_phases(struct report_maker *maker, const struct log_info *info, char *why, size_t size)
{
        struct report *report = maker->report;
        struct phases phases = {0};
        int r = phases_build(maker->log, &phases);

        if (r == 0 && (maker->options->from || maker->options->to)) {
                r = chosen_part(maker, info, &phases, why, size);
        } else if (r == 0) {
                r = marked_phases(maker, &phases);
                if (r == 0)
                        r = join_runs(maker, phases.count > 0);
                if (r == 0 && report->phase_count == 0 && !add_phase(report, "", 1, info->first_sequence, info->last_sequence))
                        r = -ENOMEM;
                if (r == 0 && maker->options->phase)
                        r = choose_phase(report, maker->options->phase, why, size);
        }
        phases_free(&phases);
        return r;
}

static int make_phases(struct report_maker *maker)
{
        struct report *report = maker->report;

        for (size_t i = 0; i < report->phase_count; i++) {
                struct report_phase *phase = &report->phases[i];
                int r = phase->left_out ? 0 : report_phase_make(maker, phase);
                if (r < 0)
                        return r;
                if (phase->left_out)
                        continue;
                if (!phase->valid)
                        report_lines_add(&report->warnings, "%s: no two samples that belong together, so there are no numbers",
                                         phase->title[0] ? phase->title : "the log");
                else if (report->host[0] == '\0') {
                        read_facts(report, phase->whole);
                        report->cores = (unsigned)phase->core_count;
                }
                if (phase->ran && phase->status != 0)
                        report_lines_add(&report->warnings, "%s: its command ended with exit status %d", phase->title, phase->status);
                report->gaps.late += phase->gaps.late;
                report->gaps.missed += phase->gaps.missed;
                report->gaps.suspends += phase->gaps.suspends;
                report->gaps.reboots += phase->gaps.reboots;
                report->gaps.resets += phase->gaps.resets;
                report->gaps.damages += phase->gaps.damages;
        }
        return 0;
}

/* ---- all ------------------------------------------------------------------------------------------------------------------------ */

static int make(struct report_maker *maker, const char *path, char *why, size_t size)
{
        struct log_info info;
        int r = log_get_info(maker->log, &info);

        if (r == 0)
                read_info(maker->report, &info);
        if (r == 0)
                r = read_notes(maker);
        if (r == 0)
                r = find_phases(maker, &info, why, size);
        if (r == 0)
                r = make_phases(maker);
        if (r == 0)
                name_watches(maker);
        if (r == 0)
                r = report_results_make(maker, path);
        drop_left_out(maker->report);
        if (r == 0)
                report_heads_make(maker->report);
        return r;
}

int report_open(const char *path, const struct report_options *options, struct report **result, char *why, size_t size)
{
        struct report_maker maker = {.options = options, .report = calloc(1, sizeof *maker.report)};

        *result = NULL;
        why[0] = '\0';
        int r = maker.report ? log_files_open(path, &maker.log) : -ENOMEM;
        if (r < 0)
                snprintf(why, size, "%.150s: %s", path, attach_log_why(r));
        if (r == 0) {
                snprintf(maker.report->path, sizeof maker.report->path, "%s", path);
                r = make(&maker, path, why, size);
                log_close(maker.log);
        }
        free(maker.members.keys);
        free(maker.watched.keys);
        member_times_free(&maker.times);
        if (r < 0) {
                if (why[0] == '\0')
                        snprintf(why, size, "%.150s: %s", path, strerror(-r));
                report_close(maker.report);
                return r;
        }
        *result = maker.report;
        return 0;
}

void report_close(struct report *report)
{
        if (!report)
                return;
        for (size_t i = 0; i < report->phase_count; i++)
                report_phase_free(&report->phases[i]);
        free(report->phases);
        free(report->result_source);
        free(report->sources);
        results_fini(&report->results);
        report_lines_free(&report->warnings);
        free(report);
}

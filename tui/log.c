/*
 * `watop log FILE`: what a log holds. It is gone through once from start to end, so damage anywhere is found and told; the exit status is 1
 * only when nothing could be read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/attach_log.h"
#include "tui/clean.h"
#include "tui/log_files.h"
#include "tui/log_survey.h"
#include "tui/options.h"
#include "tui/utc.h"
#include "tui/verbs.h"

enum { LINE = 512, FACTS = 256 };

struct fact {
        const struct state_row *row;
        char name[64];
};

/* ---- texts ---------------------------------------------------------------------------------------------------------------------- */

static void local_time(char *text, size_t size, uint64_t real_ns)
{
        time_t seconds = (time_t)(real_ns / 1000000000);
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
                snprintf(text, size, "-");
}

/* "1h 2m 3s", "12.5 s" */
static void duration(char *text, size_t size, uint64_t ns)
{
        uint64_t seconds = ns / 1000000000;

        if (seconds < 60)
                snprintf(text, size, "%.1f s", (double)ns / 1e9);
        else if (seconds < 3600)
                snprintf(text, size, "%" PRIu64 "m %" PRIu64 "s", seconds / 60, seconds % 60);
        else
                snprintf(text, size, "%" PRIu64 "h %" PRIu64 "m %" PRIu64 "s", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

static const char *size_text(char *text, size_t size, uint64_t bytes)
{
        if (bytes < 10240)
                snprintf(text, size, "%" PRIu64 " bytes", bytes);
        else if (bytes < UINT64_C(10) << 20)
                snprintf(text, size, "%.1f KiB", (double)bytes / 1024);
        else
                snprintf(text, size, "%.1f MiB", (double)bytes / 1048576);
        return text;
}

/* A stranger's text for the screen. */
static const char *shown(char *out, size_t size, const char *text, size_t length)
{
        clean_screen(out, size, text, length, option_utf8(), size, NULL);
        return out;
}

static int by_fact_name(const void *left, const void *right)
{
        return strcmp(((const struct fact *)left)->name, ((const struct fact *)right)->name);
}

static size_t list_facts(const struct state *state, struct fact *facts)
{
        size_t count = 0;

        for (size_t i = 0; i < state_count(state, SCOPE_FACT) && count < FACTS; i++) {
                const struct state_row *row = state_at(state, SCOPE_FACT, i);
                if (row->gone)
                        continue;
                facts[count].row = row;
                state_text_copy(state, row, FACT_NAME, facts[count].name, sizeof facts[count].name);
                count++;
        }
        qsort(facts, count, sizeof *facts, by_fact_name);
        return count;
}

/* ---- text ----------------------------------------------------------------------------------------------------------------------- */

static void print_span(const struct survey *s, const char *path)
{
        const struct log_info *i = &s->info;
        char from[32], to[32], span[48], size[48], name[LINE], tick[48], version[LINE];
        uint64_t ns = i->last_mono_ns > i->first_mono_ns && s->reboots == 0 ? i->last_mono_ns - i->first_mono_ns
                : i->last_real_ns > i->first_real_ns ? i->last_real_ns - i->first_real_ns : 0;

        local_time(from, sizeof from, i->first_real_ns);
        local_time(to, sizeof to, i->last_real_ns);
        duration(span, sizeof span, ns);
        duration(tick, sizeof tick, i->tick_ns);
        printf("log       %s: %s, written by watop %s\n", shown(name, sizeof name, path, strlen(path)),
               i->growing ? "growing" : i->finished ? "finished" : "its writer did not end it",
               i->version[0] ? shown(version, sizeof version, i->version, strlen(i->version)) : "-");
        if (s->frames == 0) {
                printf("span      no frames\n");
        } else {
                printf("span      %s to %s: %s, sequence %" PRIu64 " to %" PRIu64 "\n", from, to, span, i->first_sequence,
                       i->last_sequence);
                printf("interval  %s: %" PRIu64 " frames, %" PRIu64 " of them out of step (marks)\n", tick, s->frames, s->extra);
        }
        printf("size      %s in %" PRIu64 " blocks", size_text(size, sizeof size, i->bytes), i->blocks);
        if (s->frames > 0)
                printf(", %" PRIu64 " bytes a frame", i->bytes / s->frames);
        putchar('\n');
}

static void print_machine(const struct survey *s)
{
        static const char *const wanted[] = {"host", "kernel", "cpu.model", "cpu.online", "hypervisor", "watopd"};
        static struct fact facts[FACTS];
        size_t count = list_facts(s->state, facts);
        const char *lead = "machine   ";

        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
                for (size_t i = 0; i < count; i++) {
                        char raw[200], value[LINE];
                        if (strcmp(facts[i].name, wanted[w]) != 0)
                                continue;
                        state_text_copy(s->state, facts[i].row, FACT_VALUE, raw, sizeof raw);
                        printf("%s%s %s\n", lead, wanted[w], shown(value, sizeof value, raw, strlen(raw)));
                        lead = "          ";
                }
}

static void print_phases(const struct survey *s)
{
        for (size_t i = 0; i < s->phases.count; i++) {
                const struct phase *p = &s->phases.phases[i];
                char name[LINE], from[32], span[48];
                local_time(from, sizeof from, p->from_real_ns);
                duration(span, sizeof span, p->to_mono_ns > p->from_mono_ns ? p->to_mono_ns - p->from_mono_ns : 0);
                printf("%s%s: %s, %s, sequence %" PRIu64 " to %" PRIu64 "%s\n", i ? "          " : "phases    ",
                       shown(name, sizeof name, p->name, strlen(p->name)), from, span, p->from_sequence, p->to_sequence,
                       p->open ? ", to the log's end" : "");
        }
        if (s->phases.count == 0)
                printf("phases    none (%zu marks)\n", s->phases.mark_count);
}

static void print_gaps(const struct survey *s)
{
        uint64_t all = s->late + s->suspends + s->reboots + s->resets + s->clock_steps;

        if (all == 0) {
                printf("gaps      none\n");
                return;
        }
        printf("gaps      %" PRIu64 " late (%" PRIu64 " ticks missed), %" PRIu64 " suspend, %" PRIu64 " reboot, %" PRIu64 " reset, %" PRIu64
               " clock set\n", s->late, s->missed, s->suspends, s->reboots, s->resets, s->clock_steps);
        for (size_t i = 0; i < s->gap_count && i < 10; i++) {
                char when[32];
                local_time(when, sizeof when, s->gaps[i].real_ns);
                printf("          %s  %s, %s%.1f s, sequence %" PRIu64 "\n", when, s->gaps[i].kind,
                       strcmp(s->gaps[i].kind, "clock") == 0 && s->gaps[i].seconds > 0 ? "+" : "", s->gaps[i].seconds, s->gaps[i].sequence);
        }
        if (all > 10)
                printf("          and %" PRIu64 " more (--format json)\n", all - 10);
}

static void print_damage(const struct survey *s)
{
        const struct log_info *i = &s->info;

        if (i->damaged_blocks == 0 && i->damaged_bytes == 0 && i->torn_bytes == 0) {
                printf("damage    none\n");
                return;
        }
        printf("damage   ");
        if (i->damaged_blocks > 0 || i->damaged_bytes > 0)
                printf(" %" PRIu64 " damaged blocks, %" PRIu64 " bytes skipped%s", i->damaged_blocks, i->damaged_bytes,
                       i->torn_bytes ? ";" : "");
        if (i->torn_bytes > 0)
                printf(" %" PRIu64 " bytes at the end were never completely written", i->torn_bytes);
        putchar('\n');
}

static uint64_t coded_sum(const struct survey *s)
{
        uint64_t sum = 0;

        for (int i = 0; i <= SCOPE_COUNT; i++)
                sum += s->scope_bytes[i];
        return sum;
}

/* Compression works on all scopes together, so a scope's bytes in the file are its share of what went into it. */
static uint64_t file_share(const struct survey *s, int scope)
{
        uint64_t sum = coded_sum(s);

        return sum ? (uint64_t)((double)s->scope_bytes[scope] / (double)sum * (double)s->info.bytes) : 0;
}

static void print_scopes(const struct survey *s)
{
        printf("scopes    bytes in the file (about), share, rows\n");
        for (int i = 0; i <= SCOPE_COUNT; i++) {
                if (s->scope_bytes[i] == 0)
                        continue;
                double share = 100.0 * (double)s->scope_bytes[i] / (double)coded_sum(s);
                printf("          %-9s %10" PRIu64 " %5.1f%% %9" PRIu64 "\n", i < SCOPE_COUNT ? scopes[i].name : "(other)",
                       file_share(s, i), share, s->scope_rows[i]);
        }
}

static void print_notes(struct log *log)
{
        const char *name, *lead = "notes     ";

        for (size_t i = 0; (name = log_note_name(log, i)); i++) {
                size_t length = 0;
                const char *bytes = log_get_note(log, name, &length);
                char raw[80], text[LINE];
                if (!bytes) {
                        printf("%s%s: cannot be read\n", lead, name);
                } else {
                        size_t n = length < 60 ? length : 60;
                        memcpy(raw, bytes, n);
                        printf("%s%s: %zu bytes: %s%s\n", lead, name, length, shown(text, sizeof text, raw, n), n < length ? "..." : "");
                }
                lead = "          ";
        }
}

static void print_text(struct log *log, const struct survey *s, const char *path)
{
        print_span(s, path);
        print_machine(s);
        print_phases(s);
        printf("tasks     %" PRIu64 " processes", s->processes);
        if (s->threads > 0)
                printf(", %" PRIu64 " threads", s->threads);
        printf(" seen\n");
        print_gaps(s);
        print_damage(s);
        print_notes(log);
        print_scopes(s);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------- */

static void json_text(const char *lead, const char *text, size_t length)
{
        char out[LINE * 4];

        clean_json(out, sizeof out, text, length);
        printf("%s\"%s\"", lead, out);
}

static void json_phases(const struct survey *s)
{
        char from[48], to[48];

        printf(",\"phases\":[");
        for (size_t i = 0; i < s->phases.count; i++) {
                const struct phase *p = &s->phases.phases[i];
                utc_time(from, sizeof from, p->from_real_ns);
                utc_time(to, sizeof to, p->to_real_ns);
                printf("%s{", i ? "," : "");
                json_text("\"name\":", p->name, strlen(p->name));
                printf(",\"round\":%u,\"seq\":[%" PRIu64 ",%" PRIu64 "],\"from\":\"%s\",\"to\":\"%s\"", p->repeat, p->from_sequence,
                       p->to_sequence, from, to);
                printf(",\"seconds\":%.9f,\"open\":%s}", (double)(int64_t)(p->to_mono_ns - p->from_mono_ns) / 1e9,
                       p->open ? "true" : "false");
        }
        printf("],\"marks\":[");
        for (size_t i = 0; i < s->phases.mark_count; i++) {
                const struct phase_mark *m = &s->phases.marks[i];
                utc_time(from, sizeof from, m->real_ns);
                printf("%s{", i ? "," : "");
                json_text("\"text\":", m->text, strlen(m->text));
                printf(",\"seq\":%" PRIu64 ",\"time\":\"%s\"}", m->sequence, from);
        }
        putchar(']');
}

static void json_gaps(const struct survey *s)
{
        char when[48];

        printf(",\"gaps\":{\"late\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"suspend\":%" PRIu64 ",\"reboot\":%" PRIu64
               ",\"reset\":%" PRIu64 ",\"clock\":%" PRIu64 ",\"list\":[", s->late, s->missed, s->suspends, s->reboots,
               s->resets, s->clock_steps);
        for (size_t i = 0; i < s->gap_count; i++) {
                utc_time(when, sizeof when, s->gaps[i].real_ns);
                printf("%s{\"kind\":\"%s\",\"seq\":%" PRIu64 ",\"time\":\"%s\",\"seconds\":%.9f,\"missed\":%" PRIu64 "}", i ? "," : "",
                       s->gaps[i].kind, s->gaps[i].sequence, when, s->gaps[i].seconds, s->gaps[i].missed);
        }
        printf("]}");
}

static void json_machine(const struct survey *s)
{
        static struct fact facts[FACTS];
        size_t count = list_facts(s->state, facts);

        printf(",\"machine\":{");
        for (size_t i = 0; i < count; i++) {
                size_t length = 0;
                const char *value = state_text(s->state, facts[i].row, FACT_VALUE, &length);
                json_text(i ? "," : "", facts[i].name, strlen(facts[i].name));
                json_text(":", value ? value : "", length < LINE / 2 ? length : LINE / 2);
        }
        putchar('}');
}

static void print_json(struct log *log, const struct survey *s, const char *path)
{
        const struct log_info *i = &s->info;
        char from[48], to[48];
        const char *name;

        utc_time(from, sizeof from, i->first_real_ns);
        utc_time(to, sizeof to, i->last_real_ns);
        json_text("{\"file\":", path, strlen(path));
        json_text(",\"version\":", i->version, strlen(i->version));
        printf(",\"finished\":%s,\"growing\":%s", i->finished ? "true" : "false", i->growing ? "true" : "false");
        if (s->frames > 0)
                printf(",\"from\":\"%s\",\"to\":\"%s\",\"seq\":[%" PRIu64 ",%" PRIu64 "],\"interval\":%.9f", from, to, i->first_sequence,
                       i->last_sequence, (double)i->tick_ns / 1e9);
        printf(",\"frames\":%" PRIu64 ",\"extra\":%" PRIu64 ",\"full\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64, s->frames,
               s->extra, s->full, i->blocks, i->bytes);
        printf(",\"processes\":%" PRIu64 ",\"threads\":%" PRIu64, s->processes, s->threads);
        printf(",\"damage\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"torn\":%" PRIu64 "}", i->damaged_blocks, i->damaged_bytes,
               i->torn_bytes);
        json_phases(s);
        json_gaps(s);
        json_machine(s);
        printf(",\"notes\":{");
        for (size_t n = 0; (name = log_note_name(log, n)); n++) {
                size_t length = 0;
                const void *bytes = log_get_note(log, name, &length);
                printf("%s\"%s\":", n ? "," : "", name);
                if (bytes)
                        printf("%zu", length);
                else
                        printf("null");
        }
        printf("},\"scopes\":{");
        for (int scope = 0, n = 0; scope <= SCOPE_COUNT; scope++)
                if (s->scope_bytes[scope] > 0)
                        printf("%s\"%s\":{\"bytes\":%" PRIu64 ",\"rows\":%" PRIu64 "}", n++ ? "," : "",
                               scope < SCOPE_COUNT ? scopes[scope].name : "other", file_share(s, scope), s->scope_rows[scope]);
        printf("}}\n");
}

/* ---- the command ---------------------------------------------------------------------------------------------------------------- */

static int take_path(void *own, const char *value)
{
        const char **path = own;

        if (*path)
                return 1;
        *path = value;
        return 0;
}

int log_main(int argc, char **argv)
{
        const char *path = NULL;
        const struct option_set set = {
                .verb = "log", .synopsis = "[OPTION...] FILE|FOLDER", .argument = take_path, .own = &path, .groups = OPTIONS_ANSWER,
                .text = "What a log holds: span, machine, interval, phases, tasks, gaps, damage, size.",
        };
        struct options options;
        struct survey survey;
        struct log *log = NULL;

        int r = options_parse(&set, argc, argv, &options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        if (!path || options.format == FORMAT_CSV) {
                options_error("log", path ? "--format takes text or json here" : "which log? watop log FILE");
                return 2;
        }
        r = log_files_open(path, &log);
        if (r == 0)
                r = survey_make(log, &survey);
        if (r < 0) {
                options_say("log", "%s: %s", path, attach_log_why(r));
                log_close(log);
                return 1;
        }
        if (options.format == FORMAT_JSON)
                print_json(log, &survey, path);
        else
                print_text(log, &survey, path);
        survey_free(&survey);
        log_close(log);
        return 0;
}

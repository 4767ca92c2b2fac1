/*
 * What a recording says while it runs, and the notes it leaves. The notes: record.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tui/clean.h"
#include "tui/options.h"
#include "tui/record_run.h"

enum { NOTE_MAX = 1 << 20, LINE = 56, SHOW_MS = 900, RUNS_EACH = 8192 };
#define SECOND UINT64_C(1000000000)

/* ---- said --------------------------------------------------------------------------------------------------------------------------- */

/* The terminal is the command's if it writes there. Then nothing of ours comes between. */
static bool may_show(const struct recorder *recorder)
{
        if (recorder->options->quiet || !isatty(STDERR_FILENO) || tcgetpgrp(STDERR_FILENO) != getpgrp())
                return false;
        if (recorder->relay.shared == NULL)
                return true;
        if (recorder->stdout_terminal)
                return false;
        for (int i = 0; i < recorder->relay.count; i++)
                if (recorder->relay.streams[i].place == STDERR_FILENO && atomic_load(&recorder->relay.shared->bytes[i]) > 0)
                        return false;
        return true;
}

static size_t load_text(const struct recorder *recorder, char *text, size_t size)
{
        struct value load = { .kind = VALUE_ABSENT };

        if (recorder->feed.state != NULL && state_info(recorder->feed.state).valid)
                load = metric_value_sum(recorder->feed.state, metric_column(VIEW_CPU, "load"), NULL, NULL);
        return value_format(text, size, &load, 1);
}

void tell_progress(struct recorder *recorder)
{
        char load[32], phase[64], line[256];
        uint64_t now = source_now_ns(), bytes = recorder->feed.log != NULL ? log_bytes(recorder->feed.log) : 0;

        if (now - recorder->shown_ns < SHOW_MS * UINT64_C(1000000) || !may_show(recorder))
                return;
        recorder->shown_ns = now;
        load_text(recorder, load, sizeof load);
        clean_screen(phase, sizeof phase, recorder->phase, strlen(recorder->phase), option_utf8(), 24, NULL);
        int length = snprintf(line, sizeof line, "\r\033[K%.0f s%s%s  load %s%%  %" PRIu64 " samples  %.1f KiB",
                (double)(now - recorder->start_ns) / 1e9, phase[0] ? "  phase " : "", phase, load, recorder->feed.frames,
                (double)bytes / 1024);
        recorder->shown = write(STDERR_FILENO, line, (size_t)length) > 0;
        if (recorder->relay.shared != NULL)
                atomic_store(&recorder->relay.shared->progress, recorder->shown);
}

void tell_erase(struct recorder *recorder)
{
        bool there = recorder->shown;

        if (recorder->relay.shared != NULL)
                there &= atomic_exchange(&recorder->relay.shared->progress, false);
        recorder->shown = false;
        if (there && write(STDERR_FILENO, "\r\033[K", 4) < 0)
                return;
}

static void say(struct recorder *recorder, const char *what, const char *why, const char *then)
{
        tell_erase(recorder);
        options_say("record", "%s: %s%s", what, why, then);
        /* While the command has the terminal it is raw: a line's end only goes down. */
        if (recorder->relay.shared != NULL && recorder->relay.whole && write(STDERR_FILENO, "\r", 1) < 0)
                return;
}

void tell_troubles(struct recorder *recorder)
{
        struct relay_shared *shared = recorder->relay.shared;
        const char *then = recorder->command.pid > 0 ? "; the command goes on" : "";

        if (recorder->feed.broken != 0 && !recorder->log_said) {
                recorder->log_said = true;
                say(recorder, "recording stopped", recorder->feed.why, then);
        }
        if (recorder->feed.left_out[0] != '\0') {
                say(recorder, recorder->feed.left_out, strerror(-recorder->feed.left_out_error), "; this note is not in the log");
                recorder->feed.left_out[0] = '\0';
        }
        int error = shared != NULL && recorder->out_fd >= 0 ? atomic_load(&shared->file_error) : 0;
        if (error != 0 && !recorder->out_said) {
                recorder->out_said = true;
                say(recorder, recorder->out_path, strerror(error), "; the rest of the output is not kept");
        }
        for (int i = 0; shared != NULL && i < recorder->relay.count && !recorder->place_said; i++) {
                error = atomic_load(&shared->place_error[i]);
                if (error == 0)
                        continue;
                recorder->place_said = true;
                say(recorder, recorder->relay.streams[i].place == STDOUT_FILENO ? "standard output" : "standard error", strerror(error),
                        "; what the command writes there is lost");
        }
}

void tell_end(struct recorder *recorder, uint64_t bytes)
{
        if (recorder->options->quiet || !isatty(STDERR_FILENO) || recorder->feed.broken != 0)
                return;
        options_say("record", "%s: %.1f s, %" PRIu64 " samples, %.1f KiB", recorder->options->path,
                (double)(source_now_ns() - recorder->start_ns) / 1e9, recorder->feed.frames, (double)bytes / 1024);
}

/* ---- noted -------------------------------------------------------------------------------------------------------------------------- */

static void note_words(struct recorder *recorder)
{
        const struct record_options *options = recorder->options;
        size_t length = 0;

        if (options->kind == RECORD_LIST)
                feed_note(&recorder->feed, "command", options->list.source, options->list.source_length);
        if (options->kind != RECORD_COMMAND)
                return;
        for (size_t i = 0; i < options->argc; i++)
                length += strlen(options->argv[i]) + 1;
        char *words = malloc(length + 1), *at = words;
        if (words == NULL)
                return;
        for (size_t i = 0; i < options->argc; i++) {
                size_t n = strlen(options->argv[i]) + 1;
                memcpy(at, options->argv[i], n);
                at += n;
        }
        feed_note(&recorder->feed, "command", words, length);
        free(words);
}

void note_start(struct recorder *recorder)
{
        static const char *const kinds[] = { [RECORD_OPEN] = "open", [RECORD_COMMAND] = "command", [RECORD_LIST] = "list",
                [RECORD_PID] = "pid" };
        const struct record_options *options = recorder->options;
        char watches[8192];
        size_t length = 0;

        feed_note_text(&recorder->feed, "kind", "%s", kinds[options->kind]);
        if (options->label != NULL)
                feed_note(&recorder->feed, "label", options->label, strlen(options->label));
        if (recorder->serve.listener >= 0)
                feed_note_text(&recorder->feed, "mark.socket", "%s", recorder->serve.path);
        note_words(recorder);
        for (size_t i = 0; i < options->watch_count && length < sizeof watches; i++)
                length += (size_t)snprintf(watches + length, sizeof watches - length, "%s\n", options->watches[i]);
        if (length > 0)
                feed_note_text(&recorder->feed, "watch", "%s", watches);
        if (options->kind == RECORD_COMMAND || options->kind == RECORD_LIST || options->kind == RECORD_PID)
                feed_note_members(&recorder->feed, true);
}

static void note_runs(struct recorder *recorder)
{
        if (recorder->runs_noted == recorder->runs_length)
                return;
        recorder->runs_noted = recorder->runs_length;
        feed_note(&recorder->feed, "runs", recorder->runs, recorder->runs_length);
}

void note_run(struct recorder *recorder, uint64_t from, uint64_t to, uint64_t round, uint64_t start_ns, uint64_t end_ns, const char *name)
{
        const struct command *command = &recorder->command;
        size_t need = recorder->runs_length + strlen(name) + 256;

        if (need > recorder->runs_room) {
                char *larger = realloc(recorder->runs, need * 2);
                if (larger == NULL)
                        return;
                recorder->runs = larger;
                recorder->runs_room = need * 2;
        }
        recorder->runs_length += (size_t)snprintf(recorder->runs + recorder->runs_length, recorder->runs_room - recorder->runs_length,
                "%" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", from, to, round,
                command_status(command->wait_status), start_ns, end_ns, command->user_ns, command->system_ns, name);
        /* A recorder that is killed leaves what was known. But each note holds all runs, so after the first hundred or so only when an
         * eighth has been added: else the log of 10,000 short runs would be gigabytes of them. */
        if (recorder->runs_length < RUNS_EACH || recorder->runs_length > recorder->runs_noted + recorder->runs_noted / 8)
                note_runs(recorder);
}

/* Both relays' indexes, in the order of the file. */
static void note_index(struct recorder *recorder)
{
        struct relay *relay = &recorder->relay;
        uint32_t count[RELAY_STREAMS] = { 0 }, at[RELAY_STREAMS] = { 0 };
        size_t total = 0, length = 0;

        for (int i = 0; i < relay->count; i++)
                total += count[i] = atomic_load(&relay->shared->count[i]);
        size_t size = total * LINE + 1;
        char *text = malloc(size);
        for (size_t n = 0; text != NULL && n < total; n++) {
                int next = relay->count > 1 && (at[0] == count[0] || (at[1] < count[1] &&
                        relay->shared->index[1][at[1]].offset < relay->shared->index[0][at[0]].offset));
                const struct relay_entry *entry = &relay->shared->index[next][at[next]++];
                length += (size_t)snprintf(text + length, size - length, "%" PRIu64 " %" PRIu64 " %d\n", entry->mono_ns, entry->offset,
                        relay->streams[next].place);
        }
        if (text != NULL)
                feed_note(&recorder->feed, "output.index", text, length);
        free(text);
}

static void note_output(struct recorder *recorder)
{
        int error = atomic_load(&recorder->relay.shared->file_error);
        uint64_t bytes = atomic_load(&recorder->relay.shared->offset);
        struct stat st;

        /* The piece that could not be written has moved the offset too. */
        if (error != 0 && fstat(recorder->out_fd, &st) == 0 && (uint64_t)st.st_size < bytes)
                bytes = (uint64_t)st.st_size;
        uint64_t from = bytes > NOTE_MAX ? bytes - NOTE_MAX : 0;
        const char *name = strrchr(recorder->out_path, '/');
        char *text = malloc(NOTE_MAX);
        ssize_t n = text != NULL ? pread(recorder->out_fd, text, NOTE_MAX, (off_t)from) : -1;

        feed_note(&recorder->feed, "output", text, n > 0 ? (size_t)n : 0);
        free(text);
        feed_note_text(&recorder->feed, "output.info", "path %s\nbytes %" PRIu64 "\nnote_offset %" PRIu64 "\n%s%s%s",
                name != NULL ? name + 1 : recorder->out_path, bytes, from, error ? "error " : "", error ? strerror(error) : "",
                error ? "\n" : "");
        note_index(recorder);
}

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec t;

        return clock_gettime(clock, &t) == 0 ? (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec : 0;
}

static void note_cost(struct recorder *recorder)
{
        struct feed *feed = &recorder->feed;
        clockid_t watopd;
        uint64_t watopd_ns = feed->source.child > 0 && clock_getcpuclockid(feed->source.child, &watopd) == 0 ? clock_ns(watopd) : 0;

        feed_note_text(feed, "cost", "watop_cpu_ns %" PRIu64 "\nrelay_cpu_ns %" PRIu64 "\nwatopd_cpu_ns %" PRIu64 "\nlog_bytes %" PRIu64
                "\nframes %" PRIu64 "\noverruns %" PRIu64 "\nwall_ns %" PRIu64 "\n",
                clock_ns(CLOCK_PROCESS_CPUTIME_ID), relay_cpu_ns(&recorder->relay), watopd_ns, log_bytes(feed->log), feed->frames,
                feed->overruns,
                source_now_ns() - recorder->start_ns);
}

void note_end(struct recorder *recorder, int status)
{
        if (recorder->feed.log == NULL || recorder->feed.broken != 0)
                return;
        note_runs(recorder);
        if (recorder->options->kind == RECORD_COMMAND || recorder->options->kind == RECORD_LIST)
                feed_note_text(&recorder->feed, "status", "%d\n", status);
        if (recorder->relay.shared != NULL && recorder->out_fd >= 0)
                note_output(recorder);
        feed_note_members(&recorder->feed, true);
        note_cost(recorder);
}

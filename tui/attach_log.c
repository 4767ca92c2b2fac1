/*
 * Reports read from a log. Contract: attach_log.h.
 *
 * The same frames through the same state as a live reader's, and the same rule for when a report is complete: so many ticks after the last
 * one. So what is printed for a pair of sequence numbers is what a live reader printed for it. The last report of a selection may be
 * shorter.
 */
#include "tui/attach_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/cursor.h"
#include "tui/log_files.h"
#include "tui/options.h"
#include "tui/span.h"

struct attach_log {
        struct log *log;
        struct cursor *cursor;
        struct span span;
        struct log_info file;
        uint64_t interval_ns, tick_ns, ticks, ticks_wanted, gaps, damages, reports, real_ns;
        uint32_t wanted, missing;
        bool have_base, total_based, ended, moved;
        char line[256], path[160];
};

/* ---- opening ------------------------------------------------------------------------------------------------------------------------ */

static void count_ticks(struct attach_log *a)
{
        a->ticks_wanted = a->tick_ns == 0 || a->interval_ns == 0 ? 1 : a->interval_ns / a->tick_ns;
        if (a->ticks_wanted == 0)
                a->ticks_wanted = 1;
}

static void local_time(char *text, size_t size, uint64_t real_ns)
{
        time_t seconds = (time_t)(real_ns / 1000000000);
        struct tm tm;

        if (!localtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
                snprintf(text, size, "-");
}

static void describe(struct attach_log *a, const char *path)
{
        const struct log_info *f = &a->file;
        char from[32], to[32], damage[80] = "";

        local_time(from, sizeof from, f->first_real_ns);
        local_time(to, sizeof to, f->last_real_ns);
        if (f->damaged_bytes > 0)
                snprintf(damage, sizeof damage, "; damaged: %llu bytes are skipped", (unsigned long long)f->damaged_bytes);
        else if (f->torn_bytes > 0 && !f->growing)
                snprintf(damage, sizeof damage, "; its writer did not end it");
        /* Of the same day: the time alone. */
        bool same_day = strlen(to) > 11 && strncmp(from, to, 11) == 0;
        snprintf(a->line, sizeof a->line, "log %.100s: %llu frames, %s to %s%s%s", path, (unsigned long long)f->frames, from,
                 same_day ? to + 11 : to, f->growing ? ", growing" : "", damage);
}

/* What the first frame says; the reader must know which scopes are there. */
static int look_at_first(struct attach_log *a)
{
        const struct frame_head *frame;
        int r;

        while ((r = log_next(a->log, &frame)) == LOG_DAMAGED)
                ;
        if (r == LOG_FRAME) {
                const struct schema *schema = log_schema(a->log);
                uint32_t on = 0;
                a->tick_ns = frame->tick_ns;
                for (unsigned i = 0; i < 32; i++)
                        if (frame->scopes_on >> i & 1 && schema->scope[i] >= 0)
                                on |= SCOPE_BIT(schema->scope[i]);
                a->missing = a->wanted & ~on;
        }
        return r < 0 ? r : 0;
}

static int select_span(struct attach_log *a, const struct attach_options *o, char *why, size_t size)
{
        struct span_words words = {.from = o->from, .to = o->to, .phase = o->phase};
        struct phases phases = {0};

        int r = words.from || words.to || words.phase ? phases_build(a->log, &phases) : 0;
        if (r == 0)
                r = span_find(&a->file, &phases, &words, &a->span, why, size);
        else
                snprintf(why, size, "%s", strerror(-r));
        phases_free(&phases);
        return r;
}

static void seek_start(struct attach_log *a)
{
        if (a->span.from_sequence > 0)
                cursor_seek_sequence(a->cursor, a->span.from_sequence);
        else if (a->span.from_real_ns > 0)
                cursor_seek_time(a->cursor, a->span.from_real_ns);
        else
                log_rewind(a->log);
}

const char *attach_log_why(int error)
{
        if (error == -EPROTO)
                return "not a log, or one of another layout";
        if (error == -EISDIR)
                return "no log of watopd in this folder";
        return error == -EBADMSG ? "nothing in it can be read" : strerror(-error);
}

int attach_log_open(const struct attach_options *options, struct attach_log **result, char *why, size_t size)
{
        struct attach_log *a = calloc(1, sizeof *a);

        snprintf(why, size, "%s", strerror(ENOMEM));
        if (!a)
                return -ENOMEM;
        a->interval_ns = options->interval_ns;
        a->wanted = options->scopes;
        snprintf(a->path, sizeof a->path, "%.150s", options->log);
        int r = log_files_open(options->log, &a->log);
        if (r < 0)
                snprintf(why, size, "%.150s: %s", options->log, attach_log_why(r));
        if (r == 0)
                r = log_get_info(a->log, &a->file);
        if (r == 0)
                r = look_at_first(a);
        if (r == 0)
                r = cursor_new_log(a->log, &a->cursor);
        if (r == 0)
                r = select_span(a, options, why, size);
        if (r < 0) {
                attach_log_close(a);
                return r;
        }
        if (options->log_now && a->span.to_sequence > a->file.last_sequence)
                a->span.to_sequence = a->file.last_sequence;
        count_ticks(a);
        seek_start(a);
        describe(a, options->log);
        snprintf(why, size, "%s", a->line);
        *result = a;
        return 0;
}

void attach_log_close(struct attach_log *a)
{
        if (!a)
                return;
        cursor_free(a->cursor);
        log_close(a->log);
        free(a);
}

struct log *attach_log_file(struct attach_log *a)
{
        return a->log;
}

void attach_log_info(struct attach_log *a, struct attach_info *info)
{
        *info = (struct attach_info){.same_pid_ns = false, .tick_ns = a->tick_ns, .interval_ns = a->interval_ns, .gaps = a->gaps,
                .missing_scopes = a->missing, .from_log = true, .position_real_ns = a->real_ns,
                .history_ns = a->file.last_real_ns > a->file.first_real_ns ? a->file.last_real_ns - a->file.first_real_ns : 0};
        memcpy(info->line, a->line, sizeof info->line);
}

void attach_log_interval(struct attach_log *a, uint64_t interval_ns)
{
        a->interval_ns = interval_ns;
        count_ticks(a);
}

int attach_log_seek(struct attach_log *a, uint64_t sequence, uint64_t real_ns)
{
        a->span = (struct span){.from_sequence = sequence, .from_real_ns = real_ns, .to_sequence = UINT64_MAX, .to_real_ns = UINT64_MAX};
        seek_start(a);
        a->have_base = a->ended = false;
        a->moved = true;
        return 0;
}

/* ---- reports ------------------------------------------------------------------------------------------------------------------------ */

static bool before(const struct span *span, const struct frame_head *frame)
{
        return frame->sequence < span->from_sequence || frame->real_ns < span->from_real_ns;
}

static bool beyond(const struct span *span, const struct frame_head *frame)
{
        return frame->sequence > span->to_sequence || frame->real_ns > span->to_real_ns;
}

static int complete(struct attach_log *a)
{
        a->ticks = 0;
        a->reports++;
        return ATTACH_REPORT;
}

/* What is left over since the last report is told when it is more than a moment, or all there is. */
static int finish(struct attach_log *a, const struct state *state)
{
        struct state_info info = state_info(state);

        a->ended = true;
        if (a->damages > 0) /* not known before it was read: the index of a log says nothing of it */
                options_say("log", "%s is damaged: in %llu place%s frames are missing (watop log shows it)", a->path,
                            (unsigned long long)a->damages, a->damages == 1 ? "" : "s");
        if (!a->have_base || !info.valid || info.mono_ns <= info.base_mono_ns)
                return ATTACH_END;
        uint64_t passed = info.mono_ns - info.base_mono_ns;
        return a->reports == 0 || passed >= a->ticks_wanted * a->tick_ns / 2 ? complete(a) : ATTACH_END;
}

static void lost(struct attach_log *a, struct state *state, struct state *total)
{
        state_lost(state);
        if (total)
                state_lost(total);
        a->ticks = a->ticks_wanted;
        a->gaps++;
}

static void make_base(struct attach_log *a, struct state *state, struct state *total)
{
        state_base(state);
        if (total && !a->total_based)
                state_base(total);
        a->total_based = total != NULL;
        a->have_base = true;
        a->ticks = 0;
}

/* 1: the report is complete; 0 not yet; -errno. */
static int take_frame(struct attach_log *a, const struct frame_head *frame, struct state *state, struct state *total)
{
        const struct schema *schema = log_schema(a->log);
        int r = state_apply(state, frame, schema);

        if (r == 0 || r == STATE_GAP) {
                int t = total ? state_apply(total, frame, schema) : 0;
                r = t < 0 ? t : r;
        }
        if (r == -EBADMSG) {
                lost(a, state, total);
                return 0;
        }
        if (r < 0 || r == STATE_STALE)
                return r < 0 ? r : 0;
        a->real_ns = frame->real_ns;
        if (frame->tick_ns != a->tick_ns && frame->tick_ns != 0) {
                a->tick_ns = frame->tick_ns;
                count_ticks(a);
        }
        if (!a->have_base) {
                if (!before(&a->span, frame))
                        make_base(a, state, total);
                return 0;
        }
        if (frame->gap != GAP_NONE)
                a->gaps++;
        if (!(frame->flags & FRAME_EXTRA))
                a->ticks += UINT64_C(1) + frame->missed;
        return a->ticks >= a->ticks_wanted;
}

int attach_log_next(struct attach_log *a, struct state *state, struct state *total, uint64_t timeout_ns)
{
        const struct frame_head *frame;

        if (a->moved) {
                state_clear(state);
                if (total)
                        state_lost(total);
                a->moved = false;
        }
        while (!a->ended) {
                int r = cursor_wait(a->cursor, timeout_ns, &frame);
                switch (r) {
                case CURSOR_FRAME:
                        if (beyond(&a->span, frame))
                                return finish(a, state);
                        r = take_frame(a, frame, state, total);
                        if (r < 0)
                                return r;
                        if (r == 1)
                                return complete(a);
                        break;
                case CURSOR_OVERRUN: /* of a log: damage */
                        a->damages++;
                        lost(a, state, total);
                        break;
                case CURSOR_END: return ATTACH_NOTHING;
                case CURSOR_EOF: return finish(a, state);
                default: return r < 0 ? r : -EIO;
                }
        }
        return ATTACH_END;
}

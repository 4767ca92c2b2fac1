/*
 * From a private watopd into a log. Contract: record_feed.h.
 */
#include "tui/record_feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
enum { MEMBERS_EVERY_S = 10 };
#define TICK_TAKES UINT64_C(10000000) /* guessed: from a tick's start to its frame */

static void break_off(struct feed *feed, int error, const char *what)
{
        if (feed->broken != 0)
                return;
        feed->broken = error;
        snprintf(feed->why, sizeof feed->why, "%s: %s", what, strerror(-error));
}

/* What no --force replaces. NULL: it may be a log. */
static const char *no_place(const char *path)
{
        struct stat st;

        if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
                return NULL;
        return S_ISDIR(st.st_mode) ? "a folder" : S_ISLNK(st.st_mode) ? "a link, which is not followed" : "not a regular file";
}

static int make_log(struct feed *feed, const char *path, bool force)
{
        struct log_create_options options = { .mode = 0600, .force = force };
        char *block = NULL;

        int r = ring_schema_block(feed->source.ring, &block, &options.schema_length);
        options.schema = block;
        if (r == 0)
                r = log_create(path, &options, &feed->log);
        free(block);
        const char *is = r < 0 ? no_place(path) : NULL;
        if (is != NULL)
                snprintf(feed->why, sizeof feed->why, "%.180s is %s; -o names a file for the log", path, is);
        else if (r == -EEXIST)
                snprintf(feed->why, sizeof feed->why, "%.180s exists; --force replaces a log", path);
        else if (r == -EPERM)
                snprintf(feed->why, sizeof feed->why, "%.180s is not a log of yours: it is not replaced", path);
        else if (r == -EBUSY)
                snprintf(feed->why, sizeof feed->why, "%.180s is being written by another recorder: it is not replaced", path);
        else if (r < 0)
                snprintf(feed->why, sizeof feed->why, "%.180s: %s", path, strerror(-r));
        return r;
}

/* The log last: what fails before leaves no file behind. */
int feed_open(struct feed *feed, const char *path, const struct attach_options *options, bool force, struct members *members)
{
        char reason[SOURCE_REASON] = "";

        *feed = (struct feed){ .members = members };
        int r = state_new(&feed->state);
        if (r == 0)
                r = source_private(options, &feed->source, reason);
        if (r < 0)
                snprintf(feed->why, sizeof feed->why, "%s", reason[0] ? reason : strerror(-r));
        if (r == 0)
                r = make_log(feed, path, force);
        if (r < 0) {
                source_close(&feed->source);
                state_free(feed->state);
                feed->state = NULL;
        }
        return r;
}

int feed_close(struct feed *feed)
{
        if (feed->log != NULL) {
                int r = log_finish(feed->log);
                if (r < 0)
                        break_off(feed, r, "the log");
                feed->log = NULL;
        }
        source_close(&feed->source);
        state_free(feed->state);
        feed->state = NULL;
        member_cpu_close(&feed->cpu);
        return feed->broken;
}

static void note_cpu(struct feed *feed, bool now)
{
        char name[32];

        if (feed->cpu.tried && feed->cpu.lines > feed->cpu.noted && now) {
                member_cpu_name(&feed->cpu, name, sizeof name);
                feed_note(feed, name, feed->cpu.text, feed->cpu.length);
                member_cpu_noted(&feed->cpu);
        }
}

/* Around each frame: what short-lived processes used is in no row of it. */
static void take_cpu(struct feed *feed)
{
        const struct member_group *group = feed->members->group;

        if (!feed->cpu.tried && group != NULL && group->path[0] != '\0')
                member_cpu_open(&feed->cpu, group->path);
        note_cpu(feed, member_cpu_take(&feed->cpu));
}

static void take(struct feed *feed, const struct frame_head *frame)
{
        int r = log_append(feed->log, frame, frame->length);
        if (r < 0 && r != -EBADMSG && r != -ENOMEM) {
                break_off(feed, r, "the log cannot be written");
                return;
        }
        feed->frames++;
        feed->sequence = frame->sequence;
        if (!(frame->flags & FRAME_EXTRA))
                feed->due_ns = frame->mono_ns + frame->tick_ns + TICK_TAKES;
        state_base(feed->state);
        if (state_apply(feed->state, frame, ring_schema(feed->source.ring)) >= 0)
                members_look(feed->members, feed->state);
}

void feed_pump(struct feed *feed)
{
        const struct frame_head *frame;
        bool any = false;

        while (feed->broken == 0) {
                int r = cursor_next(feed->source.cursor, &frame);
                if (r == CURSOR_FRAME) {
                        take(feed, frame);
                        any = true;
                } else if (r == CURSOR_OVERRUN || r == -EBADMSG) {
                        feed->overruns++;
                        state_lost(feed->state);
                } else if (r == CURSOR_END) {
                        if (!source_alive(&feed->source))
                                break_off(feed, -ESHUTDOWN, "the private watopd is gone");
                        break;
                } else {
                        break_off(feed, r < 0 ? r : -ESHUTDOWN, "the private watopd is gone");
                }
        }
        int r = any && feed->broken == 0 ? log_flush(feed->log) : 0;
        if (r < 0)
                break_off(feed, r, "the log cannot be written");
        if (any) {
                take_cpu(feed);
                feed_note_members(feed, false);
        }
}

int feed_frame(struct feed *feed, const char *mark, uint64_t *sequence)
{
        if (feed->broken != 0)
                return feed->broken;
        take_cpu(feed);
        int r = mark != NULL ? control_mark(feed->source.control, mark, sequence) : control_tick(feed->source.control, sequence);
        if (r == -EPIPE)
                break_off(feed, r, "the private watopd is gone");
        if (r < 0)
                return r;
        /* It is published before it is answered. */
        feed_pump(feed);
        return feed->broken;
}

void feed_note(struct feed *feed, const char *name, const void *bytes, size_t length)
{
        if (feed->broken != 0)
                return;
        int r = log_note(feed->log, name, bytes, length);
        if (r == -ENOMEM || r == -EINVAL || r == -EFBIG || r == -EOVERFLOW) {
                snprintf(feed->left_out, sizeof feed->left_out, "%s", name);
                feed->left_out_error = r;
        } else if (r < 0) {
                break_off(feed, r, "the log cannot be written");
        }
}

void feed_note_text(struct feed *feed, const char *name, const char *format, ...)
{
        char text[8192];
        va_list arguments;

        va_start(arguments, format);
        int length = vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        if (length > 0)
                feed_note(feed, name, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void feed_note_members(struct feed *feed, bool now)
{
        struct members *members = feed->members;
        uint64_t every = MEMBERS_EVERY_S * SECOND + (members->tree.count + members->watched.count) * (SECOND / 1000);
        uint64_t at = source_now_ns();
        size_t length;

        note_cpu(feed, now);
        if (!now && (!members->changed || at - feed->members_ns < every))
                return;
        feed->members_ns = at;
        members->changed = false;
        const struct { const char *name; const struct member_set *set; bool used; } notes[] = {
                { "members", &members->tree, members->tree.count > 0 || members->group != NULL },
                { "watched", &members->watched, members->watch_count > 0 },
        };
        for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
                char *text = notes[i].used ? members_text(members, notes[i].set, &length) : NULL;
                if (text != NULL)
                        feed_note(feed, notes[i].name, text, length);
                free(text);
        }
}

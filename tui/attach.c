/*
 * Where the samples come from, and the reports read from it. Contract: attach.h; the two kinds of source: source.h.
 *
 * A report is complete after so many ticks as its interval holds; ticks that the daemon missed count, frames out of step (marks) do not.
 * What was lost by an overrun ends the report at the next full frame: its rates are over the true time.
 */
#include "tui/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sample/stage_stream.h"
#include "tui/attach_log.h"
#include "tui/source.h"

#define MS UINT64_C(1000000)
/* How often life is tested while nothing comes; how often a dead daemon is looked for; after how long a private watopd takes its place;
 * how often a daemon that was lost is looked for from then on. */
#define LIFE_NS (200 * MS)
#define RETRY_NS (250 * MS)
#define PATIENCE_NS (5000 * MS)
#define RETURN_NS (5000 * MS)

enum { GO_ON = 100 }; /* beside enum attach_result */

struct attach {
        struct attach_options options;
        struct attach_log *log;       /* a file in the place of a watopd; then nothing below counts */
        struct source source;
        bool gone, stopped, have_base, behind; /* behind: frames that are there already are still to be applied */
        bool substitute;              /* private, because the daemon is gone: look for it again */
        bool say_back;                /* attach_change brought another source */
        bool outage;                  /* between the last report and the base to come nobody watched */
        bool captured, ended;
        bool total_based;             /* once and for all */
        uint64_t gone_ns, retry_ns, lease_ns;
        uint64_t ticks, ticks_wanted;
        uint64_t gaps, newest_real_ns;
        char line[256];
};

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

static void describe_daemon(struct attach *attach)
{
        const struct ring_info *info = &attach->source.info;
        char owner[32], tick[32], refusal[SOURCE_REASON];

        if (info->owner == 0)
                snprintf(owner, sizeof owner, "root");
        else if (info->owner == geteuid())
                snprintf(owner, sizeof owner, "yours");
        else
                snprintf(owner, sizeof owner, "uid %u", (unsigned)info->owner);
        source_interval(attach->source.tick_ns, tick, sizeof tick);
        source_refusal(&attach->source, refusal, sizeof refusal);
        snprintf(attach->line, sizeof attach->line, "daemon of %s, pid %d, %s ticks%s%.100s", owner, (int)info->pid, tick,
                info->same_pid_ns ? "" : ", in another pid namespace", refusal);
}

/* A report in ticks, at least one. */
static void count_ticks(struct attach *attach)
{
        uint64_t tick = attach->source.tick_ns;

        attach->ticks = 0;
        attach->ticks_wanted = tick == 0 || attach->captured ? 1 : attach->options.interval_ns / tick;
        if (attach->ticks_wanted == 0)
                attach->ticks_wanted = 1;
}

static void begin(struct attach *attach)
{
        attach->have_base = false;
        attach->behind = true;
        attach->gone = false;
        count_ticks(attach);
}

static int start_private(struct attach *attach, const char *because)
{
        char reason[SOURCE_REASON] = "";

        int r = source_private(&attach->options, &attach->source, reason);
        if (r < 0) {
                snprintf(attach->line, sizeof attach->line, "%s", reason[0] != '\0' ? reason : strerror(-r));
                return r;
        }
        bool limited = geteuid() != 0 && attach->options.root == NULL;
        snprintf(attach->line, sizeof attach->line, "private watopd: %s%s", because,
                 limited ? "; not root: other users' I/O bytes and wait channels cannot be read" : "");
        begin(attach);
        return 0;
}

static int find_source(struct attach *attach)
{
        const struct attach_options *o = &attach->options;
        char reason[SOURCE_REASON] = "";

        attach->substitute = false;
        if (o->root != NULL)
                return start_private(attach, "captured machine");
        if (o->capture != NULL)
                return start_private(attach, "it writes the capture");
        if (o->private_only)
                return start_private(attach, "as asked");
        int r = source_daemon(o, &attach->source, reason);
        if (r == 0) {
                describe_daemon(attach);
                begin(attach);
                return 0;
        }
        if (o->ring == NULL)
                return start_private(attach, reason);
        snprintf(attach->line, sizeof attach->line, "%s", reason[0] != '\0' ? reason : strerror(-r));
        return r;
}

/* Wa is split by tracing unless the user said no. A capture holds what /proc says. */
static uint64_t with_exact(const struct attach_options *options, uint32_t scopes_wanted, uint64_t leases)
{
        bool wanted = (scopes_wanted & SCOPE_BIT(SCOPE_CPU)) && !options->no_bpf && options->root == NULL && options->capture == NULL;

        return wanted ? leases | LEASE_EXACT : leases & ~(uint64_t)LEASE_EXACT;
}

int attach_open(const struct attach_options *options, struct attach **result, char *why, size_t size)
{
        struct attach *attach = calloc(1, sizeof *attach);
        if (attach == NULL) {
                snprintf(why, size, "%s", strerror(ENOMEM));
                return -ENOMEM;
        }
        attach->options = *options;
        attach->options.leases = with_exact(options, options->scopes, options->leases);
        attach->captured = options->root != NULL;
        int r = options->log != NULL ? attach_log_open(options, &attach->log, why, size) : find_source(attach);
        if (options->log == NULL)
                snprintf(why, size, "%s", attach->line);
        if (r < 0) {
                attach_close(attach);
                return r;
        }
        *result = attach;
        return 0;
}

void attach_close(struct attach *attach)
{
        if (attach == NULL)
                return;
        attach_log_close(attach->log);
        source_close(&attach->source);
        free(attach);
}

void attach_get_info(struct attach *attach, struct attach_info *info)
{
        const struct source *source = &attach->source;
        struct ring_info ring = source->info;

        if (attach->log != NULL) {
                attach_log_info(attach->log, info);
                return;
        }
        *info = (struct attach_info){
                .private_daemon = source->private_daemon,
                .stale = attach->gone,
                .stopped = attach->gone && attach->stopped,
                .interval_ns = attach->options.interval_ns,
                .tick_ns = source->tick_ns,
                .gaps = attach->gaps,
                .missing_scopes = source->missing,
        };
        if (source->ring != NULL && ring_info(source->ring, &ring) == 0 && ring.first_real_ns != 0 &&
                attach->newest_real_ns > ring.first_real_ns)
                info->history_ns = attach->newest_real_ns - ring.first_real_ns;
        info->pid = ring.pid;
        info->owner = ring.owner;
        info->same_pid_ns = ring.same_pid_ns;
        memcpy(info->line, attach->line, sizeof info->line);
}

struct ring *attach_ring(struct attach *attach)
{
        return attach->source.ring;
}

/* ---- frames --------------------------------------------------------------------------------------------------------------- */

/* 1: the report is complete. 0: not yet. -errno. */
static int take_frame(struct attach *attach, const struct frame_head *frame, struct state *state, struct state *total)
{
        const struct schema *schema = ring_schema(attach->source.ring);

        int r = state_apply(state, frame, schema);
        if (r < 0)
                return r;
        if (total != NULL) {
                int t = state_apply(total, frame, schema);
                if (t < 0)
                        return t;
        }
        attach->newest_real_ns = frame->real_ns;
        if (frame->gap != GAP_NONE && attach->have_base)
                attach->gaps++;
        if (!(frame->flags & FRAME_EXTRA))
                attach->ticks += UINT64_C(1) + frame->missed;
        if (r == STATE_STALE || !attach->have_base || attach->ticks < attach->ticks_wanted)
                return 0;
        attach->ticks = 0;
        return 1;
}

/* The daemon may have been told another tick (SIGHUP). */
static void follow_tick(struct attach *attach, const struct frame_head *frame)
{
        struct source *source = &attach->source;

        if (attach->captured || frame->tick_ns == 0 || frame->tick_ns == source->tick_ns)
                return;
        source->tick_ns = frame->tick_ns;
        uint64_t ticks = attach->ticks;
        count_ticks(attach);
        /* A report that was under way ends at the next tick: its time is what it is. */
        if (ticks > 0)
                attach->ticks = attach->ticks_wanted - 1;
        if (!source->private_daemon)
                describe_daemon(attach);
}

/* Are our reports still a multiple of the daemon's tick? A private watopd has the tick it was given. */
static bool tick_fits(const struct attach *attach)
{
        const struct source *source = &attach->source;

        return attach->captured || source->private_daemon || source->tick_ns == 0 || attach->options.interval_ns % source->tick_ns == 0;
}

static void lost(struct attach *attach, struct state *state, struct state *total)
{
        state_lost(state);
        if (total != NULL)
                state_lost(total);
        /* Nobody knows how many ticks went by: the next full frame ends the report. */
        attach->ticks = attach->ticks_wanted;
        attach->gaps++;
}

/* GO_ON; ATTACH_REPORT when what was before the base is to be told: nobody watched. */
static int make_base(struct attach *attach, struct state *state, struct state *total)
{
        bool tell = attach->outage && attach->options.tell_outage;

        attach->outage = false;
        if (tell)
                state_gap(state, GAP_RESET);
        else
                state_base(state);
        if (total != NULL && !attach->total_based)
                state_base(total);
        attach->total_based = total != NULL;
        attach->have_base = true;
        attach->ticks = 0;
        return tell ? ATTACH_REPORT : GO_ON;
}

/* ---- a daemon that went away ---------------------------------------------------------------------------------------------- */

/* From here until it is back nobody watches. */
static void note_outage(struct attach *attach)
{
        if (!attach->have_base)
                return;
        attach->outage = true;
        attach->gaps++;
}

static int say_gone(struct attach *attach)
{
        uint64_t now = source_now_ns();
        const struct source *source = &attach->source;
        bool held = !source->private_daemon && ring_held(source->ring);

        note_outage(attach);
        attach->stopped = held;
        attach->gone = true;
        attach->gone_ns = now;
        attach->retry_ns = now + RETRY_NS;
        snprintf(attach->line, sizeof attach->line, "%s (pid %d) %s: looking for it",
                source->private_daemon ? "private watopd" : "the daemon", (int)source->info.pid,
                held ? "does not answer (stopped?)" : "is gone");
        return ATTACH_GONE;
}

/* The daemon lives, but its ticks were changed to some that our reports are no multiple of: it is not waited for. */
static int say_unfit(struct attach *attach)
{
        char tick[32], asked[32];

        source_interval(attach->source.tick_ns, tick, sizeof tick);
        source_interval(attach->options.interval_ns, asked, sizeof asked);
        snprintf(attach->line, sizeof attach->line, "the daemon samples every %s now, %s was asked", tick, asked);
        if (attach->options.ring != NULL)
                return -ERANGE;
        note_outage(attach);
        attach->stopped = false;
        attach->gone = true;
        attach->retry_ns = source_now_ns();
        attach->gone_ns = attach->retry_ns - PATIENCE_NS;
        return ATTACH_GONE;
}

static void wait_until(uint64_t until_ns)
{
        struct timespec ts = { .tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000) };

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static int found_again(struct attach *attach, struct state *state, struct state *total)
{
        /* Another writer's sums begin anew; the averages go on from the next full frame, over the true time. */
        state_clear(state);
        if (total != NULL)
                state_lost(total);
        attach->say_back = false;
        return ATTACH_BACK;
}

/* Looks at most until `until_ns`. */
static int look_again(struct attach *attach, struct state *state, struct state *total, uint64_t until_ns)
{
        struct source next;
        char reason[SOURCE_REASON] = "";
        bool was_private = attach->source.private_daemon;

        while (source_now_ns() < attach->retry_ns) {
                if (until_ns < attach->retry_ns) {
                        wait_until(until_ns);
                        return ATTACH_NOTHING;
                }
                wait_until(attach->retry_ns);
        }
        uint64_t now = source_now_ns();
        attach->retry_ns = now + RETRY_NS;
        bool only_private = attach->options.private_only || attach->options.root != NULL || attach->options.capture != NULL;
        if (!only_private && source_daemon(&attach->options, &next, reason) == 0) {
                source_close(&attach->source);
                attach->source = next;
                attach->substitute = false;
                describe_daemon(attach);
                begin(attach);
                return found_again(attach, state, total);
        }
        /* A capture that broke off is not begun again, and a captured machine that killed its reader would do it again. */
        if (attach->options.root != NULL || attach->options.capture != NULL)
                return -EPIPE;
        if (attach->options.ring != NULL || (!was_private && now < attach->gone_ns + PATIENCE_NS))
                return ATTACH_NOTHING;
        source_close(&attach->source);
        int r = start_private(attach, was_private ? "started again" : reason);
        if (r < 0)
                return r;
        attach->substitute = !was_private;
        attach->retry_ns = now + RETURN_NS;
        return found_again(attach, state, total);
}

/* While a private watopd stands in for a daemon: is that back? */
static bool daemon_is_back(struct attach *attach)
{
        struct source next;
        char reason[SOURCE_REASON] = "";
        uint64_t now = source_now_ns();

        if (!attach->substitute || now < attach->retry_ns)
                return false;
        attach->retry_ns = now + RETURN_NS;
        if (source_daemon(&attach->options, &next, reason) < 0)
                return false;
        note_outage(attach);
        source_close(&attach->source);
        attach->source = next;
        attach->substitute = false;
        describe_daemon(attach);
        begin(attach);
        return true;
}

/* ---- reports -------------------------------------------------------------------------------------------------------------- */

/* A scope that was on without a lease of ours went off: its holder left, or the daemon's settings changed. Now we need one. */
static void renew_lease(struct attach *attach, const struct frame_head *frame)
{
        struct source *source = &attach->source;
        uint32_t off = attach->options.scopes & ~source->missing & ~frame->scopes_on;
        uint64_t now = source_now_ns();

        if (off == 0 || source->private_daemon || source->control != NULL || now < attach->lease_ns)
                return;
        attach->lease_ns = now + RETURN_NS;
        source_lease(source, attach->options.scopes, attach->options.leases);
}

/* What is in the ring already moves the base to now. As make_base, or -errno. */
static int catch_up(struct attach *attach, struct state *state, struct state *total)
{
        const struct frame_head *frame;

        while (attach->behind) {
                int r = cursor_next(attach->source.cursor, &frame);
                if (r == CURSOR_FRAME) {
                        follow_tick(attach, frame);
                        r = take_frame(attach, frame, state, total);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (r == CURSOR_OVERRUN || r == -EBADMSG) {
                        state_lost(state);
                        if (total != NULL)
                                state_lost(total);
                        continue;
                }
                if (r < 0)
                        return r;
                attach->behind = false;
                if (state_info(state).to_sequence != 0)
                        return make_base(attach, state, total);
        }
        return GO_ON;
}

/* The captured machine makes one tree at a time. */
static int next_captured(struct attach *attach, struct state *state, struct state *total)
{
        const struct frame_head *frame;
        uint64_t sequence;

        for (;;) {
                if (attach->ended)
                        return ATTACH_END;
                int r = control_step(attach->source.control, &sequence);
                if (r == -ENODATA) {
                        attach->ended = true;
                        continue;
                }
                if (r < 0) {
                        snprintf(attach->line, sizeof attach->line, "captured machine %.120s: %s", attach->options.root, strerror(-r));
                        return r;
                }
                while ((r = cursor_next(attach->source.cursor, &frame)) == CURSOR_FRAME)
                        if ((r = take_frame(attach, frame, state, total)) < 0)
                                return r;
                if (r < 0)
                        return r;
                if (attach->have_base)
                        return ATTACH_REPORT;
                make_base(attach, state, total);
        }
}

/* One look at the ring, waiting at most until `until_ns`. */
static int next_live(struct attach *attach, struct state *state, struct state *total, uint64_t until_ns)
{
        const struct frame_head *frame;
        uint64_t now = source_now_ns(), slice = until_ns > now ? until_ns - now : 0;

        if (slice > LIFE_NS)
                slice = LIFE_NS;
        int r = cursor_wait(attach->source.cursor, slice, &frame);
        switch (r) {
        case CURSOR_FRAME:
                follow_tick(attach, frame);
                if (!tick_fits(attach))
                        return say_unfit(attach);
                renew_lease(attach, frame);
                r = take_frame(attach, frame, state, total);
                if (r < 0)
                        return r;
                if (!attach->have_base && !(frame->flags & FRAME_EXTRA)) {
                        return make_base(attach, state, total);
                }
                return r == 1 ? ATTACH_REPORT : GO_ON;
        case CURSOR_OVERRUN:
        case -EBADMSG:
                lost(attach, state, total);
                return GO_ON;
        case CURSOR_END:
        case CURSOR_GONE:
                if ((r == CURSOR_GONE && !attach->source.private_daemon) || !source_alive(&attach->source))
                        return say_gone(attach);
                /* Back before the time was up: a signal. */
                if (source_now_ns() + MS < now + slice) {
                        if (r == CURSOR_GONE)
                                wait_until(now + slice);
                        return ATTACH_NOTHING;
                }
                return GO_ON;
        default:
                return r;
        }
}

int attach_next(struct attach *attach, struct state *state, struct state *total, uint64_t timeout_ns)
{
        uint64_t start = source_now_ns(), until = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;

        if (attach->log != NULL)
                return attach_log_next(attach->log, state, total, timeout_ns);
        if (attach->captured)
                return next_captured(attach, state, total);
        if (attach->say_back || (!attach->gone && daemon_is_back(attach)))
                return found_again(attach, state, total);
        for (;;) {
                if (attach->gone)
                        return look_again(attach, state, total, until);
                int r = catch_up(attach, state, total);
                if (r == GO_ON)
                        r = next_live(attach, state, total, until);
                if (r != GO_ON)
                        return r;
                if (source_now_ns() >= until)
                        return ATTACH_NOTHING;
        }
}

void attach_skip(struct attach *attach)
{
        if (attach->log == NULL && !attach->captured && !attach->gone)
                attach->behind = true;
}

int attach_change(struct attach *attach, uint64_t interval_ns, uint32_t scopes_wanted, uint64_t leases)
{
        struct source *source = &attach->source;
        bool same = interval_ns == attach->options.interval_ns;
        struct attach_options before = attach->options;

        attach->options.interval_ns = interval_ns;
        attach->options.scopes = scopes_wanted;
        attach->options.leases = leases = with_exact(&before, scopes_wanted, leases);
        if (attach->log != NULL)
                attach_log_interval(attach->log, interval_ns);
        if (attach->gone || attach->captured || attach->log != NULL)
                return 0;
        /* A daemon's ring serves every multiple of its tick; a private watopd samples no more often than we show. */
        bool fits = source->tick_ns != 0 && interval_ns % source->tick_ns == 0;
        if ((same && source_suits(source, &attach->options)) || (fits && !source->private_daemon)) {
                count_ticks(attach);
                int r = source_lease(source, scopes_wanted, leases);
                if (r == 0 && (source->control != NULL || source->missing == 0 || attach->options.ring != NULL))
                        return 0;
        }
        struct source old = *source;
        int r = find_source(attach);
        if (r < 0) {
                /* What we had goes on. */
                attach->source = old;
                attach->options = before;
                count_ticks(attach);
                return r;
        }
        source_close(&old);
        attach->say_back = true;
        return 0;
}

int attach_stream(struct attach *attach, struct stream_reader **reader, char *why, size_t size)
{
        struct source *source = &attach->source;
        int fd = -1, r = 0;

        if (attach->log != NULL || attach->captured) {
                snprintf(why, size, "%s has no stream of block records", attach->log != NULL ? "a log" : "a captured machine");
                return -EOPNOTSUPP;
        }
        if (attach->gone) {
                snprintf(why, size, "%s", attach->line);
                return -EAGAIN;
        }
        /* The connection that holds the lease; it may have been refused before. */
        if (source->control == NULL)
                r = source_lease(source, attach->options.scopes, attach->options.leases);
        if (r == 0 && source->control == NULL)
                r = source->refused < 0 ? source->refused : -ENOTCONN;
        char said[CONTROL_TEXT + 1] = "";
        if (r == 0)
                r = control_stream(source->control, &fd, said, sizeof said);
        if (r == 0)
                r = stream_open(fd, reader);
        if (r < 0 && source->control == NULL && source->socket[0] != '\0')
                snprintf(why, size, "no stream of block records: control socket %.150s: %s%s", source->socket, strerror(-r),
                        attach->options.ring != NULL ? " (of a --ring FOLDER/NAME it is looked for as FOLDER/control)" : "");
        else if (r < 0)
                snprintf(why, size, "no stream of block records: %s", said[0] != '\0' ? said : strerror(-r));
        return r;
}

int attach_seek_sequence(struct attach *attach, uint64_t sequence)
{
        return attach->log != NULL ? attach_log_seek(attach->log, sequence, 0) : -EINVAL;
}

int attach_seek_time(struct attach *attach, uint64_t real_ns)
{
        return attach->log != NULL ? attach_log_seek(attach->log, 0, real_ns) : -EINVAL;
}

struct log *attach_get_log(struct attach *attach)
{
        return attach->log != NULL ? attach_log_file(attach->log) : NULL;
}

/*
 * The course of a recording: set up, run what is to be run, wait, end. See record.h and command.h.
 *
 * Once the command runs nothing of ours may stop it: a log that cannot be written or a watopd that is gone is said, and the command goes
 * on. Killed, we leave it running; the relays carry its output on.
 */
#include "tui/record_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tui/options.h"

enum { DRAIN_MS = 200, LAST_DRAIN_MS = 5000, ROUND_MS = 1000, LATE_MS = 50, ROUND_FDS = RECORD_FDS + 2, OLD_TRIES = 10 };
#define MS UINT64_C(1000000)

static bool runs_commands(const struct recorder *recorder)
{
        return recorder->options->kind == RECORD_COMMAND || recorder->options->kind == RECORD_LIST;
}

/* ---- set up --------------------------------------------------------------------------------------------------------------------- */

/* A mark from outside. What the command wrote before it gets its time before the mark's frame. */
static int on_mark(void *arg, const char *text, uint64_t *sequence)
{
        struct recorder *recorder = arg;

        if (recorder->relay.shared != NULL)
                relay_drain(&recorder->relay, DRAIN_MS);
        int r = feed_frame(&recorder->feed, text, sequence);
        bool ends = strncmp(text, "end", 3) == 0 && (text[3] == '\0' || text[3] == ':');
        snprintf(recorder->phase, sizeof recorder->phase, "%s", r < 0 || ends ? "" : text);
        return -r;
}

static uint32_t wanted_scopes(const struct record_options *options)
{
        uint32_t all = (UINT32_C(1) << SCOPE_COUNT) - 1;

        if (!options->stages)
                all &= ~SCOPES_TRACED;
        return options->threads ? all : all & ~SCOPE_BIT(SCOPE_THREAD);
}

/*
 * --force: a second name for the file that is to be replaced, until it is known that there is something to replace it with. Where a file
 * system has no hard links, or somebody kills us before that, no more is lost than a name.
 */
static bool set_aside(const char *path, char old[RECORD_PATH])
{
        for (int i = 0; i < OLD_TRIES; i++) {
                if ((size_t)snprintf(old, RECORD_PATH, "%s.old-%d-%d", path, (int)getpid(), i) < RECORD_PATH && link(path, old) == 0)
                        return true;
                if (errno != EEXIST)
                        break;
        }
        old[0] = '\0';
        return false;
}

static bool same_file(const char *one, const char *two)
{
        struct stat a, b;

        return lstat(one, &a) == 0 && lstat(two, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void put_back(const char *path, char old[RECORD_PATH])
{
        if (old[0] != '\0' && (link(old, path) == 0 || same_file(old, path)))
                unlink(old);
        old[0] = '\0';
}

static void drop_old(struct recorder *recorder)
{
        if (recorder->old_log[0] != '\0')
                unlink(recorder->old_log);
        if (recorder->old_out[0] != '\0')
                unlink(recorder->old_out);
        recorder->old_log[0] = recorder->old_out[0] = '\0';
}

/* The output of the recording that is replaced, and nobody else's file of that name (`-o a` beside an a.out). */
static int replace_output(struct recorder *recorder, int flags)
{
        struct stat st;

        int fd = open(recorder->out_path, flags & ~O_CREAT, 0600);
        if (fd < 0)
                return -1;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
                close(fd);
                errno = EPERM;
                return -1;
        }
        bool aside = set_aside(recorder->out_path, recorder->old_out) && unlink(recorder->out_path) == 0;
        if (!aside && ftruncate(fd, 0) == 0)
                return fd;
        close(fd);
        return aside ? open(recorder->out_path, flags | O_EXCL, 0600) : -1;
}

static int open_output(struct recorder *recorder)
{
        int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

        if ((size_t)snprintf(recorder->out_path, sizeof recorder->out_path, "%s.out", recorder->log_path) >= sizeof recorder->out_path)
                return -ENAMETOOLONG;
        int fd = open(recorder->out_path, flags | O_EXCL, 0600);
        if (fd < 0 && errno == EEXIST && recorder->options->force && recorder->replaces)
                fd = replace_output(recorder, flags);
        recorder->out_fd = fd;
        return fd < 0 ? -errno : 0;
}

static int fail(const char *what, int error)
{
        options_say("record", "%s: %s", what, strerror(-error));
        return error;
}

/* Standard output belongs to the command and its relay: its reader must see the end when they are through with it. */
static int set_up_command(struct recorder *recorder)
{
        int r = open_output(recorder);
        if (r < 0)
                return fail(recorder->out_path, r);
        /* Without a group the members are found by ancestry. */
        bool grouped = member_group_make(&recorder->group, "/proc/self/mountinfo", "/proc/self/cgroup") == 0;
        members_init(&recorder->members, grouped ? &recorder->group : NULL);
        recorder->stdout_terminal = isatty(STDOUT_FILENO);
        r = relay_start(&recorder->relay, recorder->out_fd, grouped ? recorder->group.path : NULL);
        if (r < 0)
                return fail("the command's output", r);
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null >= 0) {
                dup2(null, STDOUT_FILENO);
                close(null);
        }
        if (recorder->serve.listener >= 0)
                setenv("WATOP_MARK", recorder->serve.path, 1);
        return 0;
}

static int open_pid(struct recorder *recorder)
{
        if (recorder->options->kind != RECORD_PID)
                return 0;
        recorder->pid_fd = (int)syscall(SYS_pidfd_open, recorder->options->pid, 0);
        if (recorder->pid_fd < 0)
                return fail("--pid", -errno);
        recorder->members.root = recorder->options->pid;
        return 0;
}

static int watch_signals(struct recorder *recorder)
{
        int r = command_watch_start(&recorder->watch, &recorder->command, &recorder->signals,
                recorder->relay.shared != NULL ? &recorder->relay : NULL);
        return r < 0 ? fail("signals", r) : 0;
}

static int set_up(struct recorder *recorder)
{
        const struct record_options *options = recorder->options;
        struct attach_options attach = { .interval_ns = options->interval_ns, .scopes = wanted_scopes(options), .private_only = true };

        members_init(&recorder->members, NULL);
        int r = open_pid(recorder);
        if (r == 0 && (r = command_take_signals(&recorder->signals, !runs_commands(recorder))) < 0)
                fail("signals", r);
        if (r < 0)
                return r;
        struct stat before;
        recorder->replaces = lstat(options->path, &before) == 0;
        if (recorder->replaces && options->force)
                set_aside(options->path, recorder->old_log);
        r = feed_open(&recorder->feed, options->path, &attach, options->force, &recorder->members);
        if (r < 0) {
                options_say("record", "%s", recorder->feed.why);
                return r;
        }
        if (options->stages && (recorder->feed.source.missing & SCOPE_BIT(SCOPE_STAGE)))
                options_say("record", "block tracing is not to be had: nothing of --stages is recorded (watopd --check says why)");
        if (realpath(options->path, recorder->log_path) == NULL)
                return fail(options->path, -errno);
        recorder->serve.mark = on_mark;
        recorder->serve.arg = recorder;
        r = record_serve_open(&recorder->serve, recorder->log_path);
        if (r < 0)
                options_say("record", "watop mark cannot reach this recording: %s", strerror(-r));
        r = runs_commands(recorder) ? set_up_command(recorder) : 0;
        if (r == 0)
                r = watch_signals(recorder);
        if (r == 0 && !runs_commands(recorder))
                drop_old(recorder);
        for (size_t i = 0; i < options->watch_count; i++)
                recorder->members.watches[recorder->members.watch_count++] = options->watches[i];
        return r;
}

/* ---- waiting -------------------------------------------------------------------------------------------------------------------- */

/* Woken soon after each frame: what is not in the log yet is lost if we are killed. */
static int round_ms(const struct recorder *recorder)
{
        uint64_t now = source_now_ns(), due = recorder->feed.due_ns;

        if (due <= now)
                return LATE_MS;
        return due - now < ROUND_MS * MS ? (int)((due - now) / MS) + 1 : ROUND_MS;
}

/* One round: events (enum command_event), marks, frames, what there is to say. */
static unsigned one_round(struct recorder *recorder)
{
        struct pollfd fds[ROUND_FDS] = { { .fd = recorder->watch.event_fd, .events = POLLIN },
                { .fd = recorder->pid_fd, .events = POLLIN } };
        size_t count = record_serve_fds(&recorder->serve, fds + 2);
        unsigned events = COMMAND_NOTHING;

        int n = poll(fds, 2 + count, round_ms(recorder));
        if (n > 0)
                record_serve_run(&recorder->serve, fds + 2, count);
        if (n != 0)
                events = command_watch_events(&recorder->watch);
        if (n > 0 && fds[1].revents != 0)
                events |= COMMAND_ENDED;
        feed_pump(&recorder->feed);
        tell_troubles(recorder);
        tell_progress(recorder);
        return events;
}

static void wait_for(struct recorder *recorder, unsigned wanted)
{
        unsigned events = COMMAND_NOTHING;

        while ((events & wanted) == 0) {
                events = one_round(recorder);
                if (events & COMMAND_ASKED)
                        recorder->asked = true;
                if (!runs_commands(recorder) && recorder->feed.broken != 0)
                        return;
        }
}

/* ---- running -------------------------------------------------------------------------------------------------------------------- */

static void mark_or_tick(struct recorder *recorder, const char *mark, uint64_t *sequence)
{
        *sequence = recorder->feed.sequence;
        int r = feed_frame(&recorder->feed, mark, sequence);
        if (r < 0 && recorder->feed.broken == 0)
                options_say("record", "no sample at the command's %s: %s", recorder->command.pid > 0 ? "start" : "end", strerror(-r));
        if (mark != NULL)
                snprintf(recorder->phase, sizeof recorder->phase, "%s", strcmp(mark, "end") == 0 ? "" : mark);
}

/* One command with its frames before and after. Its exit status; 126, 127 when it could not be run. */
static int run_one(struct recorder *recorder, char *const argv[], const char *name, bool marked, uint64_t round)
{
        uint64_t from, to;

        mark_or_tick(recorder, marked ? name : NULL, &from);
        uint64_t start = source_now_ns();
        int r = command_start(&recorder->watch, argv, recorder->group.join_fd);
        if (r != 0) {
                int error = r < 0 ? -r : r;
                options_say("record", "%s: %s", argv[0], strerror(error));
                recorder->cannot_run = true;
                return error == ENOENT ? RECORD_NOT_FOUND : RECORD_CANNOT_RUN;
        }
        drop_old(recorder);
        recorder->members.root = recorder->command.started;
        if (recorder->options->kind == RECORD_COMMAND && recorder->options->repeat == 1)
                relay_no_more(&recorder->relay);
        wait_for(recorder, COMMAND_ENDED);
        uint64_t end = recorder->command.end_ns;
        relay_drain(&recorder->relay, DRAIN_MS);
        mark_or_tick(recorder, marked ? "end" : NULL, &to);
        recorder->members.root = 0;
        note_run(recorder, from, to, round, start, end, name);
        return command_status(recorder->command.wait_status);
}

/* As a shell does with a list: Ctrl-C ends it all. */
static bool interrupted(const struct recorder *recorder, int status)
{
        return recorder->asked || status == 128 + SIGINT || status == 128 + SIGQUIT;
}

static const char *command_name(const struct record_options *options)
{
        const char *slash = strrchr(options->argv[0], '/');

        return options->label != NULL ? options->label : slash != NULL ? slash + 1 : options->argv[0];
}

static int run_command(struct recorder *recorder)
{
        const struct record_options *options = recorder->options;
        char name[RECORD_TEXT + 1];
        int first = 0;

        const char *given = command_name(options);
        if (record_clean_text(name, sizeof name, given, strlen(given)) == 0)
                snprintf(name, sizeof name, "command");
        for (uint64_t round = 1; round <= options->repeat; round++) {
                int status = run_one(recorder, options->argv, name, options->repeat > 1, round);
                first = first != 0 ? first : status;
                if (interrupted(recorder, status) || recorder->cannot_run)
                        break;
        }
        return first;
}

static int run_list(struct recorder *recorder)
{
        const struct record_options *options = recorder->options;
        int first = 0;

        for (uint64_t round = 1; round <= options->repeat; round++)
                for (size_t i = 0; i < options->list.count; i++) {
                        const struct record_step *step = &options->list.steps[i];
                        char shell[] = "/bin/sh", option[] = "-c";
                        char *argv[] = { shell, option, step->command, NULL };
                        int status = run_one(recorder, argv, step->name, true, round);
                        if (status != 0 && !interrupted(recorder, status))
                                options_say("record", "phase %s: exit status %d", step->name, status);
                        first = first != 0 ? first : status;
                        if (interrupted(recorder, status))
                                return first;
                }
        return first;
}

static int run_open(struct recorder *recorder)
{
        uint64_t sequence = 0;

        mark_or_tick(recorder, NULL, &sequence);
        wait_for(recorder, COMMAND_ENDED | COMMAND_ASKED);
        mark_or_tick(recorder, NULL, &sequence);
        return recorder->feed.broken != 0 ? 1 : 0;
}

/* ---- end ------------------------------------------------------------------------------------------------------------------------ */

/* Nothing ran: nothing of ours is left, and what was there before is there again. */
static void remove_files(struct recorder *recorder)
{
        if (recorder->log_path[0] != '\0')
                unlink(recorder->log_path);
        if (recorder->out_fd >= 0)
                unlink(recorder->out_path);
        put_back(recorder->options->path, recorder->old_log);
        put_back(recorder->out_path, recorder->old_out);
}

static void tear_down(struct recorder *recorder, int status, bool nothing)
{
        uint64_t bytes = 0;

        if (recorder->relay.shared != NULL) {
                relay_no_more(&recorder->relay);
                relay_drain(&recorder->relay, LAST_DRAIN_MS);
        }
        record_serve_close(&recorder->serve);
        if (recorder->feed.log != NULL) {
                if (!nothing)
                        note_end(recorder, status);
                bytes = log_bytes(recorder->feed.log);
                feed_close(&recorder->feed);
        }
        tell_troubles(recorder);
        tell_erase(recorder);
        if (!nothing)
                tell_end(recorder, bytes);
        else
                remove_files(recorder);
        command_watch_end(&recorder->watch);
        relay_close(&recorder->relay);
        if (recorder->group.path[0] != '\0')
                member_group_end(&recorder->group);
        members_fini(&recorder->members);
        command_give_signals(&recorder->signals);
        if (recorder->out_fd >= 0)
                close(recorder->out_fd);
        if (recorder->pid_fd >= 0)
                close(recorder->pid_fd);
        free(recorder->runs);
}

int record_run(const struct record_options *options)
{
        static struct recorder recorder;
        int status;

        recorder = (struct recorder){ .options = options, .out_fd = -1, .pid_fd = -1, .start_ns = source_now_ns() };
        recorder.group.join_fd = recorder.serve.listener = recorder.signals.fd = recorder.watch.event_fd = -1;
        if (set_up(&recorder) < 0) {
                tear_down(&recorder, RECORD_FAILED, true);
                return runs_commands(&recorder) ? RECORD_FAILED : 1;
        }
        note_start(&recorder);
        status = options->kind == RECORD_COMMAND ? run_command(&recorder)
                : options->kind == RECORD_LIST ? run_list(&recorder) : run_open(&recorder);
        tear_down(&recorder, status, runs_commands(&recorder) && recorder.runs == NULL);
        /* Its output was lost behind its back: that is a failure it could not report. */
        return status == 0 && recorder.place_said ? 1 : status;
}

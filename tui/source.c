/*
 * One source of frames. Contract: source.h.
 *
 * Nothing found in a folder is trusted for its name: the ring's file must belong to root, the user watop or ourselves (sample/ring.h), the
 * other end of a socket likewise (sample/control.h). The private watopd is found beside our own binary or where it was installed, never
 * by PATH or environment; it gets one descriptor, the lifeline, and nothing else of ours.
 */
#include "tui/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
enum { LIFELINE = 3, END_WAIT_MS = 1000, KILL_WAIT_MS = 200, START_WAIT_MS = 10000, PLACE_WAIT_MS = 1000, PLACE_TRY_MS = 50 };

uint64_t source_now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

void source_interval(uint64_t ns, char *text, size_t size)
{
        if (ns % (3600000 * MS) == 0)
                snprintf(text, size, "%llu h", (unsigned long long)(ns / (3600000 * MS)));
        else if (ns % (60000 * MS) == 0)
                snprintf(text, size, "%llu min", (unsigned long long)(ns / (60000 * MS)));
        else if (ns < 1000 * MS && ns % MS == 0)
                snprintf(text, size, "%llu ms", (unsigned long long)(ns / MS));
        else
                snprintf(text, size, "%g s", (double)ns / 1e9);
}

/* ---- a daemon's ring ------------------------------------------------------------------------------------------------------ */

/* A connection and its HELLO. While all places are taken (said so, or hung up before our request was read), again until `until_ns`: most
 * readers keep theirs for a moment only. */
static int greet_daemon(struct source *source, uint64_t until_ns, int *ring_fd)
{
        struct control_answer hello;

        for (;;) {
                int r = control_connect(source->socket, &source->control);
                if (r == 0)
                        r = control_hello(source->control, &hello, ring_fd);
                if (r == 0) {
                        source->always = (uint32_t)hello.value;
                        return 0;
                }
                control_close(source->control);
                source->control = NULL;
                if ((r != -EUSERS && r != -EPIPE) || source_now_ns() >= until_ns)
                        return r;
                nanosleep(&(struct timespec){ .tv_nsec = (long)(PLACE_TRY_MS * MS) }, NULL);
        }
}

/* The ring as a file, else (a memfd) from the hand of the daemon at the socket. */
static int open_ring(const char *ring_path, struct source *source)
{
        int fd = -1;

        int r = ring_open(ring_path, &source->ring);
        if (r == 0)
                return 0;
        int c = greet_daemon(source, source_now_ns() + PLACE_WAIT_MS * MS, &fd);
        if (c < 0)
                return r == -ENOENT && c != -ENOENT && c != -ECONNREFUSED ? c : r;
        /* A daemon is there, but its ring is a file that we may not read. */
        return fd < 0 ? r : ring_open_fd(fd, &source->ring);
}

static void say_why_not(int error, const char *path, char *reason)
{
        switch (error) {
        case -ENOENT:
        case -ENOTDIR:
        case -ECONNREFUSED:
                snprintf(reason, SOURCE_REASON, "no daemon runs");
                break;
        case -EACCES:
                snprintf(reason, SOURCE_REASON, "the daemon's ring is for root and group watop");
                break;
        case -EPERM:
                snprintf(reason, SOURCE_REASON, "%.120s is not trusted (owner, or others may write there)", path);
                break;
        case -ETIMEDOUT:
                snprintf(reason, SOURCE_REASON, "the daemon does not answer (stopped?)");
                break;
        case -EUSERS:
        case -EPIPE:
                snprintf(reason, SOURCE_REASON, "all places at the daemon's control socket are taken");
                break;
        case -EPROTO:
                snprintf(reason, SOURCE_REASON, "%.120s is not a ring of this version", path);
                break;
        default:
                snprintf(reason, SOURCE_REASON, "%.120s: %s", path, strerror(-error));
        }
}

/* Scopes of the newest full frame: what is sampled without our asking. With a cursor of its own: the reader's stays where it is. */
static uint32_t scopes_on(struct source *source)
{
        const struct frame_head *frame;
        struct cursor *cursor = NULL;
        uint32_t on = 0;

        if (cursor_new(source->ring, &cursor) == 0 && cursor_next(cursor, &frame) == CURSOR_FRAME)
                on = frame->scopes_on;
        cursor_free(cursor);
        return on;
}

/* Not by way of what is on at the moment: that may be another reader's lease, and end with it. */
static bool needs_no_lease(const struct source *source, uint32_t wanted, uint64_t leases)
{
        return !source->private_daemon && leases == 0 && (wanted & ~source->always) == 0;
}

static void hang_up(struct source *source)
{
        control_close(source->control);
        source->control = NULL;
}

int source_lease(struct source *source, uint32_t wanted, uint64_t leases)
{
        uint64_t granted = 0;
        int r = 0, fd = -1;

        source->refused = 0;
        source->missing = 0;
        source->lacking = 0;
        if (source->control == NULL && !source->private_daemon) {
                bool patient = (leases & ~(uint64_t)LEASE_EXACT) || (wanted & ~scopes_on(source));
                r = greet_daemon(source, source_now_ns() + (patient ? PLACE_WAIT_MS * MS : 0), &fd);
                if (fd >= 0)
                        close(fd); /* its ring, which we have */
        }
        if (r == 0 && needs_no_lease(source, wanted, leases)) {
                hang_up(source);
                return 0;
        }
        if (r == 0)
                r = control_lease(source->control, (uint64_t)wanted | leases, &granted);
        if (r == 0) {
                source->missing = wanted & ~(uint32_t)granted;
                source->lacking = leases & ~granted;
                return 0;
        }
        if (source->private_daemon)
                return r;
        hang_up(source);
        source->missing = wanted & ~scopes_on(source);
        /* Without the exact split there is another: it is no reason to complain. */
        if (source->missing != 0 || (leases & ~(uint64_t)LEASE_EXACT))
                source->refused = r;
        return 0;
}

static const char *refusal(int error)
{
        if (error == -EUSERS || error == -EPIPE)
                return "its control socket is full";
        return error == -EACCES ? "its control socket is closed to us" : "its control socket does not answer";
}

/* The ring is open: does it serve? */
static int fits(const struct attach_options *options, struct source *source, char *reason)
{
        char tick[32], asked[32];

        int r = ring_info(source->ring, &source->info);
        if (r == 0)
                r = cursor_new(source->ring, &source->cursor);
        if (r < 0) {
                snprintf(reason, SOURCE_REASON, "the ring cannot be read: %s", strerror(-r));
                return r;
        }
        source->tick_ns = source->info.tick_ns;
        if (!ring_alive(source->ring, source_now_ns())) {
                snprintf(reason, SOURCE_REASON, "the daemon (pid %d) %s", (int)source->info.pid,
                        ring_held(source->ring) ? "does not answer (stopped?)" : "does not run any more");
                return -ENOENT;
        }
        if (source->tick_ns == 0 || options->interval_ns % source->tick_ns != 0) {
                source_interval(source->tick_ns, tick, sizeof tick);
                source_interval(options->interval_ns, asked, sizeof asked);
                snprintf(reason, SOURCE_REASON, "the daemon samples every %s, %s was asked", tick, asked);
                return -ERANGE;
        }
        source_lease(source, options->scopes, options->leases);
        /* A daemon may not trace (its rights, its settings) where one of ours, root's, could: whoever wants records has no use for it. */
        if ((source->lacking & LEASE_STREAM) && options->ring == NULL && geteuid() == 0) {
                snprintf(reason, SOURCE_REASON, "the daemon does not trace block I/O");
                return -EACCES;
        }
        /* What a daemon at the socket cannot give, this machine does not have. Without the socket it may only be off. */
        for (int s = 0; source->control == NULL && options->ring == NULL && s < SCOPE_COUNT; s++)
                if (source->missing & SCOPE_BIT(s)) {
                        snprintf(reason, SOURCE_REASON, "the daemon does not sample scope %s and %s", scopes[s].name,
                                refusal(source->refused));
                        return -EACCES;
                }
        return 0;
}

static int try_place(const struct attach_options *options, const char *ring_path, const char *socket_path, struct source *source,
        char *reason)
{
        *source = (struct source){ .ring = NULL };
        snprintf(source->socket, sizeof source->socket, "%s", strlen(socket_path) < sizeof source->socket ? socket_path : "");
        int r = open_ring(ring_path, source);
        if (r < 0)
                say_why_not(r, ring_path, reason);
        else
                r = fits(options, source, reason);
        if (r < 0)
                source_close(source);
        return r;
}

static int try_folder(const struct attach_options *options, const char *folder, struct source *source, char *reason)
{
        char ring_path[PATH_MAX], socket_path[PATH_MAX];

        if ((size_t)snprintf(ring_path, sizeof ring_path, "%s/ring", folder) >= sizeof ring_path ||
            (size_t)snprintf(socket_path, sizeof socket_path, "%s/control", folder) >= sizeof socket_path)
                return -ENAMETOOLONG;
        return try_place(options, ring_path, socket_path, source, reason);
}

int source_daemon(const struct attach_options *options, struct source *source, char *reason)
{
        char path[PATH_MAX];

        if (options->ring != NULL) {
                const char *slash = strrchr(options->ring, '/');
                int length = slash != NULL ? (int)(slash - options->ring) : 1;
                if ((size_t)snprintf(path, sizeof path, "%.*s/control", length, slash != NULL ? options->ring : ".") >= sizeof path)
                        return -ENAMETOOLONG;
                int r = try_place(options, options->ring, path, source, reason);
                if (r == -ENOENT && strcmp(reason, "no daemon runs") == 0)
                        snprintf(reason, SOURCE_REASON, "%.150s: no ring there", options->ring);
                return r;
        }
        int r = try_folder(options, "/run/watop", source, reason);
        /* Root does not look where another user may write; a program with more rights than its user does not ask the environment. */
        const char *runtime = geteuid() == 0 ? NULL : secure_getenv("XDG_RUNTIME_DIR");
        if (r == 0 || runtime == NULL || *runtime != '/' || (size_t)snprintf(path, sizeof path, "%s/watop", runtime) >= sizeof path)
                return r;
        char own_reason[SOURCE_REASON];
        int own = try_folder(options, path, source, own_reason);
        if (own < 0 && own != -ENOENT && own != -ENOTDIR && own != -ECONNREFUSED)
                memcpy(reason, own_reason, SOURCE_REASON);
        return own == 0 ? 0 : r;
}

/* ---- a private watopd ----------------------------------------------------------------------------------------------------- */

/* Beside our binary (also in the build folder), in the sbin next to our bin, where it was installed. */
static int find_watopd(char *path, size_t size)
{
        static const char *const beside[] = { "watopd", "../sbin/watopd", "../libexec/watopd" };
        char self[PATH_MAX];

        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        if (length > 0) {
                self[length] = '\0';
                char *slash = strrchr(self, '/');
                if (slash != NULL)
                        *slash = '\0';
                for (size_t i = 0; slash != NULL && i < sizeof beside / sizeof *beside; i++)
                        if ((size_t)snprintf(path, size, "%s/%s", self, beside[i]) < size && access(path, X_OK) == 0)
                                return 0;
        }
        static const char *const installed[] = { WATOP_LIBEXECDIR "/watopd", WATOP_SBINDIR "/watopd" };
        for (size_t i = 0; i < sizeof installed / sizeof *installed; i++)
                if ((size_t)snprintf(path, size, "%s", installed[i]) < size && access(path, X_OK) == 0)
                        return 0;
        return -ENOENT;
}

struct command {
        char path[PATH_MAX], interval[32], scopes[SCOPE_COUNT * 16], lifeline[8];
        const char *argv[24];
        char ticks[24];
};

static void list_scopes(uint32_t mask, char *text, size_t size)
{
        size_t length = 0;

        text[0] = '\0';
        for (int s = 0; s < SCOPE_COUNT; s++)
                if ((mask & SCOPE_BIT(s)) && length < size)
                        length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? "," : "", scopes[s].name);
}

void source_refusal(const struct source *source, char *text, size_t size)
{
        char names[SCOPE_COUNT * 16];

        text[0] = '\0';
        if (source->refused == 0)
                return;
        list_scopes(source->missing, names, sizeof names);
        snprintf(text, size, "; %s: no %s%s", refusal(source->refused), names[0] != '\0' ? names : "details",
                names[0] != '\0' ? " rows" : "");
}

/* Loading its programs takes watopd a moment, so it must be told at its start. */
static bool wants_stages(const struct attach_options *options)
{
        return options->root == NULL && options->capture == NULL &&
                (options->scopes & SCOPES_TRACED || options->leases & (LEASE_STREAM | LEASE_SYNC | LEASE_EVENTS));
}

bool source_suits(const struct source *source, const struct attach_options *options)
{
        return !source->private_daemon || source->stages || !wants_stages(options);
}

static void make_command(const struct attach_options *options, struct command *command)
{
        size_t n = 0;

        snprintf(command->lifeline, sizeof command->lifeline, "%d", LIFELINE);
        /* ms with three decimals are exact to the microsecond. */
        snprintf(command->interval, sizeof command->interval, "%llu.%03llums", (unsigned long long)(options->interval_ns / MS),
                (unsigned long long)(options->interval_ns % MS / 1000));
        uint32_t by_itself = options->scopes & ~SCOPES_TRACED;
        list_scopes(by_itself == 0 && options->scopes != 0 ? SCOPE_BIT(SCOPE_SELF) : by_itself, command->scopes, sizeof command->scopes);
        command->argv[n++] = "watopd";
        command->argv[n++] = "--private";
        command->argv[n++] = command->lifeline;
        command->argv[n++] = "--interval";
        command->argv[n++] = command->interval;
        if (command->scopes[0] != '\0') {
                command->argv[n++] = "--scopes";
                command->argv[n++] = command->scopes;
        }
        if (options->leases & LEASE_EXACT)
                command->argv[n++] = "--exact";
        if (wants_stages(options))
                command->argv[n++] = "--stages";
        if (wants_stages(options) && options->no_bpf) {
                command->argv[n++] = "--bpf";
                command->argv[n++] = "off";
        }
        if (options->root != NULL) {
                command->argv[n++] = "--root";
                command->argv[n++] = options->root;
        }
        if (options->capture != NULL) {
                command->argv[n++] = "--capture";
                command->argv[n++] = options->capture;
        }
        if (options->capture != NULL && options->capture_count > 0) {
                snprintf(command->ticks, sizeof command->ticks, "%llu", (unsigned long long)options->capture_count + 1);
                command->argv[n++] = "--ticks";
                command->argv[n++] = command->ticks;
        }
        if (options->capture_anonymize)
                command->argv[n++] = "--anonymize";
        command->argv[n] = NULL;
}

/* In the child: async-signal-safe calls only. Never returns. */
static _Noreturn void become_watopd(const struct command *command, int lifeline, int errors)
{
        sigset_t none;

        /* Not in the terminal's foreground group: its keys are for watop. */
        setpgid(0, 0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGCHLD, SIG_DFL);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        /* Out of the way of 0..3 first; the copies below are without O_CLOEXEC. */
        lifeline = fcntl(lifeline, F_DUPFD_CLOEXEC, 10);
        errors = fcntl(errors, F_DUPFD_CLOEXEC, 10);
        null = fcntl(null, F_DUPFD_CLOEXEC, 10);
        if (lifeline < 0 || errors < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(errors, 2) < 0 ||
            dup2(lifeline, LIFELINE) < 0)
                _exit(126);
#ifdef SYS_close_range
        if (syscall(SYS_close_range, LIFELINE + 1, ~0u, 0) < 0)
#endif
                for (int fd = LIFELINE + 1; fd < 1024; fd++)
                        close(fd);
        execv(command->path, (char *const *)(uintptr_t)command->argv);
        _exit(127);
}

/* The first line that a watopd that could not start has written; what is left after "watopd: ". */
static void read_reason(int fd, int error, char *reason)
{
        char text[SOURCE_REASON];
        struct pollfd wait = { .fd = fd, .events = POLLIN };

        ssize_t length = poll(&wait, 1, 500) > 0 ? read(fd, text, sizeof text - 1) : 0;
        if (length <= 0) {
                snprintf(reason, SOURCE_REASON, "watopd could not be started: %s", strerror(-error));
                return;
        }
        text[length] = '\0';
        text[strcspn(text, "\n")] = '\0';
        const char *head = "watopd: ";
        const char *from = strncmp(text, head, strlen(head)) == 0 ? text + strlen(head) : text;
        snprintf(reason, SOURCE_REASON, "%s", from);
}

/* Waits for the first answer: watopd opens its files first, and a machine under load is slow. */
static int greet(struct source *source, struct control_answer *hello)
{
        struct control_request request = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = CONTROL_HELLO };
        int fd = -1;

        int r = control_call(source->control, &request, hello, &fd, START_WAIT_MS);
        if (r == 0 && hello->error != 0)
                r = -hello->error;
        if (r < 0)
                return r;
        return fd < 0 ? -EPROTO : ring_open_fd(fd, &source->ring);
}

static int meet(const struct attach_options *options, struct source *source)
{
        struct control_answer hello;

        int r = greet(source, &hello);
        if (r == 0)
                r = ring_info(source->ring, &source->info);
        if (r == 0)
                r = cursor_new(source->ring, &source->cursor);
        if (r == 0)
                r = source_lease(source, options->scopes, options->leases);
        source->tick_ns = source->info.tick_ns;
        return r;
}

/* Above what the child puts at 0..LIFELINE, and never a standard stream that somebody closed: we would print into it. */
static int lift(int *fd)
{
        if (*fd > LIFELINE)
                return 0;
        int lifted = fcntl(*fd, F_DUPFD_CLOEXEC, LIFELINE + 1);
        if (lifted < 0)
                return -errno;
        close(*fd);
        *fd = lifted;
        return 0;
}

static void close_pair(const int pair[2])
{
        close(pair[0]);
        close(pair[1]);
}

/* The lifeline's two ends, and the pipe that says why a watopd could not start. */
static int make_lines(int pair[2], int errors[2])
{
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        if (pipe2(errors, O_CLOEXEC) < 0) {
                int r = -errno;
                close_pair(pair);
                return r;
        }
        int r = 0;
        for (int i = 0; r == 0 && i < 2; i++)
                if ((r = lift(&pair[i])) == 0)
                        r = lift(&errors[i]);
        if (r < 0) {
                close_pair(pair);
                close_pair(errors);
        }
        return r;
}

int source_private(const struct attach_options *options, struct source *source, char *reason)
{
        struct command command;
        int pair[2], errors[2];

        *source = (struct source){ .private_daemon = true, .stages = wants_stages(options) };
        if (find_watopd(command.path, sizeof command.path) < 0) {
                snprintf(reason, SOURCE_REASON, "watopd is not found beside watop nor in " WATOP_SBINDIR);
                return -ENOENT;
        }
        make_command(options, &command);
        int r = make_lines(pair, errors);
        if (r < 0)
                return r;
        source->child = fork();
        if (source->child == 0)
                become_watopd(&command, pair[1], errors[1]);
        r = source->child < 0 ? -errno : 0;
        close(pair[1]);
        close(errors[1]);
        if (r == 0)
                r = control_adopt(pair[0], &source->control);
        else
                close(pair[0]);
        if (r == 0)
                r = meet(options, source);
        if (r < 0)
                read_reason(errors[0], r, reason);
        close(errors[0]);
        if (r < 0)
                source_close(source);
        return r;
}

/* ---- life and end --------------------------------------------------------------------------------------------------------- */

bool source_alive(struct source *source)
{
        if (source->control != NULL) {
                struct pollfd fd = { .fd = control_fd(source->control), .events = 0 };
                if (poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR | POLLNVAL)))
                        return false;
        }
        /* A private watopd is as alive as its socket: while it is busy or the machine stood still, its heart may be late. */
        return source->private_daemon || ring_alive(source->ring, source_now_ns());
}

/* It ends by itself when the lifeline closes; one that is in for a long tick, or stopped, is killed. If even that hangs on a sick
 * machine, we do not. */
static void wait_for_end(pid_t child)
{
        for (int i = 0; i < END_WAIT_MS + KILL_WAIT_MS; i++) {
                pid_t r = waitpid(child, NULL, WNOHANG);
                if (r == child || (r < 0 && errno != EINTR))
                        return;
                if (i == END_WAIT_MS)
                        kill(child, SIGKILL);
                nanosleep(&(struct timespec){ .tv_nsec = (long)MS }, NULL);
        }
}

void source_close(struct source *source)
{
        cursor_free(source->cursor);
        ring_close(source->ring);
        control_close(source->control);
        if (source->child > 0)
                wait_for_end(source->child);
        *source = (struct source){ .ring = NULL };
}

/*
 * The command that is recorded. Contract: command.h.
 */
#include "tui/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tui/command_terminal.h"

/* A signal to the whole group reaches the relays within this time. */
enum { GROUP_WAIT_MS = 20, RECENT_MS = 1000 };
#define MS UINT64_C(1000000)

static void (*sigpipe_was)(int) = SIG_DFL, (*sigchld_was)(int) = SIG_DFL, (*sigxfsz_was)(int) = SIG_DFL;

void command_keep_sigpipe(void (*was)(int))
{
        if (was != SIG_ERR)
                sigpipe_was = was;
}

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- signals -------------------------------------------------------------------------------------------------------------------- */

static bool ignored(int number)
{
        struct sigaction action;

        return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int command_take_signals(struct command_signals *signals, bool alone)
{
        static const int wanted[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU };
        sigset_t set;

        /* Ignored, the kernel would throw the exit status away. */
        sigchld_was = signal(SIGCHLD, SIG_DFL);
        /* A log that may not grow ends the log, not us. */
        sigxfsz_was = signal(SIGXFSZ, SIG_IGN);
        if (alone)
                signal(SIGINT, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
                if (!ignored(wanted[i]))
                        sigaddset(&set, wanted[i]);
        if (sigprocmask(SIG_BLOCK, &set, &signals->was) < 0)
                return -errno;
        signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals->fd < 0)
                return -errno;
        int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        signals->terminal = terminal >= 0;
        if (terminal >= 0)
                close(terminal);
        return 0;
}

void command_give_signals(struct command_signals *signals)
{
        if (signals->fd >= 0)
                close(signals->fd);
        signals->fd = -1;
}

/* Sent to us alone, or to the whole group, the command included? A relay is in the group too. The kernel's own (a key, a terminal that
 * hung up) always
 * go to the group. */
static bool group_had_it(const struct signalfd_siginfo *info, const struct relay *relay)
{
        if (info->ssi_code == SI_KERNEL)
                return true;
        if (relay == NULL || relay->shared == NULL || info->ssi_signo >= RELAY_SIGNALS)
                return false;
        uint64_t now = now_ns();
        nanosleep(&(struct timespec){ .tv_nsec = (long)(GROUP_WAIT_MS * MS) }, NULL);
        uint64_t seen = atomic_load(&relay->shared->seen[info->ssi_signo]);
        return seen != 0 && seen + RECENT_MS * MS > now;
}

/* As a shell that is told to end: what would come after this command does not. Ctrl-C is left to how the command takes it. */
static unsigned wish(int number)
{
        return number == SIGTERM || number == SIGHUP ? COMMAND_ASKED : COMMAND_NOTHING;
}

/* all: to all of its group, where that is not ours. */
static void signal_command(const struct command *command, int number, const struct relay *relay, bool all)
{
        bool apart = relay != NULL && relay->whole;

        if (!all || !apart || kill(-command->pid, number) < 0)
                kill(command->pid, number);
}

static void pass_on(const struct command *command, const struct signalfd_siginfo *info, const struct relay *relay)
{
        bool all = group_had_it(info, relay);

        if (!all || (relay != NULL && relay->whole))
                signal_command(command, (int)info->ssi_signo, relay, all);
        if (all && info->ssi_signo == SIGHUP) /* as the kernel does it: what is stopped must see it */
                signal_command(command, SIGCONT, relay, all);
}

/* In a terminal of its own only the command's group was stopped; who runs us, in our group, would have been as well. */
static void stop_ourselves(struct command *command, struct relay *relay)
{
        bool apart = command->pid > 0 && relay != NULL && relay->whole;

        if (apart && !leader_stoppable()) { /* the shell is gone meanwhile: nobody would continue us */
                relay_ask(relay, TERMINAL_OVER);
                return;
        }
        if (apart) {
                relay_ask(relay, TERMINAL_BACK);
                kill(0, SIGTSTP);
        }
        raise(SIGSTOP); /* this thread: sent to the process it might go on here before another one takes it */
        /* Continued. With `fg` the whole group was; by kill -CONT only we were. */
        if (apart)
                relay_ask(relay, TERMINAL_FRONT);
        if (command->pid > 0)
                signal_command(command, SIGCONT, relay, true);
        command->stopped = false;
}

static unsigned take(struct command *command, const struct signalfd_siginfo *info, struct relay *relay)
{
        int number = (int)info->ssi_signo;

        switch (number) {
        case SIGCHLD:
        case SIGTTIN:
        case SIGTTOU:
                return COMMAND_NOTHING;
        case SIGTSTP:
                if (command->pid == 0)
                        stop_ourselves(command, relay);
                else
                        pass_on(command, info, relay);
                return COMMAND_NOTHING;
        case SIGCONT:
                if (command->pid > 0 && command->stopped)
                        signal_command(command, SIGCONT, relay, true);
                return COMMAND_NOTHING;
        default:
                if (command->pid == 0)
                        return number == SIGUSR1 || number == SIGUSR2 ? COMMAND_NOTHING : COMMAND_ASKED;
                pass_on(command, info, relay);
                return wish(number);
        }
}

static uint64_t time_ns(struct timeval t)
{
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_usec * 1000;
}

/* Only its own terminal stops us with it: then a shell waits to see that. Who stops it by kill -STOP continues it by itself. */
static unsigned look_at_command(struct command *command, const struct command_signals *signals, struct relay *relay)
{
        struct rusage usage;
        int status;

        while (command->pid > 0 && wait4(command->pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage) == command->pid) {
                if (WIFSTOPPED(status)) {
                        command->stopped = true;
                        if (signals->terminal && WSTOPSIG(status) != SIGSTOP)
                                stop_ourselves(command, relay);
                } else if (WIFCONTINUED(status)) {
                        command->stopped = false;
                } else {
                        command->pid = 0;
                        command->end_ns = now_ns();
                        if (relay != NULL)
                                relay_ask(relay, TERMINAL_OVER);
                        command->wait_status = status;
                        command->user_ns = time_ns(usage.ru_utime);
                        command->system_ns = time_ns(usage.ru_stime);
                        return COMMAND_ENDED;
                }
        }
        return COMMAND_NOTHING;
}

static unsigned handle_signals(struct command *command, const struct command_signals *signals, struct relay *relay)
{
        struct signalfd_siginfo info;
        unsigned events = COMMAND_NOTHING;
        pid_t before = command->pid;

        /* First: a signal must not go to a number that is somebody else's by now. */
        events |= look_at_command(command, signals, relay);
        while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
                /* What came for a command that has just ended is done with, but for the wish to end. */
                if (before > 0 && command->pid == 0) {
                        events |= wish((int)info.ssi_signo);
                        continue;
                }
                events |= take(command, &info, relay);
                events |= look_at_command(command, signals, relay);
        }
        return events;
}

static void *watch(void *arg)
{
        struct command_watch *watch = arg;
        struct pollfd fds[2] = { { .fd = watch->signals->fd, .events = POLLIN }, { .fd = watch->stop_fd, .events = POLLIN } };

        while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
                if (fds[1].revents != 0)
                        break;
                pthread_mutex_lock(&watch->lock);
                unsigned events = handle_signals(watch->command, watch->signals, watch->relay);
                pthread_mutex_unlock(&watch->lock);
                if (events == COMMAND_NOTHING)
                        continue;
                atomic_fetch_or(&watch->events, events);
                eventfd_write(watch->event_fd, 1);
        }
        return NULL;
}

int command_watch_start(struct command_watch *watch_it, struct command *command, const struct command_signals *signals,
        struct relay *relay)
{
        *watch_it = (struct command_watch){ .command = command, .signals = signals, .relay = relay, .lock = PTHREAD_MUTEX_INITIALIZER };
        watch_it->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        watch_it->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int r = watch_it->event_fd < 0 || watch_it->stop_fd < 0 ? -errno : -pthread_create(&watch_it->thread, NULL, watch, watch_it);
        if (r == 0)
                return 0;
        if (watch_it->event_fd >= 0)
                close(watch_it->event_fd);
        if (watch_it->stop_fd >= 0)
                close(watch_it->stop_fd);
        watch_it->event_fd = watch_it->stop_fd = -1;
        return r;
}

unsigned command_watch_events(struct command_watch *watch_it)
{
        eventfd_t count;

        eventfd_read(watch_it->event_fd, &count);
        return atomic_exchange(&watch_it->events, COMMAND_NOTHING);
}

void command_watch_end(struct command_watch *watch_it)
{
        if (watch_it->event_fd < 0)
                return;
        eventfd_write(watch_it->stop_fd, 1);
        pthread_join(watch_it->thread, NULL);
        close(watch_it->event_fd);
        close(watch_it->stop_fd);
        watch_it->event_fd = watch_it->stop_fd = -1;
}

int command_status(int wait_status)
{
        return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* ---- start ---------------------------------------------------------------------------------------------------------------------- */

static _Noreturn void become(char *const argv[], const struct command_signals *signals, const struct relay *relay, int join_fd, int tell)
{
        int error = 0;

        if (join_fd >= 0 && write(join_fd, "0", 1) < 0)
                error = 0; /* it runs where it is; the members are then found by ancestry */
        for (int place = STDIN_FILENO; relay != NULL && place <= STDERR_FILENO; place++)
                if (relay->command_fd[place] >= 0 && dup2(relay->command_fd[place], place) < 0)
                        error = errno;
        signal(SIGPIPE, sigpipe_was);
        signal(SIGCHLD, sigchld_was);
        signal(SIGXFSZ, sigxfsz_was);
        sigprocmask(SIG_SETMASK, &signals->was, NULL);
        if (error == 0) {
                execvp(argv[0], argv);
                error = errno;
        }
        while (write(tell, &error, sizeof error) < 0 && errno == EINTR)
                ;
        _exit(127);
}

/* As fork: 0 in the command. */
static pid_t fork_command(struct relay *relay, int tell)
{
        if (relay != NULL && relay->whole) {
                relay_ask(relay, TERMINAL_FRONT);
                return leader_fork(relay, tell);
        }
        pid_t pid = fork();
        return pid < 0 ? -errno : pid;
}

static int start(struct command *command, char *const argv[], const struct command_signals *signals, struct relay *relay, int join_fd)
{
        int pair[2], error = 0;

        command->stopped = false;
        command->wait_status = 0;
        command->user_ns = command->system_ns = 0;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork_command(relay, pair[1]);
        if (pid == 0)
                become(argv, signals, relay, join_fd, pair[1]);
        int r = pid < 0 ? pid : 0;
        close(pair[1]);
        ssize_t n = 0;
        while (r == 0 && (n = read(pair[0], &error, sizeof error)) < 0 && errno == EINTR)
                ;
        close(pair[0]);
        if (r == 0 && n == (ssize_t)sizeof error) {
                waitpid(pid, NULL, 0);
                r = error > 0 ? error : EIO;
        }
        if (r == 0)
                command->pid = command->started = pid;
        else if (relay != NULL)
                relay_ask(relay, TERMINAL_OVER);
        return r;
}

int command_start(struct command_watch *watch_it, char *const argv[], int join_fd)
{
        pthread_mutex_lock(&watch_it->lock);
        int r = start(watch_it->command, argv, watch_it->signals, watch_it->relay, join_fd);
        pthread_mutex_unlock(&watch_it->lock);
        return r;
}

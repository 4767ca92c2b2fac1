/*
 * Relays. Contract: command_relay.h.
 *
 * A relay is in the command's process group, so what the terminal sends to the group reaches it too: keys are for the command, so it does
 * nothing on them (stopped with the group, it would not take what a program that is not stopped writes) and only notes which signals came
 * (the recorder passes on those that the command did not get by itself).
 *
 * A writer that finds its reader asleep must wake it, each time: that would cost a command which writes line by line a third of its speed.
 * So while output flows the relay sleeps on purpose (FLOW, below), and the lines of some ms come at once. What comes after silence is
 * passed on at once.
 */
#include "tui/command_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tui/command_keep.h"
#include "tui/command_terminal.h"

enum { FROM = RELAY_FROM, TO = RELAY_TO, OUT = RELAY_OUT, CONTROL = RELAY_CONTROL, FIXED = RELAY_END - RELAY_FROM };
enum { DRAIN_MAX = 1 << 20, LEAF_TRIES = 50, LEAF_MS = 20, ASK_MS = 2000 };
enum { PIPE_ROOM = 1 << 20, KEPT_MS = 100, SLOW_MS = 20, KEPT_LAST_MS = 10000, ANCESTORS = 64, SETTINGS_MS = 100 };
#define MS UINT64_C(1000000)
/* Flow: so many pieces in a row, each sooner than FLOW_GAP after the one before. Then pauses of PAUSE_MIN to PAUSE_MAX ns, halved each time
 * that so much was there (the pipe must not fill up), doubled when it was little. A terminal holds some KiB only. */
enum { FLOW_PIPE = 4, FLOW_PTY = 16, MUCH_PTY = 2048, PAUSE_MIN = 100000, PAUSE_MAX = 4000000, PAUSE_PTY = 1000000 };
#define FLOW_GAP (4 * MS)
static const char erase_line[] = "\r\033[K";

/* The relay's own state. One a process, so it may be static: its signal handler needs it. */
static struct work {
        struct relay_shared *shared;
        int stream;
        bool pty, whole, control, place_lost, owed, slow; /* slow: what is owed waits for the disk; whole: command_terminal.h */
        bool unsettled;          /* the command's settings wait until it is in the foreground */
        char owed_answer;
        unsigned flow;           /* pieces in a row without silence between them */
        long pause_ns;
        pid_t recorder;
        uint64_t owed_bytes, last_end, gap_ns, last_ns, copied_ns, settings_ns;
        struct termios settings; /* the pty's, as seen last */
        char leaf[4096];
} work;
static volatile sig_atomic_t resized, continued;

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- in the relay --------------------------------------------------------------------------------------------------------------- */

static void on_signal(int number)
{
        if (number == SIGWINCH)
                resized = 1;
        else if (number == SIGCONT)
                continued = 1;
        else if (number < RELAY_SIGNALS)
                atomic_store(&work.shared->seen[number], now_ns());
}

/* The group's SIGWINCH may have reached the command before its terminal had the new size: tell it again. */
static void resize(void)
{
        struct winsize real, ours;

        resized = 0;
        if (work.whole)
                terminal_resize();
        if (!work.pty || work.whole || ioctl(TO, TIOCGWINSZ, &real) < 0 || ioctl(FROM, TIOCGWINSZ, &ours) < 0)
                return;
        if (memcmp(&real, &ours, sizeof real) == 0)
                return;
        if (ioctl(FROM, TIOCSWINSZ, &real) == 0)
                kill(0, SIGWINCH); /* comes back to us, and finds the sizes equal */
}

/* May the command have its terminal? A command in the background would be stopped for it. A shell that is recorded puts its jobs, which
 * descend from the recorder, in the foreground. A place that is not the controlling terminal has none. */
static bool in_foreground(void)
{
        pid_t front = tcgetpgrp(TO);

        if (front < 0)
                return errno == ENOTTY;
        if (front == getpgrp())
                return true;
        for (int i = 0; i < ANCESTORS && front > 1; i++, front = leader_parent_of(front))
                if (front == work.recorder)
                        return true;
        return false;
}

/* The command changed its terminal's settings by descriptor 1 or 2 (a full-screen program): the keys come from the real one.
 * Post-processing is off in ours, so that bytes are not changed twice; a program that takes its keys raw is shown that, and gets it. */
static void follow_settings(void)
{
        struct termios ours, real;

        work.unsettled = false;
        if (work.whole || tcgetattr(FROM, &ours) < 0 || memcmp(&ours, &work.settings, sizeof ours) == 0)
                return;
        work.settings_ns = now_ns();
        work.unsettled = !in_foreground();
        if (work.unsettled)
                return;
        work.settings = ours;
        if (tcgetattr(TO, &real) < 0)
                return;
        real.c_iflag = ours.c_iflag;
        real.c_lflag = ours.c_lflag & ~(tcflag_t)EXTPROC;
        memcpy(real.c_cc, ours.c_cc, sizeof real.c_cc);
        if (ours.c_lflag & ICANON)
                real.c_oflag |= OPOST;
        else
                real.c_oflag = (real.c_oflag & ~(tcflag_t)OPOST) | (ours.c_oflag & OPOST);
        tcsetattr(TO, TCSADRAIN, &real);
}

/* Keep every second entry: a long run has a coarser index, not a cut one. */
static uint32_t thin(struct relay_entry *index, uint32_t count)
{
        for (uint32_t i = 0; i < count / 2; i++)
                index[i] = index[2 * i];
        work.gap_ns *= 2;
        return count / 2;
}

static void note_chunk(uint64_t offset, uint64_t length, uint64_t now)
{
        struct relay_entry *index = work.shared->index[work.stream];
        uint32_t count = atomic_load(&work.shared->count[work.stream]);

        bool same = count > 0 && work.last_end == offset && now - work.last_ns < work.gap_ns;
        work.last_end = offset + length;
        if (same)
                return;
        if (count == RELAY_INDEX)
                count = thin(index, count);
        index[count] = (struct relay_entry){ now, offset };
        work.last_ns = now;
        atomic_store(&work.shared->count[work.stream], count + 1);
}

static void not_kept(int error)
{
        atomic_store(&work.shared->file_error, error);
}

static void keep(const char *bytes, size_t length, uint64_t now)
{
        if (atomic_load(&work.shared->file_error) != 0)
                return;
        uint64_t offset = atomic_fetch_add(&work.shared->offset, length);
        if (offset + length > RELAY_FILE_MAX) {
                not_kept(EFBIG);
                return;
        }
        keep_piece(bytes, length, offset);
        note_chunk(offset, length, now);
}

/* What the place does not take: a reader that left ends the relay, and with it the command's pipe, as it would have been without us. Any
 * other failure (a full disk) is said by the recorder; the command goes on. */
static void pass(const char *bytes, size_t length)
{
        for (size_t done = 0; done < length && !work.place_lost;) {
                ssize_t n = write(TO, bytes + done, length - done);
                if (n >= 0)
                        done += (size_t)n;
                else if (errno == EAGAIN)
                        poll(&(struct pollfd){ .fd = TO, .events = POLLOUT }, 1, -1);
                else if (errno == EPIPE && !work.pty) {
                        close(FROM);
                        keep_flush(KEPT_LAST_MS);
                        _exit(0);
                } else if (errno != EINTR) {
                        atomic_store(&work.shared->place_error[work.stream], errno);
                        work.place_lost = true;
                }
        }
}

/* While output flows: sleep, unless something is asked of us. `much`: so much was there that the pipe may be full before we wake. */
static void pause_in_flow(bool much)
{
        uint64_t now = now_ns();
        long most = work.pty ? PAUSE_PTY : PAUSE_MAX;

        work.flow = now - work.copied_ns < FLOW_GAP ? work.flow + 1 : 0;
        work.copied_ns = now;
        if (work.flow == 0)
                work.pause_ns = most;
        if (work.flow < (work.pty ? FLOW_PTY : FLOW_PIPE) || work.owed)
                return;
        if (much && !work.pty)
                work.pause_ns /= 2;
        if (much)
                return;
        struct pollfd fd = { .fd = work.control ? CONTROL : -1, .events = POLLIN };
        if (work.pause_ns >= PAUSE_MIN)
                ppoll(&fd, 1, &(struct timespec){ .tv_nsec = work.pause_ns }, NULL);
        work.pause_ns = work.pause_ns < PAUSE_MIN ? PAUSE_MIN : work.pause_ns * 2 < most ? work.pause_ns * 2 : most;
        work.copied_ns = now_ns();
}

/* A whole terminal puts \r before \n, which is not what the command said. */
static void keep_plain(char *bytes, size_t length, uint64_t now)
{
        if (work.whole)
                bytes = terminal_plain(bytes, &length);
        if (length > 0)
                keep(bytes, length, now);
}

/* False: the last writer is gone. */
static bool copy(void)
{
        /* One byte in front: the packet's kind, or room for terminal_plain. */
        size_t skip = work.pty ? 1 : 0, lead = work.whole ? 1 : 0;
        char *buffer = keep_room();

        ssize_t n = read(FROM, buffer + lead, KEEP_PIECE - lead);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return true;
        if (n <= 0)
                return false; /* a pty says EIO */
        if (work.pty && !work.whole && buffer[0] != TIOCPKT_DATA) {
                follow_settings();
                return true;
        }
        if (work.unsettled && now_ns() - work.settings_ns > SETTINGS_MS * MS)
                follow_settings();
        size_t length = (size_t)n + lead - skip;
        uint64_t now = now_ns();
        if (!work.whole)
                keep(buffer + skip, length, now);
        if (atomic_load(&work.shared->progress) && atomic_exchange(&work.shared->progress, false))
                pass(erase_line, sizeof erase_line - 1);
        pass(buffer + skip, length);
        if (work.whole)
                keep_plain(buffer + skip, length, now);
        atomic_fetch_add(&work.shared->bytes[work.stream], length);
        work.owed_bytes += length;
        pause_in_flow(n >= (work.pty ? MUCH_PTY : KEEP_PIECE));
        return true;
}

/* What is asked, a byte, is answered with the same byte: an answer that comes too late is not taken for the next one. */
static void answer(void)
{
        char byte;

        if (work.owed && !keep_flush(work.slow ? 0 : KEPT_MS)) {
                work.slow = true; /* a disk that hangs must not hold up the output */
                return;
        }
        work.slow = false;
        if (work.owed)
                send(CONTROL, &work.owed_answer, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        work.owed = false;
        ssize_t n = recv(CONTROL, &byte, 1, MSG_DONTWAIT);
        if (n == 1) {
                work.owed = true;
                work.owed_answer = byte;
                work.owed_bytes = 0;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                work.control = false; /* the recorder is gone: only the command counts now */
        }
}

static void work_until_the_end(void)
{
        for (;;) {
                struct pollfd fds[2 + TERMINAL_FDS] = { { .fd = FROM, .events = POLLIN | POLLPRI },
                        { .fd = work.control ? CONTROL : -1, .events = POLLIN } };
                if (work.whole)
                        terminal_fds(fds + 2);
                int wait_ms = work.owed ? work.slow ? SLOW_MS : 0 : work.whole ? terminal_wait_ms() : -1;
                int n = poll(fds, work.whole ? 2 + TERMINAL_FDS : 2, wait_ms);
                if (resized)
                        resize();
                if (continued) {
                        continued = 0;
                        follow_settings();
                }
                if (n < 0 && errno != EINTR)
                        return;
                if (n < 0)
                        continue;
                if (work.whole)
                        terminal_run(fds + 2);
                if (fds[0].revents != 0 && !copy())
                        return;
                /* Answered when nothing was there to read, or so much was copied since that what was asked about must be through. */
                if ((work.owed && (fds[0].revents == 0 || work.owed_bytes > DRAIN_MAX)) || fds[1].revents != 0)
                        answer();
        }
}

static void set_signals(void)
{
        static const int noted[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };
        struct sigaction action = { .sa_handler = on_signal };
        sigset_t blocked;

        for (size_t i = 0; i < sizeof noted / sizeof *noted; i++)
                sigaction(noted[i], &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a limit on files ends the copy; a pipe has none */
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTTOU); /* writing is allowed then */
        sigaddset(&blocked, SIGTTIN);
        sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* The descriptors it works with at fixed numbers (-1: none); nothing else of ours or the command's stays open here. */
static bool set_descriptors(int given[FIXED])
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int i = 0; i < FIXED; i++)
                if ((given[i] = fcntl(given[i] >= 0 ? given[i] : null, F_DUPFD_CLOEXEC, RELAY_END + FIXED)) < 0)
                        return false;
        null = fcntl(null, F_DUPFD_CLOEXEC, RELAY_END + FIXED);
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return false;
        for (int i = 0; i < FIXED; i++)
                if (dup2(given[i], FROM + i) < 0)
                        return false;
#ifdef SYS_close_range
        if (syscall(SYS_close_range, RELAY_END, ~0u, 0) == 0)
                return true;
#endif
        for (int fd = RELAY_END; fd < 65536; fd++)
                close(fd);
        return true;
}

static _Noreturn void become_relay(const struct work *as)
{
        int r;

        work = *as;
        prctl(PR_SET_NAME, "watop-relay");
        set_signals();
        if (work.whole)
                terminal_begin(work.shared);
        else if (work.pty)
                tcgetattr(FROM, &work.settings);
        fcntl(FROM, F_SETFL, fcntl(FROM, F_GETFL) | O_NONBLOCK);
        if (atomic_load(&work.shared->file_error) == 0 && (r = keep_start(OUT, not_kept)) < 0)
                not_kept(-r);
        work_until_the_end();
        if (work.whole) {
                terminal_over();
                keep_plain(keep_room() + 1, 0, now_ns());
        } else if (work.pty) {
                follow_settings();
        }
        close(TO); /* whoever reads it sees the end, even if the copy's disk hangs */
        close(FROM);
        keep_flush(KEPT_LAST_MS);
        /* Refused while somebody is in it; a task that ends closes its files a moment before it leaves. */
        bool left = getppid() != work.recorder; /* else the recorder removes it, when it has read its CPU time */
        for (int i = 0; left && work.leaf[0] != '\0' && i < LEAF_TRIES && rmdir(work.leaf) < 0 && errno == EBUSY; i++)
                poll(NULL, 0, LEAF_MS);
        _exit(0);
}

/* ---- in the recorder -------------------------------------------------------------------------------------------------------------- */

/* A terminal like the real one. Unless it is a whole one, no packet gets lost: EXTPROC makes the kernel tell the master of every change of
 * settings. */
static int open_pty(int place, bool whole, int *from, int *write_fd)
{
        struct termios settings;
        struct winsize size;
        int yes = 1;

        *from = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (*from < 0)
                return -errno;
        *write_fd = -1;
        if (grantpt(*from) < 0 || unlockpt(*from) < 0 || (*write_fd = ioctl(*from, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
                goto failed;
        if (tcgetattr(place, &settings) == 0) {
                if (!whole) {
                        settings.c_oflag &= ~(tcflag_t)OPOST;
                        settings.c_lflag |= EXTPROC;
                }
                if (tcsetattr(*write_fd, TCSANOW, &settings) < 0)
                        goto failed;
        }
        if (ioctl(place, TIOCGWINSZ, &size) == 0)
                ioctl(*from, TIOCSWINSZ, &size);
        if (whole || ioctl(*from, TIOCPKT, &yes) == 0)
                return 0;
failed:;
        int r = -errno;
        close(*from);
        if (*write_fd >= 0)
                close(*write_fd);
        return r;
}

static int open_pipe(int *from, int *write_fd)
{
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        fcntl(pair[0], F_SETPIPE_SZ, PIPE_ROOM); /* where it may not be so large, pauses are shorter */
        *from = pair[0];
        *write_fd = pair[1];
        return 0;
}

/* Both ends of the relay's, and ours. */
static int connect_terminal(struct relay *relay, int theirs[2])
{
        int ask[2], link[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ask) < 0)
                return -errno;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0) {
                int r = -errno;
                close(ask[0]);
                close(ask[1]);
                return r;
        }
        relay->ask = ask[0];
        relay->link = link[0];
        theirs[0] = ask[1];
        theirs[1] = link[1];
        return 0;
}

static pid_t fork_relay(struct relay *relay, int place, int given[FIXED], const char *leaf)
{
        struct work as = { .shared = relay->shared, .stream = relay->count, .pty = isatty(place), .whole = relay->whole, .control = true,
                .gap_ns = MS, .recorder = getpid() };

        if (leaf != NULL)
                snprintf(as.leaf, sizeof as.leaf, "%s", leaf);
        pid_t pid = fork();
        if (pid != 0)
                return pid < 0 ? -errno : pid;
        if (!set_descriptors(given))
                _exit(1);
        become_relay(&as);
}

static int start_stream(struct relay *relay, int place, int out_fd, const char *leaf)
{
        struct relay_stream *stream = &relay->streams[relay->count];
        int from = -1, pair[2], theirs[2] = { -1, -1 };

        int r = isatty(place) ? open_pty(place, relay->whole, &from, &stream->write_fd) : open_pipe(&from, &stream->write_fd);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                r = -errno;
                close(from);
                close(stream->write_fd);
                return r;
        }
        if (relay->whole)
                r = connect_terminal(relay, theirs);
        pid_t pid = r < 0 ? r : fork_relay(relay, place,
                (int[FIXED]){ from, place, out_fd, pair[1], relay->whole ? STDIN_FILENO : -1, theirs[0], theirs[1] }, leaf);
        close(from);
        close(pair[1]);
        for (int i = 0; i < 2; i++)
                if (theirs[i] >= 0)
                        close(theirs[i]);
        if (pid < 0) {
                close(pair[0]);
                close(stream->write_fd);
                return pid;
        }
        stream->pid = pid;
        stream->control = pair[0];
        stream->place = place;
        relay->command_fd[place] = stream->write_fd;
        relay->count++;
        return 0;
}

/* The same file, pipe or terminal: one relay keeps the order of what is written. */
static bool same_place(void)
{
        struct stat one, two;

        if (fstat(STDOUT_FILENO, &one) < 0 || fstat(STDERR_FILENO, &two) < 0)
                return false;
        return one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

int relay_start(struct relay *relay, int out_fd, const char *leaf)
{
        *relay = (struct relay){ .command_fd = { -1, -1, -1 }, .ask = -1, .link = -1, .terminal = isatty(STDERR_FILENO),
                .whole = terminal_whole() };
        relay->shared = mmap(NULL, sizeof *relay->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (relay->shared == MAP_FAILED) {
                relay->shared = NULL;
                return -errno;
        }
        if (out_fd < 0)
                atomic_store(&relay->shared->file_error, EBADF);
        int r = start_stream(relay, STDOUT_FILENO, out_fd, leaf);
        if (r == 0 && same_place())
                relay->command_fd[STDERR_FILENO] = relay->command_fd[STDOUT_FILENO];
        else if (r == 0)
                r = start_stream(relay, STDERR_FILENO, out_fd, leaf);
        if (relay->whole)
                relay->command_fd[STDIN_FILENO] = relay->command_fd[STDOUT_FILENO];
        if (r < 0)
                relay_close(relay);
        return r;
}

void relay_no_more(struct relay *relay)
{
        for (int i = 0; i < relay->count; i++) {
                if (relay->streams[i].write_fd >= 0)
                        close(relay->streams[i].write_fd);
                relay->streams[i].write_fd = -1;
        }
}

/* False: no answer in time. */
static bool ask_and_wait(int control, char question, uint64_t until)
{
        char byte;

        if (send(control, &question, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
                return true; /* it ended: everything was copied */
        for (;;) {
                uint64_t now = now_ns();
                struct pollfd fd = { .fd = control, .events = POLLIN };
                int n = now < until ? poll(&fd, 1, (int)((until - now) / MS) + 1) : 0;
                if (n == 0)
                        return false;
                if (n < 0 && errno != EINTR)
                        return true;
                if (n < 0)
                        continue;
                ssize_t got = recv(control, &byte, 1, MSG_DONTWAIT);
                if (got == 0 || (got == 1 && byte == question) || (got < 0 && errno != EAGAIN && errno != EINTR))
                        return true;
        }
}

bool relay_drain(struct relay *relay, int timeout_ms)
{
        uint64_t until = now_ns() + (uint64_t)timeout_ms * MS;
        bool drained = true;

        relay->question++;
        for (int i = 0; i < relay->count; i++)
                drained &= ask_and_wait(relay->streams[i].control, (char)relay->question, until);
        return drained;
}

void relay_ask(struct relay *relay, char what)
{
        if (!relay->whole)
                return;
        ask_and_wait(relay->ask, what, now_ns() + ASK_MS * MS);
        if (what != TERMINAL_FRONT) /* the relay has; but it may have been killed */
                terminal_restore(relay->shared, STDIN_FILENO);
}

uint64_t relay_cpu_ns(const struct relay *relay)
{
        uint64_t sum = 0;

        for (int i = 0; i < relay->count; i++) {
                clockid_t clock;
                struct timespec t;
                if (relay->streams[i].pid > 0 && clock_getcpuclockid(relay->streams[i].pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
                        sum += (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
        }
        return sum;
}

void relay_close(struct relay *relay)
{
        relay_no_more(relay);
        if (relay->whole && relay->ask >= 0)
                close(relay->ask);
        if (relay->whole && relay->link >= 0)
                close(relay->link);
        for (int i = 0; i < relay->count; i++) {
                close(relay->streams[i].control);
                waitpid(relay->streams[i].pid, NULL, WNOHANG);
        }
        if (relay->shared != NULL)
                munmap(relay->shared, sizeof *relay->shared);
        *relay = (struct relay){ .command_fd = { -1, -1, -1 }, .ask = -1, .link = -1 };
}

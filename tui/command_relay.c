/*
 * Relays. Contract: command_relay.h.
 *
 * A relay is in the command's process group, so what the terminal sends to the group reaches it too: keys are for the command, so it does
 * nothing on them (stopped with the group, it would not take what a program that is not stopped writes) and only notes which signals came
 * (the recorder passes on those that the command did not get by itself).
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

enum { FROM = 3, TO = 4, OUT = 5, CONTROL = 6, END = 7, CHUNK = 65536, DRAIN_MAX = 1 << 20, LEAF_TRIES = 50, LEAF_MS = 20 };
static const char erase_line[] = "\r\033[K";

/* The relay's own state. One a process, so it may be static: its signal handler needs it. */
static struct work {
        struct relay_shared *shared;
        int stream;
        bool pty, control, place_lost, owed;
        uint64_t owed_bytes, last_end, gap_ns, last_ns;
        struct termios settings; /* the pty's, as seen last */
        char leaf[4096];
} work;
static volatile sig_atomic_t resized;

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
        else if (number < RELAY_SIGNALS)
                atomic_store(&work.shared->seen[number], now_ns());
}

/* The group's SIGWINCH may have reached the command before its terminal had the new size: tell it again. */
static void resize(void)
{
        struct winsize real, ours;

        resized = 0;
        if (!work.pty || ioctl(TO, TIOCGWINSZ, &real) < 0 || ioctl(FROM, TIOCGWINSZ, &ours) < 0)
                return;
        if (memcmp(&real, &ours, sizeof real) == 0)
                return;
        if (ioctl(FROM, TIOCSWINSZ, &real) == 0)
                kill(0, SIGWINCH); /* comes back to us, and finds the sizes equal */
}

/* The command changed its terminal's settings by descriptor 1 or 2 (a full-screen program): the keys come from the real one.
 * Post-processing is
 * off in ours, so that bytes are not changed twice; a program that takes its keys raw is shown that, and gets it. */
static void follow_settings(void)
{
        struct termios ours, real;

        if (tcgetattr(FROM, &ours) < 0 || memcmp(&ours, &work.settings, sizeof ours) == 0)
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

static void keep(const char *bytes, size_t length)
{
        uint64_t now = now_ns();

        if (atomic_load(&work.shared->file_error) != 0)
                return;
        uint64_t offset = atomic_fetch_add(&work.shared->offset, length);
        if (offset + length > RELAY_FILE_MAX) {
                atomic_store(&work.shared->file_error, EFBIG);
                return;
        }
        for (size_t done = 0; done < length;) {
                ssize_t n = pwrite(OUT, bytes + done, length - done, (off_t)(offset + done));
                if (n > 0)
                        done += (size_t)n;
                else if (n == 0 || errno != EINTR) {
                        atomic_store(&work.shared->file_error, n == 0 ? EIO : errno);
                        return;
                }
        }
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
                else if (errno == EPIPE && !work.pty)
                        _exit(0);
                else if (errno != EINTR) {
                        atomic_store(&work.shared->place_error[work.stream], errno);
                        work.place_lost = true;
                }
        }
}

/* False: the last writer is gone. */
static bool copy(void)
{
        static char buffer[CHUNK];
        size_t skip = work.pty ? 1 : 0;

        ssize_t n = read(FROM, buffer, sizeof buffer);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return true;
        if (n <= 0)
                return false; /* a pty says EIO */
        if (work.pty && buffer[0] != TIOCPKT_DATA) {
                follow_settings();
                return true;
        }
        size_t length = (size_t)n - skip;
        keep(buffer + skip, length);
        if (atomic_load(&work.shared->progress) && atomic_exchange(&work.shared->progress, false))
                pass(erase_line, sizeof erase_line - 1);
        pass(buffer + skip, length);
        atomic_fetch_add(&work.shared->bytes[work.stream], length);
        work.owed_bytes += length;
        return true;
}

static void answer(void)
{
        char byte;

        if (work.owed)
                send(CONTROL, "D", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        work.owed = false;
        ssize_t n = recv(CONTROL, &byte, 1, MSG_DONTWAIT);
        if (n == 1) {
                work.owed = true;
                work.owed_bytes = 0;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                work.control = false; /* the recorder is gone: only the command counts now */
        }
}

static void work_until_the_end(void)
{
        for (;;) {
                struct pollfd fds[2] = { { .fd = FROM, .events = POLLIN | POLLPRI },
                        { .fd = work.control ? CONTROL : -1, .events = POLLIN } };
                int n = poll(fds, 2, work.owed ? 0 : -1);
                if (resized)
                        resize();
                if (n < 0 && errno != EINTR)
                        return;
                if (n < 0)
                        continue;
                if (fds[0].revents != 0 && !copy())
                        return;
                /* Answered when nothing was there to read, or so much was copied since that what was asked about must be through. */
                if ((work.owed && (fds[0].revents == 0 || work.owed_bytes > DRAIN_MAX)) || fds[1].revents != 0)
                        answer();
        }
}

static void set_signals(void)
{
        static const int noted[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH };
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

/* The descriptors it works with at fixed numbers; nothing else of ours or the command's stays open here. */
static bool set_descriptors(int from, int to, int out, int control)
{
        int given[4] = { from, to, out, control }, null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (out < 0)
                given[2] = null;
        for (int i = 0; i < 4; i++)
                if ((given[i] = fcntl(given[i], F_DUPFD_CLOEXEC, END + 4)) < 0)
                        return false;
        null = fcntl(null, F_DUPFD_CLOEXEC, END + 4);
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return false;
        for (int i = 0; i < 4; i++)
                if (dup2(given[i], FROM + i) < 0)
                        return false;
#ifdef SYS_close_range
        if (syscall(SYS_close_range, END, ~0u, 0) == 0)
                return true;
#endif
        for (int fd = END; fd < 65536; fd++)
                close(fd);
        return true;
}

static _Noreturn void become_relay(struct relay_shared *shared, int stream, bool pty, const char *leaf)
{
        work = (struct work){ .shared = shared, .stream = stream, .pty = pty, .control = true, .gap_ns = 1000000 };
        if (leaf != NULL)
                snprintf(work.leaf, sizeof work.leaf, "%s", leaf);
        prctl(PR_SET_NAME, "watop-relay");
        set_signals();
        if (pty)
                tcgetattr(FROM, &work.settings);
        fcntl(FROM, F_SETFL, fcntl(FROM, F_GETFL) | O_NONBLOCK);
        work_until_the_end();
        if (pty)
                follow_settings();
        /* Refused while somebody is in it; a task that ends closes its files a moment before it leaves. */
        for (int i = 0; work.leaf[0] != '\0' && i < LEAF_TRIES && rmdir(work.leaf) < 0 && errno == EBUSY; i++)
                poll(NULL, 0, LEAF_MS);
        _exit(0);
}

/* ---- in the recorder -------------------------------------------------------------------------------------------------------------- */

/* A terminal like the real one. No packet gets lost: EXTPROC makes the kernel tell the master of every change of settings. */
static int open_pty(int place, int *from, int *write_fd)
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
                settings.c_oflag &= ~(tcflag_t)OPOST;
                settings.c_lflag |= EXTPROC;
                if (tcsetattr(*write_fd, TCSANOW, &settings) < 0)
                        goto failed;
        }
        if (ioctl(place, TIOCGWINSZ, &size) == 0)
                ioctl(*from, TIOCSWINSZ, &size);
        if (ioctl(*from, TIOCPKT, &yes) == 0)
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
        *from = pair[0];
        *write_fd = pair[1];
        return 0;
}

static int start_stream(struct relay *relay, int place, int out_fd, const char *leaf)
{
        struct relay_stream *stream = &relay->streams[relay->count];
        int from = -1, pair[2];
        bool pty = isatty(place);

        int r = pty ? open_pty(place, &from, &stream->write_fd) : open_pipe(&from, &stream->write_fd);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                r = -errno;
                close(from);
                close(stream->write_fd);
                return r;
        }
        pid_t pid = fork();
        if (pid == 0) {
                if (!set_descriptors(from, place, out_fd, pair[1]))
                        _exit(1);
                become_relay(relay->shared, relay->count, pty, leaf);
        }
        r = pid < 0 ? -errno : 0;
        close(from);
        close(pair[1]);
        if (r < 0) {
                close(pair[0]);
                close(stream->write_fd);
                return r;
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
        *relay = (struct relay){ .command_fd = { -1, -1, -1 }, .terminal = isatty(STDERR_FILENO) };
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

static bool drain_one(const struct relay_stream *stream, uint64_t until)
{
        char byte;

        if (send(stream->control, "d", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
                return true; /* it ended: everything was copied */
        for (;;) {
                uint64_t now = now_ns();
                struct pollfd fd = { .fd = stream->control, .events = POLLIN };
                int n = now < until ? poll(&fd, 1, (int)((until - now) / 1000000) + 1) : 0;
                if (n > 0)
                        return recv(stream->control, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
                if (n == 0)
                        return false;
                if (errno != EINTR)
                        return true;
        }
}

bool relay_drain(struct relay *relay, int timeout_ms)
{
        uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000;
        bool drained = true;

        for (int i = 0; i < relay->count; i++)
                drained &= drain_one(&relay->streams[i], until);
        return drained;
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
        for (int i = 0; i < relay->count; i++) {
                close(relay->streams[i].control);
                waitpid(relay->streams[i].pid, NULL, WNOHANG);
        }
        if (relay->shared != NULL)
                munmap(relay->shared, sizeof *relay->shared);
        *relay = (struct relay){ .command_fd = { -1, -1, -1 } };
}

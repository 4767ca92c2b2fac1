/*
 * The real terminal and its keys, in the relay. Contract: command_terminal.h.
 *
 * The real terminal is read only after a look at who has it. It is set back only if its settings are still those that we made: the shell of
 * a recorder that was killed may have been faster.
 */
#include "tui/command_terminal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

/* `fg` of a job that runs sends no signal: looked for in this interval, in the background only. */
enum { LOOK_MS = 200, LEADER_MS = 500 };

static struct {
        struct relay_shared *shared;
        bool wanted, front;   /* the command may have it; it has it */
        bool lost, ask;       /* the real one is gone; the recorder is there */
        bool leader, carry;   /* a leader listens; a piece ended in \r */
        char keys[4096];      /* read and not fed yet */
        size_t length, at;
        struct termios copied; /* the pty's settings that are not the command's: those of the real one when the pty got them */
} terminal;

void terminal_begin(struct relay_shared *shared)
{
        tcgetattr(RELAY_FROM, &terminal.copied);
        terminal.shared = shared;
        terminal.ask = true;
}

/* ---- the session ---------------------------------------------------------------------------------------------------------------- */

static void tell_leader(char what)
{
        struct pollfd fd = { .fd = RELAY_LINK, .events = POLLIN };
        char byte;

        while (recv(RELAY_LINK, &byte, 1, MSG_DONTWAIT) == 1)
                terminal.leader = true; /* its greeting */
        if (!terminal.leader || send(RELAY_LINK, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
                return;
        if (poll(&fd, 1, LEADER_MS) > 0 && recv(RELAY_LINK, &byte, 1, MSG_DONTWAIT) != 1)
                terminal.leader = false;
}

/* ---- the real terminal ---------------------------------------------------------------------------------------------------------- */

void terminal_resize(void)
{
        struct winsize real, ours;

        /* The kernel tells those who have the pty. */
        if (ioctl(RELAY_KEYS, TIOCGWINSZ, &real) == 0 && ioctl(RELAY_FROM, TIOCGWINSZ, &ours) == 0 &&
            memcmp(&real, &ours, sizeof real) != 0)
                ioctl(RELAY_FROM, TIOCSWINSZ, &real);
}

static bool ours_to_read(void)
{
        return tcgetpgrp(RELAY_KEYS) == getpgrp();
}

/* What the pty's line discipline does the real one must not do as well. */
static bool make_raw(void)
{
        struct termios raw;

        if (tcgetattr(RELAY_KEYS, &terminal.shared->kept) < 0)
                return false;
        raw = terminal.shared->kept;
        cfmakeraw(&raw);
        if (tcsetattr(RELAY_KEYS, TCSANOW, &raw) < 0 || tcgetattr(RELAY_KEYS, &terminal.shared->raw) < 0)
                return false;
        atomic_store(&terminal.shared->changed, true);
        return true;
}

static bool same_settings(const struct termios *a, const struct termios *b)
{
        return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag && a->c_lflag == b->c_lflag &&
                memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

void terminal_restore(struct relay_shared *shared, int fd)
{
        struct termios now;

        if (atomic_exchange(&shared->changed, false) && tcgetattr(fd, &now) == 0 && same_settings(&now, &shared->raw))
                tcsetattr(fd, TCSANOW, &shared->kept);
}

/* What the shell has set for its job, unless the command has its own. In the background they were those of the shell's prompt. */
static void copy_settings(void)
{
        struct termios now;

        if (tcgetattr(RELAY_FROM, &now) < 0 || !same_settings(&now, &terminal.copied))
                return;
        if (tcsetattr(RELAY_FROM, TCSANOW, &terminal.shared->kept) == 0)
                tcgetattr(RELAY_FROM, &terminal.copied);
}

static void come_to_front(void)
{
        if (terminal.front || !terminal.wanted || terminal.lost || !ours_to_read() || !make_raw())
                return;
        terminal.front = true;
        atomic_store(&terminal.shared->front, true);
        copy_settings();
        terminal_resize();
        tell_leader('f');
}

static void go_back(char what)
{
        bool had = terminal.front;

        terminal_restore(terminal.shared, RELAY_KEYS);
        terminal.front = false;
        atomic_store(&terminal.shared->front, false);
        if (had || what == 'w')
                tell_leader(what);
}

/* The real one is gone, or the recorder: who waits for keys sees the end of them, and an error when it asks again. */
static void no_more_keys(void)
{
        struct termios now;

        go_back('w');
        if (tcgetattr(RELAY_FROM, &now) == 0 && now.c_cc[VEOF] != _POSIX_VDISABLE && write(RELAY_FROM, &now.c_cc[VEOF], 1) < 0)
                return;
}

void terminal_over(void)
{
        terminal.wanted = false;
        terminal.length = terminal.at = 0;
        go_back('w');
        terminal.leader = false;
}

/* ---- keys ----------------------------------------------------------------------------------------------------------------------- */

static void feed(void)
{
        while (terminal.at < terminal.length) {
                ssize_t n = write(RELAY_FROM, terminal.keys + terminal.at, terminal.length - terminal.at);
                if (n <= 0)
                        return; /* full: nobody reads it */
                terminal.at += (size_t)n;
        }
        terminal.length = terminal.at = 0;
}

static void read_keys(void)
{
        if (!ours_to_read()) {
                go_back('b');
                return;
        }
        ssize_t n = read(RELAY_KEYS, terminal.keys, sizeof terminal.keys);
        if (n > 0) {
                terminal.length = (size_t)n;
                feed();
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
                terminal.lost = true;
                no_more_keys();
        }
}

/* ---- the relay's loop ----------------------------------------------------------------------------------------------------------- */

void terminal_fds(struct pollfd fds[TERMINAL_FDS])
{
        bool full = terminal.length > 0;

        /* A key that came before the command has its terminal would make a signal for nobody. */
        fds[0] = (struct pollfd){ .fd = terminal.front && terminal.leader && !full ? RELAY_KEYS : -1, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = terminal.front && full ? RELAY_FROM : -1, .events = POLLOUT };
        fds[2] = (struct pollfd){ .fd = terminal.ask ? RELAY_ASK : -1, .events = POLLIN };
        fds[3] = (struct pollfd){ .fd = terminal.ask && !terminal.leader ? RELAY_LINK : -1, .events = POLLIN };
}

int terminal_wait_ms(void)
{
        return terminal.wanted && !terminal.front && !terminal.lost ? LOOK_MS : -1;
}

static void answer(void)
{
        char what;

        ssize_t n = recv(RELAY_ASK, &what, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n != 1) {
                terminal.ask = false;
                no_more_keys();
                terminal_over();
                return;
        }
        if (what == TERMINAL_OVER)
                terminal_over();
        terminal.wanted = what == TERMINAL_FRONT;
        if (what == TERMINAL_BACK)
                go_back('b');
        come_to_front();
        send(RELAY_ASK, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Its command is there, the terminal may have moved meanwhile. */
static void greet(void)
{
        tell_leader(terminal.front ? 'f' : terminal.wanted ? 'b' : 'w');
        terminal.leader = terminal.leader && terminal.wanted;
}

void terminal_run(const struct pollfd fds[TERMINAL_FDS])
{
        if (fds[3].fd >= 0 && fds[3].revents != 0)
                greet();
        if (fds[2].fd >= 0 && fds[2].revents != 0)
                answer();
        else if (terminal.wanted && !terminal.front)
                come_to_front();
        if (fds[1].fd >= 0 && fds[1].revents & POLLOUT)
                feed();
        if (terminal.front && fds[0].fd >= 0 && fds[0].revents != 0)
                read_keys();
}

char *terminal_plain(char *bytes, size_t *length)
{
        char *from = bytes, *end = bytes + *length, *to;

        if (terminal.carry)
                *--from = '\r';
        terminal.carry = end > from && end[-1] == '\r';
        if (terminal.carry)
                end--;
        to = memchr(from, '\r', (size_t)(end - from));
        if (to == NULL)
                to = end;
        for (const char *at = to; at < end; at++)
                if (*at != '\r' || at + 1 == end || at[1] != '\n')
                        *to++ = *at;
        *length = (size_t)(to - from);
        return from;
}

/*
 * The leader of the command's session, and its companion. Contract: command_terminal.h.
 *
 * The command is made with CLONE_PARENT: by the leader, so within its session, and yet a child of the recorder, which waits for it as for
 * any. Both stay until the relay ends: a session without its leader has no terminal.
 */
#include "tui/command_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { ANCESTORS = 64, LINK = 3 };

bool terminal_whole(void)
{
        struct stat in, other;

        if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) < 0 || fstat(STDIN_FILENO, &in) < 0)
                return false;
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
                if (!isatty(fd) || fstat(fd, &other) < 0 || other.st_dev != in.st_dev || other.st_ino != in.st_ino)
                        return false;
        return (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_RDWR;
}

pid_t leader_parent_of(pid_t pid)
{
        char path[40], text[512], *at;

        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = '\0';
        at = strrchr(text, ')');
        return at != NULL && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

bool leader_stoppable(void)
{
        pid_t group = getpgrp(), pid = getppid();

        for (int i = 0; i < ANCESTORS && pid > 0; i++, pid = leader_parent_of(pid))
                if (getpgid(pid) != group)
                        return getsid(pid) == getsid(0);
        return false;
}

/* ---- in the leader and its companion --------------------------------------------------------------------------------------------- */

static void close_from(int first)
{
#ifdef SYS_close_range
        if (syscall(SYS_close_range, first, ~0u, 0) == 0)
                return;
#endif
        for (int fd = first; fd < 65536; fd++)
                close(fd);
}

/* What is for the command's group, or for the terminal's, is not for us. */
static void be_deaf(void)
{
        sigset_t none;

        prctl(PR_SET_NAME, "watop-relay");
        for (int number = 1; number < SIGRTMIN; number++)
                if (number != SIGCHLD)
                        signal(number, SIG_IGN);
        signal(SIGCHLD, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void be_companion(void)
{
        be_deaf();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_from(0);
        for (;;)
                pause();
}

struct lead {
        pid_t command, companion, front; /* front: the group that has the pty whenever we have the real terminal */
};

static void obey(struct lead *lead, char what)
{
        int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

        if (what == 'f') {
                if (tcsetpgrp(fd, lead->front) < 0)
                        tcsetpgrp(fd, lead->command);
        } else {
                pid_t front = tcgetpgrp(fd);
                if (front > 0 && front != getpgrp())
                        lead->front = front;
                tcsetpgrp(fd, getpgrp());
        }
        if (fd >= 0)
                close(fd);
        if (what != 'w' || lead->companion <= 0)
                return;
        kill(lead->companion, SIGKILL);
        waitpid(lead->companion, NULL, 0);
        lead->companion = 0;
}

static _Noreturn void lead_on(struct lead *lead, int link)
{
        char what;

        be_deaf();
        if (dup2(link, LINK) < 0)
                _exit(1);
        close(0);
        close(1);
        close(2);
        close_from(LINK + 1);
        for (;;) {
                ssize_t n = recv(LINK, &what, 1, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n != 1)
                        break;
                obey(lead, what);
                send(LINK, &what, 1, MSG_NOSIGNAL);
        }
        obey(lead, 'w');
        _exit(0);
}

/* In the command: its own group, which has the terminal if ours has. */
static void join_session(const struct relay *relay, int ready)
{
        setpgid(0, 0);
        if (atomic_load(&relay->shared->front))
                tcsetpgrp(relay->command_fd[STDIN_FILENO], getpid());
        close(ready);
}

/* As fork, but for the parent. The arguments that are not 0 change places on s390. */
static pid_t fork_sibling(void)
{
#ifdef __s390x__
        return (pid_t)syscall(SYS_clone, 0, CLONE_PARENT | SIGCHLD, 0, 0, 0);
#else
        return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
#endif
}

/* Returns in the command only. */
static void become_leader(const struct relay *relay, int tell, int born, bool companion)
{
        struct lead lead = { 0 };
        int ready[2];
        char byte = 'h';

        if (setsid() < 0 || ioctl(relay->command_fd[STDIN_FILENO], TIOCSCTTY, 0) < 0 || pipe2(ready, O_CLOEXEC) < 0)
                _exit(1);
        pid_t pid = fork_sibling();
        if (pid == 0) {
                join_session(relay, ready[1]);
                return;
        }
        close(tell);
        close(ready[1]);
        if (pid < 0 || write(born, &pid, sizeof pid) != (ssize_t)sizeof pid)
                _exit(1);
        close(born);
        while (read(ready[0], &byte, 1) < 0 && errno == EINTR)
                ;
        lead.command = lead.front = pid;
        lead.companion = companion ? fork() : 0;
        if (lead.companion == 0 && companion)
                be_companion();
        if (lead.companion > 0)
                setpgid(lead.companion, pid);
        byte = 'h';
        send(relay->link, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        lead_on(&lead, relay->link);
}

/* ---- in the recorder -------------------------------------------------------------------------------------------------------------- */

void leader_end(struct relay *relay)
{
        if (relay->leader <= 0)
                return;
        kill(relay->leader, SIGKILL);
        waitpid(relay->leader, NULL, 0);
        relay->leader = 0;
}

pid_t leader_fork(struct relay *relay, int tell)
{
        bool companion = leader_stoppable();
        pid_t command = -1;
        int born[2];

        leader_end(relay); /* that of the command before: a terminal controls one session */
        if (pipe2(born, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                become_leader(relay, tell, born[1], companion);
                return 0;
        }
        int r = pid < 0 ? -errno : 0;
        close(born[1]);
        ssize_t n = 0;
        while (r == 0 && (n = read(born[0], &command, sizeof command)) < 0 && errno == EINTR)
                ;
        close(born[0]);
        if (r < 0)
                return r;
        relay->leader = pid;
        if (n == (ssize_t)sizeof command)
                return command;
        leader_end(relay);
        return -EIO;
}

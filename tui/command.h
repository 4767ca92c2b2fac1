#pragma once
/*
 * The command that is recorded: started, signalled and waited for as if we were not there.
 *
 * It runs with our environment (and WATOP_MARK), inherited descriptors, signal mask and dispositions. Nothing of ours reaches it but what
 * stands for its standard output and error. Where all of its terminal is stood for (command_terminal.h), it has a session of its own, and
 * what is sent to our group is passed on to its group. Else it runs in our process group, on our terminal, with our standard input, and
 * what is sent to the group is its business. What is sent to us alone is passed on; when it is stopped by its terminal, so are we and our
 * group, for the shell to see.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tui/command_relay.h"

/* What main() found before it ignored SIGPIPE: the command gets it back. */
void command_keep_sigpipe(void (*was)(int));

struct command_signals {
        int fd;             /* a signalfd, for the watch */
        sigset_t was;       /* the mask that the command gets */
        bool terminal;      /* there is a controlling terminal */
};
/* From now on signals come through the descriptor; those that were ignored stay so, for us and for the command. alone: there will be no
 * command, and
 * SIGINT asks us to end even if a script that runs us in the background had it ignored. 0 or -errno. */
int command_take_signals(struct command_signals *, bool alone);
void command_give_signals(struct command_signals *);

struct command {
        _Atomic pid_t pid;  /* 0: none runs */
        pid_t started;      /* of the last one */
        bool stopped;
        int wait_status;    /* of the last one, as of waitpid */
        uint64_t end_ns;    /* when it was seen to have ended, CLOCK_MONOTONIC */
        uint64_t user_ns, system_ns; /* of the last one and the children it waited for */
};

enum command_event {
        COMMAND_NOTHING = 0,
        COMMAND_ENDED = 1,
        COMMAND_ASKED = 2, /* a signal asks to end: no command runs, or it is TERM or HUP and nothing is to come after this one */
};
/*
 * Who takes the signals: a thread of its own, because a log on a disk that hangs may hold up everything else, and what is meant for the
 * command must reach it all the same. It may stop this process until it is continued.
 */
struct command_watch {
        struct command *command;
        const struct command_signals *signals;
        struct relay *relay;
        pthread_t thread;
        pthread_mutex_t lock;     /* held to start a command, and while signals are handled */
        _Atomic unsigned events;
        int event_fd, stop_fd;    /* event_fd: readable, there are events; -1 no thread runs */
};
/* `relay` may be NULL. 0 or -errno. Nothing may fork after this but command_start. */
int command_watch_start(struct command_watch *, struct command *, const struct command_signals *, struct relay *);
/* What happened since the last call, of enum command_event. */
unsigned command_watch_events(struct command_watch *);
void command_watch_end(struct command_watch *);

/* Start it. join_fd: a cgroup.procs file it enters first, or -1. 0; -errno of what failed before exec; a positive errno of exec itself. */
int command_start(struct command_watch *, char *const argv[], int join_fd);
/* Exit status as a shell gives it: status, or 128 + signal. */
int command_status(int wait_status);

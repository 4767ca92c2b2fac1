#pragma once
/*
 * The command that is recorded: started, signalled and waited for as if we were not there.
 *
 * It runs in our process group, on our terminal, with our standard input, environment (and WATOP_MARK), inherited descriptors, signal mask
 * and dispositions. Nothing of ours reaches it but what stands for its standard output and error. What the terminal sends goes to the
 * whole group and is its business; what is sent to us alone is passed on; when it is stopped by its terminal, so are we, for the shell to
 * see.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tui/command_relay.h"

/* What main() found before it ignored SIGPIPE: the command gets it back. */
void command_keep_sigpipe(void (*was)(int));

struct command_signals {
        int fd;             /* readable: call command_handle_signals */
        sigset_t was;       /* the mask that the command gets */
        bool terminal;      /* there is a controlling terminal */
};
/* From now on signals come through the descriptor; those that were ignored stay so, for us and for the command. alone: there will be no
 * command, and
 * SIGINT asks us to end even if a script that runs us in the background had it ignored. 0 or -errno. */
int command_take_signals(struct command_signals *, bool alone);
void command_give_signals(struct command_signals *);

struct command {
        pid_t pid;          /* 0: none runs */
        bool stopped;
        int wait_status;    /* of the last one, as of waitpid */
        uint64_t user_ns, system_ns; /* of the last one and the children it waited for */
};

/* Start it. join_fd: a cgroup.procs file it enters first, or -1. 0; -errno of what failed before exec; a positive errno of exec itself. */
int command_start(struct command *, char *const argv[], const struct command_signals *, const struct relay *, int join_fd);

enum command_event {
        COMMAND_NOTHING = 0,
        COMMAND_ENDED = 1,
        COMMAND_ASKED = 2, /* a signal asks to end: no command runs, or it is TERM or HUP and nothing is to come after this one */
};
/* Signals that came, and what they mean; sets of enum command_event. May stop this process until it is continued. `relay` may be NULL. */
unsigned command_handle_signals(struct command *, const struct command_signals *, const struct relay *);
/* Exit status as a shell gives it: status, or 128 + signal. */
int command_status(int wait_status);

#pragma once
/*
 * The command's whole terminal: where standard input, output and error are one terminal and it is ours to control, the command gets a pty
 * for all of it, controlling terminal included, in a session of its own.
 *
 * So whoever asks the terminal for keys, by any of its names (a pager does by that of standard error), whoever sets it, or moves job groups
 * on it, finds what is there without us: the pty's line discipline echoes, edits lines and makes signals of keys. The real terminal is raw
 * meanwhile and its keys are fed on, but only while our process group has it: in the background nothing is taken from it, and whoever of
 * the command reads is stopped, as without us.
 *
 * Three parts. The relay feeds keys and sets the real terminal (command_terminal.c); it restores it, the recorder killed or not. The leader
 * (command_leader.c), a small process, is the session's: it starts the command as the recorder's child, and says which group has the pty.
 * The companion, its child in the command's group, is why the kernel lets Ctrl-Z stop that group: all parents of an orphaned group are
 * elsewhere, and it is never stopped. Where our own group is orphaned there is none.
 */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tui/command_relay.h"

/* A relay's descriptors. */
enum { RELAY_FROM = 3, RELAY_TO, RELAY_OUT, RELAY_CONTROL, RELAY_KEYS, RELAY_ASK, RELAY_LINK, RELAY_END };
enum { TERMINAL_FDS = 4 };
/* What the recorder asks, a byte, answered with itself. */
enum { TERMINAL_FRONT = 'f', TERMINAL_BACK = 'b', TERMINAL_OVER = 'o' };

/* ---- in the relay --------------------------------------------------------------------------------------------------------------- */
void terminal_begin(struct relay_shared *);
/* What to wait for besides the relay's own descriptors, and how long at most (-1: for ever). */
void terminal_fds(struct pollfd fds[TERMINAL_FDS]);
int terminal_wait_ms(void);
void terminal_run(const struct pollfd fds[TERMINAL_FDS]);
void terminal_resize(void);
/* The command's lines end as it wrote them. bytes[-1] may be written. Returns where they begin now. */
char *terminal_plain(char *bytes, size_t *length);
/* The recorder is gone, or the last writer: the terminal is the shell's again. */
void terminal_over(void);

/* ---- in the recorder ------------------------------------------------------------------------------------------------------------ */
/* Ours to control, and all three. */
bool terminal_whole(void);
/* A child of ours as fork makes it, but by the leader and within the session; `tell` is closed but in the child. 0 in the child, -errno. */
pid_t leader_fork(struct relay *, int tell);
/* Is there somebody outside of our group, but in our session, who can continue what Ctrl-Z stops? */
bool leader_stoppable(void);
void leader_end(struct relay *);
pid_t leader_parent_of(pid_t);

#pragma once
/*
 * Relays: what stands between a recorded command and the places its output goes to.
 *
 * The command writes into a pipe, or into a pty where the place is a terminal, so that isatty() says the same. A relay is a process of its
 * own, one a place: it copies every byte on unchanged, keeps a copy in the output file (command_keep.h) and notes when it came (to 5 ms
 * while much is written; the command must not wait for us). It outlives the recorder:
 * killed or not, the command's output goes on, and what a background process says after the command's end too. It ends with the last
 * writer.
 *
 * Where all three of ours are one terminal, the command gets a pty for the whole of it (command_terminal.h). Else it keeps its own
 * terminal: session, process group, /dev/tty, standard input, keys and job control are not touched, and only what it has as descriptors 1
 * and 2 is another terminal, whose size and settings are kept in step with the real one.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

enum { RELAY_STREAMS = 2, RELAY_INDEX = 32768, RELAY_SIGNALS = 65 };
#define RELAY_FILE_MAX (UINT64_C(1) << 30) /* bytes of the output file */

struct relay_entry {
        uint64_t mono_ns, offset; /* what begins there in the output file came then */
};

/* Memory that recorder and relays share; each relay has an index of its own, so nobody waits for anybody. */
struct relay_shared {
        _Atomic uint64_t offset;                /* next free byte of the output file */
        _Atomic int file_error, place_error[RELAY_STREAMS]; /* errno: the copy stopped; the place takes nothing more */
        _Atomic uint64_t bytes[RELAY_STREAMS];  /* copied so far */
        _Atomic uint64_t seen[RELAY_SIGNALS];   /* CLOCK_MONOTONIC ns at which a relay got this signal itself */
        _Atomic bool progress;                  /* the recorder's line is on the terminal: erase it before the command's own words */
        _Atomic bool front, changed;            /* whole: the pty's command has the real terminal; its settings are ours */
        struct termios kept, raw;               /* what they were, and what we made them */
        _Atomic uint32_t count[RELAY_STREAMS];
        struct relay_entry index[RELAY_STREAMS][RELAY_INDEX];
};

struct relay_stream {
        pid_t pid;        /* 0: none */
        int control;      /* to the relay */
        int write_fd;     /* the command's end */
        int place;        /* descriptor of ours that it stands for: 1 or 2 */
};

struct relay {
        struct relay_shared *shared;
        int count;
        struct relay_stream streams[RELAY_STREAMS];
        int command_fd[3];   /* what the command gets as 0, 1 and 2; -1: ours */
        bool whole;          /* a whole terminal; then: */
        int ask, link;       /* to the relay about it; between relay and leader */
        pid_t leader;        /* of the command's session, 0 none */
        bool terminal;       /* standard error is a terminal */
        unsigned char question; /* of the last relay_drain */
};

/* Start the relays for our standard output and error; one when both are the same place. out_fd: the output file, -1 none. leaf: a cgroup
 * folder that the last relay tries to remove when it ends, NULL none. 0 or -errno. */
int relay_start(struct relay *, int out_fd, const char *leaf);
/* whole: may the command have the real terminal (enum in command_terminal.h)? Waits until it is so. Only under the watch's lock. */
void relay_ask(struct relay *, char what);
/* whole: set the real terminal, which fd is, back, unless somebody else has set it meanwhile. */
void terminal_restore(struct relay_shared *, int fd);
/* No further command: only what runs still writes. */
void relay_no_more(struct relay *);
/* Wait until what was written up to now is copied, at most so long. False: it is not (its place takes it slowly). */
bool relay_drain(struct relay *, int timeout_ms);
/* CPU time of the relays in ns, as far as they still run. */
uint64_t relay_cpu_ns(const struct relay *);
/* Let go of them: those with nothing to do end. */
void relay_close(struct relay *);

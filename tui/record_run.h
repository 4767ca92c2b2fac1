#pragma once
/*
 * One recording while it runs: what record_run.c (the course of it) and record_tell.c (what is said and noted) share.
 */
#include "tui/command.h"
#include "tui/record.h"
#include "tui/record_feed.h"
#include "tui/record_serve.h"

struct recorder {
        const struct record_options *options;
        struct feed feed;
        struct members members;
        struct member_group group;
        struct record_serve serve;
        struct relay relay;
        struct command_signals signals;
        struct command command;
        struct command_watch watch;
        int out_fd, pid_fd;
        char out_path[RECORD_PATH], log_path[RECORD_PATH]; /* absolute */
        bool stdout_terminal, shown, asked, cannot_run, log_said, out_said, place_said;
        bool replaces;            /* there was a log of that name, which --force replaces */
        char old_log[RECORD_PATH], old_out[RECORD_PATH]; /* what is replaced, until the command runs; "" none */
        uint64_t start_ns, shown_ns;
        char phase[RECORD_TEXT + 1];
        char *runs;               /* the note so far */
        size_t runs_length, runs_room, runs_noted; /* noted: how much of it the log has */
};

/* One line on the terminal, when it is ours to write on; removed by tell_erase. */
void tell_progress(struct recorder *);
void tell_erase(struct recorder *);
/* What went wrong since the last time: a log that cannot be written, an output file that cannot. */
void tell_troubles(struct recorder *);
void tell_end(struct recorder *, uint64_t bytes);

/* Notes: at the start; one command that ended; at the end. */
void note_start(struct recorder *);
void note_run(struct recorder *, uint64_t from, uint64_t to, uint64_t round, uint64_t start_ns, uint64_t end_ns, const char *name);
void note_end(struct recorder *, int status);

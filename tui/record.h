#pragma once
/*
 * What `watop record` leaves: FILE, a log (sample/log.h), and FILE.out, what the command printed. The notes in the log, for report and
 * compare:
 *
 *   kind           command | list | pid | open
 *   label          --label, when given
 *   command        the command's words, NUL after each; of a list its file's text
 *   runs           one line a command that ended, in order:
 *                  FROM_SEQ TO_SEQ ROUND EXIT START_MONO_NS END_MONO_NS USER_NS SYSTEM_NS NAME
 *                  FROM and TO are the frames taken just before and just after it; EXIT as a shell gives it (128 + signal);
 *                  USER and SYSTEM as wait4(2) gives them (children that were waited for included)
 *   status         exit status of the whole
 *   members        the command's process tree; `watched`: what --watch names. First line `rule ...` (cgroup HIERARCHY PATH |
 *                  ancestry may be incomplete | watched), then PID START_NS as in the keys of process rows, in no order;
 *                  `may be incomplete` behind any rule: there were more than 16 MiB of them
 *   command.cpu.N  N from 0: lines MONO_NS CPU_NS of the command's control group around each frame (tui/member_cpu.h); none where there is
 *                  no group that counts CPU time
 *   watch          the --watch words, one a line
 *   output         FILE.out, its last 1 MiB at most
 *   output.info    lines `path NAME`, `bytes N`, `note_offset N` (offset in FILE.out of the note's first byte), `error TEXT`
 *                  when it was cut
 *   output.index   one line a chunk, by offset: MONO_NS OFFSET STREAM (1 standard output, 2 error): what begins there came then
 *   mark.socket    where `watop mark` reaches the recorder while it runs
 *   cost           lines NAME NUMBER: watop_cpu_ns relay_cpu_ns watopd_cpu_ns log_bytes frames overruns wall_ns
 *
 * Marks: with --phases or --repeat NAME when a command starts and `end` when it ended. The same names come again in each round, so the
 * n-th phase of a name (sample/phase.h, `NAME#2`) is that of round n; `runs` says it again with the round's own frames. Of one command
 * that is not repeated there are only the marks that it sets itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/control.h"

enum { RECORD_TEXT = CONTROL_TEXT };

/* A stranger's text becomes a mark's: control bytes become blanks, ends are trimmed, cut at RECORD_TEXT on a character's border. Length. */
size_t record_clean_text(char *out, size_t size, const char *text, size_t length);

/* ---- --phases FILE ---------------------------------------------------------------------------------------------------------------- */
struct record_step {
        char *name, *command;
};
struct record_list {
        struct record_step *steps;
        size_t count;
        char *text;               /* what the steps point into */
        char *source;             /* the file as it was */
        size_t source_length;
};
/* Lines `name: command`; # comments and empty lines. 0; -errno; -EBADMSG with *line the wrong one. */
int record_list_read(struct record_list *, const char *path, size_t *line);
int record_list_parse(struct record_list *, const char *bytes, size_t length, size_t *line);
void record_list_free(struct record_list *);

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

enum record_kind { RECORD_OPEN, RECORD_COMMAND, RECORD_LIST, RECORD_PID };
enum { RECORD_FAILED = 125, RECORD_CANNOT_RUN = 126, RECORD_NOT_FOUND = 127 };

struct record_options {
        enum record_kind kind;
        const char *path, *label;
        uint64_t interval_ns, repeat;
        bool force, quiet, threads, stages;
        char **argv;              /* RECORD_COMMAND: the words, NULL-terminated */
        size_t argc;
        struct record_list list;  /* RECORD_LIST */
        pid_t pid;                /* RECORD_PID */
        const char *watches[32];
        size_t watch_count;
};
/* Runs and records; the exit status. */
int record_run(const struct record_options *);

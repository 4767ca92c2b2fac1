#pragma once
/*
 * Reports read from a log, in the place of a ring: what attach.c does for watopd, for a file. Used by attach.c.
 */
#include "tui/attach.h"

struct attach_log;

int attach_log_open(const struct attach_options *, struct attach_log **, char *why, size_t size);
void attach_log_close(struct attach_log *);
/* As attach_next. */
int attach_log_next(struct attach_log *, struct state *, struct state *total, uint64_t timeout_ns);
void attach_log_info(struct attach_log *, struct attach_info *);
/* The next report begins at the first frame at or after; its base is made from scratch. */
int attach_log_seek(struct attach_log *, uint64_t sequence, uint64_t real_ns);
void attach_log_interval(struct attach_log *, uint64_t interval_ns);
struct log *attach_log_file(struct attach_log *);
/* What a failure of log_open means, for people. */
const char *attach_log_why(int error);

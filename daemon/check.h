#pragma once
/*
 * `watopd --check`: what watopd may see on this machine, and why not the rest. Nothing is changed (tracing is
 * attached for a moment).
 */
#include "daemon/place.h"

struct procfs;

/* Prints to stdout. 0, or 1 when nothing at all could be read. */
int check_run(struct procfs *, const struct place *, int place_error, bool bpf);

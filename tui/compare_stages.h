#pragma once
/*
 * Block latency in a comparison (compare_stages.c), for the sinks.
 */
#include "tui/compare.h"
#include "tui/compare_grid.h"

enum { COMPARE_LATENCIES = 12 };       /* of a cell, for people */

/* Fills a grid (its heads alone when nothing was traced) of devices, or of calls: rows by phase, what it is, recording. 0 or -ENOMEM: then
 * there is no grid. */
int compare_latency_grid(const struct compare *, bool calls, bool markdown, struct grid *);
/* Members `latency` and `sync` of a cell's object. 0 or -ENOMEM. */
int compare_latency_json(const struct compare_cell *, FILE *);

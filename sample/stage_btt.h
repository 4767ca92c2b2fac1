#pragma once
/*
 * Block latency exactly as btt 1.2 counts it, faults included, so that figures can be laid beside those of a btt run.
 *
 * Per device it keeps the open Qs by first sector and nothing else: no direction, no process, no requests. A newer Q of the same first
 * sector replaces the older. G, I and M look for the Q that contains their sector. D and C take every Q that lies fully inside of them, so
 * a split bio is never issued nor completed. Events without sectors and passthrough do not exist; every time is at least 1 ns.
 */
#include "sample/stage.h"

enum btt_column { BTT_Q2Q, BTT_Q2G, BTT_G2I, BTT_Q2M, BTT_I2D, BTT_M2D, BTT_D2C, BTT_Q2C, BTT_COLUMNS };

struct btt_cell { uint64_t count, total, min, max; }; /* ns */
struct btt_row {
        uint32_t device, pid; /* rows of a device have pid UINT32_MAX, of a process device UINT32_MAX, of all both */
        struct btt_cell cells[BTT_COLUMNS];
};

struct btt;
int btt_new(struct btt **);
void btt_free(struct btt *);
/* In order of time. 0 or -ENOMEM. */
int btt_event(struct btt *, const struct stage_event *);
size_t btt_rows(const struct btt *);
const struct btt_row *btt_get_row(const struct btt *, size_t); /* number 0: all */
const char *btt_name(enum btt_column);

#pragma once
/*
 * Durations over time, for the heat map of the latency view: of each device, direction and stage how many ended in each power of two, a
 * column a report.
 *
 * Fixed memory: the newest HEAT_STEPS reports of HEAT_SERIES stages; one that did nothing for longest gives way.
 */
#include "tui/latency.h"

enum { HEAT_STEPS = 160, HEAT_SERIES = 64 };

struct heat_series {
        uint32_t device;
        uint8_t direction, stage;
        uint64_t used;                 /* step + 1 in which something was counted last; 0 = free */
        uint32_t counts[HEAT_STEPS][LATENCY_OCTAVES];
};

struct heat {
        uint64_t steps;                /* reports noted */
        bool traced[HEAT_STEPS];       /* tracing was on in that report */
        struct heat_series series[HEAT_SERIES];
};

void heat_clear(struct heat *);
/* The state's interval becomes the newest column. */
void heat_note(struct heat *, const struct state *, const struct latency *);
/* NULL: nothing was counted in all these reports. */
const struct heat_series *heat_find(const struct heat *, uint32_t device, uint8_t direction, uint8_t stage);
/* Column `ago` reports back, 0 the newest. NULL: nothing was traced then. */
const uint32_t *heat_column(const struct heat *, const struct heat_series *, size_t ago);

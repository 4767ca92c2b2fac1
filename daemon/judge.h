#pragma once
/*
 * Judging a tick: what the collectors found becomes the split of each core's iowait, added up since watopd started.
 *
 * The times are cumulative so that a reader may take the difference over any number of ticks; a core that was off-line keeps its sums.
 */
#include "collectors/collector.h"

struct judge;

int judge_new(struct judge **); /* 0 or -ENOMEM */
void judge_free(struct judge *);
/* Add the tick to the sums and write CPU_WA_* and CPU_BY_* into every row of scope cpu. `devices` and `waiters`: those collectors ran and
 * succeeded in this tick; without them nothing is concluded from what they did not say. 0 or -ENOMEM (rows without the split). */
int judge_tick(struct judge *, struct sample *, struct evidence *, bool devices, bool waiters);

/*
 * The collectors, in the order in which they run.
 *
 * uring's `before` reads the candidates ahead of /proc/stat, its `collect` reads them again right behind it, so that a parked span encloses
 * the counter span: cpu collects first, uring second. disk comes next, close to both; what a pass over all tasks costs comes behind them.
 */
#include "collectors/collector.h"

const struct collector *const collectors[] = {
        &collector_cpu,
        &collector_uring,
        &collector_disk,
        &collector_vm,
        &collector_net,
        &collector_pressure,
        &collector_process,
        &collector_thread,
        &collector_cgroup,
        &collector_facts,
        NULL,
};

/*
 * The collectors, in the order in which they run.
 *
 * uring's `before` reads the candidates ahead of /proc/stat, its `collect` reads them again behind it, so that a parked span encloses the
 * counter span. The ceiling of wa_disk is looser by the distance between /proc/stat and /proc/diskstats: so cpu collects first, disk soon
 * behind it, then uring. Traced times are held against /proc/stat's: trace, which reads memory only, comes between. What a pass over all
 * tasks costs comes after them. stage only copies what a thread of its own has summed up.
 */
#include "collectors/collector.h"

const struct collector *const collectors[] = {
        &collector_cpu,
        &collector_trace,
        &collector_disk,
        &collector_uring,
        &collector_stage,
        &collector_vm,
        &collector_net,
        &collector_pressure,
        &collector_process,
        &collector_thread,
        &collector_cgroup,
        &collector_facts,
        NULL,
};

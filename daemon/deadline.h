#pragma once
/*
 * Absolute deadlines: ticks stay on their grid whatever a tick takes, and what was missed is counted.
 */
#include <stdint.h>

struct deadline {
        uint64_t interval_ns, next_ns;
};

static inline void deadline_start(struct deadline *deadline, uint64_t now_ns, uint64_t interval_ns)
{
        deadline->interval_ns = interval_ns;
        deadline->next_ns = now_ns;
}

/* Called at now_ns >= next_ns. *due_ns is the latest deadline that has come; the next one lies after now_ns. Returns how many were
 * missed before it. */
static inline uint32_t deadline_take(struct deadline *deadline, uint64_t now_ns, uint64_t *due_ns)
{
        uint64_t missed = (now_ns - deadline->next_ns) / deadline->interval_ns;

        *due_ns = deadline->next_ns + missed * deadline->interval_ns;
        deadline->next_ns = *due_ns + deadline->interval_ns;
        return missed > UINT32_MAX ? UINT32_MAX : (uint32_t)missed;
}

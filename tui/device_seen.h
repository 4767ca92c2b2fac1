#pragma once
/*
 * When each block device was last used, as far as the screen's past goes (the steps of its strips): a device that was once used and is so
 * no more takes no line, and one that pauses keeps its line, so that lines do not come and go.
 */
#include "sample/state.h"

struct device_seen {
        struct device_use {
                struct key key;
                uint64_t used_ns;       /* monotonic time of the last report with a request; 0 none */
        } *devices;
        size_t count, capacity;
};

/* The state's interval: take note of the devices with requests in it. What does not fit in memory is not noted. */
void device_seen_note(struct device_seen *, const struct state *);
/* Was it used within span_ns before (or, in a past that is walked back, after) that time? */
bool device_seen_used(const struct device_seen *, const struct state_row *, uint64_t mono_ns, uint64_t span_ns);
void device_seen_fini(struct device_seen *);

#pragma once
/*
 * Words said about a row that no single metric says: the state of a device (OP_WORD columns).
 */
#include "sample/state.h"

enum device_word { DEVICE_QUIET, DEVICE_LIGHT, DEVICE_BUSY, DEVICE_QUEUED, DEVICE_FULL, DEVICE_STUCK, DEVICE_UNKNOWN };
/* Requests in flight at the sample: the larger of what diskstats counts and what the driver holds; -1 when neither is known. */
double word_in_flight(const struct state_row *disk);
/* Nothing completed, nothing in flight, no time counted as busy: only then a device is idle. What cannot be told (no interval, a reset) is
 * not called idle. */
bool word_idle(const struct state_row *disk);
/* The device's state over the interval: quiet (nothing), light (%util < 50), busy (%util >= 50), queued (busy and aqu-sz >= 2), full (in
 * flight >= 90% of nr_requests), STUCK (in flight and nothing completed for 1 s or more), unknown (iostats off). `text` gets the word as
 * shown: "quiet", ..., "STUCK 38 s". Column sentences explain them. */
enum device_word word_device(const struct state *, const struct state_row *disk, char *text, size_t size);

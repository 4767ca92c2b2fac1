/*
 * When each block device was last used. See device_seen.h.
 *
 * Rows of a state keep their order from report to report, so a device is nearly always found where it was the last time; what is gone is
 * forgotten when its place is needed.
 */
#include "tui/device_seen.h"

#include <stdlib.h>

#include "sample/word.h"

static bool same(struct key a, struct key b)
{
        return a.a == b.a && a.b == b.b;
}

/* The place of a device; `guess` is where it was met last. SIZE_MAX: it is not there. */
static size_t find(const struct device_seen *seen, struct key key, size_t guess)
{
        for (size_t i = 0; i < seen->count; i++) {
                size_t at = (guess + i) % seen->count;
                if (same(seen->devices[at].key, key))
                        return at;
        }
        return SIZE_MAX;
}

static size_t add(struct device_seen *seen, struct key key)
{
        if (seen->count == seen->capacity) {
                size_t capacity = seen->capacity ? 2 * seen->capacity : 32;
                struct device_use *devices = reallocarray(seen->devices, capacity, sizeof *devices);
                if (!devices)
                        return SIZE_MAX;
                seen->devices = devices;
                seen->capacity = capacity;
        }
        seen->devices[seen->count] = (struct device_use){.key = key};
        return seen->count++;
}

/* Devices that came and went for weeks take no room for ever. */
static void forget_gone(struct device_seen *seen, const struct state *state)
{
        size_t kept = 0;

        for (size_t i = 0; i < seen->count; i++)
                if (state_find(state, SCOPE_DISK, seen->devices[i].key))
                        seen->devices[kept++] = seen->devices[i];
        seen->count = kept;
}

void device_seen_note(struct device_seen *seen, const struct state *state)
{
        uint64_t now = state_info(state).mono_ns;
        size_t rows = state_count(state, SCOPE_DISK);

        if (seen->count > 2 * rows + 32)
                forget_gone(seen, state);
        for (size_t i = 0; i < rows; i++) {
                const struct state_row *row = state_at(state, SCOPE_DISK, i);
                if (row->gone || (!row->has_base && !(word_in_flight(row) > 0)) || word_idle(row))
                        continue;
                size_t at = find(seen, row->key, i < seen->count ? i : 0);
                if (at == SIZE_MAX)
                        at = add(seen, row->key);
                if (at != SIZE_MAX)
                        seen->devices[at].used_ns = now;
        }
}

bool device_seen_used(const struct device_seen *seen, const struct state_row *row, uint64_t mono_ns, uint64_t span_ns)
{
        size_t at = find(seen, row->key, 0);

        if (at == SIZE_MAX)
                return false;
        uint64_t used = seen->devices[at].used_ns;
        return (mono_ns > used ? mono_ns - used : used - mono_ns) <= span_ns;
}

void device_seen_fini(struct device_seen *seen)
{
        if (!seen)
                return;
        free(seen->devices);
        *seen = (struct device_seen){0};
}

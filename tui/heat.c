/*
 * The past of the latency view. Contract: heat.h.
 */
#include "tui/heat.h"

#include <string.h>

void heat_clear(struct heat *heat)
{
        heat->steps = 0;
        memset(heat->traced, 0, sizeof heat->traced);
        for (size_t i = 0; i < HEAT_SERIES; i++)
                heat->series[i].used = 0;
}

static bool is_of(const struct heat_series *series, uint32_t device, uint8_t direction, uint8_t stage)
{
        return series->used && series->device == device && series->direction == direction && series->stage == stage;
}

const struct heat_series *heat_find(const struct heat *heat, uint32_t device, uint8_t direction, uint8_t stage)
{
        for (size_t i = 0; i < HEAT_SERIES; i++)
                if (is_of(&heat->series[i], device, direction, stage))
                        return heat->series[i].used + HEAT_STEPS > heat->steps ? &heat->series[i] : NULL;
        return NULL;
}

static struct heat_series *want(struct heat *heat, const struct latency_line *line)
{
        struct heat_series *oldest = &heat->series[0];

        for (size_t i = 0; i < HEAT_SERIES; i++) {
                if (is_of(&heat->series[i], line->device, line->direction, line->what))
                        return &heat->series[i];
                if (heat->series[i].used < oldest->used)
                        oldest = &heat->series[i];
        }
        if (oldest->used == heat->steps + 1) /* all of them count in this report */
                return NULL;
        memset(oldest->counts, 0, sizeof oldest->counts);
        oldest->device = line->device;
        oldest->direction = line->direction;
        oldest->stage = line->what;
        return oldest;
}

void heat_note(struct heat *heat, const struct state *state, const struct latency *latency)
{
        size_t at = (size_t)(heat->steps % HEAT_STEPS);
        uint32_t counts[LATENCY_OCTAVES];
        bool traced = false;

        for (size_t i = 0; i < HEAT_SERIES; i++)
                if (heat->series[i].used)
                        memset(heat->series[i].counts[at], 0, sizeof counts);
        for (size_t i = 0; i < latency->count[LATENCY_STAGES]; i++) {
                const struct latency_line *line = &latency->lines[LATENCY_STAGES][i];
                traced |= !line->row->gone && !isnan(line->count);
                if (!latency_counted(line) || !latency_octaves(state, line, counts))
                        continue;
                struct heat_series *series = want(heat, line);
                if (series == NULL)
                        continue;
                memcpy(series->counts[at], counts, sizeof counts);
                series->used = heat->steps + 1;
        }
        heat->traced[at] = traced;
        heat->steps++;
}

const uint32_t *heat_column(const struct heat *heat, const struct heat_series *series, size_t ago)
{
        if (ago >= HEAT_STEPS || ago >= heat->steps)
                return NULL;
        size_t at = (size_t)((heat->steps - 1 - ago) % HEAT_STEPS);
        return heat->traced[at] ? series->counts[at] : NULL;
}

/*
 * Where a replay stands, in words: frame n of m, the phase, damage; and the clock of the recorded machine.
 *
 * Its UTC offset is a fact of the recording. The process takes it as its own time zone, so each time on the screen, and each that is typed,
 * is what the clock on that machine's wall showed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/clean.h"
#include "tui/options.h"
#include "tui/replay_own.h"

/* Seconds east as the recording says; false when it does not. */
static bool recorded_zone(const struct state *state, long *east)
{
        static const char name[] = "utc_offset";

        for (size_t i = 0; i < state_count(state, SCOPE_FACT); i++) {
                const struct state_row *row = state_at(state, SCOPE_FACT, i);
                char text[16], *end;
                if (row->gone || strcmp(state_text_copy(state, row, FACT_NAME, text, sizeof text), name) != 0)
                        continue;
                *east = strtol(state_text_copy(state, row, FACT_VALUE, text, sizeof text), &end, 10);
                return end != text && *end == '\0' && labs(*east) < 24 * 3600;
        }
        return false;
}

static void set_zone(struct replay *r, const struct state *state)
{
        time_t seconds = (time_t)(state_info(state).real_ns / UINT64_C(1000000000));
        char zone[48];
        struct tm tm;
        long east;

        if (!recorded_zone(state, &east) || (r->zone_known && east == r->zone))
                return;
        if (!r->zone_known && localtime_r(&seconds, &tm))
                r->viewer_zone = tm.tm_gmtoff;
        r->zone = east;
        r->zone_known = true;
        unsigned size = (unsigned)labs(east), hours = size / 3600, minutes = size / 60 % 60;
        /* POSIX counts west. */
        snprintf(zone, sizeof zone, "<%c%02u%02u>%c%02u:%02u:%02u", east < 0 ? '-' : '+', hours, minutes, east < 0 ? '+' : '-', hours,
                minutes, size % 60);
        setenv("TZ", zone, 1);
        tzset();
        if (east != r->viewer_zone)
                snprintf(r->place.zone, sizeof r->place.zone, "%c%02u:%02u", east < 0 ? '-' : '+', hours, minutes);
        else
                r->place.zone[0] = '\0';
}

static void clean_to(char *out, size_t size, const char *lead, const char *name)
{
        size_t used = (size_t)snprintf(out, size, "%s", lead);
        clean_screen(out + used, size - used, name, strlen(name), option_utf8(), 32, NULL);
}

/* The phase in which the report ends; else a mark within it. */
static void say_phase(struct replay *r, const struct state_info *info)
{
        struct look_place *place = &r->place;
        char lead[48];

        place->phase[0] = '\0';
        for (size_t i = r->phases.count; i-- > 0;) {
                const struct phase *p = &r->phases.phases[i];
                if (info->to_sequence <= p->from_sequence || (info->to_sequence > p->to_sequence && !p->open))
                        continue;
                bool again = p->repeat > 1;
                snprintf(lead, sizeof lead, again ? "phase #%u " : "phase ", p->repeat);
                clean_to(place->phase, sizeof place->phase, lead, p->name);
                return;
        }
        for (size_t i = r->phases.mark_count; i-- > 0;) {
                const struct phase_mark *m = &r->phases.marks[i];
                if (m->sequence > info->from_sequence && m->sequence <= info->to_sequence) {
                        clean_to(place->phase, sizeof place->phase, "mark ", m->text[0] ? m->text : "end");
                        return;
                }
        }
}

void replay_speed_text(const struct replay *r, char *text, size_t size)
{
        double speed = r->speed < REPLAY_FASTEST ? replay_speeds[r->speed] : 0;

        if (speed <= 0)
                snprintf(text, size, "fastest");
        else if (speed < 1)
                snprintf(text, size, "x1/%.0f", 1 / speed);
        else
                snprintf(text, size, "x%.0f", speed);
}

void replay_describe(struct live *l, const struct state *state)
{
        struct replay *r = l->replay;
        struct look_place *place = &r->place;
        struct state_info info = state_info(state);
        uint64_t first = r->info.first_sequence;

        set_zone(r, state);
        if (info.to_sequence >= first && r->info.last_sequence >= first)
                snprintf(place->position, sizeof place->position, "%" PRIu64 " of %" PRIu64, info.to_sequence - first + 1,
                        r->info.last_sequence - first + 1);
        say_phase(r, &info);
        place->damaged = reel_damaged(r->reel);
}

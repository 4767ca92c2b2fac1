/*
 * A part of a log, as people name it. Contract: span.h. Numbers are read digit by digit: no locale has a say.
 */
#include "tui/span.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const uint64_t SECOND = UINT64_C(1000000000);

/* `digits` digits as a number; false when there are fewer. */
static bool take_digits(const char **text, int digits, int *value)
{
        *value = 0;
        for (int i = 0; i < digits; i++, (*text)++) {
                if (**text < '0' || **text > '9')
                        return false;
                *value = *value * 10 + (**text - '0');
        }
        return true;
}

static bool take(const char **text, char c)
{
        if (**text != c)
                return false;
        ++*text;
        return true;
}

/* HH:MM[:SS[.fraction]] */
static bool take_clock(const char **text, struct tm *tm, uint64_t *ns)
{
        *ns = 0;
        tm->tm_sec = 0;
        if (!take_digits(text, 2, &tm->tm_hour) || !take(text, ':') || !take_digits(text, 2, &tm->tm_min))
                return false;
        if (take(text, ':') && !take_digits(text, 2, &tm->tm_sec))
                return false;
        if (take(text, '.')) {
                uint64_t unit = SECOND;
                for (; **text >= '0' && **text <= '9'; ++*text) {
                        unit /= 10;
                        *ns += unit * (uint64_t)(**text - '0');
                }
        }
        return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec <= 60;
}

/* Z or +HH:MM behind a time: seconds east of UTC. False: there is none, the time is local. */
static bool take_zone(const char **text, long *east)
{
        int hours, minutes;

        *east = 0;
        if (take(text, 'Z') || take(text, 'z'))
                return true;
        if (**text != '+' && **text != '-')
                return false;
        long sign = *(*text)++ == '-' ? -1 : 1;
        if (!take_digits(text, 2, &hours))
                return false;
        take(text, ':');
        if (!take_digits(text, 2, &minutes))
                return false;
        *east = sign * (hours * 3600L + minutes * 60L);
        return true;
}

static bool date_and_time(const char *text, uint64_t *real_ns)
{
        struct tm tm = {.tm_isdst = -1};
        uint64_t ns;
        long east;

        if (!take_digits(&text, 4, &tm.tm_year) || !take(&text, '-') || !take_digits(&text, 2, &tm.tm_mon) || !take(&text, '-') ||
            !take_digits(&text, 2, &tm.tm_mday) || !(take(&text, 'T') || take(&text, 't') || take(&text, ' ')))
                return false;
        if (!take_clock(&text, &tm, &ns))
                return false;
        tm.tm_year -= 1900;
        tm.tm_mon--;
        bool zone = take_zone(&text, &east);
        time_t seconds = zone ? timegm(&tm) - east : mktime(&tm);
        if (*text != '\0' || seconds < 0)
                return false;
        /* Behind the year 2554: later than any frame. */
        *real_ns = (uint64_t)seconds >= UINT64_MAX / SECOND ? UINT64_MAX : (uint64_t)seconds * SECOND + ns;
        return true;
}

/* A time of day on the log's first day; on the one after when the log began later in the day. */
static bool time_of_day(const char *text, const struct log_info *info, uint64_t *real_ns)
{
        time_t start = (time_t)(info->first_real_ns / SECOND);
        struct tm tm;
        uint64_t ns;

        if (!localtime_r(&start, &tm))
                return false;
        tm.tm_isdst = -1;
        if (!take_clock(&text, &tm, &ns) || *text != '\0')
                return false;
        struct tm day = tm;
        time_t seconds = mktime(&day);
        if (seconds < start && (uint64_t)seconds * SECOND + ns < info->first_real_ns && info->last_real_ns >= info->first_real_ns) {
                day = tm;
                day.tm_mday++;
                time_t next = mktime(&day);
                if ((uint64_t)next * SECOND <= info->last_real_ns)
                        seconds = next;
        }
        if (seconds < 0)
                return false;
        *real_ns = (uint64_t)seconds * SECOND + ns;
        return true;
}

static bool number_of(const char *text, uint64_t *value)
{
        uint64_t sum = 0;

        if (*text == '\0' || strlen(text) > 18)
                return false;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return false;
                sum = sum * 10 + (uint64_t)(*text - '0');
        }
        *value = sum;
        return true;
}

/* "90s", "1.5", "2h30m": any length of time, seconds without a unit; parts are added up. */
static bool offset_of(const char *text, uint64_t *ns)
{
        static const struct { const char *name; uint64_t ns; } units[] = {
                {"ms", 1000000}, {"h", UINT64_C(3600000000000)}, {"m", UINT64_C(60000000000)}, {"s", UINT64_C(1000000000)},
        };

        *ns = 0;
        if (*text == '\0')
                return false;
        while (*text != '\0') {
                uint64_t whole = 0, unit = SECOND, part = 0, scale = 1;
                size_t digits = 0, fraction = 0;
                for (; text[digits] >= '0' && text[digits] <= '9'; digits++)
                        if ((whole = whole * 10 + (uint64_t)(text[digits] - '0')) > 100000000)
                                return false;
                text += digits;
                if (take(&text, '.'))
                        for (; *text >= '0' && *text <= '9'; text++, fraction++)
                                if (scale < 1000000000) {
                                        part = part * 10 + (uint64_t)(*text - '0');
                                        scale *= 10;
                                }
                if (digits + fraction == 0)
                        return false;
                bool known = *text == '\0';
                for (size_t i = 0; !known && i < sizeof units / sizeof *units; i++)
                        if (strncmp(text, units[i].name, strlen(units[i].name)) == 0) {
                                unit = units[i].ns;
                                text += strlen(units[i].name);
                                known = true;
                        }
                if (!known || whole > UINT64_MAX / 8 / unit || *ns > UINT64_MAX / 8)
                        return false;
                *ns += whole * unit + (uint64_t)((double)part / (double)scale * (double)unit + 0.5);
        }
        return true;
}

struct bound {
        bool by_sequence;
        uint64_t value;
};

static int bound_of(const char *word, const struct log_info *info, const struct phases *phases, bool end, struct bound *bound)
{
        uint64_t offset = 0;

        *bound = (struct bound){0};
        if (*word == '\0')
                return -EINVAL;
        if (*word == '#' && number_of(word + 1, &bound->value)) {
                bound->by_sequence = true;
                return 0;
        }
        if (*word == '+' && offset_of(word + 1, &offset)) {
                bound->value = info->first_real_ns + offset;
                return 0;
        }
        if (date_and_time(word, &bound->value) || time_of_day(word, info, &bound->value))
                return 0;
        const struct phase *phase = phases_find(phases, word);
        if (phase) {
                *bound = (struct bound){.by_sequence = true, .value = end ? phase->to_sequence : phase->from_sequence};
                return 0;
        }
        for (size_t i = 0; i < phases->mark_count; i++)
                if (strcmp(phases->marks[i].text, word) == 0) {
                        *bound = (struct bound){.by_sequence = true, .value = phases->marks[i].sequence};
                        return 0;
                }
        return -EINVAL;
}

static int wrong(const char *word, const struct phases *phases, char *why, size_t size)
{
        int length = snprintf(why, size, "'%.60s' is no time (HH:MM:SS, 2026-01-31T12:00:00Z), +OFFSET, #SEQUENCE or phase of this log",
                word);

        for (size_t i = 0; i < phases->count && length > 0 && (size_t)length < size; i++) {
                const struct phase *phase = &phases->phases[i];
                char round[16] = "";
                if (phase->repeat > 1)
                        snprintf(round, sizeof round, "#%u", phase->repeat);
                length += snprintf(why + length, size - (size_t)length, "%s%.60s%s", i ? ", " : "; phases: ", phase->name, round);
        }
        return -EINVAL;
}

int span_find(const struct log_info *info, const struct phases *phases, const struct span_words *words, struct span *span, char *why,
        size_t size)
{
        struct bound bound;

        *span = (struct span){.to_sequence = UINT64_MAX, .to_real_ns = UINT64_MAX, .ends = words->to || words->phase};
        if (words->phase) {
                const struct phase *phase = phases_find(phases, words->phase);
                if (!phase)
                        return wrong(words->phase, phases, why, size);
                span->from_sequence = phase->from_sequence;
                span->to_sequence = phase->to_sequence;
        }
        if (words->from) {
                if (bound_of(words->from, info, phases, false, &bound) < 0)
                        return wrong(words->from, phases, why, size);
                if (bound.by_sequence)
                        span->from_sequence = bound.value > span->from_sequence ? bound.value : span->from_sequence;
                else
                        span->from_real_ns = bound.value;
        }
        if (words->to) {
                if (bound_of(words->to, info, phases, true, &bound) < 0)
                        return wrong(words->to, phases, why, size);
                if (bound.by_sequence)
                        span->to_sequence = bound.value < span->to_sequence ? bound.value : span->to_sequence;
                else
                        span->to_real_ns = bound.value;
        }
        return 0;
}

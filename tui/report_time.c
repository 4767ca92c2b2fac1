/*
 * Time stamps at the start of a line, in the forms that scripts write: RFC 3339 (a blank for the T, a comma before the fraction), what
 * date(1) prints in the C and English locales, `MMM DD HH:MM:SS` (ts, syslog), and seconds since the epoch with or without a fraction. In
 * brackets or not.
 *
 * Read digit by digit; a line that does not fit entirely has no stamp. Times without a zone are local, as they are where they were printed
 * most often.
 */
#include "tui/report_make.h"

#include <string.h>
#include <time.h>

struct reader {
        const char *at, *end;
};

static bool digits(struct reader *r, int least, int most, int *value)
{
        int count = 0;

        for (*value = 0; r->at < r->end && count < most && *r->at >= '0' && *r->at <= '9'; r->at++, count++)
                *value = *value * 10 + (*r->at - '0');
        return count >= least;
}

static bool one_of(struct reader *r, const char *signs)
{
        if (r->at == r->end || *r->at == '\0' || !strchr(signs, *r->at))
                return false;
        r->at++;
        return true;
}

static void blanks(struct reader *r)
{
        while (r->at < r->end && *r->at == ' ')
                r->at++;
}

static double fraction(struct reader *r)
{
        double unit = 0.1, sum = 0;

        if (r->end - r->at < 2 || (*r->at != '.' && *r->at != ',') || r->at[1] < '0' || r->at[1] > '9')
                return 0;
        for (r->at++; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++, unit /= 10)
                sum += unit * (*r->at - '0');
        return sum;
}

static bool clock_of(struct reader *r, struct tm *tm, double *part)
{
        if (!digits(r, 1, 2, &tm->tm_hour) || !one_of(r, ":") || !digits(r, 2, 2, &tm->tm_min) || !one_of(r, ":") ||
            !digits(r, 2, 2, &tm->tm_sec))
                return false;
        *part = fraction(r);
        return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec <= 60;
}

/* "Z", "+09:00", "UTC", " +0900", "KST": seconds east; zones by name but UTC and GMT are taken as local. */
static bool zone_of(struct reader *r, long *east)
{
        struct reader at = *r;
        int hours, minutes = 0;

        blanks(&at);
        *east = 0;
        for (size_t i = 0; i < 3; i++) {
                static const char *const utc[] = {"UTC", "GMT", "Z"};
                size_t n = strlen(utc[i]);
                if ((size_t)(at.end - at.at) >= n && memcmp(at.at, utc[i], n) == 0) {
                        r->at = at.at + n;
                        return true;
                }
        }
        if (at.at < at.end && (*at.at == '+' || *at.at == '-')) {
                long sign = *at.at++ == '-' ? -1 : 1;
                if (!digits(&at, 2, 2, &hours))
                        return false;
                one_of(&at, ":");
                if (!digits(&at, 2, 2, &minutes))
                        return false;
                *east = sign * (hours * 3600L + minutes * 60L);
                r->at = at.at;
                return true;
        }
        return false;
}

static bool seconds_of(struct tm *tm, bool zoned, long east, double part, double *time)
{
        tm->tm_isdst = -1;
        time_t t = zoned ? timegm(tm) - east : mktime(tm);
        *time = (double)t + part;
        return t > 0;
}

static bool rfc3339(struct reader *r, double *time)
{
        struct tm tm = {0};
        double part;
        long east;

        if (!digits(r, 4, 4, &tm.tm_year) || !one_of(r, "-/") || !digits(r, 2, 2, &tm.tm_mon) || !one_of(r, "-/") ||
            !digits(r, 2, 2, &tm.tm_mday) ||
            !one_of(r, "Tt ") || !clock_of(r, &tm, &part))
                return false;
        tm.tm_year -= 1900;
        tm.tm_mon--;
        bool zoned = zone_of(r, &east);
        return seconds_of(&tm, zoned, east, part, time);
}

static bool word_of(struct reader *r, const char *const *words, int count, int *which)
{
        for (*which = 0; *which < count; ++*which)
                if (r->end - r->at >= 3 && memcmp(r->at, words[*which], 3) == 0) {
                        r->at += 3;
                        return true;
                }
        return false;
}

/* "PM" behind a clock of twelve hours. */
static void half_day(struct reader *r, struct tm *tm)
{
        struct reader at = *r;

        blanks(&at);
        if (at.end - at.at < 2 || at.at[1] != 'M' || (at.at[0] != 'A' && at.at[0] != 'P') || tm->tm_hour > 12)
                return;
        tm->tm_hour = tm->tm_hour % 12 + (at.at[0] == 'P' ? 12 : 0);
        r->at = at.at + 2;
}

/* "Mon Nov 30 19:36:29 UTC 2026", "Mon 30 Nov 2026 07:36:29 PM UTC", "Nov 30 19:36:29". */
static bool date_form(struct reader *r, int year, double *time)
{
        static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        struct tm tm = {0};
        double part;
        long east;
        int day, full = 0;

        if (word_of(r, days, 7, &day)) {
                one_of(r, ",");
                if (!one_of(r, " "))
                        return false;
                blanks(r);
        }
        bool month_first = word_of(r, months, 12, &tm.tm_mon);
        blanks(r);
        if (!digits(r, 1, 2, &tm.tm_mday))
                return false;
        blanks(r);
        if (!month_first) {
                if (!word_of(r, months, 12, &tm.tm_mon))
                        return false;
                blanks(r);
                if (!digits(r, 4, 4, &full))
                        return false;
                blanks(r);
        }
        if (!clock_of(r, &tm, &part))
                return false;
        half_day(r, &tm);
        bool zoned = zone_of(r, &east);
        struct reader at = *r;
        if (!zoned && month_first) { /* "KST 2026": a zone by another name is taken as local */
                blanks(&at);
                while (at.at < at.end && *at.at >= 'A' && *at.at <= 'Z')
                        at.at++;
        }
        blanks(&at);
        if (month_first && digits(&at, 4, 4, &full) && full >= 1970)
                r->at = at.at;
        else if (month_first)
                full = year;
        tm.tm_year = full - 1900;
        return seconds_of(&tm, zoned, east, part, time);
}

/* Ten digits: 2001 to 2286. Milliseconds and the like are not guessed. */
static bool epoch(struct reader *r, double *time)
{
        double sum = 0;
        const char *start = r->at;

        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
                sum = sum * 10 + (*r->at - '0');
        if (r->at - start != 10)
                return false;
        *time = sum + fraction(r);
        return r->at == r->end || strchr(" \t:]", *r->at);
}

size_t report_time_parse(const char *line, size_t length, int year, double *time)
{
        const char *end = line + length;
        bool bracket = length > 0 && *line == '[';
        struct reader r = {.at = line + bracket, .end = end}, start = r;

        if (!epoch(&r, time)) {
                r = start;
                if (!rfc3339(&r, time)) {
                        r = start;
                        if (!date_form(&r, year, time))
                                return 0;
                }
        }
        if (bracket && !one_of(&r, "]"))
                return 0;
        one_of(&r, ":");
        if (r.at < end && *r.at != ' ' && *r.at != '\t')
                return 0;
        if (r.at < end) /* one blank: what follows may be indented, and results are known by that */
                r.at++;
        return (size_t)(r.at - line);
}

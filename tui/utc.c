/*
 * The time of day in machine formats. See utc.h.
 */
#include "tui/utc.h"

#include <stdio.h>
#include <time.h>

void utc_time(char *text, size_t size, uint64_t real_ns)
{
        time_t seconds = (time_t)(real_ns / 1000000000);
        struct tm tm;
        char date[32];

        if (!gmtime_r(&seconds, &tm) || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
                snprintf(date, sizeof date, "1970-01-01T00:00:00");
        snprintf(text, size, "%s.%09uZ", date, (unsigned)(real_ns % 1000000000));
}

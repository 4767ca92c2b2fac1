/*
 * The state of a device in one word. See word.h.
 *
 * Said from what is known only: a device the kernel does not account is "unknown", never "quiet"; and "STUCK" and "full" need no interval.
 * Reasons: %util 100 means only that something was in flight all the time, so "busy" is not "full"; a queue of requests shows in aqu-sz,
 * and a full one in what is in flight against nr_requests. A request that hangs completes nothing, so aqu-sz, %util on old kernels and
 * every rate read 0: only the count in flight, and the time since the last completion, betray it.
 */
#include <stdio.h>

#include "sample/word.h"

static double level(const struct state_row *row, int metric)
{
        uint64_t value;

        return state_now(row, metric, &value) ? (double)value : -1;
}

static bool grew(const struct state_row *row, int metric, double *delta)
{
        *delta = 0;
        int r = state_delta(row, metric, delta);
        return r != DELTA_ABSENT && r != DELTA_RESET;
}

/* Anything completed in the interval, of any kind. */
static bool completed(const struct state_row *row)
{
        static const int counters[] = {DISK_READS, DISK_WRITES, DISK_DISCARDS, DISK_FLUSHES};
        double delta;

        for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
                if (grew(row, counters[i], &delta) && delta > 0)
                        return true;
        return false;
}

double word_in_flight(const struct state_row *row)
{
        double counted = level(row, DISK_INFLIGHT), reads = level(row, DISK_DRIVER_READS), writes = level(row, DISK_DRIVER_WRITES);
        double driver = reads < 0 || writes < 0 ? -1 : reads + writes;

        return counted > driver ? counted : driver;
}

bool word_idle(const struct state_row *row)
{
        static const int counters[] = {DISK_READS, DISK_WRITES, DISK_DISCARDS, DISK_FLUSHES, DISK_IO_TIME};
        double delta;

        if (!row->has_base || word_in_flight(row) > 0)
                return false;
        for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
                int r = state_delta(row, counters[i], &delta);
                if (r == DELTA_RESET || (r != DELTA_ABSENT && delta > 0))
                        return false;
        }
        return true;
}

static void say_stuck(char *text, size_t size, double seconds)
{
        if (seconds < 100)
                snprintf(text, size, "STUCK %.0f s", seconds);
        else if (seconds < 100 * 60)
                snprintf(text, size, "STUCK %.0f m", seconds / 60);
        else
                snprintf(text, size, "STUCK %.0f h", seconds / 3600);
}

/* Light, busy or queued from the interval's growth; unknown, shown as "-", without an interval. */
static enum device_word from_rates(const struct state_row *row, double flight)
{
        double busy, queue, seconds = state_row_seconds(row);

        if (seconds <= 0 || !grew(row, DISK_IO_TIME, &busy))
                return DEVICE_UNKNOWN;
        if (!grew(row, DISK_QUEUE_TIME, &queue))
                queue = 0;
        if (busy >= 0.5e9 * seconds)
                return queue >= 2e9 * seconds ? DEVICE_QUEUED : DEVICE_BUSY;
        return busy > 0 || flight > 0 || completed(row) ? DEVICE_LIGHT : DEVICE_QUIET;
}

enum device_word word_device(const struct state *state, const struct state_row *row, char *text, size_t size)
{
        static const char *const words[] = {
                [DEVICE_QUIET] = "quiet", [DEVICE_LIGHT] = "light", [DEVICE_BUSY] = "busy", [DEVICE_QUEUED] = "queued",
                [DEVICE_FULL] = "full", [DEVICE_STUCK] = "STUCK", [DEVICE_UNKNOWN] = "unknown",
        };
        double flight = word_in_flight(row), stuck = level(row, DISK_STUCK), room = level(row, DISK_NR_REQUESTS);
        enum device_word word;

        (void)state;
        if (level(row, DISK_IOSTATS) == 0) {
                word = DEVICE_UNKNOWN;
        } else if (flight > 0 && stuck >= 1e9) {
                say_stuck(text, size, stuck / 1e9);
                return DEVICE_STUCK;
        } else if (room > 0 && flight >= 0.9 * room && level(row, DISK_KIND) == 'w') { /* dm and md take more than their queue says */
                word = DEVICE_FULL;
        } else {
                word = from_rates(row, flight);
        }
        snprintf(text, size, "%s", word == DEVICE_UNKNOWN && level(row, DISK_IOSTATS) != 0 ? "-" : words[word]);
        return word;
}

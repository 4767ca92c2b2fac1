#pragma once
/*
 * The time of day in machine formats: RFC 3339 in UTC with nanoseconds, the same in CSV, JSON and reports, whatever locale and time zone.
 */
#include <stddef.h>
#include <stdint.h>

enum { UTC_SIZE = 48 };
/* "2026-03-01T21:14:07.123456789Z" */
void utc_time(char *text, size_t size, uint64_t real_ns);

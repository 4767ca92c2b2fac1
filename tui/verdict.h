#pragma once
/*
 * The answer in one line: what the machine's wa is, said only from evidence. Shared by `watop why` and the live screen's verdict line.
 */
#include "tui/tally.h"

enum answer { ANSWER_NOT_A_DISK, ANSWER_DISK_SLOW, ANSWER_PARTLY, ANSWER_OTHER, ANSWER_WAITING, ANSWER_BUSY, ANSWER_NOTHING };
struct verdict {
        enum answer answer;
        const char *head;        /* "NOT A DISK", "A DISK IS SLOW", ... */
        char line[160];          /* head and one sentence: what `why` prints first; at most 80 columns, "..." when it was cut */
        char brief[160];         /* for the screen: lower case, without the head's full stop */
        bool show;               /* wa >= 5% or something is unusual */
        bool waits;              /* something really waits: `why --check` exits 3 */
        int device;              /* the device it names, or the first of those it is about: its index in the tally's; -1 none */
};
/* What most of the waiting for a device was, by the time that requests took; false when none ended. */
bool verdict_way(const struct tally_device *, enum tally_way *);
/* Shorten a line to so many columns between two words, and show it by "...": half a number or name would be another one. */
void verdict_fit(char *line, size_t columns);
void verdict_make(const struct state *, const struct tally *, struct verdict *);

/*
 * Control groups whose tasks stalled on I/O: from the kernel's io.pressure of each group (v2), beside the part of it that is io_uring
 * threads asleep. A group's figures hold those of all groups below it, so one that says nothing more than its child does is left out:
 * of /system.slice and /system.slice/db.service only the latter is an answer.
 */
#include <stdlib.h>
#include <string.h>

#include "tui/why.h"

static const double LEAST = 1;      /* %: less is nobody's */
static const double SAME = 0.9;     /* of a group's stall: its child explains it */

static double share(const struct state_row *row, int metric)
{
        double delta = 0, seconds = row->has_base ? state_row_seconds(row) : 0;
        int outcome = seconds > 0 ? state_delta(row, metric, &delta) : DELTA_ABSENT;

        return outcome == DELTA_ABSENT || outcome == DELTA_RESET ? -1 : delta / seconds * 1e-7;
}

/* Of equal ones the deeper path first, so that a parent finds its child. */
static int by_stall(const void *left, const void *right)
{
        const struct why_group *a = left, *b = right;

        if (a->some != b->some)
                return a->some > b->some ? -1 : 1;
        return strcmp(b->path, a->path);
}

static bool below(const char *path, const char *parent)
{
        size_t length = strlen(parent);

        return strncmp(path, parent, length) == 0 && path[length] == '/';
}

static bool told(const struct why_group *groups, size_t count, size_t index)
{
        for (size_t i = 0; i < count; i++)
                if (i != index && groups[i].some >= SAME * groups[index].some && below(groups[i].path, groups[index].path))
                        return true;
        return false;
}

size_t why_groups(const struct state *state, struct why_group *out, size_t max)
{
        size_t n = state_count(state, SCOPE_CGROUP), count = 0, kept = 0;
        struct why_group *groups = calloc(n ? n : 1, sizeof *groups);

        for (size_t i = 0; groups && i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_CGROUP, i);
                struct why_group *group = &groups[count];
                group->some = row->gone ? -1 : share(row, CGROUP_IO_SOME);
                if (group->some < LEAST)
                        continue;
                group->full = share(row, CGROUP_IO_FULL);
                group->some_uring = share(row, CGROUP_SOME_URING);
                group->full_uring = share(row, CGROUP_FULL_URING);
                state_text_copy(state, row, CGROUP_PATH, group->path, sizeof group->path);
                count += strcmp(group->path, "/") != 0; /* the root's is the machine's, which has its own line */
        }
        for (size_t i = 0; i < count; i++)
                if (!told(groups, count, i)) {
                        if (kept != i)
                                groups[kept] = groups[i];
                        kept++;
                }
        if (groups)
                qsort(groups, kept, sizeof *groups, by_stall);
        for (size_t i = 0; i < kept && i < max; i++)
                out[i] = groups[i];
        free(groups);
        return kept;
}

#pragma once
/*
 * Whose the work was: the processes of the recorded command's tree, and those that the report watches.
 *
 * Rules, the first that this machine allows: a control group that the command is started in (whoever it forks is in it: complete but for
 * processes that live shorter than a sample); else ancestry and session from the process rows, which misses a process whose parent ended
 * before any sample saw the two together. A member stays one. We never become anybody's parent for it (no subreaper). Tracking forks in
 * the kernel would be a third rule, before these; it would only call members_add.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/state.h"

enum { MEMBER_WATCHES = 32, MEMBER_PATH = 4096 };

/* ---- the control group ------------------------------------------------------------------------------------------------------------ */
struct member_group {
        char path[MEMBER_PATH]; /* folder of the leaf, "" none */
        char name[256];         /* the hierarchy: "unified", "name=systemd", "freezer", "pids" */
        int join_fd;            /* its cgroup.procs: what is written "0" to by a task enters; -1 none */
};
/* Make a leaf below our own group, in a hierarchy where that changes nothing for who is in it. 0; -errno: no hierarchy allows it. mounts
 * and own:
 * /proc/self/mountinfo and /proc/self/cgroup, or a test's. */
int member_group_make(struct member_group *, const char *mounts, const char *own);
/* Who is left goes back to our own group, and the leaf is removed. */
void member_group_end(struct member_group *);

/* ---- the sets ---------------------------------------------------------------------------------------------------------------------- */
struct member_set {
        struct key *keys;       /* PID and start time, as in process rows */
        size_t count, room;     /* room: a power of two, an open hash table */
};
int member_add(struct member_set *, struct key);       /* 1 new, 0 known, -ENOMEM */
bool member_has(const struct member_set *, struct key);

struct members {
        struct member_set tree, watched;
        struct member_group *group;   /* NULL: ancestry only */
        pid_t root;                   /* the command that runs now, 0 none */
        pid_t own_session;            /* ours: not a sign of membership */
        pid_t *sessions;              /* sessions that a member leads */
        size_t session_count, session_room;
        const char *watches[MEMBER_WATCHES];
        size_t watch_count;
        char *buffer;                 /* of cgroup.procs */
        size_t capacity;
        bool changed;                 /* since members_text */
};
void members_init(struct members *, struct member_group *);
void members_fini(struct members *);
/* After a frame was applied. */
void members_look(struct members *, const struct state *);
/* "rule ..." and one line "PID START" each: malloc'ed. At most what a note holds (16 MiB): if there are more, the rule says "may be
 * incomplete". NULL: no memory. */
char *members_text(struct members *, const struct member_set *, size_t *length);

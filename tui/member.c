/*
 * Members by the process rows. Contract: member.h.
 */
#include "tui/member.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PIDs end at 4,194,304: of eight bytes each there are 32 MiB at most. A note of the log has 16 MiB at most. */
enum { FIRST_ROOM = 256, LINE = 48, PROCS_MAX = 33 << 20, TEXT_MAX_BYTES = 16 << 20, RULE = MEMBER_PATH + 512, COMM = 15 };

/* ---- a set of keys ------------------------------------------------------------------------------------------------------------------ */

static size_t place_of(const struct member_set *set, struct key key)
{
        uint64_t hash = (key.a * UINT64_C(0x9e3779b97f4a7c15)) ^ (key.b * UINT64_C(0xc2b2ae3d27d4eb4f));
        size_t at = (size_t)(hash >> 20) & (set->room - 1);

        /* PID 0 is nobody's: an empty place. */
        while (set->keys[at].a != 0 && (set->keys[at].a != key.a || set->keys[at].b != key.b))
                at = (at + 1) & (set->room - 1);
        return at;
}

static int grow(struct member_set *set)
{
        struct member_set larger = { .room = set->room ? set->room * 2 : FIRST_ROOM, .count = set->count };

        larger.keys = calloc(larger.room, sizeof *larger.keys);
        if (larger.keys == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < set->room; i++)
                if (set->keys[i].a != 0)
                        larger.keys[place_of(&larger, set->keys[i])] = set->keys[i];
        free(set->keys);
        *set = larger;
        return 0;
}

int member_add(struct member_set *set, struct key key)
{
        if (key.a == 0)
                return 0;
        if (set->count * 2 >= set->room) {
                int r = grow(set);
                if (r < 0)
                        return r;
        }
        size_t at = place_of(set, key);
        if (set->keys[at].a != 0)
                return 0;
        set->keys[at] = key;
        set->count++;
        return 1;
}

bool member_has(const struct member_set *set, struct key key)
{
        return set->room > 0 && key.a != 0 && set->keys[place_of(set, key)].a != 0;
}

/* ---- who is one ----------------------------------------------------------------------------------------------------------------- */

void members_init(struct members *members, struct member_group *group)
{
        *members = (struct members){ .group = group, .own_session = getsid(0) };
}

void members_fini(struct members *members)
{
        free(members->tree.keys);
        free(members->watched.keys);
        free(members->sessions);
        free(members->buffer);
        *members = (struct members){ .group = NULL };
}

static bool known_session(const struct members *members, pid_t session)
{
        for (size_t i = 0; i < members->session_count; i++)
                if (members->sessions[i] == session)
                        return true;
        return false;
}

static void add_session(struct members *members, pid_t session)
{
        if (session <= 1 || session == members->own_session || known_session(members, session))
                return;
        if (members->session_count == members->session_room) {
                size_t room = members->session_room ? members->session_room * 2 : 16;
                pid_t *larger = realloc(members->sessions, room * sizeof *larger);
                if (larger == NULL)
                        return;
                members->sessions = larger;
                members->session_room = room;
        }
        members->sessions[members->session_count++] = session;
}

static bool code(const struct state_row *row, int metric, uint64_t *value)
{
        return state_now(row, metric, value);
}

/* The parent is a member now, or was when it had this number: children of a member that ended have another parent by then. */
static bool parent_is_member(const struct members *members, const struct state *state, uint64_t parent)
{
        /* PIDs are few and starts many: the row that has this PID now is asked for by walking, but only for rows that are new. */
        for (size_t i = 0; i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                if (row->key.a == parent && member_has(&members->tree, row->key))
                        return true;
        }
        return false;
}

static bool belongs(const struct members *members, const struct state *state, const struct state_row *row)
{
        uint64_t value;

        if (members->root > 0 && row->key.a == (uint64_t)members->root)
                return true;
        if (code(row, PROCESS_SESSION, &value) && value > 1 && known_session(members, (pid_t)value))
                return true;
        return code(row, PROCESS_PARENT, &value) && value > 1 && parent_is_member(members, state, value);
}

static void enter(struct members *members, const struct state_row *row)
{
        uint64_t session;

        if (member_add(&members->tree, row->key) != 1)
                return;
        members->changed = true;
        if (code(row, PROCESS_SESSION, &session) && session == row->key.a)
                add_session(members, (pid_t)session);
}

/* A member that became a session's leader later (setsid, then exec). */
static void follow_session(struct members *members, const struct state_row *row)
{
        uint64_t session;

        if (code(row, PROCESS_SESSION, &session) && session == row->key.a)
                add_session(members, (pid_t)session);
}

static void look_at_ancestry(struct members *members, const struct state *state)
{
        bool more = true;

        /* A child may stand before its parent. */
        while (more) {
                more = false;
                for (size_t i = 0; i < state_count(state, SCOPE_PROCESS); i++) {
                        const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                        if (member_has(&members->tree, row->key)) {
                                follow_session(members, row);
                                continue;
                        }
                        /* Who was there before the command started is not its child, unless it is the process asked for. */
                        bool new_row = row->born || !row->has_base || row->key.a == (uint64_t)members->root;
                        if (new_row && belongs(members, state, row)) {
                                enter(members, row);
                                more = true;
                        }
                }
        }
}

/* ---- who is in the control group ------------------------------------------------------------------------------------------------ */

static ssize_t read_procs(struct members *members)
{
        char path[MEMBER_PATH + 16];
        size_t length = 0;
        ssize_t n = 1;

        snprintf(path, sizeof path, "%s/cgroup.procs", members->group->path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        while (n > 0 && length < PROCS_MAX) {
                if (members->capacity - length < 4096) {
                        char *larger = realloc(members->buffer, members->capacity + 65536);
                        if (larger == NULL)
                                break;
                        members->buffer = larger;
                        members->capacity += 65536;
                }
                n = read(fd, members->buffer + length, members->capacity - length - 1);
                if (n > 0)
                        length += (size_t)n;
        }
        close(fd);
        if (members->buffer == NULL)
                return -ENOMEM;
        members->buffer[length] = '\0';
        return (ssize_t)length;
}

static int by_number(const void *a, const void *b)
{
        const long *one = a, *two = b;

        return *one < *two ? -1 : *one > *two;
}

/* PIDs of cgroup.procs, sorted. */
static long *list_procs(struct members *members, size_t *count)
{
        ssize_t length = read_procs(members);
        size_t lines = 0;

        *count = 0;
        for (ssize_t i = 0; i < length; i++)
                lines += members->buffer[i] == '\n';
        long *pids = lines > 0 ? calloc(lines, sizeof *pids) : NULL;
        char *at = members->buffer;
        while (pids != NULL && *count < lines) {
                pids[(*count)++] = strtol(at, &at, 10);
                at += *at == '\n';
        }
        if (pids != NULL)
                qsort(pids, *count, sizeof *pids, by_number);
        return pids;
}

static void look_at_group(struct members *members, const struct state *state)
{
        size_t count;

        if (members->group == NULL || members->group->path[0] == '\0')
                return;
        long *pids = list_procs(members, &count);
        for (size_t i = 0; pids != NULL && i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                long pid = (long)row->key.a;
                if (!row->gone && bsearch(&pid, pids, count, sizeof *pids, by_number) != NULL)
                        enter(members, row);
        }
        free(pids);
}

/* ---- who is watched ------------------------------------------------------------------------------------------------------------- */

static bool watched(const char *watch, const struct state *state, const struct state_row *row)
{
        size_t length, wanted = strlen(watch);
        char *end;

        unsigned long pid = strtoul(watch, &end, 10);
        if (*end == '\0')
                return pid == row->key.a;
        const char *comm = state_text(state, row, PROCESS_COMM, &length);
        /* The kernel keeps 15 bytes of a name. */
        if (wanted > COMM)
                wanted = COMM;
        return comm != NULL && length == wanted && memcmp(comm, watch, wanted) == 0;
}

static void look_at_watched(struct members *members, const struct state *state)
{
        for (size_t i = 0; members->watch_count > 0 && i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                for (size_t w = 0; w < members->watch_count; w++)
                        if (watched(members->watches[w], state, row) && member_add(&members->watched, row->key) == 1)
                                members->changed = true;
        }
}

void members_look(struct members *members, const struct state *state)
{
        look_at_group(members, state);
        if (members->root > 0 || members->tree.count > 0)
                look_at_ancestry(members, state);
        look_at_watched(members, state);
}

char *members_text(struct members *members, const struct member_set *set, size_t *length)
{
        size_t size = RULE + set->count * LINE, at = RULE, i = 0;
        char rule[RULE];

        if (size > TEXT_MAX_BYTES)
                size = TEXT_MAX_BYTES;
        char *text = malloc(size + 1);
        if (text == NULL)
                return NULL;
        for (; i < set->room && size - at >= LINE; i++)
                if (set->keys[i].a != 0)
                        at += (size_t)snprintf(text + at, size - at, "%" PRIu64 " %" PRIu64 "\n", set->keys[i].a, set->keys[i].b);
        while (i < set->room && set->keys[i].a == 0)
                i++;
        const char *cut = i < set->room ? " may be incomplete" : "";
        if (set == &members->watched)
                snprintf(rule, sizeof rule, "rule watched%s\n", cut);
        else if (members->group != NULL && members->group->path[0] != '\0')
                snprintf(rule, sizeof rule, "rule cgroup %s %s%s\n", members->group->name, members->group->path, cut);
        else
                snprintf(rule, sizeof rule, "rule ancestry may be incomplete\n");
        size_t head = strlen(rule);
        memmove(text + head, text + RULE, at - RULE);
        memcpy(text, rule, head);
        *length = head + at - RULE;
        text[*length] = '\0';
        return text;
}

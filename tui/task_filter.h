#pragma once
/*
 * Which tasks `watop task` shows: -p PID|NAME, -C REGEX, -G REGEX. Matches raw bytes, whatever the locale.
 */
#include <locale.h>
#include <regex.h>

#include "sample/state.h"

enum { FILTER_NAMES = 64 };

struct task_filter {
        struct filter_name { char *text; long pid; bool seen; } names[FILTER_NAMES]; /* pid 0: a name */
        size_t name_count;
        bool everything;              /* -p ALL */
        bool told, command_lines;     /* command_lines: -C looks at them too */
        bool has_tasks, has_groups;
        regex_t tasks, groups;
        locale_t bytes;               /* the C locale, for regcomp and regexec */
};

struct task_subject {
        int pid, tid;
        bool thread;
        const struct state_row *own, *process; /* process may be NULL */
};

enum filter_regex { FILTER_TASKS, FILTER_GROUPS };
enum filter_answer { FILTER_NO, FILTER_YES, FILTER_NAMED /* asked for by PID or name: shown even when idle */ };

/* One -p; 0 or -EINVAL, said already. */
int task_filter_add(struct task_filter *, const char *list);
int task_filter_regex(struct task_filter *, enum filter_regex, const char *pattern);
enum filter_answer task_filter_match(struct task_filter *, const struct state *, const struct task_subject *);
/* After a report: says once which of the names nothing was found for. 1 when not one was found, else 0. */
int task_filter_tell(struct task_filter *);
void task_filter_fini(struct task_filter *);

/*
 * Which tasks are shown. See task_filter.h.
 *
 * The regular expressions run in the C locale: a name is bytes that a stranger chose, and a byte that is no character of the
 * user's locale must not hide a task from "." or "[^a]".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/options.h"
#include "tui/task_filter.h"

static int add_name(struct task_filter *filter, const char *text, size_t length)
{
        struct filter_name *name;
        char *end;

        if (length == 0)
                return options_error("task", "-p needs a PID or a name");
        if (length == 3 && memcmp(text, "ALL", 3) == 0) {
                filter->everything = true;
                return 0;
        }
        if (filter->name_count == FILTER_NAMES)
                return options_error("task", "more than %d names and PIDs", FILTER_NAMES);
        name = &filter->names[filter->name_count];
        name->text = strndup(text, length);
        if (!name->text)
                return options_error("task", "out of memory");
        filter->name_count++;
        if (strspn(name->text, "0123456789") == length) {
                errno = 0;
                name->pid = strtol(name->text, &end, 10);
                if (errno || name->pid <= 0 || name->pid > INT32_MAX)
                        return options_error("task", "'%s' is not a PID", name->text);
        }
        return 0;
}

int task_filter_add(struct task_filter *filter, const char *list)
{
        for (;;) {
                size_t length = strcspn(list, ",");
                int r = add_name(filter, list, length);
                if (r < 0)
                        return r;
                if (list[length] == '\0')
                        return 0;
                list += length + 1;
        }
}

int task_filter_regex(struct task_filter *filter, enum filter_regex which, const char *pattern)
{
        regex_t *regex = which == FILTER_TASKS ? &filter->tasks : &filter->groups;
        bool *has = which == FILTER_TASKS ? &filter->has_tasks : &filter->has_groups;
        char message[128];

        if (*has)
                return options_error("task", "-C and -G can be given once each");
        if (!filter->bytes)
                filter->bytes = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!filter->bytes)
                return options_error("task", "out of memory");
        locale_t before = uselocale(filter->bytes);
        int r = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);
        if (r != 0)
                regerror(r, regex, message, sizeof message);
        uselocale(before);
        if (r != 0)
                return options_error("task", "'%s': %s", pattern, message);
        *has = true;
        return 0;
}

static bool regex_matches(const struct task_filter *filter, const regex_t *regex, const struct state *state, const struct state_row *row,
                          int metric)
{
        char text[TEXT_MAX + 1];

        if (!row)
                return false;
        state_text_copy(state, row, metric, text, sizeof text);
        locale_t before = uselocale(filter->bytes);
        bool match = regexec(regex, text, 0, NULL, 0) == 0;
        uselocale(before);
        return match;
}

/* The kernel keeps 15 bytes of a name: a longer one that somebody types means the task of which it shows the beginning. */
static bool same_name(const struct state *state, const struct state_row *row, int metric, const char *name)
{
        size_t length;
        const char *text = row ? state_text(state, row, metric, &length) : NULL;

        if (!text || memcmp(text, name, length < strlen(name) ? length : strlen(name)) != 0)
                return false;
        return length == strlen(name) || (length == 15 && strlen(name) > 15);
}

/* -p: a PID, or a process's own name; its threads belong to it. A TID names that thread. */
static bool named(struct task_filter *filter, const struct state *state, const struct task_subject *subject)
{
        bool any = false;

        for (size_t i = 0; i < filter->name_count; i++) {
                struct filter_name *name = &filter->names[i];
                bool match = name->pid ? name->pid == subject->pid || name->pid == subject->tid
                        : same_name(state, subject->process, PROCESS_COMM, name->text);
                name->seen |= match;
                any |= match;
        }
        return any;
}

enum filter_answer task_filter_match(struct task_filter *filter, const struct state *state, const struct task_subject *subject)
{
        enum filter_answer answer = FILTER_YES;

        if (filter->name_count > 0 && !filter->everything) {
                if (!named(filter, state, subject))
                        return FILTER_NO;
                answer = FILTER_NAMED;
        }
        if (filter->everything)
                answer = FILTER_NAMED;
        if (filter->has_groups && !regex_matches(filter, &filter->groups, state, subject->process, PROCESS_COMM))
                return FILTER_NO;
        int comm = subject->thread ? THREAD_COMM : PROCESS_COMM;
        if (filter->has_tasks && !regex_matches(filter, &filter->tasks, state, subject->own, comm) &&
            !(filter->command_lines && regex_matches(filter, &filter->tasks, state, subject->process, PROCESS_CMDLINE)))
                return FILTER_NO;
        return answer;
}

int task_filter_tell(struct task_filter *filter)
{
        size_t seen = 0;

        for (size_t i = 0; i < filter->name_count; i++) {
                seen += filter->names[i].seen;
                if (!filter->told && !filter->names[i].seen && !filter->everything)
                        options_say("task", "no %s '%s'", filter->names[i].pid ? "process" : "process is called", filter->names[i].text);
        }
        filter->told = true;
        return filter->name_count > 0 && seen == 0 && !filter->everything ? 1 : 0;
}

void task_filter_fini(struct task_filter *filter)
{
        for (size_t i = 0; i < filter->name_count; i++)
                free(filter->names[i].text);
        if (filter->has_tasks)
                regfree(&filter->tasks);
        if (filter->has_groups)
                regfree(&filter->groups);
        if (filter->bytes)
                freelocale(filter->bytes);
        *filter = (struct task_filter){0};
}

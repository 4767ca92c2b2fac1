/*
 * Entering a tree of a captured machine. The files here are a stranger's: bounded, checked, and what is wrong in them is as if it were
 * not there.
 */
#include "collectors/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectors/confine.h"

enum { ERRORS_MAX = 64 << 20 };

#define TIMES_MAX_NS UINT64_C(3600000000000) /* no tick takes an hour */

void tree_init(struct tree *t)
{
        memset(t, 0, sizeof *t);
        t->fd = -1;
        t->hz = 100;
        t->page_size = 4096;
}

void tree_fini(struct tree *t)
{
        if (t->fd >= 0)
                close(t->fd);
        free(t->system);
        free(t->errors);
        free(t->failures);
        free(t->times_text);
        free(t->times);
        tree_init(t);
}

/* Whole text of a file of the tree, allocated; NULL when there is none. */
static int load(int fd, const char *name, char **text)
{
        int file = confine_open(fd, name);
        struct stat st;
        *text = NULL;
        if (file < 0)
                return 0;
        if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ERRORS_MAX) {
                close(file);
                return -EINVAL;
        }
        size_t have = 0, size = (size_t)st.st_size;
        char *bytes = malloc(size + 1);
        ssize_t n = 1;
        while (bytes && have < size && (n = read(file, bytes + have, size - have)) > 0)
                have += (size_t)n;
        close(file);
        if (!bytes)
                return -ENOMEM;
        bytes[have] = '\0';
        *text = bytes;
        return 0;
}

static int number_of_error(const char *word)
{
        static const struct { const char *name; int number; } names[] = {
                { "EPERM", EPERM }, { "ENOENT", ENOENT }, { "ESRCH", ESRCH }, { "EINTR", EINTR }, { "EIO", EIO }, { "ENXIO", ENXIO },
                { "EAGAIN", EAGAIN }, { "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { "EBUSY", EBUSY }, { "ENODEV", ENODEV }, { "ENOTDIR",
                ENOTDIR },
                { "EINVAL", EINVAL }, { "ENOSYS", ENOSYS }, { "ELOOP", ELOOP }, { "EOPNOTSUPP", EOPNOTSUPP }, { "ENOTSUP", ENOTSUP },
                { "ETIMEDOUT", ETIMEDOUT }, { "ESTALE", ESTALE }, { "ENAMETOOLONG", ENAMETOOLONG }, { "EISDIR", EISDIR }, { "EMFILE",
                EMFILE },
        };
        struct scan s;
        uint64_t number;
        scan_init(&s, word, strlen(word));
        if (scan_u64(&s, &number))
                return number > 0 && number < 4096 ? (int)number : 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (strcmp(word, names[i].name) == 0)
                        return names[i].number;
        return 0;
}

static int by_path(const void *a, const void *b)
{
        return strcmp(((const struct tree_failure *)a)->path, ((const struct tree_failure *)b)->path);
}

/* Lines "PATH ERRNO" of t->errors, cut in place: the last blank separates, for a path may hold blanks. */
static int parse_errors(struct tree *t)
{
        size_t lines = 1;
        for (const char *c = t->errors; *c; c++)
                lines += *c == '\n';
        t->failures = calloc(lines, sizeof *t->failures);
        if (!t->failures)
                return -ENOMEM;
        char *save = NULL;
        for (char *line = strtok_r(t->errors, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                char *blank = strrchr(line, ' ');
                if (!blank)
                        continue;
                *blank = '\0';
                int error = number_of_error(blank + 1);
                while (*line == '/')
                        line++;
                if (error)
                        t->failures[t->failure_count++] = (struct tree_failure){ line, error };
        }
        qsort(t->failures, t->failure_count, sizeof *t->failures, by_path);
        return 0;
}

int tree_error(const struct tree *t, const char *path)
{
        struct tree_failure wanted = { path, 0 };
        const struct tree_failure *found = t->failure_count ? bsearch(&wanted, t->failures, t->failure_count, sizeof wanted, by_path)
                : NULL;
        return found ? found->error : 0;
}

static int by_timed_path(const void *a, const void *b)
{
        return strcmp(((const struct tree_time *)a)->path, ((const struct tree_time *)b)->path);
}

/* Lines "NS PATH", cut in place. */
static int parse_times(struct tree *t)
{
        size_t lines = 1;
        for (const char *c = t->times_text; *c; c++)
                lines += *c == '\n';
        t->times = calloc(lines, sizeof *t->times);
        if (!t->times)
                return -ENOMEM;
        char *save = NULL;
        for (char *line = strtok_r(t->times_text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                struct scan s;
                uint64_t ns;
                scan_init(&s, line, strlen(line));
                if (!scan_u64(&s, &ns) || ns > TIMES_MAX_NS || !scan_prefix(&s, " ") || s.at == s.end)
                        continue;
                t->times[t->time_count++] = (struct tree_time){ s.at, ns };
        }
        qsort(t->times, t->time_count, sizeof *t->times, by_timed_path);
        return 0;
}

bool tree_time(const struct tree *t, const char *path, uint64_t *ns)
{
        struct tree_time wanted = { path, 0 };
        const struct tree_time *found = t->time_count ? bsearch(&wanted, t->times, t->time_count, sizeof wanted, by_timed_path) : NULL;
        if (found)
                *ns = found->ns;
        return found;
}

static ssize_t system_value(const char *text, const char *key, char *buffer, size_t size)
{
        struct scan s, line;
        scan_init(&s, text, strlen(text));
        while (scan_line(&s, &line)) {
                if (!scan_prefix(&line, key) || !scan_prefix(&line, "="))
                        continue;
                size_t length = (size_t)(line.end - line.at);
                if (length >= size)
                        return -EOVERFLOW;
                memcpy(buffer, line.at, length);
                buffer[length] = '\0';
                return (ssize_t)length;
        }
        return -ENOENT;
}

ssize_t tree_system(const struct tree *t, const char *key, char *buffer, size_t size)
{
        return t->system ? system_value(t->system, key, buffer, size) : -ENOENT;
}

static void system_number(const char *text, const char *key, unsigned low, unsigned high, unsigned *value)
{
        char word[32];
        struct scan s;
        uint64_t number;
        ssize_t n = system_value(text, key, word, sizeof word);
        if (n < 0)
                return;
        scan_init(&s, word, (size_t)n);
        if (scan_u64(&s, &number) && number >= low && number <= high)
                *value = (unsigned)number;
}

static void parse_system(struct tree *t)
{
        unsigned lxcfs = 0;
        if (!t->system)
                return;
        system_number(t->system, "hz", 1, 1000000, &t->hz);
        system_number(t->system, "page_size", 512, 1 << 24, &t->page_size);
        system_number(t->system, "lxcfs", 0, 1, &lxcfs);
        t->lxcfs = lxcfs;
}

static void parse_clock(struct tree *t)
{
        char *text;
        struct scan s;
        struct procfs_clock c;
        if (load(t->fd, "clock", &text) < 0 || !text)
                return;
        scan_init(&s, text, strlen(text));
        if (scan_u64(&s, &c.mono_ns) && scan_u64(&s, &c.boot_ns) && scan_u64(&s, &c.real_ns))
                t->clock = c;
        free(text);
}

static int open_folder(int root, const char *path)
{
        struct stat st;
        int fd = confine_open(root, path);
        if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))) {
                close(fd);
                return -ENOTDIR;
        }
        return fd;
}

/* A tree's own files, on top of what `from` (its tick's tree) says. */
static int tree_load(struct tree *t, int fd)
{
        t->fd = fd;
        char *system;
        int r = load(fd, "system", &system);
        if (r < 0)
                return r;
        if (system) {
                free(t->system);
                t->system = system;
        }
        parse_system(t);
        parse_clock(t);
        r = load(fd, "errors", &t->errors);
        if (r == 0 && t->errors)
                r = parse_errors(t);
        if (r == 0)
                r = load(fd, "times", &t->times_text);
        return r < 0 || !t->times_text ? r : parse_times(t);
}

/* Read the tick's own tree, and when a sub-sample is asked, that one on top of it. */
int tree_enter(struct tree *t, int root, unsigned number, int sub)
{
        char name[32];
        struct tree made;
        snprintf(name, sizeof name, "%04u", number);
        int fd = open_folder(root, name);
        if (fd == -ENOENT && number == 0)
                fd = open_folder(root, ".");
        if (fd < 0)
                return fd;
        tree_init(&made);
        int r = tree_load(&made, fd);
        if (r == 0 && sub >= 0) {
                struct tree tick = made;
                snprintf(name, sizeof name, "sub/%02d", sub);
                fd = open_folder(tick.fd, name);
                made.errors = NULL;
                made.failures = NULL;
                made.failure_count = 0;
                made.times_text = NULL;
                made.times = NULL;
                made.time_count = 0;
                r = fd < 0 ? fd : tree_load(&made, fd);
                close(tick.fd);
                free(tick.errors);
                free(tick.failures);
                free(tick.times_text);
                free(tick.times);
                if (fd < 0)
                        made.fd = -1;
        }
        if (r < 0) {
                tree_fini(&made);
                return r;
        }
        tree_fini(t);
        *t = made;
        return 0;
}

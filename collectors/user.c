/*
 * The table of users. See user.h.
 *
 * The file's bytes are kept; entries point into them, sorted by number. The first line with a number wins, as in getpwuid(3).
 */
#include "collectors/user.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user {
        uint32_t uid, line;
        const char *name;
        size_t length;
};

struct users {
        char *text;
        size_t capacity, count;
        struct user *table;
};

static int user_order(const void *a, const void *b)
{
        const struct user *x = a, *y = b;

        if (x->uid != y->uid)
                return x->uid < y->uid ? -1 : 1;
        return x->line < y->line ? -1 : x->line > y->line;
}

/* name:password:uid:... */
static bool parse_line(struct scan line, struct user *user)
{
        const char *colon = memchr(line.at, ':', (size_t)(line.end - line.at));
        const char *second = colon ? memchr(colon + 1, ':', (size_t)(line.end - colon - 1)) : NULL;
        uint64_t uid;

        if (!second || colon == line.at || *line.at == '#' || *line.at == '+' || *line.at == '-')
                return false;
        struct scan number;
        scan_init(&number, second + 1, (size_t)(line.end - second - 1));
        if (!scan_u64(&number, &uid) || uid > UINT32_MAX)
                return false;
        user->name = line.at;
        user->length = (size_t)(colon - line.at);
        user->uid = (uint32_t)uid;
        return true;
}

static int parse(struct users *users, size_t length)
{
        struct scan scan, line;
        size_t lines = 0;

        scan_init(&scan, users->text, length);
        while (scan_line(&scan, &line))
                lines++;
        users->table = calloc(lines ? lines : 1, sizeof *users->table);
        if (!users->table)
                return -ENOMEM;
        scan_init(&scan, users->text, length);
        while (users->count < lines && scan_line(&scan, &line)) {
                struct user user;
                if (!parse_line(line, &user))
                        continue;
                user.line = (uint32_t)users->count;
                users->table[users->count++] = user;
        }
        if (users->count > 1)
                qsort(users->table, users->count, sizeof *users->table, user_order);
        return 0;
}

int users_new(struct procfs *procfs, struct users **out)
{
        struct users *users = calloc(1, sizeof *users);

        if (!users)
                return -ENOMEM;
        ssize_t n = procfs_read_all(procfs, "etc/passwd", &users->text, &users->capacity);
        if (n > 0 && parse(users, (size_t)n) < 0) {
                users_free(users);
                return -ENOMEM;
        }
        *out = users;
        return 0;
}

void users_free(struct users *users)
{
        if (!users)
                return;
        free(users->table);
        free(users->text);
        free(users);
}

size_t users_count(const struct users *users)
{
        return users->count;
}

size_t users_name(const struct users *users, uint32_t uid, char *out, size_t size)
{
        size_t low = 0, high = users->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (users->table[middle].uid < uid)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == users->count || users->table[low].uid != uid) {
                int n = snprintf(out, size, "%u", uid);
                return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
        }
        size_t n = users->table[low].length < size - 1 ? users->table[low].length : size - 1;
        memcpy(out, users->table[low].name, n);
        out[n] = '\0';
        return n;
}

/*
 * The control group that a recorded command runs in. Contract: member.h.
 *
 * Only hierarchies in which a new group changes nothing for its tasks: the unified one while our own group hands no controller down (else
 * the leaf would get shares and limits of its own), a named one, freezer, pids. The leaf lies below our own group, so limits above stay
 * what they are.
 */
#include "tui/member.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 256 << 10, TRIES = 16, ROUNDS = 50, ROUND_MS = 4 };

struct place {
        char root[MEMBER_PATH], mount[MEMBER_PATH]; /* what of the hierarchy is mounted where */
};

static char *read_file(const char *path)
{
        size_t length = 0;
        ssize_t n = 1;

        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        char *text = malloc(FILE_MAX);
        while (text != NULL && n > 0 && length < FILE_MAX - 1) {
                n = read(fd, text + length, FILE_MAX - 1 - length);
                length += n > 0 ? (size_t)n : 0;
        }
        close(fd);
        if (text != NULL)
                text[length] = '\0';
        return text;
}

/* mountinfo writes blanks and the like as \ooo. */
static void unescape(char *text)
{
        char *to = text;

        for (const char *at = text; *at != '\0'; at++) {
                if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
                        *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
                        at += 3;
                } else {
                        *to++ = *at;
                }
        }
        *to = '\0';
}

static bool has_word(const char *list, const char *word)
{
        size_t length = strlen(word);

        for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
                if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
                        return true;
        return false;
}

/* One line of mountinfo: ID PARENT MAJ:MIN ROOT MOUNT OPTIONS [TAG...] - TYPE SOURCE SUPER */
static bool line_fits(char *line, const char *hierarchy, struct place *place)
{
        char *save = NULL, *field[6] = { NULL }, *tail = strstr(line, " - ");

        if (tail == NULL)
                return false;
        *tail = '\0';
        char *rest = NULL, *type = strtok_r(tail + 3, " ", &rest);
        char *source = strtok_r(NULL, " ", &rest), *super = strtok_r(NULL, " ", &rest);
        for (int i = 0; i < 6; i++)
                field[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
        if (type == NULL || source == NULL || super == NULL || field[5] == NULL)
                return false;
        bool unified = hierarchy[0] == '\0';
        if (strcmp(type, unified ? "cgroup2" : "cgroup") != 0 || (!unified && !has_word(super, hierarchy)))
                return false;
        unescape(field[3]);
        unescape(field[4]);
        return (size_t)snprintf(place->root, sizeof place->root, "%s", field[3]) < sizeof place->root &&
               (size_t)snprintf(place->mount, sizeof place->mount, "%s", field[4]) < sizeof place->mount;
}

static bool find_mount(const char *mounts, const char *hierarchy, struct place *place)
{
        char *text = read_file(mounts), *save = NULL;
        bool found = false;

        for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line != NULL && !found; line = strtok_r(NULL, "\n", &save))
                found = line_fits(line, hierarchy, place);
        free(text);
        return found;
}

/* Our path in a hierarchy: a line ID:LIST:PATH of /proc/self/cgroup. */
static bool find_own(const char *own, const char *hierarchy, char *path, size_t size)
{
        char *text = read_file(own), *save = NULL;
        bool found = false;

        for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line != NULL && !found; line = strtok_r(NULL, "\n", &save)) {
                char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;
                if (at == NULL)
                        continue;
                *at++ = '\0';
                list++;
                if (hierarchy[0] == '\0' ? *list == '\0' : has_word(list, hierarchy))
                        found = (size_t)snprintf(path, size, "%s", at) < size;
        }
        free(text);
        return found;
}

/* The folder of our own group as it is mounted here. */
static bool own_folder(const char *mounts, const char *own, const char *hierarchy, char *folder, size_t size)
{
        struct place place;
        char path[MEMBER_PATH];
        const char *below = path;

        if (!find_mount(mounts, hierarchy, &place) || !find_own(own, hierarchy, path, sizeof path))
                return false;
        size_t length = strlen(place.root);
        if (strcmp(place.root, "/") != 0) {
                if (strncmp(path, place.root, length) != 0 || (path[length] != '/' && path[length] != '\0'))
                        return false; /* our group lies outside of what is mounted */
                below = path + length;
        }
        return (size_t)snprintf(folder, size, "%s%s", place.mount, strcmp(below, "/") == 0 ? "" : below) < size;
}

/* Controllers that our group hands to its children, or a threaded group: then a leaf is not neutral. */
static bool neutral(const char *folder)
{
        char path[MEMBER_PATH + 32];

        snprintf(path, sizeof path, "%s/cgroup.subtree_control", folder);
        char *text = read_file(path);
        bool fine = text != NULL && strspn(text, " \n") == strlen(text);
        free(text);
        snprintf(path, sizeof path, "%s/cgroup.type", folder);
        text = read_file(path);
        if (text != NULL && strncmp(text, "domain\n", 7) != 0) /* the root has no such file */
                fine = false;
        free(text);
        return fine;
}

static int make_leaf(struct member_group *group, const char *folder)
{
        char procs[MEMBER_PATH + 32];
        int n = -1;

        for (int i = 0; i < TRIES && n < 0; i++) {
                if ((size_t)snprintf(group->path, sizeof group->path, "%s/watop-%d-%d", folder, (int)getpid(), i) >= sizeof group->path)
                        return -ENAMETOOLONG;
                n = mkdir(group->path, 0755);
                if (n < 0 && errno != EEXIST)
                        return -errno;
        }
        if (n < 0)
                return -EEXIST;
        snprintf(procs, sizeof procs, "%s/cgroup.procs", group->path);
        group->join_fd = open(procs, O_WRONLY | O_CLOEXEC);
        if (group->join_fd >= 0)
                return 0;
        int r = -errno;
        rmdir(group->path);
        return r;
}

int member_group_make(struct member_group *group, const char *mounts, const char *own)
{
        static const char *const hierarchies[] = { "", "name=systemd", "freezer", "pids" };
        char folder[MEMBER_PATH];
        int r = -ENOENT;

        *group = (struct member_group){ .join_fd = -1 };
        for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies; i++) {
                const char *hierarchy = hierarchies[i];
                if (!own_folder(mounts, own, hierarchy, folder, sizeof folder) || (hierarchy[0] == '\0' && !neutral(folder)))
                        continue;
                r = make_leaf(group, folder);
                if (r == 0) {
                        snprintf(group->name, sizeof group->name, "%s", hierarchy[0] != '\0' ? hierarchy : "unified");
                        return 0;
                }
        }
        group->path[0] = '\0';
        return r;
}

/* One PID a write. Forks in between need another round; a task that ends closes its files, which is its end for us, a moment before it
 * leaves. */
static void send_back(const struct member_group *group)
{
        char path[MEMBER_PATH + 32], *slash;

        snprintf(path, sizeof path, "%s", group->path);
        slash = strrchr(path, '/');
        snprintf(slash, sizeof path - (size_t)(slash - path), "/cgroup.procs");
        int to = open(path, O_WRONLY | O_CLOEXEC);
        snprintf(path, sizeof path, "%s/cgroup.procs", group->path);
        for (int round = 0; to >= 0 && round < ROUNDS && rmdir(group->path) < 0 && errno == EBUSY; round++) {
                if (round > 0)
                        poll(NULL, 0, ROUND_MS);
                char *text = read_file(path), *save = NULL;
                for (char *pid = text ? strtok_r(text, "\n", &save) : NULL; pid != NULL; pid = strtok_r(NULL, "\n", &save))
                        if (write(to, pid, strlen(pid)) < 0 && errno != ESRCH)
                                break;
                free(text);
        }
        if (to >= 0)
                close(to);
}

void member_group_end(struct member_group *group)
{
        if (group->join_fd >= 0)
                close(group->join_fd);
        group->join_fd = -1;
        if (group->path[0] != '\0')
                send_back(group);
        group->path[0] = '\0';
}

/*
 * tracefs and our instance in it. Contract: tracefs_place.h; why it is done so: tracefs.c.
 */
#include "collectors/tracefs_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where it is --------------------------------------------------------------------------------------------------------------------- */

/* "\040" in /proc/self/mounts is a blank. */
static void unescape(char *text)
{
        char *to = text;

        for (const char *at = text; *at; to++) {
                if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
                        *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + at[3] - '0');
                        at += 4;
                } else {
                        *to = *at++;
                }
        }
        *to = '\0';
}

/* The mount that people know first, then whichever there is; its old place below debugfs is a mount of its own, too. */
static bool find_mount(char *path, size_t size)
{
        char *line = NULL;
        size_t capacity = 0;
        bool found = false;
        FILE *mounts = fopen("/proc/self/mounts", "re");

        while (mounts && getline(&line, &capacity, mounts) > 0) {
                char *save, *where = strtok_r(line, " ", &save) ? strtok_r(NULL, " ", &save) : NULL;
                char *type = where ? strtok_r(NULL, " ", &save) : NULL;
                if (!type || strcmp(type, "tracefs") != 0)
                        continue;
                unescape(where);
                bool usual = strcmp(where, "/sys/kernel/tracing") == 0;
                if ((!found || usual) && strlen(where) < size) {
                        snprintf(path, size, "%s", where);
                        found = true;
                }
        }
        free(line);
        if (mounts)
                fclose(mounts);
        return found;
}

int place_open(struct tracefs_place_of *place, char *why, size_t size)
{
        char path[512];

        *place = (struct tracefs_place_of){.instances = -1, .instance = -1, .free_buffer = -1};
        if (!find_mount(path, sizeof path)) {
                snprintf(why, size, "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)");
                return -ENOENT;
        }
        int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        place->instances = top < 0 ? -1 : openat(top, "instances", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = place->instances < 0 ? -errno : 0;
        if (top >= 0)
                close(top);
        if (r == 0 && faccessat(place->instances, ".", W_OK | X_OK, AT_EACCESS) < 0)
                r = -errno;
        if (r == -EROFS)
                snprintf(why, size, "%s is read-only for this process (systemd: ReadWritePaths=%s)", path, path);
        else if (r == -EACCES || r == -EPERM)
                snprintf(why, size, "%s/instances is root's: run as the machine's root, or with rights there", path);
        else if (r < 0)
                snprintf(why, size, "%s/instances: %s", path, strerror(-r));
        if (r < 0)
                place_close(place);
        return r == -EPERM || r == -EROFS ? -EACCES : r;
}

void place_close(struct tracefs_place_of *place)
{
        place_remove(place);
        if (place->instances >= 0)
                close(place->instances);
        place->instances = -1;
}

/* ---- files --------------------------------------------------------------------------------------------------------------------------- */

static int write_at(int folder, const char *path, const char *text)
{
        int fd = openat(folder, path, O_WRONLY | O_CLOEXEC), r = fd < 0 ? -errno : 0;

        if (fd < 0)
                return r;
        if (write(fd, text, strlen(text)) < 0)
                r = -errno;
        close(fd);
        return r;
}

int place_write(const struct tracefs_place_of *place, const char *text, const char *path, ...)
{
        char full[256];
        va_list ap;

        va_start(ap, path);
        vsnprintf(full, sizeof full, path, ap);
        va_end(ap);
        return write_at(place->instance, full, text);
}

ssize_t place_read(const struct tracefs_place_of *place, char *text, size_t size, const char *path, ...)
{
        char full[256];
        va_list ap;
        size_t length = 0;
        ssize_t n;

        va_start(ap, path);
        vsnprintf(full, sizeof full, path, ap);
        va_end(ap);
        int fd = openat(place->instance, full, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        while ((n = read(fd, text + length, size - length)) > 0 && length + (size_t)n < size)
                length += (size_t)n;
        int error = errno;
        close(fd);
        return n < 0 ? -error : n > 0 ? -EOVERFLOW : (ssize_t)length;
}

static int by_number(const void *a, const void *b)
{
        unsigned first = *(const unsigned *)a, second = *(const unsigned *)b;
        return first < second ? -1 : first > second;
}

ssize_t place_cpus(const struct tracefs_place_of *place, unsigned *numbers, size_t room)
{
        size_t count = 0;
        int fd = openat(place->instance, "per_cpu", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = fd < 0 ? NULL : fdopendir(fd);

        if (!folder) {
                int r = -errno;
                if (fd >= 0)
                        close(fd);
                return r;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL && count < room;) {
                char *end;
                if (strncmp(entry->d_name, "cpu", 3) != 0 || entry->d_name[3] < '0' || entry->d_name[3] > '9')
                        continue;
                unsigned long number = strtoul(entry->d_name + 3, &end, 10);
                if (*end == '\0' && number < 1 << 20)
                        numbers[count++] = (unsigned)number;
        }
        closedir(folder);
        qsort(numbers, count, sizeof *numbers, by_number);
        return (ssize_t)count;
}

int place_open_cpu(const struct tracefs_place_of *place, unsigned cpu)
{
        char path[64];

        snprintf(path, sizeof path, "per_cpu/cpu%u/trace_pipe_raw", cpu);
        int fd = openat(place->instance, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* ---- the instance -------------------------------------------------------------------------------------------------------------------- */

/* Field 22 of /proc/PID/stat, in ticks since boot; 0: no such process. The name in brackets may hold anything. */
static uint64_t start_of(uint64_t pid)
{
        char path[48], text[1024];
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return 0;
        n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        const char *at = strrchr(text, ')');
        for (int field = 2; at && field < 22; field++)
                at = (at = strchr(at, ' ')) ? at + 1 : NULL;
        return at ? strtoull(at, NULL, 10) : 0;
}

int tracefs_place_make(struct tracefs_place_of *place, char *why, size_t size)
{
        static atomic_uint next;
        int r = -EEXIST;

        /* ENOENT: somebody cleaned it away before we had it open. */
        for (int tries = 0; tries < 16 && (r == -EEXIST || r == -ENOENT); tries++) {
                snprintf(place->name, sizeof place->name, "watop.%d.%" PRIu64 ".%u", (int)getpid(), start_of((uint64_t)getpid()),
                        atomic_fetch_add(&next, 1));
                if (mkdirat(place->instances, place->name, 0750) < 0) {
                        r = -errno;
                        continue;
                }
                place->instance = openat(place->instances, place->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = place->instance < 0 ? -errno : 0;
                if (r < 0) {
                        place_remove(place);
                        continue;
                }
                place->free_buffer = openat(place->instance, "free_buffer", O_WRONLY | O_CLOEXEC);
                write_at(place->instance, "options/disable_on_free", "1"); /* without, one that is left goes on until somebody removes it */
        }
        if (r < 0) {
                place->name[0] = '\0';
                snprintf(why, size, "an instance of tracefs cannot be made: %s%s", strerror(-r), r == -EPERM ? " (kernel lockdown?)" : "");
        }
        return r;
}

void place_remove(struct tracefs_place_of *place)
{
        if (place->name[0] == '\0')
                return;
        if (place->instance >= 0)
                write_at(place->instance, "events/enable", "0"); /* should it have to stay because somebody looks at it */
        if (place->free_buffer >= 0)
                close(place->free_buffer);
        if (place->instance >= 0)
                close(place->instance);
        place->instance = place->free_buffer = -1;
        unlinkat(place->instances, place->name, AT_REMOVEDIR);
        place->name[0] = '\0';
}

/* "watop.PID.START.N". */
static bool is_left(const char *name)
{
        uint64_t number[3];
        const char *at = name + 6;

        if (strncmp(name, "watop.", 6) != 0)
                return false;
        for (int i = 0; i < 3; i++) {
                char *end;
                if (*at < '0' || *at > '9')
                        return false;
                errno = 0;
                number[i] = strtoull(at, &end, 10);
                if (errno || *end != (i < 2 ? '.' : '\0'))
                        return false;
                at = end + 1;
        }
        return start_of(number[0]) != number[1];
}

unsigned place_clean(struct tracefs_place_of *place)
{
        unsigned removed = 0;
        int fd = openat(place->instances, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = fd < 0 ? NULL : fdopendir(fd);

        if (!folder) {
                if (fd >= 0)
                        close(fd);
                return 0;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
                if (is_left(entry->d_name) && unlinkat(place->instances, entry->d_name, AT_REMOVEDIR) == 0)
                        removed++;
        closedir(folder);
        return removed;
}

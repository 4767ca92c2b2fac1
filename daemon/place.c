/*
 * Where a daemon's ring and control socket are. Contract: place.h.
 */
#include "daemon/place.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Root, or the user for whom the service unit (or tmpfiles) made the folder: no look-up of names is needed. */
static bool is_system_user(void)
{
        struct stat st;

        return geteuid() == 0 || (lstat("/run/watop", &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid());
}

static int join(char *out, size_t size, const char *folder, const char *name)
{
        int length = snprintf(out, size, "%s/%s", folder, name);
        return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

static int copy(char *out, size_t size, const char *text)
{
        size_t length = strlen(text);

        if (length >= size)
                return -ENAMETOOLONG;
        memcpy(out, text, length + 1);
        return 0;
}

/* The folder part of a path; "." when it has none. */
static int folder_of(const char *path, char *out, size_t size)
{
        const char *slash = strrchr(path, '/');

        if (slash == NULL)
                return copy(out, size, ".");
        size_t length = slash == path ? 1 : (size_t)(slash - path);
        if (length >= size)
                return -ENAMETOOLONG;
        memcpy(out, path, length);
        out[length] = '\0';
        return 0;
}

static int own_folder(char *out, size_t size)
{
        if (is_system_user())
                return copy(out, size, "/run/watop");
        /* secure_getenv: nobody else's environment steers us when we have file capabilities. */
        const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
        if (runtime == NULL || *runtime != '/')
                return -ENOENT;
        return join(out, size, runtime, "watop");
}

int place_find(const char *ring, const char *socket, struct place *place)
{
        int r;

        if (ring != NULL)
                r = folder_of(ring, place->folder, sizeof place->folder);
        else if (socket != NULL)
                r = folder_of(socket, place->folder, sizeof place->folder);
        else
                r = own_folder(place->folder, sizeof place->folder);
        if (r == 0)
                r = ring != NULL ? copy(place->ring, sizeof place->ring, ring)
                        : join(place->ring, sizeof place->ring, place->folder, "ring");
        if (r == 0)
                r = socket != NULL ? copy(place->socket, sizeof place->socket, socket)
                        : join(place->socket, sizeof place->socket, place->folder, "control");
        return r;
}

int place_make(const struct place *place)
{
        struct stat st;

        /* Readers of group watop must come in where root's ring is; a user's own folder is nobody else's. */
        mode_t mode = geteuid() == 0 ? 0755 : 0700;
        if (mkdir(place->folder, mode) == 0)
                chmod(place->folder, mode); /* whatever the umask is */
        else if (errno != EEXIST)
                return -errno;
        if (lstat(place->folder, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        /* /run/watop belongs to the user watop where the service unit made it; root may use it. */
        if ((st.st_uid != geteuid() && geteuid() != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return -EPERM;
        return 0;
}

void place_describe(const char *path, char *text, size_t size)
{
        struct stat st;

        if (lstat(path, &st) < 0) {
                snprintf(text, size, "nothing");
                return;
        }
        const char *what = S_ISREG(st.st_mode) ? "a file" : S_ISDIR(st.st_mode) ? "a directory" : S_ISLNK(st.st_mode) ? "a symbolic link" :
                S_ISSOCK(st.st_mode) ? "a socket" : S_ISFIFO(st.st_mode) ? "a pipe" : "a device";
        snprintf(text, size, "%s of uid %u, mode %03o", what, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}

bool place_in_memory(const char *folder)
{
        struct statfs fs;

        return statfs(folder, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

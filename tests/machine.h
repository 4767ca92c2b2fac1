#pragma once
/*
 * A captured machine that a test writes itself: a folder of its own below $TMPDIR, trees, files, links, and its removal.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct machine {
        char dir[200];
};

static inline void machine_make(struct machine *m)
{
        const char *tmp = getenv("TMPDIR");
        snprintf(m->dir, sizeof m->dir, "%s/watop-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(m->dir))
                abort();
}

static inline int machine_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
        return remove(path);
}

static inline void machine_remove(struct machine *m)
{
        nftw(m->dir, machine_remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* Full path of a file of the machine; its folders are made. */
static inline char *machine_path(const struct machine *m, const char *path, char full[1024])
{
        snprintf(full, 1024, "%s/%s", m->dir, path);
        for (char *slash = full + strlen(m->dir) + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                mkdir(full, 0700);
                *slash = '/';
        }
        return full;
}

static inline void machine_write(const struct machine *m, const char *path, const char *text)
{
        char full[1024];
        FILE *f = fopen(machine_path(m, path, full), "w");
        if (!f || fputs(text, f) < 0 || fclose(f) != 0)
                abort();
}

/* For text given by lines, printf-wise. */
__attribute__((format(printf, 3, 4))) static inline void machine_writef(const struct machine *m, const char *path, const char *format, ...)
{
        char text[16384];
        va_list ap;
        va_start(ap, format);
        vsnprintf(text, sizeof text, format, ap);
        va_end(ap);
        machine_write(m, path, text);
}

static inline void machine_link(const struct machine *m, const char *path, const char *target)
{
        char full[1024];
        if (symlink(target, machine_path(m, path, full)) < 0)
                abort();
}

static inline void machine_folder(const struct machine *m, const char *path)
{
        char full[1024];
        if (mkdir(machine_path(m, path, full), 0700) < 0)
                abort();
}

/* Text of a file of the machine, "" when there is none. */
static inline const char *machine_read(const struct machine *m, const char *path, char *text, size_t size)
{
        char full[1024];
        snprintf(full, sizeof full, "%s/%s", m->dir, path);
        int fd = open(full, O_RDONLY | O_NOFOLLOW);
        ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = '\0';
        return text;
}

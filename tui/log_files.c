/*
 * A folder of logs as one. Contract: log_files.h.
 *
 * Blocks of a log can be read from their start, and records of other kinds are skipped, so files of one writer (one schema, sequences that
 * go on) become one by putting their records behind one another; only the indexes, whose offsets would be wrong, are left out. That is a
 * copy of bytes into a file without a name, which is all that every reader needs: no verb knows of folders.
 */
#include "tui/log_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample/log.h"
#include "sample/log_layout.h"
#include "tui/options.h"

enum { FILES_MAX = 4096, NAME = 64, COPY = 1 << 20 };

struct files {
        int folder;
        char path[PATH_MAX];             /* of the folder */
        char (*names)[NAME];             /* newest first: the chain */
        size_t count, seen;              /* seen: all that look like logs */
};

/* As watopd names them: watop-DATE-TIME.log; no way out of the folder. */
static bool is_log_name(const char *name, size_t length)
{
        return length > 10 && length < NAME && memcmp(name, "watop-", 6) == 0 && memcmp(name + length - 4, ".log", 4) == 0 &&
               memchr(name, '/', length) == NULL && memchr(name, '\0', length) == NULL;
}

static int find_newest(struct files *files)
{
        struct dirent *entry;
        char newest[NAME] = "";
        int own = fcntl(files->folder, F_DUPFD_CLOEXEC, 0);
        DIR *dir = own < 0 ? NULL : fdopendir(own);

        if (!dir) {
                int r = -errno;
                if (own >= 0)
                        close(own);
                return r;
        }
        while ((entry = readdir(dir))) {
                if (!is_log_name(entry->d_name, strlen(entry->d_name)))
                        continue;
                files->seen++;
                if (strcmp(entry->d_name, newest) > 0)
                        memcpy(newest, entry->d_name, strlen(entry->d_name) + 1);
        }
        closedir(dir);
        memcpy(files->names[0], newest, sizeof newest);
        files->count = newest[0] != '\0';
        return files->count > 0 ? 0 : -EISDIR;
}

static int open_one(const struct files *files, size_t i, struct log **log)
{
        char path[PATH_MAX + NAME];

        snprintf(path, sizeof path, "%s/%s", files->path, files->names[i]);
        return log_open(path, log);
}

/* The file before it by its own word; false: there is none, or it is not what came before. */
static bool add_previous(struct files *files)
{
        struct log_info now, before;
        struct log *log;
        size_t length = 0, at = files->count;
        bool fits = false;

        if (at == FILES_MAX || open_one(files, at - 1, &log) < 0)
                return false;
        const char *name = log_get_note(log, "previous", &length);
        if (name && is_log_name(name, length)) {
                memcpy(files->names[at], name, length);
                files->names[at][length] = '\0';
                fits = log_get_info(log, &now) == 0;
        }
        log_close(log);
        if (!fits || open_one(files, at, &log) < 0)
                return false;
        fits = log_get_info(log, &before) == 0 && before.last_sequence < now.first_sequence && before.last_mono_ns <= now.first_mono_ns;
        log_close(log);
        files->count += fits;
        return fits;
}

/* ---- the copy ---------------------------------------------------------------------------------------------------------------------- */

static int write_all(int to, const char *bytes, size_t length)
{
        while (length > 0) {
                ssize_t n = write(to, bytes, length);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                bytes += n;
                length -= (size_t)n;
        }
        return 0;
}

/* Where the records end: before the index of a finished log. */
static uint64_t end_of_records(int fd)
{
        struct stat st;
        struct log_end end;

        if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof end)
                return 0;
        uint64_t size = (uint64_t)st.st_size;
        if (pread(fd, &end, sizeof end, st.st_size - (off_t)sizeof end) == (ssize_t)sizeof end &&
            memcmp(end.magic, LOG_END_MAGIC, sizeof end.magic) == 0 && end.index >= sizeof(struct log_head) && end.index < size)
                return end.index;
        return size;
}

static int copy_one(const struct files *files, size_t i, int to, uint32_t *schema, char *buffer)
{
        struct log_head head;
        int fd = openat(files->folder, files->names[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        int r = fd < 0 ? -errno : 0;

        if (r == 0 && pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
                r = -EPROTO;
        bool first = i + 1 == files->count;
        if (r == 0 && first)
                *schema = head.schema_crc;
        else if (r == 0 && *schema != head.schema_crc)
                r = -EPROTO;
        uint64_t at = first ? 0 : sizeof head, end = r == 0 ? end_of_records(fd) : 0;
        while (r == 0 && at < end) {
                ssize_t n = pread(fd, buffer, end - at < COPY ? (size_t)(end - at) : COPY, (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break; /* cut while we read: what is there is there */
                r = write_all(to, buffer, (size_t)n);
                at += (uint64_t)n;
        }
        if (fd >= 0)
                close(fd);
        return r;
}

static int join(const struct files *files, struct log **log)
{
        const char *folder = getenv("TMPDIR");
        char path[PATH_MAX];
        char *buffer = malloc(COPY);
        uint32_t schema = 0;

        if (!buffer)
                return -ENOMEM;
        int length = snprintf(path, sizeof path, "%s/watop-joined-XXXXXX", folder && *folder == '/' ? folder : "/var/tmp");
        int to = (size_t)length < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        int r = to < 0 ? -errno : 0;
        for (size_t i = files->count; r == 0 && i > 0; i--)
                r = copy_one(files, i - 1, to, &schema, buffer);
        if (r == 0)
                r = log_open(path, log);
        if (to >= 0) {
                unlink(path);
                close(to);
        }
        free(buffer);
        return r;
}

static int open_folder(const char *path, struct log **log)
{
        struct files files = {.names = calloc(FILES_MAX, sizeof *files.names)};

        if (!files.names)
                return -ENOMEM;
        files.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = files.folder < 0 ? -errno : 0;
        if (r == 0 && (size_t)snprintf(files.path, sizeof files.path, "%s", path) >= sizeof files.path - NAME)
                r = -ENAMETOOLONG;
        if (r == 0)
                r = find_newest(&files);
        while (r == 0 && add_previous(&files))
                ;
        if (r == 0)
                r = files.count == 1 ? open_one(&files, 0, log) : join(&files, log);
        if (r == 0 && files.seen > files.count)
                options_say("log", "%s: %zu of %zu logs, from %s on; the others are not of this run of watopd", path, files.count,
                            files.seen, files.names[files.count - 1]);
        if (files.folder >= 0)
                close(files.folder);
        free(files.names);
        return r;
}

int log_files_open(const char *path, struct log **log)
{
        struct stat st;

        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
                return open_folder(path, log);
        return log_open(path, log);
}

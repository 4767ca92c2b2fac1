/*
 * watopd's log. Contract: journal.h.
 *
 * Names are watop-YYYYMMDD-HHMMSS.log in local time, so that their order is that of time and a day's files are found by name. A new file
 * begins with a full frame (one comes every 30 s at the latest); the one before says in a note which follows, and the new one what came
 * before: rotation is no gap.
 *
 * Whose a file is stands near its beginning, in the name of its first note, which is not compressed: old files are asked by one read,
 * without the log's reader and its memory. A file without it is nobody's that we know, and stays.
 */
#include "daemon/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "sample/log.h"
#include "sample/trust.h"

enum { SLOTS = 256, STACK = 512 << 10, NAME = 64, MARK = 32, HEAD = 64 << 10, MACHINE = 256 };
#define QUEUE_BYTES (UINT64_C(128) << 20)
#define RETRY_NS (300 * UINT64_C(1000000000))
#define ROOM_BYTES (UINT64_C(16) << 20) /* free before a stopped log goes on */

struct slot {
        void *bytes;
        size_t length, capacity;
};

struct journal {
        char folder[PATH_MAX];
        char mark[MARK];       /* `writer.ID`: the note in all our files */
        char writer_text[PATH_MAX + MACHINE + 32];
        struct journal_options options;
        pthread_t thread;
        bool running;
        /* between tick and thread, under the lock */
        pthread_mutex_t lock;
        pthread_cond_t more;
        struct slot slots[SLOTS];
        struct slot spare;     /* a buffer for the next frame */
        size_t head, count;
        uint64_t queued_bytes, left_out, bytes;
        int error;             /* why it is stopped, 0 it runs */
        bool end;
        char name[NAME];       /* of the file */
        /* the thread's own */
        struct log_writer *writer;
        char previous[NAME];
        int day;
        uint64_t retry_ns;
        struct slot current;
        char first[HEAD];      /* bytes of an old file */
};

/* ---- who we are ----------------------------------------------------------------------------------------------------------------- */

/* systemd's and D-Bus's number of the installation; without one the host's name. */
static void machine_name(char machine[MACHINE])
{
        struct utsname names;
        int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, machine, MACHINE - 1);

        if (fd >= 0)
                close(fd);
        machine[n > 0 ? n : 0] = '\0';
        machine[strcspn(machine, "\n")] = '\0';
        if (strlen(machine) != 32 && uname(&names) == 0)
                snprintf(machine, MACHINE, "%s", names.nodename);
}

/* FNV-1a: two daemons of one folder must differ, nobody is kept out by it. */
static uint64_t hash_of(const char *text)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (; *text != '\0'; text++)
                hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        return hash;
}

static void know_ourselves(struct journal *j, const char *ring)
{
        char machine[MACHINE];

        machine_name(machine);
        snprintf(j->writer_text, sizeof j->writer_text, "machine %s\nring %s\n", machine, ring ? ring : "-");
        snprintf(j->mark, sizeof j->mark, "writer.%016" PRIx64, hash_of(j->writer_text));
}

/* ---- the folder ----------------------------------------------------------------------------------------------------------------- */

static int make_folder(const char *folder)
{
        struct stat st;
        gid_t group;
        bool made = mkdir(folder, 0700) == 0, known = trust_group(&group) == 0;

        if (!made && errno != EEXIST)
                return -errno;
        if (made) {
                bool given = known && chown(folder, (uid_t)-1, group) == 0;
                if (chmod(folder, given ? 0750 : 0700) < 0)
                        return -errno;
        }
        if (stat(folder, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return -EPERM;
        /* Root without CAP_CHOWN can give files to no group that is not its own: they get it from the folder. */
        if (geteuid() == 0 && known && st.st_gid == group && !(st.st_mode & S_ISGID) && chmod(folder, (st.st_mode & 07777) | S_ISGID) < 0)
                return -errno;
        return 0;
}

int journal_new(const struct journal_options *options, struct journal **result)
{
        struct journal *j = calloc(1, sizeof *j);

        if (!j)
                return -ENOMEM;
        int r = 0, length = snprintf(j->folder, sizeof j->folder, "%s", options->folder);
        if (length < 0 || (size_t)length >= sizeof j->folder - NAME - 1)
                r = -ENAMETOOLONG;
        if (r == 0)
                r = make_folder(j->folder);
        if (r < 0) {
                free(j);
                return r;
        }
        j->options = *options;
        j->options.folder = j->folder;
        know_ourselves(j, options->ring);
        j->day = -1;
        pthread_mutex_init(&j->lock, NULL);
        pthread_cond_init(&j->more, NULL);
        tzset(); /* now: later nothing outside /proc and /sys is opened but our own files */
        *result = j;
        return 0;
}

/* ---- old files ------------------------------------------------------------------------------------------------------------------ */

struct old {
        char name[NAME];
        uint64_t bytes, age_ns;
};

static bool has_form(const char *name)
{
        static const char form[] = "watop-dddddddd-dddddd";
        size_t length = strlen(name);

        if (length < sizeof form - 1 + 4 || length >= NAME || strcmp(name + length - 4, ".log") != 0)
                return false;
        for (size_t i = 0; i < sizeof form - 1; i++)
                if (form[i] == 'd' ? name[i] < '0' || name[i] > '9' : name[i] != form[i])
                        return false;
        return true;
}

/* By this daemon on this machine, and nobody writes it. */
static bool is_ours(struct journal *j, int folder, const char *name)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return false;
        ssize_t n = pread(fd, j->first, sizeof j->first, 0);
        bool ours = n > 0 && memmem(j->first, (size_t)n, j->mark, strlen(j->mark)) != NULL && fcntl(fd, F_OFD_GETLK, &lock) == 0 &&
                    lock.l_type == F_UNLCK;
        close(fd);
        return ours;
}

static int by_name(const void *left, const void *right)
{
        return strcmp(((const struct old *)left)->name, ((const struct old *)right)->name);
}

static size_t list_old(struct journal *j, int folder, struct old **list)
{
        size_t count = 0, room = 0;
        struct timespec now;
        struct dirent *entry;
        int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
        DIR *dir = own < 0 ? NULL : fdopendir(own);

        *list = NULL;
        if (!dir) {
                if (own >= 0)
                        close(own);
                return 0;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        while ((entry = readdir(dir))) {
                struct stat st;
                if (!has_form(entry->d_name) || strcmp(entry->d_name, j->name) == 0 ||
                    fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
                    !is_ours(j, folder, entry->d_name))
                        continue;
                if (count == room) {
                        struct old *grown = reallocarray(*list, room ? room * 2 : 32, sizeof *grown);
                        if (!grown)
                                break;
                        *list = grown;
                        room = room ? room * 2 : 32;
                }
                struct old *old = &(*list)[count++];
                snprintf(old->name, sizeof old->name, "%s", entry->d_name);
                old->bytes = (uint64_t)st.st_size;
                old->age_ns = now.tv_sec > st.st_mtim.tv_sec ? (uint64_t)(now.tv_sec - st.st_mtim.tv_sec) * 1000000000 : 0;
        }
        closedir(dir);
        return count;
}

/* The oldest go until age and sum fit; the file being written counts as full. */
static void remove_old(struct journal *j)
{
        struct old *list;
        uint64_t sum = j->options.file_bytes;
        int folder = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (folder < 0)
                return;
        size_t count = list_old(j, folder, &list);
        if (count > 0)
                qsort(list, count, sizeof *list, by_name);
        for (size_t i = 0; i < count; i++)
                sum += list[i].bytes;
        for (size_t i = 0; i < count; i++) {
                if (sum <= j->options.total_bytes && list[i].age_ns <= j->options.keep_ns)
                        continue;
                if (unlinkat(folder, list[i].name, 0) == 0)
                        sum -= list[i].bytes;
        }
        free(list);
        close(folder);
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------- */

static void set_state(struct journal *j, int error)
{
        pthread_mutex_lock(&j->lock);
        bool news = error != j->error;
        j->error = error;
        j->bytes = j->writer ? log_bytes(j->writer) : 0;
        pthread_mutex_unlock(&j->lock);
        if (news && error < 0)
                fprintf(stderr, "watopd: log in %s stopped: %s\n", j->folder, strerror(-error));
        else if (news)
                fprintf(stderr, "watopd: log in %s goes on\n", j->folder);
}

static void note_text(struct journal *j, const char *name, const char *text)
{
        if (j->writer && *text)
                log_note(j->writer, name, text, strlen(text));
}

static void end_file(struct journal *j, const char *next)
{
        if (!j->writer)
                return;
        bool empty = log_frames(j->writer) == 0;
        note_text(j, "next", next);
        snprintf(j->previous, sizeof j->previous, "%s", empty ? "" : j->name);
        log_finish(j->writer);
        j->writer = NULL;
        /* The disk was full from the first frame on: a file with nothing in it helps nobody. */
        if (empty) {
                char path[PATH_MAX + NAME];
                snprintf(path, sizeof path, "%s/%s", j->folder, j->name);
                unlink(path);
        }
}

static int day_of(uint64_t real_ns, struct tm *tm)
{
        time_t seconds = (time_t)(real_ns / 1000000000);

        return localtime_r(&seconds, tm) ? tm->tm_year * 366 + tm->tm_yday : -1;
}

static int begin_file(struct journal *j, const struct frame_head *frame)
{
        char path[PATH_MAX], name[NAME], stamp[32];
        struct tm tm;
        int r = -EEXIST;

        j->day = day_of(frame->real_ns, &tm);
        if (j->day < 0 || strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm) == 0)
                return -EINVAL;
        struct log_writer *writer = NULL;
        for (unsigned n = 0; n < 100 && r == -EEXIST; n++) {
                if (n == 0)
                        snprintf(name, sizeof name, "watop-%s.log", stamp);
                else
                        snprintf(name, sizeof name, "watop-%s.%02u.log", stamp, n);
                snprintf(path, sizeof path, "%.*s/%s", (int)(sizeof path - sizeof name - 1), j->folder, name);
                r = log_create(path, &(struct log_create_options){.mode = 0640}, &writer);
        }
        if (r < 0)
                return r;
        end_file(j, name);
        j->writer = writer;
        pthread_mutex_lock(&j->lock);
        memcpy(j->name, name, sizeof j->name);
        pthread_mutex_unlock(&j->lock);
        note_text(j, j->mark, j->writer_text);
        note_text(j, "previous", j->previous);
        remove_old(j);
        return 0;
}

/* A stopped log goes on when its time has come and there is room again. */
static bool may_go_on(struct journal *j, const struct frame_head *frame)
{
        struct statvfs fs;

        if (j->error == 0)
                return true;
        if (frame->mono_ns < j->retry_ns)
                return false;
        j->retry_ns = frame->mono_ns + RETRY_NS;
        remove_old(j);
        return statvfs(j->folder, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= ROOM_BYTES;
}

static void write_frame(struct journal *j, const struct frame_head *frame, size_t length)
{
        struct tm tm;
        int r = 0;

        if (!may_go_on(j, frame))
                return;
        bool full_up = j->writer && log_bytes(j->writer) >= j->options.file_bytes;
        bool begin = !j->writer || full_up || day_of(frame->real_ns, &tm) != j->day;
        if (begin && (frame->flags & FRAME_FULL))
                r = begin_file(j, frame);
        if (r == 0 && j->writer)
                r = log_append(j->writer, frame, length);
        if (r == -ENOMEM || r == -EBADMSG)
                r = 0; /* that frame is left out, the log goes on */
        if (r < 0) {
                end_file(j, "");
                j->retry_ns = frame->mono_ns + RETRY_NS;
        }
        set_state(j, r < 0 ? r : j->writer ? 0 : j->error);
}

/* ---- the thread ----------------------------------------------------------------------------------------------------------------- */

static void *work(void *arg)
{
        struct journal *j = arg;

        pthread_mutex_lock(&j->lock);
        for (;;) {
                while (j->count == 0 && !j->end)
                        pthread_cond_wait(&j->more, &j->lock);
                if (j->count == 0)
                        break;
                /* The buffer written last becomes the spare one: nothing is allocated while the queue is short, and after a long one
                 * only two buffers are left. */
                free(j->spare.bytes);
                j->spare = j->current;
                j->current = j->slots[j->head];
                j->slots[j->head] = (struct slot){0};
                j->head = (j->head + 1) % SLOTS;
                j->count--;
                j->queued_bytes -= j->current.length;
                pthread_mutex_unlock(&j->lock);
                write_frame(j, j->current.bytes, j->current.length);
                pthread_mutex_lock(&j->lock);
        }
        pthread_mutex_unlock(&j->lock);
        return NULL;
}

int journal_start(struct journal *j)
{
        pthread_attr_t attr;
        sigset_t all, old;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK);
        int r = -pthread_create(&j->thread, &attr, work, j);
        pthread_attr_destroy(&attr);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        j->running = r == 0;
        return r;
}

static int fill(struct slot *slot, const void *frame, size_t length)
{
        if (length > slot->capacity) {
                free(slot->bytes);
                *slot = (struct slot){.bytes = malloc(length + length / 4)};
                if (!slot->bytes)
                        return -ENOMEM;
                slot->capacity = length + length / 4;
        }
        memcpy(slot->bytes, frame, length);
        slot->length = length;
        return 0;
}

void journal_put(struct journal *j, const void *frame, size_t length)
{
        if (!j || !j->running)
                return;
        pthread_mutex_lock(&j->lock);
        if (j->count == SLOTS || j->queued_bytes + length > QUEUE_BYTES || fill(&j->spare, frame, length) < 0) {
                j->left_out++;
        } else {
                j->slots[(j->head + j->count) % SLOTS] = j->spare;
                j->spare = (struct slot){0};
                j->count++;
                j->queued_bytes += length;
                pthread_cond_signal(&j->more);
        }
        pthread_mutex_unlock(&j->lock);
}

size_t journal_status(struct journal *j, char *text, size_t size)
{
        if (!j || size == 0)
                return 0;
        pthread_mutex_lock(&j->lock);
        const char *name = j->name[0] ? j->name : "no file yet";
        int length = j->error < 0 ? snprintf(text, size, "; log stopped: %s", strerror(-j->error))
                                  : snprintf(text, size, "; log %.1f MiB in %s", (double)j->bytes / 1048576, name);
        if (length >= 0 && (size_t)length < size && j->left_out > 0)
                length += snprintf(text + length, size - (size_t)length, ", %llu frames left out", (unsigned long long)j->left_out);
        pthread_mutex_unlock(&j->lock);
        return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

void journal_free(struct journal *j)
{
        if (!j)
                return;
        if (j->running) {
                pthread_mutex_lock(&j->lock);
                j->end = true;
                pthread_cond_signal(&j->more);
                pthread_mutex_unlock(&j->lock);
                pthread_join(j->thread, NULL);
        }
        end_file(j, "");
        for (size_t i = 0; i < SLOTS; i++)
                free(j->slots[i].bytes);
        free(j->spare.bytes);
        free(j->current.bytes);
        pthread_cond_destroy(&j->more);
        pthread_mutex_destroy(&j->lock);
        free(j);
}

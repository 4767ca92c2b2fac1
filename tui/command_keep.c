/*
 * A relay's copy into the output file. Contract: command_keep.h.
 *
 * Pieces lie in one ring of bytes. While the disk keeps up the ring is empty each time and starts again at its beginning, so only as much
 * of it is touched as came at once, and that stays in the cache.
 */
#include "tui/command_keep.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 21, PIECES = 256 };

struct piece {
        const char *bytes;
        size_t length;
        uint64_t offset;
};

static struct keeper {
        pthread_mutex_t lock;
        pthread_cond_t more, done;
        int fd;
        bool waiting, lost;              /* lost: no more is kept, and the ring is left to the thread, which may hang in it */
        unsigned head, tail;             /* pieces from tail to head are to be written */
        size_t at;                       /* where the next piece begins */
        struct piece pieces[PIECES];
        void (*failed)(int error);
        char room[ROOM], spare[KEEP_PIECE];
} keeper = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

/* 0 or a positive errno. */
static int write_piece(const struct piece *piece)
{
        for (size_t written = 0; written < piece->length;) {
                ssize_t n = pwrite(keeper.fd, piece->bytes + written, piece->length - written, (off_t)(piece->offset + written));
                if (n > 0)
                        written += (size_t)n;
                else if (n == 0 || errno != EINTR)
                        return n == 0 ? EIO : errno;
        }
        return 0;
}

static void give_up(int error)
{
        if (!keeper.lost)
                keeper.failed(error);
        keeper.lost = true;
}

static void *write_all_pieces(void *arg)
{
        pthread_mutex_lock(&keeper.lock);
        while (!keeper.lost) {
                if (keeper.head == keeper.tail) {
                        keeper.waiting = true;
                        pthread_cond_wait(&keeper.more, &keeper.lock);
                        keeper.waiting = false;
                        continue;
                }
                struct piece piece = keeper.pieces[keeper.tail % PIECES];
                pthread_mutex_unlock(&keeper.lock);
                int error = write_piece(&piece);
                pthread_mutex_lock(&keeper.lock);
                if (error != 0)
                        give_up(error);
                keeper.tail++;
                pthread_cond_signal(&keeper.done);
        }
        pthread_cond_signal(&keeper.done);
        pthread_mutex_unlock(&keeper.lock);
        return arg;
}

int keep_start(int fd, void (*failed)(int error))
{
        pthread_condattr_t clock;
        sigset_t all, was;
        pthread_t thread;

        keeper.fd = fd;
        keeper.failed = failed;
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&keeper.done, &clock);
        pthread_condattr_destroy(&clock);
        /* Signals are for the relay's own thread: they end its waiting. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &was);
        int r = pthread_create(&thread, NULL, write_all_pieces, NULL);
        pthread_sigmask(SIG_SETMASK, &was, NULL);
        if (r == 0)
                pthread_detach(thread);
        else
                keeper.lost = true;
        return -r;
}

static struct timespec later(int ms)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += ms / 1000;
        t.tv_nsec += (long)(ms % 1000) * 1000000;
        if (t.tv_nsec >= 1000000000) {
                t.tv_nsec -= 1000000000;
                t.tv_sec++;
        }
        return t;
}

/* A place in the ring that no waiting piece touches; false: none. */
static bool find_room(size_t *start)
{
        if (keeper.head == keeper.tail)
                keeper.at = 0;
        if (keeper.head - keeper.tail == PIECES)
                return false;
        *start = keeper.at + KEEP_PIECE > ROOM ? 0 : keeper.at;
        for (unsigned i = keeper.tail; i != keeper.head; i++) {
                const struct piece *piece = &keeper.pieces[i % PIECES];
                size_t from = (size_t)(piece->bytes - keeper.room);
                if (from < *start + KEEP_PIECE && *start < from + piece->length)
                        return false;
        }
        return true;
}

char *keep_room(void)
{
        size_t start = 0;

        pthread_mutex_lock(&keeper.lock);
        while (!keeper.lost && !find_room(&start)) {
                struct timespec until = later(KEEP_STUCK_MS);
                unsigned tail = keeper.tail;
                while (!keeper.lost && keeper.tail == tail)
                        if (pthread_cond_timedwait(&keeper.done, &keeper.lock, &until) == ETIMEDOUT)
                                break;
                if (keeper.tail == tail)
                        give_up(ETIMEDOUT);
        }
        char *room = keeper.lost ? keeper.spare : keeper.room + start;
        pthread_mutex_unlock(&keeper.lock);
        return room;
}

void keep_piece(const char *bytes, size_t length, uint64_t offset)
{
        pthread_mutex_lock(&keeper.lock);
        if (!keeper.lost && length > 0) {
                keeper.pieces[keeper.head++ % PIECES] = (struct piece){ bytes, length, offset };
                keeper.at = (size_t)(bytes - keeper.room) + length;
                if (keeper.waiting)
                        pthread_cond_signal(&keeper.more);
        }
        pthread_mutex_unlock(&keeper.lock);
}

bool keep_flush(int timeout_ms)
{
        struct timespec until = later(timeout_ms);

        pthread_mutex_lock(&keeper.lock);
        while (!keeper.lost && keeper.tail != keeper.head)
                if (pthread_cond_timedwait(&keeper.done, &keeper.lock, &until) == ETIMEDOUT)
                        break;
        bool flushed = keeper.lost || keeper.tail == keeper.head;
        pthread_mutex_unlock(&keeper.lock);
        return flushed;
}

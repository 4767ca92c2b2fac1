/*
 * A helper thread that can be left behind. See slow.h.
 *
 * A worker owns its buffers and its copy of the batch, so an abandoned one touches nothing of ours but the shared count. `lock` guards
 * everything in a worker except the bytes of a request, which belong to the worker until `done` has passed it.
 */
#include "collectors/slow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACK_BYTES = 256 << 10 };

/* Outlives `struct slow` while a worker is out. */
struct shared {
        atomic_uint references;
        atomic_ullong out[SLOW_ABANDONED]; /* tickets of hung reads, 0 = free */
};

struct worker {
        pthread_mutex_t lock;
        pthread_cond_t wake, progress;
        slow_reader *reader;
        void *arg;
        struct shared *shared;
        size_t count, done;       /* of the present batch */
        bool ending, abandoned;
        unsigned slot;            /* in shared->out, when abandoned */
        char path[SLOW_BATCH][SLOW_PATH];
        ssize_t result[SLOW_BATCH];
        char bytes[SLOW_BATCH][SLOW_BYTES + 1]; /* one more than is given out: readers like to end with NUL */
};

struct slow {
        slow_reader *reader;
        void *arg;
        struct shared *shared;
        struct worker *worker;    /* NULL: none running */
        uint64_t tickets;
        char bytes[SLOW_BATCH][SLOW_BYTES]; /* what the last run gave out: a worker's own bytes go with it */
};

static uint64_t now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static void shared_drop(struct shared *shared)
{
        if (atomic_fetch_sub(&shared->references, 1) == 1)
                free(shared);
}

static void worker_free(struct worker *worker)
{
        shared_drop(worker->shared);
        pthread_cond_destroy(&worker->wake);
        pthread_cond_destroy(&worker->progress);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
}

static void *worker_main(void *arg)
{
        struct worker *worker = arg;

        pthread_mutex_lock(&worker->lock);
        while (!worker->ending) {
                if (worker->done == worker->count) {
                        pthread_cond_wait(&worker->wake, &worker->lock);
                        continue;
                }
                size_t i = worker->done;
                pthread_mutex_unlock(&worker->lock);
                ssize_t result = worker->reader(worker->arg, worker->path[i], worker->bytes[i], SLOW_BYTES + 1);
                pthread_mutex_lock(&worker->lock);
                worker->result[i] = result > SLOW_BYTES ? SLOW_BYTES : result;
                worker->done++;
                /* One wake-up a batch is enough; a waiter looks for progress by time anyway. */
                if (worker->done == worker->count)
                        pthread_cond_signal(&worker->progress);
        }
        if (worker->abandoned)
                atomic_store(&worker->shared->out[worker->slot], 0);
        pthread_mutex_unlock(&worker->lock);
        worker_free(worker);
        return NULL;
}

static int worker_start(struct worker *worker)
{
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t all, old;

        int r = pthread_attr_init(&attr);
        if (r)
                return -r;
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(&thread, &attr, worker_main, worker);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
        return -r;
}

static int worker_new(struct slow *slow)
{
        struct worker *worker = calloc(1, sizeof *worker);
        pthread_condattr_t attr;

        if (!worker)
                return -ENOMEM;
        worker->reader = slow->reader;
        worker->arg = slow->arg;
        worker->shared = slow->shared;
        atomic_fetch_add(&slow->shared->references, 1);
        pthread_mutex_init(&worker->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&worker->wake, NULL);
        pthread_cond_init(&worker->progress, &attr);
        pthread_condattr_destroy(&attr);
        int r = worker_start(worker);
        if (r < 0) {
                worker_free(worker);
                return r;
        }
        slow->worker = worker;
        return 0;
}

/* It ends by itself as soon as it looks. Takes the lock it is given held. */
static void worker_end(struct worker *worker)
{
        worker->ending = true;
        pthread_cond_signal(&worker->wake);
        pthread_mutex_unlock(&worker->lock);
}

int slow_new(slow_reader *reader, void *arg, struct slow **out)
{
        struct slow *slow = calloc(1, sizeof *slow);

        if (slow)
                slow->shared = calloc(1, sizeof *slow->shared);
        if (!slow || !slow->shared) {
                free(slow);
                return -ENOMEM;
        }
        atomic_init(&slow->shared->references, 1);
        slow->reader = reader;
        slow->arg = arg;
        *out = slow;
        return 0;
}

void slow_free(struct slow *slow)
{
        if (!slow)
                return;
        if (slow->worker) {
                pthread_mutex_lock(&slow->worker->lock);
                worker_end(slow->worker);
        }
        shared_drop(slow->shared);
        free(slow);
}

int slow_is_out(const struct slow *slow, uint64_t ticket)
{
        for (unsigned i = 0; i < SLOW_ABANDONED; i++)
                if (ticket && atomic_load(&slow->shared->out[i]) == ticket)
                        return 1;
        return 0;
}

unsigned slow_abandoned(const struct slow *slow)
{
        unsigned n = 0;

        for (unsigned i = 0; i < SLOW_ABANDONED; i++)
                n += atomic_load(&slow->shared->out[i]) != 0;
        return n;
}

enum outcome { BATCH_DONE, BATCH_LATE, BATCH_HUNG };

/* Wait until the batch is done, no read came back for `patience_ns`, or the time is used up. The lock is held on entry and exit. */
static enum outcome wait_for_batch(struct worker *worker, uint64_t patience_ns, uint64_t until_ns)
{
        size_t seen = worker->done;
        uint64_t limit = now_ns() + patience_ns;

        while (worker->done < worker->count) {
                uint64_t wait = limit < until_ns ? limit : until_ns;
                struct timespec ts = { (time_t)(wait / UINT64_C(1000000000)), (long)(wait % UINT64_C(1000000000)) };
                if (pthread_cond_timedwait(&worker->progress, &worker->lock, &ts) == 0)
                        continue;
                uint64_t now = now_ns();
                if (worker->done < worker->count && now >= limit && worker->done == seen)
                        return BATCH_HUNG;
                if (worker->done < worker->count && now >= until_ns)
                        return BATCH_LATE;
                if (now >= limit) {
                        seen = worker->done;
                        limit = now + patience_ns;
                }
        }
        return BATCH_DONE;
}

/* Leave the worker behind with the read that hangs; gives its ticket. There is room: slow_run() looked. Takes the lock held. */
static uint64_t abandon(struct slow *slow, struct worker *worker)
{
        for (unsigned i = 0; i < SLOW_ABANDONED; i++) {
                if (atomic_load(&slow->shared->out[i]) != 0)
                        continue;
                worker->abandoned = true;
                worker->slot = i;
                atomic_store(&slow->shared->out[i], ++slow->tickets);
                slow->worker = NULL;
                worker_end(worker);
                break;
        }
        return slow->tickets;
}

static void fail(struct slow_request *requests, size_t n, ssize_t error)
{
        for (size_t i = 0; i < n; i++) {
                requests[i].bytes = NULL;
                requests[i].result = error;
                requests[i].ticket = 0;
        }
}

/* Hand the batch to the worker. The lock is held. */
static void load(struct worker *worker, const struct slow_request *requests, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                memcpy(worker->path[i], requests[i].path, SLOW_PATH);
                worker->path[i][SLOW_PATH - 1] = '\0';
        }
        worker->done = 0;
        worker->count = n;
        pthread_cond_signal(&worker->wake);
}

/* Take over the first n results. The lock is held. */
static void unload(struct slow *slow, const struct worker *worker, struct slow_request *requests, size_t first, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct slow_request *request = &requests[first + i];
                request->result = worker->result[i];
                request->ticket = 0;
                request->bytes = slow->bytes[first + i];
                if (worker->result[i] > 0)
                        memcpy(slow->bytes[first + i], worker->bytes[i], (size_t)worker->result[i]);
        }
}

/* One turn with one worker, for the requests from `first` on. Returns up to which they have their answer now. */
static size_t turn(struct slow *slow, struct slow_request *requests, size_t first, size_t n, uint64_t patience_ns, uint64_t until_ns)
{
        struct worker *worker = slow->worker;

        pthread_mutex_lock(&worker->lock);
        /* A read that the last run's time did not suffice for. */
        if (worker->done < worker->count && wait_for_batch(worker, patience_ns, UINT64_MAX / 2) == BATCH_HUNG) {
                abandon(slow, worker);
                return first;
        }
        load(worker, requests + first, n - first);
        enum outcome outcome = wait_for_batch(worker, patience_ns, until_ns);
        size_t done = first + worker->done;
        unload(slow, worker, requests, first, worker->done);
        if (outcome == BATCH_HUNG) {
                requests[done].ticket = abandon(slow, worker);
                requests[done].result = -ETIMEDOUT;
                requests[done].bytes = NULL;
                return done + 1;
        }
        if (outcome == BATCH_LATE) {
                worker->count = worker->done + 1; /* what it is in the middle of; no more */
                fail(requests + done, n - done, -ETIME);
                done = n;
        }
        pthread_mutex_unlock(&worker->lock);
        return done;
}

void slow_run(struct slow *slow, struct slow_request *requests, size_t n, uint64_t patience_ns, uint64_t until_ns)
{
        if (n > SLOW_BATCH) {
                fail(requests + SLOW_BATCH, n - SLOW_BATCH, -E2BIG);
                n = SLOW_BATCH;
        }
        for (size_t at = 0; at < n;) {
                int r = slow_abandoned(slow) >= SLOW_ABANDONED ? -EBUSY : slow->worker ? 0 : worker_new(slow);
                if (r < 0) {
                        fail(requests + at, n - at, r);
                        return;
                }
                at = turn(slow, requests, at, n, patience_ns, until_ns);
        }
}

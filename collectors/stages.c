/*
 * Block tracing in watopd: the source, the thread, what is told of them. Contract: stages.h; what happens to records: stages_flow.c.
 *
 * Before the thread starts the source belongs to the caller, from then on to the thread alone. `lock` guards what both see: wishes and
 * status. It is never held over a call that may take long, so the tick waits for nobody. The thread starts with the first wish and
 * sleeps without a time limit while nothing is wanted.
 */
#include "collectors/stages.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "collectors/stages_own.h"

/* After a failure: when it is tried again. */
#define RETRY_NS (5 * SECOND_NS)
/* ... while somebody has less than all: trying takes that from them for a moment. */
#define RETRY_MORE_NS (60 * SECOND_NS)
/* Failures of BPF in a row that may be of this moment (memory, descriptors) before tracefs stands in for it. */
enum { PATIENCE = 3 };
/* How long the end waits for a thread that hangs in the kernel. */
enum { END_S = 2, NICE = -5, STACK = 512 << 10 };

struct wish {
        unsigned what;
        bool stream, sums;
};

struct stages {
        struct flow *flow;            /* the thread's, with the source in it */
        struct sums *sums;
        pthread_t thread;
        bool started;
        unsigned failures;            /* the thread's: in a row */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        /* guarded by lock: */
        struct wish wish;
        bool end, ended;
        unsigned names_due;           /* times to tell all names, for readers that came late */
        struct stream *stream;        /* made for the first reader; then constant */
        struct flow_status status;
        int error;                    /* why what is wanted is not traced: -errno */
        char why[STAGES_WHY];
};

uint64_t stages_now(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------------------- */

static int make(struct stages **result)
{
        struct stages *stages = calloc(1, sizeof *stages);
        pthread_condattr_t attributes;

        if (stages == NULL)
                return -ENOMEM;
        pthread_mutex_init(&stages->lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&stages->wake, &attributes);
        pthread_condattr_destroy(&attributes);
        int r = sums_new(&stages->sums);
        if (r == 0)
                r = flow_new(stages->sums, &stages->flow);
        if (r < 0) {
                stages_close(stages);
                return r;
        }
        *result = stages;
        return 0;
}

int stages_open(struct stages **result, bool bpf, char *why, size_t size)
{
        struct stages *stages = NULL;

        int r = make(&stages);
        if (r == 0)
                r = flow_open(stages->flow, bpf, why, size);
        else
                snprintf(why, size, "%s", strerror(-r));
        if (r < 0) {
                stages_close(stages);
                return r;
        }
        *result = stages;
        return 0;
}

/* False: it hangs in the kernel, and with it what it uses. The process is about to end. */
static bool end_thread(struct stages *stages)
{
        struct timespec until;
        int r = 0;

        if (!stages->started)
                return true;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += END_S;
        pthread_mutex_lock(&stages->lock);
        stages->end = true;
        pthread_cond_broadcast(&stages->wake);
        while (!stages->ended && r == 0)
                r = pthread_cond_timedwait(&stages->wake, &stages->lock, &until);
        bool ended = stages->ended;
        pthread_mutex_unlock(&stages->lock);
        return ended && pthread_join(stages->thread, NULL) == 0;
}

void stages_close(struct stages *stages)
{
        if (stages == NULL || !end_thread(stages))
                return;
        flow_free(stages->flow);
        stream_free(stages->stream);
        sums_free(stages->sums);
        pthread_cond_destroy(&stages->wake);
        pthread_mutex_destroy(&stages->lock);
        free(stages);
}

/* ---- trials, before the thread ---------------------------------------------------------------------------------------------- */

bool stages_works(struct stages *stages)
{
        char why[STAGES_WHY];

        bool works = flow_attach(stages->flow, STREAM_WHAT_BIOS, why, sizeof why) == 0;
        flow_detach(stages->flow);
        return works;
}

bool stages_falls_back(struct stages *stages)
{
        return flow_fall_back(stages->flow, true) && stages_works(stages);
}

/* ---- the thread -------------------------------------------------------------------------------------------------------------- */

static void be_nice(void)
{
        errno = 0;
        int now = getpriority(PRIO_PROCESS, 0);
        /* On Linux this is the thread's own. Not permitted is no matter: buffers hold more than one round. */
        if (errno == 0 && now > NICE && setpriority(PRIO_PROCESS, 0, NICE) < 0)
                errno = 0;
        prctl(PR_SET_TIMERSLACK, 1000000, 0, 0, 0);
        pthread_setname_np(pthread_self(), "watopd-stages");
}

/* BPF failed: is it time for tracefs? For good without the right; while this is wanted for what BPF has not got here; for what may be of
 * this moment, after some tries. */
static bool stand_in(struct stages *stages, int error)
{
        bool right = error != -EPERM && error != -EACCES;

        stages->failures++;
        return (!right || error == -EOPNOTSUPP || stages->failures >= PATIENCE) && flow_fall_back(stages->flow, !right);
}

/* Attaches all, or leaves those who asked for less what they had. */
static int attach(struct stages *stages, unsigned what, char *why, size_t size)
{
        char again[STAGES_WHY];
        unsigned before = flow_attached(stages->flow) & what;
        int r = flow_attach(stages->flow, what, why, size);

        if (r < 0 && stand_in(stages, r)) {
                if (flow_attach(stages->flow, what, again, sizeof again) == 0)
                        r = 0;
                else
                        flow_go_back(stages->flow);
        }
        if (r == 0)
                stages->failures = 0;
        else if (before != 0 && flow_attached(stages->flow) == 0)
                flow_attach(stages->flow, before, again, sizeof again);
        return r;
}

/* What is wanted becomes what is. Not under the lock: it takes as long as it takes. */
static void follow(struct stages *stages, const struct wish *wish)
{
        char why[STAGES_WHY] = "";
        int r = 0;

        if (wish->what != 0) {
                r = attach(stages, wish->what, why, sizeof why);
        } else {
                flow_detach(stages->flow);
                flow_go_back(stages->flow);
        }
        pthread_mutex_lock(&stages->lock);
        stages->error = r;
        if (r < 0)
                snprintf(stages->why, sizeof stages->why, "%s", why[0] != '\0' ? why : strerror(-r));
        flow_status(stages->flow, &stages->status);
        pthread_mutex_unlock(&stages->lock);
}

struct round {
        struct wish wish;
        struct stream *stream;
        bool names, end;              /* names: tell all of them */
};

/* Sleeps until the time, or until something else is wanted than before. */
static struct round next_round(struct stages *stages, const struct wish *before, uint64_t until_ns)
{
        struct timespec until = { .tv_sec = (time_t)(until_ns / SECOND_NS), .tv_nsec = (long)(until_ns % SECOND_NS) };

        pthread_mutex_lock(&stages->lock);
        while (!stages->end && stages->wish.what == before->what && stages->wish.stream == before->stream &&
               stages->wish.sums == before->sums) {
                if (until_ns == UINT64_MAX)
                        pthread_cond_wait(&stages->wake, &stages->lock);
                else if (pthread_cond_timedwait(&stages->wake, &stages->lock, &until) == ETIMEDOUT)
                        break;
        }
        struct round round = { stages->wish, stages->stream, stages->names_due > 0 && stages->names_due % STAGES_NAMES_EVERY == 0,
                stages->end };
        if (stages->names_due > 0)
                stages->names_due--;
        pthread_mutex_unlock(&stages->lock);
        return round;
}

static void *run(void *arg)
{
        struct stages *stages = arg;
        struct round round = { .end = false };
        uint64_t due = 0, retry = 0;
        struct wish was = { .what = 0 };
        bool failed = false;

        be_nice();
        for (;;) {
                bool idle = round.wish.what == 0;
                round = next_round(stages, &round.wish, idle ? UINT64_MAX : due);
                if (round.end)
                        break;
                uint64_t now = stages_now(CLOCK_MONOTONIC);
                if (round.wish.what != was.what || (failed && now >= retry)) {
                        follow(stages, &round.wish);
                        was = round.wish;
                        failed = round.wish.what != flow_attached(stages->flow);
                        now = stages_now(CLOCK_MONOTONIC);
                        retry = now + (flow_attached(stages->flow) != 0 ? RETRY_MORE_NS : RETRY_NS);
                }
                due = failed && flow_attached(stages->flow) == 0 ? retry : now + STAGES_DRAIN_NS;
                flow_round(stages->flow, round.stream, round.wish.stream, round.wish.sums, round.names);
                pthread_mutex_lock(&stages->lock);
                flow_status(stages->flow, &stages->status);
                pthread_mutex_unlock(&stages->lock);
        }
        flow_detach(stages->flow);
        pthread_mutex_lock(&stages->lock);
        stages->ended = true;
        pthread_cond_broadcast(&stages->wake);
        pthread_mutex_unlock(&stages->lock);
        return NULL;
}

static int start(struct stages *stages)
{
        pthread_attr_t attributes;
        sigset_t all, before;

        if (stages->started)
                return 0;
        /* Signals are the loop's. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK > PTHREAD_STACK_MIN ? STACK : (size_t)PTHREAD_STACK_MIN);
        int r = pthread_create(&stages->thread, &attributes, run, stages);
        pthread_attr_destroy(&attributes);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        stages->started = r == 0;
        return -r;
}

/* ---- the tick's side ---------------------------------------------------------------------------------------------------------- */

int stages_error(struct stages *stages, char *why, size_t size)
{
        pthread_mutex_lock(&stages->lock);
        int r = stages->wish.what & ~stages->status.what ? stages->error : 0;
        snprintf(why, size, "%s", r < 0 ? stages->why : "");
        pthread_mutex_unlock(&stages->lock);
        return r;
}

int stages_want(struct stages *stages, unsigned what, bool stream, bool sums, char *why, size_t size)
{
        int r = what != 0 ? start(stages) : 0;

        if (r < 0) {
                snprintf(why, size, "%s", strerror(-r));
                return r;
        }
        pthread_mutex_lock(&stages->lock);
        stages->wish = (struct wish){ what, stream, sums };
        if (what == 0)
                stages->error = 0;
        pthread_cond_signal(&stages->wake);
        pthread_mutex_unlock(&stages->lock);
        return stages_error(stages, why, size);
}

int stages_stream(struct stages *stages)
{
        struct stream *made = NULL;
        int r = 0;

        if (stages->stream == NULL && (r = stream_new(&made)) < 0)
                return r;
        pthread_mutex_lock(&stages->lock);
        if (made != NULL)
                stages->stream = made;
        stages->names_due = STAGES_NAMES;
        r = stream_fd(stages->stream);
        pthread_mutex_unlock(&stages->lock);
        return r;
}

struct sums *stages_sums(struct stages *stages)
{
        return stages->sums;
}

void stages_self(struct stages *stages, struct row *row)
{
        struct flow_status status = { .source = STREAM_NONE };
        int error = 0;

        if (stages != NULL) {
                pthread_mutex_lock(&stages->lock);
                status = stages->status;
                error = stages->wish.what != 0 ? stages->error : 0;
                pthread_mutex_unlock(&stages->lock);
        }
        bool none = stages == NULL || (error < 0 && status.what == 0);
        row_set(row, SELF_STAGES, none ? 0 : status.what == 0 ? 1 : status.source == STREAM_BPF ? 2 : 3);
        if (stages == NULL) {
                row_absent(row, SELF_STAGES_LOST);
                row_absent(row, SELF_STAGES_UNMATCHED);
                row_absent(row, SELF_STAGES_CPU);
        } else {
                row_set(row, SELF_STAGES_LOST, status.lost);
                row_set(row, SELF_STAGES_UNMATCHED, status.unmatched);
                row_set(row, SELF_STAGES_CPU, status.cpu_ns);
        }
        if (status.run_count > 0)
                row_set(row, SELF_STAGES_TIME, status.run_ns);
        else
                row_absent(row, SELF_STAGES_TIME);
}

void stages_check(bool bpf, char *line, size_t size)
{
        char why[2][STAGES_WHY] = { "off by the settings (bpf = off)", "" };

        bool works[2] = { bpf && flow_try(STREAM_BPF, why[0], sizeof why[0]), flow_try(STREAM_TRACEFS, why[1], sizeof why[1]) };
        if (works[0])
                snprintf(line, size, "stages of block I/O and fsync can be traced by BPF while somebody asks%s",
                        works[1] ? "; tracefs would do, too" : "");
        else if (works[1])
                snprintf(line, size, "stages of block I/O and fsync can be traced through tracefs while somebody asks; by BPF not: %s",
                        why[0]);
        else
                snprintf(line, size, "stages of block I/O cannot be traced: BPF: %s; tracefs: %s", why[0], why[1]);
}

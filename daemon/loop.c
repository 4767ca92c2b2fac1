/*
 * The loop. Contract: loop.h.
 *
 * One poll over the signalfd and the control sockets, ended at the nearest of: next tick, next sub-sample, next heartbeat, a client's
 * allowance. Deadlines are absolute on CLOCK_MONOTONIC: the time a tick takes never adds up.
 */
#include "daemon/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "collectors/stages.h"
#include "daemon/deadline.h"
#include "daemon/journal.h"
#include "daemon/sampler.h"

#define SECOND UINT64_C(1000000000)
/* Sub-samples: 10 Hz, and none so near to the tick that it would delay it. */
#define SUB_NS (SECOND / 10)
#define SUB_GUARD_NS (SECOND / 50)

struct loop {
        struct daemon *daemon;
        struct deadline tick;
        uint64_t beat_ns, sub_ns;
        bool end;
};

static uint64_t now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

void loop_beat(void *arg)
{
        const struct daemon *daemon = arg;

        ring_heartbeat(daemon->ring, now_ns());
}

/* ---- frames --------------------------------------------------------------------------------------------------------------- */

static int publish(struct daemon *daemon, const struct sampler_frame *frame)
{
        int r = ring_publish(daemon->ring, frame->bytes, frame->length);

        if (r == 0)
                journal_put(daemon->journal, frame->bytes, frame->length);
        if (r == -EFBIG) {
                sampler_refused(daemon->sampler);
                if (!daemon->late_said)
                        fprintf(stderr, "watopd: a frame of %zu bytes does not fit the ring: detail is left out (ring_size)\n",
                                frame->length);
                daemon->late_said = true;
        }
        return r;
}

static int take_tick(struct daemon *daemon, const struct sampler_order *order, uint64_t *sequence)
{
        struct sampler_order mine = *order;
        struct sampler_frame frame;

        mine.clients = (unsigned)serve_clients(daemon->serve);
        int r = sampler_tick(daemon->sampler, &mine, &frame);
        if (r == 0)
                r = publish(daemon, &frame);
        if (r == 0 && sequence != NULL)
                *sequence = frame.sequence;
        return r;
}

/* ---- the control socket's hooks ------------------------------------------------------------------------------------------- */

static void hook_hello(void *arg, struct serve_hello *hello)
{
        struct daemon *daemon = arg;

        *hello = (struct serve_hello){
                .tick_ns = daemon->config.interval_ns,
                .scopes = sampler_scopes(daemon->sampler),
                .always = sampler_scopes(daemon->sampler) & daemon->config.scopes,
                .ring_fd = daemon->ring_is_memfd ? ring_writer_fd(daemon->ring) : -1,
        };
}

static uint64_t hook_lease(void *arg, uint64_t wanted)
{
        struct daemon *daemon = arg;

        return sampler_lease(daemon->sampler, wanted);
}

static int hook_mark(void *arg, const char *text, size_t length, pid_t pid, uid_t uid, uint64_t *sequence)
{
        struct daemon *daemon = arg;
        struct sampler_mark mark = { text, length, pid, uid };

        /* A captured machine's samples are what they are. */
        if (daemon->captured)
                return EOPNOTSUPP;
        return -take_tick(daemon, &(struct sampler_order){ .extra = true, .mark = &mark }, sequence);
}

static int hook_tick(void *arg, uint64_t *sequence)
{
        struct daemon *daemon = arg;

        if (daemon->captured)
                return EOPNOTSUPP;
        return -take_tick(daemon, &(struct sampler_order){ .extra = true }, sequence);
}

static int hook_step(void *arg, uint64_t *sequence)
{
        struct daemon *daemon = arg;
        struct sampler_frame frame;

        int r = sampler_step(daemon->sampler, (unsigned)serve_clients(daemon->serve), &frame);
        if (r == 0)
                r = publish(daemon, &frame);
        if (r == 0)
                *sequence = frame.sequence;
        return -r;
}

static int hook_stream(void *arg, int *fd, char *text, size_t size)
{
        struct daemon *daemon = arg;

        int r = daemon->stages != NULL ? stages_stream(daemon->stages) : -EOPNOTSUPP;
        if (r < 0) {
                snprintf(text, size, "%s", daemon->stages == NULL ? daemon->stages_why : strerror(-r));
                return -r;
        }
        *fd = r;
        return 0;
}

/* Why block tracing is not on although somebody wants it. */
static size_t say_stages(const struct daemon *daemon, char *text, size_t size)
{
        char why[200] = "";

        if (daemon->stages == NULL || stages_error(daemon->stages, why, sizeof why) == 0)
                return 0;
        return (size_t)snprintf(text, size, "; no block tracing: %s", why);
}

static size_t hook_status(void *arg, char *text, size_t size)
{
        struct daemon *daemon = arg;
        struct sampler_status status;
        size_t length;

        sampler_get_status(daemon->sampler, &status);
        length = (size_t)snprintf(text, size,
                "watopd %s pid %d tick %g s, %" PRIu64 " ticks, %" PRIu64 " late, last took %.1f ms, detail %d, %s ring",
                WATOP_VERSION, (int)getpid(), (double)daemon->config.interval_ns / 1e9, status.ticks, status.late,
                (double)status.last_took_ns / 1e6, status.detail, daemon->ring_is_memfd ? "memfd" : "file");
        if (length < size)
                length += journal_status(daemon->journal, text + length, size - length);
        if (length < size)
                length += say_stages(daemon, text + length, size - length);
        const char *name;
        int error;
        for (unsigned i = 0; sampler_collector(daemon->sampler, i, &name, &error); i++)
                if (error < 0 && length < size)
                        length += (size_t)snprintf(text + length, size - length, "; no %s: %s", name, strerror(-error));
        return length < size ? length : size - 1;
}

void loop_hooks(struct daemon *daemon, struct serve_hooks *hooks)
{
        *hooks = (struct serve_hooks){
                .arg = daemon,
                .hello = hook_hello,
                .lease = hook_lease,
                .mark = hook_mark,
                .tick = hook_tick,
                .step = daemon->captured ? hook_step : NULL,
                .status = hook_status,
                .stream = hook_stream,
        };
}

/* ---- signals -------------------------------------------------------------------------------------------------------------- */

int loop_signals(bool private_mode)
{
        sigset_t set;

        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error that is said */
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        if (private_mode) {
                /* Keys of the terminal are for watop, which must print its averages before we go; we go when it has gone. */
                signal(SIGINT, SIG_IGN);
                signal(SIGQUIT, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                signal(SIGTSTP, SIG_IGN);
        } else {
                sigaddset(&set, SIGINT);
                sigaddset(&set, SIGHUP);
        }
        if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
                return -errno;
        /* A signal that is ignored (nohup, a script's background) reaches no signalfd. */
        for (int s = 1; s < NSIG; s++)
                if (sigismember(&set, s) == 1)
                        signal(s, SIG_DFL);
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static void say_bad_line(void *arg, unsigned line, const char *why)
{
        const struct daemon *daemon = arg;

        fprintf(stderr, "watopd: %s:%u: %s\n", daemon->config_path, line, why);
}

void loop_force(struct daemon *daemon)
{
        if (daemon->forced_interval_ns != 0)
                daemon->config.interval_ns = daemon->forced_interval_ns;
        if (daemon->forced_scopes != 0)
                daemon->config.scopes = daemon->forced_scopes;
        if (daemon->forced_bpf >= 0)
                daemon->config.bpf = daemon->forced_bpf > 0;
}

static void reload(struct loop *loop)
{
        struct daemon *daemon = loop->daemon;
        struct config was = daemon->config;

        if (daemon->config_path == NULL)
                return;
        int r = config_reload(daemon->config_path, &daemon->config, &daemon->base, say_bad_line, daemon);
        if (r < 0) {
                fprintf(stderr, "watopd: %s: %s: settings stay as they are\n", daemon->config_path, strerror(-r));
                return;
        }
        loop_force(daemon);
        if (daemon->config.ring_size != was.ring_size)
                fprintf(stderr, "watopd: ring_size changes when watopd is started again\n");
        daemon->config.ring_size = was.ring_size;
        if (strcmp(daemon->config.log, was.log) != 0 || daemon->config.log_file != was.log_file ||
            daemon->config.log_total != was.log_total || daemon->config.log_keep_ns != was.log_keep_ns)
                fprintf(stderr, "watopd: log settings change when watopd is started again\n");
        memcpy(daemon->config.log, was.log, sizeof was.log);
        daemon->config.log_file = was.log_file;
        daemon->config.log_total = was.log_total;
        daemon->config.log_keep_ns = was.log_keep_ns;
        if (daemon->config.bpf != was.bpf)
                fprintf(stderr, "watopd: bpf changes when watopd is started again\n");
        daemon->config.bpf = was.bpf;
        sampler_configure(daemon->sampler, daemon->config.interval_ns, daemon->config.scopes, daemon->config.cmdline);
        if (daemon->config.interval_ns != was.interval_ns) {
                ring_set_tick(daemon->ring, daemon->config.interval_ns);
                deadline_start(&loop->tick, now_ns(), daemon->config.interval_ns);
        }
        fprintf(stderr, "watopd: settings read again from %s\n", daemon->config_path);
}

static void take_signals(struct loop *loop, int fd)
{
        struct signalfd_siginfo info;

        while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
                if (info.ssi_signo == SIGHUP)
                        reload(loop);
                else
                        loop->end = true;
        }
}

/* ---- time ----------------------------------------------------------------------------------------------------------------- */

static bool sub_sampling(const struct loop *loop)
{
        return !loop->daemon->captured && loop->tick.interval_ns >= 2 * SUB_NS && loop->sub_ns + SUB_GUARD_NS <= loop->tick.next_ns &&
                sampler_wants_between(loop->daemon->sampler);
}

/* What time says is due. Returns -errno only when sampling cannot go on. */
static int run_due(struct loop *loop)
{
        struct daemon *daemon = loop->daemon;
        uint64_t now = now_ns();

        if (now >= loop->beat_ns) {
                loop_beat(daemon);
                loop->beat_ns = now + SECOND;
        }
        if (daemon->captured)
                return 0;
        if (now >= loop->tick.next_ns) {
                uint64_t due;
                uint32_t missed = deadline_take(&loop->tick, now, &due);
                int r = take_tick(daemon, &(struct sampler_order){ .due_ns = due, .missed = missed }, NULL);
                loop->sub_ns = due + SUB_NS;
                if (daemon->ticks > 0 && --daemon->ticks == 0)
                        loop->tick.next_ns = loop->sub_ns = UINT64_MAX - SUB_GUARD_NS;
                /* A frame that was too long is left out (the next has less detail); want of memory may pass. */
                return r < 0 && r != -EFBIG && r != -ENOMEM ? r : 0;
        }
        if (now >= loop->sub_ns && sub_sampling(loop)) {
                sampler_between(daemon->sampler);
                while (loop->sub_ns <= now)
                        loop->sub_ns += SUB_NS;
        }
        return 0;
}

static uint64_t next_deadline(const struct loop *loop)
{
        uint64_t next = loop->beat_ns;

        if (!loop->daemon->captured && loop->tick.next_ns < next)
                next = loop->tick.next_ns;
        if (loop->sub_ns < next && sub_sampling(loop))
                next = loop->sub_ns;
        return next;
}

static int wait_for_something(struct loop *loop, int signal_fd)
{
        struct pollfd fds[SERVE_FDS + 1];
        uint64_t deadline = next_deadline(loop), now = now_ns();

        size_t count = serve_fds(loop->daemon->serve, fds, SERVE_FDS, now, &deadline);
        fds[count] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
        uint64_t left = deadline > now ? deadline - now : 0;
        struct timespec timeout = { .tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND) };
        int r = ppoll(fds, count + 1, &timeout, NULL);
        if (r < 0)
                return errno == EINTR ? 0 : -errno;
        if (fds[count].revents != 0)
                take_signals(loop, signal_fd);
        serve_run(loop->daemon->serve, fds, count, now_ns());
        return 0;
}

int loop_run(struct daemon *daemon, int signal_fd)
{
        struct loop loop = { .daemon = daemon };
        int r = 0;

        deadline_start(&loop.tick, now_ns(), daemon->config.interval_ns);
        loop.sub_ns = UINT64_MAX - SUB_GUARD_NS;
        while (r == 0 && !loop.end) {
                r = run_due(&loop);
                if (r == 0)
                        r = wait_for_something(&loop, signal_fd);
                if (daemon->orphan_ends && serve_orphan(daemon->serve))
                        break;
        }
        return r;
}

/*
 * watopd: samples this machine and publishes frames in a ring.
 *
 * Start: options, settings, ring, control socket, tracing's programs and tracefs, then rights are given away, then the collectors open
 * their files, then the loop. It stays in the foreground: whoever wants it in the background has a service manager. `--private FD` is
 * how watop starts one for itself.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectors/bpf/tracer.h"
#include "collectors/stages.h"
#include "daemon/check.h"
#include "daemon/journal.h"
#include "daemon/loop.h"
#include "daemon/privs.h"
#include "daemon/sampler.h"
#include "sample/streams.h"
#include "sample/trust.h"

static const char usage[] =
        "Usage: watopd [options]\n"
        "Samples CPU and I/O of this machine for watop. Runs in the foreground.\n"
        "\n"
        "  --check            say what can be seen on this machine, and why not the rest\n"
        "  --interval TIME    tick: 10ms to 1h (default 1s, or what the settings say)\n"
        "  --scopes LIST      what to sample without being asked: names with commas\n"
        "  --bpf auto|off     off: no BPF: no exact split, block tracing through tracefs only\n"
        "  --log DIR          write what is sampled into logs below DIR too (watop log FILE)\n"
        "  --config FILE      settings (default " WATOP_SYSCONFDIR "/watop/watopd.ini)\n"
        "  --ring PATH        the ring (default /run/watop/ring, or $XDG_RUNTIME_DIR/watop/ring)\n"
        "  --socket PATH      the control socket (default: `control` beside the ring)\n"
        "  --root DIR         sample a captured machine, tree by tree\n"
        "  --capture DIR      write everything that is read below DIR, one tree a tick\n"
        "  --ticks N          with --capture: so many trees and no more\n"
        "  --anonymize        with --capture: hide names of people, programs and devices\n"
        "  --foreground       does nothing: it is the only way\n"
        "  --private FD       started by watop: serve the socket FD only, end when it closes\n"
        "  --exact            with --private: trace from the start\n"
        "  --stages           with --private: be ready for block tracing\n"
        "  --help, --version\n";

enum { OPT_CHECK = 256, OPT_INTERVAL, OPT_SCOPES, OPT_CONFIG, OPT_RING, OPT_SOCKET, OPT_ROOT, OPT_CAPTURE, OPT_TICKS, OPT_ANONYMIZE,
        OPT_FOREGROUND, OPT_PRIVATE, OPT_LOG, OPT_BPF, OPT_EXACT, OPT_STAGES, OPT_HELP, OPT_VERSION };

struct options {
        const char *config, *ring, *socket, *root, *capture, *log;
        uint64_t interval_ns;
        uint32_t scopes;
        int private_fd;
        uint64_t ticks;
        bool check, anonymize, exact, stages;
        int bpf;          /* -1 not given, 0 off, 1 auto */
};

static int usage_error(const char *what, const char *value)
{
        fprintf(stderr, "watopd: %s: %s\n", value, what);
        return 2;
}

/* A descriptor that watop left open for us. */
static int parse_fd(const char *text, int *fd)
{
        char *end;

        errno = 0;
        long value = strtol(text, &end, 10);
        if (errno != 0 || *end != '\0' || end == text || value < 3 || value > INT_MAX)
                return -EINVAL;
        *fd = (int)value;
        return 0;
}

static int parse_ticks(const char *text, uint64_t *ticks)
{
        char *end;

        errno = 0;
        *ticks = strtoull(text, &end, 10);
        return errno != 0 || *end != '\0' || *text < '0' || *text > '9' || *ticks == 0 ? -EINVAL : 0;
}

static int parse_bpf(const char *text, int *bpf)
{
        bool on = false;

        int r = config_bpf(text, &on);
        if (r == 0)
                *bpf = on;
        return r;
}

static int wrong_scopes(const char *text)
{
        char word[64];
        size_t length;
        const char *bad = config_bad_scope(text, &length);

        snprintf(word, sizeof word, "%.*s", bad != NULL && length < sizeof word ? (int)length : (int)sizeof word - 1, bad ? bad : text);
        return usage_error(bad ? "no such scope (--scopes; watop metrics lists them)" :
                "--scopes takes names of scopes, not only traced", word);
}

/* 0; 2 wrong option (said); -1 done (said). */
static int parse_option(int c, struct options *options)
{
        switch (c) {
        case OPT_CHECK: options->check = true; return 0;
        case OPT_INTERVAL:
                return config_interval(optarg, &options->interval_ns) < 0 ? usage_error("--interval takes 10ms to 1h", optarg) : 0;
        case OPT_SCOPES:
                return config_scopes(optarg, &options->scopes) < 0 ? wrong_scopes(optarg) : 0;
        case OPT_CONFIG: options->config = optarg; return 0;
        case OPT_RING: options->ring = optarg; return 0;
        case OPT_SOCKET: options->socket = optarg; return 0;
        case OPT_ROOT: options->root = optarg; return 0;
        case OPT_CAPTURE: options->capture = optarg; return 0;
        case OPT_TICKS: return parse_ticks(optarg, &options->ticks) < 0 ? usage_error("--ticks takes a count", optarg) : 0;
        case OPT_ANONYMIZE: options->anonymize = true; return 0;
        case OPT_FOREGROUND: return 0;
        case OPT_LOG: options->log = optarg; return *optarg ? 0 : usage_error("--log takes a folder", optarg);
        case OPT_PRIVATE:
                return parse_fd(optarg, &options->private_fd) < 0 ? usage_error("--private takes a descriptor", optarg) : 0;
        case OPT_BPF: return parse_bpf(optarg, &options->bpf) < 0 ? usage_error("--bpf takes auto or off", optarg) : 0;
        case OPT_EXACT: options->exact = true; return 0;
        case OPT_STAGES: options->stages = true; return 0;
        case OPT_HELP: fputs(usage, stdout); return -1;
        case OPT_VERSION: puts("watopd " WATOP_VERSION); return -1;
        default: return 2; /* getopt_long has said it in one line */
        }
}

static int parse_options(int argc, char **argv, struct options *options)
{
        static const struct option longs[] = {
                { "check", no_argument, NULL, OPT_CHECK }, { "interval", required_argument, NULL, OPT_INTERVAL },
                { "scopes", required_argument, NULL, OPT_SCOPES }, { "config", required_argument, NULL, OPT_CONFIG },
                { "ring", required_argument, NULL, OPT_RING }, { "socket", required_argument, NULL, OPT_SOCKET },
                { "root", required_argument, NULL, OPT_ROOT }, { "capture", required_argument, NULL, OPT_CAPTURE },
                { "ticks", required_argument, NULL, OPT_TICKS }, { "anonymize", no_argument, NULL, OPT_ANONYMIZE },
                { "foreground", no_argument, NULL, OPT_FOREGROUND }, { "log", required_argument, NULL, OPT_LOG },
                { "bpf", required_argument, NULL, OPT_BPF }, { "exact", no_argument, NULL, OPT_EXACT },
                { "stages", no_argument, NULL, OPT_STAGES },
                { "private", required_argument, NULL, OPT_PRIVATE }, { "help", no_argument, NULL, OPT_HELP },
                { "version", no_argument, NULL, OPT_VERSION }, { 0 },
        };
        int c, r;

        *options = (struct options){ .private_fd = -1, .bpf = -1 };
        while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
                if ((r = parse_option(c, options)) != 0)
                        return r;
        if (optind < argc)
                return usage_error("watopd takes no arguments", argv[optind]);
        if ((options->anonymize || options->ticks > 0) && options->capture == NULL)
                return usage_error("only with --capture", options->anonymize ? "--anonymize" : "--ticks");
        if ((options->exact || options->stages) && options->private_fd < 0)
                return usage_error("only with --private", options->exact ? "--exact" : "--stages");
        if (options->root != NULL && options->capture != NULL)
                return usage_error("not together with --root", "--capture");
        if (options->root != NULL && options->log != NULL)
                return usage_error("not together with --root", "--log");
        return 0;
}

static void say_bad_line(void *arg, unsigned line, const char *why)
{
        fprintf(stderr, "watopd: %s:%u: %s\n", (const char *)arg, line, why);
}

/* The file named must be there, the default one need not. A private watopd has its reader's wishes instead. */
static int load_settings(struct daemon *daemon, const struct options *options)
{
        config_default(&daemon->config);
        daemon->base = daemon->config;
        daemon->forced_interval_ns = options->interval_ns;
        daemon->forced_scopes = options->scopes;
        daemon->forced_bpf = options->bpf;
        if (options->config != NULL)
                daemon->config_path = options->config;
        else if (options->private_fd < 0 && options->root == NULL)
                daemon->config_path = WATOP_SYSCONFDIR "/watop/watopd.ini";
        if (daemon->config_path != NULL) {
                char name[PATH_MAX];
                snprintf(name, sizeof name, "%s", daemon->config_path);
                int r = config_load(daemon->config_path, &daemon->config, say_bad_line, name);
                if (r < 0 && (r != -ENOENT || options->config != NULL)) {
                        fprintf(stderr, "watopd: %s: %s\n", daemon->config_path, strerror(-r));
                        return r;
                }
        }
        loop_force(daemon);
        return 0;
}

static uint64_t count_lines(struct procfs *procfs, const char *path, const char *prefix)
{
        char *text = NULL;
        size_t capacity = 0;
        uint64_t count = 0;
        struct scan all, line;

        ssize_t length = procfs_read_all(procfs, path, &text, &capacity);
        scan_init(&all, text, length > 0 ? (size_t)length : 0);
        while (scan_line(&all, &line))
                count += scan_prefix(&line, prefix);
        free(text);
        return count;
}

/* A ring holds two full frames and what changes between them. A row of a task or disk takes about 400 bytes, half of it texts; one of a
 * core 300. */
static uint64_t ring_room(struct procfs *procfs)
{
        char text[128];
        struct scan scan;
        uint64_t running, tasks = 0, others = count_lines(procfs, "proc/diskstats", "") + count_lines(procfs, "proc/stat", "cpu");

        ssize_t length = procfs_read(procfs, "proc/loadavg", text, sizeof text);
        if (length > 0) {
                scan_init(&scan, text, (size_t)length);
                if (!scan_skip(&scan, 3) || !scan_u64(&scan, &running) || !scan_prefix(&scan, "/") || !scan_u64(&scan, &tasks))
                        tasks = 0;
        }
        if (tasks > 1000000)
                tasks = 1000000;
        if (others > 1000000)
                others = 1000000;
        uint64_t room = ((tasks + others) * 1024 + (UINT64_C(1) << 20)) * 4;
        return (room + 4095) / 4096 * 4096;
}

static uint64_t ring_size(const struct daemon *daemon, const struct options *options)
{
        uint64_t size = daemon->config.ring_size, room = ring_room(daemon->procfs);

        /* One reader that is always at the newest frame needs no history. */
        if (options->private_fd >= 0 && options->config == NULL)
                size = UINT64_C(8) << 20;
        if (room > size) {
                if (options->private_fd < 0)
                        fprintf(stderr, "watopd: ring_size is raised to %llu MiB: fewer would not hold two full frames\n",
                                (unsigned long long)(room >> 20));
                size = room;
        }
        return size;
}

/* Why a path cannot be ours. "File exists" alone helps nobody: what is there is said too. */
static void say_path(const char *path, int error)
{
        char there[80];
        bool foreign = error == -EEXIST || error == -EPERM || error == -EACCES || error == -ELOOP || error == -EISDIR || error == -ENOTDIR;

        place_describe(path, there, sizeof there);
        if (foreign && strcmp(there, "nothing") != 0)
                fprintf(stderr, "watopd: %s: %s is there, not ours to replace (%s)\n", path, there, strerror(-error));
        else
                fprintf(stderr, "watopd: %s: %s\n", path, strerror(-error));
}

/* The socket's path, or the lock beside it where the path itself is free or an old socket. */
static void say_socket(const char *path, int error)
{
        char lock[PATH_MAX + 8];
        struct stat st;

        snprintf(lock, sizeof lock, "%s.lock", path);
        bool free_path = lstat(path, &st) < 0 || S_ISSOCK(st.st_mode);
        say_path(free_path && lstat(lock, &st) == 0 ? lock : path, error);
}

/* The ring as a file that group watop may read, or a memfd where a file would cause disk writes. */
static int make_ring(struct daemon *daemon, const struct options *options, const struct place *place)
{
        uint64_t size = ring_size(daemon, options);
        pid_t holder = 0;
        int r = -EXDEV;

        if (options->private_fd < 0) {
                r = ring_create(place->ring, size, 0640, &daemon->ring, &holder);
                if (r == -EBUSY) {
                        fprintf(stderr, "watopd: %s is held by the watopd with pid %d\n", place->ring, (int)holder);
                        return r;
                }
                if (r == -EXDEV)
                        fprintf(stderr, "watopd: %s is not on tmpfs: the ring is a memfd, handed out by %s\n", place->folder,
                                place->socket);
                gid_t group;
                struct stat st;
                if (r == 0 && geteuid() == 0 && trust_group(&group) == 0 && fstat(ring_writer_fd(daemon->ring), &st) == 0 &&
                    st.st_gid != group)
                        fprintf(stderr, "watopd: group watop cannot be given the ring: it is for root only\n");
        }
        if (r == -EXDEV) {
                r = ring_create(NULL, size, 0640, &daemon->ring, &holder);
                daemon->ring_is_memfd = r == 0;
        }
        if (r < 0) {
                if (options->private_fd < 0)
                        say_path(place->ring, r);
                else
                        fprintf(stderr, "watopd: ring: %s\n", strerror(-r));
                return r;
        }
        daemon->ring_bytes = size;
        /* Readers may come from now on, and ask first whether the tick suits them. */
        ring_set_tick(daemon->ring, daemon->config.interval_ns);
        return 0;
}

static int make_socket(struct daemon *daemon, const struct options *options, const struct place *place)
{
        struct serve_hooks hooks;
        pid_t holder = 0;

        loop_hooks(daemon, &hooks);
        int r = serve_new(&hooks, &daemon->serve);
        if (r == 0 && options->private_fd >= 0) {
                daemon->orphan_ends = true;
                r = serve_adopt(daemon->serve, options->private_fd);
        } else if (r == 0) {
                r = serve_listen(daemon->serve, place->socket, &holder);
                if (r == -EBUSY) {
                        fprintf(stderr, "watopd: %s is held by the watopd with pid %d\n", place->socket, (int)holder);
                        return r;
                }
        }
        if (r < 0 && options->private_fd < 0)
                say_socket(place->socket, r);
        else if (r < 0)
                fprintf(stderr, "watopd: control socket: %s\n", strerror(-r));
        return r;
}

/* Loading needs rights that are not kept. A captured machine has nothing to trace; a capture holds what /proc says; a private watopd has
 * one reader, which said whether it wants it. Without it wa is split by the rules, so a failure is no error. */
static void open_tracer(struct daemon *daemon, const struct options *options)
{
        char why[256] = "";

        if (daemon->captured || options->capture != NULL || !daemon->config.bpf || (options->private_fd >= 0 && !options->exact))
                return;
        int r = tracer_open(&daemon->tracer, why, sizeof why);
        if (r == 0)
                return;
        daemon->tracer = NULL;
        if (r != -ENOSYS && options->private_fd < 0 && geteuid() == 0)
                fprintf(stderr, "watopd: no exact split of wa: %s\n", why[0] != '\0' ? why : strerror(-r));
}

/* The same for block tracing, which is not tied to BPF. */
static void open_stages(struct daemon *daemon, const struct options *options)
{
        char why[sizeof daemon->stages_why] = "";

        snprintf(daemon->stages_why, sizeof daemon->stages_why, "%s", daemon->captured ? "a captured machine cannot be traced"
                : "this watopd was not started for it");
        if (daemon->captured || options->capture != NULL || (options->private_fd >= 0 && !options->stages))
                return;
        int r = stages_open(&daemon->stages, daemon->config.bpf, why, sizeof why);
        if (r == 0)
                return;
        daemon->stages = NULL;
        snprintf(daemon->stages_why, sizeof daemon->stages_why, "%s", why[0] != '\0' ? why : strerror(-r));
}

struct trial {
        struct tracer *tracer;
        struct stages *stages;
        bool stay;           /* attached: a private watopd's reader waits for it */
        unsigned calls;
        bool exact, blocks;  /* what works, */
        bool exact_first, blocks_first; /* and did without CAP_BPF */
};

/* For privs_drop: first without CAP_BPF and CAP_PERFMON; then, if something that is loaded does not work so, with them. They stay only
 * when that makes a difference. */
static bool tracing_works(void *arg)
{
        struct trial *trial = arg;
        char why[256];

        if (trial->tracer != NULL && !trial->exact) {
                trial->exact = tracer_attach(trial->tracer, why, sizeof why) == 0;
                if (!trial->stay)
                        tracer_detach(trial->tracer);
        }
        if (trial->stages != NULL && !trial->blocks)
                trial->blocks = stages_works(trial->stages);
        if (trial->calls++ == 0) {
                trial->exact_first = trial->exact;
                trial->blocks_first = trial->blocks;
                return trial->exact == (trial->tracer != NULL) && trial->blocks == (trial->stages != NULL);
        }
        return trial->exact != trial->exact_first || trial->blocks != trial->blocks_first;
}

/* Needs no right that is kept: the collectors come after it. */
static int give_up_rights(struct daemon *daemon)
{
        struct trial trial = { .tracer = daemon->tracer, .stages = daemon->stages, .stay = daemon->orphan_ends };
        bool tracing = daemon->tracer != NULL || daemon->stages != NULL;
        char why[200] = "";

        privs_lock_memory();
        int r = privs_drop(tracing ? tracing_works : NULL, &trial, why, sizeof why);
        if (!trial.exact) {
                tracer_close(daemon->tracer);
                daemon->tracer = NULL;
        }
        if (daemon->stages != NULL && !trial.blocks && !stages_falls_back(daemon->stages)) {
                stages_close(daemon->stages);
                daemon->stages = NULL;
                snprintf(daemon->stages_why, sizeof daemon->stages_why, "neither BPF nor tracefs works with the rights that watopd keeps");
        }
        if (r < 0)
                fprintf(stderr, "watopd: %s: not going on with more rights than needed\n", why);
        return r < 0 ? r : 0;
}

/* Before rights are given up: root may be asked to write into the folder of a user. */
static int make_capture(struct daemon *daemon, const struct options *options)
{
        if (options->capture == NULL)
                return 0;
        int r = procfs_capture(daemon->procfs, options->capture);
        if (r == 0 && options->anonymize)
                r = procfs_capture_anonymize(daemon->procfs);
        if (r < 0)
                fprintf(stderr, "watopd: %s: %s\n", options->capture, strerror(-r));
        return r;
}

/* As the capture's. Of the settings only where there is no reader of ours: a private watopd keeps nothing. */
static int make_journal(struct daemon *daemon, const struct options *options, const struct place *place)
{
        const struct config *config = &daemon->config;
        struct journal_options journal = {
                .folder = options->log != NULL ? options->log : config->log,
                .ring = place->ring,
                .file_bytes = config->log_file,
                .total_bytes = config->log_total,
                .keep_ns = config->log_keep_ns,
        };

        if (*journal.folder == '\0' || (daemon->captured && options->log == NULL))
                return 0;
        int r = journal_new(&journal, &daemon->journal);
        if (r < 0)
                say_path(journal.folder, r);
        return r;
}

static int make_sampler(struct daemon *daemon, const struct options *options)
{
        struct sampler_options sampler = {
                .procfs = daemon->procfs,
                .interval_ns = daemon->config.interval_ns,
                .scopes = daemon->config.scopes,
                .cmdline = daemon->config.cmdline,
                .capture = options->capture != NULL,
                .ring_size = daemon->ring_bytes,
                .tracer = daemon->tracer,
                .stages = daemon->stages,
                .alive = loop_beat,
                .alive_arg = daemon,
        };

        int r = sampler_new(&sampler, &daemon->sampler);
        if (r < 0)
                fprintf(stderr, "watopd: %s\n", strerror(-r));
        return r;
}

static int run(struct daemon *daemon, const struct options *options, const struct place *place)
{
        int signal_fd = loop_signals(options->private_fd >= 0);
        if (signal_fd < 0)
                return signal_fd;
        /* Ticks of 10 ms with the default slack of 50 us would be half a percent off each time. */
        prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
        int r = make_ring(daemon, options, place);
        if (r == 0)
                r = make_socket(daemon, options, place);
        if (r == 0)
                r = make_capture(daemon, options);
        if (r == 0)
                r = make_journal(daemon, options, place);
        if (r == 0)
                open_tracer(daemon, options);
        if (r == 0)
                open_stages(daemon, options);
        if (r == 0)
                r = give_up_rights(daemon);
        if (r == 0 && daemon->journal != NULL && (r = journal_start(daemon->journal)) < 0)
                fprintf(stderr, "watopd: log: %s\n", strerror(-r));
        if (r == 0)
                r = make_sampler(daemon, options);
        if (r == 0) {
                r = loop_run(daemon, signal_fd);
                if (r < 0)
                        fprintf(stderr, "watopd: %s\n", strerror(-r));
        }
        if (r == 0 && options->capture != NULL && (r = procfs_capture_error(daemon->procfs)) < 0)
                fprintf(stderr, "watopd: %s: %s\n", options->capture, strerror(-r));
        /* The socket first: from then on nobody asks for anything. */
        serve_free(daemon->serve);
        sampler_free(daemon->sampler);
        journal_free(daemon->journal);
        tracer_close(daemon->tracer);
        stages_close(daemon->stages);
        ring_destroy(daemon->ring);
        close(signal_fd);
        return r;
}

/* The daemon, from its place to its end. */
static int serve_place(struct daemon *daemon, const struct options *options, const struct place *place, int placed)
{
        if (placed < 0 && options->private_fd < 0) {
                fprintf(stderr, "watopd: no place for the ring: set XDG_RUNTIME_DIR, or give --ring\n");
                return placed;
        }
        if (options->private_fd < 0 && options->ring == NULL && options->socket == NULL) {
                int r = place_make(place);
                if (r < 0) {
                        say_path(place->folder, r);
                        return r;
                }
        }
        return run(daemon, options, place);
}

/* Exit status: what could not be written is an error too. */
static int finish(int status)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return status;
        if (errno != EPIPE)
                fprintf(stderr, "watopd: standard output: %s\n", strerror(errno ? errno : EIO));
        return status != 0 ? status : 1;
}

int main(int argc, char **argv)
{
        struct options options;
        struct place place = { .folder = "" };
        struct daemon daemon = { .serve = NULL };

        if (streams_open() < 0)
                return 1;
        int r = parse_options(argc, argv, &options);
        if (r != 0)
                return finish(r < 0 ? 0 : r);
        umask(077);
        privs_limits();
        r = procfs_open_root(options.root, &daemon.procfs);
        if (r < 0) {
                fprintf(stderr, "watopd: %s: %s\n", options.root != NULL ? options.root : "/", strerror(-r));
                return 1;
        }
        daemon.captured = !procfs_live(daemon.procfs);
        daemon.ticks = options.ticks;
        int placed = place_find(options.ring, options.socket, &place);
        r = load_settings(&daemon, &options);
        if (r == 0)
                r = options.check ? check_run(daemon.procfs, &place, placed, daemon.config.bpf)
                        : serve_place(&daemon, &options, &place, placed);
        procfs_close_root(daemon.procfs);
        return finish(r == 0 ? 0 : 1);
}

/*
 * watop capture: a private watopd samples as usual and writes every kernel file it opens, errors included, into numbered trees below a
 * folder, which `--root` reads later, here or on another machine. Nothing but that folder is written.
 */
#include <errno.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sample/control.h"
#include "tui/options.h"
#include "tui/verbs.h"

enum { CODE_ANONYMIZE = OPTION_LONG };

struct capture {
        const char *folder;
        bool anonymize;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
        (void)signal;
        interrupted = 1;
}

/* The folder is made, or must be empty: nobody's files are written over. 0 or -errno. */
static int prepare(const char *folder)
{
        int entries = 0;

        if (mkdir(folder, 0700) == 0)
                return 0;
        if (errno != EEXIST)
                return -errno;
        DIR *dir = opendir(folder);
        if (!dir)
                return -errno;
        while (readdir(dir))
                entries++;
        closedir(dir);
        return entries > 2 ? -ENOTEMPTY : 0; /* . and .. */
}

/* Trees are counted by watopd's own ticks, the base left out: on a busy machine the first frame that we meet is not its first. */
static uint64_t trees(const struct state *state)
{
        const struct state_row *row = state_one(state, SCOPE_SELF);
        uint64_t ticks;

        return row && state_now(row, SELF_TICKS, &ticks) && ticks > 0 ? ticks - 1 : 0;
}

static int take(struct attach *attach, struct state *state, uint64_t count, uint64_t *taken)
{
        while (!interrupted && (count == 0 || *taken < count)) {
                struct attach_info info;
                int r = attach_next(attach, state, NULL, UINT64_C(500000000));
                if (r < 0 || r == ATTACH_GONE) {
                        attach_get_info(attach, &info);
                        options_say("capture", "%s", info.line);
                        return 1;
                }
                *taken = trees(state);
                if (r == ATTACH_REPORT)
                        state_base(state);
        }
        return 0;
}

static int run(const struct options *options)
{
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
        struct attach *attach = NULL;
        struct state *state = NULL;
        char why[512] = "";
        uint64_t taken = 0;
        int status = 1;

        sigaction(SIGINT, &action, NULL);
        int r = state_new(&state);
        if (r == 0)
                r = attach_open(&options->attach, &attach, why, sizeof why);
        if (r < 0) {
                options_say("capture", "%s", why[0] ? why : strerror(-r));
        } else {
                status = take(attach, state, options->count, &taken);
                options_say("capture", "%" PRIu64 " intervals in %s; read them with --root", taken, options->attach.capture);
        }
        attach_close(attach);
        state_free(state);
        return status;
}

static int capture_option(void *own, int code, const char *value)
{
        struct capture *capture = own;

        (void)code;
        (void)value;
        capture->anonymize = true;
        return 0;
}

static int capture_argument(void *own, const char *value)
{
        struct capture *capture = own;

        if (capture->folder)
                return 1;
        capture->folder = value;
        return 0;
}

int capture_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_ANONYMIZE, "anonymize", NULL, "names, paths, serials and the boot id are replaced"},
                {0},
        };
        struct capture capture = {0};
        const struct option_set set = {
                .verb = "capture", .synopsis = "DIR [INTERVAL [COUNT]] [OPTION...]", .entries = entries, .option = capture_option,
                .argument = capture_argument, .own = &capture, .groups = OPTIONS_TIMES,
                .text = "Writes what the kernel's files say into DIR/0000, DIR/0001, ...: one tree a\n"
                        "sample, the first is the base. Read them with watop cpu --root DIR. DIR is made,\n"
                        "or must be empty.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r == 0 && !capture.folder)
                r = options_error("capture", "name the folder to write into");
        if (r != 0)
                return r > 0 ? 0 : 2;
        r = prepare(capture.folder);
        char *folder = r == 0 ? realpath(capture.folder, NULL) : NULL;
        if (!folder) {
                options_say("capture", "%s: %s", capture.folder, strerror(r < 0 ? -r : errno));
                return 1;
        }
        options.attach.private_only = true;
        options.attach.capture = folder;
        options.attach.capture_count = options.count;
        options.attach.capture_anonymize = capture.anonymize;
        options.attach.scopes = (UINT32_C(1) << SCOPE_COUNT) - 1;
        options.attach.leases = LEASE_RINGS | LEASE_CGROUPS;
        int status = run(&options);
        free(folder);
        return status;
}

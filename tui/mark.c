/*
 * watop mark: a mark in the recording that runs, or in the ring of the daemon.
 *
 * Where it goes: --log FILE, else WATOP_MARK (which `watop record` sets for its command), else the daemon's control socket. It returns
 * when the frame of the mark is sealed (and, in a recording, written), so that what a script does next is behind it.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/control.h"
#include "sample/log.h"
#include "tui/attach_log.h"
#include "tui/options.h"
#include "tui/record.h"
#include "tui/record_serve.h"
#include "tui/source.h"
#include "tui/verbs.h"

enum { CODE_END = OPTION_LONG, CODE_LOG, PATIENCE_MS = 10000, STEP_MS = 50 };

struct mark {
        const char *log;
        bool end, verbose;
        char text[4096];
        bool too_long;
};

static int mark_option(void *own, int code, const char *value)
{
        struct mark *mark = own;

        switch (code) {
        case CODE_END: mark->end = true; return 0;
        case CODE_LOG: mark->log = value; return 0;
        default: mark->verbose = true; return 0;
        }
}

/* All words are one text. */
static int mark_argument(void *own, const char *value)
{
        struct mark *mark = own;
        size_t length = strlen(mark->text);

        int n = snprintf(mark->text + length, sizeof mark->text - length, "%s%s", length > 0 ? " " : "", value);
        if (n < 0 || (size_t)n >= sizeof mark->text - length)
                mark->too_long = true;
        return 0;
}

/* The socket of the recording that writes this log: beside it, else where the log says. -EREMOTE: written, but by nobody who has one. */
static int connect_log(const char *path, struct control **control)
{
        char socket[RECORD_PATH];
        struct log *log;
        size_t length;

        int r = (size_t)snprintf(socket, sizeof socket, "%s.mark", path) < sizeof socket
                ? record_connect(socket, 1, control) : -ENAMETOOLONG;
        if (r == 0)
                return 0;
        int opened = log_open(path, &log);
        if (opened < 0)
                return opened == -ENOENT ? -ENOENT : opened;
        const char *note = log_get_note(log, "mark.socket", &length);
        if (note != NULL && length < sizeof socket) {
                memcpy(socket, note, length);
                socket[length] = '\0';
                r = record_connect(socket, 1, control);
        }
        if ((r == -ENOENT || r == -ECONNREFUSED) && log_growing(log))
                r = -EREMOTE;
        log_close(log);
        return r == -ENOENT ? -ECONNREFUSED : r;
}

/* 0 connected, 1 there is none, -errno. Root does not ask its environment. */
static int connect_daemon(struct control **control)
{
        char path[PATH_MAX];
        const char *runtime = geteuid() == 0 ? NULL : secure_getenv("XDG_RUNTIME_DIR");

        int r = control_connect("/run/watop/control", control);
        if (r < 0 && runtime != NULL && *runtime == '/' && (size_t)snprintf(path, sizeof path, "%s/watop/control", runtime) < sizeof path) {
                int own = control_connect(path, control);
                if (own == 0 || r == -ENOENT)
                        r = own;
        }
        return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR ? 1 : r;
}

static int find(const struct mark *mark, struct control **control)
{
        const char *named = secure_getenv("WATOP_MARK");
        int r;

        if (mark->log != NULL) {
                r = connect_log(mark->log, control);
                if (r == -ECONNREFUSED)
                        options_say("mark", "%s: nobody records into it now", mark->log);
                else if (r == -EREMOTE)
                        options_say("mark", "%s: a watopd writes it; to mark in the daemon's ring, and so in its logs, leave --log out",
                                mark->log);
                else if (r < 0)
                        options_say("mark", "%s: %s", mark->log, attach_log_why(r));
                return r;
        }
        if (named != NULL && *named != '\0') {
                r = record_connect(named, 0, control);
                if (r < 0)
                        options_say("mark", "the recording at WATOP_MARK (%s) %s", named,
                                r == -ECONNREFUSED || r == -ENOENT ? "has ended" : strerror(-r));
                return r;
        }
        r = connect_daemon(control);
        if (r == 1)
                options_say("mark", "no recording is known here (WATOP_MARK, --log FILE) and no daemon runs");
        else if (r < 0)
                options_say("mark", "the daemon's control socket: %s", r == -EACCES ? "it is for root and group watop" : strerror(-r));
        return r == 1 ? -ENOENT : r;
}

/* A daemon lets only so many frames a second be taken. */
static int set(const struct mark *mark, uint64_t *sequence)
{
        struct control *control = NULL;
        int r = find(mark, &control);

        if (r < 0)
                return r;
        for (int waited = 0;; waited += STEP_MS) {
                r = control_mark(control, mark->text, sequence);
                if ((r != -EAGAIN && r != -EUSERS) || waited >= PATIENCE_MS)
                        break;
                poll(NULL, 0, STEP_MS);
        }
        if (r < 0)
                options_say("mark", "%s", r == -EPIPE ? "the recording has ended" : strerror(-r));
        control_close(control);
        return r;
}

static int make_text(struct mark *mark)
{
        char words[sizeof mark->text], clean[RECORD_TEXT + 1];

        size_t length = strlen(mark->text);
        if (mark->too_long || length > RECORD_TEXT - (mark->end ? strlen("end: ") : 0))
                return options_error("mark", "a text has at most %d bytes", (int)(RECORD_TEXT - strlen("end: ")));
        memcpy(words, mark->text, length + 1);
        if (record_clean_text(clean, sizeof clean, words, length) == 0 && length > 0)
                return options_error("mark", "the text is blank");
        if (mark->end)
                snprintf(mark->text, sizeof mark->text, "%s%s", clean[0] ? "end: " : "end", clean);
        else
                snprintf(mark->text, sizeof mark->text, "%s", clean[0] ? clean : "mark");
        return 0;
}

int mark_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_END, "end", NULL, "end the phase (that of TEXT) instead of beginning one"},
                {CODE_LOG, "log", "FILE", "the recording that writes this log"},
                {'v', "verbose", NULL, "print the sequence number of the mark's frame"},
                {0},
        };
        static struct mark mark;
        const struct option_set option_set = {
                .verb = "mark", .synopsis = "[OPTION...] [TEXT]", .entries = entries, .option = mark_option, .argument = mark_argument,
                .own = &mark,
                .text = "Sets a mark: a phase named TEXT begins here, and lasts to the next mark. Without\n"
                        "--log it goes to the recording whose command calls it, else to the daemon. Returns\n"
                        "when the mark's sample is taken and written.",
        };
        struct options options;
        uint64_t sequence = 0;

        int r = options_parse(&option_set, argc, argv, &options);
        if (r == 0)
                r = make_text(&mark);
        if (r != 0)
                return r > 0 ? 0 : 2;
        if (set(&mark, &sequence) < 0)
                return 1;
        if (mark.verbose)
                printf("%" PRIu64 "\n", sequence);
        return 0;
}

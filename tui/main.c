/*
 * watop: the verbs in one table, and nothing else. What a verb does is in its own file.
 *
 * Refuses to run with more rights than its user: setuid and file capabilities belong to nobody here, what needs rights is watopd's work.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "sample/streams.h"
#include "tui/command.h"
#include "tui/options.h"
#include "tui/verbs.h"

static const struct verb {
        const char *name;
        int (*run)(int argc, char **argv);
        const char *text;
} verbs[] = {
        {"cpu", cpu_main, "per-core table: us sy ni id wa hi si st, wa split into disk, uring and other"},
        {"disk", disk_main, "per-device table: iostat -x, what is in flight, the state in a word"},
        {"task", task_main, "per-process and per-thread table: pidstat -u -d -r -w"},
        {"blk", blk_main, "where block latency and fsync's time go: the disk, the queue before it, a flush; behind whom"},
        {"why", why_main, "what wa is on this machine now, in one answer"},
        {"record", record_main, "run a command and sample the machine from just before to just after, into a log"},
        {"mark", mark_main, "begin or end a phase in a recording, or in the daemon's samples"},
        {"report", report_main, "what a recording says, phase by phase: results, load, cores, devices, processes"},
        {"compare", compare_main, "recordings side by side: results, growth, what is within noise, CPU, devices, latency"},
        {"capture", capture_main, "write what the kernel's files say into a folder, to be read with --root"},
        {"replay", replay_main, "the live screen over a log: play, pause, step, jump, follow"},
        {"log", log_main, "what a log holds: span, machine, phases, tasks, gaps, damage"},
        {"export", export_main, "every metric of a log as CSV or JSON lines"},
        {"metrics", metrics_main, "all metrics: name, unit, meaning, source"},
};

static void help(void)
{
        printf("usage: watop [OPTION...] [INTERVAL]\n       watop VERB [OPTION...] [ARGUMENT...]\n\n"
               "Without a verb: the live screen (one cpu report when the output is no terminal). Verbs:\n\n");
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
                printf("  %-9s %s\n", verbs[i].name, verbs[i].text);
        printf("\n  --help     this text; watop VERB --help: a verb's options\n  --version  the version\n");
}

/* What could not be written is an error, unless the reader of a pipe just had enough. */
static int finish(int status)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return status;
        if (errno == EPIPE)
                return status;
        if (status == 0)
                options_say(NULL, "standard output: %s", strerror(errno ? errno : EIO));
        return status ? status : 1;
}

static int run(int argc, char **argv)
{
        if (argc >= 2) {
                for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
                        if (strcmp(argv[1], verbs[i].name) == 0)
                                return verbs[i].run(argc - 1, argv + 1);
                uint64_t interval = 0;
                if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
                        help();
                        return 0;
                }
                if (argv[1][0] != '-' && option_interval(argv[1], &interval) == -EINVAL) {
                        options_error(NULL, "unknown verb '%s'; --help lists them", argv[1]);
                        return 2;
                }
        }
        return isatty(STDOUT_FILENO) ? live_main(argc, argv) : cpu_main(argc, argv);
}

int main(int argc, char **argv)
{
        if (streams_open() < 0)
                return 1;
        if (getauxval(AT_SECURE)) {
                fprintf(stderr, "watop: refuses to run setuid, setgid or with file capabilities\n");
                return 1;
        }
        setlocale(LC_CTYPE, ""); /* the terminal's character set; numbers stay in the C locale */
        command_keep_sigpipe(signal(SIGPIPE, SIG_IGN)); /* a reader that goes away is no failure: writes say -EPIPE */
        return finish(run(argc, argv));
}

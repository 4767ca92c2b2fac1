/*
 * `watop why`: measures for some seconds, then answers what wa is on this machine. The first line is the answer; the rest is its evidence.
 *
 * The interval is taken in steps of about a second, so that the daemon's judgement of each tick has its own witnesses; the answer is over
 * the whole.
 */
#include "tui/why.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/control.h"
#include "tui/options.h"
#include "tui/selftest.h"
#include "tui/verbs.h"

struct why_options {
        uint64_t span_ns;
        bool verbose, check, selftest;
        int core; /* for the self-test; -1 the idlest */
};

enum { OPTION_CHECK = OPTION_LONG + 1, OPTION_SELFTEST, OPTION_CORE };

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
        (void)signal_number;
        interrupted = 1;
}

static int core_option(const char *value, int *core)
{
        char *end;
        long number = value[0] >= '0' && value[0] <= '9' ? strtol(value, &end, 10) : -1;

        if (number < 0 || number > 65535 || *end)
                return options_error("why", "--core takes the number of a core, not '%s'", value);
        *core = (int)number;
        return 0;
}

static int why_option(void *own, int code, const char *value)
{
        struct why_options *options = own;

        switch (code) {
        case 'n':
                if (option_interval(value, &options->span_ns) < 0)
                        return options_error("why", "-n takes a time from 10ms to 1h, not '%s'", value);
                return 0;
        case 'v': options->verbose = true; return 0;
        case OPTION_CHECK: options->check = true; return 0;
        case OPTION_SELFTEST: options->selftest = true; return 0;
        case OPTION_CORE: return core_option(value, &options->core);
        default: return -EINVAL;
        }
}

static void print_text(const struct state *state, const struct tally *tally, const struct verdict *verdict,
        const struct why_context *context, bool verbose)
{
        char lines[WHY_LINES][WHY_WIDTH];
        size_t count = why_evidence(tally, verdict, context, lines, WHY_LINES);

        printf("%s\n", verdict->line);
        if (count < WHY_LINES)
                putchar('\n');
        for (size_t i = 0; i < count; i++)
                printf("%s\n", lines[i]);
        if (verbose)
                why_details(state, tally, verdict, context);
}

/* Reports of about a second until the span is full. 0, 1 interrupted before anything was measured, or -errno. */
static int measure(struct attach *attach, struct state *state, struct state *total, uint64_t steps)
{
        for (uint64_t done = 0; done < steps;) {
                int result = attach_next(attach, state, total, UINT64_C(1000000000));
                if (result < 0)
                        return result;
                if (result == ATTACH_REPORT) {
                        state_base(state);
                        done++;
                } else if (result == ATTACH_BACK) {
                        state_clear(total);
                        done = 0;
                }
                /* All of a log that still grows: up to now. */
                if (result == ATTACH_END || interrupted || (result == ATTACH_NOTHING && steps == UINT64_MAX))
                        return done ? 0 : 1;
        }
        return 0;
}

/* What is known beside the interval: where it was read, what the ring holds of the past, what this kernel offers. */
static void find_context(struct attach *attach, const struct options *options, const struct tally *tally, const struct verdict *verdict,
        struct why_context *context)
{
        static struct why_history history;
        static struct selftest_ring offer;
        struct attach_info info;
        struct ring *ring = attach_ring(attach);

        attach_get_info(attach, &info);
        *context = (struct why_context){
                .source_known = true,
                .own_daemon = info.private_daemon,
                .captured = options->attach.root != NULL || options->attach.log != NULL,
                .no_bpf = options->attach.no_bpf,
                .root = info.private_daemon ? geteuid() == 0 : info.owner != geteuid() || geteuid() == 0,
                .btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0,
        };
        if (ring && why_history_walk(&history, ring, tally, verdict) == 0)
                context->history = &history;
        if (verdict->answer == ANSWER_NOT_A_DISK && tally->waiter_threads && !context->captured) {
                selftest_ring(&offer);
                context->ring = &offer;
        }
}

static void print_answer(struct attach *attach, const struct state *state, const struct options *options, const struct why_options *own,
        const struct tally *tally,
                         const struct verdict *verdict)
{
        struct why_context context;

        find_context(attach, options, tally, verdict, &context);
        if (options->format == FORMAT_JSON)
                why_json(state, tally, verdict, &context);
        else
                print_text(state, tally, verdict, &context, own->verbose);
}

/* Measure, answer, print. Exit status. */
static int answer(struct options *options, const struct why_options *own, uint64_t steps)
{
        struct attach *attach = NULL;
        struct state *state = NULL, *total = NULL;
        char line[256];
        sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
        sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
        signal(SIGPIPE, SIG_IGN);
        int result = attach_open(&options->attach, &attach, line, sizeof line);
        if (result == 0) {
                if (!options->quiet)
                        options_say("why", "%s", line);
                result = state_new(&state);
        } else {
                options_say("why", "%s", line);
        }
        if (result == 0)
                result = state_new(&total);
        if (result == 0)
                result = measure(attach, state, total, steps);
        static struct tally tally;
        if (result == 0) {
                tally_make(total, &tally);
                if (!tally.valid)
                        result = -ENODATA;
        }
        int status = result == 0 || (result == 1 && interrupted) ? 0 : 1;
        if (result == 0) {
                struct verdict verdict;
                verdict_make(total, &tally, &verdict);
                print_answer(attach, total, options, own, &tally, &verdict);
                if (own->check && verdict.waits)
                        status = 3;
        } else if (result == 1) {
                options_say("why", interrupted ? "interrupted before anything was measured" : "there are no two samples to compare");
        } else if (attach) {
                options_say("why", "%s", result == -ENODATA ? "no interval of cpu times could be read: no answer" : strerror(-result));
        }
        if (fflush(stdout) != 0 && errno != EPIPE)
                status = 1;
        state_free(total);
        state_free(state);
        attach_close(attach);
        return status;
}

int why_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {'n', "seconds", "TIME", "measure for so long (3 s)"},
                {'v', "verbose", NULL, "cores, causes, waiters, control groups and how sure it is"},
                {OPTION_CHECK, "check", NULL, "exit 3 when something really waits"},
                {OPTION_SELFTEST, "self-test", NULL, "park rings of our own: does this kernel count them?"},
                {OPTION_CORE, "core", "N", "the self-test's core (the idlest)"},
                {0},
        };
        struct why_options own = {.core = -1};
        struct options options = {0};
        const struct option_set set = {.verb = "why", .synopsis = "[OPTION...]",
                .text = "Answers what wa is on this machine now, with the evidence.",
                                       .entries = entries, .groups = OPTIONS_SOURCE | OPTIONS_LOG | OPTIONS_ANSWER, .option = why_option,
                                               .own = &own};
        int result = options_parse(&set, argc, argv, &options);

        if (result != 0)
                return result < 0 ? 2 : 0;
        if (options.format == FORMAT_CSV) {
                options_error("why", "--format takes text or json here");
                return 2;
        }
        if (own.selftest || own.core >= 0) {
                if (own.selftest)
                        return selftest_main(own.core, options.format == FORMAT_JSON);
                options_error("why", "--core goes with --self-test");
                return 2;
        }
        /* Of a log the whole part that was asked for. */
        bool all = own.span_ns == 0 && options.attach.log;
        if (own.span_ns == 0)
                own.span_ns = UINT64_C(3000000000);
        uint64_t steps = all ? UINT64_MAX : own.span_ns < UINT64_C(2000000000) ? 1 : own.span_ns / UINT64_C(1000000000);
        options.attach.log_now = all;
        options.attach.interval_ns = all ? UINT64_C(1000000000) : own.span_ns / steps;
        options.attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_PROCESS) |
                                SCOPE_BIT(SCOPE_WAITER) | SCOPE_BIT(SCOPE_VM) | SCOPE_BIT(SCOPE_PRESSURE) | SCOPE_BIT(SCOPE_SELF);
        options.attach.leases = LEASE_RINGS;
        if (own.verbose || options.format == FORMAT_JSON) /* several files a group: only where it is shown */
                options.attach.scopes |= SCOPE_BIT(SCOPE_CGROUP);

        return answer(&options, &own, steps);
}

/*
 * `watop why`: measures for some seconds, then answers what wa is on this machine. The first line is the answer; the rest is its evidence.
 *
 * The interval is taken in steps of about a second, so that the daemon's judgement of each tick has its own witnesses; the answer is over the whole.
 */
#include "tui/why.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sample/control.h"
#include "tui/clean.h"
#include "tui/options.h"
#include "tui/verbs.h"

struct why_options {
        uint64_t span_ns;
        bool verbose, check;
};

enum { OPTION_CHECK = OPTION_LONG + 1 };

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
        (void)signal_number;
        interrupted = 1;
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
        default: return -EINVAL;
        }
}

static void print_cores(const struct state *state)
{
        static const char *const heads[] = {"us", "sy", "id", "wa", "hi", "si", "st", "wa_disk", "wa_uring", "wa_other", "load"};

        printf("\nCPU ");
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
                printf(" %8s", heads[k]);
        putchar('\n');
        for (size_t i = 0, n = state_count(state, SCOPE_CPU); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_CPU, i);
                if (row->gone)
                        continue;
                printf("%4llu", (unsigned long long)row->key.a);
                for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
                        char text[32];
                        struct value value = metric_value(state, row, metric_column(VIEW_CPU, heads[k]));
                        value_format(text, sizeof text, &value, 1);
                        printf(" %8s", text);
                }
                putchar('\n');
        }
}

static void print_waiters(const struct state *state)
{
        static const char *const words[] = {"nothing is proved", "refuted: its core went idle", "in a completion-queue wait", "parked for the whole tick",
                                            "parked, nothing of its own on a device", "storage is pending on its rings", "in D state"};

        for (size_t i = 0, n = state_count(state, SCOPE_WAITER); i < n; i++) {
                const struct state_row *row = state_at(state, SCOPE_WAITER, i);
                char process[64], raw[64], name[256], channel[256], on[32] = "cpu -";
                uint64_t witness = 0, core = 0, tgid = 0;
                if (row->gone || !state_now(row, WAITER_WITNESS, &witness) || witness >= sizeof words / sizeof *words)
                        continue;
                if (state_now(row, WAITER_CORE, &core))
                        snprintf(on, sizeof on, "cpu%llu", (unsigned long long)core);
                state_now(row, WAITER_TGID, &tgid);
                state_text_copy(state, row, WAITER_COMM, raw, sizeof raw);
                clean_screen(name, sizeof name, raw, strlen(raw), option_utf8(), 40, NULL);
                state_text_copy(state, row, WAITER_WCHAN, raw, sizeof raw);
                clean_screen(channel, sizeof channel, raw, strlen(raw), false, 48, NULL);
                snprintf(process, sizeof process, "%llu/%llu", (unsigned long long)tgid, (unsigned long long)row->key.a);
                printf("waiter %-15s %-16s %s  %s%s%s\n", process, name, on, words[witness], channel[0] ? "  in " : "", channel);
        }
}

static void print_text(const struct state *state, const struct tally *tally, const struct verdict *verdict, const struct why_options *options)
{
        char lines[WHY_LINES][WHY_WIDTH];
        size_t count = why_evidence(tally, verdict, lines, WHY_LINES);

        printf("%s\n", verdict->line);
        if (count < WHY_LINES)
                putchar('\n');
        for (size_t i = 0; i < count; i++)
                printf("%s\n", lines[i]);
        if (options->verbose) {
                print_cores(state);
                print_waiters(state);
        }
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
                if (result == ATTACH_END || interrupted)
                        return done ? 0 : 1;
        }
        return 0;
}

int why_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {'n', "seconds", "TIME", "measure for so long (3 s)"},
                {'v', "verbose", NULL, "a row a core and all waiters too"},
                {OPTION_CHECK, "check", NULL, "exit 3 when something really waits"},
                {0},
        };
        struct why_options own = {.span_ns = UINT64_C(3000000000)};
        struct options options = {0};
        const struct option_set set = {.verb = "why", .synopsis = "[OPTION...]", .text = "Answers what wa is on this machine now, with the evidence.",
                                       .entries = entries, .groups = OPTIONS_SOURCE | OPTIONS_ANSWER, .option = why_option, .own = &own};
        int result = options_parse(&set, argc, argv, &options);

        if (result != 0)
                return result < 0 ? 2 : 0;
        if (options.format == FORMAT_CSV) {
                options_error("why", "--format takes text or json here");
                return 2;
        }
        uint64_t steps = own.span_ns < UINT64_C(2000000000) ? 1 : own.span_ns / UINT64_C(1000000000);
        options.attach.interval_ns = own.span_ns / steps;
        options.attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_PROCESS) | SCOPE_BIT(SCOPE_WAITER) |
                                SCOPE_BIT(SCOPE_VM) | SCOPE_BIT(SCOPE_PRESSURE) | SCOPE_BIT(SCOPE_SELF);
        options.attach.leases = LEASE_RINGS;

        struct attach *attach = NULL;
        struct state *state = NULL, *total = NULL;
        char line[256];
        sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
        sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
        signal(SIGPIPE, SIG_IGN);
        result = attach_open(&options.attach, &attach, line, sizeof line);
        if (result == 0) {
                if (!options.quiet)
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
                if (options.format == FORMAT_JSON)
                        why_json(total, &tally, &verdict);
                else
                        print_text(total, &tally, &verdict, &own);
                if (own.check && verdict.waits)
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

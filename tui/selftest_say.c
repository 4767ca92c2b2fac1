/*
 * `watop why --self-test`: what was found out, as text and as JSON. io_uring that may not be used is an answer: exit 0.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/options.h"
#include "tui/selftest.h"

static const struct { const char *name, *key, *what; } parks[PARK_COUNT] = {
        [PARK_POLL] = {"parked", "parked", "its own ring, a poll"},
        [PARK_NO_IOWAIT] = {"NO_IOWAIT", "no_iowait", "asks not to be counted"},
        [PARK_FOREIGN] = {"foreign", "foreign", "others submitted for it"},
        [PARK_BARE] = {"bare", "bare", "never submitted"},
};

static const char *word(enum counted counted)
{
        static const char *const words[] = {
                [COUNTED_YES] = "counted", [COUNTED_NO] = "not counted", [COUNTED_UNCLEAR] = "not clear", [COUNTED_UNTRIED] = "not tried"};

        return words[counted];
}

static double share(uint64_t part, const struct core_time *time)
{
        return time->total ? 100.0 * (double)part / (double)time->total : 0;
}

/* ---- text
 * ----------------------------------------------------------------------------------------------------------------------------------- */

static void print_head(const struct selftest *test)
{
        char text[128];

        selftest_ring_text(&test->ring, text, sizeof text);
        if (test->ring.offer != RING_WORKS) {
                printf("NO IO_URING HERE. %c%s.\n", text[0] == 't' ? 'T' : text[0] == 'a' ? 'A' : text[0], text + 1);
                return;
        }
        switch (test->runs[PARK_POLL].counted) {
        case COUNTED_YES: printf("AN IDLE RING COUNTS AS WA HERE. Such wa is no disk and no load.\n"); break;
        case COUNTED_NO: printf("AN IDLE RING DOES NOT COUNT AS WA HERE. wa is something else.\n"); break;
        default:
                if (test->sight.lxcfs)
                        printf("NOT CLEAR. /proc/stat is a container's own: its cores are not the machine's.\n");
                else if (test->runs[PARK_POLL].error)
                        printf("NOT CLEAR. The ring could not wait: %s.\n", strerror(test->runs[PARK_POLL].error));
                else if (test->before.least > 0)
                        printf("NOT CLEAR. Others come and go in waits for I/O; try again when fewer do.\n");
                else
                        printf("NOT CLEAR. cpu%d was too busy to tell; try again, or --core with an idle one.\n", test->core);
        }
}

static void print_times(const char *name, const char *result, const struct core_time *time, double seconds, const char *what)
{
        char took[16];

        snprintf(took, sizeof took, "%.1f s", seconds);
        printf("%-9s  %-11s  %s  idle %5.1f%%  wa %5.1f%%  %s\n", name, result, took, share(time->idle, time), share(time->iowait, time),
                what);
}

static void print_runs(const struct selftest *test)
{
        char before[16];

        snprintf(before, sizeof before, "cpu%d", test->core);
        print_times(before, "", &test->before, test->before_seconds, "before");
        for (int how = 0; how < PARK_COUNT; how++) {
                const struct selftest_run *run = &test->runs[how];
                if (run->counted == COUNTED_UNTRIED)
                        continue;
                if (run->error)
                        printf("%-9s  %-11s  %s\n", parks[how].name, word(run->counted), strerror(run->error));
                else
                        print_times(parks[how].name, word(run->counted), &run->time, run->seconds, parks[how].what);
        }
}

static const char *exact_words(const struct selftest_sight *sight)
{
        if (!sight->btf)
                return "no: this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)";
        if (sight->locked)
                return "no: the kernel is locked down (confidentiality)";
        return sight->tracing ? "possible: the kernel has BTF, and you may trace" :
                "for root, or with CAP_BPF and CAP_PERFMON; the kernel has BTF";
}

static void print_sight(const struct selftest *test)
{
        const struct selftest_sight *sight = &test->sight;
        char text[128], channel[64] = "";

        clean_screen(channel, sizeof channel, sight->wchan, strlen(sight->wchan), false, 40, NULL);
        if (test->ring.offer == RING_WORKS) {
                selftest_ring_text(&test->ring, text, sizeof text);
                printf("ring       %s\n", text);
                printf("yours      %s; wait channel %s%s\n", sight->own_rings ? "rings can be read" : "rings cannot be read",
                       sight->own_wchan ? channel : "not shown", sight->own_wchan ? "" : " (needs /proc/PID/wchan)");
        }
        printf("others'    %s, %s, %s\n", sight->wchans ? "wait channels" : "no wait channels", sight->rings ? "rings" : "no rings",
               sight->all_tasks ? "all tasks in sight" : "not all tasks in sight");
        printf("exact      %s\n", exact_words(sight));
}

/* ---- JSON
 * ------------------------------------------------------------------------------------------------------------------------------------ */

static void flag(const char *key, bool value, const char *before)
{
        printf("%s\"%s\":%s", before, key, value ? "true" : "false");
}

static void string(const char *key, const char *value, const char *before)
{
        char clean[1024];

        clean_json(clean, sizeof clean, value, strlen(value));
        printf("%s\"%s\":\"%s\"", before, key, clean);
}

static void json_time(const struct core_time *time, double seconds)
{
        /* Two decimals of a number below 101, made of integers: no locale. */
        unsigned idle = (unsigned)(share(time->idle, time) * 100 + 0.5), waits = (unsigned)(share(time->iowait, time) * 100 + 0.5),
                ms = (unsigned)(seconds * 1000 + 0.5);

        printf("\"idle\":%u.%02u,\"wa\":%u.%02u,\"seconds\":%u.%03u,\"looks\":%u,\"nobody_counted\":%u,\"least_counted\":%u",
                idle / 100, idle % 100,
                waits / 100, waits % 100, ms / 1000,
               ms % 1000, time->looks, time->nobody, time->least);
}

static void print_json(const struct selftest *test)
{
        static const char *const offers[] = {"works", "not built", "sysctl", "filtered", "refused", "unknown"};
        static const char *const results[] = {[COUNTED_YES] = "true", [COUNTED_NO] = "false", [COUNTED_UNCLEAR] = "null",
                [COUNTED_UNTRIED] = "null"};
        const struct selftest_sight *sight = &test->sight;
        char text[128];

        selftest_ring_text(&test->ring, text, sizeof text);
        string("io_uring", offers[test->ring.offer], "{");
        string("line", text, ",");
        printf(",\"error\":%d", test->ring.error);
        if (test->ring.sysctl >= 0)
                printf(",\"io_uring_disabled\":%d", test->ring.sysctl);
        else
                printf(",\"io_uring_disabled\":null");
        flag("no_iowait_offered", test->ring.no_iowait, ",");
        if (test->ring.offer == RING_WORKS) {
                printf(",\"core\":%d,\"before\":{", test->core);
                json_time(&test->before, test->before_seconds);
                printf("}");
        }
        for (int how = 0; how < PARK_COUNT; how++) {
                const struct selftest_run *run = &test->runs[how];
                printf(",\"%s\":{\"counted\":%s,\"tried\":%s,\"error\":%d,", parks[how].key, results[run->counted],
                        run->counted == COUNTED_UNTRIED ? "false" : "true", run->error);
                json_time(&run->time, run->seconds);
                printf("}");
        }
        flag("own_rings", sight->own_rings, ",\"sees\":{");
        flag("own_wchan", sight->own_wchan, ",");
        string("wchan", sight->wchan, ",");
        flag("wchans", sight->wchans, ",");
        flag("rings", sight->rings, ",");
        flag("all_tasks", sight->all_tasks, ",");
        flag("btf", sight->btf, "},\"exact\":{");
        flag("may_trace", sight->tracing, ",");
        flag("locked_down", sight->locked, ",");
        string("line", exact_words(sight), ",");
        printf("}}\n");
}

int selftest_main(int core, bool json)
{
        static struct selftest test;

        signal(SIGPIPE, SIG_IGN);
        int r = selftest_run(&test, core);
        if (r == -EINVAL) {
                options_error("why", "--core %d: this process may not use it, or there is no such core", core);
                return 2;
        }
        if (r < 0) {
                options_say("why", "%s%s", r == -EAGAIN || r == -ENOMEM ? "" : "/proc/stat: ", strerror(-r)); /* of fork, else */
                return 1;
        }
        if (json) {
                print_json(&test);
        } else {
                print_head(&test);
                putchar('\n');
                if (test.ring.offer == RING_WORKS)
                        print_runs(&test);
                print_sight(&test);
        }
        return fflush(stdout) == 0 || errno == EPIPE ? 0 : 1;
}

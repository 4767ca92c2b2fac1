/*
 * For scripts: block tracing as a reader of watopd gets it:
 * `lab_blocks [--ring PATH] [--no-bpf] [--no-rows] [--events] [--late] MS [COMMAND ...]`.
 * Without --ring a private watopd is started; --late: first without it, as by a screen that changes its view. "ready" when rows come; then
 * it reads until the command ends (or for MS), and MS longer, and prints what the rows gained and what the stream carried ("again": the
 * daemon was another one from then on):
 *
 *   self STATE LOST UNMATCHED CPU_NS
 *   bio DEVICE DIRECTION PID COMM BIOS REQUESTS BYTES TIME_NS CAUSES_NS LATENCY_COUNT
 *   stage DEVICE DIRECTION STAGE BIOS TOTAL_NS PATH_NS LATENCY_COUNT
 *   sync PID COMM CALL CALLS TIME_NS PARTS_NS LATENCY_COUNT FILE
 *   stream SOURCE WHAT BIOS HEADS SYNCS NAMES EVENTS LOST
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sample/control.h"
#include "sample/stage_stream.h"
#include "tui/attach.h"

#define MS UINT64_C(1000000)

struct carried {
        uint64_t kinds[RECORD_KINDS], heads, lost;
};

static void take(struct stream_reader *reader, struct carried *carried)
{
        static struct stage_record records[1024];
        uint64_t lost;
        size_t count;

        while ((count = stream_take(reader, records, 1024, &lost)) > 0) {
                carried->lost += lost;
                for (size_t i = 0; i < count; i++) {
                        if (records[i].kind < RECORD_KINDS)
                                carried->kinds[records[i].kind]++;
                        carried->heads += records[i].kind == RECORD_BIO && records[i].flags & RECORD_HEAD;
                }
        }
}

static uint64_t gained(const struct state_row *row, int metric)
{
        double delta;
        int r = state_delta(row, metric, &delta);

        return r == DELTA_OK || r == DELTA_CLAMPED ? (uint64_t)(delta + 0.5) : 0;
}

static uint64_t sum(const struct state_row *row, int first, int last)
{
        uint64_t all = 0;

        for (int metric = first; metric <= last; metric++)
                all += gained(row, metric);
        return all;
}

/* Durations in all buckets of a row. */
static uint64_t buckets(const struct state *state, struct key key)
{
        uint64_t all = 0;

        for (size_t i = 0; i < state_count(state, SCOPE_LATENCY); i++) {
                const struct state_row *row = state_at(state, SCOPE_LATENCY, i);
                if (row->key.a == key.a)
                        all += sum(row, LATENCY_B0, LATENCY_B15);
        }
        return all;
}

static uint64_t now_of(const struct state_row *row, int metric)
{
        uint64_t value = 0;

        return state_now(row, metric, &value) ? value : 0;
}

static void say_bio(const struct state *state, const struct state_row *row)
{
        char name[64], device[64];

        state_text_copy(state, row, BIO_DEVICE_NAME, device, sizeof device);
        state_text_copy(state, row, BIO_COMM, name, sizeof name);
        printf("bio %s %" PRIu64 " %" PRIu64 " %s", device, now_of(row, BIO_DIRECTION), now_of(row, BIO_PID), name);
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, gained(row, BIO_BIOS), gained(row, BIO_REQUESTS), gained(row, BIO_BYTES));
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", gained(row, BIO_TIME), sum(row, BIO_TAG, BIO_OTHER), buckets(state, row->key));
}

static void say_stage(const struct state *state, const struct state_row *row)
{
        char device[64];

        state_text_copy(state, row, STAGE_DEVICE_NAME, device, sizeof device);
        printf("stage %s %" PRIu64 " %" PRIu64, device, now_of(row, STAGE_DIRECTION), now_of(row, STAGE_STAGE));
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", gained(row, STAGE_BIOS), gained(row, STAGE_TOTAL),
                gained(row, STAGE_PATH), buckets(state, row->key));
}

static void say_sync(const struct state *state, const struct state_row *row)
{
        char name[64], file[80];

        state_text_copy(state, row, SYNC_COMM, name, sizeof name);
        state_text_copy(state, row, SYNC_FILE, file, sizeof file);
        printf("sync %" PRIu64 " %s %" PRIu64, now_of(row, SYNC_PID), name, now_of(row, SYNC_CALL));
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", gained(row, SYNC_COUNT), gained(row, SYNC_TIME),
                sum(row, SYNC_TAG, SYNC_OTHER), buckets(state, row->key), file);
}

static void say_rows(const struct state *state)
{
        static const struct {
                enum scope scope;
                void (*say)(const struct state *, const struct state_row *);
        } kinds[] = { { SCOPE_BIO, say_bio }, { SCOPE_STAGE, say_stage }, { SCOPE_SYNC, say_sync } };

        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
                for (size_t i = 0; i < state_count(state, kinds[kind].scope); i++)
                        kinds[kind].say(state, state_at(state, kinds[kind].scope, i));
}

static uint64_t clock_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* 0 in the child's place never returns. */
static pid_t start(char **command)
{
        pid_t pid = fork();

        if (pid == 0) {
                execvp(command[0], command);
                _exit(127);
        }
        return pid;
}

struct wishes {
        struct attach_options attach;
        uint64_t ms;
        char **command;
        bool late;
};

/* Attached as wished. */
static int open_attach(const struct wishes *wishes, struct attach **attach, char *why, size_t size)
{
        struct attach_options first = wishes->attach;

        if (wishes->late) {
                first.scopes = SCOPE_BIT(SCOPE_SELF);
                first.leases = 0;
        }
        int r = attach_open(&first, attach, why, size);
        if (r == 0 && wishes->late)
                r = attach_change(*attach, first.interval_ns, wishes->attach.scopes, wishes->attach.leases);
        return r;
}

/* The daemon was gone, and another one is there: its stream is another, too. */
static int take_again(struct attach *attach, struct stream_reader **reader)
{
        char why[256];

        stream_close(*reader);
        *reader = NULL;
        int r = attach_stream(attach, reader, why, sizeof why);
        if (r == 0) {
                puts("again");
                fflush(stdout);
        }
        return r;
}

static int run(const struct wishes *wishes, struct attach *attach, struct state *state, struct stream_reader **reader)
{
        struct carried carried = { .heads = 0 };
        uint64_t until = UINT64_MAX, value = 0;
        pid_t pid = 0;

        for (;;) {
                int r = attach_next(attach, state, NULL, 20 * MS);
                if (r < 0)
                        return r;
                if (r == ATTACH_BACK && (r = take_again(attach, reader)) < 0)
                        return r;
                take(*reader, &carried);
                const struct state_row *self = state_one(state, SCOPE_SELF);
                /* Attached, with a sample of that: the interval begins here. */
                if (until == UINT64_MAX && pid == 0 && self && state_now(self, SELF_STAGES, &value) && value >= 2) {
                        state_base(state);
                        memset(&carried, 0, sizeof carried);
                        puts("ready");
                        fflush(stdout);
                        if (wishes->command)
                                pid = start(wishes->command);
                        until = clock_ns() + (wishes->command ? 60000 : wishes->ms) * MS;
                }
                if (pid > 0 && waitpid(pid, NULL, WNOHANG) == pid) {
                        pid = -1;
                        until = clock_ns() + wishes->ms * MS;
                }
                if (until != UINT64_MAX && clock_ns() >= until)
                        break;
        }
        const struct state_row *self = state_one(state, SCOPE_SELF);
        if (self != NULL)
                printf("self %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now_of(self, SELF_STAGES), now_of(self, SELF_STAGES_LOST),
                        now_of(self, SELF_STAGES_UNMATCHED), gained(self, SELF_STAGES_CPU));
        say_rows(state);
        struct stream_facts facts;
        stream_get_facts(*reader, &facts);
        printf("stream %u %u %" PRIu64 " %" PRIu64 " %" PRIu64, facts.source, facts.what, carried.kinds[RECORD_BIO], carried.heads,
                carried.kinds[RECORD_SYNC]);
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", carried.kinds[RECORD_NAME], carried.kinds[RECORD_EVENT], carried.lost);
        return 0;
}

int main(int argc, char **argv)
{
        struct wishes wishes = { .attach = { .interval_ns = 100 * MS, .scopes = SCOPES_TRACED | SCOPE_BIT(SCOPE_SELF),
                .leases = LEASE_STREAM | LEASE_SYNC } };
        struct attach *attach = NULL;
        struct state *state = NULL;
        struct stream_reader *reader = NULL;
        char why[256] = "";
        int at = 1;

        for (; at < argc && argv[at][0] == '-'; at++) {
                if (strcmp(argv[at], "--no-bpf") == 0)
                        wishes.attach.no_bpf = true;
                else if (strcmp(argv[at], "--no-rows") == 0)
                        wishes.attach.scopes &= ~SCOPES_TRACED;
                else if (strcmp(argv[at], "--late") == 0)
                        wishes.late = true;
                else if (strcmp(argv[at], "--events") == 0)
                        wishes.attach.leases |= LEASE_EVENTS;
                else if (strcmp(argv[at], "--ring") == 0 && at + 1 < argc)
                        wishes.attach.ring = argv[++at];
        }
        wishes.ms = at < argc ? strtoull(argv[at++], NULL, 10) : 1000;
        wishes.command = at < argc ? &argv[at] : NULL;
        wishes.attach.private_only = wishes.attach.ring == NULL;
        int r = state_new(&state);
        if (r == 0)
                r = open_attach(&wishes, &attach, why, sizeof why);
        if (r == 0)
                r = attach_stream(attach, &reader, why, sizeof why);
        if (r == 0)
                r = run(&wishes, attach, state, &reader);
        if (r < 0)
                fprintf(stderr, "lab_blocks: %s\n", why[0] != '\0' ? why : strerror(-r));
        stream_close(reader);
        attach_close(attach);
        state_free(state);
        return r < 0;
}

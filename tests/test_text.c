/*
 * The three tables as a whole: watop's verbs run here against a played source (this file's attach_*), their output is caught and compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "tests/sealed.h"
#include "tui/attach.h"
#include "tui/verbs.h"

/* ---- a played source ------------------------------------------------------------ */

enum { EVENTS = 16 };

static struct {
        struct { enum { PLAY_FRAME, PLAY_INTERRUPT, PLAY_END } what; void *frame; } events[EVENTS];
        size_t count, at;
        bool based;
        uint32_t scopes;
        uint64_t interval_ns;
} play;

struct attach {
        int unused;
};

int attach_open(const struct attach_options *options, struct attach **out, char *why, size_t size)
{
        static struct attach attach;

        play.scopes = options->scopes;
        play.interval_ns = options->interval_ns;
        play.at = 0;
        play.based = false;
        if (options->ring) {
                snprintf(why, size, "%s: no ring there", options->ring);
                return -ENOENT;
        }
        snprintf(why, size, "played source");
        *out = &attach;
        return 0;
}

void attach_close(struct attach *attach)
{
}

void attach_get_info(struct attach *attach, struct attach_info *info)
{
        *info = (struct attach_info){.line = "played source"};
}

int attach_change(struct attach *attach, uint64_t interval_ns, uint32_t wanted, uint64_t leases)
{
        return -EINVAL;
}

int attach_next(struct attach *attach, struct state *state, struct state *total, uint64_t timeout_ns)
{
        if (play.at == play.count)
                return ATTACH_END;
        switch (play.events[play.at++].what) {
        case PLAY_END: return ATTACH_END;
        case PLAY_INTERRUPT: raise(SIGINT); return ATTACH_NOTHING;
        default: break;
        }
        void *frame = play.events[play.at - 1].frame;
        assert_true(state_apply(state, frame, NULL) >= 0);
        if (total)
                assert_true(state_apply(total, frame, NULL) >= 0);
        if (!play.based) {
                play.based = true;
                state_base(state);
                if (total)
                        state_base(total);
                return ATTACH_NOTHING;
        }
        return ATTACH_REPORT;
}

static void add_frame(const struct sealed *s)
{
        assert_true(play.count < EVENTS);
        play.events[play.count].what = PLAY_FRAME;
        play.events[play.count++].frame = sealed_copy(s);
}

static void forget(void)
{
        for (size_t i = 0; i < EVENTS; i++)
                free(play.events[i].frame);
        memset(&play, 0, sizeof play);
}

/* ---- catching what a verb says ------------------------------------------------------------ */

static char said[1 << 16], complained[1 << 12];

static void slurp(int fd, char *buffer, size_t size)
{
        ssize_t n = pread(fd, buffer, size - 1, 0);

        buffer[n > 0 ? n : 0] = '\0';
        close(fd);
}

static int temporary(void)
{
        FILE *file = tmpfile();
        int fd = dup(fileno(file));

        fclose(file);
        return fd;
}

/* Run in a child, so that each run has fresh statics, as a program has. */
static int run(int (*verb)(int, char **), const char *line)
{
        char words[256], *argv[32], *rest = words;
        int argc = 0, status, out = temporary(), err = temporary();

        snprintf(words, sizeof words, "%s", line);
        while ((argv[argc] = strsep(&rest, " ")))
                argc++;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
                dup2(out, STDOUT_FILENO);
                dup2(err, STDERR_FILENO);
                status = verb(argc, argv);
                fflush(NULL);
                exit(status);
        }
        assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
        slurp(out, said, sizeof said);
        slurp(err, complained, sizeof complained);
        return WEXITSTATUS(status);
}

static json_object *member(json_object *object, const char *key)
{
        json_object *value = NULL;

        if (!json_object_object_get_ex(object, key, &value))
                fail_msg("no key %s", key);
        return value;
}

/* ---- a machine ------------------------------------------------------------ */

static const uint64_t MS = 1000000;

struct core {
        uint64_t us, sy, id, si, disk, uring, disk_max;
};

static void put_core(struct sealed *s, uint64_t number, const struct core *c, uint64_t ms)
{
        static const int zero[] = {CPU_NICE, CPU_IRQ, CPU_STEAL, CPU_GUEST, CPU_GUEST_NICE, CPU_WA_OTHER, CPU_WA_DISK_MIN, CPU_WA_URING_MIN,
                                   CPU_BY_EXACT, CPU_BY_SEEN, CPU_BY_NONE};
        struct row *row = sample_row(s->sample, SCOPE_CPU, (struct key){.a = number}, 0);
        const struct { int metric; uint64_t share; } values[] = {
                {CPU_USER, c->us}, {CPU_SYSTEM, c->sy}, {CPU_IDLE, c->id}, {CPU_SOFTIRQ, c->si}, {CPU_IOWAIT, c->disk + c->uring},
                {CPU_WA_DISK, c->disk},
                {CPU_WA_URING, c->uring}, {CPU_WA_DISK_MAX, c->disk_max}, {CPU_WA_URING_MAX, c->uring}, {CPU_BY_PARKED, c->uring},
                {CPU_BY_BOUND, c->disk},
        };

        for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
                row_set(row, zero[i], 0);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
                row_set(row, values[i].metric, values[i].share * ms * MS / 1000);
        row_set(row, CPU_WA_URING_MIN, c->uring * ms * MS / 1000);
}

/* Two cores after ms milliseconds, listed in the wrong order; shares in thousandths. */
static void cpu_tick(struct sealed *s, uint64_t ms)
{
        static const struct core first = {.us = 109, .sy = 130, .si = 141, .uring = 620};
        static const struct core second = {.us = 200, .id = 300, .disk = 500, .disk_max = 500};

        sample_scope_begin(s->sample, SCOPE_CPU, s->mono);
        put_core(s, 1, &second, ms);
        put_core(s, 0, &first, ms);
        sample_scope_end(s->sample, SCOPE_CPU, s->mono, GONE_EXITED);
        sealed_seal(s);
        add_frame(s);
}

static void play_cpu(void)
{
        struct sealed s;

        forget();
        sealed_open(&s);
        for (uint64_t i = 0; i < 3; i++) {
                sealed_tick(&s, SECOND);
                if (i == 0)
                        sealed_ballast(&s);
                cpu_tick(&s, 1000 * i);
        }
        sealed_close(&s);
}

static void test_cpu_text(void **unused)
{
        play_cpu();
        assert_int_equal(run(cpu_main, "cpu"), 0);
        assert_int_equal(strncmp(said, "2023-11-14 22:38:22  1.000 s\n", 29), 0);
        const char *expected =
                "CPU   us   sy  ni   id    wa  hi   si  st  gu  gn wa_disk wa_uring wa_other load\n"
                "  0 10.9 13.0 0.0  0.0  62.0 0.0 14.1 0.0 0.0 0.0     0.0     62.0      0.0 38.0\n"
                "  1 20.0  0.0 0.0 30.0  50.0 0.0  0.0 0.0 0.0 0.0   <50.0      0.0      0.0 20.0\n"
                "all 15.4  6.5 0.0 15.0  56.0 0.0  7.0 0.0 0.0 0.0   <25.0     31.0      0.0 29.0\n"
                "SUM 30.9 13.0 0.0 30.0 112.0 0.0 14.1 0.0 0.0 0.0   <50.0     62.0      0.0 58.0\n"
                "load 58.0% of 200% (29.0%) = us+sy 43.9 + hi+si 14.1\n";
        char *table = strchr(said, '\n') + 1;
        table[strlen(expected)] = '\0';
        assert_string_equal(table, expected);
        assert_string_equal(complained, "watop: played source\n");
        assert_true(play.count == 3);
        assert_int_equal(run(cpu_main, "cpu --quiet 1 2"), 0);
        assert_string_equal(complained, "");
        const char *second = strstr(said, "\n\n2023-11-14 22:38:23  1.000 s\nCPU");
        assert_non_null(second);
        assert_null(strstr(said, "Average"));
        assert_int_equal(run(cpu_main, "cpu --quiet --cores 1,7"), 0);
        assert_string_equal(complained, "watop cpu: core 7 is not on-line\n");
        assert_null(strstr(said, "\n  0 "));
        assert_non_null(strstr(said, "\nall 20.0 "));
        assert_int_equal(run(cpu_main, "cpu --quiet --cores 7"), 1);
        assert_int_equal(run(cpu_main, "cpu 1"), 0); /* to the end of what there is */
}

static void test_cpu_json(void **unused)
{
        play_cpu();
        assert_int_equal(run(cpu_main, "cpu --quiet --format json 1 2"), 0);
        char *rest = said, *line = strsep(&rest, "\n");
        json_object *report = json_tokener_parse(line), *rows = member(report, "cpu"), *row = json_object_array_get_idx(rows, 0);
        assert_string_equal(json_object_get_string(member(report, "time")), "2023-11-14T22:38:22.000000000Z");
        assert_true(json_object_get_double(member(report, "interval")) == 1);
        assert_null(member(report, "gap"));
        assert_int_equal(json_object_get_int(json_object_array_get_idx(member(report, "seq"), 0)), 1);
        assert_int_equal(json_object_get_int(json_object_array_get_idx(member(report, "seq"), 1)), 2);
        assert_int_equal(json_object_array_length(rows), 4);
        assert_string_equal(json_object_get_string(member(row, "CPU")), "0");
        assert_true(json_object_is_type(member(row, "CPU"), json_type_string));
        assert_string_equal(json_object_get_string(member(row, "evidence")), "parked");
        row = json_object_array_get_idx(rows, 1);
        assert_true(json_object_get_double(member(row, "wa_disk")) == 50 && json_object_get_double(member(row, "wa_disk_min")) == 0);
        assert_true(json_object_get_double(member(row, "wa_disk_max")) == 50 && json_object_get_double(member(row, "wa_uring_max")) == 0);
        assert_string_equal(json_object_get_string(member(row, "evidence")), "bound");
        row = json_object_array_get_idx(rows, 3);
        assert_string_equal(json_object_get_string(member(row, "CPU")), "SUM");
        assert_string_equal(json_object_get_string(member(row, "evidence")), "bound");
        assert_true(json_object_get_double(member(member(report, "load"), "of")) == 200);
        json_object_put(report);
        report = json_tokener_parse(strsep(&rest, "\n"));
        assert_non_null(report);
        json_object_put(report);
        assert_string_equal(rest, "");
}

static void test_cpu_csv(void **unused)
{
        play_cpu();
        assert_int_equal(run(cpu_main, "cpu --quiet --format csv 1 2"), 0);
        static const char heads[] = "time,interval,gap,CPU,us,sy,ni,id,wa,hi,si,st,gu,gn,wa_disk,wa_uring,wa_other,load,wa_disk_min,";
        assert_int_equal(strncmp(said, heads, strlen(heads)), 0);
        assert_non_null(strstr(said, "\n2023-11-14T22:38:22.000000000Z,1,,0,10.9,13,0,0,62,0,14.1,"));
        assert_null(strstr(strchr(said, '\n'), "time,")); /* heads once */
        size_t lines = 0;
        for (const char *at = said; (at = strchr(at, '\n')); at++)
                lines++;
        assert_int_equal(lines, 1 + 2 * 4);
}

static void test_interrupt(void **unused)
{
        play_cpu();
        play.events[play.count++].what = PLAY_INTERRUPT;
        assert_int_equal(run(cpu_main, "cpu --quiet 1"), 0);
        const char *average = strstr(said, "\n\nAverage over 2.000 s, until 2023-11-14 22:38:23\nCPU ");
        assert_non_null(average);
        assert_non_null(strstr(average, "\nSUM 30.9 13.0"));
        assert_int_equal(run(cpu_main, "cpu --quiet --format json 1"), 0);
        assert_null(strstr(said, "verage"));
        play.events[0].what = PLAY_INTERRUPT; /* before there is anything */
        assert_int_equal(run(cpu_main, "cpu --quiet 1"), 0);
        assert_string_equal(said, "");
}

static void test_gap(void **unused)
{
        struct sealed s;

        forget();
        sealed_open(&s);
        sealed_tick(&s, SECOND);
        cpu_tick(&s, 0);
        sealed_tick(&s, SECOND);
        s.gap = GAP_SUSPEND;
        cpu_tick(&s, 1000);
        sealed_tick(&s, SECOND);
        s.gap = GAP_NONE;
        cpu_tick(&s, 2000);
        sealed_close(&s);
        assert_int_equal(run(cpu_main, "cpu --quiet 1 2"), 0);
        assert_string_equal(strtok(said, "\n"), "2023-11-14 22:38:22  - s  gap=suspend");
        assert_string_equal(strtok(NULL, "\n"), "2023-11-14 22:38:23  1.000 s");
        assert_int_equal(run(cpu_main, "cpu --quiet --format json 1 1"), 0);
        json_object *report = json_tokener_parse(said);
        assert_string_equal(json_object_get_string(member(report, "gap")), "suspend");
        assert_null(member(report, "interval"));
        assert_null(member(report, "load"));
        assert_int_equal(json_object_array_length(member(report, "cpu")), 0);
        json_object_put(report);
        assert_int_equal(run(cpu_main, "cpu --quiet --format csv 1 1"), 0);
        assert_non_null(strstr(said, "\n2023-11-14T22:38:22.000000000Z,,suspend,,,,"));
        assert_non_null(strstr(said, "\n2023-11-14T22:38:23.000000000Z,1,,")); /* a count counts reports with an interval */
}

/* ---- disks ------------------------------------------------------------ */

static void put_disk(struct sealed *s, const char *name, char kind, const char *below, uint64_t writes, uint64_t inflight)
{
        static const int zero[] = {DISK_READS, DISK_READS_MERGED, DISK_READ_BYTES, DISK_READ_TIME, DISK_WRITES_MERGED, DISK_DISCARDS,
                                   DISK_DISCARDS_MERGED, DISK_DISCARD_BYTES, DISK_DISCARD_TIME, DISK_STUCK};
        struct row *row = sample_row(s->sample, SCOPE_DISK, key_of_name(name, strlen(name), 1), 0);

        for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
                row_set(row, zero[i], 0);
        row_text(row, DISK_NAME, name, strlen(name));
        row_set(row, DISK_KIND, (uint64_t)kind);
        if (below)
                row_text(row, kind == 'p' ? DISK_PARENT : DISK_SLAVES, below, strlen(below));
        row_set(row, DISK_IOSTATS, 1);
        row_set(row, DISK_WRITES, writes);
        row_set(row, DISK_WRITE_BYTES, writes * 6144);
        row_set(row, DISK_WRITE_TIME, writes * MS * 3 / 4);
        row_set(row, DISK_QUEUE_TIME, writes * MS * 3 / 4);
        row_set(row, DISK_IO_TIME, writes * MS);
        row_set(row, DISK_INFLIGHT, inflight);
}

static void play_disks(void)
{
        struct sealed s;

        forget();
        sealed_open(&s);
        for (uint64_t i = 0; i < 2; i++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_DISK, s.mono);
                put_disk(&s, "sda", 'w', NULL, 4 * i, 0);
                put_disk(&s, "sda1", 'p', "sda", 4 * i, 0);
                put_disk(&s, "sdb", 'w', NULL, 0, 0);
                put_disk(&s, "sdc", 'w', NULL, 0, 3 * i);
                put_disk(&s, "dm-0", 's', "sda1 sdb", 4 * i, 0);
                put_disk(&s, "dm-1", 's', "dm-2", 0, 0); /* a circle, which no kernel shows */
                put_disk(&s, "dm-2", 's', "dm-1", 0, 0);
                sample_scope_end(s.sample, SCOPE_DISK, s.mono, GONE_EXITED);
                sealed_seal(&s);
                add_frame(&s);
        }
        sealed_close(&s);
}

/* First words of the lines below the head, each after its indentation, joined. */
static const char *devices(void)
{
        static char names[512];
        char *rest = said, *line;

        names[0] = '\0';
        strsep(&rest, "\n");
        strsep(&rest, "\n");
        while ((line = strsep(&rest, "\n")) && *line) {
                size_t blanks = strspn(line, " ");
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", names[0] ? "," : "",
                         (int)(blanks + strcspn(line + blanks, " ")), line);
        }
        return names;
}

static void test_disks(void **unused)
{
        play_disks();
        assert_int_equal(run(disk_main, "disk --quiet"), 0);
        assert_non_null(strstr(said, "\nDevice r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s "));
        assert_non_null(strstr(said, "\nsda    0.0   0.0    0.0   0.0       -        - 4.0  24.0    0.0   0.0    0.75      6.0 0.0 "));
        assert_string_equal(devices(), "sda, dm-0,sdc"); /* sdc: nothing completes, but requests are in flight */
        run(disk_main, "disk --quiet -p");
        assert_string_equal(devices(), "sda, sda1,  dm-0,sdc");
        run(disk_main, "disk --quiet --all");
        assert_string_equal(devices(), "sda, dm-0,sdb,sdc,dm-1, dm-2");
        run(disk_main, "disk --quiet sdb 1 1");
        assert_string_equal(devices(), "sdb"); /* named: idle or not */
        assert_int_equal(run(disk_main, "disk --quiet sda1 nope"), 0);
        assert_string_equal(devices(), "sda1");
        assert_string_equal(complained, "watop disk: no device is called 'nope'\n");
        assert_int_equal(run(disk_main, "disk --quiet nope"), 1);
        assert_int_equal(run(disk_main, "disk --quiet --sar-old sda"), 0);
        assert_non_null(strstr(said, "\nDEV  tps rd_sec/s wr_sec/s avgrq-sz avgqu-sz await svctm %util\n"
                                     "sda 4.00     0.00    48.00    12.00     0.00  0.75  1.00  0.40\n"));
        assert_int_equal(run(disk_main, "disk --quiet --format csv -z"), 0);
        assert_null(strstr(said, ",sdb,"));
        assert_int_equal(run(disk_main, "disk --quiet --format csv"), 0);
        assert_non_null(strstr(said, ",,sdb,"));
        assert_non_null(strstr(said, ",dm-0,")); /* names as they are */
        assert_int_equal(run(disk_main, "disk --sar -s"), 2);
}

/* ---- tasks ------------------------------------------------------------ */

static void put_process(struct sealed *s, uint64_t pid, const char *name, char letter, uint64_t user_ms)
{
        static const int zero[] = {PROCESS_SYSTEM_TIME, PROCESS_GUEST_TIME, PROCESS_RUN_DELAY, PROCESS_MINFLT, PROCESS_MAJFLT};
        struct row *row = sample_row(s->sample, SCOPE_PROCESS, (struct key){pid, 7}, 0);

        for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
                row_set(row, zero[i], 0);
        row_set(row, PROCESS_USER_TIME, user_ms * MS);
        row_set(row, PROCESS_STATE, (uint64_t)letter);
        row_set(row, PROCESS_SINCE, 0);
        row_set(row, PROCESS_START, 7);
        row_set(row, PROCESS_CORE, 3);
        row_set(row, PROCESS_UID, 1000);
        row_text(row, PROCESS_COMM, name, strlen(name));
        row_text(row, PROCESS_CMDLINE, "/bin/x --flag", 13);
        if (pid == 300)
                row_text(row, PROCESS_UNIT, "db.service", 10);
}

static void put_thread(struct sealed *s, uint64_t tid, uint64_t tgid, const char *name, uint64_t user_ms)
{
        struct row *row = sample_row(s->sample, SCOPE_THREAD, (struct key){tid, 7}, 0);

        row_set(row, THREAD_TGID, tgid);
        row_set(row, THREAD_USER_TIME, user_ms * MS);
        row_set(row, THREAD_SYSTEM_TIME, 0);
        row_set(row, THREAD_GUEST_TIME, 0);
        row_set(row, THREAD_START, 7);
        row_set(row, THREAD_STATE, 'S');
        row_text(row, THREAD_COMM, name, strlen(name));
}

/* What they caused of iowait, where it is known. */
static void put_waits(struct sealed *s, uint64_t ms)
{
        struct row *db = sample_row(s->sample, SCOPE_PROCESS, (struct key){300, 7}, 0);
        struct row *idle = sample_row(s->sample, SCOPE_PROCESS, (struct key){20, 7}, 0);

        row_set(db, PROCESS_WA_DISK, 0);
        row_set(db, PROCESS_WA_URING, 7 * ms * MS);
        row_set(db, PROCESS_WA_OTHER, 0);
        row_set(db, PROCESS_RINGS, 8);
        row_set(idle, PROCESS_WA_DISK, ms * MS);
        row_set(idle, PROCESS_AIO, 1);
}

static void play_tasks(void)
{
        struct sealed s;

        forget();
        sealed_open(&s);
        for (uint64_t i = 0; i < 2; i++) {
                sealed_tick(&s, SECOND);
                sample_scope_begin(s.sample, SCOPE_PROCESS, s.mono);
                put_process(&s, 300, "db", 'S', 1500 * i);
                put_process(&s, 20, "idle", 'S', 0);
                put_process(&s, 40, "st\x1b[uck", 'D', 0);
                put_process(&s, 50, "parked-for-ever", 'S', 0);
                put_process(&s, 60, "busy", 'R', 1600 * i);
                if (i == 0)
                        put_process(&s, 70, "ended", 'S', 0);
                put_waits(&s, 100 * i);
                sample_scope_end(s.sample, SCOPE_PROCESS, s.mono, GONE_EXITED);
                sample_scope_begin(s.sample, SCOPE_THREAD, s.mono);
                put_thread(&s, 302, 300, "db-io", 500 * i);
                put_thread(&s, 301, 300, "db-log", 1000 * i);
                put_thread(&s, 300, 300, "db", 0);
                row_set(sample_row(s.sample, SCOPE_THREAD, (struct key){302, 7}, 0), THREAD_WA_URING, 700 * MS * i);
                sample_scope_end(s.sample, SCOPE_THREAD, s.mono, GONE_EXITED);
                sample_scope_begin(s.sample, SCOPE_WAITER, s.mono);
                struct row *waiter = sample_row(s.sample, SCOPE_WAITER, (struct key){51, 7}, 0);
                row_set(waiter, WAITER_TGID, 50);
                row_set(waiter, WAITER_WITNESS, 3);
                sample_scope_end(s.sample, SCOPE_WAITER, s.mono, GONE_EXITED);
                sealed_seal(&s);
                add_frame(&s);
        }
        sealed_close(&s);
}

/* PID/TID of the rows, joined. */
static const char *tasks(void)
{
        static char names[512];
        char *rest = said, *line, pid[16], tid[16];

        names[0] = '\0';
        strsep(&rest, "\n");
        strsep(&rest, "\n");
        while ((line = strsep(&rest, "\n")) && sscanf(line, "%*s %15s %15s", pid, tid) == 2)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s/%s", names[0] ? " " : "", pid, tid);
        return names;
}

static void test_tasks(void **unused)
{
        play_tasks();
        assert_int_equal(run(task_main, "task --quiet"), 0);
        const char *expected = " UID PID TID  %usr %system %guest %wait  %CPU CPU S  since Unit       Command\n"
                               "1000  40   -   0.0     0.0    0.0   0.0   0.0   3 D 1502.0 -          st\\x1b[uck\n"
                               "1000  50   -   0.0     0.0    0.0   0.0   0.0   3 S 1502.0 -          parked-for-ever\n"
                               "1000  60   - 160.0     0.0    0.0   0.0 160.0   3 R 1502.0 -          busy\n"
                               "1000 300   - 150.0     0.0    0.0   0.0 150.0   3 S 1502.0 db.service db\n";
        assert_string_equal(strchr(said, '\n') + 1, expected);
        run(task_main, "task --quiet --all");
        assert_string_equal(tasks(), "20/- 40/- 50/- 60/- 300/-");
        run(task_main, "task --quiet -t");
        assert_string_equal(tasks(), "40/- 50/- 60/- 300/- 300/301 300/302");
        run(task_main, "task --quiet -t -G ^d");
        assert_string_equal(tasks(), "300/- 300/301 300/302");
        run(task_main, "task --quiet -t -C log");
        assert_string_equal(tasks(), "300/301");
        run(task_main, "task --quiet -C st.\\[u"); /* "." is any byte, an escape too */
        assert_string_equal(tasks(), "40/-");
        run(task_main, "task --quiet -C flag");
        assert_string_equal(tasks(), "");
        run(task_main, "task --quiet -l -C flag");
        assert_string_equal(tasks(), "40/- 50/- 60/- 300/-");
        run(task_main, "task --quiet --sort %CPU");
        assert_string_equal(tasks(), "60/- 300/- 40/- 50/-");
        assert_int_equal(run(task_main, "task --quiet -p 20,db -p nobody"), 0);
        assert_string_equal(tasks(), "20/- 300/-"); /* named: idle or not */
        assert_string_equal(complained, "watop task: no process is called 'nobody'\n");
        assert_int_equal(run(task_main, "task --quiet -p parked-for-ever-and-a-day"), 0);
        assert_string_equal(tasks(), "50/-");
        assert_int_equal(run(task_main, "task --quiet -p parked"), 1);
        assert_int_equal(run(task_main, "task --quiet -p 999"), 1);
        run(task_main, "task --quiet -d -w");
        assert_non_null(strstr(said, "PID TID kB_rd/s kB_wr/s kB_ccwr/s iodelay cswch/s nvcswch/s S "));
        assert_string_equal(tasks(), "40/- 50/- 60/-"); /* db did no I/O that is known; who waits or runs stays */
}

static void test_task_waits(void **unused)
{
        play_tasks();
        assert_int_equal(run(task_main, "task --quiet -i"), 0);
        const char *expected = " UID PID TID wa_disk wa_uring wa_other rings aio S  since Unit       Command\n"
                               "1000  20   -    10.0        -        -     -   1 S 1502.0 -          idle\n"
                               "1000  40   -       -        -        -     -   - D 1502.0 -          st\\x1b[uck\n"
                               "1000  50   -       -        -        -     -   - S 1502.0 -          parked-for-ever\n"
                               "1000  60   -       -        -        -     -   - R 1502.0 -          busy\n"
                               "1000 300   -     0.0     70.0      0.0     8   - S 1502.0 db.service db\n";
        assert_string_equal(strchr(said, '\n') + 1, expected);
        run(task_main, "task --quiet -i -t --sort wa_uring");
        assert_string_equal(tasks(), "300/- 300/302 20/- 40/- 50/- 60/-");
        run(task_main, "task --quiet -i --format csv -p db");
        assert_non_null(strstr(said, ",UID,PID,TID,wa_disk,wa_uring,wa_other,rings,aio,S,since,THR,Unit,Command\n"));
        assert_non_null(strstr(said, ",1000,300,,0,70,0,8,,S,1502,,db.service,db\n"));
        run(task_main, "task --quiet --format json -p db"); /* all columns, whatever was chosen */
        json_object *report = json_tokener_parse(said), *row = json_object_array_get_idx(member(report, "task"), 0);
        assert_true(json_object_get_double(member(row, "wa_uring")) == 70);
        assert_int_equal(json_object_get_int(member(row, "rings")), 8);
        assert_null(member(row, "aio"));
        json_object_put(report);
}

static void test_task_json(void **unused)
{
        play_tasks();
        assert_int_equal(run(task_main, "task --quiet -t --format json -p db"), 0);
        json_object *report = json_tokener_parse(said), *rows = member(report, "task"), *row = json_object_array_get_idx(rows, 0);
        assert_int_equal(json_object_array_length(rows), 4);
        assert_null(member(row, "TID"));
        assert_int_equal(json_object_get_int(member(row, "PID")), 300);
        assert_true(json_object_get_double(member(row, "%CPU")) == 150);
        assert_null(member(row, "kB_rd/s")); /* all columns, and what could not be read is null */
        assert_null(member(row, "%MEM"));
        assert_string_equal(json_object_get_string(member(row, "Unit")), "db.service");
        row = json_object_array_get_idx(rows, 2);
        assert_int_equal(json_object_get_int(member(row, "TID")), 301);
        assert_string_equal(json_object_get_string(member(row, "Command")), "db-log");
        assert_int_equal(json_object_get_int(member(row, "UID")), 1000);
        json_object_put(report);
}

/* ---- usage ------------------------------------------------------------ */

static void wrong(int (*verb)(int, char **), const char *line)
{
        if (run(verb, line) != 2 || said[0] != '\0' || !strchr(complained, '\n') || strchr(complained, '\n')[1] != '\0')
                fail_msg("%s: said '%s', complained '%s'", line, said, complained);
}

static void test_usage(void **unused)
{
        play_cpu();
        wrong(cpu_main, "cpu --nope");
        wrong(cpu_main, "cpu -x");
        wrong(cpu_main, "cpu --format");
        wrong(cpu_main, "cpu --format xml");
        wrong(cpu_main, "cpu --quiet=1");
        wrong(cpu_main, "cpu 0");
        wrong(cpu_main, "cpu 1 0");
        wrong(cpu_main, "cpu 1 2 3");
        wrong(cpu_main, "cpu abc");
        wrong(cpu_main, "cpu -1");
        wrong(cpu_main, "cpu --cores 3-1");
        wrong(disk_main, "disk sda 1 x");
        wrong(disk_main, "disk 1x");
        wrong(task_main, "task --sort nope");
        wrong(task_main, "task -C [");
        wrong(task_main, "task -p");
        wrong(task_main, "task -p 1,,2");
        wrong(task_main, "task -p 0");
        wrong(capture_main, "capture");
        wrong(metrics_main, "metrics --columns nope");
        assert_int_equal(run(cpu_main, "cpu --help"), 0);
        assert_non_null(strstr(said, "--cores LIST"));
        assert_int_equal(run(cpu_main, "cpu --ring /nowhere"), 1);
        assert_string_equal(complained, "watop cpu: /nowhere: no ring there\n");
        play.count = 1;
        assert_int_equal(run(cpu_main, "cpu --quiet"), 1); /* a base and no report */
}

static void test_metrics(void **unused)
{
        assert_int_equal(run(metrics_main, "metrics --format json --columns cpu"), 0);
        json_object *rows = json_tokener_parse(said);
        assert_int_equal(json_object_array_length(rows), metric_view(VIEW_CPU)->count);
        json_object *row = json_object_array_get_idx(rows, 0);
        assert_string_equal(json_object_get_string(member(row, "column")), "us");
        static const char from[] = "growth of cpu.user / growth of (cpu.user + cpu.nice + ";
        assert_int_equal(strncmp(json_object_get_string(member(row, "from")), from, strlen(from)), 0);
        json_object_put(rows);
        assert_int_equal(run(metrics_main, "metrics"), 0);
        assert_non_null(strstr(said, "\ncpu.iowait "));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cpu_text), cmocka_unit_test(test_cpu_json), cmocka_unit_test(test_cpu_csv),
                cmocka_unit_test(test_interrupt),
                cmocka_unit_test(test_gap), cmocka_unit_test(test_disks), cmocka_unit_test(test_tasks), cmocka_unit_test(test_task_waits),
                cmocka_unit_test(test_task_json),
                cmocka_unit_test(test_usage), cmocka_unit_test(test_metrics),
        };

        setenv("TZ", "UTC", 1);
        setlocale(LC_CTYPE, "C.UTF-8");
        int failed = cmocka_run_group_tests(tests, NULL, NULL);
        forget();
        return failed;
}

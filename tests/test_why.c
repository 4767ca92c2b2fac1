/*
 * The long answer: states made by hand and the whole text they must give; since when; cores in groups; the self-test's judgement; JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "tests/sealed.h"
#include "tui/view.h"
#include "tui/why.h"

static const uint64_t MS = 1000000;

enum { CORES = 4 };

/* One second of a machine of four cores; ms of each core. */
struct machine {
        unsigned disk[CORES], uring[CORES], other[CORES], user[CORES];
        bool bound;                               /* evidence: only a bound; else parked, or exact with tracer 2 */
        int tracer;                               /* self.tracer; 0 absent, else value + 1 */
        unsigned parked;                          /* io_uring threads, one a core */
        bool shares;                              /* waiters have wa_* */
        unsigned reads, read_ms, util_ms, inflight, queue_ms;
        const char *reader, *reader_wchan;        /* a task in D state */
        unsigned io_kb;                           /* that "fio" reads */
        bool aio;
        unsigned load1, running;                  /* 1/100; tasks */
        unsigned some, full, some_uring, full_uring; /* ms; some_uring + 1, 0 absent */
        unsigned some_under, some_over; /* ms from it to its bounds */
        bool groups;                              /* control groups that stall */
};

struct scene {
        struct sealed w;
        struct state *state;
        struct tally tally;
        struct verdict verdict;
};

static void put_cores(struct sample *s, const struct machine *m, uint64_t on)
{
        int by = m->bound ? CPU_BY_BOUND : m->tracer == 3 ? CPU_BY_EXACT : CPU_BY_PARKED;

        for (unsigned c = 0; c < CORES; c++) {
                struct row *row = sample_row(s, SCOPE_CPU, (struct key){c, 0}, 0);
                unsigned wa = m->disk[c] + m->uring[c] + m->other[c];
                for (int id = CPU_USER; id < CPU_END; id++)
                        row_set(row, id, 0);
                row_set(row, CPU_USER, m->user[c] * MS * on);
                row_set(row, CPU_IOWAIT, wa * MS * on);
                row_set(row, CPU_IDLE, (1000 - wa - m->user[c]) * MS * on);
                row_set(row, CPU_WA_DISK, m->disk[c] * MS * on);
                row_set(row, CPU_WA_DISK_MAX, m->disk[c] * MS * on);
                row_set(row, CPU_WA_DISK_MIN, m->bound ? 0 : m->disk[c] * MS * on);
                row_set(row, CPU_WA_URING, m->uring[c] * MS * on);
                row_set(row, CPU_WA_URING_MIN, m->uring[c] * MS * on);
                row_set(row, CPU_WA_URING_MAX, m->uring[c] * MS * on);
                row_set(row, CPU_WA_OTHER, m->other[c] * MS * on);
                row_set(row, CPU_WA_OTHER_MIN, m->other[c] * MS * on);
                row_set(row, CPU_WA_OTHER_MAX, m->other[c] * MS * on);
                row_set(row, by, wa * MS * on);
        }
}

static void put_waiter(struct sample *s, uint64_t tid, uint64_t tgid, const char *process, const char *name, unsigned core,
        unsigned witness)
{
        struct row *row = sample_row(s, SCOPE_WAITER, (struct key){tid, 1}, 0);

        row_text(row, WAITER_COMM, name, strlen(name));
        row_text(row, WAITER_PROCESS, process, strlen(process));
        row_set(row, WAITER_TGID, tgid);
        row_set(row, WAITER_CORE, core);
        row_set(row, WAITER_WITNESS, witness);
        row_set(row, WAITER_SWITCHES, 10);
}

static void share(struct sample *s, uint64_t tid, int metric, uint64_t ns)
{
        row_set(sample_row(s, SCOPE_WAITER, (struct key){tid, 1}, 0), metric, ns);
}

static void put_waiters(struct sealed *w, const struct machine *m, uint64_t on)
{
        struct sample *s = w->sample;

        for (unsigned i = 0; i < m->parked; i++) {
                char name[24];
                snprintf(name, sizeof name, "Proactor%u", i);
                put_waiter(s, 700 + i, 700, "dragonfly", name, i % CORES, 4);
                if (m->shares)
                        share(s, 700 + i, WAITER_WA_URING, m->uring[i % CORES] * MS * on);
        }
        if (!m->reader)
                return;
        put_waiter(s, 900, 900, m->reader, m->reader, 0, 6);
        struct row *row = sample_row(s, SCOPE_WAITER, (struct key){900, 1}, 0);
        row_text(row, WAITER_WCHAN, m->reader_wchan, strlen(m->reader_wchan));
        row_set(row, WAITER_SINCE, w->boot - 5 * SECOND);
        if (m->shares) {
                share(s, 900, WAITER_WA_DISK, m->disk[0] * MS * on);
                share(s, 900, WAITER_WA_OTHER, m->other[0] * MS * on);
        }
}

static void put_rest(struct sample *s, const struct machine *m, uint64_t on)
{
        struct row *row = sample_row(s, SCOPE_DISK, key_of_name("sdc", 3, 1), 0);

        row_text(row, DISK_NAME, "sdc", 3);
        row_set(row, DISK_KIND, 'w');
        row_set(row, DISK_READS, m->reads * on);
        row_set(row, DISK_READ_TIME, m->read_ms * MS * m->reads * on);
        row_set(row, DISK_WRITES, 0);
        row_set(row, DISK_INFLIGHT, m->inflight);
        row_set(row, DISK_IO_TIME, m->util_ms * MS * on);
        row_set(row, DISK_QUEUE_TIME, m->queue_ms * MS * on);
        row = sample_row(s, SCOPE_SYSTEM, (struct key){0, 0}, 0);
        row_set(row, SYSTEM_LOAD1, m->load1);
        row_set(row, SYSTEM_RUNNING, m->running);
        row_set(row, SYSTEM_DSTATE, m->reader ? 1 : 0);
        if (m->io_kb) {
                row = sample_row(s, SCOPE_PROCESS, (struct key){800, 1}, 0);
                row_text(row, PROCESS_COMM, "fio", 3);
                row_set(row, PROCESS_STATE, 'S');
                row_set(row, PROCESS_READ_BYTES, m->io_kb * 1024 * on);
                if (m->aio)
                        row_set(row, PROCESS_AIO, 1);
        }
        if (m->some) {
                row = sample_row(s, SCOPE_PRESSURE, (struct key){1, 0}, 0);
                row_set(row, PRESSURE_SOME, m->some * MS * on);
                row_set(row, PRESSURE_FULL, m->full * MS * on);
                if (m->some_uring) {
                        row_set(row, PRESSURE_SOME_URING, (m->some_uring - 1) * MS * on);
                        row_set(row, PRESSURE_FULL_URING, m->full_uring * MS * on);
                        row_set(row, PRESSURE_SOME_URING_MIN,
                                (m->some_uring - 1 - (m->some_under < m->some_uring ? m->some_under : 0)) * MS * on);
                        row_set(row, PRESSURE_SOME_URING_MAX, (m->some_uring - 1 + m->some_over) * MS * on);
                        row_set(row, PRESSURE_FULL_URING_MIN, m->full_uring * MS * on);
                        row_set(row, PRESSURE_FULL_URING_MAX, m->full_uring * MS * on);
                }
        }
        if (m->tracer) {
                row = sample_row(s, SCOPE_SELF, (struct key){0, 0}, 0);
                row_set(row, SELF_TRACER, (uint64_t)m->tracer - 1);
        }
}

static void put_groups(struct sample *s, uint64_t on)
{
        static const struct { const char *path; unsigned some, uring; } groups[] = {
                {"/", 900, 0}, {"/web", 400, 400}, {"/web/\033[31mdfly", 399, 399}, {"/web/idle", 0, 0}, {"/webber", 600, 0},
                {"/quiet", 5, 0},
        };

        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
                struct row *row = sample_row(s, SCOPE_CGROUP, key_of_name(groups[i].path, strlen(groups[i].path), i), 0);
                row_text(row, CGROUP_PATH, groups[i].path, strlen(groups[i].path));
                row_set(row, CGROUP_IO_SOME, groups[i].some * MS * on);
                row_set(row, CGROUP_IO_FULL, groups[i].some / 2 * MS * on);
                row_set(row, CGROUP_SOME_URING, groups[i].uring * MS * on);
                row_set(row, CGROUP_FULL_URING, groups[i].uring / 2 * MS * on);
        }
}

static void tick(struct scene *scene, const struct machine *m, uint64_t on)
{
        struct sample *s = scene->w.sample;
        static const enum scope all[] = {SCOPE_SYSTEM, SCOPE_CPU, SCOPE_DISK, SCOPE_PROCESS, SCOPE_WAITER, SCOPE_PRESSURE, SCOPE_SELF,
                SCOPE_CGROUP};

        sealed_tick(&scene->w, SECOND);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                sample_scope_begin(s, all[i], scene->w.mono);
        put_cores(s, m, on);
        put_waiters(&scene->w, m, on);
        put_rest(s, m, on);
        if (m->groups)
                put_groups(s, on);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                sample_scope_end(s, all[i], scene->w.mono, GONE_EXITED);
        assert_int_equal(state_apply(scene->state, sealed_seal(&scene->w), NULL), 0);
        if (!on)
                state_base(scene->state);
}

static void play(struct scene *scene, const struct machine *m)
{
        memset(scene, 0, sizeof *scene);
        sealed_open(&scene->w);
        assert_int_equal(state_new(&scene->state), 0);
        tick(scene, m, 0);
        tick(scene, m, 1);
        tally_make(scene->state, &scene->tally);
        verdict_make(scene->state, &scene->tally, &scene->verdict);
}

static void stop(struct scene *scene)
{
        state_free(scene->state);
        sealed_close(&scene->w);
}

static void expect(const struct machine *m, const struct why_context *context, const char *text)
{
        struct scene scene;
        char lines[WHY_LINES][WHY_WIDTH], whole[(WHY_LINES + 1) * WHY_WIDTH];

        play(&scene, m);
        size_t count = why_evidence(&scene.tally, &scene.verdict, context, lines, WHY_LINES);
        int used = snprintf(whole, sizeof whole, "%s\n", scene.verdict.line);
        for (size_t i = 0; i < count; i++) {
                assert_true(strlen(lines[i]) <= WHY_COLUMNS);
                used += snprintf(whole + used, sizeof whole - (size_t)used, "%s\n", lines[i]);
        }
        assert_string_equal(whole, text);
        stop(&scene);
}

/* ---- the answers, whole
 * ----------------------------------------------------------------------------------------------------------------- */

static void test_idle_reactors(void **unused)
{
        const struct machine m = {.uring = {1000, 1000, 1000, 1000}, .parked = 4, .some = 1000, .full = 990, .some_uring = 1001,
                .full_uring = 990, .running = 1,
                                  .load1 = 5};
        const struct selftest_ring offers = {.offer = RING_WORKS, .no_iowait = true}, lacks = {.offer = RING_WORKS},
                sealed_off = {.offer = RING_SYSCTL};
        struct why_history history = {.span = 600, .since_known = true, .since_ns = UINT64_C(1700000000) * SECOND, .since_seconds = 412,
                .normal = -1};
        char text[2048];

        setenv("TZ", "UTC", 1);
        snprintf(text, sizeof text, "%s",
                 "NOT A DISK. The machine is idle; wa is 4 dragonfly threads asleep in io_uring.\n"
                 "load   0.0% of 400% (0.0%)   loadavg 0.05: 0 running, 0 in D state\n"
                 "wa     400.0 = disk 0.0 + uring 400.0 + other 0.0   1.0 s, parked\n"
                 "since  22:13:20, 412 s\n"
                 "uring  dragonfly[700] Proactor0..3: 4 threads, cpu0-3, parked, woke 0 times\n"
                 "disks  nothing in flight, no request in 1.0 s\n"
                 "PSI    io some 100% (100 of it io_uring), full 99% (99 of it io_uring)\n"
                 "todo   judge this machine by load, not by wa:  watop cpu 1\n"
                 "       a program can ask not to be counted (NO_IOWAIT); this kernel offers it\n");
        expect(&m, &(struct why_context){.ring = &offers, .history = &history}, text);
        strcpy(strstr(text, "       a program"), "       a program could ask not to be counted (Linux 6.15); not on this kernel\n");
        expect(&m, &(struct why_context){.ring = &lacks, .history = &history}, text);
        *strstr(text, "       a program") = '\0';
        expect(&m, &(struct why_context){.ring = &sealed_off, .history = &history}, text);
        history.since_whole = true;
        history.span = 412;
        *strstr(text, "since  ") = '\0';
        strcat(text, "since  before 22:13:20, 412 s, all of the history\n"
                     "uring  dragonfly[700] Proactor0..3: 4 threads, cpu0-3, parked, woke 0 times\n"
                     "disks  nothing in flight, no request in 1.0 s\n"
                     "PSI    io some 100% (100 of it io_uring), full 99% (99 of it io_uring)\n"
                     "todo   judge this machine by load, not by wa:  watop cpu 1\n");
        expect(&m, &(struct why_context){.history = &history}, text);
}

static void test_slow_disk(void **unused)
{
        struct why_history history = {.span = 600, .since_known = true, .since_ns = UINT64_C(1700000000) * SECOND, .since_seconds = 60,
                .device = "sdc", .normal = 2.1,
                                      .slow_known = true, .slow_ns = UINT64_C(1700000000) * SECOND, .count = 1,
                                              .steps = {{.real_ns = UINT64_C(1700000060) * SECOND}}};

        expect(&(struct machine){.disk = {900, 0, 0, 0}, .reads = 146, .read_ms = 412, .util_ms = 1000, .inflight = 61, .queue_ms = 60000,
                .tracer = 3, .shares = true,
                                 .reader = "kvm", .reader_wchan = "blk_mq_get_tag", .load1 = 1120, .running = 2, .some = 900, .full = 880,
                                         .some_uring = 1},
               &(struct why_context){.history = &history, .source_known = true, .root = true},
               "A DISK IS SLOW. sdc takes 412 ms per read, requests queue; 1 task waits.\n"
               "load   0.0% of 400% (0.0%)   loadavg 11.20: 1 running, 1 in D state\n"
               "       loadavg is the last minutes' mean: now it would be 2\n"
               "wa     90.0 = disk 90.0 + uring 0.0 + other 0.0   1.0 s, exact\n"
               "since  22:13:20, 60 s\n"
               "who    disk: kvm[900] 90.0\n"
               "disk   sdc 146 req/s - kB/s await r 412 ms aqu-sz 60.0 100% infl 61\n"
               "       normally 2.10 ms (last 600 s); slow since 22:13:20\n"
               "waits  kvm[900] in device tags (blk_mq_get_tag), 5.0 s\n"
               "PSI    io some 90%, full 88% of the time\n"
               "todo   watop disk sdc 1      errors and resets:  journalctl -k -g sdc\n");
}

static void test_hidden(void **unused)
{
        expect(&(struct machine){.reads = 5000, .read_ms = 8, .util_ms = 990, .inflight = 128, .queue_ms = 40000, .io_kb = 20000,
                .aio = true},
               NULL,
               "BUSY. sdc is 99% busy (5000 req/s, 8.00 ms per read); wa does not show it.\n"
               "load   0.0% of 400% (0.0%)   loadavg 0.00: 0 running, 0 in D state\n"
               "wa     0.0 = disk 0.0 + uring 0.0 + other 0.0   1.0 s\n"
               "disk   sdc 5000 req/s - kB/s await r 8.00 ms aqu-sz 40.0 99% infl 128\n"
               "does   fio[800] reads and writes 20000 kB/s by libaio\n"
               "todo   watop task -d 1      who reads and writes\n");
}

static void test_other(void **unused)
{
        expect(&(struct machine){.other = {900, 0, 0, 0}, .reader = "cp", .reader_wchan = "folio_wait_bit_common", .shares = true,
                .tracer = 3, .some = 900, .full = 900,
                                 .some_uring = 1},
               NULL,
               "WAITING, NOT FOR A DISK. cp[900] waits: page cache.\n"
               "load   0.0% of 400% (0.0%)   loadavg 0.00: 0 running, 1 in D state\n"
               "wa     90.0 = disk 0.0 + uring 0.0 + other 90.0   1.0 s, exact\n"
               "who    other: cp[900] 90.0\n"
               "disks  nothing in flight, no request in 1.0 s\n"
               "waits  cp[900] in page cache (folio_wait_bit_common), 5.0 s\n"
               "PSI    io some 90%, full 90% of the time\n"
               "todo   watop task -t -p 900 1      its threads, states and ages\n");
}

/* Part of it a disk's, as an ordinary user. */
static void test_partly(void **unused)
{
        const struct machine m = {.disk = {97, 0, 0, 0}, .other = {0, 990, 990, 990}, .bound = true, .reads = 90, .read_ms = 1,
                .util_ms = 97, .tracer = 1};

        expect(&m, &(struct why_context){.source_known = true},
               "PARTLY A DISK. At most 9.7 of 306.7 wa can be sdc; 297.0 is not a disk.\n"
               "load   0.0% of 400% (0.0%)   loadavg 0.00: 0 running, 0 in D state\n"
               "wa     306.7 = disk <9.7 + uring 0.0 + other 297.0   1.0 s, bound\n"
               "disk   sdc 90 req/s - kB/s await r 1.00 ms aqu-sz 0.0 10% infl 0\n"
               "more   who waits is not known: as root, or with watopd: exact and named\n"
               "todo   watop task -d 1      who reads and writes\n");
        struct scene scene;
        static const struct { struct why_context context; const char *text; } raised[] = {
                {{.source_known = true, .captured = true}, "a recording: what was seen is all there is"},
                {{.source_known = true, .root = true, .no_bpf = true}, "without --no-bpf: exact, if you may trace"},
                {{.source_known = true, .root = true}, "exact needs a kernel with BTF (CONFIG_DEBUG_INFO_BTF)"},
                {{.source_known = true, .root = true, .btf = true}, "exact needs tracing: watopd --check says why it is not possible"},
                {{.root = true}, ""},
        };
        play(&scene, &m);
        for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
                char text[80];
                why_raise(&scene.tally, &raised[i].context, text, sizeof text);
                assert_string_equal(text, raised[i].text);
        }
        stop(&scene);
}

static void test_nothing(void **unused)
{
        expect(&(struct machine){.user = {100, 100, 100, 100}, .running = 1, .load1 = 40}, NULL,
               "NOTHING WRONG. Load 40.0 of 400%, wa 0.0, no device is busy.\n"
               "load   40.0% of 400% (10.0%)   loadavg 0.40: 0 running, 0 in D state\n"
               "wa     0.0 = disk 0.0 + uring 0.0 + other 0.0   1.0 s\n"
               "disks  nothing in flight, no request in 1.0 s\n"
               "todo   nothing; watop shows it live\n");
}

/* ---- since when
 * ------------------------------------------------------------------------------------------------------------------------- */

static void fill(struct why_history *history, enum why_kind kind, float await, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t last = history->count ? history->steps[(history->first + history->count - 1) % WHY_STEPS].real_ns : 1000 * SECOND;
                size_t at = (history->first + history->count) % WHY_STEPS;
                history->first += history->count == WHY_STEPS;
                history->count += history->count < WHY_STEPS;
                history->steps[at] = (struct why_step){.real_ns = last + SECOND, .seconds = 1, .kind = kind, .await = await};
        }
}

static const struct tally uring_now = {.wa = {.kind = VALUE_NUMBER, .number = 100}, .disk = {.kind = VALUE_NUMBER},
        .uring = {.kind = VALUE_NUMBER, .number = 100},
                                       .other = {.kind = VALUE_NUMBER}};

static void test_since(void **unused)
{
        static struct why_history history;

        history = (struct why_history){.normal = -1};
        why_history_answer(&history, &uring_now);
        assert_false(history.since_known); /* there is no past */
        fill(&history, WHY_QUIET, -1, 100);
        fill(&history, WHY_URING, -1, 50);
        fill(&history, WHY_DISK, -1, 2); /* two seconds of something else do not end it, */
        fill(&history, WHY_URING, -1, 40);
        why_history_answer(&history, &uring_now);
        assert_true(history.since_known && !history.since_whole);
        assert_int_equal(history.since_ns, 1100 * SECOND);
        assert_true(history.since_seconds == 92 && history.span == 192);
        fill(&history, WHY_QUIET, -1, 4); /* four do */
        fill(&history, WHY_URING, -1, 3);
        why_history_answer(&history, &uring_now);
        assert_true(history.since_seconds == 3);

        history = (struct why_history){.normal = -1};
        fill(&history, WHY_URING, -1, WHY_STEPS + 500); /* more than is kept */
        why_history_answer(&history, &uring_now);
        assert_true(history.since_known && history.since_whole && history.since_seconds == WHY_STEPS);
        history = (struct why_history){.normal = -1};
        fill(&history, WHY_DISK, -1, 10);
        why_history_answer(&history, &uring_now); /* what it is now has not been there */
        assert_false(history.since_known);
}

static void test_normal(void **unused)
{
        static struct why_history history;

        history = (struct why_history){.normal = -1, .device = "sdc"};
        fill(&history, WHY_QUIET, 2, 60);
        fill(&history, WHY_QUIET, -1, 60); /* nothing completed: says nothing */
        fill(&history, WHY_QUIET, 3, 40);
        fill(&history, WHY_DISK, 400, 30);
        why_history_answer(&history, &uring_now);
        assert_true(history.slow_known && !history.slow_whole && history.slow_ns == 1160 * SECOND);
        assert_true(history.normal == 2);
        history = (struct why_history){.normal = -1, .device = "sdc"};
        fill(&history, WHY_DISK, 400, 30); /* never otherwise: what is normal is not known */
        why_history_answer(&history, &uring_now);
        assert_true(history.slow_known && history.slow_whole && history.normal < 0);
}

/* Steps from states: the kind and the device's time. */
static void test_steps(void **unused)
{
        static struct why_history history;
        struct scene scene;
        static const struct { struct machine m; enum why_kind kind; } cases[] = {
                {{.uring = {1000, 0, 0, 0}, .parked = 1, .reads = 10, .read_ms = 7}, WHY_URING}, {{.disk = {600, 0, 0, 0}, .uring = {0,
                        900, 0, 0}}, WHY_DISK},
                {{.other = {600, 0, 0, 0}}, WHY_OTHER}, {{.user = {900, 0, 0, 0}}, WHY_QUIET},
        };

        history = (struct why_history){.normal = -1, .device = "sdc"};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                play(&scene, &cases[i].m);
                why_history_step(&history, scene.state);
                assert_int_equal(history.count, i + 1);
                assert_int_equal(history.steps[i].kind, cases[i].kind);
                stop(&scene);
        }
        assert_true(history.steps[0].await > 6.9f && history.steps[0].await < 7.1f);
        assert_true(history.steps[1].await < 0);
}

/* ---- cores, threads
 * ------------------------------------------------------------------------------------------------------------------------ */

static void test_groups(void **unused)
{
        struct why_cores groups[CORES];
        struct scene scene;

        play(&scene, &(struct machine){.uring = {999, 996, 0, 999}, .disk = {0, 0, 400, 0}, .parked = 4});
        assert_int_equal(why_group_cores(scene.state, groups, CORES), 3);
        assert_true(groups[0].first == 0 && groups[0].last == 1 && groups[0].count == 2);
        assert_true(groups[0].part[TALLY_URING] > 99.7 && groups[0].part[TALLY_URING] < 99.8);
        assert_true(groups[1].first == 2 && groups[1].count == 1 && groups[1].part[TALLY_DISK] > 39.9);
        assert_string_equal(groups[0].level, "parked");
        assert_int_equal(why_group_cores(scene.state, groups, 1), 3); /* more than there is room for: counted, not written */
        stop(&scene);
}

/* The sentence about the load average is whole, also where it says more. */
static void test_mean(void **unused)
{
        struct scene scene;
        char lines[WHY_LINES][WHY_WIDTH];

        play(&scene, &(struct machine){.uring = {1000, 1000, 1000, 1000}, .parked = 4, .load1 = 999999, .running = 10000});
        assert_true(why_evidence(&scene.tally, &scene.verdict, NULL, lines, WHY_LINES) > 2);
        assert_string_not_equal(lines[1], "       loadavg is a mean: now it would be 9999; io_uring sleepers are not in it");
        stop(&scene);
        play(&scene, &(struct machine){.uring = {1000, 1000, 1000, 1000}, .parked = 4, .load1 = 999999, .running = 1001});
        assert_true(why_evidence(&scene.tally, &scene.verdict, NULL, lines, WHY_LINES) > 2);
        assert_string_equal(lines[1], "       loadavg is a mean: now it would be 1000; io_uring sleepers are not in it");
        stop(&scene);
}

/* A core's part is marked as the sum's is. */
static void test_marks(void **unused)
{
        struct why_cores groups[CORES];
        struct scene scene;

        play(&scene, &(struct machine){.disk = {400, 400, 0, 0}, .bound = true});
        assert_int_equal(why_group_cores(scene.state, groups, CORES), 2);
        assert_int_equal(groups[0].mark[TALLY_DISK], MARK_AT_MOST);
        assert_true(groups[0].low[TALLY_DISK] == 0 && groups[0].high[TALLY_DISK] > 39.9);
        assert_int_equal(groups[1].mark[TALLY_DISK], MARK_EXACT);
        stop(&scene);
}

/* The root is left out, and the parent that says what its child says; a name that only begins alike is no parent. */
static void test_control_groups(void **unused)
{
        struct why_group groups[2];
        struct scene scene;

        play(&scene, &(struct machine){.groups = true});
        assert_int_equal(why_groups(scene.state, groups, 2), 2);
        assert_string_equal(groups[0].path, "/webber");
        assert_true(groups[0].some > 59.9 && groups[0].some_uring == 0);
        assert_string_equal(groups[1].path, "/web/\033[31mdfly");
        assert_true(groups[1].some > 39.8 && groups[1].some < 40 && groups[1].some_uring > 39.8 && groups[1].full_uring > 19.8);
        stop(&scene);
}

static void test_who(void **unused)
{
        struct scene scene;

        play(&scene, &(struct machine){.uring = {999, 500, 0, 0}, .other = {0, 0, 0, 0}, .disk = {0, 0, 0, 0}, .parked = 4,
                .shares = true});
        assert_int_equal(scene.tally.who_count[TALLY_URING], 1); /* threads of one process are one */
        assert_int_equal(scene.tally.who[TALLY_URING][0].threads, 2); /* those that caused nothing are not counted */
        assert_true(scene.tally.who[TALLY_URING][0].share > 149.8);
        assert_int_equal(scene.tally.who_count[TALLY_DISK], 0);
        stop(&scene);
}

/* The head of a wide screen says how much of PSI is no stall. */
static void test_head(void **unused)
{
        static const struct { unsigned some, some_uring, under, over; const char *text; } cases[] = {
                {900, 881, 0, 0, "PSI io 90% (88 io_uring)"}, {900, 1, 0, 0, "PSI io 90%"}, {900, 0, 0, 0, "PSI io 90%"},
                {0, 0, 0, 0, NULL},
                {900, 501, 300, 0, "PSI io 90% (<50 io_uring)"}, {900, 501, 0, 300, "PSI io 90% (>50 io_uring)"},
                {900, 501, 300, 300, "PSI io 90% (50~ io_uring)"}, {900, 1, 0, 600, "PSI io 90% (<60 io_uring)"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct scene scene;
                struct canvas canvas;
                char line[512];
                play(&scene, &(struct machine){.uring = {900, 0, 0, 0}, .parked = 1, .some = cases[i].some,
                        .some_uring = cases[i].some_uring, .some_under = cases[i].under, .some_over = cases[i].over});
                scene.tally.memory_total = 4.0 * (1 << 30);
                scene.tally.memory_used = 1 << 30;
                canvas_init(&canvas, false);
                assert_int_equal(canvas_resize(&canvas, 4, 160), 0);
                canvas_clip(&canvas, (struct area){.rows = 4, .cols = 160});
                head_draw(&(struct look){.state = scene.state, .tally = &scene.tally, .verdict = &scene.verdict, .gone_seconds = -1,
                        .interval_ns = SECOND}, &canvas);
                canvas_line(&canvas, 1, line, sizeof line);
                if (cases[i].text)
                        assert_true(strstr(line, cases[i].text) && !strstr(line, "io_uring)") == !strstr(cases[i].text, "io_uring)"));
                else
                        assert_null(strstr(line, "PSI"));
                canvas_fini(&canvas);
                stop(&scene);
        }
}

/* ---- the self-test's judgement
 * -------------------------------------------------------------------------------------------------------------- */

static void test_judgement(void **unused)
{
        const struct core_time idle = {.idle = 49, .total = 50}, busy = {.total = 50}, nobody = {.total = 50, .looks = 25, .nobody = 20},
                crowd = {.total = 50, .looks = 25, .nobody = 2};
        static const struct { struct core_time during; enum counted idle, busy, nobody, crowd; } cases[] = {
                {{.iowait = 98, .total = 100}, COUNTED_YES, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.iowait = 97, .idle = 2, .total = 100}, COUNTED_YES, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.iowait = 97, .idle = 3, .total = 100}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.iowait = 60, .idle = 4, .total = 100}, COUNTED_NO, COUNTED_NO, COUNTED_NO, COUNTED_NO}, /* somebody else's iowait */
                {{.idle = 98, .total = 100}, COUNTED_NO, COUNTED_NO, COUNTED_NO, COUNTED_NO},
                {{.total = 100}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.total = 100, .looks = 50}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_YES, COUNTED_UNCLEAR},
                {{.total = 100, .looks = 5}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.total = 100, .looks = 50, .nobody = 1}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.total = 100, .looks = 50, .nobody = 2}, COUNTED_NO, COUNTED_NO, COUNTED_NO, COUNTED_NO},
                {{.iowait = 5, .total = 100}, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                assert_int_equal(selftest_judge(&idle, &cases[i].during, 100), cases[i].idle);
                assert_int_equal(selftest_judge(&busy, &cases[i].during, 100), cases[i].busy);
                assert_int_equal(selftest_judge(&nobody, &cases[i].during, 100), cases[i].nobody);
                assert_int_equal(selftest_judge(&crowd, &cases[i].during, 100), cases[i].crowd);
        }
        /* A reactor on each core: no idle time, and never nobody. */
        const struct core_time parked = {.iowait = 50, .total = 50, .looks = 25, .least = 2, .at_least = 25},
                moving = {.iowait = 50, .total = 50, .looks = 25, .least = 2, .at_least = 6};
        static const struct { struct core_time during; enum counted parked, moving; } others[] = {
                {{.iowait = 100, .total = 100, .looks = 50, .least = 3, .at_least = 50}, COUNTED_YES, COUNTED_YES},
                {{.iowait = 100, .total = 100, .looks = 50, .least = 4, .at_least = 50}, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.iowait = 100, .total = 100, .looks = 50, .least = 2, .at_least = 50}, COUNTED_NO, COUNTED_UNCLEAR},
                {{.iowait = 100, .total = 100, .looks = 50, .least = 2, .at_least = 1}, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
                {{.iowait = 100, .total = 100, .looks = 5, .least = 3, .at_least = 5}, COUNTED_UNCLEAR, COUNTED_UNCLEAR},
        };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                assert_int_equal(selftest_judge(&parked, &others[i].during, 100), others[i].parked);
                assert_int_equal(selftest_judge(&moving, &others[i].during, 100), others[i].moving);
        }
}

static void test_offers(void **unused)
{
        static const struct selftest_ring rings[] = {
                {.offer = RING_WORKS, .no_iowait = true}, {.offer = RING_WORKS}, {.offer = RING_NOT_BUILT}, {.offer = RING_SYSCTL,
                        .sysctl = 2}, {.offer = RING_SYSCTL, .sysctl = 1},
                {.offer = RING_FILTERED}, {.offer = RING_FILTERED, .error = 1}, {.offer = RING_REFUSED, .error = 12},
                        {.offer = RING_UNKNOWN},
        };

        for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
                char text[128];
                selftest_ring_text(&rings[i], text, sizeof text);
                assert_in_range(strlen(text), 10, 61);
        }
}

/* ---- all of it
 * ------------------------------------------------------------------------------------------------------------------------------ */

/* What is printed, as a string to be freed. */
static char *printed(void (*print)(const struct scene *), const struct scene *scene)
{
        FILE *file = tmpfile();
        int kept = dup(STDOUT_FILENO);
        assert_non_null(file);
        fflush(stdout);
        dup2(fileno(file), STDOUT_FILENO);
        print(scene);
        fflush(stdout);
        dup2(kept, STDOUT_FILENO);
        close(kept);
        long length = ftell(file);
        fseek(file, 0, SEEK_END);
        length = ftell(file);
        char *text = calloc(1, (size_t)length + 1);
        assert_non_null(text);
        rewind(file);
        assert_int_equal(fread(text, 1, (size_t)length, file), length);
        fclose(file);
        return text;
}

static const struct why_context some_context = {.source_known = true};

static void print_json(const struct scene *scene)
{
        why_json(scene->state, &scene->tally, &scene->verdict, &some_context);
}

static void print_details(const struct scene *scene)
{
        why_details(scene->state, &scene->tally, &scene->verdict, &some_context);
}

/* Any machine: JSON is JSON with all members, text is narrow and harmless. */
static void test_any(void **unused)
{
        static const char *const members[] = {"time", "interval", "answer", "line", "waits", "cores", "load", "wa", "wa_disk",
                "wa_uring_max", "evidence", "psi_io_some_uring",
                                              "psi_io_full_uring", "uring", "disk", "D", "who", "io", "cpu", "tracing", "surer",
                                                      "no_iowait_offered", "history", "since",
                                              "since_seconds", "cgroup", "normal_await", "slow_since", "loadavg_15"};
        uint64_t random = 88172645463325252;

        for (int i = 0; i < 300; i++) {
                struct machine m = {.bound = sealed_random(&random) & 1, .tracer = (int)(sealed_random(&random) % 4),
                        .parked = (unsigned)(sealed_random(&random) % 9),
                                    .shares = sealed_random(&random) & 1, .reads = (unsigned)(sealed_random(&random) % 100000),
                                            .read_ms = (unsigned)(sealed_random(&random) % 20000),
                                    .util_ms = (unsigned)(sealed_random(&random) % 1001),
                                            .inflight = (unsigned)(sealed_random(&random) % 5000),
                                    .queue_ms = (unsigned)(sealed_random(&random) % 100000000), .reader = sealed_random(&random) & 1 ?
                                            "\x1b]2;\x07 a long name" : NULL,
                                    .reader_wchan = "rwsem_down_read_slowpath_and_more_of_it",
                                            .io_kb = (unsigned)(sealed_random(&random) % 4000000),
                                    .aio = sealed_random(&random) & 1, .load1 = (unsigned)(sealed_random(&random) % 1000000),
                                            .running = (unsigned)(sealed_random(&random) % 10000),
                                    .groups = i & 1, .some = (unsigned)(sealed_random(&random) % 1000),
                                            .some_uring = (unsigned)(sealed_random(&random) % 1000)};
                for (int c = 0; c < CORES; c++) {
                        m.disk[c] = (unsigned)(sealed_random(&random) % 300) * (i & 1);
                        m.uring[c] = (unsigned)(sealed_random(&random) % 300) * (i >> 1 & 1);
                        m.other[c] = (unsigned)(sealed_random(&random) % 300) * (i >> 2 & 1);
                        m.user[c] = (unsigned)(sealed_random(&random) % 100);
                }
                struct scene scene;
                play(&scene, &m);
                char lines[WHY_LINES][WHY_WIDTH];
                size_t count = why_evidence(&scene.tally, &scene.verdict, &some_context, lines, WHY_LINES);
                assert_in_range(count, 3, WHY_LINES - 1);
                for (size_t l = 0; l < count; l++)
                        assert_true(strlen(lines[l]) <= WHY_COLUMNS);
                char *text = printed(print_details, &scene);
                for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
                        assert_true(strlen(line) <= 100);
                        for (const char *at = line; *at; at++)
                                assert_in_range((unsigned char)*at, 0x20, 0x7e);
                }
                free(text);
                text = printed(print_json, &scene);
                json_object *object = json_tokener_parse(text);
                assert_non_null(object);
                for (size_t k = 0; k < sizeof members / sizeof *members; k++)
                        assert_true(json_object_object_get_ex(object, members[k], NULL));
                json_object_put(object);
                free(text);
                stop(&scene);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle_reactors), cmocka_unit_test(test_slow_disk), cmocka_unit_test(test_hidden),
                        cmocka_unit_test(test_other),
                cmocka_unit_test(test_partly), cmocka_unit_test(test_nothing), cmocka_unit_test(test_since),
                        cmocka_unit_test(test_normal), cmocka_unit_test(test_steps),
                cmocka_unit_test(test_groups), cmocka_unit_test(test_mean), cmocka_unit_test(test_marks),
                        cmocka_unit_test(test_control_groups), cmocka_unit_test(test_who), cmocka_unit_test(test_head),
                        cmocka_unit_test(test_judgement),
                        cmocka_unit_test(test_offers), cmocka_unit_test(test_any),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What is said of a machine: states made by hand, the answer they must give, and the words they must not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sealed.h"
#include "tui/why.h"

static const uint64_t MS = 1000000;

/* One second of a machine of two cores. */
struct machine {
        unsigned wa_disk[2], wa_uring[2], wa_other[2], disk_floor, user[2]; /* ms */
        enum { BY_PARKED, BY_BOUND } by;
        unsigned parked;                          /* io_uring threads, one a core in turn */
        unsigned reads, read_ms, util_ms, inflight, stuck_ms, queue_ms;
        const char *waits;                        /* wait channel of one task in D state */
        bool helper;                              /* a watopd's thread hangs */
        unsigned waits_s, waits_n;                /* 0: one task; each has a row as process and one as waiter */
        unsigned storage;                         /* io_uring threads with storage pending */
        const char *kind;                         /* of the device; NULL 'w', "" no device at all */
        unsigned writes, write_ms, flushes, flush_ms;
        unsigned more;                            /* devices like it: sdd, sde, ... */
};

struct scene {
        struct sealed w;
        struct state *state;
        struct tally tally;
        struct verdict verdict;
};

static void put_core(struct sample *s, const struct machine *m, unsigned cpu, bool now)
{
        struct row *row = sample_row(s, SCOPE_CPU, (struct key){cpu, 0}, 0);
        unsigned wa = m->wa_disk[cpu] + m->wa_uring[cpu] + m->wa_other[cpu];
        uint64_t on = now ? MS : 0;

        for (int id = CPU_USER; id < CPU_END; id++)
                row_set(row, id, 0);
        row_set(row, CPU_USER, m->user[cpu] * on);
        row_set(row, CPU_IOWAIT, wa * on);
        row_set(row, CPU_IDLE, (1000 - wa - m->user[cpu]) * on);
        row_set(row, CPU_WA_DISK, m->wa_disk[cpu] * on);
        row_set(row, CPU_WA_URING, m->wa_uring[cpu] * on);
        row_set(row, CPU_WA_OTHER, m->wa_other[cpu] * on);
        row_set(row, CPU_WA_DISK_MIN, (m->disk_floor < m->wa_disk[cpu] ? m->disk_floor : m->wa_disk[cpu]) * on);
        row_set(row, CPU_WA_DISK_MAX, m->wa_disk[cpu] * on);
        row_set(row, CPU_WA_URING_MIN, m->wa_uring[cpu] * on);
        row_set(row, CPU_WA_URING_MAX, m->wa_uring[cpu] * on);
        row_set(row, m->by == BY_PARKED ? CPU_BY_PARKED : CPU_BY_BOUND, wa * on);
}

static void put_disk(struct sample *s, const struct machine *m, unsigned which, bool now)
{
        const char name[] = {'s', 'd', (char)('c' + which), '\0'};

        if (m->kind && !m->kind[0])
                return;
        struct row *row = sample_row(s, SCOPE_DISK, key_of_name(name, 3, which + 1), 0);
        uint64_t on = now ? 1 : 0;

        row_text(row, DISK_NAME, name, 3);
        row_set(row, DISK_KIND, m->kind ? (unsigned char)m->kind[0] : 'w');
        row_set(row, DISK_READS, m->reads * on);
        row_set(row, DISK_READ_TIME, m->read_ms * MS * m->reads * on);
        row_set(row, DISK_WRITES, m->writes * on);
        row_set(row, DISK_WRITE_TIME, m->write_ms * MS * m->writes * on);
        row_set(row, DISK_FLUSHES, m->flushes * on);
        row_set(row, DISK_FLUSH_TIME, m->flush_ms * MS * m->flushes * on);
        row_set(row, DISK_INFLIGHT, m->inflight);
        row_set(row, DISK_IO_TIME, m->util_ms * MS * on);
        row_set(row, DISK_QUEUE_TIME, m->queue_ms * MS * on);
        row_set(row, DISK_STUCK, m->stuck_ms * MS);
}

static void put_waiters(struct sealed *w, const struct machine *m)
{
        char name[24];

        for (unsigned i = 0; i < m->parked; i++) {
                struct row *row = sample_row(w->sample, SCOPE_WAITER, (struct key){700 + i, 1}, 0);
                snprintf(name, sizeof name, "Proactor%u", i);
                row_text(row, WAITER_COMM, name, strlen(name));
                row_text(row, WAITER_PROCESS, "dragonfly", 9);
                row_set(row, WAITER_TGID, 700);
                row_set(row, WAITER_CORE, i % 2);
                row_set(row, WAITER_WITNESS, 4);
                row_set(row, WAITER_SWITCHES, 10);
        }
        for (unsigned i = 0; i < m->storage; i++) {
                struct row *row = sample_row(w->sample, SCOPE_WAITER, (struct key){800 + i, 1}, 0);
                row_set(row, WAITER_TGID, 700);
                row_set(row, WAITER_WITNESS, 5);
        }
        if (m->helper) { /* some watopd's thread that hangs with the task it reads: older, and still not the answer */
                struct row *row = sample_row(w->sample, SCOPE_WAITER, (struct key){850, 1}, 0);
                row_text(row, WAITER_COMM, "watopd", 6);
                row_text(row, WAITER_WCHAN, "__access_remote_vm", 18);
                row_set(row, WAITER_TGID, 849);
                row_set(row, WAITER_WITNESS, 6);
                row_set(row, WAITER_SINCE, w->boot - 100 * SECOND);
        }
        for (unsigned i = 0; m->waits && i < (m->waits_n ? m->waits_n : 1); i++) {
                struct row *row = sample_row(w->sample, SCOPE_PROCESS, (struct key){900 + i, 10000000}, 0);
                row_text(row, PROCESS_COMM, "backup\x1b[31m", 11);
                row_text(row, PROCESS_WCHAN, m->waits, strlen(m->waits));
                row_set(row, PROCESS_STATE, 'D');
                row_set(row, PROCESS_SINCE, w->boot - m->waits_s * SECOND);
                if (m->waits_n == 0)
                        continue;
                row = sample_row(w->sample, SCOPE_WAITER, (struct key){900 + i, 10000000}, 0);
                row_set(row, WAITER_TGID, 900 + i);
                row_set(row, WAITER_WITNESS, 6);
                row_set(row, WAITER_SINCE, w->boot - SECOND);
        }
}

static void tick(struct scene *scene, const struct machine *m, bool now)
{
        struct sample *s = scene->w.sample;

        sealed_tick(&scene->w, SECOND);
        for (int scope = SCOPE_CPU; scope <= SCOPE_WAITER; scope++)
                sample_scope_begin(s, (enum scope)scope, scene->w.mono);
        put_core(s, m, 0, now);
        put_core(s, m, 1, now);
        for (unsigned i = 0; i <= m->more; i++)
                put_disk(s, m, i, now);
        put_waiters(&scene->w, m);
        for (int scope = SCOPE_CPU; scope <= SCOPE_WAITER; scope++)
                sample_scope_end(s, (enum scope)scope, scene->w.mono, GONE_EXITED);
        assert_int_equal(state_apply(scene->state, sealed_seal(&scene->w), NULL), 0);
        if (!now)
                state_base(scene->state);
}

static void play(struct scene *scene, const struct machine *m)
{
        memset(scene, 0, sizeof *scene);
        sealed_open(&scene->w);
        assert_int_equal(state_new(&scene->state), 0);
        tick(scene, m, false);
        tick(scene, m, true);
        tally_make(scene->state, &scene->tally);
        verdict_make(scene->state, &scene->tally, &scene->verdict);
}

static void stop(struct scene *scene)
{
        state_free(scene->state);
        sealed_close(&scene->w);
}

static void expect(const struct machine *m, enum answer answer, const char *line, bool waits)
{
        struct scene scene;

        play(&scene, m);
        assert_string_equal(scene.verdict.line, line);
        assert_int_equal(scene.verdict.answer, answer);
        assert_int_equal(scene.verdict.waits, waits);
        assert_true(strlen(scene.verdict.line) <= 80);

        char lines[WHY_LINES][WHY_WIDTH];
        size_t count = why_evidence(&scene.tally, &scene.verdict, NULL, lines, WHY_LINES);
        assert_in_range(count, 3, WHY_LINES);
        for (size_t i = 0; i < count; i++)
                for (const char *at = lines[i]; *at; at++)
                        assert_in_range((unsigned char)*at, 0x20, 0x7e); /* nobody's escapes come through */
        stop(&scene);
}

static void test_idle_reactors(void **unused)
{
        expect(&(struct machine){.wa_uring = {999, 998}, .parked = 8}, ANSWER_NOT_A_DISK,
               "NOT A DISK. The machine is idle; wa is 8 dragonfly threads asleep in io_uring.", false);
}

static void test_loaded_reactors(void **unused)
{
        expect(&(struct machine){.wa_uring = {600, 600}, .user = {400, 400}, .parked = 1}, ANSWER_NOT_A_DISK,
               "NOT A DISK. wa is 1 dragonfly thread asleep in io_uring; read load, not wa.", false);
}

static void test_slow_disk(void **unused)
{
        expect(&(struct machine){.wa_disk = {900, 0}, .disk_floor = 850, .reads = 146, .read_ms = 412, .util_ms = 1000, .inflight = 61,
                .queue_ms = 60000}, ANSWER_DISK_SLOW,
               "A DISK IS SLOW. sdc takes 412 ms per read, requests queue.", true);
}

static void test_quick_disk_that_is_waited_for(void **unused)
{
        expect(&(struct machine){.wa_disk = {600, 0}, .disk_floor = 550, .reads = 600, .read_ms = 1, .util_ms = 600, .queue_ms = 600},
                ANSWER_BUSY,
               "BUSY. Tasks wait for sdc: 600 requests/s, 1.00 ms per read, 60% util.", true);
}

static void test_stuck_disk(void **unused)
{
        expect(&(struct machine){.wa_uring = {999, 999}, .parked = 2, .inflight = 4, .stuck_ms = 38000, .util_ms = 1000}, ANSWER_DISK_SLOW,
               "A DISK IS SLOW. sdc has 4 in flight; none completed for 38 s.", true);
}

/* libaio: the device works, no core shows iowait. */
static void test_hidden_disk(void **unused)
{
        expect(&(struct machine){.reads = 5000, .read_ms = 8, .util_ms = 990, .inflight = 128, .queue_ms = 40000}, ANSWER_BUSY,
               "BUSY. sdc is 99% busy (5000 req/s, 8.00 ms per read); wa does not show it.", true);
}

static void test_part(void **unused)
{
        expect(&(struct machine){.wa_disk = {97, 0}, .wa_uring = {0, 999}, .parked = 1, .reads = 90, .read_ms = 1, .util_ms = 97},
                ANSWER_PARTLY,
               "PARTLY A DISK. At most 9.7 of 109.6 wa can be sdc; 99.9 is io_uring asleep.", true);
}

static void test_other(void **unused)
{
        expect(&(struct machine){.wa_other = {900, 0}, .waits = "folio_wait_bit_common", .waits_s = 5}, ANSWER_OTHER,
               "WAITING, NOT FOR A DISK. backup\\x1b[31m[900] waits: page cache.", true);
}

/* Not counted as iowait at all: a page fault on a file server that does not answer. */
static void test_stuck_without_iowait(void **unused)
{
        expect(&(struct machine){.waits = "request_wait_answer", .waits_s = 12}, ANSWER_OTHER,
               "WAITING, NOT FOR A DISK. backup\\x1b[31m[900] waits 12 s: FUSE server.", true);
}

/* What may be a disk's, and what cannot be seen, is not said to be none. */
static void test_stuck_and_nobody_knows_for_what(void **unused)
{
        expect(&(struct machine){.waits = "folio_wait_bit_common", .waits_s = 12}, ANSWER_WAITING,
                "WAITING. backup\\x1b[31m[900] waits 12 s: page cache.", true);
        expect(&(struct machine){.waits = "0", .waits_s = 12}, ANSWER_WAITING, "WAITING. backup\\x1b[31m[900] waits 12 s: in D state.",
                true);
}

/* A rest that is more than rounding is not called io_uring. */
static void test_reactors_and_a_rest(void **unused)
{
        expect(&(struct machine){.wa_uring = {400, 300}, .wa_other = {200, 100}, .parked = 2}, ANSWER_NOT_A_DISK,
               "NOT A DISK. 70.0 of 100.0 wa: 2 dragonfly threads in io_uring; 30.0 other.", false);
}

static void test_helpers_of_monitors_are_not_named(void **unused)
{
        expect(&(struct machine){.waits = "request_wait_answer", .waits_s = 12, .helper = true}, ANSWER_OTHER,
               "WAITING, NOT FOR A DISK. backup\\x1b[31m[900] waits 12 s: FUSE server.", true);
        expect(&(struct machine){.helper = true}, ANSWER_NOTHING, "NOTHING WRONG. Load 0.0 of 200%, wa 0.0, no device is busy.", false);
}

/* No rights: nobody may be named, and no disk either. */
static void test_unknown(void **unused)
{
        expect(&(struct machine){.wa_other = {999, 999}, .by = BY_BOUND}, ANSWER_NOT_A_DISK,
               "NOT A DISK. No device works for most of wa; who waits could not be seen.", false);
        expect(&(struct machine){.wa_disk = {900, 900}, .by = BY_BOUND, .reads = 1000, .read_ms = 1, .util_ms = 900}, ANSWER_PARTLY,
               "PARTLY A DISK. Up to all of wa (180.0) can be sdc; no waiter was seen.", true);
}

static void test_fit(void **unused)
{
        for (size_t columns = 0; columns < 40; columns++) {
                char line[64] = "nvme0n1 is 100% busy (123456 req/s)";
                size_t length = strlen(line);
                verdict_fit(line, columns);
                assert_true(strlen(line) <= columns);
                assert_true(columns < length ? !strstr(line, "123456 req") || columns > 34 : strlen(line) == length);
        }
        char line[] = "takes 123456 ms";
        verdict_fit(line, 12);
        assert_string_equal(line, "takes..."); /* not "takes 123..." */
}

static void test_quiet(void **unused)
{
        expect(&(struct machine){0}, ANSWER_NOTHING, "NOTHING WRONG. Load 0.0 of 200%, wa 0.0, no device is busy.", false);
        expect(&(struct machine){.user = {1000, 0}}, ANSWER_BUSY, "BUSY. cpu0 is full (100%); the machine is at 50%.", false);
        expect(&(struct machine){.user = {1000, 950}}, ANSWER_BUSY, "BUSY. Load 195 of 200%; no iowait to explain.", false);
}

/* An idle ring beside libaio: the cores wait for nobody, but the machine is not idle. */
static void test_reactors_beside_a_busy_disk(void **unused)
{
        expect(&(struct machine){.wa_uring = {999, 998}, .parked = 8, .reads = 5000, .read_ms = 8, .util_ms = 990, .inflight = 128},
                ANSWER_NOT_A_DISK,
               "NOT A DISK. wa is 8 dragonfly threads asleep in io_uring; sdc is 99% busy.", true);
}

/* A thread that waits for its own reads is not asleep. */
static void test_storage_is_not_sleep(void **unused)
{
        struct scene scene;
        const struct machine m = {.wa_uring = {999, 500}, .parked = 2, .storage = 3};

        expect(&m, ANSWER_NOT_A_DISK, "NOT A DISK. The machine is idle; wa is 2 dragonfly threads asleep in io_uring.", false);
        play(&scene, &m);
        assert_int_equal(scene.tally.waiter_threads, 2);
        assert_int_equal(scene.tally.storage_threads, 3);
        stop(&scene);
}

/* Rows of one task in two scopes, more tasks than are kept by name: each counts once, and is as old as the older row says. */
static void test_many_in_d(void **unused)
{
        struct scene scene;
        const struct machine m = {.waits = "rpc_wait_bit_killable", .waits_s = 50, .waits_n = 40};

        play(&scene, &m);
        assert_int_equal(scene.tally.task_count, 40);
        assert_true(scene.tally.d_tasks > 39.5 && scene.tally.d_tasks < 40.5);
        assert_true(scene.tally.tasks[0].age > 49 && scene.tally.tasks[TALLY_TASKS - 1].age > 49);
        stop(&scene);
}

/* Nothing is known of devices, or only of a stacked one: "no device is busy" would be a guess or a lie. */
static void test_devices(void **unused)
{
        expect(&(struct machine){.kind = ""}, ANSWER_NOTHING, "NOTHING WRONG. Load 0.0 of 200%, wa 0.0, devices could not be read.", false);
        expect(&(struct machine){.kind = "s", .reads = 10, .read_ms = 1, .util_ms = 900}, ANSWER_BUSY,
               "BUSY. sdc is 90% busy (10 req/s, 1.00 ms per read); wa does not show it.", true);
        /* in flight for the whole interval, nothing completed yet: no time per request is known */
        expect(&(struct machine){.util_ms = 1000, .inflight = 1}, ANSWER_BUSY, "BUSY. sdc is 100% busy (0 req/s); wa does not show it.",
                true);
}

/* The first line ends between words and shows that it was cut. */
static void test_long_line(void **unused)
{
        expect(&(struct machine){.wa_other = {900, 0}, .waits = "a_function_with_a_very_long_name_indeed", .waits_s = 5, .waits_n = 3},
                ANSWER_OTHER,
               "WAITING, NOT FOR A DISK. backup\\x1b[31m[900] and others wait:...", true);
}

/* What most of the waiting was is named, however slow a few others were; both where both matter. */
static void test_which_requests(void **unused)
{
        struct machine m = {.wa_disk = {600, 0}, .disk_floor = 550, .reads = 1000, .read_ms = 1, .writes = 10, .write_ms = 15,
                .util_ms = 600};

        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc: 1010 requests/s, 1.00 ms per read, 60% util.", true);
        m.write_ms = 19;
        m.writes = 20;
        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc: 1020 req/s, 1.00 ms per read, 19.00 per write.", true);
        m.write_ms = 60; /* and of these most of it */
        expect(&m, ANSWER_DISK_SLOW, "A DISK IS SLOW. sdc takes 60 ms per write.", true);
        m.write_ms = 30; /* much of it */
        expect(&m, ANSWER_DISK_SLOW, "A DISK IS SLOW. sdc takes 30 ms per write.", true);
        m.writes = 1;
        m.write_ms = 90; /* next to nothing */
        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc: 1001 requests/s, 1.00 ms per read, 60% util.", true);
        m = (struct machine){.wa_disk = {900, 0}, .disk_floor = 850, .writes = 30, .write_ms = 1, .flushes = 30, .flush_ms = 28,
                .util_ms = 900};
        expect(&m, ANSWER_DISK_SLOW, "A DISK IS SLOW. sdc takes 28 ms per flush.", true);
        m.wa_disk[0] = 0;
        m.flush_ms = 18;
        expect(&m, ANSWER_BUSY, "BUSY. sdc is 90% busy (30 req/s, 18.00 ms per flush); wa does not show it.", true);
}

/* A task in D state beside a busy device waits for it only if something says so. */
static void test_who_waits_for_it(void **unused)
{
        struct machine m = {.wa_disk = {900, 0}, .by = BY_BOUND, .reads = 500, .read_ms = 1, .util_ms = 500,
                .waits = "folio_wait_bit_common", .waits_s = 2};

        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc: 500 requests/s, 1.00 ms per read, 50% util.", true);
        m.waits = "0"; /* no rights to see it */
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. Up to all of wa (90.0) can be sdc; who waits is not known.", true);
        m.waits = "__mutex_lock";
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. Up to all of wa (90.0) can be sdc; who waits is not known.", true);
        m.waits = "request_wait_answer"; /* and certainly for none */
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. Up to all of wa (90.0) can be sdc; no waiter was seen.", true);
        m.waits = "kernel_clone";
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. Up to all of wa (90.0) can be sdc; no waiter was seen.", true);
        m.waits = NULL;
        m.disk_floor = 500; /* tracing, block delays */
        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc: 500 requests/s, 1.00 ms per read, 50% util.", true);
}

/* A task that hangs beside a device that is merely busy is the greater damage; a slow device explains it. */
static void test_hangs_beside_a_busy_device(void **unused)
{
        struct machine m = {.reads = 5000, .read_ms = 8, .util_ms = 810, .queue_ms = 40000, .waits = "vm_mmap_pgoff", .waits_s = 12};

        expect(&m, ANSWER_OTHER, "WAITING, NOT FOR A DISK. backup\\x1b[31m[900] waits 12 s: memory map lock; sdc...", true);
        m.waits = "rq_qos_wait";
        expect(&m, ANSWER_WAITING, "WAITING. backup\\x1b[31m[900] waits 12 s: request queue throttling; sdc is 81%...", true);
        m.waits = "__lock_page";
        expect(&m, ANSWER_WAITING, "WAITING. backup\\x1b[31m[900] waits 12 s: page cache; sdc is 81% busy.", true);
        m.reads = 20;
        m.read_ms = 45;
        m.queue_ms = 900;
        expect(&m, ANSWER_DISK_SLOW, "A DISK IS SLOW. sdc takes 45 ms per read, 81% busy; wa does not show it.", true);
        m.waits_s = 0;
        m.read_ms = 5;
        expect(&m, ANSWER_BUSY, "BUSY. sdc is 81% busy (20 req/s, 5.00 ms per read); wa does not show it.", true);
}

/* Of several devices with requests none is named as the one: not for being the busiest. */
static void test_one_of_several(void **unused)
{
        struct machine m = {.wa_disk = {900, 0}, .disk_floor = 850, .reads = 500, .read_ms = 1, .util_ms = 500, .more = 1};

        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for sdc or sdd; sdc: 500 requests/s, 1.00 ms per read.", true);
        m.more = 3;
        expect(&m, ANSWER_BUSY, "BUSY. Tasks wait for one of 4 devices; sdc: 500 requests/s, 1.00 ms per read.", true);
        m.disk_floor = 0;
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. Up to all of wa (90.0) can be one of 4 devices; no waiter was...", true);
        m.wa_uring[1] = 900;
        m.more = 1;
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. At most 90.0 of 180.0 wa can be sdc or sdd; 90.0 is io_uring...", true);
        m.util_ms = 20; /* hardly used ones: the waiting is somebody's all the same */
        m.more = 0;
        expect(&m, ANSWER_PARTLY, "PARTLY A DISK. At most 90.0 of 180.0 wa can be sdc; 90.0 is io_uring asleep.", true);
}

/* The parent of a vfork sleeps in D state, and a task may have gone on between two reads: they wait for no I/O and are in no list of it. */
static void test_no_io(void **unused)
{
        static const char *const channels[] = {"kernel_clone", "do_wait", "futex_do_wait"};

        for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
                struct scene scene;
                const struct machine m = {.waits = channels[i], .waits_s = 12, .waits_n = 3};
                expect(&m, ANSWER_NOTHING, "NOTHING WRONG. Load 0.0 of 200%, wa 0.0, no device is busy.", false);
                play(&scene, &m);
                assert_int_equal(scene.tally.task_count, 0);
                assert_int_equal(scene.tally.apart, 3);
                assert_true(scene.tally.d_tasks < 0.5);
                stop(&scene);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle_reactors), cmocka_unit_test(test_loaded_reactors), cmocka_unit_test(test_slow_disk),
                cmocka_unit_test(test_quick_disk_that_is_waited_for), cmocka_unit_test(test_stuck_disk), cmocka_unit_test(test_hidden_disk),
                cmocka_unit_test(test_part), cmocka_unit_test(test_other), cmocka_unit_test(test_stuck_without_iowait),
                cmocka_unit_test(test_unknown), cmocka_unit_test(test_stuck_and_nobody_knows_for_what),
                cmocka_unit_test(test_reactors_and_a_rest),
                cmocka_unit_test(test_helpers_of_monitors_are_not_named),
                cmocka_unit_test(test_quiet), cmocka_unit_test(test_fit), cmocka_unit_test(test_reactors_beside_a_busy_disk),
                cmocka_unit_test(test_storage_is_not_sleep),
                cmocka_unit_test(test_many_in_d), cmocka_unit_test(test_devices), cmocka_unit_test(test_long_line),
                cmocka_unit_test(test_which_requests), cmocka_unit_test(test_who_waits_for_it), cmocka_unit_test(test_one_of_several),
                cmocka_unit_test(test_no_io), cmocka_unit_test(test_hangs_beside_a_busy_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

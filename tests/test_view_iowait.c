/*
 * The iowait view without a terminal: on a state made by hand, at every size.
 *
 * WATOP_SHOW=ROWSxCOLS[:CORES] prints one picture instead of testing.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/view.h"

#define SECOND UINT64_C(1000000000)
#define POINT UINT64_C(10000000) /* 1% of a second, ns */

struct machine {
        struct sample *sample;
        struct state *state;
        struct tally tally;
        struct verdict verdict;
        struct look look;
        unsigned char parts[HISTORY_CORES * HISTORY_STEPS];
};

static void text(struct row *row, int metric, const char *words)
{
        row_text(row, metric, words, strlen(words));
}

/* Cores by number modulo 4: 0 a reactor alone, 1 disk, 2 a reactor beside NFS, 3 busy. */
static void add_core(struct machine *m, unsigned cpu, unsigned step)
{
        static const unsigned disk[] = {0, 60, 0, 0}, uring[] = {95, 0, 50, 0}, other[] = {0, 0, 20, 0};
        struct row *row = sample_row(m->sample, SCOPE_CPU, (struct key){cpu, 0}, 0);
        unsigned wa = disk[cpu % 4] + uring[cpu % 4] + other[cpu % 4];
        static const int zero[] = {CPU_NICE, CPU_IDLE, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL, CPU_GUEST, CPU_GUEST_NICE, CPU_WA_TAKEN_BACK};
        for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++)
                row_set(row, zero[i], 0);
        row_set(row, CPU_USER, (100 - wa) * POINT * step);
        row_set(row, CPU_SYSTEM, 0);
        row_set(row, CPU_IOWAIT, wa * POINT * step);
        row_set(row, CPU_WA_DISK, disk[cpu % 4] * POINT * step);
        row_set(row, CPU_WA_URING, uring[cpu % 4] * POINT * step);
        row_set(row, CPU_WA_OTHER, other[cpu % 4] * POINT * step);
        row_set(row, CPU_WA_DISK_MIN, 0);
        row_set(row, CPU_WA_DISK_MAX, disk[cpu % 4] * POINT * step);
        row_set(row, CPU_WA_URING_MIN, uring[cpu % 4] * POINT * step);
        row_set(row, CPU_WA_URING_MAX, uring[cpu % 4] * POINT * step);
        row_set(row, cpu % 4 == 0 ? CPU_BY_PARKED : CPU_BY_BOUND, wa * POINT * step);
}

struct made_waiter {
        unsigned tid, core, witness;
        char state;
        const char *process, *comm, *wchan;
        unsigned disk, uring, other; /* % of a core; all 0: not known */
        uint64_t cores;
};

static const struct made_waiter made_waiters[] = {
        {719119, 0, 4, 'S', "dragonfly", "Proactor0", "io_cqring_wait", 0, 95, 0, 1},
        {719120, 2, 4, 'S', "dragonfly", "Proactor2", "io_cqring_wait", 0, 50, 0, 4},
        {4711, 1, 6, 'D', "restic", "restic", "folio_wait_bit_common", 60, 0, 0, 2},
        {4712, 2, 6, 'D', "cp", "cp", "nfs_wait_on_request", 0, 0, 20, 6},
        {4713, 2, 6, 'D', "\033[2Jevil", "e\x9b\xff", "rpc_wait_bit_killable", 0, 0, 0, 0},
        {4714, 0, 1, 'S', "mariadbd", "waiter", "io_cqring_wait", 0, 0, 0, 0},
        {4715, 1, 0, 'D', "locker", "locker", "rwsem_down_write_slowpath", 0, 0, 0, 0},
};

static void add_waiter(struct machine *m, const struct made_waiter *made, unsigned step)
{
        struct row *row = sample_row(m->sample, SCOPE_WAITER, (struct key){made->tid, 1}, 0);
        text(row, WAITER_COMM, made->comm);
        text(row, WAITER_PROCESS, made->process);
        text(row, WAITER_WCHAN, made->wchan);
        row_set(row, WAITER_TGID, made->tid);
        row_set(row, WAITER_STATE, (unsigned char)made->state);
        row_set(row, WAITER_CORE, made->core);
        row_set(row, WAITER_WITNESS, made->witness);
        if (!made->cores)
                return;
        row_set(row, WAITER_CORES, made->cores);
        row_set(row, WAITER_WA_DISK, made->disk * POINT * step);
        row_set(row, WAITER_WA_URING, made->uring * POINT * step);
        row_set(row, WAITER_WA_OTHER, made->other * POINT * step);
}

static void frame(struct machine *m, unsigned step, unsigned cores)
{
        uint64_t now = (1000 + step) * SECOND;
        struct sample_stamp stamp = {now, now, UINT64_C(1796072400) * SECOND + now};
        sample_begin(m->sample, &stamp);
        sample_scope_begin(m->sample, SCOPE_CPU, now);
        for (unsigned cpu = 0; cpu < cores; cpu++)
                add_core(m, cpu, step);
        sample_scope_end(m->sample, SCOPE_CPU, now, GONE_EXITED);
        sample_scope_begin(m->sample, SCOPE_WAITER, now);
        for (size_t i = 0; i < sizeof made_waiters / sizeof made_waiters[0]; i++)
                add_waiter(m, &made_waiters[i], step);
        sample_scope_end(m->sample, SCOPE_WAITER, now, GONE_EXITED);
        const void *bytes = NULL;
        size_t length = 0;
        struct seal seal = {.scopes_on = SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_WAITER), .tick_ns = SECOND, .boot_id = {1}};
        assert_int_equal(sample_seal(m->sample, &seal, &bytes, &length), 0);
        assert_int_equal(state_apply(m->state, bytes, NULL), 0);
}

static struct machine *machine_new(unsigned cores)
{
        struct machine *m = calloc(1, sizeof *m);
        assert_non_null(m);
        assert_int_equal(sample_new(&m->sample), 0);
        assert_int_equal(state_new(&m->state), 0);
        frame(m, 1, cores);
        state_base(m->state);
        frame(m, 2, cores);
        tally_make(m->state, &m->tally);
        verdict_make(m->state, &m->tally, &m->verdict);
        for (size_t i = 0; i < state_count(m->state, SCOPE_CPU); i++) {
                const struct state_row *row = state_at(m->state, SCOPE_CPU, i);
                memset(m->parts + row->key.a * HISTORY_STEPS + HISTORY_STEPS / 2, iowait_letter(m->state, row), HISTORY_STEPS / 2);
        }
        m->look = (struct look){.state = m->state, .tally = &m->tally, .verdict = &m->verdict, .gone_seconds = -1, .interval_ns = SECOND,
                .choose = -2, .parts = m->parts};
        return m;
}

static void machine_free(struct machine *m)
{
        state_free(m->state);
        sample_free(m->sample);
        free(m);
}

/* The first line that holds the words; NULL: none. */
static const char *line_with(const struct canvas *c, const char *words)
{
        static char line[CANVAS_SIDE * 4];
        for (int row = 0; row < c->rows; row++) {
                canvas_line(c, row, line, sizeof line);
                if (strstr(line, words))
                        return line;
        }
        return NULL;
}

static void assert_has(const char *line, const char *words)
{
        if (!line || !strstr(line, words))
                fail_msg("\"%s\" is not in \"%s\"", words, line ? line : "no such line");
}

static void test_standard_screen(void **unused)
{
        struct machine *m = machine_new(4);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        iowait_draw(&m->look, 0, &c);
        assert_has(line_with(&c, "wa 225.0"), "disk");
        assert_has(line_with(&c, "parked"), "95.0");                 /* core 0: its number, its evidence, its reactor, its strip */
        assert_has(line_with(&c, "parked"), "....");
        assert_has(line_with(&c, "WWWW"), "60.0 disk restic");
        assert_has(line_with(&c, "????"), "20.0~ other cp");          /* a real wait beside a reactor is not hidden by it */
        assert_has(line_with(&c, "SUM"), "145.0");
        assert_has(line_with(&c, "restic[4711]"), "page cache");
        assert_has(line_with(&c, "Proactor0[719119]"), "idle");
        assert_null(line_with(&c, "mariadbd"));                      /* not counted as iowait */
        assert_null(line_with(&c, "locker"));
        canvas_resize(&c, 60, 200);
        iowait_draw(&m->look, 0, &c);
        assert_has(line_with(&c, "????"), "20.0~ other cp, ");
        canvas_fini(&c);
        machine_free(m);
}

static void test_several_cores_are_marked(void **unused)
{
        struct machine *m = machine_new(4);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 60, 200);
        iowait_draw(&m->look, 0, &c);
        assert_has(line_with(&c, "????"), "50.0 uring dragonfly/Proactor2");
        assert_has(line_with(&c, "WWWW"), "60.0 disk restic, 20.0~ other cp");
        canvas_fini(&c);
        machine_free(m);
}

/* More cores than rows: who really waits comes first; the list is walked by scrolling, and every line is reached. */
static void test_many_cores(void **unused)
{
        struct machine *m = machine_new(256);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        size_t tops = iowait_draw(&m->look, 0, &c);
        char first[400];
        canvas_line(&c, 3, first, sizeof first);
        assert_has(first, "60.0");
        bool sum = false, waiter = false;
        for (size_t top = 0; top < tops; top++) {
                iowait_draw(&m->look, top, &c);
                sum |= line_with(&c, "SUM") != NULL;
                waiter |= line_with(&c, "evil") != NULL;
        }
        assert_true(sum && waiter);
        assert_int_equal(iowait_draw(&m->look, 100000, &c), tops);
        canvas_fini(&c);
        machine_free(m);
}

/* Any size: no control character, wa on the smallest, and a part is never shown without the others. */
static void test_every_size(void **unused)
{
        struct machine *m = machine_new(8);
        struct canvas c;
        (void)unused;
        for (int utf8 = 0; utf8 < 2; utf8++) {
                canvas_init(&c, utf8);
                for (int rows = 1; rows <= 40; rows += rows < 8 ? 1 : 7)
                        for (int cols = 1; cols <= 230; cols += cols < 60 ? 1 : 9) {
                                canvas_resize(&c, rows, cols);
                                for (size_t top = 0; top < 3; top++)
                                        assert_true(iowait_draw(&m->look, top, &c) >= 1);
                                for (int i = 0; i < rows * cols; i++) {
                                        uint32_t ch = c.cells[i].ch;
                                        assert_true(ch == 0 || (ch >= 0x20 && (ch < 0x7f || ch >= 0xa0)));
                                }
                                if (rows >= 3 && cols >= 12)
                                        assert_non_null(line_with(&c, "wa"));
                                bool uring = rows >= 4 && line_with(&c, "+uring"), other = rows >= 4 && line_with(&c, "+other");
                                assert_int_equal(uring, other);
                        }
                canvas_fini(&c);
        }
        machine_free(m);
}

static void test_nothing_known(void **unused)
{
        struct look look = {.gone_seconds = 4, .choose = -2};
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        iowait_draw(&look, 0, &c);
        assert_non_null(line_with(&c, "no core"));
        assert_non_null(line_with(&c, "watopd is gone"));
        struct machine *m = machine_new(0);
        iowait_draw(&m->look, 5, &c);
        assert_non_null(line_with(&c, "no core"));
        canvas_fini(&c);
        machine_free(m);
}

static int show(const char *what)
{
        int rows = 24, cols = 80;
        unsigned cores = 4;
        static char line[CANVAS_SIDE * 4];
        struct canvas c;
        sscanf(what, "%dx%d:%u", &rows, &cols, &cores);
        setlocale(LC_CTYPE, "");
        struct machine *m = machine_new(cores);
        canvas_init(&c, true);
        canvas_resize(&c, rows, cols);
        iowait_draw(&m->look, 0, &c);
        for (int row = 0; row < c.rows; row++) {
                canvas_line(&c, row, line, sizeof line);
                puts(line);
        }
        canvas_fini(&c);
        machine_free(m);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_standard_screen), cmocka_unit_test(test_several_cores_are_marked), cmocka_unit_test(test_many_cores),
                cmocka_unit_test(test_every_size), cmocka_unit_test(test_nothing_known),
        };
        const char *what = getenv("WATOP_SHOW");
        return what ? show(what) : cmocka_run_group_tests(tests, NULL, NULL);
}

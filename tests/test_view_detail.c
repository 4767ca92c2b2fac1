/*
 * The details of a process, and the parts of wa among the processes' columns, without a terminal: on a state made by hand, at every size.
 *
 * WATOP_SHOW=ROWSxCOLS[:PID] prints one picture instead of testing.
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

enum { REACTORS = 500, QUIET = 600, EVIL = 700, GONE = 4711 };

static const char evil[] = "\033[2J\x9b" "31mX\177\xff\xc3\xa9\xe4\xb8\xad\n\r\tY";

struct machine {
        struct sample *sample;
        struct state *state;
        struct look look;
};

static void text(struct row *row, int metric, const char *words)
{
        row_text(row, metric, words, strlen(words));
}

static struct row *add_process(struct machine *m, unsigned pid, const char *comm, const char *command, unsigned step)
{
        struct row *row = sample_row(m->sample, SCOPE_PROCESS, (struct key){pid, 1}, 0);
        text(row, PROCESS_COMM, comm);
        text(row, PROCESS_CMDLINE, command);
        text(row, PROCESS_USER, "redis");
        text(row, PROCESS_UNIT, "session-3.scope");
        row_set(row, PROCESS_USER_TIME, 71 * POINT * step);
        row_set(row, PROCESS_SYSTEM_TIME, 132 * POINT * step);
        row_set(row, PROCESS_GUEST_TIME, 0);
        row_set(row, PROCESS_STATE, 'S');
        row_set(row, PROCESS_SINCE, 900 * SECOND);
        row_set(row, PROCESS_START, SECOND);
        row_set(row, PROCESS_THREADS, 11);
        row_set(row, PROCESS_CORE, 3);
        row_set(row, PROCESS_RSS, 214 << 20);
        row_set(row, PROCESS_UID, 1000);
        return row;
}

static void add_processes(struct machine *m, unsigned step)
{
        struct row *row = add_process(m, REACTORS, "dragonfly", "/usr/bin/dragonfly --port 6379", step);
        row_set(row, PROCESS_WA_DISK, 31 * POINT * step);
        row_set(row, PROCESS_WA_URING, 490 * POINT * step);
        row_set(row, PROCESS_WA_OTHER, 0);
        row_set(row, PROCESS_RINGS, 8);
        row_set(row, PROCESS_AIO, 1);
        row = add_process(m, QUIET, "rsyslogd", "rsyslogd -n", step);
        row_set(row, PROCESS_WA_OTHER, 7 * POINT * step);
        add_process(m, EVIL, evil, evil, step);
}

/* Eight reactors, one a core, of which one is not counted; a thread that reads a disk, and one with a bad name. */
static void add_waiters(struct machine *m, unsigned step)
{
        for (unsigned n = 0; n < 10; n++) {
                struct row *row = sample_row(m->sample, SCOPE_WAITER, (struct key){501 + n, 1}, 0);
                char name[16];
                snprintf(name, sizeof name, n == 8 ? "Snapshot" : "Proactor%u", n);
                text(row, WAITER_COMM, n == 9 ? evil : name);
                row_set(row, WAITER_TGID, n == 9 ? EVIL : REACTORS);
                row_set(row, WAITER_STATE, n >= 8 ? 'D' : 'S');
                row_set(row, WAITER_WITNESS, n >= 8 ? 6 : n == 7 ? 1 : 4);
                row_set(row, WAITER_CORE, n % 8);
                row_set(row, WAITER_SINCE, 990 * SECOND);
                row_set(row, WAITER_CORES, UINT64_C(1) << n % 8);
                row_set(row, WAITER_WA_DISK, n == 8 ? 31 * POINT * step : 0);
                row_set(row, WAITER_WA_URING, n < 7 ? 70 * POINT * step : 0);
                row_set(row, WAITER_WA_OTHER, 0);
                if (n >= 8) {
                        text(row, WAITER_WCHAN, n == 9 ? evil : "folio_wait_bit_common");
                        continue;
                }
                row_set(row, WAITER_RINGS, 8);
                row_set(row, WAITER_ENTRIES, 512);
                row_set(row, WAITER_PENDING, 96);
                row_set(row, WAITER_POLLS, 93);
                row_set(row, WAITER_RING_FLAGS, n == 7 ? 3 : 1);
                text(row, WAITER_POLL_OPS, "RECV 90, ACCEPT 3");
        }
}

static void frame(struct machine *m, unsigned step)
{
        uint64_t now = (1000 + step) * SECOND;
        struct sample_stamp stamp = {now, now, UINT64_C(1796072400) * SECOND + now};
        struct seal seal = {.scopes_on = SCOPE_BIT(SCOPE_PROCESS) | SCOPE_BIT(SCOPE_WAITER), .tick_ns = SECOND, .boot_id = {1}};
        const void *bytes = NULL;
        size_t length = 0;
        sample_begin(m->sample, &stamp);
        sample_scope_begin(m->sample, SCOPE_PROCESS, now);
        add_processes(m, step);
        sample_scope_end(m->sample, SCOPE_PROCESS, now, GONE_EXITED);
        sample_scope_begin(m->sample, SCOPE_WAITER, now);
        add_waiters(m, step);
        sample_scope_end(m->sample, SCOPE_WAITER, now, GONE_EXITED);
        assert_int_equal(sample_seal(m->sample, &seal, &bytes, &length), 0);
        assert_int_equal(state_apply(m->state, bytes, NULL), 0);
}

static struct machine *machine_new(void)
{
        struct machine *m = calloc(1, sizeof *m);
        assert_non_null(m);
        assert_int_equal(sample_new(&m->sample), 0);
        assert_int_equal(state_new(&m->state), 0);
        frame(m, 1);
        state_base(m->state);
        frame(m, 2);
        m->look = (struct look){.state = m->state, .gone_seconds = -1, .interval_ns = SECOND, .selected = PANEL_TASK, .choose = -2};
        return m;
}

static void machine_free(struct machine *m)
{
        state_free(m->state);
        sample_free(m->sample);
        free(m);
}

static size_t details(struct machine *m, unsigned pid, size_t top, struct canvas *c)
{
        return detail_draw(&m->look, (struct key){pid, 1}, top, c);
}

static bool has(const struct canvas *c, const char *wanted)
{
        static char line[CANVAS_SIDE * 4];
        for (int row = 0; row < c->rows; row++) {
                canvas_line(c, row, line, sizeof line);
                if (strstr(line, wanted))
                        return true;
        }
        return false;
}

/* ---- tests --------------------------------------------------------------------------------------------------------------------------- */

static void check_cells(const struct canvas *c)
{
        for (int i = 0; i < c->rows * c->cols; i++) {
                uint32_t ch = c->cells[i].ch;
                assert_true(ch == 0 || (ch >= 0x20 && ch != 0x7f && (ch < 0x80 || ch >= 0xa0)));
                assert_true(c->cells[i].style < STYLE_COUNT);
        }
}

/* No size breaks it, and scrolling ends where it says. */
static void test_every_size(void **unused)
{
        static const unsigned pids[] = {REACTORS, QUIET, EVIL, GONE};
        struct machine *m = machine_new();
        struct canvas c;
        (void)unused;
        canvas_init(&c, true);
        for (int rows = 1; rows <= 60; rows += rows < 12 ? 1 : 6)
                for (int cols = 1; cols <= 200; cols += cols < 30 ? 1 : 17)
                        for (size_t i = 0; i < sizeof pids / sizeof pids[0]; i++) {
                                assert_int_equal(canvas_resize(&c, rows, cols), 0);
                                size_t lines = details(m, pids[i], 0, &c);
                                check_cells(&c);
                                assert_true(lines > 0);
                                assert_int_equal(details(m, pids[i], lines, &c), lines);
                                check_cells(&c);
                        }
        m->look.state = NULL;
        details(m, REACTORS, 0, &c);
        canvas_fini(&c);
        machine_free(m);
}

static void test_standard(void **unused)
{
        static const char *const there[] = {
                "dragonfly 500  state S seen for 1m 42s  redis  session-3.scope", "521.0 = disk 31.0 + uring 490.0 + other 0.0   cores 0-7",
                "8   entries 512   outstanding 96   armed polls 93   SQPOLL yes", "RECV 90, ACCEPT 3",
                "1 of its waits is not counted as iowait", "1 context of libaio", "%usr 71.0", "%CPU 203.0", "RSS 219136 kB",
                "read -  write -", "/usr/bin/dragonfly --port 6379",
                "501 Proactor0       0     0.0   70.0    0.0   12.0 s  io_uring, idle",
                "508 Proactor7       7     0.0    0.0    0.0   12.0 s  io_uring, not counted",
                "509 Snapshot        0    31.0    0.0    0.0   12.0 s  page cache",
        };
        struct machine *m = machine_new();
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        size_t lines = details(m, REACTORS, 0, &c);
        for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
                if (!has(&c, there[i]))
                        fail_msg("the details lack %s", there[i]);
        assert_int_equal(lines, 23);
        canvas_resize(&c, 60, 200); /* more words where there is room */
        details(m, REACTORS, 0, &c);
        assert_true(has(&c, "page cache (folio_wait_bit_common)"));
        assert_true(has(&c, "io_uring, idle: nothing of its own on a device"));
        canvas_resize(&c, 8, 80);
        details(m, REACTORS, lines - 3, &c);
        assert_true(has(&c, "Snapshot"));
        assert_true(has(&c, "Up Down: scroll"));
        assert_false(has(&c, "entries 512"));
        canvas_resize(&c, 10, 30); /* no number is cut: it goes on in the next line */
        details(m, REACTORS, 0, &c);
        assert_true(has(&c, "521.0 = disk 31.0 +"));
        assert_true(has(&c, "uring 490.0 + other"));
        canvas_fini(&c);
        machine_free(m);
}

static void test_what_is_not_known(void **unused)
{
        struct machine *m = machine_new();
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        details(m, QUIET, 0, &c);
        assert_true(has(&c, "7.0 = disk - + uring - + other 7.0   cores -"));
        assert_true(has(&c, "none of its threads"));
        assert_true(has(&c, "rings    -"));
        details(m, GONE, 0, &c);
        assert_true(has(&c, "PID 4711 has ended"));
        details(m, EVIL, 0, &c);
        assert_true(has(&c, "\\x1b[2J"));
        canvas_fini(&c);
        machine_free(m);
}

/* Columns of the processes where there is room for them; and one may sort by them anywhere. */
static void test_columns(void **unused)
{
        struct machine *m = machine_new();
        struct panel panel;
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 20, 200);
        panel_init(&panel, &view_task, "%CPU");
        view_task.gather(&panel, &m->look);
        view_task.draw(&panel, &m->look, &c);
        assert_true(has(&c, "wa=disk +uring +other"));
        assert_true(has(&c, "31.0  490.0    0.0"));
        panel_fini(&panel);
        panel_init(&panel, &view_task, "wa_other");
        canvas_resize(&c, 20, 60);
        view_task.gather(&panel, &m->look);
        view_task.draw(&panel, &m->look, &c);
        assert_true(has(&c, "+other"));
        assert_int_equal(panel.count, 3);
        assert_int_equal(panel.lines[0].id, REACTORS); /* waits in D state: on top whatever the order, */
        assert_int_equal(panel.lines[1].id, EVIL);     /* and among those what is not known comes last */
        assert_int_equal(panel.lines[2].id, QUIET);
        panel_fini(&panel);
        canvas_fini(&c);
        machine_free(m);
}

static int show(const char *what)
{
        static char line[CANVAS_SIDE * 4];
        int rows = 24, cols = 80;
        unsigned pid = REACTORS;
        struct machine *m = machine_new();
        struct canvas c;
        sscanf(what, "%dx%d:%u", &rows, &cols, &pid);
        setlocale(LC_CTYPE, "");
        canvas_init(&c, true);
        canvas_resize(&c, rows, cols);
        details(m, pid, 0, &c);
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
        const char *what = getenv("WATOP_SHOW");
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_size),
                cmocka_unit_test(test_standard),
                cmocka_unit_test(test_what_is_not_known),
                cmocka_unit_test(test_columns),
        };
        if (what)
                return show(what);
        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The live screen without a terminal: canvas, layout and views, on states made by hand.
 *
 * WATOP_SHOW=ROWSxCOLS[:STATE[:KEYS]] prints one picture instead of testing, to be looked at.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/device_seen.h"
#include "tui/view.h"

#define SECOND UINT64_C(1000000000)

/* ---- states ------------------------------------------------------------------------------------------------------ */

enum made { MADE_REACTOR, MADE_DISK, MADE_MANY, MADE_FIRST, MADE_HOSTILE, MADE_NOTHING, MADE_WAITS, MADE_STOPS, MADE_COUNT };

struct machine {
        struct sample *sample;
        struct state *state;
        struct tally tally;
        struct verdict verdict;
        struct attach_info source;
        struct look look;
        struct panel panels[PANEL_COUNT];
        unsigned char history[HISTORY_CORES * HISTORY_STEPS];
};

static void text(struct row *row, int metric, const char *words)
{
        row_text(row, metric, words, strlen(words));
}

static struct row *row_of(struct machine *m, enum scope scope, uint64_t a, uint64_t b)
{
        struct row *row = sample_row(m->sample, scope, (struct key){a, b}, 0);
        assert_non_null(row);
        return row;
}

static void add_core(struct machine *m, unsigned cpu, unsigned step, enum made made)
{
        struct row *row = row_of(m, SCOPE_CPU, cpu, 0);
        uint64_t t = step * 10000000u;
        uint64_t us = made == MADE_MANY ? 10 + cpu % 29 : made == MADE_DISK ? 2 : 11, sy = 13, hi = 3, si = 11, wa = 62 - (cpu % 4) * 5;
        row_set(row, CPU_USER, us * t);
        row_set(row, CPU_NICE, 0);
        row_set(row, CPU_SYSTEM, sy * t);
        row_set(row, CPU_IDLE, (100 - us - sy - hi - si - (made == MADE_MANY ? 0 : wa)) * t);
        row_set(row, CPU_IOWAIT, (made == MADE_MANY ? 0 : wa) * t);
        row_set(row, CPU_IRQ, hi * t);
        row_set(row, CPU_SOFTIRQ, si * t);
        row_set(row, CPU_STEAL, 0);
        row_set(row, CPU_GUEST, 0);
        row_set(row, CPU_GUEST_NICE, 0);
        uint64_t disk = made == MADE_DISK ? wa * t : 0, uring = made == MADE_DISK || made == MADE_MANY ? 0 : wa * t;
        row_set(row, CPU_WA_DISK, disk);
        row_set(row, CPU_WA_URING, uring);
        row_set(row, CPU_WA_OTHER, 0);
        row_set(row, CPU_WA_DISK_MIN, disk);
        row_set(row, CPU_WA_DISK_MAX, made == MADE_DISK ? disk + t : disk);
        row_set(row, CPU_WA_URING_MIN, uring);
        row_set(row, CPU_WA_URING_MAX, uring);
        row_set(row, CPU_WA_TAKEN_BACK, 0);
        row_set(row, CPU_BY_PARKED, disk + uring);
}

static void add_disk(struct machine *m, unsigned index, unsigned step, const char *name, const char *kind, const char *slaves,
        unsigned rate, bool stuck)
{
        struct row *row = row_of(m, SCOPE_DISK, key_of_name(name, strlen(name), 0).a, index);
        static const int zero[] = {DISK_READS_MERGED, DISK_WRITES_MERGED, DISK_DISCARDS, DISK_DISCARDS_MERGED,
                 DISK_DISCARD_BYTES, DISK_DISCARD_TIME};
        uint64_t n = (uint64_t)rate * step;
        text(row, DISK_NAME, name);
        text(row, DISK_SLAVES, slaves);
        row_set(row, DISK_KIND, (unsigned char)kind[0]);
        if (kind[0] == 's')
                text(row, DISK_DM_NAME, "vg0-root");
        for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++)
                row_set(row, zero[i], 0);
        row_set(row, DISK_READS, n / 2);
        row_set(row, DISK_READ_BYTES, n * 4096);
        row_set(row, DISK_READ_TIME, n * 300000);
        row_set(row, DISK_WRITES, n);
        row_set(row, DISK_WRITE_BYTES, n * 16384);
        row_set(row, DISK_WRITE_TIME, n * 412000000);
        row_set(row, DISK_IO_TIME, rate ? step * (SECOND - 4000000) : 0);
        row_set(row, DISK_QUEUE_TIME, n * 412300000);
        row_set(row, DISK_INFLIGHT, stuck || rate > 100 ? 61 : 0);
        row_set(row, DISK_NR_REQUESTS, 64);
        row_set(row, DISK_STUCK, stuck ? 38 * SECOND : 0);
        row_set(row, DISK_IOSTATS, 1);
        row_set(row, DISK_FLUSHES, n / 10);
        row_set(row, DISK_FLUSH_TIME, n * 100000);
}

static void add_task(struct machine *m, unsigned pid, unsigned step, const char *comm, unsigned usage, char letter, const char *command)
{
        struct row *row = row_of(m, SCOPE_PROCESS, pid, 1);
        text(row, PROCESS_COMM, comm);
        text(row, PROCESS_CMDLINE, command);
        text(row, PROCESS_USER, pid % 3 ? "root" : "a-long-user-name");
        text(row, PROCESS_UNIT, "dragonfly.service");
        text(row, PROCESS_WCHAN, letter == 'D' ? "folio_wait_bit_common" : "");
        row_set(row, PROCESS_USER_TIME, (uint64_t)usage * 4000000 * step);
        row_set(row, PROCESS_SYSTEM_TIME, (uint64_t)usage * 6000000 * step);
        row_set(row, PROCESS_GUEST_TIME, 0);
        row_set(row, PROCESS_RUN_DELAY, 0);
        row_set(row, PROCESS_STATE, (unsigned char)letter);
        row_set(row, PROCESS_SINCE, letter == 'D' ? SECOND : 900 * SECOND);
        row_set(row, PROCESS_THREADS, pid % 5 + 1);
        row_set(row, PROCESS_CORE, pid % 8);
        row_set(row, PROCESS_RSS, (uint64_t)pid << 16);
        row_set(row, PROCESS_START, SECOND);
        row_set(row, PROCESS_UID, 1000);
        if (pid % 2) {
                row_set(row, PROCESS_READ_BYTES, 0);
                row_set(row, PROCESS_WRITE_BYTES, (uint64_t)usage * 4096 * step);
        }
        for (unsigned i = 0; i < pid % 5; i++) {
                struct row *thread = row_of(m, SCOPE_THREAD, pid + i, 1);
                text(thread, THREAD_COMM, comm);
                row_set(thread, THREAD_TGID, pid);
                row_set(thread, THREAD_USER_TIME, (uint64_t)usage * 1000000 * step);
                row_set(thread, THREAD_SYSTEM_TIME, (uint64_t)usage * 1000000 * step);
                row_set(thread, THREAD_STATE, 'S');
                row_set(thread, THREAD_CORE, i);
        }
}

static void add_fact(struct machine *m, const char *name, const char *value)
{
        struct row *row = row_of(m, SCOPE_FACT, key_of_name(name, strlen(name), 0).a, 0);
        text(row, FACT_NAME, name);
        text(row, FACT_VALUE, value);
}

/* What sleeps and still may not be left out: processes whose threads wait, devices that hold requests. */
static void add_waits(struct machine *m, enum scope scope, unsigned step)
{
        for (unsigned n = 0; scope == SCOPE_PROCESS && n < 101; n++) {
                char name[16];
                snprintf(name, sizeof name, n == 100 ? "reactor" : "hang%u", n);
                add_task(m, 50000 + n * 10, step, name, 0, 'S', "");
        }
        for (unsigned n = 0; scope == SCOPE_WAITER && n < 101; n++) {
                struct row *row = row_of(m, SCOPE_WAITER, 50003 + n * 10, 1);
                row_set(row, WAITER_TGID, 50000 + n * 10);
                row_set(row, WAITER_STATE, n == 100 ? 'S' : 'D');
                row_set(row, WAITER_WITNESS, n == 100 ? 3 : 6);
                row_set(row, WAITER_SINCE, SECOND);
                text(row, WAITER_COMM, "pool");
                text(row, WAITER_WCHAN, "rpc_wait_bit_killable");
        }
        if (scope != SCOPE_DISK)
                return;
        add_disk(m, 4, step, "sdpass", "w", "", 0, false); /* only the driver knows of its request */
        struct row *pass = row_of(m, SCOPE_DISK, key_of_name("sdpass", 6, 0).a, 4);
        row_set(pass, DISK_DRIVER_READS, 1);
        row_set(pass, DISK_DRIVER_WRITES, 0);
        add_disk(m, 5, step, "md0", "s", "md1", 7, false);  /* a circle */
        add_disk(m, 6, step, "md1", "s", "md0", 7, false);
        add_disk(m, 7, step, "nvme0c0n1", "h", "", 0, true); /* a path that hangs */
        add_disk(m, 8, step, "nvme0c1n1", "h", "", 5, false);
        add_disk(m, 9, step, "unused", "w", "", 0, false);
}

static void begin_scope(struct machine *m, enum scope scope, uint64_t now)
{
        sample_scope_begin(m->sample, scope, now);
}

static void frame(struct machine *m, unsigned step, enum made made)
{
        uint64_t now = (1000 + step) * SECOND;
        struct sample_stamp stamp = {now, now, UINT64_C(1796072400) * SECOND + now};
        static const enum scope on[] = {SCOPE_SYSTEM, SCOPE_CPU, SCOPE_DISK, SCOPE_PROCESS, SCOPE_THREAD, SCOPE_WAITER, SCOPE_FACT};
        static const char evil[] = "\033[2J\x9b" "31mX\177\xff\xc3\xa9\xe4\xb8\xad\n\r\tY";
        uint32_t mask = 0;

        sample_begin(m->sample, &stamp);
        for (size_t i = 0; i < sizeof on / sizeof on[0]; i++) {
                begin_scope(m, on[i], now);
                mask |= SCOPE_BIT(on[i]);
                if (on[i] == SCOPE_SYSTEM) {
                        struct row *row = row_of(m, SCOPE_SYSTEM, 0, 0);
                        row_set(row, SYSTEM_LOAD1, 831);
                        row_set(row, SYSTEM_LOAD5, 790);
                        row_set(row, SYSTEM_LOAD15, 402);
                        row_set(row, SYSTEM_RUNNING, 5);
                        row_set(row, SYSTEM_DSTATE, 3);
                        row_set(row, SYSTEM_UPTIME, now * 300);
                }
                if (on[i] == SCOPE_CPU)
                        for (unsigned cpu = 0; cpu < (made == MADE_MANY ? 256u : made == MADE_NOTHING ? 0u : 8u); cpu++)
                                add_core(m, cpu, step, made);
                if (on[i] == SCOPE_DISK && made != MADE_NOTHING) {
                        add_disk(m, 1, step, made == MADE_HOSTILE ? evil : "sda", "w", "", made == MADE_DISK ? 146 : 4, false);
                        add_disk(m, 2, made == MADE_STOPS && step > 2 ? 2 : step, "dm-0", "s", "sda", 4, false);
                        add_disk(m, 3, step, "sdb", "w", "", 0, made == MADE_DISK);
                        for (unsigned n = 0; made == MADE_MANY && n < 60; n++) {
                                char name[16];
                                snprintf(name, sizeof name, "nvme%un1", n);
                                add_disk(m, 10 + n, step, name, "w", "", n * 1000, false);
                        }
                }
                if (on[i] == SCOPE_PROCESS && made != MADE_NOTHING) {
                        add_task(m, 719118, step, made == MADE_HOSTILE ? evil : "dragonfly", 203, 'S',
                                made == MADE_HOSTILE ? evil : "/usr/bin/dragonfly --port 6379");
                        add_task(m, 1042, step, "rsyslogd", 1, 'S', "rsyslogd -n");
                        add_task(m, 77, step, "jbd2/sda1-8", 0, made == MADE_DISK ? 'D' : 'S', "");
                        for (unsigned n = 0; n < (made == MADE_MANY ? 3000u : 30u); n++)
                                add_task(m, 2000 + n * 10, step, "worker", n % 7, 'S', "worker --all");
                }
                if (made == MADE_WAITS)
                        add_waits(m, on[i], step);
                if (on[i] == SCOPE_FACT && made != MADE_NOTHING) {
                        add_fact(m, "host", made == MADE_HOSTILE ? evil : "dfly1");
                        add_fact(m, "kernel", "5.14.0-503.35.1.el9_5");
                }
                sample_scope_end(m->sample, on[i], now + 1000, GONE_EXITED);
        }
        const void *bytes = NULL;
        size_t length = 0;
        struct seal seal = {.scopes_on = mask, .tick_ns = SECOND, .boot_id = {1}};
        assert_int_equal(sample_seal(m->sample, &seal, &bytes, &length), 0);
        assert_int_equal(state_apply(m->state, bytes, NULL), 0);
}

static struct machine *machine_new(enum made made, bool utf8)
{
        struct machine *m = calloc(1, sizeof *m);
        assert_non_null(m);
        assert_int_equal(sample_new(&m->sample), 0);
        assert_int_equal(state_new(&m->state), 0);
        frame(m, 1, made);
        if (made != MADE_FIRST) {
                state_base(m->state);
                frame(m, 2, made);
        }
        tally_make(m->state, &m->tally);
        verdict_make(m->state, &m->tally, &m->verdict);
        memset(m->history, 40, sizeof m->history);
        m->source = (struct attach_info){.private_daemon = true, .same_pid_ns = true, .gaps = made == MADE_DISK};
        m->look = (struct look){.state = m->state, .tally = &m->tally, .verdict = &m->verdict, .source = &m->source, .gone_seconds = -1,
                .interval_ns = SECOND, .selected = PANEL_TASK, .choose = -2, .history = m->history};
        panel_init(&m->panels[PANEL_CPU], &view_cpu, NULL);
        panel_init(&m->panels[PANEL_DISK], &view_disk, NULL);
        panel_init(&m->panels[PANEL_TASK], &view_task, "%CPU");
        (void)utf8;
        return m;
}

static void machine_free(struct machine *m)
{
        for (int i = 0; i < PANEL_COUNT; i++)
                panel_fini(&m->panels[i]);
        state_free(m->state);
        sample_free(m->sample);
        free(m);
}

static void picture(struct machine *m, struct canvas *c)
{
        for (int i = 0; i < PANEL_COUNT; i++)
                m->panels[i].view->gather(&m->panels[i], &m->look);
        look_draw(&m->look, m->panels, c);
}

static bool picture_has(const struct canvas *c, const char *wanted)
{
        static char line[CANVAS_SIDE * 4];
        for (int row = 0; row < c->rows; row++) {
                canvas_line(c, row, line, sizeof line);
                if (strstr(line, wanted))
                        return true;
        }
        return false;
}

/* ---- canvas ------------------------------------------------------------------------------------------------------ */

static void check_cells(const struct canvas *c)
{
        for (int row = 0; row < c->rows; row++)
                for (int col = 0; col < c->cols; col++) {
                        const struct cell *cell = c->cells + row * c->cols + col;
                        if (cell->ch == 0) { /* a right half has its left one */
                                assert_true(col > 0);
                                assert_true(cell[-1].ch > 0x7f);
                        } else {
                                assert_true(cell->ch >= 0x20 && cell->ch != 0x7f && (cell->ch < 0x80 || cell->ch >= 0xa0));
                        }
                        assert_true(cell->style < STYLE_COUNT);
                }
}

static void test_clip(void **unused)
{
        struct canvas c;
        char line[64];
        (void)unused;
        canvas_init(&c, true);
        assert_int_equal(canvas_resize(&c, 4, 10), 0);
        canvas_clip(&c, (struct area){1, 2, 2, 5});
        static const int odd[] = {-1000000, -3, -1, 0, 1, 4, 5, 1000000, 2147483647};
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
                for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
                        canvas_put(&c, odd[i], odd[k], 100, STYLE_BAD, "abcdefghijklmnop");
                        canvas_right(&c, odd[i], odd[k] / 2, odd[i] / 2, STYLE_BAD, "123456789");
                }
        assert_int_equal(canvas_line(&c, 0, line, sizeof line), 0);
        assert_int_equal(canvas_line(&c, 3, line, sizeof line), 0);
        for (int row = 1; row < 3; row++) {
                assert_int_equal(c.cells[row * 10 + 1].ch, ' ');
                assert_int_equal(c.cells[row * 10 + 7].ch, ' ');
        }
        canvas_clip(&c, (struct area){-5, 8, 100, 100});
        assert_int_equal(c.clip.rows, 4);
        assert_int_equal(c.clip.cols, 2);
        canvas_fini(&c);
}

static void test_wide(void **unused)
{
        struct canvas c;
        (void)unused;
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                skip();
        canvas_init(&c, true);
        canvas_resize(&c, 1, 5);
        assert_int_equal(canvas_put(&c, 0, 0, 5, STYLE_PLAIN, "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97"), 4); /* three wide ones: two fit */
        assert_int_equal(c.cells[0].ch, 0x4e2d);
        assert_int_equal(c.cells[1].ch, 0);
        assert_int_equal(c.cells[4].ch, ' ');
        canvas_put(&c, 0, 1, 1, STYLE_PLAIN, "x"); /* over a right half: the left one goes */
        assert_int_equal(c.cells[0].ch, ' ');
        canvas_put(&c, 0, 2, 1, STYLE_PLAIN, "y"); /* over a left half: the right one goes */
        assert_int_equal(c.cells[3].ch, ' ');
        check_cells(&c);
        assert_int_equal(canvas_put(&c, 0, 0, 5, STYLE_PLAIN, "\xff\xc0\xaf\xe4\xb8" "A\033\x9b"), 5);
        check_cells(&c);
        canvas_fini(&c);
}

static void test_right_never_shortens_a_number(void **unused)
{
        struct canvas c;
        char line[16];
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 1, 4);
        canvas_right(&c, 0, 0, 4, STYLE_PLAIN, "12345.6");
        canvas_line(&c, 0, line, sizeof line);
        assert_string_equal(line, ">5.6");
        canvas_fini(&c);
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static void claim(unsigned char *grid, int rows, int cols, struct area a)
{
        assert_true(a.row >= 0 && a.col >= 0 && a.rows >= 0 && a.cols >= 0);
        assert_true(a.row + a.rows <= rows && a.col + a.cols <= cols);
        for (int row = a.row; row < a.row + a.rows; row++)
                assert_int_equal(grid[row]++, 0);
}

static void test_layout(void **unused)
{
        static const int wishes[][PANEL_COUNT] = {{10, 3, 40}, {258, 60, 9000}, {1, 1, 1}, {2, 2, 2}, {66, 2, 5}, {3, 500, 3}};
        (void)unused;
        for (int rows = 1; rows <= 120; rows++)
                for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++)
                        for (int selected = 0; selected < PANEL_COUNT; selected++)
                                for (int head = 0; head <= 4; head++) {
                                        unsigned char grid[200] = {0};
                                        struct layout l;
                                        int foot = foot_rows(rows);
                                        if (head + foot > rows)
                                                continue;
                                        layout_make(&l, rows, 80, head, foot, wishes[w], (enum panel_id)selected, w % 2);
                                        claim(grid, rows, 80, l.head);
                                        claim(grid, rows, 80, l.foot);
                                        for (int i = 0; i < PANEL_COUNT; i++)
                                                claim(grid, rows, 80, l.panel[i]);
                                        if (rows - head - foot > 0)
                                                assert_true(l.panel[selected].rows > 0);
                                }
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void test_every_size(void **unused)
{
        struct canvas c;
        (void)unused;
        setlocale(LC_CTYPE, "C.UTF-8");
        for (int made = 0; made < MADE_COUNT; made++) {
                struct machine *m = machine_new((enum made)made, true);
                canvas_init(&c, made % 2);
                for (int rows = 1; rows <= 60; rows += rows < 12 ? 1 : 6)
                        for (int cols = 1; cols <= 200; cols += cols < 30 ? 1 : 17) {
                                m->look.selected = (enum panel_id)((rows + cols) % PANEL_COUNT);
                                m->look.threads = cols % 2;
                                m->look.command = rows % 2;
                                assert_int_equal(canvas_resize(&c, rows, cols), 0);
                                picture(m, &c);
                                check_cells(&c);
                                help_draw(&m->look, &c, 0);
                                check_cells(&c);
                                detail_draw(&m->look, (struct key){719118, 1}, (size_t)(cols % 3), &c);
                                check_cells(&c);
                        }
                canvas_fini(&c);
                machine_free(m);
        }
}

static void test_smallest_shows_wa(void **unused)
{
        struct machine *m = machine_new(MADE_REACTOR, false);
        struct canvas c;
        char line[128];
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 1, 80);
        picture(m, &c);
        canvas_line(&c, 0, line, sizeof line);
        assert_int_equal(strncmp(line, "wa", 2), 0);
        canvas_resize(&c, 2, 80);
        picture(m, &c);
        canvas_line(&c, 0, line, sizeof line);
        assert_int_equal(strncmp(line, "load", 4), 0);
        canvas_resize(&c, 1, 8);
        picture(m, &c);
        canvas_line(&c, 0, line, sizeof line);
        assert_int_equal(strncmp(line, "wa ", 3), 0);
        canvas_fini(&c);
        machine_free(m);
}

static void test_standard_screen(void **unused)
{
        struct machine *m = machine_new(MADE_REACTOR, false);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        picture(m, &c);
        static const char *const there[] = {"dfly1", "wa=disk", "+uring", "+other", "SUM", "Device", "dm-0",
                 "Command", "dragonfly", "loadavg 8.31", "4 run", "%CPU: user", "? help"};
        for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
                if (!picture_has(&c, there[i]))
                        fail_msg("the standard screen lacks %s", there[i]);
        assert_true(picture_has(&c, "sda"));
        assert_false(picture_has(&c, "sdb")); /* never used, nothing in flight */
        canvas_fini(&c);
        machine_free(m);
}

static void test_idle_looks_idle(void **unused)
{
        struct machine *m = machine_new(MADE_REACTOR, false);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 48, 160);
        picture(m, &c);
        assert_true(picture_has(&c, "########............")); /* load 38, wa 62 of it io_uring: dots, no w */
        assert_false(picture_has(&c, "#w"));
        machine_free(m);
        m = machine_new(MADE_DISK, false);
        picture(m, &c);
        assert_true(picture_has(&c, "#w"));
        canvas_fini(&c);
        machine_free(m);
}

static void test_many_cores(void **unused)
{
        struct machine *m = machine_new(MADE_MANY, false);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        picture(m, &c);
        assert_true(picture_has(&c, "SUM"));
        assert_true(picture_has(&c, "more cores at load"));
        m->look.selected = PANEL_CPU;
        picture(m, &c);
        panel_move(&m->panels[PANEL_CPU], 300);
        panel_move(&m->panels[PANEL_CPU], 300);
        picture(m, &c);
        assert_int_equal(m->panels[PANEL_CPU].cursor, 255);
        canvas_fini(&c);
        machine_free(m);
}

static void test_stuck_and_waiting_on_top(void **unused)
{
        struct machine *m = machine_new(MADE_DISK, false);
        struct canvas c;
        char line[256];
        int device = -1, task = -1;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 30, 100);
        picture(m, &c);
        for (int row = 0; row < 30; row++) {
                canvas_line(&c, row, line, sizeof line);
                if (strncmp(line, "Device", 6) == 0)
                        device = row;
                if (strstr(line, "PID USER"))
                        task = row;
        }
        assert_true(device > 0 && task > 0);
        canvas_line(&c, device + 1, line, sizeof line);
        assert_non_null(strstr(line, "STUCK"));
        canvas_line(&c, task + 1, line, sizeof line);
        assert_non_null(strstr(line, "jbd2/sda1-8"));
        canvas_fini(&c);
        machine_free(m);
}

static void test_waits_are_never_idle(void **unused)
{
        struct machine *m = machine_new(MADE_WAITS, false);
        struct canvas c;
        char name[16];
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 200, 200);
        picture(m, &c);
        for (unsigned n = 0; n < 100; n++) {
                snprintf(name, sizeof name, " hang%u ", n);
                assert_true(picture_has(&c, name));
        }
        assert_true(picture_has(&c, "D 1001 s in rpc_wait"));
        assert_true(picture_has(&c, "reactor"));
        static const char *const seen[] = {"sdpass", "md0", "md1", "nvme0c0n1"};
        for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
                assert_true(picture_has(&c, seen[i]));
        assert_false(picture_has(&c, "nvme0c1n1")); /* its head has those requests */
        assert_false(picture_has(&c, "unused"));
        canvas_fini(&c);
        machine_free(m);
}

/* A stacked device that pauses keeps its line as far as the strips of the cores reach, then it goes; a disk keeps its own. */
static void test_devices_once_used(void **unused)
{
        struct machine *m = machine_new(MADE_STOPS, false);
        struct device_seen seen = {0};
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 60, 160);
        m->look.devices = &seen;
        for (unsigned step = 2; step <= HISTORY_STEPS + 4; step++) {
                if (step > 2) {
                        state_base(m->state);
                        frame(m, step, MADE_STOPS);
                }
                device_seen_note(&seen, m->state);
                picture(m, &c);
                assert_int_equal(picture_has(&c, "dm-0"), step <= HISTORY_STEPS + 2);
                assert_true(picture_has(&c, "sda"));
        }
        m->look.idle = true;
        picture(m, &c);
        assert_true(picture_has(&c, "dm-0"));
        m->look.idle = false;
        device_seen_fini(&seen); /* and of whom nothing is known: as if it had not been used */
        picture(m, &c);
        assert_false(picture_has(&c, "dm-0"));
        canvas_fini(&c);
        machine_free(m);
}

/* What does not fit goes on below: the end of a line may be its point. */
static void test_why_wraps(void **unused)
{
        struct machine *m = machine_new(MADE_DISK, false);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 40, 60);
        why_draw(&m->look, &c);
        check_cells(&c);
        assert_true(picture_has(&c, "STUCK 38 s"));
        assert_false(picture_has(&c, "watopd"));
        m->look.gone_seconds = 3; /* an old answer says that it is old */
        why_draw(&m->look, &c);
        assert_true(picture_has(&c, "watopd is gone   any key leaves"));
        canvas_resize(&c, 3, 1);
        why_draw(&m->look, &c);
        canvas_fini(&c);
        machine_free(m);
}

static void test_first_screen(void **unused)
{
        struct machine *m = machine_new(MADE_FIRST, false);
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        picture(m, &c);
        assert_true(picture_has(&c, "rates after the first interval"));
        assert_true(picture_has(&c, "rsyslogd"));
        assert_true(picture_has(&c, "wa   -"));
        m->look.state = NULL;
        m->look.tally = NULL;
        m->look.verdict = NULL;
        m->look.source = NULL;
        picture(m, &c);
        assert_true(picture_has(&c, "wa   -"));
        canvas_fini(&c);
        machine_free(m);
}

static void test_hostile_text(void **unused)
{
        struct machine *m = machine_new(MADE_HOSTILE, false);
        struct canvas c;
        (void)unused;
        for (int utf8 = 0; utf8 < 2; utf8++) {
                canvas_init(&c, utf8);
                canvas_resize(&c, 48, 160);
                picture(m, &c);
                check_cells(&c);
                assert_true(picture_has(&c, "\\x1b[2J"));
                m->look.command = true;
                canvas_fini(&c);
        }
        machine_free(m);
}

/* The first lines are the same as a whole sort would give, whatever is asked first. */
static void test_partial_order(void **unused)
{
        struct panel part, whole;
        (void)unused;
        panel_init(&part, &view_task, "%CPU");
        panel_init(&whole, &view_task, "%CPU");
        uint64_t seed = 7;
        for (unsigned i = 0; i < 5000; i++) {
                seed = seed * UINT64_C(6364136223846793005) + 1;
                struct panel_line *line = panel_add(&part, NULL, i);
                line->sort = (double)(seed >> 60);
                line->has_sort = (seed >> 40) % 5 != 0;
                line->pinned = (seed >> 50) % 997 == 0;
                *panel_add(&whole, NULL, i) = *line;
        }
        panel_order(&whole, 5000);
        static const size_t counts[] = {1, 2, 30, 31, 2500, 4967, 4968, 4999, 5000};
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
                panel_order(&part, counts[k]);
                for (size_t i = 0; i < counts[k]; i++)
                        assert_int_equal(part.lines[i].id, whole.lines[i].id);
        }
        panel_fini(&part);
        panel_fini(&whole);
}

/* The cursor stays on its row while order changes, and on its place when the row goes. */
static void test_cursor_follows(void **unused)
{
        struct machine *m = machine_new(MADE_REACTOR, false);
        struct panel *p = &m->panels[PANEL_TASK];
        struct canvas c;
        (void)unused;
        canvas_init(&c, false);
        canvas_resize(&c, 24, 80);
        picture(m, &c);
        panel_move(p, 1);
        panel_move(p, 3);
        uint64_t id = p->cursor_id;
        size_t place = p->cursor;
        p->reverse = true;
        picture(m, &c);
        assert_int_equal(p->cursor_id, id);
        assert_true(p->cursor != place);
        assert_true(p->cursor >= p->top && p->cursor < p->top + (size_t)p->page);
        canvas_fini(&c);
        machine_free(m);
}

/* Two pictures of the same state are the same: nothing jitters. */
static void test_calm(void **unused)
{
        struct machine *m = machine_new(MADE_MANY, false);
        struct canvas a, b;
        (void)unused;
        canvas_init(&a, false);
        canvas_init(&b, false);
        canvas_resize(&a, 50, 132);
        canvas_resize(&b, 50, 132);
        picture(m, &a);
        picture(m, &b);
        assert_memory_equal(a.cells, b.cells, 50 * 132 * sizeof *a.cells);
        canvas_fini(&a);
        canvas_fini(&b);
        machine_free(m);
}

/* The threads' view lists the same columns in the same order: view_task.c goes from one to the other by place. */
static void test_parallel_columns(void **unused)
{
        const struct view_info *task = metric_view(VIEW_TASK), *thread = metric_view(VIEW_TASK_THREAD);
        (void)unused;
        assert_int_equal(task->count, thread->count);
        assert_true(task->count <= PANEL_COLUMNS);
        for (size_t i = 0; i < task->count; i++)
                assert_string_equal(task->columns[i].head, thread->columns[i].head);
}

static int show(const char *what)
{
        int rows = 24, cols = 80, made = 0;
        char keys[64] = "";
        static char line[CANVAS_SIDE * 4];
        struct canvas c;
        sscanf(what, "%dx%d:%d:%63s", &rows, &cols, &made, keys);
        setlocale(LC_CTYPE, "");
        struct machine *m = machine_new((enum made)(made < MADE_COUNT ? made : 0), true);
        canvas_init(&c, true);
        canvas_resize(&c, rows, cols);
        for (const char *k = keys; *k; k++) {
                m->look.threads ^= *k == 'H';
                m->look.idle ^= *k == 'z';
                m->look.command ^= *k == 'c';
                m->look.paused ^= *k == 'p';
                m->look.gone_seconds = *k == 'g' ? 3 : m->look.gone_seconds;
                m->look.selected = *k >= '1' && *k <= '3' ? (enum panel_id)(*k - '1') : m->look.selected;
        }
        picture(m, &c);
        if (strchr(keys, '?'))
                help_draw(&m->look, &c, 0);
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
                cmocka_unit_test(test_clip),
                cmocka_unit_test(test_wide),
                cmocka_unit_test(test_right_never_shortens_a_number),
                cmocka_unit_test(test_layout),
                cmocka_unit_test(test_every_size),
                cmocka_unit_test(test_smallest_shows_wa),
                cmocka_unit_test(test_standard_screen),
                cmocka_unit_test(test_idle_looks_idle),
                cmocka_unit_test(test_many_cores),
                cmocka_unit_test(test_stuck_and_waiting_on_top),
                cmocka_unit_test(test_waits_are_never_idle),
                cmocka_unit_test(test_devices_once_used),
                cmocka_unit_test(test_why_wraps),
                cmocka_unit_test(test_first_screen),
                cmocka_unit_test(test_hostile_text),
                cmocka_unit_test(test_partial_order),
                cmocka_unit_test(test_cursor_follows),
                cmocka_unit_test(test_calm),
                cmocka_unit_test(test_parallel_columns),
        };
        const char *what = getenv("WATOP_SHOW");
        return what ? show(what) : cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The details of one process, behind Enter: who it is, what it uses, which of its threads wait, where and for what, and what it holds to do
 * I/O.
 *
 * Numbers are the table's own (the columns of view task), so they read the same here and there. What is not known is "-", and a line that
 * would say nothing is left out. Lines beyond the screen are reached by scrolling; on a tiny one the first lines are the most important.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/wchan.h"
#include "tui/clean.h"
#include "tui/view.h"

enum { LABEL = 9, COMMAND_LINES = 8, THREADS_MAX = 4096, COUNTED_CORES = 64, WIDE = 110 };
/* Columns of the waiters: where they begin, and how wide they are. */
enum { AT_NAME = 9, NAME = 12, AT_CORE = 22, CORE = 4, AT_DISK = 27, DISK = 7, AT_URING = 35, PART = 6, AT_OTHER = 42, AT_AGE = 49,
        AGE = 8, AT_WHY = 59 };

/* A page of lines, of which those from `top` on are drawn. */
struct page {
        const struct look *look;
        const struct state *state;
        const struct state_row *process;
        struct canvas *canvas;
        size_t top, count;       /* lines so far */
        int rows;                /* for them */
};

/* Row on the canvas of the next line; -1: out of sight. */
static int next_row(struct page *p)
{
        size_t line = p->count++;
        return line >= p->top && line - p->top < (size_t)p->rows ? (int)(line - p->top) : -1;
}

/* A label and its text, continued below when the screen is narrow: a cut number would be another one. At most so many lines. */
static void put_lines(struct page *p, const char *label, const char *text, int most)
{
        size_t room = p->canvas->cols > LABEL ? (size_t)(p->canvas->cols - LABEL) : 1;
        char part[512];
        do {
                size_t length = strlen(text), cut = length;
                if (length > room) {
                        for (cut = room; cut > 0 && text[cut] != ' '; cut--)
                                ;
                        cut = cut > 0 ? cut : room;
                }
                int row = next_row(p);
                if (row >= 0) {
                        snprintf(part, sizeof part, "%.*s", (int)cut, text);
                        canvas_put(p->canvas, row, 0, LABEL - 1, STYLE_HEAD, label);
                        canvas_put(p->canvas, row, LABEL, p->canvas->cols - LABEL, STYLE_PLAIN, part);
                }
                label = "";
                text += cut;
                text += strspn(text, " ");
        } while (*text && --most > 0);
}

static void put_line(struct page *p, const char *label, const char *text)
{
        put_lines(p, label, text, COMMAND_LINES);
}

static const char *text_of(const struct page *p, int metric, char *out, size_t size)
{
        size_t length = 0;
        const char *text = state_text(p->state, p->process, metric, &length);
        clean_screen(out, size, text ? text : "", text ? length : 0, p->canvas->utf8, size, NULL);
        return out;
}

/* A column of the table as it shows it. */
static const char *column_of(const struct page *p, const char *head, char out[32])
{
        const struct column *column = metric_column(VIEW_TASK, head);
        struct value value = {.kind = VALUE_ABSENT};
        if (column)
                value = metric_value(p->state, p->process, column);
        value_format(out, 32, &value, column ? column->decimals : 0);
        return out;
}

static void span(char *out, size_t size, double seconds)
{
        unsigned long long whole = (unsigned long long)seconds;
        if (whole >= 86400)
                snprintf(out, size, "%llu d %02lluh", whole / 86400, whole % 86400 / 3600);
        else if (whole >= 3600)
                snprintf(out, size, "%lluh %02llum", whole / 3600, whole % 3600 / 60);
        else if (whole >= 100)
                snprintf(out, size, "%llum %02llus", whole / 60, whole % 60);
        else
                snprintf(out, size, "%.1f s", seconds);
}

static bool age_of(const struct state *state, const struct state_row *row, int metric, char *out, size_t size)
{
        uint64_t from, now = state_info(state).boot_ns;
        if (!state_now(row, metric, &from))
                return false;
        span(out, size, now > from ? (double)(now - from) * 1e-9 : 0);
        return true;
}

/* ---- who it is ----------------------------------------------------------------------------------------------------------------------- */

static void put_identity(struct page *p)
{
        char user[64], unit[128], name[64], text[320], age[32] = "";
        uint64_t letter = 0, uid = 0;
        text_of(p, PROCESS_COMM, name, sizeof name);
        text_of(p, PROCESS_USER, user, sizeof user);
        text_of(p, PROCESS_UNIT, unit, sizeof unit);
        if (!user[0] && state_now(p->process, PROCESS_UID, &uid))
                snprintf(user, sizeof user, "uid %llu", (unsigned long long)uid);
        state_now(p->process, PROCESS_STATE, &letter);
        age_of(p->state, p->process, PROCESS_SINCE, age, sizeof age);
        bool known = letter > ' ' && letter <= '~';
        snprintf(text, sizeof text, "%llu  state %c%s%s  %s%s%s", (unsigned long long)p->process->key.a, known ? (char)letter : '-',
                age[0] ? " seen for " : "", age, user[0] ? user : "-", unit[0] ? "  " : "", unit);
        int row = next_row(p);
        if (row < 0)
                return;
        int used = canvas_put(p->canvas, row, 0, p->canvas->cols, STYLE_STRONG, name[0] ? name : "-");
        canvas_put(p->canvas, row, used + 1, p->canvas->cols - used - 1, letter == 'D' ? STYLE_BAD : STYLE_PLAIN, text);
}

/* The command line; in ASCII when it takes more than one line, so that each byte has its column. */
static void put_command(struct page *p)
{
        static char clean[4 * TEXT_MAX + 1];
        size_t length = 0, columns = 0, room = p->canvas->cols > LABEL ? (size_t)(p->canvas->cols - LABEL) : 0;
        const char *text = state_text(p->state, p->process, PROCESS_CMDLINE, &length);
        if (!text || length == 0)
                return;
        clean_screen(clean, sizeof clean, text, length, p->canvas->utf8, sizeof clean, &columns);
        if (columns > room || strlen(clean) > room)
                clean_screen(clean, sizeof clean, text, length, false, sizeof clean, NULL);
        put_lines(p, "command", clean, COMMAND_LINES);
}

static void put_number(char *out, size_t size, const struct state_row *row, int metric)
{
        uint64_t value;
        if (state_now(row, metric, &value))
                snprintf(out, size, "%lld", (long long)value);
        else
                snprintf(out, size, "-");
}

static void put_start(struct page *p)
{
        struct state_info info = state_info(p->state);
        char text[200], stamp[32] = "-", age[32] = "-", parent[24], session[24], nice[24];
        uint64_t start;
        struct tm local;
        if (state_now(p->process, PROCESS_START, &start) && info.boot_ns >= start) {
                time_t seconds = (time_t)((info.real_ns - (info.boot_ns - start)) / UINT64_C(1000000000));
                if (info.real_ns && localtime_r(&seconds, &local))
                        strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
                span(age, sizeof age, (double)(info.boot_ns - start) * 1e-9);
        }
        put_number(parent, sizeof parent, p->process, PROCESS_PARENT);
        put_number(session, sizeof session, p->process, PROCESS_SESSION);
        put_number(nice, sizeof nice, p->process, PROCESS_NICENESS);
        snprintf(text, sizeof text, "%s, %s ago   parent %s  session %s  nice %s", stamp, age, parent, session, nice);
        put_line(p, "started", text);
}

/* ---- what it uses -------------------------------------------------------------------------------------------------------------------- */

struct figure { const char *label, *head, *unit; };

static void put_figures(struct page *p, const char *label, const struct figure *figures, size_t count)
{
        char text[400] = "", value[32];
        size_t length = 0;
        for (size_t i = 0; i < count; i++) {
                bool there = strcmp(column_of(p, figures[i].head, value), "-") != 0;
                int n = snprintf(text + length, sizeof text - length, "%s%s %s%s", i ? "  " : "", figures[i].label, value,
                        there ? figures[i].unit : "");
                if (n < 0 || (size_t)n >= sizeof text - length)
                        break;
                length += (size_t)n;
        }
        put_line(p, label, text);
}

static void put_use(struct page *p)
{
        static const struct figure cpu[] = {
                {"%usr", "%usr", ""}, {"%system", "%system", ""}, {"%guest", "%guest", ""}, {"%wait", "%wait", ""}, {"%CPU", "%CPU", ""},
                {"core", "CPU", ""},
        };
        static const struct figure memory[] = {
                {"RSS", "RSS", " kB"}, {"VSZ", "VSZ", " kB"}, {"%MEM", "%MEM", ""}, {"minflt", "minflt/s", "/s"}, {"majflt", "majflt/s",
                        "/s"},
        };
        static const struct figure io[] = {
                {"read", "kB_rd/s", " kB/s"}, {"write", "kB_wr/s", " kB/s"}, {"cancelled", "kB_ccwr/s", " kB/s"}, {"iodelay", "iodelay",
                        ""},
        };
        static const struct figure switches[] = {{"cswch", "cswch/s", "/s"}, {"nvcswch", "nvcswch/s", "/s"}, {"threads", "THR", ""}};
        put_figures(p, "cpu", cpu, sizeof cpu / sizeof cpu[0]);
        put_figures(p, "memory", memory, sizeof memory / sizeof memory[0]);
        put_figures(p, "io", io, sizeof io / sizeof io[0]);
        put_figures(p, "switches", switches, sizeof switches / sizeof switches[0]);
}

/* ---- its waits ----------------------------------------------------------------------------------------------------------------------- */

/* "0-3,8" of the bits; "-" for none. */
static void say_cores(uint64_t cores, char *out, size_t size)
{
        size_t length = 0;
        snprintf(out, size, "-");
        for (unsigned from = 0; from < COUNTED_CORES; from++) {
                unsigned to = from;
                char part[16];
                if (!(cores >> from & 1))
                        continue;
                while (to + 1 < COUNTED_CORES && cores >> (to + 1) & 1)
                        to++;
                int n = from == to ? snprintf(part, sizeof part, "%s%u", length ? "," : "", from)
                                   : snprintf(part, sizeof part, "%s%u-%u", length ? "," : "", from, to);
                if (length + (size_t)n + 2 >= size) {
                        snprintf(out + length, size - length, "+");
                        return;
                }
                memcpy(out + length, part, (size_t)n + 1);
                length += (size_t)n;
                from = to;
        }
}

static uint64_t cores_of(const struct state_row *waiter)
{
        uint64_t cores, core;
        if (state_now(waiter, WAITER_CORES, &cores))
                return cores;
        return state_now(waiter, WAITER_CORE, &core) && core < COUNTED_CORES ? UINT64_C(1) << core : 0;
}

/* Waiters of the process, in the order of their numbers. */
static size_t find_waiters(const struct page *p, const struct state_row *waiters[THREADS_MAX])
{
        size_t count = 0;
        for (size_t i = 0; i < state_count(p->state, SCOPE_WAITER) && count < THREADS_MAX; i++) {
                const struct state_row *row = state_at(p->state, SCOPE_WAITER, i);
                uint64_t tgid;
                if (!row->gone && state_now(row, WAITER_TGID, &tgid) && tgid == p->process->key.a)
                        waiters[count++] = row;
        }
        return count;
}

static int by_number(const void *left, const void *right)
{
        const struct state_row *a = *(const struct state_row *const *)left, *b = *(const struct state_row *const *)right;
        return a->key.a < b->key.a ? -1 : a->key.a > b->key.a;
}

static void put_parts(struct page *p, const struct state_row *const *waiters, size_t count)
{
        char text[200], cores[80], disk[32], uring[32], other[32], all[32];
        const struct value absent = {.kind = VALUE_ABSENT};
        static const char *const heads[] = {"wa_disk", "wa_uring", "wa_other"};
        struct value sum = absent;
        uint64_t mask = 0;
        for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
                struct value v = metric_value(p->state, p->process, metric_column(VIEW_TASK, heads[i]));
                if (v.kind == VALUE_NUMBER)
                        sum = (struct value){.kind = VALUE_NUMBER, .number = sum.number + v.number};
        }
        for (size_t i = 0; i < count; i++)
                mask |= cores_of(waiters[i]);
        say_cores(mask, cores, sizeof cores);
        value_format(all, sizeof all, &sum, 1);
        snprintf(text, sizeof text, "%s = disk %s + uring %s + other %s   cores %s", all, column_of(p, heads[0], disk), column_of(p,
                heads[1], uring),
                column_of(p, heads[2], other), cores);
        put_line(p, "wa", text);
}

/* A waiter's part in % of a core, as the table's columns have it. */
static const char *part_of(const struct state_row *waiter, int metric, char out[32])
{
        double delta = 0, seconds = state_row_seconds(waiter);
        struct value value = {.kind = VALUE_ABSENT};
        int outcome = state_delta(waiter, metric, &delta);
        if ((outcome == DELTA_OK || outcome == DELTA_CLAMPED) && seconds > 0)
                value = (struct value){.kind = VALUE_NUMBER, .number = delta * 1e-7 / seconds};
        value_format(out, 32, &value, 1);
        return out;
}

/* Why it sleeps: metric waiter.witness, and the wait channel in words where there are some. */
static void say_wait(const struct page *p, const struct state_row *waiter, char *out, size_t size)
{
        static const char *const proofs[] = {"", "io_uring, not counted", "io_uring", "io_uring, not proved", "io_uring, idle",
                "io_uring, storage", ""};
        static const char *const more[] = {
                "", " as iowait", "", ": whether on a device is not known", ": nothing of its own on a device", " of its own pending", "",
        };
        uint64_t witness = 0;
        char channel[64], words[128];
        state_now(waiter, WAITER_WITNESS, &witness);
        if (witness > 0 && witness < 6) {
                snprintf(out, size, "%s%s", proofs[witness], p->canvas->cols >= WIDE ? more[witness] : "");
                return;
        }
        state_text_copy(p->state, waiter, WAITER_WCHAN, channel, sizeof channel);
        const char *word = wchan_word(channel);
        clean_screen(words, sizeof words, channel, strlen(channel), false, sizeof words, NULL);
        snprintf(out, size, "%s%s%s%s", word ? word : words, word && words[0] ? " (" : "", word ? words : "", word && words[0] ? ")" : "");
}

static void put_waiter(struct page *p, const struct state_row *waiter)
{
        char number[24], name[64], part[32], age[32] = "-", why[320];
        uint64_t core = 0, letter = 0;
        size_t length = 0;
        int row = next_row(p), cols = p->canvas->cols;
        struct canvas *c = p->canvas;
        if (row < 0)
                return;
        bool at = state_now(waiter, WAITER_CORE, &core);
        state_now(waiter, WAITER_STATE, &letter);
        age_of(p->state, waiter, WAITER_SINCE, age, sizeof age);
        say_wait(p, waiter, why, sizeof why);
        snprintf(number, sizeof number, "%llu", (unsigned long long)waiter->key.a);
        canvas_right(c, row, 0, AT_NAME - 1, STYLE_PLAIN, number);
        const char *text = state_text(p->state, waiter, WAITER_COMM, &length);
        clean_screen(name, sizeof name, text ? text : "-", text ? length : 1, c->utf8, NAME, NULL);
        canvas_put(c, row, AT_NAME, NAME, STYLE_STRONG, name);
        snprintf(number, sizeof number, at ? "%llu" : "-", (unsigned long long)core);
        canvas_right(c, row, AT_CORE, CORE, STYLE_PLAIN, number);
        canvas_right(c, row, AT_DISK, DISK, STYLE_DISK, part_of(waiter, WAITER_WA_DISK, part));
        canvas_right(c, row, AT_URING, PART, STYLE_PLAIN, part_of(waiter, WAITER_WA_URING, part));
        canvas_right(c, row, AT_OTHER, PART, STYLE_OTHER, part_of(waiter, WAITER_WA_OTHER, part));
        canvas_right(c, row, AT_AGE, AGE, STYLE_PLAIN, age);
        canvas_put(c, row, AT_WHY, cols, letter == 'D' ? STYLE_BAD : STYLE_PLAIN, why);
}

static void put_waiters(struct page *p, const struct state_row *const *waiters, size_t count)
{
        struct canvas *c = p->canvas;
        next_row(p); /* blank */
        if (count == 0) {
                put_line(p, "waits", "none of its threads is known to wait for I/O now");
                return;
        }
        int row = next_row(p);
        if (row >= 0) {
                canvas_right(c, row, 0, AT_NAME - 1, STYLE_HEAD, "TID");
                canvas_put(c, row, AT_NAME, NAME, STYLE_HEAD, "waits");
                canvas_right(c, row, AT_CORE, CORE, STYLE_HEAD, "core");
                canvas_right(c, row, AT_DISK, DISK, STYLE_HEAD, "wa=disk");
                canvas_right(c, row, AT_URING, PART, STYLE_HEAD, "+uring");
                canvas_right(c, row, AT_OTHER, PART, STYLE_HEAD, "+other");
                canvas_right(c, row, AT_AGE, AGE, STYLE_HEAD, "seen for");
                canvas_put(c, row, AT_WHY, c->cols, STYLE_HEAD, "asleep in");
        }
        for (size_t i = 0; i < count; i++)
                put_waiter(p, waiters[i]);
}

/* ---- rings and contexts -------------------------------------------------------------------------------------------------------------- */

/* Each waiter's row tells of all rings of its process: the first that knows them speaks. */
static void put_rings(struct page *p, const struct state_row *const *waiters, size_t count)
{
        char text[400], rings[24], entries[24], pending[24], polls[24], ops[256] = "";
        const struct state_row *told = NULL;
        uint64_t flags = 0, any = 0, number, ignored = 0;
        for (size_t i = 0; i < count; i++) {
                if (!told && state_now(waiters[i], WAITER_PENDING, &number))
                        told = waiters[i];
                if (state_now(waiters[i], WAITER_RING_FLAGS, &flags))
                        any |= flags, ignored += flags >> 1 & 1;
        }
        put_number(rings, sizeof rings, p->process, PROCESS_RINGS);
        if (!told) {
                snprintf(text, sizeof text, "%s%s", rings, strcmp(rings, "0") == 0 || strcmp(rings, "-") == 0 ? "" :
                        "   (entries and polls are known while a thread is seen to wait on one)");
                put_line(p, "rings", text);
        } else {
                if (strcmp(rings, "-") == 0)
                        put_number(rings, sizeof rings, told, WAITER_RINGS);
                put_number(entries, sizeof entries, told, WAITER_ENTRIES);
                put_number(pending, sizeof pending, told, WAITER_PENDING);
                put_number(polls, sizeof polls, told, WAITER_POLLS);
                snprintf(text, sizeof text, "%s   entries %s   outstanding %s   armed polls %s   SQPOLL %s", rings, entries, pending, polls,
                        any & 1 ? "yes" : "no");
                put_line(p, "rings", text);
                state_text_copy(p->state, told, WAITER_POLL_OPS, ops, sizeof ops);
                if (ops[0])
                        put_line(p, "polls", ops);
        }
        if (ignored > 0) {
                snprintf(text, sizeof text, "%llu of its waits %s not counted as iowait (NO_IOWAIT, or others submit)",
                        (unsigned long long)ignored,
                        ignored == 1 ? "is" : "are");
                put_line(p, "", text);
        }
        if (state_now(p->process, PROCESS_AIO, &number))
                snprintf(text, sizeof text, "%llu %s of libaio", (unsigned long long)number, number == 1 ? "context" : "contexts");
        else
                snprintf(text, sizeof text, "-");
        put_line(p, "aio", text);
}

/* ---- the page ------------------------------------------------------------------------------------------------------------------------ */

static void put_foot(const struct look *look, struct canvas *c, size_t count, size_t top, int rows)
{
        if (rows == c->rows)
                return;
        if (look->note)
                canvas_put(c, c->rows - 1, 0, c->cols, STYLE_STRONG, look->note);
        else
                canvas_format(c, c->rows - 1, 0, c->cols, STYLE_DIM, "%sEsc or q: back   Space: %s%s",
                        look->gone_seconds < 0 ? "" : look->source &&
                        look->source->stopped ? "watopd does not answer   " : "watopd is gone   ",
                        look->paused ? "go on (paused)" : "pause", count > (size_t)rows + top || top > 0 ? "   Up Down: scroll" : "");
}

size_t detail_draw(const struct look *look, struct key key, size_t top, struct canvas *c)
{
        static const struct state_row *waiters[THREADS_MAX];
        struct page p = {.look = look, .state = look->state, .canvas = c, .top = top, .rows = c->rows >= 4 ? c->rows - 1 : c->rows};
        canvas_clear(c);
        p.process = look->state ? state_find(look->state, SCOPE_PROCESS, key) : NULL;
        if (!p.process || p.process->gone) {
                canvas_format(c, 0, 0, c->cols, STYLE_STRONG, "PID %llu has ended.", (unsigned long long)key.a);
                put_foot(look, c, 1, 0, p.rows);
                return 1;
        }
        size_t count = find_waiters(&p, waiters);
        if (count > 1)
                qsort(waiters, count, sizeof *waiters, by_number);
        put_identity(&p);
        put_parts(&p, waiters, count);
        put_rings(&p, waiters, count);
        put_use(&p);
        put_start(&p);
        put_command(&p);
        put_waiters(&p, waiters, count);
        put_foot(look, c, p.count, top, p.rows);
        return p.count;
}

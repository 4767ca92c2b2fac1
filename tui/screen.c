/*
 * The terminal, behind ncursesw. See tui/screen.h for what is promised.
 *
 * What must work inside a crash handler uses nothing but write, tcsetattr and sigaction (async-signal-safe): the bytes that leave
 * the alternate screen and the terminal's settings are put aside at the start. The handler then hands the signal on, so that the
 * exit status and the core are the crash's own.
 */
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tui/keys.h"
#include "tui/screen.h"

struct screen {
        SCREEN *curses;            /* NULL: plain lines */
        int rows, cols;
        int silent;                /* times in a row that input was announced and none came: the terminal is gone */
        bool all;                  /* send everything */
        struct cell *shown;        /* what is on the terminal */
        int shown_rows, shown_cols;
        size_t capacity;
        attr_t look[STYLE_COUNT];
        short pair[STYLE_COUNT];
};

/* ---- what the signal handlers need ------------------------------------------------------------------------------- */

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static struct {
        struct termios before;         /* settings as they were found */
        volatile sig_atomic_t active;  /* the terminal is ours now */
        char leave[256];               /* bytes that put it back */
        size_t leave_length;
        int fd;
} rescue;
static volatile sig_atomic_t end_signal, resized, stop_asked, continued;
static int wake[2] = {-1, -1};         /* written by handlers, polled by screen_wait: no signal is lost between check and sleep */

static void put_back(void)
{
        size_t done = 0;
        if (!rescue.active)
                return;
        rescue.active = 0;
        while (done < rescue.leave_length) {
                ssize_t n = write(rescue.fd, rescue.leave + done, rescue.leave_length - done);
                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        tcsetattr(rescue.fd, TCSANOW, &rescue.before);
}

static void hand_on(int signal)
{
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigset_t set;
        sigaction(signal, &plain, NULL);
        sigemptyset(&set);
        sigaddset(&set, signal);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(signal);
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
        (void)info;
        (void)context;
        put_back();
        hand_on(signal);
}

static void wake_up(void)
{
        int kept = errno;
        char byte = 0;
        if (wake[1] >= 0 && write(wake[1], &byte, 1) < 0)
                errno = 0; /* full: the reader will wake anyhow */
        errno = kept;
}

static void on_end(int signal)
{
        if (end_signal) { /* asked before, and still here: go at once */
                put_back();
                hand_on(signal);
                return;
        }
        end_signal = signal;
        wake_up();
}

static void on_resize(int signal)
{
        (void)signal;
        resized = 1;
        wake_up();
}

static void on_stop(int signal)
{
        (void)signal;
        stop_asked = 1;
        wake_up();
}

static void on_continue(int signal)
{
        (void)signal;
        continued = 1;
        wake_up();
}

static void catch_signal(int signal, void (*handler)(int))
{
        struct sigaction action = {.sa_handler = handler, .sa_flags = 0};
        sigemptyset(&action.sa_mask);
        sigaction(signal, &action, NULL);
}

void screen_guard(void)
{
        static char stack[1 << 16]; /* a crash may be a full stack */
        static bool done;
        stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
        if (done)
                return;
        done = true;
        sigaltstack(&alternate, NULL);
        for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++) {
                struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, now;
                sigemptyset(&action.sa_mask);
                if (sigaction(crash_signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) /* a sanitizer's handler stays */
                        sigaction(crash_signals[i], &action, NULL);
        }
}

static void catch_all(void)
{
        for (size_t i = 0; i < sizeof end_signals / sizeof end_signals[0]; i++)
                catch_signal(end_signals[i], on_end);
        catch_signal(SIGWINCH, on_resize);
        catch_signal(SIGTSTP, on_stop);
        catch_signal(SIGCONT, on_continue);
}

/* ---- start and end ----------------------------------------------------------------------------------------------- */

/* Add a terminal string without its padding marks ($<5>), which only matter to hardware slower than any that is left. */
static void add_leave(const char *name)
{
        char *text = tigetstr((char *)(uintptr_t)name);
        if (!text || text == (char *)-1)
                return;
        for (const char *c = text; *c && rescue.leave_length < sizeof rescue.leave; c++) {
                const char *end = c[0] == '$' && c[1] == '<' ? strchr(c, '>') : NULL;
                if (end)
                        c = end;
                else
                        rescue.leave[rescue.leave_length++] = *c;
        }
}

static void make_styles(struct screen *s)
{
        const char *no_color = getenv("NO_COLOR");
        static const attr_t plain[STYLE_COUNT] = {
                [STYLE_STRONG] = A_BOLD, [STYLE_HEAD] = A_BOLD, [STYLE_SORT] = A_REVERSE | A_BOLD,
                [STYLE_SORT_OTHER] = A_BOLD | A_UNDERLINE,
                [STYLE_DISK] = A_BOLD, [STYLE_WARN] = A_BOLD, [STYLE_BAD] = A_BOLD | A_REVERSE, [STYLE_SELECTED] = A_REVERSE,
        };
        static const short colours[STYLE_COUNT] = {
                [STYLE_HEAD] = COLOR_CYAN, [STYLE_SORT_OTHER] = COLOR_CYAN, [STYLE_LOAD] = COLOR_GREEN, [STYLE_DISK] = COLOR_RED,
                [STYLE_OTHER] = COLOR_MAGENTA, [STYLE_WARN] = COLOR_YELLOW, [STYLE_BAD] = COLOR_RED,
        };
        memcpy(s->look, plain, sizeof plain);
        if ((no_color && no_color[0]) || !has_colors() || start_color() == ERR || use_default_colors() == ERR)
                return;
        /* On a light ground dim and the plain colours stay readable; default ground and text are the user's own. */
        s->look[STYLE_DIM] = A_DIM;
        s->look[STYLE_IDLE] = A_DIM;
        for (short i = 1; i < STYLE_COUNT && i < COLOR_PAIRS; i++)
                if (colours[i] && init_pair(i, colours[i], -1) == OK)
                        s->pair[i] = i;
}

static void read_size(struct screen *s)
{
        struct winsize size = {0};
        const char *height = getenv("LINES"), *width = getenv("COLUMNS");
        s->rows = 24;
        s->cols = 80;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
                s->rows = size.ws_row;
                s->cols = size.ws_col;
        } else if (height && width) {
                long rows = strtol(height, NULL, 10), cols = strtol(width, NULL, 10);
                if (rows > 0 && cols > 0) {
                        s->rows = rows < CANVAS_SIDE ? (int)rows : CANVAS_SIDE;
                        s->cols = cols < CANVAS_SIDE ? (int)cols : CANVAS_SIDE;
                }
        }
        s->rows = s->rows < CANVAS_SIDE ? s->rows : CANVAS_SIDE;
        s->cols = s->cols < CANVAS_SIDE ? s->cols : CANVAS_SIDE;
}

static void at_exit(void)
{
        put_back();
}

static int start_curses(struct screen *s, char *why, size_t size)
{
        use_env(FALSE); /* the size is ours to find */
        s->curses = newterm(NULL, stdout, stdin);
        if (!s->curses) {
                snprintf(why, size, "the terminal type is not known here");
                return -ENOTTY;
        }
        cbreak();
        noecho();
        nonl();
        intrflush(stdscr, FALSE);
        keypad(stdscr, TRUE);
        nodelay(stdscr, TRUE);
        set_escdelay(25);
        curs_set(0);
        make_styles(s);
        read_size(s);
        resizeterm(s->rows, s->cols);
        return 0;
}

int screen_start(struct screen **out, char *why, size_t size)
{
        const char *term = getenv("TERM");
        static bool registered;
        struct screen *s = calloc(1, sizeof *s);
        int r = 0;

        if (!s)
                return -ENOMEM;
        screen_guard();
        if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0) {
                r = -errno;
                goto failed;
        }
        s->all = true;
        read_size(s);
        rescue.fd = STDOUT_FILENO;
        if (tcgetattr(rescue.fd, &rescue.before) < 0 || !isatty(STDIN_FILENO)) {
                snprintf(why, size, "the live screen needs a terminal for input and output; for pipes: watop cpu, disk, task, why");
                r = -ENOTTY;
                goto failed;
        }
        int error = 0;
        bool known = term && term[0] && setupterm(NULL, STDOUT_FILENO, &error) == OK;
        char *move = known ? tigetstr((char *)(uintptr_t)"cup") : NULL;
        if (known && move && move != (char *)-1) {
                static const char *const names[] = {"sgr0", "op", "rmkx", "cnorm", "rmcup"};
                rescue.leave_length = 0;
                char *home = tigetstr((char *)(uintptr_t)"rmcup");
                if (!home || home == (char *)-1) /* no second screen: leave ours clean */
                        add_leave("clear");
                for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                        add_leave(names[i]);
                rescue.active = 1;
                catch_all(); /* before newterm: ncurses leaves handlers that are there alone */
                r = start_curses(s, why, size);
                if (r < 0)
                        goto failed;
        } else {
                catch_all();
        }
        if (!registered)
                atexit(at_exit);
        registered = true;
        *out = s;
        return 0;
failed:
        screen_end(s);
        return r;
}

void screen_end(struct screen *s)
{
        if (!s)
                return;
        if (s->curses) {
                endwin();
                rescue.active = 0; /* endwin did it; leaving the second screen twice would move the cursor */
                tcsetattr(rescue.fd, TCSADRAIN, &rescue.before);
                delscreen(s->curses);
        }
        put_back();
        for (int i = 0; i < 2; i++) {
                int fd = wake[i];
                wake[i] = -1; /* first: a handler may write to it at any moment */
                if (fd >= 0)
                        close(fd);
        }
        free(s->shown);
        free(s);
}

void screen_size(const struct screen *s, int *rows, int *cols)
{
        *rows = s->curses || s->rows < 2 ? s->rows : s->rows - 1; /* plain lines end with a newline of their own */
        *cols = s->cols;
}

bool screen_is_plain(const struct screen *s)
{
        return !s->curses;
}

int screen_signal(const struct screen *s)
{
        (void)s;
        return end_signal;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

void screen_redraw(struct screen *s)
{
        s->all = true;
}

/* Room to remember what is on the terminal. False: no memory, then everything is sent each time. */
static bool keep_shown(struct screen *s, const struct canvas *c)
{
        size_t need = (size_t)c->rows * (size_t)c->cols;
        if (s->shown && c->rows == s->shown_rows && c->cols == s->shown_cols)
                return true;
        s->all = true;
        if (need > s->capacity) {
                struct cell *cells = realloc(s->shown, need * sizeof *cells);
                if (!cells)
                        return false;
                s->shown = cells;
                s->capacity = need;
        }
        s->shown_rows = c->rows;
        s->shown_cols = c->cols;
        return true;
}

static void draw_plain(const struct canvas *c)
{
        static char line[CANVAS_SIDE * 4 + 1];
        for (int row = 0; row < c->rows; row++) {
                canvas_line(c, row, line, sizeof line);
                puts(line);
        }
        fflush(stdout);
}

void screen_draw(struct screen *s, const struct canvas *c, int cursor_row, int cursor_col)
{
        if (!s->curses) {
                draw_plain(c);
                return;
        }
        bool kept = keep_shown(s, c), all = s->all || !kept;
        if (all) {
                erase();
                clearok(stdscr, TRUE);
        }
        for (int row = 0; row < c->rows; row++) {
                const struct cell *line = c->cells + (size_t)row * (size_t)c->cols;
                struct cell *before = kept ? s->shown + (size_t)row * (size_t)c->cols : NULL;
                for (int col = 0; col < c->cols; col++) {
                        if (!all && before[col].ch == line[col].ch && before[col].style == line[col].style)
                                continue;
                        if (before)
                                before[col] = line[col];
                        if (line[col].ch == 0) /* drawn with its left half */
                                continue;
                        wchar_t text[2] = {(wchar_t)line[col].ch, 0};
                        unsigned style = line[col].style < STYLE_COUNT ? line[col].style : STYLE_PLAIN;
                        cchar_t cell;
                        setcchar(&cell, text, s->look[style], s->pair[style], NULL);
                        mvadd_wch(row, col, &cell);
                }
        }
        s->all = false;
        if (cursor_row >= 0)
                move(cursor_row, cursor_col);
        curs_set(cursor_row >= 0 ? 1 : 0);
        refresh();
}

/* ---- keys and signals -------------------------------------------------------------------------------------------- */

static int key_of(wint_t code, bool function)
{
        if (!function)
                return code == '\r' || code == '\n' ? KEYCODE_ENTER : (int)code;
        switch (code) {
        case KEY_UP: return KEYCODE_UP;
        case KEY_DOWN: return KEYCODE_DOWN;
        case KEY_LEFT: return KEYCODE_LEFT;
        case KEY_RIGHT: return KEYCODE_RIGHT;
        case KEY_PPAGE: return KEYCODE_PAGE_UP;
        case KEY_NPAGE: return KEYCODE_PAGE_DOWN;
        case KEY_HOME: case KEY_FIND: return KEYCODE_HOME;
        case KEY_END: case KEY_SELECT: return KEYCODE_END;
        case KEY_BACKSPACE: case KEY_DC: return KEYCODE_BACKSPACE;
        case KEY_ENTER: return KEYCODE_ENTER;
        case KEY_BTAB: return KEYCODE_BACKTAB;
        case KEY_F(1): return KEYCODE_F1;
        default: return KEYCODE_NONE;
        }
}

/* Ctrl-Z: the terminal goes back, we stop, and take it again when we are continued. */
static void carry_out_stop(struct screen *s)
{
        stop_asked = 0;
        if (s->curses) {
                def_prog_mode();
                endwin();
        }
        rescue.active = 0;
        hand_on(SIGTSTP); /* returns after SIGCONT */
        catch_signal(SIGTSTP, on_stop);
        rescue.active = s->curses != NULL;
        continued = 1;
}

static enum screen_event take_signals(struct screen *s)
{
        char bytes[64];
        while (read(wake[0], bytes, sizeof bytes) > 0)
                ;
        if (end_signal)
                return SCREEN_ENDED;
        if (stop_asked)
                carry_out_stop(s);
        if (!resized && !continued)
                return SCREEN_NOTHING;
        if (continued && s->curses)
                reset_prog_mode(); /* a shell may have set the terminal its own way */
        read_size(s);
        if (s->curses)
                resizeterm(s->rows, s->cols);
        s->all = s->all || continued;
        resized = 0;
        continued = 0;
        return SCREEN_RESIZED;
}

/* A key that is there already. */
static enum screen_event take_key(struct screen *s, int *key)
{
        wint_t code = 0;
        if (!s->curses) { /* lines: q ends */
                char bytes[64];
                ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
                *key = n > 0 && bytes[0] != '\n' ? bytes[0] : KEYCODE_NONE;
                return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ? SCREEN_ENDED : SCREEN_KEY;
        }
        int r;
        do /* KEY_RESIZE comes from our own resizeterm: nobody pressed it, so it may not close what any key closes */
                r = get_wch(&code);
        while (r == KEY_CODE_YES && code == KEY_RESIZE);
        if (r == ERR)
                return SCREEN_NOTHING;
        s->silent = 0;
        *key = key_of(code, r == KEY_CODE_YES);
        return SCREEN_KEY;
}

enum screen_event screen_wait(struct screen *s, uint64_t timeout_ns, int *key)
{
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = wake[0], .events = POLLIN}};
        struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
        enum screen_event event = SCREEN_NOTHING;

        *key = KEYCODE_NONE;
        if (s->curses) /* ncurses may hold keys that poll no longer sees */
                event = take_key(s, key);
        if (event != SCREEN_NOTHING)
                return event;
        int n = ppoll(fds, 2, &timeout, NULL);
        if (n < 0 && errno != EINTR)
                return SCREEN_ENDED;
        event = take_signals(s);
        if (event != SCREEN_NOTHING || n <= 0)
                return event;
        if (fds[0].revents & POLLIN) {
                event = take_key(s, key);
                if (event == SCREEN_NOTHING && (++s->silent > 50 || (fds[0].revents & (POLLHUP | POLLERR))))
                        event = SCREEN_ENDED;
        } else if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
                event = SCREEN_ENDED;
        }
        return event;
}

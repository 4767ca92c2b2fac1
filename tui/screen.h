#pragma once
/*
 * The terminal: the only file that knows curses is screen.c.
 *
 * It carries the differences between two canvases to the terminal, reads keys and signals, and gives the terminal back as it was
 * found on every way out: screen_end, exit(), SIGINT, SIGTERM, SIGHUP, SIGQUIT, a crash (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT),
 * and around a stop (SIGTSTP). Only kill -9 cannot be answered. A terminal that cannot move its cursor (TERM=dumb) gets each picture
 * as plain lines.
 */
#include <stddef.h>
#include <stdint.h>

#include "tui/canvas.h"

struct screen;

/* Before anything else that installs handlers (the ring's SIGBUS guard hands on to ours). Safe to call twice. */
void screen_guard(void);
/* Take over the terminal. 0; or -errno with one line in `why`: no terminal, TERM unknown. */
int screen_start(struct screen **, char *why, size_t size);
/* Give it back. */
void screen_end(struct screen *);

void screen_size(const struct screen *, int *rows, int *cols);
bool screen_is_plain(const struct screen *); /* pictures are printed one below the other: draw only when there is a new report */
/* Show the canvas; `cursor_row` < 0 hides the cursor. Only cells that differ from what is there are sent. */
void screen_draw(struct screen *, const struct canvas *, int cursor_row, int cursor_col);
/* Forget what is there: the next draw sends everything. */
void screen_redraw(struct screen *);

enum screen_event {
        SCREEN_NOTHING,  /* time is over */
        SCREEN_KEY,      /* *key is a code point or an enum key_code */
        SCREEN_RESIZED,  /* ask screen_size again; also after a stop */
        SCREEN_ENDED,    /* a signal or the terminal's end: leave; screen_signal tells which signal, 0 = hang-up of the input */
};
/* Wait for a key or a signal, at most timeout_ns. Stops (Ctrl-Z) are carried out inside. */
enum screen_event screen_wait(struct screen *, uint64_t timeout_ns, int *key);
int screen_signal(const struct screen *);

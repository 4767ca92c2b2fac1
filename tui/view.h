#pragma once
/*
 * What the live screen shows, as views: each turns the state into lines of a panel and draws them on a canvas. No terminal here, no
 * sampling: the same look can be drawn again and again, at any size, after every key.
 *
 * A panel is what a person has set for a view (sort column, order, cursor, filter) plus the lines of the present look. Guarantees that
 * keep the screen calm: widths only grow (until the terminal's size or the panel's columns change), order compares what is shown
 * (equal digits do not swap), ties go by number, and only lines that are visible are sorted and turned into text.
 */
#include "tui/attach.h"
#include "tui/canvas.h"
#include "tui/heat.h"
#include "tui/tally.h"
#include "tui/verdict.h"

enum { PANEL_COLUMNS = 48, PANEL_TEXT = 64, HISTORY_CORES = 1024, HISTORY_STEPS = 40 };
enum panel_id { PANEL_CPU, PANEL_DISK, PANEL_TASK, PANEL_COUNT };

enum line_kind { LINE_ROW, LINE_SUM, LINE_REST };

struct panel_line {
        const struct state_row *row;   /* NULL for LINE_SUM and LINE_REST */
        enum line_kind kind;
        unsigned char depth;           /* indented by that much under its parent */
        bool pinned;                   /* on top whatever the order: D state for a second and more, stuck devices */
        bool has_sort, has_own;
        double sort;                   /* the parent's value for children, so that they stay with it */
        uint64_t group, id;            /* parent's and own number: ties and identity */
        double own;
};

/* Everything a view may look at. */
struct device_seen;
struct why_context;
struct look {
        const struct state *state;     /* NULL until the first frame */
        const struct tally *tally;
        const struct verdict *verdict;
        const struct attach_info *source;
        double gone_seconds;           /* >= 0: watopd is gone since; < 0: it is there */
        uint64_t interval_ns;
        bool idle, threads, command, paused;
        bool zoom;                     /* the selected panel was asked for: it gets more room */
        enum panel_id selected;
        int choose;                    /* column under the cursor while `s` is open; -2 = not open */
        const unsigned char *history;  /* HISTORY_CORES x HISTORY_STEPS loads in %, oldest first; 255 = none */
        const unsigned char *parts;    /* the same of iowait_letter; NULL or 0 = none */
        const struct device_seen *devices; /* which were used in that past; NULL = not known */
        const struct latency *latency; /* of this interval, and its past: for the view behind l; NULL elsewhere */
        const struct heat *heat;
        const struct look_place *place; /* a recording; NULL = this machine, now */
        const char *ago;               /* "12 s ago": the ring's past; NULL = now */
        const struct why_context *why; /* for the panel behind w (tui/why.h); NULL = only what the state says */
        const char *note;              /* one line for the foot: prompt, result of a key; NULL = explain the column */
};

/* Where a recording stands (tui/replay.c). Everything is made harmless already. */
struct look_place {
        char name[64];                 /* of the file */
        char position[48];             /* "123 of 3600" */
        char phase[160];               /* "phase bench_08", "mark x", or nothing */
        char speed[16];                /* "x1", "END" */
        char zone[8];                  /* its clock's offset when that is not the reader's */
        bool damaged;                  /* frames of this report could not be read */
};

struct view;

struct panel {
        const struct view *view;
        /* what a person set */
        int sort;                      /* column of the view; -1 = the key */
        bool reverse, cursor_on;
        uint64_t cursor_group, cursor_id; /* line under the cursor, wherever it moves */
        size_t cursor, top;            /* its place, and the first line shown */
        char filter[PANEL_TEXT];
        /* the present look */
        struct panel_line *lines;
        size_t count, capacity, hidden; /* hidden: left out as idle */
        size_t ordered;                /* so many lines from the start are in order */
        int page;                      /* lines that fitted when it was drawn last */
        /* columns */
        unsigned char width[PANEL_COLUMNS], key_width, shown[PANEL_COLUMNS];
        size_t shown_count;
        int cols;                      /* width that the columns were fitted to */
        bool grew;                     /* a cell needed more room: fit again, draw again */
};

struct view {
        const char *name;              /* as the help and the foot name it */
        enum view_id columns;
        unsigned char wide;            /* columns of rank 6 and more only on screens at least so wide */
        /* Make the lines. */
        void (*gather)(struct panel *, const struct look *);
        /* Rows it would like, head included; its share of a short screen is the caller's business. */
        int (*wanted)(const struct panel *, const struct look *);
        /* Draw head and lines into the canvas's clip area. */
        void (*draw)(struct panel *, const struct look *, struct canvas *);
        const char *(*head)(const struct column *); /* column's head on the screen; NULL = as the table has it */
};

extern const struct view view_cpu, view_disk, view_task;

/* ---- panel.c: what the views share ------------------------------------------------------------------------------- */

void panel_init(struct panel *, const struct view *, const char *sort_head);
void panel_fini(struct panel *);
/* Empty the lines; add one (NULL when memory is short: the line is left out). */
void panel_begin(struct panel *);
struct panel_line *panel_add(struct panel *, const struct state_row *, uint64_t id);
/* The sort value of a row in the panel's sort column, as it will be read: rounded to what is shown. False when absent. */
bool panel_value(const struct panel *, const struct look *, const struct state_row *, const struct column *, double *value);
const struct column *panel_column(const struct panel *, int index); /* NULL for the key */
const char *panel_head(const struct panel *, const struct column *);
/* Put the first `count` lines in order (the others stay behind them in no order). */
void panel_order(struct panel *, size_t count);
/* Bring cursor and top in line with the lines and the page. */
void panel_settle(struct panel *, int page);
void panel_move(struct panel *, long by);
/* Choose columns by rank for so many screen columns, of which `key` and the tail are taken. */
void panel_fit(struct panel *, int cols, int key, int tail);
/* Position of the columns' end; draws the heads of the shown columns from col on. */
int panel_heads(struct panel *, const struct look *, struct canvas *, int col);
/* Draw the cells of one line from col on; returns the column after the last. `cell` gives value and style. */
typedef enum style (*panel_cell)(const struct look *, const struct panel_line *, const struct column *, char *text, size_t size);
int panel_cells(struct panel *, const struct look *, const struct panel_line *, struct canvas *, int row, int col, panel_cell cell);
/* The text of a value and its usual style: zero and absent dim. */
enum style panel_text(const struct value *, const struct column *, char *text, size_t size);
bool text_matches(const char *bytes, size_t length, const char *wanted); /* ASCII case does not matter */
/* True when any text of the line (name, command line, user, unit) has the wanted bytes. */
bool panel_matches(const struct look *, const struct state_row *, const char *wanted);

/* ---- the parts around the panels --------------------------------------------------------------------------------- */

/* Rows the head needs at this height: wa line first, then load, then the head line, then the verdict while there is something to say. */
int head_rows(const struct look *, int rows);
void head_draw(const struct look *, struct canvas *);
/* Foot: the last line explains the selected column; the line above it (tall screens) the keys. */
int foot_rows(int rows);
void foot_draw(const struct look *, const struct panel *, struct canvas *);
void help_draw(const struct look *, struct canvas *, size_t top);
size_t help_lines(void);
void why_draw(const struct look *, struct canvas *);
/* All about one process (view_detail.c), from line `top` on. Returns how many lines there are. */
size_t detail_draw(const struct look *, struct key process, size_t top, struct canvas *);

/* The iowait view (view_iowait.c): cores and who waited on them, from line `top` on. Returns how many values of `top` make a difference. */
size_t iowait_draw(const struct look *, size_t top, struct canvas *);
/* What most of a core's wa was in the state's interval, for the strip: W disk, w partly disk, ? other, . io_uring, blank none, 0 not
 * known. */
unsigned char iowait_letter(const struct state *, const struct state_row *core);

/* The latency view (view_latency.c): what is chosen in it, and how far it is scrolled. */
struct latency_pick {
        bool chosen;                   /* a device and direction; else the one with the most time is shown */
        uint32_t device;
        uint8_t direction, stage;      /* stage: of the heat map */
        size_t top, most, page;        /* of the lists: first line, last `top` that makes a difference, lines shown */
};
void latency_draw(const struct look *, struct latency_pick *, struct canvas *);
/* The Q2C line that is chosen, or that with the most time; NULL: there is none. */
const struct latency_line *latency_picked(const struct latency *, const struct latency_pick *);

/* Where everything goes: areas do not overlap and lie inside the screen; one with rows 0 is not drawn. */
struct layout {
        struct area head, panel[PANEL_COUNT], foot;
};
void layout_make(struct layout *, int rows, int cols, int head, int foot, const int wanted[PANEL_COUNT], enum panel_id selected,
        bool zoom);
/* Gather must have been done. Draws the whole screen. */
void look_draw(const struct look *, struct panel *panels, struct canvas *);

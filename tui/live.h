#pragma once
/*
 * The live screen's state: what a person has set, and where the samples come from. live.c runs the loop, live_keys.c does what keys ask.
 */
#include "tui/device_seen.h"
#include "tui/keys.h"
#include "tui/view.h"

enum live_mode { LIVE_NORMAL, LIVE_HELP, LIVE_WHY, LIVE_DETAIL, LIVE_IOWAIT, LIVE_LATENCY };

struct replay;
struct past;

struct live {
        struct attach *attach;
        struct replay *replay;         /* a log in the place of a watopd (tui/replay.c); then `attach` is NULL */
        struct past *past;             /* looking back into the ring (tui/replay_past.c); NULL = now */
        uint32_t scopes;
        uint64_t leases;
        /* Two states take the same frames, their bases one report apart: `shown` keeps the last whole interval for keys pressed while
         * the next one is filling `next`. They change places at each report, so that no key ever shows half an interval. */
        struct state *shown, *next;
        bool reported;                 /* `shown` holds an interval (or a captured machine's tree) */
        struct tally tally;
        struct verdict verdict;
        struct attach_info source;
        unsigned char history[HISTORY_CORES * HISTORY_STEPS], parts[HISTORY_CORES * HISTORY_STEPS];
        struct device_seen devices;    /* used in the same past */
        struct latency latency;        /* of the shown interval */
        struct heat heat;              /* and its past */
        struct latency_pick pick;
        bool traced;                   /* scopes of block tracing were asked for */
        uint64_t latency_left_ns;      /* CLOCK_MONOTONIC when its view was last there */
        struct panel panels[PANEL_COUNT];
        struct look look;
        struct prompt prompt;
        enum live_mode mode;
        size_t help_top;
        struct key detail;             /* the process of LIVE_DETAIL */
        size_t detail_top, detail_lines; /* of LIVE_IOWAIT too */
        char note[160], search[PANEL_TEXT];
        int note_reports;              /* the note goes with a key, or after so many reports; 0 = only with a key */
        uint64_t gone_ns;              /* CLOCK_MONOTONIC when the daemon went; 0 = it is there */
        uint64_t due_ns;               /* when the next report may be there */
        /* shortest time from a frame to its report here: clocks of another namespace may differ by a constant */
        int64_t least_lag_ns;
        bool captured;                 /* a captured machine: its clock is not ours, and no tree is left out */
        bool ended;                    /* captured machine: no more trees */
        bool quit, redraw;             /* asked for by keys */
};

/* What the screen shows. */
enum {
        LIVE_SCOPES = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_PROCESS) |
                SCOPE_BIT(SCOPE_WAITER) | SCOPE_BIT(SCOPE_VM) | SCOPE_BIT(SCOPE_PRESSURE) | SCOPE_BIT(SCOPE_FACT),
};

struct options;
int live_init(struct live *, const struct options *);
/* Show this state from now on. */
void live_show(struct live *, const struct state *);
/* The screen, until a key or a signal ends it. 0, or a negative errno of the source, or of the terminal with one line in `why`. */
int live_screen(struct live *, char *why, size_t size, int *ended_by);
/* Say what went wrong (r < 0), free, hand on the signal. The exit status. */
int live_end(struct live *, int r, const char *why, int ended_by);

/* One key. The caller draws afterwards. */
void live_key(struct live *, int code);
/* live_past.c: the state's interval becomes the newest step of each core's past and of the devices' use; the past that a daemon's ring
 * holds (once, at the start). */
void live_remember(struct live *, const struct state *);
void live_recall(struct live *);
/* live_latency.c: the view behind l. */
void live_latency_enter(struct live *);
bool live_latency_key(struct live *, enum action); /* false: not for it */
/* Asks for tracing while the view is there, and gives it back a while after. How many ns until it has to be called again. */
uint64_t live_latency_lease(struct live *);
void live_latency_note(struct live *, const struct state *); /* the interval becomes part of the past */
void live_latency_draw(struct live *, struct canvas *);
void live_latency_fini(struct live *);
uint64_t live_now(void); /* CLOCK_MONOTONIC, ns */
/* live_why.c: look.why for the panel behind w. */
void live_why(struct live *);
/* Lines of all panels from the shown state. */
void live_gather(struct live *);

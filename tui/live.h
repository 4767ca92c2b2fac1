#pragma once
/*
 * The live screen's state: what a person has set, and where the samples come from. live.c runs the loop, live_keys.c does what keys ask.
 */
#include "tui/keys.h"
#include "tui/view.h"

enum live_mode { LIVE_NORMAL, LIVE_HELP, LIVE_WHY };

struct live {
        struct attach *attach;
        uint32_t scopes;
        uint64_t leases;
        /* Two states take the same frames, their bases one report apart: `shown` keeps the last whole interval for keys pressed while
         * the next one is filling `next`. They change places at each report, so that no key ever shows half an interval. */
        struct state *shown, *next;
        bool reported;                 /* `shown` holds an interval (or a captured machine's tree) */
        struct tally tally;
        struct verdict verdict;
        struct attach_info source;
        unsigned char history[HISTORY_CORES * HISTORY_STEPS];
        struct panel panels[PANEL_COUNT];
        struct look look;
        struct prompt prompt;
        enum live_mode mode;
        size_t help_top;
        char note[160], search[PANEL_TEXT];
        int note_reports;              /* the note goes with a key, or after so many reports; 0 = only with a key */
        uint64_t gone_ns;              /* CLOCK_MONOTONIC when the daemon went; 0 = it is there */
        uint64_t due_ns;               /* when the next report may be there */
        int64_t least_lag_ns;          /* shortest time from a frame to its report here: clocks of another namespace may differ by a constant */
        bool captured;                 /* a captured machine: its clock is not ours, and no tree is left out */
        bool ended;                    /* captured machine: no more trees */
        bool quit, redraw;             /* asked for by keys */
};

/* One key. The caller draws afterwards. */
void live_key(struct live *, int code);
uint64_t live_now(void); /* CLOCK_MONOTONIC, ns */
/* Lines of all panels from the shown state. */
void live_gather(struct live *);

#pragma once
/*
 * What the files of the player share.
 */
#include "tui/live.h"
#include "tui/replay.h"
#include "tui/replay_reel.h"
#include "sample/phase.h"

struct replay {
        const char *path;
        struct log *log;
        struct reel *reel;
        struct log_info info;          /* of a growing log: as of the newest report */
        struct phases phases;
        uint64_t marks_known;          /* newest mark in `phases` */
        bool phases_known;
        long steps;                    /* reports to go forward, or back, before anything else */
        int speed;                     /* index of replay_speeds */
        bool tail;                     /* nothing newer yet: what is written next is shown next */
        bool follows;                  /* the shown report was waited for, or the newest: show the next one as soon as it comes */
        bool waiting;                  /* and what was asked for is not there yet */
        bool fresh;                    /* the strips are of another place: forget them when the next report comes */
        uint64_t tail_ns, sought_ns;   /* CLOCK_MONOTONIC since when */
        uint64_t anchor_ns, anchor_mono_ns, last_mono_ns; /* playing: recorded time anchor_mono_ns was shown at anchor_ns; 0 = begin anew */
        bool zone_known;
        long zone, viewer_zone;        /* seconds east */
        struct look_place place;
};

enum { REPLAY_TRUE_SPEED = 3, REPLAY_FASTEST = 10 }; /* the last one: as fast as it goes */
extern const double replay_speeds[REPLAY_FASTEST];

/* The report shown is of another place from now on, and asked for. */
void replay_moved(struct live *);
void replay_say(struct live *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* replay_place.c: fill the place's words from the shown report, and set the clock that it was recorded by. */
void replay_describe(struct live *, const struct state *);
/* How fast it is played, as shown. */
void replay_speed_text(const struct replay *, char *text, size_t size);

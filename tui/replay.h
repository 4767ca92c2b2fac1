#pragma once
/*
 * Time in the screen: `watop replay FILE`, and the way back into the ring in the live screen.
 *
 * The screen, its views and keys are the live one's (tui/live.h); here is only where the reports come from and when. Nothing here starts a
 * watopd.
 */
#include "tui/keys.h"

struct live;

/* ---- replay.c: the player ------------------------------------------------------------------------------------------------------ */
/* All of these only while live->replay is set. */
bool replay_wants(const struct live *);      /* something was asked for that is not shown yet */
/* Go on with what was asked, or with playing. True when there is something new to draw; negative errno in *error ends the program. */
bool replay_take(struct live *, int *error);
/* Before drawing: how it is played. */
void replay_mark(struct live *);
void replay_interval(struct live *, uint64_t interval_ns);
/* replay_keys.c: a key of the player; false when it is none of these and the views' keys are asked. The text typed behind `g`. */
bool replay_key(struct live *, enum action);
void replay_go_to(struct live *, const char *text);

/* ---- replay_past.c: the live screen's way back --------------------------------------------------------------------------------- */
bool past_key(struct live *, enum action);   /* true when the key was for it */
void past_leave(struct live *);              /* back to now; nothing when it is now */
void past_mark(struct live *);               /* before drawing: how long ago is that? */

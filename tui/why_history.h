#pragma once
/*
 * Since when: what the ring still holds of the machine's past, looked through once. How long wa has been what it is now, and what a
 * device's
 * time per request is normally.
 */
#include "tui/verdict.h"

struct ring;

enum why_kind { WHY_QUIET, WHY_DISK, WHY_URING, WHY_OTHER }; /* what most of wa was; quiet: there was less than 5% of one core */

struct why_step {                /* about a second */
        uint64_t real_ns;        /* its end */
        float seconds;
        enum why_kind kind;
        float await;             /* ms per request of the device asked about, its reads or its writes; -1 nothing completed */
};

enum { WHY_STEPS = 3600 };

struct why_history {
        struct why_step steps[WHY_STEPS];
        size_t count, first;     /* a circle: the newest WHY_STEPS */
        /* asked */
        char device[64];         /* "" none */
        enum tally_way way;      /* which of its requests */
        /* answers of why_history_answer */
        double span;             /* seconds that were looked at */
        bool since_known, since_whole; /* it is so since since_ns; whole: since the history begins, or longer */
        uint64_t since_ns;       /* wall clock */
        double since_seconds;
        double normal;           /* median of the device's ms per request while it was not slow; -1 not known */
        bool slow_known, slow_whole;
        uint64_t slow_ns;
};

/* Which device is asked about: the one that the verdict names, or none. */
void why_history_ask(struct why_history *, const struct tally *, const struct verdict *);
/* One step: the state's interval. */
void why_history_step(struct why_history *, const struct state *);
void why_history_answer(struct why_history *, const struct tally *);
/* All three over what a ring holds. 0 or -errno. */
int why_history_walk(struct why_history *, struct ring *, const struct tally *, const struct verdict *);

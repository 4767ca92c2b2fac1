#pragma once
/*
 * Phases of a log: what its marks say.
 *
 * A mark with a text begins the phase of that name and ends the one before. A mark without a text, "end", or "end: NAME" ends the phase
 * that runs (of that name). So phases do not overlap; the same name may come again (a second round), and is then another phase of that
 * name. The last one ends with the log when nothing ended it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/log.h"

enum { PHASE_NAME = 200 };

struct phase {
        char name[PHASE_NAME + 1];  /* raw bytes of a stranger, NUL-terminated */
        uint64_t from_sequence, to_sequence; /* frames of its marks, or the log's last */
        uint64_t from_real_ns, to_real_ns, from_mono_ns, to_mono_ns;
        unsigned repeat;            /* the n-th of this name, from 1 */
        bool open;                  /* nothing ended it but the log's end */
};
/* Every mark as it came. */
struct phase_mark {
        char text[PHASE_NAME + 1];
        uint64_t sequence, real_ns, mono_ns;
        uint64_t pid, uid;          /* UINT64_MAX: not known */
};
struct phases {
        struct phase *phases;
        size_t count;
        struct phase_mark *marks;
        size_t mark_count;
};

/* What a mark's text does: PHASE_BEGINS, or PHASE_ENDS (*name the phase it names, "" = whichever runs). */
enum phase_act { PHASE_BEGINS, PHASE_ENDS };
enum phase_act phase_act(const char *text, const char **name);

/* Reads the marks' frames; the log stands at its start afterwards. 0, -ENOMEM, -errno. */
int phases_build(struct log *, struct phases *);
void phases_free(struct phases *);
/* The phase of this name; "NAME#2" is its second round. NULL when there is none. */
const struct phase *phases_find(const struct phases *, const char *name);

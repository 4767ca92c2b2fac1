/*
 * What the panel behind the key w knows beside the interval, as `watop why` does: since when it is so, from the ring's past, what a device
 * normally takes, and what this kernel offers to those who wait in io_uring.
 *
 * The ring is walked when the panel opens (and when another device is asked about, but not more often than each ten seconds: hours of a
 * large machine take a moment); while it stays open each report adds its step.
 */
#include <string.h>
#include <unistd.h>

#include "tui/live.h"
#include "tui/why.h"

static const uint64_t WALK_EVERY = UINT64_C(10000000000); /* ns */

static struct {
        struct why_history history, asked;
        struct selftest_ring offer;
        struct why_context context;
        bool walked, offered;
        uint64_t sequence, walked_ns;
} own;

static bool same_question(const struct live *l)
{
        why_history_ask(&own.asked, &l->tally, &l->verdict);
        return strcmp(own.asked.device, own.history.device) == 0 && own.asked.way == own.history.way;
}

/* Bring the history up to the state that is shown. */
static void follow(struct live *l)
{
        struct state_info info = state_info(l->look.state);
        struct ring *ring = attach_ring(l->attach);
        uint64_t now = live_now();

        if (own.walked && own.sequence == info.to_sequence)
                return;
        bool next = own.walked && info.valid && info.from_sequence == own.sequence;
        own.sequence = info.to_sequence;
        if (next && (same_question(l) || now - own.walked_ns < WALK_EVERY)) {
                why_history_step(&own.history, l->look.state);
                why_history_answer(&own.history, &l->tally);
                return;
        }
        own.walked = ring && why_history_walk(&own.history, ring, &l->tally, &l->verdict) == 0;
        own.walked_ns = now;
}

void live_why(struct live *l)
{
        struct attach_info *source = &l->source;
        bool present = !l->replay && !l->past && !l->captured && l->attach && !l->gone_ns;

        l->look.why = &own.context;
        own.context = (struct why_context){
                .source_known = l->tally.seconds >= 0.5, /* of less, "longer" is not for us to ask */
                .own_daemon = source->private_daemon,
                .captured = l->replay != NULL || l->captured,
                .root = source->private_daemon ? geteuid() == 0 : source->owner != geteuid() || geteuid() == 0,
                .btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0,
        };
        if (!present || !l->tally.valid || !l->look.state)
                return;
        follow(l);
        if (own.walked)
                own.context.history = &own.history;
        if (l->verdict.answer != ANSWER_NOT_A_DISK || !l->tally.waiter_threads)
                return;
        if (!own.offered)
                selftest_ring(&own.offer);
        own.offered = true;
        own.context.ring = &own.offer;
}

/*
 * Finding what an event speaks of: the part that waits at a place, the request that begins, ends or is to be found at one. See stage.h.
 *
 * Several may be at one place: threads that write the same blocks at the same time. Then what the kernel would do decides, and where that
 * cannot be known, what does least harm when an earlier event was lost.
 */
#include "sample/stage_own.h"

/* The part that waits at this sector; sectors 0 = of any length. Those queued since the last loss first, then the same thread's, then the
 * newest: a thread's G, M or X follows its Q at once, so an older one has lost its own. */
struct part *stage_find_waiting(struct stage_set *set, uint32_t device, uint64_t start, uint32_t sectors, uint8_t direction, uint32_t pid)
{
        struct link *head = &set->waiting[hash(device, start)];
        struct part *best = NULL;
        unsigned best_score = 0;

        for (struct link *at = head->prev; at != head; at = at->prev) {
                struct part *part = LINK_OF(at, struct part, chain);
                const struct bio *bio = part->bio;
                if (part->start != start || bio->device->shown.device != device || bio->direction != direction ||
                    (sectors && part->sectors != sectors))
                        continue;
                unsigned score = 1 + (bio->epoch == set->epoch ? 2u : 0) + (bio->pid == pid ? 1u : 0);
                if (score > best_score) {
                        best = part;
                        best_score = score;
                }
        }
        return best;
}

/* 0: not in the wanted state. Several may begin at one place: two threads that write the same blocks. Then the length decides, then what
 * the state is likely to be. */
static unsigned fits(const struct stage_set *set, const struct request *request, const struct stage_event *event, enum wanted wanted)
{
        if (wanted == WANT_ISSUED ? !request->issued : request->issued)
                return 0;
        return 1 + (request->epoch == set->epoch ? 8u : 0) + (request->sectors == event->sectors ? 4u : 0) +
                ((wanted == WANT_NEW) == (request->i == 0) ? 2u : 0) + (request->pid == event->pid && wanted == WANT_NEW ? 1u : 0);
}

/* The request that begins here (or has this address) and is in the wanted state. */
struct request *stage_find_request(struct stage_set *set, const struct stage_event *event, enum wanted wanted)
{
        struct request *best = NULL;
        unsigned best_score = 0;

        if (event->key) {
                struct link *head = &set->keys[hash(0, event->key)];
                for (struct link *at = head->next; at != head; at = at->next)
                        if (LINK_OF(at, struct request, by_key)->key == event->key)
                                return LINK_OF(at, struct request, by_key);
        }
        struct link *head = &set->starts[hash(event->device, event->sector)];
        for (struct link *at = head->next; at != head; at = at->next) {
                struct request *request = LINK_OF(at, struct request, by_start);
                if (request->start != event->sector || request->device->shown.device != event->device ||
                        request->direction != event->direction ||
                    (event->key && request->key))
                        continue;
                unsigned score = fits(set, request, event, wanted);
                if (score > best_score || (score > 0 && score == best_score && wanted == WANT_NEW)) { /* I follows G soon: the newest */
                        best = request;
                        best_score = score;
                }
        }
        return best;
}

/* A request that is not issued yet and is next to this sector, for what is merged with it. A bio is merged into its thread's own plug if
 * it can, else into the scheduler's; a request into the scheduler's. There the request that was merged into last is tried first (elv_merge
 * in block/elevator.c), then the newest, as in a plug. */
static unsigned fits_merge(const struct stage_set *set, const struct request *request, const struct stage_event *event, bool requests)
{
        if (request->issued)
                return 0;
        return 1 + (request->epoch == set->epoch ? 8u : 0) + (request->i ? 2u : 0) + (request == request->device->last_merge ? 1u : 0) +
                (!requests && !request->i && request->pid == event->pid ? 4u : 0);
}

struct request *stage_find_start(struct stage_set *set, const struct stage_event *event)
{
        uint64_t start = event->sector + event->sectors;
        struct link *head = &set->starts[hash(event->device, start)];
        struct request *best = NULL;
        unsigned best_score = 0;

        for (struct link *at = head->prev; at != head; at = at->prev) {
                struct request *request = LINK_OF(at, struct request, by_start);
                if (request->start != start || request->device->shown.device != event->device || request->direction != event->direction)
                        continue;
                unsigned score = fits_merge(set, request, event, false);
                if (score > best_score) {
                        best = request;
                        best_score = score;
                }
        }
        return best;
}

struct request *stage_find_end(struct stage_set *set, const struct stage_event *event, const struct request *except)
{
        struct link *head = &set->ends[hash(event->device, event->sector)];
        struct request *best = NULL;
        unsigned best_score = 0;

        for (struct link *at = head->prev; at != head; at = at->prev) {
                struct request *request = LINK_OF(at, struct request, by_end);
                if (request == except || request_end(request) != event->sector || request->device->shown.device != event->device ||
                    request->direction != event->direction)
                        continue;
                unsigned score = fits_merge(set, request, event, except != NULL);
                if (score > best_score) {
                        best = request;
                        best_score = score;
                }
        }
        return best;
}

/*
 * Which event belongs to which bio and request. See stage.h; sums are made in stage_set.c.
 *
 * Kernel sources for the order of events: block/blk-core.c (Q), blk-mq.c (G, I, D, C, R), blk-merge.c (M, F, X), blk-flush.c. A flush
 * sequence splits what was one bio: "FWS 0+0" is queued, a kernel worker issues a flush request of its own ("FF", sector -1 at its end),
 * and the bio then completes as "WS 0+0". With data, the data's request has its usual life after that flush, and its bio is given back by
 * one more completion of 0 sectors.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_own.h"

/* ---- bios and parts ----------------------------------------------------------------------------------------------------------------- */

static struct part *part_new(struct stage_set *set)
{
        struct part *part = set->free_parts;

        if (part)
                set->free_parts = part->sibling;
        else if ((part = malloc(sizeof *part)) == NULL)
                return NULL;
        *part = (struct part){0};
        link_init(&part->chain);
        return part;
}

static void part_wait(struct stage_set *set, struct part *part)
{
        link_append(&set->waiting[hash(part->bio->device->shown.device, part->start)], &part->chain);
}

static void bio_free(struct stage_set *set, struct bio *bio)
{
        for (struct part *part = bio->parts, *next; part; part = next) {
                next = part->sibling;
                link_remove(&part->chain);
                part->sibling = set->free_parts;
                set->free_parts = part;
        }
        stage_own_count(set, bio->device, bio->process, -1);
        link_remove(&bio->all);
        bio->parts = NULL;
        bio->all.next = (struct link *)set->free_bios;
        set->free_bios = bio;
        set->open--;
}

static void held_remove(struct part *part)
{
        link_remove(&part->chain);
        part->held = false;
        part->bio->device->held_count--;
}

/* A bio that will never be known to end. */
static void bio_evict(struct stage_set *set, struct bio *bio)
{
        for (struct part *part = bio->parts; part; part = part->sibling)
                if (part->held)
                        held_remove(part);
        set->counts.evicted++;
        bio_free(set, bio);
}

static struct bio *bio_new(struct stage_set *set)
{
        if (set->open >= set->options.max_open)
                bio_evict(set, LINK_OF(set->bios.next, struct bio, all));
        struct bio *bio = set->free_bios;
        if (bio)
                set->free_bios = (struct bio *)(void *)bio->all.next;
        else if ((bio = malloc(sizeof *bio)) == NULL)
                return NULL;
        *bio = (struct bio){.order = ++set->order, .epoch = set->epoch};
        link_append(&set->bios, &bio->all);
        set->open++;
        return bio;
}

/* The part's time is over. */
static int part_finish(struct stage_set *set, struct part *part)
{
        struct bio *bio = part->bio;
        bool last = --bio->open_parts == 0;

        link_remove(&part->chain);
        int r = stage_count_part(set, part, last);
        if (last)
                bio_free(set, bio);
        return r;
}

/* The oldest of those that wait for a flush after them was not followed by one. */
static int held_pass(struct stage_set *set, struct device *device)
{
        struct part *part = LINK_OF(device->held.next, struct part, chain);

        if (!device->fua_flushes && !(part->bio->flags & STAGE_PREFLUSH))
                device->fua_plain = true; /* a device that writes past its cache by itself */
        held_remove(part);
        return part_finish(set, part);
}

/* Data is done. What was written around the cache through a flush sequence is given back by a later event. */
static int part_end_at(struct stage_set *set, struct part *part, uint64_t time)
{
        struct bio *bio = part->bio;
        struct device *device = bio->device;

        part->c = time;
        part->request = NULL;
        link_remove(&part->chain);
        bool sequence = bio->flags & STAGE_PREFLUSH || (bio->flags & STAGE_FUA && !device->fua_plain);
        if (bio->direction == STAGE_FLUSHES || !part->d1 || !sequence)
                return part_finish(set, part);
        link_append(&device->held, &part->chain);
        part->held = true;
        if (++device->held_count <= STAGE_HELD)
                return 0;
        return held_pass(set, device);
}

/* [start, at) and [at, end). */
static int part_split(struct stage_set *set, struct part *part, uint64_t at)
{
        struct part *second = part_new(set);

        if (second == NULL)
                return -ENOMEM;
        struct link chain = second->chain;
        *second = *part;
        second->chain = chain;
        link_init(&second->chain);
        second->start = at;
        second->sectors = (uint32_t)(part_end(part) - at);
        part->sectors -= second->sectors;
        part->sibling = second;
        part->bio->open_parts++;
        part->bio->split = true;
        part_wait(set, second);
        return 0;
}

/* ---- requests ----------------------------------------------------------------------------------------------------------------------- */

static void request_place(struct stage_set *set, struct request *request)
{
        uint32_t device = request->device->shown.device;

        link_remove(&request->by_start);
        link_append(&set->starts[hash(device, request->start)], &request->by_start);
        link_remove(&request->by_end);
        link_append(&set->ends[hash(device, request_end(request))], &request->by_end);
        if (request->by_key.next == &request->by_key && request->key)
                link_append(&set->keys[hash(0, request->key)], &request->by_key);
}

static void request_free(struct stage_set *set, struct request *request)
{
        link_remove(&request->by_start);
        link_remove(&request->by_end);
        link_remove(&request->by_key);
        link_remove(&request->all);
        if (request->device->last_merge == request)
                request->device->last_merge = NULL;
        request->device->shown.requests--;
        request->all.next = (struct link *)set->free_requests;
        set->free_requests = request;
        set->open_requests--;
}

static void request_evict(struct stage_set *set, struct request *request)
{
        while (request->parts.next != &request->parts)
                bio_evict(set, LINK_OF(request->parts.next, struct part, chain)->bio);
        request_free(set, request);
}

static struct request *request_new(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct request *request = event->key ? stage_find_request(set, event, WANT_OPEN) : NULL;

        if (request && request->key == event->key) /* its address is used again: its end was lost */
                request_evict(set, request);
        if (set->open_requests >= set->options.max_open)
                request_evict(set, LINK_OF(set->requests.next, struct request, all));
        request = set->free_requests;
        if (request)
                set->free_requests = (struct request *)(void *)request->all.next;
        else if ((request = malloc(sizeof *request)) == NULL)
                return NULL;
        *request = (struct request){.device = device, .start = event->sector, .sectors = event->sectors, .key = event->key,
                .pid = event->pid,
                .epoch = set->epoch, .direction = event->direction,
                .kind = event->flags & STAGE_IS_META ? STAGE_META : event->flags & STAGE_IS_SYNC ||
                        event->direction == STAGE_READ ? STAGE_SYNC : STAGE_ASYNC};
        link_init(&request->by_start);
        link_init(&request->by_end);
        link_init(&request->by_key);
        link_init(&request->parts);
        link_append(&set->requests, &request->all);
        set->open_requests++;
        device->shown.requests++;
        request_place(set, request);
        return request;
}

static void attach(struct request *request, struct part *part)
{
        link_remove(&part->chain);
        link_append(&request->parts, &part->chain);
        part->request = request;
        part->head = request->q == 0;
        if (part->head) { /* its first bio speaks for it */
                request->q = part->q;
                request->process = part->bio->process;
                request->kind = part->bio->kind;
                request->preflush = part->bio->flags & STAGE_PREFLUSH;
        }
}

/* A request whose beginning was not seen, or that is longer than what was seen to be merged: bios that wait within it are its own. */
static void adopt(struct stage_set *set, struct request *request, const struct stage_event *event)
{
        uint64_t at = request->parts.next == &request->parts ? request->start : request_end(request), end = event->sector + event->sectors;
        struct part *part;

        while (at < end && (part = stage_find_waiting(set, event->device, at, 0, request->direction, event->pid)) != NULL &&
                part_end(part) <= end) {
                attach(request, part);
                part->bio->merged |= part->m != 0;
                at = part_end(part);
        }
        if (end > request_end(request) && event->sector == request->start) {
                request->sectors = event->sectors;
                request_place(set, request);
        }
}

/* A request that is shorter than what we merged into it: the rest went into another one, which will be longer than we know. */
static void release(struct stage_set *set, struct request *request, const struct stage_event *event)
{
        uint64_t end = event->sector + event->sectors;

        if (event->sectors >= request->sectors || event->sector != request->start || request->direction == STAGE_DISCARD)
                return;
        for (struct link *at = request->parts.next, *next; at != &request->parts; at = next) {
                struct part *part = LINK_OF(at, struct part, chain);
                next = at->next;
                if (part_end(part) <= end || !part->m)
                        continue;
                link_remove(&part->chain);
                part->request = NULL;
                part->head = false;
                part_wait(set, part);
        }
        request->sectors = event->sectors;
        request_place(set, request);
}

/* ---- events, in the order of a request's life --------------------------------------------------------------------------------------- */

/* The remainder of a split bio is queued anew by kernels before 4.13, and bios made by a driver for one that it got carry on for its
 * process. */
static int on_queue(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        bool flush = event->sectors == 0;
        uint32_t process;

        if (flush && !(event->flags & STAGE_PREFLUSH))
                return 0;
        if (!flush) {
                const struct part *rest = stage_find_waiting(set, event->device, event->sector, event->sectors, event->direction,
                        event->pid);
                if (rest && rest->bio->split && rest != rest->bio->parts && rest->bio->pid == event->pid)
                        return 0;
        }
        int r = stage_find_process(set, event->pid, event->name, &process);
        struct bio *bio = r < 0 ? NULL : bio_new(set);
        if (bio == NULL)
                return -ENOMEM;
        for (unsigned i = 0; i < STAGE_REMAPS; i++)
                if (!flush && set->remaps[i].device == event->device && set->remaps[i].sectors == event->sectors &&
                        set->remaps[i].sector == event->sector) {
                        process = set->remaps[i].process;
                        set->remaps[i].sectors = 0;
                        break;
                }
        bio->device = device;
        bio->process = process;
        bio->pid = event->pid;
        bio->direction = flush ? STAGE_FLUSHES : event->direction;
        bio->kind = stage_kind_of(event->direction, event->flags);
        bio->flags = event->flags;
        bio->start = event->sector;
        bio->sectors = event->sectors;
        stage_own_front(device, bio);
        stage_own_count(set, device, process, 1);
        struct part *part = part_new(set);
        if (part == NULL) {
                bio_free(set, bio);
                return -ENOMEM;
        }
        part->bio = bio;
        part->q = event->time;
        part->start = event->sector;
        part->sectors = event->sectors;
        bio->parts = part;
        bio->open_parts = 1;
        if (flush)
                link_append(&device->flushes, &part->chain);
        else
                part_wait(set, part);
        return 0;
}

static int on_split(struct stage_set *set, const struct stage_event *event)
{
        struct part *part = stage_find_waiting(set, event->device, event->sector, 0, event->direction, event->pid);

        if (part == NULL || event->other <= part->start || event->other >= part_end(part)) {
                set->counts.unmatched[STAGE_X]++;
                return 0;
        }
        return part_split(set, part, event->other);
}

static void on_remap(struct stage_set *set, const struct stage_event *event)
{
        const struct part *part = stage_find_waiting(set, event->other_device, event->other, 0, event->direction, event->pid);

        if (part == NULL) /* a partition: its disk's Q follows, and is the first that there is */
                return;
        set->remaps[set->remap_next++ % STAGE_REMAPS] = (struct remap){.device = event->device, .sector = event->sector,
                .sectors = event->sectors, .process = part->bio->process};
}

static int on_get(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct part *part = stage_find_waiting(set, event->device, event->sector, event->sectors, event->direction, event->pid);

        if (part == NULL) {
                part = stage_find_waiting(set, event->device, event->sector, 0, event->direction, event->pid);
                if (part && part->sectors < event->sectors)
                        part = NULL;
                else if (part && part_split(set, part, event->sector + event->sectors) < 0) /* its X was lost */
                        return -ENOMEM;
        }
        struct request *request = request_new(set, device, event);
        if (request == NULL)
                return -ENOMEM;
        request->g = event->time;
        if (part == NULL) {
                set->counts.unmatched[STAGE_G]++;
                return stage_find_process(set, event->pid, event->name, &request->process);
        }
        part->g = event->time;
        attach(request, part);
        return 0;
}

/* Two requests become one: the second one begins where the first ends. */
static void merge_requests(struct stage_set *set, const struct stage_event *event)
{
        struct request *second = stage_find_request(set, event, WANT_OPEN);
        struct request *first = second && second->sectors == event->sectors ? stage_find_end(set, event, second) : NULL;

        if (first == NULL) {
                set->counts.unmatched[STAGE_M]++;
                return;
        }
        while (second->parts.next != &second->parts) {
                struct part *part = LINK_OF(second->parts.next, struct part, chain);
                attach(first, part);
                if (!part->m)
                        part->m = event->time;
                part->bio->merged = true;
        }
        first->sectors += second->sectors;
        request_free(set, second);
        request_place(set, first);
        first->device->last_merge = first;
}

static void on_merge(struct stage_set *set, const struct stage_event *event)
{
        struct part *part = event->action == STAGE_MERGE ? NULL :
                stage_find_waiting(set, event->device, event->sector, event->sectors, event->direction, event->pid);
        struct request *request;

        if (part == NULL) {
                merge_requests(set, event);
                return;
        }
        part->m = event->time;
        if (event->action == STAGE_F) {
                request = stage_find_start(set, event);
                if (request)
                        request->start = event->sector;
        } else {
                request = stage_find_end(set, event, NULL);
        }
        if (request) {
                request->sectors += event->sectors;
                request_place(set, request);
        } else if (event->direction == STAGE_DISCARD) { /* several ranges in one request: no neighbour is needed */
                struct link *at = set->requests.prev;
                for (int i = 0; i < 64 && at != &set->requests && request == NULL; i++, at = at->prev) {
                        struct request *open = LINK_OF(at, struct request, all);
                        if (open->device == part->bio->device && open->direction == STAGE_DISCARD && !open->issued)
                                request = open;
                }
        }
        if (request == NULL) /* found when its request is inserted or issued */
                return;
        attach(request, part);
        part->bio->merged = true;
        if (request->i)
                request->device->last_merge = request;
}

/* A request that is met in the middle of its life: whoever is there now stands for it until a bio of its own is found. */
static struct request *request_met(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        uint32_t process;
        struct request *request = stage_find_process(set, event->pid, event->name, &process) < 0 ? NULL : request_new(set, device, event);

        if (request)
                request->process = process;
        return request;
}

/* A request that nobody queued a bio for: its beginning was not seen; or, where rwbs has no operation, it is a driver's own command. */
static void unknown(struct stage_set *set, struct request *request, enum stage_action action)
{
        if (request->parts.next != &request->parts || request->g)
                return;
        request->passthrough = request->direction == STAGE_ELSE;
        set->counts.unmatched[action] += !request->passthrough;
}

static int on_insert(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct request *request = stage_find_request(set, event, WANT_NEW);

        if (request == NULL) {
                request = request_met(set, device, event);
                if (request == NULL)
                        return -ENOMEM;
        }
        if (request->by_key.next == &request->by_key && event->key) {
                request->key = event->key;
                request_place(set, request);
        }
        adopt(set, request, event);
        unknown(set, request, STAGE_I);
        if (request->i == 0)
                request->i = event->time;
        if (device->last_merge == NULL)
                device->last_merge = request;
        for (struct link *at = request->parts.next; at != &request->parts; at = at->next) {
                struct part *part = LINK_OF(at, struct part, chain);
                if (part->i == 0 && (part->g || !part->m))
                        part->i = event->time;
        }
        return 0;
}

static int on_issue(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct request *request = stage_find_request(set, event, WANT_OPEN);

        if (request == NULL && stage_find_waiting(set, event->device, event->sector, 0, event->direction, event->pid) == NULL)
                request = stage_find_request(set, event, WANT_ISSUED); /* its R was lost */
        if (request == NULL) {
                request = request_met(set, device, event);
                if (request == NULL)
                        return -ENOMEM;
        }
        if (request->by_key.next == &request->by_key && event->key) {
                request->key = event->key;
                request_place(set, request);
        }
        adopt(set, request, event);
        if (request->i == 0)
                unknown(set, request, STAGE_D);
        release(set, request, event);
        request->issued = device->issues = true;
        if (device->last_merge == request)
                device->last_merge = NULL;
        request->d = event->time;
        if (request->d1 == 0)
                request->d1 = event->time;
        for (struct link *at = request->parts.next; at != &request->parts; at = at->next) {
                struct part *part = LINK_OF(at, struct part, chain);
                part->d = event->time;
                if (part->d1 == 0)
                        part->d1 = event->time;
                part->inserted = request->i;
        }
        return 0;
}

static void on_requeue(struct stage_set *set, const struct stage_event *event)
{
        struct request *request = stage_find_request(set, event, WANT_ISSUED);

        if (request == NULL) {
                set->counts.unmatched[STAGE_R]++;
                return;
        }
        request->issued = false;
        request->requeues++;
        for (struct link *at = request->parts.next; at != &request->parts; at = at->next)
                LINK_OF(at, struct part, chain)->bio->requeues++;
}

/* No request: a driver that takes bios. */
static int complete_bio(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        bool of_request = event->flags & STAGE_OF_REQUEST || event->key;
        struct part *part = of_request && device->issues ? NULL : /* its request began before the trace */
                stage_find_waiting(set, event->device, event->sector, event->sectors, event->direction, event->pid);

        if (part == NULL && !of_request) {
                part = stage_find_waiting(set, event->device, event->sector, 0, event->direction, event->pid);
                if (part && part->sectors <= event->sectors)
                        part = NULL;
                else if (part && part_split(set, part, event->sector + event->sectors) < 0)
                        return -ENOMEM;
        }
        if (part == NULL) {
                set->counts.unmatched[STAGE_C]++;
                return 0;
        }
        if (event->error)
                part->bio->error = event->error;
        part->of_request = of_request;
        return part_end_at(set, part, event->time);
}

static int on_complete(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct request *request = stage_find_request(set, event, WANT_ISSUED);

        if (request == NULL)
                request = stage_find_request(set, event, WANT_OPEN); /* its D was lost */
        if (request == NULL)
                return complete_bio(set, device, event);
        bool whole = event->sectors >= request->sectors;
        uint64_t end = request->start + event->sectors;
        int r = 0;
        for (struct link *at = request->parts.next, *next; at != &request->parts; at = next) {
                struct part *part = LINK_OF(at, struct part, chain);
                next = at->next;
                if (!whole && part_end(part) > end)
                        continue;
                if (event->error)
                        part->bio->error = event->error;
                part->request_sectors = request->sectors;
                int failed = part_end_at(set, part, event->time);
                r = r < 0 ? r : failed;
        }
        if (whole) {
                if (request->passthrough)
                        request->device->shown.passthrough++;
                else if (request->d && r == 0)
                        r = stage_count_request(set, request, event->time);
                request_free(set, request);
        } else { /* the rest follows, and begins where this ends */
                request->start += event->sectors;
                request->sectors -= event->sectors;
                request_place(set, request);
        }
        return r;
}

/* ---- flushes: events without sectors ------------------------------------------------------------------------------------------------ */

static struct part *oldest_flush(const struct stage_set *set, struct device *device, bool got, uint32_t pid)
{
        struct part *best = NULL;
        unsigned best_score = 0;

        for (struct link *at = device->flushes.next; at != &device->flushes; at = at->next) {
                struct part *part = LINK_OF(at, struct part, chain);
                if (!got && part->g)
                        continue;
                bool likely = got ? part->d1 != 0 : part->bio->pid == pid;
                unsigned score = 1 + (part->bio->epoch == set->epoch ? 2u : 0) + (likely ? 1u : 0);
                if (score > best_score) {
                        best = part;
                        best_score = score;
                }
        }
        return best;
}

/* The kernel's own flush request, which serves all that wait for one. */
static int flush_request(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        if (event->action == STAGE_D) {
                device->flush_issued = event->time;
                device->shown.flushes++;
                for (struct link *at = device->flushes.next; at != &device->flushes; at = at->next) {
                        struct part *part = LINK_OF(at, struct part, chain);
                        if (part->d1 == 0)
                                part->d1 = event->time;
                }
        } else if (event->action == STAGE_C && device->flush_issued) {
                struct request request = {.device = device, .direction = STAGE_FLUSHES, .kind = STAGE_SYNC, .d = device->flush_issued,
                        .d1 = device->flush_issued};
                struct part *first = oldest_flush(set, device, true, 0);
                int r = 0;
                if (first && first->d1) { /* queued before it was issued */
                        first->head = true;
                        first->d = device->flush_issued;
                        first->flushed = event->time;
                }
                if (first)
                        request.process = first->bio->process;
                else
                        r = stage_find_process(set, 0, NULL, &request.process);
                device->flush_issued = 0;
                return r < 0 ? r : stage_count_request(set, &request, event->time);
        }
        return 0;
}

/* A bio comes back from its flush sequence, or from a driver that has used up its count of sectors. */
static int complete_empty(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        for (struct link *at = device->held.next; at != &device->held; at = at->next) {
                struct part *part = LINK_OF(at, struct part, chain);
                if (part_end(part) != event->sector && part->start != event->sector) /* where it has got to; since 6.x where it began */
                        continue;
                if (part->bio->flags & STAGE_FUA)
                        device->fua_flushes = true;
                part->given = event->time;
                held_remove(part);
                return part_finish(set, part);
        }
        struct part *flush = oldest_flush(set, device, true, 0);
        if (flush)
                return part_end_at(set, flush, event->time);
        struct link *at = set->bios.next;
        for (int i = 0; i < 1024 && at != &set->bios; i++, at = at->next) {
                struct part *part = LINK_OF(at, struct bio, all)->parts;
                if (part->bio->device == device && !part->request && !part->held && !part->c && part_end(part) == event->sector)
                        return part_end_at(set, part, event->time);
        }
        set->counts.unmatched[STAGE_C]++;
        return 0;
}

static int on_empty(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        struct part *part;

        if (event->flags & STAGE_FLUSH_OP)
                return flush_request(set, device, event);
        switch (event->action) {
        case STAGE_Q:
                return on_queue(set, device, event);
        case STAGE_G:
                part = oldest_flush(set, device, false, event->pid);
                if (part)
                        part->g = event->time;
                return 0;
        case STAGE_C:
                return complete_empty(set, device, event);
        default:
                return 0;
        }
}

/* ---- from outside ------------------------------------------------------------------------------------------------------------------- */

static int dispatch(struct stage_set *set, struct device *device, const struct stage_event *event)
{
        switch (event->action) {
        case STAGE_Q: return on_queue(set, device, event);
        case STAGE_G: return on_get(set, device, event);
        case STAGE_I: return on_insert(set, device, event);
        case STAGE_D: return on_issue(set, device, event);
        case STAGE_C: return on_complete(set, device, event);
        case STAGE_X: return on_split(set, event);
        case STAGE_M: case STAGE_F: case STAGE_MERGE: on_merge(set, event); return 0;
        case STAGE_R: on_requeue(set, event); return 0;
        case STAGE_A: on_remap(set, event); return 0;
        default: return 0;
        }
}

int stage_event(struct stage_set *set, const struct stage_event *event)
{
        struct stage_event shifted = *event;
        int r = 0;

        if (shifted.time < UINT64_MAX) /* 0 stands for "not seen" in here, and traces begin at 0 */
                shifted.time++;
        event = &shifted;
        set->counts.events++;
        if (event->action == STAGE_P || event->action == STAGE_U || event->action == STAGE_UT || event->action >= STAGE_ACTIONS)
                return 0;
        if (event->sector + event->sectors < event->sector && event->sectors) { /* no such place on any device */
                set->counts.unmatched[event->action]++;
                return 0;
        }
        struct device *device = stage_find_device(set, event->device, &r);
        if (device == NULL) {
                set->counts.crowded += r == 0;
                return r;
        }
        if (event->flags & STAGE_PASSTHROUGH) {
                device->shown.passthrough += event->action == STAGE_C;
                return 0;
        }
        return event->sectors == 0 ? on_empty(set, device, event) : dispatch(set, device, event);
}

void stage_lost(struct stage_set *set, uint64_t events)
{
        set->counts.lost += events;
        set->epoch++;
}

void stage_finish(struct stage_set *set)
{
        for (size_t i = 0; i < set->device_count; i++)
                while (set->devices[i]->held.next != &set->devices[i]->held)
                        held_pass(set, set->devices[i]);
        stage_live_finish(set);
}

void stage_forget(struct stage_set *set)
{
        while (set->bios.next != &set->bios)
                bio_free(set, LINK_OF(set->bios.next, struct bio, all));
        while (set->requests.next != &set->requests)
                request_free(set, LINK_OF(set->requests.next, struct request, all));
        for (struct part *part; (part = set->free_parts) != NULL; free(part))
                set->free_parts = part->sibling;
        for (struct bio *bio; (bio = set->free_bios) != NULL; free(bio))
                set->free_bios = (struct bio *)(void *)bio->all.next;
        for (struct request *request; (request = set->free_requests) != NULL; free(request))
                set->free_requests = (struct request *)(void *)request->all.next;
}

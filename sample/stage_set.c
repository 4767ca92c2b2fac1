/*
 * Sums of the stage engine: tables of devices, processes and rows, and what a finished bio or request adds to its row. See stage.h.
 *
 * A part's way is cut at the events that were seen; whatever lies between two of them belongs to exactly one stage, so they add up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_own.h"

enum { PROCESS_SLOTS = STAGE_MAX_PROCESSES * 2, ROW_SLOTS = STAGE_MAX_ROWS * 2, MAX_OPEN = 262144 };

/* ---- names ------------------------------------------------------------------------------------------------------------------------ */

static const struct { const char *name; enum stage_cause cause; } stages[STAGE_COUNT] = {
        [STAGE_Q2G] = {"Q2G", CAUSE_TAG}, [STAGE_Q2M] = {"Q2M", CAUSE_PLUG}, [STAGE_G2I] = {"G2I", CAUSE_PLUG},
        [STAGE_G2D] = {"G2D", CAUSE_PLUG},
        [STAGE_I2D] = {"I2D", CAUSE_QUEUE}, [STAGE_M2D] = {"M2D", CAUSE_QUEUE}, [STAGE_D2D] = {"D2D", CAUSE_REFUSED},
        [STAGE_D2C] = {"D2C", CAUSE_DISK}, [STAGE_FLUSH] = {"flush", CAUSE_FLUSH}, [STAGE_BIO] = {"bio", CAUSE_DRIVER},
        [STAGE_OTHER] = {"other", CAUSE_OTHER}, [STAGE_Q2C] = {"Q2C", CAUSE_OTHER},
};

const char *stage_name(enum stage stage) { return stages[stage].name; }

const char *stage_cause_name(enum stage_cause cause)
{
        static const char *const names[CAUSE_COUNT] = {[CAUSE_TAG] = "tag", [CAUSE_PLUG] = "plug", [CAUSE_QUEUE] = "queue",
                [CAUSE_REFUSED] = "refused", [CAUSE_DISK] = "disk", [CAUSE_FLUSH] = "flush", [CAUSE_DRIVER] = "driver",
                        [CAUSE_OTHER] = "other"};
        return names[cause];
}

const char *stage_direction_name(enum stage_direction direction)
{
        static const char *const names[STAGE_DIRECTIONS] = {"read", "write", "discard", "flush", "other"};
        return names[direction];
}

const char *stage_kind_name(enum stage_kind kind)
{
        static const char *const names[STAGE_KINDS] = {"sync", "async", "meta"};
        return names[kind];
}

char stage_letter(enum stage_action action)
{
        return "QGIDCMFRXAPUUM"[action];
}

/* Letters as blk_fill_rwbs (block/blk-core or kernel/trace/blktrace.c) writes them: [F] operation [F] [A] [S] [M] [U]. A flush request is
 * "FF", "FN" in older kernels and in blkparse. */
bool stage_rwbs(const char *text, size_t length, struct stage_event *event)
{
        size_t at = 0;
        bool before = false;

        event->flags &= STAGE_PASSTHROUGH | STAGE_OF_REQUEST;
        event->direction = STAGE_ELSE;
        length = strnlen(text, length);
        if (at < length && text[at] == 'F') {
                before = true;
                at++;
        }
        char operation = at < length ? text[at++] : '\0';
        switch (operation) {
        case 'R': event->direction = STAGE_READ; break;
        case 'W': event->direction = STAGE_WRITE; break;
        case 'D':
                event->direction = STAGE_DISCARD;
                at += at < length && text[at] == 'E'; /* secure erase */
                break;
        case 'Z': at += at < length; break; /* zones: ZR, ZO, ZC, ZF, ZA */
        case 'F':
                before = false;
                event->flags |= STAGE_FLUSH_OP;
                break;
        case 'N': case '\0':
                if (before)
                        event->flags |= STAGE_FLUSH_OP;
                else if (operation == '\0')
                        return false;
                before = false;
                break;
        default: return false;
        }
        if (event->flags & STAGE_FLUSH_OP)
                event->direction = STAGE_FLUSHES;
        if (before)
                event->flags |= STAGE_PREFLUSH;
        for (; at < length; at++)
                switch (text[at]) {
                case 'F': event->flags |= STAGE_FUA; break;
                case 'A': event->flags |= STAGE_IS_AHEAD; break;
                case 'S': event->flags |= STAGE_IS_SYNC; break;
                case 'M': event->flags |= STAGE_IS_META; break;
                default: break; /* U, and what later kernels add */
                }
        return true;
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------------- */

/* Room for one more pointer in a list that grows by doubling. */
static int grow(void **list, size_t count, size_t size)
{
        if (count & (count - 1))
                return 0;
        size_t room = count ? 2 * count : 1;
        void *more = realloc(*list, room * size);
        if (more == NULL)
                return -ENOMEM;
        *list = more;
        return 0;
}

struct device *stage_find_device(struct stage_set *set, uint32_t number, int *error)
{
        if (set->last_device && set->last_device->shown.device == number)
                return set->last_device;
        for (size_t i = 0; i < set->device_count; i++)
                if (set->devices[i]->shown.device == number)
                        return set->last_device = set->devices[i];
        if (set->device_count == STAGE_MAX_DEVICES)
                return NULL;
        struct device *device = calloc(1, sizeof *device);
        if (device == NULL || grow((void **)&set->devices, set->device_count, sizeof *set->devices) < 0) {
                free(device);
                *error = -ENOMEM;
                return NULL;
        }
        device->shown.device = number;
        link_init(&device->flushes);
        link_init(&device->held);
        set->devices[set->device_count++] = device;
        return set->last_device = device;
}

static uint32_t mix(uint32_t a, uint32_t b)
{
        uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
        return (uint32_t)(h >> 32);
}

int stage_find_process(struct stage_set *set, uint32_t pid, const char *name, uint32_t *number)
{
        uint32_t slot = mix(pid, 1) % PROCESS_SLOTS;

        for (; set->process_hash[slot]; slot = (slot + 1) % PROCESS_SLOTS)
                if (set->processes[set->process_hash[slot] - 1]->pid == pid)
                        break;
        if (set->process_hash[slot] == 0) {
                if (set->process_count == STAGE_MAX_PROCESSES) {
                        set->counts.crowded++;
                        *number = STAGE_MAX_PROCESSES - 1;
                        return 0;
                }
                bool last = set->process_count == STAGE_MAX_PROCESSES - 1;
                struct stage_process *process = calloc(1, sizeof *process);
                if (process == NULL || grow((void **)&set->processes, set->process_count, sizeof *set->processes) < 0) {
                        free(process);
                        return -ENOMEM;
                }
                process->pid = last ? UINT32_MAX : pid;
                if (last)
                        memcpy(process->name, "(all others)", sizeof "(all others)");
                set->processes[set->process_count++] = process;
                set->process_hash[slot] = (uint32_t)set->process_count;
        }
        *number = set->process_hash[slot] - 1;
        struct stage_process *process = set->processes[*number];
        if (name && name[0] && process->pid == pid && strncmp(process->name, name, sizeof process->name - 1) != 0) {
                size_t length = strnlen(name, sizeof process->name - 1);
                memcpy(process->name, name, length);
                process->name[length] = '\0';
        }
        return 0;
}

void stage_rename_process(struct stage_set *set, uint32_t pid, const char *name)
{
        uint32_t number;

        for (uint32_t slot = mix(pid, 1) % PROCESS_SLOTS; set->process_hash[slot]; slot = (slot + 1) % PROCESS_SLOTS)
                if (set->processes[set->process_hash[slot] - 1]->pid == pid) {
                        stage_find_process(set, pid, name, &number);
                        return;
                }
}

/* NULL: no memory. A full table's last row takes all others of whatever device: it is never reached by real traces, and counted. */
static struct stage_row *find_row(struct stage_set *set, uint32_t device, uint8_t direction, uint8_t kind, uint32_t process)
{
        uint32_t slot = mix(device ^ (uint32_t)direction << 28 ^ (uint32_t)kind << 24, process) % ROW_SLOTS;

        for (; set->row_hash[slot]; slot = (slot + 1) % ROW_SLOTS) {
                struct stage_row *row = set->rows[set->row_hash[slot] - 1];
                if (row->device == device && row->direction == direction && row->kind == kind && row->process == set->processes[process])
                        return row;
        }
        if (set->row_count == STAGE_MAX_ROWS) {
                set->counts.crowded++;
                return set->rows[STAGE_MAX_ROWS - 1];
        }
        struct stage_row *row = calloc(1, sizeof *row);
        if (row == NULL || grow((void **)&set->rows, set->row_count, sizeof *set->rows) < 0) {
                free(row);
                return NULL;
        }
        *row = (struct stage_row){.device = device, .direction = direction, .kind = kind, .process = set->processes[process]};
        set->rows[set->row_count++] = row;
        set->row_hash[slot] = (uint32_t)set->row_count;
        return row;
}

/* ---- whose bios are open on a device ------------------------------------------------------------------------------------------------ */

void stage_own_count(struct stage_set *set, struct device *device, uint32_t process, int step)
{
        unsigned i = 0;

        set->processes[process]->open += (uint64_t)(int64_t)step;
        device->shown.bios += (uint64_t)(int64_t)step;
        while (i < device->owner_count && device->owners[i].process != process)
                i++;
        if (i == device->owner_count) {
                if (step < 0 || i == STAGE_OWNERS)
                        return;
                device->owners[device->owner_count++] = (struct owner){.process = process};
        }
        device->owners[i].open += (uint32_t)step;
        if (device->owners[i].open == 0)
                device->owners[i] = device->owners[--device->owner_count];
}

void stage_own_front(const struct device *device, struct bio *bio)
{
        bio->open = (uint32_t)device->shown.bios;
        bio->front_open = 0;
        for (unsigned i = 0; i < device->owner_count; i++)
                if (device->owners[i].process != bio->process && device->owners[i].open > bio->front_open) {
                        bio->front_open = device->owners[i].open;
                        bio->front = device->owners[i].process;
                }
}

/* ---- what a finished one adds ------------------------------------------------------------------------------------------------------- */

/* The way walked so far: `at` is where the last stage ended; stages seen are marked, for 0 ns is a sample too. */
struct way {
        uint64_t at, stage[STAGE_COUNT], cause[CAUSE_COUNT];
        uint32_t seen;
        uint64_t backwards;
        struct stage_cut *cuts; /* NULL: nobody wants them */
        unsigned cut_count;
};

static void step_as(struct way *way, enum stage stage, enum stage_cause cause, uint64_t until)
{
        if (until < way->at)
                way->backwards++;
        uint64_t passed = until > way->at ? until - way->at : 0;
        way->stage[stage] += passed;
        way->cause[cause] += passed;
        way->seen |= UINT32_C(1) << stage;
        way->at += passed;
        if (way->cuts && passed && way->cut_count < STAGE_CUTS)
                way->cuts[way->cut_count++] = (struct stage_cut){.until = way->at, .cause = (uint8_t)cause};
}

static void step(struct way *way, enum stage stage, uint64_t until)
{
        step_as(way, stage, stages[stage].cause, until);
}

/* From the queue to the first issue. */
static void walk_in(struct way *way, const struct part *part)
{
        bool flush = part->bio->flags & STAGE_PREFLUSH;

        if (part->m && !part->g) {
                step(way, STAGE_Q2M, part->m);
                if (part->inserted > part->m && part->inserted < part->d1) /* until then its request was held back by a plug */
                        step_as(way, STAGE_M2D, CAUSE_PLUG, part->inserted);
                step_as(way, STAGE_M2D, part->inserted ? CAUSE_QUEUE : CAUSE_PLUG, part->d1); /* no scheduler: all of it is the plug's */
        } else if (part->g) {
                step(way, STAGE_Q2G, part->g);
                if (part->i) {
                        step(way, flush ? STAGE_FLUSH : STAGE_G2I, part->i);
                        step(way, STAGE_I2D, part->d1);
                } else {
                        step(way, flush ? STAGE_FLUSH : STAGE_G2D, part->d1);
                }
        } else {
                if (part->i)
                        step(way, STAGE_OTHER, part->i);
                step(way, part->i ? STAGE_I2D : STAGE_OTHER, part->d1);
        }
        if (part->d > part->d1)
                step(way, STAGE_D2D, part->d);
}

static void walk(struct way *way, const struct part *part)
{
        way->at = part->q;
        if (part->bio->direction == STAGE_FLUSHES) {
                if (part->g)
                        step(way, STAGE_Q2G, part->g);
                step(way, STAGE_FLUSH, part->c);
        } else if (part->d1) {
                walk_in(way, part);
                step(way, STAGE_D2C, part->c);
                if (part->given)
                        step(way, STAGE_FLUSH, part->given);
        } else if (!part->g && !part->m && !part->i && !part->of_request) {
                step(way, STAGE_BIO, part->c);
        } else {
                if (part->g)
                        step(way, STAGE_Q2G, part->g);
                step(way, STAGE_OTHER, part->c);
        }
}

unsigned stage_cut(const struct part *part, struct stage_cut cuts[STAGE_CUTS])
{
        struct way way = {.cuts = cuts};

        walk(&way, part);
        return way.cut_count;
}

static int sample_add(const struct stage_set *set, struct histogram **histogram, uint64_t ns)
{
        if (set->options.no_histograms)
                return 0;
        if (*histogram == NULL && (*histogram = calloc(1, sizeof **histogram)) == NULL)
                return -ENOMEM;
        histogram_add(*histogram, ns);
        return 0;
}

typedef void stage_call(void *own, const struct stage_done *);

static void tell(const struct stage_set *set, const struct stage_row *row, const struct part *part, const struct way *way, bool last)
{
        struct bio *bio = part->bio;
        stage_call *call = last ? set->options.done : set->options.part;

        if (call == NULL)
                return;
        bio->told++;
        struct stage_done done = {.row = row, .sector = bio->start, .sectors = bio->sectors, .q = part->q - 1, .g = part->g - 1,
                .i = part->i - 1, .m = part->m - 1,
                .d = part->d - 1, .c = (part->given ? part->given : part->c) - 1, .open = bio->open, .front_open = bio->front_open,
                .seen = way->seen, .d1 = part->d1 - 1, .data = (part->flushed ? part->flushed : part->c) - 1,
                .given = (part->flushed ? part->c : part->given) - 1, .inserted = part->inserted - 1, .id = bio->order,
                .part_sector = part->start, .part_sectors = part->sectors, .request_sectors = part->request_sectors, .tid = bio->pid,
                .requeues = bio->requeues, .told = (uint16_t)(bio->told < UINT16_MAX ? bio->told : UINT16_MAX), .error = bio->error,
                .flags = bio->flags, .split = bio->split, .last = last, .head = part->head,
                .driver = !part->d1 && !part->g && !part->m && !part->i && !part->of_request && bio->direction != STAGE_FLUSHES};

        if (bio->front_open)
                done.front = set->processes[bio->front];
        memcpy(done.stage, way->stage, sizeof done.stage);
        memcpy(done.cause, way->cause, sizeof done.cause);
        call(set->options.own, &done);
}

int stage_count_part(struct stage_set *set, const struct part *part, bool last)
{
        const struct bio *bio = part->bio;
        struct stage_row *row = find_row(set, bio->device->shown.device, bio->direction, bio->kind, bio->process);
        struct way way = {0};
        int r = row ? 0 : -ENOMEM;

        walk(&way, part);
        if (r == 0 && last) {
                way.seen |= UINT32_C(1) << STAGE_Q2C;
                way.stage[STAGE_Q2C] = way.at - part->q;
        }
        set->counts.backwards += way.backwards;
        for (int stage = 0; r == 0 && stage < STAGE_COUNT; stage++) {
                if (!(way.seen & UINT32_C(1) << stage))
                        continue;
                r = sample_add(set, &row->bio[stage], way.stage[stage]);
                if (last)
                        row->path[stage] += way.stage[stage];
        }
        if (r == 0 && !last)
                tell(set, row, part, &way, false);
        if (r < 0 || !last)
                return r;
        for (int cause = 0; cause < CAUSE_COUNT; cause++)
                row->cause[cause] += way.cause[cause];
        row->sectors += bio->sectors;
        row->merged += bio->merged;
        row->splits += bio->split;
        row->requeues += bio->requeues;
        row->errors += bio->error != 0;
        set->counts.errors += bio->error != 0;
        if (bio->epoch != set->epoch) {
                row->spoilt++;
                set->counts.spoilt++;
        }
        tell(set, row, part, &way, true);
        return 0;
}

int stage_count_request(struct stage_set *set, const struct request *request, uint64_t end)
{
        struct stage_row *row = find_row(set, request->device->shown.device, request->direction, request->kind, request->process);
        struct way way = {.at = request->q ? request->q : request->g ? request->g : request->d1};

        if (row == NULL)
                return -ENOMEM;
        if (request->q && request->g)
                step(&way, STAGE_Q2G, request->g);
        if (request->g && request->i)
                step(&way, request->preflush ? STAGE_FLUSH : STAGE_G2I, request->i);
        if (request->i || request->g)
                step(&way, request->i ? STAGE_I2D : request->preflush ? STAGE_FLUSH : STAGE_G2D, request->d1);
        if (request->d > request->d1)
                step(&way, STAGE_D2D, request->d);
        way.at = request->d;
        step(&way, STAGE_D2C, end);
        if (request->q) {
                way.seen |= UINT32_C(1) << STAGE_Q2C;
                way.stage[STAGE_Q2C] = end > request->q ? end - request->q : 0;
        }
        row->requests++;
        for (int stage = 0; stage < STAGE_COUNT; stage++)
                if (way.seen & UINT32_C(1) << stage && sample_add(set, &row->request[stage], way.stage[stage]) < 0)
                        return -ENOMEM;
        return 0;
}

void stage_add(struct stage_sum *sum, const struct stage_row *row)
{
        sum->requests += row->requests;
        sum->sectors += row->sectors;
        sum->merged += row->merged;
        sum->splits += row->splits;
        sum->requeues += row->requeues;
        sum->errors += row->errors;
        sum->spoilt += row->spoilt;
        for (int cause = 0; cause < CAUSE_COUNT; cause++)
                sum->cause[cause] += row->cause[cause];
        for (int stage = 0; stage < STAGE_COUNT; stage++) {
                sum->path[stage] += row->path[stage];
                if (row->bio[stage])
                        histogram_merge(&sum->bio[stage], row->bio[stage]);
                if (row->request[stage])
                        histogram_merge(&sum->request[stage], row->request[stage]);
        }
        sum->bios = sum->bio[STAGE_Q2C].count;
}

/* ---- the set ------------------------------------------------------------------------------------------------------------------------ */

int stage_new(const struct stage_options *options, struct stage_set **result)
{
        struct stage_set *set = calloc(1, sizeof *set);

        if (set == NULL)
                return -ENOMEM;
        link_init(&set->bios);
        link_init(&set->requests);
        for (size_t i = 0; i < STAGE_HASH; i++) {
                link_init(&set->waiting[i]);
                link_init(&set->starts[i]);
                link_init(&set->ends[i]);
                link_init(&set->keys[i]);
        }
        set->process_hash = calloc(PROCESS_SLOTS, sizeof *set->process_hash);
        set->row_hash = calloc(ROW_SLOTS, sizeof *set->row_hash);
        if (set->process_hash == NULL || set->row_hash == NULL) {
                stage_free(set);
                return -ENOMEM;
        }
        if (options)
                set->options = *options;
        if (set->options.max_open == 0)
                set->options.max_open = MAX_OPEN;
        *result = set;
        return 0;
}

void stage_free(struct stage_set *set)
{
        if (set == NULL)
                return;
        stage_forget(set);
        stage_live_free(set);
        for (size_t i = 0; i < set->row_count; i++) {
                for (int stage = 0; stage < STAGE_COUNT; stage++) {
                        free(set->rows[i]->bio[stage]);
                        free(set->rows[i]->request[stage]);
                }
                free(set->rows[i]);
        }
        for (size_t i = 0; i < set->device_count; i++)
                free(set->devices[i]);
        for (size_t i = 0; i < set->process_count; i++)
                free(set->processes[i]);
        free(set->rows);
        free(set->devices);
        free(set->processes);
        free(set->process_hash);
        free(set->row_hash);
        free(set);
}

size_t stage_rows(const struct stage_set *set) { return set->row_count; }
const struct stage_row *stage_get_row(const struct stage_set *set, size_t i) { return set->rows[i]; }
size_t stage_devices(const struct stage_set *set) { return set->device_count; }
const struct stage_device *stage_get_device(const struct stage_set *set, size_t i) { return &set->devices[i]->shown; }
const struct stage_counts *stage_get_counts(const struct stage_set *set) { return &set->counts; }

size_t stage_unfinished(const struct stage_set *set) { return set->open + stage_live_open(set); }

bool stage_oldest(const struct stage_set *set, uint32_t device, uint64_t *time)
{
        for (struct link *at = set->bios.next; at != &set->bios; at = at->next) {
                const struct bio *bio = LINK_OF(at, struct bio, all);
                if (bio->device->shown.device != device)
                        continue;
                *time = bio->parts->q - 1;
                return true;
        }
        return false;
}

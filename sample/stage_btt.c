/*
 * btt's rules. See stage_btt.h; from btt/trace_*.c and devs.c of blktrace 1.2.0.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/stage_btt.h"

enum { MAX_OPEN = 1 << 17, MAX_ROWS = 1 << 14 };

struct open_q {
        uint64_t start, end, q, g, i, m, d;
        uint32_t pid;
};

struct btt_device {
        uint32_t device;
        uint64_t last_q;
        bool begun;            /* a Q or A was seen */
        struct open_q *open;   /* by first sector */
        size_t count, room;
};

struct btt {
        struct btt_device *devices;
        size_t device_count;
        struct btt_row *rows;
        size_t row_count, row_room;
};

const char *btt_name(enum btt_column column)
{
        static const char *const names[BTT_COLUMNS] = {"Q2Q", "Q2G", "G2I", "Q2M", "I2D", "M2D", "D2C", "Q2C"};
        return names[column];
}

static struct btt_device *find_device(struct btt *btt, uint32_t number)
{
        for (size_t i = 0; i < btt->device_count; i++)
                if (btt->devices[i].device == number)
                        return &btt->devices[i];
        struct btt_device *more = realloc(btt->devices, (btt->device_count + 1) * sizeof *more);
        if (more == NULL)
                return NULL;
        btt->devices = more;
        more[btt->device_count] = (struct btt_device){.device = number};
        return &more[btt->device_count++];
}

static int row_at(struct btt *btt, uint32_t device, uint32_t pid, size_t *number)
{
        for (size_t i = 0; i < btt->row_count; i++)
                if (btt->rows[i].device == device && btt->rows[i].pid == pid) {
                        *number = i;
                        return 0;
                }
        if (btt->row_count == MAX_ROWS) {
                *number = 0;
                return -ENOSPC;
        }
        if (btt->row_count == btt->row_room) {
                size_t room = btt->row_room ? 2 * btt->row_room : 16;
                struct btt_row *more = realloc(btt->rows, room * sizeof *more);
                if (more == NULL)
                        return -ENOMEM;
                btt->rows = more;
                btt->row_room = room;
        }
        btt->rows[btt->row_count] = (struct btt_row){.device = device, .pid = pid};
        *number = btt->row_count++;
        return 0;
}

static int count(struct btt *btt, uint32_t device, uint32_t pid, enum btt_column column, uint64_t from, uint64_t to)
{
        const uint32_t keys[3][2] = {{UINT32_MAX, UINT32_MAX}, {device, UINT32_MAX}, {UINT32_MAX, pid}};
        uint64_t ns = to > from ? to - from : 1;

        for (int i = 0; i < 3; i++) {
                size_t number;
                int r = row_at(btt, keys[i][0], keys[i][1], &number);
                if (r == -ENOSPC)
                        continue;
                if (r < 0)
                        return r;
                struct btt_cell *cell = &btt->rows[number].cells[column];
                if (cell->count == 0 || ns < cell->min)
                        cell->min = ns;
                if (ns > cell->max)
                        cell->max = ns;
                cell->count++;
                cell->total += ns;
        }
        return 0;
}

/* The first Q whose start is not below the sector. */
static size_t lower(const struct btt_device *device, uint64_t sector)
{
        size_t low = 0, high = device->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (device->open[middle].start < sector)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The Q that contains the sector. */
static struct open_q *containing(const struct btt_device *device, uint64_t sector)
{
        size_t at = lower(device, sector);

        if (at < device->count && device->open[at].start == sector)
                return &device->open[at];
        if (at > 0 && device->open[at - 1].end > sector)
                return &device->open[at - 1];
        return NULL;
}

static int on_queue(struct btt *btt, struct btt_device *device, const struct stage_event *event)
{
        size_t at = lower(device, event->sector);
        int r = device->last_q ? count(btt, device->device, event->pid, BTT_Q2Q, device->last_q, event->time) : 0;

        device->last_q = event->time;
        if (r < 0)
                return r;
        if (at == device->count || device->open[at].start != event->sector) {
                if (device->count == MAX_OPEN)
                        return 0;
                if (device->count == device->room) {
                        size_t room = device->room ? 2 * device->room : 64;
                        struct open_q *more = realloc(device->open, room * sizeof *more);
                        if (more == NULL)
                                return -ENOMEM;
                        device->open = more;
                        device->room = room;
                }
                memmove(&device->open[at + 1], &device->open[at], (device->count - at) * sizeof *device->open);
                device->count++;
        }
        device->open[at] = (struct open_q){.start = event->sector, .end = event->sector + event->sectors, .q = event->time,
                .pid = event->pid};
        return 0;
}

static int on_middle(struct btt *btt, struct btt_device *device, const struct stage_event *event)
{
        struct open_q *q = containing(device, event->sector);

        if (q == NULL)
                return 0;
        switch (event->action) {
        case STAGE_G:
                q->g = event->time;
                return count(btt, device->device, q->pid, BTT_Q2G, q->q, event->time);
        case STAGE_I:
                q->i = event->time;
                return q->g ? count(btt, device->device, q->pid, BTT_G2I, q->g, event->time) : 0;
        default:
                q->m = event->time;
                return count(btt, device->device, q->pid, BTT_Q2M, q->q, event->time);
        }
}

static int on_issue(struct btt *btt, struct btt_device *device, const struct stage_event *event)
{
        uint64_t end = event->sector + event->sectors;
        int r = 0;

        for (size_t i = lower(device, event->sector); i < device->count && device->open[i].start < end && r == 0; i++) {
                struct open_q *q = &device->open[i];
                if (q->end > end)
                        continue;
                if (q->i)
                        r = count(btt, device->device, q->pid, BTT_I2D, q->i, event->time);
                else if (q->m)
                        r = count(btt, device->device, q->pid, BTT_M2D, q->m, event->time);
                q->d = event->time;
        }
        return r;
}

static int on_complete(struct btt *btt, struct btt_device *device, const struct stage_event *event)
{
        uint64_t end = event->sector + event->sectors;
        size_t from = lower(device, event->sector), kept = from, i = from;
        int r = 0;

        for (; i < device->count && device->open[i].start < end; i++) {
                const struct open_q q = device->open[i];
                if (q.end > end) {
                        device->open[kept++] = q;
                        continue;
                }
                if (r == 0 && q.d)
                        r = count(btt, device->device, q.pid, BTT_D2C, q.d, event->time);
                if (r == 0)
                        r = count(btt, device->device, q.pid, BTT_Q2C, q.q, event->time);
        }
        if (kept != i) {
                memmove(&device->open[kept], &device->open[i], (device->count - i) * sizeof *device->open);
                device->count -= i - kept;
        }
        return r;
}

int btt_event(struct btt *btt, const struct stage_event *event)
{
        if (event->sectors == 0 || event->flags & STAGE_PASSTHROUGH || event->sector + event->sectors < event->sector)
                return 0;
        struct btt_device *device = find_device(btt, event->device);
        if (device == NULL)
                return -ENOMEM;
        if (event->action == STAGE_Q || event->action == STAGE_A)
                device->begun = true;
        if (!device->begun)
                return 0;
        switch (event->action) {
        case STAGE_Q: return on_queue(btt, device, event);
        case STAGE_G: case STAGE_I: case STAGE_M: case STAGE_F: case STAGE_MERGE: return on_middle(btt, device, event);
        case STAGE_D: return on_issue(btt, device, event);
        case STAGE_C: return on_complete(btt, device, event);
        default: return 0;
        }
}

int btt_new(struct btt **result)
{
        struct btt *btt = calloc(1, sizeof *btt);
        size_t all;

        if (btt == NULL)
                return -ENOMEM;
        int r = row_at(btt, UINT32_MAX, UINT32_MAX, &all);
        if (r < 0) {
                free(btt);
                return r;
        }
        *result = btt;
        return 0;
}

void btt_free(struct btt *btt)
{
        if (btt == NULL)
                return;
        for (size_t i = 0; i < btt->device_count; i++)
                free(btt->devices[i].open);
        free(btt->devices);
        free(btt->rows);
        free(btt);
}

size_t btt_rows(const struct btt *btt) { return btt->row_count; }
const struct btt_row *btt_get_row(const struct btt *btt, size_t i) { return &btt->rows[i]; }

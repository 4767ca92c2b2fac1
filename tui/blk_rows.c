/*
 * watop blk: which rows of the stage engine are told, added up and in which order.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tui/blk.h"
#include "tui/blk_system.h"

const char *blk_device_known(const struct blk_report *report, uint32_t device, char *out, size_t size)
{
        if (report->trace == NULL)
                return blk_device_name_now(device, out, size);
        const char *name = blk_device_name(report->trace, device);
        if (name)
                snprintf(out, size, "%s", name);
        return name ? out : NULL;
}

const char *blk_device_text(const struct blk_report *report, uint32_t device, char *out, size_t size)
{
        char known[64];
        const char *name = blk_device_known(report, device, known, sizeof known);

        snprintf(out, size, "%u,%u%s%s", device >> 20, device & 0xfffff, name ? " " : "", name ? name : "");
        return out;
}

bool blk_want_device(const struct blk_report *report, uint32_t device)
{
        char comma[32], colon[32];
        const char *name = report->trace ? blk_device_name(report->trace, device) : NULL;

        snprintf(comma, sizeof comma, "%u,%u", device >> 20, device & 0xfffff);
        snprintf(colon, sizeof colon, "%u:%u", device >> 20, device & 0xfffff);
        for (size_t i = 0; i < report->device_count; i++)
                if (report->trace == NULL ? report->numbers[i] == device : strcmp(report->devices[i], comma) == 0 ||
                    strcmp(report->devices[i], colon) == 0 || (name && strcmp(report->devices[i], name) == 0))
                        return true;
        return report->device_count == 0;
}

bool blk_want_thread(const struct blk_report *report, uint32_t pid, const char *name)
{
        char number[16];

        if (report->process == NULL)
                return true;
        snprintf(number, sizeof number, "%u", pid);
        return strcmp(report->process, number) == 0 || (name && strcmp(report->process, name) == 0);
}

bool blk_want_process(const struct blk_report *report, const struct stage_process *process)
{
        return report->live || blk_want_thread(report, process->pid, process->name);
}

void blk_sum(const struct blk_report *report, struct stage_sum *sum, uint32_t device, int direction, int kind,
        const struct stage_process *process)
{
        memset(sum, 0, sizeof *sum);
        for (size_t i = 0; i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                if (row->device != device || (process ? row->process != process : !blk_want_process(report, row->process)) ||
                    (direction == BLK_DATA ? row->direction == STAGE_FLUSHES : direction != BLK_ANY && row->direction != direction) ||
                    (kind != BLK_ANY && row->kind != kind))
                        continue;
                stage_add(sum, row);
        }
}

uint64_t blk_total(const struct blk_report *report, uint32_t device, const struct stage_process *process, uint64_t *bios)
{
        uint64_t total = 0;

        *bios = 0;
        for (size_t i = 0; i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                if (row->device != device || (process ? row->process != process : !blk_want_process(report, row->process)))
                        continue;
                total += row->path[STAGE_Q2C];
                *bios += (row->bio[STAGE_Q2C] ? row->bio[STAGE_Q2C]->count : 0) + row->requests;
        }
        return total;
}

struct ranked { const void *item; uint64_t total; };

static int by_total(const void *a, const void *b)
{
        const struct ranked *x = a, *y = b;

        return x->total == y->total ? 0 : x->total < y->total ? 1 : -1;
}

size_t blk_list_devices(const struct blk_report *report, const struct stage_device **list, size_t room)
{
        struct ranked ranked[256];
        size_t count = 0;

        for (size_t i = 0; i < stage_devices(report->set) && count < 256; i++) {
                const struct stage_device *device = stage_get_device(report->set, i);
                uint64_t bios, total = blk_total(report, device->device, NULL, &bios);
                if (blk_want_device(report, device->device) && (bios || (report->process == NULL && (device->bios || device->requests ||
                        device->passthrough))))
                        ranked[count++] = (struct ranked){.item = device, .total = total};
        }
        qsort(ranked, count, sizeof *ranked, by_total);
        for (size_t i = 0; i < count && i < room; i++)
                list[i] = ranked[i].item;
        return count < room ? count : room;
}

/* All processes with bios on the device, one entry each, the longest waiting first. The caller frees. */
static struct ranked *rank_processes(const struct blk_report *report, uint32_t device, size_t *count)
{
        struct ranked *ranked = calloc(stage_rows(report->set) + 1, sizeof *ranked);

        *count = 0;
        for (size_t i = 0; ranked && i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                size_t k = 0;
                if (row->device != device || !blk_want_process(report, row->process) || !row->bio[STAGE_Q2C])
                        continue;
                while (k < *count && ranked[k].item != row->process)
                        k++;
                if (k == *count)
                        ranked[(*count)++] = (struct ranked){.item = row->process};
                ranked[k].total += row->path[STAGE_Q2C];
        }
        if (ranked)
                qsort(ranked, *count, sizeof *ranked, by_total);
        return ranked;
}

size_t blk_list_processes(const struct blk_report *report, uint32_t device, const struct stage_process **list, size_t room)
{
        size_t count;
        struct ranked *ranked = rank_processes(report, device, &count);

        for (size_t i = 0; i < count && i < room; i++)
                list[i] = ranked[i].item;
        free(ranked);
        return count < room ? count : room;
}

static bool same_name(const struct stage_process *a, const struct stage_process *b)
{
        return a == b || (a->name[0] && strcmp(a->name, b->name) == 0);
}

size_t blk_list_groups(const struct blk_report *report, uint32_t device, unsigned least, struct blk_group *groups, size_t room)
{
        size_t count, used = 0;
        struct ranked *ranked = rank_processes(report, device, &count);
        struct ranked *merged = calloc(count + 1, sizeof *merged);
        unsigned *sizes = calloc(count + 1, sizeof *sizes);

        for (size_t i = 0; merged && sizes && i < count; i++) {
                unsigned size = 0;
                uint64_t total = 0;
                bool first = true;
                for (size_t k = 0; k < count; k++)
                        if (same_name(ranked[i].item, ranked[k].item)) {
                                size++;
                                total += ranked[k].total;
                                first &= k >= i;
                        }
                if (size < least)
                        merged[used] = ranked[i];
                else if (first)
                        merged[used] = (struct ranked){.item = ranked[i].item, .total = total};
                else
                        continue;
                sizes[used++] = size < least ? 1 : size;
        }
        size_t given = 0;
        for (; given < used && given < room; given++) { /* few are wanted, of few */
                size_t best = 0;
                for (size_t i = 1; i < used; i++)
                        if (sizes[best] == 0 || (sizes[i] && merged[i].total > merged[best].total))
                                best = i;
                groups[given] = (struct blk_group){.process = merged[best].item, .count = sizes[best], .total = merged[best].total};
                sizes[best] = 0;
        }
        free(ranked);
        free(merged);
        free(sizes);
        return given;
}

void blk_sum_group(const struct blk_report *report, struct stage_sum *sum, uint32_t device, const struct blk_group *group)
{
        memset(sum, 0, sizeof *sum);
        for (size_t i = 0; i < stage_rows(report->set); i++) {
                const struct stage_row *row = stage_get_row(report->set, i);
                if (row->device == device && blk_want_process(report, row->process) &&
                    (row->process == group->process || (group->count > 1 && same_name(row->process, group->process))))
                        stage_add(sum, row);
        }
}

uint64_t blk_unmatched(const struct blk_report *report)
{
        const struct stage_counts *counts = stage_get_counts(report->set);
        uint64_t unmatched = report->live ? report->live->unmatched : 0;

        for (int i = 0; i < STAGE_ACTIONS; i++)
                unmatched += counts->unmatched[i];
        return unmatched;
}

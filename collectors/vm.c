/*
 * Memory, swap and reclaim, from /proc/meminfo and /proc/vmstat. Which line goes where is in the two tables.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collector.h"

enum unit { UNIT_ONE = 1, UNIT_KIB = 1024, UNIT_PAGE = 0 };

struct line {
        const char *name;
        int metric;
        enum unit unit;
};

/* "MemTotal:       2035628 kB" */
static const struct line meminfo[] = {
        { "MemTotal:", VM_TOTAL, UNIT_KIB },     { "MemFree:", VM_FREE, UNIT_KIB },          { "MemAvailable:", VM_AVAILABLE, UNIT_KIB },
        { "Buffers:", VM_BUFFERS, UNIT_KIB },    { "Cached:", VM_CACHED, UNIT_KIB },         { "Dirty:", VM_DIRTY, UNIT_KIB },
        { "Writeback:", VM_WRITEBACK, UNIT_KIB }, { "SwapTotal:", VM_SWAP_TOTAL, UNIT_KIB }, { "SwapFree:", VM_SWAP_FREE, UNIT_KIB },
};

/* "pswpin 17". pgpgin and pgpgout are printed in KiB, the other page counts in pages (mm/vmstat.c). A name that comes more than once
 * in the table's metric is summed: allocstall_ZONE since 4.10. */
static const struct line vmstat[] = {
        { "pswpin ", VM_SWAP_IN, UNIT_PAGE },              { "pswpout ", VM_SWAP_OUT, UNIT_PAGE },
        { "pgpgin ", VM_PAGE_IN, UNIT_KIB },               { "pgpgout ", VM_PAGE_OUT, UNIT_KIB },
        { "pgfault ", VM_MINFLT, UNIT_ONE },               { "pgmajfault ", VM_MAJFLT, UNIT_ONE },
        { "pgscan_direct ", VM_SCAN_DIRECT, UNIT_PAGE },   { "pgsteal_direct ", VM_STEAL_DIRECT, UNIT_PAGE },
        { "pgscan_kswapd ", VM_SCAN_KSWAPD, UNIT_PAGE },   { "oom_kill ", VM_OOM_KILL, UNIT_ONE },
        { "allocstall ", VM_ALLOC_STALL, UNIT_ONE },       { "allocstall_dma ", VM_ALLOC_STALL, UNIT_ONE },
        { "allocstall_dma32 ", VM_ALLOC_STALL, UNIT_ONE }, { "allocstall_normal ", VM_ALLOC_STALL, UNIT_ONE },
        { "allocstall_high ", VM_ALLOC_STALL, UNIT_ONE },  { "allocstall_movable ", VM_ALLOC_STALL, UNIT_ONE },
        { "allocstall_device ", VM_ALLOC_STALL, UNIT_ONE },
};

enum { SLOTS = VM_END - VM_FIRST };

struct values {
        uint64_t value[SLOTS];
        bool have[SLOTS];
};

struct vm {
        struct procfs_file meminfo, vmstat;
        char *buffer;
        size_t capacity;
};

static int vm_open(struct procfs *p, void **own)
{
        struct vm *v = calloc(1, sizeof *v);
        if (!v)
                return -ENOMEM;
        procfs_file_init(&v->meminfo, "proc/meminfo");
        procfs_file_init(&v->vmstat, "proc/vmstat");
        *own = v;
        return 0;
}

static void vm_close(void *own)
{
        struct vm *v = own;
        if (!v)
                return;
        procfs_file_close(&v->meminfo);
        procfs_file_close(&v->vmstat);
        free(v->buffer);
        free(v);
}

static void take(struct values *values, const struct line *line, struct scan *s, unsigned page_size)
{
        uint64_t number, unit = line->unit == UNIT_PAGE ? page_size : (uint64_t)line->unit;
        size_t slot = (size_t)(line->metric - VM_FIRST);
        if (!scan_u64(s, &number) || number > (uint64_t)INT64_MAX / unit / 8)
                return;
        values->value[slot] += number * unit;
        values->have[slot] = true;
}

static void parse(struct values *values, const char *text, size_t length, const struct line *table, size_t count, unsigned page_size)
{
        struct scan s, line;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                for (size_t i = 0; i < count && line.at < line.end; i++) {
                        if (*line.at != table[i].name[0] || !scan_prefix(&line, table[i].name))
                                continue;
                        take(values, &table[i], &line, page_size);
                        break;
                }
        }
}

static int vm_collect(void *own, struct tick *t)
{
        struct vm *v = own;
        struct values values = { 0 };
        unsigned page = procfs_page_size(t->procfs);
        sample_scope_begin(t->sample, SCOPE_VM, procfs_mono(t->procfs));
        ssize_t mem = procfs_file_read(t->procfs, &v->meminfo, &v->buffer, &v->capacity);
        if (mem > 0)
                parse(&values, v->buffer, (size_t)mem, meminfo, sizeof meminfo / sizeof meminfo[0], page);
        ssize_t stat = procfs_file_read(t->procfs, &v->vmstat, &v->buffer, &v->capacity);
        if (stat > 0)
                parse(&values, v->buffer, (size_t)stat, vmstat, sizeof vmstat / sizeof vmstat[0], page);
        struct row *row = mem > 0 || stat > 0 ? sample_row(t->sample, SCOPE_VM, (struct key){ 0, 0 }, 0) : NULL;
        for (int i = 0; row && i < SLOTS; i++) {
                if (values.have[i])
                        row_set(row, VM_FIRST + i, values.value[i]);
                else
                        row_absent(row, VM_FIRST + i);
        }
        sample_scope_end(t->sample, SCOPE_VM, procfs_mono(t->procfs), GONE_UNREADABLE);
        t->fds += (v->meminfo.fd >= 0 ? 1u : 0u) + (v->vmstat.fd >= 0 ? 1u : 0u);
        return mem < 0 && stat < 0 ? (int)mem : 0;
}

static void vm_check(struct procfs *p, char *line, size_t size)
{
        char *buffer = NULL;
        size_t capacity = 0;
        ssize_t mem = procfs_read_all(p, "proc/meminfo", &buffer, &capacity), stat = procfs_read_all(p, "proc/vmstat", &buffer, &capacity);
        if (mem < 0 || stat < 0)
                snprintf(line, size, "/proc/%s: %s", mem < 0 ? "meminfo" : "vmstat", strerror((int)-(mem < 0 ? mem : stat)));
        else
                snprintf(line, size, "memory, swap, reclaim: all");
        free(buffer);
}

const struct collector collector_vm = {
        .name = "vm",
        .scopes = SCOPE_BIT(SCOPE_VM),
        .open = vm_open,
        .collect = vm_collect,
        .close = vm_close,
        .check = vm_check,
};

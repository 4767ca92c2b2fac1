#pragma once
/*
 * Running collectors by hand over a captured machine: one sample, one evidence, one call a tick.
 */
#include <stdbool.h>

#include "collectors/collector.h"
#include "tests/machine.h"

struct collect {
        struct machine machine;
        struct procfs *procfs;
        struct sample *sample;
        struct evidence evidence;
        struct tick tick;
        const struct collector *part[8];
        void *own[8];
        unsigned parts;
        uint64_t ticks;
};

static inline void collect_init(struct collect *c)
{
        memset(c, 0, sizeof *c);
        machine_make(&c->machine);
        if (sample_new(&c->sample) < 0)
                abort();
}

/* Open the machine as it stands now, and the collectors on it. */
static inline int collect_open(struct collect *c, const struct collector *const *parts, unsigned count)
{
        int r = procfs_open_root(c->machine.dir, &c->procfs);
        for (unsigned i = 0; r == 0 && i < count; i++) {
                r = parts[i]->open(c->procfs, &c->own[i]);
                c->part[i] = parts[i];
                if (r == 0)
                        c->parts++;
        }
        return r;
}

static inline int collect_tick(struct collect *c)
{
        struct procfs_clock now;
        int r = procfs_live(c->procfs) ? 0 : procfs_enter(c->procfs, (unsigned)c->ticks, -1);
        if (r < 0)
                return r;
        procfs_clock(c->procfs, &now);
        c->tick = (struct tick){
                .procfs = c->procfs, .sample = c->sample, .evidence = &c->evidence, .scopes = (1u << SCOPE_COUNT) - 1,
                        .interval_ns = 1000000000,
                .deadline_ns = now.mono_ns + 1000000000, .number = c->ticks++, .cmdline = CMDLINE_FULL,
        };
        sample_begin(c->sample, &(struct sample_stamp){ now.mono_ns, now.boot_ns, now.real_ns });
        for (unsigned i = 0; i < c->parts; i++)
                if (c->part[i]->collect(c->own[i], &c->tick) < 0)
                        r = -1;
        return r;
}

static inline void collect_fini(struct collect *c)
{
        for (unsigned i = 0; i < c->parts; i++)
                c->part[i]->close(c->own[i]);
        sample_free(c->sample);
        procfs_close_root(c->procfs);
        machine_remove(&c->machine);
}

/* Row whose text metric reads `name`; NULL when there is none. */
static inline struct row *collect_named(struct collect *c, enum scope scope, int metric, const char *name)
{
        for (size_t i = 0; i < sample_rows(c->sample, scope); i++) {
                size_t length;
                struct row *row = sample_row_at(c->sample, scope, i);
                const char *text = row_get_text(row, metric, &length);
                if (text && length == strlen(name) && memcmp(text, name, length) == 0)
                        return row;
        }
        return NULL;
}

/* Value of a metric, -1 when absent. */
static inline long long collect_value(const struct row *row, int metric)
{
        uint64_t value;
        return row && row_get(row, metric, &value) ? (long long)value : -1;
}

static inline bool collect_text_is(const struct row *row, int metric, const char *wanted)
{
        size_t length;
        const char *text = row ? row_get_text(row, metric, &length) : NULL;
        return text ? wanted && strlen(wanted) == length && memcmp(text, wanted, length) == 0 : !wanted;
}

/*
 * Cores and the machine as a whole, from /proc/stat, /proc/loadavg and /proc/uptime.
 *
 * /proc/stat is read in one go between two stamps, and parsed by name: cores that are off-line have no line, and their numbers leave
 * holes. The values are handed on as they are; what the kernel took back (iowait and idle may fall) is the reader's and the split's
 * business. This collector also fills the counters' part of the evidence: deltas since the tick before, signed and raw.
 */
#include "collectors/collector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        CORE_MAX = 1 << 16,  /* a number above is no core (CONFIG_NR_CPUS is at most 8,192) */
        FIELDS = 10,         /* user nice system idle iowait irq softirq steal guest guest_nice */
        FIELD_USER = 0, FIELD_SYSTEM = 2, FIELD_IDLE = 3, FIELD_IOWAIT = 4,
};

static const uint64_t SECOND = UINT64_C(1000000000);

/* What a core showed at the tick before. */
struct before {
        uint64_t tick;               /* number of the read it was seen in; 0 = never */
        uint64_t value[FIELDS];      /* ns */
        unsigned fields;
};

struct cpu {
        struct procfs_file stat, loadavg, uptime;
        char *buffer;
        size_t capacity;
        struct before *before;       /* by core number */
        size_t before_count;
        uint64_t reads;
        struct iowait_core *cores;   /* lent to the evidence */
        size_t core_capacity;
};

static int cpu_open(struct procfs *p, void **own)
{
        struct cpu *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        procfs_file_init(&c->stat, "proc/stat");
        procfs_file_init(&c->loadavg, "proc/loadavg");
        procfs_file_init(&c->uptime, "proc/uptime");
        *own = c;
        return 0;
}

static void cpu_close(void *own)
{
        struct cpu *c = own;
        if (!c)
                return;
        procfs_file_close(&c->stat);
        procfs_file_close(&c->loadavg);
        procfs_file_close(&c->uptime);
        free(c->buffer);
        free(c->before);
        free(c->cores);
        free(c);
}

/* ---- cores --------------------------------------------------------------------------------------------------------- */

static int make_room(struct cpu *c, size_t number, size_t cores)
{
        if (number >= c->before_count) {
                size_t wanted = c->before_count ? c->before_count : 64;
                while (wanted <= number)
                        wanted *= 2;
                struct before *grown = realloc(c->before, wanted * sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                memset(grown + c->before_count, 0, (wanted - c->before_count) * sizeof *grown);
                c->before = grown;
                c->before_count = wanted;
        }
        if (cores >= c->core_capacity) {
                size_t wanted = c->core_capacity ? c->core_capacity * 2 : 64;
                struct iowait_core *grown = realloc(c->cores, wanted * sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                c->cores = grown;
                c->core_capacity = wanted;
        }
        return 0;
}

/* Both ends known, and the counters not restarted: user and kernel time never fall while a core stays (small steps back are rounding). */
static bool comparable(const struct before *b, const uint64_t *now, unsigned fields, uint64_t reads)
{
        if (b->tick == 0 || b->tick + 1 != reads || b->fields <= FIELD_IOWAIT || fields <= FIELD_IOWAIT)
                return false;
        const uint64_t slack = SECOND / 10;
        return now[FIELD_USER] + slack >= b->value[FIELD_USER] && now[FIELD_SYSTEM] + slack >= b->value[FIELD_SYSTEM];
}

static int note_core(struct cpu *c, struct evidence *e, unsigned number, const uint64_t *now, unsigned fields)
{
        int r = make_room(c, number, e->core_count);
        if (r < 0)
                return r;
        struct before *b = &c->before[number];
        struct iowait_core *core = &c->cores[e->core_count++];
        *core = (struct iowait_core){ .cpu = number, .valid = comparable(b, now, fields, c->reads) };
        if (core->valid) {
                core->iowait_ns = (int64_t)(now[FIELD_IOWAIT] - b->value[FIELD_IOWAIT]);
                core->idle_ns = (int64_t)(now[FIELD_IDLE] - b->value[FIELD_IDLE]);
        }
        memcpy(b->value, now, sizeof b->value);
        b->fields = fields;
        b->tick = c->reads;
        return 0;
}

/* "cpuN user nice system ..." in USER_HZ ticks, fields 1 to 10; a kernel that lacks the later ones leaves them absent. Returns the fields
 * read. */
static unsigned parse_core(struct scan *line, uint64_t tick_ns, uint64_t value[FIELDS])
{
        unsigned n = 0;
        uint64_t ticks;
        memset(value, 0, FIELDS * sizeof *value);
        while (n < FIELDS && scan_u64(line, &ticks) && ticks <= (uint64_t)INT64_MAX / tick_ns)
                value[n++] = ticks * tick_ns;
        return n;
}

static void core_row(struct tick *t, unsigned number, const uint64_t *value, unsigned fields)
{
        static const int metric[FIELDS] = { CPU_USER, CPU_NICE, CPU_SYSTEM, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL,
                CPU_GUEST, CPU_GUEST_NICE };
        struct row *row = sample_row(t->sample, SCOPE_CPU, (struct key){ number, 0 }, 0);
        if (!row)
                return;
        for (unsigned i = 0; i < FIELDS; i++) {
                if (i < fields)
                        row_set(row, metric[i], value[i]);
                else
                        row_absent(row, metric[i]);
        }
}

/* ---- the lines behind the cores ------------------------------------------------------------------------------------ */

struct totals { /* system scope; a bit of `have` each */
        uint64_t value[5];
        unsigned have;
};
enum { TOTAL_INTR, TOTAL_CTXT, TOTAL_FORKS, TOTAL_RUNNING, TOTAL_BLOCKED, TOTALS };

static void parse_total(struct scan *line, struct totals *totals)
{
        static const char *const prefix[TOTALS] = { "intr ", "ctxt ", "processes ", "procs_running ", "procs_blocked " };
        for (unsigned i = 0; i < TOTALS; i++) {
                if (!scan_prefix(line, prefix[i]))
                        continue;
                /* of intr only the sum; the thousands of per-interrupt numbers behind it are not looked at */
                if (scan_u64(line, &totals->value[i]))
                        totals->have |= 1u << i;
                return;
        }
}

static void parse_stat(struct cpu *c, struct tick *t, const char *text, size_t length, struct totals *totals)
{
        struct evidence *e = t->evidence;
        uint64_t tick_ns = SECOND / procfs_hz(t->procfs), number, value[FIELDS];
        struct scan s, line;
        bool rows = t->scopes & SCOPE_BIT(SCOPE_CPU);
        e->core_count = 0;
        scan_init(&s, text, length);
        while (scan_line(&s, &line)) {
                if (!scan_prefix(&line, "cpu")) {
                        parse_total(&line, totals);
                        continue;
                }
                if (line.at == line.end || *line.at == ' ') /* "cpu ": sums all possible cores, off-line ones too */
                        continue;
                if (!scan_u64(&line, &number) || number >= CORE_MAX)
                        continue;
                unsigned fields = parse_core(&line, tick_ns, value);
                if (fields <= FIELD_IDLE)
                        continue;
                /* a number that comes twice is garbage: the first stands */
                if (number < c->before_count && c->before[number].tick == c->reads)
                        continue;
                if (note_core(c, e, (unsigned)number, value, fields) == 0 && rows)
                        core_row(t, (unsigned)number, value, fields);
        }
        e->cores = c->cores;
        e->core_capacity = c->core_capacity;
}

/* ---- loadavg, uptime ----------------------------------------------------------------------------------------------- */

/* "12.34" in hundredths. */
static bool scan_centi(struct scan *s, uint64_t *value)
{
        uint64_t whole, part = 0;
        struct scan t = *s;
        if (!scan_u64(&t, &whole) || whole > UINT32_MAX)
                return false;
        if (t.at + 2 < t.end && t.at[0] == '.') {
                t.at++;
                if (!scan_u64(&t, &part) || part > 99)
                        return false;
        }
        *value = whole * 100 + part;
        *s = t;
        return true;
}

static void load_slots(struct cpu *c, struct tick *t, struct row *row)
{
        static const int metric[3] = { SYSTEM_LOAD1, SYSTEM_LOAD5, SYSTEM_LOAD15 };
        ssize_t n = procfs_file_read(t->procfs, &c->loadavg, &c->buffer, &c->capacity);
        struct scan s;
        uint64_t value;
        bool good = n >= 0;
        scan_init(&s, c->buffer, n > 0 ? (size_t)n : 0);
        for (int i = 0; i < 3; i++) {
                good = good && scan_centi(&s, &value);
                if (good)
                        row_set(row, metric[i], value);
                else
                        row_absent(row, metric[i]);
        }
        /* field 4 is running/tasks; running is in /proc/stat too */
        if (good && scan_u64(&s, &value) && scan_prefix(&s, "/") && scan_u64(&s, &value))
                row_set(row, SYSTEM_TASKS, value);
        else
                row_absent(row, SYSTEM_TASKS);
}

static void uptime_slot(struct cpu *c, struct tick *t, struct row *row)
{
        ssize_t n = procfs_file_read(t->procfs, &c->uptime, &c->buffer, &c->capacity);
        struct scan s;
        uint64_t centi;
        scan_init(&s, c->buffer, n > 0 ? (size_t)n : 0);
        if (n > 0 && scan_centi(&s, &centi))
                row_set(row, SYSTEM_UPTIME, centi * (SECOND / 100));
        else
                row_absent(row, SYSTEM_UPTIME);
}

static void system_row(struct cpu *c, struct tick *t, const struct totals *totals)
{
        static const int metric[TOTALS] = { SYSTEM_INTR, SYSTEM_CTXT, SYSTEM_FORKS, SYSTEM_RUNNING, SYSTEM_BLOCKED };
        struct row *row = sample_row(t->sample, SCOPE_SYSTEM, (struct key){ 0, 0 }, 0);
        if (!row)
                return;
        for (unsigned i = 0; i < TOTALS; i++) {
                if (totals->have & 1u << i)
                        row_set(row, metric[i], totals->value[i]);
                else
                        row_absent(row, metric[i]);
        }
        if (t->evidence->core_count > 0)
                row_set(row, SYSTEM_CORES, t->evidence->core_count);
        else
                row_absent(row, SYSTEM_CORES);
        load_slots(c, t, row);
        uptime_slot(c, t, row);
}

/* ---- the tick ------------------------------------------------------------------------------------------------------ */

static int cpu_collect(void *own, struct tick *t)
{
        struct cpu *c = own;
        struct evidence *e = t->evidence;
        struct totals totals = { .have = 0 };
        e->stat_prev_start_ns = e->stat_start_ns;
        e->stat_prev_end_ns = e->stat_end_ns;
        e->stat_start_ns = procfs_mono(t->procfs);
        ssize_t n = procfs_file_read(t->procfs, &c->stat, &c->buffer, &c->capacity);
        e->stat_end_ns = procfs_mono(t->procfs);
        c->reads++;
        if (t->scopes & SCOPE_BIT(SCOPE_CPU))
                sample_scope_begin(t->sample, SCOPE_CPU, e->stat_start_ns);
        parse_stat(c, t, c->buffer, n > 0 ? (size_t)n : 0, &totals);
        if (t->scopes & SCOPE_BIT(SCOPE_CPU))
                sample_scope_end(t->sample, SCOPE_CPU, e->stat_end_ns, n > 0 ? GONE_EXITED : GONE_UNREADABLE);
        e->procs_blocked = totals.have & 1u << TOTAL_BLOCKED ? totals.value[TOTAL_BLOCKED] : 0;
        if (t->scopes & SCOPE_BIT(SCOPE_SYSTEM)) {
                sample_scope_begin(t->sample, SCOPE_SYSTEM, e->stat_start_ns);
                system_row(c, t, &totals);
                sample_scope_end(t->sample, SCOPE_SYSTEM, procfs_mono(t->procfs), GONE_UNREADABLE);
        }
        t->fds += (c->stat.fd >= 0 ? 1u : 0u) + (c->loadavg.fd >= 0 ? 1u : 0u) + (c->uptime.fd >= 0 ? 1u : 0u);
        return n < 0 ? (int)n : 0;
}

static void cpu_check(struct procfs *p, char *line, size_t size)
{
        char *buffer = NULL;
        size_t capacity = 0;
        ssize_t n = procfs_read_all(p, "proc/stat", &buffer, &capacity);
        if (n < 0)
                snprintf(line, size, "/proc/stat: %s", strerror((int)-n));
        else if (procfs_lxcfs(p))
                snprintf(line, size, "/proc/stat is a container's view (lxcfs): cores and iowait are made up by it");
        else
                snprintf(line, size, "cores, iowait, load averages: all");
        free(buffer);
}

const struct collector collector_cpu = {
        .name = "cpu",
        .scopes = SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_SYSTEM),
        .open = cpu_open,
        .collect = cpu_collect,
        .close = cpu_close,
        .check = cpu_check,
};

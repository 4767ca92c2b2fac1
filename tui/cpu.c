/*
 * watop cpu: where each core's time went, wa split into disk, uring and other.
 *
 * Rows: the cores in order of their number, then `all` (one ratio over all cores' time) and `SUM` (the cores' percents added up). Below, in
 * text, the machine's load line and wa line, and a device whose work wa does not show. CSV and JSON carry the bounds of the split and the
 * evidence it rests on as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"
#include "tui/tally.h"
#include "tui/text.h"
#include "tui/verbs.h"

enum { CORE_BITS = 1 << 16 };

struct cpu {
        bool chosen;                       /* --cores was given */
        bool told;                         /* about chosen cores that are not there */
        uint64_t cores[CORE_BITS / 64];
        const struct state_row **rows;     /* kept from report to report */
        size_t capacity;
};

static bool keep_core(const struct state_row *row, void *own)
{
        const struct cpu *cpu = own;

        return !cpu->chosen || (row->key.a < CORE_BITS && cpu->cores[row->key.a / 64] >> (row->key.a % 64) & 1);
}

static struct value evidence(const struct state *state, const struct state_row *only, struct cpu *cpu)
{
        const char *name = tally_evidence(state, only, keep_core, cpu);

        return table_text(name, name ? strlen(name) : 0);
}

static void cpu_columns(void *own, enum format format, struct table *table)
{
        (void)own;
        (void)format;
        table_column(table, metric_view(VIEW_CPU)->key_head, 0, TABLE_STRING);
        text_columns(table, VIEW_CPU, NULL, NULL);
        table_column(table, "wa_disk_min", 1, TABLE_MACHINE);
        table_column(table, "wa_disk_max", 1, TABLE_MACHINE);
        table_column(table, "wa_uring_min", 1, TABLE_MACHINE);
        table_column(table, "wa_uring_max", 1, TABLE_MACHINE);
        table_column(table, "evidence", 0, TABLE_MACHINE);
}

static int compare_cores(const void *left, const void *right)
{
        const struct state_row *a = *(const struct state_row *const *)left, *b = *(const struct state_row *const *)right;

        return a->key.a < b->key.a ? -1 : a->key.a > b->key.a;
}

/* Lower and upper bound of a value as cells of their own. */
static void put_bounds(struct table_cell *cells, const struct value *value)
{
        if (value->kind != VALUE_NUMBER)
                return;
        cells[0].value = table_number(value->low);
        cells[1].value = table_number(value->high);
}

enum line { LINE_CORE, LINE_ALL, LINE_SUM };

static int put_line(struct cpu *cpu, const struct state *state, struct table *table, enum line line, const struct state_row *row,
                    struct value name)
{
        const struct view_info *view = metric_view(VIEW_CPU);
        struct table_cell *cells = table_row(table);

        if (!cells)
                return -ENOMEM;
        cells[0].value = name;
        for (size_t i = 0; i < view->count; i++) {
                const struct column *column = &view->columns[i];
                struct value value = line == LINE_CORE ? metric_value(state, row, column)
                        : line == LINE_ALL ? metric_value_all(state, column, keep_core, cpu)
                        : metric_value_sum(state, column, keep_core, cpu);
                cells[1 + i].value = value;
                if (column->num[0] == CPU_WA_DISK && column->num[1] == METRIC_NONE)
                        put_bounds(cells + 1 + view->count, &value);
                if (column->num[0] == CPU_WA_URING && column->num[1] == METRIC_NONE)
                        put_bounds(cells + 3 + view->count, &value);
        }
        cells[5 + view->count].value = evidence(state, row, cpu);
        return 0;
}

/* The on-line cores that were chosen, in order of their number. */
static ssize_t sorted_cores(struct cpu *cpu, const struct state *state)
{
        size_t count = state_count(state, SCOPE_CPU), used = 0;

        if (count > cpu->capacity) {
                const struct state_row **grown = reallocarray(cpu->rows, count, sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                cpu->rows = grown;
                cpu->capacity = count;
        }
        for (size_t i = 0; i < count; i++) {
                const struct state_row *row = state_at(state, SCOPE_CPU, i);
                if (!row->gone && keep_core(row, cpu))
                        cpu->rows[used++] = row;
        }
        if (used > 1)
                qsort(cpu->rows, used, sizeof *cpu->rows, compare_cores);
        return (ssize_t)used;
}

static void tell_missing(struct cpu *cpu, const struct state *state)
{
        for (unsigned core = 0; cpu->chosen && !cpu->told && core < CORE_BITS; core++) {
                const struct state_row *row = state_find(state, SCOPE_CPU, (struct key){.a = core});
                if (cpu->cores[core / 64] >> (core % 64) & 1 && (!row || row->gone))
                        options_say("cpu", "core %u is not on-line", core);
        }
        cpu->told = true;
}

static int cpu_rows(void *own, const struct state *state, enum format format, struct table *table)
{
        struct cpu *cpu = own;
        ssize_t count = sorted_cores(cpu, state);

        (void)format;
        if (count < 0)
                return (int)count;
        tell_missing(cpu, state);
        if (count == 0) {
                options_say("cpu", cpu->chosen ? "none of these cores is on-line" : "no core could be read");
                return 1;
        }
        for (ssize_t i = 0; i < count; i++) {
                int r = put_line(cpu, state, table, LINE_CORE, cpu->rows[i], table_number((double)cpu->rows[i]->key.a));
                if (r < 0)
                        return r;
        }
        int r = put_line(cpu, state, table, LINE_ALL, NULL, table_text("all", 3));
        return r < 0 ? r : put_line(cpu, state, table, LINE_SUM, NULL, table_text("SUM", 3));
}

/* Waits that the kernel does not count as iowait (libaio, an io_uring for which others submit): a device works and wa is silent. */
static void hidden_device(const struct tally *tally, const char *lead, FILE *out)
{
        enum { BUSY = 25, PART = 3 };
        const struct tally_device *busiest = NULL;
        char name[sizeof busiest->name * 4];

        for (size_t i = 0; i < tally->device_count && i < TALLY_DEVICES; i++) {
                const struct tally_device *device = &tally->devices[i];
                if (device->whole && device->util >= BUSY && (!busiest || device->util > busiest->util))
                        busiest = device;
        }
        if (!busiest || tally->disk.kind != VALUE_NUMBER || tally->disk.number * PART >= busiest->util)
                return;
        clean_screen(name, sizeof name, busiest->name, strlen(busiest->name), false, 32, NULL);
        fprintf(out, "%s%s is %.0f%% busy; wa does not show it\n", lead, name, busiest->util);
}

static void cpu_below(void *own, const struct state *state, FILE *out)
{
        static struct tally tally;
        char line[256];

        /* all and SUM are over the chosen cores, these two never are */
        const char *whole = ((const struct cpu *)own)->chosen ? "machine: " : "";

        tally_make(state, &tally);
        tally_load_line(&tally, line, sizeof line);
        fprintf(out, "%s%s\n", whole, line);
        tally_wa_line(&tally, line, sizeof line);
        fprintf(out, "%s%s\n", whole, line);
        hidden_device(&tally, whole, out);
}

static void member(FILE *out, const char *key, const struct value *value)
{
        char text[64];

        value_exact(text, sizeof text, value, "null");
        fprintf(out, ",\"%s\":%s", key, text);
}

static void level_member(FILE *out, const char *key, double level)
{
        struct value value = table_number(level);

        if (level < 0)
                value.kind = VALUE_ABSENT;
        member(out, key, &value);
}

/* The load line and the wa line as an object; all in % of one core, summed over the cores. */
static void cpu_members(void *own, const struct state *state, FILE *out)
{
        static struct tally tally;
        char load[64];

        (void)own;
        tally_make(state, &tally);
        if (!tally.valid) {
                fputs(",\"load\":null", out);
                return;
        }
        value_exact(load, sizeof load, &tally.load, "null");
        fprintf(out, ",\"load\":{\"load\":%s", load);
        level_member(out, "of", tally.cores * 100.0);
        level_member(out, "share", tally.load_share);
        member(out, "us_sy", &tally.us_sy);
        member(out, "hi_si", &tally.hi_si);
        member(out, "st", &tally.steal);
        member(out, "wa", &tally.wa);
        member(out, "wa_disk", &tally.disk);
        member(out, "wa_uring", &tally.uring);
        member(out, "wa_other", &tally.other);
        level_member(out, "loadavg1", tally.load1);
        level_member(out, "loadavg5", tally.load5);
        level_member(out, "loadavg15", tally.load15);
        level_member(out, "running", tally.running);
        level_member(out, "blocked", tally.blocked);
        level_member(out, "dstate", tally.dstate);
        fputc('}', out);
}

static const struct text_view cpu_view = {"cpu", cpu_columns, cpu_rows, cpu_below, cpu_members};

/* ---- the command ----------------------------------------------------------------------------------------------------------------- */

enum { CODE_CORES = OPTION_LONG };

static int cpu_option(void *own, int code, const char *value)
{
        struct cpu *cpu = own;

        (void)code; /* there is one */
        if (option_list(value, cpu->cores, CORE_BITS) < 0)
                return options_error("cpu", "'%s' is not a list of cores such as 0-3,8", value);
        cpu->chosen = true;
        return 0;
}

int cpu_main(int argc, char **argv)
{
        static const struct option_entry entries[] = {
                {CODE_CORES, "cores", "LIST", "only these cores, such as 0-3,8; `all` and `SUM` are over them"},
                {0},
        };
        static struct cpu cpu;
        const struct option_set set = {
                .verb = "cpu", .synopsis = "[OPTION...] [INTERVAL [COUNT]]", .entries = entries, .option = cpu_option, .own = &cpu,
                .groups = OPTIONS_SOURCE | OPTIONS_LOG | OPTIONS_FORMAT | OPTIONS_TIMES,
                .text = "Where each core's time went, in % of the core: us sy ni id wa hi si st, guests,\n"
                        "and wa split into what waits for a disk, what sleeps in io_uring (idle), and the\n"
                        "rest. `all` is one ratio over all cores, `SUM` adds the cores' percents.\n"
                        "load = us + ni + sy + hi + si; wa and id are never load.\n"
                        "<62.0 at most, >62.0 at least, 62.0~ estimate, - not known.",
        };
        struct options options;

        int r = options_parse(&set, argc, argv, &options);
        if (r != 0)
                return r > 0 ? 0 : 2;
        options.attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK) | SCOPE_BIT(SCOPE_WAITER);
        int status = text_run(&cpu_view, &cpu, &options);
        free(cpu.rows);
        return status;
}

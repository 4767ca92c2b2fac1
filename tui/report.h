#pragma once
/*
 * A recording as a report: phase by phase what was achieved, where the machine's time went, what devices and processes did.
 *
 * `struct report` is everything that a report says of one log, computed once and before anything is written; text, Markdown, CSV, JSON,
 * HTML and `watop compare` only show it. Means come from counters: each phase has a state whose base is the first and whose `now` is the
 * last used frame, so every column of metrics.def is its mean over the phase (metric_value). Series of samples are for plots, spread,
 * ramps and noise only, never for means.
 *
 * Texts in here (names, labels, command lines, lines of output) are strangers' raw bytes: clean them at the sink (tui/clean.h).
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sample/phase.h"
#include "sample/state.h"
#include "tui/results.h"
#include "tui/table.h"
#include "tui/tally.h"

/* ---- samples of a phase ------------------------------------------------------------------------------------------------------------ */

/* % of the core (of a core; the total: sum over cores, % of one core). */
enum report_cpu {
        REPORT_US, REPORT_SY, REPORT_NI, REPORT_ID, REPORT_WA, REPORT_HI, REPORT_SI, REPORT_ST, REPORT_LOAD, REPORT_WA_DISK,
                REPORT_WA_URING,
        REPORT_WA_OTHER, REPORT_CPUS,
};
enum report_device { REPORT_R, REPORT_W, REPORT_RKB, REPORT_WKB, REPORT_AWAIT, REPORT_UTIL, REPORT_DEVICES };
/* Load by whose work it was, % of one core. IRQ: hi + si of all cores. REST: load less the three, never below 0. */
enum report_group { REPORT_WATCHED, REPORT_COMMAND, REPORT_IRQ, REPORT_REST, REPORT_GROUPS };
extern const char *const report_cpu_names[REPORT_CPUS];       /* "us", ..., "wa_disk": heads of VIEW_CPU */
extern const char *const report_device_names[REPORT_DEVICES]; /* "r/s", "w/s", "rkB/s", "wkB/s", "await", "%util" */
extern const char *const report_group_names[REPORT_GROUPS];   /* "watched", "command", "softirq/irq", "rest" */

/* One a tick; frames out of step (marks) are joined with their neighbours. Values are NAN where they could not be computed. */
struct report_samples {
        size_t count, cores, devices; /* cores and devices as in the phase's own lists, in their order */
        size_t used_from, used_to;    /* those that ramps left: [used_from, used_to) */
        uint64_t *sequence;           /* of the frame that ends it */
        double *at, *length;          /* [count] seconds: its end after the phase's start; how long it is */
        float *core, *total, *device, *group;
};
static inline float *report_core(const struct report_samples *s, size_t sample, size_t core)
{
        return s->core + (sample * s->cores + core) * REPORT_CPUS;
}
static inline float *report_total(const struct report_samples *s, size_t sample)
{
        return s->total + sample * REPORT_CPUS;
}
static inline float *report_disk(const struct report_samples *s, size_t sample, size_t device)
{
        return s->device + (sample * s->devices + device) * REPORT_DEVICES;
}
static inline float *report_groups(const struct report_samples *s, size_t sample)
{
        return s->group + sample * REPORT_GROUPS;
}

/* Over the used samples of one series (values[0], values[stride], ...); percentiles by nearest rank: the value at place ceil(p * n) of
 * the sorted ones. */
struct report_spread {
        size_t count;                 /* values that are there; 0: the rest is NAN */
        double median, p95, p99, max;
};
struct report_spread report_spread_of(const float *values, size_t count, size_t stride);

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

/* One result of a phase, combined over its commands. `sum.value` is NAN when it is a range that is no single value (least and largest
 * say it). */
struct report_result {
        struct result_sum sum;        /* sum.first points into the report's results */
        unsigned waves;               /* commands ran in so many groups one after another; 1 = all at the same time */
        const char *how;              /* why it was combined so: "processes", "arrival", "assumed"; "" for a single one */
        size_t *items, count;         /* which of the report's results: their lines are shown under -v */
        size_t source;                /* of the report's sources */
};
static inline bool report_is_rate(const struct report_result *r)
{
        return r->sum.first->rule == RESULT_SUM;
}

/* Where results came from: the recording's own output, or --results. */
struct report_source {
        char path[256], host[64];     /* as given; "" host: none */
        bool own, offset_given, offset_known, by_marks;
        double offset;                /* seconds added to its clock to get the recording's */
        double offset_spread;         /* largest distance of one mark from it; NAN: one mark or none */
        size_t marks, found, placed, bytes; /* marks in both; results in it, and those that some phase got */
};

/* ---- a phase -------------------------------------------------------------------------------------------------------------------- */

struct report_span {
        uint64_t from_sequence, to_sequence, from_mono_ns, to_mono_ns, from_real_ns, to_real_ns;
};
static inline double report_seconds(const struct report_span *s)
{
        return s->to_mono_ns > s->from_mono_ns ? (double)(s->to_mono_ns - s->from_mono_ns) / 1e9 : 0;
}

struct report_gaps {
        uint64_t late, missed, suspends, reboots, resets, damages;
};

struct report_core {
        unsigned number;
        double value[REPORT_CPUS];    /* mean over the used span, NAN absent */
};

/* A device that did something in the phase (partitions left out), in the order of `watop disk`. */
struct report_disk_row {
        struct key key;
        const struct state_row *used, *whole; /* in `state` and in `whole`: NULL when it is not there */
        char name[64];
        unsigned depth;               /* below the device that it stands on */
};

struct report_task {
        const struct state_row *row;  /* in `state`; NULL: processes that no sample met, of which their group's CPU time knows */
        enum report_group group;      /* WATCHED, COMMAND, or REST: the busiest of the others */
        unsigned processes;           /* joined into this line: all of one name in the group (row is the busiest of them) */
        double usr, system, guest, wait, cpu; /* sums, % of one core; NAN absent */
        double rkb, wkb;              /* kB/s, NAN absent */
        double threads;
        char cores[32];               /* "0-7": where its leader or threads were seen to run, from the samples */
        uint64_t seen[16];            /* the same as bits */
        char name[64];
};

struct report_phase {
        char name[PHASE_NAME + 1];    /* "" when the log has no phase: all of it */
        unsigned round;               /* of this name, from 1 */
        char title[PHASE_NAME + 16];  /* name, or "name#2" */
        bool open;                    /* nothing ended it but the log's end */
        bool left_out;                /* while the report is made: not chosen, but results may be its */
        bool lead_in;                 /* a command's time before its first mark: left out unless a result is its */
        struct report_span full, used; /* used: without ramps. fio's own statistics cover the full span */
        double cut_before, cut_after; /* seconds that ramps took */

        bool ran;                     /* it is a recorded command's run: */
        int status;                   /* its exit status */
        uint64_t start_mono_ns, end_mono_ns, user_ns, system_ns;
        double tool_seconds;          /* how long fio says that it ran: its util is of that; NAN: it did not say */

        struct state *state, *whole;  /* base = first frame, now = last one, of used and of full; the same object when nothing was cut */
        bool valid;                   /* false: no two frames, or a gap that nothing can be computed over: no numbers below */
        struct report_samples samples;

        struct tally tally;           /* load, us_sy, hi_si, wa and its parts, busiest core ... of `state` */
        double load, share;           /* sum over cores, % of one core; % of the machine */
        double others_least, others_most; /* load of the cores beside the busiest; NAN with one core */
        struct report_core *cores;
        size_t core_count;
        struct report_disk_row *devices;
        size_t device_count;
        struct report_task *tasks;    /* watched, then the command's, then the busiest others */
        size_t task_count;
        double groups[REPORT_GROUPS]; /* mean load; NAN where nothing is watched, or no command was recorded */
        /* Without its group's CPU time the command is what samples saw of it, at least, and the rest what is left, at most; these are the
         * other ends. Equal to the groups' where it is known. */
        double command_most, rest_least;
        double own;                   /* what watopd used, % of one core; NAN not known */
        struct report_gaps gaps;

        struct report_result *results;
        size_t result_count;
        size_t primary, latency;      /* which of them: the first rate, the first latency; SIZE_MAX none */
        double per_core;              /* primary / (load / 100); NAN */
        double growth;                /* of the primary from the phase before (of the same round), %; NAN */
};

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

enum { REPORT_LINE = 240 };
struct report_lines {
        char (*lines)[REPORT_LINE];
        size_t count;
};

struct report {
        char path[256], label[256], command[512], kind[16];
        char host[128], kernel[128], model[128], version[32];
        unsigned cores;               /* on-line at the first phase */
        uint64_t first_real_ns, last_real_ns, frames, tick_ns, log_bytes;
        bool finished;                /* the recorder ended it */
        bool watches;                 /* --watch was given */
        char watch[256];              /* its words, separated by blanks */
        char rule[128];               /* how members of the command's tree were found; "" none recorded */
        double own_seconds, wall_seconds; /* CPU time of watop, relays and watopd; NAN not noted */
        struct report_phase *phases;
        size_t phase_count;
        unsigned rounds;              /* most rounds that a name has */
        struct report_gaps gaps;      /* of all phases */
        struct results results;       /* all, as found */
        uint32_t *result_source;      /* by item */
        struct report_source *sources;
        size_t source_count;
        /* Heads of the columns with results, when all phases have the same (else "result", "latency"); made harmless, ASCII. */
        char primary_head[48], latency_head[48], per_core_head[56], share_head[24];
        bool primary_same, latency_same;
        struct report_lines warnings; /* for people: results not placed, members incomplete, damage, ... */
};

struct report_options {
        bool whole;                   /* keep ramps */
        bool trim;                    /* cut so much instead, at start and end */
        uint64_t trim_ns[2];
        const char *phase, *from, *to; /* only this; NULL = all */
        const char *join[16];         /* --results FILE[@HOST] */
        size_t join_count;
        bool offset_given;            /* --offset */
        double offset;
        struct result_own *own;       /* --result */
        size_t own_count;
};

/* 0, or -errno with one line in `why`. The report needs the log no more. */
int report_open(const char *path, const struct report_options *, struct report **, char *why, size_t size);
void report_close(struct report *);

/* report_say.c: sentences that a person would write below the tables: best phase, full cores, what wa is. Plain ASCII but for names. */
int report_say(const struct report *, struct report_lines *);
void report_lines_free(struct report_lines *);
int report_lines_add(struct report_lines *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- tables (report_tables.c) --------------------------------------------------------------------------------------------------- */

enum report_format { REPORT_TEXT, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON, REPORT_HTML };
enum report_table {
        REPORT_TABLE_PHASES,          /* one row a phase; all others are of one phase */
        REPORT_TABLE_RESULTS, REPORT_TABLE_CORES, REPORT_TABLE_LOAD, REPORT_TABLE_DEVICES, REPORT_TABLE_SAR_OLD, REPORT_TABLE_FIO,
        REPORT_TABLE_TASKS, REPORT_TABLE_SPREAD,
        REPORT_TABLE_STAGES, REPORT_TABLE_BIOS, REPORT_TABLE_SYNC, /* block tracing: no rows where it was not recorded */
        REPORT_TABLES,
};
extern const char *const report_table_names[REPORT_TABLES];
/* Fill a table that table_init made. For people (text, Markdown, HTML) cells are as they are read ("91,166", "+81.1%"), and of wide
 * tables only what fits `width` columns is there (0 = all); for CSV and JSON numbers at full precision in more columns. Texts are raw. 0
 * or -ENOMEM. A table may have no rows. */
int report_table(const struct report *, const struct report_phase *, enum report_table, enum report_format, unsigned width, struct table *);

/* %util is 100 at most: its counter is no clock, and over a phase of some ms gains more than they are. Values of other columns stay. */
struct value report_capped(const struct column *, struct value);

/* "91,166"; decimals as needed to show three digits. Of a range "0.479-0.487". "-" for NAN. Returns buffer. */
char *report_number(char *buffer, size_t size, double value);
char *report_value(char *buffer, size_t size, const struct report_result *);
/* "75-79%", "99%" when both round to it. */
char *report_range(char *buffer, size_t size, double least, double most);

/* ---- sinks: 0, -errno of the write ---------------------------------------------------------------------------------------------- */

struct report_shape {
        unsigned width;               /* 0 = all columns */
        bool spread, verbose, sar_old, utf8;
        int only;                     /* one report_table, -1 = all */
};
int report_text(const struct report *, enum report_format text_or_markdown, const struct report_shape *, FILE *);
int report_csv(const struct report *, const struct report_shape *, FILE *);
int report_json(const struct report *, const struct report_shape *, FILE *);
int report_html(const struct report *, FILE *); /* report_html.c */

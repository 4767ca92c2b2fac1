#pragma once
/*
 * What the parts of report_open share: the open log, and who is a member. Nobody else includes this.
 */
#include "tui/member.h"
#include "tui/member_cpu.h"
#include "tui/report.h"

struct report_maker {
        struct log *log;
        const struct report_options *options;
        struct report *report;
        struct member_set members, watched; /* keys of process rows */
        bool members_known;
        struct member_times times;          /* CPU time of the command's group; empty: not known */
};

/* report_phase.c: fills a phase whose name and full.from_sequence, full.to_sequence are set. 0 or -errno. */
int report_phase_make(struct report_maker *, struct report_phase *);
void report_phase_free(struct report_phase *);

/* report_load.c. The lists come from `whole`, the means from `state`. */
int report_load_lists(struct report_maker *, struct report_phase *); /* cores, devices, tasks */
void report_load_sample(const struct report_maker *, const struct report_phase *, const struct state *, float *core, float *total,
                        float *device, float *group);
void report_load_seen(const struct report_maker *, struct report_phase *, const struct state *); /* on which cores tasks ran */
void report_load_means(struct report_maker *, struct report_phase *);
enum report_group report_group_of(const struct report_maker *, struct key);
/* Growth of a time or counter; 0 when it cannot be computed. */
double report_grown(const struct state_row *, int metric);

/* report_result.c: own output and joined ones, placed and combined. path: the log's. */
int report_results_make(struct report_maker *, const char *path);

/* report_say.c: heads of the columns with results. */
void report_heads_make(struct report *);

/* report_join.c: output made elsewhere. */
struct report_joined {
        struct report_stamp {
                size_t offset;        /* of the line in `text` */
                double time;          /* seconds since the epoch by its clock, NAN: none known yet */
                int phase;            /* that a mark above it began; -1 none or ended */
                bool mark;            /* this line is one */
        } *stamps;
        size_t stamp_count;
        char *text;                   /* the file without time stamps at the lines' starts */
        size_t length;
};
int report_join_read(struct report_maker *, struct report_source *, struct report_joined *);
void report_join_free(struct report_joined *);
/* The stamp of the line that holds this offset; NULL: none. */
const struct report_stamp *report_join_at(const struct report_joined *, size_t offset);

/* report_time.c: a time stamp at the line's start. Its length with the blanks behind it, 0 none; seconds since the epoch. year: where
 * the form has none. */
size_t report_time_parse(const char *line, size_t length, int year, double *time);

/* report_stages.c: whose calls waited for what, where block tracing was recorded. */
int report_say_calls(const struct report *, struct report_lines *);

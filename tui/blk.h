#pragma once
/*
 * watop blk: what its files share. blk.c takes the command line and reads recorded traces, blk_live.c a tracer; blk_rows.c chooses what is
 * told, blk_calls.c finds whom a call waited behind; blk_say*.c say it to people, blk_json*.c to programs.
 */
#include <stdio.h>

#include "tui/blk_calls.h"
#include "tui/blk_read.h"

enum { BLK_DEVICES = 32, BLK_ANY = -1, BLK_DATA = -2 /* every direction but flushes */ };

struct btt;
struct blk_live;
struct options;

struct blk_report {
        const struct blk_trace *trace;     /* NULL: live */
        const struct stage_set *set;
        const struct blk_live *live;       /* NULL: from files */
        FILE *out;
        const char *const *files;
        size_t file_count;
        const char *devices[BLK_DEVICES];  /* asked for; none = all */
        uint32_t numbers[BLK_DEVICES];     /* live: the same as major << 20 | minor */
        size_t device_count;
        const char *process;               /* -p: a number or a name; NULL = all. Live: the set holds nothing else */
        uint64_t start, last;              /* time of the first and the last event; live: of the tracing */
        bool utf8;
};

/* What was asked for on the command line. */
struct blk_request {
        struct blk_report *report;
        bool events, btt, json, no_sync;
        uint64_t slower;                   /* ns; 0 = none are printed */
        uint64_t span;                     /* ns; 0 = not given */
};

/* What a live run knows beside its sums. */
struct blk_live {
        const struct blk_calls *calls;
        bool calls_traced;                 /* fsync and its like */
        uint32_t source;                   /* stream_source */
        bool private_daemon;
        uint64_t lost;                     /* between kernel and watopd */
        uint64_t overrun;                  /* between watopd and us */
        uint64_t unmatched, crowded, spoilt_calls, outages;
        uint64_t run_ns, run_count;        /* of the programs; 0 = not counted */
        uint64_t daemon_ns, own_ns;        /* CPU time for draining, and of this program */
        int64_t real_offset;               /* CLOCK_REALTIME - CLOCK_MONOTONIC */
        struct blk_writeback { uint64_t cgroup, bios, bytes; } writeback[16]; /* whose dirty pages kernel threads wrote; cgroup 0: others */
        size_t writebacks;
        struct blk_stuck { uint32_t device; uint64_t since, inflight; } stuck[8]; /* requests are in flight and none has ended since */
        size_t stucks;
        struct blk_open { struct stage_record record; uint64_t seen; } open[16]; /* the oldest of a device; when it was told */
        size_t opens;
        uint64_t early_calls;              /* began before the tracing: some of their bios are not known */
        uint64_t dark_ns;                  /* watopd was there and did not trace */
};

/* "7,0", or "7,0 sda" where the name is known. */
const char *blk_device_text(const struct blk_report *, uint32_t device, char *out, size_t size);
/* "sda", or NULL. */
const char *blk_device_known(const struct blk_report *, uint32_t device, char *out, size_t size);
bool blk_want_device(const struct blk_report *, uint32_t device);
bool blk_want_thread(const struct blk_report *, uint32_t pid, const char *name); /* of a recorded trace */
bool blk_want_process(const struct blk_report *, const struct stage_process *);
/* Rows added up; direction, kind: BLK_ANY, BLK_DATA or one; process NULL = those asked for. sum is zeroed first. */
void blk_sum(const struct blk_report *, struct stage_sum *sum, uint32_t device, int direction, int kind,
        const struct stage_process *process);
/* Time from queue to completion of all rows so chosen, and their bios: cheaper than blk_sum. */
uint64_t blk_total(const struct blk_report *, uint32_t device, const struct stage_process *process, uint64_t *bios);
/* Devices that have something to say, the one with the most waiting first; returns how many. */
size_t blk_list_devices(const struct blk_report *, const struct stage_device **list, size_t room);
/* Processes of a device, the one that waited longest first. */
size_t blk_list_processes(const struct blk_report *, uint32_t device, const struct stage_process **list, size_t room);
/* Processes of one name, if there are `least` or more of it; else each by itself. The one that waited longest first. */
struct blk_group {
        const struct stage_process *process; /* the one of them that waited longest */
        unsigned count;
        uint64_t total;
};
size_t blk_list_groups(const struct blk_report *, uint32_t device, unsigned least, struct blk_group *, size_t room);
void blk_sum_group(const struct blk_report *, struct stage_sum *sum, uint32_t device, const struct blk_group *);
uint64_t blk_unmatched(const struct blk_report *);

/* The cause that has the most of the time, and its share; -1: no time at all. */
int blk_first_cause(const struct stage_sum *, double *share);
/* "THE DISK ITSELF.": what decides, in a few words; "MIXED" when nothing has half of the time. */
const char *blk_verdict(const struct stage_sum *);
/* A worker that writes back what other processes dirtied. */
bool blk_is_flusher(const struct stage_process *);
/* What the cause means. */
const char *blk_cause_words(enum stage_cause);
/* A stranger's name on the screen; good for three more calls. */
const char *blk_shown(const struct blk_report *, const char *text, size_t columns);
/* Parts of a whole in tenths of a percent that add up to 1000. At most STAGE_COUNT. */
void blk_tenths(const uint64_t *parts, int count, int *tenths);

/* blk_live.c: trace, and tell. The exit status. */
int blk_live(struct blk_request *, struct options *);

void blk_say(const struct blk_report *);
void blk_say_slow(const struct blk_report *, const struct stage_done *, uint64_t start);
void blk_say_btt(const struct blk_report *, const struct btt *);
void blk_json(const struct blk_report *);
void blk_json_slow(const struct blk_report *, const struct stage_done *, uint64_t start);
/* blk_say_live.c, blk_json_live.c: what only a tracer knows. */
const struct blk_waiter *blk_find_victim(const struct blk_report *, struct blk_judgement *); /* NULL: nobody waited */
const char *blk_judged(const struct blk_judgement *);
/* Bios that are open: told again so lately that it must still be; where it is ("device", "queue", ...), and that in words. */
bool blk_still_open(const struct blk_report *, const struct blk_open *);
enum blk_place { BLK_WITH_DEVICE, BLK_IN_QUEUE, BLK_MERGED, BLK_HELD, BLK_FLUSHES, BLK_NO_REQUEST, BLK_IN_DRIVER, BLK_PLACES };
enum blk_place blk_open_where(const struct stage_record *);
const char *blk_open_code(enum blk_place);
const char *blk_open_words(enum blk_place);
void blk_say_head(const struct blk_report *);              /* above the devices */
void blk_say_cost(const struct blk_report *);              /* below them */
void blk_say_slow_call(const struct blk_report *, const struct sync_done *);
void blk_say_slow_bio(const struct blk_report *, const struct stage_done *, const struct behind_answer *);
void blk_json_head(const struct blk_report *);             /* members, each with a comma behind it */
void blk_json_slow_call(const struct blk_report *, const struct sync_done *);
void blk_json_slow_bio(const struct blk_report *, const struct stage_done *, const struct behind_answer *);
/* "key":value of a JSON object, after `before`. */
void blk_put_text(const char *before, const char *key, const char *value);
void blk_put_number(const char *before, const char *key, uint64_t value);
void blk_put_double(const char *before, const char *key, double value);

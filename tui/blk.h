#pragma once
/*
 * watop blk: what its files share. blk.c reads, blk_say.c says it to people, blk_json.c to programs.
 */
#include "tui/blk_read.h"

enum { BLK_DEVICES = 32, BLK_ANY = -1, BLK_DATA = -2 /* every direction but flushes */ };

struct btt;

struct blk_report {
        const struct blk_trace *trace;
        const struct stage_set *set;
        const char *const *files;
        size_t file_count;
        const char *devices[BLK_DEVICES];  /* asked for; none = all */
        size_t device_count;
        const char *process;               /* -p: a number or a name; NULL = all */
        uint64_t last;                     /* time of the last event */
        bool utf8;
};

/* "7,0", or "7,0 sda" where the files say so. */
const char *blk_device_text(const struct blk_report *, uint32_t device, char *out, size_t size);
bool blk_want_device(const struct blk_report *, uint32_t device);
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

/* The cause that has the most of the time, and its share; -1: no time at all. */
int blk_first_cause(const struct stage_sum *, double *share);
/* "THE DISK ITSELF.": what decides, in a few words; "MIXED" when nothing has half of the time. */
const char *blk_verdict(const struct stage_sum *);
/* A worker that writes back what other processes dirtied. */
bool blk_is_flusher(const struct stage_process *);
/* What the cause means. */
const char *blk_cause_words(enum stage_cause);

void blk_say(const struct blk_report *);
void blk_say_slow(const struct blk_report *, const struct stage_done *, uint64_t start);
void blk_say_btt(const struct blk_report *, const struct btt *);
void blk_json(const struct blk_report *);
void blk_json_slow(const struct blk_report *, const struct stage_done *, uint64_t start);

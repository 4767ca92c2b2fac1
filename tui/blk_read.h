#pragma once
/*
 * Recorded block traces: blktrace's binary files (one, some or all per-CPU files of a trace, or blkparse's -d dump; either byte order,
 * versions 7 and 8), blkparse's text, and the text of block tracepoints (tracefs trace and trace_pipe, trace-cmd report, perf script).
 * Compressed files (gzip) are read as they are. What a file holds is decided by its bytes, never by its name.
 *
 * All files are merged by time. Each is nearly in order already; what is not is sorted within a window, so that per-CPU files that somebody
 * has put behind each other are put right, and memory has a ceiling whatever the length. Strangers' bytes: damage is skipped and counted.
 */
#include "sample/stage.h"

struct blk_record {
        struct stage_event event;  /* name is good until the next record is read; X, A: other; U: other = requests */
        uint64_t order;            /* of reading: what comes first when times are the same */
        uint64_t lost;             /* events that the source lost before this one */
        uint32_t cpu, sequence;    /* sequence 0: the source has none */
        uint32_t name;             /* inside: the interned name */
        uint16_t file;
        bool note;                 /* inside: says only what a thread is called */
        bool gap;                  /* the source lost an unknown number before this one */
        char rwbs[10];
};

struct blk_damage {
        uint64_t events;           /* that were read */
        uint64_t skipped, spots;   /* bytes that are no record, at how many places */
        uint64_t cut;              /* files that end within a record */
        uint64_t broken;           /* files whose compression or medium broke off */
        uint64_t lines;            /* lines that begin like an event and are none */
        uint64_t lost;             /* events missing by sequence, or told as lost */
        uint64_t overwritten;      /* older ones that the ring buffer did not keep */
        uint64_t duplicates, disordered;
};

struct blk_trace;
/* -errno, with a line for people in why. */
int blk_open(const char *const *paths, size_t count, struct blk_trace **, char *why, size_t size);
void blk_close(struct blk_trace *);
/* 1 a record, 0 the end, -errno. */
int blk_next(struct blk_trace *, struct blk_record *);
const struct blk_damage *blk_get_damage(const struct blk_trace *);
/* The time of the first record; times are told from there. */
uint64_t blk_start(const struct blk_trace *);
/* "sda" when the device's events came from sda.blktrace.N; else NULL. */
const char *blk_device_name(const struct blk_trace *, uint32_t device);

/* ---- parsers: pure functions of bytes ---------------------------------------------------------------------------------------------- */

enum { BLK_NAME = 16, BLK_RECORD = 64, BLK_RECORD_MAX = 64 + 65535 };
enum blk_line { BLK_LINE_OTHER, BLK_LINE_EVENT, BLK_LINE_BAD, BLK_LINE_LOST /* record->lost */, BLK_LINE_OVERWRITTEN /* record->lost */ };
/* One line of text, without its end. The name goes to name. */
enum blk_line blk_parse_line(const char *line, size_t length, struct blk_record *, char name[BLK_NAME]);
/* Bytes of the binary record that begins here, 0 = none does, or more than length: so many are needed to tell. The record is filled when
 * whole; event.action is STAGE_ACTIONS for those that say nothing to us. */
size_t blk_parse_binary(const uint8_t *bytes, size_t length, struct blk_record *, char name[BLK_NAME]);
/* The event as blkparse's default format writes it, without a line's end; returns the length. */
size_t blk_format(char *out, size_t size, const struct blk_record *, uint64_t start);

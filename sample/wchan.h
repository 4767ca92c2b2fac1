#pragma once
/*
 * Wait channels in words: the kernel function in which a task sleeps (/proc/PID/wchan), what a person calls that wait, and what may be
 * concluded from it about iowait.
 *
 * A wait channel is the first function outside the scheduler's own text section (kernel/sched/core.c, get_wchan; functions marked __sched
 * are skipped), so mostly the one that called io_schedule(), a completion or a lock. What the compiler put in line shows its caller: so
 * names differ between builds, one not in the table means nothing, and a word is a help for people. Only wchan_kind is evidence, and only
 * where the name leaves no choice.
 */
#include <stdbool.h>

enum wchan_kind {
        WCHAN_UNKNOWN,      /* not in the table, or no channel at all ("", "0"): anything */
        WCHAN_DEVICE,       /* may be counted as iowait, and may be a block device's */
        WCHAN_ELSEWHERE,    /* may be counted as iowait, and is never for a local block device's request */
        WCHAN_PLAIN,        /* never counted as iowait */
};

/* "page cache", "dirty throttling", ...; NULL when the table has none. */
const char *wchan_word(const char *wchan);
enum wchan_kind wchan_kind(const char *wchan);
/* A wait for no I/O whatever: for a child (the parent of a vfork sleeps in D until it executes something), a clock, a lock of user space, a
 * pipe. A task in D state may show one in which nobody sleeps in D: it went on between the two reads. Such tasks belong in no list of waits
 * for I/O. */
bool wchan_apart(const char *wchan);
/* Whoever sleeps in it waits for a request or bio of a block device, whatever file it reads. */
bool wchan_block_only(const char *wchan);
/* Sleeps in it are counted as iowait although the state shown is S. (Completion-queue waits of io_uring are not meant.) */
bool wchan_counted_in_s(const char *wchan);

#pragma once
/*
 * Rights: take what a monitor needs for its timeliness, then keep two capabilities and give everything else away for good. Where the kernel
 * lets nobody attach a loaded BPF program without CAP_BPF, that and CAP_PERFMON stay too.
 */
#include <stdbool.h>
#include <stddef.h>

/* Before anything is opened: as many descriptors as the hard limit allows. Never fails. */
void privs_limits(void);
/* Lock our pages so that a tick does not wait for swap. 1 locked, 0 not permitted here. Before privs_drop. */
int privs_lock_memory(void);

enum privs_result {
        PRIVS_EXACT = 0,   /* nothing but what the list names is left, in any set */
        PRIVS_BOUNDING,    /* as above, but the bounding set could not be emptied (no CAP_SETPCAP): no_new_privs stands before it */
};
/* Keep what the list in privs.c names, as far as it is permitted, clear every other capability in every set, set
 * no_new_privs, and check the result. Of the calling thread: call it before any other thread starts.
 * `tracing_works` tries whether tracing can be attached as things are; it is called when all but the list is gone and what tracing would
 * need is not effective: if it gives true, that is given away too (else it is called once more, with it). NULL: there is no tracing,
 * nothing is kept for it. -EPERM: something else is left (why says what): do not go on. */
int privs_drop(bool (*tracing_works)(void *arg), void *arg, char *why, size_t size);

/* What this process has of the list, as words, "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH" or "none". */
void privs_describe(char *text, size_t size);
/* One line for each capability of the list: its name, whether it is permitted, and what needs it. False at the end. */
bool privs_line(unsigned index, char *line, size_t size);

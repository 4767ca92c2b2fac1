#pragma once
/*
 * CPU time of the recorded command's control group, beside the frames: a process that came and went between two samples is in no row, but
 * its time is in its group's. The recorder writes what the kernel counts, the report asks for the time at any frame.
 *
 * Notes `command.cpu.N`, N from 0: lines MONO_NS CPU_NS, by time; each note is a piece of the whole, so that a long recording does not
 * write it again and again.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/log.h"

enum { MEMBER_CPU_LINES = 256, MEMBER_CPU_LINE = 42, MEMBER_CPU_NOTES = 2000, MEMBER_CPU_EACH = 64 };

struct member_cpu {
        int fd;                       /* its cpu.stat; -1: none */
        bool tried;
        unsigned note, lines, noted;  /* of the current note; how many of them are in the log */
        size_t length;
        char text[MEMBER_CPU_LINES * MEMBER_CPU_LINE];
};
/* folder: of the group. Hierarchies without CPU time give nothing. */
void member_cpu_open(struct member_cpu *, const char *folder);
void member_cpu_close(struct member_cpu *);
/* One line more. True when the note should be written, by its name. */
bool member_cpu_take(struct member_cpu *);
void member_cpu_name(const struct member_cpu *, char *name, size_t size);
/* It was written. */
void member_cpu_noted(struct member_cpu *);

struct member_times {
        struct member_time {
                uint64_t mono_ns, cpu_ns;
        } *at;
        size_t count, room;
};
int member_times_read(struct member_times *, struct log *);
void member_times_free(struct member_times *);
/* CPU ns that the group had used by then, between two lines in proportion; NAN where nothing is known. */
double member_times_at(const struct member_times *, uint64_t mono_ns);

#pragma once
/*
 * Where tracefs is mounted, and our own instance in it: made, found, written, removed. The user's own tracing is never touched.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PLACE_NAME = 64 };

struct tracefs_place_of {
        int instances;                /* the folder of all of them, -1 = none */
        int instance, free_buffer;    /* ours, -1 = none */
        char name[PLACE_NAME];        /* of ours, "" = none */
};

/* 0, -ENOENT no tracefs, -EACCES no right, with why. The struct can be closed whatever happened. */
int place_open(struct tracefs_place_of *, char *why, size_t size);
void place_close(struct tracefs_place_of *);
/* Make an instance, which removes itself as far as a kernel does that when we die. 0 or -errno, with why. */
int tracefs_place_make(struct tracefs_place_of *, char *why, size_t size);
/* Remove it; all of its files that others opened must be closed. Takes one without. */
void place_remove(struct tracefs_place_of *);
/* Remove those that a watop left which is gone; how many. */
unsigned place_clean(struct tracefs_place_of *);

/* Files of ours. 0 or the length, -errno. */
int place_write(const struct tracefs_place_of *, const char *text, const char *path, ...) __attribute__((format(printf, 3, 4)));
ssize_t place_read(const struct tracefs_place_of *, char *text, size_t size, const char *path, ...) __attribute__((format(printf, 4, 5)));
/* Numbers of the CPUs that have a buffer, ascending. */
ssize_t place_cpus(const struct tracefs_place_of *, unsigned *numbers, size_t room);
/* A CPU's pages, not blocking. */
int place_open_cpu(const struct tracefs_place_of *, unsigned cpu);

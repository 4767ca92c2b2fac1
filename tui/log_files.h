#pragma once
/*
 * A log, or a folder in which watopd keeps its logs: the files of one run of it, rotated each day and by size, as one log.
 */
struct log;

/* path: a file, as log_open; or a folder: the newest file in it and those before it that its notes `previous` name, as far back as they are
 * there. What else is in the folder (older runs, other daemons) is left out, which is said on standard error. What is still
 * being written is there up to now. Needs as much room in $TMPDIR (or /var/tmp) as the files have, until log_close. 0; -ENOENT: no log in
 * the folder; as log_open; -errno. */
int log_files_open(const char *path, struct log **);

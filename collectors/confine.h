#pragma once
/*
 * Opening a path inside a folder that a stranger may have filled: nothing outside the folder is ever reached, no device or FIFO is opened.
 */

/* Open path (relative, or absolute within `root`) below the folder `root`, for reading. Links are followed inside the folder only; "/" and
 * ".." stop at it. Regular files and folders only (-EINVAL else). Returns a descriptor or -errno. */
int confine_open(int root, const char *path);
/* The same for the last component as it stands (a link is not followed): an O_PATH descriptor, for readlinkat(fd, ""). */
int confine_open_link(int root, const char *path);
/* Tests only: behave as on a kernel without openat2 (before 5.6). */
void confine_without_openat2(int yes);

#pragma once
/*
 * Names of users, from /etc/passwd as it stood when watopd started.
 *
 * Read once and never again: a look-up through NSS may ask a directory server, and would hang just when the machine is sick. A user that is
 * not in the file is shown by number.
 */
#include <stddef.h>
#include <stdint.h>

#include "collectors/procfs.h"

struct users;

int users_new(struct procfs *, struct users **); /* 0 (an unreadable file gives an empty table) or -ENOMEM */
void users_free(struct users *);
size_t users_count(const struct users *);
/* The name, or the number in decimal digits. Returns the length; NUL-terminated, cut at size - 1. */
size_t users_name(const struct users *, uint32_t uid, char *out, size_t size);

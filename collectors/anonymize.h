#pragma once
/*
 * Pseudonyms for a capture: names of programs, command lines, users, hosts, control groups and devices become stable made-up names.
 */
#include <stddef.h>

struct anonymizer;

int anonymize_new(struct anonymizer **); /* 0 or -ENOMEM */
void anonymize_free(struct anonymizer *);
/* The path under which a file is stored. 0, -ENOMEM, -ENAMETOOLONG. */
int anonymize_path(struct anonymizer *, const char *path, char *out, size_t size);
/* The bytes that are stored for the file `path` (as it was read). *out belongs to the anonymizer until the next call. 0 or -ENOMEM. */
int anonymize_file(struct anonymizer *, const char *path, const char *bytes, size_t length, const char **out, size_t *out_length);
/* The target that is stored for a link. Lifetime as above. */
int anonymize_link(struct anonymizer *, const char *path, const char *target, const char **out);

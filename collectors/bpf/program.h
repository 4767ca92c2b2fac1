#pragma once
/*
 * What every loader of BPF programs needs: why it failed, in words, and what the running kernel's BTF says of events and structs.
 */
#include <stdbool.h>
#include <stddef.h>

struct btf;
struct btf_type;

/* libbpf's complaints are kept from now on, not printed; the first one becomes part of the next explanation. */
void program_listen(void);
/* Returns error, with the reason in why. */
int program_explain(int error, const char *doing, char *why, size_t size);

/* The arguments of an event, with a hidden first; NULL when there is no such event. */
const struct btf_type *program_arguments(const struct btf *, const char *event);
/* Which of the event's arguments points to a struct of that name: 0 the first; -1 none, or no such event. */
int program_argument(const struct btf *, const char *event, const char *structure);
/* Bytes of an integer argument, 0 when it is none. */
size_t program_argument_size(const struct btf *, const char *event, unsigned index);
bool program_has_member(const struct btf *, const char *structure, const char *member);

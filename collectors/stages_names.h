#pragma once
/*
 * Who is who in block tracing: the last names that were told, for readers that come later, and the processes of threads, for a source whose
 * events know threads only.
 *
 * Fixed memory, four places for each hash: of five threads that share one, that of which nothing was told for the longest gives way. With
 * some hundred threads at work that is next to never.
 */
#include <stdbool.h>
#include <stdint.h>

#include "sample/stage_record.h"

struct stages_names;
struct stages_names *stages_names_new(void); /* NULL: no memory */
void stages_names_free(struct stages_names *);
/* RECORD_NAME. True when that is new: whoever has not got it must be told. */
bool stages_names_keep(struct stages_names *, const struct stage_record *);
void stages_names_each(const struct stages_names *, void (*each)(void *own, const struct stage_record *), void *own);
void stages_names_join(struct stages_names *, uint32_t tid, uint32_t tgid, bool kernel);
/* False: it is not known; nothing is set. */
bool stages_names_process(const struct stages_names *, uint32_t tid, uint32_t *tgid, bool *kernel);

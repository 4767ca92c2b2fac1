#pragma once
/*
 * Names of processes as a tracer's records tell them (RECORD_NAME): of a thread group its first thread's, else that of whichever thread was
 * named last. Kernel threads are groups of their own. Fixed memory: the name that was not asked for the longest gives way.
 */
#include "sample/stage_record.h"

struct stage_names;
struct stage_names *stage_names_new(void); /* NULL: no memory */
void stage_names_free(struct stage_names *);
void stage_names_put(struct stage_names *, const struct stage_record *); /* RECORD_NAME */
/* "" = not known. Good until the next put. */
const char *stage_names_get(struct stage_names *, uint32_t tgid);

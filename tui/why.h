#pragma once
/*
 * The long answer to "what is wa here", as lines: `watop why` prints them, the live screen shows them under `w`.
 */
#include "tui/verdict.h"

enum { WHY_LINES = 11, WHY_WIDTH = 128 };
/* The evidence of a verdict: plain lines, made harmless, at most WHY_WIDTH - 1 bytes each; WHY_LINES is room for all. Returns how many. */
size_t why_evidence(const struct tally *, const struct verdict *, char lines[][WHY_WIDTH], size_t max);
/* The answer and its evidence, straight from a state. */
size_t why_lines(const struct state *, char lines[][WHY_WIDTH], size_t max);
/* The same as one JSON object on standard output, with its newline. */
void why_json(const struct state *, const struct tally *, const struct verdict *);

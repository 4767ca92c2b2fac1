/*
 * The schema block: which name each slot of a writer has, so that older and newer readers map slots by name.
 *
 *     watop schema 1
 *     scope 0 system
 *     slot 0 system.ctxt counter count
 *     ...
 *
 * One line a scope or slot; a slot belongs to the scope line before it. Lines that begin with another word, and words after those known,
 * are skipped: a newer writer may say more. A slot whose kind or unit differs from ours is unknown to us, never reinterpreted.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sample/sample.h"

enum { BLOCK_MAX = 1 << 20, NAME_MAX_BYTES = 64 };
static const char first_line[] = "watop schema 1";

struct word {
        const char *at;
        size_t length;
};

static bool is(struct word word, const char *text)
{
        return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

/* The next word of the line [*at, end); length 0 at its end. */
static struct word next_word(const char **at, const char *end)
{
        while (*at < end && **at == ' ')
                ++*at;
        struct word word = {.at = *at};

        while (*at < end && **at != ' ')
                ++*at;
        word.length = (size_t)(*at - word.at);
        return word;
}

/* A number below `limit` in at most three digits. -1 otherwise. */
static int number(struct word word, int limit)
{
        int value = 0;

        if (word.length == 0 || word.length > 3)
                return -1;
        for (size_t i = 0; i < word.length; i++) {
                if (word.at[i] < '0' || word.at[i] > '9')
                        return -1;
                value = value * 10 + (word.at[i] - '0');
        }
        return value < limit ? value : -1;
}

static int scope_by_name(struct word name)
{
        for (int i = 0; i < SCOPE_COUNT; i++)
                if (is(name, scopes[i].name))
                        return i;
        return -1;
}

static int metric_by_name(struct word word)
{
        char name[NAME_MAX_BYTES];

        if (word.length >= sizeof name || memchr(word.at, 0, word.length))
                return METRIC_NONE;
        memcpy(name, word.at, word.length);
        name[word.length] = 0;
        return metric_find(name);
}

static void clear(struct schema *schema)
{
        memset(schema, 0, sizeof(*schema));
        for (size_t i = 0; i < 32; i++)
                schema->scope[i] = -1;
}

/* `seen`: bit i = the writer has a scope number i, our own or not. */
static int read_scope(struct schema *schema, const char *at, const char *end, uint32_t *seen)
{
        int index = number(next_word(&at, end), 32);
        int ours = scope_by_name(next_word(&at, end));

        if (index < 0 || (*seen & (UINT32_C(1) << index)))
                return -EBADMSG;
        for (size_t i = 0; i < 32 && ours >= 0; i++)
                if (schema->scope[i] == ours)
                        return -EBADMSG;
        *seen |= UINT32_C(1) << index;
        schema->scope[index] = ours;
        if ((uint32_t)index + 1 > schema->scopes)
                schema->scopes = (uint32_t)index + 1;
        return index;
}

static int read_slot(struct schema *schema, int scope, const char *at, const char *end)
{
        int slot = number(next_word(&at, end), ROW_SLOTS);
        struct word name = next_word(&at, end), kind = next_word(&at, end), unit = next_word(&at, end);

        if (scope < 0 || slot < 0 || unit.length == 0 || (schema->slots[scope] & (UINT64_C(1) << slot)))
                return -EBADMSG;
        schema->slots[scope] |= UINT64_C(1) << slot;
        if (is(kind, metric_kind_name(KIND_TEXT)))
                schema->text[scope] |= UINT64_C(1) << slot;

        int metric = metric_by_name(name);
        if (metric == METRIC_NONE || (int)metrics[metric].scope != schema->scope[scope])
                return 0;
        if (!is(kind, metric_kind_name(metrics[metric].kind)) || !is(unit, metric_unit_name(metrics[metric].unit)))
                return 0;
        for (int i = 0; i < ROW_SLOTS; i++)
                if (schema->metric[scope][i] == metric)
                        return -EBADMSG;
        schema->metric[scope][slot] = (short)metric;
        return 0;
}

int schema_read(struct schema *out, const char *block, size_t length)
{
        struct schema schema;
        const char *at = block, *end = block + length;
        uint32_t seen = 0;
        int scope = -1;
        bool first = true;

        if (length > BLOCK_MAX)
                return -EBADMSG;
        clear(&schema);
        while (at < end) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                const char *line = at;

                if (!newline)
                        return -EBADMSG; /* torn */
                at = newline + 1;
                if (first) {
                        if (!is((struct word){line, (size_t)(newline - line)}, first_line))
                                return -EBADMSG;
                        first = false;
                        continue;
                }
                struct word word = next_word(&line, newline);
                if (is(word, "scope")) {
                        scope = read_scope(&schema, line, newline, &seen);
                        if (scope < 0)
                                return scope;
                } else if (is(word, "slot")) {
                        int error = read_slot(&schema, scope, line, newline);
                        if (error < 0)
                                return error;
                }
        }
        if (first || seen == 0)
                return -EBADMSG;
        *out = schema;
        return 0;
}

void schema_own(struct schema *schema)
{
        clear(schema);
        schema->scopes = SCOPE_COUNT;
        for (int s = 0; s < SCOPE_COUNT; s++) {
                schema->scope[s] = s;
                for (int i = 0; i < scopes[s].count; i++) {
                        int metric = scopes[s].first + i;

                        schema->metric[s][i] = (short)metric;
                        schema->slots[s] |= UINT64_C(1) << i;
                        if (metrics[metric].kind == KIND_TEXT)
                                schema->text[s] |= UINT64_C(1) << i;
                }
        }
}

size_t schema_write(char *buffer, size_t size)
{
        size_t at = 0;
        int n = snprintf(buffer, size, "%s\n", first_line);

        for (int s = 0; s < SCOPE_COUNT && n >= 0; s++) {
                at += (size_t)n;
                if (at >= size)
                        return 0;
                n = snprintf(buffer + at, size - at, "scope %d %s\n", s, scopes[s].name);
                for (int i = 0; i < scopes[s].count && n >= 0; i++) {
                        const struct metric_info *metric = &metrics[scopes[s].first + i];

                        at += (size_t)n;
                        if (at >= size)
                                return 0;
                        n = snprintf(buffer + at, size - at, "slot %d %s %s %s\n", i, metric->name, metric_kind_name(metric->kind),
                                     metric_unit_name(metric->unit));
                }
        }
        at += n > 0 ? (size_t)n : 0;
        return at < size ? at : 0;
}

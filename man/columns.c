/*
 * Builds a manual page from its template: copies standard input, and puts the table's own words in place of lines like "@columns cpu@"
 * (columns of a view) and "@metrics disk@" (metrics of a scope). Runs on the machine that builds, so it knows only metrics.def.
 */
#include <stdio.h>
#include <string.h>

struct row {
        const char *group, *name, *unit, *source, *text;
};

#define SCOPE_BEGIN(...)
#define SCOPE_END(...)
#define BOUNDS(...)
#define VIEW(...)
#define METRIC(...)
#define COLUMN(VIEW, head, op, num, den, scale, width, decimals, rank, flags, text) {#VIEW, head, "", "", text},
static const struct row columns[] = {
#include "sample/metrics.def"
};
#undef METRIC
#undef COLUMN
#define METRIC(SCOPE, ID, name, kind, unit, wrap, source, text) {#SCOPE, name, #unit, source, text},
#define COLUMN(...)
static const struct row rows[] = {
#include "sample/metrics.def"
};

/* roff: a backslash, and a dot or quote at the start of a line, mean something. */
static void put(const char *text)
{
        if (*text == '.' || *text == '\'')
                fputs("\\&", stdout);
        for (; *text; text++)
                fputs(*text == '\\' ? "\\e" : (char[]){*text, '\0'}, stdout);
}

static int same(const char *left, const char *right)
{
        for (; *left && *right; left++, right++) {
                int a = *left >= 'a' && *left <= 'z' ? *left - 'a' + 'A' : *left;
                int b = *right >= 'a' && *right <= 'z' ? *right - 'a' + 'A' : *right;
                if (a != b && !((a == '-' || a == '_') && (b == '-' || b == '_')))
                        return 0;
        }
        return !*left && !*right;
}

static size_t list(const struct row *table, size_t count, const char *group, int sources)
{
        size_t found = 0;

        puts(".Bl -tag -width Ds -compact");
        for (size_t i = 0; i < count; i++) {
                if (!same(table[i].group, group))
                        continue;
                const char *text = table[i].text, *colon = strstr(text, ": ");
                if (colon && strncmp(text, table[i].name, strlen(table[i].name)) == 0)
                        text = colon + 2;
                fputs(".It Li ", stdout);
                put(table[i].name);
                putchar('\n');
                put(text);
                putchar('\n');
                if (sources)
                        printf("Source: %s.\n", table[i].source);
                found++;
        }
        puts(".El");
        return found;
}

int main(void)
{
        char line[1024], name[64];

        while (fgets(line, sizeof line, stdin)) {
                size_t found = 1;
                if (sscanf(line, "@columns %63[a-z-]@", name) == 1)
                        found = list(columns, sizeof columns / sizeof columns[0], name, 0);
                else if (sscanf(line, "@metrics %63[a-z-]@", name) == 1)
                        found = list(rows, sizeof rows / sizeof rows[0], name, 1);
                else
                        fputs(line, stdout);
                if (!found) {
                        fprintf(stderr, "columns: nothing is called '%s' in metrics.def\n", name);
                        return 1;
                }
        }
        return ferror(stdin) || fflush(stdout) ? 1 : 0;
}

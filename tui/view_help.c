/*
 * The help screen, made from tui/keys.def and the words of the screen; and the screen behind the key w.
 */
#include <stdio.h>
#include <string.h>

#include "tui/keys.h"
#include "tui/view.h"
#include "tui/why.h"

static const char *const words[] = {
        "wa = disk + uring + other, always; it is time in which a core was idle",
        "  disk    a request to a block device may have been open for the thread that slept",
        "  uring   a thread parked in io_uring, nothing of its own on a disk: the core is idle",
        "  other   not a disk; cause not known unless named",
        "  62.0 exact   62.0~ estimate   <62.0 at most   >62.0 at least   - could not be read",
        "load = us + ni + sy + hi + si, in % of one core; wa and id are never load",
        "bar  # load   w waiting for a disk   ? other   . idle, uring included",
};
enum { WORDS = sizeof words / sizeof words[0] };

/* Line `n` of the help; false past the end. */
static bool help_line(size_t n, const char **left, const char **right)
{
        for (size_t i = 0; i < key_count; i++) {
                if (!key_table[i].words[0])
                        continue;
                if (n-- == 0) {
                        *left = key_table[i].label;
                        *right = key_table[i].words;
                        return true;
                }
        }
        *left = NULL;
        *right = n == 0 ? "" : n <= WORDS ? words[n - 1] : NULL;
        return *right != NULL;
}

size_t help_lines(void)
{
        const char *left, *right;
        size_t n = 0;
        while (help_line(n, &left, &right))
                n++;
        return n;
}

void help_draw(const struct look *look, struct canvas *c, size_t top)
{
        const char *left, *right;
        int row = 0;
        (void)look;
        canvas_clear(c);
        if (c->rows >= 12) {
                canvas_format(c, row++, 0, c->cols, STYLE_STRONG, "watop %s: keys and words", WATOP_VERSION);
                row++;
        }
        int last = c->rows >= 4 ? c->rows - 1 : c->rows;
        size_t n = top;
        for (; row < last && help_line(n, &left, &right); n++, row++) {
                if (left)
                        canvas_put(c, row, 2, 11, STYLE_STRONG, left);
                canvas_put(c, row, left ? 14 : 2, c->cols, STYLE_PLAIN, right);
        }
        if (last < c->rows)
                canvas_put(c, last, 0, c->cols, STYLE_DIM,
                        n < help_lines() ? "Down or PgDn: more; any other key leaves" : "any key leaves");
}

/* One line of `why`, continued below its first word's column when the screen is narrow: what is behind the edge may be the answer. Returns
 * the row after it. */
static int draw_wrapped(struct canvas *c, int row, int last, enum style style, const char *line)
{
        enum { INDENT = 7 };
        int col = 0;
        while (*line && row < last) {
                size_t room = (size_t)(c->cols - col), length = strlen(line), cut = length;
                if (length > room) {
                        for (cut = room; cut > 0 && line[cut] != ' '; cut--)
                                ;
                        cut = cut > 0 ? cut : room;
                }
                canvas_stranger(c, row++, col, c->cols - col, style, line, cut); /* made harmless before; once more costs nothing */
                line += cut;
                line += strspn(line, " ");
                col = c->cols > 2 * INDENT ? INDENT : 0;
        }
        return row;
}

void why_draw(const struct look *look, struct canvas *c)
{
        static char lines[WHY_LINES + 1][WHY_WIDTH];
        size_t count = look->state ? why_lines(look->state, look->why, lines, sizeof lines / sizeof lines[0]) : 0;
        int row = 0, last = c->rows >= 4 ? c->rows - 1 : c->rows;
        canvas_clear(c);
        for (size_t i = 0; i < count; i++)
                row = draw_wrapped(c, row, last, i == 0 ? STYLE_STRONG : STYLE_PLAIN, lines[i]);
        if (count == 0)
                canvas_put(c, 0, 0, c->cols, STYLE_PLAIN, "Nothing can be said before the first interval is over.");
        if (c->rows >= 4)
                canvas_format(c, c->rows - 1, 0, c->cols, STYLE_DIM, "%s%s", look->gone_seconds < 0 ? "" :
                        look->source && look->source->stopped ? "watopd does not answer   " : "watopd is gone   ",
                        look->paused ? "paused; any key leaves" : "any key leaves; Space pauses");
}

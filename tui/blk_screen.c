/*
 * watop blk on a terminal: the report so far, drawn anew each second. Lines that are too long are wrapped; arrows and pages scroll.
 *
 * The text is the one that pipes get, so that what a person reads here is what is printed in the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/blk_live.h"
#include "tui/keys.h"

enum { INDENT = 2 };
static const char keys[] = "r anew, q end";
#define REFRESH_NS UINT64_C(1000000000)
#define WAIT_NS UINT64_C(50000000)

static uint64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* How many bytes of the text go on one line: all, or up to the last blank that leaves it short enough. Names are ASCII or clean UTF-8, so
 * continuation bytes are what takes no column; a wide character only makes the line wrap early. */
static size_t fitting(const char *text, size_t length, size_t columns)
{
        size_t used = 0, blank = 0, i;

        for (i = 0; i < length && used < columns; i++) {
                if (text[i] == ' ')
                        blank = i;
                used += ((unsigned char)text[i] & 0xc0) != 0x80;
        }
        while (i < length && ((unsigned char)text[i] & 0xc0) == 0x80)
                i++;
        if (i == length || text[i] == ' ')
                return i;
        return blank > columns / 2 ? blank : i;
}

struct picture {
        struct canvas *canvas;
        size_t line, top;
};

static void put_line(struct picture *picture, const char *text, size_t length)
{
        size_t columns = (size_t)picture->canvas->cols, lead = 0;
        enum style style = picture->line == 0 ? STYLE_HEAD : STYLE_PLAIN;
        char part[1024];

        do {
                size_t room = columns > lead + 8 ? columns - lead : 8, take = fitting(text, length, room);
                if (picture->line >= picture->top && picture->line - picture->top < (size_t)picture->canvas->rows) {
                        snprintf(part, sizeof part, "%.*s", (int)(take < sizeof part ? take : sizeof part - 1), text);
                        canvas_put(picture->canvas, (int)(picture->line - picture->top), (int)lead, (int)room, style, part);
                }
                picture->line++;
                text += take;
                length -= take;
                while (length > 0 && *text == ' ') {
                        text++;
                        length--;
                }
                lead = INDENT;
        } while (length > 0);
}

/* Returns the lines that there are. */
static size_t draw(struct blk_run *run, struct canvas *canvas, size_t top)
{
        struct blk_report *report = run->request->report;
        struct picture picture = {.canvas = canvas, .top = top};
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (out == NULL)
                return 0;
        report->out = out;
        blk_say(report);
        fclose(out);
        report->out = stdout;
        canvas_clear(canvas);
        for (const char *at = text, *end; at && *at; at = end + (*end == '\n')) {
                end = strchrnul(at, '\n');
                put_line(&picture, at, (size_t)(end - at));
        }
        const int hint = (int)sizeof keys - 1;
        if (text && top == 0 && (size_t)canvas->cols > strcspn(text, "\n") + (size_t)hint + 1) /* beside what it costs */
                canvas_put(canvas, 0, canvas->cols - hint, hint, STYLE_DIM, keys);
        free(text);
        screen_draw(run->screen, canvas, -1, -1);
        return picture.line;
}

/* False: it is to end. */
static bool on_key(int key, size_t *top, size_t lines, int rows, bool *anew)
{
        size_t page = rows > 1 ? (size_t)rows - 1 : 1, last = lines > (size_t)rows ? lines - (size_t)rows : 0;

        switch (key) {
        case 'q': case 'Q': return false;
        case 'r': case 'R': *anew = true; break;
        case KEYCODE_UP: *top -= *top > 0; break;
        case KEYCODE_DOWN: *top += 1; break;
        case KEYCODE_PAGE_UP: *top = *top > page ? *top - page : 0; break;
        case KEYCODE_PAGE_DOWN: case ' ': *top += page; break;
        case KEYCODE_HOME: *top = 0; break;
        case KEYCODE_END: *top = last; break;
        default: break;
        }
        if (*top > last)
                *top = last;
        return true;
}

static int loop(struct blk_run *run, struct canvas *canvas, int *ended_by)
{
        size_t top = 0, lines = 0;
        uint64_t due = now_ns();
        bool changed = true;

        for (;;) {
                int key, rows, cols, r = 0;
                bool anew = false;
                uint64_t now = now_ns();
                if (now >= due || (changed && !screen_is_plain(run->screen))) {
                        lines = draw(run, canvas, top);
                        due = now >= due ? now + REFRESH_NS : due;
                        changed = false;
                }
                enum screen_event event = screen_wait(run->screen, WAIT_NS, &key);
                if (event == SCREEN_ENDED) {
                        *ended_by = screen_signal(run->screen);
                        return 0;
                }
                if (event == SCREEN_KEY && !on_key(key, &top, lines, canvas->rows, &anew))
                        return 0;
                if (event == SCREEN_RESIZED) {
                        screen_size(run->screen, &rows, &cols);
                        canvas_resize(canvas, rows, cols);
                        screen_redraw(run->screen);
                }
                changed |= event != SCREEN_NOTHING;
                if (anew)
                        r = blk_live_anew(run);
                if (r == 0)
                        r = blk_live_step(run, 1);
                if (r < 0)
                        return r;
                if (run->span && now_ns() - run->request->report->start >= run->span)
                        return 0;
        }
}

int blk_screen(struct blk_run *run, char *why, size_t size, int *ended_by)
{
        struct canvas canvas;
        int rows, cols, r = screen_start(&run->screen, why, size);

        if (r < 0)
                return r;
        canvas_init(&canvas, run->request->report->utf8);
        screen_size(run->screen, &rows, &cols);
        r = canvas_resize(&canvas, rows, cols);
        if (r == 0)
                r = loop(run, &canvas, ended_by);
        screen_end(run->screen);
        run->screen = NULL;
        canvas_fini(&canvas);
        return r;
}

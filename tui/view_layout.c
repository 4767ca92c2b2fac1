/*
 * Who gets which rows of the screen, as a pure function; and the whole screen drawn by it.
 *
 * Head and foot first, then the panels share the rest: each gets what it wants up to its share, one that a person chose has the
 * largest share, what nobody wants goes to the processes. On a short screen only the selected panel is left, so that what is shown
 * can be used.
 */
#include <string.h>

#include "tui/view.h"

enum { ALL_THREE = 11, TWO_OF_THEM = 6, AIRY = 34 };

static int least(int a, int b)
{
        return a < b ? a : b;
}

/* Rows for each panel out of `body`. */
static void share(int body, const int wanted[PANEL_COUNT], enum panel_id selected, bool zoom, int rows[PANEL_COUNT])
{
        memset(rows, 0, PANEL_COUNT * sizeof *rows);
        if (body < TWO_OF_THEM) {
                rows[selected] = body;
                return;
        }
        if (body < ALL_THREE) { /* the selected one and the processes, or the cores beside them */
                enum panel_id other = selected == PANEL_TASK ? PANEL_CPU : PANEL_TASK;
                rows[other] = least(wanted[other], body / 2);
                rows[selected] = body - rows[other];
                return;
        }
        enum panel_id large = zoom ? selected : PANEL_COUNT;
        int disk = least(wanted[PANEL_DISK], large == PANEL_DISK ? body * 6 / 10 : body > 30 ? body / 4 : body / 6 + 1);
        int cpu = least(wanted[PANEL_CPU], large == PANEL_CPU ? body * 7 / 10 : large == PANEL_COUNT ? body * 55 / 100 : body / 4);
        int task = least(wanted[PANEL_TASK], large == PANEL_TASK ? body * 6 / 10 : 4);
        if (disk < 2)
                disk = 2;
        int free = body - disk - cpu - task;
        if (free < 0) { /* shares may ask for a little more than there is */
                int *most = large == PANEL_TASK ? &cpu : &task;
                *most += free;
                free = 0;
        }
        for (int round = 0; round < 2 && free > 0; round++) { /* the selected panel may have what is left, then the others in turn */
                int *panel[PANEL_COUNT] = {&cpu, &disk, &task};
                int more = least(free, wanted[selected] - *panel[selected]);
                if (round == 0 && more > 0) {
                        *panel[selected] += more;
                        free -= more;
                }
                for (int i = 0; round == 1 && i < PANEL_COUNT; i++) {
                        more = least(free, wanted[i] - *panel[i]);
                        if (more > 0) {
                                *panel[i] += more;
                                free -= more;
                        }
                }
        }
        rows[PANEL_CPU] = cpu;
        rows[PANEL_DISK] = disk;
        rows[PANEL_TASK] = task + free;
}

void layout_make(struct layout *l, int rows, int cols, int head, int foot, const int wanted[PANEL_COUNT], enum panel_id selected, bool zoom)
{
        int panel[PANEL_COUNT], body = rows - head - foot, row = head;
        int gap = rows >= AIRY ? 1 : 0;
        memset(l, 0, sizeof *l);
        l->head = (struct area){0, 0, least(head, rows), cols};
        if (body > 0) {
                share(body - 3 * gap > 0 ? body - 3 * gap : body, wanted, selected, zoom, panel);
                for (int i = 0; i < PANEL_COUNT; i++) {
                        if (panel[i] <= 0)
                                continue;
                        row += gap;
                        l->panel[i] = (struct area){row, 0, panel[i], cols};
                        row += panel[i];
                }
        }
        if (foot > 0 && foot <= rows - head)
                l->foot = (struct area){rows - foot, 0, foot, cols};
}

void look_draw(const struct look *look, struct panel *panels, struct canvas *c)
{
        struct layout l;
        int wanted[PANEL_COUNT], head = head_rows(look, c->rows), foot = foot_rows(c->rows);
        if (head + foot > c->rows)
                foot = 0;
        for (int i = 0; i < PANEL_COUNT; i++)
                wanted[i] = panels[i].view->wanted(&panels[i], look);
        layout_make(&l, c->rows, c->cols, head, foot, wanted, look->selected, look->zoom);
        canvas_clear(c);
        canvas_clip(c, l.head);
        head_draw(look, c);
        for (int i = 0; i < PANEL_COUNT; i++) {
                if (l.panel[i].rows <= 0) {
                        panels[i].page = 0;
                        continue;
                }
                canvas_clip(c, l.panel[i]);
                panels[i].view->draw(&panels[i], look, c);
        }
        canvas_clip(c, l.foot);
        if (l.foot.rows > 0)
                foot_draw(look, &panels[look->selected], c);
        canvas_clip(c, (struct area){0, 0, c->rows, c->cols});
}

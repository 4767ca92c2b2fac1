/*
 * Block latency on the HTML page: a bar for each device and direction, and for each kind of call that waits for data, as long as the
 * mean and divided by where the time went. Only where block tracing was recorded.
 */
#include <errno.h>
#include <string.h>

#include "tui/latency.h"
#include "tui/report_html.h"

enum { BARS = 16 };

static const char *const colours[SYNC_PARTS] = {[CAUSE_TAG] = "wo", [CAUSE_PLUG] = "ni", [CAUSE_QUEUE] = "d1", [CAUSE_REFUSED] = "sy",
        [CAUSE_DISK] = "wd", [CAUSE_FLUSH] = "dw", [CAUSE_DRIVER] = "d0", [CAUSE_OTHER] = "g3", [SYNC_JOURNAL] = "dr"};

struct bar {
        char name[160];
        double mean, part[SYNC_PARTS];
};

static size_t make_bars(const struct latency *latency, enum latency_kind kind, struct bar *bars)
{
        size_t count = 0;

        for (size_t i = 0; i < latency->count[kind] && count < BARS; i++) {
                const struct latency_line *line = &latency->lines[kind][i];
                struct bar *bar = &bars[count];
                if (!latency_counted(line) || (kind == LATENCY_STAGES && !latency_is_whole(line)))
                        continue;
                memcpy(bar->part, line->part, sizeof bar->part);
                if (kind == LATENCY_STAGES && !latency_causes(latency, line, bar->part))
                        continue;
                bar->mean = latency_mean(line);
                if (kind == LATENCY_CALLS)
                        snprintf(bar->name, sizeof bar->name, "%s %s", line->name, sync_call_name((enum sync_call)line->what));
                else
                        snprintf(bar->name, sizeof bar->name, "%s %s", line->device_name, line->direction < STAGE_DIRECTIONS ?
                                stage_direction_name((enum stage_direction)line->direction) : "?");
                count++;
        }
        return count;
}

static void put_bar(FILE *out, const struct bar *bar, double most, bool used[SYNC_PARTS])
{
        double sum = 0;
        char text[32];

        for (int part = 0; part < SYNC_PARTS; part++)
                sum += bar->part[part] > 0 ? bar->part[part] : 0;
        fputs("<tr><th scope=\"row\">", out);
        html_text(out, bar->name);
        fputs("</th><td class=\"bar\"><div>", out);
        for (int part = 0; part < SYNC_PARTS && sum > 0 && most > 0; part++) {
                double width = bar->part[part] > 0 ? 100 * bar->mean / most * bar->part[part] / sum : 0;
                if (width < 0.05)
                        continue;
                used[part] = true;
                fprintf(out, "<i title=\"%s %.1f%%\" style=\"min-width:0;border-radius:0;width:%.1f%%;background:var(--%s)\"></i>",
                        sync_part_name(part), 100 * bar->part[part] / sum, width, colours[part]);
        }
        fprintf(out, "</div></td><td>%s ms</td></tr>\n", latency_ms(text, sizeof text, bar->mean));
}

static void put_bars(FILE *out, const struct latency *latency, enum latency_kind kind, const char *caption)
{
        static struct bar bars[BARS];
        size_t count = make_bars(latency, kind, bars);
        bool used[SYNC_PARTS] = {false};
        double most = 0;

        if (count == 0)
                return;
        for (size_t i = 0; i < count; i++)
                most = fmax(most, bars[i].mean);
        fprintf(out, "<figure><table class=\"bars\"><caption>%s</caption><tbody>\n", caption);
        for (size_t i = 0; i < count; i++)
                put_bar(out, &bars[i], most, used);
        fputs("</tbody></table>\n<ul class=\"legend\">", out);
        for (int part = 0; part < SYNC_PARTS; part++)
                if (used[part])
                        fprintf(out, "<li><i class=\"%s\"></i>%s</li>", colours[part], sync_part_name(part));
        fputs("</ul></figure>\n", out);
}

int html_latency(FILE *out, const struct report_phase *phase)
{
        struct latency latency = {0};
        int r = latency_make(&latency, phase->state);

        if (r == 0) {
                put_bars(out, &latency, LATENCY_STAGES, "Block I/O from queue to completion, mean, and where the time went");
                put_bars(out, &latency, LATENCY_CALLS, "Calls that wait for data, mean, and where the time went");
        }
        latency_fini(&latency);
        return r;
}

/*
 * Which plots the page has: the CPU's time in total and per core, wa and its parts, whose work the load was, devices; and the bars of
 * results.
 *
 * Machines with very many cores or devices get the busiest ones; the page says so. Time that no core used for anything (id, and io_uring's
 * sleepers in wa) is drawn faint, what is load strong, what waits for a disk red: the eye sees load and waits, not idleness.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/report_html.h"

enum { CORES = 64, DEVICES = 8 };

/* ---- CPU ----------------------------------------------------------------------------------------------------------------------------- */

static const struct html_layer cpu_layers[] = {
        {"us", "us", REPORT_US}, {"sy", "sy", REPORT_SY}, {"ni", "ni", REPORT_NI}, {"hi", "hi", REPORT_HI}, {"si", "si", REPORT_SI},
        {"st", "st", REPORT_ST}, {"wd", "wa_disk", REPORT_WA_DISK}, {"wo", "wa_other", REPORT_WA_OTHER},
        {"wx", "wa, not split", HTML_UNSPLIT},
        {"wu", "wa_uring (idle)", REPORT_WA_URING}, {"id", "id", REPORT_ID},
};
static const struct html_layer wa_layers[] = {
        {"wd", "wa_disk", REPORT_WA_DISK}, {"wo", "wa_other", REPORT_WA_OTHER},
        {"wx", "not split", HTML_UNSPLIT}, {"wu", "wa_uring (idle)", REPORT_WA_URING},
};
static const struct html_layer group_layers[] = {
        {"g0", "watched", REPORT_WATCHED}, {"g1", "command", REPORT_COMMAND},
        {"g2", "softirq/irq", REPORT_IRQ}, {"g3", "rest", REPORT_REST},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool total_series(const struct report_phase *phase, const void *own, struct plot_series *series)
{
        (void)own;
        *series = (struct plot_series){phase->samples.total, REPORT_CPUS};
        return phase->samples.total != NULL;
}

static bool group_series(const struct report_phase *phase, const void *own, struct plot_series *series)
{
        (void)own;
        *series = (struct plot_series){phase->samples.group, REPORT_GROUPS};
        return phase->samples.group && (!isnan(phase->groups[REPORT_WATCHED]) || !isnan(phase->groups[REPORT_COMMAND]));
}

static bool core_series(const struct report_phase *phase, const void *own, struct plot_series *series)
{
        const struct report_samples *s = &phase->samples;
        const unsigned *number = own;

        for (size_t i = 0; s->core && i < phase->core_count && i < s->cores; i++)
                if (phase->cores[i].number == *number) {
                        *series = (struct plot_series){report_core(s, 0, i), s->cores * REPORT_CPUS};
                        return true;
                }
        return false;
}

static int cpu_charts(FILE *out, const struct html_axis *axis)
{
        double top = axis->report->cores > 0 ? 100.0 * axis->report->cores : 0;
        struct html_chart chart = {.title = "CPU, all cores", .unit = "% of one core", .layers = cpu_layers, .count = COUNT(cpu_layers),
                .envelope = REPORT_LOAD, .top = top, .series = total_series};

        int r = html_chart(out, axis, &chart);
        if (r < 0)
                return r;
        chart.title = "wa and its parts";
        chart.layers = wa_layers;
        chart.count = COUNT(wa_layers);
        chart.envelope = REPORT_WA;
        chart.top = 0;
        chart.least_top = 10;
        r = html_chart(out, axis, &chart);
        if (r < 0)
                return r;
        chart = (struct html_chart){.title = "load by whose work it was", .unit = "% of one core", .layers = group_layers,
                .count = COUNT(group_layers), .envelope = -1, .least_top = 10, .series = group_series};
        return html_chart(out, axis, &chart);
}

/* ---- cores --------------------------------------------------------------------------------------------------------------------------- */

struct core_load {
        unsigned number;
        double load;                  /* its largest mean in any phase */
};

static int by_load(const void *a, const void *b)
{
        const struct core_load *x = a, *y = b;

        return (x->load < y->load) - (x->load > y->load);
}

static int by_number(const void *a, const void *b)
{
        const struct core_load *x = a, *y = b;

        return (x->number > y->number) - (x->number < y->number);
}

/* Every core of any phase. Count, or -ENOMEM. */
static int find_cores(const struct report *report, struct core_load **list, size_t *count)
{
        size_t room = 1, used = 0;

        for (size_t p = 0; p < report->phase_count; p++)
                room += report->phases[p].core_count;
        struct core_load *all = calloc(room, sizeof *all);
        if (!all)
                return -ENOMEM;
        for (size_t p = 0; p < report->phase_count; p++)
                for (size_t i = 0; i < report->phases[p].core_count; i++) {
                        double load = report->phases[p].cores[i].value[REPORT_LOAD];
                        all[used++] = (struct core_load){report->phases[p].cores[i].number, isnan(load) ? 0 : load};
                }
        qsort(all, used, sizeof *all, by_number);
        size_t unique = 0;
        for (size_t i = 0; i < used; i++) {
                if (unique > 0 && all[unique - 1].number == all[i].number)
                        all[unique - 1].load = fmax(all[unique - 1].load, all[i].load);
                else
                        all[unique++] = all[i];
        }
        *list = all;
        *count = unique;
        return 0;
}

static int core_charts(FILE *out, const struct html_axis *axis)
{
        struct core_load *cores = NULL;
        size_t count = 0, shown;

        int r = find_cores(axis->report, &cores, &count);
        if (r < 0)
                return r;
        shown = count > CORES ? CORES : count;
        if (count > CORES) {
                qsort(cores, count, sizeof *cores, by_load);
                qsort(cores, shown, sizeof *cores, by_number);
        }
        if (shown > 0) {
                fputs("<h3>CPU, core by core</h3>\n", out);
                if (count > CORES)
                        fprintf(out, "<p class=\"note\">The %zu busiest of %zu cores.</p>\n", shown, count);
                fputs("<div class=\"cores\">\n", out);
        }
        for (size_t i = 0; i < shown && r >= 0; i++) {
                char title[32];
                snprintf(title, sizeof title, "cpu%u", cores[i].number);
                r = html_chart(out, axis, &(struct html_chart){.title = title, .unit = "%", .size = HTML_SMALL, .layers = cpu_layers,
                        .count = COUNT(cpu_layers), .envelope = -1, .top = 100, .series = core_series, .own = &cores[i].number});
        }
        if (shown > 0)
                fputs("</div>\n", out);
        free(cores);
        return r < 0 ? r : 0;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------------- */

static const struct html_layer util_layers[] = {{"d0", "%util", REPORT_UTIL}};
static const struct html_layer request_layers[] = {{"dr", "r/s", REPORT_R}, {"dw", "w/s", REPORT_W}};
static const struct html_layer bytes_layers[] = {{"dr", "rkB/s", REPORT_RKB}, {"dw", "wkB/s", REPORT_WKB}};
static const struct html_layer await_layers[] = {{"d1", "await", REPORT_AWAIT}};

struct device_use {
        struct key key;
        const char *name;
        double use;                   /* samples' largest %util, then requests */
};

static bool device_series(const struct report_phase *phase, const void *own, struct plot_series *series)
{
        const struct report_samples *s = &phase->samples;
        const struct key *key = own;

        for (size_t i = 0; s->device && i < phase->device_count && i < s->devices; i++)
                if (phase->devices[i].key.a == key->a && phase->devices[i].key.b == key->b) {
                        *series = (struct plot_series){report_disk(s, 0, i), s->devices * REPORT_DEVICES};
                        return true;
                }
        return false;
}

static double use_of(const struct report_phase *phase, size_t device)
{
        const struct report_samples *s = &phase->samples;
        double most = 0;

        for (size_t i = 0; s->device && device < s->devices && i < s->count; i++) {
                const float *v = report_disk(s, i, device);
                double use = (isnan(v[REPORT_UTIL]) ? 0 : (double)v[REPORT_UTIL])
                        + 1e-6 * ((isnan(v[REPORT_R]) ? 0 : (double)v[REPORT_R]) + (isnan(v[REPORT_W]) ? 0 : (double)v[REPORT_W]));
                most = use > most ? use : most;
        }
        return most;
}

static int by_use(const void *a, const void *b)
{
        const struct device_use *x = a, *y = b;

        return (x->use < y->use) - (x->use > y->use);
}

static int find_devices(const struct report *report, struct device_use **list, size_t *count)
{
        size_t room = 1, used = 0;

        for (size_t p = 0; p < report->phase_count; p++)
                room += report->phases[p].device_count;
        struct device_use *all = calloc(room, sizeof *all);
        if (!all)
                return -ENOMEM;
        for (size_t p = 0; p < report->phase_count; p++)
                for (size_t d = 0; d < report->phases[p].device_count; d++) {
                        const struct report_disk_row *row = &report->phases[p].devices[d];
                        double use = use_of(&report->phases[p], d);
                        size_t i = 0;
                        while (i < used && (all[i].key.a != row->key.a || all[i].key.b != row->key.b))
                                i++;
                        if (i == used)
                                all[used++] = (struct device_use){row->key, row->name, 0};
                        all[i].use = fmax(all[i].use, use);
                }
        qsort(all, used, sizeof *all, by_use);
        *list = all;
        *count = used;
        return 0;
}

static int device_charts(FILE *out, const struct html_axis *axis)
{
        const struct html_chart parts[] = {
                {.title = "busy", .unit = "%util", .layers = util_layers, .count = 1, .envelope = REPORT_UTIL, .least_top = 100},
                {.title = "requests", .unit = "per second", .layers = request_layers, .count = 2, .envelope = -1, .least_top = 1},
                {.title = "data", .unit = "kB/s", .layers = bytes_layers, .count = 2, .envelope = -1, .least_top = 1},
                {.title = "await", .unit = "ms", .layers = await_layers, .count = 1, .envelope = REPORT_AWAIT, .least_top = 0.1},
        };
        struct device_use *devices = NULL;
        size_t count = 0;

        int r = find_devices(axis->report, &devices, &count);
        if (r < 0)
                return r;
        size_t shown = count > DEVICES ? DEVICES : count;
        if (shown > 0)
                fputs("<h3>Devices</h3>\n", out);
        if (count > shown)
                fprintf(out, "<p class=\"note\">The %zu busiest of %zu devices.</p>\n", shown, count);
        for (size_t d = 0; d < shown && r >= 0; d++) {
                fputs("<h4>", out);
                html_text(out, devices[d].name);
                fputs("</h4>\n<div class=\"devices\">\n", out);
                for (size_t i = 0; i < COUNT(parts) && r >= 0; i++) {
                        struct html_chart chart = parts[i];
                        chart.series = device_series;
                        chart.own = &devices[d].key;
                        r = html_chart(out, axis, &chart);
                }
                fputs("</div>\n", out);
        }
        free(devices);
        return r < 0 ? r : 0;
}

int html_charts(FILE *out, const struct report *report)
{
        struct html_axis axis;

        int r = html_axis_init(&axis, report);
        if (r == 0 && axis.sizes[HTML_WIDE].from[report->phase_count] == 0) {
                fputs("<p class=\"note\">No samples to plot: no two frames of any phase belong together.</p>\n", out);
                html_axis_fini(&axis);
                return 0;
        }
        if (r == 0) {
                fputs("<p class=\"note\">A step is one sample's mean over its interval; nothing is drawn where there is no sample "
                      "(hatched), and long pauses between phases are shortened. The strip along the top of a phase is the part that its "
                      "means are taken of, without ramps.", out);
                if (axis.sizes[HTML_WIDE].joined)
                        fputs(" There are more samples than fit: a step is the mean of several, the thin line their largest.", out);
                else if (axis.sizes[HTML_SMALL].joined)
                        fputs(" In the small plots of cores a step is the mean of several samples.", out);
                fputs("</p>\n", out);
                r = cpu_charts(out, &axis);
        }
        if (r >= 0)
                r = core_charts(out, &axis);
        if (r >= 0)
                r = device_charts(out, &axis);
        html_axis_fini(&axis);
        return r < 0 ? r : 0;
}

/* ---- results ------------------------------------------------------------------------------------------------------------------------- */

static bool same_result(const struct result *a, const struct result *b)
{
        return strcmp(a->name, b->name) == 0 && strcmp(a->unit, b->unit) == 0 && strcmp(a->tool, b->tool) == 0;
}

static const struct report_result *find_result(const struct report_phase *phase, const struct result *wanted)
{
        for (size_t i = 0; i < phase->result_count; i++)
                if (same_result(phase->results[i].sum.first, wanted))
                        return &phase->results[i];
        return NULL;
}

/* True when an earlier phase, or an earlier result of this one, has it. */
static bool drawn_before(const struct report *report, size_t phase, size_t index)
{
        const struct result *wanted = report->phases[phase].results[index].sum.first;

        for (size_t p = 0; p <= phase; p++)
                for (size_t i = 0; i < (p == phase ? index : report->phases[p].result_count); i++)
                        if (same_result(report->phases[p].results[i].sum.first, wanted))
                                return true;
        return false;
}

static void result_bar(FILE *out, const struct report_result *result, double most)
{
        char text[64];
        double low = result->sum.least, high = result->sum.largest;
        bool single = !isnan(result->sum.value);

        if (single)
                low = 0, high = result->sum.value;
        if (!(most > 0) || isnan(high) || isnan(low) || low < 0)
                low = high = 0, most = 1;
        fputs("<td class=\"bar\"><div>", out);
        if (!single)
                fprintf(out, "<i class=\"upto\" style=\"width:%.1f%%\"></i>", 100 * low / most);
        fprintf(out, "<i class=\"%s\" style=\"width:%.1f%%\"></i></div></td><td>", single ? "whole" : "range", 100 * (high - low) / most);
        html_text(out, report_value(text, sizeof text, result));
        fputs("</td>", out);
}

static void result_chart(FILE *out, const struct report *report, const struct result *wanted)
{
        double most = 0;

        for (size_t p = 0; p < report->phase_count; p++) {
                const struct report_result *found = find_result(&report->phases[p], wanted);
                if (found)
                        most = fmax(most, isnan(found->sum.value) ? found->sum.largest : found->sum.value);
        }
        fputs("<table class=\"bars\"><caption>", out);
        html_text(out, wanted->name);
        fputc(' ', out);
        html_text(out, wanted->unit);
        fputs("</caption><tbody>\n", out);
        for (size_t p = 0; p < report->phase_count; p++) {
                const struct report_result *found = find_result(&report->phases[p], wanted);
                if (!found)
                        continue;
                fputs("<tr><th scope=\"row\">", out);
                html_text(out, report->phases[p].title[0] ? report->phases[p].title : "all");
                fputs("</th>", out);
                result_bar(out, found, most);
                fputs("</tr>\n", out);
        }
        fputs("</tbody></table>\n", out);
}

void html_results(FILE *out, const struct report *report)
{
        size_t shown = 0;

        for (size_t p = 0; p < report->phase_count; p++)
                for (size_t i = 0; i < report->phases[p].result_count; i++) {
                        if (drawn_before(report, p, i))
                                continue;
                        if (shown++ == 0)
                                fputs("<section id=\"results\"><h2>Results</h2>\n<div class=\"results\">\n", out);
                        if (shown <= 24)
                                result_chart(out, report, report->phases[p].results[i].sum.first);
                }
        if (shown > 0)
                fputs("</div>\n", out);
        if (shown > 24)
                fprintf(out, "<p class=\"note\">The first 24 of %zu; all are in the phases' tables.</p>\n", shown);
        if (shown > 0)
                fputs("</section>\n", out);
}

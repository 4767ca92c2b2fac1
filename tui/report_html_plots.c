/*
 * One plot over time: axis, shades and names of phases, areas, gaps, legend. Contract: report_html.h.
 *
 * Shapes are an SVG that is stretched to the width of the page; all text is HTML placed over it by percent, so it keeps its size at 400 and
 * at 1,400 pixels.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/report_html.h"

/* ---- the axis ------------------------------------------------------------------------------------------------------------------------ */

/* Seconds from the first phase's start to this one's: the wall clock's, for the monotonic one stops in a suspend and begins anew
 * at a boot. */
static double begins(const struct report *report, size_t i)
{
        uint64_t first = report->phases[0].full.from_real_ns, now = report->phases[i].full.from_real_ns;

        return now > first ? (double)(now - first) * 1e-9 : 0;
}

static double covered(const struct report *report)
{
        double sum = 0;

        for (size_t i = 0; i < report->phase_count; i++)
                sum += report_seconds(&report->phases[i].full);
        return sum;
}

/* A hole between phases is drawn as long as it was up to 3% of what phases cover. */
static void place(struct html_axis *axis)
{
        const struct report *report = axis->report;
        double all = covered(report), x = 0, end = 0;

        for (size_t i = 0; i < report->phase_count; i++) {
                axis->length[i] = report_seconds(&report->phases[i].full);
                axis->begin[i] = begins(report, i);
                if (axis->begin[i] < end)
                        axis->begin[i] = end;
                double hole = i > 0 ? axis->begin[i] - end : 0;
                x += hole > 0.03 * all ? 0.03 * all : hole;
                axis->start[i] = x;
                x += axis->length[i];
                end = axis->begin[i] + axis->length[i];
        }
        axis->scale = x > 0 ? PLOT_WIDTH / x : 0;
        for (size_t i = 0; i < report->phase_count; i++)
                axis->start[i] *= axis->scale;
}

static int make_bins(struct html_axis *axis, struct html_bins *set, double least)
{
        const struct report *report = axis->report;
        size_t room = 1, used = 0;

        for (size_t i = 0; i < report->phase_count; i++)
                room += report->phases[i].samples.count;
        set->bins = calloc(room, sizeof *set->bins);
        set->from = calloc(report->phase_count + 1, sizeof *set->from);
        if (!set->bins || !set->from)
                return -ENOMEM;
        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_samples *s = &report->phases[i].samples;
                set->from[i] = used;
                if (s->count == 0 || !s->total)
                        continue;
                struct plot_series known = {report_total(s, 0) + REPORT_LOAD, REPORT_CPUS};
                size_t made = plot_bins(set->bins + used, s->at, s->length, s->count, known, axis->start[i], axis->scale, least);
                for (size_t b = used; b < used + made; b++)
                        set->joined |= set->bins[b].last - set->bins[b].first > 1;
                used += made;
        }
        set->from[report->phase_count] = used;
        return 0;
}

int html_axis_init(struct html_axis *axis, const struct report *report)
{
        size_t count = report->phase_count + 1;

        *axis = (struct html_axis){.report = report, .start = calloc(count, sizeof(double)), .begin = calloc(count, sizeof(double)),
                .length = calloc(count, sizeof(double))};
        if (!axis->start || !axis->begin || !axis->length)
                return -ENOMEM;
        if (report->phase_count > 0)
                place(axis);
        int r = make_bins(axis, &axis->sizes[HTML_WIDE], PLOT_WIDTH / 400.0);
        if (r == 0)
                r = make_bins(axis, &axis->sizes[HTML_SMALL], PLOT_WIDTH / 90.0);
        if (r < 0)
                return r;
        size_t most = axis->sizes[HTML_WIDE].from[report->phase_count] + 1;
        axis->low = calloc(most, sizeof(double));
        axis->high = calloc(most, sizeof(double));
        return axis->low && axis->high ? 0 : -ENOMEM;
}

void html_axis_fini(struct html_axis *axis)
{
        for (int i = 0; i < HTML_SIZES; i++) {
                free(axis->sizes[i].bins);
                free(axis->sizes[i].from);
        }
        free(axis->start);
        free(axis->begin);
        free(axis->length);
        free(axis->low);
        free(axis->high);
        *axis = (struct html_axis){0};
}

/* ---- values -------------------------------------------------------------------------------------------------------------------------- */

static double value_of(const struct plot_bin *bin, struct plot_series series, int index, const double *length)
{
        static const int parts[] = {REPORT_WA_DISK, REPORT_WA_URING, REPORT_WA_OTHER};

        if (index != HTML_UNSPLIT)
                return plot_bin_mean(bin, (struct plot_series){series.values + index, series.stride}, length);
        double rest = plot_bin_mean(bin, (struct plot_series){series.values + REPORT_WA, series.stride}, length);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                double part = plot_bin_mean(bin, (struct plot_series){series.values + parts[i], series.stride}, length);
                rest -= isnan(part) ? 0 : part;
        }
        return rest > 0.05 ? rest : 0; /* less is rounding of floats */
}

/* One layer on top of the others: high becomes their sum, low what it was. A bin without any value stays NAN. */
static void stack(const struct html_axis *axis, const struct html_chart *chart, int index, bool first)
{
        const struct html_bins *set = &axis->sizes[chart->size];

        for (size_t p = 0; p < axis->report->phase_count; p++) {
                const struct report_phase *phase = &axis->report->phases[p];
                struct plot_series series;
                bool there = set->from[p] < set->from[p + 1] && chart->series(phase, chart->own, &series);
                for (size_t b = set->from[p]; b < set->from[p + 1]; b++) {
                        double value = there ? value_of(&set->bins[b], series, index, phase->samples.length) : (double)NAN;
                        axis->low[b] = first || isnan(axis->high[b]) ? 0 : axis->high[b];
                        if (first)
                                axis->high[b] = value;
                        else if (!isnan(value))
                                axis->high[b] = axis->low[b] + value;
                }
        }
}

static void maxima(const struct html_axis *axis, const struct html_chart *chart)
{
        const struct html_bins *set = &axis->sizes[chart->size];

        for (size_t p = 0; p < axis->report->phase_count; p++) {
                const struct report_phase *phase = &axis->report->phases[p];
                struct plot_series series;
                bool there = set->from[p] < set->from[p + 1] && chart->series(phase, chart->own, &series);
                for (size_t b = set->from[p]; b < set->from[p + 1]; b++)
                        axis->high[b] = there
                                ? plot_bin_max(&set->bins[b], (struct plot_series){series.values + chart->envelope, series.stride})
                                : (double)NAN;
        }
}

static double largest(const struct html_axis *axis, const struct html_chart *chart)
{
        double top = 0;
        size_t count = axis->sizes[chart->size].from[axis->report->phase_count];

        if (chart->envelope >= 0) {
                maxima(axis, chart);
                for (size_t b = 0; b < count; b++)
                        top = axis->high[b] > top ? axis->high[b] : top;
        }
        for (size_t l = 0; l < chart->count; l++) {
                stack(axis, chart, chart->layers[l].index, l == 0);
                for (size_t b = 0; b < count; b++)
                        top = axis->high[b] > top ? axis->high[b] : top;
        }
        return top;
}

/* ---- drawing ------------------------------------------------------------------------------------------------------------------------- */

static void rectangle(FILE *out, const char *class, double from, double to, double y, double height)
{
        fprintf(out, "<rect class=\"%s\" x=\"%ld\" y=\"%.0f\" width=\"%ld\" height=\"%.0f\">", class, lround(from), y,
                lround(to) - lround(from) > 0 ? lround(to) - lround(from) : 1, height);
}

static void shades(FILE *out, const struct html_axis *axis)
{
        const struct report *report = axis->report;

        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_phase *p = &report->phases[i];
                double end = axis->start[i] + axis->length[i] * axis->scale;
                if (i > 0 && axis->begin[i] - axis->begin[i - 1] - axis->length[i - 1] > 0.05) {
                        rectangle(out, "pause", axis->start[i - 1] + axis->length[i - 1] * axis->scale, axis->start[i], 0, PLOT_HEIGHT);
                        fprintf(out, "<title>%.1f s between phases</title></rect>",
                                axis->begin[i] - axis->begin[i - 1] - axis->length[i - 1]);
                }
                rectangle(out, i % 2 ? "shade odd" : "shade", axis->start[i], end, 0, PLOT_HEIGHT);
                fprintf(out, "<title>%zu ", i + 1);
                html_text(out, p->title[0] ? p->title : "the whole recording");
                fprintf(out, ": %.1f s, means over %.1f s</title></rect>", axis->length[i], report_seconds(&p->used));
        }
}

/* At the upper edge a strip over what means are taken of. */
static void strips(FILE *out, const struct html_axis *axis)
{
        for (size_t i = 0; i < axis->report->phase_count; i++) {
                const struct report_phase *p = &axis->report->phases[i];
                double end = axis->start[i] + axis->length[i] * axis->scale;
                rectangle(out, "strip", axis->start[i] + p->cut_before * axis->scale, end - p->cut_after * axis->scale, 0, 24);
                fputs("</rect>", out);
        }
}

/* Places inside phases without samples. What is shorter than a tick is the way from a mark to the next tick. */
static void gaps(FILE *out, const struct html_axis *axis, const struct html_bins *set)
{
        double tick = (double)axis->report->tick_ns * 1e-9 * 0.75, shortest = tick > 0.05 ? tick : 0.05;

        for (size_t p = 0; p < axis->report->phase_count; p++) {
                double x = axis->start[p], end = x + axis->length[p] * axis->scale, least = PLOT_WIDTH / 500.0;
                for (size_t b = set->from[p]; b <= set->from[p + 1]; b++) {
                        double next = b < set->from[p + 1] ? set->bins[b].from : end;
                        if (next - x > least && (next - x) / axis->scale > shortest) {
                                rectangle(out, "gap", x, next, 0, PLOT_HEIGHT);
                                fprintf(out, "<title>no samples for %.1f s</title></rect>", (next - x) / axis->scale);
                        }
                        if (b < set->from[p + 1])
                                x = set->bins[b].to;
                }
        }
}

static void y_axis(FILE *out, double top, bool small)
{
        double step = plot_step(top, small ? 1 : 4);

        fputs("<div class=\"ys\" aria-hidden=\"true\">", out);
        for (double y = 0; y <= top * 1.0001; y += step)
                fprintf(out, "<span style=\"top:%.1f%%\">%.15g</span>", 100 - 100 * y / top, y < step / 2 ? 0 : y);
        fputs("</div>", out);
}

static void grid(FILE *out, double top)
{
        double step = plot_step(top, 4);

        fputs("<path class=\"grid line\" d=\"", out);
        for (double y = step; y < top * 0.999; y += step)
                fprintf(out, "M0 %.0fH%d", PLOT_HEIGHT * (1 - y / top), PLOT_WIDTH);
        fputs("\"/>", out);
}

static void clock_text(char *text, size_t size, double seconds, double step)
{
        unsigned whole = (unsigned)(seconds + 1e-6);

        if (step < 1)
                snprintf(text, size, "%.15g", round(seconds * 1000) / 1000);
        else if (whole >= 3600)
                snprintf(text, size, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
        else
                snprintf(text, size, "%u:%02u", whole / 60, whole % 60);
}

static double time_step(double seconds)
{
        static const double steps[] = {5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400};

        if (seconds / 6 <= 2)
                return plot_step(seconds, 6);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
                if (seconds / 6 <= steps[i])
                        return steps[i];
        return 86400.0 * ceil(seconds / 6 / 86400);
}

static void x_axis(FILE *out, const struct html_axis *axis)
{
        double step = time_step(axis->scale > 0 ? PLOT_WIDTH / axis->scale : 0), last = -1e9;

        fputs("<div class=\"xs\" aria-hidden=\"true\">", out);
        for (size_t i = 0; i < axis->report->phase_count && axis->scale > 0; i++) {
                for (double t = step * ceil(axis->begin[i] / step - 1e-9); t <= axis->begin[i] + axis->length[i]; t += step) {
                        double x = (axis->start[i] + (t - axis->begin[i]) * axis->scale) * 100 / PLOT_WIDTH;
                        char text[32];
                        if (x - last < 9)
                                continue;
                        clock_text(text, sizeof text, t, step);
                        fprintf(out, "<span style=\"left:%.2f%%\"%s>%s</span>", x, x > 95 ? " class=\"end\"" : "", text);
                        last = x;
                }
        }
        fputs("</div>", out);
}

static void names(FILE *out, const struct html_axis *axis, bool small)
{
        const struct report *report = axis->report;

        fputs("<div class=\"names\" aria-hidden=\"true\">", out);
        for (size_t i = 0; i < report->phase_count; i++) {
                double width = axis->length[i] * axis->scale * 100 / PLOT_WIDTH;
                if (width < (small ? 7 : 1.2) || report->phases[i].title[0] == '\0')
                        continue;
                fprintf(out, "<span style=\"left:%.2f%%;width:%.2f%%\">%zu", axis->start[i] * 100 / PLOT_WIDTH, width, i + 1);
                if (!small) {
                        fputs("<em> ", out);
                        html_text(out, report->phases[i].title);
                        fputs("</em>", out);
                }
                fputs("</span>", out);
        }
        fputs("</div>", out);
}

/* The areas; and in `legend` what was drawn. */
static int layers(FILE *out, FILE *legend, const struct html_axis *axis, const struct html_chart *chart, double top)
{
        const struct html_bins *set = &axis->sizes[chart->size];
        size_t count = set->from[axis->report->phase_count];

        for (size_t l = 0; l < chart->count; l++) {
                char *path = NULL;
                size_t length = 0;
                FILE *d = open_memstream(&path, &length);
                if (!d)
                        return -ENOMEM;
                stack(axis, chart, chart->layers[l].index, l == 0);
                bool drawn = plot_area(d, set->bins, axis->low, axis->high, count, top);
                if (fclose(d) != 0) {
                        free(path);
                        return -ENOMEM;
                }
                if (drawn) {
                        fprintf(out, "<path class=\"%s\" d=\"%s\"/>", chart->layers[l].class, path);
                        fprintf(legend, "<li><i class=\"%s\"></i>%s</li>", chart->layers[l].class, chart->layers[l].name);
                }
                free(path);
        }
        if (chart->envelope >= 0 && set->joined) {
                maxima(axis, chart);
                fputs("<path class=\"max line\" d=\"", out);
                plot_line(out, set->bins, axis->high, count, top);
                fputs("\"/>", out);
                fputs("<li><i class=\"max\"></i>largest sample</li>", legend);
        }
        return 0;
}

static bool has_values(const struct html_axis *axis, const struct html_chart *chart)
{
        const struct html_bins *set = &axis->sizes[chart->size];

        for (size_t p = 0; p < axis->report->phase_count; p++) {
                struct plot_series series;
                if (set->from[p] < set->from[p + 1] && chart->series(&axis->report->phases[p], chart->own, &series))
                        return true;
        }
        return false;
}

int html_chart(FILE *out, const struct html_axis *axis, const struct html_chart *chart)
{
        bool small = chart->size == HTML_SMALL;
        char *legend = NULL;
        size_t length = 0;

        if (!has_values(axis, chart))
                return 0;
        FILE *list = open_memstream(&legend, &length);
        if (!list)
                return -ENOMEM;
        double top = chart->top;
        if (!(top > 0)) {
                top = 1.08 * largest(axis, chart); /* room for the phases' names */
                top = plot_top(top > chart->least_top ? top : chart->least_top, 4);
        }
        fprintf(out, "<figure class=\"%s\"><figcaption><b>", small ? "small" : "wide");
        html_text(out, chart->title);
        fprintf(out, "</b> %s</figcaption><div class=\"plot\">", chart->unit);
        y_axis(out, top, small);
        fprintf(out, "<div class=\"area\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"",
                PLOT_WIDTH, PLOT_HEIGHT);
        html_text(out, chart->title);
        fprintf(out, ", %s, over time; the same numbers by phase are in the tables\">", chart->unit);
        shades(out, axis);
        grid(out, top);
        int r = layers(out, list, axis, chart, top);
        gaps(out, axis, &axis->sizes[chart->size]);
        strips(out, axis);
        fputs("</svg>", out);
        names(out, axis, small);
        fputs("</div>", out);
        if (!small)
                x_axis(out, axis);
        fputs("</div>", out);
        if (fclose(list) != 0)
                r = -ENOMEM;
        if (r == 0 && !small && legend[0])
                fprintf(out, "<ul class=\"legend\">%s</ul>", legend);
        fputs("</figure>\n", out);
        free(legend);
        return r < 0 ? r : 1;
}

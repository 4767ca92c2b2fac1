/*
 * Bins, areas and lines of the page's plots. Contract: report_plot.h.
 *
 * Coordinates are whole units (10,000 across): finer than any screen, and short to write; a step that does not move is not written, so a
 * core that does nothing for an hour costs a few bytes.
 */
#include "tui/report_plot.h"

#include <math.h>

/* Stamps of neighbours differ by the time that reading takes: less than a twentieth of the sample is no gap. */
static bool follows(double end, double at, double length)
{
        double slack = length * 0.05 > 0.02 ? length * 0.05 : 0.02;

        return at - length - end <= slack;
}

size_t plot_bins(struct plot_bin *bins, const double *at, const double *length, size_t count, struct plot_series known, double start,
        double scale, double least)
{
        size_t used = 0;
        bool open = false;

        for (size_t i = 0; i < count; i++) {
                if (isnan(known.values[i * known.stride]) || !(length[i] > 0)) {
                        open = false;
                        continue;
                }
                double from = start + (at[i] - length[i]) * scale, to = start + at[i] * scale;
                bool joins = i > 0 && used > 0 && bins[used - 1].last == i && follows(at[i - 1], at[i], length[i]);
                if (joins && open && to - bins[used - 1].from <= least) {
                        bins[used - 1].to = to;
                        bins[used - 1].last = i + 1;
                        continue;
                }
                bins[used] = (struct plot_bin){.from = joins ? bins[used - 1].to : from, .to = to, .first = i, .last = i + 1};
                used++;
                open = true;
        }
        return used;
}

double plot_bin_mean(const struct plot_bin *bin, struct plot_series series, const double *length)
{
        double sum = 0, seconds = 0;

        for (size_t i = bin->first; i < bin->last; i++) {
                double value = (double)series.values[i * series.stride];
                if (isnan(value))
                        continue;
                sum += value * length[i];
                seconds += length[i];
        }
        return seconds > 0 ? sum / seconds : (double)NAN;
}

double plot_bin_max(const struct plot_bin *bin, struct plot_series series)
{
        double largest = (double)NAN;

        for (size_t i = bin->first; i < bin->last; i++) {
                double value = (double)series.values[i * series.stride];
                if (!isnan(value) && !(value <= largest))
                        largest = value;
        }
        return largest;
}

bool plot_joined(const struct plot_bin *bin, const struct plot_bin *next)
{
        return next->from - bin->to < 1;
}

static long y_of(double value, double top)
{
        double y = top > 0 ? PLOT_HEIGHT * (1 - value / top) : PLOT_HEIGHT;

        return lround(y < 0 ? 0 : y > PLOT_HEIGHT ? PLOT_HEIGHT : y);
}

/* Bins from `first` that touch and have a value. */
static size_t run_end(const struct plot_bin *bins, const double *high, size_t first, size_t count)
{
        size_t end = first + 1;

        while (end < count && !isnan(high[end]) && plot_joined(&bins[end - 1], &bins[end]))
                end++;
        return end;
}

static void forth(FILE *out, const struct plot_bin *bins, const double *high, size_t from, size_t to, double top)
{
        long y = y_of(high[from], top);

        fprintf(out, "M%ld %ld", lround(bins[from].from), y);
        for (size_t i = from; i < to; i++) {
                long next = i + 1 < to ? y_of(high[i + 1], top) : -1;
                if (next == y)
                        continue;
                fprintf(out, "H%ld", lround(bins[i].to));
                if (next >= 0)
                        fprintf(out, "V%ld", next);
                y = next;
        }
}

static void back(FILE *out, const struct plot_bin *bins, const double *low, size_t from, size_t to, double top)
{
        long y = y_of(low ? low[to - 1] : 0, top);

        fprintf(out, "V%ld", y);
        for (size_t i = to; i-- > from;) {
                long next = i > from ? y_of(low ? low[i - 1] : 0, top) : -1;
                if (next == y)
                        continue;
                fprintf(out, "H%ld", lround(bins[i].from));
                if (next >= 0)
                        fprintf(out, "V%ld", next);
                y = next;
        }
        fputc('Z', out);
}

static bool flat(const double *low, const double *high, size_t from, size_t to, double top)
{
        for (size_t i = from; i < to; i++)
                if (y_of(high[i], top) != y_of(low ? low[i] : 0, top))
                        return false;
        return true;
}

bool plot_area(FILE *out, const struct plot_bin *bins, const double *low, const double *high, size_t count, double top)
{
        bool drawn = false;

        for (size_t i = 0; i < count;) {
                if (isnan(high[i])) {
                        i++;
                        continue;
                }
                size_t end = run_end(bins, high, i, count);
                if (!flat(low, high, i, end, top)) {
                        forth(out, bins, high, i, end, top);
                        back(out, bins, low, i, end, top);
                        drawn = true;
                }
                i = end;
        }
        return drawn;
}

bool plot_line(FILE *out, const struct plot_bin *bins, const double *high, size_t count, double top)
{
        bool drawn = false;

        for (size_t i = 0; i < count;) {
                if (isnan(high[i])) {
                        i++;
                        continue;
                }
                size_t end = run_end(bins, high, i, count);
                forth(out, bins, high, i, end, top);
                drawn = true;
                i = end;
        }
        return drawn;
}

double plot_step(double range, unsigned most)
{
        if (!(range > 0) || !isfinite(range) || most == 0)
                return 1;
        double least = range / most, ten = pow(10, floor(log10(least)));

        for (unsigned i = 0; i < 4; i++) {
                static const double steps[] = {1, 2, 5, 10};
                if (steps[i] * ten >= least * (1 - 1e-9))
                        return steps[i] * ten;
        }
        return 10 * ten;
}

double plot_top(double largest, unsigned most)
{
        double step = plot_step(largest, most);

        return largest > 0 && isfinite(largest) ? step * ceil(largest / step * (1 - 1e-9)) : step;
}

/*
 * What a person would write below the tables, said only when the numbers say it in every phase that it names.
 *
 * Full: a core whose mean load is 95% or more. What wa is: nine tenths of it, in every phase in which there was wa to speak of (5% of a
 * core).
 */
#include "tui/report_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/clean.h"

enum { FULL = 95, WA_LEAST = 5, ROUNDS_SAID = 3 };

/* ---- heads ---------------------------------------------------------------------------------------------------------------------- */

/* Of all phases that have one the same result? Its name and unit as a head. */
static bool common_head(const struct report *report, bool latency, const char *other, char *head, size_t size)
{
        const struct result *common = NULL;
        char text[RESULT_NAME + 24];

        snprintf(head, size, "%s", other);
        for (size_t i = 0; i < report->phase_count; i++) {
                const struct report_phase *phase = &report->phases[i];
                size_t which = latency ? phase->latency : phase->primary;
                if (which == SIZE_MAX)
                        continue;
                const struct result *first = phase->results[which].sum.first;
                if (common && (strcmp(common->name, first->name) != 0 || strcmp(common->unit, first->unit) != 0))
                        return false;
                common = first;
        }
        if (!common)
                return true;
        snprintf(text, sizeof text, "%.30s%s%s", common->name, common->unit[0] && common->unit[0] != '/' ? " " : "", common->unit);
        clean_screen(head, size, text, strlen(text), false, size - 1, NULL);
        return true;
}

void report_heads_make(struct report *report)
{
        report->primary_same = common_head(report, false, "result", report->primary_head, sizeof report->primary_head);
        report->latency_same = common_head(report, true, "latency", report->latency_head, sizeof report->latency_head);
        snprintf(report->per_core_head, sizeof report->per_core_head, "per busy core");
        if (report->cores)
                snprintf(report->share_head, sizeof report->share_head, "of %u%%", report->cores * 100);
        else
                snprintf(report->share_head, sizeof report->share_head, "share");
}

/* ---- sentences ------------------------------------------------------------------------------------------------------------------ */

static int say_best(const struct report *report, struct report_lines *lines)
{
        const struct report_phase *best = NULL;
        size_t with = 0;
        char number[48];

        for (size_t i = 0; i < report->phase_count && report->primary_same; i++) {
                const struct report_phase *phase = &report->phases[i];
                if (phase->primary == SIZE_MAX)
                        continue;
                with++;
                if (!best || phase->results[phase->primary].sum.value > best->results[best->primary].sum.value)
                        best = phase;
        }
        if (with < 2)
                return 0;
        const struct report_result *result = &best->results[best->primary];
        return report_lines_add(lines, "best %s: %s %s %s.", best->title, result->sum.first->name,
                                report_number(number, sizeof number, result->sum.value),
                                result->sum.first->unit);
}

static double core_load(const struct report_phase *phase, unsigned number)
{
        for (size_t i = 0; i < phase->core_count; i++)
                if (phase->cores[i].number == number)
                        return phase->cores[i].value[REPORT_LOAD];
        return NAN;
}

/* Phases of one round, in their order. */
struct round {
        const struct report_phase **phases;
        size_t count;
};

static void round_of(const struct report *report, unsigned number, struct round *round)
{
        round->count = 0;
        for (size_t i = 0; i < report->phase_count; i++)
                if (report->phases[i].round == number || number == 0)
                        round->phases[round->count++] = &report->phases[i];
}

/* How many phases at the round's end have the whole machine full: another thing than one full core. */
static size_t machine_full(const struct round *round)
{
        size_t i = round->count;

        while (i > 0 && round->phases[i - 1]->valid && round->phases[i - 1]->share >= FULL)
                i--;
        return round->count - i;
}

struct full {
        unsigned core;
        double least, most, others_least, others_most;
};

/* From which phase on, up to `end`, the core that is the busiest of the last one is full in each. */
static size_t full_from(const struct round *round, size_t end, struct full *full)
{
        size_t i = end;

        *full = (struct full){.core = round->phases[end - 1]->tally.busiest_core, .least = INFINITY, .others_least = INFINITY};
        for (; i > 0; i--) {
                const struct report_phase *phase = round->phases[i - 1];
                double load = core_load(phase, full->core);
                if (!phase->valid || phase->core_count < 2 || !(load >= FULL))
                        break;
                full->least = fmin(full->least, load);
                full->most = fmax(full->most, load);
                for (size_t c = 0; c < phase->core_count; c++)
                        if (phase->cores[c].number != full->core) {
                                full->others_least = fmin(full->others_least, phase->cores[c].value[REPORT_LOAD]);
                                full->others_most = fmax(full->others_most, phase->cores[c].value[REPORT_LOAD]);
                        }
        }
        return i;
}

/* Of a round: the machine full, or one core of it, to the round's end, and since when. */
static int say_full(const struct report *report, const struct round *round, struct report_lines *lines)
{
        size_t machine = round->count - machine_full(round);
        struct full full;
        char core[24], others[24];
        int r = 0;

        if (machine == 0)
                return report_lines_add(lines, "The machine is full from %s to %s: its %u cores at %d%% or more.", round->phases[0]->title,
                                        round->phases[round->count - 1]->title,
                                        report->cores, FULL);
        if (machine < round->count)
                r = report_lines_add(lines, "From %s on the machine is full: its %u cores at %d%% or more.", round->phases[machine]->title,
                                     report->cores, FULL);
        if (r < 0)
                return r;
        size_t from = full_from(round, machine, &full);
        if (from == machine)
                return 0;
        report_range(core, sizeof core, full.least, full.most);
        report_range(others, sizeof others, full.others_least, full.others_most);
        if (round->count == 1)
                return report_lines_add(lines, "cpu%u is full (%s), the others at %s.", full.core, core, others);
        return report_lines_add(lines, from + 1 == round->count ? "In %s cpu%u is full (%s), the others at %s."
                                : "From %s on cpu%u is full (%s), the others at %s.",
                                round->phases[from]->title, full.core, core, others);
}

static int say_full_cores(const struct report *report, struct report_lines *lines)
{
        struct round round = {.phases = calloc(report->phase_count + 1, sizeof(struct report_phase *))};
        int r = 0;

        if (!round.phases)
                return -ENOMEM;
        round_of(report, 0, &round);
        if (round.count > 0 && machine_full(&round) == round.count) {
                r = report_lines_add(lines, "The machine is full in every phase: its %u cores at %d%% or more.", report->cores, FULL);
        } else {
                for (unsigned number = 1; r == 0 && number <= report->rounds && number <= ROUNDS_SAID; number++) {
                        round_of(report, number, &round);
                        if (round.count > 0)
                                r = say_full(report, &round, lines);
                }
        }
        free(round.phases);
        return r;
}

static double part_of(const struct tally *tally, int part)
{
        const struct value *values[] = {&tally->disk, &tally->uring, &tally->other};

        /* What it is at least: a bound from above proves nothing. */
        return values[part]->kind == VALUE_NUMBER ? (values[part]->mark == MARK_EXACT ? values[part]->number : values[part]->low) : NAN;
}

static int say_wa(const struct report *report, struct report_lines *lines)
{
        static const char *const whole[] = {"a disk: processes wait for it", "uring in every phase: not a disk, not load",
                "neither a disk nor io_uring: watop why has names"};
        size_t with = 0, of[3] = {0};
        double first = NAN, last = NAN;

        for (size_t i = 0; i < report->phase_count; i++) {
                const struct tally *tally = &report->phases[i].tally;
                if (!report->phases[i].valid || tally->wa.kind != VALUE_NUMBER || tally->wa.number < WA_LEAST)
                        continue;
                with++;
                last = tally->wa.number;
                first = isnan(first) ? last : first;
                for (int part = 0; part < 3; part++)
                        of[part] += part_of(tally, part) >= 0.9 * tally->wa.number;
        }
        if (with == 0)
                return 0;
        for (int part = 0; part < 3; part++)
                if (of[part] == with)
                        return with == 1 ? report_lines_add(lines, "wa (%.1f) is %s.", first, part == 1 ? "uring: not a disk, not load"
                                                            : whole[part])
                                : report_lines_add(lines, "wa (%.1f ... %.1f) is %s.", first, last, whole[part]);
        return report_lines_add(lines, "wa is never load; what it was (disk, uring, other) is in each phase's SUM row.");
}

/* A device that worked for nearly all the time of a phase. Busy is not full: it may well take more. */
static int say_devices(const struct report *report, struct report_lines *lines)
{
        const struct report_phase *where = NULL;
        const struct report_disk_row *busiest = NULL;
        double most = 0;

        for (size_t i = 0; i < report->phase_count; i++)
                for (size_t d = 0; d < report->phases[i].device_count; d++) {
                        const struct report_phase *phase = &report->phases[i];
                        const struct state_row *row = phase->valid ? phase->devices[d].used : NULL;
                        struct value util = row ? metric_value(phase->state, row, metric_column(VIEW_DISK, "%util"))
                                : (struct value){.kind = VALUE_ABSENT};
                        if (util.kind == VALUE_NUMBER && util.number > most) {
                                most = util.number;
                                busiest = &phase->devices[d];
                                where = phase;
                        }
                }
        if (most < 90)
                return 0;
        struct value queue = metric_value(where->state, busiest->used, metric_column(VIEW_DISK, "aqu-sz"));
        return report_lines_add(lines, "%s was busy for %.0f%% of %s, with %.1f requests open on average (busy, not necessarily full).",
                                busiest->name, fmin(most, 100), /* its counter is no clock: over some ms it gains more than they are */
                                where->title[0] ? where->title : "the time", queue.kind == VALUE_NUMBER ? queue.number : 0);
}

int report_say(const struct report *report, struct report_lines *lines)
{
        int r = say_best(report, lines);

        if (r == 0)
                r = say_full_cores(report, lines);
        if (r == 0)
                r = say_wa(report, lines);
        if (r == 0)
                r = say_devices(report, lines);
        return r < 0 ? r : report_say_calls(report, lines);
}

/*
 * The exact branch of the split. Contract: iowait_exact.h; the rules that judge the rest: iowait.c.
 *
 * What it guarantees: parts that are never negative and add up to the kernel's iowait to the ns; wa_disk never above the ceiling R1, for a
 * core that waits for a device has an accounted request open, whatever tracing took the waiter for; nothing is called exact of which
 * tracing did not see the cause: iowait clearly beyond the traced time, and threads that slept already when tracing began and whose rings
 * nobody can vouch for. What is not known yet opens the bounds.
 */
#include "sample/iowait_exact.h"

enum { DISK, URING, OTHER, PARTS };

/* The kernel's counter shows whole ticks of 10 ms. */
#define TICK_NS INT64_C(10000000)
/* Corrections older than about this are dropped: to tell what happens now wrong, so that an old sum comes right, helps nobody. */
#define DEBT_MOST_NS INT64_C(1000000000)
/* Iowait beyond the traced time up to here is the distance between the two reads, and rounding. */
#define GAP_TICKS 2
#define GAP_SHARE 50
/* Less than this share of the iowait makes no difference to what the whole is called. */
#define TRIFLE_SHARE 50

static int64_t least(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
        return a > b ? a : b;
}

/* value * of / whole; 0 <= value, 0 <= of, 0 < whole. Doubles are exact enough (2^53 ns are 104 days); never above `of` for value <=
 * whole. */
static int64_t share(int64_t value, int64_t of, int64_t whole)
{
        int64_t part = (int64_t)((double)value / (double)whole * (double)of);
        return value <= whole ? least(part, of) : part;
}

/* ---- from counters to times of an interval ------------------------------------------------------------------------------------------- */

/* What is negative is taken from where it went, and owed where it came from: out of disk comes other (a waiter that was not a device's),
 * out of the two others comes disk. Sums stay as they are. */
static void settle(int64_t part[PARTS], int64_t debt[PARTS])
{
        static const int from[PARTS][2] = { [DISK] = { OTHER, URING }, [URING] = { DISK, OTHER }, [OTHER] = { DISK, URING } };

        for (int p = 0; p < PARTS; p++)
                debt[p] = 0;
        for (int p = 0; p < PARTS; p++)
                for (int k = 0; k < 2 && part[p] < 0; k++) {
                        int64_t taken = least(-part[p], most(0, part[from[p][k]]));
                        part[p] += taken;
                        part[from[p][k]] -= taken;
                        debt[p] -= taken;
                        debt[from[p][k]] += taken;
                }
        for (int p = 0; p < PARTS; p++) /* more was taken back than there is: nobody is owed that */
                part[p] = most(0, part[p]);
}

static void limit_debt(int64_t debt[PARTS])
{
        int64_t largest = 0;

        for (int p = 0; p < PARTS; p++)
                largest = most(largest, most(debt[p], -debt[p]));
        if (largest <= DEBT_MOST_NS)
                return;
        debt[DISK] = (int64_t)((double)debt[DISK] / (double)largest * (double)DEBT_MOST_NS);
        debt[URING] = (int64_t)((double)debt[URING] / (double)largest * (double)DEBT_MOST_NS);
        debt[OTHER] = -debt[DISK] - debt[URING];
}

void iowait_exact_next(struct iowait_carry *carry, int64_t iowait_ns, struct iowait_exact *exact)
{
        int64_t part[PARTS] = {
                [DISK] = exact->disk_ns + carry->debt[DISK] + carry->rest[DISK],
                [URING] = exact->uring_ns + carry->debt[URING] + carry->rest[URING],
                [OTHER] = exact->other_ns + carry->debt[OTHER] + carry->rest[OTHER],
        };

        settle(part, carry->debt);
        limit_debt(carry->debt);
        int64_t all = part[DISK] + part[URING] + part[OTHER];
        exact->disk_ns = part[DISK];
        exact->uring_ns = part[URING];
        exact->other_ns = part[OTHER];
        exact->unsure_ns = least(most(0, exact->unsure_ns + carry->unsure_ns), part[DISK] + part[OTHER]);
        exact->seeded_ns = least(most(0, exact->seeded_ns + carry->seeded_ns), part[URING]);
        /* The counter lags behind by less than a tick. With short ticks this is all there is in most intervals. */
        int64_t rest = most(0, least(all - most(0, iowait_ns), TICK_NS));
        for (int p = 0; p < PARTS; p++)
                carry->rest[p] = rest > 0 ? share(part[p], rest, all) : 0;
        carry->unsure_ns = rest > 0 ? share(exact->unsure_ns, rest, all) : 0;
        carry->seeded_ns = rest > 0 ? share(exact->seeded_ns, rest, all) : 0;
}

/* ---- from times to parts ----------------------------------------------------------------------------------------------------------- */

/* Those that slept already when tracing began: their rings, read from /proc while they sleep, must say that nothing is on storage. */
static bool seeded_are_idle(const struct iowait_input *input, const struct iowait_exact *exact)
{
        unsigned idle = 0;

        for (size_t i = 0; i < input->witness_count; i++) {
                const struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu != exact->cpu || !witness->seeded || !witness->parked || witness->seen_only || witness->refuted)
                        continue;
                if (witness->ring == RING_STORAGE)
                        return false;
                idle += iowait_positive(input, witness);
        }
        return idle >= exact->seeded && idle > 0;
}

/* Traced times scaled to `covered` ns of the kernel's. */
static void put_traced(const struct iowait_exact *exact, int64_t traced, int64_t covered, struct iowait_parts *parts)
{
        parts->disk = share(exact->disk_ns, covered, traced);
        parts->uring = least(share(exact->uring_ns, covered, traced), covered - parts->disk);
        parts->other = least(share(exact->other_ns, covered, traced), covered - parts->disk - parts->uring);
        /* What rounding left over makes no part of its own. */
        *(exact->other_ns > 0 ? &parts->other : exact->uring_ns > 0 ? &parts->uring : &parts->disk) +=
                covered - parts->disk - parts->uring - parts->other;
        int64_t unsure = share(exact->unsure_ns, covered, traced), real = parts->disk + parts->other;
        parts->disk_min = most(0, parts->disk - unsure);
        parts->disk_max = least(real, parts->disk + unsure);
        parts->uring_min = parts->uring_max = parts->uring;
}

/* Who sleeps still, and of whom nothing is known yet, may wait for a device that is stuck: as without tracing, it is disk as far as devices
 * had requests open. Returns how much was moved. */
static int64_t doubt_unsure(const struct iowait_exact *exact, int64_t unsure, int64_t ceiling, struct iowait_parts *parts)
{
        int64_t moved = least(least(unsure, parts->other), most(0, ceiling - parts->disk));

        if (exact->unsure_ns <= 0 || moved <= 0)
                return 0;
        parts->disk += moved;
        parts->other -= moved;
        return moved;
}

/* Iowait of sleepers from before, whose rings are not known to be idle: a real wait is never called uring, so it is disk up to the ceiling,
 * else other. */
static void doubt_seeded(int64_t seeded, int64_t ceiling, struct iowait_parts *parts)
{
        int64_t disk = least(seeded, most(0, ceiling - parts->disk));

        parts->uring -= seeded;
        parts->uring_min = parts->uring;
        parts->disk += disk;
        parts->other += seeded - disk;
        parts->disk_max += seeded;
}

/* Iowait that tracing did not see: as the rules have it. */
static void add_rules(const struct iowait_parts *rules, int64_t uncovered, int64_t iowait, struct iowait_parts *parts)
{
        int64_t disk = share(rules->disk, uncovered, iowait), uring = least(share(rules->uring, uncovered, iowait), uncovered - disk);

        parts->disk += disk;
        parts->uring += uring;
        parts->other += uncovered - disk - uring;
        parts->disk_max += least(uncovered, rules->disk_max);
        parts->uring_max += least(uncovered, rules->uring_max);
}

static void limit_disk(int64_t ceiling, struct iowait_parts *parts)
{
        int64_t excess = most(0, parts->disk - ceiling);

        parts->disk -= excess;
        parts->other += excess;
        parts->disk_max = most(parts->disk, least(parts->disk_max, ceiling));
        parts->disk_min = least(parts->disk_min, parts->disk);
}

/* Iowait beyond the traced times falls into the spans in which a change of the core was missed, as far as they reach: who slept then is
 * known, and how much of them was idle is what is lacking. */
static struct iowait_exact fill_missed(const struct iowait_exact *traced, int64_t iowait)
{
        struct iowait_exact exact = *traced;
        int64_t lacking = iowait - exact.disk_ns - exact.uring_ns - exact.other_ns;
        int64_t missed = exact.missed_disk_ns + exact.missed_uring_ns + exact.missed_other_ns, fill = least(lacking, missed);

        if (fill <= 0)
                return exact;
        int64_t disk = share(exact.missed_disk_ns, fill, missed), uring = least(share(exact.missed_uring_ns, fill, missed), fill - disk);
        int64_t real = exact.disk_ns + exact.other_ns;
        if (real > 0) /* whoever was a guess was one then too */
                exact.unsure_ns += share(fill - uring, exact.unsure_ns, real);
        exact.disk_ns += disk;
        exact.uring_ns += uring;
        exact.other_ns += fill - disk - uring;
        /* As far as threads of before slept, it may be theirs. */
        if (exact.seeded > 0)
                exact.seeded_ns = least(exact.uring_ns, exact.seeded_ns + uring);
        return exact;
}

void iowait_split_exact(const struct iowait_input *input, size_t i, int64_t ceiling, struct iowait_parts *parts)
{
        const struct iowait_exact filled = fill_missed(&input->exact[i], most(0, input->cores[i].iowait_ns)), *exact = &filled;
        const struct iowait_parts rules = *parts;
        int64_t iowait = most(0, input->cores[i].iowait_ns), traced = exact->disk_ns + exact->uring_ns + exact->other_ns;

        if (iowait == 0) { /* nothing to tell apart */
                parts->level = IOWAIT_EXACT;
                return;
        }
        if (traced <= 0)
                return;
        int64_t gap = iowait - traced, spare = exact->partial ? 0 : GAP_TICKS * TICK_NS + iowait / GAP_SHARE;
        int64_t covered = gap <= spare ? iowait : traced;
        int64_t most_disk = least(iowait, most(0, ceiling));
        put_traced(exact, traced, covered, parts);
        int64_t doubtful = doubt_unsure(exact, share(exact->unsure_ns, covered, traced), most_disk, parts);
        bool known = exact->seeded_ns <= 0 || seeded_are_idle(input, exact);
        int64_t seeded = known ? 0 : least(share(exact->seeded_ns, covered, traced), parts->uring);
        if (seeded > 0)
                doubt_seeded(seeded, most_disk, parts);
        if (covered < iowait)
                add_rules(&rules, iowait - covered, iowait, parts);
        limit_disk(most_disk, parts);
        parts->level = covered < iowait || seeded > iowait / TRIFLE_SHARE || doubtful > iowait / TRIFLE_SHARE ? rules.level : IOWAIT_EXACT;
}

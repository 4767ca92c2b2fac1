/*
 * The split of iowait where no thread sleeps through: busy reactors (R4), and waits in D state whose channel says what they are not for.
 *
 * What it guarantees: a core's iowait is called uring only when every thread that was met in a completion-queue wait on it had nothing on
 * storage whenever it was looked at, and it is next to impossible that somebody else made that iowait and was missed by every look; of what
 * is beyond the devices' ceiling only the part of the time in which nobody else was met; and never what a device can have had.
 *
 * Why looks and not the count: a thread that wakes a thousand times a second is asleep at most instants, but not at all. procs_blocked
 * counts it when the core has taken it from its queue, which a core with other work does later (6.12, delayed dequeue): so a count that is
 * too low says little, and it is used against a thread only when it is too low most of the time.
 */
#include "sample/iowait_own.h"

#include <math.h>

/* Looks at one ring, and reads of procs_blocked, before anything is said of a thread that moves. */
#define BUSY_LOOKS 3
/* Requests that are in no list may be a device's. A thread that moves makes many of them, each with gaps in which no device has it (a
 * synchronous write: data, then the journal). So when devices worked for more than this part of the time, nothing is concluded from their
 * rest. */
#define WEAK_PART 20

double largest_share(struct looks looks)
{
        double share = looks.all >= SAMPLES_LEAST ? ((double)looks.met + 3.0) / (double)looks.all : 1;
        return share < 1 ? share : 1;
}

/* A look reads one thread after the other, and each state is of another instant. Of one waiter it is missed with 1 - share. Of many who
 * take turns, of whom always one is asleep, each may be read while another sleeps: the chance to miss them all is below e^-share,
 * whatever their number. */
double chance_met(double share, bool one)
{
        if (share > SHARE_MOST)
                share = SHARE_MOST;
        return one ? share : 1 - exp(-share);
}

/* ---- R4 ----------------------------------------------------------------------------------------------------------------------------- */

void busy_gather(struct group *group, struct iowait_witness *witness)
{
        witness->verdict = 2;
        group->moving++;
        bool clean = witness->ring == RING_NO_STORAGE && witness->ring_looks >= BUSY_LOOKS;
        if (!clean && witness->ring != RING_UNCHANGED)
                return;
        group->busy++;
        if (witness->asleep >= BUSY_LOOKS && witness->counted * 2 < witness->asleep) {
                group->uncounted++;
                return;
        }
        group->busy_weak = group->busy_weak || !clean;
        if (group->busy == group->uncounted + 1 || witness->ring_looks < group->ring_looks)
                group->ring_looks = witness->ring_looks;
        double chance = witness->chance > 0 && witness->chance < 1 ? witness->chance : 1;
        if (group->busy_chance < chance)
                group->busy_chance = chance;
}

/* Only looks that would have met any waiter, in D state or in a completion queue, and did not find the core occupied. */
static struct looks busy_looks(const struct iowait_input *input, const struct iowait_seen *seen)
{
        if (input->full < input->samples || input->samples <= seen->running)
                return (struct looks){0, 0};
        unsigned all = input->samples - seen->running;
        return (struct looks){all, seen->d_state < all ? seen->d_state : all};
}

/* How likely are these looks if none of the moving threads is counted, against what they are if one is? As for parked threads; the
 * numbers go on from one interval to the next, for whether a thread is counted (it has submitted, it does not ask for NO_IOWAIT) is a
 * habit of it. */
static double busy_chance(const struct iowait_input *input, const struct iowait_core *core, const struct group *group,
        const struct iowait_seen *seen)
{
        struct looks looks = busy_looks(input, seen);
        double chance = group->busy_chance;
        double share = input->wall_ns > 0 ? (double)(core->iowait_ns - IDLE_SLACK_NS) / (double)input->wall_ns : 0;
        if (chance < 1)
                looks.all -= looks.all < input->carried ? looks.all : input->carried;
        if (looks.all == 0 || share <= 0)
                return chance;
        double met = chance_met(share, false), rate = (double)(looks.met < looks.all ? looks.met : looks.all) / (double)looks.all;
        if (rate * 2 > met)
                return 1;
        for (unsigned i = 0; i < looks.all && chance > CHANCE_MOST / 1000; i++)
                chance *= i < looks.met ? met / rate : (1 - met) / (1 - rate);
        return chance < 1 ? chance : 1;
}

/* Nobody of unknown intent waits in a completion queue of this core, and somebody counted moves. */
static bool is_busy(const struct group *group)
{
        return group->busy > group->uncounted && group->busy == group->moving && group->positive + group->unchanged == group->parked;
}

void busy_mark(const struct iowait_input *input, const struct iowait_core *core, const struct group *group, const struct iowait_seen *seen)
{
        double chance = is_busy(group) ? busy_chance(input, core, group, seen) : 1;
        for (size_t i = 0; i < input->witness_count; i++) {
                struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu == core->cpu && (!witness->parked || witness->seen_only))
                        witness->chance = chance;
        }
}

bool busy_split(const struct iowait_input *input, const struct iowait_core *core, const struct group *group, const struct iowait_seen *seen,
        struct iowait_parts *parts)
{
        struct looks looks = busy_looks(input, seen);
        int64_t iowait = most(0, core->iowait_ns);
        if (!is_busy(group) || input->bound_void || group->busy_chance > CHANCE_MOST || looks.all < SAMPLES_LEAST || iowait == 0)
                return false;
        /* What looks can have missed: others on the core, and requests of their own between two looks at their rings. */
        bool weak = group->busy_weak || group->unchanged > 0;
        double others = largest_share(looks), own = weak ? 0 : largest_share((struct looks){group->ring_looks, 0});
        bool few = (double)looks.met <= MET_FEW * (double)looks.all;
        int64_t real = (int64_t)((others + own < 1 ? others + own : 1) * (double)input->wall_ns);
        int64_t met = (int64_t)((few ? (double)looks.met / (double)looks.all : others) * (double)input->wall_ns);
        int64_t open = parts->disk_max; /* min(I, B) */

        bool rounding = open > 0 && iowait - open <= IDLE_SLACK_NS;
        if (weak && (input->in_flight || open > input->wall_ns / WEAK_PART || rounding))
                return false;
        if (!weak)
                parts->disk_max = least(open, real);
        parts->disk = parts->disk_max;
        parts->other = looks.met ? most(0, least(iowait, met) - parts->disk) : 0;
        parts->uring = iowait - parts->disk - parts->other;
        parts->uring_min = most(0, iowait - (weak ? open : 0) - real);
        parts->uring_max = iowait;
        parts->level = IOWAIT_SEEN;
        for (size_t i = 0; i < input->witness_count; i++) {
                struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu == core->cpu && (!witness->parked || witness->seen_only))
                        witness->verdict = witness->asleep >= BUSY_LOOKS && witness->counted * 2 < witness->asleep ? 1 : 4;
        }
        return true;
}

/* ---- D state ------------------------------------------------------------------------------------------------------------------------ */

void waits_split(const struct iowait_input *input, size_t i, const struct iowait_seen *seen, struct iowait_parts *parts)
{
        int64_t iowait = most(0, input->cores[i].iowait_ns);
        unsigned all = input->samples > seen->running ? input->samples - seen->running : 0;
        unsigned met = seen->d_state > seen->elsewhere ? seen->d_state - seen->elsewhere : 0;
        if (input->bound_void || iowait == 0)
                return;
        if (input->delay_ns && input->delay_ns[i] >= 0) {
                struct looks old = {all + input->unresolved, seen->undelayed + input->unresolved};
                double share = input->delay_all ? 0 : largest_share(old);
                parts->disk_max = least(parts->disk_max, input->delay_ns[i] + (int64_t)(share * (double)input->wall_ns));
        }
        /* Who waits here waits for no device: then a device can have had no more of it than the looks may have missed. */
        struct looks looks = {all + input->unresolved, met + input->unresolved};
        if (seen->elsewhere >= SAMPLES_LEAST && seen->elsewhere > 3 * met && largest_share(looks) < 1) {
                parts->disk_max = least(parts->disk_max, (int64_t)(largest_share(looks) * (double)input->wall_ns));
                parts->disk = met + input->unresolved ? parts->disk_max : 0;
                parts->level = IOWAIT_SEEN;
        }
        parts->disk = least(parts->disk, parts->disk_max);
        parts->other = iowait - parts->disk - parts->uring;
}

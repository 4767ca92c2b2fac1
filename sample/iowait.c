/*
 * The split of one tick's iowait into disk, uring and other.
 *
 * What it guarantees: the three parts are never negative and add up to what /proc/stat showed; a part is called uring only when a thread
 * is proved to have slept in io_uring for the whole interval, proved to be the one the kernel counts, and nothing of its own can have been
 * on storage. Whatever is less than proved stays disk (up to the ceiling) or other.
 *
 * Why it can be proved from /proc alone: a task's in_iowait mark is set before it sleeps and cleared after it ran again
 * (kernel/sched/core.c, io_uring/io_uring.c), and the run queue's count belongs to the core where it went to sleep. So while a marked
 * thread sleeps on a core, that core cannot add to idle, only to iowait; a core that did go idle proves that nobody who slept through was
 * marked. That drops waiters for whom another thread submits, SQPOLL, and IORING_ENTER_NO_IOWAIT without knowing anything about them.
 */
#include "sample/iowait_own.h"

#include <math.h>

/* R1: a core that waits for a block device has an accounted request open somewhere, so no core waited longer than all requests of all
 * devices together were open. A request still open was never added to the counters: then the whole interval is possible. */
static int64_t device_ceiling(const struct iowait_input *input)
{
        if (input->bound_void || input->in_flight)
                return input->wall_ns;
        int64_t ceiling = most(0, input->device_ns) + COUNTER_SLACK_NS * (int64_t)input->device_counters + most(0, input->skew_ns);
        return least(most(0, input->wall_ns), ceiling);
}

/* Ring counters that did not move say that the same requests were pending all the time. One on a device would have been in flight all the
 * time: so when for half of a long interval, its ends included, no request of any owner was in flight, none was there. (Not for short
 * intervals: between two steps of one synchronous write there are gaps of some 100 us.) */
static bool is_mostly_quiet(const struct iowait_input *input)
{
        return !input->bound_void && !input->in_flight && !input->in_flight_start && input->wall_ns >= LONG_NS &&
                device_ceiling(input) <= input->wall_ns / 2;
}

static bool is_positive(const struct iowait_input *input, const struct iowait_witness *witness)
{
        return witness->ring == RING_NO_STORAGE || (witness->ring == RING_UNCHANGED && (input->quiet || is_mostly_quiet(input)));
}

bool iowait_positive(const struct iowait_input *input, const struct iowait_witness *witness)
{
        return is_positive(input, witness);
}

/* R3, first half: who slept through while its core went idle is not counted as iowait, in this sleep. */
static void refute(struct iowait_witness *witness, int64_t idle_ns)
{
        if (idle_ns + most(0, witness->idle_before_ns) > IDLE_SLACK_NS)
                witness->refuted = true;
        if (witness->refuted)
                witness->marked = false;
}

static double known_chance(const struct iowait_witness *witness)
{
        return witness->chance > 0 && witness->chance < 1 ? witness->chance : 1;
}

static struct group gather(const struct iowait_input *input, const struct iowait_core *core)
{
        struct group group = {.cpu = core->cpu, .marked = true};
        int64_t idle = most(0, core->idle_ns);
        for (size_t i = 0; i < input->witness_count; i++) {
                struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu != core->cpu)
                        continue;
                if (!witness->parked || witness->seen_only) {
                        busy_gather(&group, witness);
                        continue;
                }
                refute(witness, idle);
                witness->verdict = witness->refuted ? 1 : 3;
                if (witness->refuted)
                        continue;
                group.parked++;
                group.single = witness;
                group.iowait_before_ns = most(group.iowait_before_ns, witness->iowait_before_ns);
                if (group.parked == 1 || witness->blocked_no_d_before < group.blocked_no_d_before)
                        group.blocked_no_d_before = witness->blocked_no_d_before;
                if (group.chance < known_chance(witness))
                        group.chance = known_chance(witness);
                group.marked = group.marked && witness->marked;
                if (witness->ring == RING_STORAGE) {
                        group.storage++;
                        witness->verdict = 5;
                } else if (is_positive(input, witness)) {
                        group.positive++;
                        group.weak = group.weak || (witness->ring == RING_UNCHANGED && !input->quiet);
                        group.marked_positive = group.marked_positive || witness->marked;
                } else if (witness->ring == RING_UNCHANGED) {
                        group.unchanged++;
                }
        }
        return group;
}

static struct iowait_seen seen_on(const struct iowait_input *input, unsigned cpu)
{
        for (size_t i = 0; i < input->seen_count; i++)
                if (input->seen[i].cpu == cpu)
                        return input->seen[i];
        return (struct iowait_seen){.cpu = cpu};
}

/* Threads that are in a completion-queue wait most of the time, and may be counted then. */
static uint64_t moving_everywhere(const struct iowait_input *input)
{
        uint64_t count = 0;
        for (size_t i = 0; i < input->witness_count; i++) {
                const struct iowait_witness *witness = &input->witnesses[i];
                bool again = i > 0 && input->witnesses[i - 1].tid == witness->tid; /* one thread, on several cores */
                count += (!witness->parked || witness->seen_only) && !again;
        }
        return count;
}

static uint64_t parked_everywhere(const struct iowait_input *input)
{
        uint64_t count = 0;
        for (size_t i = 0; i < input->witness_count; i++)
                count += input->witnesses[i].parked && !input->witnesses[i].seen_only && !input->witnesses[i].refuted;
        return count;
}

/* The same number was counted at all reads. */
static bool is_steady(const struct iowait_input *input)
{
        for (size_t i = 1; i < input->read_count; i++)
                if (input->reads[i].blocked != input->reads[0].blocked)
                        return false;
        return input->read_count >= 2;
}

/* A core's iowait comes only from sleepers whose processor it is. If none of the parked were counted, others made it, asleep in D state on
 * this core for at least the share of iowait in the time. Each sub-sample would have met one with that chance. How much likelier is what
 * was met if they are counted? (The likelihood ratio; below CHANCE_MOST the other story is dropped. Such tests may go on for a whole sleep:
 * the ratio falls so low by chance at most that often, however long one looks.)
 * Several who take turns are missed more often (iowait_busy.c); but then their number changes too, and so would procs_blocked.
 * A sub-sample that found a runnable thread on the core, and nobody in D state, says nothing: who waited may have been woken just then, and
 * kept from running by the one who looks. Nor does any when others of the core wait in a completion queue: they sleep in S. */
static double chance_missed(const struct iowait_input *input, const struct iowait_core *core, const struct group *group,
        const struct iowait_seen *seen)
{
        double share = input->wall_ns > 0 ? (double)(core->iowait_ns - IDLE_SLACK_NS) / (double)input->wall_ns : 0;
        unsigned looks = input->samples > seen->running ? input->samples - seen->running : 0;
        if (group->moving > 0)
                return 1;
        double chance = group->chance;
        if (chance < 1) /* not the same one twice */
                looks -= looks < input->carried ? looks : input->carried;
        if (looks == 0 || share <= 0)
                return seen->d_state > 0 ? 1 : chance;
        unsigned met = seen->d_state < looks ? seen->d_state : looks;
        double rate = (double)met / (double)looks, likely = chance_met(share, is_steady(input));
        if (rate * 2 > likely)
                return 1;
        for (unsigned i = 0; i < looks && chance > CHANCE_MOST / 1000; i++)
                chance *= i < met ? likely / rate : (1 - likely) / (1 - rate);
        return chance < 1 ? chance : 1;
}

static uint64_t lowest_read(const struct iowait_input *input)
{
        uint64_t lowest = UINT64_MAX;
        for (size_t i = 0; i < input->read_count; i++)
                if (input->reads[i].blocked < lowest)
                        lowest = input->reads[i].blocked;
        return lowest;
}

/* Every read of procs_blocked had room for one more than are known to be counted. */
static bool has_room(const struct iowait_input *input)
{
        uint64_t marked = 0;
        for (size_t i = 0; i < input->witness_count; i++)
                marked += input->witnesses[i].parked && input->witnesses[i].marked && !input->witnesses[i].refuted;
        return lowest_read(input) > marked;
}

/* R3, second half: are the parked threads of this core what the kernel counts? Four ways to know, each enough: known from earlier in the
 * same sleep; as many were counted as are parked and no task anywhere was in D state, several times and never otherwise; procs_blocked had
 * room for all of them beside all D-state tasks; a D-state waiter that made this iowait would have been seen on this core, whatever happens
 * on others. */
static bool confirmed(const struct iowait_input *input, const struct iowait_core *core, const struct group *group)
{
        if (group->parked == 0)
                return false;
        if (group->marked)
                return true;
        int64_t iowait = most(0, core->iowait_ns);
        if (iowait + group->iowait_before_ns < IOWAIT_LEAST_NS || iowait == 0)
                return false;
        unsigned enough = is_steady(input) ? SAMPLES_LEAST : SAMPLES_SURE;
        uint64_t waiters = parked_everywhere(input) + moving_everywhere(input);
        if (input->blocked_no_d + group->blocked_no_d_before >= enough && input->d_sum == 0 &&
            input->blocked_sum >= waiters * input->samples)
                return true;
        if (input->samples >= enough &&
            input->blocked_sum + input->samples / 8 >= waiters * input->samples + input->d_sum)
                return true;
        return group->chance <= CHANCE_MOST && has_room(input);
}

/* What this interval adds to the chance, for the next one. */
static void keep_chance(const struct iowait_input *input, unsigned cpu, double chance)
{
        for (size_t i = 0; i < input->witness_count; i++) {
                struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu == cpu && witness->parked && !witness->seen_only)
                        witness->chance = witness->refuted ? 1 : chance;
        }
}

/* Sub-samples: who else may be counted on this core. Not usable while others of the core wait in a completion queue for what is not
 * known: they sleep in S and may wait for storage. */
static struct looks looks_at_core(const struct iowait_input *input, const struct group *group, const struct iowait_seen *seen)
{
        unsigned all = input->samples > seen->running ? input->samples - seen->running : 0;
        if (group->moving > group->busy || group->busy_weak)
                return (struct looks){0, 0};
        return (struct looks){all + input->unresolved, seen->d_state + input->unresolved};
}

/* Reads of procs_blocked: when all who sleep through are known to be counted, whoever is counted beyond them is somebody else, on whatever
 * core. A read below their number belies that: then nothing is concluded. Reads made on the core in question do not count: the one who
 * reads keeps the waiter that was just woken there from running on to its next wait (measured: a reader in D state for 60% of the time was
 * met by 1 of 11 such reads). */
static struct looks looks_at_count(const struct iowait_input *input, unsigned cpu)
{
        struct looks looks = {0, 0};
        uint64_t marked = 0;
        for (size_t i = 0; i < input->witness_count; i++) {
                const struct iowait_witness *witness = &input->witnesses[i];
                if (!witness->parked || witness->seen_only || witness->refuted)
                        continue;
                if (!witness->marked)
                        return looks;
                marked++;
        }
        for (size_t i = 0; lowest_read(input) >= marked && i < input->read_count; i++) {
                const struct iowait_read *read = &input->reads[i];
                if (read->cpu == -1 || read->cpu == (int)cpu)
                        continue;
                looks.all++;
                looks.met += read->blocked > marked;
        }
        return looks;
}

/* What the looks say of others who may be counted on the core beside its parked threads. */
struct beside {
        double most;         /* of the time, at most so much */
        double shown;        /* best guess; 1 = not known, or often */
        double doubt;        /* it may be off by so much: two standard errors of a share met in so few looks */
        bool nobody, known;
};

static struct beside others_beside(const struct iowait_input *input, const struct group *group, const struct iowait_seen *seen)
{
        struct looks core = looks_at_core(input, group, seen), count = looks_at_count(input, group->cpu);
        struct looks best = core.all < SAMPLES_LEAST || largest_share(count) < largest_share(core) ? count : core;
        struct beside beside = {.most = largest_share(best), .shown = 1};
        beside.known = best.all >= SAMPLES_LEAST;
        beside.nobody = (core.all >= SAMPLES_LEAST && core.met == 0) || (count.all >= SAMPLES_LEAST && count.met == 0);
        if (beside.known && (double)best.met <= MET_FEW * (double)best.all)
                beside.shown = (double)best.met / (double)best.all;
        beside.doubt = beside.known && beside.shown < 1 ? 2 * sqrt(beside.shown * (1 - beside.shown) / (double)best.all) : 0;
        return beside;
}

/* With a proved idle reactor on the core, its whole iowait is covered; a real waiter can only have been there beside it. Looks in the
 * interval say for how much of it: that is disk as far as devices had requests open, and other beyond (a file server, throttling). When
 * there are too few, and somebody was met who may wait for storage, all of it may be his. */
static void split_parked(const struct iowait_input *input, int64_t iowait, const struct group *group, const struct iowait_seen *seen,
        struct iowait_parts *parts)
{
        bool idle = group->positive == group->parked && !group->weak;
        struct beside beside = idle ? others_beside(input, group, seen) : (struct beside){.most = 1, .shown = 1};
        int64_t longest = (int64_t)(beside.most * (double)input->wall_ns), guess = (int64_t)(beside.shown * (double)input->wall_ns);

        parts->disk_max = least(parts->disk_max, longest);
        parts->disk = beside.nobody ? 0 : least(parts->disk_max, guess);
        parts->other = 0;
        bool blind = !beside.known && (group->moving > group->busy || seen->d_state > 0);
        if ((beside.known && !beside.nobody) || blind)
                parts->other = most(0, least(iowait, beside.shown < 1 ? guess : longest) - parts->disk);
        parts->uring = iowait - parts->disk - parts->other;
        parts->uring_min = !idle ? 0 : most(0, iowait - most(parts->disk_max, longest));
        parts->uring_max = iowait;
        /* Others were met often, or move, and for what they wait is not known: what is theirs may be far less. */
        bool unsure = !beside.nobody && (beside.shown >= 1 || group->moving > group->busy);
        bool guessed = unsure && parts->disk + parts->other > input->wall_ns / 20;
        /* Of ten looks two instead of one: twenty points. Such a share is shown, but nothing proves it. */
        guessed |= !beside.nobody && least(iowait, (int64_t)(beside.doubt * (double)input->wall_ns)) > input->wall_ns / 10;
        parts->level = blind || guessed ? IOWAIT_BOUND : IOWAIT_PARKED;
}

/* Time of idle reactors at most. Whole passes that met nobody in a completion queue of this core say how little of it one was there: one
 * that parks, or ends, between two of them was not met. */
static int64_t uring_ceiling(const struct iowait_input *input, const struct iowait_core *core, const struct group *group,
        const struct iowait_seen *seen)
{
        int64_t iowait = most(0, core->iowait_ns);
        if (!input->threads_seen || group->parked + group->moving + seen->waiting > 0)
                return iowait;
        struct looks looks = {input->full > seen->running ? input->full - seen->running : 0, 0};
        return least(iowait, (int64_t)(largest_share(looks) * (double)input->wall_ns));
}


/* Each of the parked, everywhere: no read of procs_blocked was below their number, it had room for all of them beside all D-state tasks,
 * and nobody else can be counted. Says nothing of cores, so it holds on a machine too busy to show any iowait. */
static bool all_counted(const struct iowait_input *input)
{
        uint64_t parked = parked_everywhere(input);
        for (size_t i = 0; i < input->witness_count; i++)
                if (!input->witnesses[i].parked || input->witnesses[i].seen_only)
                        return false;
        return parked > 0 && input->read_count >= SAMPLES_LEAST && lowest_read(input) >= parked &&
                input->samples >= (is_steady(input) ? SAMPLES_LEAST : SAMPLES_SURE) &&
                input->blocked_sum >= parked * input->samples + input->d_sum;
}

static void mark_all(const struct iowait_input *input)
{
        for (size_t i = 0; i < input->witness_count; i++)
                input->witnesses[i].marked = !input->witnesses[i].refuted;
}

/* First pass: who is refuted, who is known to be counted. */
static void mark_core(const struct iowait_input *input, const struct iowait_core *core)
{
        struct group group = gather(input, core);
        struct iowait_seen seen = seen_on(input, core->cpu);
        group.chance = chance_missed(input, core, &group, &seen);
        keep_chance(input, core->cpu, group.chance);
        busy_mark(input, core, &group, &seen);
        if (group.parked == 1)
                group.single->marked = confirmed(input, core, &group);
}

static void split_core(const struct iowait_input *input, const struct iowait_core *core, struct iowait_parts *parts)
{
        *parts = (struct iowait_parts){.level = IOWAIT_NONE};
        if (!core->valid)
                return;
        struct group group = gather(input, core);
        struct iowait_seen seen = seen_on(input, core->cpu);
        int64_t iowait = most(0, core->iowait_ns);

        parts->taken_back = most(0, -core->iowait_ns);
        parts->disk = parts->disk_max = least(iowait, device_ceiling(input));
        parts->other = iowait - parts->disk;
        parts->uring_max = uring_ceiling(input, core, &group, &seen);
        parts->level = input->bound_void ? IOWAIT_NONE : IOWAIT_BOUND;

        bool sure = confirmed(input, core, &group);
        bool covered = group.storage == 0 && (group.marked_positive || (sure && group.positive == group.parked));
        if (group.moving > 0 && busy_split(input, core, &group, &seen, parts))
                return;
        if (covered)
                split_parked(input, iowait, &group, &seen, parts);
        else if (group.storage > 0 && sure && !input->bound_void)
                parts->level = IOWAIT_PARKED; /* it really waits: for a device as far as devices had requests open, else for what is none */
        else if (group.parked + group.moving == 0 && (input->threads_seen || input->full > 0))
                waits_split(input, (size_t)(core - input->cores), &seen, parts);
        if (!covered)
                return;
        for (size_t i = 0; i < input->witness_count; i++) {
                struct iowait_witness *witness = &input->witnesses[i];
                if (witness->cpu == core->cpu && witness->verdict == 3 && is_positive(input, witness))
                        witness->verdict = 4;
        }
}

void iowait_split(const struct iowait_input *input, struct iowait_parts *parts)
{
        for (size_t i = 0; i < input->witness_count; i++)
                input->witnesses[i].verdict = input->witnesses[i].parked ? 3 : 2;
        /* Refuted ones are told apart first: they must not take part in the count of procs_blocked on any core. */
        for (size_t i = 0; i < input->core_count; i++)
                if (input->cores[i].valid)
                        gather(input, &input->cores[i]);
        if (all_counted(input))
                mark_all(input);
        for (size_t i = 0; i < input->core_count; i++)
                if (input->cores[i].valid)
                        mark_core(input, &input->cores[i]);
        for (size_t i = 0; i < input->core_count; i++) {
                split_core(input, &input->cores[i], &parts[i]);
                if (input->cores[i].valid && input->exact && input->exact[i].valid)
                        iowait_split_exact(input, i, device_ceiling(input), &parts[i]);
        }
}

const char *iowait_level_name(enum iowait_level level)
{
        switch (level) {
        case IOWAIT_EXACT: return "exact";
        case IOWAIT_PARKED: return "parked";
        case IOWAIT_SEEN: return "seen";
        case IOWAIT_BOUND: return "bound";
        case IOWAIT_NONE: break;
        }
        return "none";
}

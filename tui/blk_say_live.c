/*
 * watop blk for people, what only a tracer knows: who waited and behind whom, the calls that wait for data, what tracing cost and lost, and
 * each slow call or bio as it ends.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/stage_stream.h"
#include "tui/blk.h"
#include "tui/blk_system.h"

enum { LABEL = 30, LABEL_MOST = 40, CALLS = 20 };

static const char *name_of(const struct blk_report *report, uint32_t tgid)
{
        const char *name = blk_names_get(blk_calls_names(report->live->calls), tgid, NULL);

        return name[0] ? blk_shown(report, name, 15) : "-";
}

/* ---- the verdict -------------------------------------------------------------------------------------------------------------------- */

static const struct { const char *verdict, *rest; } verdicts[SYNC_PARTS] = {
        [CAUSE_TAG] = {"WAITING FOR A TAG, NOT FOR THE DISK.", "waited for a free request"},
        [CAUSE_PLUG] = {"MERGING AND PLUGGING, NOT THE DISK.", "was held back to be merged"},
        [CAUSE_QUEUE] = {"IN THE QUEUE, NOT THE DISK.", "waited in the scheduler's queue"},
        [CAUSE_REFUSED] = {"THE DRIVER REFUSES REQUESTS.", "waited for a device whose own queue was full"},
        [CAUSE_DISK] = {"THE DISK ITSELF.", "the device had it"},
        [CAUSE_FLUSH] = {"FLUSHING THE WRITE CACHE.", "the device's write cache was being flushed"},
        [CAUSE_DRIVER] = {"IN A DRIVER THAT TAKES BIOS.", "a driver without requests (zram, dm, md) had it"},
        [CAUSE_OTHER] = {"NOT A DISK.",
                "nothing of it was open on a disk: waiting for a core, computing, locks, a cgroup's I/O limit, others' commits"},
        [SYNC_JOURNAL] = {"THE JOURNAL.", "the file system's journal was being written"},
};

const struct blk_waiter *blk_find_victim(const struct blk_report *report, struct blk_judgement *judgement)
{
        const struct blk_waiter *victim = blk_calls_victim(report->live->calls);

        if (victim)
                blk_judge(report->live->calls, victim, judgement);
        return victim;
}

const char *blk_judged(const struct blk_judgement *judgement)
{
        if (judgement->added && (judgement->both || judgement->cause == CAUSE_FLUSH))
                return judgement->both ? "THE DISK AND ITS FLUSH." : "THE DISK'S FLUSH.";
        return judgement->cause >= 0 ? verdicts[judgement->cause].verdict : judgement->cause == BLK_MIXED ? "MIXED." : "NOTHING WAITED.";
}

/* "fio[11690-11693]" */
static void put_culprit(const struct blk_report *report, const struct blk_judgement *judgement)
{
        FILE *out = report->out;

        if (judgement->itself) {
                fprintf(out, "its own requests");
                return;
        }
        fprintf(out, "%s[%" PRIu32, judgement->culprit[0] ? blk_shown(report, judgement->culprit, 15) : "-", judgement->first);
        if (judgement->processes > 1)
                fprintf(out, "-%" PRIu32, judgement->last);
        fprintf(out, "]");
}

/* "tag 1.000 + disk 2.000 + journal 3.000 (tag 91%)": ms, and what most of the journal's time was. */
static void put_sum(FILE *out, const char *before, const uint64_t part[SYNC_PARTS], const uint64_t journal[CAUSE_COUNT], double count)
{
        int most = 0;

        for (int i = 0; i < SYNC_PARTS; i++)
                if (part[i]) {
                        fprintf(out, "%s%s %.3f", before, sync_part_name(i), (double)part[i] / count / 1e6);
                        before = " + ";
                }
        for (int i = 1; i < CAUSE_COUNT; i++)
                if (journal[i] > journal[most])
                        most = i;
        if (part[SYNC_JOURNAL] && journal[most])
                fprintf(out, " (%s %.0f%%)", stage_cause_name((enum stage_cause)most),
                        100 * (double)journal[most] / (double)part[SYNC_JOURNAL]);
        fprintf(out, "\n");
}

/* "the device had it: disk 40%, flush 35%, journal 10%": as the columns have them; the journal's is what these two had of it. */
static void put_device_parts(FILE *out, const struct blk_waiter *victim, const struct blk_judgement *judgement)
{
        const double total = (double)victim->total;

        fprintf(out, "the device had it: disk %.0f%%, flush %.0f%%", 100 * (double)victim->part[CAUSE_DISK] / total,
                100 * (double)victim->part[CAUSE_FLUSH] / total);
        if (judgement->through_journal >= 0.01)
                fprintf(out, ", both in the journal %.0f%%", judgement->through_journal * 100);
}

static void put_verdict(const struct blk_report *report)
{
        FILE *out = report->out;
        struct blk_judgement judgement;
        const struct blk_waiter *victim = blk_find_victim(report, &judgement);

        if (victim == NULL || judgement.cause == BLK_NONE)
                return;
        bool front = judgement.cause == CAUSE_TAG || judgement.cause == CAUSE_QUEUE || judgement.cause == CAUSE_REFUSED;
        fprintf(out, "%s ", blk_judged(&judgement));
        const char *what = victim->calls ? sync_call_name(victim->call) : "I/O", *name = name_of(report, victim->tgid);
        if (front && judgement.behind >= 0.005) {
                fprintf(out, "%.0f%% of %s's %s time it waited behind ", judgement.behind * 100, name, what);
                put_culprit(report, &judgement);
        } else if (judgement.cause == BLK_MIXED) {
                fprintf(out, "No cause has half of %s's %s time", name, what);
        } else {
                fprintf(out, "%.0f%% of %s's %s time ", judgement.share * 100, name, what);
                if (judgement.added)
                        put_device_parts(out, victim, &judgement);
                else
                        fprintf(out, "%s", verdicts[judgement.cause].rest);
        }
        if (judgement.through_journal >= 0.01 && !judgement.added)
                fprintf(out, " (%.0f%% in the journal)", judgement.through_journal * 100);
        fprintf(out, ".\n");
        uint64_t count = victim->calls ? victim->calls : victim->bios;
        fprintf(out, "%s[%" PRIu32 "] %.3f ms on average", name, victim->tgid, (double)victim->total / (double)count / 1e6);
        put_sum(out, " = ", victim->part, victim->journal, (double)count);
        if (victim->unknown)
                fprintf(out, "note: of %" PRIu64 " of them it is not known whole who was in front\n", victim->unknown);
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------------- */

static int label_of(const struct blk_report *report, const struct blk_call *call, char *label, size_t size)
{
        return snprintf(label, size, "%7" PRIu32 " %s %s", call->tgid, name_of(report, call->tgid), sync_call_name(call->call));
}

static void put_times(const struct blk_report *report, const struct blk_call *call, int width, int decimals)
{
        char label[96];
        const struct histogram *time = &call->time;
        const double values[] = {histogram_mean(time), histogram_quantile(time, 0.5), histogram_quantile(time, 0.95),
                histogram_quantile(time, 0.99), (double)time->max};

        label_of(report, call, label, sizeof label);
        fprintf(report->out, "%-*s %6" PRIu64, width, label, time->count);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
                fprintf(report->out, " %7.*f", decimals, values[i] / 1e6);
        if (call->errors)
                fprintf(report->out, "  %" PRIu64 " failed", call->errors);
        fprintf(report->out, "\n");
}

static void put_parts(const struct blk_report *report, const struct blk_call *call, int width, const uint64_t *all)
{
        char label[96];
        int tenths[SYNC_PARTS];

        label_of(report, call, label, sizeof label);
        fprintf(report->out, "%-*s", width, label);
        blk_tenths(call->part, SYNC_PARTS, tenths);
        for (int i = 0; i < SYNC_PARTS; i++)
                if (all[i]) {
                        size_t head = strlen(sync_part_name(i));
                        fprintf(report->out, " %*d.%d", head < 5 ? 3 : (int)head - 2, tenths[i] / 10, tenths[i] % 10);
                }
        if (call->longest.file[0])
                fprintf(report->out, "  %s", blk_shown(report, call->longest.file, 40));
        fprintf(report->out, "\n");
}

static void put_calls(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct blk_calls *calls = report->live->calls;
        uint64_t all[SYNC_PARTS] = {0}, longest = 0, total = 0;
        char label[96];
        int width = LABEL;
        size_t count = blk_calls_count(calls), shown = count < CALLS ? count : CALLS;

        if (count == 0) {
                if (report->live->calls_traced && report->process == NULL)
                        fprintf(out, "no fsync, fdatasync, msync, sync or O_SYNC write ended\n");
                return;
        }
        for (size_t i = 0; i < shown; i++) {
                const struct blk_call *call = blk_calls_get(calls, i);
                int length = label_of(report, call, label, sizeof label);
                width = length > width ? length < LABEL_MOST ? length : LABEL_MOST : width;
                longest = call->time.max > longest ? call->time.max : longest;
                for (int k = 0; k < SYNC_PARTS; k++)
                        all[k] += call->part[k];
                total += call->time.total;
        }
        for (int k = 0; k < SYNC_PARTS; k++) /* what is 0.0 everywhere takes no column */
                all[k] = all[k] > total / 2000 ? all[k] : 0;
        fprintf(out, "\n%-*s %6s %7s %7s %7s %7s %7s\n", width, "    PID Command call (ms)", "N", "AVG", "p50", "p95", "p99", "MAX");
        for (size_t i = 0; i < shown; i++)
                put_times(report, blk_calls_get(calls, i), width,
                        longest < UINT64_C(1000000000) ? 3 : longest < UINT64_C(100000000000) ? 1 : 0);
        fprintf(out, "%-*s", width, "    where their time went, %");
        for (int i = 0; i < SYNC_PARTS; i++)
                if (all[i])
                        fprintf(out, " %5s", sync_part_name(i));
        fprintf(out, "  file\n");
        for (size_t i = 0; i < shown; i++)
                put_parts(report, blk_calls_get(calls, i), width, all);
        if (count > shown)
                fprintf(out, "        ... and others: --format json has them all\n");
}

/* ---- above and below ---------------------------------------------------------------------------------------------------------------- */

static const char *source_name(uint32_t source)
{
        return source == STREAM_BPF ? "BPF" : source == STREAM_TRACEFS ? "tracefs" : "nothing";
}

static double share_of(const struct blk_report *report, uint64_t ns)
{
        return report->last > report->start ? 100 * (double)ns / (double)(report->last - report->start) : 0;
}

/* "sda: oldest open: write of fio[123], 12.3 s, with the device" */
static void put_open(const struct blk_report *report, const struct blk_open *open)
{
        const struct stage_record *bio = &open->record;
        enum stage_direction direction = bio->direction < STAGE_DIRECTIONS ? (enum stage_direction)bio->direction : STAGE_ELSE;
        char text[64];

        if (!blk_still_open(report, open))
                return;
        fprintf(report->out, "%s: oldest open: %s of %s[%" PRIu32 "], %.1f s, %s\n",
                blk_shown(report, blk_device_text(report, bio->device, text, sizeof text), 40), stage_direction_name(direction),
                name_of(report, bio->tid), bio->tid, report->last > bio->bio.q ? (double)(report->last - bio->bio.q) / 1e9 : 0,
                blk_open_words(blk_open_where(bio)));
}

void blk_say_head(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct blk_live *live = report->live;

        fprintf(out, "%.1f s traced by %s; watopd %.1f%%, watop %.1f%% of a core", report->last > report->start ?
                (double)(report->last - report->start) / 1e9 : 0, source_name(live->source), share_of(report, live->daemon_ns),
                share_of(report, live->own_ns));
        if (live->run_count)
                fprintf(out, ", in the kernel %.1f%%", share_of(report, live->run_ns));
        fprintf(out, "\n");
        for (size_t i = 0; i < live->stucks; i++) {
                char text[64];
                fprintf(out, "%s: %" PRIu64 " in flight, and nothing has ended there for %.1f s\n", blk_shown(report,
                        blk_device_text(report, live->stuck[i].device, text, sizeof text), 40), live->stuck[i].inflight,
                        report->last > live->stuck[i].since ? (double)(report->last - live->stuck[i].since) / 1e9 : 0);
        }
        for (size_t i = 0; i < live->opens; i++)
                put_open(report, &live->open[i]);
        put_verdict(report);
        put_calls(report);
}

static void put_writeback(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct blk_live *live = report->live;

        struct blk_writeback others = {.cgroup = 0};
        bool told = false;

        for (size_t i = 0; i < live->writebacks; i++) {
                const struct blk_writeback *group = &live->writeback[i];
                char path[512];
                if (group->cgroup == 0) {
                        others.bios += group->bios;
                        others.bytes += group->bytes;
                        continue;
                }
                told = true;
                fprintf(out, "writeback of control group ");
                if (blk_cgroup_path(group->cgroup, path, sizeof path))
                        fprintf(out, "%s", blk_shown(report, path, 60));
                else
                        fprintf(out, "with inode %" PRIu64, group->cgroup);
                fprintf(out, ": %" PRIu64 " bios, %.0f kB\n", group->bios, (double)group->bytes / 1024);
        }
        if (told && others.bios + others.bytes) /* else it is told by nobody's name: that no group is known says nothing */
                fprintf(out, "writeback of others: %" PRIu64 " bios, %.0f kB\n", others.bios, (double)others.bytes / 1024);
}

void blk_say_cost(const struct blk_report *report)
{
        FILE *out = report->out;
        const struct blk_live *live = report->live;
        const struct { uint64_t count; const char *text; } notes[] = {
                {live->lost, "events or records were lost between kernel and watopd: sums are too small"},
                {live->overrun, "records came faster than they could be read here: sums are too small"},
                {live->crowded, "bios were beyond the tracer's table and are not counted"},
                {live->early_calls, "calls began before tracing did and are left out"},
                {live->dark_ns / 1000000, "ms in which watopd did not trace (watopd --check says what is missing)"},
                {live->spoilt_calls, "calls were so many that their bios were forgotten: other is too large"},
                {blk_calls_crowded(live->calls), "calls or bios are of more processes than fit and are not in the calls"},
                {live->outages, "times watopd went away: meanwhile nothing was traced"},
        };

        put_writeback(report);
        if (live->source == STREAM_TRACEFS)
                fprintf(out, "note: tracefs has no O_SYNC writes, no fsync on io_uring, no control groups, and not every file's name\n");
        for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
                if (notes[i].count)
                        fprintf(out, "note: %" PRIu64 " %s\n", notes[i].count, notes[i].text);
}

/* ---- as it happens ------------------------------------------------------------------------------------------------------------------ */

static void put_time(const struct blk_report *report, uint64_t mono)
{
        uint64_t real = mono + (uint64_t)report->live->real_offset;
        time_t seconds = (time_t)(real / 1000000000);
        struct tm tm;
        char text[16];

        if (localtime_r(&seconds, &tm) && strftime(text, sizeof text, "%H:%M:%S", &tm) > 0)
                fprintf(report->out, "%s.%03u", text, (unsigned)(real % 1000000000 / 1000000));
}

/* Who was there meanwhile, by how many of its bios were open on average. Processes of one name together. */
static void put_behind(const struct blk_report *report, const struct behind_answer *behind)
{
        struct blk_names *names = blk_calls_names(report->live->calls);
        struct blk_judgement group = {0};
        size_t count = behind->count < BEHIND_MOST ? behind->count : BEHIND_MOST;
        double most = 0;

        for (size_t i = 0; i < count; i++) {
                char name[RECORD_COMM];
                struct blk_judgement same = {0};
                double open = 0;
                snprintf(name, sizeof name, "%s", blk_names_get(names, behind->who[i].tgid, NULL));
                for (size_t k = 0; k < count; k++) {
                        uint32_t tgid = behind->who[k].tgid;
                        if (k != i && (name[0] == '\0' || strcmp(name, blk_names_get(names, tgid, NULL)) != 0))
                                continue;
                        open += behind->who[k].open;
                        same.first = same.processes == 0 || tgid < same.first ? tgid : same.first;
                        same.last = tgid > same.last ? tgid : same.last;
                        same.processes++;
                }
                if (open <= most)
                        continue;
                most = open;
                memcpy(same.culprit, name, sizeof same.culprit);
                group = same;
        }
        if (!(most >= 0.05)) /* next to nobody */
                return;
        fprintf(report->out, "   behind ");
        put_culprit(report, &group);
        fprintf(report->out, ": %.1f of %.1f bios open, %.1f its own%s\n", most, behind->open + behind->own, behind->own,
                behind->whole ? "" : " (not known whole)");
}

void blk_say_slow_call(const struct blk_report *report, const struct sync_done *done)
{
        FILE *out = report->out;
        const struct stage_record *record = done->record;
        char file[RECORD_FILE];

        snprintf(file, sizeof file, "%.*s", RECORD_FILE - 1, record->sync.file);
        put_time(report, record->sync.end);
        fprintf(out, " %s[%" PRIu32 "] %s %.3f ms", name_of(report, record->tid), record->tid,
                sync_call_name(record->sync.call < SYNC_CALLS ? (enum sync_call)record->sync.call : SYNC_ALL),
                (double)(record->sync.end - record->sync.start) / 1e6);
        if (file[0])
                fprintf(out, " %s", blk_shown(report, file, 55));
        if (record->sync.result < 0)
                fprintf(out, " (%s)", strerror(-record->sync.result));
        fprintf(out, "\n");
        put_sum(out, "   ", done->part, done->journal, 1);
        put_behind(report, &done->behind);
}

void blk_say_slow_bio(const struct blk_report *report, const struct stage_done *done, const struct behind_answer *behind)
{
        FILE *out = report->out;
        char device[64];
        const char *sign = "  ";

        put_time(report, done->c);
        fprintf(out, " %s[%" PRIu32 "] %s %.3f ms %s %" PRIu64 " + %" PRIu64 "\n ", name_of(report, done->row->process->pid),
                done->row->process->pid, stage_direction_name((enum stage_direction)done->row->direction),
                (double)done->stage[STAGE_Q2C] / 1e6, blk_shown(report, blk_device_text(report, done->row->device, device,
                sizeof device), 40), done->sector, done->sectors);
        for (int i = 0; i < CAUSE_COUNT; i++)
                if (done->cause[i]) {
                        fprintf(out, "%s%s %.3f", sign, stage_cause_name((enum stage_cause)i), (double)done->cause[i] / 1e6);
                        sign = " + ";
                }
        fprintf(out, "\n");
        put_behind(report, behind);
}

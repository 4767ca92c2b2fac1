/*
 * watop blk, live: the records of watopd's block tracer into the same sums that a recorded trace is put into, until the time is over or
 * Ctrl-C.
 *
 * watopd traces as long as we hold the lease, so tracing ends with us, however we end. Records are taken every 50 ms. With -p a second
 * set holds the bios of that process alone: a verdict rests on what it waited for itself. Whose bios were open meanwhile is asked a moment
 * after a bio or call has ended, when those that were open beside it have mostly ended, too.
 */
#include "tui/blk_live.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sample/control.h"
#include "tui/blk_system.h"
#include "tui/clean.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define ROUND_NS (50 * MS)
#define START_NS (5 * SECOND)
#define STUCK_NS SECOND

enum { ROUNDS = 64, SAMPLED = 10 /* bios a round of which it is asked who was in front, for -p */ };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
        (void)signal;
        interrupted = 1;
}

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static bool wanted(struct blk_run *run, uint32_t tid, uint32_t tgid)
{
        const struct blk_report *report = run->request->report;

        return report->process == NULL || blk_want_thread(report, tgid, blk_names_get(run->names, tgid, NULL)) ||
                (tid != tgid && blk_want_thread(report, tid, blk_names_get(run->names, tid, NULL)));
}

/* ---- bios and calls that have ended -------------------------------------------------------------------------------------------------- */

static void tell_bio(struct blk_run *run, const struct blk_late *late)
{
        const struct blk_report *report = run->request->report;
        struct behind_answer behind;

        behind_ask(run->behind, late->done.row->device, late->done.q, late->done.c, late->done.row->process->pid, &behind);
        if (late->sampled)
                blk_calls_add_front(run->calls, late->done.row->process->pid, late->done.cause, &behind);
        if (!late->slow)
                return;
        if (run->request->json)
                blk_json_slow_bio(report, &late->done, &behind);
        else
                blk_say_slow_bio(report, &late->done, &behind);
}

static void tell_late(struct blk_run *run, uint64_t drained)
{
        for (; run->late_count > 0; run->late_count--) {
                const struct blk_late *late = &run->late[run->late_first];
                if (drained != UINT64_MAX && late->done.c + SYNC_LATE_NS > drained)
                        return;
                tell_bio(run, late);
                run->late_first = (run->late_first + 1) % BLK_LATE;
        }
}

static void on_bio(void *own, const struct stage_done *done)
{
        struct blk_run *run = own;
        struct blk_late late = {.done = *done, .slow = run->request->slower && done->stage[STAGE_Q2C] >= run->request->slower};

        if (!blk_want_device(run->request->report, done->row->device))
                return;
        if (run->request->report->process) {
                blk_calls_add_bio(run->calls, done->row->process->pid, done->row->device, done->cause);
                late.sampled = run->bios++ % run->stride == 0;
        }
        if (!late.slow && !late.sampled)
                return;
        if (run->late_count == BLK_LATE) { /* the oldest is told now, with what is known */
                tell_bio(run, &run->late[run->late_first]);
                run->late_first = (run->late_first + 1) % BLK_LATE;
                run->late_count--;
        }
        run->late[(run->late_first + run->late_count++) % BLK_LATE] = late;
}

static void on_call(void *own, const struct sync_done *done)
{
        struct blk_run *run = own;
        const struct blk_report *report = run->request->report;
        const struct stage_record *record = done->record;
        uint32_t disk = done->disk ? done->disk : record->sync.disk;

        if (record->sync.end < record->sync.start || !wanted(run, record->tid, record->tgid) ||
            (report->device_count > 0 && !blk_want_device(report, disk)))
                return;
        if (record->sync.start < run->since) {
                run->live.early_calls++;
                return;
        }
        blk_calls_add(run->calls, done);
        if (run->request->slower == 0 || record->sync.end - record->sync.start < run->request->slower)
                return;
        if (run->request->json)
                blk_json_slow_call(report, done);
        else
                blk_say_slow_call(report, done);
}

/* ---- records ------------------------------------------------------------------------------------------------------------------------- */

static int feed_name(struct blk_run *run, const struct stage_record *record)
{
        int r = stage_record(run->all, record);

        if (r == 0 && run->own != run->all)
                r = stage_record(run->own, record);
        return r < 0 ? r : sync_record(run->sync, record);
}

/* A thread that was named to others, before we came. */
static int know(struct blk_run *run, uint32_t tid, uint32_t tgid)
{
        struct stage_record record = {.kind = RECORD_NAME, .tid = tid, .tgid = tgid};
        bool fresh;
        const char *name = blk_names_get(run->names, tid, &fresh);

        if (!fresh || name[0] == '\0')
                return 0;
        memcpy(record.name.comm, name, sizeof record.name.comm);
        return feed_name(run, &record);
}

static void count_writeback(struct blk_run *run, const struct stage_record *record)
{
        struct blk_live *live = &run->live;
        size_t room = sizeof live->writeback / sizeof *live->writeback, i = 0;

        if (record->direction != STAGE_WRITE || record->bio.sectors == 0 ||
            strncmp(blk_names_get(run->names, record->tid, NULL), "kworker/u", 9) != 0 ||
            !blk_want_device(run->request->report, record->device))
                return;
        while (i < live->writebacks && live->writeback[i].cgroup != record->bio.cgroup)
                i++;
        if (i == live->writebacks && i < room - 1)
                live->writeback[live->writebacks++] = (struct blk_writeback){.cgroup = record->bio.cgroup};
        else if (i == live->writebacks) { /* the last place is everybody else's */
                i = room - 1;
                live->writebacks = room;
                live->writeback[i].cgroup = 0;
        }
        live->writeback[i].bios += !(record->flags & RECORD_PIECE);
        live->writeback[i].bytes += (uint64_t)record->bio.sectors * 512;
}

static void note_open(struct blk_run *run, const struct stage_record *record)
{
        struct blk_live *live = &run->live;
        size_t i = 0, room = sizeof live->open / sizeof *live->open;

        if (!blk_want_device(run->request->report, record->device))
                return;
        while (i < live->opens && live->open[i].record.device != record->device)
                i++;
        for (size_t k = 0; i == room && k < room; k++) /* one that was not told again gives its place */
                if (!blk_still_open(run->request->report, &live->open[k]))
                        i = k;
        if (i == room)
                return;
        live->opens += i == live->opens;
        live->open[i] = (struct blk_open){*record, clock_ns(CLOCK_MONOTONIC)};
}

static void forget_open(struct blk_live *live, const struct stage_record *record)
{
        for (size_t i = 0; i < live->opens; i++)
                if (live->open[i].record.device == record->device && live->open[i].record.bio.id == record->bio.id) {
                        live->open[i] = live->open[--live->opens];
                        return;
                }
}

static int feed_open(struct blk_run *run, const struct stage_record *record)
{
        int r = know(run, record->tgid, record->tgid);

        note_open(run, record);
        return r < 0 || record->tid == record->tgid ? r : know(run, record->tid, record->tgid);
}

static int feed_bio(struct blk_run *run, const struct stage_record *record)
{
        forget_open(&run->live, record);
        int r = know(run, record->tgid, record->tgid);

        if (r == 0 && record->tid != record->tgid)
                r = know(run, record->tid, record->tgid);
        count_writeback(run, record);
        if (r == 0)
                r = stage_record(run->all, record);
        if (r == 0 && run->own != run->all && wanted(run, record->tid, record->tgid))
                r = stage_record(run->own, record);
        behind_record(run->behind, record);
        return r < 0 ? r : sync_record(run->sync, record);
}

static int feed_lost(struct blk_run *run, const struct stage_record *record)
{
        int r = stage_record(run->all, record);

        if (r == 0 && run->own != run->all)
                r = stage_record(run->own, record);
        return r < 0 ? r : sync_record(run->sync, record);
}

static void print_event(struct blk_run *run, const struct stage_record *record)
{
        const struct blk_report *report = run->request->report;
        struct blk_record event = {.event = {.time = record->event.time, .sector = record->event.sector, .other = record->event.other,
                .sectors = record->event.sectors, .other_device = record->event.other_device, .device = record->device, .pid = record->tid,
                .error = record->event.error, .action = record->event.action, .direction = record->direction, .flags = record->bio_flags},
                .cpu = record->event.cpu};
        char name[RECORD_COMM + 1], line[256], clean[512];

        if (record->event.action >= STAGE_ACTIONS || !blk_want_device(report, record->device))
                return;
        snprintf(name, sizeof name, "%.*s", RECORD_COMM, record->event.comm);
        snprintf(event.rwbs, sizeof event.rwbs, "%.*s", (int)sizeof event.rwbs - 1, record->event.rwbs);
        event.event.name = name;
        if (!blk_want_thread(report, record->tid, name) && !blk_want_thread(report, record->tgid, NULL))
                return;
        event.sequence = ++run->sequence[record->event.cpu % BLK_CPUS];
        size_t length = blk_format(line, sizeof line, &event, report->start);
        clean_screen(clean, sizeof clean, line, length, report->utf8, sizeof clean, NULL);
        fprintf(report->out, "%s\n", clean);
}

static int feed(struct blk_run *run, const struct stage_record *record)
{
        int r;

        switch (record->kind) {
        case RECORD_NAME:
                blk_names_learn(run->names, record->tid, record->name.comm);
                return feed_name(run, record);
        case RECORD_BIO:
                return stage_record_open(record) ? feed_open(run, record) : feed_bio(run, record);
        case RECORD_SYNC:
                r = know(run, record->tgid, record->tgid);
                if (r == 0 && record->tid != record->tgid)
                        r = know(run, record->tid, record->tgid);
                return r < 0 ? r : sync_record(run->sync, record);
        case RECORD_EVENT:
                if (run->request->events)
                        print_event(run, record);
                return 0;
        case RECORD_LOST:
                return feed_lost(run, record);
        default:
                return 0;
        }
}

/* ---- the stream ---------------------------------------------------------------------------------------------------------------------- */

static void take_facts(struct blk_run *run, const struct stream_facts *now)
{
        struct blk_live *live = &run->live;
        const struct stream_facts *first = &run->first;

        live->source = now->source ? now->source : live->source;
        live->lost = run->before.lost + now->lost - first->lost;
        live->unmatched = run->before.unmatched + now->unmatched - first->unmatched;
        live->crowded = run->before.crowded + now->crowded - first->crowded;
        live->run_ns = run->before.run_ns + now->run_ns - first->run_ns;
        live->run_count = run->before.run_count + now->run_count - first->run_count;
        live->daemon_ns = run->before.cpu_ns + now->cpu_ns - first->cpu_ns;
        live->own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - run->own_ns;
        live->spoilt_calls = sync_spoilt(run->sync) - run->spoilt_base;
        uint64_t at = clock_ns(CLOCK_MONOTONIC);
        live->dark_ns += now->what & STREAM_WHAT_BIOS || run->facts_ns == 0 ? 0 : at - run->facts_ns;
        run->facts_ns = at;
        live->calls_traced |= now->what & STREAM_WHAT_SYNC && !run->request->no_sync && !run->request->events;
        run->now = *now;
}

/* Everything that is there. The facts are read first: what they call drained is then in the stream. */
static int take(struct blk_run *run)
{
        struct stream_facts facts;
        uint64_t lost;
        int r = 0;

        if (run->reader == NULL)
                return 0;
        run->stride = run->bios / SAMPLED + 1; /* as many as last time */
        run->bios = 0;
        stream_get_facts(run->reader, &facts);
        for (int round = 0; round < ROUNDS && r == 0; round++) {
                size_t count = stream_take(run->reader, run->records, BLK_ROOM, &lost);
                if (lost) {
                        const struct stage_record record = {.kind = RECORD_LOST, .lost.count = lost};
                        run->live.overrun += lost;
                        r = feed_lost(run, &record);
                }
                for (size_t i = 0; i < count && r == 0; i++)
                        r = feed(run, &run->records[i]);
                if (count < BLK_ROOM)
                        break;
        }
        if (r == 0)
                r = sync_settle(run->sync, facts.drained);
        tell_late(run, facts.drained);
        take_facts(run, &facts);
        if (facts.drained > run->request->report->last)
                run->request->report->last = facts.drained;
        return r;
}

static int open_stream(struct blk_run *run, char *why, size_t size)
{
        int r = attach_stream(run->attach, &run->reader, why, size);

        if (r < 0)
                return r;
        stream_get_facts(run->reader, &run->first);
        run->now = run->first;
        run->asked = run->since = clock_ns(CLOCK_MONOTONIC);
        run->facts_ns = 0;
        return 0;
}

/* The next report of diskstats: which devices hold requests of which none has ended for long. */
static void look_stuck(struct blk_run *run)
{
        struct blk_live *live = &run->live;
        uint64_t now = state_info(run->state).mono_ns;

        live->stucks = 0;
        for (size_t i = 0; i < state_count(run->state, SCOPE_DISK) && live->stucks < sizeof live->stuck / sizeof *live->stuck; i++) {
                const struct state_row *row = state_at(run->state, SCOPE_DISK, i);
                uint64_t major, minor, stuck, inflight, kind;
                if (row->gone || !state_now(row, DISK_STUCK, &stuck) || stuck < STUCK_NS || stuck > now ||
                    !state_now(row, DISK_INFLIGHT, &inflight) || inflight == 0 || !state_now(row, DISK_MAJOR, &major) ||
                    !state_now(row, DISK_MINOR, &minor) || (state_now(row, DISK_KIND, &kind) && kind == 'p'))
                        continue;
                uint32_t device = (uint32_t)major << 20 | (uint32_t)minor;
                if (blk_want_device(run->request->report, device))
                        live->stuck[live->stucks++] = (struct blk_stuck){.device = device, .since = now - stuck, .inflight = inflight};
        }
        state_base(run->state);
}

static void say_source(const struct blk_run *run)
{
        struct attach_info info;

        attach_get_info(run->attach, &info);
        options_say("blk", "%s", info.line);
}

/* watopd's side: reports, and its end. Waits at most timeout_ns. */
int blk_live_step(struct blk_run *run, uint64_t timeout_ns)
{
        char why[256] = "";
        int r = attach_next(run->attach, run->state, NULL, timeout_ns);

        if (r < 0) {
                if (run->screen == NULL)
                        say_source(run);
                return r;
        }
        if (r == ATTACH_REPORT)
                look_stuck(run);
        if ((r == ATTACH_GONE || r == ATTACH_BACK) && run->screen == NULL)
                say_source(run);
        if (r == ATTACH_GONE) {
                run->before = (struct stream_facts){.lost = run->live.lost, .unmatched = run->live.unmatched, .crowded = run->live.crowded,
                        .run_ns = run->live.run_ns, .run_count = run->live.run_count, .cpu_ns = run->live.daemon_ns};
                stream_close(run->reader);
                run->reader = NULL;
                run->live.outages++;
        }
        if (r == ATTACH_BACK && run->reader == NULL && (r = open_stream(run, why, sizeof why)) < 0) {
                if (run->screen == NULL)
                        options_say("blk", "%s", why);
                return r;
        }
        r = take(run);
        run->unread |= ferror(run->request->report->out) != 0;
        return r;
}

/* ---- a run --------------------------------------------------------------------------------------------------------------------------- */

static int make_sums(struct blk_run *run)
{
        const struct stage_options own = {.done = on_bio, .own = run}, none = {0};
        struct blk_report *report = run->request->report;
        bool one = report->process == NULL;

        int r = blk_calls_new(run->names, &run->calls);
        if (r == 0)
                r = stage_new(one ? &own : &none, &run->all);
        run->own = run->all;
        if (r == 0 && !one) {
                run->own = NULL;
                r = stage_new(&own, &run->own);
        }
        run->live.calls = run->calls;
        report->set = run->own;
        return r;
}

static void free_sums(struct blk_run *run)
{
        if (run->own != run->all)
                stage_free(run->own);
        stage_free(run->all);
        blk_calls_free(run->calls);
        run->own = run->all = NULL;
        run->calls = NULL;
}

static int tell_name(void *own, uint32_t tid, const char *comm)
{
        struct stage_record record = {.kind = RECORD_NAME, .tid = tid, .tgid = tid};

        memcpy(record.name.comm, comm, strnlen(comm, sizeof record.name.comm - 1));
        return feed_name(own, &record);
}

int blk_live_anew(struct blk_run *run)
{
        struct blk_report *report = run->request->report;
        const struct blk_live before = run->live;

        tell_late(run, UINT64_MAX); /* they speak of rows that are to go */
        free_sums(run);
        run->live = (struct blk_live){.calls_traced = before.calls_traced, .source = before.source, .private_daemon = before.private_daemon,
                .real_offset = before.real_offset};
        memcpy(run->live.open, before.open, sizeof before.open);
        run->live.opens = before.opens;
        run->spoilt_base = sync_spoilt(run->sync);
        run->first = run->now;
        run->before = (struct stream_facts){0};
        run->own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        report->start = report->last = clock_ns(CLOCK_MONOTONIC);
        int r = make_sums(run);
        return r < 0 ? r : blk_names_each(run->names, tell_name, run);
}

static int make(struct blk_run *run)
{
        const struct sync_options calls = {.done = on_call, .own = run};
        struct attach_info info;

        attach_get_info(run->attach, &info);
        int r = blk_names_new(info.private_daemon || info.same_pid_ns, &run->names);
        if (r == 0)
                r = make_sums(run);
        if (r == 0)
                r = behind_new(&run->behind);
        if (r == 0)
                r = sync_new(&calls, run->behind, &run->sync);
        run->late = r == 0 ? calloc(BLK_LATE, sizeof *run->late) : NULL;
        run->records = r == 0 ? calloc(BLK_ROOM, sizeof *run->records) : NULL;
        return r == 0 && (run->late == NULL || run->records == NULL) ? -ENOMEM : r;
}

static void unmake(struct blk_run *run)
{
        stream_close(run->reader);
        sync_free(run->sync);
        behind_free(run->behind);
        free_sums(run);
        blk_names_free(run->names);
        state_free(run->state);
        attach_close(run->attach);
        free(run->late);
        free(run->records);
}

/* Until the tracer is attached. */
static int wait_start(struct blk_run *run, char *why, size_t size)
{
        struct blk_report *report = run->request->report;
        uint64_t until = clock_ns(CLOCK_MONOTONIC) + START_NS;

        while (!interrupted) {
                uint64_t now = clock_ns(CLOCK_MONOTONIC);
                stream_get_facts(run->reader, &run->first);
                /* What was told before our lease may be of one that has just ended. */
                bool ours = run->first.since >= run->opened || run->first.drained > run->asked;
                if (run->first.what & STREAM_WHAT_BIOS && ours) {
                        report->start = run->first.since > run->opened ? run->first.since : now;
                        report->last = report->start;
                        if (run->first.since > run->opened) /* and its source tells of no call from before that */
                                run->since = run->opened;
                        run->live.source = run->first.source;
                        return 0;
                }
                if (now > until) {
                        snprintf(why, size, "watopd did not begin to trace; watopd --check says what is missing");
                        return -ETIMEDOUT;
                }
                int r = attach_next(run->attach, run->state, NULL, 20 * MS);
                if (r < 0 || r == ATTACH_GONE) {
                        struct attach_info info;
                        attach_get_info(run->attach, &info);
                        snprintf(why, size, "%s", info.line);
                        return r < 0 ? r : -ESRCH;
                }
        }
        return -EINTR;
}

static int start(struct blk_run *run, struct options *options, char *why, size_t size)
{
        const struct blk_request *request = run->request;

        options->attach.scopes = SCOPE_BIT(SCOPE_SYSTEM) | SCOPE_BIT(SCOPE_DISK);
        options->attach.leases = LEASE_STREAM | (request->events ? LEASE_EVENTS : request->no_sync ? 0u : LEASE_SYNC);
        run->opened = clock_ns(CLOCK_MONOTONIC);
        run->live.real_offset = (int64_t)(clock_ns(CLOCK_REALTIME) - run->opened);
        int r = state_new(&run->state);
        if (r == 0)
                r = attach_open(&options->attach, &run->attach, why, size);
        if (r < 0)
                return r;
        if (!options->quiet)
                options_say(NULL, "%s", why);
        why[0] = '\0';
        struct attach_info info;
        attach_get_info(run->attach, &info);
        run->live.private_daemon = info.private_daemon;
        r = make(run);
        if (r == 0)
                r = open_stream(run, why, size);
        return r < 0 ? r : wait_start(run, why, size);
}

/* What was asked for as a device, by number; a partition is its disk's. */
static int find_devices(struct blk_report *report)
{
        for (size_t i = 0; i < report->device_count; i++) {
                uint32_t part;
                char name[64];
                const char *text = report->devices[i];
                int r = blk_device_find(text, &report->numbers[i], &part);
                if (r < 0)
                        return options_error("blk", "%s: %s", text, r == -ENOTBLK ? "not a block device" : "no such device");
                if (part != report->numbers[i])
                        options_say("blk", "%s is a partition: tracing its disk %s", text,
                                blk_device_name_now(report->numbers[i], name, sizeof name) ? name : "");
        }
        return 0;
}

static bool over(const struct blk_run *run)
{
        uint64_t start = run->request->report->start;

        return interrupted || run->unread || (run->span && clock_ns(CLOCK_MONOTONIC) - start >= run->span);
}

static int run_lines(struct blk_run *run)
{
        int r = 0;

        while (r == 0 && !over(run)) {
                r = blk_live_step(run, ROUND_NS);
                if (run->request->events || run->request->slower)
                        run->unread |= fflush(run->request->report->out) != 0;
        }
        return r;
}

/* What has ended by now is taken, all of it is judged. */
static int finish(struct blk_run *run)
{
        uint64_t end = clock_ns(CLOCK_MONOTONIC), until = end + SECOND;
        int r = 0;

        while (r == 0 && run->reader && run->now.drained < end && clock_ns(CLOCK_MONOTONIC) < until)
                r = blk_live_step(run, 10 * MS);
        if (r == 0)
                r = sync_settle(run->sync, UINT64_MAX);
        tell_late(run, UINT64_MAX);
        stage_finish(run->all);
        if (run->own != run->all)
                stage_finish(run->own);
        return r;
}

static void tell(const struct blk_run *run)
{
        const struct blk_live *live = &run->live;

        if (run->request->json)
                blk_json(run->request->report);
        else if (!run->request->events)
                blk_say(run->request->report);
        else if (live->lost + live->overrun)
                options_say("blk", "%llu events were lost", (unsigned long long)(live->lost + live->overrun));
}

static void say_begin(const struct blk_run *run)
{
        if (run->span)
                options_say("blk", "tracing for %.1f s", (double)run->span / 1e9);
        else
                options_say("blk", "tracing until Ctrl-C");
}

/* The line for people when tracing is not to be had. */
static void say_failure(const char *why, int r)
{
        options_say("blk", "%s", why[0] ? why : strerror(-r));
        if (geteuid() != 0 && r != -ENOMEM && r != -EINTR)
                options_say("blk", "tracing block I/O needs root, or a running watopd that was started by root");
}

int blk_live(struct blk_request *request, struct options *options)
{
        static struct blk_run run;
        /* A second Ctrl-C ends us at once. SA_RESTART: who reads slowly gets the lines that are on their way. */
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
        char why[512] = "";
        bool terminal = isatty(STDOUT_FILENO) == 1;
        int ended_by = 0;

        if (find_devices(request->report) < 0)
                return 2;
        run.request = request;
        run.stride = 1;
        request->report->live = &run.live;
        run.span = request->span ? request->span : terminal && !request->events ? 0 : 10 * SECOND;
        run.pictures = terminal && isatty(STDIN_FILENO) == 1 && !request->json && !request->events && !request->slower;
        if (run.pictures)
                screen_guard();
        else
                sigaction(SIGINT, &action, NULL);
        int r = start(&run, options, why, sizeof why);
        if (r == 0 && !run.pictures && !options->quiet)
                say_begin(&run);
        if (r == 0)
                r = run.pictures ? blk_screen(&run, why, sizeof why, &ended_by) : run_lines(&run);
        if (r == 0)
                r = finish(&run);
        if (r == 0 && !run.unread && (ended_by == 0 || ended_by == SIGINT))
                tell(&run);
        else if (r < 0 && !interrupted)
                say_failure(why, r);
        unmake(&run);
        if (ended_by && ended_by != SIGINT) { /* whoever sent it sees that it was obeyed */
                signal(ended_by, SIG_DFL);
                raise(ended_by);
        }
        return r < 0 && !interrupted ? 1 : 0;
}

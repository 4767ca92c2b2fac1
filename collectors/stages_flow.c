/*
 * The way of block tracing's records. Contract: stages_own.h.
 *
 *      BPF      records ---+--------------------------------------------> stream
 *                          +--> engine (parts become bios) --> sums
 *                          +--> table of calls --> sums
 *      tracefs  events --> engine (events become bios) --> records ------> as above
 *
 * The engine's tables never forget, so a set that filled up with processes is replaced by an empty one. Names travel once with a source, so
 * the last ones are kept (stages_names.c) for readers that come later and for new sets. Who was in front is asked by readers of the stream.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/bpf/stage_tracer.h"
#include "collectors/stages_names.h"
#include "collectors/stages_own.h"
#include "collectors/tracefs.h"

enum {
        IN = 2048,                    /* records of one draining; more in the next at once, */
        FULL = IN - 64,               /* when it was as good as full: a source may leave room for what comes in groups */
        OUT = 1024,
        TURNS = 32,                   /* drainings of one round: a source that is faster than we are does not hold us for ever */
        ROWS = 4096,                  /* of the engine */
        ROWS_MANY = 2048, ROWS_TOO_MANY = 4000,
        COSTS_EVERY = 25,             /* rounds: asking each program costs a system call */
        OPEN_DEVICES = 64,            /* of which the oldest open bio is told */
        CALLS_OPEN = 1 << 16,
};

/* What ended in the last moment before a draining may be on its way yet; tracefs holds it back to put the CPUs' events in order. */
#define SETTLED_NS UINT64_C(1000000)
#define SETTLED_EVENTS_NS UINT64_C(10000000)

/* Counters of something that may begin anew: only what they grow by counts. */
struct grown {
        uint64_t total, last;
};

struct flow {
        struct sums *sums;
        struct stage_tracer *tracer;
        struct tracefs *tracefs;
        enum stream_source source;    /* to be used; STREAM_NONE: nothing is to be had */
        bool stopgap;                 /* tracefs, until nothing is wanted any more: then BPF is tried again */
        struct flow_status status;
        struct grown lost, unmatched, crowded, engine_unmatched, engine_crowded, run_ns, run_count;
        /* while attached: */
        struct stage_set *set;
        struct sync_set *calls;
        uint64_t calls_from;          /* calls that began before lack bios and are not counted */
        bool calls_traced;            /* in the round before */
        uint64_t *requests;           /* of each row of the engine, as counted last */
        struct stage_record *in, *out;
        size_t out_count;
        unsigned rounds;
        uint64_t now_ns;              /* this round's */
        bool counting;                /* this round's `sums` */
        struct stream *stream;        /* this round's */
        struct stages_names *names;
        uint64_t open_ns;             /* when it was asked last which bios are open */
};

static void grow(struct grown *grown, uint64_t now)
{
        grown->total += now >= grown->last ? now - grown->last : now;
        grown->last = now;
}

/* ---- sources ------------------------------------------------------------------------------------------------------------------ */

int flow_new(struct sums *sums, struct flow **result)
{
        struct flow *flow = calloc(1, sizeof *flow);

        if (flow == NULL)
                return -ENOMEM;
        flow->sums = sums;
        *result = flow;
        return 0;
}

int flow_open(struct flow *flow, bool bpf, char *why, size_t size)
{
        char no_bpf[STAGES_WHY] = "off", no_tracefs[STAGES_WHY] = "";

        /* Those of processes that were killed. */
        tracefs_clean();
        int b = bpf ? stage_tracer_open(&flow->tracer, no_bpf, sizeof no_bpf) : -ENODEV;
        if (b < 0)
                flow->tracer = NULL;
        int t = tracefs_open(&flow->tracefs, no_tracefs, sizeof no_tracefs);
        if (t < 0)
                flow->tracefs = NULL;
        flow->source = b == 0 ? STREAM_BPF : t == 0 ? STREAM_TRACEFS : STREAM_NONE;
        if (flow->source != STREAM_NONE)
                return 0;
        snprintf(why, size, "no BPF (%.100s), no tracefs (%.100s)", no_bpf[0] != '\0' ? no_bpf : strerror(-b),
                no_tracefs[0] != '\0' ? no_tracefs : strerror(-t));
        return b == -EPERM || b == -EACCES ? b : t;
}

bool flow_fall_back(struct flow *flow, bool for_good)
{
        if (flow->source != STREAM_BPF || flow->tracefs == NULL)
                return false;
        flow_detach(flow);
        if (for_good) {
                stage_tracer_close(flow->tracer);
                flow->tracer = NULL;
        }
        flow->source = STREAM_TRACEFS;
        flow->stopgap = !for_good;
        return true;
}

void flow_go_back(struct flow *flow)
{
        if (!flow->stopgap)
                return;
        flow_detach(flow);
        flow->source = STREAM_BPF;
        flow->stopgap = false;
}

bool flow_try(enum stream_source source, char *why, size_t size)
{
        struct stage_tracer *tracer = NULL;
        struct tracefs *tracefs = NULL;
        int r;

        why[0] = '\0';
        if (source == STREAM_BPF) {
                r = stage_tracer_open(&tracer, why, size);
                if (r == 0)
                        r = stage_tracer_attach(tracer, STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, why, size);
                stage_tracer_close(tracer);
        } else {
                r = tracefs_open(&tracefs, why, size);
                if (r == 0)
                        r = tracefs_attach(tracefs, STREAM_WHAT_BIOS | STREAM_WHAT_SYNC, why, size);
                tracefs_close(tracefs);
        }
        if (r < 0 && why[0] == '\0')
                snprintf(why, size, "%s", r == -ENOSYS ? "built without libbpf (Meson option bpf)" : strerror(-r));
        return r == 0;
}

/* ---- from the engine ------------------------------------------------------------------------------------------------------------ */

static void flush_out(struct flow *flow)
{
        if (flow->stream != NULL && flow->out_count > 0)
                stream_put(flow->stream, flow->out, flow->out_count);
        flow->out_count = 0;
}

static void put_out(struct flow *flow, const struct stage_record *record)
{
        if (flow->stream == NULL)
                return;
        flow->out[flow->out_count++] = *record;
        if (flow->out_count == OUT)
                flush_out(flow);
}

static void name_process(struct flow *flow, uint32_t tid, uint32_t tgid, const char *comm)
{
        struct stage_record record = { .kind = RECORD_NAME, .tid = tid, .tgid = tgid };

        if (*comm == '\0')
                return;
        memcpy(record.name.comm, comm, sizeof record.name.comm);
        if (!stages_names_keep(flow->names, &record))
                return;
        put_out(flow, &record);
        if (flow->calls != NULL)
                sync_record(flow->calls, &record);
}

/* 0: nobody knows. */
static uint32_t process_of(const struct flow *flow, const struct stage_row *row)
{
        uint32_t id = row->process->pid, tgid = id;
        bool kernel;

        if (id == UINT32_MAX)
                return 0;
        if (flow->source == STREAM_TRACEFS) /* its events know threads, and so its engine counts them */
                stages_names_process(flow->names, id, &tgid, &kernel);
        return tgid;
}

/* Events became a bio, or a part of one: it is a record now. */
static void pass_on(struct flow *flow, const struct stage_done *done, uint32_t tgid)
{
        struct stage_record record;
        uint32_t process;
        bool kernel;

        if (stage_to_record(done, &record) < 0)
                return;
        record.tgid = tgid;
        /* The search for journals believes no name that anybody can take. */
        if (stages_names_process(flow->names, record.tid, &process, &kernel) && kernel)
                record.flags |= RECORD_KERNEL;
        name_process(flow, record.tid, tgid, done->row->process->name);
        put_out(flow, &record);
        if (flow->calls != NULL)
                sync_record(flow->calls, &record);
}

static void count_bio(struct flow *flow, const struct stage_done *done, bool whole)
{
        uint32_t tgid = process_of(flow, done->row);

        if (flow->source == STREAM_TRACEFS)
                pass_on(flow, done, tgid);
        if (flow->counting)
                sums_bio(flow->sums, done, tgid, whole, flow->now_ns);
}

static void on_done(void *own, const struct stage_done *done)
{
        count_bio(own, done, true);
}

static void on_part(void *own, const struct stage_done *done)
{
        count_bio(own, done, false);
}

static void on_call(void *own, const struct sync_done *done)
{
        struct flow *flow = own;

        if (flow->counting && done->record->sync.start >= flow->calls_from)
                sums_sync(flow->sums, done);
}

/* ---- attaching ------------------------------------------------------------------------------------------------------------------ */

static int new_set(struct flow *flow)
{
        const struct stage_options options = { .done = on_done, .part = on_part, .own = flow, .no_histograms = true };
        struct stage_set *set = NULL;

        int r = stage_new(&options, &set);
        if (r < 0)
                return r;
        stage_free(flow->set);
        flow->set = set;
        flow->engine_unmatched.last = flow->engine_crowded.last = 0;
        memset(flow->requests, 0, ROWS * sizeof *flow->requests);
        return 0;
}

static void close_calls(struct flow *flow)
{
        sync_free(flow->calls);
        flow->calls = NULL;
}

static void name_call(void *own, const struct stage_record *record)
{
        struct flow *flow = own;

        sync_record(flow->calls, record);
}

/* The calls' tables are large: only while rows of them are wanted. */
static void open_calls(struct flow *flow, bool wanted)
{
        const struct sync_options options = { .done = on_call, .own = flow, .max_open = CALLS_OPEN };

        if (!wanted || flow->calls != NULL) {
                if (!wanted)
                        close_calls(flow);
                return;
        }
        flow->calls_from = flow->calls_traced ? flow->now_ns : 0;
        if (sync_new(&options, NULL, &flow->calls) == 0)
                stages_names_each(flow->names, name_call, flow);
        else
                flow->calls = NULL;
}

static void close_tables(struct flow *flow)
{
        close_calls(flow);
        stage_free(flow->set);
        free(flow->requests);
        free(flow->in);
        free(flow->out);
        stages_names_free(flow->names);
        flow->set = NULL;
        flow->requests = NULL;
        flow->in = flow->out = NULL;
        flow->names = NULL;
        flow->calls_traced = false;
        flow->out_count = 0;
}

static int open_tables(struct flow *flow)
{
        if (flow->set != NULL)
                return 0;
        flow->requests = calloc(ROWS, sizeof *flow->requests);
        flow->in = calloc(IN, sizeof *flow->in);
        flow->out = calloc(OUT, sizeof *flow->out);
        flow->names = stages_names_new();
        if (flow->requests == NULL || flow->in == NULL || flow->out == NULL || flow->names == NULL)
                return -ENOMEM;
        return new_set(flow);
}

static unsigned source_attached(const struct flow *flow)
{
        return flow->source == STREAM_BPF ? stage_tracer_attached(flow->tracer) :
                flow->source == STREAM_TRACEFS ? tracefs_attached(flow->tracefs) : 0;
}

int flow_attach(struct flow *flow, unsigned what, char *why, size_t size)
{
        bool begins = flow->status.what == 0;

        int r = open_tables(flow);
        if (r == 0 && flow->source == STREAM_BPF)
                r = stage_tracer_attach(flow->tracer, what, why, size);
        else if (r == 0)
                r = flow->source == STREAM_TRACEFS ? tracefs_attach(flow->tracefs, what, why, size) : -ENODEV;
        flow->status.source = flow->source;
        if (r == 0) {
                flow->status.what = what;
                flow->status.since = begins ? stages_now(CLOCK_MONOTONIC) : flow->status.since;
        } else if ((flow->status.what = source_attached(flow)) == 0) { /* a source may give up what it had when it cannot have more */
                flow_detach(flow);
        }
        return r;
}

void flow_detach(struct flow *flow)
{
        char why[STAGES_WHY];

        if (flow->source == STREAM_BPF)
                stage_tracer_attach(flow->tracer, 0, why, sizeof why);
        else if (flow->source == STREAM_TRACEFS)
                tracefs_attach(flow->tracefs, 0, why, sizeof why);
        close_tables(flow);
        flow->status.what = 0;
}

unsigned flow_attached(const struct flow *flow)
{
        return flow->status.what;
}

void flow_free(struct flow *flow)
{
        if (flow == NULL)
                return;
        flow_detach(flow);
        stage_tracer_close(flow->tracer);
        tracefs_close(flow->tracefs);
        free(flow);
}

/* ---- one round ------------------------------------------------------------------------------------------------------------------ */

/* Records of a source that makes records. Events that came with them are for the stream's readers only. */
static void count_record(struct flow *flow, const struct stage_record *record)
{
        if (record->kind == RECORD_EVENT)
                return;
        stage_record(flow->set, record);
        if (record->kind == RECORD_BIO && record->bio.cgroup != 0)
                sums_cgroup(flow->sums, record);
        if (flow->calls != NULL)
                sync_record(flow->calls, record);
}

static void take_records(struct flow *flow, size_t count)
{
        if (flow->stream != NULL)
                stream_put(flow->stream, flow->in, count);
        for (size_t i = 0; i < count; i++) {
                if (flow->in[i].kind == RECORD_NAME)
                        stages_names_keep(flow->names, &flow->in[i]);
                if (flow->counting)
                        count_record(flow, &flow->in[i]);
        }
}

/* What the engine makes of events comes between them, in the order of their ends. */
static void take_events(struct flow *flow, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct stage_record *record = &flow->in[i];
                if (record->kind == RECORD_NAME)
                        stages_names_keep(flow->names, record);
                if (record->kind == RECORD_EVENT && record->tgid != 0)
                        stages_names_join(flow->names, record->tid, record->tgid, record->flags & RECORD_KERNEL);
                if (record->kind != RECORD_EVENT || flow->status.what & STREAM_WHAT_EVENTS)
                        put_out(flow, record);
                stage_record(flow->set, record);
                if (flow->calls != NULL && record->kind != RECORD_EVENT)
                        sync_record(flow->calls, record);
        }
        flush_out(flow);
}

/* Requests that ended since the last time, by the engine's rows: at most 4,096 of them, most often some ten. */
static void count_requests(struct flow *flow)
{
        size_t rows = stage_rows(flow->set);

        for (size_t i = 0; i < rows && i < ROWS; i++) {
                const struct stage_row *row = stage_get_row(flow->set, i);
                uint64_t more = row->requests - flow->requests[i];
                flow->requests[i] = row->requests;
                if (more > 0 && flow->counting)
                        sums_requests(flow->sums, row, process_of(flow, row), more);
        }
}

static void name_set(void *own, const struct stage_record *record)
{
        struct flow *flow = own;

        stage_record(flow->set, record);
}

static uint64_t given_up(const struct flow *flow)
{
        const struct stage_counts *counts = stage_get_counts(flow->set);

        return counts->evicted + counts->crowded;
}

/* Its rows are never given back, so after so many processes it starts again: best while no bio waits for an event or a part. What has to be
 * given up is counted. */
static void renew_set(struct flow *flow)
{
        size_t waiting = stage_unfinished(flow->set);

        if (stage_rows(flow->set) < ROWS_MANY || (waiting > 0 && stage_rows(flow->set) < ROWS_TOO_MANY))
                return;
        stage_finish(flow->set);
        count_requests(flow);
        grow(&flow->engine_crowded, given_up(flow));
        flow->engine_crowded.total += stage_unfinished(flow->set);
        if (new_set(flow) == 0)
                stages_names_each(flow->names, name_set, flow);
}

static void note_costs(struct flow *flow, uint64_t drained)
{
        const struct stage_counts *counts = stage_get_counts(flow->set);
        struct stage_tracer_stats stats = { .lost = 0 };
        uint64_t unmatched = 0;

        for (int action = 0; action < STAGE_ACTIONS; action++)
                unmatched += counts->unmatched[action];
        if (flow->rounds++ % COSTS_EVERY == 0) {
                if (flow->source == STREAM_BPF)
                        stage_tracer_stats(flow->tracer, &stats);
                else
                        stats.lost = tracefs_lost(flow->tracefs);
                grow(&flow->lost, stats.lost);
                grow(&flow->unmatched, stats.unmatched);
                grow(&flow->crowded, stats.crowded);
                grow(&flow->run_ns, stats.run_ns);
                grow(&flow->run_count, stats.run_count);
        }
        grow(&flow->engine_unmatched, unmatched);
        grow(&flow->engine_crowded, given_up(flow));
        flow->status.lost = flow->lost.total;
        flow->status.unmatched = flow->unmatched.total + flow->engine_unmatched.total;
        flow->status.crowded = flow->crowded.total + flow->engine_crowded.total;
        flow->status.run_ns = flow->run_ns.total;
        flow->status.run_count = flow->run_count.total;
        flow->status.cpu_ns = stages_now(CLOCK_THREAD_CPUTIME_ID);
        flow->status.drained = drained;
}

static void tell_stream(const struct flow *flow, struct stream *stream)
{
        const struct flow_status *s = &flow->status;

        stream_tell(stream, &(struct stream_facts){ .source = s->what != 0 ? s->source : STREAM_NONE, .what = s->what, .since = s->since,
                .drained = s->drained, .lost = s->lost, .unmatched = s->unmatched, .crowded = s->crowded, .run_ns = s->run_ns,
                .run_count = s->run_count, .cpu_ns = s->cpu_ns });
}

static size_t drain(struct flow *flow)
{
        return flow->source == STREAM_BPF ? stage_tracer_drain(flow->tracer, flow->in, IN) : tracefs_drain(flow->tracefs, flow->in, IN);
}

static void tell_name(void *own, const struct stage_record *record)
{
        put_out(own, record);
}

/*
 * Once a second: of each device the bio that is open the longest, if that is longer than a second: who is stuck, and where. The asking also
 * frees the tracer's table of bios whose end was missed, so it is done whoever listens. Of very many that are stuck it is the oldest IN.
 */
static void look_open(struct flow *flow)
{
        uint32_t told[OPEN_DEVICES];
        size_t devices = 0;

        if (flow->source != STREAM_BPF || flow->now_ns < flow->open_ns + SECOND_NS)
                return;
        flow->open_ns = flow->now_ns;
        size_t count = stage_tracer_open_bios(flow->tracer, flow->in, IN);
        for (size_t i = 0; i < count && devices < OPEN_DEVICES; i++) {
                const struct stage_record *record = &flow->in[i];
                size_t k = 0;
                if (record->bio.q + SECOND_NS > flow->now_ns) /* they come oldest first */
                        break;
                while (k < devices && told[k] != record->device)
                        k++;
                if (k < devices)
                        continue;
                told[devices++] = record->device;
                put_out(flow, record);
        }
        flush_out(flow);
}

void flow_round(struct flow *flow, struct stream *stream, bool pass, bool sums, bool names)
{
        uint64_t drained = 0;
        size_t count = FULL;
        uint64_t settled = flow->source == STREAM_BPF ? SETTLED_NS : SETTLED_EVENTS_NS;

        if (flow->status.what != 0) {
                flow->stream = pass ? stream : NULL;
                flow->counting = sums;
                flow->now_ns = stages_now(CLOCK_MONOTONIC);
                /* Without memory for them calls have no rows. */
                open_calls(flow, sums && flow->status.what & STREAM_WHAT_SYNC);
                flow->calls_traced = flow->status.what & STREAM_WHAT_SYNC;
                if (names)
                        stages_names_each(flow->names, tell_name, flow);
                flush_out(flow);
                for (unsigned turn = 0; turn < TURNS && count >= FULL; turn++) {
                        drained = stages_now(CLOCK_MONOTONIC) - settled;
                        count = drain(flow);
                        (flow->source == STREAM_BPF ? take_records : take_events)(flow, count);
                }
                if (count >= FULL) /* there is more: of this moment nothing is known yet */
                        drained = flow->status.drained;
                if (flow->calls != NULL)
                        sync_settle(flow->calls, drained);
                if (flow->calls != NULL && sync_rows(flow->calls) >= ROWS_MANY) /* sums have them all */
                        sync_forget_rows(flow->calls);
                look_open(flow);
                count_requests(flow);
                note_costs(flow, drained);
                renew_set(flow);
                flow->stream = NULL;
        }
        /* Whoever it was that asked for tracing: who comes next must not read what was. */
        if (stream != NULL)
                tell_stream(flow, stream);
}

void flow_status(const struct flow *flow, struct flow_status *status)
{
        *status = flow->status;
}

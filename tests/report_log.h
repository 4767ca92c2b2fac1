#pragma once
/*
 * For the tests of reports: a recording of a machine with 8 cores whose numbers are known, the first benchmark that watop was asked for:
 * per step and core us sy ni id wa hi si st as they were measured, and what the clients printed. Each phase has a sample at half its load
 * at both ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/log.h"
#include "tests/sealed.h"

enum { REPORT_LOG_CORES = 8, REPORT_LOG_STEPS = 4, REPORT_LOG_TICKS = 10 };

/* us, sy, ni, id, wa, hi, si, st of each core, tenths of a percent. */
static const unsigned report_log_cells[REPORT_LOG_STEPS][REPORT_LOG_CORES][8] = {
        {{109, 130, 0, 0, 620, 33, 109, 0}, {117, 149, 0, 0, 638, 32, 64, 0}, {191, 287, 0, 0, 372, 21, 128, 0},
                {97, 118, 0, 0, 656, 22, 108, 0},
         {87, 130, 0, 0, 663, 33, 87, 0}, {118, 118, 0, 0, 634, 22, 108, 0}, {95, 147, 0, 0, 663, 21, 74, 0},
                 {87, 130, 0, 0, 663, 22, 98, 0}},
        {{140, 237, 0, 0, 430, 32, 161, 0}, {129, 226, 0, 0, 452, 43, 151, 0}, {271, 365, 0, 0, 156, 31, 177, 0},
                {105, 242, 0, 0, 463, 32, 158, 0},
         {118, 226, 0, 0, 473, 32, 151, 0}, {138, 223, 0, 0, 468, 32, 138, 0}, {143, 235, 0, 0, 439, 41, 143, 0},
                 {129, 247, 0, 0, 452, 32, 140, 0}},
        {{141, 261, 0, 11, 359, 33, 196, 0}, {154, 264, 0, 0, 363, 22, 198, 0}, {306, 398, 0, 0, 82, 20, 194, 0},
                {141, 272, 0, 0, 359, 33, 196, 0},
         {141, 272, 0, 0, 370, 33, 185, 0}, {140, 280, 0, 0, 376, 22, 183, 0}, {172, 247, 0, 0, 366, 32, 183, 0},
                 {132, 286, 0, 0, 352, 33, 198, 0}},
        {{152, 359, 0, 0, 217, 22, 250, 0}, {156, 356, 0, 0, 211, 22, 256, 0}, {343, 402, 0, 0, 10, 20, 225, 0},
                {143, 341, 0, 0, 253, 33, 231, 0},
         {167, 367, 0, 0, 222, 22, 222, 0}, {170, 372, 0, 0, 223, 21, 213, 0}, {165, 341, 0, 0, 253, 22, 220, 0},
                 {163, 359, 0, 0, 217, 22, 239, 0}},
};
static const char *const report_log_names[REPORT_LOG_STEPS] = {"bench_01", "bench_02", "bench_04", "bench_08"};
static const unsigned report_log_clients[REPORT_LOG_STEPS] = {1, 2, 4, 8};
static const double report_log_rates[REPORT_LOG_STEPS][8] = {
        {91166.02}, {84238.90, 80853.81}, {64308.68, 61360.98, 61353.46, 61113.48},
        {45612.11, 45349.42, 45169.16, 44776.79, 44702.73, 44605.02, 44563.28, 44466.18},
};
static const double report_log_p50[REPORT_LOG_STEPS][8] = {
        {0.447}, {0.479, 0.487}, {0.591, 0.599, 0.607, 0.599}, {0.863, 0.871, 0.871, 0.863, 0.879, 0.871, 0.879, 0.879},
};

struct report_log {
        struct sealed s;
        struct log_writer *writer;
        uint64_t core[REPORT_LOG_CORES][8], server_user, server_system, disk, marks;
        uint64_t client_cpu[16], client_start[16];
        unsigned clients, next_pid;
        char output[16384], index[4096], runs[2048];
        char members[4096];
        size_t output_length, index_length, runs_length, members_length;
        uint64_t sequence;
};

static inline void report_log_clients_rows(struct report_log *l)
{
        for (unsigned i = 0; i < l->clients; i++) {
                struct row *row = sample_row(l->s.sample, SCOPE_PROCESS, (struct key){l->next_pid + i, l->client_start[i]}, l->s.mono);
                row_text(row, PROCESS_COMM, "redis-benchmark", 15);
                row_set(row, PROCESS_START, l->client_start[i]);
                row_set(row, PROCESS_USER_TIME, l->client_cpu[i]);
                row_set(row, PROCESS_SYSTEM_TIME, 0);
                row_set(row, PROCESS_PARENT, 49);
                row_set(row, PROCESS_CORE, i % REPORT_LOG_CORES);
        }
}

static inline void report_log_rows(struct report_log *l)
{
        static const int cpu[8] = {CPU_USER, CPU_SYSTEM, CPU_NICE, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL};
        struct sample *sample = l->s.sample;

        sample_scope_begin(sample, SCOPE_CPU, l->s.mono);
        for (uint64_t c = 0; c < REPORT_LOG_CORES; c++) {
                struct row *row = sample_row(sample, SCOPE_CPU, (struct key){c, 0}, 0);
                for (int i = 0; i < 8; i++)
                        row_set(row, cpu[i], l->core[c][i]);
                row_set(row, CPU_WA_DISK, 0);
                row_set(row, CPU_WA_URING, l->core[c][4]);
                row_set(row, CPU_WA_OTHER, 0);
        }
        sample_scope_end(sample, SCOPE_CPU, l->s.mono, GONE_EXITED);
        sample_scope_begin(sample, SCOPE_PROCESS, l->s.mono);
        struct row *row = sample_row(sample, SCOPE_PROCESS, (struct key){100, 5}, l->s.mono);
        row_text(row, PROCESS_COMM, "drag|on\033", 8);
        row_set(row, PROCESS_START, 5);
        row_set(row, PROCESS_USER_TIME, l->server_user);
        row_set(row, PROCESS_SYSTEM_TIME, l->server_system);
        row_set(row, PROCESS_CORE, l->sequence % 2);
        report_log_clients_rows(l);
        sample_scope_end(sample, SCOPE_PROCESS, l->s.mono, GONE_EXITED);
        sample_scope_begin(sample, SCOPE_DISK, l->s.mono);
        row = sample_row(sample, SCOPE_DISK, (struct key){7, 7}, 0);
        row_text(row, DISK_NAME, "vdz", 3);
        row_set(row, DISK_KIND, 'w');
        row_set(row, DISK_READS, 100 * l->disk);
        row_set(row, DISK_READS_MERGED, 10 * l->disk);
        row_set(row, DISK_READ_BYTES, 409600 * l->disk);
        row_set(row, DISK_READ_TIME, 50000000 * l->disk);
        row_set(row, DISK_WRITES, 0);
        row_set(row, DISK_WRITES_MERGED, 0);
        row_set(row, DISK_WRITE_BYTES, 0);
        row_set(row, DISK_WRITE_TIME, 0);
        row_set(row, DISK_IO_TIME, 250000000 * l->disk);
        row_set(row, DISK_QUEUE_TIME, 50000000 * l->disk);
        row_set(row, DISK_INFLIGHT, 0);
        sample_scope_end(sample, SCOPE_DISK, l->s.mono, GONE_EXITED);
        sample_scope_begin(sample, SCOPE_FACT, l->s.mono);
        row = sample_row(sample, SCOPE_FACT, (struct key){1, 1}, 0);
        row_text(row, FACT_NAME, "host", 4);
        row_text(row, FACT_VALUE, "dfly1", 5);
        sample_scope_end(sample, SCOPE_FACT, l->s.mono, GONE_EXITED);
}

/* One frame `ms` after the last one, in which each core was at `percent` of the step's load (the rest is iowait). mark: NULL none. */
static inline void report_log_frame(struct report_log *l, unsigned step, unsigned ms, unsigned percent, const char *mark)
{
        sealed_tick(&l->s, UINT64_C(1000000) * ms);
        for (unsigned c = 0; c < REPORT_LOG_CORES; c++)
                for (unsigned i = 0; i < 8; i++) {
                        uint64_t part = (uint64_t)report_log_cells[step][c][i] * ms * 1000;
                        if (i != 4)
                                l->core[c][4] += part * (100 - percent) / 100;
                        l->core[c][i] += i == 4 ? part : part * percent / 100;
                }
        l->server_user += UINT64_C(1000000) * ms * 71 / 100 * percent / 100;
        l->server_system += UINT64_C(1000000) * ms * 132 / 100 * percent / 100;
        for (unsigned i = 0; i < l->clients; i++)
                l->client_cpu[i] += UINT64_C(1000000) * ms / 10;
        l->disk += ms / 500;
        report_log_rows(l);
        sample_scope_begin(l->s.sample, SCOPE_MARK, l->s.mono);
        if (mark) {
                struct row *row = sample_row(l->s.sample, SCOPE_MARK, (struct key){++l->marks, 0}, 0);
                row_text(row, MARK_TEXT, mark, strlen(mark));
        }
        sample_scope_end(l->s.sample, SCOPE_MARK, l->s.mono, GONE_EXITED);
        l->s.flags = mark ? FRAME_MARK | FRAME_EXTRA : 0;
        sealed_seal(&l->s);
        l->sequence = l->s.frame->sequence;
        if (log_append(l->writer, l->s.frame, l->s.length) < 0)
                abort();
}

static inline void report_log_print(struct report_log *l, const char *text)
{
        l->index_length += (size_t)snprintf(l->index + l->index_length, sizeof l->index - l->index_length, "%llu %zu 1\n",
                                            (unsigned long long)l->s.mono, l->output_length);
        l->output_length += (size_t)snprintf(l->output + l->output_length, sizeof l->output - l->output_length, "%s", text);
}

static inline void report_log_client(struct report_log *l, unsigned i, uint64_t after_ns)
{
        l->client_start[i] = l->s.boot + after_ns;
        l->client_cpu[i] = 0;
        l->members_length += (size_t)snprintf(l->members + l->members_length, sizeof l->members - l->members_length, "%u %llu\n",
                                              l->next_pid + i,
                                              (unsigned long long)l->client_start[i]);
}

static inline void report_log_result(struct report_log *l, double rate, double p50)
{
        char line[200];

        snprintf(line, sizeof line, " \rSET: rps=0.0 (overall: -nan) avg_msec=-nan\rSET: %.2f requests per second, p50=%.3f msec\n", rate,
                 p50);
        report_log_print(l, line);
}

/* A phase of a step: `serial` clients run one after another. */
static inline void report_log_phase(struct report_log *l, unsigned step, const char *name, bool serial)
{
        unsigned clients = report_log_clients[step], all = clients;
        uint64_t from, start;

        report_log_frame(l, step, 100, 0, name);
        from = l->sequence;
        start = l->s.mono;
        l->clients = serial ? 1 : clients;
        for (unsigned i = 0; i < l->clients; i++)
                report_log_client(l, i, 10000000 * (i + 1));
        for (unsigned tick = 0; tick < REPORT_LOG_TICKS; tick++) {
                bool ramp = tick == 0 || tick + 1 == REPORT_LOG_TICKS;
                if (serial && tick > 0 && tick % (REPORT_LOG_TICKS / clients) == 0) {
                        report_log_result(l, report_log_rates[step][all - clients], report_log_p50[step][all - clients]);
                        l->next_pid++;
                        report_log_client(l, 0, 10000000);
                }
                report_log_frame(l, step, tick == 0 ? 900 : 1000, ramp ? 50 : 100, NULL);
        }
        if (serial)
                report_log_result(l, report_log_rates[step][clients - 1], report_log_p50[step][clients - 1]);
        for (unsigned i = 0; !serial && i < clients; i++)
                report_log_result(l, report_log_rates[step][i], report_log_p50[step][i]);
        l->next_pid += l->clients;
        l->clients = 0;
        report_log_frame(l, step, 200, 0, "end");
        l->runs_length += (size_t)snprintf(l->runs + l->runs_length, sizeof l->runs - l->runs_length,
                                           "%llu %llu 1 0 %llu %llu 1000000000 500000000 %s\n",
                (unsigned long long)from, (unsigned long long)l->sequence, (unsigned long long)start, (unsigned long long)l->s.mono, name);
}

static inline void report_log_note(struct report_log *l, const char *name, const char *text)
{
        if (log_note(l->writer, name, text, strlen(text)) < 0)
                abort();
}

static inline void report_log_begin(struct report_log *l, const char *path)
{
        memset(l, 0, sizeof *l);
        l->next_pid = 200;
        if (log_create(path, NULL, &l->writer) < 0)
                abort();
        sealed_open(&l->s);
        l->members_length = (size_t)snprintf(l->members, sizeof l->members, "rule cgroup unified /x\n");
        report_log_note(l, "kind", "list");
        report_log_note(l, "label", "t8 round 1");
        report_log_note(l, "watch", "dragon\n");
        report_log_frame(l, 0, 1000, 0, NULL);
}

static inline void report_log_end(struct report_log *l)
{
        report_log_note(l, "members", l->members);
        report_log_note(l, "watched", "rule watched\n100 5\n");
        report_log_note(l, "runs", l->runs);
        if (log_note(l->writer, "output", l->output, l->output_length) < 0 || log_note(l->writer, "output.index", l->index,
                                                                                       l->index_length) < 0)
                abort();
        report_log_note(l, "output.info", "path a.log.out\nbytes 1\nnote_offset 0\n");
        report_log_note(l, "cost", "watop_cpu_ns 30000000\nrelay_cpu_ns 10000000\nwatopd_cpu_ns 60000000\nwall_ns 100000000000\n");
        sealed_close(&l->s);
        if (log_finish(l->writer) < 0)
                abort();
}

/*
 * For scripts: a recording of a machine that never was, from a description on standard input: `log_steps FILE`. One word and its arguments
 * a line:
 *
 *   label TEXT | host TEXT        cores N                   in which part wa is: wait disk|uring|other
 *   cpu N US SY NI ID WA HI SI ST the core's shares from now on, %        wave PERCENT  they swing by so much, to have something to draw
 *   disk NAME R/S W/S KB/S AWAIT_MS UTIL   a device's work from now on
 *   task PID NAME USR SYS         a process's CPU from now on, %; `watched PID`
 *   phase TEXT | end              a mark                    print TEXT    a line of the command's output
 *   ticks N                       N samples of a second     gap SECONDS   the next sample comes so much later
 *   suspend SECONDS               the machine slept so long before the next sample
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/log.h"
#include "tests/sealed.h"

enum { CORES = 256, DISKS = 8, TASKS = 16 };

struct steps {
        struct sealed s;
        struct log_writer *writer;
        unsigned cores, disks, tasks;
        double share[CORES][8], wave;
        uint64_t core[CORES][8];
        int wait;
        struct { char name[32]; double r, w, kb, await, util; uint64_t reads, writes, bytes, read_ns, write_ns, busy; } disk[DISKS];
        struct { uint64_t pid; char name[16]; double usr, sys; uint64_t user, system; } task[TASKS];
        uint64_t marks, watched, tick, asleep;
        char *output, *index;
        size_t output_length, index_length;
        FILE *output_file, *index_file;
        char host[64];
};

static void cpu_rows(struct steps *l, double seconds)
{
        static const int slots[8] = {CPU_USER, CPU_SYSTEM, CPU_NICE, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL};

        sample_scope_begin(l->s.sample, SCOPE_CPU, l->s.mono);
        for (unsigned c = 0; c < l->cores; c++) {
                struct row *row = sample_row(l->s.sample, SCOPE_CPU, (struct key){c, 0}, 0);
                double swing = l->wave / 100 * sin((double)l->tick / (3 + c % 5) + c), rest = 0;
                for (int i = 0; i < 8; i++) {
                        double part = l->share[c][i] * seconds * 1e7, moved = i == 3 || i == 4 ? 0 : part * swing;
                        rest -= moved; /* what is not worked is waited, so that all is 100% */
                        l->core[c][i] += (uint64_t)llround(i == 4 ? 0 : part + moved);
                }
                double waited = l->share[c][4] * seconds * 1e7 + rest;
                l->core[c][4] += (uint64_t)llround(waited > 0 ? waited : 0);
                for (int i = 0; i < 8; i++)
                        row_set(row, slots[i], l->core[c][i]);
                for (int w = 0; w < 3; w++)
                        row_set(row, w == 0 ? CPU_WA_DISK : w == 1 ? CPU_WA_URING : CPU_WA_OTHER, w == l->wait ? l->core[c][4] : 0);
        }
        sample_scope_end(l->s.sample, SCOPE_CPU, l->s.mono, GONE_EXITED);
}

static void disk_rows(struct steps *l, double seconds)
{
        sample_scope_begin(l->s.sample, SCOPE_DISK, l->s.mono);
        for (unsigned d = 0; d < l->disks; d++) {
                double factor = 1 + l->wave / 100 * sin((double)l->tick / 4 + d), r = l->disk[d].r * seconds * factor,
                        w = l->disk[d].w * seconds * factor;
                l->disk[d].reads += (uint64_t)llround(r);
                l->disk[d].writes += (uint64_t)llround(w);
                l->disk[d].bytes += (uint64_t)llround(l->disk[d].kb * seconds * factor) * 1024;
                l->disk[d].read_ns += (uint64_t)llround(r) * (uint64_t)llround(l->disk[d].await * 1e6);
                l->disk[d].write_ns += (uint64_t)llround(w) * (uint64_t)llround(l->disk[d].await * 1e6);
                l->disk[d].busy += (uint64_t)llround(l->disk[d].util * seconds * 1e7);
                struct row *row = sample_row(l->s.sample, SCOPE_DISK, (struct key){d + 1, 7}, 0);
                row_text(row, DISK_NAME, l->disk[d].name, strlen(l->disk[d].name));
                row_set(row, DISK_KIND, 'w');
                row_set(row, DISK_READS, l->disk[d].reads);
                row_set(row, DISK_READ_BYTES, l->disk[d].r > 0 ? l->disk[d].bytes : 0);
                row_set(row, DISK_READ_TIME, l->disk[d].read_ns);
                row_set(row, DISK_WRITES, l->disk[d].writes);
                row_set(row, DISK_WRITE_BYTES, l->disk[d].r > 0 ? 0 : l->disk[d].bytes);
                row_set(row, DISK_WRITE_TIME, l->disk[d].write_ns);
                row_set(row, DISK_IO_TIME, l->disk[d].busy);
                row_set(row, DISK_QUEUE_TIME, l->disk[d].read_ns + l->disk[d].write_ns);
                row_set(row, DISK_INFLIGHT, 0);
        }
        sample_scope_end(l->s.sample, SCOPE_DISK, l->s.mono, GONE_EXITED);
}

static void task_rows(struct steps *l, double seconds)
{
        sample_scope_begin(l->s.sample, SCOPE_PROCESS, l->s.mono);
        for (unsigned t = 0; t < l->tasks; t++) {
                l->task[t].user += (uint64_t)llround(l->task[t].usr * seconds * 1e7);
                l->task[t].system += (uint64_t)llround(l->task[t].sys * seconds * 1e7);
                struct row *row = sample_row(l->s.sample, SCOPE_PROCESS, (struct key){l->task[t].pid, 5}, l->s.mono);
                row_text(row, PROCESS_COMM, l->task[t].name, strlen(l->task[t].name));
                row_set(row, PROCESS_START, 5);
                row_set(row, PROCESS_USER_TIME, l->task[t].user);
                row_set(row, PROCESS_SYSTEM_TIME, l->task[t].system);
                row_set(row, PROCESS_CORE, l->tick % (l->cores ? l->cores : 1));
        }
        sample_scope_end(l->s.sample, SCOPE_PROCESS, l->s.mono, GONE_EXITED);
}

static void fact(struct steps *l, uint64_t key, const char *name, const char *value)
{
        struct row *row = sample_row(l->s.sample, SCOPE_FACT, (struct key){key, 1}, 0);

        row_text(row, FACT_NAME, name, strlen(name));
        row_text(row, FACT_VALUE, value, strlen(value));
}

static void frame(struct steps *l, double seconds, const char *mark)
{
        l->s.boot += l->asleep;
        sealed_tick(&l->s, (uint64_t)llround(seconds * 1e9));
        l->tick++;
        cpu_rows(l, seconds);
        disk_rows(l, seconds);
        task_rows(l, seconds);
        sample_scope_begin(l->s.sample, SCOPE_FACT, l->s.mono);
        fact(l, 1, "host", l->host);
        fact(l, 2, "kernel", "5.14.0-503.35.1.el9_5");
        sample_scope_end(l->s.sample, SCOPE_FACT, l->s.mono, GONE_EXITED);
        sample_scope_begin(l->s.sample, SCOPE_MARK, l->s.mono);
        if (mark)
                row_text(sample_row(l->s.sample, SCOPE_MARK, (struct key){++l->marks, 0}, 0), MARK_TEXT, mark, strlen(mark));
        sample_scope_end(l->s.sample, SCOPE_MARK, l->s.mono, GONE_EXITED);
        l->s.flags = mark ? FRAME_MARK | FRAME_EXTRA : 0;
        l->s.missed = seconds > 1.5 ? (uint32_t)(seconds - 0.5) : 0;
        l->s.gap = l->asleep ? GAP_SUSPEND : l->s.missed ? GAP_LATE : GAP_NONE;
        l->asleep = 0;
        sealed_seal(&l->s);
        if (log_append(l->writer, l->s.frame, l->s.length) < 0)
                exit(1);
}

static void note(struct steps *l, const char *name, const char *text)
{
        if (log_note(l->writer, name, text, strlen(text)) < 0)
                exit(1);
}

static void print(struct steps *l, const char *text)
{
        fprintf(l->index_file, "%" PRIu64 " %ld 1\n", l->s.mono, ftell(l->output_file));
        fprintf(l->output_file, "%s\n", text);
}

static int set_cpu(struct steps *l, const char *text)
{
        unsigned n;
        double v[8];

        if (sscanf(text, "%u %lf %lf %lf %lf %lf %lf %lf %lf", &n, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) != 9 || n >= CORES)
                return -1;
        memcpy(l->share[n], v, sizeof v);
        l->cores = n >= l->cores ? n + 1 : l->cores;
        return 0;
}

static int set_disk(struct steps *l, const char *text)
{
        char name[32];
        double r, w, kb, await, util;
        unsigned d = 0;

        if (sscanf(text, "%31s %lf %lf %lf %lf %lf", name, &r, &w, &kb, &await, &util) != 6)
                return -1;
        while (d < l->disks && strcmp(l->disk[d].name, name) != 0)
                d++;
        if (d == DISKS)
                return -1;
        l->disks = d == l->disks ? d + 1 : l->disks;
        memcpy(l->disk[d].name, name, sizeof name);
        l->disk[d].r = r, l->disk[d].w = w, l->disk[d].kb = kb, l->disk[d].await = await, l->disk[d].util = util;
        return 0;
}

static int set_task(struct steps *l, const char *text)
{
        uint64_t pid;
        char name[16];
        double usr, sys;
        unsigned t = 0;

        if (sscanf(text, "%" SCNu64 " %15s %lf %lf", &pid, name, &usr, &sys) != 4)
                return -1;
        while (t < l->tasks && l->task[t].pid != pid)
                t++;
        if (t == TASKS)
                return -1;
        l->tasks = t == l->tasks ? t + 1 : l->tasks;
        l->task[t].pid = pid, l->task[t].usr = usr, l->task[t].sys = sys;
        memcpy(l->task[t].name, name, sizeof name);
        return 0;
}

/* One line; -1 when it says nothing known. */
static int obey(struct steps *l, const char *word, const char *text)
{
        if (strcmp(word, "label") == 0)
                note(l, "label", text);
        else if (strcmp(word, "host") == 0)
                snprintf(l->host, sizeof l->host, "%.60s", text);
        else if (strcmp(word, "cores") == 0)
                l->cores = (unsigned)strtoul(text, NULL, 10) % CORES;
        else if (strcmp(word, "wait") == 0)
                l->wait = text[0] == 'd' ? 0 : text[0] == 'u' ? 1 : 2;
        else if (strcmp(word, "wave") == 0)
                l->wave = strtod(text, NULL);
        else if (strcmp(word, "watched") == 0)
                l->watched = strtoull(text, NULL, 10);
        else if (strcmp(word, "cpu") == 0)
                return set_cpu(l, text);
        else if (strcmp(word, "disk") == 0)
                return set_disk(l, text);
        else if (strcmp(word, "task") == 0)
                return set_task(l, text);
        else if (strcmp(word, "phase") == 0 || strcmp(word, "end") == 0)
                frame(l, 0.1, strcmp(word, "end") == 0 ? "end" : text);
        else if (strcmp(word, "print") == 0)
                print(l, text);
        else if (strcmp(word, "gap") == 0)
                frame(l, 1 + strtod(text, NULL), NULL);
        else if (strcmp(word, "suspend") == 0)
                l->asleep = strtoull(text, NULL, 10) * SECOND;
        else if (strcmp(word, "ticks") == 0)
                for (unsigned long n = strtoul(text, NULL, 10); n > 0; n--)
                        frame(l, 1, NULL);
        else
                return -1;
        return 0;
}

static void finish(struct steps *l)
{
        char watched[64];

        fclose(l->output_file);
        fclose(l->index_file);
        note(l, "kind", "open");
        if (l->watched) {
                snprintf(watched, sizeof watched, "rule watched\n%" PRIu64 " 5\n", l->watched);
                note(l, "watched", watched);
                note(l, "watch", "the server\n");
        }
        if (log_note(l->writer, "output", l->output, l->output_length) < 0 || log_note(l->writer, "output.index", l->index,
                l->index_length) < 0)
                exit(1);
        note(l, "output.info", "path out\nbytes 1\nnote_offset 0\n");
        note(l, "cost", "watop_cpu_ns 3000000\nrelay_cpu_ns 1000000\nwatopd_cpu_ns 96000000\nwall_ns 100000000000\n");
        if (log_finish(l->writer) < 0)
                exit(1);
        sealed_close(&l->s);
        free(l->output);
        free(l->index);
}

int main(int argc, char **argv)
{
        static struct steps l;
        char *line = NULL;
        size_t room = 0;
        ssize_t length;

        if (argc != 2 || log_create(argv[1], &(struct log_create_options){.force = true}, &l.writer) < 0)
                return 2;
        sealed_open(&l.s);
        snprintf(l.host, sizeof l.host, "dfly1");
        l.output_file = open_memstream(&l.output, &l.output_length);
        l.index_file = open_memstream(&l.index, &l.index_length);
        if (!l.output_file || !l.index_file)
                return 1;
        while ((length = getline(&line, &room, stdin)) > 0) {
                line[strcspn(line, "\n")] = '\0';
                size_t word = strcspn(line, " ");
                char *text = line + word + (line[word] == ' ');
                line[word] = '\0';
                if (line[0] && line[0] != '#' && obey(&l, line, text) < 0) {
                        fprintf(stderr, "log_steps: %s %s?\n", line, text);
                        return 2;
                }
        }
        free(line);
        finish(&l);
        return 0;
}

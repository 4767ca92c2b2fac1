/*
 * What the tracer costs, by the kernel's own run-time statistics of BPF programs, net of an empty program on the same events.
 *
 *     bench_tracer FILE [ROUNDS]        FILE: at least 1 MiB, on a block device, readable with O_DIRECT
 *
 * Three loads on the last core: a byte sent back and forth between two threads (switches that are not in iowait), the same beside a parked
 * io_uring thread with pauses (the core goes idle with somebody asleep), and O_DIRECT reads one at a time (switches in iowait, block
 * requests). Medians of the rounds.
 */
#include "collectors/bpf/tracer.h"
#include "lab/lab_uring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/eventfd.h>
#include <time.h>

enum { ROUNDS_MAX = 31, PROGRAMS = 32, SWITCHES = 40000, PAUSES = 4000, READS = 6000 };

struct program {
        char name[32];
        int fd;
        uint64_t ns, count;
};

static struct program programs[PROGRAMS], empty[PROGRAMS];
static size_t program_count;
static int core, file;

static uint64_t now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------------ */

static uint32_t last_program(void)
{
        uint32_t id = 0;
        while (bpf_prog_get_next_id(id, &id) == 0)
                ;
        return id;
}

/* The kernel's list of programs: those of the tracer, which were loaded after `id`. Others may trace too. */
static void find_programs(uint32_t id)
{
        while (program_count < PROGRAMS && bpf_prog_get_next_id(id, &id) == 0) {
                struct bpf_prog_info info = {0};
                uint32_t length = sizeof info;
                int fd = bpf_prog_get_fd_by_id(id);
                if (fd < 0)
                        continue;
                bool known = bpf_obj_get_info_by_fd(fd, &info, &length) == 0 && info.type == BPF_PROG_TYPE_TRACING;
                if (!known || strncmp(info.name, "watop_", 6) != 0) {
                        close(fd);
                        continue;
                }
                snprintf(programs[program_count].name, sizeof programs[0].name, "%s", info.name);
                programs[program_count++].fd = fd;
        }
}

/* return 0, on a raw tracepoint; stays attached until the program ends. */
static void attach_empty(const char *event)
{
        static size_t count;
        struct bpf_insn insns[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
        DECLARE_LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
        int id = libbpf_find_vmlinux_btf_id(event, BPF_TRACE_RAW_TP);
        if (id <= 0)
                return;
        options.attach_btf_id = (unsigned)id;
        int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", insns, 2, &options);
        if (fd < 0 || bpf_raw_tracepoint_open(NULL, fd) < 0)
                lab_die("empty program");
        snprintf(empty[count].name, sizeof empty[0].name, "%s", event);
        empty[count++].fd = fd;
}

static void read_counts(struct program *list, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                struct bpf_prog_info info = {0};
                uint32_t length = sizeof info;
                if (list[i].name[0] && bpf_obj_get_info_by_fd(list[i].fd, &info, &length) == 0) {
                        list[i].ns = info.run_time_ns - list[i].ns;
                        list[i].count = info.run_cnt - list[i].count;
                }
        }
}

static const struct program *named(const struct program *list, const char *name)
{
        static const struct program none;
        for (size_t i = 0; i < PROGRAMS; i++)
                if (strcmp(list[i].name, name) == 0)
                        return &list[i];
        return &none;
}

static double each(const struct program *program)
{
        return program->count ? (double)program->ns / (double)program->count : 0;
}

static double net(const char *program, const char *event)
{
        return each(named(programs, program)) - each(named(empty, event));
}

/* ---- loads --------------------------------------------------------------------------------------------------------------------------- */

struct pair {
        int there, back;
        unsigned count, pause_us;
};

static void *answer(void *arg)
{
        const struct pair *pair = arg;
        uint64_t value;
        lab_pin(core);
        for (unsigned i = 0; i < pair->count; i++)
                if (read(pair->there, &value, 8) != 8 || write(pair->back, &value, 8) != 8)
                        break;
        return arg;
}

static void back_and_forth(unsigned count, unsigned pause_us)
{
        struct pair pair = {.there = eventfd(0, 0), .back = eventfd(0, 0), .count = count, .pause_us = pause_us};
        pthread_t thread;
        uint64_t one = 1;
        pthread_create(&thread, NULL, answer, &pair);
        for (unsigned i = 0; i < count; i++) {
                if (write(pair.there, &one, 8) != 8 || read(pair.back, &one, 8) != 8)
                        break;
                if (pause_us)
                        usleep(pause_us);
        }
        pthread_join(thread, NULL);
        close(pair.there);
        close(pair.back);
}

static void reads(void)
{
        void *buffer;
        if (posix_memalign(&buffer, 4096, 4096) != 0)
                return;
        for (unsigned i = 0; i < READS; i++)
                if (pread(file, buffer, 4096, (off_t)(i % 256) * 4096) != 4096)
                        lab_die("pread");
        free(buffer);
}

static void *park(void *arg)
{
        struct lab_ring ring;
        lab_pin(core);
        lab_ring_open(&ring, 0);
        lab_request(&ring, IORING_OP_POLL_ADD, eventfd(0, 0))->poll32_events = POLLIN;
        lab_enter(&ring, 1, 0);
        return arg;
}

/* ---- figures ------------------------------------------------------------------------------------------------------------------------- */

enum figure { EMPTY, PLAIN, WAKING, BESIDE, IOWAIT, WAKING_IOWAIT, REQUEST, FIGURES };

static const char *const figure_names[FIGURES] = {
        "empty program on sched_switch", "sched_switch not in iowait", "sched_waking not in iowait",
        "sched_switch to and from idle beside a parked ring", "sched_switch in iowait", "sched_waking in iowait",
        "block request (all its events)",
};

static double figures[FIGURES][ROUNDS_MAX];

/* Counters become their growth under the load: read_counts turns an older reading into the difference to a newer one. */
static void measure(void (*load)(void))
{
        for (size_t i = 0; i < PROGRAMS; i++)
                programs[i].ns = programs[i].count = empty[i].ns = empty[i].count = 0;
        read_counts(programs, program_count);
        read_counts(empty, PROGRAMS);
        load();
        read_counts(programs, program_count);
        read_counts(empty, PROGRAMS);
}

static void load_plain(void)
{
        back_and_forth(SWITCHES, 0);
}

static void load_beside(void)
{
        back_and_forth(PAUSES, 50);
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

static void round_of(unsigned round, bool parked)
{
        if (parked) {
                        measure(load_beside);
                figures[BESIDE][round] = net("watop_switch", "sched_switch");
                return;
        }
        measure(load_plain);
        figures[EMPTY][round] = each(named(empty, "sched_switch"));
        figures[PLAIN][round] = net("watop_switch", "sched_switch");
        figures[WAKING][round] = net("watop_waking", "sched_waking");
        measure(reads);
        figures[IOWAIT][round] = net("watop_switch", "sched_switch");
        figures[WAKING_IOWAIT][round] = net("watop_waking", "sched_waking");
        static const char *const block[][2] = {
                {"watop_queue", "block_bio_queue"}, {"watop_complete", "block_rq_complete"}, {"watop_done", "block_io_done"},
        };
        figures[REQUEST][round] = 0;
        for (size_t i = 0; i < sizeof block / sizeof block[0]; i++)
                figures[REQUEST][round] += net(block[i][0], block[i][1]);
}

int main(int argc, char **argv)
{
        struct tracer *tracer;
        char why[256];
        pthread_t thread;
        unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 11;
        rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
        file = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
        if (file < 0)
                lab_die(argc > 1 ? argv[1] : "bench_tracer FILE [ROUNDS]");
        uint32_t others = last_program();
        if (tracer_open(&tracer, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 77;
        }
        find_programs(others);
        if (tracer_attach(tracer, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 77;
        }
        int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME); /* until it is closed */
        if (statistics < 0)
                lab_die("BPF_ENABLE_STATS");
        static const char *const events[] = {"sched_switch", "sched_waking", "block_bio_queue", "block_rq_complete", "block_io_done"};
        for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
                attach_empty(events[i]);
        core = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
        lab_pin(core);
        uint64_t start = now();
        for (unsigned i = 0; i < rounds; i++)
                round_of(i, false);
        pthread_create(&thread, NULL, park, NULL);
        usleep(100000);
        for (unsigned i = 0; i < rounds; i++)
                round_of(i, true);
        for (size_t f = 0; f < FIGURES; f++) {
                qsort(figures[f], rounds, sizeof figures[f][0], compare);
                printf("%6.1f ns  (%.1f to %.1f)  %s\n", figures[f][rounds / 2], figures[f][0], figures[f][rounds - 1], figure_names[f]);
        }
        fprintf(stderr, "%u rounds in %.1f s\n", rounds, (double)(now() - start) / 1e9);
        tracer_close(tracer);
        close(statistics);
        fflush(stdout);
        _exit(0);
}

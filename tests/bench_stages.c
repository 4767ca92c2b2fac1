/*
 * What the block tracer costs, by the kernel's own run-time statistics of BPF programs, net of an empty program on the same events, and
 * whether it keeps up. "clocks": what one read of the clock at each of the same events costs, so what no program can go below; "empty": the
 * programs that do nothing, which is taken off all.
 *
 *     bench_stages [ROUNDS [quick]]     quick: the first load only
 *     bench_stages hold [calls]         attached (with calls: those, too) and drained, until standard input ends; says "ready"
 *
 * Loads on a loop device over memory: two threads, each with a ring of 32 random O_DIRECT reads of 4 KiB, without and with a scheduler; one
 * thread that reads one after the other. A third thread drains every 20 ms, as watopd does. And what a system call that is none of those
 * traced costs while calls are traced, by the clock. Medians of the rounds.
 */
#include "collectors/bpf/stage_tracer.h"
#include "lab/lab_uring.h"
#include "loop_disk.h"
#include "sample/stage_stream.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <time.h>

enum { ROUNDS_MAX = 31, PROGRAMS = 8, DISK_BYTES = 256 << 20, BLOCK = 4096, DEPTH = 32, THREADS = 2, SECONDS = 1, CALLS = 400000 };

/* The events of one request, and the program on each. */
static const struct { const char *event, *program; } traced[] = {
        {"block_bio_queue", "watopb_queue"}, {"block_getrq", "watopb_getrq"}, {"block_rq_insert", "watopb_insert"},
        {"block_rq_issue", "watopb_issue"}, {"block_rq_complete", "watopb_complete"},
};
enum { EVENTS = sizeof traced / sizeof *traced };

struct program {
        int fd;
        uint64_t ns, count;
};

static struct program ours[EVENTS], empty[EVENTS], clocks[EVENTS];
static struct loop_disk disk;
static struct stage_tracer *tracer;
static volatile bool over;
static uint64_t drained, reads_done;

static uint64_t now(void)
{
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------------ */

static void find_ours(uint32_t id)
{
        while (bpf_prog_get_next_id(id, &id) == 0) {
                struct bpf_prog_info info = {0};
                uint32_t length = sizeof info;
                int fd = bpf_prog_get_fd_by_id(id);
                bool kept = false;
                if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
                        for (size_t i = 0; i < EVENTS; i++)
                                if (strcmp(info.name, traced[i].program) == 0 && ours[i].fd == 0) {
                                        ours[i].fd = fd;
                                        kept = true;
                                }
                if (fd >= 0 && !kept)
                        close(fd);
        }
}

/* return 0, after a read of the clock or at once; stays attached until the program ends. */
static void attach_small(struct program *list, size_t which, bool reads_clock)
{
        struct bpf_insn insns[] = {{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns}, {.code = BPF_ALU64 | BPF_MOV | BPF_K},
                {.code = BPF_JMP | BPF_EXIT}};
        const struct bpf_insn *first = reads_clock ? insns : insns + 1;
        DECLARE_LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
        int id = libbpf_find_vmlinux_btf_id(traced[which].event, BPF_TRACE_RAW_TP);
        if (id <= 0)
                return;
        options.attach_btf_id = (unsigned)id;
        int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "small", "GPL", first, reads_clock ? 3 : 2, &options);
        if (fd < 0 || bpf_raw_tracepoint_open(NULL, fd) < 0)
                lab_die("empty program");
        list[which].fd = fd;
}

/* An older reading becomes the difference to now. */
static void read_counts(struct program *list)
{
        for (size_t i = 0; i < EVENTS; i++) {
                struct bpf_prog_info info = {0};
                uint32_t length = sizeof info;
                if (list[i].fd > 0 && bpf_obj_get_info_by_fd(list[i].fd, &info, &length) == 0) {
                        list[i].ns = info.run_time_ns - list[i].ns;
                        list[i].count = info.run_cnt - list[i].count;
                }
        }
}

static double each(const struct program *program)
{
        return program->count ? (double)program->ns / (double)program->count : 0;
}

/* ---- loads --------------------------------------------------------------------------------------------------------------------------- */

static void *drain(void *arg)
{
        enum { ROOM = 1 << 15 };
        static struct stage_record records[ROOM];
        size_t n;
        while (!over) {
                usleep(20000);
                while ((n = stage_tracer_drain(tracer, records, ROOM)) > 0)
                        drained += n;
        }
        return arg;
}

static void *ring_reads(void *arg)
{
        struct lab_ring ring;
        char *memory;
        unsigned seed = (unsigned)(uintptr_t)arg * 7919u + 1;
        uint64_t done = 0;
        if (posix_memalign((void **)&memory, BLOCK, DEPTH * BLOCK) != 0)
                return NULL;
        lab_ring_open(&ring, 0);
        for (unsigned open = 0; !over || open > 0;) {
                while (!over && open < DEPTH) {
                        struct io_uring_sqe *sqe = lab_request(&ring, IORING_OP_READ, disk.fd);
                        sqe->addr = (uint64_t)(uintptr_t)(memory + (size_t)open * BLOCK);
                        sqe->len = BLOCK;
                        sqe->off = (uint64_t)((unsigned)rand_r(&seed) % (DISK_BYTES / BLOCK)) * BLOCK;
                        open++;
                }
                lab_enter(&ring, 1, 0);
                while (lab_reap(&ring, NULL)) {
                        open--;
                        done++;
                }
        }
        __atomic_fetch_add(&reads_done, done, __ATOMIC_RELAXED);
        close(ring.fd);
        free(memory);
        return arg;
}

static void *single_reads(void *arg)
{
        char *memory;
        uint64_t done = 0;
        if (posix_memalign((void **)&memory, BLOCK, BLOCK) != 0)
                return NULL;
        for (unsigned i = 0; !over; i++, done++)
                if (pread(disk.fd, memory, BLOCK, (off_t)(i * 7919u % (DISK_BYTES / BLOCK)) * BLOCK) != BLOCK)
                        lab_die("pread");
        __atomic_fetch_add(&reads_done, done, __ATOMIC_RELAXED);
        free(memory);
        return arg;
}

/* ---- figures ------------------------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

static double middle(double *values, unsigned count)
{
        qsort(values, count, sizeof *values, compare);
        return values[count / 2];
}

static void measure(const char *name, const char *scheduler, void *(*load)(void *), unsigned threads, unsigned rounds)
{
        static double net[EVENTS][ROUNDS_MAX], tick[ROUNDS_MAX], bare[ROUNDS_MAX], sum[ROUNDS_MAX], rate[ROUNDS_MAX];
        struct stage_tracer_stats before, after;
        pthread_t drainer, loads[THREADS];
        uint64_t requests = 0;
        if (!loop_set(&disk, "scheduler", scheduler)) {
                printf("%s: skipped: no scheduler %s\n", name, scheduler);
                return;
        }
        stage_tracer_stats(tracer, &before);
        for (unsigned round = 0; round < rounds; round++) {
                memset(&reads_done, 0, sizeof reads_done);
                over = false;
                for (size_t i = 0; i < EVENTS; i++)
                        ours[i].ns = ours[i].count = empty[i].ns = empty[i].count = clocks[i].ns = clocks[i].count = 0;
                read_counts(ours);
                read_counts(empty);
                read_counts(clocks);
                uint64_t start = now();
                pthread_create(&drainer, NULL, drain, NULL);
                for (unsigned i = 0; i < threads; i++)
                        pthread_create(&loads[i], NULL, load, (void *)(uintptr_t)i);
                usleep(SECONDS * 1000000);
                over = true;
                for (unsigned i = 0; i < threads; i++)
                        pthread_join(loads[i], NULL);
                pthread_join(drainer, NULL);
                read_counts(ours);
                read_counts(empty);
                read_counts(clocks);
                rate[round] = (double)reads_done / ((double)(now() - start) / 1e9);
                requests += reads_done;
                sum[round] = tick[round] = bare[round] = 0;
                for (size_t i = 0; i < EVENTS; i++) {
                        bool used = ours[i].count >= reads_done / 2;
                        net[i][round] = used ? each(&ours[i]) - each(&empty[i]) : 0;
                        sum[round] += net[i][round];
                        tick[round] += used ? each(&clocks[i]) - each(&empty[i]) : 0;
                        bare[round] += used ? each(&empty[i]) : 0;
                }
        }
        stage_tracer_stats(tracer, &after);
        printf("%-40s %8.0f reads/s ", name, middle(rate, rounds));
        for (size_t i = 0; i < EVENTS; i++)
                printf(" %s %.0f", traced[i].program + 7, middle(net[i], rounds));
        double typical = middle(sum, rounds);
        printf("; request %.0f ns (%.0f to %.0f), clocks %.0f, empty %.0f", typical, sum[0], sum[rounds - 1], middle(tick, rounds),
                middle(bare, rounds));
        printf("; lost %llu, unmatched %llu, crowded %llu of %llu\n", (unsigned long long)(after.lost - before.lost),
                (unsigned long long)(after.unmatched - before.unmatched), (unsigned long long)(after.crowded - before.crowded),
                (unsigned long long)requests);
}

static double ns_per_call(void)
{
        uint64_t start = now();
        for (unsigned i = 0; i < CALLS; i++)
                syscall(SYS_getppid);
        return (double)(now() - start) / CALLS;
}

static void measure_calls(unsigned rounds)
{
        static double off[ROUNDS_MAX], on[ROUNDS_MAX];
        char why[256];
        for (unsigned round = 0; round < rounds; round++) {
                if (stage_tracer_attach(tracer, STREAM_WHAT_SYNC, why, sizeof why) < 0) {
                        printf("calls: skipped: %s\n", why);
                        return;
                }
                on[round] = ns_per_call();
                stage_tracer_attach(tracer, 0, why, sizeof why);
                off[round] = ns_per_call();
        }
        double without = middle(off, rounds), with = middle(on, rounds);
        printf("%-40s %.0f ns, while calls are traced %.0f ns: %.0f more\n", "a system call that is not traced", without, with,
                with - without);
}

static int hold(bool calls)
{
        char why[256], byte;
        pthread_t drainer;
        unsigned what = calls ? STREAM_WHAT_BIOS | STREAM_WHAT_SYNC : STREAM_WHAT_BIOS;
        if (stage_tracer_open(&tracer, why, sizeof why) < 0 || stage_tracer_attach(tracer, what, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 77;
        }
        pthread_create(&drainer, NULL, drain, NULL);
        puts("ready");
        fflush(stdout);
        while (read(0, &byte, 1) > 0)
                ;
        over = true;
        pthread_join(drainer, NULL);
        struct stage_tracer_stats stats;
        stage_tracer_stats(tracer, &stats);
        printf("%llu %llu\n", (unsigned long long)stats.records, (unsigned long long)stats.lost);
        stage_tracer_close(tracer);
        return 0;
}

int main(int argc, char **argv)
{
        char why[256];
        if (argc > 1 && strcmp(argv[1], "hold") == 0)
                return hold(argc > 2);
        unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5;
        bool quick = argc > 2;
        uint32_t others = 0;
        rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
        while (bpf_prog_get_next_id(others, &others) == 0)
                ;
        if (loop_disk_open(&disk, DISK_BYTES) < 0) {
                fprintf(stderr, "no loop device\n");
                return 77;
        }
        if (stage_tracer_open(&tracer, why, sizeof why) < 0 || stage_tracer_attach(tracer, STREAM_WHAT_BIOS, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 77;
        }
        find_ours(others);
        int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME); /* until it is closed */
        if (statistics < 0)
                lab_die("BPF_ENABLE_STATS");
        for (size_t i = 0; i < EVENTS; i++) {
                attach_small(empty, i, false);
                attach_small(clocks, i, true);
        }
        measure("2 rings of 32, no scheduler", "none", ring_reads, THREADS, rounds);
        if (!quick) {
                measure("2 rings of 32, mq-deadline", "mq-deadline", ring_reads, THREADS, rounds);
                measure("one read after the other, no scheduler", "none", single_reads, 1, rounds);
        }
        close(statistics);
        stage_tracer_attach(tracer, 0, why, sizeof why);
        if (!quick)
                measure_calls(rounds);
        stage_tracer_close(tracer);
        loop_disk_close(&disk);
        return 0;
}

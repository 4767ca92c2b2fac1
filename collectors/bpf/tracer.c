/*
 * The exact method's loader: opens, attaches and detaches the BPF programs, finds who sleeps already. See tracer.h.
 *
 * Everything that needs rights (maps, programs) is made by tracer_open; attaching, iterating and test runs need none beyond the
 * descriptors, on kernels that allow that (since about 5.19; older ones ask for CAP_BPF while kernel.unprivileged_bpf_disabled is set). The
 * state is zeroed before each attach, so a detached tracer costs its memory and nothing else.
 */
#include "collectors/bpf/program.h"
#include "collectors/bpf/tracer_own.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* inode of the first pid namespace, PROC_PID_INIT_INO */
#define KERNEL_PID_NAMESPACE 0xEFFFFFFCul

#ifndef BPF_F_TEST_RUN_ON_CPU
#define BPF_F_TEST_RUN_ON_CPU 1u
#endif

/* ---- open ---------------------------------------------------------------------------------------------------------------------------- */

static void *map_memory(struct tracer *tracer, const char *name, size_t size)
{
        int fd = bpf_object__find_map_fd_by_name(tracer->object, name);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return memory == MAP_FAILED ? NULL : memory;
}

static int map_all(struct tracer *tracer)
{
        tracer->cores = map_memory(tracer, "cores", tracer->cpus * sizeof *tracer->cores);
        tracer->places = map_memory(tracer, "places", PLACES * sizeof *tracer->places);
        tracer->waiters = map_memory(tracer, "waiters", WAITERS * sizeof *tracer->waiters);
        tracer->tally = map_memory(tracer, "tallies", sizeof *tracer->tally);
        tracer->rings = bpf_object__find_map_fd_by_name(tracer->object, "rings");
        tracer->operations = bpf_object__find_map_fd_by_name(tracer->object, "operations");
        tracer->sum = calloc(tracer->cpus, sizeof *tracer->sum);
        tracer->off = calloc(tracer->cpus, sizeof *tracer->off);
        tracer->off_looks = calloc(tracer->cpus, sizeof *tracer->off_looks);
        bool mapped = tracer->cores && tracer->places && tracer->waiters && tracer->tally;
        return mapped && tracer->sum && tracer->off && tracer->off_looks ? 0 : -ENOMEM;
}

static int load(struct tracer *tracer, char *why, size_t size)
{
        bool fetch = tracer_has_fetch();
        DECLARE_LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "watop");
        program_listen();
        const unsigned char *programs = fetch ? tracer_programs : tracer_programs_plain;
        tracer->object = bpf_object__open_mem(programs, fetch ? tracer_programs_size : tracer_programs_plain_size, &options);
        long error = libbpf_get_error(tracer->object);
        if (!tracer->object || error) {
                tracer->object = NULL;
                return program_explain(error ? (int)error : -errno, "opening the built-in programs", why, size);
        }
        int cpus = libbpf_num_possible_cpus();
        if (cpus <= 0)
                return program_explain(cpus, "counting the possible CPUs", why, size);
        tracer->cpus = (size_t)cpus;
        int r = tracer_choose(tracer, why, size);
        if (r < 0)
                return r;
        struct bpf_map *cores = bpf_object__find_map_by_name(tracer->object, "cores");
        r = cores ? bpf_map__set_max_entries(cores, (unsigned)cpus) : -ENOENT;
        r = r ? r : bpf_object__load(tracer->object);
        if (r < 0)
                return program_explain(r, "loading the programs", why, size);
        r = map_all(tracer);
        return r < 0 ? program_explain(r, "mapping the programs' memory", why, size) : 0;
}

int tracer_open(struct tracer **out, char *why, size_t size)
{
        struct stat namespace;
        why[0] = '\0';
        if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
                snprintf(why, size, "this kernel has no type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)");
                return -ENOENT;
        }
        struct tracer *tracer = calloc(1, sizeof *tracer);
        if (!tracer)
                return program_explain(-ENOMEM, "allocating", why, size);
        tracer->own_namespace = stat("/proc/self/ns/pid", &namespace) != 0 || namespace.st_ino != KERNEL_PID_NAMESPACE;
        int r = load(tracer, why, size);
        if (r < 0) {
                tracer_close(tracer);
                return r;
        }
        *out = tracer;
        return 0;
}

void tracer_close(struct tracer *tracer)
{
        if (!tracer)
                return;
        tracer_detach(tracer);
        if (tracer->cores)
                munmap(tracer->cores, tracer->cpus * sizeof *tracer->cores);
        if (tracer->places)
                munmap(tracer->places, PLACES * sizeof *tracer->places);
        if (tracer->waiters)
                munmap(tracer->waiters, WAITERS * sizeof *tracer->waiters);
        if (tracer->tally)
                munmap(tracer->tally, sizeof *tracer->tally);
        bpf_object__close(tracer->object);
        free(tracer->sum);
        free(tracer->off);
        free(tracer->off_looks);
        free(tracer);
}

/* ---- attach -------------------------------------------------------------------------------------------------------------------------- */

static void empty(int map)
{
        uint64_t key;
        for (unsigned i = 0; i < OPERATIONS && bpf_map_get_next_key(map, NULL, &key) == 0; i++)
                if (bpf_map_delete_elem(map, &key) != 0)
                        return;
}

static void forget(struct tracer *tracer)
{
        memset(tracer->places, 0, PLACES * sizeof *tracer->places);
        memset(tracer->cores, 0, tracer->cpus * sizeof *tracer->cores);
        memset(tracer->tally, 0, sizeof *tracer->tally);
        memset(tracer->gone_since, 0, sizeof tracer->gone_since);
        memset(tracer->off_looks, 0, tracer->cpus * sizeof *tracer->off_looks);
        tracer->healed = tracer->rings_dropped = 0;
        empty(tracer->operations);
        empty(tracer->rings);
}

/* Run through all tasks once: watop_seed takes those that sleep in iowait. */
static int seed(struct tracer *tracer)
{
        char none[256];
        ssize_t n;
        struct bpf_link *link = bpf_program__attach_iter(tracer->seed, NULL);
        if (!link || libbpf_get_error(link))
                return errno ? -errno : -EINVAL;
        int fd = bpf_iter_create(bpf_link__fd(link)), r = fd < 0 ? -errno : 0;
        if (fd >= 0) {
                do
                        n = read(fd, none, sizeof none);
                while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
                r = n < 0 ? -errno : 0;
                close(fd);
        }
        bpf_link__destroy(link);
        return r;
}

/* Before 5.10 a program cannot be run on a chosen CPU: to visit each has the same effect, since that is a switch from idle and back. */
static void visit(size_t cpus)
{
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *before = CPU_ALLOC(cpus), *one = CPU_ALLOC(cpus);
        if (before && one && sched_getaffinity(0, bytes, before) == 0) {
                for (size_t cpu = 0; cpu < cpus; cpu++) {
                        CPU_ZERO_S(bytes, one);
                        CPU_SET_S(cpu, bytes, one);
                        sched_setaffinity(0, bytes, one);
                }
                sched_setaffinity(0, bytes, before);
        }
        CPU_FREE(before);
        CPU_FREE(one);
}

int tracer_touch(struct tracer *tracer, unsigned cpu)
{
        DECLARE_LIBBPF_OPTS(bpf_test_run_opts, options, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);
        return bpf_prog_test_run_opts(bpf_program__fd(tracer->touch), &options) != 0 ? -errno : 0;
}

/* Cores that are idle now, with somebody asleep on them, count from now. */
static void touch(struct tracer *tracer)
{
        for (size_t cpu = 0; cpu < tracer->cpus; cpu++) {
                int r = tracer_touch(tracer, (unsigned)cpu);
                if (r < 0 && r != -ENXIO) { /* ENXIO: off-line */
                        visit(tracer->cpus);
                        return;
                }
        }
}

int tracer_attach(struct tracer *tracer, char *why, size_t size)
{
        struct timespec start;
        why[0] = '\0';
        if (tracer->attached)
                return 0;
        forget(tracer);
        clock_gettime(CLOCK_MONOTONIC, &start);
        tracer->attached_ns = (uint64_t)start.tv_sec * 1000000000u + (uint64_t)start.tv_nsec;
        program_listen();
        int r = 0;
        for (size_t i = 0; i < tracer->program_count && r == 0; i++) {
                tracer->links[i] = bpf_program__attach(tracer->programs[i]);
                if (!tracer->links[i] || libbpf_get_error(tracer->links[i])) {
                        r = errno ? -errno : -EINVAL;
                        tracer->links[i] = NULL;
                }
        }
        tracer->attached = true;
        r = r ? r : seed(tracer);
        if (r < 0) {
                tracer_detach(tracer);
                return program_explain(r, "attaching the programs", why, size);
        }
        touch(tracer);
        return 0;
}

void tracer_detach(struct tracer *tracer)
{
        for (size_t i = tracer->program_count; i-- > 0;) {
                if (tracer->links[i])
                        bpf_link__destroy(tracer->links[i]);
                tracer->links[i] = NULL;
        }
        tracer->attached = false;
}

bool tracer_attached(const struct tracer *tracer)
{
        return tracer && tracer->attached;
}

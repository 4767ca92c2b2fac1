/*
 * The block tracer's loader: opens, attaches and detaches the BPF programs. See stage_tracer.h.
 *
 * Everything that needs rights (maps, programs) is made by stage_tracer_open, as in tracer.c. A detached tracer costs the kernel's memory
 * for it, all of it from the start (about 21 MiB; above 128 possible CPUs 136 KiB each, up to 69 MiB), and nothing else.
 */
#include "collectors/bpf/program.h"
#include "collectors/bpf/stage_own.h"
#include "sample/stage_stream.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- open ---------------------------------------------------------------------------------------------------------------------------- */

static void *map_memory(struct stage_tracer *tracer, const char *name, size_t size)
{
        int fd = bpf_object__find_map_fd_by_name(tracer->object, name);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return memory == MAP_FAILED ? NULL : memory;
}

static int map_all(struct stage_tracer *tracer)
{
        tracer->buckets = map_memory(tracer, "buckets", SLOT_BUCKETS * sizeof *tracer->buckets);
        tracer->buffers = map_memory(tracer, "buffers", stage_rings(tracer) * sizeof *tracer->buffers);
        tracer->records = map_memory(tracer, "records", stage_record_total(tracer) * sizeof *tracer->records);
        tracer->told = map_memory(tracer, "told", TOLD * sizeof *tracer->told);
        tracer->calls = map_memory(tracer, "calls", CALL_BUCKETS * sizeof *tracer->calls);
        tracer->control = map_memory(tracer, ".bss", sizeof *tracer->control);
        tracer->heap = calloc(stage_rings(tracer), sizeof *tracer->heap);
        tracer->open = calloc(OPEN_BIOS, sizeof *tracer->open);
        bool mapped = tracer->buckets && tracer->buffers && tracer->records && tracer->told && tracer->calls && tracer->control;
        return mapped && tracer->heap && tracer->open ? 0 : -ENOMEM;
}

static int resize(struct stage_tracer *tracer, const char *name, size_t entries)
{
        struct bpf_map *map = bpf_object__find_map_by_name(tracer->object, name);
        return map ? bpf_map__set_max_entries(map, (unsigned)entries) : -ENOENT;
}

/* Records a CPU, a power of two. */
static size_t records_each(size_t cpus)
{
        size_t capacity = RECORDS_TOTAL;
        while (capacity > 2 * RECORDS_INNER && capacity * cpus > (capacity > RECORDS_LEAST ? RECORDS_TOTAL : RECORDS_MOST))
                capacity /= 2;
        return capacity;
}

static int load(struct stage_tracer *tracer, char *why, size_t size)
{
        bool fetch = tracer_has_fetch();
        DECLARE_LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "watopb");
        program_listen();
        tracer->object = bpf_object__open_mem(fetch ? stage_programs : stage_programs_plain,
                fetch ? stage_programs_size : stage_programs_plain_size, &options);
        long error = libbpf_get_error(tracer->object);
        if (!tracer->object || error) {
                tracer->object = NULL;
                return program_explain(error ? (int)error : -errno, "opening the built-in programs", why, size);
        }
        int cpus = libbpf_num_possible_cpus();
        if (cpus <= 0)
                return program_explain(cpus, "counting the possible CPUs", why, size);
        tracer->cpus = (size_t)cpus;
        tracer->capacity = records_each(tracer->cpus);
        int r = stage_tracer_choose(tracer, why, size);
        if (r < 0)
                return r;
        r = resize(tracer, "buffers", stage_rings(tracer));
        r = r ? r : resize(tracer, "records", stage_record_total(tracer));
        r = r ? r : bpf_object__load(tracer->object);
        if (r < 0)
                return program_explain(r, "loading the programs", why, size);
        r = map_all(tracer);
        return r < 0 ? program_explain(r, "mapping the programs' memory", why, size) : 0;
}

int stage_tracer_open(struct stage_tracer **out, char *why, size_t size)
{
        why[0] = '\0';
        if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
                snprintf(why, size, "this kernel has no type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)");
                return -ENOENT;
        }
        struct stage_tracer *tracer = calloc(1, sizeof *tracer);
        if (!tracer)
                return program_explain(-ENOMEM, "allocating", why, size);
        int r = load(tracer, why, size);
        if (r < 0) {
                stage_tracer_close(tracer);
                return r;
        }
        *out = tracer;
        return 0;
}

static void detach(struct stage_tracer *tracer, enum stage_group group)
{
        for (size_t i = tracer->count[group]; i-- > 0;) {
                if (tracer->links[group][i])
                        bpf_link__destroy(tracer->links[group][i]);
                tracer->links[group][i] = NULL;
        }
        tracer->attached[group] = false;
}

void stage_tracer_close(struct stage_tracer *tracer)
{
        if (!tracer)
                return;
        for (enum stage_group group = 0; group < GROUPS; group++)
                detach(tracer, group);
        if (tracer->buckets)
                munmap(tracer->buckets, SLOT_BUCKETS * sizeof *tracer->buckets);
        if (tracer->buffers)
                munmap(tracer->buffers, stage_rings(tracer) * sizeof *tracer->buffers);
        if (tracer->records)
                munmap(tracer->records, stage_record_total(tracer) * sizeof *tracer->records);
        if (tracer->calls)
                munmap(tracer->calls, CALL_BUCKETS * sizeof *tracer->calls);
        if (tracer->told)
                munmap(tracer->told, TOLD * sizeof *tracer->told);
        if (tracer->control)
                munmap(tracer->control, sizeof *tracer->control);
        bpf_object__close(tracer->object);
        free(tracer->heap);
        free(tracer->open);
        free(tracer);
}

/* ---- attach -------------------------------------------------------------------------------------------------------------------------- */

static int attach(struct stage_tracer *tracer, enum stage_group group)
{
        int r = 0;
        if (group == GROUP_BLOCK) { /* nothing is known of bios that were open when it was detached */
                __atomic_store_n(&tracer->control->since, UINT64_MAX, __ATOMIC_RELAXED);
                memset(tracer->buckets, 0, SLOT_BUCKETS * sizeof *tracer->buckets);
                __atomic_store_n(&tracer->control->far, 0, __ATOMIC_RELAXED);
                tracer->far_seen = 0;
        }
        if (group == GROUP_CALLS) { /* nor of calls */
                memset(tracer->calls, 0, CALL_BUCKETS * sizeof *tracer->calls);
                __atomic_store_n(&tracer->control->calls_since, stage_clock(), __ATOMIC_RELAXED);
        }
        for (size_t i = 0; i < tracer->count[group] && r == 0; i++) {
                struct bpf_link *link = bpf_program__attach(tracer->programs[group][i]);
                if (!link || libbpf_get_error(link))
                        r = errno ? -errno : -EINVAL;
                else
                        tracer->links[group][i] = link;
        }
        tracer->attached[group] = true;
        if (r < 0)
                detach(tracer, group);
        else if (group == GROUP_BLOCK)
                __atomic_store_n(&tracer->control->since, stage_clock(), __ATOMIC_RELAXED);
        return r;
}

static unsigned groups_of(unsigned what)
{
        return (what & (STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS) ? 1u << GROUP_BLOCK : 0) |
                (what & STREAM_WHAT_EVENTS ? 1u << GROUP_EVENTS : 0) | (what & STREAM_WHAT_SYNC ? 1u << GROUP_CALLS : 0);
}

int stage_tracer_attach(struct stage_tracer *tracer, unsigned what, char *why, size_t size)
{
        unsigned wanted = groups_of(what);
        int r = 0;
        why[0] = '\0';
        if (wanted & 1u << GROUP_CALLS && tracer->count[GROUP_CALLS] == 0) {
                snprintf(why, size, "calls are traced on x86-64 and arm64 only, where the kernel has the events sys_enter and sys_exit");
                return -EOPNOTSUPP;
        }
        program_listen();
        __atomic_store_n(&tracer->control->what, what, __ATOMIC_RELAXED);
        if (tracer->what == 0) { /* who asks now wants nothing of what was, and may know no names */
                stage_discard(tracer);
                memset(tracer->told, 0, TOLD * sizeof *tracer->told);
        }
        for (enum stage_group group = 0; group < GROUPS && r == 0; group++) {
                if (!(wanted & 1u << group))
                        detach(tracer, group);
                else if (!tracer->attached[group])
                        r = attach(tracer, group);
        }
        if (r < 0) {
                for (enum stage_group group = 0; group < GROUPS; group++)
                        detach(tracer, group);
                what = 0;
                __atomic_store_n(&tracer->control->what, what, __ATOMIC_RELAXED);
        }
        tracer->what = what;
        return r < 0 ? program_explain(r, "attaching the programs", why, size) : 0;
}

unsigned stage_tracer_attached(const struct stage_tracer *tracer)
{
        return tracer ? tracer->what : 0;
}

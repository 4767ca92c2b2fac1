/*
 * Which of the block tracer's programs fit the running kernel, and which of an event's arguments they want. BTF says it; no version is
 * asked, because distributions move events between versions.
 */
#include "collectors/bpf/program.h"
#include "collectors/bpf/stage_own.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct event {
        const char *program, *event, *structure; /* structure: which argument is wanted, of this type */
        size_t at;                               /* where its number goes in the settings */
        enum stage_group group;
        bool needed;                             /* no tracing without it */
};

#define AT(field) offsetof(struct stage_settings, field)

/* Numbers and registers of system calls are known of these. */
#if defined(__x86_64__) || defined(__aarch64__)
enum { CALLS_KNOWN = 1 };
#else
enum { CALLS_KNOWN = 0 };
#endif

/* In the order of attaching: a bio is followed from its queueing, so that comes last. */
static const struct event events[] = {
        {"watopb_complete", "block_rq_complete", "request", 0, GROUP_BLOCK, true},
        {"watopb_bio_end", "block_bio_complete", "bio", AT(complete_bio), GROUP_BLOCK, false},
        {"watopb_requeue", "block_rq_requeue", "request", AT(requeue_rq), GROUP_BLOCK, false},
        {"watopb_issue", "block_rq_issue", "request", AT(issue_rq), GROUP_BLOCK, true},
        {"watopb_insert", "block_rq_insert", "request", AT(insert_rq), GROUP_BLOCK, false},
        {"watopb_merge", "block_rq_merge", "request", AT(merge_rq), GROUP_BLOCK, false},
        {"watopb_back", "block_bio_backmerge", "bio", AT(back_bio), GROUP_BLOCK, false},
        {"watopb_front", "block_bio_frontmerge", "bio", AT(front_bio), GROUP_BLOCK, false},
        {"watopb_getrq", "block_getrq", "bio", AT(getrq_bio), GROUP_BLOCK, false},
        {"watopb_split", "block_split", "bio", AT(split_bio), GROUP_BLOCK, false},
        {"watopb_queue", "block_bio_queue", "bio", AT(queue_bio), GROUP_BLOCK, true},
        {"watopb_remap", "block_bio_remap", "bio", AT(remap_bio), GROUP_EVENTS, false},
        {"watopb_plug", "block_plug", "request_queue", 0, GROUP_EVENTS, false},
        {"watopb_unplug", "block_unplug", "request_queue", 0, GROUP_EVENTS, false},
        {"watopb_enter", "sys_enter", "pt_regs", 0, GROUP_CALLS, false},
        {"watopb_exit", "sys_exit", "pt_regs", 0, GROUP_CALLS, false},
};

static int keep(struct stage_tracer *tracer, const struct event *event, int argument)
{
        struct bpf_program *program = bpf_object__find_program_by_name(tracer->object, event->program);
        size_t *count = &tracer->count[event->group];
        if (!program || *count == GROUP_PROGRAMS)
                return -EINVAL;
        if (event->at)
                memcpy((char *)&tracer->settings + event->at, &(u32){argument < 0 ? 0 : (u32)argument}, sizeof(u32));
        if (argument >= 0)
                tracer->programs[event->group][(*count)++] = program;
        return bpf_program__set_autoload(program, argument >= 0);
}

/* fsyncs on rings: since 6.0, where submission and completion name the request. */
static int choose_rings(struct stage_tracer *tracer, const struct btf *btf)
{
        bool done = program_argument(btf, "io_uring_complete", "io_uring_cqe") == 2;
        bool done_5_17 = !done && program_arguments(btf, "io_uring_complete") && program_argument_size(btf, "io_uring_complete", 3) == 4 &&
                program_argument_size(btf, "io_uring_complete", 2) == 8;
        bool by_request = program_argument(btf, "io_uring_submit_req", "io_kiocb") == 0;
        bool by_sqe = !by_request && program_argument(btf, "io_uring_submit_sqe", "io_kiocb") == 0;
        bool traced = CALLS_KNOWN && (done || done_5_17) && (by_request || by_sqe);
        const struct { const char *program; bool wanted; } programs[] = {{"watopb_ringend", traced && done},
                {"watopb_ring5_17", traced && done_5_17}, {"watopb_ring", traced && by_request}, {"watopb_ring6_0", traced && by_sqe}};
        int r = 0;
        for (size_t i = 0; i < sizeof programs / sizeof *programs && r == 0; i++) {
                const struct event event = {programs[i].program, NULL, NULL, 0, GROUP_CALLS, false};
                r = keep(tracer, &event, programs[i].wanted ? 0 : -1);
        }
        return r;
}

static int choose(struct stage_tracer *tracer, const struct btf *btf, char *why, size_t size)
{
        int r = 0;
#if !defined(__x86_64__) && !defined(__i386__)
        tracer->settings.stores_reorder = 1;
#endif
#if defined(__aarch64__)
        tracer->settings.arm64 = 1;
#endif
        if (getrandom(&tracer->settings.secret, sizeof tracer->settings.secret, GRND_NONBLOCK) < 0)
                tracer->settings.secret = (u64)(uintptr_t)tracer;
        tracer->settings.secret |= 1;
        tracer->settings.overlay_has_struct = program_has_member(btf, "ovl_file", "realfile");
        tracer->settings.capacity = (u32)tracer->capacity;
        tracer->settings.cpus = (u32)tracer->cpus;
        tracer->settings.preemptible = access("/sys/kernel/realtime", F_OK) == 0;
        tracer->settings.errors_are_numbers = program_argument_size(btf, "block_rq_complete", 1) > 1;
        for (size_t i = 0; i < sizeof events / sizeof *events && r == 0; i++) {
                int argument = program_argument(btf, events[i].event, events[i].structure);
                if (argument < 0 && events[i].needed) {
                        snprintf(why, size, "this kernel lacks an event that block tracing needs (%s)", events[i].event);
                        return -EOPNOTSUPP;
                }
                r = keep(tracer, &events[i], events[i].group == GROUP_CALLS && !CALLS_KNOWN ? -1 : argument);
        }
        r = r ? r : choose_rings(tracer, btf);
        struct bpf_map *constants = bpf_object__find_map_by_name(tracer->object, ".rodata");
        r = r ? r : constants ? bpf_map__set_initial_value(constants, &tracer->settings, sizeof tracer->settings) : -ENOENT;
        if (r < 0)
                snprintf(why, size, "the built-in programs are not whole: a fault of this build");
        return r;
}

int stage_tracer_choose(struct stage_tracer *tracer, char *why, size_t size)
{
        struct btf *btf = btf__load_vmlinux_btf();
        if (!btf || libbpf_get_error(btf)) {
                snprintf(why, size, "the kernel's BTF could not be read: %s", strerror(errno));
                return -ENOENT;
        }
        int r = choose(tracer, btf, why, size);
        btf__free(btf);
        return r;
}

/*
 * Which programs fit the running kernel. Its BTF says which events there are and with which arguments; no version is asked, because
 * distributions move events between versions.
 */
#include "collectors/bpf/program.h"
#include "collectors/bpf/tracer_own.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Does argument `index` point to something? */
static bool is_pointer(const struct btf *btf, const struct btf_type *event, unsigned index)
{
        if (!event || btf_vlen(event) <= index + 1)
                return false;
        int id = btf__resolve_type(btf, btf_params(event)[index + 1].type);
        const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
        return type && btf_is_ptr(type);
}

static bool keep(struct tracer *tracer, const char *name, bool wanted)
{
        struct bpf_program *program = bpf_object__find_program_by_name(tracer->object, name);
        if (!program || bpf_program__set_autoload(program, wanted) != 0)
                return false;
        if (wanted && tracer->program_count < TRACER_PROGRAMS)
                tracer->programs[tracer->program_count++] = program;
        return wanted;
}

/* Storage on rings: whether it can be followed, and by which events. */
static void choose_rings(struct tracer *tracer, const struct btf *btf, bool counted, struct settings *settings)
{
        const struct btf_type *done = program_arguments(btf, "io_uring_complete"), *sqe = program_arguments(btf, "io_uring_submit_sqe"),
                *request = program_arguments(btf, "io_uring_submit_req"), *wait = program_arguments(btf, "io_uring_cqring_wait");
        bool by_request = is_pointer(btf, done, 1), sqe_first = sqe && btf_vlen(sqe) == 3;
        bool sqe_second = !sqe_first && is_pointer(btf, sqe, 1);
        bool traced = done && wait && (request || sqe) && (by_request || !(request || sqe_first));
        keep(tracer, "watop_submit", traced && request);
        keep(tracer, "watop_submit_6_0", traced && !request && sqe_first);
        keep(tracer, "watop_submit_5_15", traced && !request && sqe_second);
        keep(tracer, "watop_submit_5_8", traced && !request && sqe && !sqe_first && !sqe_second);
        keep(tracer, "watop_uring_done", traced && by_request);
        keep(tracer, "watop_uring_done_5_8", traced && !by_request);
        const struct btf_type *link = program_arguments(btf, "io_uring_link");
        keep(tracer, "watop_link", traced && by_request && link && btf_vlen(link) == 3);
        keep(tracer, "watop_link_5_15", traced && by_request && link && btf_vlen(link) == 4);
        keep(tracer, "watop_uring_wait", traced && !counted);
        keep(tracer, "watop_uring_wait_counted", traced && counted);
        keep(tracer, "watop_uring_create", traced && program_arguments(btf, "io_uring_create"));
        settings->storage_traced = traced;
        settings->rings_counted = traced && counted;
        settings->complete_has_request = by_request;
        settings->overlay_has_struct = program_has_member(btf, "ovl_file", "realfile");
}

static bool has_helper(const struct btf *btf, const char *name)
{
        int id = btf__find_by_name_kind(btf, "bpf_func_id", BTF_KIND_ENUM);
        const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
        for (unsigned i = 0; type && i < btf_vlen(type); i++) {
                const char *found = btf__name_by_offset(btf, btf_enum(type)[i].name_off);
                if (found && strcmp(found, name) == 0)
                        return true;
        }
        return false;
}

/* Rings of those who sleep already can be counted out: their lists are there, and no percpu counter keeps back as much as a task's
 * references (its batch is twice the CPUs). */
static bool counts_rings(const struct tracer *tracer, const struct btf *btf)
{
        enum { CPUS_MOST = 256 };
        return tracer->cpus <= CPUS_MOST && has_helper(btf, "BPF_FUNC_task_pt_regs") && has_helper(btf, "BPF_FUNC_loop") &&
                program_has_member(btf, "io_uring_task", "cached_refs") &&
                program_has_member(btf, "io_tctx_node", "ctx_node") && program_has_member(btf, "io_hash_bucket", "list");
}

static int choose(struct tracer *tracer, const struct btf *btf, char *why, size_t size)
{
#if defined(__x86_64__) || defined(__i386__)
        struct settings settings = {.stores_reorder = 0};
#else
        struct settings settings = {.stores_reorder = 1};
#endif
        const struct btf_type *change = program_arguments(btf, "sched_switch");
        bool first = is_pointer(btf, change, 1);
        if (!change || !program_arguments(btf, "sched_waking") || !program_arguments(btf, "block_rq_complete") ||
                        !program_has_member(btf, "task_struct", "in_iowait")) {
                snprintf(why, size, "this kernel lacks an event the exact method needs (sched_switch, sched_waking, block_rq_complete)");
                return -EOPNOTSUPP;
        }
        /* The order of attaching: whatever wakes is there before the event that puts to sleep. */
        keep(tracer, "watop_waking", true);
        keep(tracer, "watop_migrate", program_arguments(btf, "sched_migrate_task"));
        keep(tracer, "watop_complete", true);
        keep(tracer, "watop_bio_complete", program_arguments(btf, "block_bio_complete"));
        settings.done_traced = keep(tracer, "watop_done", program_arguments(btf, "block_io_done"));
        keep(tracer, "watop_queue", program_arguments(btf, "block_bio_queue"));
        keep(tracer, "watop_dirty", program_arguments(btf, "balance_dirty_pages"));
        keep(tracer, "watop_free", program_arguments(btf, "sched_process_free"));
        bool counted = counts_rings(tracer, btf);
        choose_rings(tracer, btf, counted, &settings);
        keep(tracer, "watop_switch", first);
        keep(tracer, "watop_switch2", !first);
        tracer->seed = bpf_object__find_program_by_name(tracer->object, counted ? "watop_seed_rings" : "watop_seed");
        struct bpf_program *unused = bpf_object__find_program_by_name(tracer->object, counted ? "watop_seed" : "watop_seed_rings");
        tracer->touch = bpf_object__find_program_by_name(tracer->object, "watop_touch");
        tracer->prove = bpf_object__find_program_by_name(tracer->object, "watop_prove");
        struct bpf_map *constants = bpf_object__find_map_by_name(tracer->object, ".rodata");
        int r = constants ? bpf_map__set_initial_value(constants, &settings, sizeof settings) : -ENOENT;
        r = r ? r : bpf_program__set_autoload(unused, false);
        if (r < 0 || !tracer->seed || !tracer->touch || !tracer->prove)
                snprintf(why, size, "the built-in programs are not whole: a fault of this build");
        return r < 0 ? r : tracer->seed && tracer->touch && tracer->prove ? 0 : -EINVAL;
}

int tracer_choose(struct tracer *tracer, char *why, size_t size)
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

/* Atomics that return a value, 5.12: asked with the smallest program that uses one. */
bool tracer_has_fetch(void)
{
        struct bpf_insn program[] = {
                {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
                {.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_0, .off = -8},
                {.code = BPF_STX | BPF_XADD | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_0, .off = -8, .imm = 0xe1}, /* BPF_XCHG */
                {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
                {.code = BPF_JMP | BPF_EXIT},
        };
        union bpf_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
        attr.insns = (uint64_t)(uintptr_t)program;
        attr.insn_cnt = sizeof program / sizeof program[0];
        attr.license = (uint64_t)(uintptr_t)"GPL";
        int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
        if (fd < 0)
                return errno == EPERM || errno == EACCES; /* the real load says so better */
        close(fd);
        return true;
}

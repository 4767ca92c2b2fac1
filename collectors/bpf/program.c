/*
 * Helpers of the loaders; see program.h.
 */
#include "collectors/bpf/program.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* libbpf would print; its first complaint is kept for `why`, by thread: two tracers may be at work. */
static _Thread_local char complaint[200];

__attribute__((format(printf, 2, 0))) static int keep_complaint(enum libbpf_print_level level, const char *format, va_list list)
{
        if (level != LIBBPF_WARN || complaint[0])
                return 0;
        vsnprintf(complaint, sizeof complaint, format, list);
        complaint[strcspn(complaint, "\n")] = '\0';
        return 0;
}

void program_listen(void)
{
        complaint[0] = '\0';
        libbpf_set_print(keep_complaint);
}

int program_explain(int error, const char *doing, char *why, size_t size)
{
        if (error == -EPERM || error == -EACCES)
                snprintf(why, size, "not permitted (%s): run as root, or with CAP_BPF and CAP_PERFMON", doing);
        else
                snprintf(why, size, "%s failed: %s%s%s", doing, strerror(-error), complaint[0] ? "; " : "", complaint);
        return error;
}

const struct btf_type *program_arguments(const struct btf *btf, const char *event)
{
        char name[64];
        snprintf(name, sizeof name, "btf_trace_%s", event);
        int id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
        const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
        type = type ? btf__type_by_id(btf, type->type) : NULL; /* pointer */
        type = type ? btf__type_by_id(btf, type->type) : NULL;
        return type && btf_is_func_proto(type) ? type : NULL;
}

static const struct btf_type *resolved(const struct btf *btf, unsigned type)
{
        int id = btf__resolve_type(btf, type);
        return id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
}

int program_argument(const struct btf *btf, const char *event, const char *structure)
{
        const struct btf_type *arguments = program_arguments(btf, event);
        for (unsigned i = 1; arguments && i < btf_vlen(arguments); i++) {
                const struct btf_type *type = resolved(btf, btf_params(arguments)[i].type);
                type = type && btf_is_ptr(type) ? resolved(btf, type->type) : NULL;
                while (type && (btf_is_const(type) || btf_is_volatile(type)))
                        type = resolved(btf, type->type);
                const char *name = type && btf_is_struct(type) ? btf__name_by_offset(btf, type->name_off) : NULL;
                if (name && strcmp(name, structure) == 0)
                        return (int)i - 1;
        }
        return -1;
}

size_t program_argument_size(const struct btf *btf, const char *event, unsigned index)
{
        const struct btf_type *arguments = program_arguments(btf, event);
        if (!arguments || btf_vlen(arguments) <= index + 1)
                return 0;
        const struct btf_type *type = resolved(btf, btf_params(arguments)[index + 1].type);
        return type && btf_is_int(type) ? type->size : 0;
}

bool program_has_member(const struct btf *btf, const char *name, const char *member)
{
        int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);
        const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
        for (unsigned i = 0; type && i < btf_vlen(type); i++) {
                const char *found = btf__name_by_offset(btf, btf_members(type)[i].name_off);
                if (found && strcmp(found, member) == 0)
                        return true;
        }
        return false;
}

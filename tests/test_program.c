/*
 * Which argument of an event a program is to look at, by type information that is made here as other kernels have it.
 */
#include "collectors/bpf/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/btf.h>
#include <errno.h>
#include <string.h>

struct types {
        struct btf *btf;
        int nothing, queue, bio, request, number, byte, status, constant; /* pointers, but for the last ones */
};

static void begin(struct types *types)
{
        struct btf *btf = types->btf = btf__new_empty();
        assert_non_null(btf);
        int integer = btf__add_int(btf, "int", 4, BTF_INT_SIGNED), small = btf__add_int(btf, "unsigned char", 1, 0);
        int queue = btf__add_struct(btf, "request_queue", 4), bio = btf__add_struct(btf, "bio", 4);
        int request = btf__add_struct(btf, "request", 4);
        types->nothing = btf__add_ptr(btf, 0);
        types->queue = btf__add_ptr(btf, queue);
        types->bio = btf__add_ptr(btf, bio);
        types->request = btf__add_ptr(btf, request);
        types->constant = btf__add_ptr(btf, btf__add_const(btf, bio));
        types->number = integer;
        types->byte = small;
        types->status = btf__add_typedef(btf, "blk_status_t", small);
}

/* typedef void (*btf_trace_NAME)(void *, ...); */
static void add_event(const struct types *types, const char *name, const int *arguments, size_t count)
{
        int prototype = btf__add_func_proto(types->btf, 0);
        assert_true(prototype > 0 && btf__add_func_param(types->btf, "", types->nothing) == 0);
        for (size_t i = 0; i < count; i++)
                assert_int_equal(btf__add_func_param(types->btf, "", arguments[i]), 0);
        assert_true(btf__add_typedef(types->btf, name, btf__add_ptr(types->btf, prototype)) > 0);
}

#define EVENT(types, name, ...) add_event(types, "btf_trace_" name, (const int[]){__VA_ARGS__}, \
        sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* 4.18 to 5.10: the queue first, and of merges the request, too; errors are numbers. */
static void old_events(void **state)
{
        struct types t;
        (void)state;
        begin(&t);
        EVENT(&t, "block_bio_queue", t.queue, t.bio);
        EVENT(&t, "block_bio_backmerge", t.queue, t.request, t.bio);
        EVENT(&t, "block_getrq", t.queue, t.bio, t.number);
        EVENT(&t, "block_rq_issue", t.queue, t.request);
        EVENT(&t, "block_rq_complete", t.request, t.number, t.number);
        assert_int_equal(program_argument(t.btf, "block_bio_queue", "bio"), 1);
        assert_int_equal(program_argument(t.btf, "block_bio_backmerge", "bio"), 2);
        assert_int_equal(program_argument(t.btf, "block_getrq", "bio"), 1);
        assert_int_equal(program_argument(t.btf, "block_rq_issue", "request"), 1);
        assert_int_equal(program_argument_size(t.btf, "block_rq_complete", 1), 4);
        assert_int_equal(program_argument(t.btf, "block_rq_merge", "request"), -1); /* not yet there */
        btf__free(t.btf);
}

static void new_events(void **state)
{
        struct types t;
        (void)state;
        begin(&t);
        EVENT(&t, "block_bio_queue", t.bio);
        EVENT(&t, "block_bio_complete", t.queue, t.constant);
        EVENT(&t, "block_rq_complete", t.request, t.status, t.number);
        EVENT(&t, "block_unplug", t.queue, t.number, t.byte);
        assert_int_equal(program_argument(t.btf, "block_bio_queue", "bio"), 0);
        assert_int_equal(program_argument(t.btf, "block_bio_queue", "request"), -1);
        assert_int_equal(program_argument(t.btf, "block_bio_complete", "bio"), 1);
        assert_int_equal(program_argument_size(t.btf, "block_rq_complete", 1), 1);
        assert_int_equal(program_argument_size(t.btf, "block_rq_complete", 0), 0);
        assert_int_equal(program_argument_size(t.btf, "block_rq_complete", 3), 0);
        assert_int_equal(program_argument_size(t.btf, "nowhere", 0), 0);
        assert_null(program_arguments(t.btf, "nowhere"));
        assert_false(program_has_member(t.btf, "bio", "bi_next"));
        btf__free(t.btf);
}

static void reasons(void **state)
{
        char why[100];
        (void)state;
        program_listen();
        assert_int_equal(program_explain(-EPERM, "loading", why, sizeof why), -EPERM);
        assert_string_equal(why, "not permitted (loading): run as root, or with CAP_BPF and CAP_PERFMON");
        assert_int_equal(program_explain(-ENOMEM, "loading", why, sizeof why), -ENOMEM);
        assert_string_equal(why, "loading failed: Cannot allocate memory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(old_events), cmocka_unit_test(new_events), cmocka_unit_test(reasons)};
        return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}

/*
 * A log of another version: what both know has the same values, what the reader lacks is stepped over, what the writer lacked is absent.
 * The writer here has one metric more in front of a scope, one less in it, and a scope that nobody knows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample/state.h"
#include "tests/log_frames.h"

/* Our schema's lines, with the scope's slots moved up by one, one taken out, one put in front. */
static size_t other_schema(char *out, size_t size, int lacking)
{
        size_t used = (size_t)snprintf(out, size, "watop schema 1\nscope 31 moon\nslot 0 moon.phase gauge count\n");

        for (int scope = 0; scope < SCOPE_COUNT; scope++) {
                used += (size_t)snprintf(out + used, size - used, "scope %d %s\n", scope, scopes[scope].name);
                if (scope == SCOPE_CPU)
                        used += (size_t)snprintf(out + used, size - used, "slot 0 cpu.warp counter count\n");
                for (int m = scopes[scope].first; m < scopes[scope].first + scopes[scope].count; m++)
                        if (m != lacking)
                                used += (size_t)snprintf(out + used, size - used, "slot %d %s %s %s\n",
                                        metric_slot(m) + (scope == SCOPE_CPU), metrics[m].name,
                                        metric_kind_name(metrics[m].kind), metric_unit_name(metrics[m].unit));
        }
        return used;
}

/* The frame as that writer would have made it: cpu rows without the lacking slot, all moved up, a value of cpu.warp in front. */
static struct frame_head *other_frame(const struct frame_head *frame, int lacking)
{
        struct frame_head *other = calloc(1, frame->length * 2 + 4096);
        struct frame_head head = *frame;
        uint8_t *at = (uint8_t *)(other + 1);

        for (const struct scope_head *scope = NULL; (scope = frame_scope_next(frame, scope));) {
                struct scope_head *to = (void *)at;
                memcpy(to, scope, scope->scope == SCOPE_CPU ? sizeof *scope : scope->length);
                at += scope->scope == SCOPE_CPU ? sizeof *scope : scope->length;
                for (const struct row_head *row = NULL; scope->scope == SCOPE_CPU && (row = frame_row_next(scope, row));) {
                        struct row_head made = *row;
                        uint64_t gone = UINT64_C(1) << metric_slot(lacking), *value = (uint64_t *)(void *)(at + sizeof made);
                        const uint64_t *from = (const void *)(row + 1);
                        made.present = (row->present & ~gone) << 1 | 1;
                        *value++ = frame->sequence * 11;
                        for (uint64_t bits = row->present; bits; bits &= bits - 1, from++)
                                if (!(bits & -bits & gone))
                                        *value++ = *from;
                        made.length = (uint32_t)((uint8_t *)value - at);
                        memcpy(at, &made, sizeof made);
                        at += made.length;
                }
                to->length = (uint32_t)(at - (uint8_t *)to);
        }
        *(struct scope_head *)(void *)at = (struct scope_head){.scope = 31, .rows = 1,
                .length = sizeof(struct scope_head) + sizeof(struct row_head) + 8};
        *(struct row_head *)(void *)(at + sizeof(struct scope_head)) = (struct row_head){.kind = ROW_VALUES,
                .length = sizeof(struct row_head) + 8, .present = 1};
        at += sizeof(struct scope_head) + sizeof(struct row_head) + 8;
        head.scopes++;
        head.length = (uint32_t)(at - (uint8_t *)other);
        *other = head;
        other->crc = frame_crc(other, other->length);
        return other;
}

static void compare(const struct state *ours, const struct state *theirs, int lacking)
{
        for (int scope = 0; scope < SCOPE_COUNT; scope++) {
                assert_int_equal(state_count(ours, (enum scope)scope), state_count(theirs, (enum scope)scope));
                for (size_t i = 0; i < state_count(ours, (enum scope)scope); i++) {
                        const struct state_row *a = state_at(ours, (enum scope)scope, i),
                                *b = state_find(theirs, (enum scope)scope, a->key);
                        assert_non_null(b);
                        for (int m = scopes[scope].first; m < scopes[scope].first + scopes[scope].count; m++) {
                                uint64_t x = 0, y = 0;
                                bool has = state_now(a, m, &x) && m != lacking;
                                assert_int_equal(state_now(b, m, &y), has);
                                if (has)
                                        assert_int_equal(x, y);
                                if (metrics[m].kind != KIND_TEXT)
                                        continue;
                                char s[64], t[64];
                                assert_string_equal(state_text_copy(ours, a, m, s, sizeof s), state_text_copy(theirs, b, m, t, sizeof t));
                        }
                }
        }
}

static void test_other_version(void **arg)
{
        static char schema[1 << 16];
        char path[128];
        struct log_writer *w;
        struct log *log;
        struct sealed s;
        struct state *ours, *theirs;
        const struct frame_head *frame;
        struct kept kept = {0};
        uint64_t random = 1;
        int lacking = CPU_SYSTEM;

        (void)arg;
        size_t length = other_schema(schema, sizeof schema, lacking);
        snprintf(path, sizeof path, "%s/a.log", temp_folder());
        assert_int_equal(log_create(path, &(struct log_create_options){.schema = schema, .schema_length = length}, &w), 0);
        sealed_open(&s);
        for (int i = 0; i < 100; i++) {
                machine_tick(&s, &random, 20);
                sealed_seal(&s);
                struct frame_head *other = other_frame(s.frame, lacking);
                assert_int_equal(frame_check(other, other->length), 0);
                assert_int_equal(log_append(w, other, other->length), 0);
                kept_add(&kept, s.frame, s.length);
                free(other);
        }
        assert_int_equal(log_finish(w), 0);
        sealed_close(&s);
        assert_int_equal(log_open(path, &log), 0);
        assert_true(state_new(&ours) == 0 && state_new(&theirs) == 0);
        for (size_t i = 0; i < kept.count; i++) {
                assert_int_equal(log_next(log, &frame), LOG_FRAME);
                assert_int_equal(state_apply(theirs, frame, log_schema(log)), 0);
                assert_int_equal(state_apply(ours, kept.frames[i], NULL), 0);
                compare(ours, theirs, lacking);
        }
        state_free(ours);
        state_free(theirs);
        log_close(log);
        kept_free(&kept);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_version)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}

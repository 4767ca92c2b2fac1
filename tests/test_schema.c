/*
 * The schema block: what we write we read back as our own, and strangers' blocks are refused or mapped by name.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "sample/sample.h"

static char block[1 << 16];

static void test_round_trip(void **unused)
{
        struct schema own, read;
        size_t length = schema_write(block, sizeof block);

        assert_true(length > 1000 && length < sizeof block / 2); /* room to grow */
        schema_own(&own);
        assert_int_equal(schema_read(&read, block, length), 0);
        assert_memory_equal(&own, &read, sizeof own);
        for (size_t size = 0; size <= length; size += 97)
                assert_int_equal(schema_write(block, size), 0); /* does not fit */
}

static int read_text(struct schema *schema, const char *text)
{
        return schema_read(schema, text, strlen(text));
}

static void test_refused(void **unused)
{
        static const char *const bad[] = {
                "", "\n", "watop schema 2\nscope 0 cpu\n", "watop schema 1\n", "watop schema 1\nscope 0 cpu", /* torn */
                "watop schema 1\nslot 0 cpu.user time ns\n", "watop schema 1\nscope 32 cpu\n", "watop schema 1\nscope -1 cpu\n",
                "watop schema 1\nscope 0 cpu\nscope 0 disk\n", "watop schema 1\nscope 0 cpu\nscope 1 cpu\n",
                "watop schema 1\nscope 0 cpu\nslot 64 cpu.user time ns\n", "watop schema 1\nscope 0 cpu\nslot 0 cpu.user time\n",
                "watop schema 1\nscope 0 cpu\nslot 0 cpu.user time ns\nslot 0 cpu.idle time ns\n",
                "watop schema 1\nscope 0 cpu\nslot 0 cpu.user time ns\nslot 1 cpu.user time ns\n",
                "watop schema 1\nscope 0 cpu\nslot 00000000000000000000 cpu.user time ns\n",
        };
        struct schema schema = {.scopes = 77};

        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
                assert_int_equal(read_text(&schema, bad[i]), -EBADMSG);
        assert_int_equal(schema.scopes, 77); /* untouched on failure */
}

static void test_mapped_by_name(void **unused)
{
        struct schema schema;

        assert_int_equal(read_text(&schema, "watop schema 1\nscope 5 cpu\nslot 9 cpu.idle time ns\nslot 1 cpu.user time bytes\n"
                                            "slot 2 disk.reads counter count\nslot 3 cpu.note text text\n"
                                            "scope 2 moon\n"
                                            "slot 63 moon.phase code code\n"), 0);
        assert_int_equal(schema.scope[5], SCOPE_CPU);
        assert_int_equal(schema.scope[2], -1);
        assert_int_equal(schema.metric[5][9], CPU_IDLE);
        assert_int_equal(schema.metric[5][1], METRIC_NONE); /* another unit */
        assert_int_equal(schema.metric[5][2], METRIC_NONE); /* another scope's */
        assert_true(schema.text[5] == 8 && schema.slots[5] == 0x20e);
        assert_true(schema.slots[2] == UINT64_C(1) << 63);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_mapped_by_name),
        };

        return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}

/*
 * Control groups over captured machines: v2, v1, hybrid, empty groups, stacked devices, more groups than are shown.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/collect.h"

static int setup(void **state)
{
        struct collect *c = malloc(sizeof *c);
        collect_init(c);
        *state = c;
        return 0;
}

static int teardown(void **state)
{
        collect_fini(*state);
        free(*state);
        return 0;
}

static void group(struct collect *c, const char *path, const char *text)
{
        char full[512];
        snprintf(full, sizeof full, "0000/sys/fs/cgroup/%s", path);
        machine_write(&c->machine, full, text);
}

static int run(struct collect *c)
{
        const struct collector *part = &collector_cgroup;
        int r = collect_open(c, &part, 1);
        return r < 0 ? r : collect_tick(c);
}

static struct row *named(struct collect *c, const char *path)
{
        return collect_named(c, SCOPE_CGROUP, CGROUP_PATH, path);
}

static void test_v2(void **state)
{
        struct collect *c = *state;
        machine_write(&c->machine, "0000/proc/devices", "Character devices:\n  8 tty\n\nBlock devices:\n  8 sd\n253 device-mapper\n");
        group(c, "cgroup.controllers", "cpu io memory\n");
        group(c, "cpu.stat", "usage_usec 100\nuser_usec 60\nsystem_usec 40\n");
        group(c, "a.slice/cgroup.events", "populated 1\nfrozen 0\n");
        group(c, "a.slice/cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1\n"
                "nr_bursts 0\n");
        group(c, "a.slice/io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n253:0 rbytes=10 wbytes=20 rios=1 wios=2\n"
                "8:16 rbytes=5 wbytes=\nx\n8:32\n");
        group(c, "a.slice/io.pressure", "some avg10=99.00 avg60=1.00 avg300=0.10 total=123\n"
                "full avg10=9.00 avg60=1.00 avg300=0.10 total=45\n");
        group(c, "a.slice/memory.current", "4096\n");
        group(c, "a.slice/db server.service/cgroup.events", "populated 1\n");
        group(c, "a.slice/db server.service/cpu.stat", "usage_usec 99999999999999999999\nuser_usec\n");
        group(c, "b.slice/cgroup.events", "populated 0\n");
        group(c, "b.slice/under/cgroup.events", "populated 1\n"); /* cannot be; the parent's word counts */
        assert_int_equal(run(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_CGROUP), 3);
        struct row *root = named(c, "/"), *a = named(c, "/a.slice"), *db = named(c, "/a.slice/db server.service");
        assert_int_equal(collect_value(root, CGROUP_USAGE), 100000);
        assert_int_equal(collect_value(root, CGROUP_PERIODS), -1);
        assert_int_equal(collect_value(root, CGROUP_MEMORY), -1);
        assert_int_equal(collect_value(a, CGROUP_SYSTEM_TIME), 4000);
        assert_int_equal(collect_value(a, CGROUP_THROTTLED), 2);
        assert_int_equal(collect_value(a, CGROUP_THROTTLED_TIME), 1000);
        assert_int_equal(collect_value(a, CGROUP_READ_BYTES), 15); /* what device-mapper carried is counted below it */
        assert_int_equal(collect_value(a, CGROUP_WRITE_BYTES), 20);
        assert_int_equal(collect_value(a, CGROUP_WRITES), 2);
        assert_int_equal(collect_value(a, CGROUP_MEMORY), 4096);
        assert_int_equal(collect_value(a, CGROUP_IO_SOME), 123000);
        assert_int_equal(collect_value(a, CGROUP_IO_FULL), 45000);
        assert_int_equal(collect_value(root, CGROUP_IO_SOME), -1);
        assert_int_equal(collect_value(db, CGROUP_USAGE), -1); /* no number */
        assert_int_equal(collect_value(db, CGROUP_READ_BYTES), -1);
}

static void v1_group(struct collect *c, const char *cpu, const char *name)
{
        char path[256];
        snprintf(path, sizeof path, "%s%s/cpuacct.usage", cpu, name);
        group(c, path, "123456789\n");
        snprintf(path, sizeof path, "%s%s/cpuacct.stat", cpu, name);
        group(c, path, "user 7\nsystem 3\n");
        snprintf(path, sizeof path, "%s%s/cpu.stat", cpu, name);
        group(c, path, "nr_periods 5\nnr_throttled 4\nthrottled_time 3\n");
}

/* Hybrid: a v2 hierarchy without controllers beside v1 ones. */
static void test_v1(void **state)
{
        struct collect *c = *state;
        machine_write(&c->machine, "0000/system", "hz=250\n");
        v1_group(c, "cpu,cpuacct", "");
        v1_group(c, "cpu,cpuacct", "/docker/abc");
        group(c, "memory/docker/abc/memory.usage_in_bytes", "8192\n");
        group(c, "blkio/docker/abc/blkio.throttle.io_service_bytes", "8:0 Read 100\n8:0 Write 200\n8:0 Sync 1\n8:0 Total 300\n"
                "8:16 Read 1\nTotal 301\n");
        group(c, "blkio/docker/abc/blkio.throttle.io_serviced", "8:0 Read 10\n8:0 Write 20\nTotal 30\n");
        group(c, "unified/cgroup.controllers", "\n");
        assert_int_equal(run(c), 0);
        struct row *abc = named(c, "/docker/abc");
        assert_int_equal(sample_rows(c->sample, SCOPE_CGROUP), 3);
        assert_int_equal(collect_value(abc, CGROUP_USAGE), 123456789);
        assert_int_equal(collect_value(abc, CGROUP_USER_TIME), 28000000);
        assert_int_equal(collect_value(abc, CGROUP_THROTTLED_TIME), 3);
        assert_int_equal(collect_value(abc, CGROUP_MEMORY), 8192);
        assert_int_equal(collect_value(abc, CGROUP_READ_BYTES), 101);
        assert_int_equal(collect_value(abc, CGROUP_WRITE_BYTES), 200);
        assert_int_equal(collect_value(abc, CGROUP_READS), 10);
        assert_int_equal(collect_value(named(c, "/docker"), CGROUP_USAGE), -1); /* has no files of its own here */
}

static void test_bound(void **state)
{
        struct collect *c = *state;
        group(c, "cgroup.controllers", "cpu\n");
        for (int i = 0; i < 1100; i++) {
                char path[64];
                snprintf(path, sizeof path, "g%04d/cpu.stat", i);
                group(c, path, "usage_usec 1\n");
        }
        assert_int_equal(run(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_CGROUP), 1000);
}

static void test_none(void **state)
{
        struct collect *c = *state;
        char line[200];
        machine_write(&c->machine, "0000/proc/stat", "");
        assert_int_equal(run(c), -ENOENT);
        collector_cgroup.check(c->procfs, line, sizeof line);
        assert_non_null(strstr(line, "no control groups"));
}

/* A group that ended is a tombstone, and does not stay in the table. */
static void test_ended(void **state)
{
        struct collect *c = *state;
        group(c, "cgroup.controllers", "cpu\n");
        group(c, "a/cpu.stat", "usage_usec 1\n");
        machine_write(&c->machine, "0001/sys/fs/cgroup/cpu.stat", "usage_usec 1\n");
        assert_int_equal(run(c), 0);
        assert_non_null(named(c, "/a"));
        assert_int_equal(collect_tick(c), 0);
        assert_null(named(c, "/a"));
        assert_non_null(named(c, "/"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = { CASE(test_v2), CASE(test_v1), CASE(test_bound), CASE(test_none), CASE(test_ended) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The system-wide collectors over captured machines with everything odd that /proc has shown: other kernels' columns, cores and disks
 * that come and go, counters that wrap, fall and restart, and garbage. Absent is never 0, and nothing is negative or astronomic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/collect.h"

#define MS 1000000LL
#define TICK 10000000LL /* 1/100 s */

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

static void tree_clock(struct collect *c, unsigned tree, unsigned seconds)
{
        char path[32];
        snprintf(path, sizeof path, "%04u/clock", tree);
        machine_writef(&c->machine, path, "%u000000000 %u000000000 %u000000000\n", seconds, seconds, seconds);
}

static void file(struct collect *c, unsigned tree, const char *path, const char *text)
{
        char full[256];
        snprintf(full, sizeof full, "%04u/%s", tree, path);
        machine_write(&c->machine, full, text);
        tree_clock(c, tree, 100 + tree);
}

static void run(struct collect *c, const struct collector *a, const struct collector *b)
{
        const struct collector *parts[] = { a, b };
        assert_int_equal(collect_open(c, parts, b ? 2 : 1), 0);
}

static struct row *core(struct collect *c, unsigned number)
{
        return sample_find(c->sample, SCOPE_CPU, (struct key){ number, 0 });
}

static struct row *disk(struct collect *c, const char *name)
{
        return collect_named(c, SCOPE_DISK, DISK_NAME, name);
}

/* ---- cpu ----------------------------------------------------------------------------------------------------------- */

static void test_cpu_fields(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/stat", "cpu  99 99 99 99 99 99 99 99 99 99\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7\ncpu2 1 2 3\n"
                                "intr 77 1 2 3\nctxt 88\nbtime 5\nprocesses 99\nprocs_running 3\nprocs_blocked 4\nsoftirq 1 2\n");
        file(c, 0, "proc/loadavg", "0.05 12.30 100.00 2/345 999\n");
        file(c, 0, "proc/uptime", "123.45 6.00\n");
        run(c, &collector_cpu, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_value(core(c, 0), CPU_USER), TICK);
        assert_int_equal(collect_value(core(c, 0), CPU_GUEST_NICE), 10 * TICK);
        assert_int_equal(collect_value(core(c, 1), CPU_SOFTIRQ), 7 * TICK);
        assert_int_equal(collect_value(core(c, 1), CPU_STEAL), -1); /* before 2.6.11: absent, not 0 */
        assert_null(core(c, 2));                                    /* no idle time: not a core's line */
        struct row *system = sample_find(c->sample, SCOPE_SYSTEM, (struct key){ 0, 0 });
        assert_int_equal(collect_value(system, SYSTEM_INTR), 77);
        assert_int_equal(collect_value(system, SYSTEM_CTXT), 88);
        assert_int_equal(collect_value(system, SYSTEM_FORKS), 99);
        assert_int_equal(collect_value(system, SYSTEM_RUNNING), 3);
        assert_int_equal(collect_value(system, SYSTEM_BLOCKED), 4);
        assert_int_equal(c->evidence.procs_blocked, 4);
        assert_int_equal(collect_value(system, SYSTEM_LOAD1), 5);
        assert_int_equal(collect_value(system, SYSTEM_LOAD5), 1230);
        assert_int_equal(collect_value(system, SYSTEM_LOAD15), 10000);
        assert_int_equal(collect_value(system, SYSTEM_TASKS), 345);
        assert_int_equal(collect_value(system, SYSTEM_UPTIME), 123450 * MS);
        assert_int_equal(collect_value(system, SYSTEM_CORES), 2);
}

/* Iowait falls on core 0; core 5 goes away and comes back with lower counters; numbers are sparse. */
static void test_cpu_evidence(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/stat", "cpu0 100 0 100 1000 500 0 0 0 0 0\ncpu5 900 0 900 900 900 0 0 0 0 0\n");
        file(c, 1, "proc/stat", "cpu0 100 0 100 1100 480 0 0 0 0 0\n");
        file(c, 2, "proc/stat", "cpu0 100 0 100 1100 500 0 0 0 0 0\ncpu5 901 0 900 3 1 0 0 0 0 0\n");
        file(c, 3, "proc/stat", "cpu0 100 0 100 1100 500 0 0 0 0 0\ncpu5 901 0 900 3 81 0 0 0 0 0\n");
        file(c, 4, "proc/stat", "cpu0 1 0 1 1 1 0 0 0 0 0\ncpu5 901 0 900 3 81 0 0 0 0 0\n");
        run(c, &collector_cpu, NULL);
        const struct evidence *e = &c->evidence;
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(e->core_count, 2);
        assert_false(e->cores[0].valid || e->cores[1].valid);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(e->core_count, 1);
        assert_true(e->cores[0].valid);
        assert_int_equal(e->cores[0].iowait_ns, -20 * TICK); /* raw and signed: the split says "taken back" */
        assert_int_equal(e->cores[0].idle_ns, 100 * TICK);
        assert_null(core(c, 5));
        assert_int_equal(e->stat_start_ns - e->stat_prev_start_ns, 1000 * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(e->cores[1].cpu, 5);
        assert_false(e->cores[1].valid);
        assert_int_equal(collect_tick(c), 0);
        assert_true(e->cores[1].valid);
        assert_int_equal(e->cores[1].iowait_ns, 80 * TICK);
        assert_int_equal(collect_tick(c), 0);
        assert_false(e->cores[0].valid); /* restarted */
        assert_true(e->cores[1].valid);
}

static void test_cpu_garbage(void **state)
{
        struct collect *c = *state;
        size_t size = 300000, at;
        char *text = malloc(size + 200);
        file(c, 0, "proc/stat", "cpu\ncpu0\ncpuX 1 2 3 4 5\ncpu99999999999 1 2 3 4 5\ncpu3 1 2 99999999999999999999999 4 5\n"
                "cpu1 1 2 3 4 5\ncpu1 9 9 9 9 9\n"
                                "intr\nctxt x\nprocs_blocked -1\n");
        file(c, 0, "proc/loadavg", "none\n");
        at = (size_t)sprintf(text, "cpu0 1 1 1 1 1 1 1 1 1 1\nintr 5");
        while (at < size)
                at += (size_t)sprintf(text + at, " 0");
        sprintf(text + at, " \nctxt 6\nprocs_blocked 7\n");
        file(c, 1, "proc/stat", text);
        file(c, 2, "proc/uptime", "no stat in this tree\n");
        run(c, &collector_cpu, NULL);
        assert_int_equal(collect_tick(c), 0);
        struct row *system = sample_find(c->sample, SCOPE_SYSTEM, (struct key){ 0, 0 });
        assert_int_equal(sample_rows(c->sample, SCOPE_CPU), 1);
        assert_int_equal(collect_value(core(c, 1), CPU_USER), TICK);
        assert_int_equal(collect_value(system, SYSTEM_CTXT), -1);
        assert_int_equal(collect_value(system, SYSTEM_BLOCKED), -1);
        assert_int_equal(collect_value(system, SYSTEM_LOAD1), -1);
        assert_int_equal(collect_value(system, SYSTEM_UPTIME), -1);
        assert_int_equal(collect_tick(c), 0);
        system = sample_find(c->sample, SCOPE_SYSTEM, (struct key){ 0, 0 });
        assert_int_equal(collect_value(system, SYSTEM_INTR), 5);
        assert_int_equal(collect_value(system, SYSTEM_CTXT), 6);
        assert_int_equal(c->evidence.procs_blocked, 7);
        assert_int_equal(collect_tick(c), -1);
        assert_int_equal(c->evidence.core_count, 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_CPU), 0);
        free(text);
}

static void test_cpu_no_cores(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\nctxt 5\n");
        run(c, &collector_cpu, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_CPU), 0);
        assert_int_equal(collect_value(sample_find(c->sample, SCOPE_SYSTEM, (struct key){ 0, 0 }), SYSTEM_CORES), -1);
}

/* ---- disk ---------------------------------------------------------------------------------------------------------- */

static void test_disk_columns(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/diskstats",
             " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4\n 8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
             " 8 32 sdc 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 8 48 sdd 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n"
             " 8 64 sde 1 2 3\n 8 80 sdf 1 2 3 4 5 6\nnonsense\n\n 8 sdg 1 2 3 4\n 8 0 sda 7 7 7 7 7 7 7 7 7 7 7\n");
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_DISK), 5);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_READS), 1);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_QUEUE_TIME), 11 * MS);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_DISCARDS), -1);
        assert_int_equal(collect_value(disk(c, "sda1"), DISK_READS), 1);
        assert_int_equal(collect_value(disk(c, "sda1"), DISK_READ_BYTES), 2 * 512);
        assert_int_equal(collect_value(disk(c, "sda1"), DISK_WRITE_BYTES), 4 * 512);
        assert_int_equal(collect_value(disk(c, "sda1"), DISK_READ_TIME), -1);
        assert_int_equal(collect_value(disk(c, "sda1"), DISK_INFLIGHT), -1);
        assert_int_equal(collect_value(disk(c, "sdb"), DISK_DISCARD_TIME), 15 * MS);
        assert_int_equal(collect_value(disk(c, "sdb"), DISK_FLUSHES), -1);
        assert_int_equal(collect_value(disk(c, "sdc"), DISK_FLUSH_TIME), 17 * MS);
        assert_int_equal(collect_value(disk(c, "sdd"), DISK_FLUSH_TIME), 17 * MS);
        assert_int_equal(collect_value(disk(c, "sdd"), DISK_KIND), -1); /* no sysfs: not guessed */
        assert_int_equal(collect_value(disk(c, "sdd"), DISK_DRIVER_READS), -1);
}

static void device(struct collect *c, unsigned tree, const char *name, const char *mq, const char *iostats, const char *sequence)
{
        char path[128];
        snprintf(path, sizeof path, "sys/block/%s/size", name);
        file(c, tree, path, "1000\n");
        snprintf(path, sizeof path, "sys/block/%s/queue/iostats", name);
        file(c, tree, path, iostats);
        snprintf(path, sizeof path, "sys/block/%s/queue/scheduler", name);
        file(c, tree, path, mq ? "none [mq-deadline] kyber\n" : "none\n");
        if (mq) {
                snprintf(path, sizeof path, "sys/block/%s/mq/0/nr_tags", name);
                file(c, tree, path, "64\n");
        }
        if (sequence) {
                snprintf(path, sizeof path, "sys/block/%s/diskseq", name);
                file(c, tree, path, sequence);
        }
}

static void test_disk_sysfs(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/diskstats", " 259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                " 259 1 nvme0n1p1 5 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0 0\n"
                                     " 253 0 dm-0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n 259 3 nvme1c0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                                     " 104 0 cciss/c0d0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                                     " 104 1 cciss/c0d0p1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        device(c, 0, "nvme0n1", "mq", "1\n", "9\n");
        file(c, 0, "sys/block/nvme0n1/nvme0n1p1/size", "500\n");
        file(c, 0, "sys/block/nvme0n1/nvme0n1p1/inflight", "       1        2\n");
        file(c, 0, "sys/block/nvme0n1/inflight", "       3        4\n");
        file(c, 0, "sys/block/nvme0n1/holders/dm-0/x", "");
        file(c, 0, "sys/block/nvme0n1/device/model", "ACME SSD            \n");
        file(c, 0, "sys/block/nvme0n1/queue/nr_requests", "1023\n");
        file(c, 0, "sys/block/nvme0n1/queue/rotational", "0\n");
        device(c, 0, "dm-0", NULL, "0\n", NULL);
        file(c, 0, "sys/block/dm-0/dm/name", "vg-root\n");
        file(c, 0, "sys/block/dm-0/slaves/nvme0n1/x", "");
        device(c, 0, "nvme1c0n1", "mq", "1\n", NULL);
        file(c, 0, "sys/block/nvme1c0n1/hidden", "1\n");
        device(c, 0, "cciss!c0d0", "mq", "1\n", NULL);
        file(c, 0, "sys/block/cciss!c0d0/cciss!c0d0p1/size", "7\n");
        machine_link(&c->machine, "0000/dev/disk/by-id/wwn-0x5", "../../nvme0n1");
        machine_link(&c->machine, "0000/dev/disk/by-id/nvme-ACME_1", "../../nvme0n1");
        machine_link(&c->machine, "0000/dev/disk/by-id/nvme-eui.00", "../../nvme0n1");
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        struct row *nvme = disk(c, "nvme0n1"), *part = disk(c, "nvme0n1p1"), *dm = disk(c, "dm-0");
        assert_int_equal(collect_value(nvme, DISK_KIND), 'w');
        assert_int_equal(collect_value(part, DISK_KIND), 'p');
        assert_int_equal(collect_value(dm, DISK_KIND), 's');
        assert_int_equal(collect_value(disk(c, "nvme1c0n1"), DISK_KIND), 'h');
        assert_int_equal(collect_value(disk(c, "cciss/c0d0"), DISK_KIND), 'w');
        assert_int_equal(collect_value(disk(c, "cciss/c0d0p1"), DISK_KIND), 'p');
        assert_true(collect_text_is(disk(c, "cciss/c0d0p1"), DISK_PARENT, "cciss!c0d0"));
        assert_true(collect_text_is(part, DISK_PARENT, "nvme0n1"));
        assert_true(collect_text_is(nvme, DISK_PARENT, NULL));
        assert_true(collect_text_is(nvme, DISK_SCHEDULER, "mq-deadline"));
        assert_true(collect_text_is(dm, DISK_SCHEDULER, "none"));
        assert_true(collect_text_is(nvme, DISK_MODEL, "ACME SSD"));
        assert_true(collect_text_is(nvme, DISK_HOLDERS, "dm-0"));
        assert_true(collect_text_is(nvme, DISK_SLAVES, NULL));
        assert_true(collect_text_is(dm, DISK_SLAVES, "nvme0n1"));
        assert_true(collect_text_is(dm, DISK_DM_NAME, "vg-root"));
        assert_true(collect_text_is(nvme, DISK_BY_ID, "nvme-ACME_1"));
        assert_int_equal(collect_value(nvme, DISK_SIZE), 512000);
        assert_int_equal(collect_value(nvme, DISK_NR_REQUESTS), 1023);
        assert_int_equal(collect_value(nvme, DISK_ROTATIONAL), 0);
        assert_int_equal(collect_value(nvme, DISK_DRIVER_READS), 3);
        assert_int_equal(collect_value(part, DISK_DRIVER_WRITES), 2);
        assert_int_equal(row_key(nvme).b, 9);
        assert_int_equal(row_key(part).b, 9); /* its disk's */
        assert_true(row_key(dm).b >> 63);
        assert_true(c->evidence.in_flight); /* seen by the driver although field 9 is 0: passthrough */
}

/* A stranger's tree: sums beyond what 64 bits hold bound nothing, and are no number either. */
static void test_disk_hostile_sum(void **state)
{
        struct collect *c = *state;
        enum { DISKS = 1500 };
        char *text = malloc(DISKS * 128);
        size_t length = 0;
        assert_non_null(text);
        for (unsigned i = 0; i < DISKS; i++)
                length += (size_t)snprintf(text + length, 128,
                        " 8 %u sd%u 0 0 0 4294967295 0 0 0 4294967295 0 0 0 0 0 0 4294967295 0 4294967295\n", i, i);
        file(c, 0, "proc/diskstats", "");
        file(c, 1, "proc/diskstats", text);
        free(text);
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_true(c->evidence.bound_void);
        assert_true(c->evidence.device_ns >= 0);
}

static void sda(struct collect *c, unsigned tree, unsigned reads, unsigned read_ms, unsigned writes, unsigned write_ms, unsigned in_flight)
{
        char text[256];
        snprintf(text, sizeof text, " 8 0 sda %u 0 %u %u %u 0 %u %u %u 0 %u 0 0 0 0 0 0\n", reads, reads * 8, read_ms, writes, writes * 8,
                write_ms, in_flight, read_ms + write_ms);
        file(c, tree, "proc/diskstats", text);
}

static void test_disk_evidence(void **state)
{
        struct collect *c = *state;
        const struct evidence *e = &c->evidence;
        device(c, 0, "sda", "mq", "1\n", "5\n");
        sda(c, 0, 10, 4294967290u, 10, 20, 0);
        sda(c, 1, 12, 14, 10, 20, 3);       /* 20 ms over the 32-bit end */
        sda(c, 2, 12, 14, 10, 20, 3);       /* nothing completes */
        sda(c, 3, 12, 14, 10, 20, 3);
        sda(c, 4, 13, 99, 11, 30, 0);
        sda(c, 5, 1, 1, 1, 1, 0);           /* counters restart */
        sda(c, 6, 2, 3, 1, 1, 0);
        file(c, 7, "proc/diskstats", "");   /* unplugged */
        sda(c, 8, 4, 40, 0, 0, 0);          /* plugged in */
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_true(e->bound_void); /* no interval yet */
        assert_int_equal(collect_value(disk(c, "sda"), DISK_READ_TIME), 4294967290LL * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_false(e->bound_void);
        assert_int_equal(e->device_ns, 20 * MS);
        assert_int_equal(e->device_counters, 1);
        assert_true(e->in_flight && !e->in_flight_start && e->completed);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_STUCK), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_true(e->in_flight && e->in_flight_start && !e->completed);
        assert_int_equal(e->device_ns, 0);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_STUCK), 1000 * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_STUCK), 2000 * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_value(disk(c, "sda"), DISK_STUCK), 0);
        assert_int_equal(e->device_ns, 95 * MS);
        assert_int_equal(e->device_counters, 2);
        assert_true(e->in_flight_start && !e->in_flight && e->completed && !e->bound_void);
        assert_int_equal(collect_tick(c), 0);
        assert_true(e->bound_void);
        assert_true(e->device_ns >= 0 && e->device_ns < 1000 * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_false(e->bound_void);
        assert_int_equal(e->device_ns, 2 * MS);
        assert_int_equal(collect_tick(c), 0);
        assert_true(e->bound_void);
        assert_int_equal(sample_rows(c->sample, SCOPE_DISK), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_false(e->bound_void); /* what it did, it did in this interval */
        assert_int_equal(e->device_ns, 40 * MS);
}

/* Another disk under the same name between two ticks, with higher counters: only diskseq tells. */
static void test_disk_replaced(void **state)
{
        struct collect *c = *state;
        device(c, 0, "sda", "mq", "1\n", "5\n");
        device(c, 1, "sda", "mq", "1\n", "5\n");
        device(c, 2, "sda", "mq", "1\n", "6\n");
        for (unsigned i = 0; i < 3; i++)
                sda(c, i, 10 + i, 10 + i, 0, 0, 0);
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_false(c->evidence.bound_void);
        assert_int_equal(row_key(disk(c, "sda")).b, 5);
        assert_int_equal(collect_tick(c), 0);
        assert_true(c->evidence.bound_void);
        assert_int_equal(sample_rows(c->sample, SCOPE_DISK), 1);
        assert_int_equal(row_key(disk(c, "sda")).b, 6);
}

/* The bound is void when a request queue is not accounted, but not for a bio device, whose queue/iostats says nothing; nor by partitions.
 * */
static void test_disk_iostats(void **state)
{
        struct collect *c = *state;
        for (unsigned i = 0; i < 3; i++) {
                char path[64];
                device(c, i, "sda", "mq", i < 2 ? "1\n" : "0\n", NULL);
                device(c, i, "zram0", NULL, "0\n", NULL);
                file(c, i, "sys/block/sda/sda1/size", "9\n");
                snprintf(path, sizeof path, "%04u/proc/diskstats", i);
                machine_writef(&c->machine, path, " 8 0 sda 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                        " 8 1 sda1 0 0 0 %u 0 0 0 0 1 0 0 0 0 0 0 0 0\n"
                                                  " 253 0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", 50 * i);
                machine_writef(&c->machine, i == 0 ? "0000/proc/stat" : i == 1 ? "0001/proc/stat" : "0002/proc/stat", "cpu0 1 1 1 1 %u\n",
                        10 * i);
        }
        run(c, &collector_cpu, &collector_disk);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_false(c->evidence.bound_void);
        assert_false(c->evidence.in_flight); /* the partition's */
        assert_int_equal(c->evidence.device_ns, 0);
        assert_int_equal(collect_tick(c), 0); /* there is iowait to explain: iostats is looked at again */
        assert_true(c->evidence.bound_void);
}

static void test_disk_no_flush_fields(void **state)
{
        struct collect *c = *state;
        for (unsigned i = 0; i < 2; i++)
                file(c, i, "proc/diskstats", " 8 0 sda 1 1 1 1 1 1 1 1 0 1 1 1 1 1 1\n");
        file(c, 2, "proc/loadavg", "no diskstats here\n");
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_true(c->evidence.bound_void);
        assert_int_equal(collect_tick(c), -1);
        assert_true(c->evidence.bound_void);
        assert_false(c->evidence.in_flight);
}

static void test_lxcfs(void **state)
{
        struct collect *c = *state;
        for (unsigned i = 0; i < 2; i++) {
                file(c, i, "proc/diskstats", " 8 0 sda 1 1 1 1 1 1 1 1 0 1 1 1 1 1 1 1 1\n");
                file(c, i, "system", "hz=100\nlxcfs=1\n");
        }
        run(c, &collector_disk, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(collect_tick(c), 0);
        assert_true(c->evidence.bound_void);
}

/* ---- vm, net, pressure, facts -------------------------------------------------------------------------------------- */

static void test_vm(void **state)
{
        struct collect *c = *state;
        file(c, 0, "system", "page_size=65536\n");
        file(c, 0, "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 10 kB\nSwapCached: 77 kB\nCached: 5 kB\n"
                "Dirty: 99999999999999999999 kB\nWritebackTmp: 3 kB\n");
        file(c, 0, "proc/vmstat", "pswpin 2\npgpgin 3\nallocstall_dma 1\nallocstall_normal 2\nallocstall_movable 4\npgscan_direct 1\n"
                "pgscan_direct_throttle 50\n"
                                  "pgmajfault x\npgfault 8\n");
        run(c, &collector_vm, NULL);
        assert_int_equal(collect_tick(c), 0);
        struct row *vm = sample_find(c->sample, SCOPE_VM, (struct key){ 0, 0 });
        assert_int_equal(collect_value(vm, VM_TOTAL), 1024000);
        assert_int_equal(collect_value(vm, VM_CACHED), 5120);
        assert_int_equal(collect_value(vm, VM_DIRTY), -1);
        assert_int_equal(collect_value(vm, VM_WRITEBACK), -1);
        assert_int_equal(collect_value(vm, VM_AVAILABLE), -1);
        assert_int_equal(collect_value(vm, VM_SWAP_IN), 2 * 65536);
        assert_int_equal(collect_value(vm, VM_PAGE_IN), 3 * 1024);
        assert_int_equal(collect_value(vm, VM_ALLOC_STALL), 7);
        assert_int_equal(collect_value(vm, VM_SCAN_DIRECT), 65536);
        assert_int_equal(collect_value(vm, VM_MAJFLT), -1);
        assert_int_equal(collect_value(vm, VM_MINFLT), 8);
        assert_int_equal(collect_value(vm, VM_OOM_KILL), -1);
}

static void test_net(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/net/dev", "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n"
                "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:99 1\n"
                                   ": 1 2 3\nx y z\nwg: \n");
        run(c, &collector_net, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_NET), 2);
        struct row *lo = collect_named(c, SCOPE_NET, NET_NAME, "lo"), *eth = collect_named(c, SCOPE_NET, NET_NAME, "eth0");
        assert_int_equal(collect_value(lo, NET_RX_DROPPED), 4);
        assert_int_equal(collect_value(lo, NET_TX_BYTES), 9);
        assert_int_equal(collect_value(lo, NET_TX_DROPPED), 12);
        assert_int_equal(collect_value(eth, NET_RX_BYTES), 99);
        assert_int_equal(collect_value(eth, NET_TX_BYTES), -1);
}

static void test_pressure(void **state)
{
        struct collect *c = *state;
        file(c, 0, "errors", "proc/pressure/memory EOPNOTSUPP\n");
        file(c, 0, "proc/pressure/cpu", "some avg10=10.48 avg60=6.00 avg300=1.94 total=15250033\n");
        file(c, 0, "proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
                "full avg10=100.00 avg60=0.00 avg300=0.00 total=4\n");
        run(c, &collector_pressure, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_int_equal(sample_rows(c->sample, SCOPE_PRESSURE), 2);
        struct row *cpu = sample_find(c->sample, SCOPE_PRESSURE, (struct key){ 0, 0 }), *io = sample_find(c->sample, SCOPE_PRESSURE,
                (struct key){ 1, 0 });
        assert_int_equal(collect_value(cpu, PRESSURE_SOME), 15250033000LL);
        assert_int_equal(collect_value(cpu, PRESSURE_SOME10), 1048);
        assert_int_equal(collect_value(cpu, PRESSURE_FULL), -1);
        assert_int_equal(collect_value(io, PRESSURE_FULL), 4000);
        assert_int_equal(collect_value(io, PRESSURE_FULL10), 10000);
}

static void test_pressure_off(void **state)
{
        struct collect *c = *state;
        const struct collector *part = &collector_pressure;
        char line[200];
        file(c, 0, "errors", "proc/pressure/cpu 95\nproc/pressure/io 95\nproc/pressure/memory 95\n");
        assert_int_equal(collect_open(c, &part, 1), -2); /* -ENOENT: this machine lacks it */
        part->check(c->procfs, line, sizeof line);
        assert_non_null(strstr(line, "switched off"));
}

static bool fact_is(struct collect *c, const char *name, const char *value)
{
        return collect_text_is(sample_find(c->sample, SCOPE_FACT, key_of_name(name, strlen(name), 0)), FACT_VALUE, value);
}

static void test_facts(void **state)
{
        struct collect *c = *state;
        file(c, 0, "proc/sys/kernel/hostname", "box\n");
        file(c, 0, "proc/sys/kernel/osrelease", "4.18.0-553.el8\n");
        file(c, 0, "proc/cpuinfo", "processor\t: 0\nmodel name\t: ACME  CPU @ 2GHz\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\n"
                "model name\t: other\n");
        file(c, 0, "sys/devices/system/cpu/online", "0-1,4\n");
        file(c, 0, "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n");
        file(c, 0, "proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\nsrv:/x /mnt\\040a nfs4 ro,vers=4 0 0\nshort\n");
        file(c, 0, "system", "hz=100\nutc_offset=-3600\n");
        device(c, 0, "sda", "mq", "1\n", NULL);
        file(c, 0, "sys/block/loop0/size", "0\n");
        file(c, 1, "proc/nothing", "");
        run(c, &collector_facts, NULL);
        assert_int_equal(collect_tick(c), 0);
        assert_true(fact_is(c, "host", "box"));
        assert_true(fact_is(c, "kernel", "4.18.0-553.el8"));
        assert_true(fact_is(c, "cpu.model", "ACME  CPU @ 2GHz"));
        assert_true(fact_is(c, "hypervisor", "yes"));
        assert_true(fact_is(c, "cpu.online", "0-1,4"));
        assert_true(fact_is(c, "cpu.threads_per_core", "2"));
        assert_true(fact_is(c, "mount./", "/dev/sda1 ext4 rw"));
        assert_true(fact_is(c, "mount./mnt\\040a", "srv:/x nfs4 ro,vers=4"));
        assert_true(fact_is(c, "mount./proc", NULL));
        assert_true(fact_is(c, "utc_offset", "-3600"));
        assert_true(fact_is(c, "pressure", "none"));
        assert_true(fact_is(c, "disk.sda", "sectors=1000, scheduler=none [mq-deadline] kyber, iostats=1"));
        assert_true(fact_is(c, "disk.loop0", NULL));
        assert_true(fact_is(c, "cpu.governor", NULL));
        assert_int_equal(collect_tick(c), 0);
        assert_true(fact_is(c, "host", "box")); /* later trees need not repeat it */
}

/* ---- this machine -------------------------------------------------------------------------------------------------- */

static void test_live(void **state)
{
        struct collect *c = *state;
        static const struct collector *const all[] = { &collector_cpu, &collector_disk, &collector_vm, &collector_net, &collector_facts };
        procfs_open_root(NULL, &c->procfs);
        for (unsigned i = 0; i < 5; i++) {
                assert_int_equal(all[i]->open(c->procfs, &c->own[i]), 0);
                c->part[i] = all[i];
                c->parts++;
        }
        for (int i = 0; i < 3; i++)
                assert_int_equal(collect_tick(c), 0);
        assert_true(c->evidence.core_count > 0);
        assert_true(sample_rows(c->sample, SCOPE_CPU) == c->evidence.core_count);
        assert_true(collect_value(sample_find(c->sample, SCOPE_VM, (struct key){ 0, 0 }), VM_TOTAL) > 0);
        assert_true(c->evidence.stat_start_ns >= c->evidence.stat_prev_end_ns);
        for (size_t i = 0; i < c->evidence.core_count; i++)
                assert_true(c->evidence.cores[i].valid);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(test_cpu_fields), CASE(test_cpu_evidence), CASE(test_cpu_garbage), CASE(test_cpu_no_cores), CASE(test_disk_columns),
                        CASE(test_disk_sysfs),
                        CASE(test_disk_hostile_sum),
                CASE(test_disk_evidence), CASE(test_disk_replaced), CASE(test_disk_iostats), CASE(test_disk_no_flush_fields),
                        CASE(test_lxcfs), CASE(test_vm),
                CASE(test_net), CASE(test_pressure), CASE(test_pressure_off), CASE(test_facts), CASE(test_live),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

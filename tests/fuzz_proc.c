/*
 * Text of kernel files from a stranger: every system-wide collector reads it as each of its files, twice over, as a captured machine with
 * one tree and a second one that has the bytes in another place. It may find anything there but must not crash, and must seal a frame
 * that passes the check.
 */
#include <stdint.h>

#include "tests/collect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size);

static const char *const files[] = {
        "proc/stat", "proc/diskstats", "proc/meminfo", "proc/vmstat", "proc/net/dev", "proc/pressure/io", "proc/loadavg", "proc/uptime",
        "proc/cpuinfo",
        "proc/self/mounts", "proc/devices", "sys/block/sda/queue/scheduler", "sys/block/sda/size", "sys/block/sda/inflight",
        "sys/fs/cgroup/cpu.stat",
        "sys/fs/cgroup/io.stat", "sys/fs/cgroup/cgroup.controllers", "sys/fs/cgroup/a/cgroup.events", "sys/devices/system/cpu/online",
        "clock", "system", "errors",
};
enum { FILES = sizeof files / sizeof files[0] };

static const char *const seeds[FILES] = {
        ("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5 1 2\nctxt 3\nprocesses 7\n"
        "procs_running 1\nprocs_blocked 2\n"),
        " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n",
        "MemTotal: 5 kB\nDirty: 4 kB\n", "pswpin 4\nallocstall_dma 5\n", "  lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
        "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n", "0.00 0.01 0.05 1/99 100\n",
        "12.34 56.78\n",
        "model name\t: x\nflags\t\t: hypervisor\n", "/dev/sda / ext4 rw 0 0\n", "Block devices:\n253 device-mapper\n",
        "none [mq-deadline]\n", "1000\n", " 1 2\n",
        "usage_usec 5\n", "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n", "cpu\n", "populated 1\n", "0-3,9\n", "1 2 3\n",
        "hz=100\npage_size=4096\nlxcfs=0\n",
        "proc/stat EACCES\nproc/1/io 13\n",
};

/* The machine is made once; a run only writes the files that the input says. */
static struct machine machine;

static void write_bytes(const char *tree, const char *path, const uint8_t *data, size_t size)
{
        char name[256], full[1024];
        snprintf(name, sizeof name, "%s/%s", tree, path);
        FILE *f = fopen(machine_path(&machine, name, full), "w");
        if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
                abort();
}

static void end(void)
{
        machine_remove(&machine);
}

static void make(void)
{
        if (machine.dir[0])
                return;
        machine_make(&machine);
        atexit(end);
        for (int tree = 0; tree < 2; tree++)
                for (size_t i = 0; i < FILES; i++)
                        write_bytes(tree ? "0001" : "0000", files[i], (const uint8_t *)seeds[i], strlen(seeds[i]));
}

static void collect_all(void)
{
        static const struct collector *const all[] = { &collector_cpu, &collector_disk, &collector_vm, &collector_net,
                &collector_pressure, &collector_cgroup, &collector_facts };
        struct collect c = { .machine = machine };
        if (procfs_open_root(machine.dir, &c.procfs) < 0 || sample_new(&c.sample) < 0)
                return;
        for (unsigned i = 0; i < 7; i++)
                if (all[i]->open(c.procfs, &c.own[c.parts]) == 0)
                        c.part[c.parts++] = all[i];
        for (int tree = 0; tree < 2; tree++) {
                const void *frame;
                size_t length;
                struct seal seal = { .scopes_on = UINT32_MAX >> (32 - SCOPE_COUNT) };
                collect_tick(&c);
                if (sample_seal(c.sample, &seal, &frame, &length) == 0 && frame_check(frame, length) < 0)
                        abort();
                if (c.evidence.device_ns < 0)
                        abort();
        }
        for (unsigned i = 0; i < c.parts; i++)
                c.part[i]->close(c.own[i]);
        sample_free(c.sample);
        procfs_close_root(c.procfs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        make();
        if (size < 1)
                return 0;
        size_t which = data[0] % FILES;
        write_bytes(data[0] & 0x80 ? "0000" : "0001", files[which], data + 1, size - 1);
        collect_all();
        for (int tree = 0; tree < 2; tree++)
                write_bytes(tree ? "0001" : "0000", files[which], (const uint8_t *)seeds[which], strlen(seeds[which]));
        return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *buffer, size_t size)
{
        if (number >= FILES || strlen(seeds[number]) + 1 > size)
                return 0;
        buffer[0] = (uint8_t)number;
        memcpy(buffer + 1, seeds[number], strlen(seeds[number]));
        return strlen(seeds[number]) + 1;
}

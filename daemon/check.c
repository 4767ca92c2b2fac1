/*
 * `watopd --check`. Contract: check.h.
 *
 * One line a collector, in its own words, then what the daemon needs beside: rights, the ring's place, the group, features of the kernel.
 */
#include "daemon/check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectors/bpf/tracer.h"
#include "collectors/collector.h"
#include "collectors/stages.h"
#include "daemon/privs.h"
#include "sample/trust.h"

/* Names of devices and the like come from strangers: nothing but printable ASCII reaches the terminal. */
static void say(const char *head, const char *line)
{
        printf("%-12s ", head);
        for (; *line != '\0'; line++)
                putchar(isprint((unsigned char)*line) ? *line : '?');
        putchar('\n');
}

static int check_collectors(struct procfs *procfs)
{
        int opened = 0;

        for (unsigned i = 0; collectors[i] != NULL; i++) {
                const struct collector *collector = collectors[i];
                if (collector == &collector_stage) /* its rows need more than files: see below */
                        continue;
                char line[512] = "";
                void *own = NULL;
                int r = collector->open(procfs, &own);
                if (r >= 0)
                        opened++;
                if (r >= 0 && collector->close != NULL)
                        collector->close(own);
                if (collector->check != NULL)
                        collector->check(procfs, line, sizeof line);
                if (line[0] == '\0' && (r >= 0 || r == -ENOENT))
                        snprintf(line, sizeof line, "%s", r >= 0 ? "yes" : "this machine has none");
                else if (line[0] == '\0')
                        snprintf(line, sizeof line, "no: %s", strerror(-r));
                say(collector->name, line);
        }
        return opened;
}

static void check_place(const struct place *place, int error)
{
        char line[2 * PATH_MAX + 200];
        gid_t group;

        if (error == -ENOENT)
                snprintf(line, sizeof line, "no place for a ring: XDG_RUNTIME_DIR is not set (a private watopd of watop needs none)");
        else if (error < 0)
                snprintf(line, sizeof line, "no place for a ring: %s", strerror(-error));
        else if (access(place->folder, F_OK) < 0)
                snprintf(line, sizeof line, "%s will be made when the daemon starts", place->folder);
        else if (place_in_memory(place->folder))
                snprintf(line, sizeof line, "%s, in memory (tmpfs)", place->ring);
        else
                snprintf(line, sizeof line, "%s is not on tmpfs: the ring is a memfd, handed out by %s", place->folder, place->socket);
        say("ring", line);
        if (trust_group(&group) < 0)
                say("group", "there is no group `watop`: only root and the daemon's own user can read a daemon's ring");
        else
                say("group", "members of `watop` can read the daemon's ring");
}

/* Whether a file of the kernel is there, as one line. */
static void check_file(struct procfs *procfs, const char *name, const char *path, const char *yes, const char *no)
{
        char text[256], line[400];

        ssize_t r = procfs_read(procfs, path, text, sizeof text);
        if (r >= 0 || r == -EOVERFLOW)
                snprintf(line, sizeof line, "%s", yes);
        else if (r == -ENOENT)
                snprintf(line, sizeof line, "%s", no);
        else
                snprintf(line, sizeof line, "/%s: %s: %s", path, strerror((int)-r), no);
        say(name, line);
}

/* A sysctl with a meaning for each value 0, 1, 2. */
static void check_sysctl(struct procfs *procfs, const char *name, const char *path, const char *const meaning[3], const char *missing)
{
        char text[64];

        ssize_t r = procfs_read(procfs, path, text, sizeof text);
        if (r < 1)
                say(name, r == -ENOENT ? missing : "cannot be read");
        else if (text[0] >= '0' && text[0] <= '2' && meaning[text[0] - '0'] != NULL)
                say(name, meaning[text[0] - '0']);
        else
                say(name, "set to a value that is not known here");
}

static void check_kernel(struct procfs *procfs)
{
        static const char *const delayacct[3] = { "off: no iodelay for processes (sysctl kernel.task_delayacct=1 turns it on)", "on",
                NULL };
        static const char *const uring[3] = { "io_uring is allowed for everybody",
                "io_uring is allowed for privileged processes and its group only",
                "io_uring is switched off: no parked reactors can exist" };

        check_file(procfs, "PSI", "proc/pressure/io", "on",
                "this kernel has no pressure information, or it is off (psi=1 on its command line)");
        check_sysctl(procfs, "delayacct", "proc/sys/kernel/task_delayacct", delayacct,
                "no switch in this kernel (before 5.14 it is on unless nodelayacct is given)");
        check_sysctl(procfs, "io_uring", "proc/sys/kernel/io_uring_disabled", uring,
                "no switch in this kernel (before 6.6 io_uring is on where it is built in)");
        /* The file is megabytes long: whether it can be opened is the question. */
        if (!procfs_live(procfs))
                return;
        say("BTF", access("/sys/kernel/btf/vmlinux", R_OK) == 0 ? "yes: the kernel describes its types to BPF programs"
                : "no /sys/kernel/btf/vmlinux: everything comes from /proc");
}

/* Loaded and attached for a moment: all that can fail. */
static void check_exact(bool bpf)
{
        struct tracer *tracer = NULL;
        char why[300] = "", line[400];

        if (!bpf) {
                say("exact", "off by the settings (bpf = off): wa is split by the rules on /proc");
                return;
        }
        int r = tracer_open(&tracer, why, sizeof why);
        if (r == 0)
                r = tracer_attach(tracer, why, sizeof why);
        tracer_close(tracer);
        if (r == 0)
                snprintf(line, sizeof line, "wa can be split exactly, by tracing, while a watop asks for it");
        else if (why[0] != '\0')
                snprintf(line, sizeof line, "wa cannot be split exactly: %s", why);
        else if (r == -ENOSYS)
                snprintf(line, sizeof line, "wa cannot be split exactly: built without libbpf (Meson option bpf)");
        else if (r == -EPERM || r == -EACCES)
                snprintf(line, sizeof line, "wa cannot be split exactly: needs root, or CAP_BPF + CAP_PERFMON");
        else if (r == -ENOENT)
                snprintf(line, sizeof line, "wa cannot be split exactly: the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
        else
                snprintf(line, sizeof line, "wa cannot be split exactly: %s", strerror(-r));
        say("exact", line);
}

static void check_stages(bool bpf)
{
        char line[700];

        stages_check(bpf, line, sizeof line);
        say("stages", line);
}

int check_run(struct procfs *procfs, const struct place *place, int place_error, bool bpf)
{
        char line[400];

        printf("watopd %s, uid %d\n", WATOP_VERSION, (int)geteuid());
        int opened = check_collectors(procfs);
        for (unsigned i = 0; privs_line(i, line, sizeof line); i++)
                say("right", line);
        if (procfs_live(procfs))
                check_place(place, place_error);
        check_kernel(procfs);
        if (procfs_live(procfs))
                check_exact(bpf);
        if (procfs_live(procfs))
                check_stages(bpf);
        return opened > 0 ? 0 : 1;
}

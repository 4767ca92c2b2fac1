/*
 * Rights given away: what is left in each set afterwards, as the kernel says it (/proc/self/status), with and without tracing, and where
 * tracing works only with its capabilities. Each case in a child of its own. Skipped where this process has none to give.
 */
#include "daemon/privs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* include/uapi/linux/capability.h */
#define DAC_READ_SEARCH (UINT64_C(1) << 2)
#define SYS_PTRACE (UINT64_C(1) << 19)
#define PERFMON (UINT64_C(1) << 38)
#define BPF (UINT64_C(1) << 39)
#define ALWAYS (DAC_READ_SEARCH | SYS_PTRACE)

static uint64_t set_of(const char *name)
{
        char line[200];
        uint64_t value = UINT64_MAX;
        FILE *file = fopen("/proc/self/status", "re");
        size_t length = strlen(name);

        while (file && fgets(line, sizeof line, file))
                if (strncmp(line, name, length) == 0 && line[length] == ':')
                        value = strtoull(line + length + 1, NULL, 16);
        if (file)
                fclose(file);
        return value;
}

static bool has_all(void)
{
        uint64_t needed = ALWAYS | PERFMON | BPF;

        return (set_of("CapPrm") & needed) == needed;
}

struct trial {
        unsigned calls;
        bool without, with;     /* tracing works without its capabilities, with them */
        bool wrong;
};

static bool trial(void *arg)
{
        struct trial *t = arg;
        bool tracing = set_of("CapEff") & (PERFMON | BPF);

        t->calls++;
        /* The first time as if they were gone, and nothing else is there any more. */
        t->wrong |= tracing != (t->calls > 1) || (set_of("CapEff") & ~(PERFMON | BPF)) != ALWAYS;
        return tracing ? t->with : t->without;
}

/* Exit status of a child in which rights are dropped: 0 as expected. */
static int in_child(struct trial *t, bool traces, unsigned calls, uint64_t left)
{
        pid_t pid = fork();
        int status = 1;

        if (pid == 0) {
                char why[200] = "";
                int r = privs_drop(traces ? trial : NULL, t, why, sizeof why);
                _exit(r < 0 ? 2 : t->wrong ? 3 : t->calls != calls ? 4 : set_of("CapPrm") != left ? 5 : set_of("CapEff") != left ? 6 :
                        set_of("CapInh") != 0 ? 7 : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void rights_left(void **unused)
{
        (void)unused;
        if (!has_all())
                skip();
        assert_int_equal(in_child(&(struct trial){ .calls = 0 }, false, 0, ALWAYS), 0);
        assert_int_equal(in_child(&(struct trial){ .without = true }, true, 1, ALWAYS), 0);
        assert_int_equal(in_child(&(struct trial){ .with = true }, true, 2, ALWAYS | PERFMON | BPF), 0);
        assert_int_equal(in_child(&(struct trial){ .calls = 0 }, true, 2, ALWAYS), 0);
}

static void each_has_its_line(void **unused)
{
        char line[300];
        unsigned count = 0;

        (void)unused;
        while (privs_line(count, line, sizeof line)) {
                assert_non_null(strstr(line, "needed for"));
                count++;
        }
        assert_int_equal(count, 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rights_left),
                cmocka_unit_test(each_has_its_line),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

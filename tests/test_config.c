/*
 * watopd's settings: values in words, and that a bad line is named with its number while the old value stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config.h"

#define SECOND UINT64_C(1000000000)

struct said {
        unsigned lines[16];
        char why[16][160];
        size_t count;
};

static void remember(void *arg, unsigned line, const char *why)
{
        struct said *said = arg;

        if (said->count == 16)
                return;
        said->lines[said->count] = line;
        snprintf(said->why[said->count++], sizeof said->why[0], "%s", why);
}

/* A settings file with these bytes; its path stays until the next call. */
static const char *file_with(const char *bytes, size_t length)
{
        static char path[300];
        const char *tmp = getenv("TMPDIR");

        snprintf(path, sizeof path, "%s/watop-config.XXXXXX", tmp != NULL ? tmp : "/tmp");
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, length), (ssize_t)length);
        close(fd);
        return path;
}

static int load(const char *text, struct config *config, struct said *said)
{
        const char *path = file_with(text, strlen(text));
        *said = (struct said){ .count = 0 };
        int r = config_load(path, config, remember, said);
        unlink(path);
        return r;
}

static void intervals(void **unused)
{
        static const struct { const char *text; uint64_t ns; } good[] = {
                { "1", SECOND }, { "1s", SECOND }, { "250ms", SECOND / 4 }, { "0.5", SECOND / 2 }, { "1.5s", SECOND * 3 / 2 },
                { "2m", 120 * SECOND },
                { "1h", 3600 * SECOND }, { "10ms", SECOND / 100 }, { ".25", SECOND / 4 },
                { "1500.000ms", SECOND * 3 / 2 }, { "33.333ms", 33333000 },
        };
        static const char *const bad[] = { "", "s", "-1", "+1", "1e3", "1 s", " 1", "0x10", "1d", "nan", "inf", ".", "1ss", "1,5",
                "111111111111111111111111" };
        static const char *const outside[] = { "0", "9ms", "0.009", "2h", "61m", "3601", "99999999999999999999" };
        uint64_t ns;

        (void)unused;
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
                assert_int_equal(config_interval(good[i].text, &ns), 0);
                assert_int_equal(ns, good[i].ns);
        }
        ns = 7;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_int_equal(config_interval(bad[i], &ns), -EINVAL);
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
                assert_int_equal(config_interval(outside[i], &ns), -ERANGE);
        assert_int_equal(ns, 7);
}

static void sizes_and_words(void **unused)
{
        uint64_t size;
        uint32_t mask = 0;
        enum cmdline_policy policy;

        (void)unused;
        assert_int_equal(config_size("64M", &size), 0);
        assert_int_equal(size, 64u << 20);
        assert_int_equal(config_size("1GiB", &size), 0);
        assert_int_equal(size, 1u << 30);
        assert_int_equal(config_size("2048k", &size), 0);
        assert_int_equal(size, 2u << 20);
        assert_int_equal(config_size("64MB", &size), -EINVAL);
        assert_int_equal(config_size("64 M", &size), -EINVAL);
        uint64_t age;
        char folder[CONFIG_PATH] = "";
        assert_int_equal(config_log_size("1024G", &size), 0);
        assert_true(size == UINT64_C(1) << 40);
        assert_int_equal(config_log_size("1025G", &size), -ERANGE);
        assert_int_equal(config_age("14d", &age), 0);
        assert_true(age == 14 * UINT64_C(86400000000000));
        assert_int_equal(config_age("1.5h", &age), 0);
        assert_true(age == UINT64_C(5400000000000));
        assert_int_equal(config_age("5m", &age), -EINVAL);
        assert_int_equal(config_age("4000d", &age), -ERANGE);
        assert_int_equal(config_log("/var/log/watop", folder), 0);
        assert_string_equal(folder, "/var/log/watop");
        assert_int_equal(config_log("logs", folder), -EINVAL);
        assert_int_equal(config_log("", folder), 0);
        assert_int_equal(config_size("1", &size), -ERANGE);
        assert_int_equal(config_size("17G", &size), -ERANGE);
        assert_int_equal(config_scopes("cpu, disk", &mask), 0);
        assert_int_equal(mask, SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK));
        assert_int_equal(config_scopes("all", &mask), 0);
        /* What is traced is never on by settings. */
        assert_int_equal(mask, (SCOPE_BIT(SCOPE_COUNT) - 1) & ~SCOPES_TRACED);
        assert_int_equal(config_scopes("bio,cpu", &mask), 0);
        assert_int_equal(mask, SCOPE_BIT(SCOPE_CPU));
        assert_int_equal(config_scopes("bio sync", &mask), -EINVAL); /* nothing would be left */
        assert_int_equal(config_scopes("cpu,disc", &mask), -EINVAL);
        assert_int_equal(config_scopes(" , ", &mask), -EINVAL);
        size_t length;
        const char *bad = config_bad_scope("cpu, disc disk", &length);
        assert_non_null(bad);
        assert_int_equal(length, 4);
        assert_memory_equal(bad, "disc", 4);
        assert_null(config_bad_scope("cpu disk", &length));
        assert_int_equal(config_cmdline("name", &policy), 0);
        assert_int_equal(policy, CMDLINE_NAME);
        assert_int_equal(config_cmdline("Full", &policy), -EINVAL);
        bool bpf = true;
        assert_int_equal(config_bpf("off", &bpf), 0);
        assert_false(bpf);
        assert_int_equal(config_bpf("on", &bpf), -EINVAL);
        assert_int_equal(config_bpf("auto ", &bpf), -EINVAL);
        assert_false(bpf);
        assert_int_equal(config_bpf("auto", &bpf), 0);
        assert_true(bpf);
}

static void bad_lines_are_named(void **unused)
{
        struct config config;
        struct said said;

        (void)unused;
        config_default(&config);
        int r = load("[watopd]\n"
                     "interval = 2s\n"
                     "interval = soon\n"       /* 3 */
                     "no setting\n"            /* 4 */
                     "   cmdline = name\n"     /* an indented line is no continuation */
                     "cmdline = secret\n"      /* 6 */
                     "ring_size = 1\n"         /* 7 */
                     "[watopd\n"               /* 8 */
                     "color = blue\n"          /* 9 */
                     "# a comment\n"
                     "\n"
                     "[other]\n"
                     "interval = 5s\n"         /* 13 */
                     "[watopd]\n"
                     "bpf = off\n"
                     "bpf = yes\n"             /* 16 */
                     "scopes = cpu disk",      /* last line without an end */
                &config, &said);
        static const unsigned lines[] = { 3, 4, 6, 7, 8, 9, 13, 16 };
        assert_int_equal(r, 8);
        assert_int_equal(said.count, 8);
        for (size_t i = 0; i < 7; i++)
                assert_int_equal(said.lines[i], lines[i]);
        assert_non_null(strstr(said.why[0], "soon"));
        assert_int_equal(config.interval_ns, 2 * SECOND);
        assert_int_equal(config.cmdline, CMDLINE_NAME);
        assert_false(config.bpf);
        assert_int_equal(config.ring_size, 64u << 20);
        assert_int_equal(config.scopes, SCOPE_BIT(SCOPE_CPU) | SCOPE_BIT(SCOPE_DISK));
}

static void bad_scope_is_named(void **unused)
{
        struct config config;
        struct said said;

        (void)unused;
        config_default(&config);
        assert_int_equal(load("scopes = cpu, dsk, net\n", &config, &said), 1);
        assert_non_null(strstr(said.why[0], ": dsk"));
        assert_null(strstr(said.why[0], "net"));
}

static void strange_bytes(void **unused)
{
        char text[2000];
        struct config config;
        struct said said = { .count = 0 };

        (void)unused;
        config_default(&config);
        /* A line longer than any buffer, a NUL, escapes: the next line still counts right. */
        memset(text, 'x', sizeof text);
        static const char rest[] = "\ninterval = \033[31mred\0\ninterval = 3s\n";
        memcpy(text + 1000, rest, sizeof rest - 1);
        const char *path = file_with(text, 1000 + sizeof rest - 1);
        assert_int_equal(config_load(path, &config, remember, &said), 2);
        unlink(path);
        assert_int_equal(said.lines[0], 1);
        assert_int_equal(said.lines[1], 2);
        assert_null(strchr(said.why[1], '\033'));
        assert_int_equal(config.interval_ns, 3 * SECOND);
}

static void reload_keeps_and_resets(void **unused)
{
        struct config base, running;
        struct said said = { .count = 0 };

        (void)unused;
        config_default(&base);
        running = base;
        running.interval_ns = 5 * SECOND;
        running.cmdline = CMDLINE_NONE;
        running.bpf = false;
        /* interval: bad, so the running value stays. cmdline: not named any more, so the default is back. */
        const char *path = file_with("interval = x\nscopes = cpu\n", 26);
        assert_int_equal(config_reload(path, &running, &base, remember, &said), 1);
        unlink(path);
        assert_int_equal(running.interval_ns, 5 * SECOND);
        assert_int_equal(running.cmdline, CMDLINE_FULL);
        assert_true(running.bpf);
        assert_int_equal(running.scopes, SCOPE_BIT(SCOPE_CPU));
        /* No file any more: nothing changes. */
        assert_int_equal(config_reload(path, &running, &base, remember, &said), -ENOENT);
        assert_int_equal(running.interval_ns, 5 * SECOND);
}

static void not_a_file(void **unused)
{
        struct config config;
        char path[300];
        const char *tmp = getenv("TMPDIR");

        (void)unused;
        config_default(&config);
        assert_int_equal(config_load("/", &config, NULL, NULL), -EINVAL);
        /* A FIFO must not make watopd wait. */
        snprintf(path, sizeof path, "%s/watop-fifo.%d", tmp != NULL ? tmp : "/tmp", (int)getpid());
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(config_load(path, &config, NULL, NULL), -EINVAL);
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(intervals), cmocka_unit_test(sizes_and_words), cmocka_unit_test(bad_lines_are_named),
                cmocka_unit_test(bad_scope_is_named),
                cmocka_unit_test(strange_bytes), cmocka_unit_test(reload_keeps_and_resets), cmocka_unit_test(not_a_file),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

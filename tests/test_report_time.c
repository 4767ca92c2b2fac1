/*
 * Time stamps at lines' starts, in the forms that scripts write, against what date(1) and the C library say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tui/report_make.h"

static void is(const char *line, double wanted, const char *rest)
{
        double time = NAN;
        size_t used = report_time_parse(line, strlen(line), 2026, &time);

        if (used == 0 || fabs(time - wanted) > 1e-6)
                print_message("%s: %zu, %f\n", line, used, time);
        assert_true(used > 0);
        assert_true(fabs(time - wanted) <= 1e-6);
        assert_string_equal(line + used, rest);
}

static void none(const char *line)
{
        double time;

        if (report_time_parse(line, strlen(line), 2026, &time))
                print_message("%s\n", line);
        assert_int_equal(report_time_parse(line, strlen(line), 2026, &time), 0);
}

static void test_forms(void **arg)
{
        const double t = 1796067389; /* date -u -d @1796067389: Mon Nov 30 19:36:29 UTC 2026 */

        (void)arg;
        is("2026-11-30T19:36:29Z SET: 1", t, "SET: 1");
        is("2026-11-30T19:36:29.250Z  SET: 1", t + 0.25, " SET: 1");
        is("2026-11-30 19:36:29,5 x", t + 0.5 - 9 * 3600, "x"); /* no zone: local, which here is UTC+9 */
        is("2026-12-01T04:36:29+09:00 x", t, "x");
        is("2026-11-30T14:36:29-0500\tx", t, "x");
        is("[2026-11-30T19:36:29Z] x", t, "x");
        is("2026/11/30 19:36:29 +0000 x", t, "x");
        is("1796067389.125 x", t + 0.125, "x");
        is("1796067389: x", t, "x");
        is("1796067389", t, "");
        is("Mon Nov 30 19:36:29 UTC 2026", t, "");
        is("Tue Dec  1 04:36:29 KST 2026 x", t, "x");
        is("Mon 30 Nov 2026 07:36:29 PM UTC x", t, "x");
        is("Mon, 30 Nov 2026 19:36:29 +0000 x", t, "x");
        is("Dec  1 04:36:29 x", t, "x");
        is("Dec 01 04:36:29 x", t, "x");
        is("Mon 30 Nov 2026 12:00:00 AM UTC x", t - 19 * 3600 - 36 * 60 - 29, "x");
}

static void test_none(void **arg)
{
        (void)arg;
        none("SET: 91166.02 requests per second");
        none("91166.02 requests per second");
        none("17960673890 x");
        none("179606738 x");
        none("1796067389x");
        none("2026-11-30");
        none("2026-11-30T19:36");
        none("2026-11-30T25:36:29Z x");
        none("2026-11-30T19:36:29Zx");
        none("[2026-11-30T19:36:29Z x");
        none("Mon Nov 30 2026");
        none("March 5 12:00:00 x");
        none("");
        none("[");
        none("1");
}

/* Whatever stands there, nothing behind the end is read. */
static void test_cut(void **arg)
{
        static const char *const lines[] = {"Mon 30 Nov 2026 07:36:29 PM UTC x", "2026-11-30T19:36:29.250+09:00 x", "1796067389.125 x",
                "[Mon Nov 30 19:36:29 UTC 2026] x"};

        (void)arg;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
                for (size_t length = 0; length <= strlen(lines[i]); length++) {
                        char *exact = malloc(length + 1);
                        double time;
                        memcpy(exact, lines[i], length);
                        exact = realloc(exact, length ? length : 1);
                        assert_non_null(exact);
                        assert_true(report_time_parse(exact, length, 2026, &time) <= length);
                        free(exact);
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_none), cmocka_unit_test(test_cut)};

        setenv("TZ", "Asia/Seoul", 1);
        tzset();
        if (timezone != -9 * 3600) /* no zone files */
                setenv("TZ", "KST-9", 1);
        tzset();
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Text from strangers at each sink: what must not reach a terminal, a JSON reader or a spreadsheet, and that nothing is cut in the middle.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tui/clean.h"

static const char *screen(const char *text, size_t length, bool utf8)
{
        static char out[256];

        clean_screen(out, sizeof out, text, length, utf8, SIZE_MAX, NULL);
        return out;
}

static const char *json(const char *text, size_t length)
{
        static char out[256];

        clean_json(out, sizeof out, text, length);
        return out;
}

static const char *csv(const char *text, size_t length)
{
        static char out[256];

        clean_csv(out, sizeof out, text, length);
        return out;
}

static const char *markdown(const char *text, size_t length)
{
        static char out[256];

        clean_markdown(out, sizeof out, text, length);
        return out;
}

static const char *html(const char *text, size_t length)
{
        static char out[256];

        clean_html(out, sizeof out, text, length);
        return out;
}

#define S(text) (text), sizeof(text) - 1

static void test_screen(void **unused)
{
        assert_string_equal(screen(S("plain name"), true), "plain name");
        assert_string_equal(screen(S("\x1b[2J"), true), "\\x1b[2J");
        assert_string_equal(screen(S("a\nb\tc\rd\x7f"), true), "a\\x0ab\\x09c\\x0dd\\x7f");
        assert_string_equal(screen(S("nul\0in"), true), "nul\\x00in");
        assert_string_equal(screen(S("\xc2\x9b" "31m"), true), "\\xc2\\x9b31m");       /* C1 as UTF-8: an escape to some terminals */
        assert_string_equal(screen(S("\x9b" "31m"), true), "\\x9b31m");                /* and raw */
        assert_string_equal(screen(S("caf\xc3\xa9"), true), "caf\xc3\xa9");
        assert_string_equal(screen(S("caf\xc3\xa9"), false), "caf\\xc3\\xa9");
        assert_string_equal(screen(S("\xc0\xaf"), true), "\\xc0\\xaf");                /* overlong */
        assert_string_equal(screen(S("\xed\xa0\x80"), true), "\\xed\\xa0\\x80");       /* surrogate */
        assert_string_equal(screen(S("\xf4\x90\x80\x80"), true), "\\xf4\\x90\\x80\\x80");
        assert_string_equal(screen(S("\xe2\x82"), true), "\\xe2\\x82");                /* cut off by the kernel after 15 bytes */
        assert_string_equal(screen(S("a\xe2\x80\xae" "b"), true), "a\\xe2\\x80\\xaeb"); /* right-to-left override */
        assert_string_equal(screen(S("\xcc\x81" "a"), true), "\\xcc\\x81" "a"); /* a combining mark does not grow on the cell before */
        assert_string_equal(screen(S("~"), false), "~");
}

static void test_columns(void **unused)
{
        char out[64];
        size_t columns;

        assert_int_equal(clean_screen(out, sizeof out, S("abcdef"), true, 4, &columns), 4);
        assert_int_equal(columns, 4);
        assert_int_equal(clean_screen(out, sizeof out, S("ab\x01"), true, 4, &columns), 2); /* an escape is whole or not there */
        assert_int_equal(columns, 2);
        assert_int_equal(clean_screen(out, sizeof out, S("\xe6\xbc\xa2\xe5\xad\x97"), true, 3, &columns), 3); /* two columns each */
        assert_int_equal(columns, 2);
        assert_int_equal(clean_screen(out, 4, S("abcdef"), true, SIZE_MAX, &columns), 3);
        assert_string_equal(out, "abc");
        assert_int_equal(clean_screen(out, 1, S("abc"), true, SIZE_MAX, &columns), 0);
        assert_string_equal(out, "");
        out[0] = 'k';
        assert_int_equal(clean_screen(out, 0, S("abc"), true, SIZE_MAX, NULL), 0);
        assert_int_equal(out[0], 'k');
}

static void test_json(void **unused)
{
        assert_string_equal(json(S("a\"b\\c")), "a\\\"b\\\\c");
        assert_string_equal(json(S("\x1b\n\0\x7f")), "\\u001b\\u000a\\u0000\\u007f");
        assert_string_equal(json(S("\xff" "x\xc3")), "\xef\xbf\xbd" "x\xef\xbf\xbd");
        assert_string_equal(json(S("caf\xc3\xa9")), "caf\xc3\xa9");
        assert_string_equal(json(S("\xe2\x80\xa8\xc2\x85")), "\\u2028\\u0085");
        assert_string_equal(json(S("\xf3\xa0\x81\xa1")), "\\udb40\\udc61"); /* a tag character, as two halves */

        char small[8];
        assert_int_equal(clean_json(small, sizeof small, S("abc\n")), 3); /* the escape does not fit whole */
}

static void test_csv(void **unused)
{
        assert_string_equal(csv(S("plain")), "plain");
        assert_string_equal(csv(S("a,b")), "\"a,b\"");
        assert_string_equal(csv(S("say \"hi\"")), "\"say \"\"hi\"\"\"");
        assert_string_equal(csv(S("two\nlines")), "\"two\nlines\"");
        assert_string_equal(csv(S("=cmd|' /C calc'!A0")), "'=cmd|' /C calc'!A0");
        assert_string_equal(csv(S("@SUM(1,2)")), "\"'@SUM(1,2)\"");
        assert_string_equal(csv(S("-1")), "'-1");
        assert_string_equal(csv(S("\tx")), "\"'\tx\"");
        assert_string_equal(csv(S("\x1b[2J\xff")), "\\x1b[2J\\xff");
        assert_string_equal(csv(S("")), "");
        assert_string_equal(csv(S("\0=1")), "\\x00=1");

        char small[6]; /* a cell is closed even when it is cut */
        assert_int_equal(clean_csv(small, sizeof small, S("a,bcdefg")), 5);
        assert_string_equal(small, "\"a,b\"");
        assert_int_equal(clean_csv(small, 2, S("a,b")), 0);
        assert_string_equal(small, "");
}

static void test_markdown(void **unused)
{
        char out[8];

        assert_string_equal(markdown(S("plain, name 1.5-2 (x)")), "plain, name 1.5-2 (x)");
        assert_string_equal(markdown(S("a|b*c_d`e[f](g)#h~i")), "a\\|b\\*c\\_d\\`e\\[f\\](g)\\#h\\~i");
        assert_string_equal(markdown(S("<b>&amp;\"'")), "&lt;b&gt;&amp;amp;&quot;&#39;");
        assert_string_equal(markdown(S("x\x1b[2J\ny")), "x\\\\x1b\\[2J\\\\x0ay");
        assert_string_equal(markdown(S("http://e.org www.e.org a@b")), "http&#58;//e.org www&#46;e.org a&#64;b");
        assert_string_equal(markdown(S("- item")), "\\- item");
        assert_string_equal(markdown(S("---")), "\\---");
        assert_string_equal(markdown(S("-10.5%")), "-10.5%"); /* a number is none of that */
        assert_string_equal(markdown(S("caf\xc3\xa9\xff")), "caf\xc3\xa9\\\\xff");
        assert_int_equal(clean_markdown(out, sizeof out, S("abcd<")), 4); /* an entity is whole or not there */
        assert_string_equal(out, "abcd");
}

static void test_html(void **unused)
{
        char out[8];

        assert_string_equal(html(S("<script>\"x\" & 'y'")), "&lt;script&gt;&quot;x&quot; &amp; &#39;y&#39;");
        assert_string_equal(html(S("a\x1b\x00" "b\xe2\x80\xae" "c")), "a\\x1b\\x00b\\xe2\\x80\\xaec");
        assert_string_equal(html(S("\xed\x95\x9c")), "\xed\x95\x9c");
        assert_string_equal(html(S("\xf3\xa0\x80\xa0")), "\\xf3\\xa0\\x80\\xa0"); /* invisible: the longest piece there is */
        assert_string_equal(markdown(S("\xf3\xa0\x80\xa0")), "\\\\xf3\\\\xa0\\\\x80\\\\xa0");
        assert_int_equal(clean_html(out, sizeof out, S("abc<d")), 7);
        assert_int_equal(clean_html(out, 0, S("abc")), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_markdown), cmocka_unit_test(test_html),
                cmocka_unit_test(test_screen), cmocka_unit_test(test_columns), cmocka_unit_test(test_json), cmocka_unit_test(test_csv),
        };

        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}

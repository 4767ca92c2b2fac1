/*
 * The key table and the one-line editor of the live screen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tui/keys.h"

static void test_no_key_twice(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < key_count; i++)
                for (size_t k = i + 1; k < key_count; k++)
                        assert_int_not_equal(key_table[i].code, key_table[k].code);
}

/* Every action has a key, and one line of the help says what it does, unless it stands with its counterpart on one line. */
static void test_every_action_has_a_key(void **unused)
{
        bool seen[ACTION_COUNT] = {false};
        (void)unused;
        for (size_t i = 0; i < key_count; i++) {
                assert_true(key_table[i].action > ACTION_NONE && key_table[i].action < ACTION_COUNT);
                seen[key_table[i].action] = true;
                assert_int_equal(key_table[i].label[0] == '\0', key_table[i].words[0] == '\0');
                assert_true(strlen(key_table[i].label) <= 11); /* the help's first column */
        }
        for (int action = ACTION_NONE + 1; action < ACTION_COUNT; action++)
                if (!seen[action])
                        fail_msg("action %d has no key", action);
}

/* The keys that a person expects by name. */
static void test_promised_keys(void **unused)
{
        static const struct {
                int code;
                enum action action;
        } promised[] = {
                {'q', ACTION_QUIT}, {'?', ACTION_HELP}, {'h', ACTION_HELP}, {'\t', ACTION_NEXT_PANEL}, {'1', ACTION_PANEL_CPU},
                {'2', ACTION_PANEL_DISK},
                {'3', ACTION_PANEL_TASK}, {KEYCODE_UP, ACTION_UP}, {KEYCODE_PAGE_DOWN, ACTION_PAGE_DOWN}, {KEYCODE_HOME, ACTION_HOME},
                {KEYCODE_END, ACTION_END},
                {'s', ACTION_SORT}, {'r', ACTION_REVERSE}, {'P', ACTION_SORT_CPU}, {'M', ACTION_SORT_MEMORY}, {'/', ACTION_SEARCH},
                {'f', ACTION_FILTER},
                {'H', ACTION_THREADS}, {'z', ACTION_IDLE}, {' ', ACTION_PAUSE}, {'+', ACTION_SLOWER}, {'-', ACTION_FASTER},
                {'d', ACTION_INTERVAL},
                {'c', ACTION_COMMAND}, {'w', ACTION_WHY}, {KEYCODE_ENTER, ACTION_DETAIL},
        };
        (void)unused;
        for (size_t i = 0; i < sizeof promised / sizeof promised[0]; i++)
                assert_int_equal(key_action(promised[i].code), promised[i].action);
        assert_int_equal(key_action('@'), ACTION_NONE);
        assert_int_equal(key_action(KEYCODE_NONE), ACTION_NONE);
}

static void test_prompt(void **unused)
{
        struct prompt p;
        (void)unused;
        prompt_open(&p, ACTION_FILTER, "ab");
        assert_int_equal(prompt_key(&p, 0xe9), PROMPT_MORE);
        assert_int_equal(prompt_key(&p, 0x4e2d), PROMPT_MORE);
        assert_int_equal(prompt_key(&p, 0x1f600), PROMPT_MORE);
        assert_string_equal(p.text, "ab\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
        prompt_key(&p, KEYCODE_BACKSPACE);
        prompt_key(&p, 127);
        assert_string_equal(p.text, "ab\xc3\xa9");
        prompt_key(&p, 8);
        prompt_key(&p, 8);
        prompt_key(&p, 8);
        prompt_key(&p, 8); /* nothing left: nothing happens */
        assert_string_equal(p.text, "");
        static const int no_text[] = {0, 1, 7, 0x1f, 0x80, 0x9b, 0xd800, 0xdfff, KEYCODE_UP, KEYCODE_F1, -1};
        for (size_t i = 0; i < sizeof no_text / sizeof no_text[0]; i++)
                assert_int_equal(prompt_key(&p, no_text[i]), PROMPT_MORE);
        assert_string_equal(p.text, "");
        for (int i = 0; i < 500; i++)
                prompt_key(&p, i % 2 ? 0x4e2d : 'x'); /* full: further ones are left out whole */
        assert_true(strlen(p.text) < sizeof p.text);
        assert_int_equal(strlen(p.text), p.length);
        assert_int_equal(prompt_key(&p, KEYCODE_ENTER), PROMPT_DONE);
        assert_false(p.open);
        prompt_open(&p, ACTION_SEARCH, "x");
        assert_int_equal(prompt_key(&p, 27), PROMPT_CANCEL);
        assert_false(p.open);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_key_twice),
                cmocka_unit_test(test_every_action_has_a_key),
                cmocka_unit_test(test_promised_keys),
                cmocka_unit_test(test_prompt),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Parts of watop record that need no command: lists of phases, texts of marks, where a control group would be made, who is a member.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/member.h"
#include "tui/record.h"

/* ---- lists ----------------------------------------------------------------------------------------------------------------------------
 * */

static void test_list(void **arg)
{
        static const char text[] = "# comment\n\n  one :  echo a: b  \r\ntwo: x & y & wait\nlast:z";
        struct record_list list;
        size_t line;

        assert_int_equal(record_list_parse(&list, text, sizeof text - 1, &line), 0);
        assert_int_equal(list.count, 3);
        assert_string_equal(list.steps[0].name, "one");
        assert_string_equal(list.steps[0].command, "echo a: b");
        assert_string_equal(list.steps[1].command, "x & y & wait");
        assert_string_equal(list.steps[2].name, "last");
        assert_string_equal(list.steps[2].command, "z");
        assert_memory_equal(list.source, text, sizeof text - 1);
        record_list_free(&list);
}

static void test_list_wrong(void **arg)
{
        static const struct { const char *text; size_t length, line; } wrong[] = {
                { "a: b\nno colon\n", 14, 2 }, { ": x\n", 4, 1 }, { "a:\n", 3, 1 }, { "end: x\n", 7, 1 }, { "a\001b: x\n", 7, 1 },
        };
        struct record_list list;
        size_t line;

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                assert_int_equal(record_list_parse(&list, wrong[i].text, wrong[i].length, &line), -EBADMSG);
                assert_int_equal(line, wrong[i].line);
                assert_null(list.steps);
        }
        assert_int_equal(record_list_parse(&list, "a: b\0c\n", 7, &line), -EBADMSG);
        assert_int_equal(record_list_parse(&list, "", 0, &line), 0);
        assert_int_equal(list.count, 0);
        record_list_free(&list);
}

static void test_mark_text(void **arg)
{
        char out[RECORD_TEXT + 1], long_text[600];

        assert_int_equal(record_clean_text(out, sizeof out, " \t a\033[1m\nb \r\n", 13), 7);
        assert_string_equal(out, "a [1m b");
        assert_int_equal(record_clean_text(out, sizeof out, "   ", 3), 0);
        assert_int_equal(record_clean_text(out, sizeof out, "", 0), 0);
        /* A character of three bytes never stays cut. */
        for (size_t shift = 0; shift < 3; shift++) {
                memset(long_text, 'x', shift);
                for (size_t i = shift; i + 3 <= sizeof long_text; i += 3)
                        memcpy(long_text + i, "\xe2\x82\xac", 3);
                size_t n = record_clean_text(out, sizeof out, long_text, shift + 300);
                assert_true(n <= RECORD_TEXT && n > RECORD_TEXT - 3);
                assert_int_equal((n - shift) % 3, 0);
        }
}

/* ---- control groups
 * --------------------------------------------------------------------------------------------------------------------- */

static char folder[256];

static void put(const char *name, const char *text)
{
        char path[512];

        snprintf(path, sizeof path, "%s/%s", folder, name);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void make(const char *name)
{
        char path[512];

        snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(mkdir(path, 0755), 0);
}

/* In `mounts` an @ stands for the test's folder. */
static int try_group(struct member_group *group, const char *mounts, const char *own)
{
        char mounts_path[512], own_path[512], text[2048];
        size_t n = 0;

        for (; *mounts != '\0'; mounts++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", *mounts == '@' ? (int)sizeof folder : 1,
                        *mounts == '@' ? folder : mounts);
        put("mounts", text);
        put("own", own);
        snprintf(mounts_path, sizeof mounts_path, "%s/mounts", folder);
        snprintf(own_path, sizeof own_path, "%s/own", folder);
        return member_group_make(group, mounts_path, own_path);
}

/* An ordinary folder has no cgroup.procs in a new subfolder: that the leaf was tried there shows in the error, and it is taken back. */
static void test_group_place(void **arg)
{
        static const char v2[] = "30 20 0:26 / @/v2 rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        static const char hybrid[] = "30 20 0:26 / @/v2 rw - cgroup2 none rw\n"
                                     "31 20 0:27 / @/named rw shared:5 - cgroup cgroup rw,xattr,name=systemd\n"
                                     "32 20 0:28 /docker/1 @/free\\040zer rw - cgroup cgroup rw,freezer\n";
        struct member_group group;
        char path[600];

        snprintf(folder, sizeof folder, "%s/watop-record-test.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        assert_non_null(mkdtemp(folder));
        make("v2"), make("v2/user"), make("named"), make("named/a b"), make("free zer"), make("free zer/sub");
        put("v2/user/cgroup.subtree_control", "\n");
        assert_int_equal(try_group(&group, v2, "0::/user\n"), -ENOENT); /* the leaf was made, its cgroup.procs is not there */
        snprintf(path, sizeof path, "%s/v2/user/cgroup.subtree_control", folder);
        assert_int_equal(unlink(path), 0);
        snprintf(path, sizeof path, "%s/v2/user", folder);
        assert_int_equal(rmdir(path), 0); /* and taken back */
        /* Controllers handed down: not neutral. Outside of what is mounted; no such hierarchy. */
        make("v2/user");
        put("v2/user/cgroup.subtree_control", "cpu memory\n");
        assert_int_equal(try_group(&group, v2, "0::/user\n"), -ENOENT);
        assert_int_equal(try_group(&group, hybrid, "4:freezer:/elsewhere\n"), -ENOENT);
        assert_int_equal(try_group(&group, "garbage\n - \n1 2 3 - cgroup\n", "::\n0\n"), -ENOENT);
        /* The folder of our own group is right: a file cannot be made where it is not. */
        snprintf(path, sizeof path, "%s/free zer/sub", folder);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(try_group(&group, hybrid, "4:freezer:/docker/1/sub\n"), -ENOENT);
        assert_int_equal(group.join_fd, -1);
        assert_string_equal(group.path, "");
        snprintf(path, sizeof path, "rm -rf '%s'", folder);
        assert_int_equal(system(path), 0);
}

/* ---- members
 * ------------------------------------------------------------------------------------------------------------------------------ */

static void test_set(void **arg)
{
        struct member_set set = { 0 };

        assert_false(member_has(&set, (struct key){ 1, 2 }));
        for (uint64_t i = 1; i <= 5000; i++)
                assert_int_equal(member_add(&set, (struct key){ i % 700 + 1, i / 700 * 10000000 }), 1);
        for (uint64_t i = 1; i <= 5000; i++)
                assert_int_equal(member_add(&set, (struct key){ i % 700 + 1, i / 700 * 10000000 }), 0);
        assert_int_equal(set.count, 5000);
        assert_false(member_has(&set, (struct key){ 5, 1 }));
        assert_int_equal(member_add(&set, (struct key){ 0, 1 }), 0);
        free(set.keys);
}

/* A note holds 16 MiB: more are cut, and it is said. */
static void test_set_text(void **arg)
{
        struct members members;
        size_t length;

        members_init(&members, NULL);
        struct member_group group = { .path = "/leaf", .name = "pids" };
        members.group = &group;
        for (uint64_t i = 1; i <= 10; i++)
                assert_int_equal(member_add(&members.tree, (struct key){ i, 7 }), 1);
        char *text = members_text(&members, &members.tree, &length);
        assert_memory_equal(text, "rule cgroup pids /leaf\n", 23);
        assert_int_equal(length, 23 + 9 * 4 + 5);
        free(text);
        for (uint64_t i = 11; i <= 700000; i++)
                assert_int_equal(member_add(&members.tree, (struct key){ i, UINT64_MAX / 2 + i }), 1);
        text = members_text(&members, &members.tree, &length);
        assert_memory_equal(text, "rule cgroup pids /leaf may be incomplete\n", 41);
        assert_in_range(length, (16 << 20) - 10000, 16 << 20);
        assert_int_equal(text[length - 1], '\n');
        free(text);
        members_fini(&members);
}

struct process {
        uint64_t pid, parent, session;
        const char *comm;
};

static void frame(struct sample *sample, struct state *state, uint64_t second, const struct process *processes, size_t count)
{
        const void *bytes;
        size_t length;
        uint64_t now = second * UINT64_C(1000000000);

        sample_begin(sample, &(struct sample_stamp){ now, now, now });
        sample_scope_begin(sample, SCOPE_PROCESS, now);
        for (size_t i = 0; i < count; i++) {
                const struct process *process = &processes[i];
                uint64_t start = process->pid * 10000000;
                struct row *row = sample_row(sample, SCOPE_PROCESS, (struct key){ process->pid, start }, 0);
                row_set(row, PROCESS_PARENT, process->parent);
                row_set(row, PROCESS_SESSION, process->session);
                row_set(row, PROCESS_START, start);
                row_text(row, PROCESS_COMM, process->comm, strlen(process->comm));
        }
        sample_scope_end(sample, SCOPE_PROCESS, now, GONE_EXITED);
        struct seal seal = { .scopes_on = SCOPE_BIT(SCOPE_PROCESS), .tick_ns = 1000000000 };
        assert_int_equal(sample_seal(sample, &seal, &bytes, &length), 0);
        state_base(state);
        assert_true(state_apply(state, bytes, NULL) >= 0);
}

static bool member(const struct members *members, uint64_t pid)
{
        return member_has(&members->tree, (struct key){ pid, pid * 10000000 });
}

/* Children before parents, a session of their own, an orphan of that session, a PID that others had; and bystanders. */
static void test_ancestry(void **arg)
{
        static const struct process before[] = { { 1, 0, 1, "init" }, { 50, 1, 50, "shell" }, { 60, 50, 50, "old" } };
        static const struct process run[] = { { 1, 0, 1, "init" }, { 50, 1, 50, "shell" }, { 60, 50, 50, "old" },
                { 103, 102, 50, "grandchild" },
                { 102, 101, 50, "child" }, { 101, 50, 50, "command" }, { 104, 102, 104, "daemon" }, { 105, 50, 50, "bystander" } };
        static const struct process late[] = { { 1, 0, 1, "init" }, { 50, 1, 50, "shell" }, { 103, 1, 50, "grandchild" },
                { 104, 1, 104, "daemon" },
                { 106, 1, 104, "orphan" }, { 107, 103, 50, "late" }, { 108, 1, 1, "service" }, { 109, 50, 50, "redis-server-wi" } };
        struct sample *sample;
        struct state *state;
        struct members members;
        size_t length;

        assert_int_equal(sample_new(&sample), 0);
        assert_int_equal(state_new(&state), 0);
        members_init(&members, NULL);
        members.own_session = 50;
        members.watches[members.watch_count++] = "redis-server-with-a-long-name";
        members.watches[members.watch_count++] = "60";
        frame(sample, state, 1, before, 3);
        members_look(&members, state);
        assert_int_equal(members.tree.count, 0);
        members.root = 101;
        frame(sample, state, 2, run, 8);
        members_look(&members, state);
        assert_true(member(&members, 101) && member(&members, 102) && member(&members, 103) && member(&members, 104));
        assert_int_equal(members.tree.count, 4);
        members.root = 0;
        frame(sample, state, 3, late, 8);
        members_look(&members, state);
        assert_true(member(&members, 106) && member(&members, 107));
        assert_int_equal(members.tree.count, 6);
        assert_int_equal(members.watched.count, 2);
        char *text = members_text(&members, &members.tree, &length);
        assert_non_null(strstr(text, "rule ancestry may be incomplete\n"));
        assert_non_null(strstr(text, "\n106 1060000000\n"));
        assert_int_equal(length, strlen(text));
        free(text);
        members_fini(&members);
        state_free(state);
        sample_free(sample);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_list), cmocka_unit_test(test_list_wrong), cmocka_unit_test(test_mark_text),
                cmocka_unit_test(test_group_place), cmocka_unit_test(test_set), cmocka_unit_test(test_set_text),
                cmocka_unit_test(test_ancestry),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

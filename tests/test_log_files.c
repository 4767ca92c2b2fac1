/*
 * A folder of rotated logs is read as one: every frame once, in order, notes too; and what does not belong to it is left out.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/journal.h"
#include "tests/log_frames.h"
#include "tui/log_files.h"

static char folder[128];

static int set_up(void **arg)
{
        (void)arg;
        setenv("TZ", "UTC", 1);
        snprintf(folder, sizeof folder, "%s/logs", temp_folder());
        return 0;
}

static unsigned each_file(bool remove)
{
        struct dirent **list;
        char path[512];
        unsigned count = 0;
        int n = scandir(folder, &list, NULL, alphasort);

        for (int i = 0; i < n; i++) {
                count += list[i]->d_name[0] != '.';
                snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
                if (remove && list[i]->d_name[0] != '.')
                        unlink(path);
                free(list[i]);
        }
        if (n >= 0)
                free(list);
        return count;
}

static int tear_down(void **arg)
{
        (void)arg;
        each_file(true);
        rmdir(folder);
        *strrchr(folder, '/') = '\0';
        return rmdir(folder);
}

/* A run of watopd: so many ticks into files of 256 KiB. Left open when `journal` is given. */
static void run(unsigned ticks, struct journal **left)
{
        const struct timespec pause = {.tv_nsec = 1000000};
        struct journal_options options = {.folder = folder, .file_bytes = 256 << 10, .total_bytes = UINT64_C(1) << 40,
                .keep_ns = UINT64_C(1) << 62};
        struct journal *journal;
        struct sealed s;
        uint64_t random = 3;

        assert_int_equal(journal_new(&options, &journal), 0);
        assert_int_equal(journal_start(journal), 0);
        sealed_open(&s);
        for (unsigned i = 0; i < ticks; i++) {
                machine_tick(&s, &random, 200);
                sealed_seal(&s);
                journal_put(journal, s.frame, s.length);
                nanosleep(&pause, NULL);
        }
        sealed_close(&s);
        if (left)
                *left = journal;
        else
                journal_free(journal);
}

static void check_frames(struct log *log, uint64_t wanted)
{
        const struct frame_head *frame;
        struct log_info info;
        uint64_t sequence = 0;

        while (log_next(log, &frame) == LOG_FRAME)
                assert_int_equal(frame->sequence, ++sequence);
        assert_int_equal(sequence, wanted);
        assert_int_equal(log_get_info(log, &info), 0);
        assert_int_equal(info.frames, wanted);
        assert_int_equal(info.first_sequence, 1);
        assert_int_equal(info.damaged_bytes + info.damaged_blocks + info.torn_bytes, 0);
        /* Seeking across the borders of files. */
        for (uint64_t at = 1; at <= wanted; at += wanted / 7) {
                assert_int_equal(log_seek_sequence(log, at), 0);
                assert_int_equal(log_next(log, &frame), LOG_FRAME);
                assert_true(frame->sequence <= at);
        }
}

static void test_rotated(void **arg)
{
        struct log_writer *writer;
        struct journal *left;
        struct log *log;
        char path[256];
        size_t length;

        (void)arg;
        run(400, NULL);
        unsigned files = each_file(false);
        assert_true(files >= 3);
        /* Another run before it, which is not its past. */
        snprintf(path, sizeof path, "%s/watop-20200101-000000.log", folder);
        assert_int_equal(log_create(path, &(struct log_create_options){0}, &writer), 0);
        assert_int_equal(log_note(writer, "label", "x", 1), 0);
        assert_int_equal(log_finish(writer), 0);
        assert_int_equal(log_files_open(folder, &log), 0);
        check_frames(log, 400);
        assert_non_null(log_get_note(log, "previous", &length));
        assert_null(log_get_note(log, "label", &length));
        log_close(log);
        each_file(true);
        /* One that is still written. */
        run(300, &left);
        for (int i = 0; i < 1000; i++) {
                struct log_info info = {0};
                const struct timespec pause = {.tv_nsec = 10000000};
                if (log_files_open(folder, &log) == 0) {
                        log_get_info(log, &info);
                        if (info.frames == 300)
                                break;
                        log_close(log);
                }
                nanosleep(&pause, NULL);
                assert_true(i < 999);
        }
        check_frames(log, 300);
        log_close(log);
        journal_free(left);
}

static void test_others(void **arg)
{
        struct log *log;
        char path[256];

        (void)arg;
        assert_int_equal(log_files_open("/nonexistent", &log), -ENOENT);
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(log_files_open(folder, &log), -EISDIR); /* nothing of watopd is in it */
        snprintf(path, sizeof path, "%s/watop-20200101-000000.log", folder);
        FILE *file = fopen(path, "w");
        fprintf(file, "%0200d", 0); /* no log */
        fclose(file);
        assert_int_equal(log_files_open(folder, &log), -EPROTO);
        assert_int_equal(log_files_open(path, &log), -EPROTO);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_rotated, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_others, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

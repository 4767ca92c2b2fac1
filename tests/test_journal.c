/*
 * watopd's log: files that begin anew at a size and on a new day, old ones that go, a disk that fills up. Everything that was put in is in
 * the files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/journal.h"
#include "tests/log_frames.h"

static char folder[128];

static int set_up(void **arg)
{
        (void)arg;
        setenv("TZ", "UTC", 1);
        snprintf(folder, sizeof folder, "%s/logs", temp_folder());
        return 0;
}

static int each_file(void (*act)(const char *path, void *arg), void *arg)
{
        struct dirent **list;
        int n = scandir(folder, &list, NULL, alphasort), count = 0;

        for (int i = 0; i < n; i++) {
                char path[512];
                snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
                if (list[i]->d_name[0] != '.') {
                        count++;
                        if (act)
                                act(path, arg);
                }
                free(list[i]);
        }
        if (n >= 0)
                free(list);
        return count;
}

static void remove_one(const char *path, void *arg)
{
        (void)arg;
        unlink(path);
}

static int tear_down(void **arg)
{
        (void)arg;
        each_file(remove_one, NULL);
        rmdir(folder);
        *strrchr(folder, '/') = '\0';
        return rmdir(folder);
}

static void count_frames(const char *path, void *arg)
{
        uint64_t *sequence = arg;
        const struct frame_head *frame;
        struct log *log;

        if (!strstr(path, "/watop-"))
                return;
        assert_int_equal(log_open(path, &log), 0);
        while (log_next(log, &frame) == LOG_FRAME)
                assert_int_equal(frame->sequence, ++*sequence);
        log_close(log);
}

static struct journal *start(uint64_t file_bytes, uint64_t total_bytes, uint64_t keep_ns)
{
        struct journal_options options = {.folder = folder, .file_bytes = file_bytes, .total_bytes = total_bytes, .keep_ns = keep_ns};
        struct journal *journal;

        assert_int_equal(journal_new(&options, &journal), 0);
        assert_int_equal(journal_start(journal), 0);
        return journal;
}

static void put(struct journal *journal, unsigned ticks, unsigned tasks)
{
        /* The queue holds 256, and a slow machine must have time to write them. */
#ifdef __SANITIZE_THREAD__
        const struct timespec pause = {.tv_nsec = 5000000};
#else
        const struct timespec pause = {.tv_nsec = 1000000};
#endif
        struct sealed s;
        uint64_t random = 3;

        sealed_open(&s);
        for (unsigned i = 0; i < ticks; i++) {
                machine_tick(&s, &random, tasks);
                sealed_seal(&s);
                journal_put(journal, s.frame, s.length);
                nanosleep(&pause, NULL);
        }
        sealed_close(&s);
}

#define DAY (86400 * SECOND)

static void test_size(void **arg)
{
        struct journal *journal = start(1 << 20, UINT64_C(1) << 40, 100 * DAY);
        uint64_t sequence = 0;
        struct stat st;
        char text[200];

        (void)arg;
        put(journal, 400, 300);
        journal_status(journal, text, sizeof text);
        assert_null(strstr(text, "left out"));
        journal_free(journal);
        assert_true(each_file(count_frames, &sequence) >= 2);
        assert_int_equal(sequence, 400);
        assert_int_equal(stat(folder, &st), 0);
        assert_int_equal(st.st_mode & 027, 0);
}

/* The made clock begins at 22:38:21; 5,000 seconds later it is another day. */
static void test_day(void **arg)
{
        struct journal *journal = start(1 << 30, UINT64_C(1) << 40, 100 * DAY);
        uint64_t sequence = 0;

        (void)arg;
        put(journal, 5000, 1);
        journal_free(journal);
        assert_int_equal(each_file(count_frames, &sequence), 2);
        assert_int_equal(sequence, 5000);
}

/* A log of that name, as old as can be; written by whom the note says. */
static void make_old(const char *name, const char *mark)
{
        const struct timespec times[2] = {{.tv_sec = 1577836800}, {.tv_sec = 1577836800}};
        struct log_writer *writer;
        char path[256];

        snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(log_create(path, &(struct log_create_options){0}, &writer), 0);
        if (mark)
                assert_int_equal(log_note(writer, mark, "x", 1), 0);
        assert_int_equal(log_finish(writer), 0);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void find_mark(const char *path, void *arg)
{
        const char *name;
        struct log *log;

        if (!strstr(path, "/watop-"))
                return;
        assert_int_equal(log_open(path, &log), 0);
        for (size_t i = 0; (name = log_note_name(log, i)); i++)
                if (strncmp(name, "writer.", 7) == 0)
                        snprintf(arg, 64, "%s", name);
        log_close(log);
}

/* Old ones of ours go; what nobody or another daemon wrote stays, and so does what is being written. */
static void test_retention(void **arg)
{
        static const char *const names[] = {"watop-20200101-000000.log", "watop-20200102-000000.log", "other.log",
                "watop-20200103-000000.txt", "watop-20200104-000000.log", "watop-20200105-000000.log"};
        const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        char path[256], mark[64] = "";
        struct stat st;

        (void)arg;
        struct journal *journal = start(1 << 20, UINT64_C(1) << 40, 100 * DAY);
        put(journal, 10, 1);
        journal_free(journal);
        each_file(find_mark, mark);
        assert_int_equal(strlen(mark), 23);
        for (size_t i = 0; i < 6; i++)
                make_old(names[i], i == 4 ? NULL : i == 5 ? "writer.0123456789abcdef" : mark);
        snprintf(path, sizeof path, "%s/%s", folder, names[1]);
        int fd = open(path, O_RDWR);
        assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
        for (int turn = 0; turn < 2; turn++) {
                journal = start(1 << 20, UINT64_C(1) << 40, 100 * DAY);
                put(journal, 10, 1);
                journal_free(journal);
                for (size_t i = 0; i < 6; i++) {
                        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
                        assert_int_equal(stat(path, &st), i == 0 || (i == 1 && turn == 1) ? -1 : 0);
                }
                if (turn == 0)
                        close(fd);
        }
        /* By their sum: files of 1 MiB, 2.5 MiB in all. */
        int before = each_file(NULL, NULL);
        journal = start(1 << 20, (5 << 20) / 2, 100 * DAY);
        put(journal, 1200, 300);
        journal_free(journal);
        assert_in_range(each_file(NULL, NULL), before - 2, before + 3);
        snprintf(path, sizeof path, "%s/%s", folder, names[5]);
        assert_int_equal(stat(path, &st), 0);
}

/* The same folder, another ring: the first one's files stay, whatever the sum is. */
static void test_two_daemons(void **arg)
{
        struct journal_options options = {.folder = folder, .file_bytes = 1 << 20, .total_bytes = 1, .keep_ns = 100 * DAY};
        struct journal *journal;

        (void)arg;
        for (int i = 0; i < 4; i++) {
                options.ring = i < 2 ? "/one" : "/two";
                assert_int_equal(journal_new(&options, &journal), 0);
                assert_int_equal(journal_start(journal), 0);
                put(journal, 10, 1);
                journal_free(journal);
                assert_int_equal(each_file(NULL, NULL), i < 2 ? 1 : 2);
        }
}

#ifdef __GLIBC__
static size_t in_use(void)
{
        struct mallinfo2 m = mallinfo2();

        return m.uordblks + m.hblkhd;
}

/* Buffers of a queue that was long are given back: they are locked memory of a process that must stay small. */
static void test_memory(void **arg)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        struct journal *journal = start(1 << 30, UINT64_C(1) << 40, 100 * DAY);

        (void)arg;
        put(journal, 40, 300);
        size_t before = in_use(), now = SIZE_MAX;
        put(journal, 400, 300);
        for (int i = 0; i < 1000 && (now = in_use()) > before + (2 << 20); i++)
                nanosleep(&pause, NULL);
        assert_in_range(now, 0, before + (2 << 20));
        journal_free(journal);
}
#endif

static void test_full_disk(void **arg)
{
        struct rlimit old, limit;
        char text[200];
        uint64_t sequence = 0;

        (void)arg;
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        limit = old;
        limit.rlim_cur = 100000;
        setrlimit(RLIMIT_FSIZE, &limit);
        struct journal *journal = start(1 << 30, UINT64_C(1) << 40, 100 * DAY);
        put(journal, 200, 300);
        for (int i = 0; i < 200; i++) {
                const struct timespec pause = {.tv_nsec = 10000000};
                journal_status(journal, text, sizeof text);
                if (strstr(text, "stopped"))
                        break;
                nanosleep(&pause, NULL);
        }
        assert_non_null(strstr(text, "log stopped: File too large"));
        journal_free(journal);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(each_file(count_frames, &sequence), 1);
        assert_true(sequence > 0 && sequence < 200);
}

static void test_folder(void **arg)
{
        struct journal_options options = {.folder = folder, .file_bytes = 1 << 20};
        struct journal *journal;

        (void)arg;
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(chmod(folder, 0777), 0);
        assert_int_equal(journal_new(&options, &journal), -EPERM);
        if (geteuid() == 0) {
                assert_int_equal(chmod(folder, 0700), 0);
                assert_int_equal(chown(folder, 4242, (gid_t)-1), 0);
                assert_int_equal(journal_new(&options, &journal), -EPERM);
        }
        options.folder = "/proc/none";
        assert_true(journal_new(&options, &journal) < 0);
        assert_int_equal(journal_status(NULL, NULL, 0), 0);
        journal_put(NULL, NULL, 0);
        journal_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_size, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_day, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_retention, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_two_daemons, set_up, tear_down),
#ifdef __GLIBC__
                cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
#endif
                cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_folder, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

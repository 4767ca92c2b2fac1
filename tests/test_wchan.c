/*
 * Wait channels in words: what the table says of names that kernels print, and what may be concluded from them.
 */
#include "sample/wchan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void words(void **state)
{
        static const struct { const char *wchan, *word; enum wchan_kind kind; } cases[] = {
                {"folio_wait_bit_common", "page cache", WCHAN_DEVICE},
                {"blk_mq_get_tag", "device tags", WCHAN_DEVICE},
                {"rq_qos_wait", "request queue throttling", WCHAN_DEVICE},
                {"__blkdev_direct_IO_simple", "direct I/O", WCHAN_DEVICE},
                {"blkdev_direct_IO.part.0", "direct I/O", WCHAN_DEVICE},
                {"raid5_get_active_stripe", "RAID", WCHAN_DEVICE},
                {"jbd2_journal_commit_transaction", "journal", WCHAN_DEVICE},
                {"jbd2_log_wait_commit", "journal commit", WCHAN_PLAIN},
                {"balance_dirty_pages", "dirty throttling", WCHAN_ELSEWHERE},
                {"balance_dirty_pages_ratelimited_flags", "dirty throttling", WCHAN_ELSEWHERE},
                {"nfs_wait_on_request", "NFS", WCHAN_ELSEWHERE},
                {"i915_request_wait_timeout", "GPU", WCHAN_ELSEWHERE},
                {"request_wait_answer.isra.0", "FUSE server", WCHAN_PLAIN},
                {"kernel_clone", "vfork child", WCHAN_PLAIN},
                {"do_wait", "a child", WCHAN_UNKNOWN}, {"futex_wait_queue", "a lock of the program", WCHAN_UNKNOWN},
                {"pipe_read", "a pipe", WCHAN_UNKNOWN}, {"poll_schedule_timeout.constprop.0", "poll", WCHAN_UNKNOWN},
                {"__mutex_lock.constprop.0", "mutex", WCHAN_UNKNOWN}, /* mutex_lock_io ends there too */
                {"nfsd", NULL, WCHAN_UNKNOWN},      /* the server reads disks */
                {"wait_for_completion_io_timeout", "completion of I/O", WCHAN_DEVICE},
                {"", NULL, WCHAN_UNKNOWN}, {"0", NULL, WCHAN_UNKNOWN}, {".isra.0", NULL, WCHAN_UNKNOWN},
                {"do_something_new", NULL, WCHAN_UNKNOWN}, {"msleep_interruptible", NULL, WCHAN_UNKNOWN},
        };
        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *word = wchan_word(cases[i].wchan);
                if (cases[i].word)
                        assert_string_equal(word, cases[i].word);
                else
                        assert_null(word);
                assert_int_equal(wchan_kind(cases[i].wchan), cases[i].kind);
        }
}

static void counted_although_in_s(void **state)
{
        (void)state;
        assert_true(wchan_counted_in_s("i915_request_wait_timeout"));
        assert_false(wchan_counted_in_s("io_cqring_wait"));
        assert_false(wchan_counted_in_s("nfs_wait_on_request"));
        assert_false(wchan_counted_in_s(""));
}

/* What is for no I/O, whatever else it is; a lock or a server may stand between a task and its I/O. */
static void apart(void **state)
{
        static const char *const yes[] = {"kernel_clone", "wait_for_vfork_done", "do_wait", "futex_do_wait", "anon_pipe_read", "ep_poll",
                "hrtimer_nanosleep", "poll_schedule_timeout.constprop.0"};
        static const char *const no[] = {"", "0", "folio_wait_bit_common", "request_wait_answer", "rwsem_down_read_slowpath",
                "nfs_wait_on_request",
                "__mutex_lock.constprop.0", "synchronize_rcu", "do_something_new"};

        (void)state;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
                assert_true(wchan_apart(yes[i]));
        for (size_t i = 0; i < sizeof no / sizeof *no; i++)
                assert_false(wchan_apart(no[i]));
}

/* Where nobody sleeps for anything but a block device: a proof, so whatever else may use the function is left out. */
static void block_only(void **state)
{
        static const char *const yes[] = {"submit_bio_wait", "blk_io_schedule", "__blkdev_direct_IO_simple", "blkdev_direct_IO.part.0",
                "blk_execute_rq", "__wait_on_buffer"};
        static const char *const no[] = {"", "0", ".isra.0", "folio_wait_bit_common", "submit_bio_wait_more", "request_wait_answer",
                "nfs_wait_on_request", "balance_dirty_pages", "io_cqring_wait", "wait_for_completion", "rq_qos_wait"};

        (void)state;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
                assert_true(wchan_block_only(yes[i]));
                assert_int_equal(wchan_kind(yes[i]), WCHAN_DEVICE);
        }
        for (size_t i = 0; i < sizeof no / sizeof *no; i++)
                assert_false(wchan_block_only(no[i]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(counted_although_in_s), cmocka_unit_test(apart),
                cmocka_unit_test(block_only)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}

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

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(counted_although_in_s)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}

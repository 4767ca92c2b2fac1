/*
 * Operations of armed polls, by name.
 *
 * fdinfo lists what waits on a poll as "  op=27, task_works=0" (io_uring/fdinfo.c): any operation on a socket or pipe that is not ready,
 * not POLL_ADD alone. Numbers are those of include/uapi/linux/io_uring.h, enum io_uring_op, which only grows; what is newer than the table
 * is called by its number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectors/uring.h"

static const char *const names[RING_OPS] = {
        "NOP", "READV", "WRITEV", "FSYNC", "READ_FIXED", "WRITE_FIXED", "POLL_ADD", "POLL_REMOVE", "SYNC_FILE_RANGE", "SENDMSG",
        "RECVMSG", "TIMEOUT", "TIMEOUT_REMOVE", "ACCEPT", "ASYNC_CANCEL", "LINK_TIMEOUT", "CONNECT", "FALLOCATE", "OPENAT", "CLOSE",
        "FILES_UPDATE", "STATX", "READ", "WRITE", "FADVISE", "MADVISE", "SEND", "RECV", "OPENAT2", "EPOLL_CTL", "SPLICE",
        "PROVIDE_BUFFERS", "REMOVE_BUFFERS", "TEE", "SHUTDOWN", "RENAMEAT", "UNLINKAT", "MKDIRAT", "SYMLINKAT", "LINKAT", "MSG_RING",
        "FSETXATTR", "SETXATTR", "FGETXATTR", "GETXATTR", "SOCKET", "URING_CMD", "SEND_ZC", "SENDMSG_ZC", "READ_MULTISHOT", "WAITID",
        "FUTEX_WAIT", "FUTEX_WAKE", "FUTEX_WAITV", "FIXED_FD_INSTALL", "FTRUNCATE", "BIND", "LISTEN", "RECV_ZC", "EPOLL_WAIT",
        "READV_FIXED", "WRITEV_FIXED", "PIPE", "NOP128", "URING_CMD128",
};

void ring_count_ops(const char *text, size_t length, uint32_t ops[RING_OPS])
{
        struct scan scan, line;
        uint64_t op;
        bool polls = false;

        scan_init(&scan, text, length);
        while (scan_line(&scan, &line)) {
                if (scan_prefix(&line, "PollList:"))
                        polls = true;
                else if (scan_prefix(&line, "CqOverflowList:"))
                        return;
                else if (polls && scan_prefix(&line, "  op=") && scan_u64(&line, &op))
                        ops[op < RING_OPS ? op : RING_OPS - 1]++;
        }
}

size_t ring_say_ops(const uint32_t ops[RING_OPS], char *text, size_t size)
{
        bool said[RING_OPS] = {false};
        size_t length = 0;

        text[0] = '\0';
        for (;;) { /* the most frequent first; equal ones by number */
                int most = -1;
                char number[24];
                for (int op = 0; op < RING_OPS; op++)
                        if (!said[op] && ops[op] > 0 && (most < 0 || ops[op] > ops[most]))
                                most = op;
                if (most < 0)
                        return length;
                said[most] = true;
                snprintf(number, sizeof number, "op%s%d", most == RING_OPS - 1 ? ">=" : "", most);
                int n = snprintf(text + length, size - length, "%s%s %" PRIu32, length ? ", " : "", names[most] ? names[most] : number,
                        ops[most]);
                if (n < 0 || (size_t)n >= size - length) { /* the rest has no room: whole words only */
                        text[length] = '\0';
                        return length;
                }
                length += (size_t)n;
        }
}

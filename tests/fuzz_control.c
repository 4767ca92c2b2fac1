/*
 * Strangers' packets at the control socket, both ways. Input: the first byte says which side (odd: the server's), then packets, each with
 * two bytes of length before it. The server must neither crash, hand a mark on that breaks its promise, nor keep a descriptor; the client
 * must not take a packet for an answer that is none.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/serve_round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size);

enum { PACKETS = 16 };

/* Send the next packet of the input; false at its end. */
static bool send_next(int fd, const uint8_t **data, size_t *size)
{
        if (*size < 2)
                return false;
        size_t length = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
        *data += 2;
        *size -= 2;
        if (length > *size)
                length = *size;
        send(fd, *data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        *data += length;
        *size -= length;
        return true;
}

static void to_server(int ends[2], const uint8_t *data, size_t size)
{
        struct counted counted = { .ring_fd = -1 };
        struct serve_hooks hooks = counting_hooks(&counted);
        struct control_answer a;
        struct serve *s;
        if (serve_new(&hooks, &s) < 0 || serve_adopt(s, ends[0]) < 0)
                abort();
        for (int i = 0; i < PACKETS && send_next(ends[1], &data, &size); i++) {
                serve_round(s, 0);
                ssize_t n = recv(ends[1], &a, sizeof a, MSG_DONTWAIT);
                if (n > 0 && (n != (ssize_t)sizeof a || a.magic != CONTROL_MAGIC || a.error < 0 || a.length > CONTROL_TEXT))
                        abort();
        }
        close(ends[1]);
        for (int i = 0; i < PACKETS + 2 && !serve_orphan(s); i++)
                serve_round(s, 0);
        if (!serve_orphan(s) || counted.bad_texts > 0 || counted.leases != 0)
                abort();
        serve_free(s);
}

static void to_client(int ends[2], const uint8_t *data, size_t size)
{
        struct control *c;
        struct control_answer a;
        struct control_request q = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = CONTROL_STATUS };
        int fd;
        if (control_adopt(ends[0], &c) < 0)
                abort();
        for (int i = 0; i < PACKETS && send_next(ends[1], &data, &size); i++) {
                q.verb = (uint32_t)(i % 6) + 1;
                int r = control_call(c, &q, &a, &fd, 0);
                if (r == 0 && (a.length > CONTROL_TEXT || a.error < 0 || (a.verb != q.verb && a.error == 0)))
                        abort();
                if (r == 0 && fd >= 0)
                        close(fd);
        }
        control_close(c);
        close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int ends[2];
        if (size == 0)
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                abort();
        if (data[0] & 1)
                to_server(ends, data + 1, size - 1);
        else
                to_client(ends, data + 1, size - 1);
        return 0;
}

static size_t put(uint8_t *buffer, const void *packet, size_t length)
{
        buffer[0] = (uint8_t)length;
        buffer[1] = (uint8_t)(length >> 8);
        memcpy(buffer + 2, packet, length);
        return length + 2;
}

size_t fuzz_seed(unsigned n, uint8_t *buffer, size_t size)
{
        size_t at = 1;
        if (n > 1 || size < 4096)
                return 0;
        buffer[0] = n == 0;
        for (uint32_t verb = CONTROL_HELLO; verb <= CONTROL_TICK; verb++) {
                struct control_request q = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = verb,
                        .length = 4, .value = 7, .text = "mark" };
                struct control_answer a = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = verb,
                        .length = 4, .value = 7, .text = "text" };
                at += n == 0 ? put(buffer + at, &q, sizeof q) : put(buffer + at, &a, sizeof a);
        }
        return at;
}

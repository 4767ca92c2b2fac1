/*
 * The control connection, both sides against each other and each against a hostile other one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample/trust.h"
#include "tests/serve_round.h"

static char folder[64], path[96];

static int start(void **unused)
{
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/watop-test-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof path, "%s/control", folder);
        return 0;
}

static int finish(void **unused)
{
        unlink(path);
        return rmdir(folder); /* fails when a lock or socket was left behind */
}

/* ---- a server in a thread ----------------------------------------------------------------------------------------------------- */

static struct server {
        struct counted counted;
        struct serve *serve;
        pthread_t thread;
        bool stop;
        int rounds;
} server;

static void *run_server(void *unused)
{
        while (!__atomic_load_n(&server.stop, __ATOMIC_ACQUIRE)) {
                serve_round(server.serve, 20);
                server.rounds++;
        }
        return NULL;
}

static void begin_server(void)
{
        struct serve_hooks hooks = counting_hooks(&server.counted);
        pid_t holder;
        memset(&server, 0, sizeof server);
        server.counted.ring_fd = -1;
        assert_int_equal(serve_new(&hooks, &server.serve), 0);
        assert_int_equal(serve_listen(server.serve, path, &holder), 0);
}

static void start_server(void)
{
        server.stop = false;
        assert_int_equal(pthread_create(&server.thread, NULL, run_server, NULL), 0);
}

static void stop_server(void)
{
        __atomic_store_n(&server.stop, true, __ATOMIC_RELEASE);
        pthread_join(server.thread, NULL);
}

static void end_server(void)
{
        serve_free(server.serve);
        server.serve = NULL;
}

/* Rounds until `clients` are connected. */
static void settle(size_t clients)
{
        for (int i = 0; i < 200 && serve_clients(server.serve) != clients; i++)
                serve_round(server.serve, 10);
        assert_int_equal(serve_clients(server.serve), clients);
}

static int raw_client(void)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        return fd;
}

static struct control_request request(enum control_verb verb)
{
        return (struct control_request){ .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = verb };
}

static unsigned open_fds(void)
{
        unsigned n = 0;
        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* ---- all verbs ---------------------------------------------------------------------------------------------------------------- */

static void test_verbs(void **unused)
{
        struct control *c;
        struct control_answer a;
        struct control_request status = request(CONTROL_STATUS);
        struct stat st, passed;
        uint64_t value = 0;
        int fd;
        begin_server();
        assert_int_equal(lstat(path, &st), 0);
        /* Open to group watop and to no other. */
        gid_t group;
        bool shared = trust_group(&group) == 0 && st.st_gid == group;
        assert_int_equal(st.st_mode & 0777, shared ? 0660 : 0600);
        server.counted.ring_fd = memfd_create("ring", MFD_CLOEXEC);
        start_server();
        assert_int_equal(control_connect(path, &c), 0);
        assert_int_equal(control_hello(c, &a, &fd), 0);
        assert_int_equal(a.tick_ns, 1000000000);
        assert_int_equal(a.scopes, 15);
        assert_int_equal(a.value, 3);
        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(fstat(server.counted.ring_fd, &passed), 0);
        assert_int_equal(st.st_ino, passed.st_ino);
        close(fd);
        unsigned before = open_fds();
        assert_int_equal(control_hello(c, &a, NULL), 0); /* unasked descriptors are closed */
        assert_int_equal(open_fds(), before);

        assert_int_equal(control_lease(c, 0x1ff, &value), 0);
        assert_int_equal(value, 0xff);
        assert_int_equal(control_mark(c, "load starts", &value), 0);
        assert_int_equal(value, 1);
        assert_int_equal(control_mark(c, "", &value), -EINVAL);
        char text[CONTROL_TEXT + 2];
        memset(text, 'x', sizeof text);
        text[CONTROL_TEXT + 1] = 0;
        assert_int_equal(control_mark(c, text, &value), -EMSGSIZE);
        text[CONTROL_TEXT] = 0;
        assert_int_equal(control_mark(c, text, &value), 0);
        assert_int_equal(control_tick(c, &value), 0);
        assert_int_equal(value, 3);
        for (int i = 0; i < 3; i++)
                assert_int_equal(control_step(c, &value), 0);
        assert_int_equal(control_step(c, &value), -ENODATA);
        assert_int_equal(control_call(c, &status, &a, NULL, 1000), 0);
        assert_int_equal(a.length, strlen("all is well"));
        assert_memory_equal(a.text, "all is well", a.length);
        char why[64];
        fd = 0;
        assert_int_equal(control_stream(c, &fd, why, sizeof why), -EOPNOTSUPP);
        assert_int_equal(fd, -1);
        assert_string_equal(why, "no source here");
        assert_int_equal(control_stream(c, &fd, why, 3), -EOPNOTSUPP);
        assert_string_equal(why, "no");
        __atomic_store_n(&server.counted.stream_fd, server.counted.ring_fd, __ATOMIC_RELEASE);
        before = open_fds();
        assert_int_equal(control_stream(c, &fd, why, sizeof why), 0);
        assert_string_equal(why, "");
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_ino, passed.st_ino);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        close(fd);
        assert_int_equal(open_fds(), before);
        struct control_request unknown = request(77);
        assert_int_equal(control_call(c, &unknown, &a, NULL, 1000), 0);
        assert_int_equal(a.error, EOPNOTSUPP);
        stop_server();
        assert_int_equal(server.counted.pid, getpid());
        assert_int_equal(server.counted.uid, geteuid());
        assert_int_equal(server.counted.bad_texts, 0);
        assert_int_equal(server.counted.marks, 2);
        control_close(c);
        settle(0);
        assert_int_equal(server.counted.leases, 0);
        close(server.counted.ring_fd);
        end_server();
        assert_int_equal(control_connect(path, &c), -ENOENT);
}

/* ---- leases ------------------------------------------------------------------------------------------------------------------- */

static void ask_lease(int fd, uint64_t value)
{
        struct control_request q = request(CONTROL_LEASE);
        struct control_answer a;
        q.value = value;
        assert_int_equal(send(fd, &q, sizeof q, 0), sizeof q);
        for (int i = 0; i < 100 && recv(fd, &a, sizeof a, MSG_DONTWAIT) < 0; i++)
                serve_round(server.serve, 10);
}

static void test_leases(void **unused)
{
        begin_server();
        int one = raw_client(), two = raw_client();
        settle(2);
        ask_lease(one, 5);
        ask_lease(two, 6);
        assert_int_equal(serve_leases(server.serve), 7);
        ask_lease(one, 1);
        assert_int_equal(server.counted.leases, 7);
        close(two);
        settle(1);
        assert_int_equal(server.counted.leases, 1);

        /* kill -9 ends a lease as well as anything. */
        pid_t pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                int fd = raw_client();
                struct control_request q = request(CONTROL_LEASE);
                q.value = LEASE_EXACT; /* tracing must not outlive who asked for it */
                if (send(fd, &q, sizeof q, 0) < 0)
                        _exit(1);
                for (;;)
                        pause();
        }
        for (int i = 0; i < 300 && serve_leases(server.serve) != (1 | LEASE_EXACT); i++)
                serve_round(server.serve, 10);
        assert_int_equal(serve_leases(server.serve), 1 | LEASE_EXACT);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        settle(1);
        assert_int_equal(server.counted.leases, 1);
        close(one);
        end_server();
}

/* ---- hostile clients ---------------------------------------------------------------------------------------------------------- */

static void test_bad_packets(void **unused)
{
        struct control_request good = request(CONTROL_MARK), q;
        struct control_answer a;
        char big[4096] = { 0 };
        begin_server();
        good.length = 3;
        memcpy(good.text, "abc", 3);

        for (size_t length = 0; length <= sizeof big; length += length < 300 ? 37 : 911) {
                if (length == sizeof q)
                        continue;
                int fd = raw_client();
                memcpy(big, &good, sizeof good);
                assert_int_equal(send(fd, big, length, 0), (ssize_t)length);
                settle(1);
                settle(0);
                close(fd);
        }
        int fd = raw_client();
        q = good;
        q.magic++;
        assert_int_equal(send(fd, &q, sizeof q, 0), sizeof q);
        settle(1);
        settle(0);
        close(fd);
        assert_int_equal(server.counted.marks, 0);

        struct {
                uint32_t version, verb, length;
                char last;
                int error;
        } cases[] = {
                { CONTROL_VERSION + 1, CONTROL_MARK, 3, 'c', EPROTONOSUPPORT },
                { CONTROL_VERSION, CONTROL_MARK, CONTROL_TEXT + 1, 'c', EINVAL },
                { CONTROL_VERSION, CONTROL_MARK, UINT32_MAX, 'c', EINVAL }, { CONTROL_VERSION, CONTROL_MARK, 0, 'c', EINVAL },
                { CONTROL_VERSION, CONTROL_MARK, 3, 0, EINVAL },
                { CONTROL_VERSION, 0, 0, 0, EOPNOTSUPP }, { CONTROL_VERSION, UINT32_MAX, 0, 0, EOPNOTSUPP },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                fd = raw_client();
                q = good;
                q.version = cases[i].version;
                q.verb = cases[i].verb;
                q.length = cases[i].length;
                q.text[2] = cases[i].last;
                assert_int_equal(send(fd, &q, sizeof q, 0), sizeof q);
                settle(1);
                serve_round(server.serve, 100);
                assert_int_equal(recv(fd, &a, sizeof a, MSG_DONTWAIT), sizeof a);
                assert_int_equal(a.error, cases[i].error);
                close(fd);
                settle(0);
        }
        assert_int_equal(server.counted.marks, 0);
        end_server();
}

/* Descriptors that a client sends along do not stay in the server. */
static void test_sent_descriptors(void **unused)
{
        struct control_request q = request(CONTROL_STATUS);
        union {
                char bytes[CMSG_SPACE(4 * sizeof(int))];
                struct cmsghdr align;
        } control = { .bytes = { 0 } };
        int four[4] = { 0, 1, 2, 0 };
        struct iovec part = { .iov_base = &q, .iov_len = sizeof q };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof four), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(h), four, sizeof four);
        begin_server();
        int fd = raw_client();
        settle(1);
        unsigned before = open_fds();
        for (int i = 0; i < 5; i++) {
                assert_int_equal(sendmsg(fd, &m, 0), sizeof q);
                serve_round(server.serve, 100);
        }
        assert_int_equal(open_fds(), before);
        assert_int_equal(serve_clients(server.serve), 1);
        close(fd);
        end_server();
}

/* One that asks and asks and never reads is dropped, or held back; the rounds stay short. */
static void test_flood(void **unused)
{
        struct control_request q = request(CONTROL_STATUS);
        begin_server();
        int fd = raw_client();
        settle(1);
        unsigned sent = 0;
        for (int i = 0; i < 2000 && serve_clients(server.serve) == 1; i++) {
                sent += send(fd, &q, sizeof q, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof q;
                serve_round(server.serve, 0);
        }
        settle(0);
        assert_true(sent < 500);
        close(fd);

        /* One that reads its answers is held to its allowance: about 100 at once, then 100 a second. */
        fd = raw_client();
        settle(1);
        struct control_answer a;
        unsigned answers = 0;
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < 3000; i++) {
                send(fd, &q, sizeof q, MSG_DONTWAIT | MSG_NOSIGNAL);
                serve_round(server.serve, 0);
                answers += recv(fd, &a, sizeof a, MSG_DONTWAIT) == (ssize_t)sizeof a;
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
        assert_true(answers >= 90 && answers <= 105 + (unsigned)(seconds * 100));
        assert_int_equal(serve_clients(server.serve), 1);
        close(fd);
        for (int i = 0; i < 100 && serve_clients(server.serve) != 0; i++)
                serve_round(server.serve, 10);
        assert_int_equal(serve_clients(server.serve), 0);

        /* Frames cost more. */
        fd = raw_client();
        settle(1);
        q = request(CONTROL_TICK);
        for (int i = 0; i < 1000; i++) {
                send(fd, &q, sizeof q, MSG_DONTWAIT | MSG_NOSIGNAL);
                serve_round(server.serve, 0);
                recv(fd, &a, sizeof a, MSG_DONTWAIT);
        }
        assert_true(server.counted.ticks >= 15 && server.counted.ticks < 60);
        close(fd);
        end_server();
}

static void test_too_many(void **unused)
{
        int fds[SERVE_CLIENTS];
        struct control *c;
        struct control_answer a;
        begin_server();
        size_t places = SERVE_CLIENTS; /* whom the daemon runs as may take all */
        for (size_t i = 0; i < places; i++) {
                fds[i] = raw_client();
                settle(i + 1);
        }
        start_server();
        assert_int_equal(control_connect(path, &c), 0);
        int r = control_hello(c, &a, NULL);
        assert_true(r == -EUSERS || r == -EPIPE);
        control_close(c);
        close(fds[3]);
        usleep(100000);
        assert_int_equal(control_connect(path, &c), 0);
        assert_int_equal(control_hello(c, &a, NULL), 0);
        control_close(c);
        for (size_t i = 0; i < places; i++)
                if (i != 3)
                        close(fds[i]);
        stop_server();
        end_server();
}

/* One round as if it were so many ns later. */
static void round_later(uint64_t later)
{
        struct pollfd fds[SERVE_FDS];
        struct timespec t;
        uint64_t deadline = UINT64_MAX;
        clock_gettime(CLOCK_MONOTONIC, &t);
        uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + later;
        size_t n = serve_fds(server.serve, fds, SERVE_FDS, now, &deadline);
        if (poll(fds, n, 0) > 0)
                serve_run(server.serve, fds, n, now);
}

static bool hung_up(int fd)
{
        struct pollfd p = { .fd = fd };
        return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

static void send_lease(int fd, uint64_t scopes_wanted)
{
        struct control_request q = request(CONTROL_LEASE);
        q.value = scopes_wanted;
        assert_int_equal(send(fd, &q, sizeof q, 0), sizeof q);
}

static void test_idle(void **unused)
{
        int fds[SERVE_CLIENTS], next;
        begin_server();
        for (size_t i = 0; i < SERVE_CLIENTS; i++) {
                fds[i] = raw_client();
                settle(i + 1);
        }
        send_lease(fds[0], 1);
        serve_round(server.serve, 10);
        assert_int_equal(serve_leases(server.serve), 1);
        next = raw_client();
        round_later(UINT64_C(4000000000)); /* all were heard of less than 5 s ago */
        assert_true(hung_up(next));
        close(next);
        next = raw_client();
        round_later(UINT64_C(6000000000));
        assert_false(hung_up(next));
        assert_int_equal(serve_clients(server.serve), SERVE_CLIENTS);
        assert_false(hung_up(fds[0])); /* who holds a lease may be silent */
        assert_int_equal(serve_leases(server.serve), 1);
        size_t gone = 0;
        for (size_t i = 0; i < SERVE_CLIENTS; i++) {
                gone += hung_up(fds[i]);
                close(fds[i]);
        }
        assert_int_equal(gone, 1);
        close(next);
        end_server();
}

/* Some places stay for who only asks something. */
static void test_lease_places(void **unused)
{
        struct control_answer a;
        int fds[SERVE_CLIENTS];
        size_t held = 0;
        begin_server();
        for (size_t i = 0; i < SERVE_CLIENTS; i++) {
                fds[i] = raw_client();
                settle(i + 1);
                send_lease(fds[i], 1);
                while (recv(fds[i], &a, sizeof a, MSG_DONTWAIT) != (ssize_t)sizeof a)
                        serve_round(server.serve, 10);
                assert_true(a.error == 0 || a.error == EUSERS);
                held += a.error == 0;
        }
        assert_true(held < SERVE_CLIENTS && held > SERVE_CLIENTS / 2);
        for (size_t i = 0; i < SERVE_CLIENTS; i++)
                close(fds[i]);
        end_server();
}

/* ---- the path ----------------------------------------------------------------------------------------------------------------- */

static void test_path(void **unused)
{
        struct serve_hooks hooks = counting_hooks(&server.counted);
        struct serve *second;
        pid_t holder = -1;
        begin_server();
        assert_int_equal(serve_new(&hooks, &second), 0);
        assert_int_equal(serve_listen(second, path, &holder), -EBUSY);
        assert_int_equal(holder, getpid());
        assert_int_equal(access(path, F_OK), 0);
        end_server();

        /* A socket file whose daemon died is replaced, with its lock file. */
        pid_t pid = fork();
        if (pid == 0) {
                struct serve *s;
                _exit(serve_new(&hooks, &s) == 0 && serve_listen(s, path, NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(serve_listen(second, path, &holder), 0);
        serve_free(second);

        /* Anything else is left alone. */
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(serve_new(&hooks, &second), 0);
        assert_int_equal(serve_listen(second, path, &holder), -EEXIST);
        assert_int_equal(access(path, F_OK), 0);

        /* A second name of some small file in the place of the lock is not written over. */
        assert_int_equal(unlink(path), 0);
        char lock[200], host[200], text[16] = "";
        snprintf(lock, sizeof lock, "%s.lock", path);
        snprintf(host, sizeof host, "%s.host", path);
        unlink(lock);
        fd = open(host, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0 && write(fd, "name\n", 5) == 5 && link(host, lock) == 0);
        assert_int_equal(serve_listen(second, path, &holder), -EEXIST);
        assert_int_equal(pread(fd, text, sizeof text, 0), 5);
        assert_string_equal(text, "name\n");
        close(fd);
        assert_int_equal(unlink(host), 0);
        assert_int_equal(unlink(lock), 0);

        /* A listener without our lock (another program) keeps its path. */
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(serve_listen(second, path, &holder), -EBUSY);
        assert_int_equal(holder, getpid());
        close(fd);
        assert_int_equal(serve_listen(second, path, &holder), 0);
        serve_free(second);

        char name[200];
        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = 0;
        struct control *c;
        assert_int_equal(control_connect(name, &c), -ENAMETOOLONG);
}

static void test_lifeline(void **unused)
{
        struct counted counted = { .ring_fd = -1 };
        struct serve_hooks hooks = counting_hooks(&counted);
        struct serve *s;
        int ends[2];
        assert_int_equal(serve_new(&hooks, &s), 0);
        assert_false(serve_orphan(s));
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(serve_adopt(s, ends[0]), -EPROTOTYPE);
        close(ends[1]);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(serve_adopt(s, ends[0]), 0);
        /* In lock-step with a captured machine: no limit of rate. */
        struct control_request q = request(CONTROL_TICK);
        struct control_answer a;
        for (int i = 0; i < 1000; i++) {
                assert_int_equal(send(ends[1], &q, sizeof q, 0), sizeof q);
                serve_round(s, 100);
                assert_int_equal(recv(ends[1], &a, sizeof a, MSG_DONTWAIT), sizeof a);
                assert_int_equal(a.error, 0);
        }
        assert_int_equal(counted.ticks, 1000);
        q = request(CONTROL_LEASE);
        q.value = 3;
        assert_int_equal(send(ends[1], &q, sizeof q, 0), sizeof q);
        serve_round(s, 100);
        assert_int_equal(counted.leases, 3);
        assert_false(serve_orphan(s));
        close(ends[1]);
        for (int i = 0; i < 5 && !serve_orphan(s); i++)
                serve_round(s, 100);
        assert_true(serve_orphan(s));
        assert_int_equal(counted.leases, 0);
        serve_free(s);
        serve_free(NULL);
}

/* ---- hostile servers ---------------------------------------------------------------------------------------------------------- */

static void pair(struct control **c, int *other)
{
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(control_adopt(ends[0], c), 0);
        *other = ends[1];
}

static int answer(const struct control_answer *a, size_t length)
{
        struct control *c;
        struct control_answer got;
        struct control_request q = request(CONTROL_STATUS);
        int other;
        pair(&c, &other);
        assert_int_equal(send(other, a, length, 0), (ssize_t)length);
        int r = control_call(c, &q, &got, NULL, 50);
        control_close(c);
        close(other);
        return r;
}

static void test_bad_answers(void **unused)
{
        struct control_answer good = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = CONTROL_STATUS }, a;
        char big[2 * sizeof a] = { 0 };
        assert_int_equal(answer(&good, sizeof good), 0);
        memcpy(big, &good, sizeof good);
        assert_int_equal(answer((void *)big, sizeof big), -EPROTO);
        assert_int_equal(answer(&good, sizeof good - 1), -EPROTO);
        assert_int_equal(answer(&good, 0), -EPIPE);
#define BAD(field, value) a = good; a.field = (value); assert_int_equal(answer(&a, sizeof a), -EPROTO)
        BAD(magic, 1);
        BAD(version, 2);
        BAD(verb, CONTROL_MARK);
        BAD(verb, 0);
        BAD(length, CONTROL_TEXT + 1);
        BAD(error, -1);
        BAD(error, 1 << 20);
        a = good;
        a.verb = 0;
        a.error = EUSERS;
        assert_int_equal(answer(&a, sizeof a), 0);
}

static void test_peer_dies(void **unused)
{
        struct control *c;
        struct control_answer a;
        struct control_request q = request(CONTROL_STATUS);
        int other;
        pair(&c, &other);
        close(other);
        assert_int_equal(control_call(c, &q, &a, NULL, 1000), -EPIPE); /* and no SIGPIPE */
        control_close(c);
        control_close(NULL);

        pair(&c, &other);
        pid_t pid = fork();
        if (pid == 0) { /* takes the request, then dies */
                struct control_request got;
                control_close(c);
                _exit(recv(other, &got, sizeof got, 0) == (ssize_t)sizeof got ? 0 : 1);
        }
        close(other);
        assert_int_equal(control_call(c, &q, &a, NULL, 10000), -EPIPE);
        waitpid(pid, NULL, 0);
        control_close(c);
}

/* An answer that comes too late is not taken for the next one's, and more descriptors than asked for are closed. */
static void test_late_answer(void **unused)
{
        struct control *c;
        struct control_answer a = { .magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .verb = CONTROL_TICK, .value = 1 }, got;
        struct control_request q = request(CONTROL_TICK);
        int other, fd;
        pair(&c, &other);
        assert_int_equal(control_call(c, &q, &got, NULL, 20), -ETIMEDOUT);
        assert_int_equal(control_call(c, &q, &got, NULL, 20), -ETIMEDOUT);
        for (a.value = 1; a.value <= 3; a.value++)
                assert_int_equal(send(other, &a, sizeof a, 0), sizeof a);
        assert_int_equal(control_call(c, &q, &got, NULL, 1000), 0);
        assert_int_equal(got.value, 3);

        union {
                char bytes[CMSG_SPACE(20 * sizeof(int))];
                struct cmsghdr align;
        } control = { .bytes = { 0 } };
        struct iovec part = { .iov_base = &a, .iov_len = sizeof a };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        int many[20] = { 0 };
        *h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof many), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(h), many, sizeof many);
        unsigned before = open_fds();
        assert_int_equal(sendmsg(other, &m, 0), sizeof a);
        assert_int_equal(control_call(c, &q, &got, &fd, 1000), 0);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(open_fds(), before);
        a.magic = 0; /* nor is one kept from an answer that is refused */
        assert_int_equal(sendmsg(other, &m, 0), sizeof a);
        assert_int_equal(control_call(c, &q, &got, &fd, 1000), -EPROTO);
        assert_int_equal(fd, -1);
        assert_int_equal(open_fds(), before);
        control_close(c);
        close(other);
}

/* Root does not talk to a stranger's socket. */
static void test_foreign_peer(void **unused)
{
        struct control *c;
        int ready[2];
        if (geteuid() != 0) {
                print_message("# not tried: needs root\n");
                return;
        }
        assert_int_equal(pipe(ready), 0);
        assert_int_equal(chmod(folder, 0777), 0);
        pid_t pid = fork();
        if (pid == 0) {
                struct sockaddr_un address = { .sun_family = AF_UNIX };
                snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
                int fd = setuid(54321) == 0 ? socket(AF_UNIX, SOCK_SEQPACKET, 0) : -1;
                if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0 || write(ready[1], "x", 1) < 0)
                        _exit(1);
                for (;;)
                        pause();
        }
        char byte;
        close(ready[1]);
        ssize_t n = read(ready[0], &byte, 1);
        close(ready[0]);
        int r = control_connect(path, &c);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_int_equal(chmod(folder, 0700), 0);
        assert_int_equal(n, 1);
        assert_int_equal(r, -EPERM);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_verbs, start, finish),
                cmocka_unit_test_setup_teardown(test_leases, start, finish),
                cmocka_unit_test_setup_teardown(test_bad_packets, start, finish),
                cmocka_unit_test_setup_teardown(test_sent_descriptors, start, finish),
                cmocka_unit_test_setup_teardown(test_flood, start, finish),
                cmocka_unit_test_setup_teardown(test_too_many, start, finish),
                cmocka_unit_test_setup_teardown(test_idle, start, finish),
                cmocka_unit_test_setup_teardown(test_lease_places, start, finish),
                cmocka_unit_test_setup_teardown(test_path, start, finish),
                cmocka_unit_test(test_lifeline),
                cmocka_unit_test(test_bad_answers),
                cmocka_unit_test(test_peer_dies),
                cmocka_unit_test(test_late_answer),
                cmocka_unit_test_setup_teardown(test_foreign_peer, start, finish),
        };
        return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}

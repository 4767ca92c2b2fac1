/*
 * The log: what goes in comes out byte for byte; what is cut, flipped or half written costs what it must and no more.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>
#include <zlib.h>

#include "sample/log_layout.h"
#include "sample/state.h"
#include "tests/log_frames.h"

static char *folder, path[128];

static int set_up(void **arg)
{
        (void)arg;
        folder = temp_folder();
        snprintf(path, sizeof path, "%s/a.log", folder);
        return 0;
}

static int tear_down(void **arg)
{
        (void)arg;
        unlink(path);
        return rmdir(folder);
}

static struct log_writer *writer(void)
{
        struct log_writer *w;

        assert_int_equal(log_create(path, &(struct log_create_options){.force = true}, &w), 0);
        return w;
}

/* Ticks of the made machine into the log and into `kept`. */
static void write_machine(struct log_writer *w, struct kept *kept, unsigned ticks, unsigned tasks)
{
        struct sealed s;
        uint64_t random = 7;

        sealed_open(&s);
        for (unsigned i = 0; i < ticks; i++) {
                machine_tick(&s, &random, tasks);
                s.flags = i % 30 == 0 ? FRAME_FULL : 0;
                s.gap = i % 17 == 5 ? GAP_LATE : GAP_NONE;
                sealed_seal(&s);
                assert_int_equal(log_append(w, s.frame, s.length), 0);
                kept_add(kept, s.frame, s.length);
        }
        sealed_close(&s);
}

/* Frames of the log are those of `kept`, in order; returns how many there were, and how often damage was told. */
static size_t read_back(struct log *log, const struct kept *kept, unsigned *damaged)
{
        const struct frame_head *frame;
        size_t at = 0, count = 0;
        int r;

        *damaged = 0;
        while ((r = log_next(log, &frame)) != LOG_END) {
                assert_true(r == LOG_FRAME || r == LOG_DAMAGED);
                if (r == LOG_DAMAGED) {
                        ++*damaged;
                        continue;
                }
                while (at < kept->count && kept->frames[at]->sequence < frame->sequence)
                        at++;
                assert_true(at < kept->count);
                assert_true(same_frame(frame, kept->frames[at]));
                at++;
                count++;
        }
        return count;
}

static void test_round_trip(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        struct log *log;
        struct log_info info;
        unsigned damaged;

        (void)arg;
        write_machine(w, &kept, 200, 50);
        assert_int_equal(log_frames(w), 200);
        assert_int_equal(log_open(path, &log), 0); /* while it grows */
        assert_int_equal(read_back(log, &kept, &damaged), 200);
        assert_int_equal(damaged, 0);
        assert_int_equal(log_get_info(log, &info), 0);
        assert_true(info.growing && !info.finished);
        log_close(log);
        assert_int_equal(log_finish(w), 0);

        assert_int_equal(log_open(path, &log), 0);
        assert_int_equal(log_get_info(log, &info), 0);
        assert_true(!info.growing && info.finished);
        assert_int_equal(info.frames, 200);
        assert_int_equal(info.first_sequence, 1);
        assert_int_equal(info.last_sequence, 200);
        assert_int_equal(info.last_real_ns, kept.frames[199]->real_ns);
        assert_int_equal(info.last_mono_ns, kept.frames[199]->mono_ns);
        assert_int_equal(info.tick_ns, SECOND);
        assert_int_equal(info.damaged_blocks + info.damaged_bytes + info.torn_bytes, 0);
        assert_true(info.blocks >= 3 && info.blocks <= 5);
        assert_int_equal(read_back(log, &kept, &damaged), 200);
        log_close(log);
        kept_free(&kept);
}

/* Legal frames that no writer of ours makes: keys twice, odd padding, texts that run out of their row, slots that the schema does not
 * know. */
static void test_any_frame(void **arg)
{
        struct kept kept = {0};
        uint64_t space[8192], random = 4711, full = 0;
        struct log_writer *w = writer();
        struct log *log;
        unsigned damaged;

        (void)arg;
        for (uint64_t i = 1; i <= 3000; i++) {
                if (i % 40 == 1)
                        full = i;
                size_t length = odd_frame(space, 8192, &random, i, full);
                assert_int_equal(frame_check(space, length), 0);
                assert_int_equal(log_append(w, space, length), 0);
                kept_add(&kept, space, length);
        }
        assert_int_equal(log_finish(w), 0);
        assert_int_equal(log_open(path, &log), 0);
        assert_int_equal(read_back(log, &kept, &damaged), 3000);
        assert_int_equal(damaged, 0);
        log_close(log);
        kept_free(&kept);
}

static void test_before_the_first_full_one(void **arg)
{
        struct log_writer *w = writer();
        struct sealed s;
        struct log *log;
        const struct frame_head *frame;
        uint64_t random = 3;

        (void)arg;
        sealed_open(&s);
        machine_tick(&s, &random, 5);
        sealed_seal(&s); /* full, and not given to the log */
        machine_tick(&s, &random, 5);
        sealed_seal(&s);
        assert_int_equal(log_append(w, s.frame, s.length), 0);
        assert_int_equal(log_frames(w), 0);
        assert_int_equal(log_append(w, s.frame, s.length - 8), -EBADMSG);
        s.flags = FRAME_FULL;
        machine_tick(&s, &random, 5);
        sealed_seal(&s);
        assert_int_equal(log_append(w, s.frame, s.length), 0);
        assert_int_equal(log_finish(w), 0);
        assert_int_equal(log_open(path, &log), 0);
        assert_int_equal(log_next(log, &frame), LOG_FRAME);
        assert_int_equal(frame->sequence, 3);
        assert_int_equal(log_next(log, &frame), LOG_END);
        log_close(log);
        sealed_close(&s);
}

static void test_notes(void **arg)
{
        struct log_writer *w = writer();
        struct kept kept = {0};
        struct log *log;
        size_t length;

        (void)arg;
        assert_int_equal(log_note(w, "command", "a\0b", 3), 0);
        write_machine(w, &kept, 5, 3);
        assert_int_equal(log_note(w, "label", "one", 3), 0);
        assert_int_equal(log_note(w, "label", "two", 3), 0);
        assert_int_equal(log_note(w, "empty", NULL, 0), 0);
        assert_int_equal(log_note(w, "Bad", "x", 1), -EINVAL);
        assert_int_equal(log_note(w, "", "x", 1), -EINVAL);
        assert_int_equal(log_note(w, "x", path, (16 << 20) + 1), -EFBIG);
        for (int finished = 0; finished < 2; finished++) {
                if (finished)
                        assert_int_equal(log_finish(w), 0);
                assert_int_equal(log_open(path, &log), 0);
                assert_string_equal(log_note_name(log, 0), "command");
                assert_string_equal(log_note_name(log, 1), "label");
                assert_string_equal(log_note_name(log, 2), "empty");
                assert_null(log_note_name(log, 3));
                assert_memory_equal(log_get_note(log, "command", &length), "a\0b", 3);
                assert_int_equal(length, 3);
                assert_memory_equal(log_get_note(log, "label", &length), "two", 3);
                assert_non_null(log_get_note(log, "empty", &length));
                assert_int_equal(length, 0);
                assert_null(log_get_note(log, "none", &length));
                log_close(log);
        }
        kept_free(&kept);
}

/* ---- damage -------------------------------------------------------------------------------------------------------------------------- */

static uint8_t *load(size_t *length)
{
        int fd = open(path, O_RDONLY);
        struct stat st;

        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        uint8_t *bytes = malloc((size_t)st.st_size + 1);
        assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
        close(fd);
        *length = (size_t)st.st_size;
        return bytes;
}

static void store(const uint8_t *bytes, size_t length)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, length), (ssize_t)length);
        close(fd);
}

/* Where each frame's record ends. */
static size_t record_ends(const uint8_t *bytes, size_t length, size_t *ends, size_t max)
{
        size_t count = 0;

        for (size_t at = sizeof(struct log_head); at + sizeof(struct log_record) <= length;) {
                struct log_record head;
                memcpy(&head, bytes + at, sizeof head);
                at += sizeof head + head.length;
                if ((head.kind == LOG_KIND_BLOCK || head.kind == LOG_KIND_FRAME) && count < max)
                        ends[count++] = at;
        }
        return count;
}

static void test_cut_anywhere(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        size_t length, ends[200], frames;
        unsigned damaged;

        (void)arg;
        write_machine(w, &kept, 130, 3);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        frames = record_ends(bytes, length, ends, 200);
        assert_int_equal(frames, 130);
        for (size_t cut = length; cut-- > 0;) {
                struct log *log;
                size_t expected = 0;
                assert_int_equal(truncate(path, (off_t)cut), 0);
                while (expected < frames && ends[expected] <= cut)
                        expected++;
                int r = log_open(path, &log);
                if (r < 0) {
                        assert_int_equal(expected, 0);
                        assert_int_equal(r, -EBADMSG);
                        continue;
                }
                struct log_info info;
                assert_int_equal(log_get_info(log, &info), 0);
                assert_int_equal(info.frames, expected);
                assert_int_equal(info.damaged_blocks, 0);
                assert_int_equal(info.damaged_bytes, 0);
                if (expected > 0)
                        assert_int_equal(info.last_real_ns, kept.frames[expected - 1]->real_ns);
                /* Every frame is read again at some of the cuts only: it is the same way each time. */
                if (cut % 37 == 0 || (expected > 0 && ends[expected - 1] == cut))
                        assert_int_equal(read_back(log, &kept, &damaged), expected);
                log_close(log);
        }
        free(bytes);
        kept_free(&kept);
}

/* A byte anywhere is flipped: what was before it reads, what is behind its block reads, and it is told. */
static void test_flipped_anywhere(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        size_t length, ends[300], frames;
        uint64_t random = 99;

        (void)arg;
        write_machine(w, &kept, 200, 3);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        frames = record_ends(bytes, length, ends, 300);
        for (unsigned round = 0; round < 2500; round++) {
                size_t at = sealed_random(&random) % length, before = 0;
                struct log *log;
                unsigned damaged;
                uint8_t was = bytes[at];
                bytes[at] ^= (uint8_t)(1u << sealed_random(&random) % 8);
                store(bytes, length);
                while (before < frames && ends[before] <= at)
                        before++;
                int r = log_open(path, &log);
                bytes[at] = was;
                if (r < 0) {
                        assert_true(at < sizeof(struct log_head));
                        continue;
                }
                size_t count = read_back(log, &kept, &damaged);
                struct log_info info;
                assert_int_equal(log_get_info(log, &info), 0);
                assert_true(count >= before);
                /* Two blocks of 60 frames at least are whole. */
                assert_true(count >= 130);
                assert_true(count == frames || (damaged > 0 && info.damaged_blocks == 1 && info.damaged_bytes > 0));
                log_close(log);
        }
        free(bytes);
        kept_free(&kept);
}

/* Rubbish of any kind put over a stretch: never more than a message. */
static void test_rubbish(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        size_t length;
        uint64_t random = 5;

        (void)arg;
        write_machine(w, &kept, 200, 4);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        uint8_t *copy = malloc(length);
        for (unsigned round = 0; round < 300; round++) {
                struct log *log;
                unsigned damaged;
                memcpy(copy, bytes, length);
                size_t from = 64 + sealed_random(&random) % (length - 64), n = sealed_random(&random) % 3000;
                for (size_t i = from; i < length && i < from + n; i++)
                        copy[i] = round % 2 ? 0 : (uint8_t)sealed_random(&random);
                store(copy, length);
                if (log_open(path, &log) < 0)
                        continue;
                read_back(log, &kept, &damaged);
                log_close(log);
        }
        free(copy);
        free(bytes);
        kept_free(&kept);
}

/* A stranger's note with a name that would be an escape sequence on a terminal, checksums right: it is no note. */
static void test_evil_names(void **arg)
{
        static const char name[] = "label", evil[] = "\x1b[31m";
        struct kept kept = {0};
        struct log_writer *w = writer();
        struct log_record head;
        struct log *log;
        size_t length;

        (void)arg;
        assert_int_equal(log_note(w, name, "x", 1), 0);
        write_machine(w, &kept, 5, 3);
        assert_int_equal(log_note(w, "kind", "y", 1), 0);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        unsigned changed = 0;
        for (size_t at = sizeof(struct log_head); at < length; at += sizeof head + head.length) {
                memcpy(&head, bytes + at, sizeof head);
                uint8_t *payload = bytes + at + sizeof head, *found = memmem(payload, head.length, name, sizeof name - 1);
                if (!found || (head.kind != LOG_KIND_NOTE && head.kind != LOG_KIND_INDEX))
                        continue;
                memcpy(found, evil, sizeof evil - 1);
                head.crc = (uint32_t)crc32_z(0, payload, head.length);
                head.check = (uint32_t)crc32_z(0, (const uint8_t *)&head, offsetof(struct log_record, check));
                memcpy(bytes + at, &head, sizeof head);
                changed++;
        }
        assert_int_equal(changed, 2); /* the note and the index */
        store(bytes, length);
        assert_int_equal(log_open(path, &log), 0);
        assert_string_equal(log_note_name(log, 0), "kind");
        assert_null(log_note_name(log, 1));
        assert_null(log_get_note(log, evil, &length));
        log_close(log);
        free(bytes);
        kept_free(&kept);
}

/* No more names than LOG_NOTES_MAX, so that a hostile log cannot have a reader compare millions; the log goes on. */
static void test_many_names(void **arg)
{
        struct log_writer *w = writer();
        struct log *log;
        size_t length;
        char name[16];

        (void)arg;
        for (unsigned i = 0; i <= LOG_NOTES_MAX; i++) {
                snprintf(name, sizeof name, "n%u", i);
                assert_int_equal(log_note(w, name, "x", 1), i < LOG_NOTES_MAX ? 0 : -EOVERFLOW);
        }
        assert_int_equal(log_note(w, "n7", "new", 3), 0);
        assert_int_equal(log_open(path, &log), 0); /* growing: by a look at every record */
        assert_non_null(log_note_name(log, LOG_NOTES_MAX - 1));
        assert_null(log_note_name(log, LOG_NOTES_MAX));
        assert_memory_equal(log_get_note(log, "n7", &length), "new", 3);
        log_close(log);
        assert_int_equal(log_finish(w), 0);
}

/* Damage every few bytes: 4 MiB of it are gone through in a moment, not by reading a window anew each time (that took minutes). */
static void test_damage_everywhere(void **arg)
{
        enum { RECORDS = 1 << 17 };
        struct log_writer *w = writer();
        struct log_record head = {.mark = {LOG_MARK[0], LOG_MARK[1], LOG_MARK[2]}, .kind = 'x'};
        struct log_info info;
        struct log *log;
        struct timespec from, to;
        size_t length;

        (void)arg;
        assert_int_equal(log_note(w, "kind", "y", 1), 0);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        size_t start = length;
        head.crc = (uint32_t)crc32_z(0, NULL, 0);
        head.check = (uint32_t)crc32_z(0, (const uint8_t *)&head, offsetof(struct log_record, check));
        bytes = realloc(bytes, start + RECORDS * (sizeof head + 1));
        for (size_t i = 0; i < RECORDS; i++, length += sizeof head + 1) {
                bytes[length] = '?';
                memcpy(bytes + length + 1, &head, sizeof head);
        }
        store(bytes, length);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        assert_int_equal(log_open(path, &log), 0);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        assert_int_equal(log_get_info(log, &info), 0);
        assert_int_equal(info.damaged_bytes, RECORDS);
        assert_true(to.tv_sec - from.tv_sec < 5);
        log_close(log);
        free(bytes);
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------------ */

static void test_targets(void **arg)
{
        struct log_writer *w, *second;
        struct stat st;
        char link[160], other[160];

        (void)arg;
        snprintf(link, sizeof link, "%s/link", folder);
        snprintf(other, sizeof other, "%s/other", folder);
        assert_int_equal(log_create(path, NULL, &w), 0);
        assert_true(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
        assert_int_equal(log_create(path, NULL, &second), -EEXIST);
        assert_int_equal(log_create(path, &(struct log_create_options){.force = true}, &second), -EBUSY);
        assert_int_equal(log_finish(w), 0);
        assert_int_equal(log_create(path, NULL, &second), -EEXIST);
        assert_int_equal(symlink(path, link), 0);
        assert_int_equal(log_create(link, NULL, &second), -EEXIST);
        assert_int_equal(log_create(link, &(struct log_create_options){.force = true}, &second), -EPERM);
        unlink(link);
        FILE *f = fopen(other, "w");
        fputs("a letter to my mother\n", f);
        fclose(f);
        assert_int_equal(log_create(other, &(struct log_create_options){.force = true}, &second), -EPERM);
        if (geteuid() == 0) {
                assert_int_equal(chown(path, 4242, (gid_t)-1), 0);
                assert_int_equal(log_create(path, &(struct log_create_options){.force = true}, &second), -EPERM);
                assert_int_equal(chown(path, 0, (gid_t)-1), 0);
        }
        assert_int_equal(log_create(path, &(struct log_create_options){.force = true}, &w), 0);
        assert_int_equal(log_finish(w), 0);
        unlink(other);
        struct log *log;
        assert_int_equal(log_open(folder, &log), -EPROTO);
        assert_int_equal(log_open("/dev/null", &log), -EPROTO);
        assert_int_equal(log_open(other, &log), -ENOENT);
}

/* The disk fills up: the writer stops, and everything that it took is there. A limit of file size stands for the disk. */
static void test_full_disk(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        struct rlimit old, limit;
        struct sealed s;
        uint64_t random = 7, taken = 0;
        int r = 0;

        (void)arg;
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        limit = old;
        limit.rlim_cur = 40000;
        setrlimit(RLIMIT_FSIZE, &limit);
        sealed_open(&s);
        for (unsigned i = 0; i < 1000 && r == 0; i++) {
                machine_tick(&s, &random, 30);
                sealed_seal(&s);
                kept_add(&kept, s.frame, s.length);
                r = log_append(w, s.frame, s.length);
                taken += r == 0;
        }
        assert_int_equal(r, -EFBIG);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(log_append(w, s.frame, s.length), -EFBIG);
        assert_int_equal(log_note(w, "label", "x", 1), -EFBIG);
        sealed_close(&s);
        assert_int_equal(log_finish(w), -EFBIG);
        struct log *log;
        struct log_info info;
        unsigned damaged;
        assert_int_equal(log_open(path, &log), 0);
        assert_int_equal(read_back(log, &kept, &damaged), taken);
        assert_int_equal(log_get_info(log, &info), 0);
        assert_int_equal(info.torn_bytes + damaged, 0);
        log_close(log);
        kept_free(&kept);
}

/* The writer is killed; a reader had the file open all the time. */
static void test_killed_writer(void **arg)
{
        struct kept kept = {0};
        int pipes[2];

        (void)arg;
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        if (child == 0) {
                struct log_writer *w = writer();
                write_machine(w, &kept, 70, 10);
                if (write(pipes[1], "x", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        char c;
        struct log *log;
        struct log_info info;
        const struct frame_head *frame;
        assert_int_equal(read(pipes[0], &c, 1), 1);
        assert_int_equal(log_open(path, &log), 0);
        for (int i = 0; i < 70; i++)
                assert_int_equal(log_next(log, &frame), LOG_FRAME);
        assert_int_equal(log_next(log, &frame), LOG_END);
        assert_true(log_growing(log));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_false(log_growing(log));
        assert_int_equal(log_get_info(log, &info), 0);
        assert_true(!info.finished && info.frames == 70 && info.damaged_bytes == 0 && info.torn_bytes == 0);
        log_close(log);
        close(pipes[0]);
        close(pipes[1]);
        kept_free(&kept);
}

/* A reader at the end of a growing file meets the rest of a record later. */
static void test_growing(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        size_t length, ends[100], seen = 0;
        struct log *log;

        (void)arg;
        write_machine(w, &kept, 90, 5);
        assert_int_equal(log_finish(w), 0);
        uint8_t *bytes = load(&length);
        record_ends(bytes, length, ends, 100);
        store(bytes, ends[0]);
        assert_int_equal(log_open(path, &log), 0);
        int fd = open(path, O_WRONLY | O_APPEND);
        for (size_t at = ends[0], n = 1; at < length; at += n) {
                const struct frame_head *frame;
                n = at % 5 + 1 < length - at ? at % 5 + 1 : length - at;
                assert_int_equal(write(fd, bytes + at, n), (ssize_t)n);
                int r;
                while ((r = log_next(log, &frame)) == LOG_FRAME) {
                        assert_true(same_frame(frame, kept.frames[seen]));
                        seen++;
                }
                assert_int_equal(r, LOG_END);
        }
        close(fd);
        assert_int_equal(seen, 90);
        struct log_info info;
        assert_int_equal(log_get_info(log, &info), 0);
        assert_int_equal(info.frames, 90);
        log_close(log);
        free(bytes);
        kept_free(&kept);
}

static void test_seek(void **arg)
{
        struct kept kept = {0};
        struct log_writer *w = writer();
        struct log *log;
        const struct frame_head *frame;

        (void)arg;
        write_machine(w, &kept, 400, 5);
        for (int finished = 0; finished < 2; finished++) {
                if (finished)
                        assert_int_equal(log_finish(w), 0);
                assert_int_equal(log_open(path, &log), 0);
                for (uint64_t sequence = 1; sequence <= 400; sequence += 13) {
                        assert_int_equal(log_seek_sequence(log, sequence), 0);
                        assert_int_equal(log_next(log, &frame), LOG_FRAME);
                        assert_true(frame->flags & FRAME_FULL);
                        assert_true(frame->sequence <= sequence && sequence - frame->sequence < 60);
                        assert_int_equal(log_seek_time(log, kept.frames[sequence - 1]->real_ns), 0);
                        assert_int_equal(log_next(log, &frame), LOG_FRAME);
                        assert_true(frame->sequence <= sequence && sequence - frame->sequence < 60);
                }
                assert_int_equal(log_seek_sequence(log, 0), -ENOENT);
                assert_int_equal(log_seek_time(log, 5), -ENOENT);
                log_close(log);
        }
        kept_free(&kept);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_any_frame, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_before_the_first_full_one, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_notes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_cut_anywhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_flipped_anywhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_rubbish, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_evil_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_many_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_damage_everywhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_targets, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_killed_writer, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_growing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_seek, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

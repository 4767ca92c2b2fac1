/*
 * An hour at 1 Hz with 2,000 processes of which a tenth wakes each second, made up: bytes a frame, time to append one, to open the log with
 * and without its index, and to seek to a frame. For people at work on the log; prints figures and no verdict.
 */
#include <time.h>

#include "sample/state.h"
#include "tests/log_frames.h"

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void write_hour(const char *path, unsigned ticks)
{
        struct log_writer *w;
        struct sealed s;
        uint64_t random = 1, raw = 0;
        double spent = 0;

        if (log_create(path, &(struct log_create_options){.force = true}, &w) < 0)
                abort();
        sealed_open(&s);
        for (unsigned i = 0; i < ticks; i++) {
                machine_tick(&s, &random, 2000);
                sealed_seal(&s);
                raw += s.length;
                double start = now_ms();
                if (log_append(w, s.frame, s.length) < 0)
                        abort();
                spent += now_ms() - start;
        }
        printf("\nlog of %u s, 2,000 processes, a tenth wakes: frames %.1f MiB, log %.1f MiB, %.0f bytes and %.3f ms a frame\n", ticks,
                (double)raw / 1048576,
               (double)log_bytes(w) / 1048576, (double)log_bytes(w) / ticks, spent / ticks);
        log_finish(w);
        sealed_close(&s);
}

/* To a frame: the newest block start before it, and all frames up to it. */
static double seek_ms(struct log *log, uint64_t sequence)
{
        const struct frame_head *frame;
        struct state *state;
        double start = now_ms();

        if (state_new(&state) < 0 || log_seek_sequence(log, sequence) < 0)
                abort();
        do {
                if (log_next(log, &frame) != LOG_FRAME || state_apply(state, frame, log_schema(log)) < 0)
                        abort();
        } while (frame->sequence < sequence);
        double spent = now_ms() - start;
        state_free(state);
        return spent;
}

static void open_and_seek(const char *path, const char *how, unsigned ticks)
{
        struct log *log;
        double start = now_ms(), worst = 0, sum = 0;

        if (log_open(path, &log) < 0)
                abort();
        double open_ms = now_ms() - start;
        for (unsigned i = 0; i < 40; i++) {
                double ms = seek_ms(log, 1 + (uint64_t)i * 7919 % ticks);
                worst = ms > worst ? ms : worst;
                sum += ms / 40;
        }
        printf("%-16s open %.1f ms, seek %.1f ms (worst of 40: %.1f)\n", how, open_ms, sum, worst);
        log_close(log);
}

int main(void)
{
        char path[128];
        struct log_info info;
        struct log *log;

        snprintf(path, sizeof path, "%s/hour.log", temp_folder());
        write_hour(path, 3600);
        open_and_seek(path, "with its index", 3600);
        /* Its writer died: the index is cut off. */
        if (log_open(path, &log) < 0 || log_get_info(log, &info) < 0 || truncate(path, (off_t)info.bytes - 100) < 0)
                abort();
        log_close(log);
        open_and_seek(path, "without it", 3600);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);
        return 0;
}

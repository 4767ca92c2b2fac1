/*
 * log_peer write FILE | read FILE: a log of made-up rows in which every value follows from the metric's name, and all values of a log's
 * last frame, by name. tests/log.sh builds it twice, with two versions of metrics.def, and lets each read what the other wrote.
 */
#include <stdio.h>
#include <string.h>

#include "sample/log.h"
#include "sample/state.h"

static uint64_t made(const char *name, uint64_t key, uint64_t tick)
{
        uint64_t hash = key_of_name(name, strlen(name), 0).a;

        return hash % 1000000 * (key + 1) + tick * (hash % 977);
}

static int write_peer(const char *path)
{
        struct log_writer *w;
        struct sample *sample;
        const void *frame;
        size_t length;

        if (log_create(path, NULL, &w) < 0 || sample_new(&sample) < 0)
                return 1;
        for (uint64_t tick = 1; tick <= 130; tick++) {
                uint64_t now = tick * 1000000000;
                sample_begin(sample, &(struct sample_stamp){now, now, now});
                for (int s = 0; s < SCOPE_COUNT; s++) {
                        sample_scope_begin(sample, (enum scope)s, now);
                        for (uint64_t key = 0; key < 3; key++) {
                                struct row *row = sample_row(sample, (enum scope)s, (struct key){key, 0}, now);
                                for (int m = scopes[s].first; m < scopes[s].first + scopes[s].count; m++) {
                                        if (metrics[m].kind == KIND_TEXT)
                                                row_text(row, m, metrics[m].name, strlen(metrics[m].name));
                                        else if ((made(metrics[m].name, key, 0) + key) % 7 != 0)
                                                row_set(row, m, made(metrics[m].name, key, tick));
                                }
                        }
                        sample_scope_end(sample, (enum scope)s, now, GONE_EXITED);
                }
                if (sample_seal(sample, &(struct seal){.tick_ns = 1000000000, .scopes_on = ~UINT32_C(0)}, &frame, &length) < 0 ||
                    log_append(w, frame, length) < 0)
                        return 1;
        }
        sample_free(sample);
        return log_finish(w) < 0;
}

static int read_peer(const char *path)
{
        struct log *log;
        struct state *state;
        const struct frame_head *frame;
        int r;

        if (log_open(path, &log) < 0 || state_new(&state) < 0)
                return 1;
        while ((r = log_next(log, &frame)) == LOG_FRAME)
                if (state_apply(state, frame, log_schema(log)) < 0)
                        return 1;
        for (int s = 0; s < SCOPE_COUNT; s++)
                for (size_t i = 0; i < state_count(state, (enum scope)s); i++) {
                        const struct state_row *row = state_at(state, (enum scope)s, i);
                        for (int m = scopes[s].first; m < scopes[s].first + scopes[s].count; m++) {
                                uint64_t value;
                                char text[128];
                                printf("%s %u ", metrics[m].name, (unsigned)row->key.a);
                                if (metrics[m].kind == KIND_TEXT)
                                        printf("%s\n", state_text_copy(state, row, m, text, sizeof text));
                                else if (state_now(row, m, &value))
                                        printf("%llu\n", (unsigned long long)value);
                                else
                                        printf("-\n");
                        }
                }
        state_free(state);
        log_close(log);
        return r == LOG_END ? 0 : 1;
}

int main(int argc, char **argv)
{
        if (argc != 3)
                return 2;
        return strcmp(argv[1], "write") == 0 ? write_peer(argv[2]) : read_peer(argv[2]);
}

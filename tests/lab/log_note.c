/*
 * For scripts: what is in a log. `log_note FILE` prints a line a note (name, bytes), a line a mark (seq, text), then `frames FIRST LAST
 * COUNT full|damaged`; `log_note FILE NAME` prints that note as it is; `log_note FILE --process PID` prints the sequences of frames with
 * its rows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/log.h"
#include "sample/state.h"

static void show_mark(const struct state *state, uint64_t sequence)
{
        char text[256];

        for (size_t i = 0; i < state_count(state, SCOPE_MARK); i++) {
                const struct state_row *row = state_at(state, SCOPE_MARK, i);
                if (!row->gone)
                        printf("mark %" PRIu64 " %s\n", sequence, state_text_copy(state, row, MARK_TEXT, text, sizeof text));
        }
}

static void show_process(const struct state *state, uint64_t sequence, uint64_t pid)
{
        for (size_t i = 0; i < state_count(state, SCOPE_PROCESS); i++) {
                const struct state_row *row = state_at(state, SCOPE_PROCESS, i);
                if (!row->gone && row->key.a == pid)
                        printf("%" PRIu64 " %" PRIu64 "\n", sequence, row->key.b);
        }
}

static int walk(struct log *log, uint64_t pid)
{
        const struct frame_head *frame;
        struct state *state;
        uint64_t first = 0, last = 0, count = 0;
        int r, damaged = 0;

        if (state_new(&state) < 0)
                return 1;
        while ((r = log_next(log, &frame)) > 0) {
                if (r == LOG_DAMAGED) {
                        damaged = 1;
                        state_lost(state);
                        continue;
                }
                state_base(state);
                if (state_apply(state, frame, log_schema(log)) < 0)
                        damaged = 1;
                first = count++ == 0 ? frame->sequence : first;
                last = frame->sequence;
                if (pid != 0)
                        show_process(state, frame->sequence, pid);
                else if (frame->flags & FRAME_MARK)
                        show_mark(state, frame->sequence);
        }
        state_free(state);
        if (pid == 0)
                printf("frames %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", first, last, count, damaged || r < 0 ? "damaged" : "full");
        return 0;
}

int main(int argc, char **argv)
{
        struct log *log;
        size_t length;
        const char *name;

        int r = argc >= 2 ? log_open(argv[1], &log) : -1;
        if (r < 0) {
                fprintf(stderr, "log_note: %s\n", strerror(-r));
                return 1;
        }
        if (argc == 4 && strcmp(argv[2], "--process") == 0) {
                r = walk(log, strtoull(argv[3], NULL, 10));
        } else if (argc == 3) {
                const void *note = log_get_note(log, argv[2], &length);
                r = note == NULL || fwrite(note, 1, length, stdout) != length;
        } else {
                for (size_t i = 0; (name = log_note_name(log, i)) != NULL; i++)
                        printf("note %s %zu\n", name, log_get_note(log, name, &length) ? length : 0);
                r = walk(log, 0);
        }
        log_close(log);
        return r;
}

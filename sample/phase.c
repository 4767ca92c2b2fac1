/*
 * Phases of a log, from its marks. Contract: phase.h.
 */
#include "sample/phase.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sample/state.h"

enum phase_act phase_act(const char *text, const char **name)
{
        static const char end[] = "end", named[] = "end:";

        *name = "";
        if (*text == '\0' || strcmp(text, end) == 0)
                return PHASE_ENDS;
        if (strncmp(text, named, sizeof named - 1) != 0)
                return PHASE_BEGINS;
        text += sizeof named - 1;
        *name = text + strspn(text, " ");
        return PHASE_ENDS;
}

void phases_free(struct phases *phases)
{
        free(phases->phases);
        free(phases->marks);
        *phases = (struct phases){0};
}

static void close_phase(struct phase *phase, const struct log_info *info, const struct phase_mark *mark)
{
        phase->open = mark == NULL;
        phase->to_sequence = mark ? mark->sequence : info->last_sequence;
        phase->to_real_ns = mark ? mark->real_ns : info->last_real_ns;
        phase->to_mono_ns = mark ? mark->mono_ns : info->last_mono_ns;
}

static int begin_phase(struct phases *phases, const struct phase_mark *mark)
{
        struct phase *grown = reallocarray(phases->phases, phases->count + 1, sizeof *grown);

        if (!grown)
                return -ENOMEM;
        phases->phases = grown;
        struct phase *phase = &grown[phases->count];
        *phase = (struct phase){.from_sequence = mark->sequence, .from_real_ns = mark->real_ns, .from_mono_ns = mark->mono_ns, .repeat = 1};
        memcpy(phase->name, mark->text, sizeof phase->name);
        for (size_t i = 0; i < phases->count; i++)
                phase->repeat += strcmp(grown[i].name, phase->name) == 0;
        phases->count++;
        return 0;
}

static int derive(struct phases *phases, const struct log_info *info)
{
        bool running = false;

        for (size_t i = 0; i < phases->mark_count; i++) {
                const struct phase_mark *mark = &phases->marks[i];
                const char *name;
                struct phase *last = running ? &phases->phases[phases->count - 1] : NULL;
                if (phase_act(mark->text, &name) == PHASE_ENDS) {
                        if (last && (*name == '\0' || strcmp(name, last->name) == 0)) {
                                close_phase(last, info, mark);
                                running = false;
                        }
                        continue;
                }
                if (last)
                        close_phase(last, info, mark);
                int r = begin_phase(phases, mark);
                if (r < 0)
                        return r;
                running = true;
        }
        if (running)
                close_phase(&phases->phases[phases->count - 1], info, NULL);
        return 0;
}

static uint64_t level_of(const struct state_row *row, int metric)
{
        uint64_t level;

        return state_now(row, metric, &level) ? level : UINT64_MAX;
}

/* The marks of one frame: rows that are not gone. */
static int take_marks(struct phases *phases, const struct state *state, const struct frame_head *frame)
{
        for (size_t i = 0; i < state_count(state, SCOPE_MARK); i++) {
                const struct state_row *row = state_at(state, SCOPE_MARK, i);
                if (row->gone)
                        continue;
                struct phase_mark *grown = reallocarray(phases->marks, phases->mark_count + 1, sizeof *grown);
                if (!grown)
                        return -ENOMEM;
                phases->marks = grown;
                struct phase_mark *mark = &grown[phases->mark_count++];
                *mark = (struct phase_mark){.sequence = frame->sequence, .real_ns = frame->real_ns, .mono_ns = frame->mono_ns};
                state_text_copy(state, row, MARK_TEXT, mark->text, sizeof mark->text);
                mark->pid = level_of(row, MARK_PID);
                mark->uid = level_of(row, MARK_UID);
        }
        return 0;
}

/* A mark's frame alone: its one scope of interest as a full frame, so that a state takes it without those before. */
static int read_mark(struct phases *phases, const struct log *log, const struct frame_head *frame)
{
        const struct schema *schema = log_schema(log);
        struct state *state;
        const struct scope_head *scope = NULL;

        while ((scope = frame_scope_next(frame, scope)) && schema->scope[scope->scope] != SCOPE_MARK)
                ;
        if (!scope)
                return 0;
        size_t length = sizeof *frame + scope->length;
        struct frame_head *alone = malloc(length);
        int r = alone ? state_new(&state) : -ENOMEM;
        if (r == 0) {
                *alone = *frame;
                memcpy(alone + 1, scope, scope->length);
                alone->length = (uint32_t)length;
                alone->scopes = 1;
                alone->flags |= FRAME_FULL;
                alone->full_sequence = alone->sequence;
                r = state_apply(state, alone, schema);
                if (r >= 0)
                        r = take_marks(phases, state, frame);
                state_free(state);
        }
        free(alone);
        return r == -EBADMSG ? 0 : r;
}

int phases_build(struct log *log, struct phases *phases)
{
        const struct frame_head *frame;
        struct log_info info;

        *phases = (struct phases){0};
        int r = log_rewind(log);
        while (r == 0 && (r = log_next_mark(log, &frame)) == LOG_FRAME)
                r = read_mark(phases, log, frame);
        if (r == 0)
                r = log_get_info(log, &info);
        if (r == 0)
                r = derive(phases, &info);
        log_rewind(log);
        if (r < 0)
                phases_free(phases);
        return r;
}

/* "#2" behind a name. */
static size_t round_of(const char *name, unsigned *repeat)
{
        const char *mark = strrchr(name, '#');
        unsigned value = 0;

        *repeat = 0;
        if (!mark || mark[1] == '\0' || strlen(mark + 1) > 4)
                return strlen(name);
        for (const char *at = mark + 1; *at; at++) {
                if (*at < '0' || *at > '9')
                        return strlen(name);
                value = value * 10 + (unsigned)(*at - '0');
        }
        *repeat = value;
        return (size_t)(mark - name);
}

const struct phase *phases_find(const struct phases *phases, const char *name)
{
        unsigned repeat;
        size_t length = round_of(name, &repeat);

        for (size_t i = 0; i < phases->count; i++)
                if (strcmp(phases->phases[i].name, name) == 0)
                        return &phases->phases[i];
        for (size_t i = 0; i < phases->count; i++) {
                const struct phase *phase = &phases->phases[i];
                if (strlen(phase->name) == length && memcmp(phase->name, name, length) == 0 && phase->repeat == repeat)
                        return phase;
        }
        return NULL;
}

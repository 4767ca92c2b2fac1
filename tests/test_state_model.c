/*
 * Random histories of rows that come, change, leave and come back, written as frames and read by two readers, one of which loses frames:
 * both must agree with a plain model of arrays at every step: values, texts, times, births and growth since the base.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "sample/state.h"
#include "tests/sealed.h"

enum { KEYS = 24, SCOPES = 3, METRICS = 4 };
static const enum scope model_scopes[SCOPES] = {SCOPE_PROCESS, SCOPE_DISK, SCOPE_CPU};
static const int model_metrics[SCOPES][METRICS] = {
        {PROCESS_START, PROCESS_MINFLT, PROCESS_VOLUNTARY, PROCESS_RSS},
        {DISK_SIZE, DISK_READS, DISK_WRITES, DISK_INFLIGHT},
        {METRIC_NONE, CPU_USER, CPU_IDLE, CPU_SYSTEM},
};
static const int model_text[SCOPES] = {PROCESS_COMM, DISK_NAME, METRIC_NONE};

struct facts {
        uint64_t value[METRICS];
        unsigned present;
        char text[12];
        size_t text_length;
        uint32_t offset;
};

struct model_row {
        bool alive, based, left, sent;
        unsigned fell;
        struct facts now, known, base; /* as the writer has it, as it was last sent, at the start of the interval */
};

struct model {
        struct sealed s;
        uint64_t random;
        struct model_row rows[SCOPES][KEYS];
        bool sampled[SCOPES], ever[SCOPES];
        uint64_t start[SCOPES], base_start[SCOPES];
        uint64_t base_boot, base_mono;
};

static bool chance(struct model *m, unsigned one_in)
{
        return sealed_random(&m->random) % one_in == 0;
}

static void model_change(struct model *m, struct model_row *row, bool grows_only)
{
        for (int i = 1; i < METRICS; i++) {
                if (chance(m, 3))
                        row->now.value[i] += sealed_random(&m->random) % 1000;
                if (!grows_only && chance(m, 40)) /* below what it was, and far from any wrap */
                        row->now.value[i] /= 2;
                if (chance(m, 30))
                        row->now.present ^= 1u << i;
        }
        if (chance(m, 10)) {
                row->now.text_length = sealed_random(&m->random) % sizeof row->now.text;
                for (size_t i = 0; i < row->now.text_length; i++)
                        row->now.text[i] = (char)sealed_random(&m->random);
        }
        if (chance(m, 20))
                row->now.present ^= 1u << METRICS; /* the text */
}

static void model_write(struct model *m, int scope, uint64_t key)
{
        struct facts *now = &m->rows[scope][key].now;
        struct row *row = sample_row(m->s.sample, model_scopes[scope], key_of(key), m->start[scope] + now->offset * UINT64_C(1000));

        assert_non_null(row);
        for (int i = 0; i < METRICS; i++) {
                if (model_metrics[scope][i] == METRIC_NONE)
                        continue;
                if (now->present & (1u << i))
                        row_set(row, model_metrics[scope][i], now->value[i]);
                else
                        row_absent(row, model_metrics[scope][i]);
        }
        if (model_text[scope] != METRIC_NONE)
                row_text(row, model_text[scope], now->present & (1u << METRICS) ? now->text : NULL, now->text_length);
}

static void model_sample(struct model *m, int scope)
{
        m->sampled[scope] = m->ever[scope] = true;
        m->start[scope] = m->s.mono + sealed_random(&m->random) % 1000;
        sample_scope_begin(m->s.sample, model_scopes[scope], m->start[scope]);
        for (uint64_t key = 0; key < KEYS; key++) {
                struct model_row *row = &m->rows[scope][key];

                if (row->alive && chance(m, 15)) {
                        row->alive = false;
                        row->left = row->sent || row->left;
                        row->sent = false;
                } else if (!row->alive && chance(m, 6)) {
                        row->alive = true;
                        row->fell = 0;
                        row->now = (struct facts){.present = 1};
                        row->now.value[0] = chance(m, 2) ? m->s.boot - 5000000 : 3;
                }
                row->now.offset = (uint32_t)(sealed_random(&m->random) % 900);
                if (row->alive)
                        model_change(m, row, false);
                if (row->alive)
                        model_write(m, scope, key);
        }
        sample_scope_end(m->s.sample, model_scopes[scope], m->start[scope] + 1000, GONE_EXITED);
}

static bool same_facts(int scope, const struct facts *x, const struct facts *y)
{
        unsigned mask = model_text[scope] == METRIC_NONE ? (1u << METRICS) - 2 : (2u << METRICS) - 1;

        if ((x->present & mask) != (y->present & mask))
                return false;
        for (int i = 0; i < METRICS; i++)
                if ((x->present & mask & (1u << i)) && x->value[i] != y->value[i])
                        return false;
        return !(x->present & mask & (1u << METRICS)) ||
               (x->text_length == y->text_length && memcmp(x->text, y->text, x->text_length) == 0);
}

/* What the frame must have carried. */
static void model_sealed(struct model *m)
{
        bool full = m->s.frame->flags & FRAME_FULL;

        for (int scope = 0; scope < SCOPES; scope++) {
                const struct scope_head *head = sealed_scope(m->s.frame, model_scopes[scope]);

                assert_int_equal(head != NULL, full ? m->ever[scope] : m->sampled[scope]);
                for (uint64_t key = 0; key < KEYS && head; key++) {
                        struct model_row *row = &m->rows[scope][key];
                        bool carried = sealed_row(m->s.frame, model_scopes[scope], key_of(key), ROW_VALUES) != NULL;
                        /* A text that was written and then changed back may travel once too often. */
                        bool must = row->alive && (full || !row->sent || !same_facts(scope, &row->now, &row->known));

                        if (must)
                                assert_true(carried);
                        if (!row->alive)
                                assert_false(carried);
                        if (!carried)
                                continue;
                        for (int i = 0; i < METRICS && row->sent; i++)
                                if (row->now.value[i] < row->known.value[i] && (row->now.present & row->known.present & (1u << i)))
                                        row->fell |= 1u << i;
                        if (row->sent) /* absent for a while: as good as anew */
                                row->fell |= row->known.present & ~row->now.present;
                        row->known = row->now;
                        row->sent = true;
                }
                m->sampled[scope] = false;
        }
}

static void compare_row(const struct model *m, const struct state *state, int scope, uint64_t key)
{
        const struct model_row *row = &m->rows[scope][key];
        const struct state_row *found = state_find(state, model_scopes[scope], key_of(key));
        uint64_t level;
        size_t length = 0;

        if (!row->alive) {
                assert_true(!found || found->gone);
                return;
        }
        assert_true(found && !found->gone);
        /* An offset travels in thousandths of the tick, here ms, and so little moves unsent. */
        assert_true(found->now_ns <= m->start[scope] + row->known.offset * UINT64_C(1000));
        assert_true(found->now_ns + SECOND / 1000 > m->start[scope] + row->known.offset * UINT64_C(1000));
        for (int i = 0; i < METRICS; i++) {
                if (model_metrics[scope][i] == METRIC_NONE)
                        continue;
                bool present = state_now(found, model_metrics[scope][i], &level);
                assert_int_equal(present, (row->now.present >> i) & 1);
                if (present)
                        assert_int_equal(level, row->now.value[i]);
        }
        if (model_text[scope] == METRIC_NONE)
                return;
        const char *text = state_text(state, found, model_text[scope], &length);
        assert_int_equal(text != NULL, (row->now.present >> METRICS) & 1);
        if (text) {
                assert_int_equal(length, row->now.text_length);
                assert_memory_equal(text, row->now.text, length);
        }
}

static void compare(const struct model *m, const struct state *state)
{
        for (int scope = 0; scope < SCOPES; scope++) {
                size_t there = 0;

                for (uint64_t key = 0; key < KEYS; key++)
                        compare_row(m, state, scope, key);
                for (size_t i = 0; i < state_count(state, model_scopes[scope]); i++)
                        there += !state_at(state, model_scopes[scope], i)->gone;
                for (uint64_t key = 0; key < KEYS; key++)
                        there -= m->rows[scope][key].alive;
                assert_int_equal(there, 0);
        }
}

/* Growth since the base, for the reader that saw every frame. */
static void compare_deltas(const struct model *m, const struct state *state)
{
        for (int scope = 0; scope < 2; scope++) {
                for (uint64_t key = 0; key < KEYS; key++) {
                        const struct model_row *row = &m->rows[scope][key];
                        if (!row->alive)
                                continue;
                        const struct state_row *found = state_find(state, model_scopes[scope], key_of(key));
                        bool born = scope == 0 && row->now.value[0] + 10000000 > m->base_boot && (!row->based || row->left);
                        bool based = row->based && !row->left;
                        assert_int_equal(found->born, born);
                        assert_int_equal(found->has_base, based || born);
                        for (int i = 1; i < 3; i++) {
                                double delta = 0;
                                int answer = state_delta(found, model_metrics[scope][i], &delta);
                                bool now = row->now.present & (1u << i), then = born || (row->base.present & (1u << i));
                                if (!(based || born) || !now || !then) {
                                        assert_int_equal(answer, DELTA_ABSENT);
                                } else if (row->fell & (1u << i)) {
                                        assert_int_equal(answer, DELTA_RESET);
                                } else if (born || row->now.value[i] >= row->base.value[i]) {
                                        assert_int_equal(answer, DELTA_OK);
                                        assert_true(delta == (double)(row->now.value[i] - (born ? 0 : row->base.value[i])));
                                } else {
                                        assert_int_equal(answer, DELTA_RESET); /* it fell while it was absent */
                                }
                        }
                }
        }
}

static void model_base(struct model *m)
{
        m->base_boot = m->s.boot;
        for (int scope = 0; scope < SCOPES; scope++) {
                for (uint64_t key = 0; key < KEYS; key++) {
                        struct model_row *row = &m->rows[scope][key];
                        row->based = row->alive;
                        row->left = false;
                        row->fell = 0;
                        row->base = row->now;
                }
        }
}

static void model_tick(struct model *m, unsigned tick)
{
        sealed_tick(&m->s, 20000000 + sealed_random(&m->random) % (2 * SECOND));
        if (tick == 0)
                sealed_ballast(&m->s);
        for (int scope = 0; scope < SCOPES; scope++) {
                if (scope == 0 || !chance(m, 4))
                        model_sample(m, scope);
        }
        m->s.flags = chance(m, 25) ? FRAME_FULL : 0;
        sealed_seal(&m->s);
        assert_int_equal(frame_check(m->s.frame, m->s.length), 0);
        model_sealed(m);
}

static void history(uint64_t seed)
{
        static struct model m;
        struct state *all, *some;
        unsigned recovered = 0;

        m = (struct model){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
        sealed_open(&m.s);
        assert_int_equal(state_new(&all), 0);
        assert_int_equal(state_new(&some), 0);
        for (unsigned tick = 0; tick < 300; tick++) {
                model_tick(&m, tick);
                assert_int_equal(state_apply(all, m.s.frame, NULL), 0);
                compare(&m, all);
                if (tick == 0)
                        model_base(&m);
                else
                        compare_deltas(&m, all);
                if (chance(&m, 3)) {
                        state_base(all);
                        model_base(&m);
                }
                if (chance(&m, 12)) {
                        if (chance(&m, 2))
                                state_lost(some);
                } else if (state_apply(some, m.s.frame, NULL) == 0) {
                        compare(&m, some);
                        recovered++;
                        if (chance(&m, 5))
                                state_base(some);
                }
        }
        assert_true(recovered > 20);
        state_free(all);
        state_free(some);
        sealed_close(&m.s);
}

static void test_state_model(void **unused)
{
        for (uint64_t seed = 1; seed <= 20; seed++)
                history(seed);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_state_model),
        };

        return cmocka_run_group_tests_name("state_model", tests, NULL, NULL);
}

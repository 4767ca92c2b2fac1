/*
 * Block tracing in the sampler, on the machine that this runs on and with sources that the test plays (fake_stages.h): scopes and leases
 * turn it on, settings never do; rows add up and count from 0; a failure is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectors/stages.h"
#include "daemon/sampler.h"
#include "sample/control.h"
#include "sample/stage_stream.h"
#include "sample/state.h"
#include "tests/fake_stages.h"

#define SECOND UINT64_C(1000000000)

struct rig {
        struct procfs *procfs;
        struct sampler *sampler;
        struct state *state;
};

static void rig_close(struct rig *rig)
{
        state_free(rig->state);
        sampler_free(rig->sampler);
        procfs_close_root(rig->procfs);
}

static bool fact_has(struct rig *rig, const char *name, const char *part)
{
        char text[1024];
        const struct state_row *row = state_find(rig->state, SCOPE_FACT, key_of_name(name, strlen(name), 0));

        return row && strstr(state_text_copy(rig->state, row, FACT_VALUE, text, sizeof text), part);
}


static struct stages *rig_open_stages(struct rig *rig, uint32_t scopes_wanted)
{
        struct stages *stages = NULL;
        char why[256];

        fake_stages_reset();
        assert_int_equal(stages_open(&stages, true, why, sizeof why), 0);
        assert_int_equal(procfs_open_root(NULL, &rig->procfs), 0);
        struct sampler_options options = { .procfs = rig->procfs, .interval_ns = SECOND, .scopes = scopes_wanted, .stages = stages };
        assert_int_equal(sampler_new(&options, &rig->sampler), 0);
        assert_int_equal(state_new(&rig->state), 0);
        return stages;
}

static const struct frame_head *tick_now(struct rig *rig)
{
        struct sampler_frame frame;

        assert_int_equal(sampler_tick(rig->sampler, &(struct sampler_order){ .due_ns = 0 }, &frame), 0);
        assert_true(state_apply(rig->state, frame.bytes, NULL) >= 0);
        return frame.bytes;
}

static uint64_t self(struct rig *rig, int metric)
{
        uint64_t value = UINT64_MAX;

        state_now(state_one(rig->state, SCOPE_SELF), metric, &value);
        return value;
}

/* Ticks until it has become so: the thread takes a moment. */
#define TICK_UNTIL(rig, condition)                                                                                              \
        do {                                                                                                                    \
                for (unsigned tries_ = 0; tries_ < 1000 && (tick_now(rig), !(condition)); tries_++)                              \
                        usleep(5000);                                                                                           \
                assert_true(condition);                                                                                         \
        } while (0)

static void put_bio(uint32_t device, uint64_t q)
{
        struct stage_record record = { .kind = RECORD_BIO, .flags = RECORD_HEAD, .device = device, .tid = 1, .tgid = 1 };

        record.bio.id = record.bio.q = q;
        record.bio.g = q + 100;
        record.bio.d1 = record.bio.d = q + 200;
        record.bio.c = q + 1200;
        record.bio.sectors = 8;
        fake_stages_put(FAKE_BPF, &record);
}

static double gained(struct rig *rig, enum scope scope, int metric)
{
        double all = 0, delta;

        for (size_t i = 0; i < state_count(rig->state, scope); i++)
                if (state_delta(state_at(rig->state, scope, i), metric, &delta) == DELTA_OK)
                        all += delta;
        return all;
}

static void blocks_are_traced_while_asked_for(void **unused)
{
        struct rig rig;
        uint64_t value;

        (void)unused;
        /* Settings never trace. */
        struct stages *stages = rig_open_stages(&rig, SCOPE_BIT(SCOPE_NET) | SCOPES_TRACED);
        const struct frame_head *head = tick_now(&rig);
        assert_false(head->scopes_on & SCOPES_TRACED);
        assert_true(sampler_scopes(rig.sampler) & SCOPE_BIT(SCOPE_BIO));
        assert_int_equal(self(&rig, SELF_STAGES), 1);
        assert_int_equal(fake_stages_what(FAKE_BPF), 0);

        uint64_t wanted = SCOPES_TRACED | LEASE_STREAM | LEASE_SYNC;
        assert_int_equal(sampler_lease(rig.sampler, wanted), wanted);
        TICK_UNTIL(&rig, self(&rig, SELF_STAGES) == 2);
        assert_int_equal(fake_stages_what(FAKE_BPF), STREAM_WHAT_BIOS | STREAM_WHAT_SYNC);
        state_base(rig.state);
        for (unsigned i = 0; i < 50; i++)
                put_bio(UINT32_C(4000) << 20, 10000 * (i + 1));
        TICK_UNTIL(&rig, gained(&rig, SCOPE_BIO, BIO_REQUESTS) == 50.0);
        /* New rows count from 0, and their parts add up. */
        assert_int_equal(gained(&rig, SCOPE_BIO, BIO_BIOS), 50);
        assert_int_equal(gained(&rig, SCOPE_BIO, BIO_TIME), 50 * 1200);
        assert_int_equal(gained(&rig, SCOPE_BIO, BIO_DISK), 50 * 1000);
        const struct state_row *row = state_at(rig.state, SCOPE_BIO, 0);
        assert_true(state_now(row, BIO_LONGEST, &value) && value == 1200);
        double count = 0, delta;
        for (size_t i = 0; i < state_count(rig.state, SCOPE_LATENCY); i++) {
                const struct state_row *octave = state_at(rig.state, SCOPE_LATENCY, i);
                for (int b = LATENCY_B0; octave->key.a == row->key.a && b <= LATENCY_B15; b++)
                        count += state_delta(octave, b, &delta) == DELTA_OK ? delta : 0;
                if (octave->key.a == row->key.a)
                        assert_int_equal(octave->key.b, SCOPE_BIO << 8 | 10); /* 1,024 ns to 2,048 */
        }
        assert_int_equal(count, 50);
        state_base(rig.state);
        tick_now(&rig);
        assert_int_equal(gained(&rig, SCOPE_BIO, BIO_BIOS), 0);
        assert_false(state_now(state_at(rig.state, SCOPE_BIO, 0), BIO_LONGEST, &value));

        /* Latency means nothing alone; the stream takes no rows; events are for who asked. */
        assert_int_equal(sampler_lease(rig.sampler, SCOPE_BIT(SCOPE_LATENCY)), SCOPE_BIT(SCOPE_LATENCY));
        assert_true(sampler_scopes_on(rig.sampler) & SCOPE_BIT(SCOPE_STAGE));
        TICK_UNTIL(&rig, fake_stages_what(FAKE_BPF) == STREAM_WHAT_BIOS);
        sampler_lease(rig.sampler, LEASE_STREAM | LEASE_EVENTS);
        assert_false(sampler_scopes_on(rig.sampler) & SCOPES_TRACED);
        TICK_UNTIL(&rig, fake_stages_what(FAKE_BPF) == (STREAM_WHAT_BIOS | STREAM_WHAT_EVENTS));
        /* Without anything to modify, they ask for nothing. */
        sampler_lease(rig.sampler, LEASE_SYNC | LEASE_EVENTS);
        TICK_UNTIL(&rig, self(&rig, SELF_STAGES) == 1);
        assert_int_equal(fake_stages_what(FAKE_BPF), 0);
        rig_close(&rig);
        stages_close(stages);
}

static void block_tracing_that_fails_is_told(void **unused)
{
        struct rig rig;

        (void)unused;
        struct stages *stages = rig_open_stages(&rig, SCOPE_BIT(SCOPE_NET));
        fake_stages_fail(FAKE_BPF, -ENOMEM);
        fake_stages_fail(FAKE_TRACEFS, -ENOMEM);
        sampler_lease(rig.sampler, LEASE_STREAM);
        TICK_UNTIL(&rig, self(&rig, SELF_STAGES) == 0);
        TICK_UNTIL(&rig, fact_has(&rig, "watopd", " stages=failed: the fake says no"));
        assert_int_equal(sampler_lease(rig.sampler, LEASE_STREAM | SCOPE_BIT(SCOPE_BIO)), 0);
        sampler_lease(rig.sampler, 0);
        TICK_UNTIL(&rig, self(&rig, SELF_STAGES) == 1);
        assert_false(fact_has(&rig, "watopd", "stages="));
        rig_close(&rig);
        stages_close(stages);
}

static void without_a_source_there_are_no_stages(void **unused)
{
        struct rig rig;

        (void)unused;
        assert_int_equal(procfs_open_root(NULL, &rig.procfs), 0);
        struct sampler_options options = { .procfs = rig.procfs, .interval_ns = SECOND, .scopes = SCOPE_BIT(SCOPE_NET) };
        assert_int_equal(sampler_new(&options, &rig.sampler), 0);
        assert_int_equal(state_new(&rig.state), 0);
        assert_false(sampler_scopes(rig.sampler) & SCOPES_TRACED);
        assert_int_equal(sampler_lease(rig.sampler, SCOPES_TRACED | LEASE_STREAM | LEASE_RINGS), LEASE_RINGS);
        assert_false(tick_now(&rig)->scopes_on & SCOPES_TRACED);
        assert_int_equal(self(&rig, SELF_STAGES), 0);
        rig_close(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(blocks_are_traced_while_asked_for),
                cmocka_unit_test(block_tracing_that_fails_is_told),
                cmocka_unit_test(without_a_source_there_are_no_stages),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

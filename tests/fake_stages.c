/*
 * Sources of block tracing without a kernel. See fake_stages.h.
 */
#include "fake_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/bpf/stage_tracer.h"
#include "collectors/tracefs.h"

struct fake_source fake_sources[FAKE_SOURCES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t loose = PTHREAD_COND_INITIALIZER;

void fake_stages_reset(void)
{
        memset(fake_sources, 0, sizeof fake_sources);
}

void fake_stages_put(unsigned source, const struct stage_record *record)
{
        struct fake_source *fake = &fake_sources[source];

        pthread_mutex_lock(&lock);
        if (fake->count == FAKE_RECORDS)
                abort();
        fake->records[fake->count++] = *record;
        pthread_mutex_unlock(&lock);
}

unsigned fake_stages_what(unsigned source)
{
        pthread_mutex_lock(&lock);
        unsigned what = fake_sources[source].what;
        pthread_mutex_unlock(&lock);
        return what;
}

void fake_stages_stick(unsigned source, bool stuck)
{
        pthread_mutex_lock(&lock);
        fake_sources[source].stuck = stuck;
        pthread_cond_broadcast(&loose);
        pthread_mutex_unlock(&lock);
}

void fake_stages_fail_for(unsigned source, int error, unsigned what)
{
        pthread_mutex_lock(&lock);
        fake_sources[source].attach_error = error;
        fake_sources[source].error_what = what;
        pthread_mutex_unlock(&lock);
}

void fake_stages_fail(unsigned source, int error)
{
        fake_stages_fail_for(source, error, 0);
}

void fake_stages_open(unsigned source, const struct stage_record *record)
{
        struct fake_source *fake = &fake_sources[source];

        pthread_mutex_lock(&lock);
        if (fake->opens_count == sizeof fake->open / sizeof *fake->open)
                abort();
        fake->open[fake->opens_count++] = *record;
        pthread_mutex_unlock(&lock);
}

void fake_stages_lose(unsigned source, uint64_t lost)
{
        pthread_mutex_lock(&lock);
        fake_sources[source].lost = lost;
        pthread_mutex_unlock(&lock);
}

static int attach(struct fake_source *fake, unsigned what, char *why, size_t size)
{
        int r = 0;

        pthread_mutex_lock(&lock);
        while (fake->stuck && fake->what != what)
                pthread_cond_wait(&loose, &lock);
        if (what != 0 && fake->attach_error < 0 && (fake->error_what == 0 || what & fake->error_what)) {
                r = fake->attach_error;
                if (fake == &fake_sources[FAKE_BPF])
                        fake->what = 0;
                snprintf(why, size, "the fake says no");
        } else {
                fake->attaches += what != 0 && fake->what == 0;
                fake->what = what;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

static int open_source(struct fake_source *fake, char *why, size_t size)
{
        fake->opens++;
        if (fake->open_error < 0)
                snprintf(why, size, "the fake is not there");
        return fake->open_error;
}

static size_t drain(struct fake_source *fake, struct stage_record *out, size_t room)
{
        pthread_mutex_lock(&lock);
        size_t left = fake->what != 0 ? fake->count - fake->taken : 0, count = left < room ? left : room;
        memcpy(out, &fake->records[fake->taken], count * sizeof *out);
        fake->taken += count;
        pthread_mutex_unlock(&lock);
        return count;
}

static struct fake_source *fake_of(const void *source)
{
        return &fake_sources[source == &fake_sources[FAKE_TRACEFS]];
}

int stage_tracer_open(struct stage_tracer **tracer, char *why, size_t size)
{
        *tracer = (struct stage_tracer *)&fake_sources[FAKE_BPF];
        return open_source(&fake_sources[FAKE_BPF], why, size);
}

void stage_tracer_close(struct stage_tracer *tracer)
{
        if (tracer)
                fake_of(tracer)->closes++;
}

int stage_tracer_attach(struct stage_tracer *tracer, unsigned what, char *why, size_t size)
{
        return attach(fake_of(tracer), what, why, size);
}

unsigned stage_tracer_attached(const struct stage_tracer *tracer)
{
        return fake_stages_what(fake_of(tracer) == &fake_sources[FAKE_TRACEFS]);
}

size_t stage_tracer_drain(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        return drain(fake_of(tracer), out, room);
}

size_t stage_tracer_open_bios(struct stage_tracer *tracer, struct stage_record *out, size_t room)
{
        struct fake_source *fake = fake_of(tracer);

        pthread_mutex_lock(&lock);
        size_t count = fake->what == 0 ? 0 : fake->opens_count < room ? fake->opens_count : room;
        memcpy(out, fake->open, count * sizeof *out);
        pthread_mutex_unlock(&lock);
        return count;
}

void stage_tracer_stats(struct stage_tracer *tracer, struct stage_tracer_stats *stats)
{
        pthread_mutex_lock(&lock);
        *stats = (struct stage_tracer_stats){ .lost = fake_of(tracer)->lost, .unmatched = fake_of(tracer)->unmatched };
        pthread_mutex_unlock(&lock);
}

int tracefs_open(struct tracefs **tracefs, char *why, size_t size)
{
        *tracefs = (struct tracefs *)&fake_sources[FAKE_TRACEFS];
        return open_source(&fake_sources[FAKE_TRACEFS], why, size);
}

void tracefs_close(struct tracefs *tracefs)
{
        if (tracefs)
                fake_of(tracefs)->closes++;
}

int tracefs_attach(struct tracefs *tracefs, unsigned what, char *why, size_t size)
{
        return attach(fake_of(tracefs), what, why, size);
}

unsigned tracefs_attached(const struct tracefs *tracefs)
{
        return fake_stages_what(fake_of(tracefs) == &fake_sources[FAKE_TRACEFS]);
}

size_t tracefs_drain(struct tracefs *tracefs, struct stage_record *out, size_t room)
{
        return drain(fake_of(tracefs), out, room);
}

uint64_t tracefs_lost(const struct tracefs *tracefs)
{
        pthread_mutex_lock(&lock);
        uint64_t lost = fake_of(tracefs)->lost;
        pthread_mutex_unlock(&lock);
        return lost;
}

unsigned tracefs_clean(void)
{
        return 0;
}

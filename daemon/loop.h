#pragma once
/*
 * The loop: when. Ticks at absolute deadlines, sub-samples between them, the heartbeat, signals, the control socket.
 */
#include <stdbool.h>

#include "daemon/config.h"
#include "daemon/serve.h"
#include "sample/ring.h"

struct sampler;
struct stages;
struct tracer;

struct daemon {
        struct config config, base;     /* running; defaults and command line */
        const char *config_path;        /* NULL: no file */
        uint64_t forced_interval_ns;    /* from the command line, 0 none: stronger than the file */
        uint32_t forced_scopes;
        int forced_bpf;                 /* -1 none, 0 off, 1 auto */
        struct procfs *procfs;
        struct ring_writer *ring;
        uint64_t ring_bytes;            /* as made */
        bool ring_is_memfd;
        struct serve *serve;
        struct sampler *sampler;
        struct journal *journal;        /* NULL: no log */
        struct tracer *tracer;          /* loaded; NULL: no exact split here */
        struct stages *stages;          /* open; NULL: no block tracing here, */
        char stages_why[200];           /* for this reason */
        bool captured;                  /* lock-step: ticks only when asked */
        bool orphan_ends;               /* private: end when our reader is gone */
        const char *ring_path;          /* as asked, for status */
        bool late_said;
        uint64_t ticks;                 /* so many and no more, then only serve; 0 = no end */
};

/* The control socket's hooks, for serve_new. They are called in loop_run only. */
void loop_hooks(struct daemon *, struct serve_hooks *);
/* Shows readers that we live; for sampler_options.alive, with the daemon as argument. */
void loop_beat(void *arg);
/* Blocks the signals that the loop takes; private watopds leave the terminal's to their reader. A signalfd, or -errno. */
int loop_signals(bool private_mode);
/* Until a signal, or the reader of a private watopd is gone. 0, or -errno when it cannot go on. */
int loop_run(struct daemon *, int signal_fd);
/* Apply what the command line says over the settings. */
void loop_force(struct daemon *);

#pragma once
/*
 * watopd's settings: defaults, the file /etc/watop/watopd.ini, and the words its values are written in.
 *
 * A line that cannot be used is named with its number and the value that was there before stays, so that a typing error never stops a
 * running daemon. Nothing is printed here: the caller is told line by line.
 */
#include <stdint.h>

#include "collectors/collector.h"

#define CONFIG_INTERVAL_MIN UINT64_C(10000000)       /* 10 ms */
#define CONFIG_INTERVAL_MAX UINT64_C(3600000000000)  /* 1 h */

enum { CONFIG_PATH = 256 };

struct config {
        uint64_t interval_ns;
        uint64_t ring_size;          /* bytes */
        uint32_t scopes;             /* SCOPE_BIT mask sampled without anybody asking */
        enum cmdline_policy cmdline;
        char log[CONFIG_PATH];       /* folder of logs; "" none */
        uint64_t log_file, log_total, log_keep_ns; /* bytes of one file, of all; how long they are kept */
        bool bpf;                    /* BPF may be used: the exact split and block tracing, while somebody asks */
        unsigned mentioned;          /* settings that the file names, well or badly (config_reload) */
};

void config_default(struct config *);

/* Lines that could not be used; `line` is 0 when it is the whole file. */
typedef void config_complain(void *arg, unsigned line, const char *why);
/* Read the file over what *config holds. Returns the number of bad lines, or -errno when it cannot be read (-ENOENT: there is none). */
int config_load(const char *path, struct config *, config_complain *, void *arg);
/* The same while running: what the file no longer names goes back to `base` (defaults and command line), a bad line keeps the old value. */
int config_reload(const char *path, struct config *, const struct config *base, config_complain *, void *arg);

/* Values as text; 0 or -EINVAL (not such a value), -ERANGE (out of bounds). The result is untouched on failure. */
int config_interval(const char *text, uint64_t *ns);     /* 250ms, 1s, 1.5, 1m, 1h; bare = seconds */
int config_size(const char *text, uint64_t *bytes);      /* 64M, 1G, 65536K; bare = bytes */
/* The first word that names no scope, and its length; NULL when all do (then there are none, if config_scopes refuses the text). */
const char *config_bad_scope(const char *text, size_t *length);
int config_scopes(const char *text, uint32_t *scopes);   /* names with commas or blanks; "all"; "default". Without traced ones; not none */
int config_log(const char *text, char *folder);          /* an absolute path of less than CONFIG_PATH bytes; "" */
int config_log_size(const char *text, uint64_t *bytes);  /* 1M to 1024G */
int config_age(const char *text, uint64_t *ns);          /* 12h, 7d, 4w: 1h to 3650d */
int config_cmdline(const char *text, enum cmdline_policy *);
int config_bpf(const char *text, bool *bpf);             /* auto, off */

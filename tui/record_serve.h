#pragma once
/*
 * The recorder's own socket, for `watop mark`: beside the log, else in a folder of its own; and the client's way to it.
 *
 * The protocol is the control socket's (sample/control.h), of which it answers MARK and STATUS. It is a file, so it is reached from
 * another network or PID namespace as long as the file is. Mode 0600, and the peer must be the recorder's user or root.
 */
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/control.h"

enum { RECORD_CLIENTS = 16, RECORD_FDS = RECORD_CLIENTS + 1, RECORD_PATH = 4096 };

struct record_serve {
        int listener, clients[RECORD_CLIENTS];
        char path[RECORD_PATH], folder[RECORD_PATH]; /* folder: made for it, "" none */
        dev_t device;
        ino_t inode;
        /* A mark's clean text: answers 0 with its sequence, or a positive errno. */
        int (*mark)(void *arg, const char *text, uint64_t *sequence);
        void *arg;
};

/* Listen at LOG.mark. 0 or -errno; serve->path says where. */
int record_serve_open(struct record_serve *, const char *log_path);
size_t record_serve_fds(struct record_serve *, struct pollfd fds[RECORD_FDS]);
void record_serve_run(struct record_serve *, const struct pollfd *fds, size_t count);
void record_serve_close(struct record_serve *);

/* Connect to a recorder's socket. any_owner: else the peer must be one whom sample/trust.h believes. 0; -ECONNREFUSED: nobody records
 * there any more;
 * -EPERM; -errno. */
int record_connect(const char *path, int any_owner, struct control **);

#pragma once
/*
 * The copy of what a relay passes on, written to the output file by a thread of its own.
 *
 * A disk that hangs must not hold the command's output back: the relay reads into memory that this lends, says what is in it, and goes
 * on. When nothing was written for KEEP_STUCK_MS although there is no room left, the copy is given up and the relay works on without. One
 * relay is one process, so there is one keeper and no handle.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEEP_PIECE = 1 << 18, KEEP_STUCK_MS = 3000 };

/* Start it. failed: called once, by either thread, with a positive errno when no more is kept. 0 or -errno. */
int keep_start(int fd, void (*failed)(int error));
/* Room for KEEP_PIECE bytes, never NULL; may wait for the disk, see above. */
char *keep_room(void);
/* length bytes at `bytes`, in what keep_room returned last, belong at this offset of the file. They stay readable until the next
 * keep_room. */
void keep_piece(const char *bytes, size_t length, uint64_t offset);
/* Wait until all pieces are in the file, at most so long. False: they are not. */
bool keep_flush(int timeout_ms);

#pragma once
/*
 * Descriptors 0, 1 and 2 belong to the standard streams, whatever the parent left closed.
 *
 * A program started with one of them closed (`2>&-`, some service managers) gets that number from its next open(): what it then prints goes
 * into its own socket or file. So both programs call this first of all.
 */

/* Opens what is closed: standard input reads nothing, standard output fails when written to (so that a lost report is an error), standard
 * error takes everything. 0 or -errno. */
int streams_open(void);

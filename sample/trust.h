#pragma once
/*
 * Whom we believe: whose ring may be read, who may stand at the other end of a control socket.
 *
 * Users are root, the account `watop`, and oneself. Root believes only root and `watop`: another user's file or socket must not
 * be able to fool it. The account is looked up in /etc/passwd itself, never through NSS: a directory server that hangs must not hang
 * the monitor, and a remote account must not become trusted.
 */
#include <stdbool.h>
#include <sys/types.h>

bool trust_user(uid_t uid);
/* The group `watop` of /etc/group: 0, or -ENOENT. */
int trust_group(gid_t *gid);
/* To whom files are given that we make in this folder; (uid_t)-1: to nobody, they stay ours. Root gives up the right to remove them from
 * the folder of user `watop`, and watop's own daemon must be able to take them over. */
struct stat;
uid_t trust_heir(const struct stat *folder);

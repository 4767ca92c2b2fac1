#pragma once
/*
 * The name a person knows a process by: its systemd unit, container or virtual machine.
 *
 * Pure functions over strangers' bytes. They give the name's length written to out (NUL-terminated, cut at size - 1), or 0 when nothing in
 * the input names one. Nothing is guessed: a cgroup that follows no known pattern has no unit.
 *
 *     /system.slice/dragonfly.service                           dragonfly.service
 *     /user.slice/user-0.slice/session-3.scope                  session-3.scope
 *     /system.slice/docker-<64 hex>.scope, /docker/<64 hex>     docker-0123456789ab
 *     .../libpod-<64 hex>.scope/container                       podman-0123456789ab
 *     /kubepods.slice/.../cri-containerd-<64 hex>.scope         containerd-0123456789ab
 *     /kubepods/burstable/pod<uid>/<64 hex>                     kubepods-0123456789ab
 *     /lxc.payload.web/...  /lxc/web/...                        lxc-web
 *     /machine.slice/machine-qemu\x2d3\x2ddb01.scope            db01
 *     qemu-system-x86_64 -name guest=db01,debug-threads=on      db01
 */
#include <stddef.h>

enum { UNIT_NAME_MAX = 256 };

size_t unit_of_cgroup(const char *path, size_t length, char *out, size_t size);
/* cmdline: arguments as /proc/PID/cmdline has them, each ended by NUL (the last one's may be cut). */
size_t unit_of_qemu(const char *cmdline, size_t length, char *out, size_t size);

/*
 * Bios whose end was not seen. An event can be kept from the tracer: a program that is interrupted by an event of its own kind is not run
 * a second time, and while another program attaches to or detaches from the event, some are lost (seen on 6.18). The next bio at that
 * address tells; until then the old one looks stuck, which a tool that says what is stuck must not believe. So of bios that a driver seems
 * to have for long, the kernel is asked whether the device has any.
 */
#include "collectors/bpf/stage_own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool read_text(uint32_t device, const char *file, char *text, size_t size)
{
        char path[80];
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s", device >> 20, device & 0xfffff, file);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = '\0';
        return n > 0;
}

/* Does the kernel count no request of the device's as issued? False where it would not know: not its own requests (mq), not accounted. */
static bool has_none(uint32_t device)
{
        char text[64], path[80], *end;
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/mq", device >> 20, device & 0xfffff);
        if (access(path, F_OK) != 0 || !read_text(device, "queue/iostats", text, sizeof text) || text[0] != '1' ||
                        !read_text(device, "inflight", text, sizeof text))
                return false;
        unsigned long reads = strtoul(text, &end, 10), writes = strtoul(end, &end, 10);
        return *end == '\n' && reads == 0 && writes == 0;
}

size_t stage_mend(struct stage_tracer *tracer, struct stage_open *open, size_t count, uint64_t now)
{
        uint32_t known = 0, none = 0; /* the last device that was asked for, and when: what was issued later has to be asked for anew */
        uint64_t looked = 0;
        size_t left = 0;
        for (size_t i = 0; i < count; i++) {
                struct slot *slot = &tracer->buckets[open[i].slot / SLOT_WAYS].slot[open[i].slot % SLOT_WAYS];
                uint64_t key = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
                uint64_t d = __atomic_load_n(&slot->d, __ATOMIC_RELAXED);
                bool issued = d != 0 && slot->flags & SLOT_QUEUED && !(slot->flags & SLOT_C); /* flush requests are not counted there */
                uint32_t device = slot->device;
                bool old = open[i].q + STAGE_LONG_NS < now && issued && key && __atomic_load_n(&slot->q, __ATOMIC_RELAXED) == open[i].q;
                if (old && (device != known || d >= looked)) {
                        known = device;
                        looked = stage_clock();
                        none = has_none(device);
                }
                if (old && none && __atomic_compare_exchange_n(&slot->key, &key, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                        tracer->mended++;
                else
                        open[left++] = open[i];
        }
        return left;
}

/*
 * Survive a ring that is cut short while it is mapped.
 *
 * A load beyond the end of a truncated file raises SIGBUS. The ring's file belongs to another user, so that must not end us, and a
 * check before each access would be too early by a moment. So the ranges of all mapped rings are kept in a small table; the handler looks
 * the faulting address up, puts zero pages over the whole range and marks it broken. The load then yields 0, the frame check refuses
 * the copy, and the caller finds the mark. Nothing is jumped over. Addresses that are not a ring's go to the handler that was there before.
 *
 * The handler is installed by whoever maps a ring, each time anew if another one has replaced it. A program that installs
 * its own SIGBUS handler later asks ring_fault() first.
 */
#include "sample/ring_layout.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sample/ring.h"

enum { GUARDS = 64 };

static struct guard {
        uintptr_t base;    /* 0: free. Set last, cleared first */
        size_t length;
        int protection;
        bool taken, broken;
} guards[GUARDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before; /* written under the lock, while our handler is not installed */

/* Relaxed is enough: whoever faults on a ring has got it from the thread that put it into the table, so it sees that entry; and a stronger
 * order would dead-lock under ThreadSanitizer, which holds a lock of its own during the release store that faulted. */
bool ring_fault(void *address)
{
        uintptr_t at = (uintptr_t)address;
        for (size_t i = 0; i < GUARDS; i++) {
                struct guard *g = &guards[i];
                uintptr_t base = __atomic_load_n(&g->base, __ATOMIC_RELAXED);
                size_t length = __atomic_load_n(&g->length, __ATOMIC_RELAXED);
                if (base == 0 || at < base || at - base >= length)
                        continue;
                __atomic_store_n(&g->broken, true, __ATOMIC_RELAXED);
                int protection = __atomic_load_n(&g->protection, __ATOMIC_RELAXED);
                /* The bare system call: safe in a handler, also under sanitizers that wrap mmap(). */
                long got = syscall(SYS_mmap, base, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
                return got == (long)base;
        }
        return false;
}

static void on_bus(int signal, siginfo_t *info, void *context)
{
        int saved = errno;
        /* A code above 0 means that the kernel raised it for an access, not that somebody sent it. */
        bool ours = info->si_code > 0 && ring_fault(info->si_addr);
        errno = saved;
        if (ours)
                return;
        if (before.sa_flags & SA_SIGINFO) {
                before.sa_sigaction(signal, info, context);
        } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
                before.sa_handler(signal);
        } else if (info->si_code > 0 || before.sa_handler == SIG_DFL) {
                /* As if we were not here: the access faults again (or the signal is sent again) and takes its default course. */
                struct sigaction plain = { .sa_handler = SIG_DFL };
                sigaction(SIGBUS, &plain, NULL);
                if (info->si_code <= 0)
                        raise(SIGBUS);
        }
}

static int install(void)
{
        struct sigaction now, ours = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
        sigemptyset(&ours.sa_mask);
        if (sigaction(SIGBUS, NULL, &now) < 0)
                return -errno;
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus)
                return 0;
        before = now;
        return sigaction(SIGBUS, &ours, NULL) < 0 ? -errno : 0;
}

int ring_guard_add(void *base, size_t length, int protection)
{
        int slot = -ENFILE;
        pthread_mutex_lock(&lock);
        int r = install();
        for (int i = 0; r == 0 && slot < 0 && i < GUARDS; i++) {
                struct guard *g = &guards[i];
                if (g->taken)
                        continue;
                g->taken = true;
                __atomic_store_n(&g->length, length, __ATOMIC_RELAXED);
                __atomic_store_n(&g->protection, protection, __ATOMIC_RELAXED);
                __atomic_store_n(&g->broken, false, __ATOMIC_RELEASE);
                __atomic_store_n(&g->base, (uintptr_t)base, __ATOMIC_RELEASE);
                slot = i;
        }
        pthread_mutex_unlock(&lock);
        return r < 0 ? r : slot;
}

void ring_guard_remove(int slot)
{
        if (slot < 0)
                return;
        pthread_mutex_lock(&lock);
        __atomic_store_n(&guards[slot].base, (uintptr_t)0, __ATOMIC_RELEASE);
        guards[slot].taken = false;
        pthread_mutex_unlock(&lock);
}

bool ring_guard_broken(int slot)
{
        return slot >= 0 && __atomic_load_n(&guards[slot].broken, __ATOMIC_ACQUIRE);
}

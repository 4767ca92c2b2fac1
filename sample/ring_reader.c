/*
 * The ring's readers.
 *
 * A reader maps the ring read-only, leaves no trace in it, and believes nothing of what it finds: the written-once head is checked at open
 * and kept as a copy, every position that comes later is bounded by it, every frame is copied out, tested for an overrun and checked before
 * anybody sees it. The order of the loads is the other half of the promise in ring_layout.h.
 */
#include "sample/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sample/ring_layout.h"
#include "sample/trust.h"

struct ring {
        int fd, guard;
        bool named;                     /* had a path when it was opened */
        bool same_pid_ns, same_time_ns;
        uid_t owner;
        size_t length;
        void *map;                      /* NULL: the mapping is not ours to end */
        const struct ring_head *shared; /* the words that move */
        const char *data;
        struct ring_head once;          /* checked copy of the written-once part */
        struct schema schema;
        char *block;                    /* what it was read from */
};

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

static int check_head(const struct ring_head *h, size_t length)
{
        if (h->magic != RING_MAGIC || h->layout != RING_LAYOUT)
                return -EPROTO;
        if (h->head_bytes != RING_HEAD_BYTES || h->schema_length == 0 || h->schema_length > RING_SCHEMA_BYTES)
                return -EBADMSG;
        if (h->capacity < RING_MIN_SIZE || h->capacity > RING_MAX_SIZE || h->capacity % 8 != 0 || h->capacity > length - RING_DATA_AT)
                return -EBADMSG;
        if (h->pid == 0 || h->pid > INT_MAX || !memchr(h->version, 0, sizeof h->version))
                return -EBADMSG;
        return 0;
}

/* Head and schema are copied before they are looked at, so that what was checked is what is used. */
static int read_once(struct ring *r)
{
        memcpy(&r->once, r->shared, sizeof r->once);
        int result = check_head(&r->once, r->length);
        if (result < 0)
                return result;
        char *block = malloc(r->once.schema_length);
        if (!block)
                return -ENOMEM;
        memcpy(block, (const char *)r->shared + RING_HEAD_BYTES, r->once.schema_length);
        result = schema_read(&r->schema, block, r->once.schema_length);
        r->block = block;
        return result < 0 ? result : ring_guard_broken(r->guard) ? -EBADMSG : 0;
}

static struct ring *ring_new(void)
{
        struct ring *r = calloc(1, sizeof *r);
        if (r)
                r->fd = r->guard = -1;
        return r;
}

static int ring_begin(struct ring *r, const void *map, struct ring **ring)
{
        r->shared = map;
        r->data = (const char *)map + RING_DATA_AT;
        int result = read_once(r);
        if (result < 0) {
                ring_close(r);
                return result;
        }
        r->same_pid_ns = r->once.pid_ns != 0 && r->once.pid_ns == ring_namespace("pid");
        r->same_time_ns = r->once.time_ns == ring_namespace("time"); /* both 0 before kernel 5.6 */
        *ring = r;
        return 0;
}

int ring_open_map(void *map, size_t length, struct ring **ring)
{
        struct ring *r = ring_new();
        if (!r)
                return -ENOMEM;
        r->length = length;
        return ring_begin(r, map, ring);
}

int ring_open_fd(int fd, struct ring **ring)
{
        struct stat st;
        struct ring *r = fd < 0 ? NULL : ring_new();
        if (!r) {
                if (fd >= 0)
                        close(fd);
                return fd < 0 ? -EBADF : -ENOMEM;
        }
        r->fd = fd;
        int result = fstat(fd, &st) < 0 ? -errno : 0;
        if (result == 0 && (!S_ISREG(st.st_mode) || st.st_size < RING_DATA_AT))
                result = -EPROTO;
        if (result < 0)
                goto failed;
        /* One that claims more than a ring can be is mapped as far as a ring can reach: check_head refuses the rest. */
        uint64_t most = RING_DATA_AT + RING_MAX_SIZE;
        r->length = (uint64_t)st.st_size < most ? (size_t)st.st_size : (size_t)most;
        r->named = st.st_nlink > 0;
        r->owner = st.st_uid;
        void *map = mmap(NULL, r->length, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) {
                result = -errno;
                goto failed;
        }
        r->map = map;
        r->guard = ring_guard_add(map, r->length, PROT_READ);
        if (r->guard < 0) {
                result = r->guard;
                goto failed;
        }
        return ring_begin(r, map, ring);
failed:
        ring_close(r);
        return result;
}

/* A folder that others may write to could be made to hold anything; a sticky one only gives away files of their own, and
 * whose the file is gets checked. */
static int check_folder(int fd)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!trust_user(st.st_uid) || ((st.st_mode & 022) && !(st.st_mode & S_ISVTX)))
                return -EPERM;
        return 0;
}

static int check_file(const struct stat *st)
{
        if (S_ISLNK(st->st_mode))
                return -ELOOP;
        if (!S_ISREG(st->st_mode))
                return -EPROTO;
        return trust_user(st->st_uid) ? 0 : -EPERM;
}

int ring_open(const char *path, struct ring **ring)
{
        char folder[PATH_MAX];
        struct stat st;
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        if (strlen(path) >= sizeof folder)
                return -ENAMETOOLONG;
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
        int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        int fd = -1;
        /* Looked at before it is opened: opening a device or a pipe can have effects. And again afterwards. */
        int result = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : check_folder(dir);
        if (result == 0)
                result = check_file(&st);
        if (result == 0) {
                fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                result = fd < 0 || fstat(fd, &st) < 0 ? -errno : check_file(&st);
        }
        close(dir);
        if (result < 0) {
                if (fd >= 0)
                        close(fd);
                return result;
        }
        return ring_open_fd(fd, ring);
}

void ring_close(struct ring *r)
{
        if (!r)
                return;
        ring_guard_remove(r->guard);
        if (r->map)
                munmap(r->map, r->length);
        if (r->fd >= 0)
                close(r->fd);
        free(r->block);
        free(r);
}

/* ---- life --------------------------------------------------------------------------------------------------------------------- */

static uint32_t state_now_of(const struct ring *r)
{
        return __atomic_load_n(&r->shared->state, __ATOMIC_ACQUIRE);
}

/* False when the writer no longer holds its lock, or its file lost its name. A kernel that cannot tell leaves it to the heartbeat. */
static bool holds_file(const struct ring *r)
{
        struct stat st;
        struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
        if (r->fd < 0)
                return true;
        if (fcntl(r->fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_UNLCK)
                return false;
        return !r->named || (fstat(r->fd, &st) == 0 && st.st_nlink > 0);
}

bool ring_held(struct ring *r)
{
        return state_now_of(r) == RING_LIVE && !ring_guard_broken(r->guard) && holds_file(r);
}

bool ring_alive(struct ring *r, uint64_t mono_now_ns)
{
        if (!ring_held(r))
                return false;
        /* Time namespaces shift CLOCK_MONOTONIC: across them only the lock can be compared. */
        if (!r->same_time_ns)
                return true;
        uint64_t beat = ring_get(&r->shared->heartbeat_ns);
        uint64_t distance = beat > mono_now_ns ? beat - mono_now_ns : mono_now_ns - beat;
        return distance < RING_ALIVE_NS;
}

int ring_wait(struct ring *r, uint64_t sequence, uint64_t timeout_ns)
{
        struct timespec now, until, left;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t end = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
        end = timeout_ns > UINT64_C(1) << 62 ? UINT64_C(1) << 62 : end + timeout_ns;
        until = (struct timespec){ .tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000) };
        for (;;) {
                uint32_t word = __atomic_load_n(&r->shared->publish, __ATOMIC_ACQUIRE);
                if (ring_get(&r->shared->sequence) > sequence || state_now_of(r) == RING_ENDED)
                        return 1;
                clock_gettime(CLOCK_MONOTONIC, &now);
                left.tv_sec = until.tv_sec - now.tv_sec;
                left.tv_nsec = until.tv_nsec - now.tv_nsec;
                if (left.tv_nsec < 0) {
                        left.tv_sec--;
                        left.tv_nsec += 1000000000;
                }
                if (left.tv_sec < 0 || (left.tv_sec == 0 && left.tv_nsec == 0))
                        return 0;
                if (syscall(SYS_futex, &r->shared->publish, FUTEX_WAIT, word, &left, NULL, 0) == 0 || errno == EAGAIN)
                        continue;
                if (errno == EINTR)
                        return -EINTR;
                if (errno != ETIMEDOUT) /* EFAULT: the file was cut short. The caller finds out; we only must not spin */
                        return 0;
        }
}

/* ---- copying ------------------------------------------------------------------------------------------------------------------ */

uint64_t ring_head(struct ring *r)
{
        return ring_get(&r->shared->head);
}

uint64_t ring_tail(struct ring *r)
{
        return ring_get(&r->shared->tail);
}

uint64_t ring_full(struct ring *r, bool previous)
{
        uint64_t at = ring_get(previous ? &r->shared->full_before : &r->shared->full);
        return at < ring_tail(r) || at >= ring_head(r) ? RING_NOWHERE : at;
}

static void get_words(void *to, const char *from, uint64_t length)
{
        const uint64_t *words = (const uint64_t *)(const void *)from;
        char *at = to;
        for (uint64_t n = length / 8; n > 0; n--, at += 8) {
                uint64_t word = ring_get(words++);
                memcpy(at, &word, 8);
        }
}

/* Copy `length` bytes (a multiple of 8, at most the capacity) from a position; they may lie in two pieces. */
static void copy_out(const struct ring *r, uint64_t position, void *to, uint64_t length)
{
        uint64_t at = position % r->once.capacity, first = r->once.capacity - at;
        if (first > length)
                first = length;
        get_words(to, r->data + at, first); /* pair 5 of the promise */
        get_words((char *)to + first, r->data, length - first);
}

/* Bounds of the frame at a position, by the words that move as they are now. 0: *available bytes lie there; else the outcome. */
static int bounds(const struct ring *r, uint64_t position, uint64_t *available)
{
        if (ring_guard_broken(r->guard))
                return RING_GONE;
        uint64_t head = ring_get(&r->shared->head); /* pair 4 */
        if (position == head)
                return RING_END;
        if (position < ring_get(&r->shared->tail))
                return RING_OVERRUN;
        if (position > head || position % 8 != 0 || head - position > r->once.capacity)
                return -EBADMSG;
        *available = head - position;
        return 0;
}

/* After copying: was it worth anything? Pair 6. */
static int copied(const struct ring *r, uint64_t position)
{
        if (ring_get(&r->shared->tail) > position)
                return RING_OVERRUN;
        return ring_guard_broken(r->guard) ? RING_GONE : 0;
}

int ring_peek(struct ring *r, uint64_t position, struct frame_head *frame)
{
        struct frame_head h;
        uint64_t available;
        int result = bounds(r, position, &available);
        if (result != 0)
                return result;
        if (available < sizeof h)
                return -EBADMSG;
        copy_out(r, position, &h, sizeof h);
        result = copied(r, position);
        if (result != 0)
                return result;
        if (h.magic != FRAME_MAGIC || h.length < sizeof h || h.length > FRAME_MAX || ring_round(h.length) > available)
                return -EBADMSG;
        *frame = h;
        return 0;
}

int ring_copy(struct ring *r, uint64_t position, void **buffer, size_t *capacity, size_t *length)
{
        struct frame_head h;
        int result = ring_peek(r, position, &h);
        if (result != 0)
                return result;
        size_t need = (size_t)ring_round(h.length);
        if (need > *capacity) {
                size_t more = need + need / 2;
                void *grown = realloc(*buffer, more);
                if (!grown)
                        return -ENOMEM;
                *buffer = grown;
                *capacity = more;
        }
        copy_out(r, position, *buffer, need);
        result = copied(r, position);
        if (result != 0)
                return result;
        /* The second copy of the head may differ from the first when the writer lies. */
        if (((struct frame_head *)*buffer)->length != h.length || frame_check(*buffer, h.length) != 0)
                return -EBADMSG;
        *length = h.length;
        return 0;
}

/* ---- what a ring says of itself ----------------------------------------------------------------------------------------------- */

int ring_info(struct ring *r, struct ring_info *info)
{
        struct frame_head first;
        struct ring_info i = {
                .pid = (pid_t)r->once.pid, .owner = r->owner, .start_ns = r->once.start_ns,
                .pid_ns = r->once.pid_ns, .user_ns = r->once.user_ns,
                .tick_ns = ring_get(&r->shared->tick_ns), .heartbeat_ns = ring_get(&r->shared->heartbeat_ns),
                .same_pid_ns = r->same_pid_ns, .size = r->once.capacity, .sequence = ring_get(&r->shared->sequence),
        };
        memcpy(i.boot_id, r->once.boot_id, sizeof i.boot_id);
        memcpy(i.version, r->once.version, sizeof i.version);
        /* The oldest frame may be overwritten while we look: then the next one is the oldest. */
        for (int tries = 0; tries < 100; tries++) {
                int result = ring_peek(r, ring_tail(r), &first);
                if (result == 0) {
                        i.first_sequence = first.sequence;
                        i.first_real_ns = first.real_ns;
                }
                if (result != RING_OVERRUN)
                        break;
        }
        if (ring_guard_broken(r->guard))
                return -EBADMSG;
        *info = i;
        return 0;
}

const struct schema *ring_schema(const struct ring *r)
{
        return &r->schema;
}

int ring_schema_block(const struct ring *r, char **block, size_t *length)
{
        *block = malloc(r->once.schema_length);
        if (!*block)
                return -ENOMEM;
        memcpy(*block, r->block, r->once.schema_length);
        *length = r->once.schema_length;
        return 0;
}

/*
 * A slow file server through /dev/fuse: waits that are real and on no block device. One file, PATH/file, full of zeros.
 *
 *     lab_fuse_slow --mount DIR [--delay MS] [--size MIB] [--stop N] [--keep 1]
 *
 * Each read is answered after --delay (default 20); after N reads none is answered any more (0 = at once, -1 = never stop). A file opened
 * with O_DIRECT is not cached. With --keep the file can be written, in pieces of up to 128 KiB, and made safe, and reads, writes and fsyncs
 * take --delay each, one after the other: below a loop device, a disk of known slowness. Needs root. At the end the mount is taken away and
 * whoever waits gets an error.
 */
#include "lab_uring.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

enum { FILE_NODE = 2, BUFFER = 1 << 20 };

static int device;
static long delay_ms, stop_after, reads;
static uint64_t file_size;
static char *kept; /* contents, with --keep */
static const char *mount_point;

static void end(int signal)
{
        (void)signal;
        umount2(mount_point, MNT_DETACH);
        _exit(0); /* closing the device ends the connection */
}

static void *watch_input(void *arg)
{
        lab_wait_for_end();
        end(0);
        return arg;
}

static void answer(uint64_t unique, int error, const void *data, size_t size)
{
        static char out[sizeof(struct fuse_out_header) + BUFFER];
        struct fuse_out_header head = {.len = (uint32_t)(sizeof head + size), .error = -error, .unique = unique};
        memcpy(out, &head, sizeof head);
        if (size)
                memcpy(out + sizeof head, data, size);
        if (write(device, out, sizeof head + size) < 0 && errno != ENOENT)
                lab_die("write to /dev/fuse");
}

static struct fuse_attr attributes(uint64_t node)
{
        bool file = node == FILE_NODE;
        return (struct fuse_attr){
                .ino = node, .size = file ? file_size : 0, .blocks = file ? file_size / 512 : 0,
                .mode = file ? S_IFREG | 0644u : S_IFDIR | 0755u, .nlink = 1, .blksize = 4096,
        };
}

static void do_init(const struct fuse_in_header *in, const struct fuse_init_in *arg)
{
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_readahead = 4096,
                .max_write = 4096,
                .max_background = 64, .congestion_threshold = 48, .time_gran = 1, .flags = arg->flags & FUSE_ASYNC_READ};
        if (kept) {
                out.max_write = 32 * 4096; /* what the kernel sends at most unless more is agreed upon */
                out.flags |= arg->flags & FUSE_BIG_WRITES;
        }
        answer(in->unique, 0, &out, sizeof out);
}

static void do_lookup(const struct fuse_in_header *in, const char *name)
{
        struct fuse_entry_out out = {.nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 3600, .attr = attributes(FILE_NODE)};
        if (strcmp(name, "file") == 0)
                answer(in->unique, 0, &out, sizeof out);
        else
                answer(in->unique, ENOENT, NULL, 0);
}

static void wait_delay(void)
{
        if (delay_ms)
                nanosleep(&(struct timespec){.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000}, NULL);
}

static void do_read(const struct fuse_in_header *in, const struct fuse_read_in *arg)
{
        static const char zeros[BUFFER];
        uint64_t size = arg->offset >= file_size ? 0 : file_size - arg->offset;
        if (stop_after >= 0 && reads++ >= stop_after)
                return;
        wait_delay();
        if (size > arg->size)
                size = arg->size;
        answer(in->unique, 0, kept ? kept + (size ? arg->offset : 0) : zeros, size > BUFFER ? BUFFER : (size_t)size);
}

static void do_write(const struct fuse_in_header *in, const struct fuse_write_in *arg)
{
        struct fuse_write_out out = {.size = arg->size};

        if (arg->size > in->len - sizeof *in - sizeof *arg || arg->offset > file_size || arg->size > file_size - arg->offset) {
                answer(in->unique, EINVAL, NULL, 0);
                return;
        }
        memcpy(kept + arg->offset, arg + 1, arg->size);
        wait_delay();
        answer(in->unique, 0, &out, sizeof out);
}

static void do_fsync(const struct fuse_in_header *in)
{
        wait_delay();
        answer(in->unique, 0, NULL, 0);
}

static void serve(const struct fuse_in_header *in, const void *arg)
{
        struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        const struct fuse_open_in *open_in = arg;
        struct fuse_open_out opened = {.fh = 1};
        switch (in->opcode) {
        case FUSE_INIT: do_init(in, arg); break;
        case FUSE_LOOKUP: do_lookup(in, arg); break;
        case FUSE_GETATTR: answer(in->unique, 0, &attr, sizeof attr); break;
        case FUSE_OPEN:
                opened.open_flags = FOPEN_KEEP_CACHE | (open_in->flags & O_DIRECT
                        ? FOPEN_DIRECT_IO : 0); /* without KEEP_CACHE open() itself waits */
                answer(in->unique, 0, &opened, sizeof opened);
                break;
        case FUSE_OPENDIR: answer(in->unique, 0, &opened, sizeof opened); break;
        case FUSE_READDIR: answer(in->unique, 0, NULL, 0); break;
        case FUSE_READ: do_read(in, arg); break;
        case FUSE_WRITE:
                if (kept)
                        do_write(in, arg);
                else
                        answer(in->unique, ENOSYS, NULL, 0);
                break;
        case FUSE_FSYNC:
                if (kept)
                        do_fsync(in);
                else
                        answer(in->unique, ENOSYS, NULL, 0);
                break;
        case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break; /* no answer is expected */
        case FUSE_RELEASE: case FUSE_RELEASEDIR: case FUSE_FLUSH: case FUSE_ACCESS: case FUSE_DESTROY: answer(in->unique, 0, NULL,
                0); break;
        default: answer(in->unique, ENOSYS, NULL, 0); break;
        }
}

int main(int argc, char **argv)
{
        static _Alignas(8) char in[BUFFER + 4096];
        char options[64];
        pthread_t thread;
        mount_point = lab_option(argc, argv, "--mount", NULL);
        delay_ms = atol(lab_option(argc, argv, "--delay", "20"));
        stop_after = atol(lab_option(argc, argv, "--stop", "-1"));
        file_size = (uint64_t)atol(lab_option(argc, argv, "--size", "1024")) << 20;
        if (!mount_point)
                return 2;
        if (atol(lab_option(argc, argv, "--keep", "0"))) {
                kept = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (kept == MAP_FAILED)
                        return 77;
        }
        device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (device < 0)
                return 77;
        snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
        if (mount("lab", mount_point, "fuse", MS_NOSUID | MS_NODEV, options) != 0)
                return 77;
        struct sigaction action = {.sa_handler = end};
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        pthread_create(&thread, NULL, watch_input, NULL);
        lab_ready();
        for (;;) {
                ssize_t n = read(device, in, sizeof in);
                if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
                        continue;
                if (n < (ssize_t)sizeof(struct fuse_in_header))
                        break;
                serve((const void *)in, in + sizeof(struct fuse_in_header));
        }
        end(0);
}

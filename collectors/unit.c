/*
 * Names from cgroup paths and QEMU's command line. See unit.h for the patterns.
 *
 * A path is walked component by component from the root. A container's name wins over units inside it (seen from the host, the container
 * is what a person started), and the innermost container wins over those around it; without a container the deepest unit wins.
 */
#include "collectors/unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ID_LENGTH = 64, ID_SHOWN = 12 };

struct word {
        const char *at;
        size_t length;
};

static bool starts(struct word w, const char *text)
{
        size_t n = strlen(text);
        return w.length > n && memcmp(w.at, text, n) == 0;
}

static bool ends(struct word w, const char *text)
{
        size_t n = strlen(text);
        return w.length > n && memcmp(w.at + w.length - n, text, n) == 0;
}

static bool is(struct word w, const char *text)
{
        return w.length == strlen(text) && memcmp(w.at, text, w.length) == 0;
}

static struct word cut(struct word w, size_t front, size_t back)
{
        return (struct word){ w.at + front, w.length - front - back };
}

static bool is_id(struct word w)
{
        if (w.length != ID_LENGTH)
                return false;
        for (size_t i = 0; i < w.length; i++)
                if (!((w.at[i] >= '0' && w.at[i] <= '9') || (w.at[i] >= 'a' && w.at[i] <= 'f')))
                        return false;
        return true;
}

static int hex(char c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* prefix + word, systemd's \xHH undone. Returns the length. */
static size_t put(char *out, size_t size, const char *prefix, struct word w)
{
        size_t n = 0;

        for (; *prefix && n + 1 < size; prefix++)
                out[n++] = *prefix;
        for (size_t i = 0; i < w.length && n + 1 < size; i++) {
                if (w.length - i >= 4 && w.at[i] == '\\' && w.at[i + 1] == 'x' && hex(w.at[i + 2]) >= 0 && hex(w.at[i + 3]) >= 0) {
                        int value = hex(w.at[i + 2]) * 16 + hex(w.at[i + 3]);
                        out[n++] = (char)value;
                        i += 3;
                } else {
                        out[n++] = w.at[i];
                }
        }
        if (size)
                out[n] = '\0';
        return n;
}

/* <runtime>-<id>, with or without .scope. */
static size_t runtime_container(struct word w, char *out, size_t size)
{
        static const struct { const char *head, *shown; } runtimes[] = {
                { "docker-", "docker-" }, { "libpod-", "podman-" }, { "cri-containerd-", "containerd-" }, { "crio-", "crio-" },
                { "nerdctl-", "containerd-" }, { "cri-o-", "crio-" },
        };

        if (ends(w, ".scope"))
                w = cut(w, 0, strlen(".scope"));
        for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
                if (!starts(w, runtimes[i].head))
                        continue;
                struct word id = cut(w, strlen(runtimes[i].head), 0);
                if (is_id(id))
                        return put(out, size, runtimes[i].shown, (struct word){ id.at, ID_SHOWN });
        }
        return 0;
}

/* machine-NAME.scope of systemd-machined; libvirt's NAME is qemu-NUMBER-GUEST. */
static size_t machine(struct word w, char *out, size_t size)
{
        char name[UNIT_NAME_MAX];

        if (!starts(w, "machine-") || !ends(w, ".scope") || w.length <= strlen("machine-") + strlen(".scope"))
                return 0;
        size_t n = put(name, sizeof name, "", cut(w, strlen("machine-"), strlen(".scope")));
        struct word guest = { name, n };
        if (starts(guest, "qemu-")) {
                size_t at = strlen("qemu-");
                while (at < n && name[at] >= '0' && name[at] <= '9')
                        at++;
                if (at > strlen("qemu-") && at + 1 < n && name[at] == '-')
                        guest = cut(guest, at + 1, 0);
        }
        size_t length = guest.length < size ? guest.length : size - 1;
        memcpy(out, guest.at, length); /* unescaped once already */
        out[length] = '\0';
        return length;
}

static size_t container(struct word w, struct word parent, bool kubepods, char *out, size_t size)
{
        size_t n = runtime_container(w, out, size);

        if (n == 0)
                n = machine(w, out, size);
        if (n == 0 && starts(w, "lxc.payload."))
                n = put(out, size, "lxc-", cut(w, strlen("lxc.payload."), 0));
        if (n == 0 && starts(w, "lxc.monitor."))
                n = put(out, size, "lxc-", cut(w, strlen("lxc.monitor."), 0));
        if (n == 0 && is(parent, "lxc"))
                n = put(out, size, "lxc-", w);
        if (n == 0 && is_id(w))
                n = put(out, size, is(parent, "docker") ? "docker-" : kubepods ? "kubepods-" : "container-", (struct word){ w.at,
                        ID_SHOWN });
        return n;
}

size_t unit_of_cgroup(const char *path, size_t length, char *out, size_t size)
{
        const char *end = path + length;
        struct word parent = { path, 0 }, unit = { path, 0 };
        bool kubepods = false;
        size_t found = 0;

        if (size == 0)
                return 0;
        out[0] = '\0';
        for (const char *at = path; at < end;) {
                const char *slash = memchr(at, '/', (size_t)(end - at));
                struct word w = { at, (size_t)((slash ? slash : end) - at) };
                at = slash ? slash + 1 : end;
                if (w.length == 0)
                        continue;
                char name[UNIT_NAME_MAX];
                size_t n = container(w, parent, kubepods, name, sizeof name < size ? sizeof name : size);
                if (n > 0) {
                        found = n;
                        memcpy(out, name, n + 1);
                }
                if (ends(w, ".service") || ends(w, ".scope"))
                        unit = w;
                kubepods = kubepods || is(w, "kubepods") || starts(w, "kubepods");
                parent = w;
        }
        if (found > 0)
                return found;
        return unit.length ? put(out, size, "", unit) : 0;
}

/* The value of -name: options parted by commas, a doubled comma stands for one; the first may leave out its key "guest=". */
static size_t guest_name(struct word value, char *out, size_t size)
{
        bool first = true;

        for (size_t i = 0; i < value.length; first = false) {
                struct word rest = { value.at + i, value.length - i };
                const char *equal = memchr(rest.at, '=', rest.length), *comma = memchr(rest.at, ',', rest.length);
                bool bare = !equal || (comma && comma < equal);
                bool wanted = starts(rest, "guest=") || (first && bare);
                if (!bare)
                        i += (size_t)(equal - rest.at) + 1;
                size_t n = 0;
                for (; i < value.length; i++) {
                        if (value.at[i] == ',') {
                                if (i + 1 >= value.length || value.at[i + 1] != ',')
                                        break;
                                i++;
                        }
                        if (wanted && n + 1 < size)
                                out[n++] = value.at[i];
                }
                i++; /* the comma */
                if (wanted && n > 0) {
                        out[n] = '\0';
                        return n;
                }
        }
        return 0;
}

size_t unit_of_qemu(const char *cmdline, size_t length, char *out, size_t size)
{
        const char *end = cmdline + length;
        bool first = true, next_is_name = false;

        if (size == 0)
                return 0;
        out[0] = '\0';
        for (const char *at = cmdline; at < end;) {
                const char *nul = memchr(at, '\0', (size_t)(end - at));
                struct word w = { at, (size_t)((nul ? nul : end) - at) };
                at = nul ? nul + 1 : end;
                if (first) {
                        const char *slash = w.length ? memrchr(w.at, '/', w.length) : NULL;
                        struct word base = slash ? cut(w, (size_t)(slash - w.at) + 1, 0) : w;
                        if (!starts(base, "qemu-system-") && !is(base, "qemu-kvm") && !is(base, "kvm") && !is(base, "qemu"))
                                return 0;
                        first = false;
                } else if (next_is_name) {
                        return guest_name(w, out, size);
                } else {
                        next_is_name = is(w, "-name") || is(w, "--name");
                }
        }
        return 0;
}

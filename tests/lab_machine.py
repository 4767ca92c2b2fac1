"""
The machine's side of the lab: programs with a known behaviour, a disk to wait for, terminals, and what the kernel itself counted.

Everything that is started here is ended here, whatever happens to the test: programs end when their standard input does (the kernel
closes it even after kill -9 of the test), mounts and loop devices are kept in a stack. Nobody else's process is ever touched, and of other
processes only stat is read: the command line of a stuck one would hang the reader.
"""
import contextlib
import ctypes
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

BIN = os.path.abspath(sys.argv[1])
WATOP, WATOPD = os.path.join(BIN, "watop"), os.path.join(BIN, "watopd")
ROOT = os.geteuid() == 0
TICK = os.sysconf("SC_CLK_TCK")
ENV = {k: v for k, v in os.environ.items() if not k.startswith("WATOP") and k not in ("TMUX", "NO_COLOR", "LINES", "COLUMNS")}
ENV.update(LC_ALL="C.UTF-8")
FIELDS = ("us", "ni", "sy", "id", "wa", "hi", "si", "st")
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)
cleanup = contextlib.ExitStack()
ours, known = set(), set()  # that live; that were ever started
our_devices = set()  # loop devices of a case, as "loop0": their kernel workers are no strangers


class Skip(Exception):
    pass


class Disturbed(Exception):
    """Others left nothing to measure: try again."""


def need_root():
    if not ROOT:
        raise Skip("needs root")


def cores():
    """Numbers of the on-line cores."""
    with open("/proc/stat") as file:
        return [int(line.split()[0][3:]) for line in file if line.startswith("cpu") and line[3].isdigit()]


def core_list():
    return ",".join(str(core) for core in cores())


# ---- programs ------------------------------------------------------------------------------------------------------------------

def end(process, patience=5):
    """Ask, then insist. A task that waits for a dead server may outlive even that: then its mount goes first (see the stack)."""
    asked = bool(process.stdin)
    if asked and not process.stdin.closed:
        process.stdin.close()
    for how in ((None,) if asked else ()) + (signal.SIGTERM, signal.SIGKILL):
        try:
            if how is not None:
                process.send_signal(how)
            process.wait(patience if how == signal.SIGKILL else patience / 2)
            break
        except subprocess.TimeoutExpired:
            continue
    if process.stdout and process.poll() is not None:
        process.stdout.close()
    ours.discard(process.pid)


def register(process):
    ours.add(process.pid)
    known.add(process.pid)


@contextlib.contextmanager
def lab(name, *options, patience=20):
    """A program of tests/lab, from "ready" to its end. What this kernel cannot do is a Skip."""
    path = os.path.join(BIN, "tests", "lab_" + name)
    if not os.path.exists(path):
        raise Skip("no lab_" + name)
    process = subprocess.Popen([path, *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    register(process)
    try:
        line = read_line(process.stdout, patience)
        if line != b"ready\n":
            end(process)
            why = process.stderr.read().decode(errors="replace").strip()
            if process.returncode == 77:
                raise Skip(f"lab_{name}: {why or 'this kernel cannot'}")
            raise RuntimeError(f"lab_{name} {options}: exit {process.returncode} {why}")
        yield process
        if process.poll() == 77:
            raise Skip(f"lab_{name}: this kernel cannot")
    finally:
        end(process)
        process.stderr.close()


def die_with_us():
    """In the child: end when the test does, kill -9 included."""
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def read_line(stream, patience):
    ready, _, _ = select.select([stream], [], [], patience)
    return stream.readline() if ready else b""


def start(*command, **more):
    """watop (or what runs it) in the background; its output is read by reports() or words()."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV,
                               preexec_fn=die_with_us, **more)
    register(process)
    return process


def output(process, seconds=30):
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"{process.args[:3]} did not end within {seconds} s")
    finally:
        ours.discard(process.pid)
    return out.decode(errors="replace"), errors.decode(errors="replace")


def as_ordinary_user():
    """What start() needs to run watop as a user without any rights."""
    need_root()
    if not shutil.which("setpriv"):
        raise Skip("no setpriv")
    place = folder()
    os.chmod(place, 0o755)
    for program in (WATOP, WATOPD):  # where another user may run them; watop finds watopd beside itself
        shutil.copy(program, place)
    return dict(before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), binary=os.path.join(place, "watop"))


def watop(verb, *options, before=(), binary=None):
    return start(*before, binary or WATOP, verb, "--private", *map(str, options))


def reports(process, seconds=30):
    """The JSON lines of a watop, and what it said on standard error."""
    out, errors = output(process, seconds)
    if process.returncode != 0:
        raise RuntimeError(f"watop ended with {process.returncode}: {errors.strip()[:300]}")
    return [json.loads(line) for line in out.splitlines() if line.strip()], errors


def end_programs():
    for pid in list(ours):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# ---- what the kernel counted ------------------------------------------------------------------------------------------------

def counters():
    with open("/proc/stat") as file:
        rows = {int(l.split()[0][3:]): [int(n) for n in l.split()[1:9]] for l in file if l.startswith("cpu") and l[3].isdigit()}
    busy = 0
    with open("/proc/diskstats") as file:
        for line in file:
            cells = line.split()
            if not cells[2].startswith(("loop", "ram", "zram")) and os.path.exists("/sys/block/" + cells[2].replace("/", "!")):
                busy = max(busy, 0) + int(cells[12])
    return time.monotonic(), rows, busy


class Span:
    """What /proc/stat and /proc/diskstats say between begin and close: % of each core, ms of device work a second."""

    def __init__(self):
        self.first = counters()

    def close(self):
        (t0, before, disk0), (t1, after, disk1) = self.first, counters()
        self.seconds, self.core = t1 - t0, {}
        for core in after:
            delta = [max(0, b - a) for a, b in zip(before.get(core, after[core]), after[core])]
            total = sum(delta) or 1
            row = {name: 100 * value / total for name, value in zip(FIELDS, delta)}
            row["free"] = row["wa"] + row["id"]  # not busy: all that wa could be
            self.core[core] = row
        self.disk = (disk1 - disk0) / 10 / self.seconds
        return self

    def text(self):
        cells = [f"cpu{core} busy {100 - row['free']:.0f} wa {row['wa']:.1f}" for core, row in self.core.items()]
        return "; ".join([*cells, f"devices {self.disk:.1f}% util"])


def strangers():
    """What somebody else started: waiters (lab programs of another run, fio), and processes in D state: {pid: (name, in D)}."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", errors="replace") as file:
                    text = file.read()
                comm, (state, parent) = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()[:2]
                if re.split("[-+]", comm)[-1] in our_devices and comm.startswith("kworker/"):
                    continue
                if int(parent) in known:  # a child of what we started
                    known.add(int(name))
                    continue
                waiter = comm.startswith(("lab_", "fio", "stress-ng")) and comm != "lab_spawn"
                if waiter or state == "D":
                    found[int(name)] = (comm, not waiter)
    return found


def reactors():
    """Cores on which somebody else's thread sleeps in a completion queue now."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            with contextlib.suppress(OSError, IndexError):
                for tid in os.listdir(f"/proc/{name}/task"):
                    with open(f"/proc/{name}/task/{tid}/wchan") as file:
                        if not file.read().startswith(("io_cqring", "__io_cqring")):
                            continue
                    with open(f"/proc/{name}/task/{tid}/stat", errors="replace") as file:
                        found.add(int(file.read().rsplit(")", 1)[1].split()[36]))
    return found


class Watch:
    """
    Strangers seen at any time during a case: looks four times a second, so that one that comes and goes is not taken for a fault of ours.
    D state counts when it lasts for half a second: disk waits of others are short.
    """

    def __enter__(self):
        self.seen, self.looks, self.over = {}, {}, threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()
        return self

    def look(self):
        while True:
            now = strangers()
            self.looks = {pid: self.looks.get(pid, 0) + 1 for pid in now}
            self.seen.update({pid: comm for pid, (comm, blocked) in now.items() if not blocked or self.looks[pid] > 2})
            if self.over.wait(0.25):
                return

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def names(self):
        return sorted(f"{comm}[{pid}]" for pid, comm in self.seen.items() if pid not in known)


class Quiet:
    """Waits for a machine that leaves something to measure; the whole test may wait so many seconds and no more."""

    def __init__(self, seconds):
        self.left = seconds

    def wait(self):
        began = time.monotonic()
        while True:
            span = Span()
            time.sleep(0.3)
            span.close()
            spent = time.monotonic() - began
            calm = span.disk < 10 and all(row["free"] > 50 for row in span.core.values())
            if (calm and all(blocked for _, blocked in strangers().values())) or spent > min(self.left, 8):
                break
        self.left -= max(0, time.monotonic() - began - 0.3)


# ---- files, disks, mounts -----------------------------------------------------------------------------------------------------

def folder(base=None):
    path = tempfile.mkdtemp(prefix="watop-lab-", dir=base)
    cleanup.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def unmount(path):
    libc.umount2(path.encode(), MNT_DETACH)


def disk_of(path):
    """The whole disk under a file, as diskstats names it; None for a file system without one."""
    device = os.stat(path).st_dev
    link = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.isdir(link):
        return None
    return os.path.basename(os.path.dirname(link) if os.path.exists(link + "/partition") else link).replace("!", "/")


def type_of(path):
    """The type of the file system that holds path."""
    best, kind, real = "", "", os.path.realpath(path)
    with open("/proc/self/mounts") as file:
        for line in file:
            _, point, fs = line.split()[:3]
            if (real + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
                best, kind = point, fs
    return kind


def ext4():
    """A folder on ext4 over a block device: the temporary folder, or a file of it behind a loop device."""
    path = folder()
    if type_of(path) == "ext4" and disk_of(path):
        return path
    need_root()
    for tool in ("losetup", "mkfs.ext4", "mount"):
        if not shutil.which(tool):
            raise Skip(f"the temporary folder is not on ext4, and no {tool}")
    image, point = os.path.join(path, "image"), os.path.join(path, "mount")
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    os.mkdir(point)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip("no loop device: " + made.stderr.strip())
    device = made.stdout.strip()
    cleanup.callback(subprocess.run, ["losetup", "-d", device], stderr=subprocess.DEVNULL)
    subprocess.run(["mkfs.ext4", "-q", device], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", device, point], check=True)
    cleanup.callback(unmount, point)
    return point


@contextlib.contextmanager
def fuse(*options):
    """A slow file server; yields its process and the path of its file."""
    need_root()
    point = folder()
    with lab("fuse_slow", "--mount", point, *options) as process:
        try:
            yield process, os.path.join(point, "file")
        finally:
            unmount(point)
    unmount(point)


# ---- daemons --------------------------------------------------------------------------------------------------------------------

class Daemon:
    """A watopd of our own with its ring on /dev/shm."""

    def __init__(self, interval, ring_size="16M", options=()):
        if not os.path.isdir("/dev/shm") or type_of("/dev/shm") != "tmpfs":
            raise Skip("/dev/shm is not a tmpfs")
        self.folder, self.interval, self.options, self.process = folder("/dev/shm"), interval, options, None
        self.ring = os.path.join(self.folder, "ring")
        with open(os.path.join(self.folder, "ini"), "w") as file:
            file.write(f"[watopd]\nring_size = {ring_size}\n")

    def __enter__(self):
        command = [WATOPD, "--ring", self.ring, "--config", os.path.join(self.folder, "ini"), "--interval", self.interval, *self.options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=ENV, preexec_fn=die_with_us)
        register(self.process)
        if wait_for(self.status, 10) is None:
            end(self.process)
            raise RuntimeError("watopd does not answer")
        return self

    def __exit__(self, *_):
        end(self.process)

    def status(self):
        """(ticks, late) as the control socket tells them: what every scope's self.ticks and self.late hold."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
            control.settimeout(2)
            try:
                control.connect(os.path.join(self.folder, "control"))
                control.send(struct.pack("<IIIIQ200s", 0x43505457, 1, 4, 0, 0, b""))
                answer = control.recv(240)
            except OSError:
                return None
        text = answer[40:40 + struct.unpack_from("<I", answer, 36)[0]].decode()
        words = text.replace(",", "").split()
        return int(words[words.index("ticks") - 1]), int(words[words.index("late") - 1])


def wait_for(truth, seconds):
    """Seconds it took until truth() was true; None when it never was."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if truth():
            return time.monotonic() - began
        time.sleep(0.05)
    return None


class Screen:
    """watop in a terminal of tmux's, on a private socket."""

    def __init__(self, *options, size=(160, 48)):
        if not shutil.which("tmux"):
            raise Skip("no tmux")
        self.env = dict(ENV, TMUX_TMPDIR=folder())
        command = shlex.join(["timeout", "--foreground", "60", WATOP, *options])  # the server outlives a killed test, this does not
        self.tmux("new-session", "-d", "-s", "w", "-x", str(size[0]), "-y", str(size[1]), command)

    def tmux(self, *words):
        command = ["tmux", "-L", "watop-lab", "-f", "/dev/null", *words]
        return subprocess.run(command, env=dict(self.env, SHELL="/bin/sh"), capture_output=True, text=True, timeout=10).stdout

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "w")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

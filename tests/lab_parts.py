"""
The cases: each kind of waiter by itself, and mixtures on one core. Each is a name and a function that starts its programs in a stack and says
which cores are judged; what is true of them the programs measure themselves (lab_truth.py).
"""
import contextlib
import os
import shutil
import subprocess
import time

from lab_machine import Skip, core_list, cores, end, ext4, folder, fuse, need_root, our_devices, type_of

CASES, DEFAULT, MIXED = {}, [], []
kept = {}  # what all cases share: core, place


def case(name, default=False, mixed=False):
    """Register: default ones run in every test, mixed ones are those that --repeat repeats."""
    def add(function):
        CASES[name] = function
        if default:
            DEFAULT.append(name)
        if mixed:
            MIXED.append(name)
        return function
    return add


def last():
    """The core that is judged: the last one, or what --core says."""
    return kept.get("core", cores()[-1])


def other():
    """One that is not judged."""
    found = [core for core in cores() if core != last()]
    if not found:
        raise Skip("one core only")
    return found[0]


# ---- files that are kept for all cases ------------------------------------------------------------------------------------------

def place():
    """A folder on ext4 over a block device, with a file of 64 MiB."""
    if "place" not in kept:
        path = ext4()
        with open(os.path.join(path, "data"), "wb") as file:
            for _ in range(64):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        kept["place"] = path
    return kept["place"]


def data():
    return os.path.join(place(), "data")


def attach_loop(image, *options):
    made = subprocess.run(["losetup", "--find", "--show", *options, image], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip("no loop device: " + made.stderr.strip())
    return made.stdout.strip()


def detach_loop(device):
    subprocess.run(["losetup", "-d", device], stderr=subprocess.DEVNULL)


# ---- idle reactors -----------------------------------------------------------------------------------------------------------------

def reactor_case(mode, words, default=False):
    @case(f"reactor: {words}", default)
    def run(stack, truth):
        stack.enter_context(truth.lab("reactor", "--cores", last(), "--mode", mode))
        return [last()]


for mode, words, default in (
        ("poll", "POLL_ADD", True), ("nop", "a NOP done, nothing pending", True), ("multi", "multishot poll", False), ("recv", "RECV", False),
        ("eventfd", "READ of an eventfd", True), ("timeout", "TIMEOUT only", True), ("async", "READ of a socket, IOSQE_ASYNC", True),
        ("defer", "DEFER_TASKRUN", False), ("coop", "COOP_TASKRUN", False), ("nowait", "NO_IOWAIT", False)):
    reactor_case(mode, words, default)


@case("8 reactor threads over all cores")
def eight(stack, truth):
    stack.enter_context(truth.lab("reactor", "--cores", core_list(), "--threads", 8))
    return cores()


@case("a reactor that wakes 1,000 times a second", True)
def echo(stack, truth):
    stack.enter_context(truth.lab("reactor", "--cores", last(), "--mode", "echo", "--client", other()))
    return [last()]


# ---- who is not counted -------------------------------------------------------------------------------------------------------------

@case("another thread submits")
def foreign(stack, truth):
    stack.enter_context(truth.lab("foreign", "--core", last()))
    return [last()]


@case("the kernel's thread submits (SQPOLL)")
def sqpoll(stack, truth):
    stack.enter_context(truth.lab("foreign", "--core", last(), "--sqpoll", 1))
    return [last()]


@case("epoll")
def epoll(stack, truth):
    stack.enter_context(truth.lab("epoller", "--cores", last()))
    return [last()]


@case("poll")
def poll(stack, truth):
    stack.enter_context(truth.lab("epoller", "--cores", last(), "--mode", "poll"))
    return [last()]


def aio_case(depth):
    @case(f"libaio reads, QD{depth}", depth == 1)
    def run(stack, truth):
        stack.enter_context(truth.lab("aio_writers", "--file", os.path.join(place(), f"aio{depth}"), "--writers", 1, "--depth", depth, "--read", 1,
                                      "--core", last()))
        return [last()]


aio_case(1)
aio_case(32)


# ---- real waiters ----------------------------------------------------------------------------------------------------------------------

def reader_case(words, options, default=False):
    @case(words, default)
    def run(stack, truth):
        stack.enter_context(truth.lab("reader", "--file", data(), "--core", last(), *options))
        return [last()]


reader_case("pread QD1", (), True)
reader_case("pread every 1.1 ms", ("--think", 1100), True)


@case("io_uring read QD1", True)
def uring_read(stack, truth):
    stack.enter_context(truth.lab("uring_reader", "--file", data(), "--core", last(), "--direct", 1))
    return [last()]


@case("fsync loop", True)
def fsync_loop(stack, truth):
    stack.enter_context(truth.lab("reader", "--file", os.path.join(place(), "fsync"), "--make", 16, "--how", "fsync", "--kind", "real",
                                  "--core", last()))
    return [last()]


@case("io_uring append + fsync", True, mixed=True)
def append(stack, truth):
    path = os.path.join(place(), "log")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    stack.enter_context(truth.lab("uring_append", "--file", path, "--core", last()))
    return [last()]


def fuse_reader(words, how, default=False):
    @case(f"a file server that sleeps: {words}", default)
    def run(stack, truth):
        _, path = stack.enter_context(fuse("--delay", 20))
        stack.enter_context(truth.lab("reader", "--file", path, "--how", how, "--kind", "other", "--core", last()))
        return [last()]


fuse_reader("page cache", "buffered", True)
fuse_reader("page fault", "mmap")


def fuse_uring(words, *options, default=False):
    @case(f"io_uring read of a slow file server{words}", default, mixed=default)
    def run(stack, truth):
        _, path = stack.enter_context(fuse("--delay", 20))
        stack.enter_context(truth.lab("uring_reader", "--file", path, "--kind", "other", "--core", last(), *options))
        return [last()]


fuse_uring("")
fuse_uring(", a poll armed on the ring", "--poll", 1, default=True)


@case("io_uring read of a loop device over tmpfs")
def loop_tmpfs(stack, truth):
    need_root()
    if not os.path.isdir("/dev/shm") or type_of("/dev/shm") != "tmpfs":
        raise Skip("/dev/shm is not a tmpfs")
    image = os.path.join(folder("/dev/shm"), "image")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    device = attach_loop(image)
    stack.callback(detach_loop, device)
    stack.enter_context(truth.lab("uring_reader", "--file", device, "--direct", 1, "--core", last()))
    return [last()]


@case("io_uring passthrough command")
def uring_cmd(stack, truth):
    raise Skip("no device here takes passthrough commands through io_uring (no NVMe character device, no ublk)")


# ---- both on one core ----------------------------------------------------------------------------------------------------------------

def mixed_case(words, options, default=False):
    @case(f"a reactor and {words}, one core", default, mixed=True)
    def run(stack, truth):
        stack.enter_context(truth.lab("reactor", "--cores", last()))
        stack.enter_context(truth.lab("reader", "--file", data(), "--core", last(), *options))
        return [last()]


mixed_case("a pread loop", (), True)
mixed_case("a slow pread loop", ("--think", 1100), True)


@case("a reactor and a pread loop, two cores", True, mixed=True)
def apart(stack, truth):
    stack.enter_context(truth.lab("reactor", "--cores", last()))
    stack.enter_context(truth.lab("reader", "--file", data(), "--core", other()))
    return [other(), last()]


@case("a reactor and a file server's reader, one core", True, mixed=True)
def fuse_and_reactor(stack, truth):
    _, path = stack.enter_context(fuse("--delay", 20))
    stack.enter_context(truth.lab("reactor", "--cores", last()))
    stack.enter_context(truth.lab("reader", "--file", path, "--how", "buffered", "--kind", "other", "--core", last()))
    return [last()]


def one_ring_case(words, *options, default=False, beside=False):
    @case(f"a ring with a poll and a disk read pending: {words}", default, mixed=True)
    def run(stack, truth):
        if beside:
            stack.enter_context(truth.lab("reactor", "--cores", last()))
        stack.enter_context(truth.lab("uring_reader", "--file", data(), "--direct", 1, "--poll", 1, "--core", last(), *options))
        return [last()]


one_ring_case("back to back", default=True)
one_ring_case("1 ms think time", "--think", 1000)
one_ring_case("2 ms timer", "--timer", 2000, default=True)
one_ring_case("2 ms timer, 256 KiB", "--timer", 2000, "--size", 256 << 10)
one_ring_case("2 ms timer, beside a reactor", "--timer", 2000, beside=True)


# ---- rare ones, which change the machine for some seconds; each restores what it changed ---------------------------------------------

def setting(stack, path, value):
    """Write a sysctl; the stack writes the old value back."""
    with open(path) as file:
        old = file.read().strip()
    pair = {"dirty_bytes": "dirty_ratio", "dirty_background_bytes": "dirty_background_ratio"}.get(os.path.basename(path))

    def put(where, what):
        with open(where, "w") as file:
            file.write(str(what))
    if pair and old == "0":  # one of the two counts; the other reads 0
        where = os.path.join(os.path.dirname(path), pair)
        with open(where) as file:
            stack.callback(put, where, file.read().strip())
    else:
        stack.callback(put, path, old)
    put(path, value)


@case("dirty throttling")
def dirty(stack, truth):
    need_root()
    file = os.path.join(place(), "dirty")
    setting(stack, "/proc/sys/vm/dirty_background_bytes", 1 << 20)
    setting(stack, "/proc/sys/vm/dirty_bytes", 4 << 20)
    stack.enter_context(truth.lab("reader", "--file", file, "--make", 64, "--how", "dirty", "--size", 1 << 20, "--kind", "real", "--core", last(),
                                  patience=60))
    time.sleep(1)
    return [last()]


@case("a frozen device: loop on a stopped file server's file")
def frozen(stack, truth):
    server, path = stack.enter_context(fuse("--stop", 0, "--size", 64))
    device = attach_loop(path, "--read-only")
    our_devices.add(os.path.basename(device))
    stack.callback(our_devices.discard, os.path.basename(device))
    stack.callback(detach_loop, device)
    stack.callback(end, server)  # first: who waits for it gets an error
    stack.enter_context(ended_by(server, truth.lab("reader", "--file", device, "--core", last())))
    time.sleep(0.3)
    return [last()]


@contextlib.contextmanager
def ended_by(server, program):
    """A program that can only end once its server has."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(program)
        stack.callback(end, server)
        yield


def swap_on(stack):
    """zram0 as swap, if nobody uses it."""
    size = "/sys/block/zram0/disksize"
    if not os.path.exists(size) or not shutil.which("mkswap"):
        raise Skip("no zram0, or no mkswap")
    with open(size) as file:
        if int(file.read()) != 0:
            raise Skip("zram0 is in use")
    with open("/proc/swaps") as file:
        if len(file.readlines()) > 1:
            raise Skip("the machine swaps already, to something else")

    def reset():
        subprocess.run(["swapoff", "/dev/zram0"], stderr=subprocess.DEVNULL)
        with contextlib.suppress(OSError), open("/sys/block/zram0/reset", "w") as file:
            file.write("1")
    stack.callback(reset)
    try:
        with open(size, "w") as file:
            file.write("256M")
        subprocess.run(["mkswap", "-q", "/dev/zram0"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["swapon", "/dev/zram0"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skip(f"zram0 cannot be swapped on: {error}") from None


@case("swapping on zram")
def swap(stack, truth):
    need_root()
    group = f"/sys/fs/cgroup/memory/watop-lab-{os.getpid()}"
    if not os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        raise Skip("no memory control group of version 1")
    swap_on(stack)
    os.mkdir(group)
    stack.callback(remove_group, group)
    program = stack.enter_context(truth.lab("reader", "--file", "-", "--how", "memory", "--size", 96 << 20, "--kind", "real", "--core", last()))
    with open(os.path.join(group, "memory.limit_in_bytes"), "w") as file:
        file.write(str(32 << 20))
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(program.pid))
    time.sleep(0.5)
    return [last()]


def remove_group(path):
    for _ in range(50):
        try:
            os.rmdir(path)
            return
        except OSError:
            time.sleep(0.1)

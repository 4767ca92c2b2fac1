"""
watop blk live, on loop devices of its own, held against programs that time their own calls, /proc/diskstats and the tracepoints' text of the same run.

The disk is a loop device over a file server that takes 1 ms for everything (lab_fuse_slow --keep): its slowness is known, whatever the machine's
storage is. With few requests in its queue and fio beside it, an fsync there waits for a tag: the experiment of idle and busy disk.
"""
import atexit
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

BUILD = os.path.abspath(sys.argv[1])
WATOP = os.path.join(BUILD, "watop")
ENV = dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm")
TRACING = "/sys/kernel/tracing"
CALLS = 40

number = failed = 0


def check(name, good, detail=""):
    global number, failed
    number += 1
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if not good:
        failed += 1
        for line in str(detail).splitlines()[:20]:
            print("# " + line)


def skip(name, why):
    global number
    number += 1
    print(f"ok {number} - {name} # SKIP {why}", flush=True)


def give_up(why):
    print(why)
    sys.exit(77)


def wait_for(what, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


# ---- devices --------------------------------------------------------------------------------------------------------------------------

stack = contextlib.ExitStack()
atexit.register(stack.close)
folder = tempfile.mkdtemp(prefix="watop-test.")
stack.callback(shutil.rmtree, folder, ignore_errors=True)


def quiet(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def loop(image):
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if made.returncode:
        give_up("no loop device: " + made.stderr.strip())
    device = made.stdout.strip()
    stack.callback(quiet, "losetup", "-d", device)
    name = os.path.basename(device)
    with open(f"/sys/block/{name}/queue/scheduler", "w") as file:
        file.write("mq-deadline")
    return name


def queue(name, requests):
    with open(f"/sys/block/{name}/queue/nr_requests", "w") as file:
        file.write(str(requests))


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def slow_disk():
    """ext4 on a loop device that takes 1 ms for a request or a flush, one after the other."""
    mount, place = os.path.join(folder, "fuse"), os.path.join(folder, "disk")
    os.mkdir(mount)
    os.mkdir(place)
    server = subprocess.Popen([os.path.join(BUILD, "tests/lab_fuse_slow"), "--mount", mount, "--delay", "1", "--size", "64", "--keep", "1"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(end, server)
    if server.stdout.readline().strip() != "ready":
        give_up("no FUSE here")
    name = loop(os.path.join(mount, "file"))
    if quiet("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", "/dev/" + name).returncode:
        give_up("no mkfs.ext4")
    if quiet("mount", "-o", "noatime", "/dev/" + name, place).returncode:
        give_up("cannot mount")
    stack.callback(quiet, "umount", place)
    return name, place, server


def ios(name):
    """Requests that ended (flushes are not among them), merges, flushes."""
    with open("/proc/diskstats") as file:
        for line in file:
            words = line.split()
            if words[2] == name:
                value = [int(word) for word in words[3:]]
                return value[0] + value[4] + value[11], value[1] + value[5] + value[12], value[15]
    return None


# ---- programs --------------------------------------------------------------------------------------------------------------------------

class Blk:
    """watop blk, running and tracing."""

    def __init__(self, *options):
        self.process = subprocess.Popen([WATOP, "blk", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
        stack.callback(end, self.process)
        self.said = ""
        while "tracing" not in self.said.rpartition("blk: ")[2]:
            line = self.process.stderr.readline()
            if not line:
                break
            self.said += line

    def result(self):
        """Ends it, as Ctrl-C does, unless it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, more = self.process.communicate(timeout=60)
        self.said += more
        return out


class Report:
    def __init__(self, text, name):
        lines = text.splitlines()
        self.lines = [json.loads(line) for line in lines[:-1]]
        self.all = json.loads(lines[-1])
        number = open(f"/sys/block/{name}/dev").read().strip().replace(":", ",")
        self.device = next((d for d in self.all["devices"] if d["device"] == number), None)
        self.victim = self.all["victim"] or {}

    def call(self, pid, name="fsync"):
        return next((c for c in self.all["calls"] if c["PID"] == pid and c["call"] == name), None)


def fsyncer(path, count, pause, call="fsync"):
    """The program's own times: (its pid, [ns])."""
    process = subprocess.Popen([os.path.join(BUILD, "tests/lab_fsyncer"), path, str(count), "4096", str(pause), call],
                               stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    return process.pid, [int(line.split()[1]) for line in out.splitlines() if line[0].isdigit()]


def busy(path, jobs):
    process = subprocess.Popen(["fio", "--name=bg", "--filename=" + path, "--size=16M", "--rw=randwrite", "--bs=4k", "--direct=1",
                                "--ioengine=psync", f"--numjobs={jobs}", "--time_based", "--runtime=30", "--thread=0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(end, process)
    return process


def agree(ours, theirs):
    """How many of the program's durations are not ours within 2% or 20 us."""
    return sum(abs(a - b) > max(0.02 * b, 20000) for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))


# ---- the experiment -----------------------------------------------------------------------------------------------------------------------

def test_idle(disk, place, source):
    """Nobody else: the device and its cache have the time. Each call as the program timed it."""
    options = ["--no-bpf"] if source == "tracefs" else []
    before = ios(disk)
    blk = Blk(disk, "--format", "json", "--slower", "0.001ms", *options)
    pid, times = fsyncer(os.path.join(place, "idle"), CALLS, 3)
    report = Report(blk.result(), disk)
    after = ios(disk)
    if report.all["tracer"]["source"] != source:
        skip(f"{source}: an idle disk", f"tracing by {report.all['tracer']['source']}")
        return
    call = report.call(pid)
    check(f"{source}: every call is there", call and call["n"] == CALLS + 1, report.all["calls"])
    if not call:
        return
    ours = [line["duration"] for line in report.lines if line.get("call") == "fsync" and line["PID"] == pid]
    wrong = agree(ours[1:], times)
    check(f"{source}: calls last as long as the program says, within 2% or 20 us", wrong <= 2, list(zip(ours[1:], times)))
    check(f"{source}: a call's parts add up", all(sum(line["parts"].values()) == line["duration"] for line in report.lines if "parts" in line)
          and sum(call["parts"].values()) == call["total"], call)
    check(f"{source}: the verdict is the device", report.victim.get("Command") == "lab_fsyncer" and report.victim["cause"] in ("disk", "flush"),
          report.victim)
    named = [line for line in report.lines if line.get("call") == "fsync" and line["file"] == "idle"]
    check(f"{source}: the file's name", call["longest"]["file"] == "idle" if source == "bpf" else named, call["longest"])
    device = report.device
    check(f"{source}: requests are diskstats' (within what ended outside of the tracing)",
          0 <= after[0] - before[0] - device["requests"] <= 8 and device["requests"] > 2 * CALLS, (before, after, device["requests"]))


def test_kinds(disk, place):
    """The other calls, each as its program timed it."""
    blk = Blk(disk, "--format", "json", "--slower", "0.001ms")
    programs = [(name, *fsyncer(os.path.join(place, word), 8, 0, word)) for word, name in
                (("fdatasync", "fdatasync"), ("msync", "msync"), ("range", "sync_file_range"), ("osync", "O_SYNC write"))]
    report = Report(blk.result(), disk)
    if report.all["tracer"]["source"] != "bpf":
        skip("the other calls", "no BPF")
        return
    for name, pid, times in programs:
        ours = [line["duration"] for line in report.lines if line.get("call") == name and line["PID"] == pid]
        check(f"{name}: lasts as long as the program says", len(times) == 8 and agree(ours[-8:], times) <= 1, (ours, times))


def test_busy(disk, place):
    """fio beside it: the queue has the time, and fio is named. The victim's own requests decide."""
    fio = busy(os.path.join(place, "bg"), 12)
    start = ios(disk)[0]
    wait_for(lambda: ios(disk)[0] > start + 100)
    blk = Blk(disk, "-p", "lab_fsyncer", "--format", "json", "--slower", "20")
    words = Blk(disk, "-p", "lab_fsyncer")
    pid, times = fsyncer(os.path.join(place, "victim"), 12, 5)
    report, text = Report(blk.result(), disk), words.result()
    end(fio)
    victim = report.victim
    check("busy: the verdict turns", victim.get("PID") == pid and victim["cause"] in ("tag", "queue"), victim)
    culprit = victim.get("culprit") or {}
    check("busy: fio is named", culprit.get("Command") == "fio" and culprit["processes"] >= 8 and culprit["share"] > 25, culprit)
    check("busy: and said", re.search(r"^(WAITING FOR A TAG|IN THE QUEUE), NOT (FOR )?THE DISK\. \d+% of lab_fsyncer's fsync time it waited "
                                      r"behind fio\[\d+-\d+\]", text, re.M), text)
    slow = [line for line in report.lines if line.get("call") == "fsync" and line["duration"] > 20e6]
    behind = [line for line in slow if line["behind"] and line["behind"][0]["Command"] == "fio"]
    check("busy: --slower catches the calls, and behind whom they waited", len(slow) >= 8 and len(behind) >= 0.8 * len(slow), slow)
    ours = [line["duration"] for line in report.lines if line.get("call") == "fsync"]
    expected = [time for time in times if time > 20e6]
    check("busy: --slower has all that the program found slower", abs(len(ours) - len(expected)) <= 2 and len(expected) >= 8,
          (ours, expected))
    check("busy: only what was asked for", {p["PID"] for p in report.device["processes"]} == {pid}, report.device["processes"])


def test_buffered(disk, place):
    """Buffered writes wait for no disk: there is nothing of the writer, its pages are the flusher's."""
    path = os.path.join(place, "buffered")
    with open(path, "wb") as file:
        file.write(b"y" * (2 << 20))
    quiet("sync")
    blk = Blk(disk, "--format", "json")
    alone = Blk(disk, "-p", str(os.getpid()))
    with open(path, "r+b") as file:
        file.write(b"x" * (2 << 20))
    quiet("sync")
    report, text = Report(blk.result(), disk), alone.result()
    processes = report.device["processes"]
    check("buffered: nothing of the writer", not report.call(os.getpid()) and os.getpid() not in {p["PID"] for p in processes}, processes)
    check("buffered: which is said", re.search(r"^no bio of \d+ ended in .* \(buffered writes are queued by kworkers\)$", text, re.M), text)
    check("buffered: the flusher wrote", any(p["flusher"] for p in processes) and sum(w["bytes"] for w in report.all["writeback"]) >= 1 << 20,
          (processes, report.all["writeback"]))
    check("buffered: sync is a call", any(c["call"] == "sync" and c["Command"] == "sync" for c in report.all["calls"]), report.all["calls"])


def test_throttled(disk, place):
    """A limit of the control group holds bios back before they are queued: no disk has the time."""
    group = "/sys/fs/cgroup/blkio"
    if not os.path.exists(group + "/blkio.throttle.write_iops_device"):
        skip("a throttled process", "no blkio.throttle (cgroup v1)")
        return
    group = os.path.join(group, f"watop-test-{os.getpid()}")
    os.mkdir(group)
    stack.callback(lambda: os.path.isdir(group) and os.rmdir(group))
    number = open(f"/sys/block/{disk}/dev").read().strip()
    with open(group + "/blkio.throttle.write_iops_device", "w") as file:
        file.write(number + " 20")
    blk = Blk(disk, "-p", "lab_fsyncer", "--format", "json")
    command = ["sh", "-c", f"echo $$ >{group}/cgroup.procs && exec {BUILD}/tests/lab_fsyncer {place}/held 8 4096 0 fdatasync"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    report = Report(blk.result(), disk)
    call = report.call(process.pid, "fdatasync")
    times = [int(line.split()[1]) for line in out.splitlines() if line[0].isdigit()]
    check("throttled: no disk has the time", call and report.victim["cause"] == "other" and call["parts"]["other"] > 0.7 * call["total"] and
          max(times) > 20e6, (call, times))


def test_stuck(disk, place, server):
    """A device that does not answer: nothing ends, so nothing is traced, but it is said."""
    blk = Blk(disk, "--format", "json")
    server.send_signal(signal.SIGSTOP)
    process = subprocess.Popen([os.path.join(BUILD, "tests/lab_fsyncer"), os.path.join(place, "stuck"), "1", "4096", "0", "fsync"],
                               stdout=subprocess.DEVNULL)
    stack.callback(end, process)
    time.sleep(3.2)  # more than a second without an end, as a tick of 1 s sees it
    report = Report(blk.result(), disk)
    server.send_signal(signal.SIGCONT)
    process.wait(10)
    stuck = report.all["stuck"]
    check("stuck: a device that holds requests and ends none is named", len(stuck) == 1 and stuck[0]["inflight"] > 0 and stuck[0]["time"] >= 1e9,
          stuck)
    opened = report.all["open"]
    check("stuck: and whose bio is open there the longest, and where", report.all["tracer"]["source"] != "bpf" or (len(opened) == 1 and
          opened[0]["device"] == stuck[0]["device"] and opened[0]["Command"] and opened[0]["time"] >= 1e9 and
          opened[0]["where"] in ("device", "queue", "flush")), opened)


# ---- the same run by others' eyes ------------------------------------------------------------------------------------------------------

class Trace:
    """The tracepoints' text, from an instance of its own."""

    def __init__(self):
        self.path = os.path.join(TRACING, "instances", f"watop-test-{os.getpid()}")
        os.mkdir(self.path)
        stack.callback(self.close)
        for name, value in (("trace_clock", "mono"), ("buffer_size_kb", "16384"), ("events/block/enable", "1")):
            with open(os.path.join(self.path, name), "w") as file:
                file.write(value)

    def close(self):
        if os.path.isdir(self.path):
            os.rmdir(self.path)

    def text(self, to):
        with open(os.path.join(self.path, "events/block/enable"), "w") as file:
            file.write("0")
        with open(os.path.join(self.path, "trace")) as file, open(to, "w") as out:
            shutil.copyfileobj(file, out)
        self.close()


JOBS = """
[global]
filename=/dev/%s
time_based=1
runtime=1.2
[one]
rw=randread
bs=4k
size=8m
ioengine=psync
direct=1
rate_iops=300
[many]
offset=8m
size=8m
rw=randwrite
bs=4k-32k
ioengine=libaio
direct=1
iodepth=8
iodepth_batch=4
rate_iops=300
[safe]
offset=16m
size=8m
rw=write
bs=16k
ioengine=psync
fsync=16
rate_iops=200
[split]
offset=24m
size=8m
rw=randread
bs=2m
ioengine=psync
direct=1
rate_iops=10
"""


def same_run(name, job):
    """fio while three look: JSON, events, and the tracepoints' text read by --from."""
    trace = Trace()  # the first to come is the first to be called: what the others do at an event is not in its times
    live, events = Blk(name, "--format", "json"), Blk(name, "--events")
    before = ios(name)
    fio = quiet("fio", job)
    quiet("sync", "/dev/" + name)
    after = ios(name)
    report, lines = Report(live.result(), name), events.result().splitlines()
    text = os.path.join(folder, "trace")
    trace.text(text)
    said = subprocess.run([WATOP, "blk", "--from", text, "--format", "json"], capture_output=True, text=True, env=ENV).stdout
    other = next(d for d in json.loads(said)["devices"] if d["device"] == report.device["device"])
    return fio, report, lines, other, [a - b for a, b in zip(after, before)]


def differing(device, other):
    """Stages whose averages are not the same within 3%, or the text's 1 us."""
    return [(stage, value["n"], value["avg"], other["stages"][stage]["avg"]) for stage, value in device["stages"].items()
            if abs(value["avg"] - other["stages"][stage]["avg"]) > max(0.03 * value["avg"], 1000)]


def test_same_run():
    """fio on a device without a file system: JSON, events and the tracepoints' text of the same run say the same as diskstats.

    Those who look are called one after the other at each event, so a core that is held up between two of them makes their times differ:
    averages have three runs.
    """
    image = os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else folder, f"watop-test-{os.getpid()}")
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    stack.callback(os.unlink, image)
    name = loop(image)
    job = os.path.join(folder, "jobs")
    with open(job, "w") as file:
        file.write(JOBS % name)
    time.sleep(0.2)  # what the kernel reads of a new device
    for attempt in range(3):
        fio, report, lines, other, (requests, merges, flushes) = same_run(name, job)
        if fio.returncode:
            check("fio runs", False, fio.stderr)
            return
        device = report.device
        same = all(device[key] == other[key] for key in ("bios", "requests", "merged", "split")) and all(
            value["n"] == other["stages"].get(stage, {}).get("n") for stage, value in device["stages"].items())
        far = same and differing(device, other)
        if same and not far:
            break
        print(f"# run {attempt + 1}: {far or 'other counts'}")
    check("same run: nothing was lost", report.all["lost"] == 0, report.all["tracer"])
    empty = sum(d["bios"] for d in device["directions"] if d["direction"] == "flush")
    check("same run: flushes are diskstats'", empty == flushes, (empty, flushes))
    check("same run: requests are diskstats' ios", device["requests"] + empty == requests, (device["requests"], empty, requests))
    parts = device["stages"]["D2C"]["n"]
    check("same run: bios are requests and merges, less what splits added",
          parts == device["requests"] + merges and device["bios"] < parts and device["split"] > 0, (device["bios"], parts, requests, merges))
    letters = {line.split()[5] for line in lines}
    count = {letter: sum(line.split()[5] == letter for line in lines if " + " in line) for letter in "QGIDCM"}
    check("same run: --events has blkparse's letters", letters and letters <= set("Q G I D C M F R X A P U UT".split()), letters)
    plugs = {line.split()[6] for line in lines if line.split()[5] in ("P", "U", "UT")}
    check("same run: plugs have no operation, N", plugs == {"N"}, plugs)
    check("same run: as many Q, D, C, M as bios, requests, merges", count["Q"] == device["bios"] and count["M"] == merges and
          count["D"] == count["C"] == device["requests"], (count, requests, merges))
    check("same run: bios, requests and stages in number as from the tracepoints' text", same, (device, other))
    check("same run: each stage's average as from that text, within 3% or its 1 us", same and not far, far)


# ---- how it ends ----------------------------------------------------------------------------------------------------------------------------

def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def test_killed(disk):
    """kill -9 leaves nothing attached: no watopd, no program, no instance of tracefs."""
    for option, words in ((["--no-sync"], "BPF"), (["--no-bpf"], "tracefs")):
        process = subprocess.Popen([WATOP, "blk", disk, "-w", "60", *option], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
        stack.callback(end, process)
        while "tracing" not in (process.stderr.readline() or "tracing"):
            pass
        daemons = children(process.pid)
        names = os.listdir(TRACING + "/instances") if os.path.isdir(TRACING + "/instances") else []
        process.kill()
        process.wait()
        gone = wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split()[2] not in "ZX" for pid in daemons))
        check(f"{words}: watopd ends with a killed watop", daemons and gone, daemons)
        mine = [name for name in names if any(str(pid) in name for pid in daemons)]
        left = [name for name in mine if os.path.isdir(os.path.join(TRACING, "instances", name))]
        check(f"{words}: no instance of tracefs is left", not left and (option != ["--no-bpf"] or mine), (names, left))
    if shutil.which("bpftool"):
        text = subprocess.run(["bpftool", "-j", "prog"], capture_output=True, text=True).stdout
        holders = {pid.get("pid") for program in json.loads(text or "[]") if program.get("name", "").startswith("watop")
                   for pid in program.get("pids", [])}
        check("no program of a process that is gone is left", all(os.path.exists(f"/proc/{pid}") for pid in holders), holders)


def test_terminal(disk, place):
    """On a terminal a picture each second; afterwards the table stands on the normal screen."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(WATOP, [WATOP, "blk", disk], ENV)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    out = b""

    def more(until, seconds=8):
        nonlocal out
        limit = time.monotonic() + seconds
        while until not in out and time.monotonic() < limit:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    out += os.read(master, 65536)
                except OSError:
                    return False
        return until in out

    there = more(b"traced by")
    fsyncer(os.path.join(place, "shown"), 10, 1)
    shown = more(b"lab_fsyncer", 4)
    os.write(master, b"r")  # begin anew
    time.sleep(0.3)
    os.write(master, b"\x03")
    left = more(b"\x1b[?1049l")
    rest = out.rpartition(b"\x1b[?1049l")[0]
    out = out[len(rest):]
    more(b"no bio ended", 1)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(master)
    check("terminal: a picture that follows", there and shown, rest[-2000:])
    seconds = re.search(rb"(\d+\.\d) s traced by", out)
    check("terminal: Ctrl-C leaves it, and the table is on the normal screen; r began it anew", left and status == 0 and seconds and
          float(seconds.group(1)) <= 1.2 and b"lab_fsyncer" not in out, out)


def test_rights():
    """Without rights: a sentence, and 1."""
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", WATOP, "blk", "-w", "1", "--private"],
                          capture_output=True, text=True, env=ENV)
    if "setpriv" in done.stderr:
        skip("without rights", done.stderr.strip())
        return
    check("without rights: what is needed, and 1", done.returncode == 1 and "root" in done.stderr and
          all(line.endswith(")") for line in done.stderr.splitlines() if "no tracefs" in line), (done.returncode, done.stderr))


def main():
    if os.geteuid() != 0:
        give_up("needs root")
    for tool in ("losetup", "mkfs.ext4", "mount", "fio"):
        if not shutil.which(tool):
            give_up("needs " + tool)
    probe = subprocess.run([WATOP, "blk", "-w", "0.1"], capture_output=True, text=True, env=ENV)
    if probe.returncode:
        give_up("block tracing does not work here: " + probe.stderr.strip().splitlines()[-1])
    disk, place, server = slow_disk()
    fsyncer(os.path.join(place, "warm"), 1, 0)  # in memory from now on: who reads its program from a disk has its parent's name yet
    test_idle(disk, place, "bpf")
    test_idle(disk, place, "tracefs")
    test_kinds(disk, place)
    queue(disk, 4)
    test_busy(disk, place)
    test_buffered(disk, place)
    test_throttled(disk, place)
    test_stuck(disk, place, server)
    test_same_run()
    test_killed(disk)
    test_terminal(disk, place)
    test_rights()
    print(f"1..{number}")
    stack.close()
    return failed > 0


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
sys.exit(main())

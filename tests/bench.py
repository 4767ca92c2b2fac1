"""
CPU per sample of watopd and of its peers, as ratios of medians taken in one interleaved run.

    bench.py RELEASE-BUILD TEST-BUILD [system|processes|screen|log|tracer|stages|record ...] [--rounds N] [--window SECONDS] [--before WATOP]

CPU is the scheduler's own (sum of /proc/PID/task/*/schedstat, ns), over a window after a warm-up, divided by the samples in it (one a second). Machines are
noisy: trust ratios of one run to about 20%, absolute figures less. Populations are sleeping children of tests/lab/spawn.c.
"""
import json
import os
import pty
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BUILD, TESTS = sys.argv[1], sys.argv[2]
ARGS = sys.argv[3:]


def option(name, default):
    return type(default)(ARGS[ARGS.index(name) + 1]) if name in ARGS else default


ROUNDS, WINDOW, WARM = option("--rounds", 5), option("--window", 5.0), 2.0
NAMES = [a for a in ARGS if a in ("system", "processes", "screen", "log", "tracer", "stages", "record")] or ["system", "processes", "screen", "log", "tracer", "stages", "record"]
ENV = dict(os.environ, LC_ALL="C", TERM="xterm")


def cpu_ns(pid):
    total = 0
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat") as file:
                total += int(file.read().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def tree(pid):
    """pid and its descendants: watop's private watopd is a child."""
    found, todo = [], [pid]
    while todo:
        at = todo.pop()
        found.append(at)
        try:
            with open(f"/proc/{at}/task/{at}/children") as file:
                todo += [int(x) for x in file.read().split()]
        except FileNotFoundError:
            pass
    return found


class Terminal:
    """A pty of a stated size, drained and counted by a thread."""

    def __init__(self, command, rows, cols):
        self.bytes = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(ENV)
            os.execvp(command[0], command)
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        try:
            while True:
                if select.select([self.fd], [], [], 1)[0]:
                    got = os.read(self.fd, 65536)
                    if not got:
                        return
                    self.bytes += len(got)
        except OSError:
            pass

    def stop(self):
        for pid in reversed(tree(self.pid)):
            try:
                os.kill(pid, 15)
            except ProcessLookupError:
                pass
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def measure(command, terminal=None):
    """(CPU ms per second, of watopd alone, terminal bytes per second, RSS MiB)"""
    if terminal:
        process = Terminal(command, *terminal)
    else:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV)
    time.sleep(WARM)
    if not os.path.exists(f"/proc/{process.pid}/task") or not os.listdir(f"/proc/{process.pid}/task") or not cpu_ns(process.pid):
        raise SystemExit("bench: it ended at once: " + " ".join(command))
    pids = tree(process.pid)
    before, begin, sent = {p: cpu_ns(p) for p in pids}, time.monotonic(), getattr(process, "bytes", 0)
    time.sleep(WINDOW)
    after, end = {p: cpu_ns(p) for p in pids}, time.monotonic()
    peak = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as file:
                peak += sum(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
        except FileNotFoundError:
            pass
    sent = (getattr(process, "bytes", 0) - sent) / (end - begin)
    if terminal:
        process.stop()
    else:
        process.terminate()
        process.wait()
    spent = {p: (after[p] - before[p]) / 1e6 / (end - begin) for p in pids}
    return sum(spent.values()), sent, peak


def compare(title, commands, terminal=None):
    figures = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            figures[name].append(measure(command, terminal))
    first = next(iter(commands))
    own = statistics.median(f[0] for f in figures[first])
    print(f"\n{title}: {ROUNDS} rounds interleaved, {WINDOW:.0f} s each, 1 sample a second")
    print(f"{'':32} {'CPU ms':>9} {'min':>8} {'max':>8} {'ratio':>7} {'RSS MiB':>8}" + (f" {'bytes':>8}" if terminal else ""))
    for name, rows in figures.items():
        cpu = [r[0] for r in rows]
        median = statistics.median(cpu)
        line = f"{name:32} {median:9.3f} {min(cpu):8.3f} {max(cpu):8.3f} {own / median if median else 0:7.2f} {statistics.median(r[2] for r in rows):8.1f}"
        print(line + (f" {statistics.median(r[1] for r in rows):8.0f}" if terminal else ""), flush=True)
    print(f"ratio: {first} / the line's; below 1 it costs less")


def log_bytes(title, folder, daemon, seconds=60):
    """Bytes a sample of watopd --log and of atop -w, at the same time on the same machine."""
    raw, logs = folder + "/atop.raw", folder + "/logs"
    peers = [subprocess.Popen(["atop", "-w", raw, "1", str(seconds)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV),
             subprocess.Popen([*daemon, "--log", logs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV)]
    time.sleep(seconds + 0.5)
    peers[1].terminate()
    for peer in peers:
        peer.wait()
    path = logs + "/" + sorted(os.listdir(logs))[-1]
    frames = json.loads(subprocess.run([BUILD + "/watop", "log", "--format", "json", path], stdout=subprocess.PIPE, check=True).stdout)["frames"]
    own, theirs = os.path.getsize(path) / frames, os.path.getsize(raw) / seconds
    print(f"\n{title}: {seconds} s, both at once\n{'watopd --log':32} {own:9.0f} bytes a sample\n{'atop -w':32} {theirs:9.0f} bytes a sample"
          f"\nratio: {own / theirs:.3f} (1/{theirs / own:.1f})", flush=True)
    shutil.rmtree(logs)
    os.unlink(raw)


# Each prints the seconds its work took, and its CPU time with that of its children: what the command itself sees, not the start and end of the recorder.
WORK = {
    "one busy core": "x = 0\nfor i in range(20000000): x += i & 3",
    "both cores busy": "c = os.fork()\nx = 0\nfor i in range(10000000): x += i & 3\nif c == 0: os._exit(0)\nos.waitpid(c, 0)",
    "500 processes, one after the other": "for i in range(500): subprocess.run(['/bin/true'])",
    "nothing but output, 200,000 lines": "for i in range(200000): os.write(2, b'a line of a benchmark that tells how it goes\\n')",
}


def timed(folder, argv, work):
    """(wall, CPU) of the work; its standard output and error go to files, the same alone and recorded."""
    code = f"import os, resource, subprocess, time\nbegan = time.monotonic()\n{work}\nprint(time.monotonic() - began, sum(sum(resource.getrusage(w)[:2]) for w in (0, -1)))"
    with open(folder + "/record.out", "w+b") as out, open(folder + "/record.err", "wb") as err:
        subprocess.run([*argv, sys.executable, "-c", code], stdout=out, stderr=err, stdin=subprocess.DEVNULL, check=True)
        out.seek(0)
        return [float(x) for x in out.read().split()]


def record(folder, watop):
    """A command alone against the same under watop record, in interleaved pairs; --before PATH: under another watop too."""
    record_with = lambda program: [program, "record", "-q", "--force", "-o", folder + "/record.log", "--"]
    kinds = {"record": record_with(watop)}
    if "--before" in ARGS:
        kinds["before"] = record_with(ARGS[ARGS.index("--before") + 1])
    print(f"\nrecord: {ROUNDS} interleaved rounds, 1 sample a second; seconds by the command's own clock: medians, and the ratio to the run alone of the same round:")
    print("median (least to most). Noise: rounds fall on both sides of 1, or the median is off by less than half of what runs alone differ by")
    print(f"{'':36} {'':7} {'wall':>7} {'alone':>7} {'ratio':>21} {'CPU':>7} {'alone':>7} {'ratio':>21}")
    for name, work in WORK.items():
        rows = {kind: [] for kind in ["alone", *kinds]}
        for turn in range(ROUNDS):
            order = list(rows.items())
            for kind, row in order if turn % 2 == 0 else reversed(order):
                row.append(timed(folder, kinds.get(kind, []), work))
        for kind in kinds:
            line = f"{name:36} {kind:7}"
            for which in (0, 1):
                own, alone = ([r[which] for r in rows[k]] for k in (kind, "alone"))
                ratios = [a / b for a, b in zip(own, alone)]
                text = f"{statistics.median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"
                line += f" {statistics.median(own):7.3f} {statistics.median(alone):7.3f} {text:>21}"
                middle, noise = statistics.median(ratios), (max(alone) - min(alone)) / statistics.median(alone) / 2
                verdict = "noise" if min(ratios) <= 1 <= max(ratios) or abs(middle - 1) <= noise else "less" if middle < 1 else "COSTS"
                line += f" {verdict:5}"
            print(line, flush=True)


def main():
    watop, watopd, spawn = BUILD + "/watop", BUILD + "/watopd", TESTS + "/tests/lab_spawn"
    folder = tempfile.mkdtemp(prefix="watop-bench-", dir="/dev/shm")
    empty = folder + "/empty.ini"
    open(empty, "w").close()
    daemon = [watopd, "--config", empty, "--ring", folder + "/ring", "--socket", folder + "/control", "--interval", "1s"]
    try:
        if "system" in NAMES:
            config = folder + "/system.ini"
            with open(config, "w") as file:
                file.write("scopes = system cpu disk vm net pressure\n")
            lean = [watopd, "--config", config, *daemon[3:]]
            compare("system only", {"watopd, system scopes": lean, "iostat -x 1": ["iostat", "-x", "1"], "mpstat -P ALL 1": ["mpstat", "-P", "ALL", "1"]})
        for count in (100, 2000):
            if not {"processes", "screen"} & set(NAMES):
                break
            population = subprocess.Popen([spawn, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            population.stdout.readline()
            try:
                if "processes" in NAMES:
                    compare(f"{count} sleeping processes, all columns",
                            {"watopd": daemon, "watop task --all, its watopd too": [watop, "task", "--private", "--quiet", "--all", "--all-columns", "1"],
                             "top -b -d1": ["top", "-b", "-d1"], "pidstat -u -d -r -w 1": ["pidstat", "-u", "-d", "-r", "-w", "1"]})
                if "screen" in NAMES:
                    compare(f"{count} sleeping processes, live screen 200x60", {"watop, its watopd too": [watop, "--private"], "top -d1": ["top", "-d1"]}, (60, 200))
            finally:
                population.terminate()
                population.wait()
        if "log" in NAMES and shutil.which("atop"):
            log_bytes("log, this machine as it is", folder, daemon)
            population = subprocess.Popen([spawn, "2000", "1", "200"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            population.stdout.readline()
            try:
                log_bytes("log, 2,000 processes, a tenth of which wakes each second", folder, daemon)
            finally:
                population.stdin.close()
                population.wait()
        elif "log" in NAMES:
            print("log: skipped: atop is not installed")
        if "log" in NAMES and os.path.exists(TESTS + "/tests/bench_log"):
            subprocess.run([TESTS + "/tests/bench_log"], check=True)
        if "record" in NAMES:
            record(folder, watop)
        if "tracer" in NAMES and os.path.exists(TESTS + "/tests/bench_tracer"):
            subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "bench_tracer.py"), TESTS], check=True)
        if "stages" in NAMES and os.path.exists(TESTS + "/tests/bench_stages"):
            subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "bench_stages.py"), TESTS], check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()

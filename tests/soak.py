"""
The daemon with the tracer attached, for as long as one likes, beside a fork storm, rate-limited fio, reactors that stay and reactors that
come and go: nothing may grow, and the parts of wa stay what the kernel counted.

    soak.py BUILD [MINUTES [CORES]]      (10, all)

A line each ten seconds: the daemon's memory and descriptors, slots of the tracer that are in use (where bpftool can tell), the cores' wa
and its parts. At the end: the sums of the parts since the tracer was attached against the kernel's own iowait, how much of it was traced, and
events that had no counterpart. Not among the tests of ./dev test: ten minutes say little, an hour says more.
"""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 10
CORES = sys.argv[3] if len(sys.argv) > 3 else None  # of the reactors
from lab_machine import TICK, WATOP, Daemon, cleanup, core_list, die_with_us, end, end_programs, ext4, lab, register, start  # noqa: E402

GROWTH = 256 << 10  # bytes between the second and the last quarter that are no growth
over = threading.Event()


# ---- the machine's load ------------------------------------------------------------------------------------------------------------

def storm():
    """200 processes are made and end, again and again."""
    while not over.is_set():
        with lab("spawn", 200):
            over.wait(0.5)
        over.wait(1)


def comers():
    """Reactors that live for some seconds: new threads, new rings, at old addresses."""
    while not over.is_set():
        with lab("reactor", "--cores", CORES or core_list(), "--threads", 6):
            over.wait(2)


def fio(place):
    if not shutil.which("fio"):
        return None
    process = subprocess.Popen(["fio", "--name=soak", "--filename=" + os.path.join(place, "fio"), "--size=32M", "--rw=randrw", "--direct=1",
                                "--ioengine=psync", "--fsync=16", "--rate_iops=150", "--time_based", f"--runtime={int(MINUTES * 60) + 60}",
                                "--output=/dev/null"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=die_with_us)
    register(process)
    return process


# ---- what is looked at ----------------------------------------------------------------------------------------------------------------

def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return (int(lines["RssAnon"].split()[0]) + int(lines["RssFile"].split()[0])) << 10  # RssShmem is the ring and the tracer's maps


def map_of(pid, name):
    """The daemon's BPF map of that name, by its descriptors."""
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/fdinfo/{fd}") as file:
            words = dict(line.split(":", 1) for line in file if ":" in line)
            if "map_id" in words:
                shown = subprocess.run(["bpftool", "-j", "map", "show", "id", words["map_id"].strip()], capture_output=True, text=True)
                if shown.returncode == 0 and json.loads(shown.stdout).get("name") == name:
                    return int(words["map_id"])
    return None


def slots(places):
    """Thread ids in the tracer's table: all, and of them ended ones."""
    if places is None:
        return None, None
    text = subprocess.run(["bpftool", "-j", "map", "dump", "id", str(places)], capture_output=True, text=True).stdout
    tids = [tid for entry in json.loads(text) for tid in entry["formatted"]["value"]["tid"] if tid]
    return len(tids), sum(tid >> 31 for tid in tids)


def raw(folder, scope):
    """Rows of a scope from the daemon's log: counters as they were read."""
    rows = []
    for name in sorted(os.listdir(folder)):
        command = [WATOP, "export", "--raw", "--format", "json", "--scope", scope, os.path.join(folder, name)]
        out = subprocess.run(command, capture_output=True, text=True)
        rows += [json.loads(line) for line in out.stdout.splitlines() if line.strip()]
    return rows


# ---- the verdict ----------------------------------------------------------------------------------------------------------------------

def quarter(values, number):
    size = max(1, len(values) // 4)
    return statistics.median(values[size * number:size * (number + 1)] or values[-1:])


def growth(seen, wrong):
    for index, (name, allowed) in enumerate((("resident bytes", GROWTH), ("descriptors", 150), ("slots", 200))):
        values = [row[index] for row in seen if row[index] is not None]
        if len(values) < 8:
            continue
        before, after = quarter(values, 1), quarter(values, 3)
        print(f"# {name}: {before:.0f} in the second quarter, {after:.0f} in the last, {max(values):.0f} at most")
        if after > before + allowed:
            wrong.append(f"{name} grew from {before:.0f} to {after:.0f}")


def sums(folder, wrong):
    own = [row for row in raw(folder, "self") if row["self.tracer"] == 2]
    if len(own) < 3:
        wrong.append("the tracer was not attached")
        return
    since, last = own[1]["seq"][1], own[-1]
    rows = [row for row in raw(folder, "cpu") if row["seq"][1] >= since]
    for key in sorted({row["key"][0] for row in rows}):
        mine = [row for row in rows if row["key"][0] == key]
        delta = {name: mine[-1][name] - mine[0][name] for name in mine[0] if name.startswith("cpu.") and mine[0][name] is not None}
        parts = sum(delta["cpu.wa_" + part] for part in ("disk", "uring", "other")) - delta["cpu.wa_taken_back"]
        off = (parts - delta["cpu.iowait"]) / 1e9 * TICK
        exact = delta["cpu.wa_by.exact"] / max(1, parts)
        disk, uring, other, iowait = (delta["cpu." + name] / 1e9 for name in ("wa_disk", "wa_uring", "wa_other", "iowait"))
        print(f"# cpu{key}: iowait {iowait:.2f} s = disk {disk:.2f} + uring {uring:.2f} + other {other:.2f} s, off by {off:.1f} ticks; "
              f"{exact:.1%} of it exact")
        if abs(off) > 2:
            wrong.append(f"cpu{key}: the sum of the parts is {off:.1f} ticks from the kernel's")
    print(f"# {last['self.ticks']} ticks, {last['self.late']} late; {last['self.tracer_missed'] - own[0]['self.tracer_missed']} events "
          f"without a counterpart; CPU time of watopd {last['self.cpu'] / 1e9:.1f} s")


def watch(daemon, wrong):
    seen = []
    until = time.monotonic() + MINUTES * 60
    reader = start(WATOP, "cpu", "--ring", daemon.ring, "--format", "json", "10")
    pid, places = daemon.process.pid, None
    try:
        for line in reader.stdout:
            report = json.loads(line)
            if places is None and shutil.which("bpftool"):
                places = map_of(pid, "places")
            used, ended = slots(places)
            seen.append((resident(pid), len(os.listdir(f"/proc/{pid}/fd")), used))
            rows = [row for row in report["cpu"] if row["CPU"].isdigit()]
            core = "cpu{CPU} wa {wa:.1f} = {wa_disk:.1f} + {wa_uring:.1f} + {wa_other:.1f} {evidence}"
            print(f"# {time.strftime('%H:%M:%S')} {seen[-1][0] >> 10} KiB, {seen[-1][1]} descriptors, slots {used} ({ended} ended); "
                  + "; ".join(core.format(**row) for row in rows), flush=True)
            if report["gap"]:
                wrong.append(f"a gap: {report['gap']}")
            if time.monotonic() > until:
                break
    finally:
        end(reader)
    return seen


def main():
    wrong = []
    with cleanup, contextlib.ExitStack() as stack:
        stack.callback(end_programs)
        place = ext4()
        logs = os.path.join(place, "logs")
        os.mkdir(logs)
        stack.enter_context(lab("reactor", "--cores", CORES or core_list(), "--threads", 4))
        daemon = stack.enter_context(Daemon("1s", options=("--log", logs)))
        fio(place)
        threads = [threading.Thread(target=target, daemon=True) for target in (storm, comers)]
        for thread in threads:
            thread.start()
        try:
            seen = watch(daemon, wrong)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        end(daemon.process)
        growth(seen, wrong)
        folder = next((top for top, _, files in os.walk(logs) if files), logs)
        sums(folder, wrong)
    for line in wrong:
        print("# " + line)
    print(f"{'not ok' if wrong else 'ok'} 1 - {MINUTES:g} minutes\n1..1")
    return 1 if wrong else 0


sys.exit(main())

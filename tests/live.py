"""
cpu, disk and task against mpstat, iostat -x and pidstat: the same ten seconds, the same machine, under fio and stress-ng.

What is allowed: cpu 1 point a cell; disk 2% or one count; task 2% or one clock tick. The peers start within some hundredths of a second of each other, the
loads are steady, and a case that something else on the machine disturbed is repeated, three times at most, and says so.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WATOP = os.path.join(sys.argv[1], "watop")
SPAN = 10
ENV = dict(os.environ, LC_ALL="C", S_TIME_FORMAT="ISO", S_COLORS="never")
number = 0
failed = 0


def tap(good, name, detail=""):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if detail and not good:
        print("\n".join("# " + line for line in detail.splitlines()), flush=True)


def start(*command, **more):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV, text=True, **more)


class Load:
    """Steady load: two stress-ng workers at part load, fio with a fixed rate in two threads and one process."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="watop-live-")
        seconds = str(SPAN * 12)
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=self.folder)
        common = ["--size=64m", "--direct=1", "--time_based", "--runtime=" + seconds, "--rate_process=linear", "--group_reporting"]
        self.parts = [
            subprocess.Popen(["stress-ng", "--cpu", "1", "--cpu-load", "45", "--cpu-load-slice", "-10", "-t", seconds], **quiet),
            subprocess.Popen(["fio", "--name=threads", "--filename=" + self.folder + "/t", "--thread", "--numjobs=2", "--rw=randrw", "--bs=8k", "--rate_iops=150,100", *common], **quiet),
            subprocess.Popen(["fio", "--name=process", "--filename=" + self.folder + "/p", "--rw=randread", "--bs=4k", "--rate_iops=400", *common], **quiet),
        ]
        deadline = time.time() + 60
        while time.time() < deadline:  # fio lays its files out first: wait until both read
            try:
                if all(os.path.getsize(os.path.join(self.folder, f)) >= 64 << 20 for f in "tp"):
                    break
            except OSError:
                pass
            time.sleep(0.2)
        time.sleep(3)

    def stop(self):
        for part in self.parts:
            try:
                os.killpg(part.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        for part in self.parts:
            part.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def watop(verb, *options):
    return start(WATOP, verb, "--private", "--quiet", "--format", "json", *options, str(SPAN), "1")


def first_report(process):
    return json.loads(process.communicate()[0].splitlines()[0])


def cpu_case():
    ours, peer = watop("cpu"), start("mpstat", "-P", "ALL", "-o", "JSON", str(SPAN), "1")
    rows = {row["CPU"]: row for row in first_report(ours)["cpu"]}
    loads = json.loads(peer.communicate()[0])["sysstat"]["hosts"][0]["statistics"][0]["cpu-load"]
    wrong = []
    for load in loads:
        row = rows[load["cpu"]]
        pairs = {"us": load["usr"] + load["guest"], "ni": load["nice"] + load["gnice"], "sy": load["sys"], "id": load["idle"], "wa": load["iowait"], "hi": load["irq"],
                 "si": load["soft"], "st": load["steal"], "gu": load["guest"], "gn": load["gnice"]}
        for head, value in pairs.items():
            if abs(row[head] - value) > 1.0:
                wrong.append(f"cpu {load['cpu']} {head}: watop {row[head]:.2f} mpstat {value:.2f}")
        if abs(row["wa_disk"] + row["wa_uring"] + row["wa_other"] - row["wa"]) > 1e-6:
            wrong.append(f"cpu {load['cpu']}: the parts of wa do not add up")
    return wrong


# Column, and what one count of it is: requests a second, a request's size, a hundredth of what iostat prints.
DISK = {"r/s": 1 / SPAN, "w/s": 1 / SPAN, "f/s": 1 / SPAN, "d/s": 1 / SPAN, "rkB/s": None, "wkB/s": None, "rrqm/s": 1 / SPAN, "wrqm/s": 1 / SPAN, "%rrqm": 0.5, "%wrqm": 0.5, "r_await": 0.01,
        "w_await": 0.01, "rareq-sz": 0.05, "wareq-sz": 0.05, "aqu-sz": 0.01}


def disk_case():
    ours, peer = watop("disk", "--all"), start("iostat", "-x", "-y", "-o", "JSON", str(SPAN), "1")
    rows = {row["Device"]: row for row in first_report(ours)["disk"]}
    disks = json.loads(peer.communicate()[0])["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    wrong = []
    for disk in disks:
        row = rows.get(disk["disk_device"])
        if row is None:
            wrong.append(f"{disk['disk_device']} is missing")
            continue
        for head, count in DISK.items():
            value, own = disk.get(head), row[head] or 0
            if count is None:
                count = max(disk[head[0] + "areq-sz"], 4) / SPAN
            if value is not None and abs(own - value) > max(0.02 * value, count + 0.011):
                wrong.append(f"{disk['disk_device']} {head}: watop {own:.3f} iostat {value:.3f}")
        if abs(row["%util"] - disk["util"]) > max(0.02 * disk["util"], 0.1 + 0.011):
            wrong.append(f"{disk['disk_device']} %util: watop {row['%util']:.3f} iostat {disk['util']:.3f}")
    return wrong


def pidstat_rows(text):
    """Rows of `pidstat -h`: heads in the comment line, one line a task."""
    heads, rows = None, []
    for line in text.splitlines():
        if line.startswith("#"):
            heads = line[1:].split()
        elif heads and line.strip():
            cells = line.split(None, len(heads) - 1)
            if len(cells) == len(heads):
                rows.append(dict(zip(heads, cells)))
    return rows


TICK = 100 * 0.01 / SPAN  # one clock tick in % of the interval
TASK = {"%usr": TICK, "%system": TICK, "%guest": TICK, "%CPU": 2 * TICK, "%wait": TICK, "minflt/s": 1 / SPAN, "majflt/s": 1 / SPAN, "cswch/s": 1 / SPAN, "nvcswch/s": 1 / SPAN, "kB_rd/s": 8 / SPAN, "kB_wr/s": 8 / SPAN,
        "kB_ccwr/s": 8 / SPAN}


def compare_task(row, peer, heads, wrong, name):
    for head in heads:
        value = float(peer[head])
        if value < 0:  # pidstat's way to say that it could not read
            continue
        own = row[head]
        if own is None or abs(own - value) > max(0.02 * value, TASK[head] + 0.011):
            wrong.append(f"{name} {head}: watop {own} pidstat {value}")


def task_case():
    ours, peer = watop("task", "--all"), start("pidstat", "-h", "-u", "-d", "-r", "-w", str(SPAN), "1")
    rows = {row["PID"]: row for row in first_report(ours)["task"] if row["TID"] is None}
    wrong, seen = [], 0
    for other in pidstat_rows(peer.communicate()[0]):
        row = rows.get(int(other["PID"]))
        if not re.match(r"stress-ng|fio", other["Command"]) or row is None or row["THR"] != 1:
            continue
        seen += 1
        compare_task(row, other, TASK, wrong, f"{other['Command']}[{other['PID']}]")
        # pidstat takes the rss of /proc/PID/stat, which newer kernels only estimate: off by up to 32 pages a core and kind of page; ours is statm's sum.
        if abs(row["RSS"] - float(other["RSS"])) > max(0.02 * row["RSS"], 32 * 4 * (os.cpu_count() or 1) * 2):
            wrong.append(f"{other['PID']} RSS: watop {row['RSS']} pidstat {other['RSS']}")
    return wrong if seen >= 2 else wrong + [f"only {seen} single-threaded tasks seen"]


def thread_case():
    ours, peer = watop("task", "-t", "--all"), start("pidstat", "-h", "-t", "-u", "-d", "-r", "-w", str(SPAN), "1")
    rows = {row["TID"]: row for row in first_report(ours)["task"] if row["TID"] is not None}
    wrong, seen = [], 0
    for other in pidstat_rows(peer.communicate()[0]):
        if other["TID"] == "-" or "fio" not in other["Command"]:
            continue
        row = rows.get(int(other["TID"]))
        if row is None:
            wrong.append(f"thread {other['TID']} is missing")
            continue
        seen += 1
        compare_task(row, other, [h for h in TASK if h not in ("%guest",)], wrong, f"{other['Command']}/{other['TID']}")
    return wrong if seen >= 3 else wrong + [f"only {seen} threads of fio seen"]


def main():
    load = Load()
    try:
        for name, case in (("cpu within 1 point of mpstat", cpu_case), ("disk within 2% or one count of iostat -x", disk_case),
                           ("task within 2% or one tick of pidstat", task_case), ("task -t within 2% or one tick of pidstat -t", thread_case)):
            for attempt in range(1, 4):
                try:
                    wrong = case()
                except (KeyError, IndexError, ValueError, TypeError) as error:
                    wrong = [f"{type(error).__name__}: {error}"]
                if not wrong:
                    break
                print(f"# {name}: attempt {attempt} was off: " + "; ".join(wrong[:6]), flush=True)
            tap(not wrong, name + (f" (attempt {attempt})" if attempt > 1 else ""), "\n".join(wrong[:30]))
    finally:
        load.stop()
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())

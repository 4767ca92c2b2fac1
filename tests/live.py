"""
cpu, disk and task against the kernel's own counters and against mpstat, iostat -x and pidstat, on this machine, under fio and stress-ng.

Two programs never measure the same ten seconds: they start some hundredths of a second apart, and loads come in bursts. So this test reads the counters
themselves 25 times a second while all of them run. What a program printed is right when the kernel's counters did that over some window of ten seconds whose
edges lie where that program can have read: for watop the interval that its report names, for a peer anywhere between its start and its output. A value has
to lie between the least and the most over those windows, with a tolerance: cpu 1 point a cell; disk 2% or one count; task 2% or one clock tick. That is asked of
watop and of the peer: a peer that fails it shows that this test reads the counters in another way than they are meant.

All run at the same time. A round in which programs were held up for so long that the windows say little is repeated, three times at most, and says so.
"""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

WATOP = os.path.join(sys.argv[1], "watop")
SPAN = 10
STEP = 0.04  # between two looks at the counters
SLACK = 0.05  # seconds by which a program's ten seconds may be longer or shorter
LATE = 3.0  # a program whose window may lie anywhere within more than that is not compared
ENV = dict(os.environ, LC_ALL="C", S_TIME_FORMAT="ISO", S_COLORS="never")
HZ = os.sysconf("SC_CLK_TCK")
number = 0
failed = 0


def tap(good, name, detail=""):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if detail and not good:
        print("\n".join("# " + line for line in detail.splitlines()), flush=True)


class Load:
    """Steady load: two stress-ng workers at part load, fio with a fixed rate in two threads and one process."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="watop-live-")
        seconds = str(SPAN * 6)
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=self.folder)
        common = ["--size=64m", "--direct=1", "--time_based", "--runtime=" + seconds, "--rate_process=linear", "--group_reporting"]
        self.parts = [
            subprocess.Popen(["stress-ng", "--cpu", "1", "--cpu-load", "45", "--cpu-load-slice", "-10", "-t", seconds], **quiet),
            subprocess.Popen(["fio", "--name=threads", "--filename=" + self.folder + "/t", "--thread", "--numjobs=2", "--rw=randrw", "--bs=8k",
                              "--rate_iops=150,100", *common], **quiet),
            subprocess.Popen(["fio", "--name=process", "--filename=" + self.folder + "/p", "--rw=randread", "--bs=4k", "--rate_iops=400", *common], **quiet),
        ]
        deadline, before, reading = time.time() + 60, {}, 0
        while time.time() < deadline and reading < 3:  # fio lays its files out first: wait until its two threads and its process read
            time.sleep(0.5)
            now = self.reads()
            reading = sum(now[task] - before.get(task, now[task]) >= 100 << 10 for task in now)
            before = now

    def tasks(self):
        """[(pid, tid)] of the load and its children (fio gives each a session of its own); tid None: the process."""
        parents, found = {}, []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    parents[pid] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
        ours = {part.pid for part in self.parts}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        for pid in ours:
            try:
                found += [(pid, None)] + [(pid, int(tid)) for tid in os.listdir(f"/proc/{pid}/task")]
            except FileNotFoundError:
                pass
        return found

    def reads(self):
        """{(pid, tid): bytes read from devices}."""
        read = {}
        for pid, tid in self.tasks():
            try:
                with open(f"/proc/{pid}/task/{tid}/io", encoding="ascii") as file:
                    read[pid, tid] = int(re.search(r"\nread_bytes: (\d+)", file.read()).group(1))
            except (OSError, AttributeError):
                pass
        return read

    def stop(self):
        for part in self.parts:
            try:
                os.killpg(part.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        for part in self.parts:
            part.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- the kernel's counters ----------------------------------------------------------------------------------------------------------------


def read_cpu(text):
    """{cpu: counters}; the fields of /proc/stat in its order."""
    rows = {}
    for line in text.splitlines():
        cells = line.split()
        if cells and cells[0].startswith("cpu"):
            rows[cells[0][3:] or "all"] = [int(cell) for cell in cells[1:11]]
    return rows


def disk_sequences():
    """{device: diskseq}: another one under the same name (a loop device that somebody attached anew) has another number."""
    found = {}
    for name in os.listdir("/sys/class/block"):
        folder = os.path.realpath("/sys/class/block/" + name)
        for place in folder, os.path.dirname(folder):  # a partition's is its disk's
            try:
                with open(place + "/diskseq", encoding="ascii") as file:
                    found[name] = file.read()
                    break
            except OSError:
                found[name] = ""  # Linux before 5.15 has none
    return found


def read_disk(text):
    rows = {}
    for line in text.splitlines():
        cells = line.split()
        rows[cells[2]] = [int(cell) for cell in cells[3:]] + [0] * (20 - len(cells))
    return rows


def read_task(stat, status, sched, io):
    """minflt, majflt, utime, stime, guest time, run delay, switches of both kinds, bytes read, written, cancelled."""
    cells = stat[stat.rindex(")") + 2:].split()  # field 3 of the manual and on
    counts = [int(cells[at - 3]) for at in (10, 12, 14, 15, 43)] + [int(sched.split()[1])]
    counts += [int(re.search(name + r":\s*(\d+)", status).group(1)) for name in (r"\nvoluntary_ctxt_switches", "nonvoluntary_ctxt_switches")]
    return counts + [int(re.search(r"(?m)^" + name + r": (\d+)", io).group(1)) for name in ("read_bytes", "write_bytes", "cancelled_write_bytes")]


class Counters:
    """Looks at everything every STEP seconds until it is told to stop: self.at = [(begin, end, {(kind, name): counters})]."""

    def __init__(self, tasks):
        self.at, self.error, self.stopped = [], None, threading.Event()
        self.disks = disk_sequences()
        self.files = {"cpu": [os.open("/proc/stat", os.O_RDONLY)], "disk": [os.open("/proc/diskstats", os.O_RDONLY)]}
        for pid, tid in tasks:
            folder = f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"
            self.files[pid, tid] = [os.open(f"{folder}/{name}", os.O_RDONLY) for name in ("stat", "status", "schedstat", "io")]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def look(self):
        begin, rows = time.time(), {}
        for key, files in self.files.items():
            texts = [os.pread(file, 1 << 20, 0).decode("ascii", "replace") for file in files]
            if key in ("cpu", "disk"):
                rows.update({(key, name): counts for name, counts in (read_cpu if key == "cpu" else read_disk)(*texts).items()})
            else:
                rows["task", key] = read_task(*texts)
        self.at.append((begin, time.time(), rows))

    def run(self):
        try:
            while not self.stopped.is_set():
                self.look()
                self.stopped.wait(STEP)
            self.look()
        except Exception as error:  # whatever it is, the test has to say so
            self.error = error

    def stop(self):
        self.stopped.set()
        self.thread.join()
        for files in self.files.values():
            for file in files:
                os.close(file)
        if self.error:
            raise self.error
        now = disk_sequences()
        self.same_disks = {name for name, sequence in self.disks.items() if now.get(name) == sequence}

    def steps(self, least, most):
        """Numbers i so that an instant of [least, most] may lie between the looks i and i + 1."""
        return [i for i in range(len(self.at) - 1) if self.at[i][0] <= most and self.at[i + 1][1] >= least]

    def windows(self, first, last, span):
        """Pairs of looks, at the corners of where a window of `span` seconds may have had its edges: it began in `first` and ended in `last`."""
        pairs = set()
        for i in self.steps(*first):
            for j in self.steps(*last):
                longest, shortest = self.at[j + 1][1] - self.at[i][0], self.at[j][0] - self.at[i + 1][1]
                if shortest <= span + SLACK and longest >= span - SLACK:
                    pairs |= {(i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1)}
        return pairs


# ---- what the programs print, from counters: (difference of counters, seconds) -> {head: value} ------------------------------------------------


def cpu_row(d, span):
    total = sum(d[:8]) or 1
    return {head: 100 * d[at] / total for at, head in enumerate(("us", "ni", "sy", "id", "wa", "hi", "si", "st", "gu", "gn"))}


def ratio(above, below):
    return above / below if below else None


def disk_row(d, span):
    row = {"%util": d[9] / span / 10, "aqu-sz": d[10] / span / 1000, "f/s": d[15] / span}
    for letter, at in (("r", 0), ("w", 4), ("d", 11)):
        ios, merged, sectors, ms = d[at:at + 4]
        row.update({f"{letter}/s": ios / span, f"{letter}rqm/s": merged / span, f"{letter}kB/s": sectors / 2 / span, f"{letter}_await": ratio(ms, ios),
                    f"{letter}areq-sz": ratio(sectors / 2, ios), f"%{letter}rqm": ratio(100 * merged, ios + merged)})
    return row


def task_row(d, span):
    percent = 100 / HZ / span
    return {"minflt/s": d[0] / span, "majflt/s": d[1] / span, "%usr": (d[2] - d[4]) * percent, "%system": d[3] * percent, "%guest": d[4] * percent,
            "%CPU": (d[2] + d[3]) * percent, "%wait": d[5] / 1e7 / span, "cswch/s": d[6] / span, "nvcswch/s": d[7] / span, "kB_rd/s": d[8] / 1024 / span,
            "kB_wr/s": d[9] / 1024 / span, "kB_ccwr/s": d[10] / 1024 / span}


# A head, and what one count of it is. Disk: a request a second, its size, a hundredth of what iostat prints; task: a clock tick in % of the interval.
TICK = 100 / HZ / SPAN
CPU = {head: 1.0 for head in ("us", "ni", "sy", "id", "wa", "hi", "si", "st", "gu", "gn")}
DISK = {"r/s": 1 / SPAN, "w/s": 1 / SPAN, "f/s": 1 / SPAN, "d/s": 1 / SPAN, "rkB/s": None, "wkB/s": None, "rrqm/s": 1 / SPAN, "wrqm/s": 1 / SPAN, "%rrqm": 0.5,
        "%wrqm": 0.5, "r_await": 0.01, "w_await": 0.01, "rareq-sz": 0.05, "wareq-sz": 0.05, "aqu-sz": 0.01, "%util": 0.1}
TASK = {"%usr": TICK, "%system": TICK, "%guest": TICK, "%CPU": 2 * TICK, "%wait": TICK, "minflt/s": 1 / SPAN, "majflt/s": 1 / SPAN, "cswch/s": 1 / SPAN,
        "nvcswch/s": 1 / SPAN, "kB_rd/s": 8 / SPAN, "kB_wr/s": 8 / SPAN, "kB_ccwr/s": 8 / SPAN}
SHAPES = {"cpu": (cpu_row, CPU, 0), "disk": (disk_row, DISK, 0.02), "task": (task_row, TASK, 0.02)}


class Range:
    """Least and most of each head over some windows."""

    def __init__(self, counters, pairs, kind, name, span):
        row, self.counts, self.share = SHAPES[kind]
        self.least, self.most = {}, {}
        for i, j in pairs:
            before, after = counters.at[i][2].get((kind, name)), counters.at[j][2].get((kind, name))
            if before is None or after is None:
                continue
            for head, value in row([b - a for a, b in zip(before, after)], span).items():
                if value is not None:
                    self.least[head] = min(value, self.least.get(head, value))
                    self.most[head] = max(value, self.most.get(head, value))

    def wrong(self, program, name, head, value):
        """None, or what is wrong with a value that a program printed; None and 0 are the same for a ratio of nothing."""
        if head not in self.least:
            return f"{name} {head}: {program} {value:.3f}, and there was nothing" if value else None
        count = self.counts[head]
        if count is None:
            count = max(self.most.get(head[0] + "areq-sz", 4), 4) / SPAN
        more = max(self.share * self.most[head], count + 0.011)  # 0.011: what printing rounds away
        if value is not None and self.least[head] - more <= value <= self.most[head] + more:
            return None
        if not value and self.least[head] == self.most[head] == 0:
            return None
        return f"{name} {head}: {program} {value}, the kernel {self.least[head]:.3f} to {self.most[head]:.3f}"


# ---- programs -----------------------------------------------------------------------------------------------------------------------------


class Program:
    """A program that measures for SPAN seconds; afterwards self.first and self.last are where its window's edges may lie."""

    def __init__(self, name, *command):
        self.name, self.begin = name, time.time()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV, text=True)
        self.thread = threading.Thread(target=self.wait)
        self.thread.start()

    def wait(self):
        self.text = self.process.communicate()[0]
        self.end = time.time()

    def finish(self):
        self.thread.join()
        self.span = SPAN
        if self.name == "watop":
            self.report = json.loads(self.text.splitlines()[0])
            self.span = self.report["interval"]
            date, fraction = self.report["time"].rstrip("Z").split(".")
            end = datetime.datetime.strptime(date + "+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp() + float("0." + fraction)
            # The report's time is when its last tick began: its rows are read in the tenth of a second after it, later on a crowded machine.
            pass_over = max(self.end - end, 0.1)
            self.first, self.last = (end - self.span - 0.01, end - self.span + pass_over), (end - 0.01, end + pass_over)
            if not self.begin <= end - self.span < end <= self.end:
                raise ValueError(f"watop's interval of {self.span} s to {self.report['time']} is not in its life")
            if abs(self.span - SPAN) > 0.1:
                raise ValueError(f"watop's interval is {self.span} s")
        else:
            self.first, self.last = (self.begin, self.end - SPAN + SLACK), (self.begin + SPAN - SLACK, self.end)
        if self.first[1] - self.first[0] > LATE:
            raise TimeoutError(f"{self.name} took {self.end - self.begin:.1f} s for {SPAN}")


def watop(verb, *options):
    return Program("watop", WATOP, verb, "--private", "--quiet", "--format", "json", *options, str(SPAN), "1")


def compare(counters, kind, rows, program):
    """rows: {name: {head: value}} as a program printed them. What is wrong, as a list."""
    pairs = counters.windows(program.first, program.last, program.span)
    wrong = [] if pairs else [f"{program.name}: no window"]
    for name, row in rows.items():
        of = Range(counters, pairs, kind, name, program.span)
        found = [of.wrong(program.name, str(name), head, row[head]) for head in of.counts if head in row]
        wrong += [text for text in found if text]
    return wrong


def cpu_case(ours, peer, counters):
    rows = {row["CPU"]: row for row in ours.report["cpu"]}
    loads = json.loads(peer.text)["sysstat"]["hosts"][0]["statistics"][0]["cpu-load"]
    peers = {load["cpu"]: {"us": load["usr"] + load["guest"], "ni": load["nice"] + load["gnice"], "sy": load["sys"], "id": load["idle"], "wa": load["iowait"],
                           "hi": load["irq"], "si": load["soft"], "st": load["steal"], "gu": load["guest"], "gn": load["gnice"]} for load in loads}
    wrong = [f"cpu {name}: the parts of wa do not add up" for name, row in rows.items()
             if abs(row["wa_disk"] + row["wa_uring"] + row["wa_other"] - row["wa"]) > 1e-6]
    return wrong + compare(counters, "cpu", peers, peer) + compare(counters, "cpu", {name: rows[name] for name in peers}, ours)


def disk_case(ours, peer, counters):
    rows = {row["Device"]: row for row in ours.report["disk"]}
    peers = {disk["disk_device"]: dict(disk, **{"%util": disk["util"]}) for disk in json.loads(peer.text)["sysstat"]["hosts"][0]["statistics"][0]["disk"]}
    peers = {name: disk for name, disk in peers.items() if name in counters.same_disks}
    missing = [f"{name} is missing" for name in peers if name not in rows] + ([] if peers else ["no device was there all the time"])
    return missing + compare(counters, "disk", peers, peer) + compare(counters, "disk", {name: rows[name] for name in peers if name in rows}, ours)


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


def task_values(row):
    """pidstat's -1 is its way to say that it could not read."""
    return {head: float(row[head]) for head in TASK if float(row[head]) >= 0}


def task_case(ours, peer, counters):
    rows = {(row["PID"], None): row for row in ours.report["task"] if row["TID"] is None}
    observed = counters.at[0][2]
    peers, wrong = {}, []
    for other in pidstat_rows(peer.text):
        key = int(other["PID"]), None
        row = rows.get(key)
        if ("task", key) not in observed or row is None or row["THR"] != 1:
            continue
        peers[key] = task_values(other)
        # pidstat takes the rss of /proc/PID/stat, which newer kernels only estimate: off by up to 32 pages a core and kind of page; ours is statm's sum.
        if abs(row["RSS"] - float(other["RSS"])) > max(0.02 * row["RSS"], 32 * 4 * (os.cpu_count() or 1) * 2):
            wrong.append(f"{other['PID']} RSS: watop {row['RSS']} pidstat {other['RSS']}")
    if len(peers) < 2:
        wrong.append(f"only {len(peers)} single-threaded tasks seen")
    return wrong + compare(counters, "task", peers, peer) + compare(counters, "task", {key: rows[key] for key in peers}, ours)


def thread_case(ours, peer, counters):
    rows = {(row["PID"], row["TID"]): row for row in ours.report["task"] if row["TID"] is not None}
    of_tid = {key[1]: key for key in rows}
    observed = counters.at[0][2]
    wrong, peers = [], {}
    for other in pidstat_rows(peer.text):
        if other["TID"] == "-" or "fio" not in other["Command"]:
            continue
        key = of_tid.get(int(other["TID"]))
        if key is None:
            wrong.append(f"thread {other['TID']} is missing")
        elif ("task", key) in observed:
            peers[key] = {head: value for head, value in task_values(other).items() if head != "%guest"}
    if len(peers) < 3:
        wrong.append(f"only {len(peers)} threads of fio seen")
    return wrong + compare(counters, "task", peers, peer) + compare(counters, "task", {key: rows[key] for key in peers}, ours)


CASES = {
    "cpu within 1 point of the kernel's counters, as mpstat is": (cpu_case, ["cpu"], ["mpstat", "-P", "ALL", "-o", "JSON"]),
    "disk within 2% or one count of them, as iostat -x is": (disk_case, ["disk", "--all"], ["iostat", "-x", "-y", "-o", "JSON"]),
    "task within 2% or one tick of them, as pidstat is": (task_case, ["task", "--all"], ["pidstat", "-h", "-u", "-d", "-r", "-w"]),
    "task -t within 2% or one tick of them, as pidstat -t is": (thread_case, ["task", "-t", "--all"], ["pidstat", "-h", "-t", "-u", "-d", "-r", "-w"]),
}


def measure(load, names):
    """All programs of these cases at once: {name: what is wrong}, and whether something was held up too long to tell."""
    counters = Counters(load.tasks())
    try:
        running = {}
        for name in names:
            case, ours, peer = CASES[name]
            running[name] = watop(*ours), Program(peer[0], *peer, str(SPAN), "1")
            time.sleep(0.2)  # so that not all of them read at the same instant
        late = {}
        for name, pair in running.items():
            for program in pair:
                try:
                    program.finish()
                except TimeoutError as error:
                    late[name] = str(error)
                except (ValueError, KeyError, IndexError) as error:
                    late[name] = f"{type(error).__name__}: {error}"
        time.sleep(2 * STEP)
    finally:
        counters.stop()
    wrong = {}
    for name, (ours, peer) in running.items():
        try:
            wrong[name] = [late[name]] if name in late else CASES[name][0](ours, peer, counters)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            wrong[name] = [f"{type(error).__name__}: {error}"]
    return wrong


def main():
    load = Load()
    open_names, attempts, last = list(CASES), {}, {}
    try:
        for attempt in range(1, 4):
            for name, wrong in measure(load, open_names).items():
                attempts[name], last[name] = attempt, wrong
                if wrong:
                    print(f"# {name}: attempt {attempt} was off: " + "; ".join(wrong[:6]), flush=True)
            open_names = [name for name in open_names if last[name]]
            if not open_names:
                break
    finally:
        load.stop()
    for name, wrong in last.items():
        tap(not wrong, name + (f" (attempt {attempts[name]})" if attempts[name] > 1 else ""), "\n".join(wrong[:30]))
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())

"""
The truth about who waited for what, and whether what watop shows agrees with it. Nothing here comes from watop.

The lab's programs measure themselves (tests/lab/lab_truth.h): how long each thread waited and for what, and what it ran. A thread of this test
reads that, /proc/stat and /proc/diskstats together 100 times a second, so that all of it is known for exactly the seconds of each report.

All in % of wall time, for one core over one interval. The kernel counts its wa while the core is idle and somebody waits, so with `real` for
storage waits (of a disk or not) and `uring` for idle reactors:

    real  <=  the smaller of wa and the real waiters' own waits (and what strangers had open on devices, while we have no load of our own)
    real  >=  their waits, less all time in which the core was neither idle nor running those waiters
    uring  =  wa - real;  without an idle reactor on the core real = wa;  without a real waiter uring = wa
    (a stranger's reactor that was met there: uring up to that, or none)

On a quiet machine the two lines are a few points apart (interrupts are neither idle nor anybody's), under load further: but what they say holds
under any load, which is what makes the invariants below worth repeating.
"""
import bisect
import calendar
import mmap
import os
import re
import struct
import tempfile
import threading
import time

from lab_machine import TICK, Disturbed, cleanup, lab, reactors, reports, watop

KINDS = ("runs", "disk", "uring", "other", "real")  # enum lab_kind
SLOT = struct.Struct("<IIiiQQQ5Q")
SLOTS, SLOT_BYTES, HEAD_BYTES = 63, 128, 128
PARTS = ("wa_disk", "wa_uring", "wa_other")
BOUNDS = ("wa_disk_min", "wa_disk_max", "wa_uring_min", "wa_uring_max")
TICK_NS = 1e9 / TICK
SOME = 0.05  # % of wall time: less is nothing


def few(value):
    return "-" if value is None else f"{value:.1f}"


def parts_text(row):
    parts = " +".join(few(row[part]) for part in PARTS)
    return f"cpu {row['CPU']}: wa {few(row['wa'])} = {parts}, {row['evidence']}"


def seconds_of(stamp):
    """Wall-clock seconds of an RFC 3339 time with a fraction."""
    whole, fraction = re.match(r"([^.]+)\.(\d+)Z", stamp).groups()
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + fraction)


class Truth:
    """A page that the lab's programs write, and the record of everything over time, which is kept by a thread on a core that is not judged."""

    def __init__(self, core):
        self.core = core

    def __enter__(self):
        fd, self.path = tempfile.mkstemp(prefix="watop-lab-truth-")
        cleanup.callback(lambda: os.path.exists(self.path) and os.unlink(self.path))
        os.ftruncate(fd, HEAD_BYTES + SLOTS * SLOT_BYTES)
        self.page = mmap.mmap(fd, HEAD_BYTES + SLOTS * SLOT_BYTES)
        os.close(fd)
        self.record, self.over = [], threading.Event()
        self.parked, self.looked = set(), 0  # cores with strangers' reactors, at any look
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.page.close()
        os.unlink(self.path)

    def lab(self, name, *options, **more):
        return lab(name, *options, "--truth", self.path, **more)

    def follow(self):
        os.sched_setaffinity(0, {self.core})  # of this thread only
        while True:
            self.record.append(self.look())
            if time.monotonic() > self.looked + 1:
                self.parked |= reactors()
                self.looked = time.monotonic()
            if self.over.wait(0.01):
                return

    def slot(self, index):
        """What a thread has measured; None for a slot that nobody uses. A wait that goes on counts up to now."""
        at = HEAD_BYTES + index * SLOT_BYTES
        for _ in range(100):
            number, kind, core, used, since, cpu, waits, *totals = SLOT.unpack_from(self.page, at)
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            if number % 2 == 0 and number == struct.unpack_from("<I", self.page, at)[0]:
                break
        if not used:
            return None
        if since and kind < len(KINDS) and now > since:
            totals[kind] += now - since
        return core, cpu, waits, totals

    def look(self):
        """(wall clock, monotonic ns, {core: ticks}, device ns, {core: [cpu, disk, uring, other, real]}) of one instant."""
        with open("/proc/stat") as file:
            rows = {int(l.split()[0][3:]): [int(n) for n in l.split()[1:9]] for l in file if l.startswith("cpu") and l[3].isdigit()}
        real, mono = time.time(), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        waits = {}
        for index in range(min(SLOTS, struct.unpack_from("<I", self.page, 0)[0])):
            found = self.slot(index)
            if found:
                core, cpu, _, totals = found
                row = waits.setdefault(core, [0.0] * 5)
                for i, value in enumerate([cpu, *totals[1:]]):
                    row[i] += value
        with open("/proc/diskstats") as file:
            device = sum(sum(map(int, c[6:7] + c[10:11] + c[17:18] + c[19:20])) for c in map(str.split, file)) * 1e6  # all four kinds of ms
        return real, mono, rows, device, waits

    def at(self, when):
        """Everything at a wall-clock instant, between two looks in proportion; and by how many ticks that may be off."""
        times = [entry[0] for entry in self.record]
        i = min(max(1, bisect.bisect_left(times, when)), len(self.record) - 1)
        (t0, m0, rows0, dev0, waits0), (t1, m1, rows1, dev1, waits1) = self.record[i - 1], self.record[i]
        share = min(1.0, max(0.0, (when - t0) / ((t1 - t0) or 1)))

        def mix(a, b):
            return [x + (y - x) * share for x, y in zip(a, b)]
        waits = {core: mix(waits0.get(core, [0.0] * 5), row) for core, row in waits1.items()}
        return mix([m0], [m1])[0], {core: mix(rows0.get(core, row), row) for core, row in rows1.items()}, mix([dev0], [dev1])[0], waits, (t1 - t0) * TICK / 2

    def of(self, core, begin, end, loaded):
        """What is true of a core between two wall-clock instants."""
        (m0, rows0, dev0, waits0, off0), (m1, rows1, dev1, waits1, off1) = self.at(begin), self.at(end)
        wall = m1 - m0
        if wall < 0.9e9 * (end - begin):
            raise Disturbed(f"the looks at the machine stood still: {wall / 1e9:.2f} of {end - begin:.2f} s were seen")
        ticks = [b - a for a, b in zip(rows0[core], rows1[core])]
        wa, idle = max(0.0, 100 * ticks[4] * TICK_NS / wall), 100 * ticks[3] * TICK_NS / wall
        cpu, disk, uring, other, real = (100 * (b - a) / wall for a, b in zip(waits0.get(core, [0.0] * 5), waits1.get(core, [0.0] * 5)))
        waited = disk + other + real
        ours = sum(row[i] - waits0.get(c, [0.0] * 5)[i] for c, row in waits1.items() for i in (1, 4))
        strangers = 0 if loaded else max(0.0, 100 * (dev1 - dev0 - ours) / wall - 1)
        return Fact(core, wall / 1e9, off0 + off1, wa, idle, sum(ticks) * TICK_NS / wall, cpu, disk, uring, other, real, waited, strangers, core in self.parked)


class Fact:
    """What is true of one core over one interval; all in % of wall time."""

    def __init__(self, core, seconds, slack, wa, idle, ratio, cpu, disk, uring, other, real, waited, strangers, parked):
        self.core, self.seconds, self.slack, self.wa, self.idle, self.ratio = core, seconds, slack, wa, idle, ratio
        self.spare = 100 * (2 + slack) / TICK / seconds  # points that two ticks, and the looks' distance, are worth
        self.busy = max(0.0, 100 - wa - idle - cpu)  # neither idle nor the waiters
        low, high = max(0.0, waited - self.busy), min(wa, waited + strangers)
        if waited < SOME:                            # reactors, or nobody
            low, high = 0.0, min(wa, strangers)
        elif uring < SOME and not parked:            # only real waiters
            low = high = wa
        low = min(low, high)
        self.uring = (wa - high, wa - low) if uring >= SOME else (0.0, wa - low) if parked else (0.0, 0.0)
        self.disk = (0.0, high) if real >= SOME else (low, high) if disk >= SOME or waited < SOME else (0.0, min(high, strangers))
        self.other = (0.0, high) if real >= SOME else (max(0.0, low - strangers), high) if other >= SOME else (0.0, min(high, strangers))
        self.words = (f"kernel wa {wa:.1f} id {idle:.1f}, waiters ran {cpu:.1f} and waited disk {disk:.1f} uring {uring:.1f} other {other:.1f} "
                      f"storage {real:.1f}, strangers {strangers:.1f}{', and their reactors' if parked else ''}")

    def __str__(self):
        text = ", ".join(f"{name} {low:.1f}..{high:.1f}" for name, (low, high) in (("disk", self.disk), ("uring", self.uring), ("other", self.other)))
        return f"{text} ({self.words})"


def outside(value, span):
    """By how much a value is outside."""
    return max(0.0, span[0] - value, value - span[1])


def judge_row(row, fact, wrong, where):
    """One core of one report (or of several together) against the truth."""
    spare = fact.spare
    shown = {name: row[name] * fact.ratio for name in (*PARTS, *BOUNDS)}
    exact, parked = row["evidence"] == "exact", row["evidence"] == "parked"
    near = 3 if exact else 10

    def bad(what):
        bounds = f" [disk {row['wa_disk_min']:.1f}..{row['wa_disk_max']:.1f}, uring {row['wa_uring_min']:.1f}..{row['wa_uring_max']:.1f}]"
        wrong.append(f"{where} {parts_text(row)}{bounds}: {what}; truth {fact}")
    if exact:
        for name, span in (("wa_disk", fact.disk), ("wa_uring", fact.uring), ("wa_other", fact.other)):
            if outside(shown[name], span) > 3 + spare / 2:
                bad(f"exact {name} is off by {outside(shown[name], span):.1f}")
    for name in ("disk", "uring"):
        low, high = getattr(fact, name)
        if shown[f"wa_{name}_min"] > high + spare + 0.5:
            bad(f"at least {shown[f'wa_{name}_min']:.1f} {name} is said, which is too much")
        if shown[f"wa_{name}_max"] < low - spare - 0.5:
            bad(f"at most {shown[f'wa_{name}_max']:.1f} {name} is said, which is too little")
        if not shown[f"wa_{name}_min"] - 0.01 <= shown[f"wa_{name}"] <= shown[f"wa_{name}_max"] + 0.01:
            bad(f"{name} is outside its own bounds")
    if parked and outside(shown["wa_uring"], fact.uring) > near + spare:
        bad(f"parked, but uring is off by {outside(shown['wa_uring'], fact.uring):.1f}")
    most = fact.uring[1]
    if shown["wa_uring"] > (0.5 if most < SOME else most + spare + (near if exact or parked else 1)):
        bad("a real wait is called wa_uring")
    if abs(sum(row[part] for part in PARTS) - row["wa"]) > 1e-6:
        bad("the parts do not add up to wa")


def whole(rows, weights):
    """Several reports' rows as one."""
    total = sum(weights) or 1
    row = {name: sum(r[name] * weight for r, weight in zip(rows, weights)) / total for name in (*PARTS, *BOUNDS, "wa")}
    levels = [r["evidence"] for r in rows if r["evidence"]]
    return dict(row, CPU=rows[0]["CPU"], evidence="+".join(sorted(set(levels))) or None)


def judge(found, truth, judged, mode, loaded=False, need_exact=False, told=None):
    """All reports of one run of watop against the truth. Returns (what is wrong, what was seen). told: gets the kernel's wa of each row."""
    wrong, seen = [], []
    for core in judged:
        rows = [next(r for r in report["cpu"] if r["CPU"] == str(core)) for report in found]
        ends = [seconds_of(report["time"]) for report in found]
        spans = [report["interval"] for report in found]
        if any(report["gap"] for report in found):
            wrong.append(f"{mode}: a gap in {[report['gap'] for report in found]}")
            continue
        weights = []  # the core's ticks: a virtual machine's cores do not have all of them
        for index, (row, end, seconds) in enumerate(zip(rows, ends, spans)):
            fact = truth.of(core, end - seconds, end, loaded)
            judge_row(row, fact, wrong, f"{mode} report {index + 1}")
            weights.append(seconds * fact.ratio)
            if told is not None:
                told.append(fact.wa)
            if need_exact and row["evidence"] != "exact" and row["wa"] >= 5:
                wrong.append(f"{mode} report {index + 1} {parts_text(row)}: not exact")
        fact = truth.of(core, ends[0] - spans[0], ends[-1], loaded)
        if not loaded and fact.wa + fact.idle < 10 < fact.busy:
            raise Disturbed(f"others left nothing to measure of core {core}: {fact}")
        row = whole(rows, weights)
        judge_row(row, fact, wrong, f"{mode} all reports")
        ticks = abs(row["wa"] * fact.ratio - fact.wa) / 100 * fact.seconds * TICK
        if ticks > 2 + fact.slack:
            wrong.append(f"{mode} {parts_text(row)}: the sum is {ticks:.1f} ticks from the kernel's {fact.wa:.1f}")
        seen.append(f"{mode} {parts_text(row)} [disk {row['wa_disk_min']:.0f}..{row['wa_disk_max']:.0f} uring {row['wa_uring_min']:.0f}.."
                    f"{row['wa_uring_max']:.0f}], truth {fact}")
    return wrong, seen


def measure(truth, judged, modes, count=2, interval=1, need_exact=False):
    """Run watop in each mode (name, options, what start() needs), one after the other, and judge."""
    wrong, seen = [], []

    for name, options, more in modes:
        found = reports(watop("cpu", *options, "--format", "json", interval, count, **more), 30 + count * interval)[0]
        time.sleep(0.05)  # a look after the last report
        w, s = judge(found, truth, judged, name, need_exact=need_exact and name == "exact")
        wrong.extend(w)
        seen.extend(s)
    return wrong, seen

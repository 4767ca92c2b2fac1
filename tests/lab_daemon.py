"""
watop with little rights, and when something dies or stops under it.
"""
import os
import re
import signal
import subprocess
import time

from lab_machine import (FIELDS, WATOP, Daemon, Screen, Span, as_ordinary_user, core_list, lab, output, reports, start, wait_for, watop)
from lab_truth import PARTS, parts_text
from lab_words import enough, rows_of


def ordinary_user():
    wrong, user = [], as_ordinary_user()
    with lab("reactor", "--cores", core_list()) as reactor:
        span = Span()
        jobs = [watop("cpu", "--format", "json", 1, 3, **user), watop("why", "--format", "json", "-n", 3, **user),
                watop("why", "-n", 3, **user), watop("task", "--all", "--format", "json", 1, 1, **user)]
        (found, said), ((answer,), _), (words, _), ((task,), _) = reports(jobs[0]), reports(jobs[1]), output(jobs[2]), reports(jobs[3])
        span.close()
    enough(span, 20, 5)
    for index, report in enumerate(found):
        for row in report["cpu"]:
            exact = row["wa_uring_min"] == row["wa_uring"] == row["wa_uring_max"]
            marked = row["evidence"] not in ("parked", "exact") or not exact
            if row["wa_uring"] and not marked:
                wrong.append(f"report {index + 1} {parts_text(row)}: wa_uring is not marked")
            if any(row[head] is None for head in ("us", "sy", "id", "wa", "load")) or abs(sum(row[p] for p in PARTS) - row["wa"]) > 1e-6:
                wrong.append(f"report {index + 1}: cells are missing: {row}")
    for core, row in span.core.items():
        if not 0.95 * row["free"] <= row["wa"] or rows_of(found[-1])[core]["wa"] < 10:
            wrong.append(f"cpu{core}: {parts_text(rows_of(found[-1])[core])}, kernel wa {row['wa']:.1f}")
    if answer["answer"] in ("A DISK IS SLOW", "BUSY"):
        wrong.append("why: " + answer["line"])
    if not re.search(r"rights|root|permi", words) and not re.search(r"rights|root|permi", said):
        wrong.append(f"no line says what is missing: {said} {words}")
    row = next((row for row in task["task"] if row["PID"] == reactor.pid), None)
    if not row or row["%CPU"] is None or row["kB_rd/s"] is not None:
        wrong.append(f"task: {row}")
    return wrong, span.text() + f"; {answer['line']} " + " | ".join(parts_text(r) for r in found[-1]["cpu"])


def daemon_killed():
    """A table is followed by tests/daemon.sh: here two at once, a table and the screen, one daemon under both."""
    wrong = []
    with Daemon("100ms") as daemon:
        log = os.path.join(daemon.folder, "table")
        with open(log, "wb") as file, Screen("--ring", daemon.ring, "0.5", size=(120, 30)) as screen:
            def said():
                with open(log, errors="replace") as text:
                    return text.read()
            table = subprocess.Popen([WATOP, "cpu", "--ring", daemon.ring, "0.5"], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            try:
                if wait_for(lambda: "SUM" in said() and re.search(r"^SUM +[\d.]", screen.text(), re.M), 8) is None:
                    raise RuntimeError("the readers did not start: " + said()[-400:] + screen.text())
                daemon.process.kill()
                daemon.process.wait()
                began = time.monotonic()
                took = [wait_for(lambda: "is gone" in said(), 4), wait_for(lambda: "is gone" in screen.text(), 4)]
                if None in took or time.monotonic() - began > 2:
                    wrong.append(f"gone: table {took[0]} s, screen {took[1]} s after it\n{said()[-400:]}\n{screen.text()}")
                with daemon:
                    pid = str(daemon.process.pid)
                    mark = len(said())
                    took = [wait_for(lambda: pid in said()[mark:] and "SUM" in said()[mark:], 5),
                            wait_for(lambda: "is gone" not in screen.text() and pid in screen.text(), 5)]
                    if None in took:
                        wrong.append(f"back ({pid}): table {took[0]}, screen {took[1]}\n{said()[-400:]}\n{screen.text()}")
            finally:
                table.kill()
                table.wait()
    return wrong, f"{took}"


def reader_stopped():
    """A reader sleeps while the ring (1 MiB, a tick each 10 ms) goes round: the writer goes on, the reader resumes with whole frames."""
    wrong = []
    with Daemon("10ms", "1M") as daemon:
        table = start(WATOP, "cpu", "--ring", daemon.ring, "--format", "json", "0.2", "40")
        time.sleep(1)
        rates, lates = [], []
        for stopped in (False, True, False):
            if stopped:
                table.send_signal(signal.SIGSTOP)
            first, t = daemon.status(), time.monotonic()
            time.sleep(6 if stopped else 1)
            last, seconds = daemon.status(), time.monotonic() - t
            table.send_signal(signal.SIGCONT)
            rates.append((last[0] - first[0]) / seconds)
            lates.append((last[1] - first[1]) / seconds)
        found = reports(table, 20)[0]
    if rates[1] < 0.9 * min(rates[0], rates[2], 100) or lates[1] > 2 * max(lates[0], lates[2]) + 5:
        wrong.append(f"ticks/s {rates}, late/s {lates}")
    before = None
    for report in found:
        sums = [sum(row[head] for head in FIELDS) for row in report["cpu"] if row["CPU"] != "SUM"]
        if any(abs(total - 100) > 0.01 for total in sums) or (before and report["seq"][0] < before["seq"][1]) or report["interval"] > 60:
            wrong.append(f"mixed: {report['seq']} after {before and before['seq']}, {report['interval']:.3f} s, cells add up to {sums}")
        before = report
    # What the ring still holds is read late; what it has lost is one longer report.
    longest = max(found, key=lambda report: report["interval"])
    if longest["interval"] > 1 and longest["gap"] != "late":
        wrong.append(f"the long report is not marked: {longest['interval']:.3f} s, gap {longest['gap']}")
    ticks, late = ([round(rate, 1) for rate in each] for each in (rates, lates))
    return wrong, f"ticks/s {ticks} late/s {late}, longest report {longest['interval']:.2f} s, gap {longest['gap']}"


CASES = (
    ("an ordinary user: no wrong word about root's reactors", ordinary_user),
    ("daemon killed under a table and a screen", daemon_killed),
    ("a stopped reader does not disturb the writer", reader_stopped),
)

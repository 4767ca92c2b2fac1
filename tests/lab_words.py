"""
What watop says of waiters in words and tables: the verdict, the threads it names, the screen. An idle io_uring reactor is wa_uring and nobody
else is; who waits for a disk is never called idle; what hides from wa is found by the devices.
"""
import os
import re
import subprocess
import time

from lab_machine import (WATOP, Daemon, Disturbed, Screen, Skip, Span, core_list, cores, disk_of, end, ext4, fuse, lab, output, register,
                         reports, start, wait_for, watop)
from lab_truth import PARTS, parts_text, seconds_of


def rows_of(report):
    """Per core (number -> row); the rows of all and SUM by their names."""
    return {int(r["CPU"]) if r["CPU"].isdigit() else r["CPU"]: r for r in report["cpu"]}


def is_reactor(row, wrong, where):
    """wa is there (of what others left free), and is an idle reactor's."""
    if row["wa"] < 0.95 * (row["wa"] + row["id"]):
        wrong.append(f"{where} {parts_text(row)}: wa is not what is free (id {row['id']:.1f})")
    if row["wa_uring"] is None or row["wa_uring"] < 0.95 * row["wa"]:
        wrong.append(f"{where} {parts_text(row)}: wa_uring below 95% of wa")
    if row["wa_disk"] is None or row["wa_disk"] > 1:
        wrong.append(f"{where} {parts_text(row)}: wa_disk above 1 point")
    if row["evidence"] not in ("parked", "exact"):
        wrong.append(f"{where} {parts_text(row)}: evidence is not parked")


def never_uring(found, most, wrong):
    for index, report in enumerate(found):
        for row in report["cpu"]:
            if row["wa_uring"] is None or row["wa_uring"] > most:
                wrong.append(f"report {index + 1} {parts_text(row)}: wa_uring above {most}")


def enough(span, share, disk=1000):
    """Something to measure was left on each core, and others left the disks alone."""
    if any(row["free"] < share for row in span.core.values()) or span.disk > disk:
        raise Disturbed("the machine was too busy: " + span.text())


# ---- idle reactors ---------------------------------------------------------------------------------------------------------------

def check_why(answer, program, wrong):
    if answer["answer"] != "NOT A DISK":
        wrong.append("why: " + answer["line"])
    if answer["wa_uring"] < 0.95 * answer["wa"] or answer["wa_disk"] > 1 or answer["evidence"] not in ("parked", "exact"):
        wrong.append("why: " + str({k: answer[k] for k in ("wa", *PARTS, "evidence")}))
    group = next((g for g in answer["uring"] if g["PID"] == program.pid), None)
    if not group or not group["threads"].startswith("Proactor0") or group["count"] != len(cores()):
        wrong.append(f"why names {answer['uring']}, not Proactor0.. of {program.pid}")


def reactors():
    wrong = []
    with lab("reactor", "--cores", core_list(), "--mode", "poll") as program:
        span = Span()
        tables, why, text = watop("cpu", "--format", "json", 1, 3), watop("why", "--format", "json", "-n", 3), watop("why", "-n", 2)
        found, answer, words = reports(tables)[0], reports(why)[0][0], output(text)[0]
        span.close()
    enough(span, 20, 5)
    for core, row in span.core.items():
        if row["wa"] < 0.95 * row["free"]:
            wrong.append(f"kernel: cpu{core} wa {row['wa']:.1f} of {row['free']:.1f} not busy")
    for index, report in enumerate(found):
        for core in span.core:
            is_reactor(rows_of(report)[core], wrong, f"report {index + 1}")
    check_why(answer, program, wrong)
    busy = sum(100 - row["free"] for row in span.core.values())
    if busy < 20 * len(span.core) and abs(answer["load"] - busy) > 10 * len(span.core):
        wrong.append(f"why: load {answer['load']:.1f}, the kernel counted {busy:.1f}")
    lines = words.splitlines()
    if not lines or not lines[0].startswith("NOT A DISK. ") or len(lines[0]) > 80 or len(lines) > 13 or "Proactor0" not in words:
        wrong.append("why: " + words)
    return wrong, span.text()


def live_screen():
    """The head of the screen: the verdict, the wa line with its parts, and who sleeps."""
    wrong = []
    with lab("reactor", "--cores", core_list()) as program, Screen("--private") as screen:
        def says():
            text = screen.text()
            wa = re.search(r"^wa +[~<>]?([\d.]+)[~<>]? = disk [~<>]?[\d.]+[~<>]? \+ uring [~<>]?([\d.]+)", text, re.M)
            return re.search(r"^ *not a disk: .*lab_reactor", text, re.M | re.I) and wa and float(wa[2]) >= 0.95 * float(wa[1]) > 0
        span = Span()
        seen = wait_for(says, 12)
        text = screen.text()
        span.close()
        if seen is None:
            enough(span, 20, 5)
            wrong.append("the screen does not say it:\n" + "\n".join(text.splitlines()[:8]))
        screen.tmux("send-keys", "-t", "w", "w")
        if wait_for(lambda: "Proactor0" in screen.text() and f"[{program.pid}]" in screen.text(), 5) is None:
            wrong.append("w does not name the threads:\n" + "\n".join(screen.text().splitlines()[:20]))
    return wrong, span.text()


def iowait_view():
    """The key i, on a daemon that has watched for some seconds: what the ring holds of them is there at once, and the threads are named."""
    wrong = []
    with lab("reactor", "--cores", core_list()), Daemon("1s") as daemon:
        span = Span()
        time.sleep(5)
        with Screen("--ring", daemon.ring, "1", size=(120, 30)) as screen:
            wait_for(lambda: re.search(r"^SUM", screen.text(), re.M), 5)
            screen.tmux("send-keys", "-t", "w", "i")
            seen = wait_for(lambda: re.search(r"^ +\d+ +[\d.~<>]+ .* \.{3,} +.*uring.*Proactor", screen.text(), re.M), 4)
            text = screen.text()
        span.close()
    if seen is None:
        enough(span, 20, 5)
        wrong.append("it does not show them:\n" + "\n".join(text.splitlines()[:10]))
    return wrong, span.text()


def no_wa(name, *options):
    """Nobody waits in a way that the kernel counts: wa is 0 and nobody is blamed."""
    wrong = []
    with lab(name, *options) as program:
        span = Span()
        tables, why = watop("cpu", "--format", "json", 1, 2), watop("why", "--format", "json", "-n", 2)
        found, answer = reports(tables)[0], reports(why)[0][0]
        span.close()
    enough(span, 10)
    for core, row in span.core.items():
        if row["wa"] > 2:
            wrong.append(f"kernel: cpu{core} wa {row['wa']:.1f}")
    never_uring(found, 0, wrong)
    for report in found:
        wrong += [f"{parts_text(row)}: wa above 2" for core, row in rows_of(report).items() if core != "SUM" and row["wa"] > 2]
    blamed = [g for g in answer["uring"] if g["PID"] == program.pid and g["proved"]]
    if answer["answer"] in ("NOT A DISK", "A DISK IS SLOW") or answer["wa_uring"] > 0 or blamed:
        wrong.append(f"why: {answer['line']} {blamed}")
    return wrong, span.text()


def killed():
    wrong = []
    with lab("reactor", "--cores", core_list()) as program:
        tables = watop("cpu", "--format", "json", 1, 5)
        time.sleep(2.4)
        program.kill()
        program.wait()
        at = time.time()
        span = Span()
        found = reports(tables)[0]
        span.close()
    before = after = 0
    for report in found:
        ended = seconds_of(report["time"])
        began = ended - report["interval"]
        if ended < at - 0.1:
            before += any((row["wa_uring"] or 0) > 5 for row in report["cpu"])
        if began >= at:
            after += 1
            never_uring([report], 0, wrong)
            wrong += [f"after: {parts_text(row)}: wa above 2" for core, row in rows_of(report).items() if core != "SUM" and row["wa"] > 2]
    if not before or not after:
        wrong.append(f"{before} reports showed the reactors, {after} lie after them")
    return wrong, span.text()


# ---- who really waits ---------------------------------------------------------------------------------------------------------------

def reader_beside():
    if len(cores()) < 2:
        raise Skip("one core only")
    wrong, (parked, reading) = [], cores()[:2]
    place = os.path.join(ext4(), "data")
    with lab("reader", "--file", place, "--make", 64, "--core", reading), lab("reactor", "--cores", parked):
        span = Span()
        found = reports(watop("cpu", "--format", "json", 1, 6))[0]
        span.close()
    enough(span, 10)
    if span.core[reading]["wa"] < 5:
        raise Disturbed("the reader hardly waited: " + span.text())
    for index, report in enumerate(found):
        rows = rows_of(report)
        row = rows[reading]
        if row["wa_uring"] > 1:
            wrong.append(f"report {index + 1} {parts_text(row)}: the reader's core is called idle")
        if row["wa_disk"] < row["wa"] - 1 - row["wa_other"] or row["wa_disk"] < 0.9 * row["wa"] - 1:
            wrong.append(f"report {index + 1} {parts_text(row)}: the reader's core is not wa_disk")
        if index >= 3:
            is_reactor(rows[parked], wrong, f"report {index + 1}")
    return wrong, span.text() + "; the reactor's core by report: " + " | ".join(parts_text(rows_of(r)[parked]) for r in found)


def reader_and_reactor():
    """On one core, where the reader waits all the time that the core is idle: the bounds must leave room for that."""
    wrong, core = [], cores()[-1]
    place = os.path.join(ext4(), "data")
    with lab("reader", "--file", place, "--make", 64, "--core", core), lab("reactor", "--cores", core):
        span = Span()
        found = reports(watop("cpu", "--format", "json", 1, 4))[0]
        span.close()
    if span.core[core]["wa"] < 5:
        raise Disturbed("the reader hardly waited: " + span.text())
    rows = [rows_of(report)[core] for report in found]
    for index, row in enumerate(rows):
        if row["wa_disk_max"] < 0.9 * row["wa"] - 1 or row["wa_uring_min"] > 0.1 * row["wa"] + 1:
            wrong.append(f"report {index + 1} {parts_text(row)}: all of it is the reader's, but disk is said to be at most "
                         f"{row['wa_disk_max']:.1f}, uring at least {row['wa_uring_min']:.1f}")
    return wrong, span.text() + "; " + " | ".join(parts_text(row) for row in rows)


def file_server_and_reactor():
    """On one core: the kernel counts the reader of a slow file server all the time, so the core's wa is his, though the reactor sleeps too."""
    wrong, core = [], cores()[-1]
    with fuse("--delay", 30) as (_, path), lab("reactor", "--cores", core):
        reader = subprocess.Popen(["dd", "if=" + path, "of=/dev/null", "bs=4k"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=lambda: os.sched_setaffinity(0, {int(core)}))
        register(reader)
        try:
            span = Span()
            found = reports(watop("cpu", "--format", "json", 1, 4))[0]
            span.close()
        finally:
            reader.kill()
            reader.wait()
    if span.core[core]["wa"] < 50:
        raise Disturbed("it hardly waited: " + span.text())
    rows = [rows_of(report)[core] for report in found]
    for index, row in enumerate(rows):
        if row["wa_uring_min"] > 0.1 * row["wa"] + 1 or row["wa_uring"] > 0.3 * row["wa"] + 1:
            wrong.append(f"report {index + 1} {parts_text(row)}: all of it is the file server's reader's, but uring is said to be at least {row['wa_uring_min']:.1f}")
    return wrong, span.text() + "; " + " | ".join(parts_text(row) for row in rows)


def append_fsync():
    wrong, core = [], cores()[-1]
    with lab("uring_append", "--file", os.path.join(ext4(), "log"), "--core", core):
        span = Span()
        tables, why = watop("cpu", "--format", "json", 1, 4), watop("why", "--format", "json", "-n", 3)
        found, answer = reports(tables)[0], reports(why)[0][0]
        span.close()
    if span.core[core]["wa"] < 3:
        raise Disturbed("it hardly waited: " + span.text())
    never_uring(found, 0.5, wrong)
    if answer["wa_uring"] > 0.5 or answer["answer"] == "NOT A DISK":
        wrong.append("why: " + answer["line"])
    return wrong, span.text()


def fuse_reads(*options):
    wrong, core = [], cores()[-1]
    with fuse("--delay", 20) as (_, path), lab("uring_reader", "--file", path, "--core", core, *options):
        span = Span()
        tables, why = watop("cpu", "--format", "json", 1, 3), watop("why", "--format", "json", "-n", 3)
        found, answer = reports(tables)[0], reports(why)[0][0]
        span.close()
    if span.core[core]["wa"] < 3:
        raise Disturbed("it hardly waited: " + span.text())
    never_uring(found, 0.5, wrong)
    if answer["wa_uring"] > 0.5 or answer["answer"] == "A DISK IS SLOW":
        wrong.append("why: " + answer["line"])
    return wrong, span.text()


def aio_writers():
    wrong, place = [], ext4()
    disk = disk_of(place)
    with lab("aio_writers", "--file", os.path.join(place, "aio"), "--writers", 4, "--depth", 32):
        time.sleep(0.5)
        span = Span()
        why, tables = watop("why", "--format", "json", "-n", 2), watop("disk", "--format", "json", 1, 2)
        answer, found = reports(why)[0][0], reports(tables)[0]
        span.close()
    device = next((d for d in answer["disk"] if d["Device"] == disk), None)
    if not device or device["%util"] < 50:
        wrong.append(f"why: {disk} is not busy: {device}")
    if answer["answer"] not in ("BUSY", "A DISK IS SLOW", "WAITING") or disk not in answer["line"]:
        wrong.append("why: " + answer["line"])
    if answer["wa_uring"] > 0.5:
        wrong.append(f"wa_uring {answer['wa_uring']:.1f}")
    if not any(row["Device"] == disk and row["%util"] > 50 and row["aqu-sz"] > 4 for row in found[-1]["disk"]):
        wrong.append(f"disk: no queue on {disk}")
    if max(row["wa"] for row in span.core.values()) > 25:
        wrong.append("wa is not small: " + span.text())
    return wrong, span.text() + f"; {answer['line']}"


def stuck_fault():
    """Its mmap lock is held for good: whoever asks for its command line hangs. The daemon must not, and must name it."""
    wrong = []
    with fuse("--stop", 0) as (server, path), Daemon("1s") as daemon:
        with lab("pagefault", "--file", path) as program:
            try:
                first = daemon.status()
                tables = start(WATOP, "cpu", "--ring", daemon.ring, "--format", "json", "1", "6")
                tasks = start(WATOP, "task", "--all", "--ring", daemon.ring, "--format", "json", "1", "2")
                own = watop("task", "--all", "-t", "--format", "json", 1, 2)
                (seen, _), (own_seen, _) = reports(tasks, 15), reports(own, 15)
                why, text = start(WATOP, "why", "--ring", daemon.ring, "--format", "json", "-n", "2"), watop("why", "-n", 2)
                answer, words = reports(why, 15)[0][0], output(text, 15)[0]
                found = reports(tables, 20)[0]
                last = daemon.status()
            finally:
                end(server)  # its waiters get an error, and end
    if not first or not last or last[1] != first[1] or last[0] - first[0] < 5:
        wrong.append(f"ticks, late: {first} before, {last} after")
    for index, report in enumerate(found):
        if abs(report["interval"] - 1) > 0.1 or report["gap"]:
            wrong.append(f"report {index + 1} is over {report['interval']:.3f} s, gap {report['gap']}")
    if not any(task["PID"] == program.pid for task in answer["D"]) or "WAITING" not in answer["answer"]:
        wrong.append(f"why: {answer['line']} {answer['D']}")
    if f"[{program.pid}]" not in words:
        wrong.append("why: " + words)
    if not any(row["PID"] == program.pid for row in seen[-1]["task"]):
        wrong.append("task --all does not show it")
    states = [(row["TID"], row["S"]) for row in own_seen[-1]["task"] if row["PID"] == program.pid]
    if not any(tid is not None and state == "D" for tid, state in states):
        wrong.append(f"task --all -t shows no thread in D state: {states}")
    return wrong, f"late {first} {last}; {answer['line']}"


CASES = (
    ("one idle reactor a core: wa_uring, threads named, NOT A DISK", reactors),
    ("the live screen says so", live_screen),
    ("the iowait view shows them, and the past", iowait_view),
    ("reactors killed: the next whole interval is clean", killed),
    ("epoll: no wa, nobody blamed", lambda: no_wa("epoller", "--cores", core_list())),
    ("another thread submits: no wa, nobody blamed", lambda: no_wa("foreign", "--core", cores()[-1])),
    ("the kernel's thread submits: no wa, nobody blamed", lambda: no_wa("foreign", "--core", cores()[-1], "--sqpoll", 1)),
    ("a reactor that asks not to be counted: no wa, nobody blamed", lambda: no_wa("reactor", "--cores", core_list(), "--mode", "nowait")),
    ("an O_DIRECT reader beside a reactor: each core its own word", reader_beside),
    ("an O_DIRECT reader and a reactor on one core: the bounds hold", reader_and_reactor),
    ("a reader of a slow file server and a reactor on one core: not the reactor's", file_server_and_reactor),
    ("io_uring append + fsync on ext4 is never wa_uring", append_fsync),
    ("io_uring reads of a slow FUSE file are never wa_uring", fuse_reads),
    ("the same with a poll armed on the same ring", lambda: fuse_reads("--poll", 1)),
    ("4 x QD32 libaio writers: the disk is busy", aio_writers),
    ("stuck in a page fault: no tick is late, why names it", stuck_fault),
)

"""
Waiters with known truth on this machine's own kernel, and what watop says of them: an idle io_uring reactor is wa_uring and nobody else
is; who waits for a disk is never called idle; what hides from wa is found by the devices.

The truth about the cores is /proc/stat's, read around the same seconds, so that a busy machine is measured against what it left free. A
case that something else disturbed is repeated, three times at most, and says what it saw each time; when strangers' waiters were there
or no core was free each time, it proves nothing and is skipped. Everything is given back, also after a failure.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from lab_machine import (FIELDS, WATOP, WATOPD, Daemon, Disturbed, Quiet, Screen, Skip, Span, Watch, cleanup, core_list, cores, disk_of,
                         end, end_programs, ext4, folder, fuse, lab, need_root, output, reports, start, wait_for, watop)

PARTS = ("wa_disk", "wa_uring", "wa_other")
number = failed = 0
quiet = Quiet(40)
deadline = time.monotonic() + 90  # no case is repeated after this


def rows_of(report):
    """Per core (number -> row); the rows of all and SUM by their names."""
    return {int(r["CPU"]) if r["CPU"].isdigit() else r["CPU"]: r for r in report["cpu"]}


def few(value):
    return "-" if value is None else f"{value:.1f}"


def parts_text(row):
    parts = " +".join(few(row[part]) for part in PARTS)
    return f"cpu {row['CPU']}: wa {few(row['wa'])} = {parts}, {row['evidence']}"


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
        stamp = re.match(r"([^.]+)\.(\d+)Z", report["time"])
        ended = calendar(stamp[1]) + float("0." + stamp[2])
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


def calendar(text):
    import calendar as c
    return c.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


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
    if answer["answer"] not in ("BUSY", "A DISK IS SLOW") or disk not in answer["line"]:
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


# ---- little rights, deaths, pauses ---------------------------------------------------------------------------------------------

def ordinary_user():
    need_root()
    if not shutil.which("setpriv"):
        raise Skip("no setpriv")
    wrong, place = [], folder()
    os.chmod(place, 0o755)
    for program in (WATOP, WATOPD):  # where another user may run them; watop finds watopd beside itself
        shutil.copy(program, place)
    user = dict(before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), binary=os.path.join(place, "watop"))
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
    ("one idle reactor a core: wa_uring, threads named, NOT A DISK", reactors),
    ("the live screen says so", live_screen),
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
    ("an ordinary user: no wrong word about root's reactors", ordinary_user),
    ("daemon killed under a table and a screen", daemon_killed),
    ("a stopped reader does not disturb the writer", reader_stopped),
)


def run(name, case):
    """A case, again when it was off. Says each time what was seen."""
    global number, failed
    number += 1
    wrong, seen, others = [], "", []
    for attempt in range(1, 4):
        quiet.wait()
        watch = Watch()
        try:
            with watch:
                wrong, seen = case()
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
            return
        except Disturbed as why:
            wrong, seen = [str(why)], "disturbed"
        except (RuntimeError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            wrong, seen = [f"{type(error).__name__}: {error}"], ""
        if not wrong:
            break
        others = watch.names()
        lines = [f"{name}: attempt {attempt} was off ({seen}; others: {' '.join(others) or 'none'}):", *"\n".join(wrong[:8]).splitlines()]
        print("\n".join("# " + line[:500] for line in lines), flush=True)
        if time.monotonic() > deadline:
            break
    if wrong and (seen == "disturbed" or others):  # nothing was proved: somebody else's waiters are on this machine, or no core is free
        print(f"ok {number} - {name} # SKIP disturbed: {' '.join(others) or wrong[0]}", flush=True)
        return
    again = f" (attempt {attempt})" if attempt > 1 else ""
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}{again}", flush=True)
    if not wrong:
        print(f"# {seen}", flush=True)
    failed += bool(wrong)


def main():
    only = sys.argv[2:]  # words that the names must contain
    for program in (WATOP, WATOPD):
        if not os.access(program, os.X_OK):
            print(f"no {program}")
            return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with cleanup, contextlib.ExitStack() as last:
        last.callback(end_programs)
        for name, case in CASES:
            if not only or any(word in name for word in only):
                run(name, case)
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())

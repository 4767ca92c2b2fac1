"""
Waiters with known truth on this machine's own kernel, and what watop says of them.

    lab.py BUILD [--words | --parts] [--all] [--core N] [--repeat N] [--seed N] [WORD...]

* --words: lab_words.py, what watop says in words and tables; lab_daemon.py, little rights, deaths, pauses
* --parts: lab_parts.py, each kind of waiter and mixtures of them; lab_truth.py holds the parts of wa and their bounds against what the programs
           themselves measured, in each way that watop has of splitting wa: by tracing, without it (--no-bpf), and as an ordinary user

Without --all only the cases that tell most are run. WORDs choose cases by name, among all. --core: the parts are judged there (the last
core). --repeat N judges N reports of each mixed case in each way, most of them over half a second, REPORTS to a start of its programs,
while the load of the machine changes, and counts what was wrong: no repetition is done again. 200 take about 35 minutes.

The truth about the cores is /proc/stat's, read around the same seconds, so that a busy machine is measured against what it left free. A
case that something else disturbed is repeated, three times at most, and says what it saw each time; when strangers' waiters were there
or no core was free each time, it proves nothing and is skipped. Everything is given back, also after a failure.
"""
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import lab_daemon
import lab_parts
import lab_words
from lab_machine import (WATOP, WATOPD, Disturbed, Quiet, Skip, Watch, as_ordinary_user, cleanup, core_list, cores, die_with_us, end, end_programs,
                         register, reports, watop)
from lab_truth import Truth, judge, measure

number = failed = 0
quiet = Quiet(40)
FAULTS = (RuntimeError, OSError, ValueError, KeyError, IndexError, TypeError, StopIteration)


# ---- the ways watop has of splitting wa -------------------------------------------------------------------------------------------

class Ways:
    """exact (by tracing, where this build and kernel can), bounds (without), user (without rights): found out once, when first needed."""

    def __init__(self):
        self.found = None

    def learn(self):
        if self.found is None:
            help_text = subprocess.run([WATOP, "cpu", "--help"], capture_output=True, text=True).stdout
            self.found, self.exact = [], False
            if "--no-bpf" in help_text:
                self.exact = reports(watop("why", "--format", "json", "-n", 1))[0][0].get("tracing") == "attached"
                if self.exact:
                    self.found.append(("exact", (), {}))
                self.found.append(("bounds", ("--no-bpf",), {}))
            else:
                self.found.append(("bounds", (), {}))
            print(f"# ways: {' '.join(name for name, _, _ in self.found)}{'' if self.exact else '; no exact one in this build or on this kernel'}",
                  flush=True)
        return self.found

    def with_user(self):
        with contextlib.suppress(Skip):
            return [*self.learn(), ("user", (), as_ordinary_user())]
        return self.learn()


def watcher():
    return Truth(next((core for core in cores() if core != lab_parts.last()), cores()[0]))


ways = Ways()


def parts_case(name, user):
    """A case of lab_parts.py in every way."""
    found = ways.with_user() if user else ways.learn()
    with watcher() as truth, contextlib.ExitStack() as stack:
        judged = lab_parts.CASES[name](stack, truth)
        time.sleep(0.1)
        wrong, seen = measure(truth, judged, found, need_exact=ways.exact)
    return wrong, "\n".join(seen)


# ---- running -----------------------------------------------------------------------------------------------------------------------

def attempt_once(case):
    """(wrong, seen, others); Skip goes up."""
    watch = Watch()
    try:
        with watch:
            wrong, seen = case()
    except Disturbed as why:
        wrong, seen = [str(why)], "disturbed"
    except FAULTS as error:
        wrong, seen = [f"{type(error).__name__}: {error}"], ""
    return wrong, seen, watch.names()


def run(name, case, deadline):
    """A case, again when it was off. Says each time what was seen."""
    global number, failed
    number += 1
    wrong, seen, others = [], "", []
    for attempt in range(1, 4):
        quiet.wait()
        try:
            wrong, seen, others = attempt_once(case)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
            return
        if not wrong:
            break
        lines = [f"{name}: attempt {attempt} was off ({seen.splitlines()[0] if seen else ''}; others: {' '.join(others) or 'none'}):",
                 *"\n".join(wrong[:8]).splitlines()]
        print("\n".join("# " + line[:700] for line in lines), flush=True)
        if time.monotonic() > deadline:
            break
    if wrong and (seen == "disturbed" or others):  # nothing was proved: somebody else's waiters are on this machine, or no core is free
        print(f"ok {number} - {name} # SKIP disturbed: {' '.join(others) or wrong[0]}", flush=True)
        return
    again = f" (attempt {attempt})" if attempt > 1 else ""
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}{again}", flush=True)
    if not wrong:
        print("\n".join("# " + line for line in seen.splitlines()), flush=True)
    failed += bool(wrong)


def chosen(words, everything, groups):
    """Cases in their order: (name, function)."""
    def wanted(name):
        return not words or any(word in name for word in words)
    for name, case in (*lab_words.CASES, *lab_daemon.CASES):
        if "words" in groups and wanted(name):
            yield name, case
    for name in lab_parts.CASES:
        if "parts" in groups and wanted("parts: " + name) and (words or everything or name in lab_parts.DEFAULT):
            user = everything or name in lab_parts.MIXED and name in lab_parts.DEFAULT
            yield f"parts: {name}", lambda name=name, user=user: parts_case(name, user)


# ---- repetition under changing load -----------------------------------------------------------------------------------------------------

REPORTS = 10  # of one run of watop; each is a repetition


@contextlib.contextmanager
def load_of(level):
    """level: % that stress-ng takes of each core, and whether fio reads on another core than the judged one."""
    started, (share, reads) = [], level
    try:
        jobs = []
        if share and shutil.which("stress-ng"):
            jobs.append(["stress-ng", "--quiet", "--cpu", str(len(cores())), "--cpu-load", str(share), "--taskset", core_list(),
                         "--timeout", "60"])
        if reads and shutil.which("fio"):
            file = os.path.join(lab_parts.place(), "fio")
            jobs.append(["fio", "--name=elsewhere", "--filename=" + file, "--size=32M", "--rw=randread", "--direct=1", "--ioengine=psync",
                         "--time_based", "--runtime=60", f"--cpus_allowed={lab_parts.other()}", "--output=/dev/null"])
        for job in jobs:
            process = subprocess.Popen(job, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_us)
            register(process)
            started.append(process)
        yield
    finally:
        for process in started:
            end(process)


class Load:
    """The load of the machine, another every one or two seconds, in an order that the dice give."""

    def __init__(self, dice):
        self.dice, self.over = dice, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.change, daemon=True)
        self.thread.start()
        return self

    def change(self):
        while not self.over.is_set():
            with load_of((self.dice.choice((0, 0, 0, 10, 30, 60, 90)), self.dice.random() < 0.4)):
                self.over.wait(1 + self.dice.random())

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Score:
    """What the repetitions of one case in one way of splitting came to."""

    def __init__(self):
        self.all = self.telling = self.off = 0
        self.bad = []

    def __str__(self):
        return f"{self.all} repetitions, {self.telling} of them with 5% of wa and more; {len(self.bad)} violations; {self.off} disturbed by strangers"


def repetition(name, found, dice, scores):
    """One start of the case's programs, REPORTS reports in every way at once."""
    interval, turn = dice.choice((0.5, 0.5, 0.5, 1)), []
    with Watch() as watch, Load(dice), watcher() as truth, contextlib.ExitStack() as stack:
        judged = lab_parts.CASES[name](stack, truth)
        time.sleep(dice.random() / 4)
        jobs = [(way, watop("cpu", *options, "--format", "json", interval, REPORTS, **more)) for way, options, more in found]
        taken = [(way, reports(job, 40)[0]) for way, job in jobs]
        time.sleep(0.05)
        for way, rows in taken:
            told = []
            wrong = judge(rows, truth, judged, way, loaded=True, told=told)[0]
            turn.append((way, wrong, told))
    strangers = [who for who in watch.names() if not who.startswith("lab_reactor")]  # reactors are in the truth
    for way, wrong, told in turn:
        score = scores.setdefault((name, way), Score())
        if wrong and strangers:
            score.off += 1
        else:
            score.all += len(told)
            score.telling += sum(wa >= 5 for wa in told)
            score.bad += wrong
        for line in wrong:
            print(f"# {name}, every {interval} s{', disturbed by ' + ' '.join(strangers) if strangers else ''}: {line}"[:900], flush=True)


def repeat(times, words, seed):
    """Each mixed case so many times in every way; load levels in an order that the seed gives."""
    global number, failed
    dice, found, scores = random.Random(seed), ways.with_user(), {}
    names = [name for name in lab_parts.MIXED if not words or any(word in name for word in words)]
    began, turns = time.monotonic(), -(-times // REPORTS)
    for turn in range(turns):
        for name in list(names):
            try:
                repetition(name, found, dice, scores)
            except Skip as why:
                print(f"# {name}: skipped: {why}", flush=True)
                names.remove(name)
            except Disturbed as why:
                scores.setdefault((name, "all"), Score()).off += 1
                print(f"# {name}: {why}", flush=True)
            except FAULTS as error:
                scores.setdefault((name, "all"), Score()).bad.append(str(error))
                print(f"# {name}: {type(error).__name__}: {error}"[:900], flush=True)
        print(f"# turn {turn + 1} of {turns}, {time.monotonic() - began:.0f} s: {sum(s.all for s in scores.values())} repetitions, "
              f"{sum(len(s.bad) for s in scores.values())} violations", flush=True)
    number += 1
    bad = sum(len(score.bad) for score in scores.values())
    failed += bool(bad)
    for (name, way), score in scores.items():
        print(f"# {name}, {way}: {score}")
    print(f"{'not ok' if bad else 'ok'} {number} - the mixed cases under changing load (seed {seed})", flush=True)


def arguments(words):
    """(all, groups, repeat, seed, words)"""
    everything, groups, times, seed, rest = False, ("words", "parts"), 0, 1, []
    words = iter(words)
    for word in words:
        if word == "--all":
            everything = True
        elif word in ("--words", "--parts"):
            groups = (word[2:],)
        elif word == "--core":
            lab_parts.kept["core"] = int(next(words))
        elif word == "--repeat":
            times = int(next(words))
        elif word == "--seed":
            seed = int(next(words))
        else:
            rest.append(word)
    return everything, groups, times, seed, rest


def main():
    everything, groups, times, seed, words = arguments(sys.argv[2:])
    for program in (WATOP, WATOPD):
        if not os.access(program, os.X_OK):
            print(f"no {program}")
            return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    deadline = time.monotonic() + (3600 if everything or words else 200)  # no case is repeated after this
    with cleanup, contextlib.ExitStack() as last:
        last.callback(end_programs)
        if times:
            repeat(times, words, seed)
        else:
            for name, case in chosen(words, everything, groups):
                run(name, case, deadline)
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())

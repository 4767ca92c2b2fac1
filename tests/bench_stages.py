"""
What block tracing costs: ns an event by the kernel's statistics (bench_stages.c), fio's IOPS with and without it, in interleaved rounds, and both
beside bpftrace's biolatency (issue to completion only; its tool is for kprobes, so the same is asked of the tracepoints).

    bench_stages.py TEST-BUILD [--pairs N] [--seconds N]

The disk is a loop device over memory, the fastest that every machine has. Both CPUs of a small machine are full then, so the cost of tracing shows as
IOPS; a machine that is not idle spreads the pairs more than the tracer does.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = sys.argv[1] + "/tests"
ARGS = sys.argv[2:]


def option(name, default):
    return type(default)(ARGS[ARGS.index(name) + 1]) if name in ARGS else default


PAIRS, SECONDS = option("--pairs", 5), option("--seconds", 2)


def fio_iops(disk):
    command = ["fio", "--name=stages", f"--filename={disk}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring", "--iodepth=32", "--numjobs=2",
               "--group_reporting", "--time_based", f"--runtime={SECONDS}", "--output-format=json"]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return json.loads(out[out.index(b"{"):])["jobs"][0]["read"]["iops"]


def fio_pairs(disk):
    values = {"detached": [], "attached": [], "attached, calls too": []}
    records = lost = 0
    for pair in range(PAIRS):
        names = list(values)
        for name in names if pair % 2 == 0 else reversed(names):
            tracer = None
            if name != "detached":
                command = [TESTS + "/bench_stages", "hold"] + (["calls"] if "calls" in name else [])
                tracer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                tracer.stdout.readline()
            values[name].append(fio_iops(disk))
            if tracer:
                counts = tracer.communicate()[0].split()
                records, lost = records + int(counts[0]), lost + int(counts[1])
    print(f"\nfio randread 4k, 2 rings of 32, {PAIRS} rounds of {SECONDS} s: IOPS, median (lowest to highest)")
    base = statistics.median(values["detached"])
    for name, iops in values.items():
        print(f"{name:32} {statistics.median(iops):9.0f} ({min(iops):.0f} to {max(iops):.0f})  {statistics.median(iops) / base:.3f}")
    print(f"{records} records, {lost} lost", flush=True)


BIOLATENCY = ("tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; } "
              "tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ { @us[args->dev] = hist((nsecs - @start[args->dev, args->sector]) / 1000); "
              "delete(@start[args->dev, args->sector]); }")


def programs():
    """Run time and runs of every BPF program there is."""
    out = subprocess.run(["bpftool", "-j", "prog", "show"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {entry["id"]: (entry.get("run_time_ns", 0), entry.get("run_cnt", 0)) for entry in json.loads(out)}


def start_tracer(name):
    if name == "biolatency":
        tracer = subprocess.Popen(["bpftrace", "-e", BIOLATENCY], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    else:
        tracer = subprocess.Popen([TESTS + "/bench_stages", "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tracer.stdout.readline()  # "Attaching 2 probes...", or that it holds
    time.sleep(0.5)
    return tracer


def beside_biolatency(disk):
    if not shutil.which("bpftrace") or not shutil.which("bpftool"):
        print("\nbeside biolatency: skipped: needs bpftrace and bpftool")
        return
    with open("/proc/sys/kernel/bpf_stats_enabled") as file:
        before = file.read()
    values = {"watop": [], "biolatency": []}
    try:
        with open("/proc/sys/kernel/bpf_stats_enabled", "w") as file:
            file.write("1")
        for turn in range(PAIRS):
            for name in values if turn % 2 == 0 else reversed(values):
                others = set(programs())
                tracer = start_tracer(name)
                first = programs()
                iops = fio_iops(disk)
                own = [(ns - first[key][0], runs - first[key][1]) for key, (ns, runs) in programs().items() if key not in others and key in first]
                (tracer.send_signal(signal.SIGINT) if name == "biolatency" else None)
                tracer.communicate()
                values[name].append((sum(ns for ns, _ in own) / (iops * SECONDS), sum(runs for _, runs in own) / (iops * SECONDS), iops))
    finally:
        with open("/proc/sys/kernel/bpf_stats_enabled", "w") as file:
            file.write(before)
    print("\nbeside biolatency, run times counted (that costs both): gross ns and events a request, IOPS; medians (lowest to highest)")
    for name, rows in values.items():
        ns, events, iops = ([row[i] for row in rows] for i in range(3))
        print(f"{name:32} {statistics.median(ns):5.0f} ns ({min(ns):.0f} to {max(ns):.0f})  {statistics.median(events):.1f} events  "
              f"{statistics.median(iops):9.0f} IOPS", flush=True)


def main():
    print("\nblock tracing: ns a run by the kernel's statistics, net of an empty program (5 rounds: medians)", flush=True)
    if subprocess.run([TESTS + "/bench_stages", "5"]).returncode != 0:
        print("stages: skipped: see above")
        return
    if not shutil.which("fio"):
        return
    folder = tempfile.mkdtemp(prefix="watop-bench-", dir="/dev/shm")
    disk = None
    try:
        with open(folder + "/disk", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 256 << 20)
        disk = subprocess.run(["losetup", "-f", "--show", folder + "/disk"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        fio_pairs(disk)
        beside_biolatency(disk)
    finally:
        if disk:
            subprocess.run(["losetup", "-d", disk], check=False)
        shutil.rmtree(folder, ignore_errors=True)


main()

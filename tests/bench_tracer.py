"""
What the exact method costs: ns a run of its programs (bench_tracer.c), and fio's IOPS at queue depth 1 with and without it, in interleaved pairs.

    bench_tracer.py TEST-BUILD [--pairs N] [--seconds N]

The file is in /var/tmp, which has to be on a block device. A machine that is not idle spreads the pairs more than the tracer does.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TESTS = sys.argv[1] + "/tests"
ARGS = sys.argv[2:]


def option(name, default):
    return type(default)(ARGS[ARGS.index(name) + 1]) if name in ARGS else default


PAIRS, SECONDS = option("--pairs", 5), option("--seconds", 3)


def fio_iops(path):
    command = ["fio", "--name=qd1", f"--filename={path}", "--size=64M", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--iodepth=1",
               "--time_based", f"--runtime={SECONDS}", "--output-format=json"]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return json.loads(out[out.index(b"{"):])["jobs"][0]["read"]["iops"]


def fio_pairs(path):
    off, on = [], []
    for pair in range(PAIRS):
        for attached in (False, True) if pair % 2 == 0 else (True, False):
            tracer = subprocess.Popen([TESTS + "/lab_traced", "3600"], stdout=subprocess.PIPE, text=True) if attached else None
            if tracer:
                tracer.stdout.readline()
            (on if attached else off).append(fio_iops(path))
            if tracer:
                tracer.kill()
                tracer.wait()
    spread = (max(off) - min(off)) / statistics.median(off)
    print(f"\nfio randread 4k, queue depth 1, {PAIRS} pairs of {SECONDS} s: IOPS, median (lowest to highest)")
    for name, values in (("detached", off), ("attached", on)):
        print(f"{name:32} {statistics.median(values):9.0f} ({min(values):.0f} to {max(values):.0f})")
    print(f"attached / detached: {statistics.median(on) / statistics.median(off):.3f}; detached runs spread by {spread:.1%}", flush=True)


def main():
    folder = tempfile.mkdtemp(prefix="watop-bench-", dir="/var/tmp")
    path = folder + "/file"
    try:
        with open(path, "wb") as file:
            for _ in range(64):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        print("\nthe exact method: ns a run by the kernel's statistics, net of an empty program (11 rounds: median, lowest to highest)", flush=True)
        if subprocess.run([TESTS + "/bench_tracer", path, "11"]).returncode != 0:
            print("tracer: skipped: see above")
        elif shutil.which("fio"):
            fio_pairs(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()

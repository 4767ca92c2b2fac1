"""Descriptions for lab_log_steps: the six steps of a Dragonfly benchmark on 8 cores, as they were measured (us sy ni id wa hi si st of each core, requests
per second of each client; of 16 and 32 clients only the first, the last and the sum are known, so the others are what is left, in equal parts).

    report_steps.py ROUND [LABEL]      round 1 or 2 of 8 threads (of round 2 the sums are known)
    report_steps.py sums LABEL NAME=SUM...
"""
import sys

CELLS = """\
10.9 13.0 0 0 62.0 3.3 10.9 0|11.7 14.9 0 0 63.8 3.2 6.4 0|19.1 28.7 0 0 37.2 2.1 12.8 0|9.7 11.8 0 0 65.6 2.2 10.8 0|8.7 13.0 0 0 66.3 3.3 8.7 0|11.8 11.8 0 0 63.4 2.2 10.8 0|9.5 14.7 0 0 66.3 2.1 7.4 0|8.7 13.0 0 0 66.3 2.2 9.8 0
14.0 23.7 0 0 43.0 3.2 16.1 0|12.9 22.6 0 0 45.2 4.3 15.1 0|27.1 36.5 0 0 15.6 3.1 17.7 0|10.5 24.2 0 0 46.3 3.2 15.8 0|11.8 22.6 0 0 47.3 3.2 15.1 0|13.8 22.3 0 0 46.8 3.2 13.8 0|14.3 23.5 0 0 43.9 4.1 14.3 0|12.9 24.7 0 0 45.2 3.2 14.0 0
14.1 26.1 0 1.1 35.9 3.3 19.6 0|15.4 26.4 0 0 36.3 2.2 19.8 0|30.6 39.8 0 0 8.2 2.0 19.4 0|14.1 27.2 0 0 35.9 3.3 19.6 0|14.1 27.2 0 0 37.0 3.3 18.5 0|14.0 28.0 0 0 37.6 2.2 18.3 0|17.2 24.7 0 0 36.6 3.2 18.3 0|13.2 28.6 0 0 35.2 3.3 19.8 0
15.2 35.9 0 0 21.7 2.2 25.0 0|15.6 35.6 0 0 21.1 2.2 25.6 0|34.3 40.2 0 0 1.0 2.0 22.5 0|14.3 34.1 0 0 25.3 3.3 23.1 0|16.7 36.7 0 0 22.2 2.2 22.2 0|17.0 37.2 0 0 22.3 2.1 21.3 0|16.5 34.1 0 0 25.3 2.2 22.0 0|16.3 35.9 0 0 21.7 2.2 23.9 0
15.3 38.8 0 0 22.4 2.0 21.4 0|15.8 37.9 0 0 24.2 1.1 21.1 0|37.6 37.6 0 0 3.0 2.0 19.8 0|14.6 37.5 0 1.0 24.0 1.0 21.9 0|14.4 37.1 0 0 24.7 2.1 21.6 0|14.6 38.5 0 0 25.0 2.1 19.8 0|16.2 36.4 0 0 24.2 2.0 21.2 0|15.5 37.1 0 0 23.7 2.1 21.6 0
18.8 39.6 0 0 14.6 3.1 24.0 0|17.7 39.6 0 1.0 15.6 2.1 24.0 0|40.0 37.0 0 0 0.0 1.0 22.0 0|17.4 39.1 0 0 18.5 2.2 22.8 0|19.1 36.2 0 0 19.1 2.1 23.4 0|16.0 39.4 0 0 19.1 2.1 23.4 0|17.5 37.1 0 0 19.6 3.1 22.7 0|17.2 37.6 0 0 18.3 2.2 24.7 0"""
NAMES = ["bench_01", "bench_02", "bench_04", "bench_08", "bench_16", "bench_32"]
P50 = [[0.447], [0.479, 0.487], [0.591, 0.599, 0.607, 0.599], [0.863, 0.871, 0.871, 0.863, 0.879, 0.871, 0.879, 0.879], [1.535, 1.655], [2.559, 2.607]]
RATES = [
    [91166.02],
    [84238.90, 80853.81],
    [64308.68, 61360.98, 61353.46, 61113.48],
    [45612.11, 45349.42, 45169.16, 44776.79, 44702.73, 44605.02, 44563.28, 44466.18],
    [25171.16] + [(394357 - 25171.16 - 24219.53) / 14] * 14 + [24219.53],
    [12338.37] + [(385209 - 12338.37 - 11917.39) / 30] * 30 + [11917.39],
]
ROUND_2 = [95538, 177493, 258431, 342880, 389731, 386091]


def step(out, name, cells, rates, p50, ticks=10):
    out.append(f"phase {name}")
    for n, core in enumerate(cells.split("|")):
        out.append(f"cpu {n} {core}")
    out.append(f"ticks {ticks}")
    for n, rate in enumerate(rates):
        out.append(f"print SET: {rate:.2f} requests per second, p50={p50[min(n, len(p50) - 1)]:.3f} msec")


def idle(out):
    for n in range(8):
        out.append(f"cpu {n} 0.1 0 0 0 99.9 0 0 0")
    out += ["wait uring", "disk sda 0 4 24 0.75 0.2", "task 719118 dragonfly 71 132", "watched 719118", "ticks 2"]


def main(arguments):
    out = []
    if arguments[0] == "sums":
        out.append(f"label {arguments[1]}")
        idle(out)
        for word in arguments[2:]:
            name, value = word.rsplit("=", 1)
            step(out, name, CELLS.splitlines()[0], [float(value)], [0.5], 4)
    else:
        out.append(f"label {arguments[1] if len(arguments) > 1 else 't8'}")
        idle(out)
        for name, cells, rates, p50, sum_2 in zip(NAMES, CELLS.splitlines(), RATES, P50, ROUND_2):
            step(out, name, cells, rates if arguments[0] == "1" else [sum_2 / len(rates)] * len(rates), p50)
    out.append("end")
    print("\n".join(out))


main(sys.argv[1:])

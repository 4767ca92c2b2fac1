#!/usr/bin/env bash
# watop compare: the tables that the first document made by hand (rounds, threads), from logs whose numbers are known; what is within noise; widths, Markdown,
# CSV, JSON; strangers' names; and small real recordings. TAP; 77 without python3.
set -u
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop steps=$bin/tests/lab_log_steps
[ -x "$watop" ] && [ -x "$steps" ] || { echo "no watop in $bin"; exit 77; }
python3 -c 'import json, csv' 2>/dev/null || { echo "no python3"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-compare.XXXXXX") || exit 77
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
cd "$dir" || exit 1
export LC_ALL=C.UTF-8
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | head -30 | sed 's/^/# /'; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
log() { # log NAME ARGUMENT...: of report_steps.py
  local name=$1
  shift
  python3 "$top/tests/report_steps.py" "$@" | "$steps" "$name.watop"
}
run() { out=$("$watop" compare "$@" 2>&1); }
has() { # has TEXT...: each stands in $out, blanks as they come
  local t
  for t in "$@"; do grep -qE "$(sed -E 's/[][().+*^$|]/\\&/g; s/ +/ +/g' <<<"$t")" <<<"$out" || { echo "missing: $t"; printf '%s\n' "$out"; return 1; }; done
}
narrow() { ! awk -v w="$1" 'length > w { exit 1 }' <<<"$out" && return 1 || return 0; }

# ---- rounds: two recordings of one label ----------------------------------------------------------------------------------------------
log a 1 && log b 2 || exit 1
run a.watop b.watop
said=$(has "1 t8 round 1 91,166 165,093 248,137 359,245 394,357 385,209 394,357" "growth +81% +50% +45% +10% (-2%)" \
  "2 t8 round 2 95,538 177,493 258,431 342,880 389,731 386,091 389,731" "growth +86% +46% +33% +14% (-1%)" "2 against 1 +4.8% +7.5% +4.1% -4.6% -1.2% +0.2%" \
  "rounds of a phase differ by up to 7.5% (bench_02; 6 phases with 12" "within noise: bench_16 to bench_32 (1, 2)")
check "rounds: sums, growth and noise of the document" $? "$said"
said=$(has "bench_01 1 211.0 98.2 309.2 39% cpu2 63%" "bench_32 1 469" "1 490.8 0.0 490.8 0.0" "SET p50 ms 0.479-0.487 0.479-0.487")
check "rounds: CPU, wa and latency beside them" $? "$said"
narrow 80
check "rounds: 80 columns" $? "$out"

# ---- threads: the bests grow -------------------------------------------------------------------------------------------------------------
log t1 sums t1 bench_01=95739 bench_16=133430 && log t2 sums t2 bench_01=104047 bench_16=162389 && log t4 sums t4 bench_01=97418 bench_16=283255
run t1.watop t2.watop t4.watop a.watop b.watop
said=$(has "best t1 133,430 t2 162,389 (+22%) t4 283,255 (+74%) t8 394,357 (+39%)" "bench_01 bench_02 bench_04 bench_08 bench_16 bench_32" "4 t8 round 1" "5 against 4")
check "threads 1, 2, 4, 8: growth of the bests, as the document has it; steps in order" $? "$said"
run t1.watop t2.watop
said=$(has "no repetitions: noise not known" "2 against 1 +8.7% +21.7%")
! grep -q 'within' <<<"$out"
check "without repetitions nothing is called noise" $? "$said$out"
check "and the differences stand there" "$([ -z "$said" ]; echo $?)" "$said"

# ---- rounds within one recording (--repeat), as means and one by one ---------------------------------------------------------------------
log r1 sums libaio job=1000 job=1040 job=1020 && log r2 sums io_uring job=1300 job=1330 job=1310 && log r3 sums other job=1010 job=1050 job=1045
run r1.watop r2.watop r3.watop
said=$(has "1 libaio 1,020" "2 io_uring 1,313" "2 against 1 +28.8%" "3 against 1 (+1.5%)" "2 against 1: beyond noise" "3 against 1: within noise" "up to 4.0% (job; 3 phases with 9" \
  "best libaio 1,020 io_uring 1,313 (+29%)")
check "libaio against io_uring: means of rounds, beyond and within noise" $? "$said"
run r1.watop
said=$(has "1 libaio round 1 1,000" "2 libaio round 2 1,040" "2 against 1 +4.0%" "3 libaio round 3 1,020")
check "one recording alone: its rounds" $? "$said"
run --rounds r1.watop r2.watop
said=$(has "4 io_uring round 1 1,300" "4 against 1 +30.0%" "6 against 4 +0.8%" "4 against 1: beyond noise")
check "--rounds: one row a round" $? "$said"

# ---- machine formats -----------------------------------------------------------------------------------------------------------------------
"$watop" compare --format json a.watop b.watop >c.json && "$watop" compare --format csv a.watop b.watop >c.csv && "$watop" compare --format json r1.watop r2.watop r3.watop >r.json
out=$(python3 - 2>&1 <<'PY'
import csv, json
d = json.load(open("c.json"))
rows = d["recordings"]
assert [r["recording"] for r in rows] == ["t8 round 1", "t8 round 2"] and rows[1]["against_number"] == 1 and rows[0]["against_number"] is None
sums = [[91166.02, 165092.71, 248136.60, 359244.69, 394357, 385209], [95538, 177493, 258431, 342880, 389731, 386091]]
for row, wanted in zip(rows, sums):
    assert [p["phase"] for p in row["phases"]] == ["bench_01", "bench_02", "bench_04", "bench_08", "bench_16", "bench_32"]
    before = None
    for p, w in zip(row["phases"], wanted):
        assert abs(p["value"] - w) < 0.2, (p["value"], w)
        growth = None if before is None else 100 * (p["value"] / before - 1)
        assert (p["growth"] is None) == (growth is None) and (growth is None or abs(p["growth"] - growth) < 1e-9)
        before = p["value"]
    assert [p["growth_within_noise"] for p in row["phases"]] == [None, False, False, False, False, True]
    assert [p["best"] for p in row["phases"]] == [False] * 4 + [True, False]
pairs = [(p["value"], q["value"]) for p, q in zip(rows[0]["phases"], rows[1]["phases"])]
assert abs(d["noise"]["percent"] - max(100 * (max(p) / min(p) - 1) for p in pairs)) < 1e-9
# the pooled standard deviation, by the standard library
import statistics
assert abs(d["noise"]["standard_deviation"] - 100 * (sum(statistics.variance(p) / statistics.mean(p) ** 2 for p in pairs) / 6) ** .5) < 1e-9
assert all(abs(q["against"] - 100 * (q["value"] / p["value"] - 1)) < 1e-9 and q["against_within_noise"] is None for p, q in zip(rows[0]["phases"], rows[1]["phases"]))
assert rows[0]["phases"][0]["devices"][0]["Device"] == "sda" and abs(rows[0]["phases"][0]["devices"][0]["w/s"] - 4) < 0.05
p50 = next(r for r in rows[0]["phases"][1]["results"] if r["name"] == "SET p50")
assert p50["value"] is None and p50["least"] == 0.479 and p50["largest"] == 0.487
table = list(csv.DictReader(open("c.csv")))
assert len(table) == 12
for line, p in zip(table, [p for r in rows for p in r["phases"]]):
    assert line["phase"] == p["phase"] and float(line["value"]) == p["value"] and float(line["load"]) == p["load"]
    assert line["growth"] == ("" if p["growth"] is None else line["growth"]) and line["best"] == ("true" if p["best"] else "false")
r = json.load(open("r.json"))
assert [b["label"] for b in r["bests"]] == ["libaio", "io_uring", "other"] and [b["growth_within_noise"] for b in r["bests"]] == [None, False, False]
cell = r["recordings"][0]["phases"][0]
assert cell["rounds"] == 3 and cell["value"] == 1020 and cell["least"] == 1000 and cell["largest"] == 1040
PY
)
check "JSON and CSV: full precision, the same numbers" $? "$out"
run --format md a.watop b.watop
said=$(has "| SET r/s | bench\\\\_01 |" "|---|---:|" "| 1 t8 round 1 | 91,166 |" "### Devices")
[ -z "$said" ] && awk -F'|' '/^\|/ { if (NF != n && n) exit 1; n = NF } !/^\|/ { n = 0 }' <<<"$out"
check "Markdown: tables of equal rows" $? "$said$out"

# ---- choice of the result, blocks, errors ---------------------------------------------------------------------------------------------------
run --result 'SET p50' t1.watop t2.watop
said=$(has "SET p50 ms" "1 t1 0.500" "2 against 1 +0.0%")
check "--result: another one" $? "$said"
run --result nothing t1.watop t2.watop
[ $? = 1 ] && grep -q "there are: 'SET' 'SET p50'" <<<"$out"
check "--result: what is there is named" $? "$out"
run --result 'own sum: ([0-9.]+) requests' t1.watop t2.watop
said=$(has "own" "1 t1 95,739 133,430")
check "--result: a rule of the user's" $? "$said"
words=() && for i in {1..14}; do words+=("a_long_name_$i=$((i * 100))"); done
log w1 sums "a label that is far longer than the room for it" "${words[@]}" && log w2 sums w2 "${words[@]}"
run w1.watop w2.watop
narrow 80 && [ "$(grep -c '^SET r/s' <<<"$out")" -ge 3 ] && [ "$(grep -c '1,400' <<<"$out")" -ge 2 ]
check "many phases: several blocks of 80 columns" $? "$out"
run --wide w1.watop w2.watop
[ "$(grep -c '^SET r/s' <<<"$out")" = 1 ]
check "--wide: one block" $? "$out"
run a.watop missing.watop
[ $? = 1 ] && grep -q missing.watop <<<"$out"
check "a recording that is not there" $? "$out"
run
[ $? = 2 ]
check "no recording: usage" $? "$out"
run --results 3=x a.watop b.watop
[ $? = 2 ]
check "--results of a recording that is not given: usage" $? "$out"

# ---- output made elsewhere ---------------------------------------------------------------------------------------------------------------------
log n1 sums n1 && { python3 "$top/tests/report_steps.py" sums n1 | grep -v '^end'; printf '%s\n' 'phase one' 'ticks 4' 'phase two' 'ticks 4' end; } | "$steps" n1.watop
printf 'one\nSET: 500.00 requests per second, p50=1.000 msec\ntwo\nSET: 900.00 requests per second, p50=1.000 msec\n' >client.log
run --results 1=client.log@bench1 n1.watop t1.watop
said=$(has "1 n1 500.0 900.0")
check "--results: a client's log is joined to its recording" $? "$said"

# ---- strangers -----------------------------------------------------------------------------------------------------------------------------------
printf '%s\n' $'label \033[2J=cmd|<b>' 'cpu 0 10 5 0 80 5 0 0 0' 'disk <x>| 5 5 20 1 3' $'phase \033]0;x\007,"q\n' 'ticks 4' 'print SET: 10.00 requests per second, p50=1.000 msec' end |
  grep -v '^$' | "$steps" s.watop
for f in text md csv json; do
  run --format $f s.watop s.watop
  [ $? = 0 ] && ! grep -q $'[\001-\010\013-\037]' <<<"$out"
  check "strangers' names: harmless as $f" $? "$out"
done
! grep -q '^1,=' <<<"$("$watop" compare --format csv s.watop)" && python3 -c 'import json, sys; json.load(sys.stdin)' <<<"$out"
check "strangers' names: JSON parses" $? "$out"

# ---- real ones -------------------------------------------------------------------------------------------------------------------------------------
real() { "$watop" record -q -i 100ms --repeat 2 --label "$1" -o "$1.rec" -- dd if=/dev/zero of=/dev/null bs="$2" count="$3" >/dev/null 2>&1; }
if real small 4k 400000 && real large 64k 60000; then
  run small.rec large.rec
  said=$(has "dd" "MB/s\|GB/s\|kB/s" "1 small" "2 large" "2 against 1" "rounds of a phase differ by up to" "phase # us+sy" 2>&1)
  grep -q '^1 small' <<<"$out" && grep -q '2 against 1' <<<"$out" && grep -q 'rounds of a phase differ' <<<"$out" && narrow 80
  check "two real recordings, two rounds each" $? "$out"
  "$watop" compare --format json small.rec large.rec >real.json
  out=$(python3 - 2>&1 <<'PY'
import json, subprocess
d = json.load(open("real.json"))
for n, name in enumerate(("small.rec", "large.rec")):
    p = d["recordings"][n]["phases"][0]
    assert p["rounds"] == 2 and p["value"] > 0 and 0 < p["load"] and p["hottest"] <= 101, p
    own = [float(l.split(", ")[-1].split()[0]) for l in open(name + ".out") if "copied" in l]
    assert len(own) == 2
    assert abs(p["value"] / (sum(own) / 2) - 1) < 0.01 or "GB" in open(name + ".out").read(), (p["value"], own)
PY
  )
  check "their results are what dd printed" $? "$out"
else
  skip "two real recordings" "record does not run here"
  skip "their results are what dd printed" "record does not run here"
fi
echo "1..$number"
exit $failed

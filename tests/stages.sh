#!/usr/bin/env bash
# Block latency through the whole of watop: `record --stages` of fio on a loop device of its own, then report, compare, export, replay and the
# live view. Counts are held against the kernel's own of the device and against fio's. TAP; 77 without the programs, the device or tracing.
set -u
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop
[ -x "$watop" ] && [ -x "$bin/watopd" ] || { echo "no watop in $bin"; exit 77; }
for program in python3 fio losetup; do command -v $program >/dev/null || { echo "no $program"; exit 77; }; done
work=$(mktemp -d "${TMPDIR:-/tmp}/watop-stages.XXXXXX") || exit 77
cd "$work" || exit 1
unset TMUX LINES COLUMNS NO_COLOR WATOP_MARK
export TMUX_TMPDIR=$work LC_ALL=C.UTF-8 TZ=UTC
LIMIT=15 number=0 failed=0 loop=''
tm() { SHELL=/bin/sh tmux -L watop-stages -f /dev/null "$@" 2>/dev/null; }
clean() {
  command -v tmux >/dev/null && tm kill-server
  [ -z "$loop" ] || losetup -d "$loop"
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | head -40 | sed 's/^/# /'; fi
}
truncate -s 64M image && loop=$(losetup -f --show image 2>/dev/null) || { loop=''; echo "no loop device"; exit 77; }
name=${loop#/dev/}

# The sums are drained every 50 ms, and a call is judged 300 ms after its end: so the command stays a moment longer.
cat >load <<L
fio --output=fio.json --output-format=json --filename=$loop --bs=4k --size=32M --time_based --runtime=3 \
  --name=reader --rw=randread --direct=1 --ioengine=libaio --iodepth=4 --rate_iops=500 \
  --name=syncer --rw=randwrite --ioengine=sync --fsync=1 --rate_iops=40 --offset=32M
sleep 0.7
L
"$watop" record -q --stages -o a.log -- sh load >record.out 2>record.err </dev/null; status=$?
grep -q 'not to be had' record.err && { echo "no block tracing here"; exit 77; }
[ $status = 0 ] && [ ! -s record.err ]
check "record --stages" $? "$(cat record.err)"

for table in stages bios sync fio; do "$watop" report a.log --whole --format csv --table $table >$table.csv || failed=1; done
"$watop" report a.log --whole --table stages >stages.txt
python3 - "$name" >detail 2>&1 <<'P'
import csv, json, sys
name, bad = sys.argv[1], []
stages = [r for r in csv.DictReader(open("stages.csv")) if r["device"] == name]
kernel = next(r for r in csv.DictReader(open("fio.csv")) if r["device"] == name)
for direction in ("read", "write"):
    q2c = next(r for r in stages if r["direction"] == direction and r["stage"] == "Q2C")
    bios = float(kernel[direction + "_ios"]) + float(kernel[direction + "_merge"])
    # A flush without data is a write to the kernel, a direction of its own here.
    if direction == "write": bios -= sum(float(r["n"]) for r in stages if r["direction"] == "flush" and r["stage"] == "Q2C")
    # While somebody else attaches to an event, one of it can be kept from a tracer.
    if abs(float(q2c["n"]) - bios) > 2: bad.append("%s: %s bios, the kernel counted %g" % (direction, q2c["n"], bios))
    who = sum(float(r["n"]) for r in csv.DictReader(open("bios.csv")) if r["device"] == name and r["direction"] == direction)
    if who != float(q2c["n"]): bad.append("%s: %g bios of processes, %s of the device" % (direction, who, q2c["n"]))
    share = sum(float(r["share_pct"]) for r in stages if r["direction"] == direction and r["stage"] != "Q2C")
    if abs(share - 100) > 1e-6: bad.append("%s: shares add up to %g" % (direction, share))
    shown = [l.split() for l in open("stages.txt") if l.startswith(name + " ") and l.split()[1] == direction]
    tenths = sum(round(float(l[-1]) * 10) for l in shown if l[2] != "Q2C")
    if tenths != 1000: bad.append("%s: shares on the screen add up to %g" % (direction, tenths / 10))
    if not float(q2c["p50_ms"]) <= float(q2c["p95_ms"]) <= float(q2c["p99_ms"]) <= float(q2c["max_ms"]): bad.append("%s: percentiles" % direction)
jobs = json.load(open("fio.json"))["jobs"]
theirs = sum(j["sync"]["total_ios"] for j in jobs)
calls = [r for r in csv.DictReader(open("sync.csv")) if r["file"] == name and r["call"] == "fsync"]
ours = sum(float(r["n"]) for r in calls)
if abs(ours - theirs) > 2: bad.append("%g fsync calls, fio counted %d" % (ours, theirs)) # one at the end of a job
mean = sum(float(r["avg_ms"]) * float(r["n"]) for r in calls) / max(ours, 1)
told = next(j["sync"]["lat_ns"]["mean"] for j in jobs if j["sync"]["total_ios"]) / 1e6
if abs(mean - told) > 0.15 * told + 0.1: bad.append("fsync takes %g ms on average, fio says %g" % (mean, told))
for r in calls:
    parts = sum(float(v) for k, v in r.items() if k.endswith("_pct"))
    if abs(parts - 100) > 1e-6: bad.append("parts of fsync add up to %g" % parts)
print("; ".join(bad) or "%g fsync of %.3f ms, fio %d of %.3f" % (ours, mean, theirs, told))
raise SystemExit(1 if bad else 0)
P
status=$?
check "as many bios as the kernel counted, fsync calls as fio did; shares and parts add up to 100 ($(cat detail))" $status "$(cat detail stages.csv fio.csv sync.csv)"

"$watop" report a.log >report.txt; grep -qE '^[a-zO_ ]+: [0-9]+% of [^ ]+ time ' report.txt && ! awk 'length > 80' report.txt | grep -v '^Disk\|^group\|^rest\|^command' | grep -q .
check "the report has a sentence of it, in 80 columns" $? "$(cat report.txt)"
"$watop" report a.log --format json | python3 -c '
import json, sys
d = json.load(sys.stdin)["details"][0]
assert any(s["stage"] == "Q2C" and s["max_is_bound"] == 1 for s in d["stages"]) and d["sync"] and d["bios"]' 2>err &&
  "$watop" report a.log --format html | python3 -c 'import sys, xml.dom.minidom as m; t = sys.stdin.read(); m.parseString(t); assert "Block latency by stage" in t' 2>>err &&
  "$watop" report a.log --format md --table sync | grep -q '| fio | fsync |'
check "JSON, HTML and Markdown have the tables" $? "$(tail -3 err)"
cp a.log b.log
"$watop" compare a.log b.log >compare.txt && grep -qE "$name read +1 " compare.txt && grep -q 'fio fsync' compare.txt &&
  "$watop" compare a.log b.log --format json | python3 -c '
import json, sys
p = json.load(sys.stdin)["recordings"][0]["phases"][0]
assert any(x["direction"] == "read" and x["p99_ms"] > 0 for x in p["latency"]) and p["sync"][0]["n"] > 0' 2>err
check "compare puts them side by side" $? "$(cat compare.txt err)"
[ "$("$watop" export a.log --scope sync | grep -c ',fio,')" -ge 2 ]
check "export has the scopes" $?
"$watop" record -q -o plain.log -- sleep 0.3 </dev/null && ! "$watop" export plain.log --scope stage >/dev/null 2>&1 && ! "$watop" report plain.log | grep -q 'Q2C'
check "a recording without --stages does not trace" $?

# ---- the view ------------------------------------------------------------------------------------------------------------------------
if ! command -v tmux >/dev/null; then
  echo "1..$number"; exit $failed
fi
wait_until() { local end=$((SECONDS + LIMIT)); until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; read -r -t 0.05 <> <(:); done; return 0; }
shows() { tm capture-pane -p -t w | grep -qE -- "$1"; }
sees() { wait_until shows "$1"; }
key() { tm send-keys -t w "$@"; }
say() { check "$2" "$1" "$(tm capture-pane -p -t w)"; }
# Tall: others may be using devices meanwhile.
tm new-session -d -s w -x 120 -y 70 "exec '$watop' replay --paused a.log"
sees '^SUM'; key . . l
sees "^$name +r +[0-9.]+" && sees 'over time' && sees 'fio +fsync' && sees '[0-9]+ of [0-9]+'
say $? "replay: l shows devices, their past, calls"
before=$(tm capture-pane -p -t w | grep 'over time'); key Down Right; wait_until eval '[ "$(tm capture-pane -p -t w | grep "over time")" != "$before" ]'
say $? "Down takes another device"
tm set -g window-size manual; tm resize-window -t w -x 30 -y 8; sees '^Dev.* avg ms +where' && tm resize-window -t w -x 200 -y 60; sees 'refused'
say $? "narrow and wide"
key Escape; sees '^SUM'; say $? "Esc leaves it"
tm respawn-pane -k -t w "exec '$watop' --private 0.2"; tm resize-window -t w -x 120 -y 70
sees '^SUM +[0-9]'; key l; sees 'traced (by|through)'
say $? "live: l begins to trace"
dd if="$loop" of=/dev/null bs=64k count=64 iflag=direct status=none; sees "^$name +r "
say $? "and shows what is read"
key Escape; sees '^SUM'; key q
say $? "and is left"
echo "1..$number"
exit $failed

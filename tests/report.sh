#!/usr/bin/env bash
# watop report on recordings of real programs: redis-server with 1, 2 and 4 clients at once, twice; sums against the tools' own, per-core rows against
# mpstat, a device against fio; clients in another network and PID namespace whose results are joined; formats. TAP; 77 without the programs.
# Ends only what it started. Loads are a few seconds long.
set -u
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop
[ -x "$watop" ] && [ -x "$bin/watopd" ] || { echo "no watop in $bin"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-report.XXXXXX") || exit 77
cd "$dir" || exit 1
export LC_ALL=C.UTF-8 TZ=UTC
unset WATOP_MARK
pids=() loop='' space=''
clean() {
  local p
  for p in ${pids[@]+"${pids[@]}"}; do kill "$p" && wait "$p"; done 2>/dev/null
  [ -z "$loop" ] || losetup -d "$loop"
  [ -z "$space" ] || ip netns del "$space" 2>/dev/null
  rm -rf "$dir"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | head -30 | sed 's/^/# /'; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
within() { # within SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt "$end" ] || return 1
    sleep 0.05
  done
}
rec() { "$watop" record -q --force -o "$@" </dev/null; }

# ---- wrong use ---------------------------------------------------------------------------------------------------------------------
"$watop" report 2>err; [ $? = 2 ] && grep -q 'which log' err
check "without a log: usage" $? "$(cat err)"
"$watop" report --whole --trim 1s x 2>err; [ $? = 2 ] && "$watop" report --format pdf x 2>>err; [ $? = 2 ]
check "options that exclude each other, unknown formats" $? "$(cat err)"
"$watop" report nothing 2>err; [ $? = 1 ] && [ "$(wc -l <err)" = 1 ]
check "no such log: one line, exit 1" $? "$(cat err)"
head -c 5000 /dev/urandom >noise
"$watop" report noise 2>err; [ $? = 1 ] && grep -q 'not a log' err
check "not a log" $? "$(cat err)"

# ---- whose load, and results before a mark --------------------------------------------------------------------------------------------
mkdir -p none
out=$("$watop" report none 2>&1); [ $? = 1 ] && grep -q 'no log of watopd in this folder' <<<"$out"
check "a folder without a log" $? "$out"
# Children that live and die between samples: their group's cpu.stat, read by the command itself, is the peer.
cat >short.sh <<'S'
end=$((SECONDS + 2))
while [ $SECONDS -lt $end ]; do python3 -c 'sum(range(300000))'; done
mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
awk '$1 == "usage_usec" { print $2 }' "$mount$(sed -n 's/^0:://p' /proc/self/cgroup)/cpu.stat"
S
rec short.log -i 1s -- bash short.sh >usage 2>/dev/null
if "$watop" log short.log | grep -q 'rule cgroup unified' && [ -s usage ]; then
  "$watop" report short.log --whole --table load --format csv >load.csv
  "$watop" report short.log --whole --table phases --format csv >phases.csv
  python3 - <<'P' >detail
import csv
used = int(open("usage").read()) / 1e6
row = next(r for r in csv.DictReader(open("load.csv")) if r["group"] == "command")
seconds = float(next(csv.DictReader(open("phases.csv")))["seconds"])
ours = float(row["load"]) / 100 * seconds
print("%.3f s, cpu.stat %.3f s" % (ours, used))
raise SystemExit(row["load_min"] != row["load_max"] or abs(ours - used) > 0.05 + 0.03 * used)
P
  check "short-lived children count for the command ($(cat detail))" $? "$(cat load.csv)"
else
  skip "short-lived children count for the command" "no group that counts CPU time"
fi
rec before.log -i 200ms -- sh -c 'echo "SET: 1000.00 requests per second, p50=0.5 msec"; sleep 0.2; "$0" mark A; sleep 0.5; "$0" mark end' "$watop" >/dev/null 2>&1
out=$("$watop" report before.log)
grep -q '^sh .*1,000' <<<"$out" && grep -q '^A ' <<<"$out"
check "a result before the first mark has a phase" $? "$out"

# ---- a single command -----------------------------------------------------------------------------------------------------------------
rec one.log -i 200ms -- sh -c 'echo "score: 12.5 points"; sleep 0.7; echo "score: 14.5 points"; exit 3' >/dev/null
out=$("$watop" report one.log --result 'score max: score: ([0-9.]+)' 2>&1) && grep -q '^sh .*14.50' <<<"$out" && grep -q 'exit status 3' <<<"$out"
check "one command is one phase; a rule of the user's; its exit status" $? "$out"
out=$("$watop" report one.log --result 'score: score: ([0-9.]+)' --table results)
grep -q 'score *13.50' <<<"$out"
check "one after another: a rate is averaged" $? "$out"
"$watop" report one.log -o page.txt && ! "$watop" report one.log -o page.txt 2>/dev/null && "$watop" report one.log -o page.txt --force
check "-o does not replace without --force" $?
"$watop" report one.log >/dev/full 2>err; [ $? = 1 ]
check "a full disk is an error" $? "$(cat err)"
mv one.log moved.log && rm one.log.out
out=$("$watop" report moved.log --result 'score max: score: ([0-9.]+)') && grep -q '14.50' <<<"$out"
check "the log alone is enough: it keeps the output" $? "$out"

# ---- per-core rows against mpstat --------------------------------------------------------------------------------------------------------
if command -v mpstat >/dev/null; then
  nice sh -c 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; sleep 0.1; done' & pids+=($!)
  printf 'mp: mpstat -P ALL 1 6\n' >list
  rec mp.log --phases list >/dev/null
  kill "${pids[-1]}"; wait "${pids[-1]}" 2>/dev/null; unset 'pids[-1]'
  "$watop" report mp.log --whole --format csv --table cores >cores.csv
  python3 - <<'P' >detail 2>&1
import csv
ours = {r["cpu"]: r for r in csv.DictReader(open("cores.csv"))}
heads, worst = None, 0
for line in open("mp.log.out"):
    words = line.split()
    if line.startswith("Average:") and "%usr" in line: heads = words[1:]
    elif line.startswith("Average:") and words[1] != "all":
        r = dict(zip(heads, words[1:]))
        for theirs, mine in (("%usr", "us"), ("%nice", "ni"), ("%sys", "sy"), ("%iowait", "wa"), ("%irq", "hi"), ("%soft", "si"), ("%steal", "st"), ("%idle", "id")):
            distance = abs(float(r[theirs]) - float(ours[r["CPU"]][mine]) + (float(ours[r["CPU"]]["gu"]) if mine == "us" else 0))
            worst = max(worst, distance)
print("largest distance", round(worst, 2), "points")
raise SystemExit(0 if heads and worst <= 1 else 1)
P
  s=$?
  check "per-core rows within 1 point of mpstat's ($(cat detail))" $s "$(cat detail cores.csv mp.log.out)"
else
  skip "per-core rows" "no mpstat"
fi

# ---- fio's own Disk stats ----------------------------------------------------------------------------------------------------------------------
# fio reads the device's counters when a job is set up, then every 250 ms while some job has it open, and never after the last one closed it: what was
# done in the last 250 ms or less it does not count. So the jobs end a second before one that holds the device open and asks for one block a second.
if command -v fio >/dev/null && command -v losetup >/dev/null && truncate -s 64M image && loop=$(losetup -f --show image 2>/dev/null); then
  loop_name=${loop#/dev/}
  cat "/sys/block/$loop_name/stat" >stat.before
  rec fio.log -- fio --filename="$loop" --direct=1 --bs=4k --ioengine=libaio --size=60M --time_based --group_reporting \
    --name=job --rw=randrw --numjobs=2 --iodepth=4 --runtime=4 --rate_iops=800 --name=hold --rw=read --numjobs=1 --iodepth=1 --runtime=5 --rate_iops=1 >fio.out 2>&1
  cat "/sys/block/$loop_name/stat" >stat.after
  losetup -d "$loop"; loop=''
  "$watop" report fio.log --format csv --table fio >ours.csv
  python3 - "$loop_name" <<'P' >detail 2>&1
import csv, re, sys
name = sys.argv[1]
ours = next(r for r in csv.DictReader(open("ours.csv")) if r["device"] == name)
text = open("fio.out").read()
m = re.search(r"%s: ios=(\d+)/(\d+),.* merge=(\d+)/(\d+), ticks=(\d+)/(\d+), in_queue=(\d+), util=([\d.]+)%%" % name, text)
names = ("read_ios", "write_ios", "read_merge", "write_merge", "read_ticks", "write_ticks", "in_queue", "util")
theirs = dict(zip(names, map(float, m.groups())))
before, after = ([int(x) for x in open("stat." + w).read().split()] for w in ("before", "after"))
kernel = dict(zip(names, [after[i] - before[i] for i in (0, 4, 1, 5, 3, 7, 10)]))
bad = []
for key, value in theirs.items():
    # util is of fio's time, which ends up to 250 ms before the run does: a point at most, with this load.
    if abs(float(ours[key]) - value) > max(1, value * 0.01): bad.append("%s: %s, fio %g" % (key, ours[key], value))
for key, value in kernel.items():
    if abs(float(ours[key]) - value) > 1: bad.append("%s: %s, the kernel's counter %d" % (key, ours[key], value))
print("; ".join(bad) or "ios %s/%s in_queue %s util %.2f, fio %g/%g %g %.2f" % (ours["read_ios"], ours["write_ios"], ours["in_queue"], float(ours["util"]),
      theirs["read_ios"], theirs["write_ios"], theirs["in_queue"], theirs["util"]))
raise SystemExit(1 if bad else 0)
P
  s=$?
  check "fio's Disk stats within 1% or one request, the kernel's counters exactly ($(cat detail))" $s "$(cat detail ours.csv; tail -3 fio.out)"
else
  skip "fio's Disk stats" "no fio or no loop device"
fi

# ---- redis: phases, rounds, sums, the watched server ----------------------------------------------------------------------------------------------
if ! command -v redis-server >/dev/null || ! command -v redis-benchmark >/dev/null; then
  skip "redis" "no redis-server or redis-benchmark"
  exit $failed
fi
port=$((20000 + $$ % 20000))
redis-server --port $port --save '' --protected-mode no --dir "$dir" >redis.out 2>&1 & pids+=($!)
within 5 redis-cli -p $port ping || { skip "redis" "the server does not start"; exit $failed; }
cat >list <<P
bench_01: redis-benchmark -p $port -t set -n 60000 -q
bench_02: redis-benchmark -p $port -t set -n 30000 -q & redis-benchmark -p $port -t set -n 30000 -q & wait
bench_04: for i in 1 2 3 4; do redis-benchmark -p $port -t set -n 20000 -q & done; wait
P
rec redis.log -i 100ms --phases list --repeat 2 --label rounds --watch redis-server >redis.bench 2>&1
"$watop" report redis.log --format json >redis.json
python3 - <<'P' >detail 2>&1
import json, re
report = json.load(open("redis.json"))
lines = [float(m) for m in re.findall(r"SET: ([\d.]+) requests per second", open("redis.log.out").read().replace("\r", "\n"))]
phases = report["phases"]
assert [(p["phase"], p["round"]) for p in phases] == [(n, r) for r in (1, 2) for n in ("bench_01", "bench_02", "bench_04")], phases
assert len(lines) == 14, lines
at = 0
for p, n in zip(phases, (1, 2, 4, 1, 2, 4)):
    own = sum(lines[at:at + n])
    assert abs(p["result"] - own) < 0.02, (p["phase"], p["result"], own)
    at += n
    assert p["result_name"] == "SET" and p["status"] == 0 and p["load_watched"] > 5, p
    cores = next(d for d in report["details"] if d["title"] == p["phase"] + ("#2" if p["round"] == 2 else ""))["cores"]
    assert abs(sum(c["load"] for c in cores if c["cpu"] != "SUM") - p["load"]) < 0.01
growth = phases[1]["growth_pct"]
assert abs(growth - (phases[1]["result"] / phases[0]["result"] - 1) * 100) < 1e-6 and phases[3]["growth_pct"] is None
assert any(t["Command"] == "redis-server" and t["group"] == "watched" for t in report["details"][0]["tasks"])
print("sums", ", ".join("%.0f" % p["result"] for p in phases))
P
s=$?
check "phases and rounds; sums are the tools' own ($(tail -1 detail))" $s "$(cat detail)"
for repeat in 1 2; do
  rec lead.log --force --repeat $repeat -- sh -c '"$0" mark A; sleep 0.3; exit 3' "$watop"
  "$watop" report lead.log --table phases --format csv >out 2>err && ! grep -v -e ^phase, -e ^A, out && "$watop" report lead.log >out 2>&1 &&
    [ "$(grep -c 'exit status 3' out)" = $repeat ] || break
done && "$watop" report lead.log --phase sh --table phases | grep -q '^sh '
check "the way to a command's first mark is no phase; its exit status is told" $? "$(cat out err)"
out=$("$watop" report redis.log) && awk 'length > 80 { exit 1 }' <<<"$out"
check "text fits 80 columns" $? "$(awk 'length > 80' <<<"$out")"
"$watop" report redis.log -v --table results --phase bench_04#2 >out && [ "$(grep -c 'SET: SET: [0-9.]* requests per second' out)" = 4 ]
check "-v shows each result's line" $? "$(cat out)"
"$watop" report redis.log --format md >out && [ "$(grep -c '^| bench' out)" = 6 ] && grep -q '^|:---|---:' out
check "Markdown" $? "$(head -30 out)"
"$watop" report redis.log --format html >out && head -c 15 out | grep -qi '<!doctype html>' && ! grep -qE '(src|href)="(https?:)?//' out
check "HTML, and nothing in it from elsewhere" $? "$(head -c 300 out)"
size=$(stat -c %s redis.log) bad=''
for cut in 100 300 700 900 990 999; do
  head -c $((size * cut / 1000)) redis.log >cut.log
  "$watop" report cut.log >out 2>err
  s=$?
  [ $s = 0 ] || { [ $s = 1 ] && [ "$(wc -l <err)" = 1 ]; } || bad="$bad $cut:$s"
done
[ -z "$bad" ]
check "a log that was cut off: a report of what is there, or one line" $? "$bad"

# ---- clients in another network and PID namespace, not under record --------------------------------------------------------------------------------
space=watop-report-$$
subnet=10.$((100 + $$ % 100)).$(($$ / 100 % 250))
if ! ip netns add "$space" 2>/dev/null; then
  space=''
  skip "clients elsewhere" "no network namespaces"
else
  ip link add "wr$$a" type veth peer name "wr$$b" netns "$space" && ip addr add "$subnet.1/30" dev "wr$$a" && ip link set "wr$$a" up && ip -n "$space" addr add "$subnet.2/30" dev "wr$$b" &&
    ip -n "$space" link set "wr$$b" up
  cat >client.sh <<P
for n in 1 2 4; do
  echo "MARK bench_0\$n"
  echo "== bench_0\$n =="
  for i in \$(seq \$n); do redis-benchmark -h $subnet.1 -p $port -t set -n \$((40000 / n + 10000)) -q & done
  wait
  echo "MARK end"
done
P
  "$watop" record -q --force -o away.log -i 100ms --watch redis-server & recorder=$!
  pids+=($recorder)
  within 5 sh -c '"$0" log away.log' "$watop"
  ip netns exec "$space" unshare -p -f --mount-proc sh client.sh 2>&1 | while IFS= read -r l; do
    case $l in
      MARK*) "$watop" mark --log away.log "${l#MARK }" ;;
      *) printf '%s %s\n' "$(date -u -d '-90 seconds' +%Y-%m-%dT%H:%M:%S.%NZ)" "$l" ;; # a clock that is 90 s behind
    esac
  done >client.log
  kill -INT $recorder; wait $recorder; unset 'pids[-1]'
  sed 's/^[^ ]* //' client.log >marks.log
  grep -v '==' client.log >times.log
  for way in client marks times; do
    offset=''
    [ $way != times ] || offset='--offset 90'
    "$watop" report away.log --results $way.log@bench1 $offset --format json >away.json
    python3 - $way <<'P' >detail 2>&1
import json, re, sys
report, way = json.load(open("away.json")), sys.argv[1]
lines = [float(m) for m in re.findall(r"SET: ([\d.]+) requests per second", open("client.log").read().replace("\r", "\n"))]
assert len(lines) == 7, lines
at = 0
for p, n in zip(report["phases"], (1, 2, 4)):
    own = sum(lines[at:at + n])
    at += n
    assert p["result"] is not None and abs(p["result"] - own) < 0.02, (p["phase"], p["result"], own)
source = report["report"]["sources"][0]
assert source["host"] == "bench1" and source["by"] == ("time" if way == "times" else "marks")
if way != "marks": assert abs(source["clock_offset"] - 90) < 0.5, source
else: assert source["clock_offset"] is None
print("offset", source["clock_offset"])
P
    s=$?
    check "clients elsewhere, joined: $way.log ($(tail -1 detail))" $s "$(cat detail; head -5 $way.log)"
  done
  out=$("$watop" report away.log --results client.log@bench1) && grep -qE 'results from client.log \(bench1, by marks; clock offset \+(89|90)[0-9]{3}' <<<"$out"
  check "the clock offset is shown" $? "$(head -6 <<<"$out")"
  "$watop" report away.log --results missing.log 2>err; [ $? = 1 ] && grep -q missing.log err
  check "a --results file that is not there" $? "$(cat err)"
fi
[ $failed = 0 ]

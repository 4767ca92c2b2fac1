#!/usr/bin/env bash
# Logs as programs see them: what watopd --log writes says what live readers said; cut, flipped, killed, full; exported; read by another version. TAP; 77
# when /dev/shm is no tmpfs. Ends only what it started.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
bin=${WATOP_BIN:-build}
watop=$bin/watop watopd=$bin/watopd
for program in "$watop" "$watopd"; do [ -x "$program" ] || { echo "no $program"; exit 77; }; done
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || { echo "/dev/shm is not a tmpfs"; exit 77; }

dir=$(mktemp -d /dev/shm/watop-test.XXXXXX) || exit 77
pids=() mounted=
clean() {
  local p
  for p in "${pids[@]}"; do kill -9 "$p" && wait "$p"; done 2>/dev/null
  [ -n "$mounted" ] && umount "$mounted"
  rm -rf "$dir"
}
trap clean EXIT
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && echo "# $3" | head -5; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
within() {
  local end=$(($(date +%s) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -ge "$end" ] && return 1
    sleep 0.05
  done
}
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  pids+=("$pid")
}
# ask VERB TEXT: one request to the control socket, as sample/control.h has it; prints the answer's value and text
ask() {
  python3 - "$dir/control" "$@" <<'PY'
import socket, struct, sys
path, verb, text = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(5)
s.connect(path)
s.send(struct.pack("<IIIIQ200s", 0x43505457, 1, verb, len(text), 0, text))
magic, version, verb, error, value, tick, scopes, length, text = struct.unpack("<IIIiQQII200s", s.recv(240))
print(value, text[:length].decode(errors="replace"))
sys.exit(error != 0)
PY
}
mark() { ask 3 "$1"; }
status() { ask 4 ""; }

: >"$dir/empty.ini"
daemon() { # daemon LOGFOLDER [options]
  local logs=$1
  shift
  start "$dir/watopd.out" "$watopd" --config "$dir/empty.ini" --ring "$dir/ring" --socket "$dir/control" --interval 200ms --log "$logs" "$@"
  daemon=$pid
  within 10 test -S "$dir/control"
}

# ---- live and log say the same -------------------------------------------------------------------------------------------------
daemon "$dir/logs"
check "watopd --log starts" $? "$(cat "$dir/watopd.out")"
readers=()
for verb in cpu disk "task --all"; do
  # shellcheck disable=SC2086
  start "$dir/err-${verb%% *}" sh -c '"$1" $2 --ring "$3/ring" --quiet --format json 400ms 8 >"$3/live-$4"' sh "$watop" "$verb" "$dir" "${verb%% *}"
  readers+=("$pid")
done
sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); /bin/true & [ $((i % 50)) = 0 ] && wait; [ $i -gt 400 ] && break; done; wait' &
for p in "${readers[@]}"; do wait "$p"; done
wait $!
mark "first" >"$dir/mark1" && sleep 1 && mark "end" >/dev/null && mark $'evil\e[31m' >/dev/null
check "marks are taken" $?
file=$(ls "$dir"/logs/watop-*.log)
within 5 grep -q . "$file"
for verb in cpu disk "task --all"; do
  name=${verb%% *}
  read -r from to < <(python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(lines[0]["seq"][0], lines[-1]["seq"][1])' "$dir/live-$name")
  # shellcheck disable=SC2086
  "$watop" $verb --log "$file" --from "#$from" --to "#$to" --quiet --format json 400ms >"$dir/log-$name" 2>"$dir/err"
  [ "$(wc -l <"$dir/live-$name")" = 8 ] && cmp "$dir/live-$name" "$dir/log-$name" >"$dir/cmp"
  check "$verb of the log is byte for byte what live printed" $? "$(cat "$dir/cmp" "$dir/err")"
done
out=$(timeout 30 "$watop" why --log "$file" --quiet 2>&1) && [ -n "$out" ]
check "why of a log" $? "$out"
out=$(timeout 20 "$watop" cpu --log "$file" --quiet --format csv 200ms 3 2>&1)
[ "$(printf '%s\n' "$out" | wc -l)" -ge 10 ]
check "a log that grows is read" $? "$out"

# ---- watop log -------------------------------------------------------------------------------------------------------------------
"$watop" log "$file" >"$dir/text" 2>&1
check "watop log of a growing log" $? "$(cat "$dir/text")"
grep -q 'growing' "$dir/text" && grep -q '^gaps  ' "$dir/text" && grep -q '^damage    none' "$dir/text" && ! grep -q $'\e' "$dir/text"
check "it says what it is, and escapes are harmless" $? "$(cat "$dir/text")"
kill -TERM "$daemon"
wait "$daemon"
"$watop" log --format json "$file" >"$dir/log.json" && python3 - "$dir/log.json" "$dir/mark1" <<'PY'
import json, sys
log, mark = json.load(open(sys.argv[1])), int(open(sys.argv[2]).read().split()[0])
assert log["finished"] and not log["growing"] and log["damage"] == {"blocks": 0, "bytes": 0, "torn": 0}, log
assert log["frames"] == log["seq"][1] - log["seq"][0] + 1 and abs(log["interval"] - 0.2) < 1e-9, log
first = log["phases"][0]
assert first["name"] == "first" and first["seq"][0] == mark and 0.9 < first["seconds"] < 5 and not first["open"], first
assert log["phases"][1]["open"] and log["extra"] == 3 and len(log["marks"]) == 3, log
assert log["processes"] > 10 and log["machine"]["kernel"] and sum(s["bytes"] for s in log["scopes"].values()) <= log["bytes"], log
PY
check "watop log --format json of a finished one" $? "$(head -c 600 "$dir/log.json")"
out=$("$watop" cpu --log "$file" --phase first --quiet --format json 200ms 2>&1)
printf '%s\n' "$out" | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
first = json.load(open(sys.argv[1]))["phases"][0]["seq"]
assert lines[0]["seq"][0] == first[0] and lines[-1]["seq"][1] <= first[1] and len(lines) >= 4, (first, lines)' "$dir/log.json"
check "cpu --phase" $? "$out"
"$watop" cpu --log "$file" --phase none >"$dir/out" 2>&1
[ $? = 1 ] && grep -q 'phases: first' "$dir/out"
check "an unknown phase: exit 1, and which there are" $? "$(cat "$dir/out")"
"$watop" cpu --from +1s >"$dir/out" 2>&1
[ $? = 2 ]
check "--from without --log: exit 2" $?
mode=$(stat -c %a "$file") folder=$(stat -c %a "$dir/logs")
[ $((0$mode & 0137)) = 0 ] && [ $((0$folder & 027)) = 0 ]
check "nobody else may read it" $? "$mode $folder"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  { grep -v '^watop:' /etc/group; echo watop:x:4321:; } >"$dir/group"
  unshare -m bash -c 'mount --bind "$1/group" /etc/group || exit 77
    "$2" --config "$1/empty.ini" --ring "$1/ring2" --socket "$1/control2" --interval 100ms --log "$1/logs2" 2>"$1/err2" & d=$!
    for ((i = 0; i < 200; i++)); do [ -s "$(echo "$1"/logs2/*.log)" ] && break; sleep 0.05; done
    stat -c "%a %g" "$1/logs2" "$1"/logs2/*.log >"$1/modes"
    kill "$d"; wait "$d"' bash "$dir" "$(realpath "$watopd")"
  s=$?
  if [ $s = 77 ]; then skip "root's logs are for group watop" "no bind mount"; else
    [ "$(tr '\n' ';' <"$dir/modes")" = "2750 4321;640 4321;" ]
    check "root's logs are for group watop, though root can give nothing away any more" $? "$(cat "$dir/modes" "$dir/err2")"
  fi
else
  skip "root's logs are for group watop" "needs root and a mount namespace"
fi

# ---- export ------------------------------------------------------------------------------------------------------------------------
"$watop" export -o "$dir/csv" "$file" 2>"$dir/err" && "$watop" export --raw -o "$dir/raw" "$file" 2>>"$dir/err" &&
  "$watop" export --format json "$file" >"$dir/all.jsonl" 2>>"$dir/err"
check "export" $? "$(cat "$dir/err")"
"$watop" metrics --format json >"$dir/metrics.json" 2>/dev/null
python3 - "$dir" >"$dir/out" 2>&1 <<'PY'
import csv, json, os, sys
folder = sys.argv[1]
rates = list(csv.DictReader(open(folder + "/csv/cpu.csv", newline="")))
raw = {(r["to"], r["key"]): r for r in csv.DictReader(open(folder + "/raw/cpu.csv", newline=""))}
checked = 0
for row in rates:
    a, b = raw.get((row["from"], row["key"])), raw[row["to"], row["key"]]
    assert row["cpu.user"] != "" and row["gone"] == ""
    if a:
        times = ["cpu." + n for n in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")]
        grown = {n: int(b[n]) - int(a[n]) for n in times}
        if min(grown.values()) < 0:
            continue  # the kernel took iowait back
        got = float(row["cpu.user"]) / sum(float(row[n]) for n in times)
        assert abs(got - grown["cpu.user"] / sum(grown.values())) < 1e-9, (got, grown)
        # the row's own time is not quite the frame's
        assert 0.5 < sum(float(row[n]) for n in times) * float(row["interval"]) / sum(grown.values()) < 2, (row, grown)
        checked += 1
assert checked > 10, checked
scopes = {}
for line in open(folder + "/all.jsonl", encoding="utf-8"):
    row = json.loads(line)
    scopes.setdefault(row["scope"], row)
for name, row in scopes.items():
    heads = next(csv.reader(open(f"{folder}/csv/{name}.csv", newline="")))
    assert [k for k in row if k.startswith(name + ".")] == heads[8:], name
    for line in csv.reader(open(f"{folder}/csv/{name}.csv", newline="")):
        assert len(line) == len(heads), (name, line)
assert {"cpu", "disk", "process", "system", "vm", "net", "self", "fact"} <= set(scopes), scopes.keys()
# the kernel's own file, some seconds later: never less
with open("/proc/stat") as stat:
    user = int(next(l for l in stat if l.startswith("cpu0 ")).split()[1]) * 10**9 // os.sysconf("SC_CLK_TCK")
last = [r for r in csv.DictReader(open(folder + "/raw/cpu.csv", newline="")) if r["key"] == "0"][-1]
assert 0 < int(last["cpu.user"]) <= user, (last, user)
PY
check "every metric, rates are the raw counters' growth, /proc/stat agrees" $? "$(tail -3 "$dir/out")"
"$watop" export -o "$dir/csv" "$file" >"$dir/out" 2>&1
[ $? = 1 ] && grep -q exists "$dir/out"
check "files that are there are not replaced" $? "$(cat "$dir/out")"
out=$("$watop" export --scope cpu --from '#3' --to '#6' "$file" 2>/dev/null | cut -d, -f4,5 | sort -u | tr '\n' ' ')
[ "$out" = "3,4 4,5 5,6 from,to " ]
check "export of a part" $? "$out"

# ---- damage --------------------------------------------------------------------------------------------------------------------------
size=$(stat -c %s "$file") bad=0
for i in $(seq 1 20); do
  cut=$((size * i / 21))
  head -c "$cut" "$file" >"$dir/cut.log"
  "$watop" log "$dir/cut.log" >"$dir/out" 2>&1
  s=$?
  [ $s = 0 ] || { [ $s = 1 ] && [ "$cut" -lt 20000 ]; } || bad="cut at $cut: exit $s: $(head -c 200 "$dir/out")"
done
[ "$bad" = 0 ]
check "cut anywhere" $? "$bad"
bad=$(python3 - "$watop" "$file" "$dir/flip.log" <<'PY'
import random, subprocess, sys
watop, path, copy = sys.argv[1:]
good = open(path, "rb").read()
random.seed(1)
for i in range(25):
    at = random.randrange(64, len(good))
    with open(copy, "wb") as file:
        file.write(good[:at] + bytes([good[at] ^ 1 << random.randrange(8)]) + good[at + 1:])
    run = subprocess.run([watop, "log", copy], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode not in (0, 1) or (run.returncode == 1 and at > 20000):
        print(at, run.returncode, run.stderr)
PY
)
[ -z "$bad" ]
check "a flipped bit anywhere" $? "$bad"
for wrong in /dev/null "$dir" "$dir/none" "$dir/empty.ini" "$watop"; do
  "$watop" log "$wrong" >"$dir/out" 2>&1
  [ $? = 1 ] && [ "$(wc -l <"$dir/out")" = 1 ]
  check "not a log: ${wrong##*/}" $? "$(head -3 "$dir/out")"
done

# ---- SIGKILL, and a second start ----------------------------------------------------------------------------------------------------
daemon "$dir/killed"
within 10 sh -c '"$1" log --format json "$2"/killed/*.log | grep -q "\"frames\":[1-9][0-9]"' sh "$watop" "$dir"
{ kill -9 "$daemon" && wait "$daemon"; } 2>/dev/null
out=$("$watop" log "$dir"/killed/*.log 2>&1) && printf '%s\n' "$out" | grep -q 'did not end it' && printf '%s\n' "$out" | grep -q 'damage    none'
check "the daemon killed: all of its log reads" $? "$out"

# ---- a full disk -----------------------------------------------------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && mkdir "$dir/small" && mount -t tmpfs -o size=1m,mode=700 none "$dir/small" 2>/dev/null; then
  mounted=$dir/small
  daemon "$dir/small/logs"
  within 10 sh -c '"$1" log --format json "$2"/small/logs/*.log | grep -q "\"frames\":[1-9]"' sh "$watop" "$dir"
  head -c 2M /dev/zero >"$dir/small/fill" 2>/dev/null
  within 20 grep -q 'stopped: No space left' "$dir/watopd.out"
  check "a full disk stops the log, and it is said" $? "$(cat "$dir/watopd.out")"
  out=$(status)
  printf '%s\n' "$out" | grep -q 'log stopped: No space left'
  check "status says so" $? "$out"
  "$watop" cpu --ring "$dir/ring" --quiet 200ms 2 >"$dir/out" 2>&1
  check "sampling goes on" $? "$(cat "$dir/out")"
  kill -TERM "$daemon"
  wait "$daemon"
  out=$("$watop" log "$dir"/small/logs/*.log 2>&1) && printf '%s\n' "$out" | grep -q 'damage    none'
  check "what is there reads" $? "$out"
else
  skip "a full disk" "needs root and tmpfs mounts"
fi

# ---- another version ---------------------------------------------------------------------------------------------------------------------
# One metric less, and one more in its place: slots of that scope move.
if command -v "${CC:-cc}" >/dev/null && [ -f "$top/sample/metrics.def" ]; then
  mkdir -p "$dir/variant/sample"
  sed -e '/^METRIC(SYSTEM, SUB_DSTATE,/d' \
    -e 's|^METRIC(SYSTEM, CTXT,|METRIC(SYSTEM, WARP, "system.warp", COUNTER, COUNT, 0, "nowhere", "Warp.")\n&|' "$top/sample/metrics.def" >"$dir/variant/sample/metrics.def"
  sources=()
  for name in log log_code log_map log_reader rows frame schema sample state metric word trust; do sources+=("$top/sample/$name.c"); done
  build() { "${CC:-cc}" -w -std=gnu11 -D_GNU_SOURCE -DWATOP_VERSION='"0"' -I"$1" -I"$top" "${sources[@]}" "$top/tests/log_peer.c" -lzstd -lz -lm -o "$2"; }
  build "$top" "$dir/ours" 2>"$dir/err" && build "$dir/variant" "$dir/other" 2>>"$dir/err"
  check "the variant builds" $? "$(cat "$dir/err")"
  for w in ours other; do "$dir/$w" write "$dir/$w.peer"; done
  for w in ours other; do
    for r in ours other; do "$dir/$r" read "$dir/$w.peer" >"$dir/$w-$r" || echo failed >"$dir/$w-$r"; done
  done
  common() { grep -vE '^system\.(warp|sub_dstate) ' "$1"; }
  absent() { [ "$(grep -cE "^system\.$2 [0-2] -$" "$1")" = 3 ]; }
  cmp -s <(common "$dir/ours-ours") <(common "$dir/other-ours") && [ "$(wc -l <"$dir/ours-ours")" -gt 500 ]
  check "ours reads the other's log: what both know is the same" $? "$(diff "$dir/ours-ours" "$dir/other-ours" | head -4)"
  absent "$dir/other-ours" sub_dstate && grep -qE 'sub_dstate [0-2] [0-9]' "$dir/ours-ours"
  check "and what it lacks is absent" $?
  cmp -s <(common "$dir/other-other") <(common "$dir/ours-other") && absent "$dir/ours-other" warp && grep -qE 'warp [0-2] [0-9]' "$dir/other-other"
  check "the other reads ours" $?
else
  skip "another version" "no C compiler"
fi
echo "1..$number"
exit $failed

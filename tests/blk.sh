#!/usr/bin/env bash
# watop blk --from: recorded traces explained, held against blkparse and btt run on the same files. TAP. Reads tests/data; starts nothing else.
set -u
watop=${WATOP_BIN:-build}/watop
source=${WATOP_SOURCE:-.}
data=$source/tests/data
export LC_ALL=C.UTF-8
[ -x "$watop" ] || { echo "no $watop"; exit 77; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-test.XXXXXX") || exit 77
trap 'rm -rf "$dir"' EXIT
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && sed 's/^/# /' <<<"$3" | head -20; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
blk() { "$watop" blk --from "$@" 2>"$dir/stderr"; }
# field FILE PYTHON: an expression of d (the JSON) and x (its first device)
field() { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); x=d['devices'][0] if d['devices'] else None; print($2)" "$1"; }

for name in L V; do
  for cpu in 0 1; do gzip -dc "$data/$name.blktrace.$cpu.gz" >"$dir/$name.blktrace.$cpu"; done
done

# ---- against btt and blkparse -----------------------------------------------------------------------------------------------------------
avg() { awk '/^=+ All Devices/ { on = 1 } /^=+ Device Overhead/ { on = 0 } on && $1 ~ /^[A-Z]2/ && NF == 5 { sub("dm", "", $1); print $1, $2, $3, $4, $5 }' "$1" | sort; }
for name in L V; do
  blk "$dir/$name".blktrace.? --btt | awk '$1 ~ /^[A-Z]2/ { print $1, $2, $3, $4, $5 }' | sort >"$dir/ours"
  avg "$data/$name.btt.avg" >"$dir/theirs"
  out=$(diff "$dir/ours" "$dir/theirs")
  check "$name: --btt says what btt said when it was recorded" $? "$out"
  if command -v blkparse >/dev/null && command -v btt >/dev/null; then
    (cd "$dir" && blkparse -q -i "$name" -d "$name.bin" -o "$name.txt" >/dev/null 2>&1 && btt -i "$name.bin" -o "$name" >/dev/null 2>&1)
    avg "$dir/$name.avg" >"$dir/theirs"
    out=$(diff "$dir/ours" "$dir/theirs")
    check "$name: --btt says what btt says now" $? "$out"
    grep -E '^ *[0-9]+,[0-9]+ ' "$dir/$name.txt" | sed 's/(null)/-/' >"$dir/theirs"
    blk "$dir/$name".blktrace.? --events >"$dir/ours"
    out=$(diff "$dir/ours" "$dir/theirs")
    check "$name: --events prints blkparse's lines, all $(wc -l <"$dir/theirs")" $? "$out"
    blk "$dir/$name".blktrace.? --format json | sed 's/"files":[^]]*]//; s/"name":"'$name'"/"name":null/' >"$dir/ours"
    for other in bin txt; do
      blk "$dir/$name.$other" --format json | sed 's/"files":[^]]*]//' >"$dir/theirs"
      out=$(cmp "$dir/ours" "$dir/theirs")
      check "$name: the same figures from blkparse's $other" $? "$out"
    done
  else
    skip "$name against blkparse and btt" "package blktrace is not installed"
  fi
done

# ---- what it says -----------------------------------------------------------------------------------------------------------------------------
out=$(blk "$dir"/L.blktrace.?)
grep -q '^7,0 L: THE DISK ITSELF' <<<"$out" && grep -Eq '^Q2C +10\.8 +112\.6 +1244\.0 +4680 .* 100\.0$' <<<"$out" && grep -Eq '^D2C +5\.6 .* 4760 ' <<<"$out"
check "L: verdict and stages" $? "$out"
sum=$(awk '/^us / { on = 1; next } on && /^Q2C/ { exit } on { sum += $NF } END { printf "%.1f", sum }' <<<"$out")
[ "$sum" = 100.0 ]
check "L: the printed shares add up to 100.0" $? "$sum"
out=$(blk "$data/tag.ftrace.gz" -p python3)
grep -q 'WAITING FOR A TAG' <<<"$out"
check "a victim's tag wait" $? "$out"
out=$(blk "$data/tag.ftrace.gz" -p python3 --slower 20)
grep -Eq 'python3\[27708\] write 18434 \+ 8  22\.812 ms = tag 22\.739 .* behind fio\[27693\]: [0-9]+ of [0-9]+ open' <<<"$out"
check "--slower names the one it waited behind" $? "$out"
out=$(blk "$data/tag.ftrace.gz" --slower 20 -p 1)
grep -q 'nothing of this process' <<<"$out"
check "a process that queued nothing has nothing" $? "$out"
printf '  8,0    1        0     0.000000000    12  P   N [x]\n  8,0    1        0     0.000001000    12  U     [x] 1\n' >"$dir/plugs"
out=$(blk "$dir/plugs"; blk "$dir/plugs" 9,9)
grep -q '^no bio ended in this trace' <<<"$out" && grep -q 'nothing of this device' <<<"$out"
check "plugs alone: nothing ended" $? "$out"
blk "$dir/plugs" --events >"$dir/ours"
sed 's/U     /U   N /' "$dir/plugs" | diff - "$dir/ours" >"$dir/diff"
check "a plug has an N, and is read without" $? "$(cat "$dir/diff" "$dir/stderr")"
out=$(blk "$data/fsync.ftrace.gz")
grep -q '^7,0: FLUSHING THE WRITE CACHE' <<<"$out"
check "an ext4 commit waits for the flush" $? "$out"
out=$(blk "$data/zram.ftrace.gz")
grep -q '^253,1: IN A DRIVER THAT TAKES BIOS' <<<"$out"
check "a device without requests" $? "$out"
out=$(blk "$data/none.ftrace.gz")
grep -Eq '^G2D ' <<<"$out"
check "without a scheduler there is G2D" $? "$out"

# ---- JSON ---------------------------------------------------------------------------------------------------------------------------------------
blk "$data/L.ftrace.gz" --format json >"$dir/json"
out=$(field "$dir/json" "[v['device'] for v in d['devices']], x['bios'], x['requests'], x['merged'], x['split'], round(sum(v['share'] for k, v in x['stages'].items() if k != 'Q2C'), 9), d['unmatched'], x['processes'][0]['Command']")
[ "$out" = "['7,0', '254,0'] 4680 2399 2361 80 100.0 0 fio" ] || [ "$out" = "['254,0', '7,0'] 694 694 0 0 100.0 0 kworker/u8:1" ]
check "JSON: both devices, counts, shares, names" $? "$out"
blk "$data/L.ftrace.gz" 7:0 -p 12073 --slower 1ms --format json >"$dir/json"
out=$(python3 -c "
import json,sys
rows=[json.loads(l) for l in open(sys.argv[1])]
slow,report=rows[:-1],rows[-1]
print(len(slow) > 0 and all(r['Q2C'] >= 1000000 and r['PID'] == 12073 and sum(r['causes'].values()) == r['Q2C'] for r in slow), [p['PID'] for p in report['devices'][0]['processes']], len(report['devices']))" "$dir/json")
[ "$out" = "True [12073] 1" ]
check "JSON: slower bios of one process on one device" $? "$out"
out=$(LC_ALL=de_DE.UTF-8 "$watop" blk --from "$data/zram.ftrace.gz" --format json | cmp - <(blk "$data/zram.ftrace.gz" --format json))
check "JSON does not depend on the locale" $? "$out"

# ---- parts of traces, and damage ---------------------------------------------------------------------------------------------------------------
blk "$dir/L.blktrace.1" --format json >"$dir/json"
out=$(field "$dir/json" "d['unmatched'] > 100 and x['bios'] > 1000 and x['open'] > 100")
[ "$out" = True ] && grep -q 'L.blktrace.0 is not read' "$dir/stderr"
check "one CPU of two: said, and what is missing is counted" $? "$out"
cat "$dir/L.blktrace.1" "$dir/L.blktrace.0" >"$dir/both"
out=$(diff <(blk "$dir/both" | tail -n +3 | sed 's/^7,0/7,0 L/') <(blk "$dir"/L.blktrace.? | tail -n +3))
check "per-CPU files put behind each other" $? "$out"
head -c 300017 "$dir/L.blktrace.0" >"$dir/cut"
out=$(blk "$dir/cut" "$dir/L.blktrace.1")
[ $? = 0 ] && grep -q 'note: 1 files end within an event' <<<"$out"
check "a file that is cut" $? "$out"
{ head -c 48000 "$dir/L.blktrace.0"; python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(5000))'; tail -c +96001 "$dir/L.blktrace.0"; } >"$dir/hole"
out=$(blk "$dir/hole" "$dir/L.blktrace.1")
[ $? = 0 ] && grep -Eq 'note: [0-9]+ bytes are no events' <<<"$out" && grep -Eq 'note: [0-9]+ events were lost' <<<"$out"
check "a file with a hole and noise in it" $? "$out"
head -c 60000 "$data/L.ftrace.gz" >"$dir/half.gz"
out=$(blk "$dir/half.gz")
[ $? = 0 ] && grep -q 'could not be read to their end' <<<"$out"
check "a compressed file that breaks off" $? "$out"
gzip -dc "$data/L.ftrace.gz" | shuf --random-source=<(yes) >"$dir/shuffled"
blk "$dir/shuffled" --format json >"$dir/json"
[ "$(field "$dir/json" "d['events'], d['bad_lines']")" = "25322 0" ]
check "shuffled lines are read whole" $? "$(cat "$dir/stderr")"
for bad in "$dir" "$dir/missing" /dev/null; do
  out=$("$watop" blk --from "$bad" 2>&1 >/dev/null)
  [ $? = 1 ] && [ "$(wc -l <<<"$out")" = 1 ] && [ -n "$out" ]
  check "one line of error: ${bad##*/}" $? "$out"
done
head -c 100000 /dev/urandom >"$dir/noise"
out=$("$watop" blk --from "$dir/noise" 2>&1)
[ $? = 1 ] && grep -q 'no block events' <<<"$out"
check "noise is no trace" $? "$out"
printf ' \033[2Jx-1 [000] 1.1: block_bio_queue: 8,0 R 0 + 8 [\033[2Jx]\n x-1 [000] 1.2: block_bio_complete: 8,0 R () 0 + 8 [0]\n' >"$dir/escape"
out=$(blk "$dir/escape"; blk "$dir/escape" --events; blk "$dir/escape" --format json)
grep -q 'x1b' <<<"$out" && ! grep -q $'\033' <<<"$out"
check "names cannot steer the terminal" $? "$out"
for wrong in "--btt" "--root /nonexistent" "--slower 0" "-w 0" "no-such-disk" "--from $data/zram.ftrace.gz -w 5" "--from $data/zram.ftrace.gz --slower x" "--from $data/zram.ftrace.gz --format csv" "--from $data/zram.ftrace.gz --events --format json" "sda"; do
  # shellcheck disable=SC2086
  "$watop" blk $wrong >/dev/null 2>&1
  [ $? = 2 ]
  check "wrong use: blk ${wrong/"$data"\//}" $?
done
out=$("$watop" blk --format xml 2>&1)
[ $? = 2 ] && grep -q 'text or json' <<<"$out" && ! grep -q csv <<<"$out"
check "an unknown format: what there is" $? "$out"
out=$("$watop" blk --from "$data/zram.ftrace.gz" -p '' 2>&1)
[ $? = 2 ] && [ "$(wc -l <<<"$out")" = 1 ]
check "-p without a process" $? "$out"

echo "1..$number"
exit $failed

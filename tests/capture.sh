#!/usr/bin/env bash
# A capture holds the whole machine: what `watop --root` says of it is what watop said of the machine. TAP. Ends only what it started.
# The captured machine is this one: 300 sleeping children, one that spins, and two threads asleep in io_uring.
set -u
bin=${WATOP_BIN:-build}
watop=$bin/watop
lab=$bin/tests
for program in "$watop" "$lab/lab_spawn" "$lab/lab_reactor"; do [ -x "$program" ] || { echo "no $program"; exit 77; }; done

dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-test.XXXXXX") || exit 77
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" != tmpfs ] || { rmdir "$dir"; dir=$(mktemp -d /dev/shm/watop-test.XXXXXX) || exit 77; }
pids=()
clean() {
  local p
  for p in "${pids[@]}"; do kill -9 "$p" && wait "$p"; done 2>/dev/null
  rm -rf "$dir"
}
trap clean EXIT
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && echo "# $3"; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
# start LOG COMMAND...: in the background, its input open until the end; its pid in $pid
mkfifo "$dir/input"
exec 9<>"$dir/input"
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 <&9 &
  pid=$!
  pids+=("$pid")
}
ready() {
  for _ in {1..100}; do
    grep -q ready "$1" && return 0
    sleep 0.1
  done
  return 1
}
quiet() { "$watop" "$@" 2>/dev/null </dev/null; }
# rows FILE PID,...: how many rows of a CSV are of these processes
count() { awk -F, -v pids="$2" 'BEGIN { n = split(pids, p, " "); for (i = 1; i <= n; i++) want[p[i]] = 1 }
  NR == 1 { for (i = 1; i <= NF; i++) if ($i == "PID") at = i; next } want[$at] { found++ } END { print found + 0 }' "$1"; }

start "$dir/spawned" "$lab/lab_spawn" 300
spawn=$pid
ready "$dir/spawned" || { echo "lab_spawn does not start"; exit 1; }
children=$(pgrep -P "$spawn" | tr '\n' ' ')
start /dev/null sh -c 'while :; do :; done'
spinner=$pid

# ---- every task, in every tree --------------------------------------------------------------------------------------------
out=$("$watop" capture "$dir/cap" 1 3 2>&1 </dev/null)
check "capture" $? "$out"
whole=0
for tree in "$dir"/cap/0*; do
  for p in $children $spinner; do
    for file in stat schedstat status statm io task/$p/stat task/$p/status; do
      [ -s "$tree/proc/$p/$file" ] || { whole=1; lost="${tree##*/}/proc/$p/$file"; }
    done
  done
done
check "every tree holds what belongs to each of 300 sleeping processes" $whole "${lost:-}"
quiet task --all --format csv --root "$dir/cap" >"$dir/replay.csv"
found=$(count "$dir/replay.csv" "$children")
[ "$found" = 900 ]
check "each of them is in each of three reports" $? "$found rows of 900"
# What lived in all the time must have a row each time: others come and go.
stay=$(for tree in "$dir"/cap/0*; do ls "$tree/proc"; done | sort | uniq -c | awk '$1 == 4 && $2 ~ /^[0-9]+$/ { print $2 }' | tr '\n' ' ')
living=$(for p in $stay; do [ -d "/proc/$p" ] && echo "$p"; done | tr '\n' ' ')
found=$(count "$dir/replay.csv" "$living")
[ "$found" = $((3 * $(echo "$living" | wc -w))) ]
check "and so is every process that was there all the time" $? "$found rows, $(echo "$living" | wc -w) processes"
quiet task --all --format csv 1 1 >"$dir/live.csv"
still=$(for p in $living; do [ -d "/proc/$p" ] && echo "$p"; done | tr '\n' ' ') # those that ended before the live look are in no table
alive=$(count "$dir/live.csv" "$still")
[ "$alive" = "$(echo "$still" | wc -w)" ]
check "as many as live" $? "live $alive of $(echo "$still" | wc -w), replay $found in three reports"

# ---- %CPU --------------------------------------------------------------------------------------------------------------------
# The kernel's own count over the same seconds, from the first and the last tree, against what the three reports add up to.
truth=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "$dir/cap/0000/proc/$spinner/stat" "$dir/cap/0003/proc/$spinner/stat" | tr '\n' ' ')
times=$(for t in 0000 0003; do
  echo "$(cut -d' ' -f1 "$dir/cap/$t/clock") $(awk -v f="proc/$spinner/stat" '$2 == f { print $1; exit }' "$dir/cap/$t/times")"
done | awk '{ print ($1 + $2) / 1e9 }' | tr '\n' ' ')
mean=$(awk -F, -v pid="$spinner" 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == "PID") at = i; if ($i == "%CPU") cpu = i } next }
  $at == pid { sum += $cpu; n++ } END { printf "%.1f", n ? sum / n : -1 }' "$dir/replay.csv")
real=$(echo "$truth $times" | awk '{ printf "%.1f", ($2 - $1) / ($4 - $3) }')
echo "$mean $real" | awk '{ d = $1 - $2; exit !(d < 5 && d > -5) }'
check "%CPU of a spinning process is what its counters say over the same time" $? "replay $mean, counters $real"

# ---- anonymized --------------------------------------------------------------------------------------------------------------
out=$("$watop" capture "$dir/anon" 1 2 --anonymize 2>&1 </dev/null)
check "capture --anonymize" $? "$out"
quiet task --all --format csv --root "$dir/anon" >"$dir/anon.csv"
found=$(count "$dir/anon.csv" "$children")
[ "$found" = 600 ]
check "the same rows" $? "$found rows of 600"
! grep -q lab_spawn "$dir/anon.csv"
check "without their names" $?
kill "$spinner" "$spawn"
wait "$spinner" "$spawn" 2>/dev/null

# ---- an older capture ----------------------------------------------------------------------------------------------------------
# As versions before wrote them: folders of all, the files of those that ran.
for tree in 0001 0002; do
  rm "$dir/cap/$tree/times"
  for p in $children; do rm -r "$dir/cap/$tree/proc/$p"/*; done
done
quiet task --all --format csv --root "$dir/cap" >"$dir/holes.csv"
found=$(count "$dir/holes.csv" "$children")
[ "$found" = 900 ]
check "a tree with empty folders ends nobody" $? "$found rows of 900"

# ---- an idle reactor ---------------------------------------------------------------------------------------------------------
start "$dir/parked" "$lab/lab_reactor" --cores "0-$(($(nproc) - 1))"
sleep 0.2
uring_of() { # of `watop why`'s text: evidence, and whether wa is wa_uring by 90% or more
  awk '/^wa / { gsub(/[<>~+=]/, " "); for (i = 1; i < NF; i++) if ($i == "uring") uring = $(i + 1); wa = $2; evidence = $NF }
    END { print evidence, wa + 0, uring + 0, (wa > 10 && uring >= 0.9 * wa) ? "all" : "some" }' "$1"
}
if ! ready "$dir/parked"; then
  skip "a reactor that sleeps" "no io_uring here: $(tail -n 1 "$dir/parked")"
else
  sleep 1
  for try in 1 2 3; do # other load on this machine may spoil the evidence, live as captured
    rm -rf "$dir/ring"
    "$watop" capture "$dir/ring" 1 3 >/dev/null 2>&1 </dev/null
    quiet why --root "$dir/ring" >"$dir/why"
    quiet why >"$dir/why.live"
    said=$(uring_of "$dir/why") live=$(uring_of "$dir/why.live")
    [[ $said == parked*all || $said == exact*all ]] && break
    echo "# try $try: replay $said; live $live"
  done
  if [[ $said == *all ]]; then
    check "replayed, a sleeping reactor's wa is proved to be its own" 0
  elif [[ $live != parked*all && $live != exact*all ]]; then
    skip "a sleeping reactor's wa" "live it cannot be proved here and now either: $live"
  else
    check "replayed, a sleeping reactor's wa is proved to be its own" 1 "replay $said; live $live"
  fi
fi
echo "1..$number"
exit $failed

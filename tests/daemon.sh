#!/usr/bin/env bash
# watopd as a program: rights, one writer, settings, signals, death and return; as root and as an ordinary user. TAP; 77 when /dev/shm is
# no tmpfs.
# Ends only what it started.
set -u
bin=${WATOP_BIN:-build}
watopd=$bin/watopd
[ -x "$watopd" ] || { echo "no $watopd"; exit 77; }
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || { echo "/dev/shm is not a tmpfs"; exit 77; }

dir=$(mktemp -d /dev/shm/watop-test.XXXXXX) || exit 77
pids=()
clean() {
  local p
  for p in "${pids[@]}"; do kill -9 "$p" && wait "$p"; done 2>/dev/null
  [ -n "${loop:-}" ] && losetup -d "$loop"
  rm -rf "$dir" ${private:+"$private"}
}
trap clean EXIT
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && echo "# $3"; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
# within SECONDS COMMAND...: until it succeeds
within() {
  local end=$(($(date +%s) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -ge "$end" ] && return 1
    sleep 0.05
  done
}
# start LOG COMMAND...: in the background; its pid in $pid
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  pids+=("$pid")
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# cap FIELD PID: a capability set as hexadecimal number
cap() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$2/status"; }

# ---- options -----------------------------------------------------------------------------------------------------------------
for wrong in --nope --interval=1d --interval=5ms --scopes=cpus --private=x extra '--root=a --capture=b'; do
  # shellcheck disable=SC2086
  out=$("$watopd" $wrong 2>&1 >/dev/null </dev/null)
  status=$?
  [ $status = 2 ] && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ]
  check "wrong option: $wrong" $? "exit $status: $out"
done
"$watopd" --help >/dev/null && "$watopd" --version | grep -q '^watopd [0-9]'
check "--help and --version" $?
out=$("$watopd" --check) && printf '%s\n' "$out" | grep -q '^cpu ' && printf '%s\n' "$out" | grep -q CAP_SYS_PTRACE
check "--check says what it may see" $? "$out"
out=$("$watopd" --config /nonexistent/ini --check 2>&1)
status=$?
[ $status = 1 ] && printf '%s\n' "$out" | grep -q '/nonexistent/ini'
check "--check fails where the start would" $? "exit $status: $out"
out=$("$watopd" --scopes cpu,dsk 2>&1)
[ "${out#*dsk: no such scope}" != "$out" ] && [ "${out#*cpu}" = "$out" ]
check "--scopes names the word that is none" $? "$out"

# ---- closed descriptors ------------------------------------------------------------------------------------------------------
"$watopd" --version >&- 2>"$dir/err"
status=$?
[ $status = 1 ] && grep -q 'standard output' "$dir/err"
check "watopd with its output closed" $? "exit $status: $(cat "$dir/err")"
if [ -x "$bin/watop" ]; then
  timeout 20 "$bin/watop" cpu --private 0.1 2 >&- 2>"$dir/err" </dev/null
  status=$?
  [ $status = 1 ] && grep -q 'Bad file descriptor' "$dir/err"
  check "watop with its output closed fails and says so" $? "exit $status: $(cat "$dir/err")"
  for closed in '2>&-' '<&-' '<&- 2>&-'; do
    out=$(eval "timeout 20 \"\$bin/watop\" cpu --private --quiet 0.1 2 $closed")
    status=$?
    [ $status = 0 ] && [ "$(printf '%s\n' "$out" | grep -c '^SUM ')" = 2 ]
    check "watop with $closed" $? "exit $status: $out"
  done
  timeout 20 "$bin/watop" cpu --private --quiet 0.1 2 >&- 2>&- <&-
  status=$?
  [ $status = 1 ]
  check "watop with all three closed" $? "exit $status"
fi

# ---- what is not ours --------------------------------------------------------------------------------------------------------
mkdir "$dir/foreign"
echo "a letter" >"$dir/foreign/ring"
out=$("$watopd" --ring "$dir/foreign/ring" 2>&1 </dev/null)
status=$?
[ $status = 1 ] && printf '%s\n' "$out" | grep -q "$dir/foreign/ring: a file of uid $(id -u)" && grep -q letter "$dir/foreign/ring"
check "a file in the ring's place is named and kept" $? "exit $status: $out"
rm "$dir/foreign/ring" && mkdir "$dir/foreign/control"
out=$("$watopd" --ring "$dir/foreign/ring" 2>&1 </dev/null)
status=$?
[ $status = 1 ] && printf '%s\n' "$out" | grep -q "$dir/foreign/control: a directory of uid $(id -u)" && [ ! -e "$dir/foreign/ring" ]
check "a directory in the socket's place is named" $? "exit $status: $out"

# ---- rights ------------------------------------------------------------------------------------------------------------------
cat >"$dir/ini" <<END
[watopd]
interval = 100ms
END
ring=$dir/ring
start "$dir/log" "$watopd" --ring "$ring" --config "$dir/ini"
first=$pid
within 10 test -S "$dir/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$first/status"
check "starts" $? "$(cat "$dir/log")"
want=0000000000000000
if [ "$(id -u)" = 0 ]; then
  # What this process has of CAP_SYS_PTRACE (19) and CAP_DAC_READ_SEARCH (2) may be kept.
  want=$(printf '%016x' $((0x$(cap CapPrm $$) & (1 << 19 | 1 << 2))))
fi
within 5 grep -q "CapEff:.*$want" "/proc/$first/status"
for set in CapPrm CapEff; do
  [ "$(cap $set $first)" = "$want" ]
  check "$set is exactly the kept ones" $? "$(cap $set $first), not $want"
done
for set in CapInh CapAmb; do
  [ "$(cap $set $first)" = 0000000000000000 ]
  check "$set is empty" $? "$(cap $set $first)"
done
if [ $((0x$(cap CapEff $$) & 1 << 8)) != 0 ]; then
  [ "$(cap CapBnd $first)" = 0000000000000000 ]
  check "CapBnd is empty" $? "$(cap CapBnd $first)"
else
  skip "CapBnd is empty" "no CAP_SETPCAP here"
fi
grep -q 'NoNewPrivs:.*1' "/proc/$first/status"
check "no_new_privs" $?
other=$(for t in /proc/$first/task/*/status; do sed -n 's/^CapEff:[[:space:]]*//p' "$t"; done | sort -u)
[ "$other" = "$want" ]
check "every thread has the same" $? "$other"

# ---- one writer --------------------------------------------------------------------------------------------------------------
# For group watop and for no other: without it (and the right to give it) they are the daemon's alone.
modes="$(stat -c '%a %G' "$ring") $(stat -c '%a %G' "$dir/control")"
[ "$modes" = "640 watop 660 watop" ] || [ "$(stat -c %a "$ring" "$dir/control" | tr "\n" " ")" = "600 600 " ]
check "modes of ring and socket" $? "$modes"
out=$("$watopd" --ring "$ring" --config "$dir/ini" 2>&1 </dev/null)
status=$?
[ $status = 1 ] && printf '%s\n' "$out" | grep -q "pid $first\$"
check "a second one says who holds it" $? "exit $status: $out"
kill -0 "$first"
check "and the first lives" $?

# ---- settings ----------------------------------------------------------------------------------------------------------------
printf '[watopd]\ninterval = soon\ncmdline = name\n' >"$dir/ini"
kill -HUP "$first"
within 5 grep -q "$dir/ini:2: interval.*soon" "$dir/log" && within 5 grep -q 'read again' "$dir/log" && kill -0 "$first"
check "SIGHUP names a bad line and goes on" $? "$(cat "$dir/log")"

# ---- readers -----------------------------------------------------------------------------------------------------------------
if [ -x "$bin/watop" ]; then
  out=$("$bin/watop" cpu --ring "$ring" 0.3 2 2>"$dir/why" </dev/null)
  status=$?
  [ $status = 0 ] && [ "$(printf '%s\n' "$out" | grep -c '^SUM ')" -ge 2 ] && grep -q "pid $first, 100 ms ticks" "$dir/why"
  check "watop reads its ring (the tick before the bad line)" $? "exit $status: $(cat "$dir/why") $out"
  out=$("$bin/watop" cpu --ring "$ring" 0.25 1 2>&1 </dev/null)
  status=$?
  [ $status = 1 ] && printf '%s\n' "$out" | grep -q 'samples every 100 ms'
  check "an interval that is no multiple is refused" $? "exit $status: $out"
fi

# ---- many readers ------------------------------------------------------------------------------------------------------------
# crowd COUNT ARGUMENT...: so many readers at once; how many succeeded in $served, what the others say in $out
crowd() {
  local i jobs=() count=$1
  shift
  rm -f "$dir"/crowd.*
  for i in $(seq "$count"); do
    timeout 60 "$bin/watop" "$@" >/dev/null 2>"$dir/crowd.$i" </dev/null &
    jobs+=("$!")
  done
  served=0
  for i in "${jobs[@]}"; do wait "$i" && served=$((served + 1)); done
  out=$(sort "$dir"/crowd.* | uniq -c)
}
if [ -x "$bin/watop" ]; then
  crowd 50 cpu --ring "$ring" 0.5 2
  [ "$served" = 50 ]
  check "50 readers of the ring" $? "$served: $out"
  crowd 50 task -t --ring "$ring" 1 2
  [ "$served" = 50 ]
  check "50 readers that want a lease" $? "$served: $out"
fi

# ---- death and return --------------------------------------------------------------------------------------------------------
if [ -x "$bin/watop" ]; then
  start "$dir/reader" "$bin/watop" cpu --ring "$ring" 0.1 1000000
  reader=$pid
  within 5 grep -q SUM "$dir/reader"
  "$bin/watop" cpu --quiet --ring "$ring" --format json 0.1 60 >"$dir/json" 2>/dev/null </dev/null &
  json=$!
  pids+=("$json")
  within 5 test -s "$dir/json"
  kill -STOP "$first"
  within 8 grep -q 'does not answer (stopped?)' "$dir/reader" && ! grep -q 'is gone' "$dir/reader"
  check "SIGSTOP: the reader says so, and not that it is gone" $? "$(tail -n 3 "$dir/reader")"
  kill -CONT "$first"
  within 8 grep -q '"interval":null,"gap":"reset"' "$dir/json"
  check "the time without it is a report of its own" $? "$(cut -c1-120 "$dir/json" | tail -n 3)"
fi
kill -9 "$first" && wait "$first" 2>/dev/null
within 5 gone "$first"
if [ -x "$bin/watop" ]; then
  within 3 grep -q 'is gone' "$dir/reader"
  check "kill -9: the reader says so" $? "$(tail -n 3 "$dir/reader")"
fi
start "$dir/log2" "$watopd" --ring "$ring" --config "$dir/ini" --interval 100ms
second=$pid
within 10 grep -q 'NoNewPrivs:.*1' "/proc/$second/status" && sleep 0.3 && kill -0 "$second"
check "kill -9, then another one starts over what was left" $? "$(cat "$dir/log2")"
if [ -x "$bin/watop" ]; then
  within 5 grep -q "pid $second" "$dir/reader"
  check "the reader is attached again" $? "$(tail -n 3 "$dir/reader")"
  wait "$json"
  status=$?
  real=$(grep -c '"gap":null\|"gap":"late"' "$dir/json") reset=$(grep -c '"interval":null,"gap":"reset".*"cpu":\[\]' "$dir/json")
  [ "$status $real $reset" = "0 60 2" ]
  check "each outage is one report without interval and rows; the count is of the others" $? "exit $status: $real real, $reset reset"
  grep -q ' - s  gap=reset$' "$dir/reader"
  check "and one line in text" $?
  kill -INT "$reader"
  within 5 gone "$reader"
  check "SIGINT ends the reader" $?
fi
kill -TERM "$second"
wait "$second"
status=$?
[ $status = 0 ] && [ ! -e "$ring" ] && [ ! -e "$dir/control" ]
check "SIGTERM ends cleanly and takes ring and socket away" $? "exit $status: $(ls "$dir")"
start "$dir/log3" "$watopd" --ring "$ring" --config "$dir/ini"
within 10 test -S "$dir/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$pid/status" && kill -INT "$pid"
wait "$pid"
check "SIGINT ends cleanly" $?

# ---- not on tmpfs ------------------------------------------------------------------------------------------------------------
disk=$(mktemp -d "${TMPDIR:-/tmp}/watop-test.XXXXXX")
if [ "$(stat -f -c %T "$disk")" = tmpfs ]; then
  skip "a ring that would be on a disk" "$disk is a tmpfs"
else
  start "$dir/log5" "$watopd" --ring "$disk/ring" --interval 100ms
  third=$pid
  within 10 test -S "$disk/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$third/status"
  [ ! -e "$disk/ring" ] && grep -q 'memfd' "$dir/log5"
  check "a ring that would be on a disk is a memfd, and one line says so" $? "$(cat "$dir/log5"; ls "$disk")"
  out=$("$watopd" --ring "$disk/ring" 2>&1 </dev/null)
  status=$?
  [ $status = 1 ] && printf '%s\n' "$out" | grep -q "pid $third\$"
  check "a second one is refused there too" $? "exit $status: $out"
  if [ -x "$bin/watop" ]; then
    out=$("$bin/watop" cpu --ring "$disk/ring" 0.2 1 2>&1 </dev/null)
    printf '%s\n' "$out" | grep -q "pid $third, 100 ms ticks" && printf '%s\n' "$out" | grep -q '^SUM '
    check "watop gets it from the socket" $? "$out"
    crowd 50 cpu --ring "$disk/ring" 0.5 2
    [ "$served" = 50 ]
    check "50 readers of a memfd" $? "$served: $out"
    crowd 50 task -t --ring "$disk/ring" 1 2
    [ "$served" = 50 ]
    check "50 readers of a memfd that want a lease" $? "$served: $out"
  fi
  kill -TERM "$third"
  wait "$third"
fi
rm -rf "$disk"

# ---- private -----------------------------------------------------------------------------------------------------------------
children() { pgrep -P "$1" -x watopd; }
if [ -x "$bin/watop" ]; then
  start "$dir/private" "$bin/watop" cpu --private 0.1 1000000
  reader=$pid
  within 5 grep -q SUM "$dir/private"
  child=$(children "$reader")
  [ -n "$child" ] && [ "$(cap CapEff "$child")" = "$want" ] && [ "$(ls "/proc/$child/fd" | wc -l)" -gt 3 ]
  check "a private watopd has no more rights" $? "child '$child'"
  kill -9 "$reader" && wait "$reader" 2>/dev/null
  within 5 gone "$child"
  check "kill -9 of watop ends it" $?
fi

# ---- tracing -----------------------------------------------------------------------------------------------------------------
# links PID: how many BPF links the process holds; attached PID: bpftool knows a link to one of its programs
links() { grep -ls '^link_type' /proc/"$1"/fdinfo/* 2>/dev/null | wc -l; }
attached() {
  local id
  for id in $(sed -n 's/^prog_id:[[:space:]]*//p' /proc/"$1"/fdinfo/* 2>/dev/null | sort -u); do
    bpftool link show 2>/dev/null | grep -qE "prog $id( |\$)" && return 0
  done
  return 1
}
nothing_attached() { [ "$(links "$1")" = 0 ] && { ! command -v bpftool >/dev/null || ! attached "$1"; }; }
something_attached() { [ "$(links "$1")" -gt 0 ] && { ! command -v bpftool >/dev/null || attached "$1"; }; }
"$watopd" --check | grep -q '^exact '
check "--check says whether wa can be split exactly" $?
"$watopd" --check --bpf off | grep -q '^exact .*off by the settings'
check "--bpf off is said" $?
for wrong in --bpf=on --exact; do
  "$watopd" "$wrong" >/dev/null 2>&1
  [ $? = 2 ]
  check "wrong option: $wrong" $?
done
if ! [ -x "$bin/watop" ] || ! "$watopd" --check | grep -q '^exact .*can be split exactly'; then
  skip "tracing" "$("$watopd" --check | sed -n 's/^exact *//p')"
else
  mkdir "$dir/traced"
  start "$dir/traced/log" "$watopd" --ring "$dir/traced/ring" --interval 100ms
  fourth=$pid
  within 10 test -S "$dir/traced/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$fourth/status" && within 5 nothing_attached "$fourth"
  check "nothing is attached while nobody asks" $? "$(links "$fourth") links"
  start "$dir/traced/plain" "$bin/watop" cpu --no-bpf --ring "$dir/traced/ring" 0.1 1000000
  plain=$pid
  within 5 grep -q SUM "$dir/traced/plain" && nothing_attached "$fourth"
  check "nor for --no-bpf" $? "$(links "$fourth") links"
  start "$dir/traced/one" "$bin/watop" cpu --ring "$dir/traced/ring" 0.1 1000000
  one=$pid
  start "$dir/traced/two" "$bin/watop" cpu --ring "$dir/traced/ring" 0.1 1000000
  two=$pid
  within 10 grep -q SUM "$dir/traced/one" && within 10 grep -q SUM "$dir/traced/two" && within 5 something_attached "$fourth"
  check "attached while somebody asks" $? "$(links "$fourth") links"
  kill -TERM "$two" && within 5 gone "$two"
  something_attached "$fourth"
  check "and while the other one does" $?
  kill -9 "$one" && wait "$one" 2>/dev/null
  within 5 nothing_attached "$fourth"
  check "kill -9 of the last one detaches" $? "$(links "$fourth") links"
  kill -9 "$plain" && kill -TERM "$fourth"
  wait "$plain" "$fourth" 2>/dev/null
  start "$dir/traced/log" "$watopd" --ring "$dir/traced/ring" --interval 100ms --bpf off
  fourth=$pid
  within 10 test -S "$dir/traced/control" && "$bin/watop" cpu --ring "$dir/traced/ring" 0.1 2 >/dev/null 2>&1 </dev/null &&
    ! grep -qs '^prog_id' /proc/"$fourth"/fdinfo/*
  check "--bpf off: nothing is even loaded" $?
  kill -TERM "$fourth" && wait "$fourth"
  start "$dir/traced/own" "$bin/watop" cpu --private 0.1 1000000
  reader=$pid
  within 10 grep -q SUM "$dir/traced/own" && child=$(children "$reader") && something_attached "$child" && [ "$(cap CapEff "$child")" = "$want" ]
  check "a private watopd traces, with no more rights" $? "child '$child', $(cap CapEff "$child")"
  kill -9 "$reader" && wait "$reader" 2>/dev/null
  within 5 gone "$child"
  check "and ends with its reader" $?
fi

# ---- block tracing -----------------------------------------------------------------------------------------------------------
# Bios of a loop device, as watop's reader gets them (tests/lab/blocks.c), against /proc/diskstats.
lab=$bin/tests/lab_blocks
reads() { awk -v name="$loop_name" '$3 == name { print $4 }' /proc/diskstats; }
instances() { ls /sys/kernel/tracing/instances /sys/kernel/debug/tracing/instances 2>/dev/null | grep "^watop\.$1\." ; }
no_instance() { [ -z "$(instances "$1")" ]; }
traced() { [ "$(links "$1")" -gt 0 ] || ! no_instance "$1"; }
untraced() { ! traced "$1"; }
# blocks NAME OPTION...: a daemon with these options traces 500 direct reads; all of them are in rows and stream, and then nothing is left
blocks() {
  local name=$1 before after seen
  shift
  start "$dir/blocks/log" "$watopd" --ring "$dir/blocks/ring" --interval 100ms "$@"
  fifth=$pid
  within 10 test -S "$dir/blocks/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$fifth/status" && within 5 untraced "$fifth"
  check "$name: nothing is traced while nobody asks" $? "$(links "$fifth") links $(instances "$fifth")"
  [ "$(cap CapEff "$fifth")" = "$want" ]
  check "$name: no more rights are kept" $? "$(cap CapEff "$fifth")"
  before=$(reads)
  timeout 60 "$lab" --ring "$dir/blocks/ring" 500 dd if="$loop" of=/dev/null bs=4k count=500 iflag=direct >"$dir/blocks/out" 2>"$dir/blocks/err"
  after=$(reads)
  seen=$(awk -v name="$loop_name" '$1 == "bio" && $2 == name && $3 == 0 { bios += $(NF - 5); requests += $(NF - 4); bytes += $(NF - 3); time += $(NF - 2); causes += $(NF - 1); counted += $NF }
    END { print bios + 0, requests + 0, bytes + 0, (time > 0 && time == causes && counted == bios) }' "$dir/blocks/out")
  [ "$seen" = "500 $((after - before)) 2048000 1" ]
  check "$name: every bio and request is in the rows, causes and buckets add up" $? "$seen, /proc/diskstats $((after - before)) $(head -c 300 "$dir/blocks/err")"
  awk '$1 == "stream" && $4 >= 500 { found = 1 } END { exit !found }' "$dir/blocks/out"
  check "$name: and in the stream" $? "$(grep stream "$dir/blocks/out")"
  within 5 untraced "$fifth"
  check "$name: the reader's end detaches" $? "$(links "$fifth") links $(instances "$fifth")"
}
loop='' private=''
"$watopd" --check | grep -q '^stages '
check "--check says what can be traced of block I/O" $?
"$watopd" --stages >/dev/null 2>&1
[ $? = 2 ]
check "wrong option: --stages without --private" $?
if "$watopd" --check | grep -q '^stages .*can be traced' && [ -x "$lab" ] && truncate -s 8M "$dir/image"; then
  loop=$(losetup -f --show "$dir/image" 2>/dev/null)
  loop_name=${loop#/dev/}
fi
if [ -z "$loop" ]; then
  skip "block tracing" "$("$watopd" --check | sed -n 's/^stages *//p' | cut -c1-120)"
else
  mkdir "$dir/blocks"
  if "$watopd" --check | grep -q '^stages .*by BPF while'; then
    blocks BPF
    start "$dir/blocks/long" "$lab" --ring "$dir/blocks/ring" 60000
    long=$pid
    within 10 grep -q ready "$dir/blocks/long" && traced "$fifth"
    check "kill -9 while it traces: it does" $?
    ids=$(sed -n 's/^link_id:[[:space:]]*//p' /proc/"$fifth"/fdinfo/* 2>/dev/null | sort -u)
    kill -9 "$fifth" && wait "$fifth" 2>/dev/null
    left() { local id; for id in $ids; do bpftool link show id "$id" && return 0; done; return 1; }
    if command -v bpftool >/dev/null && [ -n "$ids" ]; then
      within 5 eval '! left'
      check "and leaves no link" $? "$ids"
    fi
    start "$dir/blocks/log" "$watopd" --ring "$dir/blocks/ring" --interval 100ms
    fifth=$pid
    within 15 grep -q again "$dir/blocks/long" && within 5 traced "$fifth"
    check "the reader has rows and stream of the next one" $? "$(cat "$dir/blocks/long")"
    kill -TERM "$long" && wait "$long" 2>/dev/null
    within 5 untraced "$fifth"
    kill -TERM "$fifth" && wait "$fifth"
  else
    skip "block tracing by BPF" "$("$watopd" --check | sed -n 's/^stages *//p' | cut -c1-120)"
  fi
  if "$watopd" --check --bpf off | grep -q '^stages .*can be traced'; then
    blocks tracefs --bpf off
    start "$dir/blocks/long" "$lab" --ring "$dir/blocks/ring" 60000
    long=$pid
    within 10 grep -q ready "$dir/blocks/long" && ! no_instance "$fifth"
    check "tracefs: an instance of its own while it traces" $? "$(instances "$fifth")"
    kill -9 "$fifth" && wait "$fifth" 2>/dev/null
    sixth=$fifth
    start "$dir/blocks/log" "$watopd" --ring "$dir/blocks/ring" --interval 100ms --bpf off
    fifth=$pid
    within 10 no_instance "$sixth"
    check "tracefs: what kill -9 left is taken away by the next start" $? "$(instances "$sixth")"
    within 15 grep -q again "$dir/blocks/long"
    kill -TERM "$fifth"
    wait "$fifth"
    within 5 no_instance "$fifth"
    check "tracefs: SIGTERM while it traces leaves none" $? "$(instances "$fifth")"
    kill -TERM "$long" && wait "$long" 2>/dev/null
  else
    skip "block tracing through tracefs" "$("$watopd" --check --bpf off | sed -n 's/^stages *//p' | cut -c1-120)"
  fi
  # A private watopd lies beside its reader.
  private=$(mktemp -d "${TMPDIR:-/tmp}/watop-test.XXXXXX") && cp "$watopd" "$lab" "$private"
  for when in '' --late; do
    # shellcheck disable=SC2086
    timeout 60 "$private/lab_blocks" $when 500 dd if="$loop" of=/dev/null bs=4k count=100 iflag=direct >"$dir/blocks/out" 2>"$dir/blocks/err"
    seen=$(awk -v name="$loop_name" '$1 == "bio" && $2 == name && $3 == 0 { bios += $(NF - 5) } END { print bios + 0 }' "$dir/blocks/out")
    [ "$seen" = 100 ]
    check "a private watopd traces for its reader${when:+, also when it wants that later}" $? "$seen: $(head -c 300 "$dir/blocks/err")"
  done
  rm -rf "$private"
  losetup -d "$loop"
  loop=
fi

# ---- captured machine --------------------------------------------------------------------------------------------------------
if [ -x "$bin/watop" ]; then
  out=$("$bin/watop" capture "$dir/captured" 0.1 3 2>&1 </dev/null) && [ -d "$dir/captured/0003" ]
  check "capture writes a base and three trees" $? "$out"
  out=$("$bin/watop" cpu --root "$dir/captured" 0.1 2>/dev/null </dev/null)
  [ "$(printf '%s\n' "$out" | grep -c '^SUM ')" = 3 ]
  check "three reports come from it" $? "$out"
  rm -r "$dir/captured/0001"
  out=$("$bin/watop" cpu --root "$dir/captured" --format json 0.1 2>/dev/null </dev/null)
  [ "$(printf '%s\n' "$out" | wc -l)" = 2 ] && printf '%s\n' "$out" | head -n 1 | grep -q '"gap":"late"'
  check "a tree that is missing is passed over, over the true time" $? "$out"
  rm "$dir"/captured/*/proc/stat
  out=$("$bin/watop" cpu --root "$dir/captured" --format json 0.1 2>&1 </dev/null)
  status=$?
  [ $status -lt 2 ] && ! printf '%s\n' "$out" | grep -q '"CPU":"0"'
  check "a machine whose cores cannot be read" $? "exit $status: $out"
fi

# ---- an ordinary user --------------------------------------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  user() { env -u XDG_RUNTIME_DIR setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
  mkdir "$dir/user" && chown 65534:65534 "$dir/user" && chmod 700 "$dir/user" && chmod 711 "$dir"
  if user test -x "$watopd"; then
    out=$(user "$watopd" 2>&1 </dev/null)
    status=$?
    [ $status = 1 ] && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ]
    check "user without a run-time directory: one line" $? "exit $status: $out"
    start "$dir/log4" setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR="$dir/user" "$watopd" --interval 100ms
    owner=$pid
    within 10 test -S "$dir/user/watop/control" && within 10 grep -q 'NoNewPrivs:.*1' "/proc/$owner/status"
    check "user: publishes in the own run-time directory" $? "$(cat "$dir/log4")"
    [ "$(cap CapPrm "$owner")" = 0000000000000000 ]
    check "user: no capability" $?
    if [ -x "$bin/watop" ]; then
      out=$(XDG_RUNTIME_DIR=$dir/user "$bin/watop" cpu 0.3 1 2>&1 </dev/null)
      printf '%s\n' "$out" | grep -q private && ! printf '%s\n' "$out" | grep -q "pid $owner"
      check "root does not read a user's ring" $? "$out"
      out=$("$bin/watop" cpu --ring "$dir/user/watop/ring" 0.3 1 2>&1 </dev/null)
      status=$?
      [ $status = 1 ] && printf '%s\n' "$out" | grep -q 'not trusted'
      check "not even when asked" $? "exit $status: $out"
    fi
    if [ -x "$lab" ] && user test -x "$lab"; then
      out=$(user env XDG_RUNTIME_DIR="$dir/user" "$lab" --ring "$dir/user/watop/ring" 100 2>&1 </dev/null)
      status=$?
      [ $status = 1 ] && printf '%s\n' "$out" | grep -q 'no stream of block records: no BPF'
      check "user: why there is no block tracing" $? "exit $status: $out"
    fi
    kill -TERM "$owner"
    wait "$owner"
    check "user: ends cleanly" $?
  else
    skip "ordinary user" "uid 65534 cannot run $watopd"
  fi
else
  skip "ordinary user" "needs root and setpriv"
fi
echo "1..$number"
exit $failed

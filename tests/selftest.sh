#!/usr/bin/env bash
# watop why --self-test on this machine's own kernel: as whoever runs it, as an ordinary user, and with io_uring taken away by a seccomp filter of
# our own. What it says is held against lab_reactor, which parks rings by other code, and /proc/stat. TAP.
# Ends only what it started; changes no setting of the machine.
set -u
bin=${WATOP_BIN:-build}
watop=$bin/watop
[ -x "$watop" ] || { echo "no $watop"; exit 77; }
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-selftest.XXXXXX") || exit 77
chmod 755 "$dir"
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
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | sed 's/^/# /'; fi
}
skip() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
# get FILE KEY...: a member of the JSON object in a file
get() { python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: value = value[key]
print(json.dumps(value))' "$@"; }
narrow() { [ -z "$(awk 'length > 80' "$1")" ]; }
# No sleeper of ours is left; another run's are not ours.
export WATOP_SELFTEST_RUN=$dir
none_left() {
  local comm
  for comm in $(grep -lsx watop-selftest /proc/[0-9]*/comm); do
    grep -qsza "^WATOP_SELFTEST_RUN=$dir\$" "${comm%comm}environ" && return 1
  done
  return 0
}
within() { # within SECONDS COMMAND...
  local end=$(($(date +%s) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -ge "$end" ] && return 1
    sleep 0.05
  done
}

# ---- options -----------------------------------------------------------------------------------------------------------------
for wrong in '--self-test --core x' '--self-test --core 1x' '--self-test --core=-1' '--self-test --core 65001' '--core 0' '--self-test --format csv'; do
  # shellcheck disable=SC2086
  out=$("$watop" why $wrong 2>&1 >/dev/null </dev/null)
  status=$?
  [ $status = 2 ] && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ]
  check "wrong option: $wrong" $? "exit $status: $out"
done

# ---- as we are ---------------------------------------------------------------------------------------------------------------
"$watop" why --self-test --format json >"$dir/json" 2>"$dir/err"
status=$?
offer=$(get "$dir/json" io_uring)
[ $status = 0 ] && [ -n "$offer" ] && [ ! -s "$dir/err" ]
check "answers in JSON, exit 0" $? "exit $status: $(cat "$dir/err" "$dir/json")"
"$watop" why --self-test >"$dir/text" 2>&1
status=$?
[ $status = 0 ] && narrow "$dir/text" && grep -qE '^(AN IDLE RING|NO IO_URING HERE|NOT CLEAR)' "$dir/text"
check "answers in text, exit 0, 80 columns" $? "exit $status: $(cat "$dir/text")"
within 2 none_left
check "no sleeper is left" $? "$(grep -lsx watop-selftest /proc/[0-9]*/comm)"

if [ "$offer" != '"works"' ]; then
  skip "against lab_reactor" "io_uring: $offer"
else
  # Truth by other code: a reactor parked on the core that the self-test chose; its core may not idle beside it if it is counted.
  core=$(get "$dir/json" core)
  mkfifo "$dir/hold" && exec 9<>"$dir/hold" # the lab's programs end with their input
  ticks() { awk -v c="cpu$core" '$1 == c {print $5, $6}' /proc/stat; } # idle and iowait
  # span SECONDS: their growth
  span() {
    local from
    from=$(ticks)
    sleep "$1"
    echo "$from $(ticks)" | awk '{print $3 - $1, $4 - $2}'
  }
  truth() { # truth MODE: true, false, null (the core was too busy, or somebody else's), or absent (this kernel lacks the flag)
    local pid before with after
    before=$(span 0.5)
    "$bin/tests/lab_reactor" --cores "$core" --mode "$1" >"$dir/ready" 2>&1 <&9 &
    pid=$!
    within 10 grep -q . "$dir/ready" || { kill $pid 2>/dev/null || echo absent; return; }
    with=$(span 1)
    kill $pid 2>/dev/null && wait $pid 2>/dev/null
    after=$(span 0.5)
    echo "$before $with $after" | awk '{print ($3 >= 4 ? "false" : ($1 >= 5 && $5 >= 5 && $3 <= 2 && $4 >= 20 ? "true" : "null"))}'
  }
  for pair in parked:poll no_iowait:nowait; do
    key=${pair%:*} mode=${pair#*:}
    ours=$(get "$dir/json" "$key" counted)
    for try in 1 2 3; do
      theirs=$(truth "$mode")
      [ "$theirs" = "$ours" ] && break
      "$watop" why --self-test --core "$core" --format json >"$dir/again" 2>"$dir/err" && mv "$dir/again" "$dir/json" && ours=$(get "$dir/json" "$key" counted)
    done
    if [ "$theirs" = absent ] && [ "$mode" = nowait ]; then
      [ "$(get "$dir/json" no_iowait_offered)" = false ]
      check "lab_reactor agrees: no NO_IOWAIT here" $? "$(cat "$dir/json")"
    elif [ "$theirs" = null ] || [ "$ours" = null ]; then
      skip "lab_reactor agrees: $key" "core $core was too busy: ours $ours, theirs $theirs (try $try)"
    else
      [ "$theirs" = "$ours" ]
      check "lab_reactor agrees: $key is counted: $ours" $? "theirs: $theirs; $(cat "$dir/json")"
    fi
  done
  for key in foreign bare; do # on every kernel that was looked at: who never submitted is not counted
    value=$(get "$dir/json" $key counted)
    if [ "$value" = null ]; then skip "$key is not counted" "not clear on this machine now"; else
      [ "$value" = false ]
      check "$key is not counted" $? "$(cat "$dir/json")"
    fi
  done
  [ "$(get "$dir/json" sees own_rings)" = true ]
  check "its own rings can be read" $? "$(cat "$dir/json")"

  first=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
  taskset -c "$first" "$watop" why --self-test --format json >"$dir/one" 2>&1
  [ $? = 0 ] && [ "$(get "$dir/one" core)" = "$first" ]
  check "keeps to the cores it may use" $? "$(cat "$dir/one")"
  last=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
  if [ "$last" = "$first" ]; then skip "a core that it may not use" "one core"; else
    taskset -c "$first" "$watop" why --self-test --core "$last" >"$dir/one" 2>&1
    status=$?
    [ $status = 2 ]
    check "a core that it may not use" $? "exit $status: $(cat "$dir/one")"
  fi

  # Killed while it sleeps: its sleepers go with it.
  "$watop" why --self-test >/dev/null 2>&1 </dev/null &
  pid=$!
  pids+=("$pid")
  ours() { pgrep -P $pid -x watop-selftest; }
  within 10 ours
  kill -9 $pid
  wait $pid 2>/dev/null
  within 5 none_left
  check "killed, it leaves no sleeper" $? "$(grep -lsx watop-selftest /proc/[0-9]*/comm)"
fi

# ---- without io_uring --------------------------------------------------------------------------------------------------------
# A filter over io_uring_setup, _enter and _register (425 to 427 on all machines but alpha). action: errno, or kill.
cat >"$dir/filter.py" <<'END'
import ctypes, os, struct, sys
ALLOW, ERRNO, KILL = 0x7fff0000, 0x00050000, 0x80000000
action = KILL if sys.argv[1] == "kill" else ERRNO | int(sys.argv[1])
code = [(0x20, 0, 0, 0), (0x35, 0, 2, 425), (0x25, 1, 0, 427), (0x06, 0, 0, action), (0x06, 0, 0, ALLOW)]
text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
program = struct.pack("@HP", len(code), ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) != 0:
    sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
END
if ! python3 "$dir/filter.py" 1 /bin/true 2>/dev/null; then
  skip "filtered" "no seccomp filter can be set here"
else
  for action in 1 38 kill; do
    python3 "$dir/filter.py" $action "$watop" why --self-test --format json >"$dir/filtered" 2>&1
    status=$?
    [ $status = 0 ] && [ "$(get "$dir/filtered" io_uring)" = '"filtered"' ] && [ "$(get "$dir/filtered" parked tried)" = false ]
    check "a filter that answers $action is an answer" $? "exit $status: $(cat "$dir/filtered")"
    python3 "$dir/filter.py" $action "$watop" why --self-test >"$dir/filtered" 2>&1
    status=$?
    [ $status = 0 ] && grep -q '^NO IO_URING HERE. A seccomp filter' "$dir/filtered" && narrow "$dir/filtered"
    check "and in words ($action)" $? "exit $status: $(cat "$dir/filtered")"
  done
  python3 "$dir/filter.py" kill "$watop" why -n 0.2 --format json >"$dir/filtered" 2>"$dir/err"
  status=$?
  [ $status = 0 ] && [ "$(get "$dir/filtered" no_iowait_offered)" = null ]
  check "plain why outlives such a filter" $? "exit $status: $(cat "$dir/err" "$dir/filtered")"
fi

# ---- as an ordinary user -----------------------------------------------------------------------------------------------------
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "as an ordinary user" "needs root and setpriv"
else
  cp "$watop" "$dir/watop" && chmod 755 "$dir/watop"
  user() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"; }
  user "$dir/watop" why --self-test --format json >"$dir/user" 2>"$dir/err"
  status=$?
  [ $status = 0 ] && [ "$(get "$dir/user" sees rings)" = false ] && [ "$(get "$dir/user" exact may_trace)" = false ]
  check "user: exit 0, and says what it may not see" $? "exit $status: $(cat "$dir/err" "$dir/user")"
  switch=$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)
  if [ "$switch" = 0 ]; then
    [ "$(get "$dir/user" io_uring)" = "$offer" ]
  else
    [ "$(get "$dir/user" io_uring)" = '"sysctl"' ]
  fi
  check "user: io_uring as the machine has it" $? "$(cat "$dir/user")"
  a=$(get "$dir/json" parked counted) b=$(get "$dir/user" parked counted)
  if [ "$a" = null ] || [ "$b" = null ]; then skip "user: the same answer as root" "not clear: root $a, user $b"; else
    [ "$a" = "$b" ]
    check "user: the same answer as root" $? "root $a, user $b"
  fi
  user "$dir/watop" why --self-test >"$dir/text" 2>&1
  status=$?
  [ $status = 0 ] && narrow "$dir/text" && grep -q '^exact  *for root, or\|^exact  *no:' "$dir/text"
  check "user: text" $? "exit $status: $(cat "$dir/text")"
fi
within 5 none_left
check "nothing is left at the end" $?
echo "1..$number"
exit $failed

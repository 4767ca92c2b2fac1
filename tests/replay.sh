#!/usr/bin/env bash
# `watop replay` in a real terminal: what is shown is what the tables print, time runs as it was recorded, keys, a log that grows, every way out; and
# the live screen's way back into the ring.
#
# Ends with 0, 1, or 77 (no tmux). Uses its own tmux server on a private socket; waits for what it expects to see, at most LIMIT seconds.
set -u
command -v tmux >/dev/null || { echo "no tmux"; exit 77; }
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop
[ -x "$watop" ] && [ -x "$bin/watopd" ] || { echo "no watop in $bin"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/watop-replay.XXXXXX") || exit 1
LIMIT=15
number=0 bad=0
unset TMUX LINES COLUMNS NO_COLOR
export TMUX_TMPDIR=$work LC_ALL=C.UTF-8

tm() { SHELL=/bin/sh tmux -L watop-replay -f /dev/null "$@" 2>/dev/null; }
recorder=
finish() {
  [ -n "$recorder" ] && kill "$recorder" 2>/dev/null && wait "$recorder" 2>/dev/null
  tm kill-server; rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

say() { # say STATUS NAME
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; else
    bad=$((bad + 1)); echo "not ok $number - $2"; tm capture-pane -p -t w | sed 's/^/#   /' | head -60
  fi
}

# What runs in the pane: settings of the terminal before and after, and the exit status. Arguments: ENVIRONMENT... -- ARGUMENTS...
cat >"$work/pane" <<'INNER'
#!/usr/bin/env bash
work=$1; shift
ulimit -c 0
set=(); while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=("$1"); shift; done; shift
stty -a >"$work/before" # its first line has the size, which may change
env "${set[@]}" sh -c 'echo $$ >"$0/pid"; exec "$@"' "$work" "$@" 2>"$work/errors"
echo $? >"$work/status"
stty -a >"$work/after"
echo THE-END
exec cat
INNER
chmod +x "$work/pane"

# One session for all, its pane taken by one program after the other: some versions of the server do not survive the end of a
# session of fixed size.
pane() { # pane COLS ROWS COMMAND...
  local cols=$1 rows=$2; shift 2
  tm has-session -t w || tm new-session -d -s w -x 80 -y 24 cat \; set -g window-size manual \; set -g status off
  tm resize-window -t w -x "$cols" -y "$rows"
  tm respawn-pane -k -t w "$@"
}

start() { # start COLSxROWS [VAR=VALUE...] -- [ARGUMENT...]
  local size=$1; shift
  local set=(); while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=("$1"); shift; done; shift
  rm -f "$work"/{before,after,status,pid,errors}
  pane "${size%x*}" "${size#*x}" "$work/pane" "$work" A=1 ${set[@]+"${set[@]}"} -- "$watop" "$@"
}
screen() { tm capture-pane -p -t w; }
key() { tm send-keys -t w "$@"; }
wait_until() { # wait_until COMMAND...: until it succeeds
  local end=$((SECONDS + LIMIT))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    read -r -t 0.05 <> <(:)
  done
  return 0 # the loop's own status is that of its last wait
}
shows() { screen | grep -qE -- "$1"; }
lacks() { ! shows "$1"; }
sees() { wait_until shows "$1"; }
loses() { wait_until lacks "$1"; }
same_settings() { cmp -s <(sed 1d "$work/before") <(sed 1d "$work/after"); } # line 1 has the size
ended() { [ -s "$work/status" ] && [ -s "$work/after" ]; }
pid() { cat "$work/pid"; }
alternate() { [ "$(tm display-message -p -t w '#{alternate_on}')" = "$1" ]; }

restored() { # restored STATUS NAME: it ended so, and the terminal is as it was
  local ok=0
  wait_until ended || ok=1
  [ "$(cat "$work/status" 2>/dev/null)" = "$1" ] || {
    ok=1; echo "# status $(cat "$work/status" 2>/dev/null), not $1: $(cat "$work/errors" 2>/dev/null)"
  }
  same_settings || { ok=1; echo "# stty differs"; diff "$work/before" "$work/after" | sed 's/^/#   /'; }
  wait_until alternate 0 || { ok=1; echo "# still on the second screen"; }
  sees THE-END || ok=1
  [ "$(tm display-message -p -t w '#{cursor_flag}')" = 1 ] || { ok=1; echo "# cursor hidden"; }
  say $ok "$2"
}

log=$work/bench.watop
printf 'one: sleep 2\ntwo: sleep 2.5\n' >"$work/phases"
TZ=UTC-3 "$watop" record -o "$log" -i 100ms --phases "$work/phases" >/dev/null 2>"$work/record.err" </dev/null
say $? "a recording of two phases"
two=$("$watop" log "$log" | sed -nE 's/.*two: .*sequence ([0-9]+) to.*/\1/p')
last=$("$watop" log "$log" | sed -nE 's/^span.*sequence [0-9]+ to ([0-9]+).*/\1/p')
position() { screen | sed -nE '1s/.* ([0-9]+) of [0-9]+ .*/\1/p'; }
at() { [ "$(position)" = "$1" ]; }
gone_from() { local now; now=$(position); [ -n "$now" ] && [ "$now" != "$1" ]; }

# ---- no terminal, wrong words ----------------------------------------------------------------------------------------
"$watop" replay "$log" >"$work/out" 2>"$work/err" </dev/null; status=$?
[ $status = 2 ] && [ ! -s "$work/out" ] && grep -q 'watop cpu --log' "$work/err"; say $? "not a terminal: exit 2, and what to use"
"$watop" replay >/dev/null 2>&1; [ $? = 2 ]; say $? "no file: exit 2"
for wrong in "--speed 3" "--nonsense" "--from nowhere"; do
  # shellcheck disable=SC2086
  start 80x24 -- replay $wrong "$log"
  wait_until ended && [ "$(cat "$work/status")" = 2 ] && [ -s "$work/errors" ]; say $? "$wrong: exit 2"
done
start 80x24 -- replay "$0"
wait_until ended && [ "$(cat "$work/status")" = 1 ] && grep -q 'not a log' "$work/errors"; say $? "not a log: exit 1"
: >"$work/empty"
start 80x24 -- replay "$work/empty"
wait_until ended && [ "$(cat "$work/status")" = 1 ]; say $? "an empty file: exit 1"

# ---- sizes -----------------------------------------------------------------------------------------------------------
for size in 80x24 160x48; do
  start $size -- replay --paused "$log"
  sees '^load +[0-9]' && sees '^wa ' && sees '^SUM' && sees '^Device' && sees 'PID' && sees "bench.watop.* of $last .*PAUSED"
  say $? "$size shows what live shows, and where it is"
  [ -z "$(pgrep -P "$(pid)")" ]; say $? "$size: no watopd is started"
  key q; restored 0 "$size: q"
done
start 1x1 -- replay "$log"
wait_until alternate 1
for size in 20x5 3x2 2x50 100x1 40x10 80x24; do
  tm resize-window -t w -x ${size%x*} -y ${size#*x}
  kill -0 "$(pid)" 2>/dev/null || break
done
sees '^SUM' && kill -0 "$(pid)"; say $? "resized while playing"
key q; restored 0 "after resizing: q"

# ---- what is shown is what the tables print --------------------------------------------------------------------------
start 120x40 -- replay --paused --from two "$log"
sees 'phase two'; say $? "--from PHASE begins there"
to=$(position)
load=$(screen | sed -nE 's/^load +([0-9.]+)%.*/\1/p')
printed=$("$watop" cpu --log "$log" --from "#$two" --to "#$to" --quiet --format csv 1s | python3 -c "
import csv, sys
print(*('%.1f' % float(row['load']) for row in csv.DictReader(sys.stdin) if row['CPU'] == 'SUM'))")
[ -n "$load" ] && [ "$load" = "$printed" ]
say $? "the load of a report is what watop cpu --log prints for its frames ($load, $printed)"

# ---- keys ------------------------------------------------------------------------------------------------------------
key '<'; wait_until gone_from "$to"; back=$(position); [ "$back" -lt "$to" ]; say $? "< goes back"
key '>'; wait_until gone_from "$back"; [ "$(position)" -gt "$back" ]; say $? "> goes on"
key g; sees '^go to'; key '#20' Enter; wait_until at 20; say $? "g takes a sequence"
key '>' '<'; wait_until at 20; say $? "> and < are each other's inverse"
key g; sees '^go to'; key 'one' Enter; sees 'phase one'; say $? "g takes a phase"
key '}'; sees 'phase two'; say $? "} goes to the next phase"
key '{'; sees 'phase one'; say $? "{ goes to the previous one"
a=$(position); key g; sees '^go to'; key '+1.5s' Enter; wait_until gone_from "$a"; say $? "g takes an offset"
key g; sees '^go to'; key 'no such' Enter; sees 'is no time'; say $? "g refuses what is none"
key g; sees '^go to'; key '#99999' Enter; sees 'ends before' && wait_until at "$last"; say $? "g beyond the end says so"
key B; sees '^load' && wait_until gone_from "$last"; begin=$(position); say $? "B goes to the begin"
key '<'; sees 'begin of the recording' && at "$begin"; say $? "before the begin is nothing"
key End; wait_until at "$last"; say $? "End goes to the end"
key Home; wait_until at "$begin"; say $? "Home goes to the begin"
key d; sees '^interval:'; key 100ms Enter; sees ' 0\.10s'; say $? "d takes the recording's tick"
key d; sees '^interval:'; key 50ms Enter; sees 'recorded every' && sees ' 0\.10s'; say $? "and nothing finer"
key g; sees '^go to'; key '#30' Enter; wait_until at 30; key '<'; wait_until at 29; key '>'; wait_until at 30; say $? "steps are single frames then"
key '?'; sees 'keys and words'; key x; loses 'keys and words'; say $? "? and back"
key w; sees 'any key leaves'; key '<'; key x; loses 'any key leaves' && wait_until at 29; say $? "stepping goes on under why"
key i; sees 'Esc: back'; key Escape; loses 'Esc: back'; say $? "i and back"
key 3 Down Enter; sees 'Esc or q: back'; key '>' Escape; loses 'Esc or q: back' && wait_until at 30; say $? "details, and a step there"
key H; sees 'none were recorded|threads: on'; say $? "H says whether threads were recorded"
key q; restored 0 "after all keys: q"

# ---- time ------------------------------------------------------------------------------------------------------------
# At its true speed: the recorded time that passes in 1.5 s is 1.5 s.
start 80x24 -- replay "$log" 100ms
sees '^load +[0-9]'; a=$(position) t=$(date +%s%N)
sleep 1.5
b=$(position); t=$(($(date +%s%N) - t))
python3 -c "import sys; passed, real = ($b - $a) * 0.1, $t / 1e9; print('# %.2f s in %.2f s' % (passed, real)); sys.exit(abs(passed - real) > 0.45)"
say $? "true speed"
key Space; sees PAUSED; a=$(position); sleep 0.5; at "$a"; say $? "Space pauses"
key ']' ']' ']'; sees ' x8 '; key Space; loses PAUSED; sees ' END '; say $? "eight times faster, to the end"
key Space; sees 'B or Home'; say $? "Space at the end says what to do"
key B '[' '[' '[' '[' '[' '['; sees ' x1/8 '; say $? "slower to 1/8"
key ']' ']' ']' ']' ']' ']' ']' ']' ']' ']' ']'; sees ' END '; say $? "as fast as it goes"
key q; restored 0 "after playing: q"
# The clock is the recorded machine's, wherever the reader is.
start 120x30 TZ=UTC-9 -- replay --paused "$log"
sees '\+03:00' && sees "$(TZ=UTC-3 date -r "$work/phases" '+%Y-%m-%d %H:')"; say $? "the recorded machine's own clock"
key q; restored 0 "clock: q"

# ---- a gap -----------------------------------------------------------------------------------------------------------
"$watop" record -o "$work/gap.watop" -i 100ms -- sleep 30 >/dev/null 2>&1 </dev/null &
recorder=$!
writer() { writer=$(pgrep -P "$recorder" watopd); }
frames() { [ "$("$watop" log "$work/gap.watop" | sed -nE 's/.*: ([0-9]+) frames.*/\1/p')" -gt "$1" ]; }
wait_until writer && wait_until frames 15
kill -STOP "$writer"; sleep 1.3; kill -CONT "$writer"
wait_until frames 22
kill "$recorder"; wait "$recorder" 2>/dev/null; recorder=
late=$("$watop" log "$work/gap.watop" | sed -nE 's/.*late, 1\.[0-9]* s, sequence ([0-9]+)$/\1/p' | head -n 1)
if [ -z "$late" ]; then
  number=$((number + 2)); echo "ok $((number - 1)) - a gap # SKIP the recording has none"; echo "ok $number - a gap played # SKIP the recording has none"
else
  start 80x24 -- replay --paused --from "#$late" "$work/gap.watop" 100ms
  sees 'gap: late'; say $? "a gap is said where it is"
  key g; sees '^go to'; key "#$((late - 4))" Enter; wait_until at $((late - 4)); key Space; sees 'nothing was recorded for 1\.'; say $? "and is not waited for"
  key q; wait_until ended
fi

# ---- a log that grows ------------------------------------------------------------------------------------------------
"$watop" record -o "$work/grows.watop" -i 200ms -- sleep 60 >/dev/null 2>&1 </dev/null &
recorder=$!
wait_until test -s "$work/grows.watop"
start 80x24 -- replay --follow "$work/grows.watop" 200ms
sees ' follows '; a=$(position); wait_until gone_from "$a"; say $? "a growing log is followed"
key '<'; sees PAUSED; a=$(position); sleep 0.6; at "$a"; say $? "a step back stays there"
"$watop" mark --log "$work/grows.watop" hello; key E; sees 'phase hello'; say $? "E follows again; a mark is shown as it comes"
kill "$recorder"; wait "$recorder" 2>/dev/null; recorder=
sees ' END '; say $? "its end is said"
key '<'; sees PAUSED && loses ' END '; say $? "and it can be walked"
key q; restored 0 "growing: q"

# ---- every way out ---------------------------------------------------------------------------------------------------
for way in TERM:143 HUP:129 INT:0 SEGV:139; do
  start 80x24 -- replay "$log"
  sees '^SUM +[0-9]' && wait_until alternate 1
  kill -"${way%:*}" "$(pid)"
  restored "${way#*:}" "SIG${way%:*} gives the terminal back"
done
start 80x24 TERM=dumb -- replay --speed max "$log"
sees '^SUM +[0-9]'; say $? "TERM=dumb prints pictures as lines"
key q Enter; wait_until ended && [ "$(cat "$work/status")" = 0 ] && same_settings; say $? "TERM=dumb: q"

# ---- the live screen's way back --------------------------------------------------------------------------------------
start 80x24 -- --private 200ms
sees '^SUM +[0-9]'; sleep 1.5
key '<' '<'; sees ' s ago '; say $? "live: < goes back into the ring"
later() { key '>'; lacks ' s ago '; }
wait_until later; say $? "live: > comes back to now"
key '<'; sees ' s ago '; key E; loses ' s ago '; say $? "live: E is now"
key '<'; sees ' s ago '; key Space; loses ' s ago|PAUSED'; say $? "live: so is Space"
key '<'; sees ' s ago '; key H; loses ' s ago '; say $? "live: another source ends it"
key g; sees 'for recordings only'; say $? "live: g is for recordings"
key q; restored 0 "live, after going back: q"

echo "1..$number"
[ $bad = 0 ]

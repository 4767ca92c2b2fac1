#!/usr/bin/env bash
# The live screen in a real terminal: sizes, resizing, keys, the private watopd killed, the terminal given back on every way out,
# poor terminals.
#
# Ends with 0, 1, or 77 (no tmux). Uses its own tmux server on a private socket; waits for what it expects to see, at most LIMIT seconds.
set -u
command -v tmux >/dev/null || { echo "no tmux"; exit 77; }
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop
[ -x "$watop" ] && [ -x "$bin/watopd" ] || { echo "no watop in $bin"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/watop-terminal.XXXXXX") || exit 1
LIMIT=15
number=0 bad=0
unset TMUX LINES COLUMNS NO_COLOR
export TMUX_TMPDIR=$work LC_ALL=C.UTF-8

tm() { SHELL=/bin/sh tmux -L watop-test -f /dev/null "$@" 2>/dev/null; }
finish() { tm kill-server; rm -rf "$work"; }
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
  pane "${size%x*}" "${size#*x}" "$work/pane" "$work" A=1 ${set[@]+"${set[@]}"} -- "$watop" --private "$@"
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

# ---- sizes -----------------------------------------------------------------------------------------------------------
for size in 80x24 160x48 200x60; do
  start $size --
  sees '^load +[0-9]' && sees '^wa ' && sees '^SUM' && sees '^Device' && sees 'PID' && sees 'loadavg'
  say $? "$size shows load, wa, cores, devices, processes"
  key q
  restored 0 "$size: q gives the terminal back"
done
start 40x10 --
sees '^load +[0-9]' && sees '^wa '
say $? "40x10 shows load and wa"
key q
restored 0 "40x10: q"
start 1x1 --
wait_until alternate 1 && wait_until test -s "$work/pid"
say $? "1x1 starts"
tm resize-window -t w -x 80 -y 24
sees '^SUM'
say $? "1x1 made 80x24"
key q
restored 0 "1x1: q"
start 80x24 --
sees '^SUM'
for size in 20x5 1x1 200x60 3x2 2x50 100x1 160x48 79x23; do
  tm resize-window -t w -x ${size%x*} -y ${size#*x}
  kill -0 "$(pid)" 2>/dev/null || break
done
sees '^SUM' && kill -0 "$(pid)"
say $? "resized while running"
key q
restored 0 "after resizing: q"

# ---- keys ------------------------------------------------------------------------------------------------------------
start 100x30 --
sees '^SUM +[0-9]'
say $? "first rates"
key '?'; sees 'keys and words'; say $? "? shows the help"
key x; loses 'keys and words'; say $? "a key leaves the help"
key w; sees 'any key leaves'; say $? "w shows why"
key x; loses 'any key leaves'; say $? "a key leaves why"
key P; sees '%CPU: user'; say $? "P explains %CPU"
key M; sees 'RSS: resident'; say $? "M explains RSS"
key Left; loses 'RSS: resident'; say $? "Left takes another column"
key s; sees '^sort by'; say $? "s chooses a column"
key Escape; loses '^sort by'; say $? "Esc leaves it"
key 1; sees '^CPU: number'; say $? "1 selects the cores"
key Tab; sees '^Device: kernel name'; say $? "Tab selects the devices"
key 3; sees 'RSS|%|PID'; say $? "3 selects the processes"
key f; sees '^only rows with'; key zzqqzz Enter; sees 'none with this text'; say $? "f leaves rows out"
key f; sees '^only rows with'; key C-u Enter; loses 'none with this text'; say $? "an empty filter shows all"
key z; sees 'idle rows: shown'; say $? "z shows idle ones"
key /; sees '^find:'; key watopd Enter; sees 'found watopd'; say $? "/ finds a name"
key Enter; sees 'Esc or q: back' && sees '^[^ ].* [0-9]+  state'; say $? "Enter shows the process under the cursor"
key Down Up PPage End Home; sees 'none of its threads|asleep in'; key Escape; loses 'Esc or q: back'; say $? "Esc leaves it"
key Enter; sees 'Esc or q: back'; key q; loses 'Esc or q: back' && sees 'PID'; say $? "so does q"
key c; sees 'Command line'; say $? "c shows command lines"
key H; sees 'threads: on|PID/TID'; sees 'PID/TID'; say $? "H shows threads"
key H; loses 'PID/TID'; say $? "H again"
key Space; sees 'PAUSED'; say $? "Space pauses"
key Down Down End Home PPage NPage r r Left Right; sees 'PAUSED'; say $? "keys while paused"
key Space; loses 'PAUSED'; say $? "Space goes on"
# After a pause the present is shown, not what waited in the ring: the screen's clock goes with ours.
fresh() {
  local shown now
  shown=$(screen | sed -nE '1s/.* ([0-9]{2}):([0-9]{2}):([0-9]{2}).*/\1 \2 \3/p') now=$(date '+%H %M %S')
  [ -n "$shown" ] || return 1
  set -- $shown $now
  local behind=$(((10#$4 * 60 + 10#$5) * 60 + 10#$6 - (10#$1 * 60 + 10#$2) * 60 - 10#$3))
  [ $behind -ge -1 ] && [ $behind -le 3 ]
}
key Space; sees 'PAUSED'
sleep 8
key Space; loses 'PAUSED' && LIMIT=4 wait_until fresh
say $? "after a pause the screen shows the present"
key +; sees ' 2\.0s'; say $? "+ makes the interval longer"
key -; sees ' 1\.0s'; say $? "- makes it shorter"
key d; sees '^interval:'; key 500ms Enter; sees ' 0\.50s'; say $? "d takes an interval"
key d; sees '^interval:'; key soon Enter; sees 'not an interval'; say $? "d refuses what is none"
key q
restored 0 "after all keys: q"

# ---- the private watopd dies -----------------------------------------------------------------------------------------
start 80x24 --
sees '^SUM +[0-9]'
child=$(pgrep -P "$(pid)" | head -n 1)
[ -n "$child" ] && kill -9 "$child"
sees 'is gone since|again:' 
say $? "watopd killed: the screen says so"
wait_until sh -c "n=\$(pgrep -P $(pid) | head -n 1); [ -n \"\$n\" ] && [ \"\$n\" != $child ]" && sees '^SUM +[0-9]'
say $? "and goes on with another one"
key q
restored 0 "after that: q"

# ---- every way out ---------------------------------------------------------------------------------------------------
for way in TERM:143 HUP:129 INT:0 QUIT:131 SEGV:139 ABRT:134 BUS:135 FPE:136; do
  start 80x24 --
  sees '^SUM +[0-9]'
  wait_until alternate 1
  child=$(pgrep -P "$(pid)" | head -n 1)
  kill -"${way%:*}" "$(pid)"
  restored "${way#*:}" "SIG${way%:*} gives the terminal back"
  wait_until sh -c "! kill -0 $child"
  say $? "SIG${way%:*}: its private watopd ends too"
done

start 80x24 --
sees '^SUM +[0-9]'
key C-c
restored 0 "Ctrl-C"

# Stop and continue, from a shell with job control.
pane 80 24 bash --norc --noprofile -i
key "PS1='ready> '; $watop --private" Enter
sees '^SUM +[0-9]' && wait_until alternate 1
say $? "started from a shell"
key C-z
sees 'Stopped' && wait_until alternate 0
say $? "Ctrl-Z gives the terminal to the shell"
tm resize-window -t w -x 90 -y 26
key fg Enter
wait_until alternate 1 && sees '^SUM +[0-9]'
say $? "fg takes it again"
key q
sees 'ready> *$' && wait_until alternate 0
say $? "and q leaves it"

# ---- poor terminals --------------------------------------------------------------------------------------------------
ascii_only() { ! screen | LC_ALL=C grep -q '[^ -~]'; }
colours() { tm capture-pane -e -p -t w | grep -qE $'\033\\[([0-9;]*;)?3[0-7]'; }

start 80x24 TERM=vt100 --
sees '^SUM +[0-9]'; say $? "TERM=vt100"
key '?'; sees 'keys and words'; say $? "TERM=vt100: keys"
key x; key q; wait_until ended && [ "$(cat "$work/status")" = 0 ] && same_settings; say $? "TERM=vt100: q gives the terminal back"
for term in dumb no-such-terminal; do
  start 80x24 TERM=$term --
  sees '^SUM +[0-9]'; say $? "TERM=$term prints the picture as lines"
  key q Enter; wait_until ended && [ "$(cat "$work/status")" = 0 ] && same_settings; say $? "TERM=$term: q"
done
start 160x48 LC_ALL=C --
sees '^SUM +[0-9]' && ascii_only; say $? "C locale: ASCII only"
key q; restored 0 "C locale: q"
start 160x48 LC_ALL=C.UTF-8 --
sees '^SUM +[0-9]'; say $? "UTF-8 locale"
key q; restored 0 "UTF-8 locale: q"
start 80x24 TERM=xterm-256color --
sees '^SUM +[0-9]' && colours; say $? "colours where the terminal has them"
key q; restored 0 "colours: q"
start 80x24 TERM=xterm-256color NO_COLOR=1 --
sees '^SUM +[0-9]' && ! colours; say $? "NO_COLOR"
key q; restored 0 "NO_COLOR: q"

"$watop" --private >"$work/out" 2>&1 </dev/null; status=$?
[ $status = 0 ] && grep -q '^SUM\|CPU' "$work/out"; say $? "not a terminal: one report"

echo "1..$number"
[ $bad = 0 ]

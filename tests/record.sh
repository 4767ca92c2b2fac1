#!/usr/bin/env bash
# watop record and watop mark with real commands: the command runs as it would without, in pipes and in a terminal; its exit status, signals, job
# control, output, children; marks from everywhere; the recorder killed, the disk full. TAP; 77 without the programs.
# Ends only what it started. What needs root, tmux or namespaces is skipped where they lack.
set -u
top=${WATOP_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
bin=${WATOP_BIN:-$top/build-test}
watop=$bin/watop note=$bin/tests/lab_log_note
[ -x "$watop" ] && [ -x "$bin/watopd" ] && [ -x "$note" ] || { echo "no watop in $bin"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/watop-record.XXXXXX") || exit 77
cd "$dir" || exit 1
export watop note dir LC_ALL=C.UTF-8 TMUX_TMPDIR=$dir
unset TMUX WATOP_MARK
pids=()
tm() { SHELL=/bin/sh tmux -L watop-record -f /dev/null "$@" 2>/dev/null; }
clean() {
  local p
  for p in ${pids[@]+"${pids[@]}"}; do kill -9 "$p" && wait "$p"; done 2>/dev/null
  tm kill-server
  [ -n "${mounted:-}" ] && { fsfreeze -u "$mounted"; umount "$mounted" || umount -l "$mounted"; } 2>/dev/null
  rm -rf "$dir"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP
number=0 failed=0
check() { # check NAME STATUS [DETAIL]
  number=$((number + 1))
  if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; failed=1; [ -n "${3:-}" ] && printf '%s\n' "$3" | head -20 | sed 's/^/# /'; fi
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
gone() { ! kill -0 "$1" 2>/dev/null; }
rec() { "$watop" record -q -o "$@"; }
fresh() { rm -rf "$dir"/log*; }

# ---- exit status -----------------------------------------------------------------------------------------------------------------
status_of() { # status_of WANTED NAME ARGUMENT...
  local wanted=$1 name=$2 out
  shift 2
  fresh
  out=$("$watop" record -q "$@" 2>&1 </dev/null)
  local s=$?
  [ $s = "$wanted" ]
  check "exit status: $name" $? "$s: $out"
}
status_of 0 "0" -o log -- true
status_of 3 "the command's" -o log -- sh -c 'exit 3'
status_of 143 "128 + signal" -o log -- sh -c 'kill -TERM $$'
status_of 127 "not found" -o log -- /nonexistent/command
[ ! -e log ] && [ ! -e log.out ]
check "what never ran leaves no files" $? "$(ls)"
status_of 126 "not executable" -o log -- /etc/passwd
status_of 125 "no folder for the log" -o /nonexistent/log -- true
status_of 2 "usage" --repeat 0 -- true
status_of 2 "a command and --pid" --pid 1 -- true
rec log -- true && rec log -- touch ran 2>err
[ $? = 125 ] && [ ! -e ran ] && grep -q -- --force err
check "an existing log is not replaced, nothing runs" $? "$(cat err)"
rec log --force -- sh -c 'echo again' >/dev/null
[ $? = 0 ] && [ "$(cat log.out)" = again ]
check "--force replaces both files" $?
fresh
echo precious >log
rec log --force -- true 2>err
[ $? = 125 ] && [ "$(cat log)" = precious ]
check "--force replaces logs only" $? "$(cat err)"
fresh
rec log -- echo first >/dev/null
cp log before && cp log.out before.out
rec log --force -- /nonexistent/command 2>err
[ $? = 127 ] && cmp -s log before && cmp -s log.out before.out && [ "$(ls log*)" = "log
log.out" ]
check "--force with a command that cannot run: the old recording is still there" $? "$(cat err; ls -l log* before*)"
rec log --force -- echo second >/dev/null
! cmp -s log before && [ "$(cat log.out)" = second ] && [ "$(ls log*)" = "log
log.out" ]
check "and with one that can nothing is left of it" $? "$(ls -l log*)"
rm -f before before.out
fresh
mkdir log && mkfifo log.fifo
for place in log log.fifo /dev/null; do for force in '' --force; do "$watop" record -q -o "$place" $force -- touch ran; done; done 2>err
[ "$(grep -c 'a folder' err)" = 2 ] && [ "$(grep -c 'not a regular file' err)" = 4 ] && ! grep -q -- --force err && [ ! -e ran ]
check "a folder, a FIFO, a device: said, whatever --force says" $? "$(cat err)"
fresh
rec log -- sh -c '[ ! -e /proc/self/fd/0 ]' <&-
check "a closed standard input stays closed" $?
fresh
ln -s "$dir/elsewhere" log
rec log -- true 2>/dev/null
[ $? = 125 ] && [ ! -e elsewhere ]
check "a link is not followed" $?
fresh
rec log -- true && [ "$(stat -c %a log log.out | tr '\n' ' ')" = "600 600 " ]
check "files are for the owner only" $? "$(stat -c %a log log.out)"

# ---- the command is as it would be without ------------------------------------------------------------------------------------------
cat >state.sh <<'S'
exec 3>&1
{ umask; pwd; cat <&7; cat; grep -E '^(SigBlk|SigIgn|SigCgt|NoNewPrivs|Seccomp|Uid|Groups|CapEff)' /proc/self/status; ulimit -a
env | grep -vE '^(WATOP_MARK|_)='; cat /proc/self/stat | cut -d' ' -f5,6,7,18,19; cat /proc/self/oom_score_adj
ls /proc/$$/fd; } >&3
S
plain() { sh -c 'echo seven >seven; exec 7<seven; echo input | "$@"' sh "$@"; }
fresh
plain sh state.sh >plain.txt
plain "$watop" record -q -o log -- sh state.sh >recorded.txt
diff <(sed 's/^[0-9]* [0-9]* /G S /' plain.txt) <(sed 's/^[0-9]* [0-9]* /G S /' recorded.txt) >difference
check "environment, limits, signals, descriptors, input: no difference" $? "$(cat difference)"
fresh
python3 - "$watop" <<'P'
import os, signal, subprocess, sys
# A parent that ignores SIGINT, SIGPIPE and SIGCHLD: the command inherits just that, and the status is still known.
for s in (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD): signal.signal(s, signal.SIG_IGN)
r = os.fork()
if r == 0:
    os.execv(sys.argv[1], ["watop", "record", "-q", "-o", "log", "--", "python3", "-c", "import os; open('ignored', 'w').write([l for l in open('/proc/self/status') if l.startswith('SigIgn')][0]); os._exit(5)"])
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
open("status", "w").write(str(os.waitstatus_to_exitcode(os.waitpid(r, 0)[1])))
P
[ "$(cat status)" = 5 ] && [ $((0x$(sed 's/.*:[[:space:]]*//' ignored) & 0x11002)) = $((0x11002)) ]
check "ignored signals stay ignored" $? "$(cat status ignored)"
fresh
sh -c 'ps -o pgid=,sid= -p $$; "$watop" record -q -o log -- sh -c "ps -o pgid=,sid= -p \$\$"' >groups 2>/dev/null
[ "$(tail -n 1 groups | tr -s ' ')" = "$(head -n 1 groups | tr -s ' ')" ]
check "process group and session are the caller's" $? "$(cat groups)"

# ---- output ---------------------------------------------------------------------------------------------------------------------------
fresh
head -c 8000000 /dev/urandom >random
rec log -- sh -c 'cat random; echo to-error >&2' >got 2>got.err
cmp -s random got && [ "$(cat got.err)" = to-error ] && [ "$(stat -c %s log.out)" = $((8000000 + 9)) ]
check "8 MB through, each stream to its place, both kept" $? "$(ls -l got got.err log.out)"
"$note" log output >noted && cmp -s noted <(tail -c 1048576 log.out) && [ "$("$note" log output.info | sed -n 's/^note_offset //p')" = $((8000009 - 1048576)) ]
check "the last MiB is in the log too" $?
"$note" log output.index | awk 'NF != 3 || $2 < last || ($3 != 1 && $3 != 2) { bad = 1 } { last = $2; seen[$3]++ } END { exit bad || !seen[1] || !seen[2] }'
check "its index has times and offsets in order" $? "$("$note" log output.index | head -5)"
fresh
rec log -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done' >both 2>&1
[ "$(tr -d '\n' <both)" = o1e1o2e2o3e3o4e4o5e5o6e6o7e7o8e8o9e9 ]
check "one place for both keeps the order" $? "$(tr -d '\n' <both)"
fresh
timeout 20 sh -c '"$watop" record -q -o log -- sh -c "yes; echo ended by \$? >\"$dir/yes\"" | head -n 2 >two'
[ "$(wc -l <two)" = 2 ] && within 5 grep -q 'ended by 141' yes
check "a reader that leaves ends the command by SIGPIPE" $? "$(cat yes)"
fresh
begin=$SECONDS
rec log -- sh -c '(sleep 3; echo late) & echo now' >late
[ $((SECONDS - begin)) -lt 3 ] && [ "$(cat late)" = now ] && within 6 grep -q late late
check "does not wait for the background; its late words arrive" $? "$(cat late)"
within 5 grep -q late log.out
check "and are kept" $?
fresh
[ "$(rec log -- sh -c '(sleep 1; echo late) & echo now' | tr '\n' ' ')" = "now late " ]
check "a pipe ends with the last writer" $?

fresh
rec log -- echo lost >/dev/full 2>err
[ $? = 1 ] && grep -q 'standard output' err && [ "$(cat log.out)" = lost ]
check "output that cannot be written: said, exit 1, kept all the same" $? "$(cat err)"
fresh
(ulimit -S -f 600 && rec log -- sh -c 'head -c 3000000 /dev/zero; trap "" XFSZ; head -c 3000000 /dev/zero >big; exit 7') 2>err | wc -c >size
[ "$(cat size)" = 3000000 ] && grep -q 'log.out: File too large' err && [ "$(stat -c %s big)" = 614400 ] &&
  "$note" log output.info | grep -q '^bytes 614400$'
check "a limit on files: pipes have none, the copy ends and that is said" $? "$(cat size err; ls -l; "$note" log output.info)"
rm -f big
fresh

# ---- signals ----------------------------------------------------------------------------------------------------------------------------
cat >count.sh <<'S'
trap 'echo got >>"$dir/signals"' TERM
trap 'echo int >>"$dir/signals"' INT
trap 'exit 9' USR1
echo $$ >"$dir/count.pid"
while :; do sleep 0.1; done
S
counting() { # counting: the pid of the recorder in $recorder
  fresh
  rm -f signals count.pid
  # Its own group; an interactive shell does the same.
  python3 -c 'import os,sys; os.setpgid(0,0); import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' "$watop" record -q -o log -- sh count.sh >/dev/null 2>&1 </dev/null &
  recorder=$!
  pids+=("$recorder")
  within 10 test -s count.pid
}
counting
kill -TERM "$recorder"
within 5 test -s signals
sleep 0.5
[ "$(cat signals)" = got ]
check "a signal to the recorder alone is passed on, once" $? "$(cat signals)"
rm -f signals
kill -TERM -- "-$recorder"
within 5 test -s signals
sleep 0.5
[ "$(cat signals)" = got ]
check "one to the group comes once" $? "$(cat signals)"
rm -f signals
kill -INT "$recorder"
within 5 grep -q int signals && kill -0 "$recorder"
check "SIGINT is the command's business" $?
kill -STOP "$(cat count.pid)" && sleep 0.3 && kill -CONT "$(cat count.pid)"
kill -USR1 "$recorder"
wait "$recorder"
[ $? = 9 ]
check "a command stopped and continued by others; its trap's exit status" $?

# ---- marks ----------------------------------------------------------------------------------------------------------------------------------
fresh
cat >marks.sh <<'S'
"$watop" mark -v first >sequence
"$note" log >while
(sh -c '"$watop" mark in a subshell')
"$watop" mark --end
printf '%s' "$WATOP_MARK" >socket
S
rec log -- sh marks.sh
grep -q "^mark $(cat sequence) first$" while
check "the mark is in the log when watop mark returns" $? "$(cat while)"
"$note" log | grep -q 'in a subshell$' && "$note" log | grep -q ' end$' && "$note" log | grep -q '^frames 1 .* full$'
check "marks from a subshell, --end" $? "$("$note" log)"
[ "$(cat socket)" = "$dir/log.mark" ] && [ ! -e log.mark ]
check "the socket is beside the log and goes with it" $?
"$watop" mark --log log nobody 2>err
[ $? = 1 ] && grep -q 'nobody records' err
check "no recording: exit 1, said" $? "$(cat err)"
long=$(printf 'x%.0s' $(seq 300))
"$watop" mark --log log "$long" 2>err
[ $? = 2 ]
check "a text that is too long is refused" $? "$(cat err)"
fresh
"$watop" record -q -o log -- sh -c 'echo $$ >open.pid; while [ ! -e open.end ]; do sleep 0.1; done' &
recorder=$!
pids+=("$recorder")
within 10 test -s open.pid
[ "$(stat -c %a log.mark)" = 600 ]
check "the socket is for the owner only" $? "$(stat -c %a log.mark)"
"$watop" mark --log log "$(printf 'a\033[31m\nb')" && "$note" log | grep -q 'mark .* a \[31m b$'
check "control bytes do not enter" $? "$("$note" log)"
if [ "$(id -u)" = 0 ] && unshare --pid --net --fork --mount-proc true 2>/dev/null; then
  unshare --pid --net --fork --mount-proc "$watop" mark --log "$dir/log" elsewhere && "$note" log | grep -q elsewhere
  check "from another PID and network namespace" $?
  chmod 755 . && chmod 666 log.mark
  setpriv --reuid 65534 --regid 65534 --clear-groups "$watop" mark --log "$dir/log" stranger 2>err
  [ $? = 1 ] && ! "$note" log | grep -q stranger
  check "not from another user, even where the file's mode allows it" $? "$(cat err)"
else
  skip "from another PID and network namespace" "no root, or no namespaces"
fi
touch open.end
wait "$recorder"
rm -f open.end open.pid
mkdir -p run/logs && chmod 700 run run/logs
user=() # an ordinary user's own daemon: root would not ask XDG_RUNTIME_DIR
[ "$(id -u)" = 0 ] && { chown 65534:65534 run run/logs; user=(setpriv --reuid 65534 --regid 65534 --clear-groups); }
if [ ! -S /run/watop/control ] && ${user[@]+"${user[@]}"} env XDG_RUNTIME_DIR="$dir/run" test -x "$bin/watopd"; then
  XDG_RUNTIME_DIR=$dir/run ${user[@]+"${user[@]}"} "$bin/watopd" --interval 200ms --log "$dir/run/logs" 2>daemon.err &
  daemon=$!
  pids+=("$daemon")
  within 10 test -S run/watop/control
  first=$(XDG_RUNTIME_DIR=$dir/run ${user[@]+"${user[@]}"} "$watop" mark -v one 2>&1)
  second=$(XDG_RUNTIME_DIR=$dir/run ${user[@]+"${user[@]}"} "$watop" mark -v --end 2>&1)
  [ "$first" -gt 0 ] && [ "$second" -gt "$first" ]
  check "without a recording: to the daemon" $? "$first $second $(cat daemon.err)"
  # It lets 20 a second be taken: the client waits for its turn.
  s=0
  for i in $(seq 30); do XDG_RUNTIME_DIR=$dir/run ${user[@]+"${user[@]}"} "$watop" mark "m$i" || s=1; done 2>err
  check "many in a row" $s "$(cat err)"
  within 10 sh -c 'ls run/logs | grep -q .' && "$watop" mark --log "$(find run/logs -type f -name '*.log' | tail -n 1)" lost 2>err
  [ $? = 1 ] && grep -q 'a watopd writes it' err
  check "a log of the daemon's: said where its marks go" $? "$(cat err; find run/logs)"
  kill "$daemon" && wait "$daemon" 2>/dev/null
else
  skip "without a recording: to the daemon" "a daemon runs, or the folder is closed to others"
fi
XDG_RUNTIME_DIR=$dir/none ${user[@]+"${user[@]}"} "$watop" mark lost 2>err
s=$?
[ -S /run/watop/control ] || { [ $s = 1 ] && grep -q 'no daemon runs' err; }
check "neither: exit 1, said" $? "$(cat err)"

# As a shell that is told to end: what would come after the command does not.
fresh
rm -f rounds
"$watop" record -q -o log --repeat 4 -- sh -c 'echo x >>rounds; exec sleep 3' &
recorder=$!
pids+=("$recorder")
within 10 test -s rounds
kill -TERM "$recorder"
wait "$recorder"
[ $? = 143 ] && [ "$(wc -l <rounds)" = 1 ]
check "SIGTERM ends the command and the rounds after it" $? "$(cat rounds)"
fresh
rec log --repeat 150 -i 1 -- true
[ "$("$note" log runs | awk '{ print $3 }' | tail -n 1)" = 150 ] && [ "$("$note" log runs | wc -l)" = 150 ]
check "all rounds are noted, also when not after each" $? "$("$note" log runs | tail -n 2)"

# ---- phases, repeat, pid, open end -----------------------------------------------------------------------------------------------------------
fresh
printf '# a list\none: sleep 0.1\n\ntwo: sleep 0.1 & false & wait\nbad: exit 4\n' >list
rec log -i 0.1 --phases list --repeat 2 2>err
s=$?
marks=$("$note" log | sed -n 's/^mark [0-9]* //p' | tr '\n' ' ')
[ $s = 4 ] && [ "$marks" = "one end two end bad end one end two end bad end " ]
check "--phases and --repeat: marks around each, the first bad status" $? "$s: $marks"
runs=$("$note" log runs | awk '{ print $3, $4, $9 }' | tr '\n' ';')
[ "$runs" = "1 0 one;1 0 two;1 4 bad;2 0 one;2 0 two;2 4 bad;" ]
check "the rounds are noted" $? "$runs"
"$note" log runs | while read -r from to round exit start end user system name; do
  "$note" log | grep -q "^mark $from $name$" && "$note" log | grep -q "^mark $to end$" && [ "$end" -gt "$start" ] || exit 1
done
check "with the frames of their marks" $?
fresh
printf 'no command here\n' >list
rec log --phases list 2>err
[ $? = 2 ] && grep -q 'list:1' err && [ ! -e log ]
check "a wrong line is named" $? "$(cat err)"
fresh
sleep 1.5 &
pids+=("$!")
rec log --pid $! -i 0.2
[ $? = 0 ] && [ "$("$note" log members | grep -c "^$! ")" = 1 ]
check "--pid: until it ends; it is the member" $? "$("$note" log members)"
fresh
"$watop" record -q -o log -i 0.2 --watch sleep --label 'a label' &
recorder=$!
sleep 5 &
pids+=("$!" "$recorder")
within 10 sh -c '"$note" log --process '"$!"' | grep -q .'
kill -INT "$recorder"
wait "$recorder" 2>/dev/null
[ $? = 0 ] && "$note" log watched | grep -q "^$! " && [ "$("$note" log label)" = "a label" ] && [ "$("$note" log kind)" = open ]
check "without a command: until a signal; --watch finds who comes later" $? "$("$note" log; "$note" log watched)"

# ---- the tree ----------------------------------------------------------------------------------------------------------------------------------
cat >tree.sh <<'S'
setsid sh -c 'echo $$ >daemon.pid; sleep 1.2; sleep 0.01' &
python3 -c 'import os,time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("orphan.pid", "w").write(str(os.getpid())); time.sleep(1); os._exit(0)
    time.sleep(0.5); os._exit(0)
time.sleep(0.6)' &
sleep 0.9
S
sleep 30 & other=$!
pids+=("$other")
members() { # members NAME RULE
  "$note" log members >members
  head -n 1 members | grep -q "$2" && grep -q "^$(cat daemon.pid) " members && grep -q "^$(cat orphan.pid) " members && ! grep -q "^$other \|^$$ \|^1 " members
  check "$1" $? "$(cat daemon.pid orphan.pid members)"
}
fresh
rec log -i 0.1 -- sh tree.sh
if "$note" log members | grep -q '^rule cgroup'; then
  members "members by a control group: daemons too, nobody else" '^rule cgroup'
  leaf=$("$note" log members | sed -n '1s/^rule cgroup [^ ]* //p')
  [ ! -e "$leaf" ]
  check "the control group is gone, though some still ran" $? "$leaf"
else
  skip "members by a control group" "none is writable here"
fi
fresh
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  unshare --mount sh -c 'umount -l /sys/fs/cgroup/* /sys/fs/cgroup 2>/dev/null; "$watop" record -q -o log -i 0.1 -- sh tree.sh'
  members "members by ancestry, where there is no control group" '^rule ancestry may be incomplete'
fi

# ---- nothing of ours harms it ------------------------------------------------------------------------------------------------------------------
fresh
sh -c '"$watop" record -q -o log -i 0.1 -- sh -c "echo \$PPID >parent; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo line \$i; sleep 0.1; done; echo finished \$?"' >killed 2>&1 &
pids+=("$!")
within 10 grep -q 'line 3' killed
sleep 0.4
kill -9 "$(cat parent)"
within 10 grep -q 'finished 0' killed && [ "$(grep -c '^line' killed)" = 20 ]
check "recorder killed: the command goes on, no line is lost" $? "$(cat killed)"
within 5 grep -q finished log.out
check "its output is still kept" $?
"$note" log | tail -n 1 | grep -qE '^frames 1 ([3-9]|[1-9][0-9]+) .* full$'
check "the log reads up to then" $? "$("$note" log)"
within 5 sh -c '! ls -d /sys/fs/cgroup/unified/watop-'"$(cat parent)"'-* /sys/fs/cgroup/watop-'"$(cat parent)"'-*'
check "the last relay removes the control group" $?
[ -S log.mark ] && rec log --force -- "$watop" mark again && "$note" log | grep -q again
check "the dead one's socket is replaced" $?
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  fresh
  mkdir -p small
  unshare --mount sh -c 'mount -t tmpfs -o size=128k none small && cd small && "$watop" record -q -i 0.05 -o log -- sh -c "sleep 0.5; head -c 300000 /dev/zero | tr \"\\0\" x; sleep 1; exit 6" >../big 2>../err
    echo $? >../status; "$note" log >../read 2>&1'
  [ "$(cat status)" = 6 ] && [ "$(stat -c %s big)" = 300000 ]
  check "disk full: the command's status and output are whole" $? "$(cat status; ls -l big)"
  grep -q 'No space left' err
  check "it is said" $? "$(cat err)"
  grep -qE '^frames 1 [0-9]+ [0-9]+ full$' read
  check "what is in the log reads" $? "$(cat read)"
else
  skip "disk full" "no root, or no namespaces"
fi
# A disk that hangs: a file system that takes no writes until it is thawed.
image=$dir/image
frozen() { command -v mkfs.ext4 fsfreeze >/dev/null && truncate -s 16M "$image" && mkfs.ext4 -q "$image" && mkdir -p "$dir/disk" && mount -o loop "$image" "$dir/disk"; }
if [ "$(id -u)" = 0 ] && frozen >/dev/null 2>&1; then
  mounted=$dir/disk
  cat >frozen.sh <<'S'
trap 'echo got-term; echo >term' TERM
echo $$ >frozen.pid; echo begun
i=0
while [ ! -e term ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
echo last words
S
  rm -f term
  "$watop" record -q -o disk/log -i 0.05 -- sh frozen.sh >frozen.txt 2>&1 &
  recorder=$!
  pids+=("$recorder")
  within 10 grep -q begun frozen.txt && sleep 0.3 && fsfreeze -f disk && sleep 0.3
  kill -TERM "$recorder"
  within 5 test -s term
  check "the disk hangs: a signal to the recorder alone still reaches the command" $? "$(cat frozen.txt; cat /proc/$recorder/stack)"
  within 5 grep -q 'last words' frozen.txt && grep -q got-term frozen.txt
  check "and what the command says is not held up" $? "$(cat frozen.txt)"
  fsfreeze -u disk
  wait "$recorder"
  [ $? = 0 ] && grep -q 'last words' disk/log.out && "$note" disk/log runs | grep -q ' 0 '
  check "it goes on when the disk does: the recording is whole" $? "$("$note" disk/log; cat disk/log.out)"
  umount disk && mounted= && rm -f image
else
  skip "the disk hangs" "no root, no loop devices, or no ext4"
fi

# ---- in a terminal -----------------------------------------------------------------------------------------------------------------------------
finish() { echo "1..$number"; exit $failed; }
command -v tmux >/dev/null || { skip "in a terminal" "no tmux"; finish; }
screen() { tm capture-pane -p -t w; }
shows() { screen | grep -qE -- "$1"; }
key() { tm send-keys -t w "$@"; }
shell() { # a fresh interactive shell of 100x30 with job control
  fresh
  tm has-session -t w || tm new-session -d -s w -x 100 -y 30 cat \; set -g window-size manual \; set -g status off
  tm resize-window -t w -x 100 -y 30
  tm respawn-pane -k -t w env "watop=$watop" "note=$note" "dir=$dir" PS1='READY> ' bash --norc --noprofile -i
  within 10 shows 'READY>'
}
line() { key "$1" Enter; }
shell
line 'R="$watop record -q -o log --force --"; stty -a >before; $R sh -c "test -t 0 && test -t 1 && test -t 2 && echo all-\${0}-terminals; stty size <&1" three'
within 10 shows '^all-three-terminals' && within 5 shows '^30 100$'
check "terminal: all three are, of the same size" $? "$(screen)"
cat -A log.out | grep -q '^all-three-terminals\$$'
check "what is kept has plain line ends" $? "$(cat -A log.out)"
shell
line '$watop record -q -o log -- sh -c "trap \"stty size <&1; echo resized\" WINCH; echo go; while :; do sleep 0.2; done"; echo status-$?'
within 10 shows '^go' && tm resize-window -t w -x 90 -y 25 && within 10 shows '^25 90$'
check "SIGWINCH, and the new size is there" $? "$(screen)"
key C-c
within 10 shows 'status-130'
check "Ctrl-C ends the command" $? "$(screen)"
within 5 test -s log && "$note" log runs | grep -q ' 130 '
check "and the recording is whole" $? "$("$note" log)"
shell
line '$watop record -q -o log -- sh -c "trap \"\" INT; echo deaf; sleep 2; echo survived"; echo status-$?'
within 10 shows '^deaf' && key C-c && within 10 shows 'survived$' && within 5 shows 'status-0'
check "a command that ignores Ctrl-C goes on, recorded" $? "$(screen)"
shell
line '$watop record -q -o log -- sh -c "echo begun; sleep 1; echo typed \$(head -n 1)"; echo status-$?'
within 10 shows '^begun' && key C-z && within 10 shows 'Stopped'
check "Ctrl-Z stops it all, the shell sees it" $? "$(screen)"
line 'fg'
sleep 1.2
line 'words'
within 10 shows '^typed words' && line 'echo status=$?' && within 5 shows '^status=0'
check "fg continues it, it reads the keys" $? "$(screen)"
shell
line '$watop record -q -o log -- sh -c "sleep 0.5; echo in-background" & wait; echo status-$?'
within 10 shows 'in-background' && within 5 shows 'status-0'
check "in the background" $? "$(screen)"
shell
line 'stty sane; stty -a >before; $watop record -q -o log -- sh -c "stty raw -echo; stty -a >inside; stty sane; echo set" & sleep 0.1; stty -a >during; wait; echo waited'
within 10 shows 'Stopped' && cmp -s before during && [ ! -e inside ]
check "in the background it does not set the terminal, but stops as without" $? "$(screen; diff before during)"
line 'fg; stty -a >after; echo compared'
within 10 shows '^compared' && cmp -s before after && grep -q -- '-icanon' inside
check "in the foreground it does, and the terminal is as it was" $? "$(screen; diff before after; cat inside)"
shell
cat >full.py <<'P'
import curses
def main(screen):
    screen.addstr(0, 0, "full screen %dx%d" % (curses.COLS, curses.LINES)); screen.refresh()
    while True:
        got = screen.getch()
        if got == curses.KEY_RESIZE: screen.erase(); screen.addstr(2, 0, "now %dx%d" % tuple(reversed(screen.getmaxyx()))); screen.refresh()
        elif got == ord("q"): return
        else: screen.addstr(1, 0, "key %d" % got); screen.refresh()
curses.wrapper(main)
P
line 'stty -a >before; $watop record -q -o log -- python3 full.py; echo status-$?; stty -a >after'
within 10 shows '^full screen 100x30' && key x && within 5 shows '^key 120'
check "a full-screen program gets single keys" $? "$(screen)"
tm resize-window -t w -x 80 -y 24 && within 5 shows '^now 80x24'
check "and new sizes" $? "$(screen)"
key q
within 5 shows 'status-0' && within 5 test -s after && diff <(tail -n +2 before) <(tail -n +2 after) >difference
check "the terminal is as it was" $? "$(screen; cat difference)"
shell
line 'PS1="IN> " $watop record -q -o log -- bash --norc --noprofile -i'
within 10 shows '^IN>' && line 'python3 full.py' && within 10 shows '^full screen' && key x && within 5 shows '^key 120' && key q && sleep 0.3 && line 'exit'
within 5 shows 'READY>'
check "a full-screen program that a recorded shell runs as its job gets them too" $? "$(screen)"
shell
line '$watop record -q -o log -- sh -c "echo \$PPID >parent; echo alive; sleep 1.5; echo still-\$0; sleep 0.3" here'
within 10 shows '^alive' && kill -9 "$(cat parent)" && within 5 shows 'Killed' && within 10 shows 'still-here'
check "recorder killed in a terminal: the command's words still come" $? "$(screen)"
within 5 sh -c '! ls -d /sys/fs/cgroup/unified/watop-'"$(cat parent)"'-* /sys/fs/cgroup/watop-'"$(cat parent)"'-*'
check "and nothing is left of its control group" $?
shell
line 'clear; $watop record -o log -i 0.2 -- sh -c "sleep 3; echo words >&2; sleep 1.5; echo more >&2" >/dev/null; echo status-$?'
within 10 shows '[0-9]+ s .* load [0-9.]+% .*samples' && within 10 shows '^words$' && within 10 shows '^more$' && within 5 shows 'status-0' && ! shows '[0-9]samples.*words'
check "progress while the command leaves the terminal alone, gone before its words" $? "$(screen)"
shell
line 'clear; $watop record -o log -i 0.2; echo status-$?'
within 10 shows '[0-9]+ s .* load [0-9.]+% .*samples' && key C-c && within 5 shows 'record: log: [0-9.]+ s, [0-9]+ samples' && within 5 shows 'status-0'
check "without a command: progress, and a closing line" $? "$(screen)"
# ---- programs that make use of their terminal ------------------------------------------------------------------------------------------------
R='$watop record -q -o $dir/log --'
seq 300 >numbers
pager() { # pager COMMAND: its second page, by a key, and the end
  local name=${1%% *}
  command -v "$name" >/dev/null || { skip "$1" "no $name"; return; }
  shell
  line "stty -a >before; $R $1; echo status-\$?; stty -a >after; echo compared"
  within 10 shows '^28$' && key Space && within 5 shows '^50$' && key q && within 5 shows '^compared' && cmp -s before after && grep -q ' 0 ' <("$note" log runs)
  check "$1: keys, and the terminal is as it was" $? "$(screen; diff before after)"
}
pager "less numbers"
pager "more numbers"
if command -v git >/dev/null && command -v less >/dev/null; then
  git init -q repository && for i in $(seq 50); do git -C repository -c user.name=n -c user.email=n@n commit -q --allow-empty -m "commit-$i."; done
  shell
  line "GIT_PAGER=less LESS= $R git -C repository log --format=%s; echo status-\$?"
  within 10 shows '^commit-50\.' && key Space && within 5 shows '^commit-5\.' && key q && within 5 shows '^status-0'
  check "git log: its pager has the keys" $? "$(screen)"
  shell
  line "GIT_PAGER=less LESS= $R git -C repository log --format=%s; echo status-\$?"
  within 10 shows '^commit-50\.' && kill -TERM "$(pgrep -o -f "^$watop record -q -o $dir/log -- git")" && sleep 0.2 && key q && within 10 shows '^status-143' && within 5 sh -c '! pgrep -f "^$watop record -q -o $dir/log -- git"'
  check "a signal to the recorder is git's, which waits for its pager" $? "$(screen)"
else
  skip "git log" "no git or less"
fi
shell
line "PS1='IN> ' $R bash --norc --noprofile -i"
within 10 shows '^IN>' && line 'sleep 100' && sleep 0.5 && key C-z && within 5 shows '^\[1\].*Stopped' && line 'fg' && sleep 0.5 && key C-c && sleep 0.3 &&
  line 'echo status-$?; ps -o tpgid=,pgid= -p $$ | tr -s " " "="' && within 5 shows '^status-130' && line 'python3 -c "import os; print(\"front\", os.tcgetpgrp(1) == os.getpgrp())"' && within 5 shows '^front True'
check "a recorded shell has job control" $? "$(screen)"
! shows 'no job control|cannot set terminal'
check "and does not complain" $? "$(screen)"
line 'exit'
within 5 shows 'READY>'
check "it ends by exit" $? "$(screen)"
shell
line "stty -a >before; $R cat"
sleep 0.5
within 10 test -e log.out && line one && within 5 sh -c '[ "$(grep -c "^one$" log.out)" = 2 ]' && key C-z && within 5 shows '^\[1\].*Stopped'
check "cat: lines; Ctrl-Z stops it and us" $? "$(screen; cat -A log.out)"
line 'stty -a >during; bg; sleep 0.3; echo prompt'
within 5 shows '^prompt' && within 5 shows '^\[1\].*Stopped.*' && cmp -s before during
check "the shell has its terminal; bg: it reads, so it stops again" $? "$(screen; diff before during)"
line 'fg; echo status-$?'
sleep 0.5
line two && within 5 sh -c '[ "$(grep -c "two$" log.out)" = 2 ]' && key C-d && within 5 shows '^status-0'
check "fg: it reads on" $? "$(screen; cat -A log.out)"
shell
line "$R sh -c 'sleep 1; head -n 1; echo ended.' &"
within 10 test -e log.out && line 'echo mine' && within 5 shows '^mine' && line 'fg' && sleep 1.5 && line 'its words' && within 5 shows '^ended\.'
check "fg of one that runs in the background: it gets the keys then" $? "$(screen)"
shell
printf 'one: stty size; head -n 1\ntwo: stty size; head -n 1; tty >&3\n' >list
line "stty -a >before; 3>other $watop record -q -o log --phases list --repeat 2; echo status-\$?; stty -a >after; echo compared"
for i in 1 2 3 4; do within 5 sh -c '[ "$(grep -c "^30 100" log.out)" = '$i' ]' && line "answer-$i"; done
within 5 shows '^compared' && shows '^status-0' && [ "$(grep -c '^answer-[1-4]$' log.out)" = 8 ] && [ "$(grep -c '^/dev/pts/' other)" = 2 ] && cmp -s before after
check "a list, twice: each has the whole terminal" $? "$(screen; cat log.out other)"
shell
line "$R less numbers"
within 10 shows '^28$' && tm respawn-pane -k -t w cat && within 10 sh -c '! pgrep -f "^$watop record -q -o $dir/log -- less"'
check "the terminal goes away: a pager ends, and nothing of ours is left" $? "$(ps -ef | grep 'record -q' | head)"
shell
line "$R cat"
within 10 test -e log.out && sleep 0.5 && key C-z && within 5 shows '^\[1\].*Stopped' && tm respawn-pane -k -t w cat && within 10 sh -c '! pgrep -f "^$watop record -q -o $dir/log -- cat"'
check "and so with one that is stopped" $? "$(ps -ef | grep 'record -q' | head)"
shell
line "stty tostop; $R sh -c 'sleep 0.3; echo words.' & wait; echo waited"
within 10 shows '^\[1\].*Stopped|^waited' && ! shows '^words\.' && line 'fg' && within 5 shows '^words\.'
check "stty tostop holds in the background" $? "$(screen)"
shell
line "stty -a >before; $R sh -c 'echo \$PPID >parent; echo alive.; head -n 1; echo last-\$?.; sleep 0.1'; stty -a >after; echo now"
within 10 shows '^alive\.' && kill -9 "$(cat parent)" && within 10 shows '^now' && cmp -s before after && within 5 grep -q '^last-' log.out
check "recorder killed: the terminal is the shell's, as it was; the command does not read" $? "$(screen; diff before after; cat log.out)"
within 5 sh -c '! pgrep -f "^$watop record -q -o $dir/log -- sh"'
check "and no process of ours is left" $? "$(ps -ef | grep 'watop-relay\|record -q' | head)"
finish

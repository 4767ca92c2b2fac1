#!/usr/bin/env bash
# The house keeps its shape: who may include whom, who alone knows a library, sizes, and no path of one machine. Prints TAP.
cd "$(dirname "$0")/.." || exit 1
number=0 bad=0

# check NAME: passes when standard input is empty, else shows it.
check() {
  local found
  found=$(cat)
  number=$((number + 1))
  if [ -z "$found" ]; then echo "ok $number - $1"; else
    echo "not ok $number - $1"
    sed 's/^/# /' <<<"$found" | head -20
    bad=1
  fi
}

check "sample/ knows only itself" < <(grep -nE '#include "(collectors|daemon|tui)/' sample/*.[ch])
check "collectors/ knows only sample/" < <(grep -nE '#include "(daemon|tui)/' collectors/*.[ch])
check "daemon/ does not know tui/" < <(grep -nE '#include "tui/' daemon/*.[ch])
check "tui/ knows only sample/" < <(grep -nE '#include "(collectors|daemon)/' tui/*.[ch])
check "only tui/screen.c knows curses" < <(grep -lE '#include <(ncurses|ncursesw/|curses|term\.)' ./*/*.[ch] | grep -v '^./tui/screen.c$')
check "only daemon/privs.c knows libcap" < <(grep -lE '#include <sys/capability' ./*/*.[ch] | grep -v '^./daemon/privs.c$')
check "only the tracer knows libbpf" < <(grep -lE '#include <bpf/' ./*/*.[ch] | grep -vE '^./tests/((test|bench)_tracer|test_stage_tracer|test_program|bench_stages).c$')
check "no printing and no exit below daemon/ and tui/" < <(grep -nE '\b(printf|puts|putchar|perror|exit)\(' sample/*.c collectors/*.c collectors/bpf/*.c | grep -vE '_exit|sn?printf')
check "no unbounded string function" < <(grep -nE '\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol)\(' sample/*.c collectors/*.c collectors/bpf/*.c daemon/*.c tui/*.c)
check "no file above 800 lines" < <(wc -l ./*/*.[ch] tests/lab/*.[ch] collectors/bpf/*.[ch] | awk '$2 != "total" && $1 > 800')
check "no line passes 140 columns" < <(LC_ALL=C.UTF-8 grep -nHE '^.{141,}' ./*/*.[ch] tests/lab/*.[ch] collectors/bpf/*.[ch] | cut -c1-100)
check "each file opens with what it is for" < <(for f in ./*/*.[ch] tests/lab/*.[ch] collectors/bpf/*.[ch]; do head -n 4 "$f" | grep -q '/\*' || echo "$f"; done)
check "nothing is left marked as unfinished" < <(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' ./*/*.[ch] tests/*.py tests/*.sh dev | grep -v 'house.sh')
check "every metric is set by somebody" < <(for name in $(grep -oE '^METRIC\([A-Z]+, [A-Z0-9_]+' sample/metrics.def | sed -E 's/METRIC\(([A-Z]+), ([A-Z0-9_]+)/\1_\2/'); do
  grep -qE "\b$name\b" collectors/*.c daemon/*.c || echo "$name"
done)
echo "1..$number"
exit $bad

#!/usr/bin/env bash
# What ./dev would install where nothing is there: package managers that only write down what they were asked. Prints TAP.
# The machines that have them (dnf) are not at hand, so this is all that is proved of them.
set -u
[ "$(id -u)" = 0 ] || { echo "needs root: without it ./dev calls sudo"; exit 77; }
cd "$(dirname "$0")/.." || exit 1
number=0 bad=0
folder=$(mktemp -d "${TMPDIR:-/tmp}/watop-dev-XXXXXX")
trap 'rm -rf "$folder"' EXIT

say() { # say STATUS NAME
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; else
    echo "not ok $number - $2"
    sed 's/^/# /' "$folder/said" "$folder/asked" 2>/dev/null | head -20
    bad=1
  fi
}

# machine FAMILY: a PATH with the machine's programs, but none of what ./dev needs, and one package manager that writes down and fails.
machine() {
  local bin=$folder/$1 program name
  mkdir -p "$bin"
  for program in /bin/* /usr/bin/*; do
    name=${program##*/}
    case $name in
      apt-get | apt | dnf | yum | sudo | meson | ninja | pkg-config | pkgconf | gcc | cc | tmux | mpstat | fio | stress-ng | mandoc | clang) ;;
      *) [ -e "$bin/$name" ] || ln -s "$program" "$bin/$name" 2>/dev/null ;;
    esac
  done
  # shellcheck disable=SC2016
  printf '#!/bin/sh\necho "$0 $*" >>%s\nexit %s\n' "$folder/asked" "$3" >"$bin/$2"
  chmod +x "$bin/$2"
  : >"$folder/asked"
  PATH=$bin WATOP_BUILD=$folder/builds bash ./dev "$4" >"$folder/said" 2>&1 </dev/null
}

machine debian apt-get 1 run
[ $? = 1 ] && grep -q 'apt-get.*install.*gcc.*libcap-dev.*libinih-dev.*libncurses-dev.*meson.*ninja-build.*pkg-config.*zlib1g-dev' "$folder/asked"
say $? "Debian: what the build needs, and no test's"
! grep -qE 'fio|cmocka' "$folder/asked"
say $? "Debian: run asks for nothing of the tests"
[ "$(wc -l <"$folder/said")" -le 3 ] && grep -q 'failed' "$folder/said"
say $? "Debian: a failed installation is said and ends it"

machine debian2 apt-get 1 test
grep -q 'apt-get.*install.*fio.*libcmocka-dev.*libjson-c-dev.*mandoc.*stress-ng.*sysstat.*tmux' "$folder/asked"
say $? "Debian: what the tests need"

machine fedora dnf 1 run
grep -q 'dnf.*install.*libcap-devel.*meson.*ncurses-devel.*ninja-build.*zlib-devel' "$folder/asked"
say $? "dnf: what the build needs, under its own names"
! grep -qE 'config-manager|crb' "$folder/asked"
say $? "dnf: no other repository is enabled without asking"

machine bare nothing 1 run
[ $? = 1 ] && grep -q 'no apt-get and no dnf' "$folder/said" && grep -q 'meson' "$folder/said"
say $? "no package manager: names what to install"
echo "1..$number"
exit $bad

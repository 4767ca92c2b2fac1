#!/usr/bin/env bash
# What `meson install` puts where, and that it works from there: programs, manual pages without an error, service, settings. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
number=0 bad=0
folder=$(mktemp -d "${TMPDIR:-/tmp}/watop-install-XXXXXX")
trap 'rm -rf "$folder"' EXIT

check() { # check NAME COMMAND...
  local name=$1 out
  shift
  number=$((number + 1))
  if out=$("$@" 2>&1); then echo "ok $number - $name"; else
    echo "not ok $number - $name"
    sed 's/^/# /' <<<"$out" | head -20
    bad=1
  fi
}

check "installs" env DESTDIR="$folder" meson install --no-rebuild -C "${WATOP_BIN:?}"
prefix=$folder/usr/local
for file in "$prefix/bin/watop" "$prefix/sbin/watopd" "$prefix/share/man/man1/watop.1" "$prefix/share/man/man8/watopd.8"; do
  check "${file#"$folder"} is there" test -s "$file"
done
check "a service unit" sh -c "find '$folder' -name watopd.service | xargs grep -q '^ExecStart=.*watopd'"
for page in "$prefix/share/man/man1/watop.1" "$prefix/share/man/man8/watopd.8"; do
  check "$(basename "$page") has no error" mandoc -T lint -W error "$page"
  check "$(basename "$page") has its tables" sh -c "mandoc -T ascii '$page' | col -b | grep -q 'iowait' && ! grep -q '^@' '$page'"
done
check "watop --version" "$prefix/bin/watop" --version
check "watop finds its watopd in the tree" "$prefix/bin/watop" cpu --private --quiet 100ms 1
check "watop metrics lists all" sh -c "[ \$('$prefix/bin/watop' metrics --format csv | wc -l) -gt 150 ]"
check "a wrong option is one line and exit 2" sh -c "'$prefix/bin/watop' cpu --nonsense 2>'$folder/err'; [ \$? = 2 ] && [ \$(wc -l <'$folder/err') = 1 ]"
check "a wrong verb is one line and exit 2" sh -c "'$prefix/bin/watop' nonsense 2>'$folder/err'; [ \$? = 2 ] && [ \$(wc -l <'$folder/err') = 1 ]"
check "a wrong option of watopd is one line and exit 2" sh -c "'$prefix/sbin/watopd' --nonsense 2>'$folder/err'; [ \$? = 2 ] && [ \$(wc -l <'$folder/err') = 1 ]"
check "watopd --check answers" "$prefix/sbin/watopd" --check
echo "1..$number"
exit $bad

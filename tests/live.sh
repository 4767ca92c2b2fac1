#!/usr/bin/env bash
# The tables against sysstat over the same ten seconds, under fio and stress-ng. Prints TAP. See live.py.
for need in python3 mpstat iostat pidstat fio stress-ng; do
  command -v "$need" >/dev/null || { echo "needs $need"; exit 77; }
done
exec python3 "$(dirname "$0")/live.py" "${WATOP_BIN:?folder with watop and watopd}"

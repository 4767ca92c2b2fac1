#!/usr/bin/env bash
# Waiters of every kind on this machine's own kernel, with known truth: what watop may and may not say of them. Prints TAP. See lab.py.
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/lab.py" "${WATOP_BIN:?folder with watop, watopd and tests/lab_NAME}" --words

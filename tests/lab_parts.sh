#!/usr/bin/env bash
# The parts of wa and their bounds against what the waiters themselves measured, in each way of splitting wa. Prints TAP. See lab.py.
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/lab.py" "${WATOP_BIN:?folder with watop, watopd and tests/lab_NAME}" --parts

#!/usr/bin/env bash
# watop blk live on loop devices of its own: where fsync's time goes, and behind whom. Prints TAP. See blk_live.py.
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/blk_live.py" "${WATOP_BIN:?folder with watop, watopd and tests/lab_NAME}"

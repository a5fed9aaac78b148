#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# by_turns.sh COMMAND...: runs a third of the cases of a test program, those that SHOAL_ROTATE=k/3 names, if kernels were not
# changed (SHOAL_CHANGED; tests/app/turns.py); without SHOAL_ROTATE all. For dear tests that run again with other kernels.
set -euo pipefail
if [[ -n ${SHOAL_ROTATE:-} && -n ${SHOAL_CHANGED:-} ]] &&
  ! grep -qE '^(everything$|kernels/|include/shoal/kernels/|tests/kernels/|src/cmake/)' "$SHOAL_CHANGED"; then
  export GTEST_TOTAL_SHARDS=${SHOAL_ROTATE#*/} GTEST_SHARD_INDEX=$((${SHOAL_ROTATE%/*} % ${SHOAL_ROTATE#*/}))
  echo "ROTATED OUT: $*: all cases but those of turn $SHOAL_ROTATE"
fi
exec "$@"

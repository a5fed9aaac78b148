#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzzed.sh FUZZER...: prints how often each fuzzer has executed what it tests. Fails if that is less than .ci/floors says.
set -euo pipefail
cd "$(dirname "$0")/.."
least=$(awk '$1 == "fuzzers" { print $2 }' .ci/floors)
log=build-fuzz/Testing/Temporary/LastTest.log
failed=0
for name in "$@"; do
  times=$(awk -v begin="Testing: fuzz/$name" 'index($0, begin) { here = 1 } /Testing: fuzz/ && !index($0, begin) { here = 0 }
    here && /^stat::number_of_executed_units:/ { print $2 }' "$log")
  echo "$name: ${times:-0} executions"
  [[ ${times:-0} -ge $least ]] || { echo "$name: fewer than $least (.ci/floors)" >&2; failed=1; }
done
exit "$failed"

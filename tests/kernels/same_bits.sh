#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# same_bits.sh PROGRAM... runs tests/kernels/bits.cpp linked with different kernels, and compares what they print.
set -euo pipefail
expected=$("$1")
lines=$(wc -l <<<"$expected")
[ "$lines" -gt 100 ] || { echo "$1 printed only $lines lines"; exit 1; }
for program in "${@:2}"; do
  difference=$(diff <(echo "$expected") <(SHOAL_TEST_THREADS=$([[ $program == *openmp ]] && echo 4 || echo 1) "$program") | head -20) || true
  [ -z "$difference" ] || { echo "$1 and $program compute different bits:"; echo "$difference"; exit 1; }
  echo "$program: the same bits in $lines cases"
done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# processor.sh: prints the class of this machine's processor, which decides what kernels can be tested on it, and its model:
# `amx AMD EPYC 9R14`. Classes: portable, avx2, avx512, avx512_bf16, amx; each has the instructions of those before.
# shellcheck source=../tests/support/limits.sh
. "$(dirname "$0")/../tests/support/limits.sh"
class=portable
for pair in avx2:avx2 avx512bw:avx512 avx512_bf16:avx512_bf16 amx_bf16:amx; do
  has "${pair%%:*}" && class=${pair##*:}
done
model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
echo "$class ${model:-unknown}, $(nproc) cores"

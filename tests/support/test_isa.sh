#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_isa.sh BUILD JOBS: tests kernels, models, plans of memory and whole runs as on every kind of x86-64 processor that this
# one can emulate: the build in BUILD with each limit of instructions, and builds for older processors.
set -euo pipefail
# shellcheck source=limits.sh
. "$(dirname "$0")/limits.sh"
build=$1 jobs=$2
export CTEST_PARALLEL_LEVEL=$jobs
tests='^(kernels|model|plan)/|^(app/plan|promises/(memory|trajectory|w1))_test$'
failed=()

# run NAME BUILD: without the tests with an @ in their name, which set a limit themselves.
run() {
  echo "== $1"
  ctest --test-dir "$2" --output-on-failure -LE long -E @ -R "$tests" || failed+=("$1")
}

for limit in AVX2 AVX512_CORE AVX512_CORE_BF16; do
  if why=$(lacks $limit); then
    echo "SKIPPED: $why"
  else
    ONEDNN_MAX_CPU_ISA=$limit run "ONEDNN_MAX_CPU_ISA=$limit" "$build"
  fi
done
run "without a limit (SHOAL_ARCH=$(sed -n 's/^SHOAL_ARCH:.*=//p' "$build/CMakeCache.txt"))" "$build"

for arch in x86-64-v3 x86-64-v4 native; do
  # BUILD is for one of these (native by default) and has just been tested.
  grep -q "^SHOAL_ARCH:.*=$arch\$" "$build/CMakeCache.txt" && continue
  if [ $arch = x86-64-v4 ] && ! has avx512bw; then
    echo "SKIPPED: this processor has no avx512bw: a build for $arch cannot run"
    continue
  fi
  cmake --preset cpu -B "build-isa-$arch" -DSHOAL_ARCH=$arch -DSHOAL_BENCH=OFF >/dev/null
  cmake --build "build-isa-$arch" -j "$jobs" --target shoal kernels_tests model_tests plan_tests
  run "SHOAL_ARCH=$arch" "build-isa-$arch"
done

echo "test-isa: ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]

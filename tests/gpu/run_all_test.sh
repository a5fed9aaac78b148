#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What can be tested of run_all.sh, bench.py and the bundle without a GPU. $SHOAL_SOURCE is the source tree.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { printf '%s\n' "$*" >&2; failed=1; }

if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  echo "SKIPPED: this machine has a GPU: run tests/gpu/run_all.sh itself"
  exit 77
fi
# without WANTED COMMAND...: one line, and status 77.
without() {
  local wanted=$1 printed status=0
  shift
  printed=$(timeout 60 "$@" 2>&1) || status=$?
  [[ $status -eq 77 && $printed == "$wanted" ]] || complain "exit code $status of $*: $printed"
}
without "run_all.sh: no GPU: nothing was tested" env OUT="$work/out" "$SHOAL_SOURCE/tests/gpu/run_all.sh"
without "bench.py: no GPU: not measured" python3 -B "$SHOAL_SOURCE/tests/gpu/bench.py"
# The table of kernels, from made-up numbers: a copy of 2 TB/s.
{
  printf '{"kernel": "%s", "bytes": %s, "seconds": 1e-3}\n' copy 2000000000 bf16/good 1700000000 bf16/bad 1699000000 \
    int8/quantize 1610000000
} >"$work/rates"
status=0
python3 -B "$SHOAL_SOURCE/tests/gpu/bench.py" --rates-of "$work/rates" >"$work/rates.out" || status=$?
if [[ $status -ne 1 || $(grep -c '^# passed' "$work/rates.out") -ne 2 ]] || ! grep -q '^# missed bf16/bad ' "$work/rates.out"; then
  complain "the table of kernels, exit code $status: $(<"$work/rates.out")"
fi
[[ ! -e $work/out ]] || complain "run_all.sh made its folder without a GPU"

status=0
"$SHOAL_SOURCE/tests/gpu/run_all.sh" kernel 2>"$work/err" || status=$?
if [[ $status -ne 2 ]] || ! grep -q "no part or option 'kernel'" "$work/err"; then complain "a part that there is not: $(<"$work/err")"; fi

# The part `kernels`, on a GPU that there is not: without a test it fails, though bits are equal.
mkdir -p "$work/bin" "$work/build/bundle" "$work/build/tests/kernels"
touch "$work/listed" "$work/build/bundle/bits.txt"
# shellcheck disable=SC2016  # they expand it
printf '#!/bin/sh\n%s\n' 'echo "GPU 0: none"' >"$work/bin/nvidia-smi"
printf '#!/bin/sh\ncase " $* " in *" -N "*) cat "%s" ;; esac\n' "$work/listed" >"$work/bin/ctest"
printf '#!/bin/sh\n' | tee "$work/build/shoal" >"$work/build/tests/kernels/kernels_bits"
chmod +x "$work"/bin/* "$work/build/shoal" "$work/build/tests/kernels/kernels_bits"
kernels() { PATH=$work/bin:$PATH OUT=$work/gpu timeout 60 "$SHOAL_SOURCE/tests/gpu/run_all.sh" --build "$work/build" kernels >"$work/kernels.out" 2>&1; }
status=0
kernels || status=$?
if [[ $status -ne 1 ]] || ! grep -q '^FAILED .*CTest lists no test' "$work/kernels.out"; then
  complain "the part kernels without tests, exit code $status: $(<"$work/kernels.out")"
fi
echo '  Test #1: kernels/copy_test' >"$work/listed"
kernels || complain "the part kernels with a test: $(<"$work/kernels.out")"
grep -q '^passed .*kernels/copy_test' "$work/kernels.out" || complain "the part kernels ran no test: $(<"$work/kernels.out")"

if command -v dpkg-query >/dev/null; then
  "$SHOAL_SOURCE/tests/gpu/bundle.sh" --list unused >"$work/list"
  for file in mpiexec.hydra hydra_pmi_proxy libmpich.so libhdf5_mpich.so libboost_program_options.so libgtest.a libgmock.a mpi.h hdf5.h \
    H5pubconf.h xxhash.h zlib.h zconf.h libz.so nlohmann/json.hpp program_options.hpp boost/version.hpp gtest/gtest.h gmock/gmock.h BoostConfig.cmake \
    nlohmann_jsonConfig.cmake GTestConfig.cmake; do
    grep -q "/$file\$" "$work/list" || complain "the bundle has no $file"
  done
  while read -r file; do [[ -e $file ]] || complain "the bundle lists $file, which there is not"; done <"$work/list"
  ! grep -qE '/(libc|libm|libstdc\+\+)\.so' "$work/list" || complain "the bundle has the system's own libraries"
fi
exit "$failed"

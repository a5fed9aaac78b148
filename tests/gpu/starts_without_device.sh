#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: starts_without_device.sh SHOAL. A program for GPUs (build-cuda/shoal) starts on a machine that has none: commands that
# compute nothing work, training ends with one line. Once with the toolkit's stand-in for the driver's library, once with
# whatever this machine has.
set -euo pipefail
shoal=$(realpath "$1")
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

complain() {
  printf '%s\n' "$*" >&2
  failed=1
}

# works COMMAND...: exit code 0, and nothing on standard error.
works() {
  local code=0
  timeout 60 "$@" >out.txt 2>err.txt || code=$?
  [[ $code -eq 0 && ! -s err.txt && -s out.txt ]] || complain "exit code $code of: $*" "$(cat err.txt)"
}

# check WHERE: all commands, in the present environment.
check() {
  works "$shoal" --version
  grep -q cuBLASLt out.txt || complain "$1: --version does not name cuBLASLt"
  grep -q cuDNN out.txt || complain "$1: --version does not say whether attention is by cuDNN"
  ! grep -qi -e onednn -e kokkos out.txt || complain "$1: --version names libraries of processors"
  works "$shoal" --help
  works "$shoal" train --help
  works "$shoal" plan "$source_root/inputs/tiny.cfg"
  works "$shoal" train "$source_root/inputs/tiny.cfg" --dry-run --output.dir=dry
  works "$shoal" train "$source_root/inputs/tiny.cfg" --dry-run --output.dir=dry --train.tf32=true --train.fused_gelu=true
  local code=0
  timeout 60 "$shoal" train "$source_root/inputs/tiny.cfg" --output.dir=run >out.txt 2>err.txt || code=$?
  [[ $code -eq 1 ]] || complain "$1: training ended with exit code $code, not 1"
  if [[ $(wc -l <err.txt) -ne 1 ]] || ! grep -q '^shoal: no GPU was found: ' err.txt; then
    complain "$1: not one line that no GPU was found:" "$(cat err.txt)"
  fi
  [[ ! -e run ]] || complain "$1: training without a GPU made its output directory"
}

libraries=$(ldd "$shoal")
! grep -q 'not found' <<<"$libraries" || complain "libraries are missing:" "$libraries"
! grep -q -e dnnl -e kokkos <<<"$libraries" || complain "libraries of processors are linked:" "$libraries"
grep -q cublasLt <<<"$libraries" || complain "cuBLASLt is not linked:" "$libraries"

if [[ -e /dev/nvidiactl ]]; then
  echo "starts_without_device: this machine has a GPU; only the toolkit's stand-in is tried"
else
  check "without a driver"
fi
cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
stub=$(find -L "$cuda" -path '*stubs/libcuda.so' -print -quit 2>/dev/null)
[[ -n $stub ]] || complain "no stubs/libcuda.so in $cuda"
mkdir driver
ln -s "$stub" driver/libcuda.so.1
LD_LIBRARY_PATH=$PWD/driver:${LD_LIBRARY_PATH:-} check "with the stand-in for the driver"
[[ $failed -ne 0 ]] || echo "starts_without_device: passed"
exit "$failed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_presets.sh [PRESET...]: configures each preset of CMakePresets.json (or those that are named), builds its program and
# starts it, with the commands of the READMEs. Names those that fail, after all were tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
jobs=$(nproc)
failed=()
[[ $# -gt 0 ]] || mapfile -t presets < <(cmake --list-presets | sed -nE 's/^ *"([^"]+)".*/\1/p')
[[ $# -eq 0 ]] || presets=("$@")
[[ ${#presets[@]} -gt 0 ]] || { echo "build_presets: CMake lists no presets" >&2 && exit 1; }

# trains PROGRAM: two ranks, two steps.
trains() {
  local out
  out=$(mktemp -d)
  # Leaks of MPI's and other libraries are not the question here.
  ASAN_OPTIONS=detect_leaks=0 timeout 300 mpiexec -n 2 "$1" train inputs/quickstart.cfg --train.steps=2 \
    --output.dir="$out/run" && rm -r "$out"
}

build() { # PRESET
  case $1 in
    cpu) make run OUT="$(mktemp -d)/run" ;;  # and its report
    cuda)
      if [[ ! -x $(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc") ]]; then
        echo "SKIPPED: the preset cuda: there is no nvcc"
        return
      fi
      # `make cuda` compiles for each generation.
      cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=90 && cmake --build build-cuda -j "$jobs" --target shoal &&
        tests/gpu/starts_without_device.sh build-cuda/shoal ;;
    *) cmake --preset "$1" && cmake --build "build-$1" -j "$jobs" --target shoal && trains "build-$1/shoal" ;;
  esac
}

for preset in "${presets[@]}"; do  # a command that fails in build() does not end it, so && joins them
  echo "== the preset $preset"
  build "$preset" || failed+=("$preset")
done
echo "build_presets: of ${presets[*]} failed: ${failed[*]:-none}"
[[ ${#failed[@]} -eq 0 ]]

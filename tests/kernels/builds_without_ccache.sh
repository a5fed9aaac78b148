#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: builds_without_ccache.sh SOURCE. Each preset of CMakePresets.json is configured where ccache is not installed, as on
# most users' machines, and compiles a source of each of its languages.
set -euo pipefail
source=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0

# compiles PRESET OBJECT...
compiles() {
  local preset=$1 printed
  shift
  # FALSE: neither searched for nor found.
  if ! printed=$(cmake -S "$source" -B "$directory/$preset" --preset "$preset" -DSHOAL_CCACHE=FALSE "${options[@]}" 2>&1 &&
    cmake --build "$directory/$preset" --target "$@" 2>&1); then
    printf 'without ccache, the preset %s:\n%s\n' "$preset" "$printed" >&2
    failed=1
  fi
  rm -rf "${directory:?}/$preset"
}

presets=$(cd "$source" && cmake --list-presets | sed -nE 's/^ *"([^"]+)".*/\1/p')
for preset in ${presets:?CMake lists none}; do
  objects=(src/base/CMakeFiles/shoal_base.dir/mpi_free.cpp.o) options=()
  [[ $preset != asan ]] || objects=(src/base/CMakeFiles/shoal_base.dir/Unity/unity_0_cxx.cxx.o)
  if [[ $preset == cuda ]]; then
    if [[ ! -x $(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc") ]]; then
      echo "the preset cuda is left out: there is no nvcc"
      continue
    fi
    objects+=(kernels/CMakeFiles/shoal_kernels_nvcc.dir/portable/bytes.cpp.o) options=(-DCMAKE_CUDA_ARCHITECTURES=90)
  fi
  compiles "$preset" "${objects[@]}"
done
exit "$failed"

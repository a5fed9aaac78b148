#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: refused_builds.sh SOURCE. CMake refuses a build whose kernels cannot be built, and names what brings them.
set -euo pipefail
source=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0

# refused WHAT_IS_SAID OPTION...: configuring with these options fails, with all lines of WHAT_IS_SAID in what it prints.
refused() {
  local wanted=$1 printed
  shift
  if printed=$(cmake -S "$source" -B "$directory/build" -G Ninja -DSHOAL_TESTS=OFF -DSHOAL_BENCH=OFF "$@" 2>&1); then
    echo "not refused: $*" >&2
    failed=1
  fi
  while read -r line; do
    if ! grep -qF -- "$line" <<<"$printed"; then
      printf '%s: "%s" is missing in:\n%s\n' "$*" "$line" "$printed" >&2
      failed=1
    fi
  done <<<"$wanted"
  rm -rf "$directory/build"
}

# accepted OPTION...: configuring with these options works.
accepted() {
  local printed
  if ! printed=$(cmake -S "$source" -B "$directory/build" -G Ninja -DSHOAL_TESTS=OFF -DSHOAL_BENCH=OFF "$@" 2>&1); then
    printf 'refused: %s:\n%s\n' "$*" "$printed" >&2
    failed=1
  fi
  rm -rf "$directory/build"
}

refused $'Kokkos 3.4 or newer was not found.\napt-get install libtrilinos-kokkos-dev\nmodule load kokkos\nspack install kokkos' \
  -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=TRUE -DSHOAL_KOKKOS_INCLUDE=FALSE  # neither searched for nor found

echo '#define KOKKOS_VERSION 30301' >"$directory/KokkosCore_config.h"
refused 'Kokkos 3.4 or newer, where 3.3.1 is installed, was not found.' \
  -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=TRUE -DSHOAL_KOKKOS_INCLUDE="$directory" \
  -DSHOAL_KOKKOS_CORE="$directory/libkokkoscore.so" -DSHOAL_KOKKOS_CONTAINERS="$directory/libkokkoscontainers.so"

# A Kokkos for GPUs, as its installation says it and, where it has none for CMake, its header; and one for processors.
kokkos_for() { # DEVICES
  mkdir -p "$directory/kokkos"
  printf 'set(Kokkos_DEVICES "%s")\nadd_library(Kokkos::kokkos INTERFACE IMPORTED)\n' "$1" >"$directory/kokkos/KokkosConfig.cmake"
  printf 'set(PACKAGE_VERSION 4.7.1)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' >"$directory/kokkos/KokkosConfigVersion.cmake"
}
cures=$'-DKokkos_ROOT=FOLDER\nspack install kokkos~cuda\n-DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=TRUE\n-DSHOAL_KERNELS=cuda'
kokkos_for 'CUDA;SERIAL'
refused "$directory/kokkos was built for GPUs (CUDA)"$'\n'"$cures" -DKokkos_DIR="$directory/kokkos"
refused "$directory/kokkos was built for GPUs (CUDA)" -DKokkos_DIR="$directory/kokkos" -DSHOAL_KERNELS=portable
kokkos_for 'OPENMP;HIP;SERIAL'
refused "$directory/kokkos was built for GPUs (HIP)" -DKokkos_DIR="$directory/kokkos" -DSHOAL_KERNELS=portable
printf '#define KOKKOS_VERSION 40700\n#define KOKKOS_ENABLE_SERIAL\n#define KOKKOS_ENABLE_CUDA\n' >"$directory/KokkosCore_config.h"
refused "$directory was built for GPUs (CUDA)" \
  -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=TRUE -DSHOAL_KOKKOS_INCLUDE="$directory" \
  -DSHOAL_KOKKOS_CORE="$directory/libkokkoscore.so" -DSHOAL_KOKKOS_CONTAINERS="$directory/libkokkoscontainers.so"
kokkos_for 'OPENMP;SERIAL'
accepted -DKokkos_DIR="$directory/kokkos"

refused $'SHOAL_KERNELS=tpu: there are cpu\nportable\ncuda' -DSHOAL_KERNELS=tpu
refused 'SHOAL_KERNELS=cuda: benchmarks are not built for GPUs' -DSHOAL_KERNELS=cuda -DSHOAL_BENCH=ON

exit "$failed"

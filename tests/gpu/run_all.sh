#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: run_all.sh [--minutes 25] [--bundle FILE] [--build DIRECTORY] [--arch native] [PART...]
# Tests shoal on the GPU of this machine, which needs nvcc, g++, CMake, Python and `make gpu-bundle`'s archive. Parts, by default
# all in this order; each has a time limit of its own, and all together end after --minutes:
#   build         configures and compiles the program and its tests (also without a GPU: add --arch 90)
#   queues        memory, queues and events
#   kernels       the suite of kernels, and the bits of kernels against those of a processor
#   sanitizer     compute-sanitizer: memcheck, racecheck
#   trajectories  one rank, all stages: the same bits
#   mpi           two ranks that share the GPU, by MPI through memory of the host
#   nccl          the same by NCCL
#   bench         speed against PyTorch
# A table and logs go to $OUT (out/gpu). Exit code: 0 passed, 1 something failed, 77 no GPU.
# shellcheck disable=SC2317  # functions are called by their names in variables
set -uo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
minutes=25 bundle=$source_root/build-gpu-bundle/bundle.tar.xz build=$source_root/build-gpu arch=native
parts=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --minutes | --bundle | --build | --arch)
      [[ $# -gt 1 ]] || { echo "run_all.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift ;;
    build | queues | kernels | sanitizer | trajectories | mpi | nccl | bench) parts+=("$1") ;;
    *) echo "run_all.sh: no part or option '$1'; see the head of tests/gpu/run_all.sh" >&2; exit 2 ;;
  esac
  shift
done
[[ ${#parts[@]} -gt 0 ]] || parts=(build queues kernels sanitizer trajectories mpi nccl bench)
if [[ ${parts[*]} != build ]] && ! nvidia-smi -L 2>/dev/null | grep -q '^GPU ' && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  echo "run_all.sh: no GPU: nothing was tested"
  exit 77
fi
out=$(realpath -m "${OUT:-$source_root/out/gpu}")
mkdir -p "$out" "$build"
build=$(realpath "$build")
ends=$((SECONDS + minutes * 60))
table=$out/table.txt
: >"$table"
failed=0

# within SECONDS LOG COMMAND...: appends what it prints to the log. Ends it at its limit or at that of all parts.
within() {
  local limit=$1 log=$out/$2 left=$((ends - SECONDS))
  shift 2
  if [[ $left -le 5 ]]; then
    echo "not started: the time of all parts is over: $*" >>"$log"
    return 124
  fi
  timeout -k 10 $((limit < left ? limit : left)) "$@" >>"$log" 2>&1
}

# row STATUS WHAT DETAIL
row() {
  printf '%-14s %-44s %s\n' "$1" "$2" "${3:-}" | tee -a "$table"
  [[ $1 != FAILED ]] || failed=1
}

# tested WHAT SECONDS LOG COMMAND...: a row for a command whose exit code says whether it passed.
tested() {
  local what=$1 limit=$2 log=$3 begin=$SECONDS status=0
  shift 3
  within "$limit" "$log" "$@" || status=$?
  local took="$((SECONDS - begin)) s"
  case $status in
    0) row passed "$what" "$took" ;;
    77) row "$([[ $log == nccl.log ]] && echo 'not supported' || echo FAILED)" "$what" "$(grep -h SKIPPED "$out/$log" | tail -1)" ;;
    124 | 137) row FAILED "$what" "stopped after $took: $log" ;;
    *) row FAILED "$what" "exit code $status, $took: $log" ;;
  esac
  return "$status"
}

# linked PLACES INTO PATTERN...: links in the folder INTO to files below PLACES; a library also by the name that linkers look for.
linked() {
  local places=$1 into=$2 pattern found
  shift 2
  mkdir -p "$into"
  for pattern in "$@"; do
    # shellcheck disable=SC2086  # several places
    while read -r found; do
      ln -sfn "$found" "$into/$(basename "$found")"
      [[ $found != *.so.* ]] || ln -sfn "$found" "$into/$(basename "${found%%.so.*}").so"
    done < <(find $places -name "$pattern")
  done
}

# toolkit CUDA: NCCL and cuDNN, and if the folder CUDA has no cuBLASLt that too, where they were installed as Python packages.
toolkit() {
  local shim=$build/toolkit packages
  packages=$(python3 -c 'import nvidia; print(" ".join(nvidia.__path__))' 2>/dev/null) || return 0
  linked "$packages" "$shim/lib" 'libnccl.so.*' 'libcudnn*.so.*'
  linked "$packages" "$shim/include" 'nccl.h' 'cudnn*.h'
  if [[ -z $(find -L "$1" -name 'libcublasLt.so' -not -path '*/stubs/*' -print -quit) ]]; then linked "$packages" "$shim/lib" 'libcublasLt.so.*'; fi
  if [[ -z $(find -L "$1" -name 'cublasLt.h' -print -quit) ]]; then linked "$packages" "$shim/include" 'cublas*.h'; fi
}

configure() {
  local usr=$build/bundle/usr cuda
  local libs=$usr/lib/x86_64-linux-gnu
  cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
  toolkit "$cuda"
  # Libraries of the bundle need each other, so the program has an RPATH, which counts for them, too.
  local flags="-Wl,--disable-new-dtags -Wl,-rpath,$libs:$build/toolkit/lib -Wl,-rpath-link,$libs"
  local generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  NCCL_ROOT=$build/toolkit CMAKE_LIBRARY_PATH=$build/toolkit/lib cmake -S "$source_root" -B "$build" "${generator[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DSHOAL_KERNELS=cuda -DSHOAL_BENCH=OFF -DSHOAL_TESTS=ON -DSHOAL_WERROR=OFF \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" -DCMAKE_CUDA_COMPILER="$cuda/bin/nvcc" -DCMAKE_EXE_LINKER_FLAGS="$flags" \
    -DCMAKE_CXX_FLAGS="-isystem $build/toolkit/include" \
    -DMPI_CXX_COMPILER="$build/bundle/bin/mpicxx" -DMPIEXEC_EXECUTABLE="$build/bundle/bin/mpiexec" \
    -DSHOAL_HDF5_INCLUDE="$usr/include/hdf5/mpich" -DSHOAL_HDF5_LIBRARY="$libs/libhdf5_mpich.so" \
    -DSHOAL_XXHASH_INCLUDE="$usr/include" -DZLIB_INCLUDE_DIR="$usr/include" -DZLIB_LIBRARY="$libs/libz.so" \
    -DBoost_DIR="$libs/cmake/Boost-1.74.0" -DGTest_DIR="$libs/cmake/GTest" \
    -Dnlohmann_json_DIR="$usr/share/cmake/nlohmann_json" -DCMAKE_PREFIX_PATH="$usr"
}

part_build() {
  if [[ ! -e $build/bundle/bits.txt || $bundle -nt $build/bundle/bits.txt ]]; then
    [[ -e $bundle ]] || { row FAILED build "there is no $bundle; make gpu-bundle"; return; }
    rm -rf "$build/bundle"
    tested "unpack the bundle" 60 build.log tar -C "$build" -xmf "$bundle" || return
  fi
  export -f configure toolkit linked
  export build source_root arch
  tested configure 120 build.log bash -euo pipefail -c configure || return
  tested compile 1200 build.log cmake --build "$build" -j "$(nproc)" --target shoal gpu_tests || return
  tested "starts, and names its libraries" 30 build.log "$build/shoal" --version
}

part_queues() { tested "queues, events, memory" 120 queues.log "$build/tests/device/device_cuda_test"; }

# CTest's own status is 0 for a test that was skipped.
one_test() {
  ctest --test-dir "$build" -V --no-tests=error -R "^$1\$" >"$out/test.log" 2>&1
  local status=$?
  cat "$out/test.log"
  if grep -q '\*\*\*Skipped' "$out/test.log"; then status=77; fi
  return "$status"
}

part_kernels() {
  local test tests
  export -f one_test
  export build out
  mapfile -t tests < <(ctest --test-dir "$build" -N | sed -n 's|.*: \(kernels/.*_test\)$|\1|p')
  [[ ${#tests[@]} -gt 0 ]] || row FAILED "suite of kernels" "CTest lists no test of it in $build"
  for test in "${tests[@]}"; do tested "$test" 240 kernels.log bash -c "one_test $test"; done
  within 120 bits.log "$build/tests/kernels/kernels_bits"
  if diff "$build/bundle/bits.txt" <(grep -v '^GPU: ' "$out/bits.log") >"$out/bits.diff"; then
    row passed "bits of kernels" "$(wc -l <"$build/bundle/bits.txt") cases as on a processor"
  else
    row FAILED "bits of kernels" "$(grep -c '^>' "$out/bits.diff") of $(wc -l <"$build/bundle/bits.txt") cases differ: bits.diff"
  fi
}

part_sanitizer() {
  local sanitizer test
  if ! sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -1); then
    row FAILED sanitizer "compute-sanitizer was not found"
    return
  fi
  # Few sizes: under the sanitizer each kernel takes many times as long.
  for test in attention cross_entropy dropout embedding layernorm optimizer outer pointwise quantize reduce sample storage; do
    tested "memcheck $test" 90 memcheck.log "$sanitizer" --tool memcheck --padding 64 --error-exitcode 9 \
      "$build/tests/kernels/kernels_${test}_test" --gtest_filter='-*DependsOnThreads*:*OfMany*'
  done
  for test in attention cross_entropy layernorm pointwise quantize reduce sample; do
    tested "racecheck $test" 90 racecheck.log "$sanitizer" --tool racecheck --error-exitcode 9 \
      "$build/tests/kernels/kernels_${test}_test" --gtest_filter='-*DependsOnThreads*:*OfMany*'
  done
}

# trained WHAT SECONDS LOG OPTION...: rows that trajectories.py prints.
trained() {
  local what=$1 limit=$2 log=$3 status=0
  shift 3
  SHOAL_MPIEXEC=$build/bundle/bin/mpiexec tested "$what" "$limit" "$log" python3 -B "$source_root/tests/gpu/trajectories.py" --program "$build/shoal" "$@" || status=$?
  grep -E '^(FAILED|not supported) ' "$out/$log" | tee -a "$table"
  return "$status"
}
part_trajectories() { trained "trajectories of one rank" 400 trajectories.log --reference "$build/bundle/trajectories.json"; }
part_mpi() { trained "two ranks by MPI" 120 mpi.log --mpi; }
part_nccl() { trained "two ranks by NCCL" 300 nccl.log --nccl; }

part_bench() {
  tested "speed against PyTorch" 560 bench.log python3 -B "$source_root/tests/gpu/bench.py" --program "$build/shoal" --json "$out/bench.json"
  sed -n '/^#/p' "$out/bench.log" | tee -a "$table"
}

{ nvidia-smi -L 2>/dev/null || true; } | tee -a "$table"
for part in "${parts[@]}"; do
  if [[ $part != build && ! -x $build/shoal ]]; then
    row FAILED "$part" "there is no $build/shoal; the part build makes it"
    continue
  fi
  case $part in
    kernels) rm -f "$out"/{kernels,bits,test}.log ;;
    sanitizer) rm -f "$out"/{memcheck,racecheck}.log ;;
    *) rm -f "$out/$part.log" ;;
  esac
  "part_$part"
done
echo "run_all.sh: $([[ $failed -eq 0 ]] && echo passed || echo FAILED), $SECONDS s; the table and logs are in $out"
exit "$failed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kokkos_for_cuda.sh SOURCE [NAME...]: compiles the portable kernels (or portable/NAME.cpp) for GPUs with a Kokkos for CUDA, so
# that their text and portable/kokkos_launch.hpp stay portable. Nothing is linked. The headers are those of `make kokkos`, whose
# installation has no CUDA, so CUDA is switched on in a copy of them, as Kokkos' own configuration would.
set -euo pipefail
source=$1
shift
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
headers=$source/build-kokkos/pygenten/include/kokkos
[[ -x $nvcc ]] || { echo "SKIPPED: portable kernels for a Kokkos with CUDA: there is no nvcc" && exit 77; }
[[ -d $headers ]] || { echo "SKIPPED: portable kernels for a Kokkos with CUDA: no headers of Kokkos (make kokkos)" && exit 77; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cp -r "$headers" "$directory/kokkos"
cd "$directory/kokkos"

# define FILE NAME...: as if configured so.
define() {
  local file=$1 name
  shift
  for name in "$@"; do
    sed -i "s,^/\* #undef $name \*/\$,#define $name," "$file"
    grep -q "^#define $name\$" "$file" || { echo "kokkos_for_cuda: $file does not know $name" >&2 && exit 1; }
  done
}
define KokkosCore_config.h KOKKOS_ENABLE_CUDA KOKKOS_ENABLE_CUDA_LAMBDA KOKKOS_ARCH_HOPPER KOKKOS_ARCH_HOPPER90
define desul/atomics/Config.hpp DESUL_ATOMICS_ENABLE_CUDA
sed -i '1i #include <fwd/Kokkos_Fwd_CUDA.hpp>' KokkosCore_Config_FwdBackend.hpp
sed -i '1i #include <decl/Kokkos_Declare_CUDA.hpp>' KokkosCore_Config_DeclareBackend.hpp
sed -i '1i #include <setup/Kokkos_Setup_Cuda.hpp>' KokkosCore_Config_SetupBackend.hpp
# CUDA 13 changed two calls that this Kokkos makes.
if "$nvcc" --version | grep -qE 'release (1[3-9]|[2-9][0-9])\.'; then
  sed -i -e 's/cudaGraphAddDependencies(graph, from, to, num/cudaGraphAddDependencies(graph, from, to, nullptr, num/' \
    -e 's/count, dstDevice, m_stream/count, {cudaMemLocationTypeDevice, dstDevice}, 0, m_stream/' Cuda/Kokkos_Cuda_Instance.hpp
fi

# portable/attention.cpp chooses among the others, and launch.cpp, peak.cpp and runtime.cpp launch nothing.
names=("$@")
[[ $# -gt 0 ]] || mapfile -t names < <(find "$source/kernels/portable" -name '*.cpp' -exec basename -s .cpp {} + |
  grep -vxE 'attention|launch|peak|runtime' | sort)
failed=0
compile() { # NAME
  "$nvcc" -std=c++20 -x cu -c -O1 --generate-code=arch=compute_90,code=sm_90 --extended-lambda --expt-relaxed-constexpr \
    --fmad=false -Xcompiler -fopenmp -DSHOAL_GPU_BY_KOKKOS -I "$source/include" -I "$source" \
    -isystem "$directory/kokkos" "$source/kernels/portable/$1.cpp" -o "$directory/$1.o" >"$directory/$1.log" 2>&1 || return
  nm "$directory/$1.o" >"$directory/$1.symbols"
  grep -q Kokkos "$directory/$1.symbols" || { echo "it is compiled, but does not launch by Kokkos" >"$directory/$1.log" && return 1; }
}
for name in "${names[@]}"; do
  if compile "$name"; then
    echo "portable/$name.cpp: compiles for a Kokkos with CUDA"
  else
    printf 'portable/%s.cpp does not compile for a Kokkos with CUDA:\n%s\n' "$name" "$(head -n 40 "$directory/$name.log")" >&2
    failed=1
  fi
done
exit "$failed"

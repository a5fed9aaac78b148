# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which instructions a processor has, for tests that run as on a processor that has fewer (ONEDNN_MAX_CPU_ISA, which the matrix
# products of the library and of kernels/ heed).

# has FLAG: as /proc/cpuinfo names it.
has() { grep -qwm1 "$1" /proc/cpuinfo; }

# lacks LIMIT: says why this limit of ONEDNN_MAX_CPU_ISA limits nothing here; fails where it does limit.
lacks() {
  local flag
  case $1 in
    AVX2) flag=avx2 ;;
    AVX512_CORE) flag=avx512bw ;;
    AVX512_CORE_BF16) flag=avx512_bf16 ;;
    *) echo "limits.sh: '$1' is no limit that is tested: AVX2, AVX512_CORE, AVX512_CORE_BF16" >&2 && exit 2 ;;
  esac
  has "$flag" && return 1
  echo "this processor has no $flag: ONEDNN_MAX_CPU_ISA=$1 limits nothing"
}

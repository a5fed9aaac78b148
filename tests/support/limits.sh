# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of this processor, for tests that run as on a processor with fewer. The limit is ONEDNN_MAX_CPU_ISA, which oneDNN
# and the matrix products in kernels/ obey.

# has FLAG: true if /proc/cpuinfo lists this flag.
has() { grep -qwm1 "$1" /proc/cpuinfo; }

# lacks LIMIT: succeeds, and prints the reason, if this value of ONEDNN_MAX_CPU_ISA limits nothing on this processor.
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

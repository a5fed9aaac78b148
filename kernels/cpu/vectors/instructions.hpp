// SPDX-License-Identifier: Apache-2.0
// Which of the processor's instructions this process uses. oneDNN's environment variable ONEDNN_MAX_CPU_ISA limits the
// library and also the kernels of cpu/ that choose their instructions at run time. So a limited run computes the same
// bits as a processor that has only these instructions. The limit has no effect on the code that the compiler generates for
// SHOAL_ARCH.
#pragma once

#include <string>

namespace shoal::kernels {

enum class Instructions {
  avx2,
  avx512,
  bf16,  ///< AVX512_BF16: products of pairs of bf16
  tiles  ///< AMX: products of tiles of bf16
};

/// Returns true if the processor has the instructions, the limit allows them and the operating system permits them. The
/// answer does not change during a run.
bool may_use(Instructions instructions);

/// The instructions that oneDNN uses, as the value of ONEDNN_MAX_CPU_ISA that allows exactly these: AVX2, AVX512_CORE,
/// AVX512_CORE_BF16 or AVX512_CORE_AMX. "less than AVX2" on older processors.
std::string instructions_used();

}  // namespace shoal::kernels

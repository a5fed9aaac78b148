// SPDX-License-Identifier: Apache-2.0
// Which of the processor's instructions this process uses. One limit, oneDNN's ONEDNN_MAX_CPU_ISA, holds for the library and
// for the kernels of this folder that choose by processor: a limited run computes what the limited processor would compute.
// What the compiler was told (SHOAL_ARCH) is no part of it.
#pragma once

#include <string>

namespace shoal::kernels {

enum class Instructions {
  avx2,
  avx512,
  bf16,  ///< AVX-512's products of bf16
  tiles  ///< AMX's products of tiles of bf16
};

/// Whether the processor has them, the limit allows them and the system grants them. Asked once, so that a run has one
/// answer.
bool may_use(Instructions instructions);

/// What the library uses, by the limit that would allow just that: AVX2, AVX512_CORE, AVX512_CORE_BF16, AVX512_CORE_AMX;
/// "less than AVX2" on older processors.
std::string instructions_used();

}  // namespace shoal::kernels
